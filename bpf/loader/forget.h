/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BPF_FORGET_H
#define BPF_FORGET_H

#include <stdint.h>

/* Empties an array of maps from `first` on, up to the first entry that is empty, or to `end`. */
void forget_maps(int map, uint32_t first, uint32_t end);

#endif
