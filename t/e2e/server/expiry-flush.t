#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Expiry times and flush_all. The tests notice that time has passed by items that expire, and do
not sleep."""
import time

import server
import tap

DAY = 86400

memcached = server.Server()
c = memcached.stream()


def gone(key):
    return server.wait_for(lambda: c.get(key) is None)


@tap.case
def items_expire():
    c.set(b"one", b"x", exptime=1)
    c.set(b"six", b"x", exptime=6)
    c.set(b"never", b"x", exptime=0)
    c.set(b"later", b"x", exptime=1000)
    tap.is_(c.get(b"later"), b"x", "an item that expires later is found")
    tap.ok(gone(b"one"), "an item of 1 second expires")
    tap.is_(c.get(b"six"), b"x", "an item of 6 seconds is still found")
    tap.ok(gone(b"six"), "it expires later")
    tap.is_((c.get(b"never"), c.get(b"later")), (b"x", b"x"),
            "items of 0 and 1000 seconds do not expire")
    # Nothing else removes expired items here.
    with server.Server("-o", "no_lru_maintainer,no_lru_crawler") as other, other.stream() as d:
        d.set(b"one", b"x", exptime=1)
        tap.ok(server.wait_for(lambda: d.get(b"one") is None),
               "without maintainer an item expires")
        tap.is_(other.stats()["get_expired"], "1", "get_expired counts it")


@tap.case
def commands_on_an_expired_item():
    for i in range(8):
        c.set(b"e%d" % i, b"5", exptime=1)
    c.set(b"last", b"x", exptime=1)
    tap.ok(gone(b"last"), "the last of nine items expires")
    for request, want in ((b"delete e0\r\n", b"NOT_FOUND\r\n"),
                          (b"touch e1 5\r\n", b"NOT_FOUND\r\n"),
                          (b"incr e2 1\r\n", b"NOT_FOUND\r\n"),
                          (b"replace e3 0 0 1\r\nx\r\n", b"NOT_STORED\r\n"),
                          (b"append e4 0 0 1\r\nx\r\n", b"NOT_STORED\r\n"),
                          (b"cas e5 0 0 1 1\r\nx\r\n", b"NOT_FOUND\r\n"),
                          (b"gat 100 e6\r\n", b"END\r\n"),
                          (b"add e7 0 0 1\r\nx\r\n", b"STORED\r\n")):
        tap.is_(c.all(request), want, "%r on an expired item" % request)
    tap.is_(c.get(b"e7"), b"x", "the value that add stored is found")


@tap.case
def negative_and_absolute_times():
    now = int(time.time())
    for exptime, lives, name in ((-1, False, "-1"), (-1000, False, "-1000"),
                                 (now - 10, False, "10 seconds ago"), (now - 400 * DAY, False,
                                                                       "400 days ago"),
                                 (now + 100, True, "in 100 seconds, absolute"),
                                 (now + 400 * DAY, True, "in 400 days, absolute"),
                                 (30 * DAY, True, "in 30 days, relative"),
                                 (30 * DAY + 1, False, "30 days and a second: absolute, in 1970"),
                                 (2147483647, True, "in 2038")):
        c.set(b"old", b"old")
        tap.is_(c.set(b"a", b"x", exptime=exptime), b"STORED\r\n", "a set with time %s" % name)
        tap.is_(c.get(b"a"), b"x" if lives else None,
                "%s" % ("the item exists" if lives else "the item has expired at once"))
    c.set(b"a", b"x", exptime=now + 2)
    tap.ok(gone(b"a"), "an item expires at its absolute time")


@tap.case
def touch_and_gat_change_the_time():
    for key in (b"t1", b"t2", b"t3", b"t4", b"sibling"):
        c.set(key, b"x", exptime=4)
    c.ask(b"touch t1 1000\r\n")
    c.all(b"gat 1000 t2\r\n")
    c.all(b"gats 0 t3\r\n")
    c.ask(b"touch t4 0\r\n")
    tap.ok(gone(b"sibling"), "an item of 4 seconds expires")
    for key, name in ((b"t1", "touch 1000"), (b"t2", "gat 1000"), (b"t3", "gats 0"),
                      (b"t4", "touch 0")):
        tap.is_(c.get(key), b"x", "an item that had a %s does not expire" % name)
    c.ask(b"touch t1 1\r\n")
    tap.ok(gone(b"t1"), "touch can shorten the time")
    c.set(b"app", b"x", exptime=1)
    c.set(b"app", b"y", exptime=1000, verb=b"append")
    c.set(b"num", b"1", exptime=1)
    c.ask(b"incr num 1\r\n")
    tap.ok(gone(b"app") and gone(b"num"), "append and incr keep the item's time")


@tap.case
def flush_all_removes_everything():
    for i in range(100):
        c.set(b"f%d" % i, b"x")
    before = int(memcached.stats()["cmd_flush"])
    tap.is_(c.all(b"flush_all\r\n"), b"OK\r\n", "flush_all answers OK")
    tap.is_([i for i in range(100) if c.get(b"f%d" % i) is not None], [], "100 items are gone")
    tap.is_(int(memcached.stats()["cmd_flush"]) - before, 1, "cmd_flush counts it")
    with server.Server("-o", "no_lru_maintainer,no_lru_crawler") as other: # which remove them, too
        d = other.stream()
        d.set(b"f", b"x")
        d.ask(b"flush_all\r\n")
        tap.is_((d.get(b"f"), other.stats()["get_flushed"]), (None, "1"),
                "get_flushed counts the get of a flushed item")
    tap.is_(c.all(b"flush_all 0\r\n"), b"OK\r\n", "flush_all 0 is accepted")
    for i in range(50):
        c.set(b"g", b"%d" % i)
        if c.get(b"g") != b"%d" % i:
            tap.ok(False, "an item set after flush_all in the same second is found")
            break
        c.ask(b"flush_all\r\n")
        if c.get(b"g") is not None:
            tap.ok(False, "an item set before flush_all in the same second is gone")
            break
    else:
        tap.ok(True, "50 rounds of set, get, flush_all, get within a second have the right answers")
    c.ask(b"flush_all\r\n")
    tap.is_(c.set(b"g", b"x", verb=b"replace"), b"NOT_STORED\r\n",
            "replace of a flushed key stores nothing")
    tap.is_(c.set(b"g", b"x", verb=b"add"), b"STORED\r\n", "add of a flushed key stores")
    tap.is_(c.ask(b"delete f1\r\n"), b"NOT_FOUND\r\n", "delete of a flushed key finds nothing")


@tap.case
def flush_all_with_a_delay():
    first = c.all(b"set d 0 0 1\r\nx\r\nflush_all 3\r\nget d\r\n")
    tap.is_(first, b"STORED\r\nOK\r\nVALUE d 0 1\r\nx\r\nEND\r\n",
            "after flush_all 3 the item is still found")
    c.set(b"d2", b"x")
    tap.ok(gone(b"d"), "it is gone at the time of the flush")
    tap.is_(c.get(b"d2"), None, "an item set before that time is gone, too")
    # Stock memcached's times have seconds: the second of the flush has to be over.
    server.wait_for(lambda: c.set(b"d", b"y") and c.get(b"d") == b"y")
    c.set(b"clock", b"x", exptime=2)
    tap.ok(gone(b"clock"), "two seconds pass")
    tap.is_(c.get(b"d"), b"y", "an item set after the flush stays")
    c.set(b"d", b"z")
    c.ask(b"flush_all 3\r\n")
    c.ask(b"flush_all 1000\r\n")
    c.set(b"clock", b"x", exptime=3)
    tap.ok(gone(b"clock"), "three seconds pass")
    tap.is_(c.get(b"d"), b"z", "a later flush_all replaces one whose time has not come")
    c.ask(b"flush_all %d\r\n" % (int(time.time()) - 10))
    tap.is_(c.get(b"d"), None, "an absolute time in the past flushes at once")


def second_and_item(request):
    """The server's second and whether the item `d` is found, both at one moment."""
    answer = c.all(request + b"stats\r\nget d\r\n")
    return int(answer.split(b"STAT uptime ")[1].split()[0]), b"VALUE d" in answer


