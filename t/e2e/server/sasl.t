#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SASL (-S): which clients are authenticated, by which mechanisms, and that all others are
refused."""
import os
import socket
import struct
import threading

import auth
import binary as b
import differential
import server
import tap
import tls

if "sasl" not in server.run("-h", user=False)[1].lower():
    tap.is_(server.run("-S", "-p", "0")[::2],
            (64, "This server is not built with SASL support.\n"),
            "a build without SASL refuses the option")
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
    """(status, value) of every reply, and whether the server closed the connection."""
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


@tap.case
def a_login():
    c = connect()
    mechanisms = c.ask(b.request("sasl_list", opaque=7))
    tap.is_((mechanisms.status, mechanisms.opaque, sorted(mechanisms.value.split(b" "))),
            (b.OK, 7, sorted(auth.MECHANISMS.upper().encode().split(b" "))),
            "the mechanisms are those of the configuration that SASL_CONF_PATH names")
    tap.is_(c.ask(VERSION).status, b.OK, "version is answered before authentication")
    tap.is_(c.ask(auth.auth(b"PLAIN", auth.plain(), opaque=9)), auth.IN._replace(opaque=9),
            "the right password is accepted")
    tap.is_([r.status for r in c.all(SET + GET)], [b.OK, b.OK], "after it commands are executed")
    tap.is_(c.ask(b.request("sasl_list")).value, mechanisms.value,
            "after it the list of mechanisms is the same")


@tap.case
def nothing_before_the_login():
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
    tap.is_(alone(b"get k\r\n"), ([], True), "a text client gets no answer")
    tap.is_(alone(b"\x81" + NOOP[1:]), ([], True), "a wrong magic byte gets no answer")


@tap.case
def logins_that_fail():
    for name, data in (
            ("a wrong password", auth.plain(password=b"wrong")),
            ("no password", auth.plain(password=b"")),
            ("a truncated password", auth.plain(password=auth.PASSWORD[:-1])),
            ("a password with bytes behind it", auth.plain(password=auth.PASSWORD + b"x")),
            ("another user", auth.plain(user=b"other")),
            ("no user", auth.plain(user=b"")),
            ("a user who asks for another identity", auth.plain(authorize=b"other")),
            ("another realm", auth.plain(user=auth.USER + b"@example.com")),
            ("no zero bytes", b"user pass word"),
            ("a surplus zero byte", auth.plain() + b"\0more"),
            ("only zero bytes", b"\0\0"),
            ("60 KB of password", auth.plain(password=b"p" * 60000)),
            ("bytes that are not UTF-8", auth.plain(user=b"\xff\xfe", password=b"\xc0\x80"))):
        tap.is_(alone(auth.auth(b"PLAIN", data)), ([(b.AUTH_ERROR, REFUSED)], False),
                "%s: refused, and the connection stays open" % name)
        tap.is_(alone(auth.auth(b"PLAIN", data) + GET), ([(b.AUTH_ERROR, REFUSED)] * 2, True),
                "%s: the next command is refused" % name)
    tap.is_(alone(auth.auth(b"PLAIN", auth.plain(user=auth.USER + b"@" + auth.REALM.encode()))),
            ([(b.OK, b"Authenticated")], False), "a user may name the realm, which is the host")
    tap.is_(alone(auth.auth(b"PLAIN", auth.plain(authorize=auth.USER))),
            ([(b.OK, b"Authenticated")], False), "a user may ask for its own identity")


@tap.case
def second_attempts():
    """CVE-2013-7239: an attempt with wrong credentials leaves the connection unauthenticated."""
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
                "%s: %s" % (name, "authenticated" if inside else "not authenticated"))


@tap.case
def several_steps():
    c = connect()
    tap.is_(auth.cram_md5(c)[1:7:5], (b.OK, b"Authenticated"), "CRAM-MD5: one step")
    tap.is_(c.ask(GET).status, b.OK, "after it commands are executed")
    c = connect()
    tap.is_(auth.cram_md5(c, password=b"wrong").status, b.AUTH_ERROR,
            "CRAM-MD5 with a wrong password is refused")
    tap.is_(auth.cram_md5(c).status, b.OK, "the next attempt on that connection succeeds")
    for mechanism in (b"SCRAM-SHA-1", b"SCRAM-SHA-256"):
        c = connect()
        tap.is_([r.status for r in auth.scram(c, mechanism)], [CONTINUE, CONTINUE, b.OK],
                "%s: two steps, and the server authenticates itself" % mechanism.decode())
        tap.is_(c.ask(GET).status, b.OK, "after it commands are executed")
        tap.is_(auth.scram(connect(), mechanism, password=b"wrong")[-1].status, b.AUTH_ERROR,
                "SCRAM with a wrong password is refused")
    c = connect()
    tap.is_(c.ask(auth.auth(b"PLAIN"))[1:7:5], (CONTINUE, b""),
            "PLAIN without a first message is answered with CONTINUE")
    tap.is_(c.ask(auth.step(b"PLAIN", auth.plain())).status, b.OK,
            "the step with the message succeeds")


@tap.case
def misplaced_steps():
    for name, data, want in (
            ("without a beginning", [auth.step(b"PLAIN", auth.plain())], [b.AUTH_ERROR]),
            ("of an unknown mechanism", [auth.step(b"NONE", b"x")], [b.AUTH_ERROR]),
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
            [b.OK, b.OK],
            "an exchange may be replaced by another; version between them does not matter")


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
            "the case of a mechanism's name does not matter")


@tap.case
def in_pieces():
    c = connect()
    for byte in auth.LOGIN:
        c.send(bytes([byte]))
    tap.is_(c.reply(), auth.IN, "credentials that arrive byte by byte are accepted")
    tap.is_([s for s, _ in alone(auth.WRONG + auth.LOGIN + SET + GET + auth.WRONG)[0]],
            [b.AUTH_ERROR, b.OK, b.OK, b.OK, b.AUTH_ERROR],
            "pipelined requests are answered in order")
    tap.is_([s for s, _ in alone(auth.LOGIN + SET + GET + auth.WRONG + SET + GET)[0]],
            [b.OK, b.OK, b.OK, b.AUTH_ERROR, b.AUTH_ERROR],
            "requests behind a failed attempt are not executed")


@tap.case
def memory_is_not_reserved_for_announced_bytes():
    held = [connect() for _ in range(800)]
    for c in held:
        c.ask(VERSION)
    before = memcached.resident()
    for c in held:
        c.send(b.request("sasl_auth", b"PLAIN", nbody=65000) + b"x" * 10)
    for c in held:
        c.send(b"y")
    tap.is_(alone(auth.LOGIN)[0], [(b.OK, b"Authenticated")],
            "800 clients that announce 64 KB and send ten bytes do not keep others from logging in")
    grown = memcached.resident() - before
    tap.ok(grown < 16, "they take little memory: %d MB, not 50" % grown)
    for c in held:
        c.stream.close()


@tap.case
def clients_that_disconnect():
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
            "clients that disconnect within a login do no harm")


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
            ("a misplaced step", auth.step(b"PLAIN", b"x"), (1, 1)),
            ("a login that is begun", auth.auth(b"CRAM-MD5"), (0, 0)),
            ("a login that is begun and fails",
             auth.auth(b"CRAM-MD5") + auth.step(b"CRAM-MD5", b"x"), (1, 1)),
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
        # One thread executes the datagrams and the connection's requests in turn.
        for _ in range(3):
            inside.ask(NOOP)
        try:
            answer = udp.recv_raw()
        except TimeoutError:
            answer = None
        tap.is_(answer, None, "with -U no datagram is answered, text or binary")
        tap.is_(inside.ask(GET).value, b"kept", "none is executed")
        tap.is_(dict(inside.stats())["auth_cmds"], "1", "a login over UDP is ignored")


@tap.case
def options():
    for arguments, text in (
            (("-S", "-B", "ascii"), "ERROR: You cannot allow the ASCII protocol while using SASL."),
            (("-B", "auto", "-S"), "ERROR: You cannot allow the ASCII protocol while using SASL."),
            (("-S", "-Y", "/dev/null"), "ERROR: You cannot allow the BINARY protocol while using "
                                        "ascii authentication tokens."),
            (("-S", "-U", "1", "-X", "bmc=lo"), auth.NOT_BY_UDP),
            (("-S", "-U", "1", "-X", "bmc=lo,optional"), auth.NOT_BY_UDP)):
        tap.is_(server.run(*arguments), (64, "", text + "\n"), " ".join(arguments) + " is refused")
    path = os.path.join(server.scratch(), "socket")
    with auth.start(unix=path) as one:
        tap.is_((alone(GET, one), alone(auth.LOGIN + SET, one)[0]),
                (([(b.AUTH_ERROR, REFUSED)], True), [(b.OK, b"Authenticated"), (b.OK, b"")]),
                "a unix socket requires authentication, too")
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
        tap.is_(alone(b.request("sasl_list"), one)[0], [(b.OK, b"PLAIN")],
                "SASL_CONF_PATH may name several directories")
    folder = auth.configuration("plain", name="cache.conf")
    with auth.start(conf=os.path.join(folder, "cache.conf")) as one:
        tap.is_(alone(b.request("sasl_list"), one)[0], [(b.OK, b"PLAIN")],
                "SASL_CONF_PATH may name a file of another name")
    with auth.start(conf=auth.configuration("plain anonymous")) as one:
        tap.is_(alone(b.request("sasl_list") + auth.auth(b"ANONYMOUS", b"joe") + GET, one),
                ([(b.OK, b"PLAIN"), (b.AUTH_ERROR, REFUSED), (b.AUTH_ERROR, REFUSED)], True),
                "ANONYMOUS is refused, whatever the configuration says")
    with auth.start(conf=auth.configuration("nonsense")) as one:
        tap.is_(alone(b.request("sasl_list") + auth.LOGIN, one)[0],
                [(b.OK, b""), (b.AUTH_ERROR, REFUSED)],
                "with a mech_list without a known mechanism nobody may log in")
        tap.like(one.log(), "^SASL has no mechanism to offer: no client can authenticate",
                 "it is logged at the start")
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

    def logs_in(one, user, password):
        return alone(auth.auth(b"PLAIN", auth.plain(user, password)), one)[0][0][0] == b.OK

    with auth.start("-v", conf=conf, env=env) as one:
        tap.is_([logs_in(one, *pair) for pair in (
            (b"user", b"pass word"), (b"other", b"x"), (b"long", b"p:q"),
            (b"user@" + auth.REALM.encode(), b"pass word"))], [True] * 4,
            "users of the file may log in: with the last line not ended, with a colon in the "
            "password")
        tap.is_([logs_in(one, *pair) for pair in (
            (b"user", b"pass"), (b"user", b"pass wordx"), (b"use", b"pass word"), (b"user", b"x"),
            (b"other", b"pass word"), (b"long", b"p"), (b"long:p", b"q"), (b"user", b""),
            (b"user@elsewhere", b"pass word"), (b"none", b"x"))], [False] * 10,
            "others may not log in")
        auth.write(path, b"new:one\n")
        tap.is_((logs_in(one, b"new", b"one"), logs_in(one, b"user", b"pass word")), (True, False),
                "a change of the file has effect at once")
        auth.write(path, b"user@%s:with realm\r\nbad line\n\n%s\nu:%s\nlast:line\n" %
                   (auth.REALM.encode(), b"x" * 100000, b"y" * 300))
        tap.is_([logs_in(one, *pair) for pair in (
            (b"user", b"with realm"), (b"last", b"line"), (b"bad line", b""), (b"u", b"y" * 300),
            (b"u", b"y" * 253))], [True, True, False, False, False],
            "a user with the realm is accepted; malformed and too long lines are skipped")
        for name, change in (
                ("gone", lambda: os.unlink(path)), ("a directory", lambda: os.mkdir(path)),
                ("a pipe", lambda: (os.rmdir(path), os.mkfifo(path))),
                ("empty", lambda: auth.write(path, b"")),
                ("larger than 1 MB", lambda: auth.write(path, b"user:pass word\n" * 100000)),
                ("not readable", lambda: os.chmod(auth.write(path, b"a:b\n"), 0))):
            change()
            refused = not any(logs_in(one, *pair) for pair in (
                (b"user", b"pass word"), (b"user", b"pass word"), (b"", b"")))
            if name == "not readable" and os.geteuid() != 0:
                refused = not logs_in(one, b"a", b"b")
            tap.ok(refused, "with a file that is %s nobody may log in" % name)
        auth.write(path, b"user:again\n")
        tap.ok(logs_in(one, b"user", b"again"), "when it is readable again its user may log in")
        nlines = one.log().count("cannot read " + path)
        tap.is_(nlines, 2, "a file that cannot be read is logged, once until it can be")
        tap.ok("pass word" not in one.log() and "again" not in one.log(),
               "the log has no password")


@tap.case
def the_log():
    with auth.start("-vv") as one:
        alone(auth.WRONG + auth.auth(b"\x1b[31m\n\xff", b"x"), one)
        alone(auth.LOGIN, one)
        log = one.log()
        tap.like(log, r"^SASL \(severity \d\): ", "libsasl2's messages are logged")
        tap.ok("\x1b" not in log and "pass word" not in log and "wrong" not in log,
               "they have no passwords and no control characters of a client")


@tap.case
def under_the_filter_of_system_calls():
    if "drop_privileges" not in server.run("-h", user=False)[1]:
        tap.ok(True, "this build has no -o drop_privileges")
        return
    path = auth.write(os.path.join(server.scratch(), "pwdb"), b"file:one\n")
    with auth.start("-o", "drop_privileges", env={"MEMCACHED_SASL_PWDB": path}) as one:
        ways = [b.Binary(one.stream()) for _ in range(4)]
        tap.is_([ways[0].ask(auth.LOGIN).status, auth.cram_md5(ways[1]).status,
                 auth.scram(ways[2])[-1].status,
                 ways[3].ask(auth.auth(b"PLAIN", auth.plain(b"file", b"one"))).status], [b.OK] * 4,
                "-o drop_privileges: a login by each mechanism succeeds")
        tap.is_(alone(auth.WRONG, one)[0], [(b.AUTH_ERROR, REFUSED)],
                "-o drop_privileges: a wrong password is refused")


@tap.case
def no_worker_asks_the_resolver():
    """libsasl2 would look up the host's full name for each client, and wait for the answer."""
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
    # As its name cannot be found locally, a request to the resolver would end the server by SIGSYS.
    with auth.start("-o", "drop_privileges", prefix=("unshare", "-m", "sh", "-c", script, "sh")) \
            as one:
        c = b.Binary(one.stream())
        tap.is_([c.ask(auth.LOGIN).status, auth.cram_md5(c).status], [b.OK, b.OK],
                "a login opens no socket")


@tap.case
def over_tls():
    if "enable-ssl" not in server.run("-h", user=False)[1]:
        tap.ok(True, "this build has no TLS")
        return
    words, context = tls.everywhere()
    with auth.start(*words, context=context) as one:
        tap.is_(alone(auth.WRONG + auth.LOGIN + SET + GET, one)[0],
                [(b.AUTH_ERROR, REFUSED), (b.OK, b"Authenticated"), (b.OK, b""), (b.OK, b"value")],
                "-Z with -S: a login over TLS succeeds")
        tap.is_(alone(GET, one), ([(b.AUTH_ERROR, REFUSED)], True),
                "-Z with -S: without a login commands are refused")


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
def as_debian_answers():
    if "T_TLS" in os.environ:
        tap.ok(True, "without TLS only")
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
