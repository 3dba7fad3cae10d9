/* SPDX-License-Identifier: BSD-3-Clause */
/* How the kernel programs search the table, and what they do while it changes. */
#include "t/bpf/lab.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/lib/tap.h"

/* Sends a request for one key by the short code path or by the long one. */
static void ask(struct frame *frame, const char *key, bool long_way)
{
    char text[300];
    int n = snprintf(text, sizeof(text), long_way ? "get  %s\r\n" : "get %s\r\n", key);

    frame_request(frame, text, (size_t)n);
}

static bool serves(struct lab *lab, const char *key, const char *value)
{
    struct frame frame;
    char reply[512];
    int n = value ? snprintf(reply, sizeof(reply), "VALUE %s 0 %zu\r\n%s\r\nEND\r\n", key,
                             strlen(value), value)
                  : snprintf(reply, sizeof(reply), "END\r\n");
    bool right;

    ask(&frame, key, false);
    right = lab_answers(lab, &frame, reply, (size_t)n);
    ask(&frame, key, true);
    return right && lab_answers(lab, &frame, reply, (size_t)n);
}

static bool leaves(struct lab *lab, const char *key, enum mc_count reason)
{
    struct frame frame;
    bool right;

    ask(&frame, key, false);
    right = lab_passes(lab, &frame, reason);
    ask(&frame, key, true);
    return right && lab_passes(lab, &frame, reason);
}

static struct mc_item *put(struct lab *lab, const char *key, const char *value)
{
    return lab_put(lab, key, strlen(key), value, strlen(value));
}

static struct mc_bucket *bucket_of(struct lab *lab, const char *key)
{
    return lab_bucket(lab, lab_hash(lab, key, strlen(key)));
}

/* The n-th of the keys whose bucket is number `bucket`. */
static void key_in_bucket(struct lab *lab, uint32_t bucket, unsigned int n, char key[32])
{
    for (unsigned int i = 0;; i++) {
        snprintf(key, 32, "key-%u", i);
        if (bucket_of(lab, key) == &lab->buckets[bucket] && n-- == 0)
            return;
    }
}

/* By the short code path and by the long one. */
#define HIT SEND2("get hit\r\n", "get  hit\r\n")

static const struct lab_case sequences[] = {
    {"a hit in a bucket that is being changed is passed", STATE(BUCKET(seq, 1)), HIT, PASS(BUSY)},
    {"a miss in a bucket that is being changed is passed", STATE(BUCKET(seq, 1), BUCKET(tags, 0)),
     HIT, PASS(BUSY)},
    {"a miss in an unchanged bucket is answered", STATE(BUCKET(seq, 0xfffffffe), BUCKET(tags, 0)),
     HIT, ANSWER("END\r\n")},
    {"a hit in a bucket whose counter is about to wrap is answered", STATE(BUCKET(seq, 0xfffffffe)),
     HIT, ANSWER("VALUE hit 0 5\r\nvalue\r\nEND\r\n")},
    {"a bucket index outside of the table is passed", STATE(BUCKET(mask, 0xffffffff)), HIT,
     PASS(BUSY)},
};

/* Items in slots 1 to 8, then in overflow buckets, then beyond the buckets that are searched. */
static void test_chains(struct lab *lab)
{
    char key[32], value[32];
    bool right = true;

    lab_clear(lab);
    for (unsigned int n = 0; n < 32; n++) {
        key_in_bucket(lab, 3, n, key);
        snprintf(value, sizeof(value), "value %u", n);
        put(lab, key, value);
        for (unsigned int i = 0; i <= n; i++) {
            key_in_bucket(lab, 3, i, key);
            snprintf(value, sizeof(value), "value %u", i);
            right &= serves(lab, key, value);
        }
        key_in_bucket(lab, 3, 50, key);
        right &= serves(lab, key, NULL);
    }
    ok(right, "hits and misses in chains of 1 to 32 items are answered");
    key_in_bucket(lab, 3, 9, key);
    bucket_of(lab, key)->seq++;
    ok(leaves(lab, key, MC_COUNT_PASS_BUSY),
       "a key in an overflow bucket whose chain is being changed is passed");
    bucket_of(lab, key)->seq++;
    key_in_bucket(lab, 3, 32, key);
    put(lab, key, "beyond");
    ok(leaves(lab, key, MC_COUNT_PASS_BUSY), "a key behind the searched part of a chain is passed");
    key_in_bucket(lab, 3, 31, key);
    ok(serves(lab, key, "value 31"), "a key in the searched part of a long chain is answered");
    lab->overflow[1].next = 1;
    key_in_bucket(lab, 3, 50, key);
    ok(leaves(lab, key, MC_COUNT_PASS_BUSY), "a chain that refers to itself is passed");
    lab->overflow[1].next = 0x7fffffff;
    ok(leaves(lab, key, MC_COUNT_PASS_BUSY), "a chain with an invalid reference is passed");
}

