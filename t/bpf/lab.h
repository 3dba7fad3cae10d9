/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lab: what the tests of the kernel programs share. A loader with memory in which a test places
 * items by hand, in the format of bpf/shared/layout.h, and frames that it runs through the programs
 * by BPF_PROG_TEST_RUN.
 */
#ifndef T_BPF_LAB_H
#define T_BPF_LAB_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/attach/attach.h"
#include "bpf/shared/chain.h"
#include "bpf/shared/layout.h"
#include "t/bpf/loaded.h"

enum {
    LAB_PORT = 11311,
    LAB_CLIENT_PORT = 40000,
    LAB_FRAME_MAX = 4096,
    LAB_HEADERS = 42, /* Ethernet, IP, UDP */
    LAB_FRAME = LAB_HEADERS + MC_UDP_HEADER,
};
#define LAB_SERVER     0x0a000001u /* host order */
#define LAB_CLIENT     0x0a000002u
#define LAB_VLAN       100u
#define LAB_VLAN_OUTER 200u
#define LAB_MAC        0x010000000002ull /* 02:00:00:00:00:01 */

/* The form in which a program gets a test's frame, which is IPv4 without tags. */
struct shape {
    bool v6;            /* addresses below fd00:: */
    unsigned int ntags; /* LAB_VLAN, and of two an outer one, LAB_VLAN_OUTER, by 802.1ad */
};

struct lab {
    struct loader *loader;
    struct mc_control *control;
    char *heap;
    struct mc_bucket *buckets; /* main */
    struct mc_bucket *overflow;
    uint64_t next_byte; /* of the heap, free */
    uint32_t next_overflow;
    int ifindex;                 /* the interface that frames arrive on, see struct loader_packet */
    enum loader_program program; /* that the functions below run */
    struct shape shape;          /* of lab_answers and lab_passes */
    struct mc_item *item;        /* of lab_only, and its bucket */
    struct mc_bucket *bucket;
    bool sums;     /* items get a checksum (MC_ITEM_SUMMED) */
    bool as_it_is; /* lab_answers and lab_passes keep the checksum of the request */
};

/* The smallest chain with the same programs. */
extern const struct chain_settings lab_chain;

/* Ends the test if the programs cannot be loaded. nbuckets: a power of two. */
void lab_open(struct lab *lab, uint32_t nbuckets);
/* extras: bits as of loader_open_guarded; with LOADER_TCP loader_wait may follow again. */
void lab_open_guarded(struct lab *lab, uint32_t nbuckets, const struct loader_guard *guard,
                      unsigned int extras);
void lab_close(struct lab *lab);
/* Runs this program from now on, whose name begins those of the tests. */
void lab_use(struct lab *lab, enum loader_program program);
/* Sets the local addresses: LAB_SERVER, in each shape. */
void lab_own(struct mc_control *control);

uint64_t lab_hash(const struct lab *lab, const char *key, size_t nkey);
/* The bucket of a key by the number of buckets in use. */
struct mc_bucket *lab_bucket(struct lab *lab, uint64_t hash);
/* Writes an item at a byte of the heap without linking it. */
struct mc_item *lab_lay(struct lab *lab, uint64_t at, const char *key, size_t nkey,
                        const void *value, size_t nvalue);
/* Writes the checksum of an item's wire bytes behind them. */
void lab_sum(struct mc_item *item);
/* Writes an item anywhere and links it, in an overflow bucket if its bucket is full. */
struct mc_item *lab_put(struct lab *lab, const char *key, size_t nkey, const void *value,
                        size_t nvalue);
void lab_link(struct lab *lab, uint64_t hash, uint64_t at);
/* Empties the table and the heap. */
void lab_clear(struct lab *lab);
/* Makes an item the only one: lab->item, in lab->bucket. */
void lab_only(struct lab *lab, const char *key, const char *value);
/* The second of the server's clock. */
uint32_t lab_second(const struct lab *lab);

