# SPDX-License-Identifier: BSD-3-Clause
"""A session of pymemcache, a client of the text protocol: session.py PORT tcp|udp"""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from pymemcache.client.base import Client
from pymemcache.client.base import PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError
import framed
from report import gone, is_, ok, raises, run

UDP = sys.argv[2] == "udp"
MANY = 30 if UDP else 200 # that fit one request
BINARY = bytes(range(256)) + b"\r\nEND\r\nVALUE x 0 1\r\n"
LARGE = os.urandom(1000 if UDP else 1000 * 1000)


class Flags:
    """A serializer that shows the flags."""

    def serialize(self, _key, value):
        return value, 65537

    def deserialize(self, _key, value, flags):
        return value, flags


def storage(c):
    is_(c.set("a", b"1", noreply=False), True, "set")
    is_(c.get("a"), b"1", "get returns the value")
    is_(c.get("none"), None, "get misses")
    is_(c.add("a", b"2", noreply=False), False, "add keeps an existing value")
    is_(c.add("b", b"2", noreply=False), True, "add stores a missing key")
    is_(c.replace("none", b"2", noreply=False), False, "replace stores no missing key")
    is_(c.replace("b", b"3", noreply=False), True, "replace stores an existing key")
    is_(c.append("b", b"4", noreply=False), True, "append")
    is_(c.prepend("b", b"2", noreply=False), True, "prepend")
    is_(c.append("none", b"4", noreply=False), False, "append to a missing key stores nothing")
    is_(c.get("b"), b"234", "the value has all three parts")


def unique_ids(c):
    c.set("cas", b"1", noreply=False)
    value, cas = c.gets("cas")
    is_(value, b"1", "gets returns the value")
    is_(c.cas("cas", b"2", cas), True, "cas with the id of gets stores")
    is_(c.cas("cas", b"3", cas), False, "cas with the old id stores nothing")
    is_(c.cas("none", b"3", cas), None, "cas of a missing key is not found")
    is_(c.gets("cas")[0], b"2", "the value is that of the first cas")
    is_(c.gets("none"), (None, None), "gets misses")


def numbers(c):
    c.set("n", b"10", noreply=False)
    is_(c.incr("n", 5), 15, "incr")
    is_(c.decr("n", 6), 9, "decr")
    is_(c.decr("n", 100), 0, "decr stops at 0")
    c.set("n", b"%d" % (2 ** 64 - 1), noreply=False)
    is_(c.incr("n", 2), 1, "incr wraps at 64 bits")
    is_(c.incr("none", 1), None, "incr of a missing key")
    c.set("n", b"x", noreply=False)
    raises(lambda: c.incr("n", 1), MemcacheClientError, "incr of a word is a client error")


def one_by_one(c):
    wrong = 0
    for i in range(100):
        c.set("o%d" % i, b"value %d" % i, noreply=False)
        wrong += c.get("o%d" % i) != b"value %d" % i
    is_(wrong, 0, "a hundred sets and gets")


def many(c):
    items = {"m%d" % i: b"value %d" % i for i in range(MANY)}
    is_(c.set_many(items, noreply=False), [], "set_many stores %d items" % MANY)
    is_(c.get_many(list(items) + ["none"]), items, "get_many returns them and no other")
    found = c.gets_many(list(items))
    is_({key: pair[0] for key, pair in found.items()}, items, "gets_many returns the same values")
    is_(len({pair[1] for pair in found.values()}), MANY, "each value has an id of its own")
    is_(c.delete_many(list(items), noreply=False), True, "delete_many")
    is_(c.get_many(list(items)), {}, "the deleted keys miss")


def values(c):
    for name, value in (("no bytes", b""), ("bytes of every kind", BINARY),
                        ("%d bytes" % len(LARGE), LARGE)):
        is_(c.set("v", value, noreply=False), True, "set of a value of " + name)
        ok(c.get("v") == value, "get returns %s" % name)
    is_(c.set("k" * 250, b"x", noreply=False), True, "a key of 250 bytes")
    is_(c.get("k" * 250), b"x", "a get of it returns its value")


def quiet(c):
    """Over TCP: one datagram may overtake another for which the client has not waited."""
    is_(c.set("q", b"x", noreply=True), True, "set without a reply")
    is_(c.get("q"), b"x", "the next get returns the value")
    is_(c.delete("q", noreply=True), True, "delete without a reply")
    is_(c.get("q"), None, "the next get misses")


def too_large(c):
    c.set("v", b"x", noreply=False)
    raises(lambda: c.set("v", b"x" * (1 << 20), noreply=False), MemcacheServerError,
           "set of a value over the limit is a server error")
    is_(c.get("v"), None, "the set has removed the old value")


def many_datagrams(c):
    """A value larger than a request: the server builds it by appends."""
    c.set("d", b"", noreply=False)
    want = b""
    for i in range(60):
        piece = b"%d " % i * 300
        c.append("d", piece, noreply=False)
        want += piece
    ok(c.get("d") == want, "get of %d bytes" % len(want))


def times(c):
    is_(c.set("t", b"x", expire=-1, noreply=False), True, "set in the past")
    is_(c.get("t"), None, "the item has expired at once")
    c.set("t", b"x", expire=1, noreply=False)
    c.set("u", b"x", noreply=False)
    is_(c.touch("u", 1, noreply=False), True, "touch")
    is_(c.touch("none", 1, noreply=False), False, "touch of a missing key")
    gone(lambda: c.get("t"), "an item expires")
    gone(lambda: c.get("u"), "a touched item expires")


def the_server(c):
    ok(c.version()[:1].isdigit(), "version")
    stats = c.stats()
    is_((stats[b"pointer_size"], stats[b"curr_connections"] > 0), (64, True), "stats")
    ok(c.stats("settings")[b"maxbytes"] > 0, "stats settings")
    ok(any(key.startswith(b"items:") for key in c.stats("items")), "stats items")
    ok(b"total_malloced" in c.stats("slabs"), "stats slabs")
    is_(c.delete("a", noreply=False), True, "delete")
    is_(c.delete("a", noreply=False), False, "delete again")
    is_(c.get("b") is not None, True, "another item still exists")
    is_(c.flush_all(noreply=False), True, "flush_all")
    is_(c.get("b"), None, "get misses afterwards")
    is_(c.cache_memlimit(64), True, "cache_memlimit")
    c.quit()
    is_(c.get("b"), None, "after quit the client connects again")


def session(port):
    sockets = framed.Module() if UDP else socket
    c = Client(("127.0.0.1", port), timeout=30, socket_module=sockets)
    for part in (storage, unique_ids, numbers, one_by_one, many, values, many_datagrams, times,
                 the_server):
        part(c)
    flags = Client(("127.0.0.1", port), timeout=30, serde=Flags(), socket_module=sockets)
    is_(flags.set("f", b"x", noreply=False), True, "set with flags")
    is_(flags.get("f"), (b"x", 65537), "get returns the flags")
    if not UDP:
        quiet(c)
        too_large(c)
    pool = PooledClient(("127.0.0.1", port), max_pool_size=4, timeout=30, socket_module=sockets)
    is_(pool.set("p", b"x", noreply=False), True, "set through a pool")
    is_(pool.get("p"), b"x", "get through a pool")


run(session)
