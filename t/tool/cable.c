/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cable: carries Ethernet frames between two interfaces and treats them as a bad network does: it
 * loses, duplicates, reorders and delays them, flips bits, or changes what TCP carries. It does in
 * user space what tc's netem does, for kernels that are built without that.
 *
 * Both interfaces are in the namespace of this process, which has nothing else to do with them:
 * packet sockets see every frame that the other ends send. Those ends must compute checksums and
 * cut segments themselves (t/lib/cable.py turns the offloads off): a packet socket would hand on
 * what the hardware was to complete. A VLAN's tag is not carried.
 *
 * What happens to the n-th frame of a direction depends on --seed and n alone. A delayed frame
 * keeps its place: only those that --reorder picks are overtaken. With SIGTERM or SIGINT it sends
 * what it holds, ends, and prints a line of counts, "ab NAME NUMBER ...", for each direction.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <math.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/options.h"
#include "t/tool/verdict.h"

enum {
    BURST = 64,            /* frames of one call */
    FRAME_MAX = 65536,     /* bytes */
    SOCKET_ROOM = 8 << 20, /* bytes of frames that wait at a socket */
    FULL_NS = 50000,       /* until it is looked again whether an interface's ring has room */
    FULL_MAX = 4000,       /* how often for one frame */
};

/* Numbers of which a direction may have its own. Rates are from 0 to 1. */
enum fault { LOSS, DUPLICATE, REORDER, CORRUPT, TAMPER, DELAY, JITTER, HOLD, FAULTS };

enum { WAY_AB, WAY_BA, WAYS };

struct options {
    double both[FAULTS], way[WAYS][FAULTS];
    uint64_t seed;
};

#define FAULT(name, which, argument, help)                                                         \
    ROW(name, OPTION_REAL, both[which], argument, help),                                           \
        ROW(name "-ab", OPTION_REAL, way[WAY_AB][which], argument, "from A to B alone"),           \
        ROW(name "-ba", OPTION_REAL, way[WAY_BA][which], argument, "from B to A alone")

static const struct option_row rows[] = {
    FAULT("loss", LOSS, "RATE", "of frames that are lost (0)"),
    FAULT("duplicate", DUPLICATE, "RATE", "of frames that arrive twice (0)"),
    FAULT("reorder", REORDER, "RATE", "of frames that are held, so that later ones overtake (0)"),
    FAULT("corrupt", CORRUPT, "RATE", "of frames with one bit flipped: a checksum is wrong (0)"),
    FAULT("tamper", TAMPER, "RATE", "of frames with one byte of TCP's data changed, sum right (0)"),
    FAULT("delay", DELAY, "MS", "of each frame (0)"),
    FAULT("jitter", JITTER, "MS", "further delay, from 0 to this; order is kept (0)"),
    FAULT("hold", HOLD, "MS", "further delay of what --reorder picks (2)"),
    ROW("seed", OPTION_NUMBER, seed, "N", "of the random numbers (1)"),
};

static const struct option_table table = {"usage: cable [options] A B\n"
                                          "Carries frames between the interfaces A and B.",
                                          rows, sizeof(rows) / sizeof(rows[0])};

struct counts {
    uint64_t received, sent, lost, duplicated, reordered, corrupted, tampered, refused;
};

/* A frame that waits. Frames that are due at once leave in the order of their numbers. */
struct held {
    uint64_t due_ns, number;
    size_t n;
    int way;
    uint8_t bytes[];
};

/* The frames of one call of sendmmsg. */
struct batch {
    struct mmsghdr messages[2 * BURST];
    struct iovec parts[2 * BURST];
    struct held *held[2 * BURST]; /* whose bytes they are, or NULL */
    unsigned int n;
};

struct direction {
    int from, to;
    double fault[FAULTS];
    uint64_t random;
    uint64_t last_ns; /* when the last frame that keeps its place is due */
    struct counts counts;
    struct batch batch;
};

