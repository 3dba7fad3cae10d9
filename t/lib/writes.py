# SPDX-License-Identifier: BSD-3-Clause
"""writes: every way in which a value changes or is removed, as tables of requests.

KEY in a request stands for the key, ID for the id that cas takes, B64 for the key in base64. A
request may be a function of the key, and of the id.
"""
import base64
import collections
import socket

import binary as b
import client

OLD = b"old-value-1234567"
OVER = object() # the item has expired

# lines: answers of one line each that the request has; 0: others. alone: it is about all keys.
# in_place: the kernel path may answer afterwards.
Row = collections.namedtuple("Row", "name request want old flags lines alone in_place",
                             defaults=(OLD, 0, 1, False, True))

STORAGE = (
    Row("set", b"set KEY 0 0 3\r\nnew\r\n", b"new"),
    Row("set of the same length", b"set KEY 0 0 17\r\n%s\r\n" % OLD[::-1], OLD[::-1]),
    Row("set of other flags", b"set KEY 77 0 17\r\n%s\r\n" % OLD, OLD, flags=77),
    Row("set of a long value", b"set KEY 0 0 1200\r\n%s\r\n" % (b"x" * 1200), b"x" * 1200),
    Row("set of an empty value over a long one", b"set KEY 0 0 0\r\n\r\n", b"", b"x" * 1200),
    Row("replace", b"replace KEY 0 0 3\r\nnew\r\n", b"new"),
    Row("append", b"append KEY 0 0 4\r\n-end\r\n", OLD + b"-end"),
    Row("prepend", b"prepend KEY 0 0 6\r\nstart-\r\n", b"start-" + OLD),
    Row("cas", b"cas KEY 0 0 3 ID\r\nnew\r\n", b"new"),
    Row("cas that fails", b"cas KEY 0 0 3 1\r\nnew\r\n", OLD),
    Row("add that is not stored", b"add KEY 0 0 3\r\nnew\r\n", OLD),
)
NUMBERS = (
    Row("incr from 100 by 5", b"incr KEY 5\r\n", b"105", b"100"),
    Row("decr from 105 by 5", b"decr KEY 5\r\n", b"100", b"105"),
    Row("incr from 99 by 1", b"incr KEY 1\r\n", b"100", b"99"),
    Row("decr from 100 by 1", b"decr KEY 1\r\n", b"99 ", b"100"),
    Row("decr from 5 by 9", b"decr KEY 9\r\n", b"0", b"5"),
    Row("incr of 2^64-1", b"incr KEY 1\r\n", b"0                   ", b"18446744073709551615"),
)
REMOVALS = (
    Row("delete", b"delete KEY\r\n", None),
    Row("delete and add", b"delete KEY\r\nadd KEY 0 0 3\r\nnew\r\n", b"new", lines=2),
    Row("touch -1", b"touch KEY -1\r\n", OVER),
    Row("gat -1", b"gat -1 KEY\r\n", OVER, lines=0),
    Row("gats -1", b"gats -1 KEY\r\n", OVER, lines=0),
    Row("set that is expired at once", b"set KEY 0 -1 3\r\nnew\r\n", OVER),
    Row("flush_all", b"flush_all\r\n", OVER, alone=True),
    Row("flush_all and set", b"flush_all\r\nset KEY 0 0 3\r\nnew\r\n", b"new", lines=2, alone=True),
)
QUIET = (
    Row("set noreply", b"set KEY 0 0 3 noreply\r\nnew\r\n", b"new", lines=0),
    Row("delete noreply", b"delete KEY noreply\r\n", None, lines=0),
    Row("append noreply", b"append KEY 0 0 1 noreply\r\n!\r\n", OLD + b"!", lines=0),
    Row("incr noreply", b"incr KEY 1 noreply\r\n", b"42", b"41", lines=0),
    Row("touch -1 noreply", b"touch KEY -1 noreply\r\n", OVER, lines=0),
)
META = (
    Row("ms", b"ms KEY 3\r\nnew\r\n", b"new"),
    Row("ms of flags", b"ms KEY 3 F9 T0\r\nnew\r\n", b"new", flags=9),
    Row("ms MR", b"ms KEY 3 MR\r\nnew\r\n", b"new"),
    Row("ms ME", b"ms KEY 3 ME\r\nnew\r\n", OLD),
    Row("ms MA", b"ms KEY 4 MA\r\n-end\r\n", OLD + b"-end"),
    Row("ms MP", b"ms KEY 6 MP\r\nstart-\r\n", b"start-" + OLD),
    Row("ms of an id", b"ms KEY 3 CID\r\nnew\r\n", b"new"),
    Row("ms of a key in base64", b"ms B64 3 b\r\nnew\r\n", b"new", in_place=False),
    Row("ms q", b"ms KEY 3 q\r\nnew\r\n", b"new", lines=0),
    Row("md", b"md KEY\r\n", None),
    Row("md of a key in base64", b"md B64 b\r\n", None),
    Row("md q", b"md KEY q\r\n", None, lines=0),
    Row("ma", b"ma KEY\r\n", b"42", b"41"),
    Row("ma MD", b"ma KEY MD D2 q\r\n", b"42", b"44", lines=0),
    Row("mg T-1", b"mg KEY T-1\r\n", OVER),
)
TEXT = STORAGE + NUMBERS + REMOVALS

