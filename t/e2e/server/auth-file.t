#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Authentication in the text protocol (-Y): the file, its reload, and connections that are not
authenticated."""
import os
import signal
import socket
import struct
import threading

import auth
import binary as b
import differential
import server
import tap
import tls
from daemon import Daemon

UNKNOWN = b"CLIENT_ERROR unauthenticated\r\n"
FAILURE = b"CLIENT_ERROR authentication failure\r\n"
FORMAT = b"CLIENT_ERROR bad authentication token format\r\n"
TERMINATION = b"CLIENT_ERROR bad command line termination\r\n"
STORED = b"STORED\r\n"

folder = server.scratch()
users = auth.write(os.path.join(folder, "users"), b"user:pass\nother:a:b\n")


def start(*arguments, path=users, **options):
    return server.Server("-Y", path, *arguments, udp=False, **options)


memcached = start("-m", "64", threads=4)


def token(body, tail=b""):
    return b"set auth 0 0 %d%s\r\n%s\r\n" % (len(body), tail, body)


def log_in(body=b"user pass", to=None):
    """The answer to a login, and the connection."""
    c = (to or memcached).stream()
    return c.ask(token(body)), c


def is_in(body, to=None):
    answer, c = log_in(body, to)
    c.close()
    return answer == STORED


def until_in(body, to):
    """Waits until the file with this entry is read."""
    return server.wait_for(lambda: is_in(body, to))


def drop(stream):
    """Closes by a reset."""
    stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


@tap.case
def a_login():
    answer, c = log_in()
    tap.is_(answer, STORED, "set with `user pass` as the value is answered STORED")
    tap.is_(c.get(b"auth"), None, "the login stores no item")
    tap.is_(c.set(b"k", b"v"), STORED, "after it set stores")
    tap.is_(c.get(b"k"), b"v", "after it get finds")
    tap.is_(c.ask(token(b"user wrong")), STORED,
            "after it a set that looks like a failed login is a set")
    tap.is_(c.get(b"auth"), b"user wrong", "it stores")
    tap.is_(c.all(b"mg k v\r\n"), b"VA 1\r\nv\r\n", "after it meta commands are executed")
    for body in (b"other a:b", b"user  pass", b"user pass ", b" user pass", b"user pass more"):
        tap.is_(log_in(body)[0], STORED, "%r logs in" % body)


@tap.case
def nothing_before_the_login():
    inside = log_in()[1]
    inside.set(b"k", b"kept")
    for line in (b"get k", b"gets k", b"gat 0 k", b"touch k 1", b"delete k", b"incr k 1",
                 b"flush_all", b"stats", b"stats settings", b"version", b"verbosity 0", b"quit",
                 b"shutdown", b"cache_memlimit 8", b"mn", b"mg k v", b"md k", b"me k",
                 b"slabs reassign 1 2", b"lru mode flat", b"lru_crawler metadump all", b"watch",
                 b"misbehave", b"refresh_certs", b"", b" ", b"    ", b" " * 1000, b"\t", b"\0",
                 b"SET k 0 0 4", b"set", b"set k", b"set k 0 0", b"set k 0 0 x", b"set k 0 0 -1",
                 b"set k 0 0 99999999999", b"x " * 400, b"GET / HTTP/1.1", b"k" * 1000):
        c = memcached.stream()
        tap.is_(c.ask(line + b"\r\n"), UNKNOWN, "unauthenticated: %r" % line[:30])
        tap.is_(c.ask(token(b"user pass")), STORED, "a login is still possible")
        c.close()
    for line in (b"add", b"replace", b"append", b"prepend", b"cas", b"ms"):
        c = memcached.stream()
        size = b"9 1" if line == b"cas" else b"9"
        c.send(line + (b" k 9" if line == b"ms" else b" k 0 0 " + size) + b"\r\nuser pass\r\n")
        tap.is_((c.line(), c.line()), (UNKNOWN, UNKNOWN), "%s is not a login" % line.decode())
        c.close()
    tap.is_(inside.get(b"k"), b"kept", "none of these was executed")
    c = memcached.stream()
    c.send(b"\n\r\n\n  \r\nget k\r\n" + token(b"user pass") + b"get k\r\n")
    tap.is_(c.exactly(5 * len(UNKNOWN) + len(STORED)), 5 * UNKNOWN + STORED,
            "each line of a pipeline is answered; empty and blank lines are lines")


@tap.case
def logins_that_fail():
    for body in (b"user wrong", b"user pas", b"user passs", b"use pass", b"userr pass",
                 b"pass user", b"other a", b"other:a b", b"user pass\0", b"\0user pass",
                 b"user \xff\xfe", b"a" * 255 + b" b", b"a " + b"b" * 4000, b"user:pass x",
                 b"USER PASS"):
        tap.is_(log_in(body)[0], FAILURE, "failure: %r" % body[:20])
    for body in (b"", b" ", b"user", b"user ", b" pass", b"user:pass", b"user\tpass", b"x" * 4096,
                 b" " * 4096, b"\r\n"):
        tap.is_(log_in(body)[0], FORMAT, "no token: %r" % body[:20])
    c = memcached.stream()
    for body, want in ((b"user wrong", FAILURE), (b"user", FORMAT), (b"user wrong", FAILURE)):
        tap.is_(c.ask(token(body)), want, "a failed login leaves the connection open")
        tap.is_(c.ask(b"get k\r\n"), UNKNOWN, "it stays unauthenticated")
    tap.is_(c.ask(token(b"user pass")), STORED, "a later login succeeds")
    c = memcached.stream()
    c.send(b"set auth 0 0 9\r\nuser passXXget k\r\n")
    tap.is_((c.line(), c.line()), (TERMINATION, UNKNOWN), "a token must end with a line end")
    c.send(b"set auth 0 0 9\nuser pass\r\n")
    tap.is_(c.line(), STORED, "the command line may end with a bare newline")


@tap.case
def forms_of_the_command():
    for line in (b"set k 0 0 9 noreply", b" set  k  0  0  9 ", b"set k flags time 9",
                 b"set k 0 0 9 what ever", b"set " + b"k" * 251 + b" 0 0 9", b"set k -1 -1 9"):
        c = memcached.stream()
        tap.is_(c.ask(line + b"\r\nuser pass\r\n"), STORED,
                "only the length matters: %r" % line[:30])
        c.close()
    c = memcached.stream()
    for byte in token(b"user pass"):
        c.send(bytes([byte]))
    tap.is_(c.line(), STORED, "a token that arrives byte by byte is accepted")


@tap.case
def no_other_protocol():
    """Attempts to authenticate by another protocol."""
    for name, data in (("noop", b.request("noop")), ("version", b.request("version")),
                       ("get", b.request("get", b"k")), ("SASL", auth.LOGIN),
                       ("set", b.store("set", b"k", b"lost"))):
        c = memcached.stream()
        c.send(data + b"\r\n")
        tap.is_(c.line(), UNKNOWN, "a binary %s is parsed as a line of text" % name)
        c.close()
    c = log_in()[1]
    c.send(b.request("noop") + b"\r\n")
    tap.is_(c.line(), b"ERROR\r\n", "it is a line of text after the login, too")


@tap.case
def no_listener_of_another_protocol():
    for word in "proto[negotiating]", "proto[binary]":
        status, _, error = server.run("-Y", users, "-l", "%s:127.0.0.1:%d" %
                                      (word, server.free_port()))
        tap.is_(status, 71, "a listener with %s is refused" % word)
        tap.like(error, r"^With authentication every listener .*proto\[ascii\] with -Y.*\n$",
                 "one line says what to do")
    port = server.free_port()
    with server.Server("-Y", users, "-u", server.USER, "-l", "proto[ascii]:127.0.0.1:%d" % port,
                       plain=True, port=port) as other:
        tap.is_(other.stream().ask(b"get k\r\n"), UNKNOWN, "one with proto[ascii] asks for a login")
        tap.ok(is_in(b"user pass", other), "and takes it")


@tap.case
def endless_input():
    """Before authentication a client gets only little memory."""
    for name, data in (("of one word", b"x" * 1100), ("of blanks", b" " * 1100),
                       ("of get", b"get " + b"k" * 1100),
                       ("of get and keys", b"get " + b"k " * 600),
                       ("of gets", b"gets " + b"k" * 1100), ("of set", b"set " + b"k" * 1100),
                       ("of bytes of all kinds", bytes(range(128, 256)) * 9)):
        c = memcached.stream()
        tap.is_(c.to_end(data), b"", "a line %s without an end closes the connection" % name)
        c.close()
    for length in (4097, 65536, 1 << 20, (1 << 31) - 3):
        c = memcached.stream()
        tap.is_(c.to_end(b"set auth 0 0 %d\r\n" % length), FORMAT,
                "a token of %d bytes is refused before it is sent" % length)
        c.close()
    held = [memcached.stream() for _ in range(900)]
    for c in held:
        c.ask(b"get first\r\n")
    before = memcached.resident()
    for c in held:
        c.send(b"set auth 0 0 4096\r\nuser")
    tap.ok(is_in(b"user pass"), "900 clients with half a token do not keep others from logging in")
    grown = memcached.resident() - before
    tap.ok(grown < 12, "900 clients with half a token take little memory: %d MB" % grown)
    for c in held:
        drop(c)


@tap.case
def clients_that_disconnect():
    whole = token(b"user pass")
    for cut in range(1, len(whole)):
        c = memcached.stream()
        c.send(whole[:cut])
        drop(c)
    tap.ok(is_in(b"user pass"), "clients that disconnect within a token do no harm")


@tap.case
def statistics():
    with start() as one:
        c = log_in(to=one)[1]

        def counts():
            stats = c.stats()
            return int(stats["auth_cmds"]), int(stats["auth_errors"])

        for name, data, want in (
                ("a success", token(b"user pass"), (1, 0)),
                ("a failure", token(b"user x"), (1, 1)), ("no token", token(b"user"), (0, 0)),
                ("no line end", b"set auth 0 0 9\r\nuser passXX", (0, 0)),
                ("another command", b"get k\r\n", (0, 0))):
            before = counts()
            other = one.stream()
            other.ask(data)
            other.close()
            tap.is_(tuple(x - y for x, y in zip(counts(), before)), want,
                    "auth_cmds and auth_errors: " + name)
        stats = c.stats()
        tap.is_((stats["cmd_set"], stats["curr_items"]), ("0", "0"),
                "a login does not count as a set")
        settings = c.stats("settings")
        tap.is_([settings[k] for k in ("auth_enabled_sasl", "auth_enabled_ascii",
                                       "binding_protocol")], ["no", users, "ascii"],
                "stats settings shows the file")
        c.ask(b"stats reset\r\n")
        tap.is_(counts(), (0, 0), "stats reset sets them to 0")


def read(data, bodies):
    """Which of these logins a server with this file accepts."""
    path = auth.write(os.path.join(folder, "read"), data)
    with start(path=path) as one:
        return [is_in(body, one) for body in bodies]


@tap.case
def accepted_files():
    """CVE-2021-37519: a file without a final newline, and similar ones."""
    tap.is_(read(b"user:pass", (b"user pass", b"user pas", b"user passx")), [True, False, False],
            "a last line without a newline is an entry")
    tap.is_(read(b"a:b\r\nc:d\r\n", (b"a b", b"c d")), [True, True], "lines may end with CRLF")
    tap.is_(read(b"", (b"a b", b"user pass")), [False, False],
            "with an empty file nobody may log in")
    eight = b"".join(b"u%d:p%d\n" % (i, i) for i in range(8))
    tap.is_(read(eight, [b"u%d p%d" % (i, i) for i in range(8)] + [b"u0 p7"]), [True] * 8 + [False],
            "eight users may log in")
    tap.is_(read(eight + b"u8:p8\n", (b"u7 p7", b"u8 p8")), [True, False],
            "of more than eight users the first eight count")
    tap.is_(read(b"u:" + b"p" * 253 + b"\nv:w", (b"u " + b"p" * 253, b"v w", b"u " + b"p" * 252)),
            [True, True, False], "an entry of 255 bytes is accepted")
    tap.is_(read(b"a:1\na:2\n", (b"a 1", b"a 2", b"a 3")), [True, True, False],
            "one user may have two passwords")
    tap.is_(read(b"user:\n:pass\n:\na b:c\nx:y z\n",
                 (b"user ", b" pass", b" ", b":", b"user :", b"x y", b"a b:c")), [False] * 7,
            "no client can log in by entries that no login matches")
    tap.is_(read(b"a:b\0c\nd:e\n", (b"a b", b"a b\0c", b"d e")), [False, True, True],
            "a NUL is part of the password")
    tap.is_(read(bytes(range(128, 256)) + b":\xff\n", (bytes(range(128, 256)) + b" \xff",)), [True],
            "bytes that are not text are accepted")


@tap.case
def refused_files():
    path = os.path.join(folder, "bad")
    malformed = "Authfile [%s] has a malformed entry. Should be 'user:password'\n" % path
    long = "Authfile [%s] has an entry of more than 255 bytes\n" % path
    for name, data, text in (
            ("a line without a colon", b"userpass\n", malformed),
            ("an empty line", b"a:b\n\nc:d\n", malformed), ("only a newline", b"\n", malformed),
            ("a malformed line behind good ones", b"a:b\nuser\n", malformed),
            ("256 bytes in a line", b"u:" + b"p" * 254 + b"\n", long),
            ("60,000 bytes in a line", b"u:" + b"p" * 60000, long),
            ("60,000 bytes and no colon", b"p" * 60000, long)):
        auth.write(path, data)
        tap.is_(server.run("-Y", path, "-p", "0"), (1, "", text), "refused: " + name)
    could_not = "Could not open authfile [%s] for reading, error %s\n"
    os.unlink(path)
    tap.is_(server.run("-Y", path), (1, "", could_not % (path, "No such file or directory")),
            "refused: no file")
    os.mkdir(path)
    tap.is_(server.run("-Y", path), (1, "", could_not % (path, "Not a regular file")),
            "refused: a directory")
    os.rmdir(path)
    os.mkfifo(path)
    tap.is_(server.run("-Y", path), (1, "", could_not % (path, "Not a regular file")),
            "refused: a named pipe, without blocking")
    os.unlink(path)
    tap.is_(server.run("-Y", "/dev/zero"),
            (1, "", could_not % ("/dev/zero", "Not a regular file")), "refused: a device")
    auth.write(path, b"a:b\n" * 20000)
    tap.is_(server.run("-Y", path), (1, "", could_not % (path, "More than 64 kilobytes")),
            "refused: 80 kilobytes")


@tap.case
def options():
    for arguments, text in (
            (("-U", "1"), "Cannot use UDP with ascii authentication enabled (-U 0 to disable)"),
            (("-B", "binary"), "ERROR: You cannot allow the BINARY protocol while using ascii "
                               "authentication tokens."),
            (("-B", "auto"), "ERROR: You cannot allow the BINARY protocol while using ascii "
                             "authentication tokens."),
            (("-U", "1", "-X", "bmc=lo"), auth.NOT_BY_UDP)):
        tap.is_(server.run("-Y", users, *arguments), (64, "", text + "\n"),
                "-Y with %s is refused" % " ".join(arguments))
    with start("-B", "ascii") as one:
        tap.ok(is_in(b"user pass", one), "-B ascii is accepted")
    path = os.path.join(folder, "socket")
    with server.Server("-Y", users, unix=path) as s, s.stream() as c:
        tap.is_((c.ask(b"get k\r\n"), c.ask(token(b"user pass"))), (UNKNOWN, STORED),
                "a unix socket requires authentication, too")
    with Daemon("-Y", "users", cwd=folder) as daemon: # a relative path
        def ask(body):
            return daemon.stream().ask(token(body))

        tap.is_(ask(b"user pass"), STORED, "the daemon knows the users")
        auth.write(users, b"user:pass\nother:a:b\nlater:x\n")
        daemon.signal(signal.SIGHUP)
        tap.ok(server.wait_for(lambda: ask(b"later x") == STORED),
               "the daemon finds the file again at SIGHUP")
    auth.write(users, b"user:pass\nother:a:b\n")


@tap.case
def the_log():
    with start("-vvv") as one:
        is_in(b"user pass", one)
        is_in(b"user wrong-word", one)
        one.signal(signal.SIGHUP)
        is_in(b"user pass", one)
        log = one.log()
        tap.ok("set auth 0 0 9" in log and "pass" not in log and "wrong-word" not in log,
               "-vvv logs the commands and no password")


@tap.case
def sighup():
    path = auth.write(os.path.join(folder, "reload"), b"old:one\n")
    with start(path=path) as one:
        inside = log_in(b"old one", one)[1]
        auth.write(path, b"new:two\n")
        tap.ok(not is_in(b"new two", one), "a changed file is not read without SIGHUP")
        one.signal(signal.SIGHUP)
        tap.ok(until_in(b"new two", one), "SIGHUP reads the new file")
        tap.ok(not is_in(b"old one", one), "the users of the old file may not log in")
        tap.is_(inside.set(b"k", b"v"), STORED, "authenticated connections stay so")
        for name, change, text in (
                ("malformed", lambda: auth.write(path, b"a:b\nnonsense\n"), "malformed entry"),
                ("gone", lambda: os.unlink(path), "No such file"),
                ("a directory", lambda: os.mkdir(path), "Not a regular file"),
                ("a pipe", lambda: (os.rmdir(path), os.mkfifo(path)), "Not a regular file"),
                ("too long in a line", lambda: auth.write(path, b"a:" + b"b" * 300), "255 bytes")):
            change()
            nlines = one.log().count("\n")
            one.signal(signal.SIGHUP)
            server.wait_for(lambda: one.log().count("\n") > nlines)
            tap.like(one.log().splitlines()[-1], text + ".*; the users read before stay in use$",
                     "a file that is %s: the reason is logged in one line" % name)
            tap.ok(is_in(b"new two", one) and not is_in(b"a b", one),
                   "the users read before stay in use")
        auth.write(path, b"last:one")
        one.signal(signal.SIGHUP)
        tap.ok(until_in(b"last one", one), "a good file is read again")
        auth.write(path, b"")
        one.signal(signal.SIGHUP)
        tap.ok(server.wait_for(lambda: not is_in(b"last one", one)),
               "after an empty file nobody may log in")


@tap.case
def under_the_filter_of_system_calls():
    if "drop_privileges" not in server.run("-h", user=False)[1]:
        tap.ok(True, "this build has no -o drop_privileges")
        return
    path = auth.write(os.path.join(folder, "confined"), b"old:one\n")
    with start("-o", "drop_privileges", path=path) as one:
        tap.ok(is_in(b"old one", one), "-o drop_privileges: users of the file may log in")
        auth.write(path, b"new:two\n")
        one.signal(signal.SIGHUP)
        tap.ok(until_in(b"new two", one), "-o drop_privileges: SIGHUP reads the file again")


@tap.case
def over_tls():
    if "enable-ssl" not in server.run("-h", user=False)[1]:
        tap.ok(True, "this build has no TLS")
        return
    words, context = tls.everywhere()
    path = auth.write(os.path.join(folder, "tls"), b"old:one\n")
    with start(*words, path=path, context=context) as one:
        answer, c = log_in(b"old one", one)
        tap.is_((answer, c.set(b"k", b"v"), c.get(b"k")), (STORED, STORED, b"v"),
                "-Z with -Y: a login over TLS succeeds")
        tap.is_(one.stream().ask(b"get k\r\n"), UNKNOWN,
                "-Z with -Y: without a login commands are refused")
        auth.write(path, b"new:two\n")
        one.signal(signal.SIGHUP)
        tap.ok(until_in(b"new two", one), "SIGHUP reads both certificates and users again")


@tap.case
def reload_during_use():
    path = auth.write(os.path.join(folder, "busy"), b"always:same\nodd:1\n")
    with start(path=path, threads=4) as one:
        wrong, tried = [], []
        done = threading.Event()

        def hammer():
            count = 0
            c = one.stream()
            while not done.is_set() or count == 0:
                other = one.stream()
                if other.ask(token(b"always same")) != STORED:
                    wrong.append("a user who is in both files is refused")
                other.close()
                if c.ask(token(b"odd 2")) not in (FAILURE,):
                    wrong.append("a user who is in neither file is accepted")
                count += 1
            tried.append(count)

        threads = [threading.Thread(target=hammer) for _ in range(6)]
        for thread in threads:
            thread.start()
        for turn in range(200):
            auth.write(path, b"odd:1\nalways:same\n" if turn % 2 else
                       b"e:2\nx:y\n" * 3 + b"always:same\n")
            one.signal(signal.SIGHUP)
            is_in(b"always same", one)
        done.set()
        for thread in threads:
            thread.join()
        tap.is_(sorted(set(wrong)), [],
                "while the file is reloaded 200 times every login has the right result")
        tap.ok(len(tried) == 6 and sum(tried) > 50, "%d times, meanwhile" % sum(tried))


@tap.case
def a_file_that_only_root_may_read():
    if os.geteuid() != 0:
        tap.ok(not os.environ.get("CI"), "root is needed to change the user")
        return
    path = auth.write(os.path.join(folder, "secret"), b"user:pass\n")
    os.chmod(path, 0o600)
    with start(path=path) as one:
        tap.ok(is_in(b"user pass", one), "at the start root's file is read")
        auth.write(path, b"user:other\n")
        os.chmod(path, 0o600)
        one.signal(signal.SIGHUP)
        tap.ok(server.wait_for(lambda: "Permission denied; the users" in one.log()),
               "at SIGHUP the server's user may not read it, which is logged")
        tap.ok(is_in(b"user pass", one), "the users read before stay in use")


SAME = (
    [token(body) for body in (
        b"user pass", b"user wrong", b"user", b"", b" ", b"user ", b" pass", b"user  pass",
        b"user pass ", b"user:pass", b"other a:b", b"other:a b", b"user\tpass", b"user pass more",
        b"a" * 300 + b" b", b"a" * 511, b"a " * 300)] +
    [line + b"\r\n" for line in (
        b"get k", b"version", b"quit", b"mn", b"", b"   ", b"set", b"set x 0 0", b"set x 0 0 abc",
        b"set x 0 0 -1", b"shutdown", b"x " * 30)] +
    [b"set x 0 0 9\r\nuser passXX", b"set x 0 0 9\nuser pass\r\n",
     b"set x 0 0 9 noreply\r\nuser pass\r\n", b"set x a b 9\r\nuser pass\r\n",
     b" set x 0 0 9\r\nuser pass\r\n", b"set x 0 0 9 foo bar\r\nuser pass\r\n",
     b"set " + b"k" * 251 + b" 0 0 9\r\nuser pass\r\n"])


@tap.case
def as_debian_answers():
    if "T_TLS" in os.environ:
        tap.ok(True, "without TLS only")
        return
    if not os.access(differential.PEER, os.X_OK):
        tap.ok(not os.environ.get("CI"), "there is a memcached to compare with")
        return
    with differential.as_peer(start) as peer:
        for data in SAME:
            answers = []
            for one in (memcached, peer):
                c = one.stream()
                answers.append(c.ask(data))
                c.close()
            tap.is_(answers[0], answers[1], "the same as Debian's memcached: %r" % data[:40])


tap.run()
