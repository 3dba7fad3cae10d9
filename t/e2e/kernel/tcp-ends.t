#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""A server that ends connections on which the kernel has answered, stops or is killed, also just
after the route has moved to an interface without the programs."""
import contextlib
import os
import signal
import socket
import time

import netns
import server
import tap
from lostway import (WAYS, Machine, Talk, each_family, holds, in_each_family, judge, read_rest,
                     slow_reader, works)


def await_ends(m, talks, name, ends):
    begin = time.monotonic()
    for talk in talks:
        talk.await_end()
    tap.diag("%s: after %.1f s" % (m.named(name), time.monotonic() - begin))
    judge(m, talks, name, ends)


def quit_all(talks):
    for talk in talks:
        talk.c.send(b"quit\r\n")


@each_family
def the_server_ends_connections(v6):
    """Its end of the stream takes the way without the programs, and the client cannot take it."""
    with Machine(v6=v6) as m:
        for out, into, name in WAYS:
            quits, halves, readers = m.talks(), m.talks(4, 4), m.talks(4, 8)
            begins = [slow_reader(m, talk) for talk in readers]
            m.move(out, into)
            quit_all(quits + readers)
            for talk in halves:
                talk.c.sock.shutdown(socket.SHUT_WR)
            await_ends(m, quits, "%s move, and a quit" % name, ("end",))
            await_ends(m, halves, "%s move, and the client's end" % name, ("end",))
            for talk, begin in zip(readers, begins):
                read_rest(talk, begin)
            judge(m, readers, "%s move, and a quit behind 500 KB" % name, (None,))
            m.move_back()
        works(m, "the route is back")


@each_family
def ends_where_nothing_moves(v6):
    with Machine(v6=v6) as m:
        quits, halves, readers = m.talks(), m.talks(4, 4), m.talks(4, 8)
        begins = [slow_reader(m, talk) for talk in readers]
        quit_all(quits + readers)
        for talk in halves:
            talk.c.sock.shutdown(socket.SHUT_WR)
        for talk, begin in zip(readers, begins):
            read_rest(talk, begin)
        holds(not any(talk.end for talk in readers), m.named("500 KB before a quit come whole"),
              [talk.end for talk in readers])
        await_ends(m, quits + halves + readers, "nothing moves", ("end",))
        tap.is_(m.count("tcp_reset"), 0, m.named("nothing is reset"))


@each_family
def the_route_moves_behind_a_quit(v6):
    """While the server waits until its client has acknowledged the end, behind a large value."""
    with Machine(v6=v6) as m:
        for out, into, name in WAYS:
            talks = m.talks()
            begins = [slow_reader(m, talk) for talk in talks]
            quit_all(talks)
            m.move(out, into)
            for talk, begin in zip(talks, begins):
                read_rest(talk, begin)
            judge(m, talks, "%s move behind a quit" % name, (None,))
            m.move_back()


def end_unheard(m, talks):
    """The server ends the connections, and its clients neither get nor send anything until the
    descriptors are closed that this returns."""
    before = m.connections()
    m.pause()
    quit_all(talks)
    losses = netns.attach_loss("cl0", m.pair.client, 1)
    m.resume()
    tap.ok(server.wait_for(lambda: m.connections() <= before - len(talks)),
           m.named("the server ends connections"))
    return losses


@each_family
def the_route_moves_behind_an_end_that_is_lost(v6):
    """The programs have seen the end of the stream; of the copies that follow they see none."""
    with Machine(v6=v6) as m:
        talks = m.talks()
        losses = end_unheard(m, talks)
        m.move(True, False)
        for fd in losses:
            os.close(fd)
        await_ends(m, talks, "the end is lost, and replies move", ("end",))


@each_family
def clients_are_silent_behind_a_quit(v6):
    """For longer than the server waits: sockets that need no programs tell them of the end."""
    with Machine(v6=v6) as m:
        talks = m.talks()
        losses = end_unheard(m, talks)
        tap.ok(server.wait_for(lambda: m.count("tcp_undone_unused") == len(talks), 30),
               m.named("the connections of clients that are silent are undone"))
        for fd in losses:
            os.close(fd)
        await_ends(m, talks, "clients are silent", ("end",))


@tap.case
@tap.uninterrupted(1.5)
@in_each_family
def idle_connections_are_ended(v6):
    with Machine(v6=v6, options=("-o", "idle_timeout=3")) as m:
        for out, into, name in WAYS[0], WAYS[2]:
            talks = m.talks()
            m.move(out, into)
            for talk in talks:
                talk.await_end()
            m.control = m.stream()
            judge(m, talks, "%s move, and idle_timeout" % name, ("end",))
            m.move_back()
        talks = m.talks()
        for talk in talks:
            talk.await_end()
        m.control = m.stream()
        judge(m, talks, "idle_timeout where nothing moves", ("end",))


def told(m, talks, name, ends=("reset", "end")):
    """Of connections of a server that is no more."""
    holds(all(talk.end in ends for talk in talks), "%s: %s" % (m.named(name), " or ".join(ends)),
          [talk.end for talk in talks])
    for talk in talks:
        talk.c.close()


def nothing_is_left(m):
    holds(server.wait_for(lambda: not netns.tc_programs("sv0", m.pair.server) and
                          not netns.xdp_mode("sv0", m.pair.server)),
          m.named("nothing is left attached"), netns.tc_programs("sv0", m.pair.server))


@each_family
def the_server_ends(v6):
    """With SIGTERM, or by a client's command."""
    for out, into, name in WAYS:
        with Machine(v6=v6, options=("-A",)) as m:
            talks, readers = m.talks(), m.talks(2, 4)
            begins = [slow_reader(m, talk) for talk in readers]
            m.move(out, into)
            if into and not out:
                m.control.send(b"shutdown\r\n")
                m.wait()
            else:
                m.stop()
            for talk in talks:
                talk.await_end()
            told(m, talks, "%s move, and the server ends" % name)
            for talk, begin in zip(readers, begins):
                read_rest(talk, begin)
            told(m, readers, "%s move, and the server ends while 500 KB are read" % name)
            nothing_is_left(m)


