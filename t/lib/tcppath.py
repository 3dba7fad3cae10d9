# SPDX-License-Identifier: BSD-3-Clause
"""tcppath: a server with tcp=on behind any pair of machines, and connections on which the kernel
answers."""
import contextlib

import netns
import server
import tap

MISS = b"END\r\n"


@contextlib.contextmanager
def machines(pair, *words, options=(), mode="native", host=None):
    """A server with the kernel path, at its IPv4 address or at `host`; this process is on the
    client's machine."""
    bmc = ",".join(("bmc=" + pair.interface(), "tcp=on", "mode=" + mode) + words)
    with contextlib.closing(pair), netns.inside(pair.client), \
            server.Server("-m", 256, "-X", bmc, *options, namespace=pair.server,
                          host=host or pair.address(), listen="::" if host else "0.0.0.0") as m:
        yield m


def counts(m):
    rows = m.stream().stats("bmc")
    return {key: int(value) for key, value in rows.items() if key.startswith("tcp_")}


def ask(c):
    c.send(b"get nothing\r\n")
    return c.exactly(len(MISS))


def answered_on(m, n=3):
    """A connection on which the kernel has answered."""
    c = m.stream()
    c.sock.settimeout(10 * tap.SLOW)
    for _ in range(10):
        before = counts(m)["tcp_answered"]
        for _ in range(n):
            ask(c)
        if counts(m)["tcp_answered"] > before:
            return c
    tap.ok(False, "the kernel answers")
    return c
