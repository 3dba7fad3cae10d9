#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every opcode of the binary protocol, in its right form and with wrong lengths."""
import struct

import binary as b
import server
import tap

memcached = server.Server("-m", "64", threads=1)
text = memcached.stream()
NOOP = b.request("noop", opaque=0x77)


def connect():
    return b.Binary(memcached.stream())


c = connect()

# opcode: (a request for key "k", which holds "5"; the answer's extras, key, value without the id)
NUMBER = struct.pack("!Q", 6)
FLAGS = struct.pack("!I", 9)
RIGHT = (
    ("get", b.request("get", b"k"), (FLAGS, b"", b"5")),
    ("set", b.store("set", b"k", b"5", 9), (b"", b"", b"")),
    ("add", b.store("add", b"new", b"5"), (b"", b"", b"")),
    ("replace", b.store("replace", b"k", b"5", 9), (b"", b"", b"")),
    ("delete", b.request("delete", b"k"), (b"", b"", b"")),
    ("incr", b.count("incr", b"k"), (b"", b"", NUMBER)),
    ("decr", b.count("decr", b"k", 9), (b"", b"", bytes(8))),
    ("flush", b.request("flush"), (b"", b"", b"")),
    ("getq", b.request("getq", b"k"), (FLAGS, b"", b"5")),
    ("noop", b.request("noop"), (b"", b"", b"")),
    ("getk", b.request("getk", b"k"), (FLAGS, b"k", b"5")),
    ("getkq", b.request("getkq", b"k"), (FLAGS, b"k", b"5")),
    ("append", b.request("append", b"k", b"5"), (b"", b"", b"")),
    ("prepend", b.request("prepend", b"k", b"5"), (b"", b"", b"")),
    ("setq", b.store("setq", b"k", b"5"), None), ("addq", b.store("addq", b"new", b"5"), None),
    ("replaceq", b.store("replaceq", b"k", b"5"), None),
    ("deleteq", b.request("deleteq", b"k"), None), ("incrq", b.count("incrq", b"k"), None),
    ("decrq", b.count("decrq", b"k"), None), ("flushq", b.request("flushq"), None),
    ("appendq", b.request("appendq", b"k", b"5"), None),
    ("prependq", b.request("prependq", b"k", b"5"), None),
    ("touch", b.touch("touch", b"k"), (FLAGS, b"", b"")),
    ("gat", b.touch("gat", b"k"), (FLAGS, b"", b"5")),
    ("gatq", b.touch("gatq", b"k"), (FLAGS, b"", b"5")),
    ("gatk", b.touch("gatk", b"k"), (FLAGS, b"k", b"5")),
    ("gatkq", b.touch("gatkq", b"k"), (FLAGS, b"k", b"5")),
)


def with_opaque(request, opaque):
    return request[:12] + struct.pack("!I", opaque) + request[16:]


@tap.case
def every_opcode_in_its_right_form():
    for name, request, want in RIGHT:
        text.all(b"delete new\r\nset k 9 0 1\r\n5\r\n")
        got = [(r.opcode, r.status, r.opaque, r.extras, r.key, r.value)
               for r in c.all(with_opaque(request, 0xfeedface))]
        tap.is_(got, [] if want is None else [(b.OPCODES[name], b.OK, 0xfeedface) + want],
                "%02x %s %s" % (b.OPCODES[name], name, "is quiet" if want is None else "answers"))
    d = connect()
    tap.is_([r.opcode for r in d.to_end(b.request("quit") + NOOP)], [7],
            "07 quit is answered, and closes")
    tap.is_(connect().to_end(b.request("quitq") + NOOP), [], "17 quitq closes")
    tap.is_(c.ask(b.request("version")).value, text.ask(b"version\r\n")[8:-2], "0b version")
    tap.is_(c.stats()[0][0], "pid", "10 stat")
    missing = sorted(set(range(256)) - set(b.OPCODES.values()) | {b.OPCODES["verbosity"]})
    replies = [c.ask(b.request(opcode, b"key", b"value", b"extras")) for opcode in missing]
    tap.is_([(r.opcode, r.status, r.value) for r in replies],
            [(opcode, b.UNKNOWN, b"Unknown command") for opcode in missing],
            "1b, 30 to 3c and all other opcodes are unknown, their bodies are skipped, and the "
            "connection stays open")


