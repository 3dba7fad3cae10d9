/* SPDX-License-Identifier: BSD-3-Clause */
/* Which packets the kernel programs pass to the server: unchanged, and counted once. */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <string.h>

#include "iface/local.h"
#include "t/bpf/wire.h"
#include "t/lib/tap.h"

/* The key is long enough to be answered in place. Alone, and by the path of several keys: */
#define GET_HIT "get a-hit\r\n"
#define HIT     SEND(GET_HIT)
#define HITS    SEND2(GET_HIT, "get nil a-hit\r\n")
#define REPLY   "VALUE a-hit 0 5\r\nvalue\r\nEND\r\n"
#define SERVED  ANSWER(REPLY)

static const struct lab_case texts[] = {
    {SEND("GET hit\r\n"), PASS(COMMAND)},
    {SEND("get\thit\r\n"), PASS(COMMAND)},
    {SEND(" get a-hit\r\n"), PASS(COMMAND)},
    {SEND("gat 0 hit\r\n"), PASS(COMMAND)},
    {SEND("delete hit\r\n"), PASS(COMMAND)},
    {SEND("set hit 0 0 2\r\nxx\r\n"), PASS(COMMAND)},
    {SEND("get a-hit\r\nget hit\r\n"), PASS(COMMAND)},
    {SEND("get a-hit\nx"), PASS(REQUEST)},
    {SEND("get a-hit\r\n\r\n"), PASS(COMMAND)},
    {SEND("get a-hit"), PASS(REQUEST)},
    {SEND("get a-hit "), PASS(REQUEST)},
    {SEND("get a-hit\r"), PASS(REQUEST)},
    {SEND("get a-hit\rx\r\n"), PASS(REQUEST)},
    {SEND("get \r\n"), PASS(REQUEST)},
    {SEND("get           \r\n"), PASS(REQUEST)},
    {SEND("get h\tit\r\n"), PASS(REQUEST)},
    {SEND("get h\x01it\r\n"), PASS(REQUEST)},
    {SEND("get a-hit h\x1fit\r\n"), PASS(REQUEST)},
    {SEND("get a-hit \x0b\r\n"), PASS(REQUEST)},
    {SEND("get h\0t\r\n"), PASS(REQUEST)},
};

/* Every byte that may not be in a key, at every place of keys of several lengths. */
static void test_key_bytes(struct lab *lab)
{
    char text[128] = "get ";
    struct frame frame;
    bool right = true;

    for (size_t nkey = 1; nkey <= 34 && right; nkey += nkey < 20 ? 1 : 7) {
        memcpy(text + 4 + nkey, "\r\n", 2);
        for (size_t at = 0; at < nkey && right; at++) {
            memset(text + 4, '!', nkey);
            for (int byte = 0; byte < 0x20 && right; byte++) {
                text[4 + at] = (char)byte;
                frame_request(&frame, text, nkey + 6);
                right =
                    byte == '\n' || byte == '\r' || lab_passes(lab, &frame, MC_COUNT_PASS_REQUEST);
            }
        }
    }
    ok(right, "a control byte in a key is passed");
    for (int byte = 0x21; byte < 0x100; byte++) {
        memset(text + 4, byte, 11);
        memcpy(text + 4 + 11, "\r\n", 2);
        frame_request(&frame, text, 17);
        right &= lab_answers(lab, &frame, "END\r\n", 5);
    }
    ok(right, "every other byte is accepted in a key");
}

static void test_long_keys(struct lab *lab)
{
    char text[1500] = "get ";
    struct frame frame;
    bool right = true;

    for (size_t nkey = 251; nkey <= 1400 && right; nkey += nkey < 300 ? 1 : 97) {
        memset(text + 4, 'k', nkey);
        memcpy(text + 4 + nkey, "\r\n", 2);
        frame_request(&frame, text, nkey + 6);
        right = lab_passes(lab, &frame, MC_COUNT_PASS_REQUEST);
        memcpy(text + 4, "hit ", 4);
        frame_request(&frame, text, nkey + 6);
        right &= nkey - 4 <= MC_KEY_MAX || lab_passes(lab, &frame, MC_COUNT_PASS_REQUEST);
    }
    ok(right, "keys of more than 250 bytes are passed");
}

