/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <string.h>

#include "proto/proto.h"
#include "t/lib/tap.h"

static bool parses(const char *bytes, size_t len, struct udp_frame *frame)
{
    return proto_parse_frame((struct slice){bytes, len}, frame);
}

static void headers_are_read(void)
{
    static const char datagram[] = "\x12\x34\xff\xfe\x00\x01\xab\xcdget k\r\n";
    static const char none[] = "\0\0\0\0\0\0\0\0x", two[] = "\0\0\0\0\0\2\0\0x";
    static const char many[] = "\0\0\0\0\1\1\0\0x";
    struct udp_frame frame = {0};

    ok(parses(datagram, sizeof(datagram) - 1, &frame) && frame.id == 0x1234 &&
           frame.sequence == 0xfffe && frame.count == 1 && frame.reserved == 0xabcd,
       "a header is four big-endian numbers");
    ok(!parses(datagram, 0, &frame) && !parses(datagram, 7, &frame) && !parses(datagram, 8, &frame),
       "a datagram of 8 bytes or less is dropped");
    ok(parses(datagram, 9, &frame), "a datagram of 9 bytes is read");
    ok(!parses(none, 9, &frame), "a datagram whose count is 0 is dropped");
    ok(!parses(two, 9, &frame), "a datagram whose count is 2 is dropped");
    ok(!parses(many, 9, &frame), "a datagram whose count is 257 is dropped");
}

static void headers_are_written(void)
{
    const struct udp_frame frame = {.id = 0x1234, .sequence = 2, .count = 0x103};
    char out[8];

    proto_render_frame(out, &frame);
    ok(memcmp(out, "\x12\x34\0\x02\x01\x03\0\0", 8) == 0, "a header is written in network order");
}

static void replies_are_told_from_requests(void)
{
    static const char *const replies[] = {
        "ERROR\r\n", "CLIENT_ERROR bad\r\n", "SERVER_ERROR", "VALUE k 0 1\r\nget k\r\n\r\nEND\r\n",
        "END\r\n",   "STAT pid 1\r\n",       "HD\r\n",       "VA 1 f0\r\nx\r\n",
        "MN\n"};
    static const char *const requests[] = {"get k\r\n", "ERRORS\r\n",    "foo\r\n",  "\r\n",
                                           "\x80",      "\x81\nget k\n", "",         " ERROR",
                                           "5\r\n",     "mn\r\n",        "error\r\n"};
    bool right = true;

    for (size_t i = 0; i < COUNT(replies); i++)
        right &= proto_is_reply((struct slice){replies[i], strlen(replies[i])});
    ok(right, "each answer of a server is recognized as a reply");
    for (size_t i = 0; i < COUNT(requests); i++)
        right &= !proto_is_reply((struct slice){requests[i], strlen(requests[i])});
    ok(right, "other texts are not");
}

static void suffixes_say_flags_and_length(void)
{
    static const uint32_t values[] = {0, 9, 10, 99, 100, 12345, 1048576, UINT32_MAX};
    bool same = true;

    for (size_t i = 0; i < 8; i++) {
        for (size_t j = 0; j < 8; j++) {
            char wanted[64], got[32];
            int n = snprintf(wanted, sizeof(wanted), " %" PRIu32 " %" PRIu32 "\r\n", values[i],
                             values[j]);
            uint8_t m = proto_suffix(got, values[i], values[j]);

            same = same && m == n && memcmp(got, wanted, m) == 0 &&
                   proto_suffix_flags(got, m) == values[i];
        }
    }
    ok(same, "a suffix is \" flags bytes\", and its flags can be read back");
}

int main(void)
{
    headers_are_read();
    headers_are_written();
    replies_are_told_from_requests();
    suffixes_say_flags_and_length();
    return done();
}
