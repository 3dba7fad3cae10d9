/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * load: loads the kernel programs and their maps: those that answer from the server's memory, or
 * the chain. load.c opens and loads, object.c wraps the skeletons, memory.c adds memory, running.c
 * tells the programs what changes while they run. bpf/attach/attach.h attaches them to interfaces.
 * With that the only user of libbpf.
 *
 * An open loader has programs and empty maps. Memory is added one map at a time; the kernel keeps
 * it as long as a process has it mapped or a program that uses it is attached.
 *
 * One thread at a time, except loader_counts, loader_tcp_*, the two loader_map_* and
 * loader_set_guard: these may run beside others, loader_set_guard one at a time.
 */
#ifndef BPF_LOAD_H
#define BPF_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/shared/chain.h"
#include "bpf/shared/layout.h"
#include "bpf/shared/ring.h"
#include "bpf/shared/tcp.h"

struct entry_access;
struct loader;

/*
 * Which sources the programs answer: bpf/packet/guard.bpf.h. All zero: local ones, without limits.
 */
struct loader_guard {
    enum mc_allow allow;
    bool local;                 /* for MC_ALLOW_LIST: local sources besides the list's */
    bool reloads;               /* loader_set_guard will follow; needs MC_ALLOW_LIST */
    const void *list;           /* for MC_ALLOW_LIST, as layout.h says; copied */
    uint32_t nnodes, nprefixes; /* in it, powers of two */
    uint32_t rate, burst;       /* requests a second, and in a burst; rate 0: no limit */
    uint32_t amplification;     /* 0: no limit */
};

/* Bytes of a list with so many nodes and prefixes. */
size_t loader_list_bytes(const struct loader_guard *guard);

/* What the programs do beside answering UDP, as bits. */
enum {
    LOADER_TCP = 1 << 0,   /* loader_open_tcp will follow */
    LOADER_RINGS = 1 << 1, /* and loader_set_ring */
};
/* Where a program of TC is attached. */
enum loader_hook { LOADER_INGRESS, LOADER_EGRESS, LOADER_HOOKS };
/*
 * Starts to load the programs, by threads, which takes a tenth of a second: until loader_wait only
 * memory may be added, and behind loader_wait_hook a program of TC attached. NULL: `error` says
 * what is wrong and what the operator can do. Needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
 */
struct loader *loader_open_guarded(const struct loader_guard *guard, unsigned int extras,
                                   char *error, size_t nerror);
/*
 * The same for the chain, whose XDP program is mc_rx_filter and whose TC program, on egress, is
 * mc_tx_filter. Sets its seeds. The chain uses neither heap nor table. Its programs are loaded when
 * it returns.
 */
struct loader *loader_open_chain(const struct chain_settings *settings,
                                 const struct loader_guard *guard, char *error, size_t nerror);
/*
 * Waits until the program of this hook is loaded, which takes less time than that of XDP. 0 or
 * -errno, as loader_wait will say again.
 */
int loader_wait_hook(struct loader *loader, enum loader_hook hook);
/*
 * Waits until the programs are loaded, those for TCP too. Before it no thread of the process may
 * change its credentials, not even for a moment. 0, or -errno with `error`; then nothing is left to
 * do but to close. Once more does nothing.
 */
int loader_wait(struct loader *loader, char *error, size_t nerror);
/* Detaches all programs. Memory that is still mapped stays mapped. NULL is legal. */
void loader_close(struct loader *loader);

/* The control block, zeroed but for a lease without end, until loader_close. */
struct mc_control *loader_control(struct loader *loader);
/*
 * Creates an extent of the heap (MC_EXTENT_BYTES) or of the table (MC_TABLE_BYTES), maps it at
 * `addr` over any earlier mapping, and shows it to the programs under `index`; before loader_wait
 * that may be later, loader_wait says whether it failed, and one thread only may do so. Needs
 * CAP_BPF where unprivileged BPF is disabled. 0 or -errno.
 */
