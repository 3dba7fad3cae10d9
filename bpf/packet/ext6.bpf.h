/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * ext6: the headers that may stand between IPv6's own and TCP's or UDP's (RFC 8200, section 4).
 */
#ifndef MC_EXT6_BPF_H
#define MC_EXT6_BPF_H

#include "bpf/packet/base.bpf.h"

/* Whether a protocol of IPv6 is an extension header, behind which TCP may be. */
static __always_inline int is_extension(u8 protocol)
{
    return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING ||
           protocol == IPPROTO_FRAGMENT || protocol == IPPROTO_DSTOPTS;
}

/* How long an extension header is that begins with these bytes; 0: the protocol is none. */
static __always_inline u32 extension_bytes(u8 protocol, const u8 *head)
{
    switch (protocol) {
    case IPPROTO_HOPOPTS:
    case IPPROTO_ROUTING:
    case IPPROTO_DSTOPTS:
    case IPPROTO_MH:
        return 8 + head[1] * 8;
    case IPPROTO_AH:
        return 8 + head[1] * 4;
    case IPPROTO_FRAGMENT:
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
