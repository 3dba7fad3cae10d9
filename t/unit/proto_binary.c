/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of the binary protocol, and the headers of its answers. */
#include <string.h>

#include "proto/proto.h"
#include "t/lib/tap.h"

enum { HEAD = PROTO_BINARY_HEADER, ROOM = 1024 };

/* A request by the fields of its header; the bytes that follow the header are those of `body`. */
struct fields {
    uint8_t magic, opcode;
    uint16_t nkey;
    uint8_t nextras;
    uint32_t nbody;
};

static void put(char *p, size_t n, uint64_t value)
{
    while (n-- > 0) {
        p[n] = (char)value;
        value >>= 8;
    }
}

/* Writes header and body; returns their length. */
static size_t build(char out[ROOM], const struct fields *fields, struct slice body)
{
    memset(out, 0, HEAD);
    out[0] = (char)fields->magic;
    out[1] = (char)fields->opcode;
    put(out + 2, 2, fields->nkey);
    out[4] = (char)fields->nextras;
    put(out + 8, 4, fields->nbody);
    put(out + 12, 4, 0x01020304);
    put(out + 16, 8, 0x1112131415161718);
    if (body.len)
        memcpy(out + HEAD, body.ptr, body.len);
    return HEAD + body.len;
}

static ssize_t parse(const char *bytes, size_t len, struct request *request)
{
    memset(request, 0, sizeof(*request));
    return proto_parse_binary((struct slice){bytes, len}, request);
}

/* The form of each command in protocol_binary.txt. */
static const struct row {
    uint8_t opcode;
    const char *name;
    enum verb verb;
    uint8_t nextras;
    bool key, value, quiet, with_key;
} rows[] = {
    {0x00, "get", VERB_GET, 0, true, false, false, false},
    {0x01, "set", VERB_SET, 8, true, true, false, false},
    {0x02, "add", VERB_ADD, 8, true, true, false, false},
    {0x03, "replace", VERB_REPLACE, 8, true, true, false, false},
    {0x04, "delete", VERB_DELETE, 0, true, false, false, false},
    {0x05, "incr", VERB_INCR, 20, true, false, false, false},
    {0x06, "decr", VERB_DECR, 20, true, false, false, false},
    {0x07, "quit", VERB_QUIT, 0, false, false, false, false},
    {0x08, "flush", VERB_FLUSH_ALL, 4, false, false, false, false},
    {0x09, "getq", VERB_GET, 0, true, false, true, false},
    {0x0a, "noop", VERB_NOOP, 0, false, false, false, false},
    {0x0b, "version", VERB_VERSION, 0, false, false, false, false},
    {0x0c, "getk", VERB_GET, 0, true, false, false, true},
    {0x0d, "getkq", VERB_GET, 0, true, false, true, true},
    {0x0e, "append", VERB_APPEND, 0, true, true, false, false},
    {0x0f, "prepend", VERB_PREPEND, 0, true, true, false, false},
    {0x10, "stat", VERB_STATS, 0, true, false, false, false},
    {0x11, "setq", VERB_SET, 8, true, true, true, false},
    {0x12, "addq", VERB_ADD, 8, true, true, true, false},
    {0x13, "replaceq", VERB_REPLACE, 8, true, true, true, false},
    {0x14, "deleteq", VERB_DELETE, 0, true, false, true, false},
    {0x15, "incrq", VERB_INCR, 20, true, false, true, false},
    {0x16, "decrq", VERB_DECR, 20, true, false, true, false},
    {0x17, "quitq", VERB_QUIT, 0, false, false, true, false},
    {0x18, "flushq", VERB_FLUSH_ALL, 4, false, false, true, false},
    {0x19, "appendq", VERB_APPEND, 0, true, true, true, false},
    {0x1a, "prependq", VERB_PREPEND, 0, true, true, true, false},
    {0x1c, "touch", VERB_TOUCH, 4, true, false, false, false},
    {0x1d, "gat", VERB_GAT, 4, true, false, false, false},
    {0x1e, "gatq", VERB_GAT, 4, true, false, true, false},
    {0x20, "sasl list", VERB_SASL_LIST, 0, false, false, false, false},
    {0x21, "sasl auth", VERB_SASL_AUTH, 0, true, true, false, false},
    {0x22, "sasl step", VERB_SASL_STEP, 0, true, true, false, false},
    {0x23, "gatk", VERB_GAT, 4, true, false, false, true},
    {0x24, "gatkq", VERB_GAT, 4, true, false, true, true},
};

static const struct row *find_row(unsigned int opcode)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        if (rows[i].opcode == opcode)
            return &rows[i];
    return NULL;
}

/* Writes a body of `nextras` bytes, "key" and "value", as far as the row has them. */
static size_t build_row(char out[ROOM], const struct row *row)
{
    static const char extras[] = "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\24";
    struct fields fields = {0x80, row->opcode, row->key ? 3 : 0, row->nextras, 0};
    char body[64];

    memcpy(body, extras, row->nextras);
    memcpy(body + row->nextras, "keyvalue", 8);
    fields.nbody = fields.nkey + fields.nextras + (row->value ? 5u : 0u);
    return build(out, &fields, (struct slice){body, fields.nbody});
}

