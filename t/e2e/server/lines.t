#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Lines of the text protocol: their length, their end, their number of words."""
import select

import server
import tap

memcached = server.Server(threads=1)
c = memcached.stream()

ERROR = b"ERROR\r\n"
END = b"END\r\n"


def closes(data):
    """Whether a line without an end closes the connection. A request on another connection is
    read after it: there is one worker."""
    other = memcached.stream()
    other.ask(b"version\r\n")
    other.send(data)
    for _ in range(3):
        memcached.stats()
    closed = bool(select.select([other.sock], [], [], 0)[0])
    other.close()
    return closed


@tap.case
def an_incomplete_line():
    for data, name in ((b"x", "garbage"), (b"set k 0 0 1 ", "a set"), (b"gat 0 k", "gat"),
                       (b"mg k ", "mg"), (b"delete ", "delete"), (b" ", "spaces")):
        tap.is_([closes(data.ljust(n, data[-1:])) for n in (1000, 1023, 1024)], [False] * 3,
                "up to 1,024 bytes of %s without a newline are kept" % name)
        tap.is_([closes(data.ljust(n, data[-1:])) for n in (1025, 2047, 2048, 4000)], [True] * 4,
                "more bytes close the connection")
    for verb in (b"get ", b"gets "):
        tap.is_([closes(verb + b"k " * n) for n in (400, 600, 1100, 5000, 50000)], [False] * 5,
                "%s has no such limit" % verb.decode())
    tap.is_([closes(b"  get " + b"k " * 1000), closes(b" gets " + b"k " * 1000)], [False] * 2,
            "it has no such limit with blanks before it")


@tap.case
def a_complete_line():
    for n in (1000, 1023, 1024, 1025, 2046, 2047, 2048, 2049, 5000):
        tap.is_(c.all(b"x" * n + b"\r\n"), ERROR, "%d bytes of garbage are one error" % n)
        tap.is_(c.all(b"set k 0 0 1".ljust(n) + b"\r\nv\r\n"), b"STORED\r\n",
                "a set of %d bytes, most of them blanks, stores" % n)
        tap.is_(c.all(b"get none".ljust(n) + b"\r\n"), END, "a get of that length is answered")
        tap.is_(c.all(b"mg none".ljust(n) + b"\r\n"), b"EN\r\n", "an mg of that length is answered")


