/* SPDX-License-Identifier: BSD-3-Clause */
/* The XDP program of several servers: which of them gets which packet, and while it lives. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <stdint.h>
#include <string.h>

#include "bpf/loader/prog_array.h"
#include "bpf/loader/share_ports.h"
#include "t/bpf/wire.h"
#include "t/lib/tap.h"

#include "bpf/loader/share.skel.h"

enum { UDP_FIRST = 11211, UDP_SECOND = 11212, TCP_SECOND = 11213, FRAME = 100 };

/* Verdicts by which the test knows the servers. */
enum { FIRST = XDP_DROP, SECOND = XDP_TX };

/* Where a frame's parts are, with so many tags. */
struct frame {
    uint8_t bytes[FRAME];
    size_t ip, l4;
};

static struct share *skel;

/* A program that returns a constant. */
static int load_constant(int verdict)
{
    LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_XDP,
                .prog_flags = BPF_F_XDP_HAS_FRAGS);
    const struct bpf_insn code[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = verdict},
        {.code = BPF_JMP | BPF_EXIT}};

    return bpf_prog_load(BPF_PROG_TYPE_XDP, "test_server", "GPL", code, 2, &opts);
}

static struct frame make(unsigned int ntags, int v6, uint8_t protocol, unsigned int port)
{
    struct frame frame = {.ip = ETH_HLEN + 4 * ntags};
    unsigned int i;

    for (i = 0; i < ntags; i++)
        put16(frame.bytes + 12 + 4 * i, i + 1 < ntags ? ETH_P_8021AD : ETH_P_8021Q);
    put16(frame.bytes + frame.ip - 2, v6 ? ETH_P_IPV6 : ETH_P_IP);
    frame.bytes[frame.ip] = v6 ? 0x60 : 0x45;
    frame.bytes[frame.ip + (v6 ? 6 : 9)] = protocol;
    frame.l4 = frame.ip + (v6 ? 40 : 20);
    put16(frame.bytes + frame.l4 + 2, port);
    return frame;
}

static uint32_t run(const struct bpf_program *program, const struct frame *frame, size_t n)
{
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame->bytes, .data_size_in = (uint32_t)n,
                .repeat = 1);

    return bpf_prog_test_run_opts(bpf_program__fd(program), &opts) ? UINT32_MAX : opts.retval;
}

static void goes_to(uint32_t want, const struct frame *frame, size_t n, const char *name)
{
    uint32_t got = run(skel->progs.mc_share, frame, n);

    if (!ok(got == want, "%s", name))
        printf("# verdict %u, not %u\n", got, want);
}

static void test_ports(void)
{
    static const struct {
        uint8_t protocol;
        unsigned int port;
        uint32_t want;
        const char *name;
    } rows[] = {
        {IPPROTO_UDP, UDP_FIRST, FIRST, "UDP to the first server"},
        {IPPROTO_UDP, UDP_SECOND, SECOND, "UDP to the second server"},
        {IPPROTO_TCP, TCP_SECOND, SECOND, "TCP to the second server"},
        {IPPROTO_TCP, UDP_FIRST, XDP_PASS, "TCP to a port that is answered over UDP alone"},
        {IPPROTO_UDP, TCP_SECOND, XDP_PASS, "UDP to a port that is answered over TCP alone"},
        {IPPROTO_UDP, 53, XDP_PASS, "another port"},
        {IPPROTO_TCP, 0, XDP_PASS, "port 0, of servers without TCP"},
        {IPPROTO_ICMP, UDP_FIRST, XDP_PASS, "another protocol"},
    };
    struct frame frame;
    unsigned int ntags, i;
    int v6;
    char name[128];

    for (ntags = 0; ntags <= 2; ntags++)
        for (v6 = 0; v6 <= 1; v6++)
            for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                frame = make(ntags, v6, rows[i].protocol, rows[i].port);
                snprintf(name, sizeof(name), "%s, %s, %u tags", rows[i].name, v6 ? "IPv6" : "IPv4",
                         ntags);
                goes_to(rows[i].want, &frame, FRAME, name);
            }
}

