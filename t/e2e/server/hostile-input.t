#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""Input that has harmed memcached before, by class, over the text protocol and UDP."""
import random
import socket
import struct
import time

import server
import tap

rng = random.Random(22)
memcached = server.Server("-m", "64", threads=2)


def serves(name):
    """Checks that the server still answers, over TCP and UDP."""
    control = memcached.stream()
    good = control.set(b"alive", b"yes") == b"STORED\r\n" and control.get(b"alive") == b"yes"
    # A datagram may be lost in a socket that was just flooded: some are sent, one is enough.
    for _ in range(10):
        udp = memcached.udp(seconds=1)
        try:
            answer = udp.ask(b"get alive\r\n")
            break
        except TimeoutError:
            answer = None
        finally:
            udp.close()
    tap.is_((good, answer), (True, b"VALUE alive 0 3\r\nyes\r\nEND\r\n"), name)


def drain(udp):
    """Waits until the server has read everything that this socket has sent."""
    while True:
        ident = udp.send(b"version\r\n")
        udp.sock.settimeout(1)
        try:
            while udp.recv_raw()[:2] != struct.pack("!H", ident):
                pass
            return
        except TimeoutError:
            pass


def throw(data, patience=0.05):
    """Sends to a connection of its own; reads what arrives soon; resets."""
    other = memcached.stream()
    other.sock.settimeout(patience)
    try:
        other.send(data)
        other.sock.recv(1 << 20)
    except OSError:
        pass
    other.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@tap.case
def lengths_that_cannot_be():
    """CVE-2009-2415: huge and negative lengths."""
    for verb in (b"set", b"add", b"replace", b"append", b"prepend"):
        for length in (b"-1", b"-2", b"-2147483648", b"-2147483649", b"2147483645", b"2147483646",
                       b"2147483647", b"2147483648", b"4294967294", b"4294967295", b"4294967296",
                       b"9223372036854775807", b"9223372036854775808", b"18446744073709551615",
                       b"18446744073709551616", b"1" * 200, b"0x10", b"1e9", b"+5", b"5 5", b"-"):
            throw(b"%s k 0 0 %s\r\nabc\r\n" % (verb, length), 0.02)
    serves("after lengths from -2^63 to 2^64 the server answers")
    throw(b"cas k 0 0 -1 1\r\nabc\r\n")
    serves("after a cas of -1 bytes the server answers")
    tap.ok(memcached.resident() < 200, "no memory was taken for them (%d MB)" %
           memcached.resident())


@tap.case
def lines_without_an_end():
    """CVE-2010-1152: a line without a newline uses up memory."""
    for start in (b"a", b"set ", b" ", b"\0", b"\xff", b"gets", b"get", b"stats "):
        throw(start + start[-1:] * 3000000)
    serves("after lines of 3 MB without a newline the server answers")
    other = memcached.stream()
    try:
        other.send(b"get " + b"k" * 1000000)
        other.send(b"k" * 30000000)
    except OSError:
        pass
    tap.ok(memcached.resident() < 400, "an endless key takes little memory (%d MB)" %
           memcached.resident())
    other.close()
    other = memcached.stream()
    other.sock.settimeout(20)
    try:
        other.send(b"get")
        for _ in range(300):
            other.send(b" " * 100000)
    except OSError:
        pass
    tap.ok(memcached.resident() < 400, "endless spaces take little memory (%d MB)" %
           memcached.resident())
    other.close()
    other, nsent = memcached.stream(), 0
    try:
        other.send(b"get")
        while nsent < 600:
            other.send(b" key" * (1 << 18))
            nsent += 1
    except OSError:
        pass
    tap.ok(nsent < 600, "of endless keys %d MB are taken, then the connection is closed" % nsent)
    tap.ok(memcached.resident() < 400, "they take little memory (%d MB)" % memcached.resident())
    other.close()
    serves("the server still answers")


@tap.case
def keys_without_an_end_under_vv():
    """CVE-2013-0179: -vv logging reads a key that has no end."""
    with server.Server("-vv", threads=1) as loud:
        c, u = loud.stream(), loud.udp()
        longest = b"k" * 250
        c.set(longest, b"v")
        tap.is_(c.get(longest), b"v", "-vv logs a key of 250 bytes")
        for request in (b"get %s\r\n" % (longest + b"l"), b"delete %s\r\n" % (b"k" * 900),
                        b"get " + b"k " * 1000 + b"\r\n", b"%n%s%p%x\r\n", b"get %n%s%s%s%s\r\n",
                        b"\0\0\0\r\n", b"get \0\0\r\n", b"get \xff\xfe\r\n"):
            c.all(request)
            u.send(request)
        tap.is_(loud.udp().get(longest), b"v",
                "under -vv too long and too many keys, and bytes that are not text, do no harm")


