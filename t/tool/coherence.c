/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coherence: writers over TCP and readers over UDP against one server, and a check that no reply is
 * older than an acknowledged write.
 *
 * Each key has versions that its one writer numbers; every value contains its version, and an
 * absence is a version too. Before a reader sends a request it notes the last version that was
 * acknowledged, or seen by any reader (the floor); the answer must be one of the versions from
 * there to the last that was begun (the ceiling). That is linearizability of one key, for reads
 * that do not overlap each other.
 *
 *   coherence ADDRESS PORT WRITERS READERS KEYS READS WRITES SECONDS PERIOD [MOST RATIO]
 *
 * Ends after READS key reads and WRITES writes, or SECONDS, with a flush_all every PERIOD
 * milliseconds if that is not 0. A request has at most MOST keys (8): memcached 1.6 gives each a
 * reply of its own. Writers wait until there are RATIO times as many reads as writes (0). Prints
 * what it counted as "name number" lines, and exits with 1 if an answer was wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "t/tool/verdict.h"

enum {
    HISTORY = 256, /* versions whose absences are recorded; older absences are accepted */
    BURST = 32,    /* sets sent at once, at most */
    KEYS_MAX = 8,  /* of one request */
    VALUE_MAX = 640,
    APPENDS_MAX = 40, /* to one value before it is set anew */
    BINARY_HEAD = 24,
    BINARY_FLAGS = 4,
};

/* The form of a key's values decides which commands write it. */
enum kind { KIND_TEXT, KIND_UP, KIND_DOWN, KIND_APPEND, KINDS };

/* A decreasing number of a fixed length, so that decr never pads. */
static const uint64_t down_from = 9000000000000000000ull;

/*
 * begun is stored before the request is sent, acked after its answer was read, seen by readers
 * after theirs. absent[v % HISTORY] is written before begun becomes v: the readers' acquire of
 * begun pairs with that release.
 */
struct key {
    _Alignas(64) _Atomic uint64_t begun;
    _Atomic uint64_t acked;
    _Atomic uint64_t seen;
    _Atomic bool absent[HISTORY];
    uint64_t base; /* KIND_APPEND: the version of the last whole value; its writer's */
    bool there;    /* its writer's */
};

struct run {
    struct sockaddr_in server;
    unsigned int nwriters, nreaders, nkeys;
    uint64_t nreads, nwrites, seconds;
    int period;
    unsigned int most; /* keys of a request */
    uint64_t ratio;
    struct key *keys;
    pthread_rwlock_t flush; /* held for writing while flush_all is in flight */
    _Atomic bool stop;
    _Atomic uint64_t reads, hits, writes, flushes, lost, wrong, touched;
};

struct thread {
    pthread_t id;
    struct run *run;
    unsigned int index;
    uint64_t random;
};

/* --- values ----------------------------------------------------------------- */

static enum kind key_kind(unsigned int index)
{
    return (enum kind)(index % KINDS);
}

static int key_name(char *out, unsigned int index)
{
    /* Lengths of 5 to 44: words, rests of words, several words. */
    return sprintf(out, "%.*s%05u", (int)(index * 7 % 40),
                   "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop", index);
}

/* The numbers of a key contain the key and the version. */
static uint64_t number_of(unsigned int index, uint64_t version)
{
    return index * 1000000000000ull + version;
}

/* The text of a version: key and number again and again. */
static size_t text_render(char *out, unsigned int index, uint64_t version)
{
    size_t n = 1 + (size_t)(version * 2654435761u % 37), i;

    if (version % 5)
        n = 1 + n % 4;
    for (i = 0; i < n; i++)
        sprintf(out + 16 * i, "%05u%011llu", index, (unsigned long long)version);
    return 16 * n;
}

/* The number at `at`, of `n` digits at least 1. False: it is none. */
static bool take_digits(const char *at, size_t n, uint64_t *number)
{
    size_t i;

    *number = 0;
    for (i = 0; i < n && at[i] >= '0' && at[i] <= '9'; i++)
        *number = *number * 10 + (uint64_t)(at[i] - '0');
    return i == n && n > 0;
}

