#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: all
"""No connection is worse off with tcp=on than without it, whatever happens to what carries its
segments: what happens to dozens of connections in mid-run happens to those of a server without -X
as well, and neither is reset, hangs or gets a wrong byte."""
import contextlib
import socket

import asking
import kernel
import netns
import segments
import server
import tap
import undone
from lostway import BIG, Talk, cut, cut_xdp, slow_reader
from segments import ACK, FIN, PSH, RST, SYN
from undone import at_home, equally, mid_run


# --- output that stays away ------------------------------------------------------------------

def tables(*rules):
    """Rules of the server's machine, in a chain for what comes and one for what leaves."""
    text = "add table inet t;"
    for hook in "input", "output":
        text += "add chain inet t %s { type filter hook %s priority 0; };" % (hook, hook)
    return text + "".join("add rule inet t %s;" % rule for rule in rules)


@contextlib.contextmanager
def firewall(m, *rules):
    netns.sh("nft", tables(*rules), namespace=m.pair.server)
    try:
        yield
    finally:
        netns.sh("nft", "delete table inet t", namespace=m.pair.server)


@tap.case
def a_firewall_drops_output():
    def happens(m, _load):
        with firewall(m, "output oifname sv0 tcp sport %d drop" % m.port):
            return undone.until_silent(m)
    mid_run("output is dropped for 0.6 s", happens)


@tap.case
def there_is_no_route():
    def happens(m, _load):
        where = ("-6", "route"), ("fd77:0::2/128",)
        where = where if m.v6 else (("-4", "route"), ("10.77.0.2/32",))
        m.server_ip(*where[0], "replace", "unreachable", *where[1])
        lasted = undone.until_silent(m)
        m.server_ip(*where[0], "del", "unreachable", *where[1])
        return lasted
    mid_run("no route for 0.6 s", happens)


@tap.case
def the_neighbour_is_silent():
    """The client does not say who has its address."""
    def happens(m, _load):
        if m.v6:
            netns.sh("nft", "add table inet t; add chain inet t c { type filter hook input "
                     "priority 0; }; add rule inet t c iifname cl0 icmpv6 type "
                     "nd-neighbor-solicit drop", namespace=m.pair.client)
        else:
            netns.sh("sysctl", "-qw", "net.ipv4.conf.cl0.arp_ignore=8", namespace=m.pair.client)
        m.server_ip("-6" if m.v6 else "-4", "neigh", "flush", "dev", "sv0")
        lasted = undone.until_silent(m)
        if m.v6:
            netns.sh("nft", "delete table inet t", namespace=m.pair.client)
        else:
            netns.sh("sysctl", "-qw", "net.ipv4.conf.cl0.arp_ignore=0", namespace=m.pair.client)
        return lasted
    mid_run("the neighbour is silent", happens)


@tap.case
def the_interface_is_down():
    def happens(m, _load):
        netns.sh("sysctl", "-qw", "net.ipv6.conf.all.keep_addr_on_down=1",
                 namespace=m.pair.server)
        m.server_ip("link", "set", "sv0", "down")
        lasted = undone.for_a_second(m)
        m.server_ip("link", "set", "sv0", "up")
        return lasted
    mid_run("the interface is down for a second", happens)


# --- another way -----------------------------------------------------------------------------

LARGE = ("--big", 0.5, "--odd", 0.1, "--single", 0.2, "--get-share", 0.9)


@tap.case
def the_route_moves_for_good():
    """To an interface that is not named, while replies of up to 1 MB are on their way."""
    for out, into, name in undone.WAYS:
        mid_run("%s take another interface" % name, lambda m, _load, out=out, into=into:
                m.move(out, into), *LARGE)


def privileged():
    """The port is one that only root may bind."""
    pair = netns.Pair(2)
    netns.sh("sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=32768", namespace=pair.server)
    return pair


@tap.case
def the_route_moves_and_the_port_is_privileged():
    mid_run("both take another interface, the port is privileged", lambda m, _load:
            m.move(True, True), pair=privileged)


