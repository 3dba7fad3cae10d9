/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The binary commands over a real store: dialogues as memcached has them (observed on Debian's
 * 1.6.18). An answer is written as one line: opcode, status, "+" if it has a CAS id, flags, key and
 * value.
 */
#include <inttypes.h>

#include "config.h"

#include "t/unit/command_client.h"

enum {
    GET,
    SET,
    ADD,
    REPLACE,
    DELETE,
    INCR,
    DECR,
    QUIT,
    FLUSH,
    GETQ,
    NOOP,
    VERSION,
    GETK,
    GETKQ,
    APPEND,
    PREPEND,
    STAT,
    SETQ,
    ADDQ,
    REPLACEQ,
    DELETEQ,
    INCRQ,
    DECRQ,
    QUITQ,
    FLUSHQ,
    APPENDQ,
    PREPENDQ,
    VERBOSITY,
    TOUCH,
    GAT,
    GATQ,
    LIST = 0x20,
    AUTH,
    STEP,
    GATK,
    GATKQ,
};

enum { OPAQUE = 0x0badcafe, ASKS = 8, NOWHERE = 0x40000000 };

/* One request. `a`, `b` and `c` are its extras in their order. */
struct ask {
    uint8_t opcode;
    const char *key, *value;
    uint64_t a, b, c;
    uint64_t cas;
};

#define BARE(op, ...)                                                                              \
    {                                                                                              \
        .opcode = op, __VA_ARGS__                                                                  \
    }
#define KEY(op, name, ...)                                                                         \
    {                                                                                              \
        .opcode = op, .key = name, __VA_ARGS__                                                     \
    }
#define VALUE(op, name, text, ...)                                                                 \
    {                                                                                              \
        .opcode = op, .key = name, .value = text, __VA_ARGS__                                      \
    }
/* Several requests, for ask_all. */
#define ASK(...)                                                                                   \
    (const struct ask[ASKS])                                                                       \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

struct dialogue {
    const char *name;
    struct ask asks[ASKS]; /* answered with a key or an opcode */
    const char *answer;
};

#define NOT_FOUND   " 01 Not found\n"
#define EXISTS      " 02 Data exists for key.\n"
#define INVALID     " 04 Invalid arguments\n"
#define NOT_STORED  " 05 Not stored.\n"
#define NON_NUMERIC " 06 Non-numeric server-side value for incr or decr\n"
#define UNKNOWN     " 81 Unknown command\n"
#define NEVER       UINT32_MAX

