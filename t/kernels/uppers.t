#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Interfaces on top of others: bonds, VLANs, VRFs, and interfaces without XDP of their own.

For t/kernels/run: many kernels of containers and of developers are built without them.
"""
import contextlib
import os
import socket

import client
import netns
import server
import tap
import tcpcheck
from kernel import TRIES, answer

OPERATIONS = 10000 // tap.SLOW


@contextlib.contextmanager
def machines(links=1):
    pair = netns.Pair(links)
    netns.enter(pair.client)
    try:
        yield pair
    finally:
        pair.close()


def on(namespace, text):
    for line in text.strip().splitlines():
        netns.sh(*line.split(), namespace=namespace)


def start(pair, words, host="10.77.0.1", listen="0.0.0.0"):
    machine = server.Server("-X", words, namespace=pair.server, host=host, listen=listen)
    control = machine.stream()
    control.set(b"k", b"v")
    control.close()
    return machine


def ask(host, port, seconds=5):
    udp = client.Udp(host, port, seconds)
    try:
        return udp.ask(b"get k\r\n")
    except (TimeoutError, OSError):
        return None
    finally:
        udp.close()


def answered(machine, rows=None):
    rows = rows or machine.stats("bmc")
    return int(rows["answered_xdp"]) + int(rows["answered_tc"])


def served(machine, name, host=None):
    for _ in range(TRIES): # the kernel knows the return path from the server's reply
        before = machine.stats("bmc")
        got = ask(host or machine.host, machine.port)
        after = machine.stats("bmc")
        count = answered(machine, after) - answered(machine, before)
        if count:
            break
    if not tap.is_((got, count), (answer((b"k", b"v")), 1), "%s: the kernel answers" % name):
        tap.diag([(key, before.get(key), after[key]) for key in after
                  if after[key] != before.get(key)])
        tap.diag(machine.log())


def refused(pair, words, pattern, name):
    port = server.free_port(pair.server)
    status, _, error = server.run("-p", port, "-U", port, "-l", "0.0.0.0", "-X", words,
                                  namespace=pair.server)
    tap.ok(status is not None and 0 < status < 128, "%s: status %s" % (name, status))
    tap.like(error, pattern, "%s: the message has the reason" % name)


# --- bonds -------------------------------------------------------------------

BOND = """
ip address flush dev {port}0
ip address flush dev {port}1
ip link add bond0 type bond mode {mode} miimon 50
ip link set {port}0 down
ip link set {port}1 down
ip link set {port}0 master bond0
ip link set {port}1 master bond0
ip address add 10.77.0.{last}/24 dev bond0
ip link set bond0 up
"""


def bond(pair, mode):
    """At both ends: the answers leave by a port of the bond's choice."""
    on(pair.server, BOND.format(mode=mode, port="sv", last=1))
    on(pair.client, BOND.format(mode=mode, port="cl", last=2))
    if not server.wait_for(lambda: reachable("10.77.0.1"), 30):
        raise RuntimeError("the bond carries no packets")


def reachable(host):
    try:
        socket.create_connection((host, 9), 1).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


def other_port_serves(pair, machine, mode):
    """The client's end of the bond follows: its link is down as well."""
    on(pair.server, "ip link set sv0 down")
    tap.ok(server.wait_for(lambda: ask(machine.host, machine.port, 1) is not None),
           "%s: when the first port is down, the server answers by the other" % mode)
    served(machine, "%s by the other port" % mode)


@tap.case
def bonds():
    for mode in ("active-backup", "802.3ad", "balance-xor", "balance-rr"):
        with machines(2) as pair:
            bond(pair, mode)
            with start(pair, "bmc=auto") as machine:
                tap.like(machine.log(), "(?m)^bmc: bond0: XDP native, TC", "%s: native" % mode)
                tap.is_(netns.xdp_mode("bond0", pair.server), "native",
                        "%s: the program is attached to the bond" % mode)
                tap.is_(machine.stats("bmc")["interfaces"], "1", "%s: and not to its ports" % mode)
                served(machine, mode)
                if mode == "active-backup":
                    refused(pair, "bmc=sv0,mode=native", "sv0: .*bmc=bond0|sv0: another XDP",
                            "the server refuses a port of a bond that has a program")
                    other_port_serves(pair, machine, mode)
            tap.is_([netns.xdp_mode(name, pair.server) for name in ("bond0", "sv0", "sv1")],
                    [None] * 3, "%s: and gone" % mode)


