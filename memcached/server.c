/* SPDX-License-Identifier: BSD-3-Clause */
#include "server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/anonymous.h"
#include "base/cgroup.h"
#include "base/credentials.h"
#include "base/kept.h"
#include "base/limited.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/path.h"
#include "command/command.h"
#include "config.h"
#include "flash/flash.h"
#include "kcache/kcache.h"
#include "net/net.h"
#include "options/options.h"
#include "process/process.h"
#include "process/restart.h"
#include "process/seccomp.h"
#include "status.h"
#include "store/store.h"
#include "store/store_crawler.h"
#include "store/store_flash.h"
#include "store/store_items.h"
#include "store/store_mover.h"
#include "store/store_stats.h"

enum {
    ERROR_TEXT = 1024,
    STATUS_TEXT = 512,
    INTERFACE_WAIT_MS = 10000, /* for interfaces that a booting machine does not have yet */
    INTERFACE_POLL_MS = 50,
    FILES_SPARE = 512,       /* descriptors besides connections: event loops, programs, links */
    VERBOSITY_MAX = 2,       /* of the command `verbosity`; -vvv sets a higher level */
    VERBOSITY_BYPASS = 2,    /* from this level on the log shows every request */
    BYPASS_VERBOSE = 1 << 0, /* in mc_control.bypass */
    BYPASS_DETAIL = 1 << 1,  /* the commands count each request's keys */
    BYPASS_WATCH = 1 << 2,   /* a client watches each request */
    BYPASS_END = 1 << 3,     /* the server ends */
    BYPASS_SWITCH = 1 << 4,  /* an operator has switched the kernel path off */
};

struct server {
    const struct options *options;
    struct clock clock;
    struct credentials_user user;
    int ready_fd;          /* of process_daemonize, -1 without -d */
    struct notify *notify; /* NULL: no service manager wants to know */
    struct kept *kept;     /* until the sockets are open */
    struct kcache *kcache;
    char *kernel_error;    /* why the kernel path is off; NULL: it is on, or was not requested */
    struct cgroup *cgroup; /* of `limited`; NULL: as much as the machine has */
    struct provider *anonymous, *limited;
    struct flash *flash;     /* NULL: none */
    struct restart *restart; /* NULL without -e */
    bool graceful;           /* the shutdown saves the items, with -e */
    struct store *store;
    struct command_auth auth;
    char *auth_path, *memory_path; /* of -Y and -e, absolute; NULL: none */
    struct commands *commands;
    struct tls *tls; /* NULL: off */
    struct net *net;
};

static bool has_kernel_path(const struct server *server)
{
    return server->kcache != NULL;
}

/* --- callbacks of the commands ------------------------------------------- */

static void give_net_stats(void *context, struct command_net_stats *out)
{
    net_stats(((struct server *)context)->net, out);
}

static void give_kernel_counts(void *context, struct mc_counts *out)
{
    struct kcache_stats stats;

    kcache_stats(((struct server *)context)->kcache, &stats);
    *out = stats.counts;
    out->count[MC_COUNT_BYTES_READ] += stats.tcp_counts.count[MC_TCP_BYTES_READ];
    out->count[MC_COUNT_BYTES_WRITTEN] += stats.tcp_counts.count[MC_TCP_BYTES_WRITTEN];
}

static void add_row(void *sink, const char *name, const char *value)
{
    stat_add(sink, name, "%s", value);
}

static void give_stats_bmc(void *context, struct stat_sink *sink)
{
    const struct server *server = context;
    bool enabled = has_kernel_path(server) && !server->kernel_error;

    stat_add(sink, "bmc_enabled", "%s", enabled ? "yes" : "no");
    if (server->kernel_error)
        stat_add(sink, "reason", "%s", server->kernel_error);
    if (!enabled)
        return;
    kcache_report(server->kcache, add_row, sink);
}

static void give_stats_settings(void *context, struct stat_sink *sink)
{
    const struct server *server = context;
    struct options now = *server->options;
    struct store_stats stats;

    store_stats(server->store, &stats);
    now.store.memory_limit = stats.memory_limit;
    now.store.track_sizes = store_tracks_sizes(server->store);
    store_tuning(server->store, &now.store.tuning);
    store_flash_rules(server->store, &now.ext);
    now.commands.detail_enabled = commands_detail(server->commands);
    now.lru_crawler = store_crawler_running(server->store);
    options_settings(&now, sink);
}

