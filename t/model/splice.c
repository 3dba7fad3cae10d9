/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * t/run: nice
 *
 * The rules of splice.h are enough, and which of them are needed: each scenario is explored whole,
 * then again without a rule.
 *
 *     t/model/splice            what `make check` runs
 *     t/model/splice --long     one fault more where that fits (half an hour, 8 GB)
 *     t/model/splice --trace    with the shortest way to what each missing rule breaks
 */
#include <string.h>

#include "explore.h"
#include "t/lib/tap.h"

enum {
    ALL = MODEL_LOSS | MODEL_REPEAT | MODEL_REORDER | MODEL_TIMERS | MODEL_SPLIT | MODEL_ACKS |
          MODEL_REFUSE | MODEL_CPUS | MODEL_SIZES | MODEL_WAITS | MODEL_GRO,
    /* Nothing is lost or copied wrongly: then nothing needs a timer, either. */
    CALM = MODEL_SPLIT | MODEL_ACKS | MODEL_REFUSE | MODEL_SIZES | MODEL_WAITS | MODEL_GRO,
    MAX_STATES = 6000000,
    MAX_STATES_LONG = 60000000,
};

enum scenario_name {
    ONE_GET,
    GET_AND_SET,
    TWO_GETS,
    RUN_BROKEN,
    RUN_OF_THREE,
    RUN_UNDO,
    GET_FIRST,
    NOREPLY,
    HALF_CLOSE,
    SERVER_CLOSES,
    SERVER_CLOSES_PLAIN,
    CLIENT_DROPS,
    CLIENT_DROPS_SET,
    CLIENT_DROPS_CALM,
    PIECES,
    CALM_SET,
    CALM_GETS,
    TC_ALONE,
    CPUS,
    LATE,
    LATE_BACKLOG,
    UNDO,
    UNDO_PIPELINE,
    NSCENARIOS,
};

#define SET(reply)                                                                                 \
    {                                                                                              \
        1, reply, false, false                                                                     \
    }
#define LONG(reply)                                                                                \
    {                                                                                              \
        3, reply, false, false                                                                     \
    }
#define GET(reply)                                                                                 \
    {                                                                                              \
        2, reply, true, false                                                                      \
    }
#define FIN                                                                                        \
    {                                                                                              \
        1, 1, false, true                                                                          \
    }

