/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_lab: what the tests of the programs in bpf/tcp share. Segments of one connection, whose entry
 * a test writes itself; a model of the rules, in numbers alone, which says what the programs are to
 * do with a segment; and a comparison of all that they did: the frame byte by byte, the entry, the
 * retransmit buffer, the counts.
 */
#ifndef T_BPF_TCP_LAB_H
#define T_BPF_TCP_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared/tcp.h"
#include "t/bpf/lab.h"

#define SPLICE_NUM uint32_t
#include "t/model/splice.h"

enum {
    TCP_SLOTS = 3 * MC_TCP_RTX_MAX, /* several have the same retransmit buffer */
    TCP_SLOT = 5,                   /* of the connection */
    TCP_GENERATION = 9,
    TCP_REPLY_MAX = 1392, /* bytes of text */
    TCP_OTHER = 7,        /* an interface that frames do not come by */
};

enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16, URG = 32, ECE = 64, CWR = 128, AE = 256 };

struct tcp_lab {
    struct lab lab;
    struct mc_tcp_slot *slots;
    int conns, rtx;                /* maps */
    uint16_t translation_marks[2]; /* as they stand in a header */
    bool alone;                    /* TC has no XDP before it */
    bool keeps_others;             /* an acknowledged reply's place is another connection's */
    splice_rules off;              /* the rules without which the model is asked */
    bool unstamped;                /* connections have no timestamps: tcp_lab_set_unstamped */
    bool quiet;                    /* a difference is not printed */
};

/* The hooks, by the programs that stand there and call those of bpf/tcp. */
enum hook { HOOK_XDP, HOOK_INGRESS, HOOK_EGRESS };

/* Ends the test if the programs cannot be loaded. */
void tcp_lab_open(struct tcp_lab *lab);
void tcp_lab_close(struct tcp_lab *lab);
/*
 * A whole test: runs `test` on XDP and TC, with IPv4 and IPv6, with timestamps and without. Returns
 * what main() does.
 */
int tcp_lab_main(void (*test)(struct tcp_lab *lab, enum hook hook, bool v6));
void tcp_lab_set_alone(struct tcp_lab *lab, bool alone);
/* From now on connections have no timestamps, and are answered. */
void tcp_lab_set_unstamped(struct tcp_lab *lab, bool unstamped);

/* --- segments ------------------------------------------------------------------------------- */

enum sum { SUM_WHOLE, SUM_PARTIAL, SUM_WRONG };

/* Numbers are those on the wire. */
struct segment {
    bool v6, from_server;
    uint32_t seq, ack;
    unsigned int flags, window;
    uint32_t tsval, tsecr;
    const void *options; /* in the place of the timestamps alone; NULL: these */
    size_t noptions;     /* a multiple of 4 */
    const void *text;
    size_t n;
    unsigned int traffic; /* IP's class */
    enum sum sum;
    size_t npadding; /* bytes behind the packet */
};

void segment_frame(struct frame *frame, const struct segment *segment);
/* Writes TCP's checksum, in a frame of IP without options. */
void segment_seal(struct frame *frame, enum sum sum);
void segment_seal_ip(struct frame *frame);
/* TCP's header, and TCP's bytes by IP's length. */
uint8_t *segment_tcp(struct frame *frame);
size_t segment_size(const struct frame *frame);
/* Whether TCP's checksum seems to be partial. */
bool segment_is_partial(const struct frame *frame);
/* Whether TCP's and IP's checksums are valid. */
bool segment_is_sound(const struct frame *frame);

/* --- the connection ------------------------------------------------------------------------- */

/*
 * A connection whose client has sent `in`, and received `out`, bytes that the socket never saw; the
 * server has answered all before. What the tests change they write with conn_put.
 */
void conn_init(struct tcp_lab *lab, struct mc_tcp_conn *conn, uint32_t in, uint32_t out);
/* The same of a stream with so many bytes so far, whose first byte has this number. */
void conn_init_at(struct tcp_lab *lab, struct mc_tcp_conn *conn, uint32_t in, uint32_t out,
                  uint32_t base, uint32_t far);
