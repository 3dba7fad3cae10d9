/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto: what memcached's protocols look like on the wire. Parsers from bytes to struct request,
 * renderers into struct reply. Pure: no I/O, no clock, no knowledge of the store or of connections;
 * the parsers allocate nothing.
 */
#ifndef PROTO_PROTO_H
#define PROTO_PROTO_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/slice.h"

/* --- requests ----------------------------------------------------------- */

enum protocol {
    PROTOCOL_ANY, /* not known yet: the first byte tells, see proto_protocol */
    PROTOCOL_TEXT,
    PROTOCOL_BINARY,
};

enum verb {
    VERB_UNKNOWN, /* also an empty line */
    VERB_GET,
    VERB_GETS,
    VERB_GAT,
    VERB_GATS,
    VERB_TOUCH,
    VERB_SET,
    VERB_ADD,
    VERB_REPLACE,
    VERB_APPEND,
    VERB_PREPEND,
    VERB_CAS,
    VERB_INCR,
    VERB_DECR,
    VERB_DELETE,
    VERB_FLUSH_ALL,
    VERB_CACHE_MEMLIMIT,
    VERB_STATS,
    VERB_VERSION,
    VERB_VERBOSITY,
    VERB_QUIT,
    VERB_SHUTDOWN,
    VERB_SLABS,
    VERB_REFRESH_CERTS,
    VERB_EXTSTORE,
    VERB_LRU,
    VERB_LRU_CRAWLER,
    VERB_HTTP, /* the last word is HTTP/...: close */
    VERB_META_GET,
    VERB_META_SET,
    VERB_META_DELETE,
    VERB_META_ARITH,
    VERB_META_NOOP,
    VERB_META_DEBUG,
    VERB_WATCH,
    VERB_NOOP,
    VERB_SASL_LIST,
    VERB_SASL_AUTH,
    VERB_SASL_STEP,
};

enum {
    PROTO_KEY_MAX = 250,
    PROTO_MAX_TOKENS = 8,
    PROTO_LINE_MAX = 1024,  /* a longer start of a line closes, but for get and gets */
    PROTO_PART = 64 * 1024, /* of a longer line of these so much is taken at a time */
    PROTO_BLANKS_MAX = 100, /* before the get of such a line */
    PROTO_NVALUE_MAX = INT32_MAX - 2,
};

/*
 * What a meta command has more. Of the flags' values T is the request's exptime, F client_flags, C
 * cas, D delta (1 if not given); a flag without its value in a request leaves it 0.
 */
struct request_meta {
    uint64_t given;     /* one bit a flag, see proto_meta_has */
    struct slice flags; /* as they came, for proto_next_key: the reply follows their order */
    char mode;          /* M, 0: none */
    int64_t vivify;     /* N, as on the wire */
    int64_t recache;    /* R, like N */
    uint64_t initial;   /* J */
    uint64_t new_cas;   /* E, 0: the next */
};

/* The status of a binary answer (protocol_binary.txt, "Response Status"). */
enum binary_status {
    BINARY_OK = 0x00,
    BINARY_NOT_FOUND = 0x01,
    BINARY_EXISTS = 0x02,
    BINARY_TOO_LARGE = 0x03,
    BINARY_INVALID = 0x04,
    BINARY_NOT_STORED = 0x05,
    BINARY_NON_NUMERIC = 0x06,
    BINARY_REFUSED = 0x20,
    BINARY_CONTINUE = 0x21,
    BINARY_UNKNOWN = 0x81,
    BINARY_NO_MEMORY = 0x82,
};

/* What an answer repeats of its binary request. */
struct binary_id {
    uint8_t opcode;
    uint32_t opaque;
};

/* Slices point into the input: they are good until it moves. */
struct request {
    enum verb verb;
    struct slice error; /* not empty: the answer, the request is not executed */
    struct slice key;   /* the first key; of a meta command with the flag b in base64 */
    struct slice keys;  /* get family: the rest of the line, see proto_next_key */
    bool more;          /* get and gets: the line goes on, see proto_parse_rest; no END yet */
    struct slice tokens[PROTO_MAX_TOKENS]; /* of other commands, the verb first */
    size_t ntokens;
    uint32_t client_flags;
    int64_t exptime; /* as on the wire */
    uint64_t nvalue; /* bytes of the value that follows, without CRLF */
    uint64_t cas;
    uint64_t delta;
    bool noreply;
    bool has_value; /* storage command: value and CRLF follow the line, also on error where
                       memcached swallows them */
    struct request_meta meta; /* of a meta command only */

    bool binary;   /* what follows is good; noreply: a quiet opcode; no CRLF follows a value */
    bool with_key; /* the answer repeats the key */
    struct binary_id id;
    enum binary_status status; /* not OK: the answer, and nothing more is to be read */
    uint64_t initial;
};

/* The protocol of who sends this byte first. */
static inline enum protocol proto_protocol(char first)
{
    return (unsigned char)first == 0x80 ? PROTOCOL_BINARY : PROTOCOL_TEXT;
}

/*
 * Parses one request of the binary protocol: header, extras and key, and of a command without a
 * value nothing can follow. Returns as proto_parse_text. An unknown command is VERB_UNKNOWN and all
 * behind its header the value, to be swallowed.
 */