struct frame {
    uint8_t bytes[LAB_FRAME_MAX];
    size_t n;
    bool shaped; /* by frame_shape: lab->shape does not count */
};

/* A request from LAB_CLIENT: headers, frame header with id 0x1234, text. */
void frame_request(struct frame *frame, const char *text, size_t ntext);
/* Sets lengths and checksums of the headers for n bytes; UDP's checksum if there is one. */
void frame_seal(struct frame *frame);
/* The field of UDP's checksum. */
enum frame_sum {
    FRAME_SUM_WHOLE,
    FRAME_SUM_PARTIAL, /* what a local sender writes there for hardware to complete */
    FRAME_SUM_NONE,
};
/* Sets it, in a frame of any shape. False: it is not UDP, or its length does not fit the frame. */
bool frame_sum(struct frame *frame, enum frame_sum kind);
/* The expected reply to `request`, in any shape, with `text`, byte by byte. */
void frame_answer(struct frame *frame, const struct frame *request, const char *text, size_t ntext);
/* Gives a frame its shape, and a UDP checksum in IPv6. */
void frame_shape(struct frame *frame, const struct shape *shape);
/* Whether `out` is the reply `want` to `request`, except for Ethernet's padding. */
bool frame_answers(const struct frame *out, const struct frame *request, const struct frame *want);
bool frame_equal(const struct frame *a, const struct frame *b);
void frame_dump(const char *what, const struct frame *frame);

/* Runs a program: returns its verdict, and the frame behind it. */
uint32_t lab_run(struct lab *lab, enum loader_program program, const struct frame *in,
                 struct frame *out);
/* Whether a frame is answered, with anything, or left as it is; it keeps its shape and checksum. */
bool lab_is_answered(struct lab *lab, const struct frame *frame);
bool lab_is_left(struct lab *lab, const struct frame *frame);
/* Whether the request is answered with `text`, byte by byte from the Ethernet header on. */
bool lab_answers(struct lab *lab, const struct frame *request, const char *text, size_t ntext);
/* Whether it is taken and has no answer, and is counted as answered once. */
bool lab_takes(struct lab *lab, const struct frame *request);
/* No count, for a packet to another machine. */
#define LAB_UNCOUNTED MC_COUNT_SEEN
/* Whether it is passed unchanged, and counted once, under that reason. */
bool lab_passes(struct lab *lab, const struct frame *request, enum mc_count reason);
struct counted {
    uint64_t seen, answered, keys, hits, misses, class_hits, read, written;
};
/* Whether requests are counted so, when the key "hit" with value "v" is alone in the table. */
bool lab_counts(struct lab *lab, const struct frame *requests, size_t nrequests,
                const struct counted *want);
/* One count. */
uint64_t lab_count(struct lab *lab, enum mc_count which);

/*
 * A case is a row: what it shows; what differs meanwhile in the server's memory; what is sent;
 * which bytes of the frame differ; and what becomes of it. All but the last can be left out:
 *
 *     {"in bypass a hit is passed", STATE(CONTROL(bypass, 1)), SEND("get k\r\n"), PASS(BYPASS)},
 *     {"port 53 is passed", SEND("get k\r\n"), FRAME(AT(34, "\0\65")), PASS(SOURCE)},
 *     {SEND("get none\r\n"), ANSWER("END\r\n")},
 *
 * lab_try sends the request of each row as a frame of its own, in the state that the test has made,
 * and compares the frame that comes out, and all counts. A row without a sentence is called by its
 * request. Behind a row the memory is as before.
 */
struct lab_bytes {
    const char *at;
    size_t n;
};
#define LAB_BYTES(literal)                                                                         \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

/* A member of the control block, of lab->item or lab->bucket: what it is, or by how much MORE than
 * now, or IN how many seconds of the server's clock. */
