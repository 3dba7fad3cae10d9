#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the published BMC answered wrongly."""
import os
import random
import socket
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "lib"))
import client
import kernel
import netns
import server
import tap
from kernel import answer

rng = random.Random(34)
m = kernel.Machines(threads=1, links=2, on=1, listen="10.77.0.1")
c = m.tcp


@tap.case
def a_multiget_of_which_one_key_was_read_before():
    keys = [b"mix%d" % i for i in range(10)]
    for key in keys:
        c.set(key, b"value of " + key)
    m.udp.ask(b"get mix4\r\n")
    m.same(b"get %s\r\n" % b" ".join(keys), answer(*((key, b"value of " + key) for key in keys)),
           "ten keys of which only one was read before")
    wrong = []
    for _ in range(300):
        asked = [rng.choice(keys + [b"no%d" % i for i in range(5)])
                 for _ in range(rng.randrange(1, 12))]
        want = answer(*((key, b"value of " + key) for key in asked if key in keys))
        if m.by_kernel(b"get %s\r\n" % b" ".join(asked)) != (want, True):
            wrong.append(asked)
    tap.is_(wrong, [], "300 mixes of keys that are there and not, by the kernel")


@tap.case
def values_with_newlines():
    for value in (b"\n", b"\r\n", b"a\nb", b"a\r\nb", b"\r\nEND\r\n", b"END\r\n",
                  b"x\r\nEND\r\n\r\n",
                  b"\r\nVALUE other 0 1\r\ny\r\n", b"\n" * 700, b"\r\n" * 350, b"ends with \r",
                  b"ends with \n", bytes(range(256)) * 4):
        c.set(b"newline", value)
        m.same(b"get newline\r\n", answer((b"newline", value)), "a value %r" % value[:20])


@tap.case
def gets_and_get():
    c.set(b"cas", b"v", flags=3)
    cas = c.gets(b"cas")[1]
    for _ in range(3):
        tap.is_(m.udp.ask(b"gets cas\r\n"), b"VALUE cas 3 1 %d\r\nv\r\nEND\r\n" % cas,
                "gets shows the id")
        m.same(b"get cas\r\n", answer((b"cas", b"v", 3)), "get after gets does not")


@tap.case
def keys_that_are_prefixes_or_alike():
    whole = rng.randbytes(4000).translate(None, bytes(range(33)) + b"\x7f")[:250]
    for length in range(1, 251):
        c.set(whole[:length], b"%d" % length)
    wrong = [length for length in range(1, 251)
             if m.by_kernel(b"get %s\r\n" % whole[:length]) !=
             (answer((whole[:length], b"%d" % length)), True)]
    tap.is_(wrong, [], "250 keys, each a prefix of the next, have their own values")
    for length in range(1, 251, 2):
        c.ask(b"delete %s\r\n" % whole[:length])
    wrong = [length for length in range(1, 251)
             if m.by_kernel(b"get %s\r\n" % whole[:length]) !=
             (b"END\r\n" if length % 2 else answer((whole[:length], b"%d" % length)), True)]
    tap.is_(wrong, [], "and every second can be deleted alone")
    # A key's last word is padded with zeros for its hash: the length must tell these apart.
    alike = [b"zero" + b"\0" * i for i in range(8)]
    for key in alike:
        c.set(key, b"%d" % len(key))
    wrong = [key for key in alike if m.udp.ask(b"get %s\r\n" % key) !=
             answer((key, b"%d" % len(key)))]
    tap.is_(wrong, [], "nor are keys confused that differ in zeros at the end")
    wrong = []
    for i in range(200):
        key = bytearray(b"sixteen-byte-key")
        key[i % 16] = 65 + i // 16
        c.set(bytes(key), b"%d" % i)
    for i in range(200):
        key = bytearray(b"sixteen-byte-key")
        key[i % 16] = 65 + i // 16
        got = m.udp.get(bytes(key))
        if bytes(key) != b"sixteen-byte-key" and got != b"%d" % i:
            wrong.append(bytes(key))
    tap.is_(wrong, [], "nor keys that differ in one byte")


