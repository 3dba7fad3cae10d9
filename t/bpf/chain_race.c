/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets, fills and writes on two CPUs at once, the writes without packets and over UDP. No reply is
 * a mixture of two, none has a value that an acknowledged write replaced before the get arrived,
 * and some requests are answered. On a machine that is so busy that replies leave a second late the
 * second of these cannot be judged (doc/chain.md).
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/bpf/chain_lab.h"
#include "t/lib/tap.h"

enum {
    KEYS = 4,
    IDS = 24,     /* request ids: some are used by two requests at a time */
    CLIENTS = 2,  /* each on a CPU of its own */
    HELD = 3,     /* replies that the server delays, for each client */
    RUNS = 20000, /* of each client */
    MOST_RUNS = 2000000,
    LEAST = 1000, /* fills */
    WRITES = 30,  /* at least */
    UNIT = 8,     /* bytes; a value is a multiple */
};

struct race {
    struct chain_lab chain;
    bool udp; /* so the writes come */
    /* The server's value, and the newest value whose write was acknowledged. */
    _Atomic uint32_t now[KEYS], acked[KEYS];
    atomic_bool stop;
    unsigned int runs;
    _Atomic uint64_t nwrites, nfailed;
};

/* A reply that has not left yet. */
struct late {
    struct frame reply;
    uint64_t asked;
};

struct client {
    struct race *race;
    int cpu;
    unsigned int random;
    uint64_t hits, torn, stale, failed;
    struct late held[HELD];
    bool was_late; /* a reply was late by more than a quarter of max_age */
};

/* The length of a version's value: entries of all sizes in turn. */
static size_t value_size(uint32_t version)
{
    static const size_t sizes[] = {24, 200, 16, 900};

    return sizes[version % 4];
}

static void value_make(char *out, uint32_t version)
{
    char unit[UNIT + 1];

    snprintf(unit, sizeof(unit), "%08x", version);
    for (size_t i = 0; i < value_size(version); i += UNIT)
        memcpy(out + i, unit, UNIT);
}

static size_t reply_make(char *out, unsigned int key, uint32_t version)
{
    char value[1024], name = (char)('a' + key);
    size_t n;

    value_make(value, version);
    n = text_value(out, &name, 1, value, value_size(version));
    memcpy(out + n, "END\r\n", 5);
    return n + 5;
}

/* The version in a reply; UINT32_MAX: the frame is not a complete reply to a get of this key. */
static uint32_t reply_version(const struct frame *frame, unsigned int key)
{
    const char *text = (const char *)frame->bytes + LAB_FRAME, *value;
    char want[2048];
    unsigned int version;
    size_t n;

    value = memchr(text, '\n', frame->n - LAB_FRAME);
    if (!value || sscanf(value + 1, "%8x", &version) != 1)
        return UINT32_MAX;
    n = reply_make(want, key, version);
    return frame->n >= LAB_FRAME + n && memcmp(text, want, n) == 0 ? version : UINT32_MAX;
}

static unsigned int draw(struct client *client, unsigned int n)
{
    client->random = client->random * 1103515245 + 12345;
    return (client->random >> 16) % n;
}

/* The server executes a request now; its reply leaves now or after some others. */
static void serve(struct client *client, const struct frame *request, unsigned int key,
                  uint64_t asked)
{
    struct lab *lab = &client->race->chain.lab;
    struct late now = {.asked = asked}, before;
    unsigned int slot = draw(client, HELD + 1);
    struct frame out;
    char text[2048];
    size_t n = reply_make(text, key, atomic_load(&client->race->now[key]));

    frame_answer(&now.reply, request, text, n);
    if (slot < HELD) {
        before = client->held[slot];
        client->held[slot] = now;
        now = before;
    }
    if (!now.reply.n)
        return;
    client->failed += lab_run(lab, LOADER_TC, &now.reply, &out) != UINT32_MAX;
    client->was_late |= chain_lab_now() - now.asked > CHAIN_OUTSTANDING_NS / 2 - 50000000;
}

static void get(struct client *client)
{
    unsigned int key = draw(client, KEYS);
    uint32_t acked = atomic_load(&client->race->acked[key]), version, verdict;
    uint64_t asked = chain_lab_now();
    struct frame request, out;
    char text[] = "get a\r\n";

    text[4] = (char)('a' + key);
    frame_request(&request, text, sizeof(text) - 1);
    request.bytes[34] = (uint8_t)(100 + client->cpu);
    request.bytes[43] = (uint8_t)draw(client, IDS);
    frame_seal(&request);
    verdict = lab_run(&client->race->chain.lab, LOADER_XDP, &request, &out);
    if (verdict == 2) {
        serve(client, &request, key, asked);
        return;
    }
    client->hits++;
    version = reply_version(&out, key);
    client->failed += verdict != 3;
    client->torn += version == UINT32_MAX;
    client->stale += version != UINT32_MAX && version < acked;
}

