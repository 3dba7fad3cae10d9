#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Which sources the kernel answers: allow=, rate=, amplification=. The server answers all
others."""
import os
import random
import select
import shutil

import client
import kernel
import netns
import server
import tap
from kernel import answer

USAGE = 64
FRIEND, OTHER, PUBLIC = "10.77.0.2", "10.77.0.3", "203.0.113.9"
LISTS = os.path.join(server.scratch(), "allow")


def joined(*addresses):
    """Two namespaces; the client has further addresses, and the server has routes to them. The
    routes are made before a server starts: a later one would make the kernel forget the return
    paths."""
    pair = netns.Pair()
    for address in addresses:
        nodad = ["nodad"] if ":" in address else []
        netns.sh("ip", "address", "add", address, "dev", "cl0", *nodad, namespace=pair.client)
        if not address.endswith("/24"):
            netns.ip("route add %s dev sv0" % address, pair.server)
    return pair


def machines(*words, arguments=(), **options):
    """The client has a second private address, and a public one."""
    m = kernel.Machines(*arguments, words=words, threads=1,
                        pair=joined(OTHER + "/24", PUBLIC + "/32"), **options)
    m.tcp.set(b"k", b"value")
    return m


def asked(m, source, request=b"get k\r\n", want=answer((b"k", b"value")), times=1):
    """The increase of the counters while `source` sends the request and gets the right answer."""
    host = "fd77:0::1" if ":" in source else m.pair.address()
    kernel.meet(host, m.server.port, source)
    udp = client.Udp(host, m.server.port, source=source)
    right, grown = m.during(lambda: all(udp.ask(request) == want for _ in range(times)))
    udp.close()
    if not right:
        tap.ok(False, "%s gets the right answer" % source)
    return grown


def by_kernel(m, source, name):
    grown = asked(m, source)
    tap.is_((grown["answered"], grown["pass_allow"]), (1, 0), name + ", answered by the kernel")


def by_server(m, source, name):
    grown = asked(m, source)
    tap.is_((grown["answered"], grown["pass_allow"]), (0, 1), name + ", answered by the server")


def readable(udp):
    return bool(select.select([udp.sock], [], [], 0)[0])


def write(text):
    with open(LISTS, "w", encoding="ascii") as file:
        file.write(text)


@tap.case
def beside_another_program():
    """Where generic XDP has copied a frame, TC sees it from behind its Ethernet header, and the
    metadata that another program has left."""
    with machines("allow=%s" % FRIEND, "rate=1/5", mode="tc") as m:
        for notes, name in ((0, "that has none"), (4, "that has few"), (24, "that has many")):
            other = netns.attach_pass("sv0", m.pair.server, generic=True, notes=notes)
            by_kernel(m, FRIEND, "a source of the list, behind another's XDP program " + name)
            by_server(m, OTHER, "another source")
            os.close(other)
        other = netns.attach_pass("sv0", m.pair.server, generic=True, notes=24)
        tap.ok(asked(m, FRIEND, times=50)["pass_rate"] > 0, "and not above its rate")
        os.close(other)


def below(pair, notes):
    """A macvlan on the server's interface, 10.78.0.1, and another's program below it."""
    netns.ip("link add link sv0 name mv0 type macvlan mode bridge", pair.server)
    netns.ip("address add 10.78.0.1/24 dev mv0", pair.server)
    netns.ip("link set mv0 up", pair.server)
    netns.ip("address add 10.78.0.2/24 dev cl0", pair.client)
    # sv0 answers for that address, too.
    netns.ip("neigh replace 10.78.0.1 dev cl0 lladdr %s" %
             netns.link("mv0", pair.server)["address"], pair.client)
    return netns.attach_pass("sv0", pair.server, generic=True, notes=notes)


@tap.case
def what_xdp_refuses_beside_another_program():
    """Its metadata is no mark of ours: TC does not answer what XDP has refused, and answers what
    XDP has marked, charged once."""
    for notes in (4, 12):
        pair = joined()
        other = below(pair, notes)
        with kernel.Machines(words=["bmc=mv0", "mode=skb", "rate=1/20"], on=0, threads=1,
                             pair=pair) as m:
            m.tcp.set(b"k", b"value")
            kernel.meet("10.78.0.1", m.server.port, "10.78.0.2")
            udp = client.Udp("10.78.0.1", m.server.port)
            right, grown = m.during(
                lambda: all(udp.ask(b"get k\r\n") == answer((b"k", b"value"))
                            for _ in range(100)))
            tap.ok(right, "%d bytes of metadata: all is answered" % notes)
            tap.ok(grown["answered"] >= 20, "by the kernel as often as the rate allows")
            tap.ok(grown["pass_rate"] and grown["answered"] + grown["pass_rate"] <= 100,
                   "and not what XDP has refused")
            udp.close()
        os.close(other)


@tap.case
def without_options_local_sources_are_answered():
    with machines() as m:
        rows = m.tcp.stats("bmc")
        tap.is_([rows[key] for key in ("allow", "allow_prefixes", "rate", "burst",
                                       "amplification")],
                ["local", "0", "0", "0", "0"], "`stats bmc` shows the defaults")
        by_kernel(m, FRIEND, "a private address")
        by_server(m, PUBLIC, "a public address")
        m.tcp.ask(b"stats reset\r\n")
        counts = m.counts()
        tap.is_((counts["pass_allow"], counts["pass_rate"], counts["pass_amplification"]),
                (0, 0, 0), "stats reset sets the counters to 0")


PUBLIC4, PUBLIC6 = "198.51.100.1", "2001:db8:77::1"


class WithPublic(kernel.Machines):
    """The server has a public address of each family, and the client has routes to them."""

    def start(self):
        for address, by in ((PUBLIC4, "10.77.0.1"), (PUBLIC6, "fd77:0::1")):
            nodad = ["nodad"] if ":" in address else []
            netns.sh("ip", "address", "add", address, "dev", "sv0", *nodad,
                     namespace=self.pair.server)
            netns.ip("route add %s via %s" % (address, by), self.pair.client)
        super().start()


def link_local(m):
    """The client's link-local IPv6 address, as a socket is bound to it."""
    netns.ip("address add fe80::77/64 dev cl0 nodad", m.pair.client)
    return "fe80::77%cl0"


