/* SPDX-License-Identifier: BSD-3-Clause */
/* none: a build without flash storage. flash_open fails, so the other functions are not called. */
#include <errno.h>
#include <stdio.h>

#include "flash/flash.h"

bool flash_is_built_in(void)
{
    return false;
}

struct flash *flash_open(const struct flash_config *config, char *error, size_t nerror)
{
    (void)config;
    snprintf(error, nerror, "flash storage is not built in");
    return NULL;
}

int flash_start(struct flash *flash)
{
    (void)flash;
    return -ENOSYS;
}

void flash_close(struct flash *flash)
{
    (void)flash;
}

bool flash_write(struct flash *flash, enum flash_bucket bucket, const struct iovec *iov, int niov,
                 struct flash_at *at)
{
    (void)flash, (void)bucket, (void)iov, (void)niov, (void)at;
    return false;
}

void flash_drop(struct flash *flash, const struct flash_at *at, uint32_t nbytes)
{
    (void)flash, (void)at, (void)nbytes;
}

void flash_share(struct flash *flash, const struct flash_at *at, uint32_t nbytes)
{
    (void)flash, (void)at, (void)nbytes;
}

bool flash_is_there(const struct flash *flash, const struct flash_at *at)
{
    (void)flash, (void)at;
    return false;
}

bool flash_read_now(struct flash *flash, struct flash_read *read)
{
    (void)flash;
    read->result = FLASH_GONE;
    return true;
}

void flash_read_later(struct flash *flash, struct flash_read *read)
{
    flash_read_now(flash, read);
    read->done(read);
}

void flash_read_wait(struct flash *flash, struct flash_read *read)
{
    flash_read_now(flash, read);
}

bool flash_compact(struct flash *flash, double share, flash_visit *visit, void *context)
{
    (void)flash, (void)share, (void)visit, (void)context;
    return false;
}

bool flash_compact_oldest(struct flash *flash, flash_visit *visit, void *context)
{
    (void)flash, (void)visit, (void)context;
    return false;
}

void flash_hold(struct flash *flash, double share)
{
    (void)flash, (void)share;
}

void flash_stats(struct flash *flash, struct flash_stats *out)
{
    (void)flash;
    *out = (struct flash_stats){0};
}

void flash_reset_stats(struct flash *flash)
{
    (void)flash;
}

uint32_t flash_npages(const struct flash *flash)
{
    (void)flash;
    return 0;
}

uint32_t flash_nfree(struct flash *flash)
{
    (void)flash;
    return 0;
}

void flash_page_stats(struct flash *flash, uint32_t page, struct flash_page_stats *out)
{
    (void)flash, (void)page;
    *out = (struct flash_page_stats){0};
}
