/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/monitor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/runfolder.h"
#include "base/thread.h"
#include "iface/arp.h"
#include "iface/diagnosis.h"
#include "iface/local.h"
#include "iface/losses.h"
#include "iface/order.h"
#include "iface/rtnetlink.h"
#include "iface/sending.h"

enum {
    TCP_SWEEP_S = 65, /* longer than TIME_WAIT */
    CHECK_MS = 1000,  /* between checks of the attachments: a detached link sends no event */
    LOOK_MS = 300,    /* in which an interface that works has sent some of XDP's replies */
    CHAIN_CHECK_MS =
        20, /* between checks of the chain's attachments: while detached it misses writes */
    TCP_CHECK_MS = 100, /* the same with tcp=on: connections stand still while they are detached */
    RETRY_MAX_S = 60,   /* the longest wait before attaching is tried again */
    OTHERS_S = 2,  /* in which other servers on the interface notice what this one has noticed */
    INVALID_S = 2, /* the chain caches nothing for this long after a check that finds it detached */
    REASON_TEXT = 512,             /* bytes of an error */
    RETURN_PATHS_MAX_S = 9 * 3600, /* before the 16-bit time of a return path wraps around:
                                      bpf/packet/return_path.bpf.h */
    ROUTES_FEW = 256,              /* that may be read as often as they change */
    POLLED = 4,                    /* descriptors that the thread polls */
};

/* An interface to keep attached, and its state. */
struct watched {
    struct attachment *at; /* its link's index is 0 while the interface does not exist */
    unsigned int nservers; /* that have its XDP, as logged */
    char wanted[IF_NAMESIZE];
    enum iface_state state;
    bool up;
    unsigned int lost;        /* found by check_attached, bits of loader_lost */
    int beneath;              /* the interface that update_beneath has named; 0: none */
    char reason[REASON_TEXT]; /* the last logged reason */
    time_t retry;             /* time of the next try */
    unsigned int wait_s;
    struct losses losses;
};

struct monitor {
    struct loader *loader;
    enum iface_mode mode;
    struct in6_addr *listen;
    size_t nlisten;

    int link_events;  /* of rtnetlink_subscribe */
    int route_events; /* of rtnetlink_subscribe_to_routes */
    int wake;         /* written to end the thread */
    pthread_t thread;
    bool running;

    /* Used by the thread only, once it runs. */
    struct hostnet hostnet;
    bool stale; /* hostnet may be out of date */
    struct mc_local local;
    struct mc_return_path_port ports[MC_RETURN_PATH_PORTS];
    size_t nports;
    int ways[MC_TCP_WAYS_MAX]; /* of TCP, as the programs have them */
    size_t nways;
    time_t return_paths_invalidated; /* time of the last invalidation of all return paths for their
                                        age */
    time_t tcp_swept;                /* time of the last loader_sweep_tcp */
    size_t left_out;
    int open;               /* the interface for which nothing is answered over TCP; 0: none */
    unsigned int nopened;   /* how often that was another, or the first */
    int besides[IFACE_MAX]; /* the interfaces that update_besides has named */
    size_t nbesides;
    bool routes_stale;  /* hostnet's routes, */
    time_t routes_read; /* and when they were read */
    bool moved;         /* links, addresses or routes, since update_besides */
    bool vlans_changed; /* since the last check */
    bool attached;      /* any program, since the start */
    uint64_t looked;    /* milliseconds, when it last looked at what XDP sends */
    bool looks;         /* this check does, and then: */
    bool soon;          /* the next one is due after LOOK_MS */
    struct sending_host host;
    int (*guard)(void *); /* attaches the guard again; with: */
    void *guard_context;
    struct losses guard_losses;
    struct watched watched[IFACE_MAX]; /* in the order of monitor_watch's array */
    size_t nwatched;
    struct iface_events events;

    pthread_mutex_t lock; /* of what follows; a leaf, held for a copy */
    struct iface_view view;
    struct iface_events seen;
};

/* --- local addresses --------------------------------------------------------------- */

/*
 * Updates hostnet from events. Any change may have changed the return paths: invalidates them.
 */
static void refresh_hostnet(struct monitor *monitor)
{
    unsigned int changes = rtnetlink_receive(monitor->link_events, &monitor->hostnet);

    if (rtnetlink_drain(monitor->route_events) || changes) {
        loader_invalidate_return_paths(monitor->loader);
        monitor->routes_stale = true; /* also by a link that goes down, without an event */
    }
    monitor->moved |= changes != 0;
    if (changes & HOSTNET_STALE)
        monitor->stale = true;
    if (!monitor->stale)
        return;
    monitor->routes_stale = true;
    /* Discards events older than the dump: applied after it, they would undo it. */
    rtnetlink_drain(monitor->link_events);
    monitor->stale = rtnetlink_dump(&monitor->hostnet) != 0;
    monitor->events.dumps++;
}

