#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""bench/report and what it reads: the page needs no other file and has all series with all their
points, larger values are drawn higher; the README's plots are what it draws of what is kept."""
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import tap

SRCDIR = os.environ["SRCDIR"]
sys.path.insert(0, os.path.join(SRCDIR, "bench"))

try:
    import matplotlib
except ImportError:
    tap.skip_all("python3-matplotlib is missing: tools/packages --install check")
import plots
import progress
import saved

REPORT = os.path.join(SRCDIR, "bench", "report")
KEPT = os.path.join(SRCDIR, "doc", "figures", "measured")
SVG = "{http://www.w3.org/2000/svg}"
HEAD = {"format": 1, "command": "bench/x", "date": "2026-11-24T02:00:00Z", "commit": "0123456",
        "machine": {"cpu": "A & B <CPU>", "cpus": 2, "linux": "6.18.44-x"}, "load": 3.0,
        "seconds": 61.0, "rounds": 3}
KERNEL = {1: 5000000, 1000: 4000000, 100000: 2500000, 1000000: 1700000}
DELAYS = {0: 5000000, 100: 2800000, 500: 1300000, 2000: 400000}
SIZES = {8: 4000000, 32: 3900000, 1000: 1900000, 8192: 40000}
# How often Debian's answers what comes, by thousands of requests a second.
LOADS = {50: 50000, 100: 99000, 200: 150000}


def around(value):
    """Three rounds' values, whose median it is."""
    return [value * 0.9, value, value * 1.2]


def of_run():
    """Samples of bench/run, and the values that the plot by keys must have."""
    samples = {("live", "floor", "rate"): around(6000000),
               ("live", "Debian's memcached, 1,000 keys", "rate"): around(200000),
               ("live", "Debian's memcached, 100,000 keys", "rate"): around(180000),
               ("packet", "hit 16/32", "times"): around(1.6),
               ("packet", "chain, hit 16/32", "times"): around(1.9),
               ("tcp gets, 50 connections", "on", "cpu"): around(0.13),
               ("tcp gets, 50 connections", "debian", "cpu"): around(7.8)}
    for count, rate in KERNEL.items():
        row = "kernel hits, %s" % dict(plots.COUNTS)[count]
        samples["live", row, "rate"] = around(rate)
    for row, factor in (("kernel hits, 1,000 keys", 1), ("Debian's memcached", 8)):
        for share in (0.01, 0.5, 0.9, 0.99, 0.999, 1.0):
            samples["latency", row, share] = around(factor * 5 / (1.01 - share))
    return samples


def of_paper():
    samples = {}
    for place, name in enumerate(("in-place", "chain", "sr", "debian")):
        for cpus in (1, 2):
            samples[3, cpus, name, "rate"] = around(cpus * 1000000 / (place + 1))
            samples[3, cpus, name, "system"] = around(0.7)
        for size, rate in SIZES.items():
            samples["sizes", size, name, "rate"] = around(rate / (place + 1))
        for percent in (0, 50, 100):
            samples[8, "apart", percent, name, "rate"] = around(1e5 + 1000 * percent / 2 ** place)
        for load, answered in LOADS.items():
            samples[15, name, load, "sent"] = around(1000 * load)
            samples[15, name, load, "answered"] = around(answered)
            samples[15, name, load, "server"] = around(load / 300)
            samples[15, name, load, "programs"] = around(0.01)
        samples[6, "apart", "1,000,000 keys by Zipf", name, "rate"] = around(3000000 / (place + 1))
    samples[6, "apart", "1,000,000 keys by Zipf", "vanilla", "rate"] = around(300000)
    for delay, rate in DELAYS.items():
        samples[11, delay, "rate"] = around(rate)
    for percent, rate in ((0, 200000), (0.1, 250000), (25.0, 2500000)):
        samples[9, percent, "rate"] = around(rate)
    samples[11, "in-place", "rate"] = around(4400000)
    for place, name in enumerate(("in-place", "sr")):
        for load in (0, 100, 500):
            samples[12, name, load, "seconds"] = around(20 + load * place / 10)
        for cpus in (1, 2):
            samples[14, cpus, name, "rate"] = around(100000 * cpus / (place + 1))
    for cpus, rate in ((1, 100000), (2, 0)): # of which a logarithmic axis shows one
        samples[14, cpus, "in-place-tcp", "rate"] = around(rate)
    for setting, share in (("BMC's caches", 0.62), ("in place, 10 GB", 0.9)):
        for how in ("gets", "refill"):
            samples["table3", setting, how, "kernel"] = around(share)
    samples["table3", "check", "server"] = around(0.8)
    for row in ("in place: hit", "Debian's memcached: hit"):
        for share in (0.5, 0.99, 1.0):
            samples[10, row, share] = around(9 / (1.01 - share))
    return samples


