/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/credentials.h"
#include "base/log.h"
#include "base/memfile.h"
#include "store/store.h"

enum { META_MAX = 64 << 20 };

struct restart {
    char *path, *meta_path, *new_path;
    struct provider *provider;
    void *image;
    size_t nimage;
    size_t nreserved; /* bytes that FILE.meta may have */
};

static struct slice image_of(const struct restart *restart)
{
    return (struct slice){restart->image, restart->nimage};
}

static void drop_image(struct restart *restart)
{
    free(restart->image);
    restart->image = NULL;
    restart->nimage = 0;
}

/* Reads a file; NULL with errno. */
static void *read_file(const char *path, size_t *n)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char *bytes;

    if (!file)
        return NULL;
    if (!credentials_trusts(fd)) {
        fclose(file);
        errno = EPERM;
        return NULL;
    }
    bytes = malloc(META_MAX);
    if (bytes)
        *n = fread(bytes, 1, META_MAX, file);
    if (bytes && ferror(file)) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

/* 0 or -errno. */
static int write_file(const char *path, const void *bytes, size_t n)
{
    FILE *file = credentials_create(path, 0600);
    bool good;

    if (!file)
        return -errno;
    good = fwrite(bytes, 1, n, file) == n && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (fclose(file) != 0 || !good)
        return -(errno ? errno : EIO);
    return 0;
}

static bool make_names(struct restart *restart, const char *path)
{
    if (asprintf(&restart->meta_path, "%s.meta", path) < 0)
        restart->meta_path = NULL;
    if (asprintf(&restart->new_path, "%s.meta.new", path) < 0)
        restart->new_path = NULL;
    restart->path = strdup(path);
    return restart->path && restart->meta_path && restart->new_path;
}

static const char *reason(int error)
{
    return error == EWOULDBLOCK ? "another server uses it"
           : error == EPERM     ? "it belongs to another user"
                                : strerror(error);
}

/* Syncs the file's directory, to make renames and removals durable. */
static void sync_directory(const struct restart *restart)
{
    const char *end = strrchr(restart->path, '/');
    char *directory = end ? strndup(restart->path, (size_t)(end - restart->path) + 1) : NULL;
    int fd = open(directory ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(directory);
}

/* Reserves room for FILE.meta, before the items take it. */
static void reserve(const struct restart *restart)
{
    FILE *file = credentials_create(restart->new_path, 0600);
    int error = file ? posix_fallocate(fileno(file), 0, (off_t)restart->nreserved) : errno;

    if (error)
        log_write("[restart] no room for %s: %s", restart->meta_path, strerror(error));
    if (file)
        fclose(file);
}

static void remove_meta(const struct restart *restart)
{
    if (unlink(restart->meta_path) == 0)
        sync_directory(restart);
}

/* Finds the image that the last server saved. */
static void find_image(struct restart *restart)
{
    int64_t base_unix;
    rel_time last;

    restart->image = read_file(restart->meta_path, &restart->nimage);
    if (!restart->image && errno == ENOENT) {
        log_write("[restart] no metadata save file, starting with a clean cache");
    } else if (!restart->image) {
        log_write("[restart] cannot read %s: %s, starting with a clean cache", restart->meta_path,
                  reason(errno));
    } else if (!store_image_clock(image_of(restart), &base_unix, &last)) {
        log_write("[restart] corrupt metadata file %s, starting with a clean cache",
                  restart->meta_path);
        drop_image(restart);
    }
}

/* Discards image and items. 0 or -errno. */
static int clear(struct restart *restart)
{
    int error;

    remove_meta(restart);
    error = memfile_clear(restart->provider);
    if (!error)
        reserve(restart);
    return error;
}

static int open_memory(struct restart *restart, struct provider *memory, char *error, size_t nerror)
{
    int result;

    restart->provider = memfile_open(restart->path, memory);
    if (!restart->provider) {
        snprintf(error, nerror, "failed to open file for mmap: %s: %s", restart->path,
                 reason(errno));
        return -1;
    }
    find_image(restart);
    if (restart->image)
        return 0;
    result = clear(restart);
    if (result)
        snprintf(error, nerror, "cannot clear %s: %s", restart->path, strerror(-result));
    return result;
}

struct restart *restart_open(const char *path, struct provider *memory, uint64_t memory_limit,
                             char *error, size_t nerror)
{
    struct restart *restart = calloc(1, sizeof(*restart));

    if (restart)
        restart->nreserved = store_image_bytes(memory_limit);

    if (!restart || !make_names(restart, path)) {
        snprintf(error, nerror, "no memory");
        restart_close(restart);
        return NULL;
    }
    if (open_memory(restart, memory, error, nerror) != 0) {
        restart_close(restart);
        return NULL;
    }
    return restart;
}

struct provider *restart_provider(struct restart *restart)
{
    return restart->provider;
}

uint32_t restart_kept(struct restart *restart)
{
    return memfile_kept(restart->provider);
}

struct slice restart_image(const struct restart *restart, struct clock *clock)
{
    int64_t base_unix;
    rel_time last;

    if (restart->image && store_image_clock(image_of(restart), &base_unix, &last))
        clock_continue(clock, base_unix, last);
    return image_of(restart);
}

int restart_discard(struct restart *restart, const char *why)
{
    log_write("[restart] cannot take over %s: %s; starting with a clean cache", restart->path, why);
    drop_image(restart);
    return clear(restart);
}

void restart_consume(struct restart *restart)
{
    if (!restart->image)
        return;
    remove_meta(restart);
    reserve(restart);
}

void restart_save(struct restart *restart, struct store *store, rel_time now)
{
    void *image = NULL;
    size_t nimage = 0;
    int error = store_save(store, now, &image, &nimage);

    if (!error)
        error = memfile_save(restart->provider);
    if (!error)
        error = write_file(restart->new_path, image, nimage);
    if (!error && rename(restart->new_path, restart->meta_path) != 0)
        error = -errno;
    if (error)
        log_write("[restart] the cache is not kept: %s: %s", restart->meta_path, strerror(-error));
    else
        sync_directory(restart);
    free(image);
}

void restart_close(struct restart *restart)
{
    if (!restart)
        return;
    if (restart->provider)
        unlink(restart->new_path);
    memfile_close(restart->provider);
    free(restart->image);
    free(restart->path);
    free(restart->meta_path);
    free(restart->new_path);
    free(restart);
}
