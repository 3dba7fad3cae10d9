/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text: the parser of the text protocol (memcached's protocol.txt).
 *
 * Each call parses one line. get with its keys and set in its usual form have a fast path that
 * reads each byte once; every other line is cut into words and goes through the table of verbs.
 * Both give the same request.
 */
#include "base/num.h"
#include "proto/meta.h"
#include "proto/proto.h"

#define BAD_FORMAT  SLICE("CLIENT_ERROR bad command line format\r\n")
#define BAD_EXPTIME SLICE("CLIENT_ERROR invalid exptime argument\r\n")
#define BAD_DELTA   SLICE("CLIENT_ERROR invalid numeric delta argument\r\n")
#define USAGE       "Usage: delete <key> [noreply]\r\n"
#define BAD_DELETE  SLICE("CLIENT_ERROR bad command line format.  " USAGE)
#define NO_COMMAND  SLICE("ERROR\r\n")

/* What follows a verb. */
enum shape {
    SHAPE_KEYS,      /* key... */
    SHAPE_EXP_KEYS,  /* exptime key... */
    SHAPE_STORE,     /* key flags exptime nvalue */
    SHAPE_STORE_CAS, /* key flags exptime nvalue cas */
    SHAPE_DELTA,     /* key delta */
    SHAPE_TOUCH,     /* key exptime */
    SHAPE_DELETE,    /* key [0] */
    SHAPE_WORDS,     /* parsed by the command */
    SHAPE_META,      /* see meta.h */
};

/*
 * A line has at least `min` and at most `max` words, verb included; a last word "noreply" at
 * position `noreply` (0: never) or later suppresses the answer. The number of keys has no limit.
 */
struct verb_row {
    char name[16];
    enum verb verb;
    enum shape shape;
    uint8_t min, max, noreply;
};

static const struct verb_row verbs[] = {
    {"get", VERB_GET, SHAPE_KEYS, 2, 0, 0},
    {"gets", VERB_GETS, SHAPE_KEYS, 2, 0, 0},
    {"bget", VERB_GET, SHAPE_KEYS, 2, 0, 0},
    {"gat", VERB_GAT, SHAPE_EXP_KEYS, 2, 0, 0},
    {"gats", VERB_GATS, SHAPE_EXP_KEYS, 2, 0, 0},
    {"set", VERB_SET, SHAPE_STORE, 5, 6, 4},
    {"mg", VERB_META_GET, SHAPE_META, 2, 0, 0},
    {"ms", VERB_META_SET, SHAPE_META, 2, 0, 0},
    {"md", VERB_META_DELETE, SHAPE_META, 2, 0, 0},
    {"ma", VERB_META_ARITH, SHAPE_META, 2, 0, 0},
    {"mn", VERB_META_NOOP, SHAPE_META, 1, 0, 0},
    {"me", VERB_META_DEBUG, SHAPE_META, 2, 0, 0},
    {"add", VERB_ADD, SHAPE_STORE, 5, 6, 4},
    {"replace", VERB_REPLACE, SHAPE_STORE, 5, 6, 4},
    {"append", VERB_APPEND, SHAPE_STORE, 5, 6, 4},
    {"prepend", VERB_PREPEND, SHAPE_STORE, 5, 6, 4},
    {"cas", VERB_CAS, SHAPE_STORE_CAS, 6, 7, 5},
    {"incr", VERB_INCR, SHAPE_DELTA, 3, 4, 2},
    {"decr", VERB_DECR, SHAPE_DELTA, 3, 4, 2},
    {"touch", VERB_TOUCH, SHAPE_TOUCH, 3, 4, 2},
    {"delete", VERB_DELETE, SHAPE_DELETE, 2, 4, 2},
    {"flush_all", VERB_FLUSH_ALL, SHAPE_WORDS, 1, 3, 1},
    {"cache_memlimit", VERB_CACHE_MEMLIMIT, SHAPE_WORDS, 2, 3, 1},
    {"verbosity", VERB_VERBOSITY, SHAPE_WORDS, 2, 3, 1},
    {"stats", VERB_STATS, SHAPE_WORDS, 1, PROTO_MAX_TOKENS, 0},
    {"version", VERB_VERSION, SHAPE_WORDS, 1, 1, 0},
    {"quit", VERB_QUIT, SHAPE_WORDS, 1, 1, 0},
    {"watch", VERB_WATCH, SHAPE_WORDS, 1, PROTO_MAX_TOKENS, 1},
    {"extstore", VERB_EXTSTORE, SHAPE_WORDS, 3, PROTO_MAX_TOKENS, 2},
    {"slabs", VERB_SLABS, SHAPE_WORDS, 1, PROTO_MAX_TOKENS, 3},
    {"shutdown", VERB_SHUTDOWN, SHAPE_WORDS, 1, PROTO_MAX_TOKENS, 0},
    {"refresh_certs", VERB_REFRESH_CERTS, SHAPE_WORDS, 1, PROTO_MAX_TOKENS, 1},
    {"bmc", VERB_BMC, SHAPE_WORDS, 2, 2, 0},
    {"lru", VERB_LRU, SHAPE_WORDS, 2, PROTO_MAX_TOKENS, 1},
    {"lru_crawler", VERB_LRU_CRAWLER, SHAPE_WORDS, 2, 3, 0},
};

/* Cuts the next word, which ends at a blank, off `line`. Empty: there is none. */
static inline struct slice next_word(struct slice *line)
{
    struct slice word = *line;
    const char *stop;

    while (word.len > 0 && *word.ptr == ' ') {
        word.ptr++;
        word.len--;
    }
    stop = word.len > 0 ? memchr(word.ptr, ' ', word.len) : NULL;
    if (!stop) {
        *line = (struct slice){0};
        return word;
    }
    line->len = word.len - (size_t)(stop - word.ptr);
    line->ptr = stop;
    word.len = (size_t)(stop - word.ptr);
    return word;
}

bool proto_next_key(struct slice *keys, struct slice *key)
{
    struct slice word = next_word(keys);

    if (word.len == 0)
        return false;
    *key = word;
    return true;
}

/* The line without its line end, which is at `newline`. */
static inline struct slice line_before(struct slice input, const char *newline)
{
    size_t len = (size_t)(newline - input.ptr);

    return (struct slice){input.ptr, len - (len > 0 && newline[-1] == '\r')};
}

static const struct verb_row *find_verb(struct slice word)
{
    char name[sizeof(verbs[0].name)] = {0};
    size_t i;

    if (word.len == 0 || word.len >= sizeof(name))
        return NULL;
    memcpy(name, word.ptr, word.len);
    for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (memcmp(name, verbs[i].name, sizeof(name)) == 0)
            return &verbs[i];
    return NULL;
}

static bool is_http(struct slice line)
{
    static const struct slice mark = {"HTTP/", 5};
    struct slice word, last = {0};

    while ((word = next_word(&line)).len > 0)
        last = word;
    return last.len >= mark.len && memcmp(last.ptr, mark.ptr, mark.len) == 0;
}

/* Cuts the line into words; words beyond the size of tokens are dropped. */
static void cut_words(struct slice line, struct slice verb, struct request *request)
{
    request->tokens[0] = verb;
    request->ntokens = 1;
    while (request->ntokens < PROTO_MAX_TOKENS) {
        struct slice word = next_word(&line);

        if (word.len == 0)
            return;
        request->tokens[request->ntokens++] = word;
    }
}

static void parse_store(struct request *request, bool with_cas)
{
    const struct slice *word = request->tokens;
    int64_t nvalue;

    request->key = word[1];
    if (word[1].len > PROTO_KEY_MAX || !num_cut_u32(word[2], &request->client_flags) ||
        !num_cut_i32(word[3], &request->exptime) || !num_parse_i64(word[4], &nvalue) ||
        nvalue < 0 || nvalue > PROTO_NVALUE_MAX ||
        (with_cas && !num_parse_u64(word[5], &request->cas))) {
        request->error = BAD_FORMAT;
        return;
    }
    request->nvalue = (uint64_t)nvalue;
    request->has_value = true;
}

static bool parse_key(struct request *request)
{
    request->key = request->tokens[1];
    if (request->key.len > PROTO_KEY_MAX) {
        request->error = BAD_FORMAT;
        return false;
    }
    return true;
}

static void parse_delta(struct request *request)
{
    if (parse_key(request) && !num_parse_u64(request->tokens[2], &request->delta))
        request->error = BAD_DELTA;
}

static void parse_touch(struct request *request)
{
    if (parse_key(request) && !num_cut_i32(request->tokens[2], &request->exptime))
        request->error = BAD_EXPTIME;
}

/* Old clients send a time behind the key, which must be 0. */
static void parse_delete(struct request *request)
{
    bool zero = request->ntokens > 2 && slice_equal(request->tokens[2], SLICE("0"));

    if (request->ntokens > 2 && request->ntokens - request->noreply != (zero ? 3 : 2)) {
        request->error = BAD_DELETE;
        return;
    }
    parse_key(request);
}

static void parse_words(const struct verb_row *row, struct request *request)
{
    size_t last = request->ntokens - 1;

    if (request->ntokens < row->min || request->ntokens > row->max) {
        request->error = NO_COMMAND;
        return;
    }
    request->noreply = row->noreply && last >= row->noreply &&
                       slice_equal(request->tokens[last], SLICE("noreply"));
    switch (row->shape) {
    case SHAPE_STORE:
    case SHAPE_STORE_CAS:
        parse_store(request, row->shape == SHAPE_STORE_CAS);
        break;
    case SHAPE_DELTA:
        parse_delta(request);
        break;
    case SHAPE_TOUCH:
        parse_touch(request);
        break;
    case SHAPE_DELETE:
        parse_delete(request);
        break;
    case SHAPE_KEYS:
    case SHAPE_EXP_KEYS:
    case SHAPE_WORDS:
    case SHAPE_META:
        break;
    }
}

static void parse_keys(struct slice line, bool with_exptime, struct request *request)
{
    struct slice exptime = {0};

    if (with_exptime) {
        exptime = next_word(&line);
        if (exptime.len && !num_cut_i32(exptime, &request->exptime)) {
            request->error = BAD_EXPTIME;
            return;
        }
    }
    request->key = next_word(&line);
    request->keys = line;
    if (request->key.len == 0 && exptime.len == 0)
        request->error = NO_COMMAND;
}

static void parse_line(struct slice line, struct request *request)
{
    struct slice rest = line;
    struct slice word = next_word(&rest);
    const struct verb_row *row = find_verb(word);

    *request = (struct request){.verb = VERB_UNKNOWN};
    if (!row) {
        request->error = NO_COMMAND;
        if (is_http(line)) {
            request->verb = VERB_HTTP;
            request->error = (struct slice){0};
        }
        return;
    }
    request->verb = row->verb;
    if (row->shape == SHAPE_KEYS || row->shape == SHAPE_EXP_KEYS) {
        parse_keys(rest, row->shape == SHAPE_EXP_KEYS, request);
        return;
    }
    if (row->shape == SHAPE_META) {
        proto_parse_meta(rest, request);
        return;
    }
    cut_words(rest, word, request);
    parse_words(row, request);
}

/* --- long lines of get ----------------------------------------------------- */

static bool is_get(struct slice verb)
{
    return slice_equal(verb, SLICE("get")) || slice_equal(verb, SLICE("gets"));
}

/* There is no newline yet. 0: wait for more; -1: the line is too long. */
static ssize_t unfinished(struct slice input)
{
    struct slice line = input;
    struct slice verb;

    if (input.len <= PROTO_LINE_MAX)
        return 0;
    verb = next_word(&line);
    if (verb.ptr - input.ptr > PROTO_BLANKS_MAX || line.len == 0 || !is_get(verb))
        return -1;
    return 0;
}

/* The part of the line that can be parsed without cutting a key; no key is too long. */
static struct slice first_part(struct slice line)
{
    const char *blank = memrchr(line.ptr, ' ', PROTO_PART);

    return (struct slice){line.ptr, blank ? (size_t)(blank - line.ptr) + 1 : PROTO_PART};
}

static bool has_long_key(struct slice keys)
{
    struct slice key;

    while (proto_next_key(&keys, &key))
        if (key.len > PROTO_KEY_MAX)
            return true;
    return false;
}

/* From the first key to the end of the line. */
static size_t keys_bytes(struct slice line, const struct request *request)
{
    return line.len - (size_t)(request->key.ptr - line.ptr);
}

/* Parses a line over PROTO_PART bytes; `nline` includes its end. Returns as proto_parse_text. */
static ssize_t parse_long(struct slice line, size_t nline, struct request *request)
{
    struct slice keys = line;
    struct slice verb = next_word(&keys);
    struct slice part;

    if (is_get(verb) && has_long_key(keys)) {
        *request = (struct request){.verb = VERB_GET, .error = BAD_FORMAT};
        return (ssize_t)nline;
    }
    part = first_part(line);
    parse_line(part, request);
    if (is_get(verb) && request->error.len == 0) {
        request->more = true;
        return (ssize_t)part.len;
    }
    parse_line(line, request);
    if (!is_get(verb) || request->error.len > 0 || keys_bytes(line, request) <= PROTO_PART)
        return (ssize_t)nline;
    /* The blanks before the first key are a part without one. */
    nline = line.len - keys_bytes(line, request);
    *request = (struct request){.verb = request->verb, .more = true};
    return (ssize_t)nline;
}

ssize_t proto_parse_rest(struct slice input, enum verb verb, struct request *request)
{
    size_t nsearched = input.len < PROTO_PART ? input.len : PROTO_PART;
    const char *newline = memchr(input.ptr, '\n', nsearched);
    struct slice part = newline ? line_before(input, newline) : first_part(input);

    *request = (struct request){.verb = verb, .more = !newline, .keys = part};
    proto_next_key(&request->keys, &request->key);
    return newline ? newline - input.ptr + 1 : (ssize_t)part.len;
}

/* Parses a number of one to nine digits, the usual form, and advances *at behind it. */
static inline bool short_number(const char **at, const char *end, uint32_t *out)
{
    const char *p = *at;
    const char *limit = end - p > 9 ? p + 9 : end;
    uint32_t value = 0;

    for (; p < limit && *p >= '0' && *p <= '9'; p++)
        value = value * 10 + (uint32_t)(*p - '0');
    if (p == *at)
        return false;
    *at = p;
    *out = value;
    return true;
}

/*
 * Parses "set KEY FLAGS EXPTIME NVALUE" and an optional " noreply", with single blanks and short
 * numbers. False: it has to go through the table; *request is then undefined.
 */
static bool parse_usual_set(struct slice line, struct request *request)
{
    const char *key = line.ptr + 4;
    const char *end = line.ptr + line.len;
    const char *p = key < end ? memchr(key, ' ', (size_t)(end - key)) : NULL;
    uint32_t exptime, nvalue;
    bool noreply;

    if (!p || p == key || p - key > PROTO_KEY_MAX)
        return false;
    request->key = (struct slice){key, (size_t)(p - key)};
    p++;
    if (!short_number(&p, end, &request->client_flags) || p == end || *p++ != ' ' ||
        !short_number(&p, end, &exptime) || p == end || *p++ != ' ' ||
        !short_number(&p, end, &nvalue))
        return false;
    noreply = slice_equal((struct slice){p, (size_t)(end - p)}, SLICE(" noreply"));
    if (p != end && !noreply)
        return false;
    request->verb = VERB_SET;
    request->error = (struct slice){0};
    request->ntokens = 0;
    request->exptime = exptime;
    request->nvalue = nvalue;
    request->cas = 0;
    request->more = false;
    request->noreply = noreply;
    request->has_value = true;
    request->binary = false;
    return true;
}

static void parse_get(struct slice line, struct request *request)
{
    line = (struct slice){line.ptr + 4, line.len > 4 ? line.len - 4 : 0};
    request->verb = VERB_GET;
    request->key = next_word(&line);
    request->keys = line;
    request->error = request->key.len ? (struct slice){0} : NO_COMMAND;
    request->ntokens = 0;
    request->more = false;
    request->noreply = false;
    request->has_value = false;
    request->binary = false;
}

ssize_t proto_parse_text(struct slice input, struct request *request)
{
    const char *newline = input.len ? memchr(input.ptr, '\n', input.len) : NULL;
    struct slice line;

    if (!newline)
        return unfinished(input);
    line = line_before(input, newline);
    if (line.len > PROTO_PART)
        return parse_long(line, (size_t)(newline - input.ptr) + 1, request);
    if (line.len > 4 && memcmp(line.ptr, "get ", 4) == 0)
        parse_get(line, request);
    else if (!(line.len > 4 && memcmp(line.ptr, "set ", 4) == 0 && parse_usual_set(line, request)))
        parse_line(line, request);
    return newline - input.ptr + 1;
}
