/* SPDX-License-Identifier: BSD-3-Clause */
#include "kmem/tcp.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/log.h"
#include "bpf/load/load.h"
#include "splice/undo.h"

enum {
    PATIENCE_MS = 300,   /* that a socket may be silent */
    LATEST_ACK_MS = 300, /* after which a socket has acknowledged data */
    CLOCKS_MS = 20,      /* by which the clocks of the programs and of sockets may differ */
    REPORT_S = 60,
    CERTAIN_MS = 3000, /* the same, where it is not known what it has received */
};

/* The server serves the connection in any case: a failure is logged once. */
static void report_refusal(struct tcp *tcp, int error)
{
    if (!__atomic_exchange_n(&tcp->refused, true, __ATOMIC_RELAXED))
        log_write(
            "bmc: the kernel cannot follow a TCP connection (%s): the server answers on it, and "
            "on others like it",
            strerror(error));
}

static struct mc_tcp_slot *open_slot(struct boundaries *boundaries, int socket,
                                     unsigned int nundone)
{
    struct tcp *tcp = (struct tcp *)boundaries;
    struct mc_tcp_tag tag;
    bool follows = __atomic_load_n(&tcp->follows, __ATOMIC_RELAXED) && undo_lives(tcp->undo) &&
                   !__atomic_load_n(&loader_control(tcp->loader)->tcp_bypass, __ATOMIC_RELAXED);
    struct mc_tcp_slot *slot = follows ? slots_get(&tcp->slots, &tag) : NULL;
    int rc = slot ? loader_tcp_tag(tcp->loader, socket, &tag, nundone % 2) : 0;

    if (!rc)
        return slot;
    loader_tcp_untag(tcp->loader, slot);
    slots_put(&tcp->slots, slot);
    report_refusal(tcp, -rc);
    return NULL;
}

static void close_slot(struct boundaries *boundaries, struct mc_tcp_slot *slot)
{
    struct tcp *tcp = (struct tcp *)boundaries;

    loader_tcp_untag(tcp->loader, slot);
    slots_put(&tcp->slots, slot);
}

static bool release_slot(struct boundaries *boundaries, int socket, struct mc_tcp_slot *slot)
{
    struct tcp *tcp = (struct tcp *)boundaries;

    if (loader_tcp_release(tcp->loader, socket, slot))
        return false;
    slots_put(&tcp->slots, slot);
    __atomic_fetch_add(&tcp->nreleased, 1, __ATOMIC_RELAXED);
    return true;
}

/*
 * Whether a socket has acknowledged what it was given, and the programs on egress did not see it.
 * It is given more than it takes: a segment whose checksum is wrong, or that a filter drops.
 */
static bool has_acknowledged(const struct loader *loader, int socket, const struct tcp_info *info,
                             uint32_t age)
{
    int64_t unseen;

    if (info->tcpi_last_data_recv <= LATEST_ACK_MS)
        return false;
    unseen = loader_tcp_unseen(loader, socket, info->tcpi_bytes_received);
    return unseen < 0 ? age > CERTAIN_MS : unseen > 0;
}

/*
 * A client has acknowledged all that there is: its socket owes it nothing, and is not asked again
 * until the client's next segment. The programs note that one unless `owed` is set. If it comes
 * before `owed` is 0, it is data, so that `owed` has changed, or an acknowledgement, which this
 * socket has nothing to add to: only the thread that calls this writes to it.
 */
static void settle(struct mc_tcp_slot *slot, uint32_t owed, const struct tcp_info *info)
{
    if (!(owed & MC_TCP_ACK_DUE_DATA) && !info->tcpi_unacked && !info->tcpi_notsent_bytes)
        __atomic_compare_exchange_n(&slot->ack_due, &owed, 0, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}

static bool is_lost(struct boundaries *boundaries, struct mc_tcp_slot *slot, int socket)
{
    const struct loader *loader = ((struct tcp *)boundaries)->loader;
    uint32_t lost = __atomic_load_n(&slot->lost, __ATOMIC_RELAXED);
    uint32_t owed = __atomic_load_n(&slot->ack_due, __ATOMIC_RELAXED), age;
    struct tcp_info info;
    socklen_t n = sizeof(info);

    if (lost)
        return true;
    age = owed ? loader_tcp_age(loader, owed) : 0;
    if (age <= PATIENCE_MS || getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &n))
        return false;
    /* Data, or an acknowledgement, which the programs on egress have not seen by now, either. */
    if (info.tcpi_last_data_sent + CLOCKS_MS < age ||
        (owed & MC_TCP_ACK_DUE_DATA && has_acknowledged(loader, socket, &info, age)))
        return __atomic_load_n(&slot->ack_due, __ATOMIC_RELAXED) == owed;
    settle(slot, owed, &info);
    return false;
}

static const char *const undo_names[] = {UNDO_COUNTERS(COUNTER_KEY)};
static const char *const undo_meanings[] = {UNDO_COUNTERS(COUNTER_MEANING)};

static int64_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec;
}