/* The frame that is due first is heap[0]. */
struct cable {
    struct direction ways[WAYS];
    struct held **heap;
    size_t nheap, room;
    uint64_t number;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- frames that wait -------------------------------------------------------------- */

static bool is_before(const struct held *a, const struct held *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void heap_push(struct cable *cable, struct held *held)
{
    size_t at = cable->nheap++, up;

    if (cable->nheap > cable->room) {
        cable->room = 2 * cable->nheap;
        cable->heap = realloc(cable->heap, cable->room * sizeof(struct held *));
        if (!cable->heap)
            fatal("cable: out of memory");
    }
    for (; at > 0 && is_before(held, cable->heap[up = (at - 1) / 2]); at = up)
        cable->heap[at] = cable->heap[up];
    cable->heap[at] = held;
}

static struct held *heap_pop(struct cable *cable)
{
    struct held *first = cable->heap[0], *last = cable->heap[--cable->nheap];
    size_t at = 0, down;

    for (; (down = 2 * at + 1) < cable->nheap; at = down) {
        if (down + 1 < cable->nheap && is_before(cable->heap[down + 1], cable->heap[down]))
            down++;
        if (!is_before(cable->heap[down], last))
            break;
        cable->heap[at] = cable->heap[down];
    }
    cable->heap[at] = last;
    return first;
}

static void hold(struct cable *cable, int way, const uint8_t *frame, size_t n, uint64_t due_ns)
{
    struct held *held = malloc(sizeof(*held) + n);

    if (!held)
        fatal("cable: out of memory");
    held->due_ns = due_ns;
    held->number = cable->number++;
    held->way = way;
    held->n = n;
    memcpy(held->bytes, frame, n);
    heap_push(cable, held);
}

/* --- sending ----------------------------------------------------------------------- */

/*
 * A veth refuses frames while its ring is full: on a busy machine its other end has not run yet.
 * They wait, as in a switch: only what --loss picks gets lost. Frames that the interface refuses
 * for another reason, or for long, are lost.
 */
static void batch_send(struct direction *direction)
{
    const struct timespec pause = {.tv_nsec = FULL_NS};
    struct batch *batch = &direction->batch;
    unsigned int at = 0, full = 0, i;
    int n;

    while (at < batch->n) {
        n = sendmmsg(direction->to, batch->messages + at, batch->n - at, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == ENOBUFS && ++full < FULL_MAX) {
            nanosleep(&pause, NULL);
            continue;
        }
        full = 0;
        if (n < 0)
            direction->counts.refused++;
        else
            direction->counts.sent += (unsigned int)n;
        at += n < 0 ? 1 : (unsigned int)n;
    }
    for (i = 0; i < batch->n; i++)
        free(batch->held[i]);
    batch->n = 0;
}

static void batch_add(struct direction *direction, const uint8_t *frame, size_t n,
                      struct held *held)
{
    struct batch *batch = &direction->batch;
    unsigned int i = batch->n++;

    batch->parts[i] = (struct iovec){(void *)(uintptr_t)frame, n};
    batch->messages[i].msg_hdr = (struct msghdr){.msg_iov = &batch->parts[i], .msg_iovlen = 1};
    batch->held[i] = held;
    if (batch->n == 2 * BURST)
        batch_send(direction);
}

static void send_due(struct cable *cable, uint64_t now)
{
    struct held *held;
    int way;

    while (cable->nheap && cable->heap[0]->due_ns <= now) {
        held = heap_pop(cable);
        batch_add(&cable->ways[held->way], held->bytes, held->n, held);
    }
    for (way = 0; way < WAYS; way++)
        batch_send(&cable->ways[way]);
}

/* --- what is done to a frame --------------------------------------------------------- */

static unsigned int type_of(const uint8_t *frame)
{
    return (unsigned int)(frame[12] << 8 | frame[13]);
}

/* Where TCP's header is in a frame, and where the packet ends. False: it has none. */
static bool find_tcp(const uint8_t *frame, size_t n, size_t *tcp, size_t *end)
{
    const uint8_t *ip = frame + ETHER_HDR_LEN;

    if (n < ETHER_HDR_LEN + 40)
        return false;
    if (type_of(frame) == ETHERTYPE_IP) {
        if (ip[9] != IPPROTO_TCP || (ip[6] & 0x3f) || ip[7])
            return false;
        *tcp = ETHER_HDR_LEN + 4 * (size_t)(ip[0] & 15);
        *end = ETHER_HDR_LEN + (size_t)(ip[2] << 8 | ip[3]);
    } else if (type_of(frame) == ETHERTYPE_IPV6) {
        if (ip[6] != IPPROTO_TCP)
            return false;
        *tcp = ETHER_HDR_LEN + 40;
        *end = *tcp + (size_t)(ip[4] << 8 | ip[5]);
    } else {
        return false;
    }
    return *end <= n && *tcp + 20 <= *end;
}

/* Changes a byte of TCP's data, and the checksum so that it stays right (RFC 1624). */
static bool tamper(uint8_t *frame, size_t n, uint64_t random)
{
    size_t tcp, end, data, at;
    uint32_t sum;
    uint8_t *word;

    if (!find_tcp(frame, n, &tcp, &end))
        return false;
    data = tcp + 4 * (size_t)(frame[tcp + 12] >> 4);
    if (data >= end)
        return false;
    at = data + random % (end - data);
    /* The word of the checksum that the byte is in; behind an odd end there is a 0. */
    word = frame + at - (at - tcp) % 2;
    sum = ~(uint32_t)(frame[tcp + 16] << 8 | frame[tcp + 17]) & 0xffff;
    sum += ~(uint32_t)(word[0] << 8 | (word + 1 < frame + end ? word[1] : 0)) & 0xffff;
    frame[at] ^= (uint8_t)(1 + (random >> 40) % 255);
    sum += (uint32_t)(word[0] << 8 | (word + 1 < frame + end ? word[1] : 0));
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    frame[tcp + 16] = (uint8_t)(sum >> 8);
    frame[tcp + 17] = (uint8_t)sum;
    return true;
}

static double fraction(uint64_t *random)
{
    return (double)next_random(random) / (double)(1ull << 53);
}

/* Where to change a frame, and whether. */
struct change {
    uint64_t where;
    bool corrupt, tamper;
};

/*
 * ARP has no checksum: a machine that took a changed answer would send into the void for half a
 * minute. A real network's links have checksums of their own for that.
 */
static bool has_checksum(const uint8_t *frame)
{
    return type_of(frame) == ETHERTYPE_IP || type_of(frame) == ETHERTYPE_IPV6;
}

static void change_frame(struct direction *direction, uint8_t *frame, size_t n,
                         const struct change *change)
{
    size_t bit;

    if (change->corrupt && n > ETHER_HDR_LEN && has_checksum(frame)) {
        /* One bit alone is always seen: two might cancel each other in the sum. */
        bit = change->where % (8 * (n - ETHER_HDR_LEN));
        frame[ETHER_HDR_LEN + bit / 8] ^= (uint8_t)(1 << bit % 8);
        direction->counts.corrupted++;
    }
    if (change->tamper && tamper(frame, n, change->where))
        direction->counts.tampered++;
}

/* When a frame is due. One that is reordered does not hold back those behind it. */
static uint64_t due_time(struct direction *direction, double jitter, bool reorder, uint64_t now)
{
    const double *fault = direction->fault;
    uint64_t due = now + (uint64_t)(1e6 * (fault[DELAY] + fault[JITTER] * jitter));

    if (reorder)
        return due + (uint64_t)(1e6 * fault[HOLD]);
    if (due < direction->last_ns)
        due = direction->last_ns;
    direction->last_ns = due;
    return due;
}

static void carry(struct cable *cable, int way, uint8_t *frame, size_t n, uint64_t now)
{
    struct direction *direction = &cable->ways[way];
    const double *fault = direction->fault;
    struct change change;
    uint64_t due;
    bool drawn[FAULTS];
    double jitter;
    int i;

    /* Equally many numbers are drawn for each frame, whatever becomes of it. */
    for (i = 0; i < DELAY; i++)
        drawn[i] = fraction(&direction->random) < fault[i];
    jitter = fraction(&direction->random);
    change = (struct change){next_random(&direction->random), drawn[CORRUPT], drawn[TAMPER]};
    direction->counts.received++;
    if (drawn[LOSS]) {
        direction->counts.lost++;
        return;
    }
    change_frame(direction, frame, n, &change);
    due = due_time(direction, jitter, drawn[REORDER], now);
    direction->counts.reordered += drawn[REORDER];
    direction->counts.duplicated += drawn[DUPLICATE];
    for (i = 0; i <= drawn[DUPLICATE]; i++)
        if (due > now)
            hold(cable, way, frame, n, due);
        else
            batch_add(direction, frame, n, NULL);
}

/* --- the interfaces -------------------------------------------------------------------- */

static uint8_t frames[BURST][FRAME_MAX];

/* Carries a batch of what came. False: nothing did. */
static bool receive(struct cable *cable, int way, uint64_t now)
{
    struct mmsghdr messages[BURST] = {0};
    struct iovec parts[BURST];
    int i, n;

    for (i = 0; i < BURST; i++) {
        parts[i] = (struct iovec){frames[i], FRAME_MAX};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    n = recvmmsg(cable->ways[way].from, messages, BURST, MSG_DONTWAIT, NULL);
    /* An interface that is down says so once. */
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENETDOWN)
        fatal("cable: recvmmsg: %s", strerror(errno));
    for (i = 0; i < n; i++)
        carry(cable, way, frames[i], messages[i].msg_len, now);
    batch_send(&cable->ways[way]);
    return n > 0;
}

static int open_interface(const char *name)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), one = 1, room = SOCKET_ROOM;

