/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/loader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/attach/share.h"
#include "bpf/load/inner.h"
#include "bpf/load/map_clear.h"
#include "bpf/load/object.h"
#include "bpf/load/refusal.h"
#include "bpf/load/tcp.h"

enum { VERIFIER_LOG = 16 << 20 }; /* bytes; used only when a load fails */

/* Silences libbpf: the caller reports errors by their values. */
static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level;
    (void)format;
    (void)args;
    return 0;
}

size_t loader_list_bytes(const struct loader_guard *guard)
{
    return MC_ALLOW_NODES_AT + (size_t)guard->nnodes * MC_ALLOW_FAN * sizeof(uint32_t) +
           (size_t)guard->nprefixes * sizeof(struct mc_allow_prefix);
}

/* What a request costs, in units of struct mc_guard. */
static uint64_t guard_cost(const struct loader_guard *guard)
{
    return guard->rate ? 1000000000ull * MC_RATE_TICKS / guard->rate : 0;
}

/* Sizes the maps of rate=, and sets its secret factors. */
static int guard_prepare_rates(struct object *object)
{
    uint64_t seeds[2];

    if (getrandom(seeds, sizeof(seeds), 0) != sizeof(seeds))
        return -EIO;
    object->guard.seeds[0] = seeds[0] | 1;
    object->guard.seeds[1] = seeds[1] | 1;
    return bpf_map__set_max_entries(object_map(object, "rates"), 1u << MC_RATE_BITS);
}

/* Sets what the guard needs before the load: constants, and the sizes of its maps. */
static int guard_prepare(struct object *object, const struct loader_guard *guard)
{
    const struct object_guard *out = &object->guard;
    struct bpf_map *lists = object_map(object, "allowed");
    int rc = 0;

    *out->allow = guard->allow;
    *out->local = guard->local;
    *out->amplification = guard->amplification;
    *out->reloads = guard->reloads;
    *out->cost = guard_cost(guard);
    *out->depth = *out->cost * guard->burst;
    if (guard->allow == MC_ALLOW_LIST) {
        *out->nodes_mask = guard->nnodes - 1;
        *out->prefixes_mask = guard->nprefixes - 1;
        rc = bpf_map__set_value_size(lists, (uint32_t)loader_list_bytes(guard));
    }
    if (!rc && guard->reloads)
        rc = bpf_map__set_max_entries(lists, 2);
    if (!rc && (guard->rate || guard->reloads))
        rc = guard_prepare_rates(object);
    return rc;
}

/*
 * A packet that reads the list which is filled here began before the last change of guard_now.list:
 * it is passed.
 */
static int guard_fill(struct object *object, const struct loader_guard *guard)
{
    struct mc_guard *now = object->guard_now;
    uint32_t number = (now->list & ~MC_GUARD_LOCAL) + MC_GUARD_NUMBER, key;

    if (guard->allow != MC_ALLOW_LIST)
        return 0;
    if (guard->reloads)
        number ^= MC_GUARD_SECOND;
    key = number & MC_GUARD_SECOND;
    if (bpf_map_update_elem(bpf_map__fd(object_map(object, "allowed")), &key, guard->list, BPF_ANY))
        return -errno;
    __atomic_store_n(&now->cost, guard_cost(guard), __ATOMIC_RELAXED);
    __atomic_store_n(&now->depth, guard_cost(guard) * guard->burst, __ATOMIC_RELAXED);
    __atomic_store_n(&now->amplification, guard->amplification, __ATOMIC_RELAXED);
    __atomic_store_n(&now->list, number | (guard->local ? MC_GUARD_LOCAL : 0), __ATOMIC_SEQ_CST);
    return 0;
}

int loader_set_guard(struct loader *loader, const struct loader_guard *guard)
{
    return guard_fill(&loader->object, guard);
}

