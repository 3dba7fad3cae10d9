/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text parser: each line of the table with the request that it becomes, at the end of readable
 * memory, cut at every byte, and followed by other bytes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/proto.h"
#include "t/lib/tap.h"
#include "t/lib/text.h"

#define K10        "kkkkkkkkkk"
#define K50        K10 K10 K10 K10 K10
#define K250       K50 K50 K50 K50 K50
#define K251       K250 "k"
#define BAD        "!CLIENT_ERROR bad command line format"
#define BAD_TIME   "!CLIENT_ERROR invalid exptime argument"
#define BAD_DELTA  "!CLIENT_ERROR invalid numeric delta argument"
#define BAD_DELETE BAD ".  Usage: delete <key> [noreply]"

/* The request as describe() writes it: verb, then its parts, or ! and the error. */
static const struct row {
    const char *line, *request;
} rows[] = {
#include "t/unit/proto_text.inc"
};

static const char *const names[] = {
    [VERB_UNKNOWN] = "unknown",
    [VERB_GET] = "get",
    [VERB_GETS] = "gets",
    [VERB_GAT] = "gat",
    [VERB_GATS] = "gats",
    [VERB_TOUCH] = "touch",
    [VERB_SET] = "set",
    [VERB_ADD] = "add",
    [VERB_REPLACE] = "replace",
    [VERB_APPEND] = "append",
    [VERB_PREPEND] = "prepend",
    [VERB_CAS] = "cas",
    [VERB_INCR] = "incr",
    [VERB_DECR] = "decr",
    [VERB_DELETE] = "delete",
    [VERB_FLUSH_ALL] = "flush_all",
    [VERB_STATS] = "stats",
    [VERB_CACHE_MEMLIMIT] = "cache_memlimit",
    [VERB_WATCH] = "watch",
    [VERB_VERSION] = "version",
    [VERB_VERBOSITY] = "verbosity",
    [VERB_QUIT] = "quit",
    [VERB_SHUTDOWN] = "shutdown",
    [VERB_REFRESH_CERTS] = "refresh_certs",
    [VERB_BMC] = "bmc",
    [VERB_LRU] = "lru",
    [VERB_LRU_CRAWLER] = "lru_crawler",
    [VERB_HTTP] = "http",
};

static void put(struct text *text, struct slice bytes)
{
    text_add(text, bytes.ptr, bytes.len);
}

static void put_word(struct text *text, struct slice bytes)
{
    put(text, SLICE(" "));
    put(text, bytes);
}

static void describe_keys(const struct request *request, struct text *text)
{
    struct slice keys = request->keys;
    struct slice key = request->key;

    if (request->verb == VERB_GAT || request->verb == VERB_GATS)
        text_say(text, " %" PRId64, request->exptime);
    if (key.len == 0)
        return;
    do {
        put_word(text, key);
    } while (proto_next_key(&keys, &key));
}

static void describe_words(const struct request *request, struct text *text)
{
    for (size_t i = 1; i < request->ntokens - request->noreply; i++)
        put_word(text, request->tokens[i]);
}

static void describe_store(const struct request *request, struct text *text)
{
    put_word(text, request->key);
    text_say(text, " %" PRIu32 " %" PRId64 " %" PRIu64 "%s", request->client_flags,
             request->exptime, request->nvalue, request->has_value ? "+" : "");
    if (request->verb == VERB_CAS)
        text_say(text, " %" PRIu64, request->cas);
}

static void describe_parts(const struct request *request, struct text *text)
{
    switch (request->verb) {
    case VERB_GET:
    case VERB_GETS:
    case VERB_GAT:
    case VERB_GATS:
        describe_keys(request, text);
        break;
    case VERB_SET:
    case VERB_ADD:
    case VERB_REPLACE:
    case VERB_APPEND:
    case VERB_PREPEND:
    case VERB_CAS:
        describe_store(request, text);
        break;
    case VERB_INCR:
    case VERB_DECR:
        put_word(text, request->key);
        text_say(text, " %" PRIu64, request->delta);
        break;
    case VERB_TOUCH:
        put_word(text, request->key);
        text_say(text, " %" PRId64, request->exptime);
        break;
    case VERB_DELETE:
        put_word(text, request->key);
        break;
    case VERB_FLUSH_ALL:
    case VERB_CACHE_MEMLIMIT:
    case VERB_STATS:
    case VERB_VERSION:
    case VERB_VERBOSITY:
    case VERB_QUIT:
    case VERB_SHUTDOWN:
    case VERB_EXTSTORE:
    case VERB_REFRESH_CERTS:
    case VERB_BMC:
    case VERB_SLABS:
    case VERB_WATCH:
    case VERB_LRU:
    case VERB_LRU_CRAWLER:
        describe_words(request, text);
        break;
    case VERB_META_GET:
    case VERB_META_SET:
    case VERB_META_DELETE:
    case VERB_META_ARITH:
    case VERB_META_NOOP:
    case VERB_META_DEBUG: /* see proto_meta.c */
    case VERB_UNKNOWN:
    case VERB_HTTP:
    case VERB_NOOP:
    case VERB_SASL_LIST:
    case VERB_SASL_AUTH:
    case VERB_SASL_STEP:
        break;
    }
}

