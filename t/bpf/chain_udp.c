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

enum { PORT = 40000, FORMS = COUNT(forms) };

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

    for (i = 0; i < COUNT(rows); i++) {
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

    for (i = 0; i < COUNT(heads); i++) {
        watch_mark(watch);
        watch_datagram(watch, &heads[i], SAYS("delete key\r\n"));
        ngood += gate_is(watch->all) == GATE_TIMED;
    }
    ok(ngood == COUNT(heads), "any packet but one whole datagram closes the table's gate (%zu)",
       ngood);
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

/* A header: length, id and fragment, protocol, the source's last byte; IPv6: length, next header.
 */
#define IP4(n, fragment, protocol, from)                                                           \
    "\x45\0\0" n fragment "\x40" protocol "\0\0\x0a\0\0" from "\x0a\0\0\1"
#define ZEROS        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define IP6(n, next) "\x60\0\0\0\0" n next "\x40\xfd" ZEROS "\xfd" ZEROS
#define TO_HTTP      "\x9c\x40\0\x50"
#define TO_SERVER    "\x9c\x40\x2c\x2f"
#define FIRST        "\0\2\x20\0"
#define LATER        "\0\2\0\5"

static const struct packet {
    const char *name;
    enum gate_is all;
    const char *ip; /* from the IP header on; IPv6 if it begins with 6 */
    size_t n;
} packets[] = {
    {"a first fragment to another port", GATE_UNTOUCHED,
     SAYS(IP4("\x18", "\0\1\x20\0", "\6", "\2") TO_HTTP)},
    {"a later fragment to another port", GATE_UNTOUCHED,
     SAYS(IP4("\x18", "\0\1\0\5", "\6", "\2") "dele")},
    {"a later fragment whose first one was not seen", GATE_UNTOUCHED,
     SAYS(IP4("\x18", LATER, "\x11", "\2") "dele")},
    {"a first fragment to the server's port", GATE_TIMED,
     SAYS(IP4("\x18", FIRST, "\x11", "\2") TO_SERVER)},
    {"a later fragment to the server's port", GATE_TIMED,
     SAYS(IP4("\x18", LATER, "\x11", "\2") "dele")},
    {"a later fragment from another sender", GATE_UNTOUCHED,
     SAYS(IP4("\x18", LATER, "\x11", "\3") "dele")},
    {"a fragment of ICMP", GATE_UNTOUCHED, SAYS(IP4("\x18", "\0\1\0\5", "\1", "\2") "\10\0\0\0")},
    {"an IP header that is too short", GATE_UNTOUCHED,
     SAYS("\x41\0\0\x18\0\1\0\0\x40\6\0\0\x0a\0\0\2\x0a\0\0\1" TO_SERVER)},
    {"UDP to another port", GATE_UNTOUCHED,
     SAYS(IP4("\x20", "\0\1\0\0", "\x11", "\2") "\x9c\x40\0\x35\0\0\0\0\0\0\0\0")},
    {"a TCP header that is cut off", GATE_TIMED,
     SAYS(IP4("\x20", "\0\1\0\0", "\6", "\2") TO_SERVER "\0\0\0\0\0\0\0\0")},
    {"an IPv6 extension header that is cut off", GATE_UNTOUCHED,
     SAYS(IP6("\4", "\x3c") "\x11\0\0\0")},
    {"a later IPv6 fragment whose first one was not seen", GATE_UNTOUCHED,
     SAYS(IP6("\10", "\x2c") "\6\0\0\x09\0\0\0\1")},
    {"a first IPv6 fragment to another port", GATE_UNTOUCHED,
     SAYS(IP6("\20", "\x2c") "\6\0\0\1\0\0\0\1" TO_HTTP "\0\0\0\0")},
    {"a first IPv6 fragment to the server's port", GATE_TIMED,
     SAYS(IP6("\20", "\x2c") "\6\0\0\1\0\0\0\2" TO_SERVER "\0\0\0\0")},
    {"a later IPv6 fragment to the server's port", GATE_TIMED,
     SAYS(IP6("\10", "\x2c") "\6\0\0\x09\0\0\0\2")},
};

static void test_packets(struct watch *watch)
{
    unsigned char frame[14 + 56] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
    const struct packet *packet;

    for (size_t i = 0; i < COUNT(packets); i++) {
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
