/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Headers: which IPv6 and tagged frames are not answered, and to which MAC addresses and VLANs a
 * frame must have been sent. t/bpf/answers tests which are answered in each shape.
 */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <string.h>

#include "iface/local.h"
#include "t/lib/tap.h"

static const char *const names[] = {"XDP", "TC"};
static const char text[] = "get hit\r\n", reply[] = "VALUE hit 0 5\r\nvalue\r\nEND\r\n";

static void request(struct frame *frame, bool v6, unsigned int ntags)
{
    frame_request(frame, text, sizeof(text) - 1);
    frame_shape(frame, &(struct shape){.v6 = v6, .ntags = ntags});
}

/* Whether a frame is answered at all, with the right checksum. */
static bool is_answered(struct lab *lab, enum loader_program program, const struct frame *frame)
{
    static struct frame in, out;

    in = *frame;
    frame_sum(&in, FRAME_SUM_WHOLE);
    return lab_run(lab, program, &in, &out) == (program == LOADER_XDP ? 3u : 7u);
}

/* Bytes of a frame of IPv6 that are changed, and the reason to pass it then. */
struct change {
    const char *what;
    unsigned int at, n;
    uint8_t bytes[16];
    enum mc_count reason;
};

static void test_ip6(struct lab *lab, enum loader_program program)
{
    static const struct change rows[] = {
        {"another address", 53, 1, {9}, LAB_UNCOUNTED},
        {"another network", 39, 1, {9}, LAB_UNCOUNTED},
        {"address ::", 38, 16, {0}, LAB_UNCOUNTED},
        {"a group", 38, 16, {0xff, 2, [15] = 1}, LAB_UNCOUNTED},
        {"IPv4's address, mapped", 38, 16, {[10] = 0xff, 0xff, 10, 0, 0, 1}, LAB_UNCOUNTED},
        {"another port", 57, 1, {9}, LAB_UNCOUNTED},
        {"TCP", 20, 1, {6}, LAB_UNCOUNTED},
        {"hop-by-hop options", 20, 1, {0}, LAB_UNCOUNTED},
        {"a fragment", 20, 1, {44}, LAB_UNCOUNTED},
        {"ICMP", 20, 1, {58}, LAB_UNCOUNTED},
        {"another version", 14, 1, {0x40}, LAB_UNCOUNTED},
        {"from ::", 22, 16, {0}, MC_COUNT_PASS_SOURCE},
        {"from a group", 22, 16, {0xff, 2, [15] = 1}, MC_COUNT_PASS_SOURCE},
        {"from IPv4, mapped", 22, 16, {[10] = 0xff, 0xff, 10, 0, 0, 2}, MC_COUNT_PASS_SOURCE},
        {"from IPv4, compatible", 22, 16, {[12] = 10, 0, 0, 2}, MC_COUNT_PASS_SOURCE},
        {"from a service", 54, 2, {0, 53}, MC_COUNT_PASS_SOURCE},
        {"from memcached", 54, 2, {0x2b, 0xcb}, MC_COUNT_PASS_SOURCE},
        {"a length of 0", 18, 2, {0, 0}, MC_COUNT_PASS_PACKET},
        {"a length beyond the end", 18, 2, {0x10, 0}, MC_COUNT_PASS_PACKET},
        {"another length of UDP", 59, 1, {24}, MC_COUNT_PASS_PACKET},
        {"several datagrams", 67, 1, {2}, MC_COUNT_PASS_FRAME},
        {"no get", 70, 1, {'G'}, MC_COUNT_PASS_COMMAND},
    };
    struct frame frame;
    size_t i, n;
    bool right = true;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        request(&frame, true, 0);
        memcpy(frame.bytes + rows[i].at, rows[i].bytes, rows[i].n);
        ok(lab_passes(lab, program, &frame, rows[i].reason), "%s: IPv6: %s passes", names[program],
           rows[i].what);
    }
    /* A test run accepts no frame for TC that ends in its IP header. */
    for (n = program == LOADER_XDP ? 14 : 54; n < 62; n++) {
        request(&frame, true, 0);
        frame.n = n;
        right &= lab_passes(lab, program, &frame, LAB_UNCOUNTED);
    }
    ok(right, "%s: IPv6: a frame cut off in its headers is passed", names[program]);
    request(&frame, true, 0);
    frame.bytes[14] = 0x6b;
    memset(frame.bytes + 15, 0xbc, 3);
    ok(is_answered(lab, program, &frame), "%s: IPv6: any class and flow label is answered",
       names[program]);
    request(&frame, true, 0);
    memset(frame.bytes + 22, 0, 15);
    frame.bytes[37] = 1;
    ok(is_answered(lab, program, &frame), "%s: IPv6: ::1 is answered over loopback",
       names[program]);
    request(&frame, true, 0);
    memcpy(frame.bytes + 22, frame.bytes + 38, 16);
    ok(is_answered(lab, program, &frame), "%s: IPv6: our own address is answered over loopback",
       names[program]);
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
    size_t i;

    for (i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        request(&frame, i % 2, rows[i / 2].ntags);
        memcpy(frame.bytes + 12, rows[i / 2].tags, 4 * rows[i / 2].ntags);
        ok(rows[i / 2].answered ? is_answered(lab, LOADER_XDP, &frame)
                                : lab_passes(lab, LOADER_XDP, &frame, MC_COUNT_PASS_MAC),
           "tags: %s, IPv%d", rows[i / 2].what, i % 2 ? 6 : 4);
    }
    request(&frame, false, 2);
    memmove(frame.bytes + 16, frame.bytes + 12, frame.n - 12);
    frame.n += 4;
    ok(lab_passes(lab, LOADER_XDP, &frame, LAB_UNCOUNTED),
       "tags: a frame with three tags is passed");
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
        request(&frame, i % 2, 0);
        memcpy(frame.bytes, &local.macs[i], 6);
        right &= is_answered(lab, LOADER_XDP, &frame);
    }
    ok(right, "MAC addresses: frames to all local ones are answered");
    for (i = 0, right = true; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        request(&frame, i % 2, 0);
        memcpy(frame.bytes, &foreign[i], 6);
        right &= lab_passes(lab, LOADER_XDP, &frame, MC_COUNT_PASS_MAC);
    }
    ok(right, "MAC addresses: frames to others, and to a group, are passed");
    request(&frame, false, 0);
    memcpy(frame.bytes, &local.macs[0], 6);
    frame.bytes[6] |= 1;
    ok(lab_passes(lab, LOADER_XDP, &frame, MC_COUNT_PASS_MAC),
       "MAC addresses: a group as the source is passed");
    frame.bytes[6] &= 0xfe;
    local.tags_hidden = 1;
    local_publish(lab->control, &local);
    loader_set_tc(lab->loader, true, false);
    ok(lab_passes(lab, LOADER_XDP, &frame, LAB_UNCOUNTED),
       "MAC addresses: where a tag may be hidden, XDP leaves the packet to TC");
    local.nvlans = 0;
    local_publish(lab->control, &local);
    ok(is_answered(lab, LOADER_XDP, &frame), "MAC addresses: without VLANs XDP answers");
    loader_set_tc(lab->loader, false, false);
    lab_own(lab->control);
}

