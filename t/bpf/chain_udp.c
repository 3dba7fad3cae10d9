/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which packets close gates without a connection: commands over UDP, and packets that cannot be
 * followed. When replies to the former open gates is in chain_writes.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/bpf/segments.h"
#include "t/lib/tap.h"

#define SETTLE        60000000000u
#define SAYS(literal) literal, sizeof(literal) - 1

static const struct form forms[] = {
    {.v6 = false}, {.v6 = true}, {.ip_options = 8}, {.v6 = true, .ip_options = 16}, {.ntags = 1},
};

enum { PORT = 40000, FORMS = sizeof(forms) / sizeof(forms[0]) };

/* Binary: magic, opcode, length of key, of extras, of all. */
#define BINARY(opcode, nkey, nextras, nbody)                                                       \
    "\x80" opcode "\0" nkey nextras "\0\0\0\0\0\0" nbody "\0\0\0\1\0\0\0\0\0\0\0\0"

struct row {
    const char *name;
    const char *says;
    size_t n;
    enum gate_is key, all; /* afterwards */
};

static const struct row rows[] = {
    {"set", SAYS("set key 0 0 1\r\nv\r\n"), GATE_ENTERED, GATE_UNTOUCHED},
    {"set without a reply", SAYS("set key 0 0 1 noreply\r\nv\r\n"), GATE_TIMED, GATE_UNTOUCHED},
    {"delete", SAYS("delete key\r\n"), GATE_ENTERED, GATE_UNTOUCHED},
    {"incr", SAYS("incr key 1\n"), GATE_ENTERED, GATE_UNTOUCHED},
    {"touch", SAYS("touch key 0\r\n"), GATE_ENTERED, GATE_UNTOUCHED},
    {"gat", SAYS("gat 0 other key\r\n"), GATE_TIMED, GATE_UNTOUCHED},
    {"gat of one key", SAYS("gat 0 key\r\n"), GATE_TIMED, GATE_UNTOUCHED},
    {"a set and a get", SAYS("set key 0 0 1\r\nv\r\nget a\r\n"), GATE_TIMED, GATE_UNTOUCHED},
    {"a set and an empty line", SAYS("set key 0 0 1\r\nv\r\n\r\n"), GATE_TIMED, GATE_UNTOUCHED},
    {"a delete and a delete without a reply", SAYS("delete key\r\ndelete key noreply\r\n"),
     GATE_TIMED, GATE_UNTOUCHED},
    {"a set and flush_all", SAYS("set key 0 0 1\r\nv\r\nflush_all\r\n"), GATE_TIMED, GATE_TIMED},
    {"flush_all and a set", SAYS("flush_all\r\nset key 0 0 1\r\nv\r\n"), GATE_TIMED, GATE_TIMED},
    {"a set and mn", SAYS("set key 0 0 1\r\nv\r\nmn\r\n"), GATE_TIMED, GATE_UNTOUCHED},
    {"a set and half a command", SAYS("set key 0 0 1\r\nv\r\ndelete k"), GATE_TIMED, GATE_TIMED},
    {"ms", SAYS("ms key 1\r\nv\r\n"), GATE_ENTERED, GATE_UNTOUCHED},
    {"md", SAYS("md key q\r\n"), GATE_TIMED, GATE_UNTOUCHED},
    {"a get and a set", SAYS("get a\r\nset key 0 0 1\r\nv\r\n"), GATE_TIMED, GATE_UNTOUCHED},
    {"a set, a get and an add", SAYS("set b 0 0 1\r\nv\r\nget a\r\nadd key 0 0 1\r\nv\r\n"),
     GATE_TIMED, GATE_UNTOUCHED},
    {"binary set", SAYS(BINARY("\1", "\3", "\10", "\14") "\0\0\0\0\0\0\0\0keyv"), GATE_ENTERED,
     GATE_UNTOUCHED},
    {"quiet binary delete", SAYS(BINARY("\x14", "\3", "\0", "\3") "key"), GATE_TIMED,
     GATE_UNTOUCHED},
    {"two binary commands",
     SAYS(BINARY("\0", "\1", "\0", "\1") "a" BINARY("\4", "\3", "\0", "\3") "key"), GATE_TIMED,
     GATE_UNTOUCHED},
    {"gets", SAYS("gets key\r\n"), GATE_UNTOUCHED, GATE_UNTOUCHED},
    {"mg", SAYS("mg key v\r\n"), GATE_UNTOUCHED, GATE_UNTOUCHED},
    {"two gets", SAYS("get key\r\nget key\r\n"), GATE_UNTOUCHED, GATE_UNTOUCHED},
    {"binary get", SAYS(BINARY("\0", "\3", "\0", "\3") "key"), GATE_UNTOUCHED, GATE_UNTOUCHED},
    {"version", SAYS("version\r\n"), GATE_UNTOUCHED, GATE_UNTOUCHED},
    {"flush_all", SAYS("flush_all\r\n"), GATE_UNTOUCHED, GATE_TIMED},
    {"an unknown command", SAYS("zap key\r\n"), GATE_UNTOUCHED, GATE_TIMED},
    {"a command without an end", SAYS("delete key"), GATE_UNTOUCHED, GATE_TIMED},
    {"a value without an end", SAYS("set key 0 0 100\r\nv"), GATE_TIMED, GATE_TIMED},
    {"a binary command without an end", SAYS(BINARY("\4", "\3", "\0", "\3") "ke"), GATE_UNTOUCHED,
     GATE_TIMED},
    {"a value that is too long", SAYS("set key 0 0 1\r\nvalue\r\n"), GATE_TIMED, GATE_TIMED},
    {"a malformed binary request", SAYS("\x80\1\2\3"), GATE_UNTOUCHED, GATE_TIMED},
    {"text behind a binary request", SAYS(BINARY("\0", "\1", "\0", "\1") "adelete key\r\n"),
     GATE_UNTOUCHED, GATE_TIMED},
    {"nothing", SAYS(""), GATE_UNTOUCHED, GATE_UNTOUCHED},
};

