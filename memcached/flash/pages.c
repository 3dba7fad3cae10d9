/* SPDX-License-Identifier: BSD-3-Clause */
/* pages: takes free pages into use, and evicts, closes, frees and counts the others. */
#include "flash/internal.h"

/* Under the lock. From here on nothing that was in the page is found. */
static void set_version(struct page *page, uint32_t version)
{
    /* Pairs with the acquiring loads around a read of the page. */
    __atomic_store_n(&page->version, version, __ATOMIC_SEQ_CST);
}

/* With fewer pages than this none is kept free. */
enum { SPARE_FROM = 8 };

static void set_free(struct flash *flash, struct page *page)
{
    flash->counts.page_reclaims++;
    set_version(page, 0);
    page->state = PAGE_FREE;
    page->compacted = false;
    page->nobjects = 0;
    page->nused = page->nwritten = 0;
    flash->nfree++;
}

static void evict(struct flash *flash, struct page *page)
{
    flash->counts.page_evictions++;
    flash->counts.objects_evicted += page->nobjects;
    flash->counts.bytes_evicted += page->nused;
    set_free(flash, page);
}

/* A bucket may use the pages of its own files, and those of files that are for all. */
static bool may_use(const struct page *page, enum flash_bucket bucket)
{
    return page->home == bucket || page->home == FLASH_DEFAULT;
}

/* failed: one of those whose last write failed, else one of the others. */
static struct page *find_free(const struct flash *flash, enum flash_bucket bucket, bool failed)
{
    struct page *found = NULL;

    for (uint32_t i = 0; i < flash->npages; i++) {
        struct page *page = &flash->pages[i];

        if (page->state != PAGE_FREE || page->failed != failed || !may_use(page, bucket))
            continue;
        if (page->home == bucket)
            return page;
        if (!found)
            found = page;
    }
    return found;
}

/* Pages that a bucket may use. */
static uint32_t count_free(const struct flash *flash, enum flash_bucket bucket)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < flash->npages; i++)
        n += flash->pages[i].state == PAGE_FREE && may_use(&flash->pages[i], bucket);
    return n;
}

/* Versions are given in order, and wrap after more bytes than a disk can write in its life. */
static struct page *find_oldest(struct flash *flash, enum flash_bucket bucket)
{
    struct page *found = NULL;

    for (uint32_t i = 0; i < flash->npages; i++) {
        struct page *page = &flash->pages[i];

        if (page->state == PAGE_CLOSED && !page->compacting && may_use(page, bucket) &&
            (!found || page->version < found->version))
            found = page;
    }
    return found;
}

/* The oldest page that a bucket may use, empty from now on. NULL: all are being filled. */
static struct page *evict_oldest(struct flash *flash, enum flash_bucket bucket)
{
    struct page *page = find_oldest(flash, bucket);

    if (page)
        evict(flash, page);
    return page;
}

/*
 * A page that could not be written is set aside, as long as others can be. If none can, the disk is
 * at fault: then no page is evicted, but for a try after so many failures.
 */
static struct page *find_page(struct flash *flash, enum flash_bucket bucket)
{
    enum { FAILURES_PER_TRY = 64 };
    bool try = flash->nfailed == 0 || flash->nfailed % FAILURES_PER_TRY == 1;
    struct page *page = find_free(flash, bucket, false);

    if (!page && !try)
        page = find_free(flash, bucket, true);
    if (!page)
        page = evict_oldest(flash, bucket);
    return page ? page : find_free(flash, bucket, true);
}

/* --- which page is compacted ---------------------------------------------- */

static bool may_compact(const struct page *page)
{
    return page->state == PAGE_CLOSED && !page->compacting && !page->compacted &&
           page->bucket != FLASH_LOWTTL;
}

static struct page *find_fragmented(const struct flash *flash, double share)
{
    struct page *found = NULL;

