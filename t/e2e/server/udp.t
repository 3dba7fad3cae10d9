#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""UDP: the frame, replies of several datagrams, and defects of stock memcached."""
import os
import random
import struct

import client
import server
import tap

memcached = server.Server(threads=1)
c = memcached.stream()


def answer(key, value, flags=0):
    return b"VALUE %s %d %d\r\n%s\r\n" % (key, flags, len(value), value)


@tap.case
def requests_and_replies():
    u = memcached.udp()
    tap.is_(u.ask(b"set foo 5 0 3\r\nbar\r\n"), b"STORED\r\n", "set over UDP is answered STORED")
    tap.is_(c.get(b"foo"), b"bar", "the item is found over TCP")
    tap.is_(u.ask(b"get foo\r\n"), answer(b"foo", b"bar", 5) + b"END\r\n",
            "get over UDP returns it")
    tap.is_(u.ask(b"get foo none foo\r\n"), answer(b"foo", b"bar", 5) * 2 + b"END\r\n",
            "get of several keys returns them")
    tap.is_(u.ask(b"get none\r\n"), b"END\r\n", "a miss is answered with END")
    tap.is_(u.ask(b"get foo\n"), answer(b"foo", b"bar", 5) + b"END\r\n",
            "a bare newline ends the line")
    cas = c.gets(b"foo")[1]
    tap.is_(u.ask(b"gets foo\r\n"), b"VALUE foo 5 3 %d\r\nbar\r\nEND\r\n" % cas,
            "gets over UDP returns the id")


@tap.case
def every_command_is_served():
    u = memcached.udp()
    for request, want in (
            (b"add a 0 0 1\r\nx\r\n", b"STORED\r\n"), (b"add a 0 0 1\r\nx\r\n", b"NOT_STORED\r\n"),
            (b"replace a 0 0 1\r\n5\r\n", b"STORED\r\n"),
            (b"append a 0 0 1\r\n1\r\n", b"STORED\r\n"),
            (b"prepend a 0 0 1\r\n9\r\n", b"STORED\r\n"), (b"incr a 1\r\n", b"952\r\n"),
            (b"decr a 2\r\n", b"950\r\n"), (b"touch a 0\r\n", b"TOUCHED\r\n"),
            (b"gat 0 a\r\n", b"VALUE a 0 3\r\n950\r\nEND\r\n"),
            (b"cas a 0 0 1 1\r\nx\r\n", b"EXISTS\r\n"), (b"delete a\r\n", b"DELETED\r\n"),
            (b"delete a\r\n", b"NOT_FOUND\r\n"), (b"verbosity 0\r\n", b"OK\r\n"),
            (b"flush_all\r\n", b"OK\r\n"),
            (b"shutdown\r\n", b"ERROR: shutdown not enabled\r\n")):
        tap.is_(u.ask(request), want, "%r over UDP" % request)
    tap.like(u.ask(b"version\r\n"), r"\AVERSION \d+\.\d+\.\d+", "version over UDP")
    stats = u.ask(b"stats\r\n")
    tap.like(stats, r"\ASTAT pid \d+\r\n", "stats over UDP begins with the pid")
    tap.ok(stats.endswith(b"\r\nEND\r\n"), "it ends with END")
    tap.is_(u.datagrams, 2, "it has 2 datagrams")


@tap.case
def errors_have_a_frame():
    u = memcached.udp()
    long = b"k" * 251
    for request, want in (
            (b"\n", b"ERROR\r\n"), (b"\r\n", b"ERROR\r\n"), (b"foo\r\n", b"ERROR\r\n"),
            (b"get\r\n", b"ERROR\r\n"),
            (b"get %s\r\n" % long, b"CLIENT_ERROR bad command line format\r\n"),
            (b"incr foo x\r\n", b"CLIENT_ERROR invalid numeric delta argument\r\n"),
            (b"touch foo x\r\n", b"CLIENT_ERROR invalid exptime argument\r\n"),
            (b"set foo 0 0 x\r\n", b"CLIENT_ERROR bad command line format\r\n")):
        tap.is_(u.ask(request), want, "%r over UDP" % request[:40])


