#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Interfaces that change, and programs that are detached, while the server runs."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
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
        tap.ok("sv1:state" not in m.rows(), "which replaces the old one")
        m.ip("link set lan1 up")
        m.becomes("up again", lan1__state="up", interface_events=3)
        m.asked("10.77.1.1", "and answered by the kernel")
        m.said("bmc: sv1: down", 1, "down was said once")
        m.said("renamed to lan1", 1, "so was the name")
        m.tcp.ask(b"stats reset\r\n")
        m.becomes("a reset starts from zero", interface_events=0)


@tap.case
def another_mtu():
    """What does not fit a packet is the server's, which makes fragments."""
    with Changing(links=2, on=1) as m:
        m.tcp.set(b"long", b"v" * 1300)
        want = kernel.answer((b"long", b"v" * 1300))

        def answered(mtu, by_kernel):
            m.ip("link set sv0 mtu %d" % mtu)
            tap.ok(server.wait_for(lambda: m.by_kernel(b"get long\r\n") == (want, by_kernel)),
                   "MTU %d: by the %s" % (mtu, "kernel" if by_kernel else "server"))

        answered(1300, False)
        answered(1500, True)
        m.ip("link set sv1 mtu 1300")
        m.same(b"get long\r\n", want, "an interface without the programs does not matter")


@tap.case
def removed_and_made_again():
    with Changing(*FILTER, links=2) as m:
        m.ip("link del sv1")
        m.becomes("removed", sv1__state="gone", sv1__xdp="none", sv1__tc="no", addresses_ipv4=2)
        m.said("sv1: the interface was removed", 1, "which is said once")
        os.close(m.pair.passes.pop())
        m.asked("10.77.0.1", "the other interface goes on")
        m.pair.add_link(1)
        m.becomes("made again, it is attached to", sv1__state="up", sv1__tc="yes", reattached=1,
                  addresses_ipv4=3)
        m.said("sv1: the interface exists again", 1, "which is said once")
        m.asked("10.77.1.1", "and answered by the kernel")


@tap.case
def moved_to_another_namespace_and_back():
    with Changing(*FILTER, links=2) as m:
        elsewhere = m.pair.client
        m.ip("link set sv1 netns " + elsewhere)
        m.becomes("moved away", sv1__state="gone", sv1__xdp="none", sv1__tc="no")
        tap.is_((netns.xdp_mode("sv1", elsewhere), netns.tc_programs("sv1", elsewhere)),
                (None, []), "the program has not moved with it")
        netns.sh("ip", "link", "set", "sv1", "netns", m.pair.server, namespace=elsewhere)
        m.ip("address add 10.77.1.1/24 dev sv1")
        m.ip("link set sv1 up")
        m.becomes("moved back", sv1__state="up", sv1__tc="yes", reattached=1, addresses_ipv4=3)
        m.asked("10.77.1.1", "it is answered by the kernel")
        m.said("cannot be seen from this network namespace", 1,
               "of a veth's peer nothing is said that is not known")
        m.said("has no XDP program", 0, "nor anything wrong")


@tap.case
def detached_by_somebody():
    with Changing(*FILTER) as m:
        tcx = [p for p in netns.tc_programs("sv0", m.pair.server) if isinstance(p, int)]
        program = m.program()
        m.cut(program)
        m.becomes("the XDP program is detached: attached again", detached=1, reattached=1,
                  sv0__tc="yes", sv0__state="up")
        m.said("another process has detached the XDP program", 1, "which is said once")
        tap.is_(m.program(), program, "it is the same program")
        m.asked("10.77.0.1", "it answers")
        if tcx:
            m.cut(tcx[0])
            m.becomes("the TC program is detached: attached again", detached=2, reattached=2,
                      sv0__tc="yes")
            m.said("another process has detached the TC program", 1, "which is said once")
        m.cut(program)
        if not tcx:
            m.becomes("again", detached=2, reattached=2)
            m.cut(program)
        m.becomes("the third time within a minute: given up", detached=3, reattached=2,
                  sv0__state="given_up", sv0__xdp="none", sv0__tc="no")
        m.said("given up", 1, "which is said once, with the reason")
        tap.is_(netns.xdp_mode("sv0", m.pair.server), None, "nothing is attached")
        m.same(b"get k\r\n", HIT, "after that", kernel=False)


@tap.case
def replaced_by_somebody():
    """The link stays, with another program in it."""
    for mode in ("native", "skb"):
        with Changing(*FILTER, mode=mode) as m:
            program = m.program()
            other = netns.replace(program, "sv0", m.pair.server)
            tap.ok(other not in (0, program), "there was another program, " + mode)
            m.becomes("it is noticed and ours put back, " + mode, detached=1, reattached=1,
                      sv0__state="up")
            m.said("another process has detached the XDP program", 1, "which is said once")
            tap.is_(m.program(), program, "it is the same program")
            m.same(b"get k\r\n", HIT, "after that, " + mode)
            for detached in (2, 3) if mode == "native" else ():
                netns.replace(program, "sv0", m.pair.server)
                m.becomes("again", detached=detached)
            if mode == "native":
                m.becomes("the third time: given up", sv0__state="given_up", sv0__xdp="none")
                tap.is_(netns.xdp_mode("sv0", m.pair.server), None, "nothing is attached")


@tap.case
def another_program_in_our_place():
    with Changing(*FILTER) as m:
        program = m.program()
        m.server.pause()
        m.cut(program)
        foreign = netns.attach_pass("sv0", m.pair.server)
        theirs = m.program()
        m.server.resume()
        m.becomes("another program is there", sv0__xdp="none", sv0__state="detached", detached=1)
        tap.ok(server.wait_for(lambda: "another XDP program" in m.server.log()), "it is named")
        tap.is_(m.program(), theirs, "and stays")
        m.same(b"get k\r\n", HIT, "meanwhile", kernel=False)
        os.close(foreign)
        m.becomes("when it goes ours is back", 30, sv0__state="up", reattached=1)
        m.said("another XDP program", 1, "that it was there was said once")
        m.same(b"get k\r\n", HIT, "after that")


tap.run()
