#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""The chain on interfaces: TCX and filters, both kinds of server, changes of interfaces,
detached programs, and the end."""
import os

import chain
import client
import kernel
import netns
import openfiles
import server
import tap
from changing import HIT, Changing

# Attaching again needs calls of the kernel that -o drop_privileges must allow.
CONFINED = ["-o", "drop_privileges"] if "no_drop_privileges" in server.run("-h")[1] else []
NET_ADMIN, BPF = 12, 39
PROG_ARRAY = 3
CROWD = 600 # more connections than the descriptor where XDP's begin


class Machines(Changing, chain.Machines):
    """Behind `bmc` or in our server, on a machine that changes."""

    def __init__(self, front, **options):
        super().__init__(front, *(CONFINED if front == chain.OURS else []), **options)

    def rows(self):
        return self.bmc.stats() if self.bmc else self.control.stats("bmc")

    def log(self):
        return self.bmc.log() if self.bmc else self.server.log()

    def logs(self, words, times, name):
        tap.is_(server.logged(self, words, times), times, name)

    def pid(self):
        return self.bmc.pid if self.bmc else self.server.pid

    def serves(self, name, host="10.77.0.1"):
        """Checks that the kernel answers a get to this address, also after a write with the new
        value."""
        udp, self.udp = self.udp, client.Udp(host, self.server.port)
        server.wait_for(lambda: self.by_kernel(b"get ready\r\n")[1])
        value = b"v%d" % os.getpid()
        for each in (b"old", value):
            self.tcp.set(b"served", each)
            self.same(b"get served\r\n", kernel.answer((b"served", each)), name)
        self.udp.close()
        self.udp = udp

    def cut_xdp(self, i):
        """Detaches XDP from one interface."""
        netns.cut(self.program(i), "sv%d" % i, self.pair.server)

    def left(self):
        """The programs that are left on the interfaces."""
        names = ["sv%d" % i for i in range(len(self.pair.passes))]
        return [(name, netns.xdp_mode(name, self.pair.server),
                 netns.tc_programs(name, self.pair.server)) for name in names
                if netns.xdp_mode(name, self.pair.server)
                or netns.tc_programs(name, self.pair.server)]

    def end(self, how):
        """Ends the process that has the chain; how: "stop" or "kill"."""
        getattr(self.bmc or self.server, how)()

    def begin(self):
        if self.bmc:
            self.cover()
        else:
            self.start()

    def close(self):
        """After end()."""
        self.control.close()
        if self.bmc:
            self.server.stop()
        self.leave()


def maps(pid):
    # A filter's prog array stays with it, empty.
    return {info["map_id"] for info in openfiles.infos(pid).values()
            if "map_id" in info and info["map_type"] != str(PROG_ARRAY)}


def links(pid, kind):
    """The descriptors of the process's links of that kind."""
    return [fd for fd, info in openfiles.infos(pid).items() if info.get("link_type") == kind]


def stops_answering_first(m, name):
    """The kernel closes the descriptors of a process that is killed from the highest on."""
    xdp, tc = links(m.pid(), "xdp"), links(m.pid(), "tcx")
    if not tap.ok(len(xdp) == m.links and max(tc, default=0) < min(xdp, default=0),
                  "%s: when killed, it stops answering before it stops seeing replies" % name):
        tap.diag("XDP %s, TC %s" % (xdp, tc))


def is_gone(number):
    try:
        netns.sh("bpftool", "map", "show", "id", number)
        return False
    except RuntimeError:
        return True


def plain(pair=None, i=0):
    """Packets arrive with a complete checksum, as from a wire: one that a veth leaves to
    hardware would be wrong in a reply of generic XDP, which does not answer such a request."""
    pair = pair or netns.Pair()
    netns.sh("ethtool", "-K", "cl%d" % i, "tx", "off", namespace=pair.client)
    return pair