/* PREEMPT_RT_NEEDS_BH_LOCK, a build option that keeps the lock, cannot be detected. */
bool loader_is_interrupted(void)
{
    unsigned int major, minor;
    struct utsname kernel;

    return uname(&kernel) == 0 && strstr(kernel.version, "PREEMPT_RT") &&
           sscanf(kernel.release, "%u.%u", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 18));
}

/* The coarse clocks move once in a tick. */
uint64_t loader_tick_ns(void)
{
    struct timespec tick;

    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    return (uint64_t)tick.tv_nsec;
}

/* Whether this process is in the time namespace that its children will be in. */
static bool time_is_childrens(void)
{
    struct stat own, childrens;

    return stat("/proc/self/ns/time", &own) == 0 &&
           stat("/proc/self/ns/time_for_children", &childrens) == 0 &&
           own.st_ino == childrens.st_ino;
}

/*
 * Reads how far CLOCK_MONOTONIC is ahead of the kernel's clock, bpf_ktime_get_ns. 0 or -errno. The
 * file has the offset of the time namespace of this process's children; a process that is not in
 * that namespace has unshared it and not yet forked.
 */
static int clock_ahead(int64_t *ahead)
{
    FILE *file = fopen("/proc/self/timens_offsets", "re");
    long long seconds = 0, ns = 0;
    bool known;

    *ahead = 0;
    if (!file)
        return 0; /* a kernel without time namespaces */
    known = fscanf(file, "monotonic %lld %lld", &seconds, &ns) == 2 && time_is_childrens();
    fclose(file);
    *ahead = seconds * 1000000000 + ns;
    return known ? 0 : -EXDEV;
}

/* --- the chain ---------------------------------------------------------------- */

int loader_netns_cookie(__u64 *out)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = 0;
    socklen_t n = sizeof(*out);

    if (fd < 0)
        return -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, out, &n))
        rc = -errno;
    close(fd);
    return rc;
}

/* Sets the chain's constants and the sizes of its maps, before the load. */
static int chain_prepare(struct object *object, const struct chain_settings *settings)
{
    const struct {
        const char *name;
        uint32_t n;
    } sizes[] = {
        {"buckets", settings->entries},
        {"medium", settings->nmedium},
        {"large", settings->nlarge},
        {"asks", settings->nasks},
        {"connections", settings->nconnections},
        {"untracked_conns", settings->nconnections},
    };
    struct bpf_map *map;
    size_t i;
    int rc;

    *object->settings = *settings;
    rc = loader_netns_cookie(&object->settings->netns);
    for (i = 0; !rc && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        map = object_map(object, sizes[i].name);
        if (map)
            rc = bpf_map__set_max_entries(map, sizes[i].n);
    }
    return rc;
}

/* Sets the seeds, which the store sets for its programs: the chain has no store. */
static int chain_begin(struct object *object)
{
    uint64_t *seed = (uint64_t *)object->control->seed;

    return getrandom(seed, sizeof(object->control->seed), 0) == sizeof(object->control->seed)
               ? 0
               : -EIO;
}

void loader_chain_counts(struct loader *loader, struct chain_counts *out)
{
    size_t size, i;
    char *rows =
        object_rows(object_map(&loader->object, "chain_scratch_map"), loader->ncpus, &size);
    int cpu;

    memset(out, 0, sizeof(*out));
    for (cpu = 0; rows && cpu < loader->ncpus; cpu++)
        for (i = 0; i < CHAIN_COUNTS; i++)
            out->count[i] += ((const struct chain_counts *)(rows + size * (size_t)cpu))->count[i];
    free(rows);
}

/* --- ways back ------------------------------------------------------------------ */

/* Sets the constants of bpf/packet/way.bpf.h: random factors, and units of a second or two. */
static int ways_prepare(struct object *object)
{
    uint64_t factors[4], tick = loader_tick_ns();
    uint32_t shift = 0;

    if (getrandom(factors, sizeof(factors), 0) != sizeof(factors))
        return -EIO;
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++)
        object->way_factors[i] = factors[i] | 1;
    while (tick << shift < 1000000000)
        shift++;
    *object->way_shift = shift;
    return 0;
}

