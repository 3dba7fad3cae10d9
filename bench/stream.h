/* SPDX-License-Identifier: BSD-3-Clause */
/* stream: a TCP connection to a memcached that does not block, and the replies that come on it. */
#ifndef BENCH_STREAM_H
#define BENCH_STREAM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

struct bytes {
    char *at;
    size_t start, end, room;
};

struct stream {
    int fd;
    struct bytes in, out;
};

/* All of these exit when the connection fails, or memory is short. */
void stream_open(struct stream *stream, const struct sockaddr_in *address);
void stream_close(struct stream *stream);
/* Room for n bytes of a request: put them there, and say with stream_put how many they are. */
char *stream_reserve(struct stream *stream, size_t n);
void stream_put(struct stream *stream, size_t n);
/* Sends what was put. False: some is left, for which the socket has no room. */
bool stream_flush(struct stream *stream);
/* Receives once. */
void stream_receive(struct stream *stream);
/* The length of the reply that is at *text; 0: it is not complete. It stays until it is taken. */
size_t stream_reply(const struct stream *stream, const char **text);
void stream_take(struct stream *stream, size_t n);

#endif
