#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kernel and server answer the same request with the same bytes.

Each request is sent over the kernel path, and to the same socket of the same
server over a second interface without it: the frame header and the text must
be equal, byte by byte.
"""
import os
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "lib"))
import client
import kernel
import tap

rng = random.Random(36)
m = kernel.Machines("-m", "256", threads=2, links=2, on=1)
c = m.tcp
plain = client.Udp(m.pair.address(1), m.server.port)
ident = iter(range(1, 10 ** 9))


def datagrams(udp, request, number):
    """The datagrams of the reply to one request, in order."""
    udp.send(request, ident=number)
    found = {}
    while True:
        datagram = udp.recv_raw()
        found[int.from_bytes(datagram[2:4], "big")] = datagram
        if len(found) == int.from_bytes(datagram[4:6], "big"):
            return [found[i] for i in sorted(found)]


def differ(request):
    """What each said, if it is not the same; None if it is."""
    number = next(ident) & 0xffff
    fast, slow = datagrams(m.udp, request, number), datagrams(plain, request, number)
    return None if fast == slow else (request[:60], fast, slow)


def compare(requests, name, share):
    """All are equal, and at least this share of them is answered by the kernel."""
    requests = list(requests)
    found, grown = m.during(lambda: [d for d in map(differ, requests) if d])
    tap.is_(found[:3], [], "%s: %d requests have equal answers" % (name, len(requests)))
    tap.ok(grown["answered"] >= share * len(requests), "of which the kernel answered %d" %
           grown["answered"])


def store(key, value, flags=0):
    c.send(b"set %s %d 0 %d noreply\r\n%s\r\n" % (key, flags, len(value), value))


def settle():
    """All that was stored without a reply is there."""
    c.all(b"")


@tap.case
def values_of_1_to_1400_bytes():
    for size in range(0, 1401):
        store(b"s%d" % size, rng.randbytes(size))
    settle()
    compare((b"get s%d\r\n" % size for size in range(0, 1401)), "values of 0 to 1,400 bytes", 0.96)


@tap.case
def keys_of_1_to_250_bytes():
    keys = []
    for length in range(1, 251):
        key = rng.randbytes(4000).translate(None, bytes(range(33)))[:length]
        keys.append(key)
        store(key, b"%d" % length, rng.choice((0, 5, 65535, 4294967295)))
    settle()
    compare((b"get %s\r\n" % key for key in keys), "keys of 1 to 250 bytes", 1)
    compare((b"get %s\n" % key for key in keys), "with a bare newline", 1)
    compare((b"get %s\r\n" % key[::-1] for key in keys), "misses of 1 to 250 bytes", 0.99)


@tap.case
def one_to_100_keys():
    for i in range(200):
        store(b"%d" % i, b"v" * (i % 9), flags=i % 3)
    settle()
    compare((b"get %s\r\n" % b" ".join(b"%d" % rng.randrange(250) for _ in range(count))
             for count in range(1, 101)), "1 to 100 keys, hits and misses", 0.3)
    compare((b"get %s\r\n" % b" ".join(b"n%d" % i for i in range(count))
             for count in range(1, 101)), "1 to 100 misses", 0.3)


@tap.case
def keys_and_values_of_any_size():
    keys = [rng.randbytes(2000).translate(None, bytes(range(33)))[:rng.randrange(1, 251)]
            for _ in range(300)]
    for key in keys:
        store(key, rng.randbytes(rng.choice((0, 1, 8, 30, 100, 300, 700, 1200, 1400))),
              rng.randrange(2 ** 32))
    settle()
    compare((b"get %s\r\n" % b" ".join(rng.choice(keys) for _ in range(rng.randrange(1, 6)))
             for _ in range(1500)), "one to five keys of any size", 0.3)


@tap.case
def lines_of_every_shape():
    store(b"k", b"v")
    store(b"longer-key", b"w" * 50)
    settle()
    shapes = [b"get k\r\n", b"get k\n", b"get k \r\n", b"get  k\r\n", b"get k longer-key\r\n",
              b"get k  longer-key  \r\n", b"get \r\n", b"get\r\n", b"get k\r\r\n", b"get k\t\r\n",
              b"get \tk\r\n", b"get k\0\r\n", b"GET k\r\n", b"gets k\r\n", b"bget k\r\n",
              b"get k noreply\r\n", b"get %s\r\n" % (b"x" * 251), b"get k %s\r\n" % (b"x" * 251),
              b"get %s k\r\n" % (b"x" * 250), b"get k" + b" " * 500 + b"\r\n",
              b"get " + b" " * 500 + b"k\r\n", b"get " + b"k " * 300 + b"\r\n", b"\r\n", b"get\n"]
    compare(shapes, "lines of every shape", 0.3)


@tap.case
def random_lines():
    words = [b"k", b"longer-key", b"none", b" ", b"  ", b"\r", b"\t", b"\0", b"x" * 250, b"x" * 251,
             b"get", b"\xff", b"\x7f", b"\x01", b"k\r", b"END"]
    requests = []
    for _ in range(1500):
        line = b"get " + b" ".join(rng.choice(words) for _ in range(rng.randrange(1, 8)))
        requests.append(line.replace(b"\n", b"") + rng.choice((b"\r\n", b"\n", b" \r\n")))
    compare(requests, "random lines", 0.2)


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run()
