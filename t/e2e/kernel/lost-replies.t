#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Replies of native XDP that the driver loses while the server runs: a veth does not deliver what
XDP sends once its other end has no XDP program any more."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
import chain
import client
import kernel
import netns
import server
import tap
from changing import HIT, Changing

# Falling back, and the return path, need calls of the kernel that -o drop_privileges must allow.
FILTER = ["-o", "drop_privileges"] if "no_drop_privileges" in server.run("-h")[1] else []
LOST = "sv0: its driver loses the replies of native XDP"
AGAIN = "sv0: the other end of this veth has an XDP program again"
TRIES, PATIENCE = 40, 0.1 # gets of a client, and seconds that it waits for each answer
ETHTOOL_SGRO = 0x2c


class Veth:
    """What happens at the client's end of sv0."""

    def program_off(self, i=0):
        os.close(self.pair.passes.pop(i))

    def program_on(self, i=0):
        self.pair.passes.insert(i, netns.attach_pass("cl%d" % i, self.pair.client))

    def gro(self, on):
        netns.ethtool(self.pair.client, "cl0", ETHTOOL_SGRO, int(on))

    def served(self, name):
        """A client that asks again and again is answered, after few tries."""
        def ask():
            udp = client.Udp("10.77.0.1", self.server.port, PATIENCE)
            try:
                return udp.ask(b"get k\r\n")
            except TimeoutError:
                return None
            finally:
                udp.close()

        answers = []
        while len(answers) < TRIES and (not answers or answers[-1] is None):
            answers.append(ask())
        tap.is_(answers[-1], HIT, "%s: a client is answered (try %d)" % (name, len(answers)))

    def back(self, name, **rows):
        self.becomes("%s: native XDP is back" % name, sv0__xdp="native", sv0__state="up", **rows)


class Machines(Veth, Changing):
    pass


@tap.case
def the_other_ends_program_goes_and_comes():
    with Machines(*FILTER) as m:
        m.becomes("at the start", sv0__xdp="native", tx_failures=0)
        m.same(b"get k\r\n", HIT, "at the start")
        m.program_off()
        m.served("without a program at the other end")
        m.becomes("without it generic XDP answers", sv0__xdp="generic", sv0__state="up",
                  sv0__tc="yes", tx_failures=1, detached=0)
        m.logs(LOST, 1, "the log says so in one line")
        m.asked("10.77.0.1", "the kernel answers")
        m.program_on()
        m.back("with a program", tx_failures=1)
        m.logs(AGAIN, 1, "the log says so in one line")
        m.asked("10.77.0.1", "the kernel answers again")
        m.same(b"get k\r\n", HIT, "after it")
        m.program_off()
        m.served("once more without it")
        m.becomes("generic XDP answers once more", sv0__xdp="generic", tx_failures=2)
        m.tcp.ask(b"stats reset\r\n")
        m.becomes("a reset sets the count to 0", tx_failures=0)


@tap.case
def gro_at_the_other_end():
    """With it, and no program, a veth puts what XDP sends into a ring, and wakes no thread."""
    with Machines(*FILTER) as m:
        m.gro(True)
        m.program_off()
        m.served("GRO in place of the program")
        m.becomes("generic XDP answers", sv0__xdp="generic", tx_failures=1)
        m.asked("10.77.0.1", "the kernel answers")
        m.gro(False)
        m.gro(True)
        m.program_on()
        m.back("with a program and GRO", tx_failures=1)
        m.gro(False)
        m.same(b"get k\r\n", HIT, "with a program and without GRO")
        m.becomes("it stays native", sv0__xdp="native", tx_failures=1)


@tap.case
def native_or_nothing():
    with Machines(*FILTER, mode="native") as m:
        m.program_off()
        m.served("mode=native")
        m.becomes("the server answers alone", sv0__xdp="none", sv0__state="detached",
                  tx_failures=1, detached=0)
        m.logs(LOST, 1, "the log says so in one line")
        m.logs("without mode=native another mode would answer", 1, "it has the remedy")
        m.same(b"get k\r\n", HIT, "meanwhile", kernel=False)
        m.program_on()
        m.back("mode=native", reattached=1)
        m.asked("10.77.0.1", "the kernel answers again")
        m.same(b"get k\r\n", HIT, "after it")


