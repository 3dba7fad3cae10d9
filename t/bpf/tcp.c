/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which requests over TCP the programs answer, in XDP and in TC, and which they pass: the frame
 * byte by byte, the connection's entry, the retransmit buffer, the counts.
 */
#include <arpa/inet.h>
#include <stdio.h>
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

#define TEXT(text) text, sizeof(text) - 1

#define HIT "VALUE hit 0 5\r\nvalue\r\nEND\r\n"

static const struct request get_hit = {TEXT("get hit\r\n"), TEXT(HIT), .hits = 1};

static const struct request requests[] = {
    {TEXT("get hit\r\n"), TEXT(HIT), .hits = 1},
    {TEXT("get hit\n"), TEXT(HIT), .hits = 1},
    {TEXT("get   hit  \r\n"), TEXT(HIT), .hits = 1},
    {TEXT("get no\r\n"), TEXT("END\r\n"), .misses = 1},
    {TEXT("get k\n"), TEXT("END\r\n"), .misses = 1},
    {TEXT("get no hit two nil\r\n"),
     TEXT("VALUE hit 0 5\r\nvalue\r\nVALUE two 0 1\r\n2\r\nEND\r\n"), .hits = 2, .misses = 2},
    {TEXT("gets hit no two\r\n"),
     TEXT("VALUE hit 0 5 77\r\nvalue\r\nVALUE two 0 1 0\r\n2\r\nEND\r\n"), .hits = 2, .misses = 1},
    {TEXT("gets no\r\n"), TEXT("END\r\n"), .misses = 1},
    {TEXT("mg hit\r\n"), TEXT("HD\r\n"), .hits = 1},
    {TEXT("mg hit v\r\n"), TEXT("VA 5\r\nvalue\r\n"), .hits = 1},
    {TEXT("mg hit k s Oab12 v\r\n"), TEXT("VA 5 khit s5 Oab12\r\nvalue\r\n"), .hits = 1},
    {TEXT("mg hit q v f c t\r\n"), TEXT("VA 5 f0 c77 t-1\r\nvalue\r\n"), .hits = 1},
    {TEXT("mg hit v N30 R30\r\n"), TEXT("VA 5\r\nvalue\r\n"), .hits = 1},
    {TEXT("mg no v\r\n"), TEXT("EN\r\n"), .misses = 1},
    {TEXT("mg no v k Ox\r\n"), TEXT("EN kno Ox\r\n"), .misses = 1},
    {TEXT("\x80\0\0\3\0\0\0\0\0\0\0\3abcd\0\0\0\0\0\0\0\0hit"),
     TEXT("\x81\0\0\0\4\0\0\0\0\0\0\11abcd\0\0\0\0\0\0\0\x4d\0\0\0\0value"), .hits = 1},
    {TEXT("\x80\x09\0\3\0\0\0\0\0\0\0\3abcd\0\0\0\0\0\0\0\0hit"),
     TEXT("\x81\x09\0\0\4\0\0\0\0\0\0\11abcd\0\0\0\0\0\0\0\x4d\0\0\0\0value"), .hits = 1},
    {TEXT("\x80\x0c\0\3\0\0\0\0\0\0\0\3abcd\0\0\0\0\0\0\0\0hit"),
     TEXT("\x81\x0c\0\3\4\0\0\0\0\0\0\14abcd\0\0\0\0\0\0\0\x4d\0\0\0\0hitvalue"), .hits = 1},
    {TEXT("\x80\x0d\0\3\0\0\0\0\0\0\0\3abcd\0\0\0\0\0\0\0\0hit"),
     TEXT("\x81\x0d\0\3\4\0\0\0\0\0\0\14abcd\0\0\0\0\0\0\0\x4d\0\0\0\0hitvalue"), .hits = 1},
    {TEXT("\x80\0\0\2\0\0\0\0\0\0\0\2abcd\0\0\0\0\0\0\0\0no"),
     TEXT("\x81\0\0\0\0\0\0\1\0\0\0\11abcd\0\0\0\0\0\0\0\0Not found"), .misses = 1},
    {TEXT("\x80\x0c\0\2\0\0\0\0\0\0\0\2abcd\0\0\0\0\0\0\0\0no"),
     TEXT("\x81\x0c\0\2\0\0\0\1\0\0\0\2abcd\0\0\0\0\0\0\0\0no"), .misses = 1},
};
enum { REQUESTS = sizeof(requests) / sizeof(requests[0]) };

/* What the socket has missed before: bytes of the client, and of replies. */
static const uint32_t missed[][2] = {
    {0, 0}, {1000, 5000}, {0xf0000000u, 0x10000000u}, {0xfffffffbu, 0xfffffff0u}};
enum { MISSED = sizeof(missed) / sizeof(missed[0]) };

static void put_items(struct tcp_lab *lab)
{
    lab_clear(&lab->lab);
    lab_put(&lab->lab, "hit", 3, "value", 5)->cas = 77;
    lab_put(&lab->lab, "two", 3, "2", 1);
}

