#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Packets that others send past the chain: none of them is kept as a reply of the server, or
taken for a write."""
import shutil
import socket
import struct

import chain
import client
import guard
import kernel
import netns
import tap

chain.needed()
if not shutil.which("nft"):
    tap.skip_all("nft is missing: apt-get install nftables")
V4, V6 = ("10.77.0.1", "10.77.0.2"), ("fd77:0::1", "fd77:0::2") # server and client
FORGED, REAL = b"forged", b"real"
REPLY = struct.Struct("!HHHH")
PSH_ACK = 0x18


class Guest:
    """A network namespace behind an interface of the server's machine, with root's capabilities
    in it."""

    def __init__(self, m, name):
        self.m, self.name = m, "%s-%s" % (m.pair.server, name)
        netns.ip("netns add %s" % self.name)
        guard.add("netns", self.name)
        self.ip("link set lo up")

    def host(self, *words):
        return netns.sh(*words, namespace=self.m.pair.server)

    def ip(self, words):
        return netns.sh("ip", *words.split(), namespace=self.name)

    def socket(self, family, kind, protocol=0):
        with netns.inside(self.name):
            return socket.socket(family, kind, protocol)

    def close(self):
        netns.ip("netns del %s" % self.name)
        guard.remove("netns", self.name)


class Routed(Guest):
    """A container behind a veth, for which the machine forwards."""

    def __init__(self, m):
        super().__init__(m, "routed")
        self.host("ip", "link", "add", "gh0", "type", "veth", "peer", "name", "g0", "netns",
                  self.name)
        self.host("ip", "link", "set", "gh0", "up")
        self.host("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        self.ip("link set g0 up")
        for host, own, route in (("10.88.0.1/24", "10.88.0.2/24", "default via 10.88.0.1"),
                                 ("fd88::1/64", "fd88::2/64", "default via fd88::1")):
            self.host("ip", "address", "add", host, "dev", "gh0",
                      *(["nodad"] if ":" in host else []))
            self.ip("address add %s dev g0%s" % (own, " nodad" if ":" in own else ""))
            self.ip("%sroute add %s" % ("-6 " if ":" in own else "", route))


class Beside(Guest):
    """A container with a macvlan on the server's interface, and the server's addresses."""

    def __init__(self, m):
        super().__init__(m, "beside")
        self.host("ip", "link", "add", "link", "sv0", "name", "mv0", "type", "macvlan", "mode",
                  "bridge")
        self.host("ip", "link", "set", "mv0", "netns", self.name)
        self.ip("link set mv0 up")
        mac = netns.link("cl0", m.pair.client)["address"]
        for own, other in (V4, V6):
            self.ip("address add %s/%d dev mv0%s" %
                    (own, 64 if ":" in own else 24, " nodad" if ":" in own else ""))
            self.ip("neighbour replace %s lladdr %s dev mv0" % (other, mac))


def family(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def forged(ident, key):
    return REPLY.pack(ident, 0, 1, 0) + kernel.answer((key, FORGED))


def is_not_kept(m, host, key, attack, name):
    """While the server is stopped, another sender answers its client, which accepts the reply.
    attack(the client's socket, the datagram)."""
    m.tcp.set(key, REAL)
    udp = chain.Apart(host, m.server.port) if m.bmc else client.Udp(host, m.server.port)
    before = m.counts()
    m.server.pause()
    try:
        ident = udp.send(b"get %s\r\n" % key)
        attack(udp.sock, forged(ident, key))
        tap.is_(udp.message(ident), kernel.answer((key, FORGED)),
                "%s: the forged reply reaches the client" % name)
    finally:
        m.server.resume()
    tap.is_(udp.message(ident), kernel.answer((key, REAL)),
            "%s: the server's reply reaches the client" %
            name)
    grown = {k: v - before[k] for k, v in m.counts().items()}
    tap.is_((grown["fills"], grown["foreign"]), (1, 1), "%s: one of the two replies is kept" % name)
    udp.close()
    m.same(b"get %s\r\n" % key, kernel.answer((key, REAL)),
           "%s: the kernel answers with the server's value" % name)


def ends_no_write(m, host, attack, name):
    """The same of the reply to a write. What ends none is counted by `fill_form`."""
    udp = client.Udp(host, m.server.port)
    before = m.counts()
    m.server.pause()
    try:
        ident = udp.send(b"set written 0 0 1\r\nv\r\n")
        attack(udp.sock, REPLY.pack(ident, 0, 1, 0) + b"STORED\r\n")
        tap.is_(udp.message(ident), b"STORED\r\n", "%s: so does a forged STORED" % name)
    finally:
        m.server.resume()
    tap.is_(udp.message(ident), b"STORED\r\n", "%s: and the server's" % name)
    grown = {k: v - before[k] for k, v in m.counts().items()}
    tap.is_([grown[key] for key in ("writes_ended", "foreign", "fill_form")], [1, 1, 0],
            "%s: only the latter ends the write" % name)
    udp.close()


each = chain.Each(threads=1, listen="0.0.0.0,::")


@each.case
def forwarded_from_a_local_address(m):
    guest = Routed(m)
    guest.ip("-6 address add %s/128 dev g0 nodad" % V6[0])
    sock = guest.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind((V6[0], m.server.port))

    def attack(to, data):
        sock.sendto(data, to.getsockname()[:2])

    is_not_kept(m, V6[0], b"forwarded", attack, "forwarded over IPv6")
    ends_no_write(m, V6[0], attack, "forwarded over IPv6")
    sock.close()
    guest.close()


@each.case
def masqueraded(m):
    """The first sender on a flow has its replies: the client's next packets go to the container."""
    guest = Routed(m)
    for host, where in ((V4[0], "ip"), (V6[0], "ip6")):
        guest.host("nft", "add table %s forged; add chain %s forged out { type nat hook "
                   "postrouting priority 100; }; add rule %s forged out oifname sv0 masquerade" %
                   ((where,) * 3))
        sock = guest.socket(family(host), socket.SOCK_DGRAM)
        sock.settimeout(client.SECONDS)
        sock.bind(("", m.server.port))

        def attack(to, data, sock=sock):
            sock.recv(4096)
            sock.sendto(data, to.getsockname()[:2])

        def first(m=m, host=host, sock=sock):
            udp = client.Udp(host, m.server.port)
            sock.sendto(b"first", udp.sock.getsockname()[:2])
            udp.recv_raw()
            return udp

        key = b"masqueraded-" + where.encode()
        m.tcp.set(key, REAL)
        udp = first()
        before = m.counts()
        ident = udp.send(b"get %s\r\n" % key)
        attack(udp.sock, forged(ident, key))
        tap.is_(udp.message(ident), kernel.answer((key, FORGED)),
                "masqueraded, %s: the forged reply reaches the client" % where)
        grown = {k: v - before[k] for k, v in m.counts().items()}
        tap.is_((grown["fills"], grown["foreign"]), (0, 1),
                "masqueraded, %s: no reply is kept" % where)
        udp.close()
        m.same(b"get %s\r\n" % key, kernel.answer((key, REAL)),
               "masqueraded, %s: the kernel answers with the server's value" % where)
        sock.close()
        guest.host("nft", "delete table %s forged" % where)
    guest.close()


@each.case
def from_a_macvlan_on_the_interface(m):
    guest = Beside(m)
    for host, _ in (V4, V6):
        sock = guest.socket(family(host), socket.SOCK_DGRAM)
        sock.bind((host, m.server.port))
        is_not_kept(m, host, b"beside-%d" % len(host),
                      lambda to, data, sock=sock: sock.sendto(data, to.getsockname()[:2]),
                      "from a macvlan with the address %s" % host)
        sock.close()
    guest.close()


def segment(m, to, text):
    """A TCP segment like the server's, except for its numbers. The client drops it."""
    ports = struct.pack("!HH", m.server.port, to[1])
    head = ports + struct.pack("!IIBBHHH", 1, 1, 5 << 4, PSH_ACK, 0xffff, 0, 0)
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(text), 1, 0, 64, socket.IPPROTO_TCP, 0,
                       socket.inet_aton(V4[0]), socket.inet_aton(to[0])) + head + text


