/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alive: program arrays for what outlives its process (alive.bpf.h).
 *
 * While the kernel empties one with its last descriptor, what calls through it is harmless from
 * then on, and memory that its program would hold is free.
 */
#ifndef BPF_ALIVE_H
#define BPF_ALIVE_H

#include <stdbool.h>

/* An array, or -errno. It takes after the first program that is loaded with it: its own comes last.
 */
int alive_open(void);
/* 0 or -errno. */
int alive_set(int alive, int program);
/* Of a program that calls through one: whether that is empty. In doubt not. */
bool alive_is_gone(int program);

#endif
