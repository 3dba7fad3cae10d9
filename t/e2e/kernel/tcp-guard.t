#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Replies that would leave by an interface without the programs, to a client that takes whatever
has the right numbers, of whatever age: it gets no byte that is not translated."""
import contextlib
import itertools
import os
import select

import asking
import cgroup
import kernel
import netns
import openfiles
import segments
import server
import tap

SIZES = (1500, 100000)
OFTEN = 3 # times within a minute: the guard does not come back
AWAY = 1 # the link whose interface at the server has no programs
ports = itertools.count(2000)

if not cgroup.unified():
    tap.skip_all("no cgroup of version 2 is mounted")


def value(n):
    return bytes(i * 7 % 251 for i in range(n))


@contextlib.contextmanager
def machines(prefix=(), words=("tcp=on", "unstamped=on")):
    pair = netns.Pair(2)
    pair.accept_any_source()
    for i in range(2):
        netns.offloads_off("sv%d" % i, pair.server)
        netns.offloads_off("cl%d" % i, pair.client)
    with kernel.Machines("-m", 256, words=words, pair=pair, prefix=prefix) as m:
        for n in SIZES:
            m.tcp.set(b"%d" % n, value(n))
        yield m


def count(m, row):
    return int(m.tcp.stats("bmc")[row])


def undone(m):
    return sum(int(n) for row, n in m.tcp.stats("bmc").items() if row.startswith("tcp_undone_"))


class Client(segments.Peer):
    """Reads from both links. `wrong` has what came with the wrong bytes or numbers."""

    def __init__(self, m, stamped=True):
        self.away, self.want, self.wrong = segments.Wire(m.pair, "cl%d" % AWAY), b"", []
        self.asked, self.m, self.is_reset = [], m, False
        super().__init__(m, next(ports), stamped=stamped)
        self.first, self.asked = self.ack, [self.seq] * 2

    def receive(self, seconds=segments.SECONDS):
        wires = {wire.sock: wire for wire in (self.wire, self.away)}
        found = (None, None)
        while found and found[:2] != (self.server, self.at):
            ready = select.select(list(wires), [], [], seconds)[0]
            found = wires[ready[0]].receive(0.01) if ready else None
        if not found:
            return None
        segment = found[2]
        if self.asked:
            self._judge(segment)
        if segment.tsval is not None:
            self.tsecr = segment.tsval
        self.is_reset |= bool(segment.flags & segments.RST)
        return segment

    def _judge(self, segment):
        at = (segment.seq - self.first) % 2**32
        if segment.text != self.want[at:at + len(segment.text)] or \
                (segment.flags & segments.ACK and segment.ack not in self.asked[-2:]):
            self.wrong.append(segment)
        elif at <= (self.ack - self.first) % 2**32 < at + len(segment.text):
            self.ack = (segment.seq + len(segment.text)) % 2**32

    def request(self, text, want):
        self.want += want
        self.push(text)
        self.asked.append(self.seq % 2**32)

    def has_all(self):
        return (self.ack - self.first) % 2**32 == len(self.want)

    def read(self, upto=None):
        """Until all has come, or so many bytes of all, or the connection is reset. False: nothing
        comes any more."""
        while not self.has_all() and not self.is_reset:
            before = self.ack
            if not self.receive():
                return False
            if self.ack != before:
                self.send()
            if upto and (self.ack - self.first) % 2**32 >= upto:
                break
        return True

    def get(self, n):
        self.request(b"get %d\r\n" % n, kernel.answer((b"%d" % n, value(n))))

    def is_answered(self):
        """Asks until the kernel has answered some."""
        before = count(self.m, "tcp_answered")
        for i in range(6):
            self.request(b"get none%d\r\n" % i, b"END\r\n")
            self.read()
        return count(self.m, "tcp_answered") > before

    def move(self, link):
        """What the server sends to it leaves by this link."""
        netns.ip("neighbour replace %s lladdr %s dev sv%d nud permanent" %
                 (self.at[0], segments.mac_of("cl%d" % link, self.m.pair.client).hex(":"), link),
                 self.m.pair.server)
        netns.ip("route replace %s/32 dev sv%d" % (self.at[0], link), self.m.pair.server)

    def hold(self):
        """What the server sends to it waits, until move(), for this client to say its MAC address,
        in the kernel: behind the guard, and before TC egress."""
        with netns.inside(self.m.pair.server):
            with open("/proc/sys/net/ipv4/neigh/sv0/mcast_solicit", "w", encoding="ascii") as file:
                file.write("1000")
        netns.ip("neighbour del %s dev sv0" % self.at[0], self.m.pair.server)

    def is_held(self):
        with netns.inside(self.m.pair.server):
            return "INCOMPLETE" in netns.ip("neighbour show %s dev sv0" % self.at[0])

    def close(self):
        self.away.close()
        super().close()
        self.move(0)


def judge(m, p, name, ends):
    tap.ok(not p.wrong, "%s: no byte and no number is wrong" % name)
    for segment in p.wrong[:5]:
        tap.diag("%s, %s" % (segment._replace(text=segment.text[:20]),
                             [segment.ack - ack for ack in p.asked]))
    tap.ok(ends, "%s: it ends, or goes on" % name)
    tap.ok(count(m, "tcp_guarded") > 0, "%s: segments were held back" % name)


@tap.case
def a_reply_would_leave_by_another_interface():
    with machines() as m:
        tap.is_(count(m, "tcp_guard"), 1, "the guard is there")
        for stamped in (True, False):
            for n in SIZES:
                name = "%d bytes, %s timestamps" % (n, "with" if stamped else "without")
                with contextlib.closing(Client(m, stamped)) as p:
                    tap.ok(p.is_answered(), name + ": the kernel answers")
                    p.get(SIZES[0])
                    p.read()
                    tap.ok(p.is_answered(), name + ": and again behind a reply of the server's")
                    p.move(AWAY)
                    p.get(n)
                    judge(m, p, name, p.read())


@tap.case
def the_route_moves_within_a_reply():
    with machines() as m:
        with contextlib.closing(Client(m)) as p:
            tap.ok(p.is_answered(), "the kernel answers")
            p.get(SIZES[1])
            p.read(upto=20000)
            p.move(AWAY)
            judge(m, p, "within 100,000 bytes", p.read())


@tap.case
def a_reply_is_held_while_its_socket_is_replaced():
    """It leaves when another socket has the connection, and the programs know it no more."""
    with machines() as m:
        for stamped in (True, False):
            name = "%s timestamps" % ("with" if stamped else "without")
            with contextlib.closing(Client(m, stamped)) as p:
                tap.ok(p.is_answered(), name + ": the kernel answers")
                before, dropped = undone(m), count(m, "tcp_dropped")
                p.hold()
                p.get(SIZES[0])
                tap.ok(server.wait_for(p.is_held), name + ": what the server sends is held")
                tap.ok(server.wait_for(lambda: undone(m) > before), name + ": it is undone")
                p.move(0)
                ends = p.read()
                tap.ok(not p.wrong and ends and p.has_all(),
                       name + ": the client gets all of it, and no wrong number")
                tap.ok(count(m, "tcp_dropped") > dropped, name + ": what was held is dropped")


@tap.case
def a_connection_without_answers_may_leave_by_any():
    with machines() as m:
        with contextlib.closing(Client(m)) as p:
            p.move(AWAY)
            p.get(SIZES[1])
            p.read()
            tap.ok(p.has_all() and not p.wrong, "the server's reply comes by the other interface")
        with contextlib.closing(Client(m)) as p:
            p.get(SIZES[0])
            p.read()
            p.move(AWAY)
            p.get(SIZES[1])
            p.read()
            tap.ok(p.has_all() and not p.wrong, "also after the first, which the programs saw")
            tap.ok(not p.is_answered(), "the kernel answers nothing where replies leave unseen")
        tap.is_(count(m, "tcp_guarded"), 0, "nothing was held back")


@tap.case
def the_server_is_moved_to_another_group():
    """Its sockets stay in the group that its listening socket was made in."""
    with contextlib.closing(cgroup.Group()) as first, \
            contextlib.closing(cgroup.Group()) as second, machines(prefix=first.prefix()) as m:
        for name in "where it was", "after a move":
            with contextlib.closing(Client(m)) as p:
                tap.ok(p.is_answered(), "%s: the kernel answers" % name)
                p.move(AWAY)
                p.get(SIZES[0])
                judge(m, p, name, p.read())
            second.take(m.server.process.pid)


@tap.case
def a_server_without_such_a_group():
    script = ("umount -l $(awk '$3 == \"cgroup2\" { print $2 }' /proc/self/mounts | sort -u) && "
              "exec \"$@\"")
    with machines(prefix=("unshare", "-m", "sh", "-c", script, "sh")) as m:
        tap.is_(count(m, "tcp_guard"), 0, "there is no guard")
        tap.like(m.server.log(), r"no guard on what leaves over TCP \(there is no cgroup of "
                 r"version 2\): .*mount cgroup2", "the log says why, and what to do")
        only_where_all_have_the_programs(m)


def detach_guard(m):
    """As an administrator would."""
    pid = m.server.process.pid
    guards = [fd for fd, info in openfiles.infos(pid).items() if info.get("link_type") == "cgroup"]
    files = openfiles.copies(pid, "anon_inode:bpf")
    for fd in guards:
        netns.detach_link(files[fd])
    for copy in files.values():
        os.close(copy)


def answers(m):
    """How many of some gets on a new connection the kernel answers."""
    before = count(m, "tcp_answered")
    with contextlib.closing(m.server.stream()) as talk:
        for _ in range(6):
            asking.wrong_in(talk, [asking.MISS])
    return count(m, "tcp_answered") - before


def only_where_all_have_the_programs(m):
    """sv1 has none."""
    says = r"segments may leave by sv1, which has no kernel programs: .*unless you add bmc=sv1"
    tap.like(m.server.log(), says, "the log names an interface without the programs")
    before = count(m, "tcp_connections")
    tap.is_([count(m, "tcp_bypass"), answers(m)], [1, 0], "the kernel answers nothing over TCP")
    tap.is_(count(m, "tcp_connections"), before, "and follows no connection")
    netns.ip("link set sv1 down", m.pair.server)
    tap.ok(server.wait_for(lambda: not count(m, "tcp_bypass")) and answers(m),
           "with that down it answers")
    with contextlib.closing(Client(m, stamped=False)) as p:
        tap.ok(not p.is_answered(), "but never without timestamps")
    with contextlib.closing(Client(m)) as p:
        tap.ok(p.is_answered(), "also one that reads by hand")
        before = undone(m)
        netns.ip("link set sv1 up", m.pair.server)
        tap.ok(server.wait_for(lambda: undone(m) > before), "when that is up again it is undone")
        tap.is_([count(m, "tcp_bypass"), answers(m)], [1, 0], "and the kernel answers nothing")
        p.get(SIZES[0])
        tap.ok(p.read() and p.has_all() and not p.wrong, "the connection goes on")


SAYS = "another process has detached the guard"


@tap.case
def another_process_detaches_the_guard():
    with machines() as m, contextlib.closing(Client(m)) as p:
        tap.ok(p.is_answered(), "the kernel answers")
        before = undone(m)
        detach_guard(m)
        tap.is_(server.logged(m.server, SAYS + " on what leaves over TCP: it is attached again"), 1,
                "the guard is attached again, and the log says so")
        tap.is_((count(m, "tcp_guard"), count(m, "tcp_bypass"), undone(m)), (1, 0, before),
                "nothing is undone")
        tap.ok(p.is_answered() and answers(m), "the kernel goes on answering, also on new ones")
        p.move(AWAY)
        p.get(SIZES[0])
        judge(m, p, "by another interface", p.read())
        with contextlib.closing(Client(m, stamped=False)) as other:
            tap.ok(not other.is_answered(), "but none without timestamps")


@tap.case
def another_process_detaches_the_guard_for_good():
    with machines() as m:
        tap.ok(answers(m), "the kernel answers")
        with contextlib.closing(Client(m)) as p:
            tap.ok(p.is_answered(), "also one that reads by hand")
            before = undone(m)
            for i in range(OFTEN):
                detach_guard(m)
                tap.is_(server.logged(m.server, SAYS, i + 1), i + 1, "the log says so")
            tap.ok(server.wait_for(lambda: undone(m) > before), "without the guard it is undone")
            p.get(SIZES[0])
            tap.ok(p.read() and p.has_all() and not p.wrong, "the connection goes on")
        tap.is_(m.server.log().count("not attached again (too often): restart the server"), 1,
                "the log says so and what to do, once")
        only_where_all_have_the_programs(m)


@tap.case
def without_timestamps_only_if_asked_for():
    with machines(words=("tcp=on",)) as m:
        with contextlib.closing(Client(m, stamped=False)) as p:
            tap.ok(not p.is_answered(), "the kernel answers nothing without unstamped=on")
        with contextlib.closing(Client(m)) as p:
            tap.ok(p.is_answered(), "with timestamps it does")


tap.run()