@chain.on_each
def two_interfaces_and_no_program_is_left(front):
    m = Machines(front, links=2)
    tap.is_([netns.xdp_mode("sv%d" % i, m.pair.server) for i in (0, 1)], ["native", "native"],
            "%s: native XDP on both interfaces" % front)
    for i in (0, 1):
        m.serves("%s: interface %d" % (front, i), "10.77.%d.1" % i)
    held = maps(m.pid())
    tap.ok(len(held) >= 10, "%s: the process has maps" % front)
    stops_answering_first(m, front)
    m.end("stop")
    tap.is_(m.left(), [], "%s: after SIGTERM no program is on an interface" % front)
    tap.ok(server.wait_for(lambda: all(map(is_gone, held))),
           "%s: after SIGTERM its maps are gone" % front)
    m.begin()
    m.serves("%s: started again" % front)
    held = maps(m.pid())
    m.end("kill")
    tap.ok(server.wait_for(lambda: all("egress" not in str(row) and row[1] is None
                                       for row in m.left())),
           "%s: after kill -9 no XDP program is on an interface" % front)
    tap.ok(server.wait_for(lambda: all(map(is_gone, held))),
           "%s: after kill -9 its maps are gone" % front)
    m.begin()
    m.serves("%s: started again after kill -9" % front)
    m.end("stop")
    m.close()


@chain.on_each
def a_program_that_came_first(front):
    """It ends the chain of TC, where ours has to see each reply."""
    pair = netns.Pair()
    links = netns.come_first("sv0", pair.server, "egress", netns.TC_OK)
    m = Machines(front, pair=pair)
    m.serves("%s: beside a program that came first" % front)
    tap.is_(m.rows()["sv0:before"], "none", "%s: it is not before ours" % front)
    m.end("stop")
    m.close()
    for fd in links:
        os.close(fd)


def filters(m):
    return [line for line in netns.tc_programs("sv0", m.pair.server)
            if isinstance(line, str) and "handle 0x6d63" in line]


@chain.on_each
def a_filter_replaces_tcx(front):
    pair = netns.Pair()
    full = netns.fill_tcx("sv0", pair.server)
    m = Machines(front, pair=pair)
    tap.like(m.log(), r"(?m)^bmc: sv0: XDP native, TC egress \(filter\)$",
             "%s: where TCX is full or missing a filter is attached" % front)
    hooks = 1 if full else 2 # TCX is full on egress alone
    tap.is_(len(filters(m)), hooks, "%s: there is one filter for each hook" % front)
    m.serves("%s: behind a filter" % front)
    m.end("kill")
    tap.is_(len(filters(m)), hooks, "%s: the filters stay after kill -9" % front)
    if m.bmc:
        tap.is_(m.udp.get(b"served"), b"v%d" % os.getpid(), "%s: they pass everything" % front)
    old = filters(m)
    m.begin()
    tap.ok(len(filters(m)) == hooks and not set(filters(m)) & set(old),
           "%s: the next start replaces them" % front)
    m.serves("%s: and serves" % front)
    tap.is_(kernel.capabilities(m.pid()), {BPF, NET_ADMIN},
            "%s: the process keeps the capability to remove them" % front)
    m.end("stop")
    tap.is_(filters(m), [], "%s: after SIGTERM they are gone" % front)
    for fd in full:
        os.close(fd)
    m.close()


@chain.on_each
def interfaces_that_are_removed_and_created(front):
    m = Machines(front, links=2)
    m.ip("link del sv1")
    m.becomes("%s: removed" % front, sv1__state="gone", sv1__xdp="none", sv1__tc="no")
    os.close(m.pair.passes.pop())
    m.serves("%s: the other interface goes on" % front)
    m.pair.add_link(1, bare=True)
    plain(m.pair, 1)
    m.becomes("%s: made again" % front, sv1__state="up", sv1__xdp="generic", sv1__tc="yes",
              reattached=1)
    m.pair.accept(1)
    m.serves("%s: a new interface is attached" % front, "10.77.1.1")
    m.ip("link set sv1 down")
    m.becomes("%s: down" % front, sv1__state="down", sv1__xdp="generic")
    m.ip("link set sv1 up")
    m.becomes("%s: up" % front, sv1__state="up")
    m.end("stop")
    tap.is_(m.left(), [], "%s: no program is left" % front)
    m.close()


def tcx(m):
    return [p for p in netns.tc_programs("sv0", m.pair.server) if isinstance(p, int)]


@chain.on_each
def programs_that_others_detach(front):
    m = Machines(front, pair=plain())
    if tcx(m):
        tap.is_(kernel.capabilities(m.pid()), {BPF},
                "%s: CAP_BPF is the only capability kept" % front)
    m.cut_xdp(0)
    m.becomes("%s: a detached XDP program is attached again" % front, detached=1, reattached=1,
              sv0__state="up")
    tap.ok(netns.xdp_mode("sv0", m.pair.server), "%s: the interface has an XDP program" % front)
    m.serves("%s: it serves" % front)
    if tcx(m):
        m.cut(tcx(m)[0])
    else:
        netns.sh("tc", "filter", "del", "dev", "sv0", "egress", namespace=m.pair.server)
    m.becomes("%s: a detached TC program is attached again" % front, detached=2, reattached=2,
              sv0__tc="yes", sv0__state="up")
    m.serves("%s: the kernel answers again" % front)
    m.end("stop")
    tap.is_(m.left(), [], "%s: no program is left" % front)
    m.close()