@tap.case
def the_route_moves_for_a_moment():
    """To an interface of the same subnet: the client learns its MAC address and keeps it."""
    mid_run("the route moves for a moment within a subnet", lambda m, _load:
            undone.moves_for_a_moment(m, "sv2", 20), pair=undone.Switched)


@tap.case
def the_route_flaps():
    def happens(m, _load):
        lasted = True
        for i in range(12):
            link = 1 - i % 2
            m.leave_by(link)
            if i % 3 == 0:
                m.come_by(link)
            lasted &= undone.sent_by(m.pair.server, "sv%d" % link, 20)
        m.move_back()
        return lasted
    mid_run("the route flaps", happens)


def dials_again(m):
    """A port whose connection has ended is used again by an interface that is not named; then the
    route moves to the one that is."""
    talk = m.talks(1)[0]
    at, before = talk.c.sock.getsockname()[:2], m.connections()
    talk.c.sock.setsockopt(*asking.RESET)
    talk.c.close()
    if not server.wait_for(lambda: m.connections() == before - 1):
        return "the server does not end the connection"
    m.move(True, True)
    again = Talk(m, 9, source=at[1], at=at[0])
    again.gets()
    again.incr()
    m.move_back()
    for _ in range(4):
        again.gets()
        again.incr()
    found = again.end, again.is_counted_once(m.control)
    again.c.close()
    return found


@tap.case
def a_port_is_used_again_by_another_way():
    equally("a port that dials again by another interface", (None, True), dials_again)


# --- the stack and the firewall see a live connection ----------------------------------------

REFRESH = ("refresh=1",)


def after_a_spell_of_gets(m):
    """conntrack forgets an established connection of which it sees nothing for three seconds, and
    the firewall then drops its segments."""
    netns.sh("sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_timeout_established=3",
             namespace=m.pair.server)
    with firewall(m, "input iifname sv0 meta l4proto ipv6-icmp accept",
                  "input iifname sv0 ct state established accept",
                  "input iifname sv0 tcp flags & (fin|syn|rst|ack) == syn ct state new accept",
                  "input iifname sv0 drop"):
        talk = m.talks(1)[0]
        start = int(m.control.stats()["uptime"])
        while talk.gets(50) and int(m.control.stats()["uptime"]) < start + 6:
            pass
        talk.incr()
    talk.c.close()
    return talk.end


@tap.case
def conntrack_knows_a_connection_that_only_gets():
    equally("a spell of gets, longer than conntrack's timeout, and an incr", None,
            after_a_spell_of_gets, *REFRESH)


def gets_while_dropped(m):
    """Whether gets of an established client stop when a rule drops it, and go on when that is
    gone."""
    talk = m.talks(1)[0]
    port, found = talk.c.sock.getsockname()[1], "goes on"
    with firewall(m, "input tcp sport %d drop" % port):
        start = int(m.control.stats()["uptime"])
        talk.c.sock.settimeout(2 * tap.SLOW)
        while found == "goes on" and int(m.control.stats()["uptime"]) < start + 6:
            if not talk.gets(50):
                found = "stops" if talk.end == "hang" else talk.end
    if found == "stops":
        talk.c.sock.settimeout(undone.HANG)
        talk.end = None
        talk.ask(b"", b"END\r\n")
        talk.incr()
    talk.c.close()
    return found, talk.end


@tap.case
def a_rule_against_an_established_client():
    equally("gets of a client that a new rule drops", ("stops", None), gets_while_dropped,
            *REFRESH)


def strict():
    """A pair whose server's machine drops what conntrack calls invalid."""
    pair = netns.Pair(2)
    netns.sh("nft", tables("input ct state invalid counter drop",
                           "output ct state invalid counter drop"), namespace=pair.server)
    return pair


