# SPDX-License-Identifier: BSD-3-Clause
"""binary: memcached's binary protocol, byte exact, over client.Stream and client.Udp."""
import collections
import struct

HEADER = 24
REQUEST, RESPONSE = 0x80, 0x81
OPCODES = {
    "get": 0x00, "set": 0x01, "add": 0x02, "replace": 0x03, "delete": 0x04, "incr": 0x05,
    "decr": 0x06, "quit": 0x07, "flush": 0x08, "getq": 0x09, "noop": 0x0a, "version": 0x0b,
    "getk": 0x0c, "getkq": 0x0d, "append": 0x0e, "prepend": 0x0f, "stat": 0x10, "setq": 0x11,
    "addq": 0x12, "replaceq": 0x13, "deleteq": 0x14, "incrq": 0x15, "decrq": 0x16, "quitq": 0x17,
    "flushq": 0x18, "appendq": 0x19, "prependq": 0x1a, "verbosity": 0x1b, "touch": 0x1c,
    "gat": 0x1d, "gatq": 0x1e, "sasl_list": 0x20, "sasl_auth": 0x21, "sasl_step": 0x22,
    "gatk": 0x23, "gatkq": 0x24,
}
OK, NOT_FOUND, EXISTS, TOO_LARGE, INVALID, NOT_STORED, NON_NUMERIC = range(7)
AUTH_ERROR, UNKNOWN, NO_MEMORY = 0x20, 0x81, 0x82

Reply = collections.namedtuple("Reply", "opcode status opaque cas extras key value")


def request(opcode, key=b"", value=b"", extras=b"", opaque=0, cas=0, **header):
    """The bytes of one request. `header` replaces fields: magic, nkey, nextras, datatype, vbucket,
    nbody.
    """
    if isinstance(opcode, str):
        opcode = OPCODES[opcode]
    body = extras + key + value
    head = struct.pack(
        "!BBHBBHIIQ", header.get("magic", REQUEST), opcode, header.get("nkey", len(key)),
        header.get("nextras", len(extras)), header.get("datatype", 0), header.get("vbucket", 0),
        header.get("nbody", len(body)), opaque, cas)
    return head + body


def store(opcode, key, value, flags=0, exptime=0, **rest):
    """set, add, replace and their quiet forms."""
    return request(opcode, key, value, struct.pack("!II", flags, exptime & 0xffffffff), **rest)


def count(opcode, key, delta=1, initial=0, exptime=0, **rest):
    """incr and decr."""
    return request(opcode, key, b"", struct.pack("!QQI", delta, initial, exptime & 0xffffffff),
                   **rest)


def touch(opcode, key, exptime=0, **rest):
    """touch and the gat family."""
    return request(opcode, key, b"", struct.pack("!I", exptime & 0xffffffff), **rest)


def split(data):
    """(the replies at the start of data, the rest)."""
    replies = []
    while len(data) >= HEADER:
        magic, opcode, nkey, nextras, datatype, status, nbody, opaque, cas = \
            struct.unpack("!BBHBBHIIQ", data[:HEADER])
        if magic != RESPONSE or datatype != 0 or nkey + nextras > nbody:
            raise ValueError("not the header of a response: %r" % data[:HEADER])
        if len(data) < HEADER + nbody:
            break
        body, data = data[HEADER:HEADER + nbody], data[HEADER + nbody:]
        replies.append(Reply(opcode, status, opaque, cas, body[:nextras],
                             body[nextras:nextras + nkey], body[nextras + nkey:]))
    return replies, data


def replies(data):
    """All replies in data, which ends with a whole one."""
    found, rest = split(data)
    if rest:
        raise ValueError("half a response: %r" % rest)
    return found


def error(opcode, status, value=b"", opaque=0):
    """An error's reply, without the fields that vary."""
    if isinstance(opcode, str):
        opcode = OPCODES[opcode]
    return Reply(opcode, status, opaque, 0, b"", b"", value)


class Binary:
    """A connection that speaks binary, over a client.Stream."""

    NOOP = 0x6e6f6f70

    def __init__(self, stream):
        self.stream = stream

    def send(self, data):
        self.stream.send(data)

    def reply(self):
        """The next reply."""
        head = self.stream.exactly(HEADER)
        nbody = struct.unpack("!I", head[8:12])[0]
        return replies(head + self.stream.exactly(nbody))[0]

    def ask(self, data):
        """Sends, and returns the one reply."""
        self.send(data)
        return self.reply()

    def all(self, data):
        """Sends, and returns every reply, perhaps none: a noop behind the request marks the end."""
        self.send(data + request("noop", opaque=self.NOOP))
        found = []
        while True:
            reply = self.reply()
            if (reply.opcode, reply.opaque) == (OPCODES["noop"], self.NOOP):
                return found
            found.append(reply)

    def to_end(self, data=b""):
        """Sends, and returns every reply until the server closes."""
        return replies(self.stream.to_end(data))

    def stats(self, which=b""):
        """[(key, value)] in the order of the replies."""
        self.send(request("stat", which))
        rows = []
        while True:
            reply = self.reply()
            if reply.status != OK or not reply.key:
                return rows if reply.status == OK else reply
            rows.append((reply.key.decode(), reply.value.decode()))
