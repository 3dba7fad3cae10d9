/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto: memcached's protocols on the wire. Parsers from bytes to struct request, renderers into
 * struct reply. Pure: no I/O, no clock, no knowledge of the store or of connections; the parsers
 * allocate nothing.
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
    PROTOCOL_ANY, /* not known yet: the first byte decides, see proto_protocol */
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
    VERB_BMC,
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

/* Whether it reads or writes items that it names: what others do may take long. */
static inline bool proto_names_items(enum verb verb)
{
    return (verb >= VERB_GET && verb <= VERB_DELETE) ||
           (verb >= VERB_META_GET && verb <= VERB_META_DEBUG);
}

enum {
    PROTO_KEY_MAX = 250,
    PROTO_MAX_TOKENS = 8,
    PROTO_LINE_MAX =
        1024, /* a longer line without its end closes the connection, except get and gets */
    PROTO_PART = 64 * 1024, /* bytes of a longer get line that are parsed at a time */
    PROTO_BLANKS_MAX = 100, /* before the get of such a line */
    PROTO_NVALUE_MAX = INT32_MAX - 2,
};

/*
 * What only meta commands have. Of the flags' values T is in the request's exptime, F in
 * client_flags, C in cas, D in delta (1 if not given); a value flag that the request lacks leaves
 * the field 0.
 */
struct request_meta {
    uint64_t given;     /* one bit a flag, see proto_meta_has */
    struct slice flags; /* as received, for proto_next_key: the reply follows their order */
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

/* The fields of a binary request that its answer repeats. */
struct binary_id {
    uint8_t opcode;
    uint32_t opaque;
};

/* Slices point into the input and are valid until it moves. */
struct request {
    enum verb verb;
    struct slice error; /* not empty: the answer; the request is not executed */
    struct slice key;   /* the first key; of a meta command with the flag b in base64 */
    struct slice keys;  /* get family: the rest of the keys, see proto_next_key */
    bool more;          /* get and gets: the line continues, see proto_parse_rest; no END yet */
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