    address.sll_ifindex = (int)if_nametoindex(name);
    if (!address.sll_ifindex)
        fatal("cable: no interface %s", name);
    if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
        setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)) ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)))
        fatal("cable: %s: %s", name, strerror(errno));
    return fd;
}

/* Frames that came faster than they were read. */
static uint64_t socket_drops(int fd)
{
    struct tpacket_stats stats = {0};
    socklen_t size = sizeof(stats);

    getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
    return stats.tp_drops;
}

static void print_counts(const struct direction *direction, const char *name)
{
    const struct counts *counts = &direction->counts;

    printf("%s received %" PRIu64 " sent %" PRIu64 " lost %" PRIu64 " duplicated %" PRIu64
           " reordered %" PRIu64 " corrupted %" PRIu64 " tampered %" PRIu64 " refused %" PRIu64
           " overrun %" PRIu64 "\n",
           name, counts->received, counts->sent, counts->lost, counts->duplicated,
           counts->reordered, counts->corrupted, counts->tampered, counts->refused,
           socket_drops(direction->from));
}

static void run(struct cable *cable, int signals)
{
    struct pollfd polled[] = {{.fd = cable->ways[WAY_AB].from, .events = POLLIN},
                              {.fd = cable->ways[WAY_BA].from, .events = POLLIN},
                              {.fd = signals, .events = POLLIN}};
    struct timespec wait;
    uint64_t now = 0, due;
    int way;

    while (!polled[WAYS].revents) {
        now = now_ns();
        due = cable->nheap && cable->heap[0]->due_ns > now ? cable->heap[0]->due_ns - now : 0;
        wait = (struct timespec){(time_t)(due / 1000000000u), (long)(due % 1000000000u)};
        if (ppoll(polled, WAYS + 1, cable->nheap ? &wait : NULL, NULL) < 0 && errno != EINTR)
            fatal("cable: poll: %s", strerror(errno));
        now = now_ns();
        send_due(cable, now);
        for (way = 0; way < WAYS; way++)
            if (polled[way].revents)
                receive(cable, way, now);
    }
    for (way = 0; way < WAYS; way++)
        while (receive(cable, way, now))
            continue;
    send_due(cable, UINT64_MAX);
}

