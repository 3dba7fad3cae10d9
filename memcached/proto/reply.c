/* SPDX-License-Identifier: BSD-3-Clause */
/* reply: pieces of constant, copied and held bytes, in the order in which they are sent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/proto.h"

/* Memory that reply_reset keeps: more than nearly all replies need. */
enum { KEEP_TEXT = 16 * 1024, KEEP_PIECES = 512, KEEP_HELD = 256 };

void reply_init(struct reply *reply)
{
    *reply = (struct reply){0};
}

void reply_fini(struct reply *reply)
{
    free(reply->text);
    free(reply->pieces);
    free(reply->held);
    free(reply->holes);
    reply_init(reply);
}

void reply_reset(struct reply *reply)
{
    if (reply->text_size > KEEP_TEXT) {
        free(reply->text);
        reply->text = NULL;
        reply->text_size = 0;
    }
    if (reply->pieces_size > KEEP_PIECES) {
        free(reply->pieces);
        reply->pieces = NULL;
        reply->pieces_size = 0;
    }
    if (reply->held_size > KEEP_HELD) {
        free(reply->held);
        reply->held = NULL;
        reply->held_size = 0;
    }
    if (reply->holes) {
        free(reply->holes);
        reply->holes = NULL;
        reply->holes_size = reply->nholes = reply->nsealed = 0;
    }
    reply->ntext = 0;
    reply->npieces = 0;
    reply->nheld = 0;
    reply->nbytes = 0;
    reply->failed = false;
}

/*
 * Makes room for `n` elements of `width` bytes, by doubling. Returns the array; NULL: no memory,
 * and the old array is unchanged.
 */
static void *grow(void *array, size_t *size, size_t n, size_t first, size_t width)
{
    size_t wanted = *size ? *size : first;
    void *larger;

    while (wanted < n)
        if (__builtin_mul_overflow(wanted, 2, &wanted))
            return NULL;
    larger = reallocarray(array, wanted, width);
    if (larger)
        *size = wanted;
    return larger;
}

/* Makes room for `n` more bytes of text. */
static bool text_room(struct reply *reply, size_t n)
{
    char *text;

    if (n <= reply->text_size - reply->ntext)
        return true;
    text = grow(reply->text, &reply->text_size, reply->ntext + n, 1024, 1);
    if (!text) {
        reply->failed = true;
        return false;
    }
    reply->text = text;
    return true;
}

static bool piece_room(struct reply *reply)
{
    struct reply_piece *pieces;

    if (reply->npieces < reply->pieces_size)
        return true;
    pieces = grow(reply->pieces, &reply->pieces_size, reply->npieces + 1, 16, sizeof(*pieces));
    if (!pieces) {
        reply->failed = true;
        return false;
    }
    reply->pieces = pieces;
    return true;
}

static void add_piece(struct reply *reply, const char *ptr, size_t offset, size_t len)
{
    if (!piece_room(reply))
        return;
    reply->pieces[reply->npieces++] = (struct reply_piece){ptr, offset, len, reply->nbytes};
    reply->nbytes += len;
}

/* Makes the `len` bytes at the end of text a piece of the reply. */
static void add_text(struct reply *reply, size_t len)
{
    struct reply_piece *last = reply->npieces ? &reply->pieces[reply->npieces - 1] : NULL;

    if (last && !last->ptr && last->offset + last->len == reply->ntext &&
        reply->npieces > reply->nsealed) {
        last->len += len;
        reply->nbytes += len;
    } else {
        add_piece(reply, NULL, reply->ntext, len);
    }
    reply->ntext += len;
}

void reply_bytes(struct reply *reply, struct slice bytes)
{
    if (bytes.len)
        add_piece(reply, bytes.ptr, 0, bytes.len);
}

void reply_copy(struct reply *reply, struct slice bytes)
{
    if (bytes.len && text_room(reply, bytes.len)) {
        memcpy(reply->text + reply->ntext, bytes.ptr, bytes.len);
        add_text(reply, bytes.len);
    }
}

void reply_vprintf(struct reply *reply, const char *format, va_list args)
{
    va_list again;
    int n;

    if (!text_room(reply, 128))
        return;
    va_copy(again, args);
    n = vsnprintf(reply->text + reply->ntext, reply->text_size - reply->ntext, format, args);
    if (n > 0 && (size_t)n >= reply->text_size - reply->ntext) {
        n = !text_room(reply, (size_t)n + 1)
                ? 0
                : vsnprintf(reply->text + reply->ntext, reply->text_size - reply->ntext, format,
                            again);
    }
    va_end(again);
    if (n > 0)
        add_text(reply, (size_t)n);
}

void reply_printf(struct reply *reply, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    reply_vprintf(reply, format, args);
    va_end(args);
}

bool reply_hold(struct reply *reply, void *object)
{
    if (reply->nheld == reply->held_size) {
        void **held = grow(reply->held, &reply->held_size, reply->nheld + 1, 16, sizeof(*held));

        if (!held) {
            reply->failed = true;
            return false;
        }
        reply->held = held;
    }
    reply->held[reply->nheld++] = object;
    return true;
}

