/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * load: replies with values that are on flash. The item's metadata is added to the reply at once,
 * from a copy of the item; its value is read into the copy before the reply is sent. If the value
 * is lost, a miss is answered.
 */
#include "base/countdown.h"
#include "command/call.h"

enum { MISS_MAX = 1024 }; /* bytes of a miss's answer: some flags and a key */

/* Renders the answer to a miss by calling `miss`. */
static struct slice render_miss(struct call *call, command_handler *miss, char out[MISS_MAX])
{
    struct reply reply;
    struct call other = *call;
    struct iovec iov[16];
    size_t n = 0;
    size_t niov;

    if (!miss)
        return (struct slice){out, 0};
    reply_init(&reply);
    other.reply = &reply;
    miss(&other);
    niov = reply_iov(&reply, 0, MISS_MAX, iov, sizeof(iov) / sizeof(iov[0]));
    for (size_t i = 0; i < niov; i++) {
        memcpy(out + n, iov[i].iov_base, iov[i].iov_len);
        n += iov[i].iov_len;
    }
    call->reply->failed |= reply.failed;
    reply_fini(&reply);
    return (struct slice){out, n};
}

static bool is_touch(const struct request *request)
{
    return request->verb == VERB_GAT || request->verb == VERB_GATS ||
           (request->verb == VERB_META_GET && proto_meta_has(request, 'T'));
}

/* The copy of the last hole, if it is of this item. */
static struct mc_item *shared_copy(const struct reply *reply, const struct mc_item *item)
{
    struct mc_item *copy = reply->nholes ? reply->holes[reply->nholes - 1].object : NULL;

    return copy && store_flash_load_shares(copy, item) ? copy : NULL;
}

void call_add_flash_item(struct call *call, struct mc_item *item, item_function *add_item,
                         command_handler *miss)
{
    struct store_local *store = call->local->store;
    struct reply *reply = call->reply;
    struct mc_item *copy = shared_copy(reply, item);
    struct reply_mark mark = miss ? call->start : reply_mark(reply);
    char text[MISS_MAX];

    if (copy) {
        store_put(store, item);
    } else {
        copy = store_flash_load(store, item, !is_touch(call->request), call->now);
        if (!copy) {
            store_put(store, item);
            reply->failed = true;
            return;
        }
        if (!reply_hold(reply, copy)) {
            store_put(store, copy);
            return;
        }
    }
    add_item(call, copy, reply_bytes);
    reply_hole(reply, &mark, copy, render_miss(call, miss, text));
}

/* --- the reads --------------------------------------------------------------- */

/* Holes that show the same copy are adjacent. */
static bool is_repeated(const struct reply *reply, size_t i)
{
    return i > 0 && reply->holes[i].object == reply->holes[i - 1].object;
}

bool command_read(struct command_local *local, struct reply *reply, rel_time now,
                  struct countdown *wait)
{
    for (size_t i = 0; i < reply->nholes; i++)
        if (!is_repeated(reply, i))
            store_flash_load_start(local->store, reply->holes[i].object, wait);
    if (!countdown_end(wait))
        return false;
    command_complete(local, reply, now);
    return true;
}

struct completion {
    struct command_local *local;
    rel_time now;
};

static bool has_come(void *context, void *object)
{
    const struct completion *completion = context;

    return store_flash_load_end(completion->local->store, object, completion->now);
}

void command_complete(struct command_local *local, struct reply *reply, rel_time now)
{
    struct completion completion = {local, now};

    reply_fill(reply, has_come, &completion);
}
