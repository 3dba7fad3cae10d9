/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/kcache.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/credentials.h"
#include "base/log.h"
#include "bpf/load/load.h"
#include "iface/attach.h"
#include "iface/monitor.h"
#include "iface/rings.h"
#include "kcache/chain.h"
#include "kcache/guard.h"
#include "kmem/lease.h"
#include "kmem/memory.h"
#include "kmem/tcp.h"

struct kcache {
    const struct kcache_options *options;
    struct memory memory;
    struct loader *loader;
    struct attachment attached[IFACE_MAX];
    unsigned int ninterfaces;
    char others[KCACHE_OTHERS_TEXT]; /* the ports that the server answers alone */
    struct lease lease;
    struct guard guard;
    bool answers_tcp;
    struct tcp tcp;           /* if so */
    unsigned int nwithout;    /* interfaces that had no programs a second ago */
    unsigned int ntcp_opened; /* of the view a second ago */
    struct rings rings;
    struct monitor *monitor;      /* NULL: nothing is attached */
    pthread_mutex_t lock;         /* of baseline and guard */
    struct kcache_stats baseline; /* the counts of the last reset */
    struct kcache_chain chain;    /* completed, if it is wanted */
    struct chain_settings settings;
};

struct provider *kcache_provider(struct kcache *kcache)
{
    return kcache->chain.wanted ? NULL : &kcache->memory.provider;
}

struct boundaries *kcache_boundaries(struct kcache *kcache)
{
    return kcache->answers_tcp ? &kcache->tcp.boundaries : NULL;
}

struct xsk *kcache_rings(struct kcache *kcache, size_t *n)
{
    *n = kcache->rings.n;
    return kcache->rings.xsk;
}

struct mc_control *kcache_control(struct kcache *kcache)
{
    return loader_control(kcache->loader);
}

static bool is_listed(const struct kcache *kcache, const char *name)
{
    unsigned int i;

    for (i = 0; i < kcache->ninterfaces; i++)
        if (strcmp(kcache->attached[i].name, name) == 0)
            return true;
    return false;
}

const char *kcache_missing(const struct kcache_options *options)
{
    unsigned int i;

    for (i = 0; i < options->ninterfaces; i++)
        if (!if_nametoindex(options->interfaces[i]))
            return options->interfaces[i];
    return NULL;
}

static int find_interfaces(struct kcache *kcache, const struct kcache_options *options, char *error,
                           size_t nerror)
{
    struct attachment found = {0};
    unsigned int i;

    for (i = 0; i < options->ninterfaces; i++) {
        if (attach_find(&found, options->interfaces[i], error, nerror))
            return -1;
        found.named = true;
        if (!is_listed(kcache, found.name))
            kcache->attached[kcache->ninterfaces++] = found;
    }
    return 0;
}

/* Starts to load the programs, as the options and the guard say. NULL: `error` says why. */
static struct loader *load(struct kcache *kcache, const struct kcache_options *options, char *error,
                           size_t nerror)
{
    const unsigned int extras = (kcache_wants_tcp(options) ? (unsigned int)LOADER_TCP : 0) |
                                (options->xsk == KCACHE_ON ? (unsigned int)LOADER_RINGS : 0);
    struct loader *loader;
    char why[640];

    if (loader_is_interrupted()) {
        snprintf(error, nerror,
                 "bmc: with PREEMPT_RT, from Linux 6.18 on, kernel programs interrupt each other, "
                 "and one would answer with another's bytes: start a kernel without PREEMPT_RT");
        return NULL;
    }
    if (kcache->chain.wanted) {
        chain_complete(&kcache->chain);
        chain_settings(&kcache->chain, loader_tick_ns(), &kcache->settings);
        loader = loader_open_chain(&kcache->settings, &kcache->guard.loader, why, sizeof(why));
    } else {
        loader = loader_open_guarded(&kcache->guard.loader, extras, why, sizeof(why));
    }
    if (!loader)
        snprintf(error, nerror, "bmc: %s", why);
    return loader;
}

/* What an option of seconds says, 0: not given, below 0: no limit; 0: no limit. */
static unsigned int seconds(int option, unsigned int unsaid)
{
    return option < 0 ? 0 : option ? (unsigned int)option : unsaid;
}

