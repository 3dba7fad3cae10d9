#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which layer includes which. The table of HACKING.md is the architecture."""
import os
import re
import sys

SRCDIR = os.environ.get("SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")



def allowed():
    """Layer -> the layers whose public headers its files may include, as the table of HACKING.md
    has them. Each may include itself."""
    with open(os.path.join(SRCDIR, "HACKING.md"), encoding="utf-8") as file:
        table = file.read().split("| layer | may include |\n|---|---|\n")[1].split("\n\n")[0]
    edges = {}
    for row in table.splitlines():
        layers, targets = (re.findall(r"(\w+)/?`?(?:,|$)", cell.strip())
                           for cell in row.strip("|").split("|"))
        base = set() if "bpf/" in row.split("|")[1] else {"base"}
        edges.update((layer, base - {layer} | set(targets)) for layer in layers)
    return edges


ALLOWED = allowed()
KERNEL_SIDE = {"packet", "answer", "udp", "tcp", "chain"}
# Layers whose headers are all public. Of another layer X, X/X.h and X/X_*.h are.
OPEN = {"base", "server", "process", "iface", "kmem", "splice", "bmc", "shared", "packet", "answer",
        "udp", "load", "attach", "trace"}
# Foreign headers -> the only folders that may include them.
FOREIGN = (
    (r"(event2/.*|event\.h)", {"net"}),
    (r"bpf/(libbpf|bpf|btf)\.h", {"load", "attach", "trace", "tests"}),
    (r"bpf/bpf_(helpers|endian|core_read|tracing)\.h",
     KERNEL_SIDE | {"load", "attach", "trace", "tests"}),
    (r"openssl/.*", {"net", "tests"}),
    (r"seccomp\.h", {"process"}),
    (r"sasl/.*", {"command"}),
)
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def sources():
    for folder in ("memcached", "bpf", "bmc", "bench", "t"):
        for where, _, names in os.walk(os.path.join(SRCDIR, folder)):
            for name in names:
                if name.endswith((".c", ".h")) and not name.endswith(".skel.h"):
                    yield os.path.relpath(os.path.join(where, name), SRCDIR)


def layer_of(path):
    parts = path.split("/")
    if parts[0] in ("t", "bench"):
        return "tests"
    if parts[0] == "bmc":
        return "bmc"
    if parts[0] == "bpf":
        return parts[1] if len(parts) == 3 else "bpf"
    if len(parts) == 2:
        return "main" if parts[1] == "main.c" else "server"
    return parts[1]


def resolve(path, name):
    """The repository's file that `name` in `path` refers to, or None."""
    for root in (os.path.dirname(path), "memcached", ""):
        candidate = os.path.normpath(os.path.join(root, name))
        if os.path.exists(os.path.join(SRCDIR, candidate)):
            return candidate
    return None


def is_public(path, layer):
    if layer in OPEN:
        return True
    return re.fullmatch(r"memcached/%s/%s(_[a-z]+)?\.h" % (layer, layer), path) is not None


def own_include(path, name):
    """The error of `#include "name"` in `path`, or None."""
    source = layer_of(path)
    if name == "config.h":
        return None
    if name.endswith(".skel.h"):
        return None if source in ("load", "attach", "trace", "tests") else "includes a skeleton"
    target_path = resolve(path, name)
    if target_path is None:
        return "the header does not exist"
    if "/" not in name and len(path.split("/")) > 2 and not path.startswith("t/"):
        return "the include path does not name the folder"
    target = layer_of(target_path)
    if source == target or source == "tests":
        return None
    if target not in ALLOWED[source]:
        return "%s must not include %s" % (source, target)
    return None if is_public(target_path, target) else "not a public header of %s" % target


def foreign_include(path, name):
    for pattern, folders in FOREIGN:
        if re.fullmatch(pattern, name) and layer_of(path) not in folders:
            return "only %s may include it" % " and ".join(sorted(folders))
    return None


def main():
    wrong, known = [], []
    for path in sources():
        with open(os.path.join(SRCDIR, path), encoding="utf-8") as file:
            text = file.read()
        known.append(layer_of(path))
        for quote, name in INCLUDE.findall(text):
            reason = (own_include if quote == '"' else foreign_include)(path, name)
            if reason:
                wrong.append("%s: %s: %s" % (path, name, reason))
    unknown = sorted({layer for layer in known} - set(ALLOWED) - {"tests"})
    empty = [layer for layer in ALLOWED if layer not in known]
    failed = 0
    for number, (name, problems) in enumerate((
            ("every include goes along an allowed edge to a public header", wrong),
            ("every folder of memcached/ and bpf/ is a layer of the table", unknown),
            ("every layer has files", empty)), 1):
        print("%sok %d - %s" % ("not " if problems else "", number, name))
        for problem in problems:
            print("# " + problem)
        failed += bool(problems)
    print("1..3")
    return 1 if failed else 0


sys.exit(main())
