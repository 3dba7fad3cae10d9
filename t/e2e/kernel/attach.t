#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""To which interfaces the kernel path attaches, in which mode, and the messages for those that
refuse."""
import errno
import os
import re
import sys

import child
import client
import guard
import kernel
import netns
import server
import tap
from kernel import answer


class Ground:
    """Two machines; the tests start the server themselves."""

    def __init__(self, links=1):
        self.pair = netns.Pair(links)
        netns.enter(self.pair.client)

    def sh(self, text, **names):
        for line in text.strip().splitlines():
            netns.sh(*line.format(**names).split(), namespace=self.pair.server)

    def start(self, words, *arguments, listen="0.0.0.0", host=None, **options):
        return server.Server("-X", words, *arguments, namespace=self.pair.server,
                             host=host or self.pair.address(), listen=listen, **options)

    def refused(self, words, say, name, prefix=(), listen="0.0.0.0"):
        """The start fails with a line that has the reason, and leaves nothing on sv0."""
        port = server.free_port(self.pair.server)
        status, _, error = server.run("-p", port, "-U", port, "-l", listen, "-X", words,
                                      namespace=self.pair.server, prefix=prefix)
        tap.ok(status is not None and 0 < status < 128, "%s: status %s" % (name, status))
        tap.like(error, say, "%s: the message has the reason" % name)

    def attached(self):
        """The interfaces that have a program of ours."""
        names = re.findall(r"^\d+: ([^:@]+)", netns.ip("link", self.pair.server),
                           re.M)
        return {name for name in names if netns.xdp_mode(name, self.pair.server)
                or netns.tc_programs(name, self.pair.server)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pair.close()


def served(machine, host, name):
    """Checks that the kernel answers a get to this address."""
    kernel.meet(host, machine.port)
    for _ in kernel.PAUSES[:kernel.TRIES]:
        before = machine.stats("bmc")
        udp = client.Udp(host, machine.port)
        got = udp.ask(b"get k\r\n")
        udp.close()
        after = machine.stats("bmc")
        grown = {key: int(after[key]) - int(before[key])
                 for key in ("answered_xdp", "answered_tc") + kernel.MOMENTARY}
        if not any(grown[key] for key in kernel.MOMENTARY):
            break
    tap.is_(got, answer((b"k", b"v")), "%s: a get is answered" % name)
    tap.is_(grown["answered_xdp"] + grown["answered_tc"], 1, "%s: the kernel answers it" % name)


def stored(machine):
    control = machine.stream()
    control.set(b"k", b"v")


def lines(machine):
    return [line for line in machine.log().splitlines() if line.startswith("bmc")]


@tap.case
def several_interfaces():
    with Ground(links=3) as ground:
        with ground.start("bmc=sv0,bmc=sv1") as machine:
            stored(machine)
            served(machine, "10.77.0.1", "the first of two interfaces")
            served(machine, "10.77.1.1", "the second")
            tap.is_(ground.attached(), {"sv0", "sv1"}, "the third interface has no program")
            tap.is_(machine.stats("bmc")["interfaces"], "2", "`stats bmc` shows two interfaces")
        tap.is_(ground.attached(), set(), "both interfaces are free after the server's end")
        with ground.start("bmc=sv0,mode=native,optional", "-o", "bmc=sv2") as machine:
            stored(machine)
            served(machine, "10.77.2.1", "an interface of -o beside one of -X")


@tap.case
def other_names():
    """An interface may have several names."""
    with Ground(links=2) as ground:
        ground.sh("ip link property add dev sv0 altname front")
        with ground.start("bmc=front,bmc=sv0,bmc=sv1", "-v", host="10.77.1.1") as machine:
            tap.is_(machine.stats("bmc")["interfaces"], "2",
                    "two names of one interface are one interface")
            stored(machine)
            served(machine, "10.77.0.1", "an interface with two names")
            ground.sh("ip link del sv0")
            tap.ok(server.wait_for(lambda: machine.stats("bmc")["sv0:state"] == "gone"),
                   "an interface that is removed is gone")
            os.close(ground.pair.passes.pop(0))
            ground.pair.add_link(0)
            tap.ok(server.wait_for(lambda: machine.stats("bmc")["sv0:state"] == "up"),
                   "it is attached again when it exists again without the other name")
            tap.ok("was renamed" not in machine.log(), "no renaming is logged")
            tap.is_(server.logged(machine, "answering for 3 IPv4", 2), 2,
                    "with -v each change of the addresses is logged once")


@tap.case
def automatic():
    with Ground(links=2) as ground:
        with ground.start("bmc=auto") as machine:
            stored(machine)
            tap.is_(ground.attached(), {"sv0", "sv1"},
                    "auto attaches to the interfaces that have an address, without lo")
            served(machine, "10.77.1.1", "auto")
        with ground.start("bmc=auto", listen="10.77.1.1", host="10.77.1.1") as machine:
            stored(machine)
            tap.is_(ground.attached(), {"sv1"},
                    "auto attaches to the interface that has the address of -l")
            served(machine, "10.77.1.1", "auto with -l")
        with ground.start("bmc=auto,bmc=lo", listen="10.77.1.1", host="10.77.1.1"):
            tap.is_(ground.attached(), {"lo", "sv1"}, "auto attaches to the named interfaces, too")
        port = server.free_port(ground.pair.server)
        with netns.inside(ground.pair.server):
            for address in ("127.0.0.1", "127.0.0.5", "::1"):
                with ground.start("bmc=auto", listen=address, host=address, port=port):
                    tap.is_(ground.attached(), {"lo"},
                            "auto attaches to lo for a server on " + address)
        with ground.start("bmc=auto", listen="fd77:1::1", host="fd77:1::1"):
            tap.is_(ground.attached(), {"sv1"},
                    "auto attaches to the interface that has an IPv6 address of -l")
        ground.sh("ip link set sv1 down")
        with ground.start("bmc=auto"):
            tap.is_(ground.attached(), {"sv0"}, "auto leaves out an interface that is down")


@tap.case
def more_interfaces_than_it_takes():
    with Ground(links=18) as ground:
        with ground.start("bmc=auto") as machine:
            tap.is_(machine.stats("bmc")["interfaces"], "16",
                    "auto attaches to 16 interfaces at most")
            tap.like(machine.log(), "(?m)^bmc: sv16: there are more than 16 interfaces; the server",
                     "the log names an interface that is too many")
            stored(machine)
            udp = client.Udp("10.77.17.1", machine.port)
            tap.is_(udp.get(b"k"), b"v", "the server answers on that interface")


@tap.case
def automatic_where_one_refuses():
    with Ground(links=2) as ground:
        foreign = netns.attach_pass("sv1", ground.pair.server)
        before = netns.link("sv1", ground.pair.server)["xdp"]["prog"]["id"]
        with ground.start("bmc=auto") as machine:
            stored(machine)
            served(machine, "10.77.0.1", "auto, where another interface refuses")
            tap.like(machine.log(),
                     "(?m)^bmc: sv1: another XDP program .*; the server answers there$",
                     "the log has the reason of the interface that refuses")
            tap.is_(machine.stats("bmc")["interfaces"], "1",
                    "an interface that refuses is not counted")
            tap.is_(netns.tc_programs("sv1", ground.pair.server), [], "it has no program of ours")
        tap.is_(netns.link("sv1", ground.pair.server)["xdp"]["prog"]["id"], before,
                "the other program stays")
        ground.refused("bmc=auto", "sv1: another XDP program", "auto, where all interfaces refuse",
                       listen="10.77.1.1")
        ground.sh("ip route add local 10.99.0.0/24 dev lo")
        ground.refused("bmc=auto", "no interface has", "auto, where no interface has the address",
                       listen="10.99.0.1")
        ground.refused("bmc=auto,bmc=sv1", "^bmc: sv1: another XDP program",
                       "auto beside a named interface that refuses")
        tap.is_(netns.xdp_mode("sv0", ground.pair.server), None,
                "a failed start leaves nothing attached")
        os.close(foreign)


@tap.case
def kinds_of_interfaces():
    with Ground() as ground:
        ground.sh("""
            ip link add mv0 link sv0 type macvlan mode bridge
            ip address add 10.76.0.9/24 dev mv0
            ip link set mv0 up
            ip link add br0 type bridge
            ip link set br0 up
            ip tuntap add tap0 mode tap
            ip tuntap add tun0 mode tun
            ip link add ifb9 type ifb
        """)
        # cl0's neighbours take sv0's MAC address for mv0's: sv0 answers for it, too.
        mac = netns.link("mv0", ground.pair.server)["address"]
        for words in ("address add 10.76.0.2/24 dev cl0",
                      "neigh replace 10.76.0.9 lladdr %s dev cl0" % mac):
            netns.sh("ip", *words.split(), namespace=ground.pair.client)
        with ground.start("bmc=mv0") as machine:
            stored(machine)
            served(machine, "10.76.0.9", "a macvlan")
            tap.is_(lines(machine), [
                "bmc: mv0: XDP generic, TC ingress (tcx)",
                "bmc: mv0: Linux answers ARP for its addresses on sv0 as well: requests that come "
                "there the server answers alone, unless you add bmc=sv0 or set "
                "net.ipv4.conf.sv0.arp_ignore=1"],
                    "a macvlan gets generic XDP, and the log says so, and what is missing")
        with ground.start("bmc=br0") as machine:
            tap.like(machine.log(), "^bmc: br0: XDP generic", "a bridge gets generic XDP")
        with ground.start("bmc=tap0") as machine:
            tap.like(machine.log(), "(?m)^bmc: tap0: XDP native", "a tap gets native XDP")
        with ground.start("bmc=ifb9") as machine:
            tap.like(machine.log(), "(?m)^bmc: ifb9: the interface is down",
                     "the log says of an interface that it is down")
        for mode in ("auto", "skb", "native", "tc"):
            ground.refused("bmc=tun0,mode=" + mode, "^bmc: tun0: .*no Ethernet header",
                           "an interface without Ethernet, mode=" + mode)
        with ground.start("bmc=tun0,bmc=sv0,optional") as machine:
            tap.is_(machine.stats("bmc")["bmc_enabled"], "no",
                    "with `optional` the server starts without the kernel path")


FEW_QUEUES = """
ip link add qa numrxqueues 1 numtxqueues 1 type veth peer name qb numrxqueues 4 numtxqueues 4
ip link set qa up
ip link set qb up
"""


@tap.case
def drivers_that_refuse():
    with Ground() as ground:
        ground.sh(FEW_QUEUES)
        reason = r"qa: its driver \(veth\) refuses native XDP: .*queues; .*`ethtool -L qa rx N`"
        ground.refused("bmc=qa,mode=native", "^bmc: " + reason,
                       "a veth with too few queues refuses native XDP")
        peer = netns.attach_pass("qb", ground.pair.server)
        with ground.start("bmc=qa") as machine:
            tap.like(machine.log(), "(?m)^bmc: %s.*\nbmc: qa: XDP generic" % reason,
                     "without mode=native the log has the same reason, and then generic XDP")
        os.close(peer)
        ground.refused("bmc=lo,mode=native", "lo: its driver has no XDP; leave out mode=native",
                       "lo has no native XDP")
        tap.is_(netns.xdp_mode("qa", ground.pair.server), None,
                "finding the reason leaves nothing attached")


@tap.case
def missing_rights():
    drop = ["setpriv", "--bounding-set"]
    with Ground() as ground:
        for gone, want in (("-bpf,-sys_admin", "CAP_BPF"), ("-net_admin,-sys_admin",
                                                            "CAP_NET_ADMIN")):
            ground.refused("bmc=sv0", "the bounding set lacks [A-Z_, ]*%s" % want, "no %s" % want,
                           prefix=drop + [gone])
        ground.refused("bmc=lo", "user namespace", "root of a user namespace",
                       prefix=["unshare", "--user", "--map-root-user"])
        with ground.start("bmc=sv0,optional", prefix=drop + ["-bpf,-sys_admin"]) as machine:
            stats = machine.stats("bmc")
            tap.is_(stats["bmc_enabled"], "no", "with `optional` `stats bmc` says no")
            tap.like(stats["reason"], "CAP_BPF", "`stats bmc` has the reason")
            tap.is_(len(stats), 2, "`stats bmc` has nothing else")
        with ground.start("bmc=sv9,optional") as machine:
            tap.like(machine.stats("bmc")["reason"], "there is no interface sv9",
                     "with `optional` `stats bmc` has the reason for a missing interface")


@tap.case
def what_the_verifier_says():
    """Without CAP_PERFMON it refuses what the programs do with addresses."""
    folder, lacks = guard.scratch(), "the bounding set lacks CAP_PERFMON"
    log, link, other = (os.path.join(folder, name) for name in ("log", "link", "other"))
    os.symlink(other, link)
    with Ground() as ground:
        for name, say in ((log, lacks), (link, lacks + ".*; BPF_LOG=%s: " % link)):
            ground.refused("bmc=sv0", say, "BPF_LOG=%s" % os.path.basename(name),
                           prefix=["env", "BPF_LOG=" + name, "setpriv", "--bounding-set",
                                   "-perfmon,-sys_admin"])
    with open(log, encoding="utf-8") as file:
        text = file.read()
    tap.like(text, r"(?m)^\d+: \([0-9a-f]{2}\) .*\n(.*\n)+processed \d+ insns",
             "BPF_LOG has all of it: each instruction, and what was counted")
    tap.ok(not os.path.exists(other), "it is not written through a symbolic link")


# Starts a program behind a seccomp(2) filter that refuses bpf(2), as many containers have it.
DENIED = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = b"".join(struct.pack("HBBI", *words) for words in (
    (0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (0x06, 0, 0, 0x50000 | int(sys.argv[2])),
    (0x06, 0, 0, 0x7fff0000)))
code = ctypes.create_string_buffer(code, len(code))
program = struct.pack("HxxxxxxQ", 4, ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0 # PR_SET_SECCOMP
os.execvp(sys.argv[3], sys.argv[3:])
"""


