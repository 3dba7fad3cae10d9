/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How TC translates the numbers of segments that pass, in both directions, and those in ICMP errors
 * about them; what it notes of those that leave; the bare acknowledgement that goes on behind an
 * answer, and the one that the client gets when it was held back.
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "t/bpf/tcp_lab.h"
#include "t/bpf/wire.h"
#include "t/lib/tap.h"

struct run {
    struct tcp_lab *lab;
    enum hook hook;
    bool v6;
    char name[48];
};

#define HIT "VALUE hit 0 5\r\nvalue\r\nEND\r\n"

static const struct request get_hit = {
    .text = "get hit\r\n", .n = 9, .reply = HIT, .nreply = sizeof(HIT) - 1, .hits = 1};
static const struct request none = {.text = "", .reason = NOT_COUNTED};
static const struct request set_no = {
    .text = "set no 0 0 1\r\nx\r\n", .n = 17, .reason = MC_TCP_PASS_COMMAND};
static const struct request stats = {
    .text = "stats settings\r\n", .n = 16, .reason = MC_TCP_PASS_COMMAND};

static const uint32_t missed[][2] = {{0, 0},
                                     {1000, 5000},
                                     {0xf0000000u, 0x10000000u},
                                     {0xfffffffbu, 0xfffffff0u},
                                     {17, 0},
                                     {0, 17},
                                     {0x80000000u, 0x80000000u},
                                     {0xffff, 0xffff0000u},
                                     {0, 1u},
                                     {0xffffffffu, 0xffffffffu}};
enum { MISSED = sizeof(missed) / sizeof(missed[0]) };

static bool does(const struct run *run, const struct segment *segment,
                 const struct request *request, enum act act, uint32_t reason)
{
    return tcp_does(run->lab, run->hook, segment, request, act, reason);
}

/* The next segment of the side whose segments the hook gets. */
static void next(const struct run *run, struct segment *segment, const struct mc_tcp_conn *conn,
                 const struct request *request)
{
    if (run->hook == HOOK_INGRESS)
        segment_in(run->lab, segment, conn, request->text, request->n);
    else
        segment_out(segment, conn, request->text, request->n);
    segment->v6 = run->v6;
}

/* The first of those on a connection. */
static void begin(const struct run *run, struct segment *segment, struct mc_tcp_conn *conn,
                  const struct request *request)
{
    conn_init(run->lab, conn, 1000, 5000);
    next(run, segment, conn, request);
}

static uint32_t why(const struct run *run, const struct request *request)
{
    return run->hook == HOOK_INGRESS ? request->reason : (uint32_t)NOT_COUNTED;
}

/* Has a request answered, so that the reply is outstanding. */
static bool answer(const struct run *run, struct mc_tcp_conn *conn, uint32_t in, uint32_t out)
{
    struct segment segment;
    bool right;

    conn_init(run->lab, conn, in, out);
    segment_in(run->lab, &segment, conn, get_hit.text, get_hit.n);
    segment.v6 = run->v6;
    right = tcp_does(run->lab, HOOK_INGRESS, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED);
    conn_get(run->lab, run->v6, conn);
    return right;
}

/* --- all numbers ------------------------------------------------------------------------------ */

static void test_numbers(const struct run *run)
{
    static const uint32_t bases[] = {0x10000000, 0xfffffc00u, 0xffffffffu, 0};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t i, j;

    for (i = 0; i < MISSED; i++) {
        for (j = 0; j < sizeof(bases) / sizeof(bases[0]); j++) {
            conn_init_at(run->lab, &conn, missed[i][0], missed[i][1], bases[j], 1000);
            next(run, &segment, &conn, &stats);
            right &= does(run, &segment, &stats, ACT_PASS, why(run, &stats));
            conn_get(run->lab, run->v6, &conn);
            next(run, &segment, &conn, &none);
            right &= does(run, &segment, &none, ACT_PASS, NOT_COUNTED);
        }
    }
    ok(right, "%s: sequence and acknowledgement numbers are translated, wherever they are",
       run->name);
}

