#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""tools/memcached-tool: what it prints is what Debian's tool of this name prints, of this server
and of Debian's; top; the metrics for Prometheus, whose promtool accepts them."""
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import termios
import time

import differential
import server
import tap
from tooling import OURS, PROMETHEUS, SRCDIR, Scripted, call, lint, metrics, stats_reply

THEIRS = "/usr/share/memcached/scripts/memcached-tool"

for program in (THEIRS, differential.PEER, shutil.which("promtool") or "promtool"):
    if not os.access(program, os.X_OK):
        tap.skip_all("%s is missing: tools/packages --install check" % program)


def odd_classes():
    """Slab classes with values of any size: pages, chunks, used, chunk size, age, evicted."""
    slabs, items = {}, {}
    for number, row in enumerate(((1, 10, 10, 96, 5, 0), (1, 10, 9, 1023, 99999999, 1),
                                  (0, 0, 0, 1024, 0, 0), (1000000, 10, 0, 1184, 0, 12345678901),
                                  (3, 10, 10, 524288, 59, 7), (5, 10, 3, 1048575, 7, 1),
                                  (2, 5, 10, 1048576, 1, 1)), 1):
        slabs.update({"%d:total_pages" % number: row[0], "%d:total_chunks" % number: row[1],
                      "%d:used_chunks" % number: row[2], "%d:chunk_size" % number: row[3],
                      "%d:free_chunks" % number: row[1] - row[2],
                      "%d:free_chunks_end" % number: 0})
        if row[2]:
            items.update({"items:%d:number" % number: row[2], "items:%d:age" % number: row[4],
                          "items:%d:evicted" % number: row[5],
                          "items:%d:evicted_time" % number: row[4],
                          "items:%d:outofmemory" % number: row[0]})
    slabs.update({"active_slabs": 7, "total_malloced": 12345})
    return {"stats slabs": stats_reply(slabs), "stats items": stats_reply(items)}


@tap.case
def odd_values_look_like_those_of_debians_tool():
    scripted = Scripted({
        **odd_classes(),
        "stats": stats_reply({"pid": 7, "a_key_that_is_longer_than_its_column": 1,
                              "version": "1.5.19-with-a-long-name", "rusage_user": "0.015051",
                              "limit_maxbytes": 12345678901234567890}),
        "stats settings": stats_reply({"inter": "a, b", "maxbytes": 64, "domain_socket": "NULL",
                                       "z_key_that_is_longer_than_its_column": "value"}),
        "stats sizes": stats_reply({"96": 3, "32": 1, "1184": 12345678901})})
    long = scripted.address.replace("0.1:", "00000000000000000001:")
    for address in (scripted.address, long):
        for mode in ((), ("display",), ("stats",), ("settings",), ("sizes",)):
            tap.is_(call(OURS, address, *mode), call(THEIRS, address, *mode),
                    "%s of %s is the same, byte for byte" % (" ".join(mode) or "no mode", address))
    scripted.close()


def fill(memcached):
    stream = memcached.stream()
    for i in range(300):
        stream.set(b"key%d" % i, b"v" * (i * 7), flags=i, exptime=0 if i % 2 else 3000)
    stream.set(b"per%cent", b"a\r\nb\r\nEND\r\n")


def masked(output):
    """What ticks or counts the tools' own commands."""
    return re.sub(rb"(?m)^( *\d+ +\S+) +\d+s", rb"\1 AGE", output)


