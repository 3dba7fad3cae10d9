/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams leave joined or singly, and arrive the same. Real sockets on 127.0.0.1. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/datagrams.h"
#include "t/lib/tap.h"

enum { PEERS = 2, OTHER_HOST = 0x7f000002, UNJOINED = 0, PATIENCE_MS = 20000 };

static struct datagrams *out;
static struct sockaddr_storage peers[PEERS];
static int receivers[PEERS];
static char expected[PEERS][DATAGRAMS_MAX * MC_UDP_PAYLOAD];
static size_t nexpected[PEERS];

static int open_on(uint32_t host, struct sockaddr_storage *name)
{
    struct sockaddr_in *address = (struct sockaddr_in *)name;
    socklen_t len = sizeof(*address);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    if (fd < 0 || bind(fd, (struct sockaddr *)address, len) ||
        getsockname(fd, (struct sockaddr *)address, &len)) {
        printf("Bail out! no UDP socket\n");
        exit(1);
    }
    return fd;
}

static void begin(bool joins)
{
    struct sockaddr_storage own;

    for (size_t i = 0; i < PEERS; i++)
        receivers[i] = open_on(INADDR_LOOPBACK, &peers[i]);
    memset(out, 0, sizeof(*out));
    datagrams_init(out, open_on(INADDR_ANY, &own), joins);
}

static void end(void)
{
    for (size_t i = 0; i < PEERS; i++)
        close(receivers[i]);
    close(out->fd);
}

static void see_joined(int fd, bool on)
{
    const int value = on;

    setsockopt(fd, SOL_UDP, UDP_GRO, &value, sizeof(value));
}

/* Adds a datagram of bytes that no other has. */
static void add(size_t peer, size_t len, const struct datagrams_control *control, size_t ncontrol)
{
    static unsigned int seed;
    const struct datagrams_way way = {&peers[peer], sizeof(struct sockaddr_in), control, ncontrol};
    char *bytes = datagrams_add(out, &way, len);

    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(seed * 31 + i);
    seed++;
    memcpy(expected[peer] + nexpected[peer], bytes, len);
    nexpected[peer] += len;
}

/* The next packet, which loopback may bring late: its length, or -1. */
static ssize_t take(size_t peer, char *bytes, size_t size, struct sockaddr_in *from)
{
    struct pollfd ready = {.fd = receivers[peer], .events = POLLIN};
    socklen_t nfrom = sizeof(*from);

    poll(&ready, 1, PATIENCE_MS);
    return recvfrom(receivers[peer], bytes, size, 0, (struct sockaddr *)from, from ? &nfrom : NULL);
}

/* Whether packets of these lengths come, with the bytes that were added, and no more. */
static bool receives(size_t peer, const size_t *lens, size_t n)
{
    static char bytes[1 << 16];
    size_t at = 0;
    bool good = true;

    for (size_t i = 0; i < n; i++) {
        ssize_t len = take(peer, bytes, sizeof(bytes), NULL);

        good = good && len == (ssize_t)lens[i] && at + lens[i] <= nexpected[peer] &&
               memcmp(bytes, expected[peer] + at, lens[i]) == 0;
        if (len != (ssize_t)lens[i])
            diag("packet %zu has %zd bytes, not %zu", i, len, lens[i]);
        at += lens[i];
    }
    good = good && at == nexpected[peer] && recv(receivers[peer], bytes, 1, 0) < 0;
    nexpected[peer] = 0;
    return good;
}

#define RECEIVES(peer, ...)                                                                        \
    receives(peer, (const size_t[]){__VA_ARGS__},                                                  \
             sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t))

static void add_all(const size_t *lens, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        add(0, lens[i], NULL, 0);
        add(1, 50, NULL, 0);
    }
}

static void each_arrives_once_and_in_order(void)
{
    static const size_t lens[] = {100, 100, 100, 30, 30, 1400, 1400, 7, 1, 1, 2};
    enum { N = COUNT(lens) };

    for (int joins = 0; joins < 2; joins++) {
        const char *how = joins ? "joined" : "singly";

        begin(joins);
        add_all(lens, N);
        ok(datagrams_send(out) == 0 && out->n == 0, "%s: all are sent", how);
        ok(receives(0, lens, N), "%s: a peer gets what was added for it", how);
        ok(RECEIVES(1, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50), "%s: and so does another", how);
        end();
    }
}

static void those_of_one_length_leave_as_one(void)
{
    static const size_t lens[] = {100, 100, 100, 30, 30, 31, 5};

    begin(true);
    see_joined(receivers[0], true);
    see_joined(receivers[1], true);
    add_all(lens, COUNT(lens));
    datagrams_send(out);
    ok(RECEIVES(0, 330, 30, 36), "the last of a train may be shorter; a longer one begins another");
    ok(RECEIVES(1, 350), "the other peer's are one packet");
    for (int i = 0; i < DATAGRAMS_MAX; i++)
        add(0, MC_UDP_PAYLOAD, NULL, 0);
    ok(datagrams_full(out) && datagrams_send(out) == 0, "as many as there is room for are sent");
    ok(RECEIVES(0, DATAGRAMS_MAX * MC_UDP_PAYLOAD), "and are one packet");
    end();
    begin(false);
    see_joined(receivers[0], true);
    add(0, 10, NULL, 0);
    add(0, 10, NULL, 0);
    datagrams_send(out);
    ok(RECEIVES(0, 10, 10), "where they must not be joined they are two packets");
    end();
}

