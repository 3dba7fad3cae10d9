#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""make install: everything that a package needs, below DESTDIR, and make uninstall."""
import os
import re
import subprocess

import server
import tap

BUILDDIR = os.path.abspath(os.environ.get("BUILDDIR", "."))
HAS_BMC = os.path.exists(os.path.join(BUILDDIR, "bmc/bmc"))


def make(*words):
    done = subprocess.run(["make", "-s", "-C", BUILDDIR, *words], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
    if done.returncode:
        tap.diag(done.stdout.decode("utf-8", "replace"))
    return done.returncode


def variable(name):
    """Of the configured Makefile, with its references followed."""
    with open(os.path.join(BUILDDIR, "Makefile"), encoding="utf-8") as file:
        values = dict(re.findall(r"^(\w+) = (.*)$", file.read(), re.M))
    value = values[name]
    while "$" in value:
        value = re.sub(r"\$[({](\w+)[)}]", lambda found: values[found.group(1)], value)
    return value


def files(root):
    return {os.path.relpath(os.path.join(parent, name), root)
            for parent, _, names in os.walk(root) for name in names}


@tap.case
def everything_is_below_destdir():
    root = os.path.join(server.scratch(), "root")
    prefix = variable("prefix")
    tap.is_(make("install", "DESTDIR=" + root), 0, "make install works")
    found = files(root)
    tap.is_([name for name in found if not ("/" + name).startswith(prefix + "/")], [],
            "all files are below DESTDIR and the prefix")
    below = {os.path.relpath("/" + name, prefix) for name in found}
    wanted = ["bin/memcached", "share/man/man1/memcached.1", "include/memcached/protocol_binary.h",
              "lib/systemd/system/memcached.service", "share/doc/memcachedsr/README.md",
              "share/doc/memcachedsr/doc/kernel-path/operate.md",
              "share/doc/memcachedsr/doc/figures/packet-path.svg",
              "share/memcached/scripts/memcached-tool"]
    if HAS_BMC:
        wanted += ["bin/bmc", "share/man/man1/bmc.1", "lib/systemd/system/bmc.service"]
    tap.is_([name for name in wanted if name not in below], [], "no part is missing")
    for name in sorted(below):
        if name.endswith(".service"):
            with open(os.path.join(root + prefix, name), encoding="utf-8") as file:
                text = file.read()
            program = re.search(r"^ExecStart=(\S+)", text, re.M).group(1)
            tap.ok(os.path.relpath(program, prefix) in below and "@bindir@" not in text,
                   "%s starts the installed program" % name)
    tap.is_(make("uninstall", "DESTDIR=" + root), 0, "make uninstall works")
    tap.is_(files(root), set(), "it leaves no file")


tap.run()