static void describe(const struct request *request, struct text *text)
{
    text->n = 0;
    text_say(text, "%s", names[request->verb]);
    if (request->error.len) {
        put(text, SLICE(" !"));
        put(text, (struct slice){request->error.ptr, request->error.len - 2});
    } else {
        describe_parts(request, text);
    }
    if (request->noreply)
        put(text, SLICE(" noreply"));
}

/* Memory with an unreadable page behind it. */
static char *edge;

static void make_edge(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *area =
        mmap(NULL, 1025 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (area == MAP_FAILED || mprotect(area + 1024 * page, page, PROT_NONE) != 0) {
        perror("mmap");
        exit(1);
    }
    edge = area + 1024 * page;
}

static ssize_t parse_at_edge(const char *bytes, size_t len, struct request *request)
{
    memcpy(edge - len, bytes, len);
    memset(request, 0xa5, sizeof(*request));
    return proto_parse_text((struct slice){edge - len, len}, request);
}

static bool waits_at_every_cut(const struct row *row, size_t len)
{
    struct request request;

    for (size_t cut = 0; cut < len; cut++) {
        ssize_t n = parse_at_edge(row->line, cut, &request);

        if (n != 0 && !(n == -1 && cut > PROTO_LINE_MAX)) {
            diag("cut at %zu: %zd", cut, n);
            return false;
        }
    }
    return true;
}

static bool ignores_what_follows(const struct row *row, size_t len)
{
    static const char *const followers[] = {"\n", "\r\n", " noreply\r\n", "get x\r\n", "\0"};
    struct request request;
    struct text got;
    char line[8192];

    for (size_t i = 0; i < COUNT(followers); i++) {
        int n = snprintf(line, sizeof(line), "%s%s", row->line, followers[i]);

        if (parse_at_edge(line, (size_t)n, &request) != (ssize_t)len)
            return false;
        describe(&request, &got);
        if (strcmp(got.bytes, row->request) != 0)
            return false;
    }
    return true;
}

static void lines_are_read(void)
{
    static struct text got;

    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *row = &rows[i];
        size_t len = strlen(row->line);
        struct request request;
        ssize_t n = parse_at_edge(row->line, len, &request);

        describe(&request, &got);
        if (!ok(n == (ssize_t)len && strcmp(got.bytes, row->request) == 0, "%.*s -> %.60s",
                (int)(strcspn(row->line, "\r\n") % 60), row->line, row->request))
            diag("%zd of %zu bytes, %.200s", n, len, got.bytes);
        ok(waits_at_every_cut(row, len), "  cut anywhere, the parser waits for more");
        ok(ignores_what_follows(row, len), "  bytes behind the line change nothing");
    }
}

/* A beginning of a line: `head`, then `fill` until it has `len` bytes. */
static ssize_t parse_start(const char *head, char fill, size_t len, const char *end)
{
    static char line[3 << 20];
    struct request request;

    memset(line, fill, len);
    memcpy(line, head, strlen(head));
    memcpy(line + len, end, strlen(end));
    return parse_at_edge(line, len + strlen(end), &request);
}

static void long_lines_end(void)
{
    ok(parse_start("", 'x', 1024, "") == 0, "1024 bytes without a newline are waited on");
    ok(parse_start("", 'x', 1025, "") == -1, "1025 bytes without a newline are refused");
    ok(parse_start("", ' ', 1025, "") == -1, "1025 blanks are refused");
    ok(parse_start("set ", 'x', 1025, "") == -1, "a set of 1025 bytes is refused");
    ok(parse_start("gat 0 ", 'x', 1025, "") == -1, "a gat of 1025 bytes is refused");
    ok(parse_start("bget ", 'x', 1025, "") == -1, "a bget of 1025 bytes is refused");
    ok(parse_start("getx", 'x', 1025, "") == -1, "a word that starts with get is refused");
    ok(parse_start("get", ' ', 1025, "") == 0, "a get may have many blanks");
    ok(parse_start("get ", 'x', 60000, "") == 0, "a get may be long");
    ok(parse_start("gets ", 'x', 60000, "") == 0, "a gets may be long");
    ok(parse_start("   get ", 'x', 60000, "") == 0, "blanks may precede a long get");
    ok(parse_start(K50 K50, ' ', 2000, "") == -1, "a long word that begins with get is not a get");
    ok(parse_start("get ", 'x', 2 << 20, "\n") == (2 << 20) + 1, "a get may be of any length");
    ok(parse_start("", 'x', 3000, "\r\n") == 3002, "a long line with its newline is parsed");
}

/*
 * Whether the parts of the line, of `most` bytes each, have its keys in their order; the last part
 * ends with the line.
 */
