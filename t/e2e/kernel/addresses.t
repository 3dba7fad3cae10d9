#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Addresses and MAC addresses that come and go while the server runs."""
import errno
import os
import re
import socket
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
import client
import netns
import server
import tap
from changing import HIT, Changing


@tap.case
def addresses_of_ipv4():
    with Changing(links=2, on=1) as m:
        m.becomes("at start: lo's and those of the interfaces", addresses_ipv4=3, addresses_ipv6=0)
        m.ip("address add 10.77.0.9/24 dev sv0")
        m.becomes("an address that is added is ours", addresses_ipv4=4)
        m.asked("10.77.0.9", "and answered for by the kernel")
        m.ip("address add 10.77.0.9/32 dev sv0")
        m.ip("address del 10.77.0.9/32 dev sv0")
        m.asked("10.77.0.9", "still when it came and went with another prefix")
        m.ip("address del 10.77.0.9/24 dev sv0")
        m.becomes("one that is removed is not", addresses_ipv4=3)
        m.asked("10.77.0.9", "nor answered for", kernel_answers=False)
        m.ip("address add 10.77.9.9 peer 10.77.8.8 dev sv1")
        m.becomes("an address on another interface is ours", addresses_ipv4=4)
        netns.sh("ip", "route", "add", "10.77.9.9", "via", "10.77.0.1")
        m.asked("10.77.9.9", "and answered for where the programs are")
        m.ip("link set sv1 down")
        m.asked("10.77.9.9", "also while that interface is down")
        m.tcp.ask(b"verbosity 2\r\n")
        tap.is_(client.Udp("10.77.9.9", m.server.port).ask(b"get k\r\n"), HIT,
                "as it is without the kernel path")


@tap.case
def addresses_of_ipv6():
    with Changing(listen="0.0.0.0,::", links=2, on=1) as m:
        m.becomes("at start: lo's and those of the interfaces, not the links'", addresses_ipv6=3)
        m.asked("fd77:0::1", "IPv6 is answered for")
        m.ip("address add fd77:0::9/64 dev sv0")
        m.becomes("an address that is added is ours when nobody else has it", addresses_ipv6=4)
        m.asked("fd77:0::9", "and answered for by the kernel")
        m.ip("address change fd77:0::9/64 dev sv0 valid_lft 1000 preferred_lft 0")
        m.asked("fd77:0::9", "also when it is deprecated")
        m.ip("address del fd77:0::9/64 dev sv0")
        m.becomes("one that is removed is not", addresses_ipv6=3)
        m.asked("fd77:0::9", "nor answered for", kernel_answers=False)
        with netns.inside(m.pair.server):
            netns.set_accept_dad("sv0", 1)
        m.ip("address add fd77:0::2/64 dev sv0") # the client's
        tap.ok(server.wait_for(lambda: "dadfailed" in m.ip("address show dev sv0")),
               "an address that another machine has")
        m.ip("address add 10.77.0.8/24 dev sv0")
        m.becomes("is not ours, while one behind it is", addresses_ipv6=3, addresses_ipv4=4)
        m.ip("link set sv1 down")
        m.becomes("with its interface down an IPv6 address is not ours", addresses_ipv6=2,
                  addresses_ipv4=4)


@tap.case
def the_address_of_l_comes_and_goes():
    """As keepalived moves one."""
    with netns_allows_foreign_addresses(), Changing(listen="10.77.0.1,10.77.0.50") as m:
        m.becomes("of two addresses of -l the machine has one", addresses_ipv4=1)
        for round_ in ("it comes", "it comes again"):
            m.ip("address add 10.77.0.50/24 dev sv0")
            m.ip("address add 10.77.0.51/24 dev sv0")
            m.becomes("%s: it alone is ours" % round_, addresses_ipv4=2)
            m.asked("10.77.0.50", "and answered for by the kernel")
            m.asked("10.77.0.51", "but no other", kernel_answers=False)
            m.ip("address del 10.77.0.50/24 dev sv0")
            m.ip("address del 10.77.0.51/24 dev sv0")
            m.becomes("it goes", addresses_ipv4=1)
            m.asked("10.77.0.50", "and is not answered for", kernel_answers=False)


