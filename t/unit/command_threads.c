/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads with a command_local each, on few keys of one store, while another thread asks for
 * statistics. A value contains its key, so that a mixed-up answer is seen; ThreadSanitizer finds
 * the rest.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "t/unit/command_client.h"

enum { NTHREADS = 4, NROUNDS = 20000, NKEYS = 8 };

struct worker {
    struct server server; /* shares store and commands with the others */
    unsigned int seed;
    unsigned int nwrong;
    pthread_t thread;
};

static atomic_int nrunning;

/* Whether an answer to "get kN" is a miss, or kN's value: its own digit, any number of times. */
static bool is_right(const char *answer, int key)
{
    char head[32];
    const char *value;
    size_t n;

    if (strcmp(answer, "END\r\n") == 0)
        return true;
    snprintf(head, sizeof(head), "VALUE k%d %d ", key, key);
    if (strncmp(answer, head, strlen(head)) != 0)
        return false;
    n = (size_t)atoi(answer + strlen(head));
    value = strstr(answer, "\r\n") + 2;
    return strspn(value, (char[]){(char)('0' + key), 0}) == n &&
           strcmp(value + n, "\r\nEND\r\n") == 0;
}

static void round_of(struct worker *worker)
{
    int key = rand_r(&worker->seed) % NKEYS;
    size_t n = 1 + (size_t)rand_r(&worker->seed) % 200;
    char line[512], value[256];

    memset(value, '0' + key, n);
    value[n] = 0;
    switch (rand_r(&worker->seed) % 8) {
    case 0:
        snprintf(line, sizeof(line), "delete k%d\r\n", key);
        break;
    case 1:
        snprintf(line, sizeof(line), "set k%d %d 0 %zu\r\n%s\r\n", key, key, n, value);
        break;
    case 2:
        snprintf(line, sizeof(line), "append k%d %d 0 1\r\n%d\r\n", key, key, key);
        break;
    case 3:
        snprintf(line, sizeof(line), "touch k%d 100\r\n", key);
        break;
    case 4:
        snprintf(line, sizeof(line), "flush_all x\r\n");
        break;
    default:
        snprintf(line, sizeof(line), "get k%d\r\n", key);
        worker->nwrong += !is_right(ask(&worker->server, line), key);
        return;
    }
    ask(&worker->server, line);
}

static void *work(void *context)
{
    struct worker *worker = context;

    for (int i = 0; i < NROUNDS; i++)
        round_of(worker);
    atomic_fetch_sub(&nrunning, 1);
    return NULL;
}

static void start(struct worker *worker, const struct server *shared, unsigned int seed)
{
    worker->server = *shared;
    worker->server.local = command_local_new(shared->commands);
    worker->server.out = malloc(OUT_MAX);
    worker->seed = seed;
    worker->nwrong = 0;
    reply_init(&worker->server.reply);
    if (!worker->server.local || !worker->server.out ||
        pthread_create(&worker->thread, NULL, work, worker) != 0)
        die("thread");
}

static void threads_share_a_store(struct server *server)
{
    struct worker workers[NTHREADS];
    unsigned int nwrong = 0;
    unsigned int nasked = 0;

    atomic_store(&nrunning, NTHREADS);
    for (int i = 0; i < NTHREADS; i++)
        start(&workers[i], server, (unsigned int)i + 1);
    while (atomic_load(&nrunning) > 0) {
        ask(server, "stats\r\nstats items\r\nstats slabs\r\n");
        nasked++;
    }
    for (int i = 0; i < NTHREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        nwrong += workers[i].nwrong;
        reply_fini(&workers[i].server.reply);
        command_local_free(workers[i].server.local);
        free(workers[i].server.out);
    }
    diag("statistics were asked for %u times", nasked);
    ok(nwrong == 0, "%d threads get only the values of the keys that they ask for", NTHREADS);
    ok(strstr(ask(server, "stats\r\n"), "STAT cmd_flush 0\r\n") == NULL,
       "the counts of ended threads remain");
}

int main(void)
{
    with_server(threads_share_a_store);
    return done();
}
