/* SPDX-License-Identifier: BSD-3-Clause */
/* Which packets the kernel programs pass to the server: unchanged, and counted once. */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "iface/local.h"
#include "t/lib/tap.h"

static const char *const names[] = {"XDP", "TC"};

static void request(struct frame *frame, const char *text)
{
    frame_request(frame, text, strlen(text));
}

/* The key is long enough to be answered in place. */
static const char hit_reply[] = "VALUE a-hit 0 5\r\nvalue\r\nEND\r\n";

static bool hit_is_served(struct lab *lab, enum loader_program program)
{
    struct frame frame;

    request(&frame, "get a-hit\r\n");
    return lab_answers(lab, program, &frame, hit_reply, sizeof(hit_reply) - 1);
}

static bool hit_passes(struct lab *lab, enum loader_program program, enum mc_count reason)
{
    struct frame one, many;

    request(&one, "get a-hit\r\n");
    request(&many, "get nil a-hit\r\n");
    return lab_passes(lab, program, &one, reason) && lab_passes(lab, program, &many, reason);
}

/* Only XDP sees all packets to the server; TC does not count those that cannot be a get. */
static enum mc_count in_xdp(enum loader_program program, enum mc_count reason)
{
    return program == LOADER_XDP ? reason : LAB_UNCOUNTED;
}

static void test_text(struct lab *lab, enum loader_program program)
{
    static const struct {
        const char *text;
        enum mc_count reason;
    } rows[] = {
        {"GET hit\r\n", MC_COUNT_PASS_COMMAND},
        {"get\thit\r\n", MC_COUNT_PASS_COMMAND},
        {" get a-hit\r\n", MC_COUNT_PASS_COMMAND},
        {"gat 0 hit\r\n", MC_COUNT_PASS_COMMAND},
        {"delete hit\r\n", MC_COUNT_PASS_COMMAND},
        {"set hit 0 0 2\r\nxx\r\n", MC_COUNT_PASS_COMMAND},
        {"get a-hit\r\nget hit\r\n", MC_COUNT_PASS_COMMAND},
        {"get a-hit\nx", MC_COUNT_PASS_REQUEST},
        {"get a-hit\r\n\r\n", MC_COUNT_PASS_COMMAND},
        {"get a-hit", MC_COUNT_PASS_REQUEST},
        {"get a-hit ", MC_COUNT_PASS_REQUEST},
        {"get a-hit\r", MC_COUNT_PASS_REQUEST},
        {"get a-hit\rx\r\n", MC_COUNT_PASS_REQUEST},
        {"get \r\n", MC_COUNT_PASS_REQUEST},
        {"get           \r\n", MC_COUNT_PASS_REQUEST},
        {"get h\tit\r\n", MC_COUNT_PASS_REQUEST},
        {"get h\x01it\r\n", MC_COUNT_PASS_REQUEST},
        {"get a-hit h\x1fit\r\n", MC_COUNT_PASS_REQUEST},
        {"get a-hit \x0b\r\n", MC_COUNT_PASS_REQUEST},
    };
    struct frame frame;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        request(&frame, rows[i].text);
        ok(lab_passes(lab, program, &frame, rows[i].reason), "%s: request %zu is passed",
           names[program], i);
    }
    frame_request(&frame, "get h\0t\r\n", 9);
    ok(lab_passes(lab, program, &frame, MC_COUNT_PASS_REQUEST),
       "%s: a zero byte in a key is passed", names[program]);
}

/* Every byte that may not be in a key, at every place of keys of several lengths. */
static void test_key_bytes(struct lab *lab, enum loader_program program)
{
    char text[128];
    struct frame frame;
    size_t nkey, at;
    int byte;
    bool right = true;

    for (nkey = 1; nkey <= 34 && right; nkey += nkey < 20 ? 1 : 7) {
        for (at = 0; at < nkey && right; at++) {
            for (byte = 0; byte < 0x20 && right; byte++) {
                if (byte == '\n' || byte == '\r')
                    continue;
                memcpy(text, "get ", 4);
                memset(text + 4, '!', nkey);
                text[4 + at] = (char)byte;
                memcpy(text + 4 + nkey, "\r\n", 2);
                frame_request(&frame, text, nkey + 6);
                right = lab_passes(lab, program, &frame, MC_COUNT_PASS_REQUEST);
            }
        }
    }
    ok(right, "%s: a control byte in a key is passed", names[program]);
    memcpy(text, "get ", 4);
    for (byte = 0x21; byte < 0x100; byte++) {
        memset(text + 4, byte, 11);
        memcpy(text + 4 + 11, "\r\n", 2);
        frame_request(&frame, text, 17);
        right &= lab_answers(lab, program, &frame, "END\r\n", 5);
    }
    ok(right, "%s: every other byte is accepted in a key", names[program]);
}

