#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on TCP connections whose gets the kernel answers: by a third machine at the same switch
that forges segments, by a container that has the server's addresses, and by clients. The victim's
stream stays whole, no client gets another's bytes, nothing grows without bound, and the server
lives."""
import contextlib
import fcntl
import os
import random
import resource
import socket
import struct

import asking
import cable
import guard
import netns
import segments
import server
import tap
from asking import MISS, MIXED, SMALL, hit, wrong_in
from segments import ACK, FIN, NARROW, PSH, RST, SYN, URG, error, path_mtu

rng = random.Random(9)
ports = iter(range(40000, 41000))
M = 1 << 20


class Switched(cable.Pair):
    """With a switch in the middle, and a third machine at it, on which 10.77.0.3 is at0."""

    def plug(self, i=0, *_):
        self.third = self.server[:-1] + "t"
        netns.ip("netns add %s" % self.third)
        guard.add("netns", self.third)
        netns.without_dad(self.third)
        for words in ("link add br0 type bridge", "link set br0 up",
                      "link add ma0 type veth peer name at0 netns " + self.third,
                      "link set ma0 up", "link set ms0 master br0", "link set mc0 master br0",
                      "link set ma0 master br0",
                      "link set ma0 type bridge_slave learning off"): # of the victim's address
            netns.sh("ip", *words.split(), namespace=self.middle)
        netns.offloads_off("ma0", self.middle)
        netns.offloads_off("at0", self.third)
        for words in ("link set lo up", "address add 10.77.0.3/24 dev at0", "link set at0 up"):
            netns.sh("ip", *words.split(), namespace=self.third)

    def close(self):
        super().close()
        netns.ip("netns del %s" % self.third)
        guard.remove("netns", self.third)


class Machines(asking.Machines):
    """The third machine's frames leave by m.third; m.tap has what passes at the victim's port."""

    def __init__(self, mode, *arguments):
        super().__init__(mode, Switched(), *arguments)
        self.third = segments.Wire(self.pair, "at0", self.pair.third)
        self.tap = segments.Wire(self.pair, "mc0", self.pair.middle, everything=True)
        self.victim = segments.mac_of("cl0", self.pair.client)
        with netns.inside(self.pair.third):
            self.beside = self.server.stream()

    def numbers(self, port):
        """(Segment, whether the victim sent it) of the last that passed at its port."""
        found = [one for one in map(segments.parse, self.tap.packets())
                 if port in (one[0][1], one[1][1])]
        return found[-1][2], found[-1][0][1] == port

    def forge(self, packets, mac=None):
        """Sends them from the third machine, or a MAC address that it forges as well; they have
        been processed when it returns."""
        for packet in packets:
            self.third.send(packet, mac)
        self.beside.ask(b"version\r\n")


PLACES = 1 << 12 # MC_TCP_RTX_MAX
COMMON = PLACES // 2 # MC_TCP_RTX_COMMON
NATIVE, TC = Machines(None, "-c", 2 * PLACES), Machines("tc", "-c", 2 * PLACES)
each_mode = asking.each_mode(NATIVE, TC)


class Forger:
    """Makes segments with a victim's addresses and ports, whose numbers are so far from its own."""

    def __init__(self, m, at):
        self.at, self.to = at, (m.pair.address(), m.server.port)
        last, by_victim = m.numbers(self.at[1])
        after = (last.seq + len(last.text) + bool(last.flags & FIN)) % 2**32
        self.seq, self.ack = (after, last.ack) if by_victim else (last.ack, after)
        self.tsval, self.tsecr = \
            (last.tsval, last.tsecr) if by_victim else (last.tsecr, last.tsval)

    def segment(self, seq=0, ack=0, text=b"", flags=ACK | PSH, later=0, **how):
        options = segments.stamps(self.tsval + later, self.tsecr)
        return segments.ip4(self.at[0], self.to[0], segments.tcp(
            self.at, self.to, self.seq + seq, self.ack + ack, flags, text, options=options, **how))


