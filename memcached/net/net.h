/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net: sockets and the threads that serve them.
 *
 * The main thread accepts connections and hands them to the workers in turn; from then on a
 * connection belongs to its worker alone, which reads, executes and answers. Each worker has a UDP
 * socket of its own on every UDP address.
 *
 * The only user of libevent. Bytes come in as slices of a read buffer, go through proto and
 * command, and leave as pieces of a struct reply.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "proto/proto.h"

struct boundaries;
struct commands;
struct command_net_stats;
struct stat_sink;
struct net;
struct credentials_user;
struct tls;
struct xsk;

/* Descriptors of max_connections that each worker takes, as in memcached. */
enum { NET_FDS_PER_WORKER = 5 };

struct net_config {
    const char *addresses;      /* HOST, HOST:PORT, [V6]:PORT, *; commas or semicolons. NULL: any */
    int32_t tcp_port, udp_port; /* 0 off, -1 ephemeral */
    const char *socket_path;    /* not NULL: a unix socket and nothing else */
    uint32_t access_mask;
    uint32_t backlog;
    uint32_t max_connections;
    bool maxconns_fast;      /* over the limit: refuse; otherwise: stop accepting */
    uint32_t idle_timeout;   /* seconds, 0 never */
    uint64_t read_buf_limit; /* bytes of requests that wait; 0: no limit */
    uint32_t reqs_per_event;
    unsigned int nthreads;
    /*
     * The protocol of streams (-B), unless -l says "proto[NAME]:"; a datagram's first byte tells
     * its own.
     */
    enum protocol protocol;
    bool authenticates;    /* clients of that protocol */
    bool reuseport;        /* a UDP socket for each worker, not one for all */
    bool single_datagrams; /* programs on the interfaces look at each reply over UDP */
    bool ping_workers;     /* every second, to tell the tick whether they run */
    struct tls *tls;       /* over TCP, except where -l says "notls:"; NULL: none */
    /* For the plain connections to the first TCP port; NULL: the kernel answers none. */
    struct boundaries *boundaries;
    struct clock clock;
    struct kept *kept; /* sockets that the process before this one has served; NULL: none */
    /* The user that owns the file of ports. */
    const struct credentials_user *user;
};

/*
 * Binds the sockets. NULL: `error` says what failed. MEMCACHED_PORT_FILENAME in the environment
 * names a file that gets the ports.
 */
struct net *net_open(const struct net_config *config, char *error, size_t nerror);
/*
 * The addresses, IPv4 mapped into IPv6, and the port that UDP is served on; returns how many, at
 * most n. The same of TCP without TLS.
 */
size_t net_udp_addresses(const struct net *net, struct in6_addr *addresses, size_t n,
                         uint16_t *port);
size_t net_tcp_addresses(const struct net *net, struct in6_addr *addresses, size_t n,
                         uint16_t *port);
enum { NET_LISTENERS = 128 /* sockets that listen for connections, at most */ };

/* Those for connections on which the kernel may answer, n at most. */
size_t net_tcp_listeners(const struct net *net, int *sockets, size_t n);
/* Calls `tell` with each UDP socket; returns what it does, as soon as that is not 0. */
typedef int net_tell(void *context, int socket);
int net_each_udp(const struct net *net, net_tell *tell, void *context);
/*
 * The other ports that UDP, and TCP without TLS, are served on: "UDP 11411, UDP 11511, TCP 11411";
 * "": there are none.
 */
void net_other_ports(const struct net *net, bool udp, bool tcp, char *text, size_t size);
/*
 * Serves UDP requests that come by n rings of AF_XDP, too, ring i by worker i modulo their number.
 * The rings outlive the net. Before net_start. 0 or -errno.
 */
int net_add_rings(struct net *net, struct xsk *rings, size_t n);
/* Starts the workers. 0 or -errno. */
int net_start(struct net *net, struct commands *commands);

/* The main thread's callbacks. */
struct net_duties {
    void *context;
    /* Once a second. serving: no worker has been stuck since the tick before. */
    void (*tick)(void *context, rel_time now, bool serving);
    void (*signal)(void *context, int number); /* SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP */
};
/*
 * Serves until net_stop. 0 or -errno. Unblocks the signals above, which the caller has blocked, and
 * blocks them again at the end: a second signal does not disturb the shutdown.
 */
int net_run(struct net *net, const struct net_duties *duties);
/* From any thread. */
void net_stop(struct net *net);
/* Whether the peer of a connection is this machine, by an address that no other machine can use. */
bool net_is_local(int fd);
/* Joins the workers and closes everything. NULL is legal. */
void net_free(struct net *net);

/* From any thread. */
void net_stats(struct net *net, struct command_net_stats *out);
void net_reset_stats(struct net *net);
void net_stats_conns(struct net *net, struct stat_sink *sink);

/* The words of -o ssl_*; paths and lists may be NULL. */
struct tls_config {
    char *chain_cert, *key, *ca_cert, *ciphers;
    uint32_t key_format;  /* 1 PEM, 2 DER */
    uint32_t verify_mode; /* 0 none, 1 request, 2 require, 3 once */
    uint32_t min_version; /* 0 to 3: TLS 1.0 to 1.3 */
    uint32_t wbuf_size;   /* bytes */
    bool session_cache;
};

/*
 * Reads the certificates; relative paths are resolved against the current directory. NULL: `error`
 * says why. They apply to connections that are accepted later.
 */
struct tls *tls_new(const struct tls_config *config, const struct clock *clock, char *error,
                    size_t nerror);
/* NULL is legal. */
void tls_free(struct tls *tls);
/* Reads them again. False: `error` says why, and the old ones stay in use. From any thread. */
bool tls_refresh(struct tls *tls, char *error, size_t nerror);

#endif
