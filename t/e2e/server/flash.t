#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Flash storage: values that leave memory are read back as they were, or are missed; never
another value."""
import atexit
import os
import random
import socket
import subprocess
import threading

import binary
import client
import server
import tap
from daemon import Daemon
from flash import EAGER, SMALL, Flash, is_built_in, key, value

if not is_built_in():
    tap.is_(server.run("-U", "0", "-o", "ext_path=/tmp/x:64m")[::2],
            (64, "This server is not built with extstore support.\n"),
            "a build without flash storage refuses the option")
    tap.run()

GET_KEYS = ["get_extstore", "get_aborted_extstore", "get_oom_extstore", "recache_from_extstore",
            "miss_from_extstore", "badcrc_from_extstore"]
KEYS = ["extstore_" + key for key in (
    "compact_lost compact_rescues compact_skipped page_allocs page_evictions page_reclaims "
    "pages_free pages_used objects_evicted objects_read objects_written objects_used "
    "bytes_evicted bytes_written bytes_read bytes_used bytes_fragmented limit_maxbytes "
    "io_queue").split()]
SETTINGS = ["ext_item_size", "ext_item_age", "ext_low_ttl", "ext_recache_rate", "ext_wbuf_size",
            "ext_compact_under", "ext_drop_under", "ext_max_frag", "slab_automove_freeratio",
            "ext_drop_unread"]


# --- options ------------------------------------------------------------------

def refused(*arguments):
    status, _, err = server.run("-p", server.free_port(), "-U", "0", *arguments)
    return status, err


@tap.case
def files_that_cannot_be_opened_end_the_start():
    where = server.scratch()
    status, err = refused("-o", "ext_path=/nonexistent/x:64m")
    tap.is_(status, 1, "a missing folder: status 1")
    tap.like(err, "^Failed to initialize external storage: /nonexistent/x: No such file",
             "the message has the reason")
    status, err = refused("-o", "ext_path=%s:64m" % where)
    tap.ok(status == 1 and "Is a directory" in err, "a folder is refused")
    with server.Server("-o", "ext_path=%s/a:64m" % where, udp=False):
        status, err = refused("-o", "ext_path=%s/a:64m" % where)
        tap.ok(status == 1 and "in use by another server" in err,
               "a file of another server is refused")
    status, err = refused("-o", "ext_path=%s/b:64m,ext_path=%s/b:64m" % (where, where))
    tap.ok(status == 1 and "in use" in err, "two entries for one file are refused")


@tap.case
def a_failed_start_leaves_no_file():
    where = server.scratch()
    status, err = refused("-o", "ext_path=%s/a:64m,ext_path=/nonexistent/b:64m" % where)
    tap.is_((status, os.listdir(where)), (1, []), "a file that cannot be opened: " + err.strip())
    with server.Server() as other:
        status, _, err = server.run("-p", other.port, "-U", "0", "-o", "ext_path=%s/a:64m" % where)
        tap.ok(status != 0 and os.listdir(where) == [], "a port that is in use: " + err.strip())
    for words in (("-Y", "/nonexistent/users"), ("-m", "999999999")):
        status, err = refused(*words, "-o", "ext_path=%s/a:64m" % where)
        tap.ok(status != 0 and os.listdir(where) == [], " ".join(words) + ": " + err.strip())
    with open(where + "/mine", "wb") as file:
        file.write(b"x" * 100)
    os.chmod(where + "/mine", 0o666)
    refused("-o", "ext_path=%s/mine:64m,ext_path=/nonexistent/b:64m" % where)
    tap.is_(os.listdir(where), ["mine"], "a file that existed before is kept")
    small = server.scratch()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0777,size=20m", "tmpfs", small],
                      stderr=subprocess.DEVNULL, check=False).returncode:
        return tap.diag("no right to mount a file system")
    atexit.register(subprocess.run, ["umount", "-l", small], check=False)
    status, err = refused("-o", "ext_path=%s/a:64m" % small)
    tap.is_((status, os.listdir(small)), (1, []), "a full file system: " + err.strip())


@tap.case
def a_daemon_finds_a_relative_file():
    where = server.scratch()
    with Daemon("-o", "ext_path=flash:64m", cwd=where):
        tap.is_(os.stat(where + "/flash").st_mode & 0o777, 0o600,
                "a file with a relative name is created, readable by its owner only")


@tap.case
def flash_excludes_udp():
    where = server.scratch()
    status, _, err = server.run("-p", server.free_port(), "-U", server.free_port(),
                                "-o", "ext_path=%s/a:64m" % where)
    tap.is_((status, err), (64, "Cannot use UDP with extstore enabled (-U 0 to disable)\n"),
            "UDP and ext_path together are refused")


@tap.case
def settings_show_the_options_in_order():
    with Flash(options=None) as s:
        rows = s.stream().stats_list("settings")
        names = [name for name, _ in rows]
        shown = [name for name in names if name in SETTINGS]
        tap.is_(shown, SETTINGS, "stats settings has the ten keys in memcached's order")
        tap.is_([v for k, v in rows if k in SETTINGS],
                ["512", "4294967295", "0", "2000", "1048576", "8", "8", "0.80", "0.010", "no"],
                "they have the defaults, a quarter of the pages for the two thresholds")
    with Flash(options="ext_item_size=1,ext_item_age=2,ext_low_ttl=3,ext_recache_rate=4,"
                       "ext_compact_under=5,ext_drop_under=6,ext_max_frag=0,ext_drop_unread,"
                       "slab_automove_freeratio=0.2,ext_threads=3,ext_io_depth=7") as s:
        settings = s.stats("settings")
        tap.is_([settings[k] for k in SETTINGS],
                ["1", "2", "3", "4", "1048576", "5", "6", "0.00", "0.200", "yes"],
                "they have the values of the command line")


@tap.case
def statistics_are_there_only_with_flash():
    with server.Server(udp=False) as s:
        names = [name for name, _ in s.stream().stats_list()]
        tap.ok(not [n for n in names if "extstore" in n],
               "without ext_path stats has no keys of flash")
        tap.is_(s.stream().all(b"stats extstore\r\n"), b"END\r\n",
                "without ext_path stats extstore is empty")
    with Flash() as s:
        names = [name for name, _ in s.stream().stats_list()]
        at = names.index("get_flushed") + 1
        tap.is_(names[at:at + 6], GET_KEYS, "the keys for gets follow get_flushed")
        at = names.index("log_watcher_sent") + 1
        tap.is_(names[at:at + 19], KEYS, "the keys for the storage follow log_watcher_sent")
        tap.is_((s.count("extstore_limit_maxbytes"), s.count("extstore_pages_free")),
                (64 << 20, 32), "the limit and the free pages are those of the file")
        pages = s.stream().stats_list("extstore")
        tap.is_([k for k, _ in pages[:4]], ["0:version", "0:bytes", "0:bucket", "0:free_bucket"],
                "stats extstore has four lines for a page")
        tap.is_(len(pages), 4 * 32, "it has them for each page")


@tap.case
def the_extstore_command():
    with Flash(options=None) as s, s.stream() as c:
        for word, given, name, shown in (
                (b"item_size", b"600", "ext_item_size", "600"),
                (b"item_age", b"30", "ext_item_age", "30"),
                (b"low_ttl", b"5", "ext_low_ttl", "5"),
                (b"recache_rate", b"100", "ext_recache_rate", "100"),
                (b"compact_under", b"3", "ext_compact_under", "3"),
                (b"drop_under", b"2", "ext_drop_under", "2"),
                (b"max_frag", b"0.5", "ext_max_frag", "0.50"),
                (b"drop_unread", b"1", "ext_drop_unread", "yes")):
            tap.is_((c.ask(b"extstore %s %s\r\n" % (word, given)), s.stats("settings")[name]),
                    (b"OK\r\n", shown), "extstore %s changes the setting" % word.decode())
        tap.is_(c.ask(b"extstore free_memchunks 5 10\r\n"), b"OK\r\n",
                "extstore free_memchunks is accepted")
        tap.is_(c.all(b"extstore item_size 700 noreply\r\n"), b"", "noreply suppresses the answer")
        for bad in (b"", b" item_size", b" foo", b" foo 1", b" item_size x", b" item_size -1",
                    b" item_age x", b" low_ttl x", b" recache_rate x", b" compact_under x",
                    b" drop_under x", b" max_frag x", b" max_frag 0.5x", b" drop_unread x",
                    b" max_frag " + b"1" * 40, b" free_memchunks", b" free_memchunks 1",
                    b" free_memchunks x 1", b" free_memchunks 1 x", b" free_memchunks 400 1",
                    b" free_memchunks -1 1", b" item_size 99999999999"):
            tap.is_(c.ask(b"extstore%s\r\n" % bad), b"ERROR\r\n",
                    "extstore%s is an error" % bad.decode())
    with server.Server(udp=False) as s:
        tap.is_(s.stream().ask(b"extstore item_size 600\r\n"), b"OK\r\n",
                "a server without flash accepts the command")


# --- values -------------------------------------------------------------------

@tap.case
def values_are_read_from_buffer_page_cache_and_disk():
    with Flash() as s, s.stream() as c:
        keys = [key(i) for i in range(100)]
        for k in keys:
            c.set(k, value(k), flags=7)
        tap.ok(s.spilled(90), "cold values go to flash")
        tap.ok(all(c.get(k) == value(k) for k in keys), "all are read from the write buffer")
        s.write_out(c)
        tap.ok(all(c.get(k) == value(k) for k in keys), "all are read from the page cache")
        s.uncache()
        tap.ok(all(c.get(k) == value(k) for k in keys), "all are read from the disk")
        tap.ok(s.count("get_extstore") >= 270, "get_extstore counts the gets")
        tap.ok(s.count("extstore_objects_read") >= 270, "objects_read counts the reads")
        flags, _, got = c.gets(keys[0])
        tap.is_((flags, got), (7, value(keys[0])), "the client flags are kept")


@tap.case
def large_values_in_chunks():
    with Flash("-I", "1m", "-m", "64", size="64m", page="ext_page_size=4,ext_wbuf_size=4") as s:
        c = s.stream()
        keys = [key(i) for i in range(6)]
        for k in keys:
            c.set(k, value(k, size=900000))
        tap.ok(s.spilled(5), "values in chunks go to flash")
        buckets = {v for k, v in s.stats("extstore").items() if k.endswith(":bucket")}
        tap.ok("3" in buckets, "they go to pages of their own")
        s.uncache()
        tap.ok(all(c.get(k) == value(k, size=900000) for k in keys), "they are returned whole")


@tap.case
def old_large_values_leave_memory():
    def leave(extra):
        with Flash("-m", "64", *extra, options="ext_item_size=512,ext_item_age=2", page="") as s:
            c = s.stream()
            for i in range(40):
                c.set(key(i), value(key(i), size=557 << 10))
            return (server.wait_for(lambda: not s.in_memory()), s.count("extstore_objects_used"),
                    all(c.get(key(i)) == value(key(i), size=557 << 10) for i in range(40)))

    extras = (), ("-o", "slab_chunk_max=16384"), ("-o", "slab_chunk_max=2048")
    for extra, (left, used, good) in zip(extras, tap.at_once(leave, extras)):
        tap.ok(left, "values of 557 KB leave memory, %s" % " ".join(extra))
        tap.is_(used, 40, "all of them are on flash")
        tap.ok(good, "all of them are returned")


@tap.case
def multi_gets_and_pipelines_keep_their_order():
    with Flash() as s, s.stream() as c:
        keys = [key(i) for i in range(60)]
        for k in keys:
            c.set(k, value(k))
        tap.ok(s.spilled(50), "most values are on flash")
        s.write_out(c)
        for i in range(0, 60, 7):
            c.set(keys[i], value(keys[i], 1))
        s.uncache()
        c.sock.settimeout(50)
        want = b"".join(b"VALUE %s 0 2000\r\n%s\r\n" % (k, value(k, i % 7 == 0))
                        for i, k in enumerate(keys))
        tap.is_(c.all(b"get %s\r\n" % b" none ".join(keys)), want + b"END\r\n",
                "a get of many keys, some on flash, is answered in their order")
        s.uncache()
        asked, wanted = b"", b""
        for i, k in enumerate(keys):
            asked += b"get %s\r\nset m%d 0 0 1\r\n1\r\nget none m%d\r\n" % (k, i, i)
            wanted += (b"VALUE %s 0 2000\r\n%s\r\nEND\r\nSTORED\r\nVALUE m%d 0 1\r\n1\r\nEND\r\n" %
                       (k, value(k, i % 7 == 0), i))
        tap.is_(c.all(asked), wanted, "pipelined commands are answered in their order")
        s.uncache()
        repeated = b"get %s\r\n" % b" ".join([keys[1]] * 500)
        tap.is_(c.all(repeated), b"VALUE %s 0 2000\r\n%s\r\n" % (keys[1], value(keys[1])) * 500 +
                b"END\r\n", "one key may be in a get many times")
        s.uncache()
        before = value(keys[2])
        tap.is_(c.all(b"get %s\r\nset %s 0 0 3\r\nnew\r\nget %s\r\n" % ((keys[2],) * 3)),
                b"VALUE %s 0 2000\r\n%s\r\nEND\r\nSTORED\r\nVALUE %s 0 3\r\nnew\r\nEND\r\n" %
                (keys[2], before, keys[2]),
                "a get before a set in a pipeline returns the old value")


@tap.case
def a_get_that_ends_in_a_bad_key_reads_nothing():
    with Flash() as s, s.stream() as c:
        for i in range(20):
            c.set(key(i), value(key(i)))
        tap.ok(s.spilled(20), "the values are on flash")
        for verb in (b"get", b"gets", b"gat 0"):
            reads, before = s.count("extstore_objects_read"), s.count("get_aborted_extstore")
            tap.is_(c.ask(b"%s key0 none key1 key1 %s\r\n" % (verb, b"k" * 251)),
                    b"CLIENT_ERROR bad command line format\r\n",
                    "%s with a bad last key is an error" %
                    verb.decode())
            tap.is_(s.count("get_aborted_extstore") - before, 3,
                    "get_aborted_extstore counts the values")
            tap.is_(s.count("extstore_objects_read"), reads, "the values are not read")


@tap.case
def two_keys_many_times_in_one_get():
    with Flash() as s, s.stream() as c:
        for k in (b"a", b"b"):
            c.set(k, value(k, size=200))
        tap.ok(s.spilled(2), "two values are on flash")
        want = b"".join(b"VALUE %s 0 200\r\n%s\r\n" % (k, value(k, size=200)) for k in (b"a", b"b"))
        answer = c.all(b"get%s\r\n" % (b" a b" * 34000))
        tap.ok(answer == want * 34000 + b"END\r\n", "each of 68,000 gets has its value")
        tap.is_(c.ask(b"delete a\r\n") + c.ask(b"delete b\r\n"), b"DELETED\r\n" * 2,
                "the values can be deleted")
        tap.ok(server.wait_for(lambda: s.count("extstore_objects_used") == 0),
               "no reference to them is left")


@tap.case
def under_the_filter_of_system_calls():
    if not server.is_built_with("drop_privileges"):
        return tap.diag("this build has no filter")
    with Flash("-o", "drop_privileges", options=EAGER + ",ext_threads=2") as s, s.stream() as c:
        for i in range(50):
            c.set(key(i), value(key(i)))
        s.spilled(45)
        s.write_out(c)
        s.uncache()
        tap.ok(all(c.get(key(i)) == value(key(i)) for i in range(50)),
               "values go to the disk and are returned")


@tap.case
def meta_and_binary_gets_read_flash():
    with Flash() as s, s.stream() as c:
        for i in range(40):
            c.set(key(i), value(key(i)), flags=3)
        tap.ok(s.spilled(35), "the values are on flash")
        s.write_out(c)
        s.uncache()
        tap.is_(c.all(b"mg key0 v f s k Oabc\r\n"),
                b"VA 2000 f3 s2000 kkey0 Oabc\r\n%s\r\n" % value(b"key0"), "mg v returns the value")
        reads = s.count("get_extstore")
        tap.is_(c.all(b"mg key1 s f\r\n"), b"HD s2000 f3\r\n", "mg without v")
        tap.is_(s.count("get_extstore"), reads, "mg without v reads nothing")
        tap.like(c.all(b"me key1\r\n"), "^ME key1 ", "me reads nothing")
        b = binary.Binary(s.stream())
        replies = b.all(binary.request("get", b"key2", opaque=5) + binary.request("getk", b"key3") +
                        binary.request("getq", b"none") + binary.request("getkq", b"key4") +
                        binary.touch("gat", b"key5", 0))
        tap.is_([(r.opaque, r.key, r.value) for r in replies],
                [(5, b"", value(b"key2")), (0, b"key3", value(b"key3")),
                 (0, b"key4", value(b"key4")), (0, b"", value(b"key5"))],
                "binary gets return the values, in their order")
        tap.is_([r.extras for r in replies], [b"\0\0\0\3"] * 4, "they return the flags")
        tap.like(c.all(b"gat 0 key6\r\n"), r"^VALUE key6 3 2000", "gat reads the value from flash")
        tap.like(c.all(b"gats 0 key7\r\n"), r"^VALUE key7 3 2000 \d+",
                 "gats reads the value from flash")


@tap.case
def commands_that_change_a_value_do_not_read_it():
    with Flash() as s, s.stream() as c:
        number = b"5".rjust(300)
        for i in range(20):
            c.set(key(i), value(key(i)))
        for k in (b"n1", b"n2", b"n3", b"n4"):
            c.set(k, number)
        tap.ok(s.spilled(20), "the values are on flash")
        s.write_out(c)
        s.uncache()
        v = [value(key(i)) for i in range(20)]
        reads = s.count("extstore_objects_read")
        for verb in (b"append", b"prepend"):
            tap.is_(c.ask(b"%s key0 0 0 3\r\nend\r\n" % verb), b"NOT_STORED\r\n",
                    "%s of a value on flash stores nothing" % verb.decode())
        tap.is_(c.all(b"ms key1 2 MA\r\nab\r\nms key1 2 MP\r\nab\r\n"), b"NS\r\n" * 2,
                "ms in these modes stores nothing")
        not_numeric = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
        tap.is_([c.ask(line) for line in (b"incr n1 7\r\n", b"decr n2 1\r\n", b"ma n3 v D10\r\n")],
                [not_numeric] * 3, "incr, decr and ma do not accept a value on flash as a number")
        b = binary.Binary(s.stream())
        tap.is_(b.all(binary.count("incr", b"n4"))[0].status, binary.NON_NUMERIC,
                "binary incr does not either")
        tap.is_(s.count("extstore_objects_read"), reads, "none of them reads the value")
        tap.is_((c.get(b"key0"), c.get(b"key1"), c.get(b"n1")), (v[0], v[1], number),
                "the values are unchanged")
        tap.is_(c.set(b"key4", b"x", verb=b"add"), b"NOT_STORED\r\n",
                "add of a value on flash is NOT_STORED")
        tap.is_(c.set(b"key5", b"x", verb=b"replace"), b"STORED\r\n", "replace stores")
        _, cas, got = c.gets(b"key6")
        tap.is_(got, v[6], "gets returns the value")
        tap.is_(c.set(b"key6", b"y", verb=b"cas", tail=b" %d" % cas), b"STORED\r\n",
                "cas with its id stores")
        tap.is_(c.set(b"key6", b"z", verb=b"cas", tail=b" %d" % cas), b"EXISTS\r\n",
                "the id is valid for one cas")
        tap.is_(c.ask(b"delete key7\r\n"), b"DELETED\r\n", "delete of a value on flash deletes it")
        tap.is_(c.get(b"key7"), None, "the deleted value is gone")
        tap.is_(c.ask(b"touch key8 -1\r\n"), b"TOUCHED\r\n",
                "touch of a value on flash changes its expiry")
        tap.is_(c.get(b"key8"), None, "it is expired")
        c.ask(b"touch key9 1\r\n")
        tap.is_(c.all(b"md key10 I\r\n"), b"HD\r\n", "md I of a value on flash marks it stale")
        tap.like(c.all(b"mg key10 v\r\n"), b"VA 2000 X W\r\n".decode(),
                 "mg returns the stale value and says so")
        tap.ok(server.wait_for(lambda: c.get(b"key9") is None), "a value on flash expires")
        c.ask(b"flush_all\r\n")
        tap.ok(all(c.get(key(i)) is None for i in range(20)), "flush_all hides values on flash")


@tap.case
def unused_objects_are_not_counted():
    with Flash() as s, s.stream() as c:
        for i in range(1000):
            c.set(key(i), value(key(i), size=8000))
        tap.ok(s.spilled(900), "values are on flash")
        for i in range(1000):
            c.ask(b"delete key%d\r\n" % i)
        tap.ok(server.wait_for(lambda: s.count("extstore_objects_used") == 0),
               "deleted values are not counted as used")
        tap.is_(s.count("extstore_bytes_used"), 0, "their bytes are not counted as used")
        tap.ok(s.count("extstore_page_reclaims") >= 2, "pages without values are free again")
        stats = s.stats()
        tap.is_(int(stats["extstore_bytes_fragmented"]),
                int(stats["extstore_pages_used"]) * (2 << 20),
                "the rest of their pages is counted as fragmented")
        c.ask(b"stats reset\r\n")
        tap.is_((s.count("extstore_objects_written"), s.count("extstore_page_reclaims")), (0, 0),
                "stats reset sets the counters to 0")


@tap.case
def the_oldest_page_is_evicted():
    with Flash(options=EAGER + ",ext_compact_under=0,ext_drop_under=0", size="8m") as s:
        c = s.stream()
        for i in range(2000):
            c.set(key(i), value(key(i), size=8000))
            if i % 100 == 0:
                s.spilled(1)
        tap.ok(server.wait_for(lambda: s.count("extstore_page_evictions") > 0),
               "a full file evicts its oldest page")
        tap.ok(s.count("extstore_objects_evicted") > 0 and s.count("extstore_bytes_evicted") > 0,
               "the lost values are counted")
        got = [c.get(key(i)) for i in range(2000)]
        tap.ok(all(v in (None, value(key(i), size=8000)) for i, v in enumerate(got)),
               "its values are missed, the others are returned")
        tap.ok(got.count(None) > 0 and got.count(None) < 2000,
               "some values are missed and some are returned")
        lost = got.index(None)
        tap.is_(c.set(key(lost), b"x", verb=b"add"), b"STORED\r\n", "add of a lost value stores")
        stats = s.stats()
        tap.is_(int(stats["cmd_get"]), int(stats["get_hits"]) + int(stats["get_misses"]),
                "each get is a hit or a miss")


@tap.case
def a_full_file_keeps_a_page_free():
    with Flash("-m", "64", "-o", "no_lru_crawler", options="ext_item_size=512,ext_item_age=0",
               page="ext_page_size=8,ext_wbuf_size=2") as s, s.stream() as c:
        for i in range(3000):
            c.set(key(i), value(key(i), size=20000))
            if i % 500 == 0:
                server.wait_for(lambda: not s.in_memory(), 5)
        server.wait_for(lambda: not s.in_memory())
        stats = s.stats()
        tap.ok(int(stats["extstore_objects_evicted"]) > 0 and int(stats["extstore_pages_free"]) > 0,
               "3,000 values of 20 KB leave one page of a file of 64 MB free")
        tap.is_(stats["extstore_page_evictions"], stats["extstore_page_reclaims"],
                "evicted pages are free again")
        got = [c.get(key(i)) for i in range(3000)]
        tap.ok(all(v in (None, value(key(i), size=20000)) for i, v in enumerate(got)),
               "the other values are returned")
        tap.is_((s.count("miss_from_extstore"), s.count("extstore_objects_evicted")),
                (got.count(None),) * 2, "each lost value counts in miss_from_extstore")


@tap.case
def files_for_kinds_of_values():
    where = server.scratch()
    paths = ["ext_path=%s/%s:8m:%s" % (where, b, b)
             for b in ("default", "compact", "lowttl", "chunked")]
    with server.Server("-o", "%s,%s,%s,ext_low_ttl=1000" % (SMALL, ",".join(paths), EAGER),
                       udp=False) as s, s.stream() as c:
        for i in range(60):
            c.set(b"long%d" % i, value(b"long%d" % i), exptime=5000)
            c.set(b"short%d" % i, value(b"short%d" % i), exptime=500)
        tap.ok(server.wait_for(lambda: int(s.stats()["extstore_objects_used"]) >= 110),
               "values go to several files")
        pages = s.stats("extstore")
        used = {pages["%d:bucket" % i] + pages["%d:free_bucket" % i] for i in range(16)
                if pages["%d:version" % i] != "0"}
        tap.is_(used, {"00", "22"}, "values that expire soon go to the file for them")
        tap.ok(all(c.get(b"%s%d" % (w, i)) == value(b"%s%d" % (w, i))
                   for i in range(60) for w in (b"long", b"short")), "all values are returned")


@tap.case
def flash_holds_ten_times_the_memory():
    with Flash("-m", "8", options="ext_item_size=300", size="128m") as s, s.stream() as c:
        for n in range(0, 40000, 50):
            c.all(b"".join(b"set %s 0 0 2000 noreply\r\n%s\r\n" % (key(i), value(key(i)))
                           for i in range(n, n + 50)))
            # No faster than values leave memory; the first ones find room anyway.
            server.wait_for(lambda: n < 3000 or s.has_room((72, 2080)), 10)
        stats = s.stats()
        tap.ok(int(stats["extstore_bytes_used"]) > 70 << 20, "80 MB of values go through 8 MB")
        tap.ok(int(stats["curr_items"]) > 36000, "nearly all of them are kept")
        tap.ok(int(stats["slabs_moved"]) > 0, "slab pages move to the class of the keys")
        tap.diag(" ".join("%s=%s" % (k, stats[k]) for k in ("curr_items", "evictions",
                                                            "extstore_objects_used")))
        rng = random.Random(1)
        keys = [key(rng.randrange(40000)) for _ in range(2000)]
        got = [c.get(k) for k in keys]
        tap.ok(all(v in (None, value(k)) for k, v in zip(keys, got)), "all values are right")
        tap.ok(got.count(None) < 250, "few values are missing")


# --- failures -------------------------------------------------------------------

@tap.case
def a_truncated_file_gives_misses():
    with Flash() as s, s.stream() as c:
        for i in range(100):
            c.set(key(i), value(key(i)))
        s.spilled(90)
        s.write_out(c)
        s.uncache()
        os.truncate(s.file, 0)
        got = [c.get(key(i)) for i in range(100)]
        tap.ok(all(v in (None, value(key(i))) for i, v in enumerate(got)),
               "values that cannot be read are missed")
        tap.ok(got.count(None) >= 80, "nearly all are missed")
        tap.ok(s.count("badcrc_from_extstore") >= 80, "they are counted")
        tap.is_(c.all(b"get key0 key1\r\nmg key2 v\r\nmg key3 v q\r\n"), b"END\r\nEN\r\n",
                "a missed value is removed")
        stats = s.stats()
        tap.is_(int(stats["cmd_get"]), int(stats["get_hits"]) + int(stats["get_misses"]),
                "each get is a hit or a miss")
        tap.is_(c.set(b"key0", b"new", verb=b"add"), b"STORED\r\n", "the key can be stored again")


@tap.case
def changed_bytes_give_misses():
    with Flash() as s, s.stream() as c:
        for i in range(100):
            c.set(key(i), value(key(i)))
        s.spilled(90)
        s.write_out(c)
        with open(s.file, "r+b") as file:
            data = bytearray(file.read(1 << 20))
            for at in range(500, len(data), 1000):
                data[at] ^= 1
            file.seek(0)
            file.write(data)
        b = binary.Binary(s.stream())
        replies = b.all(binary.request("get", b"key5") + binary.request("getk", b"key6") +
                        binary.request("getq", b"key7") + binary.request("getkq", b"key8"))
        tap.is_([(r.status, r.key) for r in replies],
                [(binary.NOT_FOUND, b""), (binary.NOT_FOUND, b"key6")],
                "binary gets answer with a miss, quiet ones not at all")
        none = c.all(b"mg none k Oq\r\n")
        tap.is_(c.all(b"mg key9 v k Oq\r\nmg key10 v q\r\nmn\r\n"),
                none.replace(b"none", b"key9") + b"MN\r\n", "mg answers as to any miss")
        got = [c.get(key(i)) for i in range(100)]
        tap.ok(all(v in (None, value(key(i))) for i, v in enumerate(got)),
               "no get returns a changed value")
        tap.ok(got.count(None) >= 80, "all changed values are missed")


@tap.case
def memory_for_the_values_of_one_get_is_limited():
    with Flash("-m", "64", size="256m", options=EAGER, page="ext_page_size=4,ext_wbuf_size=4",
               threads=1) as s, s.stream() as c:
        for i in range(160):
            c.set(key(i), value(key(i), size=900000))
            if i % 8 == 0:
                s.spilled(i - 30) # or a server that is slow evicts them
        s.spilled(100)
        there = [i for i in range(160) if c.all(b"mg key%d\r\n" % i) == b"HD\r\n"]
        tap.ok(len(there) > 90, "more values are on flash than fit into memory")
        tap.is_(c.ask(b"get %s\r\n" % b" ".join(key(i) for i in there)),
                b"SERVER_ERROR out of memory writing get response\r\n",
                "a get of all of them is refused as a whole")
        tap.ok(s.count("get_oom_extstore") > 0, "the refusal is counted")
        tap.ok(c.get(key(there[0])) == value(key(there[0]), size=900000),
               "the connection can be used afterwards")


@tap.case
def values_are_read_into_memory_of_their_class():
    with Flash("-m", "64", "-o", "slab_automove=0", size="128m", options="ext_item_size=512",
               page="ext_page_size=8") as s, s.stream() as c:
        for i in range(130):
            c.set(key(i), value(key(i), size=557 << 10))
        c.ask(b"extstore item_age 0\r\n")
        tap.ok(server.wait_for(lambda: not s.in_memory()), "large values are on flash")
        slabs = s.stats("slabs")
        for name in [n for n in slabs if n.endswith(":total_pages") and n != "1:total_pages"]:
            move = b"slabs reassign %d 1\r\n" % int(name.split(":")[0])
            server.wait_for(lambda move=move: c.ask(move).startswith(b"NOSPARE"))
        there = [key(i) for i in range(130) if c.all(b"mg key%d\r\n" % i) == b"HD\r\n"]
        tap.is_(c.get(there[0]), value(there[0], size=557 << 10),
                "with one page for each class one value can be read")
        before = s.count("get_extstore")
        tap.is_(c.ask(b"get %s\r\n" % b" ".join(there[:7])),
                b"SERVER_ERROR out of memory writing get response\r\n",
                "a get of seven values is refused")
        stats = s.stats()
        tap.is_((int(stats["get_oom_extstore"]), int(stats["get_aborted_extstore"]),
                 int(stats["get_extstore"]) - before), (1, 2, 2), "the refusal is counted")
        tap.ok(all(c.get(k) == value(k, size=557 << 10) for k in there[:7]),
               "the connection can be used afterwards")


@tap.case
def clients_that_disconnect_during_reads():
    with Flash() as s, s.stream() as c:
        for i in range(200):
            c.set(key(i), value(key(i)))
        s.spilled(190)
        s.write_out(c)
        for _ in range(40):
            s.uncache()
            leaver = s.stream()
            leaver.send(b"get %s\r\n" % b" ".join(key(i) for i in range(200)))
            leaver.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                   b"\1\0\0\0\0\0\0\0")
            leaver.close()
        tap.ok(all(c.get(key(i)) == value(key(i)) for i in range(200)), "the server still answers")
        s.uncache()
        leavers = [s.stream() for _ in range(20)]
        for leaver in leavers:
            leaver.send(b"get %s\r\n" % b" ".join(key(i) for i in range(200)))
        tap.is_(s.stop(), 0, "the server ends while reads are under way")


# --- load -----------------------------------------------------------------------

class Client(threading.Thread):
    """Writes its own keys and reads all clients'; every value read must be one that was written."""

    def __init__(self, memcached, number, nkeys, stop, latest):
        super().__init__()
        self.memcached, self.number, self.nkeys = memcached, number, nkeys
        self.stop, self.latest = stop, latest
        self.wrong, self.hits = [], 0

    def check(self, k, floor, got):
        if got is None:
            return
        self.hits += 1
        generation = int(got.split(b"#", 1)[1].split(b";", 1)[0])
        if got != value(k, generation, len(got)) or generation < floor:
            self.wrong.append((k, floor, generation, got[:60]))

    def step(self, c, rng, generation):
        k = key(rng.randrange(self.nkeys))
        mine = int(k[3:]) % 4 == self.number
        action = rng.random()
        if mine and action < 0.3:
            size = rng.choice((200, 1500, 6000, 20000))
            c.set(k, value(k, generation, size), exptime=rng.choice((0, 0, 1, 100)))
            self.latest[k] = generation
        elif mine and action < 0.35:
            c.ask(b"delete %s\r\n" % k)
            self.latest[k] = generation
        elif action < 0.6:
            names = [key(rng.randrange(self.nkeys)) for _ in range(8)]
            floors = {n: self.latest.get(n, 0) for n in names}
            for n, got in read_many(c, names):
                self.check(n, floors[n], got)
        else:
            floor = self.latest.get(k, 0)
            self.check(k, floor, c.get(k))

    def run(self):
        c = self.memcached.stream()
        rng = random.Random(self.number)
        generation = 0
        try:
            while not self.stop.is_set():
                generation += 1
                self.step(c, rng, generation)
        except (OSError, ValueError, client.Closed) as error:
            self.wrong.append(repr(error))


