# SPDX-License-Identifier: BSD-3-Clause
"""parsers: the chain's parsers (bpf/chain/*_parser.h) beside a real server.

Commands go one by one to a server. `watch` compares its effects and replies with the events of the
parsers: how many responses, and which keys are written. `Parsers` runs t/tool/parsers.
"""
import os
import socket

import binary
import child
import client
import tap

(WRITE, WRITE_ALL, UNKNOWN, DATA, ANSWERED, UNCERTAIN, SILENT, BARRIER,
 LOST) = (1 << bit for bit in range(9))
COMPLETE, ERROR, MN, RESPONSES_LOST = (1 << bit for bit in range(4))
OVER = ANSWERED | UNCERTAIN | SILENT
SECONDS = 15  # without a byte: the server does not answer
VALUE_NEXT = b"VALUE "


class Parsers(child.Talker):
    def __init__(self):
        path = os.path.join(os.environ.get("BUILDDIR", os.getcwd()), "t", "tool", "parsers")
        super().__init__([path], "t/tool/parsers")
        self.hashes = {}

    def give(self, *pairs):
        """Of what, and data: each makes one to be taken."""
        self.tell(b"".join(b"%s %s\n" % (what, data.hex().encode()) for what, data in pairs))

    def take(self):
        """([(offset, events, hash)], whether a command could begin now), or
        ([(offset, events)], whether an answer could begin now)"""
        *events, between = self.process.stdout.readline().split()
        return [tuple(map(int, e.split(b":"))) for e in events], between == b"1"

    def begin(self):
        self.ask(b"n\n")

    def hash(self, key):
        if key not in self.hashes:
            self.hashes[key] = int(self.ask(b"h %s\n" % key.hex().encode()))
        return self.hashes[key]


class Wrong(Exception):
    """The server did or replied what the parsers did not predict."""


class Predicted:
    """The responses and writes of the commands since the last mark."""

    def __init__(self):
        self.least = self.most = self.silent = self.marks = 0
        self.hashes, self.all = set(), False

    def add(self, events, hash_):
        if events & WRITE:
            self.hashes.add(hash_)
        self.all |= bool(events & WRITE_ALL)
        self.least += bool(events & ANSWERED)
        self.most += bool(events & ANSWERED) + bool(events & UNCERTAIN)
        self.silent += bool(events & SILENT)
        self.marks += bool(events & BARRIER)


class Text:
    """The mark between text commands, and how the keys are read."""
    mark, answer = b"mn\r\n", b"MN\r\n"
    events = ANSWERED | BARRIER

    def look(self, stream, keys):
        """{key: the block of gets for it}"""
        stream.send(b"gets " + b" ".join(keys) + b"\r\n")
        seen = {}
        while True:
            head = stream.line()
            if not head.startswith(VALUE_NEXT):
                return seen
            words = head.split()
            seen[words[1]] = head + stream.exactly(int(words[3]) + 2)


class Binary:
    """The same in binary."""
    mark = binary.request("noop", opaque=binary.Binary.NOOP)
    answer = mark.replace(b"\x80", b"\x81", 1)
    events = ANSWERED

    def look(self, stream, keys):
        stream.send(b"".join(binary.request("getkq", k) for k in keys) + self.mark)
        replies = binary.replies(stream.until(self.answer))
        return {r.key: r._replace(opcode=0) for r in replies[:-1]}


