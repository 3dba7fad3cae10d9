/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The short way to the reply of a get of one key over TCP (bpf/answer/one.bpf.h): what takes it,
 * and that it reads the clock no more often than over UDP. Which way it was the programs note in
 * their own memory, where the maps' types say what lies at which place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "t/bpf/tcp_lab.h"
#include "t/lib/tap.h"

#define TEXT(text) text, sizeof(text) - 1

/* One value of a map for each CPU. */
struct rows {
    int map, ncpus;
    size_t size; /* of a row */
    struct btf *btf;
    const struct btf_type *type;
    uint8_t *bytes;
};

static void rows_open(struct rows *rows, struct tcp_lab *lab, const char *name)
{
    struct bpf_map_info info = {0};
    __u32 ninfo = sizeof(info);

    rows->map = loader_tcp_map(lab->lab.loader, name);
    if (rows->map < 0 || bpf_obj_get_info_by_fd(rows->map, &info, &ninfo)) {
        ok(false, "there is a map %s", name);
        exit(done());
    }
    rows->ncpus = libbpf_num_possible_cpus();
    rows->size = (info.value_size + 7u) & ~7u;
    rows->btf = btf__load_from_kernel_by_id(info.btf_id);
    rows->type = btf__type_by_id(rows->btf, info.btf_value_type_id);
    rows->bytes = calloc((size_t)rows->ncpus, rows->size);
}

static void rows_close(struct rows *rows)
{
    btf__free(rows->btf);
    free(rows->bytes);
}

static void rows_load(struct rows *rows)
{
    bpf_map_lookup_elem(rows->map, &(uint32_t){0}, rows->bytes);
}

static void rows_store(struct rows *rows)
{
    bpf_map_update_elem(rows->map, &(uint32_t){0}, rows->bytes, BPF_ANY);
}

/* Where a member of this name lies in a row. Ends the test if there is none. */
static size_t rows_place(const struct rows *rows, const char *name)
{
    const struct btf_member *member = btf_members(rows->type);
    __u16 i;

    for (i = 0; i < btf_vlen(rows->type); i++, member++)
        if (!strcmp(btf__name_by_offset(rows->btf, member->name_off), name))
            return member->offset / 8;
    ok(false, "there is a member %s", name);
    exit(done());
}

/* Sets n bytes of a member on all CPUs. */
static void rows_set(struct rows *rows, const char *name, const void *to, size_t n)
{
    size_t place = rows_place(rows, name);
    int i;

    rows_load(rows);
    for (i = 0; i < rows->ncpus; i++)
        memcpy(rows->bytes + (size_t)i * rows->size + place, to, n);
    rows_store(rows);
}

/* Whether a member is not 0 on any CPU. */
static bool rows_have(struct rows *rows, const char *name)
{
    size_t place = rows_place(rows, name);
    bool have = false;
    int i;

    rows_load(rows);
    for (i = 0; i < rows->ncpus; i++)
        have |= rows->bytes[(size_t)i * rows->size + place] != 0;
    return have;
}

/* --- which way ------------------------------------------------------------------------------ */

enum { BUCKET = 3, FULL = MC_SLOTS, ABSENT = 50 };

/* The n-th of the keys whose bucket is number BUCKET, and whose tags differ. */
static void key_at(struct tcp_lab *lab, unsigned int n, char key[32])
{
    bool seen[256] = {false};
    unsigned int i;
    uint64_t hash;

    for (i = 0;; i++) {
        snprintf(key, 32, "key-%u", i);
        hash = lab_hash(&lab->lab, key, strlen(key));
        if (lab_bucket(&lab->lab, hash) != &lab->lab.buckets[BUCKET] || seen[mc_hash_tag(hash)])
            continue;
        seen[mc_hash_tag(hash)] = true;
        if (n-- == 0)
            return;
    }
}

/* Whether a get of that key is answered, with a value or without; *by_one: by the short way. */
static bool asks(struct tcp_lab *lab, bool v6, const char *key, const char *value, bool *by_one)
{
    struct request request = {.hits = value != NULL, .misses = value == NULL};
    char text[64], reply[128];
    struct mc_tcp_conn conn;
    struct segment segment;
    struct rows rows;
    bool right;

    rows_open(&rows, lab, "mc_tcp_scratch");
    rows_set(&rows, "is_one", &(uint32_t){0}, 4);
    request.text = text;
    request.n = (size_t)snprintf(text, sizeof(text), "get %s\r\n", key);
    request.reply = reply;
    request.nreply =
        (size_t)(value ? snprintf(reply, sizeof(reply), "VALUE %s 0 %zu\r\n%s\r\nEND\r\n", key,
                                  strlen(value), value)
                       : snprintf(reply, sizeof(reply), "END\r\n"));
    conn_init(lab, &conn, 1000, 5000);
    segment_in(lab, &segment, &conn, request.text, request.n);
    segment.v6 = v6;
    right = tcp_does(lab, HOOK_XDP, &segment, &request, ACT_ANSWER, NOT_COUNTED);
    *by_one = rows_have(&rows, "is_one");
    rows_close(&rows);
    return right;
}

