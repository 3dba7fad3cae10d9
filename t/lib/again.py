# SPDX-License-Identifier: BSD-3-Clause
"""again: other tests, run once more with further options for each of their servers."""
import os
import re
import subprocess
import sys

import tap

E2E = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e")


def passes(name, options):
    """The test t/e2e/NAME.t passes with T_ARGS=options; if it skips itself, so does this one."""
    if os.environ.get("T_ARGS"):
        return
    done = subprocess.run([sys.executable, os.path.join(E2E, name + ".t")],
                          env=dict(os.environ, T_ARGS=options), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    out = done.stdout.decode("latin-1")
    skipped = re.search(r"^1\.\.0 # SKIP (.*)", out, re.M)
    if skipped:
        tap.skip_all(skipped.group(1))
    wrong = re.findall(r"^not ok.*(?:\n#.*)*", out, re.M)
    if not tap.ok(done.returncode == 0 and not wrong, "%s passes with %s" % (name, options)):
        tap.diag("\n".join(wrong) or out[-1000:])