GETS = [one[0] for one in SMALL[:0:-1]] # the first is not what a victim asks for next
NEAR = (-9, -10, -11, -100, -1400, -70000) # what the server has got already
FAR = (20 * M, 60 * M, -60 * M, 100 * M, -100 * M, 1 << 30, 1 << 31, -(1 << 30))


def old_gets(forger):
    """As they would lie behind the window, or before what was received, with the right one of the
    numbers or another."""
    for seq in FAR:
        for ack in (0, -1, 1, 100, 60 * M, -60 * M, 1 << 31):
            yield forger.segment(seq, ack, rng.choice(GETS))
    for seq in NEAR:
        for ack in (0, -1, -100, 1, 60 * M):
            yield forger.segment(seq, ack, rng.choice(GETS)[:-seq])


def acknowledgements(forger):
    """Of what was never sent, or of what no client can still acknowledge."""
    for ack in (1, 2, 100, 1400, 64 * M, 1 << 31, -(1 << 30)):
        for text in (b"", *GETS):
            yield forger.segment(0, ack, text)


def urgent_data(forger):
    """With both numbers right: the socket has to refuse what the programs do not translate."""
    for text in (b"", *GETS):
        for urgent in (0, len(text)):
            yield forger.segment(0, 0, text, ACK | PSH | URG, urgent=urgent)


def wrong_checksums(forger):
    for seq, ack in ((0, 0), (0, -1), (-10, 0)):
        for text in (b"", *GETS):
            for damage in (1, 0x100, 0x8000):
                yield forger.segment(seq, ack, text, damage=damage)
    for flags in (RST, RST | ACK, FIN | ACK):
        yield forger.segment(flags=flags, damage=1)


def old_times(forger):
    for text in GETS:
        for later in (-1000, -100000, -(1 << 30)):
            yield forger.segment(0, 0, text, later=later)


def resets(forger):
    for flags in (RST, RST | ACK):
        for seq in (*NEAR, *FAR):
            yield forger.segment(seq, 0, flags=flags)


def near_resets(forger):
    """In the window, but for the one that has the right number."""
    for flags in (RST, RST | ACK):
        for seq in (1, 2, 100, 10000):
            yield forger.segment(seq, 0, flags=flags)


def openings(forger):
    for flags in (SYN, SYN | ACK, SYN | FIN, SYN | PSH):
        for seq in (0, 1, -1, -100, *FAR):
            yield forger.segment(seq, 0, rng.choice((b"", GETS[0])), flags)


def closings(forger):
    for seq in (*NEAR, *FAR):
        yield forger.segment(seq, 0, flags=FIN | ACK)


def steps(forger):
    """Each as far from the one before as the programs look."""
    for i in range(1, 60):
        for ack in (0, -1000):
            yield forger.segment(i * 60 * M, ack, b"x")


def times_to_come(forger):
    """In segments of which the socket takes none."""
    for later in (1, 1000, 1 << 20, 1 << 30):
        for seq in (-100, -70000, *FAR):
            yield forger.segment(seq, 0, b"x", later=later)


# After the first three, which have numbers in the window, the kernel may no longer answer.
IN_WINDOW = (near_resets, wrong_checksums, urgent_data)
ATTACKS = (*IN_WINDOW, old_gets, acknowledgements, old_times, resets, openings,
           closings, times_to_come, steps)


@each_mode
def forged_segments(m):
    for attack in ATTACKS:
        name = "%s, %s" % (attack.__name__.replace("_", " "), m.by())
        with contextlib.closing(m.dial()) as c:
            wrong = [wrong_in(c, SMALL, SMALL)]
            before = m.answered()
            for mac in (m.victim, None):
                m.forge(attack(Forger(m, c.sock.getsockname())), mac)
                wrong.append(wrong_in(c, SMALL))
            answered = m.answered() - before
            wrong.append(wrong_in(c, MIXED, SMALL))
            tap.is_((wrong, asking.end_of(c)), ([None] * 4, b""),
                    "%s: the victim's stream is whole" % name)
            if attack not in IN_WINDOW:
                tap.ok(answered >= 2 * len(SMALL) - 2, "the kernel answers it, %d times" % answered)


