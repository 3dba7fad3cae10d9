#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""watch: its streams and their lines, compared with Debian's memcached where that has the same."""
import os
import re
import resource
import socket
import struct
import threading

import binary
import child
import client
import differential
import openfiles
import server
import tap
import watching
from watching import Watcher

TOO_MANY = b"WATCHER_TOO_MANY log watcher limit reached\r\n"
QUIET = ("-o", "no_lru_maintainer,no_lru_crawler")
NCOMMANDS = 100000
ROOMY = "watcher_logbuf_size=4096,worker_logbuf_size=4096"
RESET = struct.pack("ii", 1, 0) # SO_LINGER: close() sends RST

# --- forms ---------------------------------------------------------------------

# Each request, and how many lines of fetchers and mutations it makes.
TEXT = [
    (b"get k\r\n", 1), (b"set k 0 0 3\r\nabc\r\n", 2), (b"get k\r\n", 1), (b"gets k nope k\r\n", 3),
    (b"gat 100 k nope\r\n", 2), (b"gats 0 k\r\n", 1), (b"touch k 0\r\n", 1),
    (b"touch nope 1\r\n", 1),
    (b"incr k 1\r\n", 1), (b"incr nope 1\r\n", 1), (b"decr nope 1\r\n", 1),
    (b"set n 7 100 1\r\n5\r\n", 2), (b"incr n 1\r\n", 1), (b"decr n 1\r\n", 1),
    (b"incr n 1000000\r\n", 1), (b"add n 0 0 1\r\nx\r\n", 2), (b"add m 0 50 1\r\nx\r\n", 2),
    (b"replace m 0 0 1\r\ny\r\n", 2), (b"replace nope 0 0 1\r\ny\r\n", 2),
    (b"append n 0 0 2\r\nyz\r\n", 2), (b"prepend n 0 0 2\r\nyz\r\n", 2),
    (b"append nope 0 0 1\r\ny\r\n", 2), (b"prepend nope 0 0 1\r\ny\r\n", 2),
    (b"cas m 0 0 1 1000000\r\nz\r\n", 2), (b"cas nope 0 0 1 1\r\nz\r\n", 2),
    (b"delete m\r\n", 1), (b"delete m\r\n", 1),
    (b"set gone 0 -1 1\r\nx\r\n", 0), (b"get gone\r\n", 1), (b"get gone\r\n", 1),
    (b"set k%\x01\xff+/ 0 0 1\r\nx\r\n", 2),
    (b"get " + bytes(c for c in range(33, 256) if c != 127) + b"\r\n", 1),
    (b"set q 0 0 1 noreply\r\nx\r\n", 2), (b"get q\r\n", 1),
    (b"set bad 0 0 1\r\nxx\r\n", 0), (b"get\r\n", 0), (b"get " + b"x" * 251 + b"\r\n", 0),
    (b"set large 0 0 600000\r\n" + b"x" * 600000 + b"\r\n", 2), (b"get large\r\n", 1),
    (b"set f 0 0 1\r\nx\r\nset f2 0 0 1\r\nx\r\nflush_all\r\n", 4), (b"get f f2\r\n", 2),
    (b"get f f2\r\n", 2), (b"version\r\nstats\r\n", 0),
]
META = [
    (b"mg k v\r\n", 1), (b"ms k 2 T30 F3\r\nab\r\n", 2), (b"mg k s v\r\n", 1), (b"mg k q\r\n", 1),
    (b"ms k 1 ME\r\nx\r\n", 2), (b"ms k 1 MA\r\nx\r\n", 2), (b"ms k 1 MP\r\nx\r\n", 2),
    (b"ms k 1 MR\r\nx\r\n", 2), (b"ms nope 1 MA\r\nx\r\n", 2), (b"ms nope 1 MR\r\nx\r\n", 2),
    (b"ms k 1 C1000000\r\nx\r\n", 2), (b"md k\r\n", 1), (b"md k\r\n", 1), (b"mg v N30 v\r\n", 1),
    (b"mg v v\r\n", 1), (b"ma c N0 J13\r\n", 3), (b"ma c\r\n", 1), (b"ma nope\r\n", 1),
    (b"me nope\r\n", 1), (b"mn\r\n", 0), (b"ms Zm9v 2 b\r\nab\r\n", 2), (b"mg Zm9v b v\r\n", 1),
]


