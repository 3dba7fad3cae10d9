/* SPDX-License-Identifier: BSD-3-Clause */
/* storage: set, add, replace, append, prepend, cas, whose value follows the line. */
#include <assert.h>
#include <stdlib.h>

#include "command/call.h"
#include "command/watch.h"

enum { NTAIL = 2 }; /* "\r\n" */

enum command_next call_swallow(struct call *call, struct slice error)
{
    const struct request *request = call->request;

    *call->pending = (struct command_pending){
        .nleft = request->nvalue + NTAIL,
        .error = error,
        .verb = request->verb,
        .noreply = request->noreply,
    };
    return COMMAND_VALUE;
}

enum command_next call_refuse(struct call *call, struct slice key, enum store_result result)
{
    enum verb verb = call->request->verb;

    watch_refused(call, key, result);
    if (verb == VERB_SET || verb == VERB_META_SET) {
        watch_look(call, key);
        store_forget(call->local->store, key, call->now);
    }
    return call_swallow(call, result == STORE_TOO_LARGE
                                  ? SLICE("SERVER_ERROR object too large for cache\r\n")
                                  : SLICE("SERVER_ERROR out of memory storing object\r\n"));
}

enum store_result storage_begin(struct call *call, size_t ntail)
{
    const struct request *request = call->request;
    enum store_result result = STORE_NO_MEMORY;
    struct mc_item *item =
        store_reserve(call->local->store, request->key, request->client_flags,
                      call_expiry(call, request->exptime), request->nvalue, call->now, &result);

    detail_count(call, request->key, PREFIX_SET);
    if (!item)
        return result;
    *call->pending = (struct command_pending){
        .item = item,
        .nleft = request->nvalue + ntail,
        .verb = request->verb,
        .cas = request->cas,
        .fd = call->client->fd,
        .noreply = request->noreply,
    };
    return STORE_DONE;
}

enum command_next command_store(struct call *call)
{
    enum store_result result = storage_begin(call, NTAIL);

    return result == STORE_DONE ? COMMAND_VALUE : call_refuse(call, call->request->key, result);
}

/*
 * The CRLF of a text command is received over the item's tail, which has the same bytes unless the
 * value is bad.
 */
size_t command_value_room(struct command_local *local, struct command_pending *pending, char **ptr)
{
    struct slice room;

    if (!pending->item) {
        if (pending->message)
            return auth_room(pending, ptr);
        *ptr = NULL;
        return pending->nleft;
    }
    room = item_at(local->store, pending->item, pending->nfilled);
    assert(room.len > 0);
    *ptr = (char *)(uintptr_t)room.ptr;
    return room.len < pending->nleft ? room.len : pending->nleft;
}

size_t command_fill(struct command_local *local, struct command_pending *pending,
                    struct slice bytes)
{
    size_t filled = 0;

    while (pending->nleft > 0 && filled < bytes.len) {
        char *ptr;
        size_t n = command_value_room(local, pending, &ptr);

        if (n > bytes.len - filled)
            n = bytes.len - filled;
        if (ptr)
            memcpy(ptr, bytes.ptr + filled, n);
        command_value_filled(pending, n);
        filled += n;
    }
    return filled;
}

void command_value_filled(struct command_pending *pending, size_t n)
{
    assert(n <= pending->nleft);
    pending->nleft -= n;
    pending->nfilled += n;
}

static bool ends_well(const struct command_local *local, const struct command_pending *pending)
{
    size_t at = pending->nfilled - NTAIL;
    struct slice tail = item_at(local->store, pending->item, at);

    if (tail.len >= NTAIL)
        return memcmp(tail.ptr, "\r\n", NTAIL) == 0;
    return tail.ptr[0] == '\r' && item_at(local->store, pending->item, at + 1).ptr[0] == '\n';
}

static enum store_mode mode_of(enum verb verb)
{
    /* Only the storage verbs come here. */
    static const enum store_mode modes[] = {
        [VERB_SET] = STORE_SET,         [VERB_ADD] = STORE_ADD,
        [VERB_REPLACE] = STORE_REPLACE, [VERB_APPEND] = STORE_APPEND,
        [VERB_PREPEND] = STORE_PREPEND, [VERB_CAS] = STORE_CAS,
    };

