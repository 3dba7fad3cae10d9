/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_fill: makes entries of the server's replies to gets.
 *
 * Only a datagram whose frame header says that it is the only one is parsed, as VALUE blocks of the
 * given lengths: a first pass checks all of it, a second one keeps each block. The reply to several
 * keys may be several such datagrams (memcached from 1.5.20 on); the last of them has END, which
 * ends the outstanding request. A reply that is longer than a datagram ends no outstanding request.
 * The text is in scratch->request and the current key in scratch->key, as those of a request are in
 * XDP. A datagram of another form may be the reply to a write, which it ends.
 */
#ifndef MC_CHAIN_FILL_BPF_H
#define MC_CHAIN_FILL_BPF_H

#include "bpf/answer/text.bpf.h"
#include "bpf/chain/get.bpf.h"
#include "bpf/chain/maps.bpf.h"
#include "bpf/chain/outstanding.bpf.h"

enum {
    VALUE_BYTES = 6,   /* "VALUE " */
    FLAGS_DIGITS = 10, /* of client flags, 32 bits */
    LENGTH_DIGITS = 4, /* of a value in one datagram */
    REPLY_BLOCKS = HITS_MAX,
};

/* A VALUE block's place in the reply. */
struct reply_block {
    u32 key; /* where the text to keep begins */
    u32 nwire;
    u32 nvalue;
};

static __always_inline u8 reply_byte(const struct scratch *scratch, u64 at)
{
    bound_mask(at, REQUEST_ROOM - 1);
    return scratch->request[at];
}

/* Parses a number of up to `most` digits at *at, and moves *at behind it. -1: no digit. */
static __always_inline s64 reply_digits(const struct scratch *scratch, u32 *at, const u32 most)
{
    s64 number = 0;
    u32 i;

    for (i = 0; i < most; i++) {
        u64 digit = reply_byte(scratch, *at + i) - (u64)'0';

        if (digit > 9)
            break;
        number = number * 10 + digit;
    }
    *at += i;
    return i ? number : -1;
}

/* Parses the block at scratch->at: STEP_NEXT, STEP_END, STEP_MORE, or a reason: it is malformed. */
static __always_inline int block_read(struct scratch *scratch, struct reply_block *block)
{
    u64 word = request_word(scratch, scratch->at);
    u32 at;
    s64 n;

    if ((word & 0xffffffffff) == TEXT_END && scratch->at + 5 == scratch->nrequest)
        return STEP_END;
    if (scratch->at == scratch->nrequest)
        return STEP_MORE;
    if ((word & 0xffffffffffff) != TEXT_VALUE)
        return PASS_REQUEST;
    scratch->at += VALUE_BYTES;
    block->key = scratch->at;
    if (request_key(scratch) != STEP_NEXT || !scratch->nkey)
        return PASS_REQUEST;
    at = scratch->at;
    if (reply_byte(scratch, at++) != ' ' || reply_digits(scratch, &at, FLAGS_DIGITS) < 0 ||
        reply_byte(scratch, at++) != ' ')
        return PASS_REQUEST;
    n = reply_digits(scratch, &at, LENGTH_DIGITS);
    if (n < 0 || (u16)request_word(scratch, at) != 0x0a0d)
        return PASS_REQUEST;
    at += 2 + n;
    if (at + 2 > scratch->nrequest || (u16)request_word(scratch, at) != 0x0a0d)
        return PASS_REQUEST;
    scratch->at = at + 2;
    block->nvalue = n;
    block->nwire = scratch->at - block->key;
    return STEP_NEXT;
}

/* Makes a sequence counter odd, which locks it for writing. 0: another CPU is writing. */
static __always_inline int seq_take(u32 *seq)
{
    u32 before = READ_ONCE(*seq);

    return !(before & 1) && __sync_val_compare_and_swap(seq, before, before + 1) == before;
}

static __always_inline void seq_leave(u32 *seq)
{
    u32 before = __sync_fetch_and_add(seq, 1);

    asm volatile("" : : "r"(before) : "memory");
}

/*
 * Copies n bytes of the reply, from `from` on, into a block of at most `most`. 0: it is being
 * written.
 */
static __always_inline int block_write(const struct scratch *scratch, struct chain_block *block,
                                       u32 index, u64 from, u64 n, const u64 most)
{
    u64 words = (n + 7) / 8, i;

    if (!seq_take(&block->seq))
        return 0;
    block->bucket = index;
    bound_mask(from, REQUEST_ROOM - 1);
    for (i = 0; i < most / 8; i++) {
        if (i >= words || from > REQUEST_ROOM - 1)
            break;
        STORE64(block->wire + 8 * i, LOAD64(scratch->request + from));
        from += 8;
    }
    seq_leave(&block->seq);
    return 1;
}

