/* SPDX-License-Identifier: BSD-3-Clause */
/* parsed: runs the parsers of the chain (bpf/chain/) over bytes, from event to event. */
#ifndef T_LIB_PARSED_H
#define T_LIB_PARSED_H

#include <string.h>

#include "bpf/chain/response_parser.h"
#include "t/lib/hash.h"

/* Of xorshift64 (Marsaglia, Journal of Statistical Software 8, 2003). */
static const __u64 parsed_seeds[MC_HASH_WORDS] = {
    0xdc1b77ae0bf34dad, 0x64f0eeb9026e6076, 0x7b07ce91e5906136, 0x305f050c368dcc74,
    0x2ceb16e0a1c54aec, 0x97101dce4e7bfb79, 0x9ad2e144d6e8f2cf, 0xd9aa792e1af470ea,
    0xddaa4e85b0d6e28b, 0x8f8ea9d349428d8e, 0x08f474ffb8e8ab15, 0x2ead854756d71f03,
    0x55bc79f8ada711fd, 0x0e1fc49bd63b809e, 0xb92199e83f5a101f, 0xc5765079fc5d43ff,
    0x353cfc387dfae6b8, 0xa32edabf5585bd75, 0xfc5639b16b714b4f, 0x92fb2dcfc8ae9a19,
    0x544b0ec76d00616d, 0xbcbb9b7e9a319aef, 0x0f1a50d59c0aa21a, 0x80ae2120826571de,
    0x0e1ecd02ed7c0cbd, 0x0d0981e8c1fa7be4, 0xdc86b3d3cdbdf613, 0x6d0844c269e7693f,
    0x3681da7f6993082d, 0x5b928e2c987d857d, 0x6c716e1e6ced8137, 0xccb870213498f7f5,
};

/*
 * The events of the next byte that has any. *at: where to begin; on return behind that byte. 0: no
 * events up to `end`.
 */
static inline __u32 parsed_request(struct request_parser *p, const char **at, const char *end)
{
    __u32 events = 0;

    for (; *at < end && !events; ++*at)
        if (p->skip)
            p->skip--;
        else
            events = req_step(p, (__u8)(*at)[0], parsed_seeds);
    return events;
}

/* The same, but it skips the bytes that need no look, as the kernel does. */
static inline __u32 parsed_leaping(struct request_parser *p, const char **at, const char *end)
{
    const char *newline;
    __u32 events = 0;
    size_t skip;

    while (*at < end && !events) {
        if (p->skip) {
            skip = p->skip < (size_t)(end - *at) ? p->skip : (size_t)(end - *at);
            p->skip -= (__u32)skip;
            *at += skip;
            continue;
        }
        newline = p->skip_line ? memchr(*at, '\n', (size_t)(end - *at)) : *at;
        *at = newline ? newline : end;
        if (*at < end && !req_more(p, (__u8)(*at)[0], parsed_seeds))
            events = req_step(p, (__u8)(*at)[0], parsed_seeds);
        *at += *at < end;
    }
    return events;
}

static inline __u32 parsed_response(struct response_parser *p, const char **at, const char *end)
{
    __u32 events = 0;

    for (; *at < end && !events; ++*at)
        if (p->skip)
            p->skip--;
        else
            events = resp_step(p, (__u8)(*at)[0]);
    return events;
}

#endif
