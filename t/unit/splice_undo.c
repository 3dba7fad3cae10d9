/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * undo: the process that gives connections back to the server: whose sockets it swaps, what it has,
 * and when it ends. Entries and the program that changes them are the kernel's own; no program is
 * attached, so where numbers are others the client's socket is swapped as well.
 */
#include "splice/undo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/cgroup.h"
#include "base/credentials.h"
#include "bpf/load/load.h"
#include "bpf/shared/layout.h"
#include "splice/swap.h"
#include "t/lib/tap.h"
#include "t/unit/splice_pair.h"

enum {
    THREADS = 4,
    FDS = 3 + 7 + THREADS, /* of the process, without the cgroup and the guard's link */
    SLOTS = 64,
    KEPT = 1000,
    ACKED = 7, /* bytes of what was kept */
    REQUESTS = 1000,
    ROUNDS = 200,
    FEW = 512, /* descriptors; each that is open has a smaller number */
    LARGE = 1 << 20,
    EVERY = 100,           /* request of REQUESTS has LARGE bytes */
    LEFT_KBYTES = 1 << 10, /* for its threads' stacks and heaps */
#ifdef __SANITIZE_ADDRESS__
    QUARANTINED_KBYTES = REQUESTS / EVERY * LARGE / 1024, /* is freed and not used again */
#else
    QUARANTINED_KBYTES = 0,
#endif
};

/* One process, and the connection of a server that asks it. */
struct test {
    struct loader *loader;
    struct undo_kernel kernel;
    struct credentials_user user;
    struct pair pair;
    struct undo *undo;
    pid_t process;
};

/* --- the process, as /proc has it ------------------------------------------------------------- */

/* Reads the value that follows `key` at the beginning of a line of a process's status. */
static void status_of(pid_t pid, const char *key, char *value, size_t n)
{
    char path[64], line[256];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    snprintf(value, n, "none");
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, key, strlen(key)) == 0)
            snprintf(value, n, "%s", line + strlen(key) + strspn(line + strlen(key), " \t"));
    if (file)
        fclose(file);
    value[strcspn(value, "\n")] = '\0';
}

static unsigned long number_of(pid_t pid, const char *key, int base)
{
    char value[256];

    status_of(pid, key, value, sizeof(value));
    return strtoul(value, NULL, base);
}

/* The child of a process that is an undo process, or 0. */
static pid_t find_process(pid_t parent)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    pid_t pid, found = 0;
    char name[64];

    while (dir && (entry = readdir(dir))) {
        pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || number_of(pid, "PPid:", 10) != (unsigned long)parent)
            continue;
        status_of(pid, "Name:", name, sizeof(name));
        if (strcmp(name, "memcached-undo") == 0)
            found = pid;
    }
    if (dir)
        closedir(dir);
    return found;
}

static unsigned int count_fds(pid_t pid)
{
    char path[64];
    DIR *dir;
    unsigned int n = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n - 2; /* . and .. */
}

/* Kilobytes of the kernel programs' maps that a process has mapped in one piece, at the most. */
static unsigned long largest_map(pid_t pid)
{
    unsigned long begin, end, largest = 0;
    char path[64], line[512];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (strstr(line, "bpf-map") && sscanf(line, "%lx-%lx", &begin, &end) == 2 &&
            end - begin > largest)
            largest = end - begin;
    if (file)
        fclose(file);
    return largest / 1024;
}

/* Waits until a process has ended; false: it does not. */
static bool ends(int pidfd)
{
    struct pollfd poll_on = {pidfd, POLLIN, 0};
    bool ended = poll(&poll_on, 1, PAIR_PATIENCE_MS) > 0;

    close(pidfd);
    return ended;
}

static int open_process(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* --- entries ---------------------------------------------------------------------------------- */

static uint64_t cookie_of(int socket)
{
    uint64_t cookie = 0;
    socklen_t n = sizeof(cookie);

    getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &n);
    return cookie;
}

