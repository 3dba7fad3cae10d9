/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * request: a request of any number of keys, and the reply to it, in struct work.
 *
 * It touches no packet: the programs bring the request in and take the reply out, each by its own
 * helpers. It grants what the server's parser would read the same way, and nothing else: keys of
 * printable bytes, separated by spaces, up to one newline that ends the datagram. What becomes of a
 * key is its caller's.
 */
#ifndef MC_REQUEST_BPF_H
#define MC_REQUEST_BPF_H

#include "bpf/packet/kernel.bpf.h"
#include "bpf/packet/packet.bpf.h"

/* What a step says; any other value is a reason to pass. STEP_END: the reply is complete. */
enum { STEP_NEXT = 0, STEP_END = 1 };

static __always_inline u64 request_word(const struct work *work, u64 at)
{
    BOUND(at, REQUEST_ROOM - 1);
    return LOAD64(work->request + at);
}

/* A byte behind the keys: a newline that ends the request, or why not. */
static __always_inline int request_ends(const struct work *work, u64 at)
{
    u64 word = request_word(work, at);
    u64 nend = (u16)word == 0x0a0d ? 2 : 1;

    if (nend == 1 && (u8)word != '\n')
        return MC_COUNT_PASS_REQUEST;
    if (at + nend != work->nrequest)
        return MC_COUNT_PASS_COMMAND; /* another command behind the first */
    return work->nkeys ? STEP_END : MC_COUNT_PASS_REQUEST;
}

/* Skips spaces, many at a time: a request may be almost nothing else. */
__attribute__((noinline)) int request_skip(struct work *work)
{
    u64 at, word, i;

    if (!work)
        return MC_COUNT_PASS_ERROR;
    at = work->at;
    for (i = 0; i < REQUEST_MAX / 8 + 1; i++) {
        word = request_word(work, at) ^ ' ' * MASK_BYTES;
        if (word)
            break;
        at += 8;
    }
    work->at = at;
    /* Of the last eight bytes those up to the first that is no space. */
    word |= word >> 4;
    word |= word >> 2;
    word |= word >> 1;
    word = (word & MASK_BYTES) << 7;
    work->at += word ? bytes_below(word) : 0;
    return STEP_NEXT;
}

/* Takes the next key into work->key and hashes it; `at` moves to the byte behind it. */
static __always_inline int request_key(struct work *work)
{
    u64 at = work->at, nkey = 0, sum = 0, word = 0, blank = 0, keep, i;

    for (i = 0; i < KEY_WORDS; i++) {
        word = request_word(work, at + nkey);
        blank = bytes_blank(word);
        if (blank)
            break;
        work->key[i] = word;
        sum += mc_hash_word(word, control.seed[i]);
        nkey += 8;
    }
    if (!blank)
        return MC_COUNT_PASS_REQUEST;
    /* Ones below the top bit of the first blank byte: the bytes to keep. */
    keep = ((blank - 1) & ~blank) >> 7;
    if (keep) {
        work->key[i & (KEY_WORDS - 1)] = word & keep;
        sum += mc_hash_word(word & keep, control.seed[i & (KEY_WORDS - 1)]);
        nkey += bytes_below(blank);
    }
    if (nkey > MC_KEY_MAX)
        return MC_COUNT_PASS_REQUEST;
    work->nkey = nkey;
    work->hash = mc_hash_end(sum, nkey);
    work->at = at + nkey;
    return STEP_NEXT;
}

/* Takes the copied item into the reply. */
static __always_inline int reply_hit(struct work *work)
{
    u64 at = work->nreply, nhits = work->nhits;

    if (nhits >= HITS_MAX)
        return MC_COUNT_PASS_SIZE;
    BOUND(at, 2047);
    STORE32(work->reply + at, (u32)TEXT_VALUE);
    STORE16(work->reply + at + 4, (u16)(TEXT_VALUE >> 32));
    work->classes[nhits] = work->clsid;
    work->nhits = nhits + 1;
    work->nreply += 6 + work->nwire;
    return STEP_NEXT;
}

/*
 * Takes the next key of several: STEP_NEXT, STEP_END or a reason. *from: where it, and the spaces
 * before it, begin but for the first space.
 */
static __always_inline int key_next(struct work *work, u64 *from)
{
    u64 at = work->at;
    char first;
    int rc;

    /* Between two keys one space is the rule. */
    if (work->nkeys && (char)request_word(work, at) == ' ')
        work->at = ++at;
    first = request_word(work, at);
    if (first == ' ') {
        rc = request_skip(work);
        if (rc != STEP_NEXT)
            return rc;
        at = work->at;
        first = request_word(work, at);
    }
    if (first == '\r' || first == '\n')
        return request_ends(work, at);
    rc = request_key(work);
    if (rc != STEP_NEXT)
        return rc;
    if (!work->nkey)
        return MC_COUNT_PASS_REQUEST;
    work->nkeys++;
    *from = at;
    return STEP_NEXT;
}

