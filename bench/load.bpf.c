/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * load: an open-loop request generator inside the kernel, and the sink of its replies.
 *
 * load_generate runs as a BPF_PROG_TEST_RUN program in live-frames mode. The kernel recycles the
 * frames of such a run without restoring them, so the program writes the whole request anew, with
 * the next key. Then it either calls the server's program, whose verdict the kernel carries out (a
 * reply leaves through the server's interface; without a program the request goes up to the
 * server's sockets), or sends the request into the veth pair, for the veth driver to call the
 * server's program on the other end.
 *
 * load_sink runs on the client's end of the pair: it counts the replies to the generator's ports,
 * by their first datagrams, and drops them. It passes everything else, which is also what makes
 * veth accept XDP_TX from the other end.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bench/keys.h"
#include "bench/load.h"

enum {
    UDP_AT = ETH_HLEN + sizeof(struct iphdr),
    TEXT_AT = UDP_AT + sizeof(struct udphdr) + 8,
    CHECK_AT = UDP_AT + 6,
    ID_AT = UDP_AT + sizeof(struct udphdr),
    SEQUENCE_AT = ID_AT + 2,
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct load_state);
} load_state SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct load_replies);
} load_replies SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} load_server SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, LOAD_PICKS / LOAD_PICKS_ROW);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, LOAD_PICKS_ROW * sizeof(__u32));
} load_picks SEC(".maps");

/* False while the next request is not due yet. */
static __always_inline int take_turn(struct load_state *state)
{
    if (state->interval_ns) {
        __u64 now = bpf_ktime_get_ns();

        if (now < state->due_ns)
            return 0;
        /* A generator that fell far behind starts anew instead of bursting. */
        if (now - state->due_ns > 10000000)
            state->due_ns = now;
        state->due_ns += state->interval_ns;
    }
    state->sent++;
    return 1;
}

/*
 * A recycled frame still has the length that it came back with, if its start did not move (Linux
 * 6.18). The kernel sets the length anew only for a program that changed it.
 */
static __always_inline int send_through(struct xdp_md *ctx, __u32 ifindex)
{
    if (bpf_xdp_adjust_tail(ctx, -LOAD_TRIM))
        return XDP_ABORTED;
    return bpf_redirect(ifindex, 0);
}

/* The picks are read one after the other, which costs next to nothing for each. */
static __always_inline __u32 next_index(struct load_state *state, __u64 random)
{
    __u32 at, row, *picks;

    if (state->turn == LOAD_UNIFORM)
        return bench_below(random, state->nkeys) | state->miss;
    at = state->turn & (LOAD_PICKS - 1);
    state->turn = at + 1;
    row = at / LOAD_PICKS_ROW;
    picks = bpf_map_lookup_elem(&load_picks, &row);
    return picks ? picks[at % LOAD_PICKS_ROW] : 0;
}

/* The checksum of a request with this key, source port and id. */
static __always_inline __u16 checksum(const struct load_state *state, __u64 tail, __u16 port,
                                      __u16 id)
{
    __u64 sum = (tail >> 32) + (__u32)tail;

    sum = (sum << state->tail_shift) + state->sum + port + id;
    sum = (sum >> 32) + (__u32)sum;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
    return sum ? sum : 0xffff;
}

SEC("xdp")
int load_generate(struct xdp_md *ctx)
{
    __u32 zero = 0;
    struct load_state *state = bpf_map_lookup_elem(&load_state, &zero);
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    __u64 random, at, tail;
    __u16 port;

    if (!state || !take_turn(state))
        return XDP_DROP;
    if (state->nframe < TEXT_AT || state->nframe > LOAD_FRAME_MAX)
        return XDP_ABORTED;
    if (bpf_xdp_store_bytes(ctx, 0, state->frame, state->nframe) < 0)
        return XDP_ABORTED;
    random = bench_random(state->random);
    state->random = random;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    at = state->key_tail;
    if (at > LOAD_FRAME_MAX || data + at + BENCH_KEY_TAIL > end || data + TEXT_AT > end)
        return XDP_ABORTED;
    tail = bench_key_tail(next_index(state, random));
    port = bpf_htons(BENCH_PORT_FIRST + ((random >> 20) & (BENCH_PORTS - 1)));
    *(__u64 *)(data + at) = tail;
    *(__u16 *)(data + UDP_AT) = port;
    *(__u16 *)(data + ID_AT) = (__u16)state->sent;
    *(__u16 *)(data + CHECK_AT) = checksum(state, tail, port, (__u16)state->sent);
    if (state->ifindex)
        return send_through(ctx, state->ifindex);
    bpf_tail_call(ctx, &load_server, 0);
    return XDP_PASS;
}

static __always_inline void count_reply(void *text, void *end)
{
    __u32 zero = 0;
    struct load_replies *replies = bpf_map_lookup_elem(&load_replies, &zero);

    if (!replies)
        return;
    if (text + 4 > end)
        replies->other++;
    else if (*(__u32 *)text == bpf_htonl(0x56414c55)) /* VALU */
        replies->hits++;
    else if (*(__u32 *)text == bpf_htonl(0x454e440d)) /* END\r */
        replies->misses++;
    else
        replies->other++;
}

SEC("xdp")
int load_sink(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = data + ETH_HLEN;
    struct udphdr *udp = data + UDP_AT;

    if ((void *)(udp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || *(__u8 *)ip != 0x45 ||
        ip->protocol != IPPROTO_UDP)
        return XDP_PASS;
    if ((__u16)(bpf_ntohs(udp->dest) - BENCH_PORT_FIRST) >= BENCH_PORTS)
        return XDP_PASS;
    if (data + TEXT_AT > end || !*(__u16 *)(data + SEQUENCE_AT))
        count_reply(data + TEXT_AT, end);
    return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