@tap.case
def keys_with_the_same_hash_as_far_as_it_is_stored():
    """Eight bits of the hash and the place in the table choose an item: of 5,000 keys that are
    not there a hundred meet one that has the same, and only the key tells them apart."""
    count = 100000
    for start in range(0, count, 1000):
        c.send(b"".join(b"set same%06d 0 0 6\r\n%06d\r\n" % (i, i)
                        for i in range(start, start + 1000)))
        c.exactly(len(b"STORED\r\n") * 1000)

    def ask():
        there = [i for i in range(0, count, 20)
                 if m.udp.get(b"same%06d" % i) != b"%06d" % i]
        absent = [i for i in range(5000) if m.udp.get(b"else%06d" % i) is not None]
        return there, absent

    found, grown = m.during(ask)
    tap.is_(found, ([], []), "5,000 keys of 100,000 are found, 5,000 others of that length are not")
    tap.is_(grown["answered"], 10000, "all by the kernel")


@tap.case
def a_value_that_looks_like_a_reply():
    c.set(b"victim", b"good")
    evil = b"VALUE victim 0 4\r\nEVIL\r\nEND\r\n"
    for at in range(1340, 1392):
        head = len(b"VALUE large 0 4000\r\n")
        value = (b"x" * (at - head) + evil).ljust(4000, b"y")
        c.set(b"large", value)
        got = m.udp.ask(b"get large\r\n")
        if got != answer((b"large", value)) or m.udp.get(b"victim") != b"good":
            tap.ok(False, "a forged reply at byte %d of a large value changes nothing" % at)
            return
    tap.ok(True, "a forged reply in the second datagram of a large value changes nothing")
    m.same(b"get victim\r\n", answer((b"victim", b"good")), "the victim is as it was")
    for value in (evil, b"\r\n" + evil, evil * 20):
        c.set(b"small", value)
        m.same(b"get small\r\n", answer((b"small", value)), "nor does one in a small value")
        m.same(b"get victim\r\n", answer((b"victim", b"good")), "the victim is as it was")


@tap.case
def two_servers_on_one_port():
    port = m.server.port
    netns.sh("ip", "address", "add", "10.77.0.9/24", "dev", "sv0", namespace=m.pair.server)
    with server.Server(namespace=m.pair.server, host="10.77.0.9", port=port) as plain, \
            server.Server("-X", "bmc=sv1", namespace=m.pair.server, host="10.77.1.1",
                          port=port) as second:
        c.set(b"shared", b"first")
        plain.stream().set(b"shared", b"plain")
        second.stream().set(b"shared", b"second")
        c.set(b"only", b"first")
        udp = second.udp()
        m.same(b"get shared\r\n", answer((b"shared", b"first")), "the first server's value")
        tap.is_(udp.ask(b"get shared\r\n"), answer((b"shared", b"second")),
                "the second server's value, on the other interface")
        tap.is_(plain.udp().ask(b"get shared\r\n"), answer((b"shared", b"plain")),
                "the third's, on another address of the first interface")
        tap.is_(udp.ask(b"get only\r\n"), b"END\r\n", "a key of the first is not in the second")
        m.server.pause()
        second.pause()
        try:
            tap.is_((m.udp.ask(b"get shared\r\n"), udp.ask(b"get shared\r\n")),
                    (answer((b"shared", b"first")), answer((b"shared", b"second"))),
                    "each kernel path has its own table, both servers stopped")
        finally:
            m.server.resume()
            second.resume()


@tap.case
def datagram_counts_other_than_one():
    c.set(b"count", b"v")
    for count in (0, 2, 7, 255, 256, 257, 65535):
        m.udp.send(b"get count\r\n", count=count)
        tap.ok(m.udp.silence(), "a request of %d datagrams has no answer" % count)
    m.udp.send(b"get count\r\n", sequence=9, reserved=513, ident=4711)
    datagram = m.udp.recv_raw()
    tap.is_(datagram, struct.pack("!HHHH", 4711, 0, 1, 0) + answer((b"count", b"v")),
            "sequence and reserved field of a reply are 0, whatever the request's were")


