#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The binary protocol over UDP: selected for each datagram by its first byte."""
import random
import struct

import binary as b
import server
import tap

memcached = server.Server(threads=1)
text = memcached.stream()
u = memcached.udp()
NOOP = b.request("noop", opaque=0x77)
NOOP_REPLY = b.Reply(10, 0, 0x77, 0, b"", b"", b"")


def ask(data):
    """The replies in the single message of the answer."""
    return b.replies(u.ask(data))


def messages(data, count):
    """The first `count` messages of the answer, each as its replies."""
    ident = u.send(data)
    return [b.replies(u.message(ident)) for _ in range(count)]


@tap.case
def every_command_is_served():
    for name, data, want in (
            ("set", b.store("set", b"foo", b"bar", flags=5), (0, b"", b"", b"")),
            ("get", b.request("get", b"foo"), (0, b"\0\0\0\5", b"", b"bar")),
            ("getk", b.request("getk", b"foo"), (0, b"\0\0\0\5", b"foo", b"bar")),
            ("a hit of getq", b.request("getq", b"foo"), (0, b"\0\0\0\5", b"", b"bar")),
            ("a miss", b.request("get", b"none"), (1, b"", b"", b"Not found")),
            ("a miss of getk", b.request("getk", b"none"), (1, b"", b"none", b"")),
            ("add", b.store("add", b"foo", b"x"), (2, b"", b"", b"Data exists for key.")),
            ("append", b.request("append", b"foo", b"!"), (0, b"", b"", b"")),
            ("incr", b.count("incr", b"n", 1, 10), (0, b"", b"", struct.pack("!Q", 10))),
            ("touch", b.touch("touch", b"foo"), (0, b"\0\0\0\5", b"", b"")),
            ("gatk", b.touch("gatk", b"foo"), (0, b"\0\0\0\5", b"foo", b"bar!")),
            ("delete", b.request("delete", b"foo"), (0, b"", b"", b"")),
            ("flush", b.request("flush"), (0, b"", b"", b"")),
            ("noop", b.request("noop"), (0, b"", b"", b"")),
            ("an unknown command", b.request(0x30, b"k"),
             (0x81, b"", b"", b"Unknown command"))):
        got = ask(data)
        tap.is_([(r.status, r.extras, r.key, r.value) for r in got], [want], "%s over UDP" % name)
    tap.is_(ask(b.request("version"))[0].value, text.ask(b"version\r\n")[8:-2], "version over UDP")


@tap.case
def statistics_are_one_message():
    rows = ask(b.request("stat"))
    tap.is_([r.key.decode() for r in rows[:-1]], [k for k, _ in text.stats_list()],
            "stat over UDP has the keys of the text protocol")
    tap.ok(u.datagrams > 1 and not rows[-1].key,
           "it is one message of several datagrams, whose end "
           "is the answer without a key")


@tap.case
def quiet_commands():
    for name, data in (("setq", b.store("setq", b"q", b"1")), ("incrq", b.count("incrq", b"q")),
                       ("a miss of getq", b.request("getq", b"none")),
                       ("a miss of gatkq", b.touch("gatkq", b"none")),
                       ("deleteq", b.request("deleteq", b"q")), ("flushq", b.request("flushq"))):
        u.send(data)
        tap.ok(u.silence(), "%s is not answered" % name)
    tap.is_(ask(b.request("deleteq", b"q")), [b.error("deleteq", b.NOT_FOUND, b"Not found")],
            "a quiet command that fails is answered")


@tap.case
def several_commands_in_a_datagram():
    text.set(b"foo", b"bar")
    got = messages(b.request("getk", b"foo") + NOOP + b.request("getq", b"none") +
                   b.store("setq", b"m", b"1") + b.request("getk", b"m"), 3)
    tap.is_([[(r.opcode, r.key, r.value) for r in m] for m in got],
            [[(12, b"foo", b"bar")], [(10, b"", b"")], [(12, b"m", b"1")]],
            "each command has a message of its own, successful quiet ones none")
    tap.ok(u.silence(), "nothing else is answered")
    tap.is_(messages(NOOP * 100, 100), [[NOOP_REPLY]] * 100, "100 commands")


