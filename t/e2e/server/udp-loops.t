#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A forged datagram never makes two servers answer each other endlessly.

A has 127.0.0.1 and B 127.0.0.2, one worker each, which executes datagrams in order.
"""
import errno
import os
import socket
import struct

import binary
import client
import netns
import server
import tap

A, B = "127.0.0.1", "127.0.0.2"
ROUNDS = 50
PACKET_OUTGOING = 4
HIT = b"VALUE k 0 1\r\nv\r\nEND\r\n"

if os.geteuid() == 0: # the ports of an own machine are free, and its lo carries nothing of others
    netns.enter(netns.Pair(links=0).server)


def frame(payload):
    return struct.pack("!HHHH", 7, 0, 1, 0) + payload


class Wire:
    """Every packet of lo, and a raw socket to forge some with."""

    def __init__(self):
        self.seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        self.seen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self.seen.bind(("lo", 0x0800))
        self.seen.setblocking(False)
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def forge(self, source, to, payload):
        udp = struct.pack("!HHHH", source[1], to[1], 8 + len(payload), 0) + payload
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                         socket.inet_aton(source[0]), socket.inet_aton(to[0]))
        self.raw.sendto(ip + udp, (to[0], 0))

    def between(self, ends):
        """How many datagrams were sent between these two (address, port) since the last call."""
        count = 0
        while True:
            try:
                packet, about = self.seen.recvfrom(2048)
            except BlockingIOError:
                return count
            if about[2] != PACKET_OUTGOING or packet[9] != 17:
                continue
            ports = struct.unpack("!HH", packet[20:24])
            pair = {(socket.inet_ntoa(packet[12 + 4 * i:16 + 4 * i]), ports[i]) for i in (0, 1)}
            count += pair == ends


def loops(wire, first, second, where):
    """The datagrams that follow a forged one. first, second: (server, address)."""
    ends = {(host, one.port) for one, host in (first, second)}
    for one, host in (first, second):
        one.stream().set(b"loop", b"x\r\nget loop\r\n\nget loop\n")
        one.stream().set(b"n", b"5")
    asked = [client.Udp(host, one.port) for one, host in (first, second)]
    for request in (b"get nothing\r\n", b"foo\r\n", b"ERROR\r\n", b"END\r\n", b"version\r\n",
                    b"get loop\r\n", b"mg loop v\r\n", b"incr n 1\r\n", b"stats\r\n", b"mn\r\n",
                    b"incr n x\r\n", b"set n 0 0 1\r\n5\r\n", b"\r\n", b"VALUE n 0 1\r\n",
                    binary.request("get", b"loop"), binary.request("getk", b"loop"),
                    binary.request("version"), binary.request("noop")):
        for source, to in ((second, first), (first, second)):
            wire.between(ends)
            wire.forge((source[1], source[0].port), (to[1], to[0].port), frame(request))
            # Each round of requests lets a loop go round at least once.
            for _ in range(ROUNDS):
                for udp in asked:
                    udp.ask(b"mn\r\n")
            count = wire.between(ends) - 1
            if count > 8:
                tap.ok(False, "%s, %r: %d datagrams follow it" % (where, request, count))
                return
    tap.ok(True, "%s: no forged datagram is followed by more than eight" % where)


@tap.case
def two_servers_and_a_forged_datagram():
    try:
        wire = Wire()
    except PermissionError:
        tap.ok(True, "a forged datagram # SKIP a raw socket needs root")
        return
    with server.Server(threads=1) as one:
        with server.Server(threads=1, port=one.port, host=B) as other:
            loops(wire, (one, A), (other, B), "on the same port")
        with server.Server(threads=1, host=B) as other:
            loops(wire, (one, A), (other, B), "on different ports")


def bound(host, port, to):
    udp = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((host, port))
    udp.connect((host if ":" in host else A, to))
    udp.settimeout(client.SECONDS)
    return udp


@tap.case
def sources_that_the_server_answers():
    """The same sources as those of the kernel programs: t/bpf/passes.c test_sources,
    t/bpf/shapes.c."""
    for listen, host, fit in (("127.0.0.1", B, (1024, 11210, 11212, 65535)),
                              ("::1", "::1", (1025, 11213))):
        with server.Server(threads=1, host=listen) as m:
            m.stream().set(b"k", b"v")
            plain = m.udp()
            unfit = [1, 7, 19, 53, 1023, 11211] + [m.port] * (host != listen)
            for port in unfit + list(fit):
                try:
                    udp = bound(host, port, m.port)
                except OSError as error:
                    if error.errno not in (errno.EACCES, errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                        raise
                    tap.ok(True, "from %s port %d # SKIP %s" % (host, port, error))
                    continue
                udp.send(frame(b"get k\r\n"))
                if port in unfit:
                    plain.ask(b"mn\r\n")
                    udp.setblocking(False)
                try:
                    got = udp.recv(2048)[8:]
                except BlockingIOError:
                    got = None
                udp.close()
                tap.is_(got, HIT if port in fit else None, "a get from %s port %d is %sanswered" %
                        (host, port, "" if port in fit else "not "))
            # It is not executed either.
            udp = bound(host, 11211, m.port)
            udp.send(frame(b"set k 0 0 1\r\nw\r\n"))
            plain.ask(b"mn\r\n")
            udp.close()
            tap.is_(m.stream().get(b"k"), b"v", "a set from there is not executed")
            tap.is_(m.log().count("are not answered: that may be another server"), 1,
                    "it is logged once")


tap.run()
