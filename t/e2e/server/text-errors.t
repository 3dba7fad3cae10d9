#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The text protocol's answers to malformed requests, and its limits."""

import client
import server
import tap

memcached = server.Server(threads=1)
c = memcached.stream()

LONG = b"k" * 251
ERROR = b"ERROR\r\n"
FORMAT = b"CLIENT_ERROR bad command line format\r\n"
CHUNK = b"CLIENT_ERROR bad data chunk\r\n"


def answers(want, *requests):
    for request in requests:
        other = memcached.stream()
        try:
            got = other.all(request)
        except (client.Closed, TimeoutError) as error:
            got = (repr(error), other.buffer)
        tap.is_(got, want, "%r is answered %r" % (request[:60], want[:60]))
        other.close()


@tap.case
def unknown_commands():
    answers(ERROR, b"\r\n", b"\n", b" \r\n", b"     \r\n", b"foo\r\n", b"GET k\r\n",
            b"Set k 0 0 1\r\n", b"getk\r\n", b"ge k\r\n", b"get\tk\r\n", b"\x01\x02\r\n",
            b"\0\r\n", b"quitx\r\n",
            b"stats_\r\n", b"\xff\xfe\r\n")


@tap.case
def missing_and_surplus_words():
    answers(ERROR, b"get\r\n", b"gets\r\n", b"get \r\n", b"bget\r\n", b"gat\r\n",
            b"set\r\n", b"set k\r\n", b"set k 0\r\n", b"set k 0 0\r\n", b"set k 0 0 1 2 3\r\n",
            b"add k 0 0\r\n", b"cas k 0 0 1\r\n", b"delete\r\n", b"incr\r\n", b"incr k\r\n",
            b"incr k 1 2 3\r\n", b"decr k\r\n", b"touch\r\n", b"touch k\r\n", b"verbosity\r\n",
            b"flush_all 1 2 3\r\n")


@tap.case
def storage_lines_that_are_wrong():
    # The announced length is malformed: the value is parsed as a command.
    answers(FORMAT + ERROR, b"set k abc 0 1\r\na\r\n", b"set k -1 0 1\r\na\r\n",
            b"set k 0 abc 1\r\na\r\n", b"set %s 0 0 1\r\na\r\n" % LONG,
            b"cas k 0 0 1 abc\r\na\r\n", b"append %s 0 0 1\r\na\r\n" % LONG)
    answers(FORMAT, b"set k 0 0 abc\r\n", b"set k 0 0 -1\r\n", b"set k 0 0 -2147483648\r\n",
            b"set k 0 0 2147483646\r\n", b"set k 0 0 2147483647\r\n", b"set k 0 0 4294967295\r\n",
            b"set k 0 0 4294967296\r\n", b"set k 0 0 99999999999999999999\r\n",
            b"set k 0 0 -99999999999999999999\r\n", b"add k 0 0 1x\r\n", b"append k 0 0 -1\r\n")
    tap.is_(c.get(b"k"), None, "nothing was stored")


@tap.case
def values_that_do_not_fit_their_length():
    tap.is_(c.all(b"set k 0 0 1\r\nabc\r\n"), CHUNK + ERROR,
            "a value longer than its length is a bad data chunk")
    tap.is_(c.get(b"k"), None, "it is not stored")
    c.set(b"k", b"old")
    tap.is_(c.all(b"set k 0 0 2\r\nabcd\r\n"), CHUNK + ERROR,
            "it is a bad data chunk over an old value, too")
    tap.ok(c.get(b"k") != b"ab", "no part of it is stored")
    other = memcached.stream()
    other.send(b"set short 0 0 9\r\nabc\r\nget a\r\n")
    tap.is_(other.line(), CHUNK, "a value shorter than its length includes the next line")
    other.close()
    tap.is_(c.get(b"short"), None, "it is not stored")


@tap.case
def keys_that_are_too_long():
    answers(FORMAT, b"get %s\r\n" % LONG, b"gets %s\r\n" % LONG, b"gat 0 %s\r\n" % LONG,
            b"delete %s\r\n" % LONG, b"incr %s 1\r\n" % LONG, b"decr %s 1\r\n" % LONG,
            b"touch %s 0\r\n" % LONG)


