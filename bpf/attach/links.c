/* SPDX-License-Identifier: BSD-3-Clause */
/* links: attaches the loader's XDP programs to interfaces. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/attach/attach.h"
#include "bpf/attach/attached.h"
#include "bpf/attach/dispatcher.h"
#include "bpf/attach/prog_array.h"
#include "bpf/attach/share.h"
#include "bpf/attach/tc.h"
#include "bpf/load/object.h"

enum {
    XDP_FD = 512, /* the lowest in loader_put_xdp_above */
    TRIES = 300,  /* to attach where other servers come and go, */
    TRY_MS = 20,  /* and the time between */
    TRY_S = 6,    /* in all */
};

/* Everything is detached, or the process ends. */
static void end(struct loader *loader)
{
    struct attached *attached = loader->attached;
    size_t i;

    share_free(loader);
    if (attached->xdp_array >= 0)
        close(attached->xdp_array);
    for (i = 0; i < LOADER_HOOKS; i++) {
        if (attached->filters[i] >= 0)
            close(attached->filters[i]);
        if (attached->tc_arrays[i] >= 0)
            close(attached->tc_arrays[i]);
    }
    object_close(&attached->plain);
    free(attached);
}

struct attached *attached_of(struct loader *loader)
{
    struct attached *attached = loader->attached ? NULL : malloc(sizeof(*attached));

    if (attached) {
        *attached = (struct attached){
            .xdp_array = -1, .tc_arrays = {-1, -1}, .filters = {-1, -1}, .share_socket = -1};
        loader->attached = attached;
        loader->end_attached = end;
    }
    return loader->attached;
}

void loader_link_init(struct loader_link *link, int ifindex)
{
    *link = (struct loader_link){.ifindex = ifindex, .xdp = -1};
    link->tc[LOADER_INGRESS].link = link->tc[LOADER_EGRESS].link = -1;
}

/*
 * A packet that came in by an interface before the programs were attached may be a write that is in
 * flight. Called before the programs answer and once they see all packets.
 */
static void close_gate(struct loader *loader)
{
    loader_invalidate_all(loader, 0);
}

/* Attaches alone, or with the servers that are there. 0 or -errno. */
static int attach_or_join(struct loader *loader, struct loader_link *link, bool generic)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts,
                .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
    int fd = bpf_link_create(loader_program_fd(loader, LOADER_XDP), link->ifindex, BPF_XDP, &opts);

    if (loader->object.kind != OBJECT_CHAIN && (fd == -EBUSY || fd == -EEXIST))
        return share_join(loader, link, generic);
    if (fd < 0)
        return fd;
    link->xdp = fd;
    link->generic = generic;
    if (loader->object.kind != OBJECT_CHAIN)
        share_begin(loader, link);
    return 0;
}

int loader_attach_xdp(struct loader *loader, struct loader_link *link, bool generic)
{
    const struct timespec pause = {0, TRY_MS * 1000000};
    struct timespec begin, now;
    int rc, i;

    if (!attached_of(loader))
        return -ENOMEM;
    share_open(loader);
    close_gate(loader);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (i = 0; i < TRIES; i++) {
        rc = attach_or_join(loader, link, generic);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (rc != -EAGAIN || now.tv_sec - begin.tv_sec > TRY_S)
            break;
        nanosleep(&pause, NULL);
    }
    if (rc)
        return rc == -EAGAIN ? -EBUSY : rc;
    close_gate(loader);
    if (generic)
        *loader->object.xdp_generic = 1;
    return 0;
}

/* The plain object shares the maps of the other one, but calls its own programs. */
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
 * Loads the XDP program over the same maps, in the form that a dispatcher's member can call:
 * without an attach type and, depending on libxdp's version, with or without fragments (it handles
 * them in any case).
 */
