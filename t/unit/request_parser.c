/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each row is the bytes of a client and the events that the parser reports, one word for each byte
 * with events: W and the key that is written, * and the seconds if all keys are, ? an unknown
 * command, D the end of a value; of responses A for one, U for one or none, S for none, B for the
 * response to mn; L when the parser is lost.
 */
#include <stdint.h>
#include <string.h>

#include "t/lib/parsed.h"
#include "t/lib/tap.h"

#define K8   "12345678"
#define K16  K8 K8
#define K50  "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwx"
#define K250 K50 K50 K50 K50 K50
#define S50  "                                                  "
#define S500 S50 S50 S50 S50 S50 S50 S50 S50 S50 S50

/* A header: opcode, and lengths of key, extras and body. */
#define HEAD(opcode, key, extras, body)                                                            \
    "\x80" opcode key extras "\0\0\0" body "opaq\0\0\0\0\0\0\0\0"

static const char *const keys[] = {"a",     "b",  "k",    K8,         K8 "9",    K16,
                                   K16 "7", K250, "a\tb", "\xff\x80", "noreply", "0"};

struct row {
    const char *name;
    const char *input;
    size_t n;
    const char *predicted;
};

#define ROW(name, input, predicted)                                                                \
    {                                                                                              \
        name, input, sizeof(input) - 1, predicted                                                  \
    }

static const struct row storage[] = {
    ROW("a set", "set a 0 0 1\r\nx\r\n", "Wa DA"),
    ROW("of nothing", "set a 0 0 0\r\n\r\n", "Wa DA"),
    ROW("with noreply", "set a 0 0 1 noreply\r\nx\r\n", "Wa DS"),
    ROW("with noreply and a blank", "set a 0 0 1 noreply \r\nx\r\n", "Wa DU"),
    ROW("with a blank", "set a 0 0 1 \r\nx\r\n", "Wa DA"),
    ROW("with blanks", "  set  a   0    0     1  \r\nx\r\n", "Wa DA"),
    ROW("whose line ends with \\n alone", "set a 0 0 1\nx\r\n", "Wa DA"),
    ROW("of what reads as a command", "set a 0 0 10\r\ndelete b\r\n\r\nget a\r\n", "Wa DA A"),
    ROW("with a time in the past", "set a 0 -1 1\r\nx\r\n", "Wa DA"),
    ROW("with zeros", "set a 000 +0 001\r\nx\r\n", "Wa DA"),
    ROW("add", "add b 1 2 3\r\nxyz\r\n", "Wb DA"),
    ROW("replace", "replace b 1 2 3\r\nxyz\r\n", "Wb DA"),
    ROW("append", "append b 1 2 3\r\nxyz\r\n", "Wb DA"),
    ROW("prepend", "prepend b 1 2 3\r\nxyz\r\n", "Wb DA"),
    ROW("cas", "cas b 1 2 3 4\r\nxyz\r\n", "Wb DA"),
    ROW("cas with noreply", "cas b 1 2 3 4 noreply\r\nxyz\r\n", "Wb DS"),
    ROW("several", "set a 0 0 1\r\nx\r\nadd b 0 0 1\r\ny\r\nset k 0 0 1\r\nz\r\n",
        "Wa DA Wb DA Wk DA"),
    ROW("a key of 8", "set " K8 " 0 0 1\r\nx\r\n", "W" K8 " DA"),
    ROW("of 9", "set " K8 "9 0 0 1\r\nx\r\n", "W" K8 "9 DA"),
    ROW("of 16", "set " K16 " 0 0 1\r\nx\r\n", "W" K16 " DA"),
    ROW("of 17", "set " K16 "7 0 0 1\r\nx\r\n", "W" K16 "7 DA"),
    ROW("of 250", "set " K250 " 0 0 1\r\nx\r\n", "W" K250 " DA"),
    ROW("of 251", "set " K250 "1 0 0 1\r\nx\r\n", "L"),
    ROW("of any bytes", "set \xff\x80 0 0 1\r\nx\r\nset a\tb 0 0 1\r\nx\r\n",
        "W\xff\x80 DA Wa\tb DA"),
    ROW("called noreply", "set noreply 0 0 1\r\nx\r\n", "Wnoreply DA"),
    ROW("a value that is too long", "set a 0 0 1\r\nxy\r\n", "Wa L"),
    ROW("too short", "set a 0 0 2\r\nx\r\n", "Wa L"),
    ROW("that ends with \\n alone", "set a 0 0 1\r\nx\n", "Wa L"),
    ROW("with \\r alone", "set a 0 0 1\r\nx\rdelete b\r\n", "Wa L"),
    ROW("a length below 0", "set a 0 0 -1\r\nx\r\n", "L"),
    ROW("that is no number", "set a 0 0 x\r\nx\r\n", "L"),
    ROW("that begins as one", "set a 0 0 1x\r\nx\r\n", "L"),
    ROW("a sign alone", "set a 0 - 1\r\nx\r\n", "L"),
    ROW("over 2^31", "set a 0 0 2147483646\r\nx\r\n", "L"),
    ROW("over 2^64", "set a 0 0 18446744073709551617\r\nx\r\n", "L"),
    ROW("large with noreply", "set a 0 0 1000001 noreply\r\nx\r\n", "L"),
    ROW("flags over 2^32", "set a 4294967296 0 1\r\nx\r\n", "L"),
    ROW("the largest flags", "set a 4294967295 0 1\r\nx\r\n", "Wa DA"),
    ROW("flags with a sign", "set a -1 0 1\r\nx\r\n", "L"),
    ROW("a word too few", "set a 0 0\r\nx\r\n", "L"),
    ROW("none", "set\r\n", "L"),
    ROW("cas without its number", "cas a 0 0 1\r\nx\r\n", "L"),
    ROW("with one that is none", "cas a 0 0 1 x\r\nx\r\n", "L"),
    ROW("a word too many", "set a 0 0 1 x\r\nx\r\n", "L"),
    ROW("two of them", "set a 0 0 1 noreply x\r\nx\r\n", "L"),
    ROW("a NUL in a line", "set a\0 0 0 1\r\nx\r\n", "L"),
    ROW("a \\r in a line", "set a 0 0 1\rx\r\n", "L"),
    ROW("a key that ends with \\r", "delete a\r\r\n", "L"),
    ROW("a verb in capitals", "SET a 0 0 1\r\n", "*?A"),
};

