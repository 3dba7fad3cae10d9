#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every way in which a value changes or goes, each followed by a UDP get of the kernel.

Before each write the kernel serves the old value; after it the old value is
never seen again, and it is the kernel that says so, but where the write itself
makes the kernel leave the key to the server.
"""
import os
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "lib"))
import binary as b
import binary
import client
import kernel
import netns
import server
import tap
from kernel import answer

OLD = b"old-value-1234567"

m = kernel.Machines("-m", "64", links=2, listen="0.0.0.0,::")
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
    """The get after a write: value, or None for a miss."""
    want = b"END\r\n" if value is None else answer((key, value, flags))
    m.same(b"get %s\r\n" % key, want, name, by_kernel)


def over(key, name):
    """After an item's time is over: the kernel leaves it to the server, until that has taken it
    away."""
    tap.is_(m.udp.ask(b"get %s\r\n" % key), b"END\r\n", name)
    after(key, None, name + ", a second time")


@tap.case
def storage_commands():
    key = prepared()
    c.set(key, b"new")
    after(key, b"new", "set")
    key = prepared()
    c.set(key, OLD[::-1])
    after(key, OLD[::-1], "set of the same length")
    key = prepared()
    c.set(key, OLD, flags=77)
    after(key, OLD, "set of other flags", flags=77)
    key = prepared()
    c.set(key, b"x" * 1300)
    after(key, b"x" * 1300, "set of a long value")
    key = prepared(b"x" * 1300)
    c.set(key, b"")
    after(key, b"", "set of an empty value over a long one")
    key = prepared()
    c.set(key, b"new", verb=b"replace")
    after(key, b"new", "replace")
    key = prepared()
    c.set(key, b"-end", verb=b"append")
    after(key, OLD + b"-end", "append")
    key = prepared()
    c.set(key, b"start-", verb=b"prepend")
    after(key, b"start-" + OLD, "prepend")
    key = prepared()
    c.set(key, b"new", verb=b"cas", tail=b" %d" % c.gets(key)[1])
    after(key, b"new", "cas")
    key = prepared()
    c.set(key, b"new", verb=b"cas", tail=b" 1")
    after(key, OLD, "cas that fails")
    key = prepared()
    c.set(key, b"new", verb=b"add")
    after(key, OLD, "add that is not stored")


@tap.case
def numbers():
    for verb, start, delta, want in ((b"incr", b"100", b"5", b"105"), (b"decr", b"105", b"5",
                                                                       b"100"),
                                     (b"incr", b"99", b"1", b"100"), (b"decr", b"100", b"1",
                                                                      b"99 "),
                                     (b"decr", b"5", b"9", b"0"),
                                     (b"incr", b"18446744073709551615", b"1",
                                      b"0                   ")):
        key = prepared(start)
        c.ask(b"%s %s %s\r\n" % (verb, key, delta))
        after(key, want, "%s from %s by %s" % (verb.decode(), start.decode(), delta.decode()))


@tap.case
def removals():
    key = prepared()
    c.ask(b"delete %s\r\n" % key)
    after(key, None, "delete")
    key = prepared()
    c.ask(b"delete %s\r\n" % key)
    c.set(key, b"new", verb=b"add")
    after(key, b"new", "delete and add")
    key = prepared()
    c.ask(b"touch %s -1\r\n" % key)
    over(key, "touch -1")
    key = prepared()
    c.all(b"gat -1 %s\r\n" % key)
    over(key, "gat -1")
    key = prepared()
    c.all(b"gats -1 %s\r\n" % key)
    over(key, "gats -1")
    key = prepared()
    c.set(key, b"new", exptime=-1)
    over(key, "set that is expired at once")
    key = prepared()
    other = prepared()
    c.ask(b"flush_all\r\n")
    over(key, "flush_all")
    c.set(other, b"new")
    after(other, b"new", "flush_all and set")


@tap.case
def time_that_passes():
    key, other = prepared(), prepared()
    c.set(key, b"brief", exptime=1)
    c.ask(b"touch %s 1\r\n" % other)
    after(other, OLD, "touch 1, before the time")
    tap.ok(server.wait_for(lambda: m.udp.get(key) is None), "expiry after 1 s")
    after(key, None, "expiry, afterwards")
    tap.ok(server.wait_for(lambda: m.udp.get(other) is None), "touch 1, after the time")
    key = prepared()
    c.ask(b"flush_all 1\r\n")
    tap.ok(server.wait_for(lambda: m.udp.get(key) is None), "flush_all with a delay")
    tap.ok(server.wait_for(lambda: m.by_kernel(b"get %s\r\n" % key) == (b"END\r\n", True)),
           "flush_all with a delay, afterwards, by the kernel")
    key = prepared(exptime=2)
    c.ask(b"touch %s 1000\r\n" % key)
    brief = prepared(exptime=2)
    tap.ok(server.wait_for(lambda: m.udp.get(brief) is None), "an item of 2 seconds expires")
    after(key, OLD, "one that was touched lives on")


@tap.case
def writes_over_udp():
    writer = m.server.udp()
    for request, value in ((b"set %s 0 0 3\r\nnew\r\n", b"new"), (b"delete %s\r\n", None),
                           (b"append %s 0 0 1\r\n!\r\n", OLD + b"!"),
                           (b"set %s 0 0 3 noreply\r\nnew\r\n", b"new")):
        key = prepared()
        ident = writer.send(request % key)
        if b"noreply" not in request:
            writer.message(ident)
        else:
            # The same socket is served in order by one worker.
            writer.ask(b"version\r\n")
        after(key, value, "%r over UDP" % (request % b"KEY"))
    key = prepared(b"41")
    writer.ask(b"incr %s 1\r\n" % key)
    after(key, b"42", "incr over UDP")


def binary_writes(ask, way):
    """Every binary command that writes, each over `ask`, which returns when it is done."""
    longer, past = b"-end", 0x50000000
    for name, data, value in (
            ("set", lambda k: b.store("set", k, b"new"), b"new"),
            ("setq", lambda k: b.store("setq", k, b"new"), b"new"),
            ("replace", lambda k: b.store("replace", k, b"new"), b"new"),
            ("append", lambda k: b.request("append", k, longer), OLD + longer),
            ("prependq", lambda k: b.request("prependq", k, longer), longer + OLD),
            ("set with another id", lambda k: b.store("set", k, b"new", cas=1 << 40), OLD),
            ("add", lambda k: b.store("add", k, b"new"), OLD),
            ("delete", lambda k: b.request("delete", k), None),
            ("deleteq", lambda k: b.request("deleteq", k), None),
            ("delete and add", lambda k: b.request("deleteq", k) + b.store("add", k, b"new"),
             b"new")):
        key = prepared()
        ask(data(key))
        after(key, value, "binary %s over %s" % (name, way))
    for name, start, want in (("incr", b"99", b"100"), ("decrq", b"100", b"99 ")):
        key = prepared(start)
        ask(b.count(name, key))
        after(key, want, "binary %s over %s" % (name, way))
    for name in ("touch", "gat", "gatkq"):
        key = prepared()
        ask(b.touch(name, key, past))
        over(key, "binary %s with a time that is over, over %s" % (name, way))
    for name in ("flush", "flushq"):
        key = prepared()
        ask(b.request(name))
        over(key, "binary %s over %s" % (name, way))


@tap.case
def binary_writes_over_tcp():
    stream = b.Binary(m.server.stream())
    binary_writes(stream.all, "TCP")
    wrong = []
    for at in range(1, len(b.store("set", b"key21234", b"new"))):
        key = b"key2%04d" % at
        c.set(key, OLD)
        first = m.udp.get(key)
        request = b.store("set", key, b"new")
        stream.send(request[:at])
        half = m.udp.get(key)
        stream.send(request[at:])
        stream.reply()
        last = m.by_kernel(b"get %s\r\n" % key)
        if (first, half, last) != (OLD, OLD, (answer((key, b"new")), True)):
            wrong.append((at, first, half, last))
    tap.is_(wrong, [], "a binary set split at any byte: old until its answer, new from then on")


@tap.case
def binary_writes_over_udp():
    writer = m.server.udp()

    def ask(data):
        """Done when the noop behind it is answered."""
        ident = writer.send(data + b.request("noop"))
        while b.replies(writer.message(ident))[-1].opcode != b.OPCODES["noop"]:
            pass

    binary_writes(ask, "UDP")
    key = prepared()
    writer.ask(b.store("set", key, b"new value")[:-1])
    after(key, OLD, "a binary set that is not all in its datagram")


@tap.case
def a_set_split_over_two_segments():
    stream = m.server.stream()
    wrong = []
    for at in range(1, len(b"set key12345 0 0 3\r\nnew\r\n")):
        key = b"key1%04d" % at
        c.set(key, OLD)
        first = m.udp.get(key)
        request = b"set %s 0 0 3\r\nnew\r\n" % key
        stream.send(request[:at])
        half = m.udp.get(key)
        stream.send(request[at:])
        stream.line()
        last = m.by_kernel(b"get %s\r\n" % key)
        if (first, half, last) != (OLD, OLD, (answer((key, b"new")), True)):
            wrong.append((at, first, half, last))
    tap.is_(wrong, [], "a set split at any byte: old until its answer, new from then on")


@tap.case
def over_other_ways():
    streams = [(client.tcp("fd77:0::1", m.server.port), "over IPv6"),
               (client.tcp(m.pair.address(1), m.server.port), "over another interface")]
    with netns.inside(m.pair.server):
        streams.append((client.tcp("127.0.0.1", m.server.port), "over loopback"))
        streams.append((client.tcp("::1", m.server.port), "over IPv6 loopback"))
    stream = client.Stream.__new__(client.Stream)
    stream.sock = socket.socket()
    stream.sock.settimeout(client.SECONDS)
    stream.sock.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\1\1\1\0")
    stream.sock.connect((m.pair.address(), m.server.port))
    stream.buffer, stream.sentinel = b"", None
    streams.append((stream, "with IP options"))
    for timestamps in ("0", "1"):
        with open("/proc/sys/net/ipv4/tcp_timestamps", "w", encoding="ascii") as file:
            file.write(timestamps)
        streams.append((m.server.stream(), "with TCP timestamps %s" % timestamps))
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
def the_binary_protocol():
    stream = binary.Binary(m.server.stream())
    datagrams = m.server.udp()
    new, no_time = b"new", 0
    writes = (
        ("set", lambda key: binary.store("set", key, new), new),
        ("set of flags", lambda key: binary.store("set", key, new, flags=9), (new, 9)),
        ("add that is not stored", lambda key: binary.store("add", key, new), OLD),
        ("replace", lambda key: binary.store("replace", key, new), new),
        ("append", lambda key: binary.request("append", key, b"-end"), OLD + b"-end"),
        ("prepend", lambda key: binary.request("prepend", key, b"start-"), b"start-" + OLD),
        ("delete", lambda key: binary.request("delete", key), None),
        ("setq", lambda key: binary.store("setq", key, new), new),
        ("replaceq", lambda key: binary.store("replaceq", key, new), new),
        ("appendq", lambda key: binary.request("appendq", key, b"-end"), OLD + b"-end"),
        ("prependq", lambda key: binary.request("prependq", key, b"start-"), b"start-" + OLD),
        ("deleteq", lambda key: binary.request("deleteq", key), None),
        ("touch", lambda key: binary.touch("touch", key, 1000), OLD),
        ("gat", lambda key: binary.touch("gat", key, 1000), OLD),
    )
    for transport, ask in (("TCP", stream.all), ("UDP", lambda data: over_udp(datagrams, data))):
        for name, write, want in writes:
            key = prepared()
            ask(write(key))
            value, flags = want if isinstance(want, tuple) else (want, 0)
            after(key, value, "binary %s over %s" % (name, transport), flags)
        for name, start, want in (("incr", b"41", b"42"), ("decr", b"43", b"42"),
                                  ("incrq", b"41", b"42"), ("decrq", b"43", b"42")):
            key = prepared(start)
            ask(binary.count(name, key, 1, exptime=no_time))
            after(key, want, "binary %s over %s" % (name, transport))
        for name in ("flush", "flushq"):
            key = prepared()
            ask(binary.request(name))
            over(key, "binary %s over %s" % (name, transport))


@tap.case
def a_binary_set_split_over_two_segments():
    stream = binary.Binary(m.server.stream())
    wrong = []
    for at in range(1, len(binary.store("set", b"key20001", b"new"))):
        key = b"key2%04d" % at
        c.set(key, OLD)
        first = m.udp.get(key)
        data = binary.store("set", key, b"new")
        stream.send(data[:at])
        half = m.udp.get(key)
        stream.send(data[at:])
        stream.reply()
        last = m.by_kernel(b"get %s\r\n" % key)
        if (first, half, last) != (OLD, OLD, (answer((key, b"new")), True)):
            wrong.append((at, first, half, last))
    tap.is_(wrong, [], "a binary set split at any byte: old until its answer, new from then on")


def over_udp(udp, data):
    """Sends a binary request with a noop behind it, whose answer says that it was done."""
    ident = udp.send(data + binary.request("noop", opaque=0x77))
    while binary.request("noop", opaque=0x77)[12:16] not in udp.message(ident):
        pass


@tap.case
def pipelined_sets():
    for before, name in ((b"set a 0 0 6\r\nreset \r\n", "a value that ends in set and a space"),
                         (b"set a 0 0 3\r\nset\r\n", "a value that ends in set"),
                         (b"set offset 0 0 1\r\nx\r\n", "a key that ends in set"),
                         (b"get offset\r\n", "a get of a key that ends in set"),
                         (b"set \xffset 0 0 4\r\nset \r\n", "a key and a value that end in set")):
        key = prepared()
        c.all(before + b"set %s 0 0 3\r\nnew\r\n" % key)
        after(key, b"new", "a pipelined set after " + name)
    keys = [prepared() for _ in range(20)]
    c.all(b"".join(b"set %s 0 0 3\r\nnew\r\n" % key for key in keys))
    got, grown = m.during(lambda: m.udp.ask(b"get %s\r\n" % b" ".join(keys)))
    tap.is_((got, grown["answered"]), (answer(*((key, b"new") for key in keys)), 1),
            "20 pipelined sets, one get, by the kernel")
    key = prepared()
    c.all(b"set %s 0 0 3 noreply\r\nnew\r\n" % key)
    after(key, b"new", "set noreply")
    key = prepared()
    c.all(b"delete %s noreply\r\n" % key)
    after(key, None, "delete noreply")
    key = prepared()
    c.all(b"".join(b"set %s 0 0 4\r\n%04d\r\n" % (key, i) for i in range(1000)))
    after(key, b"0999", "1,000 pipelined sets of one key")


@tap.case
def writes_that_fail():
    key = prepared()
    c.set(key, b"x" * 2000000)
    after(key, None, "a set that is too large")
    key = prepared()
    c.all(b"set %s 0 0 3\r\nabcde\r\n" % key)
    got = m.udp.get(key)
    tap.ok(got in (OLD, None), "a set with a bad end: the old value or none, no part of the new")
    key = prepared()
    half = m.server.stream()
    half.send(b"set %s 0 0 100\r\nabc" % key)
    half.close()
    after(key, OLD, "a set whose client went away")
    key = prepared()
    c.ask(b"incr %s 1\r\n" % key)
    after(key, OLD, "an incr of no number")


@tap.case
def chunked_values():
    key = prepared()
    c.set(key, b"x" * 700000)
    m.same(b"get %s\r\n" % key, answer((key, b"x" * 700000)), "a chunked value over a small one",
           False)
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
        tap.is_(stale, [], "and no answer is another item's")
        tap.is_(grown["answered"], len(range(0, count, 7)), "all by the kernel")
        both = [i for i in range(0, count, 97)
                if (small.tcp.get(b"evict%d" % i) is None) !=
                (small.udp.get(b"evict%d" % i) is None)]
        tap.is_(both, [], "kernel and server agree on what was evicted")
    netns.enter(m.pair.client)


@tap.case
def memory_pressure():
    """Keys are overwritten with other sizes while memory is short: chunks change classes."""
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
            tap.is_(wrong[:5], [], "6,000 overwrites in 8 MB%s: nothing old, nothing foreign" %
                    (" with -M" if options else ""))
            grown = small.counts()
            tap.ok(grown["answered"] > 7000, "and the kernel answered (%d)" % grown["answered"])
    netns.enter(m.pair.client)


@tap.case
def a_restarted_server():
    key = prepared()
    port = m.server.port
    m.server.stop()
    probe = client.Udp(m.pair.address(), port)
    probe.sock.settimeout(0.3)
    try:
        probe.ask(b"get %s\r\n" % key)
        tap.ok(False, "a server that has ended answers nothing")
    except (TimeoutError, ConnectionRefusedError):
        tap.ok(True, "a server that has ended answers nothing")
    m.options["port"] = port
    m.start()
    after(key, None, "a restarted server has no old value")
    m.tcp.set(key, b"new")
    after(key, b"new", "and serves the new one")


@tap.case
def a_killed_server():
    m.tcp.set(b"killed", OLD)
    m.same(b"get killed\r\n", answer((b"killed", OLD)), "before kill -9")
    m.server.kill()
    tap.ok(server.wait_for(lambda: netns.xdp_mode("sv0", m.pair.server) is None, 1),
           "after kill -9 the interface has no program within a second")
    m.start()
    after(b"killed", None, "a server that was killed and restarted has no old value")


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run(90)
