/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random conversations over a network that loses, repeats and reorders segments, with time passing
 * between them: whenever the server executes a write, the gate of its key is closed. The server is
 * a model: it executes a command as soon as it has all bytes up to its end. Then the same over UDP.
 * CHAIN_RANDOM: the number of conversations.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/bpf/segments.h"
#include "t/lib/tap.h"

#define SETTLE 60000000000u

enum { COMMANDS = 40, STREAM_MAX = 16384, KEYS = 6, STEPS = 300 };

struct command {
    size_t end; /* in the stream */
    int key;    /* the key that it writes; -1: none; KEYS: all */
    char answer[64];
};

struct run {
    struct watch *watch;
    struct talk talk;
    uint32_t base_in, base_out;
    unsigned int seed;
    bool patient; /* mostly sends one command, and waits for its answer */
    bool again;   /* a retransmitted segment has the limits of the first one */

    /* The client. */
    char stream[STREAM_MAX];
    size_t nstream, nsent, acked;
    size_t starts[STREAM_MAX]; /* of segments */
    size_t nstarts;

    /* The server. */
    struct command commands[COMMANDS];
    size_t ncommands, nexecuted;
    bool has[STREAM_MAX];
    size_t nhas; /* without a gap */
    char answers[COMMANDS * 64];
    size_t nanswers, nanswered;

    unsigned int nbad, nwrites, nalone; /* writes executed while the table's gate was open */
    uint64_t nfound;
};

static unsigned int below(struct run *run, unsigned int n)
{
    run->seed = run->seed * 1103515245u + 12345u;
    return (run->seed >> 12) % n;
}

#define LONG_LINE "012345678901234567890123456789012345678901234567890123456789\r\n"

static const char *const values[] = {
    "", "x", "\r\n", "set key0 0 0 1\r\nx\r\ndelete key1\r\n", "VALUE key2 0 1\r\n", LONG_LINE};

/* Appends a command to the stream. */
static void say(struct run *run)
{
    struct command *command = &run->commands[run->ncommands++];
    const char *value = values[below(run, 6)];
    char *at = run->stream + run->nstream;
    int key = (int)below(run, KEYS), n = 0;

    *command = (struct command){.key = key};
    switch (below(run, 13)) {
    case 0:
    case 1:
    case 2:
        n = sprintf(at, "set key%d 0 0 %zu\r\n%s\r\n", key, strlen(value), value);
        strcpy(command->answer, "STORED\r\n");
        break;
    case 3:
        n = sprintf(at, "set key%d 0 0 %zu noreply\r\n%s\r\n", key, strlen(value), value);
        break;
    case 4:
    case 5:
        n = sprintf(at, "delete key%d\r\n", key);
        strcpy(command->answer, "DELETED\r\n");
        break;
    case 6:
        n = sprintf(at, "ms key%d %zu q\r\n%s\r\n", key, strlen(value), value);
        break;
    case 7:
        n = sprintf(at, "gat 0 key%d\r\n", key);
        strcpy(command->answer, "VALUE key 0 5\r\nEND\r\n\r\nEND\r\n");
        break;
    case 8:
        n = sprintf(at, "mn\r\n");
        command->key = -1;
        strcpy(command->answer, "MN\r\n");
        break;
    case 9:
        n = sprintf(at, "incr key%d x noreply\r\n", key);
        break;
    case 10:
        n = sprintf(at, "flush_all\r\n");
        command->key = KEYS;
        strcpy(command->answer, "OK\r\n");
        break;
    default:
        n = sprintf(at, "get key%d key1 key2\r\n", key);
        command->key = -1;
        strcpy(command->answer, "VALUE key1 0 8\r\nSTORED\r\n\r\nEND\r\n");
    }
    run->nstream += (size_t)n;
    command->end = run->nstream;
}

/* --- the server ------------------------------------------------------------------------------- */

static bool is_closed(const struct chain_gate *gate)
{
    enum gate_is is = gate_is(gate);

    return is == GATE_ENTERED || is == GATE_TIMED;
}

