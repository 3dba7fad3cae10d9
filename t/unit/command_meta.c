/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meta commands over a real store: dialogues, byte for byte as memcached 1.6.18 answers them
 * but for those in `ours`. Each table has a server of its own; ids count from 1.
 */
#include "t/unit/command_client.h"

#define K10   "kkkkkkkkkk"
#define K50   K10 K10 K10 K10 K10
#define K250  K50 K50 K50 K50 K50
#define O31   K10 K10 K10 "k"
#define HD    "HD\r\n"
#define EN    "EN\r\n"
#define NF    "NF\r\n"
#define NS    "NS\r\n"
#define EX    "EX\r\n"
#define MS_K  "ms k 3\r\nabc\r\n"
#define MS_N  "ms n 2\r\n10\r\n"
#define LARGE "SERVER_ERROR object too large for cache\r\n"
#define CHUNK "CLIENT_ERROR bad data chunk\r\n"
#define NAN   "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"

struct dialogue {
    const char *name, *send, *answer;
};

static const struct dialogue gets[] = {
    {"mn", "mn\r\nmn x\r\n", "MN\r\nMN\r\n"},
    {"a miss", "mg k\r\n", EN},
    {"a miss repeats the opaque and the key", "mg k s v t O123 k f\r\n", "EN O123 kk\r\n"},
    {"a quiet miss", "mg k v q\r\nmn\r\n", "MN\r\n"},
    {"a hit without v has no value", MS_K "mg k\r\n", HD HD},
    {"a hit with v has the value", "mg k v\r\n", "VA 3\r\nabc\r\n"},
    {"a hit with q is answered", "mg k q\r\nmg k q v\r\n", HD "VA 3\r\nabc\r\n"},
    {"flags are answered in the order asked", "ms k 3 F5 T100\r\nabc\r\nmg k s v f t c k O1 q\r\n",
     HD "VA 3 s3 f5 t100 c2 kk O1\r\nabc\r\n"},
    {"the other order", "mg k O1 k c t f v s\r\n", "VA 3 O1 kk c2 t100 f5 s3\r\nabc\r\n"},
    {"an empty value", "ms e 0\r\n\r\nmg e v s\r\n", HD "VA 0 s0\r\n\r\n"},
    {"an empty opaque", "mg k O\r\n", "HD O\r\n"},
    {"an opaque of 31 bytes", "mg k O" O31 "\r\n", "HD O" O31 "\r\n"},
    {"an opaque of 32 bytes", "mg k O" O31 "k\r\n", "CLIENT_ERROR opaque token too long\r\n"},
    {"h says whether the item was read before", MS_K "mg k h\r\nmg k h\r\n",
     HD "HD h0\r\nHD h1\r\n"},
    {"u leaves no trace of the access", MS_K "mg k h u\r\nmg k h u\r\n", HD "HD h0\r\nHD h0\r\n"},
    {"a get marks the item as read", MS_K "get k\r\nmg k h u\r\n",
     HD "VALUE k 0 3\r\nabc\r\nEND\r\nHD h1\r\n"},
    {"T sets the time", MS_K "mg k T30 t\r\nmg k t\r\n", HD "HD t30\r\nHD t30\r\n"},
    {"t before T returns the older time", "mg k t T50\r\nmg k t\r\n", "HD t30\r\nHD t50\r\n"},
    {"T in the past returns the value one last time", "mg k T-1 v\r\nmg k\r\n",
     "VA 3\r\nabc\r\n" EN},
    {"mg ignores flags that have no meaning for it", MS_K "mg k I L P D5 J5 F5 C5 MS v\r\n",
     HD "VA 3\r\nabc\r\n"},
    {"a long key", "mg " K250 "\r\nmg " K250 "k q\r\n",
     EN "CLIENT_ERROR bad command line format\r\n"},
    {"q does not suppress errors", "mg k q z\r\n", "CLIENT_ERROR invalid flag\r\n"},
    {"me of a missing key", "me nope\r\n", EN},
    {"me", "ms m 1 T30\r\nx\r\nme m\r\n", HD "ME m exp=-30 la=0 cas=9 fetch=no cls=1 size=46\r\n"},
    {"me does not count as an access", "mg m h\r\n", "HD h0\r\n"},
    {"me without a key", "me\r\n", "CLIENT_ERROR bad command line format\r\n"},
};

