#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""The binary protocol over TCP: every command, its quiet form, and malformed requests."""
import random
import struct

import binary as b
import server
import tap

memcached = server.Server(threads=2)
text = memcached.stream()
NOOP = b.request("noop")


def connect():
    return b.Binary(memcached.stream())


c = connect()


def statuses(data):
    return [(r.opcode, r.status) for r in c.all(data)]


@tap.case
def storage():
    reply = c.ask(b.store("set", b"foo", b"bar", flags=0xdeadbeef, opaque=0x12345678))
    tap.is_((reply.status, reply.opaque, reply.extras + reply.key + reply.value),
            (b.OK, 0x12345678, b""), "set is answered with its opaque and nothing more")
    tap.is_(text.gets(b"foo"), (0xdeadbeef, reply.cas, b"bar"),
            "a text client sees the value, its flags and the id that set returned")
    got = c.ask(b.request("get", b"foo", opaque=7))
    tap.is_(got, b.Reply(0, b.OK, 7, reply.cas, b"\xde\xad\xbe\xef", b"", b"bar"),
            "get returns flags, value and id")
    tap.is_(c.ask(b.request("getk", b"foo")).key, b"foo", "getk returns the key, too")
    text.set(b"text", b"of text", flags=5)
    tap.is_(c.ask(b.request("get", b"text"))[4:], (b"\0\0\0\5", b"", b"of text"),
            "a value stored by text is returned without its line end")
    tap.is_(statuses(b.store("add", b"foo", b"x") + b.store("add", b"new", b"x") +
                     b.store("replace", b"none", b"x") + b.store("replace", b"new", b"y") +
                     b.request("append", b"new", b"z") + b.request("prepend", b"new", b"x") +
                     b.request("append", b"none", b"z")),
            [(2, b.EXISTS), (2, b.OK), (3, b.NOT_FOUND), (3, b.OK), (14, b.OK), (15, b.OK),
             (14, b.NOT_STORED)], "add, replace, append and prepend answer as they should")
    tap.is_(text.get(b"new"), b"xyz", "the value is that of the successful ones")
    tap.is_(c.ask(b.store("add", b"foo", b"x")), b.error("add", b.EXISTS, b"Data exists for key."),
            "an error has a text")


@tap.case
def quiet_commands():
    tap.is_(c.all(b.store("setq", b"q", b"1") + b.store("addq", b"q2", b"1") +
                  b.store("replaceq", b"q", b"2") + b.request("appendq", b"q", b"3") +
                  b.request("prependq", b"q", b"1") + b.count("incrq", b"q") +
                  b.count("decrq", b"q", 23) + b.request("deleteq", b"q2") +
                  b.request("getq", b"none") + b.request("getkq", b"none") +
                  b.touch("gatq", b"none") + b.touch("gatkq", b"none")), [],
            "quiet commands that succeed, and quiet gets that miss, are not answered")
    tap.is_(text.get(b"q"), b"101", "they are executed")
    tap.is_([(r.opcode, r.key, r.value) for r in
             c.all(b.request("getq", b"q") + b.request("getkq", b"q") + b.touch("gatq", b"q") +
                   b.touch("gatkq", b"q"))],
            [(9, b"", b"101"), (13, b"q", b"101"), (0x1e, b"", b"101"), (0x24, b"q", b"101")],
            "quiet gets that hit are answered")
    tap.is_(statuses(b.store("addq", b"q", b"1") + b.store("replaceq", b"none", b"1") +
                     b.request("appendq", b"none", b"1") + b.request("deleteq", b"none") +
                     b.count("incrq", b"none", exptime=-1) +
                     b.store("setq", b"q", b"", cas=1 << 40)),
            [(0x12, b.EXISTS), (0x13, b.NOT_FOUND), (0x19, b.NOT_STORED), (0x14, b.NOT_FOUND),
             (0x15, b.NOT_FOUND), (0x11, b.EXISTS)], "quiet commands that fail are answered")
    keys = [b"pipe%d" % i for i in range(3000)]
    c.all(b"".join(b.store("setq", k, k) for k in keys[::2]))
    found = c.all(b"".join(b.request("getkq", k, opaque=i) for i, k in enumerate(keys)))
    tap.is_([(r.opaque, r.key, r.value) for r in found],
            [(i, k, k) for i, k in enumerate(keys) if i % 2 == 0],
            "of 3,000 quiet gets the hits are answered, in order")


