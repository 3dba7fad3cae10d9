/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/tool/tcpreply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/tool/verdict.h"

enum {
    HEX_BYTES = 32,   /* of a report */
    LINE_MAX = 64,    /* of the line in front of a shared value */
    BINARY_HEAD = 24, /* bytes */
    BINARY_KNOWN = 8, /* of those, that stand in front of a hole */
    BINARY_FLAGS = 4,
    TTL_SLACK = 2, /* seconds by which clocks that tick once a second may differ */
};

/* --- bytes ---------------------------------------------------------------------- */

char *bytes_add(struct bytes *bytes, size_t n)
{
    if (bytes->room - bytes->n < n) {
        bytes->room = 2 * bytes->room + n + 64;
        bytes->at = realloc(bytes->at, bytes->room);
        if (!bytes->at)
            fatal("out of memory");
    }
    bytes->n += n;
    return bytes->at + bytes->n - n;
}

void bytes_put(struct bytes *bytes, const void *from, size_t n)
{
    if (n)
        memcpy(bytes_add(bytes, n), from, n);
}

void bytes_print(struct bytes *bytes, const char *format, ...)
{
    char text[1024];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof(text))
        fatal("a line is too long");
    bytes_put(bytes, text, (size_t)n);
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct bytes){0};
}

/* --- reports -------------------------------------------------------------------- */

const char *printable(const char *bytes, size_t n)
{
    static _Thread_local char text[4 * ASKED_MAX + 1];
    size_t i, at = 0;
    unsigned char c;

    for (i = 0; i < n && i < ASKED_MAX; i++) {
        c = (unsigned char)bytes[i];
        if (c == '\r' || c == '\n')
            at += (size_t)sprintf(text + at, c == '\r' ? "\\r" : "\\n");
        else
            at += (size_t)sprintf(text + at, c >= ' ' && c < 127 ? "%c" : "\\x%02x", c);
    }
    text[at] = '\0';
    return text;
}

static size_t print_hex(char *out, const char *name, const char *bytes, size_t n)
{
    size_t at = (size_t)sprintf(out, "\n  %s:", name), i;

    n = n < HEX_BYTES ? n : HEX_BYTES;
    for (i = 0; i < n; i++)
        at += (size_t)sprintf(out + at, " %02x", (unsigned char)bytes[i]);
    return at + (size_t)sprintf(out + at, "  \"%s\"", printable(bytes, n));
}

static const char *complain(const struct replies *replies, const char *want, size_t nwant,
                            const char *got, size_t ngot, const char *why)
{
    static _Thread_local char text[4096];
    size_t at;

    at = (size_t)snprintf(text, 512, "byte %zu of the reply, byte %" PRIu64 " of the stream: %s",
                          replies->at, replies->nreceived, why);
    at += print_hex(text + at, "expected", want, nwant);
    print_hex(text + at, "received", got, ngot);
    return text;
}

/* --- operations ------------------------------------------------------------------ */

struct op *op_new(uint64_t number)
{
    struct op *op = calloc(1, sizeof(*op));

    if (!op)
        fatal("out of memory");
    op->number = number;
    return op;
}

static void op_free(struct op *op)
{
    bytes_free(&op->text);
    free(op->holes);
    free(op);
}

void op_hole(struct op *op, const struct hole *hole)
{
    op->holes = realloc(op->holes, (op->nholes + 1) * sizeof(*op->holes));
    if (!op->holes)
        fatal("out of memory");
    op->holes[op->nholes] = *hole;
    op->holes[op->nholes++].at = op->text.n;
}

bool op_is_silent(const struct op *op)
{
    return !op->text.n && !op->nholes;
}

void replies_expect(struct replies *replies, struct op *op)
{
    if (replies->last)
        replies->last->next = op;
    else
        replies->first = op;
    replies->last = op;
    replies->nwaiting += !op_is_silent(op);
}

static void remove_first(struct replies *replies)
{
    struct op *op = replies->first;

    replies->first = op->next;
    if (!op->next)
        replies->last = NULL;
    op_free(op);
}

void replies_drop(struct replies *replies)
{
    while (replies->first)
        remove_first(replies);
    replies->nwaiting = 0;
    replies->at = 0;
    replies->hole = 0;
    replies->filling.n = 0;
    replies->nreceived = 0;
}

void replies_free(struct replies *replies)
{
    replies_drop(replies);
    bytes_free(&replies->filling);
}

/* What the first operation tells by being executed. */
static void op_executed(struct replies *replies)
{
    struct op *op = replies->first;

    if (op->written && op->version > op->written->floor)
        op->written->floor = op->version;
    replies->nanswered++;
    remove_first(replies);
}

/* --- holes: each takes bytes until it is full ---------------------------------------- */

size_t shared_value(const struct shared_key *key, uint64_t version, char *out)
{
    uint64_t random = (version + 1) * 0x9e3779b97f4a7c15ull ^ key->index;
    size_t n, i;

    next_random(&random);
    n = SHARED_DIGITS + next_random(&random) % (SHARED_MAX - SHARED_DIGITS);
    if (version % 4)
        n = SHARED_DIGITS + n % 64;
    sprintf(out, "%0*" PRIu64, SHARED_DIGITS, version);
    for (i = SHARED_DIGITS; i < n; i++)
        out[i] = (char)next_random(&random);
    return n;
}

