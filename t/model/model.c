/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <string.h>

#include "kept.h"
#include "model.h"

enum {
    CLIENT_BASE = 0xfb, /* numbers wrap soon, */
    SERVER_BASE = 0x7c, /* and soon change their sign */
    FIN_REPLY = 0x7f,   /* the server's FIN, where a reply's command stands */
    WAY_ONE = 1,
    WAY_ALL = 2,
    WAY_BYTE = 4,
};

/* The step that is being made. */
struct maker {
    const struct model *m;
    const struct model_state *from;
    model_step_fn *fn;
    void *arg;
    const char *wrong;
    struct splice_segment segment;
    unsigned nsure;
};

static bool quiet(const struct model_state *s)
{
    return !s->to_server.n && !s->to_client.n && !s->in.n && !s->out.n && !s->conn.busy;
}

static void take(struct maker *k, const struct model_state *next, const char *what, unsigned cost,
                 unsigned sure)
{
    struct model_step step = {next, what, k->segment, cost, sure, k->wrong};

    if (!step.wrong && !next->rush && quiet(next) && after(next->heard, next->server.una))
        step.wrong = "the socket is not told of an ack that came";
    k->fn(k->arg, &step);
    k->wrong = NULL;
    k->nsure += sure != 0;
}

/* The next stage follows at once; or, as a fault, it waits. */
static void take_rush(struct maker *k, struct model_state *next, enum model_rush rush,
                      const char *what, unsigned cost, unsigned sure)
{
    next->rush = rush;
    take(k, next, what, cost, sure);
    next->rush = RUSH_NONE;
    if (rush && k->m->flags & MODEL_WAITS)
        take(k, next, what, cost + 1, 0);
}

static void put(struct model_queue *q, struct splice_segment segment)
{
    assert(q->n < MODEL_NET);
    q->segments[q->n++] = segment;
}

static struct splice_segment get(struct model_queue *q, unsigned i)
{
    struct splice_segment segment = q->segments[i];

    memmove(q->segments + i, q->segments + i + 1, (q->n - i - 1u) * sizeof(*q->segments));
    memset(&q->segments[--q->n], 0, sizeof(*q->segments));
    return segment;
}

/* Which of the bytes that the server gets, or sends, of its own has this number of its socket's. */
static unsigned in_at(const struct model_state *s, num n)
{
    return (num)(n - CLIENT_BASE - (s->undo.stage == UNDO_DONE ? s->undo.in : 0));
}

static unsigned out_at(const struct model_state *s, num n)
{
    return (num)(n - SERVER_BASE - (s->undo.stage == UNDO_DONE ? s->undo.out : 0));
}

static bool undoes(const struct model_state *s)
{
    return s->undo.stage != UNDO_NOT && s->undo.stage != UNDO_DONE;
}

/* Where command `i` begins in the client's bytes. */
static unsigned start_of(const struct model *m, unsigned i)
{
    unsigned start = 0;

    while (i)
        start += m->commands[--i].len;
    return start;
}

/* The command that the client's byte `at` is of; ncommands: none. */
static unsigned command_at(const struct model *m, unsigned at)
{
    unsigned i = 0;

    while (i < m->ncommands && at >= start_of(m, i + 1))
        i++;
    return i;
}

/* Which of the client's bytes the socket must get as its byte `n`. */
static unsigned passed_byte(const struct model *m, const struct model_state *s, unsigned n)
{
    for (unsigned i = 0; i < m->ncommands; i++) {
        if (s->spliced & 1u << i)
            continue;
        if (n < m->commands[i].len)
            return start_of(m, i) + n;
        n -= m->commands[i].len;
    }
    return start_of(m, m->ncommands);
}

/* Which reply the server's byte `n` is of, as the client must find it. */
static unsigned reply_of(const struct model *m, const struct model_state *s, unsigned n,
                         unsigned *at, unsigned *len)
{
    *len = 1;
    if (s->server.closed && n + 1u == out_at(s, s->server.written))
        return FIN_REPLY;
    for (unsigned i = 0; i < m->ncommands; i++) {
        if (s->spliced & 1u << i)
            continue;
        if (n < m->commands[i].reply) {
            *at = n;
            *len = m->commands[i].reply;
            return i;
        }
        n -= m->commands[i].reply;
    }
    assert(!"a byte that the server has not written");
    return 0;
}

/* Whether a number is that of a byte which the next socket was given to send as its first. */
static bool was_kept(const struct model_state *s, num seq)
{
    return s->undo.stage == UNDO_DONE && (num)(seq - s->undo.start) < s->undo.len;
}

