# SPDX-License-Identifier: BSD-3-Clause
"""differential: the same random commands to this server and to another memcached.

A family of commands (textgen.Text, metagen.Meta, binarygen.Binary) has
    mark, mark_answer   a command that ends each batch and its answer (None: each server's own)
    batch()             [commands for this server, commands for the other], each a list of bytes
    learn(which, answer)  reads the ids that later commands want
    same(ours, theirs)  are the answers to a batch the same?
    forget()            both are empty
    plain(which, answer)  what is shown of an answer
    uncounted           statistics that are not compared, if there are any
"""
import os
import random
import re
import struct
import time

import client
import server
import tap

PEER = os.environ.get("PEER", "/usr/bin/memcached")
COMMANDS = int(os.environ.get("COMMANDS", "100000"))
SEED = int(os.environ.get("SEED", "1"))
SECONDS = 20  # without an answer: there is none
COUNTED = re.compile(r"(cmd|delete|incr|decr|cas|touch|auth)_|get_(hits|misses)$|total_items$")
SHOW = int(os.environ.get("SHOW", "1"))


def as_peer(start, *arguments, **options):
    """start(...) with the other program instead of the tested one."""
    return start(*arguments, executable=PEER, **options)


def start_peer(**options):
    """Without the threads that hold an item for a moment, which changes what incr does."""
    return as_peer(server.Server, "-o", "no_lru_maintainer,no_lru_crawler", threads=1, **options)


class Tcp:
    def __init__(self, where, family):
        self.where, self.family = where, family
        self.stream = where.stream()
        self.stream.sock.settimeout(SECONDS)
        self.end = family.mark_answer or self.stream.ask(family.mark)

    def send(self, commands, cuts):
        data, at = b"".join(commands) + self.family.mark, 0
        try:
            for share in cuts:
                cut = int(share * len(data))
                self.stream.send(data[at:cut])
                at = cut
            self.stream.send(data[at:])
        except (BrokenPipeError, ConnectionResetError):
            pass  # replies to earlier requests are still to be read

    def receive(self):
        try:
            return self.stream.until(self.end)[:-len(self.end)]
        except (client.Closed, ConnectionResetError):
            return self.stream.buffer + b" (closed)"
        except TimeoutError:
            return self.stream.buffer + b" (waits)"

    def again(self):
        self.stream.close()
        self.stream = self.where.stream()
        self.stream.sock.settimeout(SECONDS)

    def close(self):
        self.stream.close()


class Udp:
    """Any number of commands in one datagram; their answers joined in order."""

    def __init__(self, where, family):
        self.where, self.family = where, family
        self.again()
        self.end = family.mark_answer or self.udp.ask(family.mark)

    def send(self, commands, _cuts):
        self.ident = self.udp.send(b"".join(commands) + self.family.mark)

    def receive(self):
        data, due = b"", 0
        try:
            while due > 0 or not data.endswith(self.end):
                datagram = self.udp.recv_raw()
                ident, sequence, count, _ = struct.unpack("!HHHH", datagram[:8])
                if ident != self.ident or len(datagram) > client.UDP_PAYLOAD:
                    return data + b" (frame %d of %d, id %d)" % (sequence, count, ident)
                due = max(0, count - sequence - 1)
                data += datagram[8:]
        except TimeoutError:
            return data + b" (waits)"
        return data[:-len(self.end)]

    def again(self):
        self.udp = self.where.udp(seconds=SECONDS)

    def close(self):
        self.udp.close()


def start_again(channels, family):
    """So that one difference does not cause others."""
    for channel in channels:
        channel.again()
        control = channel.where.stream()
        control.ask(b"flush_all\r\n")
        control.close()
    family.forget()


def ask(channels, batches, cuts=()):
    for channel, batch in zip(channels, batches):
        channel.send(batch, cuts)
    return [channel.receive() for channel in channels]


def shortest(channels, family, batches, answers):
    """The commands that are needed for the difference; all, if none can be left out."""
    def differ(commands):
        start_again(channels, family)
        return not family.same(*ask(channels, commands))

    if any(a.endswith(b"(waits)") for a in answers) or not differ(batches):
        return batches, "(not made shorter)"
    at, end = 0, time.monotonic() + 10
    while at < len(batches[0]) and time.monotonic() < end:
        fewer = [b[:at] + b[at + 1:] for b in batches]
        if fewer[0] and differ(fewer):
            batches = fewer
        else:
            at += 1
    return batches, ""


def show(name, number, channels, family, batches, answers):
    batches, remark = shortest(channels, family, batches, answers)
    if not remark:
        start_again(channels, family)
        answers = ask(channels, batches)
    tap.diag("SEED=%d, %s, command %d %s" % (SEED, name, number, remark))
    family.forget()
    plain = [family.plain(which, a) for which, a in enumerate(answers)]
    at = next((i for i, (a, b) in enumerate(zip(*plain)) if a != b), min(map(len, plain)))
    sent = b"".join(batches[0])
    tap.diag("  sent   %r" % (sent if len(sent) < 1500 else sent[:700] + b" ... " + sent[-700:]))
    for answer, name in zip(plain, ("ours  ", "theirs")):
        tap.diag("  %s %.300r" % (name, answer[max(0, at - 80):at + 100]))


def same_counts(name, pair, uncounted):
    """The same counts after the same commands, of commands and their results. How many items
    were expired or flushed when a command met them depends on when the maintainer ran.
    """
    counts = [{key: value for key, value in where.stats().items()
               if COUNTED.match(key) and key not in uncounted} for where in pair]
    different = {key: (value, counts[1].get(key)) for key, value in counts[0].items()
                 if value != counts[1].get(key)}
    tap.is_(different, {}, "%s: %d counters of stats are the same" % (name, len(counts[0])))


def compare(name, family, transport, commands, pair=None):
    """Fails for any difference; shows the first SHOW of them. pair: servers, which end with it."""
    rng = random.Random("cuts %d %s" % (SEED, name))
    pair = pair or (server.Server(threads=1), start_peer())
    channels = [transport(s, family) for s in pair]
    done = different = nbytes = 0
    while done < commands:
        batches = family.batch()
        cuts = sorted(rng.random() for _ in range(rng.choice((0, 0, 1, 3))))
        if getattr(family, "whole", False):
            cuts = []
        answers = ask(channels, batches, cuts)
        for which in (0, 1):
            family.learn(which, answers[which])
        done += len(batches[0])
        nbytes += len(answers[0])
        if answers[0].endswith(b"(closed)") and family.same(*answers):
            start_again(channels, family)
        elif not family.same(*answers) or answers[0].endswith(b"(waits)"):
            different += 1
            if different <= SHOW:
                show(name, done, channels, family, batches, answers)
            start_again(channels, family)
    tap.is_(different, 0, "%d %s have the same answers, of %d bytes" % (done, name, nbytes))
    for channel in channels:
        channel.close()
    same_counts(name, pair, getattr(family, "uncounted", ()))
    pair[1].kill()
    tap.is_(pair[0].stop(), 0, "%s: the server ends with status 0" % name)
