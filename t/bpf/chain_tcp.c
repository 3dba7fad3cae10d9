/* SPDX-License-Identifier: BSD-3-Clause */
/* What clients and server say over TCP: which gates close, and when they open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/bpf/segments.h"
#include "t/lib/tap.h"

static const struct form plain;

static bool check(struct watch *watch, const char *key, enum gate_is want, const char *what)
{
    enum gate_is is = gate_is(key ? watch_gate(watch, key) : watch->all);

    return ok(is == want, "%s: the gate of %s is %s", what, key ? key : "all", gate_name(is));
}

static void test_one(struct watch *watch)
{
    struct talk talk;

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk, "set key 0 0 5\r\nvalue\r\n");
    check(watch, "key", GATE_ENTERED, "a set has arrived");
    check(watch, NULL, GATE_UNTOUCHED, "a set has arrived");
    ANSWER(&talk, "STORED\r\n");
    check(watch, "key", GATE_LEFT, "its reply has left");
}

int main(void)
{
    struct watch watch;

    watch_open(&watch, 60000000000u);
    test_one(&watch);
    watch_close(&watch);
    return done();
}
