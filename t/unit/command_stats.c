/* SPDX-License-Identifier: BSD-3-Clause */
/* The statistics that are printed, and the counts behind them. */
#include "config.h"

#include "t/unit/command_client.h"

/* All keys of memcached 1.5.19, in order; a key of some servers begins with the letter of its
 * condition: m maxconns_fast, r slab_reassign, c lru_crawler, s segmented, i idle_timeout. */
static const char *const names[] = {
    " pid",
    " uptime",
    " time",
    " version",
    " libevent",
    " pointer_size",
    " rusage_user",
    " rusage_system",
    " max_connections",
    " curr_connections",
    " total_connections",
    "mrejected_connections",
    " connection_structures",
    " reserved_fds",
    " cmd_get",
    " cmd_set",
    " cmd_flush",
    " cmd_touch",
    " cmd_meta",
    " get_hits",
    " get_misses",
    " get_expired",
    " get_flushed",
    " delete_misses",
    " delete_hits",
    " incr_misses",
    " incr_hits",
    " decr_misses",
    " decr_hits",
    " cas_misses",
    " cas_hits",
    " cas_badval",
    " touch_hits",
    " touch_misses",
    " auth_cmds",
    " auth_errors",
    "iidle_kicks",
    " bytes_read",
    " bytes_written",
    " limit_maxbytes",
    " accepting_conns",
    " listen_disabled_num",
    " time_in_listen_disabled_us",
    " threads",
    " conn_yields",
    " hash_power_level",
    " hash_bytes",
    " hash_is_expanding",
    "rslab_reassign_rescues",
    "rslab_reassign_chunk_rescues",
    "rslab_reassign_evictions_nomem",
    "rslab_reassign_inline_reclaim",
    "rslab_reassign_busy_items",
    "rslab_reassign_busy_deletes",
    "rslab_reassign_running",
    "rslabs_moved",
    "clru_crawler_running",
    "clru_crawler_starts",
    "slru_maintainer_juggles",
    " malloc_fails",
    " log_worker_dropped",
    " log_worker_written",
    " log_watcher_skipped",
    " log_watcher_sent",
    " bytes",
    " curr_items",
    " total_items",
    " slab_global_page_pool",
    " expired_unfetched",
    " evicted_unfetched",
    "sevicted_active",
    " evictions",
    " reclaimed",
    " crawler_reclaimed",
    " crawler_items_checked",
    " lrutail_reflocked",
    "smoves_to_cold",
    "smoves_to_warm",
    "smoves_within_lru",
    "sdirect_reclaims",
    "slru_bumps_dropped",
};

static bool shown(const struct server *server, char condition)
{
    const struct command_config *config = &server->config;

    switch (condition) {
    case 'm':
        return config->maxconns_fast;
    case 'r':
        return config->slab_reassign;
    case 'c':
        return server->crawler;
    case 's':
        return config->lru_segmented;
    case 'i':
        return config->idle_timeout;
    default:
        return true;
    }
}

/* Whether the statistics have exactly the expected names, in order, and how many. */
static bool names_come_in_order(struct server *server, int *count)
{
    const char *at = ask(server, "stats\r\n");
    char key[128];

    *count = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        if (!shown(server, names[i][0]))
            continue;
        if (sscanf(at, "STAT %127s", key) != 1 || strcmp(key, names[i] + 1) != 0) {
            diag("%s instead of %s", key, names[i] + 1);
            return false;
        }
        at = strstr(at, "\r\n") + 2;
        ++*count;
    }
    return strcmp(at, "END\r\n") == 0;
}

static void plain_stats_are_those_of_memcached(void)
{
    struct store_config store;
    struct server server;
    int count;

    server_defaults(&server, &store);
    server_start(&server, &store);
    ok(names_come_in_order(&server, &count) && count == 80, "80 names by default, in order");
    server.config.idle_timeout = true;
    server_stop(&server);

    server_defaults(&server, &store);
    server.crawler = server.config.lru_segmented = store.tuning.lru_segmented = false;
    server_start(&server, &store);
    ok(names_come_in_order(&server, &count) && count == 71,
       "71 names without crawler and maintainer");
    server_stop(&server);

    server_defaults(&server, &store);
    server.crawler = server.config.lru_segmented = store.tuning.lru_segmented = false;
    server.config.slab_reassign = server.config.maxconns_fast = false;
    server_start(&server, &store);
    ok(names_come_in_order(&server, &count) && count == 62,
       "62 names without the options of 'modern'");
    server_stop(&server);
}

