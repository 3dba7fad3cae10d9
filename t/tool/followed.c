/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * followed: what bpf/follow.h and bpf/answers.h see in the bytes that a test gives, for
 * t/lib/followed.py. One line asks, one line answers:
 *
 *     n        a connection begins
 *     g        a command begins, whatever was before
 *     q HEX    a client's bytes: each event as OFFSET:EVENTS:HASH, then 1 if it is between commands
 *     a HEX    the server's: each as OFFSET:EVENTS, then 1 if it is between answers
 *     h HEX    a key: its hash
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/answers.h"

struct followed {
    struct follow follow;
    struct answers answers;
    __u64 seeds[MC_HASH_WORDS];
};

static void make_seeds(__u64 *seeds)
{
    __u64 state = 0x9e3779b97f4a7c15ull;
    int i;

    for (i = 0; i < MC_HASH_WORDS; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        seeds[i] = state;
    }
}

static int value_of(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = digit ? strchr(digits, digit) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* In place; how many bytes. */
static size_t from_hex(char *text)
{
    size_t n = 0;

    while (value_of(text[2 * n]) >= 0 && value_of(text[2 * n + 1]) >= 0) {
        text[n] = (char)(value_of(text[2 * n]) << 4 | value_of(text[2 * n + 1]));
        n++;
    }
    return n;
}

static void requests(struct followed *followed, const char *bytes, size_t n)
{
    struct follow *f = &followed->follow;
    __u32 events;
    size_t i;

    for (i = 0; i < n; i++) {
        if (f->skip) {
            f->skip--;
            continue;
        }
        events = follow_step(f, (__u8)bytes[i], followed->seeds);
        if (events)
            printf("%zu:%u:%" PRIu64 " ", i, events, (uint64_t)f->hash);
    }
    printf("%d\n", follow_between(f));
}

static void answers(struct followed *followed, const char *bytes, size_t n)
{
    struct answers *a = &followed->answers;
    __u32 events;
    size_t i;

    for (i = 0; i < n; i++) {
        if (a->skip) {
            a->skip--;
            continue;
        }
        events = answers_step(a, (__u8)bytes[i]);
        if (events)
            printf("%zu:%u ", i, events);
    }
    printf("%d\n", answers_between(a));
}

/* The hash as a get of the key has it. */
static void hash(const struct followed *followed, const char *key, size_t nkey)
{
    __u64 sum = 0, word;
    size_t at;

    for (at = 0; at < nkey; at += 8) {
        word = 0;
        memcpy(&word, key + at, nkey - at < 8 ? nkey - at : 8);
        sum += mc_hash_word(word, followed->seeds[at / 8 % MC_HASH_WORDS]);
    }
    printf("%" PRIu64 "\n", (uint64_t)mc_hash_end(sum, nkey));
}

int main(void)
{
    struct followed followed = {0};
    char *line = NULL;
    size_t size = 0, n;

    make_seeds(followed.seeds);
    while (getline(&line, &size, stdin) > 0) {
        n = line[0] == 'n' || line[1] != ' ' ? 0 : from_hex(line + 2);
        if (line[0] == 'q') {
            requests(&followed, line + 2, n);
        } else if (line[0] == 'a') {
            answers(&followed, line + 2, n);
        } else if (line[0] == 'h') {
            hash(&followed, line + 2, n);
        } else if (line[0] == 'g') {
            follow_again(&followed.follow);
            printf("1\n");
        } else {
            follow_init(&followed.follow);
            answers_init(&followed.answers);
            printf("1\n");
        }
        fflush(stdout);
    }
    free(line);
    return 0;
}
