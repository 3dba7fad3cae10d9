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

enum { LETTERS = 26, POPULATE_BYTES = 1 << 16 };

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

void items_key(const struct items *items, uint32_t index, char *key)
{
    uint64_t tail = bench_key_tail(index);

    memset(key, 'k', items->key_size - BENCH_KEY_TAIL);
    memcpy(key + items->key_size - BENCH_KEY_TAIL, &tail, BENCH_KEY_TAIL);
}

size_t items_length(const struct items *items, uint32_t index)
{
    if (!items->value_min)
        return items->value_size;
    return items->value_min + bench_below(bench_random(bench_random(index)),
                                          (uint32_t)(items->value_size - items->value_min + 1));
}

const char *items_value(const struct items *items, uint32_t index)
{
    return items->letters + index % LETTERS;
}

size_t items_get(const struct items *items, uint32_t index, char *out)
{
    memcpy(out, "get ", 4);
    items_key(items, index, out + 4);
    memcpy(out + 4 + items->key_size, "\r\n", 2);
    return items->key_size + 6;
}

size_t items_set(const struct items *items, uint32_t index, const char *noreply, char *out)
{
    size_t nvalue = items_length(items, index);
    size_t n = 4;

    memcpy(out, "set ", 4);
    items_key(items, index, out + n);
    n += items->key_size;
    n += (size_t)sprintf(out + n, " 0 %llu %zu%s\r\n",
                         (unsigned long long)(index % 2 ? items->ttl : 0), nvalue, noreply);
    memcpy(out + n, items_value(items, index), nvalue);
    n += nvalue;
    memcpy(out + n, "\r\n", 2);
    return n + 2;
}

size_t items_reply(const struct items *items, uint32_t index, char *out)
{
    size_t nvalue = items_length(items, index);
    size_t n = 6;

    memcpy(out, "VALUE ", 6);
    items_key(items, index, out + n);
    n += items->key_size;
    n += (size_t)sprintf(out + n, " 0 %zu\r\n", nvalue);
    memcpy(out + n, items_value(items, index), nvalue);
    n += nvalue;
    memcpy(out + n, "\r\nEND\r\n", 7);
    return n + 7;
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
        n += items_set(items, first + i, " noreply", buffer + n);
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
