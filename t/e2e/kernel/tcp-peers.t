#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Gets over TCP that the kernel answers to clients whose TCP is of every ordinary kind: options of
the handshake, sizes of segments and windows, marks, offloads, ends. Every byte of every reply is
compared, and who gave it is counted."""
import contextlib
import errno
import re
import socket
import struct

import asking
import kernel
import netns
import segments
import server
import tap
import tcpcheck
from asking import MISS, MIXED, SMALL, end_of, hit, stored, value, wrong_in

V4, V6 = "10.77.0.1", "fd77:0::1"


def sysctl(namespace, **values):
    for name, number in values.items():
        with netns.inside(namespace), open("/proc/sys/net/ipv4/" + name, "w",
                                           encoding="ascii") as file:
            file.write(str(number))


@contextlib.contextmanager
def while_set(namespace, **values):
    """Values of /proc/sys/net/ipv4, which are put back."""
    before = {}
    for name in values:
        with netns.inside(namespace), open("/proc/sys/net/ipv4/" + name, encoding="ascii") as file:
            before[name] = file.read().strip()
    sysctl(namespace, **values)
    try:
        yield
    finally:
        sysctl(namespace, **before)


def stack_counts(namespace):
    """What a namespace's TCP has counted: of /proc/net/netstat, TcpExt, MPTcpExt and so on."""
    counts = {}
    with netns.inside(namespace), open("/proc/thread-self/net/netstat", encoding="ascii") as file:
        lines = [line.split() for line in file]
    for names, numbers in zip(lines[::2], lines[1::2]):
        counts.update(zip(names[1:], map(int, numbers[1:])))
    return counts


def machines(mode, mtu=1500):
    pair = netns.Pair(mtu=mtu)
    sysctl(pair.server, tcp_fastopen=0x603) # of every listener, without a cookie
    sysctl(pair.client, tcp_fastopen=5)
    return asking.Machines(mode, pair)


NATIVE, TC = machines(None), machines("tc")
each_mode = asking.each_mode(NATIVE, TC)


def talks(m, c, name, answered, *rounds):
    """Asks on a connection and ends it: every byte is right. answered: whether the kernel answers
    some of the requests, or None of how many."""
    wrong, grown = m.during(lambda: wrong_in(c, *(rounds or (MIXED, SMALL, MIXED))))
    found = grown["tcp_answered"]
    tap.is_((wrong, end_of(c)), (None, b""), "%s, %s: every byte is right" % (name, m.by()))
    c.close()
    if answered:
        if not tap.ok(found > 0, "%s, %s: the kernel answers %d" % (name, m.by(), found)):
            tap.diag({key: n for key, n in grown.items() if n and key.startswith("tcp_")})
    elif answered is not None:
        tap.is_(found, 0, "%s, %s: the server answers all" % (name, m.by()))
    return found


# --- the handshake ---------------------------------------------------------------------------

@each_mode
def ordinary_connections(m):
    for host in (V4, V6):
        talks(m, m.dial(host=host), "over " + host, True)


@each_mode
def syn_cookies(m):
    with while_set(m.pair.server, tcp_syncookies=2):
        for host in (V4, V6):
            before = stack_counts(m.pair.server)["SyncookiesRecv"]
            c = m.dial(host=host)
            c.send(MISS[0])
            tap.is_((c.exactly(len(MISS[1])), stack_counts(m.pair.server)["SyncookiesRecv"]),
                    (MISS[1], before + 1), "%s: a connection begins with a SYN cookie" % m.by())
            talks(m, c, "with a SYN cookie", True)


@each_mode
def fast_open(m):
    before = stack_counts(m.pair.server)["TCPFastOpenPassive"]
    c = m.dial(data=MISS[0])
    tap.is_((c.exactly(len(MISS[1])), stack_counts(m.pair.server)["TCPFastOpenPassive"] - before),
            (MISS[1], 1), "%s: a get in a SYN is answered" % m.by())
    talks(m, c, "begun with data in the SYN", True)
    c = m.dial(data=stored(2, 7)[0])
    tap.is_(c.exactly(8), b"STORED\r\n", "%s: so is a set" % m.by())
    talks(m, c, "begun with a set in the SYN", True, [hit(2, 7), hit(2, 7), stored(2), *SMALL])


