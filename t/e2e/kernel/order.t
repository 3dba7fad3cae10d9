#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Programs of others on TC, which may end the chain there (TC_ACT_OK), as Cilium's do: ours are
before them, and what comes before ours is said."""
import contextlib
import os
import re

import kernel
import netns
import server
import tap
from changing import Changing

LARGE = kernel.answer((b"large", b"x" * 1000)) # for which XDP on a veth has no room
VERDICTS = {"ends the chain": netns.TC_OK, "asks the next": netns.TC_NEXT}
HOOKS = ("egress", "ingress")
try:
    os.close(netns.attach_verdict("lo", None, "egress", netns.TC_NEXT))
    TCX = True
except OSError:
    TCX = False # before Linux 6.6


def machines(pair, mode, *words):
    m = Changing(pair=pair, mode=mode, words=words)
    m.tcp.set(b"large", b"x" * 1000)
    return m


def large_by_tc(m):
    answer, grown = m.during(lambda: m.udp.ask(b"get large\r\n"))
    return (answer, grown["answered_tc"]) == (LARGE, 1)


def is_served(m, name):
    m.asked("10.77.0.1", "%s: the kernel answers" % name)
    tap.ok(server.wait_for(lambda: large_by_tc(m)), "%s: TC answers, too" % name)


def came_first(mode, hook):
    for what, verdict in VERDICTS.items():
        name = "%s, %s: a program that came first %s" % (mode, hook, what)
        pair = netns.Pair()
        links = netns.come_first("sv0", pair.server, hook, verdict)
        with machines(pair, mode) as m:
            is_served(m, name)
            tap.is_(m.rows()["sv0:before"], "none", "%s: it is not before ours" % name)
            tap.ok("before the server's" not in m.server.log(), "%s: the log is silent" % name)
        for fd in links:
            os.close(fd)


@tap.case
def native_egress():
    came_first("native", "egress")


@tap.case
def native_ingress():
    came_first("native", "ingress")


@tap.case
def tc_egress():
    came_first("tc", "egress")


@tap.case
def tc_ingress():
    came_first("tc", "ingress")


@tap.case
def streams():
    """Segments that one direction translates and the other does not would break connections."""
    pair = netns.Pair()
    links = [fd for hook in HOOKS
             for fd in netns.come_first("sv0", pair.server, hook, netns.TC_OK)]
    with machines(pair, "native", "tcp=on") as m:
        stream = m.server.stream()
        got = set()

        def answered():
            got.update(stream.get(b"k") for _ in range(20))
            return int(m.rows()["tcp_answered_xdp"]) > 20

        tap.ok(server.wait_for(answered), "TCP: the kernel answers beside programs that came first")
        tap.is_(got, {b"v"}, "TCP: every reply is right")
        tap.is_(m.rows()["tcp_untranslated"], "0", "TCP: every segment is translated")
        stream.close()
    for fd in links:
        os.close(fd)


@contextlib.contextmanager
def coming(pair, hook):
    """A program of another comes before ours while the server runs."""
    if TCX:
        fd = netns.attach_verdict("sv0", pair.server, hook, netns.TC_OK, first=True)
        yield
        os.close(fd)
    else:
        netns.add_filter("sv0", pair.server, hook, netns.TC_OK, 1)
        yield
        netns.sh("tc", "filter", "del", "dev", "sv0", hook, "pref", 1, "handle", 1, "bpf",
                 namespace=pair.server)


@contextlib.contextmanager
def with_filters():
    """A server whose programs are filters, so that with tcp=on it keeps CAP_NET_ADMIN, by which it
    may look."""
    pair = netns.Pair()
    full = [fd for hook in HOOKS for fd in netns.fill_tcx("sv0", pair.server, hook)] if TCX else []
    with machines(pair, "tc", "tcp=on") as m:
        for fd in full:
            os.close(fd)
        m.becomes("nothing is before ours", sv0__before="none")
        yield m


@tap.case
def one_that_comes_later():
    for hook in HOOKS:
        with with_filters() as m:
            with coming(m.pair, hook):
                tap.ok(server.wait_for(lambda m=m: m.rows()["sv0:before"] != "none"),
                       "%s: `stats bmc` says what came before ours" % hook)
                tap.like(m.rows()["sv0:before"], r"^%s:(program|test_filter)\(\d+\)$" % hook,
                         "%s: by its hook and its number" % hook)
                line = re.compile(r"^bmc: sv0: before the server's programs on TC: %s:\w+\(\d+\); "
                                  r"if it ends the chain \(TC_ACT_OK\)" % hook, re.M)
                tap.ok(server.wait_for(lambda m=m, line=line: line.search(m.server.log())),
                       "%s: the log says so" % hook)
            m.becomes("%s: when it has gone nothing is before ours" % hook, sv0__before="none")
            m.logs("nothing is before the server's programs on TC any more", 2 if TCX else 1,
                   "%s: the log says that" % hook)
            is_served(m, "%s: when it has gone" % hook)


def passes(m, requests):
    """Whether that many are passed for lack of a way."""
    answers, grown = m.during(lambda: [m.udp.ask(b"get k\r\n") for _ in range(requests)])
    return grown["pass_way"] == requests and set(answers) == {kernel.answer((b"k", b"v"))}


@tap.case
def without_the_privilege_to_look():
    with machines(None, "tc") as m:
        with coming(m.pair, "egress"):
            tap.ok(server.wait_for(lambda: m.rows()["sv0:before"] != "none"),
                   "without CAP_NET_ADMIN the server sees that TC has changed")
            tap.like(m.rows()["sv0:before"], "^egress:changed$" if TCX else r"^egress:test_filter",
                     "`stats bmc` says so")
            if TCX:
                tap.ok("TC" not in m.server.log().partition("sv0: no XDP")[2].partition("\n")[2],
                       "the log is silent as long as nothing is lost by it")
            m.ip("address add 10.99.0.1/24 dev sv0") # all ways are forgotten
            tap.ok(server.wait_for(lambda: passes(m, 20)), "no way is learned any more")
            tap.ok(server.wait_for(lambda: "TC_ACT_OK" in m.server.log()),
                   "the log says what may be wrong")
            tap.like(m.server.log(), "`bpftool net show dev sv0`" if TCX else "egress:test_filter",
                     "and where to look, or what it is")
        is_served(m, "when it has gone")
        tap.ok(server.wait_for(m.is_in_order), "then nothing is before ours")
        m.logs("nothing is before the server's programs on TC any more", 1, "the log says that")


@tap.case
def one_behind_ours():
    """Without CAP_NET_ADMIN the server cannot tell it from one before ours, but by what it sees."""
    with machines(None, "native") as m:
        links = netns.come_first("sv0", m.pair.server, "egress", netns.TC_OK) if TCX else []
        if not TCX:
            netns.add_filter("sv0", m.pair.server, "egress", netns.TC_OK, 9)
        m.becomes("one comes behind ours", sv0__before="egress:changed" if TCX else "none")
        is_served(m, "beside one behind ours")
        tap.ok(server.wait_for(m.is_in_order), "a reply shows that nothing is before ours")
        tap.ok("TC_ACT_OK" not in m.server.log(), "the log is silent")
        for fd in links:
            os.close(fd)


def first_on_tcx(m):
    return [netns.tc_programs("sv0", m.pair.server, (hook,))[0] for hook in HOOKS]


@tap.case
def several_servers():
    with machines(None, "tc", "tcp=on") as m:
        own = first_on_tcx(m)
        with server.Server("-X", "bmc=sv0,mode=tc", namespace=m.pair.server, host=m.pair.address(),
                           listen="0.0.0.0") as other:
            tap.is_(other.stats("bmc")["sv0:before"], "none", "another server names none of ours")
            tap.ok(server.wait_for(lambda: len(netns.tc_programs("sv0", m.pair.server)) >= 4),
                   "both have their programs")
            before = int(m.rows()["packets_seen"])
            is_served(m, "beside it")
            tap.ok(int(m.rows()["packets_seen"]) > before, "the first one sees its requests")
            addresses = int(m.rows()["addresses_ipv4"])
            m.ip("address add 10.99.0.1/24 dev sv0") # the server looks at once
            m.becomes("the first one has looked", addresses_ipv4=addresses + 1)
            if TCX:
                tap.is_(first_on_tcx(m), own, "the first one stays first")
            else:
                tap.is_(m.rows()["sv0:before"], "none", "the first one stays first")
        is_served(m, "without it")


@tap.case
def filters_of_others():
    """Where TCX is full or missing ours are filters."""
    for protocol, ours in (("all", 1), ("ip", 2)):
        pair = netns.Pair()
        full = netns.fill_tcx("sv0", pair.server) if TCX else []
        netns.add_filter("sv0", pair.server, "egress", netns.TC_OK if ours == 1 else netns.TC_NEXT,
                         1, protocol)
        with machines(pair, "tc") as m:
            rows = netns.sh("tc", "filter", "show", "dev", "sv0", "egress", namespace=pair.server)
            tap.like(rows, r"pref %d bpf .*handle 0x6d63" % ours,
                     "beside a filter for %s at priority 1 ours has %d" % (protocol, ours))
            is_served(m, "beside a filter for %s" % protocol)
            want = "none" if ours == 1 else "egress:test_filter"
            tap.like(m.rows()["sv0:before"], "^egress:test_next" if TCX else "^" + want,
                     "filter for %s: what is before ours" % protocol)
            tap.is_("before the server's programs on TC" in m.server.log(), TCX or ours == 2,
                    "filter for %s: is said" % protocol)
            m.server.kill()
            m.server = server.Server(*m.arguments, **m.options)
            rows = netns.sh("tc", "filter", "show", "dev", "sv0", "egress", namespace=pair.server)
            tap.is_(rows.count("handle 0x6d63"), 1, "the next start replaces the last one's filter")
        for fd in full:
            os.close(fd)


tap.run()
