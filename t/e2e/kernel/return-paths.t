#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""The return path: the kernel answers a source the way that the stack replied to it, or passes the
request.

A raw socket sends frames with any source and MAC address; another receives what comes back.
"""
import contextlib
import socket
import struct

import client
import guard
import kernel
import netns
import segments
import server
import tap
from kernel import answer

OURS, CLIENTS = bytes.fromhex("024d43000140"), bytes.fromhex("024d43000240")
OTHER_MAC = bytes.fromhex("024d430002ff")
HIT = answer((b"k", b"v"))
FORGED = 5000
STRANGERS = 200 # whose neighbours are looked for: Linux's table of 1,024 is all namespaces'
ALL_FRAMES = 3


class Machines(kernel.Machines):
    """No return path is known at first, and any source is accepted: there is no rp_filter."""

    def start(self):
        self.pair.accept_any_source()
        super().start()
        self.tcp.set(b"k", b"v")
        self.raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.raw.bind(("cl0", ALL_FRAMES))
        client.make_room(self.raw, 64 << 20)

    def meet(self, *sources):
        if sources:
            super().meet(*sources)

    def keep_way(self):
        """What makes a way known is what these tests are about."""

    def ip(self, words):
        netns.sh("ip", *words.split(), namespace=self.pair.server)

    def asked(self, source=None, host=None, times=1):
        """(all answers are right, answers of the kernel, requests passed for lack of a way)."""
        udp = client.Udp(host or self.pair.address(), self.server.port, source=source)
        right, grown = self.during(lambda: all(udp.ask(b"get k\r\n") == HIT for _ in range(times)))
        udp.close()
        return right, grown["answered"], grown["pass_way"]

    def sent(self, frames):
        """The increase of the counters while these are sent, and the MAC addresses that replies
        are sent to."""
        def send():
            for data in frames:
                netns.send_frame(self.raw, data)
            self.udp.sock.settimeout(1)
            server.wait_for(self.all_read)

        _, grown = self.during(send)
        return grown, {data[:6] for data in self.frames() if self.is_reply(data)}

    def all_read(self):
        """Whether the server's socket has read, or dropped, what was sent to it before."""
        try:
            return self.udp.ask(b"version\r\n").startswith(b"VERSION")
        except (TimeoutError, client.FrameError): # lost, or late
            return False

    def frames(self):
        self.raw.setblocking(False)
        try:
            while True:
                data, address = self.raw.recvfrom(2048)
                if address[2] != socket.PACKET_OUTGOING:
                    yield data
        except BlockingIOError:
            self.raw.setblocking(True)

    def is_reply(self, data):
        """Whether the reply is to a request that frame() made."""
        return data[12:14] == b"\x08\x00" and data[34:38] == struct.pack("!HH", self.server.port,
                                                                        PORT)


PORT = 40007


def frame(m, source, mac=CLIENTS):
    text = struct.pack("!HHHH", 7, 0, 1, 0) + b"get k\r\n"
    udp = struct.pack("!HHHH", PORT, m.server.port, 8 + len(text), 0) + text
    ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 7, 0, 64, 17, 0,
                               socket.inet_aton(source), socket.inet_aton(m.pair.address())))
    total = sum(struct.unpack("!10H", ip))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    struct.pack_into("!H", ip, 10, ~total & 0xffff)
    return OURS + mac + b"\x08\x00" + bytes(ip) + udp


def forged(m, count):
    """Sends requests from sources of no machine, twice: (which time, increase of the counters,
    destinations of the replies)."""
    frames = [frame(m, "10.200.%d.%d" % (i >> 8, i & 255), OTHER_MAC) for i in range(count)]
    for again in "once", "and again":
        yield again, *m.sent(frames)


@tap.case
def a_source_is_known_when_the_server_has_replied():
    for mode in "native", "skb", "tc":
        with Machines(mode=mode, listen="0.0.0.0,[::]") as m:
            for host in "10.77.0.1", "fd77:0::1":
                tap.is_(m.asked(host=host, times=10), (True, 9, 1),
                        "%s, %s: the server answers the first request, the kernel the others" %
                        (host, mode))


@tap.case
def forged_sources_without_a_machine():
    """The stack gets no answer when it looks for these neighbours."""
    with Machines(words=("rate=10/10",)) as m:
        m.ip("route add 10.200.0.0/16 dev sv0")
        for again, grown, macs in forged(m, STRANGERS):
            tap.is_((grown["answered"], macs), (0, set()),
                    "%d forged sources get no reply, %s" % (STRANGERS, again))
        tap.is_(m.asked(times=2)[:2], (True, 2), "a source that got replies still gets them")


