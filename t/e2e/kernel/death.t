#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""How the kernel path ends, and when it refuses to start."""
import os
import signal

import chain
import client
import kernel
import netns
import server
import tap
from kernel import answer

DROP = ["setpriv", "--bounding-set"]
NO_RIGHTS = ["setpriv", "--reuid", server.USER, "--clear-groups", "--bounding-set", "-all",
             "--inh-caps", "-all"]


def attached(m):
    return netns.xdp_mode("sv0", m.pair.server), netns.tc_programs("sv0", m.pair.server)


def refused(m, arguments, words, name, prefix=()):
    """Checks that the start fails with status 1 to 127 and a line that has the reason, and
    leaves nothing attached."""
    status, _, error = server.run("-p", server.free_port(m.pair.server), "-U",
                                  server.free_port(m.pair.server), "-l", "0.0.0.0", *arguments,
                                  namespace=m.pair.server, prefix=prefix)
    tap.ok(status is not None and 0 < status < 128, "%s: status %s" % (name, status))
    tap.like(error, words, "%s: the message has the reason" % name)
    tap.ok(len(error.strip().splitlines()) <= 3, "%s: the message has a line or two" % name)


def ends(how, name):
    with kernel.Machines() as m:
        m.tcp.set(b"old", b"old")
        m.same(b"get old\r\n", answer((b"old", b"old")), "before %s" % name)
        tap.ok(attached(m)[0] and attached(m)[1], "XDP and TC are attached")
        port = m.server.port
        how(m)
        tap.ok(server.wait_for(lambda: attached(m) == (None, [])),
               "%s: then the interface has no program, on XDP nor TC" % name)
        probe = client.Udp(m.pair.address(), port, 0.3)
        try:
            tap.is_(probe.ask(b"get old\r\n"), None, "%s: no program answers" % name)
        except (TimeoutError, ConnectionRefusedError):
            tap.ok(True, "%s: no program answers" % name)
        m.options["port"] = port
        m.start()
        m.same(b"get old\r\n", b"END\r\n",
               "%s: a server that starts again does not answer with the old value" % name)
        m.tcp.set(b"old", b"new")
        m.same(b"get old\r\n", answer((b"old", b"new")),
               "%s: the kernel answers with the new value" % name)


@tap.case
def kill_9():
    ends(lambda m: m.server.kill(), "kill -9")


@tap.case
def sigterm():
    ends(lambda m: m.server.stop(), "SIGTERM")


@tap.case
def sigint():
    def interrupt(m):
        m.server.signal(signal.SIGINT)
        tap.is_(m.server.wait(), 0, "SIGINT ends with status 0")

    ends(interrupt, "SIGINT")


@tap.case
def killed_while_it_is_stopped():
    def stop_and_kill(m):
        m.server.pause()
        m.server.kill()

    ends(stop_and_kill, "SIGSTOP and kill -9")


@tap.case
def killed_under_load():
    with kernel.Machines() as m:
        for round_ in range(3):
            m.tcp.set(b"k", b"%d" % round_)
            udp = client.Udp(m.pair.address(), m.server.port, 0.3)
            for sent in range(2000):
                try:
                    udp.send(b"get k\r\n")
                except ConnectionRefusedError:
                    pass
                if sent == 1000:
                    m.server.process.kill()
            m.server.kill()
            tap.ok(server.wait_for(lambda: attached(m) == (None, [])),
                   "kill -9 amid 2,000 gets leaves no program")
            m.start()
            m.same(b"get k\r\n", b"END\r\n", "after it the old value is gone")


def answered_after_death(m, request):
    """Kills the server, and starts another. Returns whether a request sent after its connection
    ended is answered."""
    udp = client.Udp(m.pair.address(), m.server.port, 0.1)
    m.server.process.kill()
    m.tcp.to_end(b"")
    try:
        answered = udp.ask(request) is not None
    except (TimeoutError, ConnectionRefusedError):
        answered = False
    m.server.kill()
    m.start()
    return answered


def answers_after():
    """How many of five requests are answered. More memory and interfaces make the server's end
    longer."""
    answered = 0
    with kernel.Machines("-m", "256", links=4) as m:
        for _ in range(5):
            value = b"v" * 900
            for first in range(0, 20000, 500):
                m.tcp.send(b"".join(b"set k%d 0 0 900 noreply\r\n%s\r\n" % (i, value)
                                    for i in range(first, first + 500)))
            m.tcp.ask(b"version\r\n")
            m.same(b"get k19999\r\n", answer((b"k19999", value)), "before a kill")
            answered += answered_after_death(m, b"get k19999\r\n")
    return answered


@tap.case
def gets_after_its_end_are_not_answered():
    tap.is_(answers_after(), 0,
            "no get after the end of a TCP connection is answered by the kernel")


@tap.case
def gets_after_its_end_are_not_answered_by_the_chain():
    answered = held = 0
    with chain.Machines(chain.OURS, links=2) as m:
        for _ in range(3):
            m.tcp.set(b"k", b"v" * 500)
            held += m.by_kernel(b"get k\r\n")[1]
            answered += answered_after_death(m, b"get k\r\n")
    tap.is_((held, answered), (3, 0),
            "no get after the end of a TCP connection is answered by the chain")