static const struct dialogue storage[] = {
    {"set returns a CAS id, and get returns the value with its flags",
     {VALUE(SET, "k", "abc", .a = 7), KEY(GET, "k")},
     "01 00 +\n00 00 + 7 abc\n"},
    {"an empty value is stored", {VALUE(SET, "k", ""), KEY(GET, "k")}, "01 00 +\n00 00 + 0 \n"},
    {"a value may end with the line end of the text protocol",
     {VALUE(SET, "k", "ab\r\n"), KEY(GET, "k")},
     "01 00 +\n00 00 + 0 ab\r\n\n"},
    {"a successful setq is not answered",
     {VALUE(SETQ, "k", "abc"), KEY(GET, "k")},
     "00 00 + 0 abc\n"},
    {"add of an existing key fails",
     {VALUE(SET, "k", "a"), VALUE(ADD, "k", "b"), VALUE(ADDQ, "k", "b"), KEY(GET, "k")},
     "01 00 +\n02" EXISTS "12" EXISTS "00 00 + 0 a\n"},
    {"add of a missing key stores",
     {VALUE(ADD, "k", "b"), VALUE(ADDQ, "j", "b"), KEY(GETK, "j")},
     "02 00 +\n0c 00 + 0 j b\n"},
    {"replace of an existing key stores",
     {VALUE(SET, "k", "a"), VALUE(REPLACE, "k", "b"), VALUE(REPLACEQ, "k", "c"), KEY(GET, "k")},
     "01 00 +\n03 00 +\n00 00 + 0 c\n"},
    {"replace of a missing key fails",
     {VALUE(REPLACE, "k", "b"), VALUE(REPLACEQ, "k", "c")},
     "03" NOT_FOUND "13" NOT_FOUND},
    {"append and prepend keep the flags",
     {VALUE(SET, "k", "b", .a = 9), VALUE(APPEND, "k", "c"), VALUE(PREPEND, "k", "a"),
      VALUE(APPENDQ, "k", "d"), VALUE(PREPENDQ, "k", "_"), KEY(GET, "k")},
     "01 00 +\n0e 00 +\n0f 00 +\n00 00 + 9 _abcd\n"},
    {"append and prepend of a missing key fail",
     {VALUE(APPEND, "k", "c"), VALUE(PREPEND, "k", "c"), VALUE(APPENDQ, "k", "c"),
      VALUE(PREPENDQ, "k", "c")},
     "0e" NOT_STORED "0f" NOT_STORED "19" NOT_STORED "1a" NOT_STORED},
    {"set with an id other than the item's fails",
     {VALUE(SET, "k", "a"), VALUE(SET, "k", "b", .cas = NOWHERE),
      VALUE(ADD, "k", "b", .cas = NOWHERE), VALUE(REPLACE, "k", "b", .cas = NOWHERE),
      VALUE(APPEND, "k", "b", .cas = NOWHERE), KEY(DELETE, "k", .cas = NOWHERE), KEY(GET, "k")},
     "01 00 +\n01" EXISTS "02" EXISTS "03" EXISTS "0e" EXISTS "04" EXISTS "00 00 + 0 a\n"},
    {"set with an id and a missing key fails",
     {VALUE(SET, "k", "b", .cas = NOWHERE), VALUE(ADD, "k", "b", .cas = NOWHERE),
      VALUE(REPLACE, "k", "b", .cas = NOWHERE), VALUE(APPEND, "k", "b", .cas = NOWHERE),
      KEY(DELETE, "k", .cas = NOWHERE)},
     "01" NOT_FOUND "02" NOT_FOUND "03" NOT_FOUND "0e" NOT_STORED "04" NOT_FOUND},
    {"delete",
     {VALUE(SET, "k", "a"), VALUE(SET, "j", "a"), KEY(DELETE, "k"), KEY(DELETE, "k"),
      KEY(DELETEQ, "j"), KEY(DELETEQ, "j")},
     "01 00 +\n01 00 +\n04 00\n04" NOT_FOUND "14" NOT_FOUND},
};

static const struct dialogue retrieval[] = {
    {"get of a missing key: not found; getk repeats the key",
     {KEY(GET, "k"), KEY(GETK, "k")},
     "00" NOT_FOUND "0c 01 k \n"},
    {"a quiet get of a missing key is not answered",
     {KEY(GETQ, "k"), KEY(GETKQ, "k"), BARE(NOOP)},
     "0a 00\n"},
    {"a quiet get of a stored key is answered",
     {VALUE(SETQ, "k", "abc", .a = 1), KEY(GETQ, "k"), KEY(GETKQ, "k")},
     "09 00 + 1 abc\n0d 00 + 1 k abc\n"},
    {"touch answers with the flags alone",
     {VALUE(SETQ, "k", "abc", .a = 5), KEY(TOUCH, "k", .a = 10), KEY(TOUCH, "no", .a = 10)},
     "1c 00 + 5 \n1c" NOT_FOUND},
    {"gat, gatq, gatk and gatkq of a stored key",
     {VALUE(SETQ, "k", "abc", .a = 5), KEY(GAT, "k"), KEY(GATQ, "k"), KEY(GATK, "k"),
      KEY(GATKQ, "k")},
     "1d 00 + 5 abc\n1e 00 + 5 abc\n23 00 + 5 k abc\n24 00 + 5 k abc\n"},
    {"gat, gatq, gatk and gatkq of a missing key",
     {KEY(GAT, "k"), KEY(GATQ, "k"), KEY(GATK, "k"), KEY(GATKQ, "k")},
     "1d" NOT_FOUND "23 01 k \n"},
    {"an exptime is unsigned",
     {VALUE(SETQ, "k", "a", .b = NEVER), KEY(GET, "k"), KEY(TOUCH, "k", .a = NEVER), KEY(GET, "k")},
     "00 00 + 0 a\n1c 00 + 0 \n00 00 + 0 a\n"},
    {"gat with a Unix time in the past returns the value one last time",
     {VALUE(SETQ, "k", "a"), KEY(GAT, "k", .a = 0x50000000), KEY(GET, "k")},
     "1d 00 + 0 a\n00" NOT_FOUND},
};

