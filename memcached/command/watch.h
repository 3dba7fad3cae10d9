/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch: the events that the commands emit for `watch`. With no watcher, each call costs one load.
 */
#ifndef COMMAND_WATCH_H
#define COMMAND_WATCH_H

#include "command/call.h"

static inline bool watched(const struct command_local *local, uint32_t classes)
{
    return logger_wants(&local->commands->logger, classes);
}

/* FETCHERS: a get has found this item; NULL: nothing. */
void watch_fetched_now(const struct call *call, struct slice key, const struct mc_item *item);
static inline void watch_fetched(const struct call *call, struct slice key,
                                 const struct mc_item *item)
{
    if (watched(call->local, COMMAND_WATCH_FETCHERS))
        watch_fetched_now(call, key, item);
}

/* The item of a key before a verb changes it. */
struct watch_before {
    bool looked; /* there is a watcher */
    bool found;
    unsigned int clsid;
    uint32_t nvalue;
};
enum { WATCH_CHANGES = COMMAND_WATCH_FETCHERS | COMMAND_WATCH_MUTATIONS | COMMAND_WATCH_DELETIONS };

/* FETCHERS: memcached looks a key up before it changes it, and emits an event for that. */
struct watch_before watch_look_now(const struct call *call, struct slice key);
static inline struct watch_before watch_look(const struct call *call, struct slice key)
{
    return watched(call->local, WATCH_CHANGES) ? watch_look_now(call, key)
                                               : (struct watch_before){0};
}
/* DELETIONS: by the verb `command`. */
void watch_deleted_now(const struct call *call, struct slice key, const struct watch_before *before,
                       const char *command);
static inline void watch_deleted(const struct call *call, struct slice key,
                                 const struct watch_before *before, const char *command)
{
    if (__builtin_expect(before->looked, 0))
        watch_deleted_now(call, key, before, command);
}
/* MUTATIONS: incr and decr emit only if the number was created. */
void watch_arith_now(const struct call *call, struct slice key, const struct watch_before *before,
                     enum store_result result);
static inline void watch_arith(const struct call *call, struct slice key,
                               const struct watch_before *before, enum store_result result)
{
    if (__builtin_expect(before->looked, 0))
        watch_arith_now(call, key, before, result);
}

/* MUTATIONS and FETCHERS: an item that is being stored, from before to after. */
enum { WATCH_STORES = COMMAND_WATCH_FETCHERS | COMMAND_WATCH_MUTATIONS };
struct watch_store {
    char bytes[PROTO_KEY_MAX];
    struct slice key;
    unsigned int clsid;
    rel_time expiry;
};
void watch_storing(struct command_local *local, int fd, const struct mc_item *item, rel_time now,
                   struct watch_store *out);
void watch_stored(struct command_local *local, int fd, struct watch_store *stored,
                  enum store_mode mode, enum store_result result, rel_time now);
/* MUTATIONS: there was no room for the value. */
void watch_refused_now(const struct call *call, struct slice key, enum store_result result);
static inline void watch_refused(const struct call *call, struct slice key,
                                 enum store_result result)
{
    if (watched(call->local, COMMAND_WATCH_MUTATIONS))
        watch_refused_now(call, key, result);
}

/* Emits the store's events too. */
void watch_events(struct commands *commands);

#endif
