# SPDX-License-Identifier: BSD-3-Clause
"""watching: a connection that watches, and its lines as records."""
import itertools
import re
import urllib.parse

import server

_marks = itertools.count()
# memcached does not pad the microseconds.
LINE = re.compile(r"ts=\d+\.\d{1,6} gid=(\d+) (.*)")


class Line(dict):
    """The words of a line; `text` is without ts and gid."""

    def __init__(self, line):
        match = LINE.fullmatch(line)
        if not match:
            raise ValueError("not a line of a watcher: %r" % line)
        self.gid = int(match.group(1))
        self.text = match.group(2)
        super().__init__(word.split("=", 1) for word in self.text.split(" "))

    def key(self):
        return urllib.parse.unquote_to_bytes(self["key"])


class Watcher:
    """`words`: the arguments of watch. lines() needs fetchers among them."""

    def __init__(self, memcached, words="fetchers", stream=None):
        self.memcached = memcached
        self.stream = stream or memcached.stream()
        self.answer = self.stream.ask(("watch %s\r\n" % words).encode())
        self.nskipped = 0

    def close(self):
        self.stream.close()

    def raw(self):
        """One line when it arrives, without its newline."""
        return self.stream.until(b"\n")[:-1].decode("latin-1")

    def next(self):
        while True:
            line = self.raw()
            if not line.startswith("skipped="):
                return Line(line)
            self.nskipped += int(line.split("=")[1])

    def lines(self, control):
        """All lines of the requests answered before this call; `control` is a connection."""
        mark = b"mark-%d" % next(_marks)
        control.get(mark)
        found = []
        while True:
            line = self.next()
            if line.get("key") == mark.decode():
                return found
            found.append(line)

    def texts(self, control):
        return [line.text for line in self.lines(control)]

    def wait(self, condition):
        """The first line for which the condition is true."""
        while True:
            line = self.next()
            if condition(line):
                return line

    def closed(self):
        """Whether the server has closed it; earlier bytes are discarded."""
        try:
            while self.stream.sock.recv(1 << 16):
                pass
            return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


def watchers(memcached):
    """How many connections watch."""
    return list(memcached.stats("conns").values()).count("conn_watch")


def log_counts(memcached):
    """(dropped, written, skipped, sent)"""
    stats = memcached.stats()
    return tuple(int(stats["log_" + name]) for name in
                 ("worker_dropped", "worker_written", "watcher_skipped", "watcher_sent"))


def settled(memcached):
    """The counts, when every log entry was given to the one watcher or skipped."""
    found = []

    def look():
        found[:] = [log_counts(memcached)]
        return found[0][1] == found[0][2] + found[0][3]

    return found[0] if server.wait_for(look) else None
