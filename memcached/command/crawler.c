/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crawler: `lru_crawler`. The lines of metadump and mgdump go from the crawler's thread through a
 * stream to the connection. The crawler waits for a slow client without holding a lock. It closes a
 * client that reads nothing for half a minute (store_show), and one whose dump `lru_crawler
 * disable` aborted: only a dump that ends with END or EN is complete.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/num.h"
#include "base/stream.h"
#include "command/call.h"
#include "store/store_crawler.h"
#include "store/store_tuning.h"

enum {
    SLEEP_MAX = 1000000,   /* microseconds */
    RING_BYTES = 1 << 18,  /* bytes that may wait for the client */
    TEXT_BYTES = 1 << 14,  /* bytes that are written to the stream at once */
    LINE_MAX_BYTES = 1024, /* a key with each byte escaped to three, and numbers */
};

_Static_assert(LINE_MAX_BYTES > 3 * PROTO_KEY_MAX + 6 * NUM_U64_MAX + 64, "a line fits");

/* A dump in progress, owned by the crawler's thread. */
struct dump {
    struct stream *stream;
    struct clock clock;
    size_t (*add)(const struct dump *dump, char *out, const struct store_shown *shown);
    struct slice last; /* its last line: END or EN */
    size_t n;
    char text[TEXT_BYTES];
};

/* --- lines ------------------------------------------------------------------ */

/* RFC 3986, section 2.3: what need not be escaped in a URI. */
static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static size_t put(char *out, struct slice bytes)
{
    memcpy(out, bytes.ptr, bytes.len);
    return bytes.len;
}

static size_t put_uri(char *out, struct slice key)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0, i;

    for (i = 0; i < key.len; i++) {
        unsigned char c = (unsigned char)key.ptr[i];

        if (is_unreserved(c)) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        }
    }
    return n;
}

static size_t put_i64(char *out, int64_t number)
{
    if (number >= 0)
        return num_format_u64(out, (uint64_t)number);
    *out = '-';
    return 1 + num_format_u64(out + 1, -(uint64_t)number);
}

/* A line of metadump. */
static size_t add_meta(const struct dump *dump, char *out, const struct store_shown *shown)
{
    char *at = out;

    at += put(at, SLICE("key="));
    at += put_uri(at, shown->key);
    at += put(at, SLICE(" exp="));
    at += put_i64(at, shown->exptime ? dump->clock.base_unix + shown->exptime : -1);
    at += put(at, SLICE(" la="));
    at += put_i64(at, dump->clock.base_unix + shown->last_use);
    at += put(at, SLICE(" cas="));
    at += num_format_u64(at, shown->cas);
    at += put(at, shown->fetched ? SLICE(" fetch=yes cls=") : SLICE(" fetch=no cls="));
    at += num_format_u64(at, shown->clsid);
    at += put(at, SLICE(" size="));
    at += num_format_u64(at, shown->size);
    at += put(at, SLICE("\n"));
    return (size_t)(at - out);
}

/* Whether a key can be written in a command without encoding. */
static bool is_word(const struct store_shown *shown)
{
    size_t i;

    for (i = 0; i < shown->key.len; i++) {
        unsigned char c = (unsigned char)shown->key.ptr[i];

        if (c <= ' ' || c == 0x7f)
            return false;
    }
    return !shown->binary_key;
}

/* A line of mgdump: the command that gets the item. */
static size_t add_mg(const struct dump *dump, char *out, const struct store_shown *shown)
{
    char *at = out;

    (void)dump;
    at += put(at, SLICE("mg "));
    if (is_word(shown)) {
        at += put(at, shown->key);
    } else {
        at += base64_encode(at, shown->key);
        at += put(at, SLICE(" b"));
    }
    at += put(at, SLICE("\r\n"));
    return (size_t)(at - out);
}

/* --- the crawler's thread ------------------------------------------------------ */

