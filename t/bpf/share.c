/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The XDP program of several servers: which of them gets which packet, and while it lives. How they
 * meet: who is told what, and what is believed.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "bpf/attach/attach.h"
#include "bpf/attach/prog_array.h"
#include "bpf/attach/share_ports.h"
#include "t/bpf/loaded.h"
#include "t/bpf/wire.h"
#include "t/lib/tap.h"

#include "bpf/attach/share.skel.h"

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

    for (unsigned int i = 0; i < ntags; i++)
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
    char name[128];

    for (unsigned int ntags = 0; ntags <= 2; ntags++)
        for (int v6 = 0; v6 <= 1; v6++)
            for (unsigned int i = 0; i < COUNT(rows); i++) {
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

    ok(!prog_array_set(bpf_map__fd(skel->maps.mc_servers), 1,
                       bpf_program__fd(skel->progs.mc_shared)),
       "a server is called through mc_shared");
    goes_to(XDP_PASS, &frame, FRAME, "before it is attached its packets pass");
    ok(!prog_array_set(own, 0, program), "it is attached");
    goes_to(SECOND, &frame, FRAME, "it gets its packets");
    bpf_map_delete_elem(own, &(uint32_t){0});
    goes_to(XDP_PASS, &frame, FRAME, "when it has ended its packets pass");
    bpf_map_delete_elem(bpf_map__fd(skel->maps.mc_servers), &at);
    goes_to(XDP_PASS, &frame, FRAME, "also when it is not called any more");
    frame = make(0, 0, IPPROTO_UDP, UDP_FIRST);
    goes_to(FIRST, &frame, FRAME, "the other one gets its own all the time");
}

/* --- meeting --------------------------------------------------------------------- */

enum {
    ASK = 0x6d633032, /* as bpf/attach/share.c has them */
    SHARES,
    STRANGERS = 2, /* connections that say nothing, of those that are taken in a second */
    CROWD = 10,    /* that many come */
    DESCRIPTORS = 3,
    SERVER_PORT = 11311,
};

struct message {
    uint32_t kind, ifindex, generic, nservers;
    uint16_t udp, tcp;
};

static char folder[] = "/tmp/mc-share-XXXXXX";

/* The name of the server with this number in this network namespace. */
static struct sockaddr_un name_of(unsigned int number)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    uint64_t netns = 0;
    socklen_t n = sizeof(netns);

    getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &netns, &n);
    close(fd);
    snprintf(name.sun_path, sizeof(name.sun_path), "%s/%" PRIu64 "-%u", folder, netns, number);
    return name;
}

static int call(unsigned int number)
{
    struct sockaddr_un name = name_of(number);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

    if (connect(fd, (const struct sockaddr *)&name, sizeof(name)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void say(int fd, const struct message *message, const int *fds, size_t n)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(n * sizeof(int)),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {(void *)(uintptr_t)message, sizeof(*message)};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

    if (n) {
        packet.msg_control = &control;
        packet.msg_controllen = CMSG_SPACE(n * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
    }
    sendmsg(fd, &packet, MSG_NOSIGNAL);
}

/* Receives a message; returns with how many descriptors, which it closes. -1: there came none. */
static int hear(int fd, struct message *message)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } control;
    struct iovec part = {message, sizeof(*message)};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control)};
    const struct cmsghdr *header;
    int fds[DESCRIPTORS], n, i;

    if (recvmsg(fd, &packet, 0) != sizeof(*message))
        return -1;
    header = CMSG_FIRSTHDR(&packet);
    n = header ? (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;
    memcpy(fds, header ? CMSG_DATA(header) : (const void *)fds, (size_t)n * sizeof(int));
    for (i = 0; i < n; i++)
        close(fds[i]);
    return n;
}

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* What a server tells somebody who shows this descriptor; in a second in which it has told few. */
static int told(struct loader *loader, int ifindex, int shown)
{
    struct message message = {.kind = ASK, .ifindex = (uint32_t)ifindex};
    int fd, n;

    while (loader_listener(loader) < 0)
        poll(NULL, 0, 10);
    fd = call(0);
    say(fd, &message, &shown, shown >= 0);
    loader_serve(loader);
    n = hear(fd, &message);
    close(fd);
    return n;
}

static void test_who_is_told(struct loader *loader, int ifindex, int program)
{
    int map = bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "test", 4, 8, 1, NULL);
    const struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
                                    {.code = BPF_JMP | BPF_EXIT}};
    int filter = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "test", "GPL", code, 2, NULL);

    ok(told(loader, ifindex, program) == DESCRIPTORS,
       "who shows an XDP program is told how to join");
    ok(told(loader, ifindex, -1) < 0, "who shows nothing is told nothing");
    ok(told(loader, ifindex, map) < 0,
       "nor who shows a map, whose type has the number of that of XDP programs");
    ok(told(loader, ifindex, filter) < 0,
       "nor who shows a program that processes without capabilities may load");
    ok(told(loader, ifindex, STDOUT_FILENO) < 0, "nor who shows a file");
    ok(told(loader, ifindex, program) == DESCRIPTORS, "after that servers are told again");
    close(map);
    close(filter);
}

/* How many of these connections the other end has closed. */
static int closed(const int *fds, int n)
{
    int i, found = 0;

    for (i = 0; i < n; i++) {
        struct pollfd one = {.fd = fds[i]};

        poll(&one, 1, 0);
        found += (one.revents & POLLHUP) != 0;
    }
    return found;
}

