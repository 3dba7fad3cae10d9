/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/ring.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A record begins at a multiple of 8 with its length, which is 0 until the record is complete. Free
 * space is all zeros, so that a newly claimed place has no old length.
 */
enum { ALIGN = 8, LENGTH = sizeof(uint64_t), SIZE_MIN = 4096 };

int ring_init(struct ring *ring, size_t size)
{
    size_t rounded = SIZE_MIN;

    while (rounded < size)
        rounded *= 2;
    *ring = (struct ring){.bytes = calloc(1, rounded), .size = rounded};
    return ring->bytes ? 0 : -ENOMEM;
}

void ring_fini(struct ring *ring)
{
    free(ring->bytes);
}

static uint64_t *length_at(const struct ring *ring, uint64_t place)
{
    return (uint64_t *)(void *)(ring->bytes + (place & (ring->size - 1)));
}

static size_t place_bytes(size_t len)
{
    return (LENGTH + len + ALIGN - 1) / ALIGN * ALIGN;
}

static void copy_in(struct ring *ring, uint64_t place, struct slice from)
{
    size_t at = place & (ring->size - 1);
    size_t first = ring->size - at < from.len ? ring->size - at : from.len;

    if (from.len > 0) {
        memcpy(ring->bytes + at, from.ptr, first);
        memcpy(ring->bytes, from.ptr + first, from.len - first);
    }
}

static void copy_out(const struct ring *ring, uint64_t place, char *to, size_t len)
{
    size_t at = place & (ring->size - 1);
    size_t first = ring->size - at < len ? ring->size - at : len;

    memcpy(to, ring->bytes + at, first);
    memcpy(to + first, ring->bytes, len - first);
}

static void clear(struct ring *ring, uint64_t place, size_t len)
{
    size_t at = place & (ring->size - 1);
    size_t first = ring->size - at < len ? ring->size - at : len;

    memset(ring->bytes + at, 0, first);
    memset(ring->bytes, 0, len - first);
}

bool ring_put(struct ring *ring, struct slice head, struct slice rest)
{
    size_t len = head.len + rest.len;
    uint64_t place = __atomic_load_n(&ring->claimed, __ATOMIC_RELAXED);

    do {
        /* Acquire: space that is claimed again has been taken and cleared. */
        uint64_t taken = __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE);

        /* If the place was claimed and taken meanwhile, the exchange fails. */
        if ((int64_t)(place - taken) >= 0 && place - taken + place_bytes(len) > ring->size) {
            __atomic_fetch_add(&ring->ndropped, 1, __ATOMIC_RELAXED);
            return false;
        }
    } while (!__atomic_compare_exchange_n(&ring->claimed, &place, place + place_bytes(len), true,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    copy_in(ring, place + LENGTH, head);
    copy_in(ring, place + LENGTH + head.len, rest);
    __atomic_fetch_add(&ring->nwritten, 1, __ATOMIC_RELAXED);
    /* Pairs with the load of ring_take. */
    __atomic_store_n(length_at(ring, place), len, __ATOMIC_RELEASE);
    return true;
}

size_t ring_take(struct ring *ring, void *out, size_t size)
{
    uint64_t place = ring->taken;
    size_t len = __atomic_load_n(length_at(ring, place), __ATOMIC_ACQUIRE);

    if (len == 0)
        return 0;
    assert(len <= size);
    copy_out(ring, place + LENGTH, out, len < size ? len : size);
    clear(ring, place, place_bytes(len));
    __atomic_store_n(&ring->taken, place + place_bytes(len), __ATOMIC_RELEASE);
    return len;
}
