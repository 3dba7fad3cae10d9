# SPDX-License-Identifier: BSD-3-Clause
"""kernel: a server with the kernel path, reached over veth from this process.

The test's process moves into the client's namespace, so that its sockets are the client's. The
counters of `stats bmc` show who answered.
"""
import contextlib
import os
import time

import client
import netns
import server
import tap

TRIES = 3 # of one request
PAUSES = (0,) * TRIES + (0.02,) * 100 # before each: a thread may be interrupted for that long
KEPT = 20 # seconds, far below those for which the kernel knows a return path
# Why the kernel may leave one request to the server at any time, whatever it is: the reply that
# tells the return path is too old, a thread of the server was interrupted while it changed the
# bucket, or this machine did not run the server.
MOMENTARY = ("pass_way", "pass_busy", "pass_stopped")


def is_built():
    """Whether the server has the kernel path, which configure may leave out."""
    with open(server.program(), "rb") as file:
        return b"configured with --disable-bmc" not in file.read()



class Machines:
    """Two machines, the server on one, this process on the other. links: veths; on: how many of
    them have the kernel path, all if None; mode: of -X bmc; words: further options of -X.
    """

    NULS = True      # may be in a key
    MISSES = True    # the kernel answers for missing keys
    VALUE_MAX = 1359 # the longest value that it answers with, if the key has 4 bytes
    WARM = 1         # how often a request is sent until it has to answer
    SHARE = 1        # of what it answers when all may be there

    def __init__(self, *arguments, links=1, on=None, mode=None, mtu=1500, listen="0.0.0.0",
                 words=(), pair=None, **options):
        self.pair, self.links = pair or netns.Pair(links, mtu), links
        self.came_from = netns.current()
        netns.enter(self.pair.client)
        more = list(words)
        words = ["bmc=" + self.pair.interface(i) for i in range(links if on is None else on)]
        if mode:
            words.append("mode=" + mode)
        self.arguments = ("-X", ",".join(words + more)) + arguments
        self.options = dict(options, namespace=self.pair.server, host=self.pair.address(),
                            listen=listen)
        self.met = time.monotonic()
        self.start()

    def start(self):
        self.server = server.Server(*self.arguments, **self.options)
        self.tcp = self.server.stream()
        self.udp = self.server.udp()
        self.meet()

    def keep_way(self):
        """The server replies to the socket of this class before the kernel forgets the return path.
        A test that sends with other sockets for so long makes them known itself."""
        if time.monotonic() - self.met < KEPT:
            return
        self.met = time.monotonic()
        with contextlib.suppress(OSError, client.FrameError):
            self.udp.ask(b"version\r\n")

    def meet(self, *sources):
        """The server replies to each of the client's sources, by default all of the pair, so
        that the kernel knows the return paths.
        """
        listens = self.options["listen"].replace("[", "").replace("]", "").split(",")
        for i in range(self.links):
            for host, everything in ((self.pair.address(i), "0.0.0.0"), ("fd77:%d::1" % i, "::")):
                if host in listens or everything in listens:
                    meet(host, self.server.port, *(s for s in sources or (None,)
                                                   if not s or (":" in s) == (":" in host)))

    def stop(self):
        if self.server.process.returncode is None:
            self.server.stop()
        self.leave()

    def leave(self):
        """After the server: this thread returns to the namespace that it came from."""
        netns.go_back(self.came_from)
        self.pair.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.stop()

    def counts(self):
        """`stats bmc`, with numbers as int; answered: by XDP and TC together."""
        rows = self.tcp.stats("bmc")
        counts = {key: int(value) for key, value in rows.items() if value.isdigit()}
        counts["answered"] = counts["answered_xdp"] + counts["answered_tc"]
        return counts

    def during(self, function):
        """What function returns, and how the counters grew meanwhile."""
        self.keep_way()
        before = self.counts()
        result = function()
        after = self.counts()
        return result, {key: after[key] - before.get(key, 0) for key in after}

    def by_kernel(self, request):
        """(answer, whether the kernel gave it) to one request. Sends it again as long as the kernel
        passes it for a momentary reason. An answer that is not like the first is returned at once.
        """
        first = None
        for pause in PAUSES:
            time.sleep(pause)
            answer, grown = self.during(lambda: self.udp.ask(request))
            first = first or answer
            if answer != first or not any(grown.get(reason) for reason in MOMENTARY):
                break
        return answer, grown["answered"] == 1

    def holds(self, key, value):
        """Whether the kernel answers with this value; None: with a miss."""
        want = b"END\r\n" if value is None else answer((key, value))
        return self.by_kernel(b"get %s\r\n" % key) == (want, True)

    def answers(self, request, want, _found=True):
        """Whether the kernel gives this answer. _found: all keys exist."""
        return self.by_kernel(request) == (want, True)

    def is_in_order(self):
        """Whether the server has seen, by a reply, that no program on TC comes before its own."""
        self.udp.ask(b"version\r\n")
        return self.tcp.stats("bmc")["sv0:before"] == "none"

    def unwatched(self):
        """A socket to the same server over the second interface, which has no kernel path."""
        return client.Udp(self.pair.address(1), self.server.port)

    def whole(self, udp, request, number):
        """The datagrams of the reply to one request, in order."""
        udp.send(request, ident=number)
        found = {}
        while True:
            datagram = udp.recv_raw()
            found[int.from_bytes(datagram[2:4], "big")] = datagram
            if len(found) == int.from_bytes(datagram[4:6], "big"):
                return [found[i] for i in sorted(found)]

    def by_server(self, request):
        """The server's own answer: while verbosity is 2 the kernel leaves requests to the
        server."""
        self.tcp.ask(b"verbosity 2\r\n")
        answer, grown = self.during(lambda: self.udp.ask(request))
        self.tcp.ask(b"verbosity 0\r\n")
        if grown["answered"]:
            raise RuntimeError("the kernel answers while verbosity is 2")
        return answer

    def same(self, request, want, name, kernel=True):
        """The answer to the request is `want`, and it is the kernel's, or the server's."""
        try:
            answer, answered = self.by_kernel(request)
        except (TimeoutError, client.FrameError) as error:
            answer, answered = repr(error), None
            self.udp.close()
            self.udp = self.server.udp()
        who = "by the kernel" if kernel else "by the server"
        tap.is_((answer, answered), (want, kernel), "%s, %s" % (name, who))

    def silent(self, request, seconds=0.3, **frame):
        """Whether a request gets no answer, of a server that is stopped."""
        udp = client.Udp(self.server.host, self.server.port, seconds)
        try:
            udp.ask(request, **frame)
            return False
        except TimeoutError:
            return True
        finally:
            udp.close()


def meet(host, port, *sources):
    """Makes the server reply, if it can be reached there, to each of these sources of the
    client, or to the one that the stack takes. The first reply to a new address of IPv6 is
    sometimes lost.
    """
    for source in sources or (None,):
        for _ in range(TRIES):
            try:
                udp = client.Udp(host, port, 2, source)
            except OSError:
                break
            with contextlib.closing(udp), contextlib.suppress(OSError, client.FrameError):
                udp.ask(b"version\r\n")
                break


def hit(key, value, flags=0):
    return b"VALUE %s %d %d\r\n%s\r\n" % (key, flags, len(value), value)


def answer(*items):
    """The whole answer to a get: of (key, value) and (key, value, flags)."""
    return b"".join(hit(*item) for item in items) + b"END\r\n"


def capabilities(pid):
    """The effective ones, as a set of numbers."""
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        line = next(line for line in file if line.startswith("CapEff:"))
    bits = int(line.split()[1], 16)
    return {i for i in range(64) if bits >> i & 1}


def beside(path):
    """The path of a program of the build tree."""
    return os.path.join(os.environ.get("BUILDDIR", os.getcwd()), path)
