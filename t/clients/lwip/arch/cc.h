/* SPDX-License-Identifier: BSD-3-Clause */
/* What lwIP asks of the compiler and the system beyond its defaults. */
#ifndef ARCH_CC_H
#define ARCH_CC_H

#include <stdlib.h>

#define LWIP_RAND() ((u32_t)random())

#endif
