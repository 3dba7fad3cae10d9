/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments of several requests: which the programs answer, all at once, and which they pass with
 * nothing changed. A pipeline is made of parts, each a request whose reply and counts are known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/bpf/tcp_lab.h"
#include "t/lib/tap.h"
#include "t/lib/text.h"

static const char *const names[] = {"XDP", "TC"};

/* Who answers, and what its frames are. */
struct run {
    struct tcp_lab *lab;
    enum hook hook;
    bool v6;
    char name[32];
};

#define TEXT(text)    text, sizeof(text) - 1
#define HIT           "VALUE hit 0 5\r\nvalue\r\n"
#define BINARY(op, n) "\x80" op "\0" n "\0\0\0\0\0\0\0" n
#define REST          "\0\0\0\0\0\0\0\0"

/* Of the text protocol. */
static const struct request words[] = {
    {TEXT("get hit\r\n"), TEXT(HIT "END\r\n"), .hits = 1},
    {TEXT("get  hit \n"), TEXT(HIT "END\r\n"), .hits = 1},
    {TEXT("get no\r\n"), TEXT("END\r\n"), .misses = 1},
    {TEXT("get k\n"), TEXT("END\r\n"), .misses = 1},
    {TEXT("get no hit two nil\r\n"), TEXT(HIT "VALUE two 0 1\r\n2\r\nEND\r\n"), .hits = 2,
     .misses = 2},
    {TEXT("gets hit no two\r\n"),
     TEXT("VALUE hit 0 5 77\r\nvalue\r\nVALUE two 0 1 0\r\n2\r\nEND\r\n"), .hits = 2, .misses = 1},
    {TEXT("mg hit\r\n"), TEXT("HD\r\n"), .hits = 1},
    {TEXT("mg hit v\r\n"), TEXT("VA 5\r\nvalue\r\n"), .hits = 1},
    {TEXT("mg hit k s Oab12 v q\r\n"), TEXT("VA 5 khit s5 Oab12\r\nvalue\r\n"), .hits = 1},
    {TEXT("mg no v\r\n"), TEXT("EN\r\n"), .misses = 1},
    {TEXT("mg no v k Ox\r\n"), TEXT("EN kno Ox\r\n"), .misses = 1},
    {TEXT("mg no v q\r\n"), TEXT(""), .misses = 1},
    {TEXT("mg two q k\n"), TEXT("HD ktwo\r\n"), .hits = 1},
    {TEXT("mn\r\n"), TEXT("MN\r\n"), .hits = 0},
};

/* Of the binary one. */
static const struct request frames[] = {
    {TEXT(BINARY("\0", "\3") "abcd" REST "hit"),
     TEXT("\x81\0\0\0\4\0\0\0\0\0\0\11abcd\0\0\0\0\0\0\0\x4d\0\0\0\0value"), .hits = 1},
    {TEXT(BINARY("\x9", "\3") "\1\2\3\4" REST "two"),
     TEXT("\x81\x9\0\0\4\0\0\0\0\0\0\5\1\2\3\4" REST "\0\0\0\0"
          "2"),
     .hits = 1},
    {TEXT(BINARY("\xc", "\3") "abcd" REST "two"),
     TEXT("\x81\xc\0\3\4\0\0\0\0\0\0\10abcd" REST "\0\0\0\0two2"), .hits = 1},
    {TEXT(BINARY("\xd", "\3") "abcd" REST "two"),
     TEXT("\x81\xd\0\3\4\0\0\0\0\0\0\10abcd" REST "\0\0\0\0two2"), .hits = 1},
    {TEXT(BINARY("\0", "\2") "abcd" REST "no"),
     TEXT("\x81\0\0\0\0\0\0\1\0\0\0\11abcd" REST "Not found"), .misses = 1},
    {TEXT(BINARY("\xc", "\2") "abcd" REST "no"), TEXT("\x81\xc\0\2\0\0\0\1\0\0\0\2abcd" REST "no"),
     .misses = 1},
    {TEXT(BINARY("\x9", "\2") "abcd" REST "no"), TEXT(""), .misses = 1},
    {TEXT(BINARY("\xd", "\2") "abcd" REST "no"), TEXT(""), .misses = 1},
    {TEXT(BINARY("\xa", "\0") "wxyz" REST), TEXT("\x81\xa\0\0\0\0\0\0\0\0\0\0wxyz" REST),
     .hits = 0},
};

