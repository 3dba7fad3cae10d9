/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that come by a ring: whole datagrams are taken, everything else is refused, and a reply is
 * the request turned around with right checksums. The sums are computed here bit by bit.
 */
#include "net/frame.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "t/lib/tap.h"

enum { ETHERNET = 14, IP4 = 20, IP6 = 40, UDP = 8, ROOM = 2048, RANDOM = 200000 };

/* A frame at the end of its memory, so that a sanitizer sees a read behind it. */
struct wire {
    unsigned char bytes[ROOM];
    size_t n, ip, udp; /* where these begin */
    bool v6;
};

static unsigned int load16(const unsigned char *at)
{
    return (unsigned int)at[0] << 8 | at[1];
}

static void put16(unsigned char *at, unsigned int value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static unsigned int sum16(unsigned int sum, const unsigned char *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum += i % 2 ? at[i] : (unsigned int)at[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* What the stack leaves for hardware, and the whole sum of a datagram. */
static unsigned int sum_partial(const struct wire *wire)
{
    return sum16(17 + load16(wire->bytes + wire->udp + 4),
                 wire->bytes + wire->ip + (wire->v6 ? 8 : 12), wire->v6 ? 32 : 8);
}

static unsigned int sum_whole(const struct wire *wire)
{
    return sum16(sum_partial(wire), wire->bytes + wire->udp, load16(wire->bytes + wire->udp + 4));
}

static void seal_ip(struct wire *wire)
{
    if (wire->v6)
        return;
    put16(wire->bytes + wire->ip + 10, 0);
    put16(wire->bytes + wire->ip + 10, ~sum16(0, wire->bytes + wire->ip, IP4) & 0xffff);
}

static void seal_udp(struct wire *wire)
{
    unsigned int sum;

    put16(wire->bytes + wire->udp + 6, 0);
    sum = ~sum_whole(wire) & 0xffff;
    put16(wire->bytes + wire->udp + 6, sum ? sum : 0xffff);
}

/* A datagram of n bytes of payload. */
static void make(struct wire *wire, bool v6, size_t n)
{
    static const unsigned char four[] = {0x45, 0, 0,  0, 0xbe, 0xef, 0x40, 0, 57, 17,
                                         0,    0, 10, 0, 0,    9,    10,   0, 0,  1};
    unsigned char *ip;

    *wire = (struct wire){.v6 = v6, .ip = ETHERNET, .udp = ETHERNET + (v6 ? IP6 : IP4)};
    memcpy(wire->bytes, "\2MC\0\0\1\2MC\0\0\2", 12);
    put16(wire->bytes + 12, v6 ? 0x86dd : 0x0800);
    ip = wire->bytes + ETHERNET;
    if (v6) {
        memcpy(ip, "\x60\0\0\0\0\0\x11\x40", 8);
        put16(ip + 4, (unsigned int)(UDP + n));
        memcpy(ip + 8, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09", 16);
        memcpy(ip + 24, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", 16);
    } else {
        memcpy(ip, four, sizeof(four));
        put16(ip + 2, (unsigned int)(IP4 + UDP + n));
    }
    put16(wire->bytes + wire->udp, 40000);
    put16(wire->bytes + wire->udp + 2, 11211);
    put16(wire->bytes + wire->udp + 4, (unsigned int)(UDP + n));
    for (size_t i = 0; i < n; i++)
        wire->bytes[wire->udp + UDP + i] = (unsigned char)(i * 7 + n);
    wire->n = wire->udp + UDP + n;
    seal_ip(wire);
    seal_udp(wire);
}

/* Parses it from memory of just its size. Its payload's length, or -1. */
static long parse(const struct wire *wire)
{
    char *bytes = malloc(wire->n ? wire->n : 1);
    struct frame frame;
    long n = -1;

    memcpy(bytes, wire->bytes, wire->n);
    if (frame_parse((struct slice){bytes, wire->n}, &frame)) {
        n = (long)frame.payload.len;
        if (frame.payload.ptr + n > bytes + wire->n)
            abort();
    }
    free(bytes);
    return n;
}

static void test_lengths(bool v6)
{
    const char *name = v6 ? "IPv6" : "IPv4";
    unsigned int right = 0, cut = 0;
    struct wire wire;

    for (size_t n = 0; n <= 1472; n++) {
        make(&wire, v6, n);
        right += parse(&wire) == (long)n;
    }
    ok(right == 1473, "%s: datagrams of every length are taken", name);
    make(&wire, v6, 30);
    for (size_t n = wire.n; n-- > 0;) {
        wire.n = n;
        cut += parse(&wire) < 0;
    }
    ok(cut == ETHERNET + (v6 ? IP6 : IP4) + UDP + 30U, "%s: a frame cut anywhere is refused", name);
    make(&wire, v6, 30);
    wire.n += 16;
    ok(parse(&wire) == 30, "%s: padding is not part of it", name);
}

/* Whether a frame is refused when 16 bits of it are changed, and its sums are right again. */
static bool refused(bool v6, size_t at, unsigned int value)
{
    struct wire wire;

    make(&wire, v6, 30);
    put16(wire.bytes + at, value);
    seal_ip(&wire);
    if (load16(wire.bytes + wire.udp + 4) <= wire.n - wire.udp)
        seal_udp(&wire);
    return parse(&wire) < 0;
}

static void test_headers(void)
{
    const size_t ip = ETHERNET, udp4 = ip + IP4, udp6 = ip + IP6;
    struct wire wire;

    ok(refused(false, 12, 0x8100) && refused(false, 12, 0x86dd) && refused(true, 12, 0x0800) &&
           refused(true, 12, 0x0806),
       "frames of another type, or with a tag, are refused");
    ok(refused(false, ip, 0x4600) && refused(false, ip, 0x4400) && refused(false, ip, 0x6500) &&
           refused(true, ip, 0x4500),
       "another version, IP options, and a header that is too short are refused");
    ok(refused(false, ip + 6, 0x2000) && refused(false, ip + 6, 0x0001) &&
           refused(false, ip + 6, 0x6000),
       "fragments are refused");
    ok(refused(false, ip + 8, 57 << 8 | 6) && refused(true, ip + 6, 6 << 8 | 64), "TCP is refused");
    ok(refused(true, ip + 6, 0) && refused(true, ip + 6, 43 << 8) &&
           refused(true, ip + 6, 44 << 8) && refused(true, ip + 6, 60 << 8),
       "extension headers are refused");
    ok(refused(false, ip + 2, IP4 + UDP + 29) && refused(false, ip + 2, IP4 + UDP + 31) &&
           refused(false, ip + 2, IP4 - 1) && refused(false, ip + 2, 0) &&
           refused(true, ip + 4, UDP + 29) && refused(true, ip + 4, UDP + 31) &&
           refused(true, ip + 4, 0),
       "lengths of IP that do not agree are refused");
    ok(refused(false, udp4 + 4, UDP + 29) && refused(false, udp4 + 4, 7) &&
           refused(true, udp6 + 4, 0) && refused(true, udp6 + 4, UDP + 29),
       "and lengths of UDP");
    make(&wire, false, 30);
    put16(wire.bytes + udp4 + 4, UDP + 29);
    put16(wire.bytes + udp4 + 6, 0);
    ok(parse(&wire) < 0, "also without a checksum");
}

static void test_checksums(void)
{
    struct wire wire;
    unsigned int wrong = 0, n = 0;

    for (int v6 = 0; v6 < 2; v6++) {
        for (size_t at = ETHERNET; at < (size_t)ETHERNET + (v6 ? IP6 : IP4) + UDP + 30; at++) {
            make(&wire, v6, 30);
            if (v6 && (at < wire.ip + 4 || at == wire.ip + 7))
                continue; /* class, flow and hop limit are in no sum */
            wire.bytes[at] ^= 0x10;
            wrong += parse(&wire) < 0;
            n++;
        }
        make(&wire, v6, 30);
        put16(wire.bytes + wire.udp + 6, sum_partial(&wire));
        ok(parse(&wire) == 30, "a partial checksum is taken");
        put16(wire.bytes + wire.udp + 6, 0);
        ok(v6 ? parse(&wire) < 0 : parse(&wire) == 30, "%s",
           v6 ? "IPv6 without a checksum is refused" : "IPv4 without a checksum is taken");
    }
    ok(wrong == n, "a bit that has changed is noticed, wherever it is");
}

static void test_random(void)
{
    unsigned long state = 88172645463325252UL;
    unsigned int taken = 0;
    struct wire wire;

    for (int i = 0; i < RANDOM; i++) {
        make(&wire, i & 1, 6);
        for (int k = 0; k < 3; k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            wire.bytes[ETHERNET - 2 + state % (wire.n - 12)] = (unsigned char)(state >> 32);
        }
        wire.n -= (state >> 40) % 3;
        if (i & 2) {
            seal_ip(&wire);
            put16(wire.bytes + wire.udp + 6, sum_partial(&wire));
        }
        taken += parse(&wire) >= 0;
    }
    ok(taken > 0 && taken < RANDOM, "random damage reads nothing behind the frame (%u are taken)",
       taken);
}

/* Whether the reply of n bytes is as it should be. */
static bool turned(bool v6, size_t n)
{
    struct wire in, out = {.v6 = v6, .ip = ETHERNET, .udp = ETHERNET + (v6 ? IP6 : IP4)};
    const size_t address = v6 ? 16 : 4, from = ETHERNET + (v6 ? 8 : 12);
    const unsigned char *a = in.bytes, *b = out.bytes;
    struct frame frame;

    make(&in, v6, 30);
    if (!frame_parse((struct slice){(const char *)in.bytes, in.n}, &frame))
        return false;
    if (frame_headers(&frame) != out.udp + UDP)
        return false;
    for (size_t i = 0; i < n; i++)
        out.bytes[out.udp + UDP + i] = (unsigned char)(i * 3 + n);
    frame_reply((char *)out.bytes, &frame, n);
    out.n = out.udp + UDP + n;
    return parse(&out) == (long)n && sum_whole(&out) == 0xffff && load16(b + out.udp + 6) &&
           !memcmp(a, b + 6, 6) && !memcmp(a + 6, b, 6) && !memcmp(a + 12, b + 12, 2) &&
           !memcmp(a + from, b + from + address, address) &&
           !memcmp(a + from + address, b + from, address) &&
           load16(a + in.udp) == load16(b + out.udp + 2) &&
           load16(a + in.udp + 2) == load16(b + out.udp) &&
           (v6 ? b[ETHERNET + 7] : b[ETHERNET + 8]) == 64 &&
           (v6 || load16(b + ETHERNET + 6) == 0x4000);
}

static void test_replies(void)
{
    for (int v6 = 0; v6 < 2; v6++) {
        unsigned int right = 0;

        for (size_t n = 0; n <= MC_UDP_PAYLOAD; n++)
            right += turned(v6, n);
        ok(right == MC_UDP_PAYLOAD + 1, "%s: replies of every length go back to where it came from",
           v6 ? "IPv6" : "IPv4");
    }
}

/* The socket of an address: whose it is, and where a reply by it leaves from. */
static void test_sockets(bool v6)
{
    struct socket_name own = {.len = sizeof(own.address)}, other, any;
    struct datagrams_control control = {{0}};
    struct sockaddr_storage source;
    struct msghdr message = {.msg_control = control.bytes};
    struct wire wire;
    struct frame frame;
    struct in6_addr from6;
    in_addr_t from4;

    make(&wire, v6, 30);
    if (!frame_parse((struct slice){(const char *)wire.bytes, wire.n}, &frame))
        return;
    memset(&own.address, 0, sizeof(own.address));
    own.address.ss_family = v6 ? AF_INET6 : AF_INET;
    ((struct sockaddr_in *)&own.address)->sin_port = htons(11211);
    any = own;
    if (v6)
        inet_pton(AF_INET6, "fd00::1", &((struct sockaddr_in6 *)&own.address)->sin6_addr);
    else
        inet_pton(AF_INET, "10.0.0.1", &((struct sockaddr_in *)&own.address)->sin_addr);
    other = own;
    ((struct sockaddr_in *)&other.address)->sin_port = htons(11212);
    ok(frame_is_to(&frame, &own) && frame_is_to(&frame, &any) && !frame_is_to(&frame, &other),
       "the socket of its address or of any would get it, that of another port not");
    other = own;
    ((char *)&other.address)[v6 ? 23 : 7] ^= 2;
    ok(!frame_is_to(&frame, &other), "nor that of another address");
    other.address.ss_family = v6 ? AF_INET : AF_INET6;
    ok(!frame_is_to(&frame, &other), "nor that of the other family");
    frame_source(&frame, &source);
    inet_pton(AF_INET6, "fd00::9", &from6);
    inet_pton(AF_INET, "10.0.0.9", &from4);
    ok(((struct sockaddr_in *)&source)->sin_port == htons(40000) &&
           (v6 ? !memcmp(&((struct sockaddr_in6 *)&source)->sin6_addr, &from6, sizeof(from6))
               : !memcmp(&((struct sockaddr_in *)&source)->sin_addr, &from4, sizeof(from4))),
       "its source is known");
    message.msg_controllen = frame_control(&frame, &control);
    ok(message.msg_controllen <= sizeof(control) && CMSG_FIRSTHDR(&message) &&
           CMSG_FIRSTHDR(&message)->cmsg_type == (v6 ? IPV6_PKTINFO : IP_PKTINFO) &&
           !memcmp(CMSG_DATA(CMSG_FIRSTHDR(&message)) +
                       (v6 ? 0 : offsetof(struct in_pktinfo, ipi_spec_dst)),
                   wire.bytes + ETHERNET + (v6 ? 24 : 16), v6 ? 16 : 4),
       "a reply by a socket leaves from the address that was asked");
}

int main(void)
{
    test_lengths(false);
    test_lengths(true);
    test_headers();
    test_checksums();
    test_random();
    test_replies();
    test_sockets(false);
    test_sockets(true);
    return done();
}
