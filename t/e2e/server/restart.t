#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""-e: a stop by SIGUSR1 keeps the items for the next server."""
import atexit
import os
import signal
import subprocess
import time

import server
import tap
from daemon import Daemon

LARGE = bytes(range(256)) * 9000


def memory_file():
    return os.path.join(server.scratch(), "memory")


def started(path, *arguments, **options):
    return server.Server("-e", path, "-I", "4m", *arguments, **options)


def stopped(memcached):
    """Stops the server by SIGUSR1; its exit status."""
    memcached.signal(signal.SIGUSR1)
    return memcached.wait()


def fill(c):
    c.all(b"".join(b"set key%d %d 0 8 noreply\r\nvalue%03d\r\n" % (i, i, i) for i in range(1000)))
    for i in range(3):
        c.set(b"large%d" % i, LARGE[i:])
    c.ask(b"delete key7\r\n")
    c.ask(b"incr number 1\r\n")
    c.set(b"number", b"41")


def check(c, what):
    good = all(c.all(b"get key%d\r\n" % i) ==
               (b"END\r\n" if i == 7 else b"VALUE key%d %d 8\r\nvalue%03d\r\nEND\r\n" % (i, i, i))
               for i in range(1000))
    tap.ok(good, what + ": small items and their flags are kept, and the deleted one is missing")
    tap.ok(all(c.get(b"large%d" % i) == LARGE[i:] for i in range(3)), what + ": large items")


@tap.case
def items_are_kept_by_a_graceful_stop():
    path = memory_file()
    with started(path) as memcached, memcached.stream() as c:
        fill(c)
        gets = c.gets(b"key5")
        before = memcached.stats()
        tap.is_(memcached.stats("settings")["memory_file"], path, "stats settings shows the file")
        tap.is_(stopped(memcached), 0, "SIGUSR1 ends the server with status 0")
        tap.ok("Gracefully stopping" in memcached.log(), "the log says so")
    tap.ok(os.path.exists(path + ".meta"), "the metadata file exists")
    tap.is_(oct(os.stat(path + ".meta").st_mode & 0o777), "0o600", "only its owner may read it")
    with started(path) as memcached, memcached.stream() as c:
        after = memcached.stats()
        check(c, "after the restart")
        tap.is_(c.gets(b"key5"), gets, "CAS ids are the same")
        tap.is_(c.ask(b"incr number 1\r\n"), b"42\r\n", "items can be changed")
        for key in ("curr_items", "bytes", "hash_power_level"):
            tap.is_(after[key], before[key], key + " is as before")
        tap.ok(not os.path.exists(path + ".meta"), "the metadata file is removed")
        tap.is_(stopped(memcached), 0, "a second graceful stop")
    with started(path) as memcached:
        check(memcached.stream(), "after the second restart")


@tap.case
def large_items_in_small_chunks_are_kept():
    path = memory_file()
    for round_ in ("first", "second"):
        with started(path, "-o", "slab_chunk_max=2048") as memcached:
            if round_ == "first":
                fill(memcached.stream())
            check(memcached.stream(), "slab_chunk_max=2048, the %s server" % round_)
            stopped(memcached)


@tap.case
def times_count_while_the_server_is_stopped():
    path = memory_file()
    with started(path) as memcached, memcached.stream() as c:
        c.set(b"short", b"x", exptime=2)
        c.set(b"long", b"x", exptime=1000)
        c.set(b"never", b"x")
        uptime = int(memcached.stats()["uptime"])
        begin = time.time()
        stopped(memcached)
    server.wait_for(lambda: time.time() > begin + 3)
    with started(path) as memcached, memcached.stream() as c:
        tap.is_(c.get(b"short"), None, "an item that expired meanwhile is gone")
        tap.is_(c.get(b"never"), b"x", "an item without expiry is kept")
        left = int(c.ask(b"mg long t\r\n").split(b" t")[1])
        tap.ok(900 < left <= 998, "the time while it was stopped counts for the time to live")
        tap.ok(int(memcached.stats()["uptime"]) >= uptime + 2,
               "uptime includes that time, as with memcached")