void loader_invalidate_ways(struct loader *loader)
{
    /*
     * The epoch is added to sums that have secret factors: an old sum matches a new one only by
     * chance.
     */
    __atomic_fetch_add(loader->object.way_epoch, 0x9e3779b97f4a7c15, __ATOMIC_SEQ_CST);
}

int loader_know_socket(struct loader *loader, int socket)
{
    const struct bpf_map *map = object_map(&loader->object, "server_sockets");
    uint32_t known = 1;

    /* The chain knows its server by other means (bpf/chain/sender.bpf.h). */
    return map ? bpf_map_update_elem(bpf_map__fd(map), &socket, &known, BPF_ANY) : 0;
}

void loader_set_ports(struct loader *loader, const struct mc_way_port *ports, size_t n)
{
    struct object *object = &loader->object;

    __atomic_store_n(object->way_nports, 0, __ATOMIC_SEQ_CST);
    if (n)
        memcpy(object->way_ports, ports, n * sizeof(*ports));
    __atomic_store_n(object->way_nports, n, __ATOMIC_SEQ_CST);
}

/* --- loading ------------------------------------------------------------------ */

/* Configures an open object and starts to load it. settings: of the chain, else NULL. */
static int prepare_and_start(struct object *object, const struct chain_settings *settings,
                             const struct loader_guard *guard)
{
    int rc = guard_prepare(object, guard);

    rc = rc ? rc : ways_prepare(object);
#ifndef __x86_64__
    *object->weakly_ordered = 1;
#endif
    *object->tick_ns = loader_tick_ns();
    if (!rc)
        rc = clock_ahead(object->clock_ahead);
    object_set_xdp(object, BPF_F_XDP_HAS_FRAGS, true);
    if (!rc && settings)
        rc = chain_prepare(object, settings);
    rc = rc ? rc : object_start(object);
    rc = rc ? rc : guard_fill(object, guard);
    if (!rc && settings)
        rc = chain_begin(object);
    return rc;
}

/* Bytes that its maps take, as /proc/self/fdinfo reports them. */
static uint64_t count_bytes(const struct object *object)
{
    uint64_t sum = 0, bytes;
    struct bpf_map *map;
    char text[128];
    FILE *file;

    bpf_object__for_each_map(map, object->all)
    {
        snprintf(text, sizeof(text), "/proc/self/fdinfo/%d", bpf_map__fd(map));
        file = fopen(text, "re");
        while (file && fgets(text, sizeof(text), file))
            if (sscanf(text, "memlock: %" SCNu64, &bytes) == 1)
                sum += bytes;
        if (file)
            fclose(file);
    }
    return sum;
}

static struct loader *open_either(enum object_kind kind, bool has_rings,
                                  const struct chain_settings *settings,
                                  const struct loader_guard *guard, char *error, size_t nerror)
{
    struct loader *loader = calloc(1, sizeof(*loader));
    char *log = calloc(1, VERIFIER_LOG);
    LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_buf = log, .kernel_log_size = VERIFIER_LOG);
    int rc;

    if (!loader || !log) {
        snprintf(error, nerror, "out of memory");
        free(loader);
        free(log);
        return NULL;
    }
    loader->xdp_array = loader->tc_arrays[LOADER_INGRESS] = loader->tc_arrays[LOADER_EGRESS] = -1;
    loader->filters[LOADER_INGRESS] = loader->filters[LOADER_EGRESS] = -1;
    loader->share_socket = loader->inner.first = -1;
    libbpf_set_print(print_nothing);
    loader->ncpus = libbpf_num_possible_cpus();
    rc = object_open(&loader->object, kind, has_rings, &opts);
    if (!rc && kind != OBJECT_CHAIN)
        rc = inner_init(&loader->inner, object_map(&loader->object, "heap"));
    if (!rc)
        rc = prepare_and_start(&loader->object, settings, guard);
    if (!rc) {
        loader_control(loader)->lease = MC_LEASE_EVER;
        loader->nbytes = count_bytes(&loader->object);
    }
    if (rc || loader->ncpus < 1) {
        refusal_explain(rc, log, error, nerror);
        object_close(&loader->object);
        inner_free(&loader->inner);
        free(loader);
        loader = NULL;
    }
    free(log);
    return loader;
}