@tap.case
def one_key_very_many_times():
    """CVE-2018-1000127: the reference count overflows."""
    control = memcached.stream()
    control.set(b"r", b"x")
    one = b"VALUE r 0 1\r\nx\r\n"
    for count in (65535, 65536, 65537, 131073):
        other = memcached.stream()
        other.send(b"get" + b" r" * count + b"\r\n")
        # The reply is not read yet: all of its references are held while the item is deleted.
        control.set(b"r", b"y")
        control.ask(b"delete r\r\n")
        for i in range(200):
            control.set(b"other%d" % i, b"z")
        rest = other.line()
        if rest.startswith(b"VALUE"):
            rest += other.until(b"\r\nEND\r\n")[:-len(b"END\r\n")]
        good = (rest.replace(one, b"").replace(b"VALUE r 0 1\r\ny\r\n", b"") in (b"", b"END\r\n") or
                rest.startswith(b"SERVER_ERROR"))
        tap.ok(good, "a get of %d times the same key returns its value each time" % count)
        control.set(b"r", b"x")
        other.close()
    others = [memcached.stream() for _ in range(20)]
    for other in others:
        other.send(b"get" + b" r" * 5000 + b"\r\n")
    control.ask(b"delete r\r\n")
    tap.ok(all(other.until(b"END\r\n").replace(one, b"") == b"END\r\n" for other in others),
           "20 connections with 5,000 times the same key are answered")
    serves("the server still answers")


@tap.case
def keys_behind_very_many_blanks():
    c = memcached.stream()
    c.set(b"r", b"x")
    one = b"VALUE r 0 1\r\nx\r\n"
    c.send(b"get" + b" " * 70000 + b" r" * 100000 + b"\r\n")
    tap.is_(c.until(b"END\r\n"), one * 100000 + b"END\r\n", "each key has its answer")
    c.send(b"get" + b" " * 70000 + b" r" * 8000000 + b"\r\n")
    tap.is_(c.exactly(len(one)), one, "very many keys are answered")
    tap.ok(memcached.resident() < 400, "they take little memory (%d MB)" % memcached.resident())
    c.close()
    serves("the server still answers")


@tap.case
def missing_words():
    """CVE-2019-11596, CVE-2020-22570: commands with arguments missing or out of range."""
    lines = []
    for verb in (b"lru", b"lru mode", b"lru mode x", b"lru tune", b"lru temp_ttl", b"slabs",
                 b"slabs reassign", b"slabs automove", b"lru_crawler", b"lru_crawler crawl",
                 b"lru_crawler sleep", b"lru_crawler tocrawl", b"lru_crawler metadump", b"watch x",
                 b"extstore", b"cache_memlimit", b"verbosity", b"stats detail", b"stats cachedump",
                 b"mg", b"ms", b"md", b"ma", b"mn", b"me", b"set", b"get", b"gat", b"touch",
                 b"incr",
                 b"flush_all", b"delete", b"cas", b"stats", b"misbehave", b"refresh_certs"):
        for rest in (b"", b" ", b" 0", b" -1", b" 0 0", b" -1 -1", b" 99999999999 9",
                     b" a b c d e f g",
                     b" 0 0 0 0 0 0 0 0 0 0", b" " + b"9" * 40, b" \0"):
            lines.append(verb + rest + b"\r\n")
    for line in lines:
        other = memcached.stream()
        other.sock.settimeout(0.5)
        other.send(line + b"quit\r\n")
        try:
            while other.sock.recv(65536):
                pass
        except OSError:
            pass
        other.close()
    serves("after %d commands with missing and out-of-range arguments the server answers" %
           len(lines))
    udp = memcached.udp()
    for line in lines:
        udp.send(line)
        if len(line) % 4 == 0:
            drain(udp)
    drain(udp)
    serves("it answers after the same over UDP")
    # Some of those were accepted: settings are restored.
    memcached.stream().all(b"verbosity 0\r\n")


@tap.case
def spaces_and_empty_lines():
    """CVE-2023-46852, -46853: very many spaces between keys; a bare newline."""
    c = memcached.stream()
    c.set(b"s", b"1")
    one = b"VALUE s 0 1\r\n1\r\n"
    for count in (1, 100, 1023, 1024, 2047, 2048, 2049, 16383, 16384, 100000):
        gap = b" " * count
        tap.is_(c.all(b"get s%ss%s\r\n" % (gap, gap)), one * 2 + b"END\r\n",
                "%d spaces between and behind two keys are accepted" % count)
    tap.is_(c.all(b"\n" * 1000), b"ERROR\r\n" * 1000, "1,000 bare newlines are 1,000 errors")
    tap.is_(c.all(b"   \r\n\r\n \n"), b"ERROR\r\n" * 3, "lines of spaces are errors")
    tap.is_(c.all(b"get s\n\nget s\r\n"), one + b"END\r\nERROR\r\n" + one + b"END\r\n",
            "an empty line between two gets is an error")
    for tail in (b"get s \n", b"get s\r\r\n", b"get s\n", b"\r\n", b"gets\n"):
        c.all(tail)
    serves("the server still answers")


