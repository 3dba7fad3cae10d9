/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard on what leaves over TCP (bpf/tcp/guard.bpf.h), on real sockets: this process's, in a
 * control group of its own, over lo, which is a way with the programs or is not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/cgroup.h"
#include "bpf/load/entry.h"
#include "t/bpf/tcp_lab.h"
#include "t/lib/tap.h"

enum { SECONDS = 20, GROUP_NAME = 64 };

static const int lo = 1;

/* What a socket's storage has (bpf/tcp/guard.bpf.h). */
struct guarded {
    struct mc_tcp_tag tag;
    uint32_t is_seen;
    uint64_t way;
};

/* --- the control group -------------------------------------------------------------------------
 */

struct group {
    int parent, own; /* folders */
    char name[GROUP_NAME];
};

static bool enter(int folder)
{
    int fd = openat(folder, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && dprintf(fd, "%d", (int)getpid()) > 0;

    if (fd >= 0)
        close(fd);
    return done;
}

static void group_open(struct group *group)
{
    group->parent = cgroup_open("/proc/self");
    snprintf(group->name, sizeof(group->name), "memcached-t-guard-%d", (int)getpid());
    if (group->parent < 0 || mkdirat(group->parent, group->name, 0700))
        skip_all("no control group of version 2");
    group->own = openat(group->parent, group->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(enter(group->own), "this process is in a control group of its own");
}

static void group_close(const struct group *group)
{
    enter(group->parent);
    close(group->own);
    unlinkat(group->parent, group->name, AT_REMOVEDIR);
    close(group->parent);
}

/* --- connections -------------------------------------------------------------------------------
 */

struct pair {
    int listener, server, client;
    struct mc_tcp_flow flow;
};

static void set_seconds(int fd)
{
    const struct timeval time = {.tv_sec = SECONDS};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
}

static void pair_open(struct pair *pair, int family)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } at = {.any = {.sa_family = (sa_family_t)family}}, peer;
    socklen_t n = family == AF_INET ? sizeof(at.in) : sizeof(at.in6), npeer = sizeof(peer);

    if (family == AF_INET)
        at.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        at.in6.sin6_addr = in6addr_loopback;
    pair->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair->client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(pair->listener, &at.any, n) || listen(pair->listener, 1) ||
        getsockname(pair->listener, &at.any, &n) || connect(pair->client, &at.any, n))
        diag("a connection over lo: %s", strerror(errno));
    pair->server = accept(pair->listener, &peer.any, &npeer);
    set_seconds(pair->client);
    pair->flow =
        (struct mc_tcp_flow){.client_port = peer.in.sin_port, .server_port = at.in.sin_port};
    if (family == AF_INET6) {
        memcpy(pair->flow.client, &in6addr_loopback, sizeof(in6addr_loopback));
        memcpy(pair->flow.server, &in6addr_loopback, sizeof(in6addr_loopback));
    } else {
        pair->flow.client[1] = pair->flow.server[1] =
            (uint64_t)htonl(INADDR_LOOPBACK) << 32 | htonl(0xffff);
    }
}

static void pair_close(const struct pair *pair)
{
    close(pair->client);
    close(pair->server);
    close(pair->listener);
}

static bool arrives(const struct pair *pair)
{
    char byte = 0;

    return recv(pair->client, &byte, 1, 0) == 1 && byte == 'x';
}

/* --- the lab ------------------------------------------------------------------------------------
 */

static uint64_t count(struct tcp_lab *lab)
{
    struct mc_tcp_counts counts;

    loader_tcp_counts(lab->lab.loader, &counts);
    return counts.count[MC_TCP_GUARDED];
}

static void tag(struct tcp_lab *lab, const struct pair *pair, uint32_t generation)
{
    const struct guarded guarded = {.tag = {TCP_SLOT, generation}};

    if (bpf_map_update_elem(loader_tcp_map(lab->lab.loader, "mc_tcp_guarded"), &pair->server,
                            &guarded, BPF_ANY))
        diag("a socket's storage: %s", strerror(errno));
}

static bool is_seen(struct tcp_lab *lab, const struct pair *pair)
{
    struct guarded guarded = {.is_seen = 0};

    bpf_map_lookup_elem(loader_tcp_map(lab->lab.loader, "mc_tcp_guarded"), &pair->server, &guarded);
    return guarded.is_seen;
}