@each.case
def replies_over_tcp(m):
    """They neither end a write nor make the chain lose its connection."""
    guest = Beside(m)
    raw = guest.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    tcp = m.server.stream()
    tcp.ask(b"version\r\n")
    before = m.counts()
    for to in (tcp.sock.getsockname(), (V4[1], 9)):
        raw.sendto(segment(m, to, b"STORED\r\n"), (to[0], 0))
    tap.is_(tcp.ask(b"delete nothing\r\n"), b"NOT_FOUND\r\n", "a write")
    grown = {k: v - before[k] for k, v in m.counts().items()}
    tap.is_([grown[k] for k in ("foreign", "writes_seen", "writes_ended", "lost", "closed_all")],
            [2, 1, 1, 0,
             0], "a write is ended by its own reply, whatever else is sent from the server's port")
    tcp.close()
    raw.close()
    guest.close()


def ip4(body, protocol, to=V4[0], first=0x45, part=0, source="10.77.0.77"):
    head = struct.pack("!BBHHHBBH4s4s", first, 0, 20 + len(body), 7, part, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(to))
    total = sum(struct.unpack("!10H", head))
    check = ~((total & 0xffff) + (total >> 16)) & 0xffff
    return 0x0800, head[:10] + struct.pack("!H", check) + head[12:] + body


