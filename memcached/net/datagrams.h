/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datagrams: replies that wait to leave a UDP socket.
 *
 * Most of a reply's cost is its way through the kernel's stack. So datagrams of one length to one
 * peer go that way as one packet, a train, which the kernel or the network card takes apart
 * (UDP_SEGMENT); the last one may be shorter. The peer gets the same datagrams in the same order. A
 * train that the kernel does not take (it does not fit the path's MTU, or the device cannot compute
 * checksums) leaves as single datagrams.
 *
 * Owned by a worker. Knows sockets, but no request.
 */
#ifndef NET_DATAGRAMS_H
#define NET_DATAGRAMS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "bpf/shared/layout.h"

enum { DATAGRAMS_MAX = 32 };

struct datagrams_control {
    _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* Where a reply goes, and from where: the caller's, until the datagram has been sent. */
struct datagrams_way {
    const struct sockaddr_storage *peer;
    socklen_t npeer;
    const struct datagrams_control *control; /* NULL: the socket's own address */
    size_t ncontrol;
};

/* Some of the waiting datagrams, all of them on the same way; each but the last has `segment`
 * bytes. */
struct datagrams_train {
    struct datagrams_way way;
    in_port_t port; /* of the peer: tells most trains apart */
    uint16_t first, last, n, segment;
    bool closed; /* the last one is shorter */
    bool single; /* not to be sent as one packet */
};

struct datagrams {
    int fd;
    bool joins;
    unsigned int npauses; /* so many times nothing is joined, because the kernel refused a train */
    unsigned int n, ntrains;
    struct datagrams_train trains[DATAGRAMS_MAX];
    uint16_t next[DATAGRAMS_MAX]; /* in the same train */
    uint16_t len[DATAGRAMS_MAX];
    struct mmsghdr messages[DATAGRAMS_MAX];
    uint16_t nparts[DATAGRAMS_MAX]; /* datagrams of each message */
    struct iovec iov[DATAGRAMS_MAX];
    struct {
        struct datagrams_control way; /* as long as it is, and behind it: */
        char segment[CMSG_SPACE(sizeof(uint16_t))];
    } control[DATAGRAMS_MAX];
    char bytes[DATAGRAMS_MAX][MC_UDP_PAYLOAD];
};

/* joins: datagrams may leave as trains. *datagrams is zeroed memory. */
void datagrams_init(struct datagrams *datagrams, int fd, bool joins);
/*
 * Adds a datagram of `len` bytes, at least one and at most MC_UDP_PAYLOAD, which the caller writes
 * to where the result points. There must be room, and nothing that datagrams_send has left.
 */
char *datagrams_add(struct datagrams *datagrams, const struct datagrams_way *way, size_t len);
/*
 * Sends them, and skips those whose peer cannot be reached. Returns how many are left because the
 * socket is full: the last ones to each peer. They wait for the next call, or datagrams_drop.
 */
unsigned int datagrams_send(struct datagrams *datagrams);
void datagrams_drop(struct datagrams *datagrams);
/*
 * Turns the control message that came with a request into the reply's: the source address, and the
 * interface only where the address needs it.
 */
void datagrams_turn_control(struct msghdr *message);

static inline bool datagrams_full(const struct datagrams *datagrams)
{
    return datagrams->n == DATAGRAMS_MAX;
}

#endif
