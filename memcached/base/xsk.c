/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/xsk.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BUSY_MS = 2000, /* for a queue whose socket was closed, until all its frames are free */
    TRY_MS = 100,   /* for a driver to come to what it has to send */
    SOCKET_BUFFER = 8 << 20,
};

/* The place of what is queued only to see whether the kernel takes it. */
static const uint64_t no_frame = UINT64_MAX;

static uint32_t load_acquire(const uint32_t *index)
{
    return __atomic_load_n(index, __ATOMIC_ACQUIRE);
}

static void store_release(uint32_t *index, uint32_t value)
{
    __atomic_store_n(index, value, __ATOMIC_RELEASE);
}

/* Whether the kernel wants to be told that the ring has changed. */
static bool needs_wakeup(const struct xsk_ring *ring)
{
    return __atomic_load_n(ring->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP;
}

/* --- opening ----------------------------------------------------------------- */

static int set_option(int fd, int option, const void *value, size_t n)
{
    return setsockopt(fd, SOL_XDP, option, value, (socklen_t)n) ? -errno : 0;
}

static int make_memory(struct xsk *xsk)
{
    const size_t n = (size_t)(XSK_FILLED + XSK_SENT) * XSK_CHUNK;
    struct xdp_umem_reg memory = {.len = n, .chunk_size = XSK_CHUNK};
    void *at =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (at == MAP_FAILED)
        return -errno;
    xsk->memory = at;
    xsk->free = malloc(XSK_SENT * sizeof(*xsk->free));
    if (!xsk->free)
        return -ENOMEM;
    for (; xsk->nfree < XSK_SENT; xsk->nfree++)
        xsk->free[xsk->nfree] = (uint64_t)(XSK_FILLED + xsk->nfree) * XSK_CHUNK;
    memory.addr = (uintptr_t)at;
    return set_option(xsk->fd, XDP_UMEM_REG, &memory, sizeof(memory));
}

/* Makes a ring of n entries and maps it. */
static int make_ring(int fd, int option, off_t page, const struct xdp_ring_offset *offset,
                     uint32_t n, size_t entry, struct xsk_ring *out)
{
    size_t nmap = offset->desc + n * entry;
    char *at;
    int rc = set_option(fd, option, &n, sizeof(n));

    if (rc)
        return rc;
    at = mmap(NULL, nmap, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
    if (at == MAP_FAILED)
        return -errno;
    *out = (struct xsk_ring){.producer = (uint32_t *)(at + offset->producer),
                             .consumer = (uint32_t *)(at + offset->consumer),
                             .flags = (uint32_t *)(at + offset->flags),
                             .entries = at + offset->desc,
                             .mask = n - 1,
                             .map = at,
                             .nmap = nmap};
    return 0;
}

static int make_rings(struct xsk *xsk, uint32_t nreceived)
{
    struct xdp_mmap_offsets offsets;
    socklen_t noffsets = sizeof(offsets);
    const size_t frame = sizeof(struct xdp_desc), chunk = sizeof(uint64_t);
    int rc, fd = xsk->fd;

    if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &noffsets))
        return -errno;
    rc = make_ring(fd, XDP_UMEM_FILL_RING, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, XSK_FILLED, chunk,
                   &xsk->fill);
    if (!rc)
        rc = make_ring(fd, XDP_UMEM_COMPLETION_RING, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr,
                       XSK_SENT, chunk, &xsk->sent);
    if (!rc)
        rc = make_ring(fd, XDP_RX_RING, XDP_PGOFF_RX_RING, &offsets.rx, nreceived, frame,
                       &xsk->received);
    if (!rc)
        rc = make_ring(fd, XDP_TX_RING, XDP_PGOFF_TX_RING, &offsets.tx, XSK_SENT, frame,
                       &xsk->sending);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < XSK_FILLED; i++)
        ((uint64_t *)xsk->fill.entries)[i] = (uint64_t)i * XSK_CHUNK;
    store_release(xsk->fill.producer, XSK_FILLED);
    return 0;
}

static int bind_queue(struct xsk *xsk, unsigned int ifindex, unsigned int queue)
{
    const struct sockaddr_xdp address = {.sxdp_family = AF_XDP,
                                         .sxdp_flags = XDP_USE_NEED_WAKEUP,
                                         .sxdp_ifindex = ifindex,
                                         .sxdp_queue_id = queue};
    struct xdp_options options = {0};
    socklen_t noptions = sizeof(options);

    for (int ms = 0; bind(xsk->fd, (const struct sockaddr *)&address, sizeof(address)); ms++) {
        if (errno != EBUSY || ms == BUSY_MS)
            return -errno;
        poll(NULL, 0, 1);
    }
    if (getsockopt(xsk->fd, SOL_XDP, XDP_OPTIONS, &options, &noptions) == 0)
        xsk->zero_copy = options.flags & XDP_OPTIONS_ZEROCOPY;
    return 0;
}

/*
 * Whether the kernel sends from the queue: an interface may have fewer queues to send than to
 * receive, and for the others the kernel takes nothing from the ring, without an error. What is
 * queued to find that out is no frame, which the kernel counts when it comes to it.
 */
