/* SPDX-License-Identifier: BSD-3-Clause */
/* The log line of each event. */
#include "command/event.h"

#include <string.h>

#include "t/lib/tap.h"

static const char *line_of(const struct event *event, struct slice bytes)
{
    static char out[EVENT_LINE_MAX + 1];

    out[event_line(out, event, bytes, 7)] = 0;
    return out;
}

static void is_line(const struct event *event, struct slice bytes, const char *want,
                    const char *name)
{
    const char *got = line_of(event, bytes);

    if (!ok(strcmp(got, want) == 0, "%s", name)) {
        diag("got:  %s", got);
        diag("want: %s", want);
    }
}

static void forms(void)
{
    struct event event = {
        .us = 1466120156000123,
        .type = EVENT_ITEM_GET,
        .clsid = 3,
        .fd = 20,
        .status = "found",
        .command = "set",
        .ttl = 4294967295,
        .idle = 4,
        .nvalue = 5,
        .bucket = -1,
    };

    is_line(&event, SLICE("k"),
            "ts=1466120156.000123 gid=7 type=item_get key=k status=found clsid=3 cfd=20\n",
            "item_get; microseconds have six digits");
    event.type = EVENT_ITEM_STORE;
    is_line(&event, SLICE("k"),
            "ts=1466120156.000123 gid=7 type=item_store key=k status=found cmd=set ttl=4294967295 "
            "clsid=3 cfd=20\n",
            "a store");
    event.type = EVENT_ITEM_DELETED;
    is_line(&event, SLICE("k"),
            "ts=1466120156.000123 gid=7 type=deleted key=k cmd=set clsid=3 size=5\n", "a delete");
    event.type = EVENT_ITEM_REMOVED;
    event.ttl = -1;
    event.status = "eviction";
    is_line(&event, SLICE("k"),
            "ts=1466120156.000123 gid=7 type=eviction key=k fetch=no ttl=-1 la=4 clsid=3\n",
            "an eviction");
    event.fetched = 1;
    event.bucket = 2;
    event.status = "extwrite";
    is_line(&event, SLICE("k"),
            "ts=1466120156.000123 gid=7 type=extwrite key=k fetch=yes ttl=-1 la=4 clsid=3 "
            "bucket=2\n",
            "extwrite: a write to flash");
    event.type = EVENT_COMMAND;
    is_line(&event, SLICE("get k"), "ts=1466120156.000123 gid=7 type=rawcmd cmd=get%20k cfd=20\n",
            "a command");
    event.type = EVENT_WORDS;
    is_line(&event, SLICE("type=x y=z"), "ts=1466120156.000123 gid=7 type=x y=z\n", "words");
}

static void longest(void)
{
    struct event event = {.us = UINT64_MAX, .type = EVENT_COMMAND, .fd = INT32_MIN};
    char bytes[EVENT_BYTES_MAX];
    const char *line;

    memset(bytes, 0xff, sizeof(bytes));
    line = line_of(&event, (struct slice){bytes, sizeof(bytes)});
    ok(strlen(line) > 3 * sizeof(bytes) && strstr(line, "%FF cfd=-2147483648\n"),
       "the longest command fits into a line");
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    line = line_of(&event, (struct slice){bytes, 256});
    ok(strstr(line, "cmd=%00%01") && strstr(line, "%20%21") &&
           strstr(line, "%2C-.%2F0123456789%3A") && strstr(line, "%40ABC") &&
           strstr(line, "Z%5B") && strstr(line, "%5E_%60a") && strstr(line, "z%7B%7C%7D~%7F%80"),
       "letters, digits and -._~ are printed as they are, all other bytes as %%XX");
}

int main(void)
{
    forms();
    longest();
    return done();
}
