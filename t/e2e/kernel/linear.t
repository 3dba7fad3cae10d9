#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The kernel path is linearizable: porcupine judges what clients saw over TCP and UDP, in text and
binary, of get, set, add, replace, cas, append, delete, incr, decr, touch, gat and flush_all; with
tcp=on too, where the kernel answers gets over both.

Each case is a run of t/linear beside something that moves memory. LINEAR_SECONDS is the length of
each; linear.py has the details.
"""

import contextlib
import signal
import threading

import cable
import kernel
import linear
import netns
import server
import tap

SHARE = 0.9

linear.program()


def over_veth(*words, arguments=(), share=SHARE, seconds=None, host="10.77.0.1", kernels=(),
              has=()):
    """has: (what has to happen meanwhile, a function of what was counted and of `stats`)."""
    with kernel.Machines(*arguments, threads=2, listen="0.0.0.0,::", words=kernels) as m:
        found = linear.judge(linear.run(
            "-udp", "-address", "%s:%d" % (host, m.server.port), *words, seconds=seconds,
            enough=lambda found: all(happened(found, m.tcp.stats()) for _, happened in has)),
                             UDP=share)
        stats = m.tcp.stats()
        for name, happened in has:
            if not tap.ok(happened(found, stats), name):
                tap.diag(stats)
        return stats


MOVED = ("pages were moved", lambda _, stats: int(stats["slabs_moved"]) > 20)
EVICTED = ("items were evicted", lambda _, stats: int(stats["evictions"]) > 1000)


@tap.case
def only_clients():
    stats = over_veth()
    tap.is_(stats["evictions"], "0", "without evictions")


@tap.case
def few_keys_and_many_at_once():
    """Values are written in bursts, and memory is reused while the kernel reads it."""
    for host in "10.77.0.1", "[fd77:0::1]":
        over_veth("-groups", 4, "-keys", 1, "-clients", 3, "-udp-reads", 100, "-burst", 16,
                  "-window", 6, "-reads", 90, "-history", 3000, host=host)


@tap.case
def over_loopback():
    pair = netns.Pair()
    netns.enter(pair.server)
    with server.Server("-X", "bmc=lo") as m:
        linear.judge(linear.run("-udp", "-address", "127.0.0.1:%d" % m.port), UDP=SHARE)
    pair.close()


@tap.case
def memory_pressure():
    """Items are evicted all the time, the crawler runs, automove moves pages."""
    over_veth("-evicts", "-churn", 20000, "-fillers", 60000, "-crawls", "-flush", "1s",
              arguments=("-m", "8", "-o", "slab_automove=2"), has=(
                  EVICTED, ("others were stored", lambda found, _: found["churned"] > 1000),
                  ("the crawler ran", lambda _, stats: int(stats["lru_crawler_starts"]) > 10)))


@tap.case
def a_table_that_grows():
    stats = over_veth(
        "-grow", 40000000, "-grow-rate", 40000,
        arguments=("-m", "4096", "-o", "hashpower=12,slab_automove=0"), has=(
            ("the table grew", lambda found, stats: int(stats["hash_power_level"]) > 12 and
             found["grown"] > 10000),))
    tap.is_(stats["evictions"], "0", "without evictions")


@tap.case
def pages_that_move():
    stats = over_veth("-moves", "-crawls", arguments=("-m", "256", "-o", "slab_automove=0"),
                      has=(MOVED,))
    tap.is_(stats["evictions"], "0", "without evictions")


@tap.case
def a_storm_of_flushes():
    over_veth("-flush", "20ms", "-churn", 1000)


@tap.case
def keys_that_expire_in_pages_that_move():
    """An item that lost its expiry in a move would be found for ever."""
    over_veth("-expire", 70, "-lull", "3s", "-groups", 8, "-history", 10000, "-moves",
              "-udp-reads", 95, share=0.5, seconds=max(linear.SECONDS, 4),
              arguments=("-m", "256", "-o", "slab_automove=0"), has=(MOVED,))


@tap.case
def keys_that_expire():
    """The expiring keys are not written for long enough; clients see each of them expire, and
    stay missing."""
    over_veth("-expire", 70, "-lull", "3s", "-groups", 8, "-history", 10000,
              "-udp-reads", 95, share=0.5,
              seconds=max(linear.SECONDS, 4))


# --- what the kernel does not answer comes by rings ---------------------------------------------

# Half of the writes are datagrams, and so come by a ring, as do gets that the kernel passes.
DATAGRAMS = ("-udp-reads", 80, "-udp-writes", 50)


def by_rings(*words, share=SHARE, **options):
    over_veth(*DATAGRAMS, *words, share=share, kernels=("xsk=on",), **options)


@tap.case
def writes_by_rings():
    for host in "10.77.0.1", "[fd77:0::1]":
        by_rings("-window", 4, "-burst", 16, "-flush", "500ms", host=host)


@tap.case
def writes_by_rings_with_memory_pressure():
    by_rings("-evicts", "-churn", 20000, "-fillers", 60000, "-crawls",
             arguments=("-m", "8", "-o", "slab_automove=2"), has=(EVICTED,))


# --- the kernel answers over TCP, too ---------------------------------------------------------

# Connections that read and write in turn, on which several requests are in flight at times, and
# some of which are reset before an answer.
STREAMS = ("-udp-reads", 50, "-rows", 10, "-abort", 0.001, "-redial", 0.001)


def by_both(found):
    return min(found["kernel_tcp_answered_xdp"], found["kernel_tcp_answered_tc"]) > 0


def over_tcp(host, *words, mode="native", pair=None, least=0.4, arguments=(), enough=None,
             beside=contextlib.nullcontext, udp=None):
    """least, udp: the share of the gets that the kernel has to answer over TCP, over UDP. beside:
    what happens meanwhile, to the machines."""
    enough = enough or (by_both if mode == "native" else lambda found: True)
    listen = "0.0.0.0,::" if "." in host else "::,0.0.0.0" # over TCP it answers for the first
    with kernel.Machines("-m", "256", *arguments, threads=2, words=("tcp=on",), mode=mode,
                         pair=pair, listen=listen) as m:
        with beside(m):
            done = linear.run("-udp", "-address", "%s:%d" % (host, m.server.port), *STREAMS,
                              *words, enough=enough)
        found = linear.judge(done, UDP=udp or (0.7 if pair else SHARE), TCP=least)
    by = [found["kernel_tcp_answered_" + way] for way in ("xdp", "tc")]
    if mode == "native":
        tap.ok(min(by) > 0, "by XDP %d over TCP, by TC %d" % tuple(by))
    return found


@tap.case
def over_tcp_and_udp():
    found = over_tcp("10.77.0.1", "-flush", "500ms")
    tap.is_(found["resets"], 0, "the server resets no connection")


@tap.case
def over_tcp_with_memory_pressure():
    """By TC alone. No connection is reset before an answer here: what became of its write would not
    be known, where any key may disappear."""
    found = over_tcp("[fd77:0::1]", "-evicts", "-churn", 20000, "-fillers", 60000, "-crawls",
                     "-abort", 0, mode="tc", arguments=("-m", "8", "-o", "slab_automove=2"))
    tap.is_(found["resets"], 0, "the server resets no connection")


@tap.case
def over_tcp_through_a_bad_network():
    """UDP has gets alone: a datagram that arrives twice would be executed twice."""
    bad = cable.Pair("--loss", 0.01, "--duplicate", 0.05, "--reorder", 0.05, "--jitter", 1)
    found = over_tcp("10.77.0.1", "-groups", 6, "-udp-writes", 0, "-repeats", "-single",
                     "-patience", "100ms", pair=bad, least=0.2,
                     enough=lambda found: by_both(found) and found["kernel_tcp_resent"] > 0)
    tap.ok(found["kernel_tcp_resent"] > 0, "%d replies were sent again over TCP" %
           found["kernel_tcp_resent"])


# Seconds: a connection is undone again, and followed again, when 2 have passed.
FIRST_OFF, OFF_EVERY, OFF_FOR = 0.3, 3, 0.02
UNDONE = 10


@contextlib.contextmanager
def switched(m):
    """The kernel path is switched off, and on again, all the time."""
    over = threading.Event()

    def switch():
        pause = FIRST_OFF
        while not over.wait(pause):
            m.server.signal(signal.SIGUSR2)
            over.wait(OFF_FOR)
            m.server.signal(signal.SIGUSR2)
            pause = OFF_EVERY

    thread = threading.Thread(target=switch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@tap.case
def over_tcp_while_connections_are_undone():
    """Each that the kernel has answered on gets another socket, with gets in flight on it, and is
    followed again."""
    def undone(found):
        return found["kernel_tcp_undone_off"]

    found = over_tcp("10.77.0.1", "-rows", 30, "-redial", 0, beside=switched, udp=0.3, least=0.1,
                     enough=lambda found: by_both(found) and undone(found) > UNDONE)
    tap.is_(found["resets"], 0, "the server resets no connection")
    tap.ok(undone(found) > UNDONE, "%d connections were undone" % undone(found))


tap.run(linear.SECONDS + 300)
