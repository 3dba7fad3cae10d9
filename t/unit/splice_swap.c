/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * swap: a connection's socket is replaced, and its client gets every byte once. Over loopback, in a
 * network namespace of its own, without kernel programs: where these translate, both ends are
 * swapped, by the same numbers.
 */
#include "splice/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "t/lib/tap.h"
#include "t/unit/splice_pair.h"

enum {
    LARGE = 4 << 20,
    KEPT = 1000,
    CLOSED = 7, /* tcpi_state */
};

static const char *const family_names[] = {"IPv4", "IPv6", "::ffff:127.0.0.1", "fe80::1%lo"};

/* --- swaps ------------------------------------------------------------------------------------ */

static const struct swap_plan plain = {.filter = -1};

/* Of one side; the old socket is closed. */
static enum swap_result swap(struct pair *pair, enum side side, const struct swap_plan *plan)
{
    int *fd = side == CLIENT ? &pair->client : &pair->server;
    struct swapped out;
    enum swap_result result = swap_socket(*fd, plan, &out);

    if (result == SWAP_DONE) {
        close(*fd);
        *fd = out.fd;
    } else if (plan->fails == SWAP_NONE) {
        diag("cannot %s: %s", swap_step_text(out.step), strerror(out.error));
    }
    return result;
}

/* --- options of the handshake ----------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *off[3]; /* sysctls */
} handshakes[] = {
    {"all options", {NULL}},
    {"no timestamps", {"tcp_timestamps"}},
    {"no SACK", {"tcp_sack"}},
    {"no window scaling", {"tcp_window_scaling"}},
    {"no options", {"tcp_timestamps", "tcp_sack", "tcp_window_scaling"}},
};

static void set_sysctl(const char *name, const char *value)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, value, strlen(value)) < 0)
        diag("%s: %s", path, strerror(errno));
    close(fd);
}

static void set_handshake(size_t i, const char *value)
{
    size_t k;

    for (k = 0; k < COUNT(handshakes[i].off) && handshakes[i].off[k]; k++)
        set_sysctl(handshakes[i].off[k], value);
}

static struct tcp_info info_of(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);

    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n);
    return info;
}

/* Scales of 0 are as good as none. */
static bool same_handshake(const struct tcp_info *a, const struct tcp_info *b)
{
    const unsigned int options = TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK;

    return (a->tcpi_options & options) == (b->tcpi_options & options) &&
           a->tcpi_snd_wscale == b->tcpi_snd_wscale && a->tcpi_rcv_wscale == b->tcpi_rcv_wscale;
}

static void queues_are_taken_over(enum family family, size_t handshake)
{
    struct pair pair;
    struct tcp_info before, after;
    const char *name = handshakes[handshake].name;
    struct swapped out;
    size_t sent;
    int unacked = 0;

    set_handshake(handshake, "0");
    pair = pair_open(family, 20000);
    set_handshake(handshake, "1");
    pair_set(pair.server, SOL_SOCKET, SO_SNDBUFFORCE, 2 * LARGE);
    pair_say(&pair, CLIENT, 5000);
    pair_deafen(pair.server); /* to acknowledgements, whenever they come */
    sent = pair_say(&pair, SERVER, LARGE);
    before = info_of(pair.server);
    ok(sent == LARGE && before.tcpi_unacked && before.tcpi_notsent_bytes > LARGE / 2,
       "%s, %s: bytes are unread, in flight, and never sent", family_names[family], name);
    ok(swap_socket(pair.server, &plain, &out) == SWAP_DONE && out.fd >= 0,
       "%s, %s: the socket is swapped", family_names[family], name);
    close(pair.server);
    pair.server = out.fd;
    after = info_of(pair.server);
    ok(same_handshake(&before, &after), "%s, %s: that was agreed is as it was",
       family_names[family], name);
    ok(pair_works(&pair), "%s, %s: each byte arrives once", family_names[family], name);
    ioctl(pair.server, SIOCOUTQ, &unacked);
    ok(out.nsent + PAIR_ANSWERED == info_of(pair.server).tcpi_bytes_acked + (uint32_t)unacked,
       "%s, %s: the new socket counts from where the swap says", family_names[family], name);
    pair_close(&pair);
}