/* A number that the segment does not use stays as it is. */
static void test_no_ack(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;

    begin(run, &segment, &conn, &none);
    segment.flags = RST;
    ok(does(run, &segment, &none, ACT_PASS, NOT_COUNTED),
       "%s: without the flag the acknowledgement stays as it is", run->name);
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* Options in which a letter stands for the four bytes of an edge. */
static const struct {
    const char *name, *text;
} layouts[] = {
    {"a block behind timestamps", "\1\1\10\12TTTTTTTT\1\1\5\12AAAABBBB"},
    {"two blocks behind timestamps", "\1\1\10\12TTTTTTTT\1\1\5\22AAAABBBBCCCCDDDD"},
    {"three blocks behind timestamps", "\1\1\10\12TTTTTTTT\1\1\5\32AAAABBBBCCCCDDDDEEEEFFFF"},
    {"four blocks without timestamps", "\1\1\5\42AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH"},
    {"a block at an odd place", "\1\5\12AAAABBBB\1"},
    {"a block at the beginning", "\5\12AAAABBBB\1\1"},
    {"two blocks at an odd place", "\1\1\1\5\22AAAABBBBCCCCDDDD\1\1\1"},
    {"a block before timestamps", "\1\5\12AAAABBBB\10\12TTTTTTTT\1\1\1"},
    {"an edge and a half", "\5\10AAAA..\1\1\1\1"},
    {"an empty list", "\5\2\1\1"},
    {"blocks behind the end", "\1\1\1\0\5\12........\1\1"},
    {"blocks longer than the header", "\1\1\5\42........"},
    {"an option without a length", "\1\1\1\5"},
    {"an option of length 0", "\1\1\3\0\5\12........\1\1"},
    {"an option of length 1", "\1\1\3\1\5\12........\1\1"},
    {"no-ops alone",
     "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1"},
    {"an unknown option before", "\375\6....\1\1\1\1\5\12AAAABBBB\1\1\1\1"},
    {"all that there may be", "\1\1\1\1\1\5\42AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH\1"},
    {"timestamps first, then a block", "\10\12TTTTTTTT\1\1\5\12AAAABBBB\1\1"},
    {"timestamps at an odd place, then a block", "\1\10\12TTTTTTTT\5\12AAAABBBB\1\1\1"},
    {"a block, timestamps at an odd place", "\1\5\12AAAABBBB\10\12TTTTTTTT\1\1\1"},
    {"timestamps at the very end",
     "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\10\12TTTTTTTT"},
    {"timestamps alone, first", "\10\12TTTTTTTT\1\1"},
    {"timestamps alone, at an odd place", "\1\10\12TTTTTTTT\1"},
    {"timestamps before a broken option", "\10\12TTTTTTTT\7\1"},
    {"timestamps behind an option of length 1", "\7\1\10\12........\1\1\1\1"},
    {"timestamps longer than the header", "\1\1\1\1\1\1\1\10\12......."},
    {"timestamps of another length", "\10\11.......\1\1\1\1\1\1\1"},
};
enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

/* Bytes of a layout, which may have zeros: a multiple of four. */
static size_t layout_size(size_t i)
{
    static const size_t with_zeros[][2] = {{10, 16}, {13, 16}};
    size_t j;

    for (j = 0; j < 2; j++)
        if (with_zeros[j][0] == i)
            return with_zeros[j][1];
    return strlen(layouts[i].text);
}

/* Fills in edges from `edges` on, and the time. */
static void lay(uint8_t *out, size_t i, const uint32_t edges[8], uint32_t tsval)
{
    size_t n = layout_size(i), at;

    memcpy(out, layouts[i].text, n);
    for (at = 0; at + 4 <= n; at++) {
        if (out[at] >= 'A' && out[at] <= 'H' && memcmp(out + at, layouts[i].text + at, 4) == 0 &&
            out[at + 3] == out[at]) {
            put32(out + at, edges[out[at] - 'A']);
            at += 3;
        } else if (out[at] == 'T' && out[at + 3] == 'T') {
            put32(out + at, tsval);
            put32(out + at + 4, tsval);
            at += 7;
        }
    }
}

static void test_blocks(const struct run *run, bool open)
{
    uint8_t options[40];
    uint32_t edges[8], base;
    struct mc_tcp_conn conn;
    struct segment segment;
    size_t i, j, k;

    for (i = 0; i < LAYOUTS; i++) {
        bool right = true;

        for (j = 0; j < MISSED; j++) {
            if (open)
                right &= answer(run, &conn, missed[j][0], missed[j][1]);
            else
                conn_init(run->lab, &conn, missed[j][0], missed[j][1]);
            next(run, &segment, &conn, &none);
            if (open && run->hook == HOOK_INGRESS)
                segment.ack = conn.delta.reply - 5; /* the reply is not sent again */
            base = run->hook == HOOK_INGRESS ? conn.snd_nxt + conn.delta.tx : conn.rcv_nxt;
            for (k = 0; k < 8; k++) /* below, inside and above a reply, or a request */
                edges[k] = base - 30 + (uint32_t)k * 7;
            lay(options, i, edges, segment.tsval);
            segment.options = options;
            segment.noptions = layout_size(i);
            segment.flags = ACK;
            right &= does(run, &segment, &none, ACT_PASS, NOT_COUNTED);
        }
        ok(right, "%s%s: %s", run->name, open ? ", a reply is outstanding" : "", layouts[i].name);
    }
}

/* --- while a reply is outstanding ------------------------------------------------------------- */

/* What the client acknowledges and sends, byte by byte around the reply and its request. */
static void test_open_in(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    uint32_t i;
    size_t j;

    for (j = 0; j < MISSED; j++) {
        for (i = 0; i < get_hit.nreply + 20; i++) {
            answer(run, &conn, missed[j][0], missed[j][1]);
            segment_in(run->lab, &segment, &conn, "", 0);
            segment.v6 = run->v6;
            segment.flags = ACK;
            segment.ack = conn.delta.reply - 10 + i;
            right &= does(run, &segment, &none,
                          i >= 10 && i < 10 + get_hit.nreply ? ACT_RESEND : ACT_PASS, NOT_COUNTED);
        }
    }
    ok(right, "%s: acknowledgements around an outstanding reply are translated in two pieces",
       run->name);
    for (j = 0, right = true; j < MISSED; j++) {
        for (i = 0; i < get_hit.n + 20; i++) {
            answer(run, &conn, missed[j][0], missed[j][1]);
            segment_in(run->lab, &segment, &conn, "", 0);
            segment.v6 = run->v6;
            segment.flags = ACK;
            segment.ack = conn.delta.reply - 5;
            segment.seq = conn.delta.request - 10 + i;
            right &= does(run, &segment, &none, ACT_PASS, NOT_COUNTED);
        }
    }
    ok(right, "%s: sequence numbers around its request are, too", run->name);
}

static void test_open_out(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    uint32_t i, n, fin;
    enum act act;
    size_t j;

    for (j = 0; j < MISSED; j++) {
        for (i = 0; i < 20; i++) {
            for (n = 0; n < 32; n += 5) {
                fin = n % 2;
                answer(run, &conn, missed[j][0], missed[j][1]);
                segment_out(&segment, &conn, "0123456789abcdef", n / 2);
                segment.v6 = run->v6;
                segment.seq = conn.snd_nxt - 10 + i;
                segment.flags |= fin;
                act = i < 10 && i + n / 2 + fin > 10 ? ACT_PROBE : ACT_PASS;
                if (i == 9 && !n)
                    act = ACT_RESEND; /* a probe of the socket's */
                right &= does(run, &segment, &none, act,
                              act == ACT_PROBE ? (int)MC_TCP_DROPPED : (int)NOT_COUNTED);
            }
        }
    }
    ok(right, "%s: what the socket sends before and behind the reply is translated; both: a probe",
       run->name);
    for (j = 0, right = true; j < MISSED; j++) {
        for (i = 0; i < 40; i++) {
            answer(run, &conn, missed[j][0], missed[j][1]);
            segment_out(&segment, &conn, "", 0);
            segment.v6 = run->v6;
            segment.flags = ACK;
            segment.ack = conn.rcv_nxt - 20 + i;
            right &= does(run, &segment, &none, ACT_PASS, NOT_COUNTED);
        }
    }
    ok(right, "%s: the socket's acknowledgements are held at the start of the request", run->name);
}

/* --- what leaves ------------------------------------------------------------------------------ */

static void test_ends(const struct run *run)
{
    static const struct tcp_case rows[] = {
        {"a FIN", .packet.flags = FIN | ACK, .request = &none},
        {"a FIN with data", .packet.flags = FIN | PSH | ACK, .request = &stats},
        {"a reset", .packet.flags = RST | ACK, .request = &none},
        {"a reset without an acknowledgement", .packet.flags = RST, .request = &none}};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(run, &segment, &conn, rows[i].request);
        case_apply(run->lab, &rows[i], &conn, &segment);
        right = does(run, &segment, &none, ACT_PASS, NOT_COUNTED);
        conn_get(run->lab, run->v6, &conn);
        ok(right && conn.flags & MC_TCP_CLOSING, "%s: %s closes the connection", run->name,
           rows[i].description);
    }
    begin(run, &segment, &conn, &none);
    segment.flags = SYN | ACK;
    right = does(run, &segment, &none, ACT_PASS, NOT_COUNTED);
    ok(right && !conn_get(run->lab, run->v6, &conn),
       "%s: the beginning of a new connection removes the entry, and is not translated", run->name);
}

