/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/loader.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/pkt_cls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/cache.skel.h"
#include "bpf/dispatcher.h"
#include "bpf/filter.skel.h"
#include "bpf/forget.h"

enum {
    ATTACH_TCX_INGRESS = 46, /* BPF_TCX_INGRESS of Linux 6.6; older headers lack it */
    FILTER_HANDLE = 0x6d63,  /* of the filter that stands in for TCX on older kernels */
    FILTER_PRIORITY = 0x6d63,
    VERIFIER_LOG = 16 << 20, /* room; touched only when a load fails */
};

struct loader {
    struct cache *skel;
    struct cache *plain;     /* the XDP program once more, for a dispatcher; NULL: not needed yet */
    int alive_xdp, alive_tc; /* program arrays of what outlives us, -1: not needed yet */
    int ncpus;
};

/* libbpf says nothing of its own accord: errors are values here. */
static int say_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level;
    (void)format;
    (void)args;
    return 0;
}

/* The verifier's last word: the line before its count of instructions. */
static const char *last_word(char *log)
{
    char *end = strstr(log, "processed "), *line;

    if (end)
        *end = '\0';
    while ((line = strrchr(log, '\n')) && !line[1])
        *line = '\0';
    return line ? line + 1 : log;
}

/* Capabilities that a load may need and this process lacks, as text. */
static void missing_capabilities(char *out, size_t nout)
{
    static const struct {
        unsigned int bit;
        const char *name;
    } needed[] = {{39, "CAP_BPF"}, {12, "CAP_NET_ADMIN"}, {38, "CAP_PERFMON"}};
    unsigned long long effective = 0;
    char line[256];
    size_t i, n = 0;
    FILE *status = fopen("/proc/self/status", "re");

    while (status && fgets(line, sizeof(line), status))
        if (sscanf(line, "CapEff: %llx", &effective) == 1)
            break;
    if (status)
        fclose(status);
    out[0] = '\0';
    for (i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (!(effective >> needed[i].bit & 1) && n < nout)
            n += (size_t)snprintf(out + n, nout - n, "%s%s", n ? ", " : "", needed[i].name);
}

/* Its root has every capability, and none that counts here. */
static bool in_user_namespace(void)
{
    FILE *map = fopen("/proc/self/uid_map", "re");
    unsigned int inside = 0, outside = 0, length = UINT32_MAX;

    if (map) {
        if (fscanf(map, "%u %u %u", &inside, &outside, &length) != 3)
            length = UINT32_MAX;
        fclose(map);
    }
    return length != UINT32_MAX;
}

static void explain_load(int rc, char *log, char *error, size_t nerror)
{
    char missing[64];

    missing_capabilities(missing, sizeof(missing));
    if (missing[0])
        snprintf(error, nerror,
                 "cannot load the kernel programs without %s: start as root, or grant them "
                 "(systemd: AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_PERFMON)",
                 missing);
    else if ((rc == -EPERM || rc == -EACCES) && in_user_namespace())
        snprintf(error, nerror,
                 "cannot load the kernel programs in a user namespace, whose capabilities do not "
                 "count for them: start it outside, or in a container that is privileged");
    else if (rc == -ENOMEM)
        snprintf(error, nerror, "no memory for the kernel's maps: the memory cgroup's limit");
    else if (rc == -EPERM || rc == -EACCES)
        snprintf(error, nerror,
                 "the kernel forbids loading BPF programs (%s): lockdown, a seccomp filter or a "
                 "container's policy; %s",
                 strerror(-rc), last_word(log));
    else
        snprintf(error, nerror,
                 "this kernel does not take the programs (%s): Linux 5.18 with "
                 "CONFIG_BPF_SYSCALL is needed; %s",
                 strerror(-rc), last_word(log));
}

static size_t guard_list_size(const struct loader_guard *guard)
{
    return MC_ALLOW_NODES_AT + (size_t)guard->nnodes * MC_ALLOW_FAN * sizeof(uint32_t) +
           (size_t)guard->nprefixes * sizeof(struct mc_allow_prefix);
}

/* What the guard needs to be before the load: constants, and the sizes of its maps. */
static int guard_prepare(struct cache *skel, const struct loader_guard *guard)
{
    uint64_t seeds[2];
    int rc = 0;

    skel->rodata->guard_allow = guard->allow;
    skel->rodata->guard_amplification = guard->amplification;
    if (guard->allow == MC_ALLOW_LIST) {
        skel->rodata->guard_nodes_mask = guard->nnodes - 1;
        skel->rodata->guard_prefixes_mask = guard->nprefixes - 1;
        rc = bpf_map__set_value_size(skel->maps.allowed, (uint32_t)guard_list_size(guard));
    }
    if (!rc && guard->rate) {
        if (getrandom(seeds, sizeof(seeds), 0) != sizeof(seeds))
            return -EIO;
        skel->rodata->guard_seeds[0] = seeds[0] | 1;
        skel->rodata->guard_seeds[1] = seeds[1] | 1;
        skel->rodata->guard_cost = 1000000000ull * MC_RATE_TICKS / guard->rate;
        skel->rodata->guard_depth = skel->rodata->guard_cost * guard->burst;
        rc = bpf_map__set_max_entries(skel->maps.rates, 1u << MC_RATE_BITS);
    }
    return rc;
}

static int guard_fill(struct cache *skel, const struct loader_guard *guard)
{
    uint32_t zero = 0;

    if (guard->allow != MC_ALLOW_LIST)
        return 0;
    return bpf_map_update_elem(bpf_map__fd(skel->maps.allowed), &zero, guard->list, BPF_ANY);
}

/* The coarse clocks move once in a tick. */
static uint64_t tick_ns(void)
{
    struct timespec tick;

    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    return (uint64_t)tick.tv_nsec;
}

struct loader *loader_open(char *error, size_t nerror)
{
    return loader_open_guarded(&(struct loader_guard){0}, error, nerror);
}

struct loader *loader_open_guarded(const struct loader_guard *guard, char *error, size_t nerror)
{
    struct loader *loader = calloc(1, sizeof(*loader));
    char *log = calloc(1, VERIFIER_LOG);
    LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_buf = log, .kernel_log_size = VERIFIER_LOG);
    int rc = -ENOMEM;

    if (!loader || !log) {
        snprintf(error, nerror, "out of memory");
        free(loader);
        free(log);
        return NULL;
    }
    loader->alive_xdp = loader->alive_tc = -1;
    libbpf_set_print(say_nothing);
    loader->ncpus = libbpf_num_possible_cpus();
    loader->skel = cache__open_opts(&opts);
    if (loader->skel) {
#ifndef __x86_64__
        loader->skel->rodata->weakly_ordered = 1;
#endif
        loader->skel->rodata->tick_ns = tick_ns();
        rc = guard_prepare(loader->skel, guard);
        bpf_program__set_flags(loader->skel->progs.mc_xdp, BPF_F_XDP_HAS_FRAGS);
        rc = rc ? rc : cache__load(loader->skel);
        rc = rc ? rc : guard_fill(loader->skel, guard);
    }
    if (!rc)
        loader_control(loader)->lease_ns = UINT64_MAX;
    if (rc || loader->ncpus < 1) {
        explain_load(rc, log, error, nerror);
        cache__destroy(loader->skel);
        free(loader);
        loader = NULL;
    }
    free(log);
    return loader;
}

