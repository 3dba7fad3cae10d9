/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/items.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/keys.h"
#include "bench/options.h"
#include "bench/workload.h"

enum { LETTERS = ITEMS_VERSIONS, POPULATE_BYTES = 1 << 16 };

void items_init(struct items *items, uint64_t key_size, uint64_t value_size)
{
    if (key_size < BENCH_KEY_TAIL || key_size > ITEMS_KEY_MAX)
        usage_error("key size: %d to %d", BENCH_KEY_TAIL, ITEMS_KEY_MAX);
    if (value_size > ITEMS_VALUE_MAX)
        usage_error("value size: at most %d", ITEMS_VALUE_MAX);
    *items = (struct items){.key_size = key_size, .value_size = value_size};
    items->letters = malloc(value_size + LETTERS);
    if (!items->letters)
        fail("out of memory");
    for (size_t i = 0; i < value_size + LETTERS; i++)
        items->letters[i] = (char)('a' + i % LETTERS);
}

void items_fini(struct items *items)
{
    free(items->letters);
}

void items_init_workload(struct items *items, const struct workload *workload, uint64_t seed)
{
    items_init(items, BENCH_KEY_TAIL, workload->value ? workload->value : WORKLOAD_VALUE_MAX);
    items->workload = workload;
    items->seed = seed;
}

static size_t key_length(const struct items *items, uint32_t index)
{
    return items->workload ? workload_key(items->workload, items->seed, index) : items->key_size;
}

size_t items_key(const struct items *items, uint32_t index, char *key)
{
    uint64_t tail = bench_key_tail(index);
    size_t nkey = key_length(items, index);

    memset(key, 'k', nkey - BENCH_KEY_TAIL);
    memcpy(key + nkey - BENCH_KEY_TAIL, &tail, BENCH_KEY_TAIL);
    return nkey;
}

size_t items_length(const struct items *items, uint32_t index)
{
    if (items->workload)
        return workload_value(items->workload, items->seed, index);
    if (!items->value_min)
        return items->value_size;
    return items->value_min + bench_below(bench_random(bench_random(index)),
                                          (uint32_t)(items->value_size - items->value_min + 1));
}

const char *items_value(const struct items *items, uint32_t index, uint32_t version)
{
    return items->letters + (index % ITEMS_VERSIONS + version % ITEMS_VERSIONS) % ITEMS_VERSIONS;
}

size_t items_get(const struct items *items, uint32_t index, char *out)
{
    const char *verb = items->touch ? "gat 0 " : "get ";
    size_t n = strlen(verb);

    memcpy(out, verb, n);
    n += items_key(items, index, out + n);
    memcpy(out + n, "\r\n", 2);
    return n + 2;
}

size_t items_set(const struct items *items, uint32_t index, uint32_t version, const char *noreply,
                 char *out)
{
    size_t nvalue = items_length(items, index);
    size_t n = 4;

    memcpy(out, "set ", 4);
    n += items_key(items, index, out + n);
    n += (size_t)sprintf(out + n, " 0 %llu %zu%s\r\n",
                         (unsigned long long)(index % 2 ? items->ttl : 0), nvalue, noreply);
    memcpy(out + n, items_value(items, index, version), nvalue);
    n += nvalue;
    memcpy(out + n, "\r\n", 2);
    return n + 2;
}

/* The reply's first line. */
static size_t reply_head(const struct items *items, uint32_t index, size_t nvalue, char *out)
{
    size_t n = 6;

    memcpy(out, "VALUE ", 6);
    n += items_key(items, index, out + n);
    return n + (size_t)sprintf(out + n, " 0 %zu\r\n", nvalue);
}

size_t items_reply(const struct items *items, uint32_t index, uint32_t version, char *out)
{
    size_t nvalue = items_length(items, index);
    size_t n = reply_head(items, index, nvalue, out);

    memcpy(out + n, items_value(items, index, version), nvalue);
    n += nvalue;
    memcpy(out + n, "\r\nEND\r\n", 7);
    return n + 7;
}

size_t items_reply_length(const struct items *items, uint32_t index)
{
    char head[ITEMS_KEY_MAX + 32];
    size_t nvalue = items_length(items, index);

    return reply_head(items, index, nvalue, head) + nvalue + 7;
}

bool items_is_part(const struct items *items, uint32_t index, size_t at, const char *text, size_t n,
                   char *room, int *version)
{
    size_t whole = items_reply_length(items, index), nvalue = items_length(items, index);
    size_t head = whole - 7 - nvalue, first = at > head ? at : head;

    if (*version < 0 && first < at + n && first < head + nvalue) {
        size_t letter = (size_t)(text[first - at] - 'a') + 26 * ITEMS_VERSIONS;

        *version = (int)((letter - index % ITEMS_VERSIONS - (first - head) % ITEMS_VERSIONS) %
                         ITEMS_VERSIONS);
    }
    items_reply(items, index, *version < 0 ? 0 : (uint32_t)*version, room);
    return at + n <= whole && memcmp(room + at, text, n) == 0;
}

struct sockaddr_in address_of(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *colon = strrchr(text, ':');
    char host[INET_ADDRSTRLEN];
    unsigned long port;
    char *end;

    if (!colon || (size_t)(colon - text) >= sizeof(host))
        usage_error("not an ADDRESS:PORT: %s", text);
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    port = strtoul(colon + 1, &end, 10);
    if (!port || port > 65535 || *end || inet_pton(AF_INET, host, &address.sin_addr) != 1)
        usage_error("not an IPv4 ADDRESS:PORT: %s", text);
    address.sin_port = htons((uint16_t)port);
    return address;
}

int tcp_connect(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)))
        fail("cannot connect over TCP: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static void send_all(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

        if (sent < 0)
            fail("storing keys: %s", strerror(errno));
        bytes += sent;
        n -= (size_t)sent;
    }
}

/* Sets have no reply, so the first line that comes is the version, or an error. */
static void wait_until_stored(int fd)
{
    static const char request[] = "version\r\n";
    char line[256];
    size_t n = 0;

    send_all(fd, request, sizeof(request) - 1);
    while (n < sizeof(line) - 1 && !memchr(line, '\n', n)) {
        ssize_t got = recv(fd, line + n, sizeof(line) - 1 - n, 0);

        if (got <= 0)
            fail("storing keys: the server closed the connection");
        n += (size_t)got;
    }
    line[n] = '\0';
    if (strncmp(line, "VERSION", 7) != 0)
        fail("storing keys: the server said %s", line);
}

void items_populate(const struct items *items, uint32_t first, uint32_t nkeys,
                    const struct sockaddr_in *address)
{
    size_t room = POPULATE_BYTES + ITEMS_TEXT_MAX;
    char *buffer = malloc(room);
    int fd = tcp_connect(address);
    size_t n = 0;

    if (!buffer)
        fail("out of memory");
    for (uint32_t i = 0; i < nkeys; i++) {
        n += items_set(items, first + i, 0, " noreply", buffer + n);
        if (n >= POPULATE_BYTES) {
            send_all(fd, buffer, n);
            n = 0;
        }
    }
    send_all(fd, buffer, n);
    wait_until_stored(fd);
    close(fd);
    free(buffer);
}

uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double sort_median(double *numbers, size_t n)
{
    qsort(numbers, n, sizeof(*numbers), compare);
    return numbers[n / 2];
}
