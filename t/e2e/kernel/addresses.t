#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Addresses and MAC addresses that are added and removed while the server runs."""
import errno
import os
import socket
import struct

import client
import kernel
import netns
import openfiles
import server
import tap
from changing import HIT, Changing


@tap.case
def addresses_of_ipv4():
    with Changing(links=2, on=1) as m:
        m.becomes("at start the local addresses are lo's and those of the interfaces",
                  addresses_ipv4=3, addresses_ipv6=0)
        m.ip("address add 10.77.0.9/24 dev sv0")
        m.becomes("an added address is local", addresses_ipv4=4)
        m.asked("10.77.0.9", "the kernel answers at an added address")
        m.ip("address add 10.77.0.9/32 dev sv0")
        m.ip("address del 10.77.0.9/32 dev sv0")
        m.asked("10.77.0.9",
                "it still answers after the same address with another prefix was added and removed")
        m.ip("address del 10.77.0.9/24 dev sv0")
        m.becomes("a removed address is not local", addresses_ipv4=3)
        m.asked("10.77.0.9",
                "the kernel does not answer at a removed address", kernel_answers=False)
        m.ip("address add 10.77.9.9 peer 10.77.8.8 dev sv1")
        m.becomes("an address of another interface is local", addresses_ipv4=4)
        netns.ip("route add 10.77.9.9 via 10.77.0.1")
        m.asked("10.77.9.9", "the kernel answers at it on the attached interface")
        m.ip("link set sv1 down")
        m.asked("10.77.9.9", "it also answers while that interface is down")
        m.tcp.ask(b"verbosity 2\r\n")
        tap.is_(client.Udp("10.77.9.9", m.server.port).ask(b"get k\r\n"), HIT,
                "without the kernel path the server answers there as well")


@tap.case
def other_ports_are_named():
    """The kernel answers on one port; what others -l and -U name are left to the server."""
    pair = netns.Pair(2)
    netns.enter(pair.client)
    first, second, third = (server.free_port(pair.server) for _ in range(3))
    where = "%s:%d,%s:%d,127.0.0.1" % (pair.address(0), first, pair.address(1), second)
    for words, more in (("bmc=sv0,bmc=sv1", ""),
                        ("bmc=sv0,bmc=sv1,tcp=on", ", TCP %d, TCP %d" % (second, third))):
        with server.Server("-u", server.USER, "-p", third, "-U", third, "-l", where, "-X", words,
                           plain=True, port=first, namespace=pair.server,
                           host=pair.address()) as one:
            left = "UDP %d, UDP %d%s" % (second, third, more)
            tap.like(one.log(), "bmc: the kernel answers on the port of the first address of -l; "
                     "the server answers alone on %s\n" % left, "%s: the start names them" % words)
            control = one.stream()
            tap.is_(control.stats("bmc")["ports_left_out"], left, "so does `stats bmc`")
            control.close()
            for i, port in enumerate((first, second)):
                udp = client.Udp(pair.address(i), port)
                tap.is_(udp.ask(b"get k\r\n"), b"END\r\n", "port %d is answered" % (i + 1))
                udp.close()
    pair.close()


@tap.case
def loopback_addresses_alone():
    warning = "bmc: sv0: the server listens on loopback addresses alone, which nobody can reach"
    pair = netns.Pair()
    netns.enter(pair.server)
    for listen, times in (("127.0.0.1", 1), ("127.0.0.1,::1", 1), ("127.0.0.1,10.77.0.1", 0)):
        with server.Server("-X", "bmc=sv0", namespace=pair.server, listen=listen) as s:
            tap.is_(s.log().count(warning), times, "-l %s: %d warnings" % (listen, times))


@tap.case
def addresses_of_ipv6():
    with Changing(listen="0.0.0.0,::", links=2, on=1) as m:
        m.becomes("at start the local addresses are lo's and those of the interfaces, without "
                  "link-local ones", addresses_ipv6=3)
        m.asked("fd77:0::1", "the kernel answers over IPv6")
        m.ip("address add fd77:0::9/64 dev sv0")
        m.becomes("an added IPv6 address is local after duplicate address detection",
                  addresses_ipv6=4)
        m.asked("fd77:0::9", "the kernel answers at an added IPv6 address")
        m.ip("address change fd77:0::9/64 dev sv0 valid_lft 1000 preferred_lft 0")
        m.asked("fd77:0::9", "it answers at a deprecated IPv6 address")
        m.ip("address del fd77:0::9/64 dev sv0")
        m.becomes("a removed IPv6 address is not local", addresses_ipv6=3)
        m.asked("fd77:0::9",
                "the kernel does not answer at a removed IPv6 address", kernel_answers=False)
        with netns.inside(m.pair.server):
            netns.set_accept_dad("sv0", 1)
        m.ip("address add fd77:0::2/64 dev sv0") # the client's
        tap.ok(server.wait_for(lambda: "dadfailed" in m.ip("address show dev sv0")),
               "an address that another machine has fails duplicate address detection")
        m.ip("address add 10.77.0.8/24 dev sv0")
        m.becomes("that address is not local, one added after it is", addresses_ipv6=3,
                  addresses_ipv4=4)
        m.ip("link set sv1 down")
        m.becomes("an IPv6 address of an interface that is down is not local", addresses_ipv6=2,
                  addresses_ipv4=4)


