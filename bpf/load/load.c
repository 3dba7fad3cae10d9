/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/load.h"

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

#include "bpf/load/guard.h"
#include "bpf/load/memory.h"
#include "bpf/load/object.h"
#include "bpf/load/refusal.h"
#include "bpf/load/tcp.h"

/* Silences libbpf: the caller reports errors by their values. */
static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level;
    (void)format;
    (void)args;
    return 0;
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
        {"mc_buckets", settings->entries},
        {"mc_medium", settings->nmedium},
        {"mc_large", settings->nlarge},
        {"mc_outstanding", settings->noutstanding},
        {"mc_connections", settings->nconnections},
        {"mc_untracked", settings->nconnections},
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

/*
 * Sets the constants of bpf/packet/return_path.bpf.h: random factors, and units of a second or two.
 */
static int return_paths_prepare(struct object *object)
{
    uint64_t factors[4], tick = loader_tick_ns();
    uint32_t shift = 0;

    if (getrandom(factors, sizeof(factors), 0) != sizeof(factors))
        return -EIO;
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++)
        object->return_path_factors[i] = factors[i] | 1;
    while (tick << shift < 1000000000)
        shift++;
    *object->return_path_shift = shift;
    return 0;
}

/* --- loading ------------------------------------------------------------------ */

/* Configures an open object and starts to load it. settings: of the chain, else NULL. */
static int prepare_and_start(struct object *object, const struct chain_settings *settings,
                             const struct loader_guard *guard)
{
    int rc = guard_prepare(object, guard);

    rc = rc ? rc : return_paths_prepare(object);
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
    const size_t nlog = refusal_log_bytes();
    char *log = calloc(1, nlog);
    LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_buf = log, .kernel_log_size = nlog);
    int rc;

    if (!loader || !log) {
        snprintf(error, nerror, "out of memory");
        free(loader);
        free(log);
        return NULL;
    }
    loader->inner.first = -1;
    libbpf_set_print(print_nothing);
    loader->ncpus = libbpf_num_possible_cpus();
    rc = object_open(&loader->object, kind, has_rings, &opts);
    if (!rc && kind != OBJECT_CHAIN)
        rc = inner_init(&loader->inner, object_map(&loader->object, "mc_heap"));
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
    const size_t nlog = refusal_log_bytes();
    char *log = calloc(1, nlog), none[1] = "";
    int rc = object_finish(&loader->object, log, nlog);

    rc = rc ? rc : inner_finish(&loader->inner);
    if (rc) {
        refusal_explain(rc, log ? log : none, error, nerror);
    } else {
        rc = tcp_finish(loader, log, nlog);
        if (rc)
            tcp_explain(rc, log ? log : none, error, nerror);
    }
    free(log);
    return rc;
}

void loader_close(struct loader *loader)
{
    if (!loader)
        return;
    if (loader->attached)
        loader->end_attached(loader);
    tcp_free(loader->tcp);
    inner_free(&loader->inner);
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

int loader_program_fd(struct loader *loader, enum loader_program program)
{
    const struct object *object = &loader->object;

    return bpf_program__fd(program == LOADER_XDP ? object->xdp : object->tc[object->main]);
}
