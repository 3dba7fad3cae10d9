/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_resync: how an untracked connection, lost or older than the chain, is tracked again.
 *
 * All that is unknown of it is where in its stream a command begins. An attempt assumes that one
 * begins where a segment does, and parses from there. In the middle of a value the server would not
 * answer; so if all that was parsed is acknowledged and answered by exactly as many whole replies
 * as it had commands, before the client continues, and that RESYNC_TURNS times in a row, then the
 * assumption was right. Until then each segment of the connection closes the gate of the whole
 * table.
 */
#ifndef MC_CHAIN_RESYNC_BPF_H
#define MC_CHAIN_RESYNC_BPF_H

#include "bpf/chain/conn.bpf.h"
#include "bpf/chain/parse_run.bpf.h"

enum { RESYNC_TURNS = 4 };

static __always_inline void resync_begin(struct untracked *untracked)
{
    untracked->trying = 1;
    untracked->nattempts++;
    untracked->nturns = 0;
    untracked->ncommands = 0;
    untracked->turn_ncommands = 0;
    req_init(&untracked->request, PARSER_ANY);
}

/* Whether exactly the commands parsed so far are answered. */
static __always_inline int resync_is_balanced(const struct untracked *untracked)
{
    return untracked->attempt == untracked->nattempts && !untracked->broken &&
           untracked->nreplies == untracked->ncommands && req_between(&untracked->request) &&
           resp_between(&untracked->response) &&
           untracked->response.protocol == untracked->request.protocol;
}

/* Parses a segment. 0: its commands prove nothing, since they need not have answers. */
static __always_inline int resync_read(struct xdp_md *ctx, struct parse_run *run,
                                       struct untracked *untracked, const struct segment *segment)
{
    run->request = untracked->request;
    run->ncommands = untracked->ncommands;
    run->at = segment->at;
    run->end = segment->end;
    run->dry = 1;
    run_in(ctx, run);
    untracked->request = run->request;
    untracked->ncommands = run->ncommands;
    return !(run->events & (REQ_LOST | REQ_UNKNOWN | REQ_UNCERTAIN));
}

/* The server sent more replies than there were commands, or one that cannot be parsed. */
static __always_inline int resync_fails(const struct untracked *untracked)
{
    return untracked->attempt == untracked->nattempts &&
           (untracked->broken || seq_before(untracked->ncommands, untracked->nreplies));
}

/*
 * A segment with data arrives. 1: at its first byte a command begins, so the connection can be
 * tracked.
 */
static __always_inline int resync_in(struct xdp_md *ctx, struct parse_run *run,
                                     struct untracked *untracked, const struct segment *segment)
{
    if (segment->seq != untracked->in || segment->flags & TCP_URG) {
        untracked->trying = 0;
        return 0;
    }
    if (resync_fails(untracked))
        untracked->trying = 0;
    if (untracked->acked == segment->seq) {
        if (untracked->trying && resync_is_balanced(untracked)) {
            untracked->nturns += untracked->ncommands != untracked->turn_ncommands;
            untracked->turn_ncommands = untracked->ncommands;
        } else if (req_between(&untracked->request)) {
            untracked->trying = 0;
        }
        if (!untracked->trying)
            resync_begin(untracked);
    }
    if (!untracked->trying)
        return 0;
    if (untracked->nturns >= RESYNC_TURNS && untracked->acked == segment->seq &&
        resync_is_balanced(untracked))
        return 1;
    untracked->trying = resync_read(ctx, run, untracked, segment);
    return 0;
}

/* A segment with data leaves; call it before untracked->out advances. */
static __always_inline void resync_out(struct __sk_buff *skb, struct parse_run *run,
                                       struct untracked *untracked, const struct segment *segment)
{
    u32 number = READ_ONCE(untracked->nattempts);

    if (!untracked->trying)
        return;
    if (untracked->attempt != number) {
        resp_init(&untracked->response, PARSER_ANY);
        untracked->nreplies = 0;
        untracked->broken = untracked->last_out && segment->seq != untracked->out;
        untracked->attempt = number;
    } else if (segment->seq != untracked->out) {
        untracked->broken = 1;
    }
    if (untracked->broken)
        return;
    run->response = untracked->response;
    run->at = segment->at;
    run->end = segment->end;
    run_out(skb, run);
    untracked->response = run->response;
    untracked->nreplies += run->nbefore + run->nreplies;
    if (run->events & (RESP_LOST | RESP_ERROR))
        untracked->broken = 1;
}

#endif