/* An entry for the connection of a socket, whose numbers are the wire's. */
static struct mc_tcp_conn make_entry(int socket, struct mc_tcp_tag tag)
{
    struct mc_tcp_conn conn = {.slot = tag.slot, .generation = tag.generation};

    entry_flow(socket, &conn.flow);
    conn.cookie = cookie_of(socket);
    conn.snd_una = pair_una(socket);
    return conn;
}

static void put_entry(const struct test *test, const struct mc_tcp_conn *conn)
{
    uint64_t key = mc_tcp_key(&conn->flow, test->kernel.entries.seeds);

    bpf_map_update_elem(test->kernel.entries.conns, &key, conn, BPF_ANY);
}

/* The state of its lock, or -1: there is no entry. */
static int lock_of(const struct test *test, const struct mc_tcp_conn *conn)
{
    struct mc_tcp_conn now;

    return entry_read(&test->kernel.entries, &conn->flow, &now) ? -1 : (int)now.lock;
}

static void remove_entry(const struct test *test, const struct mc_tcp_conn *conn)
{
    uint64_t key = mc_tcp_key(&conn->flow, test->kernel.entries.seeds);

    bpf_map_delete_elem(test->kernel.entries.conns, &key);
}

static const struct mc_tcp_tag tag = {7, 3};

/* Undoes the server's end of a connection whose entry that is. */
static enum undo_result undo_pair(const struct test *test, struct pair *pair,
                                  const struct mc_tcp_conn *conn)
{
    struct undone out;
    enum undo_result result;

    put_entry(test, conn);
    result = undo_socket(test->undo, pair->server,
                         (struct mc_tcp_tag){conn->slot, conn->generation}, &out);
    if (result == UNDO_DONE) {
        close(pair->server);
        pair->server = out.fd;
    }
    return result;
}

/* --- what it has ------------------------------------------------------------------------------ */

static void it_has_little(const struct test *test)
{
    const unsigned long wanted =
        CREDENTIALS_NET_ADMIN | CREDENTIALS_NET_RAW | CREDENTIALS_NET_BIND_SERVICE;
    char uids[64], all[64];

    ok(test->process > 0, "it is a child of the server, named memcached-undo");
    status_of(test->process, "Uid:", uids, sizeof(uids));
    snprintf(all, sizeof(all), "%u\t%u\t%u\t%u", test->user.uid, test->user.uid, test->user.uid,
             test->user.uid);
    ok(strcmp(uids, all) == 0, "it is the server's user's");
    ok(number_of(test->process, "CapEff:", 16) == wanted &&
           number_of(test->process, "CapPrm:", 16) == wanted &&
           number_of(test->process, "CapBnd:", 16) == 0 &&
           number_of(test->process, "NoNewPrivs:", 10) == 1,
       "it has three capabilities, and gains no more");
    ok(count_fds(test->process) == FDS + (test->kernel.cgroup >= 0),
       "it has three descriptors of nothing, seven of the kernel path, a cgroup's, and one a "
       "thread");
    ok(largest_map(getpid()) >= MC_EXTENT_BYTES / 1024 &&
           largest_map(test->process) < MC_TABLE_BYTES / 1024,
       "it has nothing of the store");
}

/* The number of a link, which is closed; 0: it is none. */
static uint32_t end_link(int link)
{
    struct bpf_link_info info = {0};
    uint32_t n = sizeof(info);

    bpf_obj_get_info_by_fd(link, &info, &n);
    close(link);
    return info.id;
}

static void the_guard_is_attached_once(const struct test *test)
{
    int link = undo_guard(test->undo);
    uint32_t first;

    if (test->kernel.cgroup < 0) {
        ok(link == test->kernel.cgroup, "without a cgroup of version 2 there is no guard");
        return;
    }
    first = end_link(link);
    link = undo_guard(test->undo);
    ok(entry_guard_is_attached(link) && end_link(link) == first,
       "the guard is attached, and no second one");
    link = undo_guard(test->undo);
    bpf_link_detach(link);
    ok(!entry_guard_is_attached(link) && end_link(link) == first, "another process detaches it");
    link = undo_guard(test->undo);
    ok(entry_guard_is_attached(link) && end_link(link) != first, "it is attached anew");
}