static const struct row others[] = {
    ROW("get", "get a\r\nget a b k\r\nget\r\nget \n", "A A A A"),
    ROW("gets and bget", "gets a\r\nbget a\r\n", "A A"),
    ROW("of what looks like anything", "get set\ta \0 noreply \r delete b\r\n", "A"),
    ROW("delete", "delete a\r\n", "WaA"),
    ROW("delete 0", "delete a 0\r\n", "WaA"),
    ROW("with noreply", "delete a noreply\r\ndelete a 0 noreply\r\n", "WaS WaS"),
    ROW("noreply elsewhere", "delete a noreply 0\r\ndelete a noreply \r\n", "WaU WaU"),
    ROW("a key called noreply", "delete noreply\r\n", "WnoreplyA"),
    ROW("of 251 bytes", "delete " K250 "1\r\n", "A"),
    ROW("no key", "delete\r\ndelete \r\n", "A A"),
    ROW("incr", "incr a 1\r\nincr a 1 noreply\r\nincr a x\r\n", "WaA WaS WaA"),
    ROW("decr", "decr b 1\r\ndecr b 1 noreply\n", "WbA WbS"),
    ROW("touch", "touch b 1\r\ntouch b -1 noreply\r\n", "WbA WbS"),
    ROW("gat", "gat 0 a\r\ngats 10 a b\r\n", "Wa A Wa Wb A"),
    ROW("gat with \\n alone", "gat 0 a\n", "WaA"),
    ROW("gat of noreply", "gat 0 noreply\r\n", "Wnoreply A"),
    ROW("gat of no key", "gat 0\r\ngat\r\n", "A A"),
    ROW("flush_all", "flush_all\r\nflush_all noreply\r\n", "*0A *0S"),
    ROW("later", "flush_all 10\r\nflush_all 4294967295 noreply\r\n", "*10A *4294967295S"),
    ROW("with a time in the past", "flush_all -1\r\n", "*0A"),
    ROW("with too long a time", "flush_all 99999999999999999999\r\n", "*4294967295A"),
    ROW("that is none", "flush_all x\r\n", "*0A"),
    ROW("and then without", "flush_all 10\r\nflush_all\r\n", "*10A *0A"),
    ROW("an unknown command", "foo a b\r\nfoo noreply\r\n", "*?A *?U"),
    ROW("longer than all", "flush_all_and_more_than_that\r\nflush_all2\r\n", "*?A *?A"),
    ROW("that begins as a known one", "setx a 0 0 1\r\ngeta b\r\nse\r\n", "*?A *?A *?A"),
    ROW("an empty line", "\r\n\n \r\n", "A A A"),
    ROW("administration", "cache_memlimit 64\r\nslabs automove 0\r\nlru mode flat\r\n",
        "*0A *0A *0A"),
    ROW("with noreply", "cache_memlimit 64 noreply\r\n", "*0U"),
    ROW("refresh_certs", "refresh_certs\r\nextstore item_age 1\r\n", "*0A *0A"),
    ROW("what says nothing of keys", "version\r\nverbosity 1\r\nstats\r\nstats items\r\n",
        "A A A A"),
    ROW("verbosity noreply", "verbosity 1 noreply\r\n", "U"),
    ROW("an answer without an end", "stats sizes_enable\r\n", "U"),
    ROW("dumps of keys as they are", "stats cachedump 1 1\r\n", "L"),
    ROW("of prefixes", "stats detail dump\r\n", "L"),
    ROW("the crawler", "lru_crawler enable\r\n", "A"),
    ROW("its dumps", "lru_crawler metadump all\r\nlru_crawler mgdump all\r\n", "AU AU"),
    ROW("watch", "watch\r\n", "L"),
    ROW("quit", "quit\r\nshutdown\r\n", "S S"),
    ROW("a line of 2011 bytes", "delete a " S500 S500 S500 "\r\n", "WaA"),
    ROW("a longer one", "delete a " S500 S500 S500 S500 S500 "\r\n", "L"),
    ROW("of get", "get a " S500 S500 S500 S500 S500 "\r\n", "A"),
    ROW("of gat", "gat 0 a " S500 S500 S500 S500 S500 "\r\n", "Wa A"),
    ROW("after what is lost nothing", "set\r\ndelete a\r\n", "L"),
};

