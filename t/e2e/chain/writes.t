#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Every way in which a value changes or is removed that can be seen from packets, each followed by
a UDP get: through the chain, in front of Debian's memcached and of ours.

Before each write the kernel serves the old value; after it the old value is never seen again, and
sooner or later the kernel serves the new one. Changes that cannot be seen are in
e2e/chain/residual.t.
"""
import socket

import binary
import chain
import client
import server
import tap
import writes
from kernel import answer
from writes import OLD

# One thread: a request behind another in a datagram is executed after it.
each = chain.Each(threads=1, listen="0.0.0.0,::")
fresh = iter(range(10 ** 9))
V6 = "fd77:0::1"
HOP_OPTIONS = b"\0\0\1\4\0\0\0\0" # six bytes of padding


def get(key, size=0):
    """The request; long for long values, since a veth's frame has little room to grow."""
    return b"get %s%s\r\n" % (key, b" " * max(size - 100, 0))


def filled(m, rows):
    """Makes new keys with the rows' old values, all of which the kernel serves."""
    for _ in range(5): # two of them may share a bucket
        keys = [b"key%d" % next(fresh) for _ in rows]
        for key, row in zip(keys, rows):
            m.tcp.set(key, row.old)
        old = [answer((key, row.old)) for key, row in zip(keys, rows)]
        asked = [m.udp.ask(get(key)) for key in keys]
        if asked != old:
            raise RuntimeError("a stored key is missing: %r" % asked)
        got = m.says([get(key, len(row.old)) for key, row in zip(keys, rows)])
        if got == old:
            return keys
        if got[:-1] != old[:len(got) - 1]:
            raise RuntimeError("the kernel answers otherwise: %r" % got)
    raise RuntimeError("the kernel does not serve the old values: %s" % m.counts())


def wanted(row, key, got=None):
    """What a get is to answer after the write. Stock pads a number that gets shorter, unless its
    LRU maintainer holds the item at that moment: then `got` without padding is right too."""
    if row.want in (None, writes.OVER):
        return b"END\r\n"
    unpadded = answer((key, row.want.rstrip(b" "), row.flags))
    return unpadded if got == unpadded else answer((key, row.want, row.flags))


def serves_again(m, found, name):
    """Waits until the kernel answers (key, answer) again; until then the server does, equally."""
    wrong = []
    for key, want in found:
        last = None

        def look():
            nonlocal last
            last = m.by_kernel(get(key, len(want)))
            return last[1] or last[0] != want

        server.wait_for(look)
        if last != (want, True):
            wrong.append((key, last))
    tap.is_(wrong[:3], [], name + ", and the kernel serves the new values")


def batch(m, rows, way, name):
    keys, wrong, present = filled(m, rows), [], []
    for row, key in zip(rows, keys):
        way.ask(writes.render(row, key, m.tcp), row.lines)
        got = m.udp.ask(get(key))
        want = wanted(row, key, got)
        if got != want:
            wrong.append((row.name, got))
        if want != b"END\r\n":
            present.append((key, want))
    tap.is_(wrong[:3], [], "%d writes %s, each seen at once" % (len(rows), name))
    if present:
        serves_again(m, present, "%d writes %s" % (len(rows), name))


def play(m, rows, way, name):
    batch(m, [row for row in rows if not row.alone], way, name)
    for row in rows:
        if row.alone:
            batch(m, [row], way, "%s (%s)" % (name, row.name))


ALL_TEXT = writes.TEXT + writes.QUIET + writes.META


@each.case
def text(m):
    play(m, ALL_TEXT + writes.PIPELINED + writes.FAILING, writes.Tcp(m.server.stream()), "in text")
    play(m, ALL_TEXT, writes.Udp(m.server.udp()), "in text over UDP")


@each.case
def the_binary_protocol(m):
    play(m, writes.BINARY, writes.BinaryTcp(m.server.stream()), "in binary")
    play(m, writes.BINARY, writes.BinaryUdp(m.server.udp()), "in binary over UDP")


