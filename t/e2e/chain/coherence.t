#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writers over TCP and readers over UDP through the chain: no reply is older than an
acknowledged write, also while `bmc` is killed at random moments and started again: KILLS times
(10). READS is how many keys each run reads. SEED repeats the moments."""
import os
import random
import struct
import threading
import time

import chain
import coherence
import netns
import server
import tap
from kernel import answer

READS = int(os.environ.get("READS", "50000"))
KILLS = int(os.environ.get("KILLS", "10"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
SERVE = 0.1 # seconds
SETTLE = 500 # ms: longer than a busy machine delays a server


each = chain.Each(threads=2, chain={"settle": SETTLE})


def run(m, writers, readers, keys, ratio, period=500):
    """Debian's memcached answers each key of a get over UDP in a reply of its own: there it is
    one key."""
    found, grown = m.during(lambda: coherence.run(
        m, writers, readers, keys, READS, period, READS // 100, 1 if m.bmc else 8, ratio))
    coherence.judge(found, grown, READS, 0, READS // 100, 0)
    tap.diag(", ".join("%s %d" % row for row in sorted(grown.items()) if row[1]))
    return grown["hits"] / found["reads"]


@each.case
def thirty_reads_to_a_write(m):
    share = run(m, 1, 2, 300, 30, 0)
    tap.ok(share > 0.1,
           "the kernel answers a tenth of the keys, whatever command reads them")


@each.case
def few_keys(m):
    run(m, 3, 2, 12, 10)


@tap.case
def keys_that_share_buckets():
    with chain.Machines(chain.DEBIAN, threads=2, chain={"settle": SETTLE, "entries": 64}) as m:
        run(m, 2, 2, 1000, 30)


def burst(m, keys):
    """The values of many keys, many requests at a time."""
    udp, found = m.server.udp(), {}
    for start in range(0, len(keys), 32):
        part = dict(enumerate(keys[start:start + 32]))
        for i, key in part.items():
            udp.send(b"get %s\r\n" % key, ident=i)
        for _ in part:
            datagram = udp.recv_raw()
            found[part[struct.unpack("!H", datagram[:2])[0]]] = datagram[8:]
    udp.close()
    return found


@each.case
def a_bulk_load(m):
    """All keys are overwritten three times without waiting, while they are read."""
    keys, going = [b"bulk%d" % i for i in range(5000)], True

    def read():
        udp = m.server.udp()
        while going:
            try:
                for i in range(32):
                    udp.send(b"get %s\r\n" % random.choice(keys), ident=i)
                for i in range(32):
                    udp.recv_raw()
            except TimeoutError:
                pass
        udp.close()

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for version in range(3):
            for start in range(0, len(keys), 500):
                m.tcp.all(b"".join(b"set %s 0 0 7 noreply\r\n%07d\r\n" % (key, version)
                                   for key in keys[start:start + 500]))
    finally:
        going = False
        for reader in readers:
            reader.join()
    want = {key: answer((key, b"%07d" % version)) for key in keys}
    wrong, turns = [], 0

    def look():
        nonlocal turns
        turns += 1
        found, grown = m.during(lambda: burst(m, keys))
        wrong.extend(key for key in keys if found[key] != want[key])
        return wrong or grown["answered"] > 0.9 * len(keys)

    tap.ok(server.wait_for(look), "the kernel answers nine tenths of %d keys" % len(keys))
    tap.is_(wrong[:3], [], "all values are right after a bulk load, read %d times" % turns)


each.end()


def clean(m):
    """Whether nothing of the chain is left on the interface."""
    return (netns.xdp_mode("sv0", m.pair.server), netns.tc_programs("sv0", m.pair.server)) == (
        None, [])


class Killed:
    """A server under load, whose `bmc` is killed and started. Every second time the server is a
    new one, and `bmc` is started before it: it sees connections from their start."""

    def __init__(self, m):
        self.m, self.number = m, 0
        m.bmc.stop()
        m.options["port"] = m.server.port
        self.lives = coherence.Lives(m.pair.address(), m.server.port, 2, 2, 400, 1, 1)

    def kill(self, how):
        """Kills it at a moment while it starts, serves, or ends: (clean, whether it had
        answered)."""
        m, answered, fresh = self.m, 0, self.number % 2 == 0
        self.number += 1
        if fresh:
            m.server.kill()
            self.lives.life(self.number, self.number, self.number)
        m.cover(wait=how != "starts")
        if fresh:
            m.serve()
        if how == "serves":
            server.wait_for(lambda: m.bmc.stats().get("answered_xdp", "0") != "0", 5)
        time.sleep(random.uniform(0, SERVE))
        if how != "starts":
            answered = int(m.bmc.stats()["answered_xdp"])
        if how == "ends":
            m.bmc.process.terminate()
            time.sleep(random.uniform(0, SERVE / 3))
        m.bmc.kill()
        return server.wait_for(lambda: clean(m)), answered > 0


@tap.case
def bmc_is_killed():
    random.seed(SEED)
    tap.diag("SEED=%d" % SEED)
    # Every command has a reply here, which may be late.
    with chain.Machines(chain.DEBIAN, "-m", 64, threads=2, chain={"settle": 10}) as m:
        killed, unclean, answered = Killed(m), 0, 0
        for i in range(KILLS):
            gone, had = killed.kill(("serves", "starts", "ends")[i % 3])
            unclean += not gone
            answered += had
        counts = killed.lives.counts()
        tap.diag(counts)
        tap.is_(unclean, 0, "%d kills leave no program on the interface, on XDP nor TC" % KILLS)
        tap.ok(answered >= KILLS // 6, "the kernel had answered before %d of them" % answered)
        tap.ok(counts["hits"] > 100 * KILLS and counts["writes"] > 100 * KILLS,
               "the servers were under load")
        killed.lives.end("no value is old or damaged, none is missing")
        m.cover()
        m.tcp, m.udp = m.server.stream(), m.server.udp()
        m.ready()
        tap.ok(True, "the next bmc answers")


tap.run(coherence.SECONDS + 60 + KILLS)
