/* SPDX-License-Identifier: BSD-3-Clause */
/* general: `stats`. The names and their order are memcached 1.5.19's. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "command/call.h"
#include "command/stat.h"
#include "config.h"
#include "store/store_flash.h"
#include "store/store_stats.h"

struct general {
    uint64_t pid, uptime, time, pointer_size, max_connections, threads;
    uint64_t cmd_get, cmd_set, cmd_flush, cmd_meta, get_hits, get_misses;
    uint64_t auth_cmds, auth_errors;
    struct logger_counts log;
    uint64_t bytes_read, bytes_written;
    struct store_class_counts sum; /* of all classes */
    const char *version, *rusage_user, *rusage_system;
    char user[32], system[32];
    struct store_stats store;
    struct store_flash_stats flash;
    struct command_net_stats net;
};

/* The initializers of a row. */
#define ROW(name, type, field)  name, offsetof(struct general, field), STAT_##type, 0
#define WHEN(name, field, when) name, offsetof(struct general, field), STAT_U64, WHEN_##when

static const struct stat_row rows[] = {
    {ROW("pid", U64, pid)},
    {ROW("uptime", U64, uptime)},
    {ROW("time", U64, time)},
    {ROW("version", TEXT, version)},
    {ROW("libevent", TEXT, net.libevent)},
    {ROW("pointer_size", U64, pointer_size)},
    {ROW("rusage_user", TEXT, rusage_user)},
    {ROW("rusage_system", TEXT, rusage_system)},
    {ROW("max_connections", U64, max_connections)},
    {ROW("curr_connections", U64, net.curr_connections)},
    {ROW("total_connections", U64, net.total_connections)},
    {WHEN("rejected_connections", net.rejected_connections, MAXCONNS_FAST)},
    {ROW("connection_structures", U64, net.connection_structures)},
    {ROW("reserved_fds", U64, net.reserved_fds)},
    {ROW("cmd_get", U64, cmd_get)},
    {ROW("cmd_set", U64, cmd_set)},
    {ROW("cmd_flush", U64, cmd_flush)},
    {ROW("cmd_touch", U64, store.counts.touch_cmds)},
    {ROW("cmd_meta", U64, cmd_meta)},
    {ROW("get_hits", U64, get_hits)},
    {ROW("get_misses", U64, get_misses)},
    {ROW("get_expired", U64, store.counts.get_expired)},
    {ROW("get_flushed", U64, store.counts.get_flushed)},
    {WHEN("get_extstore", store.counts.get_extstore, FLASH)},
    {WHEN("get_aborted_extstore", store.counts.get_aborted_extstore, FLASH)},
    {WHEN("get_oom_extstore", store.counts.get_oom_extstore, FLASH)},
    {WHEN("recache_from_extstore", store.counts.recache_from_extstore, FLASH)},
    {WHEN("miss_from_extstore", store.counts.miss_from_extstore, FLASH)},
    {WHEN("badcrc_from_extstore", store.counts.badcrc_from_extstore, FLASH)},
    {ROW("delete_misses", U64, store.counts.delete_misses)},
    {ROW("delete_hits", U64, sum.delete_hits)},
    {ROW("incr_misses", U64, store.counts.incr_misses)},
    {ROW("incr_hits", U64, sum.incr_hits)},
    {ROW("decr_misses", U64, store.counts.decr_misses)},
    {ROW("decr_hits", U64, sum.decr_hits)},
    {ROW("cas_misses", U64, store.counts.cas_misses)},
    {ROW("cas_hits", U64, sum.cas_hits)},
    {ROW("cas_badval", U64, sum.cas_badval)},
    {ROW("touch_hits", U64, sum.touch_hits)},
    {ROW("touch_misses", U64, store.counts.touch_misses)},
    {ROW("auth_cmds", U64, auth_cmds)},
    {ROW("auth_errors", U64, auth_errors)},
    {WHEN("idle_kicks", net.idle_kicks, IDLE_TIMEOUT)},
    {ROW("bytes_read", U64, bytes_read)},
    {ROW("bytes_written", U64, bytes_written)},
    {ROW("limit_maxbytes", U64, store.memory_limit)},
    {ROW("accepting_conns", BOOL, net.accepting_conns)},
    {ROW("listen_disabled_num", U64, net.listen_disabled_num)},
    {ROW("time_in_listen_disabled_us", U64, net.time_in_listen_disabled_us)},
    {ROW("threads", U64, threads)},
    {ROW("conn_yields", U64, net.conn_yields)},
    {ROW("hash_power_level", U32, store.hash_power_level)},
    {ROW("hash_bytes", U64, store.hash_bytes)},
    {ROW("hash_is_expanding", BOOL, store.hash_is_expanding)},
    {WHEN("slab_reassign_rescues", store.slab_reassign_rescues, SLAB_REASSIGN)},
    {WHEN("slab_reassign_chunk_rescues", store.slab_reassign_chunk_rescues, SLAB_REASSIGN)},
    {WHEN("slab_reassign_evictions_nomem", store.slab_reassign_evictions_nomem, SLAB_REASSIGN)},
    {WHEN("slab_reassign_inline_reclaim", store.slab_reassign_inline_reclaim, SLAB_REASSIGN)},
    {WHEN("slab_reassign_busy_items", store.slab_reassign_busy_items, SLAB_REASSIGN)},
    {WHEN("slab_reassign_busy_deletes", store.slab_reassign_busy_deletes, SLAB_REASSIGN)},
    {"slab_reassign_running", offsetof(struct general, store.slab_reassign_running), STAT_BOOL,
     WHEN_SLAB_REASSIGN},
    {WHEN("slabs_moved", store.slabs_moved, SLAB_REASSIGN)},
    {"lru_crawler_running", offsetof(struct general, store.lru_crawler_running), STAT_BOOL,
     WHEN_LRU_CRAWLER},
    {WHEN("lru_crawler_starts", store.lru_crawler_starts, LRU_CRAWLER)},
    {WHEN("lru_maintainer_juggles", store.lru_maintainer_juggles, SEGMENTED)},
    {ROW("malloc_fails", U64, store.malloc_fails)},
    {ROW("log_worker_dropped", U64, log.worker_dropped)},
    {ROW("log_worker_written", U64, log.worker_written)},
    {ROW("log_watcher_skipped", U64, log.watcher_skipped)},
    {ROW("log_watcher_sent", U64, log.watcher_sent)},
    {WHEN("extstore_compact_lost", flash.compact_lost, FLASH)},
    {WHEN("extstore_compact_rescues", flash.compact_rescues, FLASH)},
    {WHEN("extstore_compact_skipped", flash.compact_skipped, FLASH)},
    {WHEN("extstore_page_allocs", flash.files.page_allocs, FLASH)},
    {WHEN("extstore_page_evictions", flash.files.page_evictions, FLASH)},
    {WHEN("extstore_page_reclaims", flash.files.page_reclaims, FLASH)},
    {WHEN("extstore_pages_free", flash.files.pages_free, FLASH)},
    {WHEN("extstore_pages_used", flash.files.pages_used, FLASH)},
    {WHEN("extstore_objects_evicted", flash.files.objects_evicted, FLASH)},
    {WHEN("extstore_objects_read", flash.files.objects_read, FLASH)},
    {WHEN("extstore_objects_written", flash.files.objects_written, FLASH)},
    {WHEN("extstore_objects_used", flash.files.objects_used, FLASH)},
    {WHEN("extstore_bytes_evicted", flash.files.bytes_evicted, FLASH)},
    {WHEN("extstore_bytes_written", flash.files.bytes_written, FLASH)},
    {WHEN("extstore_bytes_read", flash.files.bytes_read, FLASH)},
    {WHEN("extstore_bytes_used", flash.files.bytes_used, FLASH)},
    {WHEN("extstore_bytes_fragmented", flash.files.bytes_fragmented, FLASH)},
    {WHEN("extstore_limit_maxbytes", flash.files.limit_maxbytes, FLASH)},
    {WHEN("extstore_io_queue", flash.files.io_queue, FLASH)},
    {WHEN("time_since_server_cert_refresh", net.tls.since_refresh, TLS)},
    {ROW("bytes", U64, store.bytes)},
    {ROW("curr_items", U64, store.curr_items)},
    {ROW("total_items", U64, store.total_items)},
    {ROW("slab_global_page_pool", U64, store.slab_global_page_pool)},
    {ROW("expired_unfetched", U64, store.expired_unfetched)},
    {ROW("evicted_unfetched", U64, store.evicted_unfetched)},
    {WHEN("evicted_active", store.evicted_active, SEGMENTED)},
    {ROW("evictions", U64, store.evictions)},
    {ROW("reclaimed", U64, store.reclaimed)},
    {ROW("crawler_reclaimed", U64, store.crawler_reclaimed)},
    {ROW("crawler_items_checked", U64, store.crawler_items_checked)},
    {ROW("lrutail_reflocked", U64, store.lrutail_reflocked)},
    {WHEN("moves_to_cold", store.moves_to_cold, SEGMENTED)},
    {WHEN("moves_to_warm", store.moves_to_warm, SEGMENTED)},
    {WHEN("moves_within_lru", store.moves_within_lru, SEGMENTED)},
    {WHEN("direct_reclaims", store.direct_reclaims, SEGMENTED)},
    {WHEN("lru_bumps_dropped", store.lru_bumps_dropped, SEGMENTED)},
};