def of_isolate():
    return {("udp", times, way, "idle", "gets", "p99"): around(100 * (times + 1) * factor)
            for times in (0, 1, 10) for way, factor in (("no kernel path, in turn", 20),
                                                        ("kernel path, in turn", 1))}


def of_tcp():
    return {(row, name, column): around(factor * value)
            for row in ("get, 1 connection, one at a time", "get, 50 connections, 40,000 /s")
            for name, factor in (("ours", 1), ("debian", 2))
            for column, value in (("rate", 40000), ("p99", 150), ("cpu", 7))}


def of_mix():
    return {(work, over, name, column): around(value)
            for work in ("paper", "etc", "usr-misses") for over in ("mixed", "udp")
            for name, value in (("in-place", 0.4), ("sr", 5), ("debian", 7))
            for column in ("rate", "most cpu")}


def of_memory():
    return {("memory", key, size, name): around(60 + size / 10 + 10 * place)
            for key in (16, 30) for size in (1, 8, 64, 1024)
            for place, name in enumerate(("sr", "in-place", "debian"))}


def write(folder, bench, samples):
    path = os.path.join(folder, bench + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(HEAD, bench=bench, samples=[{"key": key, "values": values}
                                                   for key, values in samples.items()]), file)
    return path


def report(*words):
    return subprocess.run([REPORT, *words], check=False, text=True, capture_output=True)


def loads_of(tree):
    """What a browser would fetch: references that do not lead into the file itself."""
    found = []
    for element in tree.iter():
        for name, value in element.attrib.items():
            if re.sub("{.*}", "", name) in ("href", "src", "srcset", "data", "action") \
                    and not value.startswith("#"):
                found.append("%s=%s" % (name, value))
            found += [url for url in re.findall(r"url\(([^)]*)\)", value) if url[0] != "#"]
        if element.tag.endswith(("style", "script")):
            found += re.findall(r"@import.*|url\([^#].*", element.text or "")
        if element.tag.split("}")[-1] in ("script", "link", "iframe", "object", "image", "img"):
            found.append(element.tag)
    return found


def series(tree):
    """The marks of each line, as the file has them: [(x, y)], y downwards; none of a bar."""
    found = {}
    for group in tree.iter(SVG + "g"):
        place = group.get("id", "").find("series-")
        if place >= 0:
            found[group.get("id")[place + 7:]] = [(float(mark.get("x")), float(mark.get("y")))
                                                  for mark in group.iter(SVG + "use")]
    return found


TICK = r"(^|(?<= ))[\d.]+( [kM])? " # another release may have one more


def texts(tree):
    return " ".join("".join(element.itertext()) for element in tree.iter(SVG + "text"))