def binary_requests():
    key, other = b"k", b"nope"
    yield binary.request(0x00, key), 1
    yield binary.store(0x01, key, b"v", exptime=10), 2
    yield binary.request(0x00, key) + binary.request(0x0c, key) + binary.request(0x09, other), 3
    yield binary.store(0x02, key, b"v"), 2
    yield binary.store(0x03, key, b"v"), 2
    yield binary.store(0x03, other, b"v"), 2
    yield binary.request(0x0e, key, b"v") + binary.request(0x0f, key, b"v"), 4
    yield binary.store(0x01, key, b"v", cas=1000000), 2
    yield binary.count(0x05, b"n", 1, 5), 3
    yield binary.count(0x05, b"n", 1, 5) + binary.count(0x06, b"n", 1, 5), 2
    yield binary.count(0x05, other, 1, 5, 0xffffffff), 1
    yield binary.touch(0x1c, key, 100) + binary.touch(0x1d, key, 0), 2
    yield binary.request(0x04, key) + binary.request(0x04, key), 2
    yield binary.request(0x10) + binary.request(0x0a), 0


def forms(memcached, requests, send):
    """The texts of the lines of all requests, and the requests with another number of lines than
    expected."""
    control = memcached.stream()
    watcher = Watcher(memcached, "fetchers mutations")
    client_stream = memcached.stream()
    fd = None
    texts, wrong = [], []
    for request, count in requests:
        send(client_stream, request)
        lines = watcher.lines(control)
        if count and len(lines) != count:
            wrong.append((request[:60], count, [line.text for line in lines]))
        for line in lines:
            fd = fd or line["cfd"]
            if line["cfd"] != fd:
                wrong.append((request[:60], "cfd", line.text))
            line["cfd"] = "N"
            line.pop("size", None) # of 1.6
            texts.append(" ".join("%s=%s" % word for word in line.items()))
    control.close()
    watcher.close()
    client_stream.close()
    return texts, wrong


def send_text(stream, request):
    stream.send(request + b"mn\r\n")
    stream.until(b"MN\r\n")


def send_binary(stream, request):
    stream.send(request + binary.request(0x0a, opaque=0xfeed))
    while True:
        head = stream.exactly(24)
        body = struct.unpack(">I", head[8:12])[0]
        stream.exactly(body)
        if head[1] == 0x0a and head[12:16] == b"\0\0\xfe\xed":
            return


