/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* other: somebody else's XDP program, which counts packets and passes them. For dispatcher.t. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u64));
    __uint(max_entries, 1);
} other_seen SEC(".maps");

SEC("xdp.frags")
int other_pass(struct xdp_md *ctx)
{
    __u32 zero = 0;
    __u64 *seen = bpf_map_lookup_elem(&other_seen, &zero);

    (void)ctx;
    if (seen)
        __sync_fetch_and_add(seen, 1);
    return XDP_PASS;
}

char program_license[] SEC("license") = "Dual BSD/GPL";
