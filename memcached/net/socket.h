/* SPDX-License-Identifier: BSD-3-Clause */
/* socket: from the words of -l, -p, -U and -s to bound sockets. */
#ifndef NET_SOCKET_H
#define NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/proto.h"

/* One word of -l, parsed. */
struct socket_word {
    char host[256];    /* empty: any */
    int32_t port;      /* 0: none was given */
    bool notls;        /* "notls:" preceded it */
    bool has_protocol; /* "proto[NAME]:" did */
    enum protocol protocol;
    const char *wrong; /* says what is malformed; `host` shows the word */
};

/*
 * Cuts the next word off `list`: [notls:][proto[NAME]:][tag[NAME]:]ADDRESS. A tag is checked and
 * has no effect, as in memcached without its proxy. 1: got one, 0: none left, -1: malformed.
 */
int socket_next_word(const char **list, struct socket_word *word);

struct socket_name {
    struct sockaddr_storage address;
    socklen_t len;
};
/* The socket's local address; its port. */
int socket_local(int fd, struct socket_name *name);
uint16_t socket_port(const struct socket_name *name);
bool socket_is_any(const struct socket_name *name);
/* The address of a datagram's sender, in the format of socket_text. */
void socket_source_text(char *out, size_t size, const struct sockaddr_storage *source);
/*
 * Whether a server on that UDP port must not answer requests from this source: see
 * bpf/shared/layout.h.
 */
bool socket_is_unanswerable(const struct sockaddr_storage *source, uint16_t own_port);
/* net_is_local */
bool socket_is_local(int fd);
/* "tcp:1.2.3.4:80", "udp6:[::]:11211", "unix:/path". */
void socket_text(char *out, size_t size, int fd, bool peer);

/* Bound and listening, or -errno. */
int socket_open_tcp(const struct sockaddr *address, socklen_t len, int family, int backlog);
int socket_open_udp(const struct sockaddr *address, socklen_t len, int family, bool reuseport);
int socket_open_unix(const char *path, uint32_t access_mask, int backlog);
/*
 * Whether it is what socket_open_* would open: bound to this address in this network namespace, and
 * listening or not. Then it is prepared like a new one.
 */
bool socket_take_tcp(int fd, const struct sockaddr *address, socklen_t len, int backlog);
bool socket_take_udp(int fd, const struct sockaddr *address, socklen_t len, bool reuseport);
bool socket_take_unix(int fd, const char *path, int backlog);
/* Steers packets to socket number (CPU mod nsockets) of the group. 0 or -errno. */
int socket_steer_by_cpu(int fd, unsigned int nsockets);
/*
 * Whether closing the connection resets it, also when the process is killed, so that its client
 * notices at once, whatever it believes to have sent and received.
 */
void socket_set_reset(int fd, bool on);

/* How long a socket is idle before it asks, and how often it asks. idle: 0: it is as it was. */
struct socket_keepalive {
    int idle, count;
};
/*
 * Makes the kernel ask the client how much it has received, if nothing is in flight and nothing has
 * come for a second. While a reply of the programs' is outstanding they send that again in the
 * place of the question (tcp_tx_retransmit in bpf/tcp/egress.bpf.h). From then on it asks each
 * second in which nothing comes.
 */
void socket_probe(int fd, struct socket_keepalive *before);
/* It no longer does, and waits before it asks as it did before, if it was made to at all. */
void socket_calm(int fd, struct socket_keepalive *before);

#endif
