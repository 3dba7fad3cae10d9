/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is what a connection sends to a server with SASL: libsasl2 itself, with the mechanisms
 * that a password file or nothing at all can serve. What must hold: nothing outside is touched (the
 * sanitizer's job), the answers are whole messages, no client is logged in without the right
 * password, and no command is executed before.
 */
#include <unistd.h>

#include "store/store_stats.h"
#include "t/unit/command_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char secret[] = "\0user\0pass";

static void must(bool holds)
{
    if (!holds)
        abort();
}

static struct server server; /* for all inputs */

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    must(file && fputs(text, file) >= 0 && fclose(file) == 0);
    setenv(strcmp(name, "users") == 0 ? "MEMCACHED_SASL_PWDB" : "SASL_CONF_PATH", path, 1);
}

static void stop(void)
{
    unlink(getenv("MEMCACHED_SASL_PWDB"));
    unlink(getenv("SASL_CONF_PATH"));
    rmdir(getenv("T_FOLDER"));
    server_stop(&server);
}

static void start(void)
{
    static char folder[] = "/tmp/memcached-sasl-XXXXXX";
    const struct command_auth auth = {.sasl = true};
    struct store_config store;
    char error[256];

    must(mkdtemp(folder) != NULL);
    setenv("T_FOLDER", folder, 1);
    write_file(folder, "users", "user:pass\n");
    /* Not digest-md5, which leaks: libsasl2 2.1.28 forgets the first of two values of a name. */
    write_file(folder, "memcached.conf",
               "mech_list: plain login cram-md5 scram-sha-1 scram-sha-256 anonymous\n"
               "sasldb_path: /nonexistent\n");
    server_defaults(&server, &store);
    server_start(&server, &store);
    must(commands_authenticate(server.commands, &auth, error, sizeof(error)));
    atexit(stop);
}

static void check_messages(const char *at, const char *end)
{
    while (at < end) {
        const unsigned char *head = (const unsigned char *)at;
        size_t nbody;

        must(end - at >= PROTO_BINARY_HEADER && head[0] == 0x81);
        nbody = (size_t)head[8] << 24 | (size_t)head[9] << 16 | (size_t)head[10] << 8 | head[11];
        at += PROTO_BINARY_HEADER;
        must(nbody <= (size_t)(end - at));
        at += nbody;
    }
}

/* Bytes that a quiet or loud command of any kind would change. */
static uint64_t changes(void)
{
    struct store_stats stats;

    store_stats(server.store, &stats);
    return stats.counts.get_cmds + stats.counts.touch_cmds + stats.counts.flush_cmds +
           stats.total_items + stats.counts.delete_misses + stats.counts.incr_misses;
}

/* PLAIN's message, or for LOGIN the two words. */
static bool knows(const char *bytes, size_t size)
{
    return (memmem(bytes, size, secret + 1, sizeof(secret) - 2) != NULL) ||
           (memmem(bytes, size, "user", 4) && memmem(bytes, size, "pass", 4));
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
    if (size > 0 && data[0] == 0x80) {
        server.step = 1 + size % 7;
        server_ask(&server, bytes, size);
        check_messages(server.out, server.out + server.nout);
    }
    if (!knows(bytes, size))
        must(server.client.unauthenticated && changes() == before);
    must(server.reply.nheld == 0 && server.reply.nbytes == 0);
    command_client_close(&server.client);
    free(bytes);
    return 0;
}