def same_of(memcached, name):
    address = "%s:%d" % (memcached.host, memcached.port)
    for mode in ("display", "settings", "sizes"):
        ours, theirs = call(OURS, address, mode), call(THEIRS, address, mode)
        tap.is_((ours[0], masked(ours[1]), ours[2]), (theirs[0], masked(theirs[1]), theirs[2]),
                "%s of %s is the same" % (mode, name))
    ours, theirs = call(OURS, address, "stats"), call(THEIRS, address, "stats")
    number = re.compile(rb"(?m) +[\d.]+\r$")
    tap.is_(number.sub(b" N", ours[1]), number.sub(b" N", theirs[1]),
            "stats of %s has the same rows" % name)
    tap.is_({len(line) for line in ours[1].splitlines() if len(line) > 30},
            {len(line) for line in theirs[1].splitlines() if len(line) > 30}, "of the same width")
    ours, theirs = call(OURS, address, "dump"), call(THEIRS, address, "dump")
    tap.is_((ours[0], ours[2]), (theirs[0], theirs[2]), "dump of %s says the same" % name)
    tap.is_(items_of(ours[1]), items_of(theirs[1]), "and has the same items")
    # Debian's server leaves out what another of its threads holds at that moment.
    for _ in range(10 if name == "Debian's" else 1):
        ours, theirs = keys_of(OURS, address), keys_of(THEIRS, address)
        if ours == theirs:
            break
    tap.is_(ours, theirs, "keys of %s are the same" % name)


def keys_of(tool, address):
    status, out, err = call(tool, address, "keys")
    return status, err, sorted(re.sub(rb" la=\d+| fetch=\w+", b"", out).splitlines())


def items_of(dump):
    """{key: (flags, exptime, value)} of the commands of a dump."""
    found, at = {}, 0
    while at < len(dump):
        end = dump.index(b"\r\n", at)
        _, key, flags, exptime, length = dump[at:end].split(b" ")
        at = end + 2 + int(length) + 2
        found[key] = (flags, exptime, dump[end + 2:at - 2])
    return found


@tap.case
def real_servers_look_the_same():
    for name, start in (("this server", server.Server),
                        ("Debian's", lambda: differential.as_peer(server.Server))):
        with start() as memcached:
            fill(memcached)
            same_of(memcached, name)
            if name == "Debian's":
                memcached.kill() # its exit status is its own


@tap.case
def a_dump_fills_another_server():
    with server.Server() as first, server.Server() as second:
        fill(first)
        dump = call(OURS, "127.0.0.1:%d" % first.port, "dump")[1]
        stream = second.stream()
        stream.all(dump)
        tap.is_(stream.stats()["curr_items"], "301", "the other server has as many items")
        tap.is_(items_of(call(OURS, "127.0.0.1:%d" % second.port, "dump")[1]), items_of(dump),
                "with the same keys, flags, expiry and values")
        stream.close()


@tap.case
def a_dump_that_begins_with_ok():
    line = "key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=64"
    scripted = Scripted({"lru_crawler metadump all": "OK\r\n%s\nEND\r\n" % line,
                         "get a": "VALUE a 5 1\r\nv\r\nEND\r\n"})
    tap.is_(call(OURS, scripted.address, "keys")[:2], (0, line.encode() + b"\n"),
            "the keys of a memcached from 1.6.43 on")
    tap.is_(call(OURS, scripted.address, "dump")[:2], (0, b"add a 5 0 1\r\nv\r\n"),
            "and the values")
    scripted.close()


@tap.case
def a_limit_ends_a_dump():
    with server.Server() as memcached:
        fill(memcached)
        for mode in ("dump", "keys"):
            status, out, err = call(OURS, "127.0.0.1:%d" % memcached.port, mode, 7)
            tap.is_((status, out.count(b"add key") + out.count(b"key=key")), (0, 7),
                    "%s 7 has seven" % mode)
            tap.is_(err, call(THEIRS, "127.0.0.1:%d" % memcached.port, mode, 7)[2],
                    "and says so as Debian's tool does")


@tap.case
def keys_that_text_cannot_name_are_left_out():
    scripted = Scripted({
        "lru_crawler metadump all": "key=a exp=-1 la=1 cls=1 size=50\r\n"
                                    "key=b%20c exp=-1 la=1 cls=1 size=50\r\n"
                                    "key=gone exp=5 la=1 cls=1 size=50\r\nEND\r\n",
        "get a gone": "VALUE a 3 2\r\nhi\r\nEND\r\n"})
    status, out, err = call(OURS, scripted.address, "dump")
    tap.is_((status, out), (0, b"add a 3 0 2\r\nhi\r\n"), "the others are dumped")
    tap.like(err, "1 keys left out", "it says how many")
    scripted.close()


