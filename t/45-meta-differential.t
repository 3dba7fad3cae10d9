#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random streams of meta commands, answered by this server and by Debian's memcached 1.6.18.

The answers are the same byte for byte, CAS ids included, but for me's slab class and size, for
the seconds since the last use, which 1.6.18 notes now and then, for seconds that tick between the
two, and for what t/lib/metagen.py lists. PEER names the other
program, COMMANDS says how many there are of each kind, SEED where they begin.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "lib"))
import metagen
import server
import tap

PEER = os.environ.get("PEER", "/usr/bin/memcached")
COMMANDS = int(os.environ.get("COMMANDS", "6000"))
SEED = int(os.environ.get("SEED", "1"))
SECONDS = re.compile(rb"(?<= t)\d+|(?<=exp=)-?\d+")
LAST_USE = re.compile(rb"(?<= l)\d+|(?<= la=)\d+")
OVER = 4000000000  # a time that is over, modulo 2^32

if not os.access(PEER, os.X_OK):
    tap.skip_all("%s is not there" % PEER)


def start_peer():
    """Without the threads that hold an item now and then, which changes what incr does."""
    ours = os.environ.get("MEMCACHED")
    os.environ["MEMCACHED"] = PEER
    try:
        return server.Server("-o", "no_lru_maintainer,no_lru_crawler", threads=1)
    finally:
        if ours is None:
            del os.environ["MEMCACHED"]
        else:
            os.environ["MEMCACHED"] = ours


def same(ours, theirs):
    ours, theirs = (LAST_USE.sub(b"", re.sub(rb"(?m)^(ME .*) cls=\d+ size=\d+", rb"\1", a))
                    for a in (ours, theirs))
    if ours == theirs:
        return True
    if SECONDS.sub(b"", ours) != SECONDS.sub(b"", theirs):
        return False
    pairs = zip(map(int, SECONDS.findall(ours)), map(int, SECONDS.findall(theirs)))
    return all(abs(a - b) <= 2 or min(a, b) > OVER for a, b in pairs)


class Pair:
    def __init__(self):
        self.servers = (server.Server(threads=1), start_peer())
        self.streams = [s.stream() for s in self.servers]
        for stream in self.streams:
            stream.all(b"")  # learns the end of an answer
        self.history = []
        self.ndifferent = 0

    def ask(self, name, request, asks):
        answers = [ask(request) for ask in asks]
        self.history = self.history[-3:] + [(request, answers)]
        if not same(*answers):
            self.ndifferent += 1
            if self.ndifferent == 1:
                self.show(name)
        return answers[1]

    def show(self, name):
        tap.diag("%s:" % name)
        for request, answers in self.history:
            for lines in zip(*(a.split(b"\n") for a in answers)):
                if not same(*lines):
                    tap.diag("  first different: %r, theirs %r" % lines)
                    break
            tap.diag("  %.2000r\n    ours   %.1000r\n    theirs %.1000r" % (request, *answers))

    def stop(self):
        for stream in self.streams:
            stream.close()
        for s in self.servers:
            s.kill() if s is self.servers[1] else s.stop()


def learn(stream, answer):
    """Some id that exists, so that C has a chance."""
    ids = re.findall(rb" c(\d+)", answer)
    if ids and int(ids[-1]):
        stream.cas = int(ids[-1])


@tap.case
def one_by_one():
    pair, stream = Pair(), metagen.Stream(SEED)
    asks = [s.all for s in pair.streams]
    for i in range(COMMANDS):
        learn(stream, pair.ask("command %d" % i, stream.command(), asks))
        if stream.chance(0.3):
            key = stream.pick(metagen.TEXT_KEYS + metagen.NUMBER_KEYS)
            learn(stream, pair.ask("command %d" % i, b"mg %s c u\r\n" % key, asks))
    tap.is_(pair.ndifferent, 0, "%d commands one by one" % COMMANDS)
    pair.stop()


def in_pieces(connection, data, sizes):
    at = 0
    for size in sizes:
        connection.send(data[at:at + size])
        at += size
    return connection.all(data[at:])


@tap.case
def pipelined_in_pieces():
    pair, stream = Pair(), metagen.Stream(SEED + 1, pipelined=True)
    done = 0
    while done < COMMANDS:
        n = stream.pick((1, 2, 5, 20, 50))
        request = b"".join(stream.command() for _ in range(n))
        sizes = [stream.random.randrange(1, len(request)) for _ in range(stream.pick((0, 1, 3)))]
        asks = [lambda data, s=s: in_pieces(s, data, sizes) for s in pair.streams]
        learn(stream, pair.ask("command %d" % done, request, asks))
        done += n
    tap.is_(pair.ndifferent, 0, "%d commands pipelined and cut anywhere" % COMMANDS)
    pair.stop()


def over_udp(udp):
    def ask(request):
        ident = udp.send(request + b"mn END\r\n")
        messages = []
        while not messages or messages[-1] != b"MN\r\n":
            messages.append(udp.message(ident))
        return b"".join(messages[:-1])
    return ask


@tap.case
def datagrams():
    pair, stream = Pair(), metagen.Stream(SEED + 2, datagrams=True)
    udps = [s.udp() for s in pair.servers]
    asks = [over_udp(udp) for udp in udps]
    for i in range(COMMANDS):
        request = stream.command()
        if request.startswith(b"mn"):
            continue
        learn(stream, pair.ask("datagram %d" % i, request, asks))
    tap.is_(pair.ndifferent, 0, "%d commands in datagrams" % COMMANDS)
    for udp in udps:
        udp.close()
    pair.stop()


tap.run()
