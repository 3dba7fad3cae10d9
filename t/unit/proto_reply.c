/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "proto/proto.h"
#include "t/lib/tap.h"

/* The bytes of the reply from `skip` on, at most `limit`, with as many iovecs as needed. */
static size_t gather(const struct reply *reply, size_t skip, size_t limit, size_t niov, char *out)
{
    struct iovec iov[8];
    size_t total = 0;

    while (total < limit) {
        size_t n = reply_iov(reply, skip + total, limit - total, iov, niov);
        size_t i;

        if (n == 0)
            break;
        for (i = 0; i < n; i++) {
            memcpy(out + total, iov[i].iov_base, iov[i].iov_len);
            total += iov[i].iov_len;
        }
    }
    return total;
}

static bool reads(const struct reply *reply, const char *wanted)
{
    char out[4096];
    size_t n = gather(reply, 0, sizeof(out), 8, out);

    return n == strlen(wanted) && n == reply->nbytes && memcmp(out, wanted, n) == 0;
}

static void pieces_come_out_in_order(struct reply *reply)
{
    ok(reads(reply, ""), "an empty reply has no bytes");
    reply_bytes(reply, SLICE("VALUE "));
    reply_copy(reply, SLICE("key"));
    reply_printf(reply, " %d", 7);
    reply_bytes(reply, SLICE(""));
    reply_bytes(reply, SLICE("\r\n"));
    ok(reads(reply, "VALUE key 7\r\n"), "constant and copied pieces are sent in order");
    ok(reply->npieces == 3, "neighbouring copies become one piece");
    reply_reset(reply);
    ok(reads(reply, ""), "a reset reply is empty");
}

static void any_window_of_a_reply_can_be_sent(struct reply *reply)
{
    char whole[512], part[512];
    size_t total, skip, limit, niov;
    bool same = true;

    for (int i = 0; i < 20; i++) {
        reply_bytes(reply, SLICE("VALUE "));
        reply_printf(reply, "key%d ", i);
        reply_bytes(reply, SLICE("abc"));
    }
    total = gather(reply, 0, sizeof(whole), 8, whole);
    for (niov = 1; niov <= 8; niov += 7) {
        for (skip = 0; skip <= total; skip++) {
            for (limit = 1; limit <= total - skip + 1; limit += 13) {
                size_t n = gather(reply, skip, limit, niov, part);
                size_t wanted = total - skip < limit ? total - skip : limit;

                same = same && n == wanted && memcmp(part, whole + skip, n) == 0;
            }
        }
    }
    ok(total == reply->nbytes, "nbytes is the sum of the pieces");
    ok(same, "every window of a reply has the right bytes");
}

static void long_texts_fit(void)
{
    struct reply reply;
    char text[3000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    reply_init(&reply);
    reply_printf(&reply, "%s", text);
    ok(reads(&reply, text), "a printed text may be longer than the initial buffer");
    reply_fini(&reply);
}

static void a_reply_can_be_truncated(struct reply *reply)
{
    struct reply_mark mark;

    reply_copy(reply, SLICE("kept "));
    mark = reply_mark(reply);
    reply_copy(reply, SLICE("gone"));
    reply_bytes(reply, SLICE("gone too"));
    reply_rewind(reply, &mark);
    reply_copy(reply, SLICE("and new"));
    ok(reads(reply, "kept and new"), "pieces added after a mark can be removed");
}

static void an_empty_reply_keeps_little(struct reply *reply)
{
    char text[100000] = {0};

    for (int i = 0; i < 10000; i++) {
        reply_bytes(reply, SLICE("x"));
        reply_hold(reply, text);
    }
    reply_copy(reply, (struct slice){text, sizeof(text)});
    reply->nheld = 0;
    reply_reset(reply);
    ok(!reply->text && !reply->pieces && !reply->held, "the memory of a large reply is freed");
    reply_copy(reply, SLICE("x"));
    reply_hold(reply, text);
    reply->nheld = 0;
    reply_reset(reply);
    ok(reply->text && reply->pieces && reply->held, "the memory of a small reply is kept");
}

static void held_objects_are_listed(struct reply *reply)
{
    int objects[100];
    bool same = true;

    for (size_t i = 0; i < 100; i++)
        reply_hold(reply, &objects[i]);
    for (size_t i = 0; i < 100; i++)
        same = same && reply->held[i] == &objects[i];
    ok(same && reply->nheld == 100, "held objects are listed in order");
    reply->nheld = 0;
}

static void with_reply(void (*test)(struct reply *reply))
{
    struct reply reply;

    reply_init(&reply);
    test(&reply);
    reply_fini(&reply);
}

int main(void)
{
    with_reply(pieces_come_out_in_order);
    with_reply(any_window_of_a_reply_can_be_sent);
    long_texts_fit();
    with_reply(a_reply_can_be_truncated);
    with_reply(an_empty_reply_keeps_little);
    with_reply(held_objects_are_listed);
    return done();
}
