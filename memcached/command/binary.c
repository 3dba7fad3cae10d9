/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * binary: the commands of the binary protocol. They do what the text commands do and answer
 * differently: a quiet get does not answer a miss, any other quiet command does not answer a
 * success, and errors are always answered.
 */
#include "command/call.h"
#include "command/stat.h"
#include "command/watch.h"
#include "config.h"
#include "store/store.h"

enum { NFLAGS = 4, NNUMBER = 8 };

static void add_header(struct reply *reply, const struct binary_header *head)
{
    char bytes[PROTO_BINARY_HEADER];

    proto_render_binary(bytes, head);
    reply_copy(reply, (struct slice){bytes, sizeof(bytes)});
}

/* --- answers ------------------------------------------------------------- */

static void add_error(struct reply *reply, struct binary_id id, enum binary_status status,
                      struct slice text)
{
    struct binary_header head = {.id = id, .status = status, .nvalue = (uint32_t)text.len};

    add_header(reply, &head);
    reply_bytes(reply, text);
}

void binary_error(struct reply *reply, struct binary_id id, enum binary_status status)
{
    add_error(reply, id, status, proto_binary_text(status));
}

void binary_answer(struct reply *reply, struct binary_id id, enum binary_status status,
                   struct slice value)
{
    struct binary_header head = {.id = id, .status = status, .nvalue = (uint32_t)value.len};

    add_header(reply, &head);
    reply_copy(reply, value);
}

static enum command_next fail(struct call *call, enum binary_status status)
{
    binary_error(call->reply, call->request->id, status);
    return COMMAND_DONE;
}

/* Answers a success that has no value, only the cas id of what was stored. */
static enum command_next succeed(struct call *call, uint64_t cas)
{
    if (!call->request->noreply) {
        struct binary_header head = {.id = call->request->id, .cas = cas};

        add_header(call->reply, &head);
    }
    return COMMAND_DONE;
}

static enum command_next answer_value(struct call *call, struct slice value, uint64_t cas)
{
    if (!call->request->noreply) {
        struct binary_header head = {
            .id = call->request->id, .cas = cas, .nvalue = (uint32_t)value.len};

        add_header(call->reply, &head);
        reply_copy(call->reply, value);
    }
    return COMMAND_DONE;
}

/* --- get, touch, gat ----------------------------------------------------- */

/* Header, flags and key of an answer with an item, whose value takes `nvalue` bytes. */
static void add_item_header(struct call *call, const struct mc_item *item, uint32_t nvalue)
{
    const struct request *request = call->request;
    struct slice suffix = item_suffix(item);
    struct binary_header head = {
        .id = request->id,
        .cas = item_cas(call->local->store, item),
        .nextras = NFLAGS,
        .nkey = request->with_key ? item->nkey : 0,
        .nvalue = nvalue,
    };
    char bytes[PROTO_BINARY_HEADER + NFLAGS + PROTO_KEY_MAX];

    proto_render_binary(bytes, &head);
    proto_store32(bytes + PROTO_BINARY_HEADER, proto_suffix_flags(suffix.ptr, (uint8_t)suffix.len));
    memcpy(bytes + PROTO_BINARY_HEADER + NFLAGS, item_key(item).ptr, head.nkey);
    reply_copy(call->reply,
               (struct slice){bytes, (size_t)PROTO_BINARY_HEADER + NFLAGS + head.nkey});
}

static void add_item(struct call *call, const struct mc_item *item, add_function *add)
{
    uint32_t nvalue = item_nvalue(call->local->store, item);
    size_t offset = 0;

    add_item_header(call, item, nvalue);
    while (offset < nvalue) {
        struct slice value = item_at(call->local->store, item, offset);

        if (value.len > nvalue - offset)
            value.len = nvalue - offset;
        add(call->reply, value);
        offset += value.len;
    }
}

static enum command_next miss(struct call *call)
{
    const struct request *request = call->request;
    struct binary_header head = {
        .id = request->id, .status = BINARY_NOT_FOUND, .nkey = (uint8_t)request->key.len};

    if (request->noreply)
        return COMMAND_DONE;
    if (!request->with_key)
        return fail(call, BINARY_NOT_FOUND);
    add_header(call->reply, &head);
    reply_copy(call->reply, request->key);
    return COMMAND_DONE;
}

static enum command_next binary_get(struct call *call)
{
    struct mc_item *item = store_get(call->local->store, call->request->key, call->now);

    detail_count(call, call->request->key, item ? PREFIX_HIT : PREFIX_GET);
    watch_fetched(call, call->request->key, item);
    if (!item)
        return miss(call);
    call_add_item(call, item, add_item, miss);
    return COMMAND_DONE;
}

static struct mc_item *touch(struct call *call)
{
    const struct request *request = call->request;

