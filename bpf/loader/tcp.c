/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/loader/tcp.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/loader/loader.h"
#include "bpf/loader/object.h"
#include "bpf/loader/prog_array.h"
#include "bpf/shared/tcp.h"
#include "bpf/tcp/tcp.skel.h"

struct loader_tcp {
    struct tcp *skel;
    struct mc_tcp_slot *slots;
    size_t nslots;
    uint64_t *ended; /* ids of connections that the last sweep found closed, in ascending order */
    size_t nended;
};

/* Maps that both objects have, and use together; the others with the same names are their own. */
static const char *const shared[] = {"heap", "table", "scratch_map", ".data.control"};

static int share_maps(const struct loader *loader, const struct tcp *skel)
{
    size_t i;
    int rc = 0;

    for (i = 0; !rc && i < sizeof(shared) / sizeof(shared[0]); i++)
        rc = bpf_map__reuse_fd(bpf_object__find_map_by_name(skel->obj, shared[i]),
                               bpf_map__fd(object_map(&loader->object, shared[i])));
    return rc;
}

static int put_program(const struct loader *loader, const char *array, uint32_t at,
                       const struct bpf_program *program)
{
    return prog_array_set(bpf_map__fd(object_map(&loader->object, array)), at,
                          bpf_program__fd(program));
}

/* 0 or -errno. */
static int load(struct loader *loader, struct loader_tcp *tcp)
{
    const struct object *object = &loader->object;
    struct tcp *skel = tcp->skel;
    size_t size = tcp->nslots * sizeof(struct mc_tcp_slot);
    int rc;

    skel->rodata->weakly_ordered = *object->weakly_ordered;
    skel->rodata->tick_ns = *object->tick_ns;
    skel->rodata->clock_ahead = *object->clock_ahead;
    do {
        if (getrandom(&skel->rodata->tcp_mark, sizeof(skel->rodata->tcp_mark), 0) < 0 ||
            getrandom(&skel->rodata->tcp_seal, sizeof(skel->rodata->tcp_seal), 0) < 0)
            return -errno;
    } while (!skel->rodata->tcp_mark || !skel->rodata->tcp_seal);
    rc = bpf_map__set_max_entries(skel->maps.tcp_slots, (uint32_t)tcp->nslots);
    rc = rc ? rc : share_maps(loader, skel);
    bpf_program__set_flags(skel->progs.tcp_xdp, BPF_F_XDP_HAS_FRAGS);
    rc = rc ? rc : tcp__load(skel);
    if (rc)
        return rc;
    tcp->slots =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(skel->maps.tcp_slots), 0);
    if (tcp->slots == MAP_FAILED) {
        tcp->slots = NULL;
        return -errno;
    }
    rc = put_program(loader, "tcp_programs_xdp", 0, skel->progs.tcp_xdp);
    rc = rc ? rc : put_program(loader, "tcp_programs_tc", 0, skel->progs.tcp_ingress);
    return rc ? rc : put_program(loader, "tcp_programs_tc", 1, skel->progs.tcp_egress);
}

int loader_open_tcp(struct loader *loader, uint32_t nslots, char *error, size_t nerror)
{
    struct loader_tcp *tcp = calloc(1, sizeof(*tcp));
    int rc = -ENOMEM;

    if (tcp) {
        tcp->nslots = nslots;
        tcp->skel = tcp__open();
        rc = tcp->skel ? load(loader, tcp) : -errno;
    }
    if (rc) {
        snprintf(error, nerror, "this kernel refuses the programs for TCP (%s): use tcp=off",
                 strerror(-rc));
        tcp_free(tcp);
        return rc;
    }
    loader->tcp = tcp;
    return 0;
}

void tcp_free(struct loader_tcp *tcp)
{
    if (!tcp)
        return;
    if (tcp->slots)
        munmap(tcp->slots, tcp->nslots * sizeof(struct mc_tcp_slot));
    if (tcp->skel)
        tcp__destroy(tcp->skel);
    free(tcp->ended);
    free(tcp);
}

void tcp_set_alone(struct loader_tcp *tcp, bool alone)
{
    if (tcp)
        tcp->skel->bss->tc_alone = alone;
}

struct mc_tcp_slot *loader_tcp_slots(struct loader *loader)
{
    return loader->tcp ? loader->tcp->slots : NULL;
}

int loader_tcp_tag(struct loader *loader, int socket, const struct mc_tcp_tag *tag)
{
    int map = bpf_map__fd(loader->tcp->skel->maps.tcp_tags);

    return bpf_map_update_elem(map, &socket, tag, BPF_ANY);
}

