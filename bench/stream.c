/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/items.h"
#include "bench/options.h"

enum { READ_BYTES = 1 << 16, LINE_LEAST = 4 };

void stream_open(struct stream *stream, const struct sockaddr_in *address)
{
    *stream = (struct stream){.fd = tcp_connect(address)};
    fcntl(stream->fd, F_SETFL, fcntl(stream->fd, F_GETFL) | O_NONBLOCK);
}

void stream_close(struct stream *stream)
{
    close(stream->fd);
    free(stream->in.at);
    free(stream->out.at);
}

/* Room for n more bytes behind the end. */
static char *bytes_reserve(struct bytes *bytes, size_t n)
{
    if (bytes->start == bytes->end)
        bytes->start = bytes->end = 0;
    if (bytes->room - bytes->end < n && bytes->start) {
        memmove(bytes->at, bytes->at + bytes->start, bytes->end - bytes->start);
        bytes->end -= bytes->start;
        bytes->start = 0;
    }
    if (bytes->room - bytes->end < n) {
        bytes->room = 2 * bytes->room + n;
        bytes->at = realloc(bytes->at, bytes->room);
        if (!bytes->at)
            fail("out of memory");
    }
    return bytes->at + bytes->end;
}

char *stream_reserve(struct stream *stream, size_t n)
{
    return bytes_reserve(&stream->out, n);
}

void stream_put(struct stream *stream, size_t n)
{
    stream->out.end += n;
}

bool stream_flush(struct stream *stream)
{
    struct bytes *out = &stream->out;

    while (out->start < out->end) {
        ssize_t n = send(stream->fd, out->at + out->start, out->end - out->start, MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0)
            fail("sending: %s", strerror(errno));
        out->start += (size_t)n;
    }
    return true;
}

void stream_receive(struct stream *stream)
{
    char *room = bytes_reserve(&stream->in, READ_BYTES);
    ssize_t got = recv(stream->fd, room, READ_BYTES, 0);

    if (got == 0 || (got < 0 && errno != EAGAIN))
        fail("the server closed a connection");
    if (got > 0)
        stream->in.end += (size_t)got;
}

size_t stream_reply(const struct stream *stream, const char **text)
{
    size_t n = stream->in.end - stream->in.start, line, value;
    const char *at = stream->in.at + stream->in.start, *end;

    end = n ? memchr(at, '\n', n) : NULL;
    if (!end)
        return 0;
    *text = at;
    line = (size_t)(end - at) + 1;
    if (line < LINE_LEAST)
        fail("a reply of %zu bytes", line);
    if (line < 8 || memcmp(at, "VALUE ", 6) != 0)
        return line;
    for (end--; end > at && end[-1] != ' '; end--)
        ;
    value = strtoul(end, NULL, 10);
    return line + value + 7 <= n ? line + value + 7 : 0;
}

void stream_take(struct stream *stream, size_t n)
{
    stream->in.start += n;
}
