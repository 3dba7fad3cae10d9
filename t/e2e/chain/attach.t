#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The chain on interfaces: TCX and filters, both ways in, what comes and goes, what is left."""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
import chain
import client
import kernel
import netns
import server
import tap
from changing import HIT, Changing

# Attaching again needs calls of the kernel that -o drop_privileges must allow.
CONFINED = ["-o", "drop_privileges"] if "no_drop_privileges" in server.run("-h")[1] else []
NET_ADMIN, BPF = 12, 39
PROG_ARRAY = 3


class Machines(Changing, chain.Machines):
    """Behind `bmc` or in our server, on a machine that changes."""

    def __init__(self, front, **options):
        super().__init__(front, *(CONFINED if front == chain.OURS else []), **options)

    def rows(self):
        return self.bmc.stats() if self.bmc else self.control.stats("bmc")

    def log(self):
        return self.bmc.log() if self.bmc else self.server.log()

    def said(self, words, times, name):
        tap.is_(self.log().count(words), times, name)

    def pid(self):
        return self.bmc.pid if self.bmc else self.server.pid

    def serves(self, name, host="10.77.0.1"):
        """A get to this address is answered by the kernel, and what is written is seen."""
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
        """What of us is on the interfaces."""
        names = ["sv%d" % i for i in range(len(self.pair.passes))]
        return [(name, netns.xdp_mode(name, self.pair.server),
                 netns.tc_programs(name, self.pair.server)) for name in names
                if netns.xdp_mode(name, self.pair.server)
                or netns.tc_programs(name, self.pair.server)]

    def end(self, how):
        """how: "stop" or "kill", of what holds the chain."""
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
        self.pair.close()


def maps(pid):
    found = set()
    for fd in os.listdir("/proc/%d/fdinfo" % pid):
        try:
            with open("/proc/%d/fdinfo/%s" % (pid, fd), encoding="ascii") as file:
                text = file.read()
        except FileNotFoundError:
            continue
        # What a filter calls through stays with it, empty.
        if not re.search(r"^map_type:\s*%d$" % PROG_ARRAY, text, re.M):
            found |= set(re.findall(r"^map_id:\s*(\d+)", text, re.M))
    return found


def links(pid, kind):
    """The descriptors of its links of that kind."""
    found = []
    for fd in os.listdir("/proc/%d/fdinfo" % pid):
        try:
            with open("/proc/%d/fdinfo/%s" % (pid, fd), encoding="ascii") as file:
                if re.search(r"^link_type:\s*%s$" % kind, file.read(), re.M):
                    found.append(int(fd))
        except FileNotFoundError:
            pass
    return found


def is_gone(number):
    try:
        netns.sh("bpftool", "map", "show", "id", number)
        return False
    except RuntimeError:
        return True


def plain(pair=None, i=0):
    """What comes in has its checksum, as from a wire: one that a veth leaves to hardware would be
    wrong in a reply of generic XDP, which answers no such request."""
    pair = pair or netns.Pair()
    netns.sh("ethtool", "-K", "cl%d" % i, "tx", "off", namespace=pair.client)
    return pair


@chain.on_each
def two_interfaces_and_nothing_is_left(front):
    m = Machines(front, links=2)
    tap.is_([netns.xdp_mode("sv%d" % i, m.pair.server) for i in (0, 1)], ["native", "native"],
            "%s: native XDP on both" % front)
    for i in (0, 1):
        m.serves("%s: interface %d" % (front, i), "10.77.%d.1" % i)
    held = maps(m.pid())
    tap.ok(len(held) >= 10, "%s: there are maps" % front)
    xdp, tc = links(m.pid(), "xdp"), links(m.pid(), "tcx")
    tap.ok(len(xdp) == 2 and max(tc, default=0) < min(xdp),
           "%s: killed, it stops answering before it stops seeing replies" % front)
    tap.diag("XDP %s, TC %s" % (xdp, tc))
    m.end("stop")
    tap.is_(m.left(), [], "%s: after SIGTERM no program is on an interface" % front)
    tap.ok(server.wait_for(lambda: all(map(is_gone, held))), "%s: and no map is there" % front)
    m.begin()
    m.serves("%s: started again" % front)
    held = maps(m.pid())
    m.end("kill")
    tap.ok(server.wait_for(lambda: all("egress" not in str(row) and row[1] is None
                                       for row in m.left())),
           "%s: after kill -9 no XDP program is on an interface" % front)
    tap.ok(server.wait_for(lambda: all(map(is_gone, held))), "%s: nor are the maps there" % front)
    m.begin()
    m.serves("%s: started again after kill -9" % front)
    m.end("stop")
    m.close()


def filters(m):
    return [line for line in netns.tc_programs("sv0", m.pair.server)
            if isinstance(line, str) and "handle 0x6d63" in line]


