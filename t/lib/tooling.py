# SPDX-License-Identifier: BSD-3-Clause
"""tooling: memcached-tool, and servers that say what a test wants it to read."""
import contextlib
import os
import re
import socket
import subprocess
import threading

import tap

SRCDIR = os.environ.get("SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                  "..", "..")
OURS = os.path.join(SRCDIR, "tools", "memcached-tool")
PROMETHEUS = os.path.join(SRCDIR, "packaging", "prometheus")
ROWS = 100000 # that OURS reads of a table at most
METRIC = re.compile(r'^(memcached_\w+)\{(.*)\} (\S+)$', re.M)


def call(tool, *words):
    """(status, stdout, stderr)"""
    done = subprocess.run([tool, *map(str, words)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=30 * tap.SLOW)
    return done.returncode, done.stdout, done.stderr


def metrics(text):
    """{(name, labels): value}"""
    return {(name, labels): float(value) for name, labels, value in METRIC.findall(text.decode())}


def lint(text):
    """What promtool finds wrong."""
    done = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def stats_reply(rows):
    return "".join("STAT %s %s\r\n" % row for row in rows.items()) + "END\r\n"


class Scripted:
    """A server that gives fixed replies to commands: one, or a list of them one after the other,
    of which the last is repeated; behind a tuple of one and None it closes the connection."""

    def __init__(self, replies):
        self.replies = replies
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection = self.listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError): # the tool may have read enough
            for line in connection.makefile("rb"):
                reply = self.replies.get(line.decode().strip(), "ERROR\r\n")
                if isinstance(reply, list):
                    reply = reply.pop(0) if len(reply) > 1 else reply[0]
                text, *ends = reply if isinstance(reply, tuple) else (reply,)
                connection.sendall(text.encode("latin-1"))
                if ends:
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listening.close()
