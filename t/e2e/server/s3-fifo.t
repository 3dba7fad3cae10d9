#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Eviction by S3-FIFO (-o s3_fifo): what was read outlives what was only stored."""

import server
import tap

POPULAR, SCANNED, VALUE = 50, 2000, b"v" * 10000 # -m 4 holds about 400


def scan(c, name=b"scan"):
    for number in range(SCANNED):
        c.set(b"%b-%d" % (name, number), VALUE)


def there(c):
    return sum(c.get(b"popular-%d" % number) == VALUE for number in range(POPULAR))


def popular(c):
    """Stores some keys and reads each once."""
    for number in range(POPULAR):
        c.set(b"popular-%d" % number, VALUE)
    return there(c)


def segments(c):
    """Items in hot, warm and cold."""
    items = c.stats("items")
    return [sum(int(value) for key, value in items.items() if key.endswith(":number_" + name))
            for name in ("hot", "warm", "cold")]


def settled(c):
    """Whether the maintainer has moved most of what was read to cold. A set looks at few items:
    where those at the end of hot were all read, as after popular(), it evicts one of them."""
    return server.wait_for(lambda: segments(c)[2] >= POPULAR * 2 // 3)


@tap.case
def a_scan_evicts_nothing_that_was_read():
    with server.Server("-m", "4", "-o", "s3_fifo") as memcached, memcached.stream() as c:
        tap.is_(popular(c), POPULAR, "keys are stored and read once")
        tap.ok(settled(c), "most of them are moved to cold")
        scan(c)
        tap.ok(int(c.stats()["evictions"]) > SCANNED / 2, "a scan stores more than fits")
        tap.is_(there(c), POPULAR, "all that was read is still there")
        hot, warm, cold = segments(c)
        tap.is_((warm, cold), (0, POPULAR), "that is what cold has, and warm has nothing")
        tap.ok(hot > POPULAR, "hot has the rest")
    with server.Server("-m", "4") as s, s.stream() as c:
        popular(c)
        scan(c)
        tap.is_(there(c), 0, "without the option one read does not save it")


@tap.case
def who_comes_back_is_kept():
    with server.Server("-m", "4", "-o", "s3_fifo") as s, s.stream() as c:
        scan(c)
        before = segments(c)[2]
        # me is no read, or the others would be moved to cold as well.
        gone = [number for number in range(SCANNED)
                if c.ask(b"me scan-%d\r\n" % number) == b"EN\r\n"]
        for number in gone[-20:]:
            c.set(b"scan-%d" % number, VALUE)
        kept = segments(c)[2] - before
        tap.ok(kept >= 15, "keys that come back soon after their eviction begin in cold")
        for number in range(20):
            c.set(b"fresh-%d" % number, VALUE)
        tap.ok(segments(c)[2] - before <= kept + 1, "others do not")


@tap.case
def the_lru_command_goes_before_it():
    with server.Server("-m", "4", "-o", "s3_fifo") as one, one.stream() as c:
        tap.is_(c.stats("settings")["s3_fifo"], "yes", "stats settings shows it")
        tap.is_(c.ask(b"lru mode flat\r\n"), b"OK\r\n", "lru mode flat")
        popular(c)
        scan(c)
        tap.is_(there(c), 0, "in flat mode what was read once is evicted in turn")
        tap.is_(c.ask(b"lru mode segmented\r\n"), b"OK\r\n", "lru mode segmented")
        popular(c)
        settled(c)
        scan(c, b"more")
        tap.is_(there(c), POPULAR, "then it is as before")
        tap.is_(c.ask(b"lru tune 50 20 0.2 2.0\r\n"), b"OK\r\n", "lru tune sets its queue's share")
        scan(c, b"again")
        tap.is_(there(c), POPULAR, "and it still keeps what was read")


@tap.case
def what_it_needs():
    flash = "cannot be used with" if server.is_built_with("ext_path") else "not built with"
    for words, what in (("s3_fifo,no_lru_maintainer", "requires lru_maintainer"),
                        ("s3_fifo,ext_path=/dev/null:64m", flash)):
        status, _, error = server.run("-p", "0", "-U", "0", "-o", words)
        tap.is_(status, 64, "-o %s is refused" % words)
        tap.like(error, what, "it says %s" % what)


tap.run()
