#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""lru_crawler with all its commands, and lru tune, mode and temp_ttl: answers, effects, dumps."""
import re
import socket
import time
import urllib.parse

import differential
import server
import talk
import tap

BUSY = b"BUSY currently processing crawler request\r\n"
OFF = b"CLIENT_ERROR lru crawler disabled\r\n"
BADCLASS = b"BADCLASS invalid class id\r\n"
NOTSTARTED = b"NOTSTARTED no items to crawl\r\n"
OK, ERROR = b"OK\r\n", b"ERROR\r\n"

memcached = server.Server("-m", "256")
control = memcached.stream()


def answers(connection, cases):
    for command, want in cases:
        tap.is_(connection.all(command + b"\r\n"), want, command.decode())


def idle(where=memcached):
    """Waits until no crawl is running."""
    return server.wait_for(lambda: where.stats()["lru_crawler_running"] == "0", 30)


def fill(connection, prefix, numbers, exptime=0, size=10):
    value = b"v" * size
    numbers = list(numbers)
    for at in range(0, len(numbers), 1000):
        connection.send(b"".join(b"set %s%d 0 %d %d noreply\r\n%s\r\n" %
                                 (prefix, n, exptime, size, value)
                                 for n in numbers[at:at + 1000]))
    connection.ask(b"version\r\n")


def dump(connection, which=b"all", kind=b"metadump", end=b"END\r\n"):
    connection.send(b"lru_crawler %s %s\r\n" % (kind, which))
    lines = connection.until(end)[:-len(end)].splitlines(True)
    if not all(line.startswith((b"key=", b"mg ")) for line in lines):
        raise ValueError("not a dump: %.200r" % lines)
    return lines


def key_of(line):
    return urllib.parse.unquote_to_bytes(line.split(b" ")[0][4:])


# --- answers -----------------------------------------------------------------------------


@tap.case
def words():
    talk.alike(control, "ERROR", "lru_crawler", "lru_crawler x", "lru_crawler enable x",
               "lru_crawler enable noreply", "lru_crawler crawl", "lru_crawler crawl 1 2",
               "lru_crawler metadump", "lru_crawler metadump all noreply", "lru_crawler mgdump",
               "lru_crawler sleep", "lru_crawler sleep 1 2", "lru_crawler tocrawl",
               "lru_crawler a b c d e f g h", "LRU_CRAWLER enable")
    talk.alike(control, "CLIENT_ERROR sleep must be one second or less",
               "lru_crawler sleep 1000001", "lru_crawler sleep 99999999999")
    talk.alike(control, "CLIENT_ERROR bad command line format", "lru_crawler sleep -1",
               "lru_crawler sleep abc", "lru_crawler sleep 1x", "lru_crawler tocrawl -1",
               "lru_crawler tocrawl x", "lru_crawler tocrawl 4294967296")
    talk.alike(control, "OK", "lru_crawler sleep 1000000", "lru_crawler sleep 0",
               "lru_crawler tocrawl 4294967295", "lru_crawler tocrawl 0")


@tap.case
def classes():
    for verb in (b"crawl", b"metadump", b"mgdump"):
        for which in (b"0", b"64", b"-1", b"abc", b"1,abc", b"1,64", b"ALL", b"1x", b"4294967297",
                      b"9" * 40):
            tap.is_(control.all(b"lru_crawler %s %s\r\n" % (verb, which)), BADCLASS,
                    "%s %s" % (verb.decode(), which.decode()))
        tap.is_(control.all(b"lru_crawler %s ,\r\n" % verb), NOTSTARTED,
                "%s without a class" % verb.decode())
    tap.is_(control.all(b"lru_crawler crawl hash\r\n"), BADCLASS,
            "crawl does not accept 'hash', which dumps do")
    for which in (b"1", b"63", b"1,2,3", b"1,,2", b"+1", b"all"):
        idle()
        tap.is_(control.ask(b"lru_crawler crawl %s\r\n" % which), OK, "crawl " + which.decode())
    idle()
    tap.is_(dump(control, b"63"), [], "the dump of a class without items is empty")


