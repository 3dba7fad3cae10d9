/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loader: the kernel programs and their maps, from user space; those that answer from the server's
 * memory, or the chain. loader.c opens and loads, links.c and tc.c attach, object.c knows the
 * skeletons.
 * The one place that knows libbpf, beside dispatcher.c; kcache is its only user in the programs,
 * tests and the bench the others.
 *
 * An open loader is programs and empty maps. Memory is added one map at a time and belongs to the
 * kernel as long as anybody has it: a process that mapped it, or a program that is attached.
 * Programs are attached by links, which die with the process; a TC filter of kernels before 6.6 and
 * a place in libxdp's dispatcher do not, so they reach the programs through an array that the
 * kernel empties, and the next attach replaces them.
 *
 * One thread at a time, but for loader_counts and the two loader_map_*, which any thread may call.
 */
#ifndef BPF_LOADER_H
#define BPF_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared/chain.h"
#include "bpf/shared/layout.h"

struct loader;

/* Whom the programs answer: bpf/packet/guard.bpf.h. All zero: local sources, without limits. */
struct loader_guard {
    enum mc_allow allow;
    bool local;                 /* for MC_ALLOW_LIST: beside the list's sources */
    const void *list;           /* for MC_ALLOW_LIST, as layout.h says; copied */
    uint32_t nnodes, nprefixes; /* in it, powers of two */
    uint32_t rate, burst;       /* requests a second, and at once; rate 0: no limit */
    uint32_t amplification;     /* 0: no limit */
};

/*
 * Loads the programs. NULL: `error` says what is wrong and what to do about it. Needs CAP_BPF,
 * CAP_NET_ADMIN and CAP_PERFMON.
 */
struct loader *loader_open(char *error, size_t nerror);
struct loader *loader_open_guarded(const struct loader_guard *guard, char *error, size_t nerror);
/*
 * The same of the chain, whose XDP program is rx_filter and whose TC program, on egress, tx_filter.
 * Its seeds are set. The heap and the table are not for it.
 */
struct loader *loader_open_chain(const struct chain_settings *settings,
                                 const struct loader_guard *guard, char *error, size_t nerror);
/* Detaches what is attached. Memory that is still mapped stays mapped. NULL is legal. */
void loader_close(struct loader *loader);

/* The control block, zeroed but for a lease without end, until loader_close. */
struct mc_control *loader_control(struct loader *loader);
/*
 * A new extent of the heap (MC_EXTENT_BYTES) or of the table (MC_TABLE_BYTES), mapped at `addr`
 * over whatever is there, and shown to the programs under `index`. Needs CAP_BPF where unprivileged
 * BPF is off. 0 or -errno.
 */
int loader_map_extent(struct loader *loader, uint32_t index, void *addr);
int loader_map_table(struct loader *loader, uint32_t index, void *addr);

/* Bytes of all maps when they were loaded. */
uint64_t loader_bytes(const struct loader *loader);
/*
 * Whether this kernel lets a program be interrupted by another on the same CPU, which would write
 * over what the first has in hand: PREEMPT_RT since Linux 6.18 gave up its lock for each CPU.
 */
bool loader_is_interrupted(void);
/* Nanoseconds of a tick of the kernel's clock. */
uint64_t loader_tick_ns(void);
/* Whether it is the chain. */
bool loader_is_chain(const struct loader *loader);

/* What the programs counted on all CPUs since they were loaded. */
void loader_counts(struct loader *loader, struct mc_counts *out);

/* Of the chain: the same of enum chain_count. */
void loader_chain_counts(struct loader *loader, struct chain_counts *out);

enum loader_program { LOADER_XDP, LOADER_TC };

/* For BPF_PROG_TEST_RUN and the bench. */
int loader_program_fd(struct loader *loader, enum loader_program program);

/* Of any program, by its name: the descriptor or -ENOENT. */
int loader_program_named(struct loader *loader, const char *name);

struct loader_packet {
    const void *in; /* a frame */
    size_t nin;
    void *out;        /* the frame as the program left it */
    size_t nout;      /* room; then its length */
    int ifindex;      /* that it came by, which needs an XDP program; 0: lo */
    uint32_t repeat;  /* runs of the program, each on what the one before left; 0: one */
    uint32_t verdict; /* of the last run */
    uint32_t ns;      /* mean time of a run */
    uint32_t nmark;   /* bytes of metadata that XDP left before the frame in `out` */
};

