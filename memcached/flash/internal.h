/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal: what a flash store is made of. Private to this folder.
 *
 * A page is a row of buffers; objects do not cross from one to the next. An object is framed by its
 * length and its CRC and begins at a multiple of 8; a length of 0 says that the rest of the buffer
 * is empty.
 *
 * Lock order: writer of a bucket, then its buffer lock, then the pages lock. The queue's lock
 * stands alone.
 */
#ifndef FLASH_INTERNAL_H
#define FLASH_INTERNAL_H

#include <pthread.h>

#include "flash/crc32c.h"
#include "flash/flash.h"

struct flash_frame {
    uint32_t nbytes;
    uint32_t crc;
};

/* Bytes of a page that an object of so many bytes takes. */
static inline uint64_t frame_bytes(uint64_t nbytes)
{
    return (sizeof(struct flash_frame) + nbytes + 7) & ~(uint64_t)7;
}

enum page_state { PAGE_FREE, PAGE_OPEN, PAGE_CLOSED };

struct page {
    int fd;
    uint64_t start; /* in the file */
    enum flash_bucket home;
    /* Also read without a lock. It changes before the bytes of the page do. */
    uint32_t version; /* 0: empty */
    uint32_t open;    /* bucket + 1 while it is being filled, else 0 */
    /* Under the pages lock: */
    enum page_state state;
    enum flash_bucket bucket;
    bool compacting;
    bool compacted; /* has been: not again until it is reused */
    bool failed;    /* the last write to it did */
    uint32_t nobjects;
    uint64_t nused;    /* bytes, with frames */
    uint64_t nwritten; /* the same of all that was written to it */
};

/* What a bucket writes to: the page that it fills, and the part of it that is in memory. */
struct write_buffer {
    pthread_mutex_t writer; /* one writer at a time */
    pthread_rwlock_t lock;  /* of what follows but nfilled: a reader copies from the buffer */
    struct page *page;      /* NULL: none */
    uint32_t base;          /* of the buffer in the page: the bytes before it are in the file */
    uint32_t nfilled;       /* of the writer alone */
    char *bytes;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct flash_read *first, **last;
    uint32_t nreads; /* atomic for the statistics */
    bool stop;
};

struct file {
    int fd;   /* -1: not open */
    bool new; /* it was not there before; false once it is used */
};

struct flash {
    struct flash_config config;
    struct crc32c crc32c;
    bool no_nowait;     /* the file system has no RWF_NOWAIT; racy hint */
    struct file *files; /* of the paths */
    uint32_t npages;
    struct page *pages;
    struct write_buffer write_buffers[FLASH_BUCKETS];

    pthread_mutex_t lock; /* of the pages and what follows */
    uint32_t nfree;
    uint32_t last_version;
    uint32_t nfailed;          /* writes that failed in a row */
    double hold;               /* share below which a page is worth waiting for; 0: none is */
    struct flash_stats counts; /* counts that do not come from the pages */

    uint64_t objects_read, bytes_read; /* atomic */
    struct queue queue;
    pthread_t *threads;
    unsigned int nrunning;
};

/* pages.c */
/*
 * A free page for a bucket; if there is none, evicts the oldest. NULL: all are being filled, or
 * compaction will free one.
 */
struct page *page_take(struct flash *flash, enum flash_bucket bucket);
/* It is full. */
void page_close(struct flash *flash, struct page *page);
/* A write to the page has succeeded, */
void page_written(struct flash *flash, struct page *page);
/* or has failed: frees it together with its objects, which are lost. */
void page_discard(struct flash *flash, struct page *page);
void page_count_object(struct flash *flash, struct page *page, uint32_t nbytes);
struct page *page_take_fragmented(struct flash *flash, double share);
/* The oldest that can be compacted. */
struct page *page_take_oldest(struct flash *flash);
void page_compacted(struct flash *flash, struct page *page);

/* write.c */
void write_buffers_init(struct flash *flash);
void write_buffers_fini(struct flash *flash);

/* read.c */
void queue_init(struct queue *queue);
void queue_fini(struct queue *queue);
/* Ends the threads, once they have read what is queued. */
void threads_stop(struct flash *flash);
/* Bytes of a page that are in its file. 0 or -errno. */
int page_read(const struct page *page, const struct iovec *iov, int niov, uint32_t offset);

static inline uint32_t page_version(const struct page *page)
{
    return __atomic_load_n(&page->version, __ATOMIC_ACQUIRE);
}

#endif
