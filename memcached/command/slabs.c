/* SPDX-License-Identifier: BSD-3-Clause */
/* slabs: `slabs reassign` and `slabs automove`. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "command/call.h"
#include "store/store_mover.h"
#include "store/store_tuning.h"

#define BAD_FORMAT SLICE("CLIENT_ERROR bad command line format\r\n")

enum { NUMBER_MAX = 63, AUTOMOVE_MAX = 2 };

/* memcached truncates a class number to 32 bits; here a larger one names no class. */
static int class_number(int64_t number)
{
    return number < -2 || number > MC_CLASSES ? MC_CLASSES : (int)number;
}

static enum command_next reassign(struct call *call)
{
    static const struct slice answers[] = {
        [STORE_REASSIGN_OK] = {"OK\r\n", 4},
        [STORE_REASSIGN_OFF] = {"CLIENT_ERROR slab reassignment disabled\r\n", 41},
        [STORE_REASSIGN_BUSY] = {"BUSY currently processing reassign request\r\n", 44},
        [STORE_REASSIGN_SAME] = {"SAME src and dst class are identical\r\n", 38},
        [STORE_REASSIGN_BAD_CLASS] = {"BADCLASS invalid src or dst class id\r\n", 38},
        [STORE_REASSIGN_NO_SPARE] = {"NOSPARE source class has no spare pages\r\n", 41},
    };
    const struct commands *commands = call->local->commands;
    const struct slice *word = call->request->tokens;
    int64_t from, to;

    /* No further word is allowed, not even "noreply". */
    if (call->request->ntokens != 4) {
        reply_bytes(call->reply, SLICE("ERROR\r\n"));
        return COMMAND_DONE;
    }
    if (!commands->config.slab_reassign)
        return answer(call, answers[STORE_REASSIGN_OFF]);
    if (!num_parse_i64(word[2], &from) || !num_parse_i64(word[3], &to))
        return answer(call, BAD_FORMAT);
    return answer(call,
                  answers[store_reassign(commands->store, class_number(from), class_number(to))]);
}

static bool parse_ratio(struct slice text, double *out)
{
    char number[NUMBER_MAX + 1];
    char *end;

    if (text.len == 0 || text.len > NUMBER_MAX)
        return false;
    memcpy(number, text.ptr, text.len);
    number[text.len] = '\0';
    *out = strtod(number, &end);
    return end != number;
}

static enum command_next automove(struct call *call)
{
    struct store *store = call->local->commands->store;
    const struct request *request = call->request;
    uint64_t mode;
    double ratio;

    if (request->ntokens < 3)
        return answer(call, SLICE("ERROR\r\n"));
    if (slice_equal(request->tokens[2], SLICE("ratio"))) {
        if (request->ntokens < 4 || !parse_ratio(request->tokens[3], &ratio))
            return answer(call, SLICE("ERROR\r\n"));
        store_set_automove_ratio(store, ratio);
        return answer(call, SLICE("OK\r\n"));
    }
    if (!num_parse_u64(request->tokens[2], &mode))
        return answer(call, BAD_FORMAT);
    if (mode > AUTOMOVE_MAX)
        return answer(call, SLICE("ERROR\r\n"));
    store_set_automove(store, (unsigned int)mode);
    return answer(call, SLICE("OK\r\n"));
}

enum command_next command_slabs(struct call *call)
{
    const struct request *request = call->request;

    if (request->ntokens >= 2 && slice_equal(request->tokens[1], SLICE("reassign")))
        return reassign(call);
    if (request->ntokens >= 2 && slice_equal(request->tokens[1], SLICE("automove")))
        return automove(call);
    return answer(call, SLICE("ERROR\r\n"));
}
