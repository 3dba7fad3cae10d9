/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/automove.h"

enum {
    EXCESS_SAMPLES = 2, /* in a row: a class that was emptied may be filled again at once */
    GIVER_PAGES = 3,    /* the least that a class has to have to give one to another */
};

static bool has_excess(const struct automove_sample *sample)
{
    return 2 * sample->free_chunks > 5 * (uint64_t)sample->chunks_per_page;
}

static void take_samples(struct automove *automove, const struct automove_sample *samples,
                         unsigned int nclasses, unsigned int window, rel_time now)
{
    bool first = automove->last == 0;

    if (first)
        automove->began = now;
    automove->last = now;
    for (unsigned int i = 1; i <= nclasses; i++) {
        const struct automove_sample *sample = &samples[i];
        double share = first ? 1 : 1.0 / window;

        /* Statistics may have been reset. */
        if (!first && sample->evicted > automove->classes[i].evicted)
            automove->classes[i].evicted_at = now;
        automove->classes[i].evicted = sample->evicted;
        automove->classes[i].age += (sample->age - automove->classes[i].age) * share;
        automove->classes[i].nexcess = has_excess(sample) ? automove->classes[i].nexcess + 1 : 0;
    }
}

static bool evicts(const struct automove *automove, unsigned int clsid, unsigned int window,
                   rel_time now)
{
    rel_time at = automove->classes[clsid].evicted_at;

    return at != 0 && now - at < window;
}

static struct automove_choice choose_by_age(const struct automove *automove,
                                            const struct automove_sample *samples,
                                            unsigned int nclasses, unsigned int window,
                                            double ratio, rel_time now)
{
    struct automove_choice choice = {AUTOMOVE_NONE, AUTOMOVE_NONE};
    double oldest = 0, youngest = 0;

    for (unsigned int i = 1; i <= nclasses; i++) {
        double age = automove->classes[i].age;

        if (samples[i].npages >= GIVER_PAGES && age > oldest) {
            oldest = age;
            choice.from = (int)i;
        }
        if (evicts(automove, i, window, now) && (choice.to == AUTOMOVE_NONE || age < youngest)) {
            youngest = age;
            choice.to = (int)i;
        }
    }
    if (choice.to == AUTOMOVE_NONE || choice.from == choice.to || youngest >= oldest * ratio)
        choice.from = AUTOMOVE_NONE;
    return choice;
}

struct automove_choice automove_choose(struct automove *automove,
                                       const struct automove_sample *samples, unsigned int nclasses,
                                       unsigned int window, double ratio, rel_time now)
{
    bool fresh = now != automove->last;

    if (fresh)
        take_samples(automove, samples, nclasses, window, now);
    for (unsigned int i = 1; i <= nclasses; i++)
        if (automove->classes[i].nexcess >= EXCESS_SAMPLES && has_excess(&samples[i]))
            return (struct automove_choice){(int)i, 0};
    if (!fresh || now - automove->began < window)
        return (struct automove_choice){AUTOMOVE_NONE, AUTOMOVE_NONE};
    return choose_by_age(automove, samples, nclasses, window, ratio, now);
}