/* Likewise of the byte that has this number of the socket's. */
static unsigned reply_at(const struct model *m, const struct model_state *s, num seq, unsigned *at,
                         unsigned *len)
{
    if (!was_kept(s, seq))
        return reply_of(m, s, out_at(s, seq), at, len);
    return kept_at(s, s->undo.kept, (num)(seq - s->undo.start), at, len);
}

/* How many of the server's own bytes the client has. */
static unsigned server_bytes(const struct model *m, const struct model_state *s)
{
    unsigned n = s->client.closed;

    for (unsigned i = 0; i < s->client.command; i++)
        if (!(s->spliced & 1u << i))
            n += m->commands[i].reply;
    return n + (s->client.kept ? 0 : s->client.at);
}

/* The get that fills this segment, -1: it is none. */
static int whole_get(const struct model *m, const struct splice_segment *g)
{
    unsigned i = command_at(m, g->content);

    if (!g->len || i == m->ncommands || !m->commands[i].get || g->content != start_of(m, i))
        return -1;
    if (g->len == m->commands[i].len ||
        (g->len > m->commands[i].len && !follows(m->off, RULE_WHOLE)))
        return (int)i;
    return -1;
}

/* --- the client --- */

static void client_acked(struct maker *k, struct model_state *s, num ack)
{
    unsigned received = passed_byte(k->m, s, in_at(s, s->server.rcv));

    if (after(ack, s->client.nxt))
        k->wrong = "the client gets an ack for what it has not sent";
    else if (after(ack, CLIENT_BASE + received))
        k->wrong = "the client gets an ack for what nobody has received";
    if (after(ack, s->client.una))
        s->client.una = ack;
}

static void client_byte(struct maker *k, struct model_state *s, const struct splice_segment *g,
                        unsigned i)
{
    unsigned at = i, len = g->len, command = kept_command(g->content);
    bool kept = g->kept;

    if (g->numbered) {
        command = reply_at(k->m, s, g->content + i, &at, &len);
        kept = was_kept(s, g->content + i);
    } else if (!g->kept) {
        command = reply_of(k->m, s, g->content + i, &at, &len);
    } else {
        command = kept_at(s, g->content, i, &at, &len);
        if (!g->piece && i + 1 == g->len && at + 1 != len)
            k->wrong = "the client gets a reply with the bytes of two";
    }
    if (s->client.closed)
        k->wrong = "the client gets bytes behind the server's FIN";
    if (command == FIN_REPLY) {
        if (s->client.at)
            k->wrong = "the client gets a FIN inside of a reply";
        s->client.closed = true;
    } else if (command != s->client.command || at != s->client.at ||
               (at && (len != s->client.len || kept != s->client.kept))) {
        k->wrong = "the client gets other bytes than those of the next reply";
    } else {
        s->client.len = len;
        s->client.kept = kept;
        if (++s->client.at == len) {
            s->client.at = s->client.len = s->client.kept = 0;
            s->client.command++;
        }
    }
    while (s->client.command < k->m->ncommands && !k->m->commands[s->client.command].reply)
        s->client.command++;
    s->client.rcv++;
}

/* `most`: of the new bytes it takes only so many. */
static void client_receive(struct maker *k, struct model_state *s, struct splice_segment g,
                           bool ack, unsigned most)
{
    if (ack)
        client_acked(k, s, g.ack);
    if (g.len || before(g.seq, s->client.rcv))
        s->client.owed = true;
    if (after(g.seq, s->client.rcv))
        return;
    for (unsigned i = (num)(s->client.rcv - g.seq); i < g.len && most-- && !k->wrong; i++)
        client_byte(k, s, &g, i);
}

static void client_send(struct maker *k, num seq, unsigned len, const char *what, unsigned cost,
                        unsigned sure)
{
    struct model_state s = *k->from;
    struct splice_segment g = {.seq = seq, .ack = s.client.rcv, .len = len};
    const struct model_command *last = &k->m->commands[k->m->ncommands - 1];

    if (s.to_server.n == MODEL_NET)
        return;
    g.content = seq - CLIENT_BASE;
    g.fin = len && last->fin && g.content + len == start_of(k->m, k->m->ncommands);
    if (after(seq + len, s.client.nxt))
        s.client.nxt = seq + len;
    s.client.owed &= seq != s.client.nxt && !len; /* a probe's ack does not count */
    put(&s.to_server, g);
    k->segment = g;
    take(k, &s, what, cost, sure);
}

static bool consumable(const struct model *m, const struct model_state *s)
{
    unsigned i = command_at(m, passed_byte(m, s, in_at(s, s->server.read)));

    return i < m->ncommands && !s->server.closed &&
           m->commands[i].len <= (num)(s->server.rcv - s->server.read);
}

