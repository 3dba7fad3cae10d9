/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/attach/tc.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/attach/attached.h"
#include "bpf/attach/filter.skel.h"
#include "bpf/attach/filters.h"
#include "bpf/attach/order.h"
#include "bpf/attach/prog_array.h"
#include "bpf/attach/share.h"
#include "bpf/load/object.h"

enum {
    FILTER_HANDLE = 0x6d63, /* of the filters that stand in for TCX on older kernels */
    FILTER_TRIES = 50,      /* checks whether its process has ended, 10 ms apart */
};

static const enum bpf_tc_attach_point points[LOADER_HOOKS] = {
    [LOADER_INGRESS] = BPF_TC_INGRESS,
    [LOADER_EGRESS] = BPF_TC_EGRESS,
};

static int program_of(const struct loader *loader, enum loader_hook hook)
{
    return bpf_program__fd(loader->object.tc[hook]);
}

/* The program of a filter, or -errno. */
static int load_filter(struct loader *loader, enum loader_hook at)
{
    int *prog_array = &loader->attached->tc_arrays[at], fd;
    struct filter *skel;

    if (*prog_array < 0)
        *prog_array = prog_array_open();
    if (*prog_array < 0)
        return *prog_array;
    skel = filter__open();
    if (!skel)
        return -errno;
    fd = bpf_map__reuse_fd(skel->maps.mc_prog_array, *prog_array);
    if (!fd)
        fd = filter__load(skel);
    if (!fd)
        fd = prog_array_set(*prog_array, 0, program_of(loader, at));
    if (!fd)
        fd = dup(bpf_program__fd(skel->progs.mc_filter));
    filter__destroy(skel);
    return fd;
}

/*
 * Loads the filters of all hooks at once: when an interface comes back, the process may no longer
 * have the privilege to load programs. While the programs are loaded by threads those that are not
 * ready are left to the next call. 0 or -errno.
 */
static int load_filters(struct loader *loader)
{
    enum loader_hook at;

    for (at = 0; at < LOADER_HOOKS; at++) {
        if (!loader->object.tc[at] || loader->attached->filters[at] >= 0 ||
            program_of(loader, at) < 0)
            continue;
        loader->attached->filters[at] = load_filter(loader, at);
        if (loader->attached->filters[at] < 0)
            return loader->attached->filters[at];
    }
    return 0;
}

/*
 * Whether a filter with our handle belongs to another server that still runs: with a dispatcher
 * there may be two servers on an interface. The kernel empties the program array of a server a
 * moment after its end.
 */
static bool filter_is_taken(const struct filter_row *row)
{
    const struct timespec pause = {0, 10 * 1000 * 1000};
    int i, fd = bpf_prog_get_fd_by_id(row->program);
    bool taken = true;

    if (fd < 0)
        return false;
    for (i = 0; i < FILTER_TRIES && (taken = !prog_array_is_empty(fd)); i++)
        nanosleep(&pause, NULL);
    close(fd);
    return taken;
}

/*
 * Finds the priority of a new filter, and removes those of processes that have ended. 0, or -EBUSY:
 * a server that runs has the handle.
 */
static int make_room(const struct bpf_tc_hook *hook, uint32_t handle, uint32_t *priority)
{
    const bool egress = hook->attach_point == BPF_TC_EGRESS;
    struct filter_row rows[FILTERS_MOST];
    size_t n = filters_read(hook->ifindex, egress, rows), i;

    for (i = 0; i < n; i++) {
        LIBBPF_OPTS(bpf_tc_opts, opts, .handle = handle, .priority = rows[i].priority);

        if (rows[i].handle != handle || strcmp(rows[i].name, "mc_filter") != 0)
            continue;
        if (filter_is_taken(&rows[i]))
            return -EBUSY;
        bpf_tc_detach(hook, &opts);
    }
    *priority = filters_place(rows, filters_read(hook->ifindex, egress, rows));
    return 0;
}

static int attach_filter(struct loader *loader, struct loader_link *link, enum loader_hook at)
{
    struct loader_tc *tc = &link->tc[at];
    const struct attached *attached = attached_of(loader);
    const uint32_t handle = FILTER_HANDLE + (attached ? attached->share_number : 0);
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex, .attach_point = points[at]);
    LIBBPF_OPTS(bpf_tc_opts, opts, .handle = handle);
    int rc = attached ? bpf_tc_hook_create(&hook) : -ENOMEM;

    if (rc && rc != -EEXIST)
        return rc;
    rc = make_room(&hook, handle, &opts.priority);
    rc = rc ? rc : load_filters(loader);
    if (rc)
        return rc;
    tc->priority = opts.priority;
    opts.prog_fd = attached->filters[at];
    rc = bpf_tc_attach(&hook, &opts);
    tc->filter = !rc;
    tc->handle = handle;
    tc->id = object_program_id(attached->filters[at]);
    return rc;
}