/* --- other cases ------------------------------------------------------------------------------ */

static void bytes_in_flight_are_sent_again(void)
{
    struct pair pair = pair_open(V4, 0);

    pair_deafen(pair.client);
    pair_say(&pair, SERVER, 3000);
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE, "bytes are in flight that the client never gets");
    pair_unfilter(pair.client);
    ok(pair_works(&pair), "the new socket sends them again");
    pair_close(&pair);
}

static void options_are_kept(void)
{
    static const struct {
        int level, option, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},        {IPPROTO_TCP, TCP_KEEPIDLE, 100},
        {IPPROTO_TCP, TCP_KEEPINTVL, 7},      {IPPROTO_TCP, TCP_KEEPCNT, 3},
        {IPPROTO_TCP, TCP_NODELAY, 1},        {SOL_SOCKET, SO_PRIORITY, 5},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, 999}, {IPPROTO_IP, IP_TOS, 0x20},
    };
    const struct linger on = {.l_onoff = 1};
    struct linger linger = {0};
    socklen_t n = sizeof(linger);
    struct pair pair = pair_open(V4, 0);
    int bufs[2] = {pair_get(pair.server, SOL_SOCKET, SO_SNDBUF),
                   pair_get(pair.server, SOL_SOCKET, SO_RCVBUF)};
    size_t i;

    for (i = COUNT(options); i > 0; i--)
        pair_set(pair.server, options[i - 1].level, options[i - 1].option, options[i - 1].value);
    pair_set(pair.server, SOL_SOCKET, SO_PRIORITY, 5);
    setsockopt(pair.server, SOL_SOCKET, SO_LINGER, &on, sizeof(on));
    pair_say(&pair, SERVER, 3000);
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE, "a socket with options is swapped");
    for (i = 0; i < COUNT(options); i++)
        ok(pair_get(pair.server, options[i].level, options[i].option) == options[i].value,
           "option %d of level %d is kept", options[i].option, options[i].level);
    getsockopt(pair.server, SOL_SOCKET, SO_LINGER, &linger, &n);
    ok(linger.l_onoff == 1 && linger.l_linger == 0, "SO_LINGER is kept");
    ok(pair_get(pair.server, SOL_SOCKET, SO_SNDBUF) <= bufs[0] &&
           pair_get(pair.server, SOL_SOCKET, SO_RCVBUF) == bufs[1],
       "the buffers are no larger");
    ok(fcntl(pair.server, F_GETFL) & O_NONBLOCK && fcntl(pair.server, F_GETFD) & FD_CLOEXEC,
       "the new socket does not block, and is closed by exec");
    ok(pair_works(&pair), "it works");
    pair_close(&pair);
}

/* Linux makes it larger as the client sends more, and the window with it. */
static void the_receive_buffer_is_as_large(void)
{
    enum { WINDOW = 300000 };
    struct pair pair = pair_open(V4, 0);
    int rcvbuf;

    pair_say(&pair, CLIENT, 40000);
    pair_set(pair.server, IPPROTO_TCP, TCP_WINDOW_CLAMP, WINDOW);
    rcvbuf = pair_get(pair.server, SOL_SOCKET, SO_RCVBUF);
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE, "a socket with unread bytes is swapped");
    ok(pair_get(pair.server, SOL_SOCKET, SO_RCVBUF) == rcvbuf,
       "the receive buffer is as large as it was");
    ok(pair_get(pair.server, IPPROTO_TCP, TCP_WINDOW_CLAMP) == WINDOW,
       "so is the largest window, %d", pair_get(pair.server, IPPROTO_TCP, TCP_WINDOW_CLAMP));
    ok(pair_get(pair.server, SOL_SOCKET, SO_BUF_LOCK) == 0, "and Linux may make it larger");
    ok(pair_works(&pair), "each byte arrives once");
    pair_close(&pair);
}

