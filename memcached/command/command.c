/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/command.h"

#include <errno.h>
#include <stdlib.h>

#include "command/call.h"
#include "command/watch.h"
#include "store/store.h"
#include "store/store_events.h"

/* The handler of each verb. A request with an error reaches none. */
static command_handler *const handlers[] = {
    [VERB_GET] = command_get,
    [VERB_GETS] = command_gets,
    [VERB_GAT] = command_gat,
    [VERB_GATS] = command_gats,
    [VERB_TOUCH] = command_touch,
    [VERB_SET] = command_store,
    [VERB_ADD] = command_store,
    [VERB_REPLACE] = command_store,
    [VERB_APPEND] = command_store,
    [VERB_PREPEND] = command_store,
    [VERB_CAS] = command_store,
    [VERB_INCR] = command_incr,
    [VERB_DECR] = command_decr,
    [VERB_DELETE] = command_delete,
    [VERB_FLUSH_ALL] = command_flush_all,
    [VERB_CACHE_MEMLIMIT] = command_cache_memlimit,
    [VERB_STATS] = command_stats,
    [VERB_VERSION] = command_version,
    [VERB_VERBOSITY] = command_verbosity,
    [VERB_QUIT] = command_quit,
    [VERB_SLABS] = command_slabs,
    [VERB_SHUTDOWN] = command_shutdown,
    [VERB_REFRESH_CERTS] = command_refresh_certs,
    [VERB_BMC] = command_bmc,
    [VERB_LRU] = command_lru,
    [VERB_LRU_CRAWLER] = command_lru_crawler,
    [VERB_HTTP] = command_http,
    [VERB_EXTSTORE] = command_extstore,
    [VERB_META_GET] = command_meta_get,
    [VERB_META_SET] = command_meta_set,
    [VERB_META_DELETE] = command_meta_delete,
    [VERB_META_ARITH] = command_meta_arith,
    [VERB_META_NOOP] = command_meta_noop,
    [VERB_META_DEBUG] = command_meta_debug,
    [VERB_WATCH] = command_watch,
};

void command_store_format(struct store_format *format)
{
    *format = (struct store_format){proto_suffix, proto_suffix_flags, SLICE("\r\n")};
}

/* Initializes what several threads share. 0 or an error number. */
static int init_threads(struct commands *commands)
{
    const struct logger_config config = {
        .ring_bytes = commands->config.worker_logbuf,
        .stream_bytes = commands->config.watcher_logbuf,
        .set_bypass = commands->server.set_watched,
        .context = commands->server.context,
    };
    int error = pthread_mutex_init(&commands->lock, NULL);

    if (error)
        return error;
    error = -logger_init(&commands->logger, &config);
    if (error)
        pthread_mutex_destroy(&commands->lock);
    return error;
}

struct commands *commands_new(struct store *store, const struct command_config *config,
                              const struct command_server *server)
{
    struct commands *commands = calloc(1, sizeof(*commands));

    if (!commands)
        return NULL;
    commands->store = store;
    commands->config = *config;
    commands->server = *server;
    commands->prefixes = prefixes_new(config->prefix_delimiter);
    if (!commands->prefixes) {
        free(commands);
        return NULL;
    }
    errno = init_threads(commands);
    if (errno) {
        prefixes_free(commands->prefixes);
        free(commands);
        return NULL;
    }
    watch_events(commands);
    bypass_switch(commands, NULL, BYPASS_LOG, config->logged);
    detail_set(commands, NULL, config->detail_enabled);
    return commands;
}

int commands_start(struct commands *commands)
{
    return logger_start(&commands->logger);
}

void commands_free(struct commands *commands)
{
    if (commands) {
        store_set_events(commands->store, NULL);
        logger_fini(&commands->logger);
        auth_free(commands);
        pthread_mutex_destroy(&commands->lock);
        prefixes_free(commands->prefixes);
        free(commands);
    }
}

struct command_local *command_local_new(struct commands *commands)
{
    struct command_local *local = calloc(1, sizeof(*local));

    if (!local)
        return NULL;
    local->commands = commands;
    local->events = logger_add_ring(&commands->logger);
    local->store = local->events ? store_local_new(commands->store) : NULL;
    if (!local->store) {
        free(local);
        return NULL;
    }
    pthread_mutex_lock(&commands->lock);
    local->next = commands->locals;
    commands->locals = local;
    pthread_mutex_unlock(&commands->lock);
    return local;
}

