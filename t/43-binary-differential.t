#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random binary streams, to this server and to the installed memcached: the same answers.

Both get the same requests, over TCP in pieces of any length and over UDP; each is given the CAS
ids that it gave. Compared is every byte of the answers but ids (zero or not) and the version.
DIFFERENTIAL_SEED and DIFFERENTIAL_COMMANDS choose another run.

What is intended to differ from memcached 1.6.18 is not sent: see INTENDED.
"""
import os
import random
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "lib"))
import binary as b
import client
import guard
import server
import tap

INTENDED = """
A body behind an unknown command is swallowed once; there twice, and the stream is out of step.
A value behind touch, gat or stat is invalid; there it is taken for the next request's header.
A body over INT_MAX is invalid; there it is waited for, or the connection closed without a word.
A set cut off by the end of its datagram is invalid; there it takes the next one for its value.
The digits of a number that became shorter are followed by spaces; there not always. Spaces at the
end of a value are not compared, and nothing is joined to numbers.
A value of nothing but blanks is no number; there what lies behind it in memory is read. Such
values are not stored, nor numbers over 2^63, which it refuses when a minus sign lies behind them.
In a datagram that answers nothing there comes a frame of 0 datagrams; here nothing.
"""

SEED = int(os.environ.get("DIFFERENTIAL_SEED", 1))
COMMANDS = int(os.environ.get("DIFFERENTIAL_COMMANDS", 30000))
PEER = "/usr/bin/memcached"

if not os.access(PEER, os.X_OK):
    tap.skip_all("no %s to compare with: apt-get install memcached" % PEER)


class Peer:
    """The installed memcached, as far as server.Server is needed."""

    def __init__(self):
        self.port = server.free_port()
        user = ["-u", server.USER] if os.geteuid() == 0 else []
        self.process = subprocess.Popen([PEER, "-l", "127.0.0.1", "-p", str(self.port), "-U",
                                         str(self.port), "-t", "1"] + user)
        guard.add("pid", self.process.pid)
        if not server.wait_for(self._answers):
            raise RuntimeError("%s does not answer" % PEER)

    def _answers(self):
        try:
            self.stream().ask(b"version\r\n")
            return True
        except ConnectionError:
            return False

    def stream(self):
        return client.tcp("127.0.0.1", self.port)

    def udp(self):
        return client.Udp("127.0.0.1", self.port)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        guard.remove("pid", self.process.pid)


OURS = server.Server(threads=1)
THEIRS = Peer()
BOTH = (OURS, THEIRS)

NUMBERS = [b"n%d" % i for i in range(8)]
KEYS = [b"k%d" % i for i in range(12)] + [b"k" * 250, b"\0\n\r "] + NUMBERS
TIMES = (0, 0, 0, 1000, 0x50000000, 0x7fffffff, 0xffffffff)
QUIET = {"set": "setq", "add": "addq", "replace": "replaceq", "append": "appendq",
         "prepend": "prependq", "delete": "deleteq", "incr": "incrq", "decr": "decrq",
         "get": "getq", "getk": "getkq", "gat": "gatq", "gatk": "gatkq", "flush": "flushq"}
VERBS = (["get", "getk", "set"] * 6 +
         ["gat", "gatk", "touch", "add", "replace", "append", "prepend", "incr", "decr",
          "delete"] * 3 + ["noop", "version", "unknown", "stat", "flush", "reset", "sasl_list"])
UNSTATED = (b"conns", b"nothing", b"item", b"cachedump 1 1")


class Batch:
    """Some requests. An id is asked for by its key, or is a number that no value has."""

    def __init__(self, rng):
        self.rng = rng
        self.requests = [self.request() for _ in range(rng.randint(1, 20))]

    def value(self):
        kind = self.rng.random()
        if kind < 0.4:
            return b"%d" % self.rng.choice((0, 1, 9, 10, 99, 100, 2 ** 62, 2 ** 64, 123456))
        if kind < 0.45:
            return self.rng.choice((b" 12", b"12 ", b"-1", b"12x", b"+5", b"1\0002", b"", b"x"))
        return b"_" + self.rng.randbytes(self.rng.choice((0, 1, 2, 10, 100, 100, 1000, 20000)))

    def request(self):
        """(what makes the request from a CAS id, the key whose id it wants, or None)"""
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

    def bytes(self, ids):
        return [make(0 if key is None else ids.get(key, 1 << 50)) for make, key in self.requests]


def normal(reply):
    value = b"" if reply.opcode == b.OPCODES["version"] and reply.status == 0 else reply.value
    if reply.opcode not in (b.OPCODES["incr"], b.OPCODES["decr"]):
        value = value.rstrip(b" ")
    return reply._replace(cas=int(reply.cas != 0), value=value)


def read_ids(replies, ids):
    """Which id each key has, from answers that say a key."""
    for reply in replies:
        if reply.key and reply.cas and reply.status == 0:
            ids[reply.key] = reply.cas


def brief(reply):
    return reply and reply._replace(value=reply.value[:20] + b" ... " + reply.value[-20:])


def show(name, batch, ours, theirs):
    tap.diag("seed %d, %s" % (SEED, name))
    for data in batch:
        tap.diag("sent   %r" % data[:80])
    for i in range(max(len(ours), len(theirs))):
        mine = ours[i] if i < len(ours) else None
        other = theirs[i] if i < len(theirs) else None
        if mine != other:
            tap.diag("ours   %s\ntheirs %s" % (brief(mine), brief(other)))
            return


def compare(name, ask, rounds):
    """ask(which, data, pieces): all replies to the requests in data."""
    rng = random.Random("%d %s" % (SEED, name))
    ids = [{}, {}]
    ncommands = nreplies = nhits = 0
    while ncommands < rounds:
        batch = Batch(rng)
        look = [b.request("getk", k) for k in rng.sample(KEYS, 4)]
        pieces = rng.getrandbits(64)
        answers, sent = [], []
        for which in (0, 1):
            data = batch.bytes(ids[which])
            first = ask(which, data, pieces)
            second = ask(which, look, pieces)
            read_ids(first + second, ids[which])
            answers.append([normal(r) for r in first + second])
            sent.append(data)
        ncommands += len(batch.requests) + len(look)
        nreplies += len(answers[0])
        nhits += sum(r.status == 0 for r in answers[0])
        if answers[0] != answers[1]:
            tap.ok(False, "%s: %d random commands have the same answers" % (name, rounds))
            show("command %d over %s" % (ncommands, name), sent[0] + look, *answers)
            return
    tap.ok(nhits > nreplies / 4 and nhits < nreplies,
           "%d random commands over %s have the same %d answers (%d successes)" %
           (ncommands, name, nreplies, nhits))


@tap.case
def streams():
    connections = [b.Binary(s.stream()) for s in BOTH]

    def ask(which, requests, pieces):
        data, rng = b"".join(requests), random.Random(pieces)
        stream = connections[which].stream
        while data and rng.random() < 0.7:
            at = rng.randint(1, len(data))
            stream.send(data[:at])
            data = data[at:]
        return connections[which].all(data)

    compare("TCP", ask, COMMANDS)


@tap.case
def datagrams():
    sockets = [s.udp() for s in BOTH]

    def message(udp, ident):
        """One message; empty frames are no message."""
        parts = {}
        while True:
            datagram = udp.recv_raw()
            got, sequence, count, _ = struct.unpack("!HHHH", datagram[:8])
            if got != ident:
                raise client.FrameError("id %d, want %d" % (got, ident))
            if count > 0:
                parts[sequence] = datagram[8:]
            if count > 0 and len(parts) == count:
                return b.replies(b"".join(parts[i] for i in range(count)))

    def ask(which, requests, pieces):
        rng, found = random.Random(pieces), []
        while requests:
            n = rng.randint(1, 4)
            data, requests = b"".join(requests[:n]), requests[n:]
            if len(data) > 60000:
                continue
            ident = sockets[which].send(data + b.request("noop", opaque=b.Binary.NOOP))
            while True:
                replies = message(sockets[which], ident)
                if replies[-1].opaque == b.Binary.NOOP and replies[-1].opcode == 10:
                    break
                found += replies
        return found

    compare("UDP", ask, COMMANDS // 2)


def is_intended(opcode, nkey, nextras, nvalue):
    known = opcode <= 0x1a or 0x1c <= opcode <= 0x1e or 0x20 <= opcode <= 0x24
    if nkey > 250:
        return False
    if not known:
        return nkey + nextras + nvalue > 0
    return opcode in (0x10, 0x1c, 0x1d, 0x1e, 0x23, 0x24) and nvalue > 0


@tap.case
def forms_of_requests():
    """Every opcode with any lengths of key, extras and value."""
    rng = random.Random(SEED)
    wrong, count, closed = [], 0, 0
    while count < COMMANDS // 20:
        opcode = rng.choice((rng.randrange(256), rng.randrange(0x26)))
        nkey, nvalue = rng.choice((0, 0, 1, 3, 250, 251)), rng.choice((0, 0, 0, 1, 5))
        nextras = rng.choice((0, 0, 1, 3, 4, 4, 7, 8, 8, 9, 20, 20, 21, 255))
        if is_intended(opcode, nkey, nextras, nvalue) or opcode in (7, 0x10, 0x17):
            continue
        short = {"nbody": rng.randrange(nkey + nextras)} if rng.random() < 0.1 and \
            0 < nkey + nextras and nkey <= 250 else {}
        data = b.request(opcode, b"k" * nkey, b"v" * nvalue, bytes(nextras), **short)
        answers = []
        for which in BOTH:
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


@tap.case
def both_still_live():
    THEIRS.stop()
    tap.is_(OURS.stop(), 0, "the server ends with status 0")


tap.run(600)
