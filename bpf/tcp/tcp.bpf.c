/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp: the programs that answer gets over TCP connections of the server's (doc/kernel-path/tcp.md).
 * They share heap, table, control block and counts with the programs of udp, which hand them the
 * segments to and from the server's port.
 */
#include "bpf/packet/tcp.bpf.h"

#include "bpf/tcp/egress.bpf.h"
#include "bpf/tcp/guard.bpf.h"
#include "bpf/tcp/ingress.bpf.h"
#include "bpf/tcp/lost.bpf.h"
#include "bpf/tcp/order.bpf.h"
#include "bpf/tcp/xdp.bpf.h"

char program_license[] SEC("license") = "Dual BSD/GPL";