static const struct dialogue numbers[] = {
    {"incr and decr",
     {VALUE(SETQ, "k", "10"), KEY(INCR, "k", .a = 5), KEY(DECR, "k", .a = 8), KEY(GET, "k")},
     "05 00 + 15\n06 00 + 7\n00 00 + 0 7 \n"},
    {"the quiet forms of incr and decr",
     {VALUE(SETQ, "k", "10"), KEY(INCRQ, "k", .a = 5), KEY(DECRQ, "k", .a = 1), KEY(GET, "k")},
     "00 00 + 0 14\n"},
    {"incr of a missing key creates it with the initial value",
     {KEY(INCR, "k", .a = 5, .b = 100), KEY(INCR, "k", .a = 5), KEY(DECR, "j", .a = 5, .b = 7),
      KEY(INCRQ, "l", .b = 3), KEY(GET, "l")},
     "05 00 + 100\n05 00 + 105\n06 00 + 7\n00 00 + 0 3\n"},
    {"incr with an exptime of all ones creates nothing",
     {KEY(INCR, "k", .c = NEVER), KEY(DECRQ, "k", .c = NEVER)},
     "05" NOT_FOUND "16" NOT_FOUND},
    {"incr of a value that is not a number fails",
     {VALUE(SETQ, "k", "ten"), KEY(INCR, "k", .a = 5), KEY(DECRQ, "k", .a = 5)},
     "05" NON_NUMERIC "16" NON_NUMERIC},
    {"incr with an id other than the item's fails",
     {VALUE(SETQ, "k", "1"), KEY(INCR, "k", .a = 5, .cas = NOWHERE),
      KEY(DECRQ, "k", .a = 5, .cas = NOWHERE)},
     "05" EXISTS "16" EXISTS},
    {"incr with an id of a missing key creates it",
     {KEY(INCR, "k", .b = 4, .cas = NOWHERE)},
     "05 00 + 4\n"},
    {"incr wraps around, decr stops at 0",
     {VALUE(SETQ, "k", "18446744073709551615"), KEY(INCR, "k", .a = 2), KEY(DECR, "k", .a = 9)},
     "05 00 + 1\n06 00 + 0\n"},
};

static const struct dialogue others[] = {
    {"noop and version", {BARE(NOOP), BARE(VERSION)}, "0a 00\n0b 00 " PACKAGE_VERSION "\n"},
    {"flush",
     {VALUE(SETQ, "k", "a"), BARE(FLUSH), KEY(GET, "k"), BARE(FLUSHQ), BARE(NOOP)},
     "08 00\n00" NOT_FOUND "0a 00\n"},
    {"flush with a delay",
     {VALUE(SETQ, "k", "a"), BARE(FLUSH, .a = 100), BARE(FLUSHQ, .a = 100), KEY(GET, "k")},
     "08 00\n00 00 + 0 a\n"},
    {"unknown commands with a body are answered as unknown, and the body is skipped",
     {VALUE(VERBOSITY, "k", "abc"), BARE(0x1f), KEY(0x30, "k"), BARE(0x3c), VALUE(0xff, "k", "v"),
      BARE(NOOP)},
     "1b" UNKNOWN "1f" UNKNOWN "30" UNKNOWN "3c" UNKNOWN "ff" UNKNOWN "0a 00\n"},
    {"authentication commands are unknown without SASL",
     {BARE(LIST), VALUE(AUTH, "PLAIN", "_a_b"), VALUE(STEP, "PLAIN", ""), BARE(NOOP)},
     "20" UNKNOWN "21" UNKNOWN "22" UNKNOWN "0a 00\n"},
    {"statistics groups that the binary protocol does not have",
     {KEY(STAT, "conns"), KEY(STAT, "nothing"), KEY(STAT, "cachedump"), BARE(NOOP)},
     "10" NOT_FOUND "10" NOT_FOUND "10" NOT_FOUND "0a 00\n"},
    {"stat reset", {KEY(STAT, "reset")}, "10 00\n"},
    {"stat settings", {KEY(STAT, "settings")}, "10 00 maxbytes 67108864\n10 00\n"},
    {"stat sizes", {KEY(STAT, "sizes")}, "10 00 sizes_status disabled\n10 00\n"},
    {"stat sizes_enable and sizes_disable",
     {KEY(STAT, "sizes_enable"), KEY(STAT, "sizes"), KEY(STAT, "sizes_disable")},
     "10 00 sizes_status enabled\n10 00\n10 00\n10 00 sizes_status disabled\n10 00\n"},
    {"stat detail on, off and dump ignore further words",
     {KEY(STAT, "detail on"), KEY(STAT, "detail off"), KEY(STAT, "detail onx"),
      KEY(STAT, "detail off x"), KEY(STAT, "detail dump"), KEY(STAT, "detail dumpx")},
     "10 00\n10 00\n10 00\n10 00\n10 00 detailed END\r\n\n10 00\n"
     "10 00 detailed END\r\n\n10 00\n"},
    {"stat detail with an unknown word, or none, fails",
     {KEY(STAT, "detail"), KEY(STAT, "detail x"), KEY(STAT, "detailon"), KEY(STAT, "detail ")},
     "10" NOT_FOUND "10" NOT_FOUND "10" NOT_FOUND "10" NOT_FOUND},
    {"stat detail counts a touch as a get, and does not count incr and decr",
     {KEY(STAT, "detail on"), VALUE(SETQ, "p:k", "1"), KEY(TOUCH, "p:k"), KEY(GATQ, "p:n"),
      KEY(DELETEQ, "p:k"), KEY(INCR, "p:n", .a = 1, .c = NEVER), KEY(STAT, "detail dump"),
      KEY(STAT, "detail off")},
     "10 00\n1c 00 + 0 \n05" NOT_FOUND
     "10 00 detailed PREFIX p get 2 hit 1 set 1 del 1\r\nEND\r\n\n10 00\n10 00\n"},
    {"stat reset clears the detail counts",
     {KEY(STAT, "reset"), KEY(STAT, "detail dump")},
     "10 00\n10 00 detailed END\r\n\n10 00\n"},
};