@tap.case
def enable_and_disable():
    with server.Server("-o", "lru_crawler_sleep=7,lru_crawler_tocrawl=8") as other, \
            other.stream() as connection:
        answers(connection, [(b"lru_crawler enable",
                              b"ERROR failed to start lru crawler thread\r\n"),
                             (b"lru_crawler disable", OK), (b"lru_crawler disable", OK),
                             (b"lru_crawler crawl all", OFF), (b"lru_crawler crawl x", OFF),
                             (b"lru_crawler metadump all", OFF), (b"lru_crawler mgdump 1", OFF),
                             (b"lru_crawler sleep 9", OK), (b"lru_crawler tocrawl 10", OK)])
        settings, stats = other.stats("settings"), other.stats()
        tap.is_((settings["lru_crawler"], settings["lru_crawler_sleep"],
                 settings["lru_crawler_tocrawl"]), ("no", "9", "10"),
                 "stats settings shows the changes")
        tap.ok("lru_crawler_running" not in stats and "lru_crawler_starts" not in stats,
               "while the crawler is off there are no statistics of it")
        answers(connection, [(b"lru_crawler enable", OK), (b"lru_crawler crawl all", OK)])
        tap.is_(other.stats("settings")["lru_crawler"], "yes",
                "stats settings shows that the crawler is on again")
        tap.ok("lru_crawler_starts" in other.stats(), "its statistics are back")
    with server.Server("-o", "no_lru_crawler") as s, s.stream() as connection:
        answers(connection, [(b"lru_crawler crawl all", OFF), (b"lru_crawler enable", OK),
                             (b"lru_crawler metadump all", b"END\r\n")])


@tap.case
def dumps_can_be_disabled():
    with server.Server("-X") as s, s.stream() as connection:
        answers(connection, [(b"lru_crawler metadump all", b"ERROR metadump not allowed\r\n"),
                             (b"lru_crawler mgdump all", b"ERROR metadump not allowed\r\n"),
                             (b"lru_crawler metadump x", b"ERROR metadump not allowed\r\n"),
                             (b"lru_crawler crawl all", OK)])


@tap.case
def over_udp():
    u = memcached.udp()
    tap.is_(u.ask(b"lru_crawler metadump all\r\n"),
            b"CLIENT_ERROR a dump needs a connection\r\n", "metadump over UDP is refused")
    tap.is_(u.ask(b"lru_crawler mgdump hash\r\n"),
            b"CLIENT_ERROR a dump needs a connection\r\n", "mgdump over UDP is refused")
    idle()
    tap.is_(u.ask(b"lru_crawler crawl all\r\n"), OK, "a crawl over UDP is accepted")
    tap.is_(u.ask(b"version\r\n")[:8], b"VERSION ", "the UDP socket still answers")


# --- crawls ---------------------------------------------------------------------------------


def halves(connection):
    """20,000 items, half of which expire in a second."""
    fill(connection, b"live", range(10000))
    fill(connection, b"dead", range(10000), exptime=1)


def the_last_expires(connection):
    """Afterwards all items stored before it have expired, too; the get frees this one."""
    server.wait_for(lambda: connection.get(b"dead9999") is None)


@tap.case
def expired_items_are_freed():
    with server.Server("-o", "no_lru_maintainer") as other, other.stream() as connection:
        halves(connection)
        connection.set(b"b", b"b" * 500, exptime=-1)
        the_last_expires(connection)
        used = int(other.stats("slabs")["1:used_chunks"])
        tap.is_(connection.ask(b"lru_crawler crawl 1\r\n"), OK, "a crawl of one class starts")
        idle(other)
        stats, items = other.stats(), other.stats("items")
        tap.is_(items["items:1:number"], "10000", "it frees the expired items of the class")
        tap.is_(int(other.stats("slabs")["1:used_chunks"]), used - 9999, "their chunks are freed")
        tap.is_((items["items:1:crawler_reclaimed"], items["items:1:crawler_items_checked"]),
                ("9999", "19999"), "the freed items are counted by class")
        tap.is_((stats["crawler_reclaimed"], stats["crawler_items_checked"],
                 stats["lru_crawler_starts"]), ("9999", "19999", "1"),
                 "the freed items are counted in total")
        tap.is_(int(stats["curr_items"]), 10001, "items of other classes are not freed")
        connection.ask(b"lru_crawler crawl all\r\n")
        idle(other)
        tap.is_(other.stats()["curr_items"], "10000", "a crawl of all classes frees them")
        tap.is_([k for k in other.stats("items") if not k.startswith("items:1:")], [],
                "classes without items are not listed")
        tap.is_(connection.get(b"live77"), b"v" * 10, "a live item stays")
        connection.ask(b"flush_all\r\n")
        connection.ask(b"lru_crawler crawl all\r\n")
        idle(other)
        tap.is_(other.stats()["curr_items"], "0", "flushed items are freed")