@each_mode
def mptcp(m):
    def fallen_back():
        return stack_counts(m.pair.client)["MPCapableFallbackSYNACK"]

    before = fallen_back()
    c = m.dial(protocol=socket.IPPROTO_MPTCP)
    tap.is_(fallen_back() - before, 1, "%s: an MPTCP socket falls back to TCP" % m.by())
    talks(m, c, "then", True)


@each_mode
def options_of_the_handshake(m):
    for name, answered in (("tcp_timestamps", False), ("tcp_window_scaling", True),
                           ("tcp_sack", True)):
        for side in (m.pair.client, m.pair.server):
            with while_set(side, **{name: 0}):
                talks(m, m.dial(), "without %s at %s" %
                      (name, "the client" if side == m.pair.client else "the server"), answered)


# --- who refuses a client's handshake ---------------------------------------------------------

MD5SIG = 14


def md5_key():
    """A key for all that is sent to V4, of tcp(7)."""
    address = struct.pack("=H2s4s120x", socket.AF_INET, b"", socket.inet_aton(V4))
    return socket.IPPROTO_TCP, MD5SIG, address + struct.pack("=BBHi80s", 0, 0, 3, 0, b"key")


@each_mode
def md5_keys(m):
    """memcached has no option for keys: the server's stack refuses the segments."""
    def refused():
        return stack_counts(m.pair.server)["TCPMD5Unexpected"]

    before = refused()
    with socket.socket() as sock:
        sock.setsockopt(*md5_key())
        sock.setblocking(False)
        sock.connect_ex((V4, m.server.port))
        tap.ok(server.wait_for(lambda: refused() > before), "%s: a SYN with an MD5 option is "
               "refused" % m.by())
        tap.is_(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or
                sock.connect_ex((V4, m.server.port)), errno.EALREADY,
                "%s: the client gets no connection" % m.by())
    c = m.dial()
    tap.is_(wrong_in(c, SMALL), None, "%s: a connection that the kernel answers" % m.by())
    before, answers = refused(), m.answered()
    c.sock.setsockopt(*md5_key())
    c.send(MISS[0])
    tap.ok(server.wait_for(lambda: refused() > before),
           "%s: a get with an MD5 option on it is refused" % m.by())
    tap.is_(m.answered(), answers, "%s: the kernel does not answer it" % m.by())
    c.close()


# --- segments ---------------------------------------------------------------------------------

def of_size(m, n):
    """A get, and its reply of n bytes."""
    text = b"x" * (n - len(kernel.answer((b"sized", b""))) - len(str(n)) + 1)
    text = text[:n - len(kernel.answer((b"sized", text))) + len(text)]
    m.tcp.set(b"sized", text)
    return b"get sized\r\n", kernel.answer((b"sized", text))


@each_mode
def segment_sizes(m):
    for mss in (88, 536, 1000):
        c = m.dial((socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss))
        tap.is_(wrong_in(c, SMALL[:1] * 3), None, "a connection with an MSS of %d" % mss)
        found = []
        for n in (mss - 12, mss - 11):
            one, before = of_size(m, n), m.answered()
            tap.is_((wrong_in(c, [one] * 3), len(one[1])), (None, n), "MSS %d, %s: replies of %d "
                    "bytes are right" % (mss, m.by(), n))
            found.append(m.answered() - before)
        tap.is_(found, [3, 0], "the kernel answers with what fits a segment")
        talks(m, c, "MSS %d" % mss, True)


# --- marks ------------------------------------------------------------------------------------