static void a_connection_is_given_back(const struct test *test)
{
    struct pair pair = test->pair;
    struct mc_tcp_conn conn;

    pair_say(&pair, CLIENT, 700);
    pair_hears(&pair, SERVER);
    pair_say(&pair, SERVER, 900);
    conn = make_entry(pair.server, tag);
    ok(undo_pair(test, &pair, &conn) == UNDO_DONE && lock_of(test, &conn) == -1,
       "a connection is given back, and has no entry");
    ok(pair_works(&pair), "it works");
    pair_close(&(struct pair){-1, pair.client, pair.server, {0}, {0}});
}

/* The client's end of a connection whose server's end has got these numbers. */
static int freeze(struct swap_entry *entry, struct mc_tcp_conn *conn, const char **kept)
{
    (void)kept;
    *conn = *(const struct mc_tcp_conn *)(entry + 1);
    return 0;
}

static int do_nothing(struct swap_entry *entry)
{
    (void)entry;
    return 0;
}

static void move_client(struct pair *pair, uint32_t rx, uint32_t tx)
{
    struct {
        struct swap_entry entry;
        struct mc_tcp_conn conn;
    } client = {.entry = {freeze, do_nothing, NULL}, .conn.delta = {.rx = rx, .tx = tx}};
    struct swap_plan plan = {.entry = &client.entry, .filter = -1};
    struct swapped out;

    client.conn.snd_una = pair_una(pair->client);
    if (swap_socket(pair->client, &plan, &out) == SWAP_DONE) {
        close(pair->client);
        pair->client = out.fd;
    }
}

/* A connection to the port of the test's listener, which takes all for a moment. */
static struct pair connect_again(const struct test *test)
{
    struct pair pair = {.listener = -1};
    struct sockaddr_in name;
    socklen_t n = sizeof(name);

    pair_unfilter(test->pair.listener);
    getsockname(test->pair.listener, (struct sockaddr *)&name, &n);
    pair.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(pair.client, (struct sockaddr *)&name, n))
        diag("connect: %s", strerror(errno));
    pair.server = accept4(test->pair.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    pair_deafen(test->pair.listener);
    return pair;
}

static void close_again(struct pair *pair)
{
    close(pair->client);
    close(pair->server);
}

/* Has the kernel answer with `kept`, and the client acknowledge none of it, but what was before. */
static struct mc_tcp_conn answer(const struct test *test, struct pair *pair, const char *kept)
{
    struct mc_tcp_rtx rtx = {.n = ACKED + KEPT};
    struct mc_tcp_conn conn = make_entry(pair->server, tag);
    uint32_t at = 5;

    conn.delta = (struct mc_tcp_delta){.rx = 300, .tx = 5000, .nreply = KEPT, .nrequest = 100};
    conn.delta.reply = conn.snd_una + 5000 - KEPT;
    conn.rtx = (uint16_t)at;
    conn.last = conn.delta.reply + KEPT / 2;
    rtx.owner = mc_tcp_rtx_owner(conn.last, conn.slot, conn.generation);
    rtx.start = conn.delta.reply - ACKED;
    memcpy(rtx.text + ACKED, kept, KEPT);
    bpf_map_update_elem(test->kernel.entries.kept, &at, &rtx, BPF_ANY);
    return conn;
}

static void what_was_kept_is_sent_again(const struct test *test)
{
    struct pair pair = connect_again(test);
    struct mc_tcp_conn conn;
    char kept[KEPT];

    pair_make(kept, KEPT, SERVER, 0);
    conn = answer(test, &pair, kept);
    pair.sent[SERVER] = KEPT;
    pair_deafen(pair.client);
    ok(undo_pair(test, &pair, &conn) == UNDO_DONE, "a connection with a reply in flight");
    move_client(&pair, conn.delta.tx - KEPT, conn.delta.rx);
    ok(pair_works(&pair), "its client gets it from the new socket");
    close_again(&pair);
}