@tap.case
def bonds_that_lose_replies():
    """A veth does once its other end has no XDP program. What a port gets may leave by another."""
    for mode in ("active-backup", "balance-xor"):
        with machines(2) as pair:
            bond(pair, mode)
            with start(pair, "bmc=bond0") as machine:
                loses_programs(pair, machine, mode)


def loses_programs(pair, machine, mode):
    xdp = lambda: machine.stats("bmc")["bond0:xdp"]
    served(machine, mode)
    while pair.passes:
        os.close(pair.passes.pop())
    tap.ok(server.wait_for(lambda: ask(machine.host, machine.port, 0.5) and xdp() == "generic"),
           "%s: generic XDP answers" % mode)
    served(machine, "%s, without programs at the other end" % mode)
    pair.passes += [netns.attach_pass("cl%d" % i, pair.client) for i in range(2)]
    tap.ok(server.wait_for(lambda: xdp() == "native"), "%s: native XDP is back" % mode)
    served(machine, "%s, with programs" % mode)


@tap.case
def bonds_without_xdp():
    with machines(2) as pair:
        bond(pair, "broadcast")
        with start(pair, "bmc=bond0") as machine:
            tap.like(machine.log(),
                     "(?m)^bmc: bond0: .*refuses native XDP.*\nbmc: bond0: XDP generic",
                     "a mode without native XDP: the server logs it, and attaches generic XDP")
        refused(pair, "bmc=bond0,mode=native", "bond0: .*refuses native XDP: .*802.3ad",
                "with mode=native the message names the modes that have it")


# --- VLANs ---------------------------------------------------------------------

VLANS = """
ip link add link {below} name v100 type vlan id 100
ip link add link {below} name v200 type vlan proto 802.1ad id 200
ip link set v200 up
ip link add link v200 name v200.100 type vlan id 100
ip address add 10.88.1.{last}/24 dev v100
ip address add 10.88.2.{last}/24 dev v200.100
ip link set v100 up
ip link set v200.100 up
"""


def vlans_at_both_ends(pair, server_, client_):
    on(pair.client, VLANS.format(below=client_, last=2))
    on(pair.server, VLANS.format(below=server_, last=1))


@tap.case
def vlans():
    with machines() as pair:
        vlans_at_both_ends(pair, "sv0", "cl0")
        for words, listen, host in (("bmc=auto", "10.88.1.1", "10.88.1.1"),
                                    ("bmc=auto", "10.88.2.1", "10.88.2.1"),
                                    ("bmc=auto", "0.0.0.0", "10.77.0.1"),
                                    ("bmc=sv0", "0.0.0.0", "10.77.0.1"),
                                    ("bmc=v100", "10.88.1.1", "10.88.1.1"),
                                    ("bmc=v200.100", "10.88.2.1", "10.88.2.1")):
            name = "%s with -l %s" % (words, listen)
            with start(pair, words, host, listen) as machine:
                served(machine, name)
                if listen == "0.0.0.0":
                    served(machine, "%s through a VLAN" % name, "10.88.1.1")
                    served(machine, "%s through a VLAN in a VLAN" % name, "10.88.2.1")
                below = words if words.startswith("bmc=v") else "bmc=sv0"
                tap.like(machine.log(), "(?m)^bmc: %s: XDP generic" % below[4:],
                         "%s: generic XDP, which sees the tags" % name)
                if below == "bmc=sv0":
                    tap.like(machine.log(), "(?m)would not see the VLAN tags of v",
                             "%s: the log names the reason" % name)
        refused(pair, "bmc=sv0,mode=native", "VLAN tags of v",
                "the server refuses mode=native below a VLAN")


@tap.case
def vlans_on_a_bond():
    with machines(2) as pair:
        bond(pair, "active-backup")
        vlans_at_both_ends(pair, "bond0", "bond0")
        with start(pair, "bmc=auto", "10.88.1.1", "10.88.1.1") as machine:
            tap.like(machine.log(), "(?m)^bmc: bond0: XDP",
                     "the program for a VLAN is attached to the bond below")
            served(machine, "a VLAN on a bond")


