/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/trace/tracer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/load/refusal.h"
#include "bpf/trace/find.h"
#include "bpf/trace/trace.skel.h"

enum { LOG_BYTES = 1 << 16, KERNEL_ENOTSUPP = 524 };

/* A program that is traced. */
struct target {
    struct found found;
    struct trace *skel;
};

struct tracer {
    struct trace_end filter;
    tracer_report *report;
    void *context;
    struct ring_buffer *ring; /* that of the first target; NULL: there is none yet */
    int events;               /* a descriptor of its map */
    uint64_t lost;            /* of targets that have ended */
    struct target targets[FIND_MAX];
    size_t ntargets;
    char log[LOG_BYTES]; /* the verifier's, of the last load */
};

static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level;
    (void)format;
    (void)args;
    return 0;
}

struct tracer *tracer_open(const struct trace_end *filter, tracer_report *report, void *context)
{
    struct tracer *tracer = calloc(1, sizeof(*tracer));

    if (!tracer)
        return NULL;
    libbpf_set_print(print_nothing);
    tracer->filter = *filter;
    tracer->report = report;
    tracer->context = context;
    tracer->events = -1;
    return tracer;
}

/* --- events ------------------------------------------------------------------- */

static int take_event(void *context, void *data, size_t size)
{
    const struct tracer *tracer = context;
    const struct trace_event *event = data;
    const char *name = "";
    size_t i;

    for (i = 0; i < tracer->ntargets; i++)
        if (tracer->targets[i].found.id == event->program)
            name = tracer->targets[i].found.name;
    if (size >= sizeof(*event))
        tracer->report(tracer->context, event, name);
    return 0;
}

/* Opens the ring of the first target, which the others get. 0 or -errno. */
static int open_ring(struct tracer *tracer, const struct trace *skel)
{
    if (tracer->ring)
        return 0;
    tracer->events = dup(bpf_map__fd(skel->maps.events));
    if (tracer->events < 0)
        return -errno;
    tracer->ring = ring_buffer__new(tracer->events, take_event, tracer, NULL);
    return tracer->ring ? 0 : -errno;
}

int tracer_descriptor(const struct tracer *tracer)
{
    return tracer->ring ? ring_buffer__epoll_fd(tracer->ring) : -1;
}

void tracer_read(struct tracer *tracer)
{
    ring_buffer__consume(tracer->ring);
}

/* What a target has lost: a trace program does not run while it is running on the same CPU. */
static uint64_t target_lost(const struct target *target)
{
    struct bpf_prog_info info = {0};
    uint64_t lost = target->skel->bss->lost;
    uint32_t ninfo = sizeof(info);
    struct bpf_program *each;

    bpf_object__for_each_program(each, target->skel->obj)
    {
        if (bpf_program__fd(each) >= 0 &&
            bpf_obj_get_info_by_fd(bpf_program__fd(each), &info, &ninfo) == 0)
            lost += info.recursion_misses;
    }
    return lost;
}

uint64_t tracer_lost(const struct tracer *tracer)
{
    uint64_t lost = tracer->lost;
    size_t i;

    for (i = 0; i < tracer->ntargets; i++)
        lost += target_lost(&tracer->targets[i]);
    return lost;
}

/* --- targets ------------------------------------------------------------------ */

/* Of maps without one of these counters. */
static int create_form(void)
{
    return bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "trace_form", sizeof(uint32_t),
                          TRACE_COUNTS * sizeof(uint64_t), 1, NULL);
}

/* Before the load: gives an array of maps the form of the maps that it will have. 0 or -errno. */
static int set_form(struct bpf_map *array, const int *counters, size_t n)
{
    int form = n ? dup(counters[0]) : create_form(), rc;

    if (form < 0)
        return -errno;
    rc = bpf_map__set_inner_map_fd(array, form); /* which takes it over */
    if (rc)
        close(form);
    return rc;
}

static int put_counters(const struct bpf_map *array, const int *counters, size_t n)
{
    uint32_t i;
    int rc = 0;

    for (i = 0; !rc && i < n; i++)
        rc = bpf_map_update_elem(bpf_map__fd(array), &i, &counters[i], BPF_ANY);
    return rc;
}

static void list_arrays(const struct trace *skel, struct bpf_map *out[TRACE_KINDS])
{
    out[TRACE_MAIN] = skel->maps.main_counters;
    out[TRACE_TCP] = skel->maps.tcp_counters;
    out[TRACE_CHAIN] = skel->maps.chain_counters;
}

