#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Connections whose addresses or ports netfilter changes between the programs and the server's
socket, which therefore could never have a socket with the numbers of the wire: the kernel follows
none, so the server answers, and nothing happens to them that does not happen without -X."""
import contextlib

import netns
import server
import tap
from lostway import Machine, Talk, holds, judge, works
from undone import at_home

ELSE = {False: "10.77.9.1", True: "fd77:9::1"} # at which no interface of the server's is
OTHER = {False: "10.77.0.77", True: "fd77:0::77"}
CLIENT = {False: "10.77.0.2", True: "fd77:0::2"}


def load(m, hook, priority, rule):
    family = "ip6" if m.v6 else "ip"
    netns.sh("nft", "add table %s t; add chain %s t c { type nat hook %s priority %d; };"
             "add rule %s t c iifname sv0 %s" % (family, family, hook, priority, family,
                                     rule.replace("IP", family)), namespace=m.pair.server)


class Through:
    """Where a client connects to, in place of the server's address and port."""

    def __init__(self, m, host=None, port=None):
        self.host, self.port = host or m.address(), port or m.port

    def address(self):
        return self.host


def destination(m):
    """DNAT of an address that is not this machine's, to the server's, with its port."""
    netns.ip("%s route add %s via %s" % ("-6" if m.v6 else "-4", ELSE[m.v6], m.address()))
    load(m, "prerouting", -100, "IP daddr %s tcp dport %d dnat to %s" %
         (ELSE[m.v6], m.port, m.address()))
    return Through(m, host=ELSE[m.v6])


def own_destination(m):
    """DNAT of an address of the machine's own."""
    netns.ip("%s route add %s via %s" % ("-6" if m.v6 else "-4", ELSE[m.v6], m.address()))
    m.server_ip("address", "add", ELSE[m.v6], "dev", "lo")
    load(m, "prerouting", -100, "IP daddr %s tcp dport %d dnat to %s" %
         (ELSE[m.v6], m.port, m.address()))
    return Through(m, host=ELSE[m.v6])


def source(m):
    """SNAT on the way in: the socket has another client."""
    load(m, "input", 100, "IP saddr %s tcp dport %d snat to %s" %
         (CLIENT[m.v6], m.port, OTHER[m.v6]))
    return Through(m)


def source_port(m):
    """Only the client's port is another one."""
    load(m, "input", 100, "IP saddr %s tcp dport %d snat to %s:700-799" %
         (CLIENT[m.v6], m.port, "[%s]" % CLIENT[m.v6] if m.v6 else CLIENT[m.v6]))
    return Through(m)


def port(m):
    """REDIRECT of another port to the server's."""
    other = server.free_port(m.pair.server)
    load(m, "prerouting", -100, "tcp dport %d redirect to :%d" % (other, m.port))
    return Through(m, port=other)


def other_port(m):
    """REDIRECT of the server's port to another one of its own."""
    load(m, "prerouting", -100, "tcp dport %d redirect to :%d" % (m.port, m.other))
    return Through(m)


class Machines(Machine):
    """The server listens at a second port."""

    def __init__(self, v6):
        self.other = server.free_port()
        super().__init__(v6=v6, options=(
            "-l", "%s:%d" % ("[::]" if v6 else "0.0.0.0", self.other)))


def kernel_has(m):
    return m.count("tcp_connections"), m.count("tcp_answered")


def goes_on(m, talks, name):
    """Through `bmc off`, and a route that moves to an interface without the programs."""
    for happens in (lambda: at_home(m, b"bmc off\r\n"), lambda: at_home(m, b"bmc on\r\n"),
                    lambda: m.move(True, True)):
        happens()
        for talk in talks:
            talk.incr()
            talk.gets(8)
    judge(m, talks, name, (None,))
    m.move_back()


def translated(m, changes, name):
    to = changes(m)
    before = kernel_has(m)
    talks = [Talk(to, i) for i in range(4)]
    holds(all(talk.gets(20) and talk.incr() for talk in talks),
          m.named(name + ": replies are right"), [talk.end for talk in talks])
    tap.is_(kernel_has(m), before, m.named(name + ": the kernel follows none, and answers none"))
    goes_on(m, talks, name)
    tap.is_(m.count("tcp_reset"), 0, m.named(name + ": none is reset"))


CHANGES = (destination, own_destination, source, source_port, port, other_port)


@tap.case
def netfilter_changes_addresses_or_ports():
    def each(way):
        changes, v6 = way
        with Machines(v6) as m:
            translated(m, changes, changes.__name__.replace("_", " "))

    tap.at_once(each, [(changes, v6) for changes in CHANGES for v6 in (False, True)], 6)


@tap.case
def netfilter_tracks_but_changes_nothing():
    """That is a connection as any other, also beside ones that it changes."""
    def each(v6):
        with Machines(v6) as m:
            destination(m)
            works(m, "beside a rule")
            talks = m.talks()
            goes_on(m, talks, "beside a rule")
            tap.is_(m.count("tcp_reset"), 0, m.named("beside a rule: none is reset"))

    tap.at_once(each, (False, True))


tap.run(240)