def signs_of_another_way(forger):
    """What the server takes as segments that the programs did not see, or that it has not
    acknowledged, if the numbers are right."""
    for seq, ack in ((1 << 30, 1 << 29), (1, 0), (-100, 0), (-70000, 0), (1 << 31, 0)):
        yield forger.segment(seq, ack, b"x", ACK | PSH | URG)
        yield forger.segment(seq, ack, b"x", damage=1)


@each_mode
def victims_that_wait(m):
    """The server ends a connection whose segments go astray; it looks four times a second, and
    within three seconds it is certain."""
    with contextlib.ExitStack() as stack:
        victims = [stack.enter_context(contextlib.closing(m.dial())) for _ in range(10)]
        wrong = []
        for i, c in enumerate(victims):
            wrong.append(wrong_in(c, SMALL, SMALL))
            m.forge(list(signs_of_another_way(Forger(m, c.sock.getsockname())))[i:i + 1])
        start = int(m.tcp.stats()["uptime"])
        server.wait_for(lambda: int(m.tcp.stats()["uptime"]) > start + 5)
        wrong += [wrong_in(c, SMALL) for c in victims]
        tap.is_(wrong, [None] * 20, "idle connections, %s: no forged segment ends one" % m.by())


@contextlib.contextmanager
def peer(m, name):
    """A peer whose connection the kernel answers."""
    with contextlib.closing(segments.Peer(m, next(ports))) as p:
        before = m.answered()
        goes_on(p, name)
        tap.ok(m.answered() > before, "the kernel answers")
        yield p


def goes_on(p, name, *rounds):
    wrong = [one[0][:20] for some in rounds or (SMALL,) for one in some if p.ask(*one) != one[1]]
    tap.is_(wrong, [], name + ": every byte is right")


def has_acknowledged(p):
    """Whether the server says with its next reply that it has received everything."""
    p.push(b"version\r\n")
    found = p.receive()
    while found and not found.text.startswith(b"VERSION"):
        found = p.receive()
    return found and found.ack == p.seq % 2**32


def guesses(forger):
    """Of one who does not know both numbers: the programs take those of 64 M below for sent."""
    for text in (b"", GETS[0], b"x"):
        for far in FAR:
            yield forger.segment(far, 0, text)
            yield forger.segment(far, far, text)
            if far != -60 * M:
                yield forger.segment(0, far, text)


def has_again(p, request, want, acked=0):
    """Whether a client that has lost the reply to its last request gets it again, but for what it
    has acknowledged."""
    p.send(request, PSH | ACK, seq=p.seq - len(request), ack=p.ack - len(want))
    found = p.receive()
    while found and not found.text: # the server speaks of the forged ones, too
        found = p.receive()
    return bool(found) and found.text == want[acked:]


# After these the reply is still the client's: one of both numbers is wrong, or the checksum.
GUESSES = (wrong_checksums, acknowledgements, steps, guesses)


@each_mode
def while_a_reply_is_outstanding(m):
    request, want = hit(1)
    for attack in (*ATTACKS, guesses):
        name = "%s on a reply, %s" % (attack.__name__.replace("_", " "), m.by())
        with peer(m, "before the attack") as p:
            p.push(request)
            tap.is_(p.read(len(want), acknowledge=False), want, "a reply")
            m.forge(attack(Forger(m, p.at)))
            if attack in GUESSES:
                tap.ok(has_again(p, request, want), name + ": if it is lost the client gets it")
            p.send()
            before = m.answered()
            goes_on(p, name, SMALL)
            if attack in GUESSES and attack is not wrong_checksums: # of which numbers are noted
                tap.is_(m.answered() - before, len(SMALL), "and the kernel answers further on")
            goes_on(p, name, MIXED)
            tap.ok(has_acknowledged(p), "and everything is acknowledged")


