#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""xsk=on: what XDP passes comes to the server by rings of AF_XDP, and is answered as by the
stack.
"""
import contextlib
import json
import os
import re
import subprocess

import binarygen
import client
import differential as d
import kernel
import metagen
import netns
import server
import tap
import textgen
import watching

SRCDIR = os.environ["SRCDIR"]
BENCH = os.path.join(os.environ.get("BUILDDIR", os.getcwd()), "bench")
RING = 1024 # requests that have a place
COMMANDS = int(os.environ.get("COMMANDS", "2000"))
KEYS = 500
BOTH = "0.0.0.0,[::]"
SETPRIV = ("setpriv", "--bounding-set")


class Machines(kernel.Machines):
    def __init__(self, *arguments, words=(), **options):
        super().__init__(*arguments, words=("xsk=on",) + tuple(words), **options)

    def by_ring(self, function):
        """What function returns, and how many requests came and how many replies went by a ring."""
        result, grown = self.during(function)
        return result, grown.get("xsk_received", 0), grown.get("xsk_sent", 0)

    def takes(self, udp=None):
        """Whether a request comes and its reply goes by the ring, when the return path is known."""
        udp = udp or self.udp

        def asked():
            answer, received, sent = self.by_ring(lambda: udp.ask(b"version\r\n"))
            return answer.startswith(b"VERSION") and (received, sent) == (1, 1)
        return server.wait_for(asked)


class Queues(netns.Pair):
    """Its veth has four queues at both ends, of which the server's may send by fewer."""

    SENDING = 4

    def make(self, i, mtu):
        netns.sh("ip", "link", "add", "sv%d" % i, "mtu", mtu, "numrxqueues", 4, "numtxqueues",
                 self.SENDING, "netns", self.server, "type", "veth", "peer", "name", "cl%d" % i,
                 "mtu", mtu, "numrxqueues", 4, "numtxqueues", 4, "netns", self.client)
        self.passes.append(netns.attach_pass("cl%d" % i, self.client))


def load(m, size, count, depth, sockets=1):
    """Gats, which XDP passes and whose replies are compared byte for byte."""
    words = ["--json", "--verify", "--touch", "--keys", str(KEYS), "--value-size", str(size),
             "--count", str(count), "--depth", str(depth), "--sockets", str(sockets), "--dist",
             "turn", "--timeout", "30000", "--seconds", "60",
             "%s:%d" % (m.pair.address(), m.server.port)]
    return subprocess.Popen([os.path.join(BENCH, "udpload"), *words], stdout=subprocess.PIPE,
                            text=True)


def told(process):
    """Answered, wrong and lost."""
    result = json.loads(process.communicate(timeout=90 * tap.SLOW)[0])
    return result["answered"], result["wrong"], result["lost"]


def populate(m, size):
    subprocess.run([os.path.join(BENCH, "udpload"), "--populate", "--keys", str(KEYS),
                    "--value-size", str(size), "--seconds", "0",
                    "%s:%d" % (m.pair.address(), m.server.port)], check=True)


# --- answers -------------------------------------------------------------------------------------

@tap.case
def all_commands_are_answered_as_by_the_stack():
    for name, family in (("text", textgen.Text(d.SEED, datagrams=True)),
                         ("meta", metagen.Meta(d.SEED, datagrams=True)),
                         ("binary", binarygen.Binary(d.SEED, datagrams=True))):
        m = Machines(threads=1)
        before = m.counts()["xsk_received"]
        counted = []
        end = m.server.stop

        def stop(counted=counted, m=m, end=end):
            counted.append(m.counts()["xsk_received"])
            m.tcp.close()
            m.udp.close()
            return end()
        m.server.stop = stop
        d.compare("%s commands by a ring" % name, family, d.Udp, COMMANDS,
                  (m.server, server.Server(threads=1)))
        tap.ok(counted[0] > before, # a batch of binary commands is fragmented, most often
               "%s: datagrams came by the ring (%d)" % (name, counted[0] - before))
        m.leave()


