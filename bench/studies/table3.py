# SPDX-License-Identifier: BSD-3-Clause
"""Which gets are answered with the paper's 100 million keys (its Table 3), by simulation
(simulate.c), since they do not fit here; and the same simulation where they do, beside a server."""

import itertools
import json
import random

from lab import Pair, output
from table import print_table

KEYS = 100000000
GB = 1e9
ITEM = 62 + 16 + 32 # bytes that an item of ours takes
PLACE = 128 # bytes of a place of the chain
# Items of the server and places of the chain: the paper's, and what ours have in as much memory.
SETTINGS = {
    "BMC's caches": (89000000, 6300000),
    "chain, 10 + 2.5 GB": (int(10 * GB / ITEM), int(2.5 * GB / PLACE)),
    "in place, 10 GB": (int(10 * GB / ITEM), 0),
    "in place, 12.5 GB": (int(12.5 * GB / ITEM), 0)}
DRAWS = 1 << 20 # over and over, as bench/live does
SMALL_KEYS, SMALL_MB, SMALL_GETS, BATCH = 300000, 24, 1500000, 200
SMALL_PORT, SMALL_PAIR = 11298, 199


def simulate(lab, keys, items, places, *more):
    return json.loads(output([lab.tool("simulate"), "--keys", str(keys), "--items", str(items),
                              "--places", str(places), *more]))


def simulate_all(bench):
    few = ["--warm", "20m", "--gets", "5m"] if bench.options.quick else \
        ["--warm", "100m", "--gets", "20m"]
    for label, (items, places) in SETTINGS.items():
        for refill in ([], ["--refill"]):
            result = simulate(bench.lab, KEYS, items, places, *few, *refill)
            for column in ("hits", "kernel"):
                bench.samples.add("table3", label, "refill" if refill else "gets", column,
                                  value=result[column])
            bench.progress.say(f"Table 3, {label}{', refilled' if refill else ''}: {result}")
    check(bench)


class Refilling:
    """A client that stores what it has missed."""

    def __init__(self, lab, server):
        self.tcp = lab.socket_in_server()
        self.tcp.connect((server.pair.server_ip, server.port))
        self.file = self.tcp.makefile("rb")

    def keys_of(self, indices):
        return [b"k%015d" % index for index in indices]

    def store(self, keys):
        self.tcp.sendall(b"".join(b"set %s 0 0 32\r\n%032d\r\n" % (key, 0) for key in keys))
        for _ in keys:
            self.file.readline()

    def ask(self, indices):
        """How many were there."""
        keys = self.keys_of(indices)
        self.tcp.sendall(b"get " + b" ".join(keys) + b"\r\n")
        found = set()
        for line in iter(self.file.readline, b"END\r\n"):
            if line.startswith(b"VALUE "):
                found.add(line.split()[1])
        self.store([key for key in dict.fromkeys(keys) if key not in found])
        return sum(key in found for key in keys)

    def close(self):
        self.file.close()
        self.tcp.close()


def check(bench):
    """A server that keeps some of the keys, and the simulation of as many."""
    pair = Pair(bench.lab, SMALL_PAIR)
    server = bench.lab.start([bench.options.programs["ours"], "-u", "nobody", "-t", "1", "-m",
                              str(SMALL_MB)], pair, SMALL_PORT)
    weights = list(itertools.accumulate((rank + 1) ** -0.99 for rank in range(SMALL_KEYS)))
    order = list(range(SMALL_KEYS))
    random.Random(1).shuffle(order)
    client = Refilling(bench.lab, server)
    for first in range(0, SMALL_KEYS, BATCH):
        client.store(client.keys_of(range(first, min(first + BATCH, SMALL_KEYS))))
    hits, asked, generator = 0, 0, random.Random(2)
    for turn in range(SMALL_GETS // BATCH):
        found = client.ask(generator.choices(order, cum_weights=weights, k=BATCH))
        if turn >= SMALL_GETS // BATCH // 2:
            hits, asked = hits + found, asked + BATCH
    client.close()
    items = int(server.stats()["curr_items"])
    half = str(SMALL_GETS // 2)
    result = simulate(bench.lab, SMALL_KEYS, items, 0, "--warm", half, "--gets", half, "--refill")
    bench.samples.add("table3", "check", "items", value=items)
    bench.samples.add("table3", "check", "server", value=hits / asked)
    bench.samples.add("table3", "check", "simulated", value=result["hits"])


def report(samples, _):
    rows = [[label, *[f"{samples.median('table3', label, how, column):.1%}"
                      for how in ("gets", "refill") for column in ("hits", "kernel")]]
            for label in SETTINGS if ("table3", label, "gets", "hits") in samples]
    print_table(["Table 3, simulated: 100 million keys by Zipf", "hits", "by the kernel",
                 "refilled: hits", "by the kernel"], rows)
    items, server, simulated = (samples.median("table3", "check", column)
                                for column in ("items", "server", "simulated"))
    print_table([f"{SMALL_KEYS:,} keys by Zipf, {items:,.0f} of which fit, refilled", "hits"],
                [["this server", f"{server:.1%}"], ["simulated", f"{simulated:.1%}"]])