@each_mode
def nothing_reaches_the_third_machine(m):
    """Even if it knows both numbers, and asks for a reply, or once more for one."""
    request, want = hit(1)
    with peer(m, "before it asks") as p:
        m.forge([Forger(m, p.at).segment(text=request)])
        p.seq += len(request)
        tap.is_(p.read(len(want)), want, "%s: the victim has the reply" % m.by())
        goes_on(p, "behind it", SMALL)
        before = m.counts()["tcp_resent"]
        p.push(request)
        tap.is_(p.read(len(want), acknowledge=False), want, "a reply of the kernel")
        m.forge([Forger(m, p.at).segment(-len(request), -len(want), request)])
        found = p.receive()
        tap.is_(found and found.text, want, "the victim gets it once more")
        tap.is_(m.counts()["tcp_resent"] - before, 1, "of the kernel")
        p.send()
        goes_on(p, "behind it", SMALL)
    seen = {segments.parse(packet)[1][0] for packet in m.third.packets()}
    tap.is_(seen - {"10.77.0.3"}, set(), "%s: the forger gets no segment that is for others" %
            m.by())


@each_mode
def replays(m):
    """A machine that sees a connection's segments sends them again."""
    with contextlib.closing(m.dial()) as c:
        m.tap.packets()
        wrong = [wrong_in(c, SMALL, SMALL)]
        frames = [packet for packet in m.tap.packets()
                  if segments.parse(packet)[1] == (m.pair.address(), m.server.port)]
        for _ in range(3):
            m.forge(frames)
            wrong.append(wrong_in(c, SMALL, MIXED))
        tap.is_((wrong, asking.end_of(c), len(frames) >= 8), ([None] * 4, b"", True),
                "replays, %s: each request is answered once" % m.by())


# --- a container of the server's machine --------------------------------------------------------

TUNSETIFF, TUN_PACKETS = 0x400454ca, 0x1001 # IFF_TUN | IFF_NO_PI


class Container:
    """A network namespace with a macvlan on the server's interface, the server's address, and
    root's capabilities in it."""

    def __init__(self, m):
        self.m, self.name, host = m, m.pair.server[:-1] + "k", m.pair.address()
        netns.ip("netns add %s" % self.name)
        guard.add("netns", self.name)
        netns.ip("link add link sv0 name in0 netns %s type macvlan mode bridge" % self.name,
                 m.pair.server)
        with netns.inside(self.name):
            self.tun = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(self.tun, TUNSETIFF, struct.pack("16sH22x", b"tn0", TUN_PACKETS))
        for words in ("link set lo up", "link set in0 up", "link set tn0 up",
                      "address add %s/24 dev in0" % host,
                      "neighbour add 10.77.0.2 lladdr %s dev in0" % m.victim.hex(":")):
            netns.sh("ip", *words.split(), namespace=self.name)
        netns.sh("sysctl", "-qw", "net.ipv4.conf.in0.arp_ignore=8", "net.ipv4.conf.all.rp_filter=0",
                 "net.ipv4.conf.tn0.rp_filter=0", namespace=self.name)

    def accept(self, at, cookies):
        """Its own Linux, which has a server at the same port, gets a SYN of the client's."""
        to = self.m.pair.address(), self.m.server.port
        netns.sh("sysctl", "-qw", "net.ipv4.tcp_syncookies=%d" % (2 if cookies else 0),
                 namespace=self.name)
        with netns.inside(self.name):
            listener = socket.create_server(to, reuse_port=True)
        with listener:
            os.write(self.tun, segments.ip4(at[0], to[0], segments.tcp(at, to, 1000, 0, SYN)))

    def send(self, at, flags, seq, ack):
        """A segment in the server's name."""
        ours = self.m.pair.address(), self.m.server.port
        with netns.inside(self.name):
            raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        with raw:
            raw.sendto(segments.ip4(ours[0], at[0], segments.tcp(ours, at, seq, ack, flags)), at)

    def close(self):
        os.close(self.tun)
        netns.ip("netns del %s" % self.name)
        guard.remove("netns", self.name)


