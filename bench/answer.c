/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * answer: answers UDP gets with replies that were made before, over an AF_XDP ring or over sockets.
 * It does what a worker of the server does between receiving and sending, except for looking into a
 * store: so the three ways differ in nothing but the kernel's work and the copies.
 *
 * --by sockets: recvmmsg and sendmmsg, 32 datagrams a call, each copied together. --by segments: a
 * reply of several datagrams is one message that the kernel cuts (UDP_SEGMENT), as in the server,
 * but nothing is copied before that. --by ring: ring.bpf.c fills a ring of AF_XDP, and replies go
 * out through another with headers that are written here; what finds the ring full comes through
 * the socket.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bench/items.h"
#include "bench/keys.h"
#include "bench/options.h"
#include "bench/ring.h"
#include "bench/ring.skel.h"
#include "bench/xdp.h"

enum {
    BATCH = 32,     /* datagrams in one system call; that is all the kernel sends of a ring, too */
    TURNS = 4,      /* batches before the other descriptors are looked at */
    PAYLOAD = 1400, /* of one reply datagram, frame header included */
    FRAME = 8,      /* memcached's header */
    PART = PAYLOAD - FRAME,
    PARTS_MAX = 46, /* what fits into one message of 64 KB */
    REQUEST_MAX = 2048,
    CHUNK = 2048, /* of the ring's memory, for one frame */
    SENT_SIZE = 4096,
    PATIENCE = 20, /* milliseconds for what is full; then replies are dropped */
    BUSY = 5000,   /* milliseconds for a queue that another has */
    SOCKET_BUFFER = 8 << 20,
};

struct options {
    const char *by, *interface;
    uint64_t port, keys, key_size, value_size;
    bool zero_copy;
};

static const struct option_row rows[] = {
    ROW("by", OPTION_WORD, by, "WAY", "sockets, segments or ring (sockets)"),
    ROW("interface", OPTION_WORD, interface, "NAME", "whose queue 0 fills the ring"),
    ROW("zero-copy", OPTION_FLAG, zero_copy, NULL, "the driver fills and empties the ring itself"),
    ROW("port", OPTION_NUMBER, port, "N", "(11211)"),
    ROW("keys", OPTION_NUMBER, keys, "N", "how many keys there are (1000)"),
    ROW("key-size", OPTION_NUMBER, key_size, "BYTES", "(16)"),
    ROW("value-size", OPTION_NUMBER, value_size, "BYTES", "up to 60000 (32)"),
};

static const struct option_table table = {
    "usage: answer [options]\n"
    "Answers UDP gets until standard input ends; then prints how many, as JSON.",
    rows, sizeof(rows) / sizeof(rows[0])};

/* --- the replies -------------------------------------------------------- */

struct replies {
    struct items items;
    uint32_t nkeys;
    char *texts; /* nkeys times ntext */
    size_t ntext;
    unsigned int nparts; /* datagrams of a reply */
};

static void replies_init(struct replies *replies, const struct options *options)
{
    char *first = malloc(ITEMS_TEXT_MAX);

    if (!options->keys || options->keys > BENCH_LARGE)
        usage_error("--keys: 1 to %u", BENCH_LARGE);
    items_init(&replies->items, options->key_size, options->value_size);
    replies->nkeys = (uint32_t)options->keys;
    replies->ntext = first ? items_reply(&replies->items, 0, 0, first) : 0;
    replies->nparts = (unsigned int)((replies->ntext + PART - 1) / PART);
    if (replies->nparts > PARTS_MAX)
        usage_error("--value-size: a reply has at most %d datagrams", PARTS_MAX);
    replies->texts = malloc(replies->ntext * replies->nkeys);
    if (!first || !replies->texts)
        fail("out of memory");
    free(first);
    for (uint32_t i = 0; i < replies->nkeys; i++)
        items_reply(&replies->items, i, 0, replies->texts + i * replies->ntext);
}

/* The text of the reply to a request, of n bytes behind memcached's header; NULL: it has none. */
static const char *replies_find(const struct replies *replies, const char *request, size_t n)
{
    size_t nkey = replies->items.key_size;
    const char *tail = request + 4 + nkey - BENCH_KEY_TAIL;
    uint32_t index = 0;

    if (n != 4 + nkey + 2 || memcmp(request, "get ", 4) != 0)
        return NULL;
    for (size_t i = 0; i < BENCH_KEY_TAIL; i++)
        index = index << 4 | ((uint32_t)(tail[i] - 'a') & 15);
    return index < replies->nkeys ? replies->texts + index * replies->ntext : NULL;
}

