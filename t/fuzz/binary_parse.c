/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is taken as a stream of binary requests. What must hold for each: the parser reads
 * nothing outside (the sanitizer's job: the bytes end where the allocation ends), waits while
 * header, extras and key are not all there, consumes exactly those, finds the key only inside, does
 * not look at what follows, and never returns a value longer than the header's length.
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

/* The parser sees exactly these bytes, in an allocation of their own. */
static ssize_t parse(const char *bytes, size_t len, struct request *request, size_t *key_at)
{
    char *copy = malloc(len ? len : 1);
    ssize_t n;

    must(copy != NULL);
    memcpy(copy, bytes, len);
    memset(request, 0, sizeof(*request));
    n = proto_parse_binary((struct slice){copy, len}, request);
    *key_at = 0;
    if (n > 0 && request->key.len) {
        must(request->key.ptr >= copy + PROTO_BINARY_HEADER &&
             request->key.ptr + request->key.len == copy + n);
        *key_at = (size_t)(request->key.ptr - copy);
    }
    request->key.ptr = NULL;
    free(copy);
    return n;
}

static uint32_t body_length(const char *bytes)
{
    const unsigned char *p = (const unsigned char *)bytes + 8;

    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void check_request(const struct request *request, const char *bytes, size_t consumed)
{
    must(request->binary && request->id.opcode == (uint8_t)bytes[1]);
    must(request->key.len <= PROTO_KEY_MAX && request->nvalue <= PROTO_NVALUE_MAX);
    must(request->has_value || request->nvalue == 0);
    if (request->status == BINARY_OK)
        must(consumed - PROTO_BINARY_HEADER + request->nvalue == body_length(bytes));
    else
        must(consumed == PROTO_BINARY_HEADER);
}

/* The request at the start of bytes; 0: the rest is none. */
static size_t check_one(const char *bytes, size_t size)
{
    struct request request, alone;
    size_t at, alone_at;
    ssize_t n = parse(bytes, size, &request, &at);
    size_t i;

    if (n <= 0) {
        must(n == 0 ? size < PROTO_BINARY_HEADER + 255 + PROTO_KEY_MAX : bytes[0] != '\x80');
        return 0;
    }
    check_request(&request, bytes, (size_t)n);
    must(parse(bytes, (size_t)n, &alone, &alone_at) == n && alone_at == at &&
         memcmp(&alone, &request, sizeof(alone)) == 0);
    for (i = 0; i < (size_t)n; i++)
        must(parse(bytes, i, &alone, &alone_at) == 0);
    return (size_t)n + request.nvalue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    size_t len;

    while (size > 0 && (len = check_one(bytes, size)) > 0 && len <= size) {
        bytes += len;
        size -= len;
    }
    return 0;
}
