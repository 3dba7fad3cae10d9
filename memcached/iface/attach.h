/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: attaches the programs to interfaces. Chooses the mode that works on an interface (native
 * XDP, generic XDP, TC), and logs it; or reports why none works and what the operator can do.
 *
 * An attachment is plain data, owned by kcache; one thread at a time.
 */
#ifndef IFACE_ATTACH_H
#define IFACE_ATTACH_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "bpf/attach/attach.h"
#include "iface/iface.h"
#include "iface/sending.h"

/* An interface and the programs that are attached to it. */
struct attachment {
    char name[IF_NAMESIZE];
    struct loader_link link;
    bool named;                /* not selected by `auto`: that it refuses is an error */
    bool tc_alone;             /* no XDP program is wanted: TC answers */
    bool strips_tags;          /* strips VLAN tags before XDP, as last seen */
    bool tc_wanted;            /* a reply found no room in a frame: attach TC */
    bool tc_deferred;          /* TC is not attached until a reply finds no room */
    struct sending sending;    /* whether replies of native XDP leave it */
    char before[IFACE_BEFORE]; /* what runs before the programs on TC (order.h), */
    bool before_said;          /* and whether the log has it */
    uint64_t passed;           /* for lack of a way, before TC egress has changed */
};

/* Finds the interface of this name and attaches nothing. 0, or -1 with `error`: there is none. */
int attach_find(struct attachment *at, const char *name, char *error, size_t nerror);
/*
 * Attaches a program of TC, egress first, as soon as it is loaded, if it fits: the kernel waits for
 * a grace period of RCU then, while it is still loading the XDP program. What fails fails again in
 * attach_interface.
 */
void attach_early(struct loader *loader, struct attachment *at, enum loader_hook hook);
/*
 * Attaches the programs that are not attached yet, and logs the mode in one line. Once the programs
 * are loaded, needs only CAP_BPF, and CAP_NET_ADMIN for TC before Linux 6.6. 0, or -1 with `error`
 * and nothing attached.
 */
int attach_interface(struct loader *loader, struct attachment *at, enum iface_mode mode,
                     char *error, size_t nerror);
/*
 * To be called after programs of the chain were attached; otherwise does nothing. The kernel closes
 * the descriptors of a process that is killed from the highest to the lowest: gives XDP on all n
 * interfaces higher ones than TC on any. So the chain stops answering before it stops seeing the
 * server's replies, which tell it of writes that were in flight for longer than `settle`.
 */
void attach_order(const struct loader *loader, struct attachment *attachments, size_t n);
/* Attaches TC behind XDP where that was deferred, and does not defer it again. 0 or -errno. */
int attach_deferred_tc(struct loader *loader, struct attachment *at);
/* Whether the interface has changed so that the mode no longer works; `why` says why. */
bool attach_is_unfit(const struct attachment *at, char *why, size_t nwhy);
/* Detaches all programs. 0, or -errno if a TC filter stays (loader_detach). */
int attach_remove(struct attachment *at);
/* Whether a TC filter is attached, which outlives the process unless it is removed. */
bool attach_has_filter(const struct attachment *at);

#endif
