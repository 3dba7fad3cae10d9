/* SPDX-License-Identifier: BSD-3-Clause */
/* retrieve: get, gets, gat, gats. */
#include "base/num.h"
#include "command/call.h"

/*
 * A request may name one item any number of times, and a reference count has 16 bits: from half
 * of them on a value is copied, up to so many bytes in one reply.
 */
enum { HOLD_MAX = 1 << 15, COPY_MAX = 16 << 20 };

/* Bytes of an item: `add` is reply_bytes for a held item, else reply_copy. */
typedef void add_function(struct reply *reply, struct slice bytes);

static void add_value(struct call *call, const struct mc_item *item, enum form form,
                      add_function *add)
{
    struct store_local *store = call->local->store;
    size_t nhead = (size_t)item->nkey + item->nmid;
    struct slice value = item_at(store, item, 0);
    size_t offset = value.len;

    if (form != FORM_VALUE) {
        reply_bytes(call->reply, SLICE("VALUE "));
    }
    if (form == FORM_VALUE) {
        add(call->reply, value);
    } else if (form == FORM_CAS) {
        char text[1 + NUM_U64_MAX + 2] = " ";
        size_t n = 1 + num_format_u64(text + 1, item_cas(store, item));

        memcpy(text + n, "\r\n", 2);
        add(call->reply, (struct slice){item->wire, nhead - 2});
        reply_copy(call->reply, (struct slice){text, n + 2});
        add(call->reply, value);
    } else if (value.ptr == item->wire + nhead) {
        add(call->reply, (struct slice){item->wire, nhead + value.len});
    } else {
        add(call->reply, (struct slice){item->wire, nhead});
        add(call->reply, value);
    }
    while ((value = item_at(store, item, offset)).len > 0) {
        add(call->reply, value);
        offset += value.len;
    }
}

void call_add_item(struct call *call, struct mc_item *item, enum form form)
{
    struct store_local *store = call->local->store;
    struct reply *reply = call->reply;

    if (reply->nheld && reply->held[reply->nheld - 1] == item) {
        store_put(store, item);
        add_value(call, item, form, reply_bytes);
    } else if (__atomic_load_n(&item->refcount, __ATOMIC_RELAXED) < HOLD_MAX) {
        if (reply_hold(reply, item)) {
            add_value(call, item, form, reply_bytes);
        } else {
            store_put(store, item);
        }
    } else {
        if (reply->ntext + item_nvalue(store, item) < COPY_MAX) {
            add_value(call, item, form, reply_copy);
        } else {
            reply->failed = true;
        }
        store_put(store, item);
    }
}

static enum command_next retrieve(struct call *call, enum form form, bool touch)
{
    struct store_local *store = call->local->store;
    struct reply_mark mark = reply_mark(call->reply);
    rel_time expiry = touch ? call_expiry(call, call->request->exptime) : 0;
    struct slice keys = call->request->keys;
    struct slice key = call->request->key;

    if (key.len == 0) {
        return answer(call, SLICE("END\r\n"));
    }
    do {
        struct mc_item *item;

        if (key.len > PROTO_KEY_MAX) {
            reply_rewind(call->reply, &mark);
            return answer(call, SLICE("CLIENT_ERROR bad command line format\r\n"));
        }
        item = touch ? store_get_touch(store, key, expiry, call->now)
                     : store_get(store, key, call->now);
        if (item) {
            call_add_item(call, item, form);
        }
    } while (!call->reply->failed && proto_next_key(&keys, &key));
    return answer(call, SLICE("END\r\n"));
}

enum command_next command_get(struct call *call)
{
    return retrieve(call, FORM_PLAIN, false);
}

enum command_next command_gets(struct call *call)
{
    return retrieve(call, FORM_CAS, false);
}

enum command_next command_gat(struct call *call)
{
    return retrieve(call, FORM_PLAIN, true);
}

enum command_next command_gats(struct call *call)
{
    return retrieve(call, FORM_CAS, true);
}
