/* SPDX-License-Identifier: BSD-3-Clause */
#include "kmem/prefix.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

static uint64_t from_network(const uint8_t *bytes)
{
    uint64_t word = 0;

    for (unsigned int i = 0; i < 8; i++)
        word = word << 8 | bytes[i];
    return word;
}

uint64_t prefix_mask_high(unsigned int bits)
{
    return bits == 0 ? 0 : bits >= 64 ? UINT64_MAX : UINT64_MAX << (64 - bits);
}

uint64_t prefix_mask_low(unsigned int bits)
{
    return bits <= 64 ? 0 : UINT64_MAX << (128 - bits);
}

/* One to three digits, up to `most`. */
static bool parse_length(const char *text, unsigned int most, uint8_t *out)
{
    unsigned int length = 0, n;

    for (n = 0; n < 3 && text[n] >= '0' && text[n] <= '9'; n++)
        length = length * 10 + (unsigned int)(text[n] - '0');
    if (n == 0 || text[n] || length > most)
        return false;
    *out = (uint8_t)length;
    return true;
}

bool prefix_parse(const char *text, struct prefix *out)
{
    size_t n = strcspn(text, "/");
    struct prefix prefix = {0};
    uint8_t bytes[16] = {0};
    char address[PREFIX_TEXT_MAX];

    if (n >= sizeof(address))
        return false;
    memcpy(address, text, n);
    address[n] = '\0';
    prefix.six = strchr(address, ':') != NULL;
    if (inet_pton(prefix.six ? AF_INET6 : AF_INET, address, bytes) != 1)
        return false;
    prefix.bits = prefix.six ? 128 : 32;
    if (text[n] == '/' && !parse_length(text + n + 1, prefix.bits, &prefix.bits))
        return false;
    prefix.high = from_network(bytes) & prefix_mask_high(prefix.bits);
    prefix.low = from_network(bytes + 8) & prefix_mask_low(prefix.bits);
    /* IPv4-mapped IPv6 (RFC 4291, 2.5.5.2): IPv4 packets do not have that form. */
    if (prefix.six && prefix.bits >= 96 && !prefix.high && prefix.low >> 32 == 0xffff)
        prefix = (struct prefix){.high = prefix.low << 32, .bits = prefix.bits - 96};
    *out = prefix;
    return true;
}

bool prefix_holds(const struct prefix *outer, const struct prefix *inner)
{
    return outer->six == inner->six && outer->bits <= inner->bits &&
           (inner->high & prefix_mask_high(outer->bits)) == outer->high &&
           (inner->low & prefix_mask_low(outer->bits)) == outer->low;
}

static int compare(const void *left, const void *right)
{
    const struct prefix *a = left, *b = right;

    if (a->six != b->six)
        return a->six - b->six;
    if (a->high != b->high)
        return a->high < b->high ? -1 : 1;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    return (int)a->bits - (int)b->bits;
}

/* If a and b are the halves of one prefix, `out` becomes that prefix. */
static bool join(const struct prefix *a, const struct prefix *b, struct prefix *out)
{
    struct prefix whole = *a;

    if (a->bits == 0 || a->bits != b->bits)
        return false;
    whole.bits--;
    whole.high &= prefix_mask_high(whole.bits);
    whole.low &= prefix_mask_low(whole.bits);
    if (!prefix_holds(&whole, b))
        return false;
    *out = whole;
    return true;
}

size_t prefix_reduce(struct prefix *prefixes, size_t n)
{
    size_t kept = 0;

    if (n > 1)
        qsort(prefixes, n, sizeof(*prefixes), compare);
    for (size_t i = 0; i < n; i++) {
        if (kept && prefix_holds(&prefixes[kept - 1], &prefixes[i]))
            continue;
        prefixes[kept++] = prefixes[i];
        while (kept > 1 && join(&prefixes[kept - 2], &prefixes[kept - 1], &prefixes[kept - 2]))
            kept--;
    }
    return kept;
}