static void what_is_kept_for_others_is_not_sent(const struct test *test)
{
    struct pair pair = connect_again(test);
    struct mc_tcp_conn conn;
    char kept[KEPT] = "";

    conn = answer(test, &pair, kept);
    conn.generation++;
    ok(undo_pair(test, &pair, &conn) == UNDO_FAILED && lock_of(test, &conn) == MC_TCP_FREE,
       "the text of another connection is not sent");
    ok(pair_works(&pair), "the old socket goes on");
    remove_entry(test, &conn);
    close_again(&pair);
}

/* --- what it resets --------------------------------------------------------------------------- */

static bool hears_reset(int fd)
{
    struct pollfd poll_on = {fd, POLLIN, 0};
    char byte;

    return poll(&poll_on, 1, PAIR_PATIENCE_MS) > 0 && recv(fd, &byte, 1, 0) < 0 &&
           errno == ECONNRESET;
}

/* Whether a connection's client, with these numbers and replies, is reset. */
static bool is_reset(const struct test *test, const struct mc_tcp_slot *slot, uint32_t nreply,
                     uint32_t unseen)
{
    struct pair pair = connect_again(test);
    struct mc_tcp_conn conn = make_entry(pair.server, tag);
    const struct mc_tcp_delta delta = {.rx = 300, .tx = 5000, .nreply = nreply};
    uint32_t at = tag.slot;
    bool reset;

    conn.delta = delta;
    conn.snd_nxt = conn.snd_una;
    put_entry(test, &conn);
    bpf_map_update_elem(test->kernel.entries.slots, &at, slot, BPF_ANY);
    move_client(&pair, delta.tx - unseen, delta.rx);
    reset = undo_reset(test->undo, pair.server, tag) && lock_of(test, &conn) == -1 &&
            hears_reset(pair.client) && send(pair.server, "", 1, MSG_NOSIGNAL) < 0;
    close_again(&pair);
    return reset;
}

static void connections_are_reset(const struct test *test)
{
    const struct mc_tcp_slot none = {.generation = tag.generation};

    ok(is_reset(test, &none, 0, 0), "a connection is reset with the numbers of the wire");
    ok(is_reset(test, &none, KEPT, KEPT), "one whose client has not seen the last reply, too");
}

/* --- netfilter -------------------------------------------------------------------------------- */

#define STRICT(hook)                                                                               \
    "add chain inet t " hook " { type filter hook " hook " priority 0; };"                         \
    "add rule inet t " hook " ct state invalid drop;"

/* A connection on which the kernel has answered with so many bytes, as netfilter has seen it. */
static struct pair undone_pair(const struct test *test, uint32_t n)
{
    struct pair pair = connect_again(test);
    struct mc_tcp_conn conn;

    pair_works(&pair);
    pair_deafen(pair.client);
    conn = make_entry(pair.server, tag);
    conn.delta = (struct mc_tcp_delta){.rx = n, .tx = n};
    if (undo_pair(test, &pair, &conn) != UNDO_DONE)
        diag("a connection is not undone");
    move_client(&pair, n, n);
    return pair;
}

/* Of which it knows others. */
static void netfilter_drops_no_numbers(const struct test *test)
{
    const struct mc_tcp_slot none = {.generation = tag.generation};
    static const uint32_t answered[] = {5000, 3u << 30};
    struct pair pair;
    size_t i;

    if (system("nft 'add table inet t;" STRICT("input") STRICT("output") "'"))
        diag("nft does not run");
    for (i = 0; i < COUNT(answered); i++) {
        pair = undone_pair(test, answered[i]);
        ok(pair_works(&pair), "netfilter lets numbers through that are %u ahead", answered[i]);
        swap_reset(pair.client);
        ok(hears_reset(pair.server), "and a client's reset");
        close(pair.server);
        pair = undone_pair(test, answered[i]);
        swap_reset(pair.server);
        ok(hears_reset(pair.client), "and the server's");
        close(pair.client);
    }
    ok(is_reset(test, &none, 0, 0), "and the reset of one that cannot be given back");
    if (system("nft delete table inet t"))
        diag("nft does not run");
}

