#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""What is not used goes: an include of which no name is used, a parameter that no type of function
demands, an enumerator that only a table of texts has."""
import collections
import os
import re
import subprocess

import tap

SRCDIR = os.environ["SRCDIR"]
# Parts of one program, and a header for all of its folder.
SHARED = (".bpf.c", "internal.h")
# Its rows are enumerators of the headers that include it.
COUNTERS = "bpf/shared/counters.def"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def sources(*folders):
    """path -> its text."""
    found = {}
    for folder in folders:
        for where, _, names in os.walk(os.path.join(SRCDIR, folder)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def")) and not name.endswith(".skel.h"):
                    path = os.path.join(where, name)
                    with open(path, encoding="utf-8") as file:
                        found[os.path.relpath(path, SRCDIR)] = file.read()
    return found


def bare(text):
    """Code without preprocessor lines, comments and the contents of literals."""
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                  lambda m: '"' if m.group()[0] == '"' else " ", text, flags=re.S)
    return re.sub(r"(?m)^\s*#\s*include.*$", "", text)


TEXTS = sources("memcached", "bpf", "bmc")
CODE = {path: bare(text) for path, text in TEXTS.items()}
EVERY = [*CODE.values(), *map(bare, sources("t", "bench").values())]


def declared():
    """path -> (the names that it declares, members of structs, enumerators)"""
    names = collections.defaultdict(lambda: (set(), set(), set()))
    command = ["ctags", "-x", "--languages=C", "--langmap=C:.c.h.def", "--kinds-C=+px",
               "--_xformat=%F\t%K\t%N", *TEXTS]
    rows = subprocess.run(command, cwd=SRCDIR, capture_output=True, text=True, check=True).stdout
    for row in rows.splitlines():
        path, kind, name = row.split("\t")
        names[path][kind == "member"].add(name)
        if kind == "enumerator":
            names[path][2].add(name)
    rows = set(re.findall(r"\bROW\((\w+)", CODE[COUNTERS]))
    for path, code in CODE.items():
        if "(COUNTER_CONSTANT)" in code:
            names[path][0].update(rows)
        if path.endswith(".h"):  # ctags misses declarations by a type of function
            for line in re.findall(r"(?m)^[a-z][^;{}()]*;", code):
                names[path][0].update(re.findall(r"\b(\w+)\s*(?=[,;\[=])", line))
    return names


DECLARED = declared()


def resolve(path, name):
    roots = (os.path.dirname(path), "memcached", "")
    files = (os.path.normpath(os.path.join(root, name)) for root in roots)
    return next((file for file in files if file in TEXTS), None)


def stem(path):
    return os.path.basename(path).split(".")[0]


# What a file includes by a condition it passes on.
CHOICES = {path: [resolve(path, name) for name in
                  re.findall(r'(?m)^#\s*(?:if|el).*\n#\s*include\s+"([^"]+)"', text)]
           for path, text in TEXTS.items()}


def declared_by(header):
    parts = [header, *filter(None, CHOICES[header])]
    return [set().union(*(DECLARED[part][i] for part in parts)) for i in (0, 1)]


def unused_includes(path):
    """A source's own header is no such; see SHARED."""
    words = set(re.findall(r"\w+", CODE[path]))
    members = set(re.findall(r"(?:\.|->)\s*(\w+)", CODE[path]))
    for name in INCLUDE.findall(TEXTS[path]):
        header = resolve(path, name)
        if not header or (path.endswith(".c") and stem(header) == stem(path)) or \
                header in CHOICES[path]:
            continue
        names, fields = declared_by(header)
        if names and not names & words and not fields & members:
            yield "%s: %s" % (path, name)


def counted(pattern):
    return collections.Counter(word for code in EVERY for word in re.findall(pattern, code))


WORDS = counted(r"\w+")
VALUES = counted(r"\b(\w+)\b(?!\s*\()")  # not called: a function whose address is taken
TEXT_ROWS = counted(r'[\s{,]\[(\w+)\]\s*=\s*"')


def unused_parameters(path):
    for start in re.finditer(r"(?m)^\{$", CODE[path]):
        head = CODE[path][:start.start()].rstrip().rsplit("\n\n", 1)[-1].rsplit("}\n", 1)[-1]
        head = re.sub(r"__attribute__\(\(.*?\)\)+", "", head)
        name = re.search(r"(\w+)\(", head)
        body = CODE[path][start.end():CODE[path].find("\n}", start.end())]
        for word in re.findall(r"\(void\)(\w+);", body):
            if name and not VALUES[name.group(1)] and re.search(r"\b%s\b" % word, head):
                yield "%s: %s of %s" % (path, word, name.group(1))


def unused_enumerators(path):
    return ["%s: %s" % (path, name) for name in sorted(DECLARED[path][2])
            if WORDS[name] - TEXT_ROWS[name] <= 1]


@tap.case
def includes():
    tap.is_([line for path in TEXTS if not path.endswith(SHARED)
             for line in unused_includes(path)], [], "of each include a name is used")


@tap.case
def parameters():
    stubs = re.compile(r"none\.c$|/lock\.h$")
    tap.is_([line for path in TEXTS if not stubs.search(path)
             for line in unused_parameters(path)], [], "each parameter is used, or a type's")


@tap.case
def enumerators():
    tap.is_([line for path in TEXTS for line in unused_enumerators(path)], [],
            "each enumerator is used")


tap.run()
