# SPDX-License-Identifier: BSD-3-Clause
"""cards: a server's machine and a client's with a cable between two network cards.

For the machines of t/kernels/run, which have the cards of t/kernels/nics.
"""
import json
import os

import netns
import server

OUTSIDE = "outside" # the namespace of the cards that no pair uses


def cables():
    """The names in t/kernels/nics, in the file's order."""
    with open(os.path.join(os.environ["SRCDIR"], "t/kernels/nics"), encoding="ascii") as file:
        return [line.split()[0] for line in file if not line.startswith("#")]


def has_driver(cable):
    """Whether this kernel drives the cards of a cable."""
    mac = "02:4d:43:00:%02x:01" % (cables().index(cable) + 1)
    return any(row["address"] == mac for row in json.loads(netns.ip("-json link")))


class Pair(netns.Pair):
    """Two machines. Their first link is a cable between network cards, others are veths."""

    def __init__(self, cable, links=1, mtu=1500):
        self.number = cables().index(cable) + 1
        if not os.path.exists("/run/netns/" + OUTSIDE):
            netns.ip("netns attach %s %s" % (OUTSIDE, os.getpid()))
        super().__init__(links, mtu)

    def add_link(self, i, mtu=1500):
        if i:
            super().add_link(i)
            return
        for end, namespace, name in ((1, self.server, "sv0"), (2, self.client, "cl0")):
            mac = "02:4d:43:00:%02x:%02x" % (self.number, end)
            self.take(mac, namespace, name)
            for words in (("link", "set", name, "mtu", mtu, "up"),
                          ("address", "add", "10.77.0.%d/24" % end, "dev", name),
                          ("address", "add", "fd77:0::%d/64" % end, "dev", name, "nodad")):
                netns.sh("ip", *words, namespace=namespace)
        for namespace, name in ((self.server, "sv0"), (self.client, "cl0")):
            if not server.wait_for(lambda at=(namespace, name): self.has_carrier(*at)):
                raise RuntimeError("%s has no carrier" % name)

    @staticmethod
    def has_carrier(namespace, name):
        """e1000e takes seconds to find that its cable is there."""
        link, = json.loads(netns.ip("-json link show %s" % name, namespace))
        return "LOWER_UP" in link["flags"]

    @staticmethod
    def take(mac, namespace, name):
        cards = json.loads(netns.ip("-json link", OUTSIDE))
        card = next(row["ifname"] for row in cards if row["address"] == mac)
        netns.ip("link set %s netns %s name %s" % (card, namespace, name), OUTSIDE)

    def close(self):
        for end, namespace, name in ((1, self.server, "sv0"), (2, self.client, "cl0")):
            netns.ip("link set %s netns %s name card%d.%d" %
                     (name, OUTSIDE, self.number, end), namespace)
        netns.enter(OUTSIDE)
        super().close()
