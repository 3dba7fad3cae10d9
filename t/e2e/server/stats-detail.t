#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""stats detail, cachedump and sizes: counts by prefix, keys of a class, items by size."""
import os
import subprocess
import threading

import binary
import server
import tap
from differential import PEER

END = b"END\r\n"
DUMP = b"stats detail dump\r\n"

# Requests with detail on, each by itself, to our server and Debian's memcached.
COUNTED = (b"get p:a\r\n", b"get p:a p:b q:c none\r\n", b"set p:a 0 0 1\r\n1\r\nget p:a\r\n",
           b"gets p:a\r\n", b"gat 0 p:a p:b\r\n", b"gats 0 p:a p:b\r\n", b"bget p:a\r\n",
           b"touch p:a 0\r\n", b"touch p:b 0\r\n", b"incr p:a 1\r\n", b"decr p:b 1\r\n",
           b"add p:a 0 0 1\r\n1\r\n", b"replace p:b 0 0 1\r\n1\r\n", b"append p:b 0 0 1\r\n1\r\n",
           b"prepend p:a 0 0 1\r\n1\r\n", b"cas p:a 0 0 1 1\r\n1\r\n", b"cas p:b 0 0 1 1\r\n1\r\n",
           b"set p:c 0 0 1\r\n123\r\n", b"set p:c 0 0 1 noreply\r\n1\r\n",
           b"set p:c 0 0 1100000\r\n" + bytes(1100000) + b"\r\n",
           b"set p:c 0 0 -1\r\n", b"set p:c x 0 1\r\n", b"delete p:b\r\n",
           b"delete p:c noreply\r\n",
           b"delete p:c 0\r\n", b"delete p:c 5\r\n", b"flush_all 1000\r\n", b"get :x\r\n",
           b"get x:\r\n", b"get a:b:c\r\n", b"get %s:x\r\n" % (b"k" * 248),
           b"get %s\r\n" % (b"k" * 251), b"get p:a %s\r\n" % (b"k" * 251), b"mg p:a v\r\n",
           b"md p:a\r\n", b"ms p:a 1\r\n1\r\n", b"mn\r\n", b"stats detail\r\n",
           b"stats detail foo\r\n", b"stats detail on x\r\n", b"stats detail ON\r\n",
           b"stats detail off\r\nget p:a\r\n", b"stats detail dump x\r\n",
           b"stats cachedump\r\n", b"stats cachedump 1\r\n", b"stats cachedump x 0\r\n",
           b"stats cachedump 1 x\r\n", b"stats cachedump -1 0\r\n", b"stats cachedump 64 0\r\n",
           b"stats cachedump 63 0\r\n", b"stats cachedump 0 0\r\n",
           b"stats sizes_enable\r\n", b"stats sizes_disable\r\nstats sizes\r\n")


# The same in binary, with the prefix "p".
BINARY = (binary.request("get", b"p:a"), binary.store("set", b"p:a", b"1"),
          binary.request("get", b"p:a"), binary.request("getq", b"p:b"),
          binary.touch("touch", b"p:a"), binary.touch("touch", b"p:b"), binary.touch("gat", b"p:a"),
          binary.store("add", b"p:a", b"1"), binary.store("setq", b"p:a", b"1"),
          binary.request("append", b"p:b", b"1"), binary.count("incr", b"p:a"),
          binary.count("incr", b"p:n"), binary.store("set", b"p:a", bytes(1100000)),
          binary.request("delete", b"p:a"), binary.request("delete", b"p:a"),
          binary.request("stat", b"detail dump"), binary.request("stat", b"detail dumpx"),
          binary.request("stat", b"detail"), binary.request("stat", b"detail x"),
          binary.request("stat", b"detailon"), binary.request("stat", b"detail off"),
          binary.request("stat", b"detail on"))


def counted(connection, request):
    """The answer, and the counts, their lines sorted."""
    connection.all(b"stats reset\r\nstats detail on\r\n")
    answer = connection.all(request)
    lines = connection.all(DUMP)
    return answer, sorted(lines.split(b"\r\n")), lines.endswith(END)


def binary_counted(memcached, request):
    """The replies without their CAS ids, and the counts."""
    text = memcached.stream()
    text.all(b"stats reset\r\nstats detail on\r\n")
    answers = binary.Binary(memcached.stream()).all(request)
    return [reply._replace(cas=0) for reply in answers], text.all(DUMP)


@tap.case
def prefixes_are_counted_as_memcached_counts():
    with server.Server() as ours, server.Server("-D", ":", executable=PEER) as theirs:
        for request in COUNTED:
            a, b = (counted(s.stream(), request) for s in (ours, theirs))
            tap.is_(a, b, "as memcached: %r" % request[:50])
        for request in BINARY:
            a, b = (binary_counted(s, request) for s in (ours, theirs))
            tap.is_(a, b, "as memcached counts, binary: %r" % request[:50])


