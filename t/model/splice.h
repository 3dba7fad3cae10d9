/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * splice: the rules by which programs in front of a server's TCP socket answer gets on its
 * connections, as functions on numbers alone. The kernel programs follow the same rules; the model
 * (model.c) runs these with every order of events.
 *
 * The socket sees neither the gets that were answered nor the replies. So it numbers fewer bytes
 * than the client does:
 *
 *     number on the wire = the socket's number + M     bytes of the client
 *                        = the socket's number + N     bytes of the server
 *
 * Answered gets whose replies are not acknowledged yet are *outstanding*. They follow each other
 * without a gap, and so do their replies: one *run*, which is kept as {req_start, req_len,
 * rep_start, rep_len}, on the wire's numbers, with the replies' bytes. M and N already count it.
 * The *splice* is the socket's own place where it was taken out: req_start less the M from before
 * in the client's bytes, rep_start less the N from before in the server's. An ack inside the run
 * frees what it acknowledges: rep_start is there then, and the splice where it was. Of the requests
 * those before the *mark* are freed, when the replies before it are.
 *
 * A segment from the client passes two stages, XDP and then TC ingress, with a queue between them:
 * other segments may be in XDP meanwhile, and what was queued may be lost. TC ingress translates
 * what it leaves to the socket. TC egress translates what the socket sends. Where XDP has no room
 * or does not run, TC ingress alone does all.
 *
 * At any moment the server may *undo* that: it reads what the programs know, and its socket, and
 * puts another socket in the place of that one, whose numbers are the wire's, with the outstanding
 * reply in front of what it has to send. From then on the programs leave the connection alone.
 */
/*
 * What the rules below are for, as the model shows it.
 *
 * Wrong bytes, or an end that is never reached, without: CLAMP, RESEND, RESEND_MIXED, RESEND_KEPT,
 * RESEND_TC, PIECE_HELD, ACK_INSIDE, OLD_EGRESS, STRADDLE, PROBE, PUBLISH_WHOLE, KMAX, CONSUMED,
 * SENT, RUN, RUN_END, WHOLE, BUSY (or a place of its own for each CPU's copy), AGAIN, one of KSND
 * and CLOSING,
 * for an undo FROZEN, FROZEN_OUT, LISTENER and MARK, and, where a connection is known from its
 * first reply on only, FOLLOWED and FOLLOWED_SENT. KMAX_ACK is for the same case: no trace without
 * it is short enough to be found, but there is one: the client sends A, B and C; B and C are in the
 * backlog, unseen, when the reply to A makes the connection known; a copy of B moves kmax to B's
 * end; the server replies to B, C lies unread in the socket, a copy of C is answered.
 *
 * - RESEND_TC: two copies of a get may both be left to TC by XDP. TC answers the first, or XDP a
 *   third; the second must get the retransmitted reply, not reach the socket.
 * - RUN: a command that asks for no reply lies between two gets.
 * - AGAIN: while a CPU copies the reply, another one may pass a copy of the same get.
 * - FROZEN: a get is answered that the next socket waits for. FROZEN_OUT: the socket that was read
 *   takes one more segment, whose acknowledgement the client gets, and the next socket does not
 *   have it. MARK: what was translated, and waits, has numbers that mean other bytes to the next
 *   socket.
 * - RESEND_TIMER: a client takes the ack of a reply, drops its bytes for lack of room, and the ack
 *   by which it asks for them is lost: it waits, and has nothing to send again.
 * - PROBE: the client's ack of the reply is lost, the socket was not told of an earlier one, and
 *   sends again in one segment what lies on both sides of the splice. If that is dropped each time,
 *   the socket gives the connection up after tcp_retries2 (15 minutes). A bare ack with a number
 *   that the client has makes it acknowledge. RESEND_TIMER would do as well.
 * - RESEND_TIMER, too: of two replies the first is lost, and the client's ack that says so when it
 *   gets the second, which acknowledges both requests.
 *
 * Bytes sent for nothing and time until a timer, without:
 *
 * - HELD: a client sends a get and, at once, more. The socket acknowledges the latter while the get
 *   is outstanding, so this ack is held back; the socket does not repeat it. If nothing else comes,
 *   the client's timer sends the bytes again. A segment with data needs no such ack: it gets the
 *   socket's own, or the next reply's.
 * - DEBT, NOTE_ACK, NOTE_ACK_TC: the socket waits for an ack that came. A socket does not read the
 *   ack of a segment that lies wholly below what it acknowledged. What XDP passes TC may yet take
 *   as a request to retransmit the reply, and drop.
 * - RESEND_ON_ACK: a reply that the client dropped comes again after a time only. A keepalive probe
 *   (one below the request's end) asks for it as well, and an ack inside the reply.
 * - RUN_ACK: each ack that a client sends while replies are on their way has these sent twice.
 * - RUN_FREE: what is acknowledged is kept, and sent again. RUN_MARK: the socket acknowledges a get
 *   whose reply is lost, which RESEND_TIMER alone sends again.
 *
 * Follow from others, and cost nothing to have: PUBLISH_FIRST (after the send it is published too
 * late for the client's next get, which is passed), NOTE_XDP and RESEND_XDP (if TC does RESEND_TC:
 * a copy of a get that XDP has passed may be answered before TC sees it, which then gets the same
 * reply again),
 * OLD_ACK and OLD_SEQ (if TC alone notes acks; otherwise a queued ack is translated wrongly and the
 * socket not told).
 *
 * Not in the model, and therefore not shown: SACK, timestamps, windows, forged segments, RST, out
 * of order queues (what is out of order is dropped), two stages of TC at a time.
 */
