/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_model: segments and connections as the model of t/model/splice.h has them, and what of a
 * segment it does not have.
 */
#ifndef T_BPF_TCP_MODEL_H
#define T_BPF_TCP_MODEL_H

#include <string.h>

#include "t/bpf/tcp_lab.h"
#include "t/bpf/wire.h"

enum { ODD_TO_TCP = ODD_LENGTHS | ODD_FRAGMENT };

/* --- a segment ------------------------------------------------------------------------------ */

/* How far one number is behind another in a stream: below 0, before it. */
static inline int64_t beyond(uint32_t number, uint32_t from)
{
    return (int32_t)(number - from);
}

static inline bool is_stamped_with(const struct segment *segment, uint32_t *tsval, uint32_t *tsecr)
{
    const uint8_t *stamps;

    *tsval = segment->tsval;
    *tsecr = segment->tsecr;
    if (!segment->options)
        return true;
    stamps = find_stamps(segment->options, segment->noptions, segment->from_server);
    if (!stamps)
        return false;
    *tsval = get32(stamps);
    *tsecr = get32(stamps + 4);
    return true;
}

static inline bool is_stamped(const struct segment *segment, uint32_t *tsval)
{
    uint32_t tsecr;

    return is_stamped_with(segment, tsval, &tsecr);
}

/* Whether timestamps are its only option, and all else is padding. */
static inline bool has_stamps_alone(const struct segment *segment)
{
    const uint8_t *options = segment->options, *stamps;
    size_t at;

    if (!options)
        return true;
    stamps = find_stamps(options, segment->noptions, segment->from_server);
    if (!stamps || segment->noptions != 12)
        return false;
    for (at = 0; options + at + 2 < stamps; at++)
        if (options[at] != 1)
            return false;
    for (at = (size_t)(stamps - options) + 8; at < 12 && options[at] == 1; at++)
        continue;
    return at == 12 || options[at] == 0;
}

static inline bool is_unstamped(const struct mc_tcp_conn *conn)
{
    return conn->flags & MC_TCP_UNSTAMPED;
}

static inline bool is_plain(const struct segment *segment, unsigned int odd,
                            const struct mc_tcp_conn *conn)
{
    return (is_unstamped(conn) ? segment->options && !segment->noptions
                               : has_stamps_alone(segment)) &&
           (segment->flags | PSH) == (PSH | ACK) && (segment->traffic & 3) != 3 &&
           !(odd & (ODD_TO_TCP | ODD_OPTIONS));
}

/* Whether a text begins as a request that is read here does. */
static inline bool is_read(const struct request *request, bool binary)
{
    const uint8_t *text = request->text;

    if (binary != (text[0] == 0x80))
        return false;
    if (binary)
        return text[1] == 0 || text[1] == 9 || text[1] == 12 || text[1] == 13;
    return !memcmp(text, "get ", 4) || !memcmp(text, "gets", 4) || !memcmp(text, "mg ", 3);
}

static inline uint32_t data_of(const struct segment *segment, unsigned int odd)
{
    return odd & ODD_LENGTHS ? 0 : (uint32_t)segment->n;
}

static inline uint64_t window_of(const struct mc_tcp_conn *conn, const struct segment *segment)
{
    return (uint64_t)segment->window << conn->snd_wscale;
}

/* --- the model ------------------------------------------------------------------------------ */

static inline struct splice_conn model_conn(const struct mc_tcp_conn *conn)
{
    return (struct splice_conn){
        .M = conn->delta.rx,
        .N = conn->delta.tx,
        .kmax = conn->rcv_nxt,
        .kack = conn->snd_una,
        .ksnd = conn->snd_nxt,
        .known = true,
        .followed = conn->flags & MC_TCP_FOLLOWED,
        .learned = conn->born,
        .outstanding = conn->delta.nreply,
        .closing = conn->flags & MC_TCP_CLOSING,
        .frozen = conn_is_frozen(conn),
        .req_start = conn->delta.request,
        .req_len = conn->delta.nrequest,
        .rep_start = conn->delta.reply,
        .rep_len = conn->delta.nreply,
        .mark_req = conn->mark_request,
        .mark_rep = conn->mark_reply,
        .last = conn->last,
        .last_ack_sent = conn->last_ack_sent,
    };
}

static inline void conn_become(struct mc_tcp_conn *conn, const struct splice_conn *c)
{
    conn->delta = (struct mc_tcp_delta){c->M,       c->N,         c->req_start,
                                        c->req_len, c->rep_start, c->outstanding ? c->rep_len : 0};
    conn->delta.reply += c->outstanding ? 0 : c->rep_len; /* then it is where the last one ended */
    conn->mark_request = c->mark_req;
    conn->mark_reply = c->mark_rep;
    conn->last = c->last;
    conn->rcv_nxt = c->kmax;
    conn->snd_una = c->kack;
    conn->snd_nxt = c->ksnd;
    conn->last_ack_sent = c->last_ack_sent;
    conn->flags &= MC_TCP_MSS_OLD | MC_TCP_MARK_B | MC_TCP_UNSTAMPED;
    conn->flags |= (c->followed ? MC_TCP_FOLLOWED : 0) | (c->closing ? MC_TCP_CLOSING : 0);
}

static inline struct splice_segment model_segment(const struct segment *segment, unsigned int odd,
                                                  const struct mc_tcp_conn *conn)
{
    bool fin = segment->flags & FIN, says = segment->flags & ACK || !segment->from_server;

    return (struct splice_segment){.seq = segment->seq,
                                   .ack = says ? segment->ack : conn->born,
                                   .len = data_of(segment, odd) + fin,
                                   .fin = fin};
}

static inline struct splice_boundary model_boundary(const struct tcp_lab *lab,
                                                    const struct mc_tcp_conn *conn)
{
    uint64_t boundary = lab->slots[conn->slot].boundary;

    return (struct splice_boundary){conn->irs + (uint32_t)boundary,
                                    conn->iss + (uint32_t)(boundary >> 32)};
}

#endif
