#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Gets over TCP that are answered in the drivers of network cards, virtio_net and vmxnet3, and on
TC ingress behind them.

For t/kernels/run, whose machine has the cards of t/kernels/nics. The server has one end of a
cable, this process the other.
"""
import contextlib
import os
import re
import socket
import struct

import cards
import client
import kernel
import netns
import server
import tap
import tcpcheck

client.SECONDS *= tap.SLOW
OPERATIONS = 10000 // tap.SLOW
RELEASE = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])
FOUR, SIX = "10.77.0.1", "fd77:0::1"
# What the frame grows by goes where the driver has room: the last at its head, the first behind it.
SIZES = (0, 1, 31, 100, *range(150, 250, 3), 300, 700, 1000, 1300, 1350)

_SOL_PACKET, _PACKET_AUXDATA, _ETH_P_ALL = 263, 8, 3
_CHECKSUM_LEFT = 1 << 3 # TP_STATUS_CSUMNOTREADY


def machines(cable, mode=None, mtu=1500, pair=None):
    pair = pair or cards.Pair(cable, 1, mtu)
    if cable == "vmxnet3":
        # qemu 7.2 makes IP fragments of what this card is to cut, and behind a fragment the
        # kernel answers no more on its connection.
        netns.sh("ethtool", "-K", "cl0", "tso", "off", namespace=pair.client)
    return kernel.Machines("-m", 256, mode=mode, words=("tcp=on",), pair=pair, on=1,
                           listen="0.0.0.0,[::]")


def asked(m, name, hosts=(FOUR, SIX), sizes=SIZES):
    """The kernel answers a get of each value correctly, and the server what it leaves."""
    for host in hosts:
        with contextlib.closing(client.tcp(host, m.server.port)) as c:
            for size in sizes:
                c.set(b"key%d" % size, b"v" * size)
            c.set(b"longer", b"w" * 5000)
            for _ in range(3): # the first gets of a connection are the server's
                c.get(b"none")
            wrong, grown = m.during(lambda: [
                size for size in sizes if c.get(b"key%d" % size) != b"v" * size])
            tap.is_((wrong, grown["tcp_answered"]), ([], len(sizes)), "%s, %s: the kernel answers "
                    "gets of %d values, %d of them in XDP" %
                    (name, host, len(sizes), grown["tcp_answered_xdp"]))
            tap.is_((c.get(b"none"), c.get(b"longer"), c.get(b"key1")),
                    (None, b"w" * 5000, b"v"), "%s, %s: a miss, a long value, a short one" %
                    (name, host))


@contextlib.contextmanager
def heard(m, word):
    """A list, to which is added, when the block ends, of each segment with this word that the stack
    received, and handed to TC, whether its checksum was partial."""
    left = []
    with netns.inside(m.pair.server):
        tapped = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    with contextlib.closing(tapped):
        tapped.bind(("sv0", _ETH_P_ALL))
        tapped.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        tapped.setblocking(False)
        yield left
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, words, _, address = tapped.recvmsg(1 << 16, 1 << 10)
                if word in frame and address[2] != socket.PACKET_OUTGOING:
                    left += [bool(struct.unpack_from("I", data)[0] & _CHECKSUM_LEFT)
                             for _, _, data in words]


def driven(cable):
    """Native XDP answers."""
    with machines(cable) as m:
        tap.is_((netns.xdp_mode("sv0", m.pair.server), m.tcp.stats("bmc")["sv0:xdp"]),
                ("native", "native"), "%s: the mode is native" % cable)
        with heard(m, b"set key") as left:
            asked(m, cable)
        tap.is_(set(left), {False}, "%s: while XDP is attached all checksums are complete" % cable)
        tcpcheck.answered(m, OPERATIONS, cable, "tcp_answered_xdp")
        c = m.server.stream()
        for _ in range(3):
            c.get(b"none")
        m.server.kill()
        tap.is_(c.to_end(), b"", "%s: kill -9: the connection ends" % cable)
        tap.ok(server.wait_for(lambda: netns.xdp_mode("sv0", m.pair.server) is None),
               "%s: kill -9: no program is left" % cable)


def alone(cable, pattern, mode=None, begun=False):
    """TC alone answers. partial: the sender on the same host sends partial checksums."""
    with machines(cable, mode) as m:
        tap.like(m.server.log(), r"\A%sbmc: sv0: no XDP, TC ingress .*\nbmc: sv0: answers .* by TC "
                 r"\(experimental\)\n\Z" % pattern,
                 "%s: the log says that TC alone answers" % cable)
        name = cable + ", TC"
        with heard(m, b"get key") as left:
            asked(m, name, hosts=(FOUR,), sizes=(0, 1, 2, 3, 100, 1300))
        tap.ok(left and set(left) == {begun}, "%s: the checksums of %d requests are %s" %
               (name, len(left), "partial" if begun else "complete"))
        asked(m, name)
        tcpcheck.answered(m, OPERATIONS, name, "tcp_answered_tc")


@tap.case
def virtio_net():
    for cable in ("plain", "queues", "remedied", "small"):
        driven(cable)


@tap.case
def virtio_net_and_tc():
    """A cable between taps hands over joined segments, and partial checksums."""
    alone("plain", "", "tc")
    alone("queues", "", "tc", begun=True)


@tap.case
def vmxnet3():
    """Its driver has XDP since Linux 6.6."""
    if RELEASE >= (6, 6):
        driven("vmxnet3")
    alone("vmxnet3", "", "tc")


@tap.case
def without_native():
    refused = r"bmc: sv0: its driver \(virtio_net\) refuses native XDP: .*\n"
    alone("fixed", refused, begun=True)
    alone("legacy", refused)
    alone("big", r"bmc: sv0: its driver \(virtio_net\) takes native XDP and never runs it.*\n",
          begun=True)


@tap.case
def intel():
    """Their drivers have no XDP, and Debian's cloud kernels have no drivers of them."""
    for cable in ("e1000e", "e1000"):
        there = cards.has_driver(cable)
        tap.is_(there, "cloud" not in os.uname().release, "whether this kernel drives an " + cable)
        if there:
            alone(cable, "")