/* Writes or removes the entry of the pair's connection, with these sequence deltas. */
static void put_entry(struct tcp_lab *lab, const struct pair *pair, uint32_t rx, uint32_t tx)
{
    struct mc_tcp_conn conn = {.flow = pair->flow,
                               .slot = TCP_SLOT,
                               .generation = TCP_GENERATION,
                               .delta = {.rx = rx, .tx = tx}};

    entry_put(lab, &conn);
}

static void set_way(struct tcp_lab *lab, bool leads)
{
    loader_set_tcp_ways(lab->lab.loader, &lo, leads);
}

static void set_slot(struct tcp_lab *lab, uint32_t answered, uint16_t outstanding, uint32_t lost)
{
    lab->slots[TCP_SLOT] = (struct mc_tcp_slot){.generation = TCP_GENERATION,
                                                .answered = answered,
                                                .outstanding = outstanding,
                                                .lost = lost};
}

/* Whether the guard drops what the server's socket sends; then it leaves when the way is back. */
static bool is_dropped(struct tcp_lab *lab, const struct pair *pair)
{
    const uint64_t before = count(lab);
    bool dropped;

    send(pair->server, "x", 1, 0);
    dropped = count(lab) != before;
    if (dropped) {
        ok(recv(pair->client, &(char){0}, 1, MSG_DONTWAIT) < 0, "nothing arrives of it");
        set_way(lab, true);
    }
    ok(arrives(pair), "it arrives%s", dropped ? " when the way is back" : "");
    set_way(lab, false);
    return dropped;
}

/* --- cases --------------------------------------------------------------------------------------
 */

static void test_connection(struct tcp_lab *lab, int family)
{
    const uint32_t early = 0x1000 | 2;
    struct pair pair;

    diag("IPv%d", family == AF_INET ? 4 : 6);
    pair_open(&pair, family);
    set_slot(lab, 1, 0, 0);
    ok(!is_dropped(lab, &pair), "a socket that is not followed sends by any way");
    tag(lab, &pair, TCP_GENERATION);
    set_slot(lab, 0, 0, 0);
    ok(!is_dropped(lab, &pair) && !is_seen(lab, &pair) && !lab->slots[TCP_SLOT].lost,
       "so does one on whose connection nothing was answered, and it is not seen");
    set_slot(lab, 1, 0, 0);
    ok(is_dropped(lab, &pair), "what it sends after an answer is dropped");
    ok(lab->slots[TCP_SLOT].lost & MC_TCP_LOST_GUARDED &&
           loader_tcp_age(lab->lab.loader, lab->slots[TCP_SLOT].lost) < SECONDS * 1000,
       "the slot says so, and since when");
    ok(is_seen(lab, &pair), "what left by a way with the programs is seen");
    set_slot(lab, 0, 1, early);
    ok(is_dropped(lab, &pair), "with the first answer's reply outstanding it is dropped, too");
    ok(lab->slots[TCP_SLOT].lost == (early | MC_TCP_LOST_GUARDED), "an earlier time stays");
    pair_close(&pair);
}

static void test_closed(struct tcp_lab *lab, int family)
{
    struct pair pair;

    pair_open(&pair, family);
    tag(lab, &pair, TCP_GENERATION - 1);
    set_slot(lab, 1, 0, 0);
    ok(!is_dropped(lab, &pair), "another connection has the slot: it does not count");
    put_entry(lab, &pair, 0, 0);
    ok(!is_dropped(lab, &pair), "nor does an entry, if nothing was answered");
    put_entry(lab, &pair, 0, 5);
    ok(is_dropped(lab, &pair), "the entry says that something was");
    ok(!lab->slots[TCP_SLOT].lost, "the other connection's slot does not change");
    pair_close(&pair);
}

/* A connection that is given up costs on egress what one costs that was never followed. */
static void test_released(struct tcp_lab *lab, int family)
{
    struct guarded guarded;
    struct pair pair;
    int map = loader_tcp_map(lab->lab.loader, "mc_tcp_guarded");

    pair_open(&pair, family);
    tag(lab, &pair, TCP_GENERATION);
    set_slot(lab, 1, 1, 0);
    put_entry(lab, &pair, 0, 5);
    ok(loader_tcp_release(lab->lab.loader, pair.server, &lab->slots[TCP_SLOT]) == -EBUSY &&
           !bpf_map_lookup_elem(map, &pair.server, &guarded),
       "a connection on which something was answered is not given up, and keeps its guard");
    put_entry(lab, &pair, 0, 0);
    ok(!loader_tcp_release(lab->lab.loader, pair.server, &lab->slots[TCP_SLOT]),
       "one on which nothing was answered is given up");
    ok(bpf_map_lookup_elem(map, &pair.server, &guarded) == -ENOENT,
       "and its socket has no storage left");
    pair_close(&pair);
}

