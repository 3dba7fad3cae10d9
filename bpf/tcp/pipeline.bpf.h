/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_pipeline: a segment of several requests, which is answered as if it were one, with all
 * replies as its reply: the connection's state knows one region of each stream, wherever in it a
 * request ends. All of them are answered, or none is.
 *
 * Each request in turn is taken to where one alone would be, and is answered behind the replies
 * before it. So none sees an older state than a request before it; writes may lie between them, as
 * if the server answered. A client mostly ends quiet requests with one that asks for no item, to
 * know when it has all replies: "mn" and Noop are answered here, and only here.
 */
#ifndef MC_TCP_PIPELINE_BPF_H
#define MC_TCP_PIPELINE_BPF_H

#include "bpf/answer/get.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/tcp/conn.bpf.h"

enum {
    PIPELINE_MAX = 128, /* requests in a segment */
    BINARY_NOOP = 0x0a,
};

/* "mn\r\n" and "MN\r\n" as little-endian numbers. */
#define TEXT_NOOP       0x0a0d6e6du
#define TEXT_NOOP_REPLY 0x0a0d4e4du
enum { NNOOP = 4 };

static __always_inline u64 pipeline_word(const struct segment_scratch *tcp, u64 at)
{
    bound_mask(at, REQUEST_ROOM - 1);
    return LOAD64(tcp->text + at);
}

/*
 * Takes the line that begins at `at` into scratch->request: its bytes; 0: it does not end. How many
 * words it has is found in memory again: else the verifier would go on once for each number.
 */
static __always_inline u64 pipeline_line(struct scratch *scratch, const struct segment_scratch *tcp,
                                         u64 at)
{
    u64 word, ends = 0, i;

    for (i = 0; i < REQUEST_MAX / 8; i++) {
        word = pipeline_word(tcp, at + 8 * i);
        STORE64(scratch->request + 8 * i, word);
        ends = bytes_zero(word ^ '\n' * MASK_BYTES);
        if (ends) {
            WRITE_ONCE(scratch->nrequest, 8 * i);
            break;
        }
    }
    return ends ? READ_ONCE(scratch->nrequest) + bytes_below(ends) + 1 : 0;
}

/* The same of a request of the binary protocol. 0: it is longer than any that is answered. */
static __always_inline u64 pipeline_binary(struct scratch *scratch,
                                           const struct segment_scratch *tcp, u64 at)
{
    u64 nbody = bpf_ntohl((u32)pipeline_word(tcp, at + 8));

    if (nbody > MC_KEY_MAX)
        return 0;
    bound_mask(at, REQUEST_ROOM - 1);
    copy_over(scratch->request, tcp->text + at, BINARY_HEAD + nbody, BINARY_HEAD + MC_KEY_MAX);
    return BINARY_HEAD + nbody;
}

/*
 * Takes the next request into scratch->request, a get without its "get ": what it seems to be,
 * STEP_END behind the last, or a reason to pass.
 */
__attribute__((noinline)) int pipeline_next(struct scratch *scratch, struct segment_scratch *tcp)
{
    u64 at, n;
    u32 text;
    enum verdict kind;

    if (!scratch || !tcp)
        return PASS_ERROR;
    if (scratch->nreply > REPLY_MAX)
        return PASS_SIZE;
    tcp->nkeys += scratch->nkeys;
    at = tcp->at;
    if (at >= tcp->segment.n) {
        scratch->nkeys = tcp->nkeys;
        scratch->wire_sum = 0; /* of the last hit alone */
        return STEP_END;
    }
    tcp->nrequests++;
    text = pipeline_word(tcp, at);
    if (((u8)text == BINARY_MAGIC) != ((u8)tcp->text[0] == BINARY_MAGIC))
        return PASS_COMMAND;
    kind = text_kind(text);
    WRITE_ONCE(tcp->kind, kind);
    if (kind == HEAD_GET)
        WRITE_ONCE(tcp->at, at + NGET);
    at = READ_ONCE(tcp->at); /* from memory, as in pipeline_line */
    n = (u8)text == BINARY_MAGIC ? pipeline_binary(scratch, tcp, at)
                                 : pipeline_line(scratch, tcp, at);
    /* What the text has behind its end is older. */
    if (!n || at + n > tcp->segment.n) /* RULE_WHOLE */
        return PASS_REQUEST;
    scratch->nrequest = n;
    tcp->at = at + n;
    return READ_ONCE(tcp->kind);
}

/* Answers the request that only ends others. STEP_END or a reason. */
static __always_inline enum verdict noop_add(struct scratch *scratch)
{
    const u32 *head = (const void *)scratch->request;

    request_begin(scratch);
    if (head[0] == TEXT_NOOP) {
        scratch->nreply = reply_add(scratch, scratch->nreply, TEXT_NOOP_REPLY, NNOOP);
        return STEP_END;
    }
    /* Without key, extras and value. */
    if ((u8)head[0] != BINARY_MAGIC || binary_opcode(scratch) != BINARY_NOOP || head[0] >> 16 ||
        scratch->request[4] || head[2])
        return PASS_COMMAND;
    scratch->nreply = reply_binary_head(scratch, 0, 0, 0, 0, 0);
    return STEP_END;
}

/*
 * Answers the request in scratch->request, which seems to be of this kind, behind what the reply
 * has: as get_answer. A function: one alone and several come here.
 */
__attribute__((noinline)) int request_add(struct scratch *scratch, int kind)
{
    if (!scratch)
        return PASS_ERROR;
    if (kind == HEAD_GET)
        return get_add(scratch);
    return kind == HEAD_VERB ? verb_add(scratch, LOOK_AGAIN) : noop_add(scratch);
}

/* Before the first: keeps the text, which is in scratch->request, a get without its "get ". */
__attribute__((noinline)) int pipeline_begin(struct scratch *scratch, struct segment_scratch *tcp,
                                             int kind)
{
    u64 skipped = kind == HEAD_GET ? NGET : 0;

    if (!scratch || !tcp)
        return 0;
    STORE32(tcp->text, TEXT_GET);
    bound_mask(skipped, 7);
    copy_over(tcp->text + skipped, scratch->request, scratch->nrequest, REQUEST_MAX);
    tcp->at = tcp->nkeys = tcp->nrequests = 0;
    scratch->nkeys = 0;
    reply_begin(scratch);
    return 0;
}

/*
 * Answers all requests of a segment's text, of which `kind` is said of the first. STEP_END or a
 * reason.
 */
static __always_inline enum verdict pipeline_answer(struct scratch *scratch,
                                                    struct segment_scratch *tcp, enum verdict kind)
{
    enum verdict rc;
    int i;

    pipeline_begin(scratch, tcp, kind);
    for (i = 0; i <= PIPELINE_MAX; i++) {
        rc = pipeline_next(scratch, tcp);
        if (rc < HEAD_GET || rc > HEAD_FOREIGN)
            return rc;
        rc = request_add(scratch, rc);
        if (rc != STEP_END)
            return rc;
    }
    return PASS_COMMAND;
}

/*
 * Answers the requests that packet_take has left in scratch->request, mostly one, which seems to be
 * of this kind. STEP_END or a reason.
 */
static __always_inline enum verdict segment_answer(struct scratch *scratch,
                                                   struct segment_scratch *tcp, enum verdict kind)
{
    enum verdict rc;

    tcp->nrequests = 1;
    reply_begin(scratch);
    rc = request_add(scratch, kind);
    return likely(rc != PASS_COMMAND) ? rc : pipeline_answer(scratch, tcp, kind);
}

#endif
