#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""t/linear/mutants and t/e2e/build/mutants.t: what they break is still in the sources, so that they
can be run; and the latter break something of each row of doc/security.md about the kernel path."""
import os
import re
import sys

HERE = sys.path[0]
import mutants
import tap
import threats

# What a row's test must be for the row to concern the kernel path.
KERNEL = re.compile(r"`t/(?:bpf|e2e/kernel|e2e/chain)/")


def rows():
    """(What is relied on, the cell of tests) of each row of doc/security.md."""
    path = os.path.join(HERE, "..", "doc", "security.md")
    with open(path, encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if len(cells) == 3 and cells[2] != "test" and not set(line) <= set("|- \n"):
                yield cells[0], cells[2]


@tap.case
def each_pattern_is_found():
    for name, change in (*mutants.changes(), *threats.changes()):
        try:
            files = mutants.changed(os.path.join(HERE, ".."), *change)
            changed = any(before != after for _, before, after in files)
        except RuntimeError as error:
            changed = str(error)
        tap.is_(changed, True, "%s: %s" % (name, change[0]))


@tap.case
def each_is_of_a_row_that_names_its_test():
    names = [mutant[0] for mutant in threats.every()]
    tap.is_(sorted(set(names)), sorted(names), "each has a name of its own")
    tap.is_(threats.SLOW - set(names), set(), "those that take long are in the table")
    for begins, some in threats.ROWS:
        found = [tests for relied, tests in rows() if relied.startswith(begins)]
        tap.is_(len(found), 1, "one row begins: " + begins)
        for name, _, path, *cases in some:
            named = [case for case in re.findall(r"`%s`(?: (\w+))?" % re.escape(path),
                                                 "".join(found))]
            tap.ok("" in named or set(cases) & set(named),
                   "%s: the row names %s" % (name, " ".join((path, *cases))))


@tap.case
def each_row_of_the_kernel_path_has_one():
    begins = [row for row, _ in threats.ROWS] + list(threats.WITHOUT)
    tap.is_([relied for relied, tests in rows()
             if KERNEL.search(tests) and not relied.startswith(tuple(begins))], [],
            "each row that names a test of the kernel path has a mutant")


tap.run()