@tap.case
def added_vlans():
    with machines() as pair:
        with start(pair, "bmc=sv0") as machine:
            tap.is_(netns.xdp_mode("sv0", pair.server), "native",
                    "without VLANs the mode is native")
            vlans_at_both_ends(pair, "sv0", "cl0")
            tap.ok(server.wait_for(lambda: netns.xdp_mode("sv0", pair.server) == "generic"),
                   "a VLAN is added: the mode becomes generic")
            tap.ok(server.wait_for(lambda: "sv0: XDP generic" in machine.log()),
                   "the server logs the change")
            tap.is_(machine.stats("bmc")["sv0:tc"], "yes",
                    "TC stays attached: before Linux 6.6 the server has no right to attach it "
                    "again")
            served(machine, "as before")
            served(machine, "through the VLAN", "10.88.1.1")
            served(machine, "through the VLAN in a VLAN", "10.88.2.1")
            on(pair.server, "ip link del v100")
            tap.ok(server.wait_for(lambda: machine.stats("bmc")["addresses_ipv4"] == "3"),
                   "a VLAN is deleted: the server removes its address")
            before = answered(machine)
            tap.is_((ask("10.88.1.1", machine.port, 1), answered(machine) - before), (None, 0),
                    "the kernel does not answer for a deleted VLAN")


# --- gets over TCP ---------------------------------------------------------------

def over_tcp(machine, host, name, by_kernel=True):
    """The kernel answers, each request is executed once, and no byte is wrong."""
    before = machine.stats("bmc"), machine.stats()
    with contextlib.closing(client.tcp(host, machine.port)) as c:
        c.set(b"n", b"0")
        got = [(c.get(b"k"), c.ask(b"incr n 1\r\n")) for _ in range(20)]
    after = machine.stats("bmc"), machine.stats()
    grown = [int(after[i][row]) - int(before[i][row])
             for i, row in enumerate(("tcp_answered", "cmd_get"))]
    tap.is_((got, grown[1]), ([(b"v", b"%d\r\n" % (i + 1)) for i in range(20)], 20),
            "%s, TCP: each request is executed once" % name)
    tap.is_(grown[0] >= 15, by_kernel, "%s, TCP: the kernel answers %d of 20" % (name, grown[0]))
    tcpcheck.judge(tcpcheck.run(host, machine.port, "--operations", OPERATIONS), OPERATIONS, name)
    rows = machine.stats("bmc")
    tap.is_([rows[row] for row in ("tcp_reset", "tcp_untranslated", "tcp_guarded")], ["0"] * 3,
            "%s, TCP: nothing came or would have left untranslated" % name)


@tap.case
def tcp_on_both():
    """A VLAN and what is beneath: either, or both, have the programs."""
    for words in "bmc=sv0", "bmc=v100", "bmc=v100,bmc=sv0", "bmc=sv0,bmc=v100,mode=tc":
        with machines() as pair:
            vlans_at_both_ends(pair, "sv0", "cl0")
            with start(pair, words + ",tcp=on", "10.88.1.1") as machine:
                served(machine, words)
                over_tcp(machine, "10.88.1.1", words)
                if "sv0" in words:
                    over_tcp(machine, "10.88.2.1", "%s, two tags" % words, False)


@tap.case
def tcp_on_a_bond():
    for words in "bmc=bond0", "bmc=v100", "bmc=v100,bmc=bond0", "bmc=bond0,bmc=v100,mode=tc":
        with machines(2) as pair:
            bond(pair, "active-backup")
            vlans_at_both_ends(pair, "bond0", "bond0")
            with start(pair, words + ",tcp=on", "10.88.1.1") as machine:
                over_tcp(machine, "10.88.1.1", "a VLAN on a bond, " + words)
                if "bond0" not in words:
                    continue
                over_tcp(machine, "10.77.0.1", "a bond, " + words)
                talk = client.tcp("10.77.0.1", machine.port)
                tap.is_([talk.get(b"k") for _ in range(6)], [b"v"] * 6, "before a port is down")
                on(pair.server, "ip link set sv0 down")
                tap.is_([talk.get(b"k") for _ in range(6)], [b"v"] * 6,
                        "%s: the connection goes on by the other port" % words)
                talk.close()


@tap.case
def tcp_on_a_port():
    """Of a bond: refused beside it, and the server's alone where the other has no programs."""
    with machines(2) as pair:
        bond(pair, "active-backup")
        with start(pair, "bmc=bond0,tcp=on"):
            refused(pair, "bmc=sv0,tcp=on,mode=native", "sv0: .*bmc=bond0|sv0: another XDP",
                    "a port of a bond that has a program")
        with start(pair, "bmc=sv0,tcp=on,mode=tc") as machine:
            tap.ok(server.logged(machine, "bmc: bond0 lies above sv0, and not all that leaves by "
                                 "it leaves there: on TCP connections whose replies leave by it "
                                 "the server answers alone, unless you add bmc=bond0"),
                   "one port alone: the log names the bond")
            found = tcpcheck.run("10.77.0.1", machine.port, "--operations", OPERATIONS)
            tcpcheck.judge(found, OPERATIONS, "one port alone")
            tap.is_(machine.stats("bmc")["tcp_answered"], "0", "and the server answers")
        with start(pair, "bmc=sv0,bmc=sv1,tcp=on,mode=tc") as machine:
            over_tcp(machine, "10.77.0.1", "both ports")