/* The number of a name in the statistics of this kind; -1: there is no such name. */
static long long number(struct server *server, const char *kind, const char *name)
{
    char wanted[128];
    const char *at;

    snprintf(wanted, sizeof(wanted), "stats %s\r\n", kind);
    ask(server, wanted);
    snprintf(wanted, sizeof(wanted), "STAT %s ", name);
    at = strstr(server->out, wanted);
    return at ? atoll(at + strlen(wanted)) : -1;
}

/* The increase of plain statistics by a dialogue: pairs of names and numbers. */
static const struct {
    const char *send;
    struct {
        const char *name;
        long long n;
    } adds[5];
} deltas[] = {
    {"set k 0 0 1\r\n5\r\n", {{"cmd_set", 1}, {"total_items", 1}, {"curr_items", 1}}},
    {"get k\r\n", {{"cmd_get", 1}, {"get_hits", 1}, {"get_misses", 0}}},
    {"get k nope k\r\n", {{"cmd_get", 3}, {"get_hits", 2}, {"get_misses", 1}}},
    {"gat 0 k\r\n", {{"cmd_get", 0}, {"cmd_touch", 1}, {"touch_hits", 1}, {"get_hits", 0}}},
    {"gat 0 nope\r\n", {{"cmd_get", 0}, {"cmd_touch", 1}, {"touch_misses", 1}, {"get_misses", 0}}},
    {"touch k 0\r\n", {{"cmd_touch", 1}, {"touch_hits", 1}}},
    {"touch nope 0\r\n", {{"cmd_touch", 1}, {"touch_misses", 1}}},
    {"touch k x\r\n", {{"cmd_touch", 0}}},
    {"incr k 1\r\n", {{"incr_hits", 1}, {"incr_misses", 0}, {"cmd_set", 0}}},
    {"decr k 1\r\n", {{"decr_hits", 1}}},
    {"incr nope 1\r\ndecr nope 1\r\n", {{"incr_misses", 1}, {"decr_misses", 1}}},
    {"incr k x\r\n", {{"incr_hits", 0}, {"incr_misses", 0}}},
    {"cas k 0 0 1 1000000\r\na\r\n", {{"cmd_set", 1}, {"cas_badval", 1}, {"cas_misses", 0}}},
    {"cas nope 0 0 1 1\r\na\r\n", {{"cmd_set", 1}, {"cas_misses", 1}}},
    {"add k 0 0 1\r\na\r\n", {{"cmd_set", 1}, {"total_items", 0}}},
    {"replace nope 0 0 1\r\na\r\n", {{"cmd_set", 1}, {"total_items", 0}}},
    {"append nope 0 0 1\r\na\r\n", {{"cmd_set", 1}, {"total_items", 0}}},
    {"append k 0 0 1\r\n5\r\n", {{"cmd_set", 1}, {"bytes", 1}}},
    {"set k 0 0 1\r\nabcd\r\n", {{"cmd_set", 1}, {"total_items", 0}}},
    {"set k 0 0 a\r\n", {{"cmd_set", 0}}},
    {"delete k\r\n", {{"delete_hits", 1}, {"curr_items", -1}}},
    {"delete k\r\n", {{"delete_misses", 1}, {"delete_hits", 0}}},
    {"flush_all 10000\r\n", {{"cmd_flush", 1}}},
    {"flush_all x\r\n", {{"cmd_flush", 1}}},
    {"flush_all 1 2 3\r\n", {{"cmd_flush", 0}}},
    {"flush_all\r\n", {{"cmd_flush", 1}}},
};

static void check_delta(struct server *server, size_t row)
{
    long long before[5];

    for (int i = 0; i < 5 && deltas[row].adds[i].name; i++)
        before[i] = number(server, "", deltas[row].adds[i].name);
    ask(server, deltas[row].send);
    for (int i = 0; i < 5 && deltas[row].adds[i].name; i++) {
        long long after = number(server, "", deltas[row].adds[i].name);

        ok(after - before[i] == deltas[row].adds[i].n, "%.*s adds %lld to %s",
           (int)strcspn(deltas[row].send, "\r"), deltas[row].send, deltas[row].adds[i].n,
           deltas[row].adds[i].name);
    }
}

static void commands_are_counted(struct server *server)
{
    for (size_t i = 0; i < COUNT(deltas); i++)
        check_delta(server, i);
    ask(server, "stats reset\r\n");
    ok(number(server, "", "cmd_set") == 0 && number(server, "", "cmd_flush") == 0 &&
           number(server, "", "get_hits") == 0 && server->nresets == 1,
       "stats reset sets the counters to zero");
    ask(server, "flush_all x\r\nset k 0 0 1\r\nabcd\r\n");
    ok(number(server, "", "cmd_flush") == 1 && number(server, "", "cmd_set") == 1,
       "after a reset counting begins at zero");
}