/* Loads the programs for TCP. 0, or -1 with `error`. */
static int load_tcp(struct kcache *kcache, const struct kcache_options *options, char *error,
                    size_t nerror)
{
    uint32_t nslots = options->connections < TCP_SLOTS_MAX ? options->connections : TCP_SLOTS_MAX;
    char why[640] = "out of memory";

    if (loader_open_tcp(kcache->loader, nslots, why, sizeof(why)) ||
        tcp_init(&kcache->tcp, kcache->loader, nslots, seconds(options->refresh, KCACHE_REFRESH))) {
        snprintf(error, nerror, "bmc: %s", why);
        return -1;
    }
    kcache->answers_tcp = true;
    return 0;
}

/* Waits until all programs are loaded. 0, or -1 with `error`. */
static int wait_for_programs(struct kcache *kcache, char *error, size_t nerror)
{
    char why[640];

    if (loader_wait(kcache->loader, why, sizeof(why)) == 0)
        return 0;
    snprintf(error, nerror, "bmc: %s", why);
    return -1;
}

struct kcache *kcache_open(const struct kcache_options *options, uint64_t reach, char *error,
                           size_t nerror)
{
    struct kcache *kcache;

    if (!options->chain.wanted && reach > (uint64_t)MC_MAX_EXTENTS * MC_EXTENT_BYTES) {
        snprintf(error, nerror, "bmc: the kernel path has at most 256 GiB of memory: -m 262079");
        return NULL;
    }
    kcache = calloc(1, sizeof(*kcache));
    if (!kcache) {
        snprintf(error, nerror, "bmc: out of memory");
        return NULL;
    }
    kcache->options = options;
    if (find_interfaces(kcache, options, error, nerror)) {
        free(kcache);
        return NULL;
    }
    if (guard_init(&kcache->guard, options, error, nerror)) {
        guard_fini(&kcache->guard);
        free(kcache);
        return NULL;
    }
    kcache->chain = options->chain;
    kcache->loader = load(kcache, options, error, nerror);
    guard_fini(&kcache->guard);
    if (!kcache->loader ||
        (kcache_wants_tcp(options) && load_tcp(kcache, options, error, nerror))) {
        loader_close(kcache->loader);
        free(kcache);
        return NULL;
    }
    kcache->rings.loader = kcache->loader;
    memory_init(&kcache->memory, kcache->loader);
    lease_init(&kcache->lease, loader_control(kcache->loader),
               seconds(options->stall, KCACHE_STALL));
    pthread_mutex_init(&kcache->lock, NULL);
    return kcache;
}

int kcache_know_socket(struct kcache *kcache, int socket)
{
    return loader_know_socket(kcache->loader, socket);
}

/* Sets the ports whose packets the programs handle; 0: none. */
static void open_ports(struct kcache *kcache, uint16_t udp, uint16_t tcp)
{
    struct mc_control *control = loader_control(kcache->loader);

    __atomic_store_n(&control->port, htons(udp), __ATOMIC_RELEASE);
    __atomic_store_n(&control->tcp_port, htons(tcp), __ATOMIC_RELEASE);
}

static void detach(struct kcache *kcache)
{
    bool stays = false;
    unsigned int i;

    monitor_stop(kcache->monitor);
    for (i = 0; i < kcache->ninterfaces; i++)
        stays |= attach_remove(&kcache->attached[i]) != 0;
    loader_unlisten(kcache->loader);
    if (stays)
        loader_release_memory(kcache->loader);
}

int kcache_reload(struct kcache *kcache, char *error, size_t nerror)
{
    struct guard guard;
    int rc;

    if (!kcache->guard.loader.reloads)
        return 0;
    rc = guard_init_again(&guard, &kcache->guard, kcache->options, error, nerror);
    if (rc == 0) {
        rc = loader_set_guard(kcache->loader, &guard.loader);
        if (rc)
            snprintf(error, nerror, "bmc: allow=: the kernel refuses the list: %s", strerror(-rc));
    }
    guard_fini(&guard);
    if (rc)
        return -1;
    pthread_mutex_lock(&kcache->lock);
    kcache->guard = guard;
    pthread_mutex_unlock(&kcache->lock);
    guard_log(&guard);
    return 0;
}

/* Has the workers undo connections when there are more ways without the programs. */
static void look_at_interfaces(struct kcache *kcache)
{
    struct iface_view view;
    unsigned int i, n = 0;

    kcache_look(kcache, &view);
    for (i = 0; i < view.ninterfaces; i++)
        n += view.interfaces[i].state > IFACE_DOWN;
    if (n > kcache->nwithout || view.ntcp_opened != kcache->ntcp_opened)
        boundaries_undo_all(&kcache->tcp.boundaries, UNDO_DETACHED);
    kcache->nwithout = n;
    kcache->ntcp_opened = view.ntcp_opened;
}

