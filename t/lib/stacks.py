# SPDX-License-Identifier: BSD-3-Clause
"""stacks: other TCP stacks than the kernel's, as clients: gVisor's netstack, lwIP and, among
all clients, smoltcp, which needs a newer Rust than Debian 12 has. Each is a program of t/clients
that has an address of its own on an interface; t/fetch builds them."""
import os
import subprocess

import child
import netns
import sessions
import tap

ADDRESS = "10.77.0.9" # of which no machine's own stack knows
CONNECTIONS = 8
HANG = 20 * tap.SLOW # seconds without a byte


def netstack():
    return os.path.join(sessions.go_program("netstack"), "session")


def smoltcp():
    return sessions.rust_program("smoltcp")


def lwip():
    tool = os.path.join(os.path.dirname(os.path.dirname(sessions.SOURCES)), "tools",
                        "debian-source")
    compiled = "cc -O1 -g -I. -Itree/src/include -o session session.c tree/src/core/*.c " \
        "tree/src/core/ipv4/*.c tree/src/netif/ethernet.c"
    return os.path.join(sessions.made("lwip", ("rm", "-rf", "tree"), (tool, "lwip", "tree"),
                                      ("sh", "-c", compiled)), "session")


ALL = (netstack, lwip, smoltcp) if sessions.ALL else (netstack, lwip)


class Running(child.Child):
    """Connections of such a client, which ask until they are told to end."""

    def __init__(self, program, m, *words, interface="cl0"):
        self.m = m
        with netns.inside(m.pair.client):
            super().__init__([program(), interface, ADDRESS, m.pair.address(), m.port, CONNECTIONS,
                              HANG, *words], program.__name__, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)

    def ends(self):
        """What it has counted, when each connection has what it has asked for."""
        out, _ = self.process.communicate(timeout=10 * HANG)
        self.wait()
        tap.diag(self.log())
        words = out.decode().split()
        return {name: int(number) for name, number in zip(words[::2], words[1::2])}