/* --- what it refuses -------------------------------------------------------------------------- */

static bool refuses(const struct test *test, int socket)
{
    struct undone out = {-1, 0};

    return undo_socket(test->undo, socket, tag, &out) == UNDO_FAILED && out.fd == -1 &&
           !undo_reset(test->undo, socket, tag);
}

static void other_descriptors_are_refused(const struct test *test)
{
    int both[2], udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)},
                               .sin_port = htons(test->kernel.port)};

    if (bind(udp, (struct sockaddr *)&name, sizeof(name)) ||
        connect(udp, (struct sockaddr *)&name, sizeof(name)))
        diag("UDP: %s", strerror(errno));
    ok(refuses(test, udp), "a UDP socket of the server's port is refused");
    close(udp);
    ok(refuses(test, test->pair.listener), "a listening socket is refused");
    if (pipe2(both, O_CLOEXEC) == 0) {
        ok(refuses(test, both[0]), "a pipe is refused");
        close(both[0]);
        close(both[1]);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0) {
        ok(refuses(test, both[0]), "a unix socket is refused");
        close(both[0]);
        close(both[1]);
    }
    ok(refuses(test, -1), "a request without a descriptor is refused");
}

static void connections_of_others_are_refused(const struct test *test)
{
    struct pair other = pair_open(V4, 0);
    struct mc_tcp_conn conn = make_entry(other.server, tag);

    ok(undo_pair(test, &other, &conn) == UNDO_FAILED && refuses(test, other.server) &&
           lock_of(test, &conn) == MC_TCP_FREE && pair_works(&other),
       "a connection to another port is refused");
    remove_entry(test, &conn);
    conn = make_entry(other.client, tag);
    put_entry(test, &conn);
    ok(refuses(test, other.client), "the client's end of one is refused");
    remove_entry(test, &conn);
    pair_close(&other);
}

static void entries_of_others_are_refused(const struct test *test)
{
    struct pair pair = connect_again(test);
    struct mc_tcp_conn conn = make_entry(pair.server, tag);

    ok(refuses(test, pair.server), "a connection without an entry is refused");
    conn.generation++;
    put_entry(test, &conn);
    ok(refuses(test, pair.server) && lock_of(test, &conn) == MC_TCP_FREE,
       "one whose entry has another tag is refused");
    conn = make_entry(pair.server, tag);
    conn.cookie++;
    ok(undo_pair(test, &pair, &conn) == UNDO_FAILED && refuses(test, pair.server) &&
           lock_of(test, &conn) == MC_TCP_FREE,
       "one whose entry names another socket is refused");
    ok(pair_works(&pair), "it goes on as it was");
    pair_say(&pair, CLIENT, 100);
    shutdown(pair.client, SHUT_WR);
    conn.cookie--;
    ok(undo_pair(test, &pair, &conn) == UNDO_NOT_NOW && lock_of(test, &conn) == MC_TCP_FREE,
       "one whose client has ended behind unread bytes is left alone");
    remove_entry(test, &conn);
    close_again(&pair);
}

/* --- its life --------------------------------------------------------------------------------- */

static void signals_do_not_end_it(const struct test *test)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};
    struct pair pair = connect_again(test);
    struct mc_tcp_conn conn = make_entry(pair.server, tag);
    size_t i;

    for (i = 0; i < COUNT(signals); i++)
        kill(test->process, signals[i]);
    ok(undo_pair(test, &pair, &conn) == UNDO_DONE && pair_works(&pair),
       "signals that end a server do not end it");
    close_again(&pair);
}