struct loader *loader_open(char *error, size_t nerror)
{
    struct loader *loader = loader_open_guarded(&(struct loader_guard){0}, 0, error, nerror);

    if (loader && loader_wait(loader, error, nerror)) {
        loader_close(loader);
        return NULL;
    }
    return loader;
}

struct loader *loader_open_guarded(const struct loader_guard *guard, unsigned int extras,
                                   char *error, size_t nerror)
{
    return open_either(extras & LOADER_TCP ? OBJECT_BOTH : OBJECT_UDP, extras & LOADER_RINGS, NULL,
                       guard, error, nerror);
}

struct loader *loader_open_chain(const struct chain_settings *settings,
                                 const struct loader_guard *guard, char *error, size_t nerror)
{
    return open_either(OBJECT_CHAIN, false, settings, guard, error, nerror);
}

int loader_wait_hook(struct loader *loader, enum loader_hook hook)
{
    return object_wait_hook(&loader->object, hook);
}

int loader_wait(struct loader *loader, char *error, size_t nerror)
{
    char *log = calloc(1, VERIFIER_LOG), none[1] = "";
    int rc = object_finish(&loader->object, log, VERIFIER_LOG);

    rc = rc ? rc : inner_finish(&loader->inner);
    if (rc) {
        refusal_explain(rc, log ? log : none, error, nerror);
    } else {
        rc = tcp_finish(loader);
        if (rc)
            tcp_explain(rc, error, nerror);
    }
    free(log);
    return rc;
}

void loader_close(struct loader *loader)
{
    size_t i;

    if (!loader)
        return;
    if (loader->xdp_array >= 0)
        close(loader->xdp_array);
    for (i = 0; i < LOADER_HOOKS; i++) {
        if (loader->filters[i] >= 0)
            close(loader->filters[i]);
        if (loader->tc_arrays[i] >= 0)
            close(loader->tc_arrays[i]);
    }
    share_free(loader);
    tcp_free(loader->tcp);
    inner_free(&loader->inner);
    object_close(&loader->plain);
    object_close(&loader->object);
    free(loader);
}

uint64_t loader_bytes(const struct loader *loader)
{
    return loader->nbytes;
}

bool loader_is_chain(const struct loader *loader)
{
    return loader->object.kind == OBJECT_CHAIN;
}

struct mc_control *loader_control(struct loader *loader)
{
    return loader->object.control;
}

/* Adds memory to an array of maps. */
static int map_inner(struct loader *loader, const char *outer, uint32_t index, void *addr,
                     uint32_t size)
{
    return inner_map(&loader->inner, bpf_map__fd(object_map(&loader->object, outer)), index, addr,
                     size);
}

int loader_map_extent(struct loader *loader, uint32_t index, void *addr)
{
    return map_inner(loader, "heap", index, addr, MC_EXTENT_BYTES);
}

int loader_map_table(struct loader *loader, uint32_t index, void *addr)
{
    return map_inner(loader, "table", index, addr, MC_TABLE_BYTES);
}

static void counts_add(struct mc_counts *sum, const struct mc_counts *row)
{
    size_t i;

    for (i = 0; i < sizeof(row->count) / sizeof(row->count[0]); i++)
        sum->count[i] += row->count[i];
    for (i = 0; i < MC_CLASSES; i++)
        sum->class_hits[i] += row->class_hits[i];
}

