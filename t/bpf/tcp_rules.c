/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What bpf/tcp must do with a segment, and the comparison of a run with it. The rules are those of
 * t/model/splice.h, which is asked on TCP's numbers. Here is what the model does not have: what a
 * frame must be to be looked at, windows, timestamps, forged numbers, the pool of retransmit
 * buffers; then the frames and the counts.
 */
#include <arpa/inet.h>
#include <string.h>

#include "t/bpf/tcp_lab.h"
#include "t/bpf/tcp_model.h"
#include "t/bpf/wire.h"
#include "t/lib/tap.h"

enum { LINK = 14, LO = 1 };

/* --- what is beyond the model --------------------------------------------------------------- */

/* The place that a reply will have: the first that is free, or was left by the slot's last user. */
static uint32_t kept_place(struct tcp_lab *lab, bool v6, const struct mc_tcp_conn *conn,
                           uint64_t owner)
{
    static struct mc_tcp_rtx rtx;
    uint32_t i, at, low = (1u << 18) - 1;

    for (i = 0; i < MC_TCP_RTX_TRIES; i++) {
        at = rtx_place(lab, v6, conn->slot, i);
        rtx_get(lab, at, &rtx);
        if (!rtx.owner)
            return at;
        if (((uint32_t)rtx.owner & low) == ((uint32_t)owner & low) &&
            (uint32_t)rtx.owner != (uint32_t)owner)
            return at;
    }
    return MC_TCP_RTX_MAX;
}

/* Whether the kernel has answered on the connection. */
static bool is_used(const struct mc_tcp_conn *conn)
{
    return conn->delta.rx || conn->delta.tx;
}

static bool is_expected(const struct mc_tcp_conn *conn, const struct segment *segment, uint32_t n)
{
    int64_t ahead = beyond(segment->seq + n, conn->last_ack_sent + conn->delta.rx);
    int64_t room = 2 * ((int64_t)ntohs(conn->window) << conn->rcv_wscale) + (1 << 17);
    uint32_t open = conn->snd_nxt + conn->delta.tx - segment->ack;

    return open <= 1 << 26 && ahead >= -(1 << 20) && ahead <= room;
}

/* Whether an acknowledgement counts, for which only a wrong checksum speaks against it. */
static bool is_believed(const struct mc_tcp_conn *conn, const struct segment *segment)
{
    return segment->sum != SUM_WRONG || !conn->delta.nreply ||
           beyond(segment->ack, conn->delta.reply) <= 0;
}

/* Whether the copies of the last time have caused a bare acknowledgement. */
static bool is_echo(const struct mc_tcp_conn *conn, const struct segment *segment)
{
    uint32_t end = conn->delta.reply + conn->delta.nreply;
    uint32_t from = beyond(segment->ack, conn->delta.reply) > 0 ? segment->ack : conn->delta.reply;

    return conn->again - from < end - from;
}

/* Whether a segment has more than timestamps. */
static bool has_blocks(const struct segment *segment)
{
    uint32_t tsval;

    return segment->options && segment->noptions > (is_stamped(segment, &tsval) ? 12u : 0u);
}

/* The text of the outstanding replies from one's number on; NULL: it is not kept. */
static const uint8_t *kept_text(const struct mc_tcp_conn *conn, const struct mc_tcp_rtx *rtx,
                                uint32_t from)
{
    uint32_t skip = from - rtx->start, end = conn->delta.reply + conn->delta.nreply;

    return rtx->owner == rtx_owner(conn->last, conn->slot, conn->generation) && skip < rtx->n &&
                   rtx->n - skip == end - from
               ? (const uint8_t *)rtx->text + skip
               : NULL;
}

/* Whether a segment may ask for a reply again: a bare one if the client has room for the rest. */
static bool may_ask(const struct mc_tcp_conn *conn, const struct segment *segment, unsigned int odd)
{
    uint32_t left = conn->delta.reply + conn->delta.nreply - segment->ack;

    if ((segment->flags & (SYN | RST | ACK)) != ACK)
        return false;
    return data_of(segment, odd) ||
           (!(segment->flags & FIN) && left <= window_of(conn, segment) && !is_echo(conn, segment));
}

/* On an interface above. */
static bool was_translated(const struct mc_tcp_conn *conn, const struct segment *segment)
{
    uint32_t tsval;

    return is_used(conn) && is_stamped(segment, &tsval) &&
           beyond(tsval, ntohl(conn->tsval) - MC_TCP_AHEAD / 2) >= 0;
}

/* Whether a segment has data for a server that is dead. */
static bool is_too_late(const struct tcp_lab *lab, const struct segment *segment, unsigned int odd)
{
    return lab->lab.control->lease & MC_LEASE_DEAD && segment->n && segment->flags & ACK &&
           !(segment->flags & RST) && !(odd & (ODD_TO_TCP | ODD_OPTIONS));
}

/* --- what comes ----------------------------------------------------------------------------- */