def with_syn_cookies(container, at):
    container.accept(at, True)


def of_its_own_server(container, at):
    container.accept(at, False)


def of_a_raw_socket(container, at):
    for flags in (SYN | ACK, SYN, RST, RST | ACK, FIN | ACK, ACK, ACK | PSH):
        container.send(at, flags, 0, 0)


@each_mode
def a_container_with_the_servers_address(m):
    """What it sends from the server's port changes nothing that is known of a connection."""
    with contextlib.closing(Container(m)) as container:
        for forged in (with_syn_cookies, of_its_own_server, of_a_raw_socket):
            name = "%s, %s" % (forged.__name__.replace("_", " "), m.by())
            with contextlib.closing(m.dial()) as c:
                wrong = [wrong_in(c, SMALL, SMALL)]
                at, before = c.sock.getsockname(), m.answered()
                m.tap.packets()
                forged(container, at)
                seen = [segments.parse(packet) for packet in m.tap.packets()]
                tap.ok([one for one in seen if one[1] == at and one[2].flags & SYN],
                       "segments %s: they reach the client" % name)
                wrong.append(wrong_in(c, SMALL, MIXED))
                tap.is_((wrong, asking.end_of(c)), ([None] * 2, b""), "its stream is whole")
                tap.ok(m.answered() - before > len(SMALL), "the kernel answers it further on")


# --- errors that routers send -------------------------------------------------------------------

# That the path does not lead there.
ERRORS = ((3, 0), (3, 1), (3, 2), (3, 3), (3, 13), (11, 0), (12, 0))


def all_errors(m, at, numbers):
    return [error(m, at, seq, kind, mtu, nquoted) for seq in numbers for kind in (NARROW, *ERRORS)
            for mtu in (68, 600) for nquoted in (28, 48, 548)]


@each_mode
def errors_with_guessed_numbers(m):
    with contextlib.closing(m.dial()) as c:
        wrong = [wrong_in(c, SMALL, SMALL)]
        at = c.sock.getsockname()
        for _ in range(2):
            right = Forger(m, at).ack
            m.forge(all_errors(m, at, [right + far for far in FAR]))
            wrong.append(wrong_in(c, SMALL, MIXED))
        tap.is_((wrong, asking.end_of(c), path_mtu(m, at[0])), ([None] * 3, b"", None),
                "%s: the victim's stream is whole, and its path as wide" % m.by())


@each_mode
def errors_with_numbers_beside_the_right_one(m):
    request, want = hit(3)
    with peer(m, "before the errors") as p:
        m.beside.ask(b"version\r\n")
        beside = (-1400, -2, -1, 1, 2, 1400)
        m.forge(all_errors(m, p.at, [p.ack + n for n in beside]))
        tap.is_(path_mtu(m, p.at[0]), None, "%s: all is acknowledged, the path is as wide" % m.by())
        goes_on(p, "behind them", SMALL)
        p.push(request)
        tap.is_(p.read(len(want), acknowledge=False), want, "a reply")
        numbers = [p.ack + 1, p.ack + 2, p.ack - len(want) - 1, p.ack - len(want) - 2]
        m.forge(all_errors(m, p.at, numbers))
        tap.is_(path_mtu(m, p.at[0]), None, "%s: beside a reply, too" % m.by())
        p.send()
        goes_on(p, "behind them", MIXED)


@each_mode
def errors_with_the_right_number(m):
    """As any server's machine this one believes who knows it."""
    with peer(m, "before the errors") as p:
        m.beside.ask(b"version\r\n")
        m.forge([error(m, p.at, p.ack, kind) for kind in ERRORS])
        goes_on(p, "%s: errors that say that the path does not lead" % m.by(), MIXED)
        m.beside.ask(b"version\r\n")
        m.forge([error(m, p.at, p.ack, damage=1)])
        tap.is_(path_mtu(m, p.at[0]), None, "one with a wrong checksum changes nothing")
        m.forge([error(m, p.at, p.ack)])
        tap.is_(path_mtu(m, p.at[0]), 600, "%s: one that says that it is narrow is believed" %
                m.by())
        goes_on(p, "behind it", SMALL, MIXED)
        netns.ip("route flush cache", m.pair.server)


