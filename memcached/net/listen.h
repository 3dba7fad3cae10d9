/* SPDX-License-Identifier: BSD-3-Clause */
/* listen: opens all sockets that the configuration asks for. */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include "bpf/shared/layout.h"
#include "net/net.h"

struct stream_socket {
    int fd;
    bool tls;
    enum protocol protocol;
    bool shown; /* the kernel may answer on its connections: they have boundaries */
};

struct udp_socket {
    int fd;
    unsigned int worker;
};

enum { OTHER_PORTS = 8 /* that are named when the kernel does not answer on them */ };

/* What the kernel may answer: the addresses that are served on the first one's port. */
struct served {
    struct in6_addr addresses[2 * MC_MAX_ADDRESSES]; /* IPv4 mapped into IPv6 */
    size_t n;
    uint16_t port; /* host order; 0: none */
    uint16_t others[OTHER_PORTS];
    size_t nothers; /* may be more */
};

struct listening {
    struct stream_socket streams[NET_LISTENERS];
    size_t nstreams;
    struct udp_socket *udp;
    size_t nudp;
    struct served served_udp, served_tcp; /* TCP: without TLS */
};

/* False: `error` says what failed, and nothing is open. */
bool listening_open(struct listening *listening, const struct net_config *config, char *error,
                    size_t nerror);
/* Closes the sockets that are left: a thread that takes some over lowers nstreams or nudp. */
void listening_close(struct listening *listening);

#endif