static bool is(struct watch *watch, enum gate_is key, enum gate_is all)
{
    return gate_is(watch_gate(watch, "key")) == key && gate_is(watch->all) == all;
}

static void test_datagrams(struct watch *watch)
{
    const struct row *row;
    size_t i, form, ngood;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        row = &rows[i];
        for (ngood = form = 0; form < FORMS; form++) {
            watch_mark(watch);
            ngood += watch_datagram(
                         watch, &(struct datagram){.form = forms[form], .port = PORT, .total = 1},
                         row->says, row->n) &&
                     is(watch, row->key, row->all);
        }
        if (!ok(ngood == FORMS,
                "%s over UDP: the key's gate is %s, the table's is %s (in %zu of %d forms)",
                row->name, gate_name(row->key), gate_name(row->all), ngood, FORMS))
            diag("the gates are %s, %s", gate_name(gate_is(watch_gate(watch, "key"))),
                 gate_name(gate_is(watch->all)));
    }
}

static void test_frame_headers(struct watch *watch)
{
    static const struct datagram heads[] = {{.port = PORT, .total = 2},
                                            {.port = PORT, .sequence = 1, .total = 2},
                                            {.port = PORT, .sequence = 1, .total = 1},
                                            {.port = PORT, .total = 0},
                                            {.port = PORT, .total = 256},
                                            {.port = PORT, .sequence = 256, .total = 1}};
    size_t i, ngood = 0;

    for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        watch_mark(watch);
        watch_datagram(watch, &heads[i], SAYS("delete key\r\n"));
        ngood += gate_is(watch->all) == GATE_TIMED;
    }
    ok(ngood == sizeof(heads) / sizeof(heads[0]),
       "any packet but one whole datagram closes the table's gate (%zu)", ngood);
}

static void test_large(struct watch *watch)
{
    static char text[60000];
    size_t n = (size_t)sprintf(text, "set key 0 0 50000\r\n");

    memset(text + n, 'x', 50000);
    n += 50000;
    n += (size_t)sprintf(text + n, "\r\ndelete behind\r\n");
    watch_mark(watch);
    watch_datagram(watch, &(struct datagram){.port = PORT, .total = 1}, text, n);
    ok(is(watch, GATE_TIMED, GATE_UNTOUCHED) && gate_is(watch_gate(watch, "behind")) == GATE_TIMED,
       "a datagram of 50,000 bytes with a command at its end");
}

/* --- packets --------------------------------------------------------------------------------- */

struct packet {
    const char *name;
    enum gate_is all;
    size_t n;
    unsigned char ip[56]; /* from the IP header on; IPv6 if it begins with 6 */
};

