#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unix sockets: -s and -a."""
import os
import pwd
import socket
import stat

import server
import tap


@tap.case
def a_unix_socket_answers():
    path = os.path.join(server.scratch(), "sock")
    with server.Server(unix=path) as memcached, memcached.stream() as c:
        tap.is_(c.set(b"foo", b"bar"), b"STORED\r\n", "set over a unix socket is answered")
        tap.is_(c.get(b"foo"), b"bar", "get over a unix socket returns the value")
        value = bytes(range(256)) * 2000
        c.set(b"large", value)
        tap.ok(c.get(b"large") == value, "a value of 512,000 bytes is returned")
        tap.is_(c.all(b"get foo\r\n" * 1000), b"VALUE foo 0 3\r\nbar\r\nEND\r\n" * 1000,
                "1,000 pipelined gets")
        other = memcached.stream()
        tap.is_(other.get(b"foo"), b"bar", "a second connection sees the same items")
        settings = memcached.stats("settings")
        tap.is_(settings["domain_socket"], path, "stats settings shows the path")
        conns = memcached.stats("conns")
        tap.ok("unix:" + path in conns.values(), "stats conns shows unix:PATH")
        tap.is_(other.to_end(b"quit\r\n"), b"", "quit closes")


@tap.case
def it_has_the_given_mode():
    for arguments, mode in (((), 0o700), (("-a", "0777"), 0o777), (("-a", "0666"), 0o666),
                            (("-a", "600"), 0o600)):
        path = os.path.join(server.scratch(), "sock")
        with server.Server(*arguments, unix=path):
            got = os.stat(path)
            tap.ok(stat.S_ISSOCK(got.st_mode), "the path is a socket")
            tap.is_(oct(stat.S_IMODE(got.st_mode)), oct(mode),
                    "its mode with %s" % (" ".join(arguments) or "no -a"))


@tap.case
def it_belongs_to_the_user():
    """As with memcached, which creates it as the user of -u."""
    if os.geteuid() != 0:
        return
    path = os.path.join(server.scratch(), "sock")
    with server.Server(unix=path):
        tap.is_(os.stat(path).st_uid, pwd.getpwnam(server.USER).pw_uid,
                "the socket belongs to the user of -u")
    closed = os.path.join(server.scratch(), "closed")
    os.mkdir(closed, 0o755)
    status, _, err = server.run("-s", os.path.join(closed, "sock"))
    tap.ok(status not in (0, None) and "Permission denied" in err,
           "a folder where this user may not create it ends the start")


@tap.case
def the_network_is_off():
    path = os.path.join(server.scratch(), "sock")
    port = server.free_port()
    with server.Server("-p", port, "-U", port, unix=path):
        probe = socket.socket()
        tap.ok(probe.connect_ex(("127.0.0.1", port)) != 0, "with -s no TCP port is open")
        probe.close()
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagram.bind(("127.0.0.1", port))
        tap.ok(True, "with -s no UDP port is open")
        datagram.close()


@tap.case
def an_old_socket_is_replaced_and_a_file_is_not():
    path = os.path.join(server.scratch(), "sock")
    old = socket.socket(socket.AF_UNIX)
    old.bind(path)
    old.close()
    with server.Server(unix=path) as memcached:
        tap.is_(memcached.stream().set(b"k", b"v"), b"STORED\r\n", "a stale socket is replaced")
    path = os.path.join(server.scratch(), "file")
    with open(path, "w", encoding="ascii") as file:
        file.write("precious")
    status, _, error = server.run("-s", path)
    tap.is_(status, 71, "a file that is not a socket is an error")
    tap.like(error, "failed to listen on UNIX socket", "the message has the reason")
    with open(path, encoding="ascii") as file:
        tap.is_(file.read(), "precious", "the file is kept")


@tap.case
def paths_that_cannot_be_used():
    status, _, error = server.run("-s", "/nonexistent-directory/sock")
    tap.is_(status, 71, "a directory that does not exist is an error")
    tap.like(error, "failed to listen on UNIX socket", "the message has the reason")
    long = os.path.join(server.scratch(), "x" * 200)
    status, _, error = server.run("-s", long)
    tap.ok(status not in (None, 0), "a path of over 200 bytes is an error")
    tap.ok(status is None or status >= 0, "it is not a crash")
    longest = server.scratch()
    longest += "/" + "y" * (107 - len(longest) - 1)
    with server.Server(unix=longest) as memcached:
        tap.is_(memcached.stream().set(b"k", b"v"), b"STORED\r\n",
                "a server with the longest path answers")
        tap.ok("unix:" + longest in memcached.stats("conns").values(),
               "stats conns shows the whole path")


tap.run()