EXPECTED = {
    "rate-by-keys": {"floor": 4, "kernel-path-hits": 4, "debian-s-memcached": 2},
    "share-of-floor": {"kernel-path-hits": 4, "nicached-another-machine": 1},
    "rate-by-size": {"in-place": 4, "chain-before-this-server": 4, "no-kernel-path": 4,
                     "debian-s-memcached": 4, "nicached-another-machine": 1,
                     "flying-memcache-most-another-machine": 2},
    "rate-by-cores": {"in-place": 2, "debian-s-memcached": 2, "bmc-another-machine": 2,
                      "bmc-s-memcachedsr-another-machine": 2, "bmc-s-vanilla-another-machine": 2},
    "figure-6": {"in-place": 0, "no-kernel-path-one-socket": 0, "bmc-8-cores-another-machine": 0},
    "figure-8": {"in-place": 3, "chain-before-this-server": 3,
                 "bmc-over-memcachedsr-another-machine": 3},
    "figure-9": {"chain-before-this-server": 2, "bmc-another-machine": 2},
    "latency": {"kernel-path": 4, "debian-s-memcached": 4},
    "figure-10": {"in-place": 2, "debian-s-memcached": 2, "bmc-hit-another-machine": 1},
    "cpu-by-load": {"in-place": 2, "debian-s-memcached": 2}, # at 200 Debian's cannot take all
    "cpu-a-request": {"in-place": 0, "debian-s-memcached": 0,
                      "bmc-half-over-tcp-another-machine": 0},
    "figure-11": {"dummy-cache": 4, "in-place-hits": 2, "bmc-s-dummy-another-machine": 2},
    "figure-2": {"no-kernel-path": 2, "bmc-s-vanilla-another-machine": 2},
    "figure-12": {"in-place": 3, "no-kernel-path": 3},
    "figure-14": {"in-place": 2, "in-place-tcp-on": 1, "no-kernel-path": 2,
                  "bmc-another-machine": 1, "seastar-another-machine": 1},
    "table-3": {"bmc-s-caches": 0, "in-place-10-gb-refilled": 0,
                "bmc-measured-another-machine": 0},
    "isolation": {"no-kernel-path-in-turn": 3, "kernel-path-in-turn": 3},
    "one-packet": {"kernel-path-hit-16-32": 0, "chain-hit-16-32": 0},
    "tcp-ratios": {"get-1-connection-one-at-a-time-rate": 0,
                   "get-50-connections-40-000-s-p99": 0},
    "tcp-cpu": {"kernel-path-tcp-on": 0, "debian-s-memcached": 0},
    "mix-cpu": {"paper-in-place": 0, "etc-debian-s-memcached": 0},
    "memory-by-size": {"no-kernel-path": 4, "in-place": 4, "debian-s-memcached": 4},
}


def check_plot(name, tree):
    lines = series(tree)
    tap.is_({label: len(lines.get(label, "none")) for label in EXPECTED[name]}, EXPECTED[name],
            "%s has each series with each of its points" % name)
    tap.is_(loads_of(tree), [], "%s loads nothing" % name)
    words = re.sub(r"[^a-z0-9]+", "-", texts(tree).lower())
    tap.is_([label for label in EXPECTED[name] if label not in words], [],
            "%s names them" % name)


@tap.case
def draws_what_is_saved():
    with tempfile.TemporaryDirectory() as folder:
        done = report(write(folder, "run", of_run()), write(folder, "paper", of_paper()),
                      write(folder, "tcp", of_tcp()), write(folder, "mix", of_mix()),
                      write(folder, "isolate", of_isolate()),
                      write(folder, "memory", of_memory()),
                      "--out", os.path.join(folder, "out"))
        tap.is_((done.returncode, done.stderr), (0, ""), "bench/report draws saved files")
        made = os.path.join(folder, "out")
        tap.is_(sorted(os.listdir(made)), sorted([name + ".svg" for name in EXPECTED]
                                                 + ["index.html"]), "a page and all plots")
        trees = {name: ElementTree.parse(os.path.join(made, name + ".svg")) for name in EXPECTED}
        for name, tree in trees.items():
            check_plot(name, tree)
        heights = [y for _, y in series(trees["rate-by-keys"])["kernel-path-hits"]]
        tap.is_(heights, sorted(set(heights)), "lower rates are drawn lower")
        with open(os.path.join(made, "index.html"), encoding="utf-8") as file:
            page = file.read()
    check_page(page)


