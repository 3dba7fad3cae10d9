#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Streams of requests over TCP, on a good and on a bad network: every byte of every reply is the
one that the model of t/tool/tcpcheck has. And the tools themselves: what t/tool/cable does to
frames, and that tcpcheck finds what is wrong."""
import contextlib
import socket
import struct
import threading

import cable
import client
import netns
import server
import tap
import tcpcheck

FRAMES = 1000
ADDRESS = "10.77.0.1"
BAD = ("--loss", 0.01, "--duplicate", 0.05, "--reorder", 0.05, "--jitter", 3)


# --- the cable --------------------------------------------------------------------------

def quiet(pair):
    """The machines send nothing of their own accord."""
    for namespace, interface, other in ((pair.server, "sv0", 2), (pair.client, "cl0", 1)):
        with netns.inside(namespace):
            netns.disable_ipv6("all")
        netns.ip("neighbour replace 10.77.0.%d lladdr 02:4d:43:00:%02x:40 dev %s nud permanent" %
                 (other, other, interface), namespace)


def datagram_socket(namespace):
    with netns.inside(namespace):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.make_room(sock, 8 << 20)
    sock.settimeout(0.2)
    return sock


def carried(*faults):
    """Numbered datagrams from the client to the server: (the numbers in the order in which they
    came, what the cable counted)."""
    pair = cable.Pair()
    quiet(pair)
    pair.unplug()
    pair.plug(0, *faults)
    with contextlib.closing(pair), datagram_socket(pair.server) as to, \
            datagram_socket(pair.client) as sender:
        to.bind((ADDRESS, 0))
        for i in range(FRAMES):
            sender.sendto(struct.pack("!I", i), to.getsockname())
        found, sent = [], FRAMES
        while b"end" not in found:
            # The cable has read the others when it has handed over this one.
            sender.sendto(b"end", to.getsockname())
            sent += 1
            try:
                while b"end" not in found:
                    found.append(to.recv(16))
            except socket.timeout:
                continue
        counts = pair.unplug()["ba"]
        tap.is_(counts["received"], sent, "the cable reads every frame: %s" %
                (" ".join(map(str, faults)) or "no faults"))
        to.settimeout(20 * tap.SLOW)
        while len(found) < counts["sent"] - counts["corrupted"]:
            found.append(to.recv(16))
        to.setblocking(False)
        try:
            found.append(to.recv(16))
        except BlockingIOError:
            pass
        tap.is_(len(found), sent - counts["lost"] - counts["corrupted"] + counts["duplicated"],
                "the client receives as many frames as the cable counts")
    return [struct.unpack("!I", datagram)[0] for datagram in found if datagram != b"end"], counts


def about(count, share, name):
    """At most eight standard deviations from the expected number."""
    expected = FRAMES * share
    tap.ok(abs(count - expected) < 8 * (expected * (1 - share)) ** 0.5,
           "%s: %d, expected %d" % (name, count, expected))


@tap.case
def a_cable_without_faults():
    numbers, _ = carried()
    tap.is_(numbers, list(range(FRAMES)), "every frame arrives once, and in order")
    numbers, _ = carried("--delay", 2, "--jitter", 3)
    tap.is_(numbers, list(range(FRAMES)), "also if each is delayed, by times that differ")


@tap.case
def frames_are_lost():
    numbers, counts = carried("--loss", 0.1)
    about(counts["lost"], 0.1, "lost")
    tap.is_(numbers, sorted(set(numbers)), "the others arrive in order")
    again, _ = carried("--loss", 0.1)
    tap.is_(again, numbers, "with the same seed the same frames are lost")
    other, _ = carried("--loss", 0.1, "--seed", 2)
    tap.ok(other != numbers, "with another seed others are")
    _, counts = carried("--loss-ab", 1)
    tap.is_(counts["lost"], 0, "only those of the chosen direction")


@tap.case
def frames_arrive_twice():
    numbers, counts = carried("--duplicate", 0.1)
    about(counts["duplicated"], 0.1, "duplicated")
    tap.is_(sorted(set(numbers)), list(range(FRAMES)), "all arrive")
    tap.is_(numbers, sorted(numbers), "and in order")


@tap.case
def frames_are_overtaken():
    numbers, counts = carried("--reorder", 0.1, "--hold", 20)
    about(counts["reordered"], 0.1, "reordered")
    tap.is_(sorted(numbers), list(range(FRAMES)), "all arrive once")
    overtaken = [n for i, n in enumerate(numbers) if i and n < max(numbers[:i])]
    tap.ok(0 < len(overtaken) <= counts["reordered"], "%d were overtaken" % len(overtaken))


@tap.case
def corrupted_frames_do_not_arrive():
    numbers, counts = carried("--corrupt", 0.1)
    about(counts["corrupted"], 0.1, "corrupted")
    tap.is_(numbers, sorted(set(numbers)),
            "the receiver drops every one by its checksum; the others are unchanged")


def stream_pair(pair):
    with netns.inside(pair.server), socket.socket() as listener:
        listener.bind((ADDRESS, 0))
        listener.listen()
        with netns.inside(pair.client):
            one = socket.create_connection(listener.getsockname(), 20 * tap.SLOW)
        other = listener.accept()[0]
    for end in (one, other):
        end.settimeout(20 * tap.SLOW)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


@tap.case
def tampered_frames_do_arrive():
    for faults, index in ((("--tamper-ab", 0.2), 0), (("--tamper-ba", 0.2), 1)):
        pair = cable.Pair(*faults)
        with contextlib.closing(pair):
            ends = stream_pair(pair)
            to, source = ends[index], ends[1 - index]
            different = 0
            for i in range(FRAMES):
                sent = bytes(j % 251 for j in range(i, i + 1 + i % 700))
                source.send(sent)
                got = b""
                while len(got) < len(sent):
                    got += to.recv(len(sent) - len(got))
                different += sum(a != b for a, b in zip(sent, got))
            for end in ends:
                end.close()
            way = faults[0][-2:]
            counts = pair.unplug()
            about(different, 0.2, "%s: bytes differ, and checksums are right" % way)
            tap.is_(counts["ba" if way == "ab" else "ab"]["tampered"], 0,
                    "no byte of the other direction differs")
            tap.ok(different <= counts[way]["tampered"], "the cable counts each")


# --- what tcpcheck finds ----------------------------------------------------------------
# Without resets, which would discard the falsified reply.
FALSIFIED = ("--connections", 4, "--seconds", 50, "--odd", 0)


def found_wrong(name, found, pattern, hangs=0):
    tap.is_((found["status"], found.get("wrong"), found.get("hangs")), (1, 1 - hangs, hangs),
            name + " is found")
    tap.like(found["complaints"], pattern, "and reported")


def falsified(name, falsify, pattern, *words, hangs=0):
    """A run through a proxy that falsifies what the server sends."""
    with server.Server("-m", 256) as m, tcpcheck.Proxy(m.port, falsify) as proxy:
        found_wrong(name, tcpcheck.run(*proxy.address, *FALSIFIED, *words), pattern, hangs)


class Once:
    """Does something to the first piece behind the 100th that it is for, and to no other."""

    def __init__(self, change, is_for=lambda piece: True):
        self.change, self.is_for, self.done = change, is_for, False

    def __call__(self, number, piece):
        if self.done or number < 100 or not self.is_for(piece):
            return piece
        self.done = True
        return self.change(piece)


def other_byte(at):
    def change(piece):
        changed = bytearray(piece)
        changed[at % len(piece)] ^= 1
        return bytes(changed)
    return change


def is_get(piece):
    return piece.startswith(b"VALUE ") and piece.endswith(b"\r\nEND\r\n") and len(piece) > 50


@tap.case
def an_honest_proxy():
    """Without a change tcpcheck finds nothing wrong."""
    with server.Server("-m", 256) as m, tcpcheck.Proxy(m.port, lambda _, piece: piece) as proxy:
        tcpcheck.judge(tcpcheck.run(*proxy.address, "--connections", 4, "--operations", 4000),
                       4000, "through a proxy")


@tap.case
def a_wrong_byte():
    different = r"expected:( [0-9a-f]{2})+  .*\n +received:( [0-9a-f]{2})+"
    for at in (0, 7, -1, -6, -8):
        falsified("one wrong byte, at %d," % at, Once(other_byte(at), is_get), r"wrong: connection",
                  "--protocol", "text")
    falsified("one wrong byte of a binary reply", Once(other_byte(0)), different, "--protocol",
              "binary")
    falsified("one of a value", Once(lambda piece: piece[:-20] + other_byte(0)(piece[-20:]),
                                     is_get), different, "--protocol", "text", "--shared", 1)


@tap.case
def a_missing_reply():
    for protocol, is_for in (("text", is_get), ("text", lambda piece: piece == b"STORED\r\n"),
                             ("binary", lambda piece: len(piece) == 24 and piece[1] == 1)):
        with server.Server("-m", 256) as m, \
                tcpcheck.Proxy(m.port, Once(lambda piece: b"", is_for)) as proxy:
            found = tcpcheck.run(*proxy.address, *FALSIFIED, "--timeout", 2, "--protocol",
                                 protocol)
            # The next reply stands where it should be, or nothing comes any more.
            tap.is_((found["status"], found.get("wrong", 0) + found.get("hangs", 0)), (1, 1),
                    "a missing reply is found, %s" % protocol)
            tap.like(found["complaints"], r"\A(wrong|hang): connection \d+ from port \d+, %s.*\n"
                     r"operation \d+ of \d+, \d+ have no whole reply: \"" % protocol,
                     "the report has the request")


@tap.case
def a_doubled_reply():
    for protocol in ("text", "binary"):
        falsified("a doubled reply, %s," % protocol, Once(lambda piece: 2 * piece),
                  r"a reply that nobody asked for|another byte|no number|another", "--protocol",
                  protocol)
    falsified("a doubled reply of a write", Once(lambda piece: 2 * piece, lambda piece: piece ==
                                                 b"STORED\r\n"), r"wrong: ", "--protocol", "text")


@tap.case
def a_hang():
    falsified("a connection that is not answered any more", Once(lambda piece: None),
              r"\Ahang: connection", "--timeout", 2, hangs=1)


class Closes(Once):
    """Ends the connection instead."""

    def __init__(self):
        super().__init__(lambda piece: None)

    def __call__(self, number, piece):
        piece = super().__call__(number, piece)
        if piece is None:
            raise OSError
        return piece


@tap.case
def a_server_that_closes():
    falsified("the end of a connection", Closes(), r"the server closes|reset by peer|Broken pipe")


@tap.case
def runs_that_go_on():
    """One connection has failed; the others ask until they are told to end."""
    for falsify, kind in ((Once(other_byte(0), is_get), "wrong"), (Closes(), "broken"),
                          (Once(lambda piece: None), "hangs")):
        with server.Server("-m", 256) as m, tcpcheck.Proxy(m.port, falsify) as proxy:
            running = tcpcheck.Running(*proxy.address, "--connections", 4, "--odd", 0,
                                       "--timeout", 2, "--protocol", "text")
            tap.ok(server.wait_for(lambda falsify=falsify: falsify.done), "a connection fails")
            least = int(m.stats()["cmd_get"]) + 1000
            tap.ok(server.wait_for(lambda m=m, least=least: int(m.stats()["cmd_get"]) > least),
                   "others go on")
            found = running.ends()
            tap.is_({each: found[each] for each in ("wrong", "broken", "hangs")},
                    {"wrong": 0, "broken": 0, "hangs": 0, kind: 1},
                    "that one alone is counted, as %s" % kind)


def behind_its_back(name, intrude, pattern, *words):
    """A run beside a client that writes the keys of the run; intrude(client) does it once."""
    with server.Server("-m", 256) as m:
        over = threading.Event()

        def intruder():
            other = m.stream()
            while not over.is_set():
                intrude(other)
            other.close()
        thread = threading.Thread(target=intruder)
        thread.start()
        try:
            found = tcpcheck.run("127.0.0.1", m.port, "--connections", 4, "--seconds", 50,
                                 "--prefix", "x", "--protocol", "text", *words)
        finally:
            over.set()
            thread.join()
        found_wrong(name, found, pattern)


@tap.case
def values_of_others():
    behind_its_back("a value that another wrote", lambda other: other.all(b"set x-c1.k0 0 0 1\r\n"
                                                                         b"x\r\n"), r"wrong: ")
    behind_its_back("a key that another deleted", lambda other: other.all(b"delete x-c1.k0\r\n"),
                    r"wrong: ")
    first = []

    def put_back(other):
        value = other.get(b"x-s0")
        if value and not first:
            first.append(value)
        if first and value != first[0]:
            other.set(b"x-s0", first[0])
    behind_its_back("an old version of a shared key", put_back,
                    r"x-s0 has version \d+, \d+ was acknowledged before")

    def rewrite(other):
        """The same value and flags, as a write of its own."""
        reply = other.all(b"gets x-c1.k0\r\n")
        head, _, rest = reply.partition(b"\r\n")
        words = head.split()
        if len(words) == 5:
            size = int(words[3])
            other.all(b"cas x-c1.k0 %s 0 %d %s\r\n%s\r\n" % (words[2], size, words[4],
                                                           rest[:size]))
    behind_its_back("another CAS id of the same value", rewrite, r"wrong: ", "--get-share", 0.95)


@tap.case
def tampered_segments():
    pair = cable.Pair("--tamper-ab", 0.001)
    with contextlib.closing(pair), netns.inside(pair.client), \
            server.Server("-m", 256, namespace=pair.server, host=ADDRESS, listen=ADDRESS,
                          udp=False) as m:
        found_wrong("one byte of a segment, with a right checksum,",
                    tcpcheck.run(ADDRESS, m.port, "--seconds", 50), r"wrong: ")


# --- streams ------------------------------------------------------------------------------

def streams(name, pair, operations, *words, host=ADDRESS):
    """A run over the machines' network; what the cable counted, if there is one."""
    with contextlib.closing(pair), netns.inside(pair.client):
        with server.Server("-m", 512, namespace=pair.server, host=host, listen=host,
                           udp=False) as m:
            found = tcpcheck.run(host, m.port, "--operations", operations, *words)
            tcpcheck.judge(found, operations, name)
            stats = m.stats()
        tap.is_(stats["evictions"], "0", "nothing is evicted")
        tap.is_([kind for kind in ("hits", "misses", "shared", "half_closes", "resets", "splits",
                                   "pauses") if not found.get(kind)], [],
                "requests of all kinds occur")
        return pair.unplug() if isinstance(pair, cable.Pair) else None


@tap.case
def streams_on_a_good_network():
    streams("veth", netns.Pair(), 60000)
    counts = streams("a cable without faults", cable.Pair(), 20000, "--seed", 2)
    tap.is_([counts[way][what] for way in ("ab", "ba") for what in ("lost", "refused", "overrun")],
            [0] * 6, "it loses nothing")


@tap.case
def streams_on_a_bad_network():
    for seed, protocol in enumerate(("mixed", "text", "binary")):
        counts = streams(protocol, cable.Pair(*BAD), 10000, "--seed", 3 + seed, "--protocol",
                         protocol)
        tap.is_([way + what for way in ("ab", "ba") for what in ("lost", "duplicated", "reordered")
                 if not counts[way][what]], [], "through faults of all kinds, both ways")


@tap.case
def streams_over_ipv6_with_corrupted_frames():
    counts = streams("IPv6", cable.Pair("--corrupt", 0.01), 10000, "--seed", 6, host="fd77:0::1")
    tap.ok(counts["ab"]["corrupted"] > 0 and counts["ba"]["corrupted"] > 0, "both ways")


tap.run()