struct lab_set {
    enum lab_memory { LAB_CONTROL, LAB_ITEM, LAB_BUCKET } where;
    enum lab_how { LAB_IS, LAB_MORE, LAB_IN } how;
    size_t at, n;
    int64_t value;
};
#define LAB_SET(where, how, type, member, value)                                                   \
    {                                                                                              \
        where, how, offsetof(struct type, member), sizeof(((struct type *)0)->member),             \
            (int64_t)(value)                                                                       \
    }
#define STATE(...)                  .state = {__VA_ARGS__}
#define CONTROL(member, value)      LAB_SET(LAB_CONTROL, LAB_IS, mc_control, member, value)
#define CONTROL_MORE(member, value) LAB_SET(LAB_CONTROL, LAB_MORE, mc_control, member, value)
#define CONTROL_IN(member, seconds) LAB_SET(LAB_CONTROL, LAB_IN, mc_control, member, seconds)
#define ITEM(member, value)         LAB_SET(LAB_ITEM, LAB_IS, mc_item, member, value)
#define ITEM_MORE(member, value)    LAB_SET(LAB_ITEM, LAB_MORE, mc_item, member, value)
#define ITEM_IN(member, seconds)    LAB_SET(LAB_ITEM, LAB_IN, mc_item, member, seconds)
#define BUCKET(member, value)       LAB_SET(LAB_BUCKET, LAB_IS, mc_bucket, member, value)
#define BUCKET_MORE(member, value)  LAB_SET(LAB_BUCKET, LAB_MORE, mc_bucket, member, value)

/* Requests of which the same becomes, each by itself. */
#define SEND(text)      .send = {LAB_BYTES(text)}
#define SEND2(one, two) .send = {LAB_BYTES(one), LAB_BYTES(two)}
/*
 * Of a frame of IPv4; V6, or addresses of IPv6, make it one of that, before its bytes are changed.
 */
#define V6            .shape = {.v6 = true}
#define FROM(address) .from = address
#define TO(address)   .to = address
struct lab_edit {
    size_t at;
    struct lab_bytes to;
};
#define FRAME(...) .frame = {__VA_ARGS__}
#define AT(offset, literal)                                                                        \
    {                                                                                              \
        offset, LAB_BYTES(literal)                                                                 \
    }

enum lab_verdict {
    LAB_PASSES,
    LAB_ANSWERS,
};
#define PASS(name)   .verdict = LAB_PASSES, .reason = MC_COUNT_PASS_##name
#define ANSWER(text) .verdict = LAB_ANSWERS, .reply = LAB_BYTES(text)
#define UNCOUNTED    .verdict = LAB_PASSES, .reason = LAB_UNCOUNTED
/* TC does not count what cannot be a request. */
#define PASS_IN_XDP(name) PASS(name), .only_xdp = true

struct lab_case {
    const char *what;
    struct lab_set state[3];
    struct lab_bytes send[2];
    struct shape shape;
    const char *from, *to;
    struct lab_edit frame[3];
    enum lab_verdict verdict;
    enum mc_count reason;
    bool only_xdp;
    struct lab_bytes reply;
};
/* The frame of a row's first request. */
void lab_frame(struct frame *frame, const struct lab_case *row);
void lab_try(struct lab *lab, const struct lab_case *rows, size_t n);
/* Whether a row is right; sentence and tests are the caller's. */
bool lab_right(struct lab *lab, const struct lab_case *row);
#define LAB_TRY(lab, rows) lab_try(lab, rows, COUNT(rows))

/* The same of C strings. */
void frame_text(struct frame *frame, const char *text);
bool lab_replies(struct lab *lab, const char *request, const char *reply);
bool lab_leaves(struct lab *lab, const char *request, enum mc_count reason);

/* A UDP socket on this port of 127.0.0.1, or on any (0), with a timeout of two seconds. */
int lab_socket(uint16_t port);
/* Nanoseconds per run, the best mean of several. */
double lab_time(struct lab *lab, enum loader_program program, const struct frame *in,
                unsigned int runs);

#endif
