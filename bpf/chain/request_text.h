/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * request_text: text and meta commands; a part of request_parser.h, include that.
 *
 * A line is split into tokens at spaces. Its verb determines the kinds of the others (plan). The
 * events of a command come at the line's end, when the server executes it; only the keys of gat are
 * reported one by one, as each of them ends.
 */
#ifndef MC_REQUEST_TEXT_H
#define MC_REQUEST_TEXT_H

/* The kinds of tokens. */
enum req_token {
    TOKEN_WORD, /* may be noreply */
    TOKEN_ANY,  /* may not */
    TOKEN_KEY,
    TOKEN_KEYS,   /* this and all that follow */
    TOKEN_FLAGS,  /* this and the next three: numbers of a storage command */
    TOKEN_TIME,   /* may have a sign */
    TOKEN_LENGTH, /* of the value */
    TOKEN_CAS,
    TOKEN_NOREPLY, /* noreply or nothing */
    TOKEN_SECONDS,
    TOKEN_META1, /* the first flag of a meta command; in 1.5.19 this token has all flags */
    TOKEN_META,  /* and all that follow */
    TOKEN_STATS,
    TOKEN_CRAWLER,
    TOKEN_NONE, /* none may follow: servers differ */
};

enum req_command {
    COMMAND_EMPTY,
    COMMAND_UNKNOWN,
    COMMAND_READ,
    COMMAND_STORE,
    COMMAND_KEYED, /* writes one key, may have noreply */
    COMMAND_GAT,
    COMMAND_FLUSH,
    COMMAND_MG,
    COMMAND_MS,
    COMMAND_MD, /* and ma */
    COMMAND_MN,
    COMMAND_ME,
    COMMAND_PLAIN, /* writes nothing, has one response */
    COMMAND_ADMIN, /* may do anything, has one response */
    COMMAND_LAST,  /* the connection ends */
    COMMAND_LOST,
};

/* What the line has so far. */
enum req_line {
    LINE_KEY = 1 << 0,     /* a key that is not too long */
    LINE_NOREPLY = 1 << 1, /* directly before the line's end */
    LINE_MAYBE = 1 << 2,   /* noreply elsewhere, or q: there may be no response */
    LINE_TWO = 1 << 3,     /* there may be two responses */
    LINE_CODED = 1 << 4,   /* the key is in base64 */
    LINE_WRITE = 1 << 5,   /* mg with a flag that writes */
    LINE_SIGN = 1 << 6,    /* the number has one */
};

enum {
    REQ_LINE_MAX = 2048, /* with a longer one, but of get, the server closes */
    REQ_VALUE_MAX = 0x7ffffffd,
    REQ_SILENT_MAX = 1000000, /* 1.5.19 takes a larger value with noreply for commands */
    REQ_DIGITS_MAX = 18,
    REQ_OPAQUE_MAX = 32, /* with its O */
};

#define REQ_PLAN(a, b, c, d, e, f, g)                                                              \
    ((__u32)(a) | (__u32)(b) << 4 | (__u32)(c) << 8 | (__u32)(d) << 12 | (__u32)(e) << 16 |        \
     (__u32)(f) << 20 | (__u32)(g) << 24)

/* --- commands by name ------------------------------------------------------ */

struct req_verb {
    char name[16]; /* two words of the line */
    __u32 plan;
    __u32 command;
} __attribute__((aligned(8)));

#define PLAN_STORE                                                                                 \
    REQ_PLAN(TOKEN_KEY, TOKEN_FLAGS, TOKEN_TIME, TOKEN_LENGTH, TOKEN_NOREPLY, TOKEN_NONE,          \
             TOKEN_NONE)
#define PLAN_CAS                                                                                   \
    REQ_PLAN(TOKEN_KEY, TOKEN_FLAGS, TOKEN_TIME, TOKEN_LENGTH, TOKEN_CAS, TOKEN_NOREPLY, TOKEN_NONE)
#define PLAN_MS  (TOKEN_KEY | TOKEN_LENGTH << 4 | TOKEN_META << 8)
#define PLAN_MG  (TOKEN_KEY | TOKEN_META1 << 4 | TOKEN_META << 8)
#define PLAN_GAT (TOKEN_ANY | TOKEN_KEYS << 4)