@tap.case
def malformed_numbers():
    c.set(b"n", b"1")
    answers(b"CLIENT_ERROR invalid exptime argument\r\n", b"touch n abc\r\n", b"touch n 1x\r\n",
            b"gat abc n\r\n", b"gats abc n\r\n")
    answers(b"CLIENT_ERROR invalid numeric delta argument\r\n", b"incr n abc\r\n", b"decr n -1\r\n")
    answers(b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n",
            b"delete n 5\r\n", b"delete n abc\r\n", b"delete n 0 1\r\n")
    tap.is_(c.get(b"n"), b"1", "nothing was changed")


@tap.case
def verbosity_version_and_shutdown():
    tap.like(c.ask(b"version\r\n"), r"\AVERSION \d+\.\d+\.\d+\S*\r\n\Z",
             "version answers a version")
    answers(b"OK\r\n", b"verbosity 0\r\n", b"verbosity 0 1\r\n")
    answers(b"", b"verbosity 0 noreply\r\n")
    answers(b"ERROR: shutdown not enabled\r\n", b"shutdown\r\n")


@tap.case
def lines_without_an_end():
    for start, name in ((b"x", "garbage"), (b"set ", "a storage command"), (b" ", "spaces")):
        other = memcached.stream()
        rest = other.to_end(start + start[-1:] * 100000)
        tap.ok(len(rest) < 200, "a line of 100,000 bytes of %s closes the connection" % name)
        other.close()
    other = memcached.stream()
    line = b"get " + b"a " * 50000
    for i in range(0, len(line), 5000):
        other.send(line[i:i + 5000])
    tap.is_(other.ask(b"\r\n"), b"END\r\n", "a get may be of any length")
    tap.is_(other.all(b"get " + b" " * 5000 + b"n\r\n"), b"VALUE n 0 1\r\n1\r\nEND\r\n",
            "a get may have any number of spaces")


@tap.case
def closing_commands():
    for request in (b"quit\r\n", b"quit\n", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.0\r\n"):
        other = memcached.stream()
        tap.is_(other.to_end(request + b"version\r\n"), b"",
                "%r closes without an answer" % request)
        other.close()
    other = memcached.stream()
    tap.is_(other.to_end(b"get n\r\nquit\r\n"), b"VALUE n 0 1\r\n1\r\nEND\r\n",
            "commands before quit are answered")


@tap.case
def too_large_values_are_skipped():
    refused = b"SERVER_ERROR object too large for cache\r\n"
    for size in (1024 * 1024, 1500000, 20000000):
        body = (b"get n\r\n" * (size // 7 + 1))[:size]
        tap.is_(c.all(b"set big 0 0 %d\r\n%s\r\n" % (size, body)), refused,
                "a value of %d bytes is refused, and skipped" % size)
    tap.is_(c.get(b"big"), None, "it is not stored")


@tap.case
def errors_do_not_affect_later_commands():
    request = b"foo\r\nget n\r\nset n 0 0 abc\r\nget n\r\nincr n x\r\ndelete n 7\r\nget n\r\n"
    one = b"VALUE n 0 1\r\n1\r\nEND\r\n"
    want = (ERROR + one + FORMAT + one + b"CLIENT_ERROR invalid numeric delta argument\r\n" +
            b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n" + one)
    tap.is_(c.all(request), want, "each pipelined command has its own answer")


@tap.case
def options_that_disable_commands():
    with server.Server("-F") as other, other.stream() as d:
        d.set(b"k", b"v")
        tap.is_(d.all(b"flush_all\r\n"), b"CLIENT_ERROR flush_all not allowed\r\n",
                "-F refuses flush_all")
        tap.is_(d.get(b"k"), b"v", "nothing is flushed")
        tap.is_(other.stats()["cmd_flush"], "1", "the refused flush_all is counted")
    with server.Server("-C") as s, s.stream() as d:
        d.set(b"k", b"v")
        tap.is_(d.gets(b"k"), (0, 0, b"v"), "under -C every cas id is 0")


@tap.case
def shutdown_when_enabled():
    other = server.Server("-A")
    d = other.stream()
    tap.is_(d.to_end(b"shutdown\r\n"), b"", "shutdown under -A closes the connection")
    tap.is_(other.wait(), 0, "the server ends with status 0")
    try:
        client.tcp(other.host, other.port)
        tap.ok(False, "the port is closed")
    except ConnectionRefusedError:
        tap.ok(True, "the port is closed")


tap.run(ends=memcached)
