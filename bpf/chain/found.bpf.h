/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_found: how a connection is found again, or one that is older than we are.
 *
 * All that is unknown of it is where in its stream a command begins. Somebody who watches guesses
 * that at the end of a segment, and reads on from there. In the midst of a value the server would
 * say nothing; so if all that was read is acknowledged and answered by exactly as many whole
 * replies as it had commands, before the client goes on, and that several times in turn, then the
 * guess was right. Until then everything is closed whenever it says something.
 */
#ifndef MC_CHAIN_FOUND_BPF_H
#define MC_CHAIN_FOUND_BPF_H

#include "bpf/chain/conn.bpf.h"
#include "bpf/chain/feed.bpf.h"

enum { FOUND_STEPS = 4 };

static __always_inline void trial_begin(struct stranger *stranger)
{
    stranger->trying = 1;
    stranger->ntrials++;
    stranger->nsteps = 0;
    stranger->ncommands = 0;
    stranger->nstepped = 0;
    req_init(&stranger->request);
}

/* Whether all that was read is answered, and nothing else is. */
static __always_inline int trial_is_even(const struct stranger *stranger)
{
    return stranger->trial == stranger->ntrials && !stranger->broken &&
           stranger->nreplies == stranger->ncommands && req_between(&stranger->request) &&
           resp_between(&stranger->response) &&
           stranger->response.protocol == stranger->request.protocol;
}

/* Reads on. 0: what it says does not tell. */
static __always_inline int trial_read(struct xdp_md *ctx, struct feed *feed,
                                      struct stranger *stranger, const struct segment *segment)
{
    feed->request = stranger->request;
    feed->ncommands = stranger->ncommands;
    feed->at = segment->at;
    feed->end = segment->end;
    feed->dry = 1;
    feed_in(ctx, feed);
    stranger->request = feed->request;
    stranger->ncommands = feed->ncommands;
    return !(feed->events & (REQ_LOST | REQ_UNKNOWN | REQ_UNCERTAIN));
}

/* The server says more than it was asked, or what we do not understand. */
static __always_inline int trial_fails(const struct stranger *stranger)
{
    return stranger->trial == stranger->ntrials &&
           (stranger->broken || seq_before(stranger->ncommands, stranger->nreplies));
}

/* A segment of data comes. 1: before it, the connection is found. */
static __always_inline int trial_in(struct xdp_md *ctx, struct feed *feed,
                                    struct stranger *stranger, const struct segment *segment)
{
    if (segment->seq != stranger->in || segment->flags & TCP_URG) {
        stranger->trying = 0;
        return 0;
    }
    if (trial_fails(stranger))
        stranger->trying = 0;
    if (stranger->acked == segment->seq) {
        if (stranger->trying && trial_is_even(stranger)) {
            stranger->nsteps += stranger->ncommands != stranger->nstepped;
            stranger->nstepped = stranger->ncommands;
        } else if (req_between(&stranger->request)) {
            stranger->trying = 0;
        }
        if (!stranger->trying)
            trial_begin(stranger);
    }
    if (!stranger->trying)
        return 0;
    if (stranger->nsteps >= FOUND_STEPS && stranger->acked == segment->seq &&
        trial_is_even(stranger))
        return 1;
    stranger->trying = trial_read(ctx, feed, stranger, segment);
    return 0;
}

/* A segment of data leaves; before stranger takes its place into account. */
static __always_inline void trial_out(struct __sk_buff *skb, struct feed *feed,
                                      struct stranger *stranger, const struct segment *segment)
{
    u32 number = READ_ONCE(stranger->ntrials);

    if (!stranger->trying)
        return;
    if (stranger->trial != number) {
        resp_init(&stranger->response);
        stranger->nreplies = 0;
        stranger->broken = stranger->last_out && segment->seq != stranger->out;
        stranger->trial = number;
    } else if (segment->seq != stranger->out) {
        stranger->broken = 1;
    }
    if (stranger->broken)
        return;
    feed->response = stranger->response;
    feed->at = segment->at;
    feed->end = segment->end;
    feed_out(skb, feed);
    stranger->response = feed->response;
    stranger->nreplies += feed->nbefore + feed->nreplies;
    if (feed->events & (RESP_LOST | RESP_ERROR))
        stranger->broken = 1;
}

#endif
