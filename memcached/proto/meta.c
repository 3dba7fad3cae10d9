/* SPDX-License-Identifier: BSD-3-Clause */
#include "proto/meta.h"

#include "base/base64.h"
#include "base/num.h"

enum {
    MAX_FLAGS = 17,   /* one less behind a value's length */
    OPAQUE_MAX = 32,  /* its letter included */
    FLAG_LIMIT = 127, /* memcached reports bytes from here on as duplicates */
};

#define NO_COMMAND   SLICE("ERROR\r\n")
#define BAD_FORMAT   SLICE("CLIENT_ERROR bad command line format\r\n")
#define BAD_TOKEN    SLICE("CLIENT_ERROR bad token in command line format\r\n")
#define BAD_KEY      SLICE("CLIENT_ERROR error decoding key\r\n")
#define BAD_MODE     SLICE("CLIENT_ERROR incorrect length for M token\r\n")
#define BAD_DELTA    SLICE("CLIENT_ERROR invalid numeric delta value\r\n")
#define BAD_INITIAL  SLICE("CLIENT_ERROR invalid numeric initial value\r\n")
#define LONG_OPAQUE  SLICE("CLIENT_ERROR opaque token too long\r\n")
#define INVALID      SLICE("CLIENT_ERROR invalid flag\r\n")
#define DUPLICATE    SLICE("CLIENT_ERROR duplicate flag\r\n")
#define EITHER       SLICE("CLIENT_ERROR invalid or duplicate flag\r\n")
#define MANY_FLAGS   SLICE("CLIENT_ERROR options flags too long\r\n")
#define GET_MANY     SLICE("CLIENT_ERROR options flags are too long\r\n")
#define SET_BAD_MODE SLICE("CLIENT_ERROR invalid mode for ms M token\r\n")
#define ADD_BAD_MODE SLICE("CLIENT_ERROR invalid mode for ma M token\r\n")

static bool decodes(struct slice key)
{
    char bytes[BASE64_MAX_BYTES(PROTO_KEY_MAX)];
    size_t n;

    return base64_decode(bytes, key, &n);
}

/*
 * Reads the value of a flag. Every command accepts all flags and reads their values, also those
 * that it ignores.
 */
static bool read_value(char flag, struct slice value, struct request *request)
{
    struct request_meta *meta = &request->meta;

    switch (flag) {
    case 'T':
        return num_cut_i32(value, &request->exptime);
    case 'N':
        return num_cut_i32(value, &meta->vivify);
    case 'R':
        return num_cut_i32(value, &meta->recache);
    case 'C':
        return num_parse_u64(value, &request->cas);
    case 'E':
        return num_parse_u64(value, &meta->new_cas);
    case 'F':
        return num_cut_u32(value, &request->client_flags);
    case 'D':
        return num_parse_u64(value, &request->delta);
    case 'J':
        return num_parse_u64(value, &meta->initial);
    case 'M':
        meta->mode = value.len == 1 ? *value.ptr : 0;
        return value.len == 1;
    case 'b':
        return decodes(request->key);
    default:
        return true;
    }
}

/* The error of a bad value; a bad F keeps the error of an earlier flag. */
static struct slice value_error(char flag, struct slice before)
{
    switch (flag) {
    case 'F':
        return before;
    case 'D':
        return BAD_DELTA;
    case 'J':
        return BAD_INITIAL;
    case 'M':
        return BAD_MODE;
    case 'b':
        return BAD_KEY;
    default:
        return BAD_TOKEN;
    }
}

static bool is_one_of(char c, struct slice letters)
{
    return memchr(letters.ptr, c, letters.len) != NULL;
}

static bool is_known(char flag)
{
    return is_one_of(flag, SLICE("CDEFIJLMNOPRTbcfhklqstuv"));
}

/* Reads the flags; of several bad values the last is reported. Empty: no error. */
static struct slice parse_flags(struct request *request)
{
    struct slice flags = request->meta.flags;
    struct slice error = BAD_FORMAT;
    struct slice word;
    bool good = true;

    while (proto_next_key(&flags, &word)) {
        struct slice value = {word.ptr + 1, word.len - 1};
        char flag = *word.ptr;

        if ((unsigned char)flag >= FLAG_LIMIT || (is_known(flag) && proto_meta_has(request, flag)))
            return DUPLICATE;
        if (!is_known(flag))
            return INVALID;
        request->meta.given |= 1ull << (flag - 'A');
        if (!read_value(flag, value, request)) {
            error = value_error(flag, error);
            good = false;
        }
    }
    return good ? (struct slice){0} : error;
}

/* Checks flags whose values could be read. Empty: no error. */
static struct slice check_flags(const struct request *request)
{
    struct slice flags = request->meta.flags;
    char mode = request->meta.mode;
    struct slice word;

    if (mode && request->verb == VERB_META_SET && !is_one_of(mode, SLICE("EAPRS")))
        return SET_BAD_MODE;
    if (mode && request->verb == VERB_META_ARITH && !is_one_of(mode, SLICE("I+D-")))
        return ADD_BAD_MODE;
    while (proto_next_key(&flags, &word))
        if (*word.ptr == 'O' && word.len > OPAQUE_MAX)
            return LONG_OPAQUE;
    return (struct slice){0};
}

static bool too_many(struct slice flags, unsigned int limit)
{
    unsigned int n = 0;
    struct slice word;

    while (n <= limit && proto_next_key(&flags, &word))
        n++;
    return n > limit;
}

/* Parses the value's length of ms. From then on a value follows, whatever else is wrong. */
static bool parse_length(struct slice *rest, struct request *request)
{
    struct slice word;
    int64_t nvalue;

    if (!proto_next_key(rest, &word) || !num_parse_i64(word, &nvalue) || nvalue < 0 ||
        nvalue > PROTO_NVALUE_MAX) {
        request->error = BAD_FORMAT;
        return false;
    }
    request->nvalue = (uint64_t)nvalue;
    request->has_value = true;
    return true;
}

/* me reads its first flag only, and knows only b. */
static void parse_debug(struct slice rest, struct request *request)
{
    struct slice word;

    if (proto_next_key(&rest, &word) && slice_equal(word, SLICE("b"))) {
        request->meta.given = 1ull << ('b' - 'A');
        if (!decodes(request->key))
            request->error = BAD_FORMAT;
    }
}

void proto_parse_meta(struct slice rest, struct request *request)
{
    enum verb verb = request->verb;

    request->delta = 1;
    if (verb == VERB_META_NOOP)
        return;
    if (!proto_next_key(&rest, &request->key)) {
        request->error = verb == VERB_META_DEBUG ? BAD_FORMAT : NO_COMMAND;
        return;
    }
    if (request->key.len > PROTO_KEY_MAX) {
        request->error = BAD_FORMAT;
        return;
    }
    if (verb == VERB_META_DEBUG) {
        parse_debug(rest, request);
        return;
    }
    /* The length of a value is a word like the flags. */
    if (too_many(rest, MAX_FLAGS)) {
        request->error = verb == VERB_META_GET ? GET_MANY : MANY_FLAGS;
        return;
    }
    if (verb == VERB_META_SET && !parse_length(&rest, request))
        return;
    request->meta.flags = rest;
    request->error = parse_flags(request);
    if (request->error.len && (verb == VERB_META_DELETE || verb == VERB_META_ARITH))
        request->error = EITHER;
    else if (!request->error.len)
        request->error = check_flags(request);
}
