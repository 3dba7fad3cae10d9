/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: the programs on interfaces. Finds the way of attaching that suits an interface (native
 * XDP, generic XDP, TC), says which it was, or why there is none and what would help.
 *
 * An attachment is plain data of its owner, kcache; one thread at a time.
 */
#ifndef KCACHE_ATTACH_H
#define KCACHE_ATTACH_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "bpf/loader/loader.h"
#include "kcache/kcache.h"

/* One interface and what of us is on it. */
struct attachment {
    char name[IF_NAMESIZE];
    struct loader_link link;
    bool hides_tags; /* takes VLAN tags off before XDP, as of when we attached */
    bool tc_wanted;  /* a reply has found no room in a frame, */
    bool tc_waits;   /* or none has, and so TC is not attached */
};

/* The interface of this name, nothing attached. 0, or -1 with `error`: there is none. */
int attach_find(struct attachment *at, const char *name, char *error, size_t nerror);
/*
 * Attaches what is not attached yet, and says on stderr how, in a line. Needs nothing but CAP_BPF
 * once the programs are loaded, but for TC before Linux 6.6 (CAP_NET_ADMIN). 0, or -1 with `error`
 * and nothing attached.
 */
int attach_interface(struct loader *loader, struct attachment *at, enum kcache_mode mode,
                     char *error, size_t nerror);
/* Brings TC behind XDP, where it waits, and is not to wait again. 0 or -errno. */
int attach_waiting_tc(struct loader *loader, struct attachment *at);
/* Whether the way of attaching is no longer right, since the interface has changed; `why` says it.
 */
bool attach_is_unfit(const struct attachment *at, char *why, size_t nwhy);
/* Leaves TC attached: what attach_interface needs no right for is XDP. */
void attach_remove_xdp(struct attachment *at);
/* Detaches what is attached. 0, or -errno if a TC filter stays (loader_detach). */
int attach_remove(struct attachment *at);
/* Whether the TC program that is needed is there. */
bool attach_has_tc(const struct attachment *at);
/* Whether TC egress sees what the server replies, without which nothing is answered. */
bool attach_learns(const struct attachment *at);
/* Whether a filter is there, which stays if it is not removed. */
bool attach_outlives(const struct attachment *at);
/* Whether TC ingress stands behind XDP there. */
bool attach_follows(const struct attachment *at);

#endif
