/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests over TCP on two CPUs at once, and while the server publishes. A segment that is refused
 * after its reply was made passes as it came, and keeps no text; the same segment on two CPUs is
 * answered once, and both send that one reply, whatever becomes of the item. An entry that is
 * removed while a program waits for its lock, and whose memory another connection's entry gets; and
 * one that the server is to remove, and a program has.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/bpf/tcp_lab.h"
#include "t/lib/tap.h"

enum {
    RUNS = 3000,
    MOST_RUNS = 2000000,
    LEAST = 10, /* of each outcome, in each case */
    ROUNDS = 4000,
    EXECUTIONS = 1000,
    STEP = 64, /* turns of a loop, by which the server's command is made later */
    MOVES = 300,
    LOOKS = 200, /* at an entry, until a program on the other CPU waits for its lock */
    GETS = 2,    /* most in a segment */
    FEW = 200,   /* of both where CPUs run in turns, as in qemu, and seldom meet (T_IN_TURNS) */
};

static const char *const names[] = {"XDP", "TC"};

struct race {
    struct tcp_lab *lab;
    enum hook hook;
    bool v6, in_turns;
    unsigned int ngets;      /* in a segment */
    struct mc_tcp_conn conn; /* before each request */
    struct frame frame;
    uint64_t boundary;
    atomic_bool stop;
    struct mc_bucket *bucket;
    uint32_t refs[2]; /* two items with the same key */
    atomic_uint begun, ended, delay;
};

static const char get_hit[] = "get hit\r\nget hit\r\n";

