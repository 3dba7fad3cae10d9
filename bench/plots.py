# SPDX-License-Identifier: BSD-3-Clause
"""The plots of bench/report: of what run and studies/paper have saved, with papers' points."""

import published
from chart import OTHERS, Chart
from table import ratio

NAMES = {"in-place": "in place", "in-place-tcp": "in place, tcp=on",
         "chain": "chain, before this server",
         "chain-debian": "chain, before Debian's", "chain-few": "chain with 65,536 places",
         "sr": "no kernel path", "vanilla": "no kernel path, one socket",
         "debian": "Debian's memcached", "paper-sr": "memcached 1.5.19, a socket a thread",
         "paper-vanilla": "memcached 1.5.19"}
ORDER = list(NAMES)

KEYS = [("in-place", "kernel path, hits", "kernel hits, %s"),
        ("misses", "kernel path, misses", "kernel misses, %s"),
        ("chain", "chain, before this server", "chain before ours, %s"),
        ("sr", "no kernel path", "no kernel path, SO_REUSEPORT, %s"),
        ("debian", "Debian's memcached", "Debian's memcached, %s")]
COUNTS = [(1, "1 key"), (1000, "1,000 keys"), (100000, "100,000 keys"), (1000000, "1,000,000 keys")]


def where(head):
    machine = head["machine"]
    return (f"{machine['cpu']}, {machine['cpus']} CPUs, Linux {machine['linux'].split('-')[0]}, "
            f"{head['date'][:10]}, commit {head['commit']}, load before {head['load']:.1f}; "
            "virtual devices, no network card")