/* Chains of one to three buckets. */
static void test_chains(struct tcp_lab *lab, bool v6)
{
    unsigned int n, nshort = 0, nmiss = 0, nlong = 0;
    bool right = true, by_one;
    char key[32];

    lab_clear(&lab->lab);
    for (n = 0; n < 3 * FULL; n++) {
        key_at(lab, n, key);
        lab_put(&lab->lab, key, strlen(key), "value", 5);
        right &= asks(lab, v6, key, "value", &by_one);
        nshort += n < 2 * FULL && by_one;
        nlong += n >= 2 * FULL && !by_one;
        key_at(lab, ABSENT, key);
        right &= asks(lab, v6, key, NULL, &by_one);
        nmiss += n < 2 * FULL && by_one;
    }
    ok(right, "IPv%d: hits and misses in chains of up to three buckets are answered", v6 ? 6 : 4);
    ok(nshort == 2 * FULL, "IPv%d: hits in a bucket and its overflow bucket by the short way: %u",
       v6 ? 6 : 4, nshort);
    ok(nmiss == 2 * FULL, "IPv%d: and so are misses: %u", v6 ? 6 : 4, nmiss);
    ok(nlong == FULL, "IPv%d: hits behind those by the long way: %u", v6 ? 6 : 4, nlong);
}

/* The mark that an item in an overflow bucket was read is that bucket's. */
static void test_marks(struct tcp_lab *lab, bool v6)
{
    char key[32];
    unsigned int n;
    bool by_one, right;

    lab_clear(&lab->lab);
    for (n = 0; n <= FULL; n++) {
        key_at(lab, n, key);
        lab_put(&lab->lab, key, strlen(key), "value", 5);
    }
    right = asks(lab, v6, key, "value", &by_one);
    ok(right && lab->lab.buckets[BUCKET].accessed == 0 &&
           lab->lab.overflow[lab->lab.buckets[BUCKET].next].accessed == 1,
       "IPv%d: an item in an overflow bucket is marked as read there", v6 ? 6 : 4);
}

/* --- the clock ------------------------------------------------------------------------------ */

/*
 * What the programs keep of the clock says that it is 0: then an item that has expired is served,
 * by the short way, for the few ticks in which they do not read the clock again. A try may take
 * longer than those.
 */
static bool is_served_by_kept_clock(struct tcp_lab *lab, bool v6)
{
    static const struct request request = {
        TEXT("get key-hit\r\n"), TEXT("VALUE key-hit 0 5\r\nvalue\r\nEND\r\n"), .hits = 1};
    struct mc_item *item = lab_put(&lab->lab, "key-hit", 7, "value", 5);
    uint64_t base = lab->lab.control->base_ns;
    struct mc_tcp_conn conn;
    struct segment segment;
    struct frame frame;
    struct tcp_run run = {0};
    struct rows rows, ways;
    bool by_one = false;
    int tries;

    rows_open(&rows, lab, "mc_scratch");
    rows_open(&ways, lab, "mc_tcp_scratch");
    conn_init(lab, &conn, 1000, 5000);
    segment_in(lab, &segment, &conn, request.text, request.n);
    segment.v6 = v6;
    for (tries = 0; tries < 100 && !by_one; tries++) {
        conn_put(lab, v6, &conn);
        conn_settle(lab, &conn);
        segment_frame(&frame, &segment);
        item->exptime = UINT32_MAX;
        if (tcp_run(lab, HOOK_XDP, &frame, &run) || run.verdict != XDP_IS_TX)
            break; /* the clock was read, or need not be */
        rows_set(&rows, "clock_ns", &base, 8);
        rows_set(&ways, "is_one", &(uint32_t){0}, 4);
        item->exptime = 100;
        conn_put(lab, v6, &conn);
        conn_settle(lab, &conn);
        by_one = tcp_run(lab, HOOK_XDP, &frame, &run) == 0 && run.verdict == XDP_IS_TX &&
                 rows_have(&ways, "is_one");
    }
    rows_close(&ways);
    rows_close(&rows);
    return by_one;
}

static void test_clock(struct tcp_lab *lab, bool v6)
{
    lab_clear(&lab->lab);
    ok(is_served_by_kept_clock(lab, v6),
       "IPv%d: the clock is not read for an item that expires much later", v6 ? 6 : 4);
}

int main(void)
{
    struct tcp_lab lab;
    int v6;

    tcp_lab_open(&lab);
    for (v6 = 0; v6 < 2; v6++) {
        test_chains(&lab, v6);
        test_marks(&lab, v6);
        test_clock(&lab, v6);
    }
    tcp_lab_close(&lab);
    return done();
}
