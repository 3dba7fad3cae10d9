#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""The protocols' own tests with a server whose TCP is all TLS."""
import os
import re
import subprocess
import sys

HERE = sys.path[0]
import server
import tap
import tls

# The protocols, large values, pipelining, authentication.
AGAIN = """large-values auth-file sasl binary meta text-pipelining-noreply text-storage text-errors
text-retrieval""".split()

tls.needed()


@tap.case
def the_servers_use_tls():
    words, context = tls.everywhere()
    with server.Server(*words, context=context) as memcached:
        stats = memcached.stats("tls")
        tap.ok(stats["ssl_enabled"] == "yes" and int(stats["ssl_handshakes"]) > 0,
               "T_TLS makes the servers use TLS")


@tap.case
def the_other_tests_pass_over_tls():
    # A sanitizer keeps freed memory to detect its use: less than the tests of memory would notice.
    env = dict(os.environ, T_TLS="1", ASAN_OPTIONS="quarantine_size_mb=4")
    names = tap.some(AGAIN, 4)
    runs = tap.at_once(lambda name: subprocess.run(
        [sys.executable, os.path.join(HERE, name + ".t")], env=env, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False), names, 2)
    for name, done in zip(names, runs):
        wrong = re.findall(rb"^not ok.*(?:\n#.*)*", done.stdout, re.M)
        if not tap.ok(done.returncode == 0 and not wrong, "%s passes over TLS" % name):
            tap.diag(b"\n".join(wrong).decode("latin-1") or done.stdout[-1000:])


tap.run(280)