static void hits_of_the_kernel_are_counted(struct server *server)
{
    ask(server, "set k 0 0 1\r\nx\r\nget k\r\nget nope\r\n");
    server->kernel.count[MC_COUNT_KEYS] = 100;
    server->kernel.count[MC_COUNT_HITS] = 70;
    server->kernel.count[MC_COUNT_MISSES] = 30;
    server->kernel.count[MC_COUNT_BYTES_READ] = 5000;
    server->kernel.count[MC_COUNT_BYTES_WRITTEN] = 7000;
    server->kernel.class_hits[1] = 70;
    ok(number(server, "", "cmd_get") == 102, "gets that the kernel answered count in cmd_get");
    ok(number(server, "", "get_hits") == 71, "its hits count in get_hits");
    ok(number(server, "", "get_misses") == 31, "its misses count in get_misses");
    ok(number(server, "", "bytes_read") == 6000, "its requests count in bytes_read");
    ok(number(server, "", "bytes_written") == 9000, "its replies count in bytes_written");
    ok(number(server, "slabs", "1:get_hits") == 71, "its hits count in the class's get_hits");
}

static void classes_are_shown(struct server *server)
{
    ok(strcmp(ask(server, "stats items\r\n"), "END\r\n") == 0,
       "without items stats items has no lines");
    ask(server, "set k 0 0 1\r\nx\r\nget k\r\n");
    ok(number(server, "items", "items:1:number") == 1, "stats items counts the items");
    ok(number(server, "items", "items:1:mem_requested") > 0, "stats items has the items' bytes");
    ok(number(server, "items", "items:1:number_hot") == 1,
       "stats items has the items by LRU segment");
    ok(number(server, "items", "items:1:number_temp") == -1,
       "stats items omits the temporary segment, which is off");
    ok(number(server, "slabs", "1:chunk_size") == 88, "stats slabs shows the chunk size");
    ok(number(server, "slabs", "1:used_chunks") == 1, "stats slabs shows the chunks in use");
    ok(number(server, "slabs", "1:cmd_set") == 1 && number(server, "slabs", "1:get_hits") == 1,
       "stats slabs shows the commands by class");
    ok(number(server, "slabs", "active_slabs") == 1,
       "stats slabs shows the number of classes in use");
    ok(number(server, "slabs", "total_malloced") >= 1 << 20, "stats slabs shows the total memory");
}

static void values_have_their_form(struct server *server)
{
    unsigned long long seconds;
    char micro[16];

    ask(server, "stats\r\n");
    ok(strstr(server->out, "STAT version " PACKAGE_VERSION "\r\n") != NULL,
       "version is this program's");
    ok(strstr(server->out, "STAT pointer_size 64\r\n") != NULL, "pointer_size is in bits");
    ok(strstr(server->out, "STAT rusage_user ") &&
           sscanf(strstr(server->out, "STAT rusage_user "), "STAT rusage_user %llu.%15[0-9]",
                  &seconds, micro) == 2 &&
           strlen(micro) == 6,
       "rusage has six decimals");
    ok(strstr(server->out, "STAT hash_is_expanding 0\r\n") != NULL, "a flag is 0 or 1");
    ok(strstr(server->out, "STAT accepting_conns 1\r\n") != NULL, "another flag is 1");
    ok(number(server, "", "limit_maxbytes") == 64 << 20, "limit_maxbytes is -m");
    ok(number(server, "", "uptime") == server->now, "uptime counts from the clock's start");
    ask(server, "cache_memlimit 128\r\n");
    ok(number(server, "", "limit_maxbytes") == 128 << 20, "cache_memlimit changes limit_maxbytes");
}

static void counts_of_threads_add_up(struct server *server)
{
    struct command_local *first, *second;

    first = server->local;
    second = command_local_new(server->commands);
    ask(server, "flush_all x\r\nget nope\r\n");
    server->local = second;
    ask(server, "flush_all x\r\nget nope\r\n");
    ok(number(server, "", "cmd_flush") == 2 && number(server, "", "cmd_get") == 2,
       "the counts of two threads are added");
    server->local = first;
    command_local_free(second);
    ok(number(server, "", "cmd_flush") == 2 && number(server, "", "cmd_get") == 2,
       "the counts of a thread that ended remain");
}

int main(void)
{
    plain_stats_are_those_of_memcached();
    with_server(commands_are_counted);
    with_server(hits_of_the_kernel_are_counted);
    with_server(classes_are_shown);
    with_server(values_have_their_form);
    with_server(counts_of_threads_add_up);
    return done();
}
