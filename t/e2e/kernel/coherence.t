#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writers over TCP, readers over UDP: no reply is older than an acknowledged write. UDP_READS (a
million) is how many keys are read; some cases read a part of that, two_keys twice as many."""
import concurrent.futures
import os
import threading

import coherence
import kernel
import tap

READS = int(os.environ.get("UDP_READS", "500000"))


@tap.case
def many_keys():
    with kernel.Machines(threads=2) as m:
        found, grown = m.during(lambda: coherence.run(m, 2, 2, 1000, READS // 2))
        coherence.judge(found, grown, READS // 2)


@tap.case
def few_keys():
    with kernel.Machines(threads=2) as m:
        found, grown = m.during(lambda: coherence.run(m, 3, 2, 12, READS // 4))
        coherence.judge(found, grown, READS // 4)


@tap.case
def two_keys():
    """Memory is freed and used again while the kernel reads it: without the sequence counters
    about one answer in 500,000 is torn here."""
    with kernel.Machines(threads=2) as m:
        found, grown = m.during(lambda: coherence.run(m, 2, 1, 2, 2 * READS))
        coherence.judge(found, grown, 2 * READS)


@tap.case
def pages_that_move():
    """The same while the mover moves pages, with room for their items, all the time."""
    with kernel.Machines("-m", "256", "-o", "slab_automove=0", threads=2) as m:
        sizes = (1, 60, 100, 150, 200, 260, 340, 450, 560)
        for size in sizes:
            count = 4 * (1 << 20) // (size + 80)
            value = b"x" * size
            m.tcp.all(b"".join(b"set f%d-%d 0 0 %d noreply\r\n%s\r\n" % (size, i, size, value)
                               for i in range(count)))
            m.tcp.all(b"".join(b"delete f%d-%d noreply\r\n" % (size, i)
                               for i in range(count) if i % 4))
        before = m.tcp.stats()
        moving = True

        def move():
            stream, turn = m.server.stream(), 0
            while moving:
                stream.ask(b"slabs reassign -1 0\r\n")
                stream.ask(b"slabs reassign 0 %d\r\n" % (turn % 12 + 1))
                turn += 1

        mover = threading.Thread(target=move)
        mover.start()
        try:
            found, grown = m.during(lambda: coherence.run(m, 2, 2, 1000, READS // 2))
        finally:
            moving = False
            mover.join()
        coherence.judge(found, grown, READS // 2)
        stats = m.tcp.stats()
        tap.diag("%s pages moved, %s items" %
                 (stats["slabs_moved"], stats["slab_reassign_rescues"]))
        tap.ok(int(stats["slabs_moved"]) > int(before["slabs_moved"]) + 100 and
               int(stats["slab_reassign_rescues"]) > 1000, "pages were moved")
        tap.is_(stats["evictions"], "0", "without evictions")


@tap.case
def a_table_that_grows():
    """The same while 400,000 other keys are stored and the table grows sixfold."""
    with kernel.Machines("-m", "256", threads=2) as m:
        level = int(m.tcp.stats()["hash_power_level"])
        loading = True

        def load():
            stream = m.server.stream()
            for start in range(0, 400000, 1000):
                if not loading:
                    return
                stream.send(b"".join(b"set load%d 0 0 8\r\n%08d\r\n" % (i, i)
                                     for i in range(start, start + 1000)))
                stream.exactly(len(b"STORED\r\n") * 1000)

        pool = concurrent.futures.ThreadPoolExecutor()
        loader = pool.submit(load)
        try:
            while True:
                found, grown = m.during(lambda: coherence.run(m, 1, 2, 1000, READS // 8, 0))
                coherence.judge(found, grown, READS // 8, 1)
                if loader.done():
                    break
        finally:
            loading = False
            loader.result()
        stats = m.tcp.stats()
        tap.ok(int(stats["hash_power_level"]) > level or stats["hash_is_expanding"] == "1",
               "the table has grown")


tap.run(coherence.SECONDS + 60)