void loader_close(struct loader *loader)
{
    if (!loader)
        return;
    if (loader->alive_xdp >= 0)
        close(loader->alive_xdp);
    if (loader->alive_tc >= 0)
        close(loader->alive_tc);
    cache__destroy(loader->plain);
    cache__destroy(loader->skel);
    free(loader);
}

struct mc_control *loader_control(struct loader *loader)
{
    return &loader->skel->data_control->control;
}

/* Creates an array, maps it at addr, and puts it into `outer`. */
static int map_inner(int outer, uint32_t index, void *addr, uint32_t size)
{
    LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
    int rc = 0, fd;
    void *mem;

    fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "mc_memory", sizeof(uint32_t), size, 1, &opts);
    if (fd < 0)
        return fd;
    mem = mmap(addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (mem == MAP_FAILED)
        rc = -errno;
    else
        rc = bpf_map_update_elem(outer, &index, &fd, BPF_ANY);
    close(fd);
    return rc;
}

int loader_map_segment(struct loader *loader, uint32_t index, void *addr)
{
    return map_inner(bpf_map__fd(loader->skel->maps.heap), index, addr, MC_SEGMENT_BYTES);
}

int loader_map_table(struct loader *loader, uint32_t index, void *addr)
{
    return map_inner(bpf_map__fd(loader->skel->maps.table), index, addr, MC_TABLE_BYTES);
}

