/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens while a reply over TCP is not acknowledged: which segments make the programs send it
 * once more, which acknowledge it, where its text is kept.
 */
#include <stdio.h>
#include <string.h>

#include "t/bpf/tcp_lab.h"
#include "t/lib/tap.h"

static const char *const names[] = {"XDP", "TC"};

struct run {
    struct tcp_lab *lab;
    enum hook hook;
    bool v6;
    size_t n; /* of the value */
    char name[48];
};

/* The request for the value, and its reply; what follows in the tests is "no". */
static char reply[1500];
static struct request get_hit = {.text = "get hit\r\n", .n = 9, .reply = reply, .hits = 1};
static const struct request get_no = {
    .text = "get no\r\n", .n = 8, .reply = "END\r\n", .nreply = 5, .misses = 1};
static const struct request set_no = {
    .text = "set no 0 0 1\r\nx\r\n", .n = 17, .reason = MC_TCP_PASS_COMMAND};

static void put_hit(const struct run *run, char byte)
{
    char value[1500];

    memset(value, byte, run->n);
    lab_clear(&run->lab->lab);
    lab_put(&run->lab->lab, "hit", 3, value, run->n);
    get_hit.nreply = (size_t)snprintf(reply, sizeof(reply), "VALUE hit 0 %zu\r\n", run->n);
    memcpy(reply + get_hit.nreply, value, run->n);
    memcpy(reply + get_hit.nreply + run->n, "\r\nEND\r\n", 7);
    get_hit.nreply += run->n + 7;
}

/* XDP passes a segment as it came. */
static bool xdp_passes(const struct run *run, const struct segment *segment,
                       const struct request *request, unsigned int odd)
{
    struct request seen = *request;
    static struct frame frame;

    segment_frame(&frame, segment);
    seen.text = segment->text;
    return tcp_frame_does(run->lab, HOOK_XDP, segment, &frame, &seen, odd, ACT_PASS, 0);
}

/* The hook that does what XDP does not: all but to answer. */
static bool does(const struct run *run, const struct segment *segment,
                 const struct request *request, enum act act, uint32_t reason)
{
    if (run->hook == HOOK_INGRESS || act == ACT_ANSWER)
        return tcp_does(run->lab, run->hook, segment, request, act, reason);
    return xdp_passes(run, segment, request, 0) &&
           tcp_does(run->lab, HOOK_INGRESS, segment, request, act, reason);
}

/* Has a request answered. Then the value is another, *conn as it is, *segment the request. */
static bool answer(const struct run *run, struct mc_tcp_conn *conn, struct segment *segment)
{
    bool right;

    put_hit(run, 'v');
    conn_init(run->lab, conn, 0xffffff00u, 0xfffffff0u);
    segment_in(run->lab, segment, conn, get_hit.text, get_hit.n);
    segment->v6 = run->v6;
    right = does(run, segment, &get_hit, ACT_ANSWER, NOT_COUNTED);
    put_hit(run, 'w');
    conn_get(run->lab, run->v6, conn);
    segment->tsval += 3;
    return right;
}

#define BARE .packet = {.seq = 9, .flags = ACK, .bare = true}, .request = &get_no

static bool holds(const struct run *run, const struct tcp_case *row)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = answer(run, &conn, &segment);

    segment.text = row->request->text;
    segment.n = row->request->n;
    case_apply(run->lab, row, &conn, &segment);
    return right && does(run, &segment, row->request, row->verdict, case_reason(row));
}

/* --- what sends it once more ------------------------------------------------------------------ */

static void test_again(const struct run *run)
{
    struct tcp_case row = {"any tail of the request", .request = &get_hit, .verdict = ACT_RESEND};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = answer(run, &conn, &segment);
    size_t i;

    for (i = 0; i < 3; i++, segment.tsval++)
        right &= does(run, &segment, &get_hit, ACT_RESEND, NOT_COUNTED);
    ok(right, "%s: the request again: the reply that was kept, whatever the item is by now",
       run->name);
    for (i = 1, right = true; i < get_hit.n; i++) {
        row.packet.skipped = i;
        right &= holds(run, &row);
    }
    row = (struct tcp_case){"", BARE, .verdict = ACT_RESEND};
    for (i = 1; i < get_hit.nreply; i += 5) {
        row.packet.ack = (uint32_t)i;
        right &= holds(run, &row);
    }
    ok(right, "%s: any tail of the request, or acknowledgement of a part of the reply: again",
       run->name);
}

