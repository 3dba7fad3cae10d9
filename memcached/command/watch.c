/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/watch.h"

#include <assert.h>
#include <string.h>

#include "store/store_events.h"

static void emit(const struct command_local *local, struct event *event, struct slice bytes)
{
    logger_emit(local->events, event, bytes);
}

/* --- gets ---------------------------------------------------------------- */

static const char *absence_text(enum store_absence absence)
{
    switch (absence) {
    case STORE_ABSENT:
        break;
    case STORE_EXPIRED:
        return "expired";
    case STORE_FLUSHED:
        return "flushed";
    }
    return "not_found";
}

static void emit_get(struct command_local *local, int fd, struct slice key,
                     const struct mc_item *item)
{
    struct event event = {
        .classes = COMMAND_WATCH_FETCHERS,
        .type = EVENT_ITEM_GET,
        .status = item ? "found" : absence_text(store_absence(local->store)),
        .clsid = item ? (uint8_t)item_class(local->store, item) : 0,
        .fd = fd,
    };

    emit(local, &event, key);
}

void watch_fetched_now(const struct call *call, struct slice key, const struct mc_item *item)
{
    emit_get(call->local, call->client->fd, key, item);
}

/* Looks the key up, and emits the event of that if it is watched. */
static struct watch_before look(struct command_local *local, int fd, struct slice key, rel_time now)
{
    struct watch_before before = {.looked = true};
    struct store_fetched fetched;
    struct mc_item *item = store_peek(local->store, key, now, &fetched);

    if (watched(local, COMMAND_WATCH_FETCHERS))
        emit_get(local, fd, key, item);
    if (item) {
        before.found = true;
        before.clsid = fetched.clsid;
        before.nvalue = item_nvalue(local->store, item);
        store_put(local->store, item);
    }
    return before;
}

struct watch_before watch_look_now(const struct call *call, struct slice key)
{
    return look(call->local, call->client->fd, key, call->now);
}

/* --- changes ------------------------------------------------------------- */

void watch_deleted_now(const struct call *call, struct slice key, const struct watch_before *before,
                       const char *command)
{
    struct event event = {
        .classes = COMMAND_WATCH_DELETIONS,
        .type = EVENT_ITEM_DELETED,
        .command = command,
        .clsid = (uint8_t)before->clsid,
        .nvalue = before->nvalue,
    };

    if (watched(call->local, COMMAND_WATCH_DELETIONS))
        emit(call->local, &event, key);
}

static const char *mode_text(enum store_mode mode)
{
    static const char *const texts[] = {
        [STORE_SET] = "set",       [STORE_ADD] = "add",         [STORE_REPLACE] = "replace",
        [STORE_APPEND] = "append", [STORE_PREPEND] = "prepend", [STORE_CAS] = "cas",
    };

    return texts[mode];
}

static const char *result_text(enum store_result result, enum store_mode mode)
{
    switch (result) {
    case STORE_DONE:
        return "stored";
    case STORE_EXISTS:
        return "exists";
    case STORE_MISS:
        return mode == STORE_CAS ? "not_found" : "not_stored";
    case STORE_TOO_LARGE:
        return "too_large";
    case STORE_NO_MEMORY:
        return "no_memory";
    case STORE_NOT_STORED:
    case STORE_NON_NUMERIC:
        break;
    }
    return "not_stored";
}

static void emit_store(struct command_local *local, int fd, struct slice key,
                       enum store_result result, enum store_mode mode,
                       const struct watch_store *stored, rel_time now)
{
    struct event event = {
        .classes = COMMAND_WATCH_MUTATIONS,
        .type = EVENT_ITEM_STORE,
        .status = result_text(result, mode),
        .command = mode_text(mode),
        .ttl = stored->expiry > now ? stored->expiry - now : 0,
        .clsid = (uint8_t)stored->clsid,
        .fd = fd,
    };

    if (watched(local, COMMAND_WATCH_MUTATIONS))
        emit(local, &event, key);
}

static void look_at_stored(struct command_local *local, struct slice key, rel_time now,
                           struct watch_store *out)
{
    struct store_fetched fetched;
    struct mc_item *item = store_peek(local->store, key, now, &fetched);

    if (item) {
        out->clsid = fetched.clsid;
        out->expiry = fetched.expiry;
        store_put(local->store, item);
    }
}

void watch_storing(struct command_local *local, int fd, const struct mc_item *item, rel_time now,
                   struct watch_store *out)
{
    out->key = item_key(item);
    memcpy(out->bytes, out->key.ptr, out->key.len);
    out->key.ptr = out->bytes;
    out->clsid = item_class(local->store, item);
    out->expiry = item->exptime;
    look(local, fd, out->key, now);
}

void watch_stored(struct command_local *local, int fd, struct watch_store *stored,
                  enum store_mode mode, enum store_result result, rel_time now)
{
    if (result == STORE_DONE && (mode == STORE_APPEND || mode == STORE_PREPEND))
        look_at_stored(local, stored->key, now, stored);
    emit_store(local, fd, stored->key, result, mode, stored, now);
}

