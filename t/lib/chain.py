# SPDX-License-Identifier: BSD-3-Clause
"""chain: a memcached behind the chain, reached over veth from this process.

FRONTS are the two programs that load the chain: `bmc` in front of Debian's memcached, and
`memcached -X bmc=...,mode=chain`. Both are kernel.Machines, whose tests run here as well: a request
is sent again until the kernel answers, and each of the answers has to be right.

BMC names the program; without it, bmc/bmc in BUILDDIR.
"""
import os
import subprocess

import child
import client
import differential
import kernel
import netns
import server
import tap

DEBIAN, OURS = "Debian's", "ours"
FRONTS = (DEBIAN, OURS)
TRIES = 4        # of one request, the last of which the kernel has to answer
AGE = 600000     # ms: no entry gets that old in a test that is not about its age
SETTLE = 50      # ms
START_SECONDS = 60


def needed():
    """Skips the test where the memcached for `bmc` is missing."""
    if not os.access(differential.PEER, os.X_OK):
        tap.skip_all("%s is missing: apt-get install memcached" % differential.PEER)


class Bmc(child.Child):
    """The program `bmc` in front of a server's port. options: of bmc, as max_age=200. wait:
    until bmc has started.
    """

    def __init__(self, interfaces, port, namespace, wait=True, **options):
        self.path = os.environ.get("BMC") or kernel.beside("bmc/bmc")
        self.interfaces, self.port, self.namespace = interfaces, port, namespace
        words = [",".join(interfaces), "--port", port]
        for name, value in options.items():
            words += ["--" + name.replace("_", "-"), value]
        super().__init__(self.words(*words), "bmc")
        if wait and not server.wait_for(self._ready, START_SECONDS):
            raise RuntimeError("bmc does not begin: " + self.log())

    def words(self, *words):
        return ["nsenter", "--net=/run/netns/" + self.namespace, self.path, *map(str, words)]

    def _ready(self):
        self.must_live()
        return all(netns.xdp_mode(i, self.namespace) for i in self.interfaces) and self.stats()

    def stats(self):
        """The rows of `bmc stats`; {}: bmc does not run."""
        done = subprocess.run(self.words("stats", "--port", self.port), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        rows = (line.split() for line in done.stdout.decode().splitlines())
        return {row[-2]: row[-1] for row in rows if len(row) in (2, 3)}


class Apart(client.Udp):
    """Debian's 1.6 sends a reply for each key of a get over UDP, and an empty datagram for a
    missing key. This class joins them.
    """

    def send(self, data, **frame):
        self.several = data.startswith(b"get") and len(data.split()) > 2
        return super().send(data, **frame)

    def recv_raw(self):
        while len(datagram := super().recv_raw()) == client.UDP_HEADER:
            pass
        return datagram

    def message(self, ident):
        text = super().message(ident)
        while self.several and not text.endswith(b"END\r\n") and b"ERROR" not in text:
            text += super().message(ident)
        return text


class Machines(kernel.Machines):
    """A server behind the chain. chain: options of the chain, as max_age=200; the server's as
    elsewhere."""

    MISSES = False
    VALUE_MAX = 1300
    WARM = 2
    SHARE = 0

    def __init__(self, front, *arguments, chain=None, on=None, links=1, words=(), **options):
        self.front, self.bmc = front, None
        self.NULS = front == OURS
        self.chain = dict({"max_age": AGE, "settle": SETTLE}, **(chain or {}))
        self.on = links if on is None else on
        if front == OURS:
            words = list(words) + ["%s=%d" % (name.replace("_", ""), value)
                                   for name, value in self.chain.items()]
        super().__init__(*arguments, links=links, on=self.on, words=words,
                         mode="chain", **options)

    def start(self):
        if self.front == OURS:
            super().start()
        else:
            self.serve()
            self.cover()
            self.tcp = self.server.stream()
            self.udp = None
        self.renew()
        with netns.inside(self.pair.server):
            self.control = client.tcp("127.0.0.1", self.server.port)
        self.ready()

    def keep_way(self):
        """The chain needs none."""

    def renew(self):
        """Another socket, which receives no late reply to the first."""
        if self.udp:
            self.udp.close()
        self.udp = (Apart if self.bmc else client.Udp)(self.server.host, self.server.port)

    def serve(self):
        """Starts a server, if it is Debian's."""
        self.server = differential.as_peer(server.Server, *self.arguments[2:], **self.options)

    def cover(self, wait=True):
        """Starts `bmc` in front of a server that is Debian's."""
        self.bmc = Bmc([self.pair.interface(i) for i in range(self.on)], self.server.port,
                       self.pair.server, wait, **self.chain)

    def stop(self):
        if self.bmc:
            self.bmc.stop()
        super().stop()

    def counts(self):
        """A get that the chain does not see."""
        rows = self.bmc.stats() if self.bmc else self.control.stats("bmc")
        counts = {key: int(value) for key, value in rows.items() if value.isdigit()}
        counts["answered"] = counts["answered_xdp"] + counts["answered_tc"]
        return counts

    def says(self, requests, seconds=0.3):
        """The kernel's answers alone: the server is stopped meanwhile. They end before the first
        request without an answer, None.
        """
        answers, late, patience = [], None, self.udp.sock.gettimeout()
        self.udp.sock.settimeout(seconds)
        self.server.pause()
        try:
            for request in requests:
                ident = self.udp.send(request)
                try:
                    answers.append(self.udp.message(ident))
                except TimeoutError:
                    answers.append(None)
                    late = ident
                    break
        finally:
            self.server.resume()
            self.udp.sock.settimeout(patience)
        if late is not None:
            self.udp.message(late)
        return answers

    def by_kernel(self, request):
        """(answer, whether the kernel gave it in the end). Answers that differ are all returned."""
        answers = []
        for _ in range(TRIES):
            answers += [self.udp.ask(request)] + self.says([request])
            if answers[-1] is not None:
                break
        said = [answer for answer in answers if answer is not None]
        return said[0] if len(set(said)) == 1 else said, answers[-1] is not None

    def holds(self, key, value):
        if value is None:
            return {self.udp.ask(b"get %s\r\n" % key) for _ in range(2)} == {b"END\r\n"}
        return super().holds(key, value)

    def answers(self, request, want, found=True):
        if not found:
            return {self.udp.ask(request) for _ in range(2)} == {want}
        return super().answers(request, want)

    def unwatched(self):
        return type(self.udp)(self.pair.address(1), self.server.port)

    def whole(self, udp, request, number):
        """Of Debian's only the text: it arrives in datagrams of other sizes."""
        if not self.bmc:
            return super().whole(udp, request, number)
        fresh = Apart(*udp.sock.getpeername()) # behind an error more replies may follow
        try:
            return fresh.message(fresh.send(request, ident=number))
        finally:
            fresh.close()

    def by_server(self, request):
        """While verbosity is 2 the kernel leaves requests to the server: not with the chain."""
        raise NotImplementedError

    def same(self, request, want, name, kernel=True):
        """Every answer is right, and the last is the kernel's (kernel=True), or none is."""
        who = "by the kernel" if kernel else "by the server"
        try:
            if kernel:
                answer, answered = self.by_kernel(request)
            else:
                answers, grown = self.during(lambda: {self.udp.ask(request) for _ in range(3)})
                answer = answers.pop() if len(answers) == 1 else answers
                answered = grown["answered"] > 0
        except (TimeoutError, client.FrameError) as error:
            answer, answered = repr(error), None
            self.renew()
        tap.is_((answer, answered), (want, kernel), "%s, %s" % (name, who))

    def ready(self):
        """Waits until the start is over: the kernel answers a get."""
        self.tcp.set(b"ready", b"1")
        if not server.wait_for(lambda: self.by_kernel(b"get ready\r\n")[1]):
            raise RuntimeError("the kernel answers no get: %s" % self.counts())


def on_each(function):
    """A case for each of FRONTS; the function gets the name."""
    for front in FRONTS:
        def on_front(front=front):
            function(front)
        on_front.__name__ = "%s_%s" % (function.__name__, front.split("'")[0].lower())
        tap.case(on_front)
    return function


class Each:
    """Cases that run behind each of FRONTS, on machines that all cases of a test share."""

    def __init__(self, *arguments, **options):
        needed()
        self.arguments, self.options, self.machines = arguments, options, {}

    def case(self, function):
        def on_front(front):
            if front not in self.machines:
                self.machines[front] = Machines(front, *self.arguments, **self.options)
            m = self.machines[front]
            netns.enter(m.pair.client)
            m.renew()
            function(m)

        on_front.__name__ = function.__name__
        return on_each(on_front)

    def end(self):
        @self.case
        def it_ends_cleanly(m):
            m.stop()
            tap.ok(True, "it ends with status 0")
