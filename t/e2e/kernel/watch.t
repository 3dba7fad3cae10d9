#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""While gets or requests are watched, the kernel passes every request to the server."""

import kernel
import server
import tap
from watching import Watcher


def bypassed(machines):
    return machines.tcp.stats("bmc")["bypass"] != "0"


@tap.case
def the_kernel_is_bypassed_while_gets_are_watched():
    with kernel.Machines() as m:
        m.tcp.set(b"k", b"value")
        want = kernel.answer((b"k", b"value"))
        for words in ("fetchers", "", "rawcmds", "mutations fetchers"):
            m.same(b"get k\r\n", want, "before: a hit by the kernel")
            w = Watcher(m.server, words)
            m.same(b"get k\r\n", want, "watch %s: a hit by the server" % words, kernel=False)
            m.same(b"get no\r\n", b"END\r\n", "watch %s: a miss" % words, kernel=False)
            if "fetchers" in words:
                tap.is_([line["key"] for line in w.lines(m.tcp)], ["k", "no"],
                        "the watcher gets both")
            w.close()
            tap.ok(server.wait_for(lambda: not bypassed(m)),
                   "after the watcher has left the bypass ends")
            m.same(b"get k\r\n", want, "after: a hit by the kernel")


@tap.case
def other_watchers_do_not_bypass_the_kernel():
    with kernel.Machines() as m:
        m.tcp.set(b"k", b"value")
        w = Watcher(m.server, "mutations evictions sysevents connevents deletions")
        m.same(b"get k\r\n", kernel.answer((b"k", b"value")), "a hit by the kernel")
        w.close()


@tap.case
def the_bypass_ends_with_the_last_watcher():
    with kernel.Machines() as m:
        m.tcp.set(b"k", b"value")
        want = kernel.answer((b"k", b"value"))
        first, second = Watcher(m.server), Watcher(m.server)
        first.close()
        second.lines(m.tcp)
        m.same(b"get k\r\n", want, "after one of two watchers has left", kernel=False)
        m.tcp.all(b"stats detail on\r\n")
        second.close()
        m.same(b"get k\r\n", want, "while stats detail is on", kernel=False)
        m.tcp.all(b"stats detail off\r\n")
        tap.ok(server.wait_for(lambda: not bypassed(m)), "after all have ended the bypass ends")
        m.same(b"get k\r\n", want, "a hit by the kernel")


tap.run()
