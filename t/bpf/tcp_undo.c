/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * While the server puts another socket in the place of a connection's own: a frozen entry changes
 * by nothing, nothing of its flow is answered, reaches a socket or leaves; the listening socket
 * gets none of it; and what was translated for the one socket the other does not take.
 */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpf/load/entry.h"
#include "t/bpf/tcp_lab.h"
#include "t/bpf/tcp_pair.h"
#include "t/bpf/wire.h"
#include "t/lib/tap.h"

enum { ANOTHER = 0x5eed /* a cookie that no socket has here */ };

static const struct request hit = {
    "get hit\r\n", 9, "VALUE hit 0 5\r\nvalue\r\nEND\r\n", 27, 0, 1, 0, 0};
static const struct request reply = {"STORED\r\n", 8, NULL, 0, 0, 0, 0, 0};

static struct entry_access entries;
static int undone; /* the filter of a socket that is followed no more */

/* --- orders ----------------------------------------------------------------------------------- */

/* What the program says to an order for the connection with this tag. */
static int order_as(struct tcp_lab *lab, bool v6, uint32_t what, struct mc_tcp_tag tag)
{
    struct mc_tcp_order order = {.tag = tag, .what = what};
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = &order, .data_size_in = sizeof(order));

    conn_flow(lab, v6, &order.flow);
    return bpf_prog_test_run_opts(entries.order, &opts) ? -1 : (int)opts.retval;
}

static int order(struct tcp_lab *lab, bool v6, uint32_t what)
{
    return order_as(lab, v6, what, (struct mc_tcp_tag){TCP_SLOT, TCP_GENERATION});
}

static void test_orders(struct tcp_lab *lab, bool v6)
{
    struct mc_tcp_conn conn, frozen;

    conn_init(lab, &conn, 100, 200);
    ok(!order(lab, v6, MC_TCP_THAW), "an entry that is not frozen cannot be thawed");
    ok(!order_as(lab, v6, MC_TCP_FREEZE, (struct mc_tcp_tag){TCP_SLOT, TCP_GENERATION + 1}) &&
           !order_as(lab, v6, MC_TCP_FREEZE, (struct mc_tcp_tag){TCP_SLOT + 1, TCP_GENERATION}) &&
           conn_get(lab, v6, &frozen) && !conn_is_frozen(&frozen),
       "one of another connection is not frozen");
    ok(order(lab, v6, MC_TCP_FREEZE) && conn_get(lab, v6, &frozen) && conn_is_frozen(&frozen),
       "it is frozen");
    frozen.lock = MC_TCP_FREE;
    ok(!memcmp(&frozen, &conn, sizeof(conn)) && order(lab, v6, MC_TCP_FREEZE),
       "and else as it was; once more does nothing");
    ok(!order_as(lab, v6, MC_TCP_THAW, (struct mc_tcp_tag){TCP_SLOT, TCP_GENERATION + 1}) &&
           !order_as(lab, v6, MC_TCP_REMOVE, (struct mc_tcp_tag){TCP_SLOT, TCP_GENERATION + 1}) &&
           conn_get(lab, v6, &frozen) && conn_is_frozen(&frozen),
       "for another connection it stays frozen");
    ok(order(lab, v6, MC_TCP_THAW) && conn_get(lab, v6, &frozen) && !conn_is_frozen(&frozen),
       "it is thawed");
    ok(order(lab, v6, MC_TCP_FREEZE) && order(lab, v6, MC_TCP_REMOVE) &&
           !conn_get(lab, v6, &frozen) && !order(lab, v6, MC_TCP_FREEZE) &&
           !order(lab, v6, MC_TCP_THAW) && !order(lab, v6, MC_TCP_REMOVE),
       "it is removed while it is frozen, and then there is none");
    conn_init(lab, &conn, 0, 0);
    ok(order(lab, v6, MC_TCP_REMOVE) && !conn_get(lab, v6, &frozen), "or while it is not");
}