def prefixes(connection):
    """{prefix: (get, hit, set, del)}"""
    rows = {}
    connection.send(DUMP)
    while True:
        line = connection.line()
        if line == END:
            return rows
        words = line.decode().split()
        rows[words[1]] = tuple(int(word) for word in words[3::2])


@tap.case
def the_switches():
    with server.Server() as memcached, memcached.stream() as c:
        tap.is_(c.all(b"get p:a\r\n" + DUMP), END + END, "detail is off at first")
        tap.is_(c.all(b"stats detail on\r\n"), b"OK\r\n", "on")
        tap.is_(c.stats("settings")["detail_enabled"], "yes", "stats settings shows yes")
        memcached.udp().ask(b"get p:a\r\n")
        memcached.stream().get(b"p:b")
        tap.is_(prefixes(c), {"p": (2, 0, 0, 0)},
                "requests of all connections, and over UDP, are counted")
        tap.is_(c.all(b"stats detail off\r\nget p:a\r\n" + DUMP),
                b"OK\r\n" + END + b"PREFIX p get 2 hit 0 set 0 del 0\r\n" + END,
                "off: the counts are kept")
        tap.is_(c.stats("settings")["detail_enabled"], "no", "stats settings shows no")
        tap.is_(c.all(b"stats reset\r\n" + DUMP), b"RESET\r\n" + END,
                "stats reset clears the counts")
    with server.Server("-D", "/") as s, s.stream() as c:
        tap.is_(c.all(b"get a/b:c\r\n" + DUMP),
                END + b"PREFIX a get 1 hit 0 set 0 del 0\r\n" + END,
                "-D / turns detail on at the start")
        settings = c.stats("settings")
        tap.is_((settings["stat_key_prefix"], settings["detail_enabled"]), ("/", "yes"),
                "stats settings shows it")


@tap.case
def settings_show_changes():
    with server.Server() as s, s.stream() as c:
        c.all(b"stats sizes_enable\r\ncache_memlimit 100\r\n")
        settings = c.stats("settings")
        tap.is_((settings["track_sizes"], settings["maxbytes"]), ("yes", str(100 << 20)),
                "stats settings shows changes of track_sizes and maxbytes")
        c.all(b"stats sizes_disable\r\n")
        tap.is_(c.stats("settings")["track_sizes"], "no",
                "stats settings shows that track_sizes is off")


