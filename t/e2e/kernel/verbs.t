#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""gets, mg and the binary gets: the kernel answers and counts as the server does.

Each request is sent over the kernel path, and to the same socket of the same server over a second
interface without it: the datagrams must be equal, byte by byte, and so must be the counts in
`stats`.
"""
import random

import binary
import client
import kernel
import server
import tap

rng = random.Random(3636)
m = kernel.Machines("-m", "256", threads=2, links=2, on=1, listen="0.0.0.0,::")
plain = client.Udp(m.pair.address(1), m.server.port)
ident = iter(range(1, 10 ** 9))
FLAGS = (b"v", b"f", b"c", b"t", b"s", b"k", b"q", b"O", b"h", b"l", b"R")
VALUES = {b"O": lambda: any_key()[:rng.randrange(32)], b"R": lambda: b"%d" % rng.randrange(100)}


def datagrams(udp, request, number):
    """The datagrams of the reply to one request, in order."""
    udp.send(request, ident=number)
    found = {}
    while True:
        datagram = udp.recv_raw()
        if datagram[:2] != number.to_bytes(2, "big"):
            continue
        found[int.from_bytes(datagram[2:4], "big")] = datagram
        if len(found) == int.from_bytes(datagram[4:6], "big"):
            return [found[i] for i in sorted(found)]


def differ(request, fast=None, slow=None):
    """Both answers, if they differ, else None. A second may begin between them."""
    for _ in range(3):
        number = next(ident) & 0xffff
        answers = [datagrams(udp, request, number) for udp in (fast or m.udp, slow or plain)]
        if answers[0] == answers[1]:
            return None
    return request[:80], answers


def compare(requests, name, share, fast=None, slow=None):
    """Checks that all answers are equal, and that at least this share of them is the kernel's."""
    requests = list(requests)
    found, grown = m.during(lambda: [d for d in (differ(r, fast, slow) for r in requests) if d])
    tap.is_(found[:3], [], "%s: %d requests have equal answers" % (name, len(requests)))
    tap.ok(grown["answered"] >= share * len(requests), "%d of them were answered by the kernel" %
           grown["answered"])


def store(key, value, flags=0, exptime=0):
    m.tcp.send(b"set %s %d %d %d noreply\r\n%s\r\n" % (key, flags, exptime, len(value), value))


def settle():
    """Waits until all items sent with noreply are stored."""
    m.tcp.all(b"")


def any_key():
    return rng.randbytes(2000).translate(None, bytes(range(33)))[:rng.randrange(1, 251)]


def fill():
    """Stores keys of many kinds, some of which are missing and some expire."""
    keys = [b"key%d" % i for i in range(40)] + [any_key() for _ in range(60)]
    for i, key in enumerate(keys):
        if i % 4:
            store(key, rng.randbytes(rng.choice((0, 1, 2, 7, 8, 9, 30, 100, 300, 900, 1380, 1500))),
                  rng.choice((0, 1, 99, 65535, 12345678, 123456789, 4294967295)),
                  rng.choice((0, 0, 100, 100000, 2000000)))
    settle()
    return keys


keys = fill()


def some_flags():
    flags = rng.sample(FLAGS, rng.randrange(len(FLAGS)))
    return b"".join(b" " + flag + VALUES.get(flag, bytes)() for flag in flags if flag != b"q")


def any_gets():
    return b"gets %s\r\n" % b" ".join(rng.choice(keys) for _ in range(rng.choice((1, 1, 2, 4))))


def any_mg():
    return b"mg %s%s\r\n" % (rng.choice(keys), some_flags())


def any_binary():
    return binary.request(rng.choice(("get", "getk")), rng.choice(keys),
                          opaque=rng.randrange(1 << 32), cas=rng.randrange(1 << 64))