@tap.case
def behind_a_firewall_that_closes_the_public_address():
    listen = "10.77.0.1,%s,[fd77:0::1],[%s]" % (PUBLIC4, PUBLIC6)
    with WithPublic(threads=1, listen=listen) as m:
        m.tcp.set(b"k", b"value")
        link = link_local(m)
        for host, source in ((PUBLIC4, FRIEND), (PUBLIC6, "fd77:0::2"),
                             (PUBLIC6, link), ("fd77:0::1", link)):
            udp = client.Udp(host, m.server.port, source=source)
            right, grown = m.during(lambda: udp.ask(b"get k\r\n") == answer((b"k", b"value")))
            tap.is_((right, grown["answered"], grown["pass_allow"]), (True, 0, 1),
                    "a request from %s to %s is answered by the server" % (source, host))
            udp.close()
        if not shutil.which("nft"):
            tap.ok(True, "a firewall # SKIP there is no nft")
            return
        for rule in ("table inet t", "chain inet t in { type filter hook input priority 0; }",
                     "rule inet t in ip daddr %s udp dport %d drop" % (PUBLIC4, m.server.port),
                     "rule inet t in ip6 daddr %s udp dport %d drop" % (PUBLIC6, m.server.port)):
            netns.sh("nft", "add", rule, namespace=m.pair.server)
        for host, source in ((PUBLIC4, FRIEND), (PUBLIC6, "fd77:0::2"),
                             (PUBLIC6, link)):
            udp = client.Udp(host, m.server.port, source=source)
            udp.send(b"get k\r\n")
            _, grown = m.during(lambda: m.udp.ask(b"get k\r\n")) # behind it
            tap.ok(not readable(udp), "a request from %s to %s, which is closed, is not answered" %
                   (source, host))
            udp.close()


@tap.case
def a_list_on_the_command_line():
    with machines("allow=203.0.113.0/24", "10.77.0.2", "2001:db8::/32") as m:
        rows = m.tcp.stats("bmc")
        tap.is_((rows["allow"], rows["allow_prefixes"]), ("list", "3"),
                "`stats bmc` shows the list")
        by_kernel(m, FRIEND, "an address on the list")
        by_kernel(m, PUBLIC, "an address in a prefix of the list")
        by_server(m, OTHER, "a private address that is not on the list")
    with machines("allow=local", "allow=203.0.113.8/31") as m:
        by_kernel(m, OTHER, "`local` on a list: a private address")
        by_kernel(m, PUBLIC, "`local` on a list: a public address on it")
    with machines("allow=all") as m:
        tap.is_(m.tcp.stats("bmc")["allow"], "all", "allow=all")
        by_kernel(m, PUBLIC, "allow=all: a public address")
    with machines("allow=all", mode="tc") as m:
        by_kernel(m, PUBLIC, "allow=all, mode=tc: a public address")
    with machines(mode="tc") as m:
        by_server(m, PUBLIC, "mode=tc: a public address without allow=")


