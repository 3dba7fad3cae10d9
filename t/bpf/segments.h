/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segments: what the tests of the chain's connections share. The chain's programs, loaded by
 * themselves; connections whose segments are run through them by BPF_PROG_TEST_RUN; and the states
 * of the gates afterwards.
 */
#ifndef T_BPF_SEGMENTS_H
#define T_BPF_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared/chain.h"
#include "bpf/shared/layout.h"
#include "t/bpf/dialogue.h"

enum {
    WATCH_PORT = 11311,
    WATCH_ENTRIES = 1 << 12,
    WATCH_FRAME_MAX = 65536 + 256,
};

struct chain;

/* The chain, and its memory. */
struct watch {
    struct chain *skel;
    struct chain_bucket *buckets;
    struct chain_gate *all;
    uint64_t settle;
    uint64_t counts[32]; /* at the last watch_mark */
};

/* Ends the test if the chain cannot be loaded. settle in nanoseconds. */
void watch_open(struct watch *watch, uint64_t settle);
void watch_close(struct watch *watch);

/* The gate of a key. */
struct chain_gate *watch_gate(struct watch *watch, const char *key);
/* Opens all gates, forgets all requests over UDP, and resets the counts. */
void watch_mark(struct watch *watch);
void watch_mark_gates(struct watch *watch); /* only opens all gates */
/* Makes what is known of requests over UDP older. */
void watch_age(struct watch *watch, uint64_t ns);
/* A count since watch_mark. */
uint64_t watch_count(struct watch *watch, enum chain_count count);
uint64_t watch_now(void);

/* What has happened to a gate since watch_mark. */
enum gate_is {
    GATE_UNTOUCHED,
    GATE_ENTERED, /* a write is in flight */
    GATE_LEFT,    /* it was closed once, and is open again */
    GATE_TIMED,   /* it is closed until a time in the future */
};
enum gate_is gate_is(const struct chain_gate *gate);
const char *gate_name(enum gate_is is);

/* The form of frames. */
struct form {
    bool v6;
    unsigned int ntags;
    unsigned int ip_options;  /* bytes, of IPv4; of IPv6 an extension header of 8 bytes and so on */
    unsigned int tcp_options; /* bytes */
};

enum { FIN = 1, SYN = 2, RST = 4, ACK = 16, URG = 32 };

/* A connection: the numbers of each side's next segment. */
struct talk {
    struct watch *watch;
    struct form form;
    uint16_t port;
    uint32_t in, out; /* sequence numbers */
};

/* Sends a segment of the client's, and of the server's. False: the program does not pass it
 * unchanged. */
bool talk_in(struct talk *talk, uint32_t seq, uint32_t ack, unsigned int flags, const void *data,
             size_t n);
bool talk_out(struct talk *talk, uint32_t seq, uint32_t ack, unsigned int flags, const void *data,
              size_t n);
/* Three segments. */
void talk_open(struct talk *talk, struct watch *watch, const struct form *form);
/* The next bytes of the client, and of the server, and the server's acknowledgement. */
bool talk_say(struct talk *talk, const void *data, size_t n);
bool talk_answer(struct talk *talk, const void *data, size_t n);
bool talk_ack(struct talk *talk);
#define SAY(talk, text)    talk_say(talk, text, sizeof(text) - 1)
#define ANSWER(talk, text) talk_answer(talk, text, sizeof(text) - 1)

/* Sends the next bytes; returns the nanoseconds that the programs take. */
uint32_t talk_time(struct talk *talk, const void *data, size_t n);

/* The headers of a datagram to the server, or of one that leaves; all in host order. */
struct datagram {
    struct form form;
    uint16_t port; /* the client's */
    uint16_t id;
    uint16_t sequence;
    uint16_t total;
};
bool watch_datagram(struct watch *watch, const struct datagram *datagram, const void *data,
                    size_t n);
bool watch_reply(struct watch *watch, const struct datagram *datagram, const void *data, size_t n);
/* Runs any frame; true: it is passed unchanged. */
bool watch_frame(struct watch *watch, const void *frame, size_t n);

/*
 * Dialogues (dialogue.h), with these steps:
 *
 *     {"a write closes its key's gate", "open; > delete a\r\n; gate a entered; table untouched"},
 *     {"until its reply has left", "< DELETED\r\n; gate a left; ended 1"},
 *
 *     open            a new connection, which the chain follows; then mark
 *     old             one that is older than the chain; then mark
 *     mark            watch_mark
 *     gates           watch_mark_gates
 *     > TEXT          the client's next bytes; < TEXT: the server's
 *     >N TEXT         a segment of the client's N bytes from there, which may repeat others; <N
 *     >fin TEXT       with this flag, or >urg, >rst, >syn; <fin; <syn N acknowledges N more
 *     >ahead TEXT     acknowledges a byte that the server did not send
 *     move N          the next bytes of the client are N further; <move N
 *     ack             the server acknowledges all
 *     rounds N A|B    N times: the client's A, the server's B
 *     settle          time passes until the chain expects no reply to what was said before
 *     ask ID TEXT     a datagram of the client's with this id; reply ID TEXT
 *     age N           watch_age by N seconds more than the time that a write has for its reply
 *     gate KEY STATE  untouched, entered, left, timed, or closed: for that time from the last ask
 *                     on; table STATE; !STATE: any other
 *     found           the chain follows the connection from the next command on; !found
 *     lost N          so often since mark; also retransmitted, unfollowed, seen, ended...
 */
void watch_talk(struct watch *watch, const struct dialogue *rows, size_t n);
#define WATCH_TALK(watch, rows) watch_talk(watch, rows, COUNT(rows))

#endif
