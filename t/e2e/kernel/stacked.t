#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Interfaces above one another: a bridge and its port, a macvlan and what is beneath it. Whichever
of them have the programs, and if both have them, clients get what is right, answered by the kernel
where it can, and each request is executed once."""
import contextlib
import types

import client
import kernel
import lostway
import netns
import segments
import server
import tap
import tcpcheck
import undone

LOWER, UPPER = "sv0", "up0"
OPERATIONS = 4000


def on(namespace, text):
    for line in text.strip().splitlines():
        netns.ip(line, namespace)


def bridged():
    """The first link is a port of a bridge, which has its addresses."""
    pair = netns.Pair(2)
    on(pair.server, """
        link add up0 type bridge
        link set up0 up
        address flush dev sv0
        link set sv0 master up0
        address add 10.77.0.1/24 dev up0
        address add fd77:0::1/64 dev up0 nodad""")
    return pair


def with_macvlan():
    """Upon the first link there is a macvlan, which is at 10.77.9.1."""
    pair = netns.Pair(2)
    # Or sv0 answers for the macvlan's address, too, which Linux does by default.
    netns.sh("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", namespace=pair.server)
    return above(pair)


def above(pair):
    on(pair.server, """
        link add link sv0 up0 type macvlan mode bridge
        link set up0 up
        address add 10.77.9.1/24 dev up0
        address add fd77:9::1/64 dev up0 nodad""")
    on(pair.client, """
        address add 10.77.9.2/24 dev cl0
        address add fd77:9::2/64 dev cl0 nodad""")
    return pair


def unlike_macvlan():
    """What comes for the macvlan comes by the interface beneath it: that answers for it."""
    return above(netns.Pair(2))


class Machine(lostway.Machine):
    """The connections that are looked at go to one address, those of the control by the second
    link."""

    def __init__(self, pair, words, at, v6=False, options=()):
        self.at = at
        super().__init__(*words, on=0, pair=pair, v6=v6, options=options)
        self.control.set(b"k", b"v")

    def address(self, link=0):
        return super().address(link) if link else self.at

    def rows(self):
        return {key: int(value) for key, value in self.control.stats("bmc").items()
                if value.isdigit()}


def served_over_udp(m):
    """The kernel answers a get, once it knows the way back; all other answers are the server's."""
    for _ in range(kernel.TRIES):
        before = m.rows()
        with contextlib.closing(client.Udp(m.at, m.port)) as udp:
            got = udp.ask(b"get k\r\n")
        after = m.rows()
        grown = sum(after[row] - before[row] for row in ("answered_xdp", "answered_tc"))
        if got != kernel.answer((b"k", b"v")) or grown:
            return got, grown
    return got, grown


def once(m):
    """Gets and writes on one connection: what is wrong, and whether each was executed once."""
    talk = lostway.Talk(m, 1)
    with contextlib.closing(talk.c):
        before = int(m.control.stats()["cmd_get"])
        asked = sum(talk.gets(4) and talk.incr() for _ in range(20))
        counted = int(m.control.stats()["cmd_get"]) - before
    return talk.end, asked, counted


def looked_at(make, at, words, name, by_kernel=True, **options):
    with Machine(make(), words, at, **options) as m:
        tap.is_(served_over_udp(m), (kernel.answer((b"k", b"v")), 1),
                "%s: the kernel answers over UDP, once" % name)
        before = m.rows()
        tap.is_(once(m), (None, 20, 80), "%s: over TCP each request is executed once" % name)
        grown = m.rows()["tcp_answered"] - before["tcp_answered"]
        if "mode=tc" in words: # else XDP and TC count
            tap.ok(m.rows()["tcp_pass_boundary"] - before["tcp_pass_boundary"] <= 1,
                   "%s: what both pass is counted once" % name)
        tap.is_(grown >= 60, by_kernel, "%s: the kernel has answered %d of 80" % (name, grown))
        tcpcheck.judge(tcpcheck.run(m.at, m.port, "--operations", OPERATIONS), OPERATIONS, name)
        rows = m.rows()
        tap.is_([rows[row] for row in ("tcp_reset", "tcp_untranslated", "tcp_guarded")], [0] * 3,
                "%s: nothing came or would have left untranslated" % name)


WORDS = {"both": ("bmc=sv0", "bmc=up0"), "both, the upper one first": ("bmc=up0", "bmc=sv0"),
         "both, by TC": ("bmc=sv0", "bmc=up0", "mode=tc")}