@tap.case
def ids():
    first = c.ask(b.store("set", b"id", b"1")).cas
    second = c.ask(b.store("set", b"id", b"2", cas=first)).cas
    tap.ok(first and second > first, "set with the item's id stores, under a new id")
    tap.is_(statuses(b.store("set", b"id", b"3", cas=first) +
                     b.store("add", b"id", b"3", cas=first) +
                     b.store("replace", b"id", b"3", cas=first) +
                     b.request("append", b"id", b"3", cas=first) +
                     b.count("incr", b"id", cas=first) + b.request("delete", b"id", cas=first)),
            [(o, b.EXISTS) for o in (1, 2, 3, 14, 5, 4)], "every command compares the id")
    tap.is_(statuses(b.store("set", b"none", b"3", cas=first) +
                     b.store("add", b"none", b"3", cas=first) +
                     b.store("replace", b"none", b"3", cas=first)),
            [(o, b.NOT_FOUND) for o in (1, 2, 3)],
            "with an id nothing is stored under a missing key")
    got = c.ask(b.count("incr", b"id", 5, cas=second))
    tap.is_((got.status, got.value), (b.OK, struct.pack("!Q", 7)),
            "incr with the item's id increments")
    tap.is_(c.ask(b.request("delete", b"id", cas=got.cas)).status, b.OK,
            "delete with the item's id deletes")
    with server.Server("-C") as other:
        d = b.Binary(other.stream())
        tap.is_([(r.status, r.cas) for r in
                 d.all(b.store("set", b"k", b"1", cas=99) + b.request("get", b"k"))],
                [(b.OK, 0)] * 2, "with -C ids are 0 and not compared")


@tap.case
def numbers():
    def number(reply):
        return reply.status, struct.unpack("!Q", reply.value)[0] if reply.status == 0 else None

    tap.is_(number(c.ask(b.count("incr", b"num", 5, 1000))), (b.OK, 1000), "incr creates")
    tap.is_(number(c.ask(b.count("incr", b"num", 5, 1000))), (b.OK, 1005), "incr adds")
    tap.is_(number(c.ask(b.count("decr", b"num", 2000))), (b.OK, 0), "decr stops at 0")
    tap.is_(text.get(b"num"), b"0   ", "in text the number keeps its width")
    tap.is_(number(c.ask(b.count("decr", b"num2", 1, 0, -1))), (b.NOT_FOUND, None),
            "an exptime of all ones creates nothing")
    text.set(b"num", b"18446744073709551615")
    tap.is_(number(c.ask(b.count("incr", b"num", 3))), (b.OK, 2), "incr wraps")
    text.set(b"num", b"twelve")
    tap.is_(c.ask(b.count("incr", b"num")),
            b.error("incr", b.NON_NUMERIC, b"Non-numeric server-side value for incr or decr"),
            "incr of a value that is not a number fails")


@tap.case
def touching_and_expiry():
    text.set(b"t", b"value", flags=3)
    got = c.ask(b.touch("touch", b"t", 100))
    tap.is_((got.status, got.extras, got.value), (b.OK, b"\0\0\0\3", b""),
            "touch returns the flags")
    tap.is_(c.ask(b.touch("touch", b"none")), b.error("touch", b.NOT_FOUND, b"Not found"),
            "touch of a missing key fails")
    tap.is_([(r.status, r.key, r.value) for r in
             c.all(b.touch("gat", b"t") + b.touch("gatk", b"t") + b.touch("gat", b"none") +
                   b.touch("gatk", b"none"))],
            [(0, b"", b"value"), (0, b"t", b"value"), (1, b"", b"Not found"), (1, b"none", b"")],
            "gat and gatk of stored and missing keys")
    tap.is_(c.ask(b.touch("gat", b"t", 0x50000000)).value, b"value",
            "gat with a time in the past returns the value one last time")
    tap.is_(text.get(b"t"), None, "after it the item is gone")
    c.ask(b.store("set", b"t", b"value", exptime=5))
    tap.is_(c.ask(b.request("get", b"t")).status, b.OK, "an item of five seconds is stored")
    tap.ok(server.wait_for(lambda: c.ask(b.request("get", b"t")).status == b.NOT_FOUND),
           "it expires")


