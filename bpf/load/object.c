/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/object.h"

#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "bpf/chain/chain.skel.h"
#include "bpf/udp/udp.skel.h"

/* Copies the members that both skeletons have, in types of their own. */
#define COMMON_PARTS(skel)                                                                         \
    .skeleton = (skel)->skeleton, .made = (skel), .all = (skel)->obj,                              \
    .control = &(skel)->data_control->control, .constants = (skel)->rodata,                        \
    .nconstants = sizeof(*(skel)->rodata), .weakly_ordered = &(skel)->rodata->weakly_ordered,      \
    .tick_ns = (uint64_t *)&(skel)->rodata->tick_ns,                                               \
    .clock_ahead = (int64_t *)&(skel)->rodata->clock_ahead,                                        \
    .xdp_generic = &(skel)->bss->xdp_generic,                                                      \
    .guard_now = (struct mc_guard *)&(skel)->bss->guard_now,                                       \
    .return_path_factors = (uint64_t *)(skel)->rodata->return_path_factors,                        \
    .return_path_shift = &(skel)->rodata->return_path_shift,                                       \
    .return_path_epoch = (uint64_t *)&(skel)->bss->return_path_epoch,                              \
    .return_path_nports = &(skel)->bss->return_path_nports,                                        \
    .return_path_ports = (skel)->bss->return_path_ports,                                           \
    .return_path_seen = (skel)->bss->return_path_seen,                                             \
    .guard = {                                                                                     \
        .allow = &(skel)->rodata->guard_allow,                                                     \
        .local = &(skel)->rodata->guard_local,                                                     \
        .nodes_mask = &(skel)->rodata->guard_nodes_mask,                                           \
        .prefixes_mask = &(skel)->rodata->guard_prefixes_mask,                                     \
        .amplification = &(skel)->rodata->guard_amplification,                                     \
        .reloads = &(skel)->rodata->guard_reloads,                                                 \
        .seeds = (uint64_t *)(skel)->rodata->guard_seeds,                                          \
        .cost = (uint64_t *)&(skel)->rodata->guard_cost,                                           \
        .depth = (uint64_t *)&(skel)->rodata->guard_depth,                                         \
    }

/* Only this XDP program is loaded. */
static struct bpf_program *choose_xdp(struct udp *skel, bool both, bool rings)
{
    struct bpf_program *each[] = {skel->progs.mc_xdp, skel->progs.mc_xdp_both,
                                  skel->progs.mc_xdp_rings, skel->progs.mc_both_rings};
    size_t chosen = (size_t)both + 2 * (size_t)rings, i;

    for (i = 0; i < sizeof(each) / sizeof(each[0]); i++)
        bpf_program__set_autoload(each[i], i == chosen);
    /* A kernel may be built without AF_XDP. */
    bpf_map__set_autocreate(skel->maps.mc_ring_sockets, rings);
    return each[chosen];
}

static int open_udp(struct object *out, enum object_kind kind, bool rings,
                    const struct bpf_object_open_opts *opts)
{
    struct udp *skel = udp__open_opts(opts);
    bool both = kind == OBJECT_BOTH;

    if (!skel)
        return -errno;
    *out = (struct object){
        COMMON_PARTS(skel),
        .kind = kind,
        .has_rings = rings,
        .xdp = choose_xdp(skel, both, rings),
        .tc = {[LOADER_INGRESS] = both ? skel->progs.mc_tc_both : skel->progs.mc_tc,
               [LOADER_EGRESS] = both ? skel->progs.mc_learn_both : skel->progs.mc_learn_paths},
        .main = LOADER_INGRESS,
        .tc_follows = &skel->bss->tc_follows,
        .tc_alone = &skel->bss->tc_alone,
        .rings = skel->bss->rings,
        .ring_ports = skel->bss->ring_ports,
        .ring_nports = &skel->bss->ring_nports,
    };
    bpf_map__set_autocreate(skel->maps.mc_tcp_sieve, both);
    bpf_program__set_autoload(skel->progs.mc_tc, !both);
    bpf_program__set_autoload(skel->progs.mc_learn_paths, !both);
    bpf_program__set_autoload(skel->progs.mc_tc_both, both);
    bpf_program__set_autoload(skel->progs.mc_learn_both, both);
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
        .xdp = skel->progs.mc_rx_filter,
        .tc = {[LOADER_INGRESS] = skel->progs.mc_answer_large,
               [LOADER_EGRESS] = skel->progs.mc_tx_filter},
        .main = LOADER_EGRESS,
        .tc_follows = &skel->bss->tc_follows,
        .settings = &skel->rodata->settings,
        .gate = &skel->data_whole_table->whole_table,
    };
    return 0;
}

int object_open(struct object *object, enum object_kind kind, bool has_rings,
                const struct bpf_object_open_opts *opts)
{
    return kind == OBJECT_CHAIN ? open_chain(object, opts)
                                : open_udp(object, kind, has_rings, opts);
}

int object_start(struct object *object)
{
    struct bpf_program **each[] = {&object->xdp, &object->tc[LOADER_INGRESS],
                                   &object->tc[LOADER_EGRESS]};

    /* The programs of the chain are in its prog arrays, which libbpf fills as it loads them. */
    if (object->kind == OBJECT_CHAIN || !bpf_program__autoload(object->tc[LOADER_INGRESS]))
        return bpf_object__load_skeleton(object->skeleton);
    return parallel_start(&object->parallel, object->skeleton, each, 3);
}

int object_wait_hook(struct object *object, enum loader_hook hook)
{
    return parallel_wait(&object->parallel, &object->tc[hook]);
}

int object_finish(struct object *object, char *log, size_t nlog)
{
    return parallel_finish(&object->parallel, log, nlog);
}

void object_close(struct object *object)
{
    parallel_free(&object->parallel);
    if (object->skeleton)
        bpf_object__destroy_skeleton(object->skeleton);
    free(object->made);
    *object = (struct object){0};
}

struct bpf_map *object_map(const struct object *object, const char *name)
{
    return bpf_object__find_map_by_name(object->all, name);
}

char *object_rows(const struct bpf_map *map, int ncpus, size_t *size)
{
    uint32_t zero = 0;
    char *rows;

    *size = (bpf_map__value_size(map) + 7u) & ~(size_t)7;
    rows = malloc(*size * (size_t)ncpus);
    if (rows && bpf_map_lookup_elem(bpf_map__fd(map), &zero, rows)) {
        free(rows);
        return NULL;
    }
    return rows;
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

uint32_t object_program_id(int program)
{
    struct bpf_prog_info info = {0};
    uint32_t ninfo = sizeof(info);

    return bpf_obj_get_info_by_fd(program, &info, &ninfo) ? 0 : info.id;
}

bool object_link_lives(int link, int program, int ifindex)
{
    struct bpf_link_info info = {0};
    uint32_t ninfo = sizeof(info);

    if (bpf_obj_get_info_by_fd(link, &info, &ninfo))
        return true; /* unknown */
    return info.xdp.ifindex == (uint32_t)ifindex && info.prog_id == object_program_id(program);
}