#ifndef T_MODEL_SPLICE_H
#define T_MODEL_SPLICE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A sequence number. The model's has 8 bits, so that few bytes pass where numbers wrap; the tests
 * of the programs ask for TCP's.
 */
#ifndef SPLICE_NUM
#define SPLICE_NUM uint8_t
#endif
typedef SPLICE_NUM num;

/*
 * The rules. A model in which one is not followed shows what it is for. bpf/tcp names each where a
 * line follows it (t/00-model.t).
 */
enum splice_rule {
    RULE_CLAMP,         /* the socket's acks stop at req_start while a reply is outstanding */
    RULE_HELD,          /* when a bare ack ends that, the client gets the ack that was held back */
    RULE_RESEND,        /* data below the request's end gets the reply again */
    RULE_RESEND_MIXED,  /* also if it has bytes beyond that end: those the client sends again */
    RULE_RESEND_ON_ACK, /* a bare ack of less than the reply gets the reply again */
    RULE_RUN_ACK,       /* unless that acknowledges more than before, and the last reply is whole */
    RULE_RUN_FREE,      /* an ack inside the run frees the replies before it, */
    RULE_RUN_MARK,      /* and the requests before the mark, not others */
    RULE_RESEND_KEPT,   /* with the bytes of the first time, not those of a new lookup */
    RULE_PIECE_HELD,    /* a piece of it, but the last, holds the request's ack back */
    RULE_RESEND_TIMER,  /* a timer sends it again if the client asks for nothing */
    RULE_RESEND_TC,     /* TC ingress does all of that, */
    RULE_RESEND_XDP,    /* and XDP, too */
    RULE_OLD_ACK,       /* acks below the reply's end are translated with the old N */
    RULE_ACK_INSIDE,    /* and those inside the reply to the splice */
    RULE_OLD_SEQ,       /* the client's bytes up to req_start with the old M */
    RULE_OLD_EGRESS,    /* the socket's bytes below the splice with the old N */
    RULE_STRADDLE,      /* the socket's segment with bytes on both sides of it does not leave */
    RULE_PROBE,         /* and in its place one that makes the client say what it has does */
    RULE_ACK_DUE,       /* an ack that the socket waits for is not kept from it */
    RULE_NOTE_ACK,      /* an ack in a segment that is old does not count as told: it is not read */
    RULE_NOTE_ACK_TC,   /* nor one that XDP has passed: TC may drop it */
    RULE_PUBLISH_FIRST, /* the server publishes a boundary before it sends the replies */
    RULE_PUBLISH_WHOLE, /* both its numbers at once */
    RULE_NOTE_XDP,      /* kmax moves when XDP passes a segment, not only when TC translates it */
    RULE_FOLLOWED_SENT, /* which its reply to newer data shows, not such data by itself */
    RULE_KMAX_ACK,      /* kmax moves with what the socket acknowledges, too */
    RULE_KMAX,          /* answer only at the end of what the socket was handed, */
    RULE_CONSUMED,      /* of which the server has consumed all, */
    RULE_KSND,          /* to a client that has all that the socket has sent, */
    RULE_SENT,          /* which is all that the server has written, */
    RULE_RUN,           /* and that begins where the requests of a run end, if there is one, */
    RULE_RUN_END,       /* whose reply goes behind the run's, */
    RULE_FOLLOWED,      /* once the connection is followed, see splice_learn, */
    RULE_CLOSING,       /* and before a FIN of either side */
    RULE_WHOLE,         /* only whole requests that fill their segment */
    RULE_BUSY,          /* one CPU at a time answers on a connection */
    RULE_AGAIN,         /* it looks at all of this again when it has copied the reply */
    RULE_FROZEN,     /* while its socket is replaced a connection takes nothing of the client's, */
    RULE_FROZEN_OUT, /* nothing leaves of the one that goes, */
    RULE_LISTENER,   /* and nothing comes to the listening one, which would reset it */
    RULE_MARK,       /* what was translated for a socket the next one does not take */
    NRULES,
};

