/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parser of meta commands: each line with the request that it becomes, as memcached 1.6.18
 * parses it (but for E, which is newer), placed at the end of readable memory.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/proto.h"
#include "t/lib/tap.h"
#include "t/lib/text.h"

#define K10    "kkkkkkkkkk"
#define K50    K10 K10 K10 K10 K10
#define K250   K50 K50 K50 K50 K50
#define O31    K10 K10 K10 "k"
#define F16    " a a a a a a a a a a a a a a a a"
#define BAD    "!CLIENT_ERROR bad command line format"
#define TOKEN  "!CLIENT_ERROR bad token in command line format"
#define FLAG   "!CLIENT_ERROR invalid flag"
#define DUP    "!CLIENT_ERROR duplicate flag"
#define EITHER "!CLIENT_ERROR invalid or duplicate flag"
#define MODE   "!CLIENT_ERROR incorrect length for M token"
#define DECODE "!CLIENT_ERROR error decoding key"
#define DELTA  "!CLIENT_ERROR invalid numeric delta value"
#define START  "!CLIENT_ERROR invalid numeric initial value"
#define OPAQUE "!CLIENT_ERROR opaque token too long"

/* The request as describe() writes it: verb, key, +length, [flags], values; ! and the error. */
static const struct row {
    const char *line, *request;
} rows[] = {
    {"mn\r\n", "mn"},
    {"mn foo bar\r\n", "mn"},
    {"me k\r\n", "me k"},
    {"me k v\r\n", "me k"},
    {"me aw== b\r\n", "me aw== base64"},
    {"me aw== v b\r\n", "me aw=="},
    {"me aw== bb\r\n", "me aw=="},
    {"me k b\r\n", "me " BAD},
    {"me\r\n", "me " BAD},
    {"me " K250 "k\r\n", "me " BAD},
    {"mg\r\n", "mg !ERROR"},
    {"mg \r\n", "mg !ERROR"},
    {"ms\r\n", "ms !ERROR"},
    {"md\r\n", "md !ERROR"},
    {"ma\r\n", "ma !ERROR"},
    {"MG k\r\n", "unknown !ERROR"},
    {"mgg k\r\n", "unknown !ERROR"},
    {"mg\tk\r\n", "unknown !ERROR"},
    {"mg k\r\n", "mg k"},
    {"mg k\n", "mg k"},
    {" mg  k  v  \r\n", "mg k [  v  ]"},
    {"mg " K250 "\r\n", "mg " K250},
    {"mg " K250 "k v\r\n", "mg " BAD},
    {"mg k s v f t c k l h O1 q u\r\n", "mg k [ s v f t c k l h O1 q u]"},
    {"mg k I L P\r\n", "mg k [ I L P]"},
    {"mg k vs kxx\r\n", "mg k [ vs kxx]"},
    {"mg k T30 N-1 R5\r\n", "mg k [ T30 N-1 R5] T30 N-1 R5"},
    {"mg k T+7 R007\r\n", "mg k [ T+7 R007] T7 R7"},
    {"mg k z\r\n", "mg " FLAG},
    {"mg k 0\r\n", "mg " FLAG},
    {"mg k S100\r\n", "mg " FLAG},
    {"mg k x\r\n", "mg " FLAG},
    {"mg k \177\r\n", "mg " DUP},
    {"mg k \377\r\n", "mg " DUP},
    {"mg k v v\r\n", "mg " DUP},
    {"mg k O1 O2\r\n", "mg " DUP},
    {"mg k v v z\r\n", "mg " DUP},
    {"mg k z v v\r\n", "mg " FLAG},
    {"mg k Tx z\r\n", "mg " FLAG},
    {"mg k T\r\n", "mg " TOKEN},
    {"mg k Nx\r\n", "mg " TOKEN},
    {"mg k R1.5\r\n", "mg " TOKEN},
    {"mg k C-1\r\n", "mg " TOKEN},
    {"mg k E5\r\n", "mg k [ E5] E5"},
    {"mg k Ex\r\n", "mg " TOKEN},
    {"mg k D\r\n", "mg " DELTA},
    {"mg k J-1\r\n", "mg " START},
    {"mg k M\r\n", "mg " MODE},
    {"mg k MX\r\n", "mg k [ MX] MX"},
    {"mg k F\r\n", "mg " BAD},
    {"mg k Tx Fx\r\n", "mg " TOKEN},
    {"mg k Fx Tx\r\n", "mg " TOKEN},
    {"mg k Tx Dx\r\n", "mg " DELTA},
    {"mg k Dx Tx\r\n", "mg " TOKEN},
    {"mg k b Tx\r\n", "mg " TOKEN},
    {"mg k Tx b\r\n", "mg " DECODE},
    {"mg k b\r\n", "mg " DECODE},
    {"mg !!!! b\r\n", "mg " DECODE},
    {"mg aw== b k\r\n", "mg aw== base64 [ b k]"},
    {"mg k O" O31 "\r\n", "mg k [ O" O31 "]"},
    {"mg k O" O31 "k\r\n", "mg " OPAQUE},
    {"mg k O" O31 "k Tx\r\n", "mg " TOKEN},
    {"mg k" F16 " a\r\n", "mg " FLAG},
    {"mg k" F16 " a a\r\n", "mg !CLIENT_ERROR options flags are too long"},
    {"ms k\r\n", "ms " BAD},
    {"ms k x\r\n", "ms " BAD},
    {"ms k -1\r\n", "ms " BAD},
    {"ms k S3\r\n", "ms " BAD},
    {"ms k T0 3\r\n", "ms " BAD},
    {"ms k 2147483646\r\n", "ms " BAD},
    {"ms k 4294967299\r\n", "ms " BAD},
    {"ms k 99999999999999999999\r\n", "ms " BAD},
    {"ms " K250 "k 3\r\n", "ms " BAD},
    {"ms k 2147483645\r\n", "ms k +2147483645"},
    {"ms k 0\r\n", "ms k +0"},
    {"ms k +3\r\n", "ms k +3"},
    {"ms k 3 F5 T9 C7 MA c q I\r\n", "ms k +3 [ F5 T9 C7 MA c q I] T9 C7 F5 MA"},
    {"ms k 3 F4294967295\r\n", "ms k +3 [ F4294967295] F4294967295"},
    {"ms k 3 F4294967296\r\n", "ms k +3 [ F4294967296]"},
    {"ms k 3 F-1\r\n", "ms +3 " BAD},
    {"ms k 3 z\r\n", "ms +3 " FLAG},
    {"ms k 3 v v\r\n", "ms +3 " DUP},
    {"ms !! 3 b\r\n", "ms +3 " DECODE},
    {"ms k 3 M\r\n", "ms +3 " MODE},
    {"ms k 3 Mset\r\n", "ms +3 " MODE},
    {"ms k 3 MX\r\n", "ms +3 !CLIENT_ERROR invalid mode for ms M token"},
    {"ms k 3 Ms\r\n", "ms +3 !CLIENT_ERROR invalid mode for ms M token"},
    {"ms k 3 MX O" O31 "k\r\n", "ms +3 !CLIENT_ERROR invalid mode for ms M token"},
    {"ms k 3 O" O31 "k\r\n", "ms +3 " OPAQUE},
    {"ms k 3" F16 "\r\n", "ms +3 " FLAG},
    {"ms k 3" F16 " a\r\n", "ms !CLIENT_ERROR options flags too long"},
    {"ms k x" F16 " a\r\n", "ms !CLIENT_ERROR options flags too long"},
    {"md k q I T30 C5 O k\r\n", "md k [ q I T30 C5 O k] T30 C5"},
    {"md k z\r\n", "md " EITHER},
    {"md k v v\r\n", "md " EITHER},
    {"md k b\r\n", "md " EITHER},
    {"md k Tx\r\n", "md " EITHER},
    {"md k MX\r\n", "md k [ MX] MX"},
    {"md k O" O31 "k\r\n", "md " OPAQUE},
    {"md k" F16 " a\r\n", "md " EITHER},
    {"md k" F16 " a a\r\n", "md !CLIENT_ERROR options flags too long"},
    {"ma k\r\n", "ma k"},
    {"ma k N0 J13 D5 MD\r\n", "ma k [ N0 J13 D5 MD] D5 J13 MD"},
    {"ma k D18446744073709551615\r\n", "ma k [ D18446744073709551615] D18446744073709551615"},
    {"ma k D18446744073709551616\r\n", "ma " EITHER},
    {"ma k M+\r\n", "ma k [ M+] M+"},
    {"ma k M-\r\n", "ma k [ M-] M-"},
    {"ma k MI\r\n", "ma k [ MI] MI"},
    {"ma k Mi\r\n", "ma !CLIENT_ERROR invalid mode for ma M token"},
    {"ma k MINCR\r\n", "ma " EITHER},
};