static void nothing_is_left_over(const struct test *test)
{
    const unsigned int wanted = FDS + 2 * (test->kernel.cgroup >= 0);
    struct pair pair = connect_again(test);
    unsigned int ngood = 0, i;
    unsigned long before = number_of(test->process, "RssAnon:", 10), after;
    struct mc_tcp_conn conn;

    pair_set(pair.server, SOL_SOCKET, SO_SNDBUFFORCE, 4 * LARGE);
    for (i = 0; i < REQUESTS; i++) {
        if (i % EVERY == 0) { /* the first of these has no room for it */
            pair_say(&pair, SERVER, LARGE);
            conn = make_entry(pair.server, tag);
            ngood += undo_pair(test, &pair, &conn) == UNDO_DONE && pair_hears(&pair, CLIENT);
        } else {
            conn = make_entry(pair.server, tag);
            conn.cookie += i % 2;
            ngood += undo_pair(test, &pair, &conn) == (i % 2 ? UNDO_FAILED : UNDO_DONE);
        }
    }
    after = number_of(test->process, "RssAnon:", 10);
    ok(ngood == REQUESTS && pair_works(&pair), "%u of %u requests, done or refused", ngood, i);
    for (i = 0; i < PAIR_PATIENCE_MS && count_fds(test->process) != wanted; i++)
        poll(NULL, 0, 1); /* the process closes its copy of the last socket behind the reply */
    ok(count_fds(test->process) == wanted, "they leave no descriptor");
    ok(after < before + LEFT_KBYTES + QUARANTINED_KBYTES, "they leave no memory: %lu KiB, then %lu",
       before, after);
    remove_entry(test, &conn);
    close_again(&pair);
}

/* Of the server; as many as -c allows, where the hard limit is no higher. */
static void descriptors_run_out(const struct test *test)
{
    struct pair pair = connect_again(test);
    struct mc_tcp_conn conn = make_entry(pair.server, tag);
    struct rlimit before, few;
    int fds[FEW], n = 0;
    bool done = true;

    getrlimit(RLIMIT_NOFILE, &before);
    few = (struct rlimit){FEW, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    while (n < FEW && (fds[n] = dup(pair.client)) >= 0)
        n++;
    for (int i = 0; i < 3; i++) {
        conn = make_entry(pair.server, tag);
        done = done && undo_pair(test, &pair, &conn) == UNDO_DONE && pair_works(&pair);
    }
    ok(n < FEW && done, "a connection is given back where no descriptor is left");
    while (n > 0)
        close(fds[--n]);
    setrlimit(RLIMIT_NOFILE, &before);
    close_again(&pair);
}

/* A thread of the server, with a connection of its own. */
struct asker {
    const struct test *test;
    struct pair pair;
    struct mc_tcp_tag tag;
    unsigned int ndone;
    bool works;
};

static void *ask(void *context)
{
    struct asker *asker = context;
    struct mc_tcp_conn conn;
    unsigned int i;

    asker->works = true;
    for (i = 0; i < ROUNDS; i++) {
        pair_say(&asker->pair, CLIENT, 200);
        conn = make_entry(asker->pair.server, asker->tag);
        asker->ndone += undo_pair(asker->test, &asker->pair, &conn) == UNDO_DONE;
        asker->works &= pair_hears(&asker->pair, SERVER);
    }
    asker->works &= pair_works(&asker->pair);
    return NULL;
}

static void threads_do_not_wait_for_each_other(const struct test *test)
{
    struct asker askers[THREADS];
    pthread_t threads[THREADS];
    unsigned int ndone = 0, nworks = 0, i;

    for (i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){.test = test, .pair = connect_again(test), .tag = {i, 1}};
        pthread_create(&threads[i], NULL, ask, &askers[i]);
    }
    for (i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ndone += askers[i].ndone;
        nworks += askers[i].works;
        close_again(&askers[i].pair);
    }
    ok(ndone == THREADS * ROUNDS && nworks == THREADS, "%u threads undo at the same time: %u",
       THREADS, ndone);
}