/* Nothing goes on: only what the client's program has not sent yet, and timers. */
static bool idle(const struct model *m, const struct model_state *s)
{
    return quiet(s) && !undoes(s) && !s->client.owed && !s->server.owed &&
           s->server.nxt == s->server.written && !consumable(m, s);
}

/*
 * The ways under which a TCP sends `len` of `all` bytes: `one` command or reply, all, one byte; 0:
 * under none.
 */
static unsigned ways(unsigned len, unsigned one, unsigned all)
{
    all = all < MODEL_MSS ? all : MODEL_MSS;
    one = one < all ? one : all;
    return (len == one ? WAY_ONE : 0) | (len == all ? WAY_ALL : 0) | (len == 1 ? WAY_BYTE : 0);
}

static void client_new(struct maker *k)
{
    num nxt = k->from->client.nxt - CLIENT_BASE, all = start_of(k->m, k->m->ncommands) - nxt;
    unsigned one = start_of(k->m, command_at(k->m, nxt) + 1) - nxt;

    for (unsigned len = 1; len <= all && len <= MODEL_MSS; len++) {
        unsigned sure = ways(len, one, all) & ~WAY_BYTE;

        if (sure & WAY_ONE)
            sure |= WAY_BYTE;
        if (sure || k->m->flags & MODEL_SPLIT)
            client_send(k, k->from->client.nxt, len, "client sends", !sure, sure);
    }
}

static void client_again(struct maker *k)
{
    num una = k->from->client.una, nxt = k->from->client.nxt;
    unsigned one, sure, all;

    for (num seq = una; seq != nxt; seq++) {
        all = (num)(nxt - seq);
        one = start_of(k->m, command_at(k->m, (num)(seq - CLIENT_BASE)) + 1) -
              (num)(seq - CLIENT_BASE);
        for (unsigned len = 1; len <= all && len <= MODEL_MSS; len++) {
            sure = ways(len, one, all);
            if (!sure && !(k->m->flags & MODEL_SPLIT))
                continue;
            if (sure && seq == una && idle(k->m, k->from))
                client_send(k, seq, len, "client's timer sends again", 0, sure);
            else
                client_send(k, seq, len, "client sends again", 1, 0);
        }
    }
}

static void client_steps(struct maker *k)
{
    const struct model_state *s = k->from;

    client_new(k);
    if (k->m->flags & MODEL_TIMERS)
        client_again(k);
    if (s->client.owed && !s->to_client.n && !s->out.n)
        client_send(k, s->client.nxt, 0, "client acks", 0, MODEL_ANY_WAY);
    if (!(k->m->flags & MODEL_ACKS))
        return;
    client_send(k, s->client.nxt, 0, "client acks at once", 1, 0);
    if (s->client.una == s->client.nxt)
        client_send(k, s->client.nxt - 1, 0, "client sends a keepalive probe", 1, 0);
}

/* --- the server's socket --- */

static void server_acked(struct maker *k, struct model_state *s, num ack)
{
    num most = s->undo.stage == UNDO_DONE ? s->client.rcv : SERVER_BASE + server_bytes(k->m, s);

    if (after(ack, s->server.nxt))
        k->wrong = "the socket gets an ack for what it has not sent";
    else if (after(ack, most))
        k->wrong = "the socket gets an ack for what the client has not received";
    if (after(ack, s->server.una))
        s->server.una = ack;
}

static void server_receive(struct maker *k, struct model_state *s, struct splice_segment g,
                           bool ack)
{
    if (ack)
        server_acked(k, s, g.ack);
    if (g.len || before(g.seq, s->server.rcv))
        s->server.owed = true;
    if (after(g.seq, s->server.rcv))
        return;
    for (unsigned i = (num)(s->server.rcv - g.seq); i < g.len && !k->wrong; i++) {
        if (g.content + i != passed_byte(k->m, s, in_at(s, s->server.rcv)))
            k->wrong = "the server gets other bytes than the next that are its own";
        s->server.rcv++;
    }
}

static void server_send(struct maker *k, num seq, unsigned len, const char *what, unsigned cost,
                        unsigned sure)
{
    struct model_state s = *k->from;
    struct splice_segment g = {.seq = seq, .ack = s.server.rcv, .len = len};

    if (s.out.n == MODEL_QUEUE)
        return;
    g.numbered = s.undo.stage == UNDO_DONE;
    g.content = g.numbered ? seq : out_at(&s, seq);
    g.fin = s.server.closed && len && (num)(seq + len) == s.server.written;
    if (after(seq + len, s.server.nxt))
        s.server.nxt = seq + len;
    s.server.owed = false;
    put(&s.out, g);
    k->segment = g;
    take_rush(k, &s, s.out.n == 1 ? RUSH_OUT : RUSH_NONE, what, cost, sure);
}

