/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inject: what the kernel takes to receive a frame that no one's XDP program answers.
 *
 * A frame that is written to a tap device is received within the call: driver, XDP, the stack up to
 * the socket, and what the stack sends in answer. The calls of a batch are timed; what fills
 * between them (the sockets, the device's own queue) is emptied outside of that time. The devices
 * are measured in turn, batch by batch, so that nothing that changes slowly is in their ratio.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <linux/if_tun.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/items.h"
#include "bench/options.h"
#include "bench/packet.h"

enum {
    MAX_TAPS = 16,
    MAX_BATCH = 64,
    FRAME_MAX = 1514,
    FIRST_PORT = 21000, /* of the sockets, one for each device */
    PEER_PORT = 31000,
    PATIENCE_MS = 2000,
    ROOM = 1 << 22, /* of a connection's socket: more than a batch in the kernel's buffers */
};

enum { SEGMENT_TEXT = 1448, REQUEST_TEXT = 32 };

/* What is injected. */
struct kind {
    const char *name, *help;
    int protocol;
    size_t ntext;
    bool full; /* the socket is never read */
};

static const struct kind kinds[] = {
    {"full", "UDP to a socket that is full: dropped there", IPPROTO_UDP, REQUEST_TEXT, true},
    {"datagram", "UDP to a socket that is read", IPPROTO_UDP, REQUEST_TEXT, false},
    {"ack", "TCP, an acknowledgement without data", IPPROTO_TCP, 0, false},
    {"request", "TCP, 32 bytes", IPPROTO_TCP, REQUEST_TEXT, false},
    {"segment", "TCP, 1,448 bytes", IPPROTO_TCP, SEGMENT_TEXT, false},
};

enum { NKINDS = sizeof(kinds) / sizeof(kinds[0]) };

struct options {
    uint64_t rounds, batches, batch;
    const char *kind;
};

static const struct option_row rows[] = {
    ROW("kind", OPTION_WORD, kind, "NAME", "full, datagram, ack, request or segment (full)"),
    ROW("rounds", OPTION_NUMBER, rounds, "N", "figures for each device (40)"),
    ROW("batches", OPTION_NUMBER, batches, "N", "of a round; its figure is their median (100)"),
    ROW("batch", OPTION_NUMBER, batch, "N", "frames that are timed together (32)"),
};

static const struct option_table table = {
    "usage: inject [options] FD...\n"
    "Writes frames to tap devices that are open, do not block, and have an address in this\n"
    "network namespace, as from the next address. Prints nanoseconds a frame, as JSON.",
    rows, sizeof(rows) / sizeof(rows[0])};

/* A device, and the connection through it. */
struct tap {
    int fd, socket;
    struct packet_route route;
    struct packet_segment segment;
};

struct bench {
    const struct options *options;
    const struct kind *kind;
    struct tap taps[MAX_TAPS];
    size_t ntaps, nframe;
    uint8_t frames[MAX_BATCH][FRAME_MAX];
};

static const struct kind *kind_of(const char *name)
{
    for (size_t i = 0; i < NKINDS; i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    usage_error("--kind: no %s", name);
}

/* The route to the device's own address, from the one behind it. */
static void find_route(struct tap *tap, uint16_t port)
{
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq device = {0}, asked;
    struct sockaddr_in address;

    if (any < 0 || ioctl(tap->fd, TUNGETIFF, &device))
        fail("descriptor %d is no tap device: %s", tap->fd, strerror(errno));
    asked = device;
    if (ioctl(any, SIOCGIFHWADDR, &asked))
        fail("%s: %s", device.ifr_name, strerror(errno));
    memcpy(tap->route.to_mac, asked.ifr_hwaddr.sa_data, sizeof(tap->route.to_mac));
    tap->route.from_mac[0] = 2;
    asked = device;
    if (ioctl(any, SIOCGIFADDR, &asked))
        fail("%s has no address: %s", device.ifr_name, strerror(errno));
    memcpy(&address, &asked.ifr_addr, sizeof(address));
    address.sin_port = htons(port);
    tap->route.to = tap->route.from = address;
    tap->route.from.sin_addr.s_addr = htonl(ntohl(address.sin_addr.s_addr) + 1);
    tap->route.from.sin_port = htons(PEER_PORT);
    close(any);
}

static void put(const struct tap *tap, const uint8_t *frame, size_t n)
{
    if (write(tap->fd, frame, n) < 0)
        fail("cannot write to the device: %s", strerror(errno));
}

/* --- the connection ----------------------------------------------------------- */

static int open_socket(const struct tap *tap, int type)
{
    int fd = socket(AF_INET, type, 0);
    struct linger linger = {.l_onoff = 1}; /* so that the next run finds nothing of this one */

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) ||
        bind(fd, (const struct sockaddr *)&tap->route.to, sizeof(tap->route.to)))
        fail("cannot make a socket: %s", strerror(errno));
    return fd;
}

/* Reads frames until one is the answer to a SYN; its sequence number. */
static uint32_t await_answer(const struct tap *tap)
{
    struct pollfd polled = {.fd = tap->fd, .events = POLLIN};
    uint8_t frame[FRAME_MAX];
    struct tcphdr tcp;

    while (poll(&polled, 1, PATIENCE_MS) > 0) {
        ssize_t n = read(tap->fd, frame, sizeof(frame));

        if (n < (ssize_t)(ETH_HLEN + sizeof(struct iphdr) + sizeof(tcp)) ||
            frame[ETH_HLEN] != 0x45 || frame[ETH_HLEN + 9] != IPPROTO_TCP)
            continue;
        memcpy(&tcp, frame + ETH_HLEN + sizeof(struct iphdr), sizeof(tcp));
        if (tcp.syn && tcp.ack && tcp.dest == tap->route.from.sin_port)
            return ntohl(tcp.seq);
    }
    fail("no answer to a connection through the device");
}