static void test_notes(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right;

    conn_init(run->lab, &conn, 1000, 5000);
    conn.ifindex = TCP_OTHER;
    conn.vlan = LAB_VLAN;
    conn.mac = 1;
    conn_put(run->lab, run->v6, &conn);
    next(run, &segment, &conn, &stats);
    right = does(run, &segment, &stats, ACT_PASS, NOT_COUNTED);
    conn_get(run->lab, run->v6, &conn);
    ok(right && conn.ifindex == 1 && !conn.vlan && conn.mac == 0x020000000002 &&
           conn.window == htons((uint16_t)segment.window) &&
           conn.tsval == htonl(segment.tsval + MC_TCP_AHEAD) &&
           conn.snd_nxt == segment.seq + (uint32_t)segment.n,
       "%s: end, window, time and way of what leaves are noted", run->name);
    segment.seq -= 100;
    right = does(run, &segment, &stats, ACT_PASS, NOT_COUNTED);
    ok(right, "%s: what is sent once more does not move the end", run->name);
    segment.options = "\1\1\1\1";
    segment.noptions = 4;
    segment.window = 1;
    right = does(run, &segment, &stats, ACT_PASS, NOT_COUNTED);
    ok(right, "%s: without timestamps neither window nor time are noted", run->name);
}