    struct mc_item *item = store_get_touch(call->local->store, request->key,
                                           call_expiry(call, request->exptime), call->now);

    /* Unlike the text protocol's, a binary touch is counted for `stats detail`. */
    detail_count(call, request->key, item ? PREFIX_HIT : PREFIX_GET);
    watch_fetched(call, request->key, item);
    return item;
}

static enum command_next binary_gat(struct call *call)
{
    struct mc_item *item = touch(call);

    if (!item)
        return miss(call);
    call_add_item(call, item, add_item, miss);
    return COMMAND_DONE;
}

static enum command_next binary_touch(struct call *call)
{
    struct mc_item *item = touch(call);

    if (!item)
        return fail(call, BINARY_NOT_FOUND);
    add_item_header(call, item, 0);
    store_put(call->local->store, item);
    return COMMAND_DONE;
}

/* --- set, add, replace, append, prepend ---------------------------------- */

static enum binary_status stored_status(enum store_result result, enum verb verb)
{
    switch (result) {
    case STORE_DONE:
        return BINARY_OK;
    case STORE_EXISTS:
        return BINARY_EXISTS;
    case STORE_MISS:
        return BINARY_NOT_FOUND;
    case STORE_NO_MEMORY:
        return BINARY_NO_MEMORY;
    case STORE_NOT_STORED:
        return verb == VERB_ADD       ? BINARY_EXISTS
               : verb == VERB_REPLACE ? BINARY_NOT_FOUND
                                      : BINARY_NOT_STORED;
    case STORE_TOO_LARGE:
    case STORE_NON_NUMERIC:
        break;
    }
    return BINARY_NOT_STORED;
}

/* Swallows the value, so that the next request is found; then sends this answer. */
static enum command_next swallow(struct call *call, enum binary_status status, struct slice text)
{
    *call->pending = (struct command_pending){
        .nleft = call->request->nvalue,
        .error = text,
        .binary = true,
        .id = call->request->id,
        .status = status,
    };
    return COMMAND_VALUE;
}

enum command_next binary_swallow(struct call *call, enum binary_status status)
{
    return swallow(call, status, proto_binary_text(status));
}

/* With a cas id, set, add and replace act as cas does, except under -C. */
static void compare_id(struct call *call)
{
    struct command_pending *pending = call->pending;
    bool joins = pending->verb == VERB_APPEND || pending->verb == VERB_PREPEND;

    if (!store_has_cas(call->local->commands->store))
        pending->cas = 0;
    else if (pending->cas != 0 && !joins)
        pending->verb = VERB_CAS;
}

static enum command_next binary_store(struct call *call)
{
    const struct request *request = call->request;
    enum store_result result = storage_begin(call, 0);

    if (result == STORE_DONE) {
        call->pending->binary = true;
        call->pending->id = request->id;
        compare_id(call);
        return COMMAND_VALUE;
    }
    watch_refused(call, request->key, result);
    if (request->verb == VERB_SET) {
        watch_look(call, request->key);
        store_forget(call->local->store, request->key, call->now);
    }
    return result == STORE_TOO_LARGE
               ? binary_swallow(call, BINARY_TOO_LARGE)
               : swallow(call, BINARY_NO_MEMORY, SLICE("Out of memory allocating item"));
}

enum command_next binary_finish(struct command_local *local, struct command_pending *pending,
                                rel_time now, struct reply *reply)
{
    struct binary_header head = {.id = pending->id};

    if (!pending->item) {
        add_error(reply, pending->id, pending->status, pending->error);
        return reply->failed ? COMMAND_CLOSE : COMMAND_DONE;
    }
    head.status = stored_status(storage_end(local, pending, now, &head.cas), pending->verb);
    if (head.status != BINARY_OK)
        binary_error(reply, head.id, head.status);
    else if (!pending->noreply)
        add_header(reply, &head);
    return reply->failed ? COMMAND_CLOSE : COMMAND_DONE;
}

static enum command_next binary_unknown(struct call *call)
{
    return binary_swallow(call, BINARY_UNKNOWN);
}

static enum command_next binary_sasl(struct call *call)
{
    return call->local->commands->sasl ? auth_sasl(call) : binary_unknown(call);
}

/* --- delete, incr, decr -------------------------------------------------- */

static enum command_next binary_delete(struct call *call)
{
    const struct request *request = call->request;
    struct watch_before before = watch_look(call, request->key);
    enum store_result result =
        store_delete(call->local->store, request->key, request->cas, call->now);

    detail_count(call, request->key, PREFIX_DELETE);
    if (result == STORE_DONE) {
        watch_deleted(call, request->key, &before, "delete");
        return succeed(call, 0);
    }
    return fail(call, stored_status(result, request->verb));
}