static void give_stats_conns(void *context, struct stat_sink *sink)
{
    net_stats_conns(((struct server *)context)->net, sink);
}

static void reset_stats(void *context)
{
    struct server *server = context;

    net_reset_stats(server->net);
    if (has_kernel_path(server))
        kcache_reset_stats(server->kcache);
}

/* While any reason is set the kernel passes every request to the server. */
static void set_bypass(const struct server *server, uint8_t reason, bool on)
{
    struct mc_control *control =
        has_kernel_path(server) ? kcache_control(server->kcache) : store_control(server->store);
    uint8_t *aside = &control->bypass;

    if (on)
        __atomic_or_fetch(aside, reason, __ATOMIC_RELEASE);
    else
        __atomic_and_fetch(aside, (uint8_t)~reason, __ATOMIC_RELEASE);
}

static void set_verbosity(void *context, unsigned int level)
{
    (void)context;
    log_set_level(level);
}

/* The log shows every request only if the kernel answers none. */
static void set_logged(void *context, bool on)
{
    set_bypass(context, BYPASS_VERBOSE, on);
}

static bool refresh_certs(void *context, char *error, size_t nerror)
{
    const struct server *server = context;

    if (!server->tls) {
        snprintf(error, nerror, "Error TLS not enabled");
        return false;
    }
    return tls_refresh(server->tls, error, nerror);
}

static void set_detail(void *context, bool on)
{
    set_bypass(context, BYPASS_DETAIL, on);
}

static void set_watched(void *context, bool on)
{
    set_bypass(context, BYPASS_WATCH, on);
}

/* Only a server with a kernel path calls this. */
static uint8_t read_bypass(const struct server *server)
{
    return __atomic_load_n(&kcache_control(server->kcache)->bypass, __ATOMIC_RELAXED);
}

/* Once more says nothing. */
static void switch_kernel(const struct server *server, bool on, const char *who)
{
    if (on == !(read_bypass(server) & BYPASS_SWITCH))
        return;
    set_bypass(server, BYPASS_SWITCH, !on);
    if (!on && kcache_boundaries(server->kcache))
        boundaries_undo_all(kcache_boundaries(server->kcache), UNDO_OFF);
    log_write(on ? "bmc: switched on by %s: the kernel answers again"
                 : "bmc: switched off by %s: the server answers everything",
              who);
}

static bool switch_by_command(void *context, int fd, bool on)
{
    if (!net_is_local(fd))
        return false;
    switch_kernel(context, on, "the command bmc");
    return true;
}

/* SIGUSR2 */
static void switch_by_signal(const struct server *server)
{
    if (has_kernel_path(server))
        switch_kernel(server, read_bypass(server) & BYPASS_SWITCH, "SIGUSR2");
    else
        log_write("SIGUSR2: there is no kernel path to switch");
}

static void shut_down(void *context, bool graceful)
{
    if (graceful)
        __atomic_store_n(&((struct server *)context)->graceful, true, __ATOMIC_RELAXED);
    net_stop(((struct server *)context)->net);
}

/* --- building ----------------------------------------------------------- */

/* After a failed start. Removes the files with the user's permissions, not root's. */
static void remove_flash(struct server *server)
{
    bool root = geteuid() == 0;

    if (!server->flash)
        return;
    if (root)
        credentials_override(&server->user);
    flash_close(server->flash);
    if (root)
        credentials_revert(&server->user);
}

/*
 * Without the option `optional` exits; with it the server runs on, and `stats bmc` shows the
 * reason.
 */
static void continue_without_kernel(struct server *server, const char *error)
{
    if (!server->options->kcache.optional) {
        kcache_close(server->kcache);
        remove_flash(server);
        fatal(EXIT_OS_ERROR, "%s", error);
    }
    log_write("%s; continuing without the kernel path", error);
    server->kernel_error = strdup(error);
}

/* Limits the store's memory to what the cgroups have room for. */
static void limit_memory(struct server *server, struct cgroup *cgroup)
{
    server->cgroup = cgroup;
    server->limited = server->restart ? limited_new(restart_provider(server->restart),
                                                    server->cgroup, restart_kept(server->restart))
                                      : limited_new(server->anonymous, server->cgroup, 0);
    if (!server->limited)
        fatal(EXIT_OS_ERROR, "no memory: %s", strerror(errno));
}

