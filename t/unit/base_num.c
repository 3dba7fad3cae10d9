/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "t/lib/tap.h"

/* The value that each type reads from a text; a dash: the text is refused. */
static const struct {
    const char *text, *u64, *u32, *i64;
} rows[] = {
    {"0", "0", "0", "0"},
    {"7", "7", "7", "7"},
    {"00123", "123", "123", "123"},
    {"+5", "5", "5", "5"},
    {"-0", "0", "0", "0"},
    {"-5", "-", "-", "-5"},
    {"", "-", "-", "-"},
    {"-", "-", "-", "-"},
    {"+", "-", "-", "-"},
    {"+-3", "-", "-", "-"},
    {"--3", "-", "-", "-"},
    {"x", "-", "-", "-"},
    {"5x", "-", "-", "-"},
    {"0x5", "-", "-", "-"},
    {"1.5", "-", "-", "-"},
    {"1e3", "-", "-", "-"},
    {"\t5", "5", "5", "5"},
    {"\r5", "5", "5", "5"},
    {" 5", "5", "5", "5"},
    {"5\t", "5", "5", "5"},
    {"5 x", "5", "5", "5"},
    {"5\tx", "5", "5", "5"},
    {"5\v", "5", "5", "5"},
    {"- 5", "-", "-", "-"},
    {"4294967295", "4294967295", "4294967295", "4294967295"},
    {"4294967296", "4294967296", "0", "4294967296"},
    {"9223372036854775807", "9223372036854775807", "4294967295", "9223372036854775807"},
    {"9223372036854775808", "9223372036854775808", "0", "-"},
    {"-9223372036854775808", "-", "-", "-9223372036854775808"},
    {"-9223372036854775809", "9223372036854775807", "4294967295", "-"},
    {"18446744073709551615", "18446744073709551615", "4294967295", "-"},
    {"-18446744073709551615", "1", "1", "-"},
    {"18446744073709551616", "-", "-", "-"},
    {"99999999999999999999", "-", "-", "-"},
    {"00000000000000000000000000000000000009", "9", "9", "9"},
};

static void check(const char *text, const char *type, const char *got, const char *wanted)
{
    ok(strcmp(got, wanted) == 0, "\"%s\" as %s is %s", text[0] == '\r' ? "CR 5" : text, type,
       wanted);
}

static void numbers_are_read_as_memcached_reads_them(void)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice text = {rows[i].text, strlen(rows[i].text)};
        char u64[32] = "-", u32[32] = "-", i64[32] = "-";
        uint64_t a;
        uint32_t b;
        int64_t c;

        if (num_parse_u64(text, &a))
            snprintf(u64, sizeof(u64), "%" PRIu64, a);
        if (num_cut_u32(text, &b))
            snprintf(u32, sizeof(u32), "%" PRIu32, b);
        if (num_parse_i64(text, &c))
            snprintf(i64, sizeof(i64), "%" PRId64, c);
        check(rows[i].text, "u64", u64, rows[i].u64);
        check(rows[i].text, "u32", u32, rows[i].u32);
        check(rows[i].text, "i64", i64, rows[i].i64);
    }
}

static void refused_numbers_change_nothing(void)
{
    uint64_t value = 42;

    ok(!num_parse_u64(SLICE("x"), &value) && value == 42,
       "a refused number leaves the variable unchanged");
}

static void times_are_cut_to_32_bits(void)
{
    static const struct {
        struct slice text;
        int64_t time;
    } cuts[] = {
        {{"2147483647", 10}, INT32_MAX},   {{"-2147483648", 11}, INT32_MIN},
        {{"2147483648", 10}, INT32_MIN},   {{"4294967295", 10}, -1},
        {{"4294967396", 10}, 100},         {{"-2147483649", 11}, INT32_MAX},
        {{"9223372036854775807", 19}, -1},
    };
    int64_t time = 42;

    ok(!num_cut_i32(SLICE("9223372036854775808"), &time) && time == 42,
       "a time of 64 bits is cut, never out of range");
    for (size_t i = 0; i < COUNT(cuts); i++) {
        ok(num_cut_i32(cuts[i].text, &time) && time == cuts[i].time, "%s is the time %" PRId64,
           cuts[i].text.ptr, cuts[i].time);
    }
}

static void numbers_are_written_as_printf_writes_them(void)
{
    uint64_t power = 1;
    bool same = true;

    for (int i = 0; i < 20; i++, power *= 10) {
        for (int j = -1; j <= 1; j++) {
            char wanted[32], got[NUM_U64_MAX];
            int n = snprintf(wanted, sizeof(wanted), "%" PRIu64, power * 9 + (uint64_t)j);
            size_t m = num_format_u64(got, power * 9 + (uint64_t)j);

            same = same && m == (size_t)n && memcmp(got, wanted, m) == 0;
            n = snprintf(wanted, sizeof(wanted), "%" PRIu64, power + (uint64_t)j);
            m = num_format_u64(got, power + (uint64_t)j);
            same = same && m == (size_t)n && memcmp(got, wanted, m) == 0;
        }
    }
    ok(same, "numbers around each power of ten are written as printf writes them");
}

int main(void)
{
    numbers_are_read_as_memcached_reads_them();
    refused_numbers_change_nothing();
    times_are_cut_to_32_bits();
    numbers_are_written_as_printf_writes_them();
    return done();
}