static const char *cas_check(struct replies *replies, const struct hole *hole, uint64_t id)
{
    struct cas *cas = hole->cas;
    char want[32];

    if (!id)
        return complain(replies, "", 0, replies->filling.at, replies->filling.n, "no CAS id");
    if (cas->id && cas->change == hole->change && cas->id != id)
        return complain(replies, want, (size_t)sprintf(want, "%" PRIu64, cas->id),
                        replies->filling.at, replies->filling.n,
                        "another CAS id of a value that has not changed");
    if (cas->id && cas->change != hole->change && cas->id == id)
        return complain(replies, "", 0, replies->filling.at, replies->filling.n,
                        "the CAS id of a value that has changed since");
    if (!cas->id || cas->change < hole->change)
        *cas = (struct cas){id, hole->change, hole->round};
    return NULL;
}

static const char *ttl_check(struct replies *replies, const struct hole *hole, uint64_t ttl,
                             uint64_t now_ns)
{
    uint64_t passed = (now_ns - hole->since_ns) / 1000000000u + TTL_SLACK;
    char want[64];

    if (ttl <= hole->ttl + TTL_SLACK && ttl + passed >= hole->ttl)
        return NULL;
    return complain(replies, want,
                    (size_t)sprintf(want, "%" PRIu64 " since %" PRIu64 " s", hole->ttl, passed),
                    replies->filling.at, replies->filling.n, "another time to live");
}

/* A number of decimal digits: ends before the first byte that is none. */
static const char *take_number(struct replies *replies, const struct hole *hole, char c,
                               uint64_t now_ns, bool *full)
{
    uint64_t number;

    if (c >= '0' && c <= '9' && replies->filling.n < 20) {
        bytes_put(&replies->filling, &c, 1);
        return NULL;
    }
    *full = true;
    if (!replies->filling.n)
        return complain(replies, "", 0, &c, 1, "no number");
    bytes_put(&replies->filling, "", 1);
    number = strtoull(replies->filling.at, NULL, 10);
    replies->filling.n--;
    return hole->kind == HOLE_TTL ? ttl_check(replies, hole, number, now_ns)
                                  : cas_check(replies, hole, number);
}

static uint64_t take_big_endian(const char *bytes, size_t n)
{
    uint64_t number = 0;
    size_t i;

    for (i = 0; i < n; i++)
        number = number << 8 | (unsigned char)bytes[i];
    return number;
}

static const char *shared_check(struct replies *replies, const struct hole *hole, const char *value,
                                size_t n)
{
    struct shared_key *key = hole->shared;
    char want[SHARED_MAX + 1], why[160], digits[SHARED_DIGITS + 1] = "";
    size_t nwant, i;
    uint64_t version;

    memcpy(digits, value, n < SHARED_DIGITS ? n : SHARED_DIGITS);
    version = strtoull(digits, NULL, 10);
    nwant = shared_value(key, version, want);
    for (i = 0; i < n && i < nwant && value[i] == want[i]; i++)
        continue;
    if (i < n || i < nwant) {
        snprintf(why, sizeof(why), "byte %zu of the value of %s, version %" PRIu64 ", %zu bytes", i,
                 key->name, version, n);
        return complain(replies, want + i, nwant - i, value + i, n - i, why);
    }
    snprintf(why, sizeof(why),
             "%s has version %" PRIu64 ", %" PRIu64 " was acknowledged before, %" PRIu64 " begun",
             key->name, version, hole->floor, key->begun);
    if (version < hole->floor || version > key->begun)
        return complain(replies, "", 0, value, n, why);
    if (version > key->floor)
        key->floor = version;
    return NULL;
}

/* "<bytes>\r\n<value>". How many bytes more it wants; 0: it is full, or wrong. */
static size_t shared_wants(const struct replies *replies)
{
    const struct bytes *filling = &replies->filling;
    const char *end = filling->n ? memchr(filling->at, '\n', filling->n) : NULL;
    size_t n;

    if (!end)
        return filling->n < LINE_MAX;
    n = strtoul(filling->at, NULL, 10);
    n = n > SHARED_MAX ? 0 : n + (size_t)(end + 1 - filling->at);
    return n > filling->n ? n - filling->n : 0;
}

static const char *take_shared(struct replies *replies, const struct hole *hole)
{
    struct bytes *filling = &replies->filling;
    const char *end = memchr(filling->at, '\n', filling->n);
    char want[LINE_MAX];
    size_t n, nline;

    nline = end ? (size_t)(end + 1 - filling->at) : filling->n;
    n = end ? strtoul(filling->at, NULL, 10) : 0;
    if (!end || (size_t)sprintf(want, "%zu\r\n", n) != nline ||
        memcmp(want, filling->at, nline) != 0 || filling->n != nline + n)
        return complain(replies, "", 0, filling->at, filling->n,
                        "no length of a value of a shared key");
    return shared_check(replies, hole, end + 1, n);
}