/* Why a segment is no whole get, NOT_COUNTED: it is one. */
static uint32_t no_get(const struct tcp_lab *lab, const struct segment *segment,
                       const struct request *request, unsigned int odd,
                       const struct mc_tcp_conn *conn)
{
    if (!is_plain(segment, odd, conn))
        return MC_TCP_PASS_SEGMENT;
    if (segment->n < 6 || !is_read(request, lab->slots[conn->slot].binary))
        return MC_TCP_PASS_COMMAND;
    return NOT_COUNTED;
}

/* Why it is not the server's next, NOT_COUNTED: it is. */
static uint32_t not_next(const struct tcp_lab *lab, const struct segment *segment,
                         const struct mc_tcp_conn *conn)
{
    const struct mc_tcp_slot *slot = &lab->slots[conn->slot];
    struct splice_segment g = model_segment(segment, 0, conn);
    struct splice_boundary b = model_boundary(lab, conn);
    struct splice_conn c = model_conn(conn);
    enum splice_rule rule = splice_refuses(&c, &b, &g, lab->off);
    uint32_t tsval;

    if (rule == RULE_RUN)
        return MC_TCP_PASS_UNACKED;
    if (rule != NRULES || slot->boundary == MC_TCP_NONE || slot->generation != conn->generation)
        return MC_TCP_PASS_BOUNDARY;
    return is_stamped(segment, &tsval) && beyond(tsval, conn->client_ts) < 0 ? MC_TCP_PASS_SEGMENT
                                                                             : NOT_COUNTED;
}

/* Why there is no reply to it, NOT_COUNTED: there is one. */
static uint32_t no_reply(struct tcp_lab *lab, const struct segment *segment,
                         const struct request *request, const struct mc_tcp_conn *conn)
{
    struct splice_segment g = model_segment(segment, 0, conn);
    struct splice_conn c = model_conn(conn);
    uint32_t start = splice_reply_start(&c, &g), before = start - segment->ack;
    uint64_t owner = rtx_owner(start, conn->slot, conn->generation);
    size_t all = before + request->nreply;
    struct mc_tcp_rtx rtx;

    if (request->reason == MC_TCP_PASS_BYPASS)
        return MC_TCP_PASS_BYPASS;
    if (segment->sum == SUM_WRONG)
        return MC_TCP_PASS_SEGMENT;
    if (!request->reply)
        return request->reason;
    if (all > conn->mss || all > window_of(conn, segment))
        return MC_TCP_PASS_WINDOW;
    if (before)
        rtx_get(lab, conn->rtx, &rtx);
    if (before && (!kept_text(conn, &rtx, segment->ack) || all > TCP_REPLY_MAX))
        return MC_TCP_PASS_KEPT;
    return kept_place(lab, segment->v6, conn, owner) == MC_TCP_RTX_MAX ? MC_TCP_PASS_KEPT
                                                                       : NOT_COUNTED;
}

/* What a stage does with a segment; *reason: why it is passed. */
static enum splice_verdict judge(struct tcp_lab *lab, enum splice_stage stage,
                                 const struct segment *segment, const struct request *request,
                                 unsigned int odd, const struct mc_tcp_conn *conn,
                                 struct splice_conn *c, uint32_t *reason)
{
    struct splice_segment g = model_segment(segment, odd, conn);
    struct splice_boundary b = model_boundary(lab, conn);
    splice_rules off = lab->off;
    enum splice_verdict verdict;

    if (has_blocks(segment))
        off |= SPLICE_RULE(RULE_RUN_ACK);
    if (!may_ask(conn, segment, odd))
        off |= SPLICE_RULE(RULE_RESEND_TC) | SPLICE_RULE(RULE_RESEND_XDP);
    *reason = no_get(lab, segment, request, odd, conn);
    if (*reason == NOT_COUNTED)
        *reason = not_next(lab, segment, conn);
    verdict = splice_judge(c, &b, &g, *reason == NOT_COUNTED, stage, off);
    if (verdict == SPLICE_RESEND || *reason != NOT_COUNTED)
        return verdict;
    if (odd & ODD_WAY)
        *reason = MC_TCP_PASS_WAY;
    else if (verdict == SPLICE_ANSWER)
        *reason = no_reply(lab, segment, request, conn);
    return *reason == NOT_COUNTED ? verdict : SPLICE_PASS;
}

/* The outstanding reply is sent again, if its buffer is still there. can: the headers are plain. */
static struct outcome resend(struct tcp_lab *lab, struct mc_tcp_conn *conn,
                             const struct segment *segment, bool can)
{
    static struct mc_tcp_rtx rtx;
    struct outcome outcome = {.act = ACT_DROP, .reason = NOT_COUNTED};
    struct splice_conn c = model_conn(conn);
    struct splice_segment to = model_segment(segment, 0, conn), g = splice_reply(&c);

    if (segment->from_server)
        to.ack = c.rep_start;
    if (conn->retransmits < MC_TCP_RETRANSMITS) {
        conn->retransmits++;
    } else if (c.rep_len > MC_TCP_PIECE) {
        g = splice_piece(&c, &to, MC_TCP_PIECE, lab->off);
        conn->flags |= conn->mss > MC_TCP_PIECE ? MC_TCP_MSS_OLD : 0;
        conn->mss = conn->mss > MC_TCP_PIECE ? MC_TCP_PIECE : conn->mss;
    }
    conn->again = splice_rep_end(&c);
    outcome.from = g.seq - c.rep_start;
    outcome.nreply = g.len;
    outcome.more = g.ack == c.req_start;
    rtx_get(lab, conn->rtx, &rtx);
    outcome.reply = kept_text(conn, &rtx, c.rep_start);
    if (can && outcome.reply)
        outcome.act = ACT_RESEND;
    return outcome;
}

