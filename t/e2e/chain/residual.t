#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""The effect of what an observer of packets cannot see is bounded by --max-age: each case of the
list in doc/chain.md has the right answer when the entry has become too old, and the statistics
show that this was the reason."""
import threading

import chain
import client
import server
import tap
from kernel import answer

AGE = 200 # ms

each = chain.Each("-m", 8, threads=1, links=2, on=1, chain={"max_age": AGE})
GONE = b"END\r\n"


def get(key):
    return b"get %s\r\n" % key


def filled(m, key, value=b"old", exptime=0):
    """Waits until the kernel answers with it: on a busy machine an entry may be too old at once."""
    def served():
        m.tcp.set(key, value, exptime=exptime)
        got, by_kernel = m.by_kernel(get(key))
        if exptime and got != answer((key, value)):
            return False # it has expired meanwhile
        if got != answer((key, value)):
            raise RuntimeError("%r is answered %r" % (key, got))
        return by_kernel

    if not server.wait_for(served):
        raise RuntimeError("the kernel does not serve %r" % key)
    return key


def bounded(m, key, want, name):
    """Checks that this becomes the answer, because the entry was too old."""
    def ask():
        return server.wait_for(lambda: m.udp.ask(get(key)) == want)

    right, grown = m.during(ask)
    tap.ok(right and grown["miss_age"] > 0, name)
    tap.is_({m.udp.ask(get(key)) for _ in range(3)}, {want}, name + ", and remains")


@each.case
def items_that_expire(m):
    bounded(m, filled(m, b"brief", exptime=1), GONE, "an item of one second")
    key = filled(m, b"touched")
    m.tcp.ask(b"touch touched 1\r\n")
    bounded(m, key, GONE, "an item that is touched to expire in a second")
    key = filled(m, b"flushed")
    m.tcp.ask(b"flush_all 1\r\n")
    tap.ok(server.wait_for(lambda: m.udp.get(key) is None), "flush_all in a second")


@each.case
def items_that_are_evicted(m):
    key = filled(m, b"evicted", b"e" * 100)
    for i in range(0, 5000000, 1000): # what was read goes when the maintainer has come to it
        m.control.all(b"".join(b"set e%d 0 0 100 noreply\r\n%s\r\n" % (i + j, b"x" * 100)
                               for j in range(1000)))
        if m.control.ask(b"me evicted\r\n") == b"EN\r\n":
            break
    bounded(m, key, GONE, "an item that was evicted")


@each.case
def writes_by_other_ways(m):
    for stream, name in ((m.control, "over loopback"),
                         (client.tcp(m.pair.address(1), m.server.port), "over an interface that "
                          "is not watched")):
        key = filled(m, b"other")
        stream.set(key, b"new")
        bounded(m, key, answer((key, b"new")), "a set " + name)
        key = filled(m, b"other")
        stream.ask(b"delete other\r\n")
        bounded(m, key, GONE, "a delete " + name)
        key = filled(m, b"other")
        stream.ask(b"flush_all\r\n")
        bounded(m, key, GONE, "flush_all " + name)


@each.case
def a_server_that_is_stopped(m):
    """The kernel answers, as it did when `filled` checked it, for as long as an entry may be
    old."""
    key = filled(m, b"stopped")
    end, grown = m.during(lambda: server.wait_for(lambda: m.says([get(key)]) == [None]))
    tap.ok(end and grown["miss_age"] > 0,
           "the kernel answers for a stopped server until the entry is too old")


@each.case
def the_server_is_asked_for_hot_keys(m):
    """LRU inversion: a key that is read through the kernel all the time is not evicted."""
    key, going = filled(m, b"hot", b"h" * 100), True
    reads = 0

    def read():
        nonlocal reads
        udp = client.Udp(m.pair.address(), m.server.port)
        while going:
            try:
                udp.ask(get(key))
            except (TimeoutError, client.FrameError):
                pass
            reads += 1
        udp.close()

    def seen():
        return m.counts()["fills"]

    evictions = int(m.control.stats()["evictions"])
    reader = threading.Thread(target=read)
    reader.start()
    try:
        before, filler = m.counts(), 0
        # A part of the memory between two reads of the key, until all was replaced twice.
        while int(m.control.stats()["evictions"]) - evictions < 80000 and filler < 200000:
            asked = seen()
            m.control.all(b"".join(b"set f%d 0 0 100 noreply\r\n%s\r\n" % (filler + j, b"x" * 100)
                                   for j in range(8000)))
            filler += 8000
            if not server.wait_for(lambda: seen() >= asked + 2):
                break
        grown = m.counts()["answered"] - before["answered"]
    finally:
        going = False
        reader.join()
    tap.diag("%d reads, %d of them answered by the kernel; %d evictions" % (
        reads, grown, int(m.control.stats()["evictions"]) - evictions))
    tap.ok(int(m.control.stats()["evictions"]) - evictions >= 80000,
           "all memory was replaced twice")
    tap.ok(grown > reads / 2, "the kernel answered most of the reads")
    tap.is_(m.control.get(key), b"h" * 100, "the key that was read all the time is not evicted")


@each.case
def a_server_that_is_killed(m):
    """`bmc` outlives the server behind it; in our server the chain ends with the server."""
    if not m.bmc:
        return
    key, dead = filled(m, b"dead"), client.Udp(m.pair.address(), m.server.port, 0.3)
    m.options["port"] = m.server.port
    m.server.kill()

    def silent():
        try:
            dead.ask(get(key))
            return False
        except (TimeoutError, ConnectionRefusedError):
            return True

    end, grown = m.during(lambda: server.wait_for(silent))
    tap.ok(end and grown["miss_age"] > 0, "after the server was killed the kernel does not answer")
    m.serve()
    m.tcp = m.server.stream()
    m.renew()
    tap.is_(m.udp.ask(get(key)), GONE, "the next server is empty")
    key = filled(m, b"dead")
    m.server.kill()
    m.serve()
    m.tcp = m.server.stream()
    m.renew()
    tap.ok(server.wait_for(lambda: m.udp.ask(get(key)) == GONE),
           "the kernel answers with the new server's value")
    filled(m, b"alive")


each.end()
tap.run()
