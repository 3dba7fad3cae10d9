# SPDX-License-Identifier: BSD-3-Clause
"""manager: a service manager's end of the socket that NOTIFY_SOCKET names (sd_notify(3))."""
import os
import socket
import struct
import time

import server
import tap


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
        lines = data.decode().split("\n")
        return (dict(line.split("=", 1) for line in lines if line),
                struct.unpack("iii", more[0][2])[0])

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