struct reply_mark reply_mark(const struct reply *reply)
{
    return (struct reply_mark){
        .ntext = reply->ntext,
        .npieces = reply->npieces,
        .nlast = reply->npieces ? reply->pieces[reply->npieces - 1].len : 0,
        .nbytes = reply->nbytes,
        .nholes = reply->nholes,
    };
}

void reply_rewind(struct reply *reply, const struct reply_mark *mark)
{
    reply->ntext = mark->ntext;
    reply->npieces = mark->npieces;
    if (mark->npieces)
        reply->pieces[mark->npieces - 1].len = mark->nlast;
    reply->nbytes = mark->nbytes;
    reply->nholes = mark->nholes;
    reply->failed = false;
}

/* --- bytes that come later ------------------------------------------------- */

/* Makes a piece begin at the mark. False: no memory. */
static bool split_at(struct reply *reply, const struct reply_mark *mark)
{
    struct reply_piece *last;

    if (mark->npieces == 0 || reply->pieces[mark->npieces - 1].len == mark->nlast)
        return true;
    if (!piece_room(reply))
        return false;
    last = &reply->pieces[mark->npieces - 1];
    memmove(last + 1, last, (reply->npieces - mark->npieces + 1) * sizeof(*last));
    last->len = mark->nlast;
    last[1].offset += mark->nlast;
    last[1].len -= mark->nlast;
    last[1].start += mark->nlast;
    reply->npieces++;
    return true;
}

static bool hole_room(struct reply *reply)
{
    struct reply_hole *holes;

    if (reply->nholes < reply->holes_size)
        return true;
    holes = grow(reply->holes, &reply->holes_size, reply->nholes + 1, 4, sizeof(*holes));
    if (holes)
        reply->holes = holes;
    return holes != NULL;
}

bool reply_hole(struct reply *reply, const struct reply_mark *mark, void *object, struct slice miss)
{
    if (reply->failed || !hole_room(reply) || !split_at(reply, mark) ||
        !text_room(reply, miss.len)) {
        reply->failed = true;
        return false;
    }
    reply->holes[reply->nholes++] = (struct reply_hole){
        .first = mark->npieces,
        .npieces = reply->npieces - mark->npieces,
        .object = object,
        .miss = reply->ntext,
        .nmiss = miss.len,
    };
    if (miss.len) {
        memcpy(reply->text + reply->ntext, miss.ptr, miss.len);
        reply->ntext += miss.len;
    }
    reply->nsealed = reply->npieces;
    return true;
}

/* Moves pieces down behind the ones that are kept. */
static void keep_pieces(struct reply *reply, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        struct reply_piece piece = reply->pieces[i];

        piece.start = reply->nbytes;
        reply->nbytes += piece.len;
        reply->pieces[reply->npieces++] = piece;
    }
}

void reply_fill(struct reply *reply, bool (*has_come)(void *context, void *object), void *context)
{
    size_t npieces = reply->npieces;
    size_t next = 0;

    reply->npieces = 0;
    reply->nbytes = 0;
    for (size_t i = 0; i < reply->nholes; i++) {
        const struct reply_hole *hole = &reply->holes[i];

        keep_pieces(reply, next, hole->first - next);
        next = hole->first + hole->npieces;
        if (has_come(context, hole->object)) {
            keep_pieces(reply, hole->first, hole->npieces);
        } else if (hole->nmiss) {
            /* Replaces at least one piece, so there is room. */
            add_piece(reply, NULL, hole->miss, hole->nmiss);
        }
    }
    keep_pieces(reply, next, npieces - next);
    reply->nholes = 0;
    reply->nsealed = reply->npieces;
}

/* --- sending --------------------------------------------------------------- */

/* The piece that holds byte `at`; at < nbytes. */
static size_t find_piece(const struct reply *reply, size_t at)
{
    size_t low = 0;
    size_t high = reply->npieces;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (reply->pieces[middle].start <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static const char *bytes_of(const struct reply *reply, const struct reply_piece *piece)
{
    return piece->ptr ? piece->ptr : reply->text + piece->offset;
}

size_t reply_iov(const struct reply *reply, size_t skip, size_t limit, struct iovec *iov,
                 size_t niov)
{
    size_t i, n;

    if (skip >= reply->nbytes)
        return 0;
    i = skip ? find_piece(reply, skip) : 0;
    skip -= reply->pieces[i].start;
    for (n = 0; n < niov && i < reply->npieces && limit > 0; n++, i++) {
        const struct reply_piece *piece = &reply->pieces[i];
        const char *ptr = bytes_of(reply, piece);
        size_t len = piece->len - skip < limit ? piece->len - skip : limit;

        /* sendmsg takes writable pointers and does not write. */
        iov[n] = (struct iovec){(void *)(uintptr_t)(ptr + skip), len};
        limit -= len;
        skip = 0;
    }
    return n;
}

void reply_read(const struct reply *reply, size_t skip, size_t limit, char *to)
{
    for (size_t i = skip ? find_piece(reply, skip) : 0; limit > 0; i++) {
        const struct reply_piece *piece = &reply->pieces[i];
        size_t at = skip - piece->start;
        size_t len = piece->len - at < limit ? piece->len - at : limit;

        memcpy(to, bytes_of(reply, piece) + at, len);
        to += len;
        skip += len;
        limit -= len;
    }
}
