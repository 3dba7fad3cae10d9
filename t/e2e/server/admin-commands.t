#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Commands without a key, and numbers at their limits."""
import server
import talk
import tap

ERROR = b"ERROR\r\n"
FORMAT = b"CLIENT_ERROR bad command line format\r\n"
EXPTIME = b"CLIENT_ERROR invalid exptime argument\r\n"

memcached = server.Server(threads=1)
c = memcached.stream()


def limit():
    return int(c.stats()["limit_maxbytes"]) >> 20


@tap.case
def cache_memlimit():
    talk.alike(c, "OK", "cache_memlimit 100", "cache_memlimit 8")
    talk.alike(c, "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m", "cache_memlimit 7",
               "cache_memlimit 0")
    talk.alike(c, "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
               "cache_memlimit 1000000001", "cache_memlimit 67108864000")
    talk.alike(c, "ERROR", "cache_memlimit x", "cache_memlimit -1", "cache_memlimit ")
    talk.alike(c, "", "cache_memlimit 64 noreply", "cache_memlimit 7 noreply")
    tap.is_(limit(), 64, "the last accepted limit is in effect")
    value = b"v" * 100000
    for i in range(500):
        c.set(b"m%d" % i, value)
    talk.alike(c, "OK", "cache_memlimit 32") # less than what is stored
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
def a_large_value_with_noreply_is_skipped():
    """Stock memcached parses the value as commands if the line has noreply; here a value with a
    valid length is skipped with or without noreply."""
    c.set(b"k", b"old")
    body = b"set k 0 0 3\r\nbad\r\n" * 60000
    tap.is_(c.all(b"set h 0 0 %d noreply\r\n%s\r\n" % (len(body), body)), b"",
            "a value of %d bytes with noreply is not answered" % len(body))
    tap.is_(c.get(b"k"), b"old", "none of it is executed as a command")
    tap.is_(c.get(b"h"), None, "the value is not stored")


tap.run(ends=memcached)
