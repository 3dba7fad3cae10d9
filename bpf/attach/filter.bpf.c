/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * filter: the program of a TC filter, which outlives its process: calls mc_tc while the process
 * lives.
 */
#include "bpf/attach/prog_array.bpf.h"

SEC("tc")
int mc_filter(struct __sk_buff *skb)
{
    bpf_tail_call(skb, &mc_prog_array, 0);
    return -1; /* TC_ACT_UNSPEC: continue with the next filter */
}

char program_license[] SEC("license") = "Dual BSD/GPL";