static struct outcome answer(struct tcp_lab *lab, enum splice_stage stage,
                             const struct segment *segment, const struct request *request,
                             struct mc_tcp_conn *conn, struct splice_conn *c)
{
    struct splice_segment g = model_segment(segment, 0, conn), reply;
    bool pays = stage == SPLICE_TC && splice_pays(c, &g);
    uint32_t start = splice_reply_start(c, &g);

    conn->rtx = (uint16_t)kept_place(lab, segment->v6, conn,
                                     rtx_owner(start, conn->slot, conn->generation));
    if (!is_used(conn))
        conn->tsval = htonl(ntohl(conn->tsval) + MC_TCP_AHEAD);
    reply = splice_commit(c, &g, (uint32_t)request->nreply, lab->off);
    if (c->last == c->rep_start)
        conn->again = start - 1;
    if (c->last == c->rep_start ||
        (conn->delta.reply != c->rep_start && conn->retransmits < MC_TCP_RETRANSMITS))
        conn->retransmits = 0;
    conn_become(conn, c);
    if (!is_stamped(segment, &conn->client_ts))
        conn->client_ts = 0;
    return (struct outcome){.act = pays ? ACT_ANSWER_PAID : ACT_ANSWER,
                            .reason = NOT_COUNTED,
                            .reply = request->reply,
                            .nreply = request->nreply,
                            .at = reply.seq - c->rep_start};
}

/* A segment that is passed. */
static void pass(const struct tcp_lab *lab, enum splice_stage stage, const struct segment *segment,
                 unsigned int odd, struct mc_tcp_conn *conn, struct splice_conn *c)
{
    struct splice_segment g = model_segment(segment, odd, conn);
    uint32_t end = splice_map_seq(c, g.seq, lab->off) + g.len;

    splice_note(c, &g, stage, lab->off);
    if (odd & ODD_TO_TCP || (segment->flags & RST && !before(end, c->last_ack_sent)))
        c->closing = true;
    conn_become(conn, c);
}

/* XDP leaves what comes for a frozen entry to TC, if only when it is about to answer it. */
static struct outcome frozen(struct tcp_lab *lab, enum splice_stage stage,
                             const struct segment *segment, const struct request *request,
                             unsigned int odd, const struct mc_tcp_conn *conn)
{
    struct outcome outcome = {.act = ACT_DROP, .reason = MC_TCP_DROPPED};
    struct splice_conn c = model_conn(conn);
    enum splice_verdict verdict;
    uint32_t reason;

    if (stage == SPLICE_TC)
        return outcome;
    c.frozen = false;
    verdict = judge(lab, SPLICE_XDP, segment, request, odd, conn, &c, &reason);
    outcome.act = ACT_PASS;
    outcome.reason =
        data_of(segment, odd) && verdict != SPLICE_DEFER ? reason : (uint32_t)NOT_COUNTED;
    if (verdict == SPLICE_ANSWER)
        outcome.reason = MC_TCP_PASS_BOUNDARY;
    return outcome;
}

static struct outcome ingress(struct tcp_lab *lab, enum splice_stage stage,
                              const struct segment *segment, const struct request *request,
                              unsigned int odd, struct mc_tcp_conn *conn, long *freed)
{
    struct outcome outcome = {.act = ACT_PASS, .reason = NOT_COUNTED};
    struct splice_conn c = model_conn(conn), as_xdp = c;
    struct splice_segment g = model_segment(segment, odd, conn);
    bool plain = !(odd & (ODD_TO_TCP | ODD_OPTIONS)), expected;
    bool releases = plain && (segment->flags & (SYN | FIN | RST | ACK)) == ACK &&
                    splice_releases(&c, &g, lab->off);
    uint32_t reason, n = data_of(segment, odd);
    enum splice_verdict verdict;

    if (c.frozen && follows(lab->off, RULE_FROZEN))
        return frozen(lab, stage, segment, request, odd, conn);
    outcome.left =
        judge(lab, SPLICE_XDP, segment, request, odd, conn, &as_xdp, &reason) == SPLICE_DEFER;
    verdict = judge(lab, stage, segment, request, odd, conn, &c, &reason);
    expected = is_expected(conn, segment, n) && is_believed(conn, segment);
    if (verdict == SPLICE_ANSWER) {
        *freed = conn->delta.nreply ? (long)conn->rtx : -1;
        return answer(lab, stage, segment, request, conn, &c);
    }
    outcome.reason = n && verdict != SPLICE_DEFER ? reason : (uint32_t)NOT_COUNTED;
    if (!(stage == SPLICE_TC ? expected
                             : verdict == SPLICE_RESEND || follows(lab->off, RULE_NOTE_XDP)))
        return outcome;
    if (conn->delta.nreply && !c.outstanding)
        *freed = conn->rtx;
    else if (conn->delta.reply != c.rep_start && conn->retransmits < MC_TCP_RETRANSMITS)
        conn->retransmits = 0;
    conn_become(conn, &c);
    if (verdict == SPLICE_RESEND)
        return resend(lab, conn, segment, !(odd & ODD_OPTIONS));
    pass(lab, stage, segment, odd, conn, &c);
    outcome.act = releases ? ACT_RELEASE : ACT_PASS;
    return outcome;
}

