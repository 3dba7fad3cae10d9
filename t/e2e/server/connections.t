#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Connections: their number, their timeout, and the behaviour at the limit."""
import re
import select
import socket
import time

import client
import server
import tap

TOO_MANY = b"ERROR Too many open connections\r\n"


def version(other):
    """The first answer of the server: its version, or that it is full."""
    try:
        other.send(b"version\r\n")
        return other.line()
    except client.Closed as closed:
        return closed.args[0]
    except ConnectionError:
        return other.buffer


@tap.case
def one_too_many():
    with server.Server("-c", "30", udp=False) as memcached, memcached.stream() as control:
        control.ask(b"version\r\n")
        good, refused = [], None
        while refused is None and len(good) < 60:
            other = memcached.stream()
            line = other.line() if select.select([other.sock], [], [], 0.05)[0] else version(other)
            if line.startswith(b"VERSION"):
                good.append(other)
            else:
                refused = line
        tap.ok(5 <= len(good) < 30, "-c 30 serves fewer than 30 clients (%d)" % (len(good) + 1))
        tap.is_(refused, TOO_MANY, "the next client gets an error and is closed")
        tap.ok(int(control.stats()["rejected_connections"]) > 0, "rejected_connections counts it")
        tap.is_(control.set(b"k", b"v"), b"STORED\r\n", "connected clients are still served")
        for other in good:
            other.close()

        def served():
            other = memcached.stream()
            try:
                return version(other).startswith(b"VERSION")
            finally:
                other.close()

        tap.ok(server.wait_for(served), "after they have left a new client is served")


def impatient(memcached):
    """A socket that connects in the background."""
    other = socket.socket()
    other.setblocking(False)
    other.connect_ex((memcached.host, memcached.port))
    return other


def answered(others):
    """Those of the sockets on which the server has sent something."""
    return select.select(others, [], [], 0)[0]


@tap.case
def without_maxconns_fast():
    with server.Server("-c", "30", "-o", "no_maxconns_fast", udp=False) as memcached, \
            memcached.stream() as control:
        others = [impatient(memcached) for _ in range(40)]
        for other in others:
            select.select([], [other], [])
            other.send(b"version\r\n")
        tap.ok(server.wait_for(lambda: int(control.stats()["listen_disabled_num"]) > 0),
               "listen_disabled_num counts that no more clients are accepted")
        accepted = list(control.stats("conns").values()).count(
            "tcp:127.0.0.1:%d" % memcached.port) - 2 # the listener, and this connection's
        server.wait_for(lambda: len(answered(others)) >= accepted)
        served = answered(others)
        tap.ok(10 <= len(served) < 30, "with no_maxconns_fast surplus clients wait (%d of 40)" %
               (40 - len(served)))
        tap.is_({other.recv(8) for other in served}, {b"VERSION "}, "the others are served")
        for other in served:
            other.close()
        waiting = [other for other in others if other not in served]
        tap.ok(server.wait_for(lambda: answered(waiting)),
               "a waiting client is served when others leave")
        tap.ok(int(control.stats()["time_in_listen_disabled_us"]) > 0,
               "time_in_listen_disabled_us counts the time")
        for other in waiting:
            other.close()


def is_closed(stream):
    """Of a client that has read everything: whether the server has closed it."""
    stream.sock.settimeout(0.05)
    try:
        return stream.sock.recv(1) == b""
    except TimeoutError:
        return False


@tap.case
@tap.uninterrupted(2)
def idle_connections_are_closed():
    with server.Server("-o", "idle_timeout=4") as memcached:
        idle, busy, udp = memcached.stream(), memcached.stream(), memcached.udp()
        half = memcached.stream()
        half.send(b"set k 0 0 10\r\nabc")
        udp.ask(b"get none\r\n")
        idle.ask(b"version\r\n")

        def closed():
            busy.ask(b"version\r\n")
            return is_closed(idle)

        tap.ok(server.wait_for(closed), "an idle connection is closed")
        tap.is_(busy.set(b"k", b"v"), b"STORED\r\n", "an active connection stays open")
        tap.is_(udp.ask(b"get none\r\n"), b"END\r\n", "the UDP sockets stay open")
        tap.ok(int(busy.stats()["idle_kicks"]) >= 1, "idle_kicks counts it")
    with server.Server() as memcached:
        tap.ok("idle_kicks" not in memcached.stats(), "without idle_timeout there is no idle_kicks")


