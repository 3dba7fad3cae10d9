/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet: a whole Ethernet frame with a UDP get in it, or a segment of TCP.
 */
#ifndef BENCH_PACKET_H
#define BENCH_PACKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/items.h"

enum { PACKET_TEXT = 14 + 20 + 8 + 8, PACKET_TEXT6 = PACKET_TEXT + 20 };
/* Of a segment with timestamps. */
enum { PACKET_TEXT_TCP = 14 + 20 + 20 + 12 };
enum { PACKET_MAX = PACKET_TEXT6 + ITEMS_KEY_MAX + 24 };

struct packet_route {
    uint8_t to_mac[6], from_mac[6];
    struct sockaddr_in to, from;
    bool ipv6; /* between fd00:: and these addresses */
};

struct packet_segment {
    uint32_t seq, ack; /* no ack with syn */
    uint32_t tsval;    /* of a request */
    bool syn;
    bool request; /* timestamps, PSH; its text, not letters x, is there already */
    size_t ntext;
};

/* Reads six hexadecimal bytes with colons; exits when they are malformed. */
void packet_mac(uint8_t mac[6], const char *text);
/* Where the text begins in a frame. */
static inline size_t packet_text(const struct packet_route *route)
{
    return route->ipv6 ? PACKET_TEXT6 : PACKET_TEXT;
}

/* Writes the headers before a text, with their checksums; returns the frame's length. */
size_t packet_close(const struct packet_route *route, size_t ntext, uint8_t *out);
/* Writes the frame of a get for key `index` and returns its length. */
size_t packet_get(const struct packet_route *route, const struct items *items, uint32_t index,
                  uint8_t *out);
/* Writes the frame of a segment of so many letters x, or of a request, and returns its length. */
size_t packet_tcp(const struct packet_route *route, const struct packet_segment *segment,
                  uint8_t *out);

#endif
