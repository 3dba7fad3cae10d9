#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The options of the server's own sockets, read through pidfd_getfd."""
import os
import socket

import openfiles
import server
import tap

SO_REUSEPORT = 15


def borrowed(memcached):
    """The server's sockets, as sockets of this process."""
    found = [socket.socket(fileno=fd) for fd in openfiles.copies(memcached.pid, "socket:").values()]
    return [s for s in found if s.family in (socket.AF_INET, socket.AF_INET6)]


def option(sock, name, level=socket.SOL_SOCKET):
    return sock.getsockopt(level, name)


@tap.case
def connections():
    with server.Server(threads=2) as memcached, memcached.stream() as c:
        c.ask(b"version\r\n")
        mine = c.sock.getsockname()
        ours = [s for s in borrowed(memcached) if s.type == socket.SOCK_STREAM and
                not option(s, socket.SO_ACCEPTCONN) and s.getpeername() == mine]
        tap.is_(len(ours), 1, "the server has one socket for the connection")
        for name, level in (("TCP_NODELAY", socket.IPPROTO_TCP),
                            ("SO_KEEPALIVE", socket.SOL_SOCKET)):
            tap.ok(option(ours[0], getattr(socket, name), level), "%s is set on it" % name)


@tap.case
def listeners():
    with server.Server("-b", "77", threads=2) as memcached:
        listening = [s for s in borrowed(memcached) if s.type == socket.SOCK_STREAM and
                     option(s, socket.SO_ACCEPTCONN)]
        tap.is_(len(listening), 1, "one listener for one address")
        tap.ok(option(listening[0], socket.SO_REUSEADDR), "SO_REUSEADDR is set on it")
        tap.ok(not option(listening[0], SO_REUSEPORT),
               "SO_REUSEPORT is not: a second process cannot take connections")


def datagram_sockets(memcached):
    return [s for s in borrowed(memcached) if s.type == socket.SOCK_DGRAM]


@tap.case
def udp_sockets():
    plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM).getsockopt(socket.SOL_SOCKET,
                                                                       socket.SO_SNDBUF)
    for threads in (1, 2, 4):
        with server.Server(threads=threads) as memcached:
            sockets = datagram_sockets(memcached)
            tap.is_(len(sockets), threads, "%d workers: as many UDP sockets, and no more" % threads)
            tap.ok(all(option(s, socket.SO_SNDBUF) > plain for s in sockets),
                   "SO_SNDBUF is as large as allowed (%d)" % option(sockets[0], socket.SO_SNDBUF))
            ports = {s.getsockname()[1] for s in sockets}
            tap.is_(ports, {memcached.port}, "all have one port")
    with server.Server("-o", "no_reuseport", threads=4) as memcached:
        tap.is_(len({os.fstat(s.fileno()).st_ino for s in datagram_sockets(memcached)}), 1,
                "-o no_reuseport: all workers share one socket")
    with server.Server("-o", "reuseport", threads=2) as memcached:
        tap.is_(len(datagram_sockets(memcached)), 2, "-o reuseport is the default")


@tap.case
def udp_sockets_have_room_for_requests():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        least = option(probe, socket.SO_RCVBUF)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 512 * 1024)
        want = max(least, option(probe, socket.SO_RCVBUF))
    with server.Server(threads=2) as memcached:
        tap.is_({option(s, socket.SO_RCVBUF) for s in datagram_sockets(memcached)}, {want},
                "SO_RCVBUF is 512 KB, doubled, as far as allowed, and at least the default")


@tap.case
def an_ephemeral_port_is_one_port():
    with server.Server("-U", "-1", threads=4) as memcached:
        ports = {s.getsockname()[1] for s in datagram_sockets(memcached)}
        tap.is_(len(ports), 1, "-U -1: the sockets of all workers have the same port")
        tap.ok(0 not in ports, "there is one such port")


try:
    with server.Server() as first:
        borrowed(first)
except (AttributeError, PermissionError) as why:
    tap.skip_all(str(why))
tap.run()