@tap.case
def a_get_of_any_length():
    """It is executed in parts of 64 KB once it is complete."""
    def played(stream, data, pieces):
        size = -(-len(data) // pieces)
        for at in range(0, len(data), size):
            stream.send(data[at:at + size])
        return stream.until(b"MN\r\n")

    c.set(b"a" * 250, b"first")
    c.set(b"b", b"second")
    hits = b"VALUE %s 0 5\r\nfirst\r\n" % (b"a" * 250), b"VALUE b 0 6\r\nsecond\r\n"
    misses = [b"k%029d" % i for i in range(100000)]
    for verb in (b"get", b"gets"):
        line = b"%s %s\r\nmn\r\n" % (verb, b" ".join(misses))
        tap.is_(played(c, line, 1), END + b"MN\r\n", "%s of 100,000 keys of 30 bytes, all misses" %
                verb.decode())
    line = b"get " + b" ".join([b"a" * 250, b"b"] * 20000) + b" \r\nmn\r\n"
    for pieces in (1, 50, 997):
        tap.ok(played(c, line, pieces) == (hits[0] + hits[1]) * 20000 + END + b"MN\r\n",
               "40,000 hits of a line of 5 MB, sent in %d pieces" % pieces)
    wrong = []
    for n in list(range(65270, 65290)) + list(range(65525, 65545)) + list(range(131060, 131080)):
        # A long key, or the line's end, lies across the border of a part.
        for tail in (b"a" * 250, b"b", b"a" * 250 + b" b"):
            line = b"get " + b"x " * ((n - 6 - len(tail)) // 2)
            line += b" " * (n - 2 - len(tail) - len(line)) + tail + b"\r\nmn\r\n"
            want = b"".join(hits[key == b"b"] for key in tail.split()) + END + b"MN\r\n"
            for pieces in (1, 2, 7):
                if played(c, line, pieces) != want:
                    wrong.append((n, len(tail), pieces))
    tap.is_(wrong, [], "lines that end near the border of a part are answered")
    with server.Server(threads=1) as other:
        d, e = other.stream(), other.stream()
        d.send(b"get" + b" none" * 8000000)
        tap.is_(e.get(b"b"), None, "another client is answered while a get of 40 MB arrives")
        d.send(b"\r\n")
        misses = []
        while not misses or misses[-1] < 8000000:
            misses.append(int(e.stats()["get_misses"]))
        tap.ok(any(0 < n < 8000000 for n in misses),
               "another client is answered while it is executed (%d times)" %
               len(misses))
        tap.is_(d.until(END), END, "the get is answered")


@tap.case
def a_long_get_of_a_client_that_does_not_read_yet():
    """It first sends the whole line, as to a server that waits for its end."""
    key = b"a" * 250
    c.set(key, b"first")
    hit = b"VALUE %s 0 5\r\nfirst\r\n" % key
    c.send(b"get " + b" ".join([key] * 100000) + b"\r\n")
    tap.ok(c.exactly(len(hit) * 100000 + len(END)) == hit * 100000 + END,
           "100,000 hits of a line of 25 MB")


@tap.case
def a_long_get_with_a_bad_key():
    bad = b"CLIENT_ERROR bad command line format\r\n"
    c.set(b"b", b"v")
    for line, name in ((b"get " + b"k" * 5000000, "a key of 5 MB"),
                       (b"get " + b"none " * 100000 + b"k" * 251, "the last of 100,000 keys"),
                       (b"get none " + b"k" * 251 + b" none" * 1000000,
                        "the second of a million keys"),
                       (b"get " + b"none " * 99999 + b"k" * 70000 + b" b", "a key of 70,000 bytes"),
                       (b"gets b b b " + b"k" * 251 + b" b", "a short line's")):
        tap.is_(c.all(line + b"\r\nget b\r\n"), bad + b"VALUE b 0 1\r\nv\r\nEND\r\n",
                "%s is too long: one error, and the next line is a command" % name)


@tap.case
def the_end_of_a_line():
    c.set(b"k", b"v")
    hit = b"VALUE k 0 1\r\nv\r\nEND\r\n"
    tap.is_(c.all(b"get k\n"), hit, "a bare newline ends a line")
    tap.is_(c.all(b"set k 0 0 1\nv\r\n"), b"STORED\r\n",
            "a bare newline ends a line before a value")
    tap.is_(c.all(b"set k 0 0 1\r\nv\n\r\n"), b"CLIENT_ERROR bad data chunk\r\n" + ERROR,
            "a value must end with both")
    c.set(b"k", b"v")
    tap.is_(c.all(b"get k\r\r\n"), END, "of two carriage returns the first belongs to the key")
    tap.is_(c.all(b"get k\rx\r\n"), END, "a carriage return alone does not end a line")
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
                "%r closes and is not answered, commands before it are" % line)
        other.close()
    tap.is_(c.all(b"HTTP/1.1 200 OK\r\n"), ERROR, "HTTP/ that is not in the last word is an error")
    tap.is_(c.all(b"GET / http/1.1\r\n"), ERROR, "small letters do not close")
    tap.is_(c.all(b"get HTTP/1.1\r\n"), END, "a key may look like HTTP")
    tap.is_(c.all(b"set HTTP/1.1 0 0 1\r\nv\r\nget HTTP/1.1\r\n"),
            b"STORED\r\nVALUE HTTP/1.1 0 1\r\nv\r\nEND\r\n", "such a key can be stored")
    tap.is_(c.all(b"incr k HTTP/1.1\r\n"), b"CLIENT_ERROR invalid numeric delta argument\r\n",
            "a known command is not taken for HTTP")


@tap.case
def noreply_on_a_malformed_line():
    """Where the number of words does not fit the command, noreply is not recognized."""
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
        tap.is_(c.all(line + b"\r\n"), b"", "%r is not answered: only one word is bad" % line[:40])


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
            b"STORED\r\nDELETED\r\n", "control and high bytes are accepted in a key")


tap.run(ends=memcached)