@tap.case
def gets():
    compare((any_gets() for _ in range(600)), "gets of one to four keys", 0.5)
    for i in range(1000):
        store(b"s%d" % i, b"x" * (i * 14 // 10), flags=i)
    settle()
    compare((b"gets s%d\r\n" % i for i in range(1000)), "values of 0 to 1,400 bytes", 0.9)
    compare((b"gets %s\n" % b"  ".join(b"s%d" % rng.randrange(40) for _ in range(count))
             for count in range(1, 60)), "gets of 1 to 59 keys", 0.3)


@tap.case
def mg():
    compare((any_mg() for _ in range(1500)), "mg with any of the flags", 0.5)
    compare((b"mg s%d v c f t s k\r\n" % i for i in range(1000)), "values of 0 to 1,400 bytes", 0.9)


@tap.case
def binary_gets():
    compare((any_binary() for _ in range(600)), "Get and GetK", 0.8)
    compare((binary.request("getk", b"s%d" % i) for i in range(1000)),
            "values of 0 to 1,400 bytes", 0.9)
    here = [key for key in keys if m.tcp.ask(b"mg %s\r\n" % key) == b"HD\r\n"]
    compare((binary.request(rng.choice(("getq", "getkq")), rng.choice(here)) for _ in range(300)),
            "GetQ and GetKQ of stored keys", 0.8)


@tap.case
def a_quiet_miss_has_no_answer():
    for request in (binary.request("getq", b"nothing"), binary.request("getkq", b"nothing"),
                    b"mg nothing v q\r\n"):
        before = m.counts()
        m.udp.send(request)
        tap.is_(m.udp.ask(b"mn\r\n"), b"MN\r\n", "%r has none" % request[:20])
        tap.is_(m.counts()["answered"], before["answered"] + 1, "the kernel took it")
        tap.is_(m.counts()["misses"], before["misses"] + 1, "and counted a miss")


@tap.case
def flags_that_may_change_an_item_are_answered_where_they_do_not():
    m.tcp.ask(b"set asked 0 0 1\r\n1\r\n")
    for request, want, answered in (
            (b"mg asked h\r\n", b"HD h0\r\n", 0), (b"mg asked h\r\n", b"HD h1\r\n", 1),
            (b"mg asked v N30\r\n", b"VA 1\r\n1\r\n", 1),
            (b"mg asked R30 t\r\n", b"HD t-1\r\n", 1)):
        got, grown = m.during(lambda r=request: m.udp.ask(r))
        tap.is_(got, want, "%r" % request)
        tap.is_(grown["answered"], answered, "answered by the %s" % ("server", "kernel")[answered])
    got, grown = m.during(lambda: [m.udp.ask(b"mg asked l\r\n") for _ in range(40)])
    tap.ok(got.count(b"HD l0\r\n") >= 38 and grown["answered"] > 20,
           "an item that was read in this second: %d by the kernel" % grown["answered"])
    m.tcp.ask(b"touch asked 20\r\n")
    got, grown = m.during(lambda: m.udp.ask(b"mg asked R30\r\n"))
    tap.is_((got, grown["answered"]), (b"HD W\r\n", 0), "the server says who stores it again")
    got, grown = m.during(lambda: m.udp.ask(b"mg gone N30\r\n"))
    tap.is_((got, grown["answered"]), (b"HD W\r\n", 0), "and makes what N asks for")


@tap.case
def requests_that_only_the_server_answers():
    m.tcp.ask(b"set touched 0 0 1\r\n1\r\n")
    requests = [b"mg touched v T100\r\n", b"mg touched u v\r\n",
                b"mg new N30 v\r\n", b"mg touched R200 v\r\n", b"mg dG91Y2hlZA== b v k\r\n",
                b"mg touched v v\r\n", b"mg touched vv\r\n", b"mg touched O%s\r\n" % (b"x" * 32),
                b"mg %s v\r\n" % (b"x" * 251), b"mg\r\n", b"mg \r\n", b"gets\r\n", b"gets \r\n",
                b"gets %s\r\n" % (b"x" * 251), b"gats 0 touched\r\n", b"gets touched\r\r\n",
                b"gets t\touched\r\n", b"mg touched \tv\r\n", b"mg touched v\0\r\n",
                b"MG touched v\r\n", b"mg touched E5 v\r\n"]
    found, grown = m.during(lambda: [d for d in map(differ, requests) if d])
    tap.is_(found, [], "the server's answers are the same over both interfaces")
    tap.is_(grown["answered"], 0, "the kernel answers none of them")


@tap.case
def stale_items_and_winners():
    """An answer that only one client may get is sent by the server, to the first that asks."""
    m.tcp.ask(b"set old 0 0 1\r\n1\r\n")
    m.tcp.ask(b"md old I\r\n")
    got, grown = m.during(lambda: [m.udp.ask(b"mg old v\r\n") for _ in range(2)])
    tap.is_((got, grown["answered"]), ([b"VA 1 X W\r\n1\r\n", b"VA 1 Z X\r\n1\r\n"], 0),
            "a stale item has one winner")
    m.tcp.ask(b"ms a2V5 3 b\r\nabc\r\n")
    got, grown = m.during(lambda: m.udp.ask(b"mg key v k\r\n"))
    tap.is_((got, grown["answered"]), (b"VA 3 ka2V5 b\r\nabc\r\n", 0),
            "a binary key is printed in base64")


@tap.case
def random_lines():
    names = [b"key1", b"key2", b"none", b"", b"\r", b"\t", b"\0", b"x" * 250, b"x" * 251]
    words = names + [b"v", b"k", b"f", b"t", b"c", b"s", b"Oa", b"O", b"O" + b"y" * 31, b"b", b"T",
                     b"\xff", b"noreply"]
    requests = []
    for _ in range(1200):
        line = rng.choice((b"mg ", b"mg ", b"gets ")) + \
            b" ".join([rng.choice(names)] + [rng.choice(words) for _ in range(rng.randrange(6))])
        requests.append(line + rng.choice((b"\r\n", b"\r\n", b"\n", b" \r\n")))
    compare(requests, "random lines", 0.1)


@tap.case
def it_is_counted_as_the_server_counts():
    requests = [rng.choice((any_gets, any_mg, any_binary))() for _ in range(400)]
    names = ("cmd_get", "get_hits", "get_misses", "get_expired", "get_flushed", "cmd_meta",
             "cmd_touch", "touch_hits", "cmd_set", "bytes_written")

    def counted(udp):
        m.tcp.all(b"")
        before, slabs = m.tcp.stats(), m.tcp.stats("slabs")
        for request in requests:
            datagrams(udp, request, next(ident) & 0xffff)
        after, slabs_after = m.tcp.stats(), m.tcp.stats("slabs")
        grown = {name: int(after[name]) - int(before[name]) for name in names}
        grown.update({name: int(slabs_after[name]) - int(slabs[name]) for name in slabs
                      if name.endswith("get_hits")})
        return grown

    by_server = counted(plain)
    by_kernel, grown = m.during(lambda: counted(m.udp))
    tap.ok(grown["answered"] > 300, "the kernel answered %d" % grown["answered"])
    # `stats` and its own answers are in bytes_written: their length differs by a few digits.
    tap.ok(abs(by_kernel.pop("bytes_written") - by_server.pop("bytes_written")) < 200,
           "bytes_written is the same")
    tap.is_(by_kernel, by_server, "the counts of commands, hits and classes are the same")


@tap.case
def over_ipv6():
    six = [client.Udp("fd77:%d::1" % i, m.server.port) for i in range(2)]
    compare((rng.choice((any_gets, any_mg, any_binary))() for _ in range(600)), "over IPv6", 0.6,
            *six)


@tap.case
def while_the_server_is_stopped():
    m.tcp.ask(b"set here 5 0 4\r\nhere\r\n")
    cas = m.tcp.gets(b"here")[1]
    m.server.pause()
    try:
        tap.is_(m.udp.ask(b"gets here none\r\n"),
                b"VALUE here 5 4 %d\r\nhere\r\nEND\r\n" % cas, "gets")
        tap.is_(m.udp.ask(b"mg here v s f\r\n"), b"VA 4 s4 f5\r\nhere\r\n", "mg")
        tap.is_(m.udp.ask(b"mg none v O1 k\r\n"), b"EN O1 knone\r\n", "mg of a missing key")
        got = binary.replies(m.udp.ask(binary.request("getk", b"here", opaque=77)))
        tap.is_(got, [binary.Reply(0x0c, 0, 77, cas, b"\0\0\0\5", b"here", b"here")], "GetK")
    finally:
        m.server.resume()


@tap.case
def bypass():
    m.tcp.ask(b"set here 5 0 4\r\nhere\r\n")
    requests = [b"gets here\r\n", b"mg here v\r\n", binary.request("get", b"here")]

    def answered():
        return m.during(lambda: [differ(request) for request in requests])[1]["answered"]

    m.tcp.ask(b"verbosity 2\r\n")
    tap.is_(answered(), 0, "at verbosity 2 the server answers")
    m.tcp.ask(b"verbosity 0\r\n")
    m.tcp.ask(b"stats detail on\r\n")
    tap.is_(answered(), 0, "while stats detail is on the server answers")
    m.tcp.ask(b"stats detail off\r\n")
    watcher = m.server.stream()
    watcher.ask(b"watch fetchers\r\n")
    tap.is_(answered(), 0, "while gets are watched the server answers")
    watcher.close()
    tap.ok(server.wait_for(lambda: answered() == 3), "afterwards the kernel answers again")


@tap.case
def without_cas():
    with kernel.Machines("-C") as other:
        other.tcp.set(b"foo", b"bar")
        for request, want in ((b"gets foo\r\n", b"VALUE foo 0 3 0\r\nbar\r\nEND\r\n"),
                              (b"mg foo c\r\n", b"HD c0\r\n")):
            tap.is_(other.by_server(request), want, "under -C the server answers %r" % want)
            other.same(request, want, "under -C the kernel answers the same")
        request = binary.request("get", b"foo")
        other.same(request, other.by_server(request), "under -C the binary answer is the same")


@tap.case
def any_protocol_of_b():
    """-B is for connections: a datagram's first byte selects its protocol."""
    for name in ("ascii", "binary", "auto"):
        with kernel.Machines("-B", name, binary=name == "binary") as other:
            requests = [b"get foo\r\n", b"mg foo v\r\n", binary.request("getk", b"foo")]
            udp = other.server.udp()
            udp.ask(b"set foo 0 0 3\r\nbar\r\n")
            udp.ask(b"verbosity 2\r\n")
            by_server = [udp.ask(request) for request in requests]
            udp.ask(b"verbosity 0\r\n")
            other.server.pause()
            by_kernel = [udp.ask(request) for request in requests]
            other.server.resume()
            tap.is_(by_kernel, by_server, "-B %s: text and binary are answered" % name)


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run()