static const uint8_t sack[] = {1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 1, 0,
                               1, 1, 5, 10, 0, 0, 9, 0, 0, 0, 9, 9};
static const struct request two_gets = {.text = "get hit\r\nget two\r\n", .n = 18};
static const struct request with_old = {.text = "get no\r\nget hit\r\n", .n = 17};
static const struct request a_byte = {.text = "\n", .n = 1};

#define BARE_AT(at) .packet = {.seq = at, .flags = ACK, .bare = true}, .request = &get_no

/* A segment while the reply to `get hit` is outstanding: from the request's begin on, at first. */
static const struct tcp_case cases[] = {
    {"the request and more behind it: again", .request = &two_gets, .verdict = ACT_RESEND},
    {"what came before it, and the request: again", .packet.seq = -8u, .request = &with_old,
     .verdict = ACT_RESEND},
    {"a keepalive with a byte: again", .packet.seq = 8, .request = &a_byte, .verdict = ACT_RESEND},
    {"the request, its checksum partial: again", .packet.sum = SUM_PARTIAL, .request = &get_hit,
     .verdict = ACT_RESEND},
    {"the request with a FIN: again", .packet.flags = FIN | PSH | ACK, .request = &get_hit,
     .verdict = ACT_RESEND},
    {"a bare acknowledgement of all before the reply: again", BARE_AT(9), .verdict = ACT_RESEND},
    {"the same of a client that has sent more: again", BARE_AT(1009), .verdict = ACT_RESEND},
    {"the same with blocks: again",
     .packet = {.seq = 1009, .flags = ACK, .bare = true, .options = sack, .noptions = sizeof(sack)},
     .request = &get_no, .verdict = ACT_RESEND},
    {"a keepalive of the client's: again", BARE_AT(8), .verdict = ACT_RESEND},
    {"a bare acknowledgement from before the request is passed", BARE_AT(0), .verdict = ACT_PASS},
    {"an older acknowledgement is passed", .packet = {.seq = 9, .ack = -10u, .bare = true},
     .request = &get_no, .verdict = ACT_PASS},
    {"the client's end is passed", .packet = {.seq = 9, .flags = FIN | ACK, .bare = true},
     .request = &get_no, .verdict = ACT_PASS},
    {"a reset is passed", .packet.flags = RST | ACK, .request = &get_hit, PASSES(SEGMENT)},
    {"without an acknowledgement it is passed", .packet.flags = PSH, .request = &get_hit,
     PASSES(SEGMENT)},
    {"a request out of all windows is passed", .packet.seq = 1u << 30, .request = &get_hit,
     PASSES(UNACKED)},
    {"one with an acknowledgement out of all windows is passed", .packet.ack = -1u << 30,
     .request = &get_hit, PASSES(UNACKED)},
};

static void test_cases(const struct run *run)
{
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ok(holds(run, &cases[i]), "%s: %s", run->name, cases[i].description);
}

/* Whether what is sent again is a piece of the reply: as many bytes from this one on as it has. */
static bool piece(const struct run *run, const struct segment *segment, uint32_t start,
                  uint32_t from, size_t most)
{
    size_t left = get_hit.nreply - from, n = left < most ? left : most;
    static struct frame frame;
    struct mc_tcp_conn conn;
    struct outcome found;

    segment_frame(&frame, segment);
    if (run->hook == HOOK_XDP && !xdp_passes(run, segment, &get_hit, 0))
        return false;
    return tcp_check(run->lab, HOOK_INGRESS, segment, &frame, &get_hit, 0, &found) &&
           conn_get(run->lab, run->v6, &conn) && found.act == ACT_RESEND &&
           conn.delta.reply + found.from == start + from && found.nreply == n &&
           found.more == (n < left);
}