static void the_old_socket_has_no_connection(void)
{
    struct pair pair = pair_open(V4, 0);
    struct sockaddr_in name;
    socklen_t n = sizeof(name);
    struct swapped out;
    int listener;

    getsockname(pair.server, (struct sockaddr *)&name, &n);
    ok(swap_socket(pair.server, &plain, &out) == SWAP_DONE &&
           info_of(pair.server).tcpi_state == CLOSED,
       "the old socket has no connection");
    close(pair.server);
    pair.server = out.fd;
    ok(pair_works(&pair), "when it is closed the client notices nothing");
    close(pair.listener);
    listener = pair_listen((struct sockaddr *)&name, sizeof(name));
    ok(listener >= 0, "a server that is started again gets the address beside the new one");
    pair.listener = listener;
    pair_close(&pair);
}

/* --- the way back ----------------------------------------------------------------------------- */

struct entry {
    struct swap_entry calls;
    struct mc_tcp_conn conn;
    const char *kept;
    int nfrozen, nremoved, nthawed;
};

static int freeze(struct swap_entry *calls, struct mc_tcp_conn *conn, const char **kept)
{
    struct entry *entry = (struct entry *)calls;

    entry->nfrozen++;
    *conn = entry->conn;
    *kept = entry->kept;
    return 0;
}

static int remove_entry(struct swap_entry *calls)
{
    ((struct entry *)calls)->nremoved++;
    return 0;
}

static void thaw(struct swap_entry *calls)
{
    ((struct entry *)calls)->nthawed++;
}

static const struct swap_entry calls = {freeze, remove_entry, thaw};

static void each_step_has_a_way_back(enum family family, enum swap_step step)
{
    struct pair pair = pair_open(family, 20000);
    struct entry entry = {.calls = calls};
    struct swap_plan plan = {.entry = &entry.calls, .filter = -1, .fails = step};
    const char *name = swap_step_text(step);

    pair_say(&pair, CLIENT, 5000);
    pair_say(&pair, SERVER, LARGE);
    ok(swap(&pair, SERVER, &plan) == SWAP_FAILED, "%s: cannot %s", family_names[family], name);
    ok(entry.nremoved == 0 && entry.nthawed == entry.nfrozen,
       "%s: cannot %s: what was frozen is thawed", family_names[family], name);
    ok(pair_works(&pair), "%s: cannot %s: the old socket goes on", family_names[family], name);
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE && pair_works(&pair),
       "%s: cannot %s: later it can be swapped", family_names[family], name);
    pair_close(&pair);
}

static void the_last_step_has_none(void)
{
    struct pair pair = pair_open(V4, 0);
    struct entry entry = {.calls = calls};
    struct swap_plan plan = {.entry = &entry.calls, .filter = -1, .fails = SWAP_FINISH};
    char byte;

    ok(swap(&pair, SERVER, &plan) == SWAP_LOST && entry.nremoved == 1 && entry.nthawed == 0,
       "behind the removal of the entry there is no way back");
    pair_close(&(struct pair){pair.listener, -1, pair.server, {0}, {0}});
    ok(recv(pair.client, &byte, 1, 0) < 0 && errno == ECONNRESET, "the client is told");
    close(pair.client);
}

/* --- what is refused -------------------------------------------------------------------------- */

static enum swap_result swap_as_it_is(int fd)
{
    struct swapped out;
    enum swap_result result = swap_socket(fd, &plain, &out);

    if (out.fd >= 0)
        close(out.fd);
    return result;
}

static void others_are_refused(void)
{
    struct pair pair = pair_open(V4, 0);
    int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ends[2];

    shutdown(pair.server, SHUT_WR);
    while (info_of(pair.server).tcpi_state == BPF_TCP_FIN_WAIT1)
        sched_yield(); /* the client may acknowledge it a little later */
    ok(swap(&pair, SERVER, &plain) == SWAP_NOT_NOW,
       "not when the client has acknowledged the server's end");
    pair_say(&pair, CLIENT, 5000);
    ok(pair_hears(&pair, SERVER), "it gets the rest");
    ok(swap_as_it_is(pair.listener) == SWAP_FAILED, "no listening socket");
    pair_close(&pair);
    ok(swap_as_it_is(udp) == SWAP_FAILED, "no UDP socket");
    close(udp);
    if (pipe2(ends, O_CLOEXEC) == 0) {
        ok(swap_as_it_is(ends[0]) == SWAP_FAILED, "no pipe");
        close(ends[0]);
        close(ends[1]);
    }
    ok(swap_as_it_is(-1) == SWAP_FAILED, "no descriptor that is not open");
}

