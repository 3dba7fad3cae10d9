# SPDX-License-Identifier: BSD-3-Clause
"""What a run has measured, as a file: one shape for all programs here (bench/README.md)."""

import collections
import json
import os
import shlex
import subprocess
import sys
import time

from table import Samples

FORMAT = 1
Saved = collections.namedtuple("Saved", "head samples")
HERE = os.path.dirname(os.path.realpath(__file__))


def commit():
    """Of this tree, with a + if files differ from it other than those that are measured."""
    def git(*words):
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", HERE, *words], check=False,
                              capture_output=True, text=True).stdout.strip()
    try:
        name = git("rev-parse", "--short=7", "HEAD")
        changed = git("status", "--porcelain", "-uno", ":/", ":(top,exclude)doc/figures/measured")
        return name + ("+" if changed else "") if name else None
    except OSError:
        return None


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {"cpu": names[0] if names else os.uname().machine, "cpus": os.cpu_count(),
            "linux": os.uname().release}


def command(bench, words):
    """As one would type it, without what is of this machine: where files are."""
    kept = [word for before, word in zip([""] + words, words)
            if before not in ("--build", "--json") and word not in ("--build", "--json")]
    return shlex.join([f"bench/{bench}", *kept])


class Run:
    """Begins before anything is started, so that its load is that of others."""

    def __init__(self, bench):
        self.begin, self.load = time.monotonic(), os.getloadavg()[0]
        self.head = {"format": FORMAT, "bench": bench,
                     "command": command(bench, sys.argv[1:]),
                     "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                     "commit": commit(), "machine": machine(), "load": round(self.load, 2)}

    def seconds(self):
        return time.monotonic() - self.begin

    def save(self, path, rounds, samples):
        head = dict(self.head, seconds=round(self.seconds(), 1), rounds=rounds)
        lines = ",\n".join(json.dumps({"key": key, "values": [float(f"{value:.7g}")
                                                             for value in values]})
                           for key, values in samples.items())
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(head, indent=1)[:-2] + f',\n "samples": [\n{lines}\n]}}\n')


def load(path):
    """A saved run."""
    with open(path, encoding="utf-8") as file:
        kept = json.load(file)
    if not isinstance(kept, dict) or kept.get("format") != FORMAT:
        raise ValueError(f"{path}: not what a bench's --json has written")
    samples = Samples((tuple(sample["key"]), sample["values"]) for sample in kept.pop("samples"))
    return Saved(kept, samples)