@tap.case
def flushed_items_stay_flushed():
    path = memory_file()
    with started(path) as memcached, memcached.stream() as c:
        c.set(b"before", b"x")
        c.ask(b"flush_all\r\n")
        c.set(b"after", b"y")
        stopped(memcached)
    with started(path) as memcached, memcached.stream() as c:
        tap.is_(c.get(b"before"), None, "an item from before the flush is gone")
        tap.is_(c.get(b"after"), b"y", "an item set after the flush is kept")
        c.ask(b"flush_all\r\n")
        tap.is_(c.get(b"after"), None, "the next flush works")


@tap.case
def any_other_end_keeps_nothing():
    for how in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        path = memory_file()
        with started(path) as memcached:
            memcached.stream().set(b"foo", b"bar")
            memcached.signal(how)
            memcached.wait()
        tap.ok(not os.path.exists(path + ".meta"), "%s leaves no metadata" % how.name)
        with started(path) as memcached:
            tap.is_(memcached.stream().get(b"foo"), None, "the cache after %s is empty" % how.name)
            tap.ok("no metadata save file, starting with a clean cache" in memcached.log(),
                   "the log has the reason")


@tap.case
def shutdown_graceful_keeps_the_items():
    path = memory_file()
    with started(path, "-A") as memcached, memcached.stream() as c:
        c.set(b"foo", b"bar")
        c.to_end(b"shutdown graceful\r\n")
        tap.is_(memcached.wait(), 0, "shutdown graceful ends the server")
    with started(path) as memcached:
        tap.is_(memcached.stream().get(b"foo"), b"bar", "the item is kept")


@tap.case
def unreadable_metadata_is_logged():
    path = memory_file()
    os.mkdir(path + ".meta")
    with started(path) as memcached:
        tap.ok("cannot read %s.meta: Is a directory, starting with a clean cache" % path
               in memcached.log(), "metadata that cannot be read is not taken for missing")
        tap.is_(memcached.stream().get(b"foo"), None, "the server answers")


@tap.case
def a_file_that_does_not_fit_is_refused():
    for what, arguments, words in (("another -m", ("-m", "128"), "the memory limit has changed"),
                                   ("another -f", ("-f", "1.5"), "the slab classes have changed"),
                                   ("-C", ("-C",), "the use of CAS has changed")):
        path = memory_file()
        with started(path) as memcached:
            memcached.stream().set(b"foo", b"bar")
            stopped(memcached)
        with started(path, *arguments) as memcached:
            tap.is_(memcached.stream().get(b"foo"), None, what + ": a clean cache")
            tap.ok(words in memcached.log(), what + ": the log has the reason")


@tap.case
def what_commands_have_changed_loses_nothing():
    path = memory_file()
    with started(path) as memcached, memcached.stream() as c:
        for command in (b"lru mode flat", b"lru temp_ttl 100", b"lru tune 10 10 0.1 0.2",
                        b"cache_memlimit 32", b"slabs automove 0", b"lru_crawler disable",
                        b"stats sizes_enable", b"verbosity 1"):
            c.all(command + b"\r\n")
        fill(c)
        stopped(memcached)
    with started(path) as memcached, memcached.stream() as c:
        check(c, "after commands that change what options have set")
        tap.is_(memcached.stats("settings")["lru_segmented"], "yes", "the options are in force")


@tap.case
def a_corrupt_file_does_no_harm():
    for what, damage in (("empty", b""), ("garbage", b"garbage\n"), ("zeros", bytes(5000)),
                         ("huge", b"MCSRheap" + bytes(1 << 20))):
        path = memory_file()
        with started(path) as memcached:
            memcached.stream().set(b"foo", b"bar")
            stopped(memcached)
        with open(path + ".meta", "wb") as meta:
            meta.write(damage)
        with started(path) as memcached, memcached.stream() as c:
            tap.is_(c.get(b"foo"), None, "metadata %s: a clean cache" % what)
            tap.is_(c.set(b"foo", b"new"), b"STORED\r\n", "metadata %s: the server answers" % what)
    path = memory_file()
    with started(path) as memcached:
        fill(memcached.stream())
        stopped(memcached)
    os.truncate(path, 1 << 20)
    with started(path) as memcached, memcached.stream() as c:
        c.get(b"key5")
        fill(c)
        check(c, "a truncated memory file, then filled again")