static size_t part_size(const struct replies *replies, unsigned int part)
{
    size_t left = replies->ntext - (size_t)part * PART;

    return left < PART ? left : PART;
}

/* id: of the request, in network order. */
static void put_frame(char *out, uint16_t id, unsigned int part, unsigned int nparts)
{
    uint16_t frame[4] = {id, htons((uint16_t)part), htons((uint16_t)nparts), 0};

    memcpy(out, frame, FRAME);
}

static uint16_t request_id(const char *datagram)
{
    uint16_t id;

    memcpy(&id, datagram, sizeof(id));
    return id;
}

/* --- sockets -------------------------------------------------------------- */

struct segment_control {
    _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(uint16_t))];
};

struct sockets {
    const struct replies *replies;
    int fd;
    bool segments;
    uint64_t answered;
    struct mmsghdr in[BATCH], out[BATCH];
    struct iovec in_iov[BATCH], out_iov[BATCH][2 * PARTS_MAX];
    struct sockaddr_in peers[BATCH];
    struct segment_control control;
    unsigned int nout;
    char requests[BATCH][REQUEST_MAX], datagrams[BATCH][PAYLOAD];
    char frames[BATCH][PARTS_MAX][FRAME];
};

/* Sends what is in the batch; drops what a full socket does not take in time. */
static void sockets_send(struct sockets *sockets)
{
    unsigned int n = 0;

    while (n < sockets->nout) {
        struct pollfd wait = {sockets->fd, POLLOUT, 0};
        int sent = sendmmsg(sockets->fd, sockets->out + n, sockets->nout - n, 0);

        if (sent > 0)
            n += (unsigned int)sent;
        else if (errno == EAGAIN && poll(&wait, 1, PATIENCE) <= 0)
            break;
        else if (errno != EAGAIN && errno != EINTR)
            n++;
    }
    sockets->nout = 0;
}

/* The next message of the batch, with so many pieces. */
static unsigned int next_message(struct sockets *sockets, struct sockaddr_in *peer, size_t npieces)
{
    unsigned int n = sockets->nout++;

    sockets->out[n].msg_hdr = (struct msghdr){.msg_name = peer,
                                              .msg_namelen = sizeof(*peer),
                                              .msg_iov = sockets->out_iov[n],
                                              .msg_iovlen = npieces};
    return n;
}

static void add_datagrams(struct sockets *sockets, struct sockaddr_in *peer, uint16_t id,
                          const char *text)
{
    const struct replies *replies = sockets->replies;

    for (unsigned int i = 0; i < replies->nparts; i++) {
        size_t n = part_size(replies, i);
        unsigned int message;

        if (sockets->nout == BATCH)
            sockets_send(sockets);
        message = next_message(sockets, peer, 1);
        put_frame(sockets->datagrams[message], id, i, replies->nparts);
        memcpy(sockets->datagrams[message] + FRAME, text + (size_t)i * PART, n);
        sockets->out_iov[message][0] = (struct iovec){sockets->datagrams[message], FRAME + n};
    }
}

/* One message, which the kernel cuts into datagrams. */
static void add_segments(struct sockets *sockets, struct sockaddr_in *peer, uint16_t id,
                         const char *text)
{
    const struct replies *replies = sockets->replies;
    unsigned int message;
    struct iovec *iov;

    if (sockets->nout == BATCH)
        sockets_send(sockets);
    message = next_message(sockets, peer, (size_t)2 * replies->nparts);
    iov = sockets->out_iov[message];
    for (unsigned int i = 0; i < replies->nparts; i++) {
        put_frame(sockets->frames[message][i], id, i, replies->nparts);
        *iov++ = (struct iovec){sockets->frames[message][i], FRAME};
        *iov++ = (struct iovec){(char *)text + (size_t)i * PART, part_size(replies, i)};
    }
    if (replies->nparts > 1) {
        sockets->out[message].msg_hdr.msg_control = sockets->control.bytes;
        sockets->out[message].msg_hdr.msg_controllen = sizeof(sockets->control.bytes);
    }
}

