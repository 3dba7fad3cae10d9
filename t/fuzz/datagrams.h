/* SPDX-License-Identifier: BSD-3-Clause */
/* datagrams: requests made from a grammar, and then damaged. */
#ifndef T_FUZZ_DATAGRAMS_H
#define T_FUZZ_DATAGRAMS_H

#include <stddef.h>
#include <stdint.h>

enum { DATAGRAM_MAX = 1472 };

struct random {
    uint64_t state;
};

uint32_t draw(struct random *random, uint32_t below);

struct datagram {
    char bytes[DATAGRAM_MAX + 512];
    size_t n;
};

/* With a frame header; three of four read. */
void datagram_make(struct datagram *datagram, struct random *random);

#endif