# Of the byte in the header with the length of the suffix, from the key on.
SUFFIX_LENGTH = -2


@tap.case
def an_item_with_a_damaged_frame_is_left_out():
    """What stands around a value tells clients where it ends."""
    damages = (("another length before the value", b"k1 5 6\r\n", 0, b"k1 5 9\r\n"),
               ("no line end behind the value", b"value2\r\n", 0, b"value2xx"),
               ("a suffix of no bytes", b"k3 5 6\r\n", SUFFIX_LENGTH, b"\0"),
               ("a suffix of 30 bytes", b"k4 5 6\r\n", SUFFIX_LENGTH, b"\x1e"),
               ("a large value without a line end", LARGE[-300:] + b"\r\n", 300, b"xx"))
    path = memory_file()
    with started(path) as memcached, memcached.stream() as c:
        for i in range(7):
            c.set(b"k%d" % i, LARGE if i == 5 else b"value%d" % i, flags=5)
        stopped(memcached)
    with open(path, "r+b") as file:
        memory = bytearray(file.read())
        for what, found, offset, damage in damages:
            at = memory.find(found) + offset
            tap.ok(memory.count(found) == 1, what + ": the place is found")
            memory[at:at + len(damage)] = damage
        file.seek(0)
        file.write(memory)
    with started(path) as memcached, memcached.stream() as c:
        for i, (what, _, _, _) in enumerate(damages, 1):
            tap.is_(c.all(b"gets k%d\r\n" % i), b"END\r\n", what + ": the item is left out")
        tap.is_([c.get(b"k0"), c.get(b"k6")], [b"value0", b"value6"], "the others are kept")
        tap.is_(memcached.stats()["curr_items"], "2", "and counted")


@tap.case
def a_file_belongs_to_one_server():
    path = memory_file()
    with started(path) as memcached:
        memcached.stream().set(b"foo", b"bar")
        status, _, err = server.run("-e", path, "-p", server.free_port())
        tap.is_(status, 71, "a second server on the same file does not start")
        tap.ok("another server uses it" in err, "the message has the reason")
        tap.is_(memcached.stream().get(b"foo"), b"bar", "the first server keeps its items")
    status, _, err = server.run("-e", "/nonexistent/file", "-p", server.free_port())
    tap.ok(status == 71 and "failed to open file for mmap" in err, "a file that cannot be opened")


@tap.case
def a_daemon_finds_its_file_again():
    directory = server.scratch()
    for _ in range(2):
        with Daemon("-e", "memory", cwd=directory) as daemon: # a relative path
            c = daemon.stream()
            got = c.get(b"foo")
            c.set(b"foo", b"bar")
            daemon.signal(signal.SIGUSR1)
            tap.ok(server.wait_for(daemon.is_gone), "SIGUSR1 ends it")
    tap.is_(got, b"bar", "the second daemon has the first one's item")


@tap.case
def flash_storage_is_refused():
    if not server.is_built_with("ext_path"):
        return
    status, _, err = server.run("-e", "/tmp/x", "-o", "ext_path=/tmp/y:64m", "-U", "0")
    tap.ok(status == 64 and ("Cannot use -e with extstore" in err or "not built" in err),
           "-e with ext_path is refused")


def small_file_system(size):
    """A file on a tmpfs of its own, or None without the capability to mount one."""
    where = server.scratch()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0777,size=" + size, "tmpfs", where],
                      stderr=subprocess.DEVNULL, check=False).returncode:
        return None
    atexit.register(subprocess.run, ["umount", "-l", where], check=False)
    return os.path.join(where, "memory")


