/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * member: what stands for mc_xdp in libxdp's dispatcher, where an attachment outlives its
 * process. The kernel empties a program array when its last descriptor is closed, whatever closed
 * it; so from the server's end on this passes everything and holds none of its memory.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u32));
    __uint(max_entries, 1);
} mc_alive SEC(".maps");

SEC("xdp")
int mc_member(struct xdp_md *ctx)
{
    bpf_tail_call(ctx, &mc_alive, 0);
    return XDP_PASS;
}

char program_license[] SEC("license") = "Dual BSD/GPL";
