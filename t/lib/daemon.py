# SPDX-License-Identifier: BSD-3-Clause
"""daemon: a server that is started with -d."""
import os
import signal
import subprocess

import client
import server
import tap


class Daemon:
    """On a port of its own, with a file of its pid; ended at the end of the block. cwd: where it is
    started."""

    def __init__(self, *arguments, cwd=None):
        self.dir = server.scratch()
        self.pid_path = os.path.join(self.dir, "pid")
        self.log_path = os.path.join(self.dir, "log")
        self.port = server.free_port()
        command = server.command_line(["-d", "-P", self.pid_path, "-p", self.port, "-U", "0", "-l",
                                       "127.0.0.1", *server.user_arguments(arguments), *arguments])
        with open(self.log_path, "wb") as log:
            status = subprocess.call(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=log, timeout=100 * tap.SLOW)
        tap.is_(status, 0, "-d returns with status 0")
        with open(self.pid_path, encoding="ascii") as file:
            self.pid = int(file.read())
        server.guard.add("pid", self.pid)

    def stream(self, context=None):
        return client.tcp("127.0.0.1", self.port, context)

    def log(self):
        with open(self.log_path, "rb") as file:
            return file.read().decode()

    def fd(self, number):
        return os.readlink("/proc/%d/fd/%d" % (self.pid, number))

    def signal(self, number):
        os.kill(self.pid, number)

    def is_gone(self):
        return not os.path.exists("/proc/%d" % self.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.is_gone():
            self.signal(signal.SIGTERM)
        tap.ok(server.wait_for(self.is_gone), "the daemon ends")
        server.guard.remove("pid", self.pid)
