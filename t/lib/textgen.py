# SPDX-License-Identifier: BSD-3-Clause
"""textgen: random streams of text commands, right and wrong.

What it leaves out: t/differences.md. A pipelined stream either reads numbers or changes them, batch
by batch.
"""
import random
import re

TEXT_KEYS = [b"a", b"b", b"key5", b"x" * 20, b"\xc3\xa9\xff", b"\x01\x7f", b"k" * 250]
NUMBER_KEYS = [b"n", b"num", b"n3", b"9"]
LONG_KEYS = [b"k" * 251, b"k" * 300]
TIMES = [b"0"] * 8 + [b"1000", b"100", b"2592000", b"2147483647", b"-1", b"-100",
                      b"2592001", b"+500", b"007", b"2147483648", b"4294967295", b"4294968296",
                      b"-2147483649"]
NUMBERS = [b"0", b"1", b"9", b"10", b"99", b"100", b"999", b"4294967295", b"4294967296", b"12 ",
           b"00", b"007", b"4611686018427387904", b"12 34"]
BAD_NUMBERS = [b"x", b"1x", b"-", b"1.5", b"--1", b"99999999999999999999", b"0x10", b"a1", b"+"]
DELTAS = [b"0", b"1", b"1", b"1", b"9", b"10", b"99", b"1000", b"4294967296", b"007", b"+3"]
BAD_DELTAS = BAD_NUMBERS + [b"-1", b"18446744073709551616"]
FLAGS = [b"0"] * 6 + [b"1", b"32", b"65535", b"65536", b"4294967295", b"007", b"4294967296",
                      b"4294967301", b"18446744073709551615"]
BAD_FLAGS = BAD_NUMBERS + [b"-1"]
STORES = [b"set"] * 4 + [b"add", b"replace", b"append", b"prepend", b"cas", b"cas"]
GETS = [b"get"] * 3 + [b"gets", b"gets", b"bget"]
LINES = [
    b"", b" ", b"    ", b"\r", b"\t", b"foo", b"GET a", b"Set a 0 0 1", b"get", b"gets", b"bget",
    b"gat", b"gats", b"gat 0", b"gats 0", b"gat x a", b"gats x a", b"gat  0  a", b"set", b"set a",
    b"set a 0", b"set a 0 0", b"add a 0 0", b"cas a 0 0", b"cas a 0 0 1", b"incr", b"incr n",
    b"decr", b"decr n", b"touch", b"touch a", b"delete", b"delete a 0", b"delete a 1",
    b"delete a 0 noreply", b"delete a 1 noreply", b"delete a 0 0", b"delete a b c d e",
    b"incr n 1 2 3 4", b"touch a 0 0 0 0", b"flush_all x", b"flush_all 0 0 0 0", b"flush_all -x",
    b"verbosity", b"verbosity 0", b"verbosity 0 noreply", b"verbosity 0 0 0 0", b"verbosity x",
    b"cache_memlimit", b"cache_memlimit 64", b"cache_memlimit 64 noreply", b"cache_memlimit 1",
    b"cache_memlimit x", b"cache_memlimit 1000000001", b"cache_memlimit 64 0 0 0", b"shutdown",
    b"version", b"get\ta", b"get a\tb", b"get a\r", b"a" * 200, b"noreply", b"END",
    b"stats reset", b"stats detail", b"stats detail x", b"\x80",
    b"touch a 1x", b"touch a 0x noreply", b"setx a 0 0 1", b"se", b"flush_al", b"geta b",
]
ENDS = [b"quit\r\n", b" quit \n", b"GET / HTTP/1.1\r\n", b"HTTP/1.0\r\n"]
CAS = re.compile(rb"(?m)^(VALUE \S+ \d+ \d+) (\d+)\r$")
VERSION = re.compile(rb"(?m)^VERSION .*")