int loader_map_extent(struct loader *loader, uint32_t index, void *addr);
int loader_map_table(struct loader *loader, uint32_t index, void *addr);

/*
 * Removes the memory from programs that stay attached, so that it is freed with the process. Waits
 * for an RCU grace period, 10 to 20 ms, for each 48 maps.
 */
void loader_release_memory(struct loader *loader);

/*
 * Replaces list, local, and the limits of a loader that was opened with `reloads`; the list's
 * numbers of nodes and prefixes are the same as then. Each packet is judged by the old list or by
 * the new one, or passed. Needs CAP_BPF where unprivileged BPF is disabled. 0, or -errno and
 * nothing has changed.
 */
int loader_set_guard(struct loader *loader, const struct loader_guard *guard);

/* Bytes of all maps when they were loaded. */
uint64_t loader_bytes(const struct loader *loader);
/*
 * Whether in this kernel another program can interrupt a program on the same CPU, and overwrite its
 * per-CPU scratch: PREEMPT_RT, since Linux 6.18 removed the lock of each CPU.
 */
bool loader_is_interrupted(void);
/* Nanoseconds between two ticks of the kernel's clock. */
uint64_t loader_tick_ns(void);
/* Whether the loader has the chain's programs. */
bool loader_is_chain(const struct loader *loader);

/*
 * Starts to load the programs that answer over TCP, over the same maps; once, after
 * loader_open_guarded with tcp, before anything is attached. loader_wait waits for them too. They
 * do nothing as long as the control block has no tcp_port. nslots: connections that the server can
 * have. 0, or -errno with `error`.
 */
int loader_open_tcp(struct loader *loader, uint32_t nslots, char *error, size_t nerror);
/* The slots, mapped until loader_close; NULL without loader_open_tcp. */
struct mc_tcp_slot *loader_tcp_slots(struct loader *loader);
/*
 * Gives a listening socket of the server's port the filter that drops what comes for a connection
 * whose entry is frozen, or takes it off. 0 or -errno.
 */
int loader_tcp_listener(const struct loader *loader, int socket, bool on);
/*
 * Tells the programs which slot the connection of a socket of this process has, by an entry that
 * waits for its next reply, and gives it the filter that drops what should have been translated.
 * mark: 0; 1 if the socket is in the place of one that had 0, and so on in turn: what was
 * translated for the one is not taken by the next. 0 or -errno. From any thread. Needs CAP_BPF
 * where unprivileged BPF is disabled.
 */
int loader_tcp_tag(struct loader *loader, int socket, const struct mc_tcp_tag *tag, unsigned mark);
/* Removes that entry if it still waits. To be called before the slot is another connection's. */
void loader_tcp_untag(struct loader *loader, const struct mc_tcp_slot *slot);
/*
 * The programs know the connection of a socket with a slot no more, and the socket has no filter
 * and no tag of the guard's. 0, or -errno: they know it still; -EBUSY: because they have answered
 * on it.
 */
int loader_tcp_release(struct loader *loader, int socket, const struct mc_tcp_slot *slot);
/* Milliseconds since a time that stands in a slot. */
uint32_t loader_tcp_age(const struct loader *loader, uint32_t time);
/*
 * How many of the `received` bytes of a socket the programs have not seen it acknowledge; or
 * -errno: they do not follow it.
 */
int64_t loader_tcp_unseen(const struct loader *loader, int socket, uint64_t received);
/*
 * Resets a connection with the socket's numbers, which the programs translate if the reset passes
 * them. If it does not, the client's next segment finds no entry, and Linux resets the connection
 * with the numbers of that.
 */
