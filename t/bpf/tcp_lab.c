/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/bpf/tcp_lab.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "t/bpf/wire.h"
#include "t/lib/tap.h"

enum { LINK = 14, LO = 1, SUM_COMPLETE = 1 << 2 };

static const uint8_t client_mac[6] = {2, 0, 0, 0, 0, 2};

/* --- the programs --------------------------------------------------------------------------- */

static int map_of(struct tcp_lab *lab, const char *name, size_t size)
{
    int map = loader_tcp_map(lab->lab.loader, name);
    struct bpf_map_info info = {0};
    __u32 ninfo = sizeof(info);

    if (map < 0 || bpf_obj_get_info_by_fd(map, &info, &ninfo) || info.value_size != size) {
        ok(false, "%s: a value has %u bytes, not %zu", name, info.value_size, size);
        exit(done());
    }
    return map;
}

void tcp_lab_open(struct tcp_lab *lab)
{
    char error[512];
    int i;

    memset(lab, 0, sizeof(*lab));
    lab->off = SPLICE_LEFT_OUT;
    lab_open_guarded(&lab->lab, 1024, &(struct loader_guard){0}, LOADER_TCP);
    if (loader_open_tcp(lab->lab.loader, TCP_SLOTS, error, sizeof(error)) ||
        loader_wait(lab->lab.loader, error, sizeof(error))) {
        ok(false, "%s", error); /* where the others are loaded these must be */
        exit(done());
    }
    lab->slots = loader_tcp_slots(lab->lab.loader);
    lab->conns = map_of(lab, "mc_tcp_conns", sizeof(struct mc_tcp_conn));
    lab->rtx = map_of(lab, "mc_tcp_rtx", sizeof(struct mc_tcp_rtx));
    for (i = 0; i < 2; i++)
        lab->translation_marks[i] = ntohs(loader_tcp_translation_mark(lab->lab.loader, i));
    lab->lab.control->tcp_port = htons(LAB_PORT);
    tcp_lab_set_alone(lab, false);
}

void tcp_lab_close(struct tcp_lab *lab)
{
    lab_close(&lab->lab);
}

int tcp_lab_main(void (*test)(struct tcp_lab *lab, enum hook hook, bool v6))
{
    struct tcp_lab lab;
    int i;

    tcp_lab_open(&lab);
    for (i = 0; i < 4; i++) {
        tcp_lab_set_unstamped(&lab, i / 2);
        diag("%s timestamps, IPv%d", lab.unstamped ? "without" : "with", i % 2 ? 6 : 4);
        test(&lab, HOOK_XDP, i % 2);
        test(&lab, HOOK_INGRESS, i % 2);
    }
    tcp_lab_close(&lab);
    return done();
}

void tcp_lab_set_alone(struct tcp_lab *lab, bool alone)
{
    lab->alone = alone;
    loader_set_tc(lab->lab.loader, true, alone);
}

void tcp_lab_set_unstamped(struct tcp_lab *lab, bool unstamped)
{
    lab->unstamped = unstamped;
    loader_tcp_set_unstamped(lab->lab.loader, unstamped);
}

static int hook_fd(struct tcp_lab *lab, enum hook hook)
{
    if (hook == HOOK_EGRESS)
        return loader_program_named(lab->lab.loader, "mc_learn_both");
    return loader_program_fd(lab->lab.loader, hook == HOOK_XDP ? LOADER_XDP : LOADER_TC);
}

int tcp_run(struct tcp_lab *lab, enum hook hook, const struct frame *in, struct tcp_run *run)
{
    struct xdp_md xdp = {.data_end = (uint32_t)in->n, .ingress_ifindex = 0};
    struct __sk_buff skb = {
        .mark = run->mark,
        .gso_size = run->gso,
        .gso_segs = run->gso ? ((uint32_t)in->n + run->gso - 1) / run->gso : 0,
    };
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in->bytes, .data_size_in = (uint32_t)in->n,
                .data_out = run->out.bytes, .data_size_out = sizeof(run->out.bytes), .repeat = 1,
                .flags = run->complete ? SUM_COMPLETE : 0);
    int rc;

    opts.ctx_in = opts.ctx_out = hook == HOOK_XDP ? (void *)&xdp : (void *)&skb;
    opts.ctx_size_in = opts.ctx_size_out = hook == HOOK_XDP ? sizeof(xdp) : sizeof(skb);
    rc = bpf_prog_test_run_opts(hook_fd(lab, hook), &opts);
    run->out.n = opts.data_size_out;
    run->verdict = opts.retval;
    run->mark = skb.mark;
    return rc;
}

/* --- segments ------------------------------------------------------------------------------- */

static bool frame_is_v6(const struct frame *frame)
{
    return frame->bytes[12] == 0x86;
}

