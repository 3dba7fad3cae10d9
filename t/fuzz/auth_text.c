/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is what a connection sends to a server with an auth file. What must hold: nothing
 * outside is touched (the sanitizer's job), the answers are whole lines, no client is logged in
 * without the user and the password, and no command is executed before.
 */
#include <unistd.h>

#include "base/stream.h"
#include "store/store_stats.h"
#include "t/unit/command_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static struct server server; /* for all inputs */

static void stop(void)
{
    server_stop(&server);
}

static void start(void)
{
    static const char users[] = "user:pass\nu:p";
    char path[] = "/tmp/memcached-auth-XXXXXX";
    const struct command_auth auth = {.file = path};
    struct store_config store;
    char error[256];
    int fd = mkstemp(path);

    must(fd >= 0 && write(fd, users, sizeof(users) - 1) == sizeof(users) - 1);
    server_defaults(&server, &store);
    server_start(&server, &store);
    must(commands_authenticate(server.commands, &auth, error, sizeof(error)));
    close(fd);
    unlink(path);
    atexit(stop);
}

/* What a command of any kind would change. */
static uint64_t changes(void)
{
    struct store_stats stats;

    store_stats(server.store, &stats);
    return stats.counts.get_cmds + stats.counts.touch_cmds + stats.counts.flush_cmds +
           stats.total_items + stats.counts.delete_misses + stats.counts.incr_misses;
}

/* Whether a line of the answer is none that a client which is not in may see. */
static bool only_refusals(const char *at, const char *end)
{
    static const char start_of_all[] = "CLIENT_ERROR ";

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));

        must(newline && newline > at && newline[-1] == '\r');
        if (strncmp(at, start_of_all, sizeof(start_of_all) - 1) != 0)
            return false;
        at = newline + 1;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = malloc(size ? size : 1);
    uint64_t before;

    must(bytes != NULL);
    memcpy(bytes, data, size);
    if (!server.store)
        start();
    before = changes();
    command_client_open(server.local, COMMAND_STREAM, 5, &server.client);
    must(server.client.unauthenticated);
    server.nout = 0;
    if (size == 0 || data[0] != 0x80) {
        server.step = 1 + size % 7;
        server_ask(&server, bytes, size);
    }
    if (server.client.unauthenticated) {
        must(changes() == before && only_refusals(server.out, server.out + server.nout));
    } else {
        must(memmem(bytes, size, "set", 3) &&
             (memmem(bytes, size, "user ", 5) || memmem(bytes, size, "u ", 2)));
    }
    if (server.client.stream) /* of a dump or a watcher, that net would take */
        stream_detach(server.client.stream);
    must(server.reply.nheld == 0 && server.reply.nbytes == 0 && server.nshutdowns == 0);
    command_client_close(&server.client);
    free(bytes);
    return 0;
}
