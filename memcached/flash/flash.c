/* SPDX-License-Identifier: BSD-3-Clause */
/* flash: opens, creates and closes the files. */
#include "flash/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/credentials.h"

bool flash_is_built_in(void)
{
    return true;
}

/* Allocates the blocks now, so that they are not missing later, where the file system can. */
static int allocate(int fd, uint64_t nbytes)
{
    if (ftruncate(fd, (off_t)nbytes) != 0)
        return -errno;
    if (fallocate(fd, 0, 0, (off_t)nbytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        return -errno;
    return 0;
}

/* 0 or -errno; -EPERM: it belongs to another user. On failure close_files closes the file. */
static int open_path(const struct flash_path *path, uint32_t page_bytes, struct file *file)
{
    enum { FLAGS = O_RDWR | O_CREAT | O_CLOEXEC };

    file->fd = open(path->name, FLAGS | O_EXCL, 0600);
    file->new = file->fd >= 0;
    if (!file->new &&errno == EEXIST)
        file->fd = open(path->name, FLAGS, 0600);
    if (file->fd < 0)
        return -errno;
    if (!credentials_trusts(file->fd))
        return -EPERM;
    if (flock(file->fd, LOCK_EX | LOCK_NB) != 0)
        return -errno;
    return allocate(file->fd, (uint64_t)path->npages * page_bytes);
}

/* A start that fails removes the files that it created. */
static void close_files(struct flash *flash)
{
    for (size_t i = 0; flash->files && i < flash->config.npaths; i++) {
        if (flash->files[i].new)
            unlink(flash->config.paths[i].name);
        if (flash->files[i].fd >= 0)
            close(flash->files[i].fd);
    }
}

static const char *reason(int error)
{
    return error == EWOULDBLOCK ? "in use by another server"
           : error == EPERM     ? "it belongs to another user"
                                : strerror(error);
}

static int open_paths(struct flash *flash, char *error, size_t nerror)
{
    const struct flash_config *config = &flash->config;
    struct page *page = flash->pages;

    for (size_t i = 0; i < config->npaths; i++) {
        const struct flash_path *path = &config->paths[i];
        int result = open_path(path, config->page_bytes, &flash->files[i]);

        if (result) {
            snprintf(error, nerror, "%s: %s", path->name, reason(-result));
            return result;
        }
        for (uint32_t n = 0; n < path->npages; n++) {
            *page++ = (struct page){
                .fd = flash->files[i].fd,
                .start = (uint64_t)n * config->page_bytes,
                .home = path->bucket,
            };
        }
    }
    return 0;
}

static struct flash *make(const struct flash_config *config)
{
    struct flash *flash = calloc(1, sizeof(*flash));

    if (!flash)
        return NULL;
    flash->config = *config;
    crc32c_init(&flash->crc32c);
    pthread_mutex_init(&flash->lock, NULL);
    queue_init(&flash->queue);
    write_buffers_init(flash);
    for (size_t i = 0; i < config->npaths; i++)
        flash->npages += config->paths[i].npages;
    flash->nfree = flash->npages;
    flash->files = calloc(config->npaths, sizeof(*flash->files));
    flash->pages = calloc(flash->npages, sizeof(*flash->pages));
    for (size_t i = 0; flash->files && i < config->npaths; i++)
        flash->files[i].fd = -1;
    return flash;
}

struct flash *flash_open(const struct flash_config *config, char *error, size_t nerror)
{
    struct flash *flash = make(config);

    if (!flash || !flash->files || !flash->pages) {
        snprintf(error, nerror, "out of memory");
        flash_close(flash);
        return NULL;
    }
    if (open_paths(flash, error, nerror) != 0) {
        flash_close(flash);
        return NULL;
    }
    return flash;
}

void flash_close(struct flash *flash)
{
    if (!flash)
        return;
    threads_stop(flash);
    close_files(flash);
    write_buffers_fini(flash);
    queue_fini(&flash->queue);
    pthread_mutex_destroy(&flash->lock);
    free(flash->files);
    free(flash->pages);
    free(flash);
}
