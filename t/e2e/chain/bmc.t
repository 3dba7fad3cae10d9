#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""The program bmc and the words of mode=chain: options, messages, statistics, memory."""
import glob
import json
import os
import re
import signal
import socket
import subprocess

import chain
import child
import kernel
import netns
import openfiles
import server
import tap
from manager import Manager

SRCDIR = os.environ["SRCDIR"]
BMC = kernel.beside("bmc/bmc")
FOLDER, NOBODY = "/run/memcachedsr-bmc", 65534

if not os.access(BMC, os.X_OK):
    tap.ok(False, "the program %s exists" % BMC)
    raise SystemExit(1)


def run(*words, namespace=None, enter=()):
    enter = ["nsenter", "--net=/run/netns/" + namespace] if namespace else list(enter)
    done = subprocess.run(enter + [BMC, *map(str, words)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=150)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def source(path):
    with open(os.path.join(SRCDIR, path), encoding="utf-8") as file:
        return file.read()


# Words, and a pattern of the message.
WRONG = (
    (("trace", "10.0.0.300"), "trace 10.0.0.300: it takes ADDRESS"),
    (("trace", "10.0.0.3:65536"), "trace 10.0.0.3:65536: it takes ADDRESS"),
    (("trace", "[::1]"), "trace \\[::1\\]: it takes ADDRESS"),
    ((), "which interface"),
    (("--port", "11211"), "which interface"),
    (("stats", "lo"), "takes no interface"),
    (("lo", "--port", "0"), "--port 0: .*1 to 65535"),
    (("lo", "--port", "65536"), "--port 65536: "),
    (("lo", "--port", "1x"), "--port 1x: "),
    (("lo", "--port", ""), "--port : "),
    (("lo", "--port"), "--port: a value is missing"),
    (("lo", "--address", "localhost"), "--address localhost: .*IPv4 or IPv6"),
    (("lo", "--entries", "0"), "--entries 0: .*16777216"),
    (("lo", "--entries", "16777217"), "--entries 16777217: "),
    (("lo", "--entries", "8/"), "--entries 8/: "),
    (("lo", "--entries", "8/8/8/8"), "--entries 8/8/8/8: "),
    (("lo", "--key-max", "251"), "--key-max 251: .*1 to 250"),
    (("lo", "--value-max", "1301"), "--value-max 1301: .*1 to 1300"),
    (("lo", "--max-age", "0"), "--max-age 0: "),
    (("lo", "--max-age", "-1"), "--max-age -1: "),
    (("lo", "--settle", "9"), "--settle 9: "),
    (("lo", "--connections", "0"), "--connections 0: "),
    (("lo", "--mode", "tc"), "mode=chain cannot go with mode=tc"),
    (("lo", "--mode", "fast"), "--mode fast: mode is one of"),
    (("lo", "--allow", "example"), "--allow example: allow= takes"),
    (("lo", "--rate", "0"), "--rate 0: rate= takes"),
    (("lo", "--amplification", "0"), "--amplification 0: "),
    (("lo", "--interval", "0"), "--interval 0: .*seconds"),
    (("lo", "--user", ""), "--user : "),
    (("lo", "--no-such"), "--no-such: there is no such option"),
    (("lo", "-x"), "-x: there is no such option"),
    (("lo,,lo",), "needs the name of an interface"),
    (("an-interface-name",), "too long"),
    (tuple("if%d" % i for i in range(17)), "at most 16"),
)


@tap.case
def wrong_words():
    for words, want in WRONG:
        status, out, error = run(*words)
        name = "bmc " + " ".join(words)
        tap.is_((status, out, error.count("\n")), (64, "", 1), "%s: status 64, one line" % name)
        tap.like(error, "^bmc: .*" + want, "%s: the message has the reason" % name)


@tap.case
def texts():
    status, out, error = run("--help")
    tap.is_((status, error), (0, ""), "--help ends with status 0")
    options = set(re.findall(r"^  --([a-z-]+)", out, re.M))
    tap.is_(options, set(re.findall(r"\.It Fl Fl ([a-z-]+)", source("doc/bmc.1"))),
            "the manual has the same options")
    tap.ok(all(len(line) <= 100 for line in out.splitlines()), "no line of --help is too long")
    tap.is_(run("--version")[:2], (0, "bmc %s\n" % server.run("-V")[1].split()[-1]),
            "--version prints memcached's version")
    status, _, error = run("lo", enter=["setpriv", "--reuid=65534", "--clear-groups"])
    tap.is_((status, error), (71, "bmc: cannot create the statistics socket in "
                              "/run/memcachedsr-bmc: Permission denied: start as root\n"),
            "without root: status 71, and what to do")
    status, _, error = run("stats", "--port", 1)
    tap.is_((status, error.count("\n")), (1, 1),
            "`bmc stats` without a running bmc: status 1, one line")
    status, out, error = run("trace", enter=["setpriv", "--reuid=65534", "--clear-groups"])
    tap.is_((status, out), (1, ""), "`bmc trace` without root: status 1")
    tap.like(error, "^bmc: trace: Operation not permitted: it needs CAP_SYS_ADMIN, .* as root\n$",
             "and what to do")


@tap.case
def words_of_the_server():
    for words, want in (("mode=chain,mode=tc", "cannot go with mode=tc"),
                        ("entries=8", "need mode=chain"), ("mode=chain,entries=no", "entries="),
                        ("mode=chain,keymax=0", "keymax="), ("mode=chain,maxage=", "maxage=")):
        status, _, error = server.run("-U", "11211", "-X", "bmc=lo," + words)
        tap.ok(status == 64, "-X bmc=lo,%s: status 64" % words)
        tap.like(error, "bmc: .*" + want, "the message has the reason")


class Ground:
    """A server without the kernel path, on a machine of its own."""

    def __init__(self, links=1, **options):
        self.pair = netns.Pair(links)
        netns.enter(self.pair.client)
        self.machine = server.Server(namespace=self.pair.server, listen="0.0.0.0",
                                     host=self.pair.address(), **options)

    def start(self, *interfaces, **options):
        return chain.Bmc(interfaces or ["sv0"], self.machine.port, self.pair.server, **options)

    def refused(self, words, want, name):
        status, _, error = run("--port", self.machine.port, *words, namespace=self.pair.server)
        tap.is_(status, 71, "%s: status 71" % name)
        tap.like(error, "(?m)^bmc: .*" + want, "%s: the message has the reason" % name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.machine.stop()
        self.pair.close()


@tap.case
def messages_at_the_start():
    with Ground(links=2) as ground:
        early = [ground.machine.stream() for _ in range(3)]
        for stream in early:
            stream.ask(b"version\r\n")
        with_lines = ground.start("sv0")
        tap.like(with_lines.log(), "(?m)^bmc: sv0: XDP native, TC egress ",
                 "the mode of attachment is logged")
        tap.like(with_lines.log(), "(?m)^bmc: port %d: room for 131072 items.* MB$"
                 % ground.machine.port, "the number of items and the memory are logged")
        tap.like(with_lines.log(), "(?m)^bmc: TCP connections .* open before bmc started: 3; .*"
                 "`ss -K sport = :%d`"
                 % ground.machine.port, "connections that are older than bmc are logged")
        tap.like(with_lines.log(), "(?m)^bmc: not watched: lo, sv1; .* up to 1000 ms",
                 "interfaces without the chain are logged")
        with_lines.stop()
        alone = ground.start("lo", "sv0", "sv1")
        tap.ok("not watched" not in alone.log(),
               "with all interfaces attached no such line is logged")
        alone.stop()
        other = chain.Bmc(["sv0"], server.free_port(ground.pair.server), ground.pair.server)
        tap.like(other.log(), "(?m)^bmc: no process listens on UDP port",
                 "it is logged that no process listens on the port")
        tap.ok("open before" not in other.log(), "no connections are logged then")
        other.stop()
        for stream in early:
            stream.close()


@tap.case
def refusals():
    with Ground() as ground:
        ground.refused(["sv7"], "there is no interface sv7", "an interface that does not exist")
        foreign = netns.attach_pass("sv0", ground.pair.server)
        before = netns.link("sv0", ground.pair.server)["xdp"]["prog"]["id"]
        ground.refused(["sv0"], "sv0: another XDP program is attached .*stays", "another's program")
        ground.refused(["auto"], "sv0: another XDP program is attached",
                       "an interface with another program, by auto")
        tap.is_(netns.link("sv0", ground.pair.server)["xdp"]["prog"]["id"], before, "it stays")
        os.close(foreign)
        first = ground.start()
        ground.refused(["lo"], "another bmc runs for port %d" % ground.machine.port, "a second one")
        status, _, error = run("--port", 7, "sv0", namespace=ground.pair.server)
        tap.is_(status, 71, "a second bmc for another port on the same interface: status 71")
        tap.like(error, "another XDP program is attached .*rx_filter", "and why")
        first.stop()


@tap.case
def it_ends_with_its_input():
    with Ground() as ground:
        words = ["nsenter", "--net=/run/netns/" + ground.pair.server, BMC, "sv0", "--until-eof",
                 "--port", ground.machine.port]
        first = child.Child(words, "bmc", stdin=subprocess.PIPE)
        attached = lambda: netns.xdp_mode("sv0", ground.pair.server) is not None
        tap.ok(server.wait_for(attached), "with --until-eof and a pipe it starts")
        first.process.stdin.write(b"text")
        first.process.stdin.flush()
        status, _, error = run("sv0", "--port", ground.machine.port, namespace=ground.pair.server)
        tap.is_((status, "another bmc runs" in error), (71, True),
                "and goes on when text arrives there")
        second = child.Child(words, "bmc", stdin=subprocess.PIPE)
        third = child.Child(words, "bmc", stdin=subprocess.PIPE)
        third.process.stdin.close()
        tap.is_(third.wait(), 0, "one that waits for it ends with its own input")
        first.process.stdin.close()
        tap.is_(first.wait(), 0, "it ends when its input does, with status 0")
        tap.ok(server.wait_for(lambda: re.search("bmc: port.*room", second.log())),
               "and one that was started meanwhile takes its place")
        second.process.stdin.close()
        tap.is_((second.wait(), attached()), (0, False), "after the end nothing is attached")


def refused_to(function, *arguments):
    try:
        function(*arguments)
        return False
    except PermissionError:
        return True


@tap.case
def others_cannot_keep_it_from_starting():
    with Ground() as ground:
        with netns.inside(ground.pair.server):
            squat, asks = (socket.socket(socket.AF_UNIX) for _ in range(2))
        squat.bind("\0memcachedsr-bmc-%d" % ground.machine.port)
        first = ground.start()
        tap.ok(first.stats(), "its socket's name cannot be taken by another user's abstract socket")
        os.seteuid(NOBODY)
        try:
            tap.ok(refused_to(open, FOLDER + "/any", "w"),
                   "another user cannot create files in its folder")
            tap.ok(refused_to(open, FOLDER + "/lock", "r"),
                   "another user cannot take the lock of a start")
            asks.connect(glob.glob("%s/%d-*" % (FOLDER, ground.machine.port))[0])
            tap.like(asks.recv(100).decode(), "^STAT ", "any user may read the statistics")
        finally:
            os.seteuid(0)
        first.kill()
        second = ground.start()
        tap.ok(second.stats(), "after kill -9 the next bmc takes over")
        second.stop()
        tap.is_(second.stats(), {}, "after the end of bmc there are no statistics")
        for each in (squat, asks):
            each.close()


def maps_of(bmc):
    """The maps of the process, by name, as bpftool shows them."""
    found = {}
    for info in openfiles.infos(bmc.pid).values():
        if "map_id" in info:
            shown = json.loads(netns.sh("bpftool", "-j", "map", "show", "id", info["map_id"]))
            found[shown["name"]] = shown
    return found


@tap.case
def what_a_service_manager_is_told():
    manager, pair = Manager(watchdog=60), netns.Pair(2)
    words = ["nsenter", "--net=/run/netns/" + pair.server, BMC, "sv0,sv1", "--port",
             server.free_port(pair.server), "--mode", "skb"]
    process = child.Child(words, "bmc", manager.env)
    message, pid = manager.message()
    tap.is_((message["READY"], message["MAINPID"], pid), ("1", str(process.pid), process.pid),
            "it is ready")
    tap.like(message["STATUS"], r"^the kernel answers gets over UDP, port \d+, on sv0 \(generic "
             r"XDP\), sv1 \(generic XDP\)$", "STATUS says what is answered, and where")
    tap.is_([netns.xdp_mode(name, pair.server) for name in ("sv0", "sv1")], ["generic"] * 2,
            "the programs are attached by then")
    tap.ok(manager.until("WATCHDOG")[0], "the watchdog is fed")
    netns.ip("link set sv1 down", pair.server)
    message, _ = manager.until("STATUS")
    tap.like(message["STATUS"], r"sv1 \(down\)$", "STATUS changes with an interface")
    process.signal(signal.SIGTERM)
    tap.ok(manager.until("STOPPING")[0], "it says that it ends")
    tap.is_(process.wait(), 0, "and ends")
    pair.close()
    manager = Manager()
    process = child.Child([BMC, "nowhere0"], "bmc", manager.env)
    tap.ok(process.wait() != 0, "it does not start without its interface")
    tap.is_(manager.message(0.1)[0], None, "and is never ready")


@tap.case
def memory_is_as_configured():
    sizes = {}
    with Ground() as ground:
        for entries, words in ((1000, {}), (1 << 16, {}), (1 << 16, {"value_max": 100}),
                               (64, {"key_max": 20, "value_max": 8})):
            bmc = ground.start(entries=entries, connections=64, **words)
            rows, maps = bmc.stats(), maps_of(bmc)
            name = "%d entries%s" % (entries, "".join(", %s %d" % w for w in words.items()))
            want = 1 << (entries - 1).bit_length()
            tap.is_((maps["mc_buckets"]["max_entries"], rows["entries"]), (want, str(want)), name)
            tap.ok(maps["mc_buckets"]["bytes_memlock"] <= want * 128 + 8192,
                   "%s: an entry takes two cache lines" % name)
            tap.is_(int(rows["chain_bytes"]), sum(m["bytes_memlock"] for m in maps.values()),
                    "%s: chain_bytes is the sum of bpftool's figures for the maps" % name)
            sizes[entries, len(words)] = int(rows["chain_bytes"]), rows
            bmc.stop()
    tap.ok(sizes[1 << 16, 0][0] - sizes[1000, 0][0] > 15 << 20, "more entries take more memory")
    tap.is_((sizes[1 << 16, 0][1]["medium_blocks"], sizes[1 << 16, 0][1]["large_blocks"]),
            ("16384", "4096"), "a quarter of the entries may be of medium size, a sixteenth large")
    tap.is_((sizes[1 << 16, 1][1]["medium_blocks"], sizes[1 << 16, 1][1]["large_blocks"]),
            ("16384", "1"), "values of 100 bytes need no large blocks")
    tap.is_((sizes[64, 2][1]["medium_blocks"], sizes[64, 2][1]["large_blocks"]), ("1", "1"),
            "values of 8 bytes need no blocks")


@tap.case
def statistics():
    page = {key for path in ("doc/kernel-path/reference.md", "doc/chain.md")
            for row in source(path).split("| `stats bmc` | |\n")[1].split("\n\n")[0].splitlines()
            for key in re.findall("`([^`]+)`", row.split(" | ")[0])}
    manual = set(re.findall(r"^\.It Cm (\w+)$", source("doc/bmc.1"), re.M))
    with Ground() as ground:
        bmc = ground.start(settle=50, max_age=60000, interval=1)
        rows = {re.sub("^sv0:", "IFACE:", key) for key in bmc.stats()}
        tap.is_(sorted(rows - page), [], "doc/chain.md has every statistic of the chain")
        tap.is_(sorted(page - rows), ["bmc_enabled", "extents", "maps_refused", "ports_left_out",
                                      "reason", "table_extents"],
                "every statistic but the server's is printed")
        tap.ok({"fills", "miss_empty", "writes_seen", "entries"} <= manual, "the manual has them")
        tcp, udp = ground.machine.stream(), ground.machine.udp()
        tcp.set(b"k", b"v")
        asked = lambda: udp.ask(b"get k\r\n") and int(bmc.stats()["hits"]) > 0
        tap.ok(server.wait_for(asked), "the kernel answers a get")
        line = r"^\d+ requests/s, [\d.]+ % answered, \d+ fills/s, \d+ writes/s, \d+ closed/s, " \
               r"\d+ unfollowed/s, \d+ connections$"
        tap.ok(server.wait_for(lambda: re.search(r"(?m)^[1-9]\d* req.* 1 connections$", bmc.log())),
               "a line for each second has the figures")
        tap.is_([row for row in bmc.log().splitlines()
                 if not row.startswith("bmc: ") and not re.match(line, row)], [],
                "no other lines are printed")
        bmc.stop()


@tap.case
def plain_stats_include_the_chains_hits():
    m = chain.Machines(chain.OURS)
    tcp = m.tcp
    tcp.set(b"k", b"v")
    before, rows = tcp.stats(), m.counts()
    for _ in range(20):
        m.udp.ask(b"get k\r\n")
    after, grown = tcp.stats(), m.counts()["hits"] - rows["hits"]
    tap.ok(grown > 0, "the kernel has answered gets")
    tap.is_([int(after[key]) - int(before[key]) for key in ("cmd_get", "get_hits", "get_misses")],
            [20, 20, 0], "each get is counted once, whether the kernel or the server answered")
    tcp.ask(b"stats reset\r\n")
    tap.is_((tcp.stats()["get_hits"], m.control.stats("bmc")["hits"]), ("0", "0"),
            "stats reset sets both counts to 0")
    udp = m.udp
    tcp.ask(b"verbosity 2\r\n")
    before = m.counts()
    udp.ask(b"get k\r\n")
    tap.is_(m.counts()["hits"], before["hits"], "at verbosity 2 the kernel does not answer")
    tcp.ask(b"verbosity 0\r\n")
    m.stop()


tap.run()
