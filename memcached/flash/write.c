/* SPDX-License-Identifier: BSD-3-Clause */
/* write: objects go to a buffer, full buffers to the page's file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "flash/internal.h"

void fillers_init(struct flash *flash)
{
    for (int i = 0; i < FLASH_BUCKETS; i++) {
        struct filler *filler = &flash->fillers[i];

        pthread_mutex_init(&filler->writer, NULL);
        pthread_rwlock_init(&filler->lock, NULL);
    }
}

void fillers_fini(struct flash *flash)
{
    for (int i = 0; i < FLASH_BUCKETS; i++) {
        struct filler *filler = &flash->fillers[i];

        pthread_mutex_destroy(&filler->writer);
        pthread_rwlock_destroy(&filler->lock);
        free(filler->buffer);
    }
}

static int write_all(int fd, const char *bytes, size_t n, uint64_t at)
{
    while (n > 0) {
        ssize_t written = pwrite(fd, bytes, n, (off_t)at);

        if (written <= 0 && errno != EINTR)
            return written == 0 ? -EIO : -errno;
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
            at += (uint64_t)written;
        }
    }
    return 0;
}

/* From now on the bytes before `base` of the page are read from the file, not the buffer. */
static void set_page(struct filler *filler, struct page *page, uint32_t base)
{
    pthread_rwlock_wrlock(&filler->lock);
    filler->page = page;
    filler->base = base;
    pthread_rwlock_unlock(&filler->lock);
    filler->nfilled = 0;
}

/* Writes the buffer out. Under the writer's lock, and so are the following. */
static bool flush(struct flash *flash, struct filler *filler)
{
    uint32_t size = flash->config.buffer_bytes;
    struct page *page = filler->page;
    int error;

    memset(filler->buffer + filler->nfilled, 0, size - filler->nfilled);
    error = write_all(page->fd, filler->buffer, size, page->start + filler->base);
    if (error) {
        log_say("cannot write to flash: %s", strerror(-error));
        page_discard(flash, page);
        set_page(filler, NULL, 0);
        return false;
    }
    if (filler->base + size < flash->config.page_bytes) {
        set_page(filler, page, filler->base + size);
    } else {
        set_page(filler, NULL, 0);
        page_close(flash, page);
    }
    return true;
}

/* Room for n bytes in the buffer. */
static bool make_room(struct flash *flash, struct filler *filler, enum flash_bucket bucket,
                      uint64_t n)
{
    struct page *page;

    if (filler->page && filler->nfilled + n > flash->config.buffer_bytes && !flush(flash, filler))
        return false;
    if (filler->page)
        return true;
    if (!filler->buffer)
        filler->buffer = malloc(flash->config.buffer_bytes);
    page = filler->buffer ? page_take(flash, bucket) : NULL;
    if (page)
        set_page(filler, page, 0);
    return page != NULL;
}

static void append(struct flash *flash, struct filler *filler, const struct iovec *iov, int niov,
                   struct flash_at *at)
{
    char *start = filler->buffer + filler->nfilled;
    char *to = start + sizeof(struct flash_frame);
    struct flash_frame frame = {0};
    uint32_t nframe;

    for (int i = 0; i < niov; i++) {
        memcpy(to, iov[i].iov_base, iov[i].iov_len);
        frame.crc = crc32c(&flash->crc32c, frame.crc, to, iov[i].iov_len);
        frame.nbytes += (uint32_t)iov[i].iov_len;
        to += iov[i].iov_len;
    }
    memcpy(start, &frame, sizeof(frame));
    nframe = (uint32_t)frame_bytes(frame.nbytes);
    memset(to, 0, nframe - sizeof(frame) - frame.nbytes);
    *at = (struct flash_at){
        .page = (uint32_t)(filler->page - flash->pages),
        .version = filler->page->version,
        .offset = filler->base + filler->nfilled + (uint32_t)sizeof(frame),
        .crc = frame.crc,
    };
    filler->nfilled += nframe;
    page_count_object(flash, filler->page, frame.nbytes);
}

bool flash_write(struct flash *flash, enum flash_bucket bucket, const struct iovec *iov, int niov,
                 struct flash_at *at)
{
    struct filler *filler = &flash->fillers[bucket];
    uint64_t n = 0;
    bool room;

    for (int i = 0; i < niov; i++)
        n += iov[i].iov_len;
    if (frame_bytes(n) > flash->config.buffer_bytes)
        return false;
    pthread_mutex_lock(&filler->writer);
    room = make_room(flash, filler, bucket, frame_bytes(n));
    if (room)
        append(flash, filler, iov, niov, at);
    pthread_mutex_unlock(&filler->writer);
    return room;
}