def undone_meanwhile(m, load, key):
    """Until many connections are undone, and have gone on."""
    done = not m.kernel_path or server.wait_for(
        lambda: m.count("tcp_undone_" + key) >= load.connections // 4)
    return done and load.goes_on()


@tap.case
def conntrack_calls_segments_invalid():
    """What it has seen of a connection until that is undone are other numbers."""
    def moves(out, into):
        def happens(m, load):
            m.move(out, into)
            return undone_meanwhile(m, load, "lost")
        return happens

    def off(m, load):
        return (not m.kernel_path or at_home(m, b"bmc off\r\n") == b"OK\r\n") and \
            undone_meanwhile(m, load, "off")

    for out, into, name in undone.WAYS:
        mid_run("what is invalid is dropped, %s take another interface" % name, moves(out, into),
                pair=strict)
    mid_run("what is invalid is dropped, off", off, "--odd", 0, pair=strict)


# --- programs and interfaces -----------------------------------------------------------------

def is_given_up(m):
    return m.control.stats("bmc").get("sv0:state") == "given_up"


def detached_for_good(m, detach, is_there):
    """Until the server leaves it at that."""
    def over():
        if is_there(m):
            detach(m)
        return is_given_up(m)
    return not m.kernel_path or server.wait_for(over)


def detach_xdp(m):
    with contextlib.suppress(RuntimeError): # Linux refuses it where a link holds the program
        m.server_ip("link", "set", "sv0", "xdp", "off")
    cut_xdp(m)


def has_tc(m):
    return netns.tc_programs("sv0", m.pair.server)


def has_xdp(m):
    return netns.xdp_mode("sv0", m.pair.server)


@tap.case
def programs_are_detached():
    for hooks in ("egress",), ("ingress",), ("ingress", "egress"):
        mid_run("TC %s is detached" % " and ".join(hooks), lambda m, _load, hooks=hooks:
                cut(m, hooks) if m.kernel_path else None)
    mid_run("XDP is detached", lambda m, _load: detach_xdp(m) if m.kernel_path else None)
    mid_run("XDP and TC are detached for good", lambda m, _load: detached_for_good(
        m, lambda m: cut(m, ("ingress", "egress")) if has_tc(m) else cut_xdp(m),
        lambda m: has_tc(m) or has_xdp(m)))


@tap.case
def filters_are_deleted():
    """Where TC has no room for links the programs are filters."""
    def full():
        pair = netns.Pair(2)
        for hook in "ingress", "egress":
            pair.passes += netns.fill_tcx("sv0", pair.server, hook)
        return pair

    def happens(m, _load):
        def delete(m):
            for hook in "ingress", "egress":
                with contextlib.suppress(RuntimeError): # none is there
                    netns.sh("tc", "filter", "del", "dev", "sv0", hook, namespace=m.pair.server)

        for _ in range(3):
            delete(m)
        return True
    mid_run("TC filters are deleted", happens, pair=full)


@tap.case
def the_interface_is_made_again():
    def happens(m, _load):
        netns.ip("link del sv0", m.pair.server)
        lasted = undone.for_a_second(m)
        m.pair.add_link(0)
        return lasted
    mid_run("the interface is deleted and made again", happens, "--odd", 0) # none dials meanwhile


# --- off and on ------------------------------------------------------------------------------

@tap.case
def off_and_on():
    def happens(m, load):
        done = True
        for _ in range(3 if m.kernel_path else 0):
            done &= at_home(m, b"bmc off\r\n") == b"OK\r\n" and load.goes_on(2)
            done &= at_home(m, b"bmc on\r\n") == b"OK\r\n" and load.goes_on(2, True)
        return done
    mid_run("off and on three times", happens)


@tap.case
def off_and_another_way():
    """When it is off no connection needs the programs."""
    def happens(m, _load):
        if m.kernel_path and at_home(m, b"bmc off\r\n") != b"OK\r\n":
            return False
        m.move(True, True)
        return True
    mid_run("off, and then the route moves", happens)


# --- SIGTERM ---------------------------------------------------------------------------------

@contextlib.contextmanager
def deaf(m):
    """The client gets nothing of the server's by the first link."""
    netns.sh("nft", "add table inet t; add chain inet t c { type filter hook input priority 0; };"
             "add rule inet t c iifname cl0 tcp sport %d drop" % m.port, namespace=m.pair.client)
    try:
        yield
    finally:
        netns.sh("nft", "delete table inet t", namespace=m.pair.client)


MIDDLE = bytes(i * 5 % 241 for i in range(9000)) # of which a socket takes all at once
ASKED = ((b"get none\r\n", b"END\r\n"), (b"get small\r\n", kernel.answer((b"small", b"x" * 700))),
         (b"get middle\r\n", kernel.answer((b"middle", MIDDLE))),
         (b"get middle small none\r\n",
          kernel.answer((b"middle", MIDDLE), (b"small", b"x" * 700))))


def replies_on_their_way(m):
    """How connections end whose client has not got the replies yet when the server ends."""
    m.control.set(b"small", b"x" * 700)
    m.control.set(b"middle", MIDDLE)
    talks = m.talks(8)
    before = int(m.control.stats()["cmd_get"])
    with deaf(m):
        for i, talk in enumerate(talks):
            talk.c.send(ASKED[i % len(ASKED)][0])
        asked = sum(len(ASKED[i % len(ASKED)][0].split()) - 1 for i in range(len(talks)))
        if not server.wait_for(lambda: int(m.control.stats()["cmd_get"]) >= before + asked):
            return "requests do not come"
        m.stop()
    found = []
    for i, talk in enumerate(talks):
        talk.ask(b"", ASKED[i % len(ASKED)][1])
        talk.await_end()
        found.append(talk.end)
        talk.c.close()
    return found


def values_on_their_way(m):
    """Idle ones, ones whose client reads slowly, and ones in the middle of a set."""
    idle, readers, writers = m.talks(4), m.talks(4, 4), m.talks(4, 8)
    begins = [slow_reader(m, talk) for talk in readers]
    for talk in writers:
        talk.c.send(b"set half 0 0 1000\r\n" + b"x" * 500)
    m.stop()
    for talk in idle + writers:
        talk.await_end()
    want = kernel.answer((b"big", BIG))
    for talk, begin in zip(readers, begins):
        at = len(begin)
        while talk.ask(b"", want[at:at + 100]):
            at += 100
    for talk in idle + readers + writers:
        talk.c.close()
    return [talk.end for talk in idle + readers + writers]


@tap.case
def the_server_ends():
    equally("SIGTERM while replies are on their way", ["end"] * 8, replies_on_their_way)
    equally("SIGTERM, idle, in the middle of a value, of a set", ["end"] * 12,
            values_on_their_way)


# --- segments of others ----------------------------------------------------------------------

PORTS = range(40000, 40512) # of the client


def ip6(source, to, body):
    return b"\x60\0\0\0" + len(body).to_bytes(2, "big") + b"\x06\x40" + \
        socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to) + body


