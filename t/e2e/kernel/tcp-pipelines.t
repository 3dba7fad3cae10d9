#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several requests in a segment: the kernel's replies and counts are the server's.

Each pipeline is sent on a connection whose gets the kernel answers, and on one over a second
interface without it, in one segment: the bytes that come must be equal, and so must be what `stats`
counts.
"""
import random

import asking
import binary
import client
import kernel
import netns
import tap

rng = random.Random(3030)
COUNTS = ("cmd_get", "get_hits", "get_misses", "get_expired", "get_flushed", "cmd_touch", "cmd_set",
          "bytes_read", "bytes_written")
SEGMENT = 1448
END = {"text": b"version\r\n", "binary": binary.request("version")}
FIRST_GETS = 3 # that the server answers: doc/kernel-path/tcp.md
SIZES = (1, 5, 10, 40, 100, 300)

m = kernel.Machines("-m", 256, links=2, on=1, listen="0.0.0.0", words=("tcp=on",))
KEYS = [b"key-%d" % i for i in range(60)]
for each, name in enumerate(KEYS):
    if each % 3:
        m.tcp.set(name, rng.randbytes(rng.choice(SIZES)), flags=each)


def dial(link, protocol):
    """A connection by this interface of the server, behind what begins each."""
    c = client.tcp(m.pair.address(link), m.server.port)
    c.sock.settimeout(asking.SECONDS)
    get, nreply = {"text": (b"get none\r\n", len(b"END\r\n")),
                   "binary": (binary.request("get", b"none"),
                              binary.HEADER + len(b"Not found"))}[protocol]
    for _ in range(FIRST_GETS):
        c.send(get)
        c.exactly(nreply)
    return c


def whole_reply(c, protocol, pipeline):
    """All that comes, before what the end is answered."""
    end = END[protocol]
    c.send(pipeline + end)
    if protocol == "text":
        got = c.until(b"VERSION ")
        c.line()
        return got[:-len(b"VERSION ")]
    got = b""
    while True:
        head = c.exactly(binary.HEADER)
        body = c.exactly(int.from_bytes(head[8:12], "big"))
        if head[1] == binary.OPCODES["version"]:
            return got
        got += head + body


def text():
    """Of one request."""
    key, more = rng.choice(KEYS), b" ".join(rng.sample(KEYS, rng.randrange(1, 4)))
    flags = b" ".join(rng.sample((b"v", b"f", b"c", b"t", b"s", b"k", b"O12"), rng.randrange(7)))
    return rng.choice((b"get %s\r\n" % key, b"get %s\r\n" % key, b"get %s\n" % more,
                       b"gets %s\r\n" % more, b"mg %s %s\r\n" % (key, flags),
                       b"mg %s %s q\r\n" % (key, flags), b"mg %s v q k\r\n" % key))


def frame():
    return binary.request(rng.choice(("get", "getq", "getk", "getkq")), rng.choice(KEYS),
                          opaque=rng.randrange(1 << 32))


def quiet(protocol, keys):
    """A multiget as libraries send it."""
    keys = rng.sample(keys, rng.randrange(1, 25))
    if protocol == "text":
        return b"".join(b"mg %s v f k q\r\n" % key for key in keys) + b"mn\r\n"
    return b"".join(binary.request("getkq", key, opaque=i) for i, key in
                    enumerate(keys)) + binary.request("noop")


def any_pipeline(protocol):
    one = {"text": text, "binary": frame}[protocol]
    if rng.randrange(4) == 0:
        return quiet(protocol, KEYS)
    return b"".join(one() for _ in range(rng.choice((1, 2, 3, 5, 10, 20))))


def grown(function):
    before = m.tcp.stats()
    result = function()
    after = m.tcp.stats()
    return result, {name: int(after[name]) - int(before[name]) for name in COUNTS}


def compare(protocol, pipelines, share):
    """share: of the keys, so many requests the kernel answers at least."""
    pipelines = [p for p in pipelines if len(p) <= SEGMENT]
    slow, fast = dial(1, protocol), dial(0, protocol)
    wants, own = grown(lambda: [whole_reply(slow, protocol, p) for p in pipelines])

    def ask():
        found = []
        for pipeline, want in zip(pipelines, wants):
            fast.send(pipeline)
            got = fast.exactly(len(want))
            if got != want:
                found.append((pipeline, got, want))
        return found
    before = m.counts()
    found, counted = grown(ask)
    after = m.counts()
    tap.is_(found[:2], [], "%s: %d pipelines have equal answers" % (protocol, len(pipelines)))
    for name in ("bytes_read", "bytes_written"):
        counted.pop(name)
        own.pop(name)
    tap.is_(counted, own, "they are counted as the server counts them")
    answered = after["tcp_answered"] - before["tcp_answered"]
    asked = counted["cmd_get"]
    tap.ok(answered >= share * asked, "the kernel answered %d requests, of %d keys" %
           (answered, asked))
    tap.is_(whole_reply(fast, protocol, b""), b"", "nothing comes behind them")
    fast.close()
    slow.close()


@tap.case
def of_text():
    compare("text", (any_pipeline("text") for _ in range(1500)), 0.3)


@tap.case
def of_the_binary_protocol():
    compare("binary", (any_pipeline("binary") for _ in range(1500)), 0.3)


@tap.case
def multigets_of_libraries():
    small = [key for key in KEYS if len(m.tcp.get(key) or b"") <= 10]
    for protocol in ("text", "binary"):
        compare(protocol, (quiet(protocol, small) for _ in range(300)), 0.95)


@tap.case
def writes_among_them():
    """Each is executed once, in order, beside gets that the kernel answers."""
    c = dial(0, "text")
    for i in range(300):
        key = rng.choice(KEYS)
        parts = [(b"get none\r\n", b"END\r\n"), (b"mg none v\r\n", b"EN\r\n")] * rng.randrange(4)
        parts += [(b"set %s 0 0 3\r\n%03d\r\n" % (key, i), b"STORED\r\n"),
                  (b"get %s\r\n" % key, kernel.answer((key, b"%03d" % i)))]
        rounds = [parts, [(b"get %s\r\n" % key, kernel.answer((key, b"%03d" % i)))] * 2]
        for some in rounds:
            c.send(b"".join(ask for ask, _ in some))
            want = b"".join(says for _, says in some)
            got = c.exactly(len(want))
            if got != want:
                tap.is_(got, want, "round %d: each get sees the set before it" % i)
                return
    tap.ok(True, "each get sees the set before it in its segment, and in the one before")
    c.close()


@tap.case
def a_client_of_pipelines_alone():
    """Its connection is followed, although no get comes alone."""
    c = client.tcp(m.pair.address(0), m.server.port)
    c.sock.settimeout(asking.SECONDS)
    before = m.counts()
    for _ in range(10):
        c.send(b"mg none q\r\nmg none v q\r\nmn\r\n")
        tap.is_(c.line(), b"MN\r\n", "the end of its quiet misses comes")
    answered = m.counts()["tcp_answered"] - before["tcp_answered"]
    tap.ok(answered >= 3 * (10 - FIRST_GETS - 1), "the kernel answers %d of 30" % answered)
    c.close()


@tap.case
def the_machines_stop():
    m.stop()
    tap.ok(True, "they are gone")


netns.enter(m.pair.client)
tap.run(200)
