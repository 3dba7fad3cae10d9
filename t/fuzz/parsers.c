/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chain's request parser and the server's parser read the same random bytes. What must hold:
 * the chain's reports each write no later than the server has the command, and where a command ends
 * for the server it ends for the chain, or the chain is lost; skipping what need not be parsed
 * changes nothing; after a loss there are no events. The response parser must only survive them,
 * and report nothing after a loss.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/proto.h"
#include "t/lib/parsed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OVER = REQ_ANSWERED | REQ_UNCERTAIN | REQ_SILENT, HASHES = 1024 };

/* The events of one command, or of bytes up to its end. */
struct predicted {
    __u64 hashes[HASHES];
    size_t nhashes;
    size_t nover;
    bool all;
    bool lost;
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void note(struct predicted *predicted, const struct request_parser *p, __u32 events)
{
    must(!predicted->lost);
    if (events & REQ_WRITE && predicted->nhashes < HASHES)
        predicted->hashes[predicted->nhashes++] = p->hash;
    predicted->all |= (events & REQ_WRITE_ALL) || predicted->nhashes == HASHES;
    predicted->nover += (events & OVER) != 0;
    predicted->lost |= events & REQ_LOST;
}

static void step(struct request_parser *p, const char *bytes, size_t n, struct predicted *predicted)
{
    const char *end = bytes + n;
    __u32 events;

    while ((events = parsed_request(p, &bytes, end)))
        note(predicted, p, events);
}

static void must_write(const struct predicted *predicted, struct slice key)
{
    bool seen = predicted->all || predicted->lost || key.len == 0 || key.len > PROTO_KEY_MAX;
    size_t i;

    for (i = 0; i < predicted->nhashes && !seen; i++)
        seen = predicted->hashes[i] == hash_of(parsed_seeds, key.ptr, key.len);
    must(seen);
}

static bool meta_writes(const struct request *request)
{
    return request->verb != VERB_META_GET || proto_meta_has(request, 'T') ||
           proto_meta_has(request, 'N') || proto_meta_has(request, 'E') ||
           proto_meta_has(request, 'R');
}

enum written { NOTHING, ONE_KEY, KEYS, META, ALL };

static const uint8_t written[VERB_SASL_STEP + 1] = {
    [VERB_GAT] = KEYS,         [VERB_GATS] = KEYS,
    [VERB_TOUCH] = ONE_KEY,    [VERB_SET] = ONE_KEY,
    [VERB_ADD] = ONE_KEY,      [VERB_REPLACE] = ONE_KEY,
    [VERB_APPEND] = ONE_KEY,   [VERB_PREPEND] = ONE_KEY,
    [VERB_CAS] = ONE_KEY,      [VERB_INCR] = ONE_KEY,
    [VERB_DECR] = ONE_KEY,     [VERB_DELETE] = ONE_KEY,
    [VERB_FLUSH_ALL] = ALL,    [VERB_CACHE_MEMLIMIT] = ALL,
    [VERB_SLABS] = ALL,        [VERB_LRU] = ALL,
    [VERB_EXTSTORE] = ALL,     [VERB_REFRESH_CERTS] = ALL,
    [VERB_META_GET] = META,    [VERB_META_SET] = META,
    [VERB_META_DELETE] = META, [VERB_META_ARITH] = META,
    [VERB_BMC] = ALL,
};

/* The server executes this request: its writes must have been reported. */
static void check_writes(const struct request *request, const struct predicted *predicted)
{
    enum written what = (enum written)written[request->verb];
    struct slice keys = request->keys;
    struct slice key;

    if (what == META && !meta_writes(request))
        return;
    if (what == ALL || (what == META && proto_meta_has(request, 'b')))
        must(predicted->all || predicted->lost);
    else if (what != NOTHING)
        must_write(predicted, request->key);
    while (what == KEYS && !request->binary && proto_next_key(&keys, &key))
        must_write(predicted, key);
}

/*
 * The length of the command at `bytes`; 0: it is not complete, or the server closes the connection.
 */
static size_t command(enum protocol protocol, const char *bytes, size_t n, struct request *request)
{
    size_t tail = protocol == PROTOCOL_BINARY ? 0 : 2;
    ssize_t head;

    memset(request, 0, sizeof(*request));
    head = proto_parse(protocol, (struct slice){bytes, n}, request);
    if (head <= 0)
        return 0;
    if (!request->has_value)
        return (size_t)head;
    return n - (size_t)head < request->nvalue + tail ? 0 : (size_t)head + request->nvalue + tail;
}

static bool is_last(const struct request *request)
{
    return request->verb == VERB_QUIT || request->verb == VERB_HTTP ||
           request->verb == VERB_SHUTDOWN || request->verb == VERB_WATCH ||
           (request->binary && request->status != BINARY_OK);
}

static void check_requests(const char *bytes, size_t size)
{
    enum protocol protocol = proto_protocol(bytes[0]);
    struct predicted predicted;
    struct request request;
    struct request_parser p;
    size_t at = 0, n;

    req_init(&p, PARSER_ANY);
    while (at < size && (n = command(protocol, bytes + at, size - at, &request)) > 0) {
        predicted = (struct predicted){.nhashes = 0};
        step(&p, bytes + at, n, &predicted);
        if (request.error.len == 0 && !(request.binary && request.status != BINARY_OK))
            check_writes(&request, &predicted);
        if (predicted.lost || is_last(&request))
            return;
        must(req_between(&p) && predicted.nover == 1);
        at += n;
    }
}

/*
 * Skipping what need not be parsed, in pieces whose lengths depend on the bytes, changes nothing.
 */
static void check_pieces(const char *bytes, size_t size)
{
    struct predicted whole = {.nhashes = 0}, pieces = {.nhashes = 0};
    const char *at = bytes, *end = bytes, *last = bytes + size;
    size_t next = 0;
    struct request_parser p;
    __u32 events;

    req_init(&p, PARSER_ANY);
    step(&p, bytes, size, &whole);
    req_init(&p, PARSER_ANY);
    while (end < last) {
        next = next * 31 + (uint8_t)*end;
        end += (size_t)(last - end) < 1 + next % 16 ? (size_t)(last - end) : 1 + next % 16;
        while ((events = parsed_leaping(&p, &at, end)))
            note(&pieces, &p, events);
    }
    must(memcmp(whole.hashes, pieces.hashes, whole.nhashes * sizeof(*whole.hashes)) == 0 &&
         whole.nhashes == pieces.nhashes && whole.nover == pieces.nover &&
         whole.all == pieces.all && whole.lost == pieces.lost);
}

static void check_responses(const char *bytes, size_t size)
{
    const char *at = bytes;
    struct response_parser p;
    bool lost = false;
    __u32 events;

    resp_init(&p, PARSER_ANY);
    while ((events = parsed_response(&p, &at, bytes + size))) {
        must(!lost);
        lost = events & RESP_LOST;
        must(!(events & RESP_COMPLETE) || resp_between(&p));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = malloc(size ? size : 1);

    must(bytes != NULL);
    if (size) {
        memcpy(bytes, data, size);
        check_requests(bytes, size);
        check_pieces(bytes, size);
        check_responses(bytes, size);
    }
    free(bytes);
    return 0;
}
