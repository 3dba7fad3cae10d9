#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The storage commands of the text protocol: what they store, and their answers."""

import server
import tap

memcached = server.Server()
c = memcached.stream()


def holds(key, value, flags, name):
    want = b"VALUE %s %d %d\r\n%s\r\nEND\r\n" % (key, flags, len(value), value)
    tap.is_(c.all(b"get %s\r\n" % key), want, name)


@tap.case
def set_stores():
    tap.is_(c.all(b"set foo 0 0 6\r\nfooval\r\n"), b"STORED\r\n", "set answers STORED")
    holds(b"foo", b"fooval", 0, "get returns the stored value")
    tap.is_(c.set(b"foo", b"other value", flags=12345), b"STORED\r\n", "set overwrites")
    holds(b"foo", b"other value", 12345, "get returns the later value and its flags")
    c.set(b"foo", b"")
    holds(b"foo", b"", 0, "an empty value can be stored")


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
def add_stores_only_a_missing_key():
    tap.is_(c.all(b"add add 1 0 3\r\none\r\n"), b"STORED\r\n", "add of a missing key is STORED")
    tap.is_(c.all(b"add add 2 0 3\r\ntwo\r\n"), b"NOT_STORED\r\n", "add of an existing key is not")
    holds(b"add", b"one", 1, "the value is still the first")
    c.ask(b"delete add\r\n")
    tap.is_(c.set(b"add", b"three", verb=b"add"), b"STORED\r\n", "add after delete is STORED")
    holds(b"add", b"three", 0, "its value is found")


@tap.case
def replace_stores_only_an_existing_key():
    tap.is_(c.all(b"replace r 0 0 3\r\none\r\n"), b"NOT_STORED\r\n",
            "replace of a missing key is NOT_STORED")
    tap.is_(c.all(b"get r\r\n"), b"END\r\n", "it stores nothing")
    c.set(b"r", b"one")
    tap.is_(c.all(b"replace r 7 0 3\r\ntwo\r\n"), b"STORED\r\n",
            "replace of an existing key is STORED")
    holds(b"r", b"two", 7, "it has the new value and flags")


@tap.case
def append_and_prepend():
    for verb in (b"append", b"prepend"):
        tap.is_(c.set(b"none", b"x", verb=verb), b"NOT_STORED\r\n",
                "%s to a missing key is NOT_STORED" % verb.decode())
        tap.is_(c.get(b"none"), None, "it stores nothing")
    c.set(b"p", b"mid", flags=42)
    tap.is_(c.set(b"p", b"-end", flags=1, verb=b"append"), b"STORED\r\n", "append is STORED")
    holds(b"p", b"mid-end", 42, "it adds behind the old value, whose flags are kept")
    tap.is_(c.set(b"p", b"start-", flags=1, verb=b"prepend"), b"STORED\r\n", "prepend is STORED")
    holds(b"p", b"start-mid-end", 42, "it adds before the old value, whose flags are kept")
    c.set(b"p", b"", verb=b"append")
    holds(b"p", b"start-mid-end", 42, "an empty append changes nothing")
    c.set(b"p", b"")
    for i in range(300):
        c.set(b"p", b"%03d" % i, verb=b"append")
    holds(b"p", b"".join(b"%03d" % i for i in range(300)), 0, "300 appends add up")


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
    c.set(b"d", b"x")
    tap.is_(c.all(b"delete d\r\n"), b"DELETED\r\n", "delete of an existing key is DELETED")
    tap.is_(c.all(b"get d\r\n"), b"END\r\n", "it is gone")
    tap.is_(c.all(b"delete d\r\n"), b"NOT_FOUND\r\n", "delete of a missing key is NOT_FOUND")
    c.set(b"d", b"x")
    tap.is_(c.all(b"delete d 0\r\n"), b"DELETED\r\n", "a time of 0 is accepted")