/* --- what leaves ---------------------------------------------------------------------------- */

/* A segment of the socket's as it is on the wire; without bytes in the place of what straddles. */
static struct splice_segment leaves_as(const struct tcp_lab *lab, const struct segment *segment,
                                       unsigned int odd, const struct mc_tcp_conn *conn)
{
    struct splice_segment g = model_segment(segment, odd, conn);
    struct splice_conn c = model_conn(conn);

    splice_egress(&c, &g, lab->off);
    return g;
}

/* What the entry has of the socket besides numbers. is_last: no segment acknowledges more. */
static void note_socket(const struct segment *segment, bool is_last, struct mc_tcp_conn *conn)
{
    uint32_t tsval, tsecr;
    bool stamped = is_stamped_with(segment, &tsval, &tsecr);

    if (is_unstamped(conn) && is_last)
        conn->window = htons((uint16_t)segment->window);
    if (is_unstamped(conn))
        conn->flags |= MC_TCP_MSS_OLD; /* these frames have no socket that could be asked */
    if (stamped && segment->flags & ACK && beyond(tsecr, conn->client_ts) > 0)
        conn->client_ts = tsecr;
    if (stamped && (tsval & 0x3fffffff) / 256 != (ntohl(conn->tsval) & 0x3fffffff) / 256)
        conn->flags |= MC_TCP_MSS_OLD; /* these frames have no socket that could be asked */
    tsval += is_used(conn) ? (uint32_t)MC_TCP_AHEAD : 0;
    if (stamped && beyond(tsval, ntohl(conn->tsval)) >= 0) {
        conn->tsval = htonl(tsval);
        conn->window = htons((uint16_t)segment->window);
    }
    conn->ifindex = LO;
    conn->vlan = 0;
    conn->mac = 0x020000000002;
}

static struct outcome leaves(struct tcp_lab *lab, const struct segment *segment, unsigned int odd,
                             struct mc_tcp_conn *conn)
{
    struct outcome outcome = {.act = ACT_PASS, .reason = NOT_COUNTED};
    struct splice_segment was = model_segment(segment, odd, conn), g = was;
    struct splice_conn c = model_conn(conn);
    bool whole, is_last;

    if (odd & (ODD_FOREIGN | ODD_MARK) || segment->flags & SYN)
        return outcome;
    if (c.frozen && !splice_egress(&c, &g, lab->off))
        return (struct outcome){.act = ACT_DROP, .reason = MC_TCP_DROPPED};
    if (was_translated(conn, segment))
        return outcome;
    is_last = beyond(segment->flags & ACK ? segment->ack : conn->born, conn->last_ack_sent) >= 0;
    whole = splice_egress(&c, &g, lab->off);
    c.closing |= (segment->flags & RST) != 0;
    conn_become(conn, &c);
    note_socket(segment, is_last, conn);
    if (c.outstanding && follows(lab->off, RULE_RESEND_TIMER) && !was.len &&
        is_plain(segment, odd, conn) &&
        segment->seq == c.ksnd - 1) /* it asks what the client has */
        return resend(lab, conn, segment, true);
    if (whole && g.len == was.len)
        return outcome;
    outcome.act =
        whole && segment->flags & ACK &&
                (is_unstamped(conn) ? is_plain(segment, odd, conn) : has_stamps_alone(segment))
            ? ACT_PROBE
            : ACT_DROP;
    outcome.reason = MC_TCP_DROPPED;
    return outcome;
}

/*
 * What the rules say of a segment, and *conn as it is afterwards. *freed: the place of a reply that
 * was acknowledged, or -1.
 */
static struct outcome model_run(struct tcp_lab *lab, enum hook hook, const struct segment *segment,
                                const struct request *request, unsigned int odd,
                                struct mc_tcp_conn *conn, long *freed)
{
    struct outcome outcome = {.act = ACT_PASS, .reason = NOT_COUNTED};

    *freed = -1;
    if (hook == HOOK_EGRESS)
        return leaves(lab, segment, odd, conn);
    if (hook == HOOK_INGRESS && segment->flags & SYN && !(odd & ODD_FOREIGN) &&
        conn_is_frozen(conn))
        return (struct outcome){.act = ACT_DROP, .reason = MC_TCP_DROPPED};
    if (odd & ODD_FOREIGN || segment->flags & SYN || (hook == HOOK_INGRESS && odd & ODD_DONE) ||
        (hook == HOOK_XDP && (segment->flags & RST || odd & (ODD_TO_TCP | ODD_OPTIONS))))
        return outcome;
    if (hook == HOOK_INGRESS && is_too_late(lab, segment, odd)) {
        outcome.act = ACT_REFUSE;
        return outcome;
    }
    return ingress(lab, hook == HOOK_XDP ? SPLICE_XDP : SPLICE_TC, segment, request, odd, conn,
                   freed);
}