/* The server reads what it needs, and with the entry the place of the reply becomes free. */
static void test_kept(struct tcp_lab *lab, bool v6)
{
    enum { ACKED = 10, MORE = 3 };
    const size_t first = ACKED + MORE;
    char text[MC_TCP_RTX_BYTES];
    struct mc_tcp_conn conn;
    struct mc_tcp_rtx rtx;
    struct segment segment, next, bare;
    uint32_t at;

    conn_init(lab, &conn, 0, 0);
    segment_in(lab, &segment, &conn, hit.text, hit.n);
    segment.v6 = v6;
    next = segment;
    next.seq += (uint32_t)hit.n;
    next.ack += ACKED;
    bare = next;
    bare.seq += (uint32_t)hit.n;
    bare.ack += MORE;
    bare.n = 0;
    ok(tcp_does(lab, HOOK_INGRESS, &segment, &hit, ACT_ANSWER, 0) &&
           tcp_does(lab, HOOK_INGRESS, &next, &hit, ACT_ANSWER, 0) &&
           tcp_does(lab, HOOK_INGRESS, &bare, &hit, ACT_PASS, 0) && order(lab, v6, MC_TCP_FREEZE) &&
           conn_get(lab, v6, &conn),
       "an entry with outstanding replies is frozen");
    at = conn.rtx;
    ok(!entry_read_kept(&entries, &conn, text) && conn.delta.nreply == 2 * hit.nreply - first &&
           !memcmp(text, (const char *)hit.reply + first, hit.nreply - first) &&
           !memcmp(text + hit.nreply - first, hit.reply, hit.nreply),
       "the server can read what of the replies is not acknowledged");
    ok(tcp_does(lab, HOOK_INGRESS, &segment, &hit, ACT_DROP, MC_TCP_DROPPED),
       "whose copies are not sent again");
    ok(order(lab, v6, MC_TCP_REMOVE) && !bpf_map_lookup_elem(entries.kept, &at, &rtx) && !rtx.owner,
       "with the entry its place becomes free");
}

/* --- segments of a frozen entry --------------------------------------------------------------- */

static bool drops(struct tcp_lab *lab, enum hook hook, struct segment segment, unsigned int flags,
                  bool bare)
{
    segment.flags = flags;
    segment.n = bare ? 0 : segment.n;
    return tcp_does(lab, hook, &segment, segment.from_server ? &reply : &hit, ACT_DROP,
                    MC_TCP_DROPPED);
}

static void test_comes(struct tcp_lab *lab, bool v6, uint32_t shift)
{
    static const unsigned int flags[] = {ACK, PSH | ACK, FIN | ACK, RST, RST | ACK, URG | ACK};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t i;

    conn_init(lab, &conn, shift, shift);
    order(lab, v6, MC_TCP_FREEZE);
    segment_in(lab, &segment, &conn, hit.text, hit.n);
    segment.v6 = v6;
    ok(tcp_does(lab, HOOK_XDP, &segment, &hit, ACT_PASS, MC_TCP_PASS_BOUNDARY),
       "XDP answers no get of a frozen connection");
    for (i = 0; i < COUNT(flags); i++)
        right = right && drops(lab, HOOK_INGRESS, segment, flags[i], false) &&
                drops(lab, HOOK_INGRESS, segment, flags[i], true);
    ok(right, "TC answers and passes none of its client's segments");
    ok(drops(lab, HOOK_INGRESS, segment, SYN, true), "nor a SYN");
    lab->slots[TCP_SLOT].generation++;
    ok(drops(lab, HOOK_INGRESS, segment, SYN, true) && conn_get(lab, v6, &conn),
       "and that does not end it where the server has closed the connection");
    lab->slots[TCP_SLOT].generation--;
    ok(order(lab, v6, MC_TCP_THAW) && tcp_does(lab, HOOK_XDP, &segment, &hit, ACT_ANSWER, 0),
       "when it is thawed the get is answered");
}

/* Whether a segment that no socket of the entry sends leaves as it is, and changes nothing. */
static bool leaves(struct tcp_lab *lab, const struct segment *segment)
{
    static struct frame frame;
    static struct tcp_run run;
    struct mc_tcp_conn before, after;

    segment_frame(&frame, segment);
    run.mark = 0;
    return conn_get(lab, segment->v6, &before) && !tcp_run(lab, HOOK_EGRESS, &frame, &run) &&
           run.verdict == TC_IS_NEXT && frame_equal(&run.out, &frame) &&
           conn_get(lab, segment->v6, &after) && !memcmp(&before, &after, sizeof(after));
}

static void test_leaves(struct tcp_lab *lab, bool v6, uint32_t shift)
{
    struct mc_tcp_conn conn;
    struct segment segment;

    conn_init(lab, &conn, shift, shift);
    order(lab, v6, MC_TCP_FREEZE);
    segment_out(&segment, &conn, reply.text, reply.n);
    segment.v6 = v6;
    ok(drops(lab, HOOK_EGRESS, segment, PSH | ACK, false) &&
           drops(lab, HOOK_EGRESS, segment, ACK, true) &&
           drops(lab, HOOK_EGRESS, segment, FIN | ACK, true) &&
           drops(lab, HOOK_EGRESS, segment, RST | ACK, true),
       "nothing leaves of the socket");
    conn.cookie = ANOTHER;
    conn.lock = MC_TCP_FROZEN;
    conn_put(lab, v6, &conn);
    ok(leaves(lab, &segment), "what the next one sends does");
    segment.flags = RST | ACK;
    segment.n = 0;
    ok(!leaves(lab, &segment), "but no RST");
}