static const struct scenario {
    const char *name;
    unsigned faults;
    struct model model;
} scenarios[NSCENARIOS] = {
    [ONE_GET] = {"set, get", 3, {{SET(1), GET(1)}, 2, ALL, 0}},
    [GET_AND_SET] = {"set, get, set", 2, {{SET(1), GET(1), SET(2)}, 3, ALL, 0}},
    [TWO_GETS] = {"set, get, get", 2, {{SET(1), GET(1), GET(1)}, 3, ALL | MODEL_RESENDS, 0}},
    [RUN_BROKEN] = {"set, get, set noreply, get",
                    1,
                    {{SET(1), GET(1), LONG(0), GET(1)}, 4, ALL, 0}},
    [RUN_OF_THREE] = {"set, get, get, get",
                      1,
                      {{SET(1), GET(1), GET(1), GET(1)},
                       4,
                       MODEL_LOSS | MODEL_REPEAT | MODEL_TIMERS | MODEL_WAITS | MODEL_RESENDS,
                       0}},
    [RUN_UNDO] =
        {"set, get, get, and the server undoes",
         2,
         {{SET(1), GET(1), GET(1)}, 3, (ALL | MODEL_UNDO | MODEL_RESENDS) & ~MODEL_CPUS, 0}},
    [GET_FIRST] = {"get, set", 3, {{GET(1), SET(1)}, 2, ALL, 0}},
    [NOREPLY] = {"set noreply, get, set", 2, {{SET(0), GET(1), SET(2)}, 3, ALL, 0}},
    [HALF_CLOSE] = {"set, get, FIN", 2, {{SET(1), GET(1), FIN}, 3, ALL, 0}},
    [SERVER_CLOSES] = {"set, get, the server closes",
                       3,
                       {{SET(1), GET(1)}, 2, ALL | MODEL_CLOSE, 0}},
    [SERVER_CLOSES_PLAIN] =
        {"the same with no fault but loss, order and timers",
         4,
         {{SET(1), GET(1)}, 2, MODEL_LOSS | MODEL_REORDER | MODEL_TIMERS | MODEL_CLOSE, 0}},
    [CLIENT_DROPS] = {"set, get, the client drops what it acknowledges",
                      3,
                      {{SET(1), GET(1)}, 2, ALL | MODEL_DROPS | MODEL_RESENDS, 0}},
    [CLIENT_DROPS_SET] = {"set, get, set, the client drops what it acknowledges",
                          2,
                          {{SET(1), GET(1), SET(2)}, 3, ALL | MODEL_DROPS | MODEL_RESENDS, 0}},
    [CLIENT_DROPS_CALM] = {"set, get, the client drops what it acknowledges, without timers",
                           2,
                           {{SET(1), GET(1)}, 2, CALM | MODEL_DROPS, 0}},
    [PIECES] = {"set, get, replies are sent again in pieces",
                3,
                {{SET(1), GET(1)},
                 2,
                 MODEL_LOSS | MODEL_REPEAT | MODEL_TIMERS | MODEL_ACKS | MODEL_SIZES | MODEL_PIECES,
                 0}},
    [CALM_SET] = {"set, get, set, without loss or timers",
                  3,
                  {{SET(1), GET(1), SET(2)}, 3, CALM, 0}},
    [CALM_GETS] = {"set, get, get, without loss or timers",
                   3,
                   {{SET(1), GET(1), GET(1)}, 3, CALM, 0}},
    [TC_ALONE] = {"set, get, set, by TC alone",
                  2,
                  {{SET(1), GET(1), SET(2)}, 3, ALL | MODEL_NO_XDP, 0}},
    [CPUS] = {"set, get, on two CPUs",
              4,
              {{SET(1), GET(1)},
               2,
               MODEL_LOSS | MODEL_REPEAT | MODEL_TIMERS | MODEL_CPUS | MODEL_SIZES,
               0}},
    [LATE] = {"set, get, on a connection that is known from its first reply on",
              3,
              {{SET(1), GET(1)}, 2, ALL | MODEL_LATE, 0}},
    [LATE_BACKLOG] = {"set, set noreply, get, likewise, with timers and queues alone",
                      3,
                      {{SET(1), SET(0), GET(1)}, 3, MODEL_TIMERS | MODEL_WAITS | MODEL_LATE, 0}},
    [UNDO] = {"set, get, and the server undoes",
              3,
              {{SET(1), GET(1)}, 2, (ALL | MODEL_UNDO) & ~MODEL_CPUS, 0}},
    [UNDO_PIPELINE] = {"set, get, a longer set, likewise",
                       2,
                       {{SET(1), GET(1), LONG(2)},
                        3,
                        MODEL_LOSS | MODEL_REPEAT | MODEL_TIMERS | MODEL_WAITS | MODEL_UNDO,
                        0}},
};

#define BIT(rule) SPLICE_RULE(rule)

/* XDP notes all that it passes. */
#define NOTE_ACK_XDP (BIT(RULE_NOTE_ACK_TC) | BIT(RULE_NOTE_XDP))

/*
 * What breaks, where, without these rules, with so many faults. Of those that the programs do
 * without (SPLICE_LEFT_OUT) a bit says that it is done.
 */
