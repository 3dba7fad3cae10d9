/* SPDX-License-Identifier: BSD-3-Clause */
/* lru: `lru tune`, `lru mode` and `lru temp_ttl`. */
#include <errno.h>
#include <stdlib.h>

#include "base/num.h"
#include "command/call.h"
#include "store/store_tuning.h"

enum {
    SHARES_MAX = 80,  /* percent, of hot and warm together */
    REAL_CHARS = 128, /* longer than any number */
};

/* Parses the whole text as strtod does. False: not a number, or out of a double's range. */
static bool parse_real(struct slice text, double *out)
{
    char copy[REAL_CHARS];
    char *end;

    if (text.len == 0 || text.len >= sizeof(copy))
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    errno = 0;
    *out = strtod(copy, &end);
    return end == copy + text.len && errno == 0;
}

static enum command_next tune(struct call *call)
{
    const struct request *request = call->request;
    const struct slice *word = request->tokens;
    uint64_t hot_pct, warm_pct;
    double hot_factor, warm_factor;

    if (request->ntokens < 6 || !num_parse_u64(word[2], &hot_pct) ||
        !num_parse_u64(word[3], &warm_pct) || !parse_real(word[4], &hot_factor) ||
        !parse_real(word[5], &warm_factor))
        return answer(call, SLICE("ERROR\r\n"));
    if (hot_pct > SHARES_MAX || warm_pct > SHARES_MAX - hot_pct)
        return answer(call, SLICE("ERROR hot and warm pcts must not exceed 80\r\n"));
    /* Negated so that a NaN is refused too. */
    if (!(hot_factor > 0 && warm_factor > 0))
        return answer(call, SLICE("ERROR hot/warm age factors must be greater than 0\r\n"));
    store_tune_lru(call->local->commands->store, (unsigned int)hot_pct, (unsigned int)warm_pct,
                   hot_factor, warm_factor);
    return answer(call, SLICE("OK\r\n"));
}

/* Without the maintainer nothing would move from one LRU segment to another. */
static enum command_next set_mode(struct call *call)
{
    const struct request *request = call->request;
    struct slice mode = request->ntokens > 2 ? request->tokens[2] : SLICE("");
    bool segmented = slice_equal(mode, SLICE("segmented"));

    if (!call->local->commands->config.lru_segmented ||
        !(segmented || slice_equal(mode, SLICE("flat"))))
        return answer(call, SLICE("ERROR\r\n"));
    store_set_lru_segmented(call->local->commands->store, segmented);
    return answer(call, SLICE("OK\r\n"));
}

static enum command_next set_temporary_ttl(struct call *call)
{
    const struct request *request = call->request;
    int64_t ttl;

    if (!call->local->commands->config.lru_segmented || request->ntokens < 3 ||
        !num_parse_i64(request->tokens[2], &ttl) || ttl > UINT32_MAX)
        return answer(call, SLICE("ERROR\r\n"));
    store_set_temporary(call->local->commands->store, ttl >= 0, ttl >= 0 ? (uint32_t)ttl : 0);
    return answer(call, SLICE("OK\r\n"));
}

static const struct {
    struct slice word;
    command_handler *run;
} subcommands[] = {
    {{"tune", 4}, tune},
    {{"mode", 4}, set_mode},
    {{"temp_ttl", 8}, set_temporary_ttl},
};

enum command_next command_lru(struct call *call)
{
    size_t i;

    for (i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
        if (slice_equal(call->request->tokens[1], subcommands[i].word))
            return subcommands[i].run(call);
    return answer(call, SLICE("ERROR\r\n"));
}
