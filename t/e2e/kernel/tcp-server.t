#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""tcp=on as the server has it: options, what it logs and counts, and on which connections the
kernel may answer."""
import ctypes
import json
import os
import re
import shutil
import socket
import struct

import auth
import binary
import client
import kernel
import netns
import openfiles
import server
import tap
import tls

SRCDIR = os.environ["SRCDIR"]
BUILT_IN = "no_drop_privileges" in server.run("-h")[1]
EPOLL_WAIT = {"x86_64": 232, "aarch64": 22}.get(os.uname().machine) # the latter's epoll_pwait
SO_GET_FILTER = 26
PASSES = 64 # BOUNDARY_PASSES
TRIES = 5 # of one request: what acknowledges a reply of the server goes to it
FOO = kernel.answer((b"foo", b"bar"))


class Machines(kernel.Machines):
    """With tcp=on, and `udp` as the server is to have it; m.tcp asks for statistics only."""

    def __init__(self, *arguments, words=("tcp=on",), udp=True, **options):
        super().__init__(*arguments, words=words, udp=udp, **options)

    def start(self):
        self.server = server.Server(*self.arguments, **self.options)
        self.tcp = self.server.stream()
        self.udp = self.server.udp()
        if self.options["udp"]:
            self.meet()

    def answered(self):
        return int(self.tcp.stats("bmc")["tcp_answered"])

    def kernel_gives(self, stream, request, want):
        """Whether the kernel gives this answer, in one of a few tries; None: it was another one."""
        for _ in range(TRIES):
            before = self.answered()
            stream.send(request)
            if stream.exactly(len(want)) != want:
                return None
            if self.answered() == before + 1:
                return True
        return False


m = Machines()
m.tcp.set(b"foo", b"bar")


def source(path):
    with open(os.path.join(SRCDIR, path), encoding="utf-8") as file:
        return file.read()


@tap.case
def gets_are_answered():
    c = m.server.stream()
    tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "a hit")
    tap.is_(m.kernel_gives(c, b"get none\r\n", b"END\r\n"), True, "a miss")
    tap.is_(m.kernel_gives(c, b"mg foo v\r\n", b"VA 3\r\nbar\r\n"), True, "a meta get")
    tap.is_(c.set(b"foo2", b"new"), b"STORED\r\n", "the same connection sets")
    tap.is_(m.kernel_gives(c, b"get foo2\r\n", kernel.answer((b"foo2", b"new"))), True,
            "and gets the value that it has set")
    tap.is_(m.by_kernel(b"get foo\r\n"), (FOO, True), "over UDP the kernel answers too")


@tap.case
def what_is_answered_is_logged_and_counted():
    tap.ok(re.search(r"^bmc: sv0: answers UDP port %d by native XDP, TCP port %d by native XDP and "
                     r"TC \(experimental\)$" % (m.server.port, m.server.port), m.server.log(),
                     re.M), "the log names the program for each port")
    c = m.server.stream()
    tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers")
    keys = ("cmd_get", "get_hits", "bytes_read", "bytes_written")
    plain, rows = m.tcp.stats(), m.tcp.stats("bmc")
    c.send(b"get foo\r\n")
    c.exactly(len(FOO))
    grown = [int(m.tcp.stats("bmc")[key]) - int(rows[key])
             for key in ("tcp_answered", "tcp_bytes_read", "tcp_bytes_written")]
    tap.is_(grown, [1, len(b"get foo\r\n"), len(FOO)], "the server counts a get with its bytes")
    rows = m.tcp.stats("bmc")
    tap.is_(int(rows["tcp_answered"]),
            int(rows["tcp_answered_xdp"]) + int(rows["tcp_answered_tc"]),
            "requests are answered by XDP or by TC")
    after = m.tcp.stats()
    tap.is_([int(after[key]) - int(plain[key]) for key in keys[:2]], [1, 1],
            "plain stats count the get as a command and a hit")
    tap.ok(all(int(after[key]) > int(plain[key]) for key in keys[2:]),
           "plain stats count its bytes")
    tap.ok(int(rows["tcp_connections"]) >= 1, "connections are counted")


@tap.case
def rows_are_documented():
    rows = {key for key in m.tcp.stats("bmc") if key.startswith("tcp_")}
    table = source("doc/kernel-path/reference.md").split("| `stats bmc` with `tcp=on` | |\n")[1]
    page = {key for row in table.split("\n\n")[0].splitlines()
            for key in re.findall("`(tcp_[a-z_]+)`", row.split(" | ")[0])}
    tap.is_(sorted(page), sorted(rows), "the reference has every row and no other")
    part = source("doc/memcached.1.in").split(".Ss Over TCP\n")[1].split(".El\n")[0]
    manual = re.findall(r"^\.It Cm (tcp_\w+)$", part, re.M)
    tap.is_(sorted(manual), sorted(rows), "the manual has every row and no other")


@tap.case
def reset_sets_them_back():
    c = m.server.stream()
    tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers")
    m.tcp.ask(b"stats reset\r\n")
    rows = m.tcp.stats("bmc")
    tap.is_({key: value for key, value in rows.items() if key.startswith("tcp_answered")},
            {"tcp_answered": "0", "tcp_answered_xdp": "0", "tcp_answered_tc": "0"},
            "stats reset sets them to 0")
    tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "they count again afterwards")


@tap.case
def a_connection_speaks_one_protocol():
    get = binary.request("get", b"foo")
    c = m.server.stream()
    c.send(get)
    answer = c.exactly(24 + 4 + len(b"bar"))
    tap.is_(m.kernel_gives(c, get, answer), True, "the kernel answers a binary get")
    before = m.answered()
    tap.is_((c.to_end(b"get foo\r\n"), m.answered()), (b"", before),
            "but no text get: the server closes the binary connection")
    c = m.server.stream()
    tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers a text get")
    before = m.answered()
    c.send(get)
    tap.is_((c.ask(b"\r\n"), m.answered()), (b"ERROR\r\n", before),
            "but no binary get: the server answers an error")


@tap.case
def the_server_can_ask_for_everything():
    c = m.server.stream()
    tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers")
    m.tcp.ask(b"verbosity 2\r\n")
    given, grown = m.during(lambda: m.kernel_gives(c, b"get foo\r\n", FOO))
    tap.is_(given, False, "while verbosity is 2 it does not")
    # One whose acknowledgement came just before it may be on no count.
    tap.ok(TRIES - 1 <= grown["tcp_pass_bypass"] <= TRIES,
           "tcp_pass_bypass counts those gets, each of which acknowledges a reply of the server's"
           " (%d of %d)" % (grown["tcp_pass_bypass"], TRIES))
    m.tcp.ask(b"verbosity 0\r\n")
    tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "then it does again")
    c.send(b"watch mutations\r\n")
    tap.is_(c.line(), b"OK\r\n", "a client watches")
    c.send(b"get foo\r\n")
    m.tcp.set(b"seen", b"1")
    tap.ok(b"VALUE" not in c.until(b"key=seen"), "a watcher gets events, and no answer to a get")


def quiet_one(which):
    """Opens a connection that sends one command, while others send gets to `which`."""
    quiet = which.server.stream()
    quiet.ask(b"version\r\n")
    return quiet


@tap.case
@tap.uninterrupted(2)
def gets_keep_a_connection_from_being_idle():
    with Machines("-o", "idle_timeout=4") as timed:
        timed.tcp.set(b"foo", b"bar")
        busy = timed.server.stream()
        tap.is_(timed.kernel_gives(busy, b"get foo\r\n", FOO), True, "the kernel answers")
        before = timed.answered()
        quiet, n = quiet_one(timed), 0
        quiet.sock.settimeout(0.05)

        def closed():
            nonlocal n
            busy.send(b"get foo\r\n")
            busy.exactly(len(FOO))
            n += 1
            try:
                return quiet.sock.recv(1) == b""
            except TimeoutError:
                timed.tcp.ask(b"version\r\n")
                return False

        tap.ok(server.wait_for(closed), "a connection without commands is closed")
        tap.is_(timed.answered() - before, n,
                "a connection with gets for the kernel stays open: the kernel answers them all")
        tap.is_(timed.kernel_gives(busy, b"get foo\r\n", FOO), True, "and the next one")


def since(which, stream):
    """Seconds since the last command of the connection, by `stats conns`."""
    conns = which.tcp.stats("conns")
    mine = "tcp:%s:%d" % stream.sock.getsockname()
    fd = next(key.split(":")[0] for key, value in conns.items()
              if key.endswith(":addr") and value == mine)
    return int(conns[fd + ":secs_since_last_cmd"])


@tap.case
def stats_conns_know_of_gets():
    busy = m.server.stream()
    tap.is_(m.kernel_gives(busy, b"get foo\r\n", FOO), True, "the kernel answers")
    quiet = quiet_one(m)

    def three_seconds():
        busy.send(b"get foo\r\n")
        busy.exactly(len(FOO))
        return since(m, quiet) >= 3

    tap.ok(server.wait_for(three_seconds, 30, 0.1),
           "stats conns counts three seconds without a command")
    tap.ok(since(m, busy) <= 2, "a get that the kernel answers counts as a command")
    busy.close()
    quiet.close()


def map_of(which, name):
    """What is in a map of a server's, by the map's name: (key, value) as bytes."""
    held = {int(info["map_id"]) for info in openfiles.infos(which.server.pid).values()
            if "map_id" in info}
    maps = json.loads(netns.sh("bpftool", "-j", "map", "show"))
    found, = [one["id"] for one in maps if one["id"] in held and one.get("name") == name]
    rows = json.loads(netns.sh("bpftool", "-j", "map", "dump", "id", str(found)))
    return [[bytes(int(byte, 16) for byte in row[part]) for part in ("key", "value")]
            for row in rows]


def slots_that_owe(which):
    """Those of connections that the server asks about every second (bpf/shared/tcp.h)."""
    values = [value for _, value in map_of(which, "mc_tcp_slots")]
    return sum(struct.unpack_from("Q", value)[0] != 2**64 - 1 and
               struct.unpack_from("I", value, 20)[0] > 0 for value in values)


def entries(which):
    """(those that wait for a connection's first reply, the others)."""
    waits = [value[120:152] == bytes(32) for _, value in map_of(which, "mc_tcp_conns")]
    return sum(waits), len(waits) - sum(waits)


def sieved(which):
    """The same as the programs' sieve counts them."""
    (_, control), = map_of(which, ".data.control")
    places = [int.from_bytes(value, "little") for _, value in map_of(which, "mc_tcp_sieve")]
    waiting, followed = struct.unpack_from("II", control, 3996) # struct mc_control
    return waiting, followed if followed == sum(places) else places


@tap.case
def connections_are_followed_from_their_second_get():
    with Machines() as few:
        few.tcp.set(b"long", b"x" * 2000)
        others = [few.server.stream() for _ in range(3)]
        for c in others:
            c.get(b"foo")
            for _ in range(20):
                c.get(b"long")
                c.set(b"bar", b"1")
                c.send(b"get foo\r\nset bar 0 0 1\r\n2\r\n")
                c.exactly(len(b"END\r\nSTORED\r\n"))
        tap.is_(entries(few), (0, 0),
                "what else a connection asks than short values makes no entry")
        for c in others:
            c.get(b"foo")
        tap.is_((entries(few), sieved(few)), ((0, 3), (0, 3)), "a second such get makes one")
        many = few.server.stream()
        for _ in range(2):
            tap.is_(entries(few), (0, 3), "before its second segment of gets another has none")
            many.send(b"get foo\r\nget foo\r\n")
            many.exactly(2 * len(b"END\r\n"))
        tap.is_(entries(few), (0, 4), "with the second it has one")
        tap.is_([few.kernel_gives(c, b"get foo\r\n", b"END\r\n") for c in others], [True] * 3,
                "and the kernel answers in mid-life")


@tap.case
def an_entry_waits_for_a_reply():
    with Machines(links=2, on=1) as few:
        few.pair.accept_any_source()
        c = few.server.stream()
        c.get(b"foo")
        netns.sh("ip", "route", "replace", "10.77.0.2/32", "dev", "sv1",
                 namespace=few.pair.server)
        c.get(b"foo")
        tap.is_((entries(few), sieved(few)), ((1, 0), (1, 0)),
                "until a reply leaves by the programs the entry waits")
        c.close()
        tap.ok(server.wait_for(lambda: entries(few) == sieved(few) == (0, 0)),
               "a connection that ends before leaves no entry behind")


@tap.case
def connections_that_do_not_gain_are_given_up():
    with Machines() as some:
        some.tcp.set(b"foo", b"bar")
        c = some.server.stream()
        for _ in range(2):
            c.get(b"foo")
        tap.is_(entries(some), (0, 1), "a connection is followed")
        tap.ok(all(c.set(b"bar", b"%d" % i) == b"STORED\r\n" for i in range(PASSES)),
               "%d sets" % PASSES)
        tap.is_((entries(some), sieved(some), some.tcp.stats("bmc")["tcp_given_up"]),
                ((0, 0), (0, 0), "1"), "it is followed no more")
        tap.is_([c.get(b"bar") for _ in range(5)], [b"%d" % (PASSES - 1)] * 5, "and goes on")
        tap.ok(server.wait_for(lambda: c.get(b"bar") and entries(some) == (0, 1)),
               "some seconds later it is followed again")
        tap.is_(some.kernel_gives(c, b"get foo\r\n", FOO), True, "and the kernel answers")
        tap.ok(all(c.set(b"bar", b"%d" % i) == b"STORED\r\n" for i in range(PASSES)),
               "%d sets" % PASSES)
        tap.is_((entries(some), some.tcp.stats("bmc")["tcp_given_up"]), ((0, 1), "1"),
                "one on which the kernel has answered stays")
        tap.is_(some.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers on it")


@tap.case
def a_route_becomes_narrower():
    """The programs ask the socket, while the server replies, how long its segments are."""
    with Machines() as one:
        one.answered()
        old = {key for key, _ in map_of(one, "mc_tcp_conns")}
        c = one.server.stream()
        c.set(b"foo", b"x" * 900)
        for _ in range(2):
            c.get(b"foo")
        def size():
            c.set(b"other", b"1")
            found, = [value for key, value in map_of(one, "mc_tcp_conns") if key not in old]
            return struct.unpack_from("H", found, 86)[0]
        tap.is_(size(), 1448, "an entry has the size of the server's segments")
        tap.is_(one.kernel_gives(c, b"get foo\r\n", kernel.answer((b"foo", b"x" * 900))), True,
                "the kernel answers with a long value")
        netns.enter(one.pair.server)
        netns.ip("route change 10.77.0.0/24 dev sv0 mtu 700")
        netns.enter(one.pair.client)
        tap.ok(server.wait_for(lambda: size() == 700 - 52), "it changes with the route,")
        tap.is_(one.kernel_gives(c, b"get foo\r\n", kernel.answer((b"foo", b"x" * 900))), False,
                "and what is longer the server answers")


@tap.case
def idle_connections_owe_nothing():
    """A connection's last words are the client's acknowledgement of a reply."""
    idle = [m.server.stream() for _ in range(20)]
    for c in idle:
        tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers")
        c.set(b"later", b"1")
    tap.ok(server.wait_for(lambda: slots_that_owe(m) == 0),
           "what is acknowledged is not asked about again")
    tap.is_([(c.get(b"later"), c.set(b"later", b"1")) for c in idle], [(b"1", b"STORED\r\n")] * 20,
            "the connections go on")
    for c in idle:
        c.close()


@tap.case
def without_udp():
    with Machines(udp=False) as alone:
        alone.tcp.set(b"foo", b"bar")
        tap.is_(alone.kernel_gives(alone.server.stream(), b"get foo\r\n", FOO), True,
                "without -U the kernel answers gets over TCP")
        try:
            answer = alone.udp.ask(b"get foo\r\n")
        except ConnectionRefusedError:
            answer = None
        tap.is_(answer, None, "and nothing answers over UDP")
        tap.ok(re.search(r"^bmc: sv0: answers TCP port \d+ by native XDP and TC \(experimental\)$",
                         alone.server.log(), re.M), "the log names TCP alone")
    with Machines(words=("tcp=on", "udp=off")) as off:
        off.tcp.set(b"foo", b"bar")
        tap.is_(off.kernel_gives(off.server.stream(), b"get foo\r\n", FOO), True,
                "with udp=off the kernel answers gets over TCP")
        tap.is_((off.udp.ask(b"get foo\r\n"), int(off.tcp.stats("bmc")["packets_seen"])), (FOO, 0),
                "and the server those over UDP")


@tap.case
def modes():
    for mode, by in (("skb", "generic XDP"), ("tc", "TC")):
        with Machines(mode=mode) as other:
            other.tcp.set(b"foo", b"bar")
            c = other.server.stream()
            answered = other.kernel_gives(c, b"get foo\r\n", FOO)
            tap.ok(answered if mode == "tc" else answered is not None,
                   "with mode=%s the kernel answers gets" % mode)
            tap.is_(other.tcp.stats("bmc")["tcp_answered_xdp"], "0", "XDP answers none of them")
            tap.ok("UDP port %d by %s, TCP port %d by TC " % (other.server.port, by,
                                                              other.server.port)
                   in other.server.log(), "the log names XDP's mode for UDP and TC for TCP")


@tap.case
def without_native_xdp():
    pair = netns.Pair()
    os.close(pair.passes.pop())
    with Machines(pair=pair) as other:
        other.tcp.set(b"foo", b"bar")
        c = other.server.stream()
        tap.is_(other.kernel_gives(c, b"get foo\r\n", FOO), True,
                "where native XDP does not work TC answers over TCP")
        tap.is_(other.by_kernel(b"get foo\r\n"), (FOO, True), "and over UDP")
        rows = other.tcp.stats("bmc")
        tap.is_([rows[key] for key in ("sv0:xdp", "sv0:tc", "sv0:state", "answered_xdp",
                                       "tcp_answered_xdp")], ["none", "yes", "up", "0", "0"],
                "no XDP program is attached")
        tap.ok("bmc: sv0: no XDP, TC ingress" in other.server.log(), "the log says so")


@tap.case
def authentication():
    users = os.path.join(server.scratch(), "users")
    with open(users, "w", encoding="ascii") as file:
        file.write("user:pass\n")
    os.chmod(users, 0o644)
    os.chmod(os.path.dirname(users), 0o755)
    unknown = b"CLIENT_ERROR unauthenticated\r\n"
    login = b"set k 0 0 9\r\nuser pass\r\n"
    pair = netns.Pair()
    netns.enter(pair.client)
    with server.Server("-Y", users, "-X", "bmc=sv0,tcp=on", udp=False, namespace=pair.server,
                       host=pair.address(), listen="0.0.0.0") as closed, closed.stream() as control:
        tap.is_(control.ask(login), b"STORED\r\n", "a client authenticates")
        control.set(b"foo", b"bar")
        c = closed.stream()

        def answered():
            return int(control.stats("bmc")["tcp_answered"])

        before = answered()
        tap.is_([c.ask(b"get foo\r\n") for _ in range(TRIES)], [unknown] * TRIES,
                "the server refuses each get before authentication")
        tap.is_(answered(), before, "by the server")
        tap.is_(c.ask(login), b"STORED\r\n", "it authenticates")
        for _ in range(TRIES):
            c.send(b"get foo\r\n")
            tap.is_(c.exactly(len(FOO)), FOO, "its gets are answered")
        tap.ok(answered() > before, "by the kernel")
    pair.close()
    netns.enter(m.pair.client)


@tap.case
def sasl():
    if not server.is_built_with("enable-sasl") or not shutil.which("saslpasswd2"):
        tap.ok(not os.environ.get("CI"), "SASL is missing")
        return
    get = binary.request("get", b"none")
    pair = netns.Pair()
    netns.enter(pair.client)
    with auth.start("-X", "bmc=sv0,tcp=on", udp=False, namespace=pair.server, host=pair.address(),
                    listen="0.0.0.0") as closed:
        control = auth.logged_in(closed)

        def answered():
            return int(dict(control.stats(b"bmc"))["tcp_answered"])

        one = binary.Binary(closed.stream())
        before = answered()
        tap.is_(one.ask(get).status, binary.AUTH_ERROR, "before SASL a get is refused")
        one = binary.Binary(closed.stream())
        one.ask(auth.WRONG)
        tap.is_(one.ask(get).status, binary.AUTH_ERROR, "after a wrong password a get is refused")
        tap.is_(answered(), before, "by the server")
        one = auth.logged_in(closed)
        tap.is_([one.ask(get).status for _ in range(TRIES)], [binary.NOT_FOUND] * TRIES,
                "after the right password gets are answered")
        tap.ok(answered() > before, "by the kernel")
        for name, words in (("after a wrong password", auth.WRONG),
                            ("within an exchange", auth.auth(b"CRAM-MD5"))):
            one = auth.logged_in(closed)
            before = answered()
            tap.is_([one.ask(get).status for _ in range(TRIES)], [binary.NOT_FOUND] * TRIES,
                    "the right password again")
            tap.ok(answered() > before, "by the kernel")
            one.ask(words)
            before = answered()
            tap.is_((one.ask(get).status, answered()), (binary.AUTH_ERROR, before),
                    "%s that comes later the server refuses a get" % name)
    pair.close()
    netns.enter(m.pair.client)


@tap.case
def tls_is_never_answered():
    if not server.is_built_with("enable-ssl"):
        return
    authority = tls.Authority()
    cert, key = authority.issue("one")
    words = ("-Z", "-o", "ssl_chain_cert=%s,ssl_key=%s" % (cert, key))
    pair = netns.Pair()
    netns.enter(pair.client)
    status, _, err = server.run(*words, "-p", "11411", "-X", "bmc=sv0,tcp=on",
                                namespace=pair.server)
    tap.is_((status, "bmc: tcp=on needs a TCP port without TLS\n" in err), (71, True),
            "where all of TCP has TLS, tcp=on is refused")
    plain = server.free_port(pair.server)
    secret = server.free_port(pair.server)
    with server.Server(*words, "-u", server.USER, "-p", secret, "-l",
                       "%s,notls:%s:%d" % (pair.address(), pair.address(), plain), "-X",
                       "bmc=sv0,tcp=on", plain=True, port=plain, namespace=pair.server,
                       host=pair.address()) as both:
        control, open_one = both.stream(), both.stream()
        control.set(b"foo", b"bar")
        hidden = client.tcp(pair.address(), secret, authority.context())
        before = int(control.stats("bmc")["tcp_answered"])
        tap.is_([hidden.get(b"foo") for _ in range(TRIES)], [b"bar"] * TRIES,
                "a TLS connection is served")
        tap.is_(int(control.stats("bmc")["tcp_answered"]), before, "by the server")
        tap.is_([open_one.get(b"foo") for _ in range(TRIES)], [b"bar"] * TRIES,
                "a plain connection is served")
        tap.ok(int(control.stats("bmc")["tcp_answered"]) > before, "by the kernel")
    pair.close()
    netns.enter(m.pair.client)


@tap.case
def behind_the_filter():
    if not BUILT_IN:
        return
    with Machines("-o", "drop_privileges") as bound:
        bound.tcp.set(b"foo", b"bar")
        for _ in range(3):
            c = bound.server.stream()
            tap.is_(bound.kernel_gives(c, b"get foo\r\n", FOO), True,
                    "with -o drop_privileges the kernel answers on each new connection")
            c.close()


@tap.case
def words_that_do_not_fit():
    for words, text in (
            (("-U", "1", "-X", "bmc=sv0,mode=chain,tcp=on"),
             "bmc: the chain answers UDP: mode=chain cannot go with tcp=, udp=, xsk= or refresh="),
            (("-U", "1", "-X", "bmc=sv0,udp=off"),
             "bmc: udp=off leaves nothing to answer without tcp=on"),
            (("-X", "bmc=sv0,tcp=on,udp=on"),
             "-X bmc= finds nothing to answer: add a UDP port (-U 11211), or the word tcp=on for "
             "GETs over TCP"),
            (("-U", "1", "-X", "bmc=sv0,tcp=maybe"), 'bmc: "tcp=maybe": tcp is on or off')):
        tap.is_(server.run(*words), (64, "", text + "\n"), "%s is refused" % words[-1])


@tap.case
def optional_words_that_do_not_fit():
    for words, text in ((("-p", "0", "-X", "bmc=lo,tcp=on,optional"), "tcp=on needs a TCP port"),
                        (("-U", "0", "-X", "bmc=lo,optional"), "finds nothing to answer"),
                        (("-U", "0", "-X", "bmc=lo,tcp=on,xsk=on,optional"),
                         "xsk=on needs a UDP port")):
        port = server.free_port()
        own = ("-l", "127.0.0.1") + (("-U", port) if "-p" in words else ("-p", port))
        status, _, err = server.run(*words, *own, seconds=2)
        tap.is_(status, None, "%s: it starts" % words[-1])
        tap.like(err, text + ".*continuing without the kernel path", "and says why it is off")


@tap.case
def detached_programs_are_attached_again():
    c = m.server.stream()
    tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers")
    for program in netns.tc_programs("sv0", m.pair.server):
        if isinstance(program, int): # before Linux 6.6 they are filters
            netns.cut(program, "sv0", m.pair.server)
    tap.is_(c.set(b"later", b"1"), b"STORED\r\n",
            "a connection stands still while TC is detached, and then goes on")
    tap.is_([(c.get(b"later"), c.set(b"later", b"1")) for _ in range(20)],
            [(b"1", b"STORED\r\n")] * 20, "all that follows is answered as before")
    # If the server has noticed that, the connection is its own again for some seconds.
    tap.ok(server.wait_for(lambda: c.get(b"later") == b"1" and
                           m.kernel_gives(c, b"get foo\r\n", FOO)), "and by the kernel as well")


@tap.case
def a_killed_server_resets_its_connections():
    with Machines() as killed:
        killed.tcp.set(b"foo", b"bar")
        c = killed.server.stream()
        tap.is_(killed.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers")
        killed.server.kill()
        try:
            said = c.sock.recv(1)
        except ConnectionResetError:
            said = "reset"
        tap.is_(said, "reset", "the client is told at once when the server is killed")


def has_filter(sock):
    """Linux does not show one that is eBPF."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, SO_GET_FILTER, 0) != 0
    except PermissionError:
        return True


def filters(which):
    """How many of the server's (listening sockets, connections) have a filter."""
    found = [0, 0]
    for fd in openfiles.copies(which.server.process.pid, "socket:").values():
        with socket.socket(fileno=fd) as sock:
            if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
                listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                found[not listens] += has_filter(sock)
    return tuple(found)


@tap.case
def sockets_have_filters_only_while_they_need_them():
    with Machines() as few:
        netns.enter(few.pair.server)
        home = few.server.stream()
        netns.enter(few.pair.client)
        few.tcp.set(b"foo", b"bar")
        others = [few.server.stream() for _ in range(3)]
        for c in others:
            c.get(b"foo")
        tap.is_(filters(few), (0, 0), "none before a connection is followed")
        tap.is_(few.kernel_gives(others[0], b"get foo\r\n", FOO), True, "one is followed")
        tap.is_(filters(few), (0, 1), "it alone has one")
        home.ask(b"bmc off\r\n")
        tap.ok(server.wait_for(lambda: few.tcp.stats("bmc")["tcp_undone_off"] == "1" and
                               filters(few)[0] == 1),
               "the listening socket has one from when a connection is undone")
        tap.ok(server.wait_for(lambda: filters(few)[0] == 0), "and some seconds later none")
        tap.is_(others[0].get(b"foo"), b"bar", "the connection goes on")


def timeouts(pid):
    """With which the threads behind the main one wait for events."""
    found = []
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/syscall" % (pid, thread), encoding="ascii") as file:
            words = file.read().split()
        if int(thread) != pid and words[0] == str(EPOLL_WAIT):
            found.append(ctypes.c_int(int(words[4], 16)).value)
    return found


@tap.case
def a_worker_waits_without_a_timeout():
    """Else each wait would arm a timer."""
    with Machines("-t", 2) as idle:
        tap.ok(server.wait_for(lambda: timeouts(idle.server.process.pid) == [-1, -1]),
               "two threads wait for events, and for no time")


@tap.case
def requests_to_a_dead_server_are_reset_before_its_memory_is_unmapped():
    with Machines() as killed:
        killed.tcp.set(b"foo", b"bar")
        streams = [killed.server.stream() for _ in range(3)]
        for c in streams[:2]:
            tap.is_(killed.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers")
        tap.is_([streams[2].get(b"foo") for _ in range(2)], [b"bar"] * 2,
                "on another connection the server")
        # With them its sockets and its programs are as while Linux unmaps the memory of a process
        # that was killed.
        held = openfiles.copies(killed.server.process.pid).values()
        try:
            killed.server.kill()
            for c, request in zip(streams, (b"get foo\r\n", b"delete foo\r\n", b"get foo\r\n")):
                c.send(request)
                try:
                    said = c.sock.recv(1)
                except ConnectionResetError:
                    said = "reset"
                tap.is_(said, "reset", "%r to a dead server's open socket: reset" % request)
        finally:
            for fd in held:
                os.close(fd)


@tap.case
def it_ends():
    c = m.server.stream()
    tap.is_(m.kernel_gives(c, b"get foo\r\n", FOO), True, "the kernel answers")
    m.server.stop()
    tap.is_(c.to_end(), b"", "when the server ends the client's connection is closed")
    tap.ok(not re.search("(?i)error|fail|cannot", m.server.log()), "the log has no error")
    m.leave()


tap.run(240)
