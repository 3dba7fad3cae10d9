#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writers over TCP, readers over UDP: no reply is older than an acknowledged write."""
import os
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "lib"))
import kernel
import tap

READS = 2000000
WRITES = 5000
SECONDS = 120


def coherence(m, writers, readers, keys, reads, period=1500):
    """What t/tool/coherence counted; its complaints go into the log."""
    words = (kernel.beside("t/tool/coherence"), m.pair.address(), m.server.port, writers, readers,
             keys, reads, WRITES, SECONDS, period)
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, timeout=SECONDS + 60)
    tap.diag(done.stderr.decode())
    tap.ok(done.returncode in (0, 1), "the run comes to its end")
    return {name: int(number) for name, number in
            (line.split() for line in done.stdout.decode().splitlines())}


def judge(found, grown, reads, flushes=2):
    tap.diag("%s; kernel: answered %d, hits %d, misses %d, busy %d" %
             (found, grown["answered"], grown["hits"], grown["misses"], grown["pass_busy"]))
    tap.ok(found["reads"] >= reads, "%d reads, at least %d" % (found["reads"], reads))
    tap.ok(found["writes"] >= WRITES and found["flushes"] >= flushes,
           "beside %d writes and %d flush_all" % (found["writes"], found["flushes"]))
    tap.is_(found["wrong"], 0, "no answer is older than an acknowledged write, none is torn")
    tap.ok(found["lost"] * 1000 <= found["reads"], "requests are not lost (%d)" % found["lost"])
    tap.ok(grown["hits"] + grown["misses"] >= 0.9 * found["reads"],
           "the kernel answered for at least 9 of 10 keys")


@tap.case
def many_keys():
    with kernel.Machines(threads=2) as m:
        found, grown = m.during(lambda: coherence(m, 2, 2, 1000, READS))
        judge(found, grown, READS)


@tap.case
def few_keys():
    with kernel.Machines(threads=2) as m:
        found, grown = m.during(lambda: coherence(m, 3, 2, 12, READS // 4))
        judge(found, grown, READS // 4)


@tap.case
def two_keys():
    """Memory is given back and taken again while the kernel reads it: without the sequence
    counters about one answer in 500,000 is torn here."""
    with kernel.Machines(threads=2) as m:
        found, grown = m.during(lambda: coherence(m, 2, 1, 2, READS + READS // 2))
        judge(found, grown, READS)


@tap.case
def pages_that_move():
    """The same while the mover takes pages, with room for what is in them, all the time."""
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
            found, grown = m.during(lambda: coherence(m, 2, 2, 1000, READS // 2))
        finally:
            moving = False
            mover.join()
        judge(found, grown, READS // 2)
        stats = m.tcp.stats()
        tap.diag("%s pages moved, %s items" %
                 (stats["slabs_moved"], stats["slab_reassign_rescues"]))
        tap.ok(int(stats["slabs_moved"]) > int(before["slabs_moved"]) + 100 and
               int(stats["slab_reassign_rescues"]) > 1000, "pages were moved")
        tap.is_(stats["evictions"], "0", "without evictions")


@tap.case
def a_table_that_grows():
    """The same while 400,000 other keys come in and the table grows sixfold."""
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

        loader = threading.Thread(target=load)
        loader.start()
        try:
            while True:
                found, grown = m.during(lambda: coherence(m, 1, 2, 1000, READS // 8, 0))
                judge(found, grown, READS // 8, 1)
                if not loader.is_alive():
                    break
        finally:
            loading = False
            loader.join()
        stats = m.tcp.stats()
        tap.ok(int(stats["hash_power_level"]) > level or stats["hash_is_expanding"] == "1",
               "the table did grow")


tap.run(SECONDS + 60)
