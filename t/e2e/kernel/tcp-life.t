#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Connections on which the kernel has answered, while what carries their segments changes: routes
move to an interface without the programs and back, programs are detached, interfaces go down,
addresses go. Each client gets the right bytes, or a reset, and does not wait for ever."""
import contextlib
import os
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
import client
import kernel
import netns
import server
import tap

HANG = 20 * tap.SLOW # seconds without a byte
BIG = bytes(i * 7 % 251 for i in range(500000))
MISS = b"END\r\n"


class Talk:
    """A connection that knows what it is to be told. `end` is how it ended: None, "reset", "end",
    "hang", or what was wrong."""

    def __init__(self, m, number):
        self.key = b"n%d" % number
        self.end, self.told = None, 0
        self.c = client.tcp(m.pair.address(), m.port)
        self.c.sock.settimeout(HANG)
        self.c.set(self.key, b"0")

    def ask(self, request, want):
        """Whether the answer is the right one."""
        if self.end:
            return False
        try:
            self.c.send(request)
            got = self.c.exactly(len(want))
            self.end = None if got == want else "wrong: %r, not %r" % (got[:60], want[:60])
        except (ConnectionError, client.Closed) as error:
            self.end = "end" if isinstance(error, client.Closed) else "reset"
        except TimeoutError:
            self.end = "hang"
        return not self.end

    def gets(self, n=4):
        return all(self.ask(b"get none\r\n", MISS) for _ in range(n))

    def incr(self):
        if self.ask(b"incr %s 1\r\n" % self.key, b"%d\r\n" % (self.told + 1)):
            self.told += 1
        return not self.end

    def is_counted_once(self, control):
        """What was not acknowledged may have been counted."""
        have = int(control.get(self.key))
        return self.told <= have <= self.told + (self.end is not None)


class Machine(server.Server):
    """A server with the programs on sv0, and without them on sv1; this process is its client."""

    def __init__(self, *words, options=(), links=2, on=1, pair=None):
        self.pair = pair or netns.Pair(links)
        netns.enter(self.pair.client)
        for namespace in (self.pair.server, self.pair.client):
            for which in ("all", "sv0", "sv1", "cl0", "cl1"):
                with netns.inside(namespace), contextlib.suppress(FileNotFoundError), \
                        open("/proc/sys/net/ipv4/conf/%s/rp_filter" % which, "w",
                             encoding="ascii") as file:
                    file.write("0")
        bmc = ",".join(["bmc=" + self.pair.interface(i) for i in range(on)] + ["tcp=on", *words])
        super().__init__("-m", 256, "-X", bmc, *options, namespace=self.pair.server,
                         host=self.pair.address(links - 1), listen="0.0.0.0")
        self.control = self.stream()
        self.control.set(b"big", BIG)

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        self.pair.close()

    def count(self, row):
        return int(self.control.stats("bmc")[row])

    def talks(self, n=4, first=0):
        """Connections on which the kernel has answered."""
        talks = [Talk(self, first + i) for i in range(n)]
        for talk in talks:
            for _ in range(20):
                before = self.count("tcp_answered")
                talk.gets()
                talk.incr()
                if self.count("tcp_answered") > before:
                    break
        return talks

    def server_ip(self, *words):
        netns.sh("ip", *words, namespace=self.pair.server)

    def client_ip(self, *words):
        netns.sh("ip", *words, namespace=self.pair.client)

    def leave_by(self, link):
        """What the server sends to the client takes this link."""
        self.server_ip("route", "replace", "10.77.0.2/32", "dev", "sv%d" % link)

    def come_by(self, link):
        self.client_ip("route", "replace", "10.77.0.1/32", "dev", "cl%d" % link)


def holds(passed, name, found):
    if not tap.ok(passed, name):
        tap.diag(found)


def judge(m, talks, name, ends=("reset", "end", None)):
    found = [talk.end for talk in talks]
    holds(all(end in ends for end in found), "%s: %s" % (
        name, " or ".join(str(end or "goes on") for end in ends)) , found)
    tap.ok(all(talk.is_counted_once(m.control) for talk in talks),
           "%s: each incr is executed once" % name)
    for talk in talks:
        talk.c.close()


def works(m, name):
    """New connections are answered by the kernel."""
    talks = m.talks(1)
    before = m.count("tcp_answered")
    holds(talks[0].gets(4) and talks[0].incr() and m.count("tcp_answered") > before,
          "%s: new connections are answered as before" % name, talks[0].end)
    talks[0].c.close()


# --- routes ------------------------------------------------------------------------------------

def move(m, out, into, name):
    talks = m.talks()
    if out:
        m.leave_by(1)
    if into:
        m.come_by(1)
    for talk in talks:
        talk.incr()
    judge(m, talks, name, ("reset",))
    m.leave_by(0)
    m.come_by(0)


@tap.case
def the_route_moves():
    with Machine() as m:
        move(m, True, False, "idle, replies leave by another interface")
        move(m, False, True, "idle, requests come by another interface")
        move(m, True, True, "idle, both")
        works(m, "the route is back")
        tap.ok(m.count("tcp_reset") == 12 and m.count("tcp_untranslated") > 0,
               "resets, and segments that were not translated, are counted")
        tap.is_(m.log().count("it is reset"), 1, "the log says so once")


def slow_reader(m, talk):
    """Asks for a large value and reads its beginning."""
    talk.c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    talk.c.send(b"get big\r\n")
    return talk.c.exactly(5000)


def read_rest(talk, begin):
    want = kernel.answer((b"big", BIG))
    talk.ask(b"", want[len(begin):])
    if not talk.end and begin != want[:len(begin)]:
        talk.end = "wrong beginning"


@tap.case
def the_route_moves_while_a_value_is_read():
    with Machine() as m:
        for out, into, name in ((True, False, "replies"), (True, True, "both")):
            talks = m.talks()
            begins = [slow_reader(m, talk) for talk in talks]
            if out:
                m.leave_by(1)
            if into:
                m.come_by(1)
            for talk, begin in zip(talks, begins):
                read_rest(talk, begin)
            judge(m, talks, "500 KB on their way, %s move" % name, ("reset",))
            m.leave_by(0)
            m.come_by(0)


@tap.case
def the_route_moves_and_comes_back_at_once():
    with Machine() as m:
        talks = m.talks()
        for talk in talks:
            talk.c.send(b"incr %s 1\r\n" % talk.key)
        m.leave_by(1)
        m.leave_by(0)
        for talk in talks:
            talk.ask(b"", b"%d\r\n" % (talk.told + 1))
            talk.told += not talk.end
            talk.incr()
        judge(m, talks, "a route that moves for a moment", (None,))


# --- programs, interfaces, addresses -----------------------------------------------------------

def cut(m, hooks):
    for program in netns.tc_programs("sv0", m.pair.server, hooks):
        if isinstance(program, int): # before Linux 6.6 they are filters
            netns.cut(program, "sv0", m.pair.server)


@tap.case
def programs_are_detached():
    for hooks in (("egress",), ("ingress",), ("ingress", "egress")):
        with Machine(links=1) as m:
            talks = m.talks()
            slow = m.talks(1, len(talks))[0]
            begin = slow_reader(m, slow)
            cut(m, hooks)
            for talk in talks:
                talk.incr()
                talk.gets()
            read_rest(slow, begin)
            tap.diag([talk.end or "goes on" for talk in talks + [slow]])
            judge(m, talks + [slow], "TC %s detached" % " and ".join(hooks), (None, "reset"))
            works(m, "it is attached again")


def goes_and_comes(away, back, name):
    """What the words of `ip` do, while a value is on its way and commands come."""
    with Machine(links=1) as m:
        talks = m.talks()
        begin = slow_reader(m, talks[0])
        m.server_ip(*away.split())
        for talk in talks[1:3]:
            talk.c.send(b"incr %s 1\r\n" % talk.key)
        m.server_ip(*back.split())
        read_rest(talks[0], begin)
        for talk in talks[1:3]:
            talk.ask(b"", b"%d\r\n" % (talk.told + 1))
            talk.told += not talk.end
        for talk in talks:
            talk.incr()
            talk.gets()
        judge(m, talks, name + " goes and comes", (None,))
        works(m, name + " is back")


@tap.case
def the_interface_goes_down():
    goes_and_comes("link set sv0 down", "link set sv0 up", "the interface")


@tap.case
def the_address_goes():
    goes_and_comes("address del 10.77.0.1/24 dev sv0", "address add 10.77.0.1/24 dev sv0",
                   "the address")


@tap.case
def two_interfaces_with_the_programs():
    with Machine(on=2) as m:
        talks = m.talks()
        begin = slow_reader(m, talks[0])
        m.leave_by(1)
        for talk in talks[1:]:
            talk.incr()
            talk.gets()
        m.come_by(1)
        for talk in talks[1:]:
            talk.incr()
            talk.gets()
        read_rest(talks[0], begin)
        judge(m, talks, "a move to an interface with the programs", (None,))


# --- interfaces above one another ----------------------------------------------------------------

@tap.case
def two_above_one_another_are_refused():
    with contextlib.closing(netns.Pair()) as pair:
        for words in (("add", "name", "br0", "type", "bridge"), ("set", "sv0", "master", "br0")):
            netns.sh("ip", "link", *words, namespace=pair.server)
        for words in ("bmc=sv0,bmc=br0", "bmc=br0,bmc=sv0"):
            status, _, err = server.run("-X", words + ",tcp=on", namespace=pair.server)
            tap.is_((status, err), (71, "bmc: br0 lies above sv0, and with tcp=on no segment may "
                                    "pass the programs of both: leave out bmc=br0, or what is "
                                    "beneath it\n"), words)


@tap.case
def one_is_put_beneath_another_one():
    pair = netns.Pair()
    netns.sh("ip", "link", "add", "name", "br0", "type", "bridge", namespace=pair.server)
    with Machine("bmc=br0,mode=tc", links=1, pair=pair) as m:
        talks = m.talks()
        begin = slow_reader(m, talks[0])
        mac = netns.link("sv0", pair.server)["address"]
        m.server_ip("link", "set", "br0", "address", mac, "up")
        m.server_ip("link", "set", "sv0", "master", "br0")
        m.server_ip("address", "del", "10.77.0.1/24", "dev", "sv0")
        m.server_ip("address", "add", "10.77.0.1/24", "dev", "br0")
        for talk in talks[1:]:
            talk.incr()
            talk.gets()
        read_rest(talks[0], begin)
        for talk in talks:
            talk.incr()
        tap.diag([talk.end or "goes on" for talk in talks])
        judge(m, talks, "a bridge above the interface, both with the programs", (None, "reset"))


# --- under load ----------------------------------------------------------------------------------

def pipeline(m, talk, stop):
    """Increments in bursts, until the connection ends or it is told to stop."""
    while not stop.is_set() and not talk.end:
        n = 20
        talk.ask((b"incr %s 1\r\nget none\r\n" % talk.key) * n,
                 b"".join(b"%d\r\nEND\r\n" % (talk.told + i + 1) for i in range(n)))
        talk.told += 0 if talk.end else n
        talk.gets(2)


@tap.case
def the_route_flaps():
    with Machine() as m:
        stop, done = threading.Event(), []

        def load(number):
            while not stop.is_set():
                talk = Talk(m, number)
                pipeline(m, talk, stop)
                done.append(talk)

        threads = [threading.Thread(target=load, args=(i,)) for i in range(100, 106)]
        # The thread is in the client's namespace, as this one is.
        for thread in threads:
            thread.start()
        end, link = time.monotonic() + 3, 0
        while time.monotonic() < end:
            link = 1 - link
            m.leave_by(link)
            if link:
                m.come_by(int(end * 20) % 2)
            time.sleep(0.05)
        m.leave_by(0)
        m.come_by(0)
        stop.set()
        for thread in threads:
            thread.join()
        found = {talk.end for talk in done}
        holds(found <= {None, "reset", "end"}, "every reply of %d connections is right, or they "
              "are reset" % len(done), found)
        works(m, "the route stands still")


tap.run(240)
