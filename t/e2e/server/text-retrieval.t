#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The retrieval commands of the text protocol: get, bget, gets, gat, gats."""

import server
import talk
import tap

memcached = server.Server()
c = memcached.stream()


def value(key, data, flags=0, cas=None):
    tail = b"" if cas is None else b" %d" % cas
    return b"VALUE %s %d %d%s\r\n%s\r\n" % (key, flags, len(data), tail, data)


@tap.case
def get_of_several_keys():
    for i in range(10):
        c.set(b"k%d" % i, b"value of %d" % i, flags=i)
    k1, k2, k3 = ("VALUE k%d %d 10|value of %d|" % (i, i, i) for i in (1, 2, 3))
    talk.check(c, (
        ("get of one key returns it", "get k3", k3 + "END"),
        ("several keys are answered in the order asked", "get k3 k1 k2", k3 + k1 + k2 + "END"),
        ("missing keys are left out", "get none k1 never k2 nothing", k1 + k2 + "END"),
        ("a get without hits is answered with END alone", "get none never", "END"),
        ("a key asked for three times is answered three times", "get k1 k1 k1", k1 * 3 + "END"),
        ("bget is answered as get", "bget k1 k2", k1 + k2 + "END"),
        ("more spaces between and behind the keys are skipped", "get  k1   k2  ", k1 + k2 + "END"),
        ("spaces before the command are skipped", "  get k1", k1 + "END"),
        ("a bare newline ends the line", "get k1 k2\nget k3", k1 + k2 + "END|" + k3 + "END")))


@tap.case
def get_of_very_many_keys():
    for count in (7, 8, 9, 23, 24, 25, 100, 1000, 20000):
        names = [b"m%d" % (i % 300) for i in range(count)]
        for name in sorted(set(names)):
            c.set(name, b"v" + name)
        want = b"".join(value(name, b"v" + name) for name in names) + b"END\r\n"
        tap.is_(c.all(b"get %s\r\n" % b" ".join(names)), want,
                "get of %d keys in one line" % count)
    missing = b" ".join(b"absent%d" % i for i in range(5000))
    tap.is_(c.all(b"get %s m1 %s\r\n" % (missing, missing)), value(b"m1", b"vm1") + b"END\r\n",
            "one hit among 10,000 misses is answered")


@tap.case
def get_of_long_keys():
    longest = b"l" * 250
    c.set(longest, b"x")
    tap.is_(c.all(b"get %s\r\n" % longest), value(longest, b"x") + b"END\r\n",
            "a key of 250 bytes is found")
    c.set(b"short", b"s")
    line = b"get %s\r\n" % b" ".join([longest] * 100)
    tap.is_(c.all(line), value(longest, b"x") * 100 + b"END\r\n", "100 keys of 250 bytes")
    for line in (b"get %s\r\n", b"get short %s\r\n", b"get %s short\r\n", b"gets %s\r\n"):
        tap.is_(c.all(line % (longest + b"l")), b"CLIENT_ERROR bad command line format\r\n",
                "a key of 251 bytes in %r is refused" % line)


@tap.case
def gets_returns_the_cas_id():
    c.set(b"c1", b"one", flags=3)
    c.set(b"c2", b"two")
    flags, first, _ = c.gets(b"c1")
    _, second, _ = c.gets(b"c2")
    tap.is_(flags, 3, "gets returns the flags")
    tap.ok(0 < first < second, "ids are positive and grow")
    tap.is_(c.all(b"gets c2 none c1\r\n"),
            value(b"c2", b"two", 0, second) + value(b"c1", b"one", 3, first) + b"END\r\n",
            "several keys have an id each")
    tap.is_(c.all(b"gets none\r\n"), b"END\r\n", "a miss is answered with END")


@tap.case
def gat_and_gats_read_and_touch():
    c.set(b"g1", b"one", flags=1)
    c.set(b"g2", b"two", flags=2)
    cas = [c.gets(key)[1] for key in (b"g1", b"g2")]
    talk.check(c, (
        ("gat is answered as get", "gat 1000 g1 none g2", "VALUE g1 1 3|one|VALUE g2 2 3|two|END"),
        ("gats is answered as gets", "gats 1000 g1 g2",
         "VALUE g1 1 3 %d|one|VALUE g2 2 3 %d|two|END" % tuple(cas)),
        ("gat with a negative time still returns the value", "gat -1 g1", "VALUE g1 1 3|one|END"),
        ("it expires the item", "get g1", "END"),
        ("gat with a malformed number is refused", "gat abc g2",
         "CLIENT_ERROR invalid exptime argument"),
        ("gat of 100 keys", "gat 0" + " g2" * 100, "VALUE g2 2 3|two|" * 100 + "END")))


@tap.case
def hits_and_misses_are_counted():
    memcached.stats("reset")
    c.ask(b"set s1 0 0 1\r\nx\r\n")
    c.all(b"get s1 none s1\r\n")
    c.all(b"gets s1 none\r\n")
    stats = memcached.stats()
    tap.is_((stats["cmd_get"], stats["get_hits"], stats["get_misses"]), ("5", "3", "2"),
            "cmd_get, get_hits and get_misses count keys")
    c.all(b"gat 0 s1 none\r\n")
    stats = memcached.stats()
    tap.is_((stats["cmd_touch"], stats["touch_hits"]), ("2", "1"), "gat counts as a touch")


tap.run(ends=memcached)
