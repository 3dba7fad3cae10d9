/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request's UDP checksum: a request is answered if it is right, or left to hardware, or absent in
 * IPv4, if that header's own is right; with a wrong checksum it is passed, and the stack drops it.
 */
#include "t/bpf/lab.h"

#include <stdio.h>
#include <string.h>

#include "t/lib/tap.h"

static const char *const names[] = {"XDP", "TC"};

static const struct {
    const char *name, *text;
    size_t ntext;
} requests[] = {
    {"a get", "get hit\r\n", 9},
    {"a get of an even key", "get even\r\n", 10},
    {"a get of a long key", "get a-key-of-more-than-one-word\r\n", 33},
    {"a get of two keys", "get hit none\r\n", 14},
    {"a get with a bare newline", "get hit\n", 8},
    {"gets", "gets hit\r\n", 10},
    {"mg", "mg hit v\r\n", 10},
    {"a binary Get", "\x80\0\0\x03\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0hit", 27},
};
enum { REQUESTS = sizeof(requests) / sizeof(requests[0]) };

/* One program, and the kind of frames that it gets. */
struct run {
    struct lab *lab;
    enum loader_program program;
    struct shape shape;
    char name[32];
};

static bool is_answered(const struct run *run, const struct frame *frame)
{
    static struct frame out;

    return lab_run(run->lab, run->program, frame, &out) == (run->program == LOADER_XDP ? 3u : 7u);
}

static bool is_untouched(const struct run *run, const struct frame *frame)
{
    static struct frame out;

    return lab_run(run->lab, run->program, frame, &out) ==
               (run->program == LOADER_XDP ? 2u : UINT32_MAX) &&
           frame_equal(&out, frame);
}

static void make(const struct run *run, struct frame *frame, const char *text, size_t ntext,
                 enum frame_sum sum)
{
    frame_request(frame, text, ntext);
    frame_shape(frame, &run->shape);
    frame_sum(frame, sum);
}

/* Where the frame header begins, and then the text. */
static size_t payload(const struct run *run)
{
    return LAB_HEADERS + (run->shape.v6 ? 20 : 0) + 4 * run->shape.ntags;
}

/* Each bit of the request id, of the text and of the checksum. */
static bool no_damage_is_answered(const struct run *run, const char *text, size_t ntext)
{
    struct frame frame;
    size_t at, bit;

    make(run, &frame, text, ntext, FRAME_SUM_WHOLE);
    if (!is_answered(run, &frame))
        return false;
    for (at = payload(run) - 2; at < frame.n; at++) {
        for (bit = 0; bit < 8; bit++) {
            frame.bytes[at] ^= (uint8_t)(1u << bit);
            if (!is_untouched(run, &frame)) {
                frame_dump("answered", &frame);
                return false;
            }
            frame.bytes[at] ^= (uint8_t)(1u << bit);
        }
    }
    return true;
}

static void test_damage(const struct run *run)
{
    size_t i;

    for (i = 0; i < REQUESTS; i++)
        ok(no_damage_is_answered(run, requests[i].text, requests[i].ntext),
           "%s, %s: %s, with any bit of it damaged, is not answered", names[run->program],
           run->name, requests[i].name);
}

/* Requests of every length: with one key, and with as many as fit into an Ethernet frame. */
static void test_lengths(const struct run *run)
{
    size_t n, most = 1500 - 28 - MC_UDP_HEADER - (run->shape.v6 ? 20 : 0);
    char text[1500] = "get ";
    struct frame frame;
    bool right = true;

    memset(text + 4, 'k', sizeof(text) - 4);
    for (n = 7; n <= most && right; n++) {
        if (n > 256) /* first with one key, now with several */
            for (size_t at = 104; at < n; at += 100)
                text[at] = ' ';
        memcpy(text + n - 2, "\r\n", 2);
        make(run, &frame, text, n, FRAME_SUM_WHOLE);
        right = is_answered(run, &frame);
        frame.bytes[payload(run) + MC_UDP_HEADER + n - 3] ^= 2;
        right &= lab_passes(run->lab, run->program, &frame, MC_COUNT_PASS_PACKET);
        memset(text + n - 2, 'k', 2);
    }
    ok(right, "%s, %s: a request of any length is answered, and with another byte is not",
       names[run->program], run->name);
}

