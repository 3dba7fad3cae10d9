#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Lines of the text protocol: how long, how ended, of how many words."""
import os
import select
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "lib"))
import server
import tap

memcached = server.Server(threads=1)
c = memcached.stream()

ERROR = b"ERROR\r\n"
END = b"END\r\n"


def closes(data):
    """Whether the connection is closed by a line that has no end yet. What is asked after it
    elsewhere was read after it: there is one worker."""
    other = memcached.stream()
    other.ask(b"version\r\n")
    other.send(data)
    for _ in range(3):
        memcached.stats()
    closed = bool(select.select([other.sock], [], [], 0)[0])
    other.close()
    return closed


@tap.case
def a_line_without_its_end():
    for data, name in ((b"x", "garbage"), (b"set k 0 0 1 ", "a set"), (b"gat 0 k", "gat"),
                       (b"mg k ", "mg"), (b"delete ", "delete"), (b" ", "spaces")):
        tap.is_([closes(data.ljust(n, data[-1:])) for n in (1000, 1023, 1024)], [False] * 3,
                "up to 1,024 bytes of %s may wait for their end" % name)
        tap.is_([closes(data.ljust(n, data[-1:])) for n in (1025, 2047, 2048, 4000)], [True] * 4,
                "more of them close the connection")
    for verb in (b"get ", b"gets "):
        tap.is_([closes(verb + b"k " * n) for n in (400, 600, 1100, 5000, 50000)], [False] * 5,
                "%s has no such limit" % verb.decode())
    tap.is_([closes(b"  get " + b"k " * 1000), closes(b" gets " + b"k " * 1000)], [False] * 2,
            "nor with blanks before it")


@tap.case
def a_line_that_has_its_end():
    for n in (1000, 1023, 1024, 1025, 2046, 2047, 2048, 2049, 5000):
        tap.is_(c.all(b"x" * n + b"\r\n"), ERROR, "%d bytes of garbage are one error" % n)
        tap.is_(c.all(b"set k 0 0 1".ljust(n) + b"\r\nv\r\n"), b"STORED\r\n",
                "a set of %d bytes, most of them blanks, stores" % n)
        tap.is_(c.all(b"get none".ljust(n) + b"\r\n"), END, "a get of so many")
        tap.is_(c.all(b"mg none".ljust(n) + b"\r\n"), b"EN\r\n", "and mg")


@tap.case
def the_end_of_a_line():
    c.set(b"k", b"v")
    hit = b"VALUE k 0 1\r\nv\r\nEND\r\n"
    tap.is_(c.all(b"get k\n"), hit, "a newline alone ends a line")
    tap.is_(c.all(b"set k 0 0 1\nv\r\n"), b"STORED\r\n", "also before a value")
    tap.is_(c.all(b"set k 0 0 1\r\nv\n\r\n"), b"CLIENT_ERROR bad data chunk\r\n" + ERROR,
            "but a value ends with both")
    c.set(b"k", b"v")
    tap.is_(c.all(b"get k\r\r\n"), END, "of two carriage returns one belongs to the key")
    tap.is_(c.all(b"get k\rx\r\n"), END, "a carriage return alone ends nothing")
    tap.is_(c.all(b"\nget k\n\r\nget k\r\n"), ERROR + hit + ERROR + hit, "empty lines are errors")