@contextlib.contextmanager
def changed(namespace, hook, *rules):
    """Of packets that leave a namespace (output), or have reached it (prerouting)."""
    netns.sh("nft", "add table inet changes; add chain inet changes packets { type filter hook %s "
             "priority -300; }" % hook + "".join("; add rule inet changes packets " + rule
                                                 for rule in rules), namespace=namespace)
    try:
        yield
    finally:
        netns.sh("nft", "delete table inet changes", namespace=namespace)


def marks(m, hook):
    """All that is capable of ECN leaves, or reaches, the client marked."""
    return changed(m.pair.client, hook, *("%s ecn != not-ect %s ecn set ce" % (ip, ip)
                                          for ip in ("ip", "ip6")))


@each_mode
def congestion_marks(m):
    for host in (V4, V6):
        with while_set(m.pair.client, tcp_ecn=1), while_set(m.pair.server, tcp_ecn=1):
            c = m.dial(host=host)
            answers = m.answered()
            tap.is_(wrong_in(c, SMALL, MIXED), None, "ECN over %s, %s" % (host, m.by()))
            tap.ok(m.answered() > answers, "the kernel answers")
            with marks(m, "output"):
                wrong_in(c, SMALL[:1])
                answers = m.answered()
                tap.is_((wrong_in(c, SMALL, MIXED), m.answered() - answers), (None, 0),
                        "marked gets are the server's, and every byte of their replies is right")
            answers = m.answered()
            tap.is_(wrong_in(c, MIXED), None, "behind the last mark every byte is right")
            tap.ok(m.answered() > answers, "the kernel answers again")
            with marks(m, "prerouting"):
                tap.is_(wrong_in(c, SMALL, MIXED, MIXED), None,
                        "marked replies: every byte is right")
            talks(m, c, "after marks", True)


@each_mode
def urgent_pointers_that_are_cleared(m):
    """By a firewall between TC and the socket, on a connection that the kernel answers."""
    for host in (V4, V6):
        before = m.counts()["tcp_untranslated"]
        with changed(m.pair.server, "prerouting", "tcp urgptr != 0 counter tcp urgptr set 0"):
            talks(m, m.dial(host=host), "urgent pointers cleared, over " + host, True)
            chain = netns.sh("nft", "list", "chain", "inet", "changes", "packets",
                             namespace=m.pair.server)
        tap.ok(re.search(r"packets [1-9]", chain), "the firewall has changed segments")
        tap.is_(m.counts()["tcp_untranslated"], before, "the socket's filter has let all through")


# --- pauses -----------------------------------------------------------------------------------

@tap.case
def keepalive():
    idle = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    idle += [(socket.IPPROTO_TCP, which, 1) for which in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL,
                                                          socket.TCP_KEEPCNT)]
    times = {"tcp_keepalive_time": 1, "tcp_keepalive_intvl": 1, "tcp_keepalive_probes": 1}
    with while_set(NATIVE.pair.server, **times), while_set(TC.pair.server, **times):
        found = []
        for m in (NATIVE, TC):
            netns.enter(m.pair.client)
            for name, options in (("the client", idle), ("the server", [])):
                c = m.dial(*options)
                tap.is_(wrong_in(c, SMALL, SMALL), None, "a connection is answered")
                side = m.pair.client if options else m.pair.server
                found.append((m, name, c, side, stack_counts(side)["TCPKeepAlive"]))
        for m, name, c, side, before in found:
            netns.enter(m.pair.client)
            tap.ok(server.wait_for(lambda side=side, before=before:
                                   stack_counts(side)["TCPKeepAlive"] >= before + 2, 30, 0.1),
                   "%s: %s asks whether the other is there" % (m.by(), name))
            talks(m, c, "asked for by " + name, True)


# --- ends -------------------------------------------------------------------------------------

