/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xsk: a socket of AF_XDP on one queue of an interface: frames that an XDP program puts there are
 * received, and frames are sent, through rings in memory that is shared with the kernel
 * (Documentation/networking/af_xdp.rst).
 *
 * A frame lies in a chunk of that memory. A received one is the caller's until it is released, in
 * the order in which they came. Where the driver can, it reads and writes the chunks itself
 * (zero-copy); else the kernel copies.
 *
 * To be opened by one thread, and used by one, perhaps another.
 */
#ifndef BASE_XSK_H
#define BASE_XSK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum {
    XSK_CHUNK = 2048,  /* bytes; a frame to be sent may have so many */
    XSK_SENT = 2048,   /* chunks to send from */
    XSK_FILLED = 2048, /* and to receive into: a driver may keep half of them in its own ring */
};

/* A ring; one side moves the producer, the other one the consumer. */
struct xsk_ring {
    uint32_t *producer, *consumer, *flags;
    void *entries;
    uint32_t mask;
    void *map;
    size_t nmap;
};

struct xsk {
    int fd;
    bool zero_copy;
    char *memory; /* XSK_FILLED chunks, then XSK_SENT */
    struct xsk_ring fill, received, sending, sent;
    uint32_t nsending; /* frames that were given to xsk_send, modulo 2^32 */
    unsigned int nfree;
    uint64_t *free;   /* the places of nfree chunks to send from */
    uint64_t *ntaken; /* NULL, or where others see how many frames were released */
    uint64_t nsent;   /* frames; others read it without order */
};

/*
 * Opens one on a queue, to receive up to nreceived frames, a power of two up to XSK_FILLED, before
 * any is released. Needs CAP_NET_RAW. Waits a moment for a queue whose last socket has just been
 * closed. 0 or -errno: EBUSY: another process has the queue; ENOBUFS: more memory than may be
 * locked; EPIPE: from this queue nothing can be sent.
 */
int xsk_open(struct xsk *xsk, unsigned int ifindex, unsigned int queue, unsigned int nreceived);
/* One that is zeroed is legal. */
void xsk_close(struct xsk *xsk);

/* How many frames have been received, and not released. */
unsigned int xsk_waiting(const struct xsk *xsk);
/* The one that came `i` frames after the first of these. */
struct slice xsk_frame(const struct xsk *xsk, unsigned int i);
/* Gives back the first n of them. */
void xsk_release(struct xsk *xsk, unsigned int n);

/* A chunk to write a frame into, until xsk_send or the next call; NULL: all are in use. */
char *xsk_room(struct xsk *xsk);
/* Queues the frame of n bytes that was written into the chunk of xsk_room. */
void xsk_send(struct xsk *xsk, size_t n);
/* Sends what was queued. False: not all of it can be sent now. */
bool xsk_flush(struct xsk *xsk);

#endif
