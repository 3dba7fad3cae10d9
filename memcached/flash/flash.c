/* SPDX-License-Identifier: BSD-3-Clause */
/* flash: the files, and the life of it all. */
#include "flash/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

bool flash_is_built_in(void)
{
    return true;
}

/* Takes the room now, so that it is not missing later. Files of some systems can only be long. */
static int allocate(int fd, uint64_t nbytes)
{
    if (ftruncate(fd, (off_t)nbytes) != 0) {
        return -errno;
    }
    if (fallocate(fd, 0, 0, (off_t)nbytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
        return -errno;
    }
    return 0;
}

/* A descriptor or -errno. */
static int open_path(const struct flash_path *path, uint32_t page_bytes)
{
    int fd = open(path->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int error;

    if (fd < 0) {
        return -errno;
    }
    error = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
    if (!error) {
        error = allocate(fd, (uint64_t)path->npages * page_bytes);
    }
    if (error) {
        close(fd);
        return error;
    }
    return fd;
}

static int open_paths(struct flash *flash, char *error, size_t nerror)
{
    const struct flash_config *config = &flash->config;
    struct page *page = flash->pages;

    for (size_t i = 0; i < config->npaths; i++) {
        const struct flash_path *path = &config->paths[i];
        int fd = open_path(path, config->page_bytes);

        if (fd < 0) {
            snprintf(error, nerror, "%s: %s", path->name,
                     fd == -EWOULDBLOCK ? "in use by another server" : strerror(-fd));
            return fd;
        }
        flash->fds[i] = fd;
        for (uint32_t n = 0; n < path->npages; n++) {
            *page++ = (struct page){
                .fd = fd,
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

    if (!flash) {
        return NULL;
    }
    flash->config = *config;
    crc32c_init(&flash->crc32c);
    pthread_mutex_init(&flash->lock, NULL);
    queue_init(&flash->queue);
    fillers_init(flash);
    for (size_t i = 0; i < config->npaths; i++) {
        flash->npages += config->paths[i].npages;
    }
    flash->nfree = flash->npages;
    flash->fds = malloc(config->npaths * sizeof(*flash->fds));
    flash->pages = calloc(flash->npages, sizeof(*flash->pages));
    for (size_t i = 0; flash->fds && i < config->npaths; i++) {
        flash->fds[i] = -1;
    }
    return flash;
}

struct flash *flash_open(const struct flash_config *config, char *error, size_t nerror)
{
    struct flash *flash = make(config);

    if (!flash || !flash->fds || !flash->pages) {
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
    if (!flash) {
        return;
    }
    threads_stop(flash);
    for (size_t i = 0; flash->fds && i < flash->config.npaths; i++) {
        if (flash->fds[i] >= 0) {
            close(flash->fds[i]);
        }
    }
    fillers_fini(flash);
    queue_fini(&flash->queue);
    pthread_mutex_destroy(&flash->lock);
    free(flash->fds);
    free(flash->pages);
    free(flash);
}
