#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""libmemcached's memccapable finds no failure in this server."""
import shutil
import subprocess

import server
import tap

PROGRAM = shutil.which("memccapable")
if not PROGRAM:
    tap.skip_all("no memccapable: apt-get install libmemcached-tools")

memcached = server.Server()


def capable(option, protocol):
    # Its status is 0 also when it could not connect, so the passed tests are counted. Its own
    # timeout of two seconds was too short on a busy machine.
    run = subprocess.run([PROGRAM, "-h", memcached.host, "-p", str(memcached.port), "-t", "60",
                          option],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=150,
                         check=False)
    lines = (run.stdout + run.stderr).splitlines()
    passed = [line for line in lines if line.startswith(protocol) and line.endswith("[pass]")]
    failed = [line for line in lines if "[FAIL]" in line or "failed" in line]
    tap.is_((run.returncode, failed), (0, []), "memccapable %s has no failure" % option)
    tap.ok(len(passed) >= 27,
           "memccapable passes %d tests of the %s protocol" % (len(passed), protocol))


@tap.case
def the_text_protocol():
    capable("-a", "ascii")


@tap.case
def the_binary_protocol():
    capable("-b", "binary")


tap.run()
