/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc32c: the Castagnoli CRC (RFC 3720, appendix B.4), reflected polynomial 0x82f63b78, begun and
 * ended with all ones. By the processor where it can (crc32c_x86.c), else a byte at a time from a
 * table (Sarwate, CACM 31(8), 1988).
 */
#ifndef FLASH_CRC32C_H
#define FLASH_CRC32C_H

#include <stddef.h>
#include <stdint.h>

struct crc32c;
typedef uint32_t crc32c_function(const struct crc32c *crc32c, uint32_t crc, const char *bytes,
                                 size_t n);

struct crc32c {
    uint32_t table[256];
    crc32c_function *update;
};

void crc32c_init(struct crc32c *crc32c);
/* By the table, on every processor. */
crc32c_function crc32c_by_table;
/* NULL: the processor has no such instruction. */
crc32c_function *crc32c_by_processor(void);

/* Goes on with a CRC; 0 begins one. */
static inline uint32_t crc32c(const struct crc32c *crc32c, uint32_t crc, const char *bytes,
                              size_t n)
{
    return ~crc32c->update(crc32c, ~crc, bytes, n);
}

#endif
