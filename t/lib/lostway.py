# SPDX-License-Identifier: BSD-3-Clause
"""lostway: connections on which the kernel has answered, whose segments take a path without its
programs. Each client gets the right bytes, or an end or a reset, and does not wait for ever."""
import socket

import client
import kernel
import netns
import server
import tap

HANG = 20 * tap.SLOW # seconds without a byte
BIG = bytes(i * 7 % 251 for i in range(500000))
MISS = b"END\r\n"

netns.Pair().close() # where that cannot be made the test is skipped, which no thread may do


class Talk:
    """A connection that knows the replies it must get. `end` is how it ended: None, "reset", "end",
    "hang", or what was wrong. source: the client's port; at: its address."""

    def __init__(self, m, number, source=0, at=""):
        self.key = b"n%d" % number
        self.end, self.told = None, 0
        self.c = client.Stream(None, sock=socket.create_connection(
            (m.address(), m.port), HANG, (at, source)))
        self.c.sock.settimeout(HANG)
        self.c.set(self.key, b"0")

    def ask(self, request, want):
        """Whether the answer is the right one."""
        if self.end:
            return False
        try:
            if request:
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

    def await_end(self):
        """Of a connection on which nothing more is to come."""
        self.ask(b"", b"?")

    def is_counted_once(self, control):
        """What was not acknowledged may have been counted."""
        have = int(control.get(self.key))
        return self.told <= have <= self.told + (self.end is not None)


class Machine(server.Server):
    """A server with the programs on sv0, and without them on sv1; this process is its client, over
    IPv6 if v6. kernel_path=False: one without -X."""

    def __init__(self, *words, v6=False, options=(), links=2, on=1, pair=None, kernel_path=True):
        self.pair, self.v6, self.links = pair or netns.Pair(links), v6, links
        self.kernel_path = kernel_path
        netns.enter(self.pair.client)
        self.pair.accept_any_source()
        bmc = ",".join(["bmc=" + self.pair.interface(i) for i in range(on)] + ["tcp=on", *words])
        super().__init__("-m", 256, *(("-X", bmc) if kernel_path else ()), *options,
                         namespace=self.pair.server, host=self.address(links - 1),
                         listen="[::]" if v6 else "0.0.0.0")
        self.control = self.stream()
        self.control.set(b"big", BIG)

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        self.pair.close()

    def address(self, link=0):
        """The server's, by which connections are made; the last is that of the control."""
        return "fd77:%d::1" % link if self.v6 else self.pair.address(link)

    def named(self, name):
        return "IPv%d, %s" % (6 if self.v6 else 4, name)

    def count(self, row):
        return int(self.control.stats("bmc")[row])

    def connections(self):
        return int(self.control.stats()["curr_connections"])

    def talks(self, n=4, first=0):
        """Connections on which the kernel has answered, if the server has it."""
        talks = [Talk(self, first + i) for i in range(n)]
        for talk in talks if self.kernel_path else ():
            for _ in range(20):
                before = self.count("tcp_answered")
                talk.gets()
                talk.incr()
                if self.count("tcp_answered") > before:
                    break
        return talks

    def server_ip(self, *words):
        netns.sh("ip", *words, namespace=self.pair.server)

    def _route(self, namespace, device, last, link):
        """No machine says over IPv6 that it has an address of another of its interfaces."""
        words = ["10.77.0.%d/32" % last]
        if self.v6:
            words = ["fd77:0::%d/128" % last] + (["via", "fd77:1::%d" % last] if link else [])
        netns.sh("ip", "-6" if self.v6 else "-4", "route", "replace", *words, "dev",
                 "%s%d" % (device, link), namespace=namespace)

    def leave_by(self, link):
        """What the server sends to the client takes this link."""
        self._route(self.pair.server, "sv", 2, link)

    def come_by(self, link):
        self._route(self.pair.client, "cl", 1, link)

    def move(self, out, into):
        """What the server sends takes the link without the programs (out), what it gets (into)."""
        if out:
            self.leave_by(1)
        if into:
            self.come_by(1)

    def move_back(self):
        self.leave_by(0)
        self.come_by(0)


def in_each_family(function):
    """The function runs over IPv4 and, on other machines and at the same time, over IPv6, which it
    is told. Most of its time it waits for timers of TCP."""
    def each():
        tap.at_once(function, (False, True))
    each.__name__ = function.__name__
    return each


def each_family(function):
    """A case that does so."""
    return tap.case(in_each_family(function))


def cut(m, hooks):
    """Detaches the server's programs from these hooks of sv0."""
    for program in netns.tc_programs("sv0", m.pair.server, hooks):
        if isinstance(program, int): # before Linux 6.6 they are filters
            netns.cut(program, "sv0", m.pair.server)


def cut_xdp(m):
    xdp = netns.link("sv0", m.pair.server).get("xdp")
    if xdp: # or another has detached it
        netns.cut(xdp["prog"]["id"], "sv0", m.pair.server)


WAYS = ((True, False, "replies"), (False, True, "requests"), (True, True, "both"))


def holds(passed, name, found):
    if not tap.ok(passed, name):
        tap.diag(found)


def judge(m, talks, name, ends=("reset", "end", None)):
    found, name = [talk.end for talk in talks], m.named(name)
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
          "%s: new connections are answered as before" % m.named(name), talks[0].end)
    talks[0].c.close()


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
