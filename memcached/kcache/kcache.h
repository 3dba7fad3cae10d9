/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kcache: the kernel path. It provides the store with memory that the kernel programs see, attaches
 * them to interfaces, and reports their counts.
 *
 * Called by the main thread; kcache_stats and the provider by any thread. In a build with
 * --disable-bmc kcache_open fails with a text that says so.
 */
#ifndef KCACHE_KCACHE_H
#define KCACHE_KCACHE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/boundaries.h"
#include "base/provider.h"
#include "bpf/shared/chain.h"
#include "bpf/shared/layout.h"
#include "bpf/shared/tcp.h"
#include "iface/iface.h"

struct credentials_user;

enum {
    KCACHE_OTHERS_TEXT = 256,
    KCACHE_MAX_ALLOW = 64,
    KCACHE_STALL = 10, /* seconds; the default */
    KCACHE_REFRESH = 10,
    KCACHE_ENTRIES_MAX = CHAIN_MAX_ENTRIES,
    KCACHE_VALUE_MAX = CHAIN_VALUE_MAX,
};

/* What udp=, tcp= and xsk= say. */
enum kcache_switch { KCACHE_UNSAID, KCACHE_ON, KCACHE_OFF };

/*
 * mode=chain: the programs that cache a server's answers and track writes, instead of those that
 * read the server's memory (doc/chain.md). 0: the default, which kcache_open fills in.
 */
struct kcache_chain {
    bool wanted, given; /* given: any of the options below was given */
    uint32_t entries, medium, large;
    uint32_t key_max, value_max; /* bytes */
    uint32_t max_age_ms, settle_ms;
    uint32_t connections;
};

/* Requests a second of one source, and in a burst; how large a reply may be. 0: no limit. */
struct kcache_limits {
    uint32_t rate, burst;
    uint32_t amplification; /* the largest ratio of reply size to request size */
};

/* Words in sequence, each NUL-terminated. */
struct kcache_words {
    const char *first;
    unsigned int n;
};

struct kcache_options {
    const char *interfaces[IFACE_MAX];
    unsigned int ninterfaces;
    bool automatic; /* also the interfaces that carry the listening addresses */
    enum iface_mode mode;
    enum kcache_switch udp, tcp;  /* what the kernel answers */
    enum kcache_switch unstamped; /* with tcp=on, also connections without timestamps */
    enum kcache_switch xsk;       /* requests that it passes come by rings of AF_XDP */
    uint32_t connections;         /* the most at a time, with tcp=on */
    bool optional;                /* a failure is a warning */
    int stall; /* seconds that the kernel answers for a stopped server; 0: KCACHE_STALL, below 0: as
                  long as the process exists */
    int refresh; /* seconds that the kernel answers all of a TCP connection's gets; 0:
                    KCACHE_REFRESH, below 0: no limit */
    /* Which sources the kernel answers; the server answers all others. */
    struct kcache_words allow[KCACHE_MAX_ALLOW]; /* none: "local" */
    unsigned int nallow;
    struct kcache_limits limits;
    struct kcache_chain chain;
    const char *last; /* of the words that kcache_parse has looked at */
};

struct kcache;
struct xsk;

/*
 * Parses the word behind -X or -o that starts with "bmc=": interfaces and options separated by
 * commas ("bmc=eth0,bmc=eth1,mode=native,optional"). Slices of `word` are cut in place and kept.
 * NULL, or a static text that says what is wrong with options->last. May be called again to add
 * interfaces.
 */
const char *kcache_parse(struct kcache_options *options, char *word);
/* Checks the options against each other. NULL, or a static error text. */
const char *kcache_check(const struct kcache_options *options);
/* Whether the kernel is to answer on TCP connections. */
bool kcache_wants_tcp(const struct kcache_options *options);
/* Whether any bmc= word was given. */
bool kcache_wanted(const struct kcache_options *options);

/* The first of the named interfaces that does not exist, or NULL. */
const char *kcache_missing(const struct kcache_options *options);
/*
 * Creates the first maps and starts threads that load the programs, until kcache_attach; attaches
 * nothing. reach: the most bytes of heap that the store may use (reserves none). The options must
 * outlive it. NULL: `error` says what is wrong and what the operator can do.
 */
struct kcache *kcache_open(const struct kcache_options *options, uint64_t reach, char *error,
                           size_t nerror);
/* NULL: the chain needs none of the store's memory. */
struct provider *kcache_provider(struct kcache *kcache);
/* Where the server publishes the boundaries of connections; NULL without tcp=on. */
struct boundaries *kcache_boundaries(struct kcache *kcache);
/*
 * The rings of AF_XDP by which the server gets requests over UDP beside its sockets, *n of them,
 * until kcache_close. After kcache_attach; none without xsk=on.
 */