/* Puts the key into a given bucket, whatever else that has: the seed decides the bucket. */
static uint32_t put_ref(struct lab *lab, const char *key, const char *text)
{
    const struct mc_bucket *bucket = bucket_of(lab, key);
    unsigned int slot = 0;

    while (bucket->refs[slot])
        slot++;
    put(lab, key, text);
    return bucket->refs[slot];
}

/* Items whose tags are equal and whose keys are not: in the slots 0, 1 and 7. */
static const struct lab_case equal_tags[] = {
    {"items with equal tags are distinguished by their keys", HIT,
     ANSWER("VALUE hit 0 5\r\nright\r\nEND\r\n")},
    {"an item reference outside of the heap is passed", STATE(BUCKET(refs[7], 0x1ffffff0)), HIT,
     PASS(BUSY)},
    {"a reference to an extent's last bytes is passed",
     STATE(BUCKET(refs[7], (MC_EXTENT_BYTES - 8) >> 3)), HIT, PASS(BUSY)},
};

static void test_tags(struct lab *lab)
{
    uint32_t other, hix;

    lab_only(lab, "hit", "right");
    other = put_ref(lab, "other", "wrong");
    hix = put_ref(lab, "hix", "wrong");
    *lab->bucket =
        (struct mc_bucket){.mask = lab->bucket->mask,
                           .tags = mc_hash_tag(lab_hash(lab, "hit", 3)) * 0x0101010101010101u,
                           .refs = {other, hix, [7] = 64 >> 3}}; /* hit is the first */
    LAB_TRY(lab, equal_tags);
}

enum { SPLIT_KEYS = 8 };

/* The table has grown to `after` buckets, and the reader still uses `before`. */
static bool split_serves(struct lab *lab, uint32_t before, uint32_t after)
{
    struct frame frame, out;
    uint32_t top = 1, i;
    bool right = true;
    char key[16];

    while (top < after)
        top *= 2;
    lab_clear(lab);
    memset(lab->buckets, 0, 256 * sizeof(lab->buckets[0]));
    lab->control->nbuckets = after;
    for (i = 0; i < after; i++)
        lab->buckets[i].mask = i < after - top / 2 || i >= top / 2 ? top - 1 : top / 2 - 1;
    for (i = 0; i < SPLIT_KEYS; i++) {
        lab->control->nbuckets = after;
        snprintf(key, sizeof(key), "hit-%u", i);
        put(lab, key, "value");
        lab->control->nbuckets = before;
        ask(&frame, key, after & 1);
        if (before > top / 2) {
            right &= serves(lab, key, "value");
        } else {
            /* A bucket count older than one doubling may find no bucket, but must not answer with a
             * miss. */
            lab_run(lab, lab->program, &frame, &out);
            right &= frame_equal(&out, &frame) || out.bytes[LAB_FRAME] == 'V';
        }
    }
    lab->control->nbuckets = 256;
    return right;
}