/*
 * Waits until no program reads the previous local addresses, so that their memory may be reused. A
 * program runs for microseconds; the wait is one RCU grace period.
 */
static void wait_for_readers(void)
{
    const struct timespec pause = {0, 10 * 1000 * 1000};

    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
        nanosleep(&pause, NULL);
}

static struct hostnet_scope scope_of(const struct monitor *monitor, int ifindexes[IFACE_MAX])
{
    size_t i;

    for (i = 0; i < monitor->nwatched; i++)
        ifindexes[i] = monitor->watched[i].at->link.ifindex;
    return (struct hostnet_scope){.listen = monitor->listen,
                                  .nlisten = monitor->nlisten,
                                  .ifindexes = ifindexes,
                                  .nifindexes = monitor->nwatched};
}

static size_t find_local(struct monitor *monitor, struct mc_local *local,
                         struct mc_return_path_port *ports, size_t *nports)
{
    int ifindexes[IFACE_MAX];
    struct hostnet_scope scope = scope_of(monitor, ifindexes);
    size_t left_out, i;

    left_out = hostnet_local(&monitor->hostnet, &scope, local);
    *nports = hostnet_ports(&monitor->hostnet, &scope, ports);
    for (i = 0; i < monitor->nwatched; i++)
        local->tags_hidden |= monitor->watched[i].at->strips_tags;
    return left_out;
}

/* Logs, with -v, the numbers of addresses if they have changed. */
static void log_local(const struct monitor *monitor, const struct mc_local *local)
{
    const struct mc_local *before = &monitor->local;

    if (local->n4 == before->n4 && local->n6 == before->n6 && local->nmacs == before->nmacs &&
        local->nvlans == before->nvlans)
        return;
    log_at(1, "bmc: answering for %u IPv4 and %u IPv6 addresses, %u MAC addresses, %u VLANs",
           local->n4, local->n6, local->nmacs, local->nvlans);
}

/* Passes the local addresses to the programs, if they have changed. */
static void publish(struct monitor *monitor)
{
    struct mc_return_path_port ports[MC_RETURN_PATH_PORTS];
    struct mc_local local;
    size_t nports, left_out = find_local(monitor, &local, ports, &nports);

    if (nports != monitor->nports ||
        memcmp(ports, monitor->ports, nports * sizeof(ports[0])) != 0) {
        loader_set_ports(monitor->loader, ports, nports);
        memcpy(monitor->ports, ports, nports * sizeof(ports[0]));
        monitor->nports = nports;
    }

    if (left_out && !monitor->left_out)
        log_write(
            "bmc: not all addresses and MAC addresses of this machine fit; for %zu of them the "
            "server answers alone",
            left_out);
    monitor->left_out = left_out;
    if (memcmp(&local, &monitor->local, sizeof(local)) == 0)
        return;
    local_publish(loader_control(monitor->loader), &local);
    if (memcmp(local.vlans, monitor->local.vlans, sizeof(local.vlans)) != 0)
        monitor->vlans_changed = true;
    log_local(monitor, &local);
    monitor->local = local;
    if (monitor->attached)
        wait_for_readers();
}

/* --- interfaces -------------------------------------------------------------------- */

static void change_state(struct monitor *monitor, struct watched *watched, enum iface_state state)
{
    if (watched->state == state)
        return;
    watched->state = state;
    monitor->events.interface_events++;
}

/*
 * XDP leaves replies to TC only if TC is attached behind every XDP program. The chain caches
 * nothing while writes may arrive by an interface where it is detached.
 */
static void update_programs(struct monitor *monitor)
{
    bool tc_follows = true, alone = false, unwatched = false, generic = false;
    size_t i;

    for (i = 0; i < monitor->nwatched; i++) {
        const struct watched *watched = &monitor->watched[i];

        generic |= watched->at->link.generic;
        if (watched->at->link.xdp >= 0)
            tc_follows &= loader_has_tc(&watched->at->link, LOADER_INGRESS);
        alone |= watched->at->tc_alone;
        unwatched |= watched->state == IFACE_DETACHED || watched->state == IFACE_GIVEN_UP;
    }
    loader_set_tc(monitor->loader, tc_follows, alone);
    loader_set_xdp_generic(monitor->loader, generic);
    if (unwatched && loader_is_chain(monitor->loader))
        loader_invalidate_all(monitor->loader, INVALID_S * UINT64_C(1000000000));
}

