/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sasl: who a client is, by the mechanisms of libsasl2, which only sasl.c knows; sasl_none.c stands
 * in for it in a build without.
 *
 * There is one struct sasl in a process, since the library is one. A struct sasl_talk belongs to a
 * connection and to the thread that serves it.
 */
#ifndef COMMAND_SASL_H
#define COMMAND_SASL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* A longer name is no mechanism's; memcached's limit. */
enum { SASL_MECHANISM_MAX = 32 };

enum sasl_outcome {
    SASL_OUTCOME_IN,   /* the client is who it says it is */
    SASL_OUTCOME_MORE, /* it is asked for more, by the answer */
    SASL_OUTCOME_OUT,
};

struct sasl;
struct sasl_talk;

/*
 * Loads the mechanisms and reads memcached.conf, which SASL_CONF_PATH in the environment finds;
 * MEMCACHED_SASL_PWDB names a file of `user:password` lines. NULL: `error` says why.
 */
struct sasl *sasl_setup(char *error, size_t nerror);
void sasl_teardown(struct sasl *sasl);

/* NULL: the library refuses. */
struct sasl_talk *sasl_talk_new(struct sasl *sasl);
void sasl_talk_free(struct sasl_talk *talk);
/* The names of the mechanisms, blanks between them; good until the talk goes on. */
struct slice sasl_talk_mechanisms(struct sasl_talk *talk);
/* The first message, of a talk that is new; the answer is good until the talk goes on. */
enum sasl_outcome sasl_talk_start(struct sasl_talk *talk, struct slice mechanism, struct slice data,
                                  struct slice *answer);
/* A further one, of a talk whose last outcome was MORE, with the same mechanism. */
enum sasl_outcome sasl_talk_step(struct sasl_talk *talk, struct slice mechanism, struct slice data,
                                 struct slice *answer);

#endif
