/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Headers: which IPv6 and tagged frames are not answered, and to which MAC addresses and VLANs a
 * frame must have been sent. t/bpf/answers tests which are answered in each shape.
 */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <string.h>

#include "iface/local.h"
#include "t/bpf/wire.h"
#include "t/lib/tap.h"

#define GET   "get hit\r\n"
#define REPLY "VALUE hit 0 5\r\nvalue\r\nEND\r\n"
#define HIT   V6, SEND(GET)

static const struct lab_case ip6[] = {
    {"IPv6: another address passes", HIT, FRAME(AT(53, "\t")), UNCOUNTED},
    {"IPv6: another network passes", HIT, FRAME(AT(39, "\t")), UNCOUNTED},
    {"IPv6: address :: passes", HIT, TO("::"), UNCOUNTED},
    {"IPv6: a group passes", HIT, TO("ff02::1"), UNCOUNTED},
    {"IPv6: IPv4's address, mapped, passes", HIT, TO("::ffff:10.0.0.1"), UNCOUNTED},
    {"IPv6: another port passes", HIT, FRAME(AT(57, "\t")), UNCOUNTED},
    {"IPv6: TCP passes", HIT, FRAME(AT(20, "\6")), UNCOUNTED},
    {"IPv6: hop-by-hop options pass", HIT, FRAME(AT(20, "\0")), UNCOUNTED},
    {"IPv6: a fragment passes", HIT, FRAME(AT(20, "\x2c")), UNCOUNTED},
    {"IPv6: ICMP passes", HIT, FRAME(AT(20, "\x3a")), UNCOUNTED},
    {"IPv6: another version passes", HIT, FRAME(AT(14, "\x40")), UNCOUNTED},
    {"IPv6: from :: passes", HIT, FROM("::"), PASS(SOURCE)},
    {"IPv6: from a group passes", HIT, FROM("ff02::1"), PASS(SOURCE)},
    {"IPv6: from IPv4, mapped, passes", HIT, FROM("::ffff:10.0.0.2"), PASS(SOURCE)},
    {"IPv6: from IPv4, compatible, passes", HIT, FROM("::10.0.0.2"), PASS(SOURCE)},
    {"IPv6: from a service passes", HIT, FRAME(AT(54, "\0\x35")), PASS(SOURCE)},
    {"IPv6: from memcached passes", HIT, FRAME(AT(54, "\x2b\xcb")), PASS(SOURCE)},
    {"IPv6: a length of 0 passes", HIT, FRAME(AT(18, "\0\0")), PASS(PACKET)},
    {"IPv6: a length beyond the end passes", HIT, FRAME(AT(18, "\x10\0")), PASS(PACKET)},
    {"IPv6: another length of UDP passes", HIT, FRAME(AT(59, "\x18")), PASS(PACKET)},
    {"IPv6: several datagrams pass", HIT, FRAME(AT(67, "\2")), PASS(FRAME)},
    {"IPv6: no get passes", HIT, FRAME(AT(70, "G")), PASS(COMMAND)},
    {"IPv6: any class and flow label is answered", HIT, FRAME(AT(14, "\x6b\xbc\xbc\xbc")),
     ANSWER(REPLY)},
    {"IPv6: ::1 is answered over loopback", HIT, FROM("::1"), ANSWER(REPLY)},
    {"IPv6: our own address is answered over loopback", HIT, FROM("fd00::a00:1"), ANSWER(REPLY)},
};

static void test_cut_off(struct lab *lab)
{
    struct frame frame;
    bool right = true;

    lab_frame(&frame, &ip6[0]);
    /* A test run accepts no frame for TC that ends in its IP header. */
    for (frame.n = lab->program == LOADER_XDP ? 14 : 54; frame.n < 62; frame.n++)
        right &= lab_passes(lab, &frame, LAB_UNCOUNTED);
    ok(right, "IPv6: a frame cut off in its headers is passed");
}

static void test_tags(struct lab *lab)
{
    static const struct {
        const char *what;
        unsigned int ntags;
        uint8_t tags[8];
        bool answered;
    } rows[] = {
        {"a VLAN that is not local", 1, {0x81, 0, 0, 101}, false},
        {"a local VLAN with an 802.1ad tag", 1, {0x88, 0xa8, 0, 100}, false},
        {"the outer tag alone", 1, {0x88, 0xa8, 0, 200}, false},
        {"a local VLAN within another", 2, {0x88, 0xa8, 0, 201, 0x81, 0, 0, 100}, false},
        {"two tags in the wrong order", 2, {0x81, 0, 0, 100, 0x88, 0xa8, 0, 200}, false},
        {"two tags, the outer one without a VLAN", 2, {0x81, 0, 0, 0, 0x81, 0, 0, 100}, false},
        {"a priority without a VLAN", 1, {0x81, 0, 0xe0, 0}, true},
        {"a tag that no interface removes", 1, {0x81, 0, 0x10, 100}, true},
    };
    struct frame frame;

    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        frame_text(&frame, GET);
        frame_shape(&frame, &(struct shape){.v6 = i % 2, .ntags = rows[i / 2].ntags});
        memcpy(frame.bytes + 12, rows[i / 2].tags, 4 * rows[i / 2].ntags);
        ok(rows[i / 2].answered ? lab_answers(lab, &frame, REPLY, sizeof(REPLY) - 1)
                                : lab_passes(lab, &frame, MC_COUNT_PASS_MAC),
           "tags: %s, IPv%d", rows[i / 2].what, i % 2 ? 6 : 4);
    }
    frame_text(&frame, GET);
    frame_shape(&frame, &(struct shape){.ntags = 2});
    memmove(frame.bytes + 16, frame.bytes + 12, frame.n - 12);
    frame.n += 4;
    ok(lab_passes(lab, &frame, LAB_UNCOUNTED), "tags: a frame with three tags is passed");
}