def read_many(c, names):
    c.send(b"get %s\r\n" % b" ".join(names))
    rows = []
    while True:
        line = c.line()
        if line == b"END\r\n":
            return rows
        _, name, _, size = line.split()
        rows.append((name, c.exactly(int(size))))
        c.exactly(2)


@tap.case
def no_foreign_or_old_value_is_read():
    options = "ext_item_age=0,ext_item_size=100,ext_compact_under=3,ext_drop_under=1," \
              "ext_max_frag=0.9,ext_recache_rate=50,ext_threads=2,ext_low_ttl=10"
    wanted = {"get_extstore": 5000, "recache_from_extstore": 10, "extstore_page_evictions": 3,
              "extstore_page_reclaims": 3, "extstore_compact_rescues": 300, "get_expired": 1}
    with Flash("-m", "16", options=options, size="16m", threads=2) as s:
        stop, latest = threading.Event(), {}
        clients = [Client(s, n, 3000, stop, latest) for n in range(4)]
        for each in clients:
            each.start()

        def all_has_happened():
            s.uncache()
            stats = s.stats()
            return all(int(stats[name]) >= least for name, least in wanted.items())

        server.wait_for(all_has_happened, 150, 0.2)
        stop.set()
        for each in clients:
            each.join()
        wrong = [w for each in clients for w in each.wrong]
        tap.is_(wrong[:3], [], "under overwriting, deleting, expiry, compaction and page eviction")
        stats = s.stats()
        tap.diag(" ".join("%s=%s" % (k, stats[k]) for k in ["get_expired"] + GET_KEYS + KEYS))
        few = ["%s=%s" % (name, stats[name]) for name, least in wanted.items()
               if int(stats[name]) < least]
        tap.is_((few, sum(each.hits for each in clients) > 1000), ([], True),
                "each of these happened")


tap.run()
