/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * floor: the least that any server in XDP can do, and the least that any program can.
 *
 * floor_pass passes everything, floor_next too, on TC ingress. floor_reply turns a UDP packet to
 * floor_port around with a constant reply: the text of a hit of a 16-byte key and a 32-byte value
 * behind the request's id. It looks nothing up, reads nothing of the request but its headers, and
 * grows the packet at the head as the real program does.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

const volatile __u16 floor_port = 11211; /* host order */

enum {
    HEAD_BYTES = 48,  /* Ethernet, IPv4, UDP, and the frame header's first six bytes */
    REPLY_BYTES = 76, /* UDP payload */
    REPLY_UDP = 8 + REPLY_BYTES,
    REPLY_IP = 20 + REPLY_UDP,
    REPLY_FRAME = ETH_HLEN + REPLY_IP,
    TAIL_WORDS = (REPLY_FRAME - HEAD_BYTES) / 8, /* and six bytes */
};

/* The frame header's last two bytes, and the text of a 16/32 hit. */
union tail {
    char text[8 * TAIL_WORDS + 8];
    __u64 w[TAIL_WORDS + 1];
};
#define REPLY_TAIL "\0\0VALUE kkkkkkkkaaaaaaaa 0 32\r\nabcdefghijklmnopqrstuvwxyzabcdef\r\nEND\r\n"
_Static_assert(sizeof(REPLY_TAIL) - 1 == REPLY_FRAME - HEAD_BYTES, "");

#define LOW16(x)   ((x)&0xffff)
#define LOW32(x)   ((x)&0xffffffff)
#define WORD(p, i) (*(__u64 *)((void *)(p) + 8 * (i)))

/* A checksum after a 16-bit word has changed (RFC 1624, equation 3). */
static __always_inline __u64 checksum_change(__u64 check, __u64 from, __u64 to)
{
    __u64 sum = LOW16(~check) + LOW16(~from) + to;

    sum = LOW16(sum) + (sum >> 16);
    return LOW16(~(LOW16(sum) + (sum >> 16)));
}

/*
 * The reply's first 48 bytes, word by word:
 *  0 MACs | 8 MAC, type, version, TOS | 16 length, id, fragment, TTL, protocol
 * 24 checksum, source, destination | 32 destination, ports, UDP length
 * 40 UDP checksum, request id, sequence, total
 */
static __always_inline void write_head(void *out, const __u64 *in)
{
    __u64 source = LOW32(in[3] >> 16), dest = in[3] >> 48 | LOW16(in[4]) << 16;
    __u64 total = bpf_htons(REPLY_IP);

    WORD(out, 0) = in[0] >> 48 | LOW32(in[1]) << 16 | LOW16(in[0]) << 48;
    WORD(out, 1) = LOW32(in[0] >> 16) | in[1] >> 32 << 32;
    WORD(out, 2) = in[2] >> 16 << 16 | total;
    WORD(out, 3) =
        checksum_change(LOW16(in[3]), LOW16(in[2]), total) | dest << 16 | LOW16(source) << 48;
    WORD(out, 4) = source >> 16 | LOW16(in[4] >> 32) << 16 | LOW16(in[4] >> 16) << 32 |
                   (__u64)bpf_htons(REPLY_UDP) << 48;
    WORD(out, 5) = (in[5] & 0xffff0000) | (__u64)bpf_htons(1) << 48;
}

static __always_inline void write_tail(void *out)
{
    union tail tail = {.text = REPLY_TAIL};
    int i;

#pragma clang loop unroll(full)
    for (i = 0; i < TAIL_WORDS; i++)
        WORD(out, i) = tail.w[i];
    *(__u32 *)(out + 8 * TAIL_WORDS) = (__u32)tail.w[TAIL_WORDS];
    *(__u16 *)(out + 8 * TAIL_WORDS + 4) = (__u16)(tail.w[TAIL_WORDS] >> 32);
}

SEC("xdp")
int floor_reply(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u64 in[HEAD_BYTES / 8];
    int i;

    if (data + HEAD_BYTES > end)
        return XDP_PASS;
#pragma clang loop unroll(full)
    for (i = 0; i < HEAD_BYTES / 8; i++)
        in[i] = WORD(data, i);
    /* IPv4 without options, UDP, our port. */
    if (LOW16(in[1] >> 32) != bpf_htons(ETH_P_IP) || (in[1] >> 48 & 0xff) != 0x45 ||
        in[2] >> 56 != IPPROTO_UDP || LOW16(in[4] >> 32) != bpf_htons(floor_port))
        return XDP_PASS;
    if (bpf_xdp_adjust_head(ctx, (int)(end - data) - REPLY_FRAME))
        return XDP_PASS;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + REPLY_FRAME > end)
        return XDP_ABORTED;
    write_head(data, in);
    /* clang 14 takes the head's words for overwritten by the tail's, and drops them. */
    asm volatile("" ::: "memory");
    write_tail(data + HEAD_BYTES);
    return XDP_TX;
}

SEC("xdp.frags")
int floor_pass(struct xdp_md *ctx)
{
    return XDP_PASS;
}

SEC("tc")
int floor_next(struct __sk_buff *skb)
{
    return -1; /* TC_ACT_UNSPEC */
}

char _license[] SEC("license") = "Dual BSD/GPL";