/* --- requests ------------------------------------------------------------ */

static char *put(char *p, size_t n, uint64_t value)
{
    for (size_t i = n; i-- > 0; value >>= 8)
        p[i] = (char)value;
    return p + n;
}

static size_t put_extras(char *out, const struct ask *ask)
{
    char *p = out;

    switch (ask->opcode) {
    case SET:
    case ADD:
    case REPLACE:
    case SETQ:
    case ADDQ:
    case REPLACEQ:
        p = put(put(p, 4, ask->a), 4, ask->b);
        break;
    case INCR:
    case DECR:
    case INCRQ:
    case DECRQ:
        p = put(put(put(p, 8, ask->a), 8, ask->b), 4, ask->c);
        break;
    case TOUCH:
    case GAT:
    case GATQ:
    case GATK:
    case GATKQ:
        p = put(p, 4, ask->a);
        break;
    case FLUSH:
    case FLUSHQ:
        p = ask->a ? put(p, 4, ask->a) : p;
        break;
    }
    return (size_t)(p - out);
}

static size_t put_ask(char *out, const struct ask *ask)
{
    size_t nkey = ask->key ? strlen(ask->key) : 0;
    size_t nvalue = ask->value ? strlen(ask->value) : 0;
    size_t nextras = put_extras(out + PROTO_BINARY_HEADER, ask);
    char *p = out;

    *p++ = '\x80';
    p = put(p, 1, ask->opcode);
    p = put(p, 2, nkey);
    p = put(p, 1, nextras);
    p = put(p, 3, 0);
    p = put(p, 4, nextras + nkey + nvalue);
    p = put(p, 4, OPAQUE);
    p = put(p, 8, ask->cas) + nextras;
    memcpy(p, ask->key ? ask->key : "", nkey);
    memcpy(p + nkey, ask->value ? ask->value : "", nvalue);
    return (size_t)(p - out) + nkey + nvalue;
}

/* --- answers ------------------------------------------------------------- */

static uint64_t load(const char *p, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++)
        value = value << 8 | (unsigned char)p[i];
    return value;
}

static bool is_number(unsigned int opcode)
{
    return opcode == INCR || opcode == DECR || opcode == INCRQ || opcode == DECRQ;
}

