#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""refresh=: what the network stack sees of a connection whose gets the kernel answers."""
import contextlib
import re

import netns
import server
import tap
import tcppath
from tcppath import MISS, ask, counts

SECONDS = 20 * tap.SLOW
CONNTRACK = 5 # seconds that it keeps a connection; a busy server's worker may be late by some


def machines(*words):
    return tcppath.machines(netns.Pair(), *words)


def refreshed(m):
    return counts(m)["tcp_refreshed"]


def ask_until(c, done):
    """Sends gets until that holds; whether it does."""
    return server.wait_for(lambda: ask(c) == MISS and done(), SECONDS, 0.01)


def nft(m, words):
    netns.sh("nft", words, namespace=m.namespace)


def conntrack(m):
    """It refuses what belongs to no connection that it knows the beginning of."""
    netns.sh("sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_loose=0", namespace=m.namespace)
    netns.sh("sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_timeout_established=%d" % CONNTRACK,
             namespace=m.namespace)
    nft(m, "add table inet fw; add chain inet fw in { type filter hook input priority 0; }; "
           "add rule inet fw in tcp dport %d ct state invalid counter drop" % m.port)


def is_refused(c):
    """Whether a get is not answered any more."""
    c.sock.settimeout(tap.SLOW)
    with contextlib.suppress(TimeoutError):
        return not ask(c)
    return True


@tap.case
def conntrack_keeps_the_connection():
    with machines("refresh=1") as m:
        conntrack(m)
        c = tcppath.answered_on(m)
        before = refreshed(m)
        tap.ok(ask_until(c, lambda: refreshed(m) >= before + CONNTRACK + 2),
               "for more than its time the kernel answers all gets but one a second")
        c.sock.settimeout(SECONDS)
        tap.is_(c.set(b"k", b"1"), b"STORED\r\n", "then a set is not refused")
        tap.is_(c.get(b"k"), b"1", "and has been stored")


@tap.case
def a_rule_against_a_client_stops_its_reading():
    with machines("refresh=1") as m:
        c = tcppath.answered_on(m)
        nft(m, "add table inet fw; add chain inet fw in { type filter hook input priority 0; }; "
               "add rule inet fw in tcp sport %d drop" % c.sock.getsockname()[1])
        before = counts(m)["tcp_answered"]
        c.sock.settimeout(2 * tap.SLOW) # longer than refresh=, and a look of the worker's
        n = 0
        with contextlib.suppress(TimeoutError):
            while server.wait_for(lambda: ask(c) == MISS, SECONDS, 0):
                n += 1
        tap.ok(counts(m)["tcp_answered"] - before == n, "the kernel answers %d gets" % n)
        tap.ok(is_refused(c), "and then none")


def received(m, port):
    """What the server's socket has received of a client, by its own count."""
    found = netns.sh("ss", "-tinH", "sport", "= :%d" % m.port, "and", "dport", "= :%d" % port,
                     namespace=m.namespace)
    return int(re.search(r"bytes_received:(\d+)", found)[1])


@tap.case
def the_socket_shows_life():
    with machines("refresh=1") as m:
        c = tcppath.answered_on(m)
        port = c.sock.getsockname()[1]
        before = received(m, port)
        tap.ok(ask_until(c, lambda: received(m, port) > before), "ss shows that bytes arrive")


def rows(control):
    """(gets that were passed for refresh=, gets that the kernel answered)."""
    found = control.stats("bmc")
    return int(found["tcp_refreshed"]), int(found["tcp_answered"])


@tap.case
def the_default_is_ten_seconds():
    """Beside a server with another time, so that no clock is asked. This process can reach a
    server only when it starts it; its connections it keeps."""
    with machines() as m:
        c, control = tcppath.answered_on(m), m.stream()
        with machines("refresh=0") as never:
            silent, silent_control = tcppath.answered_on(never), never.stream()
            before = rows(silent_control)
            seen = received(never, silent.sock.getsockname()[1])
            with machines("refresh=1") as other:
                n, d = 0, tcppath.answered_on(other)

                def asked(passed):
                    nonlocal n
                    n += ask(c) == ask(d) == ask(silent) == MISS
                    return rows(control)[0] >= passed

                server.wait_for(lambda: asked(1), SECONDS, 0.01)
                start = refreshed(other)
                server.wait_for(lambda: asked(2), SECONDS, 0.01)
                found = refreshed(other) - start
                tap.ok(5 <= found <= 12,
                       "between two that are passed by default, %d are each second" % found)
            tap.is_(rows(silent_control), (0, before[1] + n),
                    "with refresh=0 the kernel answers all that time,")
            tap.is_(received(never, silent.sock.getsockname()[1]), seen,
                    "and the socket receives nothing")


@tap.case
def idle_connections_are_closed_as_before():
    with tcppath.machines(netns.Pair(), "refresh=1", options=("-o", "idle_timeout=3")) as m:
        c, quiet = tcppath.answered_on(m), m.stream()
        quiet.ask(b"version\r\n")
        quiet.sock.settimeout(0.01)

        def closed():
            with contextlib.suppress(TimeoutError):
                return quiet.sock.recv(1) == b""
            return False

        tap.ok(ask_until(c, closed), "a connection without commands is closed")
        tap.is_(ask(c), MISS, "one with gets is not")


tap.run(120)