static const struct dialogue recaches[] = {
    {"N stores an empty value, and the client wins", "mg a N30 s v t f k O1\r\n",
     "VA 0 s0 t30 f0 ka O1 W\r\n\r\n"},
    {"the next client does not win", "mg a N30 s v t f k O1\r\n", "VA 0 s0 t30 f0 ka O1 Z\r\n\r\n"},
    {"q does not suppress a win", "mg b N30 q\r\nmg b q\r\n", "HD W\r\nHD Z\r\n"},
    {"a new value ends the win", "ms a 2 T100\r\nhi\r\nmg a v t\r\n", HD "VA 2 t100\r\nhi\r\n"},
    {"N has no effect on a hit", "mg a N5 t\r\n", "HD t100\r\n"},
    {"R wins when less time is left than it says", "mg a R100 t\r\nmg a R101 t\r\nmg a R101 t\r\n",
     "HD t100\r\nHD t100 W\r\nHD t100 Z\r\n"},
    {"an item without an expiry never wins by R", "ms a 2\r\nhi\r\nmg a R1000\r\n", HD HD},
    {"R before T compares the older time", "ms a 2 T10\r\nhi\r\nmg a R50 T100 t\r\n",
     HD "HD t100 W\r\n"},
    {"R after T compares the newer time", "ms a 2 T10\r\nhi\r\nmg a T100 R50 t\r\n",
     HD "HD t100\r\n"},
    {"the last of N and T sets the expiry of a new value",
     "mg c N10 T60\r\nmg c t\r\nmg d T60 N10\r\nmg d t\r\n",
     "HD W\r\nHD t60 Z\r\nHD W\r\nHD t10 Z\r\n"},
    {"md I keeps the value and marks it stale", "ms k 3 F5\r\nabc\r\nmd k I T30\r\nmg k v f t\r\n",
     HD HD "VA 3 f5 t30 X W\r\nabc\r\n"},
    {"one wins", "mg k v f t\r\nget k\r\n",
     "VA 3 f5 t30 Z X\r\nabc\r\nVALUE k 5 3\r\nabc\r\nEND\r\n"},
    {"after another md I one client wins again", "md k I\r\nmg k t\r\nmg k t\r\n",
     HD "HD t30 X W\r\nHD t30 Z X\r\n"},
    {"touch and add keep the item stale", "md k I\r\ntouch k 0\r\nadd k 0 0 1\r\nx\r\nmg k t\r\n",
     HD "TOUCHED\r\nNOT_STORED\r\nHD t-1 X W\r\n"},
    {"append ends the stale state", "md k I\r\nappend k 0 0 1\r\nx\r\nmg k v\r\n",
     HD "STORED\r\nVA 4\r\nabcx\r\n"},
    {"incr to a number of the same length keeps the item stale",
     MS_N "md n I\r\nincr n 1\r\nmg n v\r\n", HD HD "11\r\nVA 2 X W\r\n11\r\n"},
    {"md I of a missing key", "md nope I\r\n", NF},
};

