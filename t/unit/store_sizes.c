/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/sizes.h"

#include "t/lib/tap.h"

int main(void)
{
    struct sizes sizes = {0};
    uint64_t size = 0, count = 0;

    ok(!sizes_next(&sizes, &size, &count), "a table that was not initialized has no sizes");
    sizes_add(&sizes, 100, 1);
    sizes_init(&sizes, 1024);
    sizes_add(&sizes, 100, -1);
    ok(!sizes_on(&sizes) && !sizes_next(&sizes, &size, &count), "counting is off at first");
    ok(sizes_start(&sizes) == 0 && sizes_on(&sizes) && !sizes_next(&sizes, &size, &count),
       "counts are empty when counting starts");
    sizes_add(&sizes, 1, 1);
    sizes_add(&sizes, 32, 1);
    sizes_add(&sizes, 33, 1);
    sizes_add(&sizes, 1024, 1);
    sizes_add(&sizes, UINT64_MAX / 2, 1);
    ok(sizes_next(&sizes, &size, &count) && size == 32 && count == 2,
       "1 and 32 bytes are in one step");
    ok(sizes_next(&sizes, &size, &count) && size == 64 && count == 1,
       "33 bytes are in the next step");
    ok(sizes_next(&sizes, &size, &count) && size == 1024 && count == 1,
       "steps without items are left out");
    ok(!sizes_next(&sizes, &size, &count), "a size above the largest is not counted");
    sizes_add(&sizes, 32, -1);
    sizes_add(&sizes, 1, -1);
    size = 0;
    ok(sizes_next(&sizes, &size, &count) && size == 64, "removed items are subtracted");
    sizes_stop(&sizes);
    ok(!sizes_on(&sizes) && sizes_start(&sizes) == 0 && sizes_on(&sizes),
       "counting can be turned off and on again");
    size = 0;
    ok(sizes_next(&sizes, &size, &count) && size == 64 && count == 1,
       "counts from before are kept");
    sizes_fini(&sizes);
    return done();
}
