/* SPDX-License-Identifier: BSD-3-Clause */
/* write: objects go to a buffer, full buffers to the page's file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "flash/internal.h"

void write_buffers_init(struct flash *flash)
{
    for (int i = 0; i < FLASH_BUCKETS; i++) {
        struct write_buffer *buffer = &flash->write_buffers[i];

        pthread_mutex_init(&buffer->writer, NULL);
        pthread_rwlock_init(&buffer->lock, NULL);
    }
}

void write_buffers_fini(struct flash *flash)
{
    for (int i = 0; i < FLASH_BUCKETS; i++) {
        struct write_buffer *buffer = &flash->write_buffers[i];

        pthread_mutex_destroy(&buffer->writer);
        pthread_rwlock_destroy(&buffer->lock);
        free(buffer->bytes);
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
static void set_page(struct write_buffer *buffer, struct page *page, uint32_t base)
{
    pthread_rwlock_wrlock(&buffer->lock);
    buffer->page = page;
    buffer->base = base;
    pthread_rwlock_unlock(&buffer->lock);
    buffer->nfilled = 0;
}

/* Writes the buffer out. Under the writer's lock, and so are the following. */
static bool flush(struct flash *flash, struct write_buffer *buffer)
{
    uint32_t size = flash->config.buffer_bytes;
    struct page *page = buffer->page;
    int error;

    memset(buffer->bytes + buffer->nfilled, 0, size - buffer->nfilled);
    error = write_all(page->fd, buffer->bytes, size, page->start + buffer->base);
    if (error) {
        log_write("cannot write to flash: %s", strerror(-error));
        page_discard(flash, page);
        set_page(buffer, NULL, 0);
        return false;
    }
    page_written(flash, page);
    if (buffer->base + size < flash->config.page_bytes) {
        set_page(buffer, page, buffer->base + size);
    } else {
        set_page(buffer, NULL, 0);
        page_close(flash, page);
    }
    return true;
}

/* Room for n bytes in the buffer. */
static bool make_room(struct flash *flash, struct write_buffer *buffer, enum flash_bucket bucket,
                      uint64_t n)
{
    struct page *page;

    if (buffer->page && buffer->nfilled + n > flash->config.buffer_bytes && !flush(flash, buffer))
        return false;
    if (buffer->page)
        return true;
    if (!buffer->bytes)
        buffer->bytes = malloc(flash->config.buffer_bytes);
    page = buffer->bytes ? page_take(flash, bucket) : NULL;
    if (page)
        set_page(buffer, page, 0);
    return page != NULL;
}

static void append(struct flash *flash, struct write_buffer *buffer, const struct iovec *iov,
                   int niov, struct flash_at *at)
{
    char *start = buffer->bytes + buffer->nfilled;
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
        .page = (uint32_t)(buffer->page - flash->pages),
        .version = buffer->page->version,
        .offset = buffer->base + buffer->nfilled + (uint32_t)sizeof(frame),
        .crc = frame.crc,
    };
    buffer->nfilled += nframe;
    page_count_object(flash, buffer->page, frame.nbytes);
}

bool flash_write(struct flash *flash, enum flash_bucket bucket, const struct iovec *iov, int niov,
                 struct flash_at *at)
{
    struct write_buffer *buffer = &flash->write_buffers[bucket];
    uint64_t n = 0;
    bool room;

    for (int i = 0; i < niov; i++)
        n += iov[i].iov_len;
    if (frame_bytes(n) > flash->config.buffer_bytes)
        return false;
    pthread_mutex_lock(&buffer->writer);
    room = make_room(flash, buffer, bucket, frame_bytes(n));
    if (room)
        append(flash, buffer, iov, niov, at);
    pthread_mutex_unlock(&buffer->writer);
    return room;
}
