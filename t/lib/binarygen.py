# SPDX-License-Identifier: BSD-3-Clause
"""binarygen: random streams of binary requests. What it leaves out: t/differences.md.

Compared is every byte of the answers but CAS ids (zero or not) and the version.
"""
import random
import struct

import binary as b
import client
import tap

NUMBERS = [b"n%d" % i for i in range(8)]
KEYS = [b"k%d" % i for i in range(12)] + [b"k" * 250, b"\0\n\r "] + NUMBERS
TIMES = (0, 0, 0, 1000, 0x50000000, 0x7fffffff, 0x80000000, 0x90000000, 0xffffffff)
QUIET = {"set": "setq", "add": "addq", "replace": "replaceq", "append": "appendq",
         "prepend": "prependq", "delete": "deleteq", "incr": "incrq", "decr": "decrq",
         "get": "getq", "getk": "getkq", "gat": "gatq", "gatk": "gatkq", "flush": "flushq"}
VERBS = (["get", "getk", "set"] * 6 +
         ["gat", "gatk", "touch", "add", "replace", "append", "prepend", "incr", "decr",
          "delete"] * 3 + ["noop", "version", "unknown", "stat", "flush", "reset", "sasl_list"])
UNSTATED = (b"conns", b"nothing", b"item", b"cachedump 1 1")


class Binary:
    # 1.6.18 makes a new item of a number that a get of the same read still holds.
    uncounted = ("total_items",)
    mark = b.request("noop", opaque=b.Binary.NOOP)
    mark_answer = struct.pack("!BBHBBHIIQ", b.RESPONSE, b.OPCODES["noop"], 0, 0, 0, 0, 0,
                              b.Binary.NOOP, 0)

    def __init__(self, seed, datagrams=False):
        self.rng = random.Random("binary %d %s" % (seed, datagrams))
        self.datagrams = datagrams
        self.ids = [{}, {}]

    def value(self):
        kind = self.rng.random()
        if kind < 0.4:
            return b"%d" % self.rng.choice((0, 1, 9, 10, 99, 100, 2 ** 62, 2 ** 64, 123456))
        if kind < 0.45:
            return self.rng.choice((b" 12", b"12 ", b"-1", b"12x", b"+5", b"1\0002", b"", b"x"))
        return b"_" + self.rng.randbytes(self.rng.choice((0, 1, 2, 10, 100, 100, 1000, 20000)))

    def request(self):
        """(a function from a CAS id to the request, the key whose id it takes, or None)."""
        rng = self.rng
        verb, key = rng.choice(VERBS), rng.choice(KEYS)
        if verb in ("incr", "decr"):
            key = rng.choice(NUMBERS)
        elif verb in ("append", "prepend") and key in NUMBERS:
            key = b"k1"
        name = QUIET[verb] if verb in QUIET and rng.random() < 0.4 else verb
        opaque, value, time = rng.getrandbits(32), self.value(), rng.choice(TIMES)
        wants = rng.choice((None,) * 6 + ("id", "id", "wrong"))

        def make(cas):
            rest = {"opaque": opaque, "cas": cas, "vbucket": opaque & 0xffff,
                    "datatype": opaque & 1}
            if verb in ("set", "add", "replace"):
                return b.store(name, key, value, opaque >> 8, time, **rest)
            if verb in ("append", "prepend"):
                return b.request(name, key, value[:200], **rest)
            if verb in ("incr", "decr"):
                return b.count(name, key, opaque % 1000, opaque % 77, time, **rest)
            if verb in ("touch", "gat", "gatk"):
                return b.touch(name, key, time, **rest)
            if verb == "unknown":
                return b.request(0x25 + opaque % 0xda, **rest)
            if verb == "stat":
                return b.request("stat", UNSTATED[opaque % 4], **rest)
            if verb == "reset":
                return b.request("stat", b"reset", **rest)
            if verb == "flush":
                return b.request(name, extras=struct.pack("!I", 0) * (opaque & 1), **rest)
            if verb in ("noop", "version", "sasl_list"):
                return b.request(name, **rest)
            return b.request(name, key, **rest)

        return make, {"id": key, "wrong": b"", None: None}[wants]

    def batch(self):
        requests = [self.request() for _ in range(self.rng.randint(1, 4 if self.datagrams else 40))]
        look = [b.request("getk", k) for k in self.rng.sample(KEYS, 4)]
        both = [[make(0 if key is None else ids.get(key, 1 << 50)) for make, key in requests] + look
                for ids in self.ids]
        while self.datagrams and sum(map(len, both[0])) > 60000:
            both = [commands[1:] for commands in both]
        return both

    def learn(self, which, answer):
        """Reads each key's id from the replies that have a key."""
        try:
            for reply in b.replies(answer):
                if reply.key and reply.cas and reply.status == 0:
                    self.ids[which][reply.key] = reply.cas
        except ValueError:
            pass  # an answer that is compared with the other server's

    def plain(self, _which, answer):
        return answer

    def same(self, ours, theirs):
        if ours == theirs:
            return True
        try:
            return plain_replies(ours) == plain_replies(theirs)
        except ValueError:
            return False

    def forget(self):
        self.ids = [{}, {}]


