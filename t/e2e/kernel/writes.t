#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every way in which a value changes or is removed, each followed by a UDP get of the kernel.

Before each write the kernel serves the old value; after it the old value is never seen again, and
the kernel answers, unless the write itself makes the kernel pass the key to the server.
"""

import binary as b
import client
import kernel
import netns
import server
import tap
import writes
from kernel import answer
from writes import OLD

m = kernel.Machines("-m", "64", "-o", "slab_chunk_max=16384", links=2, listen="0.0.0.0,::")
c = m.tcp
fresh = iter(range(10 ** 9))


def prepared(value=OLD, flags=0, exptime=0):
    """A new key whose value the kernel has served."""
    key = b"key%d" % next(fresh)
    c.set(key, value, flags=flags, exptime=exptime)
    got, by_kernel = m.by_kernel(b"get %s\r\n" % key)
    if (got, by_kernel) != (answer((key, value, flags)), True):
        raise RuntimeError("the kernel does not serve the old value: %r, %s" % (got, by_kernel))
    return key


def after(key, value, name, flags=0, by_kernel=True):
    """The answer to a get after a write: value, or None for a miss."""
    want = b"END\r\n" if value is None else answer((key, value, flags))
    m.same(b"get %s\r\n" % key, want, name, by_kernel)


def over(key, name):
    """Waits until an expired item, which the kernel passes to the server, has been removed by
    the server."""
    tap.is_(m.udp.ask(b"get %s\r\n" % key), b"END\r\n", name)
    after(key, None, name + ", a second time")


def play(rows, way, name=""):
    """Executes each of the writes this way, and the get after it."""
    for row in rows:
        key = prepared(row.old)
        way.ask(writes.render(row, key, c), row.lines)
        if row.want is writes.OVER:
            over(key, row.name + name)
        else:
            after(key, row.want, row.name + name, row.flags, row.in_place)


text = writes.Tcp(c)


@tap.case
def storage_commands():
    play(writes.STORAGE, text)


@tap.case
def numbers():
    play(writes.NUMBERS, text)


@tap.case
def removals():
    play(writes.REMOVALS, text)


@tap.case
def quiet_commands():
    play(writes.QUIET, text)


@tap.case
def meta_commands():
    play(writes.META, text)


@tap.case
def time_that_passes():
    key, other = prepared(), prepared()
    c.set(key, b"brief", exptime=1)
    c.ask(b"touch %s 5\r\n" % other)
    after(other, OLD, "touch 5, before the expiry")
    tap.ok(server.wait_for(lambda: m.udp.get(key) is None), "expiry after 1 s")
    after(key, None, "expiry, afterwards")
    tap.ok(server.wait_for(lambda: m.udp.get(other) is None), "touch 5, after the expiry")
    key = prepared()
    c.ask(b"flush_all 2\r\n")
    tap.ok(server.wait_for(lambda: m.udp.get(key) is None), "flush_all with a delay")
    tap.ok(server.wait_for(lambda: m.by_kernel(b"get %s\r\n" % key) == (b"END\r\n", True)),
           "after a delayed flush the kernel answers")
    key = prepared(exptime=4)
    c.ask(b"touch %s 1000\r\n" % key)
    brief = prepared(exptime=4)
    tap.ok(server.wait_for(lambda: m.udp.get(brief) is None), "an item of 4 seconds expires")
    after(key, OLD, "an item touched to a later expiry is found")


@tap.case
def writes_over_udp():
    writer = writes.Udp(m.server.udp())
    # One worker executes the datagrams of a socket in order.
    play(writes.TEXT + writes.QUIET + writes.META, writer, " over UDP")


@tap.case
def the_binary_protocol():
    play(writes.BINARY, writes.BinaryTcp(m.server.stream()), " in binary")
    writer = m.server.udp()
    play(writes.BINARY, writes.BinaryUdp(writer), " in binary over UDP")
    key = prepared()
    writer.ask(b.store("set", key, b"new value")[:-1])
    after(key, OLD, "a binary set that its datagram cuts off")


def split(stream, request, reply, name):
    """Sends a set of "new" in two parts, split anywhere."""
    wrong = []
    for at in range(1, len(request(b"key10000"))):
        key = b"key1%04d" % at
        c.set(key, OLD)
        first = m.udp.get(key)
        stream.send(request(key)[:at])
        half = m.udp.get(key)
        stream.send(request(key)[at:])
        reply()
        last = m.by_kernel(b"get %s\r\n" % key)
        if (first, half, last) != (OLD, OLD, (answer((key, b"new")), True)):
            wrong.append((at, first, half, last))
    tap.is_(wrong, [],
            "a %s split at any byte: the old value until its answer, the new one from then on"
            % name)


@tap.case
def a_set_split_over_two_segments():
    stream = m.server.stream()
    split(stream, lambda key: b"set %s 0 0 3\r\nnew\r\n" % key, stream.line, "set")
    stream = m.server.stream()
    split(stream, lambda key: b.store("set", key, b"new"), b.Binary(stream).reply, "binary set")


@tap.case
def over_other_ways():
    streams = [(client.tcp("fd77:0::1", m.server.port), "over IPv6"),
               (client.tcp(m.pair.address(1), m.server.port), "over another interface")]
    with netns.inside(m.pair.server):
        streams.append((client.tcp("127.0.0.1", m.server.port), "over loopback"))
        streams.append((client.tcp("::1", m.server.port), "over IPv6 loopback"))
    streams.append((writes.with_ip_options(m.pair.address(), m.server.port), "with IP options"))
    for on in (False, True):
        writes.timestamps(on)
        streams.append((m.server.stream(), "with TCP timestamps %d" % on))
    for stream, name in streams:
        key = prepared()
        stream.set(key, b"new")
        after(key, b"new", "set " + name)
        key = prepared()
        stream.ask(b"delete %s\r\n" % key)
        after(key, None, "delete " + name)
    second = client.Udp(m.pair.address(1), m.server.port)
    key = prepared()
    second.ask(b"set %s 0 0 3\r\nnew\r\n" % key)
    after(key, b"new", "set over UDP and another interface")
    six = client.Udp("fd77:0::1", m.server.port)
    key = prepared()
    six.ask(b"set %s 0 0 3\r\nnew\r\n" % key)
    after(key, b"new", "set over UDP and IPv6")


@tap.case
def pipelined_sets():
    play(writes.PIPELINED, text)
    keys = [prepared() for _ in range(20)]
    c.all(b"".join(b"set %s 0 0 3\r\nnew\r\n" % key for key in keys))
    got, grown = m.during(lambda: m.udp.ask(b"get %s\r\n" % b" ".join(keys)))
    tap.is_((got, grown["answered"]), (answer(*((key, b"new") for key in keys)), 1),
            "the kernel answers a get after 20 pipelined sets")

@tap.case
def writes_that_fail():
    play(writes.FAILING, text)
    key = prepared()
    c.all(b"set %s 0 0 3\r\nabcde\r\n" % key)
    got = m.udp.get(key)
    tap.ok(got in (OLD, None),
           "a set with a bad end leaves the old value or none, and no part of the new one")
    key = prepared()
    half = m.server.stream()
    half.send(b"set %s 0 0 100\r\nabc" % key)
    half.close()
    after(key, OLD, "a set whose client closed the connection")


@tap.case
def chunked_values():
    key = prepared()
    value = b"x" * 40000 # no reply is longer than what a veth's ring holds
    c.set(key, value)
    m.same(b"get %s\r\n" % key, answer((key, value)), "a chunked value over a small one", False)
    c.set(key, b"small")
    after(key, b"small", "a small value over a chunked one")


@tap.case
def keys_and_values_of_every_length():
    wrong = []
    for length in range(1, 251):
        key = (b"%d-" % length * 250)[:length]
        for value in (b"a" * length, b"b" * (length * 4 % 977), b"c"):
            c.set(key, value)
            if m.by_kernel(b"get %s\r\n" % key) != (answer((key, value)), True):
                wrong.append((length, len(value)))
        c.ask(b"delete %s\r\n" % key)
        if m.by_kernel(b"get %s\r\n" % key) != (b"END\r\n", True):
            wrong.append((length, None))
    tap.is_(wrong, [], "three sets and a delete of keys of 1 to 250 bytes")


@tap.case
def eviction():
    with kernel.Machines("-m", "8", "-o", "no_lru_maintainer,no_lru_crawler") as small:
        value = b"e" * 1000
        count = 20000
        for start in range(0, count, 1000):
            small.tcp.send(b"".join(b"set evict%d 0 0 1000\r\n%s\r\n" % (i, value)
                                    for i in range(start, start + 1000)))
            small.tcp.exactly(len(b"STORED\r\n") * 1000)
        gone, stale = 0, []

        def look():
            nonlocal gone
            for i in range(0, count, 7):
                key = b"evict%d" % i
                got = small.udp.ask(b"get %s\r\n" % key)
                gone += got == b"END\r\n"
                if got not in (b"END\r\n", answer((key, value))):
                    stale.append(i)

        _, grown = small.during(look)
        tap.ok(gone > 1000, "evicted items are misses (%d)" % gone)
        tap.is_(stale, [], "no answer has another item's value")
        tap.is_(grown["answered"], len(range(0, count, 7)), "the kernel gave all answers")
        both = [i for i in range(0, count, 97)
                if (small.tcp.get(b"evict%d" % i) is None) !=
                (small.udp.get(b"evict%d" % i) is None)]
        tap.is_(both, [], "kernel and server agree on which items were evicted")


@tap.case
def memory_pressure():
    """Keys are overwritten with values of other sizes while memory is short: chunks change
    classes."""
    for options in ((), ("-M",)):
        with kernel.Machines("-m", "8", *options) as small:
            now, wrong, refused = {}, [], 0
            for i in range(6000):
                key = b"press%d" % (i % 500)
                value = b"%d." % i * (i * 37 % 200)
                told = small.tcp.set(key, value)
                now[key] = value if told == b"STORED\r\n" else None
                refused += told != b"STORED\r\n"
                got = small.udp.ask(b"get %s\r\n" % key)
                want = [b"END\r\n"] if now[key] is None else [answer((key, value))]
                if not (got in want or (got == b"END\r\n" and not options)):
                    wrong.append((i, told, got[:60]))
                other = b"press%d" % (i * 7 % 500)
                if now.get(other) is not None:
                    got = small.udp.ask(b"get %s\r\n" % other)
                    if got not in (answer((other, now[other])), b"END\r\n"):
                        wrong.append((i, other, got[:60]))
            tap.is_(wrong[:5], [],
                    "6,000 overwrites in 8 MB%s: no old value, and none of another key" %
                    (" with -M" if options else ""))
            grown = small.counts()
            tap.ok(grown["answered"] > 7000, "the kernel answered (%d)" % grown["answered"])


@tap.case
def a_restarted_server():
    key = prepared()
    port = m.server.port
    m.server.stop()
    probe = client.Udp(m.pair.address(), port)
    probe.sock.settimeout(0.3)
    try:
        probe.ask(b"get %s\r\n" % key)
        tap.ok(False, "a server that has ended does not answer")
    except (TimeoutError, ConnectionRefusedError):
        tap.ok(True, "a server that has ended does not answer")
    m.options["port"] = port
    m.start()
    after(key, None, "a restarted server does not answer with the old value")
    m.tcp.set(key, b"new")
    after(key, b"new", "the kernel answers with the new value")


@tap.case
def a_killed_server():
    m.tcp.set(b"killed", OLD)
    m.same(b"get killed\r\n", answer((b"killed", OLD)), "before kill -9")
    m.server.kill()
    tap.ok(server.wait_for(lambda: netns.xdp_mode("sv0", m.pair.server) is None),
           "after kill -9 the interface has no program")
    m.start()
    after(b"killed", None,
          "a server that was killed and restarted does not answer with the old value")


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run()
