/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp: what the server and the kernel programs share of TCP connections whose gets the kernel
 * answers (doc/kernel-path/tcp.md).
 *
 * The server gives a connection that gains by it a slot, and tells the kernel which, by a struct
 * mc_tcp_tag: it makes an entry that waits, under the socket's cookie, until the next reply leaves.
 * In the slot it publishes how far it is. The kernel programs answer a get only where the server
 * has consumed all that came before it, and the client has received all that the server sent.
 *
 * Order. The server stores `boundary` when the effects of the commands before it can be seen by all
 * threads, and before the system call that sends their last reply: no client can acknowledge bytes
 * before they are sent, so a boundary that the client's acknowledgement confirms is never too
 * early. While the server executes a command, has input that it has not consumed, or output that it
 * has not handed to the socket, the published boundary is an older one, which no acknowledgement
 * matches, or MC_TCP_NONE.
 */
#ifndef MC_TCP_H
#define MC_TCP_H

#include <linux/bpf.h>
#include <linux/types.h>

#include "bpf/shared/layout.h"

/* No boundary: the kernel answers nothing on the connection. Not a boundary that can be reached. */
#define MC_TCP_NONE (~0ull)

/*
 *  0 boundary       bytes consumed in the low half, bytes sent in the high half, both since the
 *                   connection was accepted, modulo 2^32. Written by the server
 *  8 generation     of the slot: another for each connection that has it. Written by the server
 *                   before the first boundary of the connection
 * 12 answered       requests that the kernel answered on this connection. Written by the kernel,
 *                   set to 0 by the server with a new generation
 * 16 lost           since when the socket gets segments that were not translated, or, with
 *                   MC_TCP_LOST_GUARDED, the guard drops what it sends; 0: neither
 * 20 ack_due        since when the socket owes the client a segment that the programs on egress
 *                   have not seen; 0: it owes none. Both times written as `answered` is
 * 24 last_ack_seen  what the client acknowledged (wire) with the last segment that shows `lost`
 * 28 binary         not 0: the connection speaks the binary protocol, else text. Written by the
 *                   server before the first boundary of the connection
 * 30 outstanding    not 0: the client has not acknowledged the kernel's last reply; as `answered`
 *                   is
 */
struct mc_tcp_slot {
    __u64 boundary;
    __u32 generation;
    __u32 answered;
    __u32 lost;
    __u32 ack_due;
    __u32 last_ack_seen;
    __u16 binary;
    __u16 outstanding;
};

/* The times in a slot: of the kernel's coarse clock, nanoseconds without the lowest bits. */
enum {
    MC_TCP_TIME_SHIFT = 20,
    MC_TCP_LOST_GUARDED = 1,    /* bit 0 of `lost` */
    MC_TCP_ACK_DUE_DATA = 1,    /* bit 0 of `ack_due`: it was given data, which it acknowledges */
    MC_TCP_ACK_DUE_WATCHED = 1, /* all of `ack_due`, and no time that programs write: by the server,
                                which is to learn whether they see a segment */
};

static inline __u64 mc_tcp_boundary(__u32 consumed, __u32 sent)
{
    return consumed | (__u64)sent << 32;
}

/* Which slot a socket's connection has. */
struct mc_tcp_tag {
    __u32 slot;
    __u32 generation;
};

/* --- entries of connections ------------------------------------------------------------------ */

/*
 * What identifies a connection: addresses (IPv4 as ::ffff:a.b.c.d) and ports, network order. That
 * of an entry that waits is its socket's cookie, and zeros: no connection has the port 0.
 */
struct mc_tcp_flow {
    __u64 client[2];
    __u64 server[2];
    __u16 client_port;
    __u16 server_port;
    __u32 unused;
};

enum { MC_TCP_SEEDS = 5, MC_TCP_SIEVE = 1 << 13 /* places, a power of two */ };

/*
 * The place at which the programs count a followed connection, by the last four bytes of its
 * client's address, and its port. Who chooses them can make others' segments cost what they would
 * without the sieve.
 */
static inline __u32 mc_tcp_sieve_at(__u32 client, __u16 port)
{
    return (client ^ (__u32)port << 16 ^ port) * 0x9e3779b1u >> 19;
}
_Static_assert(MC_TCP_SIEVE == 1 << (32 - 19), "the bits of a place");

/*
 * The key of a flow's entry. The kernel's map takes much longer to hash and to compare all of a
 * flow. Of two flows with one key, which an attacker can choose only with the seeds, the second
 * gets no entry: a program that finds an entry compares the flow.
 */
static inline __u64 mc_tcp_key(const struct mc_tcp_flow *flow, const volatile __u64 *seeds)
{
    return mc_hash_word(flow->client[0], seeds[0]) + mc_hash_word(flow->client[1], seeds[1]) +
           mc_hash_word(flow->server[0], seeds[2]) + mc_hash_word(flow->server[1], seeds[3]) +
           mc_hash_word(flow->client_port | (__u64)flow->server_port << 32, seeds[4]);
}