static bool same(const struct request *a, const struct request *b)
{
    return a->verb == b->verb && a->status == b->status && a->noreply == b->noreply &&
           a->with_key == b->with_key && a->has_value == b->has_value && a->nvalue == b->nvalue &&
           slice_equal(a->key, b->key) && a->id.opcode == b->id.opcode &&
           a->id.opaque == b->id.opaque && a->cas == b->cas && a->exptime == b->exptime &&
           a->client_flags == b->client_flags && a->delta == b->delta && a->initial == b->initial;
}

static void test_forms(void)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *row = &rows[i];
        size_t nhead = (size_t)HEAD + row->nextras + (row->key ? 3 : 0);
        struct request request;
        char bytes[ROOM];
        size_t len = build_row(bytes, row);

        ok(parse(bytes, len, &request) == (ssize_t)nhead && request.binary &&
               request.status == BINARY_OK && request.verb == row->verb &&
               request.noreply == row->quiet && request.with_key == row->with_key &&
               request.has_value == row->value && request.nvalue == (row->value ? 5 : 0) &&
               slice_equal(request.key, row->key ? SLICE("key") : (struct slice){0}) &&
               request.id.opcode == row->opcode && request.id.opaque == 0x01020304 &&
               request.cas == 0x1112131415161718,
           "%s in its correct form is accepted", row->name);
    }
}

static void test_splits(void)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *row = &rows[i];
        size_t nhead = (size_t)HEAD + row->nextras + (row->key ? 3 : 0);
        struct request whole, part;
        char bytes[ROOM];
        size_t len = build_row(bytes, row);
        int wrong = 0;

        parse(bytes, len, &whole);
        for (size_t n = 0; n < nhead; n++)
            wrong += parse(bytes, n, &part) != 0;
        for (size_t n = nhead; n <= len; n++)
            wrong += parse(bytes, n, &part) != (ssize_t)nhead || !same(&part, &whole);
        memset(bytes + len, 0x80, 30);
        wrong += parse(bytes, len + 30, &part) != (ssize_t)nhead || !same(&part, &whole);
        ok(wrong == 0, "%s waits for header, extras and key, and for nothing more", row->name);
    }
}

/* The parser's result for a header with these lengths, and nothing behind it. */
static enum binary_status status_of(uint8_t opcode, uint16_t nkey, uint8_t nextras, uint32_t nbody)
{
    const struct fields fields = {0x80, opcode, nkey, nextras, nbody};
    struct request request;
    char bytes[ROOM];
    size_t len = build(bytes, &fields, (struct slice){0});
    ssize_t n = parse(bytes, len, &request);

    return n == 0 ? BINARY_OK : n == HEAD ? request.status : BINARY_NO_MEMORY;
}

static void test_wrong_forms(void)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *row = &rows[i];
        uint8_t opcode = row->opcode;
        uint16_t nkey = row->key ? 3 : 0;
        int wrong = 0;

        for (unsigned int n = 0; n <= 255; n++) {
            bool right = n == row->nextras || (n == 0 && row->verb == VERB_FLUSH_ALL);

            wrong += !right && status_of(opcode, nkey, (uint8_t)n, nkey + n) != BINARY_INVALID;
        }
        ok(wrong == 0, "%s with extras of another length is invalid", row->name);
        if (row->verb != VERB_STATS) {
            ok(status_of(opcode, row->key ? 0 : 3, row->nextras,
                         (row->key ? 0u : 3u) + row->nextras) == BINARY_INVALID,
               "%s %s a key is invalid", row->name, row->key ? "without" : "with");
        }
        if (!row->value) {
            ok(status_of(opcode, nkey, row->nextras, nkey + row->nextras + 1u) == BINARY_INVALID,
               "%s with a value is invalid", row->name);
        }
    }
}

static void test_lengths(void)
{
    int wrong = 0;

    for (unsigned int opcode = 0; opcode <= 255; opcode++) {
        uint8_t o = (uint8_t)opcode;

        wrong += status_of(o, 251, 0, 251) != BINARY_INVALID;
        wrong += status_of(o, 65535, 255, UINT32_MAX) != BINARY_INVALID;
        wrong += status_of(o, 1, 0, 0x80000000) != BINARY_INVALID;
        wrong += status_of(o, 1, 8, UINT32_MAX) != BINARY_INVALID;
        wrong += status_of(o, 1, 8, INT32_MAX) != BINARY_INVALID;
        wrong += status_of(o, 5, 0, 4) != BINARY_UNKNOWN;
        wrong += status_of(o, 5, 8, 12) != BINARY_UNKNOWN;
        wrong += status_of(o, 0, 1, 0) != BINARY_UNKNOWN;
        wrong += status_of(o, 250, 255, 0) != BINARY_UNKNOWN;
    }
    ok(wrong == 0,
       "every opcode refuses a key over 250 bytes, a body over INT_MAX, and a body shorter "
       "than key and extras");
    ok(status_of(0x00, 250, 0, 250) == BINARY_OK, "the parser waits for a key of 250 bytes");
    ok(status_of(0x01, 1, 8, PROTO_NVALUE_MAX) == BINARY_OK,
       "the parser waits for a header with the longest value");
}