static const struct row meta[] = {
    ROW("ms", "ms a 1\r\nx\r\n", "Wa DA"),
    ROW("with flags", "ms a 1 T0 F5 c k O123 s I MA C77\r\nx\r\n", "Wa DA"),
    ROW("with q", "ms a 1 q\r\nx\r\n", "Wa DU"),
    ROW("with a key in base64", "ms YQ== 1 b\r\nx\r\n", "*0 *0DA"),
    ROW("with a time in the past", "ms a 1 T-1\r\nx\r\n", "Wa DA"),
    ROW("of 1.5.19", "ms a S 1\r\nx\r\n", "L"),
    ROW("of 1.6.0", "ms a S1\r\nx\r\n", "L"),
    ROW("without a length", "ms a\r\nx\r\n", "L"),
    ROW("with a flag twice", "ms a 1 c c\r\nx\r\n", "L"),
    ROW("that is not one of ms", "ms a 1 v\r\nx\r\n", "L"),
    ROW("with more than it has", "ms a 1 qq\r\nx\r\n", "L"),
    ROW("with less", "ms a 1 T\r\nx\r\n", "L"),
    ROW("with a sign alone", "ms a 1 T-\r\nx\r\n", "L"),
    ROW("with no number", "ms a 1 Tx\r\nx\r\n", "L"),
    ROW("a mode of two letters", "ms a 1 MAB\r\nx\r\n", "L"),
    ROW("of none", "ms a 1 M\r\nx\r\n", "L"),
    ROW("an opaque of 31 bytes", "ms a 1 O1234567890123456789012345678901\r\nx\r\n", "Wa DA"),
    ROW("of 32", "ms a 1 O12345678901234567890123456789012\r\nx\r\n", "L"),
    ROW("a value that is too long", "ms a 1\r\nxy\r\n", "Wa L"),
    ROW("a key of 251 bytes", "ms " K250 "1 1\r\nx\r\n", "L"),
    ROW("md", "md a\r\nmd a q\r\nmd a I T5\r\n", "WaA WaU WaA"),
    ROW("with a key in base64", "md YQ== b\r\nmd YQ== q b\r\nmd YQ== bq\r\n", "*0A *0U *0U"),
    ROW("ma", "ma a\r\nma a N0 J1 D2 v\r\nma YQ== b v q\r\n", "WaA WaA *0U"),
    ROW("mg", "mg a\r\nmg a v\r\nmg a s v f t c k h l O123\r\nmg a q v\r\n", "A A A U"),
    ROW("that writes", "mg a T0\r\nmg a v N10\r\nmg a E5 q\r\nmg a v R1\r\n", "WaA WaA WaU WaA"),
    ROW("in 1.5.19", "mg a vT 10\r\n", "WaA"),
    ROW("with a key in base64", "mg YQ== b v\r\nmg YQ== b T0\r\nmg YQ== T0 b\r\n", "A *0A *0A"),
    ROW("an opaque that looks like flags", "mg a v Oqq\r\n", "A"),
    ROW("mn", "mn\r\nmn\n", "AB AB"),
    ROW("with more", "mn x\r\n", "L"),
    ROW("me", "me a\r\n", "AU"),
    ROW("nothing behind a verb", "mg\r\nmd\r\nma\r\nme\r\n", "A A A AU"),
    ROW("others", "mx a\r\nm\r\n", "*?A *?A"),
};