static void establish(struct tap *tap)
{
    int listener = open_socket(tap, SOCK_STREAM), nroom = ROOM;
    uint8_t frame[FRAME_MAX];

    if (setsockopt(listener, SOL_SOCKET, SO_RCVBUFFORCE, &nroom, sizeof(nroom)) ||
        listen(listener, 1))
        fail("listen: %s", strerror(errno));
    tap->segment = (struct packet_segment){.seq = 1000, .syn = true};
    put(tap, frame, packet_tcp(&tap->route, &tap->segment, frame));
    tap->segment = (struct packet_segment){.seq = 1001, .ack = await_answer(tap) + 1};
    put(tap, frame, packet_tcp(&tap->route, &tap->segment, frame));
    tap->socket = accept(listener, NULL, NULL);
    if (tap->socket < 0)
        fail("accept: %s", strerror(errno));
    close(listener);
}

/* --- measuring ---------------------------------------------------------------- */

/* The frames of the next batch. */
static void make_frames(struct bench *bench, struct tap *tap)
{
    const struct kind *kind = bench->kind;

    for (size_t i = 0; i < bench->options->batch; i++) {
        if (kind->protocol == IPPROTO_UDP) {
            memset(bench->frames[i] + packet_text(&tap->route), 'x', kind->ntext);
            bench->nframe = packet_close(&tap->route, kind->ntext, bench->frames[i]);
            continue;
        }
        tap->segment.ntext = kind->ntext;
        bench->nframe = packet_tcp(&tap->route, &tap->segment, bench->frames[i]);
        tap->segment.seq += (uint32_t)kind->ntext;
    }
}

/* Empties the device's queue and the socket; returns the bytes that had arrived there. */
static size_t drain(const struct bench *bench, const struct tap *tap)
{
    static uint8_t bytes[MAX_BATCH * FRAME_MAX];
    size_t arrived = 0;
    ssize_t n;

    while (read(tap->fd, bytes, sizeof(bytes)) > 0)
        ;
    if (bench->kind->full)
        return 0;
    while ((n = recv(tap->socket, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        arrived += (size_t)n;
    return arrived;
}

/* Nanoseconds a frame, of one batch. */
static double inject(struct bench *bench, struct tap *tap)
{
    size_t n = bench->options->batch, text = bench->kind->ntext, arrived;
    uint64_t begin, end;

    make_frames(bench, tap);
    begin = now_ns();
    for (size_t i = 0; i < n; i++)
        put(tap, bench->frames[i], bench->nframe);
    end = now_ns();
    arrived = drain(bench, tap);
    if (bench->kind->protocol == IPPROTO_UDP)
        text += 8; /* the frame header */
    if (!bench->kind->full && arrived != n * text)
        fail("%zu bytes arrived of %zu", arrived, n * text);
    return (double)(end - begin) / (double)n;
}

/* One figure for each device: the median of its batches, which take turns in both directions. */
static void measure_round(struct bench *bench, double *samples, double *out)
{
    uint64_t batches = bench->options->batches;

    for (uint64_t i = 0; i < batches; i++) {
        for (size_t j = 0; j < bench->ntaps; j++) {
            size_t at = (i & 1 ? bench->ntaps - 1 - j : j) + i / 2;

            at %= bench->ntaps;
            samples[at * batches + i] = inject(bench, &bench->taps[at]);
        }
    }
    for (size_t i = 0; i < bench->ntaps; i++)
        out[i] = sort_median(samples + i * batches, batches);
}

static void measure(struct bench *bench)
{
    uint64_t rounds = bench->options->rounds, batches = bench->options->batches;
    double *samples = calloc(bench->ntaps * batches, sizeof(*samples));
    double *figures = calloc((rounds + 1) * bench->ntaps, sizeof(*figures));

    if (!samples || !figures)
        fail("out of memory");
    for (uint64_t i = 0; i <= rounds; i++) /* the first fills caches and sockets */
        measure_round(bench, samples, figures + i * bench->ntaps);
    printf("{\"ns\": [");
    for (size_t i = 0; i < bench->ntaps; i++) {
        printf("%s[", i ? ", " : "");
        for (uint64_t j = 1; j <= rounds; j++)
            printf("%s%.1f", j > 1 ? ", " : "", figures[j * bench->ntaps + i]);
        printf("]");
    }
    printf("]}\n");
    free(samples);
    free(figures);
}

int main(int argc, char **argv)
{
    struct options options = {.rounds = 40, .batches = 100, .batch = 32, .kind = "full"};
    int operand = options_parse(&table, &options, argc, argv);
    static struct bench bench;

    bench.options = &options;
    bench.kind = kind_of(options.kind);
    bench.ntaps = (size_t)(argc - operand);
    if (!bench.ntaps || bench.ntaps > MAX_TAPS)
        usage_error("%s", table.usage);
    if (!options.rounds || !options.batches || !options.batch || options.batch > MAX_BATCH)
        usage_error("--rounds, --batches: at least 1; --batch: 1 to %d", MAX_BATCH);
    for (size_t i = 0; i < bench.ntaps; i++) {
        struct tap *tap = &bench.taps[i];

        tap->fd = atoi(argv[operand + (int)i]);
        find_route(tap, (uint16_t)(FIRST_PORT + i));
        if (bench.kind->protocol == IPPROTO_TCP)
            establish(tap);
        else
            tap->socket = open_socket(tap, SOCK_DGRAM);
    }
    measure(&bench);
    return 0;
}