/* Ids count from 1 here, too. */
static const struct dialogue sets[] = {
    {"ms with C and the item's id stores", MS_K "ms k 3 C1 c\r\ndef\r\n", HD "HD c2\r\n"},
    {"ms with an older id fails", "ms k 3 C1 c k O7\r\nghi\r\nmg k v\r\n",
     "EX c0 kk O7\r\nVA 3\r\ndef\r\n"},
    {"ms with a newer id fails", "ms k 3 C3\r\nghi\r\n", EX},
    {"ms with id 0 fails", "ms k 3 C0\r\nghi\r\nms k 3 C0 I\r\nghi\r\n", EX EX},
    {"of nothing", "ms nope 1 C5\r\nx\r\nms nope 1 C5 I\r\nx\r\n", NF NF},
    {"ms I with an older id stores the value as stale",
     "ms k 3 C1 I F9 T50 c\r\njkl\r\nmg k v f t c\r\n", "HD c3\r\nVA 3 f9 t-1 c3 X W\r\njkl\r\n"},
    {"a stale value that was won stays won", "ms k 3 C1 I\r\nmno\r\nmg k v\r\n",
     HD "VA 3 Z X\r\nmno\r\n"},
    {"ms I with a newer id fails", "ms k 3 C9 I\r\nxxx\r\n", EX},
    {"ms I with the item's id ends the stale state", "ms k 3 C4 I\r\npqr\r\nmg k v\r\n",
     HD "VA 3\r\npqr\r\n"},
    {"ms I without an id", "ms k 3 I\r\nabc\r\nmg k v\r\n", HD "VA 3\r\nabc\r\n"},
    {"ME", "ms k 1 ME\r\nx\r\nms e 1 ME\r\nx\r\n", NS HD},
    {"ME ignores ids", "ms k 1 ME C1\r\nx\r\nms e2 1 ME C1\r\nx\r\n", NS HD},
    {"MR", "ms k 3 MR\r\ndef\r\nms nope 1 MR\r\nx\r\n", HD NS},
    {"MR with an id compares it", "ms nope 1 MR C1\r\nx\r\nms k 1 MR C1\r\nx\r\n", NF EX},
    {"MA and MP append and prepend", "ms k 1 MA\r\n2\r\nms k 1 MP\r\n1\r\nmg k v\r\n",
     HD HD "VA 5\r\n1def2\r\n"},
    {"MA and MP of a missing key", "ms nope 1 MA\r\nx\r\nms nope 1 MP N30 C1\r\nx\r\n", NS NS},
    {"MA with an id compares it", "ms k 1 MA C1\r\nx\r\nms k 1 MA C1 I\r\nx\r\n", EX EX},
    {"MS", "ms k 3 MS\r\nabc\r\n", HD},
    {"q suppresses only success", "ms k 3 q\r\nabc\r\nms k 1 q ME\r\nx\r\nms k 1 q C1\r\nx\r\n",
     NS EX},
    {"a value longer than its length is an error", "ms k 3 q\r\nabcd\r\nmg k v\r\n",
     CHUNK "ERROR\r\nVA 3\r\nabc\r\n"},
    {"a value of another length consumes the following bytes", "ms k 8\r\nabc\r\nmg k\r\n",
     CHUNK "ERROR\r\n"},
    {"the value after a bad line is skipped",
     "ms k 4 z q\r\nmn\r\n\r\nms k 4 MX\r\nmn\r\n\r\nms ! 4 b k\r\nmn\r\n\r\nmn\r\n",
     "CLIENT_ERROR invalid flag\r\nCLIENT_ERROR invalid mode for ms M token\r\n"
     "CLIENT_ERROR error decoding key\r\nMN\r\n"},
    {"without a length the value is parsed as a command", "ms k\r\nms k x\r\nmn\r\n",
     "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nMN\r\n"},
    {"md with an id compares it", "md k C1\r\nmd k C0 q k\r\nmg k v\r\n",
     EX "EX kk\r\nVA 3\r\nabc\r\n"},
    {"md", "md k O1 k s\r\nmd k O1 k\r\n", "HD O1 kk\r\nNF O1 kk\r\n"},
    {"a quiet md", MS_K "md k q\r\nmd k q\r\n", HD NF},
};