__attribute__((noinline)) int medium_write(struct scratch *scratch, u32 index, u32 from, u32 n)
{
    u32 place = index & (settings.nmedium - 1);
    struct chain_block *block = bpf_map_lookup_elem(&mc_medium, &place);

    return scratch && block && block_write(scratch, block, index, from, n, CHAIN_MEDIUM);
}

__attribute__((noinline)) int large_write(struct scratch *scratch, u32 index, u32 from, u32 n)
{
    u32 place = index & (settings.nlarge - 1);
    struct chain_block *block = bpf_map_lookup_elem(&mc_large, &place);

    return scratch && block && block_write(scratch, block, index, from, n, CHAIN_LARGE);
}

/* Writes the text of an entry that this CPU has locked. 0: another CPU is writing to its block. */
static __always_inline int entry_write(struct scratch *scratch, struct chain_bucket *bucket,
                                       u32 index, const struct reply_block *block)
{
    u64 from = block->key;

    if (block->nwire <= CHAIN_WIRE) {
        bound_mask(from, REQUEST_ROOM / 2 * 2 - 1);
        if (from > REQUEST_ROOM - CHAIN_WIRE)
            return 0;
        copy64(bucket->wire, scratch->request + from);
        bucket->size = CHAIN_IN_BUCKET;
        return 1;
    }
    if (block->nwire <= CHAIN_MEDIUM) {
        if (!medium_write(scratch, index, from, block->nwire))
            return 0;
        bucket->size = CHAIN_IN_MEDIUM;
        return 1;
    }
    if (!large_write(scratch, index, from, block->nwire))
        return 0;
    bucket->size = CHAIN_IN_LARGE;
    return 1;
}

/*
 * What a fill needs beside the text: when the request arrived (0: do not keep), and at which
 * server.
 */
struct fill {
    u64 asked;
    u64 now;
    u64 server;
};

/*
 * The jiffies when the value was current, which is when the request arrived: two ticks less than
 * computed, since the two clocks are not read at the same moment, and a tick that has begun counts
 * as a whole one.
 */
static __always_inline u64 fill_stamp(const struct fill *fill, u64 hash)
{
    u64 then = bpf_jiffies64() - (fill->now - fill->asked) / tick_ns - 2;

    return ((then << JIFFY_BITS) >> JIFFY_BITS) | stamp_of(hash) << CHAIN_STAMP_BITS;
}

/* Keeps a block under the words of both gates. Returns the counter of the outcome. */
static __always_inline enum chain_count entry_fill(struct scratch *scratch, const struct fill *fill,
                                                   const struct reply_block *block)
{
    u32 index = bucket_index(scratch->hash);
    struct chain_bucket *bucket = bucket_get(index);
    enum gate_state state, every;
    u64 word = 0, whole = 0;
    enum chain_count rc = CHAIN_FILL_BUSY;

    if (!bucket)
        return CHAIN_FILL_BUSY;
    state = gate_look(&bucket->gate, fill->asked, fill->now, &word);
    every = gate_look(&whole_table, fill->asked, fill->now, &whole);
    if (state == GATE_GIVEN_UP || every == GATE_GIVEN_UP)
        return CHAIN_WRITES_LATE;
    if (state != GATE_OPEN || every != GATE_OPEN)
        return CHAIN_FILL_WRITING;
    if (!seq_take(&bucket->seq))
        return CHAIN_FILL_BUSY;
    /* If the block is being written, the bucket's former entry stays, and is as valid as before. */
    if (entry_write(scratch, bucket, index, block)) {
        bucket->nwire = block->nwire;
        bucket->nkey = scratch->nkey;
        bucket->word = word;
        bucket->whole_table_word = whole;
        bucket->server = fill->server;
        bucket->stamp = fill_stamp(fill, scratch->hash);
        rc = CHAIN_FILLS;
    }
    seq_leave(&bucket->seq);
    return rc;
}

/* Parses one block, and keeps it if fill->asked is not 0. */
__attribute__((noinline)) int fill_step(struct scratch *scratch, struct chain_scratch *chain,
                                        const struct fill *fill)
{
    struct reply_block block = {0, 0, 0};
    enum verdict rc;

    if (!scratch || !chain || !fill)
        return PASS_ERROR;
    rc = block_read(scratch, &block);
    if (rc != STEP_NEXT || !fill->asked)
        return rc;
    if (scratch->nkey > settings.key_max || block.nvalue > settings.value_max)
        chain_count(chain, CHAIN_FILL_SIZE);
    else
        chain_count(chain, entry_fill(scratch, fill, &block));
    return rc;
}

/* All blocks of a datagram: STEP_END, STEP_MORE, or a reason: it is no reply to a get. */
__attribute__((noinline)) int fill_pass(struct scratch *scratch, struct chain_scratch *chain,
                                        const struct fill *fill)
{
    int rc = STEP_NEXT, i;

    if (!scratch)
        return PASS_ERROR;
    scratch->at = 0;
    for (i = 0; i < REPLY_BLOCKS + 1; i++) {
        rc = fill_step(scratch, chain, fill);
        if (rc != STEP_NEXT)
            break;
    }
    return rc;
}

