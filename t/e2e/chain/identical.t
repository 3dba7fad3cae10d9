#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The chain answers with the bytes of the server that it stands in front of: see
t/lib/identical.py. Debian's gives each key of a get a datagram of its own, the chain one to all."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
import chain
import identical
import tap

each = chain.Each("-m", "256", threads=2, links=2, on=1)
for function in identical.ALL:
    each.case(function)


@each.case
def the_kernel_was_asked(m):
    answered = m.counts()["answered"]
    tap.ok(answered > 2000, "the kernel answered %d requests" % answered)


each.end()
tap.run()