@tap.case
def flush_all_takes_effect_a_second_before_its_time():
    """As memcached's: at the start of the server's second that is N-1 after the command's."""
    for request, n in ((b"flush_all 1\r\n", 1), (b"flush_all 2\r\n", 2), (b"flush_all 3\r\n", 3),
                       (b"flush_all %d\r\n" % (int(memcached.stats()["time"]) + 100), None)):
        start, there = second_and_item(b"set d 0 0 1\r\nx\r\n" + request)
        if n is None:
            tap.ok(there, "the server waits for an absolute time")
            continue
        seen = [(start, there)]
        while seen[-1][0] < start + n:
            seen.append(second_and_item(b""))
        # A command's second is that of its arrival: the flush may take effect before it is
        # executed.
        early = {at - start for (at, there), (after, _) in zip(seen, seen[1:])
                 if not there and after - start < n - 1}
        late = {at - start for at, there in seen if there and at - start >= n - 1}
        tap.is_((early, late), (set(), set()), "%r takes effect in second %d" % (request, n - 1))


@tap.case
def flush_all_refuses_bad_words():
    tap.is_(c.all(b"flush_all abc\r\n"), b"CLIENT_ERROR invalid exptime argument\r\n",
            "a word that is not a time is refused")
    tap.is_(c.all(b"flush_all -1\r\n"), b"OK\r\n", "a negative time is accepted")


@tap.case
def flush_all_without_cas():
    with server.Server("-C") as s, s.stream() as d:
        d.set(b"k", b"v")
        d.ask(b"flush_all\r\n")
        tap.is_(d.get(b"k"), None, "flush_all works under -C")
        invisible = 0
        for _ in range(50):
            d.ask(b"flush_all\r\n")
            d.set(b"k", b"v")
            invisible += d.get(b"k") is None
        tap.ok(invisible >= 1, "under -C an item set in the second of a flush_all is hidden")


tap.run(ends=memcached)