void kcache_renew_lease(struct kcache *kcache)
{
    lease_renew(&kcache->lease);
    if (!kcache->answers_tcp)
        return;
    look_at_interfaces(kcache);
    tcp_rest(&kcache->tcp);
}

void kcache_detach(struct kcache *kcache)
{
    __atomic_store_n(&loader_control(kcache->loader)->port, 0, __ATOMIC_RELEASE);
    if (!tcp_unfollow(&kcache->tcp))
        detach(kcache);
}

void kcache_close(struct kcache *kcache)
{
    if (!kcache)
        return;
    kcache_detach(kcache);
    detach(kcache);
    monitor_close(kcache->monitor);
    lease_fini(&kcache->lease);
    tcp_fini(&kcache->tcp);
    rings_fini(&kcache->rings);
    loader_close(kcache->loader);
    memory_fini(&kcache->memory);
    pthread_mutex_destroy(&kcache->lock);
    free(kcache);
}

/* --- attaching --------------------------------------------------------------- */

/* XDP leaves replies without room in the frame to TC, if TC is attached behind XDP everywhere. */
static void update_tc_follows(struct kcache *kcache)
{
    bool everywhere = true, alone = false;
    unsigned int i;

    for (i = 0; i < kcache->ninterfaces; i++) {
        everywhere &= loader_has_tc(&kcache->attached[i].link, LOADER_INGRESS);
        alone |= kcache->attached[i].tc_alone;
    }
    loader_set_tc(kcache->loader, everywhere, alone);
}

static void add_automatic(struct kcache *kcache)
{
    char names[IFACE_MAX + 1][IF_NAMESIZE], ignored[128];
    struct attachment *at;
    size_t found, i;

    /* The chain has to see writes of this machine's own clients as well. */
    found = monitor_carriers(kcache->monitor, kcache->chain.wanted, names, IFACE_MAX + 1);
    for (i = 0; i < found; i++) {
        if (is_listed(kcache, names[i]))
            continue;
        if (kcache->ninterfaces == IFACE_MAX) {
            log_write(
                "bmc: %s: there are more than %d interfaces; the server answers on this and all "
                "further ones (name the interfaces to attach to)",
                names[i], IFACE_MAX);
            return;
        }
        at = &kcache->attached[kcache->ninterfaces];
        if (attach_find(at, names[i], ignored, sizeof(ignored)))
            continue;
        kcache->ninterfaces++;
    }
}

/* Logs the interfaces on which the chain does not see writes. */
static void log_unwatched(const struct kcache *kcache)
{
    char names[IFACE_MAX][IF_NAMESIZE], text[IFACE_MAX * IF_NAMESIZE * 2];
    size_t found = monitor_carriers(kcache->monitor, true, names, IFACE_MAX), used = 0, i;

    text[0] = '\0';
    for (i = 0; i < found; i++)
        if (!is_listed(kcache, names[i]))
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "",
                                     names[i]);
    if (used)
        log_write("bmc: not watched: %s; after a write over one of them clients may get the old "
                  "value for up to %u ms (name them too, or use auto)",
                  text, kcache->chain.max_age_ms);
}

/*
 * Attaches to all interfaces, or with `error` to none. An interface of bmc=auto that refuses is
 * left out, except with the chain, which would not see the writes there.
 */
static int attach_all(struct kcache *kcache, gid_t group, char *error, size_t nerror)
{
    unsigned int i;

    monitor_listen(kcache->monitor, group);
    /* Beside the loading of the other programs. */
    for (i = 0; i < kcache->ninterfaces; i++)
        attach_early(kcache->loader, &kcache->attached[i], LOADER_EGRESS);
    for (i = 0; i < kcache->ninterfaces; i++)
        attach_early(kcache->loader, &kcache->attached[i], LOADER_INGRESS);
    if (wait_for_programs(kcache, error, nerror))
        return -1;
    i = 0;
    while (i < kcache->ninterfaces) {
        if (!attach_interface(kcache->loader, &kcache->attached[i], kcache->options->mode, error,
                              nerror)) {
            i++;
            continue;
        }
        if (kcache->attached[i].named || kcache->chain.wanted)
            return -1;
        if (kcache->ninterfaces > 1)
            log_write("%s; the server answers there", error);
        attach_remove(&kcache->attached[i]);
        memmove(&kcache->attached[i], &kcache->attached[i + 1],
                (--kcache->ninterfaces - i) * sizeof(kcache->attached[0]));
    }
    return kcache->ninterfaces ? 0 : -1;
}

