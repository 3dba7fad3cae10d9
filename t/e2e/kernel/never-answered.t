#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Requests that the published BMC never answered: the server and the kernel answer each of them."""

import answered
import kernel
import tap

m = kernel.Machines(threads=1)
tap.cases(m, *answered.ALL, answered.every_request_id_and_port)


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(True, "the server ends with status 0")


tap.run()
