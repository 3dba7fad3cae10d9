#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SASL (-S): who is let in, by which mechanisms, and that nobody else is."""
import os
import re
import socket
import struct
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
import auth
import binary as b
import differential
import server
import tap
import tls

if "sasl" not in server.run("-h", user=False)[1].lower():
    tap.is_(server.run("-S", "-p", "0")[::2],
            (64, "This server is not built with SASL support.\n"), "a build without SASL says so")
    tap.run()

SASL = (0x20, 0x21, 0x22)
CONTINUE = 0x21
REFUSED = b"Auth failure."
GET = b.request("get", b"k")
SET = b.store("set", b"k", b"value")
VERSION = b.request("version")
NOOP = b.request("noop")

memcached = auth.start(threads=4)


def connect():
    return b.Binary(memcached.stream())


def alone(data, to=None):
    """(status, value) of every reply, and whether the server closed."""
    c = b.Binary((to or memcached).stream())
    c.send(data + VERSION)
    found = []
    try:
        while not found or found[-1][:2] != (0x0b, b.OK):
            reply = c.reply()
            found.append((reply.opcode, reply.status, reply.value))
        return [f[1:] for f in found[:-1]], False
    except Exception as end:
        if end.__class__.__name__ not in ("Closed", "ConnectionResetError", "BrokenPipeError"):
            raise
        return [f[1:] for f in found], True
    finally:
        c.stream.close()


def resident(of=None):
    with open("/proc/%d/status" % (of or memcached).pid, encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1)) >> 10


@tap.case
def the_way_in():
    c = connect()
    mechanisms = c.ask(b.request("sasl_list", opaque=7))
    tap.is_((mechanisms.status, mechanisms.opaque, sorted(mechanisms.value.split(b" "))),
            (b.OK, 7, sorted(auth.MECHANISMS.upper().encode().split(b" "))),
            "the mechanisms are those of the configuration that SASL_CONF_PATH names")
    tap.is_(c.ask(VERSION).status, b.OK, "the version is no secret")
    tap.is_(c.ask(auth.auth(b"PLAIN", auth.plain(), opaque=9)), auth.IN._replace(opaque=9),
            "the right password is let in")
    tap.is_([r.status for r in c.all(SET + GET)], [b.OK, b.OK], "and then served")
    tap.is_(c.ask(b.request("sasl_list")).value, mechanisms.value, "the list is the same inside")


@tap.case
def nothing_before_it():
    logged_in = auth.logged_in(memcached)
    logged_in.ask(b.store("set", b"k", b"kept"))
    for opcode in range(256):
        if opcode in SASL or opcode == 0x0b:
            continue
        c = connect()
        c.send(b.store(opcode, b"k", b"lost", opaque=3))
        got = c.to_end()
        want = [b.Reply(opcode, b.AUTH_ERROR, 3, 0, b"", b"", REFUSED)]
        if got != want:
            tap.is_(got, want, "opcode 0x%02x is refused and closes" % opcode)
    tap.is_(logged_in.ask(GET).value, b"kept",
            "before authentication every other command, known or not, is refused and not executed")
    for name, data in (("right form", GET), ("quiet", b.request("getq", b"k")),
                       ("quit", b.request("quit")), ("flush_all", b.request("flush")),
                       ("a key of 251 bytes", b.request("get", b"k" * 251)),
                       ("a key longer than its body", b.request("get", b"k", nkey=200)),
                       ("a body of 4 GB", b.request("set", b"k", nbody=0xffffffff))):
        tap.is_(alone(data), ([(b.AUTH_ERROR, REFUSED)], True), "%s: refused" % name)
    tap.is_(alone(b"get k\r\n"), ([], True), "a text client gets nothing at all")
    tap.is_(alone(b"\x81" + NOOP[1:]), ([], True), "nor does a wrong magic byte")


