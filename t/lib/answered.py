# SPDX-License-Identifier: BSD-3-Clause
"""answered: requests that the published BMC left to the server. Here the kernel answers each of
them, on the machines of kernel.py and of chain.py.
"""
import struct

import client
import netns
import server
import tap
from kernel import answer

PAYLOAD = 1400 - 8


def burst(m, request, idents):
    """Sends the request with each id, with many in flight at a time. Returns {id: answer}."""
    answers = {}
    udp = client.Udp(m.pair.address(), m.server.port, 10)
    for start in range(0, len(idents), 64):
        part = idents[start:start + 64]
        for ident in part:
            udp.send(request, ident=ident)
        try:
            for _ in part:
                datagram = udp.recv_raw()
                answers[struct.unpack("!H", datagram[:2])[0]] = datagram[8:]
        except TimeoutError:
            continue
    udp.close()
    return answers


def values_over_113_bytes(m):
    wrong = []
    for size in range(100, m.VALUE_MAX + 1):
        key, value = b"v%d" % (size % 16), (b"%05d" % size * 300)[:size]
        m.tcp.set(key, value)
        if len(wrong) < 5 and not m.holds(key, value):
            wrong.append(size)
    tap.is_(wrong, [], "the kernel answers gets of values of 100 to %d bytes" % m.VALUE_MAX)


def multigets_that_grow(m):
    """All keys are hits, and the reply is longer than the request by up to 1,300 bytes."""
    wrong = []
    for growth in range(100, 1300, 11):
        for nkeys in (2, 3, 5):
            keys = [b"g%d" % i for i in range(nkeys)]
            size = growth // nkeys
            for key in keys:
                m.tcp.set(key, key * (size // 2))
            want = answer(*((key, key * (size // 2)) for key in keys))
            if len(want) > PAYLOAD:
                continue
            got = m.by_kernel(b"get %s\r\n" % b" ".join(keys))
            if got != (want, True):
                wrong.append((growth, nkeys, got[1]))
    tap.is_(wrong, [], "multigets whose reply grows by 128 bytes and more")


def multigets_with_a_short_last_key(m):
    for length in range(1, 15):
        first, last = b"f" * 20, (b"last-key-here-")[:length]
        m.tcp.set(first, b"one")
        m.tcp.set(last, b"two")
        m.same(b"get %s %s\r\n" % (first, last), answer((first, b"one"), (last, b"two")),
               "a last key of %d bytes" % length)
        m.same(b"get %s %s\r\n" % (last, first), answer((last, b"two"), (first, b"one")),
               "a first key of %d bytes" % length)


def other_ends_of_the_line(m):
    m.tcp.set(b"k", b"v")
    m.tcp.set(b"key-of-some-length", b"w")
    for request, want in (
            (b"get k\n", answer((b"k", b"v"))), (b"get k \r\n", answer((b"k", b"v"))),
            (b"get k \n", answer((b"k", b"v"))), (b"get  k\r\n", answer((b"k", b"v"))),
            (b"get k   \r\n", answer((b"k", b"v"))), (b"get none\n", b"END\r\n"),
            (b"get key-of-some-length\n", answer((b"key-of-some-length", b"w"))),
            (b"get k key-of-some-length \r\n", answer((b"k", b"v"), (b"key-of-some-length", b"w"))),
            (b"get k   key-of-some-length\n", answer((b"k", b"v"), (b"key-of-some-length", b"w")))):
        m.same(request, want, "%r" % request, m.MISSES or want != b"END\r\n")


def many_keys(m):
    for i in range(600):
        m.tcp.set(b"%d" % i, b"%d" % (i % 10))
    for count in (30, 33, 34, 35, 50, 64, 65, 80, 100):
        # The chain keeps one of two keys that share a bucket: one in 65 times there are such two
        # among 64 keys. Then others are asked for.
        for first in (0, 200, 400)[:1 if m.SHARE else 3]:
            keys = [b"%d" % i for i in range(first, first + count)]
            want = answer(*((key, b"%d" % (int(key) % 10)) for key in keys))
            got, by_kernel = m.by_kernel(b"get %s\r\n" % b" ".join(keys))
            if by_kernel or got != want or len(want) > PAYLOAD or count > 64:
                break
        tap.is_(got, want, "%d keys, of %d bytes" % (count, len(want)))
        if len(want) <= PAYLOAD and count <= 64:
            tap.ok(by_kernel, "the kernel answers them")
    misses = [b"n%d" % i for i in range(100)]
    tap.is_(m.udp.ask(b"get %s\r\n" % b" ".join(misses)), b"END\r\n", "100 keys that do not exist")


def the_second_carry_of_the_ip_checksum(m):
    """One reply in 65,536: addresses and lengths are chosen so that it is needed."""
    overhead = 28 + 8 + len(answer((b"carry", b"x" * 100))) - 100
    totals = range(200, overhead + m.VALUE_MAX - 1)
    server_words = sum(struct.unpack("!HH", bytes((10, 77, 0, 1))))
    chosen = (None, [])
    for third in range(1, 255):
        for fourth in range(1, 255):
            words = server_words + sum(struct.unpack("!HH", bytes((172, 31, third, fourth))))
            needed = carrying(0x4500 + 0x4000 + 0x4011 + words, totals)
            if len(needed) > len(chosen[1]):
                chosen = ("172.31.%d.%d" % (third, fourth), needed)
    address, needed = chosen
    tap.ok(needed, "from %s the lengths %s carry twice" % (address, needed))
    netns.ip("address add %s dev cl0" % (address + "/16"), m.pair.client)
    netns.ip("route add 172.31.0.0/16 dev sv0", m.pair.server)
    before, m.udp = m.udp, client.Udp(m.pair.address(), m.server.port, source=address)
    server.wait_for(lambda: m.by_kernel(b"get none\r\n")[1] or not m.MISSES)
    wrong = []
    for total in range(min(needed) - 20, min(max(needed) + 20, totals.stop)):
        value = b"x" * (total - overhead)
        m.tcp.set(b"carry", value)
        if len(wrong) < 5 and not m.holds(b"carry", value):
            wrong.append(total)
    m.udp.close()
    m.udp = before
    tap.is_(wrong, [], "the kernel answers with replies of these and neighbouring lengths")


def carrying(rest, totals):
    """The totals whose header sum still has a carry after it was folded once."""
    return [total for high in range(1, 5) for low in range(0x10000 - high, 0x10000)
            if (total := (high << 16 | low) - rest) in totals]


def every_request_id_and_port(m, step=1):
    """step: the distance between two ids."""
    m.tcp.set(b"id", b"v")
    m.by_kernel(b"get id\r\n")
    idents = range(0, 65536, step)
    answers, grown = m.during(lambda: burst(m, b"get id\r\n", idents))
    good = sum(text == answer((b"id", b"v")) for text in answers.values())
    tap.is_((len(answers), good), (len(idents), len(idents)), "%d request ids are answered" %
            len(idents))
    tap.is_(grown["answered"], len(idents), "the kernel answers all of them")
    missing = []
    for _ in range(500 // step + 20):
        udp = client.Udp(m.pair.address(), m.server.port)
        if udp.ask(b"get id\r\n") != answer((b"id", b"v")):
            missing.append(udp.sock.getsockname())
        udp.close()
    tap.is_(missing, [], "source ports of every kind are answered")


ALL = (values_over_113_bytes, multigets_that_grow, multigets_with_a_short_last_key,
       other_ends_of_the_line, many_keys, the_second_carry_of_the_ip_checksum)
