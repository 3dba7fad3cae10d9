#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tests of the protocols over TCP, on servers with tcp=on: clients cannot tell who answers."""
import os

import again
import netns
import server
import tap

# On lo, which every client of these tests uses, TC answers what XDP does elsewhere.
WORDS = "-X bmc=lo,tcp=on,udp=off,mode=tc"
NAMES = ("large-values", "binary-table", "meta", "expiry-flush", "text-pipelining-noreply", "lines",
         "text-retrieval", "text-storage")

pair = netns.Pair(links=0)
netns.enter(pair.server)


@tap.case
def gets_over_lo_are_answered_by_the_kernel():
    with server.Server(*WORDS.split()) as s, s.stream() as c:
        for _ in range(5):
            tap.is_(c.get(b"none"), None, "a get of a missing key is a miss")
        tap.ok(int(c.stats("bmc")["tcp_answered"]) >= 2, "the kernel answers some of them")


@tap.case
def clients_cannot_tell_who_answers():
    again.all_pass(["server/" + name for name in tap.some(NAMES, 4)], T_ARGS=WORDS)


@tap.case
def the_namespaces_are_removed():
    pair.close()
    tap.ok(pair.server not in os.listdir("/run/netns"), "no namespace stays")


tap.run(400)
