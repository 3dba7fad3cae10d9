# SPDX-License-Identifier: BSD-3-Clause
"""metagen: random streams of meta commands, with some text commands between them.

What it leaves out: t/differences.md.
"""
import base64
import random
import re

TEXT_KEYS = (b"a", b"b", b"key5", b"x" * 20)
NUMBER_KEYS = (b"n", b"num", b"n3")
# In base64, and not always as one would write it.
CODED_TEXT_KEYS = (b"AAE=", b"YR==", b"!!!!YQ==")
CODED_NUMBER_KEYS = (b"bB==", b"a=b=", b"bg==bg==")
FLAGS = "kkkcstvvvfhqqlOOOuIbTNRCCMFDJLP"
MODES = {"ms": "EAPRS", "ma": "ID+-"}
SECONDS = re.compile(rb"(?<= t)\d+|(?<=exp=)-?\d+")
LAST_USE = re.compile(rb"(?<= l)\d+|(?<= la=)\d+")
SLAB = re.compile(rb"(?m)^(ME .*) cls=\d+ size=\d+")
CODED_KEY = re.compile(rb" k(\S*) b(?=[ \r])")
ME_KEY = re.compile(rb"(?m)^ME \S+")
OVER = 4000000000  # a time that is over, modulo 2^32


def decoded(answer):
    """With keys as they are, whether or not they were marked as binary."""
    answer = CODED_KEY.sub(lambda found: b" k" + base64.b64decode(found[1]), answer)
    return ME_KEY.sub(b"ME", answer)


class Stream:
    def __init__(self, seed, pipelined=False, datagrams=False):
        self.random = random.Random(seed)
        self.pipelined = pipelined
        self.datagrams = datagrams
        self.cas = 1  # some id that exists: the caller keeps it near the newest

    def chance(self, p):
        return self.random.random() < p

    def pick(self, choices):
        return self.random.choice(choices)

    def bad_number(self):
        return self.pick((b"", b"x", b"1x", b"18446744073709551616", b"-", b"1.5"))

    def flag(self, command):
        flag = self.pick(FLAGS)
        bad = self.chance(0.02)
        if flag == "M":
            modes = MODES.get(command, "S")
            return b"M" + (self.pick((b"", b"AA", b"x")) if bad else self.pick(modes).encode())
        if flag in "TN" and not bad:
            return flag.encode() + self.pick((b"0", b"100", b"1000", b"500", b"-1", b"+70", b"007",
                                              b"4294967396", b"2147483648", b"-2147483649"))
        if flag in "RDJF" and not bad: # R far from any T: two servers' seconds differ
            return b"%s%d" % (flag.encode(), self.pick((0, 0, 1, 5, 30, 50, 300, 700, 2 ** 32 + 5)))
        if flag == "C" and not bad:
            return b"C%d" % max(0, self.cas + self.pick((0, 0, 0, -1, -1, -2, -3, 1)))
        if flag in "TNRDJFC":
            return flag.encode() + self.bad_number()
        if flag == "O":
            sizes = (31, 32, 40) if bad and command in ("ms", "md") else (0, 1, 5, 30, 31)
            return b"O" + bytes(self.pick(b"abcXYZ019") for _ in range(self.pick(sizes)))
        return flag.encode()

    def flags(self, command):
        flags, seen = [], set()
        for _ in range(self.pick((0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8))):
            flag = self.flag(command)
            if flag[:1] not in seen or self.chance(0.02):
                seen.add(flag[:1])
                flags.append(flag)
        if b"b" in flags:
            flags = [f for f in flags if f[:1] != b"N"]
        if command == "ma" and b"T" in seen:
            flags = [f for f in flags if f[:1] != b"D"] + [b"D0"]
        if self.chance(0.01):
            flags.append(bytes([self.pick([c for c in range(33, 256) if c != ord("E")])]))
        if self.chance(0.005):
            flags += [b"v"] * self.pick(range(1, 20))
        return flags

    def key(self, keys, coded):
        key = self.pick(keys)
        if coded and not self.chance(0.05):
            other = self.pick(CODED_NUMBER_KEYS if keys is NUMBER_KEYS else CODED_TEXT_KEYS)
            key = self.pick((base64.b64encode(key), base64.b64encode(key), other))
        if self.chance(0.01):
            key = b"k" * self.pick((249, 250, 251, 300))
        return key

    def value(self):
        return self.pick((b"1", b"9", b"99", b"abc", b"10 ", b"", b"v" * 200, b"12345"))

    def text(self, command, key):
        value = self.value()
        if command in ("set", "append"):
            return b"%s %s %d %d %d\r\n%s\r\n" % (
                command.encode(), key, self.pick((0, 5)), self.pick((0, 100)), len(value), value)
        return {
            "get": b"get %s\r\n", "gets": b"gets %s\r\n", "delete": b"delete %s\r\n",
            "incr": self.pick((b"incr %s 1\r\n", b"decr %s 1\r\n")),
            "touch": self.pick((b"touch %s 0\r\n", b"touch %s 100\r\n")),
            "gat": self.pick((b"gat 0 %s\r\n", b"gat 500 %s\r\n")),
        }[command] % key

    def meta_set(self, key, flags):
        value = self.value()
        size = b"%d" % len(value)
        if self.chance(0.02):
            size = self.pick((b"x", b"-1", b"1x", b"99999999999999999999", b"2147483646", b"T5"))
        if self.chance(0.01) and not self.datagrams:
            value += b"zz"
        return b" ".join([b"ms", key, size] + flags) + b"\r\n" + value + b"\r\n"

    def meta(self, command, keys):
        flags = self.flags(command)
        key = self.key(keys, b"b" in flags)
        if command == "ms":
            return self.meta_set(key, flags)
        if command == "me":
            return b"me " + key + self.pick((b"", b" b", b" b v", b" v")) + b"\r\n"
        if command == "mn":
            return b"mn" + self.pick((b"", b" x")) + b"\r\n"
        words = [command.encode()] + ([] if self.chance(0.003) else [key]) + flags
        end = self.pick((b"\r\n",) * 8 + (b" \r\n", b"\n"))
        return b" ".join(words) + end

    def command(self):
        numbers = self.chance(0.4)
        keys = NUMBER_KEYS if numbers else TEXT_KEYS
        fetch = not (self.pipelined and numbers)
        changes = numbers or not self.pipelined
        metas = ["ms"] * 4 + ["md"] * 2 + ["mn", "me"]
        metas += ["mg"] * (5 * fetch) + ["ma"] * (5 * changes)
        texts = ["set", "touch", "append", "delete"] + ["get", "gets", "gat"] * fetch
        texts += ["incr"] * changes
        if self.chance(0.25):
            return self.text(self.pick(texts), self.pick(keys))
        return self.meta(self.pick(metas), keys)