/* Sets what trace.bpf.c needs to know before the load. 0 or -errno. */
static int prepare(const struct tracer *tracer, const struct target *target)
{
    const struct found *found = &target->found;
    struct trace *skel = target->skel;
    struct bpf_program *enter = found->is_tc ? skel->progs.tc_enter : skel->progs.xdp_enter;
    struct bpf_program *leave = found->is_tc ? skel->progs.tc_leave : skel->progs.xdp_leave;
    struct bpf_map *arrays[TRACE_KINDS];
    struct bpf_program *each;
    int rc, i;

    list_arrays(skel, arrays);
    skel->rodata->program = found->id;
    skel->rodata->filter = tracer->filter;
    bpf_object__for_each_program(each, skel->obj)
        bpf_program__set_autoload(each, each == enter || each == leave);
    rc = bpf_program__set_attach_target(enter, found->program, found->name);
    if (!rc)
        rc = bpf_program__set_attach_target(leave, found->program, found->name);
    for (i = 0; !rc && i < TRACE_KINDS; i++)
        rc = set_form(arrays[i], found->counters[i], found->ncounters[i]);
    if (!rc && tracer->ring)
        rc = bpf_map__reuse_fd(skel->maps.events, tracer->events);
    return rc;
}

/* Loads and attaches. 0 or -errno. */
static int start(struct tracer *tracer, struct target *target)
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_buf = tracer->log,
                .kernel_log_size = sizeof(tracer->log));
    const struct found *found = &target->found;
    struct bpf_map *arrays[TRACE_KINDS];
    struct trace *skel;
    int rc, i;

    tracer->log[0] = '\0';
    skel = target->skel = trace__open_opts(&opts);
    if (!skel)
        return -errno;
    rc = prepare(tracer, target);
    rc = rc ? rc : trace__load(skel);
    list_arrays(skel, arrays);
    for (i = 0; !rc && i < TRACE_KINDS; i++)
        rc = put_counters(arrays[i], found->counters[i], found->ncounters[i]);
    rc = rc ? rc : open_ring(tracer, skel);
    return rc ? rc : trace__attach(skel);
}

static void stop(struct target *target)
{
    trace__destroy(target->skel);
    find_close(&target->found);
}

static void stop_at(struct tracer *tracer, size_t at)
{
    tracer->lost += target_lost(&tracer->targets[at]);
    stop(&tracer->targets[at]);
    tracer->targets[at] = tracer->targets[--tracer->ntargets];
}

static bool has(const struct found *found, size_t n, uint32_t id)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (found[i].id == id)
            return true;
    return false;
}

static bool is_target(const struct tracer *tracer, uint32_t id)
{
    size_t i;

    for (i = 0; i < tracer->ntargets; i++)
        if (tracer->targets[i].found.id == id)
            return true;
    return false;
}

static void explain(struct tracer *tracer, int rc, const char *name, char *error, size_t nerror)
{
    if (rc == -KERNEL_ENOTSUPP)
        snprintf(error, nerror,
                 "this kernel has no BPF trampolines, by which programs are traced: x86-64 has "
                 "them, and arm64 from Linux 6.0 on");
    else if (access("/sys/kernel/btf/vmlinux", R_OK))
        snprintf(error, nerror,
                 "this kernel has no BTF, by which programs are traced: it needs "
                 "CONFIG_DEBUG_INFO_BTF");
    else if (rc == -EPERM)
        snprintf(error, nerror,
                 "this kernel, or the limits of this process, forbid programs that trace: it needs "
                 "CAP_BPF and CAP_PERFMON, and a kernel that permits BPF_PROG_TYPE_TRACING");
    else
        snprintf(error, nerror, "cannot trace %s: %s%s%s", name, strerror(-rc),
                 tracer->log[0] ? ": " : "", refusal_last_line(tracer->log));
}

/* Traces what was found, which it takes over. 0, or -errno with `error`. */
static int take(struct tracer *tracer, struct found *found, char *error, size_t nerror)
{
    struct target *target = &tracer->targets[tracer->ntargets];
    int rc;

    *target = (struct target){.found = *found};
    rc = start(tracer, target);
    if (!rc) {
        tracer->ntargets++;
        return 0;
    }
    explain(tracer, rc, found->name, error, nerror);
    stop(target);
    return rc;
}

int tracer_follow(struct tracer *tracer, char *error, size_t nerror)
{
    struct found found[FIND_MAX];
    int n = find_all(found), i, rc = 0;
    size_t at;

    if (n < 0) {
        snprintf(error, nerror, "%s%s", strerror(-n),
                 n == -EPERM ? ": it needs CAP_SYS_ADMIN, CAP_BPF and CAP_PERFMON, and none of "
                               "them in a user namespace: run it as root"
                             : "");
        return n;
    }
    for (at = tracer->ntargets; at-- > 0;)
        if (!has(found, (size_t)n, tracer->targets[at].found.id))
            stop_at(tracer, at);
    for (i = 0; i < n; i++)
        if (!rc && tracer->ntargets < FIND_MAX && !is_target(tracer, found[i].id))
            rc = take(tracer, &found[i], error, nerror);
        else
            find_close(&found[i]);
    for (at = 0; at < tracer->ntargets; at++)
        find_ports(&tracer->targets[at].found, tracer->targets[at].skel->bss->ports);
    return rc ? rc : (int)tracer->ntargets;
}

void tracer_close(struct tracer *tracer)
{
    while (tracer->ntargets > 0)
        stop_at(tracer, tracer->ntargets - 1);
    ring_buffer__free(tracer->ring);
    if (tracer->events >= 0)
        close(tracer->events);
    free(tracer);
}