@tap.case
def igb():
    """Its driver has XDP; qemu has the card since 8.0."""
    if cards.has_driver("igb"):
        driven("igb")
        alone("igb", "", "tc")
    else:
        tap.ok(True, "this qemu, or this kernel, has none")


@tap.case
def large_frames():
    """Multi-buffer XDP is in virtio_net since Linux 6.3."""
    with machines("queues", mtu=9000) as m:
        native = RELEASE >= (6, 3)
        tap.is_(m.tcp.stats("bmc")["sv0:xdp"], "native" if native else "none",
                "MTU 9000: the mode")
        asked(m, "MTU 9000")
        tcpcheck.answered(m, OPERATIONS, "MTU 9000",
                          "tcp_answered_xdp" if native else "tcp_answered_tc")


@tap.case
def down_and_up():
    with machines("queues") as m:
        c = m.server.stream()
        tap.is_([c.get(b"none") for _ in range(4)], [None] * 4, "gets before the interface is down")
        for number in range(2):
            netns.sh("ip", "link", "set", "sv0", "down", namespace=m.pair.server)
            netns.sh("ip", "link", "set", "sv0", "up", namespace=m.pair.server)
            got, grown = m.during(lambda: [c.get(b"none") for _ in range(4)])
            tap.is_((got, grown["tcp_answered"]), ([None] * 4, 4),
                    "up again, %d: the kernel answers on the same connection" % number)


@tap.case
def vlans():
    """XDP answers none with a tag, TC does; vmxnet3 removes tags before XDP sees the frame."""
    for cable in ("queues", "vmxnet3"):
        pair = cards.Pair(cable)
        for namespace, below, last in ((pair.server, "sv0", 1), (pair.client, "cl0", 2)):
            for line in ("link add link %s name v100 type vlan id 100" % below,
                         "address add 10.88.1.%d/24 dev v100" % last, "link set v100 up"):
                netns.sh("ip", *line.split(), namespace=namespace)
        with machines(cable, pair=pair) as m:
            tap.diag(m.server.log())
            tap.ok(server.wait_for(lambda m=m: m.tcp.stats("bmc")["addresses_ipv4"] == "3"),
                   "%s: the kernel answers at the VLAN's address" % cable)
            asked(m, cable + ", a tag", ("10.88.1.1", FOUR), (0, 1, 2, 100, 1000, 1300))


tap.run(600)