/* ,,,,KEYNUMBER.... and each comma and dot is a version. */
static bool append_version(unsigned int index, const char *value, size_t len, uint64_t *version)
{
    size_t i = 0;
    uint64_t key;

    while (i < len && value[i] == ',')
        i++;
    if (len < i + 16 || !take_digits(value + i, 5, &key) || key != index ||
        !take_digits(value + i + 5, 11, version))
        return false;
    for (i += 16; i < len; i++)
        if (value[i] != '.')
            return false;
    *version += len - 16;
    return true;
}

/* The version in a value. False: no value that this key ever had. */
static bool value_version(unsigned int index, const char *value, size_t len, uint64_t *version)
{
    enum kind kind = key_kind(index);
    char expected[VALUE_MAX];

    if (kind == KIND_UP || kind == KIND_DOWN) {
        if (!take_digits(value, len, version))
            return false;
        *version = (kind == KIND_UP ? *version : down_from - *version) - number_of(index, 0);
        return true;
    }
    if (kind == KIND_APPEND)
        return append_version(index, value, len, version);
    return len >= 16 && take_digits(value + 5, 11, version) &&
           text_render(expected, index, *version) == len && memcmp(expected, value, len) == 0;
}

/* --- writers ---------------------------------------------------------------- */

struct stream {
    int fd;
    char in[8192];
    size_t nin;
};

