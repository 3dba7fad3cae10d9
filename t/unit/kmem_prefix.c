/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and prefixes as text, lists of them, and the words of -X that contain them. */
#include "kmem/prefix.h"

#include <string.h>

#include "kcache/kcache.h"
#include "t/lib/tap.h"

static void test_parse(void)
{
    static const struct {
        const char *text;
        struct prefix want;
    } rows[] = {
        {"0.0.0.0/0", {0, 0, 0, false}},
        {"10.0.0.0/8", {0x0a00000000000000, 0, 8, false}},
        {"10.1.2.3", {0x0a01020300000000, 0, 32, false}},
        {"10.1.2.3/32", {0x0a01020300000000, 0, 32, false}},
        {"10.1.2.3/15", {0x0a00000000000000, 0, 15, false}},
        {"255.255.255.255/1", {0x8000000000000000, 0, 1, false}},
        {"::/0", {0, 0, 0, true}},
        {"::1", {0, 1, 128, true}},
        {"fd77:1::2/64", {0xfd77000100000000, 0, 64, true}},
        {"fd77:1::ff02/127", {0xfd77000100000000, 0xff02, 127, true}},
        {"FD77:1::FF02/65", {0xfd77000100000000, 0, 65, true}},
        {"::ffff:1.2.3.4", {0x0102030400000000, 0, 32, false}},
        {"::ffff:10.1.2.3/104", {0x0a00000000000000, 0, 8, false}},
        {"::ffff:10.1.2.3/96", {0, 0, 0, false}},
        {"::ffff:10.1.2.3/95", {0, 0xfffe00000000, 95, true}},
        {"::1.2.3.4/128", {0, 0x01020304, 128, true}},
    };
    static const char *const wrong[] = {
        "",
        "/",
        "/8",
        "10",
        "10.0.0/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/ 8",
        "10.0.0.0/8 ",
        " 10.0.0.0/8",
        "10.0.0.0/8x",
        "10.0.0.0/0008",
        "10.0.0.0/8/8",
        "10.0.0.256",
        "::/129",
        "::1%lo",
        "fd00::g/8",
        ":",
        "[::1]",
        "localhost",
        "10.0.0.0/255.0.0.0",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999",
    };
    struct prefix got;

    for (size_t i = 0; i < COUNT(rows); i++)
        ok(prefix_parse(rows[i].text, &got) && got.high == rows[i].want.high &&
               got.low == rows[i].want.low && got.bits == rows[i].want.bits &&
               got.six == rows[i].want.six,
           "%s", rows[i].text);
    for (size_t i = 0; i < COUNT(wrong); i++)
        ok(!prefix_parse(wrong[i], &got), "\"%s\" is refused", wrong[i]);
}

static size_t reduced(struct prefix *out, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!prefix_parse(texts[i], &out[i]))
            return 0;
    return prefix_reduce(out, n);
}

static void test_reduce(void)
{
    static const char *const nested[] = {"10.1.0.0/16", "10.0.0.0/8", "10.1.2.3", "::/0", "::1"};
    static const char *const halves[] = {"10.0.0.0/25", "10.0.1.0/24", "10.0.0.128/26",
                                         "10.0.0.192/26"};
    static const char *const separate[] = {"10.0.1.0/24", "10.0.2.0/24", "2001:db8::/32",
                                           "32.1.13.184"};
    static const char *const everything[] = {"128.0.0.0/1", "0.0.0.0/1", "8000::/1", "::/1"};
    struct prefix out[8];

    ok(reduced(out, nested, 5) == 2 && out[0].bits == 8 && out[1].six && out[1].bits == 0,
       "a prefix inside another is removed");
    ok(reduced(out, halves, 4) == 1 && out[0].bits == 23, "adjacent halves are joined");
    ok(reduced(out, separate, 4) == 4 && out[3].six && !out[0].six,
       "neighbours that are not halves of one prefix stay, and families stay apart");
    ok(reduced(out, everything, 4) == 2 && out[0].bits == 0 && out[1].bits == 0,
       "halves are joined up to the whole address space");
    ok(prefix_reduce(out, 0) == 0, "an empty list stays empty");
}

static const char *parse(struct kcache_options *options, const char *text)
{
    static char word[512];

    memset(options, 0, sizeof(*options));
    snprintf(word, sizeof(word), "%s", text);
    return kcache_parse(options, word);
}

static void test_words(void)
{
    static const char *const wrong[] = {
        "bmc=lo,allow=",
        "bmc=lo,allow=10.0.0.0/33",
        "bmc=lo,allow=10.0.0.0/8,10.1.1",
        "bmc=lo,allow=10.0.0.0/8,,",
        "bmc=lo,allow=@",
        "bmc=lo,10.0.0.0/8",
        "bmc=lo,allow=here",
        "bmc=lo,allow=all,every",
        "bmc=lo,allow",
        "bmc=lo,rate=",
        "bmc=lo,rate=0",
        "bmc=lo,rate=-1",
        "bmc=lo,rate=1k",
        "bmc=lo,rate=10000001",
        "bmc=lo,rate=99999999999999999999",
        "bmc=lo,rate=1000/",
        "bmc=lo,rate=1000/9",
        "bmc=lo,rate=1000/0",
        "bmc=lo,rate=1000/10/1",
        "bmc=lo,rate=1000/x",
        "bmc=lo,rate",
        "bmc=lo,amplification=",
        "bmc=lo,amplification=0",
        "bmc=lo,amplification=1.5",
        "bmc=lo,amplification=x",
        "bmc=lo,amplification=65536",
    };
    struct kcache_options options;

    ok(!parse(&options, "bmc=lo") && !options.nallow && !options.limits.rate &&
           !options.limits.amplification,
       "without allow=, rate= and amplification= there are no limits");
    ok(!parse(&options, "bmc=lo,allow=10.0.0.0/8,fd00::/8,192.168.1.1,optional,bmc=eth0") &&
           options.nallow == 1 && options.allow[0].n == 3 && options.optional &&
           options.ninterfaces == 2 && strcmp(options.allow[0].first, "10.0.0.0/8") == 0 &&
           strcmp(options.allow[0].first + 11, "fd00::/8") == 0,
       "allow= takes the addresses that follow it");
    ok(!parse(&options, "allow=local,203.0.113.0/24,@/etc/list,bmc=lo,allow=all") &&
           options.nallow == 2 && options.allow[0].n == 3 && options.allow[1].n == 1 &&
           options.ninterfaces == 1,
       "allow= takes names and files, and may be repeated");
    ok(!parse(&options, "bmc=lo,rate=10000") && options.limits.rate == 10000 &&
           options.limits.burst == 10000,
       "the default burst of rate= is one second's worth");
    ok(!parse(&options, "bmc=lo,rate=10000/20000,amplification=10") &&
           options.limits.rate == 10000 && options.limits.burst == 20000 &&
           options.limits.amplification == 10,
       "rate= with a burst, and amplification=");
    ok(!parse(&options, "bmc=lo,rate=1") && options.limits.burst == 1 &&
           !parse(&options, "bmc=lo,rate=10000000/100000") && options.limits.burst == 100000,
       "the smallest and largest values of rate= are accepted");
    for (size_t i = 0; i < COUNT(wrong); i++)
        ok(parse(&options, wrong[i]) != NULL, "\"%s\" is refused", wrong[i]);
}

int main(void)
{
    test_parse();
    test_reduce();
    test_words();
    return done();
}
