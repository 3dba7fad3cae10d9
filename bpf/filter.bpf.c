/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * filter: what stands for mc_tc in a filter of TC, which outlives its process, for the reason and
 * in the way of bpf/member.bpf.c.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u32));
    __uint(max_entries, 1);
} mc_alive SEC(".maps");

SEC("tc")
int mc_filter(struct __sk_buff *skb)
{
    bpf_tail_call(skb, &mc_alive, 0);
    return -1; /* TC_ACT_UNSPEC: on to the next */
}

char program_license[] SEC("license") = "Dual BSD/GPL";
