/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/sending.h"

#include "iface/veth.h"

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
    out->is_deaf |= own.is_veth && !veth_limits_mtu(ifindex);
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

enum sending_verdict sending_look(struct sending *sending, const struct hostnet *hostnet,
                                  const struct attachment *at, uint64_t answered)
{
    struct sending_view view;

    if (sending->known && sending->answered == answered && at->link.nservers < 2)
        return SENDING_FINE;
    return look(hostnet, at, &view) ? sending_judge(sending, answered, &view) : SENDING_FINE;
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

bool sending_again(struct sending *sending, const struct hostnet *hostnet,
                   const struct attachment *at, time_t now)
{
    struct sending_view view;

    if (now < sending->again ||
        (sending->counts.is_veth && (!look(hostnet, at, &view) || view.is_deaf)))
        return false;
    sending->tried = now;
    return true;
}