static bool is_alone(const struct run *run, const struct segment *segment,
                     const struct frame *frame, unsigned int odd)
{
    return tcp_frame_does(run->lab, run->hook, segment, frame, &none, odd, ACT_PASS, 0);
}

static void test_others(const struct run *run)
{
    static struct frame frame;
    static struct tcp_run out;
    struct mc_tcp_conn conn;
    struct segment segment;

    begin(run, &segment, &conn, &stats);
    segment_frame(&frame, &segment);
    ok(is_alone(run, &segment, &frame, ODD_MARK), "%s: what the programs sent is left alone",
       run->name);
    segment_tcp(&frame)[run->hook == HOOK_EGRESS ? 1 : 3] ^= 1;
    segment_seal(&frame, SUM_WHOLE);
    ok(is_alone(run, &segment, &frame, ODD_FOREIGN), "%s: another port is left alone", run->name);
    segment_frame(&frame, &segment);
    segment_tcp(&frame)[run->hook == HOOK_EGRESS ? 3 : 1] ^= 1;
    segment_seal(&frame, SUM_WHOLE);
    ok(is_alone(run, &segment, &frame, ODD_FOREIGN), "%s: another client is left alone", run->name);
    conn_delete(run->lab, run->v6);
    segment_frame(&frame, &segment);
    out.mark = 0;
    ok(!tcp_run(run->lab, run->hook, &frame, &out) && out.verdict == TC_IS_NEXT &&
           frame_equal(&out.out, &frame) && !conn_get(run->lab, run->v6, &conn),
       "%s: what is of no followed connection is left alone", run->name);
}

/* A packet of several segments: the hardware, or the stack, numbers those behind the first. */
static void test_merged(const struct run *run)
{
    static struct frame frame, want;
    static struct tcp_run out;
    static char text[3000];
    struct mc_tcp_conn conn, after;
    struct segment segment;
    struct request many = {.text = text, .n = sizeof(text), .reason = MC_TCP_PASS_SEGMENT};

    memset(text, 'x', sizeof(text));
    begin(run, &segment, &conn, &many);
    segment_frame(&frame, &segment);
    out = (struct tcp_run){.gso = 1448};
    want = frame;
    segment_translate(run->lab, &want, &segment, &conn);
    ok(!tcp_run(run->lab, run->hook, &frame, &out) && out.verdict == TC_IS_NEXT &&
           frame_equal(&out.out, &want) && conn_get(run->lab, run->v6, &after) &&
           (run->hook == HOOK_INGRESS ? after.rcv_nxt - conn.rcv_nxt
                                      : after.snd_nxt - conn.snd_nxt) == sizeof(text),
       "%s: a packet of several segments is translated as one", run->name);
    if (run->hook != HOOK_INGRESS)
        return;
    begin(run, &segment, &conn, &get_hit);
    segment_frame(&frame, &segment);
    out = (struct tcp_run){.gso = 5};
    ok(!tcp_run(run->lab, run->hook, &frame, &out) && out.verdict == TC_IS_NEXT &&
           !run->lab->slots[TCP_SLOT].answered,
       "%s: a request in several segments is passed", run->name);
}

/* An interface beneath, or above, has the programs too. */
static void test_twice(const struct run *run)
{
    static struct frame frame;
    static struct tcp_run once, twice;
    struct mc_tcp_conn after, again;
    struct segment segment;
    bool right;

    conn_init(run->lab, &after, 1000, 5000);
    next(run, &segment, &after, &stats);
    segment_frame(&frame, &segment);
    right = !tcp_run(run->lab, run->hook, &frame, &once) && once.verdict == TC_IS_NEXT &&
            !frame_equal(&once.out, &frame) && conn_get(run->lab, run->v6, &after);
    right = right && !tcp_run(run->lab, run->hook, &once.out, &twice) &&
            twice.verdict == TC_IS_NEXT && frame_equal(&twice.out, &once.out) &&
            conn_get(run->lab, run->v6, &again);
    ok(right && !memcmp(&after, &again, sizeof(after)),
       "%s: what is translated already is left alone", run->name);
}

/* What a client echoes that has not received the kernel's first answer. */
static void test_first_echo(const struct run *run)
{
    static struct frame frame;
    static struct tcp_run out;
    struct mc_tcp_conn conn;
    struct segment segment;

    conn_init(run->lab, &conn, 1000, 5000);
    segment_in(run->lab, &segment, &conn, stats.text, stats.n);
    segment.v6 = run->v6;
    segment.tsecr = ntohl(conn.tsval) - MC_TCP_AHEAD;
    segment_frame(&frame, &segment);
    ok(!tcp_run(run->lab, run->hook, &frame, &out) &&
           get32(segment_tcp(&out.out) + 28) == segment.tsecr,
       "%s: a timestamp from before the first answer stays as it is", run->name);
}

