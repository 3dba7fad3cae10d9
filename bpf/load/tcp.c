/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/tcp.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/load/entry.h"
#include "bpf/load/load.h"
#include "bpf/load/object.h"
#include "bpf/load/refusal.h"
#include "bpf/shared/tcp.h"
#include "bpf/tcp/tcp.skel.h"

enum { READ_TRIES = 16 };

/* Maps that both objects have, and use together; the others with the same names are their own. */
static const char *const shared[] = {"mc_heap", "mc_table", "mc_scratch", "mc_tcp_sieve",
                                     ".data.control"};

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
    int fd = bpf_program__fd(program);

    return bpf_map_update_elem(bpf_map__fd(object_map(&loader->object, array)), &at, &fd, BPF_ANY);
}

/* Loads the maps, and starts to load the programs. 0 or -errno. */
static int start(struct loader *loader, struct loader_tcp *tcp)
{
    const struct object *object = &loader->object;
    struct tcp *skel = tcp->skel;
    struct bpf_program **each[] = {&skel->progs.mc_tcp_xdp, &skel->progs.mc_tcp_ingress};
    size_t size = tcp->nslots * sizeof(struct mc_tcp_slot);
    __u16 *marks = skel->rodata->translation_marks;
    int rc;

    skel->rodata->weakly_ordered = *object->weakly_ordered;
    skel->rodata->tick_ns = *object->tick_ns;
    skel->rodata->clock_ahead = *object->clock_ahead;
    do {
        if (getrandom(&skel->rodata->tcp_mark, sizeof(skel->rodata->tcp_mark), 0) < 0 ||
            getrandom(marks, sizeof(skel->rodata->translation_marks), 0) < 0)
            return -errno;
    } while (!skel->rodata->tcp_mark || !marks[0] || !marks[1] || marks[0] == marks[1]);
    if (getrandom(skel->rodata->tcp_seeds, sizeof(skel->rodata->tcp_seeds), 0) < 0)
        return -errno;
    rc = bpf_map__set_max_entries(skel->maps.mc_tcp_slots, (uint32_t)tcp->nslots);
    rc = rc ? rc : share_maps(loader, skel);
    bpf_program__set_flags(skel->progs.mc_tcp_xdp, BPF_F_XDP_HAS_FRAGS);
    rc = rc ? rc : parallel_start(&tcp->parallel, skel->skeleton, each, 2);
    if (rc)
        return rc;
    tcp->slots = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
                      bpf_map__fd(skel->maps.mc_tcp_slots), 0);
    if (tcp->slots == MAP_FAILED) {
        tcp->slots = NULL;
        return -errno;
    }
    return 0;
}

int tcp_finish(struct loader *loader, char *log, size_t nlog)
{
    struct loader_tcp *tcp = loader->tcp;
    const struct tcp *skel = tcp ? tcp->skel : NULL;
    int rc;

    if (!tcp || !tcp->parallel.njobs)
        return 0;
    rc = parallel_finish(&tcp->parallel, log, nlog);
    rc = rc ? rc : put_program(loader, "mc_tcp_xdp_prog", 0, skel->progs.mc_tcp_xdp);
    rc = rc ? rc : put_program(loader, "mc_tcp_tc_progs", 0, skel->progs.mc_tcp_ingress);
    return rc ? rc : put_program(loader, "mc_tcp_tc_progs", 1, skel->progs.mc_tcp_egress);
}

void tcp_explain(int rc, const char *log, char *text, size_t ntext)
{
    refusal_keep(log);
    snprintf(text, ntext, "this kernel refuses the programs for TCP (%s): use tcp=off",
             strerror(-rc));
}