/*
 * Where an option of this kind begins in n bytes of options, and its length; NULL: there is none,
 * or one before it is broken.
 */
const uint8_t *find_option(const uint8_t *options, size_t n, uint8_t kind, size_t *length);
/* Where its timestamps are in n bytes of options, of which a socket's are first; NULL: nowhere. */
const uint8_t *find_stamps(const uint8_t *options, size_t n, bool from_server);
/* The connection's flow, and the key of its entry. */
uint64_t conn_flow(struct tcp_lab *lab, bool v6, struct mc_tcp_flow *flow);
/* Entries that tests have and compare are without the flow. */
void conn_put(struct tcp_lab *lab, bool v6, const struct mc_tcp_conn *conn);
/* The same with another flow, and counted by the sieve, as of one that a program makes. */
void entry_put(struct tcp_lab *lab, const struct mc_tcp_conn *whole);
bool conn_get(struct tcp_lab *lab, bool v6, struct mc_tcp_conn *conn);
bool conn_is_frozen(const struct mc_tcp_conn *conn);
void conn_delete(struct tcp_lab *lab, bool v6);
/* What the server publishes once it has done all that the socket was given. */
void conn_settle(struct tcp_lab *lab, const struct mc_tcp_conn *conn);
/* The client's next segment, with a text of the protocol that it speaks; and the server's. */
void segment_in(struct tcp_lab *lab, struct segment *segment, const struct mc_tcp_conn *conn,
                const void *text, size_t n);
void segment_out(struct segment *segment, const struct mc_tcp_conn *conn, const void *text,
                 size_t n);

/* The place that the programs try at this attempt for a reply of a slot's connection. */
uint32_t rtx_place(struct tcp_lab *lab, bool v6, uint32_t slot, uint32_t try);
void rtx_get(struct tcp_lab *lab, uint32_t at, struct mc_tcp_rtx *rtx);
void rtx_put(struct tcp_lab *lab, uint32_t at, const struct mc_tcp_rtx *rtx);
/* What the programs write as the owner of a reply's text. */
uint64_t rtx_owner(uint32_t reply, uint32_t slot, uint32_t generation);

/* --- what is to happen ---------------------------------------------------------------------- */

enum { NOT_COUNTED = MC_TCP_COUNTS };

enum act {
    ACT_ANSWER,
    ACT_ANSWER_PAID, /* and the socket is told of the acknowledgement (TC) */
    ACT_RESEND,
    ACT_PASS,    /* XDP: untouched; TC: translated */
    ACT_RELEASE, /* TC: translated, and the client is sent what was held back */
    ACT_PROBE,   /* in its place a probe leaves */
    ACT_DROP,
    ACT_REFUSE, /* the client is sent a RST (TC) */
    ACTS,
};

struct outcome {
    enum act act;
    uint32_t reason; /* to pass: MC_TCP_PASS_*, or NOT_COUNTED */
    const void *reply;
    size_t nreply;
    uint32_t from; /* where in it a piece of nreply bytes begins */
    uint32_t at;   /* where in what is outstanding the reply begins */
    bool more;     /* which is not its last */
    bool left;     /* by XDP to TC, before it was looked for a reason */
};

/* What a request's text is to the programs, which only the test can know. */
struct request {
    const void *text;
    size_t n;
    const void *reply; /* NULL: it is passed, and */
    size_t nreply;
    uint32_t reason; /* counted so */
    unsigned int hits, misses;
    unsigned int more; /* requests in the text besides the first */
};

/* What is odd in a frame, besides what struct segment says. */
enum {
    ODD_FOREIGN = 1,  /* it is none of a followed connection */
    ODD_LENGTHS = 2,  /* the lengths do not agree */
    ODD_FRAGMENT = 4, /* the first of several */
    ODD_OPTIONS = 8,  /* of IP */
    ODD_WAY = 16,     /* it came from elsewhere than the server's segments go to */
    ODD_MARK = 32,    /* the programs have made it themselves */
    ODD_DONE = 64,    /* they have marked it as translated, on another interface */
};