static const struct packet packets[] = {
    {"a first fragment to another port",
     GATE_UNTOUCHED,
     24,
     {0x45, 0, 0, 24, 0, 1, 0x20, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1, 0x9c, 0x40, 0, 80}},
    {"a later fragment to another port", GATE_UNTOUCHED, 24, {0x45, 0, 0, 24, 0,   1,   0,   5,
                                                              64,   6, 0, 0,  10,  0,   0,   2,
                                                              10,   0, 0, 1,  'd', 'e', 'l', 'e'}},
    {"a later fragment whose first one was not seen",
     GATE_UNTOUCHED,
     24,
     {0x45, 0, 0, 24, 0, 2, 0, 5, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1, 'd', 'e', 'l', 'e'}},
    {"a first fragment to the server's port", GATE_TIMED, 24, {0x45, 0, 0,    24,   0,    2,
                                                               0x20, 0, 64,   17,   0,    0,
                                                               10,   0, 0,    2,    10,   0,
                                                               0,    1, 0x9c, 0x40, 0x2c, 0x2f}},
    {"a later fragment to the server's port",
     GATE_TIMED,
     24,
     {0x45, 0, 0, 24, 0, 2, 0, 5, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1, 'd', 'e', 'l', 'e'}},
    {"a later fragment from another sender",
     GATE_UNTOUCHED,
     24,
     {0x45, 0, 0, 24, 0, 2, 0, 5, 64, 17, 0, 0, 10, 0, 0, 3, 10, 0, 0, 1, 'd', 'e', 'l', 'e'}},
    {"a fragment of ICMP", GATE_UNTOUCHED, 24, {0x45, 0, 0, 24, 0,  1, 0, 5, 64, 1, 0, 0,
                                                10,   0, 0, 2,  10, 0, 0, 1, 8,  0, 0, 0}},
    {"an IP header that is too short",
     GATE_UNTOUCHED,
     24,
     {0x41, 0, 0, 24, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1, 0x9c, 0x40, 0x2c, 0x2f}},
    {"UDP to another port", GATE_UNTOUCHED, 32, {0x45, 0, 0, 32, 0,  1, 0, 0, 64,   17,   0, 0,
                                                 10,   0, 0, 2,  10, 0, 0, 1, 0x9c, 0x40, 0, 53}},
    {"a TCP header that is cut off", GATE_TIMED, 32, {0x45, 0, 0, 32, 0,    1,    0,    0,
                                                      64,   6, 0, 0,  10,   0,    0,    2,
                                                      10,   0, 0, 1,  0x9c, 0x40, 0x2c, 0x2f}},
    {"an IPv6 extension header that is cut off",
     GATE_UNTOUCHED,
     44,
     {0x60, 0, 0, 0, 0, 4, 60, 64, [8] = 0xfd, [24] = 0xfd, [40] = 17}},
    {"a later IPv6 fragment whose first one was not seen",
     GATE_UNTOUCHED,
     48,
     {0x60, 0, 0, 0, 0, 8, 44, 64, [8] = 0xfd, [24] = 0xfd, [40] = 6, 0, 0, 9, 0, 0, 0, 1}},
    {"a first IPv6 fragment to another port",
     GATE_UNTOUCHED,
     56,
     {0x60, 0, 0, 0, 0, 16, 44, 64,   [8] = 0xfd, [24] = 0xfd, [40] = 6,
      0,    0, 1, 0, 0, 0,  1,  0x9c, 0x40,       0,           80}},
    {"a first IPv6 fragment to the server's port",
     GATE_TIMED,
     56,
     {0x60, 0, 0, 0, 0, 16, 44, 64,   [8] = 0xfd, [24] = 0xfd, [40] = 6,
      0,    0, 1, 0, 0, 0,  2,  0x9c, 0x40,       0x2c,        0x2f}},
    {"a later IPv6 fragment to the server's port",
     GATE_TIMED,
     48,
     {0x60, 0, 0, 0, 0, 8, 44, 64, [8] = 0xfd, [24] = 0xfd, [40] = 6, 0, 0, 9, 0, 0, 0, 2}},
};

static void test_packets(struct watch *watch)
{
    unsigned char frame[14 + 56] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
    const struct packet *packet;
    size_t i;

    for (i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
        packet = &packets[i];
        frame[12] = packet->ip[0] >> 4 == 6 ? 0x86 : 0x08;
        frame[13] = packet->ip[0] >> 4 == 6 ? 0xdd : 0x00;
        memcpy(frame + 14, packet->ip, packet->n);
        watch_mark(watch);
        ok(watch_frame(watch, frame, 14 + packet->n) && gate_is(watch->all) == packet->all,
           "%s: the table's gate is %s", packet->name, gate_name(gate_is(watch->all)));
    }
}

int main(void)
{
    struct watch watch;

    watch_open(&watch, SETTLE);
    test_datagrams(&watch);
    test_frame_headers(&watch);
    test_large(&watch);
    test_packets(&watch);
    watch_close(&watch);
    return done();
}