static void test_long_keys(struct lab *lab, enum loader_program program)
{
    char text[1500] = "get ";
    struct frame frame;
    size_t nkey;
    bool right = true;

    for (nkey = 251; nkey <= 1400 && right; nkey += nkey < 300 ? 1 : 97) {
        memset(text + 4, 'k', nkey);
        memcpy(text + 4 + nkey, "\r\n", 2);
        frame_request(&frame, text, nkey + 6);
        right = lab_passes(lab, program, &frame, MC_COUNT_PASS_REQUEST);
        memcpy(text + 4, "hit ", 4);
        frame_request(&frame, text, nkey + 6);
        right &= nkey - 4 <= MC_KEY_MAX || lab_passes(lab, program, &frame, MC_COUNT_PASS_REQUEST);
    }
    ok(right, "%s: keys of more than 250 bytes are passed", names[program]);
}

static void test_frame_header(struct lab *lab, enum loader_program program)
{
    static const unsigned int counts[] = {0, 2, 7, 0x100, 0x101, 0xffff};
    struct frame frame;
    size_t i, n;
    bool right = true;

    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        request(&frame, "get a-hit\r\n");
        frame.bytes[46] = (uint8_t)(counts[i] >> 8);
        frame.bytes[47] = (uint8_t)counts[i];
        ok(lab_passes(lab, program, &frame, MC_COUNT_PASS_FRAME),
           "%s: a request of %u datagrams is passed", names[program], counts[i]);
    }
    for (n = 0; n <= 8; n++) {
        request(&frame, "get a-hit\r\n");
        frame.n = LAB_HEADERS + n;
        frame_seal(&frame);
        right &= lab_passes(lab, program, &frame, in_xdp(program, MC_COUNT_PASS_FRAME));
        memset(frame.bytes + frame.n, 0, 30);
        frame.n += 30;
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_FRAME);
    }
    ok(right, "%s: a datagram with no more than a frame header is passed, padded or not",
       names[program]);
    for (n = 9; n <= 13; n++) {
        request(&frame, "get a-hit\r\n");
        frame.n = LAB_HEADERS + n;
        frame_seal(&frame);
        right &= lab_passes(lab, program, &frame, in_xdp(program, MC_COUNT_PASS_COMMAND));
        memset(frame.bytes + frame.n, 0, 30);
        frame.n += 30;
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_COMMAND);
    }
    ok(right, "%s: a datagram too short for any get is passed", names[program]);
}

static void put16(uint8_t *at, unsigned int value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void test_lengths(struct lab *lab, enum loader_program program)
{
    struct frame frame;
    unsigned int n;
    bool right = true;

    for (n = 0; n < 80; n++) {
        request(&frame, "get a-hit\r\n");
        if (n == frame.n - 34)
            continue;
        put16(frame.bytes + 38, n);
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_PACKET);
    }
    ok(right, "%s: a UDP length other than the IP length's is passed", names[program]);
    for (n = 1, right = true; n < 2000; n += n < 64 ? 1 : 61) {
        request(&frame, "get a-hit\r\n");
        put16(frame.bytes + 16, (unsigned int)frame.n - 14 + n);
        put16(frame.bytes + 38, (unsigned int)frame.n - 34 + n);
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_PACKET);
    }
    ok(right, "%s: a length beyond the frame's end is passed", names[program]);
    for (n = 56, right = true; n < 59; n++) {
        request(&frame, "get a-hit\r\n");
        frame.n = n;
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_PACKET);
    }
    ok(right, "%s: a truncated frame", names[program]);
    /* A test run accepts no frame for TC that ends in its IP header. */
    for (n = program == LOADER_XDP ? 14 : 34, right = true; n < 42; n++) {
        request(&frame, "get a-hit\r\n");
        frame.n = n;
        right &= lab_passes(lab, program, &frame, LAB_UNCOUNTED);
    }
    ok(right, "%s: a frame cut off in its headers is passed", names[program]);
}

