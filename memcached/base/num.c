/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/num.h"

#include <string.h>

struct number {
    uint64_t magnitude;
    bool negative;
};

/* isspace() of the C locale. */
static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* False: no digits, other bytes behind them, or more than 64 bits. */
static bool scan(struct slice text, struct number *out)
{
    const char *p = text.ptr;
    const char *end = text.ptr + text.len;
    uint64_t magnitude = 0;
    bool negative = false;
    const char *digits;

    while (p < end && is_blank(*p))
        p++;
    if (p < end && (*p == '-' || *p == '+'))
        negative = *p++ == '-';
    for (digits = p; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(magnitude, 10, &magnitude) ||
            __builtin_add_overflow(magnitude, (uint64_t)(*p - '0'), &magnitude))
            return false;
    if (p == digits || (p < end && !is_blank(*p)))
        return false;
    *out = (struct number){magnitude, negative};
    return true;
}

bool num_parse_u64(struct slice text, uint64_t *out)
{
    struct number number;

    if (!scan(text, &number))
        return false;
    if (number.negative) {
        /* strtoull negates; memcached refuses only what then has the top bit set. */
        number.magnitude = -number.magnitude;
        if (number.magnitude > INT64_MAX)
            return false;
    }
    *out = number.magnitude;
    return true;
}

bool num_parse_i64(struct slice text, int64_t *out)
{
    struct number number;

    if (!scan(text, &number) || number.magnitude > (uint64_t)INT64_MAX + number.negative)
        return false;
    *out = (int64_t)(number.negative ? -number.magnitude : number.magnitude);
    return true;
}

bool num_cut_u32(struct slice text, uint32_t *out)
{
    uint64_t value;

    if (!num_parse_u64(text, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

bool num_cut_i32(struct slice text, int64_t *out)
{
    int64_t value;

    if (!num_parse_i64(text, &value))
        return false;
    *out = (int32_t)(uint32_t)value;
    return true;
}

size_t num_format_u64(char out[NUM_U64_MAX], uint64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[NUM_U64_MAX];
    size_t at = sizeof(digits);

    while (value >= 100) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * value, 2);
    } else {
        digits[--at] = (char)('0' + value);
    }
    memcpy(out, digits + at, sizeof(digits) - at);
    return sizeof(digits) - at;
}