/* Logs why, once a minute at most. */
static void report_undone(struct tcp *tcp, enum undo_reason reason)
{
    int64_t now = seconds(), last = __atomic_load_n(&tcp->reported, __ATOMIC_RELAXED);

    if ((last && now - last < REPORT_S) ||
        !__atomic_compare_exchange_n(&tcp->reported, &last, now, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    log_write("bmc: TCP %s (%s of `stats bmc`)", undo_meanings[reason], undo_names[reason]);
}

static struct mc_tcp_tag tag_of(const struct tcp *tcp, const struct mc_tcp_slot *slot)
{
    return (struct mc_tcp_tag){(uint32_t)(slot - tcp->slots.memory), slot->generation};
}

static bool announce(struct boundaries *boundaries, struct mc_tcp_slot *slot, int socket)
{
    struct tcp *tcp = (struct tcp *)boundaries;
    int64_t now = seconds();

    if (!tcp->undo || now < __atomic_load_n(&tcp->unasked, __ATOMIC_RELAXED))
        return false;
    if (undo_announce(tcp->undo, socket, tag_of(tcp, slot)))
        return true;
    __atomic_store_n(&tcp->unasked, now + 1, __ATOMIC_RELAXED);
    return false;
}

static enum undo_result undo(struct boundaries *boundaries, struct mc_tcp_slot *slot, int socket,
                             enum undo_reason reason, struct undone *out)
{
    struct tcp *tcp = (struct tcp *)boundaries;
    enum undo_result result;

    if (!tcp->undo)
        return UNDO_FAILED;
    if (listeners_begin(&tcp->listeners))
        return UNDO_NOT_NOW;
    result = undo_socket(tcp->undo, socket, tag_of(tcp, slot), out);
    listeners_end(&tcp->listeners, seconds());
    if (result == UNDO_DONE) {
        __atomic_fetch_add(&tcp->nundone[reason], 1, __ATOMIC_RELAXED);
        report_undone(tcp, reason);
    }
    return result;
}

static void reset(struct boundaries *boundaries, struct mc_tcp_slot *slot, int socket)
{
    struct tcp *tcp = (struct tcp *)boundaries;

    if (!tcp->undo || !undo_reset(tcp->undo, socket, tag_of(tcp, slot)))
        loader_tcp_reset(tcp->loader, socket);
}

static void count_lost(struct boundaries *boundaries)
{
    struct tcp *tcp = (struct tcp *)boundaries;

    if (!__atomic_exchange_n(&tcp->lost, true, __ATOMIC_RELAXED))
        log_write("bmc: segments of a TCP connection leave or arrive by a way without the kernel "
                  "programs: it is reset, as others like it (see tcp_reset of `stats bmc`)");
    __atomic_fetch_add(&tcp->nresets, 1, __ATOMIC_RELAXED);
}

static void count_refresh(struct boundaries *boundaries)
{
    __atomic_fetch_add(&((struct tcp *)boundaries)->nrefreshed, 1, __ATOMIC_RELAXED);
}

int tcp_init(struct tcp *tcp, struct loader *loader, uint32_t n, uint32_t refresh)
{
    *tcp = (struct tcp){.boundaries = {.open = open_slot,
                                       .close = close_slot,
                                       .release = release_slot,
                                       .is_lost = is_lost,
                                       .announce = announce,
                                       .undo = undo,
                                       .reset = reset,
                                       .count_lost = count_lost,
                                       .count_refresh = count_refresh,
                                       .refresh = refresh},
                        .loader = loader};
    return slots_init(&tcp->slots, loader_tcp_slots(loader), n);
}

int tcp_start_undo(struct tcp *tcp, const struct credentials_user *user, unsigned int nthreads,
                   uint16_t port, char *error, size_t nerror)
{
    struct undo_kernel kernel = {.cgroup = cgroup_open("/proc/self"),
                                 .filter = loader_tcp_filter(tcp->loader),
                                 .port = port};
    int rc;

    loader_tcp_entries(tcp->loader, &kernel.entries);
    rc = undo_start(&tcp->undo, &kernel, user, nthreads, error, nerror);
    if (kernel.cgroup >= 0)
        close(kernel.cgroup);
    return rc;
}

int tcp_attach_guard(struct tcp *tcp)
{
    int link = undo_guard(tcp->undo);

    if (link < 0)
        return link;
    loader_guard_tcp(tcp->loader, link);
    return 0;
}

void tcp_guard(struct tcp *tcp)
{
    int rc = tcp_attach_guard(tcp);

    if (rc)
        log_write(
            "bmc: no guard on what leaves over TCP (%s): the kernel answers over TCP only while "
            "all interfaces that are up have its programs; %s, or name them all",
            rc == -ENOENT ? "there is no cgroup of version 2" : strerror(-rc),
            rc == -EPERM ? "start with CAP_NET_ADMIN" : "mount cgroup2 on /sys/fs/cgroup");
}

int tcp_filter_listeners(struct tcp *tcp, const int *sockets, size_t n)
{
    return listeners_init(&tcp->listeners, tcp->loader, sockets, n);
}

void tcp_follow(struct tcp *tcp)
{
    __atomic_store_n(&tcp->follows, true, __ATOMIC_RELAXED);
}

void tcp_rest(struct tcp *tcp)
{
    listeners_rest(&tcp->listeners, seconds());
}

bool tcp_unfollow(struct tcp *tcp)
{
    listeners_leave(&tcp->listeners);
    return __atomic_exchange_n(&tcp->follows, false, __ATOMIC_RELAXED);
}

void tcp_counts(const struct tcp *tcp, struct boundaries_counts *out)
{
    for (size_t i = 0; i < UNDO_REASONS; i++)
        out->undone[i] = __atomic_load_n(&tcp->nundone[i], __ATOMIC_RELAXED);
    out->reset = __atomic_load_n(&tcp->nresets, __ATOMIC_RELAXED);
    out->released = __atomic_load_n(&tcp->nreleased, __ATOMIC_RELAXED);
    out->refreshed = __atomic_load_n(&tcp->nrefreshed, __ATOMIC_RELAXED);
}

void tcp_fini(struct tcp *tcp)
{
    undo_stop(tcp->undo);
    listeners_fini(&tcp->listeners);
    slots_fini(&tcp->slots);
}
