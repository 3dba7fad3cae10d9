# SPDX-License-Identifier: BSD-3-Clause
"""again: other tests, run once more with further options for each of their servers."""
import os
import re
import subprocess
import sys

import tap

E2E = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e")


def _run(name, environment):
    return subprocess.run([sys.executable, os.path.join(E2E, name + ".t")],
                          env=dict(os.environ, **environment), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)


def all_pass(names, at_a_time=2, **environment):
    """The tests t/e2e/NAME.t pass with this in their environment, as T_ARGS="-o drop_privileges",
    unless it is in this one's: put the longest first. If one skips itself, so does this one."""
    if any(key.startswith("T_") and os.environ.get(key) for key in environment):
        return
    words = " ".join("%s=%s" % pair for pair in environment.items())
    for name, done in zip(names, tap.at_once(lambda name: _run(name, environment), names,
                                             at_a_time)):
        out = done.stdout.decode("latin-1")
        skipped = re.search(r"^1\.\.0 # SKIP (.*)", out, re.M)
        if skipped:
            tap.skip_all(skipped.group(1))
        wrong = re.findall(r"^not ok.*(?:\n#.*)*", out, re.M)
        if not tap.ok(done.returncode == 0 and not wrong, "%s passes with %s" % (name, words)):
            tap.diag("\n".join(wrong) or out[-1000:])