def first_words(message):
    """Its first line; of `Usage: memcached-tool ...`, which has other modes, these two words."""
    line = message.split(b"\n")[0]
    return line.split()[:2] if line.startswith(b"Usage") else line


@tap.case
def errors_end_with_the_statuses_of_debians_tool():
    closed = "127.0.0.1:%d" % server.free_port()
    with server.Server() as memcached:
        address = "127.0.0.1:%d" % memcached.port
        for words in ((), ("",), (closed,), ("/nowhere/socket",), (closed, "nonsense"),
                      (address, "nonsense"), (address, "stats", "3"), (address, "dump", "0"),
                      (address, "dump", "x"), (address, "move"), (address, "move", "a", "b")):
            ours, theirs = call(OURS, *words), call(THEIRS, *words)
            tap.is_(ours[:2], theirs[:2], "status of %r" % (words[1:] or words,))
            tap.is_(first_words(ours[2]), first_words(theirs[2]), "how its message begins")


@tap.case
def unix_sockets_and_ipv6_are_addresses():
    path = os.path.join(server.scratch(), "socket")
    with server.Server(unix=path) as memcached:
        tap.is_(call(OURS, path, "settings"), call(THEIRS, path, "settings"),
                "a socket's path, as with Debian's tool")
        tap.ok(memcached.alive(), "the server lives")
    with server.Server(host="::1") as memcached:
        tap.like(call(OURS, "[::1]:%d" % memcached.port)[1], "Item_Size", "IPv6 in brackets")


@tap.case
def move_moves_a_page():
    with server.Server("-m", "20", "-o", "slab_reassign,no_slab_automove", threads=1) as memcached:
        stream, address = memcached.stream(), "127.0.0.1:%d" % memcached.port
        for i in range(2000):
            stream.send(b"set small%d 0 0 2000 noreply\r\n%s\r\n" % (i, b"v" * 2000))
        stream.set(b"large", b"v" * 9000)
        pages = {key.split(":")[0]: int(value) for key, value in stream.stats("slabs").items()
                 if key.endswith(":total_pages")}
        (small, before), (large, _) = max(pages.items(), key=lambda row: row[1]), \
            max(pages.items(), key=lambda row: int(row[0]))
        status, out, err = call(OURS, address, "move", small, large)
        tap.is_((status, err), (0, b""), "move %s %s" % (small, large))
        tap.like(out, "Item_Size", "it shows the classes")
        tap.ok(server.wait_for(lambda: int(stream.stats("slabs")[small + ":total_pages"]) < before),
               "class %s has a page less" % small)
        status, out, err = call(OURS, address, "move", 62, 63)
        tap.is_((status, out), (1, b""), "a move that the server refuses is an error")
        tap.like(err, "answers: ", "with the server's words")
        stream.close()


# --- prometheus ----------------------------------------------------------------------

@tap.case
def promtool_accepts_the_metrics():
    for name, start in (("this server", server.Server),
                        ("Debian's", lambda: differential.as_peer(server.Server))):
        with start() as memcached:
            fill(memcached)
            address = "127.0.0.1:%d" % memcached.port
            status, text, err = call(OURS, address, "prometheus")
            tap.is_((status, err), (0, b""), "metrics of %s" % name)
            tap.is_(lint(text), (0, b""), "promtool accepts them")
            found = metrics(text)
            tap.is_(found["memcached_current_items", 'server="%s"' % address], 301,
                    "they have the server's values")
            tap.ok(("memcached_slab_current_pages", 'server="%s",slab="1"' % address) in found,
                   "and those of slab classes")
            tap.is_(found.get(("memcached_bmc_enabled", 'server="%s"' % address)),
                    0 if name == "this server" else None,
                    "memcached_bmc_enabled is there if the server knows the kernel path")
            if name == "Debian's":
                memcached.kill()


