/* SPDX-License-Identifier: BSD-3-Clause */
/* running: what the programs are told while they run. */
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/load/load.h"
#include "bpf/load/object.h"
#include "bpf/load/tcp.h"
#include "bpf/shared/ring.h"

void loader_invalidate_return_paths(struct loader *loader)
{
    /*
     * The epoch is added to sums that have secret factors: an old sum matches a new one only by
     * chance.
     */
    __atomic_fetch_add(loader->object.return_path_epoch, 0x9e3779b97f4a7c15, __ATOMIC_SEQ_CST);
}

int loader_know_socket(struct loader *loader, int socket)
{
    const struct bpf_map *map = object_map(&loader->object, "mc_sockets");
    uint32_t known = 1;

    /* The chain knows its server by other means (bpf/chain/sender.bpf.h). */
    return map ? bpf_map_update_elem(bpf_map__fd(map), &socket, &known, BPF_ANY) : 0;
}

void loader_set_ports(struct loader *loader, const struct mc_return_path_port *ports, size_t n)
{
    struct object *object = &loader->object;

    __atomic_store_n(object->return_path_nports, 0, __ATOMIC_SEQ_CST);
    if (n)
        memcpy(object->return_path_ports, ports, n * sizeof(*ports));
    __atomic_store_n(object->return_path_nports, n, __ATOMIC_SEQ_CST);
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

void loader_invalidate_all(struct loader *loader, uint64_t ns)
{
    const struct object *object = &loader->object;
    struct timespec now;
    __u64 when, before;

    if (object->kind != OBJECT_CHAIN)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    when = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec -
           (uint64_t)*object->clock_ahead + ns + object->settings->settle;
    before = __atomic_load_n(&object->gate->done, __ATOMIC_SEQ_CST);
    while (before < when && !__atomic_compare_exchange_n(&object->gate->done, &before, when, false,
                                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
    __atomic_fetch_add(&object->gate->word, CHAIN_VERSION, __ATOMIC_SEQ_CST);
}

uint64_t *loader_set_ring(struct loader *loader, uint32_t index, int socket)
{
    int fd = bpf_map__fd(object_map(&loader->object, "mc_ring_sockets"));

    return bpf_map_update_elem(fd, &index, &socket, BPF_ANY)
               ? NULL
               : (uint64_t *)&loader->object.rings[index].taken;
}

void loader_add_ring_port(struct loader *loader, const struct mc_ring_port *port)
{
    struct object *object = &loader->object;

    object->ring_ports[*object->ring_nports] = *port;
    __atomic_fetch_add(object->ring_nports, 1, __ATOMIC_SEQ_CST);
}

void loader_end_ring_port(struct loader *loader, int ifindex)
{
    struct object *object = &loader->object;
    uint32_t i;

    for (i = 0; object->has_rings && i < *object->ring_nports; i++)
        if (object->ring_ports[i].ifindex == (uint32_t)ifindex)
            __atomic_store_n(&object->ring_ports[i].n, 0, __ATOMIC_RELAXED);
}