/* --- the frames that are to leave ----------------------------------------------------------- */

/* A frame that the programs make. */
static void make_reply(struct frame *want, const struct segment *reply)
{
    uint8_t *ip = want->bytes + LINK;

    segment_frame(want, reply);
    if (reply->v6) {
        ip[7] = 64;
        return;
    }
    put32(ip + 4, 0x4000);
    ip[8] = 64;
    segment_seal_ip(want);
}

void reply_frame(struct frame *want, const struct segment *segment, const struct outcome *outcome,
                 const struct mc_tcp_conn *after)
{
    uint32_t tsval;
    struct segment reply = {
        .v6 = segment->v6,
        .from_server = true,
        .seq = after->delta.reply + outcome->at + outcome->from,
        .ack = after->delta.request + (outcome->more ? 0 : after->delta.nrequest),
        .flags = PSH | ACK,
        .window = ntohs(after->window),
        .tsval = ntohl(after->tsval),
        .tsecr = segment->from_server          ? 0
                 : is_stamped(segment, &tsval) ? tsval
                                               : after->client_ts,
        .options = is_unstamped(after) ? "" : NULL,
        .text = (const char *)outcome->reply + outcome->from,
        .n = outcome->nreply,
        .sum = SUM_WHOLE,
    };

    make_reply(want, &reply);
}

/* The RST that a client's segment gets from a server that is dead. */
static void refusal_frame(struct frame *want, const struct segment *segment,
                          const struct mc_tcp_conn *conn)
{
    uint32_t tsval;
    struct segment reset = {
        .v6 = segment->v6,
        .from_server = true,
        .seq = segment->ack,
        .ack = segment->seq + (uint32_t)segment->n,
        .flags = RST | ACK,
        .window = ntohs(conn->window),
        .tsval = ntohl(conn->tsval),
        .tsecr = is_stamped(segment, &tsval) ? tsval : conn->client_ts,
        .options = is_unstamped(conn) ? "" : NULL,
        .sum = SUM_WHOLE,
    };

    make_reply(want, &reset);
}

/* The edge of a block that the socket acknowledges selectively. */
static uint32_t edge_to_wire(const struct splice_conn *c, uint32_t edge)
{
    bool old = c->outstanding && !after(edge + c->M - c->req_len, c->req_start);

    return edge + c->M - (old ? c->req_len : 0);
}

/* The change of a checksum by that of the bytes that it covers (RFC 1624). */
static void change_sum(struct frame *frame, const struct frame *before)
{
    uint8_t *tcp = segment_tcp(frame);
    size_t at = (size_t)(tcp - frame->bytes), n = frame->n - at;
    uint32_t sum = ~get16(tcp + 16) & 0xffff;

    sum += ~folded(words_sum(before->bytes + at, n)) & 0xffff;
    sum += folded(words_sum(tcp, n));
    put16(tcp + 16, ~folded(sum) & 0xffff);
}

/* The timestamp that a client echoes; before the first answer it was the socket's. */
static uint32_t stamp_to_socket(const struct mc_tcp_conn *conn, uint32_t tsecr)
{
    return beyond(tsecr, ntohl(conn->tsval) - MC_TCP_AHEAD / 2) < 0 ? tsecr : tsecr - MC_TCP_AHEAD;
}

void segment_mark(const struct tcp_lab *lab, uint8_t *tcp, const struct mc_tcp_conn *conn,
                  bool ingress)
{
    const uint8_t *stamps;
    uint8_t *at;

    if (ingress && !(tcp[13] & URG))
        put16(tcp + 18, lab->translation_marks[!!(conn->flags & MC_TCP_MARK_B)]);
    stamps = tcp[12] >> 4 < 8 ? NULL : find_stamps(tcp + 20, (tcp[12] >> 4) * 4u - 20, !ingress);
    if (!stamps)
        return;
    at = tcp + (stamps - tcp);
    if (ingress)
        put32(at + 4, stamp_to_socket(conn, get32(at + 4)));
    else
        put32(at, get32(at) + MC_TCP_AHEAD);
}

static void put_numbers(const struct tcp_lab *lab, struct frame *frame,
                        const struct segment *segment, unsigned int odd,
                        const struct mc_tcp_conn *conn)
{
    struct splice_conn c = model_conn(conn);
    struct splice_segment g = leaves_as(lab, segment, odd, conn);
    uint8_t *tcp = segment_tcp(frame);

    if (!segment->from_server) {
        g.seq = splice_map_seq(&c, segment->seq, lab->off);
        g.ack = splice_map_ack(&c, segment->ack, lab->off);
        if (tcp[13] & RST && c.outstanding && segment->seq == c.req_start)
            g.seq = conn->last_ack_sent;
    }
    put32(tcp + 4, g.seq);
    if (tcp[13] & ACK)
        put32(tcp + 8, g.ack);
    segment_mark(lab, tcp, conn, !segment->from_server);
}