@tap.case
def every_row_of_chain_statistics_is_a_metric():
    """Of the chain; the rows of the kernel path: t/e2e/kernel/prometheus.t"""
    def source(*path):
        with open(os.path.join(SRCDIR, *path), encoding="utf-8") as file:
            return file.read()

    names = re.findall(r'ROW\(CHAIN_\w+, "(\w+)"', source("bpf", "shared", "counters.def"))
    names += re.findall(r'add\(out, "(\w+)"', source("memcached", "kcache", "report.c").split(
        "static void add_chain")[1].split("\n}\n")[0])
    rows = {"bmc_enabled": "yes", "mode": "chain"}
    rows.update({name: 1000 + number for number, name in enumerate(names)})
    scripted = Scripted({"stats": stats_reply({"version": "1"}), "stats slabs": stats_reply({}),
                         "stats items": stats_reply({}), "stats bmc": stats_reply(rows)})
    found = set(metrics(call(OURS, scripted.address, "prometheus")[1]).values())
    tap.ok(len(names) > 25, "%d rows" % len(names))
    tap.is_([name for name in names if rows[name] not in found], [], "each value is printed")
    scripted.close()


@tap.case
def text_in_labels_is_escaped():
    scripted = Scripted({"stats": stats_reply({"version": 'a"b\\c'}),
                         "stats slabs": stats_reply({}), "stats items": stats_reply({}),
                         "stats bmc": stats_reply({"bmc_enabled": "no", "reason": 'no "room"'})})
    text = call(OURS, scripted.address, "prometheus")[1]
    tap.is_(lint(text), (0, b""), "promtool accepts quotes in a version")
    tap.like(text, r'reason="no \\"room\\""', "the reason is a label")
    scripted.close()


@tap.case
def a_file_is_replaced_as_a_whole():
    folder = server.scratch()
    path = os.path.join(folder, "memcached.prom")
    with server.Server() as memcached:
        address = "127.0.0.1:%d" % memcached.port
        tap.is_(call(OURS, address, "prometheus", "--output", path), (0, b"", b""), "it is written")
        first = os.stat(path)
        with open(path, "rb") as file:
            tap.is_(lint(file.read()), (0, b""), "promtool accepts it")
        tap.is_(stat.S_IMODE(first.st_mode), 0o644, "everybody may read it")
        call(OURS, address, "prometheus", "--output=" + path)
        tap.ok(os.stat(path).st_ino != first.st_ino, "the next one is another file")
    status, out, err = call(OURS, address, "prometheus", "--output", path)
    tap.is_((status, out, err), (111, b"", b"Couldn't connect to %s\n" % address.encode()),
            "of a server that is gone it is an error")
    with open(path, "rb") as file:
        tap.is_(metrics(file.read()), {("memcached_up", 'server="%s"' % address): 0},
                "and the file says that it is not up")
    tap.is_(os.listdir(folder), ["memcached.prom"], "no other file is left")
    tap.is_(call(OURS, address, "prometheus", "--output", "/nowhere/x")[0], 1,
            "a folder that does not exist is an error")


# --- top -----------------------------------------------------------------------------

def counting(bmc=True):
    """A server's statistics before and after an interval in which 100 gets had 75 hits, and the
    kernel answered 80 of them."""
    first = {"version": "1.5.19", "uptime": 100, "cmd_get": 1000, "get_hits": 1000,
             "get_misses": 0, "cmd_set": 5, "curr_items": 1234567, "bytes": 5000000,
             "limit_maxbytes": 67108864, "curr_connections": 17}
    then = dict(first, cmd_get=1100, get_hits=1075, get_misses=25, uptime=101)
    path = {"bmc_enabled": "yes", "mode": "in_place", "eth0:xdp": "native", "eth0:tc": "yes",
            "eth0:state": "up", "bypass": 0, "packets_seen": 0, "answered_xdp": 0, "keys": 500,
            "pass_way": 0, "pass_size": 3}
    later = dict(path, packets_seen=90, answered_xdp=80, keys=580, pass_way=10)
    return {"version": "VERSION 1.5.19\r\n",
            "stats": [stats_reply(first), stats_reply(then)],
            "stats bmc": [stats_reply(path), stats_reply(later)] if bmc else "END\r\n"}