@tap.case
def who_is_not_let_in():
    for name, data in (
            ("a wrong password", auth.plain(password=b"wrong")),
            ("no password", auth.plain(password=b"")),
            ("a password cut short", auth.plain(password=auth.PASSWORD[:-1])),
            ("a password with more behind it", auth.plain(password=auth.PASSWORD + b"x")),
            ("another user", auth.plain(user=b"other")),
            ("no user", auth.plain(user=b"")),
            ("a user who wants to be another", auth.plain(authorize=b"other")),
            ("another realm", auth.plain(user=auth.USER + b"@example.com")),
            ("no zero bytes", b"user pass word"),
            ("a zero byte too many", auth.plain() + b"\0more"),
            ("nothing but zero bytes", b"\0\0"),
            ("60 KB of password", auth.plain(password=b"p" * 60000)),
            ("bytes that are no UTF-8", auth.plain(user=b"\xff\xfe", password=b"\xc0\x80"))):
        tap.is_(alone(auth.auth(b"PLAIN", data)), ([(b.AUTH_ERROR, REFUSED)], False),
                "%s: refused, and the connection stays" % name)
        tap.is_(alone(auth.auth(b"PLAIN", data) + GET), ([(b.AUTH_ERROR, REFUSED)] * 2, True),
                "%s: nothing is served" % name)
    tap.is_(alone(auth.auth(b"PLAIN", auth.plain(user=auth.USER + b"@" + auth.REALM.encode()))),
            ([(b.OK, b"Authenticated")], False), "a user may say the realm, which is the host")
    tap.is_(alone(auth.auth(b"PLAIN", auth.plain(authorize=auth.USER))),
            ([(b.OK, b"Authenticated")], False), "and that it wants to be itself")


@tap.case
def second_attempts():
    """CVE-2013-7239: an attempt with bad credentials leaves nobody inside."""
    for name, attempts, inside in (
            ("wrong, right", (auth.WRONG, auth.LOGIN), True),
            ("wrong, wrong", (auth.WRONG, auth.WRONG), False),
            ("right, wrong", (auth.LOGIN, auth.WRONG), False),
            ("right, right", (auth.LOGIN, auth.LOGIN), True),
            ("right, wrong, right", (auth.LOGIN, auth.WRONG, auth.LOGIN), True),
            ("right, no such mechanism", (auth.LOGIN, auth.auth(b"NONE", b"x")), False),
            ("right, another one begun", (auth.LOGIN, auth.auth(b"CRAM-MD5")), False),
            ("right, a step of nothing", (auth.LOGIN, auth.step(b"PLAIN", auth.plain())), False),
            ("right, empty", (auth.LOGIN, auth.auth(b"PLAIN")), False)):
        c = connect()
        for attempt in attempts:
            c.ask(attempt)
        tap.is_(c.ask(GET).status, b.OK if inside else b.AUTH_ERROR,
                "%s: %s" % (name, "inside" if inside else "outside"))


@tap.case
def several_steps():
    c = connect()
    tap.is_(auth.cram_md5(c)[1:7:5], (b.OK, b"Authenticated"), "CRAM-MD5: one step")
    tap.is_(c.ask(GET).status, b.OK, "and inside")
    c = connect()
    tap.is_(auth.cram_md5(c, password=b"wrong").status, b.AUTH_ERROR, "with a wrong password: out")
    tap.is_(auth.cram_md5(c).status, b.OK, "and the next attempt on that connection is in")
    for mechanism in (b"SCRAM-SHA-1", b"SCRAM-SHA-256"):
        c = connect()
        tap.is_([r.status for r in auth.scram(c, mechanism)], [CONTINUE, CONTINUE, b.OK],
                "%s: two steps, and the server proves itself" % mechanism.decode())
        tap.is_(c.ask(GET).status, b.OK, "and inside")
        tap.is_(auth.scram(connect(), mechanism, password=b"wrong")[-1].status, b.AUTH_ERROR,
                "with a wrong password: out")
    c = connect()
    tap.is_(c.ask(auth.auth(b"PLAIN"))[1:7:5], (CONTINUE, b""),
            "PLAIN without a first message: asked for one")
    tap.is_(c.ask(auth.step(b"PLAIN", auth.plain())).status, b.OK, "which the step brings")


