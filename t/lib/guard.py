# SPDX-License-Identifier: BSD-3-Clause
"""guard: cleans up after a test, however the test ends.

A child process holds the read end of a pipe: when the test has ended, also by SIGKILL, it kills the
processes and deletes the namespaces and directories that are still on its list. It deletes only
what is on the list, and never searches.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

_pipe = None


def _clean(left):
    for kind, name in reversed(left):
        try:
            if kind == "pid":
                os.kill(int(name), signal.SIGKILL)
            elif kind == "netns":
                subprocess.run(["ip", "netns", "del", name], stdin=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False)
            elif kind == "dir":
                shutil.rmtree(name, ignore_errors=True)
        except OSError:
            pass


def _watch(pipe):
    left = []
    with os.fdopen(pipe) as lines:
        for line in lines:
            what, kind, name = line.rstrip("\n").split(" ", 2)
            if what == "+":
                left.append((kind, name))
            elif (kind, name) in left:
                left.remove((kind, name))
    _clean(left)


def _start():
    global _pipe
    reading, _pipe = os.pipe()
    sys.stdout.flush()
    if os.fork() == 0:
        os.close(_pipe)
        os.setsid()
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        # The harness waits for every process that holds the test's output.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nowhere, fd)
        _watch(reading)
        os._exit(0)
    os.close(reading)


def add(kind, name):
    """kind: "pid", "netns" or "dir"."""
    if _pipe is None:
        _start()
    os.write(_pipe, ("+ %s %s\n" % (kind, name)).encode())


def remove(kind, name):
    os.write(_pipe, ("- %s %s\n" % (kind, name)).encode())


def scratch():
    """A directory for the test's duration, writable by the server's user."""
    path = tempfile.mkdtemp(prefix="memcached-t-")
    os.chmod(path, 0o777)
    add("dir", path)
    return path