/* Passes to the programs by which interfaces what leaves passes TC egress, if that has changed. */
static void update_ways(struct monitor *monitor)
{
    int attached[IFACE_MAX], ways[MC_TCP_WAYS_MAX];
    struct hostnet_scope scope = {.ifindexes = attached};
    size_t i, n;

    for (i = 0; i < monitor->nwatched; i++)
        if (loader_has_tc(&monitor->watched[i].at->link, LOADER_EGRESS))
            attached[scope.nifindexes++] = monitor->watched[i].at->link.ifindex;
    n = hostnet_ways(&monitor->hostnet, &scope, ways, MC_TCP_WAYS_MAX);
    if (n == monitor->nways && memcmp(ways, monitor->ways, n * sizeof(ways[0])) == 0)
        return;
    monitor->moved = true;
    loader_set_tcp_ways(monitor->loader, ways, n);
    memcpy(monitor->ways, ways, n * sizeof(ways[0]));
    monitor->nways = n;
}

/*
 * Without the guard a segment leaves by any interface, and is wrong to a client that does not look
 * at timestamps: the kernel answers over TCP only while all interfaces have the programs. To be
 * called after update_ways.
 */
static void update_open(struct monitor *monitor)
{
    const struct hostnet_link *open;
    int index;

    if (!loader_tcp_slots(monitor->loader))
        return;
    open = loader_tcp_is_guarded(monitor->loader) ? NULL : hostnet_open_way(&monitor->hostnet);
    index = open ? open->ifindex : 0;
    __atomic_store_n(&loader_control(monitor->loader)->tcp_bypass, index != 0, __ATOMIC_RELAXED);
    monitor->nopened += open && index != monitor->open;
    if (open && index != monitor->open)
        log_write("bmc: there is no guard on what leaves over TCP, and segments may leave by %s, "
                  "which has no kernel programs: the kernel answers nothing over TCP, unless you "
                  "add bmc=%s",
                  open->name, open->name);
    else if (!open && monitor->open)
        log_write("bmc: all interfaces that are up have the kernel programs: the kernel answers "
                  "over TCP");
    monitor->open = index;
}

static bool was_named(const struct monitor *monitor, int ifindex)
{
    size_t i;

    for (i = 0; i < monitor->nbesides; i++)
        if (monitor->besides[i] == ifindex)
            return true;
    return false;
}

/* Says why replies may leave by an interface, and what to add. */
static void say_beside(const struct hostnet_beside *beside)
{
    char why[128], to[INET6_ADDRSTRLEN] = "", word[48] = "";
    const char *name = beside->link->name;

    if (beside->why == HOSTNET_SUBNET)
        snprintf(why, sizeof(why), "%s has an address of the same subnet as %s", name,
                 beside->attached->name);
    else if (beside->why == HOSTNET_ABOVE)
        snprintf(why, sizeof(why), "%s lies above %s, and not all that leaves by it leaves there",
                 name, beside->attached->name);
    else if (!beside->route->prefix)
        snprintf(why, sizeof(why), "the default route is by %s", name);
    else
        snprintf(why, sizeof(why), "the route to %s/%u is by %s",
                 inet_ntop(beside->route->family, beside->route->to, to, sizeof(to)),
                 beside->route->prefix, name);
    if (beside->carrier)
        snprintf(word, sizeof(word), ", unless you add bmc=%s", beside->carrier->name);
    log_write("bmc: %s: on TCP connections whose replies leave by it the server answers alone%s",
              why, word);
}

/*
 * Names each interface once by which replies may leave that have to be translated: connections
 * whose replies do are the server's alone. To be called after update_ways. Of many routes, which
 * may change often, it reads changes once a second.
 */
static void update_besides(struct monitor *monitor, time_t now)
{
    struct hostnet_beside besides[IFACE_MAX];
    int attached[IFACE_MAX];
    struct hostnet_scope scope = scope_of(monitor, attached);
    size_t n, i;

    if (!loader_tcp_slots(monitor->loader))
        return;
    if (monitor->routes_stale &&
        (monitor->hostnet.nroutes <= ROUTES_FEW || monitor->routes_read != now)) {
        monitor->routes_stale = rtnetlink_dump_routes(&monitor->hostnet) != 0;
        monitor->routes_read = now;
        monitor->moved = true;
    }
    if (!monitor->moved)
        return;
    n = hostnet_beside(&monitor->hostnet, &scope, besides, IFACE_MAX);
    for (i = 0; i < n; i++)
        if (!was_named(monitor, besides[i].link->ifindex))
            say_beside(&besides[i]);
    for (i = 0; i < n; i++)
        monitor->besides[i] = besides[i].link->ifindex;
    monitor->nbesides = n;
    monitor->moved = false;
}