@tap.case
@tap.uninterrupted(1.5)
def a_part_of_a_line_is_no_command_but_a_part_of_a_value_counts():
    with server.Server("-o", "idle_timeout=3") as memcached:
        line, value = memcached.stream(), memcached.stream()
        line.send(b"get ")
        value.send(b"set k 0 0 100000\r\n")
        nsent = 0

        def kicked():
            nonlocal nsent
            value.send(b"v")
            nsent += 1
            try:
                line.send(b"x")
                return is_closed(line)
            except ConnectionError:
                return True

        tap.ok(server.wait_for(kicked), "a client that sends a line byte by byte is closed")
        tap.is_(value.ask(b"v" * (100000 - nsent) + b"\r\n"), b"STORED\r\n",
                "a client that sends a value byte by byte is not")
        tap.is_(value.to_end(b"set k 0 0 10\r\nv"), b"", "one that stops inside a value is")


@tap.case
@tap.uninterrupted(0.5)
def the_time_of_a_dump_is_not_idle():
    items = b"".join(b"set %0240d 0 0 1 noreply\r\nv\r\n" % i for i in range(20000))
    with server.Server("-m", "256", "-o", "idle_timeout=5") as memcached, \
            memcached.stream() as filling:
        filling.all(items)
        dumping = memcached.stream()
        dumping.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16) # the dump is 6 MB
        dumping.send(b"lru_crawler metadump all\r\n")
        dumping.exactly(1000)
        tap.ok(server.wait_for(lambda: int(memcached.stats()["idle_kicks"]) > 0),
               "an idle connection is closed meanwhile")
        dumping.until(b"END\r\n")
        began, mine = time.monotonic(), "tcp:127.0.0.1:%d" % dumping.sock.getsockname()[1]

        def fresh():
            rows = memcached.stats("conns")
            number = next(key.split(":")[0] for key, value in rows.items() if value == mine)
            return int(rows[number + ":secs_since_last_cmd"]) <= time.monotonic() - began + 1

        tap.ok(server.wait_for(fresh), "the time without a command begins behind the dump")


@tap.case
@tap.uninterrupted(1.5)
def a_client_that_takes_long_to_read_is_not_idle():
    with server.Server("-o", "idle_timeout=3") as memcached:
        control, slow, stuck = (memcached.stream() for _ in range(3))
        control.set(b"k", b"v" * 1000000)
        for c in (slow, stuck):
            c.send(b"get%s\r\n" % (b" k" * 500))
            c.exactly(1000)
        control.ask(b"version\r\n")

        def goes_on(size):
            try:
                return len(slow.exactly(size)) == size
            except client.Closed:
                return False

        def kicked():
            goes_on(200000)
            return is_closed(control)

        tap.ok(server.wait_for(kicked), "a connection that is idle is closed")
        tap.ok(goes_on(30000000), "one that goes on reading a long reply is not")
        other = memcached.stream()
        tap.ok(server.wait_for(lambda: int(other.stats()["idle_kicks"]) > 1),
               "one whose reply is not read is closed")


@tap.case
def many_connections():
    with server.Server("-c", "2000", threads=4, udp=False) as memcached, \
            memcached.stream() as control:
        control.set(b"k", b"v")
        others = [memcached.stream() for _ in range(400)]
        for other in others:
            other.send(b"get k\r\n")
        want = b"VALUE k 0 1\r\nv\r\nEND\r\n"
        tap.ok(all(other.exactly(len(want)) == want for other in others),
               "400 connections are served by 4 workers")
        tap.ok(int(control.stats()["curr_connections"]) >= 401, "curr_connections counts them")
        for other in others[::2]:
            other.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            other.close()
        tap.ok(all(other.get(b"k") == b"v" for other in others[1::2]),
               "resets of half of them do not affect the others")
        for other in others[1::2]:
            other.close()
        tap.ok(server.wait_for(lambda: int(control.stats()["curr_connections"]) < 10),
               "after they are closed none is counted")


