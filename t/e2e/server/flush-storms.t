#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""flush_all, many times in a row, and delayed beside sets, seen through the server and through
the kernel."""

import kernel
import server
import tap

KEYS = 200000
ROUNDS = (1, 254, 255, 256, 257, 511, 512, 513, 1024, 3000)


def fill(stream, keys, value=b"v"):
    stream.send(b"".join(b"set k%d 0 0 %d noreply\r\n%s\r\n" % (i, len(value), value)
                         for i in range(keys)))
    stream.ask(b"version\r\n")


def flush(stream, times):
    """Sends all at once; returns when the last is answered."""
    stream.send(b"flush_all noreply\r\n" * (times - 1))
    return stream.ask(b"flush_all\r\n")


@tap.case
def a_flush_frees_nothing():
    """Without the maintainer nothing else frees the items."""
    with server.Server("-m", "256", "-o", "no_lru_maintainer,no_lru_crawler", threads=1) as m:
        c = m.stream()
        fill(c, KEYS)
        tap.is_(flush(c, 2000), b"OK\r\n", "flush_all 2,000 times in a row")
        tap.is_(c.stats()["curr_items"], str(KEYS), "flush_all itself has freed no items")
        tap.is_([i for i in range(0, KEYS, 997) if c.get(b"k%d" % i) is not None], [],
                "no item is found")
        fill(c, 1000, b"new")
        tap.is_({c.get(b"k%d" % i) for i in range(1000)}, {b"new"},
                "items stored afterwards are found")
    with server.Server("-m", "256", threads=1) as s, s.stream() as c:
        fill(c, KEYS)
        flush(c, 300)
        tap.ok(server.wait_for(lambda: c.stats()["curr_items"] == "0"),
               "the maintainer frees flushed items")


def storms(options, name):
    """Items not accessed between the storms have every epoch that a byte can have."""
    with kernel.Machines(*options) as m:
        wrong, late = [], []
        for i, times in enumerate(ROUNDS):
            keys = [b"r%dk%d" % (i, j) for j in range(50)]
            for key in keys:
                m.tcp.set(key, b"v")
            if not m.holds(keys[0], b"v"):
                wrong.append((times, "not answered by the kernel"))
            flush(m.tcp, times)
            for j, key in enumerate(keys):
                if j % 2 and m.udp.get(key) is not None:
                    wrong.append((times, key, "udp"))
                if j % 3 == 0 and m.tcp.get(key) is not None:
                    wrong.append((times, key, "tcp"))
            late += keys[40:]
            m.tcp.set(keys[0], b"w")
            if m.udp.get(keys[0]) != b"w" or m.tcp.get(keys[0]) != b"w":
                wrong.append((times, "an item stored after it is missing"))
        tap.is_(wrong, [],
                "%s: 1 to 3,000 flushes in a row remove everything, and nothing stored after them" %
                name)
        for _ in range(260):
            m.tcp.ask(b"flush_all\r\n")
            late = [key for key in late if m.udp.get(key) is None]
        tap.is_(len(late), 10 * len(ROUNDS), "%s: no later flush makes an item reappear" % name)


@tap.case_if(kernel.is_built())
def storms_beside_the_kernel():
    storms(("-o", "no_lru_maintainer,no_lru_crawler"), "no sweeps")
    storms((), "sweeps")


@tap.case_if(kernel.is_built())
def the_order_of_a_delayed_flush():
    """It has one moment for kernel and server, reads and sets, before and after."""
    with kernel.Machines() as m:
        first, late = [], 0
        for round_ in range(3):
            m.tcp.set(b"old", b"x")
            m.tcp.ask(b"flush_all 2\r\n")
            gone, wrong, n = 0, [], 0
            while gone < 100:
                n += 1
                value = b"%d" % n
                before = m.udp.get(b"old") if n % 2 else m.tcp.get(b"old")
                if before is not None and gone:
                    wrong.append((n, "a flushed item reappeared"))
                gone += before is None
                m.tcp.set(b"new", value)
                seen = m.udp.get(b"new"), m.tcp.get(b"new")
                if seen == (value, value):
                    continue
                # The flush came between: the later of two reads cannot find the item again.
                if seen not in ((value, None), (None, None)) or gone or first.count(round_):
                    wrong.append((n, seen, "a stored item is missing"))
                first.append(round_)
            late += m.holds(b"new", b"%d" % n)
            tap.is_(wrong, [],
                    "round %d: of %d sets none before the flush is found after it, and none "
                    "after it is missing" % (round_, n))
        tap.is_(late, 3, "after the flush the kernel answers")
        m.tcp.set(b"old", b"x")
        m.tcp.all(b"flush_all 2\r\nflush_all 1000\r\n")
        m.tcp.set(b"clock", b"x", exptime=3)
        tap.ok(server.wait_for(lambda: m.tcp.get(b"clock") is None), "three seconds pass")
        tap.is_(m.udp.get(b"old"), b"x", "a delayed flush that another replaced has no effect")
        m.tcp.all(b"flush_all 1000\r\nflush_all\r\n")
        m.tcp.set(b"old", b"y")
        tap.ok(m.holds(b"old", b"y"), "an immediate flush cancels a delayed one")


tap.run()