def ip6(body, protocol):
    return 0x86dd, struct.pack("!IHBB16s16s", 6 << 28, len(body), protocol, 64,
                               socket.inet_pton(socket.AF_INET6, "fd77:0::77"),
                               socket.inet_pton(socket.AF_INET6, V6[0])) + body


def tcp_of(m, text, flags=PSH_ACK, words=5):
    """Without a checksum."""
    return struct.pack("!HHIIBBHHH", 4711, m.server.port, 1000, 2000, words << 4, flags, 0xffff, 0,
                       0) + text


def packets_without_a_socket(m):
    """(name, packet): packets that no socket of the server receives."""
    write, other = tcp_of(m, b"set untouched 0 0 3\r\nbad\r\n"), b"\0\7\0\7\0\x10\0\0deletexy"
    yield "a segment without a connection", ip4(write, 6)
    yield "an IPv6 segment", ip6(write, 6)
    yield "a segment to another machine", ip4(write, 6, to="10.99.0.1")
    yield "a segment with a malformed header", ip4(tcp_of(m, b"abc", words=2), 6)
    yield "a segment with a malformed IP header", ip4(write, 6, first=0x43)
    yield "data with a SYN", ip4(tcp_of(m, b"flush_all\r\n", flags=2), 6)
    yield "a later fragment", ip4(write, 6, part=0x2010)
    yield "a first fragment to another port", ip4(other, 17, part=0x2000)
    yield "a later IPv6 fragment", ip6(b"\6\0\0\x48\0\0\0\7" + write, 44)


def macs_of(m):
    return [bytes.fromhex(netns.link(*of)["address"].replace(":", ""))
            for of in (("sv0", m.pair.server), ("cl0", m.pair.client))]


def keep(m, key):
    m.tcp.set(key, REAL)
    tap.is_(m.by_kernel(b"get %s\r\n" % key)[1], True, "the kernel answers a key")


@each.case
def packets_that_no_socket_receives(m):
    """Any number of them closes no gate."""
    macs = macs_of(m)
    keep(m, b"untouched")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind(("cl0", 0))
        for name, (kind, packet) in packets_without_a_socket(m):
            frame = macs[0] + macs[1] + struct.pack("!H", kind) + packet

            def flood(frame=frame):
                for _ in range(20):
                    netns.send_frame(raw, frame)
                return m.says([b"get untouched\r\n"])

            answers, grown = m.during(flood) if m.bmc else (flood(), None)
            tap.is_(answers, [kernel.answer((b"untouched", REAL))], "%s changes nothing" % name)
            if grown:
                tap.is_((grown["closed_all"], grown["unfollowed"]), (0, 0),
                        "%s closes no gate" % name)