@tap.case
def forged_sources_behind_a_router():
    """The stack replies through the router: requests from its MAC address are answered, from
    others not."""
    with Machines(words=("rate=10/10",)) as m:
        m.ip("route add 10.200.0.0/16 via 10.77.0.2")
        for again, _, macs in forged(m, FORGED):
            tap.is_(macs, {CLIENTS}, "replies are sent to the router alone, %s" % again)


@tap.case
def a_request_from_another_mac_address():
    """As of two routers with one virtual address."""
    with Machines() as m:
        m.asked()
        grown, macs = m.sent([frame(m, "10.77.0.2", OTHER_MAC)])
        tap.is_((grown["answered"] + grown["pass_way"], macs), (1, {CLIENTS}),
                "the reply is sent where the stack sends it")


@tap.case
def the_broadcast_address_of_our_network():
    with Machines() as m:
        m.ip("address add 10.77.0.65/26 dev sv0")
        for source in "10.77.0.255", "10.77.0.127":
            grown, macs = m.sent([frame(m, source)] * 3)
            tap.is_((grown["answered"], grown["pass_way"], macs), (0, 3, set()),
                    "requests from %s are never answered" % source)


@tap.case
def a_neighbour_that_is_a_group():
    """As of machines that share an address, each of which gets what is sent to it."""
    with Machines() as m:
        m.ip("neighbour replace 10.77.0.5 lladdr 03:bf:0a:4d:00:05 dev sv0 nud permanent")
        grown, _ = m.sent([frame(m, "10.77.0.5")] * 3)
        tap.is_((grown["answered"], grown["pass_way"]), (0, 3),
                "a source whose replies go to several machines is passed")


@tap.case
def a_route_back_by_another_interface():
    with Machines(links=2) as m:
        netns.ip("address add 10.99.0.2/32 dev cl0", m.pair.client)
        m.ip("route add 10.99.0.2/32 via 10.77.1.2")
        server.wait_for(lambda: m.asked() == (True, 1, 0))
        tap.is_(m.asked("10.99.0.2", times=3), (True, 0, 3),
                "a source that the stack replies to through another interface is passed")
        m.ip("route replace 10.99.0.2/32 via 10.77.0.2")
        tap.ok(server.wait_for(lambda: m.asked("10.99.0.2")[:2] == (True, 1)),
               "with a route back through this interface it is answered")
        m.ip("route replace 10.99.0.2/32 via 10.77.1.2")
        tap.ok(server.wait_for(lambda: m.asked("10.99.0.2", times=3) == (True, 0, 3)),
               "after a change of the route it is passed")
        m.ip("route replace 10.99.0.2/32 via 10.77.0.2")
        server.wait_for(lambda: m.asked("10.99.0.2") == (True, 1, 0))
        m.ip("route add default via 10.77.1.2 table 7")
        m.ip("rule add to 10.99.0.2 table 7")
        tap.ok(server.wait_for(lambda: m.asked("10.99.0.2", times=3) == (True, 0, 3)),
               "after a change of the rules it is passed")


@tap.case
def a_client_that_moves():
    with Machines() as m:
        tap.is_(m.asked(times=2), (True, 1, 1), "at the old MAC address")
        netns.ip("link set cl0 address 02:4d:43:00:02:77", m.pair.client)
        m.ip("neighbour flush dev sv0")
        tap.ok(server.wait_for(lambda: answered(m)), "the kernel answers at the new MAC address")


def answered(m):
    """Whether the kernel answers; a reply may be lost."""
    udp = client.Udp(m.pair.address(), m.server.port, 0.2)
    try:
        return m.during(lambda: udp.ask(b"get k\r\n") == HIT)[1]["answered"] == 1
    except TimeoutError:
        return False
    finally:
        udp.close()


@tap.case
def only_replies_of_the_server_make_a_way_known():
    """Datagrams of other sockets of this machine, and forwarded ones, do not."""
    with Machines() as m:
        with netns.inside(m.pair.server):
            other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        other.sendto(b"x", ("10.77.0.2", PORT))
        other.close()
        tap.is_(m.asked(), (True, 0, 1), "a datagram from another port does not make a way known")
    with Machines() as m:
        with netns.inside(m.pair.server):
            raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
        raw.bind((m.pair.address(), 0))
        raw.sendto(struct.pack("!HHHH", m.server.port, PORT, 9, 0) + b"x", ("10.77.0.2", 0))
        raw.close()
        tap.is_(m.asked(), (True, 0, 1), "one of a raw socket, from the server's port, neither")


