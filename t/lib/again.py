# SPDX-License-Identifier: BSD-3-Clause
"""again: other tests, run once more with further options for each of their servers."""
import os
import re
import subprocess
import sys

import tap

E2E = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e")


def _run(name, options):
    return subprocess.run([sys.executable, os.path.join(E2E, name + ".t")],
                          env=dict(os.environ, T_ARGS=options), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)


def _judge(name, options, done):
    out = done.stdout.decode("latin-1")
    skipped = re.search(r"^1\.\.0 # SKIP (.*)", out, re.M)
    if skipped:
        tap.skip_all(skipped.group(1))
    wrong = re.findall(r"^not ok.*(?:\n#.*)*", out, re.M)
    if not tap.ok(done.returncode == 0 and not wrong, "%s passes with %s" % (name, options)):
        tap.diag("\n".join(wrong) or out[-1000:])


def passes(name, options):
    """The test t/e2e/NAME.t passes with T_ARGS=options. If it skips itself, so does this one."""
    if not os.environ.get("T_ARGS"):
        _judge(name, options, _run(name, options))


def all_pass(names, options):
    """The same for several tests, two of which run at a time: put the longest first."""
    if os.environ.get("T_ARGS"):
        return
    for name, done in zip(names, tap.at_once(lambda name: _run(name, options), names, 2)):
        _judge(name, options, done)
