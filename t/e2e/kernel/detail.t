#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""While stats detail is on, the kernel passes every request to the server."""

import kernel
import tap


@tap.case
def the_kernel_is_bypassed_while_detail_is_on():
    with kernel.Machines() as m:
        m.tcp.set(b"p:k", b"value")
        want = kernel.answer((b"p:k", b"value"))
        m.same(b"get p:k\r\n", want, "off: a hit")
        m.tcp.all(b"stats detail on\r\n")
        m.same(b"get p:k\r\n", want, "on: a hit", kernel=False)
        m.tcp.all(b"verbosity 2\r\nverbosity 0\r\n")
        m.same(b"get p:k\r\n", want, "on: still after verbosity was 2 for a time", kernel=False)
        tap.is_(m.tcp.all(b"stats detail dump\r\n"),
                b"PREFIX p get 2 hit 2 set 0 del 0\r\nEND\r\n", "every get is counted")
        m.tcp.all(b"stats detail off\r\n")
        m.same(b"get p:k\r\n", want, "off again: a hit")
        m.tcp.all(b"verbosity 2\r\nstats detail on\r\nstats detail off\r\n")
        m.same(b"get p:k\r\n", want, "verbosity 2, after detail was on for a time", kernel=False)
    with kernel.Machines("-D", ":") as m:
        m.tcp.set(b"p:k", b"value")
        m.same(b"get p:k\r\n", kernel.answer((b"p:k", b"value")), "-D: a hit", kernel=False)


tap.run()