/* Whether this side gets the other's end, behind all that it has said. */
static bool hears_end(struct pair *pair, enum side side)
{
    char byte;

    return pair_hears(pair, side) &&
           recv(side == CLIENT ? pair->client : pair->server, &byte, 1, 0) == 0;
}

static void ends_are_taken_over(enum family family)
{
    const char *name = family_names[family];
    struct pair pair = pair_open(family, 0);

    pair_say(&pair, CLIENT, 5000);
    shutdown(pair.client, SHUT_WR);
    ok(swap(&pair, SERVER, &plain) == SWAP_NOT_NOW,
       "%s: not while bytes before the client's end are unread", name);
    ok(pair_hears(&pair, SERVER) && swap(&pair, SERVER, &plain) == SWAP_DONE,
       "%s: the socket is swapped when they are read", name);
    ok(hears_end(&pair, SERVER), "%s: the new one gets the client's end", name);
    pair_deafen(pair.client);
    pair_say(&pair, SERVER, 3000);
    shutdown(pair.server, SHUT_WR);
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE, "%s: both have ended, in flight", name);
    pair_unfilter(pair.client);
    ok(hears_end(&pair, CLIENT), "%s: the client gets all and the server's end", name);
    pair_close(&pair);
    pair = pair_open(family, 0);
    pair_deafen(pair.client);
    pair_say(&pair, SERVER, 3000);
    shutdown(pair.server, SHUT_WR);
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE, "%s: the server has ended, in flight", name);
    pair_unfilter(pair.client);
    pair_say(&pair, CLIENT, 5000);
    ok(hears_end(&pair, CLIENT) && pair_hears(&pair, SERVER),
       "%s: the client gets the end, and still sends", name);
    pair_close(&pair);
}

/* The programs see what a firewall then drops. */
static void an_end_is_acknowledged_past_the_socket(enum family family)
{
    const char *name = family_names[family];
    struct pair pair = pair_open(family, 0);
    struct entry entry = {.calls = calls};
    struct swap_plan plan = {.entry = &entry.calls, .filter = -1};

    pair_deafen(pair.server);
    entry.conn.snd_una = pair_una(pair.server) + 3001;
    pair_say(&pair, SERVER, 3000);
    shutdown(pair.server, SHUT_WR);
    ok(hears_end(&pair, CLIENT) && swap(&pair, SERVER, &plan) == SWAP_DONE,
       "%s: the programs alone know that the client has the server's end", name);
    pair_say(&pair, CLIENT, 5000);
    ok(pair_hears(&pair, SERVER), "%s: the client still sends", name);
    pair_close(&pair);
}

/* The programs see what the socket then refuses for its checksum. */
static void a_damaged_acknowledgement_is_none(void)
{
    struct pair pair = pair_open(V4, 0);
    struct entry entry = {.calls = calls};
    struct swap_plan plan = {.entry = &entry.calls, .filter = -1};

    entry.conn.snd_una = pair_una(pair.server) + 512;
    pair_deafen(pair.client);
    pair_say(&pair, SERVER, 3000);
    ok(swap(&pair, SERVER, &plan) == SWAP_DONE, "the programs alone have an acknowledgement");
    pair_unfilter(pair.client);
    ok(pair_works(&pair), "the client gets what it has not");
    pair_close(&pair);
}