/* IPv6's extension headers, by protocol of the first; the last says that TCP follows. */
struct extensions {
    const char *name;
    uint8_t first;
    const char *bytes;
    size_t n;
    bool found; /* TCP's header behind them */
};

#define OPTIONS_TO(next) next "\0\1\4\0\0\0\0"
#define ROUTE_TO(next)   next "\0\4\0\0\0\0\0"
#define FIRST_TO(next)   next "\0\0\1\0\0\0\7"
#define HEADERS(bytes)   bytes, sizeof(bytes) - 1

static const struct extensions extensions[] = {
    {"hop-by-hop options", 0, HEADERS(OPTIONS_TO("\6")), true},
    {"destination options", 60, HEADERS(OPTIONS_TO("\6")), true},
    {"a route", 43, HEADERS(ROUTE_TO("\6")), true},
    {"long options", 60,
     HEADERS("\6\3\1\34"
             "............................"),
     true},
    {"all headers", 0,
     HEADERS(OPTIONS_TO("\x3c") OPTIONS_TO("\x2b") ROUTE_TO("\x2c") FIRST_TO("\x3c")
                 OPTIONS_TO("\6")),
     true},
    {"a first fragment", 44, HEADERS(FIRST_TO("\6")), true},
    {"a later fragment", 44, HEADERS("\6\0\0\x10\0\0\0\7"), false},
    {"another protocol's", 60, HEADERS(OPTIONS_TO("\x11")), false},
    {"one that nobody knows", 51, HEADERS(OPTIONS_TO("\6")), false},
    {"one that is longer than the packet", 60, HEADERS("\6\x40\1\4\0\0\0\0"), false},
};

static void extend(struct frame *frame, const struct extensions *extension)
{
    uint8_t *ip = frame->bytes + 14;
    size_t n = ((size_t)ip[4] << 8 | ip[5]) + extension->n;

    memmove(ip + 40 + extension->n, ip + 40, frame->n - 54);
    memcpy(ip + 40, extension->bytes, extension->n);
    frame->n += extension->n;
    ip[4] = (uint8_t)(n >> 8);
    ip[5] = (uint8_t)n;
    ip[6] = extension->first;
}

/* Translated, and never answered. */
static void test_extensions(const struct run *run)
{
    static struct frame frame, want;
    struct mc_tcp_conn conn, after;
    struct segment segment;
    struct tcp_run out;
    uint32_t grown;
    size_t i;

    for (i = 0; run->v6 && i < sizeof(extensions) / sizeof(extensions[0]); i++) {
        const struct extensions *row = &extensions[i];

        begin(run, &segment, &conn, &get_hit);
        segment_frame(&frame, &segment);
        want = frame;
        if (row->found)
            segment_translate(run->lab, &want, &segment, &conn);
        extend(&frame, row);
        extend(&want, row);
        out = (struct tcp_run){0};
        ok(!tcp_run(run->lab, run->hook, &frame, &out) && out.verdict == TC_IS_NEXT &&
               frame_equal(&out.out, &want),
           "%s, extension headers, %s: %s", run->name, row->name,
           row->found ? "translated" : "left alone");
        conn_get(run->lab, true, &after);
        grown =
            run->hook == HOOK_INGRESS ? after.rcv_nxt - conn.rcv_nxt : after.snd_nxt - conn.snd_nxt;
        ok(grown == (row->found ? get_hit.n : 0),
           "%s, extension headers, %s: what has passed is known", run->name, row->name);
    }
}

/* --- checksums -------------------------------------------------------------------------------- */

static void test_sums(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    uint32_t i;

    for (i = 0; i < 3000; i++) {
        conn_init(run->lab, &conn, i * 0x9e3779b9u, i * 0x85ebca6bu + i / 7);
        next(run, &segment, &conn, &stats);
        segment.tsval += i % 50;
        right &= does(run, &segment, &stats, ACT_PASS, why(run, &stats));
    }
    ok(right, "%s: checksums stay right", run->name);
    begin(run, &segment, &conn, &stats);
    segment.sum = SUM_WRONG;
    ok(does(run, &segment, &stats, ACT_PASS, why(run, &stats)), "%s: a wrong checksum stays wrong",
       run->name);
}

/* The sum of all bytes that some network cards give stays right. The kernel compares (6.13). */
static void test_complete(const struct run *run)
{
    static const char sack[] = "\1\5\12AAAABBBB\1";
    static struct tcp_run out;
    static struct frame frame;
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    int i, rc;

    for (i = 0; i < 4; i++) {
        conn_init(run->lab, &conn, 1000, 0x12345 + (uint32_t)i);
        next(run, &segment, &conn, &stats);
        if (i > 1) {
            segment.options = sack;
            segment.noptions = 12;
        }
        segment_frame(&frame, &segment);
        out = (struct tcp_run){.complete = true};
        rc = tcp_run(run->lab, run->hook, &frame, &out);
        if (rc == -22) {
            diag("this kernel cannot compare");
            return;
        }
        right &= rc == 0 && out.verdict == TC_IS_NEXT;
        if (rc)
            diag("segment %d: %d", i, rc);
    }
    ok(right, "%s: a sum that the hardware gave stays right", run->name);
}

