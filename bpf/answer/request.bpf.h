/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * request: a request of any number of keys, and the reply to it, in struct scratch.
 *
 * The programs bring the request in by request_load and take the reply out, each by its own
 * helpers. It accepts only what the server's parser reads the same way: keys of printable bytes,
 * separated by spaces, up to one newline that ends the datagram. The caller looks the keys up.
 */
#ifndef MC_REQUEST_BPF_H
#define MC_REQUEST_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/transport.bpf.h"

static __always_inline u64 request_word(const struct scratch *scratch, u64 at)
{
    BOUND(at, REQUEST_ROOM - 1);
    return LOAD64(scratch->request + at);
}

/* A byte behind the keys: a newline that ends the request, or why not. */
static __always_inline enum verdict request_ends(const struct scratch *scratch, u64 at)
{
    u64 word = request_word(scratch, at);
    u64 nend = (u16)word == 0x0a0d ? 2 : 1;

    if (nend == 1 && (u8)word != '\n')
        return PASS_REQUEST;
    if (at + nend != scratch->nrequest)
        return PASS_COMMAND; /* another command behind the first */
    return scratch->nkeys ? STEP_END : PASS_REQUEST;
}

/*
 * Skips spaces, many at a time: a request may be almost nothing else. The zeros behind it end the
 * search; what a round could read behind the request's room is there, too.
 */
__attribute__((noinline)) int request_skip(struct scratch *scratch)
{
    u64 at, word = 0, i, j;
    const char *from;

    if (!scratch)
        return PASS_ERROR;
    at = scratch->at;
    for (i = 0; i < REQUEST_MAX / 64 + 1; i++) {
        from = scratch->request;
        BOUND(at, REQUEST_ROOM - 1);
        from += at;
#pragma clang loop unroll(full)
        for (j = 0; j < 8; j++) {
            word = LOAD64(from + 8 * j) ^ ' ' * MASK_BYTES;
            if (word)
                break;
            at += 8;
        }
        if (word)
            break;
    }
    scratch->at = at;
    /* Of the last eight bytes those up to the first that is no space. */
    word |= word >> 4;
    word |= word >> 2;
    word |= word >> 1;
    word = (word & MASK_BYTES) << 7;
    scratch->at += word ? bytes_below(word) : 0;
    return STEP_NEXT;
}

/* Takes the next key into scratch->key and hashes it; `at` moves to the byte behind it. */
static __always_inline enum verdict request_key(struct scratch *scratch)
{
    u64 at = scratch->at, nkey = 0, sum = 0, word = 0, blank = 0, keep, i;

    for (i = 0; i < KEY_WORDS; i++) {
        word = request_word(scratch, at + nkey);
        blank = bytes_blank(word);
        if (blank)
            break;
        scratch->key[i] = word;
        sum += mc_hash_word(word, control.seed[i]);
        nkey += 8;
    }
    if (!blank)
        return PASS_REQUEST;
    scratch->nkey = nkey;
    nkey = READ_ONCE(scratch->nkey); /* as in key_words */
    /* Ones below the top bit of the first blank byte: the bytes to keep. */
    keep = ((blank - 1) & ~blank) >> 7;
    if (keep) {
        i = nkey / 8;
        scratch->key[i & (KEY_WORDS - 1)] = word & keep;
        sum += mc_hash_word(word & keep, control.seed[i & (KEY_WORDS - 1)]);
        nkey += bytes_below(blank);
    }
    if (nkey > MC_KEY_MAX)
        return PASS_REQUEST;
    scratch->nkey = nkey;
    scratch->hash = mc_hash_end(sum, nkey);
    scratch->at = at + nkey;
    return STEP_NEXT;
}

/* Takes the copied item into the reply: VERDICT_OK or a reason. */
static __always_inline enum verdict reply_hit(struct scratch *scratch)
{
    u64 at = scratch->nreply, nhits = scratch->nhits;

    if (nhits >= HITS_MAX)
        return PASS_SIZE;
    BOUND(at, 2047);
    STORE32(scratch->reply + at, (u32)TEXT_VALUE);
    STORE16(scratch->reply + at + 4, (u16)(TEXT_VALUE >> 32));
    scratch->classes[nhits] = scratch->clsid;
    scratch->nhits = nhits + 1;
    scratch->nreply += 6 + scratch->nwire;
    return VERDICT_OK;
}