@tap.case
def an_address_of_l_is_added_and_removed():
    """As keepalived moves an address."""
    with netns_allows_foreign_addresses(), Changing(listen="10.77.0.1,10.77.0.50") as m:
        m.becomes("of two addresses of -l one is local", addresses_ipv4=1)
        for round_ in ("added", "added again"):
            m.ip("address add 10.77.0.50/24 dev sv0")
            m.ip("address add 10.77.0.51/24 dev sv0")
            m.becomes("%s: of two addresses the one of -l is local" % round_, addresses_ipv4=2)
            m.asked("10.77.0.50", "the kernel answers at the address of -l")
            m.asked("10.77.0.51",
                    "the kernel does not answer at the other address", kernel_answers=False)
            m.ip("address del 10.77.0.50/24 dev sv0")
            m.ip("address del 10.77.0.51/24 dev sv0")
            m.becomes("without the address of -l one is local", addresses_ipv4=1)
            m.asked("10.77.0.50",
                    "the kernel does not answer at the removed address of -l", kernel_answers=False)


class netns_allows_foreign_addresses:
    """Servers in namespaces made from here on may listen on addresses that are not local."""

    def __enter__(self):
        self.add = netns.Pair.add_link

        def add(pair, i, mtu=1500):
            with netns.inside(pair.server):
                with open("/proc/sys/net/ipv4/ip_nonlocal_bind", "w", encoding="ascii") as file:
                    file.write("1")
            self.add(pair, i, mtu)

        netns.Pair.add_link = add

    def __exit__(self, *_):
        netns.Pair.add_link = self.add


