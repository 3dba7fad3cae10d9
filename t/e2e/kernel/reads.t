#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A read counts for the LRU once, whichever side answers it: the kernel, or the server to which the
kernel has passed it."""
import kernel
import netns
import server
import tap
from kernel import answer

FLAT = ("-m", "16", "-o", "no_modern") # one list for each class: two reads keep an item
SMALL, LARGE = b"x" * 1000, b"x" * 1000000 # the kernel answers with one, and passes the other


def fill(tcp, value):
    """Stores values until one has been evicted."""
    for i in range(100000):
        tcp.send(b"set fill%d 0 0 %d noreply\r\n%s\r\n" % (i, len(value), value))
        if i % 100 == 0 or value is LARGE:
            if tcp.stats()["evictions"] != "0":
                return


def read_by_tcp(m, key, value):
    m.stream.send(b"get %s\r\n" % key)
    want = answer((key, value))
    return m.stream.exactly(len(want)) == want


def read_by_udp(m, key, value):
    return m.datagrams.ask(b"get %s\r\n" % key) == answer((key, value))


class Plain:
    """The same without the kernel path."""

    def __init__(self, *arguments, **options):
        self.pair = netns.Pair()
        netns.enter(self.pair.client)
        self.server = server.Server(*arguments, namespace=self.pair.server,
                                    host=self.pair.address(), listen="0.0.0.0", **options)
        self.tcp = self.server.stream()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop()
        self.pair.close()


def outlives(machines, read, value, times):
    """Whether an item that was read so often is there when another one has been evicted, and how
    many of the reads the kernel answered."""
    with machines() as m:
        m.stream, m.datagrams = m.server.stream(), m.server.udp()
        m.tcp.set(b"read", value)
        m.tcp.set(b"other", b"y")
        for _ in range(3): # the kernel knows the connection, and the return path
            read(m, b"other", b"y")
        before = by_kernel(m)
        right = all([read(m, b"read", value) for _ in range(times)])
        answered = by_kernel(m) - before
        m.datagrams.close()
        fill(m.tcp, value)
        return right and m.tcp.get(b"read") is not None, answered


def by_kernel(m):
    if isinstance(m, Plain):
        return 0
    rows = m.tcp.stats("bmc")
    return sum(int(rows.get(row, 0)) for row in ("answered_xdp", "answered_tc", "tcp_answered"))


def plain():
    return Plain(*FLAT)


def with_udp():
    return kernel.Machines(*FLAT)


def with_tc():
    return kernel.Machines(*FLAT, mode="tc")


def with_tcp():
    return kernel.Machines(*FLAT, words=("tcp=on",))


WAYS = (
    ("the server, over TCP", plain, read_by_tcp, 0),
    ("the server, over UDP", plain, read_by_udp, 0),
    ("the kernel, over TCP", with_tcp, read_by_tcp, 1),
    ("the kernel, over UDP", with_udp, read_by_udp, 1),
    ("the kernel, over UDP, in TC", with_tc, read_by_udp, 1),
)


@tap.case
def a_read_counts_once():
    for who, machines, read, share in WAYS:
        for times in 1, 2:
            lives, answered = outlives(machines, read, SMALL, times)
            tap.is_((lives, answered), (times == 2, share * times),
                    "%d reads by %s: whether the item outlives another" % (times, who))


@tap.case
def a_read_that_the_kernel_passes_counts_once():
    """The kernel finds the item, and its reply is too long."""
    for who, machines, read, _ in WAYS:
        for times in 1, 2:
            tap.is_(outlives(machines, read, LARGE, times), (times == 2, 0),
                    "1 MB, %d reads, %s: whether the item outlives another" % (times, who))


tap.run()
