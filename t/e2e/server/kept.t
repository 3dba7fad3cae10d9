#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Listening and UDP sockets outlive the process in the service manager's store: over a kill or a
restart no connect is refused, and no datagram lost that comes meanwhile."""
import contextlib
import ctypes
import os
import signal
import socket
import struct

import client
import manager
import netns
import server
import tap

HOST = "127.0.0.1"
SO_ATTACH_FILTER = 26


def tcp_name(port, host=HOST):
    return "memcached-tcp-%s-%d-0" % (host, port)


def udp_name(port, worker, host=HOST):
    return "memcached-udp-%s-%d-%d" % (host, port, worker)


def all_names(port, threads):
    return sorted([tcp_name(port)] + [udp_name(port, i) for i in range(threads)])


def refused(port, host=HOST):
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) != 0


@tap.case
def nobody_is_refused():
    store = manager.Store()
    memcached = server.Server(env=store.env)
    port = memcached.port
    tap.is_(store.names(), all_names(port, 2), "the manager keeps each listening and UDP socket")
    for name in ("SIGKILL", "SIGTERM", "SIGUSR1"):
        memcached.signal(getattr(signal, name))
        memcached.wait()
        stream, datagrams = client.tcp(HOST, port), client.Udp(HOST, port)
        idents = [datagrams.send(b"version\r\n") for _ in range(8)]
        stream.send(b"version\r\n")
        memcached = server.Server(port=port, **store.handed())
        tap.like(stream.line().decode(), "^VERSION", name + ": a connect in the gap is served")
        tap.is_([datagrams.message(ident)[:7] for ident in idents], [b"VERSION"] * 8,
                name + ": so are datagrams")
        tap.is_(store.names(), all_names(port, 2), name + ": the manager keeps the same sockets")
        tap.is_(memcached.log(), "", name + ": the log says nothing of it")
    memcached.stop()


@tap.case
def what_is_wanted_no_longer():
    store = manager.Store()
    with server.Server(env=store.env, threads=4) as memcached:
        port = memcached.port
    tap.is_(store.names(), all_names(port, 4), "with four threads")
    with server.Server(port=port, threads=2, **store.handed()):
        tap.is_(store.names(), all_names(port, 2), "with two the sockets of the others are closed")
        tap.is_([client.Udp(HOST, port).ask(b"version\r\n")[:7] for _ in range(16)],
                [b"VERSION"] * 16, "which get no datagrams any more")
    with server.Server(port=port, threads=3, **store.handed()):
        tap.is_(store.names(), all_names(port, 3), "with three one comes")
    other = server.free_port()
    with server.Server(port=other, **store.handed()):
        tap.is_(store.names(), all_names(other, 2), "of another port")
        tap.ok(refused(port), "the one before is closed")
    with server.Server("-o", "no_reuseport", port=other, **store.handed()):
        tap.is_(store.names(), sorted([tcp_name(other), udp_name(other, 0)]),
                "one UDP socket for all threads takes the place of the group")
        tap.like(client.Udp(HOST, other).ask(b"version\r\n").decode(), "^VERSION", "it serves")
    with server.Server(port=other, udp=False, **store.handed()):
        tap.is_(store.names(), [tcp_name(other)], "-U 0")


@tap.case
def an_address_that_the_store_still_has():
    """The manager closes its sockets when it gets to it: until then the port is taken."""
    store = manager.Store()
    with server.Server(env=store.env, listen="0.0.0.0") as memcached:
        port = memcached.port
    with server.Server(port=port, listen=HOST, **store.handed()):
        tap.is_(store.names(), all_names(port, 2), "from any address to one")
    with server.Server(port=port, listen="0.0.0.0,[::1]", **store.handed()):
        names = [tcp_name(port, host) for host in ("0.0.0.0", "__1")]
        names += [udp_name(port, i, host) for host in ("0.0.0.0", "__1") for i in range(2)]
        tap.is_(store.names(), sorted(names), "and back, with IPv6")
    with server.Server(port=port, listen="0.0.0.0,[::1]", **store.handed()):
        tap.is_(store.names(), sorted(names), "all are taken on")
        tap.like(client.Stream(("::1", port), socket.AF_INET6).ask(b"version\r\n").decode(),
                 "^VERSION", "IPv6 is served")


@tap.case
def the_unix_socket():
    store, path = manager.Store(), os.path.join(server.scratch(), "socket")
    os.chmod(os.path.dirname(path), 0o777)
    memcached = server.Server(unix=path, env=store.env)
    status = os.stat(path)
    name = "memcached-unix-%x-%x" % (status.st_dev, status.st_ino)
    tap.is_(store.names(), [name], "the manager keeps the socket of -s")
    memcached.kill()
    stream = client.unix(path)
    stream.send(b"version\r\n")
    with server.Server(unix=path, **store.handed()):
        tap.like(stream.line().decode(), "^VERSION", "a connect in the gap is served")
    with server.Server("-a", "0777", unix=path, **store.handed()):
        tap.is_(os.stat(path).st_mode & 0o777, 0o777, "other permissions: a new one")
        tap.ok(store.names() not in ([], [name]), "in its place")
    os.unlink(path)
    with server.Server(unix=path, **store.handed()) as memcached:
        tap.ok(memcached.stats()["pid"], "a path that has been removed: a new one")


def bound(kind=socket.SOCK_STREAM, port=0, host=HOST, listens=True, **flags):
    made = socket.socket(socket.AF_INET, kind)
    for name, value in flags.items():
        made.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
    made.bind((host, port))
    if listens and kind == socket.SOCK_STREAM:
        made.listen()
    return made


@contextlib.contextmanager
def elsewhere():
    name = "kept%d" % os.getpid()
    netns.ip("netns add " + name)
    try:
        netns.ip("link set lo up", name)
        with netns.inside(name):
            yield
    finally:
        netns.ip("netns delete " + name)


def connected(_):
    with bound() as listening, socket.create_connection(listening.getsockname()):
        return listening.accept()[0]


def of_another_namespace(port):
    with elsewhere():
        return bound(port=port)


def connected_udp(port):
    made = bound(socket.SOCK_DGRAM, port, SO_REUSEPORT=1)
    made.connect((HOST, 9))
    return made


WRONG = {
    "of another port": lambda port: bound(),
    "of another address": lambda port: bound(port=port, host="127.0.0.2"),
    "that does not listen": lambda port: bound(port=port, listens=False),
    "of UDP": lambda port: bound(socket.SOCK_DGRAM, port),
    "with SO_REUSEPORT": lambda port: bound(port=port, SO_REUSEPORT=1),
    "that is connected": connected,
    "of UDP that is connected": connected_udp,
    "of another network namespace": of_another_namespace,
}


@tap.case
def what_is_not_as_the_name_says():
    for what, make in WRONG.items():
        port, store = server.free_port(), manager.Store()
        name = udp_name(port, 0) if make == connected_udp else tcp_name(port)
        store.kept = [(name, make(port).detach())]
        with server.Server(port=port, **store.handed()) as memcached:
            tap.is_(store.names(), all_names(port, 2), what + ": a new socket takes its place")
            tap.like(memcached.stream().ask(b"version\r\n").decode(), "^VERSION",
                     what + ": the server serves")
            tap.like(memcached.log(), "kept as %s what it is not" % name,
                     what + ": a line says so")


@tap.case
def a_filter_of_the_process_before():
    """As that which drops what is for a connection that is being undone."""
    port, store = server.free_port(), manager.Store()
    kept = bound(port=port)
    nothing = struct.pack("HBBI", 6, 0, 0, 0) # BPF_RET | BPF_K
    code = ctypes.create_string_buffer(nothing)
    kept.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                    struct.pack("HL", 1, ctypes.addressof(code)))
    store.kept = [(tcp_name(port), kept.detach())]
    with server.Server(port=port, **store.handed()) as memcached:
        tap.like(memcached.stream().ask(b"version\r\n").decode(), "^VERSION", "it is gone")
        tap.ok(tcp_name(port) not in memcached.log(), "the socket has stayed")


@tap.case
def an_environment_that_is_wrong():
    for what, change in (
            ("of another process", {"LISTEN_PID": "1"}), ("without a count", {"LISTEN_FDS": "x"}),
            ("of too many", {"LISTEN_FDS": "99999999999"}), ("negative", {"LISTEN_FDS": "-1"}),
            ("of more than there are", {"LISTEN_FDS": "200"}),
            ("without names", {"LISTEN_FDNAMES": ""}),
            ("with long names", {"LISTEN_FDNAMES": "memcached-" + "n" * 5000})):
        port, store = server.free_port(), manager.Store()
        text = {"LISTEN_FDS": "3", "LISTEN_FDNAMES": ":".join(all_names(port, 2)), **change}
        script = 'LISTEN_PID=${LISTEN_PID:-$$} exec "$@"'
        with server.Server(port=port, env={**store.env, **text},
                           prefix=("bash", "-c", script, "bash")) as memcached:
            tap.is_(store.names(), all_names(port, 2), what + ": the server opens its sockets")
            tap.ok(memcached.alive(), what + ": it serves")


@tap.case
def what_is_not_for_this_server():
    """The socket of a socket unit has another name; the process may be another's."""
    for name, pid in (("memcached.socket", "$$"), ("memcached-tcp-old", "1")):
        port, store = server.free_port(), manager.Store()
        store.kept = [(name, bound().detach())]
        with server.Server(port=port, **store.handed(pid=pid)):
            tap.is_(store.names(), sorted([name] + all_names(port, 2)),
                    "%s for process %s: the manager has it as before" % (name, pid))


@tap.case
def a_manager_that_keeps_nothing():
    store = manager.Store()
    del store.env["FDSTORE"]
    with server.Server(env=store.env):
        tap.is_(store.names(), [], "nothing is given to one that does not say it keeps anything")


@tap.case
def a_store_without_room():
    store = manager.Store(room=1)
    with server.Server(env=store.env) as memcached:
        tap.is_(store.names(), [tcp_name(memcached.port)], "a part is kept")
    with server.Server(port=memcached.port, **store.handed()) as memcached:
        tap.like(memcached.udp().ask(b"version\r\n").decode(), "^VERSION",
                 "the next server opens the rest")


tap.run()
