/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * request_binary: commands of the binary protocol; a part of request_parser.h, include that.
 *
 *  0  magic           4  bytes of extras    8  bytes of all that follows: extras, key, value
 *  1  opcode          5  0                 12  opaque
 *  2  bytes of key    6  0                 16  cas
 *
 * Numbers are big-endian. A response has the opcode of its command. So quiet commands, which have a
 * response only if they fail, and unknown ones are counted neither here nor in response_parser.h.
 */
#ifndef MC_REQUEST_BINARY_H
#define MC_REQUEST_BINARY_H

enum {
    PARSER_MAGIC_REQUEST = 0x80,
    PARSER_MAGIC_RESPONSE = 0x81,
    PARSER_HEADER_BYTES = 24,
    REQ_OPCODES = 0x25,
    OPCODE_FLUSH = 0x08,
    OPCODE_STAT = 0x10,
    OPCODE_FLUSHQ = 0x18,
};

/* What the command of an opcode consists of. */
enum req_shape {
    REQ_SHAPE_EXTRAS = 0x1f, /* how many bytes */
    REQ_SHAPE_WRITE = 1 << 5,
    REQ_SHAPE_KEY = 1 << 6,   /* must have a key; with neither this nor BODY it must have none */
    REQ_SHAPE_VALUE = 1 << 7, /* may follow */
    REQ_SHAPE_BODY = 1 << 8,  /* anything may follow, and does not matter */
    REQ_SHAPE_ANSWERED = 1 << 9,
    REQ_SHAPE_ALL = 1 << 10, /* may write any key; the extras may be missing */
    REQ_SHAPE_LAST = 1 << 11,
};

enum {
    REQ_SHAPE_GET = REQ_SHAPE_KEY,
    REQ_SHAPE_SET = 8 | REQ_SHAPE_WRITE | REQ_SHAPE_KEY | REQ_SHAPE_VALUE,
    REQ_SHAPE_DELETE = REQ_SHAPE_WRITE | REQ_SHAPE_KEY,
    REQ_SHAPE_COUNT = 20 | REQ_SHAPE_WRITE | REQ_SHAPE_KEY,
    REQ_SHAPE_APPEND = REQ_SHAPE_WRITE | REQ_SHAPE_KEY | REQ_SHAPE_VALUE,
    REQ_SHAPE_TOUCH = 4 | REQ_SHAPE_WRITE | REQ_SHAPE_KEY,
    REQ_SHAPE_FLUSH = 4 | REQ_SHAPE_ALL,
    REQ_SHAPE_ANY = REQ_SHAPE_BODY | REQ_SHAPE_ANSWERED,
};

static const __u16 req_shapes[REQ_OPCODES] = {
    [0x00] = REQ_SHAPE_GET | REQ_SHAPE_ANSWERED,
    [0x01] = REQ_SHAPE_SET | REQ_SHAPE_ANSWERED,
    [0x02] = REQ_SHAPE_SET | REQ_SHAPE_ANSWERED,
    [0x03] = REQ_SHAPE_SET | REQ_SHAPE_ANSWERED,
    [0x04] = REQ_SHAPE_DELETE | REQ_SHAPE_ANSWERED,
    [0x05] = REQ_SHAPE_COUNT | REQ_SHAPE_ANSWERED,
    [0x06] = REQ_SHAPE_COUNT | REQ_SHAPE_ANSWERED,
    [0x07] = REQ_SHAPE_LAST,
    [OPCODE_FLUSH] = REQ_SHAPE_FLUSH | REQ_SHAPE_ANSWERED,
    [0x09] = REQ_SHAPE_GET,
    [0x0a] = REQ_SHAPE_ANSWERED,
    [0x0b] = REQ_SHAPE_ANSWERED,
    [0x0c] = REQ_SHAPE_GET | REQ_SHAPE_ANSWERED,
    [0x0d] = REQ_SHAPE_GET,
    [0x0e] = REQ_SHAPE_APPEND | REQ_SHAPE_ANSWERED,
    [0x0f] = REQ_SHAPE_APPEND | REQ_SHAPE_ANSWERED,
    [OPCODE_STAT] = REQ_SHAPE_ANY,
    [0x11] = REQ_SHAPE_SET,
    [0x12] = REQ_SHAPE_SET,
    [0x13] = REQ_SHAPE_SET,
    [0x14] = REQ_SHAPE_DELETE,
    [0x15] = REQ_SHAPE_COUNT,
    [0x16] = REQ_SHAPE_COUNT,
    [0x17] = REQ_SHAPE_LAST,
    [OPCODE_FLUSHQ] = REQ_SHAPE_FLUSH,
    [0x19] = REQ_SHAPE_APPEND,
    [0x1a] = REQ_SHAPE_APPEND,
    [0x1b] = REQ_SHAPE_ANY, /* verbosity */
    [0x1c] = REQ_SHAPE_TOUCH | REQ_SHAPE_ANSWERED,
    [0x1d] = REQ_SHAPE_TOUCH | REQ_SHAPE_ANSWERED,
    [0x1e] = REQ_SHAPE_TOUCH,
    [0x20] = REQ_SHAPE_ANY, /* SASL */
    [0x21] = REQ_SHAPE_ANY,
    [0x22] = REQ_SHAPE_ANY,
    [0x23] = REQ_SHAPE_TOUCH | REQ_SHAPE_ANSWERED,
    [0x24] = REQ_SHAPE_TOUCH,
};

