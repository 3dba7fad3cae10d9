/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lives: writers over TCP and readers over UDP and TCP against a server that is killed and started
 * again, and a check that no answer comes from an earlier life, which is one run of the server.
 *
 *   lives ADDRESS PORT WRITERS READERS KEYS FILL [MOST LIFE STREAMS]
 *
 * Reads commands, answers each with a line, and runs until its input ends:
 *
 *   life NUMBER BASE NEED   the last server has ended, the next one has not started. Values of
 *                           lives below BASE must not appear any more; acknowledged writes of
 *                           lives from NEED on must be found.
 *   counts                  "name number" pairs, in one line
 *
 * A value contains its key and its tag: the life in which it was written and a number that grows.
 * Each key has one writer, so no reader may see a tag below the last that was acknowledged when it
 * asked. A connection, and a reader's socket, belong to one life. Beside the writers one thread
 * fills FILL megabytes in each life, so that heap and table grow. A request has at most MOST keys
 * (4). LIFE: the server runs already, in this life. READERS use UDP, and STREAMS readers (0) TCP,
 * which are never to wait for an answer for ever.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "t/tool/verdict.h"

enum {
    THREADS_MAX = 16,
    KEYS_MAX = 4, /* of one request */
    SETS = 16,    /* of a writer in flight */

    HEAD = 23, /* of a value: "TAG KEY ", 16 hexadecimal and 5 decimal digits */
    VALUE_MAX = 800,
    BURST = 64 << 10,
    PATIENCE_US = 20000,
    /* A server may execute a late request late: no other connection may write meanwhile. */
    STREAM_US = 120000000,
    REST_MS = 1, /* between two attempts to reach a server that does not run */
};

#define TAG(life, number) ((uint64_t)(life) << 32 | (number))
#define LIFE(tag)         ((uint32_t)((tag) >> 32))

struct run {
    struct sockaddr_in server;
    unsigned int nwriters, nreaders, nstreams, nkeys, fill, most;
    _Atomic uint32_t life, base, need;
    _Atomic uint64_t *acked; /* the last tag of each key whose STORED was read; 0: none */
    _Atomic bool stop;
    _Atomic uint64_t reads, hits, writes, filled, connections, lost, wrong;
};

struct thread {
    pthread_t id;
    struct run *run;
    unsigned int index;
    uint64_t random;
    uint32_t number; /* of the last tag */
};

/* --- values ----------------------------------------------------------------- */

/* The head again and again, to a length that the tag decides. */
static size_t value_render(char *out, unsigned int key, uint64_t tag)
{
    size_t n = HEAD + (tag * 0x9e3779b97f4a7c15ull >> 32) % (VALUE_MAX - HEAD), i;

    sprintf(out, "%016" PRIx64 " %05u ", tag, key);
    for (i = HEAD; i < n; i++)
        out[i] = out[i - HEAD];
    return n;
}

static void value_check(struct run *run, unsigned int key, uint64_t floor, uint32_t base,
                        const char *value, size_t n)
{
    char want[VALUE_MAX + 1];
    uint64_t tag = n >= HEAD ? strtoull(value, NULL, 16) : 0;

    if (value_render(want, key, tag) != n || memcmp(want, value, n) != 0)
        report(&run->wrong, "k%05u is damaged or another's: \"%.*s\"", key, (int)(n < 40 ? n : 40),
               value);
    else if (LIFE(tag) < base || LIFE(tag) > atomic_load(&run->life))
        report(&run->wrong, "k%05u is of life %u, in life %u", key, LIFE(tag),
               atomic_load(&run->life));
    else if (tag < floor)
        report(&run->wrong, "k%05u is older (%" PRIx64 ") than acknowledged (%" PRIx64 ")", key,
               tag, floor);
    atomic_fetch_add_explicit(&run->hits, 1, memory_order_relaxed);
}

/* --- connections -------------------------------------------------------------- */