int loader_open_tcp(struct loader *loader, uint32_t nslots, char *error, size_t nerror)
{
    struct loader_tcp *tcp = calloc(1, sizeof(*tcp));
    int rc = -ENOMEM;

    if (tcp) {
        tcp->nslots = nslots;
        tcp->guard = -1;
        tcp->cookies = calloc(nslots, sizeof(*tcp->cookies));
        tcp->skel = tcp->cookies ? tcp__open() : NULL;
        rc = tcp->skel ? start(loader, tcp) : -errno;
    }
    if (rc) {
        tcp_explain(rc, "", error, nerror);
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
    parallel_free(&tcp->parallel);
    if (tcp->guard >= 0)
        close(tcp->guard);
    if (tcp->skel)
        tcp__destroy(tcp->skel);
    free(tcp->cookies);
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

static uint64_t key_of(const struct loader *loader, const struct mc_tcp_flow *flow)
{
    return mc_tcp_key(flow, loader->tcp->skel->rodata->tcp_seeds);
}

/* Counts an entry that waits: 1; or that does no more: -1. */
static void count_waiting(const struct loader *loader, int n)
{
    __atomic_fetch_add(&loader->object.control->tcp_waiting, (uint32_t)n, __ATOMIC_RELAXED);
}

/* Removes one, unless a program has. */
static void remove_waiting(const struct loader *loader, uint64_t key)
{
    if (!bpf_map_delete_elem(bpf_map__fd(loader->tcp->skel->maps.mc_tcp_conns), &key))
        count_waiting(loader, -1);
}

static int filter_socket(int socket, const struct bpf_program *program)
{
    int fd = bpf_program__fd(program);

    return setsockopt(socket, SOL_SOCKET, SO_ATTACH_BPF, &fd, sizeof(fd)) ? -errno : 0;
}

static int unfilter_socket(int socket)
{
    int none = 0;

    return setsockopt(socket, SOL_SOCKET, SO_DETACH_BPF, &none, sizeof(none)) ? -errno : 0;
}

int loader_tcp_listener(const struct loader *loader, int socket, bool on)
{
    return on ? filter_socket(socket, loader->tcp->skel->progs.mc_tcp_listener)
              : unfilter_socket(socket);
}

int loader_tcp_tag(struct loader *loader, int socket, const struct mc_tcp_tag *tag, unsigned mark)
{
    const struct tcp *skel = loader->tcp->skel;
    struct mc_tcp_conn conn = {.lock = MC_TCP_VOID,
                               .flags = mark ? MC_TCP_MARK_B : 0,
                               .slot = tag->slot,
                               .generation = tag->generation};
    uint64_t *cookie = &loader->tcp->cookies[tag->slot], key;
    socklen_t n = sizeof(*cookie);
    int rc = filter_socket(socket, mark ? skel->progs.mc_tcp_filter_b : skel->progs.mc_tcp_filter);

    if (rc)
        return rc;
    if (getsockopt(socket, SOL_SOCKET, SO_COOKIE, cookie, &n))
        return -errno;
    conn.flow.client[0] = *cookie;
    key = key_of(loader, &conn.flow);
    count_waiting(loader, 1);
    rc = bpf_map_update_elem(bpf_map__fd(skel->maps.mc_tcp_conns), &key, &conn, BPF_NOEXIST);
    if (rc)
        count_waiting(loader, -1);
    return rc;
}

void loader_tcp_untag(struct loader *loader, const struct mc_tcp_slot *slot)
{
    struct mc_tcp_flow cookie = {.client = {loader->tcp->cookies[slot - loader->tcp->slots]}};

    if (!__atomic_load_n(&slot->answered, __ATOMIC_RELAXED)) /* else no entry waits */
        remove_waiting(loader, key_of(loader, &cookie));
}

uint32_t loader_tcp_age(const struct loader *loader, uint32_t time)
{
    struct timespec now;
    uint32_t units;
    uint64_t ns;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec -
         (uint64_t)*loader->object.clock_ahead;
    units = (uint32_t)(ns >> MC_TCP_TIME_SHIFT) - (time & ~3u);
    return (uint32_t)(((uint64_t)units << MC_TCP_TIME_SHIFT) / 1000000);
}

/*
 * Reads an entry that no program is changing: it is the same twice, and not locked; or, after some
 * tries, as it is. 0 or -errno.
 */
static int read_conn(int conns, uint64_t key, struct mc_tcp_conn *conn)
{
    struct mc_tcp_conn again;
    int tries, rc = bpf_map_lookup_elem(conns, &key, conn);

    for (tries = 0; !rc && tries < READ_TRIES; tries++) {
        again = *conn;
        rc = bpf_map_lookup_elem(conns, &key, conn);
        if (!rc && conn->lock != MC_TCP_TAKEN && memcmp(&again, conn, sizeof(again)) == 0)
            break;
    }
    return rc;
}

/* The entry of a socket's connection. 0 or -errno. */
static int find_conn(const struct loader *loader, int socket, struct mc_tcp_conn *conn)
{
    struct mc_tcp_flow flow = {.client = {0}};
    int rc = entry_flow(socket, &flow);

    if (rc)
        return rc;
    rc = read_conn(bpf_map__fd(loader->tcp->skel->maps.mc_tcp_conns), key_of(loader, &flow), conn);
    if (rc)
        return rc;
    return mc_tcp_is_flow(&conn->flow, &flow) ? 0 : -ENOENT;
}

/* Has a program do this to an entry that was read, if it is that connection's. */
static bool run_order(const struct loader_tcp *tcp, const struct mc_tcp_conn *conn, uint32_t what)
{
    const struct mc_tcp_tag tag = {conn->slot, conn->generation};

    return !entry_order(bpf_program__fd(tcp->skel->progs.mc_tcp_order), &conn->flow, &tag, what);
}

/* Whether an entry is that of the connection that has a slot. */
static bool is_of(const struct loader_tcp *tcp, const struct mc_tcp_conn *conn,
                  const struct mc_tcp_slot *slot)
{
    return &tcp->slots[conn->slot] == slot && conn->generation == slot->generation;
}

int loader_tcp_release(struct loader *loader, int socket, const struct mc_tcp_slot *slot)
{
    struct entry_access access;
    struct mc_tcp_conn conn;
    int rc;

    loader_tcp_untag(loader, slot); /* first, so that there is no other entry later */
    rc = find_conn(loader, socket, &conn);
    if (rc && rc != -ENOENT)
        return rc;
    if (!rc && is_of(loader->tcp, &conn, slot) && !run_order(loader->tcp, &conn, MC_TCP_RELEASE))
        return -EBUSY;
    unfilter_socket(socket);
    loader_tcp_entries(loader, &access);
    entry_unguard(&access, socket);
    return 0;
}

int64_t loader_tcp_unseen(const struct loader *loader, int socket, uint64_t received)
{
    struct mc_tcp_conn conn;
    int rc = find_conn(loader, socket, &conn);

    if (rc)
        return rc;
    rc = (int32_t)(conn.irs + (uint32_t)received - conn.last_ack_sent);
    return rc > 0 ? rc : 0;
}

void loader_tcp_reset(struct loader *loader, int socket)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct mc_tcp_conn conn;
    int rc = find_conn(loader, socket, &conn);

    connect(socket, &none, sizeof(none));
    if (!rc)
        run_order(loader->tcp, &conn, MC_TCP_REMOVE);
}

void loader_tcp_entries(const struct loader *loader, struct entry_access *out)
{
    const struct tcp *skel = loader->tcp->skel;

    out->order = bpf_program__fd(skel->progs.mc_tcp_order);
    out->guard = bpf_program__fd(skel->progs.mc_tcp_guard);
    out->conns = bpf_map__fd(skel->maps.mc_tcp_conns);
    out->kept = bpf_map__fd(skel->maps.mc_tcp_rtx);
    out->slots = bpf_map__fd(skel->maps.mc_tcp_slots);
    out->guarded = bpf_map__fd(skel->maps.mc_tcp_guarded);
    memcpy(out->seeds, (const void *)skel->rodata->tcp_seeds, sizeof(out->seeds));
}

int loader_tcp_filter(const struct loader *loader)
{
    return bpf_program__fd(loader->tcp->skel->progs.mc_tcp_undone);
}

/* --- the guard -------------------------------------------------------------------------------- */

static void set_guarded(const struct loader_tcp *tcp, bool is_guarded)
{
    __atomic_store_n(&tcp->skel->bss->is_guarded, is_guarded, __ATOMIC_RELAXED);
}

void loader_guard_tcp(struct loader *loader, int link)
{
    struct loader_tcp *tcp = loader->tcp;

    if (tcp->guard >= 0)
        close(tcp->guard);
    tcp->guard = link;
    set_guarded(tcp, true);
}

void loader_leave_tcp_unguarded(struct loader *loader)
{
    set_guarded(loader->tcp, false);
}

bool loader_tcp_is_guarded(const struct loader *loader)
{
    return loader->tcp && __atomic_load_n(&loader->tcp->skel->bss->is_guarded, __ATOMIC_RELAXED);
}

bool loader_tcp_lost_guard(struct loader *loader)
{
    if (!loader_tcp_is_guarded(loader) || entry_guard_is_attached(loader->tcp->guard))
        return false;
    __atomic_store_n(&loader->tcp->skel->bss->takes_unstamped, 0, __ATOMIC_RELAXED);
    return true;
}

void loader_take_unstamped(struct loader *loader)
{
    loader->tcp->skel->bss->takes_unstamped = loader->tcp->skel->bss->is_guarded;
}

void loader_set_tcp_ways(struct loader *loader, const int *ifindexes, size_t n)
{
    const int map = loader->tcp ? bpf_map__fd(loader->tcp->skel->maps.mc_tcp_ways) : -1;
    uint32_t key, next, old[MC_TCP_WAYS_MAX];
    size_t nold, i, j;
    bool removed = false;

    if (map < 0)
        return;
    for (nold = 0; nold < MC_TCP_WAYS_MAX && !bpf_map_get_next_key(map, nold ? &key : NULL, &next);
         nold++)
        old[nold] = key = next;
    for (i = 0; i < nold; i++) {
        for (j = 0; j < n && old[i] != (uint32_t)ifindexes[j]; j++)
            ;
        if (j == n)
            removed |= bpf_map_delete_elem(map, &old[i]) == 0;
    }
    /* Release: the guard looks again where it sees the new number. */
    if (removed)
        __atomic_fetch_add(&loader->tcp->skel->bss->ways_number, 1, __ATOMIC_RELEASE);
    for (j = 0; j < n; j++)
        bpf_map_update_elem(map, &ifindexes[j], &ifindexes[j], BPF_ANY);
}

const struct bpf_map *tcp_counts_map(const struct loader_tcp *tcp)
{
    return tcp ? tcp->skel->maps.mc_tcp_counts : NULL;
}

/* --- sweeping --------------------------------------------------------------------------------- */

enum { SWEEP_BATCH = 256 /* entries that are read by one system call */ };

struct sweep {
    uint64_t keys[SWEEP_BATCH];
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

/* Whether the last sweep found the connection closed. */
static bool has_been_seen(const struct loader_tcp *tcp, uint64_t id)
{
    return tcp->nended && bsearch(&id, tcp->ended, tcp->nended, sizeof(id), compare_ids);
}

/* Of a connection that has ended: removes it if nothing of it can still have to be translated. */
static void sweep_one(const struct loader *loader, struct sweep *sweep, size_t i)
{
    const struct loader_tcp *tcp = loader->tcp;
    const struct mc_tcp_conn *conn = &sweep->conns[i];
    uint64_t id = id_of(conn);

    if (!has_ended(tcp, conn))
        return;
    if (conn->flow.server_port == 0) /* it waits */
        remove_waiting(loader, sweep->keys[i]);
    else if ((conn->delta.rx | conn->delta.tx && !has_been_seen(tcp, id)) ||
             !run_order(tcp, conn, MC_TCP_REMOVE))
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
    map = bpf_map__fd(tcp->skel->maps.mc_tcp_conns);
    for (i = 0; !rc; i++) {
        n = SWEEP_BATCH;
        rc = bpf_map_lookup_batch(map, i ? &batch : NULL, &batch, sweep->keys, sweep->conns, &n,
                                  &opts);
        if (rc && rc != -ENOENT) /* ENOENT: these are the last */
            break;
        while (n > 0)
            sweep_one(loader, sweep, --n);
    }
    if (sweep->nended)
        qsort(sweep->ended, sweep->nended, sizeof(*sweep->ended), compare_ids);
    free(tcp->ended);
    tcp->ended = sweep->ended;
    tcp->nended = sweep->nended;
    free(sweep);
}
