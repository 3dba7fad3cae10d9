/* SPDX-License-Identifier: BSD-3-Clause */
/* The logger: a watcher gets the events that it asked for, in order; events that it misses are
 * counted. */
#include "command/logger.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "base/stream.h"
#include "command/command.h"
#include "t/lib/tap.h"

enum { NTELLERS = 3, NEVENTS = 40000, PATIENCE_MS = 20000, TEXT = 1 << 16 };

/* A watcher, and the lines that it has read. */
struct reader {
    struct stream *stream;
    uint64_t nbuckets, nskipped, last_gid;
    bool in_order, ended;
    char text[TEXT]; /* the beginning of a line that is not complete */
    size_t ntext;
};

static void read_line(struct reader *reader, const char *line)
{
    uint64_t gid, n;

    if (sscanf(line, "skipped=%" SCNu64, &n) == 1) {
        reader->nskipped += n;
        return;
    }
    reader->nbuckets++;
    reader->in_order &=
        sscanf(line, "ts=%*u.%*u gid=%" SCNu64, &gid) == 1 && gid > reader->last_gid;
    reader->last_gid = gid;
}

static void read_bytes(struct reader *reader, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            reader->text[reader->ntext++ % TEXT] = bytes[i];
            continue;
        }
        reader->text[reader->ntext] = 0;
        reader->ntext = 0;
        read_line(reader, reader->text);
    }
}

/* Reads the bytes that are available. */
static void read_some(struct reader *reader)
{
    struct iovec iov[2];
    size_t n;

    while (stream_poll(reader->stream) == STREAM_BYTES) {
        n = stream_iov(reader->stream, iov);
        for (size_t i = 0; i < n; i++) {
            read_bytes(reader, iov[i].iov_base, iov[i].iov_len);
            stream_consumed(reader->stream, iov[i].iov_len);
        }
    }
    reader->ended = stream_poll(reader->stream) == STREAM_CLOSED;
}

/* Reads until that many lines were sent or skipped. */
static bool read_until(struct reader *reader, uint64_t n)
{
    for (;;) {
        struct pollfd wait = {stream_fd(reader->stream), POLLIN, 0};

        read_some(reader);
        if (reader->nbuckets + reader->nskipped >= n)
            return true;
        if (poll(&wait, 1, PATIENCE_MS) <= 0) {
            diag("%" PRIu64 " lines, %" PRIu64 " skipped", reader->nbuckets, reader->nskipped);
            return false;
        }
        stream_clear_wakeup(reader->stream);
    }
}

static struct reader *watch(struct logger *logger, uint32_t classes)
{
    struct reader *reader = calloc(1, sizeof(*reader));

    reader->in_order = true;
    if (logger_watch(logger, classes, &reader->stream) != LOGGER_DONE) {
        free(reader);
        return NULL;
    }
    return reader;
}

static void leave(struct reader *reader)
{
    stream_detach(reader->stream);
    free(reader);
}

static void tell(struct ring *ring, uint32_t classes)
{
    struct event event = {.classes = classes, .type = EVENT_WORDS};

    logger_emit(ring, &event, SLICE("type=test"));
}

struct teller {
    struct logger *logger;
    struct ring *ring;
    uint32_t class;
    pthread_t thread;
};

static void *tell_many(void *arg)
{
    struct teller *teller = arg;

    for (int i = 0; i < NEVENTS; i++)
        if (logger_wants(teller->logger, teller->class))
            tell(teller->ring, teller->class);
    return NULL;
}

static atomic_int complete;

static void set_bypass(void *context, bool on)
{
    (void)context;
    complete += on ? 1 : -1;
}

static void start(struct logger *logger)
{
    const struct logger_config config = {
        .ring_bytes = 16384, .stream_bytes = 16384, .set_bypass = set_bypass};

    complete = 0;
    if (logger_init(logger, &config) != 0 || logger_start(logger) != 0) {
        printf("Bail out! no logger\n");
        exit(1);
    }
}