@tap.case
def words_and_blanks():
    c.set(b"k", b"1")
    for line, want in ((b"   delete   none   \r\n", b"NOT_FOUND\r\n"),
                       (b"  incr  none  1  \r\n", b"NOT_FOUND\r\n"),
                       (b" set  k  0  0  1  \r\nv\r\n", b"STORED\r\n"),
                       (b"touch\tk 0\r\n", ERROR), (b"get\tk\r\n", ERROR),
                       (b"VERSION\r\n", ERROR), (b"Get k\r\n", ERROR), (b"SET k 0 0 1\r\n", ERROR),
                       (b"Flush_all\r\n", ERROR), (b"MN\r\n", ERROR), (b"quiT\r\n", ERROR)):
        tap.is_(c.all(line), want, "%r" % line)
    for words in (b"set k 0 0 1 noreply x", b"cas k 0 0 1 1 noreply x", b"incr k 1 2 3",
                  b"touch k 0 0 0", b"delete k 0 noreply x", b"flush_all 0 0 noreply",
                  b"verbosity 0 0 0", b"cache_memlimit 64 0 0", b"version x", b"quit x",
                  b"add a b c d e f g h", b"replace k 0 0 1 2 3 4 5 6"):
        tap.is_(c.all(words + b"\r\n"), ERROR, "one word too many: %s" % words.decode())


@tap.case
def http_closes():
    for line in (b"GET / HTTP/1.1", b"POST /x HTTP/1.0", b"HTTP/1.1", b"foo HTTP/",
                 b"OPTIONS * HTTP/1.1"):
        other = memcached.stream()
        tap.is_(other.to_end(b"get none\r\n" + line + b"\r\nget none\r\n"), END,
                "%r closes and is not answered, what was before it is" % line)
        other.close()
    tap.is_(c.all(b"HTTP/1.1 200 OK\r\n"), ERROR, "HTTP/ that is not last is an error")
    tap.is_(c.all(b"GET / http/1.1\r\n"), ERROR, "nor in small letters does it close")
    tap.is_(c.all(b"get HTTP/1.1\r\n"), END, "a key may look like it")
    tap.is_(c.all(b"set HTTP/1.1 0 0 1\r\nv\r\nget HTTP/1.1\r\n"),
            b"STORED\r\nVALUE HTTP/1.1 0 1\r\nv\r\nEND\r\n", "and be stored")
    tap.is_(c.all(b"incr k HTTP/1.1\r\n"), b"CLIENT_ERROR invalid numeric delta argument\r\n",
            "a command that is known is not taken for it")


@tap.case
def noreply_on_a_line_that_is_wrong():
    """Where the words do not fit the command, noreply is not seen."""
    for line, want in ((b"incr noreply", ERROR),
                       (b"touch noreply", ERROR), (b"get", ERROR), (b"foo noreply", ERROR),
                       (b"set k 0 0 1 2 noreply x", ERROR), (b"verbosity", ERROR),
                       (b"stats detail noreply",
                        b"CLIENT_ERROR usage: stats detail on|off|dump\r\n"),
                       (b"version noreply", ERROR)):
        tap.is_(c.all(line + b"\r\n"), want, "%r is answered" % line)
    long = b"k" * 251
    for line in (b"incr k x noreply", b"touch k x noreply", b"set %s 0 0 1 noreply" % long,
                 b"delete %s noreply" % long, b"verbosity x noreply", b"flush_all x noreply"):
        tap.is_(c.all(line + b"\r\n"), b"", "%r is not: only a word of it is bad" % line[:40])


@tap.case
def bytes_of_a_key():
    for byte in list(range(1, 256)):
        key = b"k%c" % byte
        if byte in b"\n\r ":
            continue
        if c.all(b"set %s 0 0 1\r\n%c\r\nget %s\r\n" % (key, byte, key)) != \
                b"STORED\r\nVALUE %s 0 1\r\n%c\r\nEND\r\n" % (key, byte):
            tap.ok(False, "byte %d in a key" % byte)
            return
    tap.ok(True, "every byte but the blank and the line's end may be in a key")
    tap.is_(c.all(b"set k\xff\x80\x01 0 0 1\r\nv\r\ndelete k\xff\x80\x01\r\n"),
            b"STORED\r\nDELETED\r\n", "control and high bytes are not rejected")


@tap.case
def the_server_still_lives():
    tap.is_(memcached.stop(), 0, "the server ends with status 0")


tap.run()
