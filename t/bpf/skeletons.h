/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * skeletons: the programs that the server loads beside those in place and the chain's, open and set
 * as the server sets them, with maps of their own, which is the same to the verifier.
 */
#ifndef T_BPF_SKELETONS_H
#define T_BPF_SKELETONS_H

#include <linux/bpf.h>

#include "bpf/attach/share_ports.h"
#include "bpf/tcp/tcp.skel.h"
#include "t/bpf/lab.h"
#include "t/lib/tap.h"

#include "bpf/attach/share.skel.h"

/* The programs for TCP. */
static inline struct tcp *skeleton_tcp(void)
{
    struct tcp *skel = tcp__open();

    if (!skel)
        skip_all("cannot open the programs for TCP");
    bpf_program__set_flags(skel->progs.mc_tcp_xdp, BPF_F_XDP_HAS_FRAGS);
    skel->rodata->tick_ns = loader_tick_ns();
    skel->rodata->tcp_mark = 1;
    return skel;
}

/* The programs of an interface that several servers have. */
static inline struct share *skeleton_share(void)
{
    struct share *skel = share__open();

    if (!skel)
        skip_all("cannot open the programs of shared interfaces");
    bpf_program__set_flags(skel->progs.mc_share, BPF_F_XDP_HAS_FRAGS);
    bpf_program__set_flags(skel->progs.mc_shared, BPF_F_XDP_HAS_FRAGS);
    return skel;
}

#endif
