# SPDX-License-Identifier: BSD-3-Clause
"""replies: requests that the published BMC answered wrongly, on the machines of kernel.py and
chain.py.
"""
import random
import socket
import struct

import client
import netns
import server
import tap
from kernel import answer

rng = random.Random(34)


def a_multiget_of_which_one_key_was_read_before(m):
    keys = [b"mix%d" % i for i in range(10)]
    for key in keys:
        m.tcp.set(key, b"value of " + key)
    m.udp.ask(b"get mix4\r\n")
    m.same(b"get %s\r\n" % b" ".join(keys), answer(*((key, b"value of " + key) for key in keys)),
           "ten keys of which only one was read before")
    wrong = []
    for _ in range(300):
        asked = [rng.choice(keys + [b"no%d" % i for i in range(5)])
                 for _ in range(rng.randrange(1, 12))]
        want = answer(*((key, b"value of " + key) for key in asked if key in keys))
        if not m.answers(b"get %s\r\n" % b" ".join(asked), want, set(asked) <= set(keys)):
            wrong.append(asked)
    tap.is_(wrong, [], "300 multigets of existing and missing keys")


def values_with_newlines(m):
    for value in (b"\n", b"\r\n", b"a\nb", b"a\r\nb", b"\r\nEND\r\n", b"END\r\n",
                  b"x\r\nEND\r\n\r\n",
                  b"\r\nVALUE other 0 1\r\ny\r\n", b"\n" * 700, b"\r\n" * 350, b"ends with \r",
                  b"ends with \n", bytes(range(256)) * 4):
        m.tcp.set(b"newline", value)
        m.same(b"get newline\r\n", answer((b"newline", value)), "a value %r" % value[:20])


def gets_and_get(m):
    m.tcp.set(b"cas", b"v", flags=3)
    cas = m.tcp.gets(b"cas")[1]
    for _ in range(3):
        tap.is_(m.udp.ask(b"gets cas\r\n"), b"VALUE cas 3 1 %d\r\nv\r\nEND\r\n" % cas,
                "gets returns the id")
        m.same(b"get cas\r\n", answer((b"cas", b"v", 3)), "get after gets does not")


def keys_that_are_prefixes_or_alike(m):
    whole = rng.randbytes(4000).translate(None, bytes(range(33)) + b"\x7f")[:250]
    for length in range(1, 251):
        m.tcp.set(whole[:length], b"%d" % length)
    wrong = [length for length in range(1, 251) if not m.holds(whole[:length], b"%d" % length)]
    tap.is_(wrong, [], "250 keys, each a prefix of the next, have their own values")
    for length in range(1, 251, 2):
        m.tcp.ask(b"delete %s\r\n" % whole[:length])
    wrong = [length for length in range(1, 251)
             if not m.holds(whole[:length], None if length % 2 else b"%d" % length)]
    tap.is_(wrong, [], "every second key can be deleted alone")
    # A key's last word is padded with zeros for its hash: the length must tell these apart.
    alike = [b"zero" + b"\0" * i for i in range(8)] if m.NULS else []
    for key in alike:
        m.tcp.set(key, b"%d" % len(key))
    wrong = [key for key in alike if m.udp.ask(b"get %s\r\n" % key) !=
             answer((key, b"%d" % len(key)))]
    tap.is_(wrong, [], "keys that differ in zeros at the end have their own values")
    wrong = []
    for i in range(200):
        key = bytearray(b"sixteen-byte-key")
        key[i % 16] = 65 + i // 16
        m.tcp.set(bytes(key), b"%d" % i)
    for i in range(200):
        key = bytearray(b"sixteen-byte-key")
        key[i % 16] = 65 + i // 16
        got = m.udp.get(bytes(key))
        if bytes(key) != b"sixteen-byte-key" and got != b"%d" % i:
            wrong.append(bytes(key))
    tap.is_(wrong, [], "keys that differ in one byte have their own values")


