#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The storage commands of the text protocol: what they store, and their answers."""

import server
import talk
import tap

memcached = server.Server()
c = memcached.stream()


def holds(key, value, flags, name):
    want = b"VALUE %s %d %d\r\n%s\r\nEND\r\n" % (key, flags, len(value), value)
    tap.is_(c.all(b"get %s\r\n" % key), want, name)


@tap.case
def set_stores():
    talk.check(c, (
        ("set answers STORED", "set foo 0 0 6|fooval", "STORED"),
        ("get returns the stored value", "get foo", "VALUE foo 0 6|fooval|END"),
        ("set overwrites", "set foo 12345 0 11|other value", "STORED"),
        ("get returns the later value and its flags", "get foo",
         "VALUE foo 12345 11|other value|END"),
        ("an empty value can be stored", "set foo 0 0 0||get foo", "STORED|VALUE foo 0 0||END")))


@tap.case
def flags_are_32_bit_numbers():
    for flags in (0, 1, 9, 10, 65535, 65536, 4294967295):
        c.set(b"flags", b"x", flags=flags)
        holds(b"flags", b"x", flags, "flags %d are returned" % flags)


@tap.case
def values_are_opaque():
    everything = bytes(range(256)) * 3
    c.set(b"bytes", everything)
    holds(b"bytes", everything, 0, "a value of all bytes is returned unchanged")
    for value in (b"\r\n", b"\n", b"a\r\nb", b"END\r\n", b"\r\nEND\r\n", b"VALUE x 0 1\r\ny\r\n",
                  b"\0", b" ", b"set k 0 0 1\r\nx\r\n"):
        c.set(b"bytes", value)
        holds(b"bytes", value, 0, "a value %r is returned unchanged" % value)


