#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Requests that the published BMC never answered: the chain answers them once it has seen the
server's reply."""

import answered
import chain
import tap

each = chain.Each(threads=1)
for function in answered.ALL:
    each.case(function)


@each.case
def every_request_id_and_port(m):
    answered.every_request_id_and_port(m, 16)


each.end()
tap.run()