static bool can_send(struct xsk *xsk)
{
    struct xdp_desc *entries = xsk->sending.entries;
    struct xdp_statistics counts = {0};
    socklen_t ncounts = sizeof(counts);

    entries[xsk->nsending++] = (struct xdp_desc){.addr = no_frame};
    store_release(xsk->sending.producer, xsk->nsending);
    for (int ms = 0; ms < (xsk->zero_copy ? TRY_MS : 1) && !counts.tx_invalid_descs; ms++) {
        if (sendto(xsk->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno == ENETDOWN)
            return true; /* some drivers take the link down for a while when XDP is attached */
        if (xsk->zero_copy)
            poll(NULL, 0, 1);
        if (getsockopt(xsk->fd, SOL_XDP, XDP_STATISTICS, &counts, &ncounts))
            return false;
    }
    return counts.tx_invalid_descs > 0;
}

int xsk_open(struct xsk *xsk, unsigned int ifindex, unsigned int queue, unsigned int nreceived)
{
    int bytes = SOCKET_BUFFER, rc;

    *xsk = (struct xsk){.fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)};
    if (xsk->fd < 0) {
        rc = -errno;
        *xsk = (struct xsk){0};
        return rc;
    }
    setsockopt(xsk->fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
    rc = make_memory(xsk);
    rc = rc ? rc : make_rings(xsk, nreceived);
    rc = rc ? rc : bind_queue(xsk, ifindex, queue);
    if (!rc && !can_send(xsk))
        rc = -EPIPE;
    if (rc)
        xsk_close(xsk);
    return rc;
}

void xsk_close(struct xsk *xsk)
{
    const struct xsk_ring *rings[] = {&xsk->fill, &xsk->received, &xsk->sending, &xsk->sent};

    for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++)
        if (rings[i]->map)
            munmap(rings[i]->map, rings[i]->nmap);
    if (xsk->fd > 0)
        close(xsk->fd);
    if (xsk->memory)
        munmap(xsk->memory, (size_t)(XSK_FILLED + XSK_SENT) * XSK_CHUNK);
    free(xsk->free);
    *xsk = (struct xsk){0};
}

/* --- receiving --------------------------------------------------------------- */

unsigned int xsk_waiting(const struct xsk *xsk)
{
    return load_acquire(xsk->received.producer) - *xsk->received.consumer;
}

static const struct xdp_desc *received(const struct xsk *xsk, unsigned int i)
{
    const struct xdp_desc *entries = xsk->received.entries;

    return &entries[(*xsk->received.consumer + i) & xsk->received.mask];
}

struct slice xsk_frame(const struct xsk *xsk, unsigned int i)
{
    const struct xdp_desc *each = received(xsk, i);

    return (struct slice){xsk->memory + each->addr, each->len};
}

/* The chunks first: a thread that sees that a frame was released finds a chunk. */
void xsk_release(struct xsk *xsk, unsigned int n)
{
    uint64_t *chunks = xsk->fill.entries;
    uint32_t fill = *xsk->fill.producer;

    for (unsigned int i = 0; i < n; i++)
        chunks[fill++ & xsk->fill.mask] = received(xsk, i)->addr / XSK_CHUNK * XSK_CHUNK;
    store_release(xsk->fill.producer, fill);
    store_release(xsk->received.consumer, *xsk->received.consumer + n);
    if (xsk->ntaken)
        __atomic_store_n(xsk->ntaken, *xsk->ntaken + n, __ATOMIC_RELEASE);
    if (needs_wakeup(&xsk->fill))
        recvfrom(xsk->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

/* --- sending ------------------------------------------------------------------ */

/* Takes back the chunks of what was sent. */
static void reclaim(struct xsk *xsk)
{
    uint32_t at = *xsk->sent.consumer, end = load_acquire(xsk->sent.producer);
    const uint64_t *chunks = xsk->sent.entries;

    for (; at != end; at++)
        if (chunks[at & xsk->sent.mask] != no_frame) /* newer kernels give that back as well */
            xsk->free[xsk->nfree++] = chunks[at & xsk->sent.mask];
    store_release(xsk->sent.consumer, at);
}

bool xsk_flush(struct xsk *xsk)
{
    uint32_t before, now = load_acquire(xsk->sending.consumer);

    store_release(xsk->sending.producer, xsk->nsending);
    /* Each call sends a batch where the kernel copies; a driver goes on by itself. */
    do {
        before = now;
        if (before != xsk->nsending && needs_wakeup(&xsk->sending))
            sendto(xsk->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
        now = load_acquire(xsk->sending.consumer);
    } while (now != before && !xsk->zero_copy);
    reclaim(xsk);
    return now == xsk->nsending || xsk->zero_copy;
}

char *xsk_room(struct xsk *xsk)
{
    if (xsk->nfree == 0)
        xsk_flush(xsk);
    return xsk->nfree ? xsk->memory + xsk->free[xsk->nfree - 1] : NULL;
}

void xsk_send(struct xsk *xsk, size_t n)
{
    struct xdp_desc *entries = xsk->sending.entries;

    entries[xsk->nsending++ & xsk->sending.mask] =
        (struct xdp_desc){.addr = xsk->free[--xsk->nfree], .len = (uint32_t)n};
    __atomic_store_n(&xsk->nsent, xsk->nsent + 1, __ATOMIC_RELAXED);
}