class netns_allows_foreign_addresses:
    """Servers in namespaces made from here on may listen on addresses that they have not yet."""

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
        m.becomes("of 2,002 addresses as many as fit are ours", addresses_ipv4=64, left_out=1938)
        m.said("not all addresses", 1, "which is said once")
        m.asked("10.77.0.1", "those of the interface are among them")
        with open(batch, "w", encoding="ascii") as file:
            for i in range(2000):
                file.write("address del 10.78.%d.%d/32 dev lo\n" % (i // 200, i % 200))
        m.ip("-batch " + batch)
        m.becomes("when they have gone the rest is ours", addresses_ipv4=2, left_out=0)
        m.asked("10.77.0.1", "and answered for")


@tap.case
def more_news_than_the_socket_holds():
    with Changing() as m:
        batch = os.path.join(m.server.dir, "batch")
        with open(batch, "w", encoding="ascii") as file:
            for _ in range(10000):
                file.write("address add 10.79.0.1/32 dev lo\naddress del 10.79.0.1/32 dev lo\n")
        m.server.pause()
        m.ip("-batch " + batch)
        m.ip("address add 10.77.0.9/24 dev sv0")
        m.server.resume()
        m.becomes("an address whose message was lost is ours", addresses_ipv4=3)
        tap.ok(int(m.rows()["resyncs"]) >= 1, "because the machine was looked at as a whole")
        m.asked("10.77.0.9", "and answered for")


@tap.case
def another_mac():
    with Changing() as m:
        m.asked("10.77.0.1", "before")
        m.ip("link set sv0 address 02:4d:43:00:01:99")
        netns.sh("ip", "neighbour", "flush", "dev", "cl0")
        m.becomes("one MAC address", macs=1)
        tap.ok(server.wait_for(lambda: m.by_kernel(b"get k\r\n") == (HIT, True)),
               "the kernel answers at the new MAC address")
        m.ip("link add link sv0 name mv0 type macvlan mode bridge")
        m.ip("address add 10.77.0.3/24 dev mv0")
        m.ip("link set mv0 up")
        m.becomes("that of a macvlan above the interface is ours too", macs=2)
        m.asked("10.77.0.3", "and the kernel answers there")
        m.ip("link del mv0")
        m.becomes("until it goes", macs=1, addresses_ipv4=2)
        m.ip("link add br0 type bridge")
        m.ip("link set br0 address 02:4d:43:00:01:9a")
        m.ip("link set br0 up")
        m.ip("link set sv0 master br0")
        m.becomes("so is that of its bridge", macs=2)
        m.ip("link set sv0 nomaster")
        m.becomes("until it leaves that", macs=1)


def listeners(m):
    """The ports of the server's netlink sockets."""
    own = set()
    for name in os.listdir("/proc/%d/fd" % m.server.pid):
        found = re.match(r"socket:\[(\d+)\]", os.readlink("/proc/%d/fd/%s" %
                                                         (m.server.pid, name)))
        own |= {found[1]} if found else set()
    with netns.inside(m.pair.server):
        with open("/proc/thread-self/net/netlink", encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
    return [int(row[2]) for row in rows if row[1] == "0" and row[9] in own]


def tell(m, port, user):
    """News that 10.77.0.1 is gone, from a process of this user: 0, or the error."""
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
def news_of_others_than_the_kernel():
    with Changing() as m:
        m.asked("10.77.0.1", "before")
        ports = listeners(m)
        tap.ok(ports, "the server listens to the kernel's news")
        tap.is_([tell(m, port, 65534) for port in ports], [errno.EPERM] * len(ports),
                "another user cannot send it any")
        tap.is_([tell(m, port, 0) for port in ports], [0] * len(ports), "root can")
        m.ip("address add 10.77.0.9/24 dev sv0")
        m.becomes("and is not believed, unlike the kernel", addresses_ipv4=3)
        m.asked("10.77.0.1", "the address is still ours")


tap.run()