/* A path may have become too narrow for the reply. */
static void test_pieces(const struct run *run)
{
    size_t n = get_hit.nreply;
    struct mc_tcp_conn conn;
    struct segment segment, bare;
    uint32_t at, start;
    bool right;

    answer(run, &conn, &segment);
    start = segment.ack;
    right = piece(run, &segment, start, 0, n) && piece(run, &segment, start, 0, n) &&
            piece(run, &segment, start, 0, 500) && conn_get(run->lab, run->v6, &conn) &&
            conn.mss == (n > 500 ? 500u : 1448u);
    ok(right, "%s: the third time the reply is sent again it is no longer than 500 bytes",
       run->name);
    bare = segment;
    bare.seq += (uint32_t)get_hit.n;
    bare.n = 0;
    for (at = 1, right = true; at < n; at += 7) {
        segment.ack = bare.ack = start + at;
        right &= piece(run, &bare, start, at, 500) && piece(run, &segment, start, at, 500);
    }
    segment.ack = start - 5;
    right &= piece(run, &segment, start, at - 7, 500);
    ok(right, "%s: then it goes on where the client's acknowledgement ends", run->name);
    bare.ack = start + (uint32_t)n;
    right = does(run, &bare, &get_no, ACT_PASS, NOT_COUNTED);
    put_hit(run, 'v');
    segment.seq += (uint32_t)get_hit.n;
    segment.ack = bare.ack;
    if (n > 500)
        right &= does(run, &segment, &get_hit, ACT_PASS, MC_TCP_PASS_WINDOW);
    else
        right &= does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED) &&
                 conn_get(run->lab, run->v6, &conn) && !conn.retransmits;
    ok(right, "%s: the next reply of more than 500 bytes is left to the server", run->name);
}

/* The socket asks a client what it has, which has not acknowledged the reply. */
static void test_unasked(const struct run *run)
{
    size_t n = get_hit.nreply, first = n < 500 ? n : 500;
    struct mc_tcp_conn conn;
    struct segment segment, probe;
    struct outcome found;
    struct frame frame;
    bool right = true;
    int i;

    for (i = 0; i < 4; i++) {
        answer(run, &conn, &segment);
        segment_out(&probe, &conn, NULL, 0);
        probe.v6 = run->v6;
        probe.seq--;
        probe.flags = ACK;
        probe.sum = i % 2 ? SUM_PARTIAL : SUM_WHOLE;
        if (i >= 2) {
            conn.retransmits = 2;
            conn_put(run->lab, run->v6, &conn);
        }
        segment_frame(&frame, &probe);
        right &= tcp_check(run->lab, HOOK_EGRESS, &probe, &frame, &get_hit, 0, &found) &&
                 found.act == ACT_RESEND && found.from == 0 && found.nreply == (i >= 2 ? first : n);
    }
    ok(right, "%s: in the place of the socket's probe the reply leaves, in the end a piece of it",
       run->name);
    segment.seq += (uint32_t)get_hit.n;
    segment.n = 0;
    segment.flags = ACK;
    segment.ack += (uint32_t)n;
    right = does(run, &segment, &get_no, ACT_PASS, NOT_COUNTED);
    conn_get(run->lab, run->v6, &conn);
    segment_out(&probe, &conn, NULL, 0);
    probe.v6 = run->v6;
    probe.seq--;
    right &= tcp_does(run->lab, HOOK_EGRESS, &probe, &get_no, ACT_PASS, NOT_COUNTED);
    answer(run, &conn, &segment);
    segment_out(&probe, &conn, NULL, 0);
    probe.v6 = run->v6;
    probe.flags = ACK;
    right &= tcp_does(run->lab, HOOK_EGRESS, &probe, &get_no, ACT_PASS, NOT_COUNTED);
    ok(right, "%s: a probe without a reply, and an acknowledgement, leave as they are", run->name);
}