class ByBytes(writes.Tcp):
    """One segment for each byte."""

    def __init__(self, stream):
        super().__init__(stream)
        stream.all(b"")

    def ask(self, data, lines=1):
        for i in range(len(data) - 1):
            self.stream.send(data[i:i + 1])
        return super().ask(data[-1:], lines)


@each.case
def one_byte_at_a_time(m):
    play(m, ALL_TEXT, ByBytes(m.server.stream()), "in segments of one byte")


SPLITS = (
    ("set", lambda key: b"set %s 0 0 3\r\nnew\r\n" % key, b"new"),
    ("delete", lambda key: b"delete %s\r\n" % key, None),
    ("append", lambda key: b"append %s 0 0 3\r\nnew\r\n" % key, OLD + b"new"),
    ("ms", lambda key: b"ms %s 3\r\nnew\r\n" % key, b"new"),
    ("pipelined set", lambda key: b"set set 0 0 4\r\nset \r\nset %s 0 0 3\r\nnew\r\n" % key,
     b"new"),
    ("binary set", lambda key: binary.store("set", key, b"new"), b"new"),
    ("binary delete", lambda key: binary.request("delete", key), None),
)


def split(m, name, request, want):
    """Sent in two parts, split anywhere: old until it is complete, new from the answer on."""
    stream = m.server.stream()
    reply = binary.Binary(stream).reply if name.startswith("binary") else stream.line
    rows = [writes.Row("split at byte %d" % at, None, want)
            for at in range(1, len(request(b"key1234")))]
    keys, wrong, present = filled(m, rows), [], []
    for at, (row, key) in enumerate(zip(rows, keys), 1):
        stream.send(request(key)[:at])
        half = m.udp.get(key)
        stream.send(request(key)[at:])
        for _ in range(1 + (name == "pipelined set")):
            reply()
        last = m.udp.get(key)
        # The other part may be one byte, which is not needed to execute it.
        if half not in (OLD, want) or last != want:
            wrong.append((at, half, last))
        present += [(key, wanted(row, key))] if want else []
    tap.is_(wrong[:3], [], "a %s split at each of %d bytes is right at once" % (name, len(rows)))
    if present:
        serves_again(m, present, "a split " + name)


@each.case
def commands_split_over_two_segments(m):
    for name, request, want in SPLITS:
        split(m, name, request, want)


BASIC = writes.STORAGE[:1] + writes.NUMBERS[:1] + writes.REMOVALS[:2] + writes.QUIET[:1]


def six(m, *options):
    """A connection over IPv6 with a hop-by-hop or destination header."""
    stream = client.tcp(V6, m.server.port)
    for option, value in options:
        stream.sock.setsockopt(socket.IPPROTO_IPV6, option, value)
    return stream


@each.case
def over_other_ways(m):
    play(m, BASIC, writes.Tcp(six(m)), "over IPv6")
    for option, name in ((socket.IPV6_HOPOPTS, "a hop-by-hop header"),
                         (socket.IPV6_DSTOPTS, "a destination header")):
        play(m, BASIC, writes.Tcp(six(m, (option, HOP_OPTIONS))), "over IPv6 with " + name)
    play(m, BASIC, writes.Udp(client.Udp(V6, m.server.port)), "over UDP and IPv6")
    play(m, BASIC, writes.Tcp(writes.with_ip_options(m.pair.address(), m.server.port)),
         "with IP options")
    datagrams = client.Udp(m.pair.address(), m.server.port)
    datagrams.sock.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\1\1\1\0")
    play(m, BASIC, writes.Udp(datagrams), "with IP options over UDP")
    for on in (False, True):
        writes.timestamps(on)
        play(m, BASIC, writes.Tcp(m.server.stream()), "with TCP timestamps %d" % on)