@tap.case
def ten_thousand_prefixes():
    rng = random.Random(5)
    lines = ["# of our network", "", "10.77.0.2 # a friend", "203.0.113.8/29"]
    lines += ["%d.%d.%d.0/%d" % (rng.randrange(20, 99), rng.randrange(256), rng.randrange(256),
                                 rng.randrange(18, 33)) for _ in range(5000)]
    lines += ["2a%02x:%x:%x::/%d" % (rng.randrange(32), rng.randrange(65536),
                                     rng.randrange(65536), rng.randrange(28, 65))
              for _ in range(5000)]
    write("\n".join(lines))
    with machines("allow=@" + LISTS, "rate=1000") as m:
        prefixes = int(m.tcp.stats("bmc")["allow_prefixes"])
        tap.ok(9500 < prefixes <= 10002,
               "a file of 10,000 prefixes is read (%d after joining)" % prefixes)
        by_kernel(m, FRIEND, "an address in the file")
        by_kernel(m, PUBLIC, "an address in a prefix of the file")
        by_server(m, OTHER, "an address that is not in the file")
    write("# nobody\n")
    with machines("allow=@" + LISTS) as m:
        by_server(m, FRIEND, "a file without an address: a private address")


@tap.case
def the_same_over_ipv6():
    public, other = "2001:db8:9::9", "2001:db8:9:1::9"
    for words, kernels, servers in (((), ("fd77:0::2",), (public, other)),
                                    (("allow=2001:db8:9::/64",), (public,),
                                     ("fd77:0::2", other))):
        with kernel.Machines(words=words, threads=1, listen="0.0.0.0,::",
                             pair=joined(public + "/128", other + "/128")) as m:
            m.tcp.set(b"k", b"value")
            for source in kernels:
                by_kernel(m, source, "%s with %s" % (source, words or "no allow="))
            for source in servers:
                by_server(m, source, "%s with %s" % (source, words or "no allow="))


@tap.case
def a_source_over_its_rate():
    with machines("rate=1/20") as m:
        grown = asked(m, FRIEND, times=100)
        tap.ok(20 <= grown["answered"] < 60 and grown["answered"] + grown["pass_rate"] == 100,
               "of 100 requests the kernel answers the burst, the server the others (%d)" %
               grown["answered"])
        grown = asked(m, OTHER, times=20)
        tap.is_((grown["answered"], grown["pass_rate"]), (20, 0),
                "another source has a limit of its own")
        tap.ok(server.wait_for(lambda: asked(m, FRIEND)["answered"] == 1),
               "after some time the kernel answers the first source again")
        m.tcp.set(b"large", b"l" * 1300)
        grown = asked(m, PUBLIC, b"get large\r\n", answer((b"large", b"l" * 1300)), 3)
        tap.is_((grown["pass_allow"], grown["pass_rate"]), (3, 0),
                "requests refused by allow= do not count for rate=")
    with machines("rate=1000000/10000", "allow=local,203.0.113.9") as m:
        m.tcp.set(b"large", b"l" * 1300)
        grown = asked(m, PUBLIC, b"get large\r\n", answer((b"large", b"l" * 1300)), 50)
        tap.is_((grown["answered"], grown["pass_rate"]), (50, 0),
                "a request that XDP leaves to TC counts once")


@tap.case
def replies_that_are_too_large():
    request = b"get size\r\n"
    most = 10 * (8 + len(request)) - 8 - len(answer((b"size", b""))) - 2
    with machines("amplification=10") as m:
        m.tcp.set(b"size", b"s" * most)
        grown = asked(m, FRIEND, request, answer((b"size", b"s" * most)))
        tap.is_((grown["answered"], grown["pass_amplification"]), (1, 0),
                "a reply of ten times the request is answered by the kernel")
        m.tcp.set(b"size", b"s" * (most + 1))
        grown = asked(m, FRIEND, request, answer((b"size", b"s" * (most + 1))))
        tap.is_((grown["answered"], grown["pass_amplification"]), (0, 1),
                "a reply longer by a byte is answered by the server")


@tap.case
def malformed_values_are_refused():
    port = server.free_port()
    for word, says in (("allow=10.0.0.0/33", "allow= takes"), ("allow=", "allow= takes"),
                       ("allow=10.0.0.0/8,10.1", "allow= takes"), ("allow=lan", "allow= takes"),
                       ("rate=0", "rate= takes"), ("rate=1000/1", "a hundredth of the rate"),
                       ("rate=fast", "rate= takes"), ("amplification=0", "amplification= takes")):
        for letter in "-X", "-o":
            status, _, error = server.run("-U", port, letter, "bmc=lo," + word)
            tap.is_((status, error.count("\n")), (USAGE, 1), "%s bmc=lo,%s is refused" %
                    (letter, word))
            tap.like(error, says, "the message is one line with the reason")
    write("10.0.0.0/8\n192.168.0.0/16, fd00::/8 # ours\n10.0.0.0/33\n")
    for path, says in ((LISTS, "allow:3: \"10.0.0.0/33\""), ("/nowhere/list", "No such file")):
        status, _, error = server.run("-U", port, "-X", "bmc=lo,allow=@" + path)
        tap.ok(status not in (None, 0) and says in error, "%s is refused: %s" %
               (path, error.strip()))


tap.run()
