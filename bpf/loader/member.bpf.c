/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* member: what stands for mc_xdp in libxdp's dispatcher, where an attachment outlives its process.
 */
#include "bpf/loader/alive.bpf.h"

SEC("xdp")
int mc_member(struct xdp_md *ctx)
{
    bpf_tail_call(ctx, &mc_alive, 0);
    return XDP_PASS;
}

char program_license[] SEC("license") = "Dual BSD/GPL";