static const struct row binary[] = {
    ROW("get", HEAD("\x00", "\0\1", "\0", "\0\0\0\1") "a", "A"),
    ROW("getq", HEAD("\x09", "\0\1", "\0", "\0\0\0\1") "a", "S"),
    ROW("set",
        HEAD("\x01", "\0\1", "\x8", "\0\0\0\xb") "flagtime"
                                                 "a"
                                                 "xy",
        "Wa DA"),
    ROW("of nothing",
        HEAD("\x01", "\0\1", "\x8", "\0\0\0\x9") "flagtime"
                                                 "a",
        "WaDA"),
    ROW("setq",
        HEAD("\x11", "\0\1", "\x8", "\0\0\0\xa") "flagtime"
                                                 "a"
                                                 "x",
        "Wa DS"),
    ROW("add, then a get",
        HEAD("\x02", "\0\1", "\x8", "\0\0\0\xa") "flagtime"
                                                 "b"
                                                 "x" HEAD("\x0c", "\0\1", "\0", "\0\0\0\1") "a",
        "Wb DA A"),
    ROW("replaceq",
        HEAD("\x13", "\0\1", "\x8", "\0\0\0\xa") "flagtime"
                                                 "b"
                                                 "x",
        "Wb DS"),
    ROW("delete", HEAD("\x04", "\0\1", "\0", "\0\0\0\1") "a", "WaA"),
    ROW("deleteq", HEAD("\x14", "\0\1", "\0", "\0\0\0\1") "a", "WaS"),
    ROW("incr",
        HEAD("\x05", "\0\1", "\x14", "\0\0\0\x15") "delta678initial8time"
                                                   "a",
        "WaA"),
    ROW("decrq",
        HEAD("\x16", "\0\1", "\x14", "\0\0\0\x15") "delta678initial8time"
                                                   "a",
        "WaS"),
    ROW("append", HEAD("\x0e", "\0\1", "\0", "\0\0\0\3") "axy", "Wa DA"),
    ROW("prependq", HEAD("\x1a", "\0\1", "\0", "\0\0\0\3") "axy", "Wa DS"),
    ROW("touch", HEAD("\x1c", "\0\1", "\4", "\0\0\0\5") "timea", "WaA"),
    ROW("gat", HEAD("\x1d", "\0\1", "\4", "\0\0\0\5") "timea", "WaA"),
    ROW("gatkq", HEAD("\x24", "\0\1", "\4", "\0\0\0\5") "timea", "WaS"),
    ROW("flush", HEAD("\x08", "\0\0", "\0", "\0\0\0\0"), "*0A"),
    ROW("flush later", HEAD("\x08", "\0\0", "\4", "\0\0\0\4") "\0\0\1\4", "*260A"),
    ROW("flushq", HEAD("\x18", "\0\0", "\0", "\0\0\0\0"), "*0S"),
    ROW("noop and version",
        HEAD("\x0a", "\0\0", "\0", "\0\0\0\0") HEAD("\x0b", "\0\0", "\0", "\0\0\0\0"), "A A"),
    ROW("stat",
        HEAD("\x10", "\0\0", "\0", "\0\0\0\0") HEAD("\x10", "\0\5", "\0", "\0\0\0\5") "reset",
        "A A"),
    ROW("quit and quitq",
        HEAD("\x07", "\0\0", "\0", "\0\0\0\0") HEAD("\x17", "\0\0", "\0", "\0\0\0\0"), "S S"),
    ROW("SASL",
        HEAD("\x20", "\0\0", "\0", "\0\0\0\0") HEAD("\x21", "\0\5", "\0", "\0\0\0\x9") "PLAIN"
                                                                                       "\0a\0b",
        "A A"),
    ROW("an unknown command", HEAD("\x40", "\0\1", "\4", "\0\0\0\x9") "123456789", "*?S"),
    ROW("without a body", HEAD("\xff", "\0\0", "\0", "\0\0\0\0"), "*?S"),
    ROW("a key of 250", HEAD("\x04", "\0\xfa", "\0", "\0\0\0\xfa") K250, "W" K250 "A"),
    ROW("of 251", HEAD("\x04", "\0\xfb", "\0", "\0\0\0\xfb") K250 "1", "L"),
    ROW("of none", HEAD("\x04", "\0\0", "\0", "\0\0\0\0"), "L"),
    ROW("of any bytes", HEAD("\x04", "\0\2", "\0", "\0\0\0\2") "\xff\x80",
        "W\xff\x80"
        "A"),
    ROW("longer than the body", HEAD("\x04", "\0\2", "\0", "\0\0\0\1") "ab", "L"),
    ROW("with extras longer", HEAD("\x01", "\0\1", "\x8", "\0\0\0\x8") "flagtime", "L"),
    ROW("other extras", HEAD("\x01", "\0\1", "\4", "\0\0\0\x6") "flagax", "L"),
    ROW("a value where there is none", HEAD("\x04", "\0\1", "\0", "\0\0\0\2") "ax", "L"),
    ROW("a key where there is none", HEAD("\x0a", "\0\1", "\0", "\0\0\0\1") "a", "L"),
    ROW("another magic", HEAD("\x0a", "\0\0", "\0", "\0\0\0\0") "set a 0 0 1\r\n", "A L"),
    ROW("text is text for ever", "get a\r\n" HEAD("\x04", "\0\1", "\0", "\0\0\0\1") "a\r\n", "A L"),
};