@each_mode
def half_closes(m):
    for name, flags in (("a get and then the end", 0), ("the end with a get", socket.MSG_MORE)):
        for request, want in (MISS, hit(1), hit(4)):
            c = m.dial()
            tap.is_(wrong_in(c, SMALL), None, "a connection is answered")
            c.sock.send(request, flags)
            c.sock.shutdown(socket.SHUT_WR)
            tap.is_(c.to_end(), want, "%s, %s: the reply, and then the end" % (name, m.by()))
            c.close()


def reset(c):
    c.sock.setsockopt(*asking.RESET)
    c.close()


@each_mode
def resets(m):
    def idle(_):
        pass

    def asked(c):
        c.send(hit(3)[0])

    def read_in_part(c):
        c.send(hit(3)[0])
        c.exactly(10)

    def half_closed(c):
        c.send(hit(3)[0])
        c.sock.shutdown(socket.SHUT_WR)

    def many_asked(c):
        for _ in range(20):
            c.send(hit(4)[0])

    def asked_in_part(c):
        c.send(b"get ke")

    def curr():
        return int(m.tcp.stats()["curr_connections"])

    before = curr()
    for function in (idle, asked, read_in_part, half_closed, many_asked, asked_in_part):
        connections = [m.dial() for _ in range(4)]
        tap.is_([wrong_in(c, SMALL) for c in connections], [None] * 4, "connections are answered")
        for c in connections:
            function(c)
            reset(c)
        tap.ok(server.wait_for(lambda: curr() <= before),
               "%s, a reset when a connection is %s: the server ends it" %
               (m.by(), function.__name__.replace("_", " ")))
    talks(m, m.dial(), "a new connection", True)


@each_mode
def ports_that_are_used_again(m):
    port = server.free_port()
    for i, stamps in enumerate((1, 1, 0, 1, 0, 0, 1)):
        with while_set(m.pair.client, tcp_timestamps=stamps):
            talks(m, m.dial(source=port), "connection %d from one port%s" %
                  (i, "" if stamps else ", without timestamps"), bool(stamps))
    for i in range(4):
        c = m.dial(source=port)
        tap.is_(wrong_in(c, SMALL), None, "%s: a port whose connection was reset, %d" % (m.by(), i))
        c.send(hit(3)[0])
        reset(c)


# --- windows ----------------------------------------------------------------------------------

@each_mode
def small_windows(m):
    c = m.dial((socket.SOL_SOCKET, socket.SO_RCVBUF, 2304))
    answers = m.answered()
    tap.is_(wrong_in(c, SMALL, MIXED, [hit(3)] * 10), None, "%s: a small window" % m.by())
    tap.ok(m.answered() > answers, "%s: the kernel answers" % m.by())
    for one in (hit(3), hit(1)):
        before = stack_counts(m.pair.client)
        for _ in range(60):
            c.send(one[0])

        def is_full():
            now = stack_counts(m.pair.client)
            return any(now[name] > before[name] for name in ("TCPToZeroWindowAdv", "TCPRcvQDrop"))

        tap.ok(server.wait_for(is_full), "%s: the client has no more room" % m.by())
        got = b""
        while len(got) < 60 * len(one[1]):
            got += c.sock.recv(100)
        tap.ok(got == one[1] * 60, "%s: every byte is right when it is read" % m.by())
    talks(m, c, "behind that", True)


# --- pieces -----------------------------------------------------------------------------------

@each_mode
def requests_in_pieces(m):
    c = m.dial()
    for request, want in (hit(1), (b"mg key1 v\r\n", b"VA 60\r\n%s\r\n" % value(1)), stored(0)):
        wrong = []
        for at in range(1, len(request)):
            c.send(request[:at])
            c.send(request[at:])
            wrong.append(wrong_in(c, [(b"", want)], SMALL[:at % 3]))
        tap.is_(set(wrong), {None}, "%s: %r in two pieces" % (m.by(), request[:10]))
    talks(m, c, "after pieces", True)


