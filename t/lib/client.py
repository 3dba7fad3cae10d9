# SPDX-License-Identifier: BSD-3-Clause
"""client: memcached's text protocol over TCP, TLS, unix sockets and UDP, byte exact."""
import socket
import ssl
import struct

SECONDS = 30 # a busy machine may not run a process for longer than ten

UDP_HEADER = 8
UDP_PAYLOAD = 1400
SO_RCVBUFFORCE = 33


class Closed(Exception):
    """The server closed the connection; args[0]: the bytes received before."""


class Stream:
    """One connection, of a new socket, or of one that connects or is connected."""

    def __init__(self, address, family=socket.AF_INET, context=None, session=None, sock=None):
        self.sock = sock or socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(SECONDS)
        if not sock:
            self.sock.connect(address)
        if family != socket.AF_UNIX:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            self.sock = context.wrap_socket(self.sock, session=session)
        self.buffer = b""
        self.sentinel = None

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.sock.sendall(data)

    def _more(self):
        data = self.sock.recv(1 << 20)
        if not data:
            raise Closed(self.buffer)
        self.buffer += data

    def _fill(self, enough):
        """Receives until there is enough; keeps the bytes if it times out."""
        got = bytearray(self.buffer)
        try:
            while not enough(got):
                self.buffer = b""
                self._more()
                got += self.buffer
        except Closed:
            raise Closed(bytes(got)) from None
        finally:
            self.buffer = bytes(got)

    def _take(self, size):
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def exactly(self, size):
        self._fill(lambda got: len(got) >= size)
        return self._take(size)

    def until(self, end):
        """Up to and including `end`."""
        searched = at = 0

        def found(got):
            nonlocal searched, at
            at = got.find(end, searched)
            searched = max(0, len(got) - len(end))
            return at >= 0

        self._fill(found)
        return self._take(at + len(end))

    def line(self):
        return self.until(b"\r\n")

    def ask(self, data):
        """Sends, and returns the one line that answers."""
        self.send(data)
        return self.line()

    def all(self, data):
        """Sends, and returns every reply, perhaps none: a `version` behind the request marks the
        end."""
        if self.sentinel is None:
            self.sentinel = self.ask(b"version\r\n")
        self.send(data + b"version\r\n")
        return self.until(self.sentinel)[:-len(self.sentinel)]

    def to_end(self, data=b""):
        """Sends, and returns everything until the server closes."""
        try:
            if data:
                self.send(data)
            while True:
                self._more()
        except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, Closed):
            data, self.buffer = self.buffer, b""
            return data

    def set(self, key, value, flags=0, exptime=0, verb=b"set", tail=b""):
        return self.ask(b"%s %s %d %d %d%s\r\n%s\r\n" %
                        (verb, key, flags, exptime, len(value), tail, value))

    def get(self, key):
        """The value, or None."""
        self.send(b"get %s\r\n" % key)
        head = self.line()
        if head == b"END\r\n":
            return None
        words = head.rstrip(b"\r\n").split(b" ")
        if words[:1] != [b"VALUE"]:
            raise ValueError("not an answer to get: %r" % head)
        value = self.exactly(int(words[3]))
        rest = self.exactly(len(b"\r\nEND\r\n"))
        if rest != b"\r\nEND\r\n":
            raise ValueError("not the end of an answer to get: %r" % rest)
        return value

    def gets(self, key):
        """(flags, cas id, value), or None."""
        self.send(b"gets %s\r\n" % key)
        head = self.line()
        if head == b"END\r\n":
            return None
        _, _, flags, nbytes, cas = head.rstrip(b"\r\n").split(b" ")
        value = self.exactly(int(nbytes))
        self.exactly(len(b"\r\nEND\r\n"))
        return int(flags), int(cas), value

    def stats_list(self, which=""):
        """[(key, value)] in the order of the reply."""
        self.send(("stats %s" % which).strip().encode() + b"\r\n")
        rows = []
        while True:
            line = self.line()
            if line in (b"END\r\n", b"RESET\r\n"):
                return rows
            words = line.decode("latin-1").rstrip("\r\n").split(" ", 2)
            if words[0] != "STAT":
                raise ValueError("not an answer to stats: %r" % line)
            rows.append((words[1], words[2] if len(words) > 2 else ""))

    def stats(self, which=""):
        return dict(self.stats_list(which))