# --- hostile clients --------------------------------------------------------------------------

@each_mode
def acknowledgements_before_receipt(m):
    with peer(m, "before it lies") as p:
        for request, want in (hit(1), hit(3), hit(4), MISS):
            p.push(request)
            for ahead in (len(want), len(want) - 1, len(want) + 1, len(want) + 100000, 1 << 30):
                p.send(ack=p.ack + ahead)
            tap.is_(p.read(len(want)), want, "%s: an acknowledgement before the reply" % m.by())
        goes_on(p, "behind them", SMALL)


@each_mode
def acknowledgements_of_each_byte(m):
    with peer(m, "before it splits them") as p:
        for request, want in (hit(1), hit(2), hit(4)):
            p.push(request)
            start = p.ack
            tap.is_(p.read(len(want), acknowledge=False), want, "%s: a reply" % m.by())
            for at in range(start, p.ack, 1 + len(want) // 100):
                p.send(ack=at)
            if len(want) < 1000: # what is longer came in several segments
                m.beside.ask(b"version\r\n")
                p.wire.packets() # each has it sent again
                tap.ok(has_again(p, request, want, at - start),
                       "a part is not all: the rest can be had again")
            p.send()
        goes_on(p, "behind them", SMALL, MIXED)


@each_mode
def bytes_that_change(m):
    """The first that the server has received count, as with any stack."""
    request, want = hit(1)
    other = b"get key0\r\n"
    with peer(m, "before it changes them") as p:
        p.push(request)
        tap.is_(p.read(len(want), acknowledge=False), want, "a reply")
        p.ack -= len(want)
        for text in (other, request, request[:5], b"set key1 0"):
            p.send(text, PSH | ACK, seq=p.seq - len(request))
            found = p.receive()
            tap.is_(found and found.text, want, "other bytes in its place get that reply again")
        p.read(len(want))
        p.send()
        for text in (other, b"delete key1 noreply\r\n"[:10]):
            p.send(text, PSH | ACK, seq=p.seq - len(request))
            p.send(b"####" + request, PSH | ACK, seq=p.seq - 4)
            p.seq += len(request)
            tap.is_(p.read(len(want)), want, "later they change nothing")
        goes_on(p, "behind them", MIXED)


def followed(m, name):
    """A peer whose connection has a slot, with what it will ask and get: (peer, request, reply)."""
    text = name * 40
    m.tcp.set(name, text)
    p = segments.Peer(m, next(ports))
    if not all(p.ask(*MISS) == MISS[1] for _ in range(3)):
        raise RuntimeError("a miss is none")
    return p, b"get %s\r\n" % name, asking.kernel.answer((name, text))


def take_slots(m, n):
    """As many slots are taken, and given back."""
    with contextlib.ExitStack() as stack:
        taking = [stack.enter_context(socket.create_connection((m.pair.address(), m.server.port),
                                                               asking.SECONDS)) for _ in range(n)]
        for _ in range(2): # with its second get a connection has one
            for sock in taking:
                sock.sendall(MISS[0])
            for sock in taking:
                sock.recv(100)
        for sock in taking:
            sock.setsockopt(*asking.RESET)


@each_mode
def replies_of_many(m):
    """Each has one of the kernel's replies outstanding, and asks for it again; some in the place of
    another: slots that are COMMON apart have the same."""
    first, then = ([b"%s%02d" % (of, i) for i in range(n)]
                   for of, n in ((b"own", 10), (b"new", 20)))
    with contextlib.ExitStack() as stack:
        found = [followed(m, name) for name in first]
        take_slots(m, COMMON - 15)
        for p, *_ in found:
            p.wire.packets() # or each would read all of those while replies wait
        found += [followed(m, name) for name in then]
        for p, *_ in found:
            stack.enter_context(contextlib.closing(p))
        before = m.counts()["tcp_answered"]
        for p, request, want in found:
            p.push(request)
            if p.read(len(want), acknowledge=False) != want:
                raise RuntimeError("no reply to %r" % request)
        tap.is_(m.counts()["tcp_answered"] - before, len(found), "%s: the kernel answers each" %
                m.by())
        for name in first + then:
            m.tcp.set(name, b"other")
        wrong = next((request for p, request, want in found if not has_again(p, request, want)),
                     None)
        tap.is_(wrong, None, "%s: each gets its own once more, as it was" % m.by())
        tap.is_(m.counts()["tcp_pass_kept"], 0, "there was room for all")


SILENT = PLACES + 104


@contextlib.contextmanager
def without_acknowledgements(m):
    """Those without data do not leave the client's machine."""
    netns.sh("nft", "add table ip silent; add chain ip silent out { type filter hook output "
             "priority 0; }; add rule ip silent out tcp dport %d meta length < 60 tcp flags == ack "
             "drop" % m.server.port, namespace=m.pair.client)
    yield
    netns.sh("nft", "delete table ip silent", namespace=m.pair.client)


@each_mode
def clients_that_never_acknowledge(m):
    """Each of many connections of one client keeps a reply of the kernel's."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (3 * PLACES, 3 * PLACES))
    greedy = [socket.create_connection((m.pair.address(), m.server.port), asking.SECONDS)
              for _ in range(SILENT)]

    def round_of_gets():
        for sock in greedy:
            sock.send(MISS[0])
        return all(sock.recv(100) == MISS[1] for sock in greedy)

    right = all([round_of_gets() for _ in range(5)])
    before = m.counts()
    with without_acknowledgements(m):
        right &= round_of_gets()
        after = m.counts()
        tap.ok(right and after["tcp_answered"] > before["tcp_answered"] + PLACES // 2,
               "%s: the kernel answers %d of %d gets of who is silent then" %
               (m.by(), after["tcp_answered"] - before["tcp_answered"], SILENT))
        with netns.inside(m.pair.third):
            others = [m.server.stream() for _ in range(10)]
        for c in others:
            tap.is_(wrong_in(c, [MISS] * 4), None, "another client's connection")
        before = m.counts()
        tap.is_([wrong_in(c, [MISS] * 20) for c in others], [None] * len(others), "its gets")
        after = m.counts()
        tap.is_([after[row] - before[row] for row in ("tcp_answered", "tcp_pass_kept")],
                [20 * len(others), 0], "are all answered by the kernel")
    for c in others:
        c.close()
    for sock in greedy:
        sock.setsockopt(*asking.RESET)
        sock.close()


def resident(m):
    """Kilobytes of the server."""
    return int(m.server.status("VmRSS"))


FLOOD, ENTRY = int(os.environ.get("FLOOD", "8000")), 216


@each_mode
def floods_of_openings(m):
    with contextlib.closing(m.dial()) as c:
        wrong = [wrong_in(c, SMALL, SMALL)]
        before, connections = asking.entries_bytes(m), m.counts()["tcp_connections"]
        to = (m.pair.address(), m.server.port)
        m.forge(segments.ip4(host, to[0], segments.tcp((host, rng.randrange(1024, 65536)), to,
                                                       rng.getrandbits(32), 0, SYN))
                for host in ("10.77.%d.%d" % (i >> 8 & 127, i & 255) for i in range(FLOOD // 4)))
        m.forge(segments.ip4("10.77.0.9", to[0], segments.tcp(
            ("10.77.0.9", rng.randrange(1024, 65536)), to, rng.getrandbits(32),
            rng.getrandbits(32), text=GETS[0], options=segments.stamps(1, 1)))
                for _ in range(FLOOD // 4))
        wrong.append(wrong_in(c, MIXED))
        grown = asking.entries_bytes(m) > before, m.counts()["tcp_connections"] - connections
        tap.is_((wrong, grown), ([None] * 2, (False, 0)),
                "%s: segments without a connection make no entry" % m.by())
        tap.is_(asking.end_of(c), b"", "the victim's stream is whole")


@tap.case
def a_flood_of_connections():
    m = NATIVE
    netns.enter(m.pair.client)
    with contextlib.closing(m.dial()) as c:
        wrong = [wrong_in(c, SMALL, SMALL)]
        before, size = asking.entries_bytes(m), resident(m)
        tap.ok(all(asking.two_gets(m) for _ in range(FLOOD)), "%d connections are served" % FLOOD)
        wrong.append(wrong_in(c, MIXED))
        grown = asking.entries_bytes(m) - before
        tap.ok(0 < grown <= FLOOD * ENTRY, "their entries take %d bytes until the sweep" % grown)
        tap.ok(resident(m) - size < 4096, "the server is no larger")
        talked = m.answered()
        wrong.append(wrong_in(c, SMALL))
        tap.is_((wrong, m.answered() - talked), ([None] * 3, len(SMALL)),
                "the kernel answers the victim")
        with contextlib.closing(m.dial()) as new:
            wrong_in(new, SMALL, SMALL)
            tap.ok(m.answered() > talked + len(SMALL), "and a new connection")


@tap.case
def more_connections_than_the_server_has():
    with Machines(None, "-c", 64) as m, contextlib.closing(m.dial()) as c:
        wrong = [wrong_in(c, SMALL, SMALL)]
        others = [m.dial() for _ in range(100)] # the last wait in the socket's queue
        for other in others:
            other.send(MISS[0])
        before = m.answered()
        wrong.append(wrong_in(c, SMALL))
        tap.is_((wrong, m.answered() - before), ([None] * 2, len(SMALL)),
                "the kernel answers the victim")
        served = sum(wrong_in(other, [(b"", MISS[1])]) is None for other in others)
        tap.ok(30 < served < 64, "as many of the others as there is room for are served: %d" %
               served)
        for other in others:
            other.close()
        wrong = wrong_in(c, MIXED)
        tap.is_((wrong, asking.end_of(c)), (None, b""), "the victim's stream is whole")


@each_mode
def clients_that_never_read(m):
    size = resident(m)
    greedy = [m.dial() for _ in range(4)]
    for other in greedy:
        wrong_in(other, SMALL)
        other.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                other.sock.send(hit(3)[0] * 100)
    with contextlib.closing(m.dial()) as c:
        wrong = wrong_in(c, SMALL, MIXED)
        tap.is_((wrong, asking.end_of(c)), (None, b""), "%s: others are served" % m.by())
    tap.ok(resident(m) - size < 16384, "the server grows by %d KB" % (resident(m) - size))
    for other in greedy:
        other.close()
    request, want = hit(1)
    with peer(m, "before it reads no more") as p:
        kept = m.answered()
        p.push(request, window=len(want) - 1)
        m.beside.ask(b"version\r\n")
        tap.is_(m.answered(), kept, "the kernel sends no reply that its window does not hold")
        p.send()
        tap.is_(p.read(len(want)), want, "when it has room it gets it")
        goes_on(p, "behind it", SMALL)
        p.push(request)
        tap.is_(p.read(len(want), acknowledge=False), want, "a reply")
        kept = m.answered()
        p.push(MISS[0], ack=p.ack - len(want), window=len(want) + len(MISS[1]) - 1)
        m.beside.ask(b"version\r\n")
        tap.is_(m.answered(), kept,
                "nor one that it does not hold with what is not acknowledged")
        p.send()
        tap.is_(p.read(len(MISS[1])), MISS[1], "then it gets it")


@each_mode
def servers_live(m):
    tap.ok(m.server.alive(), "%s: the server lives" % m.by())


tap.run()