/* Whatever Linux says meanwhile. Rules come before the table of the own addresses. */
static void a_route_is_waited_for(void)
{
    static const char *const kinds[] = {"unreachable", "prohibit", "blackhole"};
    struct pair pair = pair_open(V4, 0);
    char line[64];
    size_t i;

    ok(system("ip rule add pref 10 lookup local && ip rule del pref 0") == 0, "rules are made");
    for (i = 0; i < COUNT(kinds); i++) {
        snprintf(line, sizeof(line), "ip rule add pref 1 to 127.0.0.1 %s", kinds[i]);
        ok(system(line) == 0 && swap(&pair, SERVER, &plain) == SWAP_NOT_NOW,
           "not while the client is %s", kinds[i]);
        ok(system("ip rule del pref 1") == 0 && pair_works(&pair), "the old socket goes on");
    }
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE && pair_works(&pair), "then it is swapped");
    ok(system("ip rule add pref 0 lookup local && ip rule del pref 10") == 0, "rules are gone");
    pair_close(&pair);
}

static void urgent_data_are_waited_for(void)
{
    struct pair pair = pair_open(V4, 0);
    char text[8];

    send(pair.client, "ab!", 3, MSG_OOB);
    send(pair.client, "cd", 2, 0);
    ok(swap(&pair, SERVER, &plain) == SWAP_NOT_NOW, "not while urgent data are unread");
    ok(recv(pair.server, text, sizeof(text), 0) == 2 && recv(pair.server, text, 8, 0) == 2 &&
           memcmp(text, "cd", 2) == 0,
       "the old socket reads what is around them");
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE && pair_works(&pair), "then it is swapped");
    pair_close(&pair);
}

/* --- other numbers ---------------------------------------------------------------------------- */

/*
 * Both ends get other numbers, as if the kernel had answered: the server's socket counts rx bytes
 * less from the client than that has sent, and tx less to it, the last nkept of which the client
 * has not acknowledged.
 */
static void shift(struct pair *pair, uint32_t rx, uint32_t tx, uint32_t nkept, const char *kept)
{
    struct entry server = {.calls = calls, .kept = kept}, client = {.calls = calls};
    struct swap_plan plan = {.entry = &server.calls, .filter = -1};
    uint32_t una = pair_una(pair->server);

    server.conn.delta = (struct mc_tcp_delta){.rx = rx, .tx = tx, .nreply = nkept};
    server.conn.delta.reply = una + tx - nkept;
    client.conn.delta = (struct mc_tcp_delta){.rx = tx - nkept, .tx = rx};
    client.conn.delta.reply = pair_una(pair->client) + rx;
    pair_deafen(pair->client);
    ok(swap(pair, SERVER, &plan) == SWAP_DONE && server.nfrozen == 1 && server.nremoved == 1 &&
           server.nthawed == 0,
       "the server's socket: %u in, %u out, %u kept", rx, tx, nkept);
    plan.entry = &client.calls;
    ok(swap(pair, CLIENT, &plan) == SWAP_DONE, "and the client's");
}

static void numbers_are_shifted(uint32_t rx, uint32_t tx, uint32_t nkept)
{
    static char kept[KEPT];
    struct pair pair = pair_open(V4, 0);

    pair_say(&pair, CLIENT, 700);
    pair_hears(&pair, SERVER);
    pair_say(&pair, SERVER, 900);
    pair_hears(&pair, CLIENT);
    pair_make(kept, nkept, SERVER, pair.sent[SERVER]);
    pair.sent[SERVER] += nkept;
    pair_say(&pair, CLIENT, 800); /* unread by the server */
    shift(&pair, rx, tx, nkept, kept);
    ok(pair_works(&pair), "each byte arrives once, the kept ones too");
    pair_close(&pair);
}

/*
 * A request that the kernel answered with 300 bytes acknowledges 2000, and a firewall drops what
 * tells the socket.
 */
