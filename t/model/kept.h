/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kept: how the model tells the bytes of the programs' replies apart: by the command, how many
 * there are, and from which on.
 */
#ifndef T_MODEL_KEPT_H
#define T_MODEL_KEPT_H

#include "model.h"

/* The bytes of a reply of ours: whose it is, and as how many bytes it was found; from the first. */
static inline uint8_t kept_bytes(unsigned command, unsigned size)
{
    return command << 4 | size;
}

static inline unsigned kept_from(uint8_t bytes)
{
    return bytes >> 2 & 3;
}

static inline unsigned kept_command(uint8_t bytes)
{
    return bytes >> 4;
}

static inline unsigned kept_size(uint8_t bytes)
{
    return bytes & 3;
}

/* Which reply of ours the byte `n` of such bytes is of: behind the first reply the next follow. */
static inline unsigned kept_at(const struct model_state *s, uint8_t bytes, unsigned n, unsigned *at,
                               unsigned *len)
{
    unsigned command = kept_command(bytes);

    *len = kept_size(bytes);
    for (n += kept_from(bytes); n >= *len; *len = s->sizes >> 2 * command & 3) {
        n -= *len;
        if (++command == MODEL_COMMANDS)
            break;
    }
    *at = n;
    return command;
}

/* Those from byte `n` on. */
static inline uint8_t kept_later(const struct model_state *s, uint8_t bytes, unsigned n)
{
    unsigned at, len, command = kept_at(s, bytes, n, &at, &len);

    return kept_bytes(command, len) | at << 2;
}

#endif
