/* SPDX-License-Identifier: BSD-3-Clause */
/* event: an event for `watch`, in the format of the ring, and its formatting as a line. Pure. */
#ifndef COMMAND_EVENT_H
#define COMMAND_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum event_type {
    EVENT_ITEM_GET,
    EVENT_ITEM_STORE,
    EVENT_ITEM_DELETED,
    EVENT_ITEM_REMOVED, /* evicted, or written to flash */
    EVENT_COMMAND,      /* a request as it was received */
    EVENT_WORDS,        /* text that is the line itself */
};

enum { EVENT_BYTES_MAX = 1024 }; /* of the key, command or words; longer ones are truncated */

/* Followed by its bytes: the key, the command or the words. */
struct event {
    uint64_t us;      /* Unix time in microseconds */
    uint32_t classes; /* enum command_watch: whose watchers get it */
    uint8_t type;
    uint8_t clsid;
    uint8_t fetched;
    uint8_t unused;
    const char *status; /* constants: the result of a get or store; of REMOVED its type */
    const char *command;
    int64_t ttl;
    uint32_t idle;
    uint32_t nvalue;
    int32_t fd;
    int32_t bucket;
};

/* An event with its bytes. */
struct event_record {
    struct event event;
    char bytes[EVENT_BYTES_MAX];
};

enum { EVENT_LINE_MAX = 3 * EVENT_BYTES_MAX + 512 };

/* Writes the line with its newline, returns its length. */
size_t event_line(char out[EVENT_LINE_MAX], const struct event *event, struct slice bytes,
                  uint64_t gid);

#endif