static void counts_add_up(void)
{
    struct teller tellers[NTELLERS];
    struct logger_counts counts;
    struct reader *all, *one;
    struct logger logger;

    start(&logger);
    all = watch(&logger, 7);
    one = watch(&logger, 1);
    for (unsigned int i = 0; i < NTELLERS; i++) {
        tellers[i] = (struct teller){&logger, logger_add_ring(&logger), 1u << i, 0};
        pthread_create(&tellers[i].thread, NULL, tell_many, &tellers[i]);
    }
    for (unsigned int i = 0; i < NTELLERS; i++)
        pthread_join(tellers[i].thread, NULL);
    logger_counts(&logger, &counts);
    ok(counts.worker_written + counts.worker_dropped == NTELLERS * NEVENTS,
       "each event is either written or dropped");
    ok(read_until(all, counts.worker_written),
       "the watcher of all events gets or skips each written one");
    ok(read_until(one, tellers[0].ring->nwritten),
       "the watcher of one kind gets or skips each of that kind");
    ok(all->in_order && one->in_order, "each watcher gets its lines in the order of gid");
    logger_counts(&logger, &counts);
    ok(counts.watcher_sent == all->nbuckets + one->nbuckets &&
           counts.watcher_skipped == all->nskipped + one->nskipped,
       "the counters of sent and skipped lines match the watchers' own counts");
    logger_reset_counts(&logger);
    logger_counts(&logger, &counts);
    ok(counts.worker_written + counts.watcher_sent == 0, "a reset sets the counters to 0");
    logger_fini(&logger);
    read_some(all);
    ok(all->ended, "the end of the logger ends the watchers' streams");
    leave(all);
    leave(one);
}

static void a_slow_watcher(void)
{
    struct logger_counts counts;
    struct reader *slow, *fast;
    struct logger logger;
    uint64_t n = 0;

    start(&logger);
    slow = watch(&logger, 1);
    fast = watch(&logger, 1);
    do {
        tell(&logger.shared->ring, 1);
        n++;
        if (!read_until(fast, n))
            break;
        logger_counts(&logger, &counts);
    } while (counts.watcher_skipped < 100);
    ok(fast->nskipped == 0 && fast->nbuckets == n,
       "a watcher that reads gets every line beside one that does not read");
    ok(read_until(slow, n), "a slow watcher that reads again gets the number of skipped lines");
    ok(slow->nskipped >= 100, "the number of skipped lines is complete");
    leave(slow);
    leave(fast);
    logger_fini(&logger);
}

static void watchers_come_and_go(void)
{
    struct reader *readers[LOGGER_WATCHERS_MAX];
    struct stream *stream;
    struct logger logger;

    start(&logger);
    ok(!logger_wants(&logger, UINT32_MAX) && complete == 0,
       "without watchers no events are wanted");
    for (size_t i = 0; i < LOGGER_WATCHERS_MAX; i++)
        readers[i] = watch(&logger, i == 7 ? COMMAND_WATCH_FETCHERS : COMMAND_WATCH_EVICTIONS);
    ok(logger_wants(&logger, COMMAND_WATCH_FETCHERS) &&
           !logger_wants(&logger, COMMAND_WATCH_MUTATIONS) && complete == 1,
       "events that one watcher asked for are wanted");
    ok(logger_watch(&logger, 1, &stream) == LOGGER_TOO_MANY, "a 21st watcher is refused");
    leave(readers[7]);
    readers[7] = watch(&logger, COMMAND_WATCH_EVICTIONS);
    ok(readers[7] != NULL, "when one leaves a new one is accepted at once");
    ok(!logger_wants(&logger, COMMAND_WATCH_FETCHERS) && complete == 0,
       "events that only the watcher that left asked for are no longer wanted");
    for (size_t i = 0; i < LOGGER_WATCHERS_MAX; i++)
        leave(readers[i]);
    tell(&logger.shared->ring, COMMAND_WATCH_EVICTIONS);
    readers[0] = watch(&logger, COMMAND_WATCH_EVICTIONS | COMMAND_WATCH_FETCHERS);
    tell(&logger.shared->ring, COMMAND_WATCH_FETCHERS);
    ok(read_until(readers[0], 1) && readers[0]->nbuckets == 1,
       "events logged while nobody watches are discarded");
    leave(readers[0]);
    logger_fini(&logger);
}

static void without_its_thread(void)
{
    const struct logger_config config = {.ring_bytes = 1, .stream_bytes = 1};
    struct stream *stream;
    struct logger logger;

    logger_init(&logger, &config);
    ok(logger_watch(&logger, 1, &stream) == LOGGER_FAILED,
       "without the logger's thread a watcher is refused");
    logger_fini(&logger);
}

int main(void)
{
    counts_add_up();
    a_slow_watcher();
    watchers_come_and_go();
    without_its_thread();
    return done();
}
