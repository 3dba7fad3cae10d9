/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose segments change or end an entry: those of its own socket alone, or Linux has given the
 * connection's addresses and ports to another one. Here another socket sends all that leaves, as a
 * container does in the server's name.
 */
#include <string.h>
#include <unistd.h>

#include "t/bpf/tcp_lab.h"
#include "t/bpf/tcp_pair.h"
#include "t/lib/tap.h"

enum { ANOTHER = 0x5eed /* a cookie that no socket has here */ };

/* What becomes of a segment, and of the entry. */
enum fate { TRANSLATED, UNTOUCHED, DROPPED, VOID /* the segment is untouched, the entry gone */ };
static const char *const fates[] = {"translated", "left alone", "dropped", "the end of the entry"};

struct row {
    enum hook hook;
    unsigned int flags;
    bool closed; /* the server has closed the entry's connection */
    enum fate fate;
};

static const struct request text = {"STORED\r\n", 8, NULL, 0, 0, 0, 0, 0};

static bool same_entry(struct tcp_lab *lab, bool v6, const struct mc_tcp_conn *before,
                       bool has_passed)
{
    struct mc_tcp_conn after;

    if (!conn_get(lab, v6, &after))
        return false;
    if (has_passed) /* what a client sends is noted */
        after.rcv_nxt = before->rcv_nxt, after.flags = before->flags;
    return !memcmp(before, &after, sizeof(after));
}

static enum fate fate_of(struct tcp_lab *lab, const struct row *row, const struct segment *segment,
                         const struct mc_tcp_conn *conn)
{
    static struct frame frame, translated;
    static struct tcp_run run;
    struct mc_tcp_conn after;
    bool same, ingress = row->hook == HOOK_INGRESS;

    segment_frame(&frame, segment);
    translated = frame;
    segment_translate(lab, &translated, segment, conn);
    run.mark = 0;
    if (tcp_run(lab, row->hook, &frame, &run) || run.verdict == TC_IS_DROP)
        return DROPPED;
    same = frame_equal(&run.out, &frame);
    if (!conn_get(lab, segment->v6, &after))
        return same ? VOID : DROPPED;
    if (!same_entry(lab, segment->v6, conn, ingress && !same))
        return DROPPED;
    return same ? UNTOUCHED : frame_equal(&run.out, &translated) ? TRANSLATED : DROPPED;
}

static void test_row(struct tcp_lab *lab, bool v6, uint64_t cookie, const struct row *row,
                     const char *what)
{
    static const char *const hooks[] = {"", "comes", "leaves"};
    struct segment segment;
    struct mc_tcp_conn conn;
    enum fate fate;

    conn_init(lab, &conn, 100, 200);
    conn.cookie = cookie;
    conn_put(lab, v6, &conn);
    lab->slots[TCP_SLOT].generation += row->closed;
    if (row->hook == HOOK_EGRESS)
        segment_out(&segment, &conn, text.text, text.n);
    else
        segment_in(lab, &segment, &conn, text.text, text.n);
    segment.v6 = v6;
    segment.flags = row->flags;
    segment.n = row->flags & PSH ? segment.n : 0;
    fate = fate_of(lab, row, &segment, &conn);
    ok(fate == row->fate, "%s%s, flags %02x %s: %s", what, row->closed ? ", closed" : "",
       row->flags, hooks[row->hook], fates[row->fate]);
    if (fate != row->fate)
        diag("it is %s", fates[fate]);
}

static void test_rows(struct tcp_lab *lab, bool v6, uint64_t cookie, const struct row *rows,
                      size_t n, const char *what)
{
    size_t i;

    for (i = 0; i < n; i++)
        test_row(lab, v6, cookie, &rows[i], what);
}

/* The entry's socket, open or closing. */
static const struct row own[] = {
    {HOOK_EGRESS, SYN | ACK, false, UNTOUCHED},  {HOOK_EGRESS, SYN, false, UNTOUCHED},
    {HOOK_EGRESS, PSH | ACK, false, TRANSLATED}, {HOOK_EGRESS, FIN | ACK, false, TRANSLATED},
    {HOOK_EGRESS, RST, false, TRANSLATED},       {HOOK_EGRESS, RST | ACK, false, TRANSLATED},
    {HOOK_EGRESS, SYN | ACK, true, UNTOUCHED},   {HOOK_EGRESS, PSH | ACK, true, TRANSLATED},
    {HOOK_INGRESS, SYN, false, UNTOUCHED},       {HOOK_INGRESS, SYN, true, UNTOUCHED},
    {HOOK_INGRESS, PSH | ACK, true, TRANSLATED},
};
/* The client's next connection. */
static const struct row other[] = {
    {HOOK_EGRESS, SYN | ACK, false, VOID},
    {HOOK_EGRESS, PSH | ACK, false, VOID},
    {HOOK_EGRESS, RST | ACK, false, VOID},
    {HOOK_EGRESS, PSH | ACK, true, VOID},
    {HOOK_INGRESS, PSH | ACK, false, TRANSLATED},
    {HOOK_INGRESS, PSH | ACK, true, VOID},
    {HOOK_INGRESS, ACK, true, VOID},
    {HOOK_INGRESS, SYN, true, VOID},
    {HOOK_INGRESS, SYN, false, UNTOUCHED},
};
/* None: Linux resets what comes, with the numbers of what came. */
static const struct row none[] = {
    {HOOK_EGRESS, SYN | ACK, false, VOID},        {HOOK_EGRESS, RST, false, TRANSLATED},
    {HOOK_EGRESS, RST | ACK, true, TRANSLATED},   {HOOK_INGRESS, PSH | ACK, true, TRANSLATED},
    {HOOK_INGRESS, PSH | ACK, false, TRANSLATED}, {HOOK_INGRESS, SYN, true, VOID},
    {HOOK_INGRESS, SYN, false, UNTOUCHED},
};

static void test_owners(struct tcp_lab *lab, struct pair *pair)
{
    uint64_t cookie;

    pair_connect(pair);
    cookie = pair_cookie(pair->server);
    test_rows(lab, pair->v6, cookie, own, COUNT(own), "own socket");
    test_rows(lab, pair->v6, ANOTHER, other, COUNT(other), "another socket");
    pair_vanish(pair);
    test_rows(lab, pair->v6, cookie, none, COUNT(none), "no socket");
    test_rows(lab, pair->v6, 0, none, 1, "no socket, nor cookie");
}

/* A connection that the server ends first, so that its end waits. */
static void test_time_wait(struct tcp_lab *lab, struct pair *pair)
{
    uint64_t cookie;
    char byte;

    pair_connect(pair);
    cookie = pair_cookie(pair->server);
    close(pair->server);
    ok(read(pair->client, &byte, 1) == 0, "the server has closed a connection first");
    close(pair->client);
    test_rows(lab, pair->v6, cookie, own, COUNT(own), "TIME_WAIT");
    pair_connect(pair);
    test_rows(lab, pair->v6, cookie, other, COUNT(other), "behind TIME_WAIT");
    pair_vanish(pair);
}

static void test_all(struct tcp_lab *lab, struct pair *pair)
{
    test_owners(lab, pair);
    test_time_wait(lab, pair);
}

int main(void)
{
    return pair_main(test_all);
}