void loader_tcp_reset(struct loader *loader, int socket);
/* How to get at the entries without a loader (bpf/load/entry.h), until loader_close. */
void loader_tcp_entries(const struct loader *loader, struct entry_access *out);
/* The descriptor of the filter of a socket that is followed no more (bpf/tcp/lost.bpf.h). */
int loader_tcp_filter(const struct loader *loader);
/*
 * The guard is attached by this link (bpf/load/entry.h), which ends with the loader: what the
 * sockets in its control group send is dropped where it has to be translated and would leave by
 * none of the ways: interfaces what leaves by which passes the program on TC egress, up to
 * MC_TCP_WAYS_MAX of them, at first none. After loader_wait; again once it was lost.
 */
void loader_guard_tcp(struct loader *loader, int link);
void loader_set_tcp_ways(struct loader *loader, const int *ifindexes, size_t n);
/* Whether another process has detached it. Nothing is answered without timestamps then. */
bool loader_tcp_lost_guard(struct loader *loader);
/* It is lost, and does not come back. */
void loader_leave_tcp_unguarded(struct loader *loader);
/* Whether there is one, as far as these say. From any thread. */
bool loader_tcp_is_guarded(const struct loader *loader);
/* With the guard, also connections without timestamps are answered. Before any has come. */
void loader_take_unstamped(struct loader *loader);
/*
 * Removes the entries of connections that the server had closed before the previous call: until
 * then what is left of them may still have to be translated. To be called less often than once in
 * TIME_WAIT's time, by one thread. Does nothing without loader_open_tcp.
 */
void loader_sweep_tcp(struct loader *loader);
/* What the programs counted since they were loaded; all 0 without loader_open_tcp. */
void loader_tcp_counts(struct loader *loader, struct mc_tcp_counts *out);

/*
 * Gives ring `index` an AF_XDP socket, which ends with the socket. Returns the place of the count
 * of what was taken out of the ring (bpf/shared/ring.h), or NULL with errno. A port, up to
 * MC_RING_PORTS of them, is to follow when all its rings have sockets. Needs LOADER_RINGS.
 */
uint64_t *loader_set_ring(struct loader *loader, uint32_t index, int socket);
void loader_add_ring_port(struct loader *loader, const struct mc_ring_port *port);
/*
 * An interface was removed, and with it the sockets' queues. One that comes back with this index
 * has other queues: what was redirected to those sockets would be lost.
 */
void loader_end_ring_port(struct loader *loader, int ifindex);

/* What the programs counted on all CPUs since they were loaded. */
void loader_counts(struct loader *loader, struct mc_counts *out);

/* The same for the chain's counts, enum chain_count. */
void loader_chain_counts(struct loader *loader, struct chain_counts *out);

enum loader_program { LOADER_XDP, LOADER_TC };

/* The descriptor of the main one of that kind. */
int loader_program_fd(struct loader *loader, enum loader_program program);

/*
 * To be called when routes, rules, addresses or interfaces of this machine have changed: the
 * programs reply to no source before the network stack has replied to it again.
 */
void loader_invalidate_return_paths(struct loader *loader);
/* Ways back are learned from what this UDP socket of the server sends. 0 or -errno. */
int loader_know_socket(struct loader *loader, int socket);
/* Sets the interfaces whose replies leave by another one, up to MC_RETURN_PATH_PORTS of them. */
void loader_set_ports(struct loader *loader, const struct mc_return_path_port *ports, size_t n);

/*
 * For the chain; otherwise does nothing. Invalidates the whole cache, and caches no answer to a
 * request within `ns`, nor within `settle` after that.
 */
void loader_invalidate_all(struct loader *loader, uint64_t ns);
/*
 * tc_follows: XDP leaves requests to TC whose replies have no room in the frame, or whose lookup a
 * writer disturbed. tc_alone: TC answers all requests.
 */
void loader_set_tc(struct loader *loader, bool tc_follows, bool tc_alone);
/*
 * Whether XDP is generic on any interface, where a frame's checksum may be partial.
 * loader_attach_xdp and loader_join_dispatcher set it; only this takes it back.
 */
void loader_set_xdp_generic(struct loader *loader, bool generic);

#endif