@tap.case
def a_bridge_and_its_port():
    for name, words in {"the bridge": ("bmc=up0",), "its port": ("bmc=sv0",), **WORDS}.items():
        looked_at(bridged, "10.77.0.1", words, "a bridge, %s" % name)


@tap.case
def a_macvlan_and_what_is_beneath():
    for name, words in {"itself": ("bmc=up0",), **WORDS}.items():
        looked_at(with_macvlan, "10.77.9.1", words, "a macvlan, %s" % name)
    looked_at(with_macvlan, "10.77.9.1", ("bmc=sv0",), "a macvlan, what is beneath",
              by_kernel=False)
    looked_at(with_macvlan, "10.77.0.1", WORDS["both"], "beneath a macvlan")


@tap.case
def a_macvlan_that_gets_nothing():
    for name, words in WORDS.items():
        looked_at(unlike_macvlan, "10.77.9.1", words, "replies alone by a macvlan, %s" % name)


@tap.case
def over_ipv6():
    looked_at(bridged, "fd77:0::1", WORDS["both"], "a bridge, both, over IPv6", v6=True)
    looked_at(with_macvlan, "fd77:9::1", WORDS["both"], "a macvlan, both, over IPv6", v6=True)


@tap.case
def without_timestamps():
    for make, at in (bridged, "10.77.0.1"), (with_macvlan, "10.77.9.1"):
        def unstamped():
            pair = make()
            netns.sh("sysctl", "-qw", "net.ipv4.tcp_timestamps=0", namespace=pair.client)
            return pair
        for name, words in WORDS.items():
            looked_at(unstamped, at, words + ("unstamped=on",), "%s, %s, without timestamps" %
                      (make.__name__, name))


class Beneath(netns.Pair):
    """A bridge as bridged() has it, whose frames are as long as the MTU."""

    def __init__(self):
        self.__dict__.update(bridged().__dict__)
        for interface in "sv0", "up0":
            netns.offloads_off(interface, self.server)
        netns.offloads_off("cl0", self.client)

    def interface(self, i=0):
        return "up0"


@tap.case
def an_error_of_a_router():
    """Its number is translated once."""
    with Machine(Beneath(), WORDS["both, by TC"], "10.77.0.1") as one:
        m = types.SimpleNamespace(pair=one.pair, server=one)
        with contextlib.closing(segments.Peer(m, 2000)) as p:
            answered = [(p.ask(b"get none\r\n", lostway.MISS), one.rows()["tcp_answered"])
                        for _ in range(6)]
            tap.is_(({reply for reply, _ in answered}, answered[-1][1]), ({lostway.MISS}, 3),
                    "the kernel has answered")
            p.push(b"get big\r\n")
            p.receive()
            p.wire.send(segments.error(m, p.at, p.ack))
            tap.ok(server.wait_for(lambda: segments.path_mtu(m, p.at[0]) == 600),
                   "the server's stack takes what a router says of a segment on its way")


# --- what is missing ---------------------------------------------------------------------------

ALONE = "on TCP connections whose replies leave by it the server answers alone, unless you add bmc="


@tap.case
def what_is_missing_is_named():
    lies = "bmc: up0 lies above sv0, and not all that leaves by it leaves there: " + ALONE + "up0\n"
    with Machine(with_macvlan(), ("bmc=sv0",), "10.77.9.1") as m:
        tap.is_(server.logged(m, lies), 1, "a macvlan above the interface is named")
    with Machine(bridged(), ("bmc=sv0",), "10.77.0.1") as m:
        tap.is_(m.log().count(ALONE), 0, "a bridge is not whose only port has the programs")
        on(m.pair.server, """
            link add ct0 type veth peer name ct1
            link set ct0 master up0""")
        tap.is_(server.logged(m, lies), 1, "it is once it has another")
        on(m.pair.server, "link del ct0")
        on(m.pair.server, """
            link add ct0 type veth peer name ct1
            link set ct0 master up0""")
        tap.is_(server.logged(m, lies, 2), 2, "and again when that comes back")
    with Machine(with_macvlan(), WORDS["both"], "10.77.9.1") as m:
        tap.is_(m.log().count(ALONE), 0, "nothing is where both have the programs")


ELSEWHERE = "bmc: up0: Linux answers ARP for its addresses on sv0 as well: requests that come " \
    "there the server answers alone, unless you add bmc=sv0 or set net.ipv4.conf.sv0.arp_ignore=1\n"