class Meta(Stream):
    """See differential. Pipelined, or one command at a time, with a check of its effect."""
    mark, mark_answer = b"version\r\n", None

    def __init__(self, seed, **how):
        super().__init__(seed, **how)
        self.looks = False

    def batch(self):
        if self.pipelined:
            n = self.pick((1, 5, 20, 50, 50))
        else:
            n = 1
            self.looks = not self.looks and self.chance(0.3)
        if self.looks:
            commands = [b"mg %s c u\r\n" % self.pick(TEXT_KEYS + NUMBER_KEYS)]
        else:
            commands = [self.command() for _ in range(n)]
        return [commands, commands]

    def learn(self, which, answer):
        """Some id that exists, so that C has a chance."""
        ids = re.findall(rb" c(\d+)", answer)
        if which == 1 and ids and int(ids[-1]):
            self.cas = int(ids[-1])

    def plain(self, _which, answer):
        return answer

    def same(self, ours, theirs):
        if ours == theirs:
            return True
        ours, theirs = (LAST_USE.sub(b"", SLAB.sub(rb"\1", a)) for a in (ours, theirs))
        if ours != theirs:
            ours, theirs = (decoded(a) for a in (ours, theirs))
        if SECONDS.sub(b"", ours) != SECONDS.sub(b"", theirs):
            return False
        pairs = zip(map(int, SECONDS.findall(ours)), map(int, SECONDS.findall(theirs)))
        return all(abs(a - b) <= 2 or min(a, b) > OVER for a, b in pairs)

    def forget(self):
        self.cas = 1
