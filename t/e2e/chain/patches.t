#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""patches/: memcached with a UDP socket for each worker thread, which runs `bmc` in front."""
import errno
import os
import signal
import socket

import chain
import child
import differential
import kernel
import netns
import patched
import server
import tap

THREADS = 4
CLIENTS = 64
FOUND = {"PATH": os.path.dirname(kernel.beside("bmc/bmc")) + ":" + os.environ["PATH"]}
NOWHERE = ("env", "PATH=/nonexistent")
try:
    PROGRAMS = patched.all_programs()
except RuntimeError as error: # t/fetch has made them before, where there is a network
    tap.skip_all("no patched memcached: %s" % str(error).splitlines()[-1])


def start(path, *arguments, **options):
    differential.PEER = path
    return differential.as_peer(server.Server, *arguments, **options)


def each(function):
    """A case for each of the patched programs, with machines of its own."""
    for series, path in PROGRAMS.items():
        def one(path=path):
            pair = netns.Pair()
            netns.enter(pair.client)
            try:
                function(pair, path)
            finally:
                pair.close()
        one.__name__ = "%s_of_%s" % (function.__name__, series)
        tap.case(one)
    return function


def sockets(machine):
    """Bytes waiting in each UDP socket of the server's port."""
    found = []
    with netns.inside(machine.namespace):
        for name in ("udp", "udp6"):
            with open("/proc/thread-self/net/" + name, encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
            found += [int(row[4].split(":")[1], 16) for row in rows
                      if int(row[1].split(":")[1], 16) == machine.port]
    return found


def used(machine):
    """How many of the sockets get something when many clients ask, all of which are answered."""
    clients = [machine.udp() for _ in range(CLIENTS)]
    machine.pause()
    idents = [udp.send(b"version\r\n") for udp in clients]
    waiting = sum(count > 0 for count in sockets(machine))
    machine.resume()
    answers = {udp.message(ident)[:7] for udp, ident in zip(clients, idents)}
    for udp in clients:
        udp.close()
    return waiting, answers


@each
def each_worker_has_a_socket(pair, path):
    options = {"threads": THREADS, "namespace": pair.server, "host": pair.address()}
    for words, listen, want, busy, name in (
            ((), "0.0.0.0", THREADS, THREADS, "a socket for each thread"),
            (("-o", "no_reuseport"), "0.0.0.0", 1, 1, "no_reuseport: one socket"),
            ((), "127.0.0.1," + pair.address(), 2 * THREADS, THREADS,
             "two addresses: two sockets for each thread")):
        with start(path, *words, listen=listen, **options) as machine:
            tap.is_(len(sockets(machine)), want, name)
            tap.is_(used(machine), (busy, {b"VERSION"}),
                    "all of them that clients can reach are used, and answer")
            tap.is_(machine.stats("settings")["reuseport"], "no" if words else "yes",
                    "stats settings says so")
            machine.kill() # a 1.6 that is asked to end takes a second


@each
def the_option_alone_forbids_dumps(pair, path):
    for words, want in (((), "END"), (("-X",), "CLIENT_ERROR stats cachedump not allowed"),
                        (("-X", "bmc=sv0"), "END"),
                        (("-X", "bmc=sv0", "-X"), "CLIENT_ERROR stats cachedump not allowed")):
        with start(path, *words, udp=False, env=FOUND, namespace=pair.server,
                   host=pair.address()) as machine, machine.stream() as stream:
            tap.is_(stream.ask(b"stats cachedump 1 1\r\n").decode(), want + "\r\n",
                    "stats cachedump with %s" % (" ".join(words) or "no -X"))
            machine.kill()


def error_of(function, *arguments):
    """The number of the error, or None."""
    try:
        function(*arguments)
    except OSError as error:
        return error.errno


@each
def no_other_user_can_take_the_port(pair, path):
    with start(path, threads=THREADS, namespace=pair.server, host=pair.address()) as machine:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with netns.inside(pair.server), \
                    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.setsockopt(socket.SOL_SOCKET, option, 1)
                tap.is_(error_of(other.bind, (pair.address(), machine.port)), errno.EADDRINUSE,
                        "a socket with option %d of another user is refused" % option)
        machine.kill()


class Front(chain.Bmc):
    """The bmc that a server has started."""

    def __init__(self, machine, interfaces):
        self.path, self.interfaces = kernel.beside("bmc/bmc"), interfaces
        self.port, self.namespace, self.machine = machine.port, machine.namespace, machine
        if not server.wait_for(self._ready, chain.START_SECONDS):
            raise RuntimeError("bmc does not begin: " + machine.log())
        with open("/proc/%d/task/%d/children" % (machine.pid, machine.pid),
                  encoding="ascii") as file:
            self.pids = file.read().split()

    def must_live(self):
        self.machine.must_live()

    def is_gone(self):
        return not any(os.path.exists("/proc/%s/exe" % pid) for pid in self.pids) and \
            not any(netns.xdp_mode(each, self.namespace) for each in self.interfaces)

    def stop(self):
        """The server does that."""


class Machines(chain.Machines):
    def __init__(self, path, pair):
        self.program = path
        super().__init__(chain.DEBIAN, pair=pair, threads=THREADS)

    def serve(self):
        words = "bmc=sv0,lo,max-age=%d,settle=%d" % (chain.AGE, chain.SETTLE)
        self.server = start(self.program, "-X", words, env=FOUND, **self.options)

    def cover(self, wait=True):
        self.bmc = Front(self.server, ["sv0", "lo"])


@each
def the_chain_answers_and_is_fresh(pair, path):
    m = Machines(path, pair)
    m.tcp.set(b"key", b"value")
    m.same(b"get key\r\n", kernel.answer((b"key", b"value")), "a get")
    wrong, before = [], m.counts()
    for i in range(200):
        m.tcp.set(b"key", b"value %d" % i)
        got = {m.udp.ask(b"get key\r\n") for _ in range(4)}
        if got != {kernel.answer((b"key", b"value %d" % i))}:
            wrong.append((i, got))
    tap.is_(wrong, [], "after each set over TCP all gets over UDP have the new value")
    tap.ok(m.counts()["answered"] > before["answered"] + 100, "many of which the kernel answered")
    tap.is_(len(sockets(m.server)), THREADS, "behind it is a socket for each thread")
    m.server.kill()
    tap.ok(server.wait_for(m.bmc.is_gone), "after SIGKILL of the server, bmc ends")
    m.arguments, m.options["port"] = (), m.server.port
    m.start()
    m.same(b"get ready\r\n", kernel.answer((b"ready", b"1")), "a server that is started at once")
    m.server.stop()
    tap.ok(server.wait_for(m.bmc.is_gone), "after SIGTERM of that one, bmc ends")
    m.start()
    for pid in m.bmc.pids:
        os.kill(int(pid), signal.SIGKILL)
    tap.ok(server.wait_for(lambda: "-X bmc: bmc has ended; the server goes on" in m.server.log()),
           "the server says that bmc was killed")
    tap.is_(m.udp.ask(b"get ready\r\n"), kernel.answer((b"ready", b"1")), "and answers itself")
    m.server.stop()


@each
def a_daemon_takes_bmc_along(pair, path):
    pid_file = os.path.join(server.scratch(), "pid")
    port = server.free_port(pair.server)
    os.chmod(os.path.dirname(pid_file), 0o777)
    first = child.Child(["nsenter", "--net=/run/netns/" + pair.server, path, "-u", "nobody", "-d",
                         "-P", pid_file, "-p", port, "-U", port, "-X", "bmc=sv0"], "the server",
                        env=FOUND)
    tap.is_(first.wait(), 0, "-d: the first process ends")
    attached = lambda: netns.xdp_mode("sv0", pair.server) is not None
    tap.ok(server.wait_for(attached), "bmc begins")
    with open(pid_file, encoding="ascii") as file:
        pid = int(file.read())
    os.kill(pid, signal.SIGKILL)
    tap.ok(server.wait_for(lambda: not attached()), "and ends when the daemon is killed")


@each
def it_serves_without_bmc(pair, path):
    elsewhere = ("-l", pair.address() + ":" + str(server.free_port(pair.server)))
    for words, options, want in (
            (("bmc=sv0",), {"prefix": NOWHERE},
             r"^cannot run bmc: No such file.*\n-X bmc: bmc has ended with status 127; .* without"),
            (("bmc=no-such",), {}, r"^bmc: .*no-such.*\n(.*\n)*.*ended with status 71; .* without"),
            (("bmc=sv0",), {"udp": False}, r"^-X bmc: it needs a UDP port \(-U\); .* without"),
            (("bmc=sv0", *elsewhere), {}, r"^-X bmc: it needs the same port for .* without")):
        with start(path, "-X", *words, namespace=pair.server, host=pair.address(),
                   **{"env": FOUND, **options}) as machine:
            tap.ok(server.wait_for(lambda: "without it" in machine.log()), "it says: " + want)
            tap.like(machine.log(), want, "and why")
            stream = machine.stream()
            stream.set(b"key", b"value")
            tap.is_(stream.get(b"key"), b"value", "it serves")
            machine.kill()


@each
def wrong_words_end_it(pair, path):
    port = server.free_port(pair.server)
    for words in ("sv0,max-age=0", "sv0,no-such=1", ""):
        first = child.Child(["nsenter", "--net=/run/netns/" + pair.server, path, "-u", "nobody",
                             "-p", port, "-U", port, "-X", "bmc=" + words], "the server",
                            env=FOUND)
        tap.is_(first.wait(), 64, "-X bmc=%s: status 64" % words)
        tap.like(first.log(), "^bmc: ", "and bmc's message")


tap.run()