# name, a request, its status and text; "k" is stored and holds "x", "none" is missing.
ERRORS = (
    ("get", b.request("get", b"none"), b.NOT_FOUND, b"", b"Not found"),
    ("getk", b.request("getk", b"none"), b.NOT_FOUND, b"none", b""),
    ("gat", b.touch("gat", b"none"), b.NOT_FOUND, b"", b"Not found"),
    ("gatk", b.touch("gatk", b"none"), b.NOT_FOUND, b"none", b""),
    ("touch", b.touch("touch", b"none"), b.NOT_FOUND, b"", b"Not found"),
    ("delete", b.request("delete", b"none"), b.NOT_FOUND, b"", b"Not found"),
    ("deleteq", b.request("deleteq", b"none"), b.NOT_FOUND, b"", b"Not found"),
    ("replace", b.store("replace", b"none", b"v"), b.NOT_FOUND, b"", b"Not found"),
    ("replaceq", b.store("replaceq", b"none", b"v"), b.NOT_FOUND, b"", b"Not found"),
    ("incr", b.count("incr", b"none", exptime=-1), b.NOT_FOUND, b"", b"Not found"),
    ("decrq", b.count("decrq", b"none", exptime=-1), b.NOT_FOUND, b"", b"Not found"),
    ("set", b.store("set", b"none", b"v", cas=9), b.NOT_FOUND, b"", b"Not found"),
    ("add", b.store("add", b"k", b"v"), b.EXISTS, b"", b"Data exists for key."),
    ("addq", b.store("addq", b"k", b"v"), b.EXISTS, b"", b"Data exists for key."),
    ("set", b.store("set", b"k", b"v", cas=1 << 50), b.EXISTS, b"", b"Data exists for key."),
    ("delete", b.request("delete", b"k", cas=1 << 50), b.EXISTS, b"", b"Data exists for key."),
    ("set", b.store("set", b"none", b"v" * 1100000), b.TOO_LARGE, b"", b"Too large."),
    ("setq", b.store("setq", b"none", b"v" * 1100000), b.TOO_LARGE, b"", b"Too large."),
    ("append", b.request("append", b"none", b"v"), b.NOT_STORED, b"", b"Not stored."),
    ("prependq", b.request("prependq", b"none", b"v"), b.NOT_STORED, b"", b"Not stored."),
    ("incr", b.count("incr", b"k"), b.NON_NUMERIC, b"",
     b"Non-numeric server-side value for incr or decr"),
    ("decrq", b.count("decrq", b"k"), b.NON_NUMERIC, b"",
     b"Non-numeric server-side value for incr or decr"),
    ("sasl_list", b.request("sasl_list"), b.UNKNOWN, b"", b"Unknown command"),
    ("sasl_auth", b.request("sasl_auth", b"PLAIN", b"\0u\0p"), b.UNKNOWN, b"", b"Unknown command"),
    ("sasl_step", b.request("sasl_step", b"PLAIN", b"\0u\0p"), b.UNKNOWN, b"", b"Unknown command"),
)


@tap.case
def every_status_and_its_text():
    for name, request, status, key, value in ERRORS:
        text.set(b"k", b"x")
        got = [(r.opcode, r.status, r.opaque, r.extras, r.key, r.value)
               for r in c.all(with_opaque(request, 5))]
        tap.is_(got, [(b.OPCODES[name], status, 5, b"", key, value)],
                "%s: %02x %s" % (name, status, (key or value).decode()))
    for name in ("getq", "getkq", "gatq", "gatkq"):
        request = b.touch(name, b"none") if name.startswith("gat") else b.request(name, b"none")
        tap.is_(c.all(request), [], "%s of a missing key is not answered" % name)


@tap.case
def keys_that_are_longer_than_the_body():
    """CVE-2016-8704 to 8706: any opcode, SASL too, with a key length above the body length."""
    wrong = []
    for opcode in sorted(b.OPCODES.values()):
        for nextras in (0, 4, 8, 20):
            for nkey, nbody in ((1, 0), (250, 249), (250, nextras), (100, nextras + 99)):
                data = b.request(opcode, b"k" * nbody, nkey=nkey, nextras=nextras, nbody=nbody)
                if nkey + nextras <= nbody:
                    continue
                replies = connect().to_end(data + NOOP)
                if [(r.opcode, r.status) for r in replies] not in (
                        [(opcode, b.UNKNOWN)], [(opcode, b.INVALID)]):
                    wrong.append((opcode, nkey, nextras, nbody, replies))
    tap.is_(wrong[:3], [], "each is answered with an error and closes")
    tap.is_(c.ask(NOOP).status, b.OK, "other connections stay open")


@tap.case
def extras_of_any_length():
    """CVE-2020-10931: extras longer or shorter than the command's."""
    right = {"set": 8, "add": 8, "replace": 8, "setq": 8, "addq": 8, "replaceq": 8, "incr": 20,
             "decr": 20, "incrq": 20, "decrq": 20, "touch": 4, "gat": 4, "gatq": 4, "gatk": 4,
             "gatkq": 4}
    wrong = []
    for name, opcode in b.OPCODES.items():
        for nextras in (1, 3, 4, 5, 7, 8, 9, 19, 20, 21, 24, 127, 128, 255):
            if nextras == right.get(name) or name == "verbosity" or \
                    (name in ("flush", "flushq") and nextras == 4):
                continue
            key = b"" if name in ("noop", "version", "quit", "quitq", "flush", "flushq") else b"key"
            replies = connect().to_end(b.request(name, key, b"", b"e" * nextras) + NOOP)
            if [(r.opcode, r.status) for r in replies] != [(opcode, b.INVALID)]:
                wrong.append((name, nextras, replies))
    tap.is_(wrong[:3], [], "14 wrong lengths for each opcode: Invalid arguments, and closed")


@tap.case
def bodies_of_impossible_length():
    """CVE-2011-4971: a body length that is negative, over INT_MAX, or too small for the key."""
    wrong = []
    for name, opcode in b.OPCODES.items():
        for nbody in (0x80000000, 0xffffffff, 0xfffffff0, 0x7fffffff, 0x80000018):
            replies = connect().to_end(b.request(opcode, b"key", b"", b"", nbody=nbody) + NOOP)
            if [(r.opcode, r.status) for r in replies] != [(opcode, b.INVALID)]:
                wrong.append((name, hex(nbody), replies))
    tap.is_(wrong[:3], [], "each opcode with each of 5: Invalid arguments, and closed")
    tap.ok(memcached.resident() < 195, "no memory was taken for them (%d MB)" %
           memcached.resident())


@tap.case
def wrong_magics():
    for magic in (0, 1, 0x20, 0x7f, 0x81, 0x82, 0xff):
        d = connect()
        d.ask(NOOP)
        tap.is_(d.to_end(b.request("noop", magic=magic) + NOOP), [],
                "magic %02x closes without an answer" % magic)


tap.run(ends=memcached)
