/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BPF_MAP_CLEAR_H
#define BPF_MAP_CLEAR_H

#include <stdint.h>

/* Clears an array of maps from `first` up to the first empty entry or `end`. */
void map_clear(int map, uint32_t first, uint32_t end);

#endif
