#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Requests that the published BMC answered wrongly."""
import struct

import kernel
import netns
import replies
import server
import tap
from kernel import answer

m = kernel.Machines(threads=1, links=2, on=1, listen="10.77.0.1")
c = m.tcp
tap.cases(m, *replies.ALL)


@tap.case
def keys_with_the_same_partial_hash():
    """Eight bits of the hash and the bucket select an item: of 5,000 missing keys a hundred
    match a stored key in both, and only a comparison of the keys distinguishes them."""
    count = 100000
    for start in range(0, count, 1000):
        c.send(b"".join(b"set same%06d 0 0 6\r\n%06d\r\n" % (i, i)
                        for i in range(start, start + 1000)))
        c.exactly(len(b"STORED\r\n") * 1000)

    def ask():
        there = [i for i in range(0, count, 20)
                 if m.udp.get(b"same%06d" % i) != b"%06d" % i]
        absent = [i for i in range(5000) if m.udp.get(b"else%06d" % i) is not None]
        return there, absent

    # While the table grows a bucket that is moved just then is left to the server.
    server.wait_for(lambda: int(c.stats()["hash_power_level"]) > 16 and
                    c.stats()["hash_is_expanding"] == "0")
    found, grown = m.during(ask)
    tap.is_(found, ([], []), "5,000 of 100,000 keys are found, 5,000 others of that length are not")
    tap.is_(grown["answered"], 10000, "the kernel gave all answers")


@tap.case
def two_servers_on_one_port():
    port = m.server.port
    netns.ip("address add 10.77.0.9/24 dev sv0", m.pair.server)
    with server.Server(namespace=m.pair.server, host="10.77.0.9", port=port) as plain, \
            server.Server("-X", "bmc=sv1", namespace=m.pair.server, host="10.77.1.1",
                          port=port) as second:
        c.set(b"shared", b"first")
        plain.stream().set(b"shared", b"plain")
        second.stream().set(b"shared", b"second")
        c.set(b"only", b"first")
        udp = second.udp()
        m.same(b"get shared\r\n", answer((b"shared", b"first")), "the first server's value")
        tap.is_(udp.ask(b"get shared\r\n"), answer((b"shared", b"second")),
                "the second server's value, on the other interface")
        tap.is_(plain.udp().ask(b"get shared\r\n"), answer((b"shared", b"plain")),
                "the third's, on another address of the first interface")
        tap.is_(udp.ask(b"get only\r\n"), b"END\r\n",
                "a key of the first server is missing in the second")
        m.server.pause()
        second.pause()
        try:
            tap.is_((m.udp.ask(b"get shared\r\n"), udp.ask(b"get shared\r\n")),
                    (answer((b"shared", b"first")), answer((b"shared", b"second"))),
                    "while both servers are stopped each kernel path answers from its own table")
        finally:
            m.server.resume()
            second.resume()


@tap.case
def datagram_counts_other_than_one():
    c.set(b"count", b"v")
    for count in (0, 2, 7, 255, 256, 257, 65535):
        m.udp.send(b"get count\r\n", count=count)
        tap.ok(m.udp.silence(), "a request of %d datagrams has no answer" % count)
    m.udp.send(b"get count\r\n", sequence=9, reserved=513, ident=4711)
    datagram = m.udp.recv_raw()
    tap.is_(datagram, struct.pack("!HHHH", 4711, 0, 1, 0) + answer((b"count", b"v")),
            "sequence and reserved field of a reply are 0, whatever the request's are")


@tap.case
def passed_requests_are_complete():
    echo = []
    c.ask(b"verbosity 2\r\n")
    for size in (14, 50, 100, 500, 1000, 1300):
        request = b"get " + b"k" * 200 + b" " * size + b"\r\n"
        echo.append(m.udp.ask(request) == b"END\r\n")
    c.ask(b"verbosity 0\r\n")
    tap.is_(echo, [True] * 6, "in bypass requests of many sizes are passed complete")


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run()