static void test_packets(struct lab *lab, enum loader_program program)
{
    struct frame frame;
    unsigned int words;
    bool right = true;

    for (words = 6; words <= 15; words++) {
        request(&frame, "get a-hit\r\n");
        memmove(frame.bytes + 14 + words * 4, frame.bytes + 34, frame.n - 34);
        memset(frame.bytes + 34, 1, words * 4 - 20);
        frame.n += words * 4 - 20;
        frame.bytes[14] = (uint8_t)(0x40 | words);
        put16(frame.bytes + 16, (unsigned int)frame.n - 14);
        right &= lab_passes(lab, program, &frame, in_xdp(program, MC_COUNT_PASS_PACKET));
    }
    ok(right, "%s: IP options", names[program]);
    request(&frame, "get a-hit\r\n");
    frame.bytes[20] = 0x20;
    ok(lab_passes(lab, program, &frame, in_xdp(program, MC_COUNT_PASS_PACKET)),
       "%s: the first fragment of a datagram is passed", names[program]);
    frame.bytes[20] = 0x20;
    frame.bytes[21] = 0x10;
    ok(lab_passes(lab, program, &frame, LAB_UNCOUNTED), "%s: a later fragment", names[program]);
    frame.bytes[20] = 0;
    ok(lab_passes(lab, program, &frame, LAB_UNCOUNTED), "%s: the last fragment is passed",
       names[program]);
    frame.bytes[20] = 0;
    frame.bytes[21] = 0;
    ok(lab_answers(lab, program, &frame, hit_reply, sizeof(hit_reply) - 1),
       "%s: an unfragmented packet that may be fragmented is answered", names[program]);
}

static void test_foreign(struct lab *lab, enum loader_program program)
{
    static const struct {
        const char *what;
        unsigned int at, n;
        uint8_t bytes[4];
    } rows[] = {
        {"another port", 36, 2, {0x2b, 0xcb}},
        {"port 0", 36, 2, {0, 0}},
        {"another address", 30, 4, {10, 0, 0, 3}},
        {"address 0", 30, 4, {0, 0, 0, 0}},
        {"broadcast", 30, 4, {255, 255, 255, 255}},
        {"the network's broadcast", 30, 4, {10, 0, 0, 255}},
        {"multicast", 30, 4, {224, 0, 0, 1}},
        {"TCP", 23, 1, {6}},
        {"IPv6", 12, 2, {0x86, 0xdd}},
        {"ARP", 12, 2, {0x08, 0x06}},
        {"a VLAN tag", 12, 2, {0x81, 0x00}},
    };
    struct frame frame;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        request(&frame, "get a-hit\r\n");
        memcpy(frame.bytes + rows[i].at, rows[i].bytes, rows[i].n);
        ok(lab_passes(lab, program, &frame, LAB_UNCOUNTED),
           "%s: %s: the packet is not the server's", names[program], rows[i].what);
    }
    for (i = 0; i < 2; i++) { /* the shortest ones, without padding */
        request(&frame, "ack.");
        frame_shape(&frame, &(struct shape){.v6 = i});
        frame.bytes[i ? 20 : 23] = IPPROTO_TCP;
        ok(lab_passes(lab, program, &frame, LAB_UNCOUNTED),
           "%s: a TCP segment without data is not counted, %s", names[program],
           i ? "IPv6" : "IPv4");
    }
    lab->control->port = 0;
    request(&frame, "get a-hit\r\n");
    ok(lab_passes(lab, program, &frame, LAB_UNCOUNTED), "%s: without a port no packet is counted",
       names[program]);
    memset(frame.bytes + 36, 0, 2);
    ok(lab_passes(lab, program, &frame, MC_COUNT_PASS_SOURCE), "%s: nor is one to port 0 answered",
       names[program]);
    request(&frame, "get a-hit\r\n");
    lab->control->port = htons(LAB_PORT);
    local_publish(lab->control, &(struct mc_local){0});
    ok(lab_passes(lab, program, &frame, LAB_UNCOUNTED),
       "%s: without an address no packet is counted", names[program]);
    lab_own(lab->control);
}