/*
 * Names the interface beneath an attached one where requests to that one may come. No event tells
 * of the settings of ARP. To be called after find_local.
 */
static void update_beneath(struct monitor *monitor, struct watched *watched)
{
    int attached[IFACE_MAX];
    struct hostnet_scope scope = scope_of(monitor, attached);
    const struct hostnet_link *lower =
        hostnet_beneath(&monitor->hostnet, &scope, watched->at->link.ifindex);
    const int index = lower && arp_answers_for_others(lower->name) ? lower->ifindex : 0;

    if (index && index != watched->beneath)
        log_write("bmc: %s: Linux answers ARP for its addresses on %s as well: requests that come "
                  "there the server answers alone, unless you add bmc=%s or set "
                  "net.ipv4.conf.%s.arp_ignore=1",
                  watched->at->name, lower->name, hostnet_lowest(&monitor->hostnet, lower)->name,
                  lower->name);
    watched->beneath = index;
}

static bool tc_deferred(const struct monitor *monitor)
{
    size_t i;

    for (i = 0; i < monitor->nwatched; i++)
        if (monitor->watched[i].at->tc_deferred)
            return true;
    return false;
}

/* When XDP has found no room for a reply, attaches the deferred TC programs, on all interfaces. */
static void attach_tc_if_needed(struct monitor *monitor)
{
    struct mc_counts counts;
    size_t i;
    int rc;

    if (!tc_deferred(monitor))
        return;
    loader_counts(monitor->loader, &counts);
    for (i = 0; counts.count[MC_COUNT_PASS_ROOM] && i < monitor->nwatched; i++) {
        struct attachment *at = monitor->watched[i].at;
        bool waits = at->tc_deferred;

        rc = attach_deferred_tc(monitor->loader, at);
        if (rc)
            log_write("bmc: %s: a reply found no room, and TC ingress refuses the program: %s",
                      at->name, strerror(-rc));
        else if (waits)
            log_at(1, "bmc: %s: a reply found no room: TC ingress (tcx)", at->name);
    }
}

static bool is_complete(const struct watched *watched)
{
    bool tc = loader_has_tc(&watched->at->link, watched->at->link.main);

    return loader_has_tc(&watched->at->link, LOADER_EGRESS) &&
           (watched->at->link.xdp >= 0 || (watched->at->tc_alone && tc));
}

static void remove_interface(struct monitor *monitor, struct watched *watched)
{
    log_write("bmc: %s: the interface was removed", watched->at->name);
    attach_remove(watched->at);
    loader_end_ring_port(monitor->loader, watched->at->link.ifindex);
    watched->at->link.ifindex = 0;
    snprintf(watched->at->name, sizeof(watched->at->name), "%s", watched->wanted);
    watched->losses = (struct losses){0};
    watched->reason[0] = '\0';
    change_state(monitor, watched, IFACE_GONE);
}

static void restore_interface(struct monitor *monitor, struct watched *watched,
                              const struct hostnet_link *link)
{
    log_write("bmc: %s: the interface exists again", watched->wanted);
    loader_link_init(&watched->at->link, link->ifindex);
    watched->retry = 0;
    watched->wait_s = 1;
    watched->at->sending = (struct sending){0};
    change_state(monitor, watched, IFACE_DETACHED);
}

/* Updates its name, and whether it is up. */
static void note_link(struct monitor *monitor, struct watched *watched,
                      const struct hostnet_link *link)
{
    if (strcmp(watched->at->name, link->name) != 0) {
        log_write("bmc: %s: the interface was renamed to %s", watched->at->name, link->name);
        snprintf(watched->at->name, sizeof(watched->at->name), "%s", link->name);
        monitor->events.interface_events++;
    }
    if (watched->up != link->up) {
        watched->up = link->up;
        log_at(1, "bmc: %s: %s", watched->at->name, link->up ? "up" : "down");
    }
    if (is_complete(watched))
        change_state(monitor, watched, link->up ? IFACE_UP : IFACE_DOWN);
}

/*
 * A process that detaches the programs repeatedly does so on purpose: attach them again after a
 * pause.
 */
