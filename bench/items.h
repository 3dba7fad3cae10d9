/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * items: the keys and values that the load generators store, ask for and expect, and the
 * connections they use.
 *
 * A value is the alphabet repeated, from a letter on that its key's index and its version say: a
 * reader knows the version modulo ITEMS_VERSIONS, and that all bytes are of the same one.
 */
#ifndef BENCH_ITEMS_H
#define BENCH_ITEMS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workload;

enum {
    ITEMS_KEY_MAX = 250,
    ITEMS_VALUE_MAX = 1 << 20,
    ITEMS_TEXT_MAX = ITEMS_VALUE_MAX + ITEMS_KEY_MAX + 64,
    ITEMS_VERSIONS = 26,
};

struct items {
    size_t key_size;   /* 8 to ITEMS_KEY_MAX */
    size_t value_size; /* up to ITEMS_VALUE_MAX */
    size_t value_min;  /* with sizes from here to value_size; 0: all have value_size */
    bool touch;        /* asked for by gat, which the kernel path leaves to the server */
    uint64_t ttl;      /* seconds after which items of odd index expire, 0: never */
    char *letters;     /* the alphabet repeated: the value of index i starts at i % 26 */
    const struct workload *workload; /* decides the sizes; NULL: those above do */
    uint64_t seed;                   /* of its sizes */
};

/* Exits when a size is out of range or memory is short. */
void items_init(struct items *items, uint64_t key_size, uint64_t value_size);
/* The same with the sizes of a workload. */
void items_init_workload(struct items *items, const struct workload *workload, uint64_t seed);
void items_fini(struct items *items);
/* Returns the key's length. */
size_t items_key(const struct items *items, uint32_t index, char *key);
/* Bytes of a value. */
size_t items_length(const struct items *items, uint32_t index);
const char *items_value(const struct items *items, uint32_t index, uint32_t version);
/* "get KEY\r\n", or gat, and "set KEY ...\r\n"; return the length. */
size_t items_get(const struct items *items, uint32_t index, char *out);
size_t items_set(const struct items *items, uint32_t index, uint32_t version, const char *noreply,
                 char *out);
/* The reply to a get that hits, without a frame header. */
size_t items_reply(const struct items *items, uint32_t index, uint32_t version, char *out);
/*
 * Whether n bytes are those of such a reply from byte `at` on. *version: that of the bytes before,
 * or -1, and then of these. room: ITEMS_TEXT_MAX bytes.
 */
bool items_is_part(const struct items *items, uint32_t index, size_t at, const char *text, size_t n,
                   char *room, int *version);
/* Bytes of the whole reply. */
size_t items_reply_length(const struct items *items, uint32_t index);

/* HOST:PORT (IPv4); exits when it is malformed. */
struct sockaddr_in address_of(const char *text);
/* A connected TCP socket; exits on failure. */
int tcp_connect(const struct sockaddr_in *address);
/* Stores nkeys keys over one connection and waits until the server has them. */
void items_populate(const struct items *items, uint32_t first, uint32_t nkeys,
                    const struct sockaddr_in *address);

uint64_t now_ns(void);
/* Sorts n numbers, the least first. The one in the middle. */
double sort_median(double *numbers, size_t n);

#endif