/* --- */

static const char *name_of(__u64 hash)
{
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (hash_of(parsed_seeds, keys[i], strlen(keys[i])) == hash)
            return keys[i];
    return "(another key)";
}

struct record {
    char text[2048];
    size_t n;
};

static void record(struct record *out, const struct request_parser *p, __u32 events)
{
    static const char letters[] = "W*?DAUSBL";
    char number[16];

    out->n +=
        (size_t)snprintf(out->text + out->n, sizeof(out->text) - out->n, "%s", out->n ? " " : "");
    for (int i = 0; i < 9; i++) {
        if (!(events >> i & 1))
            continue;
        snprintf(number, sizeof(number), "%u", p->seconds);
        out->n +=
            (size_t)snprintf(out->text + out->n, sizeof(out->text) - out->n, "%c%s", letters[i],
                             i == 0                              ? name_of(p->hash)
                             : i == 1 && !(events & REQ_UNKNOWN) ? number
                                                                 : "");
    }
}

static void step(struct request_parser *p, const char *bytes, size_t n, struct record *out)
{
    const char *end = bytes + n;
    __u32 events;

    while ((events = parsed_request(p, &bytes, end)))
        record(out, p, events);
}

static void leap(struct request_parser *p, const char *bytes, size_t n, struct record *out)
{
    const char *end = bytes + n;
    __u32 events;

    while ((events = parsed_leaping(p, &bytes, end)))
        record(out, p, events);
}