static bool start(struct test *test)
{
    char error[512];

    if (undo_start(&test->undo, &test->kernel, &test->user, THREADS, error, sizeof(error))) {
        ok(false, "it starts: %s", error);
        return false;
    }
    test->process = find_process(getpid());
    return true;
}

static void it_ends_with_the_server(struct test *test)
{
    int pidfd, ready[2];
    pid_t server, process = 0;

    if (pipe2(ready, O_CLOEXEC))
        return;
    server = fork();
    if (server == 0) {
        process = start(test) ? test->process : 0;
        if (write(ready[1], &process, sizeof(process)) == sizeof(process))
            pause();
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &process, sizeof(process)) != sizeof(process))
        process = 0;
    pidfd = open_process(process);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    ok(process > 0 && ends(pidfd), "it ends when the server is killed");
    close(ready[0]);
}

static void it_is_ended(struct test *test)
{
    int pidfd = open_process(test->process);

    undo_stop(test->undo);
    ok(ends(pidfd), "it ends when it is ended");
    waitpid(test->process, NULL, 0);
    undo_stop(NULL);
}

/* how: SIGKILL or SIGSTOP. */
static void no_thread_waits_for_one_that_is_gone(struct test *test, int how, const char *name)
{
    struct pair pair = connect_again(test);
    struct mc_tcp_conn conn = make_entry(pair.server, tag);
    int pidfd;

    if (!start(test))
        return;
    pidfd = open_process(test->process);
    kill(test->process, how);
    waitpid(test->process, NULL, how == SIGKILL ? 0 : WUNTRACED); /* all its threads */
    ok(undo_pair(test, &pair, &conn) == UNDO_FAILED, "%s: it fails", name);
    ok(undo_pair(test, &pair, &conn) == UNDO_FAILED, "%s: and again", name);
    ok(!undo_reset(test->undo, pair.server, tag) && !undo_lives(test->undo) && pair_works(&pair),
       "%s: nothing is reset, and it counts as dead", name);
    kill(test->process, SIGCONT);
    undo_stop(test->undo);
    ok(ends(pidfd), "%s: it ends all the same", name);
    if (how != SIGKILL)
        waitpid(test->process, NULL, 0);
    remove_entry(test, &conn);
    close_again(&pair);
}

/* Killed in the middle of its swap. */
static void a_frozen_connection_ends(struct test *test)
{
    struct pair pair = connect_again(test);
    struct mc_tcp_conn conn = make_entry(pair.server, tag);

    if (!start(test))
        return;
    kill(test->process, SIGKILL);
    waitpid(test->process, NULL, 0);
    conn.lock = MC_TCP_FROZEN;
    ok(undo_pair(test, &pair, &conn) == UNDO_FAILED && lock_of(test, &conn) == -1 &&
           send(pair.server, "", 1, MSG_NOSIGNAL) < 0,
       "a connection that the process leaves frozen ends");
    undo_stop(test->undo);
    close_again(&pair);
}

/* --- what it needs ---------------------------------------------------------------------------- */

static void lack(int capability)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];

    syscall(SYS_capget, &header, sets);
    sets[0].permitted &= ~(1u << capability);
    sets[0].effective &= ~(1u << capability);
    sets[0].inheritable = sets[1].inheritable = 0;
    syscall(SYS_capset, &header, sets);
}

static void lack_net_admin(void)
{
    lack(CAP_NET_ADMIN);
}

static void lack_net_raw(void)
{
    lack(CAP_NET_RAW);
}

static void lack_loopback(void)
{
    if (unshare(CLONE_NEWNET))
        diag("unshare: %s", strerror(errno));
}