static void test_others(void)
{
    struct frame frame = make(3, 0, IPPROTO_UDP, UDP_FIRST);
    size_t n;

    goes_to(XDP_PASS, &frame, FRAME, "three tags");
    frame = make(0, 0, IPPROTO_UDP, 53);
    frame.bytes[frame.ip] = 0x46;
    put16(frame.bytes + frame.l4 + 4 + 2, UDP_FIRST);
    goes_to(FIRST, &frame, FRAME, "behind an option of IPv4");
    frame = make(0, 0, IPPROTO_UDP, UDP_FIRST);
    put16(frame.bytes + frame.ip + 6, 0x2000);
    goes_to(FIRST, &frame, FRAME, "a first fragment");
    put16(frame.bytes + frame.ip + 6, 1);
    goes_to(XDP_PASS, &frame, FRAME, "a later fragment");
    frame = make(0, 0, IPPROTO_UDP, UDP_FIRST);
    frame.bytes[frame.ip] = 0x4f;
    goes_to(XDP_PASS, &frame, frame.l4 + 8, "a header of IPv4 beyond the frame");
    put16(frame.bytes + 12, ETH_P_ARP);
    goes_to(XDP_PASS, &frame, FRAME, "no IP");
    frame = make(1, 1, IPPROTO_UDP, UDP_FIRST);
    for (n = ETH_HLEN; n < frame.l4 + 4; n++)
        if (run(skel->progs.mc_share, &frame, n) != XDP_PASS)
            break;
    ok(n == frame.l4 + 4, "a frame that ends before the port, wherever: %zu", n);
    goes_to(FIRST, &frame, n, "one that ends behind it");
}

static void test_dead(int program)
{
    struct frame frame = make(0, 0, IPPROTO_UDP, UDP_SECOND);
    int own = bpf_map__fd(skel->maps.mc_prog_array);
    uint32_t at = 1;

    ok(!prog_array_set(bpf_map__fd(skel->maps.share_servers), 1,
                       bpf_program__fd(skel->progs.mc_shared)),
       "a server is called through mc_shared");
    goes_to(XDP_PASS, &frame, FRAME, "before it is attached its packets pass");
    ok(!prog_array_set(own, 0, program), "it is attached");
    goes_to(SECOND, &frame, FRAME, "it gets its packets");
    bpf_map_delete_elem(own, &(uint32_t){0});
    goes_to(XDP_PASS, &frame, FRAME, "when it has ended its packets pass");
    bpf_map_delete_elem(bpf_map__fd(skel->maps.share_servers), &at);
    goes_to(XDP_PASS, &frame, FRAME, "also when it is not called any more");
    frame = make(0, 0, IPPROTO_UDP, UDP_FIRST);
    goes_to(FIRST, &frame, FRAME, "the other one gets its own all the time");
}

int main(void)
{
    int first = load_constant(FIRST), second = load_constant(SECOND), servers;
    struct bpf_program *each;

    skel = first < 0 ? NULL : share__open();
    if (!skel)
        skip_all("cannot load programs");
    bpf_object__for_each_program(each, skel->obj) bpf_program__set_flags(each, BPF_F_XDP_HAS_FRAGS);
    if (!ok(!share__load(skel), "the programs are loaded"))
        return done();
    servers = bpf_map__fd(skel->maps.share_servers);
    put16((uint8_t *)&skel->bss->share_ports.udp[0], UDP_FIRST);
    put16((uint8_t *)&skel->bss->share_ports.udp[1], UDP_SECOND);
    put16((uint8_t *)&skel->bss->share_ports.tcp[1], TCP_SECOND);
    ok(!prog_array_set(servers, 0, first) && !prog_array_set(servers, 1, second),
       "two servers are called");
    test_ports();
    test_others();
    test_dead(second);
    share__destroy(skel);
    return done();
}