_PAST = 0x50000000 # seconds since 1970
BINARY = (
    Row("set", lambda key, _: b.store("set", key, b"new"), b"new"),
    Row("set of flags", lambda key, _: b.store("set", key, b"new", flags=9), b"new", flags=9),
    Row("set with its id", lambda key, cas: b.store("set", key, b"new", cas=cas), b"new"),
    Row("set with another id", lambda key, _: b.store("set", key, b"new", cas=1 << 40), OLD),
    Row("setq", lambda key, _: b.store("setq", key, b"new"), b"new"),
    Row("add that is not stored", lambda key, _: b.store("add", key, b"new"), OLD),
    Row("replace", lambda key, _: b.store("replace", key, b"new"), b"new"),
    Row("replaceq", lambda key, _: b.store("replaceq", key, b"new"), b"new"),
    Row("append", lambda key, _: b.request("append", key, b"-end"), OLD + b"-end"),
    Row("appendq", lambda key, _: b.request("appendq", key, b"-end"), OLD + b"-end"),
    Row("prepend", lambda key, _: b.request("prepend", key, b"start-"), b"start-" + OLD),
    Row("prependq", lambda key, _: b.request("prependq", key, b"start-"), b"start-" + OLD),
    Row("delete", lambda key, _: b.request("delete", key), None),
    Row("deleteq", lambda key, _: b.request("deleteq", key), None),
    Row("delete and add",
        lambda key, _: b.request("deleteq", key) + b.store("add", key, b"new"), b"new"),
    Row("incr", lambda key, _: b.count("incr", key), b"42", b"41"),
    Row("incrq", lambda key, _: b.count("incrq", key), b"100", b"99"),
    Row("decr", lambda key, _: b.count("decr", key), b"42", b"43"),
    Row("decrq", lambda key, _: b.count("decrq", key), b"99 ", b"100"),
    Row("touch", lambda key, _: b.touch("touch", key, 1000), OLD),
    Row("gat", lambda key, _: b.touch("gat", key, 1000), OLD),
    Row("touch with a time in the past", lambda key, _: b.touch("touch", key, _PAST), OVER),
    Row("gat with a time in the past", lambda key, _: b.touch("gat", key, _PAST), OVER),
    Row("gatkq with a time in the past", lambda key, _: b.touch("gatkq", key, _PAST), OVER),
    Row("flush", lambda key, _: b.request("flush"), OVER, alone=True),
    Row("flushq", lambda key, _: b.request("flushq"), OVER, alone=True),
)

_SET = b"set KEY 0 0 3\r\nnew\r\n"
PIPELINED = tuple(Row("a pipelined set after " + name, before + _SET, b"new", lines=0)
                  for name, before in (
    ("a value that ends in set and a space", b"set a 0 0 6\r\nreset \r\n"),
    ("a value that ends in set", b"set a 0 0 3\r\nset\r\n"),
    ("a key that ends in set", b"set offset 0 0 1\r\nx\r\n"),
    ("a get of a key that ends in set", b"get offset\r\n"),
    ("a key and a value that end in set", b"set \xffset 0 0 4\r\nset \r\n"),
    ("a value that is a command", b"set a 0 0 18\r\nset k 0 0 3\r\nnot\r\n\r\n"),
    ("a line that is no command", b"nonsense and more\r\n"),
    ("1,000 gets", b"get offset\r\n" * 1000),
)) + (
    Row("1,000 pipelined sets of one key",
        b"".join(b"set KEY 0 0 4\r\n%04d\r\n" % i for i in range(1000)), b"0999", lines=0),
)
FAILING = (
    Row("a set that is too large", b"set KEY 0 0 2000000\r\n%s\r\n" % (b"x" * 2000000), None),
    Row("an incr of no number", b"incr KEY 1\r\n", OLD),
)


def render(row, key, stream):
    """The bytes of a row's request for this key."""
    wants_id = callable(row.request) or b"ID" in row.request
    cas = stream.gets(key)[1] if wants_id else 0
    if callable(row.request):
        return row.request(key, cas)
    return row.request.replace(b"KEY", key).replace(b"B64", base64.b64encode(key)).replace(
        b"ID", b"%d" % cas)


class Tcp:
    """Text over a connection; a request has had its effect when its call returns."""

    def __init__(self, stream):
        self.stream = stream

    def ask(self, data, lines=1):
        if not lines:
            return self.stream.all(data)
        self.stream.send(data)
        return b"".join(self.stream.line() for _ in range(lines))


class Udp:
    """Text over datagrams."""

    TAIL, MARK = b"version\r\n", b"VERSION" # its reply shows that all requests before it are done

    def __init__(self, udp):
        self.udp = udp

    def ask(self, data, lines=1):
        if lines == 1:
            return self.udp.ask(data)
        self.udp.send(data + self.TAIL)
        while self.MARK not in self.udp.recv_raw(): # some replies of 1.6 are no whole replies
            pass
        return None


class BinaryTcp(Tcp):
    def ask(self, data, lines=0):
        return b.Binary(self.stream).all(data)


class BinaryUdp(Udp):
    TAIL = b.request("noop", opaque=0x77787778)
    MARK = TAIL[12:16]

    def ask(self, data, lines=0):
        return super().ask(data, 0)


def with_ip_options(address, port, options=b"\1\1\1\0"):
    """A connection whose segments have IP options."""
    stream = client.Stream.__new__(client.Stream)
    stream.sock = socket.socket()
    stream.sock.settimeout(client.SECONDS)
    stream.sock.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, options)
    stream.sock.connect((address, port))
    stream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.buffer, stream.sentinel = b"", None
    return stream


def timestamps(on):
    """Whether connections of this namespace have TCP timestamps from now on."""
    with open("/proc/sys/net/ipv4/tcp_timestamps", "w", encoding="ascii") as file:
        file.write("1" if on else "0")