/* The rules that are not followed, a bit each. */
typedef uint64_t splice_rules;

#define SPLICE_RULE(rule) (1ull << (rule))

/*
 * What the programs do without: XDP notes nothing of what it passes, and sends no reply again, so
 * it takes no lock for it.
 */
#define SPLICE_LEFT_OUT (SPLICE_RULE(RULE_NOTE_XDP) | SPLICE_RULE(RULE_RESEND_XDP))

struct splice_segment {
    num seq, ack;
    num len : sizeof(num) == 1 ? 4 : 32;
    uint8_t fin : 1;    /* its last byte is a FIN */
    uint8_t kept : 1;   /* a reply of ours */
    uint8_t piece : 1;  /* a part of it */
    uint8_t mapped : 1; /* it has the socket's numbers, */
    uint8_t former : 1; /* those of the one that was replaced */
    uint8_t numbered : 1;
    uint8_t content; /* the model's: which bytes these are, whatever their numbers say; numbered:
                        they are what these say */
};

struct splice_conn {
    num M, N;
    num rcv_base; /* the client's first byte */
    num kmax;     /* the socket was handed the client's bytes to here (its numbers) */
    num kack;     /* the highest ack that it was handed */
    num ksnd;     /* it has sent the server's bytes to here, as TC egress saw */
    bool known, followed;
    num learned; /* what the socket had of the client's bytes when it became known */
    bool outstanding, busy, closing, frozen;
    num req_start, req_len, rep_start, rep_len;
    num mark_req, mark_rep; /* where a request of the run begins, and its reply; none: mark_rep is
                               not after rep_start */
    num last;               /* where its last reply begins */
    num last_ack_sent;      /* the highest ack that the socket has sent, before it was held back */
    uint8_t kept;           /* the model's: whose reply it is */
};

/* What the server publishes, on the socket's numbers, in one 64-bit word. */
struct splice_boundary {
    num consumed, sent;
};

enum splice_stage { SPLICE_XDP, SPLICE_TC };

enum splice_verdict {
    SPLICE_PASS,   /* note it and leave it to the socket */
    SPLICE_DEFER,  /* XDP leaves it to TC, without a note of it */
    SPLICE_RESEND, /* retransmit the reply; drop the segment */
    SPLICE_ANSWER, /* look the key up, reply, and take the segment out */
    SPLICE_DROP,
};

static inline bool before(num a, num b)
{
    return (num)(a - b) >> (8 * sizeof(num) - 1);
}

static inline bool after(num a, num b)
{
    return before(b, a);
}

static inline bool follows(splice_rules off, enum splice_rule rule)
{
    return !(off & SPLICE_RULE(rule));
}

static inline num splice_rep_end(const struct splice_conn *c)
{
    return c->rep_start + c->rep_len;
}

static inline num splice_req_end(const struct splice_conn *c)
{
    return c->req_start + c->req_len;
}

