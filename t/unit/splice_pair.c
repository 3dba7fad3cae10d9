/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/unit/splice_pair.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "splice/swap.h"
#include "t/lib/tap.h"

enum { CHUNK = 1 << 16, SYN = 2, TCP_FLAGS_AT = 13 };

/* With segments of a usual size, so that a small window has several. */
bool pair_enter_namespace(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNET) == 0 &&
           system("ip link set lo mtu 1500 up && ip addr add fe80::1/64 dev lo nodad") == 0;
}

static struct sockaddr_in6 loopback6(enum family family, socklen_t *n)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct in6_addr link_local = {.s6_addr = {0xfe, 0x80, [15] = 1}};
    struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

    *n = family == V4 ? sizeof(in) : sizeof(in6);
    if (family == MAPPED)
        in6.sin6_addr = mapped;
    if (family == LINK_LOCAL) {
        in6.sin6_addr = link_local;
        in6.sin6_scope_id = if_nametoindex("lo");
    }
    if (family == V4)
        memcpy(&in6, &in, sizeof(in));
    return in6;
}

void pair_set(int fd, int level, int option, int value)
{
    if (setsockopt(fd, level, option, &value, sizeof(value)))
        diag("setsockopt %d %d: %s", level, option, strerror(errno));
}

int pair_get(int fd, int level, int option)
{
    int value = -1;
    socklen_t n = sizeof(value);

    getsockopt(fd, level, option, &value, &n);
    return value;
}

static void filter(int fd, struct sock_filter *code, unsigned short n)
{
    struct sock_fprog program = {.len = n, .filter = code};

    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* It gets what begins a connection, and nothing else. */
static void take_only_syns(int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };

    filter(fd, code, COUNT(code));
}

void pair_deafen(int fd)
{
    swap_deafen(fd);
}

void pair_unfilter(int fd)
{
    pair_set(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
}

int pair_listen(const struct sockaddr *address, socklen_t n)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    pair_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->sa_family == AF_INET6)
        pair_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(fd, address, n) == 0 && listen(fd, 16) == 0)
        return fd;
    close(fd);
    return -1;
}

struct pair pair_open(enum family family, int rcvbuf)
{
    struct pair pair = {.listener = -1};
    socklen_t n;
    struct sockaddr_in6 name = loopback6(family, &n);

    pair.listener = pair_listen((struct sockaddr *)&name, n);
    getsockname(pair.listener, (struct sockaddr *)&name, &n);
    pair.client = socket(name.sin6_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (rcvbuf)
        pair_set(pair.client, SOL_SOCKET, SO_RCVBUF, rcvbuf);
    if (connect(pair.client, (struct sockaddr *)&name, n))
        diag("connect: %s", strerror(errno));
    pair.server = accept4(pair.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    pair_set(pair.client, IPPROTO_TCP, TCP_NODELAY, 1);
    pair_set(pair.server, IPPROTO_TCP, TCP_NODELAY, 1);
    take_only_syns(pair.listener);
    return pair;
}

void pair_close(struct pair *pair)
{
    close(pair->client);
    close(pair->server);
    close(pair->listener);
}

void pair_make(char *text, size_t n, enum side side, uint32_t at)
{
    size_t i;

    for (i = 0; i < n; i++)
        text[i] = (char)((at + i + side * 77) * 2654435761u >> 23);
}

int pair_fd(const struct pair *pair, enum side side)
{
    return side == CLIENT ? pair->client : pair->server;
}

size_t pair_say(struct pair *pair, enum side side, size_t n)
{
    static _Thread_local char text[CHUNK];
    size_t left = n, part;
    ssize_t sent = 1;

    while (left && sent > 0) {
        part = left < CHUNK ? left : CHUNK;
        pair_make(text, part, side, pair->sent[side]);
        sent = send(pair_fd(pair, side), text, part, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            pair->sent[side] += (uint32_t)sent;
            left -= (size_t)sent;
        }
    }
    return n - left;
}

bool pair_hears(struct pair *pair, enum side side)
{
    static _Thread_local char text[CHUNK], wanted[CHUNK];
    enum side other = side == CLIENT ? SERVER : CLIENT;
    struct pollfd poll_on = {pair_fd(pair, side), POLLIN, 0};
    ssize_t n;

    while (pair->received[side] != pair->sent[other]) {
        if (poll(&poll_on, 1, PAIR_PATIENCE_MS) <= 0) {
            diag("nothing comes after %u of %u bytes", pair->received[side], pair->sent[other]);
            return false;
        }
        n = recv(poll_on.fd, text, sizeof(text), MSG_DONTWAIT);
        if (n <= 0) {
            diag("after %u bytes: %s", pair->received[side], n ? strerror(errno) : "the end");
            return false;
        }
        pair_make(wanted, (size_t)n, other, pair->received[side]);
        if (memcmp(text, wanted, (size_t)n) != 0) {
            diag("wrong bytes within %zd after %u", n, pair->received[side]);
            return false;
        }
        pair->received[side] += (uint32_t)n;
    }
    return true;
}

bool pair_works(struct pair *pair)
{
    bool good = pair_hears(pair, SERVER) && pair_hears(pair, CLIENT);

    pair_say(pair, CLIENT, PAIR_ASKED);
    good = good && pair_hears(pair, SERVER);
    pair_say(pair, SERVER, PAIR_ANSWERED);
    return good && pair_hears(pair, CLIENT);
}

uint32_t pair_una(int fd)
{
    uint32_t number = 0;
    socklen_t n = sizeof(number);
    int nout = 0;

    pair_set(fd, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_ON);
    pair_set(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE);
    getsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &number, &n);
    ioctl(fd, SIOCOUTQ, &nout);
    pair_set(fd, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
    return number - (uint32_t)nout;
}

uint16_t pair_port(const struct pair *pair)
{
    struct sockaddr_in6 name;
    socklen_t n = sizeof(name);

    getsockname(pair->listener, (struct sockaddr *)&name, &n);
    return ntohs(name.sin6_port); /* at the same place in IPv4's */
}