/* Takes the next key of several: STEP_NEXT, STEP_END or a reason. It ends at scratch->at. */
static __always_inline enum verdict key_next(struct scratch *scratch)
{
    u64 at = scratch->at;
    char first;
    enum verdict rc;

    /* Between two keys one space is the rule. */
    if (scratch->nkeys && (char)request_word(scratch, at) == ' ')
        scratch->at = ++at;
    first = request_word(scratch, at);
    if (first == ' ') {
        rc = request_skip(scratch);
        if (rc != STEP_NEXT)
            return rc;
        at = scratch->at;
        first = request_word(scratch, at);
    }
    if (first == '\r' || first == '\n')
        return request_ends(scratch, at);
    rc = request_key(scratch);
    if (rc != STEP_NEXT)
        return rc;
    if (!scratch->nkey)
        return PASS_REQUEST;
    scratch->nkeys++;
    return STEP_NEXT;
}

/* What follows a key that was looked up: another, STEP_NEXT, or the end as request_ends has it. */
static __always_inline enum verdict request_goes_on(const struct scratch *scratch)
{
    u64 at = scratch->at;
    char next = request_word(scratch, at);

    return next == '\r' || next == '\n' ? request_ends(scratch, at) : STEP_NEXT;
}

/* The sum of a request that is not short. */
__attribute__((noinline)) int request_sum(struct scratch *scratch)
{
    u64 n;

    if (!scratch)
        return 0;
    n = scratch->nrequest;
    CLAMP(n, REQUEST_MAX);
    return sum_fold(text_sum(scratch->request, n));
}

/*
 * What the checksum says of the request in `scratch`, the sum of whose text before scratch->request
 * is `before`.
 */
static __always_inline enum checksum request_judge(struct scratch *scratch, u64 before)
{
    u64 n = scratch->nrequest;

    if (!l4_has_checksum(&scratch->saved, scratch->offsets.v6))
        return ip4_judge(&scratch->saved);
    before += n < 64 ? sum_rest(scratch->request, n) : (u64)request_sum(scratch);
    return scratch->offsets.v6 ? l4_judge(&scratch->saved, 1, before)
                               : l4_judge(&scratch->saved, 0, before);
}

/* Brings the request behind the text's first `skip` bytes into `scratch`: 0 or a reason. */
static __always_inline enum verdict request_load(struct packet packet, struct scratch *scratch,
                                                 u64 skip)
{
    u64 nrequest = scratch->ntext - skip, at;

    if (nrequest - 1 >= REQUEST_MAX)
        return PASS_REQUEST;
    scratch->nrequest = nrequest;
    at = offsets_text(scratch_offsets(scratch)) + skip;
    if (packet.from == PACKET_XDP && nrequest - 8 <= LOAD_DIRECT - 8 &&
        xdp_load_direct(packet.ctx, at, scratch->request, nrequest))
        return VERDICT_OK;
    BOUND_SIZE(nrequest, REQUEST_ROOM - 1);
    if (packet_load(packet, at, scratch->request, nrequest))
        return PASS_ERROR;
    return VERDICT_OK;
}

/*
 * Whether a request's checksum, with `before` as in request_judge, is not wrong: 0 or a reason. TC
 * has to know more: whether it is whole or left to hardware. It is both, of 1 packet in 65,536, by
 * chance: then it cannot be told which.
 */
static __always_inline enum verdict request_check(struct packet packet, struct scratch *scratch,
                                                  u32 before)
{
    enum checksum found = request_judge(scratch, before);

    if (found == CHECKSUM_WRONG)
        return PASS_PACKET;
    if (packet.from != PACKET_XDP && found == CHECKSUM_RIGHT && scratch->checksum_left)
        return PASS_PACKET;
    return VERDICT_OK;
}