/* A client that has no room answers each copy. */
static void test_no_room(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    uint32_t left = (uint32_t)get_hit.nreply, acked, i;
    bool right = true;

    for (i = 0; i < 3; i++) {
        acked = i * left / 3;
        answer(run, &conn, &segment);
        conn.snd_wscale = (uint8_t)i;
        conn_put(run->lab, run->v6, &conn);
        segment.seq += (uint32_t)get_hit.n;
        segment.n = 0;
        segment.flags = ACK;
        segment.ack += acked;
        segment.window = 0;
        right &= does(run, &segment, &get_no, ACT_PASS, NOT_COUNTED);
        segment.window = (left - acked - 1) >> i;
        right &= does(run, &segment, &get_no, ACT_PASS, NOT_COUNTED);
        segment.window = (left - acked + (1u << i) - 1) >> i;
        right &= does(run, &segment, &get_no, ACT_RESEND, NOT_COUNTED);
    }
    ok(right, "%s: bare acknowledgements get the reply again once there is room for it", run->name);
}

/* --- what ends it ----------------------------------------------------------------------------- */

/* Whether a reply is outstanding no longer. */
static bool has_ended(const struct run *run)
{
    struct mc_tcp_conn conn;

    return conn_get(run->lab, run->v6, &conn) && !conn.delta.nreply;
}

/* Commands that do not wait for the reply. */
static void test_pipelined(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = answer(run, &conn, &segment);

    segment.seq += (uint32_t)get_hit.n;
    segment.text = set_no.text;
    segment.n = set_no.n;
    right &= does(run, &segment, &set_no, ACT_PASS, MC_TCP_PASS_COMMAND);
    segment.seq += (uint32_t)set_no.n;
    segment.text = get_no.text;
    segment.n = get_no.n;
    right &= does(run, &segment, &get_no, ACT_PASS, MC_TCP_PASS_UNACKED);
    ok(right, "%s: a set that does not acknowledge the reply is passed, and a get behind it",
       run->name);
    segment.text = set_no.text;
    segment.n = set_no.n;
    segment.ack += (uint32_t)get_hit.nreply;
    segment.seq += (uint32_t)get_no.n;
    ok(does(run, &segment, &set_no, ACT_PASS, MC_TCP_PASS_COMMAND) && has_ended(run),
       "%s: what follows acknowledges the reply, and is passed", run->name);
}

static void test_acknowledged(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = answer(run, &conn, &segment);

    segment.seq += (uint32_t)get_hit.n;
    segment.ack += (uint32_t)get_hit.nreply;
    segment.n = 0;
    segment.flags = ACK;
    right &= does(run, &segment, &get_no, ACT_PASS, NOT_COUNTED) && has_ended(run);
    ok(right,
       "%s: an acknowledgement that is passed ends it in TC, and frees the retransmit buffer",
       run->name);
    segment.seq -= (uint32_t)get_hit.n;
    segment.n = get_hit.n;
    segment.flags |= PSH;
    ok(does(run, &segment, &get_hit, ACT_PASS, MC_TCP_PASS_BOUNDARY),
       "%s: after that the request again is passed", run->name);
    segment.text = get_no.text;
    segment.n = get_no.n;
    segment.seq += (uint32_t)get_hit.n;
    ok(does(run, &segment, &get_no, ACT_ANSWER, NOT_COUNTED),
       "%s: and the next request is answered", run->name);
}

/*
 * Segments whose checksum is wrong, which seem to acknowledge the reply: the client has not got it.
 */
static void test_damaged(const struct run *run)
{
    static const char longer[] = "set no 0 0 2983\r\n";
    static char text[3001];
    static const size_t sizes[] = {0, 1, 17, 1023, 1024, 1025, 1448, 2048, 3001};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t i, sum;

    memset(text, 'x', sizeof(text));
    memcpy(text, longer, sizeof(longer) - 1);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (sum = SUM_WHOLE; sum <= SUM_WRONG; sum++) {
            right &= answer(run, &conn, &segment);
            segment.seq += (uint32_t)get_hit.n;
            segment.ack += (uint32_t)get_hit.nreply;
            segment.text = text;
            segment.n = sizes[i];
            segment.sum = (enum sum)sum;
            right &= does(run, &segment, &set_no, ACT_PASS,
                          sizes[i] ? MC_TCP_PASS_COMMAND : NOT_COUNTED) &&
                     has_ended(run) == (sum != SUM_WRONG);
            if (!right) {
                diag("%zu bytes, checksum %zu", sizes[i], sum);
                break;
            }
        }
    ok(right, "%s: only an acknowledgement whose checksum is not wrong ends it", run->name);
}

