# SPDX-License-Identifier: BSD-3-Clause
"""coherence: runs t/tool/coherence, and t/tool/lives, against a server."""
import subprocess

import child
import kernel
import tap

WRITES = 5000
SECONDS = 240 # an idle machine needs a tenth


def run(m, writers, readers, keys, reads, period=1500, writes=WRITES, most=8, ratio=0):
    """What t/tool/coherence counted, and the errors that it reports."""
    words = (kernel.beside("t/tool/coherence"), m.pair.address(), m.server.port, writers, readers,
             keys, reads, writes, SECONDS, period, most, ratio)
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, timeout=SECONDS + 60)
    if not tap.ok(done.returncode in (0, 1), "the run comes to its end"):
        raise RuntimeError(done.stderr.decode())
    return {**{name: int(number) for name, number in
               (line.split() for line in done.stdout.decode().splitlines())},
            "complaints": done.stderr.decode()}


def judge(found, grown, reads, flushes=2, writes=WRITES, share=0.9):
    """share: percentage of the keys for which the kernel has to answer."""
    complaints = found.pop("complaints")
    tap.diag("%s; kernel: answered %d, hits %d, misses %d, busy %d" %
             (found, grown["answered"], grown["hits"], grown["misses"], grown["pass_busy"]))
    tap.ok(found["reads"] >= reads, "%d reads, at least %d" % (found["reads"], reads))
    tap.ok(found["writes"] >= writes and found["flushes"] >= flushes,
           "beside %d writes and %d flush_all" % (found["writes"], found["flushes"]))
    tap.is_(found["wrong"], 0, "no answer is older than an acknowledged write, none is torn")
    tap.diag(complaints)
    tap.ok(found["lost"] * 1000 <= found["reads"], "requests are not lost (%d)" % found["lost"])
    answered = grown["hits"] + grown["misses"]
    tap.ok(answered >= share * found["reads"], "the kernel answered for %.1f %% of the keys, "
           "at least %d" % (100 * answered / max(found["reads"], 1), 100 * share))


class Lives(child.Talker):
    """t/tool/lives."""

    def __init__(self, *words):
        super().__init__((kernel.beside("t/tool/lives"),) + words, "t/tool/lives")

    def life(self, number, base, need):
        self.ask(b"life %d %d %d" % (number, base, need))

    def counts(self):
        words = self.ask(b"counts").decode().split()
        return {name: int(number) for name, number in zip(words[::2], words[1::2])}

    def end(self, name):
        """A check that it has found no wrong answer; shows those that it has."""
        wrong = self.counts()["wrong"]
        self.process.stdin.close()
        self.wait(None)
        tap.is_(wrong, 0, name)
        tap.diag(self.log())