static enum command_next binary_arith(struct call *call)
{
    const struct request *request = call->request;
    const struct store_delta delta = {
        .decrement = request->verb == VERB_DECR,
        .delta = request->delta,
        .cas = request->cas,
        .create = request->exptime != UINT32_MAX,
        .initial = request->initial,
        .expiry = call_expiry(call, request->exptime),
    };
    uint64_t value = 0;
    uint64_t cas = 0;
    char number[NNUMBER];
    struct watch_before before = watch_look(call, request->key);
    enum store_result result =
        store_arith(call->local->store, request->key, &delta, call->now, &value, &cas);

    watch_arith(call, request->key, &before, result);
    if (result == STORE_DONE) {
        proto_store64(number, value);
        return answer_value(call, (struct slice){number, sizeof(number)}, cas);
    }
    return fail(call, result == STORE_NON_NUMERIC ? BINARY_NON_NUMERIC
                      : result == STORE_TOO_LARGE ? BINARY_NO_MEMORY
                                                  : stored_status(result, request->verb));
}

/* --- the rest ------------------------------------------------------------ */

static enum command_next binary_flush(struct call *call)
{
    /* memcached counts refused flush_all commands of the text protocol only. */
    if (!call->local->commands->config.flush_enabled)
        return fail(call, BINARY_REFUSED);
    call_flush(call, call->request->exptime);
    return succeed(call, 0);
}

static enum command_next binary_noop(struct call *call)
{
    return succeed(call, 0);
}

static enum command_next binary_version(struct call *call)
{
    return answer_value(call, SLICE(PACKAGE_VERSION), 0);
}

static enum command_next binary_quit(struct call *call)
{
    succeed(call, 0);
    return COMMAND_QUIT;
}

/* Each statistic is an answer with a key; an answer without a key ends them. */
static bool starts_with(struct slice text, struct slice start)
{
    return text.len >= start.len && memcmp(text.ptr, start.ptr, start.len) == 0;
}

/* The dump is one statistic, whose value is the text protocol's answer. */
static enum command_next dump_detail(struct call *call)
{
    static const char key[] = "detailed";
    struct binary_header head = {.id = call->request->id, .nkey = sizeof(key) - 1};
    struct reply text;

    reply_init(&text);
    detail_dump(call->local->commands, &text);
    head.nvalue = (uint32_t)text.ntext;
    add_header(call->reply, &head);
    reply_bytes(call->reply, SLICE(key));
    reply_copy(call->reply, (struct slice){text.text, text.ntext});
    call->reply->failed |= text.failed;
    reply_fini(&text);
    return succeed(call, 0);
}

static enum command_next stats_detail(struct call *call)
{
    struct slice key = call->request->key;

    if (starts_with(key, SLICE("detail dump")))
        return dump_detail(call);
    if (starts_with(key, SLICE("detail on")) || starts_with(key, SLICE("detail off"))) {
        detail_set(call->local->commands, call->client, starts_with(key, SLICE("detail on")));
        return succeed(call, 0);
    }
    return fail(call, BINARY_NOT_FOUND);
}

static enum command_next binary_stats(struct call *call)
{
    const struct request *request = call->request;
    struct stat_sink sink = {call->reply, &request->id};
    stat_function *add = request->key.len ? stat_find_binary(request->key) : stat_general;

    if (slice_equal(request->key, SLICE("reset"))) {
        stats_reset(call->local->commands);
        return succeed(call, 0);
    }
    if (starts_with(request->key, SLICE("detail")))
        return stats_detail(call);
    if (!add)
        return fail(call, BINARY_NOT_FOUND);
    add(call, &sink);
    return succeed(call, 0);
}

/* The verbs that the binary parser returns; NULL for verbs of text only. */
static command_handler *const handlers[VERB_SASL_STEP + 1] = {
    [VERB_UNKNOWN] = binary_unknown, [VERB_GET] = binary_get,
    [VERB_GAT] = binary_gat,         [VERB_TOUCH] = binary_touch,
    [VERB_SET] = binary_store,       [VERB_ADD] = binary_store,
    [VERB_REPLACE] = binary_store,   [VERB_APPEND] = binary_store,
    [VERB_PREPEND] = binary_store,   [VERB_INCR] = binary_arith,
    [VERB_DECR] = binary_arith,      [VERB_DELETE] = binary_delete,
    [VERB_FLUSH_ALL] = binary_flush, [VERB_STATS] = binary_stats,
    [VERB_VERSION] = binary_version, [VERB_QUIT] = binary_quit,
    [VERB_NOOP] = binary_noop,       [VERB_SASL_LIST] = binary_sasl,
    [VERB_SASL_AUTH] = binary_sasl,  [VERB_SASL_STEP] = binary_sasl,
};

enum command_next binary_run(struct call *call)
{
    const struct request *request = call->request;

    if (request->status != BINARY_OK) {
        fail(call, request->status);
        return COMMAND_CLOSE;
    }
    return handlers[request->verb](call);
}
