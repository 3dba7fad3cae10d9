/* SPDX-License-Identifier: BSD-3-Clause */
/* stats: `stats` with an argument. */
#include <stdio.h>

#include "base/num.h"
#include "command/call.h"
#include "command/stat.h"
#include "store/store_flash.h"
#include "store/store_stats.h"

/* The numbers of one class: the store's, and the sums of all threads' counts. */
struct class_view {
    struct store_class_stats class;
    struct store_class_counts counts;
};

/* The initializers of a row. */
#define SLAB(name, type, field) name, offsetof(struct class_view, field), STAT_##type, 0
#define ITEM(field, type, when) #field, offsetof(struct class_view, class.field), STAT_##type, when

#define TLS(name, field) name, offsetof(struct command_tls_stats, field), STAT_U64, WHEN_TLS

static const struct stat_row slab_rows[] = {
    {SLAB("chunk_size", U32, class.chunk_size)},
    {SLAB("chunks_per_page", U32, class.chunks_per_page)},
    {SLAB("total_pages", U64, class.total_pages)},
    {SLAB("total_chunks", U64, class.total_chunks)},
    {SLAB("used_chunks", U64, class.used_chunks)},
    {SLAB("free_chunks", U64, class.free_chunks)},
    {"free_chunks_end", 0, STAT_ZERO, 0},
    {SLAB("get_hits", U64, counts.get_hits)},
    {SLAB("cmd_set", U64, counts.set_cmds)},
    {SLAB("delete_hits", U64, counts.delete_hits)},
    {SLAB("incr_hits", U64, counts.incr_hits)},
    {SLAB("decr_hits", U64, counts.decr_hits)},
    {SLAB("cas_hits", U64, counts.cas_hits)},
    {SLAB("cas_badval", U64, counts.cas_badval)},
    {SLAB("touch_hits", U64, counts.touch_hits)},
};

static const struct stat_row item_rows[] = {
    {ITEM(number, U64, 0)},
    {ITEM(number_hot, U64, WHEN_SEGMENTED)},
    {ITEM(number_warm, U64, WHEN_SEGMENTED)},
    {ITEM(number_cold, U64, WHEN_SEGMENTED)},
    {ITEM(number_temp, U64, WHEN_TEMP)},
    {ITEM(age_hot, U32, WHEN_SEGMENTED)},
    {ITEM(age_warm, U32, WHEN_SEGMENTED)},
    {ITEM(age, U32, 0)},
    {ITEM(mem_requested, U64, 0)},
    {ITEM(evicted, U64, 0)},
    {ITEM(evicted_nonzero, U64, 0)},
    {ITEM(evicted_time, U64, 0)},
    {ITEM(outofmemory, U64, 0)},
    {ITEM(tailrepairs, U64, 0)},
    {ITEM(reclaimed, U64, 0)},
    {ITEM(expired_unfetched, U64, 0)},
    {ITEM(evicted_unfetched, U64, 0)},
    {ITEM(evicted_active, U64, WHEN_SEGMENTED)},
    {ITEM(crawler_reclaimed, U64, 0)},
    {ITEM(crawler_items_checked, U64, 0)},
    {ITEM(lrutail_reflocked, U64, 0)},
    {ITEM(moves_to_cold, U64, WHEN_SEGMENTED)},
    {ITEM(moves_to_warm, U64, WHEN_SEGMENTED)},
    {ITEM(moves_within_lru, U64, WHEN_SEGMENTED)},
    {ITEM(direct_reclaims, U64, WHEN_SEGMENTED)},
    {ITEM(hits_to_hot, U64, WHEN_SEGMENTED)},
    {ITEM(hits_to_warm, U64, WHEN_SEGMENTED)},
    {ITEM(hits_to_cold, U64, WHEN_SEGMENTED)},
    {ITEM(hits_to_temp, U64, WHEN_SEGMENTED)},
};

