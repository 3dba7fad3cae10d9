/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kcache: the kernel path. It provides the store with memory that the kernel programs see, attaches
 * them to interfaces, and reports what they counted.
 *
 * Called by the main thread; kcache_stats and the provider by any. Built with --disable-bmc,
 * kcache_open fails with a text that says so.
 */
#ifndef KCACHE_KCACHE_H
#define KCACHE_KCACHE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/provider.h"
#include "bpf/shared/chain.h"
#include "bpf/shared/layout.h"

enum {
    KCACHE_MAX_INTERFACES = 16,
    KCACHE_MAX_ALLOW = 64,
    KCACHE_STALL = 10, /* seconds, unless the options say something else */
    KCACHE_ENTRIES_MAX = CHAIN_MAX_ENTRIES,
    KCACHE_VALUE_MAX = CHAIN_VALUE_MAX,
};

/* How XDP is attached; KCACHE_TC: not at all, TC ingress answers alone. */
enum kcache_mode { KCACHE_AUTO, KCACHE_NATIVE, KCACHE_GENERIC, KCACHE_TC };

/*
 * mode=chain: the programs that keep what a server answers and follow what is written, in place of
 * those that read the server's memory (doc/chain.md). 0: as kcache_open finds right.
 */
struct kcache_chain {
    bool wanted, given; /* given: some of what follows was */
    uint32_t entries, medium, large;
    uint32_t key_max, value_max; /* bytes */
    uint32_t max_age_ms, settle_ms;
    uint32_t connections;
};

/* Words one behind the other, each with its end. */
struct kcache_words {
    const char *first;
    unsigned int n;
};

struct kcache_options {
    const char *interfaces[KCACHE_MAX_INTERFACES];
    unsigned int ninterfaces;
    bool automatic; /* beside these the interfaces that carry the listening addresses */
    enum kcache_mode mode;
    bool optional; /* a failure is a warning */
    int stall;     /* seconds that the kernel answers for a server that does not run; 0:
                      KCACHE_STALL, below 0: as long as it lives */
    /* Whom the kernel answers; the rest is the server's. */
    struct kcache_words allow[KCACHE_MAX_ALLOW]; /* none: "local" */
    unsigned int nallow;
    uint32_t rate, burst;   /* requests a second of one source, and at once; 0: any */
    uint32_t amplification; /* a reply's size to the request's; 0: any */
    struct kcache_chain chain;
};

struct kcache;

/*
 * Parses the word behind -X or -o that starts with "bmc=": interfaces and options separated by
 * commas ("bmc=eth0,bmc=eth1,mode=native,optional"). Slices of `word` are cut in place and kept.
 * NULL, or a static text that says what is wrong. May be called again to add interfaces.
 */
const char *kcache_parse(struct kcache_options *options, char *word);
/* What is wrong with all of them together, a static text, or NULL. */
const char *kcache_check(const struct kcache_options *options);
/* Whether such a word was given. */
bool kcache_wanted(const struct kcache_options *options);

/*
 * Loads the programs and creates the first maps; attaches nothing. reach: how many bytes of heap
 * the store may come to (commits nothing). NULL: `error` says what is wrong and what to do about
 * it.
 */
struct kcache *kcache_open(const struct kcache_options *options, uint64_t reach, char *error,
                           size_t nerror);
/* NULL: the chain needs none of the store's memory. */
struct provider *kcache_provider(struct kcache *kcache);
/* That the programs read. */
struct mc_control *kcache_control(struct kcache *kcache);

/*
 * From here on the kernel answers for UDP `port` on the `n` addresses, those of IPv4 mapped into
 * IPv6 (:: and ::ffff:0.0.0.0: all of the family that this machine has). The store must be ready
 * and the sockets bound. Says on stderr, a line for each interface, how it is attached. An
 * interface that was found for bmc=auto may fail, as long as there is another. 0, or -1 with
 * `error` and nothing attached.
 */
int kcache_attach(struct kcache *kcache, uint16_t port, const struct in6_addr *addresses, size_t n,
                  char *error, size_t nerror);
/* The server runs, all of it: to be called every second by the thread that attached. */
void kcache_beat(struct kcache *kcache);
/* The kernel answers nothing any more. */
void kcache_detach(struct kcache *kcache);
/*
 * The capabilities that it needs once it is attached, as base/rights.h has them: CAP_BPF to grow
 * and to attach again. The chain needs its TC program, so where that is a filter CAP_NET_ADMIN as
 * well, to put it back and to take it away at the end.
 */
uint64_t kcache_capabilities(const struct kcache *kcache);
/*
 * Keeps the addresses and the attachments as the machine is, by a thread that has the caller's
 * rights: CAP_BPF is enough, CAP_NET_ADMIN beside it where TC needs filters (Linux before 6.6).
 * 0 or -errno.
 */
int kcache_start(struct kcache *kcache);
/* Detaches, waits until no program runs, frees. NULL is legal. */
void kcache_close(struct kcache *kcache);

/* What has become of an interface, and of the programs on it. */
enum kcache_state {
    KCACHE_UP,
    KCACHE_DOWN,
    KCACHE_GONE,     /* removed, or moved to another network namespace */
    KCACHE_DETACHED, /* somebody has detached the programs; they are to be attached again */
    KCACHE_GIVEN_UP, /* they have been detached too often */
};

struct kcache_interface {
    char name[16];                    /* that it has now */
    bool xdp_native, xdp_generic, tc; /* what is attached; */
    bool tc_waits;                    /* TC is not until a reply finds no room */
    enum kcache_state state;
};

/* What has happened to interfaces and addresses, counted. */
struct kcache_events {
    uint64_t interface_events; /* changes of an interface's state or name */
    uint64_t detached;         /* times that somebody has detached programs, */
    uint64_t reattached;       /* and that they were attached again */
    uint64_t dumps;            /* messages were lost: the machine was looked at as a whole */
};

/* The interfaces, and what this machine is to the programs; at most a second old. */
struct kcache_view {
    struct kcache_interface interfaces[KCACHE_MAX_INTERFACES];
    unsigned int ninterfaces;
    unsigned int n4, n6, nmacs, nvlans; /* of struct mc_local, */
    size_t left_out;                    /* and what found no room there */
    struct kcache_events events;
};

/* All counts are since the start or the last reset. */
struct kcache_stats {
    struct mc_counts counts;                /* of all CPUs */
    uint64_t stalls;                        /* how often the server did not run for too long */
    uint64_t extents, tables, refused_maps; /* maps of memory; tries for which there was none */
    const char *allow;                      /* local, all or list */
    size_t nallowed;                        /* prefixes in the list */
    uint32_t rate, burst, amplification;
    struct kcache_view view;
    /* Of the chain, else 0. */
    struct chain_counts chain_counts;
    uint64_t chain_bytes; /* of its maps */
    struct chain_settings chain;
    struct kcache_chain chain_options;
};
void kcache_stats(struct kcache *kcache, struct kcache_stats *out);
void kcache_reset_stats(struct kcache *kcache);

/* Gives all that there is to see, row by row, as text. */
typedef void kcache_row(void *context, const char *name, const char *value);
void kcache_report(struct kcache *kcache, kcache_row *row, void *context);

#endif
