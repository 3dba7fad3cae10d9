/* SPDX-License-Identifier: BSD-3-Clause */
#include "bmc/run.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/credentials.h"
#include "base/log.h"
#include "base/notify.h"
#include "bmc/sockets.h"
#include "bmc/stats.h"

enum { ERROR_TEXT = 1024, STATUS_TEXT = 640, WHERE_TEXT = 512 };
enum { PATIENCE_MS = 5000, PAUSE_MS = 50 }; /* until an older bmc of --until-eof has ended */

struct bmc {
    const struct options *options;
    struct kcache *kcache;
    struct notify *notify; /* NULL: no service manager wants to know */
    int signals, clock, listener;
    unsigned int seconds; /* since the last line */
    struct kcache_stats last;
};

/* --- output ------------------------------------------------------------------- */

static void say_memory(const struct bmc *bmc)
{
    struct kcache_stats stats;

    kcache_stats(bmc->kcache, &stats);
    log_write("bmc: port %u: room for %u items with keys up to %u and values up to %u bytes, none "
              "older than %u ms; %" PRIu64 " MB",
              bmc->options->port, stats.chain.entries, stats.chain.key_max, stats.chain.value_max,
              stats.chain_options.max_age_ms, stats.chain_bytes >> 20);
}

/* Warns of conditions that the operator may not expect. */
static void say_warnings(uint16_t port)
{
    size_t n = sockets_connections(port);

    if (!sockets_udp(port))
        log_write(
            "bmc: no process listens on UDP port %u in this network namespace: start memcached "
            "with -U %u",
            port, port);
    if (n)
        log_write(
            "bmc: TCP connections to port %u that were open before bmc started: %zu; until bmc has "
            "synchronized with such a connection, data on it invalidates the whole cache; "
            "`ss -K sport = :%u` closes them, so that their clients reconnect",
            port, n, port);
}

static void print_line(struct bmc *bmc)
{
    const struct kcache_stats *before = &bmc->last;
    struct kcache_stats now;
    uint64_t seen, answered = 0;
    const uint64_t *from = (const uint64_t *)before->chain_counts.count;
    const uint64_t *to = (const uint64_t *)now.chain_counts.count;
    const double seconds = bmc->options->interval;
    size_t i;

    kcache_stats(bmc->kcache, &now);
    seen = now.counts.count[MC_COUNT_SEEN] - before->counts.count[MC_COUNT_SEEN];
    for (i = MC_COUNT_ANSWERED_XDP; i <= MC_COUNT_ANSWERED_TC; i++)
        answered += now.counts.count[i] - before->counts.count[i];
    printf("%.0f requests/s, %.1f %% answered, %.0f fills/s, %.0f writes/s, %.0f closed/s, "
           "%.0f unfollowed/s, %" PRIu64 " connections\n",
           (double)seen / seconds, seen ? 100.0 * (double)answered / (double)seen : 0.0,
           (double)(to[CHAIN_FILLS] - from[CHAIN_FILLS]) / seconds,
           (double)(to[CHAIN_WRITES_SEEN] - from[CHAIN_WRITES_SEEN]) / seconds,
           (double)(to[CHAIN_CLOSED_ALL] - from[CHAIN_CLOSED_ALL]) / seconds,
           (double)(to[CHAIN_UNFOLLOWED] - from[CHAIN_UNFOLLOWED]) / seconds,
           to[CHAIN_CONNECTIONS]);
    bmc->last = now;
}

/* --- start -------------------------------------------------------------------- */

int run_open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

