/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read: reads objects from the write buffer, from the kernel's page cache or, in threads that may
 * wait, from the disk.
 *
 * The version of the page is checked before and after: the bytes of a page change only after its
 * version.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flash/internal.h"

enum { IOV_BATCH = 1024 }; /* that a system call takes (UIO_MAXIOV) */

static uint64_t read_bytes(const struct flash_read *read)
{
    uint64_t n = 0;

    for (int i = 0; i < read->niov; i++)
        n += read->iov[i].iov_len;
    return n;
}

static bool is_intact(const struct flash *flash, const struct flash_read *read)
{
    uint32_t crc = 0;

    for (int i = 0; i < read->niov; i++)
        crc = crc32c(&flash->crc32c, crc, read->iov[i].iov_base, read->iov[i].iov_len);
    return crc == read->at.crc;
}

/* Checks the bytes that were read, and sets the result. */
static void verify(struct flash *flash, struct flash_read *read)
{
    /* The version is checked again after the bytes were read. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!flash_is_there(flash, &read->at)) {
        read->result = FLASH_GONE;
        return;
    }
    read->result = is_intact(flash, read) ? FLASH_READ : FLASH_BAD;
    __atomic_fetch_add(&flash->objects_read, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&flash->bytes_read, frame_bytes(read_bytes(read)), __ATOMIC_RELAXED);
}

/* The object may still be in a buffer. */
static bool read_buffered(struct flash *flash, struct flash_read *read)
{
    struct page *page = &flash->pages[read->at.page];
    uint32_t open = __atomic_load_n(&page->open, __ATOMIC_RELAXED);
    struct write_buffer *buffer;
    bool there;

    if (!open)
        return false;
    buffer = &flash->write_buffers[open - 1];
    pthread_rwlock_rdlock(&buffer->lock);
    there =
        buffer->page == page && read->at.offset >= buffer->base && flash_is_there(flash, &read->at);
    if (there) {
        const char *from = buffer->bytes + (read->at.offset - buffer->base);

        for (int i = 0; i < read->niov; i++) {
            memcpy(read->iov[i].iov_base, from, read->iov[i].iov_len);
            from += read->iov[i].iov_len;
        }
    }
    pthread_rwlock_unlock(&buffer->lock);
    return there;
}

/* One system call: for the rest of the first piece, or for whole pieces from the first on. */
static ssize_t read_some(const struct page *page, const struct iovec *iov, int niov, size_t done,
                         uint32_t offset)
{
    off_t at = (off_t)(page->start + offset);

    return done ? pread(page->fd, (char *)iov->iov_base + done, iov->iov_len - done, at)
                : preadv(page->fd, iov, niov < IOV_BATCH ? niov : IOV_BATCH, at);
}

int page_read(const struct page *page, const struct iovec *iov, int niov, uint32_t offset)
{
    size_t done = 0; /* bytes of the first piece */

    while (niov > 0) {
        ssize_t got = read_some(page, iov, niov, done, offset);

        if (got == 0)
            return -EIO;
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got > 0) {
            offset += (uint32_t)got;
            done += (size_t)got;
        }
        for (; niov > 0 && done >= iov->iov_len; iov++, niov--)
            done -= iov->iov_len;
    }
    return 0;
}

/* Reads from the kernel's page cache. */
static bool read_cached(struct flash *flash, struct flash_read *read)
{
    const struct page *page = &flash->pages[read->at.page];
    ssize_t got;

    if (__atomic_load_n(&flash->no_nowait, __ATOMIC_RELAXED) || read->niov > IOV_BATCH)
        return false;
    got = preadv2(page->fd, read->iov, read->niov, (off_t)(page->start + read->at.offset),
                  RWF_NOWAIT);
    if (got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
        __atomic_store_n(&flash->no_nowait, true, __ATOMIC_RELAXED);
    return got == (ssize_t)read_bytes(read);
}

bool flash_read_now(struct flash *flash, struct flash_read *read)
{
    if (!flash_is_there(flash, &read->at)) {
        read->result = FLASH_GONE;
        return true;
    }
    if (read_buffered(flash, read) || read_cached(flash, read)) {
        verify(flash, read);
        return true;
    }
    return false;
}

void flash_read_wait(struct flash *flash, struct flash_read *read)
{
    if (!flash_is_there(flash, &read->at))
        read->result = FLASH_GONE;
    else if (read_buffered(flash, read) ||
             page_read(&flash->pages[read->at.page], read->iov, read->niov, read->at.offset) == 0)
        verify(flash, read);
    else
        read->result = FLASH_BAD;
}

/* --- the threads --------------------------------------------------------- */

void queue_init(struct queue *queue)
{
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->filled, NULL);
    queue->last = &queue->first;
}

void queue_fini(struct queue *queue)
{
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->lock);
}

void flash_read_later(struct flash *flash, struct flash_read *read)
{
    struct queue *queue = &flash->queue;

    read->next = NULL;
    pthread_mutex_lock(&queue->lock);
    *queue->last = read;
    queue->last = &read->next;
    __atomic_fetch_add(&queue->nreads, 1, __ATOMIC_RELAXED);
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
}

/* Takes up to `depth` reads off the queue; NULL: it is empty, and the threads are to end. */
static struct flash_read *take_reads(struct queue *queue, unsigned int depth)
{
    struct flash_read *list, **end = &list;

    pthread_mutex_lock(&queue->lock);
    while (!queue->first && !queue->stop)
        pthread_cond_wait(&queue->filled, &queue->lock);
    list = queue->first;
    while (*end && depth-- > 0)
        end = &(*end)->next;
    queue->first = *end;
    *end = NULL;
    if (!queue->first)
        queue->last = &queue->first;
    pthread_mutex_unlock(&queue->lock);
    return list;
}

static void *run(void *context)
{
    struct flash *flash = context;
    struct flash_read *read, *next;

    while ((read = take_reads(&flash->queue, flash->config.depth)) != NULL) {
        for (; read; read = next) {
            next = read->next;
            flash_read_wait(flash, read);
            __atomic_fetch_sub(&flash->queue.nreads, 1, __ATOMIC_RELAXED);
            read->done(read);
        }
    }
    return NULL;
}

int flash_start(struct flash *flash)
{
    unsigned int n = flash->config.nthreads;

    for (size_t i = 0; i < flash->config.npaths; i++)
        flash->files[i].new = false;
    flash->threads = calloc(n, sizeof(*flash->threads));
    if (!flash->threads)
        return -ENOMEM;
    while (flash->nrunning < n) {
        int error = pthread_create(&flash->threads[flash->nrunning], NULL, run, flash);

        if (error)
            return -error;
        flash->nrunning++;
    }
    return 0;
}

void threads_stop(struct flash *flash)
{
    pthread_mutex_lock(&flash->queue.lock);
    flash->queue.stop = true;
    pthread_cond_broadcast(&flash->queue.filled);
    pthread_mutex_unlock(&flash->queue.lock);
    while (flash->nrunning > 0)
        pthread_join(flash->threads[--flash->nrunning], NULL);
    free(flash->threads);
}