@tap.case
def an_interface_that_is_created_beside_many_connections():
    m = Machines(chain.OURS, pair=plain(netns.Pair(2)), links=2)
    before = m.control.stats()["curr_connections"]
    m.ip("link del sv1")
    m.becomes("one of two interfaces is removed", sv1__state="gone")
    os.close(m.pair.passes.pop())
    crowd = [client.tcp("10.77.0.1", m.server.port) for _ in range(CROWD)]
    server.wait_for(lambda: int(m.control.stats()["curr_connections"]) > CROWD)
    m.pair.add_link(1)
    m.becomes("the removed interface is created again", sv1__state="up", reattached=1)
    tap.ok(not tcx(m) or max(links(m.pid(), "tcx")) > CROWD,
           "its TC link has a high descriptor number")
    stops_answering_first(m, "behind %d connections" % CROWD)
    for each in crowd:
        each.close()
    server.wait_for(lambda: m.control.stats()["curr_connections"] == before)
    m.cut_xdp(1)
    m.becomes("XDP is attached again after the connections have ended", reattached=2)
    stops_answering_first(m, "without many connections")
    m.end("stop")
    m.close()


@chain.on_each
def a_given_up_interface_is_not_answered(front):
    m = Machines(front, pair=plain(netns.Pair(2)), links=2)
    udp, m.udp = m.udp, client.Udp("10.77.1.1", m.server.port)
    m.same(b"get k\r\n", HIT, "%s: one of two interfaces" % front)
    for losses in (1, 2, 3):
        m.cut_xdp(0)
        m.becomes("%s: the other interface's program is detached, time %d" % (front, losses),
                  detached=losses)
        server.wait_for(lambda: m.rows()["sv0:state"] != "detached")
    m.becomes("%s: after the third time it is given up" % front, sv0__state="given_up",
              sv0__xdp="none", sv0__tc="no",
              sv1__state="up")
    m.same(b"get k\r\n", HIT,
           "%s: requests from a given up interface are not seen: no reply is kept" % front,
           kernel=False)
    m.udp.close()
    m.udp = udp
    m.end("stop")
    m.close()


@tap.case
def a_detached_program_is_noticed_soon():
    """Measured by the lines that bmc prints each second between a detachment and that it says so:
    one look in a second would take about eight of them."""
    m = Machines(chain.DEBIAN, pair=plain(netns.Pair(4)), links=4, chain={"interval": 1})
    lines = lambda: m.log().count(" requests/s, ")
    seconds = 0
    for losses in range(1, 9):
        m.cut_xdp(losses % 4)
        before = lines()
        server.wait_for(lambda: m.log().count("has detached the XDP program") == losses,
                        every=0.001)
        seconds += lines() - before
        server.wait_for(lambda: m.rows()["reattached"] == str(losses))
    tap.is_(m.rows()["detached"], "8",
            "eight detachments are noticed, two on each of four interfaces, one after the other")
    tap.ok(seconds <= 4, "they are noticed soon (%d seconds)" % seconds)
    m.end("stop")
    m.close()


@chain.on_each
def replies_without_room_in_the_frame(front):
    m = Machines(front)
    for size in (100, 500, 1000, 1200):
        m.tcp.set(b"large%d" % size, b"x" * size)
        m.same(b"get large%d\r\n" % size, kernel.answer((b"large%d" % size, b"x" * size)),
               "%s: a value of %d bytes" % (front, size))
    m.end("stop")
    m.close()


@tap.case
def generic_xdp():
    m = Machines(chain.DEBIAN, pair=plain(), chain={"mode": "skb"})
    tap.is_(netns.xdp_mode("sv0", m.pair.server), "generic", "--mode skb attaches generic XDP")
    m.serves("generic XDP")
    m.end("stop")
    m.close()
    m = Machines(chain.OURS, pair=plain(), words=["mode=skb"])
    tap.is_(netns.xdp_mode("sv0", m.pair.server), "generic",
            "mode=chain,mode=skb attaches generic XDP")
    m.serves("generic XDP")
    m.end("stop")
    m.close()


tap.run()