def rounded(lines):
    """With times to live rounded to those when the item was stored."""
    return [re.sub(r"ttl=(\d+)", lambda ttl: "ttl=%d" % (-(-int(ttl.group(1)) // 10) * 10), line)
            for line in lines]


def compare(requests, send, name):
    requests = list(requests)
    with server.Server(*QUIET, threads=1) as memcached:
        ours, wrong = forms(memcached, requests, send)
    tap.is_(wrong, [], "%s: each request makes the expected number of lines" % name)
    for _ in range(3): # on a busy machine its thread may be late with a line
        with differential.start_peer() as memcached:
            theirs, _ = forms(memcached, requests, send)
        if len(theirs) == len(ours):
            break
    # The time to live of an expired item: memcached prints it modulo 2^32.
    theirs = [re.sub(r"ttl=42949\d+", "ttl=0", line) for line in theirs]
    theirs, ours = rounded(theirs), rounded(ours)
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            tap.diag("line %d: %s\nmemcached: %s" % (i, a, b))
            break
    tap.ok(ours == theirs, "%s: %d lines are those of memcached" % (name, len(ours)))


@tap.case
def lines_of_text_commands():
    compare(TEXT, send_text, "text")


@tap.case
def lines_of_meta_commands():
    compare(META, send_text, "meta")


@tap.case
def lines_of_binary_commands():
    compare(binary_requests(), send_binary, "binary")


@tap.case
def lines_have_the_form_of_memcached_1_5_19():
    with server.Server() as memcached, memcached.stream() as c:
        w = Watcher(memcached, "fetchers mutations")
        tap.is_(w.answer, b"OK\r\n", "watch answers OK")
        c.set(b"key", b"abc", exptime=100)
        tap.like(w.raw(), r"^ts=\d+\.\d{6} gid=\d+ type=item_get key=key status=not_found clsid=0 "
                 r"cfd=\d+$", "item_get, also before a set")
        tap.like(w.raw(), r"^ts=\d+\.\d{6} gid=\d+ type=item_store key=key status=stored cmd=set "
                 r"ttl=(99|100) clsid=1 cfd=\d+$", "item_store")
        c.ask(b"set big 0 0 2000000\r\n" + b"x" * 2000000 + b"\r\n")
        lines = w.texts(c)
        tap.like(lines[0], r"^type=item_store key=big status=too_large cmd=set ttl=0 clsid=0 "
                 r"cfd=\d+$", "a value that is too large")
        mine = "tcp:127.0.0.1:%d" % c.sock.getsockname()[1]
        fds = [key for key, value in memcached.stats("conns").items() if value == mine]
        c.get(b"mine")
        tap.is_([w.next()["cfd"] + ":addr"], fds, "cfd is the connection's descriptor")


@tap.case
def watch_alone_is_fetchers_and_unknown_words_are_errors():
    with server.Server() as memcached, memcached.stream() as c:
        w = Watcher(memcached, "")
        c.set(b"k", b"v")
        c.get(b"k")
        tap.is_([line["type"] for line in w.lines(c)], ["item_get"] * 2,
                "watch alone selects fetchers")
        for words in (b"foo", b"fetchers foo", b"Fetchers", b"proxyreqs", b"a b c d e f g h"):
            s = memcached.stream()
            tap.is_(s.all(b"watch %s\r\n" % words), b"ERROR\r\n", "watch %s" % words.decode())
            tap.is_(s.get(b"k"), b"v", "the connection can be used afterwards")
        s = memcached.stream()
        tap.is_(s.all(b"watch fetchers noreply\r\n"), b"",
                "noreply is not a kind of line, and suppresses the error")
        for words in ("fetchers", "mutations", "evictions", "sysevents", "rawcmds", "connevents",
                      "deletions", "fetchers fetchers mutations evictions sysevents rawcmds"):
            tap.is_(Watcher(memcached, words).answer, b"OK\r\n", "watch " + words)


@tap.case
def each_watcher_gets_the_selected_lines():
    with server.Server(threads=1) as memcached, memcached.stream() as c:
        kinds = {"fetchers": "item_get", "mutations": "item_store", "deletions": "deleted",
                 "rawcmds": "rawcmd"}
        watchers = {words: Watcher(memcached, words) for words in kinds}
        everything = Watcher(memcached, " ".join(kinds))
        for i in range(10):
            c.set(b"k%d" % i, b"v")
            c.ask(b"delete k%d\r\n" % i)
        lines = everything.lines(c)
        for words, kind in kinds.items():
            want = [line.text for line in lines if line["type"] == kind]
            got = [watchers[words].next() for _ in want]
            tap.is_([line.text for line in got], want, "%s: %d lines" % (words, len(want)))
            tap.ok(all(line["type"] == kind for line in got), "it gets no others")


@tap.case
def deletions_are_those_of_commands():
    with server.Server(*QUIET) as memcached, memcached.stream() as c:
        w = Watcher(memcached, "deletions fetchers")
        b = memcached.stream()
        for key in (b"a", b"b", b"c"):
            c.set(key, b"12345")
        c.ask(b"set d 0 -1 1\r\nx\r\n")
        c.all(b"delete a\r\nmd b\r\ndelete a\r\nmd b\r\ndelete d\r\nmd c I\r\n")
        b.send(binary.request(0x04, b"c"))
        b.exactly(24)
        tap.is_([line.text for line in w.lines(c) if line["type"] == "deleted"],
                ["type=deleted key=a cmd=delete clsid=1 size=5",
                 "type=deleted key=b cmd=md clsid=1 size=5",
                 "type=deleted key=c cmd=delete clsid=1 size=5"],
                "delete, md and binary delete have lines")


@tap.case
def rawcmds_are_requests_as_received():
    with server.Server(threads=1) as memcached, memcached.stream() as c:
        w = Watcher(memcached, "rawcmds")
        c.send(b"set a 0 0 2\r\nab\r\nget a\nfoo bar\r\n")
        c.until(b"ERROR\r\n")
        u = memcached.udp()
        u.ask(b"get u\r\n")
        b = memcached.stream()
        b.send(binary.request(0x0a))
        b.exactly(24)
        lines = [w.next() for _ in range(5)]
        commands = [line["cmd"] for line in lines]
        tap.is_(commands, ["set%20a%200%200%202", "get%20a", "foo%20bar",
                                               "get%20u", "%80%0A" + "%00" * 22],
                "text without its newline, also over UDP, and binary")
        long = b"get " + b" ".join(b"%d" % i for i in range(1000, 2000)) + b"\r\n"
        c.send(long)
        tap.is_(w.next()["cmd"], long[:1024].decode().replace(" ", "%20"),
                "a long line is cut at 1,024 bytes")


@tap.case
def evictions():
    with server.Server(*QUIET, "-m", "2", threads=1) as memcached, memcached.stream() as c:
        w = Watcher(memcached, "evictions")
        for i in range(300):
            c.set(b"key/%d" % i, b"x" * 20000, exptime=1000 if i % 2 else 0)
            if i % 3 == 0:
                c.get(b"key/%d" % i)
        count = int(memcached.stats()["evictions"])
        lines = [w.next() for _ in range(count)]
        tap.ok(count > 100, "items were evicted")
        tap.is_(len({line["key"] for line in lines}), count, "each eviction has a line")
        tap.ok(all(re.fullmatch(r"type=eviction key=key%2F\d+ fetch=(yes|no) ttl=(-1|\d+) "
                                r"la=\d+ clsid=\d+", line.text) for line in lines),
                                "the lines have their form")
        for line in lines:
            number = int(line.key()[4:])
            if (line["fetch"] == "yes") != (number % 3 == 0) or \
                    (int(line["ttl"]) > 0) != (number % 2 == 1):
                tap.diag(line.text)
                break
        else:
            tap.ok(True, "fetch says whether the item was read, ttl its time left, -1: no expiry")
            return
        tap.ok(False, "fetch says whether the item was read, ttl its time left, -1: no expiry")


@tap.case
def flash_writes_and_compactions():
    if "ext_path" not in server.run("-h")[1]:
        return tap.diag("this build has no flash storage")
    words = ("ext_page_size=2,ext_wbuf_size=1,ext_path=%s:16m,ext_item_age=0,ext_item_size=100,"
             "ext_compact_under=8,ext_drop_under=0,ext_max_frag=0.9" %
             os.path.join(server.scratch(), "flash"))
    with server.Server("-o", words, udp=False) as memcached, memcached.stream() as c:
        left, system = Watcher(memcached, "evictions"), Watcher(memcached, "sysevents")
        system.stream.sock.settimeout(0.001)
        c.set(b"first", b"x" * 3000)
        tap.like(left.next().text, r"^type=extwrite key=first fetch=no ttl=-1 la=\d+ clsid=\d+ "
                 r"bucket=0$", "extwrite")
        lines = {}

        def moved():
            for i in range(50):
                c.set(b"key%d" % (i * 7 % 900), b"x" * 30000)
            try:
                while True:
                    line = system.next()
                    lines.setdefault(line["type"], line.text)
            except TimeoutError:
                pass
            return "compact_end" in lines

        tap.ok(server.wait_for(moved), "pages are compacted")
        tap.like(lines.get("compact_start", ""), r"^type=compact_start id=\d+ version=\d+$",
                 "compact_start")
        tap.like(lines.get("compact_read_start", ""),
                 r"^type=compact_read_start id=\d+ offset=\d+$", "compact_read_start")
        tap.like(lines.get("compact_read_end", ""), r"^type=compact_read_end id=\d+ offset=\d+ "
                 r"rescues=\d+ lost=\d+ skipped=\d+$", "compact_read_end")
        tap.like(lines.get("compact_end", ""), r"^type=compact_end id=\d+$", "compact_end")


def is_new(line):
    return line["type"] == "conn_new"


# What makes the server close, and why it says it has.
REASONS = ((b"a" * 3000, "error", "a line that does not end"),
           (b"mg " + b"a" * 3000, "error", "a meta command that does not end"),
           (b"GET / HTTP/1.1\r\n\r\n", "error", "HTTP"),
           (b"\x80\x0a" + bytes(22) + b"get key\r\n" * 3, "error", "text behind a binary request"),
           (b"\x80\x00\x01\x2c\0\0\0\0\0\0\x01\x2c" + bytes(12) + b"k" * 300, "error",
            "a binary key that is too long"),
           (b"version\r\nquit\r\n", "normal", "quit"),
           (b"\x80\x07" + bytes(22), "normal", "a binary quit"))


@tap.case
@tap.uninterrupted(1)
def connevents():
    with server.Server(*QUIET) as memcached:
        w = Watcher(memcached, "connevents")
        c = memcached.stream()
        port = c.sock.getsockname()[1]
        line = w.wait(lambda l: l.get("rport") == str(port))
        tap.is_(line.text, "type=conn_new rip=127.0.0.1 rport=%d transport=tcp cfd=%s" %
                (port, line["cfd"]), "conn_new")
        c.to_end(b"quit\r\n")
        closing = w.wait(lambda l: l.get("rport") == str(port))
        tap.is_(closing.text, "type=conn_close rip=127.0.0.1 rport=%d transport=tcp "
                "reason=normal cfd=%s" % (port, line["cfd"]), "conn_close")
        c = memcached.stream()
        c.ask(b"version\r\n")
        line = w.wait(lambda l: l["rport"] == str(c.sock.getsockname()[1]))
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        c.close()
        line = w.wait(lambda l: l["type"] == "conn_close" and l["cfd"] == line["cfd"])
        tap.is_(line["reason"], "error", "a client that resets the connection")
        for sent, reason, what in REASONS:
            c = memcached.stream()
            port = c.sock.getsockname()[1]
            c.send(sent)
            line = w.wait(lambda l: l["type"] == "conn_close" and l["rport"] == str(port))
            tap.is_(line["reason"], reason, "a client that sends %s" % what)
    with server.Server(*QUIET, "-o", "idle_timeout=2") as memcached:
        w = Watcher(memcached, "connevents")
        c = memcached.stream()
        line = w.wait(lambda l: l["type"] == "conn_close" and
                      l["rport"] == str(c.sock.getsockname()[1]))
        tap.is_(line["reason"], "idle_timeout", "a connection that was idle for too long")
        tap.is_(watching.watchers(memcached), 1, "a watcher is never idle")
    path = os.path.join(server.scratch(), "sock")
    with server.Server(unix=path) as memcached:
        w = Watcher(memcached, "connevents")
        memcached.stream()
        tap.like(w.wait(is_new).text, r"^type=conn_new rip=unix rport=0 transport=local cfd=\d+$",
                 "over a unix socket")
    with server.Server(host="::1", udp=False) as memcached:
        w = Watcher(memcached, "connevents")
        memcached.stream()
        tap.like(w.wait(is_new).text, r"^type=conn_new rip=::1 rport=\d+ transport=tcp cfd=\d+$",
                 "over IPv6")


# --- the connection that watches -------------------------------------------------

@tap.case
def input_of_a_watcher_is_discarded():
    with server.Server() as memcached, memcached.stream() as c:
        w = Watcher(memcached)
        w.stream.send(b"set x 0 0 1\r\nx\r\nversion\r\nwatch mutations\r\n\x80\x0a" +
                      bytes(5000))
        c.get(b"k")
        tap.is_([line.text for line in w.lines(c)][0].split(" cfd")[0],
                "type=item_get key=k status=not_found clsid=0", "it goes on watching")
        tap.is_(c.get(b"x"), None, "its input is not executed")
        s = memcached.stream()
        s.send(b"get a\r\nwatch fetchers\r\nset y 0 0 1\r\ny\r\nget b\r\n")
        tap.is_(s.line() + s.line(), b"END\r\nOK\r\n", "commands before watch are answered")
        tap.is_(c.get(b"y"), None, "commands behind watch are not executed")
        conns = memcached.stats("conns")
        tap.is_(list(conns.values()).count("conn_watch"), 2, "stats conns shows conn_watch")


@tap.case
def a_watcher_that_leaves_frees_its_place():
    with server.Server() as memcached:
        watchers = [Watcher(memcached, "fetchers") for _ in range(20)]
        tap.ok(all(w.answer == b"OK\r\n" for w in watchers), "20 connections can watch")
        late = memcached.stream()
        for _ in range(2):
            tap.is_(late.ask(b"watch\r\n"), TOO_MANY, "one more is refused")
        tap.is_(late.get(b"k"), None, "its connection can be used afterwards")
        u = memcached.udp()
        tap.like(u.ask(b"watch\r\n"), r"^CLIENT_ERROR ", "watch over UDP is refused")
        watchers[0].close()
        tap.ok(server.wait_for(lambda: late.ask(b"watch\r\n") == b"OK\r\n"),
               "when one leaves, the next is accepted")
        watchers[1].stream.sock.shutdown(socket.SHUT_WR)
        tap.ok(watchers[1].closed(), "one that shuts down its sending side is closed")
        watchers[2].stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                           RESET)
        watchers[2].close()
        more = [memcached.stream() for _ in range(2)]
        for s in more:
            tap.ok(server.wait_for(lambda: s.ask(b"watch\r\n") == b"OK\r\n"),
                   "two more are accepted")
        control = memcached.stream()
        control.get(b"k")
        tap.is_([w.next()["key"] for w in watchers[3:]], ["k"] * 17,
                "the other watchers get their lines")
        tap.is_(watching.watchers(memcached), 20, "20 watch again")


@tap.case
def watch_over_udp_is_refused():
    with server.Server() as memcached:
        u = memcached.udp()
        for words in (b"", b" fetchers", b" evictions sysevents"):
            tap.like(u.ask(b"watch%s\r\n" % words), r"^CLIENT_ERROR .*\r\n$", "watch%s" %
                     words.decode())
            tap.is_(u.ask(b"get k\r\n"), b"END\r\n", "the socket still answers")
        tap.is_(u.ask(b"watch foo\r\n"), b"ERROR\r\n", "an unknown word is an error")
        tap.is_(watching.watchers(memcached), 0, "no connection watches")
        w = Watcher(memcached)
        u.ask(b"get over-udp\r\n")
        tap.is_(w.next()["key"], "over-udp", "a watcher sees gets over UDP")


@tap.case
def over_a_unix_socket():
    path = os.path.join(server.scratch(), "sock")
    with server.Server(unix=path) as memcached, memcached.stream() as c:
        w = Watcher(memcached, "fetchers mutations")
        c.set(b"k", b"v")
        tap.is_([line["type"] for line in w.lines(c)], ["item_get", "item_store"],
                "the watcher gets its lines")


@tap.case
def with_one_protocol_only():
    with server.Server("-B", "ascii") as memcached:
        tap.is_(Watcher(memcached).answer, b"OK\r\n", "-B ascii: watch")
    with server.Server("-B", "binary", binary=True) as one, one.stream() as s:
        tap.is_(s.to_end(b"watch fetchers\r\n" + bytes(20)), b"",
                "-B binary: watch closes the connection")


@tap.case
def it_can_be_disabled():
    for option in ("-W", "--disable-watch"):
        with server.Server(option) as one, one.stream() as s:
            for words in (b"", b" fetchers", b" foo"):
                tap.is_(s.ask(b"watch%s\r\n" % words),
                        b"CLIENT_ERROR watch commands not allowed\r\n", "%s: watch%s" %
                        (option, words.decode()))
            tap.is_(s.get(b"k"), None, "the connection can be used afterwards")


@tap.case
def without_a_free_descriptor_watch_fails():
    # Only a process of the same user can be given other limits.
    with server.Server(*(("-u", "root") if os.geteuid() == 0 else ())) as memcached, \
            memcached.stream() as c:
        tap.ok(server.wait_for(lambda: sum(key.endswith(":listen_addr")
                                           for key in c.stats("conns")) == 1),
               "there is one connection")
        before = resource.prlimit(memcached.pid, resource.RLIMIT_NOFILE)
        used = openfiles.links(memcached.pid)
        free = min(set(range(len(used) + 1)) - set(used))
        resource.prlimit(memcached.pid, resource.RLIMIT_NOFILE, (free, before[1]))
        tap.is_(c.ask(b"watch\r\n"), b"WATCHER_FAILED failed to add log watcher\r\n",
                "without a free descriptor watch fails")
        tap.is_(c.get(b"k"), None, "the connection can be used afterwards")
        resource.prlimit(memcached.pid, resource.RLIMIT_NOFILE, before)
        tap.is_(c.ask(b"watch\r\n"), b"OK\r\n", "with free descriptors watch succeeds")


@tap.case
def pending_answers_come_before_the_lines():
    with server.Server() as memcached, memcached.stream() as c:
        c.set(b"big", b"x" * 500000)
        s = small(memcached)
        s.send(b"get big\r\n" * 20 + b"watch\r\n")
        tap.ok(server.wait_for(lambda: watching.watchers(memcached) == 1 or "conn_mwrite" in
                               memcached.stats("conns").values()), "the answers fill the socket")
        c.get(b"k")
        one = b"VALUE big 0 500000\r\n" + b"x" * 500000 + b"\r\nEND\r\n"
        tap.ok(s.exactly(20 * len(one)) == 20 * one, "the answers are complete")
        tap.is_(s.line(), b"OK\r\n", "then watch is answered")
        c.get(b"later")
        w = Watcher.__new__(Watcher)
        w.memcached, w.stream, w.nskipped = memcached, s, 0
        tap.ok(w.wait(lambda line: line["key"] == "later"), "then the lines follow")


@tap.case
def unauthenticated_clients_may_not_watch():
    path = os.path.join(server.scratch(), "users")
    with open(path, "w") as users:
        users.write("user:pass\n")
    os.chmod(path, 0o644)
    with server.Server("-Y", path, udp=False) as memcached, memcached.stream() as s:
        tap.is_(s.ask(b"watch fetchers\r\n"), b"CLIENT_ERROR unauthenticated\r\n",
                "before authentication")
        tap.is_(s.ask(b"set a 0 0 9\r\nuser pass\r\n"), b"STORED\r\n", "the login succeeds")
        tap.is_(s.ask(b"watch rawcmds\r\n"), b"OK\r\n", "after it watch succeeds")
        other = memcached.stream()
        other.ask(b"set b 0 0 9\r\nuser pass\r\n")
        line = watching.Line(s.until(b"\n")[:-1].decode())
        tap.is_(line["cmd"], "set%20b%200%200%209", "the lines have no password")


@tap.case
def under_the_filter_of_system_calls():
    if "no_drop_privileges" not in server.run("-h")[1]:
        return tap.diag("this build has no -o drop_privileges")
    with server.Server("-o", "drop_privileges") as memcached, memcached.stream() as c:
        watchers = [Watcher(memcached, "fetchers mutations connevents") for _ in range(5)]
        for w in watchers[:2]:
            w.close()
        c.set(b"k", b"v")
        tap.ok("item_store" in [line["type"] for line in watchers[4].lines(c)],
               "the watcher gets its lines")


# --- slow and vanishing watchers ------------------------------------------------

def small(memcached):
    """A connection with a small receive buffer."""
    sock = socket.socket(socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stream = client.Stream.__new__(client.Stream)
    sock.settimeout(client.SECONDS)
    sock.connect((memcached.host, memcached.port))
    stream.sock, stream.buffer, stream.sentinel = sock, b"", None
    return stream


def run_gets(memcached, count, prefix=b"key"):
    """Sends that many gets, pipelined; returns how many were answered."""
    c = memcached.stream()
    answered = 0
    for start in range(0, count, 1000):
        c.send(b"".join(b"get %s%d\r\n" % (prefix, i) for i in range(start, start + 1000)))
        answered += c.exactly(5 * 1000).count(b"END\r\n")
    c.close()
    return answered


@tap.case
def a_slow_watcher_delays_only_itself():
    with server.Server("-o", "watcher_logbuf_size=64", threads=2) as memcached:
        slow = Watcher(memcached, stream=small(memcached))
        tap.is_(run_gets(memcached, NCOMMANDS), NCOMMANDS, "100,000 commands are answered")
        counts = watching.settled(memcached)
        tap.ok(counts, "each written line was sent or skipped")
        dropped, written, skipped, sent = counts
        tap.diag("dropped %d, written %d, skipped %d, sent %d" % counts)
        tap.is_(dropped + written, NCOMMANDS, "each command was written or dropped")
        tap.ok(skipped > 0 and sent > 0, "some lines were skipped, some sent")
        gids, told = [], 0
        while told < skipped or len(gids) < sent:
            line = slow.raw()
            if line.startswith("skipped="):
                told += int(line[len("skipped="):])
            else:
                gids.append(watching.Line(line).gid)
        tap.is_((told, len(gids)), (skipped, sent),
                "the watcher gets the sent lines, and the number of the skipped ones")
        tap.is_(gids, sorted(gids), "the lines are in order")
        memcached.stream().get(b"one-more")
        tap.is_(slow.next()["key"], "one-more", "it gets later lines")
        memcached.stream().ask(b"stats reset\r\n")
        tap.is_(watching.log_counts(memcached), (0, 0, 0, 0), "stats reset sets the counts to 0")


def switches(memcached):
    """How often each thread has waited for something."""
    return {thread: int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", text, re.M).group(1))
            for thread, text in child.of_threads(memcached.pid, "status").items()}


@tap.case
def idle_watchers_wake_only_the_logger():
    with server.Server("-o", "no_lru_maintainer,no_lru_crawler", threads=2) as memcached:
        watchers = [Watcher(memcached) for _ in range(20)]
        before = switches(memcached)
        grown = {}

        def look():
            grown.update((thread, count - before[thread])
                         for thread, count in switches(memcached).items())
            return max(grown.values()) >= 100

        tap.ok(server.wait_for(look), "the logger wakes to look for lines")
        awake = [count for count in grown.values() if count > 40]
        tap.is_(len(awake), 1, "the other threads sleep")
        tap.is_(len(watchers), watching.watchers(memcached), "while 20 watch")


@tap.case
def a_fast_watcher_gets_every_line():
    with server.Server("-o", ROOMY, threads=2) as memcached:
        w = Watcher(memcached)
        keys = []

        def read():
            while len(keys) < 20000:
                keys.append(w.next()["key"])

        reader = threading.Thread(target=read)
        reader.start()
        run_gets(memcached, 20000)
        reader.join(30)
        tap.is_(keys, ["key%d" % i for i in range(20000)], "20,000 lines arrive in order")
        tap.is_(w.nskipped, 0, "no line was skipped")
        tap.is_(watching.settled(memcached), (0, 20000, 0, 20000), "the counts say so")


@tap.case
def lines_of_several_threads_are_ordered_by_gid():
    with server.Server("-o", ROOMY, threads=4) as memcached:
        w = Watcher(memcached, "fetchers mutations")
        threads = [threading.Thread(target=run_gets, args=(memcached, 5000, b"t%d-" % i))
                   for i in range(4)]
        lines = []
        for thread in threads:
            thread.start()
        while len(lines) < 20000:
            lines.append(w.next())
        for thread in threads:
            thread.join()
        tap.is_([line.gid for line in lines], sorted({line.gid for line in lines}),
                "their numbers grow")
        for i in range(4):
            mine = [line["key"] for line in lines if line["key"].startswith("t%d-" % i)]
            tap.is_(mine, ["t%d-%d" % (i, n) for n in range(5000)],
                    "the lines of a connection are in order")


@tap.case
def watchers_may_disconnect_while_they_are_written_to():
    with server.Server(threads=2) as memcached:
        stop = threading.Event()

        def load(prefix):
            while not stop.is_set():
                run_gets(memcached, 1000, prefix)

        threads = [threading.Thread(target=load, args=(b"l%d-" % i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for i in range(60):
            w = Watcher(memcached, "fetchers rawcmds", stream=small(memcached) if i % 2 else None)
            if w.answer == b"OK\r\n" and i % 3:
                w.raw()
            if i % 5 == 0:
                w.stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            if i % 7 == 0:
                w.stream.sock.shutdown(socket.SHUT_WR)
            elif i % 11 == 0:
                w.stream.sock.shutdown(socket.SHUT_RD)
            w.close()
        stop.set()
        for thread in threads:
            thread.join()
        tap.ok(server.wait_for(lambda: watching.watchers(memcached) == 0),
               "none of them is left")
        tap.is_(memcached.stream().get(b"k"), None, "the server still answers")


@tap.case
def the_server_ends_while_it_is_watched():
    memcached = server.Server(threads=2)
    slow = Watcher(memcached, stream=small(memcached))
    idle = Watcher(memcached, "evictions")
    run_gets(memcached, 20000)
    tap.is_(memcached.stop(), 0, "SIGTERM: status 0")
    tap.ok(slow.closed() and idle.closed(), "the watchers' connections are closed")


@tap.case
def watchers_come_and_go_under_load():
    with server.Server(threads=4) as memcached:
        stop = threading.Event()
        trouble = []

        def load(number):
            try:
                while not stop.is_set():
                    run_gets(memcached, 1000, b"s%d-" % number)
            except Exception as error:  # the case reports it
                trouble.append(error)

        def watch(number):
            words = ("fetchers", "mutations evictions", "rawcmds connevents", "sysevents")
            try:
                for i in range(40):
                    w = Watcher(memcached, words[(i + number) % 4])
                    if w.answer == b"OK\r\n" and (i + number) % 4 == 0:
                        for _ in range(number * 5):
                            w.next()
                    elif w.answer not in (b"OK\r\n", TOO_MANY):
                        trouble.append(w.answer)
                    w.close()
            except Exception as error:
                trouble.append(error)

        loaders = [threading.Thread(target=load, args=(i,)) for i in range(3)]
        comers = [threading.Thread(target=watch, args=(i,)) for i in range(6)]
        for thread in loaders + comers:
            thread.start()
        for thread in comers:
            thread.join()
        stop.set()
        for thread in loaders:
            thread.join()
        tap.is_(trouble, [], "every answer was right")
        tap.ok(server.wait_for(lambda: watching.watchers(memcached) == 0),
               "no watcher is left in the end")


tap.run()