/* Whether a segment comes while replies are outstanding: a get's is then one more of the run. */
static inline bool splice_runs(const struct splice_conn *c, const struct splice_segment *g)
{
    return c->outstanding && before(g->ack, splice_rep_end(c));
}

/* Where the reply to a get begins. */
static inline num splice_reply_start(const struct splice_conn *c, const struct splice_segment *g)
{
    return splice_runs(c, g) ? splice_rep_end(c) : g->ack;
}

/* The client has acknowledged the run, or a part of it. */
static inline void splice_acknowledge(struct splice_conn *c, num ack, splice_rules off)
{
    if (!c->outstanding || !after(ack, c->rep_start))
        return;
    if (!before(ack, splice_rep_end(c))) {
        c->outstanding = false;
        return;
    }
    if (!follows(off, RULE_RUN_FREE))
        return;
    if (!follows(off, RULE_RUN_MARK)) {
        c->req_start = splice_req_end(c);
        c->req_len = 0;
    } else if (after(c->mark_rep, c->rep_start) && !before(ack, c->mark_rep)) {
        c->req_len -= c->mark_req - c->req_start;
        c->req_start = c->mark_req;
    }
    c->rep_len -= ack - c->rep_start;
    c->rep_start = ack;
}

/* The socket's image of a client's ack, or of an edge of its SACK blocks. */
static inline num splice_map_ack(const struct splice_conn *c, num ack, splice_rules off)
{
    num mapped = ack - (c->N - c->rep_len), splice = c->rep_start - (c->N - c->rep_len);

    if (!c->outstanding || !before(ack, splice_rep_end(c)) || !follows(off, RULE_OLD_ACK))
        return ack - c->N;
    return after(mapped, splice) && follows(off, RULE_ACK_INSIDE) ? splice : mapped;
}

/* The wire's image of the socket's ack. */
static inline num splice_map_last_ack_sent(const struct splice_conn *c, num ack, splice_rules off)
{
    num wire = ack + c->M - c->req_len;

    if (!c->outstanding)
        return ack + c->M;
    if (before(wire, c->req_start))
        return wire;
    return follows(off, RULE_CLAMP) ? c->req_start : ack + c->M;
}

/*
 * The socket's image of a client's sequence number. When the reply has been acknowledged, a number
 * below the splice comes out too low by req_len: its bytes are old, the socket drops them, and any
 * bytes of the same segment beyond the request are in their place.
 */
static inline num splice_map_seq(const struct splice_conn *c, num seq, splice_rules off)
{
    if (c->outstanding && !after(seq, c->req_start) && follows(off, RULE_OLD_SEQ))
        return seq - (c->M - c->req_len);
    return seq - c->M;
}

/*
 * Records what the socket is about to be handed. If XDP does so (NOTE_XDP) then for bytes: from
 * then on they may get there. It does not for acks: TC may still make a reply of the segment and
 * drop it.
 */
static inline void splice_note(struct splice_conn *c, const struct splice_segment *g,
                               enum splice_stage stage, splice_rules off)
{
    bool acks = stage == SPLICE_TC || !follows(off, RULE_NOTE_ACK_TC);
    num end = splice_map_seq(c, g->seq, off) + g->len, ack = splice_map_ack(c, g->ack, off);

    if (!c->known)
        return;
    if (acks && after(ack, c->kack) && (!before(end, c->kmax) || !follows(off, RULE_NOTE_ACK)))
        c->kack = ack;
    if (g->len && !before(end - g->len, c->kmax) && !follows(off, RULE_FOLLOWED_SENT))
        c->followed = true;
    if (g->len && after(end, c->kmax))
        c->kmax = end;
    if (g->fin && !before(end, c->last_ack_sent))
        c->closing = true;
}

