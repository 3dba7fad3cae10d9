#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""What the kernel knows of TCP connections that have ended the server removes within a minute or
two: it takes that time, since their last segments may be on the way."""

import asking
import netns
import server
import tap

ENDED, SECONDS = 300, 80 # TCP_SWEEP_S of memcached/iface/monitor.c, and some


@tap.case
def ended_connections_are_swept():
    with asking.Machines(None, netns.Pair()) as m:
        before = asking.entries_bytes(m)
        tap.ok(all([asking.two_gets(m) for _ in range(ENDED)]), "%d connections are served" % ENDED)
        tap.ok(asking.entries_bytes(m) > before, "each has an entry when it has ended")
        tap.ok(server.wait_for(lambda: asking.entries_bytes(m) <= before, SECONDS, every=1),
               "the server removes them")


tap.run()
