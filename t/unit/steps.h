/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steps: what a reader that knows only bpf/shared/layout.h sees while a writer works, at every
 * instruction of the writer. The writer is a child process whose memory of the store is shared. It
 * is single-stepped, and each state of the memory that the kernel programs read is recorded as a
 * frame of a film. A reader then makes each of its loads from a given frame: it begins in one frame
 * and goes on in a later one, as a kernel program on another CPU may do.
 */
#ifndef T_UNIT_STEPS_H
#define T_UNIT_STEPS_H

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/internal.h"
#include "t/unit/store_fixture.h"

/* --- memory that a child shares ---------------------------------------------- */

struct shared {
    struct provider provider;
    struct mc_control *control;
    char *heap;
    struct mc_bucket *buckets, *overflow;
};

static void *map_shared(void *at, size_t length, int flags)
{
    return mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | flags, -1, 0);
}

static int shared_extent(struct provider *provider, uint32_t index, void *addr)
{
    if (index == 0)
        ((struct shared *)provider)->heap = addr;
    return map_shared(addr, MC_EXTENT_BYTES, MAP_FIXED) == MAP_FAILED ? -errno : 0;
}

static int shared_table(struct provider *provider, uint32_t index, void *addr)
{
    if (index == 0)
        ((struct shared *)provider)->buckets = addr;
    if (index == MC_OVERFLOW_TABLE)
        ((struct shared *)provider)->overflow = addr;
    return map_shared(addr, MC_TABLE_BYTES, MAP_FIXED) == MAP_FAILED ? -errno : 0;
}

static struct mc_control *shared_control(struct provider *provider)
{
    return ((struct shared *)provider)->control;
}

static void shared_init(struct shared *shared)
{
    *shared = (struct shared){
        .provider = {shared_extent, shared_table, shared_control, NULL},
        .control = map_shared(NULL, sizeof(struct mc_control), 0),
    };
}

/* --- films -------------------------------------------------------------------- */

enum { WINDOWS = 8, FRAMES_MOST = 4000, STEPS_MOST = 4000000 };

/* Memory that is recorded: `count` times `n` bytes, each `stride` behind the one before. */
struct window {
    const char *base;
    size_t n, stride, count;
    size_t at; /* in a frame */
};

struct film {
    struct window windows[WINDOWS];
    unsigned int nwindows, nframes, nsteps;
    size_t nframe; /* bytes */
    char *frames;
};

static void film_window(struct film *film, const void *base, size_t n, size_t stride, size_t count)
{
    film->windows[film->nwindows++] = (struct window){base, n, stride, count, film->nframe};
    film->nframe += n * count;
}

static const char *film_frame(const struct film *film, unsigned int number)
{
    return film->frames + number * film->nframe;
}

static bool window_changed(const struct window *window, const char *frame)
{
    for (size_t i = 0; i < window->count; i++)
        if (memcmp(frame + window->at + i * window->n, window->base + i * window->stride,
                   window->n) != 0)
            return true;
    return false;
}

/* Records the memory's state, unless it equals the last frame. */
static void film_take(struct film *film)
{
    bool changed = film->nframes == 0;
    char *frame;

    for (unsigned int i = 0; i < film->nwindows && !changed; i++)
        changed = window_changed(&film->windows[i], film_frame(film, film->nframes - 1));
    if (!changed || film->nframes == FRAMES_MOST)
        return;
    film->frames = realloc(film->frames, (film->nframes + 1) * film->nframe);
    frame = film->frames + film->nframes++ * film->nframe;
    for (unsigned int i = 0; i < film->nwindows; i++) {
        const struct window *window = &film->windows[i];

        for (size_t j = 0; j < window->count; j++)
            memcpy(frame + window->at + j * window->n, window->base + j * window->stride,
                   window->n);
    }
}

/* Single-steps the child. False: it has ended. */
static bool child_step(pid_t child, int *status)
{
    int signal = WIFSTOPPED(*status) ? WSTOPSIG(*status) : 0;

    if (signal == SIGTRAP || signal == SIGSTOP)
        signal = 0;
    return ptrace(PTRACE_SINGLESTEP, child, NULL, signal) == 0 &&
           waitpid(child, status, 0) == child && WIFSTOPPED(*status);
}

/* Records `act` from the state before it to the state behind it. False: `act` did not end normally.
 */
static bool film_shoot(struct film *film, void (*act)(void *context), void *context)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(2);
        raise(SIGSTOP);
        act(context);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        skip_all("cannot trace a child");
    do
        film_take(film);
    while (++film->nsteps < STEPS_MOST && child_step(child, &status));
    if (!WIFEXITED(status)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return false;
    }
    return WEXITSTATUS(status) == 0 && film->nframes < FRAMES_MOST;
}

/* --- readers -------------------------------------------------------------------- */

enum { LOADS_MOST = 200, VALUE_MOST = 64, CUTS = 2 };

/* Its loads before load cuts[0] are from frames[0], and so on. */
struct reader {
    const struct shared *shared;
    const struct film *film;
    unsigned int frames[CUTS + 1], cuts[CUTS];
    unsigned int nloads, ref_shift;
    uint32_t now;
};

