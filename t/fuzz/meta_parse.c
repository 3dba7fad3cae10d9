/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is taken as what follows the verb of a meta command, of each in turn. What must hold of
 * a line without an error: a key of a legal length, inside; each flag that is given is a word of
 * the line, and no word is anything else; the numbers of the words; and the same line with more
 * blanks is the same request.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VERB_LEN = 3, FLAGS_MAX = 18 };

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void inside(struct slice part, const char *line, size_t len)
{
    if (part.len)
        must(part.ptr >= line && part.ptr + part.len <= line + len);
}

static void check_flags(const struct request *request)
{
    struct slice flags = request->meta.flags;
    uint64_t seen = 0;
    unsigned int n = 0;
    struct slice word;

    while (proto_next_key(&flags, &word)) {
        must(*word.ptr >= 'A' && *word.ptr <= 'z' && proto_meta_has(request, *word.ptr));
        must(!(seen >> (*word.ptr - 'A') & 1) && ++n <= FLAGS_MAX);
        seen |= 1ull << (*word.ptr - 'A');
        must(*word.ptr != 'O' || word.len <= 32);
        must(*word.ptr != 'M' || request->meta.mode == word.ptr[1]);
    }
    must(seen == request->meta.given || request->verb == VERB_META_DEBUG);
}

static void check_request(const struct request *request, const char *line, size_t len)
{
    inside(request->key, line, len);
    inside(request->meta.flags, line, len);
    must(!request->noreply && !request->binary && request->ntokens == 0);
    must(!request->has_value || request->verb == VERB_META_SET);
    must(request->nvalue <= PROTO_NVALUE_MAX);
    if (request->error.len)
        return;
    must(request->verb == VERB_META_NOOP ||
         (request->key.len > 0 && request->key.len <= PROTO_KEY_MAX));
    must(request->has_value == (request->verb == VERB_META_SET));
    if (request->verb != VERB_META_NOOP)
        check_flags(request);
}

/* The same with each blank doubled. */
static void check_blanks(const struct request *request, const char *line, size_t len)
{
    char *wide = malloc(2 * len);
    struct request other = {0};
    size_t n = 0;

    must(wide != NULL);
    for (size_t i = 0; i < len; i++) {
        wide[n++] = line[i];
        if (line[i] == ' ')
            wide[n++] = ' ';
    }
    must(proto_parse_text((struct slice){wide, n}, &other) == (ssize_t)n);
    must(other.verb == request->verb && slice_equal(other.error, request->error) &&
         slice_equal(other.key, request->key) && other.meta.given == request->meta.given &&
         other.meta.mode == request->meta.mode && other.meta.vivify == request->meta.vivify &&
         other.meta.recache == request->meta.recache && other.exptime == request->exptime &&
         other.meta.initial == request->meta.initial && other.cas == request->cas &&
         other.meta.new_cas == request->meta.new_cas && other.nvalue == request->nvalue &&
         other.delta == request->delta && other.client_flags == request->client_flags);
    free(wide);
}

static void check_line(const char *line, size_t len)
{
    struct request request = {0};

    must(proto_parse_text((struct slice){line, len}, &request) == (ssize_t)len);
    must(request.verb >= VERB_META_GET && request.verb <= VERB_META_DEBUG);
    check_request(&request, line, len);
    check_blanks(&request, line, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char verbs[][VERB_LEN + 1] = {"mg ", "ms ", "md ", "ma ", "mn ", "me "};
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    size_t n = newline ? (size_t)(newline - data) : size;
    char *line = malloc(VERB_LEN + n + 1);

    must(line != NULL);
    if (n)
        memcpy(line + VERB_LEN, data, n);
    line[VERB_LEN + n] = '\n';
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        memcpy(line, verbs[i], VERB_LEN);
        check_line(line, VERB_LEN + n + 1);
    }
    free(line);
    return 0;
}