static const struct mutant {
    const char *name;
    splice_rules off;
    enum scenario_name scenario;
    unsigned faults;
} mutants[] = {
    {"acks are not clamped", BIT(RULE_CLAMP), ONE_GET, 2},
    {"a request sent again is not answered", BIT(RULE_RESEND), ONE_GET, 1},
    {"a segment with old and new bytes is passed", BIT(RULE_RESEND_MIXED), GET_AND_SET, 1},
    {"a bare ack that repeats is not answered", BIT(RULE_RESEND_ON_ACK), CLIENT_DROPS_CALM, 1},
    {"a piece acknowledges the request", BIT(RULE_PIECE_HELD), PIECES, 3},
    {"no timer resends what the client dropped", BIT(RULE_RESEND_TIMER), CLIENT_DROPS, 2},
    {"what straddles the splice is dropped", BIT(RULE_PROBE), SERVER_CLOSES, 3},
    {"what is sent again is looked up again", BIT(RULE_RESEND_KEPT), ONE_GET, 2},
    {"TC ingress does not resend", BIT(RULE_RESEND_TC), ONE_GET, 1},
    {"XDP resends, TC ingress does not", BIT(RULE_RESEND_TC) | BIT(RULE_RESEND_XDP), ONE_GET, 2},
    {"acks inside of a reply are not cut", BIT(RULE_ACK_INSIDE) | BIT(RULE_RUN_FREE),
     CLIENT_DROPS_SET, 2},
    {"bytes below the splice are sent with the new N", BIT(RULE_OLD_EGRESS), ONE_GET, 2},
    {"what straddles the splice is sent", BIT(RULE_STRADDLE), SERVER_CLOSES_PLAIN, 4},
    {"the boundary's numbers are published one by one", BIT(RULE_PUBLISH_WHOLE), TWO_GETS, 1},
    {"kmax is not looked at", BIT(RULE_KMAX), ONE_GET, 1},
    {"consumed is not looked at", BIT(RULE_CONSUMED), TWO_GETS, 0},
    {"sent is not looked at", BIT(RULE_SENT), TWO_GETS, 0},
    {"a get is answered, and not what is behind it in its segment", BIT(RULE_WHOLE), GET_AND_SET,
     0},
    {"a get behind a command without a reply is one of the run", BIT(RULE_RUN), RUN_BROKEN, 1},
    {"the reply to a get begins where its ack is", BIT(RULE_RUN_END), TWO_GETS, 1},
    {"two CPUs copy a reply at a time", BIT(RULE_BUSY), CPUS, 4},
    {"what was checked before the copy is not checked again", BIT(RULE_AGAIN), ONE_GET, 2},
    {"neither ksnd nor a FIN is looked at", BIT(RULE_KSND) | BIT(RULE_CLOSING), SERVER_CLOSES, 1},
    {"a connection's first request is answered", BIT(RULE_FOLLOWED), LATE, 3},
    {"a frozen connection is answered", BIT(RULE_FROZEN), UNDO, 1},
    {"what is replaced sends", BIT(RULE_FROZEN_OUT), UNDO, 1},
    {"what comes meanwhile is the listening socket's", BIT(RULE_LISTENER), UNDO, 2},
    {"what was translated before is taken by the next socket", BIT(RULE_MARK), UNDO_PIPELINE, 2},
    /* What costs time and bytes, nothing else. */
    {"an ack held back is not sent afterwards", BIT(RULE_HELD), CALM_SET, 0},
    {"an ack is answered that the socket waits for", BIT(RULE_ACK_DUE), CALM_GETS, 0},
    {"acks in old segments count as told", BIT(RULE_NOTE_ACK), CALM_GETS, 1},
    {"acks that XDP passes count as told", NOTE_ACK_XDP, CALM_GETS, 2},
    {"these, and acks are not translated with the old N", NOTE_ACK_XDP | BIT(RULE_OLD_ACK),
     CALM_GETS, 1},
    {"these, and client's bytes are not translated with the old M",
     NOTE_ACK_XDP | BIT(RULE_OLD_SEQ), CALM_GETS, 1},
};

/* The same, with --long. */
static const struct mutant rare[] = {
    {"a connection is followed once new data is seen", BIT(RULE_FOLLOWED_SENT), LATE_BACKLOG, 4},
};

