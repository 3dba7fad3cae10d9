/* SPDX-License-Identifier: BSD-3-Clause */
/* stats: what may stand behind the word. */
#include <stdio.h>

#include "base/num.h"
#include "command/call.h"
#include "command/stat.h"

/* One class's numbers, from the store and the counts of all threads. */
struct class_view {
    struct store_class_stats class;
    struct store_class_counts counts;
};

/* What stands between the braces of a row. */
#define SLAB(name, type, field) name, offsetof(struct class_view, field), STAT_##type, 0
#define ITEM(field, type, when) #field, offsetof(struct class_view, class.field), STAT_##type, when

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

/* Each of these adds its statistics; END follows. */
static void stat_items(struct call *call, struct stat_sink *sink)
{
    struct commands *commands = call->local->commands;
    unsigned int conditions = stat_conditions(&commands->config);
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
    if (server->kernel_counts) {
        server->kernel_counts(server->context, &kernel);
    }
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

static void stat_sizes(struct call *call, struct stat_sink *sink)
{
    const struct store *store = call->local->commands->store;
    uint64_t size = 0;
    uint64_t count;
    char key[NUM_U64_MAX + 1];

    if (!store_tracks_sizes(store)) {
        stat_add(sink, "sizes_status", "disabled");
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

static void stat_bmc(struct call *call, struct stat_sink *sink)
{
    const struct command_server *server = &call->local->commands->server;

    if (server->stats_bmc) {
        server->stats_bmc(server->context, sink);
    }
}

void stats_reset(struct commands *commands)
{
    store_reset_stats(commands->store);
    command_counts_reset(commands);
    commands->server.reset_stats(commands->server.context);
}

static const struct {
    struct slice word;
    stat_function *add;
    bool binary; /* also shown there */
} kinds[] = {
    {{"settings", 8}, stat_settings, true}, {{"items", 5}, stat_items, true},
    {{"slabs", 5}, stat_slabs, true},       {{"sizes", 5}, stat_sizes, true},
    {{"conns", 5}, stat_conns, false},      {{"bmc", 3}, stat_bmc, true},
};

stat_function *stat_find(struct slice word, bool binary)
{
    size_t i;

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (slice_equal(word, kinds[i].word)) {
            return !binary || kinds[i].binary ? kinds[i].add : NULL;
        }
    }
    return NULL;
}

static enum command_next show(struct call *call, stat_function *add)
{
    struct stat_sink sink = {.reply = call->reply};

    add(call, &sink);
    return answer(call, SLICE("END\r\n"));
}

enum command_next command_stats(struct call *call)
{
    const struct request *request = call->request;
    stat_function *add;

    if (request->ntokens == 1) {
        return show(call, stat_general);
    }
    if (slice_equal(request->tokens[1], SLICE("reset"))) {
        stats_reset(call->local->commands);
        return answer(call, SLICE("RESET\r\n"));
    }
    add = stat_find(request->tokens[1], false);
    return add ? show(call, add) : answer(call, SLICE("ERROR\r\n"));
}