static void note_loss(struct monitor *monitor, struct watched *watched, unsigned int lost,
                      time_t now)
{
    unsigned int pause_s = losses_note(&watched->losses, now);

    log_write("bmc: %s: another process has detached %s", watched->at->name,
              lost == (LOADER_LOST_XDP | LOADER_LOST_TC) ? "the programs"
              : lost == LOADER_LOST_XDP                  ? "the XDP program"
                                                         : "the TC program");
    monitor->events.detached++;
    watched->retry = now + (time_t)pause_s;
    watched->wait_s = 1;
    if (!pause_s) {
        change_state(monitor, watched, IFACE_DETACHED);
        return;
    }
    log_write("bmc: %s: detached too often: given up for %u s, in which the server answers alone%s",
              watched->at->name, pause_s,
              loader_is_chain(monitor->loader)
                  ? ""
                  : " (to have it do so for good: the command `bmc off`)");
    attach_remove(watched->at);
    change_state(monitor, watched, IFACE_GIVEN_UP);
}

static void try_to_attach(struct monitor *monitor, struct watched *watched, time_t now)
{
    char error[REASON_TEXT];

    if (attach_interface(monitor->loader, watched->at, monitor->mode, error, sizeof(error)) == 0) {
        attach_order(monitor->loader, monitor->watched[0].at, monitor->nwatched);
        monitor->events.reattached++;
        watched->reason[0] = '\0';
        sending_begin(watched->at, &monitor->host);
        change_state(monitor, watched, watched->up ? IFACE_UP : IFACE_DOWN);
        return;
    }
    if (strcmp(error, watched->reason) != 0)
        log_write("%s; will try again; the server answers alone until then", error);
    snprintf(watched->reason, sizeof(watched->reason), "%s", error);
    watched->retry = now + watched->wait_s;
    watched->wait_s = 2 * watched->wait_s < RETRY_MAX_S ? 2 * watched->wait_s : RETRY_MAX_S;
}

/* Attaches XDP once more, at this time, in the mode that works now. */
static void attach_anew(struct monitor *monitor, struct watched *watched, time_t when)
{
    loader_detach_xdp(&watched->at->link);
    watched->retry = when;
    watched->wait_s = 1;
    change_state(monitor, watched, IFACE_DETACHED);
}

/* A new VLAN may be one whose tags native XDP does not see. */
static void check_fitness(struct monitor *monitor, struct watched *watched, time_t now)
{
    char why[REASON_TEXT];

    if (!attach_is_unfit(watched->at, why, sizeof(why)))
        return;
    log_write("bmc: %s: %s", watched->at->name, why);
    attach_anew(monitor, watched, now);
}

/* --- whether what native XDP sends leaves ------------------------------------------- */

/* How many answers XDP has sent, on all interfaces. */
static uint64_t answered_by_xdp(const struct monitor *monitor)
{
    struct mc_tcp_counts tcp;
    struct mc_counts counts;

    loader_counts(monitor->loader, &counts);
    loader_tcp_counts(monitor->loader, &tcp);
    return counts.count[MC_COUNT_ANSWERED_XDP] + tcp.count[MC_TCP_ANSWERED_XDP];
}

/* Other events must not make the time between two looks too short. */
static void begin_look(struct monitor *monitor, const struct timespec *now)
{
    const uint64_t ms = (uint64_t)now->tv_sec * 1000 + (uint64_t)now->tv_nsec / 1000000;

    monitor->looks = ms - monitor->looked >= LOOK_MS;
    if (!monitor->looks)
        return;
    monitor->looked = ms;
    monitor->soon = false;
    monitor->host.answered = answered_by_xdp(monitor);
}

/* Servers that share an interface have to agree on a mode. */
static void check_sending(struct monitor *monitor, struct watched *watched, time_t now)
{
    const bool is_here = watched->state == IFACE_UP || watched->state == IFACE_DETACHED;
    enum sending_step step = sending_check(watched->at, &monitor->host, is_here, now);

    monitor->soon |= step == SENDING_LOOK;
    monitor->events.tx_failures += step == SENDING_GIVE_UP;
    if (step == SENDING_GIVE_UP || step == SENDING_RETURN)
        attach_anew(monitor, watched, watched->at->link.nservers > 1 ? now + OTHERS_S : now);
}

/* --- checks ------------------------------------------------------------------------- */

/* Logs, of the server that was there before, that another one shares the interface now. */
static void note_servers(struct watched *watched)
{
    const struct loader_link *link = &watched->at->link;

    if (link->nservers > watched->nservers)
        log_write("bmc: %s: %u servers share XDP", watched->at->name, link->nservers);
    watched->nservers = link->nservers;
}