@tap.case
def a_program_of_others_is_never_replaced():
    with kernel.Machines(links=2, on=1) as m:
        foreign = netns.attach_pass("sv1", m.pair.server)
        before = netns.link("sv1", m.pair.server)["xdp"]["prog"]["id"]
        refused(m, ["-X", "bmc=sv1"], r"sv1.*another XDP program.*stays",
                "a foreign program attached by a link")
        tap.is_(netns.link("sv1", m.pair.server)["xdp"]["prog"]["id"], before,
                "the foreign program stays")
        tap.is_(netns.tc_programs("sv1", m.pair.server), [], "there is no TC program")
        refused(m, ["-X", "bmc=sv1,mode=skb"], r"sv1",
                "a foreign program attached by a link, mode=skb")
        m.tcp.set(b"k", b"v")
        m.same(b"get k\r\n", answer((b"k", b"v")), "the first server goes on answering")
        os.close(foreign)
        program = netns.load_pass()
        netns.sh("bpftool", "net", "attach", "xdp", "id", netns.program_id(program), "dev", "sv1",
                 namespace=m.pair.server)
        before = netns.link("sv1", m.pair.server)["xdp"]["prog"]["id"]
        refused(m, ["-X", "bmc=sv1"], r"sv1.*another XDP program.*stays",
                "a foreign program attached without a link")
        tap.is_(netns.link("sv1", m.pair.server)["xdp"]["prog"]["id"], before,
                "the foreign program stays")
        os.close(program)
        with server.Server("-X", "bmc=sv1,optional", namespace=m.pair.server,
                           host=m.pair.address(1)) as other:
            other.stream().set(b"k", b"w")
            tap.is_(other.udp().get(b"k"), b"w",
                    "with `optional` the server serves without the kernel path")
            tap.like(other.log(), r"sv1.*another XDP program", "it logs the reason")


@tap.case
def interfaces_that_refuse():
    with kernel.Machines() as m:
        refused(m, ["-X", "bmc=nowhere0"], "there is no interface nowhere0",
                "an interface that does not exist")
        refused(m, ["-X", "bmc=sv0,bmc=nowhere0"], "sv0|nowhere0",
                "a second interface that does not exist")
        netns.ip("link add br0 type bridge", m.pair.server)
        netns.ip("link set br0 up", m.pair.server)
        refused(m, ["-X", "bmc=br0,mode=native"], r"br0.*(no XDP|refuses)",
                "a bridge with mode=native")
        tap.is_(netns.xdp_mode("br0", m.pair.server), None, "the bridge has no program")
        refused(m, ["-X", "bmc=lo,mode=native"], r"lo.*(no XDP|refuses)", "lo with mode=native")
        refused(m, ["-X", "bmc=" + "x" * 40], "too long", "a too long interface name")
        refused(m, ["-X", ",".join("bmc=if%d" % i for i in range(17))], "at most 16|no interface",
                "17 interfaces")
        with server.Server("-X", "bmc=br0", namespace=m.pair.server, host=m.pair.address(),
                           listen="0.0.0.0") as other:
            tap.like(other.log(), "^bmc: br0: XDP generic",
                     "without mode=native the bridge gets generic XDP")
        tap.is_(netns.xdp_mode("br0", m.pair.server), None,
                "its program is detached when the server ends")


@tap.case
def mtu():
    with kernel.Machines(mtu=9000) as jumbo:
        jumbo.tcp.set(b"k", b"v" * 1000)
        mode = netns.xdp_mode("sv0", jumbo.pair.server)
        tap.ok(mode in ("native", "generic"), "at MTU 9000 the interface has a program (%s)" % mode)
        jumbo.same(b"get k\r\n", answer((b"k", b"v" * 1000)), "a reply at MTU 9000")
        tap.is_(jumbo.udp.ask(b"get %s k\r\n" % (b"n " * 2000)), answer((b"k", b"v" * 1000)),
                "a request of 4,000 bytes is answered")
    for mode in ("native", "skb", "tc"):
        with kernel.Machines(mtu=1280, mode=mode, listen="0.0.0.0,::") as small:
            small.same(b"get none\r\n", b"END\r\n", "a miss at MTU 1280, " + mode)
            for host, headers in ((small.pair.address(), 28), ("fd77:0::1", 48)):
                small.udp.close()
                small.udp = client.Udp(host, small.server.port)
                most = 1280 - headers - 8 - len(answer((b"short", b"v" * 1000))) + 1000
                for size in (most, most + 1, 1360):
                    small.tcp.set(b"short", b"v" * size)
                    small.same(b"get short\r\n", answer((b"short", b"v" * size)),
                               "a reply of %s at MTU 1280, %s: %d bytes" % (host, mode, size),
                               kernel=size == most)


@tap.case
def missing_rights():
    with kernel.Machines() as m:
        refused(m, ["-X", "bmc=sv0"], "the bounding set lacks CAP_BPF", "no privileges",
                prefix=NO_RIGHTS)
        refused(m, ["-X", "bmc=sv0"], r"CAP_BPF",
                "neither CAP_BPF nor CAP_SYS_ADMIN", prefix=DROP + ["-bpf,-sys_admin"])
        refused(m, ["-X", "bmc=sv0"], r"CAP_NET_ADMIN",
                "no CAP_NET_ADMIN", prefix=DROP + ["-net_admin,-sys_admin"])
        with server.Server("-X", "bmc=sv0,optional", namespace=m.pair.server,
                           prefix=NO_RIGHTS, host=m.pair.address(), listen="0.0.0.0") as other:
            other.stream().set(b"k", b"v")
            tap.is_(other.udp().get(b"k"), b"v",
                    "without privileges but with `optional` the server serves")
            tap.like(other.log(), "CAP_BPF", "it logs which capability is missing")


@tap.case
def an_interface_that_is_removed():
    with kernel.Machines(links=2) as m:
        m.tcp.set(b"k", b"v")
        netns.ip("link del sv1", m.pair.server)
        m.pair.passes.pop()
        m.same(b"get k\r\n", answer((b"k", b"v")),
               "after one interface is removed the other answers")
        tap.ok(m.server.alive(), "the server still runs")


tap.run()
