# SPDX-License-Identifier: BSD-3-Clause
"""framed: a module `socket` for pymemcache whose connections are UDP in memcached's frames.

Each sendall sends one request in one datagram; recv returns the replies' datagrams in order.
"""
import socket
import struct

HEADER = struct.Struct("!HHHH")
MAX_DATAGRAM = 1400


class Connection:
    def __init__(self, family, *_):
        self.sock = socket.socket(family, socket.SOCK_DGRAM)
        self.ident = 0
        self.reply = b""

    def __getattr__(self, name):
        return getattr(self.sock, name)

    def sendall(self, request):
        if HEADER.size + len(request) > MAX_DATAGRAM:
            raise OSError("the request does not fit a datagram")
        self.ident = (self.ident + 1) % 65536
        self.reply = b""
        self.sock.sendall(HEADER.pack(self.ident, 0, 1, 0) + request)

    def _receive(self):
        """The next reply; a request of several commands has several."""
        parts = {}
        count = 1
        while len(parts) < count:
            datagram = self.sock.recv(65536)
            ident, sequence, count, reserved = HEADER.unpack_from(datagram)
            if (ident, reserved) != (self.ident, 0) or sequence >= count:
                raise OSError("not a datagram of the reply: %r" % datagram[:8])
            if len(datagram) > MAX_DATAGRAM:
                raise OSError("a datagram of %d bytes" % len(datagram))
            parts[sequence] = datagram[HEADER.size:]
        return b"".join(parts[i] for i in range(count))

    def recv(self, size):
        if not self.reply:
            self.reply = self._receive()
        data, self.reply = self.reply[:size], self.reply[size:]
        return data


class Module:
    """The standard module, but for what a socket is."""

    def __getattr__(self, name):
        return getattr(socket, name)

    @staticmethod
    def socket(*arguments):
        return Connection(*arguments)