static void execute(struct run *run, const struct command *command)
{
    char key[8];
    bool everything = is_closed(run->watch->all), closed = everything;

    if (command->key >= 0 && command->key < KEYS) {
        snprintf(key, sizeof(key), "key%d", command->key);
        closed = closed || is_closed(watch_gate(run->watch, key));
    }
    if (command->key >= 0) {
        run->nwrites++;
        run->nalone += !everything;
        run->nbad += !closed;
    }
    strcpy(run->answers + run->nanswers, command->answer);
    run->nanswers += strlen(command->answer);
}

static void deliver(struct run *run, size_t from, size_t to)
{
    memset(run->has + from, true, to - from);
    while (run->nhas < run->nstream && run->has[run->nhas])
        run->nhas++;
    while (run->nexecuted < run->ncommands && run->commands[run->nexecuted].end <= run->nhas)
        execute(run, &run->commands[run->nexecuted++]);
}

static void acknowledge(struct run *run)
{
    run->acked = run->nhas;
    talk_out(&run->talk, run->base_out + (uint32_t)run->nanswered,
             run->base_in + (uint32_t)run->nhas, ACK, NULL, 0);
}

static void answer(struct run *run)
{
    size_t left = run->nanswers - run->nanswered, n = left;

    if (!left)
        return;
    if (below(run, 4) == 0)
        n = 1 + below(run, (unsigned int)left);
    run->acked = run->nhas;
    talk_out(&run->talk, run->base_out + (uint32_t)run->nanswered,
             run->base_in + (uint32_t)run->nhas, ACK, run->answers + run->nanswered, n);
    if (below(run, 10) == 0) /* once more */
        talk_out(&run->talk, run->base_out + (uint32_t)run->nanswered,
                 run->base_in + (uint32_t)run->nhas, ACK, run->answers + run->nanswered, n);
    run->nanswered += n;
}

/* --- the client and the network -------------------------------------------------------------- */

static void segment(struct run *run, size_t from, size_t to)
{
    unsigned int expiry = below(run, 60);

    if (expiry != 0)
        talk_in(&run->talk, run->base_in + (uint32_t)from, run->base_out, ACK, run->stream + from,
                to - from);
    if (expiry > 2)
        deliver(run, from, to);
}

static void send_next(struct run *run)
{
    size_t left = run->nstream - run->nsent, n = 1 + below(run, 60), from = run->nsent;

    if (!left)
        return;
    if (run->patient && below(run, 16)) {
        if (run->nhas < run->nsent || run->nanswered < run->nanswers)
            return;
        n = run->commands[run->nexecuted].end - from;
    }
    if (n > left)
        n = left;
    run->starts[run->nstarts++] = from;
    run->nsent += n;
    if (below(run, 60) == 0 && run->nsent < run->nstream)
        send_next(run); /* it overtakes the one before */
    segment(run, from, from + n);
}

static void send_again(struct run *run)
{
    size_t i = run->nstarts ? below(run, (unsigned int)run->nstarts) : 0, from, to;

    while (i < run->nstarts && run->starts[i] < run->acked)
        i++;
    if (i >= run->nstarts)
        return;
    from = run->starts[i];
    i += 1 + below(run, 3);
    to = i < run->nstarts ? run->starts[i] : run->nsent;
    if (!run->again && below(run, 3) == 0)
        from -= from > run->acked ? below(run, (unsigned int)(from - run->acked)) : 0;
    if (!run->again && below(run, 3) == 0 && to - from > 1)
        to -= below(run, (unsigned int)(to - from));
    segment(run, from, to);
}

/* So much time that all writes in flight are given up. */
static void time_passes(struct run *run)
{
    struct chain_gate *gate;
    char key[8];

    for (int i = 0; i <= KEYS; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        gate = i < KEYS ? watch_gate(run->watch, key) : run->watch->all;
        gate->word = (gate->word & ~(CHAIN_GENERATION - 1)) + CHAIN_GENERATION;
        gate->done = watch_now();
    }
}

static void converse(struct run *run)
{
    for (int i = 0; i < STEPS && run->nexecuted < run->ncommands; i++) {
        switch (below(run, 12)) {
        case 0:
            acknowledge(run);
            break;
        case 1:
        case 2:
        case 3:
            answer(run);
            break;
        case 4:
            time_passes(run);
            break;
        case 5:
        case 6:
            send_again(run);
            break;
        default:
            send_next(run);
        }
    }
}