void watch_refused_now(const struct call *call, struct slice key, enum store_result result)
{
    static const enum store_mode modes[] = {
        [VERB_ADD] = STORE_ADD,       [VERB_REPLACE] = STORE_REPLACE,
        [VERB_APPEND] = STORE_APPEND, [VERB_PREPEND] = STORE_PREPEND,
        [VERB_CAS] = STORE_CAS,
    };
    enum verb verb = call->request->verb;
    bool known = verb >= VERB_ADD && verb <= VERB_CAS;

    emit_store(call->local, call->client->fd, key, result, known ? modes[verb] : STORE_SET,
               &(struct watch_store){0}, call->now);
}

void watch_arith_now(const struct call *call, struct slice key, const struct watch_before *before,
                     enum store_result result)
{
    struct watch_store stored = {0};

    if (before->found || result != STORE_DONE)
        return;
    /* memcached creates the number by an add, which looks the key up once more. */
    if (watched(call->local, COMMAND_WATCH_FETCHERS))
        emit_get(call->local, call->client->fd, key, NULL);
    look_at_stored(call->local, key, call->now, &stored);
    emit_store(call->local, call->client->fd, key, result, STORE_ADD, &stored, call->now);
}

/* --- events of other layers ------------------------------------------------ */

const uint32_t *command_watched(const struct command_local *local)
{
    return &local->commands->logger.wanted;
}

/* Strips the line end of a text request. */
static struct slice without_newline(struct slice request)
{
    if (request.len > 0 && proto_protocol(request.ptr[0]) == PROTOCOL_TEXT)
        while (request.len > 0 && strchr("\r\n", request.ptr[request.len - 1]))
            request.len--;
    return request;
}

void command_emit_request(struct command_local *local, const struct command_client *client,
                          struct slice request)
{
    struct event event = {
        .classes = COMMAND_WATCH_RAWCMDS,
        .type = EVENT_COMMAND,
        .fd = client->fd,
    };

    emit(local, &event, without_newline(request));
}

void command_emit_words(struct command_local *local, uint32_t classes, struct slice words)
{
    struct event event = {.classes = classes, .type = EVENT_WORDS};

    emit(local, &event, words);
}

static void on_store_item(void *context, const struct store_item_event *from)
{
    struct commands *commands = context;
    struct event event = {
        .classes = COMMAND_WATCH_EVICTIONS,
        .type = EVENT_ITEM_REMOVED,
        .clsid = (uint8_t)from->clsid,
        .fetched = from->fetched,
        .status = from->type,
        .ttl = from->ttl,
        .idle = from->idle,
        .bucket = from->bucket,
    };

    logger_emit(&commands->logger.shared->ring, &event, from->key);
}

static void on_store_words(void *context, struct slice words)
{
    struct commands *commands = context;
    struct event event = {.classes = COMMAND_WATCH_SYSEVENTS, .type = EVENT_WORDS};

    logger_emit(&commands->logger.shared->ring, &event, words);
}

void watch_events(struct commands *commands)
{
    const struct store_events events = {
        .context = commands,
        .wanted = &commands->logger.wanted_of_store,
        .item = on_store_item,
        .system = on_store_words,
    };

    store_set_events(commands->store, &events);
}

/* --- the command ----------------------------------------------------------- */

static const struct {
    struct slice word;
    uint32_t class;
} classes[] = {
    {{"fetchers", 8}, COMMAND_WATCH_FETCHERS},   {{"mutations", 9}, COMMAND_WATCH_MUTATIONS},
    {{"evictions", 9}, COMMAND_WATCH_EVICTIONS}, {{"sysevents", 9}, COMMAND_WATCH_SYSEVENTS},
    {{"rawcmds", 7}, COMMAND_WATCH_RAWCMDS},     {{"connevents", 10}, COMMAND_WATCH_CONNEVENTS},
    {{"deletions", 9}, COMMAND_WATCH_DELETIONS},
};

/* 0: no class has this name. */
static uint32_t class_of(struct slice word)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (slice_equal(word, classes[i].word))
            return classes[i].class;
    return 0;
}

enum command_next command_watch(struct call *call)
{
    struct commands *commands = call->local->commands;
    const struct request *request = call->request;
    uint32_t wanted = request->ntokens == 1 ? COMMAND_WATCH_FETCHERS : 0;

    if (!commands->config.watch_enabled)
        return answer(call, SLICE("CLIENT_ERROR watch commands not allowed\r\n"));
    for (size_t i = 1; i < request->ntokens; i++) {
        uint32_t class = class_of(request->tokens[i]);

        if (class == 0)
            return answer(call, SLICE("ERROR\r\n"));
        wanted |= class;
    }
    if (call->client->transport == COMMAND_DATAGRAM)
        return answer(call, SLICE("CLIENT_ERROR watch needs a connection\r\n"));
    switch (logger_watch(&commands->logger, wanted, &call->client->stream)) {
    case LOGGER_DONE:
        break;
    case LOGGER_TOO_MANY:
        return answer(call, SLICE("WATCHER_TOO_MANY log watcher limit reached\r\n"));
    case LOGGER_FAILED:
        return answer(call, SLICE("WATCHER_FAILED failed to add log watcher\r\n"));
    }
    answer(call, SLICE("OK\r\n"));
    return COMMAND_TO_STREAM;
}