static void check_interface(struct monitor *monitor, struct watched *watched, time_t now)
{
    unsigned int lost = watched->lost | loader_lost(monitor->loader, &watched->at->link);
    const struct hostnet_link *link;

    watched->lost = 0;
    if (lost)
        refresh_hostnet(monitor); /* the interface itself may have been removed */
    link = hostnet_link(&monitor->hostnet, watched->at->link.ifindex);
    if (watched->at->link.ifindex && !link) {
        remove_interface(monitor, watched);
        lost = 0;
    }
    if (!link)
        link = hostnet_link_named(&monitor->hostnet, watched->wanted);
    if (!link)
        return;
    if (!watched->at->link.ifindex)
        restore_interface(monitor, watched, link);
    note_link(monitor, watched, link);
    if (lost)
        note_loss(monitor, watched, lost, now);
    note_servers(watched);
    order_check(monitor->loader, watched->at);
    if (monitor->vlans_changed)
        check_fitness(monitor, watched, now);
    if (monitor->looks)
        check_sending(monitor, watched, now);
    if (watched->state == IFACE_GIVEN_UP && now >= watched->retry)
        change_state(monitor, watched, IFACE_DETACHED);
    if (watched->state == IFACE_DETACHED && now >= watched->retry &&
        !sending_waits(watched->at, &monitor->host))
        try_to_attach(monitor, watched, now);
}

static void check_interfaces(struct monitor *monitor)
{
    struct timespec now;
    size_t i;

    clock_gettime(CLOCK_MONOTONIC, &now);
    begin_look(monitor, &now);
    if (now.tv_sec - monitor->return_paths_invalidated >= RETURN_PATHS_MAX_S) {
        loader_invalidate_return_paths(monitor->loader);
        monitor->return_paths_invalidated = now.tv_sec;
    }
    if (now.tv_sec - monitor->tcp_swept >= TCP_SWEEP_S) {
        loader_sweep_tcp(monitor->loader);
        monitor->tcp_swept = now.tv_sec;
    }
    for (i = 0; i < monitor->nwatched; i++)
        check_interface(monitor, &monitor->watched[i], now.tv_sec);
    monitor->vlans_changed = false;
    attach_tc_if_needed(monitor);
    update_programs(monitor);
    update_ways(monitor);
    update_open(monitor);
    update_besides(monitor, now.tv_sec);
    for (i = 0; i < monitor->nwatched; i++)
        update_beneath(monitor, &monitor->watched[i]);
}

/* --- statistics ---------------------------------------------------------------------- */

static void view_interface(const struct watched *watched, struct iface *out)
{
    const struct loader_link *link = &watched->at->link;

    snprintf(out->name, sizeof(out->name), "%s", watched->at->name);
    out->xdp_native = link->xdp >= 0 && !link->generic;
    out->xdp_generic = link->xdp >= 0 && link->generic;
    out->tc = loader_has_tc(&watched->at->link, watched->at->link.main);
    out->tc_deferred = watched->at->tc_deferred;
    out->nservers = link->nservers ? link->nservers : 1;
    out->state = watched->state;
    memcpy(out->before, watched->at->before, sizeof(out->before));
}

/* Attaching can take long: the statistics read a copy instead of waiting for it. */
static void update_view(struct monitor *monitor)
{
    struct iface_view view = {.n4 = monitor->local.n4,
                              .n6 = monitor->local.n6,
                              .nmacs = monitor->local.nmacs,
                              .nvlans = monitor->local.nvlans,
                              .left_out = monitor->left_out,
                              .tcp_open = monitor->open != 0,
                              .ntcp_opened = monitor->nopened,
                              .ninterfaces = (unsigned int)monitor->nwatched};
    size_t i;

    for (i = 0; i < monitor->nwatched; i++)
        view_interface(&monitor->watched[i], &view.interfaces[i]);
    pthread_mutex_lock(&monitor->lock);
    monitor->view = view;
    monitor->seen = monitor->events;
    pthread_mutex_unlock(&monitor->lock);
}

void monitor_view(struct monitor *monitor, struct iface_view *out)
{
    pthread_mutex_lock(&monitor->lock);
    *out = monitor->view;
    pthread_mutex_unlock(&monitor->lock);
}

void monitor_events(struct monitor *monitor, struct iface_events *out)
{
    pthread_mutex_lock(&monitor->lock);
    *out = monitor->seen;
    pthread_mutex_unlock(&monitor->lock);
}

/* --- the thread -------------------------------------------------------------------- */

/*
 * Whether another process has detached the guard on what leaves over TCP for good. Connections on
 * which the kernel begins to answer without it would not have it later, so it comes back at once or
 * never.
 */
