#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What -vv and -vvv log of sockets, requests and replies, in memcached's form."""
import re

import server
import tap

CLOSED = "connection closed.\n"


def lines(memcached, requests, bytes_at_a_time=100000):
    """What is logged of a connection that sends these requests, without its number."""
    server.wait_for(lambda: CLOSED in memcached.log())
    before = len(memcached.log())
    stream = memcached.stream()
    for request, end in requests:
        for at in range(0, len(request), bytes_at_a_time):
            stream.send(request[at:at + bytes_at_a_time])
        stream.until(end)
    stream.close()
    server.wait_for(lambda: CLOSED in memcached.log()[before:])
    return re.sub(r"(?m)^([<>]?)\d+", r"\1N", memcached.log()[before:])


@tap.case
def sockets_that_listen():
    for protocol, name in (("auto", "auto-negotiate"), ("ascii", "ascii")):
        with server.Server("-vv", "-B", protocol, threads=2) as memcached:
            tap.is_(re.findall(r"<\d+ server listening \((.*)\)\n", memcached.log()),
                    ["udp", "udp", name], "-vv logs each listening socket, -B %s" % protocol)


TRAFFIC = """<N new auto-negotiating client connection
N: Client using the ascii protocol
<N set foo 7 0 3
>N STORED
<N set long 0 0 2000
>N STORED
<N gets long absent foo
>N sending key long
>N sending key foo
>N END
<N delete foo
>N DELETED
<N bogus
>N ERROR
<N gat 0 foo foo
>N END
<N connection closed.
"""
REQUESTS = [
    (b"set foo 7 0 3\r\nbar\r\n", b"STORED\r\n"),
    (b"set long 0 0 2000\r\n" + b"VALUE x 0 1\n" * 166 + b"12345678\r\n", b"STORED\r\n"),
    (b"gets long absent foo\r\n", b"END\r\n"),
    (b"delete foo\r\nbogus\r\ngat 0 foo foo\r\n", b"END\r\n"),
]


@tap.case
def requests_and_replies():
    with server.Server("-vv", threads=1) as memcached:
        tap.is_(lines(memcached, REQUESTS), TRAFFIC,
                "-vv logs each request, each reply, and each key of a get")
        before = len(memcached.log())
        memcached.udp().ask(b"get long\r\n")
        tap.like(memcached.log()[before:],
                 r"\A<(\d+) get long\n>\1 sending key long\n>\1 END\n\Z", "over UDP too")


@tap.case
def names_cannot_forge_lines():
    with server.Server("-vv", threads=1) as memcached:
        log = lines(memcached, [(b"set a\x07\x00\xff 0 0 1\r\nx\r\n", b"STORED\r\n"),
                                (b"get a\x07\x00\xff\r\n", b"END\r\n")])
        tap.like(log, r"\n>N sending key a\\x07\\x00\\xff\n>N END\n", "a key is escaped")


@tap.case
def changes_of_state():
    with server.Server("-vvv", threads=1) as memcached:
        log = lines(memcached, [(b"set foo 0 0 3\r\nb", b""), (b"ar\r\nget foo\r\n", b"END\r\n")])
        tap.like(log, r"\nN: going from conn_read to conn_parse_cmd\n", "-vvv: to parsing")
        tap.like(log, r"\nN: going from conn_parse_cmd to conn_(nread|read)\n", "and on")
        tap.ok("sending key foo\n" in log, "-vvv logs what -vv logs")
    with server.Server("-vv", threads=1) as memcached:
        tap.ok("going from" not in lines(memcached, REQUESTS), "-vv does not log states")


tap.run()