@tap.case
def requests_that_come_beneath_are_named():
    """Where Linux answers there for the macvlan's address, as by default, and before that."""
    with Machine(unlike_macvlan(), ("bmc=up0",), "10.77.9.1") as m:
        netns.ip("neighbour replace 10.77.9.1 lladdr %s dev cl0" %
                 netns.link("sv0", m.pair.server)["address"])
        tap.is_(once(m), (None, 20, 80), "each request is executed once")
        tap.is_(m.rows()["tcp_answered"], 0, "and not answered by the kernel")
        tap.is_(server.logged(m, ELSEWHERE), 1, "the log says why, and what to do")
    with Machine(with_macvlan(), ("bmc=up0",), "10.77.9.1") as m:
        tap.is_(m.log().count(ELSEWHERE), 0, "it says nothing where Linux does not")
        netns.sh("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=0", namespace=m.pair.server)
        tap.is_(server.logged(m, ELSEWHERE), 1, "until it does")
    with Machine(unlike_macvlan(), WORDS["both"], "10.77.9.1") as m:
        tap.is_(m.log().count(ELSEWHERE), 0, "nor where both have the programs")
    with started(unlike_macvlan(), "bmc=up0,tcp=off") as m:
        tap.is_(server.logged(m, ELSEWHERE), 1, "it does for UDP alone")


@contextlib.contextmanager
def started(pair, words):
    with contextlib.closing(pair), netns.inside(pair.client), \
            server.Server("-X", words, namespace=pair.server, host="10.77.0.1",
                          listen="0.0.0.0") as m:
        yield m


@tap.case
def those_beneath_are_first():
    """Linux attaches no XDP program beneath one that has one."""
    for make in bridged, with_macvlan:
        for words in "bmc=up0,bmc=sv0,tcp=off", "bmc=up0,bmc=sv0,mode=skb,tcp=on":
            with started(make(), words) as m:
                tap.like(m.log(), "sv0: XDP .*\n(.*\n)*bmc: up0: XDP generic",
                         "%s, %s: both are attached" % (make.__name__, words))


@tap.case
def all_are_selected():
    with started(with_macvlan(), "bmc=auto,tcp=on") as m:
        for name in "sv0", "sv1", "up0":
            tap.like(m.log(), "bmc: %s: answers UDP .* TCP" % name, "auto: %s" % name)


# --- undone -------------------------------------------------------------------------------------

def readdress(m, old, new):
    """The interface that has the server's addresses."""
    netns.sh("ip", "link", "set", new, "address", netns.link("sv0", m.pair.server)["address"],
             namespace=m.pair.server)
    for words in ("10.77.0.1/24",), ("fd77:0::1/64", "nodad"):
        with contextlib.suppress(RuntimeError): # gone with the interface
            m.server_ip("address", "del", words[0], "dev", old)
        m.server_ip("address", "add", words[0], "dev", new, *words[1:])


@tap.case
def the_interface_becomes_a_port():
    """Of a bridge with another port, by which segments could leave as well."""
    def happens(m, _load):
        on(m.pair.server, """
            link add up0 type bridge
            link add ct0 type veth peer name ct1
            link set ct0 master up0
            link set ct0 up
            link set up0 up
            link set sv0 master up0""")
        readdress(m, "sv0", "up0")
        return undone.sent_by(m.pair.server, "up0", 20)
    undone.mid_run("the interface becomes a port of a bridge", happens)


@tap.case
def the_bridge_goes_away():
    def happens(m, _load):
        m.server_ip("link", "del", "up0")
        readdress(m, "up0", "sv0")
        return undone.sent_by(m.pair.server, "sv0", 20)
    for bmc in ("bmc=up0",), ():
        undone.mid_run("the bridge above the interface goes away, %s" % (bmc or "not named",),
                       happens, bmc=bmc, pair=bridged)


@tap.case
def the_route_moves_to_a_macvlan():
    for bmc in (), ("bmc=up0",):
        undone.mid_run("the route moves to a macvlan, %s" % (bmc or "not named",), lambda m, _load:
                       undone.moves_for_a_moment(m, "up0", 100), bmc=bmc, pair=with_macvlan)


@tap.case
def one_of_both_loses_its_programs():
    """For good: they are detached until the server gives up."""
    def happens(m, _load):
        if not m.kernel_path:
            return None
        for interface in "up0", "sv0":
            for program in netns.tc_programs(interface, m.pair.server):
                if isinstance(program, int): # before Linux 6.6 they are filters
                    netns.cut(program, interface, m.pair.server)
            if not server.wait_for(lambda: m.count("detached")):
                return "the server has not noticed"
        return None
    undone.mid_run("one after the other loses its programs", happens, bmc=("bmc=up0",),
                   pair=bridged)


tap.run(240)
