#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Replies to one client that wait together leave as one packet where the path takes that, else
singly: the client sees no difference.
"""
import os

import kernel
import netns
import server
import tap

NREQUESTS = 60 # of a kind, from all clients: so many fit into the server's socket


def together(where, name, clients=1):
    """Requests that the server finds when it wakes; their replies, each in the order asked for."""
    values = [os.urandom(n // 2).hex().encode() for n in (32, 1300, 5000)]
    stream = where.stream()
    for i, value in enumerate(values):
        stream.set(b"v%d" % i, value)
    n = NREQUESTS // clients
    want = [b"VALUE v%d 0 %d\r\n%s\r\nEND\r\n" % (i % 3, len(values[i % 3]), values[i % 3])
            for i in range(n)] + [b"STORED\r\n"] * n
    sockets = [where.udp() for _ in range(clients)]
    where.pause()
    try:
        asked = [[(each, each.send(b"get v%d\r\n" % (i % 3) if i < n else
                                   b"set s%d 0 0 1\r\nx\r\n" % i)) for each in sockets]
                 for i in range(2 * n)]
    finally:
        where.resume()
    got = [[each.message(ident) for each, ident in row] for row in asked]
    tap.ok(got == [[one] * clients for one in want],
           "%s: %d replies to each of %d clients are whole and in order" %
           (name, 2 * n, clients))


@tap.case
def over_loopback():
    for listen, host in (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.2"), ("[::]", "::1")):
        with server.Server(threads=1, listen=listen, host=host) as m:
            together(m, host)
            together(m, host, clients=5)


@tap.case
def a_path_that_takes_no_such_packet():
    pair = netns.Pair(1)
    with netns.inside(pair.client), \
         server.Server(threads=1, namespace=pair.server, host=pair.address()) as m:
        for mtu in (1500, 1280, 1000):
            netns.ip("link set sv0 mtu %s" % mtu, pair.server)
            together(m, "MTU %d" % mtu, clients=2)
        netns.ip("link set sv0 mtu 1500", pair.server)
        netns.sh("ethtool", "-K", "sv0", "tx-checksumming", "off", namespace=pair.server)
        together(m, "no checksum offload", clients=2)
    pair.close()


@tap.case_if(kernel.is_built())
def the_chain_sees_each_reply():
    """It keeps replies to what was asked together."""
    with kernel.Machines(threads=1, words=("mode=chain",)) as m:
        m.tcp.set(b"k", b"v")
        udp = m.server.udp()

        def ask_together():
            m.server.pause()
            try:
                idents = [udp.send(b"get k\r\n") for _ in range(8)]
            finally:
                m.server.resume()
            for ident in idents:
                if udp.message(ident) != b"VALUE k 0 1\r\nv\r\nEND\r\n":
                    return False
            return m.counts()["fills"] > 0

        tap.ok(server.wait_for(ask_together, every=0.1), "the chain keeps a reply")


tap.run()