/* The partial checksum of a sender that leaves UDP's checksum to hardware. */
static unsigned int begun6(const uint8_t *ip)
{
    uint32_t sum = 17 + ((uint32_t)ip[4] << 8 | ip[5]);

    for (size_t i = 8; i < 40; i++)
        sum += i % 2 ? ip[i] : (uint32_t)ip[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* For one of all ids the complete checksum equals the partial one. */
static void test_ambiguous_checksums(struct lab *lab)
{
    unsigned int id, nambiguous = 0;
    struct frame frame;
    bool right = true;

    for (id = 0; id < 65536; id++) {
        frame_request(&frame, text, sizeof(text) - 1);
        frame.bytes[LAB_HEADERS] = (uint8_t)(id >> 8);
        frame.bytes[LAB_HEADERS + 1] = (uint8_t)id;
        frame_shape(&frame, &(struct shape){.v6 = true});
        if (((unsigned int)frame.bytes[60] << 8 | frame.bytes[61]) == begun6(frame.bytes + 14)) {
            nambiguous++;
            right &= lab_passes(lab, LOADER_TC, &frame, MC_COUNT_PASS_PACKET);
            frame.bytes[LAB_HEADERS + 21] ^= 1;
            right &= is_answered(lab, LOADER_TC, &frame);
        }
    }
    ok(nambiguous > 0 && right, "TC: a complete checksum that equals the partial one is passed");
}

/* A frame of several buffers. */
static void test_large(struct lab *lab)
{
    struct frame frame;
    size_t n;
    bool right = true;

    for (n = 3500; n <= LAB_FRAME_MAX; n += 149) {
        frame_request(&frame, text, sizeof(text) - 1);
        memset(frame.bytes + frame.n, 0xdb, n - frame.n);
        frame.n = n;
        right &= lab_answers(lab, LOADER_XDP, &frame, reply, sizeof(reply) - 1);
    }
    ok(right, "a request in a frame of several buffers is passed");
}

int main(void)
{
    struct lab lab;

    lab_open(&lab, 256);
    lab_put(&lab, "hit", 3, "value", 5);
    test_ip6(&lab, LOADER_XDP);
    test_tags(&lab);
    test_macs(&lab);
    test_large(&lab);
    loader_set_tc(lab.loader, true, true);
    test_ip6(&lab, LOADER_TC);
    test_ambiguous_checksums(&lab);
    lab_close(&lab);
    return done();
}
