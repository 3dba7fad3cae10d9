/* SPDX-License-Identifier: BSD-3-Clause */
/* links: the loader's programs on interfaces. */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/pkt_cls.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/dispatcher.h"
#include "bpf/filter.skel.h"
#include "bpf/loader.h"
#include "bpf/object.h"

enum {
    ATTACH_TCX_INGRESS = 46, /* BPF_TCX_INGRESS of Linux 6.6; older headers lack it */
    ATTACH_TCX_EGRESS = 47,
    FILTER_HANDLE = 0x6d63, /* of the filter that stands in for TCX on older kernels */
    FILTER_PRIORITY = 0x6d63,
    FILTER_TRIES = 50, /* looks whether its process is gone, 10 ms apart */
};

void loader_link_init(struct loader_link *link, int ifindex)
{
    *link = (struct loader_link){.ifindex = ifindex, .xdp = -1, .tc = -1};
}

void loader_distrust(struct loader *loader, uint64_t ns)
{
    const struct object *object = &loader->object;
    struct timespec now;
    uint64_t when, before;

    if (object->kind != OBJECT_CHAIN)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    when =
        (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + ns + object->settings->settle;
    before = __atomic_load_n(&object->gate->done, __ATOMIC_SEQ_CST);
    while (before < when && !__atomic_compare_exchange_n(&object->gate->done, &before, when, false,
                                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
    __atomic_fetch_add(&object->gate->word, CHAIN_VERSION, __ATOMIC_SEQ_CST);
}

/*
 * What came in by an interface before we saw it may be a write that is in flight. Called before
 * the programs answer and when they see everything.
 */
static void close_gate(struct loader *loader)
{
    loader_distrust(loader, 0);
}

int loader_attach_xdp(struct loader *loader, struct loader_link *link, bool generic)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts,
                .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
    int fd;

    close_gate(loader);
    fd = bpf_link_create(loader_program_fd(loader, LOADER_XDP), link->ifindex, BPF_XDP, &opts);
    if (fd < 0)
        return fd;
    close_gate(loader);
    link->xdp = fd;
    link->generic = generic;
    if (generic)
        *loader->object.xdp_generic = 1;
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

/* The plain object gets the memory of the other one, but calls its own programs. */
static int share_maps(const struct object *plain, const struct object *object)
{
    struct bpf_map *map;
    int rc = 0;

    bpf_object__for_each_map(map, plain->all)
    {
        const struct bpf_map *same = object_map(object, bpf_map__name(map));

        if (!rc && same && bpf_map__fd(same) >= 0 && bpf_map__type(map) != BPF_MAP_TYPE_PROG_ARRAY)
            rc = bpf_map__reuse_fd(map, bpf_map__fd(same));
    }
    return rc;
}

/*
 * The XDP program over the same maps as a member of a dispatcher can call it, which knows of no
 * attach type and, by the version of libxdp, of fragments or not (it handles them in any case).
 */
static int load_plain(struct loader *loader, uint32_t flags)
{
    struct object *plain = &loader->plain;
    int rc = object_open(plain, loader->object.kind, NULL);

    if (rc)
        return rc;
    memcpy(plain->constants, loader->object.constants, plain->nconstants);
    rc = share_maps(plain, &loader->object);
    if (plain->kind == OBJECT_CACHE)
        bpf_program__set_autoload(plain->tc, false);
    object_set_xdp(plain, flags, false);
    if (!rc)
        rc = object_load(plain);
    if (rc)
        object_close(plain);
    return rc;
}

/* Lets the member call our program. 0 or -errno. */
static int enliven(struct loader *loader)
{
    static const uint32_t flags[] = {BPF_F_XDP_HAS_FRAGS, 0};
    int rc = -EINVAL;
    size_t i;

    if (loader->plain.skeleton)
        return set_alive(loader->alive_xdp, bpf_program__fd(loader->plain.xdp));
    for (i = 0; rc == -EINVAL && i < sizeof(flags) / sizeof(flags[0]); i++) {
        rc = load_plain(loader, flags[i]);
        if (rc)
            break;
        rc = set_alive(loader->alive_xdp, bpf_program__fd(loader->plain.xdp));
        if (rc)
            object_close(&loader->plain);
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
    close_gate(loader);
    rc = enliven(loader);
    close_gate(loader);
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

static enum bpf_tc_attach_point hook_of(const struct loader_link *link)
{
    return link->egress ? BPF_TC_EGRESS : BPF_TC_INGRESS;
}

/*
 * Whether the filter in our place is one of ours whose process lives: with a dispatcher there may
 * be two on an interface. The kernel empties the program array of a dead one a moment after its
 * end.
 */
static bool filter_is_taken(const struct bpf_tc_hook *hook)
{
    LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
    const struct timespec pause = {0, 10 * 1000 * 1000};
    bool taken = true;
    int i, fd;

    if (bpf_tc_query(hook, &opts))
        return false;
    fd = bpf_prog_get_fd_by_id(opts.prog_id);
    if (fd < 0)
        return false;
    for (i = 0; i < FILTER_TRIES && (taken = !object_is_dead(fd)); i++)
        nanosleep(&pause, NULL);
    close(fd);
    return taken;
}

/* A filter of a dead process is replaced. */
static int attach_filter(struct loader *loader, struct loader_link *link)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex, .attach_point = hook_of(link));
    LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY,
                .flags = BPF_TC_F_REPLACE);
    int rc = bpf_tc_hook_create(&hook), fd;

    if (rc && rc != -EEXIST)
        return rc;
    if (filter_is_taken(&hook))
        return -EBUSY;
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
    int type, fd;

    link->egress = loader->object.kind == OBJECT_CHAIN;
    type = link->egress ? ATTACH_TCX_EGRESS : ATTACH_TCX_INGRESS;
    fd = bpf_link_create(loader_program_fd(loader, LOADER_TC), link->ifindex,
                         (enum bpf_attach_type)type, NULL);
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
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex, .attach_point = hook_of(link));
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
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex, .attach_point = hook_of(link));
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