def check_page(page):
    tree = ElementTree.fromstring(page.replace("<!DOCTYPE html>", "", 1))
    tap.is_(loads_of(tree), [], "the page loads nothing")
    tap.is_(len(list(tree.iter(SVG + "svg"))), len(EXPECTED), "it has all plots")
    names = [element.get("id") for element in tree.iter() if element.get("id")]
    tap.is_(len(names), len(set(names)), "no id is there twice")
    targets = [element.get("href")[1:] for element in tree.iter("a")]
    tap.is_(sorted(targets), sorted(EXPECTED), "its links lead to the plots")
    tap.like(page, r"A &amp; B &lt;CPU&gt;, 2 CPUs, Linux 6\.18\.44, 2026-11-24, commit 0123456",
             "it says where that was measured")
    tap.like(page, "The machine was busy", "and that the machine was busy")
    tap.like(page, r"BMC \(Ghigoff et al., NSDI 2021\), section 5\.2, figure 6",
             "it says where papers' points are from")
    tap.like(page, "<td>kernel path, hits</td><td>1,000</td><td>20</td>",
             "a table has the numbers")


@tap.case
def says_what_is_wrong():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "old.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump([["live", "floor", "rate", [1]]], file)
        done = report(path, "--out", folder)
    tap.is_(done.returncode, 1, "a file of another shape is refused")
    tap.is_(done.stderr, "bench/report: %s: not what a bench's --json has written\n" % path,
            "by name")


@tap.case
def saves_and_loads():
    samples = {("live", "floor", "rate"): [1.5, 2.0], (3, 2, "sr", "rate"): [7.0],
               ("latency", "floor", 0.99): [6.25]}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.json")
        saved.Run("paper").save(path, 2, samples)
        head, loaded = saved.load(path)
    tap.is_(dict(loaded), samples, "what is saved is what is loaded, keys and values")
    tap.is_((head["bench"], head["rounds"], head["machine"]["cpus"]), ("paper", 2, os.cpu_count()),
            "with program, rounds and machine")


@tap.case
def tells_progress():
    clock, out = [100.0], io.StringIO()
    shown = progress.Progress("paper", out, lambda: clock[0])
    shown.expect(10)
    for _ in range(10):
        clock[0] += 10
        shown.step("row")
    tap.is_(out.getvalue().splitlines(), [
        "paper: %d of 10 (%d0%%), %s gone, about %s left: row" % (done, done, gone, left)
        for done, gone, left in ((2, "20 s", "1 min 20 s"), (4, "40 s", "1 min 00 s"),
                                 (6, "1 min 00 s", "40 s"), (8, "1 min 20 s", "20 s"),
                                 (10, "1 min 40 s", "0 s"))],
            "a line now and then says how far it is and what is left")


def same(kept, made):
    """Alike but for the last digits of coordinates, which another processor may round otherwise."""
    number = r"-?\d+\.\d+"
    far = [(a, b) for a, b in zip(re.findall(number, kept), re.findall(number, made))
           if abs(float(a) - float(b)) > 0.01]
    return re.sub(number, "#", kept) == re.sub(number, "#", made) and not far


@tap.case
def readme_shows_what_was_measured():
    files = sorted(name for name in os.listdir(KEPT) if name.endswith(".json"))
    tap.is_(files, ["memory.json", "paper.json"], "what was measured is kept")
    charts, missing = plots.draw([saved.load(os.path.join(KEPT, name)) for name in files],
                                 plots.SHOWN)
    tap.is_(missing, [], "all that is shown")
    charts = {chart.name: chart for chart in charts}
    with open(os.path.join(SRCDIR, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    tap.is_(sorted(name for name in os.listdir(KEPT) if name.endswith(".svg")),
            sorted(name + ".svg" for name in charts), "and the plots that are shown")
    for name in charts:
        with open(os.path.join(KEPT, name + ".svg"), encoding="utf-8") as file:
            kept = file.read()
        tree, made = ElementTree.fromstring(kept), ElementTree.fromstring(charts[name].svg())
        tap.is_(*(re.sub(TICK, "", texts(each)) for each in (tree, made)),
                "%s has the texts that bench/report draws" % name)
        tap.is_({label: len(points) for label, points in series(tree).items()},
                {label: len(points) for label, points in series(made).items()}, "and its points")
        if matplotlib.__version__.startswith("3.6."): # another release may lay it out otherwise
            tap.ok(same(kept, charts[name].svg()), "and is what it draws: bench/report --readme")
        tap.like(readme, r"\(doc/figures/measured/%s\.svg\)" % name, "the README shows it")


tap.run()
