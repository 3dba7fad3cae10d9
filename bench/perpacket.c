/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perpacket: nanoseconds that the XDP program on an interface takes for one get, by
 * BPF_PROG_TEST_RUN with one packet a call, each with its own key. The mean of --runs calls is
 * taken --tries times; the best and the median of these means are printed. The kernel's test itself
 * is in the figure, so compare with the floor program measured in the same way.
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

enum { MAX_TRIES = 1000, OUT_MAX = 4096 };

struct options {
    uint64_t keys, key_size, value_size, runs, tries;
    const char *interface, *from, *from_mac, *to_mac, *verb;
    bool miss, verify, ipv6;
};

static const struct option_row rows[] = {
    ROW("interface", OPTION_WORD, interface, "NAME", "that has the program"),
    ROW("from", OPTION_WORD, from, "ADDRESS:PORT", "source of the requests"),
    ROW("from-mac", OPTION_WORD, from_mac, "MAC", "of the client"),
    ROW("to-mac", OPTION_WORD, to_mac, "MAC", "of the interface"),
    ROW("ipv6", OPTION_FLAG, ipv6, NULL, "between fd00:: and these addresses"),
    ROW("keys", OPTION_NUMBER, keys, "N", "drawn uniformly (1)"),
    ROW("key-size", OPTION_NUMBER, key_size, "BYTES", "(16)"),
    ROW("value-size", OPTION_NUMBER, value_size, "BYTES", "for --verify (32)"),
    ROW("verb", OPTION_WORD, verb, "NAME", "get, gets, mg or getk (get)"),
    ROW("miss", OPTION_FLAG, miss, NULL, "ask for keys that were never stored"),
    ROW("verify", OPTION_FLAG, verify, NULL, "first compare every byte of as many replies"),
    ROW("runs", OPTION_NUMBER, runs, "N", "calls in one try (3000)"),
    ROW("tries", OPTION_NUMBER, tries, "N", "(7)"),
};

static const struct option_table table = {
    "usage: perpacket --interface NAME --from A:P --from-mac M --to-mac M [options] A:P\n"
    "Prints nanoseconds per packet of the interface's XDP program, as JSON.",
    rows, sizeof(rows) / sizeof(rows[0])};

struct probe {
    const struct options *options;
    struct packet_route route;
    struct items items;
    struct pick pick;
    enum verb verb;
    int program;
    unsigned int ifindex;
    uint64_t answered, other, wrong;
    char *expected;
};

static bool reply_is_right(struct probe *probe, uint32_t index, const uint8_t *out, uint32_t nout)
{
    size_t text = packet_text(&probe->route), n;
    struct udphdr udp;

    if (nout < text)
        return false;
    /* What follows the datagram in a frame is padding. */
    n = verb_reply(probe->verb, &probe->items, index, (const char *)out + text, nout - text,
                   probe->expected);
    if (nout < text + n)
        return false;
    memcpy(&udp, out + text - 16, sizeof(udp));
    return ntohs(udp.len) == 16 + n && memcmp(out + text, probe->expected, n) == 0;
}

/* Nothing but the run stands between two runs that are timed: a comparison would cool caches. */
static uint32_t run_once(struct probe *probe, bool verify)
{
    uint32_t index = pick_next(&probe->pick) | (probe->options->miss ? BENCH_MISS : 0);
    uint8_t in[PACKET_MAX], out[OUT_MAX];
    uint32_t nout = sizeof(out) - 1, ns = 0;
    size_t n =
        verb_request(probe->verb, &probe->items, index, (char *)in + packet_text(&probe->route));
    int verdict;

    n = packet_close(&probe->route, n, in);
    verdict = xdp_run(probe->program, probe->ifindex, in, (uint32_t)n, out, &nout, &ns);
    if (verdict < 0)
        fail("BPF_PROG_TEST_RUN: %s", strerror(-verdict));
    out[nout < sizeof(out) ? nout : 0] = '\0';
    probe->answered += verdict == XDP_TX;
    probe->other += verdict != XDP_TX;
    if (verify && !reply_is_right(probe, index, out, nout))
        probe->wrong++;
    return ns;
}

static void measure(struct probe *probe)
{
    const struct options *options = probe->options;
    double means[MAX_TRIES], median;

    for (uint64_t i = 0; options->verify && i < options->runs; i++)
        run_once(probe, true);
    for (uint64_t i = 0; i < options->tries; i++) {
        uint64_t sum = 0;

        for (uint64_t j = 0; j < options->runs; j++)
            sum += run_once(probe, false);
        means[i] = (double)sum / (double)options->runs;
    }
    median = sort_median(means, options->tries);
    printf("{\"best_ns\": %.1f, \"median_ns\": %.1f, \"answered\": %" PRIu64 ", \"other\": %" PRIu64
           ", \"wrong\": %" PRIu64 "}\n",
           means[0], median, probe->answered, probe->other, probe->wrong);
}

static void check_options(const struct options *options)
{
    if (!options->interface || !options->from || !options->from_mac || !options->to_mac)
        usage_error("%s", table.usage);
    if (!options->keys || options->keys >= BENCH_MISS)
        usage_error("--keys: 1 to %u", BENCH_MISS - 1);
    if (!options->runs || !options->tries || options->tries > MAX_TRIES)
        usage_error("--runs: at least 1; --tries: 1 to %d", MAX_TRIES);
}

int main(int argc, char **argv)
{
    struct options options = {
        .keys = 1, .key_size = 16, .value_size = 32, .runs = 3000, .tries = 7, .verb = "get"};
    int operand = options_parse(&table, &options, argc, argv);
    struct probe probe = {.options = &options};

    if (operand != argc - 1)
        usage_error("%s", table.usage);
    check_options(&options);
    probe.route.to = address_of(argv[operand]);
    probe.route.from = address_of(options.from);
    probe.route.ipv6 = options.ipv6;
    packet_mac(probe.route.to_mac, options.to_mac);
    packet_mac(probe.route.from_mac, options.from_mac);
    probe.verb = verb_of(options.verb);
    items_init(&probe.items, options.key_size, options.value_size);
    pick_init(&probe.pick, PICK_UNIFORM, (uint32_t)options.keys, 0.99, 1);
    probe.ifindex = xdp_ifindex(options.interface);
    probe.program = xdp_program(options.interface);
    probe.expected = malloc(ITEMS_TEXT_MAX);
    if (!probe.expected)
        fail("out of memory");
    measure(&probe);
    free(probe.expected);
    items_fini(&probe.items);
    return probe.wrong || !probe.answered;
}