enum sight { SIGHT_PASS, SIGHT_MISS, SIGHT_HIT };

struct seen {
    enum sight what;
    uint32_t exptime, nvalue;
    uint64_t cas;
    char value[VALUE_MOST];
    const struct mc_item *at;
};

static bool seen_same(const struct seen *a, const struct seen *b)
{
    return a->what == b->what && (a->what != SIGHT_HIT ||
                                  (a->exptime == b->exptime && a->nvalue == b->nvalue &&
                                   a->cas == b->cas && memcmp(a->value, b->value, a->nvalue) == 0));
}

/* Memory that is not recorded reads as 0. */
static void load(struct reader *reader, const void *from, void *out, size_t n)
{
    const char *at = from, *frame;
    unsigned int cut = 0;

    while (cut < CUTS && reader->nloads >= reader->cuts[cut])
        cut++;
    reader->nloads++;
    frame = film_frame(reader->film, reader->frames[cut]);
    memset(out, 0, n);
    for (unsigned int i = 0; i < reader->film->nwindows; i++) {
        const struct window *window = &reader->film->windows[i];
        size_t piece, inside;

        if (at < window->base)
            continue;
        piece = (size_t)(at - window->base) / window->stride;
        inside = (size_t)(at - window->base) % window->stride;
        if (piece < window->count && inside + n <= window->n) {
            memcpy(out, frame + window->at + piece * window->n + inside, n);
            return;
        }
    }
}

static uint64_t load_number(struct reader *reader, const void *from, size_t n)
{
    uint64_t word = 0;

    load(reader, from, &word, n);
    return word;
}

#define LOAD(reader, field) load_number(reader, &(field), sizeof(field))

/* Whether the item has the key; then *seen is its content. */
static bool read_item(struct reader *reader, const struct mc_item *item, struct slice key,
                      struct seen *seen)
{
    char name[MC_KEY_MAX];
    size_t nhead;

    if (LOAD(reader, item->nkey) != key.len)
        return false;
    load(reader, item->wire, name, key.len);
    if (memcmp(name, key.ptr, key.len) != 0)
        return false;
    seen->what = SIGHT_PASS;
    seen->at = item;
    if (LOAD(reader, item->flags) & MC_ITEM_PASS ||
        LOAD(reader, item->epoch) != (uint8_t)LOAD(reader, reader->shared->control->epoch))
        return true;
    seen->exptime = (uint32_t)LOAD(reader, item->exptime);
    if (seen->exptime && reader->now >= seen->exptime)
        return true;
    seen->cas = LOAD(reader, item->cas);
    nhead = key.len + LOAD(reader, item->nsuffix);
    seen->nvalue = (uint32_t)(LOAD(reader, item->nbytes) - nhead);
    if (seen->nvalue > VALUE_MOST)
        return true;
    for (size_t i = 0; i < seen->nvalue; i++)
        load(reader, item->wire + nhead + i, &seen->value[i], 1);
    seen->what = SIGHT_HIT;
    return true;
}

static void read_chain(struct reader *reader, const struct mc_bucket *bucket, uint64_t hash,
                       struct slice key, struct seen *seen)
{
    uint32_t next;

    for (int hop = 0; hop < 8; hop++) {
        uint64_t tags = LOAD(reader, bucket->tags);

        for (int slot = 0; slot < MC_SLOTS; slot++) {
            uint64_t ref;

            if ((uint8_t)(tags >> (8 * slot)) != mc_hash_tag(hash))
                continue;
            ref = LOAD(reader, bucket->refs[slot]);
            if (read_item(reader, (const void *)(reader->shared->heap + (ref << reader->ref_shift)),
                          key, seen))
                return;
        }
        next = (uint32_t)LOAD(reader, bucket->next);
        if (!next) {
            seen->what = SIGHT_MISS;
            return;
        }
        bucket = &reader->shared->overflow[next];
    }
}

/* One lookup, as bpf/answer/lookup.bpf.h does it; where that would retry, the result is a pass. */
static struct seen reader_look(struct reader *reader, struct slice key)
{
    const struct mc_control *control = reader->shared->control;
    uint64_t hash = hash_key(control, key);
    uint32_t flush_at = (uint32_t)LOAD(reader, control->flush_at), nbuckets, index, seq, next;
    const struct mc_bucket *bucket = NULL;
    struct seen seen = {.what = SIGHT_PASS}, none = seen;

    if (flush_at && reader->now >= flush_at)
        return none;
    nbuckets = (uint32_t)LOAD(reader, control->nbuckets);
    next = mc_bucket_of(hash, nbuckets);
    for (int hop = 0; hop < 4; hop++) {
        index = next;
        bucket = &reader->shared->buckets[index];
        seq = (uint32_t)LOAD(reader, bucket->seq);
        next = (uint32_t)hash & (uint32_t)LOAD(reader, bucket->mask);
        if (seq & 1)
            return none;
        if (next == index) {
            read_chain(reader, bucket, hash, key, &seen);
            return LOAD(reader, bucket->seq) == seq ? seen : none;
        }
    }
    return none;
}

#endif
