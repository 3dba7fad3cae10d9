/* SPDX-License-Identifier: BSD-3-Clause */
/* compact: walks over the objects of a page. */
#include <stdlib.h>
#include <string.h>

#include "flash/internal.h"

/* A walk over a page, one buffer's length at a time. */
struct walk {
    struct flash *flash;
    struct page *page;
    uint32_t version;
    char *bytes;
    uint32_t base;
    flash_visit *visit;
    void *context;
};

/* False: a frame is damaged, or the visitor returned false. */
static bool walk_buffer(const struct walk *walk)
{
    uint32_t size = walk->flash->config.buffer_bytes;
    uint32_t at = 0;

    while (size - at > sizeof(struct flash_frame)) {
        struct flash_frame frame;
        struct flash_at place;

        memcpy(&frame, walk->bytes + at, sizeof(frame));
        if (frame.nbytes == 0)
            return true;
        if (frame_bytes(frame.nbytes) > size - at ||
            crc32c(&walk->flash->crc32c, 0, walk->bytes + at + sizeof(frame), frame.nbytes) !=
                frame.crc)
            return false;
        place = (struct flash_at){
            .page = (uint32_t)(walk->page - walk->flash->pages),
            .version = walk->version,
            .offset = walk->base + at + (uint32_t)sizeof(frame),
            .crc = frame.crc,
        };
        if (!walk->visit(walk->context, &place, walk->bytes + at + sizeof(frame), frame.nbytes))
            return false;
        at += (uint32_t)frame_bytes(frame.nbytes);
    }
    return true;
}

/* Visits the objects of its page (NULL: there is none), and frees the memory to read into. */
static bool walk_page(struct walk *walk)
{
    uint32_t size = walk->flash->config.buffer_bytes;
    struct iovec iov = {walk->bytes, size};
    struct page *page = walk->page;
    bool whole = page != NULL;

    walk->version = page ? page_version(page) : 0;
    for (; whole && walk->base < walk->flash->config.page_bytes; walk->base += size)
        whole = page_read(page, &iov, 1, walk->base) == 0 && walk_buffer(walk);
    if (page)
        page_compacted(walk->flash, page);
    free(walk->bytes);
    return page != NULL;
}

/* Memory first: a page that was taken is not taken again. */
static struct walk begin_walk(struct flash *flash, flash_visit *visit, void *context)
{
    return (struct walk){.flash = flash,
                         .visit = visit,
                         .context = context,
                         .bytes = malloc(flash->config.buffer_bytes)};
}

bool flash_compact(struct flash *flash, double share, flash_visit *visit, void *context)
{
    struct walk walk = begin_walk(flash, visit, context);

    walk.page = walk.bytes ? page_take_fragmented(flash, share) : NULL;
    return walk_page(&walk);
}

bool flash_compact_oldest(struct flash *flash, flash_visit *visit, void *context)
{
    struct walk walk = begin_walk(flash, visit, context);

    walk.page = walk.bytes ? page_take_oldest(flash) : NULL;
    return walk_page(&walk);
}
