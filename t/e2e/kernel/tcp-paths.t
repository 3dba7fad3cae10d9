#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""What a path does to connections on which the kernel answers gets: it is long, so that requests
overtake the acknowledgements of replies; it becomes too narrow for what the kernel has sent."""
import socket
import struct

import cable
import kernel
import netns
import routed
import server
import tap
from tcppath import MISS, answered_on, ask, counts, machines

LONG = ("--delay", 10)
TRIES = 5
STORED = b"STORED\r\n"
UNACKED, TOTAL_RETRANS = 24, 100 # where in struct tcp_info (linux/tcp.h)


def info(c, at):
    words = c.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return struct.unpack_from("I", words, at)[0]


# --- a long path -----------------------------------------------------------------------------

def pipelined(m, c, text, replies):
    """Gets, of which the kernel answers the first, with `text` at once behind each of them: how
    many it answered, and how often the client has sent something again."""
    before, again, right = counts(m)["tcp_answered"], info(c, TOTAL_RETRANS), True
    for _ in range(TRIES):
        c.send(b"get nothing\r\n")
        c.send(text)
        right &= c.exactly(len(MISS + replies)) == MISS + replies
        # Either all of it is acknowledged, or a timer of the client's sends it again.
        server.wait_for(lambda: not info(c, UNACKED))
    tap.ok(right, "every reply comes once, in order")
    return counts(m)["tcp_answered"] - before, info(c, TOTAL_RETRANS) - again


@tap.case
def what_is_sent_behind_a_get_is_acknowledged():
    """A client does not wait for a get's reply. The acknowledgement of what it sends behind it is
    held back until it has acknowledged the reply."""
    for mode in ("native", "tc"):
        with machines(cable.Pair(*LONG), mode=mode) as m:
            # The client's timers wait longer than any test does.
            netns.sh("sysctl", "-qw", "net.ipv4.tcp_early_retrans=0")
            netns.ip("route change 10.77.0.0/24 dev cl0 rto_min 5s")
            c = answered_on(m)
            for text, replies in ((b"set k 0 0 1\r\nv\r\n", STORED),
                                  (b"set k 0 0 1 noreply\r\nv\r\n", b""),
                                  (b"version\r\n", b"VERSION %s\r\n" % version(m)),
                                  (b"get nothing\r\n", MISS)):
                n, again = pipelined(m, c, text, replies)
                tap.ok(n > 0, "%s: the kernel answered %d gets before %s" %
                       (mode, n, text[:10].decode().strip()))
                tap.is_(again, 0, "%s: the client sends nothing again" % mode)


def version(m):
    c = m.stream()
    return c.ask(b"version\r\n").split()[1]


# --- a path that becomes narrower ------------------------------------------------------------

def value(i, size=1300):
    return b"%04d" % i * (size // 4)


def narrowed(v6, mode):
    """One connection, before and after: its own values, and those that the server sends."""
    pair = routed.Pair()
    with machines(pair, mode=mode, host=pair.address(v6=v6) if v6 else None) as m:
        name = "%s, IPv%d" % (mode, 6 if v6 else 4)
        c = answered_on(m)
        for i in range(4):
            m.stream().set(b"k%d" % i, value(i))
        before = counts(m)["tcp_answered"]
        right = all(c.get(b"k%d" % i) == value(i) for i in (0, 0, 1, 1, 2, 2))
        n = counts(m)["tcp_answered"] - before
        tap.ok(right and n > 0, "%s: the kernel answered %d of 6 gets of 1,300 bytes" % (name, n))
        pair.narrow(1280 if v6 else 600)
        tap.ok(all(c.get(b"k%d" % i) == value(i) for i in (0, 1, 2, 3)),
               "%s: behind a narrower link each value comes whole" % name)
        both = kernel.answer(*((b"k%d" % i, value(i)) for i in (0, 1)))
        c.send(b"get k0 k1\r\n")
        tap.is_(c.exactly(len(both)), both, "%s: so does what the server sends" % name)
        tap.is_(c.set(b"k0", value(7)), b"STORED\r\n", "%s: and what the client sends" % name)
        before = counts(m)["tcp_answered"]
        tap.ok(all(c.get(b"k%d" % i) == value(i or 7) for i in (0, 1, 2, 3)),
               "%s: the values are right" % name)
        tap.ok(all(ask(c) == MISS for i in range(4)) and counts(m)["tcp_answered"] > before,
               "%s: the kernel goes on answering" % name)
        fits = value(8, 1160 if v6 else 512)
        m.stream().set(b"k8", fits)
        tap.ok(c.get(b"k8") == c.get(b"k8") == fits, "%s: a value that still fits" % name)
        before = counts(m)["tcp_answered"]
        right = all(c.get(b"k8") == fits for _ in range(4))
        tap.ok(right and counts(m)["tcp_answered"] > before,
               "%s: the kernel answers with as much as the path allows now" % name)
        tap.diag({key: n for key, n in counts(m).items() if n})


@tap.case
def a_path_that_becomes_narrower():
    """The kernel's replies were as long as the path allowed."""
    for v6, mode in ((False, "native"), (True, "native"), (False, "tc")):
        narrowed(v6, mode)


tap.run()