/* Rules that follow from the others: alone they can be left out. */
static const struct mutant spare[] = {
    {"acks below the reply's end with the new N", BIT(RULE_OLD_ACK), CALM_GETS, 2},
    {"client's bytes below the request with the new M", BIT(RULE_OLD_SEQ), CALM_GETS, 2},
    {"the boundary published after the send", BIT(RULE_PUBLISH_FIRST), ONE_GET, 2},
    {"XDP moves kmax, too", BIT(RULE_NOTE_XDP), ONE_GET, 2},
    {"XDP resends, too", BIT(RULE_RESEND_XDP), ONE_GET, 2},
    {"XDP does both", BIT(RULE_NOTE_XDP) | BIT(RULE_RESEND_XDP), GET_AND_SET, 1},
    {"no look at ksnd", BIT(RULE_KSND), SERVER_CLOSES, 2},
    {"no look at a FIN", BIT(RULE_CLOSING), SERVER_CLOSES, 2},
    {"every ack inside a run asks for the rest", BIT(RULE_RUN_ACK), CALM_GETS, 2},
    {"a run is freed as a whole", BIT(RULE_RUN_FREE), RUN_OF_THREE, 1},
    {"all requests of a run are freed with its first reply", BIT(RULE_RUN_MARK), RUN_OF_THREE, 1},
    {"the first request answered of a connection known from its start", BIT(RULE_FOLLOWED),
     GET_FIRST, 2},
};

struct options {
    int more; /* faults; -1: one less */
    bool trace;
};

static void print_trace(const struct explore_result *r)
{
    for (const char *line = r->trace, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        diag("%.*s", (int)(end - line), line);
    }
    diag("  -> %s", r->wrong);
}

/* `off`: without these rules. */
static struct explore_result run(const struct scenario *s, splice_rules off, unsigned faults,
                                 const struct options *o)
{
    struct model m = s->model;
    struct explore_result r;

    m.off = off ^ SPLICE_LEFT_OUT;
    while (explore(&m, faults, o->more > 0 ? MAX_STATES_LONG : MAX_STATES, &r)) {
        diag("%s with %u faults has more than %zu states", s->name, faults, r.nstates);
        if (!faults--)
            exit(1);
    }
    return r;
}

static void test_scenario(const struct scenario *s, const struct options *o)
{
    unsigned faults = s->faults + o->more;
    struct explore_result r = run(s, 0, faults, o);
    bool whole = o->more > 0 || r.bound == faults;

    ok(!r.wrong && whole, "%s: every reply once and in order, every byte acknowledged", s->name);
    diag("%zu states, %zu steps, up to %u faults", r.nstates, r.nsteps, r.bound);
    if (r.wrong)
        print_trace(&r);
    free(r.trace);
}

/* The states with fewest faults are visited first, so the trace is one with the fewest. */
static void test_mutant(const struct mutant *m, const struct options *o)
{
    struct explore_result r = run(&scenarios[m->scenario], m->off, m->faults, o);

    ok(r.wrong && r.faults == m->faults, "%s, %u faults: %s", m->name, r.faults,
       r.wrong ? r.wrong : "nothing is wrong");
    if (r.wrong && o->trace)
        print_trace(&r);
    free(r.trace);
}

static void test_spare(const struct mutant *m, const struct options *o)
{
    const struct scenario *s = &scenarios[m->scenario];
    struct explore_result r = run(s, m->off, m->faults + o->more, o);

    ok(!r.wrong, "%s: the other rules are enough", m->name);
    if (r.wrong)
        print_trace(&r);
    free(r.trace);
}

int main(int argc, char **argv)
{
    struct options o = {0, false};

    /* ThreadSanitizer makes it ten times slower, and there is one thread. */
    if (getenv("TSAN_OPTIONS"))
        o.more = -1;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--long"))
            o.more = 1;
        o.trace |= !strcmp(argv[i], "--trace");
    }
    for (unsigned i = 0; i < NSCENARIOS; i++)
        test_scenario(&scenarios[i], &o);
    for (unsigned i = 0; i < sizeof(mutants) / sizeof(*mutants); i++)
        test_mutant(&mutants[i], &o);
    for (unsigned i = 0; i < sizeof(rare) / sizeof(*rare) && o.more > 0; i++)
        test_mutant(&rare[i], &o);
    for (unsigned i = 0; i < sizeof(spare) / sizeof(*spare); i++)
        test_spare(&spare[i], &o);
    return done();
}
