/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call: what the files of this folder share: one command being executed, and the state that it
 * works on.
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

/* What only this layer sees happen. Written by the owner, read by any thread, relaxed. */
struct command_counts {
    uint64_t flush_refused; /* flush_all of text that did not reach the store */
    uint64_t meta_cmds;     /* of the meta commands memcached counts me alone */
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
    struct command_counts retired; /* of locals that are gone */
    struct logger logger;
    struct bypass bypasses[COMMAND_HOLDS]; /* by enum bypass_reason */
    bool detail;                           /* prefixes are counted; atomic */
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
    struct reply_mark start; /* of the answer */
};

typedef enum command_next command_handler(struct call *call);

/* retrieve.c */
command_handler command_get, command_gets, command_gat, command_gats;
/* storage.c */
command_handler command_store;
/* Reserves the item; what is then pending has `ntail` bytes behind the value. Any protocol. */
enum store_result storage_begin(struct call *call, size_t ntail);
/* Stores the pending item. */
enum store_result storage_end(struct command_local *local, struct command_pending *pending,
                              rel_time now, uint64_t *cas);
/* change.c */
command_handler command_touch, command_delete, command_incr, command_decr;
/* admin.c */
command_handler command_flush_all, command_cache_memlimit, command_version, command_verbosity,
    command_quit, command_shutdown, command_refresh_certs;
/*
 * flush_all with the wire's `delay`. As memcached does, it takes effect when the second before the
 * one that is named begins: `flush_all 1` at once.
 */
void call_flush(struct call *call, int64_t delay);
/* lru.c, crawler.c */
command_handler command_lru, command_lru_crawler;
/* slabs.c */
command_handler command_slabs;
/* meta.c */
command_handler command_meta_get, command_meta_set, command_meta_delete, command_meta_arith,
    command_meta_noop, command_meta_debug;
/* Stores the value of ms, which is complete, and answers. */
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
/* Counts the key's prefix, which only detail_count should call. */
void detail_count_now(struct commands *commands, struct slice key, enum prefix_event event);
/* Switches the counting. client: who asks for it, NULL at the start. */
void detail_set(struct commands *commands, struct command_client *client, bool on);
/* Copies what was counted, a line for each prefix and END, to the reply. */
void detail_dump(struct commands *commands, struct reply *reply);

/* Bytes of an item: reply_bytes while the reply holds it, else reply_copy. */
typedef void add_function(struct reply *reply, struct slice bytes);
/* Adds to the reply what an item is on the wire; its bytes through `add`. */
typedef void item_function(struct call *call, const struct mc_item *item, add_function *add);
/*
 * Adds the item to the reply and takes over the caller's hold on it. If its value is lost on flash
 * there is nothing in its place, or with `miss` that answer instead of all that the command has
 * added. retrieve.c
 */
void call_add_item(struct call *call, struct mc_item *item, item_function *add_item,
                   command_handler *miss);
/* The same, of an item on flash. load.c */
void call_add_flash_item(struct call *call, struct mc_item *item, item_function *add_item,
                         command_handler *miss);
/* Value and tail. retrieve.c */
item_function call_add_value;

/* binary.c: a request of the binary protocol, a value that is there, memory that is not. */
enum command_next binary_run(struct call *call);
enum command_next binary_finish(struct command_local *local, struct command_pending *pending,
                                rel_time now, struct reply *reply);
void binary_error(struct reply *reply, struct binary_id id, enum binary_status status);
/* An answer with a value, which is copied. */
void binary_answer(struct reply *reply, struct binary_id id, enum binary_status status,
                   struct slice value);
/* What follows is swallowed, so that the next request is found; then the status is the answer. */
enum command_next binary_swallow(struct call *call, enum binary_status status);

/* auth.c: a client that is not let in yet; the SASL commands; the value that they wait for. */
enum command_next auth_run(struct call *call);
enum command_next auth_sasl(struct call *call);
size_t auth_room(struct command_pending *pending, char **ptr);
enum command_next auth_finish(struct command_local *local, struct command_client *client,
                              struct command_pending *pending, struct reply *reply);
void auth_abandon(struct command_pending *pending);
void auth_free(struct commands *commands);

/* The value that follows is swallowed, and then this is the answer. storage.c */
enum command_next call_swallow(struct call *call, struct slice error);
/* The same for a value that could not be reserved: what it was to replace goes too. */
enum command_next call_refuse(struct call *call, struct slice key, enum store_result result);

/* The answer, unless none is wanted. */
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

/* For each get, set and delete of text and binary clients, as memcached has it. */
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
