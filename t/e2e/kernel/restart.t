#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The kernel path over a restart: the kernel answers with the items of -e that the next server
takes over, and on the sockets that the service manager has kept."""
import os
import signal

import client
import kernel
import manager
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


@tap.case
def on_sockets_that_were_kept():
    """Also those of a server that was killed: what it had attached to them is no longer there."""
    store = manager.Store()
    with kernel.Machines(words=("tcp=on",), env=store.env) as m:
        port = m.options["port"] = m.server.port
        names = store.names()
        for name in "SIGKILL", "SIGTERM":
            m.server.signal(getattr(signal, name))
            m.server.wait()
            early = client.tcp(m.pair.address(), port)
            m.options.update(store.handed())
            m.start()
            tap.is_(store.names(), names, name + ": the next server has the same sockets")
            m.tcp.set(b"key", b"value")
            m.same(b"get key\r\n", kernel.answer((b"key", b"value")), name + ": over UDP")
            for what, stream in ("came before", early), ("comes later", m.server.stream()):
                gets, grown = m.during(lambda s=stream: [s.get(b"key") for _ in range(8)])
                tap.is_((gets, grown["tcp_answered"] > 0), ([b"value"] * 8, True),
                        "%s: over TCP to a client that %s, by the kernel" % (name, what))


tap.run()