/* The slot is a later connection's, which waits for an acknowledgement, too. */
static void test_slot_of_another(const struct run *run)
{
    struct mc_tcp_slot *slot = &run->lab->slots[TCP_SLOT];
    struct mc_tcp_conn conn;
    struct segment segment;

    answer(run, &conn, &segment);
    slot->generation++;
    segment.seq += (uint32_t)get_hit.n;
    segment.ack += (uint32_t)get_hit.nreply;
    segment.n = 0;
    ok(does(run, &segment, &get_no, ACT_PASS, NOT_COUNTED) && slot->outstanding,
       "%s: the acknowledgement of a connection that the server has closed leaves the slot alone",
       run->name);
}

/* Another connection has the ports of one whose slot says whether the server has closed it. */
static void test_opening(const struct run *run, bool closed)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    struct mc_tcp_rtx rtx;
    bool right;

    answer(run, &conn, &segment);
    run->lab->slots[TCP_SLOT].generation += closed;
    segment.flags = SYN;
    segment.n = 0;
    right = does(run, &segment, &get_no, ACT_PASS, NOT_COUNTED);
    rtx_get(run->lab, conn.rtx, &rtx);
    ok(right && conn_get(run->lab, run->v6, &conn) == !closed && !rtx.owner == closed,
       "%s: a SYN %s", run->name,
       closed ? "makes a connection void that the server has closed, and frees its reply's place"
              : "changes nothing of one that it has");
}

/* From elsewhere the reply goes by TC, to where the segment came from. */
static void test_way(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    struct frame frame;

    answer(run, &conn, &segment);
    conn.ifindex = TCP_OTHER;
    conn_put(run->lab, run->v6, &conn);
    segment_frame(&frame, &segment);
    ok((run->hook == HOOK_INGRESS || xdp_passes(run, &segment, &get_hit, ODD_WAY)) &&
           tcp_frame_does(run->lab, HOOK_INGRESS, &segment, &frame, &get_hit, ODD_WAY, ACT_RESEND,
                          0),
       "%s: the request again by another way: the reply again", run->name);
}

/* --- where the text is kept ------------------------------------------------------------------- */

/* Gives the connection's first n places to others. */
static void occupy(const struct run *run, uint32_t n)
{
    struct mc_tcp_rtx rtx = {.n = 5, .text = "other"};
    uint32_t i;

    for (i = 0; i < n; i++) {
        rtx.owner = rtx_owner(12345 + i, TCP_SLOT + MC_TCP_RTX_MAX, TCP_GENERATION);
        rtx_put(run->lab, rtx_place(run->lab, run->v6, TCP_SLOT, i), &rtx);
    }
}

static void test_places(const struct run *run)
{
    struct mc_tcp_rtx rtx = {.owner = rtx_owner(7, TCP_SLOT, TCP_GENERATION - 1), .n = 5};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    uint32_t n;

    put_hit(run, 'v');
    for (n = 0; n <= MC_TCP_RTX_TRIES; n++) {
        conn_init(run->lab, &conn, 0, 0);
        occupy(run, n);
        segment_in(run->lab, &segment, &conn, get_hit.text, get_hit.n);
        segment.v6 = run->v6;
        right &= does(run, &segment, &get_hit, n < MC_TCP_RTX_TRIES ? ACT_ANSWER : ACT_PASS,
                      n < MC_TCP_RTX_TRIES ? (int)NOT_COUNTED : (int)MC_TCP_PASS_KEPT);
        conn_get(run->lab, run->v6, &conn);
        right &= n == MC_TCP_RTX_TRIES || conn.rtx == rtx_place(run->lab, run->v6, TCP_SLOT, n);
    }
    ok(right, "%s: a reply is kept in the first free place of six; if there is none it is passed",
       run->name);
    conn_init(run->lab, &conn, 0, 0);
    rtx_put(run->lab, rtx_place(run->lab, run->v6, TCP_SLOT, 0), &rtx);
    segment_in(run->lab, &segment, &conn, get_hit.text, get_hit.n);
    segment.v6 = run->v6;
    right = does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED);
    conn_get(run->lab, run->v6, &conn);
    ok(right && conn.rtx == rtx_place(run->lab, run->v6, TCP_SLOT, 0),
       "%s: a place that the slot's last connection left behind is taken over", run->name);
}