@chain.on_each
def a_filter_stands_in_for_tcx(front):
    pair = netns.Pair()
    full = netns.fill_tcx_egress("sv0", pair.server)
    m = Machines(front, pair=pair)
    tap.like(m.log(), r"(?m)^bmc: sv0: XDP native, TC egress \(filter\)$",
             "%s: where TCX is full or not there it is a filter" % front)
    hooks = 1 if full else 2 # TCX is full on the way out alone
    tap.is_(len(filters(m)), hooks, "%s: one for each hook" % front)
    m.serves("%s: behind a filter" % front)
    m.end("kill")
    tap.is_(len(filters(m)), hooks, "%s: kill -9 leaves it" % front)
    if m.bmc:
        tap.is_(m.udp.get(b"served"), b"v%d" % os.getpid(), "%s: which passes everything" % front)
    old = filters(m)
    m.begin()
    tap.ok(len(filters(m)) == hooks and not set(filters(m)) & set(old),
           "%s: the next start replaces it" % front)
    m.serves("%s: and serves" % front)
    tap.is_(kernel.capabilities(m.pid()), {BPF, NET_ADMIN},
            "%s: it keeps the right to remove it" % front)
    m.end("stop")
    tap.is_(filters(m), [], "%s: after SIGTERM it is gone" % front)
    for fd in full:
        os.close(fd)
    m.close()


@chain.on_each
def interfaces_that_go_and_come(front):
    m = Machines(front, links=2)
    m.ip("link del sv1")
    m.becomes("%s: removed" % front, sv1__state="gone", sv1__xdp="none", sv1__tc="no")
    os.close(m.pair.passes.pop())
    m.serves("%s: the other one goes on" % front)
    m.pair.add_link(1)
    plain(m.pair, 1) # it was made before its peer had a program
    m.becomes("%s: made again" % front, sv1__state="up", sv1__xdp="generic", sv1__tc="yes",
              reattached=1)
    m.serves("%s: it is attached to" % front, "10.77.1.1")
    m.ip("link set sv1 down")
    m.becomes("%s: down" % front, sv1__state="down", sv1__xdp="generic")
    m.ip("link set sv1 up")
    m.becomes("%s: up" % front, sv1__state="up")
    m.end("stop")
    tap.is_(m.left(), [], "%s: nothing is left" % front)
    m.close()


def tcx(m):
    return [p for p in netns.tc_programs("sv0", m.pair.server) if isinstance(p, int)]


@chain.on_each
def programs_that_somebody_detaches(front):
    m = Machines(front, pair=plain())
    if tcx(m):
        tap.is_(kernel.capabilities(m.pid()), {BPF}, "%s: CAP_BPF is all it keeps" % front)
    m.cut_xdp(0)
    m.becomes("%s: the XDP program is detached: attached again" % front, detached=1, reattached=1,
              sv0__state="up")
    tap.ok(netns.xdp_mode("sv0", m.pair.server), "%s: it is there" % front)
    m.serves("%s: it serves" % front)
    if tcx(m):
        m.cut(tcx(m)[0])
    else:
        netns.sh("tc", "filter", "del", "dev", "sv0", "egress", namespace=m.pair.server)
    m.becomes("%s: the TC program is detached: attached again" % front, detached=2, reattached=2,
              sv0__tc="yes", sv0__state="up")
    m.serves("%s: it serves again" % front)
    m.end("stop")
    tap.is_(m.left(), [], "%s: nothing is left" % front)
    m.close()


@chain.on_each
def an_interface_that_is_not_seen_any_more(front):
    m = Machines(front, pair=plain(netns.Pair(2)), links=2)
    udp, m.udp = m.udp, client.Udp("10.77.1.1", m.server.port)
    m.same(b"get k\r\n", HIT, "%s: one of two interfaces" % front)
    for losses in (1, 2, 3):
        m.cut_xdp(0)
        m.becomes("%s: the other one is detached, time %d" % (front, losses), detached=losses)
        server.wait_for(lambda: m.rows()["sv0:state"] != "detached")
    m.becomes("%s: and given up" % front, sv0__state="given_up", sv0__xdp="none", sv0__tc="no",
              sv1__state="up")
    m.same(b"get k\r\n", HIT, "%s: what comes by it is not seen: nothing is kept" % front,
           kernel=False)
    m.udp.close()
    m.udp = udp
    m.end("stop")
    m.close()


@tap.case
def that_it_is_detached_is_learned_soon():
    """Measured by bmc's own seconds: one look in a second would take about eight of them."""
    m = Machines(chain.DEBIAN, pair=plain(netns.Pair(4)), links=4, chain={"interval": 1})
    lines = lambda: m.log().count(" requests/s, ")
    before = lines()
    for losses in range(1, 9):
        m.cut_xdp(losses % 4)
        server.wait_for(lambda: m.rows()["reattached"] == str(losses), every=0.001)
    tap.is_(m.rows()["detached"], "8", "two times on each of four interfaces, one after the other")
    tap.ok(lines() - before <= 4, "that was learned of soon (%d seconds)" % (lines() - before))
    m.end("stop")
    m.close()


@chain.on_each
def replies_that_do_not_fit_into_the_frame(front):
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
    tap.is_(netns.xdp_mode("sv0", m.pair.server), "generic", "--mode skb is generic XDP")
    m.serves("generic XDP")
    m.end("stop")
    m.close()
    m = Machines(chain.OURS, pair=plain(), words=["mode=skb"])
    tap.is_(netns.xdp_mode("sv0", m.pair.server), "generic", "mode=chain,mode=skb too")
    m.serves("generic XDP")
    m.end("stop")
    m.close()


tap.run(120)