/* old: the connection began before the chain was loaded. */
static void try_run(struct run *run, struct watch *watch, unsigned int seed)
{
    size_t old;

    memset(run, 0, sizeof(*run));
    run->watch = watch;
    run->seed = seed * 2654435761u;
    run->again = seed % 8 != 0;
    run->patient = seed % 4 > 1;
    watch_mark(watch);
    while (run->ncommands < COMMANDS)
        say(run);
    talk_open(&run->talk, watch, &(struct form){.v6 = false});
    run->base_in = run->talk.in;
    run->base_out = run->talk.out;
    if (seed % 4 == 3) {
        old = below(run, (unsigned int)run->nstream / 2);
        run->talk.port ^= 0x8000; /* a connection that the chain does not track */
        run->nsent = run->acked = old;
        run->commands[0].key = -1;
        deliver(run, 0, old);
        run->nbad = run->nwrites = run->nalone = 0;
    }
    converse(run);
    run->nfound = watch_count(watch, CHAIN_FOUND);
}

/* --- datagrams ------------------------------------------------------------------------------- */

/*
 * Requests over UDP with few ids, in one place of the outstanding requests, which the network
 * repeats. The server executes them in any order, and its replies leave in any order or are lost.
 * While there are requests, no time passes for the gates, and what is known of requests gets older,
 * but not by --settle.
 */
enum { IDS = 3, FLIGHTS = 64, DATAGRAM_STEPS = 200 };

struct request {
    const char *text;   /* %d: the key */
    const char *answer; /* NULL: none */
    const char *other;  /* another one, or the same */
    bool writes, everything;
};

static const struct request requests[] = {
    {"set key%d 0 0 1\r\nv\r\n", "STORED\r\n", "STORED\r\n", true, false},
    {"set key%d 0 0 1\r\nv\r\n", "STORED\r\n", "SERVER_ERROR out of memory\r\n", true, false},
    {"delete key%d\r\n", "DELETED\r\n", "NOT_FOUND\r\n", true, false},
    {"incr key%d 1\r\n", "1\r\n", "NOT_FOUND\r\n", true, false},
    {"ms key%d 1\r\nv\r\n", "HD\r\n", "NS\r\n", true, false},
    {"set key%d 0 0 1 noreply\r\nv\r\n", NULL, NULL, true, false},
    {"get a\r\ntouch key%d 0\r\n", "END\r\n", "TOUCHED\r\n", true, false},
    {"gat 0 key%d\r\n", "VALUE key0 0 1\r\nv\r\nEND\r\n", "END\r\n", true, false},
    {"get key%d\r\n", "VALUE key0 0 1\r\nv\r\nEND\r\n", "END\r\n", false, false},
    {"mg key%d t\r\n", "HD t-1\r\n", "EN\r\n", false, false},
    {"version\r\n", "VERSION 1.6.18\r\n", "VERSION 1.6.18\r\n", false, false},
    {"flush_all\r\n", "OK\r\n", "OK\r\n", true, true},
};

struct flight {
    const struct request *request;
    struct datagram from;
    int key;
    bool executed;
};

struct datagrams {
    struct run *run; /* of it only what `below` needs */
    struct flight flights[FLIGHTS];
    unsigned int nflights, nbad, nwrites;
    uint64_t age;
};

static void datagram_arrives(struct datagrams *udp, const struct flight *flight)
{
    char text[64];
    int n = snprintf(text, sizeof(text), flight->request->text, flight->key);

    if (udp->nflights == FLIGHTS)
        return;
    watch_datagram(udp->run->watch, &flight->from, text, (size_t)n);
    udp->flights[udp->nflights] = *flight;
    udp->flights[udp->nflights++].executed = false;
}

static void datagram_sent(struct datagrams *udp)
{
    unsigned int n = COUNT(requests);
    unsigned int which = below(udp->run, 3) ? 0 : below(udp->run, below(udp->run, 8) ? n - 1 : n);
    struct flight flight = {.request = &requests[which],
                            .from = {.port = 40000, .total = 1},
                            .key = (int)below(udp->run, KEYS)};

    flight.from.id = (uint16_t)below(udp->run, IDS);
    datagram_arrives(udp, &flight);
}