/* Opens the rings of all interfaces, if they are wanted. 0, or -1 with `error`. */
static int add_rings(struct kcache *kcache, char *error, size_t nerror)
{
    unsigned int i;

    for (i = 0; kcache->options->xsk == KCACHE_ON && i < kcache->ninterfaces; i++)
        if (rings_add(&kcache->rings, &kcache->attached[i], error, nerror))
            return -1;
    return 0;
}

/* Logs which requests the kernel answers on each interface, and by which program. */
static void log_answered(const struct kcache *kcache, const struct kcache_served *served)
{
    char udp[64] = "";

    for (unsigned int i = 0; i < kcache->ninterfaces; i++) {
        const struct loader_link *link = &kcache->attached[i].link;
        bool native = link->xdp >= 0 && !link->generic;

        if (served->udp_port)
            snprintf(udp, sizeof(udp), "UDP port %u by %s, ", served->udp_port,
                     native           ? "native XDP"
                     : link->xdp >= 0 ? "generic XDP"
                                      : "TC");
        log_write("bmc: %s: answers %sTCP port %u by %s (experimental)", kcache->attached[i].name,
                  udp, served->tcp_port, native ? "native XDP and TC" : "TC");
    }
}

enum { LO = 1 /* the index of lo in every network namespace */ };

/* Warns of interfaces by which no address of the server's can be reached. */
static void warn_unreachable(const struct kcache *kcache)
{
    for (unsigned int i = 0; i < kcache->ninterfaces; i++)
        if (kcache->attached[i].link.ifindex != LO && monitor_is_loopback(kcache->monitor))
            log_write("bmc: %s: the server listens on loopback addresses alone, which nobody can "
                      "reach by this interface: add an address of its own to -l, or use bmc=lo",
                      kcache->attached[i].name);
}

/* Says which ports are left to the server: the programs look for one. */
static void note_others(struct kcache *kcache, const char *others)
{
    if (!others)
        return;
    snprintf(kcache->others, sizeof(kcache->others), "%s", others);
    if (others[0])
        log_write("bmc: the kernel answers on the port of the first address of -l; the server "
                  "answers alone on %s",
                  others);
}

/*
 * Whether connections can be given back to the server: otherwise the kernel answers on none, since
 * each could have to be reset.
 */
static bool may_undo(struct kcache *kcache, const struct kcache_served *served)
{
    char error[256];
    int rc = tcp_filter_listeners(&kcache->tcp, served->listeners, served->nlisteners);

    if (rc)
        snprintf(
            error, sizeof(error),
            "cannot filter what listening sockets get: %s (net.core.optmem_max may be too low)",
            strerror(-rc));
    else if (!tcp_start_undo(&kcache->tcp, served->user, served->nworkers + 1, served->tcp_port,
                             error, sizeof(error)))
        return true;
    log_write("bmc: the kernel answers nothing over TCP: %s", error);
    return false;
}

static int attach_guard(void *tcp)
{
    return tcp_attach_guard(tcp);
}

static int attach(struct kcache *kcache, const struct kcache_served *served, char *error,
                  size_t nerror)
{
    if (kcache->answers_tcp && !served->tcp_port) {
        snprintf(error, nerror, "bmc: tcp=on needs a TCP port without TLS");
        return -1;
    }
    kcache->monitor = monitor_open(kcache->loader, kcache->options->mode, served->addresses,
                                   served->n, error, nerror);
    if (!kcache->monitor)
        return -1;
    if (kcache->options->automatic)
        add_automatic(kcache);
    monitor_sort(kcache->monitor, kcache->attached, kcache->ninterfaces);
    snprintf(error, nerror,
             "bmc=auto: no interface has an address that %s is served on: name one, like bmc=eth0",
             served->udp_port ? "UDP" : "TCP");
    monitor_watch(kcache->monitor, kcache->attached, kcache->ninterfaces);
    lease_begin(&kcache->lease);
    /* The chain caches nothing until it sees the writes on all interfaces. */
    if (!kcache->chain.wanted)
        open_ports(kcache, served->udp_port, served->tcp_port);
    if (attach_all(kcache, served->group, error, nerror) || add_rings(kcache, error, nerror)) {
        open_ports(kcache, 0, 0);
        detach(kcache);
        return -1;
    }
    attach_order(kcache->loader, kcache->attached, kcache->ninterfaces);
    monitor_watch(kcache->monitor, kcache->attached, kcache->ninterfaces);
    update_tc_follows(kcache);
    open_ports(kcache, served->udp_port, served->tcp_port);
    loader_invalidate_all(kcache->loader, 0);
    if (kcache->chain.wanted)
        log_unwatched(kcache);
    if (kcache->answers_tcp && may_undo(kcache, served)) {
        tcp_guard(&kcache->tcp);
        monitor_guard(kcache->monitor, attach_guard, &kcache->tcp);
        if (kcache->options->unstamped == KCACHE_ON)
            loader_take_unstamped(kcache->loader);
        tcp_follow(&kcache->tcp);
        log_answered(kcache, served);
    }
    warn_unreachable(kcache);
    note_others(kcache, served->others);
    return 0;
}

