/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * swap: replaces the socket of an established TCP connection by a new one that has the wire's
 * sequence numbers, so that no program has to translate the connection's segments any more. To the
 * client it looks like a lost segment or two, and a window update.
 *
 * By TCP_REPAIR: the new socket gets the old one's numbers, plus what the kernel programs have
 * added to them, its queues and its options. What came out of order, the round-trip time and the
 * congestion window are not taken over: the client sends that again, and they are measured anew.
 *
 * The new socket is connected beside the old one, which meanwhile is bound to an interface that
 * does not exist: no segment finds it, and it can send none. Until the entry is removed each step
 * can be taken back.
 *
 * Needs CAP_NET_ADMIN in the socket's network namespace, and CAP_NET_RAW, without which Linux does
 * not bind a socket to an interface and then to another one or to none; and CAP_NET_BIND_SERVICE
 * where the server's port is below net.ipv4.ip_unprivileged_port_start. Any thread; takes no lock,
 * keeps nothing.
 */
#ifndef SPLICE_SWAP_H
#define SPLICE_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared/tcp.h"

/* In this order. */
enum swap_step {
    SWAP_NONE,
    SWAP_REPAIR,  /* the old socket can be repaired */
    SWAP_PREPARE, /* a new one, which is not connected */
    SWAP_FREEZE,  /* the entry */
    SWAP_ASIDE,   /* the old socket is bound to no interface that exists */
    SWAP_READ,    /* its numbers and queues */
    SWAP_CONNECT,
    SWAP_RESTORE, /* options of the handshake, queues, window */
    SWAP_REMOVE,  /* the entry: from here on there is no way back */
    SWAP_FINISH,
};

/* What translates the connection's segments. Each function but thaw returns 0 or -errno. */
struct swap_entry {
    /* From now on no segment of the connection goes either way. *kept: conn->delta.nreply bytes. */
    int (*freeze)(struct swap_entry *, struct mc_tcp_conn *conn, const char **kept);
    int (*remove)(struct swap_entry *);
    void (*thaw)(struct swap_entry *);
};

struct swap_plan {
    struct swap_entry *entry; /* NULL: nothing does: the wire's numbers are the socket's */
    int filter;               /* a program for the new socket, or -1 */
    enum swap_step fails;     /* for tests: the step that fails, or SWAP_NONE */
};

enum swap_result {
    SWAP_DONE,
    SWAP_NOT_NOW, /* it has no route, for example; the old socket is as it was */
    SWAP_FAILED,  /* and will fail again; the old socket is as it was */
    SWAP_LOST,    /* the connection has ended: the last step failed, or the way back */
};

struct swapped {
    int fd;              /* the new socket, non-blocking; -1 unless it is SWAP_DONE */
    uint32_t nsent;      /* bytes that it has been given to send since its bytes_acked is 0 */
    enum swap_step step; /* the last one, and */
    int error;           /* why it failed, an errno; 0: it did not */
};

/* `old` is still the caller's to close. When the swap is done it has no connection. */
enum swap_result swap_socket(int old, const struct swap_plan *plan, struct swapped *out);
/* Closes a socket and resets its connection. */
void swap_reset(int fd);
/* The socket gets no segment any more; a listening one resets none. 0 or -errno. */
int swap_deafen(int fd);
/* What a step is, for messages: "cannot ...". */
const char *swap_step_text(enum swap_step step);

#endif