    share *= (double)(flash->npages - flash->nfree) / flash->npages;
    for (uint32_t i = 0; i < flash->npages; i++) {
        struct page *page = &flash->pages[i];

        if (may_compact(page) && (double)page->nused < share * (double)page->nwritten &&
            (!found || page->nused < found->nused))
            found = page;
    }
    return found;
}

static bool is_compacting(const struct flash *flash)
{
    for (uint32_t i = 0; i < flash->npages; i++)
        if (flash->pages[i].compacting)
            return true;
    return false;
}

/* --- taking one into use --------------------------------------------------- */

/* A bucket other than that of compaction leaves it one page, so that it need not evict one. */
static bool leaves_none(const struct flash *flash, enum flash_bucket bucket)
{
    return bucket != FLASH_COMPACT && flash->npages >= SPARE_FROM && flash->nfailed == 0 &&
           !find_free(flash, bucket, false);
}

/* Whether a page would be evicted for the bucket, although compaction will free one. */
static bool must_wait(const struct flash *flash, enum flash_bucket bucket)
{
    uint32_t nspare = flash->npages >= SPARE_FROM;

    return flash->hold > 0 && bucket != FLASH_COMPACT && flash->nfailed == 0 &&
           count_free(flash, bucket) <= nspare &&
           (is_compacting(flash) || find_fragmented(flash, flash->hold));
}

struct page *page_take(struct flash *flash, enum flash_bucket bucket)
{
    struct page *page;

    pthread_mutex_lock(&flash->lock);
    page = must_wait(flash, bucket) ? NULL : find_page(flash, bucket);
    if (page) {
        flash->last_version += flash->last_version == UINT32_MAX ? 2 : 1;
        flash->nfree--;
        flash->counts.page_allocs++;
        page->state = PAGE_OPEN;
        page->bucket = bucket;
        __atomic_store_n(&page->open, bucket + 1u, __ATOMIC_RELAXED);
        set_version(page, flash->last_version);
        if (leaves_none(flash, bucket))
            evict_oldest(flash, bucket);
    }
    pthread_mutex_unlock(&flash->lock);
    return page;
}

static void reclaim_if_empty(struct flash *flash, struct page *page)
{
    if (page->state == PAGE_CLOSED && !page->compacting && page->nobjects == 0)
        set_free(flash, page);
}

void page_close(struct flash *flash, struct page *page)
{
    pthread_mutex_lock(&flash->lock);
    page->state = PAGE_CLOSED;
    __atomic_store_n(&page->open, 0, __ATOMIC_RELAXED);
    reclaim_if_empty(flash, page);
    pthread_mutex_unlock(&flash->lock);
}

/* That several failed in a row was the fault of the disk, and not of their pages. */
void page_written(struct flash *flash, struct page *page)
{
    pthread_mutex_lock(&flash->lock);
    for (uint32_t i = 0; flash->nfailed > 1 && i < flash->npages; i++)
        flash->pages[i].failed = false;
    flash->nfailed = 0;
    page->failed = false;
    pthread_mutex_unlock(&flash->lock);
}

void page_discard(struct flash *flash, struct page *page)
{
    pthread_mutex_lock(&flash->lock);
    page->failed = true;
    flash->nfailed++;
    __atomic_store_n(&page->open, 0, __ATOMIC_RELAXED);
    evict(flash, page);
    pthread_mutex_unlock(&flash->lock);
}

void page_count_object(struct flash *flash, struct page *page, uint32_t nbytes)
{
    pthread_mutex_lock(&flash->lock);
    page->nobjects++;
    page->nused += frame_bytes(nbytes);
    page->nwritten += frame_bytes(nbytes);
    flash->counts.objects_written++;
    flash->counts.bytes_written += frame_bytes(nbytes);
    pthread_mutex_unlock(&flash->lock);
}

void flash_drop(struct flash *flash, const struct flash_at *at, uint32_t nbytes)
{
    struct page *page = &flash->pages[at->page];

    pthread_mutex_lock(&flash->lock);
    if (page->version == at->version) {
        page->nobjects--;
        page->nused -= frame_bytes(nbytes);
        reclaim_if_empty(flash, page);
    }
    pthread_mutex_unlock(&flash->lock);
}