static const struct lab_case frame_headers[] = {
    {"a request of 0 datagrams is passed", HIT, FRAME(AT(46, "\0\0")), PASS(FRAME)},
    {"a request of 2 datagrams is passed", HIT, FRAME(AT(46, "\0\2")), PASS(FRAME)},
    {"a request of 7 datagrams is passed", HIT, FRAME(AT(46, "\0\7")), PASS(FRAME)},
    {"a request of 256 datagrams is passed", HIT, FRAME(AT(46, "\1\0")), PASS(FRAME)},
    {"a request of 257 datagrams is passed", HIT, FRAME(AT(46, "\1\1")), PASS(FRAME)},
    {"a request of 65535 datagrams is passed", HIT, FRAME(AT(46, "\xff\xff")), PASS(FRAME)},
};

/* A datagram of the first n bytes of a request, in a frame that ends with it and in a padded one.
 */
static bool short_passes(struct lab *lab, size_t n, enum mc_count reason)
{
    struct frame frame;
    bool right;

    frame_text(&frame, GET_HIT);
    frame.n = LAB_HEADERS + n;
    frame_seal(&frame);
    right = lab_passes(lab, &frame, lab->program == LOADER_XDP ? reason : LAB_UNCOUNTED);
    memset(frame.bytes + frame.n, 0, 30);
    frame.n += 30;
    return right && lab_passes(lab, &frame, reason);
}

static void test_lengths(struct lab *lab)
{
    struct frame whole, frame;
    unsigned int n;
    bool right = true;

    for (n = 0; n <= 8; n++)
        right &= short_passes(lab, n, MC_COUNT_PASS_FRAME);
    ok(right, "a datagram with no more than a frame header is passed, padded or not");
    for (n = 9, right = true; n <= 13; n++)
        right &= short_passes(lab, n, MC_COUNT_PASS_COMMAND);
    ok(right, "a datagram too short for any get is passed");
    frame_text(&whole, GET_HIT);
    for (n = 0, right = true; n < 80; n++) {
        frame = whole;
        put16(frame.bytes + 38, n);
        right &= n == frame.n - 34 || lab_passes(lab, &frame, MC_COUNT_PASS_PACKET);
    }
    ok(right, "a UDP length other than the IP length's is passed");
    for (n = 1, right = true; n < 2000; n += n < 64 ? 1 : 61) {
        frame = whole;
        put16(frame.bytes + 16, (unsigned int)frame.n - 14 + n);
        put16(frame.bytes + 38, (unsigned int)frame.n - 34 + n);
        right &= lab_passes(lab, &frame, MC_COUNT_PASS_PACKET);
    }
    ok(right, "a length beyond the frame's end is passed");
    for (frame = whole, frame.n = 56, right = true; frame.n < 59; frame.n++)
        right &= lab_passes(lab, &frame, MC_COUNT_PASS_PACKET);
    ok(right, "a truncated frame is passed");
    /* A test run accepts no frame for TC that ends in its IP header. */
    for (frame.n = lab->program == LOADER_XDP ? 14 : 34, right = true; frame.n < 42; frame.n++)
        right &= lab_passes(lab, &frame, LAB_UNCOUNTED);
    ok(right, "a frame cut off in its headers is passed");
}

static void test_ip_options(struct lab *lab)
{
    struct frame frame;
    bool right = true;

    for (unsigned int words = 6; words <= 15; words++) {
        frame_text(&frame, GET_HIT);
        memmove(frame.bytes + 14 + words * 4, frame.bytes + 34, frame.n - 34);
        memset(frame.bytes + 34, 1, words * 4 - 20);
        frame.n += words * 4 - 20;
        frame.bytes[14] = (uint8_t)(0x40 | words);
        put16(frame.bytes + 16, (unsigned int)frame.n - 14);
        right &= lab_passes(lab, &frame,
                            lab->program == LOADER_XDP ? MC_COUNT_PASS_PACKET : LAB_UNCOUNTED);
    }
    ok(right, "IP options are passed");
}

