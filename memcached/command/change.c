/* SPDX-License-Identifier: BSD-3-Clause */
/* change: touch, delete, incr, decr. */
#include "base/num.h"
#include "command/call.h"
#include "command/watch.h"

#define NOT_FOUND SLICE("NOT_FOUND\r\n")

enum command_next command_touch(struct call *call)
{
    const struct request *request = call->request;
    rel_time expiry = call_expiry(call, request->exptime);

    watch_look(call, request->key);
    return answer(call,
                  store_touch(call->local->store, request->key, expiry, call->now) == STORE_DONE
                      ? SLICE("TOUCHED\r\n")
                      : NOT_FOUND);
}

enum command_next command_delete(struct call *call)
{
    struct slice key = call->request->key;
    struct watch_before before = watch_look(call, key);

    detail_count(call, key, PREFIX_DELETE);
    if (store_delete(call->local->store, key, 0, call->now) != STORE_DONE)
        return answer(call, NOT_FOUND);
    watch_deleted(call, key, &before, "delete");
    return answer(call, SLICE("DELETED\r\n"));
}

static enum command_next answer_number(struct call *call, uint64_t value)
{
    char text[NUM_U64_MAX + 2];
    size_t n = num_format_u64(text, value);

    if (!call->request->noreply) {
        memcpy(text + n, "\r\n", 2);
        reply_copy(call->reply, (struct slice){text, n + 2});
    }
    return COMMAND_DONE;
}

static enum command_next arith(struct call *call, bool decrement)
{
    const struct store_delta delta = {.decrement = decrement, .delta = call->request->delta};
    uint64_t value = 0;
    uint64_t cas;

    watch_look(call, call->request->key);
    switch (store_arith(call->local->store, call->request->key, &delta, call->now, &value, &cas)) {
    case STORE_DONE:
        return answer_number(call, value);
    case STORE_NON_NUMERIC:
        return answer(call,
                      SLICE("CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"));
    case STORE_NO_MEMORY:
    case STORE_TOO_LARGE:
        return answer(call, SLICE("SERVER_ERROR out of memory\r\n"));
    case STORE_MISS:
    case STORE_EXISTS:
    case STORE_NOT_STORED:
        break;
    }
    return answer(call, NOT_FOUND);
}

enum command_next command_incr(struct call *call)
{
    return arith(call, false);
}

enum command_next command_decr(struct call *call)
{
    return arith(call, true);
}
