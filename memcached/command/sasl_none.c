/* SPDX-License-Identifier: BSD-3-Clause */
/* sasl_none: replaces sasl.c in a build without libsasl2, whose options refuse -S. */
#include <stdio.h>

#include "command/sasl.h"

struct sasl *sasl_setup(char *error, size_t nerror)
{
    snprintf(error, nerror, "This server is not built with SASL support.");
    return NULL;
}

void sasl_teardown(struct sasl *sasl)
{
    (void)sasl;
}

struct sasl_exchange *sasl_exchange_new(struct sasl *sasl)
{
    (void)sasl;
    return NULL;
}

void sasl_exchange_free(struct sasl_exchange *exchange)
{
    (void)exchange;
}

struct slice sasl_exchange_mechanisms(struct sasl_exchange *exchange)
{
    (void)exchange;
    return (struct slice){0};
}

enum sasl_outcome sasl_exchange_start(struct sasl_exchange *exchange, struct slice mechanism,
                                      struct slice data, struct slice *answer)
{
    (void)exchange;
    (void)mechanism;
    (void)data;
    (void)answer;
    return SASL_OUTCOME_FAIL;
}

enum sasl_outcome sasl_exchange_step(struct sasl_exchange *exchange, struct slice mechanism,
                                     struct slice data, struct slice *answer)
{
    return sasl_exchange_start(exchange, mechanism, data, answer);
}