SOURCES = ["10.77.0.%d" % i for i in (101, 102, 103)] # of the client: each way is another's
COLONS = ":".join("%02x" % byte for byte in CLIENTS)


@contextlib.contextmanager
def container(m):
    """A network namespace on the server's machine that has the server's address, on a macvlan, and
    knows the client's MAC address."""
    name = m.pair.server[:-1] + "k"
    netns.ip("netns add %s" % name)
    guard.add("netns", name)
    try:
        m.ip("link add link sv0 name in0 netns %s type macvlan mode bridge" % name)
        for words in ["link set lo up", "address add %s/24 dev in0" % m.pair.address(),
                      "link set in0 up"] + \
                ["neighbour add %s lladdr %s dev in0" % (one, COLONS) for one in SOURCES]:
            netns.sh("ip", *words.split(), namespace=name)
        yield name
    finally:
        netns.ip("netns del %s" % name)
        guard.remove("netns", name)


def datagram(ours, to):
    return segments.ip4(ours[0], to[0], struct.pack("!HHHH", ours[1], to[1], 9, 0) + b"x",
                        socket.IPPROTO_UDP)


def by_datagram_socket(ours, to):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(ours)
        sock.sendto(b"x", to)


def by_raw_socket(ours, to):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
        sock.sendto(datagram(ours, to), to)


def by_packet_socket(ours, to):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind(("in0" if "in0" in [name for _, name in socket.if_nameindex()] else "sv0", 0))
        sock.send(CLIENTS + OURS + b"\x08\x00" + datagram(ours, to))


SENDERS = (by_datagram_socket, by_raw_socket, by_packet_socket)


def teaches_nothing(m, namespace, whose, senders):
    """Datagrams from the server's address and port that these send."""
    ours = m.pair.address(), m.server.port
    for source, send in zip(SOURCES, senders):
        name = "%s, %s" % (whose, send.__name__.replace("_", " "))
        netns.ip("address add %s dev cl0" % (source + "/24"), m.pair.client)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((source, 0))
            sock.settimeout(5 * tap.SLOW)
            with netns.inside(namespace):
                send(ours, sock.getsockname())
            tap.is_(sock.recvfrom(100), (b"x", ours), "%s: a datagram of the server's port" % name)
        tap.is_(m.asked(source), (True, 0, 1), "%s: it does not make a way known" % name)
        tap.is_(m.asked(source), (True, 1, 0), "%s: the server's reply does" % name)


@tap.case
def a_container_with_the_servers_address():
    for mode in "native", "tc":
        with Machines(mode=mode) as m, container(m) as namespace:
            teaches_nothing(m, namespace, "a macvlan, " + mode, SENDERS)


@tap.case
def other_sockets_of_this_machine():
    with Machines() as m:
        teaches_nothing(m, m.pair.server, "this machine", SENDERS[1:])


@tap.case
def a_container_beside_a_connection():
    """It sends segments of the connection, to another MAC address."""
    for mode in "native", "tc":
        with Machines(mode=mode, words=("tcp=on",)) as m, container(m) as namespace:
            stream = client.tcp(m.pair.address(), m.server.port)
            ours, to = stream.sock.getpeername(), stream.sock.getsockname()
            tap.ok(server.wait_for(lambda: answered_over_tcp(m, stream)),
                   "%s: the kernel answers on a connection" % mode)
            for flags in segments.ACK, segments.SYN | segments.ACK, segments.SYN:
                with netns.inside(namespace), \
                        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
                    sock.bind(("in0", 0))
                    sock.send(OTHER_MAC + OURS + b"\x08\x00" + segments.ip4(
                        ours[0], to[0], segments.tcp(ours, to, 7, 7, flags,
                                                     options=segments.stamps(7, 7))))
                tap.ok(answered_over_tcp(m, stream), "%s: it still does after one with flags %#x"
                       % (mode, flags))
            stream.close()


def answered_over_tcp(m, stream):
    """Whether the kernel answers a get on this connection."""
    before = m.counts()["tcp_answered"]
    stream.send(b"get k\r\n")
    return stream.exactly(len(HIT)) == HIT and m.counts()["tcp_answered"] == before + 1


tap.run()
