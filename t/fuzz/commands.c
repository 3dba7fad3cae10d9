/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is executed as what a connection sends, by the commands on a store, with no sockets.
 * What must hold: nothing outside is touched (the sanitizer's job), nothing is held or reserved
 * afterwards, and a client can parse the answer: whole lines, behind VALUE and VA as many bytes as
 * they announce; in binary whole messages.
 */
#include "t/unit/command_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* The bytes of value that a line announces, 0 if none. */
static size_t announced(const char *line, const char *end)
{
    unsigned long long n = 0;

    must(end - line < 4096 && *end == '\n');
    if (strncmp(line, "VA ", 3) == 0) {
        must(sscanf(line, "VA %llu", &n) == 1);
        return n + 2;
    }
    if (strncmp(line, "VALUE ", 6) == 0) {
        must(sscanf(line, "VALUE %*s %*u %llu", &n) == 1);
        return n + 2;
    }
    return 0;
}

static void check_text(const char *at, const char *end)
{
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t nvalue;

        must(newline && newline > at && newline[-1] == '\r');
        nvalue = announced(at, newline);
        at = newline + 1;
        must(nvalue <= (size_t)(end - at));
        at += nvalue;
        must(nvalue == 0 || memcmp(at - 2, "\r\n", 2) == 0);
    }
}

static void check_binary(const char *at, const char *end)
{
    while (at < end) {
        const unsigned char *head = (const unsigned char *)at;
        size_t nbody;

        must(end - at >= PROTO_BINARY_HEADER && head[0] == 0x81);
        nbody = (size_t)head[8] << 24 | (size_t)head[9] << 16 | (size_t)head[10] << 8 | head[11];
        must(nbody >= (size_t)head[4] + ((size_t)head[2] << 8 | head[3]));
        at += PROTO_BINARY_HEADER;
        must(nbody <= (size_t)(end - at));
        at += nbody;
    }
}

static struct server server; /* for all inputs: to make one takes longer than to execute them */

static void stop(void)
{
    server_stop(&server);
}

static void start(void)
{
    struct store_config store;

    server_defaults(&server, &store);
    server_start(&server, &store);
    atexit(stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = malloc(size ? size : 1);

    must(bytes != NULL);
    memcpy(bytes, data, size);
    if (!server.store)
        start();
    must(strcmp(
             ask(&server, "flush_all\r\ncache_memlimit 64\r\nstats detail off\r\nstats reset\r\n"),
             "OK\r\nOK\r\nOK\r\nRESET\r\n") == 0);
    server_ask(&server, bytes, size);
    (size && data[0] == 0x80 ? check_binary : check_text)(server.out, server.out + server.nout);
    must(server.reply.nheld == 0 && server.reply.nbytes == 0 && server.nshutdowns == 0);
    free(bytes);
    return 0;
}