@tap.long_case
def the_maintainer_starts_crawls():
    with server.Server() as other, other.stream() as connection:
        tap.ok(server.wait_for(lambda: other.stats()["lru_crawler_starts"] == "1"),
               "it starts one at once, as memcached's does")
        idle(other)
        halves(connection)
        for n in range(0, 10000, 100):  # these are read twice, so that no tail is expired
            connection.get(b"live%d" % n)
            connection.get(b"live%d" % n)
        tap.ok(server.wait_for(lambda: other.stats()["curr_items"] == "10000", 100, 0.5),
               "expired items are freed without a command")
        tap.ok(int(other.stats()["lru_crawler_starts"]) > 1, "it has started another")


@tap.case
def watchers_see_crawls():
    with server.Server("-o", "no_lru_maintainer") as other, other.stream() as connection:
        watcher = other.stream()
        watcher.ask(b"watch sysevents\r\n")
        halves(connection)
        the_last_expires(connection)
        connection.ask(b"lru_crawler crawl all\r\n")
        tap.like(watcher.until(b"\n"),
                 r"^ts=\d+\.\d{6} gid=\d+ type=lru_crawler crawler=1 lru=all low_mark=100 "
                 r"next_reclaims=0 since_run=\d+ next_run=3600 elapsed=\d+ examined=19999 "
                 r"reclaimed=9999\n$", "the log has a line for each class that has items")


@tap.case
def tocrawl_limits_a_crawl():
    with server.Server("-o", "no_lru_maintainer") as other, other.stream() as connection:
        fill(connection, b"k", range(1000))
        connection.ask(b"lru_crawler tocrawl 70\r\n")
        connection.ask(b"lru_crawler crawl all\r\n")
        idle(other)
        tap.is_(other.stats()["crawler_items_checked"], "70", "tocrawl 70 checks 70 items")
        tap.is_(len(dump(connection)), 1000, "a dump is not limited by it")


@tap.case
def one_crawl_at_a_time():
    with server.Server("-o", "no_lru_maintainer,lru_crawler_sleep=1000000") as other:
        connection = other.stream()
        fill(connection, b"k", range(20000))
        answers(connection, [(b"lru_crawler crawl all", OK), (b"lru_crawler crawl 1", BUSY),
                             (b"lru_crawler crawl 64", BADCLASS), (b"lru_crawler crawl ,", BUSY)])
        tap.is_(other.stats()["lru_crawler_running"], "1", "stats show the running crawl")
        tap.is_(connection.ask(b"lru_crawler disable\r\n"), OK, "disable ends the crawl")
        answers(connection, [(b"lru_crawler enable", OK), (b"lru_crawler sleep 0", OK),
                             (b"lru_crawler crawl all", OK)])
        tap.ok(idle(other), "another crawl completes")


# --- dumps ----------------------------------------------------------------------------------

LINE = re.compile(rb"key=([\w.~%-]+) exp=(-1|\d+) la=(\d+) cas=(\d+) fetch=(yes|no) cls=(\d+) "
                  rb"size=(\d+)\n$")


@tap.case
def lines_of_a_dump():
    connection = memcached.stream()
    connection.ask(b"flush_all\r\n")
    now = time.time()
    connection.set(b"plain", b"value")
    connection.set(b"timed", b"value", exptime=1000)
    connection.set(b"read", b"v" * 300)
    connection.get(b"read")
    connection.set(b"gone", b"value", exptime=-1)
    lines = dump(connection)
    parts = {key_of(line): LINE.match(line) for line in lines}
    tap.ok(all(parts.values()), "each line has memcached's form")
    tap.is_(sorted(parts), [b"plain", b"read", b"timed"],
            "each live item has a line, expired items have none")
    tap.is_(parts[b"plain"].group(2), b"-1", "exp is -1 for an item without expiry")
    tap.ok(now + 995 < int(parts[b"timed"].group(2)) < time.time() + 1005, "or a date")
    tap.ok(now - 5 < int(parts[b"plain"].group(3)) < time.time() + 5,
           "la is the Unix time of the last access")
    tap.is_([parts[k].group(5) for k in (b"plain", b"read")], [b"no", b"yes"],
            "fetch says whether the item was read")
    connection.send(b"gets plain\r\n")
    head = connection.line().split()
    connection.until(b"END\r\n")
    tap.is_(parts[b"plain"].group(4), head[4], "cas is the id of gets")
    meta = connection.ask(b"me read\r\n").split()
    tap.is_([b"cls=" + parts[b"read"].group(6), b"size=" + parts[b"read"].group(7)], meta[6:8],
            "class and size are those of me")
    connection.ask(b"mn\r\n")
    for which, count in ((b"1", 2), (b"hash", 3), (b"1,2", 2), (parts[b"read"].group(6), 1),
                         (b"1," + parts[b"read"].group(6), 3)):
        tap.is_(len(dump(connection, which)), count, "metadump " + which.decode())
    tap.is_(sorted(dump(connection, b"all", b"mgdump", b"EN\r\n")),
            [b"mg plain\r\n", b"mg read\r\n", b"mg timed\r\n"], "mgdump prints mg commands")
    tap.is_(connection.all(b"lru_crawler metadump 2\r\nget plain\r\n"),
            b"END\r\nVALUE plain 0 5\r\nvalue\r\nEND\r\n",
            "the next command is executed after the dump")