static void server_new(struct maker *k)
{
    num nxt = k->from->server.nxt, new = k->from->server.sock - nxt;
    unsigned at = 0, one;

    if (!new)
        return;
    reply_at(k->m, k->from, nxt, &at, &one);
    server_send(k, nxt, new, "socket sends", 0, MODEL_ANY_WAY);
    if (one - at < new)
        server_send(k, nxt, one - at, "socket sends one reply", 0, 0);
    else if (new > 1 && k->m->flags & MODEL_SPLIT)
        server_send(k, nxt, 1, "socket sends a part", 1, 0);
}

static void server_again(struct maker *k)
{
    num una = k->from->server.una, nxt = k->from->server.nxt;
    unsigned at, one, sure, all;

    for (num seq = una; seq != nxt; seq++) {
        at = 0;
        all = (num)(nxt - seq);
        reply_at(k->m, k->from, seq, &at, &one);
        for (unsigned len = 1; len <= all && len <= MODEL_MSS; len++) {
            sure = ways(len, one - at, all);
            if (!sure && !(k->m->flags & MODEL_SPLIT))
                continue;
            if (sure && seq == una && idle(k->m, k->from))
                server_send(k, seq, len, "socket's timer sends again", 0, sure);
            else
                server_send(k, seq, len, "socket sends again", 1, 0);
        }
    }
}

static void server_steps(struct maker *k)
{
    const struct model_state *s = k->from;

    k->segment = (struct splice_segment){0};
    if (s->undo.stage == UNDO_GAP)
        return;
    server_new(k);
    if (k->m->flags & MODEL_TIMERS)
        server_again(k);
    if (s->server.owed && !s->to_server.n && !s->in.n)
        server_send(k, s->server.nxt, 0, "socket acks", 0, MODEL_ANY_WAY);
    if (k->m->flags & MODEL_ACKS)
        server_send(k, s->server.nxt, 0, "socket acks at once", 1, 0);
}

/* --- the server's program --- */

/* It answers commands, publishes a boundary before it sends their replies, and sends. */
static void publish_step(struct maker *k)
{
    struct model_state s = *k->from;
    bool torn =
        !follows(k->m->off, RULE_PUBLISH_WHOLE) && s.server.boundary.consumed != s.server.read;

    s.server.boundary.consumed = s.server.read;
    if (!torn)
        s.server.boundary.sent = s.server.written;
    s.server.published = !torn && s.server.sock != s.server.written;
    take_rush(k, &s, torn || s.server.published ? RUSH_PROGRAM : RUSH_NONE,
              torn ? "server publishes what it consumed" : "server publishes", 0, MODEL_ANY_WAY);
}

static void send_steps(struct maker *k, bool all)
{
    struct model_state s = *k->from;

    if (all) {
        s.server.sock = s.server.written;
        take_rush(k, &s, RUSH_SOCKET, "server sends", 0, MODEL_ANY_WAY);
    } else if ((num)(s.server.written - s.server.sock) > 1 && k->m->flags & MODEL_SPLIT) {
        s.server.sock++;
        take_rush(k, &s, RUSH_SOCKET, "server sends a part", 1, 0);
    }
}

static void program_steps(struct maker *k)
{
    struct model_state s = *k->from;
    bool first = follows(k->m->off, RULE_PUBLISH_FIRST);
    bool stale =
        s.server.boundary.consumed != s.server.read || s.server.boundary.sent != s.server.written;
    bool unsent = s.server.sock != s.server.written;

    k->segment = (struct splice_segment){0};
    if (s.server.closed || undoes(&s))
        return;
    if (stale && (first || !unsent))
        publish_step(k);
    if (unsent)
        send_steps(k, !first || !stale);
    if (k->m->flags & MODEL_LATE && s.in.n && s.in.segments[0].mapped)
        return; /* the program's reading empties the backlog first */
    if (consumable(k->m, &s) && (!stale || !s.server.published)) {
        unsigned i = command_at(k->m, passed_byte(k->m, &s, in_at(&s, s.server.read)));

        s.server.read += k->m->commands[i].len;
        s.server.written += k->m->commands[i].reply;
        s.server.published = false;
        take_rush(k, &s, RUSH_PROGRAM, "server consumes a command", 0, MODEL_ANY_WAY);
    } else if (k->m->flags & MODEL_CLOSE && !unsent && !stale) {
        s.server.closed = true;
        s.server.sock = ++s.server.written;
        take(k, &s, "server closes", 1, 0);
    }
}

/* --- the splice --- */

