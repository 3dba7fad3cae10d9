/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meta: mg, ms, md, ma, mn, me. A reply is a status, followed by the requested flags that it
 * returns, in the order of the request.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/num.h"
#include "command/call.h"
#include "command/watch.h"

enum {
    KEY_TEXT_MAX = BASE64_TEXT_BYTES(PROTO_KEY_MAX),
    LINE_MAX_BYTES = 512, /* a key, an opaque and some numbers */
};

/* --- keys ---------------------------------------------------------------- */

struct key_buffer {
    char bytes[BASE64_MAX_BYTES(PROTO_KEY_MAX)];
};

/* The key as the store has it, decoded into the buffer if it is base64. */
static struct slice plain_key(const struct request *request, struct key_buffer *buffer)
{
    size_t n = 0;

    if (!proto_meta_has(request, 'b'))
        return request->key;
    /* The parser has checked that it decodes. */
    base64_decode(buffer->bytes, request->key, &n);
    return (struct slice){buffer->bytes, n};
}

/* --- flags --------------------------------------------------------------- */

/* Whether both flags are given, `first` before `second`. */
static bool in_order(const struct request *request, char first, char second)
{
    struct slice flags = request->meta.flags;
    struct slice flag;
    bool seen = false;

    if (!proto_meta_has(request, first) || !proto_meta_has(request, second))
        return false;
    while (proto_next_key(&flags, &flag)) {
        if (*flag.ptr == second)
            return seen;
        seen |= *flag.ptr == first;
    }
    return false;
}

/* The expiry of a value that N creates: the last of N and T decides. */
static rel_time vivify_expiry(const struct call *call)
{
    const struct request *request = call->request;

    return call_expiry(call, in_order(request, 'N', 'T') ? request->exptime : request->meta.vivify);
}

/* --- the line of a reply --------------------------------------------------- */

struct line {
    char text[LINE_MAX_BYTES];
    size_t n;
};

/* What a reply may show of an item; `flags` are the letters that it returns. */
struct facts {
    const char *flags;
    struct slice key;
    bool binary_key;
    uint64_t cas;
    uint32_t client_flags, nvalue;
    rel_time age, now;
    bool used;
    /* T and N take effect at their position among the flags. */
    rel_time expiry;
    bool created;
    rel_time touch_expiry, vivify_expiry;
};

static void line_add(struct line *line, struct slice bytes)
{
    assert(bytes.len <= sizeof(line->text) - line->n);
    memcpy(line->text + line->n, bytes.ptr, bytes.len);
    line->n += bytes.len;
}

static void line_number(struct line *line, uint64_t number)
{
    char digits[NUM_U64_MAX];

    line_add(line, (struct slice){digits, num_format_u64(digits, number)});
}

static void line_key(struct line *line, struct slice key, bool binary)
{
    char text[KEY_TEXT_MAX];

    line_add(line, binary ? (struct slice){text, base64_encode(text, key)} : key);
}

/* The seconds until expiry; for an expired item modulo 2^32, as memcached shows it. */
static void line_ttl(struct line *line, rel_time expiry, rel_time now)
{
    if (expiry == 0)
        line_add(line, SLICE("-1"));
    else
        line_number(line, (rel_time)(expiry - now));
}

static void line_flag(struct line *line, struct slice flag, const struct facts *facts)
{
    line_add(line, SLICE(" "));
    line_add(line, *flag.ptr == 'O' ? flag : (struct slice){flag.ptr, 1});
    switch (*flag.ptr) {
    case 'k':
        line_key(line, facts->key, facts->binary_key);
        if (facts->binary_key)
            line_add(line, SLICE(" b"));
        break;
    case 'c':
        line_number(line, facts->cas);
        break;
    case 'f':
        line_number(line, facts->client_flags);
        break;
    case 's':
        line_number(line, facts->nvalue);
        break;
    case 'h':
        line_number(line, facts->used);
        break;
    case 'l':
        line_number(line, facts->age);
        break;
    case 't':
        line_ttl(line, facts->expiry, facts->now);
        break;
    default:
        break;
    }
}

static void line_flags(struct line *line, struct slice flags, struct facts *facts)
{
    struct slice flag;

    while (proto_next_key(&flags, &flag))
        if (*flag.ptr == 'T')
            facts->expiry = facts->touch_expiry;
        else if (*flag.ptr == 'N' && facts->created)
            facts->expiry = facts->vivify_expiry;
        else if (strchr(facts->flags, *flag.ptr))
            line_flag(line, flag, facts);
}

