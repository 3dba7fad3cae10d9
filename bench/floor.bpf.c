/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * floor: the least that any server in XDP can do.
 *
 * Turns a UDP packet to floor_port around with a constant reply: the text of a hit of a
 * 16-byte key and a 32-byte value behind the request's id. It looks nothing up, reads nothing
 * of the request but its headers, and grows the packet at the head as the real program does.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

const volatile __u16 floor_port = 11211; /* host order */

enum { REPLY_BYTES = 76 }; /* UDP payload */

#define REPLY_TEXT "VALUE kkkkkkkkaaaaaaaa 0 32\r\nabcdefghijklmnopqrstuvwxyzabcdef\r\nEND\r\n"
_Static_assert(sizeof(REPLY_TEXT) - 1 == REPLY_BYTES - 8, "the text of a 16/32 hit");

struct packet {
    struct ethhdr eth;
    struct iphdr ip;
    struct udphdr udp;
    __u16 frame[4];
} __attribute__((packed));

/* Adds the change of a 16-bit word to a checksum (RFC 1624, equation 3). */
static __always_inline __u16 checksum_change(__u16 check, __u16 from, __u16 to)
{
    __u32 sum = (__u16)~check + (__u16)~from + (__u32)to;

    sum = (sum & 0xffff) + (sum >> 16);
    return (__u16) ~((sum & 0xffff) + (sum >> 16));
}

static __always_inline void write_reply(struct packet *out, const struct packet *in)
{
    __u16 tot_len = bpf_htons(sizeof(out->ip) + sizeof(out->udp) + REPLY_BYTES);

    __builtin_memcpy(out->eth.h_dest, in->eth.h_source, ETH_ALEN);
    __builtin_memcpy(out->eth.h_source, in->eth.h_dest, ETH_ALEN);
    out->eth.h_proto = in->eth.h_proto;
    out->ip = in->ip;
    out->ip.saddr = in->ip.daddr;
    out->ip.daddr = in->ip.saddr;
    out->ip.check = checksum_change(in->ip.check, in->ip.tot_len, tot_len);
    out->ip.tot_len = tot_len;
    out->udp.source = in->udp.dest;
    out->udp.dest = in->udp.source;
    out->udp.len = bpf_htons(sizeof(out->udp) + REPLY_BYTES);
    out->udp.check = 0;
    out->frame[0] = in->frame[0];
    out->frame[1] = 0;
    out->frame[2] = bpf_htons(1);
    out->frame[3] = 0;
    __builtin_memcpy(out + 1, REPLY_TEXT, REPLY_BYTES - 8);
}

SEC("xdp")
int floor_reply(struct xdp_md *ctx)
{
    struct packet in, *out = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    int nrequest;

    if ((void *)(out + 1) > end || out->eth.h_proto != bpf_htons(ETH_P_IP) ||
        *(__u8 *)&out->ip != 0x45 || out->ip.protocol != IPPROTO_UDP ||
        out->udp.dest != bpf_htons(floor_port))
        return XDP_PASS;
    in = *out;
    nrequest = (int)(ctx->data_end - ctx->data);
    if (bpf_xdp_adjust_head(ctx, nrequest - (int)(sizeof(in) - 8 + REPLY_BYTES)))
        return XDP_PASS;
    out = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if ((void *)out + sizeof(in) - 8 + REPLY_BYTES > end)
        return XDP_ABORTED;
    write_reply(out, &in);
    return XDP_TX;
}

char _license[] SEC("license") = "Dual BSD/GPL";
