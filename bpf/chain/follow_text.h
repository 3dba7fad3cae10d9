/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * follow_text: text and meta commands; a part of follow.h, which is to be included.
 *
 * A line is cut into tokens at spaces. Its verb says what the others are (plan); what the command
 * does and whether it is answered is said at the line's end, where the server executes it, but for
 * the keys of gat, each of which is written as it ends.
 */
#ifndef MC_FOLLOW_TEXT_H
#define MC_FOLLOW_TEXT_H

/* What a token of a line is. */
enum follow_token {
    TOKEN_WORD, /* may be noreply */
    TOKEN_ANY,  /* may not */
    TOKEN_KEY,
    TOKEN_KEYS,   /* all that follow */
    TOKEN_FLAGS,  /* numbers of a storage command */
    TOKEN_TIME,   /* may have a sign */
    TOKEN_LENGTH, /* of the value */
    TOKEN_CAS,
    TOKEN_NOREPLY, /* nothing else */
    TOKEN_SECONDS,
    TOKEN_META1, /* the first of a meta command's flags: in 1.5.19 it has all of them */
    TOKEN_META,  /* and all that follow */
    TOKEN_STATS,
    TOKEN_CRAWLER,
    TOKEN_NONE, /* servers differ */
};

enum follow_command {
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
    COMMAND_PLAIN, /* writes nothing, has one answer */
    COMMAND_ADMIN, /* may do anything, has one answer */
    COMMAND_LAST,  /* the connection ends */
    COMMAND_LOST,
};

/* What was found in the line so far. */
enum follow_line {
    LINE_KEY = 1 << 0,     /* one that is not too long */
    LINE_NOREPLY = 1 << 1, /* directly before the line's end */
    LINE_MAYBE = 1 << 2,   /* noreply elsewhere, q: the answer may not come */
    LINE_TWO = 1 << 3,     /* there may be two */
    LINE_CODED = 1 << 4,   /* the key is in base64 */
    LINE_WRITE = 1 << 5,   /* mg with a flag that writes */
    LINE_SIGN = 1 << 6,    /* of the number */
};

enum {
    FOLLOW_LINE_MAX = 2048, /* a longer one of other commands than get closes */
    FOLLOW_VALUE_MAX = 0x7ffffffd,
    FOLLOW_SILENT_MAX = 1000000, /* 1.5.19 takes a larger value with noreply for commands */
    FOLLOW_DIGITS_MAX = 18,
    FOLLOW_OPAQUE_MAX = 32, /* with its O */
};

#define FOLLOW_PLAN(a, b, c, d, e, f, g)                                                           \
    ((__u32)(a) | (__u32)(b) << 4 | (__u32)(c) << 8 | (__u32)(d) << 12 | (__u32)(e) << 16 |        \
     (__u32)(f) << 20 | (__u32)(g) << 24)

/* --- commands by name ------------------------------------------------------ */

struct follow_verb {
    char name[16]; /* two words of the line */
    __u32 plan;
    __u32 command;
} __attribute__((aligned(8)));

#define PLAN_STORE                                                                                 \
    FOLLOW_PLAN(TOKEN_KEY, TOKEN_FLAGS, TOKEN_TIME, TOKEN_LENGTH, TOKEN_NOREPLY, TOKEN_NONE,       \
                TOKEN_NONE)
#define PLAN_CAS                                                                                   \
    FOLLOW_PLAN(TOKEN_KEY, TOKEN_FLAGS, TOKEN_TIME, TOKEN_LENGTH, TOKEN_CAS, TOKEN_NOREPLY,        \
                TOKEN_NONE)
#define PLAN_MS  (TOKEN_KEY | TOKEN_LENGTH << 4 | TOKEN_META << 8)
#define PLAN_MG  (TOKEN_KEY | TOKEN_META1 << 4 | TOKEN_META << 8)
#define PLAN_GAT (TOKEN_ANY | TOKEN_KEYS << 4)