static bool keys_in_parts(const char *text, size_t len, ssize_t most, unsigned int *nparts)
{
    struct slice rest = {strchr(text, 'g') + 4, 0}, want, key;
    struct request request;
    size_t start = 0;

    rest.len = (size_t)(text + len - rest.ptr) - 2;
    *nparts = 0;
    do {
        struct slice input = {text + start, len - start};
        ssize_t n = *nparts ? proto_parse_rest(input, VERB_GETS, &request)
                            : proto_parse_text(input, &request);

        if (n <= 0 || n > most || request.verb != VERB_GETS || request.error.len)
            return false;
        if (request.keys.len > PROTO_PART)
            return false;
        ++*nparts;
        start += (size_t)n;
        for (key = request.key; key.len > 0;) {
            if (!proto_next_key(&rest, &want) || !slice_equal(want, key))
                return false;
            if (!proto_next_key(&request.keys, &key))
                break;
        }
    } while (request.more);
    return start == len && !proto_next_key(&rest, &want);
}

static void a_long_get_is_parsed_in_parts(void)
{
    static char line[400000];
    struct request request;
    unsigned int nparts;
    bool right = true;
    size_t len, nkey;

    for (nkey = 1; nkey <= 250; nkey += 83) {
        len = (size_t)sprintf(line, "  gets ");
        while (len < 300000) {
            memset(line + len, 'a' + (int)(len % 26), nkey);
            len += nkey;
            line[len++] = ' ';
        }
        memcpy(line + len, "\r\n", 2);
        right &= keys_in_parts(line, len + 2, PROTO_PART + 2, &nparts) && nparts == 5;
    }
    ok(right, "a gets of 300,000 bytes has all its keys in five parts");
    for (len = PROTO_PART - 600, right = true; len < PROTO_PART + 600; len++) {
        memset(line, ' ', len);
        memcpy(line, "gets k", 6);
        memset(line + len - 300, 'x', 250);
        memcpy(line + len - 2, "\r\n", 2);
        right &= keys_in_parts(line, len, PROTO_PART + 2, &nparts) &&
                 nparts == 1 + (len > PROTO_PART + 2);
    }
    ok(right, "keys at the border of a part are whole, and the last part may have no key");
    for (len = 0; len < sizeof(line); len++)
        line[len] = len % 2 ? ' ' : 'k';
    memset(line, ' ', 2 * PROTO_PART);
    memcpy(line, "gets", 4);
    memcpy(line + sizeof(line) - 2, "\r\n", 2);
    ok(keys_in_parts(line, sizeof(line), 3 * PROTO_PART, &nparts) && nparts == 6,
       "keys behind many blanks are parsed in parts as well");
    memset(line, ' ', sizeof(line));
    memcpy(line, "get", 3);
    memcpy(line + 299998, "x\n", 2);
    ok(proto_parse_text((struct slice){line, sizeof(line)}, &request) == 300000 &&
           request.key.len == 1 && !request.more,
       "blanks alone are not a part");
    memset(line + 100000, 'k', 251);
    ok(proto_parse_text((struct slice){line, sizeof(line)}, &request) == 300000 &&
           request.error.len > 0 && !request.more,
       "a too long key is an error of the whole line");
}

static void long_blanks_before_a_get_end(void)
{
    static char line[2000];
    struct request request;

    memset(line, 'x', sizeof(line));
    memset(line, ' ', 101);
    memcpy(line + 100, "get ", 4);
    ok(parse_at_edge(line, sizeof(line), &request) == 0, "100 blanks may precede a long get");
    memcpy(line + 100, " get ", 5);
    ok(parse_at_edge(line, sizeof(line), &request) == -1, "101 blanks are refused");
}

static void bytes_of_any_value_are_key_bytes(void)
{
    static const char line[] = "get a\0b\x01\xff\r\n";
    struct request request;

    ok(parse_at_edge(line, sizeof(line) - 1, &request) == 11 && request.key.len == 5 &&
           memcmp(request.key.ptr, "a\0b\x01\xff", 5) == 0,
       "a key may hold any byte but blank and newline");
    ok(parse_at_edge("get \t\r\n", 7, &request) == 7 && request.key.len == 1, "a tab too");
}

static void many_keys_are_returned(void)
{
    static char line[8 + 2 * 30000 + 2] = "get";
    struct request request;
    struct slice key;
    size_t n = 1;

    for (int i = 0; i < 30000; i++)
        memcpy(line + 3 + 2 * i, " k", 2);
    memcpy(line + 3 + 2 * 30000, "\r\n", 2);
    ok(parse_at_edge(line, 3 + 60000 + 2, &request) == 60005, "a line may have 30,000 keys");
    while (proto_next_key(&request.keys, &key))
        n += key.len == 1 && *key.ptr == 'k';
    ok(n == 30000, "each of 30,000 keys is returned");
}

int main(void)
{
    make_edge();
    ok(COUNT(rows) >= 150, "the table has 150 lines or more");
    lines_are_read();
    long_lines_end();
    long_blanks_before_a_get_end();
    a_long_get_is_parsed_in_parts();
    bytes_of_any_value_are_key_bytes();
    many_keys_are_returned();
    return done();
}