/*
 * What makes another connection followed: the server's reply to what came behind the entry. This
 * one's socket, of which BPF_PROG_TEST_RUN has none, the guard does not see.
 */
static void test_unseen(struct tcp_lab *lab)
{
    struct frame frame;
    struct segment segment;
    struct mc_tcp_conn conn;
    struct outcome found;

    conn_init(lab, &conn, 0, 0);
    conn.flags = 0;
    conn.born = conn.last_ack_sent - 1;
    conn_put(lab, false, &conn);
    segment_out(&segment, &conn, "x", 1);
    segment_frame(&frame, &segment);
    lab->quiet = true;
    tcp_check(lab, HOOK_EGRESS, &segment, &frame, NULL, 0, &found);
    lab->quiet = false;
    ok(conn_get(lab, false, &conn) && conn.snd_nxt == segment.seq + 1 &&
           !(conn.flags & MC_TCP_FOLLOWED),
       "a connection whose segments the guard does not see is not answered");
}

static void test_datagrams(struct tcp_lab *lab)
{
    int from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(at);

    set_way(lab, false);
    set_seconds(to);
    bind(to, (struct sockaddr *)&at, n);
    getsockname(to, (struct sockaddr *)&at, &n);
    sendto(from, "x", 1, 0, (struct sockaddr *)&at, n);
    ok(recv(to, &(char){0}, 1, 0) == 1, "datagrams leave by any way");
    close(from);
    close(to);
}

/* As the undo process does it. */
static bool attach_guard(struct tcp_lab *lab, const struct group *group)
{
    struct entry_access access;
    int link;

    loader_tcp_entries(lab->lab.loader, &access);
    link = entry_attach_guard(&access, group->own);
    if (link >= 0)
        loader_guard_tcp(lab->lab.loader, link);
    return link >= 0;
}

static void test_link(struct tcp_lab *lab, const struct group *group)
{
    struct loader *loader = lab->lab.loader;
    static struct tcp_run run;
    struct mc_tcp_conn conn;
    struct segment segment;
    struct frame frame;

    ok(loader_tcp_is_guarded(loader) && !loader_tcp_lost_guard(loader), "the guard is attached");
    loader_take_unstamped(loader);
    loader_tcp_unguard(loader);
    ok(loader_tcp_lost_guard(loader), "another process that detaches it is noticed");
    ok(attach_guard(lab, group) && loader_tcp_is_guarded(loader) && !loader_tcp_lost_guard(loader),
       "it is attached again");
    loader_tcp_unguard(loader);
    ok(loader_tcp_lost_guard(loader), "and detached again");
    loader_leave_tcp_unguarded(loader);
    ok(!loader_tcp_is_guarded(loader) && !loader_tcp_lost_guard(loader), "and left so");
    lab->unstamped = true;
    conn_init(lab, &conn, 0, 0);
    segment_in(lab, &segment, &conn, "get no\r\n", 8);
    segment_frame(&frame, &segment);
    ok(!tcp_run(lab, HOOK_XDP, &frame, &run) && run.verdict == XDP_PASS,
       "then a connection without timestamps is not answered");
    loader_tcp_set_unstamped(loader, true);
    ok(!tcp_run(lab, HOOK_XDP, &frame, &run) && run.verdict == XDP_TX, "if it is to be, it is");
}

int main(void)
{
    struct tcp_lab lab;
    struct group group;

    tcp_lab_open(&lab);
    group_open(&group);
    ok(!loader_tcp_is_guarded(lab.lab.loader), "there is no guard at first");
    ok(attach_guard(&lab, &group), "it is attached to the group");
    test_connection(&lab, AF_INET);
    test_connection(&lab, AF_INET6);
    test_closed(&lab, AF_INET);
    test_closed(&lab, AF_INET6);
    test_released(&lab, AF_INET);
    test_released(&lab, AF_INET6);
    test_datagrams(&lab);
    test_unseen(&lab);
    test_link(&lab, &group);
    tcp_lab_close(&lab);
    group_close(&group);
    return done();
}