def tcp(host, port, context=None, session=None):
    """context: an ssl.SSLContext for TLS, with which a session may be resumed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return Stream((host, port), family, context, session)


def unix(path):
    return Stream(path, socket.AF_UNIX)


class FrameError(Exception):
    """A reply breaks the rules of the UDP frame."""


def make_room(sock, nbytes=4 << 20):
    """For a reply of megabytes while this process does not run; rmem_max(5) bounds others than
    root."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, nbytes)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, nbytes)


class Udp:
    """One UDP socket, connected: only the server's own answers are received."""

    def __init__(self, host, port, seconds=20, source=None, source_port=0):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_DGRAM)
        make_room(self.sock)
        self.sock.settimeout(seconds)
        if source:
            self.sock.bind(socket.getaddrinfo(source, source_port, family,
                                              socket.SOCK_DGRAM)[0][4]) # with its scope
        self.sock.connect((host, port))
        self.id, self.header_sum = 0x1234, self._sum_of_headers()

    def close(self):
        self.sock.close()

    def _sum_of_headers(self):
        """What UDP's checksum covers before the payload, but for the length: with the checksum that
        the stack leaves for hardware to complete, which is the sum of the addresses, the protocol
        and the length."""
        ends = [(socket.inet_pton(self.sock.family, name[0].partition("%")[0]), name[1])
                for name in (self.sock.getsockname(), self.sock.getpeername())]
        return sum(2 * int.from_bytes(address, "big") + port for address, port in ends) + \
            2 * socket.IPPROTO_UDP

    def checksum_is_doubtful(self, payload):
        """Whether the partial checksum is, by chance, that of the whole datagram
        as well: of one in 65,536. The kernel path's program on TC, which cannot tell which of the
        two it has, passes such a request."""
        length = UDP_HEADER + len(payload)
        text = int.from_bytes(payload + bytes(len(payload) % 2), "big")
        return (self.header_sum + 3 * length + text) % 0xffff == 0

    def next_id(self, data, sequence=0, count=1, reserved=0):
        """Another id each time, with which the kernel can answer the request."""
        while True:
            self.id = (self.id * 31 + 7) & 0xffff
            if not self.checksum_is_doubtful(struct.pack("!HHHH", self.id, sequence, count,
                                                         reserved) + data):
                return self.id

    def send_raw(self, datagram):
        self.sock.send(datagram)

    def send(self, data, sequence=0, count=1, reserved=0, ident=None):
        ident = self.next_id(data, sequence, count, reserved) if ident is None else ident
        self.send_raw(struct.pack("!HHHH", ident, sequence, count, reserved) + data)
        return ident

    def recv_raw(self):
        return self.sock.recv(65536)

    def message(self, ident):
        """One reply, put together; checks every datagram against the frame's rules."""
        parts = {}
        while True:
            datagram = self.recv_raw()
            if len(datagram) > UDP_PAYLOAD:
                raise FrameError("a datagram of %d bytes" % len(datagram))
            if len(datagram) < UDP_HEADER:
                raise FrameError("a datagram without a frame: %r" % datagram)
            got, sequence, count, reserved = struct.unpack("!HHHH", datagram[:UDP_HEADER])
            if got != ident or reserved != 0 or sequence >= count or sequence in parts:
                raise FrameError("id %d (want %d) sequence %d count %d reserved %d" %
                                 (got, ident, sequence, count, reserved))
            if sequence < count - 1 and len(datagram) != UDP_PAYLOAD:
                raise FrameError("datagram %d of %d is not full" % (sequence, count))
            parts[sequence] = datagram[UDP_HEADER:]
            if len(parts) == count:
                self.datagrams = count
                return b"".join(parts[i] for i in range(count))

    def ask(self, data, **frame):
        """Sends one request, and returns the payload of its one reply."""
        return self.message(self.send(data, **frame))

    def get(self, key):
        """The value, or None."""
        answer = self.ask(b"get %s\r\n" % key)
        return parse_value(answer, key)

    def silence(self, after=b"version\r\n"):
        """True if the next reply is `after`: the requests before it had no reply. Needs a server
        with one worker thread, which answers in order.
        """
        ident = self.send(after)
        try:
            self.message(ident)
        except FrameError:
            return False
        return True


def parse_value(answer, key):
    """The value in the whole answer to a get of one key, or None."""
    if answer == b"END\r\n":
        return None
    head, _, rest = answer.partition(b"\r\n")
    words = head.split(b" ")
    if len(words) != 4 or words[0] != b"VALUE" or words[1] != key:
        raise ValueError("not an answer to get %r: %r" % (key, answer[:100]))
    size = int(words[3])
    if rest[size:] != b"\r\nEND\r\n":
        raise ValueError("a wrong end of an answer to get %r: %r" % (key, rest[size:][:100]))
    return rest[:size]
