/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth: authentication of clients (-S, -Y). Until it has succeeded a connection can send nothing
 * but credentials, and a datagram gets no answer at all.
 *
 * Credentials come as the value of a command, into memory that grows as the bytes arrive: a client
 * that only announces many bytes takes no memory.
 */
#include <stdlib.h>

#include "base/num.h"
#include "command/authfile.h"
#include "command/call.h"
#include "command/sasl.h"

enum {
    TEXT_MAX = 4096,         /* bytes of `user password` in text */
    MESSAGE_MAX = 64 * 1024, /* of a SASL message; a Kerberos ticket is one of the longest */
    FIRST_ROOM = 512,
    NTAIL = 2, /* "\r\n" */
};

/* The value of an authentication command, which is no item. */
struct auth_message {
    char *bytes;
    size_t size;
    bool failed; /* no memory: the rest of the value is discarded */
    char mechanism[SASL_MECHANISM_MAX];
    size_t nmechanism;
};

/* --- messages ------------------------------------------------------------- */

static void free_message(struct auth_message *message)
{
    if (message) {
        auth_forget(message->bytes, message->size);
        free(message);
    }
}

/* Wipes the old copy, which realloc would not do. */
static void grow(struct auth_message *message, size_t filled, size_t total)
{
    size_t size = message->size == 0 ? FIRST_ROOM : 2 * message->size;
    char *bytes;

    size = size < total ? size : total;
    bytes = malloc(size);
    if (!bytes) {
        message->failed = true;
        return;
    }
    if (filled > 0)
        memcpy(bytes, message->bytes, filled);
    auth_forget(message->bytes, message->size);
    message->bytes = bytes;
    message->size = size;
}

size_t auth_room(struct command_pending *pending, char **ptr)
{
    struct auth_message *message = pending->message;

    if (!message->failed && pending->nfilled == message->size && pending->nleft > 0)
        grow(message, pending->nfilled, pending->nfilled + pending->nleft);
    if (message->failed) {
        *ptr = NULL;
        return pending->nleft;
    }
    *ptr = message->bytes + pending->nfilled;
    return message->size - pending->nfilled;
}

void auth_abandon(struct command_pending *pending)
{
    free_message(pending->message);
    pending->message = NULL;
}

/* Prepares for a message of `nbytes`. NULL: no memory. */
static struct auth_message *expect_message(struct call *call, size_t nbytes)
{
    struct auth_message *message = calloc(1, sizeof(*message));

    if (message) {
        *call->pending = (struct command_pending){
            .message = message,
            .nleft = nbytes,
            .verb = call->request->verb,
            .binary = call->request->binary,
            .id = call->request->id,
        };
    }
    return message;
}

/* --- text: set KEY FLAGS EXPTIME LENGTH, and `user password` as the value -- */

/* Only the length matters. False: the command has none. */
static bool find_length(const struct request *request, uint64_t *length)
{
    if (request->verb != VERB_SET)
        return false;
    if (request->has_value) {
        *length = request->nvalue;
        return true;
    }
    return request->ntokens > 4 && num_parse_u64(request->tokens[4], length) &&
           *length <= PROTO_NVALUE_MAX;
}

static enum command_next refuse_text(struct call *call)
{
    reply_bytes(call->reply, SLICE("CLIENT_ERROR unauthenticated\r\n"));
    return COMMAND_DONE;
}

static enum command_next run_text(struct call *call)
{
    uint64_t length;

    if (!call->local->commands->authfile || !find_length(call->request, &length))
        return refuse_text(call);
    if (length > TEXT_MAX) {
        reply_bytes(call->reply, SLICE("CLIENT_ERROR bad authentication token format\r\n"));
        return COMMAND_CLOSE;
    }
    return expect_message(call, length + NTAIL) ? COMMAND_VALUE : COMMAND_CLOSE;
}

/* Ignores words behind the second, as memcached does. */
static struct slice check_text(struct command_local *local, struct command_client *client,
                               const struct command_pending *pending)
{
    struct slice rest = {pending->message->bytes, pending->nfilled - NTAIL};
    struct slice user, password;

    if (memcmp(rest.ptr + rest.len, "\r\n", NTAIL) != 0)
        return SLICE("CLIENT_ERROR bad command line termination\r\n");
    if (!proto_next_key(&rest, &user) || !proto_next_key(&rest, &password))
        return SLICE("CLIENT_ERROR bad authentication token format\r\n");
    count_one(&local->counts.auth_cmds);
    if (!authfile_accepts(local->commands->authfile, user, password)) {
        count_one(&local->counts.auth_errors);
        return SLICE("CLIENT_ERROR authentication failure\r\n");
    }
    client->unauthenticated = false;
    return SLICE("STORED\r\n");
}

/* --- binary: SASL ---------------------------------------------------------- */

static enum command_next list_mechanisms(struct call *call)
{
    struct sasl_exchange *exchange = sasl_exchange_new(call->local->commands->sasl);

    binary_answer(call->reply, call->request->id, BINARY_OK,
                  exchange ? sasl_exchange_mechanisms(exchange) : (struct slice){0});
    sasl_exchange_free(exchange);
    return COMMAND_DONE;
}

