#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""t/linear/mutants: what it breaks is still in the sources, so that it can be run."""
import os
import sys

HERE = sys.path[0]
import mutants
import tap


@tap.case
def each_pattern_is_found():
    for name, change in mutants.changes():
        try:
            files = mutants.changed(os.path.join(HERE, ".."), *change)
            changed = any(before != after for _, before, after in files)
        except RuntimeError as error:
            changed = str(error)
        tap.is_(changed, True, "%s: %s" % (name, change[0]))


tap.run()
