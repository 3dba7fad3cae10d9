/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * ext6: the headers that may stand between IPv6's own and TCP's or UDP's (RFC 8200, section 4).
 */
#ifndef MC_EXT6_BPF_H
#define MC_EXT6_BPF_H

#include "bpf/packet/base.bpf.h"

/* IPv6's extension headers, by the value of the next-header field before them. */
enum {
    IP6_HOPS = 0,
    IP6_ROUTING = 43,
    IP6_FRAGMENT = 44,
    IP6_AUTHENTICATION = 51,
    IP6_DESTINATION = 60,
    IP6_MOBILITY = 135,
};

/* Whether a protocol of IPv6 is an extension header, behind which TCP may be. */
static __always_inline int is_extension(u8 protocol)
{
    return protocol == IP6_HOPS || protocol == IP6_ROUTING || protocol == IP6_FRAGMENT ||
           protocol == IP6_DESTINATION;
}

/* How long an extension header is that begins with these bytes; 0: the protocol is none. */
static __always_inline u32 extension_bytes(u8 protocol, const u8 *head)
{
    switch (protocol) {
    case IP6_HOPS:
    case IP6_ROUTING:
    case IP6_DESTINATION:
    case IP6_MOBILITY:
        return 8 + head[1] * 8;
    case IP6_AUTHENTICATION:
        return 8 + head[1] * 4;
    case IP6_FRAGMENT:
        return 8;
    default:
        return 0;
    }
}

/* What follows a fragment header, by its first four bytes. */
enum fragment {
    FRAGMENT_NONE, /* the whole packet: an atomic fragment (RFC 6946) */
    FRAGMENT_FIRST,
    FRAGMENT_LATER,
};

static __always_inline enum fragment extension_fragment(const u8 *head)
{
    if (head[2] || head[3] & 0xf8)
        return FRAGMENT_LATER;
    return head[3] & 0x01 ? FRAGMENT_FIRST : FRAGMENT_NONE;
}

#endif