static void check(const char *what, const struct row *row)
{
    struct record whole = {.n = 0}, halves;
    struct request_parser p;
    bool same = true;

    req_init(&p, PARSER_ANY);
    step(&p, row->input, row->n, &whole);
    if (!ok(strcmp(whole.text, row->predicted) == 0, "%s: %s", what, row->name))
        diag("sent: %.300s\n# predicted: %.400s\n# want:     %.400s", row->input, whole.text,
             row->predicted);
    if (strcmp(whole.text, row->predicted) == 0 && !strchr(row->predicted, 'L'))
        same = req_between(&p);
    for (size_t cut = 0; cut <= row->n; cut++) {
        halves = (struct record){.n = 0};
        req_init(&p, PARSER_ANY);
        leap(&p, row->input, cut, &halves);
        leap(&p, row->input + cut, row->n - cut, &halves);
        same = same && strcmp(whole.text, halves.text) == 0;
    }
    if (!same)
        ok(false, "%s: %s: split in two the events are the same", what, row->name);
}

#define CHECK(what, rows)                                                                          \
    do {                                                                                           \
        size_t row_;                                                                               \
        for (row_ = 0; row_ < sizeof(rows) / sizeof(*(rows)); row_++)                              \
            check(what, &(rows)[row_]);                                                            \
    } while (0)

/* Sends all rows in which the parser is not lost as one stream: each has the events that it has
 * alone. */
static void pipelines(const struct row *rows, size_t nrows, const char *what)
{
    struct record out = {.n = 0};
    struct request_parser p;
    bool same = true;

    req_init(&p, PARSER_ANY);
    for (size_t i = 0; i < nrows; i++) {
        if (strchr(rows[i].predicted, 'L'))
            continue;
        out = (struct record){.n = 0};
        step(&p, rows[i].input, rows[i].n, &out);
        same = same && strcmp(out.text, rows[i].predicted) == 0 && req_between(&p);
    }
    ok(same, "%s: in one stream each row has the events that it has alone", what);
}

/* Opcodes of the same form: first those that are answered, then the quiet ones. */
static void opcodes_are_known(void)
{
    static const struct {
        const char *loud, *quiet;
        size_t nloud, nquiet;
        uint8_t nextras, nvalue;
        const char *predicted;
    } forms[] = {
        {"\x00\x0c", "\x09\x0d", 2, 2, 0, 0, ""},
        {"\x01\x02\x03", "\x11\x12\x13", 3, 3, 8, 2, "Wa D"},
        {"\x04", "\x14", 1, 1, 0, 0, "Wa"},
        {"\x05\x06", "\x15\x16", 2, 2, 20, 0, "Wa"},
        {"\x0e\x0f", "\x19\x1a", 2, 2, 0, 2, "Wa D"},
        {"\x1c\x1d\x23", "\x1e\x24", 3, 2, 4, 0, "Wa"},
    };
    char bytes[PARSER_HEADER_BYTES + 32], want[16];
    struct record out;
    struct request_parser p;
    bool right = true;
    size_t i, j, n;

    for (i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        n = (size_t)PARSER_HEADER_BYTES + forms[i].nextras + 1 + forms[i].nvalue;
        for (j = 0; j < forms[i].nloud + forms[i].nquiet; j++) {
            memset(bytes, 0, sizeof(bytes));
            bytes[0] = (char)PARSER_MAGIC_REQUEST;
            bytes[1] = j < forms[i].nloud ? forms[i].loud[j] : forms[i].quiet[j - forms[i].nloud];
            bytes[3] = 1;
            bytes[4] = (char)forms[i].nextras;
            bytes[11] = (char)(n - PARSER_HEADER_BYTES);
            bytes[PARSER_HEADER_BYTES + forms[i].nextras] = 'a';
            snprintf(want, sizeof(want), "%s%c", forms[i].predicted,
                     j < forms[i].nloud ? 'A' : 'S');
            out = (struct record){.n = 0};
            req_init(&p, PARSER_ANY);
            step(&p, bytes, n, &out);
            right = right && strcmp(out.text, want) == 0 && req_between(&p);
        }
    }
    ok(right, "binary: every opcode has its events");
}

