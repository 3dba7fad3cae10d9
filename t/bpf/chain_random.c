/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random conversations over a network that loses, repeats and reorders segments, with time passing
 * between them: whenever the server executes a write, the gate of its key is closed. The server is
 * a model: it executes a command as soon as it has all bytes up to its end. CHAIN_RANDOM: the
 * number of conversations.
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
    int i;

    for (i = 0; i <= KEYS; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        gate = i < KEYS ? watch_gate(run->watch, key) : run->watch->all;
        gate->word = (gate->word & ~(CHAIN_GENERATION - 1)) + CHAIN_GENERATION;
        gate->done = watch_now();
    }
}

static void converse(struct run *run)
{
    int i;

    for (i = 0; i < STEPS && run->nexecuted < run->ncommands; i++) {
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
    watch_close(&watch);
    return done();
}