@tap.case
def a_full_file_system_is_like_a_full_cache():
    value = b"v" * 1000
    for size in ("16400k", "20m", "40m"):
        path = small_file_system(size)
        if not path:
            return tap.diag("no right to mount a file system")
        items = None
        for round_ in ("first", "second", "third"):
            with started(path, "-m", "64") as memcached, memcached.stream() as c:
                if items:
                    tap.is_(memcached.stats()["curr_items"], items,
                            "%s, the %s server has all items of the one before" % (size, round_))
                    tap.is_(c.get(b"k29999"), value, "an item has its value")
                c.all(b"".join(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, value)
                               for i in range(30000)))
                items = memcached.stats()["curr_items"]
                tap.ok(c.get(b"k29999") == value and int(items) < 30000, "it evicts")
                tap.is_(stopped(memcached), 0, "it stops")
            tap.ok(os.path.exists(path + ".meta"), "the metadata file exists")


@tap.case
def a_failed_start_loses_nothing():
    path = memory_file()
    with started(path) as memcached:
        fill(memcached.stream())
        stopped(memcached)
    with server.Server() as other:
        status, _, err = server.run("-e", path, "-I", "4m", "-p", other.port)
        tap.ok(status not in (0, None), "the port is in use: " + err.strip())
    with started(path) as memcached:
        check(memcached.stream(), "after a failed start")


@tap.case
def a_changed_memory_limit_loses_nothing():
    for limit in (32, 128):
        path = memory_file()
        with started(path) as memcached, memcached.stream() as c:
            fill(c)
            tap.is_(c.ask(b"cache_memlimit %d\r\n" % limit), b"OK\r\n",
                    "cache_memlimit %d" % limit)
            stopped(memcached)
        with started(path) as memcached:
            check(memcached.stream(), "after the restart")
            tap.is_(memcached.stats()["limit_maxbytes"], str(64 << 20), "the limit is that of -m")


@tap.case
def another_end_leaves_only_the_file():
    path = memory_file()
    with started(path) as memcached:
        memcached.stream().set(b"foo", b"bar")
        tap.is_(memcached.stop(), 0, "SIGTERM ends the server")
    tap.is_(os.listdir(os.path.dirname(path)), ["memory"], "there is no metadata file")


@tap.case
def the_file_is_on_disk_before_the_metadata():
    if not tap.has("strace"):
        return
    path = memory_file()
    calls = path + ".calls"
    with started(path, prefix=("strace", "-f", "-y", "-e", "trace=fsync,rename", "-o",
                               calls)) as memcached:
        memcached.stream().set(b"foo", b"bar")
        children = "/proc/%d/task/%d/children" % ((memcached.process.pid,) * 2)
        with open(children, encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGUSR1)
        memcached.wait()
    with open(calls, encoding="utf-8", errors="replace") as file:
        text = file.read()
    what = [text.find("%s>)" % path), text.find("%s.meta.new>)" % path), text.find("rename("),
            text.find("%s>)" % os.path.dirname(path))]
    tap.ok(-1 not in what and what == sorted(what),
           "FILE, FILE.meta.new, the new name and the directory are synced in this order")


@tap.case
def a_full_file_evicts_in_lru_order():
    path = memory_file()
    value = b"v" * 1000
    with started(path, "-m", "8") as memcached, memcached.stream() as c:
        for base in range(0, 20000, 1000):
            c.all(b"".join(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, value)
                           for i in range(base, base + 1000)))
        items = memcached.stats()["curr_items"]
        stopped(memcached)
    with started(path, "-m", "8") as memcached, memcached.stream() as c:
        tap.is_(memcached.stats()["curr_items"], items, "all items of a full cache are kept")
        tap.is_(c.get(b"k19999"), value, "the newest item is found")
        c.all(b"".join(b"set n%d 0 0 1000 noreply\r\n%s\r\n" % (i, value) for i in range(1000)))
        tap.is_(c.get(b"k19999"), value,
                "it is found after sets that evict: the LRU order was kept")
        tap.ok(int(memcached.stats()["evictions"]) > 0, "older items were evicted")


tap.run()
