#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The chain answers with the bytes of the server behind it: see t/lib/identical.py. Debian's
memcached sends a datagram for each key of a get, the chain one for all."""

import chain
import identical
import tap

each = chain.Each("-m", "256", threads=2, links=2, on=1)
for function in identical.ALL:
    each.case(function)


@each.case
def the_kernel_has_answered(m):
    answered = m.counts()["answered"]
    tap.ok(answered > 2000, "the kernel answered %d requests" % answered)


each.end()
tap.run()
