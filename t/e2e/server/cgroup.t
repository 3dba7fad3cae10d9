#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A memory cgroup that is smaller than -m: the server evicts items, and is not killed."""
import os
import re
import signal

import netns
import server
import tap
from cgroup import MB, Cgroup, ColdProgram

if server.is_sanitized():
    tap.ok(True, "under a sanitizer memory cannot be limited")
    tap.run()

VALUE = b"v" * 960
STAYS = r"^memory: the limit of the cgroup is near: the cache stays at \d+ MB.*$"


def fill(stream, first, megabytes):
    """Stores that many megabytes of keys from k<first> on; returns the number after the last."""
    last = first + megabytes * MB // len(VALUE)
    for start in range(first, last, 500):
        stream.send(b"".join(b"set k%d 0 0 %d noreply\r\n%s\r\n" % (i, len(VALUE), VALUE)
                             for i in range(start, min(start + 500, last))))
    stream.ask(b"version\r\n")
    return last


def room(stream):
    return int(stream.stats()["bytes"]) // MB


def short(name, group, *arguments):
    """A server of -m 1024 in a cgroup of 128 MB, which is filled with more, and then gets more
    memory."""
    with ColdProgram(), server.Server("-m", "1024", *arguments, prefix=group.prefix()) as s:
        c = s.stream()
        last = fill(c, 0, 300)
        tap.ok(s.alive(), name + ": the server lives")
        kept = room(c)
        tap.ok(32 <= kept < 128, "%s: it keeps as much as fits (%d MB)" % (name, kept))
        tap.ok(int(c.stats()["evictions"]) > 0, name + ": it evicts, as at its own limit")
        tap.is_(c.get(b"k%d" % (last - 1)), VALUE,
                name + ": the item that was stored last is found")
        tap.is_(len(re.findall(STAYS, s.log(), re.M)), 1, name + ": the shortage is logged once")
        group.limit(400)

        def grows():
            nonlocal last
            last = fill(c, last, 20)
            return room(c) > kept + 32

        tap.ok(server.wait_for(grows), name + ": with a higher limit the cache grows")
        tap.ok(server.logged(s, "memory: there is room in the cgroup again"),
               name + ": it is logged that there is room again")
        if "-e" in arguments:
            s.signal(signal.SIGUSR1)
            tap.is_(s.wait(), 0, name + ": a graceful stop")


@tap.case
def ordinary_memory():
    group = Cgroup(128)
    short("memory", group)
    group.close()


@tap.case
def the_limit_of_a_parent_cgroup():
    group = Cgroup(128, inner=True)
    short("above", group)
    group.close()


@tap.case
def memory_in_a_file():
    where = server.scratch()
    netns.sh("mount", "-t", "tmpfs", "-o", "size=2g,mode=0777", "tmpfs", where)
    group = Cgroup(128)
    try:
        file = os.path.join(where, "memory")
        short("-e", group, "-e", file)
        with server.Server("-m", "1024", "-e", file, prefix=group.prefix()) as s:
            tap.ok(room(s.stream()) > 32, "-e: the next server takes the items over")
    finally:
        netns.sh("umount", where)
    group.close()


@tap.case
def page_cache_is_free_memory():
    """Cached files of the cgroup do not count as used memory."""
    where = server.scratch()
    if netns.sh("stat", "-f", "-c", "%T", where).strip() == "tmpfs":
        tap.diag("files in memory are not page cache: not tested")
        return
    group = Cgroup(128)
    file = os.path.join(where, "large")
    prefix = group.prefix()
    prefix[2] = prefix[2].replace(
        "exec", "dd if=/dev/zero of=%s bs=1M count=200 status=none && exec" % file)
    with server.Server("-m", "48", prefix=prefix) as s, s.stream() as c:
        fill(c, 0, 100)
        tap.ok(room(c) >= 36, "-m 48 is reached beside a page cache that fills the cgroup (%d MB)"
               % room(c))
        tap.ok("memory:" not in s.log(), "no shortage is logged")
    group.close()


tap.run()
