/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * binary: the parser and the header of the binary protocol (memcached's protocol_binary.txt).
 *
 *  0  magic       0x80 request, 0x81 response
 *  1  opcode
 *  2  key length  big-endian, as are all numbers
 *  4  extras length
 *  5  data type   0; not looked at in a request
 *  6  vbucket id, not looked at; in a response the status
 *  8  length of all that follows the header: extras, key, value
 * 12  opaque      returned as it came
 * 16  cas
 * 24  extras, key, value
 */
#include "proto/proto.h"

enum {
    REQUEST = 0x80,
    RESPONSE = 0x81,
    AT_OPCODE = 1,
    AT_NKEY = 2,
    AT_NEXTRAS = 4,
    AT_STATUS = 6,
    AT_NBODY = 8,
    AT_OPAQUE = 12,
    AT_CAS = 16,
};

/* The fields that a command's request may have. */
enum {
    KNOWN = 1 << 0,
    KEY = 1 << 1,       /* must have one */
    KEY_MAY = 1 << 2,   /* may have one */
    VALUE = 1 << 3,     /* a value may follow */
    NO_EXTRAS = 1 << 4, /* the extras may be missing */
    QUIET = 1 << 5,
    WITH_KEY = 1 << 6, /* the answer repeats the key */
};

struct opcode_row {
    uint8_t verb;
    uint8_t nextras;
    uint8_t may;
};

enum { NSTORE = 8, NCOUNT = 20, NTIME = 4 }; /* bytes of extras */

static const struct opcode_row opcodes[] = {
    [0x00] = {VERB_GET, 0, KNOWN | KEY},
    [0x01] = {VERB_SET, NSTORE, KNOWN | KEY | VALUE},
    [0x02] = {VERB_ADD, NSTORE, KNOWN | KEY | VALUE},
    [0x03] = {VERB_REPLACE, NSTORE, KNOWN | KEY | VALUE},
    [0x04] = {VERB_DELETE, 0, KNOWN | KEY},
    [0x05] = {VERB_INCR, NCOUNT, KNOWN | KEY},
    [0x06] = {VERB_DECR, NCOUNT, KNOWN | KEY},
    [0x07] = {VERB_QUIT, 0, KNOWN},
    [0x08] = {VERB_FLUSH_ALL, NTIME, KNOWN | NO_EXTRAS},
    [0x09] = {VERB_GET, 0, KNOWN | KEY | QUIET},
    [0x0a] = {VERB_NOOP, 0, KNOWN},
    [0x0b] = {VERB_VERSION, 0, KNOWN},
    [0x0c] = {VERB_GET, 0, KNOWN | KEY | WITH_KEY},
    [0x0d] = {VERB_GET, 0, KNOWN | KEY | WITH_KEY | QUIET},
    [0x0e] = {VERB_APPEND, 0, KNOWN | KEY | VALUE},
    [0x0f] = {VERB_PREPEND, 0, KNOWN | KEY | VALUE},
    [0x10] = {VERB_STATS, 0, KNOWN | KEY_MAY},
    [0x11] = {VERB_SET, NSTORE, KNOWN | KEY | VALUE | QUIET},
    [0x12] = {VERB_ADD, NSTORE, KNOWN | KEY | VALUE | QUIET},
    [0x13] = {VERB_REPLACE, NSTORE, KNOWN | KEY | VALUE | QUIET},
    [0x14] = {VERB_DELETE, 0, KNOWN | KEY | QUIET},
    [0x15] = {VERB_INCR, NCOUNT, KNOWN | KEY | QUIET},
    [0x16] = {VERB_DECR, NCOUNT, KNOWN | KEY | QUIET},
    [0x17] = {VERB_QUIT, 0, KNOWN | QUIET},
    [0x18] = {VERB_FLUSH_ALL, NTIME, KNOWN | NO_EXTRAS | QUIET},
    [0x19] = {VERB_APPEND, 0, KNOWN | KEY | VALUE | QUIET},
    [0x1a] = {VERB_PREPEND, 0, KNOWN | KEY | VALUE | QUIET},
    [0x1c] = {VERB_TOUCH, NTIME, KNOWN | KEY},
    [0x1d] = {VERB_GAT, NTIME, KNOWN | KEY},
    [0x1e] = {VERB_GAT, NTIME, KNOWN | KEY | QUIET},
    [0x20] = {VERB_SASL_LIST, 0, KNOWN},
    [0x21] = {VERB_SASL_AUTH, 0, KNOWN | KEY | VALUE},
    [0x22] = {VERB_SASL_STEP, 0, KNOWN | KEY | VALUE},
    [0x23] = {VERB_GAT, NTIME, KNOWN | KEY | WITH_KEY},
    [0x24] = {VERB_GAT, NTIME, KNOWN | KEY | WITH_KEY | QUIET},
};

/* The lengths in a header. */
struct lengths {
    uint16_t nkey;
    uint8_t nextras;
    uint32_t nbody;
};

static uint64_t load(const char *p, size_t n)
{
    uint64_t value = 0;
    size_t i;

    for (i = 0; i < n; i++)
        value = value << 8 | (unsigned char)p[i];
    return value;
}

static void store(char *p, size_t n, uint64_t value)
{
    while (n-- > 0) {
        p[n] = (char)value;
        value >>= 8;
    }
}

/* Checks lengths that are wrong for any command: the end of such a request is not known. */
static enum binary_status check_lengths(const struct lengths *lengths)
{
    if (lengths->nkey > PROTO_KEY_MAX || lengths->nbody > PROTO_NVALUE_MAX)
        return BINARY_INVALID;
    return (uint32_t)lengths->nkey + lengths->nextras > lengths->nbody ? BINARY_UNKNOWN : BINARY_OK;
}

static bool has_form(const struct opcode_row *row, const struct lengths *lengths)
{
    bool extras =
        lengths->nextras == row->nextras || (lengths->nextras == 0 && (row->may & NO_EXTRAS));
    bool key = lengths->nkey > 0 ? row->may & (KEY | KEY_MAY) : !(row->may & KEY);
    bool value = lengths->nbody > (uint32_t)lengths->nkey + lengths->nextras;

    return extras && key && (!value || row->may & VALUE);
}

static void parse_extras(const struct opcode_row *row, const char *extras, size_t nextras,
                         struct request *request)
{
    if (nextras == 0)
        return;
    switch (row->nextras) {
    case NSTORE:
        request->client_flags = (uint32_t)load(extras, 4);
        request->exptime = (int64_t)load(extras + 4, 4);
        break;
    case NCOUNT:
        request->delta = load(extras, 8);
        request->initial = load(extras + 8, 8);
        request->exptime = (int64_t)load(extras + 16, 4);
        break;
    case NTIME:
        request->exptime = (int64_t)load(extras, 4);
        break;
    }
}

/* Parses extras and key of a known command. Returns as proto_parse_binary. */
static ssize_t parse_known(const struct opcode_row *row, const struct lengths *lengths,
                           struct slice input, struct request *request)
{
    size_t nhead = (size_t)PROTO_BINARY_HEADER + lengths->nextras + lengths->nkey;
    const char *extras = input.ptr + PROTO_BINARY_HEADER;

    if (!has_form(row, lengths)) {
        request->status = BINARY_INVALID;
        return PROTO_BINARY_HEADER;
    }
    if (input.len < nhead)
        return 0;
    request->verb = (enum verb)row->verb;
    request->noreply = row->may & QUIET;
    request->with_key = row->may & WITH_KEY;
    request->key = (struct slice){extras + lengths->nextras, lengths->nkey};
    request->has_value = row->may & VALUE;
    request->nvalue = lengths->nbody - lengths->nextras - lengths->nkey;
    parse_extras(row, extras, lengths->nextras, request);
    return (ssize_t)nhead;
}

ssize_t proto_parse_binary(struct slice input, struct request *request)
{
    const char *p = input.ptr;
    const struct opcode_row *row;
    struct lengths lengths;
    uint8_t opcode;

    if (input.len > 0 && (unsigned char)*p != REQUEST)
        return -1;
    if (input.len < PROTO_BINARY_HEADER)
        return 0;
    opcode = (uint8_t)p[AT_OPCODE];
    lengths.nkey = (uint16_t)load(p + AT_NKEY, 2);
    lengths.nextras = (uint8_t)p[AT_NEXTRAS];
    lengths.nbody = (uint32_t)load(p + AT_NBODY, 4);
    *request = (struct request){
        .verb = VERB_UNKNOWN,
        .binary = true,
        .id = {opcode, (uint32_t)load(p + AT_OPAQUE, 4)},
        .cas = load(p + AT_CAS, 8),
        .status = check_lengths(&lengths),
    };
    if (request->status != BINARY_OK)
        return PROTO_BINARY_HEADER;
    row = opcode < sizeof(opcodes) / sizeof(opcodes[0]) ? &opcodes[opcode] : NULL;
    if (row && row->may & KNOWN)
        return parse_known(row, &lengths, input, request);
    request->has_value = true;
    request->nvalue = lengths.nbody;
    return PROTO_BINARY_HEADER;
}

void proto_render_binary(char out[PROTO_BINARY_HEADER], const struct binary_header *head)
{
    uint32_t nbody = head->nextras + head->nkey + head->nvalue;

    memset(out, 0, PROTO_BINARY_HEADER);
    out[0] = (char)RESPONSE;
    out[AT_OPCODE] = (char)head->id.opcode;
    store(out + AT_NKEY, 2, head->nkey);
    out[AT_NEXTRAS] = (char)head->nextras;
    store(out + AT_STATUS, 2, head->status);
    store(out + AT_NBODY, 4, nbody);
    store(out + AT_OPAQUE, 4, head->id.opaque);
    store(out + AT_CAS, 8, head->cas);
}

struct slice proto_binary_text(enum binary_status status)
{
    switch (status) {
    case BINARY_OK:
        break;
    case BINARY_NOT_FOUND:
        return SLICE("Not found");
    case BINARY_EXISTS:
        return SLICE("Data exists for key.");
    case BINARY_TOO_LARGE:
        return SLICE("Too large.");
    case BINARY_INVALID:
        return SLICE("Invalid arguments");
    case BINARY_NOT_STORED:
        return SLICE("Not stored.");
    case BINARY_NON_NUMERIC:
        return SLICE("Non-numeric server-side value for incr or decr");
    case BINARY_REFUSED:
        return SLICE("Auth failure.");
    case BINARY_CONTINUE:
        break;
    case BINARY_UNKNOWN:
        return SLICE("Unknown command");
    case BINARY_NO_MEMORY:
        return SLICE("Out of memory");
    }
    return (struct slice){0};
}

void proto_store32(char out[4], uint32_t value)
{
    store(out, 4, value);
}

void proto_store64(char out[8], uint64_t value)
{
    store(out, 8, value);
}