static const struct dialogue numbers[] = {
    {"ma of a missing key", "ma n\r\nma n q O1 k c t\r\n", NF "NF O1 kn\r\n"},
    {"ma", MS_N "ma n\r\nma n v\r\n", HD HD "VA 2\r\n12\r\n"},
    {"its flags", "ma n O1 k c t v s f h l\r\n", "VA 2 O1 kn c4 t-1\r\n13\r\n"},
    {"D and the modes", "ma n D7 v\r\nma n MD v\r\nma n M- v\r\nma n M+ v\r\nma n MI v\r\n",
     "VA 2\r\n20\r\nVA 2\r\n19\r\nVA 2\r\n18\r\nVA 2\r\n19\r\nVA 2\r\n20\r\n"},
    {"decrement stops at 0", "ma n MD D100 v\r\nmg n v\r\n", "VA 1\r\n0\r\nVA 2\r\n0 \r\n"},
    {"it wraps", "ma n D18446744073709551615 v\r\nma n v\r\n",
     "VA 20\r\n18446744073709551615\r\nVA 1\r\n0\r\n"},
    {"q suppresses only success", "ma n q\r\nma n q v\r\nma nope q\r\n", NF},
    {"T sets the time", MS_N "ma n t T100\r\nma n t\r\nma n T50 t\r\n",
     HD "HD t-1\r\nHD t100\r\nHD t50\r\n"},
    {"T also sets the time of a number that gets longer",
     "ms n 2\r\n99\r\nma n T70 v\r\nmg n t\r\n", HD "VA 3\r\n100\r\nHD t70\r\n"},
    {"N creates", "ma a N90 v t\r\nma a v t\r\n", "VA 1 t90\r\n0\r\nVA 1 t90\r\n1\r\n"},
    {"with J", "ma b N0 J13 v t k\r\nma b v\r\n", "VA 2 t-1 kb\r\n13\r\nVA 2\r\n14\r\n"},
    {"q does not suppress the answer to a number that N creates", "ma c N0 q\r\nma d N0 q v\r\n",
     HD "VA 1\r\n0\r\n"},
    {"J without N creates nothing", "ma nope J5\r\n", NF},
    {"an id does not matter for a missing key", "ma e N0 C99 v\r\n", "VA 1\r\n0\r\n"},
    {"an id of an existing key is compared", "ma e C1 v k O1\r\nma e C1 q\r\nma e C0 v\r\n",
     "EX ke O1\r\n" EX "VA 1\r\n1\r\n"},
    {"no number", MS_K "ma k\r\nma k q N0\r\n", HD NAN NAN},
    {"an empty value is not a number, whatever its id", "ms k 0\r\n\r\nma k C1\r\n", HD NAN},
    {"a bad mode", "ma k MX\r\n", "CLIENT_ERROR invalid mode for ma M token\r\n"},
};

static const struct dialogue binaries[] = {
    {"a key in base64", "ms AAE= 2 b k\r\nhi\r\nmg AAE= b k v\r\n",
     "HD kAAE= b\r\nVA 2 kAAE= b\r\nhi\r\n"},
    {"me prints the key in base64", "me AAE= b\r\n",
     "ME AAE= exp=-1 la=0 cas=1 fetch=yes cls=1 size=48\r\n"},
    {"the decoded key finds the same item", "ms aw== 2 b\r\nhi\r\nget k\r\nmg k k\r\n",
     HD "VALUE k 0 2\r\nhi\r\nEND\r\nHD kaw== b\r\n"},
    {"a new value resets the mark of a base64 key", "ms k 2\r\nhi\r\nmg aw== b k\r\n",
     HD "HD kk\r\n"},
    {"append keeps it", "ms aw== 2 b\r\nhi\r\nms aw== 1 b MA\r\nx\r\nmg k k v\r\n",
     HD HD "VA 3 kaw== b\r\nhix\r\n"},
    {"incr keeps it", "ms aw== 1 b\r\n1\r\nma k k\r\nmg k k v\r\n",
     HD "HD kk\r\nVA 1 kaw== b\r\n2\r\n"},
    {"md, ma and misses repeat the key",
     "md AAE= b k\r\nmd AAE= b k\r\nma AAE= b k\r\nmg AAE= b k\r\n",
     "HD kAAE= b\r\nNF kAAE= b\r\nNF kAAE= b\r\nEN kAAE= b\r\n"},
    {"a repeated base64 key is in canonical form", "mg IB== b k\r\nms ax== 1 b k\r\nx\r\n",
     "EN kIA== b\r\nHD kaw== b\r\n"},
    {"malformed base64 is an error", "mg k b\r\nmd k b\r\nme k b\r\n",
     "CLIENT_ERROR error decoding key\r\nCLIENT_ERROR invalid or duplicate flag\r\n"
     "CLIENT_ERROR bad command line format\r\n"},
};