static const struct lab_case packets[] = {
    {"the first fragment of a datagram is passed", HIT, FRAME(AT(20, "\x20")), PASS_IN_XDP(PACKET)},
    {"a later fragment is passed", HIT, FRAME(AT(20, "\x20\x10")), UNCOUNTED},
    {"the last fragment is passed", HIT, FRAME(AT(20, "\0\x10")), UNCOUNTED},
    {"an unfragmented packet that may be fragmented is answered", HIT, FRAME(AT(20, "\0\0")),
     SERVED},
    {"another port is not the server's", HIT, FRAME(AT(36, "\x2b\xcb")), UNCOUNTED},
    {"port 0 is not the server's", HIT, FRAME(AT(36, "\0\0")), UNCOUNTED},
    {"another address is not the server's", HIT, TO("10.0.0.3"), UNCOUNTED},
    {"address 0 is not the server's", HIT, TO("0.0.0.0"), UNCOUNTED},
    {"broadcast is not the server's", HIT, TO("255.255.255.255"), UNCOUNTED},
    {"the network's broadcast is not the server's", HIT, TO("10.0.0.255"), UNCOUNTED},
    {"multicast is not the server's", HIT, TO("224.0.0.1"), UNCOUNTED},
    {"TCP is not the server's", HIT, FRAME(AT(23, "\6")), UNCOUNTED},
    {"IPv6's type before IPv4 is not the server's", HIT, FRAME(AT(12, "\x86\xdd")), UNCOUNTED},
    {"ARP is not the server's", HIT, FRAME(AT(12, "\x08\x06")), UNCOUNTED},
    {"a VLAN tag's type before IPv4 is not the server's", HIT, FRAME(AT(12, "\x81\0")), UNCOUNTED},
    /* the shortest ones, without padding */
    {"a TCP segment of IPv4 without data is not counted", SEND("ack."), FRAME(AT(23, "\6")),
     UNCOUNTED},
    {"a TCP segment of IPv6 without data is not counted", V6, SEND("ack."), FRAME(AT(20, "\6")),
     UNCOUNTED},
    {"without a port no packet is counted", STATE(CONTROL(port, 0)), HIT, UNCOUNTED},
    {"nor is one to port 0 answered", STATE(CONTROL(port, 0)), HIT, FRAME(AT(36, "\0\0")),
     PASS(SOURCE)},
    {"requests from memcached's port are passed", HIT, FRAME(AT(34, "\x2b\xcb")), PASS(SOURCE)},
    {"requests from the server's own port are passed", HIT, FRAME(AT(34, "\x2c\x2f")),
     PASS(SOURCE)},
    {"requests from address 0 are passed", HIT, FROM("0.0.0.0"), PASS(SOURCE)},
    {"requests from network 0 are passed", HIT, FROM("0.1.2.3"), PASS(SOURCE)},
    {"requests from a group are passed", HIT, FROM("224.0.0.1"), PASS(SOURCE)},
    {"requests from the last groups are passed", HIT, FROM("239.255.0.1"), PASS(SOURCE)},
    {"requests from reserved addresses are passed", HIT, FROM("240.0.0.1"), PASS(SOURCE)},
    {"requests from broadcast are passed", HIT, FROM("255.255.255.255"), PASS(SOURCE)},
    /* TC knows from the stack that such a frame was sent to a group. */
    {"a frame sent to a group address is passed", HIT, FRAME(AT(0, "\xff\xff\xff\xff\xff\xff")),
     PASS_IN_XDP(MAC)},
    {"a frame from a group address is passed", HIT, FRAME(AT(6, "\3")), PASS(MAC)},
    /* A test run counts as coming from lo. */
    {"over loopback requests from the server's own address are answered", HIT, FROM("10.0.0.1"),
     SERVED},
};

static void test_ports(struct lab *lab)
{
    struct frame frame;
    unsigned int port;
    bool right = true;

    frame_text(&frame, GET_HIT);
    for (port = 0; port < 1024; port++) {
        put16(frame.bytes + 34, port);
        right &= lab_passes(lab, &frame, MC_COUNT_PASS_SOURCE);
    }
    ok(right, "requests from ports below 1024 are passed");
    for (right = true; port < 65536; port += 251) {
        put16(frame.bytes + 34, port);
        right &= lab_answers(lab, &frame, REPLY, sizeof(REPLY) - 1);
    }
    ok(right, "requests from other ports are answered");
    local_publish(lab->control, &(struct mc_local){0});
    ok(lab_leaves(lab, GET_HIT, LAB_UNCOUNTED), "without an address no packet is counted");
    lab_own(lab->control);
}