static void on_cpu(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void *client_main(void *arg)
{
    struct client *client = arg;

    on_cpu(client->cpu);
    /* On a busy machine the writer may have to wait for a CPU. */
    for (unsigned int i = 0;
         i < client->race->runs || (client->race->nwrites < WRITES && i < MOST_RUNS); i++)
        get(client);
    return NULL;
}

/* A write as the chain sees it: the gate closes, the server changes the value, the reply leaves. */
static void write_key(struct race *race, unsigned int key)
{
    char name = (char)('a' + key);
    struct chain_gate *gate = &chain_lab_bucket(&race->chain, &name, 1)->gate;
    uint32_t version;

    __atomic_store_n(&gate->until, UINT64_MAX, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&gate->word, CHAIN_VERSION + 1, __ATOMIC_SEQ_CST);
    version = atomic_fetch_add(&race->now[key], 1) + 1;
    __atomic_store_n(&gate->done, chain_lab_now(), __ATOMIC_SEQ_CST);
    __atomic_fetch_sub(&gate->word, 1, __ATOMIC_SEQ_CST);
    atomic_store(&race->acked[key], version);
    race->nwrites++;
}

/* The same over UDP: the gate is closed and opened by the programs. */
static void write_udp(struct race *race, unsigned int key, unsigned int id)
{
    char text[] = "set a 0 0 1\r\nv\r\n";
    struct frame request, reply, out;
    uint32_t version;

    text[4] = (char)('a' + key);
    frame_request(&request, text, sizeof(text) - 1);
    request.bytes[34] = 200;
    request.bytes[42] = (uint8_t)(id >> 8);
    request.bytes[43] = (uint8_t)id;
    frame_seal(&request);
    race->nfailed += lab_run(&race->chain.lab, LOADER_XDP, &request, &out) != 2;
    version = atomic_fetch_add(&race->now[key], 1) + 1;
    frame_answer(&reply, &request, "STORED\r\n", 8);
    race->nfailed += lab_run(&race->chain.lab, LOADER_TC, &reply, &out) != UINT32_MAX;
    atomic_store(&race->acked[key], version);
    race->nwrites++;
}

static void *writer_main(void *arg)
{
    struct race *race = arg;

    on_cpu(1);
    for (unsigned int i = 0; !atomic_load(&race->stop); i++) {
        if (race->udp)
            write_udp(race, i * 7 / 3 % KEYS, i);
        else
            write_key(race, i * 7 / 3 % KEYS);
        for (uint64_t until = chain_lab_now() + 20000 + i % 16 * 10000; chain_lab_now() < until;)
            sched_yield();
    }
    return NULL;
}

static void race_run(struct race *race, struct client *clients)
{
    pthread_t threads[CLIENTS], writer;

    pthread_create(&writer, NULL, writer_main, race);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.race = race, .cpu = i, .random = (unsigned int)i + 1};
        pthread_create(&threads[i], NULL, client_main, &clients[i]);
    }
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&race->stop, true);
    pthread_join(writer, NULL);
}

/* All keys share buckets and blocks as far as possible. entries: of the table. */
static void test_race(unsigned int entries, bool udp)
{
    static struct client clients[CLIENTS];
    struct chain_settings settings = chain_lab_settings;
    const char *runs = getenv("CHAIN_RACE_RUNS");
    struct race *race = calloc(1, sizeof(*race));
    uint64_t hits = 0, torn = 0, stale = 0, failed = 0, fills, refused, ended;
    bool was_late = false;
    char name[64];

    settings.entries = entries;
    settings.nmedium = settings.nlarge = 1;
    settings.noutstanding = 256;
    chain_lab_open(&race->chain, &settings, NULL);
    race->udp = udp;
    race->runs = runs ? (unsigned int)atoi(runs) : RUNS;
    race_run(race, clients);
    for (int i = 0; i < CLIENTS; i++) {
        hits += clients[i].hits;
        torn += clients[i].torn;
        stale += clients[i].stale;
        failed += clients[i].failed;
        was_late |= clients[i].was_late;
    }
    fills = chain_lab_count(&race->chain, CHAIN_FILLS);
    refused = chain_lab_count(&race->chain, CHAIN_FILL_WRITING);
    snprintf(name, sizeof(name), "%u buckets%s", entries, udp ? ", writes over UDP" : "");
    diag("%s: %llu hits, %llu fills, %llu refused, %llu busy, %llu writes", name,
         (unsigned long long)hits, (unsigned long long)fills, (unsigned long long)refused,
         (unsigned long long)chain_lab_count(&race->chain, CHAIN_FILL_BUSY),
         (unsigned long long)race->nwrites);
    ok(failed + race->nfailed == 0, "%s: every packet is answered or passed", name);
    ok(torn == 0, "%s: no reply mixes two values", name);
    if (was_late)
        diag("replies left a second late: %llu values were old", (unsigned long long)stale);
    ok(stale == 0 || was_late, "%s: no value is older than a write acknowledged before", name);
    ok(hits > 0 && fills > 0 && race->nwrites >= WRITES, "%s: there were hits, fills and writes",
       name);
    ended = chain_lab_count(&race->chain, CHAIN_WRITES_ENDED);
    ok(ended == (udp ? race->nwrites : 0), "%s: %llu writes over UDP end by their replies", name,
       (unsigned long long)ended);
    chain_lab_close(&race->chain);
    free(race);
}

