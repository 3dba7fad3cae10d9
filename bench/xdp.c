/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/xdp.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bench/options.h"

enum { MAX_MAPS = 64 };

unsigned int xdp_ifindex(const char *interface)
{
    unsigned int ifindex = if_nametoindex(interface);

    if (!ifindex)
        fail("no interface %s here", interface);
    return ifindex;
}

int xdp_program(const char *interface)
{
    LIBBPF_OPTS(bpf_xdp_query_opts, query);
    __u32 id;
    int fd;

    if (bpf_xdp_query((int)xdp_ifindex(interface), 0, &query))
        fail("%s: cannot ask for its XDP program: %s", interface, strerror(errno));
    id = query.prog_id ? query.prog_id : query.drv_prog_id ? query.drv_prog_id : query.skb_prog_id;
    if (!id)
        fail("%s has no XDP program", interface);
    fd = bpf_prog_get_fd_by_id(id);
    if (fd < 0)
        fail("%s: cannot open its XDP program: %s", interface, strerror(errno));
    return fd;
}

int xdp_map(int program, const char *name)
{
    __u32 ids[MAX_MAPS];
    struct bpf_prog_info info = {.nr_map_ids = MAX_MAPS, .map_ids = (__u64)(uintptr_t)ids};
    __u32 ninfo = sizeof(info);

    if (bpf_obj_get_info_by_fd(program, &info, &ninfo))
        fail("cannot ask for the program's maps: %s", strerror(errno));
    for (__u32 i = 0; i < info.nr_map_ids && i < MAX_MAPS; i++) {
        struct bpf_map_info map = {0};
        __u32 nmap = sizeof(map);
        int fd = bpf_map_get_fd_by_id(ids[i]);

        if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &map, &nmap) && !strcmp(map.name, name))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    fail("the program has no map %s", name);
}

int xdp_run(int program, unsigned int ifindex, const void *packet, uint32_t npacket, void *out,
            uint32_t *nout, uint32_t *ns)
{
    struct xdp_md ctx = {.data_end = npacket, .ingress_ifindex = ifindex};
    LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = packet, .data_size_in = npacket, .data_out = out,
                .data_size_out = *nout, .ctx_in = &ctx, .ctx_size_in = sizeof(ctx), .repeat = 1);

    if (bpf_prog_test_run_opts(program, &run))
        return -errno;
    *nout = run.data_size_out;
    *ns = run.duration;
    return (int)run.retval;
}