/* --- what routers say
 * -----------------------------------------------------------------------------
 */

/* An ICMP error about a segment of the server's: its IP header, and the first 8 bytes behind. */
static void icmp_frame(struct frame *frame, const struct segment *about, uint8_t type, uint8_t code)
{
    static struct frame quoted;
    size_t nip = about->v6 ? 40 : 20, n = 8 + nip + 8;
    uint8_t *ip = frame->bytes + 14, *icmp = ip + nip;
    struct segment outer = {.v6 = about->v6};
    uint32_t sum;

    segment_frame(&quoted, about);
    segment_frame(frame, &outer);
    ip[about->v6 ? 6 : 9] = about->v6 ? 58 : 1;
    put16(ip + (about->v6 ? 4 : 2), (unsigned int)(n + (about->v6 ? 0 : nip)));
    put32(icmp, (uint32_t)type << 24 | (uint32_t)code << 16);
    put32(icmp + 4, 1280);
    memcpy(icmp + 8, quoted.bytes + 14, nip + 8);
    frame->n = 14 + nip + n;
    if (!about->v6)
        segment_seal_ip(frame);
    sum = about->v6 ? 58 + (uint32_t)n + words_sum(ip + 8, 32) : 0;
    put16(icmp + 2, ~folded(sum + words_sum(icmp, n)) & 0xffff);
}

/* Whether the number is made this one, and the checksum stays right. */
static bool is_told(const struct run *run, const struct segment *about, uint8_t type, uint32_t seq)
{
    static struct frame frame, want;
    static struct tcp_run out;
    struct segment as = *about;

    icmp_frame(&frame, about, type, 0);
    as.seq = seq;
    icmp_frame(&want, &as, type, 0);
    if (!tcp_run(run->lab, run->hook, &frame, &out) && out.verdict == TC_IS_NEXT &&
        frame_equal(&out.out, &want))
        return true;
    frame_dump("got", &out.out);
    frame_dump("wanted", &want);
    return false;
}

static void test_icmp(const struct run *run)
{
    static const uint8_t types[2][3] = {{3, 11, 12}, {1, 2, 4}};
    uint8_t too_big = run->v6 ? 2 : 3, echo = run->v6 ? 128 : 8;
    struct mc_tcp_conn conn;
    struct segment about;
    bool right = true;
    size_t i, j;

    for (j = 0; j < MISSED; j++) {
        for (i = 0; i < 3; i++) {
            conn_init(run->lab, &conn, missed[j][0], missed[j][1]);
            segment_out(&about, &conn, "", 0);
            about.v6 = run->v6;
            about.seq = conn.snd_nxt + conn.delta.tx - 50;
            right &= is_told(run, &about, types[run->v6][i], conn.snd_nxt - 50);
        }
    }
    ok(right, "%s: an ICMP error about a segment of the server's is given the socket's number",
       run->name);
    for (j = 0, right = true; j < MISSED; j++) {
        answer(run, &conn, missed[j][0], missed[j][1]);
        for (about.seq = conn.delta.reply; about.seq != conn.delta.reply + conn.delta.nreply;
             about.seq++)
            right &= is_told(run, &about, too_big, conn.snd_nxt);
        about.seq = conn.delta.reply - 3;
        right &= is_told(run, &about, too_big, conn.snd_nxt - 3);
        about.seq = conn.delta.reply + conn.delta.nreply + 4;
        right &= is_told(run, &about, too_big, conn.snd_nxt + 4);
    }
    ok(right, "%s: one about the outstanding reply, the number of the place where that was put in",
       run->name);
    right = is_told(run, &about, echo, about.seq);
    about.from_server = false;
    right &= is_told(run, &about, too_big, about.seq);
    conn_delete(run->lab, run->v6);
    about.from_server = true;
    right &= is_told(run, &about, too_big, about.seq);
    ok(right, "%s: other ICMP is left alone", run->name);
}

/* --- the acknowledgement that goes on --------------------------------------------------------- */