enum command_next auth_sasl(struct call *call)
{
    const struct request *request = call->request;
    struct auth_message *message;

    if (request->verb == VERB_SASL_LIST)
        return list_mechanisms(call);
    if (request->key.len > SASL_MECHANISM_MAX)
        return binary_swallow(call, BINARY_INVALID);
    if (request->nvalue > MESSAGE_MAX)
        return binary_swallow(call, BINARY_NO_MEMORY);
    message = expect_message(call, request->nvalue);
    if (!message)
        return binary_swallow(call, BINARY_NO_MEMORY);
    memcpy(message->mechanism, request->key.ptr, request->key.len);
    message->nmechanism = request->key.len;
    return COMMAND_VALUE;
}

/* A client that starts a new exchange is unauthenticated until that succeeds. */
static enum sasl_outcome check_sasl(struct command_local *local, struct command_client *client,
                                    const struct command_pending *pending, struct slice *answer)
{
    const struct auth_message *message = pending->message;
    struct slice mechanism = {message->mechanism, message->nmechanism};
    struct slice data = {message->bytes, pending->nfilled};

    client->unauthenticated = true;
    if (pending->verb == VERB_SASL_STEP) {
        return client->exchange ? sasl_exchange_step(client->exchange, mechanism, data, answer)
                                : SASL_OUTCOME_FAIL;
    }
    sasl_exchange_free(client->exchange);
    client->exchange = sasl_exchange_new(local->commands->sasl);
    return client->exchange ? sasl_exchange_start(client->exchange, mechanism, data, answer)
                            : SASL_OUTCOME_FAIL;
}

static void end_exchange(struct command_client *client)
{
    sasl_exchange_free(client->exchange);
    client->exchange = NULL;
}

static void finish_sasl(struct command_local *local, struct command_client *client,
                        const struct command_pending *pending, struct reply *reply)
{
    struct slice answer = {0};

    switch (check_sasl(local, client, pending, &answer)) {
    case SASL_OUTCOME_OK:
        count_one(&local->counts.auth_cmds);
        client->unauthenticated = false;
        end_exchange(client);
        binary_answer(reply, pending->id, BINARY_OK, SLICE("Authenticated"));
        break;
    case SASL_OUTCOME_CONTINUE:
        binary_answer(reply, pending->id, BINARY_CONTINUE, answer);
        break;
    case SASL_OUTCOME_FAIL:
        count_one(&local->counts.auth_cmds);
        count_one(&local->counts.auth_errors);
        end_exchange(client);
        binary_error(reply, pending->id, BINARY_REFUSED);
        break;
    }
}

static bool is_open(const struct request *request)
{
    enum { VERSION = 0x0b, SASL_LIST = 0x20, SASL_STEP = 0x22 };
    uint8_t opcode = request->id.opcode;

    return opcode == VERSION || (opcode >= SASL_LIST && opcode <= SASL_STEP);
}

static enum command_next run_binary(struct call *call)
{
    if (is_open(call->request))
        return binary_run(call);
    binary_error(call->reply, call->request->id, BINARY_REFUSED);
    return COMMAND_CLOSE;
}

/* --- both ------------------------------------------------------------------ */

enum command_next auth_run(struct call *call)
{
    if (call->client->transport == COMMAND_DATAGRAM)
        return COMMAND_CLOSE;
    return call->request->binary ? run_binary(call) : run_text(call);
}

enum command_next auth_finish(struct command_local *local, struct command_client *client,
                              struct command_pending *pending, struct reply *reply)
{
    const struct auth_message *message = pending->message;

    if (message->failed) {
        auth_abandon(pending);
        return COMMAND_CLOSE;
    }
    if (pending->binary)
        finish_sasl(local, client, pending, reply);
    else
        reply_bytes(reply, check_text(local, client, pending));
    auth_abandon(pending);
    return reply->failed ? COMMAND_CLOSE : COMMAND_DONE;
}

void command_client_open(const struct command_local *local, enum command_transport transport,
                         int fd, struct command_client *client)
{
    const struct commands *commands = local->commands;

    *client = (struct command_client){
        .transport = transport,
        .fd = fd,
        .unauthenticated = commands->sasl || commands->authfile,
    };
}

void command_client_close(struct command_client *client)
{
    end_exchange(client);
    bypass_leave(client);
}

bool commands_authenticate(struct commands *commands, const struct command_auth *auth, char *error,
                           size_t nerror)
{
    if (auth->sasl) {
        commands->sasl = sasl_setup(error, nerror);
        return commands->sasl != NULL;
    }
    if (auth->file) {
        commands->authfile = authfile_new(auth->file, error, nerror);
        return commands->authfile != NULL;
    }
    return true;
}

bool commands_reload(struct commands *commands, char *error, size_t nerror)
{
    return !commands->authfile || authfile_reload(commands->authfile, error, nerror);
}

void auth_free(struct commands *commands)
{
    sasl_teardown(commands->sasl);
    authfile_free(commands->authfile);
}
