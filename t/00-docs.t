#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The documents: what a link names exists, file and heading; one minimum kernel is stated; the
figures are what doc/figures/draw makes; files that the documents name are there."""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SRCDIR = os.path.abspath(os.environ.get("SRCDIR")
                         or os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(SRCDIR, "t", "lib"))
import tap

LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
# The oldest kernel on which the kernel path is tested: Debian 12's.
KERNEL = "6.1"
STATED = {
    "README.md": r"Linux (\d+\.\d+) or later on x86-64",
    "doc/kernel-path.md": r"It needs Linux (\d+\.\d+) or later",
    "doc/kernel-path/interfaces.md": r"## Kernels\n\nLinux (\d+\.\d+) or",
    "doc/memcached.1.in": r"It needs Linux (\d+\.\d+)",
    "doc/bmc.1": r"needs Linux (\d+\.\d+)",
    "bpf/loader/refusal.c": r"this kernel refuses [^;]*?Linux (\d+\.\d+)",
}

# A file as documents name it; what lies in memcached/ without that.
FILE = re.compile(r"`((?:t|bpf|memcached|doc|bench|packaging|tools|store|kcache|command|net|proto"
                  r"|process|options|flash|base|bmc)/[a-z0-9_./-]+\.\w+)`")


def read(path):
    with open(os.path.join(SRCDIR, path), encoding="utf-8") as file:
        return file.read()


def documents():
    found = ["README.md", "HACKING.md", "bench/README.md"]
    for where, _, names in os.walk(os.path.join(SRCDIR, "doc")):
        found += [os.path.relpath(os.path.join(where, name), SRCDIR) for name in names
                  if name.endswith(".md")]
    return sorted(found)


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
    tap.is_(sorted("%s: %s" % (path, file) for path, file in named
                   if not any(os.path.exists(os.path.join(SRCDIR, folder, file))
                              for folder in (".", "memcached", os.path.dirname(path)))), [],
            "all exist")


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
