/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/watch_emit.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "net/socket.h"

enum { WORDS_BYTES = 192, PEER_BYTES = 128 };

/* "rip=1.2.3.4 rport=56 transport=tcp", as memcached 1.6 has it. */
static void describe_peer(char out[PEER_BYTES], int fd)
{
    struct socket_name name = {.len = sizeof(name.address)};
    char host[INET6_ADDRSTRLEN] = "unknown";

    if (getpeername(fd, (struct sockaddr *)&name.address, &name.len) != 0) {
        snprintf(out, PEER_BYTES,
                 "rip=unknown rport=0 transport=tcp"); /* the client has reset it */
        return;
    }
    if (name.address.ss_family == AF_UNIX) {
        snprintf(out, PEER_BYTES, "rip=unix rport=0 transport=local");
        return;
    }
    if (name.address.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)&name.address)->sin_addr, host, sizeof(host));
    else
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&name.address)->sin6_addr, host, sizeof(host));
    snprintf(out, PEER_BYTES, "rip=%s rport=%u transport=tcp", host, socket_port(&name));
}

static void emit(struct worker *worker, const char *words, int n)
{
    if (n > 0 && n < WORDS_BYTES) {
        command_emit_words(worker->local, COMMAND_WATCH_CONNEVENTS,
                           (struct slice){words, (size_t)n});
    }
}

void watch_emit_opened_now(struct worker *worker, int fd)
{
    char words[WORDS_BYTES], peer[PEER_BYTES];

    describe_peer(peer, fd);
    emit(worker, words, snprintf(words, sizeof(words), "type=conn_new %s cfd=%d", peer, fd));
}

void watch_emit_closing_now(struct worker *worker, int fd, enum close_reason reason)
{
    static const char *const texts[] = {
        [CLOSE_NORMAL] = "normal",
        [CLOSE_ERROR] = "error",
        [CLOSE_IDLE] = "idle_timeout",
    };
    char words[WORDS_BYTES], peer[PEER_BYTES];

    describe_peer(peer, fd);
    emit(worker, words,
         snprintf(words, sizeof(words), "type=conn_close %s reason=%s cfd=%d", peer, texts[reason],
                  fd));
}