/* The programs count each packet once, at its exit; the other counts are derived from that. */
static void counts_derive(struct mc_counts *sum)
{
    size_t i;

    sum->count[MC_COUNT_HITS] = 0;
    for (i = 0; i < MC_CLASSES; i++)
        sum->count[MC_COUNT_HITS] += sum->class_hits[i];
    sum->count[MC_COUNT_KEYS] = sum->count[MC_COUNT_HITS] + sum->count[MC_COUNT_MISSES];
    sum->count[MC_COUNT_SEEN] =
        sum->count[MC_COUNT_ANSWERED_XDP] + sum->count[MC_COUNT_ANSWERED_TC];
    for (i = MC_COUNT_PASS_COMMAND; i < MC_COUNTS; i++)
        sum->count[MC_COUNT_SEEN] += sum->count[i];
}

void loader_counts(struct loader *loader, struct mc_counts *out)
{
    size_t size;
    char *rows = object_rows(object_map(&loader->object, "scratch_map"), loader->ncpus, &size);
    int cpu;

    memset(out, 0, sizeof(*out));
    for (cpu = 0; rows && cpu < loader->ncpus; cpu++)
        counts_add(out, (const struct mc_counts *)(rows + size * (size_t)cpu));
    counts_derive(out);
    free(rows);
}

int loader_program_fd(struct loader *loader, enum loader_program program)
{
    const struct object *object = &loader->object;

    return bpf_program__fd(program == LOADER_XDP ? object->xdp : object->tc[object->main]);
}

int loader_program_named(struct loader *loader, const char *name)
{
    const struct object *object = &loader->object;
    const struct bpf_program *program = bpf_object__find_program_by_name(object->all, name);
    const struct bpf_program *each[] = {object->xdp, object->tc[LOADER_INGRESS],
                                        object->tc[LOADER_EGRESS]};

    /* Of these the object has one of the same name, which is not loaded. */
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
        if (each[i] && strcmp(bpf_program__name(each[i]), name) == 0)
            program = each[i];
    return program ? bpf_program__fd(program) : -ENOENT;
}

int loader_run(struct loader *loader, enum loader_program program, struct loader_packet *packet)
{
    struct xdp_md context = {.data_end = (uint32_t)packet->nin,
                             .ingress_ifindex = (uint32_t)packet->ifindex};
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = packet->in,
                .data_size_in = (uint32_t)packet->nin, .data_out = packet->out,
                .data_size_out = (uint32_t)packet->nout,
                .repeat = packet->repeat ? (int)packet->repeat : 1);
    int rc;

    if (program == LOADER_XDP) {
        opts.ctx_in = opts.ctx_out = &context;
        opts.ctx_size_in = opts.ctx_size_out = sizeof(context);
    }
    rc = bpf_prog_test_run_opts(loader_program_fd(loader, program), &opts);
    packet->nout = opts.data_size_out;
    packet->verdict = opts.retval;
    packet->ns = opts.duration;
    packet->nmark = context.data;
    return rc;
}

void loader_release_memory(struct loader *loader)
{
    const struct bpf_map *heap = object_map(&loader->object, "heap");
    const struct bpf_map *table = object_map(&loader->object, "table");

    if (loader->object.kind == OBJECT_CHAIN)
        return; /* no filter holds its programs, so their memory is freed with them */
    map_clear(bpf_map__fd(heap), 0, MC_MAX_EXTENTS);
    map_clear(bpf_map__fd(table), 0, MC_OVERFLOW_TABLE);
    map_clear(bpf_map__fd(table), MC_OVERFLOW_TABLE, MC_MAX_TABLE_EXTENTS);
}

void loader_set_tc(struct loader *loader, bool tc_follows, bool tc_alone)
{
    *loader->object.tc_follows = tc_follows;
    if (loader->object.tc_alone)
        *loader->object.tc_alone = tc_alone;
    tcp_set_alone(loader->tcp, tc_alone);
}

void loader_set_xdp_generic(struct loader *loader, bool generic)
{
    *loader->object.xdp_generic = generic;
}