/*
 * A service manager starts the server at boot, when interfaces may still be missing. A user who
 * starts it by hand wants to see at once that a name is wrong.
 */
static void await_interfaces(struct server *server)
{
    const struct timespec pause = {0, INTERFACE_POLL_MS * 1000000L};
    const struct kcache_options *wanted = &server->options->kcache;
    const char *missing = server->notify ? kcache_missing(wanted) : NULL;
    char text[128];
    sigset_t signals;

    if (!missing)
        return;
    snprintf(text, sizeof(text), "bmc: waiting up to %d s for the interface %s",
             INTERFACE_WAIT_MS / 1000, missing);
    log_write("%s", text);
    notify_status(server->notify, text);
    for (int ms = 0; kcache_missing(wanted) && ms < INTERFACE_WAIT_MS; ms += INTERFACE_POLL_MS) {
        if (sigpending(&signals) == 0 &&
            (sigismember(&signals, SIGTERM) || sigismember(&signals, SIGINT)))
            return;
        nanosleep(&pause, NULL);
    }
}

static void build_memory(struct server *server)
{
    const struct options *o = server->options;
    struct provider *kernel = NULL;
    struct cgroup *cgroup;
    char error[ERROR_TEXT];

    if (options_without_kernel(o)) {
        continue_without_kernel(server, options_without_kernel(o));
    } else if (kcache_wanted(&o->kcache)) {
        await_interfaces(server);
        server->kcache = kcache_open(&o->kcache, o->store.memory_limit, error, sizeof(error));
        if (!server->kcache)
            continue_without_kernel(server, error);
    }
    if (server->kcache)
        kernel = kcache_provider(server->kcache);
    if (server->memory_path) {
        credentials_override(&server->user);
        server->restart =
            restart_open(server->memory_path, kernel, o->store.memory_limit, error, sizeof(error));
        credentials_revert(&server->user);
        if (!server->restart)
            fatal(EXIT_OS_ERROR, "%s", error);
    } else if (!kernel) {
        server->anonymous = anonymous_new(o->store.prealloc);
        if (!server->anonymous)
            fatal(EXIT_OS_ERROR, "no memory: %s", strerror(errno));
    }
    cgroup = cgroup_new("/proc/self");
    if (cgroup_is_limited(cgroup))
        process_lock_program();
    if (kernel)
        cgroup_free(cgroup);
    else
        limit_memory(server, cgroup);
}

static void log_slab_classes(struct store *store, rel_time now)
{
    struct store_class_stats stats;

    for (unsigned int i = 1; i <= store_nclasses(store); i++) {
        store_class_stats(store, i, now, &stats);
        log_at(VERBOSITY_BYPASS, "slab class %3u: chunk size %9u perslab %7u", i, stats.chunk_size,
               stats.chunks_per_page);
    }
}

static void build_flash(struct server *server)
{
    const struct flash_config *config = &server->options->flash;
    char error[ERROR_TEXT];

    if (config->npaths == 0)
        return;
    credentials_override(&server->user);
    server->flash = flash_open(config, error, sizeof(error));
    credentials_revert(&server->user);
    if (!server->flash)
        fatal(1, "Failed to initialize external storage: %s", error);
}

/* The provider of the kernel path checks its cgroup itself. */
static struct provider *memory_of(const struct server *server)
{
    return server->limited   ? server->limited
           : server->restart ? restart_provider(server->restart)
                             : kcache_provider(server->kcache);
}

/* Creates the store, with the items of -e if there are any, else empty. */
static void make_store(struct server *server, struct store_config *config)
{
    const char *error = NULL;

    if (server->restart)
        config->image = restart_image(server->restart, &server->clock);
    config->clock = server->clock;
    server->store = store_new(config, memory_of(server), &error);
    if (!server->store && errno == ESTALE && restart_discard(server->restart, error) == 0) {
        clock_init(&server->clock);
        config->image = (struct slice){NULL, 0};
        config->clock = server->clock;
        server->store = store_new(config, memory_of(server), &error);
    }
    if (!server->store) {
        int why = errno;

        remove_flash(server);
        fatal(EXIT_OS_ERROR, "cannot set up the store: %s", error ? error : strerror(why));
    }
}

static void build_store(struct server *server)
{
    struct store_config config = server->options->store;

    config.sums = server->kcache && kcache_provider(server->kcache);
    config.flash = server->flash;
    command_store_format(&config.format);
    make_store(server, &config);
    store_set_flash_rules(server->store, &server->options->ext);
    set_verbosity(server, server->options->verbosity);
    log_slab_classes(server->store, clock_now(&server->clock));
}

