/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flash: objects on flash storage, in files that are used as a log.
 *
 * An object is bytes to this layer, checked by a CRC32C. Files are divided into pages; a page is
 * filled from its start, through a write buffer, and becomes free as a whole: when none of its
 * objects is used any more, or when room is needed and it is the oldest. Each time it is filled
 * again it gets a new version, so that references to its former objects are recognised.
 *
 * Objects are sorted into buckets by how long they are expected to live; a page holds objects of
 * one bucket. A file may be reserved for the pages of a bucket.
 *
 * Threads. Any call may come from any thread. Only flash_read_now, flash_read_later, flash_is_there
 * and flash_drop never wait for the disk; flash_drop takes a lock for a moment.
 */
#ifndef FLASH_FLASH_H
#define FLASH_FLASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum flash_bucket { FLASH_DEFAULT, FLASH_COMPACT, FLASH_LOWTTL, FLASH_CHUNKED, FLASH_BUCKETS };

struct flash_path {
    const char *name;
    uint32_t npages;
    enum flash_bucket bucket; /* that the file is for; default: all without a file of theirs */
};

struct flash_config {
    const struct flash_path *paths;
    size_t npaths;
    uint32_t page_bytes;   /* a multiple of buffer_bytes */
    uint32_t buffer_bytes; /* bounds an object too */
    unsigned int nthreads; /* that read */
    unsigned int depth;    /* reads that a thread takes at once */
};

struct flash;

/* Whether this build has flash storage. */
bool flash_is_built_in(void);
/* Creates the files, or opens those that exist. NULL: `error` says why, and no file was created. */
struct flash *flash_open(const struct flash_config *config, char *error, size_t nerror);
/* Starts the threads; from then on the files stay. 0 or -errno. */
int flash_start(struct flash *flash);
/*
 * Ends the threads after all reads. Removes the files that flash_open created if there was no
 * flash_start. NULL is legal.
 */
void flash_close(struct flash *flash);

/* Where an object is. */
struct flash_at {
    uint32_t page;
    uint32_t version; /* of the page */
    uint32_t offset;
    uint32_t crc;
};

/* --- writing ------------------------------------------------------------ */

/*
 * Appends an object; may wait for the disk. False: there is no room, as flash_hold says, or writing
 * failed, or the object is longer than a buffer.
 */
bool flash_write(struct flash *flash, enum flash_bucket bucket, const struct iovec *iov, int niov,
                 struct flash_at *at);
/* One user fewer of the object. nbytes: its length. */
void flash_drop(struct flash *flash, const struct flash_at *at, uint32_t nbytes);
/* One user more of the object, which calls flash_drop as well. */
void flash_share(struct flash *flash, const struct flash_at *at, uint32_t nbytes);
/* Whether the object's page still holds it. */
bool flash_is_there(const struct flash *flash, const struct flash_at *at);

/* --- reading ------------------------------------------------------------ */

enum flash_result {
    FLASH_READ,
    FLASH_GONE, /* its page has been reused */
    FLASH_BAD,  /* the bytes are not those that were written, or cannot be read */
};

/* A read; the memory is the caller's, and must stay until the read has ended. */
struct flash_read {
    struct flash_at at;
    const struct iovec *iov; /* where it goes: as many bytes as the object has */
    int niov;
    enum flash_result result;
    void (*done)(struct flash_read *read); /* of flash_read_later, in some thread */
    struct flash_read *next;
};

/* Reads without waiting for the disk: false if the object is not in memory. */
bool flash_read_now(struct flash *flash, struct flash_read *read);
/* Queues it for the threads. */
void flash_read_later(struct flash *flash, struct flash_read *read);
/* Reads it, and waits for the disk. */
void flash_read_wait(struct flash *flash, struct flash_read *read);

/* --- compaction --------------------------------------------------------- */

/* Returns whether to go on. */
typedef bool flash_visit(void *context, const struct flash_at *at, const char *bytes,
                         uint32_t nbytes);
/*
 * Takes the page with the fewest used bytes of those whose used part is below a threshold: `share`
 * times the part of the pages that is not free, so that the fuller the files are, the fuller pages
 * are taken. Calls the visitor with every object that was written to the page, used or not; the
 * visitor writes the used ones elsewhere and drops them here. False: there is no such page.
 */
bool flash_compact(struct flash *flash, double share, flash_visit *visit, void *context);
/* flash_compact with the oldest page, however much of it is used. */
bool flash_compact_oldest(struct flash *flash, flash_visit *visit, void *context);
/*
 * Until the next call flash_write gives up no page as long as flash_compact with this share has one
 * to take or is at one: what it would write has to wait. 0: it gives up the oldest page at once.
 */
void flash_hold(struct flash *flash, double share);

/* --- statistics --------------------------------------------------------- */

struct flash_stats {
    uint64_t page_allocs, page_evictions, page_reclaims, pages_free, pages_used;
    uint64_t objects_evicted, objects_read, objects_written, objects_used;
    uint64_t bytes_evicted, bytes_written, bytes_read, bytes_used, bytes_fragmented;
    uint64_t limit_maxbytes, io_queue;
};
void flash_stats(struct flash *flash, struct flash_stats *out);
/* Sets all counters to 0, but not the present use. */
void flash_reset_stats(struct flash *flash);
uint32_t flash_npages(const struct flash *flash);
/* Pages that hold nothing. */
uint32_t flash_nfree(struct flash *flash);

struct flash_page_stats {
    uint32_t version;
    uint64_t bytes; /* used */
    enum flash_bucket bucket, free_bucket;
};
void flash_page_stats(struct flash *flash, uint32_t page, struct flash_page_stats *out);

#endif
