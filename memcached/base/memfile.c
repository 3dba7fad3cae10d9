/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/anonymous.h"
#include "base/credentials.h"
#include "bpf/shared/layout.h"

struct memfile {
    struct provider provider;
    struct provider *inner, *anonymous; /* one of them, for memory that is not in the file */
    int fd;
    uint32_t nkept; /* extents that the file holds */
    uint32_t nmapped;
    void *extents[MC_MAX_EXTENTS]; /* the inner provider's */
};

static struct memfile *memfile_of(struct provider *provider)
{
    return (struct memfile *)provider;
}

/* Reads a whole extent. 0 or -errno; bytes beyond the end of the file stay unchanged. */
static int copy_in(int fd, char *to, off_t offset)
{
    for (size_t done = 0; done < MC_EXTENT_BYTES;) {
        ssize_t n = pread(fd, to + done, MC_EXTENT_BYTES - done, offset + (off_t)done);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return 0;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int copy_out(int fd, const char *from, off_t offset)
{
    for (size_t done = 0; done < MC_EXTENT_BYTES;) {
        ssize_t n = pwrite(fd, from + done, MC_EXTENT_BYTES - done, offset + (off_t)done);

        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/*
 * Blocks are allocated here: a full file system is an error now, and not a SIGBUS later. On an
 * error it gives back what it has allocated.
 */
static int map_file(const struct memfile *memfile, uint32_t index, void *addr)
{
    off_t offset = (off_t)index * MC_EXTENT_BYTES;
    int populate = index < memfile->nkept ? MAP_POPULATE : 0;
    int error = posix_fallocate(memfile->fd, offset, MC_EXTENT_BYTES);

    if (error && index >= memfile->nkept && ftruncate(memfile->fd, offset) != 0)
        return -errno;
    if (error)
        return -error;
    return mmap(addr, MC_EXTENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | populate,
                memfile->fd, offset) == MAP_FAILED
               ? -errno
               : 0;
}

static int map_extent(struct provider *provider, uint32_t index, void *addr)
{
    struct memfile *memfile = memfile_of(provider);
    int error;

    if (!memfile->inner)
        return map_file(memfile, index, addr);
    error = memfile->inner->extent(memfile->inner, index, addr);
    if (error)
        return error;
    memfile->extents[index] = addr;
    memfile->nmapped = index + 1;
    return index < memfile->nkept ? copy_in(memfile->fd, addr, (off_t)index * MC_EXTENT_BYTES) : 0;
}

static struct provider *others(const struct memfile *memfile)
{
    return memfile->inner ? memfile->inner : memfile->anonymous;
}

static int map_table(struct provider *provider, uint32_t index, void *addr)
{
    struct provider *other = others(memfile_of(provider));

    return other->table(other, index, addr);
}

static struct mc_control *get_control(struct provider *provider)
{
    struct provider *other = others(memfile_of(provider));

    return other->control(other);
}

/* Opened and locked, or -errno; -EPERM: it belongs to another user. */
static int open_locked(const char *path, uint32_t *nkept)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat stat;

    if (fd < 0)
        return -errno;
    if (!credentials_trusts(fd)) {
        close(fd);
        return -EPERM;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &stat) != 0) {
        int error = errno;

        close(fd);
        return -error;
    }
    *nkept = (uint32_t)(stat.st_size / MC_EXTENT_BYTES);
    return fd;
}

struct provider *memfile_open(const char *path, struct provider *inner)
{
    struct memfile *memfile = calloc(1, sizeof(*memfile));

    if (!memfile)
        return NULL;
    memfile->provider =
        (struct provider){.extent = map_extent, .table = map_table, .control = get_control};
    memfile->inner = inner;
    memfile->anonymous = inner ? NULL : anonymous_new(false);
    memfile->fd = inner || memfile->anonymous ? open_locked(path, &memfile->nkept) : -ENOMEM;
    if (memfile->fd < 0) {
        int error = -memfile->fd;

        anonymous_free(memfile->anonymous);
        free(memfile);
        errno = error;
        return NULL;
    }
    return &memfile->provider;
}

int memfile_clear(struct provider *provider)
{
    struct memfile *memfile = memfile_of(provider);

    memfile->nkept = 0;
    return ftruncate(memfile->fd, 0) == 0 ? 0 : -errno;
}

uint32_t memfile_kept(struct provider *provider)
{
    return memfile_of(provider)->nkept;
}

int memfile_save(struct provider *provider)
{
    struct memfile *memfile = memfile_of(provider);
    int error = 0;

    for (uint32_t i = 0; i < memfile->nmapped && !error; i++)
        error = copy_out(memfile->fd, memfile->extents[i], (off_t)i * MC_EXTENT_BYTES);
    /* Changes through a mapping too. */
    if (!error && fsync(memfile->fd) != 0)
        error = -errno;
    return error;
}

void memfile_close(struct provider *provider)
{
    struct memfile *memfile = memfile_of(provider);

    if (!provider)
        return;
    close(memfile->fd);
    anonymous_free(memfile->anonymous);
    free(memfile);
}
