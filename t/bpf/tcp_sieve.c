/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which segments the programs at the hooks hand on to those of bpf/tcp, which cost
 * (bpf/udp/tail.bpf.h, bpf/packet/sieve.bpf.h). What those have read of a segment stays in their
 * scratch.
 */
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "t/bpf/tcp_lab.h"
#include "t/lib/tap.h"

#define TEXT(what) .text = what, .n = sizeof(what) - 1

static const uint8_t sack[] = {1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9,
                               1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2};
static const uint8_t late_stamps[] = {8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 1};
static const char binary_get[] = "\x80\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0k";
static const char binary_set[] = "\x80\1\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0k";

/* Whom the segment may concern. */
enum whom { FOLLOWED, ANOTHER, NONE /* is followed at all */, WAITING /* for a reply */ };

struct sieved {
    const char *description;
    enum whom whom;
    const void *text;
    size_t n;
    const uint8_t *options; /* NULL: timestamps as they mostly are */
    size_t noptions;
    unsigned int flags;   /* 0: PSH | ACK */
    unsigned int traffic; /* IP's class */
    bool hooks[3];        /* which hand it on */
};

#define ALL                                                                                        \
    {                                                                                              \
        true, true, true                                                                           \
    }
#define BY_TC                                                                                      \
    {                                                                                              \
        false, true, true                                                                          \
    }
#define BY_SEND                                                                                    \
    {                                                                                              \
        false, false, true                                                                         \
    }
#define BY_NONE                                                                                    \
    {                                                                                              \
        false, false, false                                                                        \
    }

static const struct sieved cases[] = {
    {"a get", FOLLOWED, TEXT("get k\r\n"), .hooks = ALL},
    {"gets", FOLLOWED, TEXT("gets k\r\n"), .hooks = ALL},
    {"mg", FOLLOWED, TEXT("mg k v\r\n"), .hooks = ALL},
    {"Get", FOLLOWED, TEXT(binary_get), .hooks = ALL},
    {"a get without PSH", FOLLOWED, TEXT("get k\r\n"), .flags = ACK, .hooks = ALL},
    {"a set", FOLLOWED, TEXT("set k 0 0 1\r\nx\r\n"), .hooks = BY_TC},
    {"Set", FOLLOWED, TEXT(binary_set), .hooks = BY_TC},
    {"the rest of a value", FOLLOWED, TEXT("xxxxxxxxxxxxxxxx\r\n"), .hooks = BY_TC},
    {"a part of a word", FOLLOWED, TEXT("ge"), .hooks = BY_TC},
    {"an acknowledgement", FOLLOWED, TEXT(""), .flags = ACK, .hooks = BY_TC},
    {"a set with blocks of SACK", FOLLOWED, TEXT("set k 0 0 1\r\nx\r\n"), sack, sizeof(sack),
     .hooks = ALL},
    {"a get whose timestamps are first", FOLLOWED, TEXT("get k\r\n"), late_stamps,
     sizeof(late_stamps), .hooks = ALL},
    {"a set with a congestion mark", FOLLOWED, TEXT("set k 0 0 1\r\nx\r\n"), .traffic = 3,
     .hooks = ALL},
    {"a FIN", FOLLOWED, TEXT(""), .flags = FIN | ACK, .hooks = ALL},
    {"a get of a connection that is not followed", ANOTHER, TEXT("get k\r\n"), .hooks = BY_NONE},
    {"a get while none is followed", NONE, TEXT("get k\r\n"), .hooks = BY_NONE},
    {"a reply while a connection waits for it", WAITING, TEXT("END\r\n"), .hooks = BY_SEND},
};

/* --- whether they have read it -----------------------------------------------------------------
 */

/* All rows of the scratch, one for each CPU. */
struct scratch {
    int map;
    size_t n;
    uint8_t *rows;
};

static void scratch_open(struct scratch *scratch, struct tcp_lab *lab)
{
    struct bpf_map_info info = {0};
    __u32 ninfo = sizeof(info);

    scratch->map = loader_tcp_map(lab->lab.loader, "mc_tcp_scratch");
    if (scratch->map < 0 || bpf_obj_get_info_by_fd(scratch->map, &info, &ninfo)) {
        ok(false, "there is a scratch");
        exit(done());
    }
    scratch->n = (size_t)libbpf_num_possible_cpus() * ((info.value_size + 7u) & ~7u);
    scratch->rows = calloc(1, scratch->n);
}

static void scratch_clear(struct scratch *scratch)
{
    memset(scratch->rows, 0, scratch->n);
    bpf_map_update_elem(scratch->map, &(uint32_t){0}, scratch->rows, BPF_ANY);
}

static bool scratch_is_used(struct scratch *scratch)
{
    bpf_map_lookup_elem(scratch->map, &(uint32_t){0}, scratch->rows);
    for (size_t i = 0; i < scratch->n; i++)
        if (scratch->rows[i])
            return true;
    return false;
}

/* --- a case --------------------------------------------------------------------------------------
 */

/* The lab's connections, over IPv4 and IPv6, are followed, or one from another port. */
static void concern(struct tcp_lab *lab, bool v6, struct mc_tcp_conn *conn, enum whom whom)
{
    conn_init(lab, conn, 1000, 5000);
    lab->lab.control->tcp_waiting = whom == WAITING;
    if (whom == FOLLOWED)
        return;
    conn_delete(lab, false);
    conn_delete(lab, true);
    if (whom != ANOTHER)
        return;
    conn_flow(lab, v6, &conn->flow);
    conn->flow.client_port++;
    entry_put(lab, conn);
}

static void forget(struct tcp_lab *lab, const struct mc_tcp_conn *conn, enum whom whom)
{
    uint64_t key = loader_tcp_key(lab->lab.loader, &conn->flow);

    if (whom == ANOTHER && !bpf_map_delete_elem(lab->conns, &key))
        loader_tcp_sieve(lab->lab.loader, &conn->flow, -1);
    lab->lab.control->tcp_waiting = 0;
}

static void test_case(struct tcp_lab *lab, bool v6, struct scratch *scratch,
                      const struct sieved *row)
{
    static const char *const names[] = {"XDP", "TC ingress", "TC egress"};
    struct mc_tcp_conn conn;
    struct segment segment;
    struct frame frame;

    concern(lab, v6, &conn, row->whom);
    for (enum hook hook = HOOK_XDP; hook <= HOOK_EGRESS; hook++) {
        struct tcp_run run = {0};

        if (hook == HOOK_EGRESS)
            segment_out(&segment, &conn, row->text, row->n);
        else
            segment_in(lab, &segment, &conn, row->text, row->n);
        segment.v6 = v6;
        segment.options = row->options;
        segment.noptions = row->noptions;
        segment.traffic = row->traffic;
        segment.flags = row->flags ? row->flags : PSH | ACK;
        segment_frame(&frame, &segment);
        scratch_clear(scratch);
        if (tcp_run(lab, hook, &frame, &run))
            diag("%s does not run", names[hook]);
        ok(scratch_is_used(scratch) == row->hooks[hook], "IPv%d: %s %s %s", v6 ? 6 : 4, names[hook],
           row->hooks[hook] ? "hands on" : "passes", row->description);
    }
    forget(lab, &conn, row->whom);
}

int main(void)
{
    struct scratch scratch;
    struct tcp_lab lab;

    tcp_lab_open(&lab);
    scratch_open(&scratch, &lab);
    for (int v6 = 0; v6 < 2; v6++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
            test_case(&lab, v6, &scratch, &cases[i]);
    free(scratch.rows);
    tcp_lab_close(&lab);
    return done();
}
