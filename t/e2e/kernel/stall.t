#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""A server that does not run: for how long the kernel answers in its place."""

import child
import client
import kernel
import server
import tap
from kernel import answer
from stuck import Stuck, threads

STALL = "bmc=sv0,stall=4" # with 2 it would count if one of the renewals each second is late

def asks(m, request=b"get k\r\n", seconds=0.3):
    """The answer to one request over a socket of its own; None: there is none."""
    udp = client.Udp(m.pair.address(), m.server.port, seconds)
    try:
        return udp.ask(request)
    except TimeoutError:
        return None
    finally:
        udp.close()


def falls_silent(m):
    """Twice in a row: a single answer may be late."""
    return server.wait_for(lambda: asks(m) is None and asks(m) is None, 30)


def goes_on(m, stalls):
    """Checks that the kernel answers again by itself."""
    tap.ok(server.wait_for(lambda: m.by_kernel(b"get k\r\n")[1]),
           "the kernel answers again by itself")
    counts = m.counts()
    tap.is_(counts["stalls"], stalls, "`stalls` counts how often the server did not run")
    tap.ok(counts["pass_stopped"] > 0, "the requests passed meanwhile are counted")
    tap.is_(server.logged(m.server, "stopped or stuck", stalls), stalls,
            "each stall is logged in one line")


@tap.case
def a_server_that_is_stopped():
    with kernel.Machines("-o", STALL) as m:
        m.tcp.set(b"k", b"v")
        m.tcp.set(b"short", b"v", exptime=1)
        m.same(b"get k\r\n", answer((b"k", b"v")), "while the server runs")
        for stalls in (1, 2):
            m.server.pause()
            tap.is_(asks(m, seconds=3), answer((b"k", b"v")),
                    "for some time the kernel answers for a stopped server")
            tap.ok(falls_silent(m),
                   "after it the kernel passes all requests to the server, which does not answer")
            tap.is_(asks(m, b"get none\r\n"), None, "misses are passed as well")
            tap.is_(asks(m, b"get k none short\r\n"), None,
                    "requests of several keys are passed as well")
            m.server.resume()
            goes_on(m, stalls)
        tap.is_(m.udp.ask(b"get short\r\n"), b"END\r\n",
                "an item that expired meanwhile is missing")
        m.tcp.ask(b"stats reset\r\n")
        tap.is_(m.counts()["pass_stopped"], 0, "`stats reset` sets the count to 0")


@tap.case
def a_worker_that_is_stuck():
    with kernel.Machines("-o", STALL, threads=1) as m:
        m.tcp.set(b"k", b"v")
        # Workers are started last.
        with Stuck(threads(m.server.pid, kernel=True)[-1]):
            tap.is_(asks(m, seconds=3), answer((b"k", b"v")),
                    "for some time the kernel answers while a worker is stuck")
            tap.ok(falls_silent(m), "after it the kernel passes all requests")
        goes_on(m, 1)


@tap.case
def a_main_thread_that_is_stuck():
    with kernel.Machines("-o", STALL) as m:
        m.tcp.set(b"k", b"v")
        with Stuck(m.server.pid):
            # The workers still run: they answer the requests that the kernel passes.
            grown = server.wait_for(lambda: m.counts()["pass_stopped"] > 0 or not asks(m), 30)
            tap.ok(grown, "the kernel passes its requests to the workers")
            tap.is_(asks(m, seconds=client.SECONDS), answer((b"k", b"v")),
                    "the workers answer them")
        goes_on(m, 1)


# The first thread after the attachment of the programs, the third in all, is started three seconds
# later.
LATE = ("strace", "-D", "-o", "/dev/null", "-e", "trace=clone,clone3", "-e",
        "inject=clone,clone3:delay_enter=3000000:when=3")


@tap.case
def a_start_that_takes_long():
    if not tap.has("strace"):
        return
    with kernel.Machines("-o", "bmc=sv0,stall=2", prefix=LATE) as m:
        m.tcp.set(b"k", b"v")
        tap.ok(server.wait_for(lambda: m.by_kernel(b"get k\r\n")[1]),
               "the kernel answers when a start has taken longer than stall=")
        tap.is_((m.counts()["stalls"], m.server.log().count("stopped or stuck")), (0, 0),
                "it is no stall")


@tap.case
def for_ever():
    with kernel.Machines("-o", "bmc=sv0,stall=0") as m:
        m.tcp.set(b"k", b"v")
        m.server.pause()
        tap.ok(not server.wait_for(lambda: asks(m, seconds=3) is None, 3, 0.1),
               "with stall=0 the kernel answers as long as its programs are attached")
        m.server.resume()
        tap.is_(m.counts()["stalls"], 0, "with stall=0 stalls are not counted")


@tap.case
def no_false_alarm():
    """Thousands of connections are opened and closed, beside readers and writers."""
    with kernel.Machines("-o", "bmc=sv0,stall=5", threads=2) as m:
        words = (kernel.beside("t/tool/coherence"), m.pair.address(), m.server.port, 2, 2, 1000,
                 150000, 1000, 20, 500)
        load = child.Child(words, "t/tool/coherence")
        came = 0
        while load.alive():
            streams = [m.server.stream() for _ in range(100)]
            for stream in streams:
                stream.ask(b"get k\r\n")
                stream.close()
            came += len(streams)
        counts = m.counts()
        tap.diag("%d connections, %d answers by the kernel" % (came, counts["answered"]))
        tap.is_(load.wait(), 0, "the load found no wrong answer")
        tap.is_((counts["stalls"], counts["pass_stopped"]), (0, 0),
                "under load no stall is counted")


tap.run()
