/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parsers: runs bpf/chain/request_parser.h and response_parser.h over the bytes that
 * t/lib/parsers.py sends. It answers each line with one line, and writes them at an empty line:
 *
 *     n        a connection begins
 *     q HEX    a client's bytes: each event as OFFSET:EVENTS:HASH, then 1 if it is between commands
 *     m HEX    the same if it is between commands, else nothing and 0
 *     a HEX    the server's: each as OFFSET:EVENTS, then 1 if it is between answers
 *     h HEX    a key: its hash
 *
 * Behind a client's bytes that cannot be parsed a command begins.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/lib/parsed.h"

struct parsers {
    struct request_parser request;
    struct response_parser response;
};

static int value_of(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = digit ? strchr(digits, digit) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* In place; how many bytes. */
static size_t from_hex(char *text)
{
    size_t n = 0;

    while (value_of(text[2 * n]) >= 0 && value_of(text[2 * n + 1]) >= 0) {
        text[n] = (char)(value_of(text[2 * n]) << 4 | value_of(text[2 * n + 1]));
        n++;
    }
    return n;
}

static void requests(struct request_parser *p, const char *bytes, size_t n)
{
    const char *at = bytes;
    __u32 events, all = 0;

    while ((events = parsed_request(p, &at, bytes + n))) {
        printf("%td:%u:%" PRIu64 " ", at - 1 - bytes, events, (uint64_t)p->hash);
        all |= events;
    }
    printf("%d\n", req_between(p));
    if (all & REQ_LOST)
        req_init(p, p->protocol);
}

static void responses(struct response_parser *p, const char *bytes, size_t n)
{
    const char *at = bytes;
    __u32 events;

    while ((events = parsed_response(p, &at, bytes + n)))
        printf("%td:%u ", at - 1 - bytes, events);
    printf("%d\n", resp_between(p));
}

int main(void)
{
    struct parsers parsers = {0};
    char *line = NULL;
    size_t size = 0, n;

    while (getline(&line, &size, stdin) > 0) {
        n = strlen(line) < 3 ? 0 : from_hex(line + 2);
        if (line[0] == '\n') {
            fflush(stdout);
        } else if (line[0] == 'q' || (line[0] == 'm' && req_between(&parsers.request))) {
            requests(&parsers.request, line + 2, n);
        } else if (line[0] == 'a') {
            responses(&parsers.response, line + 2, n);
        } else if (line[0] == 'h') {
            printf("%" PRIu64 "\n", (uint64_t)hash_of(parsed_seeds, line + 2, n));
        } else if (line[0] == 'm') {
            printf("0\n");
        } else {
            req_init(&parsers.request, PARSER_ANY);
            resp_init(&parsers.response, PARSER_ANY);
            printf("1\n");
        }
    }
    free(line);
    return 0;
}