@tap.case
def steps_out_of_place():
    for name, data, want in (
            ("without a beginning", [auth.step(b"PLAIN", auth.plain())], [b.AUTH_ERROR]),
            ("of no mechanism", [auth.step(b"NONE", b"x")], [b.AUTH_ERROR]),
            ("of another mechanism", [auth.auth(b"CRAM-MD5"), auth.step(b"PLAIN", auth.plain())],
             [CONTINUE, b.AUTH_ERROR]),
            ("behind a failure", [auth.WRONG, auth.step(b"PLAIN", auth.plain())],
             [b.AUTH_ERROR, b.AUTH_ERROR]),
            ("behind a success", [auth.LOGIN, auth.step(b"PLAIN", auth.plain())],
             [b.OK, b.AUTH_ERROR]),
            ("without a message", [auth.auth(b"CRAM-MD5"), auth.step(b"CRAM-MD5")],
             [CONTINUE, b.AUTH_ERROR]),
            ("with rubbish", [auth.auth(b"CRAM-MD5"), auth.step(b"CRAM-MD5", b"\xff" * 3000)],
             [CONTINUE, b.AUTH_ERROR])):
        got, closed = alone(b"".join(data) + GET)
        tap.is_(([status for status, _ in got], closed), (want + [b.AUTH_ERROR], True),
                "a step %s: out" % name)
    c = connect()
    c.ask(auth.auth(b"CRAM-MD5"))
    tap.is_([r.status for r in c.all(auth.LOGIN + GET)] if c.ask(VERSION).status == b.OK else None,
            [b.OK, b.OK], "an exchange may be left for another; a version between does not matter")


@tap.case
def malformed_requests():
    """CVE-2016-8706: the lengths of the SASL commands."""
    for name, data, want in (
            ("a key longer than the body", b.request("sasl_auth", b"PLAIN", nbody=2),
             ([(b.UNKNOWN, b"Unknown command")], True)),
            ("a key of 65,535 bytes", b.request("sasl_auth", b"PLAIN", nkey=0xffff),
             ([(b.INVALID, b"Invalid arguments")], True)),
            ("a mechanism of 251 bytes", auth.auth(b"M" * 251, b"x"),
             ([(b.INVALID, b"Invalid arguments")], True)),
            ("a mechanism of no bytes", auth.auth(b"", auth.plain()),
             ([(b.INVALID, b"Invalid arguments")], True)),
            ("extras", auth.auth(b"PLAIN", auth.plain(), extras=b"1234"),
             ([(b.INVALID, b"Invalid arguments")], True)),
            ("a list with a key", b.request("sasl_list", b"k"),
             ([(b.INVALID, b"Invalid arguments")], True)),
            ("a list with a value", b.request("sasl_list", b"", b"v"),
             ([(b.INVALID, b"Invalid arguments")], True)),
            ("a body of 2 GB", b.request("sasl_auth", b"PLAIN", nbody=0x7fffffff),
             ([(b.INVALID, b"Invalid arguments")], True)),
            ("a body of 4 GB", b.request("sasl_auth", b"PLAIN", nbody=0xffffffff),
             ([(b.INVALID, b"Invalid arguments")], True)),
            ("a mechanism of 33 bytes", auth.auth(b"M" * 33, b"x" * 500),
             ([(b.INVALID, b"Invalid arguments")], False)),
            ("a mechanism of 250 bytes", auth.auth(b"M" * 250, b"x" * 500),
             ([(b.INVALID, b"Invalid arguments")], False)),
            ("a mechanism of 32 bytes", auth.auth(b"M" * 32, b"x"),
             ([(b.AUTH_ERROR, REFUSED)], False)),
            ("a mechanism with a zero byte", auth.auth(b"PLAIN\0", auth.plain()),
             ([(b.AUTH_ERROR, REFUSED)], False)),
            ("a mechanism of % signs", auth.auth(b"%s%n%s%n", b"%n"),
             ([(b.AUTH_ERROR, REFUSED)], False)),
            ("1 MB of credentials", auth.auth(b"PLAIN", auth.plain(password=b"p" * (1 << 20))),
             ([(b.NO_MEMORY, b"Out of memory")], False))):
        tap.is_(alone(data), want, name)
    tap.is_(alone(auth.auth(b"plain", auth.plain()))[0], [(b.OK, b"Authenticated")],
            "the case of a mechanism does not matter")


@tap.case
def in_pieces():
    c = connect()
    for byte in auth.LOGIN:
        c.send(bytes([byte]))
    tap.is_(c.reply(), auth.IN, "credentials that come byte by byte")
    tap.is_([s for s, _ in alone(auth.WRONG + auth.LOGIN + SET + GET + auth.WRONG)[0]],
            [b.AUTH_ERROR, b.OK, b.OK, b.OK, b.AUTH_ERROR], "everything in one piece, in order")
    tap.is_([s for s, _ in alone(auth.LOGIN + SET + GET + auth.WRONG + SET + GET)[0]],
            [b.OK, b.OK, b.OK, b.AUTH_ERROR, b.AUTH_ERROR],
            "what is pipelined behind a failed attempt is not executed")