@tap.case
def read_buf_mem_limit():
    """Half lines of 30,000 bytes, of 60 clients: 34 of them take a megabyte."""
    half = b"get " + b"k" * 240 + b" "
    half += b"x " * ((30000 - len(half)) // 2)
    for threads, limit in ((1, 0), (1, 1), (2, 1)):
        with server.Server("-o", "read_buf_mem_limit=%d" % limit, threads=threads,
                           udp=False) as other, other.stream() as control:
            clients = [other.stream() for _ in range(60)]
            for c in clients:
                c.ask(b"version\r\n")
            for c in clients:
                c.send(half)
            most = 60 if limit == 0 else 34
            tap.ok(server.wait_for(lambda: int(control.stats()["curr_connections"]) <= 1 + most),
                   "read_buf_mem_limit=%d, %d threads: the others are disconnected" %
                   (limit, threads))
            kept = int(control.stats()["curr_connections"]) - 1
            tap.ok(most - 2 <= kept <= most, "%d clients keep half a line" % kept)
            # The threads have read all that was sent before.
            tap.is_(sum(c.to_end(b"\r\nquit\r\n") == b"END\r\n" for c in clients), kept,
                    "those get their answer when it ends")
            tap.is_(other.stream().ask(b"get k\r\n"), b"END\r\n",
                    "then another client may send whole lines")
            c = other.stream()
            c.send(half)
            tap.is_(c.to_end(b"\r\nquit\r\n"), b"END\r\n", "and half of one")


@tap.case
def tcp_details():
    with server.Server() as memcached, memcached.stream() as c:
        c.send(b"get none\r\n")
        c.sock.shutdown(socket.SHUT_WR)
        tap.is_(c.to_end(), b"END\r\n",
                "a client that has shut down its sending side gets its answer")
        c = client.Stream(("127.0.0.1", memcached.port))
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.set(b"v", b"x" * 1000000)
        c.send(b"get v\r\n" * 20)
        c.close()
        tap.is_(memcached.stream().get(b"v"), b"x" * 1000000,
                "a client that disconnects within large answers affects no other")


@tap.case
def ipv6():
    with server.Server(host="::1") as memcached, memcached.stream() as c:
        tap.is_(c.set(b"k", b"v"), b"STORED\r\n", "TCP over IPv6")
        tap.is_(memcached.udp().ask(b"get k\r\n"), b"VALUE k 0 1\r\nv\r\nEND\r\n", "UDP over IPv6")
        tap.ok(any(v.startswith("tcp6:[::1]:") for v in memcached.stats("conns").values()),
               "stats conns shows tcp6:[::1]:PORT")


def backlog(stream, line):
    """Sends as many of these lines as the sockets hold; returns their number."""
    stream.sock.setblocking(False)
    nbytes = stream.sock.send(line * ((64 << 20) // len(line)))
    stream.sock.settimeout(20)
    return nbytes // len(line)


@tap.case
def clients_with_many_requests_do_not_starve_others():
    """All of it waits for the server when it goes on, so that the order is its own."""
    miss = b"mg x q\r\n"  # short requests without an answer, so that a turn ends before the input
    with server.Server("-R", "1", threads=1) as other:
        udp, tcp, *streams = other.udp(), *(other.stream() for _ in range(9))
        for stream in tcp, *streams:
            stream.ask(b"version\r\n")
        other.pause()
        every = sum(backlog(stream, miss) for stream in streams)
        tcp.send(b"stats\r\n" * 30) # their answers have room in the sockets
        datagram = udp.send(b"stats\r\n")
        other.resume()
        answers = [udp.message(datagram)], [tcp.until(b"END\r\n") for _ in range(30)]
        for name, each in zip(("UDP", "TCP"), answers):
            seen = [0] + [int(re.search(rb"STAT cmd_get (\d+)", text)[1]) for text in each]
            most = max(b - a for a, b in zip(seen, seen[1:]))
            # One of each client; a server that reads all that one has sent executes 160,000.
            tap.ok(most < 1000, "%s: another client is answered behind at most %d of %d gets" %
                   (name, most, every))


tap.run()
