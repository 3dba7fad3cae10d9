#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames that no correct client sends: truncated, with wrong lengths, with forged sources."""
import random
import socket
import struct

import kernel
import netns
import segments
import tap
from kernel import answer

rng = random.Random(37)
m = kernel.Machines(threads=1)
c = m.tcp
SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
TO = bytes.fromhex(netns.link("sv0", m.pair.server)["address"].replace(":", ""))
FROM = bytes.fromhex(netns.link("cl0", m.pair.client)["address"].replace(":", ""))
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind(("cl0", 0))


def udp_checksum(source, to, udp):
    return segments.checksum(socket.inet_aton(source) + socket.inet_aton(to) +
                             struct.pack("!HH", 17, struct.unpack("!H", udp[4:6])[0]) +
                             udp) or 0xffff


def frame(text=b"get k\r\n", source=CLIENT, to=SERVER, port=40000, dport=None, count=1,
          udp_length=None, total=None, ihl=5, options=b"", fragment=0x4000, protocol=17, version=4,
          macs=None, ethertype=0x0800, vlan=b"", ident=7, check=None):
    """A request as a frame; every field may be wrong."""
    body = struct.pack("!HHHH", ident, 0, count, 0) + text
    dport = m.server.port if dport is None else dport
    ports = struct.pack("!HHH", port, dport, 8 + len(body) if udp_length is None else udp_length)
    if check is None:
        check = udp_checksum(source, to, ports + b"\0\0" + body)
    udp = ports + struct.pack("!H", check) + body
    ip = bytearray(struct.pack("!BBHHHBBH4s4s", version << 4 | ihl, 0,
                               20 + len(options) + len(udp) if total is None else total, 1,
                               fragment, 64, protocol, 0, socket.inet_aton(source),
                               socket.inet_aton(to)))
    ip += options
    ip[10:12] = struct.pack("!H", segments.checksum(bytes(ip)))
    return (macs or TO + FROM) + vlan + struct.pack("!H", ethertype) + bytes(ip) + udp


def sent(*frames):
    """The increase of the counters while these frames are sent."""
    asked = 0

    def send():
        nonlocal asked
        for data in frames:
            netns.send_frame(raw, data)
        # A request behind them in the same queue: when it is answered, all were processed. Many
        # frames may fill the server's socket: then the request is lost.
        answered = False
        udp = m.server.udp()
        udp.sock.settimeout(1)
        while not answered:
            asked += 1
            udp.send(b"version\r\n")
            try:
                answered = b"VERSION" in udp.recv_raw() # to this one or, late, to another
            except TimeoutError:
                pass
        udp.close()

    grown = m.during(send)[1]
    grown["packets_seen"] -= asked
    grown["pass_command"] -= asked
    return grown


def ignored(name, *frames):
    grown = sent(*frames)
    tap.is_(grown["answered"], 0, "%s: not answered by the kernel" % name)


@tap.case
def the_frames_of_this_test_are_right():
    c.set(b"k", b"v")
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((CLIENT, 0))
    receiver.settimeout(20)
    grown = sent(frame(port=receiver.getsockname()[1]))
    tap.is_(grown["answered"], 1, "a correct frame is answered by the kernel")
    tap.is_(receiver.recv(2000)[8:], answer((b"k", b"v")), "its reply arrives")


@tap.case
def checksums():
    """A packet that the stack would drop is not answered, whatever its request."""
    for name, text in (("a get", b"get k\r\n"), ("gets", b"gets k\r\n"), ("mg", b"mg k v\r\n"),
                       ("a get of many", b"get " + b"k " * 50 + b"\r\n")):
        right = frame(text)
        tap.is_(sent(right, frame(text, check=0))["answered"], 2,
                "%s with a right checksum, or without one, is answered" % name)
        damaged = []
        for at in (*range(40, 44), len(right) - len(text), len(right) - 4):
            wrong = bytearray(right)
            wrong[at] ^= 0x10
            damaged.append(bytes(wrong))
        grown = sent(*damaged)
        tap.is_((grown["answered"], grown["pass_packet"] + grown["pass_command"]),
                (0, len(damaged)), "%s with a damaged checksum is passed to the stack" % name)
    begun = ~segments.checksum(socket.inet_aton(CLIENT) + socket.inet_aton(SERVER) +
                               struct.pack("!HH", 17, 8 + 8 + len(b"get k\r\n"))) & 0xffff
    tap.is_(sent(frame(check=begun))["answered"], 1,
            "a request with a partial checksum is answered")


@tap.case
def frames_that_are_cut_short():
    whole = frame()
    grown = sent(*(whole[:size] for size in range(14, len(whole))))
    tap.is_(grown["answered"], 0, "a request truncated anywhere is not answered")
    long = frame(b"get %s\r\n" % b" ".join(b"key%d" % i for i in range(60)))
    grown = sent(*(long[:size] for size in range(14, len(long))))
    tap.is_(grown["answered"], 0, "a request of 60 keys truncated anywhere is not answered")
    grown = sent(*(frame()[:-n] for n in range(1, 8)))
    tap.is_(grown["answered"], 0, "a request whose text is shorter than its length is not answered")