static void add_counts(struct command_counts *sum, const struct command_counts *counts)
{
    sum->flush_refused += __atomic_load_n(&counts->flush_refused, __ATOMIC_RELAXED);
    sum->meta_cmds += __atomic_load_n(&counts->meta_cmds, __ATOMIC_RELAXED);
    sum->auth_cmds += __atomic_load_n(&counts->auth_cmds, __ATOMIC_RELAXED);
    sum->auth_errors += __atomic_load_n(&counts->auth_errors, __ATOMIC_RELAXED);
}

void command_local_free(struct command_local *local)
{
    struct commands *commands;
    struct command_local **at;

    if (!local)
        return;
    commands = local->commands;
    pthread_mutex_lock(&commands->lock);
    for (at = &commands->locals; *at != local; at = &(*at)->next) {
    }
    *at = local->next;
    add_counts(&commands->retired, &local->counts);
    pthread_mutex_unlock(&commands->lock);
    store_local_free(local->store);
    free(local);
}

void command_counts_sum(struct commands *commands, struct command_counts *out)
{
    const struct command_local *local;

    pthread_mutex_lock(&commands->lock);
    *out = commands->retired;
    for (local = commands->locals; local; local = local->next)
        add_counts(out, &local->counts);
    pthread_mutex_unlock(&commands->lock);
}

/* The threads' counters continue: `retired` subtracts their current values, modulo 2^64. */
void command_counts_reset(struct commands *commands)
{
    struct command_counts sum = {0};
    const struct command_local *local;

    pthread_mutex_lock(&commands->lock);
    for (local = commands->locals; local; local = local->next)
        add_counts(&sum, &local->counts);
    commands->retired.flush_refused = -sum.flush_refused;
    commands->retired.meta_cmds = -sum.meta_cmds;
    commands->retired.auth_cmds = -sum.auth_cmds;
    commands->retired.auth_errors = -sum.auth_errors;
    pthread_mutex_unlock(&commands->lock);
}

/*
 * Memory ran out while the answer was built: the error replaces all of it, so that the client never
 * takes a part for the whole.
 */
static enum command_next out_of_memory(struct call *call, enum command_next next)
{
    store_flash_load_abort(call->local->store, call->reply->nholes - call->start.nholes);
    reply_rewind(call->reply, &call->start);
    if (next == COMMAND_DONE && call->request->binary) {
        binary_error(call->reply, call->request->id, BINARY_NO_MEMORY);
    } else if (next == COMMAND_DONE) {
        reply_bytes(call->reply,
                    call->request->verb == VERB_STATS
                        ? SLICE("SERVER_ERROR out of memory writing stats\r\n")
                        : SLICE("SERVER_ERROR out of memory writing get response\r\n"));
    }
    if (call->reply->failed) {
        reply_rewind(call->reply, &call->start);
        return COMMAND_CLOSE;
    }
    return call->request->more ? COMMAND_CLOSE : next;
}

enum command_next command_run(struct command_local *local, const struct request *request,
                              struct command_client *client, rel_time now, struct reply *reply,
                              struct command_pending *pending)
{
    struct call call = {local, request, client, now, reply, pending, reply_mark(reply)};
    enum command_next next;

    if (__builtin_expect(client->unauthenticated, false)) {
        next = auth_run(&call);
    } else if (request->binary) {
        next = binary_run(&call);
    } else if (request->error.len) {
        next = request->has_value ? call_swallow(&call, request->error)
                                  : answer(&call, request->error);
    } else {
        next = handlers[request->verb](&call);
    }
    return reply->failed ? out_of_memory(&call, next) : next;
}

void command_release(struct command_local *local, struct reply *reply)
{
    size_t i;

    for (i = 0; i < reply->nheld; i++)
        store_put(local->store, reply->held[i]);
    reply->nheld = 0;
    reply_reset(reply);
}

void command_too_long(struct command_local *local, const struct request *request,
                      struct reply *reply)
{
    command_release(local, reply);
    if (request->binary)
        binary_error(reply, request->id, BINARY_TOO_LARGE);
    else
        reply_bytes(reply, SLICE("SERVER_ERROR response too large for UDP\r\n"));
}