def normal(reply):
    value = b"" if reply.opcode == b.OPCODES["version"] and reply.status == 0 else reply.value
    if reply.opcode not in (b.OPCODES["incr"], b.OPCODES["decr"]):
        value = value.rstrip(b" ")
    return reply._replace(cas=int(reply.cas != 0), value=value)


def plain_replies(answer):
    return [normal(reply) for reply in b.replies(answer)]


def is_intended(opcode, nkey, nextras, nvalue):
    known = opcode <= 0x1a or 0x1c <= opcode <= 0x1e or 0x20 <= opcode <= 0x24
    if nkey > 250:
        return False
    if not known:
        return nkey + nextras + nvalue > 0
    return opcode in (0x10, 0x1c, 0x1d, 0x1e, 0x23, 0x24) and nvalue > 0


def some_forms(seed, number):
    """(request, opcode, length of key, of extras, of value, the name in a report)"""
    rng = random.Random(seed)
    while number > 0:
        opcode = rng.choice((rng.randrange(256), rng.randrange(0x26)))
        nkey, nvalue = rng.choice((0, 0, 1, 3, 250, 251)), rng.choice((0, 0, 0, 1, 5))
        nextras = rng.choice((0, 0, 1, 3, 4, 4, 7, 8, 8, 9, 20, 20, 21, 255))
        if is_intended(opcode, nkey, nextras, nvalue) or opcode in (7, 0x10, 0x17):
            continue
        short = {"nbody": rng.randrange(nkey + nextras)} if rng.random() < 0.1 and \
            0 < nkey + nextras and nkey <= 250 else {}
        number -= 1
        yield (b.request(opcode, b"k" * nkey, b"v" * nvalue, bytes(nextras), **short), opcode, nkey,
               nextras, nvalue, short)


def datagrams(seed, number):
    return (form[0] for form in some_forms("datagrams %d" % seed, number))


def forms(seed, number, both):
    """Every opcode with any lengths of key, extras and value."""
    wrong, count, closed = [], 0, 0
    for data, opcode, nkey, nextras, nvalue, short in some_forms(seed, number):
        answers = []
        for which in both:
            which.control = getattr(which, "control", None) or which.stream()
            which.control.all(b"delete %s\r\n" % (b"k" * (nkey or 1)) if nkey < 251 else b"")
            connection = b.Binary(which.stream())
            replies = []
            try:
                connection.send(data + b.request("noop", opaque=b.Binary.NOOP))
                while not replies or replies[-1].opaque != b.Binary.NOOP:
                    replies.append(connection.reply())
            except (client.Closed, ConnectionResetError):
                replies.append("closed")
            connection.stream.close()
            answers.append([r if r == "closed" else normal(r) for r in replies])
        count += 1
        closed += answers[0][-1] == "closed"
        if answers[0] != answers[1]:
            wrong.append((hex(opcode), nkey, nextras, nvalue, short, answers))
    tap.is_(wrong[:3], [], "%d forms of requests have the same answers, %d of them closed" %
            (count, closed))
    tap.ok(0 < closed < count, "some are closed, some not")
