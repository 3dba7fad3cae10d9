#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Values of more than one chunk: -I, the limit, and every command on them."""
import contextlib
import random
import ssl

import server
import tap

TOO_LARGE = b"SERVER_ERROR object too large for cache\r\n"
TURN = 128 << 10 # bytes that a connection gives before others are served
rng = random.Random(18)


@tap.case
def values_around_half_a_page_and_the_limit():
    with server.Server("-m", "128") as memcached, memcached.stream() as c:
        wrong = []
        for size in ([1 << n for n in range(10, 20)] +
                     [524288 + d for d in range(-200, 201, 20)] + [600000, 786432, 1000000] +
                     [1048576 - 512, 1048576 - 1024]):
            value = rng.randbytes(size)
            if c.set(b"v", value, flags=size) != b"STORED\r\n" or c.get(b"v") != value:
                wrong.append(size)
        tap.is_(wrong, [], "values up to just below 1 MB are returned")
        for size in (1048576, 1048577, 2000000):
            c.set(b"v", b"old")
            tap.is_(c.set(b"v", b"x" * size), TOO_LARGE, "%d bytes are too large" % size)
            tap.is_(c.get(b"v"), None, "the key is missing afterwards")
        tap.ok(int(memcached.stats()["curr_items"]) <= 1, "no chunk of them is left")


@tap.case
def the_limit_can_be_raised():
    with server.Server("-m", "256", "-I", "16m") as memcached, memcached.stream() as c:
        for size in (1048576, 1048577, 3000000, 8388608, 16000000):
            value = rng.randbytes(size)
            tap.is_(c.set(b"v", value), b"STORED\r\n", "-I 16m: %d bytes are stored" % size)
            tap.ok(c.get(b"v") == value, "they are returned")
        tap.is_(c.set(b"v", b"x" * 16777216), TOO_LARGE, "16 MB are too large")
        tap.is_(memcached.stats("settings")["item_size_max"], "16777216",
                "item_size_max shows the limit")