@tap.case
def the_selection_of_the_protocol():
    text.set(b"foo", b"bar")
    hit = b"VALUE foo 0 3\r\nbar\r\nEND\r\n"
    tap.is_([u.ask(b"get foo\r\n"), ask(NOOP), u.ask(b"get foo\r\n")], [hit, [NOOP_REPLY], hit],
            "one client may send text and binary datagrams in turn")
    tap.is_(messages(NOOP + b"get foo\r\n", 1), [[NOOP_REPLY]],
            "text behind a binary request is dropped")
    tap.ok(u.silence(), "it is not answered")
    ident = u.send(b"get foo\r\n" + NOOP[:1] + b"\r\n")
    tap.is_([u.message(ident), u.message(ident)], [hit, b"ERROR\r\n"],
            "a binary request behind text is parsed as text")
    tap.is_(ask(NOOP), [NOOP_REPLY], "the next datagram is answered")
    for binding in ("ascii", "binary", "auto"):
        with server.Server("-B", binding, binary=binding == "binary", threads=1) as other:
            v = other.udp()
            tap.is_([b.replies(v.ask(NOOP)), v.ask(b"get none\r\n")], [[NOOP_REPLY], b"END\r\n"],
                    "-B %s has no effect on UDP" % binding)


@tap.case
def quit_ends_the_datagram():
    tap.is_(messages(b.request("quit", opaque=3) + NOOP, 1), [[b.Reply(7, 0, 3, 0, b"", b"", b"")]],
            "quit is answered, and requests behind it are dropped")
    tap.ok(u.silence(), "they are not answered")
    u.send(b.request("quitq") + NOOP)
    tap.ok(u.silence(), "quitq is not answered")
    tap.is_(ask(NOOP), [NOOP_REPLY], "the socket still answers")


@tap.case
def malformed_datagrams():
    for name, data in (("23 bytes of a header", NOOP[:23]), ("one byte", b"\x80"),
                       ("a header without its key", b.request("get", b"key")[:26])):
        u.send(data)
        tap.ok(u.silence(), "%s is dropped" % name)
    for name, data, status in (
            ("invalid arguments", b.request("noop", b"k"), b.INVALID),
            ("a long key", b.request("get", b"k" * 251), b.INVALID),
            ("a body of 2^31", b.store("set", b"k", b"v", nbody=1 << 31), b.INVALID),
            ("a body of -1", b.store("set", b"k", b"v", nbody=0xffffffff), b.INVALID),
            ("a key that is longer than the body", b.request("get", b"k", nkey=9), b.UNKNOWN),
            ("a value that the datagram cuts off", b.store("set", b"cut", b"value")[:-1],
             b.INVALID),
            ("of a quiet set", b.store("setq", b"cut", b"value")[:-1], b.INVALID),
            ("an unknown command that the datagram cuts off", b.request(0x30, b"k", nbody=100),
             b.UNKNOWN),
            ("a value that is too large and cut off", b.store("set", b"cut", b"", nbody=2000000),
             b.TOO_LARGE)):
        got = ask(data + (b"" if name.startswith(("a value", "of", "an unknown")) else NOOP))
        tap.is_([r.status for r in got], [status], "%s is answered %02x" % (name, status))
        tap.ok(u.silence(), "nothing else is answered")
        tap.is_(ask(NOOP), [NOOP_REPLY], "the next datagram is answered")
    tap.is_(text.get(b"cut"), None, "nothing is stored")
    tap.is_(u.ask(b"\x81" + NOOP[1:]), b"ERROR\r\n", "a datagram with another magic is text")


@tap.case
def replies_of_every_size():
    rng = random.Random(1)
    wrong = []
    for size in list(range(1350, 1380)) + list(range(2740, 2780)) + [10000, 65536, 500000]:
        value = rng.randbytes(size)
        text.set(b"size", value)
        got = ask(b.request("get", b"size"))
        if got[0].value != value or u.datagrams != -(-(24 + 4 + size) // 1392):
            wrong.append(size)
    tap.is_(wrong, [], "values up to 500,000 bytes are returned whole, in full datagrams")
    for size in (1, 1400, 4096, 60000):
        value = rng.randbytes(size)
        ask(b.store("set", b"size", value))
        tap.ok(text.get(b"size") == value, "a set of %d bytes in one datagram" % size)


tap.run(ends=memcached)
