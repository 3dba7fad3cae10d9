#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The kernel path behind the filter of -o drop_privileges: maps grow, links are detached, memory
is kept."""

import again
import kernel
import server
import tap

BUILT_IN = "no_drop_privileges" in server.run("-h")[1]


@tap.case
def the_heap_grows_behind_the_filter():
    with kernel.Machines("-m", "200", *(["-o", "drop_privileges"] if BUILT_IN else [])) as m:
        value = b"v" * 50000
        for i in range(2000):
            m.tcp.send(b"set key%d 0 0 50000 noreply\r\n%s\r\n" % (i, value))
        m.tcp.set(b"last", b"value")
        stats = m.tcp.stats()
        tap.is_((stats["curr_items"], stats["evictions"]), ("2001", "0"), "100 MB are stored")
        m.same(b"get last\r\n", kernel.answer((b"last", b"value")),
               "the kernel answers with the last of them")


@tap.case
def the_other_tests_pass_behind_the_filter():
    if BUILT_IN:
        again.all_pass(("kernel/path", "kernel/restart"), 1, T_ARGS="-o drop_privileges")


tap.run(600)
