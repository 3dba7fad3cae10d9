#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Interfaces above one another: a bridge and its port, a macvlan and what is beneath it. Whichever
of them have the programs, and if both have them, clients get what is right, answered by the kernel
where it can, and each request is executed once."""
import contextlib

import asking
import client
import kernel
import lostway
import netns
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


tap.run(240)
