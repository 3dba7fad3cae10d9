/* SPDX-License-Identifier: BSD-3-Clause */
/* sasl_none: a build without libsasl2. -S is refused; nothing of this is called. */
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

struct sasl_talk *sasl_talk_new(struct sasl *sasl)
{
    (void)sasl;
    return NULL;
}

void sasl_talk_free(struct sasl_talk *talk)
{
    (void)talk;
}

struct slice sasl_talk_mechanisms(struct sasl_talk *talk)
{
    (void)talk;
    return (struct slice){0};
}

enum sasl_outcome sasl_talk_start(struct sasl_talk *talk, struct slice mechanism, struct slice data,
                                  struct slice *answer)
{
    (void)talk;
    (void)mechanism;
    (void)data;
    (void)answer;
    return SASL_OUTCOME_OUT;
}

enum sasl_outcome sasl_talk_step(struct sasl_talk *talk, struct slice mechanism, struct slice data,
                                 struct slice *answer)
{
    return sasl_talk_start(talk, mechanism, data, answer);
}
