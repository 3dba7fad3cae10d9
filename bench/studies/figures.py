# SPDX-License-Identifier: BSD-3-Clause
"""What bench/paper measures besides figures 6, 8 and 10.

Over CPUs (2, 3), how memory is split (9), the delay of a dummy cache (11), CPU time against load
(15), and over sizes of values (Flying Memcache's)."""

import collections
import os
import time

import table3
from lab import Pair
from overtcp import ProgramTimes, cpu_seconds, programs_of
from table import number, print_table, ratio

CPUS = os.cpu_count()
Work = collections.namedtuple("Work", "keys dist large")
# Requests a second of all generators together; 0: as fast as they go.
Layout = collections.namedtuple("Layout", "label generators first_cpu last_cpu realtime rates")

# Over CPUs, all of which generate, receive and serve.
CORES = [n for n in (1, 2, 4, 8, 16, 32, 64) if n < CPUS] + [CPUS]
CORES_VARIANTS = ["vanilla", "sr", "debian", "chain", "in-place"]
CORES_WORK = Work(100000, "zipf", 0)

# Bytes of a value: NICached's, the BMC paper's, and those of Flying Memcache's table III.
SIZES = [8, 32, 250, 1000, 2800, 8192, 25000]
SIZES_VARIANTS = ["sr", "debian", "chain", "in-place"]
SIZES_WORK = Work(1000, "uniform", 0)

# A chain's table of 2^N places of 128 bytes, which the server's memory is less by; None: no chain.
SPLITS = [None, 10, 14, 16, 17, 18, 19]
SPLIT_MB = 128 # more than the keys' items take without a chain; with the largest half of that
SPLIT_WORK = Work(1000000, "zipf", 0)

DELAYS = [0, 100, 200, 500, 1000, 2000] # nanoseconds
DELAY_PORT, DELAY_PAIR = 11299, 200
DELAY_VARIANTS = ["chain", "in-place"]
DELAY_WORK = Work(1, "uniform", 0)

LOADS = [25, 50, 100, 150, 200, 300, 500, 1000, 2000, 3000] # thousand requests a second
LOAD_VARIANTS = ["sr", "debian", "chain", "in-place"]
LOAD_WORK = Work(100000, "zipf", 0)


def cores_layout(cpus):
    return Layout(f"{cpus} CPU{'s' * (cpus > 1)}", cpus, 0, cpus - 1, False,
                  [f"{cpus * thousand}k" for thousand in (50, 100, 150, 250, 500)] + ["0"])


def times_of(server):
    """User's and kernel's CPU ticks of a process so far."""
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[11]), int(fields[12])


def start_cores(bench, names):
    for cpus in CORES:
        for name in names:
            if name in bench.options.variants:
                bench.start(f"{name}@{cpus}", threads=cpus)
                bench.fill(f"{name}@{cpus}", CORES_WORK.keys, 0)


def measure_cores(bench):
    for cpus in CORES:
        layout = cores_layout(cpus)
        names = bench.there(f"{name}@{cpus}" for name in CORES_VARIANTS)
        bench.place(layout, names)
        rates = {name: bench.best_rate(name, CORES_WORK, layout) for name in names}
        for _ in range(bench.options.rounds):
            for name, rate in rates.items():
                before = times_of(bench.servers[name])
                result = bench.live(name, CORES_WORK, layout, rate, bench.options.window)
                user, kernel = (b - a for a, b in zip(before, times_of(bench.servers[name])))
                key = 3, cpus, name.split("@")[0]
                bench.samples.add(*key, "rate", value=result["answered_per_second"])
                if user + kernel >= 20: # a fifth of a second: below, the ticks say little
                    bench.samples.add(*key, "system", value=kernel / (user + kernel))
                bench.progress.step(f"figure 3, {layout.label}, {name}")


def measure_sizes(bench, layout):
    names = bench.there(SIZES_VARIANTS)
    bench.place(layout, names)
    for size in SIZES:
        for name in names:
            # Through the interface whose writes the chain sees.
            bench.lab.populate(bench.servers[name], "--keys", str(SIZES_WORK.keys),
                               "--value-size", str(size), beside=bench.lab.client)
        rates = {name: bench.best_rate(name, SIZES_WORK, layout) for name in names}
        for _ in range(bench.options.rounds):
            for name, rate in rates.items():
                result = bench.live(name, SIZES_WORK, layout, rate, bench.options.window)
                bench.samples.add("sizes", size, name, "rate",
                                  value=result["answered_per_second"])
                bench.progress.step(f"values of {size} bytes, {name}")