void segment_translate(const struct tcp_lab *lab, struct frame *frame,
                       const struct segment *segment, const struct mc_tcp_conn *conn)
{
    put_numbers(lab, frame, segment, 0, conn);
    if (segment->sum != SUM_PARTIAL)
        segment_seal(frame, SUM_WHOLE);
}

static void translate(const struct tcp_lab *lab, struct frame *frame, const struct segment *segment,
                      unsigned int odd, const struct mc_tcp_conn *conn, bool ingress)
{
    static struct frame before;
    struct splice_conn c = model_conn(conn);
    uint8_t *tcp = segment_tcp(frame);
    uint32_t edge;
    const uint8_t *blocks;
    size_t n = 0;

    if (!is_used(conn))
        return;
    before = *frame;
    put_numbers(lab, frame, segment, odd, conn);
    /* Here the helper takes no checksum for a partial one; what a socket sends has
     * one. */
    if (ingress || !segment_is_partial(&before))
        change_sum(frame, &before);
    before = *frame;
    blocks = find_option(tcp + 20, (tcp[12] >> 4) * 4u - 20, 5, &n);
    for (edge = 0; blocks && edge < 8 && 6 + 4 * edge <= n; edge++) {
        uint8_t *place = tcp + (blocks - tcp) + 2 + 4 * edge;

        put32(place, ingress ? splice_map_ack(&c, get32(place), lab->off)
                             : edge_to_wire(&c, get32(place)));
    }
    if (memcmp(frame->bytes, before.bytes, frame->n) != 0)
        change_sum(frame, &before);
}

void bare_frame(const struct tcp_lab *lab, struct frame *want, const struct frame *in,
                const struct segment *segment, uint32_t seq, uint32_t ack,
                const struct mc_tcp_conn *conn)
{
    const unsigned int n = is_unstamped(conn) ? 20 : 32;
    uint8_t *ip = want->bytes + LINK, *tcp;
    uint32_t tsval, tsecr;

    *want = *in;
    tcp = segment_tcp(want);
    want->n = (size_t)(tcp - want->bytes) + n;
    put32(tcp + 4, seq);
    put32(tcp + 8, ack);
    tcp[13] = ACK;
    if (is_stamped_with(segment, &tsval, &tsecr)) {
        put32(tcp + 20, 0x0101080a);
        put32(tcp + 24, tsval);
        put32(tcp + 28, tsecr);
    }
    segment_mark(lab, tcp, conn, !segment->from_server);
    if (segment->v6) {
        put16(ip + 4, n);
    } else {
        put16(ip + 2, 20 + n);
        segment_seal_ip(want);
    }
    segment_seal(want, segment->sum == SUM_PARTIAL ? SUM_PARTIAL : SUM_WHOLE);
}

/* --- comparisons ---------------------------------------------------------------------------- */

static const char *compare_conn(const struct tcp_lab *lab, const struct mc_tcp_conn *want,
                                const struct mc_tcp_conn *have)
{
    const uint32_t *a = (const uint32_t *)want, *b = (const uint32_t *)have;
    size_t i;

    if (memcmp(want, have, sizeof(*want)) == 0)
        return NULL;
    for (i = 0; i < sizeof(*want) / 4; i++)
        if (a[i] != b[i] && !lab->quiet)
            diag("the entry's byte %zu: %08x, not %08x", 4 * i, b[i], a[i]);
    return "the entry";
}

static const char *compare_counts(const struct tcp_lab *lab, struct mc_tcp_counts *want,
                                  const struct outcome *outcome, enum hook hook,
                                  const struct segment *segment, unsigned int nanswered,
                                  const struct mc_tcp_counts *have)
{
    const char *wrong = NULL;
    size_t i;

    if (nanswered) {
        want->count[hook == HOOK_XDP ? MC_TCP_ANSWERED_XDP : MC_TCP_ANSWERED_TC] += nanswered;
        want->count[MC_TCP_BYTES_READ] += segment->n;
        want->count[MC_TCP_BYTES_WRITTEN] += outcome->nreply;
    } else if (outcome->act == ACT_RESEND) {
        want->count[MC_TCP_RESENT]++;
    } else if (outcome->reason == MC_TCP_PASS_COMMAND) { /* XDP leaves it to TC to count it */
        want->count[outcome->reason] += hook == HOOK_INGRESS;
    } else if (outcome->reason != NOT_COUNTED &&
               (hook != HOOK_INGRESS || lab->alone || outcome->left || outcome->act == ACT_DROP)) {
        want->count[outcome->reason]++;
    }
    for (i = 0; i < MC_TCP_COUNTS; i++) {
        if (want->count[i] == have->count[i])
            continue;
        if (!lab->quiet)
            diag("count %zu: %llu, not %llu", i, (unsigned long long)have->count[i],
                 (unsigned long long)want->count[i]);
        wrong = "a count";
    }
    return wrong;
}