@tap.case
def values_of_any_length():
    with Machines(listen=BOTH) as m:
        udps = {"IPv4": m.udp, "IPv6": client.Udp("fd77:0::1", m.server.port)}
        for name, udp in udps.items():
            tap.ok(m.takes(udp), "%s: a request is taken by the ring" % name)
            for n in (1, 1359, 1360, 1361, 2746, 11000, 12000, 100000):
                value = bytes(i * 7 % 251 for i in range(n))
                m.tcp.set(b"v", value)
                got, received, sent = m.by_ring(lambda udp=udp: udp.ask(b"gat 0 v\r\n"))
                tap.is_(got, b"VALUE v 0 %d\r\n%s\r\nEND\r\n" % (n, value),
                        "%s: %d bytes, each as it should be" % (name, n))
                tap.is_((received, sent), (1, udp.datagrams if udp.datagrams <= 8 else 0),
                        "which leave by %s" % ("the ring" if sent else "the socket"))
        value = os.urandom(300000) # 217 datagrams: the ring of a veth has room for 256
        m.tcp.set(b"v", value)
        got, received, sent = m.by_ring(lambda: m.udp.ask(b"get v\r\n"))
        tap.ok(got == b"VALUE v 0 %d\r\n%s\r\nEND\r\n" % (len(value), value),
               "a value of many turns")
        tap.is_((received, sent), (1, 0), "which the socket sends")


@tap.case
def writes():
    with Machines() as m:
        m.takes()
        for n in (0, 1, 100, 1300):
            _, received, _ = m.by_ring(
                lambda n=n: m.udp.ask(b"set k 0 0 %d\r\n%s\r\n" % (n, b"w" * n)))
            tap.is_((m.udp.get(b"k"), received), (b"w" * n, 1),
                    "%d bytes: stored by the ring, and the kernel answers with them" % n)
        tap.ok(all(m.holds(b"k", b"w" * 1300) for _ in range(3)), "as often as it is asked")
        m.udp.ask(b"delete k\r\n")
        tap.ok(m.holds(b"k", None), "after a delete it answers with a miss")
        tap.is_(m.udp.ask(b"set k 0 0 10\r\nshort\r\n"), b"CLIENT_ERROR bad data chunk\r\n",
                "a value that is cut is refused")


@tap.case
def it_is_counted_as_by_the_stack():
    def counts(m):
        rows = m.tcp.stats()
        return {key: int(rows[key]) for key in
                ("cmd_get", "cmd_set", "cmd_touch", "get_hits", "get_misses", "touch_hits",
                 "bytes_read", "curr_connections", "total_connections")}

    found = []
    for words in ((), ("xsk=off",)):
        with Machines(words=words, threads=1) as m:
            server.wait_for(lambda m=m: m.by_ring(lambda: m.udp.ask(b"version\r\n"))[1] ==
                            (not words))
            before = counts(m)
            for request in (b"set a 0 0 3\r\nabc\r\n", b"get a\r\n", b"gat 0 a\r\n", b"get b\r\n",
                            b"incr a 1\r\n", b"set b 0 0 1000\r\n%s\r\n" % (b"b" * 1000),
                            b"get b b\r\n", b"mg b v\r\n", b"nonsense\r\n"):
                m.udp.ask(request)
            after = counts(m)
            found.append({key: after[key] - before[key] for key in after})
    tap.is_(found[0], found[1], "commands, hits, bytes and connections")


@tap.case
def what_the_server_wants_to_see_comes_by_the_stack():
    with Machines() as m:
        m.takes()
        watcher = watching.Watcher(m.server)
        answers, received, _ = m.by_ring(lambda: [m.udp.ask(b"get none\r\n") for _ in range(5)])
        tap.is_((set(answers), received), ({b"END\r\n"}, 0), "while somebody watches")
        seen = [line.key() for line in watcher.lines(m.tcp)]
        tap.is_(seen.count(b"none"), 5, "who sees each request")
        watcher.close()
        tap.ok(m.takes(), "afterwards by the ring")