static const struct follow_verb follow_verbs[] = {
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

enum { FOLLOW_VERBS = sizeof(follow_verbs) / sizeof(*follow_verbs) };

/* The verb has ended. Longer ones than all of ours are known by their length alone. */
FOLLOW_INLINE void text_verb(struct follow *f)
{
    __u64 first = f->ntoken < 8 ? f->word : f->head;
    __u64 second = f->ntoken < 8 ? 0 : f->word;
    __u64 name[2];
    __u32 i;

    f->command = COMMAND_UNKNOWN;
    f->plan = TOKEN_WORD;
    f->seconds = 0;
    if (f->ntoken > 15)
        return;
    for (i = 0; i < FOLLOW_VERBS; i++) {
        __builtin_memcpy(name, follow_verbs[i].name, sizeof(name));
        if (name[0] == first && name[1] == second) {
            f->command = (__u8)follow_verbs[i].command;
            f->plan = follow_verbs[i].plan;
            break;
        }
    }
}

/* --- tokens by kind -------------------------------------------------------- */

#define FOLLOW_WORD(a, b, c, d, e, f, g)                                                           \
    ((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 |       \
     (__u64)(f) << 40 | (__u64)(g) << 48)

FOLLOW_INLINE int text_is_noreply(const struct follow *f)
{
    return f->ntoken == 7 && f->word == FOLLOW_WORD('n', 'o', 'r', 'e', 'p', 'l', 'y');
}

/* A byte of a number. 0: it is none. */
FOLLOW_INLINE int text_digit(struct follow *f, __u8 byte, __u8 kind)
{
    __u32 digit = byte - '0';

    if (f->ntoken == 0)
        f->found &= (__u8)~LINE_SIGN;
    if (digit <= 9) {
        f->number = f->number * 10 + digit;
        return f->ntoken < FOLLOW_DIGITS_MAX;
    }
    if (f->ntoken > 0 || (byte != '-' && byte != '+'))
        return 0;
    f->found |= LINE_SIGN;
    return kind == TOKEN_TIME;
}

/* A byte of a number that has ended with it, if it may end so. */
FOLLOW_INLINE int text_number(struct follow *f, __u8 kind)
{
    if (f->ntoken == 1 && (f->found & LINE_SIGN))
        return 0;
    if (kind == TOKEN_FLAGS)
        return f->number <= 0xffffffffu;
    if (kind != TOKEN_LENGTH)
        return 1;
    f->nvalue = (__u32)f->number;
    return f->number <= FOLLOW_VALUE_MAX;
}

/* How many seconds flush_all waits; what is no number, or a time over, is 0. */
FOLLOW_INLINE void text_seconds(struct follow *f, __u8 byte)
{
    __u32 digit = byte - '0';

    if (f->ntoken == 0)
        f->found &= (__u8)~LINE_SIGN;
    if (byte == '-')
        f->found |= LINE_SIGN;
    if (digit > 9 || (f->found & LINE_SIGN))
        return;
    f->number = f->number * 10 + digit;
    if (f->number > 0xffffffffu)
        f->number = 0xffffffffu;
    f->seconds = (__u32)f->number;
}

/* --- meta flags ------------------------------------------------------------ */

#define FOLLOW_FLAG(c) (1ull << (((c) - 'A') & 63))

/* What mg may have and yet write nothing; digits are somebody's opaque. */
#define FLAGS_READ                                                                                 \
    (FOLLOW_FLAG('b') | FOLLOW_FLAG('c') | FOLLOW_FLAG('f') | FOLLOW_FLAG('h') |                   \
     FOLLOW_FLAG('k') | FOLLOW_FLAG('l') | FOLLOW_FLAG('O') | FOLLOW_FLAG('q') |                   \
     FOLLOW_FLAG('s') | FOLLOW_FLAG('t') | FOLLOW_FLAG('u') | FOLLOW_FLAG('v'))
/* Of ms: those that are a letter alone, those that have a number, and all. */
#define FLAGS_ALONE                                                                                \
    (FOLLOW_FLAG('b') | FOLLOW_FLAG('c') | FOLLOW_FLAG('I') | FOLLOW_FLAG('k') |                   \
     FOLLOW_FLAG('q') | FOLLOW_FLAG('s'))
#define FLAGS_NUMBER (FOLLOW_FLAG('C') | FOLLOW_FLAG('F') | FOLLOW_FLAG('T'))
#define FLAGS_SET    (FLAGS_ALONE | FLAGS_NUMBER | FOLLOW_FLAG('M') | FOLLOW_FLAG('O'))

FOLLOW_INLINE __u64 text_flag(__u8 byte)
{
    return byte >= 'A' && byte <= 'z' ? FOLLOW_FLAG(byte) : 0;
}

FOLLOW_INLINE void text_meta(struct follow *f, __u8 byte)
{
    if (byte == 'q')
        f->found |= LINE_MAYBE;
    if (byte == 'b')
        f->found |= LINE_CODED;
    if (!(text_flag(byte) & FLAGS_READ) && (byte < '0' || byte > '9'))
        f->found |= LINE_WRITE;
}

/* A byte of a flag of ms; 0: servers differ in whether they take the value for one. */
FOLLOW_INLINE int text_meta_set(struct follow *f, __u8 byte)
{
    __u64 flag = text_flag((__u8)(f->ntoken < 8 ? f->word : f->head));

    if (f->ntoken == 0) {
        flag = text_flag(byte) & FLAGS_SET & ~f->given;
        f->given |= flag;
        return flag != 0;
    }
    if (flag & FLAGS_ALONE)
        return 0;
    if (flag & FOLLOW_FLAG('O'))
        return f->ntoken < FOLLOW_OPAQUE_MAX;
    if (flag & FOLLOW_FLAG('M'))
        return f->ntoken == 1;
    return (byte >= '0' && byte <= '9' && f->ntoken <= FOLLOW_DIGITS_MAX) ||
           (byte == '-' && f->ntoken == 1 && (flag & FOLLOW_FLAG('T')));
}

/* The end of one. */
FOLLOW_INLINE int text_meta_set_end(const struct follow *f)
{
    __u64 flag = text_flag((__u8)(f->ntoken < 8 ? f->word : f->head));

    if (flag & FLAGS_NUMBER)
        return f->ntoken > 1 && (f->ntoken > 2 || (f->word >> 8) != '-');
    return !(flag & FOLLOW_FLAG('M')) || f->ntoken == 2;
}

/* --- the line -------------------------------------------------------------- */

/* A byte of a token. 0: lost. */
FOLLOW_INLINE int text_byte(struct follow *f, __u8 byte, const __u64 *seeds)
{
    __u8 kind = f->nth ? f->plan & 15 : TOKEN_WORD;
    int good = byte != 0;

    if (kind > TOKEN_KEYS) {
        if (kind <= TOKEN_CAS)
            good = text_digit(f, byte, kind);
        else if (kind == TOKEN_SECONDS)
            text_seconds(f, byte);
        else if (kind == TOKEN_META1 || (kind == TOKEN_META && f->ntoken == 0))
            text_meta(f, byte);
        if (kind == TOKEN_META && f->command == COMMAND_MS)
            good &= text_meta_set(f, byte);
    }
    follow_fold(f, byte, seeds);
    return good;
}

FOLLOW_INLINE __u32 text_key_end(struct follow *f, __u8 kind, const __u64 *seeds)
{
    if (f->ntoken > MC_KEY_MAX)
        return 0;
    f->found |= LINE_KEY;
    follow_key(f, seeds);
    return kind == TOKEN_KEYS ? FOLLOW_WRITE : 0;
}

/* stats dumps that show keys as they are, which may read like any line; one without an END. */
FOLLOW_INLINE int text_stats_end(struct follow *f)
{
    __u16 start = (__u16)f->word;

    if (f->ntoken >= 8)
        start = (__u16)f->head;
    if (f->ntoken > 5 && start == ('s' | 'i' << 8))
        f->found |= LINE_MAYBE;
    return start != ('c' | 'a' << 8) && start != ('d' | 'e' << 8);
}

/* Of the dumps of lru_crawler some have an OK in front of them and some have not. */
FOLLOW_INLINE void text_crawler_end(struct follow *f)
{
    __u64 start = f->ntoken < 8 ? f->word : f->head;

    if ((start & 0xff) == 'm')
        f->found |= LINE_TWO;
}

/* A token has ended, with `byte`. Its events, or LOST. */
FOLLOW_INLINE __u32 text_token_end(struct follow *f, __u8 byte, const __u64 *seeds)
{
    __u8 kind = f->plan & 15;
    __u32 events = 0;
    int good = 1;

    if (f->nth == 0) {
        text_verb(f);
        f->nth = 1;
        follow_token(f);
        return f->command == COMMAND_LOST ? FOLLOW_LOST : 0;
    }
    if (kind == TOKEN_KEY || kind == TOKEN_KEYS)
        events = text_key_end(f, kind, seeds);
    else if (kind == TOKEN_WORD || kind == TOKEN_NOREPLY || kind == TOKEN_SECONDS)
        if (text_is_noreply(f))
            f->found |= byte == ' ' ? LINE_MAYBE : LINE_NOREPLY;
        else
            good = kind != TOKEN_NOREPLY;
    else if (kind >= TOKEN_FLAGS && kind <= TOKEN_CAS)
        good = text_number(f, kind);
    else if (kind == TOKEN_META && f->command == COMMAND_MS)
        good = text_meta_set_end(f);
    else if (kind == TOKEN_STATS)
        good = text_stats_end(f);
    else if (kind == TOKEN_CRAWLER)
        text_crawler_end(f);
    else if (kind == TOKEN_NONE)
        good = 0;
    if (kind != TOKEN_KEYS && kind != TOKEN_META)
        f->plan >>= 4;
    if (f->nth < 255)
        f->nth++;
    follow_token(f);
    return good ? events : FOLLOW_LOST;
}

/* How the command will be answered. */
FOLLOW_INLINE __u32 text_answer(const struct follow *f)
{
    if (f->found & LINE_TWO)
        return FOLLOW_ANSWERED | FOLLOW_UNCERTAIN;
    if (f->found & LINE_MAYBE)
        return FOLLOW_UNCERTAIN;
    if (!(f->found & LINE_NOREPLY))
        return FOLLOW_ANSWERED;
    if (f->command == COMMAND_STORE || f->command == COMMAND_KEYED || f->command == COMMAND_FLUSH)
        return FOLLOW_SILENT;
    return FOLLOW_UNCERTAIN;
}

FOLLOW_INLINE __u32 text_write(const struct follow *f)
{
    if (f->found & LINE_CODED)
        return FOLLOW_WRITE_ALL;
    return f->found & LINE_KEY ? FOLLOW_WRITE : 0;
}

/* A line that a value follows. */
FOLLOW_INLINE __u32 text_value(struct follow *f)
{
    __u8 kind = f->plan & 15; /* the first that is missing */

    if ((kind != TOKEN_NOREPLY && kind != TOKEN_NONE && kind != TOKEN_META) ||
        !(f->found & LINE_KEY) ||
        (f->nvalue > FOLLOW_SILENT_MAX && (f->found & (LINE_NOREPLY | LINE_MAYBE))))
        return follow_lose(f);
    f->skip = f->nvalue;
    f->state = FOLLOW_DATA_CR;
    return text_write(f);
}

/* The value and its end have come. */
FOLLOW_INLINE __u32 text_value_end(struct follow *f)
{
    __u32 events = FOLLOW_DATA | text_answer(f);

    if (f->found & LINE_CODED)
        events |= FOLLOW_WRITE_ALL;
    follow_next(f, FOLLOW_BLANK);
    return events;
}

FOLLOW_INLINE __u32 text_line_end(struct follow *f)
{
    __u32 events = text_answer(f);

    if (f->line > FOLLOW_LINE_MAX && f->command != COMMAND_READ && f->command != COMMAND_GAT)
        return follow_lose(f);
    switch ((enum follow_command)f->command) {
    case COMMAND_STORE:
    case COMMAND_MS:
        return text_value(f);
    case COMMAND_KEYED:
    case COMMAND_MD:
        events |= text_write(f);
        break;
    case COMMAND_MG:
        if (f->found & LINE_WRITE)
            events |= text_write(f);
        break;
    case COMMAND_FLUSH:
    case COMMAND_ADMIN:
        events |= FOLLOW_WRITE_ALL;
        break;
    case COMMAND_UNKNOWN:
        events |= FOLLOW_WRITE_ALL | FOLLOW_UNKNOWN;
        break;
    case COMMAND_MN:
        events |= FOLLOW_BARRIER;
        break;
    case COMMAND_ME:
        events = FOLLOW_ANSWERED | FOLLOW_UNCERTAIN;
        break;
    case COMMAND_LAST:
        events = FOLLOW_SILENT;
        break;
    case COMMAND_EMPTY:
    case COMMAND_READ:
    case COMMAND_GAT:
    case COMMAND_PLAIN:
    case COMMAND_LOST:
        break;
    }
    follow_next(f, FOLLOW_BLANK);
    return events;
}

/* A byte of a line. */
FOLLOW_INLINE __u32 text_line(struct follow *f, __u8 byte, const __u64 *seeds)
{
    __u32 events = 0;

    if (byte != ' ' && byte != '\r' && byte != '\n') {
        f->state = FOLLOW_TOKEN;
        return text_byte(f, byte, seeds) ? 0 : follow_lose(f);
    }
    if (f->state == FOLLOW_TOKEN)
        events = text_token_end(f, byte, seeds);
    if (events & FOLLOW_LOST)
        return follow_lose(f);
    f->state = FOLLOW_BLANK;
    if (byte == '\n')
        return events | text_line_end(f);
    if (f->command == COMMAND_READ) {
        f->state = FOLLOW_REST;
        f->skip_line = 1;
    } else if (byte == '\r') {
        f->state = FOLLOW_CR;
    }
    return events;
}

FOLLOW_INLINE __u32 follow_text(struct follow *f, __u8 byte, const __u64 *seeds)
{
    if (f->state == FOLLOW_NOWHERE)
        return 0;
    f->line++;
    switch (f->state) {
    case FOLLOW_BLANK:
    case FOLLOW_TOKEN:
        return text_line(f, byte, seeds);
    case FOLLOW_REST:
        return byte == '\n' ? text_line_end(f) : 0;
    case FOLLOW_CR:
        return byte == '\n' ? text_line_end(f) : follow_lose(f);
    case FOLLOW_DATA_CR:
        f->state = FOLLOW_DATA_LF;
        return byte == '\r' ? 0 : follow_lose(f);
    case FOLLOW_DATA_LF:
        return byte == '\n' ? text_value_end(f) : follow_lose(f);
    default:
        return follow_lose(f);
    }
}

#endif
