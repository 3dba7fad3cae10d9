#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""A server in a time namespace (time_namespaces(7)), whose CLOCK_MONOTONIC is not the kernel's."""
import subprocess
import sys
import time

import chain
import kernel
import server
import tap
from kernel import answer

DAY = 86400


def shifted(seconds):
    """Words before a program's command line, so that its clock is ahead by that much, or None."""
    words = ["unshare", "--time", "--monotonic=%d" % seconds]
    clock = [sys.executable, "-c", "import time; print(time.monotonic())"]
    done = subprocess.run(words + clock, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False)
    if done.returncode or abs(float(done.stdout) - time.monotonic() - seconds) > 100:
        return None
    return words


def clocks():
    """(name, words): one clock that is ahead, and one that is behind."""
    behind = -int(time.monotonic() / 2)
    return [("ahead", shifted(DAY)), ("behind", shifted(behind))]


@tap.case
def items_expire_by_the_servers_clock():
    for name, words in clocks():
        for mode in ("native", "tc"):
            where = "%s, %s" % (name, mode)
            with kernel.Machines(mode=mode, prefix=words, words=["stall=2"]) as m:
                m.tcp.set(b"k", b"v")
                m.same(b"get k\r\n", answer((b"k", b"v")), where)
                m.tcp.set(b"long", b"v", exptime=1000)
                m.same(b"get long\r\n", answer((b"long", b"v")), where + ": of 1,000 seconds")
                got, answered = m.by_kernel(b"mg long t\r\n")
                tap.ok(answered and got in [b"HD t%d\r\n" % left for left in range(980, 1001)],
                       where + ": exactly the items that have not expired are answered (%r)" % got)
                m.tcp.set(b"short", b"v", exptime=1)
                tap.ok(server.wait_for(lambda: m.udp.ask(b"get short\r\n") == b"END\r\n"),
                       where + ": an item of one second, stored after that, expires")
                m.server.pause()
                tap.ok(server.wait_for(lambda: m.silent(b"get k\r\n")),
                       where + ": the kernel stops answering for a server that is stopped")
                m.server.resume()
                m.udp = m.server.udp()
                tap.ok(server.wait_for(lambda: m.by_kernel(b"get k\r\n")[1]),
                       where + ": it answers again when the server runs")


@tap.case
def the_chain_is_closed_and_opens():
    for name, words in clocks():
        with chain.Machines(chain.OURS, prefix=words) as m:
            m.tcp.set(b"k", b"v")
            m.same(b"get k\r\n", answer((b"k", b"v")), "the chain, " + name)
            m.tcp.set(b"k", b"w")
            m.same(b"get k\r\n", answer((b"k", b"w")),
                   "the chain answers again after a set, %s" % name)


if None in [words for _, words in clocks()]:
    tap.skip_all("time namespaces are not available")
tap.run()