static int sockets_receive(struct sockets *sockets)
{
    for (int i = 0; i < BATCH; i++)
        sockets->in[i].msg_hdr.msg_namelen = sizeof(sockets->peers[i]);
    return recvmmsg(sockets->fd, sockets->in, BATCH, MSG_DONTWAIT, NULL);
}

static void sockets_serve(struct sockets *sockets)
{
    for (int turn = 0; turn < TURNS; turn++) {
        int n = sockets_receive(sockets);

        for (int i = 0; i < n; i++) {
            const char *datagram = sockets->requests[i];
            const char *text = sockets->in[i].msg_len < FRAME
                                   ? NULL
                                   : replies_find(sockets->replies, datagram + FRAME,
                                                  sockets->in[i].msg_len - FRAME);

            if (!text)
                continue;
            if (sockets->segments)
                add_segments(sockets, &sockets->peers[i], request_id(datagram), text);
            else
                add_datagrams(sockets, &sockets->peers[i], request_id(datagram), text);
            sockets->answered++;
        }
        sockets_send(sockets);
        if (n < BATCH)
            return;
    }
}

static void sockets_init(struct sockets *sockets, const struct options *options)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options->port)};
    struct msghdr segment = {.msg_control = sockets->control.bytes,
                             .msg_controllen = sizeof(sockets->control.bytes)};
    struct cmsghdr *control = CMSG_FIRSTHDR(&segment);
    uint16_t payload = PAYLOAD;
    int bytes = SOCKET_BUFFER;

    sockets->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sockets->fd < 0 || bind(sockets->fd, (const struct sockaddr *)&any, sizeof(any)))
        fail("UDP port %" PRIu64 ": %s", options->port, strerror(errno));
    setsockopt(sockets->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
    setsockopt(sockets->fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
    control->cmsg_level = IPPROTO_UDP;
    control->cmsg_type = UDP_SEGMENT;
    control->cmsg_len = CMSG_LEN(sizeof(payload));
    memcpy(CMSG_DATA(control), &payload, sizeof(payload));
    for (int i = 0; i < BATCH; i++) {
        sockets->in_iov[i] = (struct iovec){sockets->requests[i], REQUEST_MAX};
        sockets->in[i].msg_hdr = (struct msghdr){
            .msg_name = &sockets->peers[i], .msg_iov = &sockets->in_iov[i], .msg_iovlen = 1};
    }
}

/* --- AF_XDP --------------------------------------------------------------- */

struct head {
    struct ethhdr ethernet;
    struct iphdr ip;
    struct udphdr udp;
    char frame[FRAME];
} __attribute__((packed));
_Static_assert(sizeof(struct head) == 50, "");

/* One of the four rings that are shared with the kernel. */
struct queue {
    uint32_t *producer, *consumer;
    void *entries;
    uint32_t mask;
};

struct xsk {
    const struct replies *replies;
    struct ring *program;
    struct ring_credit *credit;
    int fd;
    char *memory; /* RING_SIZE chunks to receive into, then SENT_SIZE to send from */
    struct queue fill, received, sending, sent;
    uint32_t nsending, nhanded; /* frames in all; those that the kernel knows of */
    bool zero_copy;
    uint64_t free[SENT_SIZE];
    unsigned int nfree;
    uint64_t taken, answered, dropped;
};

static uint32_t load_acquire(const uint32_t *index)
{
    return __atomic_load_n(index, __ATOMIC_ACQUIRE);
}

static void store_release(uint32_t *index, uint32_t value)
{
    __atomic_store_n(index, value, __ATOMIC_RELEASE);
}

static uint32_t sum_of(const void *bytes, size_t n)
{
    const char *at = bytes;
    uint32_t sum = 0;
    uint16_t half;

    for (; n > 1; n -= 2, at += 2) {
        memcpy(&half, at, sizeof(half));
        sum += half;
    }
    return n ? sum + (uint8_t)*at : sum; /* of a little-endian CPU */
}

static uint16_t sum_fold(uint32_t sum)
{
    sum = (sum & UINT16_MAX) + (sum >> 16);
    return (uint16_t)((sum & UINT16_MAX) + (sum >> 16));
}

/*
 * What the stack would have checked. A sender on this machine leaves the checksum to hardware, and
 * begins it with the sum of addresses, protocol and length.
 */
static bool checksum_is_right(const struct head *head, size_t nudp)
{
    uint32_t begun = sum_of(&head->ip.saddr, 8) + htons(IPPROTO_UDP) + head->udp.len;

    return !head->udp.check || head->udp.check == sum_fold(begun) ||
           sum_fold(begun + sum_of(&head->udp, nudp)) == UINT16_MAX;
}

/* The text of the reply to the request in a frame of n bytes; NULL: it has none. */
static const char *frame_answer(const struct replies *replies, const struct head *head, size_t n)
{
    size_t nudp = n < sizeof(*head) ? 0 : ntohs(head->udp.len);

    if (nudp < sizeof(head->udp) + FRAME || nudp > n - offsetof(struct head, udp) ||
        !checksum_is_right(head, nudp))
        return NULL;
    return replies_find(replies, (const char *)(head + 1), nudp - sizeof(head->udp) - FRAME);
}

/* The headers of a datagram with so much text, back to where a request came from. */
static void turn_around(struct head *out, const struct head *in, size_t ntext)
{
    uint16_t nudp = (uint16_t)(sizeof(out->udp) + FRAME + ntext);

    memcpy(out->ethernet.h_dest, in->ethernet.h_source, ETH_ALEN);
    memcpy(out->ethernet.h_source, in->ethernet.h_dest, ETH_ALEN);
    out->ethernet.h_proto = in->ethernet.h_proto;
    out->ip = (struct iphdr){.version = 4,
                             .ihl = 5,
                             .tot_len = htons((uint16_t)(sizeof(out->ip) + nudp)),
                             .frag_off = htons(0x4000),
                             .ttl = 64,
                             .protocol = IPPROTO_UDP,
                             .saddr = in->ip.daddr,
                             .daddr = in->ip.saddr};
    out->ip.check = (uint16_t)~sum_fold(sum_of(&out->ip, sizeof(out->ip)));
    out->udp = (struct udphdr){.source = in->udp.dest, .dest = in->udp.source, .len = htons(nudp)};
}

/* Takes back the memory of what was sent. */
static void xsk_reclaim(struct xsk *xsk)
{
    uint32_t at = *xsk->sent.consumer, end = load_acquire(xsk->sent.producer);

    for (; at != end; at++)
        xsk->free[xsk->nfree++] = ((uint64_t *)xsk->sent.entries)[at & xsk->sent.mask];
    store_release(xsk->sent.consumer, at);
}

/*
 * Has the kernel send until so many chunks are free. Where it copies, each call sends a batch, and
 * until it has sent everything; a driver goes on by itself. False: the other side takes nothing any
 * more.
 */
static bool xsk_send(struct xsk *xsk, unsigned int nfree)
{
    unsigned int patience = PATIENCE;

    store_release(xsk->sending.producer, xsk->nsending);
    xsk->nhanded = xsk->nsending;
    for (;;) {
        uint32_t before = load_acquire(xsk->sending.consumer);

        if (before != xsk->nsending)
            sendto(xsk->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
        xsk_reclaim(xsk);
        if (xsk->nfree >= nfree &&
            (xsk->zero_copy || load_acquire(xsk->sending.consumer) == xsk->nsending))
            return true;
        if (load_acquire(xsk->sending.consumer) != before)
            continue;
        if (patience-- == 0)
            return false;
        poll(NULL, 0, 1); /* the ring may have room for more than the other side takes */
    }
}

/* Queues the reply to the request in a frame. */
static void xsk_answer(struct xsk *xsk, const struct head *in, const char *text)
{
    const struct replies *replies = xsk->replies;

    if (xsk->nfree < replies->nparts && !xsk_send(xsk, replies->nparts)) {
        xsk->dropped++;
        return;
    }
    for (unsigned int i = 0; i < replies->nparts; i++) {
        uint64_t at = xsk->free[--xsk->nfree];
        struct head *out = (struct head *)(xsk->memory + at);
        size_t n = part_size(replies, i);

        turn_around(out, in, n);
        put_frame(out->frame, request_id(in->frame), i, replies->nparts);
        memcpy(out + 1, text + (size_t)i * PART, n);
        ((struct xdp_desc *)xsk->sending.entries)[xsk->nsending++ & xsk->sending.mask] =
            (struct xdp_desc){.addr = at, .len = (uint32_t)(sizeof(*out) + n)};
    }
    xsk->answered++;
    if (xsk->nsending - xsk->nhanded >= BATCH)
        xsk_send(xsk, 0);
}

/*
 * Serves up to a batch of requests, and gives their places back: to the kernel, then to the program
 * that counts them. False: there was none.
 */
static bool xsk_batch(struct xsk *xsk)
{
    uint32_t at = *xsk->received.consumer, end = load_acquire(xsk->received.producer);
    uint32_t fill = *xsk->fill.producer;

    if (at == end)
        return false;
    end = end - at > BATCH ? at + BATCH : end;
    for (; at != end; at++) {
        const struct xdp_desc *each =
            &((const struct xdp_desc *)xsk->received.entries)[at & xsk->received.mask];
        const struct head *head = (const struct head *)(xsk->memory + each->addr);
        const char *text = frame_answer(xsk->replies, head, each->len);

        if (text)
            xsk_answer(xsk, head, text);
        ((uint64_t *)xsk->fill.entries)[fill++ & xsk->fill.mask] = each->addr / CHUNK * CHUNK;
        xsk->taken++;
    }
    store_release(xsk->fill.producer, fill);
    store_release(xsk->received.consumer, at);
    __atomic_store_n(&xsk->credit->taken, xsk->taken, __ATOMIC_RELEASE);
    xsk_send(xsk, 0);
    return true;
}

static void xsk_serve(struct xsk *xsk)
{
    for (int turn = 0; turn < TURNS; turn++)
        if (!xsk_batch(xsk))
            return;
}

static struct queue map_queue(int fd, uint64_t page, const struct xdp_ring_offset *offset,
                              uint32_t n, size_t entry)
{
    char *at = mmap(NULL, offset->desc + n * entry, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, fd, (off_t)page);

    if (at == MAP_FAILED)
        fail("cannot map a ring: %s", strerror(errno));
    return (struct queue){(uint32_t *)(at + offset->producer), (uint32_t *)(at + offset->consumer),
                          at + offset->desc, n - 1};
}

static void set_option(int fd, int option, const void *value, size_t n)
{
    if (setsockopt(fd, SOL_XDP, option, value, (socklen_t)n))
        fail("AF_XDP: %s", strerror(errno));
}

static void make_memory(struct xsk *xsk)
{
    size_t n = (size_t)(RING_SIZE + SENT_SIZE) * CHUNK;
    struct xdp_umem_reg memory = {.len = n, .chunk_size = CHUNK};

    xsk->memory =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (xsk->memory == MAP_FAILED)
        fail("out of memory");
    memory.addr = (uintptr_t)xsk->memory;
    set_option(xsk->fd, XDP_UMEM_REG, &memory, sizeof(memory));
}

static void make_queues(struct xsk *xsk)
{
    int nreceived = RING_SIZE, nsent = SENT_SIZE;
    struct xdp_mmap_offsets offsets;
    socklen_t noffsets = sizeof(offsets);

    set_option(xsk->fd, XDP_UMEM_FILL_RING, &nreceived, sizeof(nreceived));
    set_option(xsk->fd, XDP_UMEM_COMPLETION_RING, &nsent, sizeof(nsent));
    set_option(xsk->fd, XDP_RX_RING, &nreceived, sizeof(nreceived));
    set_option(xsk->fd, XDP_TX_RING, &nsent, sizeof(nsent));
    if (getsockopt(xsk->fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &noffsets))
        fail("AF_XDP: %s", strerror(errno));
    xsk->received =
        map_queue(xsk->fd, XDP_PGOFF_RX_RING, &offsets.rx, RING_SIZE, sizeof(struct xdp_desc));
    xsk->sending =
        map_queue(xsk->fd, XDP_PGOFF_TX_RING, &offsets.tx, SENT_SIZE, sizeof(struct xdp_desc));
    xsk->fill =
        map_queue(xsk->fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, RING_SIZE, sizeof(uint64_t));
    xsk->sent = map_queue(xsk->fd, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, SENT_SIZE,
                          sizeof(uint64_t));
    for (uint32_t i = 0; i < RING_SIZE; i++)
        ((uint64_t *)xsk->fill.entries)[i] = (uint64_t)i * CHUNK;
    store_release(xsk->fill.producer, RING_SIZE);
    for (uint32_t i = 0; i < SENT_SIZE; i++)
        xsk->free[xsk->nfree++] = (uint64_t)(RING_SIZE + i) * CHUNK;
}

/* The program stays attached until this process ends. */
static void attach_program(struct xsk *xsk, const struct options *options, unsigned int ifindex)
{
    LIBBPF_OPTS(bpf_link_create_opts, link, .flags = XDP_FLAGS_DRV_MODE);
    static const uint32_t zero;

    xsk->program = ring__open();
    if (!xsk->program)
        fail("cannot open the program");
    xsk->program->rodata->ring_port = (uint16_t)options->port;
    if (ring__load(xsk->program))
        fail("cannot load the program");
    xsk->credit = mmap(NULL, sizeof(*xsk->credit), PROT_READ | PROT_WRITE, MAP_SHARED,
                       bpf_map__fd(xsk->program->maps.ring_credit), 0);
    if (xsk->credit == MAP_FAILED ||
        bpf_map_update_elem(bpf_map__fd(xsk->program->maps.ring_sockets), &zero, &xsk->fd, 0) ||
        bpf_link_create(bpf_program__fd(xsk->program->progs.ring_put), (int)ifindex, BPF_XDP,
                        &link) < 0)
        fail("cannot attach to %s: %s", options->interface, strerror(errno));
}

/* The queue of one that has just ended is free when the kernel has freed all that was in flight. */
static void bind_queue(int fd, const struct sockaddr_xdp *address, const char *interface)
{
    unsigned int patience = BUSY;

    while (bind(fd, (const struct sockaddr *)address, sizeof(*address))) {
        if (errno != EBUSY || patience-- == 0)
            fail("AF_XDP on %s: %s", interface, strerror(errno));
        poll(NULL, 0, 1);
    }
}

static void xsk_init(struct xsk *xsk, const struct options *options)
{
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP,
                                   .sxdp_flags = XDP_USE_NEED_WAKEUP,
                                   .sxdp_ifindex = xdp_ifindex(options->interface)};
    int bytes = SOCKET_BUFFER;

    xsk->zero_copy = options->zero_copy;
    address.sxdp_flags |= xsk->zero_copy ? XDP_ZEROCOPY : XDP_COPY;
    xsk->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (xsk->fd < 0)
        fail("AF_XDP: %s", strerror(errno));
    setsockopt(xsk->fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
    make_memory(xsk);
    make_queues(xsk);
    bind_queue(xsk->fd, &address, options->interface);
    attach_program(xsk, options, address.sxdp_ifindex);
}

/* --- the program ------------------------------------------------------------- */

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
        fail("epoll: %s", strerror(errno));
}

/* Until standard input ends. */
static void serve(struct sockets *sockets, struct xsk *xsk)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC), n;
    struct epoll_event events[3];

    watch(epoll, STDIN_FILENO);
    watch(epoll, sockets->fd);
    if (xsk)
        watch(epoll, xsk->fd);
    for (;;) {
        n = epoll_wait(epoll, events, 3, -1);
        if (n < 0 && errno != EINTR)
            fail("epoll: %s", strerror(errno));
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == STDIN_FILENO)
                return;
            if (events[i].data.fd == sockets->fd)
                sockets_serve(sockets);
            else
                xsk_serve(xsk);
        }
    }
}

int main(int argc, char **argv)
{
    static struct sockets sockets;
    static struct xsk xsk;
    static struct replies replies;
    struct options options = {
        .by = "sockets", .port = 11211, .keys = 1000, .key_size = 16, .value_size = 32};
    bool by_ring;

    if (options_parse(&table, &options, argc, argv) != argc)
        usage_error("%s", table.usage);
    by_ring = strcmp(options.by, "ring") == 0;
    sockets.segments = strcmp(options.by, "segments") == 0;
    if (!by_ring && !sockets.segments && strcmp(options.by, "sockets") != 0)
        usage_error("--by: sockets, segments or ring");
    if (by_ring && !options.interface)
        usage_error("--by ring needs --interface");
    replies_init(&replies, &options);
    sockets.replies = xsk.replies = &replies;
    sockets_init(&sockets, &options);
    if (by_ring)
        xsk_init(&xsk, &options);
    printf("ready\n");
    fflush(stdout);
    serve(&sockets, by_ring ? &xsk : NULL);
    printf("{\"by_ring\": %" PRIu64 ", \"by_sockets\": %" PRIu64 ", \"dropped\": %" PRIu64 "}\n",
           xsk.answered, sockets.answered, xsk.dropped);
    return 0;
}
