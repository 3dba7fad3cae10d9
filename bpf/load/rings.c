/* SPDX-License-Identifier: BSD-3-Clause */
/* rings: gives the loader's XDP program the AF_XDP sockets of an interface. */
#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/load/loader.h"
#include "bpf/load/object.h"
#include "bpf/shared/ring.h"

uint64_t *loader_set_ring(struct loader *loader, uint32_t index, int socket)
{
    int fd = bpf_map__fd(object_map(&loader->object, "ring_sockets"));

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
