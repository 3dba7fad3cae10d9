/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/bpf/tcp_pair.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "t/bpf/wire.h"
#include "t/lib/tap.h"

enum { LINK = 14 };

static void pair_network(void)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        skip_all("needs root");
    if (system("ip link set lo up && ip address add 10.0.0.1/32 dev lo && "
               "ip address add 10.0.0.2/32 dev lo && "
               "ip address add fd00::a00:1/128 dev lo nodad && "
               "ip address add fd00::a00:2/128 dev lo nodad") != 0)
        skip_all("ip does not work");
}

static void must(bool right, const char *what)
{
    if (right)
        return;
    ok(false, "%s: %m", what);
    exit(done());
}

/* A socket that is bound to one of the lab's addresses. */
static int bound(const struct pair *pair, bool server)
{
    struct sockaddr_storage name;
    struct sockaddr_in *in = (struct sockaddr_in *)&name;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&name;
    uint32_t address = htonl(server ? LAB_SERVER : LAB_CLIENT);
    int one = 1, fd = socket(pair->v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);

    memset(&name, 0, sizeof(name));
    in->sin_family = pair->v6 ? AF_INET6 : AF_INET;
    in->sin_port = htons(server ? LAB_PORT : LAB_CLIENT_PORT);
    if (pair->v6) {
        in6->sin6_addr.s6_addr[0] = 0xfd;
        memcpy(in6->sin6_addr.s6_addr + 12, &address, 4);
    } else {
        in->sin_addr.s_addr = address;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    must(fd >= 0 && !bind(fd, (struct sockaddr *)&name, sizeof(name)), "bind");
    return fd;
}

static void pair_open(struct pair *pair, bool v6)
{
    *pair = (struct pair){.v6 = v6, .client = -1, .server = -1};
    pair->listener = bound(pair, true);
    must(!listen(pair->listener, 8), "listen");
    pair->raw = socket(v6 ? AF_INET6 : AF_INET, SOCK_RAW, IPPROTO_RAW);
    must(pair->raw >= 0, "a raw socket");
}

void pair_connect(struct pair *pair)
{
    struct sockaddr_storage name;
    socklen_t n = sizeof(name);

    pair->client = bound(pair, false);
    must(!getsockname(pair->listener, (struct sockaddr *)&name, &n), "getsockname");
    must(!connect(pair->client, (struct sockaddr *)&name, n), "connect");
    pair->server = accept(pair->listener, NULL, NULL);
    must(pair->server >= 0, "accept");
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int repair(int fd, int how)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &how, sizeof(how));
}

void pair_vanish(struct pair *pair)
{
    must(!repair(pair->client, TCP_REPAIR_ON) && !repair(pair->server, TCP_REPAIR_ON), "repair");
    close_end(&pair->client);
    close_end(&pair->server);
}

static void pair_close(struct pair *pair)
{
    close_end(&pair->client);
    close_end(&pair->server);
    close_end(&pair->listener);
    close_end(&pair->raw);
}

int pair_main(void (*test)(struct tcp_lab *lab, struct pair *pair))
{
    struct tcp_lab lab;
    struct pair pair;
    int v6;

    pair_network();
    tcp_lab_open(&lab);
    for (v6 = 0; v6 < 2; v6++) {
        tap_under("IPv%d: ", v6 ? 6 : 4);
        pair_open(&pair, v6);
        test(&lab, &pair);
        pair_close(&pair);
    }
    tcp_lab_close(&lab);
    return done();
}

uint64_t pair_cookie(int socket)
{
    uint64_t cookie = 0;
    socklen_t n = sizeof(cookie);

    must(!getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &n), "a cookie");
    return cookie;
}

/* The number of the next byte that the server receives, or sends. */
static uint32_t number(const struct pair *pair, int queue)
{
    uint32_t seq = 0;
    socklen_t n = sizeof(seq);

    must(!repair(pair->server, TCP_REPAIR_ON) &&
             !setsockopt(pair->server, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue)) &&
             !getsockopt(pair->server, IPPROTO_TCP, TCP_QUEUE_SEQ, &seq, &n) &&
             !repair(pair->server, TCP_REPAIR_OFF_NO_WP),
         "a number");
    return seq;
}

uint32_t pair_next(const struct pair *pair)
{
    return number(pair, TCP_RECV_QUEUE);
}

void pair_forge(struct pair *pair, uint16_t port, unsigned int flags, uint16_t urgent,
                const char *text)
{
    static struct frame frame;
    struct segment segment = {
        .v6 = pair->v6, .flags = flags, .window = 500, .options = "", .text = text};
    struct sockaddr_storage name;
    socklen_t n = sizeof(name);
    uint8_t *tcp;

    segment.n = strlen(text);
    if (pair->server >= 0) {
        segment.seq = pair_next(pair);
        segment.ack = number(pair, TCP_SEND_QUEUE);
    }
    segment_frame(&frame, &segment);
    tcp = segment_tcp(&frame);
    put16(tcp, port);
    put16(tcp + 18, urgent);
    segment_seal(&frame, SUM_WHOLE);
    must(!getsockname(pair->listener, (struct sockaddr *)&name, &n), "getsockname");
    ((struct sockaddr_in *)&name)->sin_port = 0; /* at the same place in both */
    must(sendto(pair->raw, frame.bytes + LINK, frame.n - LINK, 0, (struct sockaddr *)&name, n) > 0,
         "a raw packet");
}

const char *pair_read(const struct pair *pair)
{
    static char text[64];
    ssize_t n = recv(pair->server, text, sizeof(text) - 1, MSG_DONTWAIT);

    text[n > 0 ? n : 0] = 0;
    return text;
}
