#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""The server itself is linearizable, without the kernel path: porcupine judges histories over
TCP, UDP and unix sockets, in text and binary. See linear.py and t/e2e/kernel/linear.t."""
import os

import linear
import server
import tap


def played(*words, arguments=(), seconds=None, **options):
    with server.Server(*arguments, **options) as m:
        where = (("-unix", m.unix_path) if m.unix_path else
                 ("-udp", "-address", "127.0.0.1:%d" % m.port))
        linear.judge(linear.run(*where, *words, seconds=seconds))
        return m.stats()


@tap.case
def the_judge():
    tap.ok(linear.judges_itself(), "wrong histories are rejected, right ones are not")


@tap.case
def tcp_and_udp():
    stats = played("-flush", "500ms")
    tap.is_(stats["evictions"], "0", "without evictions")


@tap.case
def a_unix_socket():
    played("-flush", "100ms", "-crawls",
           unix=os.path.join(server.scratch(), "memcached.sock"))


@tap.case
def memory_pressure():
    stats = played("-evicts", "-churn", 20000, "-fillers", 60000, "-crawls", "-moves", arguments=(
        "-m", "8", "-o", "slab_automove=2"), threads=4)
    tap.ok(int(stats["evictions"]) > 100, "items were evicted")


@tap.case
def keys_that_expire():
    """The same without the LRU threads, and with one UDP socket."""
    played("-expire", 70, "-lull", "3s", "-groups", 8, "-history", 10000,
           seconds=max(linear.SECONDS, 4),
           arguments=("-o", "no_lru_maintainer,no_lru_crawler,no_reuseport"), threads=4)


tap.run(linear.SECONDS + 300)
