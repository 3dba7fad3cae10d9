#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""The TC program is attached behind a driver's XDP only when a reply finds no room in a frame."""
import os

import kernel
import netns
import server
import tap
from changing import Changing

FILTER = ["-o", "drop_privileges"] if "no_drop_privileges" in server.run("-h")[1] else []
LARGE = kernel.answer((b"large", b"x" * 1000))
if not os.access("/dev/net/tun", os.W_OK):
    tap.skip_all("no tap devices: /dev/net/tun")


def machines(*arguments, **options):
    m = Changing("-v", "-u", "nobody", *arguments, pair=netns.TapPair(options.get("links", 1)),
                 **options)
    m.tcp.set(b"large", b"x" * 1000)
    return m


def programs(m, i=0):
    """The programs on the TC hooks of the interface."""
    return netns.tc_programs("sv%d" % i, m.pair.server, ("ingress",))


def waits_for_room(m):
    """Not without TCX, where a filter would need a capability that is dropped."""
    return "(tcx)" in m.server.log()


def answers_large(m):
    """Whether TC answers a request with a large reply."""
    answer, grown = m.during(lambda: m.udp.ask(b"get large\r\n"))
    return (answer, grown["answered_tc"]) == (LARGE, 1)


@tap.case
def the_first_reply_without_room():
    with machines(*FILTER) as m:
        if not waits_for_room(m):
            tap.is_(m.rows()["sv0:tc"], "yes", "without TCX a filter is attached from the start")
            return
        m.logs("sv0: XDP native, TC ingress (tcx) once a reply finds no room", 1,
               "the log says at the start that TC is attached later")
        m.becomes("the statistics say so, too", sv0__xdp="native", sv0__tc="waits", sv0__state="up")
        tap.is_(programs(m), [], "there is no TC ingress program")
        m.asked("10.77.0.1", "a reply that fits is answered by the kernel")
        answer, grown = m.during(lambda: m.udp.ask(b"get large\r\n"))
        tap.is_((answer, grown["answered"], grown["pass_room"]), (LARGE, 0, 1),
                "the first reply that does not fit is answered by the server")
        m.becomes("after it the TC program is attached", sv0__xdp="native", sv0__tc="yes",
                  reattached=0,
                  interface_events=0)
        tap.is_(len(programs(m)), 1, "there is one TC ingress program")
        tap.ok(server.wait_for(lambda: answers_large(m)), "it answers")
        m.logs("a reply found no room: TC ingress", 1, "its attachment is logged once")
        m.cut(programs(m)[0])
        m.becomes("when it is detached it is attached again", sv0__tc="yes", detached=1,
                  reattached=1)
        tap.ok(server.wait_for(lambda: answers_large(m)), "it answers again")


@tap.case
def several_interfaces():
    with machines(links=2) as m:
        if not waits_for_room(m):
            return
        m.becomes("both wait", sv0__tc="waits", sv1__tc="waits")
        m.udp.ask(b"get large\r\n")
        m.becomes("a reply without room on one interface attaches TC on both", sv0__tc="yes",
                  sv1__tc="yes")
        m.ip("link set sv1 netns " + m.pair.client)
        m.becomes("one goes", sv1__state="gone", sv1__tc="no")
        netns.ip("link set sv1 netns %s" % m.pair.server, m.pair.client)
        m.ip("link set sv1 up")
        m.becomes("an interface that comes back gets TC at once", sv1__state="up", sv1__tc="yes")


@tap.case
def no_program_is_left():
    for late in (False, True):
        with machines() as m:
            if late:
                m.udp.ask(b"get large\r\n")
                m.becomes("the TC program is attached", sv0__tc="yes")
            m.server.kill()
            tap.ok(server.wait_for(lambda m=m: netns.xdp_mode("sv0", m.pair.server) is None and
                                   not programs(m)), "kill -9 leaves no program")


tap.run()