static void test_strangers(struct loader *loader)
{
    int fds[CROWD], i, n;
    time_t begin = seconds();

    for (i = 0; i < CROWD; i++)
        fds[i] = call(0);
    for (i = 0; i < CROWD; i++)
        loader_serve(loader);
    n = closed(fds, CROWD);
    ok(n > 0 && n <= STRANGERS * (1 + (int)(seconds() - begin)),
       "of %d who say nothing a server takes two in a second: %d", CROWD, n);
    for (i = 0; i < CROWD; i++)
        close(fds[i]);
}

/* A server that hands out what it likes. */
struct liar {
    int listener;
    int fds[DESCRIPTORS];
    uint32_t asked;
};

static void *lie(void *arg)
{
    struct liar *liar = arg;
    struct message message;
    int fd;

    while ((fd = accept(liar->listener, NULL, NULL)) >= 0) {
        if (hear(fd, &message) >= 0 && message.kind == ASK) {
            __atomic_fetch_add(&liar->asked, 1, __ATOMIC_RELAXED);
            message.kind = SHARES;
            message.generic = 1;
            say(fd, &message, liar->fds, DESCRIPTORS);
        }
        close(fd);
    }
    return NULL;
}

static uint32_t program_of(int link)
{
    struct bpf_link_info info = {0};
    uint32_t ninfo = sizeof(info);

    return bpf_obj_get_info_by_fd(link, &info, &ninfo) ? 0 : info.prog_id;
}

static int attach(int program, int ifindex)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_SKB_MODE);

    return bpf_link_create(program, ifindex, BPF_XDP, &opts);
}

/* Of a server that hands out a link to another interface than that which was asked for. */
static void test_any_descriptor(struct loader *loader, int program, int ifindex, int other)
{
    int busy = attach(program, ifindex), links = attach(program, other), rc;
    uint32_t before = program_of(links);
    struct liar liar = {.listener = socket(AF_UNIX, SOCK_SEQPACKET, 0),
                        .fds = {program, links, program}};
    struct sockaddr_un name = name_of(1);
    struct loader_link link;
    pthread_t thread;

    if (!ok(busy >= 0 && links >= 0 && before &&
                !bind(liar.listener, (const struct sockaddr *)&name, sizeof(name)) &&
                !listen(liar.listener, 8),
            "there is a server that lies"))
        return;
    pthread_create(&thread, NULL, lie, &liar);
    loader_link_init(&link, ifindex);
    rc = loader_attach_xdp(loader, &link, true);
    ok(rc == -EBUSY && liar.asked, "a link to another interface is not believed: %d", rc);
    ok(program_of(links) == before, "its program stays");
    loader_detach_xdp(&link);
    shutdown(liar.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(liar.listener);
    close(busy);
    close(links);
}

static void test_meeting(int program)
{
    char error[512];
    struct loader *loader = loader_open(error, sizeof(error));
    struct loader_link link;
    struct stat is;
    int lo, other;

    if (!loader || loader_wait(loader, error, sizeof(error)) || !mkdtemp(folder) ||
        system("ip link set lo up && ip link add sh0 type veth peer name sh1") != 0)
        skip_all("no interfaces");
    lo = (int)if_nametoindex("lo");
    other = (int)if_nametoindex("sh0");
    loader_control(loader)->port = htons(SERVER_PORT);
    ok(!loader_listen(loader, folder, 1) && loader_listener(loader) < 0,
       "a server has a socket, and does not listen before it attaches");
    loader_begin_to_serve(loader);
    loader_link_init(&link, lo);
    ok(!loader_attach_xdp(loader, &link, true) && loader_listener(loader) >= 0,
       "it is attached, and listens");
    ok(!stat(name_of(0).sun_path, &is) && is.st_uid == geteuid() && is.st_gid == 1 &&
           (is.st_mode & 0777) == 0660,
       "its socket is for its owner and the group: %o", is.st_mode);
    test_who_is_told(loader, lo, program);
    test_strangers(loader);
    loader_detach_xdp(&link);
    test_any_descriptor(loader, program, lo, other);
    loader_close(loader);
    unlink(name_of(0).sun_path);
    unlink(name_of(1).sun_path);
    rmdir(folder);
}

int main(void)
{
    int first = load_constant(FIRST), second = load_constant(SECOND), servers;
    struct bpf_program *each;

    skel = first < 0 || unshare(CLONE_NEWNET) ? NULL : share__open();
    if (!skel)
        skip_all("cannot load programs");
    bpf_object__for_each_program(each, skel->obj) bpf_program__set_flags(each, BPF_F_XDP_HAS_FRAGS);
    if (!ok(!share__load(skel), "the programs are loaded"))
        return done();
    servers = bpf_map__fd(skel->maps.mc_servers);
    put16((uint8_t *)&skel->bss->share_ports.udp[0], UDP_FIRST);
    put16((uint8_t *)&skel->bss->share_ports.udp[1], UDP_SECOND);
    put16((uint8_t *)&skel->bss->share_ports.tcp[1], TCP_SECOND);
    ok(!prog_array_set(servers, 0, first) && !prog_array_set(servers, 1, second),
       "two servers are called");
    test_ports();
    test_others();
    test_dead(second);
    test_meeting(first);
    share__destroy(skel);
    return done();
}
