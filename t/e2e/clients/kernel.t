#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real clients over TCP, some of whose gets the kernel answers: they cannot tell. Those of Debian's
packages one after the other on one server; with T_CLIENTS=all every session on a server of its own.
"""
import os

import again
import netns
import server
import sessions
import tap

# On lo, where the clients connect to, TC answers what XDP does elsewhere.
WORDS = "-X bmc=lo,tcp=on,udp=off,mode=tc"

machine = netns.Pair(links=0)
netns.enter(machine.server)


@tap.case
def python_clients_of_debian():
    with server.Server(*WORDS.split()) as memcached:
        for name, words in (("pymemcache", ("tcp",)), ("pylibmc", ("text",)),
                            ("pylibmc", ("binary",)), ("bmemcached", ())):
            before = int(memcached.stats("bmc")["tcp_answered"])
            sessions.session(" ".join((name,) + words), sessions.python(
                sessions.python_of_debian(), name, memcached.port, *words))
            answered = int(memcached.stats("bmc")["tcp_answered"]) - before
            tap.diag("the kernel answered %d requests" % answered)
            tap.ok(answered >= 10, "the kernel answers some of its gets")
            memcached.stream().ask(b"flush_all\r\n")


@sessions.everywhere
def all_clients():
    again.all_pass(["clients/sasl", "clients/tcp"], T_ARGS=WORDS)


@tap.case
def the_namespaces_are_removed():
    machine.close()
    tap.ok(machine.server not in os.listdir("/run/netns"), "no namespace stays")


tap.run(sessions.SECONDS)