static void direction_init(struct direction *direction, const struct options *options, int way)
{
    int i;

    for (i = 0; i < FAULTS; i++)
        direction->fault[i] = isnan(options->way[way][i]) ? options->both[i] : options->way[way][i];
    direction->random = (options->seed * WAYS + (uint64_t)way + 1) * 0x9e3779b97f4a7c15ull;
}

int main(int argc, char **argv)
{
    struct options options = {.both[HOLD] = 2, .seed = 1};
    struct cable *cable = calloc(1, sizeof(*cable));
    int i, way, at, fds[WAYS], signals;
    sigset_t set;

    for (way = 0; way < WAYS; way++)
        for (i = 0; i < FAULTS; i++)
            options.way[way][i] = NAN;
    at = options_parse(&table, &options, argc, argv);
    if (at != argc - 2 || !cable)
        usage_error("%s", table.usage);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    for (way = 0; way < WAYS; way++)
        fds[way] = open_interface(argv[at + way]);
    for (way = 0; way < WAYS; way++) {
        cable->ways[way].from = fds[way];
        cable->ways[way].to = fds[!way];
        direction_init(&cable->ways[way], &options, way);
    }
    printf("ready\n");
    fflush(stdout);
    run(cable, signals);
    print_counts(&cable->ways[WAY_AB], "ab");
    print_counts(&cable->ways[WAY_BA], "ba");
    free(cable->heap);
    free(cable);
    return 0;
}
