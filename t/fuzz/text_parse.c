/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is taken as a stream of text requests. What must hold for each line: the parser reads
 * nothing outside (the sanitizer's job: the bytes end where the allocation ends), consumes exactly
 * up to the first newline, finds slices only inside, waits while the newline is missing, does not
 * look at what follows, and reads a usual line as it reads it word by word.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static ssize_t parse(const char *bytes, size_t len, struct request *request)
{
    memset(request, 0, sizeof(*request));
    return proto_parse_text((struct slice){bytes, len}, request);
}

static void inside(struct slice part, const char *line, size_t len)
{
    if (part.len)
        must(part.ptr >= line && part.ptr + part.len <= line + len);
}

static void check_slices(const struct request *request, const char *line, size_t len)
{
    struct slice keys = request->keys;
    struct slice key;
    size_t i;

    must(request->ntokens <= PROTO_MAX_TOKENS);
    inside(request->key, line, len);
    inside(request->keys, line, len);
    inside(request->meta.flags, line, len);
    for (i = 0; i < request->ntokens; i++)
        inside(request->tokens[i], line, len);
    while (proto_next_key(&keys, &key)) {
        must(key.len > 0 && !memchr(key.ptr, ' ', key.len) && !memchr(key.ptr, '\n', key.len));
        inside(key, line, len);
    }
    must(!request->has_value || (request->nvalue <= PROTO_NVALUE_MAX && request->key.len > 0 &&
                                 request->key.len <= PROTO_KEY_MAX &&
                                 (!request->error.len || request->verb == VERB_META_SET)));
}

/* A blank before the line takes it off the short way. */
static void check_long_way(const struct request *request, const char *line, size_t len)
{
    char *longer = malloc(len + 1);
    struct request other;

    must(longer != NULL);
    longer[0] = ' ';
    memcpy(longer + 1, line, len);
    must(parse(longer, len + 1, &other) == (ssize_t)len + 1);
    must(other.verb == request->verb && other.noreply == request->noreply &&
         other.has_value == request->has_value && slice_equal(other.error, request->error) &&
         slice_equal(other.key, request->key) && slice_equal(other.keys, request->keys) &&
         other.client_flags == request->client_flags && other.exptime == request->exptime &&
         other.nvalue == request->nvalue && other.cas == request->cas &&
         other.delta == request->delta && other.meta.given == request->meta.given &&
         slice_equal(other.meta.flags, request->meta.flags) &&
         other.meta.mode == request->meta.mode && other.meta.vivify == request->meta.vivify &&
         other.meta.recache == request->meta.recache &&
         other.meta.initial == request->meta.initial &&
         other.meta.new_cas == request->meta.new_cas);
    free(longer);
}

/* The line at the start of bytes; false: there is none. */
static bool check_line(const char *bytes, size_t size, size_t *len)
{
    const char *newline = size ? memchr(bytes, '\n', size) : NULL;
    struct request request, alone;
    ssize_t n = parse(bytes, size, &request);

    if (!newline) {
        must(n == 0 || (n == -1 && size > PROTO_LINE_MAX));
        return false;
    }
    must(n == newline - bytes + 1);
    *len = (size_t)n;
    check_slices(&request, bytes, *len);
    must(parse(bytes, *len, &alone) == n && memcmp(&alone, &request, sizeof(alone)) == 0);
    check_long_way(&request, bytes, *len);
    n = parse(bytes, *len - 1, &alone);
    must(n == 0 || (n == -1 && *len - 1 > PROTO_LINE_MAX));
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = malloc(size ? size : 1);
    size_t at = 0;
    size_t len = 0;

    must(bytes != NULL);
    if (size)
        memcpy(bytes, data, size);
    while (check_line(bytes + at, size - at, &len))
        at += len;
    free(bytes);
    return 0;
}
