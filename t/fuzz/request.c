/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: the kernel's request parser against the server's, on one store.
 *
 *     request [SECONDS [SEED]]
 *
 * Each datagram, made from a grammar and then damaged, goes through a kernel program
 * (BPF_PROG_TEST_RUN) and through the server's parser and commands. Where the kernel answers, the
 * bytes must be the server's; where it drops, the request must be one to which the server says
 * nothing, as a quiet miss; where it passes, the packet must be what it was. The datagrams of
 * t/fuzz/corpus/udp come first. A datagram that fails is written to request.failed.
 */
#include "t/bpf/lab.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "t/fuzz/datagrams.h"
#include "t/fuzz/served.h"
#include "t/lib/tap.h"

enum verdict { VERDICT_SENT, VERDICT_DROPPED, VERDICT_PASSED, VERDICTS };

/* What the programs return for each. */
static const uint32_t xdp_returns[VERDICTS] = {3, 1, 2}, tc_returns[VERDICTS] = {7, 2, UINT32_MAX};

/* --- one datagram through both ---------------------------------------------- */

/* The request in a datagram, by its first bytes. */
enum asked { ASKED_GET, ASKED_GETS, ASKED_META, ASKED_BINARY, ASKED_OTHER, ASKED };

static enum asked asked_for(const char *bytes, size_t n)
{
    const char *text = bytes + MC_UDP_HEADER;

    if (n < MC_UDP_HEADER + 5)
        return ASKED_OTHER;
    return memcmp(text, "get ", 4) == 0    ? ASKED_GET
           : memcmp(text, "gets ", 5) == 0 ? ASKED_GETS
           : memcmp(text, "mg ", 3) == 0   ? ASKED_META
           : (uint8_t)text[0] == 0x80      ? ASKED_BINARY
                                           : ASKED_OTHER;
}

struct tally {
    uint64_t ndatagrams, nanswered, ndropped;
    uint64_t answered[ASKED], hit[ASKED]; /* hit: by its length it shows a value */
};

static void count_answer(struct tally *tally, const char *bytes, size_t n, size_t nout)
{
    enum asked asked = asked_for(bytes, n);

    tally->nanswered++;
    tally->answered[asked]++;
    tally->hit[asked] += nout > n + 16;
}

/* Whether the server says nothing to a request that is a quiet one. */
static bool is_quiet(const struct server *server, const char *bytes, size_t n)
{
    enum asked asked = asked_for(bytes, n);

    return server->nmessages == 0 && (asked == ASKED_META || asked == ASKED_BINARY);
}

static void keep_failure(const char *bytes, size_t n)
{
    FILE *file = fopen("request.failed", "wb");

    if (file) {
        fwrite(bytes, 1, n, file);
        fclose(file);
    }
}

static bool agree(struct server *server, enum loader_program program, const char *bytes, size_t n,
                  size_t npadding, struct tally *tally)
{
    static struct frame plain, request, out, want;
    const uint32_t *returns = program == LOADER_XDP ? xdp_returns : tc_returns;
    rel_time now;
    uint32_t verdict;
    bool right;

    frame_request(&plain, "", 0);
    memcpy(plain.bytes + LAB_HEADERS, bytes, n);
    plain.n = LAB_HEADERS + n;
    frame_seal(&plain);
    memset(plain.bytes + plain.n, 0xdb, npadding);
    plain.n += npadding;
    request = plain;
    frame_shape(&request, &server->lab.shape);
    /* Both in the same second: an answer may show the seconds that are left. */
    do {
        now = clock_now(&server->clock);
        verdict = lab_run(&server->lab, program, &request, &out);
    } while (clock_now(&server->clock) != now);
    server_take(server, bytes, n, now);
    tally->ndatagrams++;
    if (verdict == returns[VERDICT_SENT]) {
        count_answer(tally, bytes, n, server->nout);
        frame_answer(&want, &plain, server->out + MC_UDP_HEADER,
                     server->nout < MC_UDP_HEADER ? 0 : server->nout - MC_UDP_HEADER);
        frame_shape(&want, &server->lab.shape);
        right =
            server->nmessages == 1 && !server->long_reply && frame_answers(&out, &request, &want);
    } else if (verdict == returns[VERDICT_DROPPED]) {
        tally->ndropped++;
        right = is_quiet(server, bytes, n);
    } else {
        right = verdict == returns[VERDICT_PASSED] && frame_equal(&out, &request);
    }
    if (!right) {
        diag("program %d, verdict %u, the server's messages: %u", program, verdict,
             server->nmessages);
        frame_dump("request", &request);
        frame_dump("kernel", &out);
        frame_dump("server", &want);
        keep_failure(bytes, n);
    }
    return right;
}

/* --- the test ---------------------------------------------------------------- */

enum { FEWEST = 10000 }; /* random datagrams, however slow the machine */

static bool replay(struct server *server, struct tally *tally)
{
    const char *root = getenv("SRCDIR");
    char folder[2048], path[4096], bytes[DATAGRAM_MAX];
    struct dirent *entry;
    bool right = true;
    FILE *file;
    size_t n;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%s/t/fuzz/corpus/udp", root ? root : ".");
    dir = opendir(folder);
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (!file)
            continue;
        n = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
        right = right && agree(server, LOADER_XDP, bytes, n, 0, tally) &&
                agree(server, LOADER_TC, bytes, n, 0, tally);
        if (!right)
            diag("%s", path);
    }
    if (dir)
        closedir(dir);
    return right && tally->ndatagrams > 0;
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"get", "gets", "mg", "binary"};
    double limit = argc > 1 ? atof(argv[1]) : 3, start;
    struct random random = {argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : (uint64_t)time(NULL) | 1};
    static struct server server;
    static struct datagram datagram;
    enum loader_program program;
    struct tally replayed = {0}, made = {0};
    bool right;

    server_open(&server);
    diag("seed %llu", (unsigned long long)random.state);
    right = replay(&server, &replayed);
    ok(right, "kernel and server agree on the %llu datagrams of the corpus",
       (unsigned long long)replayed.ndatagrams);
    start = seconds();
    while (right && (made.ndatagrams < FEWEST || seconds() - start < limit)) {
        datagram_make(&datagram, &random);
        program = draw(&random, 8) ? LOADER_XDP : LOADER_TC;
        /* A test run leaves to TC the tags that the stack would take off. */
        server.lab.shape = (struct shape){
            .v6 = draw(&random, 3) == 0,
            .ntags = program == LOADER_XDP && draw(&random, 8) == 0 ? 1 + draw(&random, 2) : 0};
        right = agree(&server, program, datagram.bytes, datagram.n,
                      draw(&random, 8) ? 0 : draw(&random, 20), &made);
    }
    diag("%llu datagrams, the kernel answered %llu", (unsigned long long)made.ndatagrams,
         (unsigned long long)made.nanswered);
    ok(right, "kernel and server agree on random datagrams");
    for (enum asked asked = ASKED_GET; asked < ASKED_OTHER; asked++)
        ok(made.hit[asked] > FEWEST / 100, "the kernel answered %llu %s, %llu with a value",
           (unsigned long long)made.answered[asked], names[asked],
           (unsigned long long)made.hit[asked]);
    ok(made.ndropped > FEWEST / 1000, "the kernel dropped %llu quiet misses",
       (unsigned long long)made.ndropped);
    ok(made.nanswered > made.ndatagrams / 4, "the kernel answered at least a quarter of them");
    server_close(&server);
    return done();
}