/* From XDP into the queue; where it waits it may become one segment with those before it. */
static void enqueue(struct maker *k, struct model_state *s, struct splice_segment g,
                    const char *what, unsigned cost)
{
    struct splice_segment *last = s->in.n ? &s->in.segments[s->in.n - 1] : NULL;
    struct model_state merged = *s;

    if (last && k->m->flags & MODEL_GRO && !last->mapped && last->len && g.len &&
        (num)(last->seq + last->len) == g.seq && last->ack == g.ack && !last->fin) {
        merged.in.segments[s->in.n - 1].len += g.len;
        merged.in.segments[s->in.n - 1].fin = g.fin;
        take(k, &merged, what, cost, cost ? 0 : MODEL_ANY_WAY);
    }
    if (s->in.n == MODEL_QUEUE)
        return;
    put(&s->in, g);
    take_rush(k, s, s->in.n == 1 ? RUSH_IN : RUSH_NONE, what, cost, cost ? 0 : MODEL_ANY_WAY);
}

static void pass(struct maker *k, struct model_state s, struct splice_segment g, int place,
                 const char *what, unsigned cost)
{
    if (place < 0) {
        if (follows(k->m->off, RULE_NOTE_XDP))
            splice_note(&s.conn, &g, SPLICE_XDP, k->m->off);
        enqueue(k, &s, g, what, cost);
        return;
    }
    splice_note(&s.conn, &g, SPLICE_TC, k->m->off);
    g.seq = splice_map_seq(&s.conn, g.seq, k->m->off);
    g.ack = splice_map_ack(&s.conn, g.ack, k->m->off);
    g.mapped = true;
    s.in.segments[place] = g;
    take_rush(k, &s, s.in.n == 1 ? RUSH_IN : RUSH_NONE, what, cost, cost ? 0 : MODEL_ANY_WAY);
}

/* `to` asks for it. */
static void resend(struct maker *k, struct model_state s, struct splice_segment to, int place,
                   const char *what, unsigned cost, unsigned sure)
{
    struct splice_segment g = splice_reply(&s.conn);

    if (s.to_client.n == MODEL_NET)
        return;
    if (k->m->flags & MODEL_PIECES) {
        g = splice_piece(&s.conn, &to, 1, k->m->off);
        g.content = kept_later(&s, g.content, (num)(g.seq - s.conn.rep_start));
    }
    if (place >= 0)
        get(&s.in, (unsigned)place);
    put(&s.to_client, g);
    take(k, &s, what, cost, sure);
    if (!follows(k->m->off, RULE_RESEND_KEPT) && g.len == kept_size(g.content)) {
        g.len = g.len == 1 ? 2 : 1;
        g.content = kept_bytes(kept_command(g.content), g.len);
        s.to_client.segments[s.to_client.n - 1] = g;
        take(k, &s, "... with a new lookup", 1, 0);
    }
}

/* The replies that are kept begin no longer at `start`. */
static void kept_free(struct model_state *s, num start)
{
    s->conn.kept = kept_later(s, s->conn.kept, (num)(s->conn.rep_start - start));
}

static void answer(struct maker *k, struct model_state s, struct splice_segment g, int place,
                   unsigned len, unsigned cost)
{
    unsigned i = command_at(k->m, g.content), bit = 1u << i;
    num ack = splice_reply_start(&s.conn, &g) - s.conn.N, start = s.conn.rep_start;
    struct splice_segment bare = {.seq = g.seq - s.conn.M, .ack = ack, .mapped = true}, reply;

    if (s.to_client.n == MODEL_NET)
        return;
    if (s.spliced & bit)
        k->wrong = "a request is answered twice in front of the socket";
    else if (passed_byte(k->m, &s, in_at(&s, s.server.rcv)) > start_of(k->m, i))
        k->wrong = "a request is answered that the server has as well";
    if (place >= 0 && splice_pays(&s.conn, &g))
        s.in.segments[place] = bare;
    else if (place >= 0)
        get(&s.in, (unsigned)place);
    reply = splice_commit(&s.conn, &g, len, k->m->off);
    reply.content = kept_bytes(i, len);
    s.spliced |= bit;
    s.sizes |= len << 2 * i;
    if (s.conn.last == s.conn.rep_start)
        s.conn.kept = reply.content;
    else
        kept_free(&s, start);
    put(&s.to_client, reply);
    take_rush(k, &s, s.in.n == 1 ? RUSH_IN : RUSH_NONE, place < 0 ? "XDP answers" : "TC answers",
              cost, cost ? 0 : MODEL_ANY_WAY);
}

static void answers(struct maker *k, const struct model_state *s, struct splice_segment g,
                    int place, unsigned cost)
{
    answer(k, *s, g, place, 1, cost);
    if (k->m->flags & MODEL_SIZES)
        answer(k, *s, g, place, 2, cost + 1);
}