# --- the undo process is killed ----------------------------------------------------------------

def kill_undo_process(m):
    with open("/proc/%d/task/%d/children" % (m.pid, m.pid), encoding="ascii") as file:
        child, = file.read().split()
    os.kill(int(child), signal.SIGKILL)


@each_family
def without_the_process_that_undoes(v6):
    """Clients are told when they next send, and the kernel begins to answer on no connection."""
    for out, into, name in WAYS:
        with Machine(v6=v6) as m:
            talks = m.talks()
            kill_undo_process(m)
            for talk in talks:
                talk.gets()
                talk.incr()
            holds(not any(talk.end for talk in talks), m.named("connections go on without it"),
                  [talk.end for talk in talks])
            m.move(out, into)
            for talk in talks:
                talk.incr()
            judge(m, talks, "%s move without the undo process" % name, ("reset", "end"))
            server.logged(m, "the undo process has ended")
            m.move_back()
            followed = m.count("tcp_connections")
            new = Talk(m, 4)
            new.gets(10)
            new.incr()
            judge(m, [new], "%s are back, a new connection" % name, (None,))
            tap.is_(m.count("tcp_connections"), followed, m.named("%s: it is not followed" % name))


# --- the server is killed, or stopped ----------------------------------------------------------

@each_family
def the_server_is_killed(v6):
    """Each client is told when it sends its next request."""
    for out, into, name in WAYS:
        with Machine(v6=v6) as m:
            talks, readers = m.talks(), m.talks(2, 4)
            begins = [slow_reader(m, talk) for talk in readers]
            m.move(out, into)
            for talk in talks[:2]:
                talk.c.send(b"incr %s 1\r\n" % talk.key)
            m.kill()
            for talk in talks[2:] + readers:
                with contextlib.suppress(ConnectionError):
                    talk.c.send(b"get none\r\n")
            for talk in talks[:2]:
                if not talk.ask(b"", b"%d\r\n" % (talk.told + 1)):
                    continue
                talk.incr()
            for talk in talks[2:]:
                talk.await_end()
            told(m, talks, "%s move, and the server is killed" % name)
            for talk, begin in zip(readers, begins):
                read_rest(talk, begin)
            told(m, readers, "%s move, and it is killed while 500 KB are read" % name)
            nothing_is_left(m)


@each_family
def the_server_is_stopped(v6):
    with Machine(v6=v6) as m:
        for out, into, name in WAYS:
            talks, readers = m.talks(), m.talks(2, 4)
            begins = [slow_reader(m, talk) for talk in readers]
            m.pause()
            m.move(out, into)
            for talk in talks:
                talk.c.send(b"incr %s 1\r\n" % talk.key)
            m.resume()
            for talk in talks:
                talk.ask(b"", b"%d\r\n" % (talk.told + 1))
                talk.told += not talk.end
            judge(m, talks, "%s move while the server is stopped" % name, (None,))
            for talk, begin in zip(readers, begins):
                read_rest(talk, begin)
            judge(m, readers, "%s move, it is stopped, and 500 KB are read" % name, (None,))
            m.move_back()
            talks = m.talks()
            m.pause()
            m.move(out, into)
            for talk in talks:
                talk.c.send(b"incr %s 1\r\n" % talk.key)
            m.move_back()
            m.resume()
            for talk in talks:
                talk.ask(b"", b"%d\r\n" % (talk.told + 1))
                talk.told += not talk.end
                talk.incr()
            judge(m, talks, "%s move and come back while it is stopped" % name, (None,))
        works(m, "it runs, and the route is back")


tap.run()
