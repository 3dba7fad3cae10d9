/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base64.h"

#include <stdint.h>

enum {
    GROUP = 4,
    PAD = 64, /* instead of a value */
    OTHER = 65,
};

size_t base64_encode(char *out, struct slice bytes)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *p = out;
    size_t at, i;

    for (at = 0; at < bytes.len; at += 3) {
        size_t n = bytes.len - at < 3 ? bytes.len - at : 3;
        uint32_t bits = 0;

        for (i = 0; i < 3; i++)
            bits = bits << 8 | (i < n ? (unsigned char)bytes.ptr[at + i] : 0);
        for (i = 0; i < GROUP; i++) {
            *p++ = i <= n ? alphabet[bits >> 18 & 63] : '=';
            bits <<= 6;
        }
    }
    return (size_t)(p - out);
}

static unsigned int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned int)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned int)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned int)(c - '0') + 52;
    switch (c) {
    case '+':
        return 62;
    case '/':
        return 63;
    case '=':
        return PAD;
    default:
        return OTHER;
    }
}

/* Whether the bytes of the alphabet, padding included, are whole groups. */
static bool is_whole(struct slice text)
{
    size_t n = 0;
    size_t i;

    for (i = 0; i < text.len; i++)
        n += value_of(text.ptr[i]) != OTHER;
    return n > 0 && n % GROUP == 0;
}

/* The bytes of a group, of which `npads` values are padding. */
static size_t put_group(char *out, uint32_t bits, unsigned int npads)
{
    size_t n = 3 - npads;
    size_t i;

    for (i = 0; i < n; i++)
        out[i] = (char)(bits >> (16 - 8 * i));
    return n;
}

bool base64_decode(char *out, struct slice text, size_t *nout)
{
    unsigned int nvalues = 0, npads = 0;
    uint32_t bits = 0;
    size_t n = 0;
    size_t i;

    if (!is_whole(text))
        return false;
    for (i = 0; i < text.len; i++) {
        unsigned int value = value_of(text.ptr[i]);

        if (value == OTHER)
            continue;
        npads += value == PAD;
        bits = bits << 6 | (value & 63);
        if (++nvalues % GROUP)
            continue;
        if (npads > 2)
            return false;
        n += put_group(out + n, bits, npads);
        if (npads)
            break;
    }
    *nout = n;
    return true;
}