static const char *name_of(enum verb verb)
{
    /* The other lines, which the table does not have. */
    return verb == VERB_META_GET      ? "mg"
           : verb == VERB_META_SET    ? "ms"
           : verb == VERB_META_DELETE ? "md"
           : verb == VERB_META_ARITH  ? "ma"
           : verb == VERB_META_NOOP   ? "mn"
           : verb == VERB_META_DEBUG  ? "me"
                                      : "unknown";
}

static void put_values(const struct request *request, struct text *text)
{
    const struct request_meta *meta = &request->meta;
    const struct {
        char flag;
        int64_t value, unset;
    } values[] = {
        {'T', request->exptime, 0},      {'N', meta->vivify, 0},          {'R', meta->recache, 0},
        {'C', (int64_t)request->cas, 0}, {'F', request->client_flags, 0},
    };
    const struct {
        char flag;
        uint64_t value, unset;
    } numbers[] = {
        {'D', request->delta, 1},
        {'J', meta->initial, 0},
        {'E', meta->new_cas, 0},
    };

    for (size_t i = 0; i < COUNT(values); i++)
        if (values[i].value != values[i].unset)
            text_say(text, " %c%" PRId64, values[i].flag, values[i].value);
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (numbers[i].value != numbers[i].unset)
            text_say(text, " %c%" PRIu64, numbers[i].flag, numbers[i].value);
    if (meta->mode)
        text_say(text, " M%c", meta->mode);
}

