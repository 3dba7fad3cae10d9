/* SPDX-License-Identifier: BSD-3-Clause */
/* suffix: the part between the key and the value of a text reply, " flags bytes\r\n". */
#include "base/num.h"
#include "proto/proto.h"

uint8_t proto_suffix(char *out, uint32_t client_flags, uint32_t nvalue)
{
    char digits[NUM_U64_MAX];
    char *p = out;
    size_t n;

    *p++ = ' ';
    n = num_format_u64(digits, client_flags);
    memcpy(p, digits, n);
    p += n;
    *p++ = ' ';
    n = num_format_u64(digits, nvalue);
    memcpy(p, digits, n);
    p += n;
    *p++ = '\r';
    *p++ = '\n';
    return (uint8_t)(p - out);
}

uint32_t proto_suffix_flags(const char *suffix, uint8_t nsuffix)
{
    uint32_t flags = 0;
    uint8_t i;

    for (i = 1; i < nsuffix && suffix[i] != ' '; i++)
        flags = flags * 10 + (uint32_t)(suffix[i] - '0');
    return flags;
}
