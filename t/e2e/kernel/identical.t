#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kernel and server answer the same request with the same bytes: see t/lib/identical.py."""

import identical
import kernel
import tap

m = kernel.Machines("-m", "256", threads=2, links=2, on=1)
tap.cases(m, *identical.ALL)


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run()