/* The sum of a request that is not short. */
__attribute__((noinline)) int request_sum(struct work *work)
{
    u64 n;

    if (!work)
        return 0;
    n = work->nrequest;
    CLAMP(n, REQUEST_MAX);
    return sum_fold(text_sum(work->request, n));
}

/*
 * What the checksum says of the request in `work`, the sum of whose text before work->request is
 * `before`.
 */
static __always_inline enum checksum request_judge(struct work *work, u64 before)
{
    u64 n = work->nrequest;

    if (!head_has_checksum(&work->head, work->form.v6))
        return CHECKSUM_RIGHT;
    before += n < 64 ? sum_rest(work->request, n) : (u64)request_sum(work);
    return work->form.v6 ? head_judge(&work->head, 1, before) : head_judge(&work->head, 0, before);
}

/* Before a request's first word is looked at. */
static __always_inline void answer_begin(struct work *work)
{
    u64 at = work->nrequest;

    work->at = 0;
    work->nkeys = 0;
    work->nhits = 0;
    work->ntries = 0;
    work->nreply = REPLY_TEXT;
    /* Zeros behind the request end every search for its end. */
    BOUND(at, REQUEST_ROOM - 1);
    STORE64(work->request + at, 0);
}

static __always_inline int request_has_newline(const struct work *work)
{
    u64 at = work->nrequest - 1;

    BOUND(at, REQUEST_ROOM - 1);
    return work->request[at] == '\n';
}

static __always_inline void reply_end(struct work *work)
{
    u64 at = work->nreply;

    BOUND(at, 2047);
    STORE32(work->reply + at, (u32)TEXT_END);
    work->reply[at + 4] = (char)(TEXT_END >> 32);
    work->nreply += 5;
}

/* Where the frame of the reply begins, and how long it is without padding. */
static __always_inline u64 reply_start(const struct work *work)
{
    u64 start = REPLY_TEXT - form_udp(work->form) - UDP_TEXT;

    BOUND(start, 31);
    return start;
}

static __always_inline u64 reply_size(const struct work *work)
{
    return work->nreply - reply_start(work);
}

/* Ethernet pads short frames; a request that is long enough becomes no shorter than that. */
static __always_inline u64 frame_size(u64 nreply, u64 nframe)
{
    if (nreply >= FRAME_MIN || nframe < FRAME_MIN)
        return nreply;
    return FRAME_MIN;
}

/*
 * Writes the headers before the reply's text, and zeros behind it, where there may be padding.
 * left: the checksum is left to hardware.
 */
__attribute__((noinline)) int reply_head(struct work *work, int left)
{
    u64 nreply, ntext;
    char *udp;

    if (!work)
        return 0;
    nreply = work->nreply;
    ntext = nreply - REPLY_TEXT;
    head_link(work->reply + reply_start(work), &work->head, work->form.ip != FRAME_IP);
    BOUND(nreply, 2047);
    STORE64(work->reply + nreply, 0);
    udp = work->reply + REPLY_TEXT - UDP_TEXT;
    if (work->form.v6)
        head_ip6(udp - IP6_BYTES, &work->head, ntext, text_sum(work->reply + REPLY_TEXT, ntext));
    else
        head_ip4(udp - IP4_BYTES, &work->head, ntext);
    if (left)
        STORE16(udp + 6, work->form.v6 ? checksum_begun(udp - IP6_BYTES, 1)
                                       : checksum_begun(udp - IP4_BYTES, 0));
    return 0;
}

static __always_inline void count_bytes(struct work *work, u64 nread, u64 nwritten)
{
    work->counts.count[MC_COUNT_BYTES_READ] += nread;
    work->counts.count[MC_COUNT_BYTES_WRITTEN] += nwritten;
}

/* Counts the hits of the reply's items in their slab classes. */
__attribute__((noinline)) int count_hits(struct work *work)
{
    u32 i;

    if (!work)
        return 0;
    for (i = 0; i < HITS_MAX; i++) {
        if (i >= work->nhits)
            break;
        work->counts.class_hits[work->classes[i] % MC_CLASSES]++;
    }
    work->counts.count[MC_COUNT_MISSES] += work->nkeys - work->nhits;
    return 0;
}

#endif