/* 0: not known. */
PARSER_INLINE __u16 req_shape(__u8 opcode)
{
    return opcode < REQ_OPCODES ? req_shapes[opcode] : 0;
}

/* Whether responses to commands of this opcode are counted. */
PARSER_INLINE int req_is_counted(__u8 opcode)
{
    return req_shape(opcode) & REQ_SHAPE_ANSWERED;
}

/* The command is complete. */
PARSER_INLINE __u32 req_binary_end(struct request_parser *p, __u16 shape)
{
    __u32 events = shape & REQ_SHAPE_ANSWERED ? REQ_ANSWERED : REQ_SILENT;

    if (shape & REQ_SHAPE_ALL)
        events |= REQ_WRITE_ALL;
    if (shape == 0)
        events |= REQ_WRITE_ALL | REQ_UNKNOWN;
    if ((shape & (REQ_SHAPE_WRITE | REQ_SHAPE_VALUE)) == (REQ_SHAPE_WRITE | REQ_SHAPE_VALUE))
        events |= REQ_DATA;
    req_next(p, REQ_STATE_HEADER);
    return events;
}

/* Skips the n bytes that are left of the command. */
PARSER_INLINE __u32 req_binary_rest(struct request_parser *p, __u16 shape, __u32 n)
{
    if (n == 0)
        return req_binary_end(p, shape);
    p->skip = n - 1;
    p->state = REQ_STATE_BODY;
    return 0;
}

/* Whether the lengths are valid for this opcode. */
PARSER_INLINE int req_binary_right(const struct request_parser *p, __u16 shape)
{
    __u32 nextras = shape & REQ_SHAPE_EXTRAS;

    if (p->nextras != nextras && !((shape & REQ_SHAPE_ALL) && p->nextras == 0))
        return 0;
    if (!(shape & REQ_SHAPE_VALUE) && p->nvalue != (__u32)p->nextras + p->nkey)
        return 0;
    return shape & REQ_SHAPE_KEY ? p->nkey > 0 && p->nkey <= MC_KEY_MAX : p->nkey == 0;
}

PARSER_INLINE __u32 req_binary_header_end(struct request_parser *p)
{
    __u16 shape = req_shape(p->command);

    p->seconds = 0;
    if (p->nvalue < (__u32)p->nextras + p->nkey)
        return req_lose(p);
    if (shape == 0 || (shape & REQ_SHAPE_BODY))
        return req_binary_rest(p, shape, p->nvalue);
    if (!req_binary_right(p, shape))
        return req_lose(p);
    req_token_begin(p);
    if (p->nextras && (shape & REQ_SHAPE_ALL)) {
        p->state = REQ_STATE_EXTRAS;
        return 0;
    }
    if (p->nkey == 0)
        return req_binary_end(p, shape);
    p->skip = p->nextras;
    p->state = REQ_STATE_KEY;
    return 0;
}

PARSER_INLINE __u32 req_binary_header(struct request_parser *p, __u8 byte)
{
    __u32 at = p->line++;

    if (at == 0 && byte != PARSER_MAGIC_REQUEST)
        return req_lose(p);
    p->number = p->number << 8 | byte;
    if (at == 1)
        p->command = byte;
    else if (at == 3)
        p->nkey = (__u16)p->number;
    else if (at == 4)
        p->nextras = byte;
    else if (at == 11)
        p->nvalue = (__u32)p->number;
    return at == PARSER_HEADER_BYTES - 1 ? req_binary_header_end(p) : 0;
}

PARSER_INLINE __u32 req_binary_key(struct request_parser *p, __u8 byte, const __u64 *seeds)
{
    __u16 shape = req_shape(p->command);
    __u32 events = 0;

    req_fold(p, byte, seeds);
    if (p->ntoken < p->nkey)
        return 0;
    req_key_end(p, seeds);
    if (shape & REQ_SHAPE_WRITE)
        events = REQ_WRITE;
    return events | req_binary_rest(p, shape, p->nvalue - p->nextras - p->nkey);
}

PARSER_INLINE __u32 req_binary(struct request_parser *p, __u8 byte, const __u64 *seeds)
{
    switch (p->state) {
    case REQ_STATE_HEADER:
        return req_binary_header(p, byte);
    case REQ_STATE_KEY:
        return req_binary_key(p, byte, seeds);
    case REQ_STATE_EXTRAS:
        p->seconds = p->seconds << 8 | byte;
        p->ntoken++;
        return p->ntoken < p->nextras ? 0 : req_binary_end(p, req_shape(p->command));
    case REQ_STATE_BODY:
        return req_binary_end(p, req_shape(p->command));
    default:
        return 0;
    }
}

#endif
