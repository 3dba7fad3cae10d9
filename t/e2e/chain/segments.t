#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""The chain, and several datagrams that a sender passes to the kernel as one (UDP_SEGMENT,
udp(7)): over lo they arrive as one packet, of which only the first datagram has a header."""
import contextlib
import socket
import struct

import netns
import server
import tap
from kernel import answer

UDP_SEGMENT = 103
TIMES = 10


def datagram(ident, text):
    return struct.pack("!HHHH", ident, 0, 1, 0) + text


def answered(tcp):
    rows = tcp.stats("bmc")
    return int(rows["answered_xdp"]) + int(rows["answered_tc"])


def becomes_kept(udp, tcp, value):
    """Sends gets until the chain answers; every answer has to be this one."""
    def kept():
        before = answered(tcp)
        got.append(udp.ask(b"get k\r\n"))
        return answered(tcp) > before
    got = []
    return server.wait_for(kept) and set(got) == {answer((b"k", value))}


def send_joined(udp, first, second):
    """Sends two datagrams in one packet."""
    udp.sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, len(datagram(0, first)))
    udp.send_raw(datagram(1, first) + datagram(2, second))
    udp.sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)


@tap.case
def a_write_behind_another_datagram():
    # Its own lo: the chain shares no interface.
    with contextlib.closing(netns.Pair(links=0)) as pair, netns.inside(pair.server), \
            server.Server("-X", "bmc=lo,mode=chain,settle=50,maxage=600000") as m:
        udp, other, tcp = m.udp(), m.udp(), m.stream()
        for name, first in (("a set", b"set a 0 0 3\r\nxxx\r\n"),
                            ("a get", b"get " + b"a " * 6 + b"\r\n"),
                            ("a set without its value", b"set aaaaa 0 0 24\r\n"),
                            ("nonsense", b"x" * 16 + b"\r\n")):
            kept = new = 0
            for i in range(0, 2 * TIMES, 2):
                udp.ask(b"set k 0 0 3\r\n%03d\r\n" % i)
                kept += becomes_kept(udp, tcp, b"%03d" % i)
                send_joined(other, first, b"set k 0 0 3\r\n%03d\r\n" % (i + 1))
                while other.recv_raw() != datagram(2, b"STORED\r\n"):
                    pass
                new += udp.ask(b"get k\r\n") == answer((b"k", b"%03d" % (i + 1)))
            tap.is_((kept, new), (TIMES, TIMES), "%s, followed by a set in one packet: the "
                    "value is new after STORED" % name)


tap.run()