@tap.case
def wrong_lengths():
    honest = 8 + 8 + len(b"get k\r\n")
    ignored("UDP lengths", *(frame(udp_length=length) for length in
                             [*range(0, honest), *range(honest + 1, honest + 40), 1400, 65535]))
    ignored("IP lengths", *(frame(total=length) for length in
                            [*range(0, honest + 20), *range(honest + 21, honest + 60), 1500,
                             65535]))
    ignored("header lengths", *(frame(ihl=ihl) for ihl in (0, 1, 2, 3, 4, 6, 7, 15)))
    ignored("IP versions", *(frame(version=version) for version in (0, 3, 5, 6, 15)))


@tap.case
def packets_that_the_kernel_path_ignores():
    ignored("IP options", frame(options=b"\1\1\1\0", ihl=6), frame(options=b"\1" * 40, ihl=15))
    ignored("fragments", frame(fragment=0x2000), frame(fragment=0x2001), frame(fragment=1),
            frame(fragment=0x1fff), frame(fragment=0x6000))
    ignored("other protocols", *(frame(protocol=protocol) for protocol in
                                 (0, 1, 6, 16, 18, 132, 255)))
    ignored("other types of frame", *(frame(ethertype=kind) for kind in
                                      (0, 0x0806, 0x86dd, 0x8100, 0x88a8, 0xffff, 0x0801)))
    ignored("VLAN tags", frame(vlan=b"\x81\0\0\5"), frame(vlan=b"\x88\xa8\0\5\x81\0\0\6"))
    ignored("other ports", *(frame(dport=port) for port in (0, 1, 53, 11211, 65535)
                             if port != m.server.port))
    ignored("numbers of datagrams", *(frame(count=count) for count in (0, 2, 7, 256, 65535)))


@tap.case
def addresses_that_are_not_local():
    """A machine may route or bridge: it must not answer for other machines, nor at group
    addresses."""
    ignored("other addresses", *(frame(to=to) for to in
                                 ("10.77.0.7", "10.78.0.1", "8.8.8.8", "0.0.0.0", "127.0.0.1",
                                  "1.0.77.10")))
    ignored("broadcast and multicast", *(frame(to=to) for to in
                                         ("10.77.0.255", "255.255.255.255", "224.0.0.1",
                                          "239.1.2.3", "10.77.255.255")))
    ignored("MAC addresses of groups", frame(macs=b"\xff" * 6 + FROM),
            frame(macs=b"\1\0\x5e\0\0\1" + FROM))


@tap.case
def sources_that_are_forged():
    """A reply to these would go to the server itself, to a service, or to many machines."""
    ignored("the server's own address", frame(source=SERVER))
    ignored("addresses of no machine", *(frame(source=source) for source in
                                         ("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.9.9.9",
                                          "224.0.0.1", "239.255.255.255", "240.0.0.1",
                                          "255.255.255.255")))
    ignored("ports of services", *(frame(port=port) for port in
                                   (0, 1, 7, 13, 17, 19, 53, 123, 137, 161, 389, 520, 1023, 11211,
                                    m.server.port)))


@tap.case
def requests_that_are_malformed():
    """Malformed text of every kind: the kernel answers as the server, or passes the request."""
    texts = [b"get", b"get ", b"get\r\n", b"get \r\n", b"get  \r\n", b"getk\r\n", b"get\tk\r\n",
             b"GET k\r\n", b"gets k", b"mg k T1\r\n", b"get k", b"get k\r",
             b"get %s\r\n" % (b"k" * 251),
             b"get %s\r\n" % (b"k" * 1300), b"get k %s\r\n" % (b"x" * 251), b"\0" * 20, b"\r\n",
             b"get k\r\nget k\r\n", b"get k\r\n\r\n", b"get k\n\n", b"\x80" * 24, b"get k\r\r\n"]
    for text in texts:
        tap.is_(sent(frame(text))["answered"], 0, "%r: passed to the server" % text[:24])
    tap.is_(sent(frame(b"get k\r\n") + b"\0" * 30)["answered"], 1,
            "bytes behind the datagram are not part of the request")


@tap.case
def random_damage():
    """Correct requests of many kinds with bytes flipped, cut and added."""
    requests = [frame(), frame(b"get k none\r\n"), frame(b"get %s\r\n" % (b"n" * 250)),
                frame(b"get " + b"k " * 100 + b"\r\n"), frame(b"get " + b" " * 300 + b"k\r\n"),
                frame(b"set k 0 0 1\r\nv\r\n"), frame(b"get " + b"long" * 300 + b"\r\n")]
    frames = []
    for _ in range(20000):
        data = bytearray(rng.choice(requests))
        for _ in range(rng.choice((1, 1, 2, 5, 30))):
            data[rng.randrange(12, len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(14, len(data) + 1):]
        if rng.random() < 0.1:
            data += rng.randbytes(rng.randrange(1, 200))
        frames.append(bytes(data[:1514]))
    total = dict.fromkeys(("packets_seen", "answered", "passes", "pass_error"), 0)
    for start in range(0, len(frames), 100):
        grown = sent(*frames[start:start + 100])
        total["packets_seen"] += grown["packets_seen"]
        total["answered"] += grown["answered"]
        total["pass_error"] += grown["pass_error"]
        total["passes"] += sum(value for key, value in grown.items() if key.startswith("pass_"))
    tap.is_(total["packets_seen"], total["answered"] + total["passes"],
            "of 20,000 damaged frames each was answered or passed with a reason (%s)" % total)
    tap.is_(total["pass_error"], 0, "no BPF helper failed")
    c.set(b"k", b"after")
    m.same(b"get k\r\n", answer((b"k", b"after")), "the next request is answered")


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run()
