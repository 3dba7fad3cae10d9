#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The kernel path's memory: it grows while it is read, and the kernel may refuse more."""
import os
import re
import threading

import client
import kernel
import server
import tap
from cgroup import MB, Cgroup, ColdProgram
from kernel import answer

VALUE = 960


def value(i):
    return (b"%012d" % i) * (VALUE // 12)


def fill(stream, first, megabytes):
    """Stores that many megabytes of keys from k<first> on; returns the number after the last."""
    last = first + megabytes * MB // VALUE
    for start in range(first, last, 500):
        stream.send(b"".join(b"set k%d 0 0 %d noreply\r\n%s\r\n" % (i, VALUE, value(i))
                             for i in range(start, min(start + 500, last))))
    stream.ask(b"version\r\n")
    return last


@tap.case
def it_grows_while_it_is_read():
    """The writer has an interface of its own: a veth whose ring is full of segments loses
    datagrams."""
    with kernel.Machines("-m", "400", threads=2, links=2, on=1) as m:
        before = m.counts()
        descriptors = len(os.listdir("/proc/%d/fd" % m.server.pid))
        last = fill(m.tcp, 0, 10)
        stream = client.tcp(m.pair.address(1), m.server.port)
        writer = threading.Thread(target=fill, args=(stream, last, 200))
        writer.start()
        asked = wrong = lost = 0
        while writer.is_alive():
            asked += 1
            i = asked * 7919 % last
            try:
                wrong += m.udp.ask(b"get k%d\r\n" % i) != answer((b"k%d" % i, value(i)))
            except TimeoutError:
                lost += 1
                m.udp.close()
                m.udp = m.server.udp()
        writer.join()
        counts = m.counts()
        tap.is_(wrong, 0, "every one of %d answers meanwhile is right" % asked)
        tap.is_(lost, 0, "each is answered")
        tap.ok(counts["extents"] >= before["extents"] + 20,
               "from %d to %d extents" % (before["extents"], counts["extents"]))
        tap.ok(counts["hits"] - before["hits"] >= 0.99 * asked, "the kernel answered")
        m.same(b"get k%d\r\n" % (last + 150000), answer((b"k%d" % (last + 150000),
                                                         value(last + 150000))), "a new item")
        tap.ok(len(os.listdir("/proc/%d/fd" % m.server.pid)) <= descriptors + 2,
               "extents need no file descriptors")
        tap.is_(m.tcp.stats()["evictions"], "0", "nothing was evicted")


@tap.case
def the_kernel_refuses_memory():
    group = Cgroup(160)
    with ColdProgram(), \
            kernel.Machines("-m", "1024", threads=2, prefix=group.prefix()) as m:
        last = fill(m.tcp, 0, 250)
        counts = m.counts()
        tap.ok(m.server.alive(), "a server that gets no more memory goes on")
        tap.ok(0 < counts["maps_refused"] < 200 and counts["extents"] <= 20,
               "the kernel refused maps (%d), and %d extents exist" %
               (counts["maps_refused"], counts["extents"]))
        tap.ok(int(m.tcp.stats()["evictions"]) > 0, "the server evicts items, as at its own limit")
        count = 40000
        m.tcp.send(b"".join(b"set n%d 0 0 %d\r\n%s\r\n" % (i, VALUE, value(i))
                            for i in range(count)))
        tap.is_(m.tcp.exactly(len(b"STORED\r\n") * count).count(b"STORED\r\n"), count,
                "every set is answered STORED")
        m.same(b"get n%d\r\n" % (count - 1), answer((b"n%d" % (count - 1), value(count - 1))),
               "the item that was stored last is found")
        lines = re.findall(r"^bmc: the kernel has no memory .*the cache stays at \d+ MB.*$",
                          m.server.log(), re.M)
        tap.is_(len(lines), 1, "the shortage of memory is logged once")
        group.limit(600)

        def grows():
            nonlocal last
            last = fill(m.tcp, last, 20)
            return m.counts()["extents"] > counts["extents"] + 4

        tap.ok(server.wait_for(grows), "when memory is available again the heap grows")
        tap.is_(server.logged(m.server, "bmc: there is memory for maps again"), 1,
                "it is logged that memory is available again")
        m.tcp.ask(b"stats reset\r\n")
        tap.is_(m.counts()["maps_refused"], 0, "`stats reset` sets the count of refusals to 0")
    group.close()


@tap.case
def a_large_limit_costs_nothing():
    with kernel.Machines("-m", "65536") as m:
        m.tcp.set(b"k", b"v")
        m.same(b"get k\r\n", answer((b"k", b"v")), "-m 65536")
        tap.ok(m.counts()["extents"] <= 2, "memory is committed when it is used")
    status, _, error = server.run("-p", server.free_port(), "-U", server.free_port(), "-m",
                                  "262080", "-X", "bmc=lo", "-l", "127.0.0.1")
    tap.ok(status and status > 0, "-m 262080 is refused")
    tap.like(error, "262079", "and does not start with an amount that the machine does not have")


tap.run()
