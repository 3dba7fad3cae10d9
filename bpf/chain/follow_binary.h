/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * follow_binary: commands of the binary protocol; a part of follow.h, which is to be included.
 *
 *  0  magic           4  bytes of extras    8  bytes of all that follows: extras, key, value
 *  1  opcode          5  0                 12  opaque
 *  2  bytes of key    6  0                 16  cas
 *
 * Numbers are big-endian. A command is answered by its own opcode, so that quiet ones, which are
 * answered if something went wrong, and those that we do not know, are counted on neither side.
 */
#ifndef MC_FOLLOW_BINARY_H
#define MC_FOLLOW_BINARY_H

enum {
    FOLLOW_MAGIC = 0x80,
    FOLLOW_MAGIC_REPLY = 0x81,
    FOLLOW_HEADER_BYTES = 24,
    FOLLOW_OPCODES = 0x25,
    OPCODE_FLUSH = 0x08,
    OPCODE_STAT = 0x10,
    OPCODE_FLUSHQ = 0x18,
};

/* What a command of an opcode is made of. */
enum follow_shape {
    SHAPE_EXTRAS = 0x1f, /* bytes of them */
    SHAPE_WRITE = 1 << 5,
    SHAPE_KEY = 1 << 6,   /* obligatory; there is none in those that have neither this nor BODY */
    SHAPE_VALUE = 1 << 7, /* may follow */
    SHAPE_BODY = 1 << 8,  /* anything may, and it does not matter */
    SHAPE_ANSWERED = 1 << 9,
    SHAPE_ALL = 1 << 10, /* writes all; extras as they should be or none */
    SHAPE_LAST = 1 << 11,
};

enum {
    SHAPE_GET = SHAPE_KEY,
    SHAPE_SET = 8 | SHAPE_WRITE | SHAPE_KEY | SHAPE_VALUE,
    SHAPE_DELETE = SHAPE_WRITE | SHAPE_KEY,
    SHAPE_COUNT = 20 | SHAPE_WRITE | SHAPE_KEY,
    SHAPE_APPEND = SHAPE_WRITE | SHAPE_KEY | SHAPE_VALUE,
    SHAPE_TOUCH = 4 | SHAPE_WRITE | SHAPE_KEY,
    SHAPE_FLUSH = 4 | SHAPE_ALL,
    SHAPE_ANY = SHAPE_BODY | SHAPE_ANSWERED,
};

static const __u16 follow_shapes[FOLLOW_OPCODES] = {
    [0x00] = SHAPE_GET | SHAPE_ANSWERED,
    [0x01] = SHAPE_SET | SHAPE_ANSWERED,
    [0x02] = SHAPE_SET | SHAPE_ANSWERED,
    [0x03] = SHAPE_SET | SHAPE_ANSWERED,
    [0x04] = SHAPE_DELETE | SHAPE_ANSWERED,
    [0x05] = SHAPE_COUNT | SHAPE_ANSWERED,
    [0x06] = SHAPE_COUNT | SHAPE_ANSWERED,
    [0x07] = SHAPE_LAST,
    [OPCODE_FLUSH] = SHAPE_FLUSH | SHAPE_ANSWERED,
    [0x09] = SHAPE_GET,
    [0x0a] = SHAPE_ANSWERED,
    [0x0b] = SHAPE_ANSWERED,
    [0x0c] = SHAPE_GET | SHAPE_ANSWERED,
    [0x0d] = SHAPE_GET,
    [0x0e] = SHAPE_APPEND | SHAPE_ANSWERED,
    [0x0f] = SHAPE_APPEND | SHAPE_ANSWERED,
    [OPCODE_STAT] = SHAPE_ANY,
    [0x11] = SHAPE_SET,
    [0x12] = SHAPE_SET,
    [0x13] = SHAPE_SET,
    [0x14] = SHAPE_DELETE,
    [0x15] = SHAPE_COUNT,
    [0x16] = SHAPE_COUNT,
    [0x17] = SHAPE_LAST,
    [OPCODE_FLUSHQ] = SHAPE_FLUSH,
    [0x19] = SHAPE_APPEND,
    [0x1a] = SHAPE_APPEND,
    [0x1b] = SHAPE_ANY, /* verbosity */
    [0x1c] = SHAPE_TOUCH | SHAPE_ANSWERED,
    [0x1d] = SHAPE_TOUCH | SHAPE_ANSWERED,
    [0x1e] = SHAPE_TOUCH,
    [0x20] = SHAPE_ANY, /* SASL */
    [0x21] = SHAPE_ANY,
    [0x22] = SHAPE_ANY,
    [0x23] = SHAPE_TOUCH | SHAPE_ANSWERED,
    [0x24] = SHAPE_TOUCH,
};

