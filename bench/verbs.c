/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/verbs.h"

#include <stdio.h>
#include <string.h>

#include "bench/keys.h"
#include "bench/options.h"

enum { HEAD = 24, AT_CAS = 16, FLAGS = 4, GETK = 0x0c };

static const char *const names[] = {[VERB_GET] = "get",
                                    [VERB_GETS] = "gets",
                                    [VERB_META] = "mg",
                                    [VERB_BINARY] = "getk",
                                    [VERB_MANY] = "get10"};

enum verb verb_of(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum verb)i;
    usage_error("a verb is get, gets, mg, getk or get10, not %s", name);
}

/* A header of the binary protocol. */
static void put_head(char *out, uint8_t magic, size_t nkey, size_t nextras, size_t nbody)
{
    memset(out, 0, HEAD);
    out[0] = (char)magic;
    out[1] = GETK;
    out[3] = (char)nkey;
    out[4] = (char)nextras;
    out[10] = (char)(nbody >> 8);
    out[11] = (char)nbody;
}

/* A get of several keys. */
static size_t put_many(const struct items *items, uint32_t index, char *out)
{
    size_t n = (size_t)sprintf(out, "get");

    for (uint32_t i = 0; i < VERBS_KEYS; i++) {
        out[n++] = ' ';
        items_key(items, index + i, out + n);
        n += items->key_size;
    }
    return n + (size_t)sprintf(out + n, "\r\n");
}

/* Each reply but its end, and that of all. */
static size_t many_reply(const struct items *items, uint32_t index, char *out)
{
    size_t n = 0, nend = strlen("END\r\n");

    for (uint32_t i = 0; i < VERBS_KEYS; i++)
        n += items_reply(items, index + i, 0, out + n) - nend;
    return n + nend;
}

size_t verb_request(enum verb verb, const struct items *items, uint32_t index, char *out)
{
    size_t n;

    if (verb == VERB_BINARY) {
        put_head(out, 0x80, items->key_size, 0, items->key_size);
        items_key(items, index, out + HEAD);
        return HEAD + items->key_size;
    }
    if (verb == VERB_MANY)
        return put_many(items, index, out);
    n = (size_t)sprintf(out, "%s ", names[verb]);
    items_key(items, index, out + n);
    n += items->key_size;
    return n + (size_t)sprintf(out + n, verb == VERB_META ? " v f t s\r\n" : "\r\n");
}

static size_t binary_reply(const struct items *items, uint32_t index, bool miss, const char *got,
                           size_t ngot, char *out)
{
    size_t nvalue = miss ? 0 : items_length(items, index), nflags = miss ? 0 : FLAGS;
    size_t n = HEAD;

    put_head(out, 0x81, items->key_size, nflags, nflags + items->key_size + nvalue);
    out[7] = miss;
    if (!miss && ngot >= HEAD)
        memcpy(out + AT_CAS, got + AT_CAS, 8);
    memset(out + n, 0, nflags);
    n += nflags;
    items_key(items, index, out + n);
    n += items->key_size;
    memcpy(out + n, items_value(items, index, 0), nvalue);
    return n + nvalue;
}

/* The id of "VALUE key flags bytes id\r\n...". */
static unsigned long long id_of(const char *got)
{
    unsigned long long id = 0;

    return sscanf(got, "VALUE %*s %*u %*u %llu", &id) == 1 ? id : 0;
}

size_t verb_reply(enum verb verb, const struct items *items, uint32_t index, const char *got,
                  size_t ngot, char *out)
{
    bool miss = index & BENCH_MISS;
    size_t nvalue = items_length(items, index), n = 0;

    if (verb == VERB_BINARY)
        return binary_reply(items, index, miss, got, ngot, out);
    if (miss)
        return (size_t)sprintf(out, verb == VERB_META ? "EN\r\n" : "END\r\n");
    if (verb == VERB_MANY)
        return many_reply(items, index, out);
    if (verb == VERB_GET)
        return items_reply(items, index, 0, out);
    if (verb == VERB_META) {
        n = (size_t)sprintf(out, "VA %zu f0 t-1 s%zu\r\n", nvalue, nvalue);
    } else {
        n = (size_t)sprintf(out, "VALUE ");
        items_key(items, index, out + n);
        n += items->key_size;
        n += (size_t)sprintf(out + n, " 0 %zu %llu\r\n", nvalue, id_of(got));
    }
    memcpy(out + n, items_value(items, index, 0), nvalue);
    n += nvalue;
    return n + (size_t)sprintf(out + n, verb == VERB_META ? "\r\n" : "\r\nEND\r\n");
}