/* A connection as conn_init makes it, and its client's next segment with a request. */
static void begin(const struct run *run, struct mc_tcp_conn *conn, struct segment *segment,
                  const struct request *request)
{
    conn_init(run->lab, conn, 1000, 5000);
    segment_in(run->lab, segment, conn, request->text, request->n);
    segment->v6 = run->v6;
}

/* Bytes of TCP's header. */
static size_t header_of(const struct run *run)
{
    return run->lab->unstamped ? 20 : 32;
}

static bool does(const struct run *run, const struct segment *segment,
                 const struct request *request, enum act act, uint32_t reason)
{
    return tcp_does(run->lab, run->hook, segment, request, act, reason);
}

/* --- requests that the kernel answers --------------------------------------------------------- */

static void test_requests(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    size_t i, j;

    for (i = 0; i < REQUESTS; i++) {
        bool right = true;

        for (j = 0; j < MISSED; j++) {
            conn_init(run->lab, &conn, missed[j][0], missed[j][1]);
            segment_in(run->lab, &segment, &conn, requests[i].text, requests[i].n);
            segment.v6 = run->v6;
            right &= does(run, &segment, &requests[i], ACT_ANSWER, NOT_COUNTED);
        }
        ok(right, "%s: request %zu is answered", run->name, i);
    }
}

/* One after another: each acknowledges the reply before. */
static void test_series(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t i;

    conn_init(run->lab, &conn, 0xffffff00u, 0xfffffff0u);
    for (i = 0; i < 200 && right; i++) {
        const struct request *request = &requests[i * 7 % REQUESTS];

        conn_get(run->lab, run->v6, &conn);
        segment_in(run->lab, &segment, &conn, request->text, request->n);
        segment.v6 = run->v6;
        right = does(run, &segment, request, ACT_ANSWER, NOT_COUNTED);
    }
    ok(right && run->lab->slots[TCP_SLOT].answered == 200,
       "%s: requests of which each acknowledges the reply before are answered", run->name);
    run->lab->slots[TCP_SLOT].answered = ~0u;
    conn_get(run->lab, run->v6, &conn);
    segment_in(run->lab, &segment, &conn, get_hit.text, get_hit.n);
    segment.v6 = run->v6;
    ok(does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED) &&
           run->lab->slots[TCP_SLOT].answered == 1,
       "%s: behind 2^32 answers the slot still says that there were some", run->name);
}

/* A stream of which the numbers, or the bytes so far, pass 2^32. */
static void test_far(const struct run *run)
{
    static const uint32_t bases[] = {0, 0xfffffff8u, 0xffffff00u, 0x7fffffff, 0x80000000u};
    static const uint32_t fars[] = {1, 0x7ffffffeu, 0xfffffff0u, 0xffffffffu, 4, 1000};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t i, j;

    for (i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        for (j = 0; j < sizeof(fars) / sizeof(fars[0]); j++) {
            conn_init_at(run->lab, &conn, 3 * fars[j], 5 * bases[i], bases[i], fars[j]);
            segment_in(run->lab, &segment, &conn, get_hit.text, get_hit.n);
            segment.v6 = run->v6;
            right &= does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED);
        }
    }
    ok(right, "%s: wherever the numbers are, and whatever has passed, it is answered", run->name);
}

/* --- sizes ---------------------------------------------------------------------------------- */

/* A get of a value of n bytes, with a key of nkey. */
static void make_sized(struct tcp_lab *lab, struct request *request, struct text *get,
                       struct text *reply, size_t nkey, size_t n)
{
    char key[256], value[2048];
    size_t i;

    memset(key, 'k', nkey);
    for (i = 0; i < n; i++)
        value[i] = (char)(n + i * 13 + i / 256);
    lab_clear(&lab->lab);
    lab_put(&lab->lab, key, nkey, value, n);
    get->n = reply->n = 0;
    text_say(get, "get ");
    text_add(get, key, nkey);
    text_say(get, "\r\n");
    text_say(reply, "VALUE ");
    text_add(reply, key, nkey);
    text_say(reply, " 0 %zu\r\n", n);
    text_add(reply, value, n);
    text_say(reply, "\r\nEND\r\n");
    *request = (struct request){get->bytes, get->n, reply->bytes, reply->n, .hits = 1};
    if (reply->n > TCP_REPLY_MAX)
        *request = (struct request){get->bytes, get->n, NULL, 0, .reason = MC_TCP_PASS_LOOKUP};
}

static void test_sizes(const struct run *run)
{
    static struct text get, reply;
    struct request request;
    struct segment segment;
    struct mc_tcp_conn conn;
    bool right = true;
    size_t n;

    for (n = 0; n <= 1400 && right; n += n < 200 || n > 1300 ? 1 : 7) {
        make_sized(run->lab, &request, &get, &reply, n % 250 + 1, n);
        begin(run, &conn, &segment, &request);
        right = does(run, &segment, &request, request.reply ? ACT_ANSWER : ACT_PASS,
                     request.reply ? (int)NOT_COUNTED : (int)MC_TCP_PASS_LOOKUP);
    }
    ok(right, "%s: replies of any size up to 1392 bytes are sent, shorter than the request or not",
       run->name);
    put_items(run->lab);
}

