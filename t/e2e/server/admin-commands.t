#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Commands without a key, and numbers at their limits."""
import time

import server
import tap

ERROR = b"ERROR\r\n"
STORED = b"STORED\r\n"
FORMAT = b"CLIENT_ERROR bad command line format\r\n"
EXPTIME = b"CLIENT_ERROR invalid exptime argument\r\n"
END = b"END\r\n"

memcached = server.Server(threads=1)
c = memcached.stream()


def limit():
    return int(c.stats()["limit_maxbytes"]) >> 20


@tap.case
def cache_memlimit():
    small = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"
    large = b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"
    for words, want in ((b"100", b"OK\r\n"), (b"8", b"OK\r\n"), (b"7", small), (b"0", small),
                        (b"1000000001", large), (b"67108864000", large),
                        (b"x", ERROR), (b"-1", ERROR), (b"", ERROR), (b"64 noreply", b""),
                        (b"7 noreply", b"")):
        tap.is_(c.all(b"cache_memlimit %s\r\n" % words), want, "cache_memlimit %s" % words.decode())
    tap.is_(limit(), 64, "the last accepted limit is in effect")
    value = b"v" * 100000
    for i in range(500):
        c.set(b"m%d" % i, value)
    tap.is_(c.all(b"cache_memlimit 32\r\n"), b"OK\r\n", "the limit may be less than what is stored")
    tap.is_(limit(), 32, "stats show the new limit")
    for i in range(500):
        c.set(b"n%d" % i, value)
    tap.is_(c.get(b"n499"), value, "the server goes on storing")
    c.all(b"flush_all\r\ncache_memlimit 64\r\n")


@tap.case
def verbosity():
    for words, level in ((b"1", "1"), (b"2", "2"), (b"3", "2"), (b"9 x", "2"), (b"0", "0"),
                         (b"4294967295", "2")):
        tap.is_(c.all(b"verbosity %s\r\n" % words), b"OK\r\n", "verbosity %s" % words.decode())
        tap.is_(c.stats("settings")["verbosity"], level, "it sets level %s" % level)
    tap.is_(c.all(b"verbosity\r\n"), ERROR, "verbosity without a number is an error")
    tap.is_(c.all(b"verbosity x\r\n"), FORMAT, "verbosity with a word is an error")
    tap.is_(c.all(b"verbosity 1 noreply\r\n"), b"", "noreply suppresses the answer")
    tap.is_(c.stats("settings")["verbosity"], "1", "the verbosity is set")
    c.all(b"verbosity 0\r\n")


@tap.case
def flush_all():
    """[T] [noreply], in every form; times in the future are in expiry-flush.t."""
    for words, answer, flushes in (
            (b"", b"OK\r\n", True), (b" 0", b"OK\r\n", True), (b" -1", b"OK\r\n", True),
            (b" noreply", b"", True), (b" 0 noreply", b"", True), (b" -5 noreply", b"", True),
            (b" +0", b"OK\r\n", True), (b" 1000", b"OK\r\n", False),
            (b" 2147483647", b"OK\r\n", False), (b" 1000 noreply", b"", False),
            (b" x", EXPTIME, False), (b" 1x", EXPTIME, False), (b" 0 1", b"OK\r\n", True),
            (b" x noreply", b"", False), (b" 0 1 2", ERROR, False)):
        c.set(b"k", b"v")
        tap.is_(c.all(b"flush_all%s\r\n" % words), answer, "flush_all%s" % words.decode())
        tap.is_(c.get(b"k"), None if flushes else b"v",
                "it flushes" if flushes else "it flushes nothing")
    c.all(b"flush_all\r\n")


@tap.case
def version_and_a_command_of_debug_builds():
    tap.like(c.ask(b"version\r\n"), r"\AVERSION 1\.5\.19\S*\r\n\Z", "version")
    words = c.ask(b"version\r\n").split()[1].decode().split(".")
    tap.ok(words[0].isdigit() and words[1].isdigit() and words[2].startswith("19"),
           "the version has three numbers")
    tap.is_(c.all(b"misbehave\r\n"), ERROR, "misbehave is unknown")


@tap.case
def shutdown():
    for words in (b"", b" noreply", b" graceful"):
        tap.is_(c.all(b"shutdown%s\r\n" % words), b"ERROR: shutdown not enabled\r\n",
                "shutdown%s without -A is refused" % words.decode())
    other = server.Server("-A", threads=1)
    d = other.stream()
    tap.is_(d.all(b"shutdown now\r\n"), b"CLIENT_ERROR invalid shutdown mode\r\n",
            "under -A an unknown word is refused")
    other.udp().send(b"shutdown\r\n")
    tap.is_(other.wait(), 0, "shutdown over UDP ends the server with status 0")