/* What leaves by lo. */
static int listen_to_lo(void)
{
    const struct timeval patience = {.tv_sec = 2};
    struct sockaddr_ll at = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = 1};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));

    if (fd < 0 || bind(fd, (struct sockaddr *)(void *)&at, sizeof(at)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
        skip_all("no packet socket");
    return fd;
}

/* Whether the next frame that left is the reply, as complete as the request was. */
static bool has_left(int fd, const struct frame *want)
{
    static struct frame got;
    struct sockaddr_ll from;
    socklen_t nfrom = sizeof(from);
    ssize_t n;

    do { /* lo brings each back */
        n = recvfrom(fd, got.bytes, sizeof(got.bytes), 0, (struct sockaddr *)(void *)&from, &nfrom);
    } while (n > 0 && from.sll_pkttype != PACKET_OUTGOING);
    got.n = n > 0 ? (size_t)n : 0;
    if (frame_equal(&got, want))
        return true;
    frame_dump("left", &got);
    frame_dump("wanted", want);
    return false;
}

static void test_paid(const struct run *run, int fd)
{
    static struct frame want;
    struct outcome outcome = {.reply = get_hit.reply, .nreply = get_hit.nreply};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t j;
    int sum;

    for (j = 0; j < MISSED; j++) {
        for (sum = SUM_WHOLE; sum <= SUM_PARTIAL; sum++) {
            conn_init(run->lab, &conn, missed[j][0], missed[j][1]);
            conn.snd_una -= 100;
            conn_put(run->lab, run->v6, &conn);
            segment_in(run->lab, &segment, &conn, get_hit.text, get_hit.n);
            segment.v6 = run->v6;
            segment.sum = (enum sum)sum;
            right &= tcp_does(run->lab, HOOK_XDP, &segment, &get_hit, ACT_PASS, NOT_COUNTED);
            right &= does(run, &segment, &get_hit, ACT_ANSWER_PAID, NOT_COUNTED);
            conn_get(run->lab, run->v6, &conn);
            reply_frame(&want, &segment, &outcome, &conn);
            segment_seal(&want, (enum sum)sum);
            right &= has_left(fd, &want);
            right &= does(run, &segment, &get_hit, ACT_RESEND, NOT_COUNTED);
        }
    }
    ok(right,
       "%s: a request that acknowledges what the socket sent is answered by a copy, and goes on as "
       "a bare acknowledgement",
       run->name);
}

/* --- the acknowledgement that was held back --------------------------------------------------- */

/*
 * The client has sent n bytes behind the request whose reply is outstanding, and the socket has
 * acknowledged them. *segment is the client's bare acknowledgement of the reply.
 */
static bool hold(const struct run *run, struct mc_tcp_conn *conn, const uint32_t in_out[2],
                 uint32_t n, struct segment *segment)
{
    struct segment ack;
    bool right = answer(run, conn, in_out[0], in_out[1]);

    segment_in(run->lab, segment, conn, "set no 0 0 1\r\nx\r\n", n);
    segment->v6 = run->v6;
    segment->ack = conn->delta.reply; /* it does not wait for the reply */
    right &= !n || does(run, segment, &set_no, ACT_PASS, set_no.reason);
    conn_get(run->lab, run->v6, conn);
    segment_out(&ack, conn, "", 0);
    ack.v6 = run->v6;
    right &= tcp_does(run->lab, HOOK_EGRESS, &ack, &none, ACT_PASS, NOT_COUNTED);
    conn_get(run->lab, run->v6, conn);
    segment_in(run->lab, segment, conn, "", 0);
    segment->v6 = run->v6;
    segment->flags = ACK;
    return right;
}

/* The acknowledgement that the client is to get. */
static void make_released(struct frame *want, const struct segment *segment,
                          const struct mc_tcp_conn *conn)
{
    struct outcome outcome = {.reply = "", .nreply = 0};
    struct mc_tcp_conn as = *conn;

    as.delta.reply = conn->snd_nxt + conn->delta.tx;
    as.delta.request = conn->rcv_nxt + conn->delta.rx;
    as.delta.nrequest = 0;
    reply_frame(want, segment, &outcome, &as);
    segment_seal(want, segment->sum);
}

static void test_released(const struct run *run, int fd)
{
    static const uint8_t sack[] = {1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 1, 0,
                                   1, 1, 5, 10, 0, 0, 9, 0, 0, 0, 9, 9};
    static struct frame want;
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t j;
    int form;

    for (j = 0; j < MISSED; j++) {
        for (form = 0; form < 4; form++) {
            right &= hold(run, &conn, missed[j], 17, &segment);
            segment.sum = form == 1 ? SUM_PARTIAL : SUM_WHOLE;
            segment.options = form == 2 ? sack : NULL;
            segment.noptions = form == 2 ? sizeof(sack) : 0;
            segment.npadding = form == 3 ? 6 : 0;
            right &= tcp_does(run->lab, HOOK_XDP, &segment, &none, ACT_PASS, NOT_COUNTED) &&
                     conn_get(run->lab, run->v6, &conn) && conn.delta.nreply;
            right &= does(run, &segment, &none, ACT_RELEASE, NOT_COUNTED);
            conn_get(run->lab, run->v6, &conn);
            make_released(&want, &segment, &conn);
            right &= has_left(fd, &want);
            right &= does(run, &segment, &none, ACT_PASS, NOT_COUNTED);
        }
    }
    ok(right,
       "%s: a bare acknowledgement of the reply is left to TC, goes on, and gets the client the "
       "acknowledgement that was held back",
       run->name);
}

/* What gets the client no acknowledgement of its own. */
static void test_not_released(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = hold(run, &conn, missed[1], 0, &segment);

    right &= does(run, &segment, &none, ACT_PASS, NOT_COUNTED);
    ok(right, "%s: nothing was held back: an acknowledgement of the reply goes on alone",
       run->name);
    right = hold(run, &conn, missed[1], 17, &segment);
    segment.ack--;
    right &= does(run, &segment, &none, ACT_RESEND, NOT_COUNTED);
    ok(right, "%s: a part of the reply is acknowledged: the reply again", run->name);
    right = hold(run, &conn, missed[1], 17, &segment);
    segment.flags = FIN | ACK;
    right &= does(run, &segment, &none, ACT_PASS, NOT_COUNTED);
    right &= hold(run, &conn, missed[1], 17, &segment);
    segment.text = stats.text;
    segment.n = stats.n;
    right &= does(run, &segment, &stats, ACT_PASS, stats.reason);
    ok(right, "%s: what the socket acknowledges by itself goes on alone", run->name);
    right = hold(run, &conn, missed[1], 17, &segment);
    conn_settle(run->lab, &conn);
    segment.text = get_hit.text;
    segment.n = get_hit.n;
    right &= does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED);
    ok(right, "%s: a get that is answered acknowledges it with its reply", run->name);
}