/* A place that is another connection's by now. */
static void test_lost(const struct run *run)
{
    struct mc_tcp_rtx rtx;
    struct mc_tcp_conn conn;
    struct segment segment;

    answer(run, &conn, &segment);
    occupy(run, 1);
    ok(does(run, &segment, &get_hit, ACT_DROP, NOT_COUNTED),
       "%s: a text that is no longer kept is not sent", run->name);
    segment.seq += (uint32_t)get_hit.n;
    segment.ack += (uint32_t)get_hit.nreply;
    segment.n = 0;
    run->lab->keeps_others = true;
    does(run, &segment, &get_hit, ACT_PASS, NOT_COUNTED);
    run->lab->keeps_others = false;
    rtx_get(run->lab, rtx_place(run->lab, run->v6, TCP_SLOT, 0), &rtx);
    ok(rtx.owner == rtx_owner(12345, TCP_SLOT + MC_TCP_RTX_MAX, TCP_GENERATION),
       "%s: and its place is not freed", run->name);
}

/* Two connections whose slots have the same places. */
static void test_two(struct tcp_lab *lab, enum hook hook)
{
    struct run runs[2] = {{.lab = lab, .hook = hook, .n = 100},
                          {.lab = lab, .hook = hook, .v6 = true, .n = 100}};
    struct segment segments[2];
    struct mc_tcp_conn conns[2];
    bool right = true;
    int i;

    put_hit(&runs[0], 'v');
    conn_init(lab, &conns[0], 0, 0);
    conns[1] = conns[0];
    conns[1].slot += MC_TCP_RTX_MAX;
    conn_settle(lab, &conns[1]);
    conn_put(lab, true, &conns[1]);
    for (i = 0; i < 2; i++) {
        const struct request *request = i ? &get_no : &get_hit;

        segment_in(lab, &segments[i], &conns[i], request->text, request->n);
        segments[i].v6 = i;
        right &= does(&runs[i], &segments[i], request, ACT_ANSWER, NOT_COUNTED);
    }
    for (i = 0; i < 4; i++)
        right &= does(&runs[i % 2], &segments[i % 2], &get_hit, ACT_RESEND, NOT_COUNTED);
    ok(right, "%s: two connections with the same places: each gets its own reply", names[hook]);
}

static void test_hook(struct tcp_lab *lab, enum hook hook, bool v6, size_t n)
{
    struct run run = {.lab = lab, .hook = hook, .v6 = v6, .n = n};

    snprintf(run.name, sizeof(run.name), "%s, IPv%d, %zu bytes", names[hook], v6 ? 6 : 4, n);
    tcp_lab_set_alone(lab, hook == HOOK_INGRESS);
    test_again(&run);
    test_cases(&run);
    test_no_room(&run);
    test_unasked(&run);
    test_pieces(&run);
    test_pipelined(&run);
    test_acknowledged(&run);
    test_damaged(&run);
    test_slot_of_another(&run);
    if (hook == HOOK_INGRESS) {
        test_opening(&run, false);
        test_opening(&run, true);
    }
    test_way(&run);
    test_places(&run);
    test_lost(&run);
}

int main(void)
{
    static const size_t sizes[] = {0, 33, 500, 1350};
    struct tcp_lab lab;
    size_t i;
    int v6;

    tcp_lab_open(&lab);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (v6 = 0; v6 < 4; v6++) {
            tcp_lab_set_unstamped(&lab, v6 / 2);
            test_hook(&lab, HOOK_XDP, v6 % 2, sizes[i]);
            test_hook(&lab, HOOK_INGRESS, v6 % 2, sizes[i]);
        }
    }
    test_two(&lab, HOOK_XDP);
    test_two(&lab, HOOK_INGRESS);
    tcp_lab_close(&lab);
    return done();
}