/* Each of these functions adds its statistics; the caller adds END. */
static void stat_items(struct call *call, struct stat_sink *sink)
{
    struct commands *commands = call->local->commands;
    unsigned int conditions = stat_conditions(commands);
    unsigned int n = store_nclasses(commands->store);
    struct class_view view = {0};
    char prefix[32];
    unsigned int i;

    for (i = 1; i <= n; i++) {
        store_class_stats(commands->store, i, call->now, &view.class);
        if (view.class.number > 0) {
            snprintf(prefix, sizeof(prefix), "items:%u:", i);
            stat_rows(sink, prefix, item_rows, sizeof(item_rows) / sizeof(item_rows[0]), &view,
                      conditions);
        }
    }
}

static void stat_slabs(struct call *call, struct stat_sink *sink)
{
    struct commands *commands = call->local->commands;
    const struct command_server *server = &commands->server;
    unsigned int n = store_nclasses(commands->store);
    struct mc_counts kernel = {0};
    struct store_stats stats;
    struct class_view view;
    uint64_t total_malloced;
    uint32_t active_slabs;
    char prefix[16];
    unsigned int i;

    store_stats(commands->store, &stats);
    if (server->kernel_counts)
        server->kernel_counts(server->context, &kernel);
    for (i = 1; i <= n; i++) {
        store_class_stats(commands->store, i, call->now, &view.class);
        if (view.class.total_pages > 0) {
            view.counts = stats.counts.classes[i];
            view.counts.get_hits += kernel.class_hits[i];
            snprintf(prefix, sizeof(prefix), "%u:", i);
            stat_rows(sink, prefix, slab_rows, sizeof(slab_rows) / sizeof(slab_rows[0]), &view, 0);
        }
    }
    store_slab_totals(commands->store, &total_malloced, &active_slabs);
    stat_add(sink, "active_slabs", "%u", active_slabs);
    stat_add(sink, "total_malloced", "%llu", (unsigned long long)total_malloced);
}

static void switch_sizes(struct call *call, struct stat_sink *sink, bool on)
{
    if (store_track_sizes(call->local->commands->store, on) == 0) {
        stat_add(sink, "sizes_status", "%s", on ? "enabled" : "disabled");
    } else {
        stat_add(sink, "sizes_status", "error");
        stat_add(sink, "sizes_error", "no_memory");
    }
}

static void stat_sizes_enable(struct call *call, struct stat_sink *sink)
{
    switch_sizes(call, sink, true);
}

static void stat_sizes_disable(struct call *call, struct stat_sink *sink)
{
    switch_sizes(call, sink, false);
}

static void stat_sizes(struct call *call, struct stat_sink *sink)
{
    const struct store *store = call->local->commands->store;
    uint64_t size = 0;
    uint64_t count;
    char key[NUM_U64_MAX + 1];

    if (!store_tracks_sizes(store)) {
        stat_add(sink, "sizes_status", "disabled");
        return;
    }
    while (store_size_count(store, &size, &count)) {
        snprintf(key, sizeof(key), "%llu", (unsigned long long)size);
        stat_add(sink, key, "%llu", (unsigned long long)count);
    }
}

static void stat_settings(struct call *call, struct stat_sink *sink)
{
    const struct command_server *server = &call->local->commands->server;

    server->stats_settings(server->context, sink);
}

static void stat_conns(struct call *call, struct stat_sink *sink)
{
    const struct command_server *server = &call->local->commands->server;

    server->stats_conns(server->context, sink);
}

static void stat_extstore(struct call *call, struct stat_sink *sink)
{
    struct store *store = call->local->commands->store;
    uint32_t n = store_flash_npages(store);
    struct flash_page_stats page;
    char key[32];

    for (uint32_t i = 0; i < n; i++) {
        store_flash_page(store, i, &page);
        snprintf(key, sizeof(key), "%u:version", i);
        stat_add(sink, key, "%u", page.version);
        snprintf(key, sizeof(key), "%u:bytes", i);
        stat_add(sink, key, "%llu", (unsigned long long)page.bytes);
        snprintf(key, sizeof(key), "%u:bucket", i);
        stat_add(sink, key, "%u", (unsigned int)page.bucket);
        snprintf(key, sizeof(key), "%u:free_bucket", i);
        stat_add(sink, key, "%u", (unsigned int)page.free_bucket);
    }
}

