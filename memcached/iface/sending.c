/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/sending.h"

#include <inttypes.h>

#include "base/log.h"
#include "iface/attach.h"
#include "iface/link.h"

enum {
    VETH_S = 1, /* the first wait before native XDP is tried again on a veth, */
    VETH_MAX_S = 64,
    TRY_S = 60, /* and elsewhere */
    TRY_MAX_S = 3600,
    ROUGH = 16, /* the counts of answers and losses are of slightly different times: 1/16 is 0 */
};

/* Adds one interface. Whether its driver counts anything. */
static bool add(const char *name, int ifindex, struct sending_view *out)
{
    struct driver_counts own = {0};
    bool known = driver_add_counts(name, &own);

    out->counts.is_veth |= own.is_veth;
    out->counts.counts_sent |= own.counts_sent;
    out->counts.sent += own.sent;
    out->counts.lost += own.lost;
    out->is_deaf |= own.is_veth && link_veth_peer(ifindex) != VETH_PEER_WITH_XDP;
    return known;
}

/* The interface and, if it is a bond, its ports, which send. Whether anything is counted. */
static bool look(const struct hostnet *hostnet, const struct attachment *at,
                 struct sending_view *out)
{
    const struct hostnet_link *each;
    bool known;

    *out = (struct sending_view){0};
    known = add(at->name, at->link.ifindex, out);
    for (each = hostnet->links; each < hostnet->links + hostnet->nlinks; each++) {
        if (each->master == at->link.ifindex) {
            known |= add(each->name, each->ifindex, out);
            out->redirects = true;
        }
    }
    return known;
}

enum sending_verdict sending_judge(struct sending *sending, uint64_t answered,
                                   const struct sending_view *view)
{
    const struct driver_counts before = sending->counts, *counts = &view->counts;
    const uint64_t grown = answered - sending->answered, lost = counts->lost - before.lost;
    const bool known = sending->known && counts->lost >= before.lost &&
                       counts->counts_sent == before.counts_sent && counts->sent >= before.sent;
    uint64_t sent = counts->sent - before.sent;

    if (!counts->counts_sent)
        sent = grown > lost && grown - lost > grown / ROUGH ? grown - lost : 0;
    sending->known = true;
    sending->answered = answered;
    sending->counts = *counts;
    sending->nlost = !known                             ? 0
                     : view->is_deaf && view->redirects ? grown
                     : view->is_deaf                    ? lost + sent
                                                        : lost;
    sending->nsince = known && !sent ? sending->nsince + sending->nlost : 0;
    if (!sending->nlost)
        return SENDING_FINE;
    if (view->is_deaf || (!sent && (counts->is_veth || sending->nsince >= SENDING_LEAST)))
        return SENDING_LOST;
    return counts->is_veth ? SENDING_FINE : SENDING_MIXED; /* a veth's ring was full */
}

/* Looks and judges. The first look finds nothing. */
static enum sending_verdict look_and_judge(struct attachment *at, const struct sending_host *host)
{
    struct sending *sending = &at->sending;
    struct sending_view view;

    if (sending->known && sending->answered == host->answered && at->link.nservers < 2)
        return SENDING_FINE;
    return look(host->hostnet, at, &view) ? sending_judge(sending, host->answered, &view)
                                          : SENDING_FINE;
}

void sending_fail(struct sending *sending, time_t now)
{
    const bool veth = sending->counts.is_veth;
    const unsigned int most = veth ? VETH_MAX_S : TRY_MAX_S;

    if (!sending->wait_s || now - sending->tried > most)
        sending->wait_s = veth ? VETH_S : TRY_S;
    else
        sending->wait_s = 2 * sending->wait_s < most ? 2 * sending->wait_s : most;
    sending->again = now + sending->wait_s;
}

bool sending_again(struct attachment *at, const struct hostnet *hostnet, time_t now)
{
    struct sending *sending = &at->sending;
    struct sending_view view;

    if (now < sending->again ||
        (sending->counts.is_veth && (!look(hostnet, at, &view) || view.is_deaf)))
        return false;
    sending->tried = now;
    return true;
}

void sending_begin(struct attachment *at, const struct sending_host *host)
{
    if (at->sending.state == SENDING_WORKS)
        at->sending.state = SENDING_UNKNOWN;
    at->sending.known = false;
    if (at->link.xdp >= 0 && !at->link.generic)
        look_and_judge(at, host);
}

bool sending_waits(const struct attachment *at, const struct sending_host *host)
{
    return at->sending.state == SENDING_NOT &&
           (host->mode == IFACE_NATIVE || (at->sending.stays && host->is_chain));
}

static void give_up(struct attachment *at, const struct sending_host *host, time_t now)
{
    at->sending.state = SENDING_NOT;
    at->sending.stays = at->link.shared;
    log_write("bmc: %s: its driver loses the replies of native XDP (the last %" PRIu64
              ")%s; %s until %s",
              at->name, at->sending.nlost,
              at->sending.counts.is_veth ? ": the other end of this veth has no XDP program"
                                         : " (`ethtool -S`)",
              !sending_waits(at, host) ? "another mode answers"
              : host->mode == IFACE_NATIVE
                  ? "without mode=native another mode would answer; the server answers alone"
                  : "the server answers alone",
              at->sending.stays ? "the server is restarted" : "it sends them again");
    sending_fail(&at->sending, now);
}

static void go_back(struct attachment *at)
{
    log_write("bmc: %s: %s", at->name,
              at->sending.counts.is_veth ? "the other end of this veth has an XDP program again"
                                         : "native XDP is tried again");
    at->sending.state = SENDING_WORKS;
    at->tc_alone = false;
}

enum sending_step sending_check(struct attachment *at, const struct sending_host *host,
                                bool is_here, time_t now)
{
    enum sending_verdict verdict = SENDING_FINE;

    if (at->sending.state == SENDING_NOT && !at->sending.stays && is_here &&
        sending_again(at, host->hostnet, now)) {
        go_back(at);
        return SENDING_RETURN;
    }
    if (at->link.xdp >= 0 && !at->link.generic)
        verdict = look_and_judge(at, host);
    if (verdict == SENDING_LOST)
        give_up(at, host, now);
    return verdict == SENDING_LOST    ? SENDING_GIVE_UP
           : verdict == SENDING_MIXED ? SENDING_LOOK
                                      : SENDING_STAY;
}