static void what_the_client_has_is_not_sent_again(void)
{
    struct pair pair = pair_open(V4, 0);
    struct entry server = {.calls = calls}, client = {.calls = calls};
    struct swap_plan plan = {.entry = &server.calls, .filter = -1};

    server.conn.delta = (struct mc_tcp_delta){.rx = 10, .tx = 300};
    server.conn.delta.reply = pair_una(pair.server) + 2300;
    client.conn.delta = (struct mc_tcp_delta){.rx = 2300, .tx = 10};
    client.conn.delta.reply = pair_una(pair.client) + 10;
    pair_deafen(pair.client);
    pair_say(&pair, SERVER, 2000);
    pair_say(&pair, SERVER, 500);
    ok(swap(&pair, SERVER, &plan) == SWAP_DONE, "a socket that does not know of 2000 bytes");
    pair.received[CLIENT] = 2000;
    plan.entry = &client.calls;
    ok(swap(&pair, CLIENT, &plan) == SWAP_DONE && pair_works(&pair),
       "its client gets the other 500");
    pair_close(&pair);
}

/* Linux keeps all of a segment until the last byte of it is acknowledged. */
static void an_acknowledgement_inside_a_segment(void)
{
    struct pair pair = pair_open(V4, 0);
    struct entry client = {.calls = calls};
    struct swap_plan plan = {.entry = &client.calls, .filter = -1};

    client.conn.delta.rx = 300;
    client.conn.delta.reply = pair_una(pair.client);
    pair_deafen(pair.client);
    pair_say(&pair, SERVER, 1000);
    pair.received[CLIENT] = 300;
    ok(swap(&pair, CLIENT, &plan) == SWAP_DONE, "a client that has 300 bytes of a segment");
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE && pair_works(&pair), "gets the other 700");
    pair_close(&pair);
}

/* --- between two steps ------------------------------------------------------------------------ */

static _Thread_local const struct pair *repeats; /* during a swap its client sends again */

/* Twice, so that the first time it has come. */
static void await_repetition(int client)
{
    const uint32_t wanted = info_of(client).tcpi_total_retrans + 2;

    while (info_of(client).tcpi_total_retrans < wanted)
        sched_yield();
}

/* In the place of the C library's. Before the new socket, which is connected, gets a queue. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t n)
{
    if (repeats && level == IPPROTO_TCP && option == TCP_REPAIR_QUEUE && fd != repeats->server &&
        info_of(fd).tcpi_state == BPF_TCP_ESTABLISHED) {
        await_repetition(repeats->client);
        repeats = NULL;
    }
    return (int)syscall(SYS_setsockopt, fd, level, option, value, n);
}

static void a_client_repeats_what_is_unread(void)
{
    struct pair pair = pair_open(V4, 0);

    pair_deafen(pair.client); /* to the acknowledgement */
    pair_say(&pair, CLIENT, 700);
    repeats = &pair;
    ok(swap(&pair, SERVER, &plain) == SWAP_DONE && !repeats,
       "a client repeats unread bytes before the new socket has them");
    pair_unfilter(pair.client);
    ok(pair_works(&pair), "they are there once");
    pair_close(&pair);
}

/* --- a connection in use ---------------------------------------------------------------------- */

enum {
    SWAPS = 10000,
    MESSAGE_MAX = 3000,
    AHEAD_MAX = 3 * MESSAGE_MAX, /* bytes that the client sends before their echo */
};

struct talk {
    struct pair pair;
    bool stop, failed; /* the first is atomic */
};

/* Takes what there is of the echo. False: it is wrong, or there is none. */
static bool hear_echo(struct pair *pair)
{
    char text[AHEAD_MAX], wanted[AHEAD_MAX];
    struct pollfd poll_on = {pair->client, POLLIN, 0};
    ssize_t n =
        poll(&poll_on, 1, PAIR_PATIENCE_MS) > 0 ? recv(pair->client, text, AHEAD_MAX, 0) : -1;

    if (n <= 0) {
        diag("no echo after %u of %u bytes: %s", pair->received[CLIENT], pair->sent[CLIENT],
             strerror(errno));
        return false;
    }
    pair_make(wanted, (size_t)n, CLIENT, pair->received[CLIENT]);
    pair->received[CLIENT] += (uint32_t)n;
    return memcmp(text, wanted, (size_t)n) == 0;
}

static bool says_more(struct pair *pair, size_t n)
{
    if (pair_say(pair, CLIENT, n))
        return true;
    diag("cannot send behind %u bytes: %s", pair->sent[CLIENT], strerror(errno));
    return false;
}