static enum store_taken take(void *context, const struct store_shown *shown)
{
    struct dump *dump = context;

    if (!shown) {
        return stream_is_detached(dump->stream)                          ? STORE_ENOUGH
               : stream_has_room(dump->stream, dump->n + dump->last.len) ? STORE_TAKEN
                                                                         : STORE_FULL;
    }
    if (sizeof(dump->text) - dump->n < LINE_MAX_BYTES) {
        if (!stream_write(dump->stream, (struct slice){dump->text, dump->n}))
            return stream_is_detached(dump->stream) ? STORE_ENOUGH : STORE_FULL;
        dump->n = 0;
    }
    dump->n += dump->add(dump, dump->text + dump->n, shown);
    return STORE_TAKEN;
}

static void wait_room(void *context, unsigned int ms)
{
    struct dump *dump = context;

    stream_wait_room(dump->stream, sizeof(dump->text) + dump->last.len, ms);
}

/* An incomplete dump has no last line. */
static void end(void *context, bool whole)
{
    struct dump *dump = context;

    if (whole) {
        stream_write(dump->stream, (struct slice){dump->text, dump->n});
        stream_write(dump->stream, dump->last);
    }
    stream_end(dump->stream, !whole);
    free(dump);
}

static void dump_free(struct dump *dump)
{
    if (dump->stream) {
        stream_detach(dump->stream);
        stream_end(dump->stream, true);
    }
    free(dump);
}

/* --- commands -------------------------------------------------------------------- */

/* A set of classes, "1,2,3" or "all". False: something else. */
static bool parse_classes(struct slice text, uint64_t *out)
{
    uint64_t classes = 0;

    if (slice_equal(text, SLICE("all"))) {
        *out = STORE_ALL_CLASSES;
        return true;
    }
    while (text.len > 0) {
        const char *comma = memchr(text.ptr, ',', text.len);
        struct slice number = {text.ptr, comma ? (size_t)(comma - text.ptr) : text.len};
        size_t used = comma ? number.len + 1 : number.len;
        uint64_t clsid;

        if (number.len > 0) {
            if (!num_parse_u64(number, &clsid) || clsid == 0 || clsid >= MC_CLASSES)
                return false;
            classes |= 1ull << clsid;
        }
        text = (struct slice){text.ptr + used, text.len - used};
    }
    *out = classes;
    return true;
}

static enum command_next answer_crawl(struct call *call, enum store_crawl result)
{
    switch (result) {
    case STORE_CRAWL_STARTED:
        return answer(call, SLICE("OK\r\n"));
    case STORE_CRAWL_OFF:
        return answer(call, SLICE("CLIENT_ERROR lru crawler disabled\r\n"));
    case STORE_CRAWL_BUSY:
        return answer(call, SLICE("BUSY currently processing crawler request\r\n"));
    case STORE_CRAWL_EMPTY:
        return answer(call, SLICE("NOTSTARTED no items to crawl\r\n"));
    }
    return COMMAND_DONE;
}

static enum command_next bad_class(struct call *call)
{
    return answer(call, SLICE("BADCLASS invalid class id\r\n"));
}

static enum command_next crawl(struct call *call)
{
    struct store *store = call->local->commands->store;
    uint64_t classes;

    if (!store_crawler_running(store))
        return answer_crawl(call, STORE_CRAWL_OFF);
    if (!parse_classes(call->request->tokens[2], &classes))
        return bad_class(call);
    return answer_crawl(call, store_crawl(store, classes));
}

static struct dump *dump_new(struct call *call, bool keys)
{
    struct dump *dump = malloc(sizeof(*dump));

    if (!dump)
        return NULL;
    dump->stream = stream_new(RING_BYTES, false);
    dump->clock = call->local->commands->config.clock;
    dump->add = keys ? add_mg : add_meta;
    dump->last = keys ? SLICE("EN\r\n") : SLICE("END\r\n");
    dump->n = 0;
    if (!dump->stream) {
        free(dump);
        return NULL;
    }
    return dump;
}