/* 0: not known. */
FOLLOW_INLINE __u16 follow_shape(__u8 opcode)
{
    return opcode < FOLLOW_OPCODES ? follow_shapes[opcode] : 0;
}

/* Whether who answers a command of this opcode is counted. */
FOLLOW_INLINE int follow_counted(__u8 opcode)
{
    return follow_shape(opcode) & SHAPE_ANSWERED;
}

/* The command is complete. */
FOLLOW_INLINE __u32 binary_end(struct follow *f, __u16 shape)
{
    __u32 events = shape & SHAPE_ANSWERED ? FOLLOW_ANSWERED : FOLLOW_SILENT;

    if (shape & SHAPE_ALL)
        events |= FOLLOW_WRITE_ALL;
    if (shape == 0)
        events |= FOLLOW_WRITE_ALL | FOLLOW_UNKNOWN;
    if ((shape & (SHAPE_WRITE | SHAPE_VALUE)) == (SHAPE_WRITE | SHAPE_VALUE))
        events |= FOLLOW_DATA;
    follow_next(f, FOLLOW_HEADER);
    return events;
}

/* n bytes follow that say nothing, and then the command is complete. */
FOLLOW_INLINE __u32 binary_rest(struct follow *f, __u16 shape, __u32 n)
{
    if (n == 0)
        return binary_end(f, shape);
    f->skip = n - 1;
    f->state = FOLLOW_BODY;
    return 0;
}

/* Whether the lengths are those of this opcode. */
FOLLOW_INLINE int binary_right(const struct follow *f, __u16 shape)
{
    __u32 nextras = shape & SHAPE_EXTRAS;

    if (f->nextras != nextras && !((shape & SHAPE_ALL) && f->nextras == 0))
        return 0;
    if (!(shape & SHAPE_VALUE) && f->nvalue != (__u32)f->nextras + f->nkey)
        return 0;
    return shape & SHAPE_KEY ? f->nkey > 0 && f->nkey <= MC_KEY_MAX : f->nkey == 0;
}

FOLLOW_INLINE __u32 binary_header_end(struct follow *f)
{
    __u16 shape = follow_shape(f->command);

    f->seconds = 0;
    if (f->nvalue < (__u32)f->nextras + f->nkey)
        return follow_lose(f);
    if (shape == 0 || (shape & SHAPE_BODY))
        return binary_rest(f, shape, f->nvalue);
    if (!binary_right(f, shape))
        return follow_lose(f);
    follow_token(f);
    if (f->nextras && (shape & SHAPE_ALL)) {
        f->state = FOLLOW_EXTRAS;
        return 0;
    }
    if (f->nkey == 0)
        return binary_end(f, shape);
    f->skip = f->nextras;
    f->state = FOLLOW_KEY;
    return 0;
}

FOLLOW_INLINE __u32 binary_header(struct follow *f, __u8 byte)
{
    __u32 at = f->line++;

    if (at == 0 && byte != FOLLOW_MAGIC)
        return follow_lose(f);
    f->number = f->number << 8 | byte;
    if (at == 1)
        f->command = byte;
    else if (at == 3)
        f->nkey = (__u16)f->number;
    else if (at == 4)
        f->nextras = byte;
    else if (at == 11)
        f->nvalue = (__u32)f->number;
    return at == FOLLOW_HEADER_BYTES - 1 ? binary_header_end(f) : 0;
}

FOLLOW_INLINE __u32 binary_key(struct follow *f, __u8 byte, const __u64 *seeds)
{
    __u16 shape = follow_shape(f->command);
    __u32 events = 0;

    follow_fold(f, byte, seeds);
    if (f->ntoken < f->nkey)
        return 0;
    follow_key(f, seeds);
    if (shape & SHAPE_WRITE)
        events = FOLLOW_WRITE;
    return events | binary_rest(f, shape, f->nvalue - f->nextras - f->nkey);
}

FOLLOW_INLINE __u32 follow_binary(struct follow *f, __u8 byte, const __u64 *seeds)
{
    switch (f->state) {
    case FOLLOW_HEADER:
        return binary_header(f, byte);
    case FOLLOW_KEY:
        return binary_key(f, byte, seeds);
    case FOLLOW_EXTRAS:
        f->seconds = f->seconds << 8 | byte;
        f->ntoken++;
        return f->ntoken < f->nextras ? 0 : binary_end(f, follow_shape(f->command));
    case FOLLOW_BODY:
        return binary_end(f, follow_shape(f->command));
    default:
        return 0;
    }
}

#endif