static void counts_add(struct mc_counts *sum, const struct mc_counts *row)
{
    size_t i;

    for (i = 0; i < sizeof(row->count) / sizeof(row->count[0]); i++)
        sum->count[i] += row->count[i];
    for (i = 0; i < MC_CLASSES; i++)
        sum->class_hits[i] += row->class_hits[i];
}

/* The programs count each packet once, where it leaves; the rest follows from that. */
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
    int fd = bpf_map__fd(loader->skel->maps.scratch), cpu;
    size_t size = (bpf_map__value_size(loader->skel->maps.scratch) + 7u) & ~(size_t)7;
    char *rows = malloc(size * (size_t)loader->ncpus);
    uint32_t zero = 0;

    memset(out, 0, sizeof(*out));
    if (rows && !bpf_map_lookup_elem(fd, &zero, rows))
        for (cpu = 0; cpu < loader->ncpus; cpu++)
            counts_add(out, (const struct mc_counts *)(rows + size * (size_t)cpu));
    counts_derive(out);
    free(rows);
}

int loader_program_fd(struct loader *loader, enum loader_program program)
{
    return bpf_program__fd(program == LOADER_XDP ? loader->skel->progs.mc_xdp
                                                 : loader->skel->progs.mc_tc);
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

void loader_link_init(struct loader_link *link, int ifindex)
{
    *link = (struct loader_link){.ifindex = ifindex, .xdp = -1, .tc = -1};
}

int loader_attach_xdp(struct loader *loader, struct loader_link *link, bool generic)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts,
                .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
    int fd = bpf_link_create(loader_program_fd(loader, LOADER_XDP), link->ifindex, BPF_XDP, &opts);

    if (fd < 0)
        return fd;
    link->xdp = fd;
    link->generic = generic;
    if (generic)
        loader->skel->bss->xdp_generic = 1;
    return 0;
}

/* --- what outlives its process ----------------------------------------------- */

/*
 * A program array. While the kernel empties it with its last descriptor, what calls through it is
 * harmless from then on, and memory that its program would hold is free. It takes after the first
 * program that is loaded with it, so that its own comes last.
 */
static int open_alive(void)
{
    return bpf_map_create(BPF_MAP_TYPE_PROG_ARRAY, "mc_alive", sizeof(uint32_t), sizeof(uint32_t),
                          1, NULL);
}

static int set_alive(int alive, int program)
{
    uint32_t zero = 0;

    return bpf_map_update_elem(alive, &zero, &program, BPF_ANY);
}

/*
 * The XDP program over the same maps as a member of a dispatcher can call it, which knows of no
 * attach type and, by the version of libxdp, of fragments or not (it handles them in any case).
 */