/* What the server alone answers, among others of its protocol. */
static const struct request words_passed[] = {
    {TEXT("set hit 0 0 2\r\nxx\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("set x 0 0 9\r\nget hit\r\n\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("delete hit\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("touch hit 5\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("gat 0 hit\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("gats 0 hit\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("set hit 0 0 2 noreply\r\nxx\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("delete hit noreply\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("md hit q\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("flush_all noreply\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("verbosity 1\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("quit\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("mg hit v T30\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("mg no v N30\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("ms hit 2\r\nxx\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("mn \r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("mn\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("me hit\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("GET hit\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("version\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("get \r\n"), .reason = MC_TCP_PASS_SEGMENT},
    {TEXT("gets \r\n"), .reason = MC_TCP_PASS_SEGMENT},
    {TEXT("get hi\1t\r\n"), .reason = MC_TCP_PASS_SEGMENT},
    {TEXT("get large\r\n"), .reason = MC_TCP_PASS_LOOKUP},
    {TEXT("mg large v\r\n"), .reason = MC_TCP_PASS_LOOKUP},
    {TEXT("get chunked\r\n"), .reason = MC_TCP_PASS_LOOKUP},
    {TEXT("get expired\r\n"), .reason = MC_TCP_PASS_LOOKUP},
    {TEXT("\x80\0\0\3\0\0\0\0\0\0\0\3abcd" REST "hit\r\n"), .reason = MC_TCP_PASS_COMMAND},
};
static const struct request frames_passed[] = {
    {TEXT(BINARY("\1", "\3") "abcd" REST "hit"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT(BINARY("\4", "\3") "abcd" REST "hit"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT(BINARY("\7", "\0") "abcd" REST), .reason = MC_TCP_PASS_COMMAND},
    {TEXT(BINARY("\x14", "\3") "abcd" REST "hit"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT(BINARY("\x17", "\0") "abcd" REST), .reason = MC_TCP_PASS_COMMAND},
    {TEXT(BINARY("\x18", "\0") "abcd" REST), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("\x80\x1e\0\3\4\0\0\0\0\0\0\7abcd" REST "\0\0\0\0hit"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("\x80\x24\0\3\4\0\0\0\0\0\0\7abcd" REST "\0\0\0\0hit"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("\x80\x1d\0\3\4\0\0\0\0\0\0\7abcd" REST "\0\0\0\0hit"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("\x80\0\0\3\4\0\0\0\0\0\0\7abcd" REST "\0\0\0\0hit"), .reason = MC_TCP_PASS_SEGMENT},
    {TEXT("\x80\0\0\2\0\0\0\0\0\0\0\3abcd" REST "hit"), .reason = MC_TCP_PASS_SEGMENT},
    {TEXT("\x80\0\0\0\0\0\0\0\0\0\0\0abcd" REST), .reason = MC_TCP_PASS_SEGMENT},
    {TEXT("\x80\0\0\3\0\0\0\0\0\1\0\3abcd" REST "hit"), .reason = MC_TCP_PASS_SEGMENT},
    {TEXT("\x80\0\0\3\0\0\0\0\xff\xff\xff\xff"
          "abcd" REST "hit"),
     .reason = MC_TCP_PASS_SEGMENT},
    {TEXT("\x80\xa\0\3\0\0\0\0\0\0\0\3abcd" REST "hit"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("\x80\xa\0\0\4\0\0\0\0\0\0\4abcd" REST "\0\0\0\0"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("\x80\xa\0\0\0\0\0\0\0\0\0\4abcd" REST "\0\0\0\0"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("\x81\0\0\3\0\0\0\0\0\0\0\3abcd" REST "hit"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT("get hit\r\n"), .reason = MC_TCP_PASS_COMMAND},
    {TEXT(BINARY("\0", "\5") "abcd" REST "large"), .reason = MC_TCP_PASS_LOOKUP},
};

/* The requests of one protocol. */
static const struct speech {
    const char *name;
    const struct request *said, *passed;
    size_t nsaid, npassed;
} speeches[] = {
    {"text", words, words_passed, COUNT(words), COUNT(words_passed)},
    {"binary", frames, frames_passed, COUNT(frames), COUNT(frames_passed)},
};

/* The reply to a binary get with such a value. */
static void text_add_binary(struct text *reply, const char *value, size_t n)
{
    char head[28] = "\x81\0\0\0\4\0\0\0\0\0\0\0abcd";

    head[10] = (char)((n + 4) >> 8);
    head[11] = (char)(n + 4);
    text_add(reply, head, sizeof(head));
    text_add(reply, value, n);
}

static void put_items(struct tcp_lab *lab)
{
    static char large[1400];

    memset(large, 'l', sizeof(large));
    lab_clear(&lab->lab);
    lab_put(&lab->lab, "hit", 3, "value", 5)->cas = 77;
    lab_put(&lab->lab, "two", 3, "2", 1);
    lab_put(&lab->lab, "large", 5, large, sizeof(large));
    lab_put(&lab->lab, "chunked", 7, "c", 1)->flags |= MC_ITEM_CHUNKED;
    lab_put(&lab->lab, "expired", 7, "e", 1)->exptime = 1;
}

/* --- pipelines ------------------------------------------------------------------------------ */

struct pipeline {
    struct text text, reply;
    struct request whole;
    bool passed;
};

static void pipeline_begin(struct pipeline *line)
{
    memset(line, 0, sizeof(*line));
    line->whole.more = -1u;
}

static void pipeline_add(struct pipeline *line, const struct request *part)
{
    struct request *whole = &line->whole;

    text_add(&line->text, part->text, part->n);
    if (part->nreply)
        text_add(&line->reply, part->reply, part->nreply);
    whole->hits += part->hits;
    whole->misses += part->misses;
    whole->more++;
    /* The first that is passed decides. */
    if (part->reason && !line->passed) {
        line->passed = true;
        whole->reason = part->reason;
    }
}

/* Makes it a request of which the programs' rules are asked. */
static const struct request *pipeline_end(struct pipeline *line)
{
    struct request *whole = &line->whole;

    whole->text = line->text.bytes;
    whole->n = line->text.n;
    whole->reply = line->reply.bytes;
    whole->nreply = line->reply.n;
    if (!line->passed && !whole->nreply)
        whole->reason = MC_TCP_PASS_COMMAND;
    if (!line->passed && whole->nreply > TCP_REPLY_MAX)
        whole->reason = MC_TCP_PASS_LOOKUP;
    if (whole->reason)
        whole->reply = NULL;
    return whole;
}

/* Whether it is answered, or passed for its reason, as the next segment of a connection. */
static bool does(const struct run *run, const struct request *request)
{
    struct mc_tcp_conn conn;
    struct segment segment;

    conn_init(run->lab, &conn, 1000, 5000);
    segment_in(run->lab, &segment, &conn, request->text, request->n);
    segment.v6 = run->v6;
    return tcp_does(run->lab, run->hook, &segment, request, request->reply ? ACT_ANSWER : ACT_PASS,
                    request->reply ? (uint32_t)NOT_COUNTED : request->reason);
}

/* What begins a segment, or the first parts are mn: it is passed at once, as that alone is. */
static bool is_begun(const struct request *part)
{
    const char *text = part->text;

    return !memcmp(text, "get", 3) || !memcmp(text, "mg ", 3) ||
           ((uint8_t)*text == 0x80 && text[1] != 0xa);
}

/* A pipeline of two, and of two around any other. */
static void test_mixes(const struct run *run, const struct speech *speech)
{
    static struct pipeline line;
    bool right = true;
    size_t i, j, k;

    for (i = 0; i < speech->nsaid && right; i++) {
        for (j = 0; j < speech->nsaid && right; j++) {
            for (k = 0; k <= speech->nsaid && right; k += 3) {
                if (!is_begun(&speech->said[i]))
                    continue;
                pipeline_begin(&line);
                pipeline_add(&line, &speech->said[i]);
                if (k)
                    pipeline_add(&line, &speech->said[k - 1]);
                pipeline_add(&line, &speech->said[j]);
                right = does(run, pipeline_end(&line));
                if (!right)
                    diag("%s: %zu, %zu, %zu", speech->name, i, k, j);
            }
        }
    }
    ok(right, "%s, %s: requests of all kinds are answered together", run->name, speech->name);
}

/* As many as a segment has room for. */
static void test_numbers(const struct run *run, const struct speech *speech)
{
    static struct pipeline line;
    bool right = true;
    size_t n, i, at;

    for (n = 1; n <= 60 && right; n++) {
        for (i = 0; i < speech->nsaid && right; i++) {
            pipeline_begin(&line);
            pipeline_add(&line, &speech->said[0]);
            for (at = 1; at < n && line.text.n < 1400; at++)
                pipeline_add(&line, &speech->said[(i + at * 7) % speech->nsaid]);
            if (line.text.n <= 1448)
                right = does(run, pipeline_end(&line));
        }
    }
    ok(right, "%s, %s: 1 to 60 requests are answered, or passed if their replies are too long",
       run->name, speech->name);
}

/* One that the server alone answers, at each place of four. */
static void test_strangers(const struct run *run, const struct speech *speech)
{
    static struct pipeline line;
    size_t i, at, j;

    for (i = 0; i < speech->npassed; i++) {
        bool right = true;

        for (at = 1; at < 4 && right; at++) {
            pipeline_begin(&line);
            for (j = 0; j < 4; j++)
                pipeline_add(&line, j == at ? &speech->passed[i] : &speech->said[j]);
            right = does(run, pipeline_end(&line));
        }
        ok(right, "%s, %s: with request %zu among them all are passed", run->name, speech->name, i);
    }
}

/* Cut at every byte: what is behind is older text of the same. */
static void test_cuts(const struct run *run, const struct speech *speech)
{
    static struct pipeline line, part;
    size_t ends[8] = {0}, n, i, at = 0;
    struct request cut;
    bool right = true;

    pipeline_begin(&line);
    for (i = 0; i < 4; i++) {
        pipeline_add(&line, &speech->said[i]);
        ends[i] = line.text.n;
    }
    right = does(run, pipeline_end(&line));
    for (n = line.text.n - 1; n > ends[0] && right; n--) {
        for (at = 0; ends[at] < n;)
            at++;
        if (ends[at] == n)
            continue;
        cut = (struct request){line.text.bytes, n, NULL, 0, .reason = MC_TCP_PASS_SEGMENT};
        /* The beginning of a text that is no request's yet, or not of a whole one. */
        if (n - ends[at - 1] < 4 && *line.text.bytes != (char)0x80)
            cut.reason = MC_TCP_PASS_SEGMENT;
        right = does(run, &cut);
        if (!right)
            diag("%s: cut at %zu", speech->name, n);
    }
    pipeline_begin(&part);
    pipeline_add(&part, &speech->said[0]);
    pipeline_add(&part, &speech->said[1]);
    right &= does(run, pipeline_end(&part));
    ok(right, "%s, %s: a pipeline whose last request is incomplete is passed", run->name,
       speech->name);
}

/* A value of n bytes as the last of a pipeline, so that the replies fit just so, or do not. */
static void test_limit(const struct run *run, const struct request *first, const char *last,
                       size_t nlast, const char *head, size_t nhead, const char *tail)
{
    static char value[1400];
    static struct pipeline line;
    struct request sized = {.text = last, .n = nlast, .hits = 1};
    static struct text reply;
    size_t spare, ntail = strlen(tail), i;
    bool right = true;

    memset(value, 'v', sizeof(value));
    for (i = 0; i < 3 && right; i++) {
        /* So many bytes of the value fit. */
        spare = TCP_REPLY_MAX - first->nreply - nhead - ntail - 4 + i;
        lab_clear(&run->lab->lab);
        lab_put(&run->lab->lab, "two", 3, "2", 1);
        lab_put(&run->lab->lab, "hit", 3, "value", 5)->cas = 77;
        lab_put(&run->lab->lab, "big", 3, value, spare);
        reply.n = 0;
        text_add(&reply, head, nhead);
        text_say(&reply, "%zu\r\n", spare);
        text_add(&reply, value, spare);
        text_say(&reply, "%s", tail);
        sized.reply = reply.bytes;
        sized.nreply = reply.n;
        pipeline_begin(&line);
        pipeline_add(&line, first);
        pipeline_add(&line, &sized);
        right = does(run, pipeline_end(&line));
        if (!right)
            diag("%zu bytes of replies", line.reply.n);
    }
    ok(right, "%s: replies of 1,392 bytes in all are sent behind %zu bytes, and no more", run->name,
       first->nreply);
    put_items(run->lab);
}

/* Short replies behind a long one, so that all fit just so, or do not. */
static void test_ends(const struct run *run, const struct speech *speech)
{
    static const struct request asks[] = {
        {TEXT("get big\r\n"), .hits = 1},
        {TEXT(BINARY("\0", "\3") "abcd" REST "big"), .hits = 1},
    };
    static char value[1400];
    static struct pipeline line;
    static struct text reply;
    struct request big = asks[speech != speeches];
    size_t i, spare, n;
    bool right = true;

    memset(value, 'v', sizeof(value));
    for (i = 0; i < 2 * speech->nsaid && right; i++) {
        /* So many bytes of the value fit. */
        n = TCP_REPLY_MAX - speech->said[i / 2].nreply + i % 2;
        spare = n - (speech == speeches ? strlen("VALUE big 0 1234\r\n\r\nEND\r\n") : 28);
        lab_put(&run->lab->lab, "big", 3, value, spare);
        reply.n = 0;
        if (speech == speeches)
            text_say(&reply, "VALUE big 0 %zu\r\n%.*s\r\nEND\r\n", spare, (int)spare, value);
        else
            text_add_binary(&reply, value, spare);
        big.reply = reply.bytes;
        big.nreply = reply.n;
        pipeline_begin(&line);
        pipeline_add(&line, &big);
        pipeline_add(&line, &speech->said[i / 2]);
        right = does(run, pipeline_end(&line));
        put_items(run->lab);
        if (!right)
            diag("%s: request %zu, %zu bytes of replies", speech->name, i / 2, line.reply.n);
    }
    ok(right, "%s, %s: any reply fits just so behind a long one, or all are passed", run->name,
       speech->name);
}

static void test_limits(const struct run *run)
{
    static struct pipeline line;
    struct request many = {TEXT("mg k\r\n"), TEXT("EN\r\n"), .misses = 1};
    bool right = true;
    size_t n;

    for (n = 0; n < 3; n++) {
        test_limit(run, &words[n == 2 ? 4 : n], TEXT("get big\r\n"), TEXT("VALUE big 0 "),
                   "\r\nEND\r\n");
        test_limit(run, &words[6 + n], TEXT("mg big v\r\n"), TEXT("VA "), "\r\n");
    }
    for (n = 90; n <= 140 && right; n++) {
        pipeline_begin(&line);
        while (line.whole.more + 1 < n)
            pipeline_add(&line, &many);
        pipeline_end(&line);
        if (n > 128) {
            line.whole.reply = NULL;
            line.whole.reason = MC_TCP_PASS_COMMAND;
        }
        right = does(run, &line.whole);
    }
    ok(right, "%s: 128 requests are answered together, and no more", run->name);
    many = (struct request){TEXT("mg hit\n"), TEXT("HD\r\n"), .hits = 1};
    for (n = 90, right = true; n <= 100 && right; n++) {
        pipeline_begin(&line);
        while (line.whole.more + 1 < n)
            pipeline_add(&line, &many);
        pipeline_end(&line);
        if (n > TCP_REPLY_MAX / 15 + 1) {
            line.whole.reply = NULL;
            line.whole.reason = MC_TCP_PASS_LOOKUP;
        }
        right = does(run, &line.whole);
    }
    ok(right, "%s: as many hits as one get can have are answered together, and no more", run->name);
}

/* Each hit is counted in its class and marked, once it is in a reply that leaves. */
static void test_reads(const struct run *run)
{
    static const char passed[] = "mg a v\r\nget b\r\nset c 0 0 1\r\nx\r\n";
    static const char text[] = "mg a v q\r\nget b no c\r\nmg c\r\nmg no q\r\ngets b\r\nmn\r\n";
    static const char reply[] = "VA 1\r\n1\r\nVALUE b 0 1\r\n2\r\nVALUE c 0 1\r\n3\r\nEND\r\n"
                                "HD\r\nVALUE b 0 1 0\r\n2\r\nEND\r\nMN\r\n";
    struct request request = {TEXT(passed), NULL, 0, .reason = MC_TCP_PASS_COMMAND};
    struct mc_counts before, after;
    uint64_t grown[4];
    uint64_t marks = 0;
    bool right;
    size_t i;

    lab_clear(&run->lab->lab);
    for (i = 0; i < 3; i++)
        lab_put(&run->lab->lab, (const char[]){(char)('a' + i)}, 1, &"123"[i], 1)->clsid =
            (uint8_t)(i + 1);
    loader_counts(run->lab->lab.loader, &before);
    right = does(run, &request);
    for (i = 0; i < 3; i++)
        marks |= lab_bucket(&run->lab->lab, lab_hash(&run->lab->lab, &"abc"[i], 1))->accessed;
    right &= marks == 0;
    request = (struct request){TEXT(text), TEXT(reply), .hits = 5, .misses = 2, .more = 5};
    right &= does(run, &request);
    loader_counts(run->lab->lab.loader, &after);
    for (i = 0; i < 4; i++)
        grown[i] = after.class_hits[i] - before.class_hits[i];
    ok(right && grown[1] == 1 && grown[2] == 2 && grown[3] == 2,
       "%s: each hit of an answer is counted in its slab class, none of what is passed", run->name);
    for (i = 0, right = true; i < 3; i++)
        right &= lab_bucket(&run->lab->lab, lab_hash(&run->lab->lab, &"abc"[i], 1))->accessed != 0;
    ok(right, "%s: each item in the answer is marked as read", run->name);
    put_items(run->lab);
}

/* --- what is sent again --------------------------------------------------------------------- */

/* A client whose requests are outstanding sends them again, all of them or some. */
static void test_resends(const struct run *run)
{
    static struct pipeline line;
    const struct request *whole;
    struct mc_tcp_conn conn;
    struct segment segment, again;
    size_t n;
    bool right;

    pipeline_begin(&line);
    for (n = 0; n < 6; n++)
        pipeline_add(&line, &words[n * 2]);
    whole = pipeline_end(&line);
    conn_init(run->lab, &conn, 1000, 5000);
    segment_in(run->lab, &segment, &conn, whole->text, whole->n);
    segment.v6 = run->v6;
    right = tcp_does(run->lab, run->hook, &segment, whole, ACT_ANSWER, NOT_COUNTED);
    for (n = 1; n <= whole->n && right; n++) {
        again = segment;
        again.n = n;
        right = tcp_does(run->lab, HOOK_INGRESS, &again, whole, ACT_RESEND, NOT_COUNTED);
        again.seq += (uint32_t)(whole->n - n);
        again.text = (const char *)whole->text + whole->n - n;
        right &= tcp_does(run->lab, HOOK_INGRESS, &again, whole, ACT_RESEND, NOT_COUNTED);
    }
    ok(right, "%s: any part of the requests that comes again gets all replies again", run->name);
}

/* With a wrong checksum, or more than the client has room for. */
static void test_segments(const struct run *run)
{
    static struct pipeline line;
    const struct request *whole;
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t i;

    pipeline_begin(&line);
    for (i = 0; i < 8; i++)
        pipeline_add(&line, &words[i]);
    whole = pipeline_end(&line);
    for (i = 0; i < 4; i++) {
        conn_init(run->lab, &conn, 1000, 5000);
        conn.mss = (uint16_t)(whole->nreply - (i == 1));
        conn.snd_wscale = 0;
        conn_put(run->lab, run->v6, &conn);
        segment_in(run->lab, &segment, &conn, whole->text, whole->n);
        segment.v6 = run->v6;
        segment.window = (unsigned int)whole->nreply - (i == 2);
        segment.sum = i == 3 ? SUM_WRONG : SUM_WHOLE;
        right &= tcp_does(run->lab, run->hook, &segment, whole, i ? ACT_PASS : ACT_ANSWER,
                          i == 0   ? (uint32_t)NOT_COUNTED
                          : i == 3 ? (uint32_t)MC_TCP_PASS_SEGMENT
                                   : (uint32_t)MC_TCP_PASS_WINDOW);
    }
    ok(right, "%s: replies fit the segment and the client's window together, or all are passed",
       run->name);
}

/* Quiet requests that find nothing, and no other: there is nothing to send. */
static void test_silence(const struct run *run)
{
    static const struct request quiet[] = {
        {TEXT("mg no v q\r\n"), TEXT(""), .misses = 1},
        {TEXT("mg k q k\r\n"), TEXT(""), .misses = 1},
        {TEXT(BINARY("\x9", "\2") "abcd" REST "no"), TEXT(""), .misses = 1},
        {TEXT(BINARY("\xd", "\2") "abcd" REST "no"), TEXT(""), .misses = 1},
    };
    static struct pipeline line;
    const struct request *whole;
    bool right = true;
    size_t n, i, j;

    for (i = 0; i < COUNT(quiet) && right; i += 2) {
        for (n = 1; n < 8 && right; n++) {
            pipeline_begin(&line);
            for (j = 0; j < n; j++)
                pipeline_add(&line, &quiet[i + j % 2]);
            whole = pipeline_end(&line);
            right = !whole->reply && does(run, whole);
        }
    }
    ok(right, "%s: quiet misses without an end are passed", run->name);
}

/* All replies are kept in one of the places that the connection may have; all but n are others'. */
static bool takes_place(const struct run *run, const struct request *whole, uint32_t n)
{
    struct mc_tcp_rtx rtx = {.n = 5, .text = "other"};
    struct mc_tcp_conn conn;
    struct segment segment;
    uint32_t i, at, others = MC_TCP_RTX_TRIES - n, kept = 0;

    conn_init(run->lab, &conn, 1000, 5000);
    for (i = 0; i < others; i++) {
        rtx.owner = rtx_owner(12345 + i, TCP_SLOT + MC_TCP_RTX_MAX, TCP_GENERATION);
        rtx_put(run->lab, rtx_place(run->lab, run->v6, TCP_SLOT, i), &rtx);
    }
    segment_in(run->lab, &segment, &conn, whole->text, whole->n);
    segment.v6 = run->v6;
    if (!tcp_does(run->lab, run->hook, &segment, whole, n ? ACT_ANSWER : ACT_PASS,
                  n ? (uint32_t)NOT_COUNTED : (uint32_t)MC_TCP_PASS_KEPT))
        return false;
    for (i = others; i < MC_TCP_RTX_TRIES; i++) {
        at = rtx_place(run->lab, run->v6, TCP_SLOT, i);
        rtx_get(run->lab, at, &rtx);
        kept += rtx.owner != 0;
    }
    return kept == (n ? 1 : 0);
}

static void test_places(const struct run *run)
{
    static struct pipeline line;
    const struct request *whole;
    size_t i;

    pipeline_begin(&line);
    for (i = 0; i < 4; i++)
        pipeline_add(&line, &words[i]);
    whole = pipeline_end(&line);
    ok(takes_place(run, whole, MC_TCP_RTX_TRIES) && takes_place(run, whole, 1) &&
           takes_place(run, whole, 0),
       "%s: all replies are kept in one place, and all requests are passed without", run->name);
}

static void test_hook(struct tcp_lab *lab, enum hook hook, bool v6)
{
    struct run run = {.lab = lab, .hook = hook, .v6 = v6};
    size_t i;

    snprintf(run.name, sizeof(run.name), "%s, IPv%d", names[hook], v6 ? 6 : 4);
    put_items(lab);
    tcp_lab_set_alone(lab, hook == HOOK_INGRESS);
    for (i = 0; i < COUNT(speeches); i++) {
        test_mixes(&run, &speeches[i]);
        test_numbers(&run, &speeches[i]);
        test_strangers(&run, &speeches[i]);
        test_cuts(&run, &speeches[i]);
        test_ends(&run, &speeches[i]);
    }
    test_limits(&run);
    test_reads(&run);
    test_resends(&run);
    test_segments(&run);
    test_silence(&run);
    test_places(&run);
}

int main(void)
{
    return tcp_lab_main(test_hook);
}