def frame_to(port):
    """An Ethernet frame with a UDP datagram for that port, without bytes that end a key."""
    for extra in range(200):
        payload = b"INTRUDER" + b"x" * (extra % 50)
        udp = struct.pack("!HHHH", 40000 + extra, port, 8 + len(payload), 0) + payload
        ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 1, 20 + len(udp), 0x4141 + extra, 0x4000,
                                   64, 17, 0, socket.inet_aton("172.31.7.2"),
                                   socket.inet_aton("172.31.7.1")))
        total = sum(struct.unpack("!10H", ip))
        total = (total & 0xffff) + (total >> 16)
        ip[10:12] = struct.pack("!H", ~(total + (total >> 16)) & 0xffff)
        stations = address_of("sv0", m.pair.server) + address_of("cl0", m.pair.client)
        frame = stations + b"\x08\x00" + bytes(ip) + udp
        if not set(frame) & set(b" \r\n"):
            return frame
    return None


def address_of(interface, namespace):
    """The station address of an interface."""
    return bytes.fromhex(netns.link(interface, namespace)["address"].replace(":", ""))


@tap.case
def a_key_that_holds_a_frame():
    with netns.inside(m.pair.server):
        # 10.77.0.1 has a byte that ends a line.
        netns.sh("ip", "address", "add", "172.31.7.1/16", "dev", "sv0")
        sink, frame = None, None
        for _ in range(100):
            sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sink.bind(("172.31.7.1", 0))
            frame = frame_to(sink.getsockname()[1])
            if frame:
                break
    sink.setblocking(False)
    tap.ok(len(frame) < 200, "a key of %d bytes is a whole frame" % len(frame))
    c.set(b"chunked", b"x" * 600000)
    c.set(b"filler", b"f" * 900)
    wrong = 0
    for before in range(0, 50):
        key = b"p" * before + frame
        c.set(key, b"s" * (before * 20))
        for request in (b"get %s\r\n" % key, b"get %s %s\r\n" % (key, key),
                        b"get filler %s filler\r\n" % key, b"get none %s filler\r\n" % key,
                        b"gets %s\r\n" % key, b"get %s none\n" % key, b"get %s nonsense" % key):
            if request.endswith(b"nonsense"):
                m.udp.send(request)
                continue
            got = m.udp.ask(request)
            wrong += not got.endswith(b"END\r\n") or key not in got
    tap.is_(wrong, 0, "350 requests with such a key are answered")
    try:
        tap.is_(sink.recv(2000), None, "and nothing of them arrives at another socket")
    except BlockingIOError:
        tap.ok(True, "and nothing of them arrives at another socket")


@tap.case
def what_is_passed_is_as_it_came():
    """Requests that the kernel gives up on late reach the server as they were sent."""
    wrong = []
    c.set(b"chunked", b"x" * 20)
    for i in range(60):
        keys = [b"pass%d" % j for j in range(i + 1)]
        for key in keys[-1:]:
            c.set(key, key * 7)
        line = b"get %s" % b" ".join(keys)
        hits = answer(*((key, key * 7) for key in keys))
        for tail in (b"\r\n", b"\n", b"\r\nget pass0\r\n", b" \r\n"):
            ident = m.udp.send(line + tail)
            got = m.udp.message(ident)
            if tail.count(b"get"):
                second = m.udp.message(ident)
                if {got, second} != {hits, answer((b"pass0", b"pass0" * 7))}:
                    wrong.append((i, tail))
            elif got != hits:
                wrong.append((i, tail))
    tap.is_(wrong, [], "1 to 60 keys, with ends of every kind, and a second command behind them")
    echo = []
    c.ask(b"verbosity 2\r\n")
    for size in (14, 50, 100, 500, 1000, 1300):
        request = b"get " + b"k" * 200 + b" " * size + b"\r\n"
        echo.append(m.udp.ask(request) == b"END\r\n")
    c.ask(b"verbosity 0\r\n")
    tap.is_(echo, [True] * 6, "requests of many sizes are passed whole while the kernel is aside")


@tap.case
def loops_are_not_answered():
    """Replies that could be requests: from our own port, or from ports of services."""
    c.set(b"loop", b"v")
    for port in (m.server.port, 53, 123, 11211):
        udp = client.Udp(m.pair.address(), m.server.port, source="10.77.0.2", source_port=port)
        _, grown = m.during(lambda: udp.ask(b"get loop\r\n"))
        tap.is_((grown["answered"], grown["pass_source"]), (0, 1),
                "a request from port %d is left to the server" % port)
        udp.close()


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run()