/* Any request id, including those with which the checksum is 0xffff, or the partial one is. */
static void test_values(const struct run *run)
{
    struct frame frame, begun;
    unsigned int id, doubtful = 0, all_ones = 0;
    bool right = true;

    for (id = 0; id < 0x10000 && right; id++) {
        make(run, &frame, "get hit\r\n", 9, FRAME_SUM_NONE);
        frame.bytes[payload(run)] = (uint8_t)(id >> 8);
        frame.bytes[payload(run) + 1] = (uint8_t)id;
        begun = frame;
        frame_sum(&frame, FRAME_SUM_WHOLE);
        frame_sum(&begun, FRAME_SUM_BEGUN);
        all_ones += frame.bytes[payload(run) - 2] == 0xff && frame.bytes[payload(run) - 1] == 0xff;
        if (frame_equal(&frame, &begun)) {
            doubtful++;
            /* TC has to know which of the two it is; XDP's answer is right for both. */
            right = run->program == LOADER_XDP
                        ? is_answered(run, &frame)
                        : lab_passes(run->lab, run->program, &frame, MC_COUNT_PASS_PACKET);
        } else if (id % 64 == 0 || all_ones == 1) {
            right = is_answered(run, &frame) && is_answered(run, &begun);
            all_ones += all_ones == 1;
        }
    }
    ok(right && doubtful && all_ones,
       "%s, %s: a request with any checksum, complete or partial, is answered", names[run->program],
       run->name);
}

static void test_none(const struct run *run)
{
    struct frame frame;
    size_t i;
    bool right = true;

    for (i = 0; i < REQUESTS; i++) {
        make(run, &frame, requests[i].text, requests[i].ntext, FRAME_SUM_NONE);
        right &= run->shape.v6 ? lab_passes(run->lab, run->program, &frame, MC_COUNT_PASS_PACKET)
                               : is_answered(run, &frame);
    }
    ok(right, "%s, %s: without a checksum it is%s answered", names[run->program], run->name,
       run->shape.v6 ? " not" : "");
}

/* Without one, IPv4's tells whether source and length are as they were sent. */
static void test_header(const struct run *run)
{
    const size_t ip = 14 + 4 * run->shape.ntags;
    struct frame frame;
    size_t i, at, bit;
    bool right = true;

    for (i = 0; i < REQUESTS; i++) {
        make(run, &frame, requests[i].text, requests[i].ntext, FRAME_SUM_NONE);
        for (at = ip; at < ip + 20; at++) {
            for (bit = 0; bit < 8; bit++) {
                frame.bytes[at] ^= (uint8_t)(1u << bit);
                right &= is_untouched(run, &frame);
                frame.bytes[at] ^= (uint8_t)(1u << bit);
            }
        }
        right &= is_answered(run, &frame);
    }
    ok(right, "%s, %s: nor with any bit of the IP header damaged", names[run->program], run->name);
}

static void test_shape(struct lab *lab, enum loader_program program, const struct shape *shape)
{
    struct run run = {.lab = lab, .program = program, .shape = *shape};

    snprintf(run.name, sizeof(run.name), "%s, %u tags", shape->v6 ? "IPv6" : "IPv4", shape->ntags);
    test_damage(&run);
    test_lengths(&run);
    test_values(&run);
    test_none(&run);
    if (!shape->v6)
        test_header(&run);
}

int main(void)
{
    static const struct shape shapes[] = {{false, 0}, {true, 0}, {false, 1}, {true, 2}};
    struct lab lab;
    size_t i;

    lab_open(&lab, 256);
    lab.as_it_is = true;
    lab_put(&lab, "hit", 3, "value", 5);
    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        test_shape(&lab, LOADER_XDP, &shapes[i]);
    loader_set_tc(lab.loader, true, true);
    for (i = 0; i < 2; i++)
        test_shape(&lab, LOADER_TC, &shapes[i]);
    lab_close(&lab);
    return done();
}