@each.case
def reads_over_ipv6(m):
    """Entries belong to one address of the server; a write closes the key's gate for all of
    them."""
    four, m.udp = m.udp, client.Udp(V6, m.server.port)
    play(m, BASIC, writes.Tcp(m.server.stream()), "over IPv4, read over IPv6")
    play(m, BASIC, writes.Udp(four), "over IPv4 and UDP, read over IPv6")
    m.udp.close()
    m.udp = four


@each.case
def long_values(m):
    """Over many segments, in frames of any size, and in fragmented datagrams."""
    way, datagrams = writes.Tcp(m.server.stream()), writes.Udp(m.server.udp())
    for size in (1300, 1500, 5000, 70000, 250000): # no reply is longer than a veth's ring
        value = b"x" * size
        row = writes.Row("set", b"set KEY 0 0 %d\r\n%s\r\n" % (size, value), value)
        key, = filled(m, [row])
        way.ask(writes.render(row, key, m.tcp))
        tap.ok(m.udp.ask(get(key)) == answer((key, value)), "a value of %d bytes over a short one"
               % size)
        m.tcp.set(key, b"small")
        m.same(get(key), answer((key, b"small")), "a short value over it")
    for size in (1600, 4000, 20000):
        row = writes.Row("set", b"set KEY 0 0 %d\r\n%s\r\n" % (size, b"y" * size), b"y" * size)
        key, = filled(m, [row])
        datagrams.ask(writes.render(row, key, m.tcp))
        tap.ok(m.udp.ask(get(key)) == answer((key, b"y" * size)), "a set of %d bytes in fragments"
               % size)


@each.case
def writes_that_are_not_executed(m):
    half, whole = filled(m, [writes.STORAGE[0]] * 2)
    stream = m.server.stream()
    stream.send(b"set %s 0 0 100\r\nabc" % half)
    tap.is_(m.udp.get(half), OLD, "a set of which half was sent")
    stream.close()
    serves_again(m, [(half, answer((half, OLD)))],
                 "after its client closed the connection: the old value")
    m.tcp.all(b"set %s 0 0 3\r\nabcde\r\n" % whole)
    tap.ok(m.udp.get(whole) == m.tcp.get(whole), "a set with a bad end has the server's result")


@each.case
def connections_that_are_older(m):
    """The chain cannot follow a connection that it has not seen from its start: it closes the
    table's gate."""
    if not m.bmc:
        return
    old = m.server.stream()
    old.ask(b"version\r\n")
    m.bmc.stop()
    m.cover()
    m.ready()
    play(m, writes.STORAGE + writes.QUIET, writes.Tcp(old), "on a connection older than the chain")
    half = m.server.stream()
    half.send(b"set half 0 0 30\r\nset ")
    m.bmc.stop()
    m.cover()
    m.ready()
    key, = filled(m, [writes.STORAGE[0]])
    half.send(b"x" * 26 + b"\r\nset %s 0 0 3\r\nnew\r\n" % key)
    tap.is_((half.line(), half.line(), m.udp.get(key)), (b"STORED\r\n", b"STORED\r\n", b"new"),
            "a connection first seen within a value")


@each.case
def keys_and_values_of_every_length(m):
    rows = [writes.Row("", b"set KEY 0 0 %d\r\n%s\r\n" % (n, b"b" * n), b"b" * n, b"a" * n)
            for n in range(1, 1301, 13)]
    play(m, rows, writes.Tcp(m.server.stream()), "of values of 1 to 1,300 bytes")
    wrong = []
    for length in range(1, 251):
        key = (b"%d-" % length * 250)[:length]
        m.tcp.set(key, b"first")
        first = m.by_kernel(get(key))
        m.tcp.set(key, b"second")
        if (first, m.by_kernel(get(key))) != ((answer((key, b"first")), True),
                                              (answer((key, b"second")), True)):
            wrong.append(length)
    tap.is_(wrong, [], "two sets of keys of 1 to 250 bytes")


each.end()
tap.run()
