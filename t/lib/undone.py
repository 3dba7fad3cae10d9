# SPDX-License-Identifier: BSD-3-Clause
"""undone: connections in mid-run while something happens to what carries their segments, each time
with tcp=on and, for comparison, with a server without -X. The clients are kernel sockets that know
every byte of every reply (t/tool/tcpcheck)."""
import contextlib
import re

import cable
import lostway
import netns
import server
import tap
import tcpcheck

WAYS = lostway.WAYS
CONNECTIONS = 40
MIX = ("--odd", 0.1, "--big", 0.05, "--single", 0.6)
ENOUGH = 20 # operations of each connection
HANG = 20 * tap.SLOW # seconds without a byte
NOTHING = {"wrong": 0, "broken": 0, "hangs": 0}


class Load(tcpcheck.Running):
    """Connections that ask until they are told to end."""

    def __init__(self, m, *words, connections=CONNECTIONS):
        self.m, self.connections = m, connections
        super().__init__(m.address(), m.port, "--connections", connections, *(words or MIX))

    def _gets(self):
        return int(self.m.control.stats()["cmd_get"])

    def goes_on(self, n=ENOUGH, answered=False):
        """Waits until each connection has got so many replies more, on average; answered: so many
        of the kernel. False: they do not come."""
        def count():
            return self.m.count("tcp_answered") if answered else self._gets()

        least = count() + n * self.connections
        return server.wait_for(lambda: count() >= least or not self.alive())

    def warms_up(self):
        """The kernel has answered on most connections, if the server has it."""
        found = self.goes_on()
        return found and (not self.m.kernel_path or self.goes_on(ENOUGH // 2, True))


# --- how long something lasts ----------------------------------------------------------------

def _backoffs(m, near):
    """Of the connections that are established at the client's machine (near) or open at the
    server's, by the client's port, how often the sender there has repeated in vain what it sent:
    after 0.2, 0.6, 1.4 seconds."""
    words = ("state", "established", "dport") if near else ("state", "connected", "sport")
    found = netns.sh("ss", "-tinHO", *words, "=", ":%d" % m.port,
                     namespace=m.pair.client if near else m.pair.server)
    backoffs = {}
    for line in found.splitlines():
        ends = re.search(r"(\S+):(\d+)\s+(\S+):(\d+)(?!\S)", line)
        if ends[3 if near else 1].strip("[]") == m.address():
            repeated = re.search(r"backoff:(\d+)", line)
            backoffs[ends[2 if near else 4]] = int(repeated[1]) if repeated else 0
    return backoffs


def are_silent(m):
    """Whether on most of the client's connections one of both ends, which waits for the other, has
    repeated twice in vain what it sent, or they are gone."""
    near, far = _backoffs(m, True), _backoffs(m, False)
    silent = [port for port, n in near.items() if max(n, far.get(port, 0)) >= 2]
    return 4 * len(silent) >= 3 * len(near)


def until_silent(m):
    return server.wait_for(lambda: are_silent(m), 10, 0.05) # none hangs by then


def for_a_second(m):
    """One to two, by the server's clock."""
    def uptime():
        return int(m.control.stats()["uptime"])
    least = uptime() + 2
    return server.wait_for(lambda: uptime() >= least, every=0.05)


def sent_by(namespace, interface, n):
    """Until an interface has sent so many packets more."""
    def packets():
        with netns.inside(namespace), \
                open("/proc/thread-self/net/dev", encoding="ascii") as file:
            return int(re.search(r"\b%s:(.*)" % interface, file.read())[1].split()[9])
    least = packets() + n
    return server.wait_for(lambda: packets() >= least)


def at_home(m, command):
    """The answer to a connection from the server's machine."""
    with netns.inside(m.pair.server):
        own = m.stream()
    with contextlib.closing(own):
        return own.ask(command)


def moves_for_a_moment(m, interface, n):
    """The route to the client, to another interface, until this has sent so many packets."""
    family, host = ("-6", "fd77:0::2/128") if m.v6 else ("-4", "10.77.0.2/32")
    m.server_ip(family, "route", "replace", host, "dev", interface, "src", m.address())
    lasted = sent_by(m.pair.server, interface, n)
    m.server_ip(family, "route", "del", host, "dev", interface)
    return lasted


# --- rows ------------------------------------------------------------------------------------

class Switched(cable.Pair):
    """sv0, sv2 and cl0 are at one switch; the second link, as that of any pair, is the control's.
    A server whose route is by sv2 is known to its client by the MAC address of that."""

    def __init__(self):
        super().__init__(links=2)
        # Or sv2 answers for sv0's address, too, which Linux does by default.
        netns.sh("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", namespace=self.server)

    def plug(self, i=0, *_):
        words = ["link add br%d type bridge" % i, "link set br%d up" % i]
        if i == 0:
            words += ["link add ms2 type veth peer name sv2 netns " + self.server,
                      "link set ms2 up", "link set ms2 master br0"]
        for line in words + ["link set m%s%d master br%d" % (end, i, i) for end in "sc"]:
            netns.ip(line, self.middle)
        if i == 0:
            netns.offloads_off("ms2", self.middle)
            netns.ip("link set sv2 up", self.server)
            netns.offloads_off("sv2", self.server)

    def unplug(self, i=0):
        """It has no cable."""


def equally(name, want, function, *bmc, options=(), pair=None, most=None):
    """What function returns of a lostway.Machine, which is the same whether the server has the
    kernel path or not. bmc: further words of -X; pair: makes the machines; most: how many at a
    time."""
    def one(way):
        kernel_path, v6 = way
        with lostway.Machine(*bmc, v6=v6, options=options, kernel_path=kernel_path,
                             pair=pair and pair()) as m:
            return function(m)

    ways = [(kernel_path, v6) for v6 in (False, True) for kernel_path in (False, True)]
    for (kernel_path, v6), found in zip(ways, tap.at_once(one, ways, most)):
        tap.is_(found, want, "IPv%d, %s, %s" % (6 if v6 else 4, name, "with tcp=on" if kernel_path
                                                else "without -X"))


def mid_run(name, happens, *words, bmc=(), pair=None):
    """Something happens to connections in mid-run: happens(m, load), which returns when it is over,
    or what is wrong; False: it did not last as long as it was to. None of them notices. words: of
    tcpcheck; bmc: further words of -X."""
    def run(m):
        load = Load(m, *words)
        warm = load.warms_up()
        lasted = happens(m, load)
        after = load.goes_on()
        found = load.ends()
        tap.diag(load.log())
        tap.diag("%s: %s" % (m.named("with tcp=on" if m.kernel_path else "without -X"), found))
        if m.kernel_path:
            rows = m.control.stats("bmc")
            tap.diag({key: n for key, n in rows.items() if key.startswith("tcp_") and n != "0"})
        return {"warm": warm, "lasted": lasted is None or lasted, "after": after,
                **{key: found.get(key) for key in NOTHING}}

    equally(name, {"warm": True, "lasted": True, "after": True, **NOTHING}, run, *bmc,
            pair=pair)