/* --- marks ------------------------------------------------------------------------------------ */

/* Whether TC drops a client's frame, and notes nothing. */
static bool is_dropped(struct tcp_lab *lab, const struct frame *frame)
{
    static struct tcp_run run;
    bool v6 = frame->bytes[12] == 0x86;
    struct mc_tcp_conn before, after;

    run.mark = 0;
    return conn_get(lab, v6, &before) && !tcp_run(lab, HOOK_INGRESS, frame, &run) &&
           run.verdict == TC_IS_DROP && conn_get(lab, v6, &after) &&
           !memcmp(&before, &after, sizeof(after));
}

static void test_marks(struct tcp_lab *lab, bool v6)
{
    static struct frame frame;
    struct mc_tcp_conn conn;
    struct segment segment;
    int i;

    for (i = 0; i < 2; i++) {
        conn_init(lab, &conn, 100, 200);
        conn.flags |= i ? MC_TCP_MARK_B : 0;
        conn_put(lab, v6, &conn);
        segment_in(lab, &segment, &conn, reply.text, reply.n);
        segment.v6 = v6;
        ok(tcp_does(lab, HOOK_INGRESS, &segment, &reply, ACT_PASS, MC_TCP_PASS_COMMAND),
           "the entry's mark, %d, is put into what TC translates", i);
        segment_frame(&frame, &segment);
        put16(segment_tcp(&frame) + 18, lab->translation_marks[i]);
        segment_seal(&frame, SUM_WHOLE);
        ok(tcp_frame_does(lab, HOOK_INGRESS, &segment, &frame, &reply, ODD_DONE, ACT_PASS, 0),
           "and what bears it stays as it is");
        put16(segment_tcp(&frame) + 18, lab->translation_marks[!i]);
        segment_seal(&frame, SUM_WHOLE);
        ok(is_dropped(lab, &frame), "what bears the other is dropped");
        conn_init(lab, &conn, 0, 0);
        conn.flags |= i ? MC_TCP_MARK_B : 0;
        conn_put(lab, v6, &conn);
        ok(is_dropped(lab, &frame), "also where the kernel has not answered yet");
    }
}

/* --- the sockets' filters --------------------------------------------------------------------- */

static uint64_t ndropped(struct tcp_lab *lab)
{
    struct mc_tcp_counts counts;

    loader_tcp_counts(lab->lab.loader, &counts);
    return counts.count[MC_TCP_DROPPED];
}

/* Whether the server's socket takes a segment with this urgent pointer. */
static bool takes(struct tcp_lab *lab, struct pair *pair, uint16_t urgent, unsigned int flags)
{
    uint64_t before = ndropped(lab);
    bool taken;

    pair_forge(pair, LAB_CLIENT_PORT, PSH | ACK | flags, urgent, "x");
    taken = !strcmp(pair_read(pair), "x");
    return taken && ndropped(lab) == before;
}

static bool drops_in_filter(struct tcp_lab *lab, struct pair *pair, uint16_t urgent)
{
    uint64_t before = ndropped(lab);

    pair_forge(pair, LAB_CLIENT_PORT, PSH | ACK, urgent, "x");
    return !*pair_read(pair) && ndropped(lab) == before + 1;
}

static void test_filters(struct tcp_lab *lab, struct pair *pair)
{
    const uint16_t *marks = lab->translation_marks;
    struct mc_tcp_tag tag = {TCP_SLOT, TCP_GENERATION};
    struct mc_tcp_conn conn;
    unsigned int i;

    pair_connect(pair);
    conn_delete(lab, pair->v6);
    setsockopt(pair->server, SOL_SOCKET, SO_ATTACH_BPF, &undone, sizeof(undone));
    ok(drops_in_filter(lab, pair, marks[0]) && drops_in_filter(lab, pair, marks[1]),
       "a socket that is followed no more takes nothing that bears a mark");
    ok(takes(lab, pair, 0, 0) && takes(lab, pair, (uint16_t)(marks[0] ^ marks[1] ^ 1), 0),
       "and all else");
    for (i = 0; i < 2; i++) {
        ok(!loader_tcp_tag(lab->lab.loader, pair->server, &tag, i) &&
               takes(lab, pair, marks[i], 0) && takes(lab, pair, 0, 0),
           "one with mark %u takes what bears it, or none", i);
        ok(drops_in_filter(lab, pair, marks[!i]), "and nothing that bears the other");
        loader_tcp_untag(lab->lab.loader, &lab->slots[TCP_SLOT]);
    }
    conn_init(lab, &conn, 100, 200);
    order(lab, pair->v6, MC_TCP_FREEZE);
    ok(drops_in_filter(lab, pair, 0) && !lab->slots[TCP_SLOT].lost,
       "nor, while it is frozen, what bears none");
    conn_delete(lab, pair->v6);
    pair_vanish(pair);
}