static void build_commands(struct server *server)
{
    const struct options *o = server->options;
    struct command_config config = o->commands;
    char error[ERROR_TEXT];
    const struct command_server calls = {
        .context = server,
        .net_stats = give_net_stats,
        .kernel_counts = has_kernel_path(server) ? give_kernel_counts : NULL,
        .stats_bmc = give_stats_bmc,
        .stats_settings = give_stats_settings,
        .stats_conns = give_stats_conns,
        .reset_stats = reset_stats,
        .set_verbosity = set_verbosity,
        .set_logged = set_logged,
        .shutdown = shut_down,
        .set_detail = set_detail,
        .refresh_certs = ENABLE_TLS ? refresh_certs : NULL,
        .set_watched = set_watched,
        .switch_kernel = has_kernel_path(server) ? switch_by_command : NULL,
    };

    config.logged = o->verbosity >= VERBOSITY_BYPASS;
    config.maxconns_fast = o->net.maxconns_fast;
    config.idle_timeout = o->net.idle_timeout > 0;
    config.tls = o->ssl_enabled;
    config.lru_segmented = o->store.tuning.lru_segmented;
    config.flash = server->flash != NULL;
    config.nthreads = o->net.nthreads;
    config.max_connections = o->net.max_connections;
    config.item_max = o->store.item_max;
    config.clock = server->clock;
    server->commands = commands_new(server->store, &config, &calls);
    if (!server->commands) {
        remove_flash(server);
        fatal(EXIT_OS_ERROR, "no memory for the commands");
    }
    if (!commands_authenticate(server->commands, &server->auth, error, sizeof(error))) {
        remove_flash(server);
        fatal(1, "%s", error);
    }
}

/* Before privileges are dropped and before -d changes the directory. */
static void build_tls(struct server *server)
{
    const struct options *o = server->options;
    char error[ERROR_TEXT];

    if (!o->ssl_enabled)
        return;
    server->tls = tls_new(&o->tls, &server->clock, error, sizeof(error));
    if (!server->tls)
        fatal(EXIT_USAGE_ERROR, "%s", error);
    if (o->net.socket_path)
        log_write("-Z: the unix socket does not use TLS");
    if (o->tls.verify_mode > 0 && !o->tls.ca_cert)
        log_write("ssl_verify_mode without ssl_ca_cert: no client certificate will be accepted");
}

static void build_net(struct server *server)
{
    const struct options *o = server->options;
    struct net_config config = o->net;
    char error[ERROR_TEXT];

    config.authenticates = o->sasl || o->auth_file;
    config.single_datagrams = o->kcache.chain.wanted;
    config.ping_workers = has_kernel_path(server) || notify_has_watchdog(server->notify);
    config.boundaries = has_kernel_path(server) ? kcache_boundaries(server->kcache) : NULL;
    config.kept = server->kept;
    config.user = &server->user;
    config.tls = server->tls;
    config.clock = server->clock;
    server->net = net_open(&config, error, sizeof(error));
    if (!server->net) {
        remove_flash(server);
        fatal(EXIT_OS_ERROR, "%s", error);
    }
    kept_forget_rest(server->kept);
    kept_close(server->kept);
    server->kept = NULL;
}

/* Has the workers serve the rings that the kernel path has opened. */
static void add_rings(const struct server *server)
{
    size_t n;
    struct xsk *rings = kcache_rings(server->kcache, &n);
    int error = net_add_rings(server->net, rings, n);

    if (error)
        fatal(EXIT_OS_ERROR, "cannot set up the event loops: %s", strerror(-error));
}

static int know_socket(void *context, int socket)
{
    const struct server *server = context;

    return kcache_know_socket(server->kcache, socket);
}