@each_mode
def gets_within_values(m):
    """What the server takes for data is no command, whatever it looks like."""
    request, want = hit(1)
    c = m.dial()
    wrong, found = [wrong_in(c, SMALL, SMALL)], []
    for begin, behind, reply in (
            (b"set within 0 0 %d\r\n" % len(request), b"\r\n", b"STORED\r\n"),
            (b"set within 0 0 2000000\r\n", b"v" * (2000000 - len(request)) + b"\r\n",
             b"SERVER_ERROR object too large for cache\r\n"),
            (b"get ", b"\r\n", want + b"ERROR\r\n")): # a key that is called get
        c.send(begin)
        before = m.answered() # by then the server has read the beginning
        c.send(request)
        found.append(m.answered() - before)
        c.send(behind)
        wrong.append(wrong_in(c, [(b"", reply)], SMALL))
    tap.is_((wrong, found), ([None] * 4, [0] * 3),
            "%s: gets in the place of data are not answered" % m.by())
    tap.is_(c.get(b"within"), None, "and what was too large is gone")
    talks(m, c, "behind them", True)


@each_mode
def pipelines(m):
    for nodelay in (False, True):
        for quick in (None, 0, 1):
            c, wrong = m.dial(nodelay=nodelay), []
            for i in range(20):
                if quick is not None:
                    c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, quick)
                some = SMALL[:1 + i % 4]
                for request, _ in some:
                    c.send(request)
                wrong.append(wrong_in(c, [(b"", want) for _, want in some]))
            tap.is_(set(wrong), {None}, "%s: pipelined gets, TCP_NODELAY %d, TCP_QUICKACK %s" %
                    (m.by(), nodelay, quick))
            talks(m, c, "after them", True)


@each_mode
def urgent_data(m):
    """The byte that is urgent is not in the stream: tcp(7). From then on the server answers."""
    with server.Server(namespace=m.pair.server, host=V4) as plain:
        asking.fill(plain.stream())
        for name, c in (("a plain server", plain.stream()), (m.by(), m.dial())):
            answers = m.answered()
            c.sock.send(b"!", socket.MSG_OOB)
            tap.is_(wrong_in(c, SMALL), None, "%s: behind an urgent byte" % name)
            for request, want in SMALL:
                c.sock.send(request + b"!", socket.MSG_OOB)
                tap.is_(wrong_in(c, [(b"", want)], SMALL), None,
                        "%s: a get with an urgent byte behind it" % name)
                c.sock.send(request[:-5] + b"!", socket.MSG_OOB)
                tap.is_(wrong_in(c, [(request[-5:], want)], SMALL), None,
                        "%s: a get with an urgent byte in it" % name)
            tap.is_((end_of(c), m.answered() - answers), (b"", 0), "%s: and no more" % name)


# --- headers that begin in the middle ---------------------------------------------------------

@each_mode
def options_of_ip(m):
    for name, host, option, data in (
            ("IPv4 options", V4, (socket.IPPROTO_IP, socket.IP_OPTIONS), b"\1\1\1\1"),
            ("a record of the route", V4, (socket.IPPROTO_IP, socket.IP_OPTIONS),
             b"\7\7\4\0\0\0\0\0"),
            ("destination options", V6, (socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS),
             b"\0\0\1\4\0\0\0\0"),
            ("hop-by-hop options", V6, (socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS),
             b"\0\0\1\4\0\0\0\0")):
        c = m.dial(host=host)
        answers = m.answered()
        tap.is_(wrong_in(c, SMALL, SMALL), None, "%s: a connection over %s" % (m.by(), host))
        tap.ok(m.answered() > answers, "the kernel answers")
        answers = m.answered()
        c.sock.setsockopt(*option, data)
        tap.is_((wrong_in(c, MIXED), m.answered() - answers), (None, 0),
                "%s: when it begins to have %s the server answers" % (m.by(), name))
        c.sock.setsockopt(*option, b"")
        talks(m, c, "when it ends to have them", True)


# --- offloads ---------------------------------------------------------------------------------

