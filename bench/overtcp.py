# SPDX-License-Identifier: BSD-3-Clause
"""The rows of bench/run for GETs on TCP connections."""

import collections
import contextlib
import json
import os
import re
import statistics

from lab import CABLE, CablePair, LabError, Pair, output
from table import number, print_table, ratio

# Servers, the words of the kernel path ("": none), and on which device they are.
PORT = 11261
SERVERS = {"on": "mode=native,tcp=on", "tc": "mode=tc,tcp=on", "off": "mode=native", "without": "",
           "passed": "", "debian": ""}
NAMES = {"on": "kernel, tcp=on", "tc": "kernel, mode=tc,tcp=on", "without": "no kernel path",
         "passed": "no kernel path, programs that pass", "debian": "Debian's memcached"}
FLOOR_PORT, OTHERS_PORT = 11259, 11258
# Two servers behind one cable, which loses a hundredth of the frames in each direction.
LOSSY = {"on": 11257, "without": 11256}
LOSS = ("--loss", "0.01")
BASE = ["-u", "nobody", "-t", "1", "-m", "1024"]
CPU = 0 # of client and server

# One segment a call: label, key size, value size, misses.
PACKETS = [("TCP, hit 16/32", 16, 32, False), ("TCP, hit 30/950", 30, 950, False),
           ("TCP, miss 16", 16, 32, True)]
# What tcp=on costs others: label, and whether the request is TCP, to another port, expected to be
# passed.
OTHERS = [("UDP, hit 16/32, with tcp=on", ""), ("UDP to another port, with tcp=on", "pass"),
          ("TCP to another port, with tcp=on", "passtcp=1:1:1")]

# From sockets: label, options of tcpload.
Load = collections.namedtuple("Load", "label words")
HITS50, HITS1, SETS, MIX, LARGE = (
    "gets, 50 connections", "gets, 1 connection", "sets, 50 connections",
    "30 gets to a set, 50 connections", "gets of 1 MB, 2 connections")
LOADS = [Load(HITS50, ["--connections", "50"]), Load(HITS1, ["--connections", "1"]),
         Load(SETS, ["--connections", "50", "--sets", "1"]),
         Load(MIX, ["--connections", "50", "--sets", str(1 / 31)]),
         Load(LARGE, ["--connections", "2", "--keys", "16", "--key-size", "12", "--value-size",
                      "1000000"])]
# By the clock, so that p99 is compared at equal rates; what is asked early would wait for the CPU
# that the server needs.
CLOCKS = [Load(f"{what}, {rate // 1000},000 /s",
               [*words, "--rate", str(rate), "--spin", "0"])
          for what, words, rates in (
              (HITS50, LOADS[0].words, (30000, 80000)), (HITS1, LOADS[1].words, (20000,)),
              (SETS, LOADS[2].words, (60000,)), (MIX, LOADS[3].words, (80000,)))
          for rate in rates]
LOADS += CLOCKS
P99_NOISE = 0.05 # as that of bench/tcp
LOSSES = "gets, 64 connections, 1 % of the frames lost"
# Programs on TC, which see what is passed, and the column of their row.
PASSING = {"mc_tc_both": "in", "mc_learn_both": "out"}
SEGMENT, OTHER, PASSED = "one segment", "others' segments and datagrams", "a passed segment"
STEPS = [SEGMENT, OTHER, PASSED, *(load.label for load in LOADS), LOSSES]


def chosen(only):
    """The steps of a round whose names match."""
    return [step for step in STEPS if re.search(only, f"TCP: {step}")]


def cpu_seconds(server):
    """Of all threads, by the scheduler's clock."""
    tasks = f"/proc/{server.process.pid}/task"
    total = 0
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/schedstat", encoding="ascii") as stat:
            total += int(stat.read().split()[0])
    return total * 1e-9


