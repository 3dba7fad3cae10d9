#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A full cache: which items are evicted, which are kept, and -M."""
import re

import server
import tap

NO_MEMORY = b"SERVER_ERROR out of memory storing object\r\n"


def fill(c, count, size, prefix=b"fill", every=None):
    """Sets `count` items; `every` is called before each 100."""
    value = b"x" * size
    for start in range(0, count, 100):
        if every:
            every()
        keys = range(start, min(start + 100, count))
        c.send(b"".join(b"set %s%d 0 0 %d\r\n%s\r\n" % (prefix, i, size, value) for i in keys))
        for _ in keys:
            line = c.line()
            if line != b"STORED\r\n":
                return line
    return b"STORED\r\n"


@tap.case
def without_the_maintainer_sets_free_dead_items():
    with server.Server("-o", "no_modern") as memcached, memcached.stream() as c:

        def reclaimed():
            return int(memcached.stats()["reclaimed"])

        c.set(b"foo", b"fooval")
        c.ask(b"flush_all\r\n")
        c.set(b"foo", b"fooval")
        tap.is_(reclaimed(), 1, "a set after a flush frees the flushed item")
        for i in range(20):
            c.set(b"short%d" % i, b"x", exptime=100)
        c.ask(b"flush_all\r\n")
        before = reclaimed()
        c.set(b"large", bytes(2000))
        tap.is_(reclaimed(), before, "a set of another size frees nothing")
        c.set(b"bar", b"x")
        tap.is_(reclaimed(), before + 5,
                "a set of the same size frees the dead among the five oldest items")
        c.set(b"baz", b"x")
        tap.is_((c.get(b"bar"), c.get(b"baz")), (b"x", b"x"), "live items are kept")


@tap.case
def the_oldest_items_are_evicted():
    with server.Server("-m", "6", "-o", "no_lru_maintainer,no_lru_crawler") as memcached, \
            memcached.stream() as c:
        tap.is_(fill(c, 20000, 1000), b"STORED\r\n", "20 MB of items go into 6 MB")
        stats = memcached.stats()
        tap.ok(int(stats["evictions"]) > 10000, "evictions are counted")
        tap.is_(int(stats["evictions"]) + int(stats["curr_items"]), 20000,
                "every item is stored or was evicted")
        tap.is_(c.get(b"fill0"), None, "the oldest is evicted")
        alive = [i for i in range(20000) if c.get(b"fill%d" % i) is not None]
        tap.is_(alive, list(range(20000 - len(alive), 20000)), "exactly the newest items are kept")
        tap.ok(int(stats["bytes"]) < 6 << 20, "they fit into the limit")


@tap.case
def the_limit_with_segments():
    with server.Server("-m", "8", threads=4) as memcached, memcached.stream() as c:
        tap.is_(fill(c, 40000, 1000), b"STORED\r\n", "40 MB of items go into 8 MB")
        stats = memcached.stats()
        tap.ok(int(stats["evictions"]) > 20000, "evictions are counted")
        tap.ok(2 << 20 < int(stats["bytes"]) < 8 << 20, "the limit is used, and not exceeded")
        tap.is_(c.get(b"fill39999"), b"x" * 1000, "the newest item is found")
        rows = memcached.stats("items")
        number = next(int(v) for k, v in rows.items() if re.fullmatch(r"items:\d+:number", k))
        parts = sum(int(v) for k, v in rows.items()
                    if re.fullmatch(r"items:\d+:number_(hot|warm|cold)", k))
        tap.is_(number, parts, "hot, warm and cold are the whole class")
        evicted = sum(int(v) for k, v in rows.items() if re.fullmatch(r"items:\d+:evicted", k))
        tap.is_(evicted, int(stats["evictions"]), "the evictions of the classes add up")


@tap.case
def items_that_are_read_are_kept():
    with server.Server("-m", "8") as memcached:
        c, reader = memcached.stream(), memcached.stream()
        reader.set(b"hot", b"y" * 1000)
        reader.get(b"hot")
        fill(c, 40000, 1000, every=lambda: reader.get(b"hot"))
        tap.is_(reader.get(b"hot"), b"y" * 1000, "an item that is read is not evicted")


