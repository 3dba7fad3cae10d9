/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: attaches a loader's programs to interfaces: links.c to XDP, tc.c to TC, dispatcher.c to
 * libxdp's dispatcher; share.c shares interfaces with other servers. loader_close detaches all.
 *
 * Programs are attached by links, which end with the process. A TC filter of kernels before 6.6 and
 * a member of libxdp's dispatcher do not end with it, so they call the programs through an array
 * that the kernel empties, and the next attach replaces them.
 *
 * One thread at a time.
 */
#ifndef BPF_ATTACH_H
#define BPF_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/load/load.h"

struct share_link;

enum { LOADER_NAME = 32 }; /* bytes of a name, NUL included */

/* What runs before a program of ours on its TC hook, other servers' programs aside. */
struct loader_before {
    unsigned int n;         /* programs and filters; of the first one: */
    uint32_t program;       /* its id; 0: a filter that is no program */
    char name[LOADER_NAME]; /* or the filter's kind; "": this process may not read it */
    bool unseen; /* the hook has changed, this process may not look, and no reply was seen since */
};

/* The attachment to a TC hook. */
struct loader_tc {
    int link;                      /* of TCX; -1: none */
    bool filter;                   /* a clsact filter, which outlives the process, */
    uint32_t id, handle, priority; /* its program's id, and its own */
    uint64_t revision;             /* of the hook of TCX when it was looked at; 0: unknown */
    uint32_t seen;                 /* when egress had seen a reply before the hook has changed */
    struct loader_before before;   /* as last looked at */
};

/* Attachments to one interface. */
struct loader_link {
    int ifindex;
    int xdp;                  /* a link; -1: none */
    bool generic;             /* XDP in the stack instead of the driver */
    bool shared;              /* XDP as a member of libxdp's dispatcher */
    struct share_link *share; /* by which other servers can share XDP; NULL: they cannot */
    unsigned int nservers;    /* that shared it when the last of them came; 0: no other has */
    struct loader_tc tc[LOADER_HOOKS];
    enum loader_hook main; /* the required hook: egress for the chain, else ingress */
};

void loader_link_init(struct loader_link *link, int ifindex);
/*
 * 0 or -errno: EBUSY and EEXIST if another XDP program is attached, EADDRINUSE if that is of a
 * server with a port of this one. From then on the chain caches nothing for `settle`: writes may be
 * in flight that it did not see.
 */
int loader_attach_xdp(struct loader *loader, struct loader_link *link, bool generic);
/*
 * Instead, on an interface with a libxdp dispatcher: joins it, in the mode in which it is attached.
 * Needs CAP_NET_ADMIN and /sys/fs/bpf. 0 or -errno (ENOENT: no dispatcher), with the verifier's
 * message or "" in `reason`.
 */
int loader_join_dispatcher(struct loader *loader, struct loader_link *link, char *reason,
                           size_t nreason);
/*
 * Attaches to the TC hooks that are free, by TCX, else by a filter: before all other programs, if
 * none holds the lowest priority for itself. 0, or -errno of egress, without which nothing is
 * answered, or of the main hook.
 */
int loader_attach_tc(struct loader *loader, struct loader_link *link);
/* Attaches to one hook. 0 or -errno. */
int loader_attach_hook(struct loader *loader, struct loader_link *link, enum loader_hook hook);
bool loader_has_tc(const struct loader_link *link, enum loader_hook hook);
/* Looks at what others have put before the programs of the TC hooks since they were attached. */
void loader_look_before(struct loader *loader, struct loader_link *link);
/* 0, or -errno if a filter stays, as loader_detach. */
int loader_detach_hook(struct loader_link *link, enum loader_hook hook);
int loader_detach_tc(struct loader_link *link);
/*
 * From now on other servers of this network namespace can share the interfaces of this one, and it
 * theirs: bpf/attach/share.h. Not for the chain, which only keeps its filters apart from theirs.
 * They meet by sockets in this folder, which are for the owner and a group: that of the user that
 * the process becomes; there is room for 79 bytes. Under the folder's lock, before anything is
 * attached. Others can connect once this server attaches programs that are loaded. 0, or -errno and
 * it shares nothing.
 */
int loader_listen(struct loader *loader, const char *folder, gid_t group);
/* Starts the thread that closes what others send, once this process has given up its rights. */
void loader_begin_to_serve(struct loader *loader);
/*
 * The descriptor on which loader_serve has something to do when it is readable; -1: there is none,
 * or for the rest of this second it does nothing.
 */
int loader_listener(struct loader *loader);
void loader_serve(struct loader *loader);
/* After everything was detached, or loader_close. */
void loader_unlisten(struct loader *loader);
/* The result of loader_lost, as bits. */
enum { LOADER_LOST_XDP = 1 << 0, LOADER_LOST_TC = 1 << 1 };

/*
 * Returns which programs are no longer attached although loader_detach was not called: the
 * interface was removed, or another process has detached them or replaced the link's program. From
 * now on they count as detached. Needs no privilege.
 */
unsigned int loader_lost(struct loader *loader, struct loader_link *link);
/* The highest descriptor that keeps a TC program attached; -1: none. */
int loader_highest_tc(const struct loader *loader, const struct loader_link *link);
/*
 * Moves the XDP link to a descriptor above `fd`, and above what a server without clients has, if
 * the process may have one so high.
 */
void loader_put_xdp_above(struct loader_link *link, int fd);
/* Detaches XDP only; TC stays, while XDP is attached in another mode. */
void loader_detach_xdp(struct loader_link *link);
/*
 * 0, or -errno if a filter stays, which then passes every packet: its removal needs CAP_NET_ADMIN.
 */
int loader_detach(struct loader_link *link);
/* The id of the XDP program on an interface, 0: none; and its name, if this process may read it. */
uint32_t loader_xdp_present(int ifindex, char name[16]);

#endif
