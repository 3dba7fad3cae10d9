/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/pick.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "bench/keys.h"

int pick_kind(const char *name)
{
    static const char *const names[] = {"one", "uniform", "zipf", "turn"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return (int)i;
    return -1;
}

/* The integral of x^-theta and its inverse; theta is not 1 (pick_init sees to it). */
static double h_integral(const struct pick *pick, double x)
{
    return (pow(x, 1 - pick->theta) - 1) / (1 - pick->theta);
}

static double h_inverse(const struct pick *pick, double x)
{
    double base = 1 + x * (1 - pick->theta);

    return base <= 0 ? 1 : pow(base, 1 / (1 - pick->theta));
}

void pick_init(struct pick *pick, enum pick_kind kind, uint32_t nkeys, double theta, uint64_t seed)
{
    *pick = (struct pick){.kind = kind, .nkeys = nkeys ? nkeys : 1, .theta = theta};
    pick->random = seed * 0x9e3779b97f4a7c15ull + 1;
    if (fabs(theta - 1) < 1e-6)
        pick->theta = 1 - 1e-6;
    pick->h_first = h_integral(pick, 1.5) - 1;
    pick->h_last = h_integral(pick, (double)pick->nkeys + 0.5);
    pick->cut = 2 - h_inverse(pick, h_integral(pick, 2.5) - pow(2, -pick->theta));
}

static double unit(struct pick *pick)
{
    pick->random = bench_random(pick->random);
    return (double)(pick->random >> 11) * 0x1p-53;
}

static uint32_t zipf_next(struct pick *pick)
{
    for (;;) {
        double u = pick->h_last + unit(pick) * (pick->h_first - pick->h_last);
        double x = h_inverse(pick, u);
        double k = floor(x + 0.5);

        if (k < 1)
            k = 1;
        if (k > pick->nkeys)
            k = pick->nkeys;
        if (k - x <= pick->cut || u >= h_integral(pick, k + 0.5) - pow(k, -pick->theta))
            return (uint32_t)k - 1;
    }
}

uint32_t pick_next(struct pick *pick)
{
    switch (pick->kind) {
    case PICK_ONE:
        return 0;
    case PICK_UNIFORM:
        pick->random = bench_random(pick->random);
        return bench_below(pick->random, pick->nkeys);
    case PICK_ZIPF:
        return zipf_next(pick);
    case PICK_TURN:
        return pick->turn++ % pick->nkeys;
    }
    return 0;
}
