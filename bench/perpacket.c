/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perpacket: nanoseconds that XDP programs take for one get, by BPF_PROG_TEST_RUN with one packet a
 * call, each with its own key. Several programs, or packets of several kinds, are measured in turn,
 * a few calls each, so that they can be compared on a machine whose speed changes. The kernel's
 * test itself is in the figures: compare with a program that passes, or with the floor.
 *
 * A try has --runs calls. Its figure is the mean of the faster half of them: interrupts, and
 * whatever else takes the CPU for a moment, make some calls slower, and their number says nothing
 * of the program.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/bpf.h>
#include <linux/udp.h>

#include "bench/items.h"
#include "bench/keys.h"
#include "bench/options.h"
#include "bench/packet.h"
#include "bench/pick.h"
#include "bench/verbs.h"
#include "bench/xdp.h"

enum { MAX_ARMS = 8, OUT_MAX = 4096, BATCH = 50, WARM = 5 };

struct options {
    uint64_t keys, key_size, value_size, runs, tries;
    const char *verb;
    bool miss, verify;
};

static const struct option_row rows[] = {
    ROW("keys", OPTION_NUMBER, keys, "N", "drawn uniformly (1)"),
    ROW("key-size", OPTION_NUMBER, key_size, "BYTES", "(16)"),
    ROW("value-size", OPTION_NUMBER, value_size, "BYTES", "for --verify (32)"),
    ROW("verb", OPTION_WORD, verb, "NAME", "get, gets, mg, getk or get10 (get)"),
    ROW("miss", OPTION_FLAG, miss, NULL, "ask for keys that were never stored"),
    ROW("verify", OPTION_FLAG, verify, NULL, "first compare every byte of the first arm's replies"),
    ROW("runs", OPTION_NUMBER, runs, "N", "calls in one try (3000)"),
    ROW("tries", OPTION_NUMBER, tries, "N", "(7)"),
};

static const struct option_table table = {
    "usage: perpacket [options] ARM...\n"
    "Prints nanoseconds per packet of each arm and try, as JSON. An arm is\n"
    "INTERFACE,FROM:PORT,MAC,MAC,TO:PORT[,WORD]: the interface that has the program, source and\n"
    "destination of the requests, and a word:\n"
    "  ipv6                  between fd00:: and these addresses\n"
    "  tcp=SEQ:ACK:TSVAL     segments of TCP, each behind the one before; their first numbers\n"
    "  pass, passtcp=...     the program passes them",
    rows, sizeof(rows) / sizeof(rows[0])};

/* Packets of one kind for one program. */
struct arm {
    struct packet_route route;
    struct packet_segment segment;
    struct pick pick;
    bool tcp;
    int expected; /* what the program says */
    int program;
    unsigned int ifindex;
    uint64_t answered, other, wrong;
    uint32_t *times; /* of one try */
    double *figures; /* of each try */
};

struct probe {
    const struct options *options;
    struct items items;
    enum verb verb;
    struct arm arms[MAX_ARMS];
    size_t narms;
    char *reply;
};

/* Where an arm's text begins in a frame. */
static size_t arm_text(const struct arm *arm)
{
    return arm->tcp ? PACKET_TEXT_TCP : packet_text(&arm->route);
}

/* Bytes from IP's header on, by a reply of IPv4. */
static size_t ip4_bytes(const uint8_t *frame)
{
    return (size_t)frame[16] << 8 | frame[17];
}

static bool reply_is_right(const struct probe *probe, const struct arm *arm, uint32_t index,
                           const uint8_t *out, uint32_t nout)
{
    size_t text = arm_text(arm), n;
    struct udphdr udp;

    if (nout < text)
        return false;
    /* What follows the datagram in a frame is padding. */
    n = verb_reply(probe->verb, &probe->items, index, (const char *)out + text, nout - text,
                   probe->reply);
    if (nout < text + n || memcmp(out + text, probe->reply, n) != 0)
        return false;
    if (arm->tcp)
        return ip4_bytes(out) == text - 14 + n;
    memcpy(&udp, out + text - 16, sizeof(udp));
    return ntohs(udp.len) == 16 + n;
}

/* Nothing but the run stands between two runs that are timed: a comparison would cool caches. */
static uint32_t run_once(struct probe *probe, struct arm *arm, bool verify)
{
    uint32_t index = pick_next(&arm->pick) | (probe->options->miss ? BENCH_MISS : 0);
    uint8_t in[PACKET_MAX], out[OUT_MAX];
    uint32_t nout = sizeof(out) - 1, ns = 0;
    char *text = (char *)in + arm_text(arm);
    size_t n = verb_request(probe->verb, &probe->items, index, text);
    int verdict;

    arm->segment.ntext = n;
    n = arm->tcp ? packet_tcp(&arm->route, &arm->segment, in) : packet_close(&arm->route, n, in);
    verdict = xdp_run(arm->program, arm->ifindex, in, (uint32_t)n, out, &nout, &ns);
    if (verdict < 0)
        fail("BPF_PROG_TEST_RUN: %s", strerror(-verdict));
    out[nout < sizeof(out) ? nout : 0] = '\0';
    arm->answered += verdict == arm->expected;
    arm->other += verdict != arm->expected;
    if (verify && !reply_is_right(probe, arm, index, out, nout))
        arm->wrong++;
    if (arm->tcp && verdict == XDP_TX) {
        arm->segment.seq += (uint32_t)arm->segment.ntext;
        arm->segment.ack += (uint32_t)(ip4_bytes(out) + 14 - PACKET_TEXT_TCP);
    }
    return ns;
}