/* Before a request's first word is looked at. */
static __always_inline void answer_begin(struct scratch *scratch)
{
    u64 at = scratch->nrequest;

    scratch->at = 0;
    scratch->nkeys = 0;
    scratch->nhits = 0;
    scratch->nmarks = 0;
    scratch->ntries = 0;
    scratch->needs = 0;
    scratch->wire_sum = 0;
    scratch->nreply = REPLY_TEXT;
    /* Zeros behind the request end every search for its end. */
    BOUND(at, REQUEST_ROOM - 1);
    STORE64(scratch->request + at, 0);
}

static __always_inline int request_has_newline(const struct scratch *scratch)
{
    u64 at = scratch->nrequest - 1;

    BOUND(at, REQUEST_ROOM - 1);
    return scratch->request[at] == '\n';
}

static __always_inline void reply_end(struct scratch *scratch)
{
    u64 at = scratch->nreply;

    BOUND(at, 2047);
    STORE32(scratch->reply + at, (u32)TEXT_END);
    scratch->reply[at + 4] = (char)(TEXT_END >> 32);
    scratch->nreply += 5;
}

/* Where the frame of the reply begins, and how long it is without padding. */
static __always_inline u64 reply_start(const struct scratch *scratch)
{
    u64 start = REPLY_TEXT - offsets_text(scratch_offsets(scratch));

    BOUND(start, 31);
    return start;
}

static __always_inline u64 reply_size(const struct scratch *scratch)
{
    return scratch->nreply - reply_start(scratch);
}

/* Ethernet pads short frames; a request that is long enough becomes no shorter than that. */
static __always_inline u64 frame_size(u64 nreply, u64 nframe)
{
    if (nreply >= FRAME_MIN || nframe < FRAME_MIN)
        return nreply;
    return FRAME_MIN;
}

/* The sum of the text of a hit, whose wire bytes have this one. */
static __always_inline u64 hit_text_sum(u64 sum, u64 nwire)
{
    /* Behind an odd number of bytes the 16-bit words are others. */
    return TEXT_VALUE + sum + (TEXT_END << 8 * (nwire & 1));
}

/* The sum of the reply's text, folded. Not inlined: it needs room on its caller's stack. */
__attribute__((noinline)) int reply_text_sum(struct scratch *scratch)
{
    u64 ntext;

    if (!scratch)
        return 0;
    ntext = scratch->nreply - REPLY_TEXT;
    BOUND(ntext, 2047);
    return (int)sum_fold(text_sum(scratch->reply + REPLY_TEXT, ntext));
}

/*
 * The sum of the reply's text of ntext bytes; that of a single hit follows from its item's.
 * at_once: any other is computed without a call, which takes room on the caller's stack.
 */
static __always_inline u64 reply_sum(struct scratch *scratch, u64 ntext, const int at_once)
{
    u64 nwire = scratch->nwire;

    if (scratch->wire_sum && scratch->nhits == 1 && ntext == NVALUE + nwire + NEND)
        return hit_text_sum(scratch->wire_sum, nwire);
    if (at_once)
        return words_sum(scratch->reply + REPLY_TEXT, ntext);
    return (u32)reply_text_sum(scratch);
}

/*
 * Writes the headers before the reply's text, and zeros behind it, where there may be padding.
 * left: the checksum is left to hardware.
 */
__attribute__((noinline)) int reply_headers(struct scratch *scratch, int left)
{
    u64 nreply, ntext;
    void *l4;

    if (!scratch)
        return 0;
    nreply = scratch->nreply;
    ntext = nreply - REPLY_TEXT;
    link_reply(scratch->reply + reply_start(scratch), &scratch->saved,
               scratch->offsets.ip != FRAME_IP);
    BOUND(nreply, 2047);
    STORE64(scratch->reply + nreply, 0);
    l4 = scratch->reply + REPLY_TEXT - L4_TEXT;
    if (scratch->offsets.v6)
        l4_reply(l4 - IP6_BYTES, &scratch->saved, 1, ntext, reply_sum(scratch, ntext, 0));
    else
        l4_reply(l4 - IP4_BYTES, &scratch->saved, 0, ntext, reply_sum(scratch, ntext, 0));
    if (left && scratch->offsets.v6)
        l4_leave_checksum(l4 - IP6_BYTES, 1);
    else if (left)
        l4_leave_checksum(l4 - IP4_BYTES, 0);
    return 0;
}