FORGED = {"SYN-ACK": (SYN | ACK, b"", b""),
          "reply": (ACK | PSH, b"END\r\n", segments.stamps(1, 1)),
          "reset": (RST | ACK, b"", b""), "end": (FIN | ACK, b"", b"")}


def forged(m, kind):
    """As of the server's, to each port of the client, with numbers far from its own."""
    to = "fd77:0::2" if m.v6 else "10.77.0.2"
    flags, text, options = FORGED[kind]
    for port in PORTS:
        ends = (m.address(), m.port), (to, port)
        for seq in 0, 1 << 31:
            body = segments.tcp(*ends, seq, seq, flags, text, options=options, v6=m.v6)
            yield (ip6 if m.v6 else segments.ip4)(ends[0][0], to, body)


@contextlib.contextmanager
def neighbour(m, interface, *link):
    """Another network namespace, which has this interface: `ip link add` with these words, of
    which NAME is the namespace."""
    name = m.pair.server[:-1] + "n"
    netns.ip("netns add " + name)
    netns.guard.add("netns", name)
    netns.sh("ip", "link", "add", *(name if word == "NAME" else word for word in link),
             namespace=m.pair.server)
    netns.ip("link set %s up" % interface, name)
    try:
        yield name, interface
    finally:
        netns.ip("netns del " + name)
        netns.guard.remove("netns", name)