@each_mode
def offloads(m):
    for off in ((), ("sv0",), ("cl0",), ("sv0", "cl0")):
        for interface in ("sv0", "cl0"):
            netns.set_offloads(interface, m.pair.server if interface == "sv0" else m.pair.client,
                               interface not in off)
        before = m.answered()
        found = tcpcheck.run(V4, m.server.port, "--operations", 1000, "--connections", 20,
                             "--big", 0.02)
        tcpcheck.judge(found, 1000, "%s, offloads are off at %s" %
                       (m.by(), " ".join(off) or "none"))
        tap.ok(m.answered() > before + 20, "the kernel answers %d" % (m.answered() - before))


@tap.case
def long_segments():
    with machines(None, 9000) as m:
        for mss in (None, 8960, 4000):
            options = [(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)] if mss else []
            c = m.dial(*options)
            answers = m.answered()
            tap.is_(wrong_in(c, SMALL, [of_size(m, 1392)] * 3), None,
                    "an MTU of 9000, MSS %s" % mss)
            tap.ok(m.answered() >= answers + 3, "the kernel answers")
            talks(m, c, "an MTU of 9000", True)


# --- segments that the test makes itself ------------------------------------------------------

ports = iter(range(40000, 41000))


@contextlib.contextmanager
def peer(m, name, **options):
    """A peer whose connection the kernel answers."""
    for interface, namespace in (("sv0", m.pair.server), ("cl0", m.pair.client)):
        netns.offloads_off(interface, namespace)
    with contextlib.closing(segments.Peer(m, next(ports), **options)) as p:
        answers = m.answered()
        tap.is_([p.ask(*one) for one in SMALL], [one[1] for one in SMALL],
                "%s, %s: every byte is right" % (name, m.by()))
        tap.ok(m.answered() > answers, "the kernel answers")
        yield p


@each_mode
def numbers_that_wrap(m):
    """As those of a connection do that lives for days, or has sent gigabytes."""
    with peer(m, "near the end of all numbers", seq=2**32 - 200, clock=2**32 - 25) as p:
        wrong = [one[0][:20] for one in MIXED + SMALL * 3 if p.ask(*one) != one[1]]
        tap.is_((wrong, p.seq > 2**32, p.clock > 2**32), ([], True, True),
                "behind it every byte is right")
        answers = m.answered()
        tap.is_([p.ask(*one) for one in SMALL], [one[1] for one in SMALL], "and further on")
        tap.is_(m.answered() - answers, len(SMALL), "the kernel answers all")


@each_mode
def timestamps_at_other_places(m):
    """As smoltcp sends them, and others may."""
    for name, begin, end in (("first", b"", b"\1\1"), ("between", b"\1", b"\1"),
                             ("before the end", b"", b"\0\0")):
        lay = lambda *numbers, begin=begin, end=end: begin + segments.stamps(*numbers)[2:] + end
        with peer(m, "timestamps " + name, lay=lay) as p:
            answers = m.answered()
            wrong = [one[0][:20] for one in MIXED + SMALL * 2 if p.ask(*one) != one[1]]
            tap.is_(wrong, [], "timestamps %s, %s: every byte is right" % (name, m.by()))
            tap.ok(m.answered() >= answers + 2 * len(SMALL), "and the kernel answers")


@each_mode
def simultaneous_close(m):
    with peer(m, "before both close") as p:
        p.push(b"quit\r\n")
        found = p.receive()
        while found and not found.flags & segments.FIN:
            found = p.receive()
        tap.is_(found and (found.seq + len(found.text)) % 2**32, p.next() % 2**32,
                "the server's end is where the stream ends")
        p.push(b"", segments.FIN | segments.ACK) # does not know of that end
        found = p.receive()
        while found and found.ack != p.seq % 2**32: # the end once more
            found = p.receive()
        tap.ok(found, "the server acknowledges the client's end")
        p.ack += 1
        p.send()


