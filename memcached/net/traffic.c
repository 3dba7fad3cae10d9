/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/traffic.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum {
    SHOWN_MAX = 512, /* of a line that is logged; that of a value is shorter */
    PIECES = 32,
};

/*
 * Copies the reply's bytes from `from` on, to the first newline, SHOWN_MAX at most, and ends them
 * with a zero byte. What follows the newline may be a value that is still being read from flash.
 */
static size_t copy_line(const struct reply *reply, size_t from, char *line)
{
    struct iovec iov[PIECES];
    size_t n = reply_iov(reply, from, SHOWN_MAX, iov, PIECES);
    const char *newline = NULL;
    size_t used = 0;

    for (size_t i = 0; i < n && !newline; i++) {
        newline = memchr(iov[i].iov_base, '\n', iov[i].iov_len);
        if (newline)
            iov[i].iov_len = (size_t)(newline + 1 - (const char *)iov[i].iov_base);
        memcpy(line + used, iov[i].iov_base, iov[i].iov_len);
        used += iov[i].iov_len;
    }
    line[used] = '\0';
    return used;
}

/* Logs the value whose line this is. Returns the bytes of both, 0 if it is another line. */
static size_t log_value(int fd, const char *line, size_t nline)
{
    const struct slice value = SLICE("VALUE "), sending = SLICE("sending key ");
    char text[SHOWN_MAX + 16];
    const char *key, *blank;
    char *end;
    size_t nkey;

    if (nline < value.len || memcmp(line, value.ptr, value.len) != 0 || line[nline - 1] != '\n')
        return 0;
    key = line + value.len;
    blank = memchr(key, ' ', nline - value.len);
    if (!blank)
        return 0;
    nkey = (size_t)(blank - key);
    memcpy(text, sending.ptr, sending.len);
    memcpy(text + sending.len, key, nkey);
    log_binary('>', fd, (struct slice){text, sending.len + nkey});
    strtoul(blank, &end, 10); /* the flags */
    return nline + strtoul(end, NULL, 10) + strlen("\r\n");
}

void traffic_request(int fd, bool binary, struct slice request)
{
    if (binary)
        log_binary('<', fd, request);
    else
        log_traffic('<', fd, request);
}

static void log_text(int fd, const struct reply *reply, size_t from)
{
    char line[SHOWN_MAX + 1];
    size_t n, nvalue;

    while ((n = copy_line(reply, from, line)) > 0) {
        nvalue = log_value(fd, line, n);
        if (nvalue == 0) {
            log_traffic('>', fd, (struct slice){line, n});
            return;
        }
        from += nvalue;
    }
}

void traffic_reply(int fd, bool binary, const struct reply *reply, size_t from)
{
    struct iovec iov;

    if (!binary)
        log_text(fd, reply, from);
    else if (reply_iov(reply, from, SIZE_MAX, &iov, 1) > 0)
        log_binary('>', fd, (struct slice){iov.iov_base, iov.iov_len});
}
