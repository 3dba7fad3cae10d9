/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random segments of connections in random states through the programs for TCP: what they do is
 * what the rules say. And frames with random bytes: the programs answer only a request that is
 * whole, and the server's next; what XDP passes is as it came.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/bpf/tcp_lab.h"
#include "t/bpf/wire.h"
#include "t/lib/tap.h"

enum { EPISODES = 3000, STEPS = 12, DAMAGED = 20000, FAR = 1 << 26 };
_Static_assert(2 * STEPS * (uint64_t)FAR < UINT64_C(1) << 31, "each segment may move both ends");

#define TEXT(bytes) .text = bytes, .n = sizeof(bytes) - 1
#define SAYS(bytes) .reply = bytes, .nreply = sizeof(bytes) - 1

static char large[1400];
static struct request requests[] = {
    {TEXT("get hit\r\n"), SAYS("VALUE hit 0 5\r\nvalue\r\nEND\r\n"), .hits = 1},
    {TEXT("get no\r\n"), SAYS("END\r\n"), .misses = 1},
    {TEXT("gets hit\n"), SAYS("VALUE hit 0 5 77\r\nvalue\r\nEND\r\n"), .hits = 1},
    {TEXT("mg hit v k\r\n"), SAYS("VA 5 khit\r\nvalue\r\n"), .hits = 1},
    {TEXT("get large\r\n"), .reply = large, .hits = 1},
    {TEXT("get hit\r\nget no\r\n"), SAYS("VALUE hit 0 5\r\nvalue\r\nEND\r\nEND\r\n"), .hits = 1,
     .misses = 1, .more = 1},
    {TEXT("mg no v q\r\nmg hit v q\r\nmn\r\n"), SAYS("VA 5\r\nvalue\r\nMN\r\n"), .hits = 1,
     .misses = 1, .more = 2},
    {TEXT("set hit 0 0 5\r\nvalue\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("delete no\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("get hi"), .reason = MC_TCP_PASS_SEGMENT},
    {TEXT("get hit\r\nset no 0 0 1\r\nx\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("t\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("mg no q\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT(""), .reason = NOT_COUNTED},
    {TEXT(""), .reason = NOT_COUNTED},
    {TEXT(""), .reason = NOT_COUNTED},
};
enum { ANSWERED = 7, REQUESTS = sizeof(requests) / sizeof(requests[0]) };

/* --- chance ----------------------------------------------------------------------------------- */

static uint32_t any(void)
{
    return (uint32_t)random() << 16 ^ (uint32_t)random();
}

static uint32_t below(uint32_t n)
{
    return any() % n;
}

static bool one_in(uint32_t n)
{
    return below(n) == 0;
}

/*
 * A number at one of these places, mostly, or close to it, or far: beyond most windows, but so that
 * all segments of an episode cannot bring two numbers of a connection 2^31 apart, where they have
 * no order.
 */
static uint32_t near(const uint32_t *places, uint32_t n)
{
    uint32_t number = places[below(n)];

    if (one_in(12))
        number += below(41) - 20;
    return one_in(100) ? number + below(2 * FAR) - FAR : number;
}

static void any_options(struct segment *segment, uint8_t options[40], uint32_t edge)
{
    size_t at;

    if (!one_in(10))
        return;
    segment->options = options;
    segment->noptions = 4 * below(11);
    for (at = 0; at < 40; at++)
        options[at] = one_in(3) ? 1 : (uint8_t)below(12);
    if (segment->noptions >= 24 && one_in(2)) {
        memcpy(options, "\1\1\10\12", 4);
        put32(options + 4, segment->tsval);
        memcpy(options + 12, "\1\1\5\12", 4);
        put32(options + 16, edge + below(40) - 20);
        put32(options + 20, edge + below(40));
    } else if (one_in(2)) { /* timestamps alone, which begin anywhere */
        segment->noptions = 12;
        at = below(3);
        memset(options, 1, 12);
        options[at] = 8;
        options[at + 1] = 10;
        put32(options + at + 2, segment->tsval);
        put32(options + at + 6, segment->tsecr);
    }
}

/* --- segments --------------------------------------------------------------------------------- */

static unsigned int any_flags(void)
{
    static const unsigned int flags[] = {ACK, PSH | ACK,       FIN | ACK, RST | ACK,
                                         RST, URG | ACK,       ECE | ACK, PSH,
                                         0,   FIN | PSH | ACK, SYN | ACK};

    return flags[one_in(20) ? below(sizeof(flags) / sizeof(flags[0])) : below(2)];
}

/* Where the server has read all, as it has published that (wire); else where the client is. */
static uint32_t consumed(const struct tcp_lab *lab, const struct mc_tcp_conn *conn)
{
    uint64_t boundary = lab->slots[conn->slot].boundary;

    return (boundary == MC_TCP_NONE ? conn->rcv_nxt : conn->irs + (uint32_t)boundary) +
           conn->delta.rx;
}

static void any_comes(struct segment *segment, struct tcp_lab *lab, const struct mc_tcp_conn *conn,
                      const struct request *request, uint8_t options[40])
{
    const struct mc_tcp_delta *delta = &conn->delta;
    uint32_t next = conn->rcv_nxt + delta->rx, last = conn->snd_nxt + delta->tx;
    const uint32_t seqs[] = {next,     next,          next,           next,
                             next + 8, conn->rcv_nxt, delta->request, consumed(lab, conn)};
    const uint32_t acks[] = {last, last, last, last, conn->snd_una + delta->tx, delta->reply};
    const uint32_t open_seqs[] = {delta->request, delta->request + 4, next, next};
    const uint32_t open_acks[] = {delta->reply, delta->reply, delta->reply + below(50),
                                  delta->reply + delta->nreply, conn->last};
    bool open = delta->nreply && !one_in(3);

    segment_in(lab, segment, conn, request->text, request->n);
    segment->seq = open ? near(open_seqs, 4) : near(seqs, sizeof(seqs) / sizeof(seqs[0]));
    segment->ack = open ? near(open_acks, 5) : near(acks, sizeof(acks) / sizeof(acks[0]));
    segment->tsval = conn->client_ts + below(12) - 1;
    segment->window = one_in(5) ? below(100) : 500;
    any_options(segment, options, last);
}

static void any_leaves(struct segment *segment, const struct mc_tcp_conn *conn,
                       const struct request *request, uint8_t options[40])
{
    const struct mc_tcp_delta *delta = &conn->delta;
    uint32_t splice = delta->reply - delta->tx + delta->nreply;
    const uint32_t seqs[] = {conn->snd_nxt, conn->snd_nxt, conn->snd_una, splice};
    const uint32_t acks[] = {conn->rcv_nxt, conn->rcv_nxt,
                             delta->request - delta->rx + delta->nrequest};

    segment_out(segment, conn, request->text, request->n);
    segment->seq = near(seqs, sizeof(seqs) / sizeof(seqs[0]));
    segment->ack = near(acks, sizeof(acks) / sizeof(acks[0]));
    segment->tsval += below(8) - 101u;
    segment->tsecr += below(8) - 4u;
    segment->window = below(65536);
    any_options(segment, options, conn->rcv_nxt);
    if (!one_in(4))
        return;
    segment->seq = conn->snd_nxt - 1; /* a keepalive probe */
    segment->n = 0;
}

/* What the server may have published. */
static void any_boundary(struct tcp_lab *lab, const struct mc_tcp_conn *conn)
{
    struct mc_tcp_slot *slot = &lab->slots[conn->slot];

    if (!one_in(4))
        conn_settle(lab, conn);
    if (one_in(30))
        slot->boundary = MC_TCP_NONE;
    if (one_in(30))
        slot->boundary += one_in(2) ? below(5) - 2u : (uint64_t)(below(5) - 2u) << 32;
    if (one_in(40))
        slot->generation++;
    slot->lost = one_in(4) ? 2 : 0;
    slot->ack_due = one_in(3) ? 2 + below(2) : 0;
}

static void any_conn(struct tcp_lab *lab, bool v6, struct mc_tcp_conn *conn)
{
    conn_init_at(lab, conn, one_in(6) ? 0 : any(), one_in(6) ? 0 : any(), any(), any());
    conn->snd_wscale = (uint8_t)below(15);
    conn->rcv_wscale = (uint8_t)any() % 14;
    if (one_in(5))
        conn->mss = below(1448) + 1;
    if (one_in(20))
        conn->snd_una -= below(100);
    if (one_in(20))
        conn->flags = below(16);
    if (one_in(30))
        conn->lock = MC_TCP_FROZEN;
    conn->delta.request = conn->rcv_nxt + conn->delta.rx; /* the last was all before */
    conn->delta.reply = conn->snd_nxt + conn->delta.tx;
    conn_put(lab, v6, conn);
}

static void show(const struct segment *segment, const struct mc_tcp_conn *conn, enum hook hook)
{
    diag("hook %d: seq %08x ack %08x flags %02x n %zu options %zu tsval %08x sum %d", hook,
         segment->seq, segment->ack, segment->flags, segment->n, segment->noptions, segment->tsval,
         segment->sum);
    diag("entry: in %08x out %08x request %08x+%u reply %08x+%u rcv_nxt %08x snd_nxt %08x acked "
         "%08x",
         conn->delta.rx, conn->delta.tx, conn->delta.request, conn->delta.nrequest,
         conn->delta.reply, conn->delta.nreply, conn->rcv_nxt, conn->snd_nxt, conn->snd_una);
}

/* Whether a checksum happens to be what is there before a card computes it. */
static bool looks_partial(const struct segment *segment, const struct frame *frame)
{
    static struct frame other;
    struct segment partial = *segment;

    partial.sum = SUM_PARTIAL;
    segment_frame(&other, &partial);
    return segment->sum != SUM_PARTIAL && frame_equal(&other, frame);
}

/* One segment of either side. *tally: what was done; *said: replies in the place of a probe. */
static bool step(struct tcp_lab *lab, bool v6, unsigned int tally[ACTS], unsigned int *said)
{
    static struct frame frame;
    const struct request *request = &requests[below(one_in(2) ? ANSWERED : REQUESTS)];
    static const enum hook hooks[] = {HOOK_XDP, HOOK_XDP, HOOK_INGRESS, HOOK_INGRESS, HOOK_EGRESS};
    enum hook hook = hooks[below(5)];
    struct outcome found;
    struct segment segment;
    struct mc_tcp_conn conn;
    uint8_t options[40];
    bool right;

    if (!conn_get(lab, v6, &conn))
        return true;
    tcp_lab_set_alone(lab, one_in(2));
    any_boundary(lab, &conn);
    if (hook == HOOK_EGRESS)
        any_leaves(&segment, &conn, request, options);
    else
        any_comes(&segment, lab, &conn, request, options);
    segment.v6 = v6;
    segment.flags = any_flags();
    segment.sum = one_in(10) ? (enum sum)below(3) : SUM_WHOLE;
    segment.traffic = one_in(10) ? below(4) : 0;
    segment_frame(&frame, &segment);
    if (looks_partial(&segment, &frame))
        return true;
    if (hook == HOOK_INGRESS && one_in(10))
        lab->lab.control->lease |= MC_LEASE_DEAD;
    right = tcp_check(lab, hook, &segment, &frame, request, 0, &found);
    lab->lab.control->lease &= ~(uint64_t)MC_LEASE_DEAD;
    if (right && hook == HOOK_XDP && found.act == ACT_PASS && one_in(2)) {
        tally[ACT_PASS]++; /* and then TC has it */
        hook = HOOK_INGRESS;
        right = tcp_check(lab, hook, &segment, &frame, request, 0, &found);
    }
    tally[found.act]++;
    *said += hook == HOOK_EGRESS && found.act == ACT_RESEND;
    if (!right && !lab->quiet)
        show(&segment, &conn, hook);
    return right;
}

/* T_SEED chooses other episodes. */
static unsigned int seed(void)
{
    const char *text = getenv("T_SEED");

    return text ? (unsigned int)strtoul(text, NULL, 10) : 20261123;
}

/* Whether the programs do in all episodes what the model says. */
static bool episodes(struct tcp_lab *lab, unsigned int tally[ACTS], unsigned int *said)
{
    struct mc_tcp_conn conn;
    bool right = true;
    unsigned int i, j;

    srandom(seed());
    for (i = 0; i < EPISODES && right; i++) {
        any_conn(lab, i % 2, &conn);
        for (j = 0; j < STEPS && right; j++)
            right = step(lab, i % 2, tally, said);
    }
    return right;
}

static void test_rules(struct tcp_lab *lab)
{
    unsigned int tally[ACTS] = {0}, said = 0;

    ok(episodes(lab, tally, &said),
       "random segments of random connections: all is as the rules say");
    diag("answered %u, by TC for the socket %u, again %u (unasked %u), passed %u, with an "
         "acknowledgement %u, probes %u, dropped %u, refused %u",
         tally[ACT_ANSWER], tally[ACT_ANSWER_PAID], tally[ACT_RESEND], said, tally[ACT_PASS],
         tally[ACT_RELEASE], tally[ACT_PROBE], tally[ACT_DROP], tally[ACT_REFUSE]);
    ok(tally[ACT_ANSWER] > 1000 && tally[ACT_ANSWER_PAID] > 100 && tally[ACT_RESEND] > 1000 &&
           tally[ACT_PASS] > 5000 && tally[ACT_RELEASE] > 5 && tally[ACT_PROBE] > 5 && said > 100 &&
           tally[ACT_REFUSE] > 100,
       "all that may happen has happened, many times");
}

/*
 * Each rule of the model that one segment can show: with it reversed, so that the model is asked
 * without a rule which the programs follow, or with one that they do without, some segment shows
 * the difference.
 */
static void test_each_rule(struct tcp_lab *lab)
{
#define ROW(rule)                                                                                  \
    {                                                                                              \
        rule, #rule                                                                                \
    }
    static const struct {
        enum splice_rule rule;
        const char *name;
    } rows[] = {
        ROW(RULE_CLAMP),         ROW(RULE_RESEND),     ROW(RULE_RESEND_MIXED),
        ROW(RULE_RESEND_ON_ACK), ROW(RULE_PIECE_HELD), ROW(RULE_RESEND_TIMER),
        ROW(RULE_RESEND_TC),     ROW(RULE_RESEND_XDP), ROW(RULE_OLD_ACK),
        ROW(RULE_ACK_INSIDE),    ROW(RULE_OLD_SEQ),    ROW(RULE_OLD_EGRESS),
        ROW(RULE_STRADDLE),      ROW(RULE_PROBE),      ROW(RULE_ACK_DUE),
        ROW(RULE_NOTE_ACK),      ROW(RULE_NOTE_XDP),   ROW(RULE_FOLLOWED_SENT),
        ROW(RULE_KMAX_ACK),      ROW(RULE_KMAX),       ROW(RULE_CONSUMED),
        ROW(RULE_KSND),          ROW(RULE_SENT),       ROW(RULE_RUN),
        ROW(RULE_RUN_END),       ROW(RULE_RUN_ACK),    ROW(RULE_RUN_FREE),
        ROW(RULE_RUN_MARK),      ROW(RULE_FOLLOWED),   ROW(RULE_CLOSING),
        ROW(RULE_FROZEN),        ROW(RULE_FROZEN_OUT),
    };
    unsigned int tally[ACTS], said;
    size_t i;

    lab->quiet = true;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        lab->off = SPLICE_LEFT_OUT ^ SPLICE_RULE(rows[i].rule);
        ok(!episodes(lab, tally, &said), "%s reversed: some segment shows it", rows[i].name);
    }
    lab->off = SPLICE_LEFT_OUT;
    lab->quiet = false;
}

/* --- damaged frames --------------------------------------------------------------------------- */

/* Whether a frame may be answered: the server's next, whole, and undamaged. */
static bool may_be_answered(const struct frame *frame, const struct mc_tcp_conn *conn)
{
    struct frame copy = *frame;
    const uint8_t *tcp = segment_tcp(&copy);

    if (frame->bytes[12] ==
        8) /* IP's own checksum covers nothing that TCP's does not, or matters */
        segment_seal_ip(&copy);
    return segment_is_sound(&copy) && get32(tcp + 4) == conn->rcv_nxt + conn->delta.rx &&
           get32(tcp + 8) == conn->snd_nxt + conn->delta.tx && (tcp[13] & ~PSH) == ACK &&
           memcmp(tcp + 20, "\1\1\10\12", 4) == 0 && tcp[12] >> 4 == 8;
}

static bool damaged(struct tcp_lab *lab, bool v6, enum hook hook)
{
    static struct frame frame;
    static struct tcp_run run;
    struct mc_tcp_slot *slot = &lab->slots[TCP_SLOT];
    struct segment segment;
    struct mc_tcp_conn conn;
    uint32_t n = below(4) + 1, least = v6 ? 54 : 34;
    size_t at;

    conn_init_at(lab, &conn, any(), any(), any(), any());
    segment_in(lab, &segment, &conn, requests[0].text, requests[0].n);
    segment.v6 = v6;
    segment_frame(&frame, &segment);
    for (; n; n--) {
        at = 14 + below((uint32_t)frame.n - 14);
        frame.bytes[at] = (uint8_t)any();
    }
    at = (size_t)(segment_tcp(&frame) - frame.bytes);
    if (one_in(2) && at + 20 < frame.n && at + segment_size(&frame) == frame.n)
        segment_seal(&frame, SUM_WHOLE);
    if (one_in(10))
        frame.n = least + below((uint32_t)frame.n - least);
    run.mark = 0;
    if (tcp_run(lab, hook, &frame, &run))
        return false;
    if (slot->answered)
        return may_be_answered(&frame, &conn) && segment_is_sound(&run.out) &&
               run.verdict == (hook == HOOK_XDP ? (uint32_t)XDP_IS_TX : TC_IS_REDIRECT);
    return hook == HOOK_XDP ? run.verdict == XDP_IS_PASS && frame_equal(&run.out, &frame)
                            : run.verdict == TC_IS_NEXT && run.out.n == frame.n;
}

static void test_damaged(struct tcp_lab *lab)
{
    unsigned int i;
    bool right = true;

    tcp_lab_set_alone(lab, true);
    for (i = 0; i < DAMAGED && right; i++)
        right = damaged(lab, i % 2, i / 2 % 2 ? HOOK_XDP : HOOK_INGRESS);
    ok(right, "random bytes in requests: only whole ones are answered, all others pass");
}

static void put_items(struct tcp_lab *lab)
{
    static char value[1300];
    struct request *request = &requests[4];

    memset(value, 'v', sizeof(value));
    lab_put(&lab->lab, "hit", 3, "value", 5)->cas = 77;
    lab_put(&lab->lab, "large", 5, value, sizeof(value));
    request->nreply = (size_t)snprintf(large, sizeof(large), "VALUE large 0 %zu\r\n%.*s\r\nEND\r\n",
                                       sizeof(value), (int)sizeof(value), value);
}

int main(void)
{
    struct tcp_lab lab;

    tcp_lab_open(&lab);
    put_items(&lab);
    test_rules(&lab);
    test_each_rule(&lab);
    test_damaged(&lab);
    tcp_lab_close(&lab);
    return done();
}