static size_t ip_size(const struct frame *frame)
{
    return frame_is_v6(frame) ? 40 : (frame->bytes[LINK] & 15u) * 4;
}

uint8_t *segment_tcp(struct frame *frame)
{
    return frame->bytes + LINK + ip_size(frame);
}

size_t segment_size(const struct frame *frame)
{
    const uint8_t *ip = frame->bytes + LINK;

    return frame_is_v6(frame) ? get16(ip + 4) : get16(ip + 2) - ip_size(frame);
}

static uint32_t pseudo_sum(const struct frame *frame)
{
    const uint8_t *ip = frame->bytes + LINK;

    return 6 + (uint32_t)segment_size(frame) +
           (frame_is_v6(frame) ? words_sum(ip + 8, 32) : words_sum(ip + 12, 8));
}

void segment_seal_ip(struct frame *frame)
{
    uint8_t *ip = frame->bytes + LINK;

    put16(ip + 10, 0);
    put16(ip + 10, ~folded(words_sum(ip, ip_size(frame))) & 0xffff);
}

void segment_seal(struct frame *frame, enum sum sum)
{
    uint8_t *tcp = segment_tcp(frame);
    uint32_t words = pseudo_sum(frame);

    put16(tcp + 16, 0);
    if (sum != SUM_PARTIAL)
        words = ~folded(words + words_sum(tcp, segment_size(frame))) & 0xffff;
    put16(tcp + 16, folded(words));
    if (sum == SUM_WRONG)
        tcp[16] ^= 0x10;
}

bool segment_is_partial(const struct frame *frame)
{
    return get16(frame->bytes + LINK + ip_size(frame) + 16) == folded(pseudo_sum(frame));
}

bool segment_is_sound(const struct frame *frame)
{
    const uint8_t *ip = frame->bytes + LINK;
    size_t n = segment_size(frame);

    return LINK + ip_size(frame) + n <= frame->n &&
           (frame_is_v6(frame) || folded(words_sum(ip, ip_size(frame))) == 0xffff) &&
           folded(pseudo_sum(frame) + words_sum(ip + ip_size(frame), n)) == 0xffff;
}

static void put_address(uint8_t *at, bool v6, uint32_t address)
{
    if (v6)
        at[0] = 0xfd;
    put32(at + (v6 ? 12 : 0), address);
}

/* The IP header of a packet with n bytes behind it. */
static void put_ip(uint8_t *ip, const struct segment *segment, size_t n)
{
    uint32_t from = segment->from_server ? LAB_SERVER : LAB_CLIENT;

    if (segment->v6) {
        put32(ip, 0x60000000 | (uint32_t)segment->traffic << 20);
        put16(ip + 4, (unsigned int)n);
        ip[6] = 6;
        ip[7] = 57;
    } else {
        put16(ip, 0x4500 | segment->traffic);
        put16(ip + 2, (unsigned int)n + 20);
        put32(ip + 4, 0xbeef4000);
        put16(ip + 8, 57 << 8 | 6);
    }
    put_address(ip + (segment->v6 ? 8 : 12), segment->v6, from);
    put_address(ip + (segment->v6 ? 24 : 16), segment->v6, from ^ LAB_SERVER ^ LAB_CLIENT);
}

static size_t put_options(uint8_t *at, const struct segment *segment)
{
    if (segment->options) {
        memcpy(at, segment->options, segment->noptions);
        return segment->noptions;
    }
    put32(at, 0x0101080a);
    put32(at + 4, segment->tsval);
    put32(at + 8, segment->tsecr);
    return 12;
}

void segment_frame(struct frame *frame, const struct segment *segment)
{
    uint8_t *ip = frame->bytes + LINK, *tcp = ip + (segment->v6 ? 40 : 20);
    size_t n;

    memset(frame->bytes, 0, 256);
    memcpy(frame->bytes + (segment->from_server ? 0 : 6), client_mac, 6); /* the other is lo's */
    put16(frame->bytes + 12, segment->v6 ? 0x86dd : 0x0800);
    put16(tcp + (segment->from_server ? 0 : 2), LAB_PORT);
    put16(tcp + (segment->from_server ? 2 : 0), LAB_CLIENT_PORT);
    put32(tcp + 4, segment->seq);
    put32(tcp + 8, segment->ack);
    n = 20 + put_options(tcp + 20, segment);
    put16(tcp + 12, (unsigned int)n / 4 << 12 | segment->flags);
    put16(tcp + 14, segment->window);
    if (segment->n)
        memcpy(tcp + n, segment->text, segment->n);
    n += segment->n;
    memset(tcp + n, 0xee, segment->npadding);
    put_ip(ip, segment, n);
    frame->n = (size_t)(tcp - frame->bytes) + n + segment->npadding;
    if (!segment->v6)
        segment_seal_ip(frame);
    segment_seal(frame, segment->sum);
}

