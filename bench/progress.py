# SPDX-License-Identifier: BSD-3-Clause
"""How far a long run is, and how long it still takes: on stderr."""

import sys
import time

EVERY = 15 # seconds between two lines where there is no terminal


def duration(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


class Progress:
    """On a terminal one line that changes; elsewhere a line now and then."""

    def __init__(self, name, out=None, clock=time.monotonic):
        self.name, self.out, self.clock = name, out or sys.stderr, clock
        self.total = self.done = 0
        self.begin = self.said = clock()
        self.open = False # a line of the terminal that is not ended

    def say(self, text):
        self.clear()
        print(f"{self.name}: {text}", file=self.out, flush=True)

    def expect(self, total):
        """From here on there are so many steps, which take about as long as each other."""
        self.total, self.done = total, 0
        self.begin = self.said = self.clock()

    def line(self, what):
        gone = self.clock() - self.begin
        left = gone / self.done * (self.total - self.done)
        return (f"{self.name}: {self.done} of {self.total} ({self.done / self.total:.0%}), "
                f"{duration(gone)} gone, about {duration(left)} left: {what}")

    def step(self, what):
        """One of them is done."""
        self.done += 1
        self.total = max(self.total, self.done)
        if self.out.isatty():
            print("\r\033[K" + self.line(what)[:119], end="", file=self.out, flush=True)
            self.open = True
        elif self.clock() - self.said >= EVERY or self.done == self.total:
            self.said = self.clock()
            print(self.line(what), file=self.out, flush=True)
        if self.done == self.total:
            self.clear()

    def clear(self):
        if self.open:
            print(file=self.out, flush=True)
            self.open = False
