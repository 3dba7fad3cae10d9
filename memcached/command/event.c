/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/event.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A line being written; the buffer fits the longest. */
struct line {
    char *text;
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line->text + line->n, EVENT_LINE_MAX - line->n, format, args);
    va_end(args);
    if (n > 0) {
        size_t room = EVENT_LINE_MAX - 1 - line->n;

        line->n += (size_t)n < room ? (size_t)n : room;
    }
}

static bool is_plain(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != 0 && strchr("-._~", c));
}

/* Percent encoding (RFC 3986, 2.1): bytes that are not unreserved become %XX. */
static void add_encoded(struct line *line, struct slice bytes)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.ptr[i];

        if (is_plain(c)) {
            line->text[line->n++] = (char)c;
        } else {
            line->text[line->n++] = '%';
            line->text[line->n++] = digits[c >> 4];
            line->text[line->n++] = digits[c & 15];
        }
    }
}

static void add_get(struct line *line, const struct event *event, struct slice key)
{
    add(line, "type=item_get key=");
    add_encoded(line, key);
    add(line, " status=%s clsid=%u cfd=%d", event->status, event->clsid, event->fd);
}

static void add_store(struct line *line, const struct event *event, struct slice key)
{
    add(line, "type=item_store key=");
    add_encoded(line, key);
    add(line, " status=%s cmd=%s ttl=%" PRId64 " clsid=%u cfd=%d", event->status, event->command,
        event->ttl, event->clsid, event->fd);
}

static void add_deleted(struct line *line, const struct event *event, struct slice key)
{
    add(line, "type=deleted key=");
    add_encoded(line, key);
    add(line, " cmd=%s clsid=%u size=%" PRIu32, event->command, event->clsid, event->nvalue);
}

static void add_removed(struct line *line, const struct event *event, struct slice key)
{
    add(line, "type=%s key=", event->status);
    add_encoded(line, key);
    add(line, " fetch=%s ttl=%" PRId64 " la=%" PRIu32 " clsid=%u", event->fetched ? "yes" : "no",
        event->ttl, event->idle, event->clsid);
    if (event->bucket >= 0)
        add(line, " bucket=%d", event->bucket);
}

static void add_command(struct line *line, const struct event *event, struct slice command)
{
    add(line, "type=rawcmd cmd=");
    add_encoded(line, command);
    add(line, " cfd=%d", event->fd);
}

static void add_words(struct line *line, const struct event *event, struct slice words)
{
    (void)event;
    memcpy(line->text + line->n, words.ptr, words.len);
    line->n += words.len;
}

size_t event_line(char out[EVENT_LINE_MAX], const struct event *event, struct slice bytes,
                  uint64_t gid)
{
    static void (*const adders[])(struct line *, const struct event *, struct slice) = {
        [EVENT_ITEM_GET] = add_get,         [EVENT_ITEM_STORE] = add_store,
        [EVENT_ITEM_DELETED] = add_deleted, [EVENT_ITEM_REMOVED] = add_removed,
        [EVENT_COMMAND] = add_command,      [EVENT_WORDS] = add_words,
    };
    struct line line = {out, 0};

    add(&line, "ts=%" PRIu64 ".%06u gid=%" PRIu64 " ", event->us / 1000000,
        (unsigned int)(event->us % 1000000), gid);
    adders[event->type](&line, event, bytes);
    out[line.n++] = '\n';
    return line.n;
}
