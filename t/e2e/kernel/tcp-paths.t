#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""What a path does to connections on which the kernel answers gets: it is long, so that requests
overtake the acknowledgements of replies. Nothing is sent again that need not be."""
import os
import socket
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
import cable
import netns
import server
import tap
from tcppath import MISS, answered_on, counts, machines

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
            # Without its probe after two round trips, that is 200 ms later: a slow test does not.
            netns.sh("sysctl", "-qw", "net.ipv4.tcp_early_retrans=0")
            c = answered_on(m)
            for text, replies in ((b"set k 0 0 1\r\nv\r\n", STORED),
                                  (b"set k 0 0 1 noreply\r\nv\r\n", b""),
                                  (b"version\r\n", b"VERSION %s\r\n" % version(m)),
                                  (b"get nothing\r\n", MISS)):
                n, again = pipelined(m, c, text, replies)
                tap.ok(n >= TRIES, "%s: the kernel answered %d gets before %s" %
                       (mode, n, text[:10].decode().strip()))
                tap.is_(again, 0, "%s: the client sends nothing again" % mode)


def version(m):
    c = m.stream()
    return c.ask(b"version\r\n").split()[1]


tap.run()
