/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model: a client and a server that speak TCP over a network that loses, repeats and reorders, with
 * the splice in front of the server's socket. A state is everything that there is; model_steps
 * tells each step that can follow. explore.c follows them all.
 */
#ifndef T_MODEL_MODEL_H
#define T_MODEL_MODEL_H

#include "splice.h"

enum {
    MODEL_NET = 3,   /* segments that the network holds in each direction */
    MODEL_QUEUE = 2, /* those between XDP, TC and the socket, in each direction */
    MODEL_MSS = 6,
    MODEL_COMMANDS = 6,
};

/* What can happen beyond the ordinary. Each time that it does costs one of the faults. */
enum model_flag {
    MODEL_LOSS = 1, /* of a segment, in the network or in a queue of the server's */
    MODEL_REPEAT = 2,
    MODEL_REORDER = 4,
    MODEL_TIMERS = 8,     /* TCP sends again: without cost if nothing else goes on */
    MODEL_SPLIT = 16,     /* segments with any bytes, not one request or all */
    MODEL_ACKS = 32,      /* window updates, keepalive probes */
    MODEL_REFUSE = 64,    /* a get that could be answered is passed, or finds no room in XDP */
    MODEL_CPUS = 128,     /* another CPU goes on between the check and the answer */
    MODEL_SIZES = 256,    /* a lookup finds a value of another size */
    MODEL_DROPS = 512,    /* the client takes a reply's ack but none or one of its bytes */
    MODEL_CLOSE = 1024,   /* the server closes an idle connection */
    MODEL_WAITS = 2048,   /* others go on while one is between two of the server's stages */
    MODEL_NO_XDP = 4096,  /* TC ingress alone */
    MODEL_RESENDS = 8192, /* a timer in user space retransmits the reply; no fault */
    MODEL_LATE = 16384,   /* the connection is known when the server first sends; no fault */
    MODEL_GRO = 32768,    /* segments that wait for TC become one; no fault */
    MODEL_PIECES = 65536, /* replies are sent again byte by byte; no fault */
    MODEL_UNDO = 131072,  /* the server puts another socket in the place of its own */
};

struct model_command {
    uint8_t len, reply; /* bytes of the request, of the server's reply */
    bool get, fin;
};

struct model {
    struct model_command commands[MODEL_COMMANDS];
    unsigned ncommands;
    unsigned flags;
    splice_rules off;
};

struct model_queue {
    uint8_t n;
    struct splice_segment segments[MODEL_NET];
};

struct model_state {
    struct {
        num nxt, una, rcv;
        uint8_t command, at, len; /* the reply that it receives; len 0: none yet */
        bool kept;                /* that is one of ours */
        bool owed;                /* an ack */
        bool closed;              /* the server's FIN has come */
    } client;
    struct {
        num rcv, read;               /* received; consumed by the program */
        num written, sock, nxt, una; /* replies made, in the socket, sent, acknowledged */
        struct splice_boundary boundary;
        bool owed;
        bool published; /* the boundary of what the server sends now */
        bool closed;
    } server;
    struct splice_conn conn;
    struct splice_segment busy; /* the get between check and answer, on another CPU */
    struct {
        uint8_t stage;     /* enum model_undo */
        num rcv, una, nxt; /* what was read of the socket that goes */
        num in, out;       /* the next one's numbers are so far from that one's */
        num start;         /* the reply that it has to send before what is the server's, */
        uint8_t kept, len; /* of so many bytes: 0: there is none */
    } undo;
    uint8_t spliced; /* the commands that we answered, a bit each, */
    uint16_t sizes;  /* with so many bytes, two bits each */
    num heard;       /* without timers: the highest ack that came for the socket */
    struct model_queue to_server, to_client; /* the network */
    struct model_queue in, out;              /* XDP to the socket, the socket to TC egress */
    uint8_t rush;                            /* enum model_rush */
};

/* How far an undo is. Freezing is a fault; the server's program does nothing until it is done. */
enum model_undo {
    UNDO_NOT,
    UNDO_FROZEN, /* no program changes what it knows */
    UNDO_READ,   /* the socket was read, and still is there */
    UNDO_GAP,    /* there is no socket */
    UNDO_DONE,   /* the next one is there */
};

/* What goes on at once, since it does not wait. */
enum model_rush { RUSH_NONE, RUSH_IN, RUSH_OUT, RUSH_PROGRAM, RUSH_SOCKET };

struct model_step {
    const struct model_state *next;
    const char *what;              /* who does what */
    struct splice_segment segment; /* with what, if len or ack is not 0 */
    unsigned cost;                 /* faults */
    unsigned sure;                 /* the ways of sending again (bits) under which it happens */
    const char *wrong;             /* what must not be, or NULL */
};

/*
 * A TCP may cut what it sends again in any way and always in the same: one request or reply, all
 * that is not acknowledged, or one byte.
 */
enum { MODEL_WAYS = 3, MODEL_ANY_WAY = 7 };

typedef void model_step_fn(void *arg, const struct model_step *step);

void model_start(const struct model *m, struct model_state *s);
/* Calls `fn` for each step that can follow `s`. */
void model_steps(const struct model *m, const struct model_state *s, model_step_fn *fn, void *arg);
/* Whether all was received and acknowledged. */
bool model_finished(const struct model *m, const struct model_state *s);

#endif
