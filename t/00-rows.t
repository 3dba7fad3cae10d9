#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""t/rows.md says which test holds each clause of what memcached does, and doc/security.md which
shows each protection: those tests exist."""
import os
import re

import tap

SRCDIR = os.environ["SRCDIR"]

# A test as the table names it: `t/e2e/server/stats.t` and the case, or the file alone.
TEST = re.compile(r"`(t/[\w./-]+)`(?: (\w+))?")
CASE = {".t": r"(?m)^@(?:tap\.case(?:_if\(.*\))?|each(?:_mode|_family)?)\n(?:@.*\n)*def %s\(",
        ".c": r"(?m)^static void %s\((?:void|struct \w+ \*\w+)\)"}
COLUMNS = {"t/rows.md": 2, "doc/security.md": 3}


def read(path):
    with open(os.path.join(SRCDIR, path), encoding="utf-8") as file:
        return file.read()


def rows(path="t/rows.md"):
    """(line number, cells, clause, the cell of tests) of each row of the tables of a file."""
    for number, line in enumerate(read(path).splitlines(), 1):
        if not line.startswith("|") or set(line) <= set("|- "):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[-1] != "test":
            yield number, len(cells), cells[0], cells[-1]


def missing(tests):
    """The tests of a cell that do not exist."""
    found = TEST.findall(tests)
    wrong = [] if found else [tests or "no test"]
    for path, case in found:
        if not os.path.isfile(os.path.join(SRCDIR, path)):
            wrong.append(path)
        elif case and not re.search(CASE[os.path.splitext(path)[1]] % case, read(path)):
            wrong.append("%s %s" % (path, case))
    return wrong


def is_true(path, least):
    wrong, count = [], 0
    for number, ncells, clause, tests in rows(path):
        count += 1
        if ncells != COLUMNS[path]:
            wrong.append("line %d: %d cells" % (number, ncells))
        wrong += ["line %d, %s: %s" % (number, clause[:40], what) for what in missing(tests)]
    tap.ok(count > least, "%s has %d rows" % (path, count))
    tap.is_(wrong, [], "each names tests that exist")


@tap.case
def the_map_is_true():
    is_true("t/rows.md", 100)


@tap.case
def the_threat_model_is_true():
    is_true("doc/security.md", 30)


@tap.case
def no_test_is_forgotten():
    """A file of protocols that is missing in the map holds clauses that are not compared yet."""
    named = set(path for _, _, _, tests in rows() for path, _ in TEST.findall(tests))
    files = ["t/e2e/server/" + name
             for name in sorted(os.listdir(os.path.join(SRCDIR, "t", "e2e", "server")))]
    tap.is_([name for name in files if name not in named], [],
            "each file of t/e2e/server is in the map")


tap.run()