/* Where 1.6.18 answers otherwise. */
static const struct dialogue ours[] = {
    {"a binary key that N stored is always printed in base64",
     "mg DQo= b N0 k\r\nmg DQo= b k\r\nma DQp4 b N0 k\r\nmg DQp4 b k\r\n",
     "HD kDQo= b W\r\nHD kDQo= b Z\r\nHD kDQp4 b\r\nHD kDQp4 b\r\n"},
    {"E sets the CAS id", "ms k 3 E100 c\r\nabc\r\nmg k c\r\nms k 1 C100 E7 c\r\nx\r\n",
     "HD c100\r\nHD c100\r\nHD c7\r\n"},
    {"md and ma take E as well",
     "md k I E50\r\nmg k c\r\nma n N0 E9 c\r\nma n E8 c\r\nmg v N0 E3 c\r\n",
     "HD\r\nHD c50 X W\r\nHD c9\r\nHD c8\r\nHD c3 W\r\n"},
    {"a too long opaque is an error before anything is changed", "ma n O" O31 "k\r\nmg n v\r\n",
     "CLIENT_ERROR opaque token too long\r\nVA 1\r\n1\r\n"},
};

static void speaks(const struct dialogue *rows, size_t n, size_t step)
{
    struct store_config store;
    struct server server;

    server_defaults(&server, &store);
    server_start(&server, &store);
    server.step = step;
    for (size_t i = 0; i < n; i++) {
        const char *got = ask(&server, rows[i].send);

        if (!ok(strcmp(got, rows[i].answer) == 0, "%s", rows[i].name))
            diag("got: %.300s", got);
    }
    server_stop(&server);
}

#define SPEAKS(rows, step) speaks(rows, COUNT(rows), step)

static void large_values(struct server *server)
{
    enum { SIZE = 2000000, FITS = 900000 };
    static char text[SIZE + 64];
    int n;

    server->step = 65536;
    ask(server, MS_K);
    n = sprintf(text, "ms k %d q MA k O1\r\n", SIZE);
    memset(text + n, 'x', SIZE);
    memcpy(text + n + SIZE, "\r\nmg k\r\n", 9);
    ok(strcmp(server_ask(server, text, (size_t)n + SIZE + 8), LARGE EN) == 0,
       "the body of a too large value is skipped, and the older value removed");
    n = sprintf(text, "ms k %d k O1\r\n", FITS);
    memset(text + n, 'x', FITS);
    memcpy(text + n + FITS, "\r\n", 2);
    ok(strcmp(server_ask(server, text, (size_t)n + FITS + 2), "HD kk O1\r\n") == 0,
       "a large value is stored");
    ask(server, "mg k s v\r\n");
    ok(strncmp(server->out, "VA 900000 s900000\r\nxxx", 22) == 0 &&
           server->nout == strlen("VA 900000 s900000\r\n") + FITS + 2,
       "a large value is returned in one piece");
    ok(strcmp(ask(server, "ma k\r\nmg k u h\r\n"), NAN "HD h1\r\n") == 0,
       "incr of a large value fails");
}

static void time_passes(struct server *server)
{
    ask(server, "ms k 1 T10\r\nx\r\nms j 1\r\nx\r\n");
    server->now += 4;
    ok(strcmp(ask(server, "mg k t l u\r\nme k\r\nmg k t l\r\nmg k t l\r\n"),
              "HD t6 l4\r\nME k exp=-6 la=4 cas=1 fetch=no cls=1 size=46\r\nHD t6 l4\r\n"
              "HD t6 l0\r\n") == 0,
       "t and l return the time left and the time since the last access");
    ok(strcmp(ask(server, "mg k R6\r\nmg k R7\r\n"), HD "HD W\r\n") == 0,
       "R compares the time that is left");
    server->now += 6;
    ok(strcmp(ask(server, "mg k\r\nms k 1 MR\r\nx\r\nmd k\r\nma k\r\nme k\r\n"), EN NS NF NF EN) ==
           0,
       "an expired value is missing for every command");
    ok(strcmp(ask(server, "ms k 1 T-1\r\nx\r\nmg k\r\nmg v N-1\r\nmg v\r\n"),
              HD EN "HD W\r\n" EN) == 0,
       "a time in the past expires the item at once");
    ok(strcmp(ask(server, "md j I T5\r\nmg j t\r\n"), HD "HD t5 X W\r\n") == 0,
       "md I with T sets a new time");
    server->now += 5;
    ok(strcmp(ask(server, "mg j\r\n"), EN) == 0, "the item expires at that time");
}