/* Copies a reply's text to scratch->request. 0: it is longer than a datagram. l4: its headers. */
static __always_inline int fill_load(struct __sk_buff *skb, struct scratch *scratch,
                                     const struct chain_scratch *chain, const void *l4)
{
    u64 ntext = udp_ntext(l4);

    if (!udp_is_only(l4) || ntext - 1 >= TEXT_MAX || chain->l4 + L4_TEXT + ntext > chain->nframe)
        return 0;
    scratch->nrequest = ntext;
    bound_size(ntext, REQUEST_ROOM - 1);
    if (bpf_skb_load_bytes(skb, chain->l4 + L4_TEXT, scratch->request, ntext))
        return 0;
    bound_mask(ntext, REQUEST_ROOM - 1);
    STORE64(scratch->request + ntext, 0);
    return 1;
}

/* Which server a reply comes from. */
static __always_inline u64 server_replied(const struct outstanding_id *id, u64 v6)
{
    return v6 ? server_of(id->server[0], id->server[1]) : id->server[0];
}

/* --- replies to writes ----------------------------------------------------------------- */

/* A reply of one line to a write, by its first eight bytes and its length. */
struct write_answer {
    char begins[8];
    u64 n;
};

/* What is answered when a write has been executed, and to nothing but a write. */
static const struct write_answer write_answers[] = {
    {"STORED\r\n", 8}, {"NOT_STOR", 12}, {"EXISTS\r\n", 8},
    {"NOT_FOUN", 11},  {"DELETED\r", 9}, {"TOUCHED\r", 9},
};

enum { WRITE_ANSWERS = sizeof(write_answers) / sizeof(*write_answers), NUMBER_MAX = 20 };

/* The same in the binary protocol, which repeats the opcode. */
static __always_inline int answers_binary(const struct scratch *scratch)
{
    u64 word = request_word(scratch, 0), body = bpf_ntohl((u32)request_word(scratch, 8));

    return (req_shape(word >> 8) & (REQ_SHAPE_WRITE | REQ_SHAPE_ANSWERED)) ==
               (REQ_SHAPE_WRITE | REQ_SHAPE_ANSWERED) &&
           scratch->nrequest == PARSER_HEADER_BYTES + body;
}

/*
 * Whether a datagram is all that the server answers to one write, which it has executed. An error
 * may be the answer to a get, HD that to mg.
 */
static __always_inline int fill_is_answer(const struct scratch *scratch)
{
    u64 word = request_word(scratch, 0), n = scratch->nrequest, is;
    u32 i;

    if ((u8)word == PARSER_MAGIC_RESPONSE)
        return answers_binary(scratch);
    if ((u8)word - (u32)'0' <= 9) /* incr and decr */
        return n <= NUMBER_MAX + 2 && (u16)request_word(scratch, n - 2) == 0x0a0d;
#pragma unroll
    for (i = 0; i < WRITE_ANSWERS; i++) {
        __builtin_memcpy(&is, write_answers[i].begins, sizeof(is));
        if (word == is && n == write_answers[i].n)
            return 1;
    }
    return 0;
}

/* It is no reply to a get. */
static __always_inline int fill_answer(const struct scratch *scratch, struct chain_scratch *chain,
                                       u64 hash, u64 now)
{
    if (outstanding_answer(hash, now, fill_is_answer(scratch)))
        return 0;
    return chain_count(chain, CHAIN_FILL_FORM);
}

/* --- a datagram of the server ------------------------------------------------------------ */

__attribute__((noinline)) int fill_reply(struct __sk_buff *skb)
{
    struct chain_scratch *chain = chain_scratch_get();
    struct fill fill = {0, 0, 0}, none = {0, 0, 0};
    struct scratch *scratch = scratch_get();
    u64 l4[L4_TEXT / 8];
    struct outstanding_id id;
    enum verdict rc;

    if (!scratch || !chain || skb->gso_size || !tick_ns ||
        outstanding_read(packet_tc(skb), chain, 0, &id) ||
        bpf_skb_load_bytes(skb, chain->l4, l4, sizeof(l4)) || !udp_is_first(l4))
        return 0;
    if (!fill_load(skb, scratch, chain, l4))
        return chain_count(chain, CHAIN_FILL_SIZE);
    rc = fill_pass(scratch, chain, &none);
    fill.now = bpf_ktime_get_ns();
    if (rc != STEP_END && rc != STEP_MORE)
        return fill_answer(scratch, chain, outstanding_hash(&id), fill.now);
    fill.asked = outstanding_reply(outstanding_hash(&id), fill.now, rc == STEP_END);
    fill.server = server_replied(&id, chain->v6);
    if (!fill.asked)
        return chain_count(chain, CHAIN_FILL_NOT_ASKED);
    return fill_pass(scratch, chain, &fill);
}

#endif
