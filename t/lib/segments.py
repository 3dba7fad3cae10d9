# SPDX-License-Identifier: BSD-3-Clause
"""segments: TCP by hand. A Peer is a client whose segments the test itself makes and reads, beside
the stack of its machine, which does not have the peer's address. IPv4 alone."""
import collections
import random
import re
import socket
import struct
import time

import netns
import tap

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << i for i in range(8))
STAMPS = b"\1\1\x08\x0a"
SECONDS = 10 * tap.SLOW # what has not come by then does not come

Segment = collections.namedtuple("Segment", "seq ack flags window tsval tsecr text")


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ip4(source, to, body, protocol=socket.IPPROTO_TCP, fragment=0x4000, options=b"", traffic=0):
    head = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, traffic,
                                 20 + len(options) + len(body), 7, fragment, 64, protocol, 0,
                                 socket.inet_aton(source), socket.inet_aton(to))) + options
    struct.pack_into("!H", head, 10, checksum(bytes(head)))
    return bytes(head) + body


def tcp(source, to, seq, ack, flags=ACK | PSH, text=b"", window=0xffff, options=b"", urgent=0,
        damage=0, v6=False):
    """A segment from (address, port) to such, with its checksum, to which `damage` is added."""
    body = struct.pack("!HHIIBBHHH", source[1], to[1], seq % 2**32, ack % 2**32,
                       (20 + len(options)) // 4 << 4, flags, window, 0, urgent) + options + text
    family = socket.AF_INET6 if v6 else socket.AF_INET
    pseudo = socket.inet_pton(family, source[0]) + socket.inet_pton(family, to[0]) + struct.pack(
        "!HH", socket.IPPROTO_TCP, len(body))
    check = (checksum(pseudo + body) + damage) % 0xffff
    return body[:16] + struct.pack("!H", check) + body[18:]


def stamps(tsval, tsecr):
    return STAMPS + struct.pack("!II", tsval % 2**32, tsecr % 2**32)


def mac_of(interface, namespace):
    return bytes.fromhex(netns.link(interface, namespace)["address"].replace(":", ""))


# In ICMP: the path is too narrow for a packet.
NARROW = (3, 4)


def error(m, at, seq, kind=NARROW, mtu=600, nquoted=28, damage=0):
    """As of a router that could not deliver a segment of the server's to (address, port) `at`."""
    server_at = (m.pair.address(), m.server.port)
    segment = tcp(server_at, at, seq, 0, ACK, bytes(1400))
    quoted = ip4(server_at[0], at[0], segment)
    body = struct.pack("!BBHI", *kind, 0, mtu) + quoted[:nquoted]
    check = struct.pack("!H", (checksum(body) + damage) % 0xffff)
    return ip4("10.77.0.3", server_at[0], body[:2] + check + body[4:], socket.IPPROTO_ICMP)


def path_mtu(m, address):
    """What the server's machine has learned of the path; None: nothing."""
    found = re.search(r"\bmtu (?:lock )?(\d+)",
                      netns.ip("route get %s" % address, m.pair.server))
    return int(found[1]) if found else None


class Wire:
    """Frames of IPv4 on an interface, by default the client's: they leave for the server by send(),
    and receive() has those that arrive. everything: what leaves, too, also where the interface is a
    bridge's."""

    def __init__(self, pair, interface="cl0", namespace=None, everything=False):
        self.to = mac_of(pair.interface(), pair.server)
        namespace = namespace or pair.client
        protocol = 3 if everything else 0x0800
        with netns.inside(namespace):
            self.own = mac_of(interface, namespace)
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.sock.bind((interface, protocol))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)

    def send(self, packet, from_=None):
        netns.send_frame(self.sock, self.to + (from_ or self.own) + b"\x08\0" + packet)

    def receive(self, seconds=SECONDS):
        """(source, to, Segment) of the next segment of TCP, whose checksum must be right; None:
        none comes."""
        packet = self.packet(seconds)
        return packet and parse(packet)

    def packet(self, seconds=SECONDS):
        """The next packet of TCP, or None."""
        end = time.monotonic() + seconds
        while True:
            self.sock.settimeout(max(end - time.monotonic(), 0.001))
            try:
                frame = self.sock.recv(70000)
            except TimeoutError:
                return None
            if frame[12:15] == b"\x08\0\x45" and frame[23] == socket.IPPROTO_TCP:
                return frame[14:]

    def packets(self):
        """All that have come."""
        return list(iter(lambda: self.packet(0.01), None))

    def close(self):
        self.sock.close()