static int load_plain(struct loader *loader, uint32_t flags)
{
    struct cache *plain = cache__open();
    struct bpf_map *map;
    int rc = plain ? 0 : -errno;

    if (!plain)
        return rc;
    memcpy(plain->rodata, loader->skel->rodata, sizeof(*plain->rodata));
    bpf_object__for_each_map(map, plain->obj)
    {
        const struct bpf_map *same =
            bpf_object__find_map_by_name(loader->skel->obj, bpf_map__name(map));

        if (!rc && same && bpf_map__fd(same) >= 0)
            rc = bpf_map__reuse_fd(map, bpf_map__fd(same));
    }
    bpf_program__set_autoload(plain->progs.mc_tc, false);
    bpf_program__set_flags(plain->progs.mc_xdp, flags);
    bpf_program__set_expected_attach_type(plain->progs.mc_xdp, (enum bpf_attach_type)0);
    if (!rc)
        rc = cache__load(plain);
    if (rc)
        cache__destroy(plain);
    else
        loader->plain = plain;
    return rc;
}

/* Lets the member call our program. 0 or -errno. */
static int enliven(struct loader *loader)
{
    static const uint32_t flags[] = {BPF_F_XDP_HAS_FRAGS, 0};
    int rc = -EINVAL;
    size_t i;

    if (loader->plain)
        return set_alive(loader->alive_xdp, bpf_program__fd(loader->plain->progs.mc_xdp));
    for (i = 0; rc == -EINVAL && i < sizeof(flags) / sizeof(flags[0]); i++) {
        rc = load_plain(loader, flags[i]);
        if (rc)
            break;
        rc = set_alive(loader->alive_xdp, bpf_program__fd(loader->plain->progs.mc_xdp));
        if (rc) {
            cache__destroy(loader->plain);
            loader->plain = NULL;
        }
    }
    return rc;
}

int loader_join_dispatcher(struct loader *loader, struct loader_link *link, char *reason,
                           size_t nreason)
{
    int rc, fd;

    reason[0] = '\0';
    if (!dispatcher_is_there(link->ifindex))
        return -ENOENT;
    if (loader->alive_xdp < 0)
        loader->alive_xdp = open_alive();
    if (loader->alive_xdp < 0)
        return loader->alive_xdp;
    fd = dispatcher_join(link->ifindex, loader->alive_xdp, &link->generic, reason, nreason);
    if (fd < 0)
        return fd;
    rc = enliven(loader);
    if (rc) {
        snprintf(reason, nreason, "what takes it cannot call our program: %s", strerror(-rc));
        close(fd);
        return rc;
    }
    link->xdp = fd;
    link->shared = true;
    return 0;
}

/* The program of the filter, or -errno. */
static int load_filter(struct loader *loader)
{
    struct filter *skel;
    int fd;

    if (loader->alive_tc < 0)
        loader->alive_tc = open_alive();
    if (loader->alive_tc < 0)
        return loader->alive_tc;
    skel = filter__open();
    if (!skel)
        return -errno;
    fd = bpf_map__reuse_fd(skel->maps.mc_alive, loader->alive_tc);
    if (!fd)
        fd = filter__load(skel);
    if (!fd)
        fd = set_alive(loader->alive_tc, loader_program_fd(loader, LOADER_TC));
    if (!fd)
        fd = dup(bpf_program__fd(skel->progs.mc_filter));
    filter__destroy(skel);
    return fd;
}

static uint32_t program_id(int program)
{
    struct bpf_prog_info info = {0};
    uint32_t ninfo = sizeof(info);

    return bpf_obj_get_info_by_fd(program, &info, &ninfo) ? 0 : info.id;
}

/* Only one XDP program of ours can be on an interface, so a filter of ours is a dead server's. */
static int attach_filter(struct loader *loader, struct loader_link *link)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex, .attach_point = BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY,
                .flags = BPF_TC_F_REPLACE);
    int rc = bpf_tc_hook_create(&hook), fd;

    if (rc && rc != -EEXIST)
        return rc;
    fd = load_filter(loader);
    if (fd < 0)
        return fd;
    opts.prog_fd = fd;
    rc = bpf_tc_attach(&hook, &opts);
    link->filter = !rc;
    link->id = program_id(fd);
    close(fd);
    return rc;
}