@each_mode
def closed_windows(m):
    request, want = hit(1)
    with peer(m, "before the window closes") as p:
        answers = m.answered()
        p.push(request, window=0)
        found = p.receive()
        while found and found.seq != (p.ack - 1) % 2**32: # a probe: one below
            found = p.receive()
        tap.is_((bool(found), p.got.get(p.ack % 2**32)), (True, None),
                "while its window is closed it is probed, and gets nothing")
        tap.is_(m.answered(), answers, "the kernel does not answer")
        p.send()
        tap.is_(p.read(len(want)), want, "when it is open it gets the reply")
        tap.is_([p.ask(*one) for one in SMALL], [one[1] for one in SMALL], "and all others")


@each_mode
def probes(m):
    """A client asks whether the server is there: one below its numbers, with or without a byte."""
    with peer(m, "before it asks") as p:
        for nbytes in (0, 1):
            p.send(b"\0" * nbytes, seq=p.seq - 1)
            found = p.receive()
            tap.is_(found and (found.seq, found.ack), (p.ack % 2**32, p.seq % 2**32),
                    "the server says what it has")
            p.push(hit(1)[0])
            tap.is_(p.read(len(hit(1)[1]), acknowledge=False), hit(1)[1], "a reply")
            p.ack -= len(hit(1)[1])
            p.send(b"\0" * nbytes, seq=p.seq - 1)
            found = p.receive()
            tap.is_(found and found.text, hit(1)[1], "which is sent again if it was not received")
            tap.is_(p.read(len(hit(1)[1])), hit(1)[1], "with the same bytes")
            p.send()
        tap.is_([p.ask(*one) for one in SMALL], [one[1] for one in SMALL], "and all others")


@each_mode
def forgotten_connections(m):
    """A client that has lost its connection resets it with the number that the server names."""
    def curr():
        return int(m.tcp.stats()["curr_connections"])

    before = curr()
    for outstanding in (False, True):
        with peer(m, "before it is lost") as p:
            if outstanding:
                p.push(hit(1)[0])
                tap.is_(p.read(len(hit(1)[1]), acknowledge=False), hit(1)[1], "a reply")
                p.seq -= len(hit(1)[0])
            p.send(flags=segments.RST, ack=0)
            tap.ok(server.wait_for(lambda: curr() <= before), "%s: the server ends it" % m.by())


@each_mode
def fragments(m):
    request, want = hit(1)
    for order in (1, -1):
        with peer(m, "before it is fragmented") as p:
            body = segments.tcp(p.at, p.server, p.seq, p.ack, text=request,
                                options=segments.stamps(p.clock, p.tsecr))
            answers = m.answered()
            for fragment, part in ((0x2000, body[:32]), (0x0004, body[32:]))[::order]:
                p.wire.send(segments.ip4(p.at[0], p.server[0], part, fragment=fragment))
            p.seq += len(request)
            tap.is_(p.read(len(want)), want, "%s: a get in two fragments" % m.by())
            tap.is_(m.answered(), answers, "the kernel does not answer it")
            tap.is_([p.ask(*one) for one in MIXED], [one[1] for one in MIXED],
                    "behind it every byte is right")


@each_mode
def options_of_segments(m):
    request, want = hit(1)
    with peer(m, "before its options are odd") as p:
        for name, options in (("an experiment", b"\xfd\4\1\2"),
                              ("TCP-AO", b"\x1d\x10\1\1" + bytes(12)),
                              ("MPTCP", b"\x1e\4\x20\0"), ("no more", b"\0\0\0\0")):
            stamps, answers = segments.stamps(p.clock, p.tsecr), m.answered()
            p.push(request, options=stamps + options)
            tap.is_((p.read(len(want)), m.answered() - answers), (want, 0),
                    "a get with an option, %s: the server answers" % name)
            tap.is_([p.ask(*one) for one in SMALL], [one[1] for one in SMALL],
                    "behind it every byte is right")


tap.run()