int loader_tcp_map(struct loader *loader, const char *name)
{
    return loader->tcp ? bpf_object__find_map_fd_by_name(loader->tcp->skel->obj, name) : -ENOENT;
}

uint32_t loader_tcp_mark(struct loader *loader)
{
    return loader->tcp ? loader->tcp->skel->rodata->tcp_mark : 0;
}

uint16_t loader_tcp_seal(struct loader *loader)
{
    return loader->tcp ? loader->tcp->skel->rodata->tcp_seal : 0;
}

void loader_tcp_counts(struct loader *loader, struct mc_tcp_counts *out)
{
    size_t size, i;
    char *rows;
    int cpu;

    memset(out, 0, sizeof(*out));
    if (!loader->tcp)
        return;
    rows = object_rows(loader->tcp->skel->maps.tcp_counts, loader->ncpus, &size);
    for (cpu = 0; rows && cpu < loader->ncpus; cpu++)
        for (i = 0; i < MC_TCP_COUNTS; i++)
            out->count[i] += ((const struct mc_tcp_counts *)(rows + size * (size_t)cpu))->count[i];
    free(rows);
}

/* --- sweeping --------------------------------------------------------------------------------- */

/* Entries that are read by one system call, and their keys, whose form is the programs' own. */
enum { SWEEP_BATCH = 256, SWEEP_KEY = 40 };

struct sweep {
    char keys[SWEEP_BATCH][SWEEP_KEY];
    struct mc_tcp_conn conns[SWEEP_BATCH];
    uint64_t *ended; /* ids of all that are found closed */
    size_t nended, size;
};

static uint64_t id_of(const struct mc_tcp_conn *conn)
{
    return (uint64_t)conn->slot << 32 | conn->generation;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return (first > second) - (first < second);
}

static bool has_ended(const struct loader_tcp *tcp, const struct mc_tcp_conn *conn)
{
    return conn->slot >= tcp->nslots || __atomic_load_n(&tcp->slots[conn->slot].generation,
                                                        __ATOMIC_RELAXED) != conn->generation;
}

static void note_ended(struct sweep *sweep, uint64_t id)
{
    uint64_t *more;

    if (sweep->nended == sweep->size) {
        sweep->size = sweep->size ? 2 * sweep->size : SWEEP_BATCH;
        more = realloc(sweep->ended, sweep->size * sizeof(*more));
        if (!more) { /* then a later sweep removes it */
            sweep->size = sweep->nended;
            return;
        }
        sweep->ended = more;
    }
    sweep->ended[sweep->nended++] = id;
}

/* Of a connection that has ended: removes it if nothing of it can still have to be translated. */
static void sweep_one(const struct loader_tcp *tcp, struct sweep *sweep, int map, size_t i)
{
    const struct mc_tcp_conn *conn = &sweep->conns[i];
    uint64_t id = id_of(conn);

    if (!has_ended(tcp, conn))
        return;
    if (!(conn->shift.in | conn->shift.out) ||
        (tcp->nended && bsearch(&id, tcp->ended, tcp->nended, sizeof(id), compare_ids)))
        bpf_map_delete_elem(map, sweep->keys[i]);
    else
        note_ended(sweep, id);
}

void loader_sweep_tcp(struct loader *loader)
{
    struct loader_tcp *tcp = loader->tcp;
    struct sweep *sweep = tcp ? calloc(1, sizeof(*sweep)) : NULL;
    LIBBPF_OPTS(bpf_map_batch_opts, opts);
    uint32_t batch = 0, n;
    size_t i;
    int map, rc = 0;

    if (!sweep)
        return;
    map = bpf_map__fd(tcp->skel->maps.tcp_conns);
    for (i = 0; !rc; i++) {
        n = SWEEP_BATCH;
        rc = bpf_map_lookup_batch(map, i ? &batch : NULL, &batch, sweep->keys, sweep->conns, &n,
                                  &opts);
        if (rc && rc != -ENOENT) /* ENOENT: these are the last */
            break;
        while (n > 0)
            sweep_one(tcp, sweep, map, --n);
    }
    if (sweep->nended)
        qsort(sweep->ended, sweep->nended, sizeof(*sweep->ended), compare_ids);
    free(tcp->ended);
    tcp->ended = sweep->ended;
    tcp->nended = sweep->nended;
    free(sweep);
}