/* Writes one answer as a line; returns the bytes it takes, 0 if it is malformed. */
static size_t describe(const char *p, size_t len, char *text, size_t size)
{
    size_t nbody = len >= PROTO_BINARY_HEADER ? load(p + 8, 4) : 0;
    size_t nkey = load(p + 2, 2), nextras = load(p + 4, 1);
    const char *key = p + PROTO_BINARY_HEADER + nextras;
    int nvalue = (int)(nbody - nkey - nextras);
    int n;

    if (len < PROTO_BINARY_HEADER + nbody || p[0] != '\x81' || load(p + 12, 4) != OPAQUE)
        return 0;
    n = snprintf(text, size, "%02x %02x%s", (unsigned)load(p + 1, 1), (unsigned)load(p + 6, 2),
                 load(p + 16, 8) ? " +" : "");
    n += nextras ? snprintf(text + n, size - (size_t)n, " %u",
                            (unsigned)load(p + PROTO_BINARY_HEADER, 4))
                 : 0;
    n += nkey ? snprintf(text + n, size - (size_t)n, " %.*s", (int)nkey, key) : 0;
    if (is_number((unsigned char)p[1]) && load(p + 6, 2) == 0)
        n += snprintf(text + n, size - (size_t)n, " %" PRIu64, load(key, 8));
    else if (nvalue || nextras || nkey)
        n += snprintf(text + n, size - (size_t)n, " %.*s", nvalue, key + nkey);
    snprintf(text + n, size - (size_t)n, "\n");
    return PROTO_BINARY_HEADER + nbody;
}

/* The server's answers, a line each. */
static const char *answers(const struct server *server)
{
    static char text[1 << 16];
    size_t at = 0, used = 0;

    text[0] = 0;
    while (at < server->nout) {
        size_t n = describe(server->out + at, server->nout - at, text + used, sizeof(text) - used);

        if (n == 0)
            return "malformed answer";
        at += n;
        used += strlen(text + used);
    }
    return text;
}

static const char *ask_all(struct server *server, const struct ask *asks)
{
    char bytes[4096];
    size_t len = 0;

    for (size_t i = 0; i < ASKS && (i == 0 || asks[i].opcode || asks[i].key); i++)
        len += put_ask(bytes + len, &asks[i]);
    server_ask(server, bytes, len);
    return answers(server);
}

/* Each dialogue begins with an empty store. */
static void run(struct server *server, const struct dialogue *dialogues, size_t n)
{
    static const struct ask flush = BARE(FLUSHQ);

    for (size_t i = 0; i < n; i++) {
        const char *answer;

        ask_all(server, ASK(flush));
        answer = ask_all(server, dialogues[i].asks);
        if (!ok(strcmp(answer, dialogues[i].answer) == 0 && !server->closed, "%s",
                dialogues[i].name))
            diag("%s", answer);
    }
}

#define RUN(server, dialogues) run(server, dialogues, sizeof(dialogues) / sizeof((dialogues)[0]))

/* --- single requests ----------------------------------------------------- */

/* Sends one request with the CAS id of k's value. */
static const char *ask_with_id(struct server *server, struct ask ask)
{
    ask_all(server, ASK(KEY(GET, "k")));
    ask.cas = load(server->out + 16, 8);
    return ask_all(server, ASK(ask));
}

static void test_ids(struct server *server)
{
    static const struct ask asks[] = {
        VALUE(SET, "k", "1"),    VALUE(ADD, "k", "2"),     VALUE(REPLACE, "k", "3"),
        VALUE(APPEND, "k", "4"), VALUE(PREPEND, "k", "5"), KEY(INCR, "k", .a = 1),
        KEY(DELETE, "k"),
    };
    bool good = true;

    ask_all(server, ASK(VALUE(SETQ, "k", "0")));
    for (size_t i = 0; i < COUNT(asks); i++) {
        const char *answer = ask_with_id(server, asks[i]);

        good = good && strncmp(answer + 2, " 00", 3) == 0;
        if (!good)
            diag("%s", answer);
    }
    ok(good, "every command that compares ids succeeds with the item's id");
}