@tap.case
def incr_and_decr_count():
    tap.is_(c.all(b"incr none 1\r\n"), b"NOT_FOUND\r\n", "incr of a missing key is NOT_FOUND")
    tap.is_(c.all(b"decr none 1\r\n"), b"NOT_FOUND\r\n", "decr of a missing key is NOT_FOUND")
    c.set(b"n", b"100", flags=5)
    tap.is_(c.all(b"decr n 1\r\n"), b"99\r\n", "decr returns the new number")
    holds(b"n", b"99 ", 5, "a number that becomes shorter is padded with spaces")
    tap.is_(c.all(b"incr n 1\r\n"), b"100\r\n", "a padded number is a number")
    tap.is_(c.all(b"decr n 1000\r\n"), b"0\r\n", "decr stops at 0")
    holds(b"n", b"0  ", 5, "and pads")
    tap.is_(c.all(b"incr n 100000\r\n"), b"100000\r\n", "a number may become longer")
    holds(b"n", b"100000", 5, "it keeps its flags")
    c.set(b"n", b"18446744073709551615")
    tap.is_(c.all(b"incr n 1\r\n"), b"0\r\n", "incr wraps at 2^64")
    c.set(b"n", b"18446744073709551614")
    tap.is_(c.all(b"incr n 1\r\n"), b"18446744073709551615\r\n", "incr reaches 2^64 - 1")
    c.set(b"n", b"5")
    tap.is_(c.all(b"incr n 18446744073709551615\r\n"), b"4\r\n", "the largest delta is accepted")
    c.set(b"n", b"0")
    tap.is_([c.ask(b"incr n 1\r\n") for _ in range(200)], [b"%d\r\n" % i for i in range(1, 201)],
            "200 increments count to 200")


@tap.case
def incr_needs_numbers():
    bad = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
    for value in (b"abc", b"", b"-12", b"1x", b"99999999999999999999999", b"1" * 50, b"\xff"):
        c.set(b"nan", value)
        tap.is_(c.all(b"incr nan 1\r\n"), bad, "incr of %r is refused" % value)
        tap.is_(c.get(b"nan"), value, "the value is unchanged")
    c.set(b"n", b"1")
    bad = b"CLIENT_ERROR invalid numeric delta argument\r\n"
    for delta in (b"-1", b"abc", b"1x", b"18446744073709551616", b"99999999999999999999999"):
        tap.is_(c.all(b"incr n %s\r\n" % delta), bad, "a delta of %r is refused" % delta)
        tap.is_(c.all(b"decr n %s\r\n" % delta), bad, "decr refuses it as well")


@tap.case
def touch_answers():
    tap.is_(c.all(b"touch none 10\r\n"), b"NOT_FOUND\r\n", "touch of a missing key is NOT_FOUND")
    c.set(b"t", b"x")
    tap.is_(c.all(b"touch t 1000\r\n"), b"TOUCHED\r\n", "touch of an existing key is TOUCHED")
    tap.is_(c.get(b"t"), b"x", "its value is unchanged")
    tap.is_(c.all(b"touch t -1\r\n"), b"TOUCHED\r\n", "a negative time is accepted")
    tap.is_(c.get(b"t"), None, "it expires the item")


@tap.case
def a_failed_set_removes_the_old_value():
    c.set(b"f", b"old")
    tap.is_(c.all(b"set f 0 0 2000000\r\n%s\r\n" % (b"x" * 2000000)),
            b"SERVER_ERROR object too large for cache\r\n", "a too large set is refused")
    tap.is_(c.get(b"f"), None, "the old value is removed")
    c.set(b"f", b"old")
    tap.is_(c.all(b"add f 0 0 2000000\r\n%s\r\n" % (b"x" * 2000000)),
            b"SERVER_ERROR object too large for cache\r\n", "a too large add is refused")
    tap.is_(c.get(b"f"), b"old", "the old value is kept")


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


@tap.case
def it_ends_cleanly():
    tap.is_(memcached.stop(), 0, "the server ends with status 0")


tap.run()