class ProgramTimes:
    """What programs take for a packet, by the kernel's own statistics (kernel.bpf_stats_enabled),
    whose clock is read around each: compare with a program that passes."""

    SWITCH = "/proc/sys/kernel/bpf_stats_enabled"

    def __enter__(self):
        with open(self.SWITCH, encoding="ascii") as switch:
            self.before = switch.read()
        self.set("1")
        return self

    def __exit__(self, *_):
        self.set(self.before)

    def set(self, value):
        with open(self.SWITCH, "w", encoding="ascii") as switch:
            switch.write(value)

    @staticmethod
    def of(program):
        """(ns, runs) so far of a program by its id."""
        info = json.loads(output(["bpftool", "-j", "prog", "show", "id", str(program)]))
        return info.get("run_time_ns", 0), info.get("run_cnt", 0)


def programs_of(server):
    """Ids of a server's programs by their names."""
    found, fds = {}, f"/proc/{server.process.pid}/fdinfo"
    for fd in os.listdir(fds):
        info = {}
        # A connection may have ended meanwhile.
        with contextlib.suppress(OSError), open(f"{fds}/{fd}", encoding="ascii") as file:
            info = dict(line.split(":", 1) for line in file if ":" in line)
        if "prog_id" in info:
            program = info["prog_id"].strip()
            shown = json.loads(output(["bpftool", "-j", "prog", "show", "id", program]))
            found[shown.get("name")] = program
    return found


