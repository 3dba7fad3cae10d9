#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""-e with the kernel path: the kernel answers with the items that the next server takes over."""
import os
import signal

import kernel
import server
import tap

LARGE = bytes(range(256)) * 4000


@tap.case
def the_kernel_answers_kept_items():
    path = os.path.join(server.scratch(), "memory")
    with kernel.Machines("-e", path, "-I", "2m") as m:
        for i in range(2000):
            m.tcp.send(b"set key%d 7 0 4 noreply\r\nv%03d\r\n" % (i, i % 1000))
        m.tcp.set(b"large", LARGE)
        m.tcp.set(b"short", b"x", exptime=1000)
        m.tcp.ask(b"delete key9\r\n")
        m.server.signal(signal.SIGUSR1)
        tap.is_(m.server.wait(), 0, "SIGUSR1 ends the server")
        m.start()
        m.same(b"get key8\r\n", kernel.answer((b"key8", b"v008", 7)), "an item")
        m.same(b"get key8 key9 key10 short\r\n",
               kernel.answer((b"key8", b"v008", 7), (b"key10", b"v010", 7), (b"short", b"x")),
               "a multiget")
        tap.ok(m.tcp.get(b"large") == LARGE, "a large item")
        m.tcp.set(b"key8", b"new")
        m.same(b"get key8\r\n", kernel.answer((b"key8", b"new")), "after a set, the new value")
        m.tcp.all(b"flush_all\r\n")
        tap.is_(m.udp.ask(b"get key10\r\n"), b"END\r\n", "after a flush, a miss")


tap.run()
