/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * floor: the least that any server in XDP can do, and the least that any program can.
 *
 * floor_pass passes everything, floor_next too, on TC ingress. floor_reply turns a UDP packet to
 * floor_port around with a constant reply: the text of a hit of a 16-byte key and a 32-byte value
 * behind the request's id. It looks nothing up, reads nothing of the request but its headers, and
 * grows the packet at the head as the real program does. floor_reply_tcp does the same to a segment
 * of TCP with timestamps and the text of a request: the reply's numbers follow from the segment's.
 * With floor_delay, floor_reply first waits for so many nanoseconds: the BMC paper's dummy cache.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

const volatile __u16 floor_port = 11211; /* host order */
const volatile __u64 floor_delay;        /* nanoseconds */

enum {
    DELAY_LOOKS = 256, /* at the clock, each of which takes some 20 ns */
    HEAD_BYTES = 48,   /* Ethernet, IPv4, UDP, and the frame header's first six bytes */
    REPLY_BYTES = 76,  /* UDP payload */
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
#define REPLY_WORDS "VALUE kkkkkkkkaaaaaaaa 0 32\r\nabcdefghijklmnopqrstuvwxyzabcdef\r\nEND\r\n"
#define REPLY_TAIL  "\0\0" REPLY_WORDS
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

static __always_inline void wait_for_delay(void)
{
    __u64 begin = bpf_ktime_get_ns(), i;

    for (i = 0; i < DELAY_LOOKS && bpf_ktime_get_ns() - begin < floor_delay; i++)
        ;
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
    if (floor_delay)
        wait_for_delay();
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

/* --- TCP ---------------------------------------------------------------------------------- */

enum {
    TCP_TEXT = ETH_HLEN + 20 + 32, /* where the text begins */
    TCP_REPLY = REPLY_BYTES - 8,   /* of text */
    TCP_WORDS = TCP_REPLY / 4,
    TCP_FRAME = TCP_TEXT + TCP_REPLY,
};
_Static_assert(TCP_REPLY % 4 == 0, "whole words");

/* What does not follow from the segment: PSH, ACK, the data offset and the window; timestamps. */
#define TCP_FIXED  (0x1880u | 0xffffu << 16)
#define TCP_STAMPS 0x0a080101u

union tcp_text {
    char text[TCP_REPLY];
    __u32 w[TCP_WORDS];
};
#define HALF(p, at)  (*(__u16 *)((void *)(p) + (at)))
#define QUAD(p, at)  (*(__u32 *)((void *)(p) + (at)))
#define HALVES(word) (((__u64)(word) >> 16) + LOW16(word))

static __always_inline __u16 sum_close(__u64 sum)
{
    sum = LOW16(sum) + (sum >> 16);
    sum = LOW16(sum) + (sum >> 16);
    return (__u16)~sum;
}

/* What the reply has of its request. */
struct tcp_request {
    __u32 macs[3];
    __u32 source, dest, ports, seq, ack, tsval;
};

static __always_inline void write_tcp(void *out, const struct tcp_request *in)
{
    union tcp_text text = {.text = REPLY_WORDS};
    __u64 sum = HALVES(in->source) + HALVES(in->dest);
    int i;

    QUAD(out, 0) = in->macs[1] >> 16 | in->macs[2] << 16;
    QUAD(out, 4) = in->macs[2] >> 16 | in->macs[0] << 16;
    QUAD(out, 8) = in->macs[0] >> 16 | in->macs[1] << 16;
    QUAD(out, 12) = bpf_htons(ETH_P_IP) | 0x45 << 16;
    QUAD(out, 16) = bpf_htons(TCP_FRAME - ETH_HLEN); /* no identification */
    QUAD(out, 20) = bpf_htons(0x4000) | 64 << 16 | IPPROTO_TCP << 24;
    HALF(out, 24) = sum_close(sum + 0x45 + bpf_htons(TCP_FRAME - ETH_HLEN) + bpf_htons(0x4000) +
                              (64 | IPPROTO_TCP << 8));
    QUAD(out, 26) = in->dest;
    QUAD(out, 30) = in->source;
    QUAD(out, 34) = in->ports >> 16 | in->ports << 16;
    QUAD(out, 38) = in->ack;
    QUAD(out, 42) = in->seq;
    QUAD(out, 46) = TCP_FIXED;
    QUAD(out, 54) = TCP_STAMPS;
    QUAD(out, 58) = in->tsval;
    QUAD(out, 62) = in->tsval;
    sum += HALVES(in->ports) + HALVES(in->ack) + HALVES(in->seq) + HALVES(TCP_FIXED) +
           HALVES(TCP_STAMPS) + 2 * HALVES(in->tsval) + bpf_htons(IPPROTO_TCP) +
           bpf_htons(32 + TCP_REPLY);
#pragma clang loop unroll(full)
    for (i = 0; i < TCP_WORDS; i++) {
        sum += HALVES(text.w[i]);
        QUAD(out, TCP_TEXT + 4 * i) = text.w[i];
    }
    QUAD(out, 50) = sum_close(sum);
}

SEC("xdp")
int floor_reply_tcp(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct tcp_request in;

    if (data + TCP_TEXT > end || QUAD(data, 12) != (bpf_htons(ETH_P_IP) | 0x45 << 16) ||
        *(__u8 *)(data + 23) != IPPROTO_TCP || HALF(data, 36) != bpf_htons(floor_port))
        return XDP_PASS;
    in = (struct tcp_request){.macs = {QUAD(data, 0), QUAD(data, 4), QUAD(data, 8)},
                              .source = QUAD(data, 26),
                              .dest = QUAD(data, 30),
                              .ports = QUAD(data, 34),
                              .ack = QUAD(data, 42),
                              .tsval = QUAD(data, 58)};
    in.seq = bpf_htonl(bpf_ntohl(QUAD(data, 38)) + bpf_ntohs(HALF(data, 16)) - 52);
    if (bpf_xdp_adjust_head(ctx, (int)(end - data) - TCP_FRAME))
        return XDP_PASS;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + TCP_FRAME > end)
        return XDP_ABORTED;
    write_tcp(data, &in);
    return XDP_TX;
}

SEC("xdp.frags")
int floor_pass(struct xdp_md *ctx __attribute__((unused)))
{
    return XDP_PASS;
}

SEC("tc")
int floor_next(struct __sk_buff *skb __attribute__((unused)))
{
    return -1; /* TC_ACT_UNSPEC */
}

char _license[] SEC("license") = "Dual BSD/GPL";