class OverTcp:
    def __init__(self, lab, options, samples, first):
        self.lab, self.options, self.samples = lab, options, samples
        self.pairs, self.servers = {}, {}
        names = [name for name in SERVERS if name != "debian" or options.debian]
        for position, name in enumerate(["floor", "pass", *names], first):
            self.pairs[name] = Pair(lab, position)
        lab.attach(lab.server, "floor-tcp", self.pairs["floor"].server_if, FLOOR_PORT)
        lab.attach(lab.server, "pass", self.pairs["pass"].server_if)
        for program in ("pass", "next"):
            lab.attach(lab.server, program, self.pairs["passed"].server_if)
        for name in names:
            self.start(name)
        self.lossy = {}
        self.steps = chosen(options.only)
        if LOSSES in self.steps and os.access(os.path.join(options.build, CABLE), os.X_OK):
            self.start_lossy(first + len(self.pairs))
        self.passing = lab.attach(lab.server, "next", self.pairs["off"].server_if)

    def start(self, name):
        pair = self.pairs[name]
        words = [self.options.debian if name == "debian" else self.options.memcached, *BASE]
        if SERVERS[name]:
            words += ["-X", f"bmc={pair.server_if},{SERVERS[name]}"]
        server = self.servers[name] = self.lab.start(
            ["taskset", "-c", str(CPU), *words], pair, self.port(name))
        for _, key_size, value_size, miss in PACKETS:
            if not miss:
                self.lab.populate(server, "--keys", "1000", "--key-size", str(key_size),
                                  "--value-size", str(value_size))
        self.lab.populate(server, "--keys", "16", "--key-size", "12", "--value-size", "1000000")

    def store(self, name):
        """Small values as gets expect them: tcpload's sets change them."""
        self.lab.populate(self.servers[name], "--keys", "1000")

    def start_lossy(self, number_):
        pair = CablePair(self.lab, number_, *LOSS)
        for name, port in LOSSY.items():
            words = [self.options.memcached, *BASE]
            words += ["-X", f"bmc={pair.server_if},{SERVERS[name]}"] if SERVERS[name] else []
            self.lossy[name] = self.lab.start(words, pair, port)
            self.lab.populate(self.lossy[name], "--keys", "1000")

    @staticmethod
    def port(name):
        return PORT + list(SERVERS).index(name)

    def arm(self, name, word="", port=None, source=20001):
        return self.lab.arm(self.pairs[name], port or self.port(name), word, source)

    def measure_packets(self):
        self.store("on")
        for label, key_size, value_size, miss in PACKETS:
            word, source = self.lab.follow(self.pairs["on"], self.port("on"))
            self.lab.meet(self.pairs["on"], self.port("on"))
            arms = self.lab.perpacket(
                [self.arm("on", word, source=source), self.arm("on"),
                 self.arm("floor", "tcp=1:1:1", FLOOR_PORT), self.arm("pass", "pass", FLOOR_PORT)],
                "--verify", "--key-size", str(key_size), "--value-size", str(value_size),
                *(["--miss"] if miss else []))
            if any(arm["other"] for arm in arms):
                raise LabError(f"{label}: not every segment was answered: {arms}")
            tries = list(zip(*(arm["ns"] for arm in arms)))
            self.add("packet", label, "best", min(arms[0]["ns"]))
            self.add("packet", label, "floor", statistics.median(a / c for a, _, c, _ in tries))
            self.add("packet", label, "udp",
                     statistics.median((a - d) / (b - d) for a, b, _, d in tries))

    def measure_others(self):
        for name in ("on", "off"):
            self.lab.meet(self.pairs[name], self.port(name))
        for label, word in OTHERS:
            port = OTHERS_PORT if word else None
            on, off = self.lab.perpacket([self.arm(name, word, port) for name in ("on", "off")])
            if on["other"] or off["other"]:
                raise LabError(f"{label}: {on} {off}")
            self.add("others", label, "best", min(on["ns"]))
            self.add("others", label, "more",
                     statistics.median(a - b for a, b in zip(on["ns"], off["ns"])))

    def measure_passing(self):
        """Sets, which the programs pass, on one connection, beside a program that only passes."""
        programs = {name: program for name, program in programs_of(self.servers["on"]).items()
                    if name in PASSING}
        programs["pass"] = self.passing
        with ProgramTimes() as times:
            before = {name: times.of(program) for name, program in programs.items()}
            for name in ("on", "off"):
                self.load(name, ["--connections", "1", "--sets", "1"])
            each = {}
            for name, program in programs.items():
                ns, runs = (b - a for a, b in zip(before[name], times.of(program)))
                each[name] = ns / runs
        for name, column in PASSING.items():
            self.add("passing", "TCP", column, each[name] - each["pass"])

    def load(self, name, words):
        return json.loads(self.lab.client.run(
            [self.lab.tool("tcpload"), "--json", "--verify", "--cpu", str(CPU), "--seconds",
             str(self.options.window), *words, self.servers[name].address]))

    def measure_load(self, turn, label, words):
        names = [name for name in NAMES if name in self.servers]
        for name in names if turn % 2 else names[::-1]:
            if "--sets" not in words:
                self.store(name)
            before = cpu_seconds(self.servers[name])
            result = self.load(name, words)
            if result["wrong"] or not result["answered"]:
                raise LabError(f"{NAMES[name]}, {label}: {result}")
            for column in ("p50_us", "p99_us"):
                self.add(label, name, column, result[column])
            self.add(label, name, "rate", result["answered_per_second"])
            self.add(label, name, "cpu", (cpu_seconds(self.servers[name]) - before) * 1e6 /
                     result["answered"])

    def measure_lossy(self, turn):
        """The clients' timers, a fifth of a second each, decide how many gets there are."""
        names = list(self.lossy)
        for name in names if turn % 2 else names[::-1]:
            result = json.loads(self.lab.client.run(
                [self.lab.tool("tcpload"), "--json", "--verify", "--connections", "64",
                 "--seconds", str(3 * self.options.window), self.lossy[name].address]))
            if result["wrong"] or not result["answered"]:
                raise LabError(f"{NAMES[name]}, {LOSSES}: {result}")
            for column, key in (("rate", "answered_per_second"), ("p50_us", "p50_us"),
                                ("p99_us", "p99_us")):
                self.add(LOSSES, name, column, result[key])

    def add(self, table, row, column, value):
        self.samples.add(f"tcp {table}", row, column, value=value)

    def measure(self, turn, progress):
        loads = dict(LOADS)
        for step in self.steps:
            if step in loads:
                self.measure_load(turn, step, loads[step])
            else:
                {SEGMENT: self.measure_packets, OTHER: self.measure_others,
                 PASSED: self.measure_passing, LOSSES: lambda: self.measure_lossy(turn)}[step]()
            progress.step(f"TCP: {step}")


