#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the published BMC never answered at all: each has its answer here, and the kernel's."""
import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "lib"))
import client
import kernel
import netns
import tap
from kernel import answer

PAYLOAD = 1400 - 8

m = kernel.Machines(threads=1)
c = m.tcp


def burst(requests, seconds=10):
    """Answers by request number; many requests are in flight at a time."""
    answers = {}
    udp = client.Udp(m.pair.address(), m.server.port, seconds)
    for start in range(0, len(requests), 64):
        part = requests[start:start + 64]
        for i, request in enumerate(part):
            udp.send(request, ident=start + i & 0xffff)
        try:
            for _ in part:
                datagram = udp.recv_raw()
                answers[start + (struct.unpack("!H", datagram[:2])[0] - start & 0xffff)] = \
                    datagram[8:]
        except TimeoutError:
            continue
    udp.close()
    return answers


@tap.case
def values_over_113_bytes():
    wrong = []
    for size in range(100, 1360):
        value = (b"%05d" % size * 300)[:size]
        c.set(b"v%d" % size, value)
    before = m.counts()
    for size in range(100, 1360):
        key, value = b"v%d" % size, (b"%05d" % size * 300)[:size]
        if m.udp.ask(b"get %s\r\n" % key) != answer((key, value)):
            wrong.append(size)
    grown = m.counts()["answered"] - before["answered"]
    tap.is_((wrong, grown), ([], 1260), "values of 100 to 1,359 bytes, all by the kernel")


@tap.case
def multigets_that_grow():
    """All hits, and a reply that is longer than the request by up to 1,300 bytes."""
    wrong = []
    for growth in range(100, 1300, 11):
        for nkeys in (2, 3, 5):
            keys = [b"g%d" % i for i in range(nkeys)]
            size = growth // nkeys
            for key in keys:
                c.set(key, key * (size // 2))
            want = answer(*((key, key * (size // 2)) for key in keys))
            if len(want) > PAYLOAD:
                continue
            got = m.by_kernel(b"get %s\r\n" % b" ".join(keys))
            if got != (want, True):
                wrong.append((growth, nkeys, got[1]))
    tap.is_(wrong, [], "multigets whose reply grows by 128 bytes and more")


@tap.case
def multigets_with_a_short_last_key():
    for length in range(1, 15):
        first, last = b"f" * 20, (b"last-key-here-")[:length]
        c.set(first, b"one")
        c.set(last, b"two")
        m.same(b"get %s %s\r\n" % (first, last), answer((first, b"one"), (last, b"two")),
               "a last key of %d bytes" % length)
        m.same(b"get %s %s\r\n" % (last, first), answer((last, b"two"), (first, b"one")),
               "a first key of %d bytes" % length)


@tap.case
def other_ends_of_the_line():
    c.set(b"k", b"v")
    c.set(b"key-of-some-length", b"w")
    for request, want in (
            (b"get k\n", answer((b"k", b"v"))), (b"get k \r\n", answer((b"k", b"v"))),
            (b"get k \n", answer((b"k", b"v"))), (b"get  k\r\n", answer((b"k", b"v"))),
            (b"get k   \r\n", answer((b"k", b"v"))), (b"get none\n", b"END\r\n"),
            (b"get key-of-some-length\n", answer((b"key-of-some-length", b"w"))),
            (b"get k key-of-some-length \r\n", answer((b"k", b"v"), (b"key-of-some-length", b"w"))),
            (b"get k   key-of-some-length\n", answer((b"k", b"v"), (b"key-of-some-length", b"w")))):
        m.same(request, want, "%r" % request)


@tap.case
def many_keys():
    for i in range(120):
        c.set(b"%d" % i, b"%d" % (i % 10))
    for count in (30, 33, 34, 35, 50, 64, 65, 80, 100):
        keys = [b"%d" % i for i in range(count)]
        want = answer(*((key, b"%d" % (int(key) % 10)) for key in keys))
        got, by_kernel = m.by_kernel(b"get %s\r\n" % b" ".join(keys))
        tap.is_(got, want, "%d keys, of %d bytes" % (count, len(want)))
        if len(want) <= PAYLOAD and count <= 64:
            tap.ok(by_kernel, "by the kernel")
    misses = [b"n%d" % i for i in range(100)]
    tap.is_(m.udp.ask(b"get %s\r\n" % b" ".join(misses)), b"END\r\n", "100 keys that are not there")


@tap.case
def the_second_carry_of_the_ip_checksum():
    """One reply in 65,536: addresses and lengths are chosen so that it is needed."""
    server_words = sum(struct.unpack("!HH", bytes((10, 77, 0, 1))))
    chosen = None
    for third in range(1, 255):
        for fourth in range(1, 255):
            words = server_words + sum(struct.unpack("!HH", bytes((172, 31, third, fourth))))
            needed = [total for total in range(100, 1400)
                      if twice(0x4500 + 0x4000 + 0x4011 + total + words)]
            if len(needed) > (len(chosen[1]) if chosen else 0):
                chosen = ("172.31.%d.%d" % (third, fourth), needed)
    address, needed = chosen
    tap.ok(needed, "from %s the lengths %s carry twice" % (address, needed))
    netns.sh("ip", "address", "add", address + "/16", "dev", "cl0", namespace=m.pair.client)
    netns.sh("ip", "route", "add", "172.31.0.0/16", "dev", "sv0", namespace=m.pair.server)
    udp = client.Udp(m.pair.address(), m.server.port, source=address)
    wrong, answered = [], 0
    overhead = 28 + 8 + len(answer((b"carry", b"x" * 100))) - 100
    for total in range(min(needed) - 20, max(needed) + 20):
        value = b"x" * (total - overhead)
        c.set(b"carry", value)
        try:
            got, grown = m.during(lambda: udp.ask(b"get carry\r\n"))
            answered += grown["answered"]
            if got != answer((b"carry", value)):
                wrong.append(total)
        except TimeoutError:
            wrong.append(total)
    tap.is_(wrong, [], "replies of these and neighbouring lengths arrive")
    tap.ok(answered >= len(range(min(needed) - 20, max(needed) + 20)) - 5, "by the kernel")


def twice(total):
    """Whether folding the sum once leaves a carry."""
    return (total & 0xffff) + (total >> 16) > 0xffff


@tap.case
def every_request_id_and_port():
    c.set(b"id", b"v")
    requests = [b"get id\r\n"] * 65536
    before = m.counts()["answered"]
    answers = burst(requests)
    good = sum(text == answer((b"id", b"v")) for text in answers.values())
    tap.is_((len(answers), good), (65536, 65536), "65,536 request ids are answered")
    tap.is_(m.counts()["answered"] - before, 65536, "all by the kernel")
    missing = []
    for _ in range(500):
        udp = client.Udp(m.pair.address(), m.server.port)
        if udp.ask(b"get id\r\n") != answer((b"id", b"v")):
            missing.append(udp.sock.getsockname())
        udp.close()
    tap.is_(missing, [], "500 source ports are answered")


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run()