static bool check_guard(struct monitor *monitor)
{
    struct timespec now;
    const char *why = "too often";
    int rc;

    if (!loader_tcp_lost_guard(monitor->loader))
        return false;
    monitor->events.detached++;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!losses_note(&monitor->guard_losses, now.tv_sec)) {
        rc = monitor->guard(monitor->guard_context);
        why = rc ? strerror(-rc) : NULL;
    }
    if (!why) {
        monitor->events.reattached++;
        log_write("bmc: another process has detached the guard on what leaves over TCP: it is "
                  "attached again");
        return false;
    }
    loader_leave_tcp_unguarded(monitor->loader);
    log_write("bmc: another process has detached the guard on what leaves over TCP, and it is "
              "not attached again (%s): restart the server to have it",
              why);
    return true;
}

/*
 * Whether another process has detached the programs from an interface. The chain does not see
 * writes there: invalidates its cache at once, before the programs are attached again.
 */
static bool check_attached(struct monitor *monitor)
{
    bool lost = false, unguarded = check_guard(monitor);
    size_t i;

    for (i = 0; i < monitor->nwatched; i++) {
        struct watched *watched = &monitor->watched[i];

        watched->lost |= loader_lost(monitor->loader, &watched->at->link);
        lost |= watched->lost != 0;
    }
    if (lost)
        loader_invalidate_all(monitor->loader, INVALID_S * UINT64_C(1000000000));
    return lost || unguarded;
}

/* Waits for events or the time of the next check. */
static void poll_events(struct monitor *monitor, struct pollfd fds[POLLED])
{
    const int until = monitor->soon ? LOOK_MS : CHECK_MS;
    const int ms = loader_is_chain(monitor->loader)    ? CHAIN_CHECK_MS
                   : loader_tcp_slots(monitor->loader) ? TCP_CHECK_MS
                                                       : until;
    int rc = 0, rested;

    for (rested = 0; !rc && rested < until; rested += ms) {
        rc = poll(fds, POLLED, ms);
        if (ms < CHECK_MS && check_attached(monitor))
            break;
    }
    if (rc <= 0)
        fds[0].revents = fds[3].revents = 0;
}

/* Acts on the events so far, and checks the attachments. */
static void catch_up(struct monitor *monitor)
{
    refresh_hostnet(monitor);
    publish(monitor);
    check_interfaces(monitor);
    publish(monitor); /* the attached interfaces may have other MAC addresses */
    update_view(monitor);
}

static void *run(void *arg)
{
    struct monitor *monitor = arg;
    struct pollfd fds[POLLED] = {{.fd = monitor->wake, .events = POLLIN},
                                 {.fd = monitor->link_events, .events = POLLIN},
                                 {.fd = monitor->route_events, .events = POLLIN},
                                 {.events = POLLIN}};

    loader_begin_to_serve(monitor->loader);
    for (;;) {
        fds[3].fd = loader_listener(monitor->loader);
        poll_events(monitor, fds);
        if (fds[0].revents & POLLIN)
            return NULL;
        if (fds[3].revents)
            loader_serve(monitor->loader);
        catch_up(monitor);
    }
}

/* Why rtnetlink does not tell interfaces and addresses. */
static void explain(int rc, char *error, size_t nerror)
{
    if (rc == -EAFNOSUPPORT || rc == -EPERM || rc == -EACCES)
        snprintf(error, nerror,
                 "bmc: a seccomp filter forbids sockets of AF_NETLINK (%s), by which the kernel "
                 "tells of interfaces and addresses: in a systemd unit add "
                 "RestrictAddressFamilies=AF_NETLINK, in a container's profile allow socket(2)",
                 strerror(-rc));
    else
        snprintf(error, nerror, "bmc: cannot read this machine's addresses: %s", strerror(-rc));
}

struct monitor *monitor_open(struct loader *loader, enum iface_mode mode,
                             const struct in6_addr *listen, size_t nlisten, char *error,
                             size_t nerror)
{
    struct monitor *monitor = calloc(1, sizeof(*monitor));
    struct in6_addr *copy = calloc(nlisten + 1, sizeof(*copy));
    int rc;

    if (!monitor || !copy) {
        snprintf(error, nerror, "bmc: out of memory");
        free(monitor);
        free(copy);
        return NULL;
    }
    memcpy(copy, listen, nlisten * sizeof(*copy));
    *monitor = (struct monitor){
        .loader = loader,
        .mode = mode,
        .listen = copy,
        .nlisten = nlisten,
        .host = {.hostnet = &monitor->hostnet, .mode = mode, .is_chain = loader_is_chain(loader)},
        .routes_stale = true,
    };
    pthread_mutex_init(&monitor->lock, NULL);
    hostnet_init(&monitor->hostnet);
    monitor->wake = eventfd(0, EFD_CLOEXEC);
    monitor->link_events = rtnetlink_subscribe();
    monitor->route_events = rtnetlink_subscribe_to_routes();
    rc = monitor->wake < 0           ? -errno
         : monitor->link_events < 0  ? monitor->link_events
         : monitor->route_events < 0 ? monitor->route_events
                                     : 0;
    if (!rc)
        rc = rtnetlink_dump(&monitor->hostnet);
    if (rc) {
        explain(rc, error, nerror);
        monitor_close(monitor);
        return NULL;
    }
    return monitor;
}

