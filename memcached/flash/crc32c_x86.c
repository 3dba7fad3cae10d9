/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc32c_x86: SSE 4.2 has an instruction for it (Intel SDM, volume 2, CRC32): 8 bytes in three
 * cycles.
 */
#include "flash/crc32c.h"

#if defined(__x86_64__)

#include <nmmintrin.h>
#include <string.h>

__attribute__((target("sse4.2"))) static uint32_t update(const struct crc32c *crc32c, uint32_t crc,
                                                         const char *bytes, size_t n)
{
    uint64_t sum = crc;

    (void)crc32c;
    for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t), bytes += sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, bytes, sizeof(word));
        sum = _mm_crc32_u64(sum, word);
    }
    for (; n > 0; n--)
        sum = _mm_crc32_u8((uint32_t)sum, (unsigned char)*bytes++);
    return (uint32_t)sum;
}

crc32c_function *crc32c_by_processor(void)
{
    return __builtin_cpu_supports("sse4.2") ? update : NULL;
}

#else

crc32c_function *crc32c_by_processor(void)
{
    return NULL;
}

#endif