static size_t shared_binary_wants(const struct replies *replies)
{
    const struct bytes *filling = &replies->filling;
    size_t n;

    if (filling->n < 4)
        return 4 - filling->n;
    n = BINARY_HEAD - BINARY_KNOWN + take_big_endian(filling->at, 4);
    return n > filling->n && n < 4 * SHARED_MAX ? n - filling->n : 0;
}

static const char *take_shared_binary(struct replies *replies, const struct hole *hole)
{
    const struct bytes *filling = &replies->filling;
    size_t nkey = hole->with_key ? strlen(hole->shared->name) : 0;
    size_t nbody = take_big_endian(filling->at, 4), nfront = BINARY_HEAD - BINARY_KNOWN;
    const char *body = filling->at + nfront;

    if (filling->n < nfront + BINARY_FLAGS + nkey || filling->n != nfront + nbody ||
        take_big_endian(filling->at + 4, 4) != hole->opaque ||
        !take_big_endian(filling->at + 8, 8) || take_big_endian(body, BINARY_FLAGS) ||
        memcmp(body + BINARY_FLAGS, hole->shared->name, nkey) != 0)
        return complain(replies, hole->shared->name, nkey, filling->at, filling->n,
                        "length, opaque, flags or key of a shared key's reply");
    return shared_check(replies, hole, body + BINARY_FLAGS + nkey, nbody - BINARY_FLAGS - nkey);
}

/* Takes bytes for the next hole. *taken: how many; *full: it has all. */
static const char *fill_hole(struct replies *replies, const char *bytes, size_t n, uint64_t now_ns,
                             size_t *taken, bool *full)
{
    const struct hole *hole = &replies->first->holes[replies->hole];
    struct bytes *filling = &replies->filling;
    size_t before = filling->n, wants = 0;
    const char *wrong = NULL;

    switch (hole->kind) {
    case HOLE_CAS:
    case HOLE_TTL:
        wrong = take_number(replies, hole, *bytes, now_ns, full);
        *taken = filling->n - before;
        return wrong;
    case HOLE_CAS_BINARY:
        wants = 8 - filling->n;
        break;
    case HOLE_SHARED:
        wants = shared_wants(replies);
        break;
    case HOLE_SHARED_BINARY:
        wants = shared_binary_wants(replies);
        break;
    }
    *taken = wants < n ? wants : n;
    bytes_put(filling, bytes, *taken);
    if (hole->kind == HOLE_CAS_BINARY) {
        *full = filling->n == 8;
        return *full ? cas_check(replies, hole, take_big_endian(filling->at, 8)) : NULL;
    }
    wants = hole->kind == HOLE_SHARED ? shared_wants(replies) : shared_binary_wants(replies);
    *full = !wants;
    if (wants)
        return NULL;
    return hole->kind == HOLE_SHARED ? take_shared(replies, hole)
                                     : take_shared_binary(replies, hole);
}

/* --- the stream ---------------------------------------------------------------------- */

/* The first operation that has a reply is `first` from now on: those before it are executed when
 * the server has begun to answer it. */
static bool skip_silent(struct replies *replies)
{
    if (!replies->nwaiting)
        return false;
    while (op_is_silent(replies->first))
        op_executed(replies);
    return true;
}

static bool at_hole(const struct replies *replies)
{
    const struct op *op = replies->first;

    return replies->hole < op->nholes && op->holes[replies->hole].at == replies->at;
}

/* Compares bytes with the text up to the next hole; *taken: how many. */
static const char *compare(struct replies *replies, const char *bytes, size_t n, size_t *taken)
{
    const struct op *op = replies->first;
    size_t end = replies->hole < op->nholes ? op->holes[replies->hole].at : op->text.n;
    size_t run = end - replies->at < n ? end - replies->at : n, i;
    const char *want = op->text.at + replies->at;

    *taken = run;
    if (memcmp(want, bytes, run) == 0) {
        replies->at += run;
        return NULL;
    }
    for (i = 0; want[i] == bytes[i]; i++)
        continue;
    replies->at += i;
    replies->nreceived += i;
    return complain(replies, want + i, end - replies->at, bytes + i, n - i, "another byte");
}

const char *replies_take(struct replies *replies, const char *bytes, size_t n, uint64_t now_ns)
{
    const char *wrong = NULL;
    size_t taken = 0;
    bool full;

    while (n > 0 && !wrong) {
        if (!skip_silent(replies))
            return complain(replies, "", 0, bytes, n, "a reply that nobody asked for");
        full = false;
        if (at_hole(replies))
            wrong = fill_hole(replies, bytes, n, now_ns, &taken, &full);
        else
            wrong = compare(replies, bytes, n, &taken);
        if (wrong)
            return wrong;
        bytes += taken;
        n -= taken;
        replies->nreceived += taken;
        if (full) {
            replies->hole++;
            replies->filling.n = 0;
        }
        if (replies->at == replies->first->text.n && replies->hole == replies->first->nholes) {
            replies->at = 0;
            replies->hole = 0;
            replies->nwaiting--;
            op_executed(replies);
        }
    }
    return wrong;
}
