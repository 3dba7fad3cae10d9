# SPDX-License-Identifier: BSD-3-Clause
"""cable: a server's machine and a client's with a third between them, in which t/tool/cable carries
the frames and treats them as a bad network does."""
import child
import guard
import kernel
import netns
import server
import tap


class Pair(netns.Pair):
    """A netns.Pair whose links lead through a cable. `faults` are options of t/tool/cable for each
    of them: A is the server's end, so that "--loss-ab" loses replies.

    On link i the middle has ms<i>, the peer of sv<i>, and mc<i>, the peer of cl<i>, both with a
    program that passes, so that XDP_TX works at either end. Offloads are off at all four ends."""

    def __init__(self, *faults, links=1, mtu=1500):
        self.faults, self.cables, self.middle = faults, [], None
        super().__init__(links, mtu)

    def _make_middle(self):
        self.middle = self.server[:-1] + "m"
        netns.ip("netns add %s" % self.middle)
        guard.add("netns", self.middle)
        with netns.inside(self.middle):
            # It says nothing itself.
            netns.disable_ipv6("default")

    def make(self, i, mtu):
        if not self.middle:
            self._make_middle()
        for side, (namespace, end, middle) in enumerate((
                (self.server, "sv%d" % i, "ms%d" % i), (self.client, "cl%d" % i, "mc%d" % i))):
            netns.sh("ip", "link", "add", end, "mtu", mtu, "address",
                     "02:4d:43:00:%02x:%02x" % (side + 1, 64 + i), "netns", namespace,
                     "type", "veth", "peer", "name", middle, "mtu", mtu, "netns", self.middle)
            netns.ip("link set %s up" % middle, self.middle)
            try:
                self.passes.append(netns.attach_pass(middle, self.middle))
            except OSError as error:
                tap.skip_all("no XDP program on a veth: %s" % error)
            # Attaching switches GRO on.
            netns.offloads_off(middle, self.middle)
            netns.offloads_off(end, namespace)
        self.passes.append(netns.attach_pass("cl%d" % i, self.client))
        netns.offloads_off("cl%d" % i, self.client)
        self.plug(i)

    def first_up(self, i):
        return [(self.middle, name % i) for name in ("ms%d", "mc%d")]

    def plug(self, i=0, *faults):
        """Begins to carry the frames of a link, with other faults than before if some are given."""
        words = ["nsenter", "--net=/run/netns/" + self.middle, kernel.beside("t/tool/cable")]
        words += list(faults or self.faults) + ["ms%d" % i, "mc%d" % i]
        cable = child.Child(words, "the cable")
        self.cables[i:] = [cable] + self.cables[i + 1:]
        if not server.wait_for(lambda: "ready" in cable.log() or not cable.alive()):
            raise RuntimeError("the cable is not ready: " + cable.log())
        cable.must_live()

    def unplug(self, i=0):
        """Ends it, and what it counted: {"ab": {"lost": 1, ...}, "ba": ...}."""
        cable, self.cables[i] = self.cables[i], None
        cable.stop()
        lines = [line.split() for line in cable.log().splitlines()]
        return {line[0]: {name: int(number) for name, number in zip(line[1::2], line[2::2])}
                for line in lines if line[0] in ("ab", "ba")}

    def close(self):
        for i, cable in enumerate(self.cables):
            if cable:
                self.unplug(i)
        super().close()
        netns.ip("netns del %s" % self.middle)
        guard.remove("netns", self.middle)
