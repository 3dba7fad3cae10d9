#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""bmc trace: for each packet the program, its verdict and its reason.

For t/kernels/run: this needs programs that trace others, which some kernels refuse.
"""
import json
import re
import signal

import chain
import child
import client
import kernel
import netns
import server
import tap

client.SECONDS *= tap.SLOW # loading takes long without KVM
OURS = re.compile(r"(xdp|tc)_(enter|leave)$")


class Trace(child.Child):
    """`bmc trace` on a server's machine, which it traces when this returns."""

    def __init__(self, machines, *words):
        super().__init__(["nsenter", "--net=/run/netns/" + machines.pair.server,
                          kernel.beside("bmc/bmc"), "trace", *words], "bmc trace")
        server.wait_for(lambda: not self.alive() or "programs that are traced" in self.log())

    def lines(self):
        return [line for line in self.log().splitlines() if not line.startswith("bmc:")]

    def shows(self, pattern, name, do=None):
        """Checks that a line matches, while `do` is done again until it does."""
        def seen():
            if do:
                do()
            return any(re.search(pattern, line) for line in self.lines())
        if not tap.ok(server.wait_for(seen), name):
            tap.diag("no line has %s:\n%s" % (pattern, self.log()[-2000:]))


def programs():
    """Of packets and of traces: id to name."""
    rows = json.loads(netns.sh("bpftool", "-j", "prog"))
    return {row["id"]: row.get("name", "") for row in rows}


def tracing():
    return [name for name in programs().values() if OURS.match(name)]


@tap.case
def what_is_done_with_each_packet_and_why():
    with kernel.Machines(words=["tcp=on"]) as m:
        before = programs()
        m.tcp.set(b"k", b"v")
        trace = Trace(m)
        here, there = "10.77.0.2", "%s:%d" % (m.pair.address(), m.server.port)
        way = r"^\d\d:\d\d:\d\d\.\d{6} sv0 %%s %s:\d+ > %s %%s" % (
            re.escape(here), re.escape(there))
        trace.shows(way % ("mc_xdp_both", r"udp 57: tx answered_xdp$"),
                    "a hit over UDP", lambda: m.udp.ask(b"get k\r\n"))
        trace.shows(way % ("mc_xdp_both", r"udp 60: tx answered_xdp misses$"),
                    "a miss", lambda: m.udp.ask(b"get none\r\n"))
        trace.shows(way % ("mc_xdp_both", r"udp 59: pass pass_command$"), "another command",
                    lambda: m.udp.ask(b"version\r\n"))
        trace.shows(way % ("mc_xdp_both", r"tcp \d+: tx tcp_answered_xdp$"),
                    "a hit over TCP", lambda: m.tcp.get(b"k"))
        trace.shows(way % ("mc_(tc_both|filter)", r"tcp \d+: next tcp_pass_command$"),
                    "another command over TCP", lambda: m.tcp.ask(b"version\r\n"))
        trace.shows(r" mc_(learn_both|filter) %s > %s:\d+ udp \d+: next -$" %
                    (re.escape(there), re.escape(here)), "a reply of the server that leaves")
        trace.signal(signal.SIGINT)
        tap.is_(trace.wait(), 0, "SIGINT ends it with status 0")
        tap.is_(tracing(), [], "nothing of it stays")
        tap.is_(programs(), before, "the packet programs are those from before")
        m.same(b"get k\r\n", kernel.answer((b"k", b"v")), "afterwards a hit")


@tap.case
def tc_alone():
    with kernel.Machines(mode="tc") as m:
        trace = Trace(m)
        trace.shows(r" mc_(tc|filter) \S+ > \S+ udp \d+: redirect answered_tc misses$",
                    "what TC answers", lambda: m.udp.ask(b"get none\r\n"))
        trace.stop()


@tap.case
def one_flow():
    with kernel.Machines(listen="0.0.0.0,::") as m:
        m.tcp.set(b"k", b"v")
        six = client.Udp("fd77:0::1", m.server.port)
        port = six.sock.getsockname()[1]
        other, trace = Trace(m, "192.0.2.1"), Trace(m, "[fd77:0::2]:%d" % port)
        wrong = Trace(m, "[fd77:0::2]:%d" % (port ^ 1))
        m.udp.ask(b"get k\r\n")
        trace.shows(r" mc_xdp \[fd77::2\]:%d > \[fd77::1\]:%d udp \d+: " %
                    (port, m.server.port), "the flow's packet", lambda: six.ask(b"get k\r\n"))
        tap.is_([line for line in trace.lines() if "fd77::2]:%d" % port not in line], [],
                "and no other flow's")
        tap.is_((other.lines(), wrong.lines()), ([], []),
                "an address, or a port, that no packet has")
        for each in (trace, other, wrong):
            each.kill()
        tap.ok(server.wait_for(lambda: not tracing()), "kill -9: nothing of them stays")


@tap.case
def the_servers_end():
    for how in ("stop", "kill"):
        with kernel.Machines() as m:
            trace = Trace(m)
            getattr(m.server, how)()
            tap.is_(trace.wait(), 0, "%s: the trace ends" % how)
            tap.like(trace.log(), "the last server has ended", "%s: and says why" % how)
            memory = lambda: [row for row in json.loads(netns.sh("bpftool", "-j", "map"))
                              if row.get("name") == "mc_memory"]
            tap.ok(server.wait_for(lambda: not memory()), "%s: its memory is free" % how)


@tap.case
def two_servers_of_an_interface():
    with kernel.Machines() as m:
        second = server.Server("-X", "bmc=sv0", namespace=m.pair.server, host=m.pair.address(),
                               listen="0.0.0.0")
        trace, udp = Trace(m), client.Udp(second.host, second.port)
        for machine, each in ((m.server, m.udp), (second, udp)):
            trace.shows(r" mc_share \S+ > \S+:%d udp \d+: tx answered_xdp misses$" %
                        machine.port, "each one's reasons",
                        lambda each=each: each.ask(b"get n\r\n"))
        second.stop()
        m.same(b"get n\r\n", b"END\r\n", "the other's end changes nothing")
        trace.stop()


@tap.case
def the_chain():
    with chain.Machines(chain.OURS) as m:
        m.tcp.set(b"k", b"v")
        trace = Trace(m)
        trace.shows(r" \w+ \S+ > \S+ udp \d+: tx answered_xdp$", "a hit",
                    lambda: m.udp.ask(b"get k\r\n"))
        trace.shows(r" udp \d+: pass miss_(empty|written)$", "why the first was none")
        trace.shows(r" udp \d+: next fills$", "and that its reply was kept")
        trace.stop()


@tap.case
def no_server():
    trace = child.Child([kernel.beside("bmc/bmc"), "trace"], "bmc trace")
    tap.is_(trace.wait(), 1, "without a server it ends with status 1")
    tap.like(trace.log(), "no memcached -X bmc=... and no bmc runs", "and says so")


tap.run()