@tap.case
def tcp_connections():
    with Machines(*FILTER, words=["tcp=on"]) as m:
        gets = lambda: {m.tcp.get(b"k") for _ in range(50)}
        tap.is_(gets(), {b"v"}, "gets over TCP")
        m.becomes("at the start", sv0__xdp="native", tx_failures=0)
        m.program_off()
        tap.is_(gets(), {b"v"}, "without a program at the other end: what was lost is sent again")
        m.becomes("TC alone answers", sv0__xdp="none", sv0__state="up", sv0__tc="yes",
                  tx_failures=1)
        m.logs(LOST, 1, "the log says so in one line")
        before = m.counts()
        tap.is_(gets(), {b"v"}, "after it")
        tap.ok(m.counts()["tcp_answered_tc"] > before["tcp_answered_tc"], "TC answers them")
        m.asked("10.77.0.1", "and gets over UDP")
        m.program_on()
        m.back("tcp=on")
        before = m.counts()
        tap.is_(gets(), {b"v"}, "on the same connection")
        tap.ok(m.counts()["tcp_answered_xdp"] > before["tcp_answered_xdp"], "XDP answers them")


@tap.case
def one_interface_of_two():
    with Machines(*FILTER, links=2) as m:
        m.program_off()
        m.served("the first of two interfaces")
        m.becomes("the other one stays native", sv0__xdp="generic", sv1__xdp="native",
                  tx_failures=1)
        m.asked("10.77.1.1", "the kernel answers there")
        m.asked("10.77.0.1", "and at the first one")


@tap.case
def servers_that_share_the_interface():
    with Machines(*FILTER) as first:
        second = Machines(*FILTER, pair=first.pair)
        both = first, second
        for m in both:
            m.becomes("native, shared", sv0__xdp="native")
        first.program_off()
        first.served("the first of two servers")
        for m in both: # although the second one has answered nothing meanwhile
            m.becomes("it shares generic XDP", sv0__xdp="generic", sv0__state="up", tx_failures=1)
            m.served("shared")
            m.asked("10.77.0.1", "the kernel answers for it")
            m.logs(LOST, 1, "the log says so in one line")
            m.logs("another XDP program", 0, "and speaks of no other program")
        first.program_on()
        for m in both:
            m.back("shared")
            m.asked("10.77.0.1", "the kernel answers for it")
        second.server.stop()


@tap.case
def rings_of_af_xdp():
    """They need native XDP on all interfaces."""
    with Machines(*FILTER, words=["xsk=on"]) as m:
        taken = lambda: m.during(lambda: m.udp.ask(b"version\r\n"))[1]["xsk_received"]
        tap.ok(server.wait_for(taken), "a ring takes what XDP passes")
        m.program_off()
        m.served("xsk=on")
        m.becomes("generic XDP answers", sv0__xdp="generic")
        tap.is_(taken(), 0, "what it passes goes up the stack")
        m.program_on()
        m.back("xsk=on")
        tap.ok(server.wait_for(taken), "the ring takes it again")


class Chained(Veth, Changing, chain.Machines):
    def rows(self):
        return self.bmc.stats() if self.bmc else self.control.stats("bmc")

    def logs(self, words, times, name):
        tap.is_(server.logged(self.bmc or self.server, words, times), times, name)


@chain.on_each
def the_chain(front):
    with Chained(front, *(FILTER if front == chain.OURS else [])) as m:
        m.becomes("%s: at the start" % front, sv0__xdp="native", tx_failures=0)
        m.same(b"get k\r\n", HIT, "%s: at the start" % front)
        m.program_off()
        m.served("%s: without a program at the other end" % front)
        m.becomes("%s: generic XDP answers" % front, sv0__xdp="generic", sv0__state="up",
                  tx_failures=1)
        m.logs(LOST, 1, "%s: the log says so in one line" % front)
        m.program_on()
        m.back(front)
        server.wait_for(lambda: m.by_kernel(b"get ready\r\n")[1])
        for value in (b"old", b"v"):
            m.tcp.set(b"k", value)
            m.same(b"get k\r\n", kernel.answer((b"k", value)), "%s: after it" % front)


tap.run(600)