static void test_sources(struct lab *lab, enum loader_program program)
{
    static const uint8_t bad[][4] = {{0, 0, 0, 0},     {0, 1, 2, 3},   {224, 0, 0, 1},
                                     {239, 255, 0, 1}, {240, 0, 0, 1}, {255, 255, 255, 255}};
    struct frame frame;
    unsigned int port;
    size_t i;
    bool right = true;

    for (port = 0; port < 1024; port++) {
        request(&frame, "get a-hit\r\n");
        put16(frame.bytes + 34, port);
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_SOURCE);
    }
    ok(right, "%s: requests from ports below 1024 are passed", names[program]);
    request(&frame, "get a-hit\r\n");
    put16(frame.bytes + 34, 11211);
    ok(lab_passes(lab, program, &frame, MC_COUNT_PASS_SOURCE),
       "%s: requests from memcached's port are passed", names[program]);
    put16(frame.bytes + 34, LAB_PORT);
    ok(lab_passes(lab, program, &frame, MC_COUNT_PASS_SOURCE),
       "%s: requests from the server's own port are passed", names[program]);
    for (port = 1024, right = true; port < 65536; port += 251) {
        put16(frame.bytes + 34, port);
        right &= lab_answers(lab, program, &frame, hit_reply, sizeof(hit_reply) - 1);
    }
    ok(right, "%s: requests from other ports are answered", names[program]);
    for (i = 0, right = true; i < sizeof(bad) / sizeof(bad[0]); i++) {
        request(&frame, "get a-hit\r\n");
        memcpy(frame.bytes + 26, bad[i], 4);
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_SOURCE);
    }
    ok(right, "%s: requests from addresses that are not one machine's are passed", names[program]);
    request(&frame, "get a-hit\r\n");
    memset(frame.bytes, 0xff, 6);
    /* TC knows from the stack that such a frame was sent to a group. */
    ok(lab_passes(lab, program, &frame, in_xdp(program, MC_COUNT_PASS_MAC)),
       "%s: a frame sent to a group address is passed", names[program]);
    request(&frame, "get a-hit\r\n");
    frame.bytes[6] |= 1;
    ok(lab_passes(lab, program, &frame, MC_COUNT_PASS_MAC),
       "%s: a frame from a group address is passed", names[program]);
    /* A test run counts as coming from lo. */
    request(&frame, "get a-hit\r\n");
    memcpy(frame.bytes + 26, frame.bytes + 30, 4);
    frame_seal(&frame);
    ok(lab_answers(lab, program, &frame, hit_reply, sizeof(hit_reply) - 1),
       "%s: over loopback requests from the server's own address are answered", names[program]);
}

static void test_epochs(struct lab *lab, enum loader_program program, struct mc_item *item)
{
    struct mc_control *control = lab->control;

    item->epoch++;
    ok(hit_passes(lab, program, MC_COUNT_PASS_EXPIRED), "%s: an item of an older epoch is passed",
       names[program]);
    control->epoch += MC_EPOCHS - 1;
    item->epoch = (uint8_t)control->epoch;
    ok(hit_is_served(lab, program),
       "%s: an item of the last epoch that a byte can hold is answered", names[program]);
    control->epoch++;
    item->epoch = (uint8_t)control->epoch;
    ok(hit_passes(lab, program, MC_COUNT_PASS_EXPIRED),
       "%s: an item of an older epoch with an equal byte is passed", names[program]);
    control->epoch -= MC_EPOCHS;
    item->epoch = (uint8_t)control->epoch;
}

/* Bypass and lease: the server's state. */
static void test_server(struct lab *lab, enum loader_program program)
{
    struct mc_control *control = lab->control;

    control->bypass = 1;
    ok(hit_passes(lab, program, MC_COUNT_PASS_BYPASS), "%s: in bypass every request is passed",
       names[program]);
    control->bypass = 0;
    control->lease = mc_lease(1, 0);
    ok(hit_passes(lab, program, MC_COUNT_PASS_STOPPED),
       "%s: after the server's lease has run out every request is passed", names[program]);
    control->lease = MC_LEASE_EVER | MC_LEASE_DEAD;
    ok(hit_passes(lab, program, MC_COUNT_PASS_STOPPED),
       "%s: after the server has ended every request is passed", names[program]);
    ok(hit_passes(lab, program, MC_COUNT_PASS_STOPPED), "%s: the next request is passed, too",
       names[program]);
    control->lease = MC_LEASE_EVER | 1;
    ok(hit_is_served(lab, program), "%s: while the server lives requests are answered",
       names[program]);
    control->lease = MC_LEASE_EVER;
}

