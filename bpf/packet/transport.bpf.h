/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * transport: the transport of the object that is compiled: udp.bpf.h says what one gives.
 */
#ifndef MC_TRANSPORT_BPF_H
#define MC_TRANSPORT_BPF_H

#ifdef MC_OVER_TCP
#include "bpf/packet/tcp.bpf.h"
#else
#include "bpf/packet/udp.bpf.h"
#endif

#endif
