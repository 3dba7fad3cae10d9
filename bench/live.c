/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live: in-kernel open-loop load. Runs load_generate (load.bpf.c) on one CPU in live-frames mode
 * and counts, with the sink on the client's end of the veth pair (attach sink), the replies that
 * come out of the server's end within a window of time.
 *
 * --path direct, in the server's namespace, --interface the server's end: each request is handed to
 * the program that the server has there (or, with --pass, to the stack behind it).
 *
 * --path veth, in the client's namespace, --interface the client's end: each request goes through
 * the veth driver.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bench/items.h"
#include "bench/keys.h"
#include "bench/load.h"
#include "bench/load.skel.h"
#include "bench/options.h"
#include "bench/packet.h"
#include "bench/pick.h"
#include "bench/xdp.h"

enum { LIVE_BATCH = 64, LIVE_REPEAT = 1 << 24, MAX_CPUS = 256 };

struct options {
    uint64_t keys, key_size, rate, cpu, cpus, batch, sink;
    uint64_t large;
    const char *interface, *path, *from, *from_mac, *to_mac, *dist;
    double seconds, warmup, theta;
    bool miss, touch, pass, realtime;
};

static const struct option_row rows[] = {
    ROW("interface", OPTION_WORD, interface, "NAME", "server's end (direct) or client's (veth)"),
    ROW("path", OPTION_WORD, path, "NAME", "direct or veth (direct)"),
    ROW("pass", OPTION_FLAG, pass, NULL, "hand requests to the stack, call no program"),
    ROW("realtime", OPTION_FLAG, realtime, NULL, "do not let other processes interrupt"),
    ROW("sink", OPTION_NUMBER, sink, "ID", "program that counts the replies (attach sink)"),
    ROW("from", OPTION_WORD, from, "ADDRESS:PORT", "source address (the port is replaced)"),
    ROW("from-mac", OPTION_WORD, from_mac, "MAC", "of the client's end"),
    ROW("to-mac", OPTION_WORD, to_mac, "MAC", "of the server's end"),
    ROW("keys", OPTION_NUMBER, keys, "N", "how many keys there are (1)"),
    ROW("dist", OPTION_WORD, dist, "NAME", "which key: uniform, zipf, one, turn (uniform)"),
    ROW("theta", OPTION_REAL, theta, "X", "skew of zipf (0.99)"),
    ROW("large", OPTION_NUMBER, large, "PERCENT", "of the requests are for keys with large values"),
    ROW("key-size", OPTION_NUMBER, key_size, "BYTES", "(16)"),
    ROW("miss", OPTION_FLAG, miss, NULL, "ask for keys that were never stored"),
    ROW("touch", OPTION_FLAG, touch, NULL, "ask by gat, which the kernel path passes"),
    ROW("rate", OPTION_NUMBER, rate, "N", "requests a second, 0: as fast as it goes (0)"),
    ROW("cpu", OPTION_NUMBER, cpu, "N", "that the generator runs on (0)"),
    ROW("cpus", OPTION_NUMBER, cpus, "N", "generators, on so many CPUs from --cpu on (1)"),
    ROW("batch", OPTION_NUMBER, batch, "N", "frames between two looks at other work (64)"),
    ROW("seconds", OPTION_REAL, seconds, "S", "the window that is counted (2)"),
    ROW("warmup", OPTION_REAL, warmup, "S", "before the window (0.3)"),
};

static const struct option_table table = {
    "usage: live --interface NAME --sink ID --from A:P --from-mac M --to-mac M [options] A:P\n"
    "Sends UDP gets from inside the kernel; prints what was sent and answered, as JSON.",
    rows, sizeof(rows) / sizeof(rows[0])};

struct generator {
    const struct options *options;
    int program, state_map, replies_map, picks_map;
    unsigned int ifindex; /* that the requests seem to have come from */
    uint8_t frame[PACKET_MAX + LOAD_TRIM];
    bool picks;         /* drawn before the run */
    uint32_t sum;       /* of a request without what is different in each */
    size_t nframe;      /* of the request; what the kernel gets has LOAD_TRIM more for veth */
    volatile bool stop; /* set once by main, read between runs */
    int error;
};

struct runner {
    pthread_t thread;
    struct generator *generator;
    uint64_t cpu;
};

struct sample {
    uint64_t ns, sent;
    struct load_replies replies;
};

static void interrupt(int signal)
{
    (void)signal;
}

/* The main thread goes before the generators: it ends them. */
static void take_priority(const struct options *options, int priority)
{
    struct sched_param param = {.sched_priority = priority};

    if (options->realtime && sched_setscheduler(0, SCHED_FIFO, &param))
        fail("--realtime: %s", strerror(errno));
}

