/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/trace/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/shared/layout.h"

enum {
    CALLS_DEEP = 4, /* of mc_share: mc_shared, the entry program, one of bpf/tcp */
    CALLS_WIDE = 16,
    MAPS_MAX = 64,
};

/* Maps by their names, of which the kernel keeps 15 bytes. */
static const struct {
    const char *name;
    int kind;
    size_t least; /* bytes of the value */
} counter_maps[] = {
    {"mc_scratch", TRACE_MAIN, TRACE_COUNTS * sizeof(uint64_t)},
    {"mc_tcp_counts", TRACE_TCP, TRACE_COUNTS * sizeof(uint64_t)},
    {"mc_chain", TRACE_CHAIN, TRACE_COUNTS * sizeof(uint64_t)},
};

static void visit(struct found *found, int program, unsigned int depth);

static void close_all(const int *fds, size_t n)
{
    while (n > 0)
        close(fds[--n]);
}

static uint32_t map_id(int fd)
{
    struct bpf_map_info info = {0};
    uint32_t ninfo = sizeof(info);

    return bpf_obj_get_info_by_fd(fd, &info, &ninfo) ? 0 : info.id;
}

/* Takes the descriptor over, unless the map is known or there is no place. */
static void add(int *fds, size_t *n, int fd, uint32_t id)
{
    size_t i;

    for (i = 0; i < *n; i++)
        if (map_id(fds[i]) == id)
            break;
    if (i == *n && i < TRACE_SERVERS)
        fds[(*n)++] = fd;
    else
        close(fd);
}

/*
 * The programs that an array of programs has. It is open no longer than that takes: before it is
 * closed the kernel does not empty it.
 */
static void visit_calls(struct found *found, int array, uint32_t n, unsigned int depth)
{
    uint32_t i, id;
    int program;

    for (i = 0; i < n && i < CALLS_WIDE; i++) {
        if (bpf_map_lookup_elem(array, &i, &id))
            continue;
        program = bpf_prog_get_fd_by_id(id);
        if (program < 0)
            continue;
        visit(found, program, depth + 1);
        close(program);
    }
}

static void visit_map(struct found *found, uint32_t id, unsigned int depth)
{
    struct bpf_map_info info = {0};
    uint32_t ninfo = sizeof(info);
    int fd = bpf_map_get_fd_by_id(id);
    size_t i;

    if (fd < 0)
        return;
    if (bpf_obj_get_info_by_fd(fd, &info, &ninfo))
        info.type = BPF_MAP_TYPE_UNSPEC;
    for (i = 0; i < TRACE_KINDS; i++)
        if (info.type == BPF_MAP_TYPE_PERCPU_ARRAY && info.value_size >= counter_maps[i].least &&
            strcmp(info.name, counter_maps[i].name) == 0) {
            add(found->counters[counter_maps[i].kind], &found->ncounters[counter_maps[i].kind], fd,
                id);
            return;
        }
    if (info.type == BPF_MAP_TYPE_ARRAY && info.value_size == sizeof(struct mc_control) &&
        strcmp(info.name, ".data.control") == 0) {
        found->has_own |= depth == 0;
        add(found->controls, &found->ncontrols, fd, id);
        return;
    }
    if (info.type == BPF_MAP_TYPE_PROG_ARRAY && depth < CALLS_DEEP)
        visit_calls(found, fd, info.max_entries, depth);
    close(fd);
}

/* Adds the maps of a program, and of those that it tail-calls. */
static void visit(struct found *found, int program, unsigned int depth)
{
    uint32_t maps[MAPS_MAX], i, ninfo = sizeof(struct bpf_prog_info);
    struct bpf_prog_info info = {.nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)maps};

    if (bpf_obj_get_info_by_fd(program, &info, &ninfo))
        return;
    if (depth == 0) {
        memcpy(found->name, info.name, sizeof(found->name));
        found->is_tc = info.type == BPF_PROG_TYPE_SCHED_CLS;
        /* BPF_PROG_TYPE_EXT: a member of libxdp's dispatcher. */
        if (!found->is_tc && info.type != BPF_PROG_TYPE_XDP && info.type != BPF_PROG_TYPE_EXT)
            return;
    }
    for (i = 0; i < info.nr_map_ids && i < MAPS_MAX; i++)
        visit_map(found, maps[i], depth);
}

/* The programs of all links, allocated; NULL: there is none, or no memory. */
static uint32_t *linked_programs(size_t *n)
{
    uint32_t *all = NULL, *more, id = 0, ninfo;
    struct bpf_link_info info;
    int fd;

    for (*n = 0; bpf_link_get_next_id(id, &id) == 0;) {
        fd = bpf_link_get_fd_by_id(id);
        if (fd < 0)
            continue;
        info = (struct bpf_link_info){0};
        ninfo = sizeof(info);
        if (bpf_obj_get_info_by_fd(fd, &info, &ninfo) == 0 &&
            (more = reallocarray(all, *n + 1, sizeof(*all))) != NULL) {
            all = more;
            all[(*n)++] = info.prog_id;
        }
        close(fd);
    }
    return all;
}

/* Whether a hook calls it, or may do so. */
static bool is_called(const struct found *found, const uint32_t *linked, size_t nlinked)
{
    size_t i;

    if (!found->has_own)
        return found->ncontrols != 0;
    for (i = 0; i < nlinked; i++)
        if (linked[i] == found->id)
            return true;
    return false;
}

int find_all(struct found found[FIND_MAX])
{
    size_t n = 0, nlinked;
    uint32_t *linked = linked_programs(&nlinked), id = 0;

    while (n < FIND_MAX && bpf_prog_get_next_id(id, &id) == 0) {
        found[n] = (struct found){.id = id, .program = bpf_prog_get_fd_by_id(id)};
        if (found[n].program < 0)
            continue; /* it has just ended */
        visit(&found[n], found[n].program, 0);
        if (is_called(&found[n], linked, nlinked))
            n++;
        else
            find_close(&found[n]);
    }
    free(linked);
    if (n == 0 && errno != ENOENT)
        return -errno;
    return (int)n;
}

void find_close(struct found *found)
{
    size_t i;

    if (found->program >= 0)
        close(found->program);
    for (i = 0; i < TRACE_KINDS; i++)
        close_all(found->counters[i], found->ncounters[i]);
    close_all(found->controls, found->ncontrols);
    *found = (struct found){.program = -1};
}

static bool read_control(int fd, struct mc_control *out)
{
    uint32_t zero = 0;

    return bpf_map_lookup_elem(fd, &zero, out) == 0;
}

void find_ports(const struct found *found, uint16_t ports[TRACE_PORTS])
{
    struct mc_control control;
    size_t i;

    memset(ports, 0, TRACE_PORTS * sizeof(*ports));
    for (i = 0; i < found->ncontrols; i++) {
        if (!read_control(found->controls[i], &control))
            continue;
        ports[2 * i] = control.port;
        ports[2 * i + 1] = (uint16_t)control.tcp_port;
    }
}