static void test_endings(struct server *server)
{
    char bytes[256];
    size_t len = put_ask(bytes, &(const struct ask)BARE(QUIT));

    len += put_ask(bytes + len, &(const struct ask)BARE(NOOP));
    server_ask(server, bytes, len);
    ok(strcmp(answers(server), "07 00\n") == 0 && server->closed,
       "quit is answered, then the connection closes");
    len = put_ask(bytes, &(const struct ask)BARE(QUITQ));
    server_ask(server, bytes, len);
    ok(server->nout == 0 && server->closed, "quitq closes the connection without an answer");
    len = put_ask(bytes, &(const struct ask)BARE(GET));
    len += put_ask(bytes + len, &(const struct ask)BARE(NOOP));
    server_ask(server, bytes, len);
    ok(strcmp(answers(server), "00" INVALID) == 0 && server->closed,
       "a request with invalid arguments is answered, and nothing after it");
    len = put_ask(bytes, &(const struct ask)BARE(SETQ));
    server_ask(server, bytes, len);
    ok(strcmp(answers(server), "11" INVALID) == 0 && server->closed,
       "a quiet request with invalid arguments is answered, too");
    len = put_ask(bytes, &(const struct ask)KEY(GET, "key"));
    bytes[11] = 2;
    server_ask(server, bytes, len);
    ok(strcmp(answers(server), "00" UNKNOWN) == 0 && server->closed,
       "a key longer than the body: unknown command, and the connection closes");
    len = put_ask(bytes, &(const struct ask)BARE(NOOP));
    bytes[len] = '\x81';
    server_ask(server, bytes, len + 1);
    ok(strcmp(answers(server), "0a 00\n") == 0 && server->closed,
       "a wrong magic byte closes the connection");
}

static void test_large(struct server *server)
{
    static char value[1 << 20];
    struct ask large = VALUE(SETQ, "k", value, .a = 3);
    static char bytes[(1 << 20) + 256];
    size_t len;

    memset(value, 'x', sizeof(value) - 1);
    ask_all(server, ASK(VALUE(SETQ, "k", "old")));
    len = put_ask(bytes, &large);
    len += put_ask(bytes + len, &(const struct ask)KEY(GET, "k"));
    server_ask(server, bytes, len);
    ok(strcmp(answers(server), "11 03 Too large.\n00" NOT_FOUND) == 0,
       "the body of a too large value is skipped, and the older value removed");
    value[700000] = 0;
    len = put_ask(bytes, &large);
    len += put_ask(bytes + len, &(const struct ask)KEY(GETK, "k"));
    server_ask(server, bytes, len);
    ok(server->nout == PROTO_BINARY_HEADER + 4 + 1 + 700000 &&
           memcmp(server->out + PROTO_BINARY_HEADER + 5, value, 700000) == 0,
       "a value of several chunks is returned whole, without trailing bytes");
}

static void test_stats(struct server *server)
{
    const char *answer = ask_all(server, ASK(BARE(STAT)));

    ok(strstr(answer, "10 00 pid ") == answer &&
           strstr(answer, "\n10 00 version " PACKAGE_VERSION) &&
           strstr(answer, "\n10 00 curr_items ") &&
           strcmp(answer + strlen(answer) - 7, "\n10 00\n") == 0,
       "stat answers every statistic, and ends with an answer without a key");
    answer = ask_all(server, ASK(VALUE(SETQ, "k", "1"), KEY(STAT, "items")));
    ok(strstr(answer, "10 00 items:1:number "), "stat items");
    answer = ask_all(server, ASK(KEY(STAT, "slabs")));
    ok(strstr(answer, "10 00 1:chunk_size ") && strstr(answer, "10 00 active_slabs "),
       "stat slabs");
    answer = ask_all(server, ASK(KEY(STAT, "bmc")));
    ok(strcmp(answer, "10 00 bmc_hits 5\n10 00\n") == 0, "stat bmc");
}

static uint64_t stat_of(struct server *server, const char *key)
{
    const char *found = strstr(ask(server, "stats\r\n"), key);

    return found ? strtoull(found + strlen(key), NULL, 10) : UINT64_MAX;
}