@tap.case
def the_frame_of_an_answer():
    u = memcached.udp()
    c.set(b"foo", b"bar")
    want = answer(b"foo", b"bar") + b"END\r\n"
    for ident in (0, 1, 255, 256, 32767, 65535):
        tap.is_(u.ask(b"get foo\r\n", ident=ident), want, "request id %d is returned" % ident)
    for sequence in (1, 7, 65535):
        tap.is_(u.ask(b"get foo\r\n", sequence=sequence), want,
                "a request's sequence number %d is ignored" % sequence)
    for reserved in (1, 256, 65535):
        tap.is_(u.ask(b"get foo\r\n", reserved=reserved), want,
                "for a request's reserved field %d the answer has 0" % reserved)


@tap.case
def malformed_frames_are_dropped():
    u = memcached.udp()
    for count in (0, 2, 3, 7, 256, 65535):
        u.send(b"get foo\r\n", count=count)
        tap.ok(u.silence(), "a request of %d datagrams is not answered" % count)
    u.send(b"set two 0 0 1\r\nx\r\n", count=2)
    tap.ok(u.silence(), "a set in two datagrams is not answered")
    tap.is_(c.get(b"two"), None, "it is not executed")
    for size in range(0, 9):
        u.send_raw(struct.pack("!HHHH", 77, 0, 1, 0)[:size])
        tap.ok(u.silence(), "a datagram of %d bytes is not answered" % size)


@tap.case
def unfinished_requests_are_dropped():
    u = memcached.udp()
    for request in (b"g", b"get foo", b"version", b"x" * 3000, b"get " + b"k " * 1000, b" " * 100):
        u.send(request)
        tap.ok(u.silence(), "a line of %d bytes without its newline is not answered" % len(request))
    tap.is_(u.ask(b"get foo\r\n"), answer(b"foo", b"bar") + b"END\r\n",
            "it does not affect the next datagram")


@tap.case
def noreply_and_quit():
    u = memcached.udp()
    u.send(b"set q 0 0 1 noreply\r\nx\r\n")
    tap.ok(u.silence(), "noreply suppresses the answer")
    tap.is_(c.get(b"q"), b"x", "the command is executed")
    for request in (b"quit\r\n", b"quit\r\nget foo\r\n", b"GET / HTTP/1.1\r\nget foo\r\n"):
        u.send(request)
        tap.ok(u.silence(), "%r is not answered, nor are commands behind it" % request)
    tap.is_(u.ask(b"get foo\r\n"), answer(b"foo", b"bar") + b"END\r\n", "the socket still answers")


@tap.case
def several_commands_in_a_datagram():
    u = memcached.udp()
    def messages(request, count):
        ident = u.send(request)
        return [u.message(ident) for _ in range(count)]

    hit = answer(b"foo", b"bar") + b"END\r\n"
    tap.is_(messages(b"get foo\r\nget none\r\n", 2), [hit, b"END\r\n"],
            "two gets are answered by two datagrams, each the first of one")
    tap.is_(messages(b"get foo\r\nfoo\r\nset m 0 0 1\r\nx\r\nget m\r\n", 4),
            [hit, b"ERROR\r\n", b"STORED\r\n", answer(b"m", b"x") + b"END\r\n"],
            "four commands are answered by four datagrams")
    tap.is_(messages(b"set m 0 0 1 noreply\r\ny\r\nget m\r\n", 1),
            [answer(b"m", b"y") + b"END\r\n"],
            "a command with noreply is answered by none")
    tap.is_(messages(b"get foo\r\nget fo", 1), [hit], "an incomplete last command is dropped")
    tap.ok(u.silence(), "nothing else is answered")
    count = 100
    tap.is_(messages(b"get foo\r\n" * count, count), [hit] * count, "100 gets by 100")


