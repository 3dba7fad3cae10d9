/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * verdict: what a function says of a packet, of a request or of an item in the server's memory. One
 * enum for all programs, so that a verdict can be handed up through any of them.
 *
 * A reason to pass is the counter that it is counted by, behind the first number of its range: the
 * ranges begin at multiples of 32, and so the low bits are the counter (count_reason, tcp_count,
 * chain_count).
 */
#ifndef MC_VERDICT_BPF_H
#define MC_VERDICT_BPF_H

#include "bpf/shared/chain.h"
#include "bpf/shared/tcp.h"

enum verdict {
    VERDICT_OK, /* go on: nothing is against it */

    /* What a packet is, by its headers and its text's first bytes. */
    HEAD_GET,     /* a get for us */
    HEAD_VERB,    /* another request for us that may be answered: text_is_verb */
    HEAD_HIDDEN,  /* a get for us that only TC may answer */
    HEAD_FOREIGN, /* to another port, or no such request */
    HEAD_REMOTE,  /* to our port, and to an address that is not ours */
    HEAD_ODD,     /* not plain, or too short */

    /* What a step through a request has come to. */
    STEP_NEXT, /* the next one follows */
    STEP_END,  /* the reply is complete */
    STEP_MISS, /* of the chain: a key is missing */
    STEP_MANY, /* there are several keys, or it cannot be read in place */
    STEP_MORE, /* of a reply: it goes on in another datagram */

    /* What a lookup has come to. */
    FOUND_HIT,
    FOUND_MISS,
    FOUND_OTHER, /* an item of another key */
    FOUND_RETRY, /* a writer was there */
    FOUND_MORE,  /* not so plain: key_find has to look */

    /* Passed to the server, for a reason of enum mc_count. */
    VERDICT_PASS = 32,
    PASS_COMMAND = VERDICT_PASS + MC_COUNT_PASS_COMMAND,
    PASS_FRAME = VERDICT_PASS + MC_COUNT_PASS_FRAME,
    PASS_PACKET = VERDICT_PASS + MC_COUNT_PASS_PACKET,
    PASS_REQUEST = VERDICT_PASS + MC_COUNT_PASS_REQUEST,
    PASS_ITEM = VERDICT_PASS + MC_COUNT_PASS_ITEM,
    PASS_EXPIRED = VERDICT_PASS + MC_COUNT_PASS_EXPIRED,
    PASS_SIZE = VERDICT_PASS + MC_COUNT_PASS_SIZE,
    PASS_ROOM = VERDICT_PASS + MC_COUNT_PASS_ROOM,
    PASS_BUSY = VERDICT_PASS + MC_COUNT_PASS_BUSY,
    PASS_BYPASS = VERDICT_PASS + MC_COUNT_PASS_BYPASS,
    PASS_SOURCE = VERDICT_PASS + MC_COUNT_PASS_SOURCE,
    PASS_ERROR = VERDICT_PASS + MC_COUNT_PASS_ERROR,
    PASS_STOPPED = VERDICT_PASS + MC_COUNT_PASS_STOPPED,
    PASS_ALLOW = VERDICT_PASS + MC_COUNT_PASS_ALLOW,
    PASS_RATE = VERDICT_PASS + MC_COUNT_PASS_RATE,
    PASS_AMPLIFICATION = VERDICT_PASS + MC_COUNT_PASS_AMPLIFICATION,
    PASS_MAC = VERDICT_PASS + MC_COUNT_PASS_MAC,
    PASS_WAY = VERDICT_PASS + MC_COUNT_PASS_WAY,

    /* Of a TCP connection, for a reason of enum mc_tcp_count. */
    VERDICT_PASS_TCP = 64,
    PASS_TCP_COMMAND = VERDICT_PASS_TCP + MC_TCP_PASS_COMMAND,
    PASS_TCP_SEGMENT = VERDICT_PASS_TCP + MC_TCP_PASS_SEGMENT,
    PASS_TCP_BOUNDARY = VERDICT_PASS_TCP + MC_TCP_PASS_BOUNDARY,
    PASS_TCP_UNACKED = VERDICT_PASS_TCP + MC_TCP_PASS_UNACKED,
    PASS_TCP_WINDOW = VERDICT_PASS_TCP + MC_TCP_PASS_WINDOW,
    PASS_TCP_WAY = VERDICT_PASS_TCP + MC_TCP_PASS_WAY,
    PASS_TCP_KEPT = VERDICT_PASS_TCP + MC_TCP_PASS_KEPT,
    PASS_TCP_LOOKUP = VERDICT_PASS_TCP + MC_TCP_PASS_LOOKUP,
    PASS_TCP_BYPASS = VERDICT_PASS_TCP + MC_TCP_PASS_BYPASS,
    PASS_TCP_ROOM = VERDICT_PASS_TCP + MC_TCP_PASS_ROOM,

    /* The chain has no valid entry of a key, for a reason of enum chain_count. */
    VERDICT_MISS = 96,
    MISS_EMPTY = VERDICT_MISS + CHAIN_MISS_EMPTY,
    MISS_WRITTEN = VERDICT_MISS + CHAIN_MISS_WRITTEN,
    MISS_AGE = VERDICT_MISS + CHAIN_MISS_AGE,
};

#endif