/* The increase of a statistic by one request. */
static void test_counts(struct server *server)
{
    static const struct {
        struct ask ask;
        const char *keys[3];
    } rows[] = {
        {VALUE(SET, "k", "5"), {"cmd_set "}},
        {KEY(GET, "k"), {"cmd_get ", "get_hits "}},
        {KEY(GETKQ, "no"), {"cmd_get ", "get_misses "}},
        {KEY(GAT, "k"), {"cmd_touch ", "touch_hits "}},
        {KEY(TOUCH, "no"), {"cmd_touch ", "touch_misses "}},
        {KEY(INCR, "k"), {"incr_hits "}},
        {KEY(INCR, "no", .c = NEVER), {"incr_misses "}},
        {KEY(DECR, "k"), {"decr_hits "}},
        {KEY(DECRQ, "no", .c = NEVER), {"decr_misses "}},
        {VALUE(SET, "k", "6", .cas = NOWHERE), {"cmd_set ", "cas_badval "}},
        {VALUE(SET, "no", "6", .cas = NOWHERE), {"cmd_set ", "cas_misses "}},
        {KEY(DELETE, "k"), {"delete_hits "}},
        {KEY(DELETEQ, "k"), {"delete_misses "}},
        {BARE(FLUSH), {"cmd_flush "}},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        bool good = true;

        for (size_t k = 0; k < 3 && rows[i].keys[k]; k++) {
            uint64_t before = stat_of(server, rows[i].keys[k]);

            ask_all(server, ASK(rows[i].ask));
            good = good && (k > 0 || stat_of(server, rows[i].keys[k]) == before + 1);
        }
        ok(good, "opcode %02x is counted in %s", rows[i].ask.opcode, rows[i].keys[0]);
    }
}

/* A datagram that ends before its value does. */
static void test_cut(struct server *server)
{
    struct command_pending pending = {0};
    struct command_client client = {.transport = COMMAND_DATAGRAM};
    struct request request;
    char bytes[256];
    size_t len = put_ask(bytes, &(const struct ask)VALUE(SETQ, "cut", "value"));

    proto_parse_binary((struct slice){bytes, len}, &request);
    ok(command_run(server->local, &request, &client, server->now, &server->reply, &pending) ==
               COMMAND_VALUE &&
           pending.nleft == 5,
       "the parser waits for a value without a line end");
    command_cut(server->local, &pending, &server->reply);
    server->nout = 0;
    send_reply(server);
    ok(strcmp(answers(server), "11" INVALID) == 0,
       "a truncated value is answered with invalid arguments");
    ok(strcmp(ask_all(server, ASK(KEY(GET, "cut"))), "00" NOT_FOUND) == 0,
       "a truncated value is not stored");
}

static void test_options(void)
{
    struct store_config store;
    struct server server;

    server_defaults(&server, &store);
    server.config.flush_enabled = false;
    store.cas = false;
    server_start(&server, &store);
    ok(strcmp(ask_all(&server, ASK(BARE(FLUSH), BARE(FLUSHQ))),
              "08 20 Auth failure.\n18 20 Auth failure.\n") == 0,
       "flush is refused where it is disabled");
    ok(strstr(ask_all(&server, ASK(BARE(STAT))), "cmd_flush 0") != NULL,
       "a refused flush is not counted, unlike flush_all of text");
    ok(strcmp(ask_all(&server, ASK(VALUE(SET, "k", "1", .cas = 99), KEY(GET, "k"),
                                   KEY(DELETE, "k", .cas = 99))),
              "01 00\n00 00 0 1\n04" EXISTS) == 0,
       "without CAS ids are 0, and storage commands ignore a given id");
    server_stop(&server);
}

static void test_no_memory(void)
{
    struct store_config store;
    struct server server;
    static char value[200001];
    static char bytes[200300];
    size_t len, nfailed = 0;
    char key[16];

    server_defaults(&server, &store);
    store.memory_limit = 2 << 20;
    store.evict = false;
    server_start(&server, &store);
    memset(value, 'x', sizeof(value) - 1);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        len = put_ask(bytes, &(const struct ask)VALUE(SETQ, key, value));
        server_ask(&server, bytes, len);
        nfailed += strcmp(answers(&server), "11 82 Out of memory allocating item\n") == 0;
    }
    ok(nfailed > 0 && nfailed < 100,
       "sets into a full store without eviction are answered with out of memory");
    server_stop(&server);
}

int main(void)
{
    struct store_config store;
    struct server server;

    server_defaults(&server, &store);
    server_start(&server, &store);
    RUN(&server, storage);
    RUN(&server, retrieval);
    RUN(&server, numbers);
    RUN(&server, others);
    test_ids(&server);
    test_endings(&server);
    test_large(&server);
    test_stats(&server);
    test_counts(&server);
    test_cut(&server);
    server_stop(&server);
    test_options();
    test_no_memory();
    return done();
}
