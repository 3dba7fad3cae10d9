/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Behaviour that only attached programs have: frames of a local socket have little room, so TC
 * answers if the reply is long; and that reply leaves through an interface with the chain's egress
 * program. The client's packets have no UDP checksum: TC would answer all requests with a partial
 * checksum.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/load/object.h"
#include "iface/local.h"
#include "t/bpf/chain_lab.h"
#include "t/lib/tap.h"

#include "bpf/chain/chain.skel.h"

enum { LO = 1 }; /* its index in every namespace */

/* A server and its client, in a namespace of their own. */
struct talk {
    struct chain_lab chain;
    int server, client;
    struct loader_link link;
};

static void ask(struct talk *talk, const char *text, uint8_t id)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(LAB_PORT)};
    char request[64] = {0, (char)id, 0, 0, 0, 1, 0, 0};

    memcpy(request + 8, text, strlen(text));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (sendto(talk->client, request, 8 + strlen(text), 0, (struct sockaddr *)(void *)&to,
               sizeof(to)) < 0)
        skip_all(strerror(errno));
}

/* Whether the server received a request; answers it with `text`. */
static bool serve(struct talk *talk, const char *text, size_t n)
{
    char frame[2048], got[2048];
    struct sockaddr_in from;
    socklen_t nfrom = sizeof(from);

    if (recvfrom(talk->server, got, sizeof(got), 0, (struct sockaddr *)(void *)&from, &nfrom) < 8)
        return false;
    memcpy(frame, got, 8);
    memcpy(frame + 8, text, n);
    return sendto(talk->server, frame, 8 + n, 0, (struct sockaddr *)(void *)&from, nfrom) ==
           (ssize_t)(8 + n);
}

static bool told(struct talk *talk, const char *text, size_t n, uint8_t id)
{
    char got[2048];

    return recv(talk->client, got, sizeof(got), 0) == (ssize_t)(8 + n) && got[1] == (char)id &&
           got[0] == 0 && memcmp(got + 8, text, n) == 0;
}

/* Whether the server received no request. */
static bool server_rests(struct talk *talk)
{
    char got[64];

    return recv(talk->server, got, sizeof(got), MSG_DONTWAIT) < 0;
}

static uint64_t counted(struct talk *talk, enum mc_count which)
{
    struct mc_counts counts;

    loader_counts(talk->chain.lab.loader, &counts);
    return counts.count[which];
}

/* TC ingress or egress of lo. */
static void attach(struct talk *talk, const char *name, enum bpf_tc_attach_point point)
{
    DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = LO, .attach_point = point);
    DECLARE_LIBBPF_OPTS(bpf_tc_opts, opts,
                        .prog_fd = loader_program_named(talk->chain.lab.loader, name));
    int rc = bpf_tc_hook_create(&hook);

    if ((rc && rc != -EEXIST) || bpf_tc_attach(&hook, &opts))
        skip_all("cannot attach a filter to lo");
}

static void test_small(struct talk *talk)
{
    static const char reply[] = "VALUE small 0 2\r\nok\r\nEND\r\n";

    ask(talk, "get small\r\n", 1);
    ok(serve(talk, reply, sizeof(reply) - 1) && told(talk, reply, sizeof(reply) - 1, 1),
       "a miss is passed to the server");
    ask(talk, "get small\r\n", 2);
    ok(told(talk, reply, sizeof(reply) - 1, 2) && server_rests(talk) &&
           counted(talk, MC_COUNT_ANSWERED_XDP) == 1,
       "a hit is answered in XDP");
}

static void test_large(struct talk *talk)
{
    struct chain_lab *chain = &talk->chain;
    char value[1200], reply[2048];
    uint64_t fills, not_asked;
    size_t n;

    memset(value, 'v', sizeof(value));
    n = text_value(reply, "large", 5, value, sizeof(value));
    memcpy(reply + n, "END\r\n", 5);
    n += 5;
    ask(talk, "get large\r\n", 3);
    ok(serve(talk, reply, n) && told(talk, reply, n, 3),
       "a get of a long value is passed, and its reply kept");
    ask(talk, "get large\r\n", 4);
    ok(serve(talk, reply, n) && told(talk, reply, n, 4) && counted(talk, MC_COUNT_PASS_ROOM) == 1 &&
           chain_lab_count(chain, CHAIN_FILLS) == 3,
       "without a TC program the next get is passed, and its reply kept again");
    ((struct chain *)chain->lab.loader->object.made)->bss->tc_follows = 1;
    fills = chain_lab_count(chain, CHAIN_FILLS);
    not_asked = chain_lab_count(chain, CHAIN_FILL_NOT_ASKED);
    ask(talk, "get large\r\n", 5);
    ok(told(talk, reply, n, 5) && server_rests(talk) && counted(talk, MC_COUNT_ANSWERED_TC) == 1,
       "with a TC program it answers the get");
    ask(talk, "get large small\r\n", 6);
    memcpy(reply + n - 5, "VALUE small 0 2\r\nok\r\nEND\r\n", 26);
    ok(told(talk, reply, n + 21, 6) && server_rests(talk) &&
           counted(talk, MC_COUNT_ANSWERED_TC) == 2,
       "it answers a get of several keys, too");
    ok(chain_lab_count(chain, CHAIN_FILLS) == fills &&
           chain_lab_count(chain, CHAIN_FILL_NOT_ASKED) == not_asked,
       "a reply made by TC is not taken for the server's");
}

int main(void)
{
    static const struct mc_local local = {.n4 = 1, .v4 = {__builtin_bswap32(INADDR_LOOPBACK)}};
    struct talk talk;

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0 || system("ip link set lo up") != 0)
        skip_all("needs root");
    chain_lab_open(&talk.chain, NULL, NULL);
    local_publish(talk.chain.lab.control, &local);
    talk.server = lab_socket(LAB_PORT);
    talk.client = lab_socket(0);
    setsockopt(talk.client, SOL_SOCKET, SO_NO_CHECK, &(int){1}, sizeof(int));
    loader_link_init(&talk.link, LO);
    attach(&talk, "mc_tx_filter", BPF_TC_EGRESS);
    attach(&talk, "mc_answer_large", BPF_TC_INGRESS);
    if (loader_attach_xdp(talk.chain.lab.loader, &talk.link, true))
        skip_all("cannot attach generic XDP to lo");
    chain_lab_clear(&talk.chain); /* attaching closes the table's gate for a while */
    test_small(&talk);
    test_large(&talk);
    loader_detach(&talk.link);
    close(talk.client);
    close(talk.server);
    chain_lab_close(&talk.chain);
    return done();
}