struct xsk *kcache_rings(struct kcache *kcache, size_t *n);
/* The control block that the programs read. */
struct mc_control *kcache_control(struct kcache *kcache);

/*
 * What is answered: ports (0: none) on addresses, IPv4 mapped into IPv6 (:: and ::ffff:0.0.0.0: all
 * addresses of the family). With both ports the addresses are those of UDP. group: of the user that
 * the process becomes. others: the ports that the server answers alone, as text; NULL, empty: none.
 */
struct kcache_served {
    gid_t group;
    const char *others;
    uint16_t udp_port, tcp_port;
    const struct in6_addr *addresses;
    size_t n;
    /* With tcp_port: */
    const struct credentials_user *user; /* that the process becomes */
    unsigned int nworkers;               /* threads that serve connections */
    const int *listeners;                /* the sockets that listen on it */
    size_t nlisteners;
};
/*
 * Tells the programs that this UDP socket is the server's: the kernel answers a source only if such
 * a socket has replied to it. Before kcache_attach. 0 or -errno.
 */
int kcache_know_socket(struct kcache *kcache, int socket);
/*
 * Waits for the programs and attaches them: from here on the kernel answers. The store must be
 * ready and the sockets bound, and no connection accepted. Logs the mode of each interface in a
 * line. An interface that bmc=auto found may fail, if another one succeeds. 0, or -1 with `error`
 * and nothing attached.
 */
int kcache_attach(struct kcache *kcache, const struct kcache_served *served, char *error,
                  size_t nerror);
/*
 * Reads the files of allow=@FILE again, if there are any, and logs a line with what is in force
 * now. 0, or -1 with `error` and nothing has changed.
 */
int kcache_reload(struct kcache *kcache, char *error, size_t nerror);
/*
 * To be called every second, by the thread that attached, while all workers of the server run. When
 * an interface has lost the programs, connections on which the kernel has answered are undone.
 */
void kcache_renew_lease(struct kcache *kcache);
/*
 * Detaches the programs: the kernel answers nothing from then on. Not with tcp=on: then they stay
 * attached until kcache_close, because connections on which they have answered need them until they
 * are closed; the caller sets the bypass before.
 */
void kcache_detach(struct kcache *kcache);
/*
 * The capabilities that the kernel path needs once it is attached (base/credentials.h): CAP_BPF to
 * create maps and to attach again. The chain and tcp=on need their TC programs; where these are
 * filters, also CAP_NET_ADMIN to attach them again and to remove them at the end.
 */
uint64_t kcache_capabilities(const struct kcache *kcache);
/*
 * Starts a thread that keeps addresses and attachments up to date. It has the caller's
 * capabilities: CAP_BPF is enough, CAP_NET_ADMIN is needed where TC needs filters (Linux before
 * 6.6). 0 or -errno.
 */
int kcache_start(struct kcache *kcache);
/* Detaches, waits until no program runs, frees. NULL is legal. */
void kcache_close(struct kcache *kcache);

struct kcache_stats {
    /* Counts since the start or the last reset, of 64 bits each. */
    struct mc_counts counts; /* of all CPUs, */
    struct mc_tcp_counts tcp_counts;
    struct chain_counts chain_counts;
    struct boundaries_counts tcp_server; /* what the server counts of them */
    uint64_t rings_sent;                 /* datagrams that the server has sent by rings of AF_XDP */
    uint64_t stalls;       /* times that the server was stopped for longer than `stall` */
    uint64_t refused_maps; /* for lack of memory */
    struct iface_events events;
    /* What there is now. */
    bool tcp;            /* tcp=on, */
    bool tcp_is_guarded; /* and what leaves by a way without the programs is dropped */
    size_t nrings;
    uint64_t extents, tables; /* maps */
    const char *others;       /* the ports that the server answers alone; "": none */
    const char *allow;        /* local, all or list */
    size_t nallowed;          /* prefixes in the list */
    struct kcache_limits limits;
    struct iface_view view;
    /* The next fields are 0 without the chain. */
    uint64_t chain_bytes; /* memory of its maps */
    struct chain_settings chain;
    struct kcache_chain chain_options;
};
void kcache_stats(struct kcache *kcache, struct kcache_stats *out);
void kcache_reset_stats(struct kcache *kcache);
/* The view alone, which costs little. */
void kcache_look(struct kcache *kcache, struct iface_view *out);

/* The interfaces, each with the mode or what is wrong there, in a line: "eth0 (native XDP)". */
void kcache_describe(const struct iface_view *view, char *text, size_t size);

/* Reports all statistics, row by row, as text. */
typedef void kcache_row(void *context, const char *name, const char *value);
void kcache_report(struct kcache *kcache, kcache_row *row, void *context);

#endif