@tap.case
def containers_that_forbid_it():
    with Ground() as ground:
        for error in errno.EPERM, errno.ENOSYS:
            prefix = [sys.executable, "-c", DENIED, str(netns.BPF_CALL), str(error)]
            ground.refused("bmc=sv0", r"(?m)^bmc: a seccomp filter forbids bpf\(2\) \(%s\): " %
                           os.strerror(error), os.strerror(error), prefix=prefix)
        with ground.start("bmc=sv0,optional", prefix=prefix) as machine:
            stored(machine)
            tap.is_(machine.udp().get(b"k"), b"v",
                    "with `optional` the server serves without the kernel path")


@tap.case
def programs_of_others():
    with Ground() as ground:
        foreign = netns.attach_pass("sv0", ground.pair.server)
        with ground.start("bmc=sv0,optional") as machine:
            stored(machine)
            udp = client.Udp("10.77.0.1", machine.port)
            tap.is_(udp.get(b"k"), b"v", "with `optional` the server serves beside another program")
            stats = machine.stats("bmc")
            tap.is_((stats["bmc_enabled"], "reason" in stats), ("no", True),
                    "`stats bmc` says that the kernel path is off, and why")
        os.close(foreign)


def capabilities(machine):
    """Of each thread: effective, permitted, inheritable, ambient, bounding."""
    found = [dict(re.findall(r"^Cap(\w+):\s*(\w+)", text, re.M))
             for text in child.of_threads(machine.pid, "status").values()]
    return {tuple(int(row[key], 16) for key in ("Eff", "Prm", "Inh", "Amb", "Bnd"))
            for row in found}


def keeps(machine, kept, name):
    """Each thread has these capabilities, and no other may be had any more."""
    want = {(kept, kept, 0, 0, 0)}
    server.wait_for(lambda: capabilities(machine) == want)
    tap.is_(capabilities(machine), want, name)


@tap.case
def capabilities_that_are_kept():
    bpf, net_admin = 1 << 39, 1 << 12
    with Ground() as ground:
        with ground.start("bmc=sv0") as machine:
            keeps(machine, bpf, "every thread of a server whose memory may grow has CAP_BPF and "
                  "nothing else")
        both = bpf | net_admin
        for word in "tcp=on", "mode=chain":
            with ground.start("bmc=sv0," + word) as machine:
                keeps(machine, bpf if "(tcx)" in machine.log() else both,
                      "with %s it has no more than its programs on TC need" % word)
        full = netns.fill_tcx("sv0", ground.pair.server)
        for word in "tcp=on", "mode=chain":
            with ground.start("bmc=sv0," + word) as machine:
                keeps(machine, both, "with %s CAP_NET_ADMIN where one of them is a filter" % word)
        for link in full:
            os.close(link)
        with ground.start("bmc=sv9,optional") as machine:
            keeps(machine, 0, "a server without the kernel path has no capabilities")


tap.run()
