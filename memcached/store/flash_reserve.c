/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/flash_reserve.h"

#include "store/internal.h"
#include "store/mover.h"

/* Whether classes can still get pages without taking them from others. */
static bool has_pages(struct store *store)
{
    return slab_npool(&store->slabs) > 0 || slab_has_room(&store->slabs);
}

/* The class of mostly stubs with the fewest free chunks, if that is under half a page. */
static unsigned int find_needy(struct store *store)
{
    unsigned int needy = 0;
    uint64_t least = UINT64_MAX;

    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        uint64_t nflash_items = __atomic_load_n(&store->nflash_items[clsid], __ATOMIC_RELAXED);
        struct slab_stats slab;

        if (nflash_items == 0)
            continue;
        slab_class_stats(&store->slabs, clsid, &slab);
        if (2 * nflash_items > slab.used_chunks && slab.free_chunks < slab.chunks_per_page / 2 &&
            slab.free_chunks < least) {
            least = slab.free_chunks;
            needy = clsid;
        }
    }
    return needy;
}

/* The class with the most pages, of those whose values may go to flash. */
static unsigned int find_donor(struct store *store, const struct store_flash_rules *rules)
{
    unsigned int donor = 0;
    uint64_t most = 1;

    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        struct slab_stats slab;

        if (store->slabs.classes[clsid].size <= rules->item_size)
            continue;
        slab_class_stats(&store->slabs, clsid, &slab);
        if (slab.total_pages > most) {
            most = slab.total_pages;
            donor = clsid;
        }
    }
    return donor;
}

unsigned int flash_reserve_round(struct store *store, const struct store_flash_rules *rules)
{
    unsigned int needy, donor;
    struct slab_stats slab;

    if (!__atomic_load_n(&store->mover.on, __ATOMIC_RELAXED) || has_pages(store))
        return 0;
    needy = find_needy(store);
    donor = needy ? find_donor(store, rules) : 0;
    if (donor == 0 || donor == needy)
        return 0;
    slab_class_stats(&store->slabs, donor, &slab);
    if (slab.free_chunks >= slab.chunks_per_page)
        mover_ask(store, donor, needy);
    return donor;
}

bool flash_reserve_allows(struct store *store, int from, int to)
{
    struct store_flash_rules rules;

    if (!store->config.flash || to == 0)
        return true;
    store_flash_rules(store, &rules);
    return store->slabs.classes[from].size > rules.item_size &&
           store->slabs.classes[to].size <= rules.item_size;
}