static void stat_bmc(struct call *call, struct stat_sink *sink)
{
    const struct command_server *server = &call->local->commands->server;

    if (server->stats_bmc)
        server->stats_bmc(server->context, sink);
}

static const struct stat_row tls_rows[] = {
    {TLS("ssl_handshakes", handshakes)},
    {TLS("ssl_resumed_sessions", resumed)},
    {TLS("ssl_handshake_errors", handshake_errors)},
    {TLS("ssl_proto_errors", protocol_errors)},
    {TLS("ssl_cert_refreshes", refreshes)},
    {TLS("ssl_cert_refresh_errors", refresh_errors)},
    {TLS("time_since_server_cert_refresh", since_refresh)},
};

static void stat_tls(struct call *call, struct stat_sink *sink)
{
    const struct commands *commands = call->local->commands;
    struct command_net_stats net = {0};

    stat_add(sink, "ssl_enabled", "%s", commands->config.tls ? "yes" : "no");
    commands->server.net_stats(commands->server.context, &net);
    stat_rows(sink, "", tls_rows, sizeof(tls_rows) / sizeof(tls_rows[0]), &net.tls,
              stat_conditions(commands));
}

void stats_reset(struct commands *commands)
{
    store_reset_stats(commands->store);
    command_counts_reset(commands);
    logger_reset_counts(&commands->logger);
    prefixes_clear(commands->prefixes);
    commands->server.reset_stats(commands->server.context);
}

/* How a kind is shown. */
enum { TEXT_ONLY = 1 << 0, NO_END = 1 << 1 };

static const struct {
    struct slice word;
    stat_function *add;
    unsigned int flags;
} kinds[] = {
    {{"settings", 8}, stat_settings, 0},
    {{"items", 5}, stat_items, 0},
    {{"slabs", 5}, stat_slabs, 0},
    {{"sizes", 5}, stat_sizes, 0},
    {{"sizes_enable", 12}, stat_sizes_enable, NO_END},
    {{"sizes_disable", 13}, stat_sizes_disable, NO_END},
    {{"conns", 5}, stat_conns, TEXT_ONLY},
    {{"bmc", 3}, stat_bmc, 0},
    {{"tls", 3}, stat_tls, 0},
    {{"extstore", 8}, stat_extstore, 0},
};

enum { NKINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* NKINDS: none. */
static size_t find_kind(struct slice word)
{
    size_t i = 0;

    while (i < NKINDS && !slice_equal(word, kinds[i].word))
        i++;
    return i;
}

stat_function *stat_find_binary(struct slice word)
{
    size_t i = find_kind(word);

    return i < NKINDS && !(kinds[i].flags & TEXT_ONLY) ? kinds[i].add : NULL;
}

static enum command_next show(struct call *call, stat_function *add, unsigned int flags)
{
    struct stat_sink sink = {.reply = call->reply};

    add(call, &sink);
    return flags & NO_END ? COMMAND_DONE : answer(call, SLICE("END\r\n"));
}

static enum command_next reset(struct call *call)
{
    stats_reset(call->local->commands);
    return answer(call, SLICE("RESET\r\n"));
}

/* Arguments whose answer has another format. */
static const struct {
    struct slice word;
    command_handler *run;
} others[] = {
    {{"reset", 5}, reset},
    {{"detail", 6}, command_stats_detail},
    {{"cachedump", 9}, command_stats_cachedump},
};

enum command_next command_stats(struct call *call)
{
    const struct request *request = call->request;
    size_t i;

    if (request->ntokens == 1)
        return show(call, stat_general, 0);
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (slice_equal(request->tokens[1], others[i].word))
            return others[i].run(call);
    i = find_kind(request->tokens[1]);
    return i < NKINDS ? show(call, kinds[i].add, kinds[i].flags) : answer(call, SLICE("ERROR\r\n"));
}