/* Both ports, in one load. */
static inline __u32 mc_tcp_ports(const struct mc_tcp_flow *flow)
{
    __u32 ports;

    __builtin_memcpy(&ports, &flow->client_port, sizeof(ports));
    return ports;
}

static inline int mc_tcp_is_flow(const struct mc_tcp_flow *a, const struct mc_tcp_flow *b)
{
    return !((a->client[0] ^ b->client[0]) | (a->client[1] ^ b->client[1]) |
             (a->server[0] ^ b->server[0]) | (a->server[1] ^ b->server[1]) |
             (mc_tcp_ports(a) ^ mc_tcp_ports(b)));
}

enum {
    MC_TCP_FOLLOWED = 1 << 0,  /* rcv_nxt is known: see conn_egress in bpf/tcp/egress.bpf.h */
    MC_TCP_CLOSING = 1 << 1,   /* a FIN, a RST or a fragment has passed: no more is answered */
    MC_TCP_MSS_OLD = 1 << 2,   /* egress asks the socket for `mss` with its next data */
    MC_TCP_MARK_B = 1 << 3,    /* which translation mark is the socket's; never changes */
    MC_TCP_UNSTAMPED = 1 << 4, /* its segments have no timestamps; never changes */
};

/*
 * An entry's lock. It is FREE only from when all of the entry is there to when it is removed: the
 * program that makes an entry puts it into the table TAKEN, the one that removes it has made it
 * VOID, and so the memory stays until it is another entry. One that waits is VOID from first to
 * last.
 */
enum {
    MC_TCP_FREE,
    MC_TCP_TAKEN,  /* a CPU has it */
    MC_TCP_VOID,   /* no CPU gets it */
    MC_TCP_FROZEN, /* nor of this one, which the server may thaw: see struct mc_tcp_order */
};

/*
 * How numbers are translated: what the socket did not see, and the outstanding replies, which
 * follow each other, as do their requests: where these and those begin (wire), and their bytes.
 * nreply: 0: there is none, and the last ended where `reply` is. What the client has acknowledged
 * of the replies is none of them; the requests may begin with some whose replies are acknowledged.
 */
struct mc_tcp_delta {
    __u32 rx, tx;
    __u32 request, nrequest;
    __u32 reply, nreply;
};

/*
 * What the programs know of a connection (bpf/tcp/conn.bpf.h). The server makes and removes those
 * that wait, of which nothing is set but lock, flow, slot and generation; others it has a program
 * remove (struct mc_tcp_order). The kernel adds the key and 56 bytes, and takes an object of 256:
 * one of 192 would hold 128 bytes of these.
 *
 * retransmits             how often the outstanding replies were sent again, as far as
 *                         MC_TCP_RETRANSMITS
 * last                    where the last outstanding reply begins (wire)
 * mark_request, _reply    where one outstanding request behind the first begins, and its reply
 *                         (wire); there is none if mark_reply is not behind delta.reply
 * again                   where the outstanding replies ended when they were last sent again
 * irs, iss                the sequence numbers of the client's and of the server's first byte: the
 *                         initial ones plus 1
 * rcv_nxt                 end of the client's bytes that the socket was or will be given
 * snd_una                 the highest acknowledgement that it was or will be given
 * snd_nxt                 end of the bytes that it has sent
 * last_ack_sent           the highest acknowledgement that it has sent, before it was held back
 * born                    what it had received when the entry was made; never changes
 * tsval, window           of the last segment that it sent, as on the wire, network order
 * snd_wscale, rcv_wscale  by which the client's window is scaled, and the socket's; never change
 * client_ts               the client's highest TSval in what the socket has taken, which it echoes,
 *                         and in what was answered
 * mss                     bytes of a segment's text, by the socket, or since pieces were sent
 * slot, generation        of struct mc_tcp_tag; never change
 * ifindex, vlan, mac      by which interface, with which tag (0: none), and to which MAC address,
 *                         the server's segments leave; as of struct mc_local. XDP answers none with
 *                         a tag
 * rtx                     where in the pool the outstanding replies' text is
 * flow                    whose entry it is; never changes
 * cookie                  of the connection's socket; never changes. 0: any may send for it, for
 *                         tests
 */
struct mc_tcp_conn {
    __u32 lock; /* MC_TCP_FREE, ... */
    __u8 flags;
    __u8 retransmits;
    __u8 snd_wscale, rcv_wscale;
    struct mc_tcp_delta delta;
    __u32 last, mark_request, mark_reply, again;
    __u32 irs, iss;
    __u32 rcv_nxt, snd_una, snd_nxt, last_ack_sent, born;
    __u32 tsval, client_ts;
    __u16 window;
    __u16 mss;
    __u32 slot, generation;
    __u32 ifindex;
    __u16 vlan;
    __u16 rtx;
    __u64 mac;
    struct mc_tcp_flow flow;
    __u64 cookie;
};
_Static_assert(sizeof(struct mc_tcp_conn) == 160, "as doc/kernel-path/tcp.md says");