static int compare(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    return (first > second) - (first < second);
}

static double faster_half(uint32_t *times, uint64_t n)
{
    uint64_t sum = 0, half = (n + 1) / 2;

    qsort(times, n, sizeof(*times), compare);
    for (uint64_t i = 0; i < half; i++)
        sum += times[i];
    return (double)sum / (double)half;
}

static void measure(struct probe *probe)
{
    const struct options *options = probe->options;

    for (uint64_t i = 0; options->verify && i < options->runs; i++)
        run_once(probe, &probe->arms[0], true);
    for (uint64_t try = 0; try < options->tries; try++) {
        for (uint64_t i = 0; i < options->runs; i += BATCH)
            for (size_t a = 0; a < probe->narms; a++) {
                for (int j = 0; j < WARM; j++)
                    run_once(probe, &probe->arms[a], false);
                for (uint64_t j = i; j < i + BATCH && j < options->runs; j++)
                    probe->arms[a].times[j] = run_once(probe, &probe->arms[a], false);
            }
        for (size_t a = 0; a < probe->narms; a++)
            probe->arms[a].figures[try] = faster_half(probe->arms[a].times, options->runs);
    }
}

static void report(const struct probe *probe)
{
    for (size_t a = 0; a < probe->narms; a++) {
        const struct arm *arm = &probe->arms[a];

        printf("%s{\"answered\": %" PRIu64 ", \"other\": %" PRIu64 ", \"wrong\": %" PRIu64
               ", \"ns\": [",
               a ? ", " : "[", arm->answered, arm->other, arm->wrong);
        for (uint64_t i = 0; i < probe->options->tries; i++)
            printf("%s%.1f", i ? ", " : "", arm->figures[i]);
        printf("]}");
    }
    printf("]\n");
}

/* What follows an arm's addresses. */
static void read_word(struct arm *arm, const char *word)
{
    struct packet_segment *segment = &arm->segment;
    bool passed = strncmp(word, "pass", 4) == 0;

    if (passed) {
        arm->expected = XDP_PASS;
        word += 4;
    }
    if (!passed && strcmp(word, "ipv6") == 0)
        arm->route.ipv6 = true;
    else if (sscanf(word, "tcp=%" SCNu32 ":%" SCNu32 ":%" SCNu32, &segment->seq, &segment->ack,
                    &segment->tsval) == 3)
        arm->tcp = segment->request = true;
    else if (!passed || *word)
        usage_error("%s", table.usage);
}

static void arm_init(struct arm *arm, const struct options *options, char *text)
{
    enum { INTERFACE, FROM, FROM_MAC, TO_MAC, TO, FIELDS };
    char *fields[FIELDS];

    for (size_t i = 0; i < FIELDS; i++) {
        fields[i] = strsep(&text, ",");
        if (!fields[i])
            usage_error("%s", table.usage);
    }
    arm->expected = XDP_TX;
    if (text)
        read_word(arm, text);
    arm->route.to = address_of(fields[TO]);
    arm->route.from = address_of(fields[FROM]);
    packet_mac(arm->route.to_mac, fields[TO_MAC]);
    packet_mac(arm->route.from_mac, fields[FROM_MAC]);
    pick_init(&arm->pick, PICK_UNIFORM, (uint32_t)options->keys, 0.99, 1);
    arm->ifindex = xdp_ifindex(fields[INTERFACE]);
    arm->program = xdp_program(fields[INTERFACE]);
    arm->times = calloc(options->runs, sizeof(*arm->times));
    arm->figures = calloc(options->tries, sizeof(*arm->figures));
    if (!arm->times || !arm->figures)
        fail("out of memory");
}

int main(int argc, char **argv)
{
    struct options options = {
        .keys = 1, .key_size = 16, .value_size = 32, .runs = 3000, .tries = 7, .verb = "get"};
    int operand = options_parse(&table, &options, argc, argv);
    struct probe probe = {.options = &options};
    bool failed = false;

    if (operand >= argc || argc - operand > MAX_ARMS)
        usage_error("%s", table.usage);
    if (!options.keys || options.keys >= BENCH_MISS)
        usage_error("--keys: 1 to %u", BENCH_MISS - 1);
    if (!options.runs || !options.tries)
        usage_error("--runs, --tries: at least 1");
    probe.verb = verb_of(options.verb);
    items_init(&probe.items, options.key_size, options.value_size);
    probe.reply = malloc(ITEMS_TEXT_MAX);
    if (!probe.reply)
        fail("out of memory");
    for (; operand < argc; operand++)
        arm_init(&probe.arms[probe.narms++], &options, argv[operand]);
    measure(&probe);
    report(&probe);
    for (size_t a = 0; a < probe.narms; a++) {
        failed |= probe.arms[a].wrong || !probe.arms[a].answered;
        free(probe.arms[a].times);
        free(probe.arms[a].figures);
    }
    free(probe.reply);
    items_fini(&probe.items);
    return failed;
}
