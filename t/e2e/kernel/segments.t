#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several datagrams that a sender passes to the kernel as one (UDP_SEGMENT, udp(7)).

Over lo, and over a veth with generic XDP or TC alone, they arrive as one packet with one header,
which must not be parsed as one request.
"""
import contextlib
import socket
import struct

import kernel
import netns
import server
import tap
from kernel import answer

UDP_SEGMENT = 103


def datagram(ident, text):
    return struct.pack("!HHHH", ident, 0, 1, 0) + text


def segmented(udp, size, data):
    udp.sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size)
    udp.send_raw(data)
    udp.sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)


def asked(udp, tcp, name):
    """Packets of several datagrams are answered by the server, a following single datagram by
    the kernel, as soon as it knows the return path."""
    def counts():
        rows = tcp.stats("bmc")
        return int(rows["answered_xdp"]) + int(rows["answered_tc"])

    tcp.set(b"k", b"v")
    tcp.set(b"long", b"w")
    before = counts()
    # A frame header, followed by bytes that look like a get.
    segmented(udp, 8, datagram(1, b"get k\r\n"))
    segmented(udp, 8, datagram(2, b"gets k\r"))
    # A key longer than either of the two datagrams.
    segmented(udp, 14, datagram(3, b"get lo" b"ng\r\n"))
    got = udp.ask(b"version\r\n", ident=4)
    tap.ok(got.startswith(b"VERSION "), "%s: datagrams that are not requests have no answer" % name)
    tap.is_(counts() - before, 0, "%s: the kernel does not answer them" % name)
    requests = [datagram(5, b"get k   \r\n"), datagram(6, b"get long\r\n")]
    segmented(udp, len(requests[0]), b"".join(requests))
    got = sorted(udp.recv_raw() for _ in requests)
    tap.is_(got, [datagram(5, answer((b"k", b"v"))), datagram(6, answer((b"long", b"w")))],
            "%s: two gets have two answers" % name)
    answers = set()

    def alone():
        before = counts()
        answers.add(udp.ask(b"get k\r\n", ident=7))
        return counts() - before

    tap.ok(server.wait_for(alone), "%s: a single get is answered by the kernel" % name)
    tap.is_(answers, {answer((b"k", b"v"))}, "%s: rightly" % name)


@tap.case
def over_loopback():
    with contextlib.closing(netns.Pair(links=0)) as pair, netns.inside(pair.server), \
            server.Server("-X", "bmc=lo") as m:
        udp, tcp = m.udp(), m.stream()
        asked(udp, tcp, "lo")


@tap.case
def over_a_veth():
    for mode in ("native", "skb", "tc"):
        with kernel.Machines(mode=mode) as m:
            asked(m.udp, m.tcp, mode)


tap.run()
