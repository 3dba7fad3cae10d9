#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""-X bmc: which requests the kernel answers, which it passes to the server, and what the server
counts."""
import pwd
import re
import socket

import client
import kernel
import netns
import server
import tap
from kernel import answer

CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF = 12, 38, 39

# Values of several chunks, in replies that are not longer than what an interface can hold.
m = kernel.Machines("-o", "slab_chunk_max=16384")
CHUNKED = b"x" * 40000
c = m.tcp


@tap.case
def the_log_has_the_mode_of_attachment():
    tap.like(m.server.log(), r"^bmc: sv0: XDP native, TC ingress",
             "one log line has the mode of attachment")
    tap.is_(netns.xdp_mode("sv0", m.pair.server), "native",
            "the interface has a native XDP program")
    tap.ok(netns.tc_programs("sv0", m.pair.server), "the interface has a TC program")
    tap.is_(netns.xdp_mode("lo", m.pair.server), None, "other interfaces have no program")
    rows = c.stats("bmc")
    for key in ("packets_seen", "answered_xdp", "answered_tc", "hits", "misses", "pass_command",
                "pass_frame", "pass_packet", "pass_request", "pass_item", "pass_expired",
                "pass_size", "pass_busy", "pass_bypass", "pass_source"):
        tap.ok(key in rows, "stats bmc has %s" % key)


@tap.case
def hits_and_misses():
    c.set(b"foo", b"bar", flags=5)
    m.same(b"get foo\r\n", answer((b"foo", b"bar", 5)), "a hit")
    m.same(b"get none\r\n", b"END\r\n", "a miss")
    c.set(b"empty", b"")
    m.same(b"get empty\r\n", answer((b"empty", b"")), "an empty value")
    c.set(b"all", bytes(range(256)))
    m.same(b"get all\r\n", answer((b"all", bytes(range(256)))), "a value of all bytes")
    _, grown = m.during(lambda: [m.udp.ask(b"get foo none foo\r\n") for _ in range(10)])
    tap.is_((grown["packets_seen"], grown["answered"], grown["hits"], grown["misses"]), (10, 10,
                                                                                         20, 10),
            "stats bmc counts packets, answers, hits and misses")


@tap.case
def many_keys_in_the_order_asked():
    items = [(b"k%d" % i, b"value %d" % i, i) for i in range(30)]
    for key, value, flags in items:
        c.set(key, value, flags=flags)
    m.same(b"get k3 k1 k2\r\n", answer(items[3], items[1], items[2]), "three keys")
    m.same(b"get none k2 never k1 nothing\r\n", answer(items[2], items[1]),
           "two hits among five keys")
    m.same(b"get k1 k1 k1\r\n", answer(items[1], items[1], items[1]), "one key three times")
    m.same(b"get none never nothing\r\n", b"END\r\n", "three misses")
    m.same(b"get %s\r\n" % b" ".join(item[0] for item in items), answer(*items), "30 keys")


@tap.case
def the_kernel_answers_while_the_server_is_stopped():
    items = [(b"s%d" % i, b"%d" % i * (i + 1)) for i in range(60)]
    for key, value in items:
        c.set(key, value)
    before = m.counts()
    m.server.pause()
    try:
        wrong = [key for key, value in items if m.udp.ask(b"get %s\r\n" % key) !=
                 answer((key, value))]
        tap.is_(wrong, [], "60 hits are answered while the server is stopped")
        tap.is_([i for i in range(60) if m.udp.ask(b"get none%d\r\n" % i) != b"END\r\n"], [],
                "60 misses are answered while the server is stopped")
        got = m.udp.ask(b"get s1 none s3 s2\r\n")
        tap.is_(got, answer(items[1], items[3], items[2]),
                "several keys are answered while the server is stopped")
        tap.ok(m.silent(b"gat 0 s1\r\n"), "gat is not answered while the server is stopped")
        tap.ok(m.silent(b"version\r\n"), "version is not answered while the server is stopped")
    finally:
        m.server.resume()
    grown = m.counts()["answered"] - before["answered"]
    tap.is_(grown, 121, "all answers are counted as the kernel's")


@tap.case
def replies_too_large_for_xdp_are_sent_by_tc():
    total = dict.fromkeys(("answered_xdp", "answered_tc"), 0)
    wrong = []
    for size in list(range(0, 400, 7)) + list(range(400, 1367, 13)):
        value = (b"%06d" % size * 300)[:size]
        c.set(b"size", value)
        got, grown = m.during(lambda: m.udp.ask(b"get size\r\n"))
        if got != answer((b"size", value)) or grown["answered"] != 1:
            wrong.append((size, grown["answered"]))
        for key in total:
            total[key] += grown[key]
    tap.is_(wrong, [], "values of 0 to 1,366 bytes are all answered by the kernel")
    tap.ok(total["answered_xdp"] > 10, "XDP sends small replies (%d)" % total["answered_xdp"])
    tap.ok(total["answered_tc"] > 10, "TC sends large replies (%d)" % total["answered_tc"])
    c.set(b"size", b"x" * 1365)
    m.same(b"get size\r\n", answer((b"size", b"x" * 1365)), "a reply of 1,399 bytes")
    c.set(b"size", b"x" * 1366)
    m.same(b"get size\r\n", answer((b"size", b"x" * 1366)), "a reply of 1,400 bytes")
    c.set(b"size", b"x" * 1367)
    m.same(b"get size\r\n", answer((b"size", b"x" * 1367)), "a reply of 1,401 bytes", kernel=False)


@tap.case
def requests_that_are_passed():
    c.set(b"foo", b"7", flags=1)
    c.set(b"chunked", CHUNKED)
    c.set(b"big1", b"1" * 700)
    c.set(b"big2", b"2" * 700)
    for request, want, reason in (
            (b"gat 0 foo\r\n", answer((b"foo", b"7", 1)), "pass_command"),
            (b"mg foo v T0\r\n", b"VA 1\r\n7\r\n", "pass_command"),
            (b"set bar 0 0 1\r\nx\r\n", b"STORED\r\n", "pass_command"),
            (b"incr foo 1\r\n", b"8\r\n", "pass_command"),
            (b"delete bar\r\n", b"DELETED\r\n", "pass_command"),
            (b"nonsense\r\n", b"ERROR\r\n", "pass_command"),
            (b"get \r\n", b"ERROR\r\n", None),
            (b"get %s\r\n" % (b"k" * 251), b"CLIENT_ERROR bad command line format\r\n",
             "pass_request"),
            (b"get big1 big2\r\n", answer((b"big1", b"1" * 700), (b"big2", b"2" * 700)),
             "pass_size"),
            (b"get foo chunked\r\n", answer((b"foo", b"8", 1), (b"chunked", CHUNKED)),
             "pass_item")):
        got, grown = m.during(lambda: m.udp.ask(request))
        tap.is_((got, grown["answered"]), (want, 0), "%r is answered by the server" % request[:30])
        if reason:
            tap.is_(grown[reason], 1, "it is counted as %s" % reason)
    _, grown = m.during(lambda: m.udp.send(b"get foo\r\n", count=2))
    tap.is_((grown["answered"], grown["pass_frame"]), (0, 1),
            "a request of two datagrams is counted as pass_frame")


@tap.case
def other_ports_are_not_affected():
    with netns.inside(m.pair.server):
        other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        other.bind((m.pair.address(), 0))
        other.settimeout(20)
    c.set(b"foo", b"bar")
    mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    mine.settimeout(20)
    request = b"\0\1\0\0\0\1\0\0get foo\r\n"

    def exchange():
        mine.sendto(request, other.getsockname())
        got, peer = other.recvfrom(2000)
        other.sendto(b"echo " + got, peer)
        return mine.recv(2000)

    got, grown = m.during(exchange)
    tap.is_(got, b"echo " + request, "a get to another port arrives there unchanged")
    tap.is_((grown["packets_seen"], grown["answered"]), (0, 0), "it is not counted")


@tap.case
def udp_over_ipv6():
    with server.Server(host="fd77:0::1", namespace=m.pair.server) as other:
        other.stream().set(b"six", b"6")
        tap.is_(other.udp().ask(b"get six\r\n"), answer((b"six", b"6")),
                "UDP over IPv6 is served beside the kernel path")


@tap.case
def hits_of_the_kernel_are_in_the_statistics():
    c.set(b"counted", b"x" * 10)
    stats, slabs = c.stats(), c.stats("slabs")
    _, grown = m.during(lambda: [m.udp.ask(b"get counted none\r\n") for _ in range(100)])
    tap.is_(grown["answered"], 100, "100 requests are answered by the kernel")
    after, slabs_after = c.stats(), c.stats("slabs")
    for key, want in (("cmd_get", 200), ("get_hits", 100), ("get_misses", 100)):
        tap.is_(int(after[key]) - int(stats[key]), want, "%s counts them" % key)
    hits = {key: int(slabs_after[key]) - int(slabs[key]) for key in slabs
            if key.endswith("get_hits")}
    tap.is_(sum(hits.values()), 100, "the slab classes' get_hits count them")
    tap.ok(int(after["bytes_read"]) - int(stats["bytes_read"]) >= 100 * 26,
           "bytes_read includes their requests")
    tap.ok(int(after["bytes_written"]) - int(stats["bytes_written"]) >= 100 * 30,
           "bytes_written includes their replies")
    c.stats("reset")
    tap.ok(m.counts()["answered"] == 0 and c.stats()["get_hits"] == "0",
           "stats reset sets both to 0")


@tap.case
def verbosity_2_bypasses_the_kernel():
    c.set(b"foo", b"bar")
    c.ask(b"verbosity 2\r\n")
    got, grown = m.during(lambda: m.udp.ask(b"get foo\r\n"))
    tap.is_((got, grown["answered"], grown["pass_bypass"]), (answer((b"foo", b"bar")), 0, 1),
            "at verbosity 2 the server gets every request")
    tap.ok(server.wait_for(lambda: "get foo" in m.server.log()), "the server logs the request")
    c.ask(b"verbosity 1\r\n")
    m.same(b"get foo\r\n", answer((b"foo", b"bar")), "after verbosity 1")
    c.ask(b"verbosity 0\r\n")


@tap.case
def privileges_are_dropped():
    nobody = pwd.getpwnam("nobody")
    with open("/proc/%d/status" % m.server.pid, encoding="ascii") as file:
        text = file.read()
    tap.like(text, r"^Uid:(\t%d){4}$" % nobody.pw_uid, "the server's user is nobody")
    left = kernel.capabilities(m.server.pid)
    tap.ok(left <= {CAP_BPF, CAP_PERFMON},
           "it keeps at most the capabilities for making maps (%s)" %
           sorted(left))
    tap.ok(CAP_NET_ADMIN not in left, "it has no CAP_NET_ADMIN")


@tap.case
def the_heap_grows_without_privileges():
    with kernel.Machines("-m", "256") as other:
        value = b"h" * 1000
        for start in range(0, 60000, 1000):
            other.tcp.send(b"".join(b"set heap%d 0 0 1000\r\n%s\r\n" % (i, value)
                                    for i in range(start, start + 1000)))
            other.tcp.exactly(len(b"STORED\r\n") * 1000)
        wrong, grown = other.during(lambda: [
            i for i in range(0, 60000, 37)
            if other.udp.ask(b"get heap%d\r\n" % i) != answer((b"heap%d" % i, value))])
        tap.is_(wrong, [], "60 MB of items stored without privileges are read over UDP")
        tap.is_(grown["answered"], len(range(0, 60000, 37)), "the kernel answers all of them")


@tap.case
def two_interfaces_at_once():
    with kernel.Machines(links=2) as two:
        two.tcp.set(b"foo", b"bar")
        second = client.Udp(two.pair.address(1), two.server.port)
        two.same(b"get foo\r\n", answer((b"foo", b"bar")), "the first interface")
        got, grown = two.during(lambda: second.ask(b"get foo\r\n"))
        tap.is_((got, grown["answered"]), (answer((b"foo", b"bar")), 1),
                "the kernel answers on the second interface")
        log = two.server.log()
        tap.ok("bmc: sv0: XDP native" in log and "bmc: sv1: XDP native" in log,
               "the log has a line for each interface")
        two.server.pause()
        tap.is_([two.udp.ask(b"get foo\r\n"), second.ask(b"get foo\r\n")],
                [answer((b"foo",
                         b"bar"))] * 2, "both interfaces answer while the server is stopped")
        two.server.resume()


@tap.case
def generic_mode():
    with kernel.Machines(mode="skb") as generic:
        tap.like(generic.server.log(), "^bmc: sv0: XDP generic", "mode=skb is logged as generic")
        tap.is_(netns.xdp_mode("sv0", generic.pair.server), "generic",
                "the interface has a generic XDP program")
        for size in (10, 100, 500, 1000, 1366):
            generic.tcp.set(b"g", b"x" * size)
            generic.same(b"get g\r\n", answer((b"g", b"x" * size)), "a value of %d bytes" % size)
        generic.same(b"get none\r\n", b"END\r\n", "a miss")


@tap.case
def the_loopback_interface():
    netns.enter(m.pair.server)
    with server.Server("-X", "bmc=lo") as other:
        lo, control = other.udp(), other.stream()
        control.set(b"foo", b"bar")
        before = control.stats("bmc")
        tap.is_(lo.ask(b"get foo none\r\n"), answer((b"foo", b"bar")), "a hit over lo is answered")
        control.set(b"large", b"l" * 1300)
        tap.is_(lo.ask(b"get large\r\n"), answer((b"large", b"l" * 1300)),
                "a large hit over lo is answered")
        after = control.stats("bmc")
        grown = sum(int(after[key]) - int(before[key]) for key in ("answered_xdp", "answered_tc"))
        tap.is_(grown, 2, "the kernel answers both")
        other.pause()
        tap.is_(lo.ask(b"get foo\r\n"), answer((b"foo", b"bar")),
                "the kernel answers over lo while the server is stopped")
        other.resume()
        tap.like(other.log(), r"^bmc: lo: XDP \w+", "the log has the mode of attachment of lo")
    netns.enter(m.pair.client)


@tap.case
def only_local_addresses_are_answered():
    netns.ip("address add 10.77.0.9/24 dev sv0", m.pair.server)
    port = server.free_port(m.pair.server)
    m.server.stop()
    m.options["listen"] = m.pair.address()
    m.options["port"] = port
    m.start()
    with server.Server(namespace=m.pair.server, host="10.77.0.9", port=port) as other:
        m.tcp.set(b"whose", b"first")
        other.stream().set(b"whose", b"second")
        m.same(b"get whose\r\n", answer((b"whose", b"first")),
               "the address that the server listens on")
        got, grown = m.during(lambda: other.udp().ask(b"get whose\r\n"))
        tap.is_((got, grown["answered"]), (answer((b"whose", b"second")), 0),
                "a request to another server's address on the same interface goes to that server")


@tap.case
def items_that_the_kernel_serves_are_not_evicted():
    with kernel.Machines("-m", "8") as small:
        small.tcp.set(b"hot", b"y" * 1000)
        value = b"x" * 1000
        answered = 0
        for start in range(0, 40000, 100):
            small.tcp.send(b"".join(b"set fill%d 0 0 1000\r\n%s\r\n" % (i, value)
                                    for i in range(start, start + 100)))
            small.tcp.exactly(len(b"STORED\r\n") * 100)
            answered += small.udp.ask(b"get hot\r\n") == answer((b"hot", b"y" * 1000))
        tap.is_(answered, 400, "an item that only the kernel serves survives 40 MB of sets in 8 MB")
        tap.ok(small.counts()["answered"] >= 390, "the kernel answered it")
        tap.ok(int(small.tcp.stats()["evictions"]) > 10000, "other items were evicted")


@tap.case
def expiry_while_the_server_is_stopped():
    m.tcp.set(b"brief", b"x", exptime=4)
    m.tcp.set(b"long", b"y", exptime=1000)
    m.server.pause()
    try:
        tap.is_(m.udp.ask(b"get brief\r\n"), answer((b"brief", b"x")),
                "an item before its expiry is answered")
        tap.ok(server.wait_for(lambda: m.silent(b"get brief\r\n"), 8),
               "an expired item is not answered, although the server is stopped")
        tap.is_(m.udp.ask(b"get long\r\n"), answer((b"long", b"y")),
                "an item that has not expired is answered")
    finally:
        m.server.resume()
    tap.is_(m.udp.ask(b"get brief\r\n"), b"END\r\n", "the server answers that the item is missing")


@tap.case
def a_flush_with_delay_while_the_server_is_stopped():
    m.tcp.set(b"doomed", b"x")
    m.tcp.ask(b"flush_all 2\r\n")
    m.server.pause()
    try:
        tap.ok(server.wait_for(lambda: m.silent(b"get doomed\r\n"), 8),
               "from the second of a delayed flush on the kernel answers no item from before")
    finally:
        m.server.resume()
    tap.is_(m.udp.ask(b"get doomed\r\n"), b"END\r\n", "the server answers that the item is missing")
    m.tcp.set(b"after", b"y")
    tap.ok(server.wait_for(lambda: m.by_kernel(b"get after\r\n") == (answer((b"after", b"y")),
                                                                     True)),
           "after the flush the kernel answers again")


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(not re.search("(?i)error|fail", m.server.log()), "the log has no error")


tap.run()
