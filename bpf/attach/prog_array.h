/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prog_array: program arrays for attachments that outlive their process (prog_array.bpf.h).
 *
 * The kernel empties the array when its last descriptor is closed: from then on the programs that
 * call through it pass every packet, and the memory of the called program is freed.
 */
#ifndef BPF_PROG_ARRAY_H
#define BPF_PROG_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Creates an array; returns it or -errno. The first program loaded with it determines its type, so
 * the program that it is to call is set last.
 */
int prog_array_open(void);
/* Puts a program at a place of an array. 0 or -errno. */
int prog_array_set(int prog_array, uint32_t at, int program);
/* Whether the array through which a program calls is empty. If unknown, false. */
bool prog_array_is_empty(int program);

#endif
