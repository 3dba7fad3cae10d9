#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Defects of stock memcached over UDP that this server does not have, and its counts.

One worker, so that a datagram that was sent later is answered later.
"""
import os
import struct
import subprocess
import sys

import binary
import server
import tap

CHUNK = b"CLIENT_ERROR bad data chunk\r\n"
TOO_LARGE = b"SERVER_ERROR object too large for cache\r\n"
TOO_LONG = b"SERVER_ERROR response too large for UDP\r\n"
HIT = b"VALUE k 0 1\r\nv\r\nEND\r\n"
# What any user could try to get clients' datagrams and to answer them.
TAKE = """
import errno, os, socket, sys
flag, host, port = sys.argv[1:]
if os.getuid() == 0:
    os.setuid(65534)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, getattr(socket, flag), 1)
try:
    s.bind((host, int(port)))
    print("bound")
except OSError as error:
    print(errno.errorcode[error.errno])
"""

memcached = server.Server(threads=1)
c = memcached.stream()
u = memcached.udp()
c.set(b"k", b"v")


@tap.case
def a_value_that_its_datagram_cuts_off():
    """Stock memcached takes the next datagrams, headers included, for the rest of the value."""
    for verb in (b"set", b"add", b"replace", b"append", b"prepend"):
        for body in (b"", b"abc", b"abcdefghij", b"abcdefghij\r"):
            c.set(b"cut", b"old")
            tap.is_(u.ask(b"%s cut 0 0 10\r\n%s" % (verb, body)), CHUNK,
                    "%s of 10 bytes with %d is a bad data chunk" % (verb.decode(), len(body)))
            tap.is_(u.ask(b"get k\r\n"), HIT, "the next datagram is parsed as a command")
            tap.is_(c.get(b"cut"), b"old", "the old value is kept")
    tap.is_(u.ask(b"cas cut 0 0 10 1\r\nabc"), CHUNK, "cas")
    tap.is_(u.ask(b"ms cut 10\r\nabc"), CHUNK, "ms")
    u.send(b"set cut 0 0 10 noreply\r\nabc")
    tap.ok(u.silence(b"get k\r\n"), "with noreply it is not answered")
    ident = u.send(b"get k\r\nset cut 0 0 10\r\nabc")
    tap.is_([u.message(ident), u.message(ident)], [HIT, CHUNK],
            "a complete command before it in the datagram is answered")
    rest = struct.pack("!HHHH", 9, 0, 1, 0) + b"abcdefghij\r\n"
    u.send(b"set cut 0 0 20\r\n")
    u.send_raw(rest)
    got = u.recv_raw(), u.recv_raw()
    tap.is_([part[8:] for part in got], [CHUNK, b"ERROR\r\n"],
            "a second datagram is a command of its own, not the rest of the first's value")
    tap.is_(c.get(b"cut"), b"old", "nothing was stored")


@tap.case
def a_value_that_is_too_large():
    """Stock memcached's socket then swallows megabytes of datagrams without an answer."""
    for line, want in ((b"set big 0 0 2000000", TOO_LARGE), (b"add big 0 0 2000000", TOO_LARGE),
                       (b"append k 0 0 2000000", TOO_LARGE), (b"ms big 2000000", TOO_LARGE),
                       (b"set big 0 0 2147483645", TOO_LARGE),
                       (b"set big 0 0 2147483647", b"CLIENT_ERROR bad command line format\r\n")):
        for body in (b"", b"abc", b"x" * 60000):
            if want != TOO_LARGE and body:
                continue
            tap.is_(u.ask(line + b"\r\n" + body), want,
                    "%s with %d bytes is refused" % (line.decode(), len(body)))
            tap.is_([u.ask(b"get k\r\n") for _ in range(30)], [HIT] * 30,
                    "the next 30 datagrams are answered")
    u.send(b"set k 0 0 2000000 noreply\r\nabc")
    tap.ok(u.silence(b"get none\r\n"), "with noreply it is not answered")
    tap.is_(c.get(b"k"), None, "a failed set has removed the old value")
    c.set(b"k", b"v")


