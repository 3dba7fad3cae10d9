#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The crawler beside the kernel path: the kernel goes on answering, and items that it served
count as read."""

import kernel
import server
import tap

NKEYS = 20000


def count(m, name):
    return int(m.server.stats("bmc")[name])


def fill(m):
    """Half of the keys expire in a second."""
    for at in range(0, NKEYS, 1000):
        m.tcp.send(b"".join(b"set k%d 0 %d 5 noreply\r\n%05d\r\n" % (n, n % 2, n)
                            for n in range(at, at + 1000)))
    m.tcp.ask(b"version\r\n")
    server.wait_for(lambda: m.tcp.get(b"k%d" % (NKEYS - 1)) is None)


@tap.case
def the_kernel_answers_while_items_are_crawled():
    with kernel.Machines("-o", "no_lru_maintainer,lru_crawler_sleep=0") as m:
        fill(m)
        keys = list(range(0, NKEYS, 40))
        before, wrong, ncrawls = count(m, "hits"), 0, 0
        m.tcp.send(b"lru_crawler crawl all\r\n")
        for n in keys:
            wrong += m.udp.get(b"k%d" % n) != b"%05d" % n
            if n % 400 == 0:
                m.tcp.line()
                m.tcp.send(b"lru_crawler crawl all\r\n")
                ncrawls += 1
        m.tcp.line()
        tap.is_(wrong, 0, "beside %d crawls every live key is found" % ncrawls)
        hits = count(m, "hits") - before
        tap.ok(hits >= len(keys) * 0.9,
               "the kernel answers, except for buckets that change at that moment")
        tap.diag("%d of %d by the kernel" % (hits, len(keys)))
        server.wait_for(lambda: m.server.stats()["lru_crawler_running"] == "0")
        tap.is_(m.server.stats()["curr_items"], str(NKEYS // 2), "expired items are freed")
        before = count(m, "misses")
        tap.is_([m.udp.get(b"k%d" % n) for n in range(1, 100, 2)], [None] * 50,
                "freed keys are missing")
        tap.is_(count(m, "misses") - before, 50, "the kernel answers these misses")


@tap.case
def a_dump_beside_the_kernel():
    with kernel.Machines("-o", "no_lru_maintainer") as m:
        fill(m)
        before = count(m, "hits")
        for n in range(0, 200, 2):
            m.udp.get(b"k%d" % n)
        tap.is_(count(m, "hits") - before, 100, "the kernel serves 100 keys")
        m.tcp.send(b"lru_crawler metadump all\r\n")
        lines = m.tcp.until(b"END\r\n").split(b"\n")[:-2]
        tap.is_(len(lines), NKEYS // 2, "a dump has all live items")
        tap.is_(sorted(int(line.split()[0][5:]) for line in lines if b" fetch=yes " in line),
                list(range(0, 200, 2)), "the dump shows as read the items that the kernel served")


tap.run()