/* --- the connection ------------------------------------------------------------------------- */

const uint8_t *find_option(const uint8_t *options, size_t n, uint8_t kind, size_t *length)
{
    size_t at = 0;

    while (at + 2 <= n && options[at]) {
        if (options[at] == 1) {
            at++;
            continue;
        }
        *length = options[at + 1];
        if (*length < 2 || at + *length > n)
            return NULL;
        if (options[at] == kind)
            return options + at;
        at += *length;
    }
    return NULL;
}

const uint8_t *find_stamps(const uint8_t *options, size_t n, bool from_server)
{
    const uint8_t *found;
    size_t length = 0;

    if (n < 12 || (from_server && get32(options) != 0x0101080a))
        return NULL;
    found = find_option(options, n, 8, &length);
    return found && length == 10 ? found + 2 : NULL;
}

uint64_t conn_flow(struct tcp_lab *lab, bool v6, struct mc_tcp_flow *flow)
{
    uint32_t from = htonl(LAB_CLIENT), to = htonl(LAB_SERVER);

    memset(flow, 0, sizeof(*flow));
    flow->client[0] = flow->server[0] = v6 ? 0xfd : 0;
    flow->client[1] = (uint64_t)from << 32 | (v6 ? 0 : 0xffff0000u);
    flow->server[1] = (uint64_t)to << 32 | (v6 ? 0 : 0xffff0000u);
    flow->client_port = htons(LAB_CLIENT_PORT);
    flow->server_port = htons(LAB_PORT);
    return loader_tcp_key(lab->lab.loader, flow);
}

void entry_put(struct tcp_lab *lab, const struct mc_tcp_conn *whole)
{
    uint64_t key = loader_tcp_key(lab->lab.loader, &whole->flow);

    if (!bpf_map_update_elem(lab->conns, &key, whole, BPF_NOEXIST))
        loader_tcp_sieve(lab->lab.loader, &whole->flow, 1);
    else if (bpf_map_update_elem(lab->conns, &key, whole, BPF_EXIST))
        diag("no entry: %s", strerror(errno));
}

void conn_put(struct tcp_lab *lab, bool v6, const struct mc_tcp_conn *conn)
{
    struct mc_tcp_conn whole = *conn;

    conn_flow(lab, v6, &whole.flow);
    entry_put(lab, &whole);
}

bool conn_is_frozen(const struct mc_tcp_conn *conn)
{
    return conn->lock == MC_TCP_FROZEN;
}

bool conn_get(struct tcp_lab *lab, bool v6, struct mc_tcp_conn *conn)
{
    struct mc_tcp_flow flow;
    uint64_t key = conn_flow(lab, v6, &flow);

    if (bpf_map_lookup_elem(lab->conns, &key, conn) || !mc_tcp_is_flow(&conn->flow, &flow))
        return false;
    if (!conn_is_frozen(conn))
        conn->lock = 0;
    memset(&conn->flow, 0, sizeof(conn->flow));
    return true;
}

void conn_delete(struct tcp_lab *lab, bool v6)
{
    struct mc_tcp_flow flow;
    uint64_t key = conn_flow(lab, v6, &flow);

    if (!bpf_map_delete_elem(lab->conns, &key))
        loader_tcp_sieve(lab->lab.loader, &flow, -1);
}

void conn_settle(struct tcp_lab *lab, const struct mc_tcp_conn *conn)
{
    struct mc_tcp_slot *slot = &lab->slots[conn->slot];

    slot->generation = conn->generation;
    slot->boundary = mc_tcp_boundary(conn->rcv_nxt - conn->irs, conn->snd_nxt - conn->iss);
}

uint32_t rtx_place(struct tcp_lab *lab, bool v6, uint32_t slot, uint32_t try)
{
    struct mc_tcp_flow flow;

    conn_flow(lab, v6, &flow);
    return loader_tcp_place(lab->lab.loader, &flow, slot, try);
}

static void empty_kept(struct tcp_lab *lab)
{
    static const struct mc_tcp_rtx none;
    uint32_t i;

    for (i = 0; i < 2 * MC_TCP_RTX_TRIES; i++)
        rtx_put(lab, rtx_place(lab, i % 2, TCP_SLOT, i / 2), &none);
}