/* Without timers the socket must hear of every ack in a segment that it would not drop as old. */
static void hear(const struct maker *k, struct model_state *s, const struct splice_segment *g)
{
    num end = splice_map_seq(&s->conn, g->seq, 0) + g->len;
    num ack = splice_map_ack(&s->conn, g->ack, 0);

    if (!(k->m->flags & MODEL_TIMERS) && !before(end, s->server.rcv) && after(ack, s->heard))
        s->heard = ack;
}

/* What a stage does with the segment: XDP, or TC ingress at `place` of its queue. */
static void stage(struct maker *k, struct model_state s, struct splice_segment g, int place,
                  unsigned cost)
{
    enum splice_stage which = place < 0 ? SPLICE_XDP : SPLICE_TC;
    bool whole = whole_get(k->m, &g) >= 0, refuses = k->m->flags & MODEL_REFUSE;
    unsigned sure = cost ? 0 : MODEL_ANY_WAY;
    enum splice_verdict verdict;
    bool freezes = s.conn.frozen && follows(k->m->off, RULE_FROZEN);
    bool releases = place >= 0 && !freezes && splice_releases(&s.conn, &g, k->m->off);
    num start = s.conn.rep_start;

    k->segment = g;
    hear(k, &s, &g);
    verdict = splice_judge(&s.conn, &s.server.boundary, &g, whole, which, k->m->off);
    if (s.conn.outstanding)
        kept_free(&s, start);
    if (releases) {
        if (s.to_client.n == MODEL_NET)
            return;
        put(&s.to_client, splice_release(&s.conn));
    }
    switch (verdict) {
    case SPLICE_PASS:
        pass(k, s, g, place, place < 0 ? "XDP passes" : "TC translates", cost);
        return;
    case SPLICE_RESEND:
        resend(k, s, g, place, place < 0 ? "XDP resends" : "TC resends", cost, sure);
        break;
    case SPLICE_DEFER:
        enqueue(k, &s, g, "XDP leaves to TC", cost);
        return;
    case SPLICE_DROP:
        get(&s.in, (unsigned)place);
        take(k, &s, "TC drops", cost, sure);
        return;
    case SPLICE_ANSWER:
        answers(k, &s, g, place, cost);
        if (refuses)
            pass(k, s, g, place, place < 0 ? "XDP refuses" : "TC refuses", cost + 1);
        if (k->m->flags & MODEL_CPUS && place < 0 && !s.conn.busy) {
            struct model_state waits = s;

            waits.conn.busy = true;
            waits.busy = g;
            take(k, &waits, "XDP begins to answer", cost + 1, 0);
        }
        break;
    }
    if (refuses && place < 0)
        enqueue(k, &s, g, "XDP finds no room", cost + 1);
}

/* The other CPU copies the item, into the reply that is kept if it has no place of its own. */
static void busy_steps(struct maker *k)
{
    struct model_state s = *k->from;
    struct splice_segment g = s.busy;

    if (!g.len)
        return;
    k->segment = g;
    memset(&s.busy, 0, sizeof(s.busy));
    s.conn.busy = false;
    if (!s.conn.outstanding || !follows(k->m->off, RULE_BUSY))
        s.conn.kept = kept_bytes(command_at(k->m, g.content), 1);
    take(k, &s, "XDP's copy is torn: it drops", 1, 0);
    if (!follows(k->m->off, RULE_AGAIN) ||
        (splice_refuses(&s.conn, &s.server.boundary, &g, k->m->off) == NRULES &&
         !(s.conn.frozen && follows(k->m->off, RULE_FROZEN))))
        answers(k, &s, g, -1, 0);
    else
        take(k, &s, "XDP drops after all", 0, MODEL_ANY_WAY);
}

/* A timer in user space retransmits the reply. */
static void timer_steps(struct maker *k)
{
    k->segment = (struct splice_segment){0};
    if (k->from->conn.outstanding && idle(k->m, k->from) && k->m->flags & MODEL_RESENDS &&
        follows(k->m->off, RULE_RESEND_TIMER))
        resend(k, *k->from, k->segment, -1, "timer resends", 0, MODEL_ANY_WAY);
}

/* --- the undo --- */

/* What is known of the connection, and of its socket. */
static void undo_read(struct model_state *s)
{
    const struct splice_conn *c = &s->conn;

    s->undo.stage = UNDO_READ;
    s->undo.in = c->M;
    s->undo.out = c->N;
    s->undo.rcv = s->server.rcv;
    s->undo.una = after(c->kack, s->server.una) ? c->kack : s->server.una;
    s->undo.nxt = s->server.nxt;
    if (c->outstanding) {
        s->undo.start = c->rep_start;
        s->undo.len = c->rep_len;
        s->undo.kept = c->kept;
    }
}

