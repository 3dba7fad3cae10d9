/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bpf/shared/layout.h"

enum {
    MAX_LEVELS = 32,
    STAT_BYTES = 16384, /* of memory.stat */
    RESERVE_PART = 16,  /* of a limit, */
    RESERVE_LEAST = 8 << 20,
    RESERVE_MOST = 64 << 20,
    MORE_AGAIN = 8 << 20,
};

/* The file names of one cgroup version. */
struct dialect {
    const char *used, *limit, *soft_limit; /* NULL: none */
    const char *cache[2];                  /* lines of memory.stat: reclaimable page cache */
};

static const struct dialect dialects[] = {
    [1] = {"memory.usage_in_bytes",
           "memory.limit_in_bytes",
           NULL,
           {"\ntotal_inactive_file ", "\ntotal_active_file "}},
    [2] = {"memory.current", "memory.max", "memory.high", {"\ninactive_file ", "\nactive_file "}},
};

/* A cgroup that the process is in. */
struct level {
    int used, limit, soft_limit, stat; /* descriptors; -1: none */
};

struct cgroup {
    const struct dialect *dialect;
    size_t nlevels;
    struct level levels[MAX_LEVELS];
};

/* --- where it is ------------------------------------------------------------ */

struct place {
    int version;        /* 0: none was found */
    char path[4096];    /* of the process's cgroup, as /proc/self/cgroup has it */
    char root[4096];    /* the cgroup at the root of the mount */
    char mounted[4096]; /* the mount point */
};

/* Whether a comma-separated list has the word. */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strncmp(list, word, n) == 0 && (list[n] == ',' || list[n] == '\0'))
            return true;
    return false;
}

static FILE *open_in(const char *folder, const char *name)
{
    char *path;
    FILE *file;

    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return NULL;
    file = fopen(path, "re");
    free(path);
    return file;
}

/*
 * Lines such as "4:memory:/here" and "0::/here". memory: a version 1 line with "memory" takes
 * precedence.
 */
static void find_path(struct place *place, const char *proc, bool memory)
{
    FILE *file = open_in(proc, "cgroup");
    char line[4096 + 256];

    while (file && fgets(line, sizeof(line), file)) {
        char *words = strchr(line, ':');
        char *path = words ? strchr(words + 1, ':') : NULL;
        bool first;

        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        first = memory && has_word(words + 1, "memory");
        if (!first && (words[1] != '\0' || place->version == 1))
            continue;
        place->version = first ? 1 : 2;
        snprintf(place->path, sizeof(place->path), "%s", path);
    }
    if (file)
        fclose(file);
}

/* "31 23 0:28 ROOT MOUNTED rw - cgroup2 cgroup2 rw" */
static bool is_mount(const struct place *place, char *line, char **root, char **mounted)
{
    char *rest = strstr(line, " - "), *word = line, *type;
    int i;

    if (!rest)
        return false;
    *rest = '\0';
    rest[strcspn(rest + 3, "\n") + 3] = '\0';
    strtok_r(word, " ", &word);
    for (i = 0; i < 2; i++)
        strtok_r(NULL, " ", &word);
    *root = strtok_r(NULL, " ", &word);
    *mounted = strtok_r(NULL, " ", &word);
    type = strtok_r(rest + 3, " ", &word);
    if (!*root || !*mounted || !type)
        return false;
    strtok_r(NULL, " ", &word);
    return place->version == 1 ? strcmp(type, "cgroup") == 0 && has_word(word, "memory")
                               : strcmp(type, "cgroup2") == 0;
}

static bool find_mount(struct place *place, const char *proc)
{
    FILE *file = open_in(proc, "mountinfo");
    char line[3 * 4096], *root, *mounted;
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        found = is_mount(place, line, &root, &mounted);
        if (found) {
            snprintf(place->root, sizeof(place->root), "%s", root);
            snprintf(place->mounted, sizeof(place->mounted), "%s", mounted);
        }
    }
    if (file)
        fclose(file);
    return found;
}

/* --- its files -------------------------------------------------------------- */

static int open_file(int folder, const char *name)
{
    return name ? openat(folder, name, O_RDONLY | O_CLOEXEC) : -1;
}