static void set_patience(int fd, long us)
{
    struct timeval patience = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

/* A socket that reaches the server of *life and no other. -1: there is none now. */
static int reach(struct run *run, int type, uint32_t *life)
{
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    if (fd < 0)
        fatal("socket: %s", strerror(errno));
    set_patience(fd, type == SOCK_STREAM ? STREAM_US : PATIENCE_US);
    *life = atomic_load(&run->life);
    if (!connect(fd, (const struct sockaddr *)&run->server, sizeof(run->server)) &&
        *life == atomic_load(&run->life))
        return fd;
    close(fd);
    return -1;
}

/* The same for a stream, once the server is there. -1: the run is over. */
static int reach_stream(struct run *run, uint32_t *life)
{
    int fd = -1;

    while (!atomic_load(&run->stop) && (fd = reach(run, SOCK_STREAM, life)) < 0)
        poll(NULL, 0, REST_MS);
    atomic_fetch_add(&run->connections, fd >= 0);
    return fd;
}

static bool send_all(int fd, const char *text, size_t n)
{
    ssize_t sent;

    for (; n > 0; text += sent, n -= (size_t)sent) {
        sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
    }
    return true;
}

/* --- writers ------------------------------------------------------------------ */

/* Whether the server answered every one of the sets; *nacked tells how many it did in any case. */
static bool read_stored(struct run *run, int fd, unsigned int wanted, unsigned int *nacked)
{
    static const char stored[] = "STORED\r\n";
    char in[SETS * 8];
    size_t have = 0, n = 8;
    ssize_t got;

    *nacked = 0;
    while (*nacked < wanted) {
        got = recv(fd, in + have, sizeof(in) - have, 0);
        if (got <= 0)
            return false;
        have += (size_t)got;
        for (; have >= n; have -= n, (*nacked)++) {
            if (memcmp(in, stored, n) != 0) {
                report(&run->wrong, "a set is answered \"%.*s\"", (int)have, in);
                return false;
            }
            memmove(in, in + n, have - n);
        }
    }
    return true;
}

static bool write_batch(struct thread *thread, int fd, uint32_t life)
{
    struct run *run = thread->run;
    char text[SETS * (VALUE_MAX + 64)], value[VALUE_MAX + 1];
    unsigned int keys[SETS], nacked, i;
    uint64_t tags[SETS];
    size_t n = 0, nvalue;
    bool good;

    for (i = 0; i < SETS; i++) {
        keys[i] = (unsigned int)(next_random(&thread->random) % (run->nkeys / run->nwriters)) *
                      run->nwriters +
                  thread->index;
        tags[i] = TAG(life, ++thread->number);
        nvalue = value_render(value, keys[i], tags[i]);
        n += (size_t)sprintf(text + n, "set k%05u 0 0 %zu\r\n%.*s\r\n", keys[i], nvalue,
                             (int)nvalue, value);
    }
    if (!send_all(fd, text, n))
        return false;
    good = read_stored(run, fd, SETS, &nacked);
    for (i = 0; i < nacked; i++)
        atomic_store(&run->acked[keys[i]], tags[i]);
    atomic_fetch_add(&run->writes, nacked);
    return good;
}

static void *writer(void *argument)
{
    struct thread *thread = argument;
    uint32_t life;
    int fd;

    while ((fd = reach_stream(thread->run, &life)) >= 0) {
        while (!atomic_load(&thread->run->stop) && write_batch(thread, fd, life))
            continue;
        close(fd);
    }
    return NULL;
}

/* A burst of sets of new keys, large and small. */
static size_t fill_render(struct thread *thread, char *text)
{
    size_t n = 0, nvalue;

    while (n < BURST - 8192) {
        nvalue = thread->number % 4 ? next_random(&thread->random) % 64
                                    : next_random(&thread->random) % 8000;
        n += (size_t)sprintf(text + n, "set f%010u 0 0 %zu noreply\r\n", ++thread->number, nvalue);
        memset(text + n, 'f', nvalue);
        memcpy(text + n + nvalue, "\r\n", 2);
        n += nvalue + 2;
    }
    return n;
}

static void *filler(void *argument)
{
    struct thread *thread = argument;
    struct run *run = thread->run;
    char *text = malloc(BURST);
    uint64_t left;
    uint32_t life;
    size_t n;
    int fd;

    while (text && (fd = reach_stream(run, &life)) >= 0) {
        for (left = (uint64_t)run->fill << 20; left >= BURST && !atomic_load(&run->stop);
             left -= n) {
            n = fill_render(thread, text);
            if (!send_all(fd, text, n))
                break;
            atomic_fetch_add(&run->filled, n);
        }
        while (!atomic_load(&run->stop) && life == atomic_load(&run->life))
            poll(NULL, 0, REST_MS);
        close(fd);
    }
    free(text);
    return NULL;
}

/* --- readers ------------------------------------------------------------------ */

struct ask {
    unsigned int nkeys, keys[KEYS_MAX];
    uint64_t floor[KEYS_MAX]; /* the tag that was acknowledged when it was sent */
};

struct batch {
    struct ask asks[BATCH];
    uint32_t life, base, need;
};

enum { ASK_BYTES = 128 };

/* A request for keys that are picked now: its bytes. */
static size_t ask_render(struct thread *thread, struct ask *ask, char *text)
{
    struct run *run = thread->run;
    size_t n = (size_t)sprintf(text, "get");
    unsigned int i;

    ask->nkeys = next_random(&thread->random) % 2
                     ? 1
                     : 1 + (unsigned int)(next_random(&thread->random) % run->most);
    for (i = 0; i < ask->nkeys; i++) {
        ask->keys[i] = (unsigned int)(next_random(&thread->random) % run->nkeys);
        ask->floor[i] = atomic_load(&run->acked[ask->keys[i]]);
        n += (size_t)sprintf(text + n, " k%05u", ask->keys[i]);
    }
    return n + (size_t)sprintf(text + n, "\r\n");
}

static void send_ask(struct thread *thread, int fd, struct ask *ask, uint16_t id)
{
    char text[FRAME + ASK_BYTES] = {(char)(id >> 8), (char)id, 0, 0, 0, 1, 0, 0};
    size_t n = FRAME + ask_render(thread, ask, text + FRAME);

    /* While there is no server the port is closed: that is an error of a later send. */
    (void)!send(fd, text, n, 0);
}

/* The value of `key` at *at, which moves behind it. NULL: another's, or none. */
static const char *take_value(const char **at, const char *end, unsigned int key, size_t *nvalue)
{
    unsigned int found;
    const char *value;
    int nhead = 0;

    if (sscanf(*at, "VALUE k%5u 0 %zu\r\n%n", &found, nvalue, &nhead) != 2 || !nhead ||
        found != key || *nvalue + 2 > (size_t)(end - *at - nhead))
        return NULL;
    value = *at + nhead;
    *at = value + *nvalue + 2;
    return value;
}

static void check_answer(struct run *run, const struct batch *batch, const struct ask *ask,
                         const char *text, size_t n)
{
    const char *at = text, *end = text + n, *value;
    bool same_life = batch->life == atomic_load(&run->life);
    size_t nvalue;
    unsigned int i;

    for (i = 0; i < ask->nkeys; i++) {
        value = take_value(&at, end, ask->keys[i], &nvalue);
        if (value)
            value_check(run, ask->keys[i], ask->floor[i], batch->base, value, nvalue);
        else if (same_life && ask->floor[i] && LIFE(ask->floor[i]) >= batch->need)
            report(&run->wrong, "k%05u is gone, of life %u, in life %u", ask->keys[i],
                   LIFE(ask->floor[i]), batch->life);
    }
    if (end - at != 5 || memcmp(at, "END\r\n", 5) != 0)
        report(&run->wrong, "an answer ends \"%.*s\"", (int)(end - at < 60 ? end - at : 60), at);
    atomic_fetch_add_explicit(&run->reads, ask->nkeys, memory_order_relaxed);
}

/* Sends requests and checks their replies. */
static void read_batch(struct thread *thread, int fd, uint16_t id, struct batch *batch)
{
    struct flight flight = {.id = id, .waiting = FLIGHT_ALL};
    struct run *run = thread->run;
    char text[2048];
    size_t ntext;
    int i;

    for (i = 0; i < BATCH; i++)
        send_ask(thread, fd, &batch->asks[i], (uint16_t)(id + i));
    while ((i = flight_receive(&flight, fd, text, sizeof(text), &ntext)) >= 0)
        check_answer(run, batch, &batch->asks[i], text, ntext);
    atomic_fetch_add(&run->lost, (unsigned int)__builtin_popcount(flight.waiting));
}

/* What may be read now, in the life of `batch`. False: it is over. */
static bool look_at_life(struct run *run, struct batch *batch)
{
    if (atomic_load(&run->stop))
        return false;
    batch->base = atomic_load(&run->base);
    batch->need = atomic_load(&run->need);
    /* Written before the life is: of this one or of one before. */
    return atomic_load(&run->life) == batch->life;
}

/* Sends requests until the life is over. */
static void read_life(struct thread *thread, int fd, uint32_t life)
{
    struct batch batch = {.life = life};
    uint16_t id = (uint16_t)next_random(&thread->random);

    while (look_at_life(thread->run, &batch)) {
        read_batch(thread, fd, id, &batch);
        id = (uint16_t)(id + BATCH);
    }
}

static void *reader(void *argument)
{
    struct thread *thread = argument;
    uint32_t life;
    int fd;

    while (!atomic_load(&thread->run->stop)) {
        fd = reach(thread->run, SOCK_DGRAM, &life);
        if (fd < 0)
            continue;
        read_life(thread, fd, life);
        close(fd);
    }
    return NULL;
}

/* A whole answer: its bytes. 0: the connection has ended before. */
static size_t receive_answer(struct run *run, int fd, char *text, size_t size)
{
    size_t n = 0;
    ssize_t got;

    while (n < 5 || memcmp(text + n - 5, "END\r\n", 5) != 0) {
        got = n < size ? recv(fd, text + n, size - n, 0) : 0;
        if (got <= 0) {
            if (n == size || (got < 0 && errno == EAGAIN))
                report(&run->wrong, "%s behind %zu bytes", got ? "a hang" : "no end", n);
            return 0;
        }
        n += (size_t)got;
    }
    return n;
}

/* One request after the other, until the life or the connection is over. */
static void read_stream(struct thread *thread, int fd, uint32_t life)
{
    struct batch batch = {.life = life};
    struct ask *ask = &batch.asks[0];
    char request[ASK_BYTES], text[KEYS_MAX * (VALUE_MAX + 64)];
    size_t n;

    while (look_at_life(thread->run, &batch)) {
        if (!send_all(fd, request, ask_render(thread, ask, request)) ||
            !(n = receive_answer(thread->run, fd, text, sizeof(text)))) {
            atomic_fetch_add(&thread->run->lost, 1);
            return;
        }
        check_answer(thread->run, &batch, ask, text, n);
    }
}

static void *stream_reader(void *argument)
{
    struct thread *thread = argument;
    uint32_t life;
    int fd;

    while ((fd = reach_stream(thread->run, &life)) >= 0) {
        read_stream(thread, fd, life);
        close(fd);
    }
    return NULL;
}

/* --- the run ---------------------------------------------------------------- */

static void start(struct thread *thread, struct run *run, unsigned int index, void *(*main)(void *))
{
    *thread = (struct thread){.run = run,
                              .index = index,
                              .random = 0x9e3779b97f4a7c15ull * (index + 1) ^ (uintptr_t)main};
    if (pthread_create(&thread->id, NULL, main, thread))
        fatal("pthread_create");
}

static void obey(struct run *run, const char *line)
{
    unsigned int life, base, need;

    if (sscanf(line, "life %u %u %u", &life, &base, &need) == 3) {
        atomic_store(&run->base, base);
        atomic_store(&run->need, need);
        atomic_store(&run->life, life);
        printf("ok\n");
    } else {
        printf("reads %" PRIu64 " hits %" PRIu64 " writes %" PRIu64 " filled %" PRIu64
               " connections %" PRIu64 " lost %" PRIu64 " wrong %" PRIu64 "\n",
               run->reads, run->hits, run->writes, run->filled, run->connections, run->lost,
               run->wrong);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct thread threads[THREADS_MAX];
    struct run run = {.server.sin_family = AF_INET};
    unsigned int n = 0, i;
    char line[128];

    if (argc < 7 || argc > 10 || inet_pton(AF_INET, argv[1], &run.server.sin_addr) != 1)
        fatal("usage: lives ADDRESS PORT WRITERS READERS KEYS FILL [MOST LIFE STREAMS]");
    run.server.sin_port = htons((uint16_t)atoi(argv[2]));
    run.nwriters = (unsigned int)atoi(argv[3]);
    run.nreaders = (unsigned int)atoi(argv[4]);
    run.nkeys = (unsigned int)atoi(argv[5]);
    run.fill = (unsigned int)atoi(argv[6]);
    run.most = argc > 7 ? (unsigned int)atoi(argv[7]) : KEYS_MAX;
    run.life = run.base = run.need = argc > 8 ? (uint32_t)atoi(argv[8]) : 0;
    run.nstreams = argc > 9 ? (unsigned int)atoi(argv[9]) : 0;
    if (!run.most || run.most > KEYS_MAX)
        fatal("lives: 1 to 4 keys of a request");
    if (!run.nwriters || run.nkeys < run.nwriters || run.nkeys > 99999 ||
        run.nwriters + run.nreaders + run.nstreams + 1 > THREADS_MAX)
        fatal("lives: a key for each writer, and 15 threads at most");
    run.acked = calloc(run.nkeys, sizeof(*run.acked));
    if (!run.acked)
        fatal("out of memory");
    for (i = 0; i < run.nwriters; i++)
        start(&threads[n++], &run, i, writer);
    for (i = 0; i < run.nreaders; i++)
        start(&threads[n++], &run, i, reader);
    for (i = 0; i < run.nstreams; i++)
        start(&threads[n++], &run, i, stream_reader);
    start(&threads[n++], &run, 0, filler);
    while (fgets(line, sizeof(line), stdin))
        obey(&run, line);
    atomic_store(&run.stop, true);
    for (i = 0; i < n; i++)
        pthread_join(threads[i].id, NULL);
    free(run.acked);
    return run.wrong ? 1 : 0;
}