@tap.case
def announced_is_not_reserved():
    held = [connect() for _ in range(800)]
    for c in held:
        c.ask(VERSION)
    before = resident()
    for c in held:
        c.send(b.request("sasl_auth", b"PLAIN", nbody=65000) + b"x" * 10)
    for c in held:
        c.send(b"y")
    tap.is_(alone(auth.LOGIN)[0], [(b.OK, b"Authenticated")],
            "800 clients that announce 64 KB and send ten bytes do not keep others out")
    grown = resident() - before
    tap.ok(grown < 16, "nor take memory: %d MB, not 50" % grown)
    for c in held:
        c.stream.close()


@tap.case
def clients_that_go_away():
    for cut in (1, 23, 24, 26, 29, 33, len(auth.LOGIN) - 1):
        c = connect()
        c.send(auth.LOGIN[:cut])
        c.stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.stream.close()
    for mechanism in (b"CRAM-MD5", b"SCRAM-SHA-256", b"PLAIN"):
        c = connect()
        c.send(auth.auth(mechanism, b"n,,n=user,r=abc" if mechanism[:1] == b"S" else b""))
        c.stream.close()
    tap.is_(alone(auth.LOGIN)[0], [(b.OK, b"Authenticated")],
            "clients that vanish in the middle of it do no harm")