static void flight_ends(struct datagrams *udp, unsigned int which)
{
    udp->flights[which] = udp->flights[--udp->nflights];
}

/* The server executes a request, or a reply leaves. */
static void datagram_handled(struct datagrams *udp)
{
    unsigned int which = below(udp->run, udp->nflights);
    struct flight *flight = &udp->flights[which];
    const struct request *request = flight->request;
    const char *answer = below(udp->run, 4) ? request->answer : request->other;
    char key[8];
    bool closed;

    if (!flight->executed && request->writes) {
        snprintf(key, sizeof(key), "key%d", flight->key);
        closed = is_closed(udp->run->watch->all) ||
                 (!request->everything && is_closed(watch_gate(udp->run->watch, key)));
        udp->nbad += !closed;
        udp->nwrites++;
    }
    if (!flight->executed && request->answer && below(udp->run, 32)) {
        flight->executed = true;
        return;
    }
    if (flight->executed)
        watch_reply(udp->run->watch, &flight->from, answer, strlen(answer));
    flight_ends(udp, which);
}

static void datagrams_age(struct datagrams *udp)
{
    uint64_t by = SETTLE / 8 * (1 + below(udp->run, 7));

    if (!udp->nflights) {
        time_passes(udp->run);
        udp->age = 0;
        if (below(udp->run, 2))
            by = SETTLE;
    } else {
        if (udp->age + by >= SETTLE)
            return;
        udp->age += by;
    }
    watch_age(udp->run->watch, by);
}

static uint64_t try_datagrams(struct datagrams *udp, struct watch *watch, unsigned int seed)
{
    static struct run run;

    run.watch = watch;
    run.seed = seed * 2654435761u;
    run.patient = seed % 4 != 0;
    *udp = (struct datagrams){.run = &run};
    watch_mark(watch);
    for (int i = 0; i < DATAGRAM_STEPS; i++) {
        switch (below(&run, 12)) {
        case 0:
            datagrams_age(udp);
            break;
        case 1:
            if (udp->nflights && (!run.patient || below(&run, 8) == 0))
                datagram_arrives(udp, &udp->flights[below(&run, udp->nflights)]);
            break;
        case 2:
        case 3:
        case 4:
            if (!run.patient || !udp->nflights || below(&run, 8) == 0)
                datagram_sent(udp);
            break;
        default:
            if (udp->nflights)
                datagram_handled(udp);
        }
    }
    return watch_count(watch, CHAIN_WRITES_ENDED);
}

static void test_datagrams(struct watch *watch, unsigned int n)
{
    static struct datagrams udp;
    unsigned int i, nbad = 0, nwrites = 0;
    uint64_t nended = 0;

    for (i = 0; i < n; i++) {
        nended += try_datagrams(&udp, watch, i);
        nbad += udp.nbad;
        nwrites += udp.nwrites;
        if (udp.nbad && nbad < 20)
            diag("datagrams %u: %u writes were not seen", i, udp.nbad);
    }
    ok(nended > n / 2, "of %u writes over UDP %d end by their replies", nwrites, (int)nended);
    ok(nbad == 0, "each one's gate is closed when the server executes it (%u are not)", nbad);
}

int main(void)
{
    static struct run run;
    const char *wanted = getenv("CHAIN_RANDOM");
    unsigned int i, n = wanted ? (unsigned int)atoi(wanted) : 500, nwrites = 0, nbad = 0,
                    nalone = 0;
    uint64_t nfound = 0;
    struct watch watch;

    watch_open(&watch, SETTLE);
    for (i = 0; i < n; i++) {
        try_run(&run, &watch, i);
        nwrites += run.nwrites;
        nbad += run.nbad;
        nalone += run.nalone;
        nfound += run.nfound;
        if (run.nbad && nbad < 20)
            diag("conversation %u: %u writes were not seen", i, run.nbad);
    }
    ok(nalone > n, "%u conversations write %u times, %u of them while the table's gate is open", n,
       nwrites, nalone);
    ok(nfound > n / 50, "connections are tracked again after a resync, %d times", (int)nfound);
    ok(nbad == 0, "each write's gate is closed when the server executes it (%u are not)", nbad);
    test_datagrams(&watch, n);
    watch_close(&watch);
    return done();
}