def report(samples):
    rows = []
    for label, *_ in PACKETS:
        cells = [samples.median("tcp packet", label, column) for column in ("best", "floor", "udp")]
        rows.append([label, number(cells[0], 1), number(cells[1], 2), number(cells[2], 2), "-"])
    for label, _ in OTHERS:
        rows.append([label, number(samples.median("tcp others", label, "best"), 1), "-", "-",
                     number(samples.median("tcp others", label, "more"), 1)])
    for column, what in (("in", "to"), ("out", "from")):
        more = samples.median("tcp passing", "TCP", column)
        rows.append([f"TCP, a passed segment {what} the server, on TC", "-", "-", "-",
                     number(more, 1)])
    print_table(["one segment or datagram", "best ns", "times the floor",
                 "times UDP's, both above pass", "ns more"], rows)
    rows = []
    for label in [load.label for load in LOADS] + [LOSSES]:
        for name, text in NAMES.items():
            cells = [samples.median(f"tcp {label}", name, column)
                     for column in ("cpu", "rate", "p50_us", "p99_us")]
            if cells[1] is not None:
                rows.append([f"{label}: {text}", *(number(cell, digits) for cell, digits
                                                   in zip(cells, (2, 0, 1, 1)))])
    print_table(["TCP sockets, client and server on one CPU", "server's CPU us a request",
                 "requests/s", "p50 us", "p99 us"], rows)


def targets(samples):
    """Rows as those of bench/run."""
    def rounds(label, column, a, b):
        """The median of the rounds' ratios."""
        values = [samples.get((f"tcp {label}", name, column)) for name in (a, b)]
        if None in values:
            return None
        return statistics.median(ratio(max(x, 0.001), y) for x, y in zip(*values))

    def others(label):
        return samples.median("tcp others", label, "more")

    return [
        ("TCP: 16/32 hit, times UDP's, both above a program that passes", "<=", 4.5,
         samples.median("tcp packet", PACKETS[0][0], "udp")),
        *[(f"{label}: ns more", "<=", 5 if "passtcp" in word else 3, others(label))
          for label, word in OTHERS],
        *[(f"TCP: a passed segment {way}, ns", "<=", most,
           samples.median("tcp passing", "TCP", way)) for way, most in (("in", 150), ("out", 100))],
        ("TCP gets: server's CPU, of that without the kernel path", "<=", 1 / 7,
         rounds(HITS50, "cpu", "on", "without")),
        ("TCP gets: server's CPU, of Debian's", "<=", 1 / 8, rounds(HITS50, "cpu", "on", "debian")),
        ("TCP gets, mode=tc: server's CPU, of that without", "<=", 1 / 3,
         rounds(HITS50, "cpu", "tc", "without")),
        ("TCP gets, 50 connections: times Debian's rate", ">=", 1.9,
         rounds(HITS50, "rate", "on", "debian")),
        *[(f"TCP gets, 1 connection: p50, of {NAMES[name]}", "<=", 0.29,
           rounds(HITS1, "p50_us", "on", name)) for name in ("debian", "without")],
        ("TCP gets, 1 connection: p99, of Debian's", "<=", 1, rounds(HITS1, "p99_us", "on",
                                                                     "debian")),
        ("TCP gets, 50 connections: p99, of Debian's", "<=", 1, rounds(HITS50, "p99_us", "on",
                                                                       "debian")),
        *[(f"TCP {label}: p99, of that without", "<=", 1 + P99_NOISE,
           rounds(label, "p99_us", "on", "without")) for label, _ in CLOCKS],
        (f"TCP {MIX}: rate, of that without", ">=", 0.96, rounds(MIX, "rate", "on", "without")),
        *[(f"TCP {label}: rate, of that behind programs that pass", ">=", 0.96,
           rounds(label, "rate", "on", "passed")) for label in (SETS, LARGE)],
        (f"TCP {LOSSES}: rate, of that without", ">=", 0.98, rounds(LOSSES, "rate", "on",
                                                                    "without")),
    ]
