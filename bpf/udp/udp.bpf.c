/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * udp: the programs that answer from the server's own memory. XDP answers gets in the driver; TC,
 * behind it, answers those whose reply does not fit into the driver's frame. With rings, XDP hands
 * the server what it passes.
 *
 * In doubt a program passes the packet exactly as it came. So a reply of several keys is complete
 * before the packet is touched; a single hit is copied straight into the packet, whose bytes are
 * kept and put back if a writer disturbed the copy.
 */
#include "bpf/packet/udp.bpf.h"

#include "bpf/answer/get.bpf.h"
#include "bpf/answer/lookup.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/udp/ring.bpf.h"
#include "bpf/udp/tc.bpf.h"
#include "bpf/udp/xdp.bpf.h"

char program_license[] SEC("license") = "Dual BSD/GPL";
