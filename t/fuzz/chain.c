/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chain: the chain before the server's own parser and commands, one datagram at a time.
 *
 *     chain [SECONDS [SEED]]
 *
 * Each datagram, made from a grammar and then damaged, goes through mc_rx_filter. If the chain
 * answers it, the server must give the same answer at this moment, byte by byte. If it is passed,
 * it must be unchanged, and the server's reply leaves through mc_tx_filter, which may keep it. All
 * writes are datagrams too, so an outdated answer is a fault; the clock does not advance, so that
 * nothing expires.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "t/bpf/chain_lab.h"
#include "t/fuzz/datagrams.h"
#include "t/fuzz/served.h"
#include "t/lib/tap.h"

enum {
    FEWEST = 10000, /* datagrams, however slow the machine is */
    SETTLE = 10000, /* nanoseconds that a write over UDP keeps its gate closed */
};

struct run {
    struct server server;
    struct chain_lab chain;
    struct frame request; /* that the server answers now, without its shape */
    uint64_t ndatagrams, nanswered, nmany;
    bool right;
};

/* A datagram of the server leaves. */
static void leaves(void *context, const char *bytes, size_t n)
{
    struct run *run = context;
    struct frame reply;

    frame_answer(&reply, &run->request, bytes + MC_UDP_HEADER, n - MC_UDP_HEADER);
    memcpy(reply.bytes + LAB_HEADERS, bytes, MC_UDP_HEADER);
    frame_shape(&reply, &run->chain.lab.shape);
    run->right &= chain_leaves(&run->chain, &reply, CHAIN_COUNTS);
}

/* The kernel has answered: the server must give the same answer. */
static bool is_right(struct run *run, const struct frame *request, const struct frame *out)
{
    const struct server *server = &run->server;
    struct frame want;

    frame_answer(&want, &run->request, server->out + MC_UDP_HEADER,
                 server->nout < MC_UDP_HEADER ? 0 : server->nout - MC_UDP_HEADER);
    frame_shape(&want, &run->chain.lab.shape);
    if (server->nmessages == 1 && !server->long_reply && frame_answers(out, request, &want))
        return true;
    frame_dump("wanted", &want);
    return false;
}

static void one(struct run *run, const struct datagram *datagram, size_t npadding)
{
    static struct frame request, out;
    uint32_t verdict;

    frame_request(&run->request, "", 0);
    memcpy(run->request.bytes + LAB_HEADERS, datagram->bytes, datagram->n);
    run->request.n = LAB_HEADERS + datagram->n;
    frame_seal(&run->request);
    memset(run->request.bytes + run->request.n, 0xdb, npadding);
    run->request.n += npadding;
    request = run->request;
    frame_shape(&request, &run->chain.lab.shape);
    verdict = lab_run(&run->chain.lab, LOADER_XDP, &request, &out);
    run->ndatagrams++;
    run->server.replied = verdict == 2 ? leaves : NULL;
    server_take(&run->server, datagram->bytes, datagram->n, 1000);
    if (verdict == 3) {
        run->nanswered++;
        run->nmany += out.n > LAB_FRAME && memchr(datagram->bytes + 12, ' ', datagram->n - 12);
        run->right &= is_right(run, &request, &out);
    } else {
        run->right &= verdict == 2 && frame_equal(&out, &request);
    }
    if (!run->right) {
        diag("verdict %u, the server's messages: %u", verdict, run->server.nmessages);
        frame_dump("request", &request);
        frame_dump("kernel", &out);
    }
}

/* Gets are repeated, mostly at once, so that entries are found. */
static void next_datagram(struct datagram *datagram, struct random *random)
{
    static struct datagram asked[64], *last = asked;

    if (draw(random, 3) && last->n) {
        if (!draw(random, 4))
            last = &asked[draw(random, 64)];
        *datagram = *last;
        return;
    }
    datagram_make(datagram, random);
    if (datagram->n <= 12 || memcmp(datagram->bytes + MC_UDP_HEADER, "get ", 4) != 0)
        return;
    last = &asked[draw(random, 64)];
    *last = *datagram;
}

static void open_run(struct run *run)
{
    struct chain_settings settings = chain_lab_settings;

    settings.settle = SETTLE;
    settings.noutstanding = 1 << 16; /* a request that is no get holds its place for seconds */
    server_open(&run->server);
    chain_lab_open(&run->chain, &settings, NULL);
    run->server.context = run;
    run->right = true;
}

int main(int argc, char **argv)
{
    double limit = argc > 1 ? atof(argv[1]) : 3;
    struct random random = {argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : (uint64_t)time(NULL) | 1};
    static struct datagram datagram;
    static struct run run;
    uint64_t start;

    open_run(&run);
    diag("seed %llu", (unsigned long long)random.state);
    start = chain_lab_now();
    while (run.right &&
           (run.ndatagrams < FEWEST || (double)(chain_lab_now() - start) < limit * 1e9)) {
        next_datagram(&datagram, &random);
        if (!datagram.n)
            continue;
        run.chain.lab.shape = (struct shape){.v6 = draw(&random, 3) == 0,
                                             .ntags = draw(&random, 8) ? 0 : 1 + draw(&random, 2)};
        one(&run, &datagram, draw(&random, 8) ? 0 : draw(&random, 20));
    }
    diag("%llu datagrams, %llu fills, %llu answered, %llu of them of several keys",
         (unsigned long long)run.ndatagrams,
         (unsigned long long)chain_lab_count(&run.chain, CHAIN_FILLS),
         (unsigned long long)run.nanswered, (unsigned long long)run.nmany);
    ok(run.right, "the chain's answers are the server's");
    ok(run.nanswered > run.ndatagrams / 100 && run.nmany > 0, "the chain answers some datagrams");
    chain_lab_close(&run.chain);
    server_close(&run.server);
    return done();
}
