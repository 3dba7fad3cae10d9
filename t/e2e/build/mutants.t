#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""The tests that doc/security.md names notice when what they are about is missing: some of the
mutants of t/lib/threats.py, each day others; all with T_MUTANTS=all, those named with
T_MUTANTS="NAME...". `./check --all` runs all."""
import os

import broken
import server
import tap
import threats

PART = 3
EACH_SECONDS = broken.SECONDS + 60

if os.geteuid() != 0:
    tap.skip_all("needs root, which mounts, and loads kernel programs")
if not os.path.exists(os.path.join(broken.BUILDDIR, "bmc/bmc")):
    tap.skip_all("the tree is built without the kernel path")


def wanted():
    every = threats.every()
    names = os.environ.get("T_MUTANTS", "").split()
    if names == ["all"]:
        return every
    if names:
        return [mutant for mutant in every if mutant[0] in names]
    return tap.today([mutant for mutant in every if mutant[0] not in threats.SLOW], PART)


MUTANTS = wanted()


@tap.case
def each_is_noticed():
    place = os.path.join(server.scratch(), "place")
    os.makedirs(place)
    for name, _, *test in MUTANTS:
        try:
            what, seconds = broken.judge_apart(place, name)
        except broken.Error as error:
            what, seconds = "", 0
            tap.diag(error)
        tap.ok(what, "%s: %s notices it in %.0f s: %s" % (name, " ".join(test), seconds, what))


tap.run(len(MUTANTS) * EACH_SECONDS)
