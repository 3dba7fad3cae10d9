/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kcache: the kernel path. It provides the store with memory that the kernel
 * programs see, attaches them to interfaces, and reports what they counted.
 *
 * Called by the main thread; kcache_stats and the provider by any.
 * Built with --disable-bmc, kcache_open fails with a text that says so.
 */
#ifndef KCACHE_KCACHE_H
#define KCACHE_KCACHE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/provider.h"
#include "bpf/layout.h"

enum {
    KCACHE_MAX_INTERFACES = 16,
    KCACHE_MAX_ALLOW = 64,
    KCACHE_STALL = 10, /* seconds, unless the options say something else */
};

/* How XDP is attached; KCACHE_TC: not at all, TC ingress answers alone. */
enum kcache_mode { KCACHE_AUTO, KCACHE_NATIVE, KCACHE_GENERIC, KCACHE_TC };

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
};

struct kcache;

/*
 * Parses the word behind -X or -o that starts with "bmc=": interfaces and
 * options separated by commas ("bmc=eth0,bmc=eth1,mode=native,optional").
 * Slices of `word` are cut in place and kept. NULL, or a static text that
 * says what is wrong. May be called again to add interfaces.
 */
const char *kcache_parse(struct kcache_options *options, char *word);
/* Whether such a word was given. */
bool kcache_wanted(const struct kcache_options *options);

/*
 * Loads the programs and creates the first maps; attaches nothing. reach: how many bytes of
 * heap the store may come to (commits nothing). NULL: `error` says what is wrong and what to
 * do about it.
 */
struct kcache *kcache_open(const struct kcache_options *options, uint64_t reach, char *error,
                           size_t nerror);
struct provider *kcache_provider(struct kcache *kcache);

/*
 * From here on the kernel answers for UDP `port` on the `n` addresses, those of IPv4
 * mapped into IPv6 (:: and ::ffff:0.0.0.0: all of the family that this machine has).
 * The store must be ready and the sockets bound. Says on stderr, a line for each
 * interface, how it is attached. An interface that was found for bmc=auto may fail, as long
 * as there is another. 0, or -1 with `error` and nothing attached.
 */
int kcache_attach(struct kcache *kcache, uint16_t port, const struct in6_addr *addresses, size_t n,
                  char *error, size_t nerror);
/* The server runs, all of it: to be called every second by the thread that attached. */
void kcache_beat(struct kcache *kcache);
/* The kernel answers nothing any more. */
void kcache_detach(struct kcache *kcache);
/* Detaches, waits until no program runs, frees. NULL is legal. */
void kcache_close(struct kcache *kcache);

struct kcache_interface {
    char name[16];
    bool xdp_native, xdp_generic, tc; /* what is attached */
};

struct kcache_stats {
    struct mc_counts counts; /* of all CPUs, since the start or the last reset */
    struct kcache_interface interfaces[KCACHE_MAX_INTERFACES];
    unsigned int ninterfaces;
    uint64_t stalls;   /* how often the server did not run for too long */
    const char *allow; /* local, all or list */
    size_t nallowed;   /* prefixes in the list */
    uint32_t rate, burst, amplification;
};
void kcache_stats(struct kcache *kcache, struct kcache_stats *out);
void kcache_reset_stats(struct kcache *kcache);

#endif
