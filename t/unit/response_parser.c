/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each row is the bytes of a server and the events that the parser reports, one word for each byte
 * with events: R for a complete response, with E if it is an error and N if it is the response to
 * mn; L when the parser is lost.
 */
#include <string.h>

#include "t/lib/parsed.h"
#include "t/lib/tap.h"

#define HEAD(opcode, key, status, body) "\x81" opcode key "\0\0" status body "opaq\0\0\0\0\0\0\0\0"

#define K32  "12345678901234567890123456789012"
#define K256 K32 K32 K32 K32 K32 K32 K32 K32

struct row {
    const char *name;
    const char *input;
    size_t n;
    const char *found;
};

#define ROW(name, input, found)                                                                    \
    {                                                                                              \
        name, input, sizeof(input) - 1, found                                                      \
    }

static const struct row text[] = {
    ROW("stored", "STORED\r\nNOT_STORED\r\nEXISTS\r\nNOT_FOUND\r\n", "R R R R"),
    ROW("deleted", "DELETED\r\nTOUCHED\r\nOK\r\nRESET\r\nVERSION 1.5.19\r\n", "R R R R R"),
    ROW("a number", "0\r\n18446744073709551615\r\n9 \r\n", "R R R"),
    ROW("no value", "END\r\nEND\r\n", "R R"),
    ROW("a value", "VALUE a 0 1\r\nx\r\nEND\r\n", "R"),
    ROW("with an id", "VALUE a 0 1 17\r\nx\r\nEND\r\n", "R"),
    ROW("of nothing", "VALUE a 0 0\r\n\r\nEND\r\n", "R"),
    ROW("several", "VALUE a 0 1\r\nx\r\nVALUE b 1 2 3\r\nyz\r\nEND\r\n", "R"),
    ROW("of what reads as answers", "VALUE a 0 13\r\nSTORED\r\nEND\r\n\r\nEND\r\n", "R"),
    ROW("before an error", "VALUE a 0 1\r\nx\r\nSERVER_ERROR out of memory\r\n", "RE"),
    ROW("of another length", "VALUE a 0 1\r\nxy\r\nEND\r\n", "L"),
    ROW("with none", "VALUE a 0\r\n", "L"),
    ROW("with one that is none", "VALUE a 0 1x\r\n", "L"),
    ROW("over 2^32", "VALUE a 0 4294967296\r\n", "L"),
    ROW("errors", "ERROR\r\nCLIENT_ERROR bad data chunk\r\nSERVER_ERROR x\r\n", "RE RE RE"),
    ROW("with more text", "ERROR: shutdown not enabled\r\nError TLS not enabled\r\n", "RE RE"),
    ROW("statistics", "STAT pid 1\r\nSTAT x END\r\nEND\r\n", "R"),
    ROW("without an end", "STAT sizes_status disabled\r\nSTORED\r\n", "R"),
    ROW("the crawler's", "key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=63\r\nEND\r\n", "R"),
    ROW("in 1.6.43", "OK\r\nkey=a exp=-1\r\nEND\r\n", "R R"),
    ROW("for other servers", "mg a\r\nmg YQ== b\r\nEN\r\n", "R"),
    ROW("others of administration",
        "BUSY a\r\nBADCLASS x\r\nNOSPARE\r\nNOTFULL\r\nUNSAFE\r\nSAME\r\n", "R R R R R R"),
    ROW("of meta", "HD\r\nHD c1 kx\r\nEN\r\nNS\r\nEX\r\nNF q\r\nME a exp=-1\r\n", "R R R R R R R"),
    ROW("a meta value", "VA 2 c1\r\nxy\r\nVA 0\r\n\r\nHD\r\n", "R R R"),
    ROW("of 1.5.19", "VA sv 2\r\nxy\r\nEN\r\n", "L"),
    ROW("mn", "MN\r\nMN\r\n", "RN RN"),
    ROW("an unknown response", "MAYBE\r\n", "L"),
    ROW("an empty line", "\r\n", "L"),
    ROW("a watcher's", "ts=1.1 gid=1 type=item_get\r\n", "L"),
    ROW("a binary answer in text", "END\r\n" HEAD("\x01", "\0\0", "\0\0", "\0\0\0\0") "\r\n",
        "R L"),
    ROW("nothing after the parser is lost", "what?\r\nSTORED\r\n", "L"),
};