static enum command_next start_dump(struct call *call, uint64_t classes, bool keys)
{
    struct dump *dump = dump_new(call, keys);
    const struct store_viewer viewer = {dump, take, wait_room, end};
    struct stream *stream;
    enum store_crawl result;

    if (!dump)
        return answer(call, SLICE("SERVER_ERROR out of memory\r\n"));
    stream = dump->stream;
    result = store_show(call->local->commands->store, classes, &viewer);
    if (result != STORE_CRAWL_STARTED) {
        dump_free(dump);
        return answer_crawl(call, result);
    }
    call->client->stream = stream;
    return COMMAND_TO_STREAM;
}

static enum command_next dump(struct call *call, bool keys)
{
    const struct commands *commands = call->local->commands;
    struct slice which = call->request->tokens[2];
    uint64_t classes = STORE_ALL_CLASSES;

    if (!store_crawler_running(commands->store))
        return answer_crawl(call, STORE_CRAWL_OFF);
    if (!commands->config.dump_enabled)
        return answer(call, SLICE("ERROR metadump not allowed\r\n"));
    /* "hash" asks memcached to walk the hash table, which this crawler does in any case. */
    if (!slice_equal(which, SLICE("hash")) && !parse_classes(which, &classes))
        return bad_class(call);
    if (call->client->transport == COMMAND_DATAGRAM)
        return answer(call, SLICE("CLIENT_ERROR a dump needs a connection\r\n"));
    return start_dump(call, classes, keys);
}

static enum command_next metadump(struct call *call)
{
    return dump(call, false);
}

static enum command_next mgdump(struct call *call)
{
    return dump(call, true);
}

static enum command_next set_sleep(struct call *call)
{
    uint64_t us;

    if (!num_parse_u64(call->request->tokens[2], &us))
        return answer(call, SLICE("CLIENT_ERROR bad command line format\r\n"));
    if (us > SLEEP_MAX)
        return answer(call, SLICE("CLIENT_ERROR sleep must be one second or less\r\n"));
    store_set_crawler_sleep(call->local->commands->store, (uint32_t)us);
    return answer(call, SLICE("OK\r\n"));
}

static enum command_next set_tocrawl(struct call *call)
{
    uint64_t nitems;

    if (!num_parse_u64(call->request->tokens[2], &nitems) || nitems > UINT32_MAX)
        return answer(call, SLICE("CLIENT_ERROR bad command line format\r\n"));
    store_set_crawler_tocrawl(call->local->commands->store, (uint32_t)nitems);
    return answer(call, SLICE("OK\r\n"));
}

static enum command_next enable(struct call *call)
{
    return answer(call, store_crawler_start(call->local->commands->store) == 0
                            ? SLICE("OK\r\n")
                            : SLICE("ERROR failed to start lru crawler thread\r\n"));
}

static enum command_next disable(struct call *call)
{
    store_crawler_stop(call->local->commands->store);
    return answer(call, SLICE("OK\r\n"));
}

static const struct {
    struct slice word;
    size_t ntokens; /* with both words */
    command_handler *run;
} subcommands[] = {
    {{"crawl", 5}, 3, crawl},     {{"metadump", 8}, 3, metadump},   {{"mgdump", 6}, 3, mgdump},
    {{"sleep", 5}, 3, set_sleep}, {{"tocrawl", 7}, 3, set_tocrawl}, {{"enable", 6}, 2, enable},
    {{"disable", 7}, 2, disable},
};

enum command_next command_lru_crawler(struct call *call)
{
    const struct request *request = call->request;
    size_t i;

    for (i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
        if (request->ntokens == subcommands[i].ntokens &&
            slice_equal(request->tokens[1], subcommands[i].word))
            return subcommands[i].run(call);
    return answer(call, SLICE("ERROR\r\n"));
}
