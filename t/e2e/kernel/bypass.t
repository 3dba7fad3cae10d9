#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""No datagram puts the kernel into bypass; a bypass that a connection asked for ends with the
connection."""
import contextlib
import signal

import binary as b
import kernel
import netns
import server
import tap

WANT = kernel.answer((b"k", b"value"))


def bypassed(machines):
    return machines.tcp.stats("bmc")["bypass"] != "0"


@contextlib.contextmanager
def at_home(machines):
    """A connection from the server's machine."""
    with netns.inside(machines.pair.server):
        own = machines.server.stream()
    yield own
    own.close()


def connections(machines):
    return int(machines.tcp.stats()["curr_connections"])


def send(machines, request):
    """Sends a datagram, and waits until the one worker has executed it, whatever it answers."""
    udp = machines.server.udp()
    udp.send(request)
    marker = udp.send(b"mn\r\n").to_bytes(2, "big")
    while not udp.recv_raw().startswith(marker):
        pass


@tap.case
def no_datagram_bypasses_the_kernel():
    with kernel.Machines(threads=1) as m:
        m.tcp.set(b"k", b"value")
        for request in (b"verbosity 2\r\n", b"verbosity 2 noreply\r\n",
                        b"verbosity 4294967295\r\n", b"version\r\nverbosity 2\r\n",
                        b"stats detail on\r\n", b.request("stat", b"detail on"),
                        b"watch\r\n", b"watch fetchers rawcmds\r\n",
                        b"lru_crawler metadump all\r\n", b"flush_all 100000\r\n",
                        b"stats reset\r\n", b"lru_crawler disable\r\n", b"lru mode flat\r\n",
                        b"slabs automove 0\r\n", b"shutdown\r\n", b"refresh_certs\r\n",
                        b"bmc off\r\n"):
            send(m, request)
            m.same(b"get k\r\n", WANT, "after %r over UDP" % request)
        settings = m.tcp.stats("settings")
        tap.is_((settings["verbosity"], settings["detail_enabled"]), ("2", "yes"),
                "settings changed over UDP are in effect, as with memcached")
        tap.ok(not bypassed(m), "none of them bypasses the kernel")
        send(m, b"verbosity 0\r\nstats detail off\r\n")
        settings = m.tcp.stats("settings")
        tap.is_((settings["verbosity"], settings["detail_enabled"]), ("0", "no"),
                "settings changed back over UDP are in effect")


@tap.case
def a_bypass_ends_with_the_connections_that_asked_for_it():
    with kernel.Machines(threads=1) as m:
        m.tcp.set(b"k", b"value")
        for request in (b"verbosity 2\r\n", b"stats detail on\r\n",
                        b.request("stat", b"detail on")):
            first, second = m.server.stream(), m.server.stream()
            for each in (first, second):
                each.send(request * 2)
                each.exactly(2 * 24 if request[0] == 0x80 else 2 * len(b"OK\r\n"))
            m.same(b"get k\r\n", WANT, "%r on two connections" % request, kernel=False)
            before = connections(m)
            first.close()
            server.wait_for(lambda: connections(m) == before - 1)
            m.same(b"get k\r\n", WANT, "one of the two connections is closed", kernel=False)
            second.close()
            tap.ok(server.wait_for(lambda: not bypassed(m)),
                   "after both are closed the bypass ends")
            m.same(b"get k\r\n", WANT, "after them")
        settings = m.tcp.stats("settings")
        tap.is_((settings["verbosity"], settings["detail_enabled"]), ("2", "yes"),
                "the settings stay in effect, as with memcached")


@tap.case
def any_connection_can_end_a_bypass():
    with kernel.Machines(threads=1) as m:
        m.tcp.set(b"k", b"value")
        other = m.server.stream()
        for on, off in ((b"verbosity 2\r\n", b"verbosity 0\r\n"),
                        (b"stats detail on\r\n", b"stats detail off\r\n")):
            m.tcp.all(on)
            m.same(b"get k\r\n", WANT, "%r" % on, kernel=False)
            tap.is_(other.all(off), b"OK\r\n", "%r of another connection" % off)
            m.same(b"get k\r\n", WANT, "%r by another" % off)
            send(m, on)
            m.same(b"get k\r\n", WANT,
                   "%r over UDP, after another connection ended the bypass" % on)
            m.tcp.all(on)
            m.same(b"get k\r\n", WANT, "%r once more" % on, kernel=False)
            send(m, off)
            m.same(b"get k\r\n", WANT, "%r over UDP" % off)
        other.close()


@tap.case
def a_bypass_by_the_command_line_needs_no_connection():
    for options, back in ((("-vv",), b"verbosity 1\r\n"), (("-D", ":"), b"stats detail off\r\n")):
        with kernel.Machines(*options, threads=1) as m:
            m.tcp.set(b"k", b"value")
            m.same(b"get k\r\n", WANT, "%s" % options[0], kernel=False)
            m.tcp.all(back)
            m.same(b"get k\r\n", WANT, "%s, and %r" % (options[0], back))


@tap.case
def the_command_bmc_and_a_signal_switch_the_kernel_path():
    with kernel.Machines("-v", threads=1) as m:
        m.tcp.set(b"k", b"value")
        refused = (b"CLIENT_ERROR only a connection from the server's own machine switches the "
                   b"kernel path\r\n")
        tap.is_(m.tcp.ask(b"bmc off\r\n"), refused, "a client on another machine is refused")
        for words in (b"bmc", b"bmc offf", b"bmc on off"):
            tap.like(m.tcp.ask(words + b"\r\n").decode(), "ERROR", "%r is refused" % words)
        m.same(b"get k\r\n", WANT, "after all that")
        with at_home(m) as own:
            tap.is_(own.ask(b"bmc off\r\n"), b"OK\r\n", "`bmc off` on the server's machine")
        m.same(b"get k\r\n", WANT, "after it, though its connection has ended", kernel=False)
        tap.ok(bypassed(m), "`bypass` says so")
        with at_home(m) as own:
            tap.is_([own.ask(b"bmc on\r\n"), own.ask(b"bmc on\r\n")], [b"OK\r\n"] * 2,
                    "`bmc on`, twice")
        m.same(b"get k\r\n", WANT, "after `bmc on`")
        for on in (False, True):
            m.server.signal(signal.SIGUSR2)
            tap.ok(server.wait_for(lambda on=on: bypassed(m) != on), "SIGUSR2")
            m.same(b"get k\r\n", WANT, "after SIGUSR2", kernel=on)
        for words, times in (("switched off by the command bmc", 1),
                             ("switched on by the command bmc", 1), ("switched off by SIGUSR2", 1),
                             ("switched on by SIGUSR2", 1)):
            tap.is_(server.logged(m.server, "bmc: " + words, times), times, "logged: %s" % words)


@tap.case
def without_a_kernel_path_there_is_nothing_to_switch():
    with server.Server() as s, s.stream() as c:
        tap.is_(c.ask(b"bmc off\r\n"), b"ERROR\r\n", "the command is unknown")
        s.signal(signal.SIGUSR2)
        tap.ok(server.wait_for(lambda: "no kernel path to switch" in s.log()),
               "SIGUSR2 does nothing, and says so")


tap.run()
