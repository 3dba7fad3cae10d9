/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * prog_array: the array through which a program calls the server's program while the server lives.
 *
 * Where an attachment outlives its process, the attached program is a few instructions that
 * tail-call the real program through this array. The kernel empties a program array when its last
 * descriptor is closed, however that happens; so once the server has ended they pass every packet
 * and hold none of its memory.
 */
#ifndef MC_PROG_ARRAY_BPF_H
#define MC_PROG_ARRAY_BPF_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u32));
    __uint(max_entries, 1);
} mc_prog_array SEC(".maps");

#endif
