/* SPDX-License-Identifier: BSD-3-Clause */
#include "flash/crc32c.h"

#define POLYNOMIAL 0x82f63b78u

void crc32c_init(struct crc32c *crc32c)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        crc32c->table[byte] = crc;
    }
    crc32c->update = crc32c_by_processor();
    if (!crc32c->update)
        crc32c->update = crc32c_by_table;
}

uint32_t crc32c_by_table(const struct crc32c *crc32c, uint32_t crc, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ crc32c->table[(crc ^ (unsigned char)bytes[i]) & 0xff];
    return crc;
}
