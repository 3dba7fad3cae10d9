# SPDX-License-Identifier: BSD-3-Clause
"""identical: kernel and server answer the same request with the same bytes, on the machines of
kernel.py and of chain.py, whose second interface is not watched.

Each request is sent over the kernel path, and to the same server over the second interface: the
frame header and the text must be equal, byte by byte. Behind the chain it is sent twice over the
first.
"""
import itertools
import random

import tap

rng = random.Random(36)
_ident = itertools.count(1)


def differ(m, plain, request):
    """Both replies, if they differ; None: they are equal."""
    number = next(_ident) & 0xffff
    fast = [m.whole(m.udp, request, number) for _ in range(m.WARM)]
    slow = m.whole(plain, request, number)
    return None if all(answer == slow for answer in fast) else (request[:60], fast, slow)


def compare(m, requests, name, share):
    """All replies are equal, and the kernel answers at least this share of the requests."""
    requests, plain = list(requests), m.unwatched()
    found, grown = m.during(lambda: [d for d in (differ(m, plain, r) for r in requests) if d])
    tap.is_(found[:3], [], "%s: %d requests have equal answers" % (name, len(requests)))
    tap.ok(grown["answered"] >= share * m.SHARE * len(requests), "the kernel answered %d of them" %
           grown["answered"])
    plain.close()


def store(m, key, value, flags=0):
    """Answered, because the chain may keep a key only after the write's reply has been sent."""
    m.tcp.set(key, value, flags)


def values_of_1_to_1400_bytes(m):
    for size in range(0, 1401):
        store(m, b"s%d" % size, rng.randbytes(size))
    compare(m, (b"get s%d\r\n" % size for size in range(0, 1401)), "values of 0 to 1,400 bytes",
            0.96)


def keys_of_1_to_250_bytes(m):
    keys = []
    for length in range(1, 251):
        key = rng.randbytes(4000).translate(None, bytes(range(33)))[:length]
        keys.append(key)
        store(m, key, b"%d" % length, rng.choice((0, 5, 65535, 4294967295)))
    compare(m, (b"get %s\r\n" % key for key in keys), "keys of 1 to 250 bytes", 1)
    compare(m, (b"get %s\n" % key for key in keys), "with a bare newline", 1)
    compare(m, (b"get %s\r\n" % key[::-1] for key in keys), "misses of 1 to 250 bytes", 0.99)


def one_to_100_keys(m):
    for i in range(200):
        store(m, b"%d" % i, b"v" * (i % 9), flags=i % 3)
    compare(m, (b"get %s\r\n" % b" ".join(b"%d" % rng.randrange(250) for _ in range(count))
             for count in range(1, 101)), "1 to 100 keys, hits and misses", 0.3)
    compare(m, (b"get %s\r\n" % b" ".join(b"n%d" % i for i in range(count))
             for count in range(1, 101)), "1 to 100 misses", 0.3)


def keys_and_values_of_any_size(m):
    keys = [rng.randbytes(2000).translate(None, bytes(range(33)))[:rng.randrange(1, 251)]
            for _ in range(300)]
    for key in keys:
        store(m, key, rng.randbytes(rng.choice((0, 1, 8, 30, 100, 300, 700, 1200, 1400))),
              rng.randrange(2 ** 32))
    compare(m, (b"get %s\r\n" % b" ".join(rng.choice(keys) for _ in range(rng.randrange(1, 6)))
             for _ in range(1500)), "one to five keys of any size", 0.3)


def lines_of_every_shape(m):
    store(m, b"k", b"v")
    store(m, b"longer-key", b"w" * 50)
    shapes = [b"get k\r\n", b"get k\n", b"get k \r\n", b"get  k\r\n", b"get k longer-key\r\n",
              b"get k  longer-key  \r\n", b"get \r\n", b"get\r\n", b"get k\r\r\n", b"get k\t\r\n",
              b"get \tk\r\n", b"get k\0\r\n", b"GET k\r\n", b"gets k\r\n", b"bget k\r\n",
              b"get k noreply\r\n", b"get %s\r\n" % (b"x" * 251), b"get k %s\r\n" % (b"x" * 251),
              b"get %s k\r\n" % (b"x" * 250), b"get k" + b" " * 500 + b"\r\n",
              b"get " + b" " * 500 + b"k\r\n", b"get " + b"k " * 300 + b"\r\n", b"\r\n", b"get\n"]
    compare(m, shapes, "lines of every shape", 0.3)


def random_lines(m):
    words = [b"k", b"longer-key", b"none", b" ", b"  ", b"\r", b"\t", b"\0", b"x" * 250, b"x" * 251,
             b"get", b"\xff", b"\x7f", b"\x01", b"k\r", b"END"]
    requests = []
    for _ in range(1500):
        line = b"get " + b" ".join(rng.choice(words) for _ in range(rng.randrange(1, 8)))
        requests.append(line.replace(b"\n", b"") + rng.choice((b"\r\n", b"\n", b" \r\n")))
    compare(m, requests, "random lines", 0.2)


ALL = (values_of_1_to_1400_bytes, keys_of_1_to_250_bytes, one_to_100_keys,
       keys_and_values_of_any_size, lines_of_every_shape, random_lines)