/* The rule by which this whole get is not answered now; NRULES: it may be. */
static inline enum splice_rule splice_refuses(const struct splice_conn *c,
                                              const struct splice_boundary *b,
                                              const struct splice_segment *g, splice_rules off)
{
    num seq = g->seq - c->M, ack = splice_reply_start(c, g) - c->N;

    if (c->busy && follows(off, RULE_BUSY))
        return RULE_BUSY;
    if (splice_runs(c, g) && follows(off, RULE_RUN) &&
        (g->seq != splice_req_end(c) || before(g->ack, c->rep_start)))
        return RULE_RUN;
    if (c->closing && follows(off, RULE_CLOSING))
        return RULE_CLOSING;
    if (!c->followed && follows(off, RULE_FOLLOWED))
        return RULE_FOLLOWED;
    if (seq != c->kmax && follows(off, RULE_KMAX))
        return RULE_KMAX;
    if (seq != b->consumed && follows(off, RULE_CONSUMED))
        return RULE_CONSUMED;
    if (ack != c->ksnd && follows(off, RULE_KSND))
        return RULE_KSND;
    return ack != b->sent && follows(off, RULE_SENT) ? RULE_SENT : NRULES;
}

/*
 * Whether a retransmission answers this segment. A bare ack from before the request was sent (its
 * seq is req_start) asks for nothing, and the socket may wait for it. A keepalive probe has the
 * number before the request's end. `more`: it acknowledges more than any before it: mostly a client
 * that has part of a run; but none ends inside a reply, unless the client has dropped the rest.
 */
static inline bool splice_resends(const struct splice_conn *c, const struct splice_segment *g,
                                  bool more, splice_rules off)
{
    num req_end = splice_req_end(c);

    if (!g->len)
        return after(g->seq, c->req_start) && (num)(g->ack - c->rep_start) < c->rep_len &&
               (!more || after(g->ack, c->last) || !follows(off, RULE_RUN_ACK)) &&
               follows(off, RULE_RESEND_ON_ACK);
    if (!before(g->seq, req_end) || !follows(off, RULE_RESEND))
        return false;
    return !after(g->seq + g->len, req_end) || follows(off, RULE_RESEND_MIXED);
}

/*
 * Whether a segment acknowledges the reply, and the socket's ack of bytes behind the request has
 * been held back until then. The socket acknowledges a segment with data by itself, and so does the
 * reply to a get that is answered.
 */
static inline bool splice_releases(const struct splice_conn *c, const struct splice_segment *g,
                                   splice_rules off)
{
    return c->outstanding && !g->len && !before(g->ack, splice_rep_end(c)) &&
           after(c->last_ack_sent, c->req_start - (c->M - c->req_len)) && follows(off, RULE_HELD);
}

/* The retransmitted replies; their bytes are the model's. */
static inline struct splice_segment splice_reply(const struct splice_conn *c)
{
    return (struct splice_segment){.seq = c->rep_start,
                                   .ack = splice_req_end(c),
                                   .len = c->rep_len,
                                   .kept = true,
                                   .content = c->kept};
}

/*
 * A piece of it, for where the path may be too narrow for all: from what `g` acknowledges on. While
 * there is more to come, the client keeps its timer for the request.
 */
static inline struct splice_segment splice_piece(const struct splice_conn *c,
                                                 const struct splice_segment *g, num most,
                                                 splice_rules off)
{
    struct splice_segment piece = splice_reply(c);
    num from = g->ack - c->rep_start;

    if (from >= c->rep_len)
        from = 0;
    piece.seq += from;
    piece.len -= from;
    piece.piece = true;
    if (piece.len > most) {
        piece.len = most;
        if (follows(off, RULE_PIECE_HELD))
            piece.ack = c->req_start;
    }
    return piece;
}

/*
 * What a stage does with a segment; `get`: it is one whole get. TC alone frees what is acknowledged
 * when it passes a segment: it has looked at the checksum.
 */
static inline enum splice_verdict splice_judge(struct splice_conn *c,
                                               const struct splice_boundary *b,
                                               const struct splice_segment *g, bool get,
                                               enum splice_stage stage, splice_rules off)
{
    num start = c->rep_start;

    if (!c->known)
        return SPLICE_PASS;
    if (c->frozen && follows(off, RULE_FROZEN))
        return stage == SPLICE_XDP ? SPLICE_DEFER : SPLICE_DROP;
    if (stage == SPLICE_TC)
        splice_acknowledge(c, g->ack, off);
    if (c->outstanding && follows(off, stage == SPLICE_XDP ? RULE_RESEND_XDP : RULE_RESEND_TC) &&
        splice_resends(c, g, c->rep_start != start, off))
        return SPLICE_RESEND;
    if (!get || splice_refuses(c, b, g, off) != NRULES)
        return SPLICE_PASS;
    if (stage == SPLICE_XDP && c->kack != (num)(splice_reply_start(c, g) - c->N) &&
        follows(off, RULE_ACK_DUE))
        return SPLICE_DEFER;
    return SPLICE_ANSWER;
}