static void send_line(struct reply *reply, struct line *line)
{
    line_add(line, SLICE("\r\n"));
    reply_copy(reply, (struct slice){line->text, line->n});
}

/* Answers a status and the flags that need no item. */
static enum command_next answer_status(struct call *call, struct slice status, struct slice key)
{
    struct facts facts = {
        .flags = "Ok",
        .key = key,
        .binary_key = proto_meta_has(call->request, 'b'),
    };
    struct line line = {.n = 0};

    line_add(&line, status);
    line_flags(&line, call->request->meta.flags, &facts);
    send_line(call->reply, &line);
    return COMMAND_DONE;
}

static enum command_next answer_no_memory(struct call *call)
{
    return answer(call, SLICE("SERVER_ERROR out of memory\r\n"));
}

/* --- mg ------------------------------------------------------------------ */

static struct store_fetch fetch_of(const struct call *call)
{
    const struct request *request = call->request;
    return (struct store_fetch){
        .unseen = proto_meta_has(request, 'u'),
        .touch = proto_meta_has(request, 'T'),
        .expiry = call_expiry(call, request->exptime),
        .vivify = proto_meta_has(request, 'N'),
        .vivify_expiry = vivify_expiry(call),
        .binary_key = proto_meta_has(request, 'b'),
        .new_cas = request->meta.new_cas,
        .recache = proto_meta_has(request, 'R'),
        .recache_before = call_expiry(call, request->meta.recache),
        .recache_old = in_order(request, 'R', 'T'),
    };
}

static void line_marks(struct line *line, const struct store_fetched *fetched)
{
    if (fetched->was_won)
        line_add(line, SLICE(" Z"));
    if (fetched->stale)
        line_add(line, SLICE(" X"));
    if (fetched->won)
        line_add(line, SLICE(" W"));
}

static enum command_next meta_miss(struct call *call)
{
    struct key_buffer buffer;

    return proto_meta_has(call->request, 'q')
               ? COMMAND_DONE
               : answer_status(call, SLICE("EN"), plain_key(call->request, &buffer));
}

static void answer_hit(struct call *call, struct mc_item *item, const struct store_fetched *fetched)
{
    const struct request *request = call->request;
    struct store_local *store = call->local->store;
    struct slice suffix = item_suffix(item);
    struct facts facts = {
        .flags = "Okcfshlt",
        .key = item_key(item),
        .binary_key = item_has_binary_key(item),
        .cas = fetched->cas,
        .client_flags = proto_suffix_flags(suffix.ptr, (uint8_t)suffix.len),
        .nvalue = item_nvalue(store, item),
        .age = call->now > fetched->last_use ? call->now - fetched->last_use : 0,
        .now = call->now,
        .used = fetched->used,
        .expiry = fetched->created ? 0 : fetched->old_expiry,
        .created = fetched->created,
        .touch_expiry = call_expiry(call, request->exptime),
        .vivify_expiry = call_expiry(call, request->meta.vivify),
    };
    struct line line = {.n = 0};

    line_add(&line, proto_meta_has(request, 'v') ? SLICE("VA ") : SLICE("HD"));
    if (proto_meta_has(request, 'v'))
        line_number(&line, facts.nvalue);
    line_flags(&line, request->meta.flags, &facts);
    line_marks(&line, fetched);
    send_line(call->reply, &line);
    if (proto_meta_has(request, 'v'))
        call_add_item(call, item, call_add_value, meta_miss);
    else
        store_put(store, item);
}

enum command_next command_meta_get(struct call *call)
{
    struct key_buffer buffer;
    struct slice key = plain_key(call->request, &buffer);
    struct store_fetch how = fetch_of(call);
    struct store_fetched fetched;
    enum store_result result;
    struct mc_item *item = store_fetch(call->local->store, key, &how, call->now, &fetched, &result);

    watch_fetched(call, key, item && !fetched.created ? item : NULL);
    if (item) {
        answer_hit(call, item, &fetched);
        return COMMAND_DONE;
    }
    if (result == STORE_NO_MEMORY)
        return answer_no_memory(call);
    return meta_miss(call);
}

/* --- ms ------------------------------------------------------------------ */

/*
 * Copies key and flags for the answer: when it is sent, the request's line may be overwritten.
 * False: no memory.
 */