static void *ask(void *context)
{
    struct talk *talk = context;
    struct pair *pair = &talk->pair;
    uint32_t state = 1;

    while (!talk->failed && !__atomic_load_n(&talk->stop, __ATOMIC_RELAXED)) {
        state = state * 1103515245 + 12345;
        if (pair->sent[CLIENT] - pair->received[CLIENT] < AHEAD_MAX - MESSAGE_MAX)
            talk->failed = !says_more(pair, 1 + (state >> 16) % MESSAGE_MAX);
        else
            talk->failed = !hear_echo(pair);
    }
    while (!talk->failed && pair->received[CLIENT] != pair->sent[CLIENT])
        talk->failed = !hear_echo(pair);
    shutdown(pair->client, SHUT_WR);
    return NULL;
}

/* Whether there was something to echo. */
static bool echo(int fd)
{
    char text[AHEAD_MAX];
    struct pollfd poll_on = {fd, POLLIN, 0};
    ssize_t n = poll(&poll_on, 1, PAIR_PATIENCE_MS) > 0 ? recv(fd, text, sizeof(text), 0) : -1;
    ssize_t sent = n > 0 ? send(fd, text, (size_t)n, MSG_NOSIGNAL) : 0;

    if (n < 0 || sent != n)
        diag("%zd bytes to echo, %zd sent: %s", n, sent, strerror(errno));
    return n > 0 && sent == n;
}

/* What the client sends during a swap is lost, and it sends it again. */
static void a_connection_in_use_is_swapped(void)
{
    struct talk talk = {.pair = pair_open(V4, 0)}; /* the client's thread has its own copy */
    struct pair pair = talk.pair;
    pthread_t thread;
    int nswaps = 0;
    bool good = true;

    pthread_create(&thread, NULL, ask, &talk);
    while (good && nswaps < SWAPS) {
        good = echo(pair.server) && swap(&pair, SERVER, &plain) == SWAP_DONE;
        nswaps += good;
    }
    __atomic_store_n(&talk.stop, true, __ATOMIC_RELAXED);
    while (echo(pair.server))
        continue;
    pthread_join(thread, NULL);
    ok(good && !talk.failed, "%d swaps of a connection in use: %u bytes come back, each once",
       nswaps, talk.pair.received[CLIENT]);
    pair_close(&pair);
}

/* Clients find out earlier that a segment is lost: in a millisecond instead of 200. */
static bool hurry(void)
{
    return system("ip route change local 127.0.0.0/8 dev lo table local rto_min 1ms") == 0;
}

int main(void)
{
    size_t i;
    int step, family;

    if (!pair_enter_namespace())
        skip_all("needs root");
    for (i = 0; i < COUNT(handshakes); i++)
        for (family = 0; family < FAMILIES; family++)
            queues_are_taken_over((enum family)family, i);
    bytes_in_flight_are_sent_again();
    options_are_kept();
    the_receive_buffer_is_as_large();
    the_old_socket_has_no_connection();
    for (step = SWAP_REPAIR; step <= SWAP_REMOVE; step++)
        for (family = 0; family < FAMILIES; family++)
            each_step_has_a_way_back((enum family)family, (enum swap_step)step);
    the_last_step_has_none();
    for (family = 0; family < FAMILIES; family++) {
        ends_are_taken_over((enum family)family);
        an_end_is_acknowledged_past_the_socket((enum family)family);
    }
    others_are_refused();
    urgent_data_are_waited_for();
    a_route_is_waited_for();
    numbers_are_shifted(0, 0, 0);
    numbers_are_shifted(3000, 70000, 0);
    numbers_are_shifted(300, KEPT, KEPT);
    numbers_are_shifted(UINT32_MAX - 5, 0x80000000, KEPT);
    a_damaged_acknowledgement_is_none();
    what_the_client_has_is_not_sent_again();
    an_acknowledgement_inside_a_segment();
    ok(hurry(), "retransmissions are early");
    a_client_repeats_what_is_unread();
    a_connection_in_use_is_swapped();
    return done();
}