void conn_init_at(struct tcp_lab *lab, struct mc_tcp_conn *conn, uint32_t in, uint32_t out,
                  uint32_t base, uint32_t far)
{
    *conn = (struct mc_tcp_conn){
        .flags = MC_TCP_FOLLOWED,
        .delta = {.rx = in, .tx = out},
        .irs = base,
        .iss = ~base - 12345,
        .rcv_nxt = base + far,
        .snd_nxt = ~base - 12345 + far * 3,
        .tsval = htonl(0xfffffff0u),
        .client_ts = 0xfffffff8u,
        .window = htons(0x1234),
        .snd_wscale = 7,
        .mss = 1448,
        .slot = TCP_SLOT,
        .generation = TCP_GENERATION,
        .ifindex = LO,
        .rtx = MC_TCP_RTX_MAX,
        .mac = 0x020000000002, /* client_mac, the same read either way */
    };
    if (lab->unstamped) {
        conn->flags |= MC_TCP_UNSTAMPED;
        conn->client_ts = 0;
    }
    conn->snd_una = conn->snd_nxt;
    conn->last_ack_sent = conn->rcv_nxt;
    conn->born = conn->rcv_nxt;
    empty_kept(lab);
    lab->slots[conn->slot].answered = 0;
    conn_settle(lab, conn);
    conn_put(lab, false, conn);
    conn_put(lab, true, conn);
}

void conn_init(struct tcp_lab *lab, struct mc_tcp_conn *conn, uint32_t in, uint32_t out)
{
    conn_init_at(lab, conn, in, out, 0x10000000, 1000);
}

void segment_in(struct tcp_lab *lab, struct segment *segment, const struct mc_tcp_conn *conn,
                const void *text, size_t n)
{
    lab->slots[conn->slot].binary = n && *(const uint8_t *)text == 0x80;
    *segment = (struct segment){
        .seq = conn->rcv_nxt + conn->delta.rx,
        .ack = conn->snd_nxt + conn->delta.tx,
        .flags = PSH | ACK,
        .window = 500,
        .tsval = conn->client_ts + 16,
        .tsecr = ntohl(conn->tsval),
        .options = lab->unstamped ? "" : NULL,
        .text = text,
        .n = n,
    };
}

void segment_out(struct segment *segment, const struct mc_tcp_conn *conn, const void *text,
                 size_t n)
{
    *segment = (struct segment){
        .from_server = true,
        .seq = conn->snd_nxt,
        .ack = conn->rcv_nxt,
        .flags = PSH | ACK,
        .window = 0x4321,
        .tsval = ntohl(conn->tsval) + 100 -
                 (conn->delta.rx | conn->delta.tx ? (uint32_t)MC_TCP_AHEAD : 0),
        .tsecr = conn->client_ts,
        .options = conn->flags & MC_TCP_UNSTAMPED ? "" : NULL,
        .text = text,
        .n = n,
    };
}

void case_apply(struct tcp_lab *lab, const struct tcp_case *row, struct mc_tcp_conn *conn,
                struct segment *segment)
{
    struct mc_tcp_slot *slot = &lab->slots[conn->slot];

    conn->rcv_nxt += row->state.rcv_nxt;
    conn->snd_nxt += row->state.snd_nxt;
    conn->client_ts += row->state.client_ts;
    conn->mss = row->state.mss ? (uint16_t)row->state.mss : conn->mss;
    conn->snd_wscale = row->state.snd_wscale ? (uint8_t)row->state.snd_wscale : conn->snd_wscale;
    conn->ifindex = row->state.ifindex ? row->state.ifindex : conn->ifindex;
    conn->vlan = row->state.vlan ? (uint16_t)row->state.vlan : conn->vlan;
    conn->mac ^= row->state.mac;
    conn->flags ^= row->state.flags;
    conn_put(lab, segment->v6, conn);
    slot->generation += row->state.generation;
    slot->boundary = row->state.unpublished ? MC_TCP_NONE : slot->boundary + row->state.boundary;
    segment->seq += row->packet.seq + (uint32_t)row->packet.skipped;
    segment->ack += row->packet.ack;
    segment->tsval += row->packet.tsval;
    segment->window += row->packet.window;
    segment->flags = row->packet.flags ? row->packet.flags % FLAGS_NONE : segment->flags;
    segment->traffic = row->packet.traffic;
    if (row->packet.options) {
        segment->options = row->packet.options;
        segment->noptions = row->packet.noptions;
    }
    segment->npadding = row->packet.npadding;
    segment->sum = row->packet.sum;
    segment->text = (const char *)segment->text + row->packet.skipped;
    segment->n = row->packet.bare ? 0 : segment->n - row->packet.skipped;
}

void rtx_get(struct tcp_lab *lab, uint32_t at, struct mc_tcp_rtx *rtx)
{
    if (bpf_map_lookup_elem(lab->rtx, &at, rtx))
        diag("place %u: %s", at, strerror(errno));
}

void rtx_put(struct tcp_lab *lab, uint32_t at, const struct mc_tcp_rtx *rtx)
{
    if (bpf_map_update_elem(lab->rtx, &at, rtx, BPF_ANY))
        diag("place %u: %s", at, strerror(errno));
}

uint64_t rtx_owner(uint32_t reply, uint32_t slot, uint32_t generation)
{
    return (uint64_t)reply << 32 | (uint32_t)(generation << 18) | (slot + 1);
}