void monitor_sort(const struct monitor *monitor, struct attachment *attachments, size_t n)
{
    struct attachment at;
    unsigned int height;
    size_t i, j;

    for (i = 1; i < n; i++) {
        at = attachments[i];
        height = hostnet_height(&monitor->hostnet, at.link.ifindex);
        for (j = i;
             j > 0 && hostnet_height(&monitor->hostnet, attachments[j - 1].link.ifindex) > height;
             j--)
            attachments[j] = attachments[j - 1];
        attachments[j] = at;
    }
}

size_t monitor_carriers(const struct monitor *monitor, bool with_lo, char (*names)[IF_NAMESIZE],
                        size_t max)
{
    const struct hostnet_scope scope = {.listen = monitor->listen, .nlisten = monitor->nlisten};

    return hostnet_carriers(&monitor->hostnet, &scope, with_lo, names, max);
}

bool monitor_is_loopback(const struct monitor *monitor)
{
    return hostnet_is_loopback(
        &(struct hostnet_scope){.listen = monitor->listen, .nlisten = monitor->nlisten});
}

void monitor_listen(struct monitor *monitor, gid_t group)
{
    int lock = runfolder_enter(DIAGNOSIS_FOLDER);
    int rc = lock < 0 ? lock : loader_listen(monitor->loader, DIAGNOSIS_FOLDER, group);
    char text[REASON_TEXT];

    if (lock >= 0)
        close(lock);
    if (!rc || monitor->mode == IFACE_TC || loader_is_chain(monitor->loader))
        return;
    diagnosis_unshared(rc, text, sizeof(text));
    log_write("bmc: %s", text);
}

void monitor_watch(struct monitor *monitor, struct attachment *attachments, size_t n)
{
    const struct hostnet_link *link;
    size_t i;

    monitor->nwatched = n;
    for (i = 0; i < n; i++) {
        struct watched *watched = &monitor->watched[i];

        *watched =
            (struct watched){.at = &attachments[i], .nservers = attachments[i].link.nservers};
        memcpy(watched->wanted, attachments[i].name, IF_NAMESIZE);
        link = hostnet_link(&monitor->hostnet, attachments[i].link.ifindex);
        watched->up = link && link->up;
        watched->state = watched->up ? IFACE_UP : IFACE_DOWN;
        monitor->attached |=
            loader_has_tc(&watched->at->link, LOADER_EGRESS) || watched->at->link.xdp >= 0;
    }
    publish(monitor);
    update_ways(monitor);
    update_view(monitor);
}

void monitor_guard(struct monitor *monitor, int (*attach)(void *), void *context)
{
    monitor->guard = attach;
    monitor->guard_context = context;
}

/*
 * Attaching causes events of its own, which invalidate all return paths. They are handled here and
 * not by the thread, so that this happens before the server replies to the first client and not
 * after.
 */
int monitor_start(struct monitor *monitor)
{
    int rc;

    catch_up(monitor);
    rc = thread_start(&monitor->thread, run, monitor);
    monitor->running = rc == 0;
    return rc;
}

void monitor_stop(struct monitor *monitor)
{
    const uint64_t one = 1;

    if (!monitor || !monitor->running)
        return;
    if (write(monitor->wake, &one, sizeof(one)) == sizeof(one))
        pthread_join(monitor->thread, NULL);
    monitor->running = false;
}

void monitor_close(struct monitor *monitor)
{
    if (!monitor)
        return;
    monitor_stop(monitor);
    if (monitor->wake >= 0)
        close(monitor->wake);
    if (monitor->link_events >= 0)
        close(monitor->link_events);
    if (monitor->route_events >= 0)
        close(monitor->route_events);
    hostnet_fini(&monitor->hostnet);
    pthread_mutex_destroy(&monitor->lock);
    free(monitor->listen);
    free(monitor);
}
