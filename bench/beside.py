# SPDX-License-Identifier: BSD-3-Clause
"""This server and Debian's beside each other on loopback, with the same options."""

import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """words: further options; where PORT stands in them they get the port."""

    def __init__(self, name, program, options, threads, *words):
        self.name, self.port = name, free_port()
        words = [program, "-u", "nobody", "-l", "127.0.0.1", "-p", str(self.port), "-m", "1024",
                 "-t", str(threads)] + [str(self.port) if word == "PORT" else word
                                        for word in words]
        if options.pin:
            words = ["taskset", "-c", "0"] + words
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)
        self.wait()

    def wait(self):
        for _ in range(1000):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.01)
        sys.exit(f"{sys.argv[0]}: {self.name} does not answer")

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


@contextlib.contextmanager
def both(options, threads, *words):
    """Ours and Debian's; options.build and options.debian say where they are."""
    ours = os.path.join(options.build, "memcached", "memcached")
    servers = []
    try:
        for name, program in (("ours", ours), ("debian", options.debian)):
            servers.append(Server(name, program, options, threads, *words))
        yield servers
    finally:
        for server in servers:
            server.close()


def compared(samples, row, column):
    """Medians of both, and of the rounds' ratios."""
    ours, theirs = (samples[row, name, column] for name in ("ours", "debian"))
    return (statistics.median(ours), statistics.median(theirs),
            statistics.median(a / b for a, b in zip(ours, theirs)))
