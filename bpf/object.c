/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/object.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/cache.skel.h"
#include "bpf/chain.skel.h"

/* What both skeletons have, under types of their own. */
#define COMMON_PARTS(skel)                                                                         \
    .skeleton = (skel)->skeleton, .made = (skel), .all = (skel)->obj,                              \
    .control = &(skel)->data_control->control, .constants = (skel)->rodata,                        \
    .nconstants = sizeof(*(skel)->rodata), .weakly_ordered = &(skel)->rodata->weakly_ordered,      \
    .tick_ns = (uint64_t *)&(skel)->rodata->tick_ns, .xdp_generic = &(skel)->bss->xdp_generic,     \
    .guard = {                                                                                     \
        .allow = &(skel)->rodata->guard_allow,                                                     \
        .nodes_mask = &(skel)->rodata->guard_nodes_mask,                                           \
        .prefixes_mask = &(skel)->rodata->guard_prefixes_mask,                                     \
        .amplification = &(skel)->rodata->guard_amplification,                                     \
        .seeds = (uint64_t *)(skel)->rodata->guard_seeds,                                          \
        .cost = (uint64_t *)&(skel)->rodata->guard_cost,                                           \
        .depth = (uint64_t *)&(skel)->rodata->guard_depth,                                         \
    }

static int open_cache(struct object *out, const struct bpf_object_open_opts *opts)
{
    struct cache *skel = cache__open_opts(opts);

    if (!skel)
        return -errno;
    *out = (struct object){
        COMMON_PARTS(skel),
        .kind = OBJECT_CACHE,
        .xdp = skel->progs.mc_xdp,
        .tc = skel->progs.mc_tc,
        .tc_follows = &skel->bss->tc_follows,
        .tc_alone = &skel->bss->tc_alone,
    };
    return 0;
}

static int open_chain(struct object *out, const struct bpf_object_open_opts *opts)
{
    struct chain *skel = chain__open_opts(opts);

    if (!skel)
        return -errno;
    *out = (struct object){
        COMMON_PARTS(skel),
        .kind = OBJECT_CHAIN,
        .xdp = skel->progs.rx_filter,
        .tc = skel->progs.tx_filter,
        .settings = &skel->rodata->settings,
        .gate = &skel->data_all->all,
    };
    return 0;
}

int object_open(struct object *object, enum object_kind kind,
                const struct bpf_object_open_opts *opts)
{
    return kind == OBJECT_CACHE ? open_cache(object, opts) : open_chain(object, opts);
}

int object_load(struct object *object)
{
    return bpf_object__load_skeleton(object->skeleton);
}

void object_close(struct object *object)
{
    if (object->skeleton)
        bpf_object__destroy_skeleton(object->skeleton);
    free(object->made);
    *object = (struct object){0};
}

struct bpf_map *object_map(const struct object *object, const char *name)
{
    return bpf_object__find_map_by_name(object->all, name);
}

void object_set_xdp(struct object *object, uint32_t flags, bool for_links)
{
    struct bpf_program *each;

    bpf_object__for_each_program(each, object->all)
    {
        if (bpf_program__type(each) != BPF_PROG_TYPE_XDP)
            continue;
        bpf_program__set_flags(each, flags);
        if (!for_links)
            bpf_program__set_expected_attach_type(each, (enum bpf_attach_type)0);
    }
}

bool object_is_dead(int program)
{
    uint32_t map = 0, zero = 0, id;
    struct bpf_prog_info info = {.nr_map_ids = 1, .map_ids = (uintptr_t)&map};
    uint32_t ninfo = sizeof(info);
    int fd, rc;

    if (bpf_obj_get_info_by_fd(program, &info, &ninfo) || !map)
        return false;
    fd = bpf_map_get_fd_by_id(map);
    if (fd < 0)
        return false;
    rc = bpf_map_lookup_elem(fd, &zero, &id);
    close(fd);
    return rc == -ENOENT;
}
