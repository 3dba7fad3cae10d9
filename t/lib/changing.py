# SPDX-License-Identifier: BSD-3-Clause
"""changing: a server with the kernel path on a machine whose addresses and interfaces change."""
import json

import client
import kernel
import netns
import server
import tap

TRIES = 3 # of one request, none of which the kernel may answer
HIT = kernel.answer((b"k", b"v"))


class Changing(kernel.Machines):
    """The same machines, with `ip` and bpftool on the server's as methods."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.tcp.set(b"k", b"v")

    def ip(self, words):
        return netns.sh("ip", *words.split(), namespace=self.pair.server)

    def rows(self):
        return self.tcp.stats("bmc")

    def becomes(self, name, seconds=15, **rows):
        """`stats bmc` has this value after a while; "sv0:xdp" is written sv0__xdp."""
        want = {key.replace("__", ":"): str(value) for key, value in rows.items()}
        if not tap.ok(server.wait_for(lambda: want.items() <= self.rows().items(), seconds), name):
            tap.diag({key: self.rows().get(key) for key in want})
            tap.diag(self.server.log())

    def asked(self, host, name, kernel_answers=True):
        """Who answers a get to this address: the kernel, once the server has replied after the
        last change; the server each time; or neither.
        """
        def ask():
            udp = client.Udp(host, self.server.port, 3 if kernel_answers else 0.2)
            try:
                return udp.ask(b"get k\r\n")
            except (TimeoutError, ConnectionRefusedError, OSError):
                return None
            finally:
                udp.close()

        def answered():
            got, grown = self.during(ask)
            if got or not kernel_answers: # else the datagram was lost
                answers.add(got if kernel_answers else HIT)
            return grown["answered"] or not answers <= {HIT}

        answers = set()
        if kernel_answers:
            by_kernel = server.wait_for(answered)
        else:
            by_kernel = any([answered() for _ in range(TRIES)])
        tap.is_((answers, bool(by_kernel)), ({HIT}, kernel_answers), name)

    def logs(self, words, times, name):
        tap.is_(server.logged(self.server, words, times), times, name)

    def program(self, i=0):
        """The id of the server's XDP program on an interface."""
        return netns.link("sv%d" % i, self.pair.server)["xdp"]["prog"]["id"]

    def cut(self, program):
        """Detaches the link of a program, as an administrator would."""
        links = json.loads(netns.sh("bpftool", "-j", "link", "show"))
        for link in links:
            if link.get("prog_id") == program:
                netns.sh("bpftool", "link", "detach", "id", link["id"])
