/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call: what the files of this folder share: the command that is being executed, and the state that
 * it works on.
 */
#ifndef COMMAND_CALL_H
#define COMMAND_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "command/bypass.h"
#include "command/command.h"
#include "command/logger.h"
#include "command/prefix.h"
#include "store/store_items.h"

/* Events that only this layer counts. Written by the owner, read by any thread, relaxed. */
struct command_counts {
    uint64_t flush_refused; /* text flush_all commands that were refused */
    uint64_t meta_cmds;     /* me: memcached counts no other meta command here */
    uint64_t auth_cmds, auth_errors;
};

struct command_local {
    struct commands *commands;
    struct store_local *store;
    struct command_counts counts;
    struct ring *events; /* for the logger */
    struct command_local *next;
};

struct commands {
    struct store *store;
    struct command_config config;
    struct command_server server;
    pthread_mutex_t lock; /* of the list and of retired; a leaf */
    struct command_local *locals;
    struct command_counts retired; /* sums of freed locals */
    struct logger logger;
    struct bypass bypasses[COMMAND_HOLDS]; /* by enum bypass_reason */
    bool detail;                           /* `stats detail` counts prefixes; atomic */
    struct prefixes *prefixes;
    struct sasl *sasl;         /* of -S, or NULL */
    struct authfile *authfile; /* of -Y, or NULL */
};

/* One command. */
struct call {
    struct command_local *local;
    const struct request *request;
    struct command_client *client;
    rel_time now;
    struct reply *reply;
    struct command_pending *pending;
    struct reply_mark start; /* where the answer starts */
};

typedef enum command_next command_handler(struct call *call);

/* retrieve.c */
command_handler command_get, command_gets, command_gat, command_gats;
/* storage.c */
command_handler command_store;
/* Reserves the item and makes it pending, with `ntail` bytes behind the value. Any protocol. */
enum store_result storage_begin(struct call *call, size_t ntail);
/* store_commit_on, with the events of `watch`. */
enum store_result storage_commit(struct command_local *local, int fd, struct mc_item *item,
                                 const struct store_terms *terms, rel_time now, uint64_t *cas);
/* Stores the pending item. */
enum store_result storage_end(struct command_local *local, struct command_pending *pending,
                              rel_time now, uint64_t *cas);
/* change.c */
command_handler command_touch, command_delete, command_incr, command_decr;
/* admin.c */
command_handler command_flush_all, command_cache_memlimit, command_version, command_verbosity,
    command_quit, command_http, command_shutdown, command_refresh_certs, command_bmc;
/*
 * flush_all with the wire's `delay`. As in memcached, it takes effect one second before the named
 * one begins: `flush_all 1` at once.
 */
void call_flush(struct call *call, int64_t delay);
/* lru.c, crawler.c */
command_handler command_lru, command_lru_crawler;
/* slabs.c */
command_handler command_slabs;
/* meta.c */
command_handler command_meta_get, command_meta_set, command_meta_delete, command_meta_arith,
    command_meta_noop, command_meta_debug;
/* Stores the complete value of ms, and answers. */
void command_meta_store(struct command_local *local, struct command_pending *pending, rel_time now,
                        struct reply *reply);
/* watch.c */
command_handler command_watch;
/* flash.c */
command_handler command_extstore;
/* stats.c */
command_handler command_stats;
void stats_reset(struct commands *commands);
/* detail.c: `stats detail` and `stats cachedump` */
command_handler command_stats_detail, command_stats_cachedump;
/* Counts the key's prefix. Called by detail_count only. */
void detail_count_now(struct commands *commands, struct slice key, enum prefix_event event);
/* Switches the counting on or off. client: the connection that asks for it, NULL at the start. */
void detail_set(struct commands *commands, struct command_client *client, bool on);
/* Adds the counts to the reply: a line for each prefix, and END. */
void detail_dump(struct commands *commands, struct reply *reply);

/* Adds bytes of an item: reply_bytes while the reply holds the item, else reply_copy. */
typedef void add_function(struct reply *reply, struct slice bytes);
/* Adds the item to the reply in its wire format, its bytes through `add`. */
typedef void item_function(struct call *call, const struct mc_item *item, add_function *add);
/*
 * Adds the item to the reply and takes over the caller's reference. If its value is lost on flash,
 * the item is left out of the reply; with `miss`, that answer replaces everything that the command
 * has added. retrieve.c
 */
void call_add_item(struct call *call, struct mc_item *item, item_function *add_item,
                   command_handler *miss);
/* call_add_item for an item on flash. load.c */
void call_add_flash_item(struct call *call, struct mc_item *item, item_function *add_item,
                         command_handler *miss);
/* Value and tail. retrieve.c */
item_function call_add_value;

/* binary.c: runs a binary request, finishes one whose value is complete, answers an error. */
enum command_next binary_run(struct call *call);
enum command_next binary_finish(struct command_local *local, struct command_pending *pending,
                                rel_time now, struct reply *reply);
void binary_error(struct reply *reply, struct binary_id id, enum binary_status status);
/* Adds an answer with a value, which is copied. */
void binary_answer(struct reply *reply, struct binary_id id, enum binary_status status,
                   struct slice value);
/* Swallows the value, so that the next request is found; then answers the status. */
enum command_next binary_swallow(struct call *call, enum binary_status status);

/*
 * auth.c: requests of an unauthenticated client; the SASL commands; the value that they wait for.
 */
enum command_next auth_run(struct call *call);
enum command_next auth_sasl(struct call *call);
size_t auth_room(struct command_pending *pending, char **ptr);
enum command_next auth_finish(struct command_local *local, struct command_client *client,
                              struct command_pending *pending, struct reply *reply);
void auth_abandon(struct command_pending *pending);
void auth_free(struct commands *commands);

/* Swallows the value, then answers `error`. storage.c */
enum command_next call_swallow(struct call *call, struct slice error);
/*
 * call_swallow for a value that could not be reserved: also deletes the item that it should have
 * replaced.
 */
enum command_next call_refuse(struct call *call, struct slice key, enum store_result result);

/* Adds the answer, unless noreply suppresses it. */
static inline enum command_next answer(struct call *call, struct slice text)
{
    if (!call->request->noreply)
        reply_bytes(call->reply, text);
    return COMMAND_DONE;
}

static inline void count_one(uint64_t *counter)
{
    __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

static inline rel_time call_expiry(const struct call *call, int64_t exptime)
{
    return clock_expiry(&call->local->commands->config.clock, exptime, call->now);
}

/* Called for each get, set and delete of text and binary clients, as in memcached. */
static inline void detail_count(const struct call *call, struct slice key, enum prefix_event event)
{
    struct commands *commands = call->local->commands;

    if (__builtin_expect(__atomic_load_n(&commands->detail, __ATOMIC_RELAXED), 0))
        detail_count_now(commands, key, event);
}

/* The sum of all threads' counts. */
void command_counts_sum(struct commands *commands, struct command_counts *out);
void command_counts_reset(struct commands *commands);

#endif