/* The kernel joins nothing on a socket that sends no checksums. */
static void what_the_kernel_refuses_to_join_leaves_singly(void)
{
    const int on = 1, off = 0;
    int n = 0;

    begin(true);
    see_joined(receivers[0], true);
    setsockopt(out->fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on));
    for (int i = 0; i < 3; i++) {
        add(0, 40, NULL, 0);
        add(1, 50, NULL, 0);
    }
    ok(datagrams_send(out) == 0, "all of two trains that are refused are sent");
    ok(RECEIVES(0, 40, 40, 40) && RECEIVES(1, 50, 50, 50), "as single datagrams, in order");
    setsockopt(out->fd, SOL_SOCKET, SO_NO_CHECK, &off, sizeof(off));
    for (;; n++) {
        static char bytes[1 << 16];
        ssize_t first;

        add(0, 40, NULL, 0);
        add(0, 40, NULL, 0);
        datagrams_send(out);
        nexpected[0] = 0;
        first = take(0, bytes, sizeof(bytes), NULL);
        if (first == 80 || first != 40 || take(0, bytes, sizeof(bytes), NULL) != 40)
            break;
    }
    ok(n > 1 && n < 1000, "for some time none is joined, then they are again");
    ok(recv(receivers[0], expected[0], 1, 0) < 0, "and no datagram came twice");
    end();
}

static void an_impossible_peer_is_skipped(void)
{
    begin(true);
    ((struct sockaddr_in *)&peers[0])->sin_port = 0;
    for (int i = 0; i < 2; i++) {
        add(0, 40, NULL, 0);
        add(1, 50, NULL, 0);
    }
    ok(datagrams_send(out) == 0 && out->n == 0, "datagrams to port 0 are skipped");
    ok(RECEIVES(1, 50, 50), "the others are sent");
    nexpected[0] = 0;
    end();
}

/* Whether a packet from that host comes. */
static bool comes_from(uint32_t host, size_t len)
{
    struct sockaddr_in from;
    char bytes[100];
    ssize_t n = take(0, bytes, sizeof(bytes), &from);

    return n == (ssize_t)len && from.sin_addr.s_addr == htonl(host);
}

static void each_leaves_from_its_address(void)
{
    const struct in_pktinfo info = {.ipi_spec_dst.s_addr = htonl(OTHER_HOST)};
    const struct cmsghdr head = {
        .cmsg_len = CMSG_LEN(sizeof(info)), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO};
    const size_t ncontrol = CMSG_SPACE(sizeof(info));
    struct datagrams_control control[2];

    for (int i = 0; i < 2; i++) {
        memset(&control[i], 0, sizeof(control[i]));
        memcpy(control[i].bytes, &head, sizeof(head));
        memcpy(control[i].bytes + CMSG_LEN(0), &info, sizeof(info));
    }
    begin(true);
    see_joined(receivers[0], true);
    add(0, 20, &control[0], ncontrol);
    add(0, 20, NULL, 0);
    add(0, 20, NULL, 0);
    add(0, 20, &control[0], ncontrol);
    add(0, 20, &control[1], ncontrol);
    datagrams_send(out);
    ok(comes_from(OTHER_HOST, 60) && comes_from(INADDR_LOOPBACK, 40),
       "only those from one address are joined, and leave from it");
    nexpected[0] = 0;
    end();
}

/* Makes peer i a socket with a short queue, which takes an address of its own choice. */
static socklen_t open_short(size_t i)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t nname = sizeof(name);

    receivers[i] = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    bind(receivers[i], (struct sockaddr *)&name, sizeof(sa_family_t));
    getsockname(receivers[i], (struct sockaddr *)&name, &nname);
    memcpy(&peers[i], &name, sizeof(name));
    return nname;
}

/* Adds to *n how many bytes have come, each one more than the one before. False: one does not. */
static bool counts_on(size_t peer, unsigned int *n)
{
    char byte;

    while (recv(receivers[peer], &byte, 1, 0) == 1)
        if (byte != (char)(*n)++)
            return false;
    return true;
}

/* `nothers` datagrams are to another peer, before the rest, and leave at once. */
static void a_full_socket_keeps_the_rest(unsigned int nothers)
{
    struct datagrams_way way[PEERS];
    unsigned int nleft, before = DATAGRAMS_MAX, n = 0, nother = 0;
    bool good = true;

    memset(out, 0, sizeof(*out));
    datagrams_init(out, socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0), UNJOINED);
    for (size_t i = 0; i < PEERS; i++)
        way[i] = (struct datagrams_way){&peers[i], open_short(i), NULL, 0};
    for (unsigned int i = 0; i < nothers; i++)
        *datagrams_add(out, &way[1], 1) = (char)i;
    for (unsigned int i = 0; i < DATAGRAMS_MAX - nothers; i++)
        *datagrams_add(out, &way[0], 1) = (char)i;
    while ((nleft = datagrams_send(out)) > 0 && nleft < before) {
        before = nleft;
        good = good && counts_on(0, &n);
    }
    good = good && counts_on(0, &n) && counts_on(1, &nother);
    ok(before < DATAGRAMS_MAX - nothers, "behind %u others, a full socket takes some", nothers);
    ok(good && n == DATAGRAMS_MAX - nothers && nother == nothers && nleft == 0,
       "the rest follows, each once and in order");
    end();
}

int main(void)
{
    out = malloc(sizeof(*out));
    if (!out)
        return 1;
    each_arrives_once_and_in_order();
    those_of_one_length_leave_as_one();
    what_the_kernel_refuses_to_join_leaves_singly();
    an_impossible_peer_is_skipped();
    each_leaves_from_its_address();
    a_full_socket_keeps_the_rest(0);
    a_full_socket_keeps_the_rest(1);
    a_full_socket_keeps_the_rest(3);
    free(out);
    return done();
}