/* What comes by a way without the programs may be unread when the client sends it again by another.
 */
static void test_unseen(struct tcp_lab *lab, struct pair *pair)
{
    struct mc_tcp_tag tag = {TCP_SLOT, TCP_GENERATION};
    struct mc_tcp_conn conn;
    uint32_t next;

    pair_connect(pair);
    next = pair_next(pair);
    conn_init(lab, &conn, 0, 0);
    conn.rcv_nxt = conn.last_ack_sent = next;
    conn_put(lab, pair->v6, &conn);
    ok(!loader_tcp_tag(lab->lab.loader, pair->server, &tag, 0) && takes(lab, pair, 0, 0) &&
           conn_get(lab, pair->v6, &conn) && conn.rcv_nxt == next + 1 &&
           !(conn.flags & MC_TCP_CLOSING),
       "before the first answer what the programs have not seen is the socket's");
    conn.last_ack_sent = next - (1u << 30);
    conn_put(lab, pair->v6, &conn);
    ok(takes(lab, pair, 0, 0) && conn_get(lab, pair->v6, &conn) && conn.rcv_nxt == next + 1,
       "unless no window lets it in");
    conn.last_ack_sent = conn.rcv_nxt = next + 2;
    conn_put(lab, pair->v6, &conn);
    ok(takes(lab, pair, 0, FIN) && conn_get(lab, pair->v6, &conn) && conn.rcv_nxt == next + 4 &&
           conn.flags & MC_TCP_CLOSING,
       "and nothing is answered behind an end");
    loader_tcp_untag(lab->lab.loader, &lab->slots[TCP_SLOT]);
    conn_delete(lab, pair->v6);
    pair_vanish(pair);
}

/* Whether a segment without a connection comes to the listening socket, which resets it. */
static bool is_reset(struct pair *pair, int seen, uint16_t port)
{
    uint8_t packet[256];
    const uint8_t *tcp = packet + (pair->v6 ? 0 : 20);
    ssize_t n;
    bool found = false;

    pair_forge(pair, port, ACK, 0, "");
    while ((n = recv(seen, packet, sizeof(packet), MSG_DONTWAIT)) > 0)
        found = found || (tcp[13] & RST && get16(tcp + 2) == port);
    return found;
}

static void test_listener(struct tcp_lab *lab, struct pair *pair)
{
    int seen = socket(pair->v6 ? AF_INET6 : AF_INET, SOCK_RAW, IPPROTO_TCP);
    struct mc_tcp_conn conn;
    uint64_t before;

    conn_init(lab, &conn, 100, 200);
    order(lab, pair->v6, MC_TCP_FREEZE);
    ok(is_reset(pair, seen, LAB_CLIENT_PORT), "without a filter what has no socket is reset");
    ok(!loader_tcp_listener(lab->lab.loader, pair->listener, true),
       "the listening socket has a filter");
    before = ndropped(lab);
    ok(!is_reset(pair, seen, LAB_CLIENT_PORT) && ndropped(lab) == before + 1,
       "what comes for a frozen connection is dropped");
    ok(is_reset(pair, seen, LAB_CLIENT_PORT + 1), "what comes for none is reset");
    order(lab, pair->v6, MC_TCP_THAW);
    ok(is_reset(pair, seen, LAB_CLIENT_PORT), "as is what comes for one that is thawed");
    conn_delete(lab, pair->v6);
    pair_connect(pair);
    conn_put(lab, pair->v6, &conn);
    order(lab, pair->v6, MC_TCP_FREEZE);
    ok(takes(lab, pair, 0, 0), "a socket that is accepted takes all");
    conn_delete(lab, pair->v6);
    pair_vanish(pair);
    close(seen);
}

static void test_all(struct tcp_lab *lab, struct pair *pair)
{
    loader_tcp_entries(lab->lab.loader, &entries);
    undone = loader_tcp_filter(lab->lab.loader);
    lab_clear(&lab->lab);
    lab_put(&lab->lab, "hit", 3, "value", 5);
    tcp_lab_set_alone(lab, true);
    test_orders(lab, pair->v6);
    test_kept(lab, pair->v6);
    tcp_lab_set_alone(lab, false);
    test_comes(lab, pair->v6, 0);
    test_comes(lab, pair->v6, 1000);
    test_leaves(lab, pair->v6, 0);
    test_leaves(lab, pair->v6, 1000);
    test_marks(lab, pair->v6);
    test_filters(lab, pair);
    test_unseen(lab, pair);
    test_listener(lab, pair);
}

int main(void)
{
    return pair_main(test_all);
}