static void attach_kernel_path(struct server *server)
{
    const struct kcache_options *wanted = &server->options->kcache;
    struct in6_addr addresses[2 * MC_MAX_ADDRESSES];
    char error[ERROR_TEXT], others[KCACHE_OTHERS_TEXT];
    int listeners[NET_LISTENERS];
    struct kcache_served served = {
        .addresses = addresses, .others = others, .listeners = listeners};
    int rc;

    if (!has_kernel_path(server))
        return;
    served.group = credentials_group(&server->user);
    served.user = &server->user;
    served.nworkers = server->options->net.nthreads;
    net_other_ports(server->net, wanted->udp == KCACHE_ON, kcache_wants_tcp(wanted), others,
                    sizeof(others));
    if (kcache_wants_tcp(wanted)) {
        served.n =
            net_tcp_addresses(server->net, addresses, 2 * MC_MAX_ADDRESSES, &served.tcp_port);
        served.nlisteners = net_tcp_listeners(server->net, listeners, NET_LISTENERS);
    }
    if (wanted->udp == KCACHE_ON)
        served.n =
            net_udp_addresses(server->net, addresses, 2 * MC_MAX_ADDRESSES, &served.udp_port);
    rc = net_each_udp(server->net, know_socket, server);
    if (rc)
        snprintf(error, sizeof(error),
                 "bmc: cannot mark the UDP sockets: %s (net.core.optmem_max may be too low)",
                 strerror(-rc));
    else
        rc = kcache_attach(server->kcache, &served, error, sizeof(error));
    if (rc)
        continue_without_kernel(server, error);
    add_rings(server);
}

static void change_user(const struct server *server)
{
    if (kcache_wanted(&server->options->kcache)) {
        credentials_become_keeping(
            &server->user, has_kernel_path(server) ? kcache_capabilities(server->kcache) : 0);
    } else {
        credentials_become(&server->user);
    }
    if (server->options->coredumps)
        process_allow_core_dumps();
    if (server->options->lock_memory)
        process_lock_memory();
}

/* Limits the system calls of this thread and of those that it starts. */
static void restrict_calls(struct server *server)
{
    const struct options *o = server->options;
    const struct seccomp_needs needs = {
        .kernel_path = has_kernel_path(server),
        .removes_file = o->pid_file && o->daemonize,
        .writes_files = o->memory_file != NULL,
        .asks_daemon = o->sasl,
        .relaxed = o->relaxed_privileges,
    };
    int error;

    if (!o->drop_privileges)
        return;
    error = seccomp_install(&needs);
    if (error) {
        kcache_close(server->kcache);
        remove_flash(server);
        fatal(EXIT_OS_ERROR, "cannot drop privileges: %s", strerror(-error));
    }
}

/* --- running ----------------------------------------------------------- */

/* What the server does, for the service manager. */
static void describe(struct server *server, char *text, size_t size)
{
    struct status status = {.options = server->options, .kernel_error = server->kernel_error};
    struct iface_view view;
    struct in6_addr none[1];

    net_tcp_addresses(server->net, none, 0, &status.tcp_port);
    net_udp_addresses(server->net, none, 0, &status.udp_port);
    if (has_kernel_path(server) && !server->kernel_error) {
        kcache_look(server->kcache, &view);
        status.kview = &view;
        status.bypass = read_bypass(server);
    }
    status_text(&status, text, size);
}

static void tick(void *context, rel_time now, bool serving)
{
    struct server *server = context;
    char text[STATUS_TEXT];

    if (has_kernel_path(server) && serving)
        kcache_renew_lease(server->kcache);
    if (server->notify) {
        describe(server, text, sizeof(text));
        notify_status(server->notify, text);
        if (serving)
            notify_alive(server->notify);
    }
    store_tick(server->store, now);
}

/* SIGHUP: reads the files again that can be replaced without a restart. */
static void reload(struct server *server)
{
    char error[ERROR_TEXT];

    if (!commands_reload(server->commands, error, sizeof(error)))
        log_write("%s; the users read before stay in use", error);
    if (server->tls && !tls_refresh(server->tls, error, sizeof(error)))
        log_write("%s; the old certificates stay in use", error);
    if (has_kernel_path(server) && kcache_reload(server->kcache, error, sizeof(error)))
        log_write("%s; what was read before stays in force", error);
}

static void handle_signal(void *context, int number)
{
    if (number == SIGHUP) {
        reload(context);
        return;
    }
    if (number == SIGUSR2) {
        switch_by_signal(context);
        return;
    }
    if (number == SIGUSR1) {
        ((struct server *)context)->graceful = true;
        printf("Gracefully stopping\n");
    } else {
        printf("Signal handled: %s.\n", strsignal(number));
    }
    net_stop(((struct server *)context)->net);
}

/*
 * Only the main thread's event loop takes the signals (net_run). A signal that comes before the
 * loop runs stays pending until then.
 */