/* The next socket has the wire's numbers. */
static void undo_finish(struct model_state *s)
{
    s->undo.stage = UNDO_DONE;
    s->server.rcv = s->undo.rcv + s->undo.in;
    s->server.read += s->undo.in;
    s->server.written += s->undo.out;
    s->server.sock += s->undo.out;
    s->server.nxt = s->undo.nxt + s->undo.out;
    s->server.una = s->undo.len ? s->undo.start : (num)(s->undo.una + s->undo.out);
    s->server.owed = true;
    s->undo.rcv = s->undo.una = s->undo.nxt = 0;
    for (unsigned i = 0; i < s->in.n; i++)
        s->in.segments[i].former = s->in.segments[i].mapped;
    memset(&s->conn, 0, sizeof(s->conn));
}

static void undo_freeze(struct maker *k, bool freeze)
{
    struct model_state s = *k->from;

    s.undo.stage = freeze ? UNDO_FROZEN : UNDO_NOT;
    s.conn.frozen = freeze;
    if (s.conn.known && !s.server.closed)
        take(k, &s, freeze ? "server freezes the connection" : "server thaws it", freeze, 0);
}

static void undo_steps(struct maker *k)
{
    struct model_state s = *k->from;

    if (!(k->m->flags & MODEL_UNDO))
        return;
    k->segment = (struct splice_segment){0};
    switch ((enum model_undo)s.undo.stage) {
    case UNDO_NOT:
        undo_freeze(k, true);
        return;
    case UNDO_FROZEN:
        undo_read(&s);
        take(k, &s, "server reads its socket", 0, MODEL_ANY_WAY);
        undo_freeze(k, false);
        return;
    case UNDO_READ:
        for (unsigned i = 0; i < s.out.n; i++)
            s.out.segments[i].former = true;
        s.server.owed = false;
        s.undo.stage = UNDO_GAP;
        take(k, &s, "server closes its socket", 0, MODEL_ANY_WAY);
        return;
    case UNDO_GAP:
        undo_finish(&s);
        take(k, &s, "server has another socket", 0, MODEL_ANY_WAY);
        return;
    case UNDO_DONE:
        return;
    }
}

/* --- the network and the queues --- */

static void deliver_to_client(struct maker *k, unsigned i, unsigned cost)
{
    struct model_state s = *k->from, taken;
    struct splice_segment g = get(&s.to_client, i);
    num end = g.seq + g.len;
    unsigned sure = cost ? 0 : MODEL_ANY_WAY;

    if (before(end, s.client.rcv)) { /* TCP does not look at acks of old segments */
        taken = s;
        client_receive(k, &taken, g, false, g.len);
        take(k, &taken, "client drops the old", cost, sure);
        sure = 0;
    }
    for (unsigned most = 0; g.kept && k->m->flags & MODEL_DROPS && most < g.len; most++) {
        taken = s;
        client_receive(k, &taken, g, true, most);
        take(k, &taken, most ? "client takes one byte" : "client takes the ack", cost + 1, 0);
    }
    taken = s;
    client_receive(k, &taken, g, true, g.len);
    take(k, &taken, "client receives", cost, sure);
    if (!(k->m->flags & MODEL_REPEAT))
        return;
    taken = *k->from;
    client_receive(k, &taken, g, true, g.len);
    take(k, &taken, "client receives the first of two", cost + 1, 0);
}

static void deliver_to_server(struct maker *k, unsigned i, unsigned cost)
{
    struct model_state s = *k->from;
    struct splice_segment g = get(&s.to_server, i);

    for (int twice = 0; twice < (k->m->flags & MODEL_REPEAT ? 2 : 1); twice++) {
        if (twice)
            s = *k->from;
        if (!(k->m->flags & MODEL_NO_XDP))
            stage(k, s, g, -1, cost + twice);
        else
            enqueue(k, &s, g, "TC gets", cost + twice);
    }
}

/* TC ingress and the socket take from one queue: what is translated is the socket's. */
static void in_steps(struct maker *k)
{
    struct model_state s = *k->from;
    struct splice_segment g;
    int place = 0;

    while (place < s.in.n && s.in.segments[place].mapped)
        place++;
    if (place < s.in.n)
        stage(k, s, s.in.segments[place], place, 0);
    if (!s.in.n || !s.in.segments[0].mapped)
        return;
    g = k->segment = get(&s.in, 0);
    if (s.undo.stage == UNDO_GAP || (g.former && follows(k->m->off, RULE_MARK))) {
        if (s.undo.stage == UNDO_GAP && !follows(k->m->off, RULE_LISTENER))
            k->wrong = "the client is reset";
        take(k, &s, "a filter drops", 0, MODEL_ANY_WAY);
    } else if (before(g.seq + g.len, s.server.rcv)) {
        struct model_state taken = s;

        server_receive(k, &taken, g, false);
        take(k, &taken, "socket drops the old", 0, MODEL_ANY_WAY);
        server_receive(k, &s, g, true);
        take(k, &s, "socket looks at an old ack", 0, 0);
    } else {
        server_receive(k, &s, g, true);
        take(k, &s, "socket receives", 0, MODEL_ANY_WAY);
    }
}

