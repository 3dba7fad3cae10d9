#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The meta commands on the real server: over TCP in pieces of any length, over UDP, and with
hostile lines."""

import server
import tap

memcached = server.Server(threads=1)
c = memcached.stream()
u = memcached.udp()

# A dialogue that uses every command, and its answers.
DIALOGUE = (
    (b"md k q\r\n", b"NF\r\n"),
    (b"mg k v k O1\r\n", b"EN kk O1\r\n"),
    (b"mg k q\r\n", b""),
    (b"ms k 7 F5 T100 k O2\r\nab\r\ncde\r\n", b"HD kk O2\r\n"),
    (b"ms k 1 ME O3\r\nx\r\n", b"NS O3\r\n"),
    (b"ms k 1 MA q\r\n!\r\n", b""),
    (b"mg k v s f t h\r\n", b"VA 8 s8 f5 t100 h0\r\nab\r\ncde!\r\n"),
    (b"get k\n", b"VALUE k 5 8\r\nab\r\ncde!\r\nEND\r\n"),
    (b"md k I T30 k\r\n", b"HD kk\r\n"),
    (b"mg k t v\r\n", b"VA 8 t30 X W\r\nab\r\ncde!\r\n"),
    (b"mg k t\r\n", b"HD t30 Z X\r\n"),
    (b"ms k 0 z\r\n\r\n", b"CLIENT_ERROR invalid flag\r\n"),
    (b"ms k 4 MX\r\nmn\r\n\r\n", b"CLIENT_ERROR invalid mode for ms M token\r\n"),
    (b"ms AAE= 2 b k\r\nhi\r\n", b"HD kAAE= b\r\n"),
    (b"mg AAE= b k v\r\n", b"VA 2 kAAE= b\r\nhi\r\n"),
    (b"md AAE= b q\r\n", b""),
    (b"ma n N0 J40 q\r\n", b"HD\r\n"),
    (b"ma n D2 v\r\n", b"VA 2\r\n42\r\n"),
    (b"ma n MD D50 v k\r\n", b"VA 1 kn\r\n0\r\n"),
    (b"ma k\r\n", b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    (b"md n\r\n", b"HD\r\n"),
    (b"md k\r\n", b"HD\r\n"),
    (b"me k\r\n", b"EN\r\n"),
    (b"mn\r\n", b"MN\r\n"),
)
REQUESTS = b"".join(request for request, _ in DIALOGUE)
ANSWERS = b"".join(answer for _, answer in DIALOGUE)


def answered(send):
    """Whether the dialogue, sent this way, has its answers. If a second passes within it a time
    to live differs: then it is repeated."""
    c.all(b"")
    for _ in range(5):
        send()
        if c.all(b"") == ANSWERS:
            return True
    return False


def in_two(at):
    c.send(REQUESTS[:at])
    # The answer to a request on another connection proves that the first part was read.
    memcached.stats("conns")
    c.send(REQUESTS[at:])


def in_pieces(size):
    for start in range(0, len(REQUESTS), size):
        c.send(REQUESTS[start:start + size])


@tap.case
def a_dialogue_in_pieces_of_any_length():
    tap.ok(answered(lambda: c.send(REQUESTS)), "a dialogue in one piece has its answers")
    tap.is_([i for i in range(200) if not answered(lambda: c.send(REQUESTS))], [],
            "200 times over it has its answers")
    wrong = [at for at in range(1, len(REQUESTS)) if not answered(lambda: in_two(at))]
    tap.is_(wrong, [], "split in two at each of %d places it has its answers" % (len(REQUESTS) - 1))
    for size in (1, 2, 3, 7, 13):
        tap.ok(answered(lambda: in_pieces(size)), "%d bytes at a time it has its answers" % size)


@tap.case
def a_dialogue_over_udp():
    for _ in range(5):  # as above
        wrong = []
        for request, answer in DIALOGUE:
            if not answer:
                u.send(request)
                if not u.silence():
                    wrong.append(request)
            elif u.ask(request) != answer:
                wrong.append(request)
        if not wrong:
            break
    tap.is_(wrong, [], "each command in a datagram of its own has its answer")
    ident = u.send(b"mg k q\r\nms k 2\r\nhi\r\nmg k v\r\nmn\r\n")
    tap.is_([u.message(ident) for _ in range(3)], [b"HD\r\n", b"VA 2\r\nhi\r\n", b"MN\r\n"],
            "several commands in one datagram have messages of their own")
    tap.is_(u.ask(b"ms k 5 k\r\nhi\r\n"), b"CLIENT_ERROR bad data chunk\r\n",
            "a value that the datagram cuts off is a bad data chunk")
    tap.is_(u.ask(b"ms k 5 z\r\nhi\r\n"), b"CLIENT_ERROR invalid flag\r\n",
            "a cut off value behind a malformed line is the line's error")
    tap.is_(u.ask(b"mg k v\r\n"), b"VA 2\r\nhi\r\n", "neither changes the item")
    big = b"v" * 10000
    c.all(b"ms big %d\r\n%s\r\n" % (len(big), big))
    tap.is_(u.ask(b"mg big s v\r\n"), b"VA 10000 s10000\r\n%s\r\n" % big,
            "a value of several datagrams is returned")
    tap.is_(u.datagrams, 8, "it has as many datagrams as it needs")


@tap.case
def the_server_answers_stale_values():
    c.all(b"ms s 2\r\nhi\r\nmd s I\r\n")
    tap.is_(u.get(b"s"), b"hi", "get over UDP returns a stale value")
    tap.is_(c.all(b"mg s v\r\n"), b"VA 2 X W\r\nhi\r\n", "a get does not win")
    c.all(b"ms cw== 2 b\r\nho\r\n")
    tap.is_(u.get(b"s"), b"ho", "a binary key is printed in base64")


@tap.case
def values_of_any_size():
    for size in (1000, 16384, 100000, 1000000):
        value = (b"0123456789\r\n" * (size // 12 + 1))[:size]
        tap.is_(c.all(b"ms v %d c\r\n%s\r\n" % (size, value))[:4], b"HD c", "%d bytes" % size)
        tap.is_(c.all(b"mg v s v O1\r\n" * 3), b"VA %d s%d O1\r\n%s\r\n" % (size, size, value) * 3,
                "values are returned, three times at once")
    refused = b"SERVER_ERROR object too large for cache\r\n"
    for size in (1024 * 1024, 20000000):
        body = (b"md safe\r\n" * (size // 9 + 1))[:size]
        c.all(b"ms safe 1\r\nx\r\nms v 1\r\nx\r\n")
        tap.is_(c.all(b"ms v %d q k O1\r\n%s\r\n" % (size, body)), refused,
                "%d bytes are refused, and skipped" % size)
        tap.is_(c.all(b"mg v\r\nmg safe\r\n"), b"EN\r\nHD\r\n", "the older value is removed")
        tap.is_(c.all(b"ms v %d z\r\n%s\r\n" % (size, body)), b"CLIENT_ERROR invalid flag\r\n",
                "the value behind a bad line is skipped")


@tap.case
def hostile_lines():
    bad = b"CLIENT_ERROR bad command line format\r\n"
    for line, want in (
            (b"mg", b"ERROR\r\n"), (b"mg ", b"ERROR\r\n"), (b"me", bad), (b"ms", b"ERROR\r\n"),
            (b"ms k", bad), (b"md", b"ERROR\r\n"), (b"ma  ", b"ERROR\r\n"),
            (b"mg " + b"k" * 251, bad), (b"me " + b"k" * 900, bad),
            (b"mg k" + b" v" * 300, b"CLIENT_ERROR options flags are too long\r\n"),
            (b"mg k O" + b"x" * 900, b"CLIENT_ERROR opaque token too long\r\n"),
            (b"mg nope T" + b"0" * 900 + b"9 t", b"EN\r\n"),
            (b"mg " + b"/" * 248 + b" b k", b"EN k" + b"/" * 248 + b" b\r\n"),
            (b"mg k \0", b"CLIENT_ERROR invalid flag\r\n"),
            (b"ms k 4294967299", bad), (b"ms k 18446744073709551615", bad)):
        tap.is_(c.all(line + b"\r\n"), want, "%r" % line[:40])
    every = b"mg " + b"x" * 250 + b" N0 s v f t c k l h u q O" + b"y" * 31 + b" T9 R9 D1 J1\r\n"
    tap.like(c.all(every), rb"\AVA 0 s0 f0 t-1 c\d+ kx{250} l0 h0 Oy{31} W\r\n\r\n\Z".decode(),
             "all flags at once are accepted")
    other = memcached.stream()
    tap.is_(other.to_end(b"mg " + b"k" * 100000), b"",
            "a line without an end closes the connection")


@tap.case
def connections_that_end_within_a_value():
    before = memcached.stats("slabs")
    for i in range(200):
        other = memcached.stream()
        other.send(b"ms gone%d 100 k c O1\r\nabc" % i)
        other.close()
    tap.is_(c.all(b"mg gone0\r\nmg gone199\r\n"), b"EN\r\nEN\r\n", "nothing is stored")
    tap.ok(server.wait_for(lambda: sum(int(n) for k, n in memcached.stats("slabs").items()
                                       if k.endswith("used_chunks")) <=
                           sum(int(n) for k, n in before.items() if k.endswith("used_chunks"))),
           "no memory is kept")


@tap.case
def without_cas():
    with server.Server("-C") as s, s.stream() as d:
        tap.is_(d.all(b"ms k 2 c\r\nhi\r\nmg k c\r\n"), b"HD c0\r\nHD c0\r\n",
                "under -C every id is 0")


@tap.case
def cmd_meta_counts_me():
    before = memcached.stats()
    c.all(b"mn\r\nmg k\r\nme k\r\nme nope\r\n")
    after = memcached.stats()
    tap.is_(int(after["cmd_meta"]) - int(before["cmd_meta"]), 2, "cmd_meta counts me, as 1.6 does")


@tap.case
def it_ends_cleanly():
    u.close()
    tap.is_(memcached.stop(), 0, "the server ends with status 0")


tap.run()