def over(values, base=1):
    """A point's y, and the range of the rounds; `base` is what it is a multiple of."""
    if not values or not base:
        return None, None, None
    middle = sorted(values)[len(values) // 2] if len(values) % 2 else \
        sum(sorted(values)[len(values) // 2 - 1:len(values) // 2 + 1]) / 2
    return middle / base, min(values) / base, max(values) / base


def seen(samples, place, *start):
    """What is at `place` of the keys that begin so, in order."""
    found = {key[place] for key in samples if key[:len(start)] == start and len(key) > place}
    return sorted(found, key=lambda name: ORDER.index(name) if name in ORDER else name)


def keys_points(samples, row, base):
    return [(count, *over(samples.get(("live", row % text, "rate")), base))
            for count, text in COUNTS]


def keys(samples):
    """Rate by the number of keys, beside Debian's in the same run."""
    base = samples.median("live", "Debian's memcached, 1,000 keys", "rate")
    if not base:
        return None
    chart = Chart("rate-by-keys", "GETs answered, by the number of keys", "keys, each as often as "
                  "any", "times Debian's memcached (1,000 keys)",
                  "Requests made in the kernel, open loop, 16-byte keys and 32-byte values. One "
                  "CPU for the kernel path, which generates the requests too, and both for the "
                  "servers without it. Floor: a program that returns a constant reply. Bars: the "
                  "range of the rounds.", "xy")
    floor = over(samples.get(("live", "floor", "rate")), base)
    chart.series("floor", "floor", [(count, *floor) for count, _ in COUNTS], True)
    for look, label, row in KEYS:
        chart.series(label, look, keys_points(samples, row, base))
    chart.ticks([count for count, _ in COUNTS])
    return chart


def floor_share(samples):
    """What of the floor's rate a lookup leaves."""
    base = samples.median("live", "floor", "rate")
    if not base:
        return None
    chart = Chart("share-of-floor", "Share of the rate that XDP can reach, by the number of keys",
                  "keys", "share of the floor's rate",
                  "The floor looks nothing up. NICached's floor is what its card sent back by "
                  "XDP_TX.", "x")
    for look, label, row in KEYS[:3]:
        chart.series(label, look, keys_points(samples, row, base))
    chart.published("NICached", published.FLOOR_SHARE, False)
    chart.ticks([count for count, _ in COUNTS])
    chart.axes.set_ylim(0, 1.05)
    return chart


def sizes(samples):
    measured = seen(samples, 1, "sizes")
    if not measured:
        return None
    chart = Chart("rate-by-size", "GETs answered, by the size of the value", "bytes of a value",
                  "times Debian's memcached",
                  "1,000 keys; one CPU generates and receives, the other serves. The kernel "
                  "answers what fits into 1,400 bytes, and passes the rest. Of Flying Memcache the "
                  "text has only a range for all its sizes; NICached's is one core beside four of "
                  "memcached.", "xy")
    for name in seen(samples, 2, "sizes"):
        chart.series(NAMES[name], name, [
            (size, *over(samples.get(("sizes", size, name, "rate")),
                         samples.median("sizes", size, "debian", "rate"))) for size in measured])
    for label, wanted in (("NICached", "NICached"), ("Flying Memcache, least", "least"),
                          ("Flying Memcache, most", "most")):
        chart.published(label, [point for point in published.SIZES if wanted in point.series])
    chart.ticks(measured)
    return chart


def cores(samples):
    measured = seen(samples, 1, 3)
    if not measured:
        return None
    chart = Chart("rate-by-cores", "GETs answered, by CPUs (the paper's figures 3 and 6)", "CPUs",
                  "requests a second",
                  "100,000 keys by Zipf, as many threads as CPUs, which generate the requests too "
                  "(the paper's clients were other machines, with cards).", "xy")
    for name in seen(samples, 2, 3):
        chart.series(NAMES[name], name, [(cpus, *over(samples.get((3, cpus, name, "rate"))))
                                         for cpus in measured])
    for name, label in (("chain", "BMC"), ("sr", "BMC's MemcachedSR"),
                        ("vanilla", "BMC's vanilla")):
        chart.published(label, [point for point in published.CORES if point.series == name])
    chart.ticks(sorted({*measured, 1, 2, 4, 8}))
    return chart


def throughput(samples):
    what = "1,000,000 keys by Zipf"
    names = seen(samples, 3, 6, "apart", what)
    base = samples.median(6, "apart", what, "vanilla", "rate")
    if not base:
        return None
    chart = Chart("figure-6", "Times vanilla memcached (the paper's figure 6)",
                  "times one socket for all threads", "",
                  "1,000,000 keys by Zipf, small values; one CPU generates and receives, the other "
                  "serves. The paper's: 100 million keys, eight cores.")
    bars = [(NAMES[name], name, value, f"{value:.1f}") for name in names
            for value in [ratio(samples.median(6, "apart", what, name, "rate"), base)]]
    most = published.THROUGHPUT[0]
    sr = ratio(most.y, published.THROUGHPUT[1].y)
    bars += [(f"BMC, 8 cores{OTHERS}", None, most.y, f"{most.y:g}"),
             (f"MemcachedSR, 8 cores{OTHERS}", None, sr, f"{sr:g}")]
    chart.bars(bars)
    chart.cite("BMC", published.THROUGHPUT)
    return chart


def mix(samples):
    measured = seen(samples, 2, 8, "apart")
    if not measured:
        return None
    chart = Chart("figure-8", "Small values among those of 8 KB (the paper's figures 7 and 8)",
                  "percent of the requests that are for small values",
                  "times the same server alone",
                  "10,000 keys of each kind; one CPU generates and receives, the other serves.",
                  "y")
    for name, alone in (("in-place", "sr"), ("chain", "sr"), ("chain-debian", "debian")):
        chart.series(NAMES[name], name, [
            (percent, *over(samples.get((8, "apart", percent, name, "rate")),
                            samples.median(8, "apart", percent, alone, "rate")))
            for percent in measured])
    chart.published("BMC over MemcachedSR", published.MIX)
    chart.ticks(measured)
    return chart


def split(samples):
    """What a chain is worth that takes its memory from the server."""
    base = samples.median(9, 0, "rate")
    if not base:
        return None
    measured = sorted(key[1] for key in samples if key[0] == 9 and key[2] == "rate" and key[1])
    chart = Chart("figure-9", "Memory split between server and chain (the paper's figure 9)",
                  "percent of the memory that the chain has", "times the server without a chain",
                  "1,000,000 keys by Zipf in 128 MB, which hold them all without a chain, and half "
                  "of them with half for the chain. The paper: 100 million keys, 10 GB.", "x")
    chart.series("chain, before this server", "chain", [
        (percent, *over(samples[9, percent, "rate"], base)) for percent in measured])
    chart.published("BMC", published.SPLIT)
    chart.ticks([0.1, 1, 10, 25, 50])
    chart.axes.set_ylim(0)
    return chart


# Rows of both programs, and how they look.
LATENCY = {"floor": ("floor", "floor"),
           "in place: hit": ("in place", "in-place"),
           "kernel hits, 1,000 keys": ("kernel path", "in-place"),
           "chain: hit": ("chain, hit", "chain"),
           "chain before ours, hits, 1,000 keys": ("chain, hit", "chain"),
           "chain: passed, a hit of the server, kept anew": ("chain, passed", "chain-few"),
           "one socket per thread: hit": ("no kernel path", "sr"),
           "no kernel path, SO_REUSEPORT": ("no kernel path", "sr"),
           "the paper's MemcachedSR: hit": ("memcached 1.5.19", "paper-sr"),
           "Debian's memcached: hit": ("Debian's memcached", "debian"),
           "Debian's memcached": ("Debian's memcached", "debian")}


def distribution(samples, start, chart):
    """Lines of microseconds over the share of the requests that take as long or longer."""
    rows = [row for row in LATENCY if any(key[:-1] == (*start, row) for key in samples)]
    for row in rows:
        points = []
        for key in samples:
            if key[:-1] == (*start, row) and isinstance(key[-1], float) and 0.5 <= key[-1] < 1:
                points.append((1 - key[-1], *over(samples[key])))
        chart.series(*LATENCY[row], sorted(points, reverse=True))
    chart.axes.invert_xaxis()
    chart.axes.set_xticks([0.5, 0.1, 0.01, 0.001, 0.0001],
                          ["p50", "p90", "p99", "p99.9", "p99.99"])
    chart.axes.minorticks_off()
    chart.axes.set_xlim(0.6, 0.00008)
    return chart if rows else None


def latency(samples):
    return distribution(samples, ("latency",), Chart(
        "latency", "One request at a time over sockets", "percentile", "microseconds",
        "The round trip through two sockets and a veth pair; the kernel's own work is in all of "
        "them.", "xy"))


def figure10(samples):
    chart = distribution(samples, (10,), Chart(
        "figure-10", "Time of one request (the paper's figure 10)", "percentile", "microseconds",
        "Ours: the round trip through two sockets and a veth pair, with the client's system calls. "
        "The paper's: within the server, from driver to driver.", "xy"))
    if chart:
        chart.published("BMC, hit", published.LATENCY[:1])
        chart.published("BMC, passed hit", published.LATENCY[1:2])
        chart.published("MemcachedSR, hit", published.LATENCY[3:])
    return chart


def delay(samples):
    measured = [what for what in seen_delays(samples) if what]
    base = samples.median(11, 100, "rate")
    if not base:
        return None
    chart = Chart("figure-11", "A dummy cache that takes longer (the paper's figure 11)",
                  "nanoseconds that it waits", "rate, of that with 100 ns",
                  "One CPU. The dummy returns a constant reply and waits before it does. Dashed: "
                  "hits of the real ones, one key.")
    chart.series("dummy cache", "floor", [(what, *over(samples[11, what, "rate"], base))
                                          for what in [0, *measured]])
    for name in ("in-place", "chain"):
        value = over(samples.get((11, name, "rate")), base)
        chart.series(f"{NAMES[name]}, hits", name, [(0, *value), (2000, *value)], True)
    chart.published("BMC's dummy", published.DELAY)
    chart.axes.set_ylim(0)
    return chart


def seen_delays(samples):
    return sorted(key[1] for key in samples if key[0] == 11 and isinstance(key[1], int))


def load(samples):
    names = seen(samples, 1, 15)
    if "debian" not in names:
        return None
    most = max(samples.median(15, "debian", rate, "answered")
               for rate in seen(samples, 2, 15, "debian"))
    chart = Chart("cpu-by-load", "CPU time against load (the paper's figure 15)",
                  "answered a second, of the most that Debian's memcached answered",
                  "CPUs that are busy",
                  "CPU time of the server's threads, with the kernel's work in their system calls, "
                  "and of its programs in the kernel (bpf_stats). What the network stack does when "
                  "it receives is not in it, which spares the servers without the kernel path. "
                  "Requests come by the clock; one CPU serves.", "x")
    for name in names:
        points = []
        for rate in seen(samples, 2, 15, name):
            sent, answered = (samples.median(15, name, rate, column)
                              for column in ("sent", "answered"))
            if answered < 0.9 * sent: # more than it can take
                continue
            both = [a + b for a, b in zip(samples[15, name, rate, "server"],
                                          samples[15, name, rate, "programs"])]
            points.append((answered / most, *over(both)))
        chart.series(NAMES[name], name, sorted(points))
    chart.axes.set_ylim(0, 1.05)
    return chart


def load_paper(samples):
    """Figure 15 at the load that the paper's text has in numbers, beside ours at our highest."""
    bars = []
    for name in seen(samples, 1, 15):
        rates = [rate for rate in seen(samples, 2, 15, name)
                 if samples.median(15, name, rate, "answered")
                 >= 0.9 * samples.median(15, name, rate, "sent")]
        if not rates:
            continue
        rate = max(rates, key=lambda each: samples.median(15, name, each, "answered"))
        answered = samples.median(15, name, rate, "answered")
        busy = sum(samples.median(15, name, rate, column) for column in ("server", "programs"))
        bars.append((NAMES[name], name, busy * 1e6 / answered, f"{busy * 1e6 / answered:.2f}"))
    if not bars:
        return None
    for point, count in ((published.LOAD[2], 8), (published.LOAD[3], 8)):
        what = "BMC" if "all" in point.series else "Seastar"
        each = point.y * count * 1e6 / point.x
        bars.append((f"{what}, half over TCP{OTHERS}", None, each, f"{each:.2f}"))
    chart = Chart("cpu-a-request", "CPU time of a request (from the paper's figure 15)",
                  "microseconds of CPU time", "",
                  "Ours: at the highest rate of which 90 % were answered, as above. The paper's: "
                  "eight cores' use at 2.3 million requests a second, half of them over TCP, with "
                  "all that the cores do, receiving included.")
    chart.bars(bars)
    chart.cite("BMC, Seastar", published.LOAD)
    return chart


def system(samples):
    measured = seen(samples, 1, 3)
    names = [name for name in ("vanilla", "sr", "debian")
             if any((3, cpus, name, "system") in samples for cpus in measured)]
    if not names:
        return None
    chart = Chart("figure-2", "System calls' share of the server's CPU time (the paper's figure 2)",
                  "CPUs (the paper: threads)", "share of the server's CPU time",
                  "By the kernel's clock ticks, at the rate at which each answers most.", "x")
    for name in names:
        chart.series(NAMES[name], name, [(cpus, *over(samples.get((3, cpus, name, "system"))))
                                         for cpus in measured])
    chart.published("BMC's vanilla", published.SYSTEM)
    chart.ticks(sorted({*measured, 1, 2, 4, 8}))
    chart.axes.set_ylim(0, 1)
    return chart


def transfer(samples):
    """What is left of a transfer's rate."""
    names = seen(samples, 1, 12)
    base = samples.median(12, "sr", 0, "seconds")
    if not base:
        return None
    chart = Chart("figure-12", "A bulk transfer over TCP beside load (the paper's figure 12)",
                  "thousand gets a second over UDP, which are sent",
                  "times as long as without load",
                  "The server, the receiving end of the transfer and the receiving thread of the "
                  "device share one CPU, the clients have another. The paper: beside 5 million "
                  "requests a second the transfer takes 0.17 of the time with BMC.", "y")
    for name in names:
        chart.series(NAMES[name], name, [
            (rate, *over(samples.get((12, name, rate, "seconds")), base))
            for rate in seen(samples, 2, 12, name)])
    chart.cite("BMC", published.TRANSFER)
    return chart


def halves(samples):
    measured = seen(samples, 1, 14)
    if not measured:
        return None
    chart = Chart("figure-14", "Half of the requests over TCP (the paper's figure 14)", "CPUs",
                  "requests a second",
                  "Twice the lesser of both halves, at the highest rate at which those over TCP do "
                  "not pile up. The CPUs generate the requests too: those over TCP come from "
                  "sockets, which costs more than to answer them.", "xy")
    for name in seen(samples, 2, 14):
        chart.series(NAMES[name], name, [(cpus, *over(samples.get((14, cpus, name, "rate"))))
                                         for cpus in measured])
    for name, label in (("chain", "BMC"), ("Seastar", "Seastar")):
        chart.published(label, [point for point in published.HALF if point.series == name], False)
    chart.ticks(sorted({*measured, 1, 2, 4, 8}))
    return chart


def simulated(samples):
    """Table 3: what the kernel answers of 100 million keys."""
    settings = list(dict.fromkeys(key[1] for key in samples
                                  if key[0] == "table3" and key[1] != "check"))
    bars = []
    for setting in settings:
        for how, label in (("gets", ""), ("refill", ", refilled")):
            value = samples.median("table3", setting, how, "kernel")
            bars.append((setting + label, "in-place" if "in place" in setting else "chain", value,
                         f"{value:.2f}"))
    if not bars:
        return None
    paper = published.ANSWERED[0]
    bars.append((f"BMC measured{OTHERS}", None, paper.y, f"{paper.y:.2f}"))
    chart = Chart("table-3", "Share that the kernel answers of 100 million keys (Table 3)",
                  "share of the gets", "",
                  "Simulated (bench/simulate): 100 million keys by Zipf, 0.99. Refilled: what was "
                  "missed is stored. BMC's: of all that its machine answered, at more load than "
                  "its memcached could take.")
    chart.bars(bars)
    chart.cite("BMC", published.ANSWERED)
    return chart


def isolation(samples):
    """How long others' requests take beside a flood."""
    start, ways = "udp", {"no kernel path, received first": ("sr", False),
                          "no kernel path, in turn": ("vanilla", True),
                          "kernel path, received first": ("in-place", False),
                          "kernel path, in turn": ("misses", True),
                          "kernel path, a queue of its own, nice 10": ("chain", False)}
    measured = seen(samples, 1, start)
    if not measured:
        return None
    chart = Chart("isolation", "TCP gets beside a flood of gets over UDP",
                  "times what the server can take without the kernel path",
                  "p99 in microseconds",
                  "One CPU is the machine. A thread receives its frames: first (before all else, "
                  "as interrupts), in turn, or behind others.", "y")
    for way, (look, dashed) in ways.items():
        chart.series(way, look, [(times, *over(samples.get((start, times, way, "idle", "gets",
                                                             "p99")))) for times in measured],
                     dashed)
    chart.ticks(measured)
    return chart


def packets(samples):
    rows = [("kernel path, hit 8/8", "in-place", "hit 8/8"),
            ("kernel path, hit 16/32", "in-place", "hit 16/32"),
            ("kernel path, hit 32/256", "in-place", "hit 32/256"),
            ("kernel path, hit 30/950", "in-place", "hit 30/950"),
            ("kernel path, miss 16", "misses", "miss 16"),
            ("gets, hit 16/32", "in-place", "gets, hit 16/32"),
            ("mg v f t s, hit 16/32", "in-place", "mg v f t s, hit 16/32"),
            ("binary GetK, hit 16/32", "in-place", "binary GetK, hit 16/32"),
            ("chain, hit 16/32", "chain", "chain, hit 16/32"),
            ("chain, hit 30/950", "chain", "chain, hit 30/950")]
    bars = [(label, look, value, f"{value:.2f}") for label, look, row in rows
            for value in [samples.median("packet", row, "times")] if value]
    if not bars:
        return None
    chart = Chart("one-packet", "One packet through the program (key/value bytes)",
                  "times the floor's nanoseconds", "",
                  "BPF_PROG_TEST_RUN, one packet a call, in turn with the floor's.")
    chart.bars(bars)
    return chart


def tcp(samples):
    table = "tcp gets, 50 connections"
    names = {"on": ("kernel path (tcp=on)", "in-place"), "tc": ("the same on TC", "misses"),
             "without": ("no kernel path", "sr"), "debian": ("Debian's memcached", "debian")}
    bars = [(label, look, value, f"{value:.2f}") for name, (label, look) in names.items()
            for value in [samples.median(table, name, "cpu")] if value]
    if not bars:
        return None
    chart = Chart("tcp-cpu", "CPU time of the server for a get over TCP, 50 connections",
                  "microseconds of CPU time of the server's threads", "",
                  "Client and server share a CPU. What the kernel path does is in the client's "
                  "time, not here.")
    chart.bars(bars)
    return chart


def tcp_ratios(samples):
    """Of bench/tcp: the rate where it is open, p99 where it is fixed, in times Debian's."""
    bars = []
    for row in dict.fromkeys(key[0] for key in samples):
        if " KB" in row or " MB" in row:
            continue
        column, look = ("p99", "sr") if row.endswith(("/s", "%")) else ("rate", "in-place")
        ours, theirs = (samples[row, name, column] for name in ("ours", "debian"))
        value = over([a / b for a, b in zip(ours, theirs)])[0]
        bars.append((f"{row}: {column}", look, value, f"{value:.2f}"))
    if not bars:
        return None
    chart = Chart("tcp-ratios", "Sockets over TCP, without the kernel path",
                  "times Debian's memcached", "",
                  "On loopback, client and server on the same CPUs; medians of the rounds' ratios. "
                  "Of a rate (green) more is better, of a p99 at a fixed rate (blue) less.")
    chart.bars(bars)
    return chart


def mixes(samples):
    """Of studies/mix: what the server has left to do, where gets come over UDP, sets over TCP."""
    bars = []
    for work in ("paper", "etc", "usr", "twitter-52"):
        for name in ("in-place", "chain", "sr", "debian"):
            value = samples.median(work, "mixed", name, "most cpu")
            if value is not None:
                bars.append((f"{work}: {NAMES[name]}", name, value, f"{value:.2f}"))
    if not bars:
        return None
    chart = Chart("mix-cpu", "CPU time of a request in mixes of gets and sets",
                  "microseconds of CPU time of the server's threads", "",
                  "Gets over UDP and sets over TCP, 64 in flight. The paper's mix and ETC have 30 "
                  "gets to a set, USR 499, Twitter's cluster 52 has 16. The programs run on the "
                  "client's CPU here, and their time is not in it; nor is the stack's when it "
                  "receives.")
    chart.bars(bars)
    return chart


def memory(samples):
    """What an item takes beside its key and value, which has a step at each slab class."""
    measured = seen(samples, 2, "memory", 16)
    if not measured:
        return None
    chart = Chart("memory-by-size", "Memory of an item beside its key and value",
                  "bytes of a value", "bytes",
                  "16-byte keys: growth of the resident memory while as many items are stored in "
                  "each, for each item. The kernel path's memory grows by 8 MiB at a time, and "
                  "ahead of what is needed, which is in its figures.", "x")
    for name in ("sr", "in-place", "debian"):
        chart.series(NAMES[name], name, [
            (size, *over(samples.get(("memory", 16, size, name)))) for size in measured])
    chart.ticks([1, 4, 16, 64, 256, 1024])
    chart.axes.set_ylim(0)
    return chart


# What makes each plot, of which program's file.
PLOTS = [(keys, "run"), (floor_share, "run"), (sizes, "paper"), (cores, "paper"),
         (throughput, "paper"), (mix, "paper"),
         (split, "paper"), (latency, "run"), (figure10, "paper"),
         (load, "paper"), (load_paper, "paper"), (delay, "paper"), (system, "paper"),
         (transfer, "paper"), (halves, "paper"), (simulated, "paper"),
         (packets, "run"), (tcp, "run"), (tcp_ratios, "tcp"), (mixes, "mix"),
         (isolation, "isolate"), (memory, "memory")]
# The README's: of servers at real-time priority, so that other work on the machine shows little.
SHOWN = [(sizes, "paper"), (load, "paper"), (memory, "memory")]


def draw(saved, wanted=None):
    """Charts of all that the files have, and the names of what they lack."""
    charts, missing = [], []
    for make, bench in wanted or PLOTS:
        chart = None
        for each in saved:
            if each.head["bench"] == bench:
                chart = make(each.samples)
                if chart:
                    chart.note(where(each.head))
                    charts.append(chart)
                    break
        if not chart:
            missing.append((make.__name__, bench))
    return charts, missing