/*
 * TC answers a segment: whether the socket waits for what that acknowledges, and is handed a bare
 * ack in its place (RULE_ACK_DUE).
 */
static inline bool splice_pays(struct splice_conn *c, const struct splice_segment *g)
{
    num ack = splice_reply_start(c, g) - c->N;
    bool pays = c->kack != ack;

    c->kack = ack;
    return pays;
}

/*
 * The get has been answered with rep_len bytes, which are returned: both streams are longer than
 * the socket knows.
 */
static inline struct splice_segment
splice_commit(struct splice_conn *c, const struct splice_segment *g, num rep_len, splice_rules off)
{
    num start = splice_reply_start(c, g);
    struct splice_segment reply = {.seq = follows(off, RULE_RUN_END) ? start : g->ack,
                                   .ack = g->seq + g->len,
                                   .len = rep_len,
                                   .kept = true};

    splice_acknowledge(c, g->ack, off);
    if (!c->outstanding) {
        c->req_start = c->mark_req = g->seq;
        c->rep_start = c->mark_rep = g->ack;
        c->req_len = c->rep_len = 0;
    } else if (!after(c->mark_rep, c->rep_start)) {
        c->mark_req = g->seq;
        c->mark_rep = start;
    }
    c->last = start;
    c->req_len += g->len;
    c->rep_len += rep_len;
    c->M += g->len;
    c->N += rep_len;
    c->outstanding = true;
    c->busy = false;
    return reply;
}

/*
 * TC egress, when the socket sends data and the connection is not known: learns from the socket.
 * What the client sent before may still be on its way behind TC ingress, or in the socket's
 * backlog: unseen, and not in kmax. A copy of such a segment that is seen says nothing of those
 * behind it. But when the server sends the reply to something that it read after this, the backlog
 * has been emptied, and that segment acknowledges all that was unseen.
 */
static inline void splice_learn(struct splice_conn *c, num rcv_nxt, num snd_una)
{
    c->known = true;
    c->kmax = c->learned = c->last_ack_sent = rcv_nxt;
    c->kack = c->ksnd = snd_una;
}

/* TC egress: gives the socket's segment the wire's numbers; false: it is dropped. */
static inline bool splice_egress(struct splice_conn *c, struct splice_segment *g, splice_rules off)
{
    num seq = g->seq, end = g->seq + g->len, splice = c->rep_start - (c->N - c->rep_len);

    if (c->frozen && follows(off, RULE_FROZEN_OUT))
        return false;
    if (g->len && after(end, c->ksnd) && after(g->ack, c->learned) &&
        follows(off, RULE_FOLLOWED_SENT))
        c->followed = true;
    if (after(end, c->ksnd))
        c->ksnd = end;
    if (after(g->ack, c->kmax) && follows(off, RULE_KMAX_ACK))
        c->kmax = g->ack;
    if (after(g->ack, c->last_ack_sent))
        c->last_ack_sent = g->ack;
    if (g->fin)
        c->closing = true;
    g->seq += c->N;
    g->ack = splice_map_last_ack_sent(c, g->ack, off);
    if (!c->outstanding || !before(seq, splice) || !follows(off, RULE_OLD_EGRESS))
        return true;
    g->seq -= c->rep_len;
    if (!after(end, splice) || !follows(off, RULE_STRADDLE))
        return true;
    g->seq = c->rep_start - 1;
    g->len = g->fin = 0;
    return follows(off, RULE_PROBE);
}

/*
 * The bare ack that TC ingress sends the client for a segment that releases it. The socket does not
 * repeat it by itself, so the client would send again what the socket has.
 */
static inline struct splice_segment splice_release(const struct splice_conn *c)
{
    return (struct splice_segment){.seq = c->ksnd + c->N, .ack = c->last_ack_sent + c->M};
}

#endif