@tap.case
def keys_of_any_bytes():
    connection = memcached.stream()
    connection.ask(b"flush_all\r\n")
    keys = [bytes(range(1, 128)), bytes(range(128, 256)) + b"\0", b"a%b/c d", b"\r\nEND\r\n",
            b"x" * 250, b"\xff" * 250]
    binary = memcached.stream()
    for key in keys:
        body = bytes(8) + key + b"value"
        binary.send(b"\x80\x01" + len(key).to_bytes(2, "big") + b"\x08" + bytes(3) +
                    len(body).to_bytes(4, "big") + bytes(12) + body)
        binary.exactly(24)
    tap.is_(sorted(key_of(line) for line in dump(connection)), sorted(keys),
            "a dump has keys of any bytes, URI-encoded")
    lines = dump(connection, b"all", b"mgdump", b"EN\r\n")
    tap.is_(len(lines), len(keys), "mgdump has as many lines")
    found = [connection.all(line[:-2] + b" v\r\n") for line in lines]
    tap.ok(all(re.match(rb"VA 5( b)?\r\nvalue\r\n$", f) for f in found),
           "mgdump's commands return the items")


@tap.case
def the_same_dump_as_memcached():
    result = []
    with server.Server("-o", "no_lru_maintainer") as other, \
            server.Server("-o", "no_lru_maintainer", executable=differential.PEER) as peer:
        for where in (other, peer):
            connection = where.stream()
            for n in range(3000):
                connection.send(b"set k%%/\xc3\xa9%d 0 %d 5 noreply\r\nvalue\r\n" %
                                (n, 0 if n % 3 else 10000))
            connection.all(b"".join(b"get k%%/\xc3\xa9%d\r\n" % n for n in range(0, 3000, 7)))
            lines = dump(connection)
            result.append(sorted(re.sub(rb"(\d{6})\d{4} ", rb"\1 ",
                                        re.sub(rb"cas=\d+|cls=\d+|size=\d+", b"", line))
                                 for line in lines))
    tap.is_(len(result[0]), 3000, "3,000 items are dumped")
    tap.is_(result[0], result[1],
            "the dump equals memcached 1.6.18's, except for ids, classes and sizes")


@tap.case
def a_dump_has_each_key_once():
    connection, writer = memcached.stream(), memcached.stream()
    connection.ask(b"flush_all\r\n")
    fill(connection, b"stays", range(50000))
    for turn in range(4):
        # The sets do not wait for answers: they are executed while the dump is under way.
        connection.send(b"lru_crawler metadump all\r\n")
        for part in range(10):
            writer.send(b"".join(
                b"set stays%d 0 0 %d noreply\r\n%s\r\nset new%d.%d 0 0 1 noreply\r\nx\r\n" %
                (n, 5 + n % 300, b"w" * (5 + n % 300), turn, n)
                for n in range(part, 50000, 10)))
        lines = connection.until(b"END\r\n").splitlines()
        writer.ask(b"version\r\n")
        stays = [key_of(line) for line in lines if line.startswith(b"key=stays")]
        tap.is_((len(stays), len(set(stays))), (50000, 50000),
                "beside 100,000 sets each of 50,000 keys is in the dump once")


