#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Requests that the published BMC answered wrongly: through the chain every answer is the
server's."""

import chain
import differential
import netns
import replies
import server
import tap
from kernel import answer

each = chain.Each(threads=1, listen="10.77.0.1,127.0.0.1")
for function in replies.ALL:
    each.case(function)


@each.case
def datagram_counts_other_than_one(m):
    """They are passed to the server, and none of its replies to them is kept."""
    m.tcp.set(b"count", b"v")
    m.same(b"get count\r\n", answer((b"count", b"v")), "a request of one datagram")
    for count in (0, 2, 7, 255, 256, 257, 65535):
        _, grown = m.during(lambda: (m.udp.send(b"get count\r\n", count=count),
                                     m.udp.send(b"version\r\n", ident=1), until(m.udp, 1)))
        tap.is_(grown["answered"], 0, "a request of %d datagrams is not answered" % count)
    m.same(b"get count\r\n", answer((b"count", b"v")), "after it a request of one datagram")
    for _ in range(2):
        m.udp.send(b"get count\r\n", sequence=9, reserved=513, ident=4711)
        datagram = m.udp.recv_raw()
        tap.is_((datagram[2:], datagram[:2]), (b"\0\0\0\1\0\0" + answer((b"count", b"v")),
                                              (4711).to_bytes(2, "big")),
                "sequence and reserved field of a reply are 0, whatever the request's are")


def until(udp, ident):
    """Receives up to the answer to this request."""
    while udp.recv_raw()[:2] != ident.to_bytes(2, "big"):
        pass


@each.case
def two_servers_on_one_port(m):
    netns.ip("address add 10.77.0.9/24 dev sv0", m.pair.server)
    other = differential.as_peer(server.Server, namespace=m.pair.server, host="10.77.0.9",
                                 port=m.server.port)
    first, second = m.udp, chain.Apart("10.77.0.9", m.server.port)
    m.tcp.set(b"shared", b"first")
    other.stream().set(b"shared", b"second")
    m.tcp.set(b"only", b"first")
    for turn in ("once", "again", "a third time"):
        tap.is_((first.get(b"shared"), second.get(b"shared")), (b"first", b"second"),
                "each server has its own value, %s" % turn)
        tap.is_((first.get(b"only"), second.get(b"only")), (b"first", None),
                "a key of one server is missing in the other, %s" % turn)
    other.stream().set(b"shared", b"new")
    tap.is_((first.get(b"shared"), second.get(b"shared")), (b"first", b"new"),
            "a write to one server does not change the other's value")
    other.stop()
    second.close()


@tap.case
def keys_that_share_a_bucket():
    """Of 500 keys in 64 buckets, alternating, each has its own value."""
    with chain.Machines(chain.DEBIAN, threads=1, chain={"entries": 64}) as m:
        keys = [b"same%04d" % i for i in range(500)]
        for key in keys:
            m.tcp.set(key, b"of " + key)
        wrong = [key for _ in range(3) for key in keys if m.udp.get(key) != b"of " + key]
        wrong += [key for key in keys for _ in range(2) if m.udp.get(key) != b"of " + key]
        absent = [key for key in keys if m.udp.get(b"n" + key) is not None]
        tap.is_((wrong, absent), ([], []),
                "of 500 keys in 64 buckets each has its value, and 500 others are missing")
        tap.ok(m.counts()["answered"] > 400, "the kernel answered (%d)" % m.counts()["answered"])


each.end()
tap.run()