def split_percent(places):
    return 0 if places is None else 100 * 2 ** places * 128 / (SPLIT_MB << 20)


def start_splits(bench, variant, max_age):
    """The chain may have one block for longer texts, which there are none of."""
    if "chain" not in bench.options.variants:
        return
    for places in SPLITS:
        share = split_percent(places) / 100
        bench.start(f"split-{places}", variant=variant._replace(
            chain=places and (f"{2 ** places}/1/1", max_age)),
            memory=str(round(SPLIT_MB * (1 - share))))
        bench.lab.populate(bench.servers[f"split-{places}"], "--keys", str(SPLIT_WORK.keys))


def measure_splits(bench, layout):
    names = bench.there(f"split-{places}" for places in SPLITS)
    bench.place(layout, names)
    rates = {name: bench.best_rate(name, SPLIT_WORK, layout) for name in names}
    for _ in range(bench.options.rounds):
        for places in SPLITS if names else []:
            name, percent = f"split-{places}", split_percent(places)
            before = bench.kernel_answers(name)
            result = bench.live(name, SPLIT_WORK, layout, rates[name], bench.options.window)
            seen, answered = (b - a for a, b in zip(before, bench.kernel_answers(name)))
            hits = result["hits"] / max(1, result["hits"] + result["misses"])
            for column, value in (("rate", result["answered_per_second"]), ("hits", hits),
                                  ("kernel", answered / seen if seen else 0)):
                bench.samples.add(9, percent, column, value=value)
            bench.progress.step(f"figure 9, {percent:.1f} % for the chain")
    for places in SPLITS if names else []:
        if not places:
            continue
        items = int(bench.servers[f"split-{places}"].stats()["curr_items"])
        result = table3.simulate(bench.lab, SPLIT_WORK.keys, items, 2 ** places, "--draws",
                                 str(table3.DRAWS))
        bench.samples.add(9, split_percent(places), "simulated", value=result["kernel"])


def start_delays(bench):
    bench.delays = {}
    for place, delay in enumerate(DELAYS):
        pair = bench.delays[delay] = Pair(bench.lab, DELAY_PAIR + place)
        bench.lab.attach(bench.lab.server, "floor", pair.server_if, DELAY_PORT,
                         ["--delay", str(delay)])


def measure_delays(bench, layout):
    names = bench.there(DELAY_VARIANTS)
    bench.place(layout, names)
    for name in names:
        bench.live(name, DELAY_WORK, layout, "1k", 0.1) # the chain has the key from here on
    for _ in range(bench.options.rounds):
        for delay, pair in bench.delays.items():
            result = bench.lab.live(pair, DELAY_PORT, "--seconds", str(bench.options.window),
                                    "--realtime")
            bench.samples.add(11, delay, "rate", value=result["answered_per_second"])
            bench.progress.step(f"figure 11, a delay of {delay} ns")
        for name in names:
            result = bench.live(name, DELAY_WORK, layout, "0", bench.options.window)
            bench.samples.add(11, name, "rate", value=result["answered_per_second"])
            bench.progress.step(f"figure 11, {name}")


def program_seconds(times, programs):
    return sum(times.of(program)[0] for program in programs.values()) * 1e-9


def measure_load(bench, name, programs, times, rate):
    """CPU seconds of the server's threads and of its programs in each second."""
    server, seconds = bench.servers[name], bench.options.window
    before = cpu_seconds(server), program_seconds(times, programs)
    result = bench.lab.live(server.pair, server.port, "--keys", str(LOAD_WORK.keys), "--dist",
                            LOAD_WORK.dist, "--rate", f"{rate}k", "--seconds", str(seconds),
                            "--warmup", "0", "--realtime", path="veth")
    time.sleep(0.05) # what is still in the sockets
    after = cpu_seconds(server), program_seconds(times, programs)
    key = 15, name, rate
    bench.samples.add(*key, "sent", value=result["sent_per_second"])
    bench.samples.add(*key, "answered", value=result["answered_per_second"])
    for column, a, b in zip(("server", "programs"), before, after):
        bench.samples.add(*key, column, value=(b - a) / seconds)


