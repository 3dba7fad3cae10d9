#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The same hostile input in text, meta and binary, over TCP, a unix socket and UDP."""
import os
import random
import socket
import struct

import binary as b
import client
import server
import tap

rng = random.Random(29)
TEXT_WORDS = [b"get", b"gets", b"gat", b"set", b"add", b"append", b"cas", b"incr", b"delete",
              b"touch", b"k", b"k" * 251, b"0", b"1", b"-1", b"99999999999999999999", b"noreply",
              b"\r\n", b"\n", b"\0", b"value\r\n", b"stats", b"items", b"HTTP/1.1", b"\x80"]
META_WORDS = [b"mg", b"ms", b"md", b"ma", b"mn", b"me", b"k", b"2", b"2147483647", b"-1", b"v",
              b"b", b"T0", b"T99999999999", b"N1", b"C0", b"E1", b"MA", b"MZ", b"O" * 40, b"q",
              b"\r\n", b"hi\r\n", b"\n", b"=" * 250, b"I", b"J1", b"D1"]


def text_input(words):
    data = b" ".join(rng.choice(words) for _ in range(rng.randrange(1, 30)))
    return data.replace(b" \r\n ", b"\r\n") + rng.choice((b"", b"\r\n"))


def binary_input():
    data = b""
    for _ in range(rng.randrange(1, 6)):
        nkey, nextras = rng.choice((0, 1, 3, 250, 251, 65535)), rng.choice((0, 4, 8, 20, 255))
        data += b.request(rng.choice((rng.randrange(256), rng.randrange(0x26))), b"key", b"value",
                          bytes(rng.choice((0, 4, 8, 20))), opaque=rng.getrandbits(32),
                          cas=rng.choice((0, 0, 1)), nkey=rng.choice((3, 3, nkey)),
                          nextras=rng.choice((8, nextras)),
                          nbody=rng.choice((16, 8, 0, 20, 0x7fffffff, 0xffffffff, 2000000)))
    return data[:rng.choice((len(data), rng.randrange(1, len(data))))]


INPUTS = (("text", lambda: text_input(TEXT_WORDS)), ("meta", lambda: text_input(META_WORDS)),
          ("binary", binary_input))
# Each once, to the end: the numbers and lines that have harmed memcached.
ONCE = ([b"%s k 0 0 %s\r\nabc\r\n" % (verb, n) for verb in (b"set", b"append", b"cas")
         for n in (b"-1", b"2147483647", b"4294967295", b"9223372036854775807", b"1" * 300)] +
        [b"ms k %s\r\nabc\r\n" % n for n in (b"-1", b"2147483647", b"4294967297", b"1" * 300)] +
        [start + start[-1:] * 2000000 for start in (b"a", b"get k", b" ", b"mg ", b"\x80")] +
        [b"get" + b" " * 100000 + b"k\r\n", b"\n" * 10000, b" \r\n" * 10000,
         b"mg\r\n" * 1000, b"me\r\nms\r\nmd\r\nma\r\n", b"get" + b" k" * 70000 + b"\r\n",
         b"gets" + b" k" * 70000 + b"\r\n", b"mg k v\r\n" * 70000,
         b.request("getk", b"k") * 70000, b.request("getkq", b"k") * 70000,
         b.store("set", b"k", b"", nbody=0xffffffff), b.request("append", b"", nkey=65535)])


def throw(memcached, data):
    """Sends, reads a little, and leaves in one of three ways."""
    other = memcached.stream()
    other.sock.settimeout(0.01)
    try:
        other.send(data)
        other.sock.recv(4096)
    except OSError:
        pass
    if rng.random() < 0.3 and other.sock.family != socket.AF_UNIX:
        other.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_well(memcached, name):
    control = memcached.stream()
    control.all(b"verbosity 0\r\n")
    got = (control.set(b"alive", b"yes"), control.get(b"alive"),
           b.Binary(memcached.stream()).ask(b.request("get", b"alive")).value)
    tap.is_(got, (b"STORED\r\n", b"yes", b"yes"), "%s: it serves" % name)
    tap.ok(server.wait_for(lambda: int(control.stats()["curr_connections"]) < 10),
           "no connection of them is left")
    tap.ok(memcached.resident() < 300, "no memory is lost (%d MB)" % memcached.resident())


def storm(memcached, name):
    memcached.stream().set(b"k", b"5")
    for data in ONCE:
        throw(memcached, data)
    is_well(memcached, "%s, each known attack" % name)
    for kind, make in INPUTS:
        for _ in range(300):
            throw(memcached, make())
        is_well(memcached, "%s, 300 of %s" % (name, kind))
    tap.is_(memcached.stop(), 0, "%s: the server ends with status 0" % name)


@tap.case
def over_tcp():
    storm(server.Server(threads=2, udp=False), "TCP")


@tap.case
def over_a_unix_socket():
    path = os.path.join(server.scratch(), "s")
    storm(server.Server(unix=path), "a unix socket")


@tap.case
def over_a_unix_socket_under_vv():
    path = os.path.join(server.scratch(), "x" * 60)
    storm(server.Server("-vv", unix=path), "a unix socket under -vv")


@tap.case
def over_udp():
    memcached = server.Server(threads=1)
    memcached.stream().set(b"k", b"5")
    udp = memcached.udp()

    def drained():
        other = memcached.udp(seconds=1)
        try:
            return other.ask(b"get k\r\n").startswith((b"VALUE", b"END"))
        except (TimeoutError, client.FrameError):
            return False
        finally:
            other.close()

    for data in ONCE:
        udp.send(data[:60000])
        udp.send(data[:60000], count=rng.choice((0, 2, 65535)))
        server.wait_for(drained)
    is_well(memcached, "UDP, each known attack")
    for kind, make in INPUTS:
        for number in range(600):
            udp.send(make()[:60000], count=rng.choice((1, 1, 1, 0, 2)))
            if number % 50 == 0:
                server.wait_for(drained)
        server.wait_for(drained)
        is_well(memcached, "UDP, 600 of %s" % kind)
    tap.is_(memcached.stop(), 0, "UDP: the server ends with status 0")


tap.run()
