/* SPDX-License-Identifier: BSD-3-Clause */
/* share_ports: the ports by which bpf/attach/share.bpf.c tells the servers apart. */
#ifndef BPF_SHARE_PORTS_H
#define BPF_SHARE_PORTS_H

#include <linux/types.h>

enum { SHARE_SERVERS = 8 /* the most on one interface */ };

/* Of each server, network order; 0: the kernel answers nothing there. */
struct share_ports {
    __u16 udp[SHARE_SERVERS], tcp[SHARE_SERVERS];
};

#endif
