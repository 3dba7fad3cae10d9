#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A server that does not run: for how long the kernel answers in its place."""
import ctypes
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
import child
import client
import kernel
import server
import tap
from kernel import answer

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000
STALL = "bmc=sv0,stall=2"

libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, tid):
    if libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def threads(pid):
    """In the order in which they were started."""
    return sorted(int(tid) for tid in os.listdir("/proc/%d/task" % pid))


class Stuck:
    """One thread of a process does not run."""

    def __init__(self, tid):
        self.tid = tid

    def __enter__(self):
        ptrace(PTRACE_SEIZE, self.tid)
        ptrace(PTRACE_INTERRUPT, self.tid)
        os.waitpid(self.tid, WALL)

    def __exit__(self, *_):
        ptrace(PTRACE_DETACH, self.tid)


def asks(m, request=b"get k\r\n"):
    """One answer over a socket of its own; None: there is none."""
    udp = client.Udp(m.pair.address(), m.server.port, 0.2)
    try:
        return udp.ask(request)
    except TimeoutError:
        return None
    finally:
        udp.close()


def falls_silent(m):
    """Twice in a row: a single answer may be late."""
    return server.wait_for(lambda: asks(m) is None and asks(m) is None, 15)


def goes_on(m, stalls):
    """The kernel answers again, without being told to."""
    tap.ok(server.wait_for(lambda: m.by_kernel(b"get k\r\n")[1], 15),
           "the kernel goes on by itself")
    counts = m.counts()
    tap.is_(counts["stalls"], stalls, "`stalls` tells how often")
    tap.ok(counts["pass_stopped"] > 0, "what it left to the server meanwhile is counted")
    said = re.findall(r"^bmc: .*stopped or stuck for \d+ s.*$", m.server.log(), re.M)
    tap.is_(len(said), stalls, "and it is said, in one line each")


@tap.case
def a_server_that_is_stopped():
    with kernel.Machines("-o", STALL) as m:
        m.tcp.set(b"k", b"v")
        m.tcp.set(b"short", b"v", exptime=1)
        m.same(b"get k\r\n", answer((b"k", b"v")), "while it runs")
        for stalls in (1, 2):
            m.server.pause()
            tap.is_(asks(m), answer((b"k", b"v")), "for a while the kernel answers without it")
            tap.ok(falls_silent(m), "and then leaves everything to it, which does not answer")
            tap.is_(asks(m, b"get none\r\n"), None, "misses too")
            tap.is_(asks(m, b"get k none short\r\n"), None, "and requests of several keys")
            m.server.resume()
            goes_on(m, stalls)
        tap.is_(m.udp.ask(b"get short\r\n"), b"END\r\n", "what expired meanwhile is gone")
        m.tcp.ask(b"stats reset\r\n")
        tap.is_(m.counts()["pass_stopped"], 0, "`stats reset` resets the count")


@tap.case
def a_worker_that_is_stuck():
    with kernel.Machines("-o", STALL, threads=1) as m:
        m.tcp.set(b"k", b"v")
        # Workers are started last.
        with Stuck(threads(m.server.pid)[-1]):
            tap.is_(asks(m), answer((b"k", b"v")), "while a worker is stuck the kernel answers")
            tap.ok(falls_silent(m), "for a while only")
        goes_on(m, 1)


@tap.case
def a_main_thread_that_is_stuck():
    with kernel.Machines("-o", STALL) as m:
        m.tcp.set(b"k", b"v")
        with Stuck(m.server.pid):
            # The workers still serve: what the kernel leaves to them is answered.
            grown = server.wait_for(lambda: m.counts()["pass_stopped"] > 0 or not asks(m), 15)
            tap.ok(grown, "the kernel leaves its requests to the workers")
            tap.is_(asks(m), answer((b"k", b"v")), "which answer")
        goes_on(m, 1)


@tap.case
def for_ever():
    with kernel.Machines("-o", "bmc=sv0,stall=0") as m:
        m.tcp.set(b"k", b"v")
        m.server.pause()
        tap.ok(not server.wait_for(lambda: asks(m) is None, 3, 0.1),
               "stall=0: as long as its programs are attached")
        m.server.resume()
        tap.is_(m.counts()["stalls"], 0, "and nothing of it is noticed")


@tap.case
def no_false_alarm():
    """Connections come and go by the thousand, beside readers and writers."""
    with kernel.Machines("-o", "bmc=sv0,stall=3", threads=2) as m:
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
                "under load the server is never taken for one that does not run")


tap.run()
