# SPDX-License-Identifier: BSD-3-Clause
"""A session of pylibmc, which is libmemcached: session.py PORT text|binary [USER PASSWORD]"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import pylibmc
from report import gone, is_, ok, raises, run

BINARY = sys.argv[2] == "binary"
LOGIN = dict(zip(("username", "password"), sys.argv[3:5]))
ALL_BYTES = bytes(range(256)) + b"\r\nEND\r\n"
LARGE = os.urandom(1000 * 1000)
PATIENT = {"connect_timeout": 30000, "_poll_timeout": 30000} # ms: a busy machine's server is late


def storage(c):
    is_(c.set("a", "one"), True, "set")
    is_(c.get("a"), "one", "get returns the value, by its flags as a string")
    is_(c.get("none"), None, "get misses")
    is_(c.add("a", "two"), False, "add keeps an existing value")
    is_(c.add("b", b"3"), True, "add stores a missing key")
    try:
        stored = c.replace("none", "two")
    except pylibmc.NotFound:
        stored = False
    is_(stored, False, "replace stores no missing key")
    is_(c.replace("b", b"3"), True, "replace stores an existing key")
    is_(c.append("b", b"4"), True, "append")
    is_(c.prepend("b", b"2"), True, "prepend")
    is_(c.get("b"), b"234", "the value has all three parts")
    for value in (7, 2 ** 40, 1.5, None, ["a", {"b": (1, 2)}], True):
        c.set("p", value)
        is_(c.get("p"), value, "the flags show the type of %r" % (value,))


def unique_ids(c):
    c.set("cas", "1")
    value, cas = c.gets("cas")
    is_(value, "1", "gets returns the value")
    is_(c.cas("cas", "2", cas), True, "cas with the id of gets stores")
    is_(c.cas("cas", "3", cas), False, "cas with the old id stores nothing")
    is_(c.get("cas"), "2", "the value is that of the first cas")
    is_(c.gets("none"), (None, None), "gets misses")


def numbers(c):
    c.set("n", 10)
    is_(c.incr("n", 5), 15, "incr")
    is_(c.decr("n", 6), 9, "decr")
    is_(c.decr("n", 100), 0, "decr stops at 0")
    raises(lambda: c.incr("none"), pylibmc.NotFound, "incr of a missing key is not found")
    is_(c.incr_multi(["n"], delta=3), None, "incr_multi")
    is_(c.get("n"), 3, "the value is still a number")


def many(c):
    items = {"m%d" % i: "value %d" % i for i in range(200)}
    is_(c.set_multi(items), [], "set_multi stores 200 items")
    is_(c.get_multi(list(items) + ["none"]), items, "get_multi returns them and no other")
    is_(c.delete_multi(list(items)), True, "delete_multi")
    is_(c.get_multi(list(items)), {}, "the deleted keys miss")
    is_(c.set_multi({"1": b"x", "2": b"y"}, key_prefix="prefix-"), [], "set_multi with a prefix")
    is_(c.get_multi(["1", "2"], key_prefix="prefix-"), {"1": b"x", "2": b"y"},
        "get_multi with a prefix")


def values(c):
    for name, value in (("no bytes", b""), ("bytes of every kind", ALL_BYTES), ("1 MB", LARGE)):
        is_(c.set("v", value), True, "set of a value of " + name)
        ok(c.get("v") == value, "get returns %s" % name)
    raises(lambda: c.set("v", b"x" * (2 << 20)), pylibmc.Error,
           "set of a value over the limit fails")
    is_(c.set("v", b"after"), True, "the server serves the next command of the connection")
    is_(c.get("v"), b"after", "the server serves the command after it")
    is_(c.set("z", b"z" * 100000, min_compress_len=1000), True,
        "set of a value that the client compresses")
    is_(c.get("z"), b"z" * 100000, "get returns it as it was")


def times(c):
    c.set("t", b"x", time=1)
    c.set("u", b"x")
    is_(c.touch("u", 1), True, "touch")
    is_(c.touch("none", 1), False, "touch of a missing key")
    gone(lambda: c.get("t"), "an item expires")
    gone(lambda: c.get("u"), "a touched item expires")


def the_server(c):
    (_, stats), = c.get_stats()
    is_(stats["pointer_size"], b"64", "stats")
    is_(c.delete("a"), True, "delete")
    is_(c.delete("a"), False, "delete again")
    ok(c.get("b") is not None, "another item still exists")
    is_(c.flush_all(), True, "flush_all")
    is_(c.get("b"), None, "get misses afterwards")


def quiet(port):
    """Commands without a reply."""
    c = pylibmc.Client(["127.0.0.1:%d" % port], binary=BINARY, **LOGIN,
                       behaviors={"_noreply": True, **PATIENT})
    want = {"q%d" % i: "value %d" % i for i in range(500)}
    for key, value in want.items():
        c.set(key, value)
    is_(c.get("q499"), "value 499", "the server answers a get after 500 sets without replies")
    plain = pylibmc.Client(["127.0.0.1:%d" % port], binary=BINARY, **LOGIN, behaviors=PATIENT)
    is_(plain.get_multi(list(want)), want, "all 500 values are stored")


def session(port):
    c = pylibmc.Client(["127.0.0.1:%d" % port], binary=BINARY, **LOGIN,
                       behaviors={"cas": True, **PATIENT})
    for part in (storage, unique_ids, numbers, many, values, times, the_server):
        part(c)
    quiet(port)


run(session)
