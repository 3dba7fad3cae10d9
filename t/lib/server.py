# SPDX-License-Identifier: BSD-3-Clause
"""server: starts the memcached under test, on ports of its own, and ends it.

MEMCACHED names the program; without it, memcached/memcached in BUILDDIR. T_ARGS are further
options of every server.
"""
import os
import random
import re
import socket
import subprocess
import time

import child
import client
import guard
import netns
import tap
import tls
from guard import scratch

START_SECONDS = 60
USER = "nobody"
BINARY_NOOP = b"\x80\x0a" + bytes(22)
PORTS = range(20000, 32768) # below ip_local_port_range, by default

_ports = iter(random.sample(PORTS, len(PORTS)))
_given = [] # sockets, each of which keeps a port from other tests


def program():
    build = os.environ.get("BUILDDIR", os.getcwd())
    path = os.environ.get("MEMCACHED") or os.path.join(build, "memcached", "memcached")
    if not os.access(path, os.X_OK):
        tap.ok(False, "the program %s exists" % path)
        raise SystemExit(1)
    return os.path.abspath(path)


def _is_given(port):
    """Whether another test of this namespace was given the port, which may not use it yet."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind("\0memcached-t-port-%d" % port)
    except OSError:
        name.close()
        return True
    _given.append(name)
    return False


def free_port(namespace=None):
    """A port that is free for TCP and UDP, each time another one, which no other test is given
    before this one has ended. The kernel gives it to no client: the server does not answer a client
    at its own port over UDP.
    """
    with netns.inside(namespace):
        for port in _ports:
            if _is_given(port):
                continue
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream, \
                    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
                try:
                    stream.bind(("0.0.0.0", port))
                    datagram.bind(("0.0.0.0", port))
                except OSError:
                    continue
                return port
        raise RuntimeError("no port is free")


def wait_for(condition, seconds=40, every=0.01):
    """Calls the condition until it is true; False after the time."""
    end = time.monotonic() + seconds * tap.SLOW
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


def logged(process, words, times=1):
    """How often the words are in the log of a server, or of bmc. What is counted or answered may be
    seen before it is logged: looks until they are there so often."""
    wait_for(lambda: process.log().count(words) >= times)
    return process.log().count(words)


def user_arguments(arguments):
    """Options that a server needs which root starts, beside these."""
    if os.geteuid() != 0 or any(a.startswith("-u") or a.startswith("--user") for a in arguments):
        return []
    return ["-u", USER]


def command_line(arguments, namespace=None, prefix=(), executable=None):
    enter = ["nsenter", "--net=/run/netns/" + namespace] if namespace else []
    return enter + list(prefix) + [executable or program()] + [str(a) for a in arguments]


def run(*arguments, namespace=None, prefix=(), env=None, user=True, seconds=50,
        cwd=None):
    """Runs the program to its end: (status, stdout, stderr). A server that starts is killed
    after the time, and the status is then None.
    """
    arguments = [str(a) for a in arguments]
    if user:
        arguments += user_arguments(arguments)
    process = subprocess.Popen(command_line(arguments, namespace, prefix),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, cwd=cwd)
    guard.add("pid", process.pid)
    try:
        out, err = process.communicate(timeout=seconds * tap.SLOW)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        status = None
    guard.remove("pid", process.pid)
    return status, out.decode("latin-1"), err.decode("latin-1")


def is_built_with(word):
    """Whether -h has the word: shows the parts that configure may leave out."""
    return word in run("-h")[1]


def is_sanitized():
    """Whether the program has a sanitizer, which needs memory and address space of its own."""
    with open(program(), "rb") as file:
        return re.search(rb"__[at]san_init", file.read()) is not None


class Server(child.Child):
    """A running server. `host` is its address for clients of this process.

    arguments: in addition to port, address, user and threads; plain=True passes them alone. binary:
    the arguments make it accept only binary over TCP. context: streams use TLS, as the arguments
    configure the server; T_TLS does both (tls.py). executable: in place of the tested program.
    """

    def __init__(self, *arguments, host="127.0.0.1", udp=True, threads=2, namespace=None,
                 prefix=(), env=None, plain=False, port=None, listen=None, unix=None,
                 binary=False, context=None, executable=None, pass_fds=()):
        self.host = host
        self.binary = binary
        self.context = context
        self.unix_path = unix
        self.namespace = namespace
        self.port = port or free_port(namespace)
        arguments = [str(a) for a in arguments]
        if not plain:
            where = ["-s", unix] if unix else ["-p", str(self.port), "-U",
                                               str(self.port if udp else 0), "-l", listen or host]
            if "T_TLS" in os.environ and not unix and not context:
                words, self.context = tls.everywhere()
                arguments = words + arguments
            arguments = (where + ["-t", str(threads)] + user_arguments(arguments) + arguments)
        arguments += os.environ.get("T_ARGS", "").split()
        super().__init__(command_line(arguments, namespace, prefix, executable), "the server", env,
                         pass_fds=pass_fds)
        if not wait_for(self._answers, START_SECONDS):
            raise RuntimeError("the server does not answer: " + self.log())

    def _answers(self):
        """Its connection is gone when it returns: the server counts one no more that it ends."""
        self.must_live()
        try:
            control = self.stream()
            if self.binary:
                control.send(BINARY_NOOP)
                control.exactly(len(BINARY_NOOP))
            else:
                control.ask(b"version\r\n")
            control.sock.shutdown(socket.SHUT_WR)
            control.to_end()
            control.close()
            return True
        except (ConnectionError, FileNotFoundError, client.Closed):
            return False

    def stream(self):
        if self.unix_path:
            return client.unix(self.unix_path)
        return client.tcp(self.host, self.port, self.context)

    def udp(self, **options):
        return client.Udp(self.host, self.port, **options)

    def stats(self, which=""):
        """Over a connection of its own."""
        with self.stream() as control:
            return control.stats(which)
