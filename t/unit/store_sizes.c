/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/sizes.h"

#include "t/lib/tap.h"

int main(void)
{
    struct sizes sizes = {0};
    uint64_t size = 0, count = 0;

    ok(!sizes_next(&sizes, &size, &count), "what is not counted has no sizes");
    sizes_add(&sizes, 100, 1);
    sizes_init(&sizes, 1024);
    sizes_add(&sizes, 100, -1);
    ok(!sizes_on(&sizes) && !sizes_next(&sizes, &size, &count), "off at first");
    ok(sizes_start(&sizes) == 0 && sizes_on(&sizes) && !sizes_next(&sizes, &size, &count),
       "empty when it begins");
    sizes_add(&sizes, 1, 1);
    sizes_add(&sizes, 32, 1);
    sizes_add(&sizes, 33, 1);
    sizes_add(&sizes, 1024, 1);
    sizes_add(&sizes, UINT64_MAX / 2, 1);
    ok(sizes_next(&sizes, &size, &count) && size == 32 && count == 2, "1 and 32 are one step");
    ok(sizes_next(&sizes, &size, &count) && size == 64 && count == 1, "33 is the next");
    ok(sizes_next(&sizes, &size, &count) && size == 1024 && count == 1,
       "steps without are left out");
    ok(!sizes_next(&sizes, &size, &count), "a size beyond all is not counted");
    sizes_add(&sizes, 32, -1);
    sizes_add(&sizes, 1, -1);
    size = 0;
    ok(sizes_next(&sizes, &size, &count) && size == 64, "what is gone is not counted");
    sizes_stop(&sizes);
    ok(!sizes_on(&sizes) && sizes_start(&sizes) == 0 && sizes_on(&sizes), "off and on again");
    size = 0;
    ok(sizes_next(&sizes, &size, &count) && size == 64 && count == 1,
       "and what was counted before still is");
    sizes_fini(&sizes);
    return done();
}