static void large_values(void)
{
    static const char line[] = "set a 0 0 2147483645\r\n";
    static const char head[] = HEAD("\x01", "\0\1", "\x8", "\xff\xff\xff\xff") "flagtime"
                                                                               "a";
    struct record out = {.n = 0};
    struct request_parser p;

    req_init(&p, PARSER_ANY);
    step(&p, line, sizeof(line) - 1, &out);
    ok(p.skip == 2147483645, "a value of 2^31 - 3 bytes is skipped");
    p.skip = 0;
    step(&p, "\r\n", 2, &out);
    ok(strcmp(out.text, "Wa DA") == 0 && req_between(&p),
       "the end of a value of 2^31 - 3 bytes is found");
    out = (struct record){.n = 0};
    req_init(&p, PARSER_ANY);
    step(&p, head, sizeof(head) - 1, &out);
    ok(p.skip == 0xffffffff - 9 - 1,
       "a binary value of nearly 2^32 bytes is skipped up to its last byte");
    p.skip = 0;
    step(&p, "x", 1, &out);
    ok(strcmp(out.text, "Wa DA") == 0 && req_between(&p),
       "the end of a binary value of nearly 2^32 bytes is found");
}

static void begins_again(void)
{
    static const char head[] = HEAD("\x04", "\0\1", "\0", "\0\0\0\1") "a";
    struct record out = {.n = 0};
    struct request_parser p;

    req_init(&p, PARSER_ANY);
    step(&p, "set a\r\ndelete a\r\n", 17, &out);
    req_init(&p, p.protocol);
    step(&p, "delete b\r\n", 10, &out);
    ok(strcmp(out.text, "L WbA") == 0, "a parser that was lost can begin again");
    out = (struct record){.n = 0};
    req_init(&p, PARSER_ANY);
    step(&p, head, sizeof(head) - 1, &out);
    step(&p, "x", 1, &out);
    req_init(&p, p.protocol);
    step(&p, head, sizeof(head) - 1, &out);
    ok(strcmp(out.text, "WaA L WaA") == 0,
       "a parser that was lost in the binary protocol can begin again");
}

static void an_incomplete_value_has_its_keys_hash(void)
{
    struct request_parser p;

    req_init(&p, PARSER_ANY);
    step(&p, "set a 0 0 1\r\nx", 14, &(struct record){.n = 0});
    ok(p.hash == hash_of(parsed_seeds, "a", 1) && !req_between(&p),
       "while a value is incomplete the parser has the hash of its key");
}

int main(void)
{
    CHECK("storage", storage);
    CHECK("others", others);
    CHECK("meta", meta);
    CHECK("binary", binary);
    pipelines(storage, sizeof(storage) / sizeof(*storage), "storage");
    pipelines(others, sizeof(others) / sizeof(*others), "others");
    pipelines(meta, sizeof(meta) / sizeof(*meta), "meta");
    pipelines(binary, sizeof(binary) / sizeof(*binary), "binary");
    opcodes_are_known();
    large_values();
    begins_again();
    an_incomplete_value_has_its_keys_hash();
    return done();
}