class Text:
    mark, mark_answer = b"mn\r\n", b"MN\r\n"

    def __init__(self, seed, datagrams=False):
        self.random = random.Random("text %d %s" % (seed, datagrams))
        self.datagrams = datagrams
        self.ids = [b"1", b"1"]
        self.names = [{}, {}]  # a CAS id's name is the order of its appearance
        self.cas_key = b"a"
        self.owed = 0  # so many bytes more may be taken for a value
        self.fetches_numbers = False
        self.broken = False  # values of other lengths and damaged lines, and then no long values
        self.next_key = b"a"
        self.whole = False  # the batch is sent in one piece
        # 1.6.18 shows flushed items again after a flush_all with a time in the future.
        self.flushes = (b" 1000", b" 2147483647", b" 5000") if datagrams else (b"", b" 0", b" -1")

    def chance(self, p):
        return self.random.random() < p

    def pick(self, choices):
        return self.random.choice(choices)

    def key(self, keys=None):
        if self.chance(0.01):
            return self.pick(LONG_KEYS)
        return self.pick(keys or (NUMBER_KEYS if self.chance(0.3) else TEXT_KEYS))

    def fetched_key(self):
        if self.fetches_numbers and self.chance(0.3):
            return self.pick(NUMBER_KEYS)
        return self.pick(TEXT_KEYS)

    def value(self, key):
        if key in NUMBER_KEYS and not self.chance(0.05):
            return self.pick(NUMBERS)
        size = self.pick((0, 1, 2, 2, 5, 10, 30, 80, 100, 200, 400, 1000))
        if self.chance(0.01):
            size = self.pick((5000, 16000, 30000) if self.datagrams else (5000, 16000, 40000))
        if not self.datagrams and self.chance(0.0005):
            size = self.pick((600000, 1000000, 1048577, 1100000))
        if size > 2 and self.chance(0.2):
            return (b"\r\nget a\r\n" * size)[:size]
        if 0 < size < 100 and self.chance(0.3):
            value = self.random.randbytes(size)
            return b"v" * size if value.isspace() else value
        return b"v" * size

    def tail(self):
        if self.chance(0.15):
            return b" noreply"
        return self.pick((b" ", b"  ", b" x", b" noreply x", b" NOREPLY")) if self.chance(0.02) \
            else b""

    def wrong_size(self, value):
        """The length in the line, which may differ from that of the value."""
        if self.chance(0.3):
            return self.pick(BAD_NUMBERS + [b"-1", b"2147483647", b"", b"-2147483648"])
        if self.datagrams:
            return b"%d" % self.random.randint(0, len(value))
        size = max(0, len(value) + self.pick((-3, -2, -1, 1, 3, 40, 400)))
        self.owed += size + 2
        return b"%d" % size

    def store(self):
        verb = self.pick(STORES)
        key = self.cas_key if verb == b"cas" and self.chance(0.7) else self.key()
        if verb in (b"append", b"prepend") and key in NUMBER_KEYS:
            key = self.pick(TEXT_KEYS)
        value = self.value(key)
        if verb in (b"append", b"prepend"):
            value = value[:200]
        wrong, bad = self.broken and self.chance(0.1), self.broken and self.chance(0.05)
        tail = self.tail()
        if self.broken or key in LONG_KEYS or tail.endswith(b"x"):
            value = value[:400]  # it may be read as a line
        size = self.wrong_size(value) if wrong else b"%d" % len(value)
        words = [verb, key,
                 self.pick(BAD_FLAGS if bad and self.chance(0.5) else FLAGS),
                 self.pick(BAD_NUMBERS if bad and self.chance(0.5) else TIMES), size]
        if verb == b"cas":
            words.append(b"$CAS$" if not self.broken or self.chance(0.8) else
                         self.pick(BAD_DELTAS + [b"0", b"1", b"18446744073709551615"]))
        end = b"\r\n" if not self.chance(0.05) else b"\n"
        data = value + (b"\r\n" if not self.broken or self.chance(0.97) else
                        self.pick((b"\n", b"", b"zz\r\n")))
        if self.datagrams and len(data) < len(value) + 2:
            data = value + b"\r\n"
        if len(data) < len(value) + 2:
            self.owed += len(value) + 2
        return b" ".join(words) + tail + end + data

    def fetch(self):
        nkeys = self.pick((1, 1, 1, 1, 2, 3, 8, 25, 40))
        keys = [self.fetched_key() for _ in range(nkeys)]
        while sum(map(len, keys)) + nkeys > (300 if self.broken else 900):
            keys.pop()
        verb = self.pick(GETS)
        if self.chance(0.3):
            verb = self.pick((b"gat ", b"gats ")) + (
                self.pick(BAD_NUMBERS) if self.chance(0.03) else self.pick(TIMES))
        blank = b"  " if self.chance(0.02) else b" "
        return blank.join([verb] + keys) + self.end().replace(b"\r\r", b"\r")

    def end(self):
        return self.pick((b" \r\n", b"\n", b"  \n", b"\r\r\n")) if self.chance(0.04) else b"\r\n"

    def count(self):
        verb = self.pick((b"incr", b"incr", b"decr"))
        key = self.key(NUMBER_KEYS * 4 + TEXT_KEYS if not self.fetches_numbers else TEXT_KEYS)
        delta = self.pick(BAD_DELTAS) if self.chance(0.04) else self.pick(DELTAS)
        return b"%s %s %s" % (verb, key, delta) + self.tail() + self.end()

    def touch(self):
        time = self.pick(BAD_NUMBERS) if self.chance(0.04) else self.pick(TIMES)
        return b"touch %s %s" % (self.key(), time) + self.tail() + self.end()

    def delete(self):
        return b"delete %s" % self.key() + self.tail() + self.end()

    def other(self):
        if self.chance(0.05):
            return b"flush_all" + self.pick(self.flushes) + self.tail() + self.end()
        if self.chance(0.2):
            junk = self.random.randbytes(self.random.randrange(1, 60))
            return b"~" + junk.translate(None, b"\0\n") + b"\r\n"
        line = self.pick(LINES)  # in a datagram \x80 makes it binary
        if line == b"version":
            return line + b"\r\n"
        return (b"" if self.datagrams and line == b"\x80" else line) + self.end()

    def damaged(self):
        """A line with a word missing, doubled or replaced."""
        line, _, value = self.one().partition(b"\n")
        while line.startswith((b"version", b"stats")):
            line, _, value = self.one().partition(b"\n")
        words = line.rstrip(b"\r").split(b" ")
        at = self.random.randrange(len(words))
        how = self.random.randrange(4)
        if how == 0:
            del words[at]
        elif how == 1:
            words.insert(at, words[at])
        elif how == 2:
            verb = b"a" if max(map(len, words)) > 250 else b"get"
            words[at] = self.pick(BAD_NUMBERS + [b"", b"0", b"noreply", b"a", verb])
        else:
            words = words + [b"0"] * self.pick((1, 2, 3, 30))
        number = words[4].lstrip(b"+") if len(words) > 4 else b""
        if number.isdigit() and int(number) > (60 if self.datagrams else 1000):
            words[4] = b"7"  # no value of megabytes
        if self.datagrams:
            return b" ".join(words) + b"\r\n" + b"~\r\n" * 30
        self.owed += 1010
        return b" ".join(words) + b"\r\n" + value

    def one(self):
        return self.pick((self.store,) * 6 + (self.fetch,) * 6 + (self.count,) * 2 +
                         (self.touch, self.delete, self.other))()

    def long_line(self):
        """Of 1,025 to 2,048 bytes, with an end: else 1.6.18 waits for more."""
        start = self.pick((b"x" * 1025, b"set a 0 0 1", b"get a", b"gat 0 a b", b"delete b", b"",
                           b"touch a 0", b"incr n 1", b"mg a", b"gets" + b" zz" * 330))
        return start.ljust(self.random.randint(1025, 2046)) + b"\r\nv\r\n"

    def batch(self):
        """The same commands for both servers, each with the CAS id of that server."""
        self.whole = self.chance(0.02)
        if self.whole:
            commands = [self.long_line(), b"gets %s\r\n" % self.next_key]
            return [commands, commands]
        n = self.pick((1, 2, 4) if self.datagrams else (1, 5, 20, 50, 50))
        self.fetches_numbers = self.chance(0.5)
        self.owed = 0
        self.broken = self.chance(0.3)
        commands = [self.damaged() if self.broken and self.chance(0.05) else self.one()
                    for _ in range(n)]
        if self.chance(0.05):
            keys = [self.pick(TEXT_KEYS)] * self.pick((0, 1, 2)) + [self.pick(LONG_KEYS), b"a"]
            verb = self.pick((b"get ", b"gets ", b"gat 0 "))
            commands.insert(0, verb + b" ".join(keys) + b"\r\n")
        if not self.datagrams and not self.broken and self.chance(0.02) and \
                sum(map(len, commands)) < 8000:
            # In one piece, which is read at once: bytes that arrive after a close may discard
            # replies.
            self.whole = True
            commands.insert(self.random.randrange(len(commands) + 1), self.pick(ENDS))
        while self.datagrams and commands and commands[0].startswith(b"END"):
            del commands[0]  # it makes the datagram look like a reply
        if self.owed:
            commands.append(b"~\r\n" * (self.owed // 3 + 1))
        self.next_key = self.pick(TEXT_KEYS)
        commands.append(b"gets %s\r\n" % self.next_key)
        ids = [b"1", b"1"] if self.owed else self.ids  # a value may have taken a line
        return [[c.replace(b"$CAS$", own) for c in commands] for own in ids]

    def learn(self, which, answer):
        found = CAS.findall(answer)
        self.cas_key = self.next_key
        if found and found[-1][0].split(b" ")[1] == self.next_key:
            self.ids[which] = found[-1][1]

    def forget(self):
        self.ids, self.names = [b"1", b"1"], [{}, {}]

    def plain(self, which, answer):
        names = self.names[which]
        return VERSION.sub(b"VERSION", CAS.sub(
            lambda m: m[1] + b" id%d" % names.setdefault(m[2], len(names)), answer))

    def same(self, ours, theirs):
        ours, theirs = self.plain(0, ours), self.plain(1, theirs)
        closed = b" (closed)"
        if ours.endswith(closed) and theirs.endswith(closed):
            return ours.startswith(theirs[:-len(closed)])
        return ours == theirs
