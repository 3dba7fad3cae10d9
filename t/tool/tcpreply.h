/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcpreply: what t/tool/tcpcheck expects on a connection, and the comparison of every byte with
 * what comes.
 *
 * An operation's reply is a text with holes: numbers that only the server knows (a CAS id, a time
 * to live, the version of a key that other connections write), which have rules of their own.
 * Replies come in the order of the operations; one without a text and without holes has none, and
 * is known to be executed when a later one is answered.
 */
#ifndef T_TOOL_TCPREPLY_H
#define T_TOOL_TCPREPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHARED_DIGITS = 20, /* of the version that a shared value begins with */
    SHARED_MAX = 1300,  /* bytes of a shared value */
    ASKED_MAX = 96,     /* bytes of a request that are kept for a report */
};

/* Bytes that grow at their end. */
struct bytes {
    char *at;
    size_t n, room;
};

/* Room for n further bytes, which the caller fills in. */
char *bytes_add(struct bytes *bytes, size_t n);
void bytes_put(struct bytes *bytes, const void *from, size_t n);
void bytes_print(struct bytes *bytes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void bytes_free(struct bytes *bytes);

/* A key that one connection writes and all read; versions only grow. */
struct shared_key {
    char name[64];
    uint64_t begun; /* the last version of which a write was sent */
    uint64_t floor; /* the last that was acknowledged, or seen by anybody: no read after is older */
    unsigned int index;
};

/* The value of a version; its length. `out` has SHARED_MAX bytes. */
size_t shared_value(const struct shared_key *key, uint64_t version, char *out);

/* The CAS id of a key's state, as far as a reply has told it. */
struct cas {
    uint64_t id;     /* 0: none was told */
    uint64_t change; /* of the state that has it */
    uint64_t round;  /* in which it was asked for */
};

enum hole_kind {
    HOLE_CAS,           /* a CAS id in decimal */
    HOLE_CAS_BINARY,    /* the same, 8 bytes */
    HOLE_TTL,           /* seconds to live */
    HOLE_SHARED,        /* "<bytes>\r\n<value>" of a shared key */
    HOLE_SHARED_BINARY, /* from the length of the body to the end of the value */
};

struct hole {
    enum hole_kind kind;
    size_t at; /* the byte of the text that follows it */
    union {
        struct {
            struct cas *cas;
            uint64_t change, round;
        };
        struct {
            uint64_t ttl, since_ns;
        };
        struct {
            struct shared_key *shared;
            uint64_t floor;
            uint32_t opaque; /* of a binary request */
            bool with_key;   /* in a binary reply */
        };
    };
};

struct op {
    struct op *next;
    uint64_t number; /* of its connection, from 1 */
    char asked[ASKED_MAX];
    size_t nasked;
    struct bytes text;
    struct hole *holes;
    unsigned int nholes;
    struct shared_key *written; /* NULL: none */
    uint64_t version;
};

struct op *op_new(uint64_t number);
void op_hole(struct op *op, const struct hole *hole); /* behind the text so far */
bool op_is_silent(const struct op *op);

/* The operations of a connection that are not known to be executed. */
struct replies {
    struct op *first, *last;
    unsigned int nwaiting; /* that have a reply */
    size_t at;             /* bytes of the first one's text that came */
    unsigned int hole;     /* holes that were filled */
    struct bytes filling;  /* what came of the next hole */
    uint64_t nreceived;    /* bytes of the stream */
    uint64_t nanswered;    /* operations */
};

void replies_expect(struct replies *replies, struct op *op);

/*
 * Compares what came. NULL, or what is wrong, with the bytes that were expected and came where they
 * differ; the text lives until the next call in this thread.
 */
const char *replies_take(struct replies *replies, const char *bytes, size_t n, uint64_t now_ns);

/* Forgets what is expected: the connection is gone. */
void replies_drop(struct replies *replies);
void replies_free(struct replies *replies);

/* The text of a request or reply as a line of a report; the same lifetime. */
const char *printable(const char *bytes, size_t n);

#endif