    bool binary; /* the fields below are valid; noreply: a quiet opcode; no CRLF follows a value */
    bool with_key; /* the answer repeats the key */
    struct binary_id id;
    enum binary_status status; /* not OK: the answer; then the connection closes */
    uint64_t initial;
};

/* The protocol of a client whose first byte this is. */
static inline enum protocol proto_protocol(char first)
{
    return (unsigned char)first == 0x80 ? PROTOCOL_BINARY : PROTOCOL_TEXT;
}

/*
 * Parses one request of the binary protocol: header, extras and key; nothing follows a command
 * without a value. Returns as proto_parse_text. An unknown command is VERB_UNKNOWN, and everything
 * behind its header is its value, to be swallowed.
 */
ssize_t proto_parse_binary(struct slice input, struct request *request);

/*
 * Parses one command line of the text protocol. Returns the bytes consumed, newline included; 0:
 * needs more input; -1: this cannot become a valid line, close.
 */
ssize_t proto_parse_text(struct slice input, struct request *request);
/*
 * Parses the next part of a line whose request of `verb` had `more`, as if the part began with the
 * verb. The whole line must be in the input. There may be no key.
 */
ssize_t proto_parse_rest(struct slice input, enum verb verb, struct request *request);
static inline ssize_t proto_parse(enum protocol protocol, struct slice input,
                                  struct request *request)
{
    return protocol == PROTOCOL_BINARY ? proto_parse_binary(input, request)
                                       : proto_parse_text(input, request);
}
/* Cuts the next key off `keys`. False: no more. A key over PROTO_KEY_MAX is returned as it is. */
bool proto_next_key(struct slice *keys, struct slice *key);

/* Whether a meta command has the flag, a letter. */
static inline bool proto_meta_has(const struct request *request, char flag)
{
    return request->meta.given >> (flag - 'A') & 1;
}

/* The frame header of a UDP datagram (protocol.txt, "UDP protocol"). */
struct udp_frame {
    uint16_t id, sequence, count, reserved;
};
/* False: the caller drops the datagram (8 bytes or less, or a count other than 1). */
bool proto_parse_frame(struct slice datagram, struct udp_frame *frame);
/*
 * Whether a datagram's payload behind its frame is a reply of a memcached server. Such a datagram
 * is never answered: two servers would exchange replies for ever.
 */
bool proto_is_reply(struct slice bytes);
void proto_render_frame(char out[8], const struct udp_frame *frame);

/* --- the bytes around a value in the store (struct store_format) --------- */

uint8_t proto_suffix(char *out, uint32_t client_flags, uint32_t nvalue);
uint32_t proto_suffix_flags(const char *suffix, uint8_t nsuffix);

/* --- replies ------------------------------------------------------------ */

enum { PROTO_BINARY_HEADER = 24 };

/* The header of a binary answer. */
struct binary_header {
    struct binary_id id;
    enum binary_status status;
    uint64_t cas;
    uint8_t nextras;
    uint8_t nkey;
    uint32_t nvalue;
};
void proto_render_binary(char out[PROTO_BINARY_HEADER], const struct binary_header *head);
/* The message that an answer with this status has as its value. */
struct slice proto_binary_text(enum binary_status status);
/* Big-endian numbers. */
void proto_store32(char out[4], uint32_t value);
void proto_store64(char out[8], uint64_t value);

/*
 * A reply: pieces of constant text, of text that the reply owns, and of bytes of items that it
 * holds until it is reset. Several commands may add to one. `failed` records that memory ran out.
 */
struct reply_piece {
    const char *ptr; /* NULL: at `offset` of text */
    size_t offset;
    size_t len;
    size_t start; /* bytes of the pieces before it */
};

/* Pieces whose bytes are still to be read; see reply_hole. */
struct reply_hole {
    size_t first, npieces;
    void *object;
    size_t miss, nmiss; /* in text: replaces the pieces if the bytes are lost */
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
    size_t nsealed; /* pieces that do not grow any more */
    size_t nbytes;  /* of all pieces */
    bool failed;
};

void reply_init(struct reply *reply);
void reply_fini(struct reply *reply); /* nothing may be held */
/* Empties it and keeps a bounded amount of its memory. Nothing may be held. */
void reply_reset(struct reply *reply);
/* Bytes that outlive the reply: constants, parts of held items. */
void reply_bytes(struct reply *reply, struct slice bytes);
/* Copies bytes that do not outlive the reply. */
void reply_copy(struct reply *reply, struct slice bytes);
void reply_printf(struct reply *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void reply_vprintf(struct reply *reply, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* The reply's owner releases `object` when the reply is sent. False: no memory, it is not held. */
bool reply_hold(struct reply *reply, void *object);
/* Removes what was added since the mark, and clears the failure; held objects stay held. */
struct reply_mark {
    size_t ntext, npieces, nlast, nbytes, nholes;
};
struct reply_mark reply_mark(const struct reply *reply);
void reply_rewind(struct reply *reply, const struct reply_mark *mark);
/*
 * The pieces added since the mark show bytes of `object` that are still to be read: the reply must
 * not be sent before reply_fill. False: no memory.
 */
bool reply_hole(struct reply *reply, const struct reply_mark *mark, void *object,
                struct slice miss);
/* Fills the holes: calls `has_come` once for each, in order, to learn if its bytes were read. */
void reply_fill(struct reply *reply, bool (*has_come)(void *context, void *object), void *context);
/* Fills iov with what follows the first `skip` bytes, at most `limit` bytes; returns how many. */
size_t reply_iov(const struct reply *reply, size_t skip, size_t limit, struct iovec *iov,
                 size_t niov);
/* Copies `limit` bytes from `skip` on, which it has. */
void reply_read(const struct reply *reply, size_t skip, size_t limit, char *to);

#endif