@tap.case
def commands_that_need_a_connection():
    """Stock memcached passes its UDP socket to the logger or the crawler, which closes it."""
    for line in (b"watch", b"watch fetchers mutations evictions", b"lru_crawler metadump all",
                 b"lru_crawler metadump 1", b"lru_crawler mgdump all"):
        tap.like(u.ask(line + b"\r\n"), r"\ACLIENT_ERROR .*\r\n\Z", "%s is refused" % line.decode())
        tap.is_(u.ask(b"get k\r\n"), HIT, "after it the socket answers")
        tap.is_([memcached.udp().ask(b"get k\r\n") for _ in range(3)], [HIT] * 3,
                "it answers other clients")


@tap.case
def requests_of_several_datagrams():
    """Stock memcached has an error text for them that is never sent; they are dropped."""
    before = c.stats()
    for count in (0, 2, 65535):
        for sequence in (0, 1):
            u.send(b"set several 0 0 1\r\nx\r\n", count=count, sequence=sequence)
            u.send(b"get k\r\n", count=count, sequence=sequence)
    tap.ok(u.silence(b"get none\r\n"), "they are not answered")
    tap.is_(c.get(b"several"), None, "they are not executed")
    after = c.stats()
    tap.is_(int(after["cmd_set"]) - int(before["cmd_set"]), 0, "they are not counted as commands")


@tap.case
def a_reply_that_would_be_endless():
    value = b"v" * 1000000
    c.set(b"large", value)
    want = b"VALUE large 0 1000000\r\n" + value + b"\r\n"
    got = u.ask(b"get large large\r\n")
    tap.ok(got == want * 2 + b"END\r\n", "a reply of 2 MB has %d datagrams" % u.datagrams)
    request = b"get" + b" large" * 200 + b"\r\n"
    for _ in range(3):
        tap.is_(u.ask(request), TOO_LONG,
                "one of 200 MB, more than datagrams can be counted, is refused")
    first, second = u.send(request + b"get k\r\n"), u.send(b"get k\r\n")
    tap.is_([u.message(first), u.message(first), u.message(second)], [TOO_LONG, HIT, HIT],
            "what is behind it is answered")
    tap.is_(memcached.log().count("a reply of 200005005 bytes is too long for UDP"), 1,
            "the log says so once")


@tap.case
def values_that_are_too_long():
    with server.Server("-m", "300", "-I", "120m", threads=1) as other:
        tcp, udp = other.stream(), other.udp()
        tcp.set(b"large", b"v" * 95000000)
        tap.is_(udp.ask(b"get large\r\n"), TOO_LONG, "get")
        tap.is_(udp.ask(b"mg large v\r\n"), TOO_LONG, "mg")
        tap.is_(binary.replies(udp.ask(binary.request("getk", b"large", opaque=7))),
                [binary.Reply(12, 3, 7, 0, b"", b"", b"Too large.")], "binary")
        tap.is_(udp.ask(b"get none\r\n"), b"END\r\n", "others are answered")


@tap.case
def what_is_counted():
    with server.Server(threads=3) as other, other.stream() as d:
        d.ask(b"version\r\n")
        stats = d.stats()
        listeners = 1
        tap.is_(stats["curr_connections"], str(listeners + 3),
                "curr_connections counts a UDP socket for each of three workers")
        tap.ok(int(stats["connection_structures"]) >= 3 + listeners + 1,
               "connection_structures counts them, too")
        values = d.stats("conns")
        numbers = [key.split(":")[0] for key, value in values.items() if value == "UDP"]
        tap.is_(len(numbers), 3, "stats conns has three rows UDP")
        for number in numbers:
            tap.is_(values[number + ":addr"], "udp:127.0.0.1:%d" % other.port,
                    "they have an address")
            tap.is_(values[number + ":state"], "conn_read", "they are in conn_read")
            tap.ok(number + ":listen_addr" not in values, "they have no listen_addr")
    with server.Server(threads=1) as other:
        d, v = other.stream(), other.udp()
        d.set(b"k", b"v")
        d.stats()
        before = d.stats()
        v.ask(b"get k\r\n")
        after = d.stats()
        asking = len(b"stats\r\n")
        tap.is_(int(after["bytes_read"]) - int(before["bytes_read"]),
                asking + 8 + len(b"get k\r\n"),
                "bytes_read includes the frame's 8 bytes")
        reply = sum(len("STAT %s %s\r\n" % row) for row in before.items()) + len("END\r\n")
        tap.is_(int(after["bytes_written"]) - int(before["bytes_written"]), reply + 8 + len(HIT),
                "bytes_written includes them as well")
        tap.is_(int(after["get_hits"]) - int(before["get_hits"]), 1, "get_hits counts the get")