@tap.case
def top_says_what_happened():
    scripted = Scripted(counting())
    status, out, err = call(OURS, scripted.address, "top", "--once", "--interval", "0.1")
    tap.is_((status, err), (0, b""), "top --once ends")
    for pattern in (r"^gets +[\d,]+ +1,100$", r"answered by the kernel +80\.0 % +52\.7 %$",
                    r"^  hits +75\.0 % +97\.7 %$", r"^items +1,234,567$", r"^connections +17 ",
                    r"^  eth0 +up \(XDP native, TC yes\)$", r"^  pass_way +\d+ +10$",
                    r"^their bytes +5\.0 MB +of 67\.1 MB$"):
        tap.like(out, pattern, pattern)
    tap.ok(b"pass_size" not in out, "a reason for which nothing was passed meanwhile is not shown")
    tap.ok(b"\x1b" not in out, "what is no terminal gets no control characters")
    scripted.close()


@tap.case
def top_knows_a_memcached_without_the_kernel_path():
    scripted = Scripted(counting(bmc=False))
    out = call(OURS, scripted.address, "top", "--count", "2", "--interval", "0.1")[1]
    tap.is_(out.count(b"memcached 1.5.19"), 2, "two screens")
    tap.like(out, r"answered by the kernel +- ", "no share")
    tap.ok(b"kernel path" not in out, "and no part about it")
    scripted.close()


def topped(*words):
    """The rows of one screen behind its head, or how it failed."""
    status, out, err = call(OURS, *words, "--once", "--interval", "0.1")
    if status:
        return status, err
    return [re.split(r" {2,}", line.rstrip()) for line in out.decode().splitlines()[2:] if line]


@tap.case
def top_with_columns_of_ones_own():
    scripted = [Scripted(dict(counting(bmc), **{
        "stats items": stats_reply({"items:2:number": number}),
        "stats slabs": stats_reply({"2:get_hits": number, "active_slabs": 1})}))
        for bmc, number in ((True, 7), (False, 9), (True, 7), (True, 7))]
    first, second, third, fourth = (each.address for each in scripted)
    both, all_of = first + "," + second, "all_version,all_curr_items,items:2:number,all_2:get_hits"
    tap.is_(topped(both, "top", "--columns", "hostname," + all_of),
            [["hostname"] + all_of.split(","), [first, "1.5.19", "1,234,567", "0", "7"],
             [second, "1.5.19", "1,234,567", "0", "9"]],
            "any statistic, as it is or as growth in a second")
    tap.is_(topped(third, "top", "--columns=hit_rate,all_hit_rate,fill_rate,kernel_rate,none"),
            [["hit_rate", "all_hit_rate", "fill_rate", "kernel_rate", "none"],
             ["75.0 %", "97.7 %", "7.5 %", "80.0 %", "-"]], "shares, also for a single server")
    for order, want in (("all_2:get_hits", [second, first]), ("kernel_rate", [first, second]),
                        ("hostname", sorted([first, second]))):
        rows = topped(both, "top", "--columns", "hostname", "--sort", order)
        tap.is_([row[0] for row in rows[1:]], want, "sorted by " + order)
    rows = topped(fourth, "top", "--columns", "cmd_get,cmd_set")
    tap.ok(0 < float(rows[1][0].replace(",", "")) <= 1000 and rows[1][1] == "0",
           "100 gets in at least a tenth of a second (%s)" % rows[1][0])
    for words, says in ((("--sort", "hostname"), b"--sort needs --columns"),
                        (("--columns", "a,,b"), b"--columns: names, separated by commas")):
        status, err = topped(first, "top", *words)
        tap.ok(status == 255 and says in err, "%s is refused" % " ".join(words))
    for each in scripted:
        each.close()


