#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Connections on which the kernel has answered, while what carries their segments changes: routes
move to an interface without the programs and back, programs are detached, interfaces go down,
addresses go."""
import contextlib
import os
import threading
import time

import asking
import netns
import server
import tap
from lostway import (MISS, WAYS, Machine, Talk, cut, cut_xdp, each_family, holds, judge, read_rest,
                     slow_reader, works)


# --- routes ------------------------------------------------------------------------------------

def move(m, out, into, name):
    talks = m.talks()
    m.move(out, into)
    for talk in talks:
        talk.incr()
    judge(m, talks, name, (None,))
    m.move_back()


@each_family
def the_route_moves(v6):
    with Machine(v6=v6) as m:
        move(m, True, False, "idle, replies leave by another interface")
        move(m, False, True, "idle, requests come by another interface")
        move(m, True, True, "idle, both")
        works(m, "the route is back")
        tap.is_((m.count("tcp_undone_lost"), m.count("tcp_reset")), (12, 0),
                "connections that are given back to a socket are counted")
        tap.ok(m.count("tcp_untranslated") > 0, "and segments that were not translated")
        tap.is_(m.log().count("tcp_undone_lost"), 1, "the log says so once")


@each_family
def the_route_moves_while_a_value_is_read(v6):
    with Machine(v6=v6) as m:
        for out, into, name in WAYS:
            talks = m.talks()
            begins = [slow_reader(m, talk) for talk in talks]
            m.move(out, into)
            for talk, begin in zip(talks, begins):
                read_rest(talk, begin)
            judge(m, talks, "500 KB on their way, %s move" % name, (None,))
            m.move_back()


@each_family
def the_route_moves_and_comes_back_at_once(v6):
    with Machine(v6=v6) as m:
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


@each_family
def a_port_is_used_again_when_the_route_has_moved(v6):
    """What was known of the port's last connection is void, though the programs do not see the
    handshake's answer."""
    with Machine(v6=v6) as m:
        for comes_back in (False, True):
            talk = m.talks(1)[0]
            port, before = talk.c.sock.getsockname()[1], m.connections()
            talk.c.sock.setsockopt(*asking.RESET)
            talk.c.close()
            tap.ok(server.wait_for(lambda before=before: m.connections() == before - 1),
                   m.named("the server has closed the connection"))
            m.leave_by(1)
            again = Talk(m, 9, source=port)
            if comes_back:
                m.leave_by(0)
            again.gets()
            again.incr()
            judge(m, [again], "a port that is used again after the route has moved%s" %
                  (", which moves back" if comes_back else ""), (None,))
            m.move_back()


# --- turns -------------------------------------------------------------------------------------

# Requests that come in one segment, so that the server reads them all at once. The kernel would
# answer the gets, so it passes them for what comes first.
MANY = b"touch none 0\r\n" + b"get none\r\n" * 120
TO_MANY = b"NOT_FOUND\r\n" + MISS * 120


@tap.case
def the_connection_is_undone_between_its_turns():
    """In a turn one request is executed; the others wait in the server's memory."""
    with Machine(options=("-R", 1, "-t", 1)) as m:
        talks = m.talks(40)
        answered = m.count("tcp_answered")
        tap.at_once(lambda talk: all(talk.ask(MANY, TO_MANY) for _ in range(40)), talks)
        holds(not any(talk.end for talk in talks), "clients get a reply to each of many requests",
              [talk.end for talk in talks])
        tap.is_(m.count("tcp_answered"), answered, "the kernel answers none of them")
        tap.ok(m.count("tcp_undone_unused") > len(talks) / 2, "most are undone meanwhile")
        for talk in talks:
            talk.c.close()


# --- programs, interfaces, addresses -----------------------------------------------------------

@each_family
def programs_are_detached(v6):
    for hooks in (("egress",), ("ingress",), ("ingress", "egress")):
        with Machine(links=1, v6=v6) as m:
            talks = m.talks()
            slow = m.talks(1, len(talks))[0]
            begin = slow_reader(m, slow)
            cut(m, hooks)
            for talk in talks:
                talk.incr()
                talk.gets()
            read_rest(slow, begin)
            tap.diag([talk.end or "goes on" for talk in talks + [slow]])
            judge(m, talks + [slow], "TC %s detached" % " and ".join(hooks), (None,))
            works(m, "it is attached again")