void flash_share(struct flash *flash, const struct flash_at *at, uint32_t nbytes)
{
    struct page *page = &flash->pages[at->page];

    pthread_mutex_lock(&flash->lock);
    if (page->version == at->version) {
        page->nobjects++;
        page->nused += frame_bytes(nbytes);
    }
    pthread_mutex_unlock(&flash->lock);
}

bool flash_is_there(const struct flash *flash, const struct flash_at *at)
{
    return page_version(&flash->pages[at->page]) == at->version;
}

/* --- compaction --------------------------------------------------------- */

static struct page *begin_compacting(struct page *page)
{
    if (page)
        page->compacting = true;
    return page;
}

struct page *page_take_fragmented(struct flash *flash, double share)
{
    struct page *page;

    pthread_mutex_lock(&flash->lock);
    page = begin_compacting(find_fragmented(flash, share));
    pthread_mutex_unlock(&flash->lock);
    return page;
}

struct page *page_take_oldest(struct flash *flash)
{
    struct page *found = NULL;

    pthread_mutex_lock(&flash->lock);
    for (uint32_t i = 0; i < flash->npages; i++) {
        struct page *page = &flash->pages[i];

        if (may_compact(page) && (!found || page->version < found->version))
            found = page;
    }
    begin_compacting(found);
    pthread_mutex_unlock(&flash->lock);
    return found;
}

void flash_hold(struct flash *flash, double share)
{
    pthread_mutex_lock(&flash->lock);
    flash->hold = share;
    pthread_mutex_unlock(&flash->lock);
}

void page_compacted(struct flash *flash, struct page *page)
{
    pthread_mutex_lock(&flash->lock);
    page->compacting = false;
    page->compacted = true;
    reclaim_if_empty(flash, page);
    pthread_mutex_unlock(&flash->lock);
}

/* --- statistics --------------------------------------------------------- */

void flash_stats(struct flash *flash, struct flash_stats *out)
{
    pthread_mutex_lock(&flash->lock);
    *out = flash->counts;
    out->pages_free = flash->nfree;
    out->pages_used = flash->npages - flash->nfree;
    for (uint32_t i = 0; i < flash->npages; i++) {
        out->objects_used += flash->pages[i].nobjects;
        out->bytes_used += flash->pages[i].nused;
    }
    pthread_mutex_unlock(&flash->lock);
    out->bytes_fragmented = out->pages_used * flash->config.page_bytes - out->bytes_used;
    out->limit_maxbytes = (uint64_t)flash->npages * flash->config.page_bytes;
    out->objects_read = __atomic_load_n(&flash->objects_read, __ATOMIC_RELAXED);
    out->bytes_read = __atomic_load_n(&flash->bytes_read, __ATOMIC_RELAXED);
    out->io_queue = __atomic_load_n(&flash->queue.nreads, __ATOMIC_RELAXED);
}

void flash_reset_stats(struct flash *flash)
{
    pthread_mutex_lock(&flash->lock);
    flash->counts = (struct flash_stats){0};
    pthread_mutex_unlock(&flash->lock);
    __atomic_store_n(&flash->objects_read, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&flash->bytes_read, 0, __ATOMIC_RELAXED);
}

uint32_t flash_npages(const struct flash *flash)
{
    return flash->npages;
}

uint32_t flash_nfree(struct flash *flash)
{
    uint32_t nfree;

    pthread_mutex_lock(&flash->lock);
    nfree = flash->nfree;
    pthread_mutex_unlock(&flash->lock);
    return nfree;
}

void flash_page_stats(struct flash *flash, uint32_t index, struct flash_page_stats *out)
{
    const struct page *page = &flash->pages[index];

    pthread_mutex_lock(&flash->lock);
    *out = (struct flash_page_stats){page->version, page->nused, page->bucket, page->home};
    pthread_mutex_unlock(&flash->lock);
}
