/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sasl: authentication by the mechanisms of libsasl2, which only sasl.c uses; sasl_none.c replaces
 * it in a build without libsasl2.
 *
 * There is one struct sasl in a process, because the library's state is global. A struct
 * sasl_exchange belongs to a connection and to the thread that serves it.
 */
#ifndef COMMAND_SASL_H
#define COMMAND_SASL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* Bytes of a mechanism's name; memcached's limit. */
enum { SASL_MECHANISM_MAX = 32 };

enum sasl_outcome {
    SASL_OUTCOME_OK,       /* the client is authenticated */
    SASL_OUTCOME_CONTINUE, /* the answer asks the client for another message */
    SASL_OUTCOME_FAIL,
};

struct sasl;
struct sasl_exchange;

/*
 * Loads the mechanisms and reads memcached.conf, which SASL_CONF_PATH in the environment locates;
 * MEMCACHED_SASL_PWDB names a file of `user:password` lines. NULL: `error` says why.
 */
struct sasl *sasl_setup(char *error, size_t nerror);
void sasl_teardown(struct sasl *sasl);

/* NULL: the library failed. */
struct sasl_exchange *sasl_exchange_new(struct sasl *sasl);
void sasl_exchange_free(struct sasl_exchange *exchange);
/* The mechanisms' names, separated by blanks; valid until the next call for the exchange. */
struct slice sasl_exchange_mechanisms(struct sasl_exchange *exchange);
/* Processes the first message of a new exchange; the answer is valid until the next call for it. */
enum sasl_outcome sasl_exchange_start(struct sasl_exchange *exchange, struct slice mechanism,
                                      struct slice data, struct slice *answer);
/* Processes a further message, after SASL_OUTCOME_CONTINUE, of the same mechanism. */
enum sasl_outcome sasl_exchange_step(struct sasl_exchange *exchange, struct slice mechanism,
                                     struct slice data, struct slice *answer);

#endif
