#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The slab classes by number: their sizes, the class of a value, and what a full class evicts."""

import server
import tap

SIZES = [int(word) for word in """96 120 152 192 240 304 384 480 600 752 944 1184 1480 1856 2320
2904 3632 4544 5680 7104 8880 11104 13880 17352 21696 27120 33904 42384 52984 66232 82792 103496
129376 161720 202152 252696 315872 394840 524288""".split()]
# Ours are smaller by 8 where items are small; behind the largest is one of the first one's size.
OURS = [size - 8 if size <= 1480 else size for size in SIZES] + SIZES[:1]
PAGE = 1 << 20


def holders(stats, what="number"):
    """{class: value} of stats items."""
    return {int(key.split(":")[1]): int(value) for key, value in stats.items()
            if key.endswith(":" + what)}


def class_of(memcached, key, nvalue):
    """The class that an item of this key and value goes to."""
    c = memcached.stream()
    c.set(key, b"v" * nvalue)
    number = int(c.all(b"me %s\r\n" % key).split(b"cls=")[1].split(b" ")[0])
    c.ask(b"delete %s\r\n" % key)
    c.close()
    return number


@tap.case
def the_default_sizes():
    """Stores at least one item in each class, so that stats show it."""
    with server.Server("-m", "1024") as memcached, memcached.stream() as c:
        for number, size in enumerate(OURS, 1):
            c.set(b"k%d" % number, b"v" * (size - 53))
        c.set(b"large", b"v" * 600000)
        slabs = c.stats("slabs")
        sizes = {int(k.split(":")[0]): int(v) for k, v in slabs.items() if k.endswith("chunk_size")}
        tap.is_(sizes, dict(enumerate(OURS, 1)),
                "39 classes have memcached's sizes or 8 bytes less, and one has that of the first")
        pages = {int(k.split(":")[0]): int(v) for k, v in slabs.items()
                 if k.endswith("chunks_per_page")}
        tap.is_(pages, {n: PAGE // size for n, size in enumerate(OURS, 1)},
                "a page of 1 MB has as many chunks as fit")
        tap.is_(slabs["active_slabs"], str(len(OURS)),
                "active_slabs is the number of classes with pages")
        total = sum(int(v) for k, v in slabs.items() if k.endswith("total_pages")) * PAGE
        tap.is_(int(slabs["total_malloced"]), total,
                "total_malloced is the size of all their pages")


@tap.case
def the_class_of_a_value():
    with server.Server("-m", "256") as memcached:
        for nvalue, number in ((1, 1), (20000, 25), (66560, 31), (70000, 31)):
            tap.is_(class_of(memcached, b"foo", nvalue), number,
                    "a value of %d bytes is in class %d" % (nvalue, number))
        c = memcached.stream()
        for i in range(10):
            c.set(b"a%d" % i, b"v" * 20000)
            c.set(b"b%d" % i, b"v" * 70000)
        items, slabs = c.stats("items"), c.stats("slabs")
        tap.is_((items["items:25:number"], items["items:31:number"]), ("10", "10"),
                "stats items has the items in these classes")
        tap.is_((slabs["25:used_chunks"], slabs["31:used_chunks"]), ("10", "10"),
                "stats slabs has their chunks")
        tap.is_((slabs["25:total_pages"], slabs["31:total_pages"]), ("1", "1"),
                "each class has one page")
        for i in range(10):
            c.ask(b"delete a%d\r\n" % i)
        slabs = c.stats("slabs")
        tap.is_((slabs["25:used_chunks"], slabs["25:total_pages"]), ("0", "1"),
                "a class keeps its page when it is empty")


@tap.case
def an_item_has_memcacheds_size():
    """48 bytes, 8 of CAS, the key and a NUL, 4 of flags unless 0, the value and its end: where
    that is far from the border of a class, the class is the same here."""
    with server.Server("-m", "256") as memcached:
        wrong = []
        for nvalue in (1, 50, 500, 1000, 1500, 2000, 3000, 5000, 8000, 12000, 19000, 30000,
                       45000, 60000, 90000, 120000, 180000, 280000, 360000):
            cost = 48 + 8 + len(b"key") + 1 + nvalue + 2
            want = next(n for n, size in enumerate(SIZES, 1) if size >= cost)
            got = class_of(memcached, b"key", nvalue)
            if got != want:
                wrong.append((nvalue, got, want))
        tap.is_(wrong, [], "values of 19 sizes are in memcached's classes")


def fill(c, count, start=0):
    for i in range(start, start + count):
        if c.set(b"key%d" % i, b"v" * 66560) != b"STORED\r\n":
            return False
    return True


@tap.case
def a_full_class_evicts_one_for_each_set():
    for limit, room in ((3, 36), (4, 48)):
        with server.Server("-m", limit) as s, s.stream() as c:
            tap.ok(fill(c, room), "-m %d holds %d values of 66,560 bytes" % (limit, room))
            tap.is_(c.stats()["evictions"], "0", "it holds them without an eviction")
            fill(c, 40, room)
            tap.is_(c.stats()["evictions"], "40", "40 more values evict exactly 40")
            tap.is_((holders(c.stats("items")), holders(c.stats("items"), "evicted")),
                    ({31: room}, {31: 40}), "in class 31")
            tap.is_(c.stats("slabs")["31:total_pages"], str(limit), "class 31 has all pages")


@tap.case
def every_class_gets_a_page():
    """Also with the smallest limit each class may have its first page."""
    with server.Server("-m", "2") as s, s.stream() as c:
        wrong = [size for size in SIZES[:30] if c.set(b"k%d" % size, b"v" * (size - 70 if size > 96
                                                                         else 1)) != b"STORED\r\n"]
        tap.is_(wrong, [], "-m 2: an item in each of 30 classes is stored")


@tap.case
def other_geometries():
    for arguments, first, most in ((("-f", "2"), 88, 20), (("-n", "500"), 544, 40),
                                   (("-o", "slab_sizes=100-500-1000"), 104, 4)):
        with server.Server(*arguments) as memcached, memcached.stream() as c:
            c.set(b"k", b"v")
            slabs = c.stats("slabs")
            tap.is_(slabs["1:chunk_size"], str(first),
                    "%s %s: the size of the first class" % arguments)
            c.set(b"large", b"v" * 300000)
            numbers = {int(k.split(":")[0]) for k in c.stats("slabs") if k.endswith("chunk_size")}
            tap.ok(max(numbers) <= most, "there are no more classes than expected")
    for given in 16384, 16:
        with server.Server("-o", "slab_chunk_max=%d" % given) as memcached, memcached.stream() as c:
            c.set(b"k", b"v" * 100000)
            sizes = [int(v) for k, v in c.stats("slabs").items() if k.endswith("chunk_size")]
            tap.is_(max(sizes), 16384, "slab_chunk_max=%d is read as bytes or kilobytes" % given)
            tap.ok("slab_chunk_max=%d was taken for " % given in memcached.log(),
                   "a line says as which")
            tap.ok(c.get(b"k") == b"v" * 100000, "larger values are chains of chunks")


@tap.case
def limits_from_tiny_to_huge():
    with server.Server("-m", "4098") as memcached, memcached.stream() as c:
        tap.is_(c.stats()["limit_maxbytes"], str(4098 << 20), "-m 4098 is not cut to 32 bits")
        tap.is_(c.stats("settings")["maxbytes"], str(4098 << 20), "stats settings shows it")
        tap.ok(fill(c, 20) and len(c.get(b"key19")) == 66560, "it stores and returns values")
    with server.Server("-m", "2", "-M") as s, s.stream() as c:
        answers = {c.set(b"k%d" % i, b"v" * 16384) for i in range(200)}
        tap.is_(answers, {b"STORED\r\n", b"SERVER_ERROR out of memory storing object\r\n"},
                "-M -m 2 stores until it is full, and then answers with an error")
        tap.is_(c.stats()["evictions"], "0", "nothing is evicted")


tap.run()