@tap.case
def many_clients_lose_no_count():
    def work(connection, number):
        for i in range(50):
            connection.all(b"set t:%d 0 0 1\r\n1\r\nget t:%d\r\nget u%d:x\r\ndelete t:%d\r\n" %
                           (number, number, i, number))

    with server.Server("-D", ":", threads=4) as memcached:
        threads = [threading.Thread(target=work, args=(memcached.stream(), i)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = prefixes(memcached.stream())
        tap.is_(rows.pop("t"), (200, 200, 200, 200), "one prefix of four clients has all counts")
        tap.is_((len(rows), set(rows.values())), (50, {(4, 0, 0, 0)}),
                "fifty other prefixes have all counts")


@tap.case
def unlimited_prefixes():
    with server.Server("-D", ":") as memcached, memcached.stream() as c:
        for start in range(0, 60000, 500):
            c.all(b"".join(b"get %0200d:x\r\n" % i for i in range(start, start + 500)))
        rows = prefixes(c)
        tap.ok(10000 < len(rows) <= 1 << 14, "of 60,000 prefixes %d are kept" % len(rows))
        lines = [line for line in memcached.log().splitlines() if "prefixes is reached" in line]
        tap.is_(len(lines), 1, "the limit is logged once")
        tap.ok(memcached.alive(), "the server still runs")


@tap.case
def cachedump():
    with server.Server() as memcached, memcached.stream() as c:
        c.set(b"a", b"abc")
        c.set(b"b", b"x" * 5, exptime=2000000000)
        c.set(b"c", b"", exptime=-1)
        c.set(b"wide", b"v" * 5000)
        tap.is_(c.all(b"stats cachedump 1 0\r\n"),
                b"ITEM b [5 b; 2000000000 s]\r\nITEM a [3 b; 0 s]\r\nEND\r\n",
                "live items of a class are listed, the newest first")
        tap.is_(c.all(b"stats cachedump 1 1\r\n"), b"ITEM b [5 b; 2000000000 s]\r\nEND\r\n",
                "at most the limit is listed")
        number = next(key.split(":")[1] for key, value in c.stats("items").items()
                      if key.endswith(":number") and not key.startswith("items:1:"))
        tap.is_(c.all(b"stats cachedump %s 0\r\n" % number.encode()),
                b"ITEM wide [5000 b; 0 s]\r\nEND\r\n", "classes are those of stats items")
        c.all(b"flush_all\r\n")
        tap.is_(c.all(b"stats cachedump 1 0\r\n"), END, "after flush_all nothing is listed")
        for i in range(12000):
            c.send(b"set %0240d 0 0 1 noreply\r\n1\r\n" % i)
        c.all(b"")
        number = next(key.split(":")[1] for key, value in c.stats("items").items()
                      if key.endswith(":number") and value == "12000")
        text = c.all(b"stats cachedump %s 0\r\n" % number.encode())
        tap.ok((2 << 20) - 600 < len(text) <= 2 << 20, "at most 2 MB (%d) are printed" % len(text))
        tap.is_({line.split(b" ")[0] for line in text.split(b"\r\n")}, {b"ITEM", b"END", b""},
                "the lines are complete")
    with server.Server("-X") as memcached:
        tap.is_(memcached.stream().all(b"stats cachedump 1 0\r\n"),
                b"CLIENT_ERROR stats cachedump not allowed\r\n", "-X forbids it")


@tap.case
def cachedump_beside_writers():
    stop = threading.Event()

    def work(connection, number):
        i = 0
        while not stop.is_set():
            connection.all(b"".join(b"set w%d_%d 0 0 3\r\nabc\r\ndelete w%d_%d\r\n" %
                                    (number, (i + j) % 500, number, (i + j + 250) % 500)
                                    for j in range(20)))
            i += 20

    with server.Server() as memcached:
        threads = [threading.Thread(target=work, args=(memcached.stream(), i)) for i in range(2)]
        for thread in threads:
            thread.start()
        c = memcached.stream()
        wrong = []
        for _ in range(100):
            for line in c.all(b"stats cachedump 1 0\r\n").split(b"\r\n")[:-2]:
                if not line.startswith(b"ITEM w") or not line.endswith(b" [3 b; 0 s]"):
                    wrong.append(line)
        stop.set()
        for thread in threads:
            thread.join()
        tap.is_(wrong, [], "every line is of an item")


@tap.case
def sizes():
    with server.Server() as s, s.stream() as c:
        c.set(b"before", b"1")
        tap.is_(c.all(b"stats sizes_enable\r\n"), b"STAT sizes_status enabled\r\n",
                "sizes_enable answers one line without END")
        for i in range(5):
            c.set(b"k%d" % i, b"v" * 10)
        c.set(b"large", b"v" * 1000)
        tap.is_(sorted(value for _, value in c.stats_list("sizes")), ["1", "5"],
                "items stored from then on are counted")
        c.all(b"delete before\r\ndelete k1\r\ndelete k2\r\n")
        tap.is_(sorted(value for _, value in c.stats_list("sizes")), ["1", "3"],
                "removed items are subtracted, if they were counted")
        tap.is_(c.all(b"stats sizes_disable\r\nstats sizes\r\n"),
                b"STAT sizes_status disabled\r\nSTAT sizes_status disabled\r\nEND\r\n",
                "sizes_disable answers one line without END")


def classes(sizes):
    return [b"slab class %3d: chunk size %9d perslab %7d" % (number, size, (1 << 20) // size)
            for number, size in enumerate(sizes, 1)]


def ours(theirs):
    """memcached's lines as they are here: small chunks have 8 bytes less, and behind the largest
    there is a class with the size of its first."""
    sizes = [int(line.split(b"chunk size")[1].split()[0]) for line in theirs]
    return classes([size - 8 if size <= 1480 else size for size in sizes] + sizes[:1])


@tap.case
def very_verbose_servers_log_the_slab_classes():
    def told(program, *arguments):
        """The program's output on its classes; the listener, which fails, ends it."""
        words = ["-p", "0", "-U", "0", "-s", "/nonexistent/socket", "-vv"] + list(arguments)
        words += ["-u", server.USER] if os.geteuid() == 0 else []
        run = subprocess.run([program] + words, stderr=subprocess.PIPE, timeout=150, check=False)
        return [line for line in run.stderr.split(b"\n") if line.startswith(b"slab class")]

    lines = told(server.program())
    tap.is_((lines[0], lines[-1], len(lines)),
            (b"slab class   1: chunk size        88 perslab   11915",
             b"slab class  40: chunk size        96 perslab   10922", 40), "40 lines")
    tap.is_(told(server.program(), "-v", "-v")[0], lines[0], "also with -v -v")
    for words in (("-f", "2"), ("-n", "500"), ("-o", "slab_sizes=100-500-1000"),
                  ("-o", "no_modern"), ("-I", "2m")):
        theirs = told(PEER, *words)
        tap.is_(told(server.program(), *words),
                theirs if "slab_sizes" in words[1] else ours(theirs),
                "those of memcached, or 8 bytes less, with %s %s" % words)


if not os.access(PEER, os.X_OK):
    tap.skip_all("%s is not logged" % PEER)
tap.run()
