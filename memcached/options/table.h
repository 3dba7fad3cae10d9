/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options_table: the rows from which the parser, -h, the manual and `stats settings` are generated.
 */
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
    OPTION_U64,
    OPTION_I32,
    OPTION_REAL,
    OPTION_TEXT,   /* char * */
    OPTION_ACTION, /* `set` does it all */
    OPTION_IGNORE, /* accepted without effect */
};

/* The format in `stats settings`. */
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
    SHOW_TLS_VERIFY,  /* as OpenSSL's flags: 2 is 3, 3 is 7 */
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

/* Returns OPTIONS_RUN, or an exit status after it has printed the error. */
typedef int option_setter(struct option_input *input);

struct option_row {
    char letter;          /* 0: a suboption of -o, or only a setting */
    const char *name;     /* long name or suboption */
    const char *argument; /* NULL: takes none; "[...]": optional */
    enum option_kind kind;
    size_t field;            /* offset in struct options of what is set and shown */
    double minimum, maximum; /* exclusive minimum for reals */
    bool strict;             /* nothing may follow the number */
    const char
        *wrong; /* error for a value out of range, with %s for the value; NULL: a general text */
    const char *missing; /* error for a suboption without its argument, with %s for the name */
    uint32_t scale;      /* multiplies the given number; 0: 1 */
    option_setter *set;  /* OPTION_ACTION, or a further step after the value */
    unsigned int place;  /* position in `stats settings`, in memcached's order; 0: none */
    const char *setting; /* key in `stats settings`, NULL: none */
    enum option_show show;
    const char *help;     /* NULL: not in -h */
    const char *help_off; /* of a switch that is on: -h shows its "no_" form, with this text */
    const char *manual;   /* further sentences for the manual, which has -h's text too */
    const char *fallback; /* the default as -h shows it */
    const char *alias;    /* another long name; NULL: none */
    const char *lacks;    /* the library that this build lacks: the option is refused and not shown;
                             NULL: none */
};

/* For a row that needs an optional library; `enabled` is config.h's 0 or 1. */
#define OPTION_LACKS(enabled, what) .lacks = (enabled) ? NULL : (what)

extern const struct option_row option_table[];
extern const size_t option_count;

/* Splits the words of -o and applies each (options.c). */
option_setter options_extended;
/* Passes a word of the kernel path, which begins with "bmc=", on. Keeps a copy of the word. */
int options_kernel_path(struct options *options, const char *word, size_t len, FILE *err);

#endif