class Watch:
    """One connection at a time to a server, and another one that reads the keys."""

    def __init__(self, where, parsers, keys, family):
        self.where, self.parsers, self.keys, self.family = where, parsers, keys, family
        self.control = where.stream()
        self.stream = None
        self.commands = self.connections = self.lost = self.closed = self.writes = 0

    def begin(self):
        self.parsers.begin()
        self.unsent = b""
        self.stream = self.where.stream()
        self.stream.sock.settimeout(SECONDS)
        self.connections += 1
        self.seen = self.family.look(self.control, self.keys)

    def end(self):
        """Closes the connection when the server has executed all commands."""
        try:
            self.stream.send(self.unsent)
            self.stream.sock.shutdown(socket.SHUT_WR)
            self.stream.to_end()
        except OSError:
            pass  # the server closed first
        self.stream.close()

    def until_mark(self, others):
        """Sends what is unsent, and the mark: the replies up to the mark's, behind `others` equal
        ones. None: the server closed."""
        data, self.unsent = self.unsent + self.family.mark, b""
        try:
            self.stream.send(data)
            return b"".join(self.stream.until(self.family.answer) for _ in range(others + 1))
        except (client.Closed, ConnectionResetError, BrokenPipeError):
            return None

    def judge(self, predicted, replies, looks):
        """The replies up to the mark's, and if `looks` the keys, which are read while those are
        parsed."""
        self.parsers.give((b"a", replies))
        now = self.family.look(self.control, self.keys) if looks else None
        events, between = self.parsers.take()
        self.judge_replies(predicted, events, between)
        if looks:
            self.judge_keys(predicted, now)

    def judge_replies(self, predicted, events, between):
        if not between or any(e & RESPONSES_LOST for _, e in events):
            raise Wrong("the responses cannot be parsed: %r" % events)
        count = sum(1 for _, e in events if e & COMPLETE) - 1
        errors = sum(1 for _, e in events if e & ERROR)
        most = predicted.most + min(predicted.silent, errors)
        if not predicted.least <= count <= most:
            raise Wrong("%d responses, predicted were %d to %d" % (count, predicted.least, most))
        if self.family.events == ANSWERED:
            return
        if [e for _, e in events if e & MN] != [COMPLETE | MN] * (predicted.marks + 1):
            raise Wrong("the response to the mark was not found: %r" % events)

    def judge_keys(self, predicted, now):
        changed = {k for k in self.keys if now.get(k) != self.seen.get(k)}
        self.writes += len(changed)
        before, self.seen = self.seen, now
        if predicted.all:
            return
        unseen = [k for k in changed if self.parsers.hash(k) not in predicted.hashes]
        if unseen:
            raise Wrong("writes to %r were not seen: %r" % (
                unseen, [(before.get(k), now.get(k)) for k in unseen]))

    def predictions(self, commands, *mark):
        """What the parser makes of each command, and of the mark, if there is one, behind each
        behind which a command can begin: (command, events, whether a command can begin, events of
        the mark)."""
        self.parsers.give(*(each for command in commands
                            for each in ((b"q", command), *((b"m", m) for m in mark))))
        return [(command, *self.parsers.take(),
                 [e for _ in mark for _, e, _ in self.parsers.take()[0]]) for command in commands]

    def command(self, command, events, between, predicted):
        """Sends a command, unless the parser cannot follow it. Returns whether it did."""
        if any(e & LOST for _, e, _ in events):
            self.lost += 1
            return False
        for _, event, hash_ in events:
            predicted.add(event, hash_)
        self.between = between
        self.commands += 1
        self.last = command
        self.unsent += command
        return True

    def pipeline(self, commands):
        """Sends all commands that can be parsed at once: as many responses as predicted in
        total."""
        predicted, self.between = Predicted(), True
        for command, events, between, _ in self.predictions(commands):
            if not self.command(command, events, between, predicted) and not self.between:
                return
        if not self.between:
            return
        replies = self.until_mark(predicted.marks)
        if replies is None:
            self.closed += 1
        else:
            self.judge(predicted, replies, False)

    def batch(self, commands):
        """One by one. Returns at the end, or when the connection is closed or the parser is
        lost."""
        predicted, self.between = Predicted(), True
        for command, events, between, mark in self.predictions(commands, self.family.mark):
            if not self.command(command, events, between, predicted):
                if not self.between:
                    return
                continue
            if not self.between:
                continue
            if mark != [self.family.events]:
                raise Wrong("the mark was not parsed as a command")
            replies = self.until_mark(predicted.marks)
            if replies is None:
                self.closed += 1
                return
            self.judge(predicted, replies, True)
            predicted = Predicted()


def watch(name, where, parsers, keys, family, batches):
    """batches: lists of commands, each for a connection of its own, every fourth all at once."""
    watched = Watch(where, parsers, keys, family)
    wrong = 0
    for commands in batches:
        watched.begin()
        try:
            if watched.connections % 4 == 0:
                watched.pipeline(commands)
            else:
                watched.batch(commands)
        except Wrong as what:
            wrong += 1
            if wrong <= 3:
                tap.diag("%s: %s" % (name, what))
                tap.diag("  %r" % watched.last)
        except (ConnectionResetError, BrokenPipeError):
            watched.closed += 1
        except TimeoutError:
            wrong += 1
            if wrong <= 3:
                tap.diag("%s: the server waits after the answer %r" % (name, watched.stream.buffer))
                tap.diag("  %r" % watched.last)
        watched.end()
    tap.is_(wrong, 0, "%s: %d commands on %d connections (%d were lost, %d closed) and %d changes "
            "were followed" % (name, watched.commands, watched.connections, watched.lost,
                               watched.closed, watched.writes))
    return watched