@tap.case
def its_statistics_are_documented():
    def source(*path):
        with open(os.path.join(SRCDIR, *path), encoding="utf-8") as file:
            return file.read()

    with Machines() as m:
        shown = {key for key in m.counts() if key.startswith("xsk_")}
    found = {name: set(re.findall(pattern, source("doc", *name.split("/")), re.M))
             for name, pattern in (("kernel-path/reference.md", r"^\| `(xsk_\w+)` \|"),
                                   ("memcached.1.in", r"^\.It Cm (xsk_\w+)$"))}
    for name, keys in found.items():
        tap.is_(sorted(keys), sorted(shown), "%s has the keys of stats bmc" % name)
    tool = source("tools", "memcached-tool")
    tap.is_([key for key in shown - {"xsk_rings"} if '"%s"' % key[4:] not in tool], [],
            "and memcached-tool's metrics")


# --- full rings, and the end ---------------------------------------------------------------------

def send_slowly(udp, request, count):
    """Sends it so often, with ids from 0 on, to a server that is stopped, and never more at a time
    than the ring of a veth has room for."""
    for ident in range(count):
        udp.send(request, ident=ident)
        if ident % 100 == 99:
            udp.ask(b"get none\r\n", ident=ident) # of the kernel, which has seen the others by then


def lost(m):
    """What the server sent while the client's end of the veth had no room: it takes 256 frames, and
    then more as the client's machine takes them, whose CPU may be another's. The kernel counts it.
    """
    text = netns.ip("-json -s link show dev sv0", m.pair.server)
    return json.loads(text)[0]["stats64"]["tx"]["dropped"]