/* The kernel ends a run early when a signal comes (EINTR). */
static void *generate(void *arg)
{
    struct runner *runner = arg;
    struct generator *generator = runner->generator;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(runner->cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
    take_priority(generator->options, 1);
    while (!generator->stop) {
        __u32 nframe = (__u32)generator->nframe + (generator->ifindex ? 0 : LOAD_TRIM);
        struct xdp_md ctx = {.data_end = nframe, .ingress_ifindex = generator->ifindex};
        LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = generator->frame, .data_size_in = nframe,
                    .repeat = LIVE_REPEAT, .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .ctx_in = &ctx,
                    .ctx_size_in = sizeof(ctx), .batch_size = (__u32)generator->options->batch);

        if (bpf_prog_test_run_opts(generator->program, &run) && errno != EINTR) {
            generator->error = errno;
            break;
        }
    }
    return NULL;
}

static int count_cpus(void)
{
    int ncpus = libbpf_num_possible_cpus();

    if (ncpus < 1 || ncpus > MAX_CPUS)
        fail("%d CPUs are not supported", ncpus);
    return ncpus;
}

static void take_sample(const struct generator *generator, struct sample *sample)
{
    static const __u32 zero;
    struct load_replies replies[MAX_CPUS];
    struct load_state states[MAX_CPUS];
    int ncpus = count_cpus();

    if (bpf_map_lookup_elem(generator->state_map, &zero, states) ||
        bpf_map_lookup_elem(generator->replies_map, &zero, replies))
        fail("cannot read the counters: %s", strerror(errno));
    *sample = (struct sample){.ns = now_ns()};
    for (int i = 0; i < ncpus; i++) {
        sample->sent += states[i].sent;
        sample->replies.hits += replies[i].hits;
        sample->replies.misses += replies[i].misses;
        sample->replies.other += replies[i].other;
    }
}

static void pause_for(double seconds)
{
    struct timespec ts = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    while (nanosleep(&ts, &ts) && errno == EINTR)
        ;
}

static void print_samples(const struct sample *a, const struct sample *b)
{
    double seconds = (double)(b->ns - a->ns) * 1e-9;
    uint64_t hits = b->replies.hits - a->replies.hits;
    uint64_t misses = b->replies.misses - a->replies.misses;
    uint64_t other = b->replies.other - a->replies.other;

    printf("{\"seconds\": %.3f, \"sent_per_second\": %.0f, \"answered_per_second\": %.0f"
           ", \"hits\": %" PRIu64 ", \"misses\": %" PRIu64 ", \"other\": %" PRIu64 "}\n",
           seconds, (double)(b->sent - a->sent) / seconds,
           (double)(hits + misses + other) / seconds, hits, misses, other);
}

static void fill_state(const struct generator *generator)
{
    static const __u32 zero;
    const struct options *options = generator->options;
    struct load_state states[MAX_CPUS];
    int ncpus = count_cpus();

    for (int i = 0; i < ncpus; i++) {
        states[i] = (struct load_state){
            .nframe = (__u32)generator->nframe,
            .key_tail = (__u32)(generator->nframe - 2 - BENCH_KEY_TAIL),
            .nkeys = (__u32)options->keys,
            .miss = options->miss ? BENCH_MISS : 0,
            .ifindex = generator->ifindex ? 0 : xdp_ifindex(options->interface),
            .interval_ns = options->rate ? 1000000000u * options->cpus / options->rate : 0,
            .turn = generator->picks ? (__u32)i * (LOAD_PICKS / MAX_CPUS) : LOAD_UNIFORM,
            .random = (__u64)i + 1,
            .sum = generator->sum,
            .tail_shift = options->key_size % 2 * 8,
        };
        memcpy(states[i].frame, generator->frame, generator->nframe);
    }
    if (bpf_map_update_elem(generator->state_map, &zero, states, 0))
        fail("cannot set the generator up: %s", strerror(errno));
}

/*
 * Draws the requests before the run. Popular keys are spread over all indices, as they would be in
 * a server that they were not stored in the order of.
 */
static void draw_picks(struct generator *generator)
{
    const struct options *options = generator->options;
    const uint64_t spread = 2654435761u; /* a prime: none is drawn for two */
    uint64_t random = 1;
    struct pick pick;
    uint32_t *picks = mmap(NULL, LOAD_PICKS * sizeof(*picks), PROT_READ | PROT_WRITE, MAP_SHARED,
                           generator->picks_map, 0);

    if (picks == MAP_FAILED)
        fail("cannot map the picks: %s", strerror(errno));
    pick_init(&pick, (enum pick_kind)pick_kind(options->dist), (uint32_t)options->keys,
              options->theta, 1);
    for (size_t i = 0; i < LOAD_PICKS; i++) {
        random = bench_random(random);
        picks[i] = (uint32_t)(pick_next(&pick) * spread % options->keys);
        picks[i] |= bench_below(random, 100) < options->large ? BENCH_LARGE : 0;
        picks[i] |= options->miss ? BENCH_MISS : 0;
    }
    munmap(picks, LOAD_PICKS * sizeof(*picks));
}

static struct load *load_generator(__u32 flags)
{
    struct load *load = load__open();

    if (!load)
        fail("cannot open the generator");
    bpf_program__set_flags(load->progs.load_generate, flags);
    if (load__load(load))
        fail("cannot load the generator");
    return load;
}