struct counted {
    const char *send, *stats;
};

/* The increase of each statistic by each command on a new server that has k=10, as 1.6.18 counts.
 */
static const struct counted counted[] = {
    {"mn\r\n", ""},
    {"mg nope\r\n", "cmd_get get_misses"},
    {"mg k\r\n", "cmd_get get_hits"},
    {"mg k v u\r\n", "cmd_get get_hits"},
    {"mg k T30\r\n", "cmd_touch touch_hits"},
    {"mg nope T30\r\n", "cmd_get get_misses"},
    {"mg nope N30\r\n", "cmd_get get_hits total_items"},
    {"mg nope N30 T60\r\n", "cmd_touch touch_hits total_items"},
    {"mg k z\r\n", ""},
    {"me k\r\n", "cmd_meta"},
    {"me nope\r\n", "cmd_meta"},
    {"ms k 1\r\nx\r\n", "cmd_set total_items"},
    {"ms k 1 z\r\nx\r\n", ""},
    {"ms k 1\r\nxyz\r\n", "cmd_set"},
    {"ms nope 1 MR\r\nx\r\n", "cmd_set"},
    {"ms nope 1 C5\r\nx\r\n", "cmd_set cas_misses"},
    {"ms k 1 C5\r\nx\r\n", "cmd_set cas_badval"},
    {"ms k 1 C1\r\nx\r\n", "cmd_set cas_hits total_items"},
    {"ms k 1 MA\r\nx\r\n", "cmd_set total_items"},
    {"md k\r\n", "delete_hits"},
    {"md nope\r\n", "delete_misses"},
    {"md k C5\r\n", "delete_misses"},
    {"md k I\r\n", ""},
    {"md nope I\r\n", "delete_misses"},
    {"ma k\r\n", "incr_hits"},
    {"ma k MD\r\n", "decr_hits"},
    {"ma k C5\r\n", ""},
    {"ma k T30\r\n", "incr_hits"},
    {"ma nope\r\n", "incr_misses"},
    {"ma nope MD\r\n", "decr_misses"},
    {"ma nope N0\r\n", "total_items"},
};

static unsigned long long stat(struct server *server, const char *name)
{
    unsigned long long value = 0;
    char line[64];
    const char *at;

    snprintf(line, sizeof(line), "STAT %s ", name);
    at = strstr(ask(server, "stats\r\n"), line);
    if (!at || sscanf(at + strlen(line), "%llu", &value) != 1)
        ok(false, "stats has %s", name);
    return value;
}

static bool counts_so(const struct counted *row)
{
    static const char *const names[] = {
        "cmd_get",     "cmd_set",       "cmd_touch",  "cmd_meta",    "get_hits",    "get_misses",
        "delete_hits", "delete_misses", "incr_hits",  "incr_misses", "decr_hits",   "decr_misses",
        "cas_hits",    "cas_misses",    "cas_badval", "touch_hits",  "touch_misses"};
    struct store_config store;
    struct server server;
    bool same = true;

    server_defaults(&server, &store);
    server_start(&server, &store);
    ask(&server, "ms k 2\r\n10\r\n");
    ask(&server, row->send);
    for (size_t i = 0; i < COUNT(names); i++) {
        unsigned long long value = stat(&server, names[i]) - (strcmp(names[i], "cmd_set") == 0);

        if (value != (strstr(row->stats, names[i]) != NULL)) {
            diag("%s: %llu", names[i], value);
            same = false;
        }
    }
    same &= stat(&server, "total_items") == 1 + (strstr(row->stats, "total_items") != NULL);
    server_stop(&server);
    return same;
}

int main(void)
{
    SPEAKS(gets, 7);
    SPEAKS(recaches, 7);
    SPEAKS(sets, 1);
    SPEAKS(numbers, 7);
    SPEAKS(binaries, 1);
    SPEAKS(ours, 7);
    with_server(large_values);
    with_server(time_passes);
    for (size_t i = 0; i < COUNT(counted); i++) {
        ok(counts_so(&counted[i]), "%.*s counts '%s'", (int)strcspn(counted[i].send, "\r"),
           counted[i].send, counted[i].stats);
    }
    return done();
}