static void test_items(struct lab *lab, enum loader_program program)
{
    struct mc_control *control = lab->control;
    struct mc_item *item;
    struct timespec now;
    uint32_t second, flag;
    bool right = true;

    lab_clear(lab);
    item = lab_put(lab, "a-hit", 5, "value", 5);
    ok(hit_is_served(lab, program), "%s: an item is answered", names[program]);
    lab_sum(item);
    for (flag = 1; flag < 1 << 16; flag <<= 1) {
        item->flags = (uint16_t)(MC_ITEM_LINKED | flag);
        right &= flag & MC_ITEM_PASS ? hit_passes(lab, program, MC_COUNT_PASS_ITEM)
                                     : hit_is_served(lab, program);
    }
    ok(right, "%s: items with a flag in MC_ITEM_PASS are passed", names[program]);
    item->flags = MC_ITEM_LINKED;
    test_epochs(lab, program, item);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    second =
        (uint32_t)(((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - control->base_ns) /
                   1000000000u);
    item->exptime = second;
    ok(hit_passes(lab, program, MC_COUNT_PASS_EXPIRED),
       "%s: an item that expires in this second is passed", names[program]);
    item->exptime = 1;
    ok(hit_passes(lab, program, MC_COUNT_PASS_EXPIRED),
       "%s: an item that expired long ago is passed", names[program]);
    item->exptime = second + 1000;
    ok(hit_is_served(lab, program), "%s: an item that expires later is answered", names[program]);
    control->base_ns -= 1001 * 1000000000ull;
    ok(hit_passes(lab, program, MC_COUNT_PASS_EXPIRED), "%s: and is passed when it has",
       names[program]);
    control->base_ns += 1001 * 1000000000ull;
    item->exptime = UINT32_MAX;
    ok(hit_is_served(lab, program), "%s: an item that expires in 136 years is answered",
       names[program]);
    item->exptime = 0;
    control->flush_at = second + 1000;
    ok(hit_is_served(lab, program), "%s: before a delayed flush an item is answered",
       names[program]);
    control->flush_at = second;
    ok(hit_passes(lab, program, MC_COUNT_PASS_EXPIRED),
       "%s: at the time of a delayed flush an item is passed", names[program]);
    control->flush_at = 0;
    test_server(lab, program);
    item->nbytes = 1 << 20;
    ok(hit_passes(lab, program, MC_COUNT_PASS_SIZE), "%s: an item of a megabyte is passed",
       names[program]);
    item->nbytes = 0;
    ok(hit_passes(lab, program, MC_COUNT_PASS_BUSY), "%s: a malformed item is passed",
       names[program]);
}

static void test_program(struct lab *lab, enum loader_program program)
{
    lab_clear(lab);
    lab_put(lab, "a-hit", 5, "value", 5);
    test_text(lab, program);
    test_key_bytes(lab, program);
    test_long_keys(lab, program);
    test_frame_header(lab, program);
    test_lengths(lab, program);
    test_packets(lab, program);
    test_foreign(lab, program);
    test_sources(lab, program);
    test_items(lab, program);
}

/* TC ignores packets that XDP did not mark. */
static void test_unmarked(struct lab *lab)
{
    struct frame frame;

    lab_clear(lab);
    lab_put(lab, "a-hit", 5, "value", 5);
    request(&frame, "get a-hit\r\n");
    ok(lab_passes(lab, LOADER_TC, &frame, LAB_UNCOUNTED),
       "TC: behind XDP, a packet that XDP did not mark is passed");
}

int main(void)
{
    struct lab lab;

    lab_open(&lab, 256);
    test_program(&lab, LOADER_XDP);
    test_unmarked(&lab);
    loader_set_tc(lab.loader, true, true);
    test_program(&lab, LOADER_TC);
    lab_close(&lab);
    return done();
}