/* A cgroup whose program refuses to connect. */
static void lack_connect(void)
{
    const struct bpf_insn refuse[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_CGROUP_INET4_CONNECT);
    char folder[] = "/tmp/splice-undo-XXXXXX", path[64];
    int program = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "refuse", "GPL", refuse, 2, &opts);
    FILE *procs;
    int cgroup;

    if (!mkdtemp(folder) || unshare(CLONE_NEWNS) ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", folder, "cgroup2", 0, NULL))
        diag("cgroup2: %s", strerror(errno));
    snprintf(path, sizeof(path), "%s/splice-undo", folder);
    mkdir(path, 0755);
    cgroup = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof(path), "%s/splice-undo/cgroup.procs", folder);
    procs = fopen(path, "we");
    if (!procs || fprintf(procs, "0") < 0 || fclose(procs) ||
        bpf_prog_attach(program, cgroup, BPF_CGROUP_INET4_CONNECT, 0))
        diag("cgroup2: %s", strerror(errno));
}

/* The start fails in a process that lacks something, and says what. */
static void it_says_what_it_lacks(struct test *test, void (*take)(void), const char *wanted)
{
    pid_t child;
    int status = 0;
    char error[512] = "";

    child = fork();
    if (child == 0) {
        take();
        status = undo_start(&test->undo, &test->kernel, &test->user, 1, error, sizeof(error));
        if (status == 0 || !strstr(error, wanted))
            diag("%s", status ? error : "it starts");
        if (waitpid(-1, NULL, WNOHANG) >= 0)
            diag("the process is left");
        _exit(status == 0 || !strstr(error, wanted) || waitpid(-1, NULL, WNOHANG) >= 0);
    }
    waitpid(child, &status, 0);
    ok(status == 0, "the start leaves no process, and says: %s", wanted);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void open_kernel(struct test *test)
{
    char error[512] = "";
    void *store = mmap(NULL, MC_EXTENT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    test->loader = loader_open_guarded(&(struct loader_guard){0}, LOADER_TCP, error, sizeof(error));
    if (!test->loader || loader_open_tcp(test->loader, SLOTS, error, sizeof(error)) ||
        loader_wait(test->loader, error, sizeof(error)))
        skip_all(error);
    if (loader_map_extent(test->loader, 0, store))
        diag("no extent");
    loader_tcp_entries(test->loader, &test->kernel.entries);
    test->kernel.cgroup = cgroup_open("/proc/self");
    test->kernel.filter = loader_tcp_filter(test->loader);
    test->kernel.port = pair_port(&test->pair);
}

int main(void)
{
    struct test test = {.user = credentials_find_user("nobody")};

    if (!pair_enter_namespace())
        skip_all("needs root");
    test.pair = pair_open(V4, 0);
    open_kernel(&test);
    if (!start(&test))
        return done();
    it_has_little(&test);
    the_guard_is_attached_once(&test);
    a_connection_is_given_back(&test);
    what_was_kept_is_sent_again(&test);
    what_is_kept_for_others_is_not_sent(&test);
    connections_are_reset(&test);
    netfilter_drops_no_numbers(&test);
    other_descriptors_are_refused(&test);
    connections_of_others_are_refused(&test);
    entries_of_others_are_refused(&test);
    signals_do_not_end_it(&test);
    nothing_is_left_over(&test);
    threads_do_not_wait_for_each_other(&test);
    descriptors_run_out(&test);
    it_is_ended(&test);
    it_ends_with_the_server(&test);
    no_thread_waits_for_one_that_is_gone(&test, SIGKILL, "killed");
    no_thread_waits_for_one_that_is_gone(&test, SIGSTOP, "stopped");
    a_frozen_connection_ends(&test);
    it_says_what_it_lacks(&test, lack_net_admin, "CAP_NET_ADMIN");
    it_says_what_it_lacks(&test, lack_net_raw, "CAP_NET_RAW");
    it_says_what_it_lacks(&test, lack_loopback, "the interface lo must be up");
    it_says_what_it_lacks(&test, lack_connect, "connect hook");
    loader_close(test.loader);
    return done();
}