def measure_loads(bench, layout):
    names = bench.there(LOAD_VARIANTS)
    bench.place(layout, names)
    # Debian's has none; the chain's programs in front of it are another process's.
    programs = {name: programs_of(bench.servers[name]) for name in names}
    for name in names:
        if name == "chain":
            bench.live(name, LOAD_WORK, layout, "200k", 1)
    with ProgramTimes() as times:
        for _ in range(bench.options.rounds):
            for rate in LOADS:
                for name in names:
                    measure_load(bench, name, programs[name], times, rate)
                    bench.progress.step(f"figure 15, {1000 * rate:,} a second, {name}")


def steps(bench):
    """How many measurements of a round each figure has."""
    def there(names):
        return len(bench.there(names))

    return {3: sum(there(f"{name}@{cpus}" for name in CORES_VARIANTS) for cpus in CORES),
            "sizes": len(SIZES) * there(SIZES_VARIANTS),
            9: there(f"split-{places}" for places in SPLITS),
            11: len(DELAYS) + there(DELAY_VARIANTS), 15: len(LOADS) * there(LOAD_VARIANTS)}


def report_cores(samples, labels):
    for column, title in (("rate", "figure 3, and 6 over CPUs, together: answered/s"),
                          ("system", "figure 2: share of the server's CPU time that is system "
                           "calls'")):
        rows = []
        for name in CORES_VARIANTS:
            values = [samples.median(3, cpus, name, column) for cpus in CORES]
            if any(values):
                rows.append([labels[name]] + [number(value, 0 if column == "rate" else 2)
                                              for value in values])
        print_table([title, *[f"{cpus} CPU{'s' * (cpus > 1)}" for cpus in CORES]], rows)


def report_splits(samples, _):
    rows = [[f"{percent:.1f} %", number(samples.median(9, percent, "rate")),
             number(ratio(samples.median(9, percent, "rate"), samples.median(9, 0, "rate")), 2),
             f"{samples.median(9, percent, 'hits'):.0%}",
             f"{samples.median(9, percent, 'kernel'):.0%}",
             f"{samples.median(9, percent, 'simulated') or 0:.0%}"]
            for percent in map(split_percent, SPLITS) if (9, percent, "rate") in samples]
    print_table([f"figure 9, apart: of {SPLIT_MB} MB the chain has", "answered/s",
                 "times that without", "hits", "by the kernel", "simulated"], rows)


def report_sizes(samples, labels):
    rows = []
    for name in SIZES_VARIANTS:
        rates = [samples.median("sizes", size, name, "rate") for size in SIZES]
        if not any(rates):
            continue
        debian = [samples.median("sizes", size, "debian", "rate") for size in SIZES]
        rows.append([labels[name]] + [f"{number(rate)} ({number(ratio(rate, other), 2)})"
                                      for rate, other in zip(rates, debian)])
    print_table(["values of so many bytes, apart: answered/s (times Debian's)", *map(str, SIZES)],
                rows)


def report_delays(samples, labels):
    rows = [[f"dummy cache, {what} ns" if what in DELAYS else labels[what],
             number(samples.median(11, what, "rate")),
             number(ratio(samples.median(11, what, "rate"), samples.median(11, 0, "rate")), 2)]
            for what in DELAYS + DELAY_VARIANTS if (11, what, "rate") in samples]
    print_table(["figure 11: one key", "answered/s", "of the dummy's without delay"], rows)


def report_loads(samples, labels):
    rows = []
    for name in LOAD_VARIANTS:
        for rate in LOADS:
            key = 15, name, rate
            if (*key, "sent") in samples:
                rows.append([f"{labels[name]}, {1000 * rate:,} a second"] + [
                    number(samples.median(*key, column), digits) for column, digits in (
                        ("sent", 0), ("answered", 0), ("server", 3), ("programs", 3))])
    print_table(["figure 15: CPU time against load, apart", "sent/s", "answered/s",
                 "CPUs, server's threads", "CPUs, its programs"], rows)
