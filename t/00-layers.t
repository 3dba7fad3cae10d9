#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Who includes whom. The table is the architecture; see HACKING.md."""
import os
import re
import sys

SRCDIR = os.environ.get("SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

# Layer -> the layers whose public header its files may include. Each may include itself.
ALLOWED = {
    "base": {"layout"},
    "proto": {"base"},
    "flash": {"base"},
    "store": {"base", "flash", "layout"},
    "command": {"base", "proto", "store", "layout"},
    "net": {"base", "command", "proto", "layout"},
    "kcache": {"base", "bpf", "layout"},
    "bpf": {"layout"},
    "server": {"base", "net", "command", "flash", "store", "kcache", "layout"},
    "main": {"base", "server"},
    "bmc": {"base", "kcache"},
}
LAYERS = ("base", "proto", "flash", "store", "command", "net", "kcache")
# Foreign headers -> the only folders that may know them.
FOREIGN = (
    (r"(event2/.*|event\.h)", {"net"}),
    (r"bpf/(libbpf|bpf|btf)\.h", {"bpf", "tests"}),
    (r"bpf/bpf_(helpers|endian|core_read|tracing)\.h", {"bpf", "tests"}),
    (r"openssl/.*", {"net"}),
    (r"seccomp\.h", {"server"}),
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
    if path == "bpf/layout.h":
        return "layout"
    if parts[0] in ("bpf", "bmc"):
        return parts[0]
    if len(parts) == 2:
        return "main" if parts[1] == "main.c" else "server"
    return parts[1]


def resolve(path, name):
    """The repository's file that `path` means by `name`, or None."""
    for root in (os.path.dirname(path), "memcached", ""):
        candidate = os.path.normpath(os.path.join(root, name))
        if os.path.exists(os.path.join(SRCDIR, candidate)):
            return candidate
    return None


def is_public(path, layer):
    if layer in ("base", "layout", "server", "bpf", "bmc"):
        return True
    return path == "memcached/%s/%s.h" % (layer, layer)


def own_include(path, name):
    """What is wrong with `#include "name"` in `path`, or None."""
    source = layer_of(path)
    if name == "config.h":
        return None
    if name.endswith(".skel.h"):
        return None if source in ("bpf", "tests") else "includes a skeleton"
    target_path = resolve(path, name)
    if target_path is None:
        return "no such header"
    if "/" not in name and len(path.split("/")) > 2 and not path.startswith("t/"):
        return "the include path does not name the folder"
    target = layer_of(target_path)
    if source == target or source == "tests":
        return None
    if target not in ALLOWED[source]:
        return "%s must not know %s" % (source, target)
    return None if is_public(target_path, target) else "not the public header of %s" % target


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
    strangers = sorted({layer for layer in known} - set(ALLOWED) - {"tests", "layout"})
    empty = [layer for layer in LAYERS if layer not in known]
    failed = 0
    for number, (name, problems) in enumerate((
            ("every include goes along an allowed edge to a public header", wrong),
            ("every folder of memcached/ is a layer that the table knows", strangers),
            ("every layer has files", empty)), 1):
        print("%sok %d - %s" % ("not " if problems else "", number, name))
        for problem in problems:
            print("# " + problem)
        failed += bool(problems)
    print("1..3")
    return 1 if failed else 0


sys.exit(main())