@tap.case
def chunks_may_be_small():
    for largest, limit in ((2048, 1 << 20), (2048, 32 << 20), (16384, 1 << 20), (16384, 100 << 20)):
        with server.Server("-m", "300", "-I", limit, "-o",
                           "slab_chunk_max=%d" % largest) as s, s.stream() as c:
            sizes = (largest, 300000, limit // 2, limit - 1000)
            values = [rng.randbytes(size) for size in sizes]
            got = [(c.set(b"v", v), c.get(b"v") == v) for v in values]
            tap.is_(got, [(b"STORED\r\n", True)] * 4,
                    "slab_chunk_max=%d: values up to -I %d are returned" % (largest, limit))


@tap.case
def the_limit_can_be_lowered():
    with server.Server("-I", "1k", "-o", "slab_chunk_max=1") as s, s.stream() as c:
        tap.is_(c.set(b"v", b"x" * 500), b"STORED\r\n", "-I 1k: 500 bytes are stored")
        tap.is_(c.set(b"v", b"x" * 1024), TOO_LARGE, "1024 bytes are too large")
        tap.is_(c.get(b"v"), None, "the key is missing")


@tap.case
def every_command_on_a_chunked_value():
    with server.Server("-m", "256", "-I", "4m", "-o", "slab_chunk_max=16384") as memcached, \
            memcached.stream() as c:
        for size in (20000, 100000, 1500000):
            first, second = rng.randbytes(size), rng.randbytes(size // 2)
            c.set(b"v", first, flags=9)
            tap.is_(c.set(b"v", second, verb=b"append"), b"STORED\r\n", "append to %d bytes" % size)
            tap.is_(c.set(b"v", b"begin", verb=b"prepend"), b"STORED\r\n", "prepend to it")
            flags, cas, value = c.gets(b"v")
            tap.ok((flags, value) == (9, b"begin" + first + second), "the value is complete")
            tap.is_(c.set(b"v", second, verb=b"cas", tail=b" %d" % (cas + 1)), b"EXISTS\r\n",
                    "cas with another id")
            tap.is_(c.set(b"v", second, verb=b"cas", tail=b" %d" % cas), b"STORED\r\n", "cas")
            tap.ok(c.get(b"v") == second, "the value is the new one")
            tap.is_(c.set(b"v", first, verb=b"add"), b"NOT_STORED\r\n", "add")
            tap.is_(c.set(b"v", first, verb=b"replace"), b"STORED\r\n", "replace")
            tap.is_(c.ask(b"incr v 1\r\n"),
                    b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n", "incr")
            tap.is_(c.ask(b"touch v 1000\r\n"), b"TOUCHED\r\n", "touch")
            tap.ok(c.get(b"v") == first, "the value is complete after it")
            want = b"VALUE v 0 %d\r\n%s\r\n" % (len(first), first)
            tap.ok(c.all(b"get v v\r\n") == want * 2 + b"END\r\n", "twice in one get")
            tap.is_(c.ask(b"delete v\r\n"), b"DELETED\r\n", "delete")
            tap.is_(c.get(b"v"), None, "it is gone")
        tap.is_(memcached.stats()["bytes"], "0", "all its memory is free")


@tap.case
def incomplete_values():
    with server.Server("-m", "256", "-I", "4m") as memcached, memcached.stream() as c:
        c.set(b"v", b"old")
        before = int(c.stats()["curr_connections"])
        for size in (100, 600000, 3000000):
            for sent in (0, 1, size // 2, size - 1, size, size + 1):
                other = memcached.stream()
                other.send(b"set v 0 0 %d\r\n%s" % (size, b"x" * min(sent, size)))
                if sent > size:
                    other.send(b"\r")
                other.close()
        tap.ok(server.wait_for(lambda: int(c.stats()["curr_connections"]) <= before),
               "connections that ended within a value are gone")
        tap.ok(c.get(b"v") in (b"old", None), "no part of a value is returned")
        tap.is_(c.set(b"v", b"x" * 3000000 + b"y"), b"STORED\r\n", "a complete value is stored")
        other = memcached.stream()
        other.send(b"set w 0 0 600000\r\n%sXX" % (b"x" * 600000))
        tap.is_(other.line(), b"CLIENT_ERROR bad data chunk\r\n",
                "a value with a wrong end is a bad data chunk")
        tap.is_(c.get(b"w"), None, "it is not stored")


@tap.case
def overwriting_many_times_does_not_leak():
    with server.Server("-m", "64") as memcached, memcached.stream() as c:
        for i in range(300):
            c.set(b"v", b"%d" % i * 200000)
        tap.is_(c.get(b"v"), b"299" * 200000, "of 300 values of 600 KB in 64 MB the last is found")
        stats = memcached.stats()
        tap.is_(stats["curr_items"], "1", "one item")
        tap.is_(stats["malloc_fails"], "0", "memory was available for each")
        c.send(b"set v 0 0 700000\r\n" + b"x" * 700000 + b"\r\n")
        readers = [memcached.stream() for _ in range(10)]
        c.line()
        for reader in readers:
            reader.send(b"get v\r\n")
        c.set(b"v", b"y")
        whole = b"VALUE v 0 700000\r\n" + b"x" * 700000 + b"\r\nEND\r\n"
        small = b"VALUE v 0 1\r\ny\r\nEND\r\n"
        good = all(reader.exactly(len(small)) in (small, whole[:len(small)]) for reader in readers)
        tap.ok(good, "a value that is overwritten while it is sent stays intact")


@tap.case
def several_clients_with_large_values():
    with server.Server("-m", "512", threads=4) as memcached:
        clients = [memcached.stream() for _ in range(8)]
        values = [rng.randbytes(900000) for _ in clients]
        half = 450000
        for part in (slice(0, half), slice(half, None)):
            for i, other in enumerate(clients):
                if part.start == 0:
                    other.send(b"set large%d 0 0 900000\r\n" % i)
                other.send(values[i][part])
        for other in clients:
            other.send(b"\r\n")
        tap.is_([other.line() for other in clients], [b"STORED\r\n"] * 8,
                "8 values of 900 KB, interleaved, are stored")
        tap.ok(all(clients[-1 - i].get(b"large%d" % i) == values[i] for i in range(8)),
               "other clients get them")


def unread_beside():
    """A worker that has megabytes to read on one connection: how much it has not read when it
    answers another. At most what Linux would queue, which is now and then little."""
    blob = b"".join(b"set l 0 0 900000 noreply\r\n%s\r\n" % (b"x" * 900000) for _ in range(64))
    with server.Server("-m", "64", threads=1) as memcached:
        control, other = memcached.stream(), memcached.stream()
        other.send(blob)  # and the kernel learns to queue megabytes for the server
        memcached.pause()
        other.sock.setblocking(False)
        sent = len(blob)
        with contextlib.suppress(BlockingIOError, ssl.SSLWantWriteError):
            while True:
                sent += other.sock.send(blob)
        control.send(b"stats\r\n")
        memcached.resume()
        answer = dict(line.split(b" ")[1:] for line in control.until(b"END\r\n").splitlines()[:-1])
        return sent - int(answer[b"bytes_read"])


@tap.case
def other_clients_are_answered_between_parts_of_a_value():
    unread = []
    while len(unread) < 5 and max(unread, default=0) <= 4 * TURN:
        unread.append(unread_beside())
    tap.ok(max(unread) > 4 * TURN,
           "another client is answered before all is read (%d bytes are not)" % max(unread))


tap.run()