/* Requests that are longer than most replies. */
static void test_long(const struct run *run)
{
    char text[1460] = "get ";
    struct request request = {.text = text, .reply = "END\r\n", .nreply = 5};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t n, at;

    for (n = 200; n <= 1448 && right; n += 13) {
        memset(text + 4, 'k', n - 6);
        for (at = 100; at < n - 4; at += 100)
            text[at] = ' ';
        memcpy(text + n - 2, "\r\n", 2);
        request.n = n;
        request.misses = 1;
        for (at = 5; at < n - 3; at++)
            request.misses += text[at] == ' ';
        begin(run, &conn, &segment, &request);
        right = does(run, &segment, &request, ACT_ANSWER, NOT_COUNTED);
    }
    ok(right, "%s: requests up to a full segment are answered", run->name);
}

static void test_room(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    unsigned int scale;

    for (scale = 0; scale <= 14; scale++) {
        unsigned int least = (unsigned int)((sizeof(HIT) - 1 + (1u << scale) - 1) >> scale);

        begin(run, &conn, &segment, &get_hit);
        conn.snd_wscale = (uint8_t)scale;
        conn_put(run->lab, run->v6, &conn);
        segment.window = least;
        right &= does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED);
        begin(run, &conn, &segment, &get_hit);
        conn.snd_wscale = (uint8_t)scale;
        conn_put(run->lab, run->v6, &conn);
        segment.window = least - 1;
        right &= does(run, &segment, &get_hit, ACT_PASS, MC_TCP_PASS_WINDOW);
    }
    ok(right, "%s: a reply that just fits the client's window is sent, and else left to the server",
       run->name);
}

/* --- what is passed ------------------------------------------------------------------------- */

/* A reset, or a beginning: XDP does not look at them. */
static void test_flags(const struct run *run)
{
    static const unsigned int flags[] = {RST | ACK, SYN, SYN | ACK};
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t i;

    for (i = 0; i < 3; i++) {
        begin(run, &conn, &segment, &get_hit);
        segment.flags = flags[i];
        right &= does(run, &segment, &get_hit, ACT_PASS,
                      i || run->hook == HOOK_XDP ? (int)NOT_COUNTED : (int)MC_TCP_PASS_SEGMENT);
    }
    ok(right, "%s: a reset, or a beginning, is passed", run->name);
}

