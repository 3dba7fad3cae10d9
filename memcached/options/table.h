/* SPDX-License-Identifier: BSD-3-Clause */
/* options_table: the rows that the parser, -h and `stats settings` are made from. */
#ifndef OPTIONS_TABLE_H
#define OPTIONS_TABLE_H

#include "options/options.h"

enum option_kind {
    OPTION_NONE,   /* only a setting */
    OPTION_SWITCH, /* bool: on; `no_NAME` as suboption: off */
    OPTION_ON,     /* bool: on */
    OPTION_OFF,    /* bool: off */
    OPTION_COUNT,  /* uint32_t: one more */
    OPTION_U32,
    OPTION_I32,
    OPTION_REAL,
    OPTION_TEXT,   /* char * */
    OPTION_ACTION, /* `set` does it all */
    OPTION_IGNORE, /* accepted without effect */
};

/* How `stats settings` shows it. */
enum option_show {
    SHOW_NUMBER,
    SHOW_U32,
    SHOW_YES_NO,
    SHOW_ON_OFF,
    SHOW_U64,
    SHOW_REAL,
    SHOW_MILLI, /* a small real */
    SHOW_OCTAL,
    SHOW_TEXT, /* NULL: "NULL" */
    SHOW_TEXT_OR_NO,
    SHOW_CHAR,
    SHOW_BINDING,
    SHOW_VERBOSITY,   /* the current one */
    SHOW_TLS_VERSION, /* 2: tlsv1.2 */
    SHOW_ZERO,
    SHOW_NO,
};

/*
 * Places in `stats settings`: 1 to 50 memcached's, 51 seccomp's, 52 to 61 flash's,
 * 62 to 79 TLS's, then our own. Some may stay empty.
 */
enum { OPTION_PLACES = 99 };

struct option_row;

struct option_input {
    struct options *options;
    const struct option_row *row;
    char *value; /* NULL: none */
    FILE *out, *err;
};

/* OPTIONS_RUN or an exit status; the function has said why. */
typedef int option_setter(struct option_input *input);

struct option_row {
    char letter;          /* 0: a suboption of -o, or only a setting */
    const char *name;     /* long name or suboption */
    const char *argument; /* NULL: takes none; "[...]": optional */
    enum option_kind kind;
    size_t field;            /* offset in struct options */
    double minimum, maximum; /* a real number is above its minimum */
    bool strict;             /* a number and nothing behind it */
    const char *wrong;       /* said when out of range, with the value; NULL: a general text */
    const char *missing;     /* said when a suboption lacks its argument, with the name */
    uint32_t scale;          /* 0: 1; the stored number is the given one times it */
    option_setter *set;      /* OPTION_ACTION, or a further step after the value */
    unsigned int place;      /* in `stats settings`, which has memcached's order; 0: none */
    const char *setting;     /* key in `stats settings`, NULL: none */
    enum option_show show;
    size_t show_field;
    const char *help;     /* NULL: not in -h */
    const char *help_off; /* of a switch that is on: -h shows its "no_" form, with this text */
    const char *manual;   /* further sentences for the manual, which has -h's text too */
    const char *fallback; /* the default as -h shows it */
    const char *lacks;    /* what this build is without: refused, not shown; NULL: nothing */
};

/* Of a row that a build may be without; `enabled` is config.h's 0 or 1. */
#define OPTION_LACKS(enabled, what) .lacks = (enabled) ? NULL : (what)

extern const struct option_row option_table[];
extern const size_t option_count;

/* Splits the words of -o and applies each (options.c). */
option_setter options_extended;
/* The kernel path's word, with "bmc=" in front. The word is kept. */
int options_kernel_path(struct options *options, const char *word, size_t len, FILE *err);

#endif