@tap.case
def replies_of_every_size():
    """Sizes around one, two and three datagrams, and far beyond."""
    u = memcached.udp()
    rng = random.Random(1)
    for size in (list(range(1340, 1400)) + list(range(2730, 2800)) + list(range(4130, 4190)) +
                 [10000, 65536, 500000]):
        value = rng.randbytes(size)
        c.set(b"size", value)
        got = u.ask(b"get size\r\n")
        want = answer(b"size", value) + b"END\r\n"
        datagrams = -(-len(want) // 1392)
        if got != want or u.datagrams != datagrams:
            tap.ok(False, "a value of %d bytes in %d datagrams (received: %d bytes in %d)" %
                   (size, datagrams, len(got), u.datagrams))
            return
    tap.ok(True, "replies around 1392, 2784 and 4176 bytes and up to 500,000 are complete, in full "
           "datagrams of 1400 bytes, numbered from 0")
    exact = 1392 - len(b"VALUE size 0 1369\r\n\r\nEND\r\n")
    c.set(b"size", b"x" * exact)
    tap.is_((len(u.ask(b"get size\r\n")), u.datagrams), (1392, 1),
            "a reply of exactly 1392 bytes is one datagram")
    c.set(b"size", b"x" * (exact + 1))
    tap.is_((len(u.ask(b"get size\r\n")), u.datagrams), (1393, 2), "one more byte makes it two")


@tap.case
def a_reply_of_many_keys_and_datagrams():
    u = memcached.udp()
    want = b""
    for i in range(100):
        value = b"%d." % i * (i * 3)
        c.set(b"many%d" % i, value, flags=i)
        want += answer(b"many%d" % i, value, i)
    names = b" ".join(b"many%d" % i for i in range(100))
    tap.is_(u.ask(b"get %s\r\n" % names), want + b"END\r\n",
            "100 keys are answered in %d datagrams" %
            -(-len(want) // 1392))
    tap.is_(u.ask(b"get %s %s\r\n" % (names, names)), want * 2 + b"END\r\n", "200 keys")


@tap.case
def large_sets_in_one_datagram():
    u = memcached.udp()
    for size in (1000, 1400, 1401, 4096, 16384, 60000):
        value = b"%d" % size * 20000
        tap.is_(u.ask(b"set large 0 0 %d\r\n%s\r\n" % (size, value[:size])), b"STORED\r\n",
                "a set of %d bytes in one datagram is stored" % size)
        tap.ok(c.get(b"large") == value[:size], "its value is complete")


@tap.case
def a_value_that_its_datagram_cuts_off():
    u = memcached.udp()
    c.set(b"victim", b"safe")
    for request in (b"set victim 0 0 10\r\n", b"set victim 0 0 10\r\nabc",
                    b"set victim 0 0 3\r\nabc", b"set victim 0 0 3\r\nabc\r",
                    b"add other 0 0 4096\r\nabc\r\n"):
        u.send(request) # whether this is answered is not tested here
        tap.is_(memcached.udp().ask(b"get none\r\n"), b"END\r\n",
                "%r does not take the next datagram for its value" % request)
    got = c.get(b"victim")
    tap.ok(got in (b"safe", None), "no half of a value is stored")
    tap.is_(c.get(b"other"), None, "a value that was never sent is not stored")


@tap.case
def a_set_that_is_too_large():
    u = memcached.udp()
    ident = u.send(b"set big 0 0 2000000\r\nabc")
    tap.is_(u.message(ident), b"SERVER_ERROR object too large for cache\r\n",
            "a set of 2,000,000 bytes is refused")
    tap.is_([u.ask(b"get foo\r\n") for _ in range(20)],
            [answer(b"foo", b"bar") + b"END\r\n"] * 20, "the next datagrams are answered")


@tap.case
def commands_that_need_a_connection():
    u = memcached.udp()
    for request in (b"watch\r\n", b"watch fetchers\r\n", b"lru_crawler metadump all\r\n",
                    b"stats conns\r\n", b"stats cachedump 1 1\r\n"):
        ident = u.send(request)
        u.sock.settimeout(0.3)
        try:
            while True:
                u.message(ident)
        except (TimeoutError, client.FrameError):
            pass
        u.close()
        u = memcached.udp()
        tap.is_(u.ask(b"get foo\r\n"), answer(b"foo", b"bar") + b"END\r\n",
                "after %r over UDP the socket still answers" % request)


@tap.case
def many_requests_at_once():
    for threads, options in ((4, ()), (2, ("-o", "no_reuseport"))):
        with server.Server(*options, threads=threads) as other, other.stream() as d:
            for i in range(200):
                d.set(b"b%d" % i, b"value %d" % i)
            clients = [other.udp() for _ in range(8)]
            wrong = 0
            for round_ in range(10):
                sent = []
                for i in range(200):
                    udp = clients[i % len(clients)]
                    sent.append((udp, udp.send(b"get b%d\r\n" % i, ident=round_ * 200 + i), i))
                got = {}
                for udp, _, _ in sent:
                    datagram = udp.recv_raw()
                    got[struct.unpack("!H", datagram[:2])[0]] = datagram[8:]
                wrong += sum(got.get(ident) != answer(b"b%d" % i, b"value %d" % i) + b"END\r\n"
                             for _, ident, i in sent)
            tap.is_(wrong, 0, "2,000 gets in bursts over 8 sockets, %s, are answered" %
                    (options[-1] if options else "a socket for each of %d workers" % threads))
            conns = other.stats("conns")
            udp = [k for k, v in conns.items() if k.endswith(":addr") and v.startswith("udp")]
            tap.is_(len(udp), threads, "stats conns shows a UDP socket for each worker")


@tap.case
def requests_wait_while_the_server_does_not_run():
    """Linux's default of 212,992 bytes holds 256 of them, each of which takes 832."""
    want = list(range(400))
    answered = []
    with server.Server(threads=1) as stopped:
        u = stopped.udp()
        stopped.pause()
        for ident in want:
            u.send(b"mn\r\n", ident=ident)
        stopped.resume()
        try:
            while len(answered) < len(want):
                answered += struct.unpack("!H", u.recv_raw()[:2])
        except TimeoutError:
            tap.diag("%d requests were lost" % (len(want) - len(answered)))
        tap.ok(answered == want, "all %d are answered, in order" % len(want))


def waiting(port):
    """Bytes that wait in each UDP socket of the port, by inode."""
    found = {}
    with open("/proc/net/udp", encoding="ascii") as file:
        for line in file.readlines()[1:]:
            words = line.split()
            if int(words[1].split(":")[1], 16) == port:
                found[words[9]] = int(words[4].split(":")[1], 16)
    return found


@tap.case
def each_worker_has_the_socket_of_its_cpu():
    cpus = sorted(os.sched_getaffinity(0))
    with server.Server(threads=len(cpus)) as other:
        tap.is_(len(waiting(other.port)), len(cpus), "%d workers, a UDP socket each" % len(cpus))
        other.pause()
        used = []
        try:
            for cpu in cpus:
                # Over loopback a datagram is received on the CPU that sends it.
                os.sched_setaffinity(0, [cpu])
                before = waiting(other.port)
                for _ in range(10):
                    other.udp().send(b"get none\r\n")
                after = waiting(other.port)
                used.append({inode for inode in after if after[inode] > before[inode]})
        finally:
            os.sched_setaffinity(0, cpus)
            other.resume()
        tap.is_([len(sockets) for sockets in used], [1] * len(cpus),
                "all requests of ten clients on one CPU are in one socket")
        tap.is_(len(set.union(*used)), len(cpus), "each CPU has a socket of its own")
    with server.Server("-o", "no_reuseport", threads=len(cpus)) as other:
        tap.is_(len(waiting(other.port)), 1, "no_reuseport: one socket for all workers")


@tap.case
def bytes_are_counted():
    with server.Server(threads=1) as other:
        v = other.udp()
        d = other.stream()
        before = d.stats()
        v.ask(b"get none\r\n")
        after = d.stats()
        read = int(after["bytes_read"]) - int(before["bytes_read"])
        tap.is_(read, 8 + len(b"get none\r\n") + len(b"stats\r\n"),
                "bytes_read includes the 8 bytes of the frame")
        tap.is_(int(after["cmd_get"]) - int(before["cmd_get"]), 1, "cmd_get counts the request")


c.set(b"foo", b"bar")
tap.run(ends=memcached)
