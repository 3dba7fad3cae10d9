/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/datagrams.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

enum {
    TRAIN_BYTES = 65000, /* below the longest IP packet */
    PAUSES = 64,
};

void datagrams_init(struct datagrams *datagrams, int fd, bool joins)
{
    datagrams->fd = fd;
    datagrams->joins = joins;
}

void datagrams_drop(struct datagrams *datagrams)
{
    datagrams->n = 0;
    datagrams->ntrains = 0;
}

/* --- trains ------------------------------------------------------------ */

static bool same_way(const struct datagrams_way *a, const struct datagrams_way *b)
{
    if (a->peer == b->peer && a->control == b->control)
        return true;
    return a->npeer == b->npeer && a->ncontrol == b->ncontrol &&
           memcmp(a->peer, b->peer, a->npeer) == 0 &&
           (a->ncontrol == 0 || memcmp(a->control, b->control, a->ncontrol) == 0);
}

/* The last train on the way: a later datagram to its peer may not overtake it. NULL: none. */
static struct datagrams_train *find_train(struct datagrams *datagrams,
                                          const struct datagrams_way *way, in_port_t port)
{
    for (unsigned int i = datagrams->ntrains; i-- > 0;) {
        struct datagrams_train *train = &datagrams->trains[i];

        if (train->port == port && same_way(&train->way, way))
            return train;
    }
    return NULL;
}

static bool has_room(const struct datagrams_train *train, size_t len)
{
    return !train->closed && len <= train->segment &&
           (size_t)train->segment * train->n + len <= TRAIN_BYTES;
}

char *datagrams_add(struct datagrams *datagrams, const struct datagrams_way *way, size_t len)
{
    /* At the same place in both families. */
    in_port_t port = ((const struct sockaddr_in *)way->peer)->sin_port;
    struct datagrams_train *train = find_train(datagrams, way, port);
    uint16_t i = (uint16_t)datagrams->n++;

    datagrams->len[i] = (uint16_t)len;
    if (train && has_room(train, len)) {
        datagrams->next[train->last] = i;
        train->last = i;
        train->n++;
        train->closed = len < train->segment;
    } else {
        datagrams->trains[datagrams->ntrains++] = (struct datagrams_train){
            .way = *way, .port = port, .first = i, .last = i, .n = 1, .segment = (uint16_t)len};
    }
    return datagrams->bytes[i];
}

/* --- sending ----------------------------------------------------------- */

/* Adds to message m the control message that makes the kernel take it apart. */
static void set_segment(struct datagrams *datagrams, unsigned int m, uint16_t segment)
{
    struct msghdr *message = &datagrams->messages[m].msg_hdr;
    char *control = (char *)&datagrams->control[m];
    size_t nway = message->msg_controllen;
    struct cmsghdr head = {
        .cmsg_len = CMSG_LEN(sizeof(segment)), .cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT};

    if (nway > 0)
        memcpy(control, message->msg_control, nway);
    memcpy(control + nway, &head, sizeof(head));
    memcpy(control + nway + CMSG_LEN(0), &segment, sizeof(segment));
    message->msg_control = control;
    message->msg_controllen = nway + CMSG_SPACE(sizeof(segment));
}

/* Makes message m of `n` pieces from iov on. */
static void set_message(struct datagrams *datagrams, unsigned int m,
                        const struct datagrams_train *train, struct iovec *iov, uint16_t n)
{
    const struct datagrams_way *way = &train->way;

    /* sendmmsg takes writable pointers and does not write there. */
    datagrams->messages[m].msg_hdr = (struct msghdr){
        .msg_name = (void *)(uintptr_t)way->peer,
        .msg_namelen = way->npeer,
        .msg_iov = iov,
        .msg_iovlen = n,
        .msg_control = (void *)(uintptr_t)way->control,
        .msg_controllen = way->control ? way->ncontrol : 0,
    };
    datagrams->nparts[m] = n;
    if (n > 1)
        set_segment(datagrams, m, train->segment);
}

/* Makes messages of the trains from `first` on; returns how many. */
static unsigned int make_messages(struct datagrams *datagrams, unsigned int first, bool join)
{
    struct iovec *iov = datagrams->iov;
    unsigned int m = 0;

    for (unsigned int t = first; t < datagrams->ntrains; t++) {
        struct datagrams_train *train = &datagrams->trains[t];
        uint16_t npieces = join && !train->single ? train->n : 1;

        for (uint16_t k = 0, i = train->first; k < train->n; k++, i = datagrams->next[i]) {
            iov[k] = (struct iovec){datagrams->bytes[i], datagrams->len[i]};
            if ((k + 1) % npieces == 0)
                set_message(datagrams, m++, train, &iov[k + 1 - npieces], npieces);
        }
        iov += train->n;
    }
    return m;
}

/* The first `n` datagrams of the train have been sent, or are not to be. */
static void leave(struct datagrams *datagrams, struct datagrams_train *train, uint16_t n)
{
    datagrams->n -= n;
    train->n -= n;
    while (n-- > 0)
        train->first = datagrams->next[train->first];
}

/* The first `n` trains are empty. */
static void leave_trains(struct datagrams *datagrams, unsigned int n)
{
    datagrams->ntrains -= n;
    memmove(datagrams->trains, datagrams->trains + n,
            datagrams->ntrains * sizeof(datagrams->trains[0]));
}

/* The kernel refuses the first message of the train: it leaves in pieces, or not at all. */
static void refuse(struct datagrams *datagrams, struct datagrams_train *train, uint16_t nparts)
{
    if (nparts == 1) {
        leave(datagrams, train, 1); /* its peer is unreachable, or not an address */
        return;
    }
    train->single = true;
    datagrams->npauses = PAUSES;
}

unsigned int datagrams_send(struct datagrams *datagrams)
{
    bool join = datagrams->joins && datagrams->npauses == 0;
    unsigned int t = 0;

    if (datagrams->npauses > 0)
        datagrams->npauses--;
    while (datagrams->n > 0) {
        unsigned int n = make_messages(datagrams, t, join);
        int nsent = sendmmsg(datagrams->fd, datagrams->messages, n, MSG_NOSIGNAL);

        for (int m = 0; m < nsent; m++) {
            leave(datagrams, &datagrams->trains[t], datagrams->nparts[m]);
            t += datagrams->trains[t].n == 0;
        }
        if (nsent >= 0 || errno == EINTR)
            continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            leave_trains(datagrams, t);
            return datagrams->n;
        }
        refuse(datagrams, &datagrams->trains[t], datagrams->nparts[0]);
        t += datagrams->trains[t].n == 0;
    }
    datagrams_drop(datagrams);
    return 0;
}

void datagrams_turn_control(struct msghdr *message)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);

    if (!control) {
        message->msg_controllen = 0;
    } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo info;

        memcpy(&info, CMSG_DATA(control), sizeof(info));
        info.ipi_ifindex = 0;
        memcpy(CMSG_DATA(control), &info, sizeof(info));
    } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO) {
        struct in6_pktinfo info;

        memcpy(&info, CMSG_DATA(control), sizeof(info));
        if (IN6_IS_ADDR_MULTICAST(&info.ipi6_addr))
            info.ipi6_addr = in6addr_any;
        else if (!IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
            info.ipi6_ifindex = 0;
        memcpy(CMSG_DATA(control), &info, sizeof(info));
    }
}