/* Requests that only the server answers, at the place where a get would be answered. */
static void test_commands(const struct run *run)
{
    static const struct request rows[] = {
        {TEXT("set hit 0 0 2\r\nxx\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("delete hit\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("gat 0 hit\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("GET hit\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("getx hit\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("getsx hit\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("get h"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("g"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("get hi"), NULL, 0, .reason = MC_TCP_PASS_SEGMENT},
        {TEXT("get hit\r"), NULL, 0, .reason = MC_TCP_PASS_SEGMENT},
        {TEXT("get \r\n"), NULL, 0, .reason = MC_TCP_PASS_SEGMENT},
        {TEXT("get hit\r\nget hi"), NULL, 0, .reason = MC_TCP_PASS_SEGMENT},
        {TEXT("get hit\r\nset hit 0 0 2\r\nxx\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("mn\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("mn\r\nget hit\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("\x80\xa\0\0\0\0\0\0\0\0\0\0abcd\0\0\0\0\0\0\0\0"), NULL, 0,
         .reason = MC_TCP_PASS_COMMAND},
        {TEXT("mg hit v"), NULL, 0, .reason = MC_TCP_PASS_SEGMENT},
        {TEXT("mg no v N30\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("mg no v q\r\n"), NULL, 0, .reason = MC_TCP_PASS_COMMAND},
        {TEXT("\x80\1\0\3\0\0\0\0\0\0\0\3abcd\0\0\0\0\0\0\0\0hit"), NULL, 0,
         .reason = MC_TCP_PASS_COMMAND},
        {TEXT("\x80\x09\0\2\0\0\0\0\0\0\0\2abcd\0\0\0\0\0\0\0\0no"), NULL, 0,
         .reason = MC_TCP_PASS_COMMAND},
        {TEXT("\x80\0\0\3\0\0\0\0\0\0\0\3abcd\0\0\0\0\0\0\0\0hi"), NULL, 0,
         .reason = MC_TCP_PASS_SEGMENT},
        {TEXT("\x80\0\0\3\0\0\0\0\0\0\0\3abcd\0\0\0\0\0\0\0\0hit\x80"), NULL, 0,
         .reason = MC_TCP_PASS_SEGMENT},
        {TEXT("\x80\0\0\3\0\0\0\0\0\0\0\3abcd\0\0\0\0\0\0"), NULL, 0,
         .reason = MC_TCP_PASS_SEGMENT},
    };
    struct mc_tcp_conn conn;
    struct segment segment;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(run, &conn, &segment, &rows[i]);
        ok(does(run, &segment, &rows[i], ACT_PASS, rows[i].reason), "%s: command %zu is passed",
           run->name, i);
    }
}

/* The text of one protocol on a connection that speaks the other. */
static void test_protocols(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    struct request request;
    bool right = true;
    size_t i;

    for (i = 0; i < REQUESTS; i++) {
        request = requests[i];
        request.reply = NULL;
        begin(run, &conn, &segment, &request);
        run->lab->slots[TCP_SLOT].binary ^= 1;
        right &= does(run, &segment, &request, ACT_PASS, MC_TCP_PASS_COMMAND);
    }
    ok(right, "%s: a request of another protocol than the connection's is passed", run->name);
}

static bool passes_lookup(const struct run *run, uint32_t reason)
{
    struct request request = get_hit;
    struct mc_tcp_conn conn;
    struct segment segment;

    request.reply = NULL;
    request.reason = reason;
    begin(run, &conn, &segment, &request);
    return does(run, &segment, &request, ACT_PASS, reason);
}

static void test_items(const struct run *run)
{
    struct mc_control *control = run->lab->lab.control;
    struct mc_item *item;
    struct mc_tcp_conn conn;
    struct segment segment;

    lab_clear(&run->lab->lab);
    item = lab_put(&run->lab->lab, "hit", 3, "value", 5);
    item->flags |= MC_ITEM_CHUNKED;
    ok(passes_lookup(run, MC_TCP_PASS_LOOKUP), "%s: a chunked item is passed", run->name);
    item->flags &= (uint16_t)~MC_ITEM_CHUNKED;
    item->exptime = 1;
    ok(passes_lookup(run, MC_TCP_PASS_LOOKUP), "%s: an expired item is passed", run->name);
    item->exptime = 0;
    lab_bucket(&run->lab->lab, lab_hash(&run->lab->lab, "hit", 3))->seq++;
    ok(passes_lookup(run, MC_TCP_PASS_LOOKUP), "%s: an item that is being changed is passed",
       run->name);
    put_items(run->lab);
    control->bypass = 1;
    ok(passes_lookup(run, MC_TCP_PASS_BYPASS), "%s: all is passed if the server asked for it",
       run->name);
    control->bypass = 0;
    control->tcp_bypass = 1;
    ok(passes_lookup(run, MC_TCP_PASS_BYPASS), "%s: or over TCP alone", run->name);
    control->tcp_bypass = 0;
    control->flush_at = 1;
    ok(passes_lookup(run, MC_TCP_PASS_BYPASS), "%s: all is passed while a flush is due", run->name);
    control->flush_at = 0;
    control->lease = mc_lease(0, 1);
    ok(passes_lookup(run, MC_TCP_PASS_BYPASS), "%s: all is passed if the lease has ended",
       run->name);
    control->lease = MC_LEASE_EVER | MC_LEASE_DEAD;
    begin(run, &conn, &segment, &get_hit);
    ok(run->hook == HOOK_XDP ? passes_lookup(run, MC_TCP_PASS_BYPASS)
                             : does(run, &segment, &get_hit, ACT_REFUSE, NOT_COUNTED),
       "%s: if the server is dead %s", run->name,
       run->hook == HOOK_XDP ? "all is passed" : "a request gets a RST");
    control->lease = MC_LEASE_EVER;
    begin(run, &conn, &segment, &get_hit);
    ok(does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED), "%s: a new lease: it is answered",
       run->name);
}

/* --- what comes next ------------------------------------------------------------------------ */

#define TIMES          "\1\1\x8\xa\xff\xff\xff\xff\0\0\0\5"
#define STAMPS         "\x8\xa\0\0\0\5\0\0\0\5"
#define OPTIONS(bytes) .packet = {.options = bytes, .noptions = sizeof(bytes) - 1}
#define FLAGS(bits)    .packet.flags = bits

/* The next request, on a connection where all before it is done. */
static const struct tcp_case cases[] = {
    {"without PSH it is answered", FLAGS(ACK)},
    {"in a padded frame it is answered", .packet.npadding = 20},
    {"of another class, and ECT, it is answered", .packet.traffic = 0xb9},
    {"with the same TSval it is answered", .packet.tsval = -16u},
    {"with a partial checksum it is answered", .packet.sum = SUM_PARTIAL},
    {"a reply as long as a segment may be is sent", .state.mss = sizeof(HIT) - 1},
    {"a reply a byte longer is left to the server", .state.mss = sizeof(HIT) - 2, PASSES(WINDOW)},
    {"passed: FIN", FLAGS(FIN | ACK), PASSES(SEGMENT)},
    {"passed: FIN, PSH", FLAGS(FIN | PSH | ACK), PASSES(SEGMENT)},
    {"passed: URG", FLAGS(URG | ACK), PASSES(SEGMENT)},
    {"passed: URG, PSH", FLAGS(URG | PSH | ACK), PASSES(SEGMENT)},
    {"passed: ECE", FLAGS(ECE | ACK), PASSES(SEGMENT)},
    {"passed: CWR", FLAGS(CWR | ACK), PASSES(SEGMENT)},
    {"passed: AE", FLAGS(AE | ACK), PASSES(SEGMENT)},
    {"passed: a flag that nobody knows", FLAGS(512 | ACK), PASSES(SEGMENT)},
    {"passed: another one", FLAGS(2048 | ACK), PASSES(SEGMENT)},
    {"passed: no ACK", FLAGS(PSH), PASSES(SEGMENT)},
    {"passed: no flags", FLAGS(FLAGS_NONE), PASSES(SEGMENT)},
    {"passed: it met congestion", .packet.traffic = 3, PASSES(SEGMENT)},
    {"passed: no options", OPTIONS(""), PASSES(SEGMENT)},
    {"passed: no-ops", OPTIONS("\1\1\1\1\1\1\1\1\1\1\1\1"), PASSES(SEGMENT)},
    {"with timestamps, then no-ops, it is answered", OPTIONS(STAMPS "\1\1")},
    {"with timestamps between no-ops it is answered", OPTIONS("\1" STAMPS "\1")},
    {"with timestamps, a no-op and the end it is answered", OPTIONS(STAMPS "\1\0")},
    {"with timestamps, the end and something it is answered", OPTIONS(STAMPS "\0\7")},
    {"with a no-op, timestamps and the end it is answered", OPTIONS("\1" STAMPS "\0")},
    {"passed: the end, then timestamps", OPTIONS("\0\1" STAMPS), PASSES(SEGMENT)},
    {"passed: a no-op, the end, timestamps", OPTIONS("\1\0" STAMPS), PASSES(SEGMENT)},
    {"passed: timestamps, an option without a length", OPTIONS(STAMPS "\1\7"), PASSES(SEGMENT)},
    {"passed: timestamps, another option", OPTIONS(STAMPS "\7\2"), PASSES(SEGMENT)},
    {"passed: timestamps, an option of length 0", OPTIONS(STAMPS "\7\0"), PASSES(SEGMENT)},
    {"passed: timestamps, an option of length 1", OPTIONS(STAMPS "\7\1"), PASSES(SEGMENT)},
    {"passed: timestamps, an option that is longer", OPTIONS(STAMPS "\7\3"), PASSES(SEGMENT)},
    {"passed: an option that is longer, and timestamps in it", OPTIONS("\7\x28" STAMPS),
     PASSES(SEGMENT)},
    {"passed: a no-op, timestamps, something", OPTIONS("\1" STAMPS "\7"), PASSES(SEGMENT)},
    {"passed: an option, timestamps", OPTIONS("\7\2" STAMPS), PASSES(SEGMENT)},
    {"passed: an option of length 0, timestamps", OPTIONS("\7\0" STAMPS), PASSES(SEGMENT)},
    {"passed: an option of length 1, timestamps", OPTIONS("\7\1" STAMPS), PASSES(SEGMENT)},
    {"passed: timestamps of 9 bytes", OPTIONS("\1\1\x8\x9\0\0\0\5\0\0\0\5"), PASSES(SEGMENT)},
    {"passed: timestamps of 11 bytes", OPTIONS("\x8\xb\0\0\0\5\0\0\0\5\1\1"), PASSES(SEGMENT)},
    {"passed: more than one word before timestamps", OPTIONS("\1\1\1\1\1" STAMPS "\1"),
     PASSES(SEGMENT)},
    {"passed: timestamps behind blocks", OPTIONS("\5\xa\0\0\0\5\0\0\0\6" STAMPS), PASSES(SEGMENT)},
    {"passed: timestamps at the very end", OPTIONS("\x1e\x1e____________________________" STAMPS),
     PASSES(SEGMENT)},
    {"passed: more after the timestamps", OPTIONS(TIMES "\1\1\1\1"), PASSES(SEGMENT)},
    {"passed: timestamps, an MD5 key", OPTIONS(TIMES "\1\1\x13\x12________________"),
     PASSES(SEGMENT)},
    {"passed: timestamps of another length", OPTIONS("\1\1\x8\x6\0\0\0\5\1\1\1\1"),
     PASSES(SEGMENT)},
    {"passed: not all that was passed is known", .state.flags = MC_TCP_FOLLOWED, PASSES(BOUNDARY)},
    {"passed: the connection is closing", .state.flags = MC_TCP_CLOSING, PASSES(BOUNDARY)},
    {"passed: the server has published nothing", .state.unpublished = true, PASSES(BOUNDARY)},
    {"passed: the slot is another connection's", .state.generation = 1, PASSES(BOUNDARY)},
    {"passed: the server has not read all", .state.boundary = -1ull, PASSES(BOUNDARY)},
    {"passed: the server has not counted all that it sent", .state.boundary = -1ull << 32,
     PASSES(BOUNDARY)},
    {"passed: the server is further", .state.boundary = 1 + (1ull << 32), PASSES(BOUNDARY)},
    {"passed: bytes before it lie in the socket", .state.rcv_nxt = 10, .packet.seq = 10,
     PASSES(BOUNDARY)},
    {"passed: it lies in the socket already", .state.rcv_nxt = 10, PASSES(BOUNDARY)},
    {"passed: the client has not received all", .state.snd_nxt = 10, PASSES(BOUNDARY)},
    {"passed: it begins a byte too early", .packet.seq = -1u, PASSES(BOUNDARY)},
    {"passed: it begins a byte too late", .packet.seq = 1, PASSES(BOUNDARY)},
    {"passed: it is out of all windows", .packet.seq = 1u << 31, PASSES(BOUNDARY)},
    {"passed: it acknowledges a byte less", .packet.ack = -1u, PASSES(BOUNDARY)},
    {"passed: it acknowledges what was not sent", .packet.ack = 1, PASSES(BOUNDARY)},
    {"passed: its TSval has gone back", .packet.tsval = -17u, PASSES(SEGMENT)},
    {"passed: its checksum is wrong", .packet.sum = SUM_WRONG, PASSES(SEGMENT)},
};

static void test_cases(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment;
    size_t i, j;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool right = true;

        if (run->lab->unstamped && (cases[i].packet.options || cases[i].packet.tsval))
            continue;
        for (j = 0; j < MISSED; j++) {
            conn_init(run->lab, &conn, missed[j][0], missed[j][1]);
            segment_in(run->lab, &segment, &conn, get_hit.text, get_hit.n);
            segment.v6 = run->v6;
            case_apply(run->lab, &cases[i], &conn, &segment);
            right &= does(run, &segment, &get_hit, cases[i].verdict, case_reason(&cases[i]));
        }
        ok(right, "%s: %s", run->name, cases[i].description);
    }
}

/* A request that was passed is consumed; the one behind it is answered. */
static void test_follows(const struct run *run)
{
    static const struct request set = {TEXT("set x 0 0 1\r\nx\r\n"), NULL, 0,
                                       .reason = MC_TCP_PASS_COMMAND};
    struct mc_tcp_conn conn;
    struct segment segment, next;
    bool right;

    begin(run, &conn, &segment, &set);
    right = does(run, &segment, &set, ACT_PASS, MC_TCP_PASS_COMMAND);
    if (run->hook == HOOK_XDP) { /* which does not note what TC is about to see */
        next = segment;
        next.seq += (uint32_t)set.n;
        next.text = get_hit.text;
        next.n = get_hit.n;
        right &= does(run, &next, &get_hit, ACT_PASS, MC_TCP_PASS_BOUNDARY) &&
                 tcp_does(run->lab, HOOK_INGRESS, &segment, &set, ACT_PASS, MC_TCP_PASS_COMMAND);
    }
    conn_get(run->lab, run->v6, &conn);
    segment_in(run->lab, &segment, &conn, get_hit.text, get_hit.n);
    segment.v6 = run->v6;
    right &= does(run, &segment, &get_hit, ACT_PASS, MC_TCP_PASS_BOUNDARY);
    conn_get(run->lab, run->v6, &conn);
    conn.snd_nxt += 8; /* the server's reply to the set */
    conn_put(run->lab, run->v6, &conn);
    conn_settle(run->lab, &conn);
    segment_in(run->lab, &segment, &conn, get_hit.text, get_hit.n);
    segment.v6 = run->v6;
    segment.ack -= 8;
    right &= does(run, &segment, &get_hit, ACT_PASS, MC_TCP_PASS_BOUNDARY);
    ok(right, "%s: a get behind a set is passed until the server's reply is acknowledged",
       run->name);
}

/* A bare acknowledgement of the client's, whose TSval is not its clock's. */
static bool runs_ahead(const struct run *run, const struct mc_tcp_conn *conn, uint32_t further,
                       enum sum sum)
{
    static const struct request none = {"", 0, NULL, 0, .reason = NOT_COUNTED};
    struct segment segment;

    segment_in(run->lab, &segment, conn, "", 0);
    segment.v6 = run->v6;
    segment.flags = ACK;
    segment.seq += further;
    segment.tsval += 1 << 30;
    segment.sum = sum;
    return tcp_does(run->lab, HOOK_INGRESS, &segment, &none, ACT_PASS, NOT_COUNTED);
}

/*
 * The client's clock is what the server's socket echoes: it has looked at checksum and numbers of
 * what it takes that from.
 */
static void test_clocks(const struct run *run)
{
    struct mc_tcp_conn conn;
    struct segment segment, said;
    bool right;

    begin(run, &conn, &segment, &get_hit);
    right = runs_ahead(run, &conn, 0, SUM_WRONG) &&
            does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED);
    ok(right, "%s: behind a damaged segment from the future a request is answered", run->name);
    begin(run, &conn, &segment, &get_hit);
    right = runs_ahead(run, &conn, 1 << 24, SUM_WHOLE) &&
            does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED);
    ok(right, "%s: behind one that is out of the window, too", run->name);
    begin(run, &conn, &segment, &get_hit);
    segment_out(&said, &conn, "", 0);
    said.v6 = run->v6;
    said.tsecr = segment.tsval + 1;
    right = tcp_does(run->lab, HOOK_EGRESS, &said, &get_hit, ACT_PASS, NOT_COUNTED) &&
            conn_get(run->lab, run->v6, &conn) && conn.client_ts == segment.tsval + 1;
    right &= does(run, &segment, &get_hit, ACT_PASS, MC_TCP_PASS_SEGMENT);
    begin(run, &conn, &segment, &get_hit);
    right &= tcp_does(run->lab, HOOK_EGRESS, &said, &get_hit, ACT_PASS, NOT_COUNTED);
    segment.tsval++;
    right &= does(run, &segment, &get_hit, ACT_ANSWER, NOT_COUNTED);
    ok(right, "%s: what the socket has echoed is the least TSval that is answered", run->name);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* Whether a damaged frame leaves no trace but that the segment was passed. */
static bool is_refused(const struct run *run, const struct frame *frame)
{
    static struct tcp_run out;
    struct mc_tcp_slot *slot = &run->lab->slots[TCP_SLOT];
    struct mc_tcp_conn conn;

    out.mark = 0;
    if (tcp_run(run->lab, run->hook, frame, &out) || slot->answered)
        return false;
    if (run->hook == HOOK_XDP && (out.verdict != XDP_IS_PASS || !frame_equal(&out.out, frame)))
        return false;
    return run->hook == HOOK_XDP ||
           (out.verdict == TC_IS_NEXT && conn_get(run->lab, run->v6, &conn) && !conn.delta.nreply);
}

/* Each bit of a request's frame, from its IP header on. */
static void test_damage(const struct run *run)
{
    static struct frame frame;
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true;
    size_t at, bit, tcp = 14 + (run->v6 ? 40 : 20);

    for (at = 14; at < tcp + header_of(run) + get_hit.n && right; at++) {
        for (bit = 0; bit < 8 && right; bit++) {
            begin(run, &conn, &segment, &get_hit);
            segment_frame(&frame, &segment);
            frame.bytes[at] ^= (uint8_t)(1u << bit);
            /* IP's own fields that no checksum of TCP covers: the stack looks at those. */
            if (at < tcp && (run->v6 ? at < 18 || at == 21 : at < 16 || (at > 17 && at < 26)))
                continue;
            right = is_refused(run, &frame);
            if (!right)
                diag("byte %zu, bit %zu", at, bit);
        }
    }
    ok(right, "%s: a request with any bit of it damaged is not answered", run->name);
}

/* Frames that are no segment of the connection, or not all of one. */
static bool passes_odd(const struct run *run, const struct segment *segment,
                       const struct frame *frame, const struct request *request, unsigned int odd,
                       uint32_t reason)
{
    return tcp_frame_does(run->lab, run->hook, segment, frame, request, odd, ACT_PASS, reason);
}

static bool is_foreign(const struct run *run, const struct segment *segment,
                       const struct frame *frame, unsigned int odd)
{
    return passes_odd(run, segment, frame, &get_hit, odd, 0);
}

/* The next request in a frame. */
static void begin_frame(const struct run *run, struct segment *segment, struct frame *frame)
{
    struct mc_tcp_conn conn;

    begin(run, &conn, segment, &get_hit);
    segment_frame(frame, segment);
}

static void test_frames(const struct run *run)
{
    static struct frame frame;
    struct segment segment;
    size_t tcp = 14 + (run->v6 ? 40 : 20), n;
    bool right = true;

    begin_frame(run, &segment, &frame);
    memmove(frame.bytes + 16, frame.bytes + 12, frame.n - 12);
    memcpy(frame.bytes + 12, "\x81\0\0\x64", 4);
    frame.n += 4;
    ok(is_foreign(run, &segment, &frame, ODD_FOREIGN), "%s: a frame with a tag is left alone",
       run->name);
    begin_frame(run, &segment, &frame);
    frame.bytes[tcp + 1] ^= 1;
    segment_seal(&frame, SUM_WHOLE);
    ok(is_foreign(run, &segment, &frame, ODD_FOREIGN), "%s: another connection is left alone",
       run->name);
    begin_frame(run, &segment, &frame);
    frame.bytes[tcp + 3] ^= 1;
    segment_seal(&frame, SUM_WHOLE);
    ok(is_foreign(run, &segment, &frame, ODD_FOREIGN), "%s: another port is left alone", run->name);
    for (n = run->hook == HOOK_XDP ? 14 : tcp; n < tcp + 20 && right; n++) {
        segment_frame(&frame, &segment);
        frame.n = n;
        right = is_foreign(run, &segment, &frame, ODD_FOREIGN);
    }
    ok(right, "%s: frames too short for TCP's header are left alone", run->name);
}

static void test_lengths(const struct run *run)
{
    static struct frame frame;
    struct segment segment;
    size_t ip = 14, tcp = ip + (run->v6 ? 40 : 20), n;
    bool right = true;

    for (n = 0; n < 5; n++) { /* less than TCP's header */
        begin_frame(run, &segment, &frame);
        frame.bytes[tcp + 12] = (uint8_t)(n << 4);
        segment_seal(&frame, SUM_WHOLE);
        segment.options = "";
        right &= is_foreign(run, &segment, &frame, ODD_LENGTHS);
    }
    ok(right, "%s: a TCP header of less than 20 bytes is passed", run->name);
    for (n = 0, right = true; n < header_of(run); n++) {
        begin_frame(run, &segment, &frame);
        if (run->v6)
            frame.bytes[ip + 5] = (uint8_t)n;
        else
            frame.bytes[ip + 3] = (uint8_t)(20 + n);
        right &= is_foreign(run, &segment, &frame, ODD_LENGTHS);
    }
    ok(right, "%s: a packet shorter than TCP's header is passed", run->name);
    begin_frame(run, &segment, &frame);
    frame.n--;
    ok(is_refused(run, &frame), "%s: a packet longer than its frame is passed", run->name);
}

/* The first of several fragments, and IP with options: XDP does not look at them. */
static void test_ip4(const struct run *run)
{
    static struct frame frame;
    struct segment segment;
    uint8_t *ip = frame.bytes + 14;

    if (run->v6)
        return;
    begin_frame(run, &segment, &frame);
    ip[6] = 0x20;
    ok(is_foreign(run, &segment, &frame, ODD_FRAGMENT), "%s: a fragment is passed", run->name);
    begin_frame(run, &segment, &frame);
    ip[7] = 1;
    ok(is_foreign(run, &segment, &frame, ODD_FOREIGN), "%s: a further fragment is left alone",
       run->name);
    begin_frame(run, &segment, &frame);
    memmove(ip + 24, ip + 20, frame.n - 34);
    memset(ip + 20, 1, 4);
    frame.n += 4;
    ip[0] = 0x46;
    ip[3] += 4;
    ok(is_foreign(run, &segment, &frame, ODD_OPTIONS), "%s: a packet with IP options is passed",
       run->name);
}

static void test_ways(const struct run *run)
{
    static const struct request nothing = {.text = "", .reason = NOT_COUNTED};
    static const struct tcp_case rows[] = {
        {"by another interface", .state.ifindex = TCP_OTHER, .request = &get_hit, PASSES(WAY)},
        {"with a tag", .state.vlan = LAB_VLAN, .request = &get_hit, PASSES(WAY)},
        {"to another MAC address", .state.mac = 0x100, .request = &get_hit, PASSES(WAY)},
        {"elsewhere, and not counted: it is no request", .state.mac = 0x100, FLAGS(ACK),
         .request = &nothing, .verdict = ACT_PASS},
    };
    static struct frame frame;
    struct mc_tcp_conn conn;
    struct segment segment;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(run, &conn, &segment, rows[i].request);
        case_apply(run->lab, &rows[i], &conn, &segment);
        segment_frame(&frame, &segment);
        ok(passes_odd(run, &segment, &frame, rows[i].request, ODD_WAY, case_reason(&rows[i])),
           "%s: passed if the server's segments leave %s", run->name, rows[i].description);
    }
    if (run->hook != HOOK_XDP)
        return; /* TC has the stack's word for it */
    begin_frame(run, &segment, &frame);
    memcpy(frame.bytes, "\2\0\0\0\0\1", 6);
    ok(passes_odd(run, &segment, &frame, &get_hit, ODD_WAY, MC_TCP_PASS_WAY),
       "%s: a frame to another MAC address is passed", run->name);
}

/* Requests in datagrams, which the same hooks get, of any size from the shortest on. */
static void test_datagrams(const struct run *run)
{
    struct lab *lab = &run->lab->lab;
    char text[300] = "get ";
    struct frame frame;
    bool right = true;
    size_t nkey;

    lab->program = run->hook == HOOK_XDP ? LOADER_XDP : LOADER_TC;
    lab->shape.v6 = run->v6;
    for (nkey = 1; nkey <= 250; nkey++) {
        memset(text + 4, 'k', nkey);
        memcpy(text + 4 + nkey, "\r\n", 2);
        frame_request(&frame, text, nkey + 6);
        right &= lab_answers(lab, &frame, "END\r\n", 5);
    }
    ok(right, "%s: datagrams are answered as without TCP", run->name);
}

static void test_hook(struct tcp_lab *lab, enum hook hook, bool v6)
{
    struct run run = {.lab = lab, .hook = hook, .v6 = v6};

    snprintf(run.name, sizeof(run.name), "%s, IPv%d", names[hook], v6 ? 6 : 4);
    put_items(lab);
    tcp_lab_set_alone(lab, hook == HOOK_INGRESS);
    test_requests(&run);
    test_series(&run);
    test_far(&run);
    test_sizes(&run);
    test_long(&run);
    test_room(&run);
    test_flags(&run);
    test_commands(&run);
    test_protocols(&run);
    test_items(&run);
    test_cases(&run);
    test_follows(&run);
    if (!lab->unstamped)
        test_clocks(&run);
    test_damage(&run);
    test_frames(&run);
    test_lengths(&run);
    test_ip4(&run);
    test_ways(&run);
    test_datagrams(&run);
}

int main(void)
{
    return tcp_lab_main(test_hook);
}
