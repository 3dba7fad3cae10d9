#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients whose TCP is not the kernel's, gVisor's netstack, smoltcp and lwIP, with tcp=on: over a
way with the programs, while the route moves to an interface without them, through a faulty cable,
and while conntrack would forget what it does not see, every byte of their replies is right, and no
connection is reset or hangs."""
import cable
import netns
import server
import sessions
import stacks
import tap
import undone
from lostway import Machine

RIGHT = {"wrong": 0, "broken": 0, "hangs": 0}
FAULTS = ("--loss", 0.005, "--duplicate", 0.05, "--reorder", 0.05, "--jitter", 1)


def wait_for_gets(m, n, row="cmd_get"):
    """Until so many gets more are answered; "tcp_answered": by the kernel."""
    def count():
        return m.count(row) if row == "tcp_answered" else int(m.control.stats()[row])
    least = count() + n
    return server.wait_for(lambda: count() >= least)


def judged(m, running, name):
    found = running.ends()
    tap.diag("%s: %s, %d of the kernel" % (name, found, m.count("tcp_answered")))
    tap.is_({key: found.get(key) for key in RIGHT}, RIGHT,
            "%s: every byte is right, and no connection is reset or hangs" % name)


def offloads_off(pair):
    for interface, namespace in (("sv0", pair.server), ("cl0", pair.client)):
        netns.offloads_off(interface, namespace)
    return pair


def each_stack(function):
    def each():
        tap.at_once(function, stacks.ALL)
    each.__name__ = function.__name__
    return tap.case(each)


@each_stack
def over_a_way_with_the_programs(program):
    with Machine(pair=offloads_off(netns.Pair(2))) as m:
        running = stacks.Running(program, m)
        tap.ok(wait_for_gets(m, 1000), "%s: gets are answered" % program.__name__)
        tap.ok(wait_for_gets(m, 200, "tcp_answered"), "%s: the kernel answers" % program.__name__)
        judged(m, running, program.__name__)


@each_stack
def while_the_route_moves(program):
    """To an interface that is not named, at any place of a reply of many segments."""
    with Machine(pair=undone.Switched()) as m:
        running = stacks.Running(program, m)
        tap.ok(wait_for_gets(m, 1000), "%s: gets are answered" % program.__name__)
        tap.ok(wait_for_gets(m, 200, "tcp_answered"), "%s: the kernel answers" % program.__name__)
        for _ in range(4):
            m.server_ip("route", "replace", stacks.ADDRESS, "dev", "sv2", "src", m.address())
            tap.ok(undone.sent_by(m.pair.server, "sv2", 200), "replies leave by another interface")
            m.server_ip("route", "del", stacks.ADDRESS, "dev", "sv2")
            wait_for_gets(m, 100)
        judged(m, running, "%s, the route moves" % program.__name__)


@each_stack
def through_a_faulty_cable(program):
    with Machine(pair=cable.Pair(*FAULTS, links=2)) as m:
        running = stacks.Running(program, m)
        tap.ok(wait_for_gets(m, 500), "%s: gets are answered" % program.__name__)
        tap.ok(wait_for_gets(m, 50, "tcp_answered"), "%s: the kernel answers" % program.__name__)
        judged(m, running, "%s, a faulty cable" % program.__name__)


CONNTRACK = 30 if sessions.ALL else 5 # seconds without a segment that it keeps a connection


def forgetful(m):
    """conntrack, and rules that drop what belongs to no connection whose beginning it has seen."""
    for name, value in ("loose", 0), ("timeout_established", CONNTRACK):
        netns.sh("sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_%s=%d" % (name, value),
                 namespace=m.pair.server)
    netns.sh("nft", "add table inet t; add chain inet t c { type filter hook input priority 0; }; "
             "add rule inet t c iifname sv0 ct state invalid counter drop", namespace=m.pair.server)


def only_gets(program):
    """Of connections which live for longer than conntrack keeps one of which it sees nothing.
    Returns their counts at the end."""
    with Machine("refresh=1", pair=cable.Pair(*FAULTS, links=2)) as m:
        forgetful(m)
        running = stacks.Running(program, m, "gets")
        tap.ok(wait_for_gets(m, 50, "tcp_answered"), "%s: the kernel answers" % program.__name__)
        start = int(m.control.stats()["uptime"])
        lasted = server.wait_for(lambda: int(m.control.stats()["uptime"]) >= start + CONNTRACK + 3)
        tap.ok(lasted and wait_for_gets(m, 50, "tcp_answered"),
               "%s: for longer than conntrack waits" % program.__name__)
        return m.count("tcp_refreshed"), m.count("tcp_answered"), running.ends()


@tap.case
def conntrack_keeps_connections_that_only_get():
    def each(program):
        name = program.__name__
        refreshed, answered, found = only_gets(program)
        tap.diag("%s: %s, %d refreshed, %d of the kernel" % (name, found, refreshed, answered))
        tap.ok(refreshed >= CONNTRACK * stacks.CONNECTIONS / 2,
               "%s: the stack sees each about once a second" % name)
        tap.is_({key: found.get(key) for key in RIGHT}, RIGHT,
                "%s, conntrack: every byte is right, and no connection is reset or hangs" % name)

    tap.at_once(each, (stacks.netstack, stacks.lwip))


tap.run(240)
