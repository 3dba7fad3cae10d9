/* SPDX-License-Identifier: BSD-3-Clause */
/* detail: `stats detail`, counts of key prefixes, and `stats cachedump`, keys of a slab class. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/num.h"
#include "command/call.h"
#include "store/store_list.h"

enum { DUMP_MAX = 2 << 20 }; /* bytes of one answer to cachedump */

/* --- stats detail -------------------------------------------------------- */

void detail_count_now(struct commands *commands, struct slice key, enum prefix_event event)
{
    if (!prefixes_count(commands->prefixes, key, event))
        log_write(
            "stats detail: the limit of %d prefixes is reached; further prefixes are not counted",
            PREFIX_MAX);
}

/* Under the lock, so that of two concurrent switches one decides counting and bypass. */
void detail_set(struct commands *commands, struct command_client *client, bool on)
{
    pthread_mutex_lock(&commands->lock);
    bypass_switch(commands, client, BYPASS_DETAIL, on);
    __atomic_store_n(&commands->detail, on, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&commands->lock);
}

bool commands_detail(const struct commands *commands)
{
    return __atomic_load_n(&commands->detail, __ATOMIC_RELAXED);
}

void detail_dump(struct commands *commands, struct reply *reply)
{
    struct prefix prefix;
    size_t cursor = 0;

    while (!reply->failed && prefixes_next(commands->prefixes, &cursor, &prefix)) {
        reply_copy(reply, SLICE("PREFIX "));
        reply_copy(reply, (struct slice){prefix.text, prefix.len});
        reply_printf(reply, " get %" PRIu64 " hit %" PRIu64 " set %" PRIu64 " del %" PRIu64 "\r\n",
                     prefix.gets, prefix.hits, prefix.sets, prefix.deletes);
    }
    reply_copy(reply, SLICE("END\r\n"));
}

enum command_next command_stats_detail(struct call *call)
{
    struct commands *commands = call->local->commands;
    const struct request *request = call->request;
    struct slice word = request->ntokens > 2 ? request->tokens[2] : SLICE("");

    if (slice_equal(word, SLICE("dump"))) {
        detail_dump(commands, call->reply);
        return COMMAND_DONE;
    }
    if (slice_equal(word, SLICE("on")) || slice_equal(word, SLICE("off"))) {
        detail_set(commands, call->client, slice_equal(word, SLICE("on")));
        return answer(call, SLICE("OK\r\n"));
    }
    return answer(call, SLICE("CLIENT_ERROR usage: stats detail on|off|dump\r\n"));
}

/* --- stats cachedump ------------------------------------------------------ */

static int64_t unix_time(const struct clock *clock, rel_time time)
{
    return time ? clock->base_unix + time : 0;
}

/* Adds a line for each record while lines and END take at most DUMP_MAX bytes. */
static void add_lines(struct call *call, struct slice records)
{
    const struct clock *clock = &call->local->commands->config.clock;
    size_t start = call->reply->nbytes;
    struct store_listed item;

    while (store_list_next(&records, &item)) {
        char rest[64];
        int n = snprintf(rest, sizeof(rest), " [%" PRIu32 " b; %" PRId64 " s]\r\n", item.nvalue,
                         unix_time(clock, item.exptime));
        size_t nline = strlen("ITEM ") + item.key.len + (size_t)n;

        if (call->reply->nbytes - start + nline + strlen("END\r\n") > DUMP_MAX)
            break;
        reply_copy(call->reply, SLICE("ITEM "));
        reply_copy(call->reply, item.key);
        reply_copy(call->reply, (struct slice){rest, (size_t)n});
    }
}

static enum command_next dump(struct call *call, unsigned int clsid, uint64_t limit)
{
    /* A record is shorter than its line. */
    char *records = malloc(DUMP_MAX);

    if (!records) {
        call->reply->failed = true;
        return COMMAND_DONE;
    }
    add_lines(call, (struct slice){records, store_list(call->local->commands->store, clsid, limit,
                                                       call->now, records, DUMP_MAX)});
    free(records);
    return answer(call, SLICE("END\r\n"));
}

enum command_next command_stats_cachedump(struct call *call)
{
    const struct request *request = call->request;
    uint64_t clsid, limit;

    if (!call->local->commands->config.dump_enabled)
        return answer(call, SLICE("CLIENT_ERROR stats cachedump not allowed\r\n"));
    if (request->ntokens < 4)
        return answer(call, SLICE("CLIENT_ERROR bad command line\r\n"));
    if (!num_parse_u64(request->tokens[2], &clsid) || !num_parse_u64(request->tokens[3], &limit))
        return answer(call, SLICE("CLIENT_ERROR bad command line format\r\n"));
    if (clsid >= MC_CLASSES)
        return answer(call, SLICE("CLIENT_ERROR Illegal slab id\r\n"));
    return dump(call, (unsigned int)clsid, limit);
}