int loader_attach_tc(struct loader *loader, struct loader_link *link)
{
    int fd = bpf_link_create(loader_program_fd(loader, LOADER_TC), link->ifindex,
                             (enum bpf_attach_type)ATTACH_TCX_INGRESS, NULL);

    if (fd < 0)
        return attach_filter(loader, link);
    link->tc = fd;
    return 0;
}

/*
 * Whether a link still has our program on the interface. All kinds of links to an interface name
 * it at the same place; 0 when they were cut.
 */
static bool link_lives(struct loader *loader, enum loader_program program, int fd, int ifindex)
{
    struct bpf_link_info info = {0};
    uint32_t ninfo = sizeof(info);

    if (bpf_obj_get_info_by_fd(fd, &info, &ninfo))
        return true; /* nobody knows */
    return info.xdp.ifindex == (uint32_t)ifindex &&
           info.prog_id == program_id(loader_program_fd(loader, program));
}

static bool filter_lives(const struct loader_link *link)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex, .attach_point = BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
    int rc = bpf_tc_query(&hook, &opts);

    return rc ? rc != -ENOENT && rc != -EINVAL && rc != -ENODEV : opts.prog_id == link->id;
}

/* What comes and goes beside us in a dispatcher replaces it, and takes us along. */
static bool xdp_lives(struct loader *loader, const struct loader_link *link)
{
    char name[16];

    return link->shared ? loader_xdp_present(link->ifindex, name) != 0
                        : link_lives(loader, LOADER_XDP, link->xdp, link->ifindex);
}

unsigned int loader_lost(struct loader *loader, struct loader_link *link)
{
    unsigned int lost = 0;

    if (link->xdp >= 0 && !xdp_lives(loader, link)) {
        close(link->xdp);
        link->xdp = -1;
        link->shared = false;
        lost |= LOADER_LOST_XDP;
    }
    if (link->tc >= 0 && !link_lives(loader, LOADER_TC, link->tc, link->ifindex)) {
        close(link->tc);
        link->tc = -1;
        lost |= LOADER_LOST_TC;
    }
    if (link->filter && !filter_lives(link)) {
        link->filter = false;
        lost |= LOADER_LOST_TC;
    }
    return lost;
}

void loader_detach_xdp(struct loader_link *link)
{
    if (link->xdp >= 0)
        close(link->xdp);
    link->xdp = -1;
    link->generic = link->shared = false;
}

int loader_detach(struct loader_link *link)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex, .attach_point = BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
    int rc = 0;

    loader_detach_xdp(link);
    if (link->tc >= 0)
        close(link->tc);
    if (link->filter)
        rc = bpf_tc_detach(&hook, &opts);
    loader_link_init(link, link->ifindex);
    return rc;
}

void loader_forget(struct loader *loader)
{
    int heap = bpf_map__fd(loader->skel->maps.heap), table = bpf_map__fd(loader->skel->maps.table);

    forget_maps(heap, 0, MC_MAX_SEGMENTS);
    forget_maps(table, 0, MC_OVERFLOW_TABLE);
    forget_maps(table, MC_OVERFLOW_TABLE, MC_MAX_TABLES);
}

uint32_t loader_xdp_present(int ifindex, char name[16])
{
    LIBBPF_OPTS(bpf_xdp_query_opts, query);
    struct bpf_prog_info info = {0};
    uint32_t ninfo = sizeof(info);
    int fd;

    name[0] = '\0';
    if (bpf_xdp_query(ifindex, 0, &query))
        return 0;
    fd = query.prog_id ? bpf_prog_get_fd_by_id(query.prog_id) : -1;
    if (fd >= 0) {
        if (!bpf_obj_get_info_by_fd(fd, &info, &ninfo))
            snprintf(name, 16, "%s", info.name);
        close(fd);
    }
    return query.prog_id;
}

void loader_set_tc(struct loader *loader, bool tc_follows, bool tc_alone)
{
    loader->skel->bss->tc_follows = tc_follows;
    loader->skel->bss->tc_alone = tc_alone;
}