static const struct req_verb req_verbs[] = {
    {"get", TOKEN_ANY, COMMAND_READ},
    {"set", PLAN_STORE, COMMAND_STORE},
    {"mg", PLAN_MG, COMMAND_MG},
    {"ms", PLAN_MS, COMMAND_MS},
    {"gets", TOKEN_ANY, COMMAND_READ},
    {"delete", TOKEN_KEY, COMMAND_KEYED},
    {"md", PLAN_MG, COMMAND_MD},
    {"mn", TOKEN_NONE, COMMAND_MN},
    {"add", PLAN_STORE, COMMAND_STORE},
    {"incr", TOKEN_KEY, COMMAND_KEYED},
    {"decr", TOKEN_KEY, COMMAND_KEYED},
    {"ma", PLAN_MG, COMMAND_MD},
    {"cas", PLAN_CAS, COMMAND_STORE},
    {"replace", PLAN_STORE, COMMAND_STORE},
    {"append", PLAN_STORE, COMMAND_STORE},
    {"prepend", PLAN_STORE, COMMAND_STORE},
    {"touch", TOKEN_KEY, COMMAND_KEYED},
    {"gat", PLAN_GAT, COMMAND_GAT},
    {"gats", PLAN_GAT, COMMAND_GAT},
    {"version", TOKEN_WORD, COMMAND_PLAIN},
    {"stats", TOKEN_STATS, COMMAND_PLAIN},
    {"flush_all", TOKEN_SECONDS, COMMAND_FLUSH},
    {"bget", TOKEN_ANY, COMMAND_READ},
    {"quit", TOKEN_WORD, COMMAND_LAST},
    {"verbosity", TOKEN_WORD, COMMAND_PLAIN},
    {"me", TOKEN_ANY, COMMAND_ME},
    {"lru_crawler", TOKEN_CRAWLER, COMMAND_PLAIN},
    {"slabs", TOKEN_WORD, COMMAND_ADMIN},
    {"lru", TOKEN_WORD, COMMAND_ADMIN},
    {"extstore", TOKEN_WORD, COMMAND_ADMIN},
    {"cache_memlimit", TOKEN_WORD, COMMAND_ADMIN},
    {"refresh_certs", TOKEN_WORD, COMMAND_ADMIN},
    {"shutdown", TOKEN_WORD, COMMAND_LAST},
    {"watch", TOKEN_NONE, COMMAND_LOST},
};

enum { REQ_VERBS = sizeof(req_verbs) / sizeof(*req_verbs) };

/* The verb has ended. One that is longer than all known verbs is unknown by its length. */
PARSER_INLINE void req_text_verb(struct request_parser *p)
{
    __u64 first = p->ntoken < 8 ? p->word : p->head;
    __u64 second = p->ntoken < 8 ? 0 : p->word;
    __u64 name[2];
    __u32 i;

    p->command = COMMAND_UNKNOWN;
    p->plan = TOKEN_WORD;
    p->seconds = 0;
    if (p->ntoken > 15)
        return;
    for (i = 0; i < REQ_VERBS; i++) {
        __builtin_memcpy(name, req_verbs[i].name, sizeof(name));
        if (name[0] == first && name[1] == second) {
            p->command = (__u8)req_verbs[i].command;
            p->plan = req_verbs[i].plan;
            break;
        }
    }
}

/* --- tokens by kind -------------------------------------------------------- */