@tap.case
def many_at_once():
    wrong = []

    def session(number):
        for turn in range(12):
            c = connect()
            way = (number + turn) % 4
            if way == 0:
                good = c.ask(auth.LOGIN).status == b.OK
            elif way == 1:
                good = auth.cram_md5(c).status == b.OK
            elif way == 2:
                good = auth.scram(c)[-1].status == b.OK
            else:
                good = c.ask(auth.WRONG).status == b.AUTH_ERROR and \
                    c.ask(auth.LOGIN).status == b.OK
            if not good or c.ask(NOOP).status != b.OK:
                wrong.append((number, turn, way))
            c.stream.close()

    threads = [threading.Thread(target=session, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tap.is_(wrong, [], "12 clients at once, by all mechanisms, on 4 threads")


@tap.case
def statistics():
    c = auth.logged_in(memcached)

    def counts():
        stats = dict(c.stats())
        return int(stats["auth_cmds"]), int(stats["auth_errors"])

    def counted(data):
        before = counts()
        alone(data)
        return tuple(x - y for x, y in zip(counts(), before))

    for name, data, want in (
            ("a success", auth.LOGIN, (1, 0)), ("a failure", auth.WRONG, (1, 1)),
            ("no such mechanism", auth.auth(b"NONE", b"x"), (1, 1)),
            ("a step out of place", auth.step(b"PLAIN", b"x"), (1, 1)),
            ("what is begun", auth.auth(b"CRAM-MD5"), (0, 0)),
            ("begun and failed", auth.auth(b"CRAM-MD5") + auth.step(b"CRAM-MD5", b"x"), (1, 1)),
            ("a list", b.request("sasl_list"), (0, 0)), ("a refused command", GET, (0, 0)),
            ("a mechanism that is too long", auth.auth(b"M" * 33, b"x"), (0, 0))):
        tap.is_(counted(data), want, "auth_cmds and auth_errors: %s" % name)
    settings = dict(c.stats(b"settings"))
    tap.is_([settings[k] for k in ("auth_enabled_sasl", "auth_enabled_ascii", "binding_protocol")],
            ["yes", "no", "binary"], "stats settings")
    c.all(b.request("stat", b"reset"))
    tap.is_(counts(), (0, 0), "stats reset sets them to 0")


@tap.case
def nothing_over_udp():
    with auth.start(threads=1) as both:
        inside = auth.logged_in(both)
        inside.ask(b.store("set", b"k", b"kept"))
        udp = both.udp(seconds=1)
        for data in (GET, b.store("set", b"k", b"lost"), VERSION, NOOP, b.request("sasl_list"),
                     auth.LOGIN, auth.LOGIN + GET, b"get k\r\n", b"set k 0 0 4\r\nlost\r\n",
                     b"version\r\n", b"flush_all\r\n", b"mg k v\r\n", b"stats\r\n", b"\r\n",
                     b"quit\r\n", b"x" * 5000):
            udp.send(data)
        # One thread takes the datagrams and the connection's requests in turn.
        for _ in range(3):
            inside.ask(NOOP)
        try:
            answer = udp.recv_raw()
        except TimeoutError:
            answer = None
        tap.is_(answer, None, "with -U no datagram is answered, text or binary")
        tap.is_(inside.ask(GET).value, b"kept", "nor executed")
        tap.is_(dict(inside.stats())["auth_cmds"], "1", "nor is anybody let in so")


@tap.case
def options():
    for arguments, text in (
            (("-S", "-B", "ascii"), "ERROR: You cannot allow the ASCII protocol while using SASL."),
            (("-B", "auto", "-S"), "ERROR: You cannot allow the ASCII protocol while using SASL."),
            (("-S", "-Y", "/dev/null"), "ERROR: You cannot allow the BINARY protocol while using "
                                        "ascii authentication tokens."),
            (("-S", "-U", "1", "-X", "bmc=lo"), "-X bmc= answers whoever asks: it cannot go with "
                                                "authentication (-S, -Y)"),
            (("-S", "-U", "1", "-X", "bmc=lo,optional"), "-X bmc= answers whoever asks: it cannot "
                                                         "go with authentication (-S, -Y)")):
        tap.is_(server.run(*arguments), (64, "", text + "\n"), " ".join(arguments) + " is refused")
    path = os.path.join(server.scratch(), "socket")
    with auth.start(unix=path) as one:
        tap.is_((alone(GET, one), alone(auth.LOGIN + SET, one)[0]),
                (([(b.AUTH_ERROR, REFUSED)], True), [(b.OK, b"Authenticated"), (b.OK, b"")]),
                "a unix socket wants to know too")
    with auth.start("-B", "binary", udp=False) as one:
        tap.is_(alone(auth.LOGIN, one)[0], [(b.OK, b"Authenticated")], "-S -B binary starts")


@tap.case
def configurations():
    folder = auth.configuration("plain")
    with auth.start(conf=os.path.join(folder, "memcached.conf")) as one:
        tap.is_(alone(b.request("sasl_list") + auth.LOGIN, one)[0],
                [(b.OK, b"PLAIN"), (b.OK, b"Authenticated")],
                "SASL_CONF_PATH may name the file itself")
    with auth.start(conf="/nonexistent:" + folder) as one:
        tap.is_(alone(b.request("sasl_list"), one)[0], [(b.OK, b"PLAIN")], "or several directories")
    folder = auth.configuration("plain", name="cache.conf")
    with auth.start(conf=os.path.join(folder, "cache.conf")) as one:
        tap.is_(alone(b.request("sasl_list"), one)[0], [(b.OK, b"PLAIN")],
                "or a file of another name")
    with auth.start(conf=auth.configuration("plain anonymous")) as one:
        tap.is_(alone(b.request("sasl_list") + auth.auth(b"ANONYMOUS", b"joe") + GET, one),
                ([(b.OK, b"PLAIN"), (b.AUTH_ERROR, REFUSED), (b.AUTH_ERROR, REFUSED)], True),
                "ANONYMOUS lets nobody in, whatever the configuration says")
    with auth.start(conf=auth.configuration("nonsense")) as one:
        tap.is_(alone(b.request("sasl_list") + auth.LOGIN, one)[0],
                [(b.OK, b""), (b.AUTH_ERROR, REFUSED)], "a mech_list without a mechanism: nobody")
        tap.like(one.log(), "^SASL has no mechanism to offer: no client can authenticate",
                 "which is said at start")
    with server.Server("-S", env={"SASL_CONF_PATH": server.scratch()}, binary=True) as one:
        names = alone(b.request("sasl_list"), one)[0][0][1].split(b" ")
        tap.ok(b"PLAIN" in names and b"ANONYMOUS" not in names,
               "without a configuration all mechanisms but ANONYMOUS are offered")


@tap.case
def the_password_file():
    folder = server.scratch()
    path = auth.write(os.path.join(folder, "pwdb"), b"other:x\nuser:pass word\nlong:p:q")
    conf = auth.configuration("plain")
    env = {"MEMCACHED_SASL_PWDB": path}
    os.unlink(os.path.join(conf, "sasldb"))

    def way_in(one, user, password):
        return alone(auth.auth(b"PLAIN", auth.plain(user, password)), one)[0][0][0] == b.OK

    with auth.start("-v", conf=conf, env=env) as one:
        tap.is_([way_in(one, *pair) for pair in (
            (b"user", b"pass word"), (b"other", b"x"), (b"long", b"p:q"),
            (b"user@" + auth.REALM.encode(), b"pass word"))], [True] * 4,
            "who stands in the file is let in, with the last line not ended; a colon in a password")
        tap.is_([way_in(one, *pair) for pair in (
            (b"user", b"pass"), (b"user", b"pass wordx"), (b"use", b"pass word"), (b"user", b"x"),
            (b"other", b"pass word"), (b"long", b"p"), (b"long:p", b"q"), (b"user", b""),
            (b"user@elsewhere", b"pass word"), (b"none", b"x"))], [False] * 10, "nobody else is")
        auth.write(path, b"new:one\n")
        tap.is_((way_in(one, b"new", b"one"), way_in(one, b"user", b"pass word")), (True, False),
                "a change of the file is seen at once")
        auth.write(path, b"user@%s:with realm\r\nbad line\n\n%s\nu:%s\nlast:line\n" %
                   (auth.REALM.encode(), b"x" * 100000, b"y" * 300))
        tap.is_([way_in(one, *pair) for pair in (
            (b"user", b"with realm"), (b"last", b"line"), (b"bad line", b""), (b"u", b"y" * 300),
            (b"u", b"y" * 253))], [True, True, False, False, False],
            "a user with the realm; lines that are none or too long are passed over")
        for name, change in (
                ("gone", lambda: os.unlink(path)), ("a directory", lambda: os.mkdir(path)),
                ("a pipe", lambda: (os.rmdir(path), os.mkfifo(path))),
                ("empty", lambda: auth.write(path, b"")),
                ("larger than 1 MB", lambda: auth.write(path, b"user:pass word\n" * 100000)),
                ("not readable", lambda: os.chmod(auth.write(path, b"a:b\n"), 0))):
            change()
            refused = not any(way_in(one, *pair) for pair in (
                (b"user", b"pass word"), (b"user", b"pass word"), (b"", b"")))
            if name == "not readable" and os.geteuid() != 0:
                refused = not way_in(one, b"a", b"b")
            tap.ok(refused, "a file that is %s lets nobody in" % name)
        auth.write(path, b"user:again\n")
        tap.ok(way_in(one, b"user", b"again"), "and when it is back, it does")
        nlines = one.log().count("cannot read " + path)
        tap.is_(nlines, 2, "that it cannot be read is said, once until it can be")
        tap.ok("pass word" not in one.log() and "again" not in one.log(),
               "the log shows no password")


@tap.case
def the_log():
    with auth.start("-vv") as one:
        alone(auth.WRONG + auth.auth(b"\x1b[31m\n\xff", b"x"), one)
        alone(auth.LOGIN, one)
        log = one.log()
        tap.like(log, r"^SASL \(severity \d\): ", "what libsasl2 has to say is logged")
        tap.ok("\x1b" not in log and "pass word" not in log and "wrong" not in log,
               "without passwords and without a client's control characters")


@tap.case
def with_fewer_system_calls():
    if "drop_privileges" not in server.run("-h", user=False)[1]:
        tap.ok(True, "this build has no -o drop_privileges")
        return
    path = auth.write(os.path.join(server.scratch(), "pwdb"), b"file:one\n")
    with auth.start("-o", "drop_privileges", env={"MEMCACHED_SASL_PWDB": path}) as one:
        ways = [b.Binary(one.stream()) for _ in range(4)]
        tap.is_([ways[0].ask(auth.LOGIN).status, auth.cram_md5(ways[1]).status,
                 auth.scram(ways[2])[-1].status,
                 ways[3].ask(auth.auth(b"PLAIN", auth.plain(b"file", b"one"))).status], [b.OK] * 4,
                "-o drop_privileges: every way in is open")
        tap.is_(alone(auth.WRONG, one)[0], [(b.AUTH_ERROR, REFUSED)], "and shut to the others")


@tap.case
def no_worker_asks_the_resolver():
    """libsasl2 would look for the host's full name for each client, and wait for the answer."""
    if "drop_privileges" not in server.run("-h", user=False)[1]:
        tap.ok(True, "this build has no -o drop_privileges")
        return
    if os.geteuid() != 0:
        tap.ok(not os.environ.get("CI"), "root is needed to hide the host's name from the server")
        return
    folder = server.scratch()
    hosts = auth.write(os.path.join(folder, "hosts"), "127.0.0.1 localhost\n")
    resolver = auth.write(os.path.join(folder, "resolv.conf"), "nameserver 127.0.0.1\n")
    script = ('mount --bind %s /etc/hosts && mount --bind %s "$(realpath /etc/resolv.conf)" '
              '&& exec "$@"' % (hosts, resolver))
    # With its name nowhere to be found, a question to the resolver would end the server: SIGSYS.
    with auth.start("-o", "drop_privileges", prefix=("unshare", "-m", "sh", "-c", script, "sh")) \
            as one:
        c = b.Binary(one.stream())
        tap.is_([c.ask(auth.LOGIN).status, auth.cram_md5(c).status], [b.OK, b.OK],
                "no socket is opened to log somebody in")


@tap.case
def through_tls():
    if "enable-ssl" not in server.run("-h", user=False)[1]:
        tap.ok(True, "this build has no TLS")
        return
    words, context = tls.everywhere()
    with auth.start(*words, context=context) as one:
        tap.is_(alone(auth.WRONG + auth.LOGIN + SET + GET, one)[0],
                [(b.AUTH_ERROR, REFUSED), (b.OK, b"Authenticated"), (b.OK, b""), (b.OK, b"value")],
                "-Z with -S: who comes through TLS has to authenticate too")
        tap.is_(alone(GET, one), ([(b.AUTH_ERROR, REFUSED)], True), "and is refused without")


SAME = (
    ("list", b.request("sasl_list")), ("noop", NOOP), ("quit", b.request("quit")),
    ("get", GET), ("set", SET), ("unknown", b.request(0x55, b"", b"abc")),
    ("in", auth.LOGIN + SET + b.request("get", b"none")), ("out", auth.WRONG + GET),
    ("out, in", auth.WRONG + auth.LOGIN + SET), ("in, out", auth.LOGIN + auth.WRONG + GET),
    ("unknown mechanism", auth.auth(b"FOO", b"x")), ("empty", auth.auth(b"PLAIN")),
    ("mechanism of 0", auth.auth(b"", b"x")), ("of 32", auth.auth(b"M" * 32, b"x")),
    ("of 33", auth.auth(b"M" * 33, b"x")), ("of 250", auth.auth(b"M" * 250, b"x")),
    ("of 251", auth.auth(b"M" * 251, b"x")), ("small letters", auth.auth(b"plain", auth.plain())),
    ("extras", auth.auth(b"PLAIN", auth.plain(), extras=b"1234")),
    ("list with a key", b.request("sasl_list", b"k")),
    ("list with a value", b.request("sasl_list", b"", b"v")),
    ("step", auth.step(b"PLAIN", auth.plain())), ("step of nothing", auth.step(b"PLAIN")),
    ("CRAM-MD5", auth.auth(b"CRAM-MD5") + auth.step(b"CRAM-MD5", b"user 00") + GET),
    ("one exchange, then another", auth.auth(b"CRAM-MD5") + auth.LOGIN + NOOP),
    ("realm", auth.auth(b"PLAIN", auth.plain(user=auth.USER + b"@" + auth.REALM.encode()))),
    ("authorization", auth.auth(b"PLAIN", auth.plain(authorize=b"other"))),
    ("no zero byte", auth.auth(b"PLAIN", b"userpass")),
    ("a long password", auth.auth(b"PLAIN", auth.plain(password=b"p" * 60000))),
)


@tap.case
def as_debian():
    if "T_TLS" in os.environ:
        tap.ok(True, "in clear: TLS is another test's")
        return
    if not os.access(differential.PEER, os.X_OK):
        tap.ok(not os.environ.get("CI"), "there is a memcached to compare with")
        return
    with differential.as_peer(auth.start, udp=False) as peer:
        def answers(data, to):
            found, closed = alone(data, to)
            return [(s, b"<" if v[:1] == b"<" else v) for s, v in found], closed

        for name, data in SAME:
            tap.is_(answers(data, memcached), answers(data, peer),
                    "the same as Debian's memcached: " + name)


tap.run()