static void close_file(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Skips the root cgroup, which has no limit and none of these files. */
static void add_level(struct cgroup *cgroup, const char *path)
{
    const struct dialect *dialect = cgroup->dialect;
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct level level = {
        .used = open_file(folder, dialect->used),
        .limit = open_file(folder, dialect->limit),
        .soft_limit = open_file(folder, dialect->soft_limit),
        .stat = open_file(folder, "memory.stat"),
    };

    close_file(folder);
    if (level.used >= 0 && level.limit >= 0 && level.stat >= 0) {
        cgroup->levels[cgroup->nlevels++] = level;
        return;
    }
    close_file(level.used);
    close_file(level.limit);
    close_file(level.soft_limit);
    close_file(level.stat);
}

/* The cgroup's path below the mount. A path outside the mount is not visible: the mount itself. */
static const char *relative(const struct place *place)
{
    size_t n = strcmp(place->root, "/") == 0 ? 0 : strlen(place->root);

    if (strncmp(place->path, place->root, n) != 0 || strncmp(place->path, "/..", 3) == 0)
        return "";
    return place->path[n] == '/' || place->path[n] == '\0' ? place->path + n : "";
}

static void add_levels(struct cgroup *cgroup, const struct place *place)
{
    size_t nmounted = strlen(place->mounted);
    char folder[2 * 4096];

    snprintf(folder, sizeof(folder), "%s%s", place->mounted, relative(place));
    while (cgroup->nlevels < MAX_LEVELS) {
        char *slash = strrchr(folder, '/');

        add_level(cgroup, folder);
        if (!slash || (size_t)(slash - folder) < nmounted)
            break;
        *slash = '\0';
    }
}

struct cgroup *cgroup_new(const char *proc)
{
    struct place *place = calloc(1, sizeof(*place));
    struct cgroup *cgroup = calloc(1, sizeof(*cgroup));

    if (place && cgroup) {
        find_path(place, proc, true);
        if (place->version && find_mount(place, proc)) {
            cgroup->dialect = &dialects[place->version];
            add_levels(cgroup, place);
        }
    }
    free(place);
    if (cgroup && cgroup->nlevels == 0) {
        free(cgroup);
        return NULL;
    }
    return cgroup;
}

void cgroup_free(struct cgroup *cgroup)
{
    size_t i;

    for (i = 0; cgroup && i < cgroup->nlevels; i++) {
        close_file(cgroup->levels[i].used);
        close_file(cgroup->levels[i].limit);
        close_file(cgroup->levels[i].soft_limit);
        close_file(cgroup->levels[i].stat);
    }
    free(cgroup);
}

int cgroup_open(const char *proc)
{
    struct place *place = calloc(1, sizeof(*place));
    int fd = place ? -ENOENT : -ENOMEM;
    char folder[2 * 4096];
    struct statfs about;

    if (place)
        find_path(place, proc, false);
    if (place && place->version && find_mount(place, proc)) {
        snprintf(folder, sizeof(folder), "%s%s", place->mounted, relative(place));
        fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
    }
    if (fd >= 0 && (fstatfs(fd, &about) || about.f_type != CGROUP2_SUPER_MAGIC)) {
        close(fd); /* something else is mounted over it */
        fd = -ENOENT;
    }
    free(place);
    return fd;
}

/* --- reading the files ------------------------------------------------------- */

static size_t read_text(int fd, char *text, size_t size)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* The largest number for "max" and for a file that cannot be read. */
static uint64_t read_number(int fd)
{
    char text[64], *end;
    uint64_t number;

    read_text(fd, text, sizeof(text));
    number = strtoull(text, &end, 10);
    return end == text ? UINT64_MAX : number;
}

static uint64_t limit_of(const struct level *level)
{
    uint64_t limit = read_number(level->limit), soft = read_number(level->soft_limit);

    return soft < limit ? soft : limit;
}

static uint64_t cache_of(const struct cgroup *cgroup, const struct level *level)
{
    char text[STAT_BYTES];
    uint64_t sum = 0;
    size_t i;

    text[0] = '\n'; /* before the first line too */
    read_text(level->stat, text + 1, sizeof(text) - 1);
    for (i = 0; i < sizeof(cgroup->dialect->cache) / sizeof(cgroup->dialect->cache[0]); i++) {
        const char *line = strstr(text, cgroup->dialect->cache[i]);

        if (line)
            sum += strtoull(line + strlen(cgroup->dialect->cache[i]), NULL, 10);
    }
    return sum;
}

static uint64_t reserve_of(uint64_t limit)
{
    uint64_t part = limit / RESERVE_PART;

    return part < RESERVE_LEAST ? RESERVE_LEAST : part > RESERVE_MOST ? RESERVE_MOST : part;
}

static bool level_has(const struct cgroup *cgroup, const struct level *level, uint64_t nbytes)
{
    uint64_t limit = limit_of(level), used = read_number(level->used), cache;

    if (limit >= INT64_MAX / 2 || used == UINT64_MAX) /* version 1 has a number for no limit */
        return true;
    if (used + nbytes + reserve_of(limit) <= limit)
        return true;
    cache = cache_of(cgroup, level);
    return used - (cache < used ? cache : used) + nbytes + reserve_of(limit) <= limit;
}

bool cgroup_has_room(const struct cgroup *cgroup, uint64_t nbytes)
{
    size_t i;

    for (i = 0; cgroup && i < cgroup->nlevels; i++)
        if (!level_has(cgroup, &cgroup->levels[i], nbytes))
            return false;
    return true;
}

bool cgroup_has_room_for_extent(const struct cgroup *cgroup, uint32_t index, uint64_t unused,
                                unsigned int refused)
{
    uint64_t more = refused & CGROUP_EXTENT ? MORE_AGAIN : 0;

    return index == 0 || cgroup_has_room(cgroup, MC_EXTENT_BYTES + unused + more);
}

bool cgroup_has_room_for_table(const struct cgroup *cgroup, uint32_t index)
{
    return index == 0 || index == MC_OVERFLOW_TABLE || cgroup_has_room(cgroup, MC_TABLE_BYTES);
}

bool cgroup_is_limited(const struct cgroup *cgroup)
{
    size_t i;

    for (i = 0; cgroup && i < cgroup->nlevels; i++)
        if (limit_of(&cgroup->levels[i]) < INT64_MAX / 2)
            return true;
    return false;
}

bool cgroup_shortage_begins(unsigned int *refused, enum cgroup_kind kind)
{
    return __atomic_fetch_or(refused, kind, __ATOMIC_RELAXED) == 0;
}

bool cgroup_shortage_ends(unsigned int *refused, enum cgroup_kind kind)
{
    /* Room for a heap extent is room for a table extent. */
    unsigned int found = kind == CGROUP_EXTENT ? CGROUP_EXTENT | CGROUP_TABLE : CGROUP_TABLE;

    unsigned int before = __atomic_fetch_and(refused, ~found, __ATOMIC_RELAXED);

    return before != 0 && (before & ~found) == 0;
}