static void test_splits(struct lab *lab)
{
    bool right = true;

    for (uint32_t after = 1; after <= 256; after = after * 5 / 4 + 1)
        for (uint32_t before = after > 90 ? after - 90 : 1; before <= after; before++)
            right = right && split_serves(lab, before, after);
    ok(right, "with an old number of buckets the key is still found");
    lab_clear(lab);
    bucket_of(lab, "hit")->mask = lab->control->nbuckets / 2 - 1;
    lab->buckets[lab_hash(lab, "hit", 3) & (lab->control->nbuckets / 2 - 1)].mask =
        lab->control->nbuckets - 1;
    if (lab_hash(lab, "hit", 3) & (lab->control->nbuckets / 2))
        ok(leaves(lab, "hit", MC_COUNT_PASS_BUSY), "buckets that refer to each other are passed");
    else
        ok(serves(lab, "hit", NULL), "a bucket that refers to itself is passed");
}

/* Whether the item is answered to "gets hit". */
static bool gets_answers(struct lab *lab, const char *value, size_t nvalue)
{
    struct frame frame;
    char reply[1600];
    int n = snprintf(reply, sizeof(reply), "VALUE hit 0 %zu 0\r\n%.*s\r\nEND\r\n", nvalue,
                     (int)nvalue, value);

    frame_text(&frame, "gets hit\r\n");
    return lab_answers(lab, &frame, reply, (size_t)n);
}

/* Items at the end of an extent, behind which no block copy may read. */
static void test_segment_end(struct lab *lab)
{
    static char value[1400];
    struct frame frame;
    char reply[1600];
    size_t nvalue, size, back;
    uint64_t at;
    bool right = true;
    int n;

    for (nvalue = 0; nvalue < 1350; nvalue += nvalue < 80 ? 1 : 41) {
        for (back = 0; back < 2600; back += back < 64 ? 8 : 320) {
            lab_clear(lab);
            memset(value, 'e', nvalue);
            n = snprintf(reply, sizeof(reply), "VALUE hit 0 %zu\r\n%.*s\r\nEND\r\n", nvalue,
                         (int)nvalue, value);
            size = (MC_ITEM_HEADER + (size_t)n - 6 - 5 + 7) & ~(size_t)7;
            at = MC_EXTENT_BYTES - size - back;
            lab_lay(lab, at, "hit", 3, value, nvalue);
            lab_link(lab, lab_hash(lab, "hit", 3), at);
            ask(&frame, "hit", back & 8);
            right &= lab_answers(lab, &frame, reply, (size_t)n);
            right &= gets_answers(lab, value, nvalue);
        }
    }
    ok(right, "items at the end of an extent are answered");
}

static void test_shifts(struct lab *lab)
{
    uint32_t shift, ref;
    bool right = true;

    for (shift = 3; shift <= 6; shift++) {
        lab_clear(lab);
        lab->next_byte = 5u << 20;
        put(lab, "hit", "value");
        ref = bucket_of(lab, "hit")->refs[0];
        lab->control->ref_shift = (uint8_t)shift;
        bucket_of(lab, "hit")->refs[0] = ref >> (shift - 3);
        right &= serves(lab, "hit", "value");
    }
    lab->control->ref_shift = 3;
    ok(right, "references in units of 8 to 64 bytes are followed");
}

/* The server counts the reads of what is passed to it. */
static void test_marks_of_passed(struct lab *lab)
{
    static const char *const texts[] = {"get hit large\r\n", "get large\r\n", "gets large\r\n",
                                        "mg large v\r\n"};
    static const char twice[] = "VALUE hit 0 1\r\nv\r\nVALUE hit 0 1\r\nv\r\nEND\r\n";
    struct mc_bucket *hit, *large;
    char value[1400];
    struct frame frame;

    lab_clear(lab);
    memset(value, 'v', sizeof(value));
    lab_put(lab, "large", 5, value, sizeof(value));
    put(lab, "hit", "v");
    hit = bucket_of(lab, "hit");
    large = bucket_of(lab, "large");
    for (size_t i = 0; i < COUNT(texts); i++) {
        frame_text(&frame, texts[i]);
        ok(lab_passes(lab, &frame, MC_COUNT_PASS_SIZE) && !hit->accessed && !large->accessed,
           "%.*s: what is found and then passed is not marked", (int)strcspn(texts[i], "\r"),
           texts[i]);
    }
    frame_text(&frame, "get hit hit\r\n");
    ok(lab_answers(lab, &frame, twice, sizeof(twice) - 1) && hit->accessed && hit->again,
       "a key that is asked for twice in a request is read twice");
}