static void look_before(struct loader *loader, struct loader_link *link, enum loader_hook at)
{
    const uint32_t *seen =
        &loader->object.return_path_seen[(uint32_t)link->ifindex % MC_RETURN_PATH_SEEN];

    order_look(loader, program_of(loader, at), link->ifindex, at,
               at == LOADER_EGRESS ? __atomic_load_n(seen, __ATOMIC_RELAXED) : 0, &link->tc[at]);
}

int loader_attach_hook(struct loader *loader, struct loader_link *link, enum loader_hook at)
{
    int fd, rc = 0;

    if (!loader->object.tc[at] || loader_has_tc(link, at))
        return 0;
    link->tc[at] = (struct loader_tc){.link = -1};
    share_show(loader, at);
    fd = order_attach(loader, program_of(loader, at), link->ifindex, at);
    if (fd < 0)
        rc = attach_filter(loader, link, at);
    else
        link->tc[at].link = fd;
    if (!rc)
        look_before(loader, link, at);
    return rc;
}

void loader_look_before(struct loader *loader, struct loader_link *link)
{
    enum loader_hook at;

    for (at = 0; at < LOADER_HOOKS; at++)
        if (loader_has_tc(link, at))
            look_before(loader, link, at);
}

int loader_attach_tc(struct loader *loader, struct loader_link *link)
{
    enum loader_hook at;
    int rc = 0, result = 0;

    share_open(loader);
    link->main = loader->object.main;
    for (at = 0; at < LOADER_HOOKS; at++) {
        rc = loader_attach_hook(loader, link, at);
        if (rc && (at == link->main || at == LOADER_EGRESS))
            result = rc;
    }
    return result;
}

bool loader_has_tc(const struct loader_link *link, enum loader_hook at)
{
    return link->tc[at].link >= 0 || link->tc[at].filter;
}

int loader_highest_tc(const struct loader *loader, const struct loader_link *link)
{
    enum loader_hook at;
    int highest = -1, fd;

    for (at = 0; at < LOADER_HOOKS; at++) {
        fd = link->tc[at].filter ? loader->attached->tc_arrays[at] : link->tc[at].link;
        highest = fd > highest ? fd : highest;
    }
    return highest;
}

static bool filter_lives(const struct loader_link *link, enum loader_hook at)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex, .attach_point = points[at]);
    LIBBPF_OPTS(bpf_tc_opts, opts, .handle = link->tc[at].handle,
                .priority = link->tc[at].priority);
    int rc = bpf_tc_query(&hook, &opts);

    return rc ? rc != -ENOENT && rc != -EINVAL && rc != -ENODEV : opts.prog_id == link->tc[at].id;
}

bool tc_lost(struct loader *loader, struct loader_link *link)
{
    enum loader_hook at;
    bool lost = false;

    for (at = 0; at < LOADER_HOOKS; at++) {
        struct loader_tc *tc = &link->tc[at];

        if (tc->link >= 0 && !object_link_lives(tc->link, program_of(loader, at), link->ifindex)) {
            close(tc->link);
            tc->link = -1;
            lost = true;
        }
        if (tc->filter && !filter_lives(link, at)) {
            tc->filter = false;
            lost = true;
        }
    }
    return lost;
}

int loader_detach_hook(struct loader_link *link, enum loader_hook at)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex, .attach_point = points[at]);
    LIBBPF_OPTS(bpf_tc_opts, opts, .handle = link->tc[at].handle,
                .priority = link->tc[at].priority);
    int rc = 0;

    if (link->tc[at].link >= 0)
        close(link->tc[at].link);
    if (link->tc[at].filter)
        rc = bpf_tc_detach(&hook, &opts);
    link->tc[at] = (struct loader_tc){.link = -1};
    return rc;
}

int loader_detach_tc(struct loader_link *link)
{
    int first = loader_detach_hook(link, LOADER_INGRESS);
    int second = loader_detach_hook(link, LOADER_EGRESS);

    return first ? first : second;
}