static bool keep_echo(const struct request *request, struct command_pending *pending)
{
    struct slice flags = request->meta.flags;
    bool needed = proto_meta_has(request, 'O') || proto_meta_has(request, 'k') ||
                  proto_meta_has(request, 'c');

    pending->meta.flags = (struct slice){0};
    if (!needed)
        return true;
    pending->echo = malloc(request->key.len + flags.len);
    if (!pending->echo)
        return false;
    memcpy(pending->echo, flags.ptr, flags.len);
    memcpy(pending->echo + flags.len, request->key.ptr, request->key.len);
    pending->meta.flags = (struct slice){pending->echo, flags.len};
    pending->nkey = request->key.len;
    return true;
}

enum command_next command_meta_set(struct call *call)
{
    const struct request *request = call->request;
    struct store_local *store = call->local->store;
    struct key_buffer buffer;
    struct slice key = plain_key(request, &buffer);
    enum store_result result = STORE_NO_MEMORY;
    struct mc_item *item =
        store_reserve(store, key, request->client_flags, call_expiry(call, request->exptime),
                      request->nvalue, call->now, &result);

    if (!item)
        return call_refuse(call, key, result);
    *call->pending = (struct command_pending){
        .item = item,
        .nleft = request->nvalue + 2,
        .verb = request->verb,
        .cas = request->cas,
        .fd = call->client->fd,
        .meta = request->meta,
    };
    if (!keep_echo(request, call->pending)) {
        store_discard(store, item);
        return call_refuse(call, key, STORE_NO_MEMORY);
    }
    if (proto_meta_has(request, 'b'))
        store_mark_binary_key(item);
    return COMMAND_VALUE;
}

/* With a cas id, set and replace act as cas; add ignores it. */
static struct store_terms terms_of(const struct request *request)
{
    bool compare = proto_meta_has(request, 'C');
    struct store_terms terms = {
        .mode = compare ? STORE_CAS : STORE_SET,
        .cas = request->cas,
        .invalidate = proto_meta_has(request, 'I'),
        .new_cas = request->meta.new_cas,
    };

    switch (request->meta.mode) {
    case 'E':
        terms.mode = STORE_ADD;
        break;
    case 'A':
        terms.mode = STORE_APPEND;
        break;
    case 'P':
        terms.mode = STORE_PREPEND;
        break;
    case 'R':
        terms.mode = compare ? STORE_CAS : STORE_REPLACE;
        break;
    default:
        break;
    }
    return terms;
}

static struct slice status_of(enum store_result result)
{
    switch (result) {
    case STORE_DONE:
        return SLICE("HD");
    case STORE_EXISTS:
        return SLICE("EX");
    case STORE_MISS:
        return SLICE("NF");
    case STORE_NOT_STORED:
    case STORE_TOO_LARGE:
    case STORE_NO_MEMORY:
    case STORE_NON_NUMERIC:
        break;
    }
    return SLICE("NS");
}

void command_meta_store(struct command_local *local, struct command_pending *pending, rel_time now,
                        struct reply *reply)
{
    const struct request request = {
        .key = {pending->echo ? pending->echo + pending->meta.flags.len : NULL, pending->nkey},
        .cas = pending->cas,
        .meta = pending->meta,
    };
    struct facts facts = {.flags = "Okc", .binary_key = proto_meta_has(&request, 'b')};
    struct store_terms terms = terms_of(&request);
    struct mc_item *item = pending->item;
    struct line line = {.n = 0};
    struct key_buffer buffer;
    enum store_result result;

    pending->item = NULL;
    result = storage_commit(local, pending->fd, item, &terms, now, &facts.cas);
    if (result == STORE_NO_MEMORY) {
        reply_bytes(reply, SLICE("SERVER_ERROR out of memory storing object\r\n"));
    } else if (result != STORE_DONE || !proto_meta_has(&request, 'q')) {
        if (pending->echo)
            facts.key = plain_key(&request, &buffer);
        line_add(&line, status_of(result));
        line_flags(&line, request.meta.flags, &facts);
        send_line(reply, &line);
    }
    free(pending->echo);
    pending->echo = NULL;
}

/* --- md ------------------------------------------------------------------ */

enum command_next command_meta_delete(struct call *call)
{
    const struct request *request = call->request;
    const struct store_removal how = {
        .compare = proto_meta_has(request, 'C'),
        .cas = request->cas,
        .invalidate = proto_meta_has(request, 'I'),
        .new_cas = request->meta.new_cas,
        .touch = proto_meta_has(request, 'T'),
        .expiry = call_expiry(call, request->exptime),
    };
    struct key_buffer buffer;
    struct slice key = plain_key(request, &buffer);
    struct watch_before before = watch_look(call, key);
    enum store_result result = store_remove(call->local->store, key, &how, call->now);