def stuck_dump(where):
    """A client that has asked for a dump and reads nothing."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((where.host, where.port))
    sock.sendall(b"lru_crawler metadump all\r\n")
    return sock


@tap.case
def a_client_that_does_not_read_its_dump():
    with server.Server("-m", "256", "-o", "no_lru_maintainer", threads=1) as other, \
            other.stream() as connection:
        fill(connection, b"k", range(200000))
        sock = stuck_dump(other)
        server.wait_for(lambda: other.stats()["lru_crawler_starts"] == "1")
        tap.is_(connection.ask(b"lru_crawler metadump 1\r\n"), BUSY,
               "while one dump waits for its client another is refused")
        tap.is_(connection.ask(b"lru_crawler crawl all\r\n"), OK, "a crawl is accepted")
        tap.ok(server.wait_for(lambda: int(other.stats()["crawler_items_checked"]) >= 200000),
               "the crawl checks all items")
        connection.set(b"k5", b"other")
        tap.is_(connection.get(b"k5"), b"other", "sets and gets are executed")
        connection.ask(b"flush_all\r\n")
        tap.ok(server.wait_for(lambda: connection.ask(b"lru_crawler crawl all\r\n") == OK),
               "the next crawl starts")
        tap.ok(server.wait_for(lambda: other.stats()["curr_items"] == "0"),
               "the waiting dump keeps no item from being freed")
        sock.close()
        tap.ok(server.wait_for(lambda: connection.ask(b"lru_crawler crawl all\r\n") == OK and
                               idle(other)), "when the client disconnects its dump ends")
        tap.is_(dump(connection), [], "another dump completes")


@tap.case
def a_dump_that_nobody_reads_is_cut():
    with server.Server("-m", "256", "-o", "no_lru_maintainer", threads=1) as other, \
            other.stream() as connection:
        fill(connection, b"k", range(200000))
        checked = ["0"]

        def stands_still():
            checked.append(connection.stats()["crawler_items_checked"])
            return checked[-1] == checked[-2] != "0"

        def waits():
            return "conn_watch" in connection.stats("conns").values()

        sock = stuck_dump(other)
        tap.ok(server.wait_for(stands_still) and waits(), "a dump waits for its client")
        tap.is_(connection.ask(b"lru_crawler disable\r\n"), OK, "the crawler is disabled")
        tap.ok(server.wait_for(lambda: not waits()), "its connection is closed all the same")
        sock.close()


@tap.case
def an_interrupted_dump():
    with server.Server("-m", "256", "-o", "no_lru_maintainer") as other, \
            other.stream() as connection:
        fill(connection, b"k", range(200000))
        reader = other.stream()
        reader.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        reader.send(b"lru_crawler metadump all\r\n")
        reader.until(b"\n")
        tap.is_(connection.ask(b"lru_crawler disable\r\n"), OK, "disable while a dump waits")
        rest = reader.to_end()
        tap.ok(not rest.endswith(b"END\r\n"), "an interrupted dump has no END")
        connection.ask(b"lru_crawler enable\r\n")
        reader = other.stream()
        reader.send(b"lru_crawler metadump all\r\n")
        reader.until(b"\n")
        tap.is_(other.stop(), 0, "the server ends while a dump is under way")


# --- lru ------------------------------------------------------------------------------------


@tap.case
def words_of_lru():
    talk.alike(control, "ERROR", "lru", "lru x", "lru x y", "lru a b c d e f g h", "lru tune",
               "lru tune 10", "lru tune 10 20", "lru tune 10 20 0.1", "lru tune a 40 0.1 2",
               "lru tune 20 b 0.1 2", "lru tune 20 40 c 2", "lru tune 20 40 0.1 d",
               "lru tune -5 40 0.1 2", "lru tune 20 40 0.1x 2", "lru tune 20x 40 0.1 2",
               "lru tune 20 40 1e400 2", "lru tune 20 40 " + "1" * 500 + " 2", "lru mode",
               "lru mode x", "lru temp_ttl", "lru temp_ttl x", "lru temp_ttl 10x",
               "lru temp_ttl 4294967296", "lru temp_ttl " + "9" * 30)
    talk.alike(control, "OK", "lru tune 10 20 0.1 2.0", "lru tune 10 20 0.1 2.0 5 6",
               "lru tune 0 20 0.1 2.0", "lru tune 10 0 0.1 2.0", "lru tune 40 40 0.1 2.0",
               "lru tune 79 1 0.1 2.0", "lru tune 20 40 1e3 inf", "lru mode flat x",
               "lru mode segmented", "lru temp_ttl 0", "lru temp_ttl 4294967295",
               "lru temp_ttl -2147483649", "lru temp_ttl 10 11")
    talk.alike(control, "", "lru tune 10 20 0.1 2.0 noreply", "lru mode flat noreply",
               "lru mode segmented noreply", "lru temp_ttl -1 noreply",
               "lru tune 20 40 0.2 2 noreply")
    talk.alike(control, "ERROR hot and warm pcts must not exceed 80", "lru tune 40 41 0.1 2.0",
               "lru tune 80 1 0.1 2.0", "lru tune 1 80 0.1 2.0", "lru tune 4294967295 2 0.1 2",
               "lru tune 4294967296 1 0.1 2")
    talk.alike(control, "ERROR hot/warm age factors must be greater than 0", "lru tune 20 40 0 2",
               "lru tune 20 40 0.1 0", "lru tune 20 40 -1 2", "lru tune 20 40 0.1 -2",
               "lru tune 20 40 nan 2")
    with server.Server("-o", "no_lru_maintainer") as other:
        answers(other.stream(), [(b"lru mode flat", ERROR), (b"lru mode segmented", ERROR),
                                 (b"lru temp_ttl 5", ERROR), (b"lru tune 20 40 0.1 2", OK)])


@tap.case
def settings_show_the_tuning():
    with server.Server() as other, other.stream() as connection:

        def settings(*names):
            now = other.stats("settings")
            return tuple(now[n] for n in names)

        connection.ask(b"lru tune 11 22 0.33 4.4\r\n")
        tap.is_(settings("hot_lru_pct", "warm_lru_pct", "hot_max_factor", "warm_max_factor"),
                ("11", "22", "0.33", "4.40"), "lru tune")
        tap.is_(settings("lru_segmented"), ("yes",), "the LRU is segmented")
        connection.ask(b"lru mode flat\r\n")
        tap.is_(settings("lru_segmented", "lru_maintainer_thread"), ("no", "yes"), "lru mode")
        connection.ask(b"lru temp_ttl 77\r\n")
        tap.is_(settings("temp_lru", "temporary_ttl"), ("yes", "77"), "lru temp_ttl")
        connection.ask(b"lru temp_ttl -5\r\n")
        tap.is_(settings("temp_lru", "temporary_ttl"), ("no", "77"), "lru temp_ttl turned off")
        connection.ask(b"lru_crawler sleep 55\r\n")
        connection.ask(b"lru_crawler tocrawl 66\r\n")
        tap.is_(settings("lru_crawler_sleep", "lru_crawler_tocrawl"), ("55", "66"),
                "sleep and tocrawl")


def number(where, segment, clsid=1):
    return int(where.stats("items").get("items:%d:number_%s" % (clsid, segment), -1))


@tap.case
def tuning_takes_effect():
    with server.Server() as other, other.stream() as connection:
        connection.ask(b"lru temp_ttl 60\r\n")
        connection.set(b"short", b"x", exptime=50)
        connection.set(b"long", b"x", exptime=500)
        tap.is_(number(other, "temp"), 1, "an item with a shorter life than temp_ttl goes to temp")
        connection.ask(b"lru temp_ttl 1000\r\n")
        connection.set(b"long", b"x", exptime=500)
        tap.is_(number(other, "temp"), 2, "a changed temp_ttl applies to new items")
        connection.ask(b"lru temp_ttl -1\r\n")
        connection.set(b"other", b"x", exptime=5)
        tap.is_(number(other, "temp"), -1, "number_temp is not shown while temp_ttl is off")
        connection.ask(b"lru temp_ttl 60\r\n")
        tap.is_(number(other, "temp"), 2, "while temp_ttl is off no item goes to temp")
        connection.ask(b"lru tune 79 1 1000000 1000000\r\n")
        fill(connection, b"k", range(2000), size=100)
        connection.ask(b"lru mode flat\r\n")
        tap.ok(server.wait_for(lambda: number(other, "hot", 4) + number(other, "warm", 4) <= 0),
               "in flat mode the maintainer moves all items to cold")
        fill(connection, b"k", range(2000, 3000), size=100)
        tap.is_(number(other, "hot", 4), 0, "in flat mode new items go to cold")
        connection.ask(b"lru mode segmented\r\n")
        fill(connection, b"k", range(3000, 4000), size=100)
        tap.ok(number(other, "hot", 4) > 0, "in segmented mode new items go to hot")


tap.run(ends=memcached)