static void out_step(struct maker *k)
{
    struct model_state s = *k->from;
    struct splice_segment g;

    if (!s.out.n || s.to_client.n == MODEL_NET)
        return;
    g = k->segment = get(&s.out, 0);
    if (g.former && s.undo.stage == UNDO_DONE) {
        take(k, &s, "client drops the former socket's: its timestamps are old", 0, MODEL_ANY_WAY);
        return;
    }
    if (g.len && !s.conn.known && s.undo.stage == UNDO_NOT)
        splice_learn(&s.conn, s.server.rcv, s.server.una);
    if (splice_egress(&s.conn, &g, k->m->off))
        put(&s.to_client, g);
    take(k, &s, "TC egress", 0, MODEL_ANY_WAY);
}

static void lose(struct maker *k, struct model_queue *q, struct model_state *s, const char *what)
{
    struct model_queue was = *q;

    for (unsigned i = 0; i < was.n; i++) {
        k->segment = get(q, i);
        take(k, s, what, 1, 0);
        *q = was;
    }
}

static void lose_in(struct maker *k)
{
    struct model_state s = *k->from;

    if (k->m->flags & MODEL_LOSS)
        lose(k, &s.in, &s, "server loses before the socket");
}

static void network_steps(struct maker *k)
{
    struct model_state s = *k->from;
    bool reorders = k->m->flags & MODEL_REORDER;

    for (unsigned i = 0; i < s.to_client.n && (!i || reorders); i++) {
        k->segment = s.to_client.segments[i];
        deliver_to_client(k, i, i > 0);
    }
    for (unsigned i = 0; i < s.to_server.n && (!i || reorders); i++)
        deliver_to_server(k, i, i > 0);
    if (!(k->m->flags & MODEL_LOSS))
        return;
    lose(k, &s.to_client, &s, "network loses, to the client");
    lose(k, &s.to_server, &s, "network loses, to the server");
    lose_in(k);
    lose(k, &s.out, &s, "server loses before TC egress");
}

/* --- all --- */

void model_start(const struct model *m, struct model_state *s)
{
    memset(s, 0, sizeof(*s));
    while (!m->commands[s->client.command].reply)
        s->client.command++;
    s->client.nxt = s->client.una = CLIENT_BASE;
    s->client.rcv = SERVER_BASE;
    s->server.rcv = s->server.read = s->server.boundary.consumed = CLIENT_BASE;
    s->server.written = s->server.sock = s->server.nxt = s->server.una = SERVER_BASE;
    s->server.boundary.sent = SERVER_BASE;
    if (!(m->flags & MODEL_LATE))
        splice_learn(&s->conn, CLIENT_BASE, SERVER_BASE);
    s->heard = SERVER_BASE;
}

static void rush_steps(struct maker *k, enum model_rush rush)
{
    switch (rush) {
    case RUSH_NONE:
        return;
    case RUSH_IN:
        in_steps(k);
        lose_in(k);
        return;
    case RUSH_OUT:
        out_step(k);
        return;
    case RUSH_PROGRAM:
        program_steps(k);
        return;
    case RUSH_SOCKET:
        server_new(k);
        return;
    }
}

void model_steps(const struct model *m, const struct model_state *s, model_step_fn *fn, void *arg)
{
    struct model_state from = *s;
    struct maker k = {.m = m, .from = &from, .fn = fn, .arg = arg};

    from.rush = RUSH_NONE;
    rush_steps(&k, s->rush);
    if (k.nsure)
        return;
    client_steps(&k);
    network_steps(&k);
    in_steps(&k);
    out_step(&k);
    busy_steps(&k);
    timer_steps(&k);
    undo_steps(&k);
    server_steps(&k);
    program_steps(&k);
}

bool model_finished(const struct model *m, const struct model_state *s)
{
    unsigned total = start_of(m, m->ncommands);

    if (s->server.una != s->server.nxt || undoes(s))
        return false;
    if (s->client.closed)
        return true;
    return s->client.una == (num)(CLIENT_BASE + total) && s->client.command == m->ncommands;
}
