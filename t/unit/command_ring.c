/* SPDX-License-Identifier: BSD-3-Clause */
/* Records are read from a ring whole and, of each producer, in order; records that do not fit are
 * counted as dropped. */
#include "command/ring.h"

#include <pthread.h>
#include <string.h>

#include "t/lib/tap.h"

enum { NPRODUCERS = 3, NRECORDS = 200000, REST_MAX = 300, RING = 16384 };

struct head {
    uint32_t producer, number;
};

struct record {
    struct head head;
    char rest[REST_MAX];
};

struct producer {
    struct ring *ring;
    uint32_t number;
    uint32_t nput;
    pthread_t thread;
};

static size_t rest_of(const struct head *head)
{
    return (head->number * 7 + head->producer) % REST_MAX;
}

static void *produce(void *arg)
{
    struct producer *producer = arg;
    char rest[REST_MAX];

    for (uint32_t i = 0; i < NRECORDS; i++) {
        struct head head = {producer->number, i};
        size_t n = rest_of(&head);

        memset(rest, (int)(i & 0xff), n);
        producer->nput += ring_put(producer->ring, (struct slice){(char *)&head, sizeof(head)},
                                   (struct slice){rest, n});
    }
    return NULL;
}

/* Whether a record is what its producer made. */
static bool is_whole(const struct record *record, size_t len)
{
    size_t n = rest_of(&record->head);

    if (len != sizeof(record->head) + n)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)record->rest[i] != (record->head.number & 0xff))
            return false;
    return true;
}

struct taken {
    uint64_t n;
    uint64_t last[NPRODUCERS]; /* of the last record, plus 1 */
    bool whole, in_order;
};

static void take_all(struct ring *ring, struct taken *taken)
{
    struct record record;
    size_t len;

    while ((len = ring_take(ring, &record, sizeof(record))) > 0) {
        uint64_t *last = &taken->last[record.head.producer % NPRODUCERS];

        taken->n++;
        taken->whole &= is_whole(&record, len);
        taken->in_order &= record.head.number + 1 > *last;
        *last = record.head.number + 1;
    }
}

static void threads(void)
{
    struct taken taken = {.whole = true, .in_order = true};
    struct producer producers[NPRODUCERS];
    uint64_t nput = 0;
    struct ring ring;

    ring_init(&ring, RING);
    for (uint32_t i = 0; i < NPRODUCERS; i++) {
        producers[i] = (struct producer){.ring = &ring, .number = i};
        pthread_create(&producers[i].thread, NULL, produce, &producers[i]);
    }
    while (__atomic_load_n(&ring.nwritten, __ATOMIC_RELAXED) +
               __atomic_load_n(&ring.ndropped, __ATOMIC_RELAXED) <
           NPRODUCERS * NRECORDS)
        take_all(&ring, &taken);
    for (uint32_t i = 0; i < NPRODUCERS; i++) {
        pthread_join(producers[i].thread, NULL);
        nput += producers[i].nput;
    }
    take_all(&ring, &taken);
    ok(taken.n == nput && nput == ring.nwritten && nput > 0,
       "each record that a producer wrote is read once");
    ok(ring.nwritten + ring.ndropped == NPRODUCERS * NRECORDS,
       "the other records are counted as dropped");
    ok(taken.whole, "records are read as they were written");
    ok(taken.in_order, "records of one producer are read in order");
    ring_fini(&ring);
}

static void bounds(void)
{
    static char bytes[8192];
    struct slice none = {bytes, 0};
    struct ring ring;

    ring_init(&ring, 4096);
    ok(ring_take(&ring, bytes, sizeof(bytes)) == 0, "a new ring has no record");
    ok(!ring_put(&ring, (struct slice){bytes, 4096}, none),
       "a record larger than the ring is refused");
    ok(ring_put(&ring, (struct slice){bytes, 4088}, none), "a record that just fits is accepted");
    ok(!ring_put(&ring, (struct slice){bytes, 1}, none), "then the ring is full");
    ok(ring_take(&ring, bytes, sizeof(bytes)) == 4088, "a record is returned with its length");
    ok(ring_put(&ring, (struct slice){bytes, 1}, (struct slice){bytes, 2}) &&
           ring_take(&ring, bytes, sizeof(bytes)) == 3,
       "after a read there is room again");
    ok(ring.ndropped == 2 && ring.nwritten == 2, "written and dropped records are counted");
    ring_fini(&ring);
}

int main(void)
{
    bounds();
    threads();
    return done();
}