@tap.case
def flushing():
    for flush in ("flush", "flushq"):
        text.set(b"f", b"x")
        tap.is_(len(c.all(b.request(flush))), flush == "flush", "%s" % flush)
        tap.is_(text.get(b"f"), None, "flush removes everything")
        text.set(b"f", b"x")
        c.all(b.request(flush, extras=struct.pack("!I", 2)))
        tap.ok(server.wait_for(lambda: text.get(b"f") is None), "%s with a delay" % flush)
    with server.Server("-F") as other:
        d = b.Binary(other.stream())
        tap.is_(d.all(b.request("flush") + b.request("flushq")),
                [b.error("flush", b.AUTH_ERROR, b"Auth failure."),
                 b.error("flushq", b.AUTH_ERROR, b"Auth failure.")], "-F refuses both")


@tap.case
def statistics():
    rows = c.stats()
    tap.is_([k for k, _ in rows], [k for k, _ in text.stats_list()],
            "stat has the keys of text, in their order")
    for which in ("settings", "items", "slabs", "sizes"):
        tap.is_([k for k, _ in c.stats(which.encode())],
                [k for k, _ in text.stats_list(which)], "stat %s too" % which)
    tap.is_(dict(c.stats(b"settings")), text.stats("settings"),
            "stat settings has the settings of text")
    for which in (b"conns", b"cachedump", b"nothing", b"k" * 250):
        tap.is_(c.all(b.request("stat", which)), [b.error("stat", b.NOT_FOUND, b"Not found")],
                "stat %s is not found" % which.decode()[:20])
    tap.is_(c.all(b.request("stat", b"reset", opaque=6)), [b.Reply(16, 0, 6, 0, b"", b"", b"")],
            "stat reset")
    tap.is_(text.stats()["cmd_get"], "0", "stat reset resets the counters")
    conns = memcached.stats("conns")
    tap.ok([k for k in conns if k.endswith(":state")], "stats conns lists the connections")


@tap.case
def what_commands_count():
    def counted(data):
        before = text.stats()
        c.all(data)
        after = text.stats()
        return {k: int(after[k]) - int(before[k]) for k in after
                if k.startswith(("cmd_", "get_", "delete_", "incr_", "decr_", "cas_", "touch_"))
                and after[k] != before[k]}

    c.all(b.store("setq", b"n", b"1") + b.request("deleteq", b"none"))
    for name, data, want in (
            ("set", b.store("set", b"n", b"1"), {"cmd_set": 1}),
            ("a hit", b.request("get", b"n"), {"cmd_get": 1, "get_hits": 1}),
            ("a quiet miss", b.request("getq", b"none"), {"cmd_get": 1, "get_misses": 1}),
            ("gat", b.touch("gat", b"n"), {"cmd_touch": 1, "touch_hits": 1}),
            ("a touch of a missing key", b.touch("touch", b"none"),
             {"cmd_touch": 1, "touch_misses": 1}),
            ("incr", b.count("incr", b"n"), {"incr_hits": 1}),
            ("incr of a missing key", b.count("incr", b"none", exptime=-1), {"incr_misses": 1}),
            ("incr that creates", b.count("incr", b"created"), {}),
            ("a wrong id", b.store("set", b"n", b"1", cas=1 << 40),
             {"cmd_set": 1, "cas_badval": 1}),
            ("an id for a missing key", b.store("set", b"none", b"1", cas=5),
             {"cmd_set": 1, "cas_misses": 1}),
            ("append with a wrong id", b.request("append", b"n", b"1", cas=1 << 40),
             {"cmd_set": 1}),
            ("delete", b.request("delete", b"n"), {"delete_hits": 1}),
            ("delete of a missing key", b.request("delete", b"n"), {"delete_misses": 1}),
            ("flush", b.request("flush"), {"cmd_flush": 1}),
            ("a set that is too large", b.store("set", b"n", b"x" * (1 << 20)), {})):
        tap.is_(counted(data), want, "%s is counted as memcached counts it" % name)