@tap.case
def top_shows_several_servers_in_a_line_each():
    first, second = Scripted(counting()), Scripted(counting(bmc=False))
    both = first.address + "," + second.address
    out = call(OURS, both, "top", "--once", "--interval", "0.1")[1].decode()
    rows = [line.split() for line in out.splitlines() if line.startswith("127.0.0.1:")]
    tap.is_([(row[0], row[2:4]) for row in rows],
            [(first.address, ["80.0", "%"]), (second.address, ["-", "75.0"])], "name, share, hits")
    gone = "127.0.0.1:%d" % server.free_port()
    status, _, err = call(OURS, first.address + "," + gone, "top", "--once")
    tap.is_((status, err), (111, b"Couldn't connect to %s\n" % gone.encode()),
            "one that does not answer at the start is an error")
    first.close()
    second.close()


class Terminal:
    """top on a terminal of its own."""

    def __init__(self, address, term="xterm", rows=40):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = term
            os.execv(OURS, [OURS, address, "top", "--interval", "0.2"])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
        self.seen = b""

    def wait_for(self, text, seconds=15):
        end = time.monotonic() + seconds * tap.SLOW
        while text not in self.seen and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError: # it has ended
                    break
        return text in self.seen

    def end(self):
        """Its exit status."""
        self.wait_for(b"\0nothing has this\0", 15)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status


@tap.case
def top_ends_on_q_and_on_an_interrupt():
    with server.Server() as memcached:
        address = "127.0.0.1:%d" % memcached.port
        for how, name in ((lambda t: os.write(t.fd, b"q"), "q"),
                          (lambda t: os.write(t.fd, b"\x03"), "control C"),
                          (lambda t: os.kill(t.pid, signal.SIGINT), "SIGINT")):
            terminal = Terminal(address)
            tap.ok(terminal.wait_for(b"round trip") and b"\x1b[" in terminal.seen,
                   "it draws a screen")
            how(terminal)
            tap.is_(terminal.end(), 0, "%s ends it" % name)
            tap.ok(b"\x1b[?1049l" in terminal.seen, "the terminal is as it was")


@tap.case
def top_survives_what_happens():
    memcached = server.Server()
    terminal = Terminal("127.0.0.1:%d" % memcached.port, rows=8)
    tap.ok(terminal.wait_for(b"gets"), "eight rows are enough for some of it")
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    tap.ok(terminal.wait_for(b"round trip"), "forty show more")
    memcached.stop()
    tap.ok(terminal.wait_for(b"connect to"), "a server that goes away is named")
    again = server.Server(port=memcached.port)
    terminal.seen = b""
    tap.ok(terminal.wait_for(b"round trip"), "and is watched again when it is back")
    os.write(terminal.fd, b"q")
    tap.is_(terminal.end(), 0, "q ends it")
    again.stop()


@tap.case
def a_terminal_that_cannot_draw_gets_lines():
    with server.Server() as memcached:
        for term in ("dumb", "nonsense"):
            terminal = Terminal("127.0.0.1:%d" % memcached.port, term=term)
            tap.ok(terminal.wait_for(b"round trip") and b"\x1b" not in terminal.seen,
                   "TERM=%s" % term)
            os.write(terminal.fd, b"\x03")
            tap.is_(terminal.end(), 0, "control C ends it")


# --- files for Prometheus --------------------------------------------------------------

@tap.case
def the_alerts_fire_when_they_should():
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=PROMETHEUS, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if not tap.is_(done.returncode, 0, "promtool " + " ".join(words)):
            tap.diag(done.stdout.decode())


@tap.case
def each_alert_has_a_test():
    with open(os.path.join(PROMETHEUS, "alerts.yml"), encoding="utf-8") as file:
        alerts = re.findall(r"- alert: (\w+)", file.read())
    with open(os.path.join(PROMETHEUS, "alerts.test.yml"), encoding="utf-8") as file:
        tested = file.read()
    tap.is_([name for name in alerts
             if not re.search(r"alertname: %s\n +exp_alerts" % name, tested)], [],
            "each is seen to fire")
    tap.ok(len(alerts) >= 10, "%d alerts" % len(alerts))


tap.run()