/*
 * Runs `frame`, which is `segment`'s, and compares all with the rules; what differs is printed.
 * odd: ODD_*.
 */
bool tcp_check(struct tcp_lab *lab, enum hook hook, const struct segment *segment,
               const struct frame *frame, const struct request *request, unsigned int odd,
               struct outcome *found);
/* The same, and whether the rules say `want`, for this reason (0: any). */
bool tcp_frame_does(struct tcp_lab *lab, enum hook hook, const struct segment *segment,
                    const struct frame *frame, const struct request *request, unsigned int odd,
                    enum act want, uint32_t reason);
/* The same of a segment as it is. */
bool tcp_does(struct tcp_lab *lab, enum hook hook, const struct segment *segment,
              const struct request *request, enum act want, uint32_t reason);
/* The reply to a segment, with a whole checksum; `after`: the entry behind it. */
void reply_frame(struct frame *want, const struct segment *segment, const struct outcome *outcome,
                 const struct mc_tcp_conn *after);
/* Translates timestamps, where they are the first option, and marks what arrives. */
void segment_mark(const struct tcp_lab *lab, uint8_t *tcp, const struct mc_tcp_conn *conn,
                  bool ingress);
/* Makes a segment's frame what TC makes of it: numbers, timestamps, mark, checksum. */
void segment_translate(const struct tcp_lab *lab, struct frame *frame,
                       const struct segment *segment, const struct mc_tcp_conn *conn);
/* The packet without data that TC puts in the place of a segment's, with these numbers. */
void bare_frame(const struct tcp_lab *lab, struct frame *want, const struct frame *in,
                const struct segment *segment, uint32_t seq, uint32_t ack,
                const struct mc_tcp_conn *conn);

/*
 * A case of a table: how the entry that a test has made, and its next segment, are changed, and
 * what is done then. The reply and its counts are the request's.
 */
struct tcp_case {
    const char *description;
    struct {
        uint32_t rcv_nxt, snd_nxt, client_ts;    /* added, as all that wraps */
        uint32_t generation;                     /* of the slot, added */
        uint64_t boundary;                       /* likewise */
        bool unpublished;                        /* there is none */
        uint32_t mss, snd_wscale, ifindex, vlan; /* in the place of what is there, unless 0 */
        uint64_t mac;                            /* these bits are another's, */
        uint8_t flags;                           /* and these reversed */
    } state;
    struct {
        uint32_t seq, ack, tsval, window; /* added */
        unsigned int flags;               /* in the place of PSH | ACK, unless 0; FLAGS_NONE */
        unsigned int traffic;
        const void *options;
        size_t noptions, npadding;
        enum sum sum;
        size_t skipped; /* of the text, at its beginning */
        bool bare;      /* it has no text */
    } packet;
    const struct request *request;
    enum act verdict;
    uint32_t reason; /* to pass, unless 0 */
};
enum { FLAGS_NONE = 1 << 16 };
#define PASSES(why) .verdict = ACT_PASS, .reason = MC_TCP_PASS_##why

/* Changes both, and puts the entry. */
void case_apply(struct tcp_lab *lab, const struct tcp_case *row, struct mc_tcp_conn *conn,
                struct segment *segment);
static inline uint32_t case_reason(const struct tcp_case *row)
{
    return row->reason ? row->reason : (uint32_t)NOT_COUNTED;
}

/* Runs a program on a frame. mark: the packet's, before and after. */
struct tcp_run {
    uint32_t verdict;
    uint32_t mark;
    uint32_t gso;  /* bytes of each segment of a merged one; 0: it is none */
    bool complete; /* a sum of all bytes is kept beside the packet, and looked at afterwards */
    struct frame out;
};
/* 0 or -errno. */
int tcp_run(struct tcp_lab *lab, enum hook hook, const struct frame *in, struct tcp_run *run);

enum { XDP_IS_PASS = 2, XDP_IS_TX = 3, TC_IS_DROP = 2, TC_IS_REDIRECT = 7 };
#define TC_IS_NEXT UINT32_MAX

#endif