@tap.case
def sizes_share_the_memory():
    with server.Server("-m", "16") as memcached, memcached.stream() as c:
        for size in (50, 200, 1000, 5000, 20000):
            tap.is_(fill(c, 500, size, b"s%d-" % size), b"STORED\r\n",
                    "500 items of %d bytes are stored" % size)
        tap.is_(fill(c, 2000, 20000, b"more-"), b"STORED\r\n", "40 MB more are stored")
        stats = memcached.stats()
        tap.ok(int(stats["bytes"]) <= 16 << 20, "the limit is not exceeded")


@tap.case
def large_values_are_evicted():
    with server.Server("-m", "32") as memcached, memcached.stream() as c:
        tap.is_(fill(c, 200, 900000), b"STORED\r\n", "180 MB of values of 900 KB go into 32 MB")
        tap.is_(c.get(b"fill199"), b"x" * 900000, "the newest value is complete")
        tap.ok(int(memcached.stats()["evictions"]) > 100, "evictions are counted")


@tap.case
def without_evictions():
    with server.Server("-m", "3", "-M") as memcached, memcached.stream() as c:
        stored = 0
        while c.set(b"m%d" % stored, b"x" * 1000) == b"STORED\r\n":
            stored += 1
            if stored > 10000:
                break
        tap.ok(500 < stored <= 10000, "-M stores as much as fits into 3 MB (%d items)" % stored)
        tap.is_(c.set(b"m", b"x" * 1000), NO_MEMORY, "a further set is out of memory")
        tap.is_([i for i in range(stored) if c.get(b"m%d" % i) is None], [], "nothing was evicted")
        tap.is_(memcached.stats()["evictions"], "0", "evictions is 0")
        c.ask(b"delete m0\r\n")
        tap.ok(server.wait_for(lambda: c.set(b"again", b"x" * 1000) == b"STORED\r\n"),
               "after a delete a set succeeds")
        tap.is_(c.set(b"m1", b"y" * 1000), NO_MEMORY, "an overwrite that finds no memory fails")
        tap.is_(c.get(b"m1"), None, "the old value is removed")


@tap.case
def expired_items_make_room():
    with server.Server("-m", "8") as memcached, memcached.stream() as c:
        for i in range(2000):
            c.send(b"set e%d 0 1 1000 noreply\r\n%s\r\n" % (i, b"x" * 1000))
        c.set(b"clock", b"x", exptime=1)
        tap.ok(server.wait_for(lambda: c.get(b"clock") is None), "2,000 items expire")
        c.set(b"keep", b"y" * 1000)
        fill(c, 3000, 1000)
        tap.is_(c.get(b"keep"), b"y" * 1000, "a live item is kept")
        stats = memcached.stats()
        tap.ok(int(stats["evictions"]) < 1500,
               "expired items are freed before live ones are evicted (%s evictions)" %
               stats["evictions"])


@tap.case
def tiny_limits():
    for limit in ("2", "3", "4"):
        with server.Server("-m", limit) as one, one.stream() as c:
            wrong = 0
            for i in range(3000):
                wrong += c.set(b"t%d" % i, b"x" * (i % 900)) != b"STORED\r\n"
            tap.is_(wrong, 0, "-m %s stores 3,000 items of up to 900 bytes" % limit)
            tap.is_(c.get(b"t2999"), b"x" * (2999 % 900), "the last of them is found")


@tap.case
def the_memory_grows_with_the_items():
    with server.Server("-m", "1024") as memcached:
        small = int(memcached.status("VmRSS"))
        tap.ok(small < 200000, "-m 1024 does not take its memory at the start (%d kB)" % small)
        c = memcached.stream()
        fill(c, 20000, 2000)
        tap.is_(memcached.stats()["evictions"], "0", "40 MB fit")
        tap.is_(c.get(b"fill0"), b"x" * 2000, "the first item is found")


tap.run()
