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

/* Visits the objects of a page that was taken; NULL: none was. */
static bool walk_page(struct flash *flash, struct page *page, flash_visit *visit, void *context)
{
    uint32_t size = flash->config.buffer_bytes;
    struct walk walk = {.flash = flash, .page = page, .visit = visit, .context = context};
    struct iovec iov;
    bool whole;

    if (!page)
        return false;
    walk.bytes = malloc(size);
    whole = walk.bytes != NULL;
    iov = (struct iovec){walk.bytes, size};
    walk.version = page_version(page);
    for (; whole && walk.base < flash->config.page_bytes; walk.base += size)
        whole = page_read(page, &iov, 1, walk.base) == 0 && walk_buffer(&walk);
    page_compacted(flash, page);
    free(walk.bytes);
    return true;
}

bool flash_compact(struct flash *flash, double share, flash_visit *visit, void *context)
{
    return walk_page(flash, page_take_fragmented(flash, share), visit, context);
}

bool flash_compact_oldest(struct flash *flash, flash_visit *visit, void *context)
{
    return walk_page(flash, page_take_oldest(flash), visit, context);
}
