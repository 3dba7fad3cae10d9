# SPDX-License-Identifier: BSD-3-Clause
"""routed: a server's machine and a client's with a router between them, whose link to the client
can become narrower."""
import guard
import netns
import tap


class Pair(netns.Pair):
    """A netns.Pair with one link each to the router, which has last addresses of 3: rs0 is its end
    of the server's sv0, rc0 that of the client's cl0. The client is 10.78.0.2 and fd78::2.
    Offloads are off everywhere."""

    def add_link(self, i, mtu=1500):
        self.router = self.server[:-1] + "r"
        netns.ip("netns add %s" % self.router)
        guard.add("netns", self.router)
        netns.without_dad(self.router)
        netns.sh("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
                 namespace=self.router)
        self._join(self.server, "sv0", "rs0", 77, 1)
        self._join(self.client, "cl0", "rc0", 78, 2)
        try:
            self.passes.append(netns.attach_pass("rs0", self.router))
        except OSError as error:
            tap.skip_all("no XDP program on a veth: %s" % error)
        for namespace, ends in ((self.server, ("sv0",)), (self.router, ("rs0", "rc0")),
                                (self.client, ("cl0",))):
            for end in ends:
                netns.offloads_off(end, namespace)

    def _join(self, namespace, end, far, net, last):
        netns.ip("link add %s netns %s type veth peer name %s netns %s" %
                 (end, namespace, far, self.router))
        for where, which, number in ((namespace, end, last), (self.router, far, 3)):
            netns.ip("address add 10.%d.0.%d/24 dev %s" % (net, number, which), where)
            netns.ip("address add fd%d::%d/64 dev %s nodad" % (net, number, which), where)
            netns.ip("link set %s up" % which, where)
        netns.await_carrier((namespace, end))
        netns.ip("route add default via 10.%d.0.3" % net, namespace)
        netns.ip("-6 route add default via fd%d::3" % net, namespace)

    def address(self, i=0, v6=False):
        return "fd77::1" if v6 else "10.77.0.1"

    def narrow(self, mtu):
        """Both ends of the client's link take frames of this size at most from now on."""
        netns.ip("link set rc0 mtu %s" % mtu, self.router)
        netns.ip("link set cl0 mtu %s" % mtu, self.client)

    def close(self):
        super().close()
        netns.ip("netns del %s" % self.router)
        guard.remove("netns", self.router)