@tap.case
def datagrams_of_every_kind():
    """CVE-2022-48571: frames of 8 or 9 bytes, several datagrams, count 0."""
    udp = memcached.udp()
    for size in range(0, 30):
        for count in (0, 1, 2, 65535):
            frame = struct.pack("!HHHH", 1, 0, count, 0)
            udp.send_raw((frame + b"get alive\r\n" * 3)[:size])
            udp.send_raw((frame + b"\n" * 30)[:size])
            udp.send_raw((frame + b"\x80" * 30)[:size])
    for size in (1400, 1472, 1473, 9000, 65507):
        udp.send_raw((struct.pack("!HHHH", 1, 0, 1, 0) + b"a" * 65507)[:size])
        udp.send_raw((struct.pack("!HHHH", 1, 0, 1, 0) + b"get " + b"a " * 40000)[:size])
        udp.send_raw((struct.pack("!HHHH", 1, 0, 1, 0) + b"\n" * 65507)[:min(size, 1400)])
    udp.close()
    serves("after datagrams of 0 to 65,507 bytes and every count the server answers")


@tap.case
def udp_is_off_by_default():
    """CVE-2018-1000115: amplification. UDP is off by default."""
    port = server.free_port()
    with server.Server("-p", port, "-l", "127.0.0.1", "-u", server.USER, plain=True, port=port):
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        probe.connect(("127.0.0.1", port))
        probe.send(struct.pack("!HHHH", 1, 0, 1, 0) + b"stats\r\n")
        probe.settimeout(20)
        try:
            probe.recv(100)
            tap.ok(False, "without -U no UDP port is open")
        except ConnectionRefusedError:
            tap.ok(True, "without -U no UDP port is open")


@tap.case
def random_bytes():
    """CVE-2017-9951: reading past the buffer in search of the command."""
    words = [b"get", b"gets", b"set", b"add", b"cas", b"incr", b"touch", b"gat", b"delete", b"k",
             b"0",
             b"-1", b"1", b"5", b"noreply", b" ", b"  ", b"\r\n", b"\n", b"\r", b"\0", b"stats",
             b"abc",
             b"value\r\n", b"99999999999999999999", b"verbosity", b"version", b"flush_all", b"\x80",
             b"k" * 251, b"append", b"prepend", b"replace", b"decr", b"HTTP/1.1"]
    end = time.monotonic() + 4
    count = 0
    udp = memcached.udp()
    while time.monotonic() < end:
        if rng.random() < 0.3:
            data = rng.randbytes(rng.choice((1, 2, 7, 8, 9, 23, 24, 25, 100, 1500, 5000)))
        else:
            data = b" ".join(rng.choice(words) for _ in range(rng.randrange(1, 40)))
            data = data.replace(b" \r\n ", b"\r\n").replace(b"\n ", b"\n") + b"\r\n"
        other = memcached.stream()
        try:
            for at in range(0, len(data), max(1, len(data) // 3)):
                other.send(data[at:at + max(1, len(data) // 3)])
            udp.send(data[:1400], count=rng.choice((1, 1, 1, 0, 2)))
            udp.send_raw(data[:1400])
            other.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        other.to_end()
        other.close()
        count += 1
    memcached.stream().all(b"verbosity 0\r\n")
    serves("after %d random and half-right inputs over TCP and UDP the server answers" % count)


@tap.case
def clients_that_stop_reading():
    c = memcached.stream()
    c.set(b"large", b"L" * 1000000)
    others = [memcached.stream() for _ in range(20)]
    for other in others:
        other.sock.setblocking(False)
        try:
            other.sock.send(b"get large large large\r\n" * 1000)
        except OSError:
            pass
    serves("20 clients that ask for 3 GB each and read nothing do not block the others")
    tap.ok(memcached.resident() < 400, "they take little memory (%d MB)" % memcached.resident())
    for i in range(100):
        c.set(b"large", b"%d" % i * 300000)
    serves("they do not block others when their item is overwritten 100 times")
    for other in others:
        other.close()
    tap.ok(server.wait_for(lambda: int(c.stats()["curr_connections"]) < 15),
           "after they are closed no connection is left")


@tap.case
def half_a_command_on_many_connections():
    others = []
    for i in range(300):
        other = memcached.stream()
        other.send((b"set half%d 0 0 500000\r\nabc" % i, b"get half", b"se", b"set a 0 0 ")[i % 4])
        others.append(other)
    serves("300 connections with half a command do not block the others")
    tap.ok(memcached.resident() < 400, "they take little memory (%d MB)" % memcached.resident())
    for other in others:
        other.close()
    c = memcached.stream()
    tap.ok(server.wait_for(lambda: int(c.stats()["curr_connections"]) < 15),
           "after they are closed no connection is left")
    tap.is_(c.set(b"after", b"x" * 500000), b"STORED\r\n",
            "the memory that they reserved is free again")


tap.run(ends=memcached)