/* The counts of keys, which the programs share with those of udp. */
static const char *compare_keys(struct mc_counts *want, bool is_answer,
                                const struct request *request, const struct mc_counts *have)
{
    if (is_answer) {
        want->count[MC_COUNT_HITS] += request->hits;
        want->count[MC_COUNT_MISSES] += request->misses;
        want->count[MC_COUNT_KEYS] += request->hits + request->misses;
    }
    return memcmp(want->count, have->count, sizeof(want->count)) ? "a count of keys" : NULL;
}

/* was: what the connection had kept before. */
static const char *compare_kept(struct tcp_lab *lab, const struct outcome *outcome,
                                const struct mc_tcp_conn *after, const struct mc_tcp_rtx *was,
                                long freed)
{
    static struct mc_tcp_rtx rtx;
    uint32_t first = after->delta.reply, before = after->last - first;
    const uint8_t *text;

    if (outcome->act == ACT_ANSWER || outcome->act == ACT_ANSWER_PAID) {
        rtx_get(lab, after->rtx, &rtx);
        text = kept_text(after, &rtx, first);
        if (!text || before + outcome->nreply != after->delta.nreply ||
            memcmp(text, was->text + (first - was->start), before) != 0 ||
            memcmp(text + before, outcome->reply, outcome->nreply) != 0)
            return "the retransmit buffer";
        if (freed == (long)after->rtx)
            return NULL;
    }
    if (freed < 0 || lab->keeps_others)
        return NULL;
    rtx_get(lab, (uint32_t)freed, &rtx);
    return rtx.owner ? "the place of an acknowledged reply" : NULL;
}

/* The frame that must be there afterwards, and the verdict. */
static uint32_t make_wanted(const struct tcp_lab *lab, struct frame *want, enum hook hook,
                            const struct segment *segment, const struct frame *in, unsigned int odd,
                            const struct outcome *outcome, const struct mc_tcp_conn *before,
                            const struct mc_tcp_conn *after)
{
    bool untouched = odd & (ODD_FOREIGN | ODD_MARK | ODD_DONE) || segment->flags & SYN ||
                     (hook == HOOK_EGRESS && was_translated(before, segment));
    struct splice_segment probe;

    *want = *in;
    switch (outcome->act) {
    case ACT_ANSWER:
    case ACT_RESEND:
        reply_frame(want, segment, outcome, after);
        if (hook != HOOK_XDP && segment->sum == SUM_PARTIAL)
            segment_seal(want, SUM_PARTIAL);
        if (hook == HOOK_EGRESS)
            return TC_IS_NEXT;
        return hook == HOOK_XDP ? XDP_IS_TX : TC_IS_REDIRECT;
    case ACT_ANSWER_PAID:
        bare_frame(lab, want, in, segment, segment->seq - before->delta.rx,
                   segment->ack - before->delta.tx, after);
        return TC_IS_NEXT;
    case ACT_PROBE:
        probe = leaves_as(lab, segment, odd, after);
        bare_frame(lab, want, in, segment, probe.seq, probe.ack, after);
        return TC_IS_NEXT;
    case ACT_RELEASE:
    case ACT_PASS:
        if (hook == HOOK_XDP)
            return XDP_IS_PASS;
        if (!untouched)
            translate(lab, want, segment, odd, after, hook == HOOK_INGRESS);
        return TC_IS_NEXT;
    case ACT_REFUSE:
        refusal_frame(want, segment, before);
        if (segment->sum == SUM_PARTIAL)
            segment_seal(want, SUM_PARTIAL);
        return TC_IS_REDIRECT;
    case ACT_DROP:
    case ACTS:
        break;
    }
    return hook == HOOK_XDP ? 1 : TC_IS_DROP;
}

static const char *compare_frame(const struct tcp_lab *lab, enum hook hook, const struct frame *in,
                                 const struct frame *want, const struct outcome *outcome,
                                 const struct tcp_run *run)
{
    bool same;

    if (outcome->act == ACT_DROP)
        return NULL;
    if (hook == HOOK_XDP && outcome->act != ACT_PASS)
        same = frame_answers(&run->out, in, want);
    else
        same = frame_equal(&run->out, want);
    if (same)
        return NULL;
    if (lab->quiet)
        return "the frame";
    frame_dump("sent", in);
    frame_dump("got", &run->out);
    frame_dump("wanted", want);
    return "the frame";
}

/* What the slot has afterwards of segments that are lost, or owed; the time is 0. */
static void note_slot(struct mc_tcp_slot *slot, enum hook hook, const struct segment *segment,
                      unsigned int odd, enum act act, const struct mc_tcp_conn *before,
                      const struct mc_tcp_conn *after)
{
    bool has_data = data_of(segment, odd) || segment->flags & FIN;
    struct splice_conn c = model_conn(after);

    if (act == ACT_ANSWER || act == ACT_ANSWER_PAID)
        slot->lost = 0;
    if (hook == HOOK_XDP || !is_used(after) || slot->generation != before->generation ||
        conn_is_frozen(before) || odd & (ODD_FOREIGN | ODD_MARK | ODD_DONE) || segment->flags & SYN)
        return;
    if (hook == HOOK_EGRESS && !was_translated(before, segment))
        slot->ack_due = 0;
    if (hook == HOOK_EGRESS || (act != ACT_PASS && act != ACT_RELEASE))
        return;
    slot->lost = 0;
    if (!is_believed(before, segment) || segment->flags & RST ||
        splice_map_seq(&c, segment->seq, 0) != after->last_ack_sent)
        return;
    if (has_data ? !(slot->ack_due & 1) : !slot->ack_due)
        slot->ack_due = 2 | has_data;
}

