/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame: a UDP datagram in an Ethernet frame without tags, as a ring of AF_XDP has it: there is no
 * network stack between. It checks what the stack would check, and writes what it would write.
 */
#ifndef NET_FRAME_H
#define NET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/slice.h"
#include "net/datagrams.h"
#include "net/socket.h"

/* What was received. */
struct frame {
    const char *bytes; /* from Ethernet's header on, the caller's */
    bool v6;
    struct slice payload;
};

/*
 * Parses a frame. False: it is not a whole datagram with right checksums. A sender on this machine
 * may leave UDP's checksum partial.
 */
bool frame_parse(struct slice bytes, struct frame *out);
/* The sender, and the reply's control message: that it leaves from where the frame went to. */
socklen_t frame_source(const struct frame *frame, struct sockaddr_storage *out);
size_t frame_control(const struct frame *frame, struct datagrams_control *out);
/* Whether a socket with this local address would have received it. */
bool frame_is_to(const struct frame *frame, const struct socket_name *name);

/* Bytes of headers before the payload of a reply. */
size_t frame_headers(const struct frame *request);
/* Writes these at `out`, of the reply whose n bytes of payload follow them. */
void frame_reply(char *out, const struct frame *request, size_t n);

#endif
