/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boundaries: how the threads that serve connections tell the kernel path how far each of them is
 * (bpf/shared/tcp.h). kcache provides it, net uses it.
 *
 * Calls come from any thread.
 */
#ifndef BASE_BOUNDARIES_H
#define BASE_BOUNDARIES_H

struct mc_tcp_slot;

struct boundaries {
    /*
     * To be called for an accepted TCP socket before its first byte is read. Returns its slot,
     * whose boundary is MC_TCP_NONE, or NULL: the kernel answers nothing on this connection.
     */
    struct mc_tcp_slot *(*open)(struct boundaries *, int socket);
    /* Takes the slot back, before the socket is closed. */
    void (*close)(struct boundaries *, struct mc_tcp_slot *slot);
};

#endif
