/* SPDX-License-Identifier: BSD-3-Clause */
/* retrieve: get, gets, gat, gats. */
#include "base/num.h"
#include "command/call.h"
#include "command/watch.h"

/*
 * A request may name one item any number of times, and a reference count has 16 bits: from HOLD_MAX
 * references on a value is copied, up to COPY_MAX bytes in one reply.
 */
enum { HOLD_MAX = 1 << 15, COPY_MAX = 16 << 20 };

/* Adds value and tail from `offset` on. */
static void add_rest(struct call *call, const struct mc_item *item, size_t offset,
                     add_function *add)
{
    struct slice value;

    while ((value = item_at(call->local->store, item, offset)).len > 0) {
        add(call->reply, value);
        offset += value.len;
    }
}

static void add_plain(struct call *call, const struct mc_item *item, add_function *add)
{
    size_t nhead = (size_t)item->nkey + item->nsuffix;
    struct slice value = item_at(call->local->store, item, 0);

    reply_bytes(call->reply, SLICE("VALUE "));
    if (value.ptr == item->wire + nhead) {
        add(call->reply, (struct slice){item->wire, nhead + value.len});
    } else {
        add(call->reply, (struct slice){item->wire, nhead});
        add(call->reply, value);
    }
    add_rest(call, item, value.len, add);
}

static void add_with_cas(struct call *call, const struct mc_item *item, add_function *add)
{
    char text[1 + NUM_U64_MAX + 2] = " ";
    size_t n = 1 + num_format_u64(text + 1, item_cas(call->local->store, item));

    memcpy(text + n, "\r\n", 2);
    reply_bytes(call->reply, SLICE("VALUE "));
    add(call->reply, (struct slice){item->wire, (size_t)item->nkey + item->nsuffix - 2});
    reply_copy(call->reply, (struct slice){text, n + 2});
    add_rest(call, item, 0, add);
}

void call_add_value(struct call *call, const struct mc_item *item, add_function *add)
{
    add_rest(call, item, 0, add);
}

void call_add_item(struct call *call, struct mc_item *item, item_function *add_item,
                   command_handler *miss)
{
    struct store_local *store = call->local->store;
    struct reply *reply = call->reply;

    if (item_is_on_flash(item)) {
        call_add_flash_item(call, item, add_item, miss);
    } else if (reply->nheld && reply->held[reply->nheld - 1] == item) {
        store_put(store, item);
        add_item(call, item, reply_bytes);
    } else if (__atomic_load_n(&item->refcount, __ATOMIC_RELAXED) < HOLD_MAX) {
        if (reply_hold(reply, item))
            add_item(call, item, reply_bytes);
        else
            store_put(store, item);
    } else {
        if (reply->ntext + item_nvalue(store, item) < COPY_MAX)
            add_item(call, item, reply_copy);
        else
            reply->failed = true;
        store_put(store, item);
    }
}

/* Ends the answer, or the part of it that belongs to this part of the line. */
static enum command_next finish(struct call *call)
{
    return call->request->more ? COMMAND_DONE : answer(call, SLICE("END\r\n"));
}

static enum command_next retrieve(struct call *call, item_function *add_item, bool touch)
{
    struct store_local *store = call->local->store;
    struct reply_mark mark = reply_mark(call->reply);
    rel_time expiry = touch ? call_expiry(call, call->request->exptime) : 0;
    struct slice keys = call->request->keys;
    struct slice key = call->request->key;

    if (key.len == 0)
        return finish(call);
    do {
        struct mc_item *item;

        if (key.len > PROTO_KEY_MAX) {
            store_flash_load_abort(store, call->reply->nholes - mark.nholes);
            reply_rewind(call->reply, &mark);
            return answer(call, SLICE("CLIENT_ERROR bad command line format\r\n"));
        }
        item = touch ? store_get_touch(store, key, expiry, call->now)
                     : store_get(store, key, call->now);
        detail_count(call, key, item ? PREFIX_HIT : PREFIX_GET);
        watch_fetched(call, key, item);
        if (item)
            call_add_item(call, item, add_item, NULL);
    } while (!call->reply->failed && proto_next_key(&keys, &key));
    return finish(call);
}

enum command_next command_get(struct call *call)
{
    return retrieve(call, add_plain, false);
}

enum command_next command_gets(struct call *call)
{
    return retrieve(call, add_with_cas, false);
}

enum command_next command_gat(struct call *call)
{
    return retrieve(call, add_plain, true);
}

enum command_next command_gats(struct call *call)
{
    return retrieve(call, add_with_cas, true);
}
