#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""IPv6, VLAN tags, large frames, and packets for other machines: over real interfaces.

The client's sockets are real: a reply with a wrong checksum never reaches them.
"""
import contextlib
import socket
import struct

import cable
import client
import kernel
import netns
import segments
import tap
from kernel import answer

SIX = "fd77:0::1"
MAC = bytes.fromhex("024d43000140")
CLIENT = bytes.fromhex("024d43000240")
ITEMS = {b"k": b"v", b"odd": b"x" * 31, b"long": b"y" * 900, b"most": b"z" * 1300,
         b"key" * 80: b"w" * 77}


@contextlib.contextmanager
def machines(prepare=None, interface=None, **options):
    """A server that listens on both families, with ITEMS. prepare: before its start."""
    class Prepared(kernel.Machines):
        def start(self):
            if prepare:
                prepare(self.pair)
            if interface:
                self.arguments = ("-X", self.arguments[1].replace("bmc=sv0", "bmc=" + interface))
            super().start()

    with Prepared(listen="0.0.0.0,[::]", **options) as m:
        for key, value in ITEMS.items():
            m.tcp.set(key, value)
        yield m


def asked(m, host, name, requests=None):
    """Checks that each request gets the right answer, from the kernel."""
    m.udp.close()
    kernel.meet(host, m.server.port)
    m.udp = client.Udp(host, m.server.port)
    for request, want in requests or gets():
        m.same(request, want, "%s: get of %d bytes" % (name, len(request)))


def gets():
    for key, value in ITEMS.items():
        yield b"get %s\r\n" % key, answer((key, value))
    yield b"get none\r\n", answer()
    yield b"get none k odd none long\r\n", answer(*((key, ITEMS[key])
                                                    for key in (b"k", b"odd", b"long")))
    yield b"get %s\r\n" % (b"x " * 700), answer()


@tap.case
def ipv6():
    for mode in ("native", "skb", "tc"):
        with machines(mode=mode) as m:
            asked(m, SIX, "IPv6, %s" % mode)
            _, grown = m.during(lambda: m.udp.ask(b"get k\r\n"))
            tap.is_(grown["answered_tc"], int(mode != "native"),
                    "IPv6, %s: the kernel answers" % mode)
    with kernel.Machines(listen="10.77.0.1,[%s]" % SIX) as m:
        m.tcp.set(b"k", b"v")
        asked(m, SIX, "listening on single addresses", [(b"get k\r\n", answer((b"k", b"v")))])


def damage_replies(m, pair):
    """What of 400 replies arrives, of which two in five have one bit flipped: the wrong ones."""
    pair.unplug()
    pair.plug(0, "--corrupt-ab", 0.4)
    asked, arrived, wrong = {}, 0, []
    m.udp.sock.settimeout(0.01)
    for request, want in 50 * list(gets()):
        asked[m.udp.send(request)] = want
        try:
            reply = m.udp.recv_raw()
        except socket.timeout:
            continue # it was damaged, or comes later
        arrived += 1
        ident = int.from_bytes(reply[:2], "big")
        if reply[2:8] != bytes((0, 0, 0, 1, 0, 0)) or reply[8:] != asked.get(ident):
            wrong.append(reply)
    damaged = pair.unplug()["ab"]["corrupted"]
    pair.plug()
    return arrived, damaged, wrong


@tap.case
def replies_that_the_network_damages():
    for mode in ("native", "tc"):
        pair = cable.Pair()
        with machines(mode=mode, pair=pair) as m:
            (arrived, damaged, wrong), grown = m.during(lambda: damage_replies(m, pair))
            tap.is_(wrong, [], "%s: no damaged reply reaches a client" % mode)
            tap.ok(arrived >= 100 and damaged >= 100 and grown["answered"] >= 200,
                   "of %d that the kernel gave %d arrive, and %d frames are damaged" %
                   (grown["answered"], arrived, damaged))


# --- partial checksums ---

def put_bridge_between(pair):
    """From the server's new end s0 over a bridge to the client's c0, through a port that
    computes checksums itself."""
    def ip(*words):
        netns.sh("ip", *words, namespace=pair.server)
    bridge = pair.client # its own end of the bridge
    ip("link", "add", "s0", "type", "veth", "peer", "name", "bs", "netns", bridge)
    ip("address", "add", "10.70.0.1/24", "dev", "s0")
    ip("address", "add", "fd70::1/64", "dev", "s0", "nodad")
    ip("link", "set", "s0", "up")
    for words in (("link", "add", "br0", "type", "bridge"),
                  ("link", "add", "c0", "type", "veth", "peer", "name", "bc"),
                  ("link", "set", "bs", "master", "br0", "up"),
                  ("link", "set", "bc", "master", "br0", "up"),
                  ("link", "set", "br0", "up"),
                  ("address", "add", "10.70.0.2/24", "dev", "c0"),
                  ("address", "add", "fd70::2/64", "dev", "c0", "nodad"),
                  ("link", "set", "c0", "up")):
        netns.sh("ip", *words, namespace=bridge)
    netns.await_carrier((pair.server, "s0"), (bridge, "bc"))
    netns.ethtool(bridge, "bc", 0x17, 0) # ETHTOOL_STXCSUM


@tap.case
def partial_checksums():
    for mode in ("skb", "tc"):
        with machines(put_bridge_between, mode=mode, interface="s0") as m:
            for host in ("10.70.0.1", "fd70::1"):
                asked(m, host, "partial checksums, %s, %s" % (mode, host))


# --- VLANs -----------------------------------------------------------------------

def switch_off(namespace, interface, flags):
    """As ethtool -K: the driver leaves tags in the frames."""
    now = netns.ethtool(namespace, interface, 0x25, 0) # ETHTOOL_GFLAGS
    netns.ethtool(namespace, interface, 0x26, now & ~flags)


RXVLAN, TXVLAN = 1 << 8, 1 << 7


def add_vlans(pair):
    """VLAN 100, and VLAN 100 inside the 802.1ad VLAN 200, at both ends."""
    for namespace, below, last in ((pair.server, "sv0", 1), (pair.client, "cl0", 2)):
        def ip(*words):
            netns.sh("ip", *words, namespace=namespace)
        ip("link", "add", "link", below, "name", "v100", "type", "vlan", "id", 100)
        ip("link", "add", "link", below, "name", "v200", "type", "vlan", "proto", "802.1ad",
           "id", 200)
        ip("link", "set", "v200", "up")
        ip("link", "add", "link", "v200", "name", "v200.100", "type", "vlan", "id", 100)
        for number, interface in ((1, "v100"), (2, "v200.100")):
            ip("address", "add", "10.88.%d.%d/24" % (number, last), "dev", interface)
            ip("address", "add", "fd88:%d::%d/64" % (number, last), "dev", interface, "nodad")
            ip("link", "set", interface, "up")


def add_vlans_in_frames(pair):
    """The same, with drivers that leave the tags in the frames."""
    switch_off(pair.server, "sv0", RXVLAN | TXVLAN)
    switch_off(pair.client, "cl0", RXVLAN | TXVLAN)
    add_vlans(pair)


def has_vlans():
    """Some kernels are built without VLANs: there only the tests of t/bpf cover them."""
    pair = netns.Pair()
    try:
        add_vlans(pair)
        return True
    except RuntimeError as error:
        if "Unknown device type" not in str(error):
            raise
        return False
    finally:
        pair.close()


@tap.case
def vlans():
    if not has_vlans():
        tap.diag("this kernel has no VLANs: only t/bpf/answers covers them")
        return
    for how, prepare, mode in (("beside the packet", add_vlans, "skb"),
                               ("beside the packet", add_vlans, "tc"),
                               ("in the frame", add_vlans_in_frames, "skb"),
                               ("in the frame", add_vlans_in_frames, "tc")):
        with machines(prepare, mode=mode) as m:
            for host in ("10.88.1.1", "fd88:1::1", "10.88.2.1", "fd88:2::1", "10.77.0.1", SIX):
                asked(m, host, "tags %s, %s, %s" % (how, mode, host))


# --- packets for others ------------------------------------------------------------

def frame(port, to=MAC, tag=b"", address="10.77.0.1", source="10.77.0.2", from_=CLIENT):
    text = struct.pack("!HHHH", 0x4321, 0, 1, 0) + b"get k\r\n"
    udp = struct.pack("!HHHH", 40000, port, 8 + len(text), 0) + text
    ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 7, 0, 64, 17, 0,
                               socket.inet_aton(source), socket.inet_aton(address)))
    struct.pack_into("!H", ip, 10, segments.checksum(bytes(ip)))
    return to + from_ + tag + b"\x08\x00" + bytes(ip) + udp


@tap.case
def foreign_packets():
    rows = (("to our MAC address", {}, "answered"),
            ("to another MAC address, as a bridge or a promiscuous interface sees it",
             {"to": bytes.fromhex("024d430001ff")}, "pass_mac"),
            ("to a VRRP router's MAC address", {"to": bytes.fromhex("00005e000107")}, "pass_mac"),
            ("to all MAC addresses", {"to": b"\xff" * 6}, "pass_mac"),
            ("to a group of MAC addresses", {"to": bytes.fromhex("01005e000001")}, "pass_mac"),
            ("without a MAC address", {"to": bytes(6)}, "pass_mac"),
            ("from a group of MAC addresses", {"from_": b"\xff" * 6}, "pass_mac"),
            ("to a VLAN that does not exist", {"tag": bytes.fromhex("8100012c")}, "pass_mac"),
            ("with a priority and no VLAN", {"tag": bytes.fromhex("81006000")}, "answered"),
            ("to an address behind this machine", {"address": "10.77.9.9"}, None),
            ("to all addresses", {"address": "255.255.255.255"}, None),
            ("from our own address", {"source": "10.77.0.1"}, "pass_source"))
    # A packet to another MAC address never reaches TC: it is not counted there.
    everything = ("answered", "pass_mac", "pass_source")
    for mode, counted in (("native", everything), ("skb", everything),
                          ("tc", ("answered", "pass_source"))):
        with machines(lambda pair: (switch_off(pair.server, "sv0", RXVLAN),
                                    switch_off(pair.client, "cl0", TXVLAN)), mode=mode) as m:
            netns.ip("link set sv0 promisc on", m.pair.server)
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            raw.bind(("cl0", 0))
            for name, fields, counter in rows:
                before = m.counts()
                netns.send_frame(raw, frame(m.server.port, **fields))
                m.udp.ask(b"get none\r\n") # follows it
                grown = {key: value - before[key] for key, value in m.counts().items()}
                grown["answered"] -= 1
                wanted = {key: int(key == counter) for key in counted}
                tap.is_({key: grown[key] for key in wanted}, wanted, "%s, %s" % (name, mode))
            raw.close()


def put_others_behind(pair, behind):
    """sv0 becomes a port of a bridge, and `behind` is reached through another port of it, and by
    routing."""
    def ip(text, namespace=pair.server):
        netns.sh("ip", *text.split(), namespace=namespace)
    ip("link add br0 type bridge")
    ip("link set br0 up")
    ip("address flush dev sv0")
    ip("link set sv0 master br0")
    ip("address add 10.77.0.1/24 dev br0")
    ip("link add bridged type veth peer name b0 netns " + behind)
    ip("link set bridged master br0 up")
    ip("link add routed type veth peer name r0 netns " + behind)
    ip("address add 10.66.0.1/24 dev routed")
    ip("link set routed up")
    for text in ("address add 10.77.0.3/24 dev b0", "link set b0 up",
                 "address add 10.66.0.3/24 dev r0", "link set r0 up"):
        ip(text, behind)
    netns.await_carrier((pair.server, "bridged"), (pair.server, "routed"))
    ip("route add 10.66.0.0/24 via 10.77.0.1", pair.client)
    with netns.inside(pair.server), open("/proc/sys/net/ipv4/ip_forward", "w",
                                         encoding="ascii") as file:
        file.write("1")


@tap.case
def bridged_and_routed():
    behind = netns.Pair(links=0)
    for mode in ("native", "tc"):
        with machines(lambda pair: put_others_behind(pair, behind.client), mode=mode) as m:
            for host in "10.77.0.1", "10.66.0.1":
                asked(m, host, "%s, on a machine that bridges and routes, %s" % (host, mode),
                      [(b"get k\r\n", answer((b"k", b"v")))])
            with netns.inside(behind.client):
                other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                other.bind(("0.0.0.0", m.server.port))
                other.settimeout(20)
            for host, how in ("10.77.0.3", "bridged"), ("10.66.0.3", "routed"):
                udp = client.Udp(host, m.server.port)
                got, grown = m.during(lambda udp=udp: (udp.send(b"get k\r\n"),
                                                       other.recv(2000)[8:])[1])
                tap.is_((got, grown["answered"], grown["packets_seen"]), (b"get k\r\n", 0, 0),
                        "a packet that is %s arrives there, %s" % (how, mode))
                udp.close()
            other.close()
            for name in "b0", "r0":
                netns.ip("link del %s" % name, behind.client)
    behind.close()


# --- large frames --------------------------------------------------------------------

@tap.case
def large_frames():
    for mode in ("native", "skb"):
        with machines(mode=mode, mtu=9000) as m:
            for host in ("10.77.0.1", SIX):
                asked(m, host, "MTU 9000, %s, %s" % (mode, host))
                keys = b" ".join(b"%0100d" % i for i in range(60))
                m.same(b"get %s k\r\n" % keys, answer((b"k", b"v")),
                       "MTU 9000, %s, %s: a request of 6,000 bytes" % (mode, host), kernel=False)


tap.run()