int run_open_clock(void)
{
    const struct itimerspec every_second = {{1, 0}, {1, 0}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

    if (fd >= 0)
        timerfd_settime(fd, 0, &every_second, NULL);
    return fd;
}

/* Whether standard input has ended or a signal has come. ms: for how long to wait for that. */
static bool wants_end(const struct bmc *bmc, int ms)
{
    struct pollfd fds[] = {{.fd = bmc->signals, .events = POLLIN},
                           {.fd = STDIN_FILENO, .events = POLLIN}};
    char ignored[64];
    ssize_t n;

    if (poll(fds, 2, ms) <= 0)
        return false;
    if (fds[0].revents)
        return true;
    n = read(STDIN_FILENO, ignored, sizeof(ignored));
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

/*
 * Opens the statistics socket. That of the same port may be still there for a moment if the server
 * with which bmc runs was started anew.
 */
static int listen_after(const struct bmc *bmc)
{
    int tries = bmc->options->until_eof ? PATIENCE_MS / PAUSE_MS : 0, fd;

    while ((fd = stats_listen(bmc->options->port)) == -EADDRINUSE && tries-- > 0)
        if (wants_end(bmc, PAUSE_MS))
            exit(EXIT_SUCCESS);
    return fd;
}

static void open_all(struct bmc *bmc)
{
    const struct options *o = bmc->options;
    char error[ERROR_TEXT];

    bmc->notify = notify_open();
    bmc->signals = run_open_signals();
    bmc->clock = run_open_clock();
    if (bmc->signals < 0 || bmc->clock < 0)
        fatal(EXIT_OS_ERROR, "bmc: %s", strerror(errno));
    bmc->listener = listen_after(bmc);
    if (bmc->listener == -EADDRINUSE)
        fatal(
            EXIT_OS_ERROR,
            "bmc: another bmc runs for port %u; one bmc must watch all interfaces: `bmc eth0,eth1`",
            o->port);
    if (bmc->listener < 0)
        fatal(EXIT_OS_ERROR, "bmc: cannot create the statistics socket in " STATS_FOLDER ": %s%s",
              strerror(-bmc->listener),
              bmc->listener == -EPERM ? ": it must be root's, and only root may write to it"
              : bmc->listener == -ETIMEDOUT
                  ? ": a stuck process has the lock: `fuser -v " STATS_FOLDER
                    "/lock` names it; end it"
              : geteuid() == 0 ? ""
                               : ": start as root");
    bmc->kcache = kcache_open(&o->kcache, 0, error, sizeof(error));
    if (!bmc->kcache)
        fatal(EXIT_OS_ERROR, "%s", error);
}

static void attach(struct bmc *bmc)
{
    const struct options *o = bmc->options;
    const struct kcache_served served = {
        .group = getegid(),
        .others = "",
        .udp_port = o->port,
        .addresses = o->addresses,
        .n = o->naddresses,
    };
    char error[ERROR_TEXT];

    if (kcache_attach(bmc->kcache, &served, error, sizeof(error)) == 0)
        return;
    kcache_close(bmc->kcache);
    fatal(EXIT_OS_ERROR, "%s", error);
}

/* --- running -------------------------------------------------------------------- */

/* What it does, for the service manager. */
static void describe(const struct bmc *bmc, char *text, size_t size)
{
    struct iface_view view;
    char where[WHERE_TEXT];

    kcache_look(bmc->kcache, &view);
    kcache_describe(&view, where, sizeof(where));
    snprintf(text, size, "the kernel answers gets over UDP, port %u, on %s", bmc->options->port,
             where);
}

static void tick(struct bmc *bmc)
{
    char text[STATUS_TEXT];
    uint64_t times;

    if (read(bmc->clock, &times, sizeof(times)) != sizeof(times))
        return;
    kcache_renew_lease(bmc->kcache);
    if (bmc->notify) {
        describe(bmc, text, sizeof(text));
        notify_status(bmc->notify, text);
        notify_alive(bmc->notify);
    }
    if (!bmc->options->interval || ++bmc->seconds < bmc->options->interval)
        return;
    bmc->seconds = 0;
    print_line(bmc);
}

static void reload(struct bmc *bmc)
{
    char error[ERROR_TEXT];

    if (kcache_reload(bmc->kcache, error, sizeof(error)))
        log_write("%s; what was read before stays in force", error);
}

/* Whether it goes on. On a terminal SIGHUP says that this was closed. */
static bool take_signal(struct bmc *bmc)
{
    struct signalfd_siginfo info;

    if (read(bmc->signals, &info, sizeof(info)) != sizeof(info))
        return true;
    if (info.ssi_signo != SIGHUP || isatty(STDIN_FILENO))
        return false;
    reload(bmc);
    return true;
}

static void live(struct bmc *bmc)
{
    struct pollfd fds[] = {{.fd = bmc->signals, .events = POLLIN},
                           {.fd = bmc->clock, .events = POLLIN},
                           {.fd = bmc->listener, .events = POLLIN},
                           {.fd = bmc->options->until_eof ? STDIN_FILENO : -1, .events = POLLIN}};

    while ((!(fds[0].revents & POLLIN) || take_signal(bmc)) &&
           !(fds[3].revents && wants_end(bmc, 0))) {
        if (fds[1].revents & POLLIN)
            tick(bmc);
        if (fds[2].revents & POLLIN)
            stats_serve(bmc->listener, bmc->kcache);
        if (poll(fds, 4, -1) < 0)
            memset(&fds[0].revents, 0, sizeof(fds[0].revents));
    }
}

int run(const struct options *options)
{
    struct bmc bmc = {.options = options};
    char status[STATUS_TEXT];
    struct credentials_user user = credentials_find_user(options->user);
    int rc;

    open_all(&bmc);
    attach(&bmc);
    say_memory(&bmc);
    say_warnings(options->port);
    credentials_become_keeping(&user, kcache_capabilities(bmc.kcache));
    rc = kcache_start(bmc.kcache);
    if (rc) {
        kcache_close(bmc.kcache);
        fatal(EXIT_OS_ERROR, "bmc: cannot start a thread: %s", strerror(-rc));
    }
    describe(&bmc, status, sizeof(status));
    notify_ready(bmc.notify, status);
    live(&bmc);
    notify_stopping(bmc.notify);
    kcache_close(bmc.kcache);
    close(bmc.listener);
    notify_close(bmc.notify);
    return 0;
}
