#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The documents: what a link names exists, file and heading; one minimum kernel is stated; the
figures are what doc/figures/draw makes; files and functions that the documents name are there; the
sizes of maps and of their entries are those of the code."""
import math
import os
import re
import subprocess
import sys
import tempfile

import tap

SRCDIR = os.environ["SRCDIR"]

LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
# The oldest kernel on which the kernel path is tested: Debian 12's.
KERNEL = "6.1"
STATED = {
    "README.md": r"Linux (\d+\.\d+) or later on x86-64",
    "doc/kernel-path.md": r"It needs Linux (\d+\.\d+) or later",
    "doc/kernel-path/interfaces.md": r"## Kernels\n\nLinux (\d+\.\d+) or",
    "doc/memcached.1.in": r"It needs Linux (\d+\.\d+)",
    "doc/bmc.1": r"needs Linux (\d+\.\d+)",
    "bpf/load/refusal.c": r"this kernel refuses [^;]*?Linux (\d+\.\d+)",
}

# A file as documents name it; what lies in memcached/ without that.
FILE = re.compile(r"`((?:t|bpf|memcached|doc|bench|packaging|tools|store|kcache|command|net|proto"
                  r"|iface|kmem|splice|process|options|flash|base|bmc)/[a-z0-9_./-]+\.\w+)`")
# The same without a folder.
BARE = re.compile(r"`([a-z0-9_-]+(?:\.bpf)?\.(?:md|h|t|py))`")
# (`function`, file), and in tables: file `function`
PLACES = (re.compile(r"[(;]\s?`(?P<name>\w+)`,\s(?P<file>[a-z]+/[a-z0-9_./-]+\.[ch])"),
          re.compile(r"(?P<file>[a-z]+/[a-z0-9_./-]+\.[ch]) `(?P<name>\w+)`"))
# What states the size of a map: the pattern, and how many of its unit the constant has.
SIZES = {
    "doc/memcached.1.in": (r"of items, (\d+) MiB each, and of the table, (\d+) MiB", 1 << 20),
    "doc/kernel-path/reference.md": (r"of items, (\d+) MiB each, and of the table, (\d+) MiB",
                                     1 << 20),
    "doc/kernel-path/operate.md": (r"maps of (\d+) MiB each, the hash table in maps of (\d+) MiB",
                                   1 << 20),
    "bench/README.md": (r"whole extents \((\d+) MiB of items, (\d+) MiB", 1 << 20),
    "packaging/prometheus/dashboard.json": (r"(\d+) \* memcached_bmc_maps\{[^}]*items(?s:.*?)"
                                            r"(\d+) \* memcached_bmc_maps\{[^}]*table", 1),
}


def read(path):
    with open(os.path.join(SRCDIR, path), encoding="utf-8") as file:
        return file.read()


def tree():
    """The files of the source tree, without what is built."""
    for where, folders, names in os.walk(SRCDIR):
        if where == SRCDIR:
            folders[:] = [name for name in folders if not re.match(r"build|\.git$|autom4te", name)]
        yield from (os.path.relpath(os.path.join(where, name), SRCDIR) for name in names)


def documents():
    return sorted(path for path in tree() if path.endswith(".md"))


def found(path, file):
    """The files that `file` in the document `path` may mean."""
    folders = (".", "memcached", os.path.dirname(path))
    return [name for name in (os.path.normpath(os.path.join(folder, file)) for folder in folders)
            if os.path.exists(os.path.join(SRCDIR, name))]


def anchors(path):
    """The anchors that GitHub and GitLab make of the headings: small letters, dashes for blanks."""
    found = []
    for heading in re.findall(r"(?m)^#+ (.*)$", read(path)):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.lower())
        found.append(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


def broken(path):
    for target in LINK.findall(read(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(SRCDIR, file)):
            yield "%s: %s" % (path, target)
        elif anchor and anchor not in anchors(file):
            yield "%s: %s has no such heading" % (path, target)


@tap.case
def links_lead_somewhere():
    tap.is_([link for path in documents() for link in broken(path)], [], "every link has a target")


@tap.case
def files_are_there():
    named = {(path, file) for path in documents() for file in FILE.findall(read(path))}
    tap.ok(len(named) > 100, "%d files are named" % len(named))
    tap.is_(sorted("%s: %s" % (path, file) for path, file in named if not found(path, file)), [],
            "all exist")
    names = {os.path.basename(path) for path in tree()}
    tap.is_(sorted("%s: %s" % (path, file) for path in documents()
                   for file in BARE.findall(read(path)) if file not in names), [],
            "so do those that are named without a folder")


@tap.case
def functions_are_where_the_documents_say():
    named = {(path, place["name"], place["file"]) for path in documents() for form in PLACES
             for place in form.finditer(read(path))}
    tap.ok(len(named) > 10, "%d functions are named with their files" % len(named))
    tap.is_(sorted("%s: %s, %s" % (path, name, file) for path, name, file in named
                   if not any(re.search(r"\b%s\b" % name, read(where))
                              for where in found(path, file))), [], "all are there")


def constants_of(path):
    return {name: int(number) << int(shift or 0) for name, number, shift in
            re.findall(r"\b([A-Z]\w+) = (\d+)(?: << (\d+))?,", read(path))}


@tap.case
def maps_have_the_sizes_that_are_stated():
    constants = constants_of("bpf/shared/layout.h")
    items = constants["MC_EXTENT_PAGES"] * constants["MC_PAGE_BYTES"]
    for path, (pattern, unit) in SIZES.items():
        stated = re.search(pattern, read(path))
        tap.is_(stated and [int(size) * unit for size in stated.groups()],
                [items, constants["MC_TABLE_BUCKETS"] * 64], path)


@tap.case
def entries_have_the_sizes_that_are_stated():
    sizes, defaults = constants_of("bpf/shared/chain.h"), constants_of("memcached/kcache/chain.c")
    entry, medium, large = (sizes["CHAIN_WIRE"] + 64, sizes["CHAIN_MEDIUM"] + 16,
                            sizes["CHAIN_LARGE"] + 16)
    each = entry + medium / defaults["ENTRIES_A_MEDIUM"] + large / defaults["ENTRIES_A_LARGE"]
    stated = re.search(r"An entry takes (\d+)\s+bytes, a medium block (\d+), a large one ([\d,]+): "
                       r"by default (\d+) bytes for each entry, (\d+) MB", read("doc/chain.md"))
    tap.is_(stated and [int(size.replace(",", "")) for size in stated.groups()],
            [entry, medium, large, math.ceil(each), round(each * defaults["ENTRIES"] / 1e6)],
            "the chain's")
    tap.is_(re.findall(r"which waits or is followed: (\d+),", read("doc/kernel-path/tcp.md")),
            re.findall(r"sizeof\(struct mc_tcp_conn\) == (\d+)", read("bpf/shared/tcp.h")),
            "a connection's")


@tap.case
def counters_are_described_as_in_their_list():
    made = subprocess.run([os.path.join(SRCDIR, "doc/counters"), "--check"], capture_output=True,
                          text=True, check=False)
    tap.is_((made.returncode, made.stdout + made.stderr), (0, ""),
            "no document differs: doc/counters")


@tap.case
def one_kernel_is_the_oldest():
    for path, pattern in STATED.items():
        stated = re.search(pattern, read(path))
        tap.is_(stated and stated.group(1), KERNEL, path)


@tap.case
def figures_are_what_the_script_makes():
    folder = os.path.join(SRCDIR, "doc", "figures")
    kept = sorted(name for name in os.listdir(folder) if name.endswith(".svg"))
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([sys.executable, os.path.join(folder, "draw"), made], check=True)
        tap.is_(kept, sorted(os.listdir(made)), "the script makes all of them")
        tap.is_([name for name in kept if read(os.path.join(folder, name))
                 != read(os.path.join(made, name))], [], "none differs: doc/figures/draw")
    shown = "".join(read(path) for path in documents())
    tap.is_([name for name in kept if "figures/%s)" % name not in shown], [], "each is shown")


tap.run()