@tap.case
def values_of_every_size():
    wrong = []
    for size in list(range(0, 1500)) + [2047, 2048, 4096, 8191, 65535, 65536, 300000]:
        value = (b"%07d" % size * (size // 7 + 1))[:size]
        if c.set(b"size", value) != b"STORED\r\n" or c.get(b"size") != value:
            wrong.append(size)
    tap.is_(wrong, [], "values of 0 to 1,499 bytes and some larger ones are returned")


@tap.case
def keys_of_every_length():
    wrong = []
    for length in range(1, 251):
        key = (b"key-%d-" % length * 100)[:length]
        if c.set(key, b"%d" % length) != b"STORED\r\n":
            wrong.append(length)
    for length in range(1, 251):
        key = (b"key-%d-" % length * 100)[:length]
        if length > 7 and c.get(key) != b"%d" % length:
            wrong.append(length)
    tap.is_(wrong, [], "keys of 1 to 250 bytes are stored and found")
    strange = bytes(b for b in range(1, 256) if b not in b" \r\n")[:250]
    c.set(strange, b"strange")
    tap.is_(c.get(strange), b"strange", "control and high bytes are accepted in a key")
    for key, other in ((b"prefix", b"prefix1"), (b"a", b"A"), (b"k.", b"k")):
        c.set(key, b"one")
        c.set(other, b"two")
        tap.is_((c.get(key), c.get(other)), (b"one", b"two"), "%r is not %r" % (key, other))


@tap.case
def add_and_replace_look_whether_the_key_exists():
    talk.check(c, (
        ("add of a missing key is STORED", "add add 1 0 3|one", "STORED"),
        ("add of an existing key is not", "add add 2 0 3|two", "NOT_STORED"),
        ("the value is still the first", "get add", "VALUE add 1 3|one|END"),
        ("add after delete is STORED", "delete add|add add 0 0 5|three", "DELETED|STORED"),
        ("its value is found", "get add", "VALUE add 0 5|three|END"),
        ("replace of a missing key is NOT_STORED", "replace r 0 0 3|one", "NOT_STORED"),
        ("it stores nothing", "get r", "END"),
        ("replace of an existing key is STORED", "set r 0 0 3|one|replace r 7 0 3|two",
         "STORED|STORED"),
        ("it has the new value and flags", "get r", "VALUE r 7 3|two|END")))


@tap.case
def append_and_prepend():
    long = "".join("%03d" % i for i in range(300))
    talk.check(c, (
        ("append to a missing key is NOT_STORED", "append none 0 0 1|x", "NOT_STORED"),
        ("prepend to a missing key, too", "prepend none 0 0 1|x", "NOT_STORED"),
        ("they store nothing", "get none", "END"),
        ("append is STORED", "set p 42 0 3|mid|append p 1 0 4|-end", "STORED|STORED"),
        ("it adds behind the old value, whose flags are kept", "get p", "VALUE p 42 7|mid-end|END"),
        ("prepend is STORED", "prepend p 1 0 6|start-", "STORED"),
        ("it adds before the old value, whose flags are kept", "get p",
         "VALUE p 42 13|start-mid-end|END"),
        ("an empty append changes nothing", "append p 0 0 0||get p",
         "STORED|VALUE p 42 13|start-mid-end|END"),
        ("300 appends add up", "set p 0 0 0|" + "".join(
            "|append p 0 0 3|%03d" % i for i in range(300)), "|".join(["STORED"] * 301)),
        ("to one value", "get p", "VALUE p 0 900|%s|END" % long)))


@tap.case
def cas_stores_only_an_unchanged_item():
    tap.is_(c.set(b"none", b"x", verb=b"cas", tail=b" 1"), b"NOT_FOUND\r\n",
            "cas of a missing key is NOT_FOUND")
    c.set(b"c", b"one")
    flags, first, value = c.gets(b"c")
    tap.is_((flags, value), (0, b"one"), "gets returns flags and value")
    tap.is_(c.set(b"c", b"two", verb=b"cas", tail=b" %d" % (first + 1)), b"EXISTS\r\n",
            "cas with another id is EXISTS")
    tap.is_(c.get(b"c"), b"one", "it changes nothing")
    tap.is_(c.set(b"c", b"two", flags=5, verb=b"cas", tail=b" %d" % first), b"STORED\r\n",
            "cas with the id of gets is STORED")
    holds(b"c", b"two", 5, "the value is the new one")
    tap.is_(c.set(b"c", b"three", verb=b"cas", tail=b" %d" % first), b"EXISTS\r\n",
            "the same id is not accepted twice")
    c.ask(b"delete c\r\n")
    tap.is_(c.set(b"c", b"three", verb=b"cas", tail=b" %d" % first), b"NOT_FOUND\r\n",
            "cas of a deleted key is NOT_FOUND")


@tap.case
def every_write_has_a_new_cas_id():
    seen = []
    for write in (b"set u 0 0 1\r\n1\r\n", b"set u 0 0 1\r\n1\r\n", b"replace u 0 0 1\r\n1\r\n",
                  b"append u 0 0 1\r\n1\r\n", b"prepend u 0 0 1\r\n1\r\n", b"incr u 1\r\n",
                  b"decr u 1\r\n"):
        c.ask(write)
        seen.append(c.gets(b"u")[1])
    tap.ok(len(set(seen)) == len(seen), "set, replace, append, prepend, incr, decr change the id")
    tap.is_(seen, sorted(seen), "ids grow")
    before = c.gets(b"u")[1]
    c.ask(b"touch u 1000\r\n")
    c.get(b"u")
    tap.is_(c.gets(b"u")[1], before, "touch and get do not change the id")


@tap.case
def delete_removes():
    talk.check(c, (
        ("delete of an existing key is DELETED", "set d 0 0 1|x|delete d", "STORED|DELETED"),
        ("it is gone", "get d", "END"),
        ("delete of a missing key is NOT_FOUND", "delete d", "NOT_FOUND"),
        ("a time of 0 is accepted", "set d 0 0 1|x|delete d 0", "STORED|DELETED")))


@tap.case
def incr_and_decr_count():
    talk.alike(c, "NOT_FOUND", "incr none 1", "decr none 1")
    talk.check(c, (
        ("decr returns the new number", "set n 5 0 3|100|decr n 1", "STORED|99"),
        ("a number that becomes shorter is padded with spaces", "get n", "VALUE n 5 3|99 |END"),
        ("a padded number is a number", "incr n 1", "100"),
        ("decr stops at 0", "decr n 1000", "0"),
        ("and pads", "get n", "VALUE n 5 3|0  |END"),
        ("a number may become longer", "incr n 100000", "100000"),
        ("it keeps its flags", "get n", "VALUE n 5 6|100000|END"),
        ("incr wraps at 2^64", "set n 0 0 20|18446744073709551615|incr n 1", "STORED|0"),
        ("incr reaches 2^64 - 1", "set n 0 0 20|18446744073709551614|incr n 1",
         "STORED|18446744073709551615"),
        ("the largest delta is accepted", "set n 0 0 1|5|incr n 18446744073709551615", "STORED|4"),
        ("200 increments count to 200", "set n 0 0 1|0" + "|incr n 1" * 200,
         "|".join(["STORED"] + ["%d" % i for i in range(1, 201)]))))


@tap.case
def incr_needs_numbers():
    for value in ("abc", "", " ", "-12", "1x", "99999999999999999999999", "1" * 50, "\xff"):
        talk.check(c, ((
            "incr of %r is refused, and leaves it" % value, "set nan 0 0 %d|%s|incr nan 1|get nan" %
            (len(value), value), "STORED|CLIENT_ERROR cannot increment or decrement non-numeric "
            "value|VALUE nan 0 %d|%s|END" % (len(value), value)),))
    c.set(b"n", b"1")
    talk.alike(c, "CLIENT_ERROR invalid numeric delta argument", *(
        "%s n %s" % (verb, delta) for verb in ("incr", "decr")
        for delta in ("-1", "abc", "1x", "18446744073709551616", "99999999999999999999999")))


@tap.case
def touch_answers():
    talk.check(c, (
        ("touch of a missing key is NOT_FOUND", "touch none 10", "NOT_FOUND"),
        ("touch of an existing key is TOUCHED", "set t 0 0 1|x|touch t 1000", "STORED|TOUCHED"),
        ("its value is unchanged", "get t", "VALUE t 0 1|x|END"),
        ("a negative time is accepted", "touch t -1", "TOUCHED"),
        ("it expires the item", "get t", "END")))


@tap.case
def a_failed_set_removes_the_old_value():
    large, refused = "2000000|" + "x" * 2000000, "SERVER_ERROR object too large for cache"
    talk.check(c, (
        ("a too large set is refused", "set f 0 0 3|old|set f 0 0 " + large, "STORED|" + refused),
        ("the old value is removed", "get f", "END"),
        ("a too large add is refused", "set f 0 0 3|old|add f 0 0 " + large, "STORED|" + refused),
        ("the old value is kept", "get f", "VALUE f 0 3|old|END")))


@tap.case
def many_keys():
    count = 20000
    for i in range(0, count, 500):
        keys = range(i, i + 500)
        c.send(b"".join(b"set many-%d %d 0 %d\r\n%s\r\n" %
                        (k, k, len(b"value %d" % k), b"value %d" % k) for k in keys))
        c.exactly(len(b"STORED\r\n") * 500)
    wrong = 0
    for i in range(0, count, 50):
        c.send(b"get %s\r\n" % b" ".join(b"many-%d" % k for k in range(i, i + 50)))
        want = b"".join(b"VALUE many-%d %d %d\r\nvalue %d\r\n" % (k, k, len(b"value %d" % k), k)
                        for k in range(i, i + 50)) + b"END\r\n"
        wrong += c.exactly(len(want)) != want
    tap.is_(wrong, 0, "20,000 keys are all found with their own value")
    tap.is_(c.all(b""), b"", "nothing else was answered")


tap.run(ends=memcached)