static void describe(const struct request *request, struct text *text)
{
    text->n = 0;
    text_say(text, "%s", name_of(request->verb));
    if (!request->error.len && request->key.len)
        text_say(text, " %.*s", (int)request->key.len, request->key.ptr);
    if (request->has_value)
        text_say(text, " +%" PRIu64, request->nvalue);
    if (request->error.len) {
        text_say(text, " !%.*s", (int)request->error.len - 2, request->error.ptr);
        return;
    }
    if (request->verb != VERB_META_NOOP && proto_meta_has(request, 'b'))
        text_say(text, " base64");
    if (request->meta.flags.len)
        text_say(text, " [%.*s]", (int)request->meta.flags.len, request->meta.flags.ptr);
    put_values(request, text);
}

int main(void)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t len = strlen(rows[i].line);
        char *line = malloc(len);
        struct request request;
        struct text got = {.n = 0};
        ssize_t n;

        memcpy(line, rows[i].line, len);
        memset(&request, 0xa5, sizeof(request));
        n = proto_parse_text((struct slice){line, len}, &request);
        describe(&request, &got);
        if (!ok(n == (ssize_t)len && strcmp(got.bytes, rows[i].request) == 0, "%.60s",
                rows[i].request))
            diag("%zd: got: %s", n, got.bytes);
        free(line);
    }
    return done();
}