/* Since when the socket owes the client a segment: of another tick than the last segment's. */
static void test_times(const struct run *run)
{
    struct mc_tcp_slot *slot = &run->lab->slots[TCP_SLOT];
    static struct tcp_run result;
    struct mc_tcp_conn conn;
    struct segment segment;
    uint32_t first = 0, i;
    struct frame frame;

    conn_init(run->lab, &conn, 1000, 5000);
    segment_in(run->lab, &segment, &conn, "set k 0 0 1\r\nx\r\n", 16);
    segment.v6 = run->v6;
    segment_frame(&frame, &segment);
    for (i = 0; i < 1000000; i++) {
        slot->ack_due = 0;
        result.mark = 0;
        if (tcp_run(run->lab, HOOK_INGRESS, &frame, &result) || (first && slot->ack_due != first))
            break;
        first = slot->ack_due;
    }
    ok(first && slot->ack_due && (int32_t)(slot->ack_due - first) > 0 &&
           loader_tcp_age(run->lab->lab.loader, slot->ack_due) < 1000,
       "%s: what is handed to the socket is noted with the time", run->name);
    conn_delete(run->lab, run->v6);
}

static void test_hook(struct tcp_lab *lab, enum hook hook, bool v6, bool alone)
{
    struct run run = {.lab = lab, .hook = hook, .v6 = v6};

    snprintf(run.name, sizeof(run.name), "%s%s, IPv%d", hook == HOOK_INGRESS ? "ingress" : "egress",
             alone ? "" : " behind XDP", v6 ? 6 : 4);
    tcp_lab_set_alone(lab, alone);
    test_numbers(&run);
    test_no_ack(&run);
    test_blocks(&run, false);
    test_blocks(&run, true);
    if (hook == HOOK_INGRESS)
        test_open_in(&run);
    if (hook == HOOK_INGRESS)
        test_icmp(&run);
    else
        test_open_out(&run);
    if (hook == HOOK_EGRESS)
        test_ends(&run);
    if (hook == HOOK_EGRESS)
        test_notes(&run);
    if (hook == HOOK_EGRESS)
        test_others(&run);
    test_merged(&run);
    test_twice(&run);
    if (run.hook == HOOK_INGRESS)
        test_first_echo(&run);
    if (run.hook == HOOK_INGRESS)
        test_times(&run);
    test_extensions(&run);
    test_sums(&run);
    test_complete(&run);
}

int main(void)
{
    struct tcp_lab lab;
    struct run run;
    int v6, fd;

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0 || system("ip link set lo up") != 0)
        skip_all("needs root");
    fd = listen_to_lo();
    tcp_lab_open(&lab);
    lab_put(&lab.lab, "hit", 3, "value", 5);
    for (v6 = 0; v6 < 2; v6++) {
        test_hook(&lab, HOOK_INGRESS, v6, true);
        test_hook(&lab, HOOK_INGRESS, v6, false);
        test_hook(&lab, HOOK_EGRESS, v6, true);
        run = (struct run){.lab = &lab, .hook = HOOK_INGRESS, .v6 = v6};
        snprintf(run.name, sizeof(run.name), "ingress, IPv%d", v6 ? 6 : 4);
        test_paid(&run, fd);
        test_released(&run, fd);
        test_not_released(&run);
    }
    tcp_lab_close(&lab);
    return done();
}