/*
 * Loads a generator that calls the server's program. The kernel wants both caller and callee, or
 * neither, to take packets of several fragments, and does not tell, so both are tried.
 */
static struct load *load_caller(const char *interface)
{
    static const __u32 zero, flags[] = {0, BPF_F_XDP_HAS_FRAGS};
    int server = xdp_program(interface);

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct load *load = load_generator(flags[i]);

        if (!bpf_map_update_elem(bpf_map__fd(load->maps.load_server), &zero, &server, 0))
            return load;
        load__destroy(load);
    }
    fail("cannot call the program of %s: %s", interface, strerror(errno));
}

static void measure(struct generator *generator)
{
    const struct options *options = generator->options;
    struct sigaction action = {.sa_handler = interrupt};
    struct runner runners[MAX_CPUS];
    struct sample before, after;

    sigaction(SIGUSR1, &action, NULL);
    take_priority(options, 2);
    for (uint64_t i = 0; i < options->cpus; i++) {
        runners[i] = (struct runner){.generator = generator, .cpu = options->cpu + i};
        if (pthread_create(&runners[i].thread, NULL, generate, &runners[i]))
            fail("cannot start a thread");
    }
    pause_for(options->warmup);
    take_sample(generator, &before);
    pause_for(options->seconds);
    take_sample(generator, &after);
    generator->stop = true;
    for (uint64_t i = 0; i < options->cpus; i++) {
        pthread_kill(runners[i].thread, SIGUSR1);
        pthread_join(runners[i].thread, NULL);
    }
    if (generator->error)
        fail("the generator stopped: %s", strerror(generator->error));
    print_samples(&before, &after);
}

static void check_options(const struct options *options)
{
    if (!options->keys || options->keys >= BENCH_LARGE)
        usage_error("--keys: 1 to %u", BENCH_LARGE - 1);
    if (pick_kind(options->dist) < 0)
        usage_error("--dist: one, uniform, zipf or turn");
    if (!options->cpus || options->cpu + options->cpus > (uint64_t)count_cpus())
        usage_error("--cpu, --cpus: there are %d", count_cpus());
}

/* The sum of a request whose source port, id and last eight bytes of the key are 0. */
static uint32_t rest_sum(const struct packet_route *route, const struct generator *generator)
{
    size_t n = generator->nframe;
    struct packet_route rest = *route;
    uint8_t frame[sizeof(generator->frame)];
    uint16_t check, id = htons(1); /* which packet_close gives */

    memcpy(frame, generator->frame, n);
    memset(frame + n - strlen("\r\n") - BENCH_KEY_TAIL, 0, BENCH_KEY_TAIL);
    rest.from.sin_port = 0;
    packet_close(&rest, n - PACKET_TEXT, frame);
    memcpy(&check, frame + PACKET_TEXT - 10, sizeof(check));
    return (uint32_t)(uint16_t)~check + (uint16_t)~id;
}

static void build_frame(const struct options *options, const char *to, struct generator *generator)
{
    struct packet_route route = {.to = address_of(to), .from = address_of(options->from)};
    struct items items;

    packet_mac(route.to_mac, options->to_mac);
    packet_mac(route.from_mac, options->from_mac);
    items_init(&items, options->key_size, 0);
    items.touch = options->touch;
    generator->nframe = packet_get(&route, &items, 0, generator->frame);
    generator->sum = rest_sum(&route, generator);
    items_fini(&items);
}

int main(int argc, char **argv)
{
    struct options options = {.keys = 1,
                              .key_size = 16,
                              .seconds = 2,
                              .warmup = 0.3,
                              .cpus = 1,
                              .batch = LIVE_BATCH,
                              .path = "direct",
                              .dist = "uniform",
                              .theta = 0.99};
    int operand = options_parse(&table, &options, argc, argv);
    struct generator generator = {.options = &options};
    struct load *load;
    int sink;

    if (operand != argc - 1 || !options.interface || !options.from || !options.from_mac ||
        !options.to_mac)
        usage_error("%s", table.usage);
    if (strcmp(options.path, "direct") == 0)
        generator.ifindex = xdp_ifindex(options.interface);
    else if (strcmp(options.path, "veth") != 0)
        usage_error("--path: direct or veth");
    check_options(&options);
    build_frame(&options, argv[operand], &generator);
    if (generator.ifindex && !options.pass)
        load = load_caller(options.interface);
    else
        load = load_generator(0);
    sink = bpf_prog_get_fd_by_id((__u32)options.sink);
    if (sink < 0)
        fail("--sink: no such program");
    generator.program = bpf_program__fd(load->progs.load_generate);
    generator.state_map = bpf_map__fd(load->maps.load_state);
    generator.replies_map = xdp_map(sink, "load_replies");
    generator.picks_map = bpf_map__fd(load->maps.load_picks);
    generator.picks = options.large || pick_kind(options.dist) != PICK_UNIFORM;
    if (generator.picks)
        draw_picks(&generator);
    fill_state(&generator);
    measure(&generator);
    load__destroy(load);
    return 0;
}
