/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/authfile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum { FILE_MAX = 64 * 1024 };

struct authfile {
    pthread_mutex_t lock;
    struct auth_table table;
    char path[];
};

/* --- entries -------------------------------------------------------------- */

bool auth_entry_make(struct auth_entry *entry, struct slice user, struct slice password)
{
    *entry = (struct auth_entry){0};
    if (user.len > AUTH_ENTRY_MAX || password.len > AUTH_ENTRY_MAX ||
        user.len + 1 + password.len > AUTH_ENTRY_MAX)
        return false;
    if (user.len > 0)
        memcpy(entry->text, user.ptr, user.len);
    entry->text[user.len] = ':';
    if (password.len > 0)
        memcpy(entry->text + user.len + 1, password.ptr, password.len);
    entry->nuser = (uint16_t)user.len;
    entry->len = (uint16_t)(user.len + 1 + password.len);
    return true;
}

bool auth_entry_parse(struct auth_entry *entry, struct slice line)
{
    const char *colon = line.len > 0 ? memchr(line.ptr, ':', line.len) : NULL;
    size_t nuser = colon ? (size_t)(colon - line.ptr) : 0;

    if (!colon)
        return false;
    return auth_entry_make(entry, (struct slice){line.ptr, nuser},
                           (struct slice){colon + 1, line.len - nuser - 1});
}

bool auth_entry_equal(const struct auth_entry *a, const struct auth_entry *b)
{
    unsigned int different = (unsigned int)(a->len ^ b->len) | (unsigned int)(a->nuser ^ b->nuser);
    size_t i;

    for (i = 0; i < sizeof(a->text); i++) {
        different |= (unsigned int)(a->text[i] ^ b->text[i]);
        /*
         * Hides from the compiler that the value never becomes zero again: it must not leave early.
         */
        __asm__ volatile("" : "+r"(different));
    }
    return different == 0;
}

/* --- files ---------------------------------------------------------------- */

bool auth_next_line(struct slice *text, struct slice *line)
{
    const char *newline;

    if (text->len == 0)
        return false;
    newline = memchr(text->ptr, '\n', text->len);
    line->ptr = text->ptr;
    line->len = newline ? (size_t)(newline - text->ptr) : text->len;
    text->ptr += line->len + (newline ? 1 : 0);
    text->len -= line->len + (newline ? 1 : 0);
    if (line->len > 0 && line->ptr[line->len - 1] == '\r')
        line->len--;
    return true;
}

void auth_forget(void *bytes, size_t len)
{
    if (bytes) {
        explicit_bzero(bytes, len);
        free(bytes);
    }
}

/* 0 or -errno. */
static int read_all(int fd, char *bytes, size_t max, size_t *len)
{
    ssize_t n;

    *len = 0;
    while ((n = read(fd, bytes + *len, max + 1 - *len)) != 0) {
        if (n > 0)
            *len += (size_t)n;
        else if (errno != EINTR)
            return -errno;
        if (*len > max)
            return -EBUSY;
    }
    return 0;
}

char *auth_read(const char *path, size_t max, size_t *len)
{
    /* Non-blocking, so that the open of a FIFO does not wait for its writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    char *bytes = NULL;
    int error;

    if (fd < 0)
        return NULL;
    error = fstat(fd, &status) != 0 ? -errno : S_ISREG(status.st_mode) ? 0 : -EISDIR;
    if (error == 0 && (uint64_t)status.st_size > max)
        error = -EFBIG;
    if (error == 0) {
        max = (size_t)status.st_size;
        bytes = malloc(max + 1);
        error = bytes ? read_all(fd, bytes, max, len) : -ENOMEM;
    }
    close(fd);
    if (error != 0) {
        auth_forget(bytes, bytes ? *len : 0);
        errno = -error;
        return NULL;
    }
    return bytes;
}

const char *auth_table_parse(struct auth_table *table, struct slice text)
{
    struct slice line;

    *table = (struct auth_table){0};
    while (auth_next_line(&text, &line)) {
        if (table->n == AUTH_ENTRIES) {
            table->more = true;
            return NULL;
        }
        if (line.len > AUTH_ENTRY_MAX)
            return "has an entry of more than 255 bytes";
        if (!auth_entry_parse(&table->entries[table->n], line))
            return "has a malformed entry. Should be 'user:password'";
        table->n++;
    }
    return NULL;
}

/* Compares all entries, so that the time does not reveal which one matches. */
bool auth_table_has(const struct auth_table *table, struct slice user, struct slice password)
{
    struct auth_entry candidate;
    bool found = false;
    size_t i;

    if (user.len == 0 || password.len == 0 || !auth_entry_make(&candidate, user, password))
        return false;
    for (i = 0; i < AUTH_ENTRIES; i++)
        found |= auth_entry_equal(&table->entries[i], &candidate);
    explicit_bzero(&candidate, sizeof(candidate));
    return found;
}

/* --- the file of -Y ------------------------------------------------------- */

static bool load(const char *path, struct auth_table *table, char *error, size_t nerror)
{
    size_t len = 0;
    char *bytes = auth_read(path, FILE_MAX, &len);
    const char *wrong;

    if (!bytes) {
        const char *reason = errno == EISDIR  ? "Not a regular file"
                             : errno == EFBIG ? "More than 64 kilobytes"
                                              : strerror(errno);

        snprintf(error, nerror, "Could not open authfile [%s] for reading, error %s", path, reason);
        return false;
    }
    wrong = auth_table_parse(table, (struct slice){bytes, len});
    auth_forget(bytes, len);
    if (wrong) {
        snprintf(error, nerror, "Authfile [%s] %s", path, wrong);
        return false;
    }
    if (table->more) {
        log_write("Authfile [%s] has more than %d entries; the others are not used", path,
                  AUTH_ENTRIES);
    }
    return true;
}

struct authfile *authfile_new(const char *path, char *error, size_t nerror)
{
    size_t npath = strlen(path) + 1;
    struct authfile *file = calloc(1, sizeof(*file) + npath);

    if (!file) {
        snprintf(error, nerror, "no memory for the authfile");
        return NULL;
    }
    memcpy(file->path, path, npath);
    if (!load(path, &file->table, error, nerror) || pthread_mutex_init(&file->lock, NULL) != 0) {
        auth_forget(file, sizeof(*file));
        return NULL;
    }
    return file;
}

void authfile_free(struct authfile *file)
{
    if (file) {
        pthread_mutex_destroy(&file->lock);
        auth_forget(file, sizeof(*file));
    }
}

bool authfile_reload(struct authfile *file, char *error, size_t nerror)
{
    struct auth_table table;
    bool good = load(file->path, &table, error, nerror);

    if (good) {
        pthread_mutex_lock(&file->lock);
        file->table = table;
        pthread_mutex_unlock(&file->lock);
    }
    explicit_bzero(&table, sizeof(table));
    return good;
}

bool authfile_accepts(struct authfile *file, struct slice user, struct slice password)
{
    bool accepts;

    pthread_mutex_lock(&file->lock);
    accepts = auth_table_has(&file->table, user, password);
    pthread_mutex_unlock(&file->lock);
    return accepts;
}