static void block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* path_absolute; NULL for NULL. */
static char *absolute_path(const char *file)
{
    char *path = file ? path_absolute(file) : NULL;

    if (file && !path)
        fatal(EXIT_OS_ERROR, "no memory for the path of %s", file);
    return path;
}

static void prepare_auth(struct server *server)
{
    char *path = absolute_path(server->options->auth_file);

    server->auth_path = path;
    server->auth = (struct command_auth){server->options->sasl, path};
}

static void prepare_process(struct server *server)
{
    const struct options *o = server->options;

    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    if (o->coredumps)
        process_raise_core_limit();
    process_raise_files_limit(o->net.max_connections, FILES_SPARE);
    server->user = credentials_find_user(o->user);
    server->memory_path = absolute_path(o->memory_file);
    prepare_auth(server);
    server->notify = notify_open();
    server->kept = kept_open(server->notify);
    if (o->daemonize)
        server->ready_fd = process_daemonize(o->coredumps);
    block_signals();
    if (o->store.prealloc)
        process_require_large_pages();
    if (o->lock_memory)
        process_raise_lock_limit();
}

static void start_threads(struct server *server)
{
    const struct options *o = server->options;
    int error = store_prefault_start(server->store);

    if (error == 0 && o->store.maintained)
        error = store_maintainer_start(server->store);
    if (error == 0 && server->flash) {
        error = flash_start(server->flash);
        error = error ? error : store_flash_start(server->store);
    }
    if (error == 0 && o->commands.slab_reassign)
        error = store_mover_start(server->store);
    if (error == 0)
        error = commands_start(server->commands);
    if (error == 0 && o->lru_crawler)
        error = store_crawler_start(server->store);
    if (error == 0 && has_kernel_path(server))
        error = kcache_start(server->kcache);
    if (error == 0)
        error = net_start(server->net, server->commands);
    if (error) {
        kcache_close(server->kcache);
        fatal(EXIT_OS_ERROR, "cannot start threads: %s", strerror(-error));
    }
}

/* From here on all clients are served. */
static void tell_ready(struct server *server)
{
    char text[STATUS_TEXT];

    if (server->notify) {
        describe(server, text, sizeof(text));
        notify_ready(server->notify, text);
    }
    if (server->ready_fd >= 0)
        process_ready(server->ready_fd, server->options->verbosity > 0);
}

static void teardown(struct server *server)
{
    notify_stopping(server->notify);
    /* First: to clients, answers of the kernel mean that the server runs. */
    if (has_kernel_path(server)) {
        set_bypass(server, BYPASS_END, true);
        kcache_detach(server->kcache);
    }
    net_free(server->net);
    tls_free(server->tls);
    store_maintainer_stop(server->store);
    store_mover_stop(server->store);
    store_flash_stop(server->store);
    store_crawler_stop(server->store);
    store_prefault_stop(server->store);
    commands_free(server->commands);
    free(server->auth_path);
    free(server->memory_path);
    if (server->restart && server->graceful)
        restart_save(server->restart, server->store, clock_now(&server->clock));
    store_free(server->store);
    flash_close(server->flash);
    restart_close(server->restart);
    limited_free(server->limited);
    anonymous_free(server->anonymous);
    cgroup_free(server->cgroup);
    kcache_close(server->kcache);
    free(server->kernel_error);
    notify_close(server->notify);
}

int server_run(const struct options *options)
{
    struct server server = {.options = options, .ready_fd = -1};
    const struct net_duties duties = {&server, tick, handle_signal};
    int error;

    process_open_streams();
    log_set_level(options->verbosity);
    clock_init(&server.clock);
    build_tls(&server);
    prepare_process(&server);
    build_memory(&server);
    build_flash(&server);
    build_store(&server);
    build_commands(&server);
    if (!options->net.socket_path) {
        build_net(&server);
        attach_kernel_path(&server);
    }
    change_user(&server);
    if (options->net.socket_path)
        build_net(
            &server); /* the socket file belongs to the user, or that user could not connect */
    if (options->pid_file)
        process_write_pid(options->pid_file);
    if (server.restart)
        restart_consume(server.restart);
    restrict_calls(&server);
    start_threads(&server);
    tell_ready(&server);
    error = net_run(server.net, &duties);
    teardown(&server);
    if (options->pid_file && options->daemonize)
        process_remove_pid(options->pid_file);
    return error ? 1 : 0;
}