def a_container(m):
    """A container, which has an interface of its own above the server's."""
    return neighbour(m, "mv0", *"mv0 link sv0 netns NAME type macvlan mode bridge".split())


@contextlib.contextmanager
def a_routed_host(m):
    """One whose packets the server's machine forwards, from whatever address they are."""
    with neighbour(m, "rh0", *"ro0 type veth peer name rh0 netns NAME".split()) as there:
        netns.sh("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
                 namespace=m.pair.server)
        netns.ip("link set ro0 up", m.pair.server)
        yield there


@contextlib.contextmanager
def another_program(m):
    """A program of the server's machine that may send anything."""
    yield m.pair.server, "sv0"


def forge(where):
    def happens(m, load):
        with where(m) as (namespace, interface), netns.inside(namespace), \
                socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
            raw.bind((interface, 0))
            to = segments.mac_of(*(("ro0", m.pair.server) if interface == "rh0" else
                                   ("cl0", m.pair.client)))
            head = to + segments.mac_of("sv0", m.pair.server) + \
                (b"\x86\xdd" if m.v6 else b"\x08\0")
            for kind in FORGED:
                for packet in forged(m, kind):
                    netns.send_frame(raw, head + packet)
                if not load.goes_on(4, m.kernel_path):
                    return "the kernel answers no more after a forged %s" % kind
    return happens


def few_ports(links=2):
    pair = netns.Pair(links)
    netns.sh("sysctl", "-qw", "net.ipv4.ip_local_port_range=%d %d" % (PORTS[0], PORTS[-1]),
             namespace=pair.client)
    return pair


@tap.case
def segments_of_others():
    for where in a_container, a_routed_host, another_program:
        mid_run("%s forges segments of the server's" % where.__name__.replace("_", " "),
                forge(where), "--odd", 0, pair=few_ports)


# --- clients that never acknowledge ----------------------------------------------------------

GREEDY = 4200 # more than there are places for replies


def others_are_answered(m):
    """Whether a client gets right replies, and as many of the kernel's as it is to, while so many
    connections have not acknowledged one."""
    greedy = []
    for _ in range(GREEDY):
        greedy.append(socket.create_connection((m.address(), m.port), undone.HANG))
        for _ in range(3):
            greedy[-1].send(b"get none\r\n")
            greedy[-1].recv(100)
    before = int(m.control.stats()["cmd_get"])
    netns.sh("nft", "add table inet t; add chain inet t c { type filter hook output priority 0; };"
             "add rule inet t c oifname cl0 tcp dport %d meta length <= %d drop" %
             (m.port, 72 if m.v6 else 52), namespace=m.pair.client) # bare acknowledgements
    for sock in greedy:
        sock.send(b"get none\r\n")
    right = server.wait_for(lambda: int(m.control.stats()["cmd_get"]) >= before + GREEDY)
    netns.sh("nft", "flush", "chain", "inet", "t", "c", namespace=m.pair.client)
    talk = m.talks(1)[0]

    def gets():
        """Whether the kernel answers most; the server takes the greedy ones' places back."""
        before = m.count("tcp_answered") if m.kernel_path else 0
        return talk.gets(100) and (not m.kernel_path or m.count("tcp_answered") - before > 90)

    answered = server.wait_for(lambda: gets() or talk.end)
    for sock in greedy:
        sock.close()
    talk.c.close()
    return talk.end, right, answered


@tap.case
def clients_that_never_acknowledge():
    equally("%d connections that acknowledge nothing" % GREEDY, (None, True, True),
            others_are_answered, options=("-c", 2 * GREEDY), most=1)


tap.run(240)