static void frame_to(struct frame *frame, bool v6, const void *mac)
{
    frame_text(frame, GET);
    frame_shape(frame, &(struct shape){.v6 = v6});
    memcpy(frame->bytes, mac, 6);
}

/* A test run counts as coming from lo. */
static void test_macs(struct lab *lab)
{
    static const uint64_t foreign[] = {LAB_MAC + 1, 0xffffffffffff, 0x0100005e0001, LAB_MAC | 1};
    struct mc_local local = lab->control->local[lab->control->local_in_use];
    struct frame frame;
    size_t i;
    bool right = true;

    local.nmacs = MC_MAX_MACS;
    for (i = 0; i < MC_MAX_MACS; i++)
        local.macs[i] = LAB_MAC + (i << 40);
    local_publish(lab->control, &local);
    for (i = 0; i < MC_MAX_MACS; i++) {
        frame_to(&frame, i % 2, &local.macs[i]);
        right &= lab_answers(lab, &frame, REPLY, sizeof(REPLY) - 1);
    }
    ok(right, "MAC addresses: frames to all local ones are answered");
    for (i = 0, right = true; i < COUNT(foreign); i++) {
        frame_to(&frame, i % 2, &foreign[i]);
        right &= lab_passes(lab, &frame, MC_COUNT_PASS_MAC);
    }
    ok(right, "MAC addresses: frames to others, and to a group, are passed");
    frame_to(&frame, false, &local.macs[0]);
    frame.bytes[6] |= 1;
    ok(lab_passes(lab, &frame, MC_COUNT_PASS_MAC),
       "MAC addresses: a group as the source is passed");
    frame.bytes[6] &= 0xfe;
    local.tags_hidden = 1;
    local_publish(lab->control, &local);
    loader_set_tc(lab->loader, true, false);
    ok(lab_passes(lab, &frame, LAB_UNCOUNTED),
       "MAC addresses: where a tag may be hidden, XDP leaves the packet to TC");
    local.nvlans = 0;
    local_publish(lab->control, &local);
    ok(lab_answers(lab, &frame, REPLY, sizeof(REPLY) - 1),
       "MAC addresses: without VLANs XDP answers");
    loader_set_tc(lab->loader, false, false);
    lab_own(lab->control);
}

/* For one of all ids the complete checksum equals the partial one. */
static void test_ambiguous_checksums(struct lab *lab)
{
    unsigned int id, nambiguous = 0;
    struct frame frame, begun;
    bool right = true;

    for (id = 0; id < 65536; id++) {
        frame_text(&frame, GET);
        put16(frame.bytes + LAB_HEADERS, id);
        frame_shape(&frame, &(struct shape){.v6 = true});
        begun = frame;
        frame_sum(&begun, FRAME_SUM_PARTIAL);
        if (!frame_equal(&frame, &begun))
            continue;
        nambiguous++;
        right &= lab_passes(lab, &frame, MC_COUNT_PASS_PACKET);
        frame.bytes[LAB_HEADERS + 21] ^= 1;
        right &= lab_answers(lab, &frame, REPLY, sizeof(REPLY) - 1);
    }
    ok(nambiguous > 0 && right, "a complete checksum that equals the partial one is passed");
}

/* A frame of several buffers. */
static void test_large(struct lab *lab)
{
    struct frame frame;
    bool right = true;

    for (size_t n = 3500; n <= LAB_FRAME_MAX; n += 149) {
        frame_text(&frame, GET);
        memset(frame.bytes + frame.n, 0xdb, n - frame.n);
        frame.n = n;
        right &= lab_answers(lab, &frame, REPLY, sizeof(REPLY) - 1);
    }
    ok(right, "a request in a frame of several buffers is answered");
}

int main(void)
{
    struct lab lab;

    lab_open(&lab, 256);
    lab_only(&lab, "hit", "value");
    lab_use(&lab, LOADER_XDP);
    LAB_TRY(&lab, ip6);
    test_cut_off(&lab);
    test_tags(&lab);
    test_macs(&lab);
    test_large(&lab);
    lab_use(&lab, LOADER_TC);
    LAB_TRY(&lab, ip6);
    test_cut_off(&lab);
    test_ambiguous_checksums(&lab);
    lab_close(&lab);
    return done();
}
