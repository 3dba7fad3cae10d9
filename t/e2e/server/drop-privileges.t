#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""-o drop_privileges: the system calls that serving needs are allowed, and no others. Calls that
the filter forbids are tested one by one in t/unit/seccomp.c."""
import os
import re

import again
import child
import server
import tap
from daemon import Daemon

# These run again, some each day, with each of their servers behind the filter. T_ARGS does the same
# for any tier.
AGAIN = """text-storage text-retrieval udp connections binary tls sasl auth-file watch restart
flash""".split()
BUILT_IN = "no_drop_privileges" in server.run("-h")[1]


def filters(memcached):
    """The field of each thread in /proc: 0 no filter, 2 a filter."""
    return [re.search(r"^Seccomp:\s*(\d)", text, re.M).group(1)
            for text in child.of_threads(memcached.pid, "status").values()]


@tap.case
def a_build_without_libseccomp_refuses_it():
    if BUILT_IN:
        return
    status, _, error = server.run("-o", "drop_privileges")
    tap.is_((status, error), (64, "This server is not built with seccomp support.\n"),
            "drop_privileges is refused")
    with server.Server("-o", "no_drop_privileges,relaxed_privileges") as memcached:
        tap.ok("drop_privileges" not in memcached.stats("settings"),
               "no_drop_privileges is accepted, and has no setting")


@tap.case
def every_thread_is_behind_the_filter():
    if not BUILT_IN:
        return
    with server.Server() as memcached:
        if "T_ARGS" not in os.environ:
            tap.is_(set(filters(memcached)), {"0"}, "by default there is no filter")
            tap.is_(memcached.stats("settings")["drop_privileges"], "no", "stats settings shows no")
    with server.Server("-o", "drop_privileges", threads=4) as memcached:
        found = filters(memcached)
        tap.ok(len(found) >= 5, "there are workers (%d threads)" % len(found))
        tap.is_(set(found), {"2"}, "with drop_privileges each thread has a filter")
        tap.is_(memcached.stats("settings")["drop_privileges"], "yes", "stats settings shows yes")
        c = memcached.stream()
        c.set(b"k", b"v" * 100000)
        tap.is_(c.get(b"k"), b"v" * 100000, "it serves")
        memcached.signal(1)
        tap.is_(c.get(b"k"), b"v" * 100000, "it serves after SIGHUP")
    with server.Server("-o", "drop_privileges,no_drop_privileges") as memcached:
        if "T_ARGS" not in os.environ:
            tap.is_(set(filters(memcached)), {"0"}, "a later no_drop_privileges turns it off")
    with server.Server("-o", "drop_privileges,relaxed_privileges") as memcached:
        tap.is_(set(filters(memcached)), {"2"}, "relaxed_privileges keeps the filter")


@tap.case
def a_daemon_behind_the_filter():
    if not BUILT_IN:
        return
    with Daemon("-o", "drop_privileges") as daemon:
        tap.is_(daemon.stream().set(b"k", b"v"), b"STORED\r\n", "it serves behind the filter")
    tap.ok(not os.path.exists(daemon.pid_path), "its pid file is removed")


@tap.case
def the_other_tests_pass_behind_the_filter():
    if BUILT_IN:
        again.all_pass(["server/" + name for name in tap.some(AGAIN, 4)],
                       T_ARGS="-o drop_privileges")


tap.run(600)
