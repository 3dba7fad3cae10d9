/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* filter: what stands for mc_tc in a filter of TC, which outlives its process. */
#include "bpf/loader/alive.bpf.h"

SEC("tc")
int mc_filter(struct __sk_buff *skb)
{
    bpf_tail_call(skb, &mc_alive, 0);
    return -1; /* TC_ACT_UNSPEC: on to the next */
}

char program_license[] SEC("license") = "Dual BSD/GPL";