ssize_t proto_parse_binary(struct slice input, struct request *request);

/*
 * Parses one command line of the text protocol. Returns the bytes consumed, the newline included;
 * 0: needs more; -1: no line can come of this, close.
 */
ssize_t proto_parse_text(struct slice input, struct request *request);
/*
 * What follows a request of `verb` with `more`, whose line is all there: as if it began with the
 * verb. There may be no key.
 */
ssize_t proto_parse_rest(struct slice input, enum verb verb, struct request *request);
static inline ssize_t proto_parse(enum protocol protocol, struct slice input,
                                  struct request *request)
{
    return protocol == PROTOCOL_BINARY ? proto_parse_binary(input, request)
                                       : proto_parse_text(input, request);
}
/* Takes the next key off `keys`. False: no more. A key over PROTO_KEY_MAX is handed out as it is.
 */
bool proto_next_key(struct slice *keys, struct slice *key);

/* Whether a meta command came with a flag, which is a letter. */
static inline bool proto_meta_has(const struct request *request, char flag)
{
    return request->meta.given >> (flag - 'A') & 1;
}

/* The frame header of a UDP datagram (protocol.txt, "UDP protocol"). */
struct udp_frame {
    uint16_t id, sequence, count, reserved;
};
/* False: the datagram is to be dropped (8 bytes or less, count not 1). */
bool proto_parse_frame(struct slice datagram, struct udp_frame *frame);
/*
 * Whether what a datagram holds behind its frame is the reply of a server like this one, which is
 * never to be answered: two servers would go on for ever.
 */
bool proto_is_reply(struct slice bytes);
void proto_render_frame(char out[8], const struct udp_frame *frame);

/* --- the bytes around a value in the store (struct store_format) --------- */

uint8_t proto_suffix(char *out, uint32_t client_flags, uint32_t nvalue);
uint32_t proto_suffix_flags(const char *suffix, uint8_t nsuffix);

/* --- replies ------------------------------------------------------------ */

enum { PROTO_BINARY_HEAD = 24 };

/* The header of a binary answer. */
struct binary_head {
    struct binary_id id;
    enum binary_status status;
    uint64_t cas;
    uint8_t nextras;
    uint8_t nkey;
    uint32_t nvalue;
};
void proto_render_binary(char out[PROTO_BINARY_HEAD], const struct binary_head *head);
/* The text that is the value of an answer with this status. */
struct slice proto_binary_text(enum binary_status status);
/* Big-endian numbers. */
void proto_store32(char out[4], uint32_t value);
void proto_store64(char out[8], uint64_t value);

/*
 * A reply: pieces of constant text, of text of its own, and of bytes that belong to items held
 * until the reply is cleared. Several commands may add to one. Memory failures are remembered in
 * `failed`.
 */
struct reply_piece {
    const char *ptr; /* NULL: at `offset` of text */
    size_t offset;
    size_t len;
    size_t start; /* bytes of the pieces before it */
};

/* Pieces whose bytes are not there yet; see reply_hole. */
struct reply_hole {
    size_t first, npieces;
    void *object;
    size_t miss, nmiss; /* of text: what stands there if the bytes do not come */
};

struct reply {
    char *text;
    size_t ntext, text_size;
    struct reply_piece *pieces;
    size_t npieces, pieces_size;
    void **held;
    size_t nheld, held_size;
    struct reply_hole *holes;
    size_t nholes, holes_size;
    size_t nsealed; /* pieces that grow no more */
    size_t nbytes;  /* of all pieces */
    bool failed;
};

void reply_init(struct reply *reply);
void reply_fini(struct reply *reply); /* nothing may be held */
/* Empties it and keeps a bounded amount of its memory. Nothing may be held. */
void reply_reset(struct reply *reply);
/* Bytes that outlive the reply: constants, parts of held items. */
void reply_bytes(struct reply *reply, struct slice bytes);
/* Bytes that do not: copied. */
void reply_copy(struct reply *reply, struct slice bytes);
void reply_printf(struct reply *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void reply_vprintf(struct reply *reply, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* The owner lets go of `object` when the reply has been sent. False: no memory, it is not held. */
bool reply_hold(struct reply *reply, void *object);
/* Takes back what was added since the mark, and the failure; what is held stays held. */
struct reply_mark {
    size_t ntext, npieces, nlast, nbytes, nholes;
};
struct reply_mark reply_mark(const struct reply *reply);
void reply_rewind(struct reply *reply, const struct reply_mark *mark);
/*
 * What was added since the mark shows bytes of `object` that are still to come: the reply is not to
 * be sent before reply_fill. False: no memory.
 */
bool reply_hole(struct reply *reply, const struct reply_mark *mark, void *object,
                struct slice miss);
/* The bytes have come, or for some not, says `has_come`, asked once a hole in their order. */
void reply_fill(struct reply *reply, bool (*has_come)(void *context, void *object), void *context);
/* Fills iov with what follows the first `skip` bytes, at most `limit` bytes; returns how many. */
size_t reply_iov(const struct reply *reply, size_t skip, size_t limit, struct iovec *iov,
                 size_t niov);

#endif
