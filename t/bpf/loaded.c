/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/bpf/loaded.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/load/object.h"
#include "bpf/load/tcp.h"

#include "bpf/tcp/tcp.skel.h"

struct loader *loader_open(char *error, size_t nerror)
{
    struct loader *loader = loader_open_guarded(&(struct loader_guard){0}, 0, error, nerror);

    if (loader && loader_wait(loader, error, nerror)) {
        loader_close(loader);
        return NULL;
    }
    return loader;
}

int loader_program_named(struct loader *loader, const char *name)
{
    const struct object *object = &loader->object;
    const struct bpf_program *program = bpf_object__find_program_by_name(object->all, name);
    const struct bpf_program *each[] = {object->xdp, object->tc[LOADER_INGRESS],
                                        object->tc[LOADER_EGRESS]};

    /* Of these the object has one of the same name, which is not loaded. */
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
        if (each[i] && strcmp(bpf_program__name(each[i]), name) == 0)
            program = each[i];
    return program ? bpf_program__fd(program) : -ENOENT;
}

int loader_run(struct loader *loader, enum loader_program program, struct loader_packet *packet)
{
    struct xdp_md context = {.data_end = (uint32_t)packet->nin,
                             .ingress_ifindex = (uint32_t)packet->ifindex};
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = packet->in,
                .data_size_in = (uint32_t)packet->nin, .data_out = packet->out,
                .data_size_out = (uint32_t)packet->nout,
                .repeat = packet->repeat ? (int)packet->repeat : 1);
    int rc;

    if (program == LOADER_XDP) {
        opts.ctx_in = opts.ctx_out = &context;
        opts.ctx_size_in = opts.ctx_size_out = sizeof(context);
    }
    rc = bpf_prog_test_run_opts(loader_program_fd(loader, program), &opts);
    packet->nout = opts.data_size_out;
    packet->verdict = opts.retval;
    packet->ns = opts.duration;
    packet->nmark = context.data;
    return rc;
}

int loader_tcp_map(struct loader *loader, const char *name)
{
    return bpf_object__find_map_fd_by_name(loader->tcp->skel->obj, name);
}

uint32_t loader_tcp_mark(struct loader *loader)
{
    return loader->tcp->skel->rodata->tcp_mark;
}

uint16_t loader_tcp_translation_mark(struct loader *loader, bool second)
{
    return loader->tcp->skel->rodata->translation_marks[second];
}

uint64_t loader_tcp_key(const struct loader *loader, const struct mc_tcp_flow *flow)
{
    return mc_tcp_key(flow, loader->tcp->skel->rodata->tcp_seeds);
}

void loader_tcp_sieve(struct loader *loader, const struct mc_tcp_flow *flow, int n)
{
    const int sieve = loader_tcp_map(loader, "mc_tcp_sieve");
    uint32_t at = mc_tcp_sieve_at(flow->client[1] >> 32, flow->client_port);
    uint64_t count;

    if (bpf_map_lookup_elem(sieve, &at, &count))
        return;
    count += (uint64_t)n;
    bpf_map_update_elem(sieve, &at, &count, BPF_ANY);
    __atomic_fetch_add(&loader_control(loader)->tcp_followed, (uint32_t)n, __ATOMIC_RELAXED);
}

uint32_t loader_tcp_place(const struct loader *loader, const struct mc_tcp_flow *flow,
                          uint32_t slot, uint32_t try)
{
    return mc_tcp_rtx_place(flow, loader->tcp->skel->rodata->tcp_seeds, slot, try);
}

void loader_tcp_unguard(struct loader *loader)
{
    bpf_link_detach(loader->tcp->guard);
}

void loader_tcp_set_unstamped(struct loader *loader, bool answered)
{
    loader->tcp->skel->bss->takes_unstamped = answered;
}