@each.case
def forged_segments_on_a_connection(m):
    """A sender that knows the addresses and ports of a connection, but not its numbers."""
    macs = macs_of(m)
    keep(m, b"untouched")
    port = m.tcp.sock.getsockname()[1]
    before = m.counts()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind(("cl0", 0))
        for i in range(64): # at most one has both numbers near the right ones
            body = struct.pack("!HHIIBBHHH", port, m.server.port, i << 26, (i * 29 % 64) << 26,
                               5 << 4, PSH_ACK, 0xffff, 0, 0) + b"flush_all\r\n"
            netns.send_frame(raw, macs[0] + macs[1] + b"\x08\0" +
                             ip4(body, 6, source=V4[1])[1])
    m.tcp.set(b"other", REAL)
    grown = {k: v - before[k] for k, v in m.counts().items()}
    tap.ok(grown["no_socket"] >= 56, "forged segments on a connection are ignored")
    tap.ok(grown["unfollowed"] <= 4,
           "they close the table's gate at most a few times (%d)" % grown["unfollowed"])


def translated(m):
    """A connection to an address that is translated to the server's behind the programs."""
    netns.sh("nft", "add table ip aside; add chain ip aside in { type nat hook prerouting priority "
             "-100; }; add rule ip aside in ip daddr 10.77.1.50 dnat to " + V4[0],
             namespace=m.pair.server)
    netns.ip("route add 10.77.1.50 via %s" % V4[0])
    return client.tcp("10.77.1.50", m.server.port)


@each.case
def connections_whose_addresses_are_translated(m):
    tcp = translated(m)
    for turn in range(3):
        value = b"translated-%d" % turn
        tap.is_(tcp.set(b"there", value), b"STORED\r\n", "a write, %d" % turn)
        m.same(b"get there\r\n", kernel.answer((b"there", value)),
               "the kernel answers with the new value")
    if m.bmc:
        m.bmc.stop()
        m.cover()
        m.ready()
        for turn in range(3):
            m.same(b"get there\r\n", kernel.answer((b"there", value)),
                   "before the write the kernel answers")
            value = b"older-%d" % turn
            tcp.set(b"there", value)
            tap.is_(m.udp.ask(b"get there\r\n"), kernel.answer((b"there", value)),
                    "a write on a connection that is older than the chain, %d" % turn)
            m.ready()
    tcp.close()
    netns.sh("nft", "delete table ip aside", namespace=m.pair.server)
    netns.ip("route del 10.77.1.50")


def written_unseen(m, tcp, name):
    """Writes by a connection whose requests the programs do not see; closes it."""
    for turn in range(5):
        keep(m, b"there")
        value = b"unseen-%d" % turn
        tap.is_(tcp.set(b"there", value), b"STORED\r\n", "%s, %d" % (name, turn))
        tap.is_(m.udp.ask(b"get there\r\n"), kernel.answer((b"there", value)),
                "the next get has the new value")
        m.ready()
    tcp.close()


@each.case
def connections_whose_port_is_translated(m):
    """What comes goes to another port, behind which only the server's replies show who reads it."""
    netns.sh("nft", "add table ip aside; add chain ip aside in { type nat hook prerouting priority "
             "-100; }; add rule ip aside in tcp dport 11999 redirect to %d" % m.server.port,
             namespace=m.pair.server)
    tcp = client.tcp(V4[0], 11999)
    written_unseen(m, tcp, "a write to another port")
    netns.sh("nft", "delete table ip aside", namespace=m.pair.server)


@each.case
def connections_in_a_tunnel(m):
    for namespace, own, other in ((m.pair.server, 1, 2), (m.pair.client, 2, 1)):
        netns.ip("link add vx0 type vxlan id 7 dstport 4789 local 10.77.0.%d remote 10.77.0.%d" %
                 (own, other), namespace)
        netns.ip("address add 10.78.0.%d/24 dev vx0" % own, namespace)
        netns.ip("link set vx0 up", namespace)
    m.ready()
    tcp = client.tcp("10.78.0.1", m.server.port)
    written_unseen(m, tcp, "a write in a tunnel")
    for namespace in (m.pair.server, m.pair.client):
        netns.ip("link delete vx0", namespace)


each.end()
tap.run()