/* Two gets of a key whose value is "v". */
static bool marks_slot(struct lab *lab, struct mc_bucket *bucket, unsigned int slot,
                       const char *key, bool long_way)
{
    uint8_t bit = (uint8_t)(1u << slot);
    struct frame frame;
    char reply[64];
    int n = snprintf(reply, sizeof(reply), "VALUE %s 0 1\r\nv\r\nEND\r\n", key);

    bucket->accessed = bucket->again = 0;
    ask(&frame, key, long_way);
    return lab_answers(lab, &frame, reply, (size_t)n) && bucket->accessed == bit &&
           bucket->again == 0 && lab_answers(lab, &frame, reply, (size_t)n) &&
           bucket->accessed == bit && bucket->again == bit;
}

/* The accessed marks that keep an item from eviction. */
static void test_marks(struct lab *lab)
{
    char key[32], value[] = "v";
    struct mc_bucket *bucket = &lab->buckets[9];
    struct frame frame;
    bool right = true;

    lab_clear(lab);
    for (unsigned int i = 0; i < 12; i++) {
        key_in_bucket(lab, 9, i, key);
        put(lab, key, value);
    }
    for (unsigned int i = 0; i < 8; i++) {
        key_in_bucket(lab, 9, i, key);
        right &= marks_slot(lab, bucket, i, key, false) && marks_slot(lab, bucket, i, key, true);
    }
    ok(right, "a hit marks its slot and no other, and so does the second");
    bucket->accessed = bucket->again = 0;
    key_in_bucket(lab, 9, 10, key);
    ok(serves(lab, key, value) && bucket->accessed == 0 &&
           lab->overflow[bucket->next].accessed == 1 << 2,
       "a hit in an overflow bucket marks its slot there");
    key_in_bucket(lab, 9, 77, key);
    ok(serves(lab, key, NULL) && bucket->accessed == 0, "a miss marks nothing");
    key_in_bucket(lab, 9, 0, key);
    frame_text(&frame, "get ");
    frame.n += (size_t)snprintf((char *)frame.bytes + frame.n, 64, "%s", key);
    frame_seal(&frame);
    ok(lab_passes(lab, &frame, MC_COUNT_PASS_REQUEST) && bucket->accessed == 0,
       "a request that is passed at once marks nothing");
    test_marks_of_passed(lab);
}

/* --- a writer at work ------------------------------------------------------ */

struct writer {
    struct lab *lab;
    atomic_bool stop;
    atomic_ullong nwritten;
};

enum { WRITER_KEYS = 3 };