/* Runs a program on one packet. 0 or -errno. */
int loader_run(struct loader *loader, enum loader_program program, struct loader_packet *packet);

enum loader_hook { LOADER_INGRESS, LOADER_EGRESS, LOADER_HOOKS };

/*
 * This machine's routes, rules, addresses or interfaces have changed: to no source is replied
 * before the stack has done so again.
 */
void loader_doubt_ways(struct loader *loader);
/* Interfaces whose replies leave by others, up to MC_WAY_PORTS of them. */
void loader_set_ports(struct loader *loader, const struct mc_way_port *ports, size_t n);

/* What is on a hook of TC. */
struct loader_tc {
    int link;    /* of TCX; -1: none */
    bool filter; /* or a clsact filter, which outlives the process, */
    uint32_t id; /* and the id of its program */
};

/* Attachments to one interface. */
struct loader_link {
    int ifindex;
    int xdp;      /* a link; -1: none */
    bool generic; /* XDP in the stack instead of the driver */
    bool shared;  /* XDP as a member of libxdp's dispatcher */
    struct loader_tc tc[LOADER_HOOKS];
    enum loader_hook main; /* that is needed: egress of the chain, else ingress */
};

void loader_link_init(struct loader_link *link, int ifindex);
/* 0 or -errno: EBUSY and EEXIST if another XDP program is there. */
/* The chain keeps nothing for `settle` from then on: writes may be in flight that it did not see.
 */
int loader_attach_xdp(struct loader *loader, struct loader_link *link, bool generic);
/*
 * Instead, where the interface has a dispatcher of libxdp: takes a place in it, as it is attached.
 * Needs CAP_NET_ADMIN and /sys/fs/bpf. 0 or -errno (ENOENT: there is none), and `reason` becomes
 * what the verifier says or "".
 */
int loader_join_dispatcher(struct loader *loader, struct loader_link *link, char *reason,
                           size_t nreason);
/*
 * What is not attached yet, each by TCX, else by a filter. 0, or -errno of egress, without which
 * nothing is answered, or of the main one.
 */
int loader_attach_tc(struct loader *loader, struct loader_link *link);
/* One of them. 0 or -errno. */
int loader_attach_hook(struct loader *loader, struct loader_link *link, enum loader_hook hook);
bool loader_has_tc(const struct loader_link *link, enum loader_hook hook);
/* 0, or -errno if a filter stays, as of loader_detach. */
int loader_detach_hook(struct loader_link *link, enum loader_hook hook);
int loader_detach_tc(struct loader_link *link);
/*
 * Of the chain, which else has nothing to say to it: nothing that was kept is valid, and nothing is
 * kept that is asked for within `ns`, and within `settle` after that.
 */
void loader_distrust(struct loader *loader, uint64_t ns);
/* What loader_lost says, as bits. */
enum { LOADER_LOST_XDP = 1 << 0, LOADER_LOST_TC = 1 << 1 };

/*
 * Which programs are no longer on the interface, though nobody has called loader_detach: it is
 * gone, or somebody has detached them, or put another program into the link. They count as not
 * attached from now on. Needs no right.
 */
unsigned int loader_lost(struct loader *loader, struct loader_link *link);
/*
 * Gives the XDP link a descriptor above those of TC. The kernel closes the descriptors of a process
 * that is killed from the last to the first: so the chain stops answering before it stops seeing
 * the server's replies, which tell it of writes that were in flight for longer than `settle`.
 */
void loader_put_xdp_last(struct loader_link *link);
/* The XDP program alone; TC stays, for another way of attaching XDP before it. */
void loader_detach_xdp(struct loader_link *link);
/* 0, or -errno if a filter stays: removing it needs CAP_NET_ADMIN. It then passes everything. */
int loader_detach(struct loader_link *link);
/*
 * Takes the memory from programs that stay attached, so that it is freed with the process. The
 * kernel waits until no program runs in it: 10 to 20 ms for each 48 maps.
 */
void loader_forget(struct loader *loader);
/* The id of the XDP program on an interface, 0: none. `name` gets its name, if we may know it. */
uint32_t loader_xdp_present(int ifindex, char name[16]);

/*
 * Who answers: XDP leaves to TC what its frames have no room for if `tc_follows`; TC answers
 * everything by itself if `tc_alone`.
 */
void loader_set_tc(struct loader *loader, bool tc_follows, bool tc_alone);

#endif