@tap.case
def flags():
    for words, flags in ((b"0", 0), (b"4294967295", 4294967295), (b"4294967296", 0),
                         (b"4294967301", 5), (b"18446744073709551615", 4294967295), (b"007", 7),
                         (b"+7", 7)):
        tap.is_(c.all(b"set f %s 0 1\r\nv\r\nget f\r\n" % words),
                STORED + b"VALUE f %d 1\r\nv\r\n" % flags + END,
                "flags %s are %d: memcached keeps 32 bits" % (words.decode(), flags))
    for words in (b"18446744073709551616", b"-1", b"x", b"1x", b"0x1", b"1.0"):
        tap.is_(c.all(b"set f %s 0 1\r\nget none\r\n" % words), FORMAT + END,
                "flags %s are refused" % words.decode())


@tap.case
def times():
    now = int(time.time())
    forms = ((b"0", True), (b"1000", True), (b"-1", False), (b"-2147483648", False),
             (b"2592000", True), (b"2592001", False), (b"2147483647", True),
             (b"2147483648", False), (b"4294967295", False), (b"4294967296", True),
             (b"%d" % (now - 5), False), (b"%d" % (now + 500), True))
    for words, lives in forms:
        want = b"VALUE t 0 1\r\nv\r\nEND\r\n" if lives else END
        for command, first in ((b"set t 0 %s 1\r\nv\r\n", STORED),
                               (b"set t 0 0 1\r\nv\r\ntouch t %s\r\n", STORED + b"TOUCHED\r\n"),
                               (b"set t 0 0 1\r\nv\r\ngat %s t\r\n",
                                STORED + b"VALUE t 0 1\r\nv\r\nEND\r\n")):
            got = c.all(command % words + b"get t\r\n")
            if got != first + want:
                tap.is_(got, first + want, "%r" % (command % words))
                return
        tap.ok(True, "a time of %s %s: set, touch and gat" %
               (words.decode(), "in the future" if lives else "in the past"))
    for words in (b"x", b"1x", b"9223372036854775808", b"99999999999999999999"):
        tap.is_(c.all(b"touch t %s\r\ngat %s t\r\n" % (words, words)), EXPTIME * 2,
                "touch and gat refuse the time %s" % words.decode())
        tap.is_(c.all(b"set t 0 %s 1\r\n" % words), FORMAT, "set refuses it, too")


@tap.case
def counters():
    most = b"18446744073709551615"
    for value, command, want in (
            (most, b"incr n 1", b"0"), (most, b"incr n " + most, b"18446744073709551614"),
            (b"9223372036854775807", b"incr n 1", b"9223372036854775808"),
            (b"9223372036854775808", b"decr n 1", b"9223372036854775807"),
            (most, b"decr n " + most, b"0"), (b"9", b"decr n " + most, b"0"),
            (b"00010", b"incr n 1", b"11"), (b"+7", b"incr n 1", b"8"), (b" 7", b"incr n 1", b"8"),
            (b"7 ", b"incr n 1", b"8"), (b"10", b"decr n 1", b"9")):
        c.set(b"n", value)
        tap.is_(c.all(command + b"\r\n"), want + b"\r\n", "%r: %s" % (value, command.decode()))
        tap.is_(c.get(b"n"), want.ljust(len(value)),
                "the result is stored, padded to the old width")
    for value in (b"18446744073709551616", b"99999999999999999999", b"-1", b"x", b"", b" "):
        c.set(b"n", value)
        tap.is_(c.all(b"incr n 1\r\n"),
                b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
                "%r is not a number" % value)
    c.set(b"n", b"1" * 1000)
    tap.is_(c.all(b"incr n 1\r\n"),
            b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
            "1,000 digits are not a number")


@tap.case
def appending_beyond_the_largest_item():
    value = b"v" * 700000
    c.set(b"a", value)
    for verb in (b"append", b"prepend"):
        tap.is_(c.set(b"a", value, verb=verb), b"NOT_STORED\r\n",
                "%s that makes the value larger than -I is NOT_STORED" % verb.decode())
        tap.ok(c.get(b"a") == value, "the old value stays")
    tap.is_(c.all(b"ms a 700000 MA\r\n" + value + b"\r\n"), b"NS\r\n", "ms answers NS")
    tap.is_(c.set(b"a", b"v" * 1100000, verb=b"append"),
            b"SERVER_ERROR object too large for cache\r\n",
            "a value larger than -I is answered as too large")


@tap.case
def a_large_value_with_noreply_is_skipped():
    """Stock memcached parses the value as commands if the line has noreply; here a value with a
    valid length is skipped with or without noreply."""
    c.set(b"k", b"old")
    body = b"set k 0 0 3\r\nbad\r\n" * 60000
    tap.is_(c.all(b"set h 0 0 %d noreply\r\n%s\r\n" % (len(body), body)), b"",
            "a value of %d bytes with noreply is not answered" % len(body))
    tap.is_(c.get(b"k"), b"old", "none of it is executed as a command")
    tap.is_(c.get(b"h"), None, "the value is not stored")


@tap.case
def it_ends_cleanly():
    tap.is_(memcached.stop(), 0, "the server ends with status 0")


tap.run()