#define LEASE_PAST (1ll << 32) /* since the first moment of the clock */
enum { EPOCH = 7 };            /* of lab_open */

/* What of the item and the server decides whether a hit is answered. */
static const struct lab_case states[] = {
    {"an item is answered", HITS, SERVED},
    {"an item of an older epoch is passed", STATE(ITEM_MORE(epoch, 1)), HITS, PASS(EXPIRED)},
    {"an item of the last epoch that a byte can hold is answered",
     STATE(CONTROL_MORE(epoch, MC_EPOCHS - 1), ITEM(epoch, EPOCH + MC_EPOCHS - 1)), HITS, SERVED},
    {"an item of an older epoch with an equal byte is passed",
     STATE(CONTROL_MORE(epoch, MC_EPOCHS)), HITS, PASS(EXPIRED)},
    {"an item that expires in this second is passed", STATE(ITEM_IN(exptime, 0)), HITS,
     PASS(EXPIRED)},
    {"an item that expired long ago is passed", STATE(ITEM(exptime, 1)), HITS, PASS(EXPIRED)},
    {"an item that expires later is answered", STATE(ITEM_IN(exptime, 1000)), HITS, SERVED},
    {"and is passed when it has",
     STATE(ITEM_IN(exptime, 1000), CONTROL_MORE(base_ns, -1001 * 1000000000ll)), HITS,
     PASS(EXPIRED)},
    {"an item that expires in 136 years is answered", STATE(ITEM(exptime, UINT32_MAX)), HITS,
     SERVED},
    {"before a delayed flush an item is answered", STATE(CONTROL_IN(flush_at, 1000)), HITS, SERVED},
    {"at the time of a delayed flush an item is passed", STATE(CONTROL_IN(flush_at, 0)), HITS,
     PASS(EXPIRED)},
    {"in bypass every request is passed", STATE(CONTROL(bypass, 1)), HITS, PASS(BYPASS)},
    {"after the server's lease has run out every request is passed",
     STATE(CONTROL(lease, LEASE_PAST)), HITS, PASS(STOPPED)},
    {"after the server has ended every request is passed, the next one, too",
     STATE(CONTROL(lease, MC_LEASE_EVER | MC_LEASE_DEAD)), HITS, PASS(STOPPED)},
    {"while the server lives requests are answered", STATE(CONTROL(lease, MC_LEASE_EVER | 1)), HITS,
     SERVED},
    {"an item of a megabyte is passed", STATE(ITEM(nbytes, 1 << 20)), HITS, PASS(SIZE)},
    {"a malformed item is passed", STATE(ITEM(nbytes, 0)), HITS, PASS(BUSY)},
};

static void test_flags(struct lab *lab)
{
    static const struct lab_case served = {HITS, SERVED}, passed = {HITS, PASS(ITEM)};
    bool right = true;

    lab_sum(lab->item);
    for (unsigned int flag = 1; flag < 1 << 16; flag <<= 1) {
        lab->item->flags = (uint16_t)(MC_ITEM_LINKED | flag);
        right &= lab_right(lab, flag & MC_ITEM_PASS ? &passed : &served);
    }
    ok(right, "items with a flag in MC_ITEM_PASS are passed");
    lab->item->flags = MC_ITEM_LINKED;
}

static void test_program(struct lab *lab, enum loader_program program)
{
    lab_use(lab, program);
    lab_only(lab, "a-hit", "value");
    LAB_TRY(lab, texts);
    test_key_bytes(lab);
    test_long_keys(lab);
    LAB_TRY(lab, frame_headers);
    test_lengths(lab);
    test_ip_options(lab);
    LAB_TRY(lab, packets);
    test_ports(lab);
    test_flags(lab);
    LAB_TRY(lab, states);
}

int main(void)
{
    struct lab lab;

    lab_open(&lab, 256);
    test_program(&lab, LOADER_XDP);
    lab.program = LOADER_TC;
    ok(lab_leaves(&lab, GET_HIT, LAB_UNCOUNTED),
       "TC: behind XDP, a packet that XDP did not mark is passed");
    test_program(&lab, LOADER_TC);
    lab_close(&lab);
    return done();
}