/*
 * What the server has done to an entry: what it gives the program mc_tcp_order as a packet. link:
 * zeros, where Linux looks for an Ethernet header.
 *
 * While an entry is frozen no program changes it, and all drop the segments of its flow but those
 * that another socket than its own sends: so the server can read it, and the place of its
 * outstanding replies in mc_tcp_rtx, and put another socket in the place of its own.
 */
struct mc_tcp_order {
    __u64 link[2];
    struct mc_tcp_flow flow;
    struct mc_tcp_tag tag;
    __u32 what;
    __u32 unused;
};

enum {
    MC_TCP_REMOVE,
    MC_TCP_RELEASE, /* removes it unless something was answered on the connection */
    MC_TCP_FREEZE,
    MC_TCP_THAW,
};

/*
 * The number of no interface, to which the server binds a socket before it puts another one in its
 * place: what the socket has sent, and the stack still holds, has numbers that nothing translates.
 */
enum { MC_TCP_ASIDE = 0x7fffffff };

/* --- counts ----------------------------------------------------------------------------------- */

/* What the programs count; a row for each CPU. */
enum mc_tcp_count { MC_TCP_COUNTERS(COUNTER_CONSTANT) MC_TCP_COUNTS };

struct mc_tcp_counts {
    __u64 count[32];
};
_Static_assert((int)MC_TCP_COUNTS <= 32, "the programs mask a counter's place");

enum {
    MC_TCP_CONNECTIONS_MAX = 1 << 17, /* that are followed; an entry is allocated when it is used */
    MC_TCP_WAYS_MAX = 1 << 10,        /* interfaces what leaves by which is translated */
    MC_TCP_RTX_MAX = 1 << 12,         /* connections with outstanding replies, a power of two */
    MC_TCP_RTX_BYTES = 1408,          /* of those of one */
    MC_TCP_RETRANSMITS = 2,           /* times a reply is sent again whole; then in pieces */
    MC_TCP_PIECE = 500, /* bytes: 552 of an IPv4 packet, the least path MTU that Linux believes */
    MC_TCP_AHEAD = 1 << 30, /* of the socket's clock is that of the wire (bpf/tcp/conn.bpf.h) */
};

/*
 * The places in mc_tcp_rtx that a reply's text may have, which are tried in turn. Half of the pool
 * is for all clients, by the connection's slot: so many connections have each a place of their own.
 * Of the other half a client's address (IPv6: its /64) has only a part of each quarter, which a
 * secret chooses: so a client that fills the first half, and never acknowledges, leaves others
 * theirs. A connection needs two places at times: a get's reply is kept, behind those that are
 * outstanding, before their place is free.
 */
enum {
    MC_TCP_RTX_TRIES = 10,       /* places: two in each of five parts, */
    MC_TCP_RTX_COMMON_TRIES = 2, /* of which one is the half for all clients */
    MC_TCP_RTX_COMMON = MC_TCP_RTX_MAX / 2,
    MC_TCP_RTX_PART = 64,
    MC_TCP_RTX_PARTS = 8, /* of a quarter */
};
_Static_assert(4 * MC_TCP_RTX_PARTS * MC_TCP_RTX_PART == MC_TCP_RTX_COMMON, "the other half");

static inline __u32 mc_tcp_rtx_place(const struct mc_tcp_flow *flow, const volatile __u64 *seeds,
                                     __u32 slot, __u32 i)
{
    __u64 source = flow->client[0] ? flow->client[0] : flow->client[1];

    if (i < MC_TCP_RTX_COMMON_TRIES)
        return (slot + i * (MC_TCP_RTX_COMMON / 2 + 1)) % MC_TCP_RTX_COMMON;
    i -= MC_TCP_RTX_COMMON_TRIES;
    slot += i / 4 * (MC_TCP_RTX_PART / 2);
    i %= 4;
    source = mc_hash_word(source, seeds[0]) >> (48 + 3 * i) & (MC_TCP_RTX_PARTS - 1);
    return MC_TCP_RTX_COMMON + (i * MC_TCP_RTX_PARTS + (__u32)source) * MC_TCP_RTX_PART +
           slot % MC_TCP_RTX_PART;
}

/* A retransmit buffer: a place of mc_tcp_rtx (bpf/tcp/rtx.bpf.h). */
struct mc_tcp_rtx {
    __u64 owner; /* 0: free */
    __u32 n;
    __u32 start; /* the number of its first byte (wire), which may be acknowledged by now */
    char text[MC_TCP_RTX_BYTES + 48]; /* is written in blocks */
};

enum { MC_TCP_RTX_SLOT_BITS = 18 };
_Static_assert(MC_TCP_CONNECTIONS_MAX < 1 << MC_TCP_RTX_SLOT_BITS, "every slot has a number");

/* Its owner: where the last reply in it begins (wire), generation, slot; never 0. */
static inline __u64 mc_tcp_rtx_owner(__u32 last, __u32 slot, __u32 generation)
{
    return (__u64)last << 32 | generation << MC_TCP_RTX_SLOT_BITS | (slot + 1);
}

#endif
