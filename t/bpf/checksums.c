/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request's UDP checksum: a request is answered if it is valid, partial, or absent in IPv4, if
 * that header's own is right; with a wrong checksum it is passed, and the stack drops it.
 */
#include "t/bpf/lab.h"

#include <stdio.h>
#include <string.h>

#include "t/lib/tap.h"

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
enum { REQUESTS = COUNT(requests) };

static void make(struct lab *lab, struct frame *frame, const char *text, size_t ntext,
                 enum frame_sum sum)
{
    frame_request(frame, text, ntext);
    frame_shape(frame, &lab->shape);
    frame_sum(frame, sum);
}

/* Where the frame header begins, and then the text. */
static size_t payload(struct lab *lab)
{
    return LAB_HEADERS + (lab->shape.v6 ? 20 : 0) + 4 * lab->shape.ntags;
}

/* Each bit of the request id, of the text and of the checksum. */
static bool no_damage_is_answered(struct lab *lab, const char *text, size_t ntext)
{
    struct frame frame;

    make(lab, &frame, text, ntext, FRAME_SUM_WHOLE);
    if (!lab_is_answered(lab, &frame))
        return false;
    for (size_t at = payload(lab) - 2; at < frame.n; at++) {
        for (size_t bit = 0; bit < 8; bit++) {
            frame.bytes[at] ^= (uint8_t)(1u << bit);
            if (!lab_is_left(lab, &frame)) {
                frame_dump("answered", &frame);
                return false;
            }
            frame.bytes[at] ^= (uint8_t)(1u << bit);
        }
    }
    return true;
}

static void test_damage(struct lab *lab)
{
    for (size_t i = 0; i < REQUESTS; i++)
        ok(no_damage_is_answered(lab, requests[i].text, requests[i].ntext),
           "%s, with any bit of it damaged, is not answered", requests[i].name);
}

/* Requests of every length: with one key, and with as many as fit into an Ethernet frame. */
static void test_lengths(struct lab *lab)
{
    size_t n, most = 1500 - 28 - MC_UDP_HEADER - (lab->shape.v6 ? 20 : 0);
    char text[1500] = "get ";
    struct frame frame;
    bool right = true;

    memset(text + 4, 'k', sizeof(text) - 4);
    for (n = 7; n <= most && right; n++) {
        if (n > 256) /* first with one key, now with several */
            for (size_t at = 104; at < n; at += 100)
                text[at] = ' ';
        memcpy(text + n - 2, "\r\n", 2);
        make(lab, &frame, text, n, FRAME_SUM_WHOLE);
        right = lab_is_answered(lab, &frame);
        frame.bytes[payload(lab) + MC_UDP_HEADER + n - 3] ^= 2;
        right &= lab_passes(lab, &frame, MC_COUNT_PASS_PACKET);
        memset(text + n - 2, 'k', 2);
    }
    ok(right, "a request of any length is answered, and with another byte is not");
}

/* Any request id, including those with which the checksum is 0xffff, or the partial one is. */
static void test_values(struct lab *lab)
{
    struct frame frame, begun;
    unsigned int id, doubtful = 0, all_ones = 0;
    bool right = true;

    for (id = 0; id < 0x10000 && right; id++) {
        make(lab, &frame, "get hit\r\n", 9, FRAME_SUM_NONE);
        frame.bytes[payload(lab)] = (uint8_t)(id >> 8);
        frame.bytes[payload(lab) + 1] = (uint8_t)id;
        begun = frame;
        frame_sum(&frame, FRAME_SUM_WHOLE);
        frame_sum(&begun, FRAME_SUM_PARTIAL);
        all_ones += frame.bytes[payload(lab) - 2] == 0xff && frame.bytes[payload(lab) - 1] == 0xff;
        if (frame_equal(&frame, &begun)) {
            doubtful++;
            /* TC has to know which of the two it is; XDP's answer is right for both. */
            right = lab->program == LOADER_XDP ? lab_is_answered(lab, &frame)
                                               : lab_passes(lab, &frame, MC_COUNT_PASS_PACKET);
        } else if (id % 64 == 0 || all_ones == 1) {
            right = lab_is_answered(lab, &frame) && lab_is_answered(lab, &begun);
            all_ones += all_ones == 1;
        }
    }
    ok(right && doubtful && all_ones,
       "a request with any checksum, complete or partial, is answered");
}

static void test_none(struct lab *lab)
{
    struct frame frame;
    bool right = true;

    for (size_t i = 0; i < REQUESTS; i++) {
        make(lab, &frame, requests[i].text, requests[i].ntext, FRAME_SUM_NONE);
        right &= lab->shape.v6 ? lab_passes(lab, &frame, MC_COUNT_PASS_PACKET)
                               : lab_is_answered(lab, &frame);
    }
    ok(right, "without a checksum it is%s answered", lab->shape.v6 ? " not" : "");
}

/* Without one, IPv4's tells whether source and length are as they were sent. */
static void test_header(struct lab *lab)
{
    const size_t ip = 14 + 4 * lab->shape.ntags;
    struct frame frame;
    bool right = true;

    for (size_t i = 0; i < REQUESTS; i++) {
        make(lab, &frame, requests[i].text, requests[i].ntext, FRAME_SUM_NONE);
        for (size_t at = ip; at < ip + 20; at++) {
            for (size_t bit = 0; bit < 8; bit++) {
                frame.bytes[at] ^= (uint8_t)(1u << bit);
                right &= lab_is_left(lab, &frame);
                frame.bytes[at] ^= (uint8_t)(1u << bit);
            }
        }
        right &= lab_is_answered(lab, &frame);
    }
    ok(right, "nor with any bit of the IP header damaged");
}

static void test_shapes(struct lab *lab, enum loader_program program, unsigned int nshapes)
{
    static const struct shape shapes[] = {{false, 0}, {true, 0}, {false, 1}, {true, 2}};

    lab_use(lab, program);
    for (unsigned int i = 0; i < nshapes; i++) {
        lab->shape = shapes[i];
        tap_under("%s, IPv%d, %u tags: ", program == LOADER_XDP ? "XDP" : "TC",
                  lab->shape.v6 ? 6 : 4, lab->shape.ntags);
        test_damage(lab);
        test_lengths(lab);
        test_values(lab);
        test_none(lab);
        if (!lab->shape.v6)
            test_header(lab);
    }
}

int main(void)
{
    struct lab lab;

    lab_open(&lab, 256);
    lab.as_it_is = true;
    lab_only(&lab, "hit", "value");
    test_shapes(&lab, LOADER_XDP, 4);
    test_shapes(&lab, LOADER_TC, 2);
    lab_close(&lab);
    return done();
}