    assert(verb >= VERB_SET && verb <= VERB_CAS);
    return modes[verb];
}

static struct slice stored_text(enum store_result result, enum verb verb)
{
    switch (result) {
    case STORE_DONE:
        return SLICE("STORED\r\n");
    case STORE_EXISTS:
        return SLICE("EXISTS\r\n");
    case STORE_MISS:
        return verb == VERB_CAS ? SLICE("NOT_FOUND\r\n") : SLICE("NOT_STORED\r\n");
    case STORE_NO_MEMORY:
        return SLICE("SERVER_ERROR out of memory storing object\r\n");
    case STORE_TOO_LARGE: /* together with the old value */
    case STORE_NOT_STORED:
    case STORE_NON_NUMERIC:
        break;
    }
    return SLICE("NOT_STORED\r\n");
}

/* Apart, so that a set that is not watched pays for none of its memory. */
__attribute__((noinline)) static enum store_result commit_watched(struct command_local *local,
                                                                  int fd, struct mc_item *item,
                                                                  const struct store_terms *terms,
                                                                  rel_time now, uint64_t *cas)
{
    struct watch_store watch;
    enum store_result result;

    watch_storing(local, fd, item, now, &watch);
    result = store_commit_on(local->store, item, terms, now, cas);
    watch_stored(local, fd, &watch, terms->mode, result, now);
    return result;
}

enum store_result storage_commit(struct command_local *local, int fd, struct mc_item *item,
                                 const struct store_terms *terms, rel_time now, uint64_t *cas)
{
    return watched(local, WATCH_STORES) ? commit_watched(local, fd, item, terms, now, cas)
                                        : store_commit_on(local->store, item, terms, now, cas);
}

enum store_result storage_end(struct command_local *local, struct command_pending *pending,
                              rel_time now, uint64_t *cas)
{
    const struct store_terms terms = {.mode = mode_of(pending->verb), .cas = pending->cas};
    struct mc_item *item = pending->item;

    pending->item = NULL;
    return storage_commit(local, pending->fd, item, &terms, now, cas);
}

enum command_next command_finish(struct command_local *local, struct command_client *client,
                                 struct command_pending *pending, rel_time now, struct reply *reply)
{
    struct slice text = pending->error;

    assert(pending->nleft == 0);
    if (__builtin_expect(pending->message != NULL, false))
        return auth_finish(local, client, pending, reply);
    if (pending->binary)
        return binary_finish(local, pending, now, reply);
    if (pending->item && ends_well(local, pending)) {
        if (pending->verb == VERB_META_SET) {
            command_meta_store(local, pending, now, reply);
            return reply->failed ? COMMAND_CLOSE : COMMAND_DONE;
        }
        text = stored_text(storage_end(local, pending, now, NULL), pending->verb);
    } else if (pending->item) {
        store_refuse(local->store, pending->item);
        pending->item = NULL;
        command_abandon(local, pending);
        text = SLICE("CLIENT_ERROR bad data chunk\r\n");
    }
    if (!pending->noreply)
        reply_bytes(reply, text);
    return reply->failed ? COMMAND_CLOSE : COMMAND_DONE;
}

/* An error of the command itself takes precedence as the answer. */
void command_cut(struct command_local *local, struct command_pending *pending, struct reply *reply)
{
    command_abandon(local, pending);
    if (pending->binary) {
        binary_error(reply, pending->id,
                     pending->status == BINARY_OK ? BINARY_INVALID : pending->status);
    } else if (!pending->noreply) {
        reply_bytes(reply,
                    pending->error.len ? pending->error : SLICE("CLIENT_ERROR bad data chunk\r\n"));
    }
}

void command_abandon(struct command_local *local, struct command_pending *pending)
{
    if (pending->item) {
        store_discard(local->store, pending->item);
        pending->item = NULL;
    }
    auth_abandon(pending);
    free(pending->echo);
    pending->echo = NULL;
    pending->nleft = 0;
}
