# SPDX-License-Identifier: BSD-3-Clause
"""manager: a service manager's end of the socket that NOTIFY_SOCKET names (sd_notify(3))."""
import contextlib
import os
import socket
import struct
import threading
import time

import server
import tap


def words(data):
    return dict(line.split("=", 1) for line in data.decode().split("\n") if line)


class Manager:
    """Receives what a server tells. `env` is for the server. watchdog: seconds, None: none."""

    def __init__(self, name=None, watchdog=None):
        self.name = name or os.path.join(server.scratch(), "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind("\0" + self.name[1:] if self.name[0] == "@" else self.name)
        if self.name[0] == "/":
            os.chmod(self.name, 0o700) # the server's user could not write to it later
            os.chmod(os.path.dirname(self.name), 0o755)
        self.env = {"NOTIFY_SOCKET": self.name}
        if watchdog:
            self.env["WATCHDOG_USEC"] = str(int(watchdog * 1000000))

    def message(self, seconds=20):
        """The next message, as a dict, and its sender's process id; None: none came in time."""
        self.socket.settimeout(seconds * tap.SLOW)
        try:
            data, more, _, _ = self.socket.recvmsg(8192, socket.CMSG_SPACE(12))
        except socket.timeout:
            return None, None
        return words(data), struct.unpack("iii", more[0][2])[0]

    def until(self, key, seconds=20):
        """The next message that has the key; None: none came."""
        end = time.monotonic() + seconds * tap.SLOW
        while (rest := end - time.monotonic()) > 0:
            message, pid = self.message(rest / tap.SLOW)
            if message and key in message:
                return message, pid
        return None, None

    def empty(self):
        """Takes what has come so far."""
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.recv(8192)
        except BlockingIOError:
            pass


class Store(Manager):
    """Keeps the descriptors that a server gives it (FDSTORE=1), for the next one. kept: a list of
    (name, descriptor)."""

    def __init__(self, room=512):
        super().__init__()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0) # recv_fds has no room
        self.env["FDSTORE"] = str(room)
        self.kept, self.room = [], room
        self.lock = threading.Condition()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                data, fds, _, _ = socket.recv_fds(self.socket, 8192, 8)
                with self.lock:
                    self._take(words(data), fds)
                    self.lock.notify_all()

    def _take(self, message, fds):
        if "FDSTORE" in message and len(self.kept) < self.room:
            self.kept += [(message["FDNAME"], fd) for fd in fds]
            return
        for fd in fds: # of BARRIER=1, too
            os.close(fd)
        if "FDSTOREREMOVE" in message:
            for _, fd in self.named(message["FDNAME"]):
                os.close(fd)
            self.kept = [row for row in self.kept if row[0] != message["FDNAME"]]

    def named(self, name):
        return [row for row in self.kept if row[0] == name]

    def names(self):
        """Behind what a server has sent before it answered."""
        ends = socket.socketpair()
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as barrier:
            barrier.connect(self.name)
            socket.send_fds(barrier, [b"BARRIER=1"], [ends[1].fileno()])
        ends[1].close()
        ends[0].recv(1)
        ends[0].close()
        with self.lock:
            return sorted(name for name, _ in self.kept)

    def handed(self, pid="$$"):
        """Options of server.Server for one that gets what is kept."""
        fds = [fd for _, fd in self.kept]
        text = ":".join(name for name, _ in self.kept)
        # First out of the way: a descriptor may have the number that another one gets.
        moves = [(100 + at, fd) for at, fd in enumerate(fds)]
        moves += [(3 + at, 100 + at) for at in range(len(fds))]
        moved = "".join(" %d<&%d %d<&-" % (to, fd, fd) for to, fd in moves)
        script = "exec%s; LISTEN_PID=%s exec \"$@\"" % (moved, pid)
        return {"prefix": ("bash", "-c", script, "bash"), "pass_fds": fds,
                "env": {**self.env, "LISTEN_FDS": str(len(fds)), "LISTEN_FDNAMES": text}}