/* Compares but for the times. */
static const char *compare_slot(const struct mc_tcp_slot *want, struct mc_tcp_slot have)
{
    if (want->ack_due && have.ack_due && !((want->ack_due ^ have.ack_due) & 3))
        have.ack_due = want->ack_due;
    return memcmp(want, &have, sizeof(have)) ? "the slot" : NULL;
}

/* Whether a SYN makes void what was known. closed: the server has closed the connection. */
static bool is_opening(enum hook hook, const struct segment *segment, unsigned int odd, bool closed)
{
    if (!(segment->flags & SYN))
        return false;
    return hook == HOOK_EGRESS ? !(odd & ODD_MARK)
                               : hook == HOOK_INGRESS && closed && !(odd & ODD_FOREIGN);
}

static const char *compare(struct tcp_lab *lab, enum hook hook, const struct segment *segment,
                           const struct frame *frame, const struct request *request,
                           unsigned int odd, struct outcome *found)
{
    static struct frame want;
    static struct tcp_run run;
    struct mc_tcp_conn before, after, have;
    struct mc_tcp_counts counts, counted;
    struct mc_tcp_rtx was;
    struct mc_counts keys, keys_counted;
    struct mc_tcp_slot slot;
    bool answered, known = conn_get(lab, segment->v6, &before);
    unsigned int nanswered;
    uint32_t verdict;
    const char *wrong = NULL;
    long freed = -1;

    if (!known)
        return "there is no entry";
    after = before;
    *found = model_run(lab, hook, segment, request, odd, &after, &freed);
    answered = found->act == ACT_ANSWER || found->act == ACT_ANSWER_PAID;
    nanswered = answered ? 1 + request->more : 0;
    slot = lab->slots[before.slot];
    if (before.delta.nreply)
        rtx_get(lab, before.rtx, &was);
    loader_tcp_counts(lab->lab.loader, &counts);
    loader_counts(lab->lab.loader, &keys);
    run.mark = odd & ODD_MARK ? loader_tcp_mark(lab->lab.loader) : 77;
    run.complete = false;
    if (tcp_run(lab, hook, frame, &run))
        return "the run failed";
    loader_tcp_counts(lab->lab.loader, &counted);
    loader_counts(lab->lab.loader, &keys_counted);
    verdict = make_wanted(lab, &want, hook, segment, frame, odd, found, &before, &after);
    if (run.verdict != verdict) {
        if (!lab->quiet)
            diag("verdict %d, not %d", (int)run.verdict, (int)verdict);
        wrong = "the verdict";
    }
    wrong = wrong ? wrong : compare_frame(lab, hook, frame, &want, found, &run);
    if (!wrong && !conn_is_frozen(&before) &&
        is_opening(hook, segment, odd, slot.generation != before.generation))
        return conn_get(lab, segment->v6, &have) ? "the entry is still there" : NULL;
    if (!wrong && !conn_get(lab, segment->v6, &have))
        return "the entry is gone";
    wrong = wrong ? wrong : compare_conn(lab, &after, &have);
    wrong = wrong ? wrong : compare_counts(lab, &counts, found, hook, segment, nanswered, &counted);
    wrong = wrong ? wrong : compare_keys(&keys, answered, request, &keys_counted);
    wrong = wrong ? wrong : compare_kept(lab, found, &after, &was, freed);
    slot.answered += nanswered;
    slot.answered += answered && !slot.answered; /* 0: none was */
    if (answered || (freed >= 0 && slot.generation == before.generation))
        slot.outstanding = answered;
    note_slot(&slot, hook, segment, odd, found->act, &before, &after);
    return wrong ? wrong : compare_slot(&slot, lab->slots[before.slot]);
}

bool tcp_check(struct tcp_lab *lab, enum hook hook, const struct segment *segment,
               const struct frame *frame, const struct request *request, unsigned int odd,
               struct outcome *found)
{
    const char *wrong = compare(lab, hook, segment, frame, request, odd, found);

    if (wrong && !lab->quiet)
        diag("wrong: %s", wrong);
    return !wrong;
}

bool tcp_frame_does(struct tcp_lab *lab, enum hook hook, const struct segment *segment,
                    const struct frame *frame, const struct request *request, unsigned int odd,
                    enum act want, uint32_t reason)
{
    struct outcome found;

    if (!tcp_check(lab, hook, segment, frame, request, odd, &found))
        return false;
    if (found.act == want && (!reason || found.reason == reason))
        return true;
    diag("the rules say %d for reason %u", found.act, found.reason);
    return false;
}

bool tcp_does(struct tcp_lab *lab, enum hook hook, const struct segment *segment,
              const struct request *request, enum act want, uint32_t reason)
{
    static struct frame frame;

    segment_frame(&frame, segment);
    return tcp_frame_does(lab, hook, segment, &frame, request, 0, want, reason);
}
