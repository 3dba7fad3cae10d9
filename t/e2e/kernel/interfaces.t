#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Interfaces that change, and programs that are detached, while the server runs."""
import os

import kernel
import netns
import server
import tap
from changing import HIT, Changing

# Attaching again needs calls of the kernel that -o drop_privileges must allow.
FILTER = ["-o", "drop_privileges"] if "no_drop_privileges" in server.run("-h")[1] else []


@tap.case
def down_up_and_another_name():
    with Changing("-v", *FILTER, links=2) as m:
        m.becomes("at start", sv1__state="up", sv1__xdp="native", sv1__tc="yes",
                  interface_events=0)
        m.ip("link set sv1 down")
        m.becomes("down", sv1__state="down", sv1__xdp="native", interface_events=1)
        m.ip("link set sv1 name lan1")
        m.becomes("another name", lan1__state="down", lan1__xdp="native", interface_events=2)
        tap.ok("sv1:state" not in m.rows(), "the new name replaces the old one in `stats bmc`")
        m.ip("link set lan1 up")
        m.becomes("up again", lan1__state="up", interface_events=3)
        m.asked("10.77.1.1", "the kernel answers on it again")
        m.logs("bmc: sv1: down", 1, "'down' is logged once")
        m.logs("renamed to lan1", 1, "the new name is logged once")
        m.tcp.ask(b"stats reset\r\n")
        m.becomes("a reset sets the count of events to 0", interface_events=0)


@tap.case
def another_mtu():
    """A reply larger than the MTU is sent by the server, whose stack makes fragments."""
    with Changing(links=2, on=1) as m:
        m.tcp.set(b"long", b"v" * 1300)
        want = kernel.answer((b"long", b"v" * 1300))

        def answered(mtu, by_kernel):
            m.ip("link set sv0 mtu %d" % mtu)
            tap.ok(server.wait_for(lambda: m.by_kernel(b"get long\r\n") == (want, by_kernel)),
                   "MTU %d: answered by the %s" % (mtu, "kernel" if by_kernel else "server"))

        answered(1300, False)
        answered(1500, True)
        m.ip("link set sv1 mtu 1300")
        m.same(b"get long\r\n", want,
               "the MTU of an interface without the programs does not matter")


@tap.case
def removed_and_created_again():
    with Changing(*FILTER, links=2) as m:
        m.ip("link del sv1")
        m.becomes("removed", sv1__state="gone", sv1__xdp="none", sv1__tc="no", addresses_ipv4=2)
        m.logs("sv1: the interface was removed", 1, "the removal is logged once")
        os.close(m.pair.passes.pop())
        m.asked("10.77.0.1", "the other interface still answers")
        m.pair.add_link(1)
        m.becomes("created again, it is attached again", sv1__state="up", sv1__tc="yes",
                  reattached=1,
                  addresses_ipv4=3)
        m.logs("sv1: the interface exists again", 1,
               "it is logged once that the interface exists again")
        m.asked("10.77.1.1", "the kernel answers on it")


@tap.case
def moved_to_another_namespace_and_back():
    with Changing(*FILTER, links=2) as m:
        elsewhere = m.pair.client
        m.ip("link set sv1 netns " + elsewhere)
        m.becomes("moved away", sv1__state="gone", sv1__xdp="none", sv1__tc="no")
        tap.is_((netns.xdp_mode("sv1", elsewhere), netns.tc_programs("sv1", elsewhere)),
                (None, []), "the program has not moved with the interface")
        netns.ip("link set sv1 netns %s" % m.pair.server, elsewhere)
        m.ip("address add 10.77.1.1/24 dev sv1")
        m.ip("link set sv1 up")
        m.becomes("moved back", sv1__state="up", sv1__xdp="native", sv1__tc="yes", reattached=1,
                  addresses_ipv4=3)
        m.asked("10.77.1.1", "the kernel answers on it")
        m.logs("has no XDP program", 0, "it is not logged that the peer has no XDP program")


@tap.case
def detached_by_another_process():
    with Changing(*FILTER) as m:
        tcx = [p for p in netns.tc_programs("sv0", m.pair.server) if isinstance(p, int)]
        program = m.program()
        m.cut(program)
        m.becomes("a detached XDP program is attached again", detached=1, reattached=1,
                  sv0__tc="yes", sv0__state="up")
        m.logs("another process has detached the XDP program", 1,
               "the detachment of the XDP program is logged once")
        tap.is_(m.program(), program, "the same program is attached")
        m.asked("10.77.0.1", "the kernel answers")
        if tcx:
            m.cut(tcx[0])
            m.becomes("a detached TC program is attached again", detached=2, reattached=2,
                      sv0__tc="yes")
            m.logs("another process has detached the TC program", 1,
                   "the detachment of the TC program is logged once")
        m.cut(program)
        if not tcx:
            m.becomes("again", detached=2, reattached=2)
            m.cut(program)
        m.becomes("after the third detachment within a minute the interface is given up",
                  detached=3, reattached=2,
                  sv0__state="given_up", sv0__xdp="none", sv0__tc="no")
        m.logs("given up", 1, "giving up is logged once, with the reason")
        tap.is_(netns.xdp_mode("sv0", m.pair.server), None, "nothing is attached")
        m.same(b"get k\r\n", HIT, "after that", kernel=False)
        m.becomes("giving up ends by itself", 60, reattached=3, sv0__state="up", sv0__tc="yes")
        m.asked("10.77.0.1", "the kernel answers again")


@tap.case
def replaced_by_another_process():
    """The link stays, with another program in it."""
    for mode in ("native", "skb"):
        with Changing(*FILTER, mode=mode) as m:
            program = m.program()
            other = netns.replace(program, "sv0", m.pair.server)
            tap.ok(other not in (0, program), "another program was in the link, " + mode)
            m.becomes("the replacement is noticed and our program put back, " + mode, detached=1,
                      reattached=1,
                      sv0__state="up")
            m.logs("another process has detached the XDP program", 1,
                   "the replacement is logged once")
            tap.is_(m.program(), program, "the same program is attached")
            m.same(b"get k\r\n", HIT, "after that, " + mode)
            for detached in (2, 3) if mode == "native" else ():
                netns.replace(program, "sv0", m.pair.server)
                m.becomes("again", detached=detached)
            if mode == "native":
                m.becomes("after the third replacement the interface is given up",
                          sv0__state="given_up", sv0__xdp="none")
                tap.is_(netns.xdp_mode("sv0", m.pair.server), None, "nothing is attached")


@tap.case
def another_program_on_our_interface():
    with Changing(*FILTER) as m:
        program = m.program()
        m.server.pause()
        m.cut(program)
        foreign = netns.attach_pass("sv0", m.pair.server)
        theirs = m.program()
        m.server.resume()
        m.becomes("another program is attached", sv0__xdp="none", sv0__state="detached", detached=1)
        tap.ok(server.wait_for(lambda: "another XDP program" in m.server.log()),
               "the log names the other program")
        tap.is_(m.program(), theirs, "the other program stays")
        m.same(b"get k\r\n", HIT, "meanwhile", kernel=False)
        os.close(foreign)
        m.becomes("when the other program is removed ours is attached again", 30, sv0__state="up",
                  reattached=1)
        m.logs("another XDP program", 1, "the other program was logged once")
        m.same(b"get k\r\n", HIT, "after that")


tap.run()