/* --- one entry, filled repeatedly --------------------------------------------------------- */

struct filler {
    struct chain_lab *chain;
    atomic_bool stop;
    size_t nvalue;
    const char *other; /* a second key, which shares the block */
};

static size_t letter_block(char *out, const char *key, char letter, size_t nvalue)
{
    char value[1024];

    memset(value, letter, nvalue);
    return text_value(out, key, 1, value, nvalue);
}

/* A reply with as many blocks as fit: each of them is a fill. */
static size_t filler_reply(const struct filler *filler, char *out)
{
    size_t n = 0, i;

    for (i = 0; n + filler->nvalue + 40 < MC_UDP_PAYLOAD - MC_UDP_HEADER; i++)
        if (filler->other && i % 2)
            n += letter_block(out + n, filler->other, 'c', filler->nvalue);
        else
            n += letter_block(out + n, "k", filler->other || i % 2 ? 'a' : 'b', filler->nvalue);
    memcpy(out + n, "END\r\n", 5);
    return n + 5;
}

/* Sends such a reply repeatedly, to a request that keeps its slot. */
static void *filler_main(void *arg)
{
    static const char request[] = "gets k\r\n";
    struct filler *filler = arg;
    struct frame asks, reply, out;
    char text[2048];

    on_cpu(1);
    frame_request(&asks, request, sizeof(request) - 1);
    frame_answer(&reply, &asks, text, filler_reply(filler, text));
    for (unsigned int i = 0; !atomic_load(&filler->stop); i++) {
        if (i % 64 == 0)
            lab_run(&filler->chain->lab, LOADER_XDP, &asks, &out);
        lab_run(&filler->chain->lab, LOADER_TC, &reply, &out);
    }
    return NULL;
}

static uint64_t fills_of(struct chain_lab *chain)
{
    return chain_lab_count(chain, CHAIN_FILLS);
}

static void test_torn(struct chain_lab *chain, size_t nvalue, const char *other)
{
    struct filler filler = {.chain = chain, .nvalue = nvalue, .other = other};
    uint64_t hits = 0, torn = 0, fills = fills_of(chain);
    char a[2048], b[2048];
    struct frame request, out;
    pthread_t thread;
    size_t n, i;

    chain_lab_clear(chain);
    n = letter_block(a, "k", 'a', nvalue);
    letter_block(b, "k", 'b', nvalue);
    on_cpu(0);
    pthread_create(&thread, NULL, filler_main, &filler);
    frame_request(&request, "get k\r\n", 7);
    for (i = 0; i < (other ? 300000 : 20000) || (fills_of(chain) - fills <= LEAST && i < MOST_RUNS);
         i++) {
        if (lab_run(&chain->lab, LOADER_XDP, &request, &out) != 3)
            continue;
        hits++;
        torn +=
            memcmp(out.bytes + LAB_FRAME, a, n) != 0 && memcmp(out.bytes + LAB_FRAME, b, n) != 0;
    }
    atomic_store(&filler.stop, true);
    pthread_join(thread, NULL);
    fills = fills_of(chain) - fills;
    diag("%zu bytes: %llu hits, %llu fills", nvalue, (unsigned long long)hits,
         (unsigned long long)fills);
    ok(torn == 0 && fills > LEAST,
       "%zu bytes%s: readers of an entry that is filled all the time get one value or the other: "
       "%llu "
       "of %llu reads got both",
       nvalue, other ? ", in a block that changes buckets" : "", (unsigned long long)torn,
       (unsigned long long)hits);
}

/* A key in another bucket than "k". */
static const char *another(struct chain_lab *chain)
{
    return chain_lab_bucket(chain, "k", 1) == chain_lab_bucket(chain, "m", 1) ? "n" : "m";
}

static void test_entries(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct chain_lab chain;

    settings.nmedium = settings.nlarge = 1;
    chain_lab_open(&chain, &settings, NULL);
    test_torn(&chain, 40, NULL);
    test_torn(&chain, 400, NULL);
    test_torn(&chain, 1000, NULL);
    test_torn(&chain, 600, another(&chain));
    chain_lab_close(&chain);
}

int main(void)
{
    test_entries();
    test_race(1, false);
    test_race(2, false);
    test_race(64, false);
    test_race(1, true);
    test_race(64, true);
    return done();
}
