#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""The protocols' own tests with a server whose TCP is all TLS."""
import again
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
    again.all_pass(["server/" + name for name in tap.some(AGAIN, 4)], T_TLS="1",
                   ASAN_OPTIONS="quarantine_size_mb=4")


tap.run(280)