static void test_unknown(void)
{
    int wrong = 0;

    for (unsigned int opcode = 0; opcode <= 255; opcode++) {
        const struct fields fields = {0x80, (uint8_t)opcode, 3, 4, 12};
        struct request request;
        char bytes[ROOM];
        size_t len = build(bytes, &fields, SLICE("\0\0\0\0keyvalue"));

        if (!find_row(opcode)) {
            wrong += parse(bytes, len, &request) != HEAD || request.verb != VERB_UNKNOWN ||
                     request.status != BINARY_OK || !request.has_value || request.nvalue != 12;
        }
    }
    ok(wrong == 0, "the body of an unknown command is to be skipped");
}

static void test_magic(void)
{
    struct request request;
    int wrong = 0;

    for (int magic = 0; magic <= 255; magic++) {
        const struct fields fields = {(uint8_t)magic, 0x0a, 0, 0, 0};
        char bytes[ROOM];
        size_t len = build(bytes, &fields, (struct slice){0});

        wrong +=
            magic != 0x80 && (parse(bytes, len, &request) != -1 || parse(bytes, 1, &request) != -1);
    }
    ok(wrong == 0, "a magic byte other than 0x80 ends the stream at its first byte");
    ok(proto_protocol('\x80') == PROTOCOL_BINARY && proto_protocol('\x81') == PROTOCOL_TEXT &&
           proto_protocol('g') == PROTOCOL_TEXT && proto_protocol('\0') == PROTOCOL_TEXT,
       "a first byte of 0x80 selects the binary protocol");
}

static void test_fields(void)
{
    struct request request;
    char bytes[ROOM];

    parse(bytes, build_row(bytes, find_row(0x01)), &request);
    ok(request.client_flags == 0x01020304 && request.exptime == 0x05060708,
       "set has flags and exptime");
    parse(bytes, build_row(bytes, find_row(0x05)), &request);
    ok(request.delta == 0x0102030405060708 && request.initial == 0x090a0b0c0d0e0f10 &&
           request.exptime == 0x11121314,
       "incr has delta, initial and exptime");
    parse(bytes, build_row(bytes, find_row(0x1c)), &request);
    ok(request.exptime == 0x01020304, "touch has exptime");
    memset(bytes + HEAD, 0xff, 4);
    parse(bytes, HEAD + 7, &request);
    ok(request.exptime == UINT32_MAX, "the exptime of touch is unsigned");
    parse(bytes, build_row(bytes, find_row(0x08)), &request);
    ok(request.exptime == 0x01020304, "flush may have a delay");
    parse(bytes, build(bytes, &(struct fields){0x80, 0x08, 0, 0, 0}, (struct slice){0}), &request);
    ok(request.verb == VERB_FLUSH_ALL && request.exptime == 0, "or none");
    parse(bytes, build(bytes, &(struct fields){0x80, 0x10, 0, 0, 0}, (struct slice){0}), &request);
    ok(request.verb == VERB_STATS && request.key.len == 0, "stat may have no key");
}

static void test_answers(void)
{
    static const char want[HEAD] = "\x81\x0c\0\x03\x04\0\0\x01\0\0\x01\x07"
                                   "\x0a\x0b\x0c\x0d\x01\x02\x03\x04\x05\x06\x07\x08";
    const struct binary_header head = {
        .id = {0x0c, 0x0a0b0c0d},
        .status = BINARY_NOT_FOUND,
        .cas = 0x0102030405060708,
        .nextras = 4,
        .nkey = 3,
        .nvalue = 256,
    };
    char bytes[HEAD];

    proto_render_binary(bytes, &head);
    ok(memcmp(bytes, want, HEAD) == 0, "an answer's header is as documented, byte for byte");
    ok(slice_equal(proto_binary_text(BINARY_NOT_FOUND), SLICE("Not found")) &&
           slice_equal(proto_binary_text(BINARY_EXISTS), SLICE("Data exists for key.")) &&
           slice_equal(proto_binary_text(BINARY_TOO_LARGE), SLICE("Too large.")) &&
           slice_equal(proto_binary_text(BINARY_INVALID), SLICE("Invalid arguments")) &&
           slice_equal(proto_binary_text(BINARY_NOT_STORED), SLICE("Not stored.")) &&
           slice_equal(proto_binary_text(BINARY_NON_NUMERIC),
                       SLICE("Non-numeric server-side value for incr or decr")) &&
           slice_equal(proto_binary_text(BINARY_REFUSED), SLICE("Auth failure.")) &&
           slice_equal(proto_binary_text(BINARY_UNKNOWN), SLICE("Unknown command")) &&
           slice_equal(proto_binary_text(BINARY_NO_MEMORY), SLICE("Out of memory")) &&
           proto_binary_text(BINARY_OK).len == 0,
       "the texts of errors are memcached's");
}

int main(void)
{
    test_forms();
    test_splits();
    test_wrong_forms();
    test_lengths();
    test_unknown();
    test_magic();
    test_fields();
    test_answers();
    return done();
}