static void sum_classes(const struct store_counts *counts, struct store_class_counts *sum)
{
    size_t i;

    for (i = 0; i < MC_CLASSES; i++) {
        const struct store_class_counts *class = &counts->classes[i];

        sum->set_cmds += class->set_cmds;
        sum->get_hits += class->get_hits;
        sum->touch_hits += class->touch_hits;
        sum->delete_hits += class->delete_hits;
        sum->incr_hits += class->incr_hits;
        sum->decr_hits += class->decr_hits;
        sum->cas_hits += class->cas_hits;
        sum->cas_badval += class->cas_badval;
    }
}

static const char *seconds(char *text, size_t size, const struct timeval *time)
{
    snprintf(text, size, "%lld.%06ld", (long long)time->tv_sec, (long)time->tv_usec);
    return text;
}

/* Requests that the kernel answered count as the server's. */
static void count_commands(struct general *general, struct commands *commands)
{
    const struct command_server *server = &commands->server;
    const struct store_counts *counts = &general->store.counts;
    struct command_counts own;
    struct mc_counts kernel = {0};

    if (server->kernel_counts)
        server->kernel_counts(server->context, &kernel);
    command_counts_sum(commands, &own);
    sum_classes(counts, &general->sum);
    general->cmd_get = counts->get_cmds + kernel.count[MC_COUNT_KEYS];
    general->cmd_set = general->sum.set_cmds;
    general->cmd_flush = counts->flush_cmds + own.flush_refused;
    general->cmd_meta = own.meta_cmds;
    general->auth_cmds = own.auth_cmds;
    general->auth_errors = own.auth_errors;
    general->get_hits = general->sum.get_hits + kernel.count[MC_COUNT_HITS];
    general->get_misses = counts->get_misses + kernel.count[MC_COUNT_MISSES];
    general->bytes_read = general->net.bytes_read + kernel.count[MC_COUNT_BYTES_READ];
    general->bytes_written = general->net.bytes_written + kernel.count[MC_COUNT_BYTES_WRITTEN];
}

void stat_general(struct call *call, struct stat_sink *sink)
{
    struct commands *commands = call->local->commands;
    const struct command_config *config = &commands->config;
    struct general general = {
        .pid = (uint64_t)getpid(),
        .uptime = call->now,
        .time = (uint64_t)config->clock.base_unix + call->now,
        .pointer_size = 8 * sizeof(void *),
        .max_connections = config->max_connections,
        .threads = config->nthreads,
        .version = PACKAGE_VERSION,
    };
    struct rusage usage = {0};

    getrusage(RUSAGE_SELF, &usage);
    general.rusage_user = seconds(general.user, sizeof(general.user), &usage.ru_utime);
    general.rusage_system = seconds(general.system, sizeof(general.system), &usage.ru_stime);
    commands->server.net_stats(commands->server.context, &general.net);
    if (!general.net.libevent)
        general.net.libevent = "unknown";
    store_stats(commands->store, &general.store);
    logger_counts(&commands->logger, &general.log);
    if (config->flash)
        store_flash_stats(commands->store, &general.flash);
    count_commands(&general, commands);
    stat_rows(sink, "", rows, sizeof(rows) / sizeof(rows[0]), &general, stat_conditions(commands));
}