@tap.case
def more_addresses_than_fit():
    with Changing() as m:
        batch = os.path.join(m.server.dir, "batch")
        m.server.pause()
        for verb in ("add", "del", "add"):
            with open(batch, "w", encoding="ascii") as file:
                for i in range(2000):
                    file.write("address %s 10.78.%d.%d/32 dev lo\n" % (verb, i // 200, i % 200))
            m.ip("-batch " + batch)
        m.server.resume()
        m.becomes("of 2,002 addresses as many as fit are local", addresses_ipv4=64, left_out=1938)
        m.logs("not all addresses", 1, "the server logs once that not all addresses fit")
        m.asked("10.77.0.1", "the attached interface's address is among them")
        with open(batch, "w", encoding="ascii") as file:
            for i in range(2000):
                file.write("address del 10.78.%d.%d/32 dev lo\n" % (i // 200, i % 200))
        m.ip("-batch " + batch)
        m.becomes("after most were removed all are local", addresses_ipv4=2, left_out=0)
        m.asked("10.77.0.1", "the kernel answers after it")


@tap.case
def more_messages_than_the_socket_holds():
    with Changing() as m:
        batch = os.path.join(m.server.dir, "batch")
        with open(batch, "w", encoding="ascii") as file:
            for _ in range(10000):
                file.write("address add 10.79.0.1/32 dev lo\naddress del 10.79.0.1/32 dev lo\n")
        m.server.pause()
        m.ip("-batch " + batch)
        m.ip("address add 10.77.0.9/24 dev sv0")
        m.server.resume()
        m.becomes("an address whose message was lost is local", addresses_ipv4=3)
        tap.ok(int(m.rows()["resyncs"]) >= 1, "the server has read all addresses anew")
        m.asked("10.77.0.9", "the kernel answers at it")


@tap.case
def another_mac():
    with Changing() as m:
        m.asked("10.77.0.1", "before")
        m.ip("link set sv0 address 02:4d:43:00:01:99")
        netns.ip("neighbour flush dev cl0")
        m.becomes("there is one MAC address", macs=1)
        tap.ok(server.wait_for(lambda: m.by_kernel(b"get k\r\n") == (HIT, True)),
               "the kernel answers at the new MAC address")
        m.ip("link add link sv0 name mv0 type macvlan mode bridge")
        m.ip("address add 10.77.0.3/24 dev mv0")
        m.ip("link set mv0 up")
        m.becomes("the MAC address of a macvlan above the interface is local", macs=2)
        m.asked("10.77.0.3", "the kernel answers at the macvlan's address")
        m.ip("link del mv0")
        m.becomes("the MAC address of a removed macvlan is not local", macs=1, addresses_ipv4=2)
        m.ip("link add br0 type bridge")
        m.ip("link set br0 address 02:4d:43:00:01:9a")
        m.ip("link set br0 up")
        m.ip("link set sv0 master br0")
        m.becomes("the MAC address of the interface's bridge is local", macs=2)
        m.ip("link set sv0 nomaster")
        m.becomes("it is not local after the interface has left the bridge", macs=1)


@tap.case
def an_interface_of_the_same_subnet():
    """Replies may leave by it, and then have to be translated where no program is."""
    words = "unless you add bmc=sv1"
    with kernel.Machines(links=2, on=1, words=["tcp=on"]) as m:
        tap.is_(m.server.log().count(words), 0, "an interface of another subnet is not named")
        with netns.inside(m.pair.server):
            netns.ip("address add 10.77.0.201/24 dev sv1")
            tap.is_(server.logged(m.server, words), 1, "one that gets such an address is")
            count = lambda: m.counts()["addresses_ipv4"]
            before = count()
            netns.ip("address del 10.77.0.201/24 dev sv1")
            server.wait_for(lambda: count() == before - 1)
            netns.ip("address add 10.77.0.201/24 dev sv1")
            tap.is_(server.logged(m.server, words, 2), 2, "and once more when it comes back")


@tap.case
def routes_that_avoid_the_interface():
    ways = (("203.0.113.0/24 via 10.77.1.2", "the route to 203.0.113.0/24 is by sv1"),
            ("10.77.0.128/25 dev sv1", "the route to 10.77.0.128/25 is by sv1"),
            ("fd99::/64 via fd77:1::2", "the route to fd99::/64 is by sv1"),
            ("default via 10.77.1.2 metric 50", "the default route is by sv1"))
    words = "on TCP connections whose replies leave by it the server answers alone, unless you " \
        "add bmc=sv1"
    with kernel.Machines(links=2, on=1, words=["tcp=on"]) as m:
        def ip(text):
            netns.ip(text, m.pair.server)

        def noticed():
            """The server has noticed what was changed: it knows of an address that came later."""
            for verb, more in ("add", 1), ("del", 0):
                ip("address %s 10.99.0.1/32 dev lo" % verb)
                server.wait_for(lambda: m.counts()["addresses_ipv4"] == addresses + more)

        addresses = m.counts()["addresses_ipv4"]
        for route, line in ways:
            for n in 1, 2:
                ip("route add " + route)
                tap.is_(server.logged(m.server, "bmc: %s: %s\n" % (line, words), n), n,
                        "%s: a line, when it comes for the %d. time" % (line, n))
                ip("route del " + route)
                noticed()
        ip("route add default via 10.77.0.2 metric 10")
        ip("route add default via 10.77.1.2 metric 50")
        noticed()
        tap.is_(m.server.log().count(line), 2, "a route that is not used is not named")
        ip("route del default via 10.77.0.2 metric 10")
        tap.is_(server.logged(m.server, line, 3), 3, "it is when it is")
    pair = netns.Pair(2)
    netns.ip("route add default via 10.77.1.2", pair.server)
    with kernel.Machines(links=2, on=1, words=["tcp=on"], pair=pair) as m:
        tap.is_(server.logged(m.server, line), 1, "also one that is there at the start")


def listeners(m):
    """The ports of the server's netlink sockets."""
    own = openfiles.links(m.server.pid).values()
    with netns.inside(m.pair.server):
        with open("/proc/thread-self/net/netlink", encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
    return [int(row[2]) for row in rows if row[1] == "0" and "socket:[%s]" % row[9] in own]


def send_message(m, port, user):
    """Sends the message that 10.77.0.1 was removed, from a process of this user: 0, or the
    error."""
    with netns.inside(m.pair.server):
        index = socket.if_nametoindex("sv0")
    news = struct.pack("=BBBBI", socket.AF_INET, 24, 0, 0, index)
    for kind in 1, 2: # IFA_ADDRESS, IFA_LOCAL
        news += struct.pack("=HH4s", 8, kind, socket.inet_aton("10.77.0.1"))
    news = struct.pack("=IHHII", 16 + len(news), 21, 0, 0, 0) + news # RTM_DELADDR
    with netns.inside(m.pair.server):
        child = os.fork()
        if child == 0:
            os.setresuid(user, user, user)
            sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
            try:
                sock.sendto(news, (port, 0))
                os._exit(0)
            except OSError as error:
                os._exit(error.errno)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@tap.case
def messages_of_other_senders_than_the_kernel():
    with Changing() as m:
        m.asked("10.77.0.1", "before")
        ports = listeners(m)
        tap.ok(ports, "the server listens to rtnetlink messages")
        tap.is_([send_message(m, port, 65534) for port in ports], [errno.EPERM] * len(ports),
                "another user cannot send a message to it")
        tap.is_([send_message(m, port, 0) for port in ports], [0] * len(ports), "root can send one")
        m.ip("address add 10.77.0.9/24 dev sv0")
        m.becomes("root's message is ignored, the kernel's is not", addresses_ipv4=3)
        m.asked("10.77.0.1", "the address is still local")


tap.run()