@tap.case
def a_full_ring():
    with Machines(threads=1) as m:
        populate(m, 32)
        m.tcp.set(b"k", b"v" * 32)
        m.takes()
        before, udp, count = m.counts(), m.server.udp(), RING + 150
        m.server.pause()
        send_slowly(udp, b"gat 0 k\r\n", count)

        def waits():
            with netns.inside(m.pair.server), \
                    open("/proc/thread-self/net/udp", encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
            return any(int(row[4].split(":")[1], 16) for row in rows)
        tap.ok(server.wait_for(waits), "what finds the ring full goes up the stack to the socket")
        lost_before, answers = lost(m), []
        m.server.resume()
        udp.sock.settimeout(0.2)

        def all_have_left():
            with contextlib.suppress(TimeoutError):
                while True:
                    answers.append(udp.recv_raw())
            return len(answers) + lost(m) - lost_before >= count
        server.wait_for(all_have_left)
        tap.is_(len(answers) + lost(m) - lost_before, count,
                "all are answered once (of the replies %d were lost on the veth)" %
                (lost(m) - lost_before))
        tap.is_(len(set(answers)), len(answers), "no two answers are the same")
        tap.is_(set(answers) - {i.to_bytes(2, "big") + b"\0\0\0\1\0\0" +
                                kernel.answer((b"k", b"v" * 32)) for i in range(count)}, set(),
                "and all are right")
        after = m.counts()
        tap.ok(after["xsk_received"] - before["xsk_received"] >= RING and
               after["xsk_full"] - before["xsk_full"] > 0, "by the ring and by the socket")
        tap.is_(told(load(m, 32, 20000, 128, sockets=4)), (20000, 0, 0),
                "then it is taken from again")


@tap.case
def stopped_for_long():
    with Machines(threads=1, words=("stall=2",)) as m:
        m.takes()
        m.server.pause()
        udp = m.server.udp()
        sent = []

        def waits():
            sent.append(udp.send(b"version\r\n"))
            with netns.inside(m.pair.server), \
                    open("/proc/thread-self/net/udp", encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
            return any(int(row[4].split(":")[1], 16) for row in rows)
        tap.ok(server.wait_for(waits, every=0.2), "a server that is stopped gets nothing more")
        m.server.resume()
        got = sorted(int.from_bytes(udp.recv_raw()[:2], "big") for _ in sent)
        tap.is_(got, sorted(sent), "and answers all when it goes on")
        tap.ok(m.takes(), "then by the ring again")


@tap.case
def killed():
    m = Machines()
    m.takes()
    m.server.process.kill()
    m.server.process.wait()
    tap.ok(server.wait_for(lambda: netns.xdp_mode("sv0", m.pair.server) is None),
           "killed: no program stays attached")
    m.start()
    tap.ok(m.takes(), "the next server has the queue")
    m.stop()


# --- threads, users, interfaces ------------------------------------------------------------------

@tap.case
def threads_and_queues():
    for threads in (1, 3, 8):
        with Machines(pair=Queues(), threads=threads) as m:
            populate(m, 2746)
            tap.is_(m.counts()["xsk_rings"], 4, "-t %d: a ring for each queue" % threads)
            m.takes()
            process, received, _ = m.by_ring(lambda m=m: told(load(m, 2746, 2000, 32, sockets=16)))
            tap.is_(process, (2000, 0, 0), "-t %d: all are answered, and rightly" % threads)
            tap.ok(received > 1500, "-t %d: by the rings" % threads)


class Uneven(Queues):
    SENDING = 2


@tap.case
def queues_that_only_receive():
    with Machines(pair=Uneven(), threads=2) as m:
        populate(m, 2746)
        tap.like(m.server.log(), "sv0: AF_XDP on 2 of 4 queues, ", "rings where replies can leave")
        tap.is_(m.counts()["xsk_rings"], 2, "two of four")
        process, received, _ = m.by_ring(lambda: told(load(m, 2746, 2000, 32, sockets=16)))
        tap.is_(process, (2000, 0, 0), "all are answered, and rightly")
        tap.ok(200 < received < 1800, "by these rings and by the stack (%d by rings)" % received)


@tap.case
def another_server_on_the_interface():
    with Machines() as m:
        m.takes()
        with server.Server("-X", "bmc=sv0", namespace=m.pair.server, host=m.pair.address(),
                           listen="0.0.0.0") as other:
            tap.is_(other.stats("bmc")["sv0:servers"], "2", "two servers share XDP")
            tap.ok(m.takes(), "the first has its ring still")
            tap.ok(other.udp().ask(b"version\r\n").startswith(b"VERSION"), "the other answers")
        tap.ok(m.takes(), "and when it is alone again")


@tap.case
def few_privileges():
    with Machines("-o", "drop_privileges", "-u", "nobody") as m:
        populate(m, 2746)
        tap.ok(m.takes(), "-u nobody, -o drop_privileges: a request is taken by the ring")
        tap.is_(told(load(m, 2746, 1000, 64)), (1000, 0, 0), "and a load of them")


@tap.case
def an_interface_that_changes():
    with Machines(listen=BOTH) as m:
        m.takes()
        for state in ("down", "up"):
            netns.ip("link set sv0 %s" % state, m.pair.server)
        tap.ok(m.takes(), "down and up")
        m.tcp.set(b"big", b"b" * 5000)
        netns.ip("link set sv0 mtu 1400", m.pair.server)

        def by_stack():
            answer, received, _ = m.by_ring(lambda: m.udp.ask(b"get big\r\n"))
            return len(answer) == 5025 and not received
        tap.ok(server.wait_for(by_stack), "an MTU that replies do not fit: the stack sends them")
        netns.ip("link set sv0 mtu 1500", m.pair.server)
        tap.ok(m.takes(), "another one: the ring")


@tap.case
def an_interface_that_goes_down_with_requests_in_the_ring():
    """The kernel does not tell of them again before another one comes."""
    with Machines(threads=1) as m:
        populate(m, 2746)
        m.takes()
        asked = asked_for(m)
        m.server.pause()
        process = load(m, 2746, 500, 500)
        tap.ok(server.wait_for(lambda: asked_for(m) == asked + 500), "500 requests wait in it")
        netns.ip("link set sv0 down", m.pair.server)
        m.server.resume()
        netns.ip("link set sv0 up", m.pair.server)
        tap.ok(m.takes(), "down and up: another one comes by the ring")
        tap.is_(told(process), (500, 0, 0), "and all are answered, each as it should be")


def asked_for(m):
    """Datagrams that have left the client."""
    with netns.inside(m.pair.client), open("/proc/thread-self/net/snmp", encoding="ascii") as file:
        head, row = [line.split() for line in file if line.startswith("Udp:")]
    return int(row[head.index("OutDatagrams")])


@tap.case
def a_client_that_moves():
    with Machines(listen=BOTH) as m:
        for host in (m.pair.address(), "fd77:0::1"):
            udp = client.Udp(host, m.server.port)
            again = client.Udp(host, m.server.port, 0.5)
            tap.ok(m.takes(udp), "%s: the ring" % host)
            for mac in ("02:4d:43:00:02:77", "02:4d:43:00:02:78"):
                netns.ip("link set cl0 address %s" % mac, m.pair.client)
                netns.ip("neighbour flush dev sv0", m.pair.server)
                _, received, _ = m.by_ring(lambda again=again: answered(again))
                tap.is_(received, 0, "%s: what comes from another MAC address goes up the stack" %
                        host)
                tap.ok(m.takes(udp), "and by the ring when that has replied there")
            udp.close()
            again.close()


def answered(udp):
    """Asks until it is answered: the stack may have to look for the neighbour first."""
    return server.wait_for(lambda: quiet_ask(udp))


def quiet_ask(udp):
    try:
        return udp.ask(b"version\r\n").startswith(b"VERSION")
    except (TimeoutError, client.FrameError):
        return False


@tap.case
def a_route_back_by_another_interface():
    with Machines(links=2, on=1) as m:
        def way(interface):
            netns.ip("route replace 10.99.0.2/32 via 10.77.%d.2" % interface, m.pair.server)

        m.pair.accept_any_source()
        netns.ip("address add 10.99.0.2/32 dev cl0", m.pair.client)
        way(0)
        udp = client.Udp(m.pair.address(), m.server.port, source="10.99.0.2")
        for _ in range(2):
            tap.ok(m.takes(udp), "a route back by this interface: the ring")
            way(1)

            def by_stack():
                answer, received, _ = m.by_ring(lambda: udp.ask(b"version\r\n"))
                return answer.startswith(b"VERSION") and not received
            tap.ok(server.wait_for(by_stack) and by_stack() and by_stack(),
                   "by another one: the stack")
            way(0)


@tap.case
def whom_the_guard_does_not_admit():
    with Machines(words=("allow=10.99.0.0/16",)) as m:
        answers, received, _ = m.by_ring(lambda: [m.udp.ask(b"gat 0 none\r\n") for _ in range(9)])
        tap.is_((set(answers), received), ({b"END\r\n"}, 0), "allow=: the stack")
    with Machines(words=("rate=1/5",)) as m:
        tap.ok(m.takes(), "rate=: the ring")
        answers, received, _ = m.by_ring(lambda: [m.udp.ask(b"gat 0 none\r\n")
                                                  for _ in range(200)])
        tap.is_(set(answers), {b"END\r\n"}, "beyond the rate all are answered, too")
        tap.ok(received < 200, "by the stack (%d by the ring)" % received)


@tap.case
def an_interface_that_comes_back():
    with Machines(links=2, on=1) as m:
        m.takes()
        control = client.tcp(m.pair.address(1), m.server.port)
        netns.ip("link delete sv0", m.pair.server)
        m.pair.add_link(0)
        tap.ok(server.wait_for(lambda: control.stats("bmc").get("sv0:state") == "up"),
               "the programs are attached again")
        received = control.stats("bmc")["xsk_received"]
        udp = client.Udp(m.pair.address(), m.server.port)
        tap.ok(all(udp.ask(b"version\r\n").startswith(b"VERSION") for _ in range(5)),
               "requests are answered")
        tap.is_(control.stats("bmc")["xsk_received"], received, "up the stack")


@tap.case
def an_interface_that_moves_away_and_back():
    elsewhere = netns.Pair(0)
    with Machines(links=2, on=1, mode="native") as m:
        m.takes()
        control = client.tcp(m.pair.address(1), m.server.port)

        def move(to, namespace):
            netns.ip("link set sv0 netns %s" % to, namespace)
        move(elsewhere.server, m.pair.server)
        tap.ok(server.wait_for(lambda: control.stats("bmc").get("sv0:state") == "gone"),
               "moved to another namespace")
        move(m.pair.server, elsewhere.server)
        netns.ip("address add %s dev sv0" % (m.pair.address() + "/24"), m.pair.server)
        netns.ip("link set sv0 up", m.pair.server)
        tap.ok(server.wait_for(lambda: control.stats("bmc").get("sv0:xdp") == "native"),
               "and back, the program is attached again")
        udp = client.Udp(m.pair.address(), m.server.port)
        tap.ok(all(udp.ask(b"version\r\n").startswith(b"VERSION") for _ in range(5)),
               "what XDP passes goes up the stack: the ring of the interface is no more")
    elsewhere.close()


@tap.case
def automatic():
    pair = netns.Pair(2)
    netns.enter(pair.client)
    with server.Server("-X", "bmc=auto,xsk=on", namespace=pair.server, host=pair.address(),
                       listen="0.0.0.0") as m:
        for i in range(2):
            def received(i=i):
                before = int(m.stats("bmc")["xsk_received"])
                return udps[i].ask(b"version\r\n") and \
                    int(m.stats("bmc")["xsk_received"]) > before
            udps = [client.Udp(pair.address(k), m.port) for k in range(2)]
            tap.ok(server.wait_for(received), "auto: interface %d has a ring" % i)
    os.close(pair.passes.pop()) # without a program at the other end there is no native XDP
    refused("sv1: xsk=on needs native XDP on each interface", "bmc=auto", "xsk=on", pair=pair)
    pair.close()


# --- refusals ------------------------------------------------------------------------------------

def refused(text, *words, status=71, pair=None, prefix=(), more=()):
    got, _, err = server.run("-l", "0.0.0.0", "-p", 21211, "-U", 21211, "-X",
                             ",".join(words), *more, namespace=pair and pair.server, prefix=prefix)
    tap.is_(got, status, "%s: status %d" % (",".join(words), status))
    tap.like(err, text, "with a line that says why")


@tap.case
def refusals():
    pair = netns.Pair()
    netns.enter(pair.client)
    usage = {"mode=skb": "needs native XDP", "mode=tc": "needs native XDP",
             "udp=off,tcp=on": "is for UDP", "mode=chain": "cannot go with",
             "xsk=yes": "xsk is on or off"}
    for word, text in usage.items():
        refused(text, "bmc=sv0", "xsk=on", word, status=64, pair=pair)
    refused("needs a UDP port", "bmc=sv0", "xsk=on", "tcp=on", status=64, pair=pair,
            more=("-U", 0))
    refused("lo: xsk=on needs native XDP on each interface", "bmc=lo", "xsk=on", pair=pair)
    refused("needs CAP_NET_RAW", "bmc=sv0", "xsk=on", pair=pair, prefix=(*SETPRIV, "-net_raw"))
    refused("8 MB of locked memory", "bmc=sv0", "xsk=on", pair=pair,
            prefix=("prlimit", "--memlock=1048576", *SETPRIV, "-ipc_lock"))
    with server.Server("-X", "bmc=sv0,xsk=on", namespace=pair.server, host=pair.address(),
                       listen="0.0.0.0", prefix=()) as _:
        refused("queue 0: another process has the queue", "bmc=sv0", "xsk=on", pair=pair)
    pair.close()


@tap.case
def optional():
    pair = netns.Pair()
    netns.enter(pair.client)
    with server.Server("-X", "bmc=sv0,xsk=on,optional", namespace=pair.server,
                       host=pair.address(), listen="0.0.0.0",
                       prefix=(*SETPRIV, "-net_raw")) as m:
        tap.is_(m.stats("bmc")["bmc_enabled"], "no", "optional: the server runs without")
        tap.ok(re.search("CAP_NET_RAW", m.stats("bmc")["reason"]), "and says why")
        tap.ok(m.udp().ask(b"version\r\n").startswith(b"VERSION"), "and answers")
    pair.close()


tap.run()
