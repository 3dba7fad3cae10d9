/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boundaries: how the threads that serve connections tell the kernel path how far each of them is
 * (bpf/shared/tcp.h). kcache provides it, net uses it.
 *
 * Calls come from any thread.
 */
#ifndef BASE_BOUNDARIES_H
#define BASE_BOUNDARIES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared/counters.def"

struct mc_tcp_slot;

enum undo_reason { UNDO_COUNTERS(COUNTER_CONSTANT) UNDO_REASONS };

enum undo_result {
    UNDO_DONE,
    UNDO_NOT_NOW, /* all is as before: the connection has no route now, for example */
    UNDO_FAILED,  /* and will fail again; or it was reset */
};

/* The socket in the place of the one before, and the bytes that it counts as sent by the server. */
struct undone {
    int fd;
    uint32_t nsent;
};

struct boundaries {
    /*
     * To be called for a connected TCP socket before a reply is sent. nundone: how often the
     * connection has got another socket. Returns its slot, whose boundary is MC_TCP_NONE, or NULL:
     * the kernel answers nothing on this connection.
     */
    struct mc_tcp_slot *(*open)(struct boundaries *, int socket, unsigned int nundone);
    /* Takes the slot back, before the socket is closed. */
    void (*close)(struct boundaries *, struct mc_tcp_slot *slot);
    /*
     * Takes the slot back from a connection that goes on, and whose boundary was withdrawn: the
     * programs know it no more. False: it keeps the slot, because the kernel has answered on it.
     */
    bool (*release)(struct boundaries *, int socket, struct mc_tcp_slot *slot);
    /*
     * Whether the connection hangs, because what the kernel has answered on it makes its segments
     * need translation, and they take a path without the programs. To be asked some times a second.
     */
    bool (*is_lost)(struct boundaries *, struct mc_tcp_slot *slot, int socket);
    /*
     * Has netfilter let segments through that take such a way, so that this is noticed. Once is
     * enough when it returns true.
     */
    bool (*announce)(struct boundaries *, struct mc_tcp_slot *slot, int socket);
    /*
     * Makes another socket, with the numbers that the client knows, so that no segment of the
     * connection needs translation. The caller closes the first, and takes the slot back.
     */
    enum undo_result (*undo)(struct boundaries *, struct mc_tcp_slot *slot, int socket,
                             enum undo_reason reason, struct undone *out);
    /* Resets the connection, with the numbers that the client knows if that can be. */
    void (*reset)(struct boundaries *, struct mc_tcp_slot *slot, int socket);
    /* A connection is reset because its segments take a path without the programs. */
    void (*count_lost)(struct boundaries *);
    /* A get of a connection is left to the server so that the network stack sees it. */
    void (*count_refresh)(struct boundaries *);
    uint32_t refresh; /* after so many seconds in which the kernel answered all; 0: never */
    /* Of boundaries_undo_all; atomic. */
    uint32_t epoch; /* changes with each call */
    uint32_t why;   /* enum undo_reason, of the last one */
};

/* What the server counts of them. */
struct boundaries_counts {
    __u64 undone[UNDO_REASONS]; /* connections that the server answers alone again */
    uint64_t reset;             /* connections that could not be undone */
    uint64_t released;  /* connections that were given up, because the kernel answered nothing */
    uint64_t refreshed; /* gets that were left to the server so that the stack sees them */
};

/* Has the workers undo all connections on which the kernel has answered, at their next looks. */
static inline void boundaries_undo_all(struct boundaries *boundaries, enum undo_reason why)
{
    __atomic_store_n(&boundaries->why, why, __ATOMIC_RELAXED);
    __atomic_fetch_add(&boundaries->epoch, 1, __ATOMIC_RELEASE);
}

#endif