static void on_cpu(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* The replies, of which these have the second item, bits; the first's value has n bytes. */
static size_t make_text(const struct race *race, char *text, unsigned int second, size_t n)
{
    size_t at = 0, nvalue;
    unsigned int i;

    for (i = 0; i < race->ngets; i++, second >>= 1) {
        nvalue = second & 1 ? n + 3 : n;
        at += (size_t)sprintf(text + at, "VALUE hit 0 %zu\r\n", nvalue);
        memset(text + at, second & 1 ? 'w' : 'v', nvalue);
        memcpy(text + at + nvalue, "\r\nEND\r\n", 7);
        at += nvalue + 7;
    }
    return at;
}

static void make_frame(struct race *race, struct frame *reply, const char *text, size_t n)
{
    struct outcome outcome = {.reply = text, .nreply = n};
    struct mc_tcp_conn after;
    struct segment segment;

    conn_init(race->lab, &race->conn, 1000, 5000);
    race->boundary = race->lab->slots[TCP_SLOT].boundary;
    segment_in(race->lab, &segment, &race->conn, get_hit,
               race->ngets * (sizeof(get_hit) - 1) / GETS);
    segment.v6 = race->v6;
    segment_frame(&race->frame, &segment);
    after = race->conn;
    after.delta.request = segment.seq;
    after.delta.nrequest = (uint32_t)segment.n;
    after.delta.reply = segment.ack;
    reply_frame(reply, &segment, &outcome, &after);
}

/*
 * Places with a text, of those that the connection may have; they are empty afterwards. *freed: how
 * many had a text, and were free.
 */
static unsigned int take_kept(struct tcp_lab *lab, unsigned int *freed)
{
    static const struct mc_tcp_rtx none;
    static struct mc_tcp_rtx rtx;
    unsigned int found = 0;
    uint32_t i, at;

    for (i = 0; i < MC_TCP_RTX_TRIES; i++) {
        at = rtx_place(lab, false, TCP_SLOT, i);
        rtx_get(lab, at, &rtx);
        found += rtx.owner != 0;
        *freed += !rtx.owner && rtx.n;
        if (rtx.owner || rtx.n)
            rtx_put(lab, at, &none);
    }
    return found;
}

static bool is_reply(const struct race *race, enum hook hook, const struct tcp_run *run,
                     const struct frame *reply)
{
    if (hook == HOOK_XDP)
        return run->verdict == XDP_IS_TX && frame_answers(&run->out, &race->frame, reply);
    return run->verdict == TC_IS_REDIRECT && frame_equal(&run->out, reply);
}

static bool is_passed(const struct race *race, enum hook hook, const struct tcp_run *run)
{
    if (hook == HOOK_XDP)
        return run->verdict == XDP_IS_PASS && frame_equal(&run->out, &race->frame);
    return run->verdict == TC_IS_NEXT && run->out.n == race->frame.n;
}

/* Puts two items with the same key, of which the table has the first. */
static void put_two(struct race *race, size_t n)
{
    struct lab *lab = &race->lab->lab;
    char value[1400];
    uint32_t *refs;

    lab_clear(lab);
    race->bucket = lab_bucket(lab, lab_hash(lab, "hit", 3));
    refs = race->bucket->refs;
    memset(value, 'v', n);
    lab_put(lab, "hit", 3, value, n);
    race->refs[0] = refs[0];
    memset(value, 'w', n + 3);
    lab_put(lab, "hit", 3, value, n + 3);
    race->refs[1] = refs[1];
    race->bucket->tags &= 0xff;
}

/* Has the table refer to one of them, as a writer does. */
static void exchange(struct race *race, unsigned int which)
{
    struct mc_bucket *bucket = race->bucket;

    __atomic_store_n(&bucket->seq, bucket->seq + 1, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&bucket->refs[0], race->refs[which], __ATOMIC_RELAXED);
    __atomic_store_n(&bucket->seq, bucket->seq + 1, __ATOMIC_RELEASE);
}

/* --- the server publishes -------------------------------------------------------------------- */

static void *publish_main(void *from)
{
    struct race *race = from;
    volatile __u64 *boundary = &race->lab->slots[TCP_SLOT].boundary;

    on_cpu(1);
    while (!atomic_load(&race->stop)) {
        *boundary = MC_TCP_NONE;
        *boundary = race->boundary;
    }
    return NULL;
}

/* One request. *late: it was refused after the lookup. Only a reply that leaves marks its item. */
static bool publish_run(struct race *race, const struct frame *reply, unsigned int *late)
{
    static struct tcp_run run;
    uint32_t answered = race->lab->slots[TCP_SLOT].answered;
    unsigned int rtx, freed = 0;

    conn_put(race->lab, race->v6, &race->conn);
    race->bucket->accessed = 0;
    run.mark = 0;
    if (tcp_run(race->lab, race->hook, &race->frame, &run))
        return false;
    rtx = take_kept(race->lab, &freed);
    if (race->lab->slots[TCP_SLOT].answered == answered + race->ngets)
        return is_reply(race, race->hook, &run, reply) && rtx == 1 && race->bucket->accessed;
    *late += freed;
    return is_passed(race, race->hook, &run) && rtx == 0 && !race->bucket->accessed &&
           race->lab->slots[TCP_SLOT].answered == answered;
}

static void test_publishing(struct race *race, size_t n)
{
    static struct frame reply;
    char text[1500];
    unsigned int i, late = 0, least = race->in_turns ? 0 : LEAST;
    unsigned int runs = race->in_turns ? FEW : RUNS;
    pthread_t thread;
    bool right = true;

    put_two(race, n);
    make_frame(race, &reply, text, make_text(race, text, 0, n));
    atomic_store(&race->stop, false);
    pthread_create(&thread, NULL, publish_main, race);
    for (i = 0; right && i < MOST_RUNS && (i < runs || late < least); i++)
        right = publish_run(race, &reply, &late);
    atomic_store(&race->stop, true);
    pthread_join(thread, NULL);
    ok(right && late >= least,
       "%s, IPv%d, %u of %zu bytes: while the server publishes a segment is answered, or passes as "
       "it came",
       names[race->hook], race->v6 ? 6 : 4, race->ngets, n);
    diag("%u runs, %u refused late", i, late);
}

/* --- the server executes --------------------------------------------------------------------- */

/* Executes a command of the connection, which stores the first item; then it publishes. */
static void *execute_main(void *from)
{
    struct race *race = from;
    unsigned int i = 0, k;

    on_cpu(1);
    while (!atomic_load(&race->stop)) {
        if (atomic_load(&race->begun) == i)
            continue;
        for (k = atomic_load(&race->delay); k > 0; k--)
            __asm__ volatile("");
        exchange(race, 0);
        __atomic_store_n(&race->lab->slots[TCP_SLOT].boundary, race->boundary, __ATOMIC_RELEASE);
        atomic_store(&race->ended, ++i);
    }
    return NULL;
}

/* A request that comes while the command before it is executed. *answered: it was. */
static bool execute_run(struct race *race, const struct frame *reply, bool *answered)
{
    static struct tcp_run run;
    struct mc_tcp_slot *slot = &race->lab->slots[TCP_SLOT];
    uint32_t before = slot->answered;
    unsigned int rtx, freed = 0;
    bool failed;

    __atomic_store_n(&slot->boundary, MC_TCP_NONE, __ATOMIC_RELEASE);
    exchange(race, 1);
    conn_put(race->lab, race->v6, &race->conn);
    run.mark = 0;
    atomic_fetch_add(&race->begun, 1);
    failed = tcp_run(race->lab, race->hook, &race->frame, &run) != 0;
    while (atomic_load(&race->ended) != atomic_load(&race->begun))
        sched_yield();
    rtx = take_kept(race->lab, &freed);
    *answered = slot->answered != before;
    return !failed && (*answered ? is_reply(race, race->hook, &run, reply) && rtx == 1
                                 : is_passed(race, race->hook, &run) && rtx == 0);
}

/* The command ends later if the last request was answered, sooner if it was not. */
static void test_executing(struct race *race, size_t n)
{
    static struct frame reply;
    unsigned int i, tally[2] = {0}, least = race->in_turns ? 0 : LEAST;
    unsigned int runs = race->in_turns ? FEW : EXECUTIONS;
    bool right = true, answered;
    pthread_t thread;
    char text[1500];

    put_two(race, n);
    make_frame(race, &reply, text, make_text(race, text, 0, n));
    atomic_store(&race->stop, false);
    atomic_store(&race->begun, 0);
    atomic_store(&race->ended, 0);
    atomic_store(&race->delay, STEP);
    pthread_create(&thread, NULL, execute_main, race);
    for (i = 0; right && i < MOST_RUNS && (i < runs || tally[0] < least || tally[1] < least); i++) {
        right = execute_run(race, &reply, &answered);
        tally[answered]++;
        if (answered)
            atomic_fetch_add(&race->delay, STEP + i % STEP);
        else
            atomic_store(&race->delay, atomic_load(&race->delay) * 7 / 8);
    }
    atomic_store(&race->stop, true);
    pthread_join(thread, NULL);
    ok(right && tally[0] >= least && tally[1] >= least,
       "%s, IPv%d, %u of %zu bytes: gets are answered with what the command before has stored",
       names[race->hook], race->v6 ? 6 : 4, race->ngets, n);
    diag("answered %u, passed %u", tally[1], tally[0]);
}

/* --- two CPUs -------------------------------------------------------------------------------- */

struct twin {
    struct race *race;
    pthread_barrier_t *barrier;
    int cpu;
    enum hook by; /* the hook that had it last */
    struct tcp_run run;
    bool failed;
};

static unsigned int rounds_of(const struct race *race)
{
    return race->in_turns ? FEW : ROUNDS;
}

static void twin_run(struct twin *twin, enum hook hook)
{
    twin->by = hook;
    twin->run.mark = 0;
    twin->failed |= tcp_run(twin->race->lab, hook, &twin->race->frame, &twin->run) != 0;
}

static void *twin_main(void *from)
{
    struct twin *twin = from;
    unsigned int i;

    on_cpu(twin->cpu);
    for (i = 0; i < rounds_of(twin->race); i++) {
        pthread_barrier_wait(twin->barrier);
        twin_run(twin, twin->race->hook);
        if (twin->by == HOOK_XDP && twin->run.verdict == XDP_IS_PASS)
            twin_run(twin, HOOK_INGRESS);
        pthread_barrier_wait(twin->barrier);
    }
    return NULL;
}

/* Exchanges the item for another with the same key. */
static void *exchange_main(void *from)
{
    struct race *race = from;
    unsigned int i = 0;

    while (!atomic_load(&race->stop)) {
        exchange(race, ++i % 2);
        sched_yield();
    }
    return NULL;
}

/* Whether both sent the same reply, or both passed the request. */
static bool twins_agree(struct race *race, const struct twin twins[2],
                        const struct frame replies[1 << GETS], unsigned int tally[5])
{
    const struct mc_tcp_slot *slot = &race->lab->slots[TCP_SLOT];
    unsigned int freed = 0, rtx = take_kept(race->lab, &freed), i;

    for (i = 0; i < 1u << race->ngets; i++) {
        if (!is_reply(race, twins[0].by, &twins[0].run, &replies[i]) ||
            !is_reply(race, twins[1].by, &twins[1].run, &replies[i]))
            continue;
        tally[i]++;
        return slot->answered == race->ngets && rtx == 1;
    }
    tally[4]++;
    return is_passed(race, twins[0].by, &twins[0].run) &&
           is_passed(race, twins[1].by, &twins[1].run) && slot->answered == 0 && rtx == 0;
}

static void test_twins(struct race *race, size_t n)
{
    static struct frame replies[1 << GETS];
    static struct twin twins[2];
    char text[1500];
    pthread_barrier_t barrier;
    pthread_t threads[2], writer;
    unsigned int i, tally[5] = {0}, last = (1u << race->ngets) - 1;
    bool right = true;

    put_two(race, n);
    for (i = 0; i <= last; i++)
        make_frame(race, &replies[i], text, make_text(race, text, i, n));
    pthread_barrier_init(&barrier, NULL, 3);
    atomic_store(&race->stop, false);
    pthread_create(&writer, NULL, exchange_main, race);
    for (i = 0; i < 2; i++) {
        twins[i] = (struct twin){.race = race, .barrier = &barrier, .cpu = (int)i};
        pthread_create(&threads[i], NULL, twin_main, &twins[i]);
    }
    for (i = 0; i < rounds_of(race); i++) {
        race->lab->slots[TCP_SLOT].answered = 0;
        conn_put(race->lab, race->v6, &race->conn);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        right = right && twins_agree(race, twins, replies, tally);
    }
    atomic_store(&race->stop, true);
    for (i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_join(writer, NULL);
    pthread_barrier_destroy(&barrier);
    ok(right && !twins[0].failed && !twins[1].failed && tally[0] && tally[last],
       "%s, IPv%d, %u of %zu bytes: a segment on two CPUs: one reply, sent by both",
       names[race->hook], race->v6 ? 6 : 4, race->ngets, n);
    diag("one value %u, the other %u, both %u and %u, passed %u", tally[0], tally[last],
         last > 1 ? tally[1] : 0, last > 1 ? tally[2] : 0, tally[4]);
}

/* --- a place that is taken while it is read --------------------------------------------------- */

enum {
    OWNERS = 3,
    PAUSE = 4000, /* turns of a loop: a run is over before all owners had the place */
};

struct places {
    struct race *race;
    struct mc_tcp_rtx rtx[OWNERS]; /* the connection's; another's with other bytes; with the same */
    uint32_t at;
    atomic_uint turn; /* the one of rtx that is put, or has been */
};

/* Gives the place of the outstanding reply to another connection, and back, the text first. */
static void *take_main(void *from)
{
    struct places *places = from;
    unsigned int turn, i;

    on_cpu(1);
    while (!atomic_load(&places->race->stop)) {
        turn = atomic_fetch_add(&places->turn, 1) + 1;
        rtx_put(places->race->lab, places->at, &places->rtx[turn % OWNERS]);
        for (i = 0; i < PAUSE; i++)
            __asm__ volatile("");
    }
    return NULL;
}

/*
 * Whether a frame was answered with the outstanding reply or with nothing, of which the tally is
 * kept. A place does not become this reply's again, so a run does not count in which it did: the
 * CPU was taken away from it.
 */
static bool place_run(struct places *places, const struct frame *reply, struct tcp_run *run,
                      unsigned int tally[2])
{
    struct race *race = places->race;
    unsigned int turn = atomic_load(&places->turn);
    bool again;

    run->mark = 0;
    if (tcp_run(race->lab, HOOK_INGRESS, &race->frame, run))
        return false;
    if (atomic_load(&places->turn) - turn >= OWNERS)
        return true;
    again = run->verdict == TC_IS_REDIRECT;
    tally[again]++;
    return again ? frame_equal(&run->out, reply) : run->verdict == TC_IS_DROP;
}

/*
 * A request of which the reply is outstanding, again and again: it gets that reply, or nothing
 * while its place is another's.
 */
static void test_taken(struct race *race)
{
    static const size_t n = 900;
    static struct frame reply;
    static struct tcp_run run;
    static struct places places;
    struct mc_tcp_conn conn;
    unsigned int runs = race->in_turns ? FEW : RUNS, least = race->in_turns ? 0 : LEAST;
    unsigned int i, tally[2] = {0};
    char text[1500];
    pthread_t taker;
    bool right;

    put_two(race, n);
    make_frame(race, &reply, text, make_text(race, text, 0, n));
    conn_put(race->lab, race->v6, &race->conn);
    right = !tcp_run(race->lab, HOOK_INGRESS, &race->frame, &run) &&
            run.verdict == TC_IS_REDIRECT && conn_get(race->lab, race->v6, &conn);
    places.race = race;
    places.at = conn.rtx;
    rtx_get(race->lab, places.at, &places.rtx[0]);
    places.rtx[1] = places.rtx[0];
    places.rtx[1].owner ^= 1ull << 32;
    places.rtx[2] = places.rtx[1];
    memset(places.rtx[1].text, 'w', sizeof(places.rtx[1].text));
    atomic_store(&places.turn, 0);
    atomic_store(&race->stop, false);
    pthread_create(&taker, NULL, take_main, &places);
    on_cpu(0);
    for (i = 0; right && i < MOST_RUNS && (i < runs || tally[0] < least || tally[1] < least); i++) {
        conn.retransmits = 0; /* never in pieces */
        conn_put(race->lab, race->v6, &conn);
        right = place_run(&places, &reply, &run, tally);
    }
    atomic_store(&race->stop, true);
    pthread_join(taker, NULL);
    ok(right && tally[0] >= least && tally[1] >= least,
       "IPv%d: a retransmit buffer that is taken meanwhile: that reply or none, never another's",
       race->v6 ? 6 : 4);
    diag("%u runs, sent again %u times, not %u times", i, tally[1], tally[0]);
}

/* --- memory that is used again ---------------------------------------------------------------- */

static const char *const hook_names[] = {"XDP", "TC ingress", "TC egress"};

/* Runs the frame each time that another run has begun. */
static void *wait_main(void *from)
{
    struct twin *twin = from;
    struct race *race = twin->race;
    unsigned int i = 0;

    on_cpu(0);
    while (!atomic_load(&race->stop)) {
        if (atomic_load(&race->begun) == i)
            continue;
        twin_run(twin, race->hook);
        atomic_store(&race->ended, ++i);
    }
    return NULL;
}

/*
 * A segment of one connection, whose entry is removed while the program waits for its lock. The
 * memory becomes that of another connection with the same numbers, of IP's other version; but with
 * the lock taken at first, as the programs make an entry (tcp_begin in bpf/tcp/egress.bpf.h).
 */
static bool move_run(struct race *race, struct twin *twin, unsigned int *waited)
{
    const bool other = !race->v6;
    struct mc_tcp_conn locked = race->conn, after;
    unsigned int freed = 0, i;

    conn_delete(race->lab, other);
    locked.lock = MC_TCP_TAKEN;
    conn_put(race->lab, race->v6, &locked);
    atomic_fetch_add(&race->begun, 1);
    for (i = 0; i < LOOKS; i++)
        conn_get(race->lab, race->v6, &after);
    conn_delete(race->lab, race->v6);
    conn_put(race->lab, other, &locked);
    conn_delete(race->lab, other);
    conn_put(race->lab, other, &race->conn);
    while (atomic_load(&race->ended) != atomic_load(&race->begun))
        sched_yield();
    *waited += race->hook == HOOK_XDP || twin->run.verdict == TC_IS_DROP;
    return conn_get(race->lab, other, &after) && memcmp(&after, &race->conn, sizeof(after)) == 0 &&
           take_kept(race->lab, &freed) == 0;
}

static void test_moving(struct race *race)
{
    static struct frame reply;
    static struct twin twin;
    /* In TC not every run of this test gets the same memory again. */
    unsigned int i, waited = 0, least = race->in_turns || race->hook != HOOK_XDP ? 0 : LEAST;
    struct segment segment;
    pthread_t thread;
    bool right = true;
    char text[1500];

    put_two(race, 40);
    make_frame(race, &reply, text, make_text(race, text, 0, 40));
    if (race->hook == HOOK_EGRESS) {
        segment_out(&segment, &race->conn, "STORED\r\n", 8);
        segment.v6 = race->v6;
        segment_frame(&race->frame, &segment);
    }
    twin = (struct twin){.race = race};
    atomic_store(&race->stop, false);
    atomic_store(&race->begun, 0);
    atomic_store(&race->ended, 0);
    pthread_create(&thread, NULL, wait_main, &twin);
    for (i = 0; right && i < MOVES; i++)
        right = move_run(race, &twin, &waited);
    atomic_store(&race->stop, true);
    pthread_join(thread, NULL);
    ok(right && !twin.failed && waited >= least,
       "%s, IPv%d: an entry that is removed before its lock is had changes no other one",
       hook_names[race->hook], race->v6 ? 6 : 4);
    diag("%u of %u segments came too late", waited, i);
}

/* --- what the server removes ------------------------------------------------------------------ */

/* Whether an entry whose socket did not see n bytes is still there. */
static bool stays(struct tcp_lab *lab, uint32_t n, bool ends, int sweeps)
{
    struct mc_tcp_conn conn;

    conn_init(lab, &conn, n, n);
    if (ends)
        lab->slots[conn.slot].generation++;
    while (sweeps-- > 0)
        loader_sweep_tcp(lab->lab.loader);
    return conn_get(lab, false, &conn) && conn_get(lab, true, &conn);
}

/* An entry whose lock a program has. */
static void test_held(struct tcp_lab *lab)
{
    struct mc_tcp_conn conn;
    bool stayed;

    conn_init(lab, &conn, 0, 0);
    conn.lock = MC_TCP_TAKEN;
    conn_put(lab, false, &conn);
    lab->slots[conn.slot].generation++;
    loader_sweep_tcp(lab->lab.loader);
    stayed = conn_get(lab, false, &conn); /* unlocked */
    conn_put(lab, false, &conn);
    loader_sweep_tcp(lab->lab.loader);
    ok(stayed && !conn_get(lab, false, &conn), "none that a program has locked is removed");
}

/* The place of a reply that the client never acknowledged. */
static void test_place(struct tcp_lab *lab)
{
    struct mc_tcp_rtx rtx = {.n = 5, .text = "reply"};
    struct mc_tcp_conn conn;

    conn_init(lab, &conn, 100, 100);
    conn.delta.nreply = 5;
    conn.delta.reply = conn.last = conn.snd_nxt + 95;
    conn.delta.nrequest = 9;
    conn.delta.request = conn.rcv_nxt + 91;
    conn.rtx = TCP_SLOT;
    conn_put(lab, false, &conn);
    rtx.owner = rtx_owner(conn.delta.reply, conn.slot, conn.generation);
    rtx_put(lab, conn.rtx, &rtx);
    lab->slots[conn.slot].generation++;
    loader_sweep_tcp(lab->lab.loader);
    rtx_get(lab, TCP_SLOT, &rtx);
    ok(conn_get(lab, false, &conn) && rtx.owner, "an unacknowledged reply stays with the entry");
    loader_sweep_tcp(lab->lab.loader);
    rtx_get(lab, TCP_SLOT, &rtx);
    ok(!conn_get(lab, false, &conn) && !rtx.owner, "and with the entry its place becomes free");
}

static void test_sweep(struct tcp_lab *lab)
{
    ok(stays(lab, 0, false, 3) && stays(lab, 100, false, 3),
       "a sweep leaves the entries of connections that the server has");
    ok(!stays(lab, 0, true, 1), "it removes one that was closed and translated nothing");
    ok(stays(lab, 100, true, 1), "one that was closed and translates stays for another sweep");
    loader_sweep_tcp(lab->lab.loader);
    ok(stays(lab, 100, true, 1) && !stays(lab, 100, true, 2), "which removes it");
    test_held(lab);
    test_place(lab);
}

int main(void)
{
    static const size_t sizes[] = {0, 40, 180, 900};
    static struct race race;
    struct tcp_lab lab;
    unsigned int i, v6;

    tcp_lab_open(&lab);
    race.lab = &lab;
    race.in_turns = getenv("T_IN_TURNS") != NULL;
    for (v6 = 0; v6 < 2; v6++) {
        for (race.hook = HOOK_XDP; race.hook <= HOOK_INGRESS; race.hook++) {
            race.v6 = v6;
            race.ngets = 1;
            tcp_lab_set_alone(&lab, race.hook == HOOK_INGRESS);
            for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                test_publishing(&race, sizes[i]);
            test_executing(&race, sizes[1]);
            test_twins(&race, sizes[1]);
            test_twins(&race, sizes[3]);
            race.ngets = GETS;
            test_publishing(&race, sizes[2]);
            test_executing(&race, sizes[1]);
            test_twins(&race, sizes[2]);
            race.ngets = 1;
            test_moving(&race);
        }
        test_moving(&race); /* TC egress */
        test_taken(&race);
    }
    test_sweep(&lab);
    tcp_lab_close(&lab);
    return done();
}