static int load_plain(struct loader *loader, uint32_t flags)
{
    struct object *plain = &loader->attached->plain;
    int rc = object_open(plain, loader->object.kind, loader->object.has_rings, NULL);

    if (rc)
        return rc;
    memcpy(plain->constants, loader->object.constants, plain->nconstants);
    rc = share_maps(plain, &loader->object);
    if (plain->kind != OBJECT_CHAIN)
        bpf_program__set_autoload(plain->tc[plain->main], false);
    object_set_xdp(plain, flags, false);
    if (!rc)
        rc = object_start(plain);
    rc = rc ? rc : object_finish(plain, NULL, 0);
    if (rc)
        object_close(plain);
    return rc;
}

/* Puts the program into the member's array. 0 or -errno. */
static int fill_prog_array(struct loader *loader)
{
    static const uint32_t flags[] = {BPF_F_XDP_HAS_FRAGS, 0};
    int rc = -EINVAL;
    size_t i;

    if (loader->attached->plain.skeleton)
        return prog_array_set(loader->attached->xdp_array, 0,
                              bpf_program__fd(loader->attached->plain.xdp));
    for (i = 0; rc == -EINVAL && i < sizeof(flags) / sizeof(flags[0]); i++) {
        rc = load_plain(loader, flags[i]);
        if (rc)
            break;
        rc = prog_array_set(loader->attached->xdp_array, 0,
                            bpf_program__fd(loader->attached->plain.xdp));
        if (rc)
            object_close(&loader->attached->plain);
    }
    return rc;
}

int loader_join_dispatcher(struct loader *loader, struct loader_link *link, char *reason,
                           size_t nreason)
{
    struct attached *attached;
    int rc, fd;

    reason[0] = '\0';
    if (!dispatcher_is_there(link->ifindex))
        return -ENOENT;
    attached = attached_of(loader);
    if (!attached)
        return -ENOMEM;
    if (attached->xdp_array < 0)
        attached->xdp_array = prog_array_open();
    if (attached->xdp_array < 0)
        return attached->xdp_array;
    fd = dispatcher_join(link->ifindex, attached->xdp_array, &link->generic, reason, nreason);
    if (fd < 0)
        return fd;
    if (link->generic)
        *loader->object.xdp_generic = 1;
    close_gate(loader);
    rc = fill_prog_array(loader);
    close_gate(loader);
    if (rc) {
        snprintf(reason, nreason, "its member program cannot call the server's program: %s",
                 strerror(-rc));
        close(fd);
        return rc;
    }
    link->xdp = fd;
    link->shared = true;
    return 0;
}

/* A program that joins or leaves the dispatcher replaces it, and moves this member along. */
static bool xdp_lives(struct loader *loader, const struct loader_link *link)
{
    char name[16];

    if (link->shared)
        return loader_xdp_present(link->ifindex, name) != 0;
    if (link->share)
        return share_lives(loader, link);
    return object_link_lives(link->xdp, loader_program_fd(loader, LOADER_XDP), link->ifindex);
}

unsigned int loader_lost(struct loader *loader, struct loader_link *link)
{
    unsigned int lost = 0;

    if (link->xdp >= 0 && !xdp_lives(loader, link)) {
        share_end(link);
        close(link->xdp);
        link->xdp = -1;
        link->shared = false;
        lost |= LOADER_LOST_XDP;
    }
    if (tc_lost(loader, link))
        lost |= LOADER_LOST_TC;
    return lost;
}

void loader_put_xdp_above(struct loader_link *link, int fd)
{
    const int least = fd < XDP_FD ? XDP_FD : fd + 1;
    int above;

    if (link->xdp < 0 || link->xdp >= least)
        return;
    above = fcntl(link->xdp, F_DUPFD_CLOEXEC, least);
    if (above < 0)
        return;
    close(link->xdp);
    link->xdp = above;
}

void loader_detach_xdp(struct loader_link *link)
{
    share_end(link);
    if (link->xdp >= 0)
        close(link->xdp);
    link->xdp = -1;
    link->generic = link->shared = false;
}

int loader_detach(struct loader_link *link)
{
    int rc;

    loader_detach_xdp(link);
    rc = loader_detach_tc(link);
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
