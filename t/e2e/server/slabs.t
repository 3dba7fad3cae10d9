#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""Pages between slab classes: slabs reassign, slabs automove, and a memory limit that changes."""

import server
import tap

OFF = b"CLIENT_ERROR slab reassignment disabled\r\n"
BAD_FORMAT = b"CLIENT_ERROR bad command line format\r\n"
BAD_CLASS = b"BADCLASS invalid src or dst class id\r\n"
NO_SPARE = b"NOSPARE source class has no spare pages\r\n"
SAME = b"SAME src and dst class are identical\r\n"
TOO_SMALL = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"
LARGE_CLASS = 30  # of values of LARGE bytes
LARGE = 60000


def value_of(number, size):
    """A value that contains its item's number and, throughout, the position."""
    word = b"%08d" % number
    return (word * (size // 8 + 1))[:size]


def fill(c, numbers, size, prefix=b"k"):
    numbers = list(numbers)
    for start in range(0, len(numbers), 50):
        part = numbers[start:start + 50]
        c.send(b"".join(b"set %s%d 0 0 %d\r\n%s\r\n" % (prefix, i, size, value_of(i, size))
                        for i in part))
        for _ in part:
            if c.line() != b"STORED\r\n":
                return False
    return True


def delete(c, numbers, prefix=b"k"):
    numbers = list(numbers)
    c.all(b"".join(b"delete %s%d noreply\r\n" % (prefix, i) for i in numbers))


def wrong(c, numbers, size, prefix=b"k"):
    """The items that do not have their value."""
    return [i for i in numbers if c.get(b"%s%d" % (prefix, i)) != value_of(i, size)]


def number(c, key, group=""):
    return int(c.stats(group)[key])


def pages(c, clsid):
    return int(c.stats("slabs").get("%d:total_pages" % clsid, 0))


def idle(c):
    return server.wait_for(lambda: number(c, "slab_reassign_running") == 0)


def moved(c, words):
    """Asks until the mover accepts, and waits until it is done."""
    answer = b""

    def asked():
        nonlocal answer
        answer = c.ask(b"slabs reassign %s\r\n" % words)
        return not answer.startswith(b"BUSY")
    server.wait_for(asked)
    return answer == b"OK\r\n" and idle(c)


@tap.case
def answers():
    with server.Server("-m", "64") as one, one.stream() as c:
        fill(c, range(100), LARGE)
        dialogue = (
            (b"slabs", b"ERROR\r\n"), (b"slabs reassign", b"ERROR\r\n"),
            (b"slabs reassign 1", b"ERROR\r\n"), (b"slabs reassign 1 2 3", b"ERROR\r\n"),
            (b"slabs reassign 30 1 noreply", b"ERROR\r\n"), (b"slabs nothing 1 2", b"ERROR\r\n"),
            (b"slabs reassign a b", BAD_FORMAT), (b"slabs reassign 1 b", BAD_FORMAT),
            (b"slabs reassign 1x 2", BAD_FORMAT), (b"slabs reassign 1 1", SAME),
            (b"slabs reassign -1 -1", SAME), (b"slabs reassign 0 0", SAME),
            (b"slabs reassign -2 1", BAD_CLASS), (b"slabs reassign 99 1", BAD_CLASS),
            (b"slabs reassign 1 99", BAD_CLASS), (b"slabs reassign 41 1", BAD_CLASS),
            (b"slabs reassign 1 41", BAD_CLASS), (b"slabs reassign 1 -1", BAD_CLASS),
            (b"slabs reassign 99999999999 1", BAD_CLASS),
            (b"slabs reassign 4294967326 1", BAD_CLASS),
            (b"slabs reassign -1 30", BAD_CLASS), (b"slabs reassign 1 30", NO_SPARE),
            (b"slabs reassign 0 1", NO_SPARE), (b"slabs automove", b"ERROR\r\n"),
            (b"slabs automove 3", b"ERROR\r\n"), (b"slabs automove -1", BAD_FORMAT),
            (b"slabs automove a", BAD_FORMAT), (b"slabs automove 1x", BAD_FORMAT),
            (b"slabs automove 4294967297", b"ERROR\r\n"), (b"slabs automove ratio", b"ERROR\r\n"),
            (b"slabs automove ratio x", b"ERROR\r\n"), (b"slabs automove ratio 0.5", b"OK\r\n"),
            (b"slabs automove ratio 0.5 noreply", b""), (b"slabs automove 2 noreply", b""),
            (b"slabs automove 0", b"OK\r\n"), (b"slabs automove 1", b"OK\r\n"))
        for line, answer in dialogue:
            tap.is_(c.all(line + b"\r\n"), answer, line.decode())
        c.all(b"slabs automove 2\r\nslabs automove ratio 0.25\r\n")
        settings = c.stats("settings")
        tap.is_((settings["slab_automove"], settings["slab_automove_ratio"]), ("2", "0.25"),
                "stats settings shows automove's settings")


@tap.case
def without_the_mover():
    with server.Server("-m", "64", "-o", "no_slab_reassign") as s, s.stream() as c:
        fill(c, range(100), LARGE)
        tap.is_(c.ask(b"slabs reassign 30 0\r\n"), OFF, "without slab_reassign no page is moved")
        tap.is_(c.ask(b"slabs automove 1\r\n"), b"OK\r\n", "automove can be set, without effect")


@tap.case
def a_page_is_moved():
    with server.Server("-m", "64", "-o", "slab_automove=0") as memcached, memcached.stream() as c:
        watcher = memcached.stream()
        watcher.ask(b"watch sysevents\r\n")
        fill(c, range(180), LARGE)
        delete(c, range(0, 180, 2))
        tap.is_(pages(c, LARGE_CLASS), 12, "twelve pages are half full")
        tap.ok(moved(c, b"30 1"), "one page is moved")
        slabs = c.stats("slabs")
        tap.is_((slabs["30:total_pages"], slabs["1:total_pages"]), ("11", "1"),
                "it has moved from class to class")
        tap.ok(server.wait_for(lambda: b"type=slab_move src=30 dst=1" in watcher.until(b"\n")),
               "a watcher gets a line")
        for _ in range(3):
            moved(c, b"30 0")
        stats = c.stats()
        tap.is_((stats["slab_global_page_pool"], stats["slabs_moved"]), ("3", "4"),
                "other pages go to the pool")
        tap.ok(int(stats["slab_reassign_rescues"]) > 0 and stats["evictions"] == "0",
               "their items are moved to other pages")
        tap.is_(wrong(c, range(1, 180, 2), LARGE), [], "the items have their values")
        tap.ok(moved(c, b"0 5") and pages(c, 5) == 1, "a page of the pool goes to a class")
        fill(c, range(0, 100, 2), LARGE)
        tap.is_(number(c, "slab_global_page_pool"), 0,
                "a class that needs a page takes it from the pool")


@tap.case
def any_class():
    with server.Server("-m", "64", "-o", "slab_automove=0") as one, one.stream() as c:
        fill(c, range(40), LARGE)
        fill(c, range(3000), 1000, b"s")
        before = {n: pages(c, n) for n in (LARGE_CLASS, 12)}
        for _ in range(2):
            moved(c, b"-1 3")
        tap.is_((pages(c, 3), sum(pages(c, n) for n in before)), (2, sum(before.values()) - 2),
                "-1 takes a page of any class")


@tap.case
def large_values_move_in_parts():
    size = 900000
    with server.Server("-m", "128", "-o", "slab_automove=0,slab_chunk_max=65536") as s, \
            s.stream() as c:
        fill(c, range(40), size)
        delete(c, range(0, 40, 2))
        largest = max(int(key.split(":")[0]) for key in c.stats("slabs") if ":" in key)
        for _ in range(15):
            moved(c, b"%d 0" % largest)
        stats = c.stats()
        tap.ok(int(stats["slab_reassign_chunk_rescues"]) > 0 and stats["evictions"] == "0",
               "parts of large values are moved")
        tap.is_(wrong(c, range(1, 40, 2), size), [], "the values are unchanged")
        delete(c, range(1, 40, 2))
        tap.is_(c.stats("slabs")["%d:used_chunks" % largest], "0", "no chunk is lost")


@tap.case
def a_slow_reader_gets_its_value():
    """Its reply consists of the item's memory, so the item is copied or waited for."""
    size = 900000
    with server.Server("-m", "128", "-o", "slab_automove=0") as memcached:
        c, slow = memcached.stream(), memcached.stream()
        fill(c, range(20), size)
        delete(c, range(1, 20, 2))
        slow.send(b"get k0 k2 k4 k6 k8 k10 k12 k14 k16 k18\r\n")
        server.wait_for(lambda: slow.sock.recv(1, 2) != b"")
        for _ in range(5):
            c.ask(b"slabs reassign 39 0\r\n")
        reply = b"".join(b"VALUE k%d 0 %d\r\n%s\r\n" % (i, size, value_of(i, size))
                         for i in range(0, 20, 2)) + b"END\r\n"
        tap.ok(slow.exactly(len(reply)) == reply, "a slow reader gets the whole reply")
        tap.ok(idle(c), "the mover goes on")


@tap.case
def a_full_class_evicts():
    with server.Server("-m", "10", "-o", "slab_automove=0") as s, s.stream() as c:
        fill(c, range(180), LARGE)
        before = number(c, "evictions")
        tap.ok(moved(c, b"30 1"), "a page of a full class is moved")
        stats = c.stats()
        evicted = int(stats["slab_reassign_evictions_nomem"])
        tap.ok(0 < evicted <= 18 and int(stats["evictions"]) == before + evicted,
               "as many items as fit into it are evicted")
        tap.is_(wrong(c, range(160, 180), LARGE), [], "the newest items are kept")


@tap.case
def one_page_moves_at_the_limit():
    """The second class gets its first page when the first one has all of the limit."""
    for limit in (8, 64):
        with server.Server("-m", str(limit), "-o", "slab_automove=0") as one, one.stream() as c:
            fill(c, range(limit * 17), LARGE)
            fill(c, range(4), 18500, b"s")
            before = {n: pages(c, n) for n in (25, LARGE_CLASS)}
            tap.is_(before, {25: 1, LARGE_CLASS: limit}, "-m %d: it has a page of its own" % limit)
            for _ in range(2):
                tap.ok(moved(c, b"%d 25" % LARGE_CLASS), "a page is moved")
            tap.is_({n: pages(c, n) - before[n] for n in before}, {25: 2, LARGE_CLASS: -2},
                    "the counts of both classes change by what was asked for")
            tap.is_(number(c, "slabs_moved"), 2, "slabs_moved counts no other page")


@tap.case
def automove_fills_the_pool():
    """As in memcached's own suite: more than 24 pages after deletes."""
    with server.Server("-m", "60") as one, one.stream() as c:
        fill(c, range(40 * 15), LARGE)
        delete(c, range(40 * 15))
        tap.ok(server.wait_for(lambda: number(c, "slab_global_page_pool") > 24),
               "pages of an empty class go to the pool")
        tap.ok(server.wait_for(lambda: pages(c, LARGE_CLASS) <= 3),
               "the class keeps two or three")
        fill(c, range(30 * 1000), 1000, b"s")
        stats = c.stats()
        tap.is_((stats["evictions"], stats["curr_items"]), ("0", "30000"),
                "other classes take pages from the pool")


@tap.case
def automove_by_age():
    with server.Server("-m", "16", "-o", "slab_automove=1,slab_automove_window=3") as one, \
            one.stream() as c:
        fill(c, range(16 * 15), LARGE)
        stored = 0

        def grown():
            nonlocal stored
            fill(c, range(stored, stored + 2000), 1000, b"s")
            stored += 2000
            return pages(c, 12) > 3
        tap.ok(server.wait_for(grown, 60, 0.05),
               "a class that evicts young items gets pages of a class with old ones")
        tap.ok(number(c, "slabs_moved") >= 2, "the mover has moved them")


@tap.case
def automove_at_each_eviction():
    with server.Server("-m", "16", "-o", "slab_automove=2") as one, one.stream() as c:
        fill(c, range(16 * 15), LARGE)

        def grown():
            fill(c, range(6000), 1000, b"s")
            return pages(c, 12) > 3
        tap.ok(server.wait_for(grown), "with automove 2 an eviction moves a page")
        c.ask(b"slabs automove 0\r\n")
        idle(c)
        before = number(c, "slabs_moved")
        fill(c, range(20000), 1000, b"s")
        tap.is_(number(c, "slabs_moved"), before, "with automove 0 it does not")


@tap.case
def the_limit_can_be_lowered_and_raised():
    with server.Server("-m", "64") as s, s.stream() as c:

        def malloced():
            return number(c, "total_malloced", "slabs") >> 20
        fill(c, range(50000), 1000)
        tap.is_(c.ask(b"cache_memlimit 7\r\n"), TOO_SMALL, "a limit below 8 MB is refused")
        tap.is_(c.ask(b"cache_memlimit 20\r\n"), b"OK\r\n", "a lower limit is accepted")
        tap.is_(number(c, "limit_maxbytes"), 20 << 20, "limit_maxbytes shows it")
        tap.ok(server.wait_for(lambda: malloced() <= 20), "pages above the limit are freed")
        tap.is_(number(c, "slab_global_page_pool"), 0, "they do not go to the pool")
        tap.is_(wrong(c, range(49000, 50000), 1000), [], "the newest items are kept")
        fill(c, range(50000), 1000)
        tap.ok(malloced() <= 20, "the limit is not exceeded")
        tap.is_(c.ask(b"cache_memlimit 100\r\n"), b"OK\r\n", "a higher limit is accepted")
        evicted = number(c, "evictions")
        fill(c, range(50000), 1000)
        tap.is_((number(c, "evictions"), number(c, "curr_items")), (evicted, 50000),
                "nothing is evicted any more")
        tap.is_(wrong(c, range(0, 50000, 7), 1000), [], "all items are found")


@tap.case
def pages_move_under_load():
    """Two clients store and read their items, a third moves pages."""
    with server.Server("-m", "32", "-o", "slab_automove=0,slab_chunk_max=16384") as memcached:
        c = memcached.stream()
        clients = [memcached.stream() for _ in range(2)]
        sizes = (100, 1000, 15000, 100000)
        bad = 0
        for turn in range(60):
            for n, client in enumerate(clients):
                size = sizes[(turn + n) % len(sizes)]
                keys = range(turn * 20, turn * 20 + 20)
                fill(client, keys, size, b"c%d-" % n)
                c.ask(b"slabs reassign -1 %d\r\n" % (turn % 20))
                for i in keys:
                    got = client.get(b"c%d-%d" % (n, i))
                    bad += got is not None and got != value_of(i, size)
        tap.is_(bad, 0, "no value is damaged")
        tap.ok(number(c, "slabs_moved") > 10, "pages were moved meanwhile")


tap.run()
