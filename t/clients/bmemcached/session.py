# SPDX-License-Identifier: BSD-3-Clause
"""A session of python-binary-memcached, a client of the binary protocol:
session.py PORT [USER PASSWORD]"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import bmemcached
from bmemcached.exceptions import MemcachedException
from report import gone, is_, ok, raises, run

ALL_BYTES = bytes(range(256)) + b"\r\nEND\r\n"
LARGE = os.urandom(1000 * 1000)


def storage(c):
    is_(c.set("a", "one"), True, "set")
    is_(c.get("a"), "one", "get returns the value, by its flags as a string")
    is_(c.get("none"), None, "get misses")
    is_(c.get("none", default="other"), "other", "a miss returns the client's default")
    is_(c.add("a", "two"), False, "add keeps an existing value")
    is_(c.add("b", b"2"), True, "add stores a missing key")
    is_(c.replace("none", "two"), False, "replace stores no missing key")
    is_(c.replace("b", b"3"), True, "replace stores an existing key")
    is_(c.get("b"), b"3", "the value is that of replace")
    for value in (7, 2 ** 40, 1.5, ["a", {"b": (1, 2)}]):
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
    is_(c.cas("none", "1", 5), False, "cas of a missing key stores nothing")
    cas = c.gets("cas")[1]
    is_(c.delete("cas", cas=cas + 1000), False, "delete with another id deletes nothing")
    is_(c.delete("cas", cas=cas), True, "delete with its own id deletes it")


def numbers(c):
    is_(c.incr("n", 5, default=10), 10, "incr of a missing key stores the default")
    is_(c.incr("n", 5), 15, "incr")
    is_(c.decr("n", 6), 9, "decr")
    is_(c.decr("n", 100), 0, "decr stops at 0")
    c.set("n", "word")
    raises(lambda: c.incr("n", 1), MemcachedException, "incr of a word is an error")


def many(c):
    items = {"m%d" % i: "value %d" % i for i in range(200)}
    is_(c.set_multi(items), [], "set_multi stores 200 items")
    is_(c.get_multi(list(items) + ["none"]), items, "get_multi returns them and no other")
    found = c.get_multi(list(items), get_cas=True)
    is_({key: pair[0] for key, pair in found.items()}, items,
        "get_multi with ids returns the same values")
    is_(len({pair[1] for pair in found.values()}), 200, "the 200 ids differ")
    is_(c.delete_multi(list(items)), True, "delete_multi")
    is_(c.get_multi(list(items)), {}, "the deleted keys miss")


def values(c):
    for name, value in (("no bytes", b""), ("bytes of every kind", ALL_BYTES), ("1 MB", LARGE)):
        is_(c.set("v", value), True, "set of a value of " + name)
        ok(c.get("v") == value, "get returns %s" % name)
    raises(lambda: c.set("v", os.urandom(2 << 20)) or None, MemcachedException,
           "set of a value over the limit is an error")
    c.disconnect_all()
    is_(c.set("v", b"after"), True, "the server serves the next connection")
    is_(c.set("k" * 250, b"x"), True, "a key of 250 bytes")
    is_(c.get("k" * 250), b"x", "a get of it returns its value")
    is_(c.set("z", b"z" * 100000, compress_level=6), True,
        "set of a value that the client compresses")
    is_(c.get("z"), b"z" * 100000, "get returns it as it was")


def times(c):
    c.set("t", b"x", time=1)
    gone(lambda: c.get("t"), "an item expires")


def the_server(c):
    stats, = c.stats().values()
    is_(stats["pointer_size"], b"64", "stats")
    settings, = c.stats("settings").values()
    ok(int(settings["maxbytes"]) > 0, "stats settings")
    is_(c.delete("a"), True, "delete")
    is_(c.get("a"), None, "get misses afterwards")
    ok(c.get("b") is not None, "another item still exists")
    is_(c.flush_all(), True, "flush_all")
    is_(c.get("b"), None, "get misses afterwards")


def session(port):
    user, password = (sys.argv[2:] + [None, None])[:2]
    c = bmemcached.Client(("127.0.0.1:%d" % port,), user, password, socket_timeout=30)
    for part in (storage, unique_ids, numbers, many, values, times, the_server):
        part(c)


run(session)
