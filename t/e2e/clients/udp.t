#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real clients over UDP through the kernel path: which requests it answers, and which it passes.

pymemcache speaks text; its session gives it sockets that add the UDP frame header. The crate
memcache speaks UDP itself, but only the binary protocol over it.
"""

import netns
import server
import sessions
import tap

machine = netns.Pair(links=0)


def on_lo(name, words):
    """Runs the session on a machine of its own, over lo; returns how many datagrams the kernel
    answered, how many it saw, and cmd_get."""
    with netns.inside(machine.server), server.Server("-X", "bmc=lo") as memcached:
        sessions.session(name, [word.replace("PORT", str(memcached.port)) for word in words])
        counts = memcached.stats("bmc")
        gets = int(memcached.stats()["cmd_get"])
    answered = int(counts["answered_xdp"]) + int(counts["answered_tc"])
    return answered, int(counts["packets_seen"]), gets


@tap.case
def the_kernel_answers_pymemcache():
    words = sessions.python(sessions.python_of_debian(), "pymemcache", "PORT", "udp")
    answered, seen, gets = on_lo("pymemcache over UDP", words)
    tap.diag("%d datagrams, %d answered by the kernel, %d gets" % (seen, answered, gets))
    tap.ok(answered >= 100, "the kernel answers pymemcache's gets")
    tap.ok(seen > answered, "it passes the other commands to the server")


@sessions.everywhere
def the_kernel_answers_a_binary_client():
    answered, seen, _ = on_lo("memcache of Rust over UDP",
                              [sessions.rust(), "memcache+udp://127.0.0.1:PORT"])
    tap.diag("%d datagrams, %d answered by the kernel" % (seen, answered))
    tap.ok(answered >= 100, "the kernel answers the client's binary gets")
    tap.ok(seen > answered, "it passes the other commands to the server")


tap.run(sessions.SECONDS)
