# SPDX-License-Identifier: BSD-3-Clause
"""asking: machines whose kernel answers gets over TCP, requests with their replies, and whether
every byte of what came was right."""
import socket
import struct

import client
import kernel
import netns
import openfiles
import tap

SECONDS = 10 * tap.SLOW # a reply that has not come by then does not come
SIZES = (1, 60, 400, 1300, 5000) # of values; the kernel answers with all but the last
KEYS = [b"key%d" % i for i in range(len(SIZES))]
MISS = (b"get none\r\n", b"END\r\n")
RESET = socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0) # when it is closed


def value(i, version=0):
    return (b"%d-%d " % (i, version) * SIZES[i])[:SIZES[i]]


def hit(i, version=0):
    return b"get %s\r\n" % KEYS[i], kernel.answer((KEYS[i], value(i, version)))


def stored(i, version=0):
    text = value(i, version)
    return b"set %s 0 0 %d\r\n%s\r\n" % (KEYS[i], len(text), text), b"STORED\r\n"


SMALL = [hit(1), hit(0), MISS, hit(2)]
MIXED = [stored(0), hit(0), hit(1), hit(2), MISS, (b"mg key1 v\r\n", b"VA 60\r\n%s\r\n" % value(1)),
         hit(3), hit(4), stored(1), hit(1), hit(1), hit(3)]


def fill(control):
    """Stores the items, on a connection that asks for nothing."""
    for i in range(len(KEYS)):
        control.set(KEYS[i], value(i))


class Machines(kernel.Machines):
    """With tcp=on; m.tcp asks for statistics only. mode: None is native XDP."""

    def __init__(self, mode, pair, *arguments):
        super().__init__("-m", 256, *arguments, mode=mode, words=("tcp=on",), pair=pair,
                         listen="0.0.0.0,::")
        self.mode = mode
        fill(self.tcp)

    def by(self):
        return "TC alone" if self.mode == "tc" else "XDP"

    def answered(self):
        return int(self.tcp.stats("bmc")["tcp_answered"])

    def dial(self, *options, host=None, protocol=0, source=None, nodelay=True, data=None):
        """A connection of a socket with these options; data: with its SYN."""
        host = host or self.pair.address()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM, protocol)
        for option in options:
            sock.setsockopt(*option)
        if source:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("", source))
        sock.settimeout(SECONDS)
        if data:
            sock.sendto(data, socket.MSG_FASTOPEN, (host, self.server.port))
        else:
            sock.connect((host, self.server.port))
        return stream(sock, nodelay)


def stream(sock, nodelay=True):
    c = client.Stream(None, sock=sock)
    c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
    c.sock.settimeout(SECONDS)
    return c


def each_mode(*machines):
    """A decorator for cases that are run on each of these machines, within the client's."""
    def decorate(function):
        def each():
            for m in machines:
                netns.enter(m.pair.client)
                function(m)
        each.__name__ = function.__name__
        return tap.case(each)
    return decorate


def two_gets(m):
    """A connection that the programs follow when it ends, whether all was right."""
    with socket.create_connection((m.pair.address(), m.server.port), SECONDS) as sock:
        sock.setsockopt(*RESET)
        for _ in range(2):
            sock.send(MISS[0])
            if sock.recv(100) != MISS[1]:
                return False
        return True


def wrong_in(c, *rounds):
    """The first request whose reply is wrong or does not come, and that; None: there is none."""
    for request, want in (one for some in rounds for one in some):
        try:
            c.send(request)
            got = c.exactly(len(want))
        except (OSError, client.Closed) as error:
            got = repr(error)
        if got != want:
            return request[:20], got[:60]
    return None


def entries_bytes(m):
    """What the table of followed connections takes."""
    for info in openfiles.infos(m.server.process.pid).values():
        if info.get("map_type") == "1" and info["value_size"] == "160":
            return int(info["memlock"])
    raise RuntimeError("no table of connections")


def end_of(c):
    """What comes before the end, after a quit."""
    try:
        return c.to_end(b"quit\r\n")
    except OSError as error:
        return repr(error)