/* Writes the headers before a text with this sum. */
static __always_inline void write_headers(void *data, const struct scratch *scratch,
                                          struct offsets offsets, u64 ntext, u64 sum)
{
    link_reply(data, &scratch->saved, offsets.ip != FRAME_IP);
    l4_reply(data + offsets.ip, &scratch->saved, offsets.v6, ntext, sum);
}

/* Writes the reply of `scratch` into a frame of IPv4 without tags. 0: it has not its size. */
static __always_inline int xdp_write_plain(struct xdp_md *ctx, struct scratch *scratch)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    const struct offsets offsets = OFFSETS(0, 0);
    u64 ntext = scratch->nreply - REPLY_TEXT;

    if (data + offsets_text(offsets) + 8 > end)
        return 0;
    write_headers(data, scratch, offsets, ntext, reply_sum(scratch, ntext, 1));
    if (ntext < 9) {
        STORE64(data + offsets_text(offsets),
                LOAD64(scratch->reply + REPLY_TEXT) << (64 - 8 * ntext) >> (64 - 8 * ntext));
        return 1;
    }
    return copy_blocks(data + offsets_text(offsets), end, scratch->reply + REPLY_TEXT, ntext,
                       TEXT_MAX);
}

/*
 * The same of any frame, which has come in scratch->nframe bytes. How many it has now is found from
 * that again: if it were handed on, the verifier would follow the copying once for each way to make
 * room.
 */
static __always_inline int xdp_write_reply(struct xdp_md *ctx, struct scratch *scratch)
{
    u64 nframe;

    if (likely(scratch->offsets.ip == FRAME_IP && !scratch->offsets.v6) &&
        xdp_write_plain(ctx, scratch))
        return 1;
    reply_headers(scratch, 0);
    nframe = frame_size(reply_size(scratch), READ_ONCE(scratch->nframe));
    BOUND_SIZE(nframe, 2047);
    return !bpf_xdp_store_bytes(ctx, 0, scratch->reply + reply_start(scratch), nframe);
}

/* Counts the bytes of the request and of its reply of nreply bytes of text. */
static __always_inline void count_payload(struct scratch *scratch, u64 nreply)
{
    scratch->counts.count[MC_COUNT_BYTES_READ] += l4_payload(scratch->ntext);
    scratch->counts.count[MC_COUNT_BYTES_WRITTEN] += l4_payload(nreply);
}

/* Counts a request that has no answer: a quiet one that found nothing. */
static __always_inline void count_silence(struct scratch *scratch, enum mc_count by)
{
    scratch->counts.count[MC_COUNT_BYTES_READ] += l4_payload(scratch->ntext);
    scratch->counts.count[MC_COUNT_MISSES] += scratch->nkeys;
    scratch->counts.count[by]++;
}

__attribute__((noinline)) int count_classes(struct scratch *scratch)
{
    u32 i;

    if (!scratch)
        return 0;
    for (i = 0; i < HITS_MAX; i++) {
        if (i >= scratch->nhits)
            break;
        scratch->counts.class_hits[scratch->classes[i] % MC_CLASSES]++;
    }
    return 0;
}

/* Counts the hits of the reply's items in their slab classes. */
static __always_inline void count_hits(struct scratch *scratch)
{
    scratch->counts.count[MC_COUNT_MISSES] += scratch->nkeys - scratch->nhits;
    if (scratch->nhits == 1)
        scratch->counts.class_hits[scratch->classes[0] % MC_CLASSES]++;
    else if (scratch->nhits)
        count_classes(scratch);
}

#endif