@tap.case
def values_of_every_size():
    rng = random.Random(1)
    for size in (0, 1, 2, 100, 1000, 16383, 16384, 65535, 65536, 300000, 524288, 700000, 1000000):
        value = rng.randbytes(size)
        c.ask(b.store("set", b"size", value, flags=size))
        got = c.ask(b.request("getk", b"size"))
        tap.ok((got.extras, got.key, got.value) == (struct.pack("!I", size), b"size", value),
               "a value of %d bytes is returned" % size)
        c.ask(b.request("append", b"size", b"!"))
        tap.ok(text.get(b"size") == value + b"!", "the text protocol returns the same")
    text.set(b"size", b"old")
    tap.is_(statuses(b.store("set", b"size", b"x" * (1 << 20)) + b.request("get", b"size")),
            [(1, b.TOO_LARGE), (0, b.NOT_FOUND)],
            "a value that is too large is skipped, and the old one removed")
    key = b"k" * 250
    c.ask(b.store("set", key, b"long"))
    tap.is_(c.ask(b.request("getk", key))[5:], (key, b"long"), "a key of 250 bytes")
    key = bytes(range(250))
    c.ask(b.store("set", key, b"any"))
    tap.is_(c.ask(b.request("getk", key))[5:], (key, b"any"), "a key of any bytes")


@tap.case
def requests_that_arrive_in_pieces():
    stream = (b.store("set", b"piece", b"value\r\n", flags=7) + b.request("getk", b"piece") +
              b.count("incr", b"piece2", 1, 5) + b.request(0x30, b"k", b"v") +
              b.request("append", b"piece", b"") + NOOP)
    c.ask(b.request("flush"))
    want = None
    wrong = []
    for at in range(1, len(stream)):
        d = connect()
        c.ask(b.request("flush"))
        d.send(stream[:at])
        c.ask(NOOP)
        d.send(stream[at:])
        got = [d.reply()._replace(cas=0) for _ in range(6)]
        d.stream.close()
        want = want or got
        if got != want:
            wrong.append(at)
    tap.is_(wrong, [], "split at any byte the requests have the same answers")
    tap.is_([r.status for r in want], [0, 0, 0, b.UNKNOWN, 0, 0], "the answers are right")
    d = connect()
    for byte in stream:
        d.send(bytes([byte]))
    tap.is_([d.reply().status for _ in range(6)], [0, 0, 0, b.UNKNOWN, 0, 0],
            "sent byte by byte the requests have the same answers")


@tap.case
def invalid_arguments():
    """The lengths of extras, of bodies, of keys beyond the body, and magics are in
    binary-table.t."""
    for name, data in (
            ("set without extras", b.request("set", b"k", b"v")),
            ("set without a key", b.store("set", b"", b"v")),
            ("setq without a key", b.store("setq", b"", b"v")),
            ("get without a key", b.request("get")),
            ("get with a value", b.request("get", b"k", b"v")),
            ("get with a long key", b.request("get", b"k" * 251)),
            ("set with a long key", b.store("set", b"k" * 251, b"v")),
            ("an unknown command with a long key", b.request(0x30, b"k" * 251)),
            ("an unknown command with a body of -1", b.request(0x30, nbody=0xffffffff)),
            ("noop with a key", b.request("noop", b"k")),
            ("version with a value", b.request("version", b"", b"v")),
            ("flush with a key", b.request("flush", b"k")),
            ("touch without extras", b.request("touch", b"k")),
            ("touch with a value", b.request("touch", b"k", b"v", b"1234")),
            ("gatkq with a value", b.request("gatkq", b"k", b"v", b"1234")),
            ("stat with a value", b.request("stat", b"", b"v")),
            ("sasl_list with a key", b.request("sasl_list", b"k"))):
        tap.is_(connect().to_end(data + NOOP), [b.error(data[1], b.INVALID, b"Invalid arguments")],
                "%s: invalid arguments, and the connection closes" % name)
    tap.is_(c.ask(NOOP).status, b.OK, "other connections stay open")



