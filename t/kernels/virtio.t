#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Native XDP in the drivers of network cards: virtio_net, and vmxnet3.

For t/kernels/run, whose machine has the cards of t/kernels/nics. The server has one end of a
cable, this process the other.
"""
import os
import re

import cards
import client
import identical
import kernel
import netns
import server
import tap
from kernel import answer

client.SECONDS *= tap.SLOW
RELEASE = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])
SIX = "fd77:0::1"
# What the frame grows by goes where the driver has room: the last at its head, the first behind it.
SIZES = (0, 1, 31, 100, *range(150, 250), 300, 700, 1000, 1300, 1350)
NATIVE = ["plain", "queues", "remedied", "small"] + (["vmxnet3"] if RELEASE >= (6, 6) else [])


def machines(cable, *arguments, links=1, mtu=1500, **options):
    return kernel.Machines(*arguments, pair=cards.Pair(cable, links, mtu), links=links, on=1,
                           listen="0.0.0.0,[::]", **options)


def mode(m):
    return netns.xdp_mode("sv0", m.pair.server), m.tcp.stats("bmc")["sv0:xdp"]


def asked(m, name, hosts=("10.77.0.1", SIX), sizes=SIZES):
    """The kernel answers a get of each value correctly."""
    for host in hosts:
        m.udp.close()
        m.udp = client.Udp(host, m.server.port)
        m.udp.ask(b"version\r\n") # the kernel knows the return path
        wrong, grown = m.during(lambda: [size for size in sizes if not told(m, size)])
        tap.is_((wrong, grown["answered"]), ([], len(sizes)),
                "%s, %s: the kernel answers gets of %d values" % (name, host, len(sizes)))
        tap.ok(m.holds(b"none", None), "%s, %s: a miss" % (name, host))
        m.same(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n", "%s, %s: a set" % (name, host), kernel=False)


def told(m, size):
    m.tcp.set(b"key%d" % size, b"v" * size)
    return known(m, size)


def known(m, size):
    try:
        return m.udp.get(b"key%d" % size) == b"v" * size
    except TimeoutError:
        return False


@tap.case
def served():
    for cable in NATIVE:
        with machines(cable) as m:
            tap.like(m.server.log(), r"\Abmc: sv0: XDP native, TC ingress .*\n\Z",
                     "%s: the log has one line, which says that the mode is native" % cable)
            tap.is_(mode(m), ("native", "native"), "%s: the mode is native" % cable)
            asked(m, cable)
            m.tcp.set(b"large", b"x" * 5000)
            m.same(b"get large\r\n", answer((b"large", b"x" * 5000)),
                   "%s: the server sends a reply of several datagrams" % cable, kernel=False)
            m.tcp.set(b"huge", bytes(1000000))
            tap.is_(m.tcp.get(b"huge"), bytes(1000000),
                    "%s: a value of a megabyte goes both ways over TCP" % cable)
            m.server.kill()
            tap.ok(server.wait_for(lambda: netns.xdp_mode("sv0", m.pair.server) is None),
                   "%s: kill -9: no program is left" % cable)
            m.start()
            tap.ok(m.holds(b"large", None),
                   "%s: the next server starts with an empty cache" % cable)


@tap.case
def the_same_bytes():
    for cable, cases in (("queues", identical.ALL), ("small", identical.ALL[:1]),
                         ("vmxnet3", identical.ALL[:1])):
        if cable in NATIVE:
            with machines(cable, "-m", "256", links=2) as m:
                for case in cases:
                    case(m)


@tap.case
def the_chain():
    """The chain answers gets of what it keeps, all but the largest value, correctly."""
    sizes = SIZES[:-1]
    with machines("plain", mode="chain", words=("settle=50", "maxage=600000")) as m:
        tap.is_(netns.xdp_mode("sv0", m.pair.server), "native", "the chain: the mode is native")

        def kept():
            wrong, grown = m.during(lambda: [size for size in sizes if not known(m, size)])
            return not wrong and grown["hits"] == len(sizes)

        for size in sizes:
            m.tcp.set(b"key%d" % size, b"v" * size)
        tap.ok(server.wait_for(kept), "the chain: the kernel answers gets of %d values" %
               len(sizes))


@tap.case
def down_and_up():
    with machines("queues") as m:
        for number in range(3):
            netns.sh("ip", "link", "set", "sv0", "down", namespace=m.pair.server)
            tap.is_(netns.xdp_mode("sv0", m.pair.server), "native",
                    "down: the program stays attached")
            netns.sh("ip", "link", "set", "sv0", "up", namespace=m.pair.server)
            netns.sh("ip", "address", "replace", "fd77:0::1/64", "dev", "sv0", "nodad",
                     namespace=m.pair.server)
            asked(m, "up again, %d" % number, hosts=("10.77.0.1",), sizes=(0, 100, 200, 1000))


VLANS = """
link add link {below} name v100 type vlan id 100
link add link {below} name v200 type vlan proto 802.1ad id 200
link set v200 up
link add link v200 name v200.100 type vlan id 100
address add 10.88.1.{last}/24 dev v100
address add 10.88.2.{last}/24 dev v200.100
link set v100 up
link set v200.100 up
"""


def add_vlans(pair):
    for namespace, below, last in ((pair.server, "sv0", 1), (pair.client, "cl0", 2)):
        for line in VLANS.format(below=below, last=last).strip().splitlines():
            netns.sh("ip", *line.split(), namespace=namespace)


def tagged(m, name, hosts):
    tap.ok(server.wait_for(lambda: m.tcp.stats("bmc")["addresses_ipv4"] == "4"),
           "%s: the kernel answers at the VLANs' addresses" % name)
    asked(m, name, hosts=hosts, sizes=(0, 100, 200, 1000))


@tap.case
def vlans():
    """virtio_net leaves the tags in the frame; vmxnet3 removes them unless it is configured
    otherwise, and qemu's vmxnet3 loses frames with two tags.
    """
    with machines("queues") as m:
        add_vlans(m.pair)
        tagged(m, "virtio_net, tags", ("10.88.1.1", "10.88.2.1", "10.77.0.1"))
        tap.is_(mode(m), ("native", "native"), "virtio_net stays native with VLANs")
    if "vmxnet3" in NATIVE:
        pair = cards.Pair("vmxnet3")
        add_vlans(pair)
        netns.enter(pair.client)
        with kernel.Machines(pair=pair) as m:
            tap.like(m.server.log(), "would not see the VLAN tags of v100.*`ethtool -K sv0 rxvlan "
                     "off` leaves them\nbmc: sv0: XDP generic", "vmxnet3: VLANs make it generic")
            tagged(m, "vmxnet3, generic", ("10.88.1.1", "10.77.0.1"))
            m.server.stop()
            netns.sh("ethtool", "-K", "sv0", "rxvlan", "off", namespace=pair.server)
            m.start()
            tap.is_(mode(m), ("native", "native"), "vmxnet3: after that command it is native")
            tagged(m, "vmxnet3, native", ("10.88.1.1", "10.77.0.1"))
            netns.sh("ethtool", "-K", "sv0", "rxvlan", "on", namespace=pair.server)


def refused(cable, pattern, name, mtu=1500):
    """mode=native: the server exits with the driver's message and a remedy. Without it the
    server logs both, and goes on by generic XDP.
    """
    pair = cards.Pair(cable, mtu=mtu)
    port = server.free_port(pair.server)
    status, _, error = server.run("-p", port, "-U", port, "-l", "0.0.0.0", "-X",
                                  "bmc=sv0,mode=native", namespace=pair.server)
    tap.is_(status, 71, "%s: mode=native: the server exits" % name)
    tap.like(error, r"\Abmc: sv0: %s\n\Z" % pattern,
             "%s: its message has the reason and the remedy" % name)
    tap.is_(netns.xdp_mode("sv0", pair.server), None, "%s: no program is left" % name)
    netns.enter(pair.client)
    with server.Server("-X", "bmc=sv0,mode=native,optional", namespace=pair.server,
                       host=pair.address()) as alone:
        tap.like(alone.stats("bmc")["reason"], pattern,
                 "%s: with `optional` stats has it as the reason" % name)
        tap.is_(alone.udp().get(b"none"), None, "%s: and serves" % name)
    with kernel.Machines(pair=pair, listen="0.0.0.0,[::]") as m:
        tap.like(m.server.log(), r"\Abmc: sv0: %s\nbmc: sv0: XDP generic, .*\n\Z" % pattern,
                 "%s: without mode=native the same message, and generic XDP" % name)
        asked(m, name, sizes=(0, 100, 200, 1000))


@tap.case
def refusals():
    refused("fixed", r"its driver \(virtio_net\) refuses native XDP: .*GRO_HW/CSUM first; the host "
            ".*for sv0 .*`ctrl_guest_offloads=on`.", "offloads that only the host can switch off")
    refused("legacy", r"its driver \(virtio_net\) refuses native XDP: .*any_header_sg required; "
            "the host has to make sv0 .*`disable-modern=off`.", "a device of before virtio 1.0")
    for cable in ("big", "wide"):
        refused(cable, r"its driver \(virtio_net\) takes native XDP and never runs it .*"
                "`mrg_rxbuf=on`.", "buffers of many pages: %s" % cable)


@tap.case
def large_frames():
    """Multi-buffer XDP is in virtio_net since Linux 6.3, not in vmxnet3."""
    several = {"queues": RELEASE >= (6, 3), "vmxnet3": False}
    for cable in [name for name in several if name in NATIVE]:
        if not several[cable]:
            refused(cable, r"its driver \(v\w+\) refuses native XDP: .*MTU.*; lower the MTU: "
                    "`ip link set dev sv0 mtu 1500`", "%s: MTU 9000" % cable, mtu=9000)
            continue
        with machines(cable, mtu=9000) as m:
            tap.is_(mode(m), ("native", "native"), "%s: MTU 9000: native" % cable)
            asked(m, "%s: MTU 9000" % cable)
            keys = b" ".join(b"%0100d" % i for i in range(60))
            m.same(b"get %s k\r\n" % keys, answer((b"k", b"v")),
                   "%s: MTU 9000: a request of 6,000 bytes" % cable, kernel=False)


tap.run(300)