def a_value_that_looks_like_a_reply(m):
    m.tcp.set(b"victim", b"good")
    evil = b"VALUE victim 0 4\r\nEVIL\r\nEND\r\n"
    for at in range(1340, 1392):
        head = len(b"VALUE large 0 4000\r\n")
        value = (b"x" * (at - head) + evil).ljust(4000, b"y")
        m.tcp.set(b"large", value)
        got = m.udp.ask(b"get large\r\n")
        if got != answer((b"large", value)) or m.udp.get(b"victim") != b"good":
            tap.ok(False, "a forged reply at byte %d of a large value changes nothing" % at)
            return
    tap.ok(True, "a forged reply in the second datagram of a large value changes nothing")
    m.same(b"get victim\r\n", answer((b"victim", b"good")), "the victim has its value")
    for value in (evil, b"\r\n" + evil, evil * 20):
        m.tcp.set(b"small", value)
        m.same(b"get small\r\n", answer((b"small", value)),
               "a small value with a forged reply is returned as it is")
        m.same(b"get victim\r\n", answer((b"victim", b"good")), "the victim has its value")


def frame_to(m, port):
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
        macs = address_of("sv0", m.pair.server) + address_of("cl0", m.pair.client)
        frame = macs + b"\x08\x00" + bytes(ip) + udp
        if not set(frame) & set(b" \r\n"):
            return frame
    return None


def address_of(interface, namespace):
    """The MAC address of an interface."""
    return bytes.fromhex(netns.link(interface, namespace)["address"].replace(":", ""))


def a_key_that_holds_a_frame(m):
    with netns.inside(m.pair.server):
        # 10.77.0.1 has a byte that ends a line.
        netns.ip("address add 172.31.7.1/16 dev sv0")
        sink, frame = None, None
        for _ in range(100):
            sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sink.bind(("172.31.7.1", 0))
            frame = frame_to(m, sink.getsockname()[1])
            if frame:
                break
    sink.setblocking(False)
    tap.ok(len(frame) < 200, "a key of %d bytes is a whole frame" % len(frame))
    stream = m.server.stream() # which may get out of step
    stream.set(b"filler", b"f" * 900)
    wrong = 0
    for before in range(0, 50):
        key = b"p" * before + frame
        stream.set(key, b"s" * (before * 20))
        for request in (b"get %s\r\n" % key, b"get %s %s\r\n" % (key, key),
                        b"get filler %s filler\r\n" % key, b"get none %s filler\r\n" % key,
                        b"gets %s\r\n" % key, b"get %s none\n" % key, b"get %s nonsense" % key):
            if request.endswith(b"nonsense"):
                m.udp.send(request)
                continue
            got = m.udp.ask(request)
            wrong += not got.endswith(b"END\r\n") or key not in got
    tap.ok(wrong == 0 or not m.NULS, "350 requests with such a key are answered")
    try:
        tap.is_(sink.recv(2000), None, "nothing of them arrives at another socket")
    except BlockingIOError:
        tap.ok(True, "nothing of them arrives at another socket")


def what_is_passed_is_as_it_came(m):
    """Requests that the kernel passes on late reach the server as they were sent."""
    wrong = []
    for i in range(60):
        keys = [b"pass%d" % j for j in range(i + 1)]
        for key in keys[-1:]:
            m.tcp.set(key, key * 7)
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


def loops_are_not_answered(m):
    """Requests that could be replies: from our own port, or from ports of services."""
    m.tcp.set(b"loop", b"v")
    m.by_kernel(b"get loop\r\n")
    for port in (m.server.port, 53, 123, 11211):
        udp = client.Udp(m.pair.address(), m.server.port, source="10.77.0.2", source_port=port)
        before = m.counts()
        udp.send(b"get loop\r\n")
        server.wait_for(lambda: m.counts()["pass_source"] > before["pass_source"])
        after = m.counts()
        tap.is_([after[key] - before[key] for key in ("answered", "pass_source")], [0, 1],
                "the kernel leaves a request from port %d to the server" % port)
        udp.close()


ALL = (a_multiget_of_which_one_key_was_read_before, values_with_newlines, gets_and_get,
       keys_that_are_prefixes_or_alike, a_value_that_looks_like_a_reply, a_key_that_holds_a_frame,
       what_is_passed_is_as_it_came, loops_are_not_answered)
