/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * member: the member of libxdp's dispatcher, which outlives its process: calls mc_xdp while that
 * lives.
 */
#include "bpf/attach/prog_array.bpf.h"

SEC("xdp")
int mc_member(struct xdp_md *ctx)
{
    bpf_tail_call(ctx, &mc_prog_array, 0);
    return XDP_PASS;
}

char program_license[] SEC("license") = "Dual BSD/GPL";
