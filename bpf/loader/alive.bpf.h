/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * alive: the program that a server stands behind, as long as it lives.
 *
 * Where an attachment outlives its process, what is attached is a few instructions that call the
 * real program through this array. The kernel empties a program array when its last descriptor is
 * closed, whatever closed it; so from the server's end on they pass everything and hold none of its
 * memory.
 */
#ifndef MC_ALIVE_BPF_H
#define MC_ALIVE_BPF_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u32));
    __uint(max_entries, 1);
} mc_alive SEC(".maps");

#endif