int kcache_attach(struct kcache *kcache, const struct kcache_served *served, char *error,
                  size_t nerror)
{
    int rc = attach(kcache, served, error, nerror);
    char ignored[128];

    /* The server may go on without the kernel path, and change its credentials. */
    if (rc)
        loader_wait(kcache->loader, ignored, sizeof(ignored));
    return rc;
}

uint64_t kcache_capabilities(const struct kcache *kcache)
{
    uint64_t capabilities = CREDENTIALS_BPF;
    unsigned int i;

    for (i = 0; (kcache->chain.wanted || kcache->answers_tcp) && i < kcache->ninterfaces; i++)
        if (attach_has_filter(&kcache->attached[i]))
            capabilities |= CREDENTIALS_NET_ADMIN;
    return capabilities;
}

int kcache_start(struct kcache *kcache)
{
    const struct mc_control *control = loader_control(kcache->loader);

    lease_renew(&kcache->lease);
    return kcache->monitor && (control->port || control->tcp_port) ? monitor_start(kcache->monitor)
                                                                   : 0;
}

/* --- statistics -------------------------------------------------------------- */

/* The counts since the start. Under the lock, so that a reset is of one moment. */
static void count(struct kcache *kcache, struct kcache_stats *out)
{
    size_t i;

    memset(out, 0, sizeof(*out));
    loader_counts(kcache->loader, &out->counts);
    loader_tcp_counts(kcache->loader, &out->tcp_counts);
    if (kcache->chain.wanted)
        loader_chain_counts(kcache->loader, &out->chain_counts);
    for (i = CHAIN_MISS_EMPTY; i <= CHAIN_MISS_AGE; i++)
        out->counts.count[MC_COUNT_SEEN] += out->chain_counts.count[i];
    tcp_counts(&kcache->tcp, &out->tcp_server);
    out->rings_sent = rings_sent(&kcache->rings);
    out->stalls = lease_stalls(&kcache->lease);
    memory_stats(&kcache->memory, &out->extents, &out->tables, &out->refused_maps);
    if (kcache->monitor)
        monitor_events(kcache->monitor, &out->events);
}

/* Subtracts the counts of the last reset, which are words up to what is no count. */
static void subtract(struct kcache_stats *stats, const struct kcache_stats *baseline)
{
    uint64_t now, then;
    size_t at;

    for (at = 0; at < offsetof(struct kcache_stats, tcp); at += sizeof(now)) {
        memcpy(&now, (const char *)stats + at, sizeof(now));
        memcpy(&then, (const char *)baseline + at, sizeof(then));
        now -= then;
        memcpy((char *)stats + at, &now, sizeof(now));
    }
}

void kcache_stats(struct kcache *kcache, struct kcache_stats *out)
{
    pthread_mutex_lock(&kcache->lock);
    count(kcache, out);
    subtract(out, &kcache->baseline);
    guard_stats(&kcache->guard, out);
    pthread_mutex_unlock(&kcache->lock);
    out->tcp = kcache->answers_tcp;
    out->tcp_is_guarded = loader_tcp_is_guarded(kcache->loader);
    out->nrings = kcache->rings.n;
    out->others = kcache->others;
    if (kcache->chain.wanted) {
        out->chain = kcache->settings;
        out->chain_options = kcache->chain;
        out->chain_bytes = loader_bytes(kcache->loader);
    }
    kcache_look(kcache, &out->view);
}

void kcache_look(struct kcache *kcache, struct iface_view *out)
{
    if (kcache->monitor)
        monitor_view(kcache->monitor, out);
    else
        memset(out, 0, sizeof(*out));
}

void kcache_reset_stats(struct kcache *kcache)
{
    pthread_mutex_lock(&kcache->lock);
    count(kcache, &kcache->baseline);
    pthread_mutex_unlock(&kcache->lock);
}
