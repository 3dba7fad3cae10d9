#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Streams of requests over TCP that the kernel answers, on a good and on a bad network: every byte
of every reply is the one that the model of t/tool/tcpcheck has, and nothing hangs. What becomes of
connections when their server closes them, or is stopped."""
import socket

import cable
import netns
import server
import tap
import tcpcheck
from tcppath import MISS, answered_on, ask, counts, machines

BAD = ("--loss", 0.01, "--duplicate", 0.05, "--reorder", 0.05, "--jitter", 3, "--corrupt", 0.02)
REPLIES = ("--loss-ab", 0.2)
STORED = b"STORED\r\n"
RETRANSMITS = 2 # where in struct tcp_info (linux/tcp.h)


def retransmits(c):
    """How often the client has sent again what it waits for, one time after the other."""
    return c.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[RETRANSMITS]


# --- every byte ------------------------------------------------------------------------------

def streams(name, pair, mode, operations, *words):
    with machines(pair, mode=mode) as m:
        found = tcpcheck.run(m.host, m.port, "--operations", operations, *words)
        tcpcheck.judge(found, operations, name)
        counted = counts(m)
        tap.diag({key: n for key, n in counted.items() if n})
        tap.ok(counted["tcp_answered"] > operations / 100, "%s: the kernel answered %d" %
               (name, counted["tcp_answered"]))
        if mode == "tc":
            tap.is_(counted["tcp_answered_xdp"], 0, "all of them in TC")
        else:
            tap.ok(counted["tcp_answered_xdp"] > 0 and counted["tcp_answered_tc"] > 0,
                   "in XDP and in TC")
        return counted


@tap.case
def on_a_good_network():
    for mode in ("native", "tc"):
        streams("mode=%s" % mode, netns.Pair(), mode, 60000, "--connections", 50)


@tap.case
def on_a_bad_network():
    for mode in ("native", "tc"):
        counted = streams("mode=%s, a bad network" % mode, cable.Pair(*BAD), mode, 40000,
                          "--connections", 100)
        tap.ok(counted["tcp_resent"] > 0, "%d replies were sent again" % counted["tcp_resent"])


@tap.case
def while_replies_are_lost():
    """Most of the time for their timers."""
    modes = "native", "tc"
    pairs = [cable.Pair(*REPLIES) for _ in modes]
    for counted in tap.at_once(lambda i: streams(
            "mode=%s, a fifth of the replies lost" % modes[i], pairs[i], modes[i], 8000,
            "--connections", 100), range(len(modes))):
        tap.ok(counted["tcp_resent"] > 0, "%d replies were sent again" % counted["tcp_resent"])


@tap.case
def while_requests_are_damaged():
    """TC hands on what its socket then drops: a connection on which nothing gets through for some
    seconds is not one whose replies take another way."""
    modes = "native", "tc"
    pairs = [cable.Pair() for _ in modes]

    def damaged(i):
        mode, pair = modes[i], pairs[i]
        with machines(pair, mode=mode) as m:
            connections = [answered_on(m) for _ in range(8)]
            for c in connections:
                tap.is_(c.set(b"n%d" % c.sock.fileno(), b"0"), STORED, "a set is executed")
            pair.unplug()
            pair.plug(0, "--corrupt-ba", 1)
            for c in connections:
                c.send(b"incr n%d 1\r\n" % c.sock.fileno())
            tap.ok(server.wait_for(lambda: all(retransmits(c) >= 4 for c in connections),
                                   60 * tap.SLOW, 0.05), "clients repeat it in vain")
            pair.unplug()
            pair.plug(0, "--corrupt-ba", 0)
            tap.is_([c.line() for c in connections], [b"1\r\n"] * 8,
                    "mode=%s: each is executed once when it gets through" % mode)
            tap.is_(counts(m)["tcp_reset"], 0, "and no connection is reset")

    tap.at_once(damaged, range(len(modes)))


@tap.case
def while_nothing_comes_from_clients():
    """A reply that was lost is sent again though the client's own request for it is lost each time,
    as a socket would."""
    modes = "native", "tc"
    pairs = [cable.Pair() for _ in modes]

    def deaf(i):
        mode, pair = modes[i], pairs[i]
        with machines(pair, mode=mode) as m:
            connections = [answered_on(m) for _ in range(8)]
            pair.unplug()
            pair.plug(0, "--loss-ab", 1)
            for c in connections:
                c.send(b"get nothing\r\n")
            tap.ok(server.wait_for(lambda: all(retransmits(c) >= 1 for c in connections),
                                   60 * tap.SLOW, 0.01), "replies are lost")
            pair.unplug()
            pair.plug(0, "--loss-ba", 1)
            for c in connections:
                c.sock.settimeout(60 * tap.SLOW)
            tap.is_([c.exactly(len(MISS)) for c in connections], [MISS] * 8,
                    "mode=%s: the server's side sends them again by itself" % mode)
            pair.unplug()
            pair.plug(0, "--loss-ba", 0)
            tap.is_([ask(c) for c in connections], [MISS] * 8, "and the connections go on")
            tap.is_(counts(m)["tcp_reset"], 0, "none is reset")

    tap.at_once(deaf, range(len(modes)))


# --- the ends of connections -----------------------------------------------------------------

@tap.case
@tap.uninterrupted(2.5)
def when_the_server_closes():
    with machines(netns.Pair(), options=("-o", "idle_timeout=5")) as m:
        tap.is_(answered_on(m).sock.recv(10), b"", "an idle connection ends")
    with machines(netns.Pair()) as m:
        c = answered_on(m)
        c.send(b"get nothing\r\nquit\r\n")
        tap.is_((c.exactly(len(MISS)), c.sock.recv(10)), (MISS, b""),
                "after quit the client has its reply, and then the end")
        c = answered_on(m)
        c.sock.shutdown(socket.SHUT_WR)
        tap.is_(c.sock.recv(10), b"", "one whose client sends no more ends")


@tap.case
def while_the_server_is_stopped():
    with machines(netns.Pair(), "stall=4") as m:
        c = answered_on(m)
        m.pause()
        try:
            answers, right = 0, True
            while answers < 10000000: # until the lease ends
                c.sock.settimeout(5 * tap.SLOW)
                try:
                    right &= ask(c) == MISS
                except socket.timeout:
                    break
                answers += 1
        finally:
            m.resume()
        tap.ok(right and 0 < answers < 10000000,
               "the kernel answers for a stopped server until its lease ends")
        c.sock.settimeout(30 * tap.SLOW)
        tap.is_(c.exactly(len(MISS)), MISS, "the request behind that is answered when it goes on")
        tap.is_(ask(c), MISS, "and the next one, too")


tap.run()