@each_family
def the_xdp_program_is_detached(v6):
    with Machine(links=1, v6=v6) as m:
        talks = m.talks()
        slow = m.talks(1, len(talks))[0]
        begin = slow_reader(m, slow)
        cut_xdp(m)
        for talk in talks:
            talk.gets()
            talk.incr()
        read_rest(slow, begin)
        judge(m, talks + [slow], "the XDP program is detached", (None,))
        tap.ok(server.wait_for(lambda: netns.xdp_mode("sv0", m.pair.server)),
               m.named("it is attached again"))
        works(m, "it is attached again")


def delete_clsact(namespace):
    """Linux refuses that while filters are attached or looked for, as the server may just do."""
    def deleted():
        try:
            netns.sh("tc", "qdisc", "del", "dev", "sv0", "clsact", namespace=namespace)
        except RuntimeError as error:
            if "ongoing filter requests" not in str(error):
                raise
            return False
        return True

    tap.ok(server.wait_for(deleted), "clsact is deleted")


@each_family
def the_queueing_discipline_is_deleted(v6):
    """It holds the programs where TC has no room for links; elsewhere they stay."""
    for full in (False, True):
        pair = netns.Pair()
        links = netns.fill_tcx("sv0", pair.server) if full else []
        with Machine(v6=v6, links=1, pair=pair) as m:
            talks = m.talks()
            slow = m.talks(1, len(talks))[0]
            begin = slow_reader(m, slow)
            netns.sh("tc", "qdisc", "replace", "dev", "sv0", "clsact", namespace=pair.server)
            delete_clsact(pair.server)
            for talk in talks:
                talk.incr()
                talk.gets()
            read_rest(slow, begin)
            name = "clsact is deleted%s" % (", with a program of the server's" if full else "")
            judge(m, talks + [slow], name, (None, "reset") if full else (None,))
            works(m, name)
        for fd in links:
            os.close(fd)


def goes_and_comes(away, back, name, v6=False):
    """What the words of `ip` do, while a value is on its way and commands come."""
    with Machine(links=1, v6=v6) as m:
        if v6:
            netns.sh("sysctl", "-qw", "net.ipv6.conf.all.keep_addr_on_down=1",
                     namespace=m.pair.server)
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


@each_family
def the_interface_goes_down(v6):
    goes_and_comes("link set sv0 down", "link set sv0 up", "the interface", v6)


@each_family
def the_address_goes(v6):
    words = "%s dev sv0" % ("fd77:0::1/64" if v6 else "10.77.0.1/24")
    goes_and_comes("address del " + words, "address add %s nodad" % words if v6 else
                   "address add " + words, "the address", v6)


@each_family
def two_interfaces_with_the_programs(v6):
    with Machine(on=2, v6=v6) as m:
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
def one_is_put_beneath_another_one():
    """Each segment is translated once."""
    for stamped in (1, 0):
        pair = netns.Pair()
        with netns.inside(pair.client), \
             open("/proc/sys/net/ipv4/tcp_timestamps", "w", encoding="ascii") as file:
            file.write("%d" % stamped)
        netns.ip("link add name br0 type bridge", pair.server)
        with Machine("bmc=br0,mode=tc,unstamped=on", links=1, pair=pair) as m:
            talks = m.talks()
            tap.ok(m.count("tcp_answered") >= len(talks), "the kernel answers")
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
            judge(m, talks, "a bridge above the interface, both with the programs, %s timestamps" %
                  ("with" if stamped else "without"), (None,))


# --- under load ----------------------------------------------------------------------------------

def pipeline(m, talk, stop):
    """Increments in bursts, until the connection ends or it is told to stop."""
    while not stop.is_set() and not talk.end:
        n = 20
        talk.ask((b"incr %s 1\r\nget none\r\n" % talk.key) * n,
                 b"".join(b"%d\r\nEND\r\n" % (talk.told + i + 1) for i in range(n)))
        talk.told += 0 if talk.end else n
        talk.gets(2)


@each_family
def the_route_flaps(v6):
    with Machine(v6=v6) as m:
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
        m.move_back()
        stop.set()
        for thread in threads:
            thread.join()
        found = {talk.end for talk in done}
        holds(found <= {None, "reset", "end"}, m.named("every reply of %d connections is right, or "
              "they are reset" % len(done)), found)
        works(m, "the route stands still")


tap.run(240)