static const struct row binary[] = {
    ROW("to set", HEAD("\x01", "\0\0", "\0\0", "\0\0\0\0"), "R"),
    ROW("an error", HEAD("\x01", "\0\0", "\0\x5", "\0\0\0\xa") "Not stored", "R"),
    ROW("two",
        HEAD("\x00", "\0\0", "\0\0", "\0\0\0\x5") "flagx" HEAD("\x04", "\0\0", "\0\0", "\0\0\0\0"),
        "R R"),
    ROW("to a quiet one",
        HEAD("\x11", "\0\0", "\0\x5", "\0\0\0\xa") "Not stored" HEAD("\x0a", "\0\0", "\0\0",
                                                                     "\0\0\0\0"),
        "R"),
    ROW("to stat",
        HEAD("\x10", "\0\3", "\0\0", "\0\0\0\4") "pid1" HEAD("\x10", "\1\0", "\0\0", "\0\0\1\0")
            K256 HEAD("\x10", "\0\0", "\0\0", "\0\0\0\0"),
        "R"),
    ROW("to what is not known", HEAD("\x40", "\0\0", "\0\x81", "\0\0\0\xf") "Unknown command", ""),
    ROW("half a header", "\x81\x01\0", ""),
    ROW("another magic", HEAD("\x01", "\0\0", "\0\0", "\0\0\0\0") "STORED\r\n", "R L"),
};

static void step(struct response_parser *p, const char *bytes, size_t n, char *out)
{
    const char *end = bytes + n;
    __u32 events;

    while ((events = parsed_response(p, &bytes, end))) {
        if (*out)
            strcat(out, " ");
        if (events & RESP_COMPLETE)
            strcat(out, "R");
        if (events & RESP_ERROR)
            strcat(out, "E");
        if (events & RESP_MN)
            strcat(out, "N");
        if (events & RESP_LOST)
            strcat(out, "L");
    }
}

static void check(const char *what, const struct row *row)
{
    char whole[256] = "", halves[256];
    struct response_parser p;
    bool same = true;

    resp_init(&p, PARSER_ANY);
    step(&p, row->input, row->n, whole);
    if (!ok(strcmp(whole, row->found) == 0, "%s: %s", what, row->name))
        diag("found %s", whole);
    for (size_t cut = 0; cut <= row->n; cut++) {
        *halves = '\0';
        resp_init(&p, PARSER_ANY);
        step(&p, row->input, cut, halves);
        if (p.skip && cut < row->n) {
            size_t skip = p.skip < row->n - cut ? p.skip : row->n - cut;

            p.skip -= (__u32)skip;
            step(&p, row->input + cut + skip, row->n - cut - skip, halves);
        } else {
            step(&p, row->input + cut, row->n - cut, halves);
        }
        same = same && strcmp(whole, halves) == 0;
    }
    if (!same)
        ok(false, "%s: %s: split in two the events are the same", what, row->name);
}

static void ends_are_reported(void)
{
    char out[64] = "";
    struct response_parser p;

    resp_init(&p, PARSER_ANY);
    ok(resp_between(&p), "at its beginning the parser is between responses");
    step(&p, "VALUE a 0 1\r\nx\r\n", 16, out);
    ok(!resp_between(&p), "within a response of several lines it is not between responses");
    step(&p, "END\r\n", 5, out);
    ok(resp_between(&p), "behind the response it is");
    step(&p, "STAT pid 1\r\n", 12, out);
    ok(!resp_between(&p), "among statistics it is not");
    step(&p, "END\r\n", 5, out);
    step(&p, "what?\r\n", 7, out);
    ok(!resp_between(&p), "a lost parser is not");
    resp_init(&p, p.protocol);
    step(&p, "END\r\n", 5, out);
    ok(resp_between(&p) && strcmp(out, "R R L R") == 0, "a parser that begins again is");
}

int main(void)
{
    for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++)
        check("text", &text[i]);
    for (size_t i = 0; i < sizeof(binary) / sizeof(*binary); i++)
        check("binary", &binary[i]);
    ends_are_reported();
    return done();
}