def parse(packet):
    nip = struct.unpack_from("!H", packet, 2)[0]
    body = packet[20:nip]
    sport, dport, seq, ack, nheader, flags, window = struct.unpack_from("!HHIIBBH", body)
    source, to = (socket.inet_ntoa(packet[at:at + 4]) for at in (12, 16))
    nheader = nheader >> 4 << 2
    tsval = tsecr = None
    if body[20:24] == STAMPS:
        tsval, tsecr = struct.unpack_from("!II", body, 24)
    elif flags & SYN and STAMPS[2:] in body[20:nheader]:
        tsval, tsecr = struct.unpack_from("!II", body, body.index(STAMPS[2:], 20) + 2)
    pseudo = packet[12:20] + struct.pack("!HH", socket.IPPROTO_TCP, len(body))
    if checksum(pseudo + body):
        raise ValueError("a wrong checksum: %r" % packet)
    return ((source, sport), (to, dport),
            Segment(seq, ack, flags, window, tsval, tsecr, body[nheader:]))


class Peer:
    """A client at an address that no machine has; its numbers may begin anywhere. Offloads must be
    off at both ends of the pair, since it has no others. lay: timestamps as options."""

    def __init__(self, m, port, address="10.77.0.9", mss=1460, stamped=True, seq=None, clock=None,
                 window=0xffff, lay=stamps):
        self.wire = Wire(m.pair)
        netns.ip("neighbour replace %s lladdr %s dev %s nud permanent" %
                 (address, self.wire.own.hex(":"), m.pair.interface()), m.pair.server)
        self.at, self.server = (address, port), (m.pair.address(), m.server.port)
        self.seq = random.getrandbits(32) if seq is None else seq
        self.clock = random.getrandbits(32) if clock is None else clock
        self.stamped, self.window, self.ack, self.tsecr = stamped, window, 0, 0
        self.lay = lay
        self.got = {} # every byte that came, by its number
        options = struct.pack("!BBH", 2, 4, mss)
        self.send(flags=SYN, options=options + (stamps(self.clock, 0) if stamped else b""), ack=0)
        self.seq += 1
        answer = self.receive()
        if not answer or answer.flags != SYN | ACK:
            raise RuntimeError("no connection: %s" % (answer,))
        self.ack = self.end = answer.seq + 1
        self.send()

    def send(self, text=b"", flags=ACK, seq=None, ack=None, options=None, tsval=None, window=None,
             **how):
        """A segment, which changes none of the numbers; how: of tcp() and ip4()."""
        if options is None:
            options = self.lay(self.clock if tsval is None else tsval, self.tsecr) \
                if self.stamped else b""
        ip = {name: how.pop(name) for name in ("fragment", "traffic") if name in how}
        ip["options"] = how.pop("ip_options", b"")
        body = tcp(self.at, self.server, self.seq if seq is None else seq,
                   self.ack if ack is None else ack, flags, text,
                   self.window if window is None else window, options, **how)
        self.clock += 1
        self.wire.send(ip4(self.at[0], self.server[0], body, **ip))
        return body

    def push(self, text, flags=ACK | PSH, **how):
        """Sends the next bytes of the stream."""
        self.send(text, flags, **how)
        self.seq += len(text) + bool(flags & FIN)

    def receive(self, seconds=SECONDS):
        """The server's next segment, whose numbers continue this peer's; None: none comes."""
        while True:
            found = self.wire.receive(seconds)
            if not found or found[:2] == (self.server, self.at):
                break
        if not found:
            return None
        segment = found[2]
        if segment.tsval is not None:
            self.tsecr = segment.tsval
        for i, byte in enumerate(segment.text):
            if self.got.setdefault((segment.seq + i) % 2**32, byte) != byte:
                raise ValueError("another byte than before at %d: %s" % (i, segment))
        return segment

    def next(self):
        """The number behind what came without a gap."""
        while self.end % 2**32 in self.got:
            self.end += 1
        return self.end

    def read(self, n, acknowledge=True):
        """The next n bytes, or fewer if no more come; acknowledges each segment."""
        start = self.ack
        while self.next() - start < n:
            if not self.receive():
                break
            if acknowledge and self.next() != self.ack:
                self.ack = self.next()
                self.send()
        end = min(self.next(), start + n)
        self.ack = self.next() if acknowledge else end
        return bytes(self.got[i % 2**32] for i in range(start, end))

    def ask(self, request, want):
        """Sends a request: its reply, as far as it is as long as `want`."""
        self.push(request)
        return self.read(len(want))

    def close(self):
        """Without a word: the server's stack does not know."""
        self.send(flags=RST | ACK)
        self.wire.close()