    if (result == STORE_DONE && !how.invalidate)
        watch_deleted(call, key, &before, "md");
    if (result == STORE_DONE && proto_meta_has(request, 'q'))
        return COMMAND_DONE;
    return answer_status(call, status_of(result), key);
}

/* --- ma ------------------------------------------------------------------ */

static struct store_delta delta_of(const struct call *call)
{
    const struct request *request = call->request;
    char mode = request->meta.mode;

    return (struct store_delta){
        .decrement = mode == 'D' || mode == '-',
        .delta = request->delta,
        .cas = request->cas,
        .create = proto_meta_has(request, 'N'),
        .initial = request->meta.initial,
        .expiry = vivify_expiry(call),
        .binary_key = proto_meta_has(request, 'b'),
        .touch = proto_meta_has(request, 'T'),
        .new_expiry = call_expiry(call, request->exptime),
        .new_cas = request->meta.new_cas,
    };
}

static enum command_next answer_count(struct call *call, struct slice key,
                                      const struct store_number *number)
{
    const struct request *request = call->request;
    char digits[NUM_U64_MAX];
    size_t ndigits = num_format_u64(digits, number->value);
    struct facts facts = {
        .flags = "Okct",
        .key = key,
        .binary_key = proto_meta_has(request, 'b'),
        .cas = number->cas,
        .now = call->now,
        .expiry = number->old_expiry,
        .created = number->created,
        .touch_expiry = call_expiry(call, request->exptime),
        .vivify_expiry = call_expiry(call, request->meta.vivify),
    };
    struct line line = {.n = 0};

    /* q suppresses a hit only: a number that had to be created is always answered. */
    if (proto_meta_has(request, 'q') && !number->created)
        return COMMAND_DONE;
    line_add(&line, proto_meta_has(request, 'v') ? SLICE("VA ") : SLICE("HD"));
    if (proto_meta_has(request, 'v'))
        line_number(&line, ndigits);
    line_flags(&line, request->meta.flags, &facts);
    if (proto_meta_has(request, 'v')) {
        line_add(&line, SLICE("\r\n"));
        line_add(&line, (struct slice){digits, ndigits});
    }
    send_line(call->reply, &line);
    return COMMAND_DONE;
}

enum command_next command_meta_arith(struct call *call)
{
    const struct store_delta delta = delta_of(call);
    struct key_buffer buffer;
    struct slice key = plain_key(call->request, &buffer);
    struct store_number number;
    struct watch_before before = watch_look(call, key);
    enum store_result result =
        store_meta_arith(call->local->store, key, &delta, call->now, &number);

    watch_arith(call, key, &before, result);
    switch (result) {
    case STORE_DONE:
        return answer_count(call, key, &number);
    case STORE_NON_NUMERIC:
        return answer(call,
                      SLICE("CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"));
    case STORE_NO_MEMORY:
    case STORE_TOO_LARGE:
        return answer_no_memory(call);
    case STORE_MISS:
    case STORE_EXISTS:
    case STORE_NOT_STORED:
        break;
    }
    return answer_status(call, status_of(result), key);
}

/* --- mn, me -------------------------------------------------------------- */

enum command_next command_meta_noop(struct call *call)
{
    return answer(call, SLICE("MN\r\n"));
}

enum command_next command_meta_debug(struct call *call)
{
    struct store_local *store = call->local->store;
    struct key_buffer buffer;
    struct slice key = plain_key(call->request, &buffer);
    struct line line = {.n = 0};
    struct store_fetched fetched;
    struct mc_item *item;

    count_one(&call->local->counts.meta_cmds);
    item = store_peek(store, key, call->now, &fetched);
    watch_fetched(call, key, item);
    if (!item)
        return answer(call, SLICE("EN\r\n"));
    line_add(&line, SLICE("ME "));
    line_key(&line, key, item_has_binary_key(item));
    reply_copy(call->reply, (struct slice){line.text, line.n});
    /* memcached shows the seconds until expiry as a negative number. */
    reply_printf(
        call->reply, " exp=%" PRId64 " la=%" PRIu32 " cas=%" PRIu64 " fetch=%s cls=%u size=%zu\r\n",
        fetched.expiry ? (int64_t)call->now - fetched.expiry : -1, call->now - fetched.last_use,
        fetched.cas, fetched.used ? "yes" : "no", fetched.clsid, item_size(item));
    store_put(store, item);
    return COMMAND_DONE;
}