/* Gives each key a new value of another size in a loop, in reused memory. */
static void *write_items(void *arg)
{
    static const size_t sizes[] = {20, 70, 300, 900};
    struct writer *writer = arg;
    struct lab *lab = writer->lab;
    char key[8], value[1024];
    struct mc_bucket *bucket;
    unsigned int round = 0, k;
    uint64_t at;
    size_t n;

    while (!atomic_load(&writer->stop)) {
        k = round % WRITER_KEYS;
        snprintf(key, sizeof(key), "key%u", k);
        n = sizes[round / WRITER_KEYS % 4];
        memset(value, 'a' + (int)(round % 26), n);
        /* Two addresses for a key: the one that a reader copies from is overwritten two rounds
         * later. */
        at = 4096 + (k * 2 + round / WRITER_KEYS % 2) * 2048;
        bucket = bucket_of(lab, key);
        __atomic_store_n(&bucket->seq, bucket->seq + 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        lab_lay(lab, at, key, 4, value, n);
        bucket->refs[0] = (uint32_t)(at >> 3);
        bucket->tags = mc_hash_tag(lab_hash(lab, key, 4));
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        __atomic_store_n(&bucket->seq, bucket->seq + 1, __ATOMIC_RELAXED);
        round++;
        atomic_fetch_add(&writer->nwritten, 1);
    }
    return NULL;
}

/* A value is one letter repeated, of one of the lengths. */
static bool reply_is_whole(const struct frame *out, size_t begin)
{
    const char *text = (const char *)out->bytes + begin;
    unsigned int key, n, i;
    char suffix[32], first;
    int nsuffix;

    if (sscanf(text, "VALUE key%u 0 %u\r\n", &key, &n) != 2)
        return false;
    nsuffix = snprintf(suffix, sizeof(suffix), "VALUE key%u 0 %u\r\n", key, n);
    if (out->n != begin + (size_t)nsuffix + n + 7 || memcmp(text, suffix, (size_t)nsuffix))
        return false;
    first = text[nsuffix];
    for (i = 0; i < n; i++)
        if (text[(size_t)nsuffix + i] != first)
            return false;
    return memcmp(text + nsuffix + n, "\r\nEND\r\n", 7) == 0;
}

static void test_writer(struct lab *lab, bool v6)
{
    const size_t begin = LAB_FRAME + (v6 ? 20 : 0);
    struct writer writer = {.lab = lab};
    struct frame frame, out;
    unsigned int i, ntorn = 0, ndamaged = 0, nanswered = 0, npassed = 0;
    pthread_t thread;
    char key[8];

    lab_clear(lab);
    /* Each key has a bucket of its own. */
    while (bucket_of(lab, "key0") == bucket_of(lab, "key1") ||
           bucket_of(lab, "key1") == bucket_of(lab, "key2") ||
           bucket_of(lab, "key2") == bucket_of(lab, "key0"))
        lab->control->seed[0] += 0x123456789abcdefu;
    pthread_create(&thread, NULL, write_items, &writer);
    while (atomic_load(&writer.nwritten) < WRITER_KEYS)
        ;
    for (i = 0; i < 40000; i++) {
        snprintf(key, sizeof(key), "key%u", i % WRITER_KEYS);
        ask(&frame, key, lab->program == LOADER_XDP && i / WRITER_KEYS % 4 == 3);
        frame_shape(&frame, &(struct shape){.v6 = v6});
        switch (lab_run(lab, lab->program, &frame, &out)) {
        case 3: /* XDP_TX */
        case 7: /* TC_ACT_REDIRECT */
            nanswered++;
            if (!reply_is_whole(&out, begin) && ntorn++ == 0)
                frame_dump("torn", &out);
            break;
        default:
            npassed++;
            if (!frame_equal(&out, &frame) && ndamaged++ == 0)
                frame_dump("damaged", &out);
        }
    }
    atomic_store(&writer.stop, true);
    pthread_join(thread, NULL);
    diag("%u answered, %u passed, beside %llu writes", nanswered, npassed,
         atomic_load(&writer.nwritten));
    ok(nanswered > 0 && ntorn == 0, "IPv%d: no reply is torn beside a writer", v6 ? 6 : 4);
    ok(ndamaged == 0, "IPv%d: no packet is damaged beside a writer", v6 ? 6 : 4);
}

/* --- a writer that always interferes ------------------------------------------- */

struct mover {
    struct mc_bucket *bucket;
    volatile char *item;
    size_t nitem;
    atomic_bool stop;
};

/*
 * Increases a bucket's counter by whole writes that change nothing: no reader ever finds it odd. It
 * takes the item's cache lines to this CPU each time, which makes the reader's copy take longer.
 */
static void *move_counter(void *arg)
{
    struct mover *mover = arg;

    while (!atomic_load_explicit(&mover->stop, memory_order_relaxed)) {
        __atomic_store_n(&mover->bucket->seq, mover->bucket->seq + 2, __ATOMIC_RELAXED);
        for (size_t i = 0; i < mover->nitem; i += 64)
            mover->item[i] = mover->item[i];
    }
    return NULL;
}

/* Sends requests until some were passed unchanged; returns how many. ndamaged: those passed but
 * changed. */
static unsigned int ask_disturbed(struct lab *lab, const struct frame *frame,
                                  unsigned int *ndamaged)
{
    const unsigned int nruns = getenv("T_IN_TURNS") ? 2000 : 20000000;
    unsigned int i, npassed = 0;
    struct frame out;

    for (i = 0; i < nruns && npassed < 8; i++) {
        if (lab_run(lab, LOADER_XDP, frame, &out) == 3)
            continue;
        npassed++;
        if (!frame_equal(&out, frame) && (*ndamaged)++ == 0)
            frame_dump("damaged", &out);
    }
    return npassed;
}

/*
 * XDP copies a hit into the packet and then reads the counter: if it has changed, XDP must undo
 * what it changed, the head, the tail and overwritten bytes. Keys of several lengths, since the
 * saved words of the headers may reach behind "get ".
 */
static void test_disturbed(struct lab *lab, size_t nvalue, bool v6)
{
    static const char *const keys[] = {"k", "key", "key-of-23-bytes-in-all."};
    unsigned int i, npassed, nundisturbed = 0, ndamaged = 0;
    char value[1300];
    struct mover mover;
    struct frame frame;
    pthread_t thread;

    memset(value, 'v', sizeof(value));
    for (i = 0; i < COUNT(keys); i++) {
        lab_clear(lab);
        mover = (struct mover){.bucket = bucket_of(lab, keys[i]), .nitem = nvalue};
        mover.item = (char *)lab_put(lab, keys[i], strlen(keys[i]), value, nvalue);
        ask(&frame, keys[i], false);
        frame_shape(&frame, &(struct shape){.v6 = v6});
        pthread_create(&thread, NULL, move_counter, &mover);
        while (!__atomic_load_n(&mover.bucket->seq, __ATOMIC_RELAXED))
            ;
        npassed = ask_disturbed(lab, &frame, &ndamaged);
        nundisturbed += npassed == 0;
        atomic_store(&mover.stop, true);
        pthread_join(thread, NULL);
    }
    ok(ndamaged == 0 && (nundisturbed == 0 || getenv("T_IN_TURNS")),
       "IPv%d, %zu bytes: a request that a writer disturbed is passed unchanged", v6 ? 6 : 4,
       nvalue);
}

/*
 * XDP answers a miss in place if the bucket's counter is the same in two reads, and else searches
 * again by the long code path. That makes a large frame as small as the reply, the short path only
 * small. The reads are a few instructions apart: a counter that changes all the time changes
 * between them in some of a million runs.
 */
static void test_disturbed_miss(struct lab *lab)
{
    static const char key[] = "a-key-that-makes-the-frame-larger-than-those-that-keep-their-size-"
                              "whichever-way-their-miss-is-found";
    const unsigned int nruns = getenv("T_IN_TURNS") ? 2000 : 20000000;
    unsigned int i, nfast = 0, nslow = 0, nwrong = 0;
    struct frame frame, out;
    struct mover mover;
    pthread_t thread;

    lab_clear(lab);
    mover = (struct mover){.bucket = bucket_of(lab, key)};
    ask(&frame, key, false);
    pthread_create(&thread, NULL, move_counter, &mover);
    while (!__atomic_load_n(&mover.bucket->seq, __ATOMIC_RELAXED))
        ;
    for (i = 0; i < nruns && !(nfast && nslow); i++)
        if (lab_run(lab, LOADER_XDP, &frame, &out) != 3)
            nslow++;
        else if (memcmp(out.bytes + LAB_FRAME, "END\r\n", 5) != 0)
            nwrong++;
        else if (out.n > LAB_FRAME + 10) /* Ethernet's shortest */
            nfast++;
        else
            nslow++;
    atomic_store(&mover.stop, true);
    pthread_join(thread, NULL);
    diag("%u misses answered in place, %u by the long path", nfast, nslow);
    ok(nfast && nwrong == 0 && (nslow || getenv("T_IN_TURNS")),
       "after a writer disturbed a miss the bucket is searched again");
}

/* Unlinks a key and links it again in a loop. */
struct toggler {
    struct mc_bucket *bucket;
    atomic_bool stop;
    atomic_ullong nwritten;
};

static void *toggle(void *arg)
{
    struct toggler *toggler = arg;
    struct mc_bucket *bucket = toggler->bucket;
    uint64_t tags[] = {bucket->tags, 0};

    for (unsigned int i = 1; !atomic_load(&toggler->stop); i++) {
        __atomic_store_n(&bucket->seq, bucket->seq + 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        __atomic_store_n(&bucket->tags, tags[i & 1], __ATOMIC_RELAXED);
        __atomic_store_n(&bucket->seq, bucket->seq + 1, __ATOMIC_RELEASE);
        atomic_fetch_add(&toggler->nwritten, 1);
    }
    return NULL;
}

/*
 * A hit, and a key that is gone when a writer has disturbed its first reading: the checksum of the
 * reply, which of a single hit follows from that of its item, is not to be the other item's.
 */
static void test_sum_of_one(struct lab *lab)
{
    static const char *const replies[] = {"VALUE one 0 1\r\n1\r\nEND\r\n",
                                          "VALUE one 0 1\r\n1\r\nVALUE two 0 1\r\n2\r\nEND\r\n"};
    const struct shape v6 = {.v6 = true};
    struct frame plain, frame, out, want[2];
    unsigned int i, nwrong = 0, nof[2] = {0};
    struct toggler toggler = {0};
    pthread_t thread;

    lab_clear(lab);
    lab->sums = true;
    while (bucket_of(lab, "one") == bucket_of(lab, "two"))
        lab->control->seed[0] += 0x123456789abcdefu;
    put(lab, "one", "1");
    put(lab, "two", "2");
    lab->sums = false;
    frame_text(&plain, "get one two\r\n");
    for (i = 0; i < 2; i++) {
        frame_answer(&want[i], &plain, replies[i], strlen(replies[i]));
        frame_shape(&want[i], &v6);
    }
    frame = plain;
    frame_shape(&frame, &v6);
    toggler.bucket = bucket_of(lab, "two");
    pthread_create(&thread, NULL, toggle, &toggler);
    while (!atomic_load(&toggler.nwritten))
        ;
    for (i = 0; i < 60000; i++) {
        if (lab_run(lab, lab->program, &frame, &out) != (lab->program == LOADER_XDP ? 3u : 7u))
            continue;
        if (frame_answers(&out, &frame, &want[0]))
            nof[0]++;
        else if (frame_answers(&out, &frame, &want[1]))
            nof[1]++;
        else if (nwrong++ == 0)
            frame_dump("wrong", &out);
    }
    atomic_store(&toggler.stop, true);
    pthread_join(thread, NULL);
    diag("%u replies with one hit, %u with two", nof[0], nof[1]);
    ok(nof[0] && nof[1] && nwrong == 0,
       "IPv6: replies of one hit have the checksum of that one (%u have not)", nwrong);
}

static void test_program(struct lab *lab)
{
    lab_only(lab, "hit", "value");
    LAB_TRY(lab, sequences);
    test_chains(lab);
    test_tags(lab);
    test_splits(lab);
    test_segment_end(lab);
    test_shifts(lab);
    test_marks(lab);
    test_writer(lab, false);
    test_writer(lab, true);
    test_sum_of_one(lab);
}

int main(void)
{
    struct lab lab;

    lab_open(&lab, 256);
    lab_use(&lab, LOADER_XDP);
    test_program(&lab);
    test_disturbed(&lab, 190, false); /* extended at the head */
    test_disturbed(&lab, 1300, false);
    test_disturbed(&lab, 190, true);
    test_disturbed(&lab, 1300, true);
    test_disturbed_miss(&lab);
    lab_use(&lab, LOADER_TC);
    test_program(&lab);
    lab_close(&lab);
    return done();
}