#define REQ_WORD(a, b, c, d, e, f, g)                                                              \
    ((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 |       \
     (__u64)(f) << 40 | (__u64)(g) << 48)

PARSER_INLINE int req_text_is_noreply(const struct request_parser *p)
{
    return p->ntoken == 7 && p->word == REQ_WORD('n', 'o', 'r', 'e', 'p', 'l', 'y');
}

/* A byte of a number. 0: it cannot be one. */
PARSER_INLINE int req_text_digit(struct request_parser *p, __u8 byte, __u8 kind)
{
    __u32 digit = byte - '0';

    if (p->ntoken == 0)
        p->flags &= (__u8)~LINE_SIGN;
    if (digit <= 9) {
        p->number = p->number * 10 + digit;
        return p->ntoken < REQ_DIGITS_MAX;
    }
    if (p->ntoken > 0 || (byte != '-' && byte != '+'))
        return 0;
    p->flags |= LINE_SIGN;
    return kind == TOKEN_TIME;
}

/* A number has ended. 0: it is out of range, or only a sign. */
PARSER_INLINE int req_text_number(struct request_parser *p, __u8 kind)
{
    if (p->ntoken == 1 && (p->flags & LINE_SIGN))
        return 0;
    if (kind == TOKEN_FLAGS)
        return p->number <= 0xffffffffu;
    if (kind != TOKEN_LENGTH)
        return 1;
    p->nvalue = (__u32)p->number;
    return p->number <= REQ_VALUE_MAX;
}

/* A byte of flush_all's delay; what is no number, or negative, is 0. */
PARSER_INLINE void req_text_seconds(struct request_parser *p, __u8 byte)
{
    __u32 digit = byte - '0';

    if (p->ntoken == 0)
        p->flags &= (__u8)~LINE_SIGN;
    if (byte == '-')
        p->flags |= LINE_SIGN;
    if (digit > 9 || (p->flags & LINE_SIGN))
        return;
    p->number = p->number * 10 + digit;
    if (p->number > 0xffffffffu)
        p->number = 0xffffffffu;
    p->seconds = (__u32)p->number;
}

/* --- meta flags ------------------------------------------------------------ */

#define REQ_FLAG(c) (1ull << (((c) - 'A') & 63))

/* The flags with which mg writes nothing; digits are part of an opaque. */
#define FLAGS_READ                                                                                 \
    (REQ_FLAG('b') | REQ_FLAG('c') | REQ_FLAG('f') | REQ_FLAG('h') | REQ_FLAG('k') |               \
     REQ_FLAG('l') | REQ_FLAG('O') | REQ_FLAG('q') | REQ_FLAG('s') | REQ_FLAG('t') |               \
     REQ_FLAG('u') | REQ_FLAG('v'))
/* The flags of ms: those without an argument, those with a number, and all. */
#define FLAGS_ALONE                                                                                \
    (REQ_FLAG('b') | REQ_FLAG('c') | REQ_FLAG('I') | REQ_FLAG('k') | REQ_FLAG('q') | REQ_FLAG('s'))
#define FLAGS_NUMBER (REQ_FLAG('C') | REQ_FLAG('F') | REQ_FLAG('T'))
#define FLAGS_SET    (FLAGS_ALONE | FLAGS_NUMBER | REQ_FLAG('M') | REQ_FLAG('O'))

PARSER_INLINE __u64 req_text_flag(__u8 byte)
{
    return byte >= 'A' && byte <= 'z' ? REQ_FLAG(byte) : 0;
}

PARSER_INLINE void req_text_meta(struct request_parser *p, __u8 byte)
{
    if (byte == 'q')
        p->flags |= LINE_MAYBE;
    if (byte == 'b')
        p->flags |= LINE_CODED;
    if (!(req_text_flag(byte) & FLAGS_READ) && (byte < '0' || byte > '9'))
        p->flags |= LINE_WRITE;
}

/* A byte of a flag of ms. 0: servers differ in whether they read a value after such a line. */
PARSER_INLINE int req_text_meta_set(struct request_parser *p, __u8 byte)
{
    __u64 flag = req_text_flag((__u8)(p->ntoken < 8 ? p->word : p->head));

    if (p->ntoken == 0) {
        flag = req_text_flag(byte) & FLAGS_SET & ~p->given;
        p->given |= flag;
        return flag != 0;
    }
    if (flag & FLAGS_ALONE)
        return 0;
    if (flag & REQ_FLAG('O'))
        return p->ntoken < REQ_OPAQUE_MAX;
    if (flag & REQ_FLAG('M'))
        return p->ntoken == 1;
    return (byte >= '0' && byte <= '9' && p->ntoken <= REQ_DIGITS_MAX) ||
           (byte == '-' && p->ntoken == 1 && (flag & REQ_FLAG('T')));
}

/* A flag of ms has ended; 0 as above. */
PARSER_INLINE int req_text_meta_set_end(const struct request_parser *p)
{
    __u64 flag = req_text_flag((__u8)(p->ntoken < 8 ? p->word : p->head));

    if (flag & FLAGS_NUMBER)
        return p->ntoken > 1 && (p->ntoken > 2 || (p->word >> 8) != '-');
    return !(flag & REQ_FLAG('M')) || p->ntoken == 2;
}

/* --- the line -------------------------------------------------------------- */

/* A byte of a token. 0: lost. */
PARSER_INLINE int req_text_byte(struct request_parser *p, __u8 byte, const __u64 *seeds)
{
    __u8 kind = p->nth ? p->plan & 15 : TOKEN_WORD;
    int good = byte != 0;

    if (kind > TOKEN_KEYS) {
        if (kind <= TOKEN_CAS)
            good = req_text_digit(p, byte, kind);
        else if (kind == TOKEN_SECONDS)
            req_text_seconds(p, byte);
        else if (kind == TOKEN_META1 || (kind == TOKEN_META && p->ntoken == 0))
            req_text_meta(p, byte);
        if (kind == TOKEN_META && p->command == COMMAND_MS)
            good &= req_text_meta_set(p, byte);
    }
    req_fold(p, byte, seeds);
    return good;
}

PARSER_INLINE __u32 req_text_key_end(struct request_parser *p, __u8 kind, const __u64 *seeds)
{
    if (p->ntoken > MC_KEY_MAX)
        return 0;
    p->flags |= LINE_KEY;
    req_key_end(p, seeds);
    return kind == TOKEN_KEYS ? REQ_WRITE : 0;
}

/*
 * The argument of stats. 0: a dump that prints keys unescaped, which may look like any line. A
 * response without END is UNCERTAIN.
 */
PARSER_INLINE int req_text_stats_end(struct request_parser *p)
{
    __u16 start = (__u16)p->word;

    if (p->ntoken >= 8)
        start = (__u16)p->head;
    if (p->ntoken > 5 && start == ('s' | 'i' << 8))
        p->flags |= LINE_MAYBE;
    return start != ('c' | 'a' << 8) && start != ('d' | 'e' << 8);
}

/* The argument of lru_crawler: a dump may or may not begin with an OK. */
PARSER_INLINE void req_text_crawler_end(struct request_parser *p)
{
    __u64 start = p->ntoken < 8 ? p->word : p->head;

    if ((start & 0xff) == 'm')
        p->flags |= LINE_TWO;
}

/* A token has ended, and `byte` follows it. Returns its events, or LOST. */
PARSER_INLINE __u32 req_text_token_end(struct request_parser *p, __u8 byte, const __u64 *seeds)
{
    __u8 kind = p->plan & 15;
    __u32 events = 0;
    int good = 1;

    if (p->nth == 0) {
        req_text_verb(p);
        p->nth = 1;
        req_token_begin(p);
        return p->command == COMMAND_LOST ? REQ_LOST : 0;
    }
    if (kind == TOKEN_KEY || kind == TOKEN_KEYS)
        events = req_text_key_end(p, kind, seeds);
    else if (kind == TOKEN_WORD || kind == TOKEN_NOREPLY || kind == TOKEN_SECONDS)
        if (req_text_is_noreply(p))
            p->flags |= byte == ' ' ? LINE_MAYBE : LINE_NOREPLY;
        else
            good = kind != TOKEN_NOREPLY;
    else if (kind >= TOKEN_FLAGS && kind <= TOKEN_CAS)
        good = req_text_number(p, kind);
    else if (kind == TOKEN_META && p->command == COMMAND_MS)
        good = req_text_meta_set_end(p);
    else if (kind == TOKEN_STATS)
        good = req_text_stats_end(p);
    else if (kind == TOKEN_CRAWLER)
        req_text_crawler_end(p);
    else if (kind == TOKEN_NONE)
        good = 0;
    if (kind != TOKEN_KEYS && kind != TOKEN_META)
        p->plan >>= 4;
    if (p->nth < 255)
        p->nth++;
    req_token_begin(p);
    return good ? events : REQ_LOST;
}

/* How many responses the command will have. */
PARSER_INLINE __u32 req_text_answer(const struct request_parser *p)
{
    if (p->flags & LINE_TWO)
        return REQ_ANSWERED | REQ_UNCERTAIN;
    if (p->flags & LINE_MAYBE)
        return REQ_UNCERTAIN;
    if (!(p->flags & LINE_NOREPLY))
        return REQ_ANSWERED;
    if (p->command == COMMAND_STORE || p->command == COMMAND_KEYED || p->command == COMMAND_FLUSH)
        return REQ_SILENT;
    return REQ_UNCERTAIN;
}

PARSER_INLINE __u32 req_text_write(const struct request_parser *p)
{
    if (p->flags & LINE_CODED)
        return REQ_WRITE_ALL;
    return p->flags & LINE_KEY ? REQ_WRITE : 0;
}

/* The line of a command whose value follows. */
PARSER_INLINE __u32 req_text_value(struct request_parser *p)
{
    __u8 kind = p->plan & 15; /* of the first token that is missing */

    if ((kind != TOKEN_NOREPLY && kind != TOKEN_NONE && kind != TOKEN_META) ||
        !(p->flags & LINE_KEY) ||
        (p->nvalue > REQ_SILENT_MAX && (p->flags & (LINE_NOREPLY | LINE_MAYBE))))
        return req_lose(p);
    p->skip = p->nvalue;
    p->state = REQ_STATE_DATA_CR;
    return req_text_write(p);
}

/* The value and its end are complete. */
PARSER_INLINE __u32 req_text_value_end(struct request_parser *p)
{
    __u32 events = REQ_DATA | req_text_answer(p);

    if (p->flags & LINE_CODED)
        events |= REQ_WRITE_ALL;
    req_next(p, REQ_STATE_BLANK);
    return events;
}

PARSER_INLINE __u32 req_text_line_end(struct request_parser *p)
{
    __u32 events = req_text_answer(p);

    if (p->line > REQ_LINE_MAX && p->command != COMMAND_READ && p->command != COMMAND_GAT)
        return req_lose(p);
    switch ((enum req_command)p->command) {
    case COMMAND_STORE:
    case COMMAND_MS:
        return req_text_value(p);
    case COMMAND_KEYED:
    case COMMAND_MD:
        events |= req_text_write(p);
        break;
    case COMMAND_MG:
        if (p->flags & LINE_WRITE)
            events |= req_text_write(p);
        break;
    case COMMAND_FLUSH:
    case COMMAND_ADMIN:
        events |= REQ_WRITE_ALL;
        break;
    case COMMAND_UNKNOWN:
        events |= REQ_WRITE_ALL | REQ_UNKNOWN;
        break;
    case COMMAND_MN:
        events |= REQ_BARRIER;
        break;
    case COMMAND_ME:
        events = REQ_ANSWERED | REQ_UNCERTAIN;
        break;
    case COMMAND_LAST:
        events = REQ_SILENT;
        break;
    case COMMAND_EMPTY:
    case COMMAND_READ:
    case COMMAND_GAT:
    case COMMAND_PLAIN:
    case COMMAND_LOST:
        break;
    }
    req_next(p, REQ_STATE_BLANK);
    return events;
}

/* A byte of a line. */
PARSER_INLINE __u32 req_text_line(struct request_parser *p, __u8 byte, const __u64 *seeds)
{
    __u32 events = 0;

    if (byte != ' ' && byte != '\r' && byte != '\n') {
        p->state = REQ_STATE_TOKEN;
        return req_text_byte(p, byte, seeds) ? 0 : req_lose(p);
    }
    if (p->state == REQ_STATE_TOKEN)
        events = req_text_token_end(p, byte, seeds);
    if (events & REQ_LOST)
        return req_lose(p);
    p->state = REQ_STATE_BLANK;
    if (byte == '\n')
        return events | req_text_line_end(p);
    if (p->command == COMMAND_READ) {
        p->state = REQ_STATE_REST;
        p->skip_line = 1;
    } else if (byte == '\r') {
        p->state = REQ_STATE_CR;
    }
    return events;
}

PARSER_INLINE __u32 req_text(struct request_parser *p, __u8 byte, const __u64 *seeds)
{
    if (p->state == REQ_STATE_LOST)
        return 0;
    p->line++;
    switch (p->state) {
    case REQ_STATE_BLANK:
    case REQ_STATE_TOKEN:
        return req_text_line(p, byte, seeds);
    case REQ_STATE_REST:
        return byte == '\n' ? req_text_line_end(p) : 0;
    case REQ_STATE_CR:
        return byte == '\n' ? req_text_line_end(p) : req_lose(p);
    case REQ_STATE_DATA_CR:
        p->state = REQ_STATE_DATA_LF;
        return byte == '\r' ? 0 : req_lose(p);
    case REQ_STATE_DATA_LF:
        return byte == '\n' ? req_text_value_end(p) : req_lose(p);
    default:
        return req_lose(p);
    }
}

#endif
