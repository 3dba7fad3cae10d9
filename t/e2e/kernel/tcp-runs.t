#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Commands in flight on one connection, each in a segment of its own: the kernel answers a get
behind replies that its client has not acknowledged, and each reply is that of its command, in
order, whatever lies between and whatever the network does."""
import contextlib
import random

import cable
import netns
import server
import tap
from tcppath import answered_on, counts, machines

BAD = ("--loss", 0.01, "--duplicate", 0.05, "--reorder", 0.05, "--jitter", 1)
SHORT = (1, 30)  # bytes of values of which a dozen fit a segment
ANY = (1, 30, 100, 400, 1300, 3000)
KEYS = 12

rng = random.Random(3030)


class Commands:
    """What is asked on a connection, which is the only one that writes its keys."""

    def __init__(self, sizes, sets):
        self.sizes, self.sets, self.values = sizes, sets, {}

    def set(self, key, tail=b""):
        self.values[key] = rng.randbytes(rng.choice(self.sizes))
        return b"set key-%d 0 0 %d%s\r\n%s\r\n" % (key, len(self.values[key]), tail,
                                                  self.values[key])

    def get(self, key):
        value = self.values.get(key)
        if value is None:
            return b"get key-%d\r\n" % key, b"END\r\n"
        return (b"get key-%d\r\n" % key,
                b"VALUE key-%d 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value))

    def next(self):
        """Request and reply."""
        key = rng.randrange(KEYS)
        if rng.random() >= self.sets:
            return self.get(key)
        return (self.set(key, b" noreply"), b"") if rng.randrange(2) else (self.set(key),
                                                                         b"STORED\r\n")


def ask(c, commands, n, depth):
    """n commands, up to `depth` in flight. Whether all replies are right."""
    waiting, asked = [], 0
    while asked < n or waiting:
        while asked < n and len(waiting) < depth:
            request, reply = commands.next()
            c.send(request)
            waiting.append(reply)
            asked += 1
        want = waiting.pop(0)
        if c.exactly(len(want)) != want:
            return False
    return True


@contextlib.contextmanager
def asked(pair, sizes, sets, mode="native", words=("refresh=3600",)):
    """A server, a connection on which the kernel has answered, and its commands."""
    with machines(pair, *words, mode=mode) as m:
        commands = Commands(sizes, sets)
        control = m.stream()
        for key in range(KEYS - 1): # the last one is missing
            tap.is_(control.ask(commands.set(key)), b"STORED\r\n", "an item is stored") \
                if key == 0 else control.ask(commands.set(key))
        yield m, answered_on(m), commands


@tap.case
def behind_replies_that_are_on_their_way():
    for mode in ("native", "tc"):
        with asked(cable.Pair("--delay", 0.2), SHORT, 0, mode) as (m, c, commands):
            before = counts(m)
            tap.ok(ask(c, commands, 1500, 12), "mode=%s: each reply is its get's" % mode)
            grown = {key: n - before[key] for key, n in counts(m).items() if n != before[key]}
            tap.ok(grown["tcp_answered"] > 1400, "the kernel answers")
            tap.diag(grown)


@tap.case
def more_than_fits_a_segment():
    with asked(cable.Pair("--delay", 0.2), ANY, 0) as (m, c, commands):
        tap.ok(all(ask(c, commands, 30, 30) for _ in range(50)), "each reply is its get's")
        grown = counts(m)
        tap.ok(grown["tcp_pass_kept"] + grown["tcp_pass_window"] > 0 and
               grown["tcp_answered"] > 30, "some the kernel answers, some are passed")
        tap.diag({key: n for key, n in grown.items() if n})


@tap.case
def with_sets_between():
    for bad in ((), BAD):
        for sizes in (SHORT, ANY):
            with asked(cable.Pair(*bad), sizes, 0.1) as (m, c, commands):
                tap.ok(ask(c, commands, 1500, 12),
                       "each get finds what the sets before it have stored%s" %
                       (", on a bad network" if bad else ""))
                grown = counts(m)
                tap.ok(grown["tcp_answered"] > 10, "the kernel answers")
                tap.diag({key: n for key, n in grown.items() if n})


@tap.case
def that_are_lost():
    """Copies come by themselves, and ask for no others."""
    with asked(cable.Pair("--loss-ab", 0.05, "--delay", 0.2), SHORT, 0) as (m, c, commands):
        tap.ok(ask(c, commands, 1500, 12), "each reply is its get's")
        grown = counts(m)
        tap.ok(0 < grown["tcp_resent"] < 400, "%d times replies were sent again" %
               grown["tcp_resent"])
        tap.diag({key: n for key, n in grown.items() if n})


@tap.case
def while_the_connection_is_undone():
    pair = cable.Pair()
    with asked(pair, SHORT, 0) as (m, c, commands):
        with netns.inside(pair.server):
            home = m.stream()

        def counted(name):
            return int(home.stats("bmc")[name])

        pair.unplug()
        pair.plug(0, "--loss-ab", 1) # no reply arrives
        before, waiting = counted("tcp_answered"), []
        for _ in range(12):
            request, reply = commands.next()
            c.send(request)
            waiting.append(reply)
        tap.ok(server.wait_for(lambda: counted("tcp_answered") - before == 12),
               "the kernel has answered all that is in flight")
        tap.is_(home.ask(b"bmc off\r\n"), b"OK\r\n", "it is switched off")
        tap.ok(server.wait_for(lambda: counted("tcp_undone_off") == 1),
               "and the connection undone")
        pair.unplug()
        pair.plug()
        tap.is_(c.exactly(sum(map(len, waiting))), b"".join(waiting),
                "the next socket sends all replies")
        tap.ok(ask(c, commands, 100, 12), "and those to what follows")


tap.run()
