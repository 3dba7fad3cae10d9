/* SPDX-License-Identifier: BSD-3-Clause */
/* admin: the commands without a key. */
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "command/call.h"
#include "config.h"
#include "store/store.h"

enum {
    VERBOSITY_MAX = 2,
    VERBOSITY_REQUESTS = 2, /* from here on the log shows every request */
    MEMLIMIT_MIN_MB = 8,
    MEMLIMIT_MAX_MB = 1000000000, /* a larger number must be meant as bytes */
    ERROR_TEXT = 1024,
};

/* The words behind the verb, without a trailing "noreply". */
static size_t nwords(const struct request *request)
{
    return request->ntokens - 1 - request->noreply;
}

void call_flush(struct call *call, int64_t delay)
{
    rel_time at = delay > 0 ? call_expiry(call, delay) - 1 : call->now;

    store_flush(call->local->store, at, call->now);
}

enum command_next command_flush_all(struct call *call)
{
    struct command_local *local = call->local;
    const struct request *request = call->request;
    int64_t delay = 0;

    if (!local->commands->config.flush_enabled) {
        count_one(&local->counts.flush_refused);
        return answer(call, SLICE("CLIENT_ERROR flush_all not allowed\r\n"));
    }
    if (nwords(request) > 0 && !num_cut_i32(request->tokens[1], &delay)) {
        count_one(&local->counts.flush_refused);
        return answer(call, SLICE("CLIENT_ERROR invalid exptime argument\r\n"));
    }
    call_flush(call, delay);
    return answer(call, SLICE("OK\r\n"));
}

enum command_next command_cache_memlimit(struct call *call)
{
    uint64_t megabytes;

    if (!num_parse_u64(call->request->tokens[1], &megabytes))
        return answer(call, SLICE("ERROR\r\n"));
    if (megabytes < MEMLIMIT_MIN_MB)
        return answer(call, SLICE("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"));
    if (megabytes > MEMLIMIT_MAX_MB)
        return answer(call, SLICE("MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"));
    if (store_set_memory_limit(call->local->commands->store, megabytes << 20) != 0)
        return answer(call, SLICE("MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"));
    return answer(call, SLICE("OK\r\n"));
}

enum command_next command_version(struct call *call)
{
    return answer(call, SLICE("VERSION " PACKAGE_VERSION "\r\n"));
}

enum command_next command_verbosity(struct call *call)
{
    struct commands *commands = call->local->commands;
    uint32_t level;

    if (!num_cut_u32(call->request->tokens[1], &level))
        return answer(call, SLICE("CLIENT_ERROR bad command line format\r\n"));
    level = level < VERBOSITY_MAX ? level : VERBOSITY_MAX;
    /* Under the lock, so that of two concurrent commands one decides level and bypass. */
    pthread_mutex_lock(&commands->lock);
    commands->server.set_verbosity(commands->server.context, level);
    bypass_switch(commands, call->client, BYPASS_LOG, level >= VERBOSITY_REQUESTS);
    pthread_mutex_unlock(&commands->lock);
    return answer(call, SLICE("OK\r\n"));
}

enum command_next command_quit(struct call *call)
{
    (void)call;
    return COMMAND_QUIT;
}

enum command_next command_http(struct call *call)
{
    (void)call;
    return COMMAND_CLOSE;
}

enum command_next command_shutdown(struct call *call)
{
    const struct commands *commands = call->local->commands;
    bool graceful;

    if (!commands->config.shutdown_enabled)
        return answer(call, SLICE("ERROR: shutdown not enabled\r\n"));
    graceful =
        nwords(call->request) == 1 && slice_equal(call->request->tokens[1], SLICE("graceful"));
    if (nwords(call->request) > 0 && !graceful)
        return answer(call, SLICE("CLIENT_ERROR invalid shutdown mode\r\n"));
    commands->server.shutdown(commands->server.context, graceful);
    return COMMAND_QUIT;
}

enum command_next command_refresh_certs(struct call *call)
{
    const struct command_server *server = &call->local->commands->server;
    char error[ERROR_TEXT];

    if (!server->refresh_certs)
        return answer(call, SLICE("ERROR\r\n"));
    if (server->refresh_certs(server->context, error, sizeof(error)))
        return answer(call, SLICE("OK\r\n"));
    if (!call->request->noreply) {
        reply_copy(call->reply, (struct slice){error, strlen(error)});
        reply_bytes(call->reply, SLICE("\r\n"));
    }
    return COMMAND_DONE;
}

enum command_next command_bmc(struct call *call)
{
    const struct command_server *server = &call->local->commands->server;
    bool on = slice_equal(call->request->tokens[1], SLICE("on"));

    if (!server->switch_kernel)
        return answer(call, SLICE("ERROR\r\n"));
    if (!on && !slice_equal(call->request->tokens[1], SLICE("off")))
        return answer(call, SLICE("CLIENT_ERROR usage: bmc on|off\r\n"));
    if (call->client->transport != COMMAND_STREAM ||
        !server->switch_kernel(server->context, call->client->fd, on))
        return answer(call, SLICE("CLIENT_ERROR only a connection from the server's own machine "
                                  "switches the kernel path\r\n"));
    return answer(call, SLICE("OK\r\n"));
}