# --- others ----------------------------------------------------------------------

@tap.case
def vrfs():
    with machines(2) as pair:
        with start(pair, "bmc=sv0", "10.77.1.1") as machine:
            served(machine, "before", "10.77.0.1")
            on(pair.server, """
                ip link add vrf0 type vrf table 100
                ip link set vrf0 up
                ip link set sv0 master vrf0
            """)
            tap.ok(server.wait_for(lambda: machine.stats("bmc")["addresses_ipv4"] == "2"),
                   "an interface joins a VRF: the server removes its address")
            before = answered(machine)
            tap.is_((ask("10.77.0.1", machine.port, 1), answered(machine) - before), (None, 0),
                    "the kernel does not answer where the server does not listen")
            on(pair.server, "ip link set sv0 nomaster")
            tap.ok(server.wait_for(lambda: machine.stats("bmc")["addresses_ipv4"] == "3"),
                   "the interface leaves the VRF: the server adds its address again")
            served(machine, "afterwards", "10.77.0.1")


VRF = """
ip link add vrf0 type vrf table 100
ip link set vrf0 up
ip link set sv0 master vrf0
ip link set sv1 master vrf0
"""


def in_a_vrf(name, prefix=()):
    """A server whose clients are in a VRF. What the kernel answers is right; all of it goes on when
    replies leave by an interface of the VRF that has no programs, and comes back."""
    with machines(2) as pair:
        pair.accept_any_source()
        on(pair.server, VRF)
        with server.Server("-X", "bmc=sv0,tcp=on", namespace=pair.server, host="10.77.1.1",
                           listen="0.0.0.0", prefix=prefix) as machine:
            talks = [client.tcp("10.77.0.1", machine.port) for _ in range(4)]
            for i, talk in enumerate(talks):
                talk.set(b"n%d" % i, b"0")
            for route in (), ("replace", "10.77.0.2/32", "dev", "sv1"), ("del", "10.77.0.2/32"):
                if route:
                    netns.sh("ip", "route", *route, "table", "100", namespace=pair.server)
                before = [int(talk.get(b"n%d" % i)) for i, talk in enumerate(talks)]
                got = [[(talk.get(b"n%d" % i), talk.ask(b"incr n%d 1\r\n" % i)) for _ in range(20)]
                       for i, talk in enumerate(talks)]
                tap.is_(got, [[(b"%d" % n, b"%d\r\n" % (n + 1)) for n in range(begin, begin + 20)]
                              for begin in before], "%s: all is right, %s" % (name, route[:1]))
                rows = machine.stats("bmc")
                tap.diag({key: n for key, n in rows.items() if key.startswith("tcp_") and n != "0"})
            tap.is_(rows["tcp_reset"], "0", "%s: no connection is reset" % name)
            tap.is_(rows["tcp_undone_lost"] != "0", rows["tcp_answered"] != "0",
                    "%s: those on which the kernel has answered are undone" % name)
            found = tcpcheck.run("10.77.0.1", machine.port, "--operations", OPERATIONS)
            tcpcheck.judge(found, OPERATIONS, name)


@tap.case
def tcp_in_a_vrf():
    across = "sysctl -qw net.ipv4.tcp_l3mdev_accept=1 && exec \"$@\""
    in_a_vrf("a server of all VRFs", ("sh", "-c", across, "sh"))
    in_a_vrf("a server in the VRF", ("ip", "vrf", "exec", "vrf0"))


@tap.case
def without_xdp_of_their_own():
    with machines() as pair:
        on(pair.server, """
            ip link add du0 type dummy
            ip link set du0 up
            ip link add team0 type team
        """)
        refused(pair, "bmc=du0,mode=native", "du0: its driver .*has no XDP", "a dummy")
        with start(pair, "bmc=du0,bmc=team0,bmc=sv0") as machine:
            tap.like(machine.log(), "(?m)^bmc: du0: XDP generic(.*\n)+bmc: team0: XDP generic",
                     "a dummy and a team have generic XDP")
            served(machine, "a veth beside them")


tap.run()
