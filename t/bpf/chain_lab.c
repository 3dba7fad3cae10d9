/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/bpf/chain_lab.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/load/object.h"
#include "t/lib/tap.h"

enum { HOUR = 3600, TICKS = 1000, ENTRIES = 1024 };

const struct chain_settings chain_lab_settings = {.entries = ENTRIES,
                                                  .nmedium = ENTRIES,
                                                  .nlarge = ENTRIES,
                                                  .noutstanding = 64,
                                                  .nconnections = 64,
                                                  .key_max = CHAIN_KEY_MAX,
                                                  .value_max = CHAIN_VALUE_MAX,
                                                  .max_age = HOUR * TICKS,
                                                  .settle = 1000000000,
                                                  .outstanding = CHAIN_OUTSTANDING_NS,
                                                  .any_socket = 1};

int chain_lab_map(struct chain_lab *chain, const char *name)
{
    return bpf_map__fd(object_map(&chain->lab.loader->object, name));
}

static size_t buckets_size(const struct chain_lab *chain)
{
    return (chain->settings.entries * sizeof(struct chain_bucket) + 4095) & ~(size_t)4095;
}

void chain_lab_open(struct chain_lab *chain, const struct chain_settings *settings,
                    const struct loader_guard *guard)
{
    static const struct loader_guard nothing;
    char error[512];

    memset(chain, 0, sizeof(*chain));
    chain->settings = settings ? *settings : chain_lab_settings;
    chain->lab.loader =
        loader_open_chain(&chain->settings, guard ? guard : &nothing, error, sizeof(error));
    if (!chain->lab.loader)
        skip_all(error);
    chain->lab.control = loader_control(chain->lab.loader);
    chain->lab.control->port = htons(LAB_PORT);
    lab_own(chain->lab.control);
    chain->all = chain->lab.loader->object.gate;
    chain->buckets = mmap(NULL, buckets_size(chain), PROT_READ | PROT_WRITE, MAP_SHARED,
                          chain_lab_map(chain, "mc_buckets"), 0);
    if (chain->buckets == MAP_FAILED)
        skip_all("cannot map the table");
    chain_lab_clear(chain);
}

void chain_lab_close(struct chain_lab *chain)
{
    munmap(chain->buckets, buckets_size(chain));
    loader_close(chain->lab.loader);
}

void chain_lab_clear(struct chain_lab *chain)
{
    struct chain_outstanding ask = {0};

    memset(chain->buckets, 0, chain->settings.entries * sizeof(*chain->buckets));
    *chain->all = (struct chain_gate){0};
    for (uint32_t i = 0; i < chain->settings.noutstanding; i++)
        bpf_map_update_elem(chain_lab_map(chain, "mc_outstanding"), &i, &ask, BPF_ANY);
}

struct chain_bucket *chain_lab_bucket(struct chain_lab *chain, const char *key, size_t nkey)
{
    return &chain->buckets[lab_hash(&chain->lab, key, nkey) & (chain->settings.entries - 1)];
}

uint64_t chain_lab_count(struct chain_lab *chain, enum chain_count count)
{
    struct chain_counts counts;

    loader_chain_counts(chain->lab.loader, &counts);
    return counts.count[count];
}

uint64_t chain_lab_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether this counter increased by one, and no other changed. */
static bool counted_once(const struct chain_counts *before, const struct chain_counts *after,
                         enum chain_count count)
{
    bool right = true;

    for (size_t i = 0; i < CHAIN_COUNTS; i++) {
        if (after->count[i] - before->count[i] == (i == count))
            continue;
        diag("count %zu changed by %lld", i, (long long)(after->count[i] - before->count[i]));
        right = false;
    }
    return right;
}

bool chain_misses(struct chain_lab *chain, const struct frame *request, enum chain_count miss)
{
    struct chain_counts before, after;
    bool passes;

    loader_chain_counts(chain->lab.loader, &before);
    passes = lab_passes(&chain->lab, request, LAB_UNCOUNTED);
    loader_chain_counts(chain->lab.loader, &after);
    return passes && counted_once(&before, &after, miss);
}

bool chain_leaves(struct chain_lab *chain, const struct frame *frame, enum chain_count counted)
{
    struct chain_counts before, after;
    struct frame out;
    uint32_t verdict;

    loader_chain_counts(chain->lab.loader, &before);
    verdict = lab_run(&chain->lab, LOADER_TC, frame, &out);
    loader_chain_counts(chain->lab.loader, &after);
    if (verdict != UINT32_MAX || !frame_equal(frame, &out)) {
        diag("verdict %u", verdict);
        frame_dump("reply", frame);
        frame_dump("left", &out);
        return false;
    }
    return counted == CHAIN_COUNTS || counted_once(&before, &after, counted);
}

bool chain_replies(struct chain_lab *chain, const struct frame *request, const char *text,
                   size_t ntext, enum chain_count counted)
{
    struct frame reply;

    frame_answer(&reply, request, text, ntext);
    frame_shape(&reply, &chain->lab.shape);
    return chain_leaves(chain, &reply, counted);
}

bool chain_keeps(struct chain_lab *chain, const char *request, const char *text, size_t ntext)
{
    struct frame frame;

    frame_request(&frame, request, strlen(request));
    return chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(chain, &frame, text, ntext, CHAIN_COUNTS) &&
           lab_answers(&chain->lab, &frame, text, ntext);
}

bool chain_answers(struct chain_lab *chain, const char *request, const char *text, size_t ntext)
{
    struct frame frame;

    frame_request(&frame, request, strlen(request));
    return lab_answers(&chain->lab, &frame, text, ntext);
}

size_t text_get(char *out, const char *key, size_t nkey)
{
    memcpy(out, "get ", 4);
    memcpy(out + 4, key, nkey);
    memcpy(out + 4 + nkey, "\r\n", 3);
    return nkey + 6;
}

size_t text_value(char *out, const char *key, size_t nkey, const char *value, size_t nvalue)
{
    size_t n = 6 + nkey;

    memcpy(out, "VALUE ", 6);
    memcpy(out + 6, key, nkey);
    n += (size_t)sprintf(out + n, " 0 %zu\r\n", nvalue);
    memcpy(out + n, value, nvalue);
    memcpy(out + n + nvalue, "\r\n", 2);
    return n + nvalue + 2;
}