static void stream_open(struct stream *stream, const struct run *run)
{
    struct timeval patience = {.tv_sec = 20};
    int one = 1;

    stream->nin = 0;
    stream->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (stream->fd < 0 ||
        connect(stream->fd, (const struct sockaddr *)&run->server, sizeof(run->server)))
        fatal("connect: %s", strerror(errno));
    setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(stream->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

/* Sends and waits until the answer ends with `end`; the answer, NUL-terminated. */
static char *stream_ask(struct stream *stream, const char *request, size_t nrequest,
                        const char *end)
{
    size_t nend = strlen(end);
    ssize_t n;

    if (send(stream->fd, request, nrequest, MSG_NOSIGNAL) != (ssize_t)nrequest)
        fatal("send: %s", strerror(errno));
    stream->nin = 0;
    do {
        n = recv(stream->fd, stream->in + stream->nin, sizeof(stream->in) - 1 - stream->nin, 0);
        if (n <= 0)
            fatal("no answer to \"%.*s\": %s", (int)strcspn(request, "\r"), request,
                  n ? strerror(errno) : "closed");
        stream->nin += (size_t)n;
        stream->in[stream->nin] = '\0';
    } while (stream->nin < nend || memcmp(stream->in + stream->nin - nend, end, nend) != 0);
    return stream->in;
}

/* Sends n times; whether every answer is `want`. */
static bool stream_expect(struct stream *stream, const char *request, size_t nrequest,
                          const char *want, unsigned int n)
{
    size_t nwant = strlen(want), i;
    ssize_t got;

    if (send(stream->fd, request, nrequest, MSG_NOSIGNAL) != (ssize_t)nrequest)
        fatal("send: %s", strerror(errno));
    got = recv(stream->fd, stream->in, nwant * n, MSG_WAITALL);
    stream->in[got > 0 ? got : 0] = '\0';
    if (got != (ssize_t)(nwant * n))
        return false;
    for (i = 0; i < n; i++)
        if (memcmp(stream->in + i * nwant, want, nwant) != 0)
            return false;
    return true;
}

/* A write: its request is in `text`, its expected answer here. */
struct write {
    char text[VALUE_MAX + 512];
    size_t ntext;
    const char *want; /* the whole answer without \r\n; NULL: a number */
    bool absent;      /* the key is gone afterwards */
};

__attribute__((format(printf, 2, 3))) static void write_format(struct write *write,
                                                               const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write->ntext = (size_t)vsnprintf(write->text, sizeof(write->text), format, args);
    va_end(args);
}

static void write_store(struct write *write, const char *verb, const char *name, const char *value,
                        size_t nvalue)
{
    write_format(write, "%s %s 0 0 %zu\r\n%.*s\r\n", verb, name, nvalue, (int)nvalue, value);
    write->want = "STORED";
}

/* The value of a version that does not build on the one before. */
static size_t whole_value(char *out, unsigned int index, uint64_t version)
{
    uint64_t number = number_of(index, version);

    switch (key_kind(index)) {
    case KIND_UP:
        return (size_t)sprintf(out, "%llu", (unsigned long long)number);
    case KIND_DOWN:
        return (size_t)sprintf(out, "%llu", (unsigned long long)(down_from - number));
    case KIND_APPEND:
        return (size_t)sprintf(out, "%05u%011llu", index, (unsigned long long)version);
    case KIND_TEXT:
    case KINDS:
        break;
    }
    return text_render(out, index, version);
}

static void write_cas(struct write *write, struct stream *stream, const char *name,
                      const char *value, size_t nvalue)
{
    char request[128];
    unsigned long long cas = 0;
    int n = sprintf(request, "gets %s\r\n", name);
    const char *answer = stream_ask(stream, request, (size_t)n, "END\r\n");

    if (sscanf(answer, "VALUE %*s %*u %*u %llu", &cas) != 1)
        fatal("gets %s: \"%.60s\"", name, answer);
    write_format(write, "cas %s 0 0 %zu %llu\r\n%.*s\r\n", name, nvalue, cas, (int)nvalue, value);
    write->want = "STORED";
}

static void write_gone(struct write *write, const char *name, uint64_t random)
{
    write->absent = true;
    switch (random % 4) {
    case 0:
        write_format(write, "touch %s -1\r\n", name);
        write->want = "TOUCHED";
        break;
    case 1:
        write_format(write, "set %s 0 -1 1\r\nx\r\n", name);
        write->want = "STORED";
        break;
    default:
        write_format(write, "delete %s\r\n", name);
        write->want = "DELETED";
    }
}

/* Chooses the write that makes `version` of a key. */
static void write_choose(struct write *write, struct thread *thread, struct stream *stream,
                         unsigned int index, uint64_t version)
{
    struct key *key = &thread->run->keys[index];
    enum kind kind = key_kind(index);
    uint64_t random = next_random(&thread->random), which = random % 16;
    char name[64], value[VALUE_MAX];
    size_t nvalue = whole_value(value, index, version);

    key_name(name, index);
    write->absent = false;
    if (!key->there) {
        write_store(write, which % 2 ? "add" : "set", name, value, nvalue);
        key->base = version;
    } else if (which == 0) {
        write_gone(write, name, random / 16);
    } else if (kind == KIND_UP && which < 12) {
        write_format(write, "incr %s 1\r\n", name);
        write->want = NULL;
    } else if (kind == KIND_DOWN && which < 12) {
        write_format(write, "decr %s 1\r\n", name);
        write->want = NULL;
    } else if (kind == KIND_APPEND && which < 14 && version - key->base < APPENDS_MAX) {
        write_store(write, which % 2 ? "append" : "prepend", name, which % 2 ? "." : ",", 1);
    } else {
        key->base = version;
        if (which % 3 == 0)
            write_cas(write, stream, name, value, nvalue);
        else
            write_store(write, which % 3 == 1 ? "set" : "replace", name, value, nvalue);
    }
}

/* A touch changes no version; it must change no value either. */
static void touch_key(struct thread *thread, struct stream *stream, unsigned int index)
{
    char name[64], request[128];
    int n;

    key_name(name, index);
    n = sprintf(request, "touch %s %d\r\n", name,
                1000 + (int)(next_random(&thread->random) % 1000));
    if (strcmp(stream_ask(stream, request, (size_t)n, "\r\n"), "TOUCHED\r\n") != 0)
        report(&thread->run->wrong, "touch %s: \"%.40s\"", name, stream->in);
    atomic_fetch_add(&thread->run->touched, 1);
}

static void write_key(struct thread *thread, struct stream *stream, unsigned int index)
{
    struct run *run = thread->run;
    struct key *key = &run->keys[index];
    uint64_t version = atomic_load(&key->begun) + 1;
    struct write write;
    const char *answer;
    size_t nwant;

    if (key->there && next_random(&thread->random) % 16 == 0)
        touch_key(thread, stream, index);
    write_choose(&write, thread, stream, index, version);
    atomic_store(&key->absent[version % HISTORY], write.absent);
    atomic_store(&key->begun, version);
    answer = stream_ask(stream, write.text, write.ntext, "\r\n");
    nwant = write.want ? strlen(write.want) : strspn(answer, "0123456789");
    if ((write.want && strncmp(answer, write.want, nwant) != 0) || !nwant ||
        strcmp(answer + nwant, "\r\n") != 0)
        report(&run->wrong, "\"%.*s\" is answered \"%.40s\"", (int)strcspn(write.text, "\r"),
               write.text, answer);
    key->there = !write.absent;
    atomic_store(&key->acked, version);
    atomic_fetch_add(&run->writes, 1);
}

static unsigned int own_key(struct thread *thread)
{
    const struct run *run = thread->run;

    return (unsigned int)(next_random(&thread->random) % (run->nkeys / run->nwriters)) *
               run->nwriters +
           thread->index;
}

/* Sends sets of many values at once, so that memory is freed and allocated as fast as possible. */
static void write_burst(struct thread *thread, struct stream *stream)
{
    struct run *run = thread->run;
    char text[BURST * (VALUE_MAX + 128)], value[VALUE_MAX], name[64];
    unsigned int i, n = 1 + (unsigned int)(next_random(&thread->random) % BURST), indices[BURST];
    size_t ntext = 0, nvalue;
    struct key *key;
    uint64_t version;

    for (i = 0; i < n; i++) {
        indices[i] = own_key(thread);
        key = &run->keys[indices[i]];
        version = atomic_load(&key->begun) + 1;
        nvalue = whole_value(value, indices[i], version);
        key_name(name, indices[i]);
        ntext += (size_t)sprintf(text + ntext, "set %s 0 0 %zu\r\n%.*s\r\n", name, nvalue,
                                 (int)nvalue, value);
        atomic_store(&key->absent[version % HISTORY], false);
        atomic_store(&key->begun, version);
        key->base = version;
        key->there = true;
    }
    if (!stream_expect(stream, text, ntext, "STORED\r\n", n))
        report(&run->wrong, "a burst of sets is answered \"%.40s\"", stream->in);
    for (i = 0; i < n; i++)
        atomic_store(&run->keys[indices[i]].acked, atomic_load(&run->keys[indices[i]].begun));
    atomic_fetch_add(&run->writes, n);
}

static void *writer(void *argument)
{
    struct thread *thread = argument;
    struct run *run = thread->run;
    struct stream stream;

    stream_open(&stream, run);
    while (!atomic_load(&run->stop)) {
        if (atomic_load(&run->reads) < run->ratio * atomic_load(&run->writes)) {
            poll(NULL, 0, 1);
            continue;
        }
        pthread_rwlock_rdlock(&run->flush);
        if (next_random(&thread->random) % 4)
            write_key(thread, &stream, own_key(thread));
        else
            write_burst(thread, &stream);
        pthread_rwlock_unlock(&run->flush);
    }
    close(stream.fd);
    return NULL;
}

/* Makes every key absent from time to time. */
static void flush_all(struct run *run, struct stream *stream)
{
    unsigned int i;
    uint64_t version;

    pthread_rwlock_wrlock(&run->flush);
    for (i = 0; i < run->nkeys; i++) {
        version = atomic_load(&run->keys[i].begun) + 1;
        atomic_store(&run->keys[i].absent[version % HISTORY], true);
        atomic_store(&run->keys[i].begun, version);
    }
    if (strcmp(stream_ask(stream, "flush_all\r\n", 11, "\r\n"), "OK\r\n") != 0)
        report(&run->wrong, "flush_all: \"%.40s\"", stream->in);
    for (i = 0; i < run->nkeys; i++) {
        run->keys[i].there = false;
        atomic_store(&run->keys[i].acked, atomic_load(&run->keys[i].begun));
    }
    atomic_fetch_add(&run->flushes, 1);
    pthread_rwlock_unlock(&run->flush);
}

/* --- readers ---------------------------------------------------------------- */

enum verb { ASK_GET, ASK_GETS, ASK_META, ASK_BINARY, ASK_VERBS };

struct ask {
    enum verb verb;
    unsigned int nkeys;
    unsigned int keys[KEYS_MAX];
    uint64_t floor[KEYS_MAX];
};

static void raise_to(_Atomic uint64_t *at, uint64_t value)
{
    uint64_t old = atomic_load(at);

    while (old < value && !atomic_compare_exchange_weak(at, &old, value))
        ;
}

static void check_value(struct run *run, unsigned int index, uint64_t floor, const char *value,
                        size_t nvalue)
{
    struct key *key = &run->keys[index];
    uint64_t ceiling = atomic_load(&key->begun), version;

    if (!value_version(index, value, nvalue, &version))
        report(&run->wrong, "key %u: a value that was never written: \"%.*s\"", index, (int)nvalue,
               value);
    else if (version < floor)
        report(&run->wrong, "key %u: stale: version %llu, %llu was acknowledged", index,
               (unsigned long long)version, (unsigned long long)floor);
    else if (version > ceiling)
        report(&run->wrong, "key %u: version %llu, only %llu was begun", index,
               (unsigned long long)version, (unsigned long long)ceiling);
    else
        raise_to(&key->seen, version);
    atomic_fetch_add_explicit(&run->hits, 1, memory_order_relaxed);
}

static void check_absence(struct run *run, unsigned int index, uint64_t floor)
{
    struct key *key = &run->keys[index];
    uint64_t ceiling = atomic_load(&key->begun), version;

    if (ceiling - floor >= HISTORY - 1)
        return;
    for (version = floor; version <= ceiling; version++)
        if (atomic_load(&key->absent[version % HISTORY]))
            return;
    /* A writer may have overwritten the ring meanwhile. */
    if (atomic_load(&key->begun) - floor < HISTORY - 1)
        report(&run->wrong, "key %u: a miss, but it was there in all versions from %llu to %llu",
               index, (unsigned long long)floor, (unsigned long long)ceiling);
}

/*
 * Takes "VALUE name flags n\r\n...\r\n" off the text, with_cas: "... n id\r\n...". False: it does
 * not begin so.
 */
static bool take_value(const char **text, const char *end, const char *name, bool with_cas,
                       const char **value, size_t *nvalue)
{
    size_t nname = strlen(name);
    const char *at = *text;
    char *after;

    if (end - at < (ptrdiff_t)(6 + nname + 3) || memcmp(at, "VALUE ", 6) != 0 ||
        memcmp(at + 6, name, nname) != 0 || memcmp(at + 6 + nname, " 0 ", 3) != 0)
        return false;
    *nvalue = strtoul(at + 6 + nname + 3, &after, 10);
    if (with_cas && (*after != ' ' || strtoull(after + 1, &after, 10) == 0))
        return false;
    *value = after + 2;
    if (*value + *nvalue + 2 > end)
        return false;
    *text = *value + *nvalue + 2;
    return true;
}

/* "VA n\r\n...\r\n" or "EN\r\n" */
static void check_meta(struct run *run, const struct ask *ask, const char *text, size_t ntext)
{
    char *value = NULL;
    size_t nvalue = 0;

    if (memcmp(text, "VA ", 3) == 0)
        nvalue = strtoul(text + 3, &value, 10);
    if (value && (size_t)(value - text) + 2 + nvalue + 2 == ntext)
        check_value(run, ask->keys[0], ask->floor[0], value + 2, nvalue);
    else if (ntext == 4 && memcmp(text, "EN\r\n", 4) == 0)
        check_absence(run, ask->keys[0], ask->floor[0]);
    else
        report(&run->wrong, "mg is answered \"%.40s\"", text);
}

/* A header, flags, the key and the value; of a miss header and key. */
static void check_binary(struct run *run, const struct ask *ask, const char *text, size_t ntext)
{
    char name[64];
    size_t nname = (size_t)key_name(name, ask->keys[0]), nhead = BINARY_HEAD;
    bool miss = ntext > 7 && text[7] == 1;

    if (!miss)
        nhead += BINARY_FLAGS;
    if (ntext < nhead + nname || memcmp(text, "\x81\x0c", 2) != 0 || text[6] != 0 ||
        (!miss && text[7] != 0) || memcmp(text + nhead, name, nname) != 0 ||
        (miss && ntext != nhead + nname))
        report(&run->wrong, "%.40s: a binary get is answered with %zu bytes", name, ntext);
    else if (miss)
        check_absence(run, ask->keys[0], ask->floor[0]);
    else
        check_value(run, ask->keys[0], ask->floor[0], text + nhead + nname, ntext - nhead - nname);
}

static void check_answer(struct run *run, const struct ask *ask, const char *text, size_t ntext)
{
    const char *at = text, *end = text + ntext, *value;
    char name[64];
    unsigned int i;
    size_t nvalue;

    atomic_fetch_add_explicit(&run->reads, ask->nkeys, memory_order_relaxed);
    if (ask->verb == ASK_META) {
        check_meta(run, ask, text, ntext);
        return;
    }
    if (ask->verb == ASK_BINARY) {
        check_binary(run, ask, text, ntext);
        return;
    }
    for (i = 0; i < ask->nkeys; i++) {
        key_name(name, ask->keys[i]);
        if (take_value(&at, end, name, ask->verb == ASK_GETS, &value, &nvalue))
            check_value(run, ask->keys[i], ask->floor[i], value, nvalue);
        else
            check_absence(run, ask->keys[i], ask->floor[i]);
    }
    if (end - at != 5 || memcmp(at, "END\r\n", 5) != 0)
        report(&run->wrong, "an answer ends \"%.*s\"", (int)(end - at), at);
}

/* Chooses a key, and notes its floor. */
static unsigned int choose_key(struct thread *thread, struct ask *ask, unsigned int i)
{
    const struct run *run = thread->run;
    unsigned int index = (unsigned int)(next_random(&thread->random) % run->nkeys);
    uint64_t acked = atomic_load(&run->keys[index].acked);
    uint64_t seen = atomic_load(&run->keys[index].seen);

    ask->keys[i] = index;
    ask->floor[i] = acked > seen ? acked : seen;
    return index;
}

/* The request in the binary protocol: its length. */
static size_t render_binary(char *out, unsigned int index)
{
    size_t nkey = (size_t)key_name(out + BINARY_HEAD, index);

    memset(out, 0, BINARY_HEAD);
    memcpy(out, "\x80\x0c", 2);
    out[3] = out[11] = (char)nkey;
    return BINARY_HEAD + nkey;
}

static size_t render_ask(struct thread *thread, struct ask *ask, char *out)
{
    static const char *const verbs[] = {[ASK_GET] = "get", [ASK_GETS] = "gets", [ASK_META] = "mg"};
    unsigned int most = thread->run->most;
    bool several = most > 1 && (ask->verb == ASK_GET || ask->verb == ASK_GETS);
    unsigned int i;
    size_t n;

    ask->nkeys = several && next_random(&thread->random) % 3 == 0
                     ? 2 + (unsigned int)(next_random(&thread->random) % (most - 1))
                     : 1;
    if (ask->verb == ASK_BINARY)
        return render_binary(out, choose_key(thread, ask, 0));
    n = (size_t)sprintf(out, "%s", verbs[ask->verb]);
    for (i = 0; i < ask->nkeys; i++) {
        out[n++] = ' ';
        n += (size_t)key_name(out + n, choose_key(thread, ask, i));
    }
    return n + (size_t)sprintf(out + n, ask->verb == ASK_META ? " v\r\n" : "\r\n");
}

static void send_ask(struct thread *thread, int fd, struct ask *ask, uint16_t id)
{
    char text[1024] = {(char)(id >> 8), (char)id, 0, 0, 0, 1, 0, 0};
    uint64_t random = next_random(&thread->random) % 8;
    size_t n;

    /* Most often get, for which the kernel has a path of its own. */
    ask->verb = random < ASK_VERBS ? (enum verb)random : ASK_GET;
    n = FRAME + render_ask(thread, ask, text + FRAME);
    if (send(fd, text, n, 0) != (ssize_t)n && errno != ENOBUFS && errno != EAGAIN)
        fatal("send: %s", strerror(errno));
}

/* Sends requests and checks their replies. */
static void read_batch(struct thread *thread, int fd, uint16_t id)
{
    struct flight flight = {.id = id, .waiting = FLIGHT_ALL};
    struct run *run = thread->run;
    struct ask asks[BATCH];
    char text[2048];
    size_t ntext;
    int i;

    for (i = 0; i < BATCH; i++)
        send_ask(thread, fd, &asks[i], (uint16_t)(id + i));
    while ((i = flight_receive(&flight, fd, text, sizeof(text), &ntext)) >= 0)
        check_answer(run, &asks[i], text, ntext);
    atomic_fetch_add(&run->lost, (unsigned int)__builtin_popcount(flight.waiting));
}

static void *reader(void *argument)
{
    struct thread *thread = argument;
    struct run *run = thread->run;
    struct timeval patience = {.tv_usec = 500000};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint16_t id = (uint16_t)(thread->index * 1000);

    if (fd < 0 || connect(fd, (const struct sockaddr *)&run->server, sizeof(run->server)))
        fatal("socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    while (!atomic_load(&run->stop)) {
        read_batch(thread, fd, id);
        id = (uint16_t)(id + BATCH);
    }
    close(fd);
    return NULL;
}

/* --- the run ---------------------------------------------------------------- */

static void start(struct thread *threads, unsigned int n, struct run *run, void *(*main)(void *))
{
    unsigned int i;

    for (i = 0; i < n; i++) {
        threads[i] = (struct thread){
            .run = run, .index = i, .random = 0x9e3779b97f4a7c15ull * (i + 1) ^ (uintptr_t)main};
        if (pthread_create(&threads[i].id, NULL, main, &threads[i]))
            fatal("pthread_create");
    }
}

static void conduct(struct run *run)
{
    struct thread *writers = calloc(run->nwriters, sizeof(*writers));
    struct thread *readers = calloc(run->nreaders, sizeof(*readers));
    time_t end = time(NULL) + (time_t)run->seconds;
    struct stream stream;
    unsigned int i;

    if (!writers || !readers)
        fatal("out of memory");
    stream_open(&stream, run);
    flush_all(run, &stream);
    start(writers, run->nwriters, run, writer);
    start(readers, run->nreaders, run, reader);
    while (time(NULL) < end &&
           (atomic_load(&run->reads) < run->nreads || atomic_load(&run->writes) < run->nwrites)) {
        poll(NULL, 0, run->period ? run->period : 100);
        if (run->period)
            flush_all(run, &stream);
    }
    atomic_store(&run->stop, true);
    for (i = 0; i < run->nwriters; i++)
        pthread_join(writers[i].id, NULL);
    for (i = 0; i < run->nreaders; i++)
        pthread_join(readers[i].id, NULL);
    close(stream.fd);
    free(writers);
    free(readers);
}

int main(int argc, char **argv)
{
    /* Writers hold it for reading without a pause: flush_all must not wait for one. */
    struct run run = {.flush = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP};

    if (argc < 10 || argc > 12 || inet_pton(AF_INET, argv[1], &run.server.sin_addr) != 1)
        fatal("usage: coherence ADDRESS PORT WRITERS READERS KEYS READS WRITES SECONDS PERIOD "
              "[MOST RATIO]");
    run.server.sin_family = AF_INET;
    run.server.sin_port = htons((uint16_t)atoi(argv[2]));
    run.nwriters = (unsigned int)atoi(argv[3]);
    run.nreaders = (unsigned int)atoi(argv[4]);
    run.nkeys = (unsigned int)atoi(argv[5]);
    run.nreads = strtoull(argv[6], NULL, 10);
    run.nwrites = strtoull(argv[7], NULL, 10);
    run.seconds = strtoull(argv[8], NULL, 10);
    run.period = atoi(argv[9]);
    run.ratio = argc > 11 ? strtoull(argv[11], NULL, 10) : 0;
    run.most = argc > 10 ? (unsigned int)atoi(argv[10]) : KEYS_MAX;
    if (!run.nwriters || run.nkeys < run.nwriters || run.nkeys > 99999 || run.most > KEYS_MAX)
        fatal("coherence: at least one writer, and a key for each");
    run.keys = aligned_alloc(64, run.nkeys * sizeof(*run.keys));
    if (!run.keys)
        fatal("out of memory");
    memset(run.keys, 0, run.nkeys * sizeof(*run.keys));
    conduct(&run);
    printf(
        "reads %llu\nhits %llu\nwrites %llu\ntouches %llu\nflushes %llu\nlost %llu\nwrong %llu\n",
        (unsigned long long)run.reads, (unsigned long long)run.hits, (unsigned long long)run.writes,
        (unsigned long long)run.touched, (unsigned long long)run.flushes,
        (unsigned long long)run.lost, (unsigned long long)run.wrong);
    free(run.keys);
    return run.wrong ? 1 : 0;
}