@tap.case
def clients_do_not_get_each_others_answers():
    others = [memcached.udp() for _ in range(50)]
    for i, other in enumerate(others):
        c.set(b"mine%d" % i, b"value of %d" % i)
    for i, other in enumerate(others):
        other.ident = other.send(b"get mine%d\r\n" % i, ident=7)
    wrong = [i for i, other in enumerate(others) if other.message(7) !=
             b"VALUE mine%d 0 %d\r\nvalue of %d\r\nEND\r\n" % (i, len(b"value of %d" % i), i)]
    tap.is_(wrong, [], "50 clients with the same request id each get their own answer")
    # Clients that have closed when the answer is sent.
    for _ in range(20):
        gone = memcached.udp()
        gone.send(b"get k\r\n" * 20)
        gone.close()
    tap.is_(u.ask(b"get k\r\n"), HIT, "closed clients do not affect others")


@tap.case
def the_largest_datagram():
    value = b"x" * (65507 - 8 - len(b"set k 0 0 65462\r\n\r\n"))
    request = b"set k 0 0 %d\r\n%s\r\n" % (len(value), value)
    tap.is_(len(request) + 8, 65507, "a set of a datagram of 65,507 bytes is stored")
    tap.is_(u.ask(request), b"STORED\r\n", "is a set")
    tap.ok(c.get(b"k") == value, "its value is complete")
    c.set(b"k", b"v")
    tap.is_(u.ask(b"get" + b" none" * 10000 + b" k\r\n"), HIT, "a get of 10,001 keys is answered")


@tap.case
def bare_newlines():
    u.send_raw(struct.pack("!HHHH", 3, 0, 1, 0) + b"\n")
    tap.is_(u.message(3), b"ERROR\r\n", "a datagram of 9 bytes, a newline, is an error")
    ident = u.send(b"\n\r\n\n")
    tap.is_([u.message(ident) for _ in range(3)], [b"ERROR\r\n"] * 3,
            "three newlines are three errors")


@tap.case
def the_port_belongs_to_one_server():
    """With SO_REUSEPORT a second process of the same user would get half of the datagrams."""
    status, _, error = server.run("-p", 0, "-U", memcached.port, "-l", "127.0.0.1")
    tap.is_(status, 71, "a second server on the same UDP port does not start")
    tap.like(error, "(?i)in use|bind", "the message has the reason")
    tap.is_([u.ask(b"get k\r\n") for _ in range(20)], [HIT] * 20,
            "the first server gets all datagrams")


@tap.case
def the_port_belongs_to_one_user():
            # Without root there is no other user, and sockets of one user may share the port.
    for threads in (1, 2):
        with server.Server(threads=threads) as own:
            stream, udp = own.stream(), own.udp()
            stream.set(b"k", b"v")
            # Without root there is no other user, and one user's sockets may share by SO_REUSEPORT.
            for flag in ("SO_REUSEADDR", "SO_REUSEPORT")[:2 if os.getuid() == 0 else 1]:
                for host in ("127.0.0.1", "0.0.0.0"):
                    taken = subprocess.run([sys.executable, "-c", TAKE, flag, host, str(own.port)],
                                           stdout=subprocess.PIPE, text=True).stdout
                    tap.is_(taken, "EADDRINUSE\n", "%d threads: another user cannot take %s by %s" %
                            (threads, host, flag))
            tap.is_([udp.ask(b"get k\r\n") for _ in range(20)], [HIT] * 20, "it gets no datagram")


tap.run(ends=memcached)