def answer_over_udp(request):
    """A request behind a flood may be lost: it is sent until it is answered."""
    u = memcached.udp()
    for _ in range(5):
        try:
            return u.ask(request)
        except TimeoutError:
            continue
    return b""


@tap.case
def damaged_streams():
    rng = random.Random(4)
    whole = (b.store("set", b"dmg", b"value") + b.request("get", b"dmg") + b.count("incr", b"dn") +
             b.request("append", b"dmg", b"more") + b.touch("gatk", b"dmg") + b.request("stat") +
             b.store("setq", b"dmg2", b"x" * 3000) + b.request("delete", b"dmg") + NOOP)
    u = memcached.udp()
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 5)):
            byte = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
            data[rng.randrange(len(data))] = byte
        data = bytes(data[:rng.choice((len(data), rng.randrange(1, len(data))))])
        d = connect()
        try:
            d.send(data)
        except (ConnectionResetError, BrokenPipeError):
            pass
        d.stream.close()
        u.send(data)
    tap.is_(c.ask(NOOP).status, b.OK,
            "after 400 damaged streams over TCP and UDP the server answers")
    tap.is_(answer_over_udp(NOOP)[:2], b"\x81\x0a", "it answers over UDP")
    c.all(b.store("setq", b"intact", b"right"))
    tap.is_(text.get(b"intact"), b"right", "it stores values")


@tap.case
def the_selection_of_the_protocol():
    d = memcached.stream()
    d.ask(b"version\r\n")
    tap.is_(d.ask(b"\x80\r\n"), b"ERROR\r\n", "a connection that began in text stays in text")
    with server.Server("-B", "ascii") as other, other.stream() as d:
        tap.is_(d.ask(b"\x80\x0b\r\n"), b"ERROR\r\n", "-B ascii parses a binary request as text")
        tap.is_(other.stats("settings")["binding_protocol"], "ascii", "stats settings shows it")
    with server.Server("-B", "binary", binary=True) as other, other.stream() as d:
        tap.is_(d.to_end(b"version\r\n" * 3), b"", "-B binary closes a text connection")
        d = b.Binary(other.stream())
        tap.is_(d.ask(NOOP).status, b.OK, "-B binary answers a binary connection")
        tap.is_(dict(d.stats(b"settings"))["binding_protocol"], "binary", "stats settings shows it")


@tap.case
def verbose_output():
    with server.Server("-vv") as other:
        d = b.Binary(other.stream())
        d.all(b.store("set", b"line\nend", b"v") + b.request("get", b"line\nend"))
        log = other.log()
    tap.like(log, r"^<\d+ \\x80\\x00\\x00.*line\\x0aend$", "-vv logs a request in one line")
    tap.like(log, r"^>\d+ \\x81\\x0a", "-vv logs an answer")
    tap.ok(log.isascii(), "in ASCII")


@tap.case
def memory_is_full():
    with server.Server("-M", "-m", "2") as other:
        d = b.Binary(other.stream())
        replies = d.all(b"".join(b.store("setq", b"k%d" % i, b"x" * 200000) for i in range(100)))
        tap.ok(0 < len(replies) < 100 and
               set((r.opcode, r.status, r.value) for r in replies) ==
               {(0x11, b.NO_MEMORY, b"Out of memory allocating item")},
               "with -M a set into full memory is answered with an error, and its body is skipped")


tap.run(ends=memcached)
