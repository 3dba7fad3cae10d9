# SPDX-License-Identifier: BSD-3-Clause
"""The laboratory of bench/run: namespaces, pairs of devices, servers and the tools' answers."""

import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time


# On one CPU, and not interrupted by other processes.
PINNED = ["chrt", "-f", "1", "taskset", "-c", "0"]


WARM_SECONDS = 30

CABLE = os.path.join("t", "tool", "cable") # `make test-programs` builds it

# Of linux/tcp.h.
TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ, TCP_TIMESTAMP = 19, 20, 21, 24
TCP_RECV_QUEUE, TCP_SEND_QUEUE = 1, 2

# Of linux/if_tun.h: a device of Ethernet frames without a header of tun's own.
TUNSETIFF, TAP = 0x400454ca, 0x1002


class LabError(Exception):
    """What is said instead of a traceback."""


def output(words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=120, check=False, **options)
    if done.returncode:
        raise LabError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Namespace:
    def __init__(self, name):
        self.name = name
        output(["ip", "netns", "add", name])
        self.enter = ["nsenter", f"--net=/run/netns/{name}"]
        output(self.enter + ["ip", "link", "set", "lo", "up"])
        # An address that is a machine's own a second later makes the kernel path forget the ways.
        output(self.enter + ["sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0",
                             "net.ipv6.conf.default.accept_dad=0"])

    def run(self, words):
        return output(self.enter + words)

    def start(self, words, **options):
        return subprocess.Popen(self.enter + words, text=True, **options)

    def write_sys(self, path, value):
        """To a file of this namespace's /sys, which others do not see."""
        self.run(["unshare", "--mount", "sh", "-c",
                  'mount -t sysfs sysfs /sys && echo "$1" >"/sys/$2"', "sh", value, path])

    def close(self):
        subprocess.run(["ip", "netns", "del", self.name], check=False)


class Pair:
    """A veth pair between the server's and the client's namespace, with its own network."""

    def __init__(self, lab, number, mtu=1500):
        self.lab = lab
        self.server_if = f"mb{os.getpid()}s{number}"
        self.client_if = f"mb{os.getpid()}c{number}"
        self.server_ip = f"10.211.{number}.1"
        self.client_ip = f"10.211.{number}.2"
        self.make(mtu)
        self.server_mac = self.up(lab.server, self.server_if, self.server_ip)
        self.client_mac = self.up(lab.client, self.client_if, self.client_ip)

    def make(self, mtu):
        """The devices. The client's end drops and counts what the server's program sends."""
        lab = self.lab
        queues = ["numtxqueues", str(os.cpu_count()), "numrxqueues", str(os.cpu_count())]
        output(["ip", "link", "add", self.server_if, "mtu", str(mtu), *queues,
                "netns", lab.server.name, "type", "veth",
                "peer", "name", self.client_if, "mtu", str(mtu), *queues,
                "netns", lab.client.name])
        self.sink = lab.attach(lab.client, "sink", self.client_if)

    @staticmethod
    def up(namespace, interface, address):
        namespace.run(["ip", "addr", "add", f"{address}/24", "dev", interface])
        namespace.run(["ip", "addr", "add", f"fd00::{address}/120", "dev", interface, "nodad"])
        namespace.run(["ip", "link", "set", interface, "up"])
        link = json.loads(namespace.run(["ip", "-j", "link", "show", interface]))
        return link[0]["address"]

    def route(self):
        return ["--from", f"{self.client_ip}:20001", "--from-mac", self.client_mac,
                "--to-mac", self.server_mac]


class TapPair(Pair):
    """Two tap devices; frames pass between them as long as there is a relay."""

    def __init__(self, lab, number, mtu=1500):
        super().__init__(lab, number, mtu)
        lab.server.run(["ip", "neigh", "add", self.client_ip, "lladdr", self.client_mac,
                        "dev", self.server_if])

    def make(self, mtu):
        self.server_fd = self.lab.open_tap(self.lab.server, self.server_if)
        self.client_fd = self.lab.open_tap(self.lab.client, self.client_if)

    @contextlib.contextmanager
    def relay(self):
        descriptors = [self.server_fd, self.client_fd]
        process = subprocess.Popen(PINNED + [self.lab.tool("relay"), *map(str, descriptors)],
                                   stdin=subprocess.PIPE, pass_fds=descriptors)
        try:
            yield
        finally:
            process.communicate(timeout=10)


class CablePair(Pair):
    """Two veths; t/tool/cable, in a namespace between them, carries and loses frames."""

    OFFLOADS = ("rx", "tx", "tso", "gso", "gro")

    def __init__(self, lab, number, *faults):
        self.faults = faults
        super().__init__(lab, number)

    def make(self, mtu):
        lab = self.lab
        middle = lab.keep(Namespace(f"mb{os.getpid()}m"))
        middle.run(["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])
        ends = []
        for namespace, end in ((lab.server, self.server_if), (lab.client, self.client_if)):
            output(["ip", "link", "add", end, "mtu", str(mtu), "netns", namespace.name, "type",
                    "veth", "peer", "name", end + "m", "mtu", str(mtu), "netns", middle.name])
            middle.run(["ip", "link", "set", end + "m", "up"])
            lab.attach(middle, "pass", end + "m")
            ends += [(namespace, end), (middle, end + "m")]
        lab.attach(lab.client, "pass", self.client_if)
        for namespace, end in ends: # the cable cannot do what hardware would
            namespace.run(["ethtool", "-K", end,
                           *(word for each in self.OFFLOADS for word in (each, "off"))])
        lab.keep(Cable(middle.start([os.path.join(lab.build, CABLE), *self.faults,
                                     self.server_if + "m", self.client_if + "m"],
                                    stdout=subprocess.DEVNULL)))


class Cable:
    def __init__(self, process):
        self.process = process

    def close(self):
        stop(self.process)


class Server:
    """A running memcached on one pair's address; start_ms: until it answered over TCP."""

    def __init__(self, lab, words, pair, port, listen=None):
        self.lab, self.pair, self.port = lab, pair, port
        self.address = f"{pair.server_ip}:{port}"
        self.log = open(os.path.join(lab.tmp, f"server-{port}.log"), "w+", encoding="utf-8")
        begin = time.monotonic()
        self.process = lab.server.start(
            words + ["-l", listen or pair.server_ip, "-p", str(port), "-U", str(port)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self.wait(words)
        except BaseException:
            self.close()
            raise
        self.start_ms = (time.monotonic() - begin) * 1e3

    def wait(self, words):
        """Until it has answered over TCP. The helper sockets live in the server's namespace."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise LabError(f"{' '.join(words)} ended: {self.log.read().strip()}")
            try:
                self.ask("version")
                return
            except OSError:
                time.sleep(0.005)
        raise LabError(f"{' '.join(words)} does not answer")

    def ask(self, command, end=b"\n"):
        """One command over TCP; the reply up to `end`."""
        with self.lab.socket_in_server() as tcp:
            tcp.settimeout(10)
            tcp.connect((self.pair.server_ip, self.port))
            tcp.sendall(command.encode() + b"\r\n")
            reply = b""
            while not reply.endswith(end):
                more = tcp.recv(65536)
                if not more:
                    break
                reply += more
            return reply.decode()

    def stats(self, what=""):
        text = self.ask(f"stats {what}".strip(), b"END\r\n")
        return dict(re.findall(r"^STAT (\S+) (.*?)\r?$", text, re.M))

    def rss(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s*(\d+)", status.read()).group(1)) * 1024

    def close(self):
        stop(self.process)
        self.log.close()


class Receiving:
    """A device's frames are received by threads (threaded NAPI) on one CPU, until it is closed."""

    FIRST = ("chrt -f -p 3",) # as interrupts are
    TURN = ("chrt -o -p 0", "renice -n 0 -p") # as any other thread
    NICE, LAST = ("chrt -o -p 0", "renice -n 10 -p"), ("chrt -i -p 0",)

    def __init__(self, namespace, interface, cpu):
        self.namespace, self.switch = namespace, f"class/net/{interface}/threaded"
        namespace.write_sys(self.switch, "1")
        self.threads = receiving_threads(interface) # by queue
        for thread in self.threads:
            output(["taskset", "-c", "-p", str(cpu), thread])

    @staticmethod
    def schedule(threads, how):
        """By commands whose last word is the thread's number."""
        for thread in threads:
            for command in how:
                output([*command.split(), thread])

    def close(self):
        self.namespace.write_sys(self.switch, "0")


def receiving_threads(interface):
    """Their names end in numbers that were given in the queues' order."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/comm"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            name, _, place = file.read().strip().rpartition("-")
            if name == f"napi/{interface}":
                found[int(place)] = path.split("/")[2]
    if not found:
        raise LabError(f"{interface} receives in no thread of its own")
    return [number for _, number in sorted(found.items())]


class Chain:
    """The program that puts the chain in front of a server that is not ours."""

    def __init__(self, lab, server, words):
        self.lab, self.server = lab, server
        self.tool = os.path.join(lab.build, "bmc", "bmc")
        interface = server.pair.server_if
        self.log = open(os.path.join(lab.tmp, f"bmc-{server.port}.log"), "w+", encoding="utf-8")
        self.process = lab.server.start(
            [self.tool, interface, "--port", str(server.port), "--mode", "native"] + words,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.wait(interface)

    def wait(self, interface):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise LabError(f"bmc {interface} ended: {self.log.read().strip()}")
            link = json.loads(self.lab.server.run(["ip", "-j", "link", "show", interface]))
            if "xdp" in link[0]:
                return
            time.sleep(0.01)
        raise LabError(f"bmc {interface} attaches nothing")

    def stats(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise LabError(f"bmc ended with {self.process.returncode}: {self.log.read().strip()}")
        text = self.lab.server.run([self.tool, "stats", "--port", str(self.server.port)])
        return dict(re.findall(r"^(?:STAT )?(\S+) (\S+)\r?$", text, re.M))

    def close(self):
        stop(self.process)
        self.log.close()


class Lab:
    """Owns everything that must be taken down again."""

    def __init__(self, build, tmp):
        self.build, self.tmp = build, tmp
        self.open = contextlib.ExitStack()
        self.server = self.keep(Namespace(f"mb{os.getpid()}s"))
        self.client = self.keep(Namespace(f"mb{os.getpid()}c"))

    def keep(self, thing):
        self.open.callback(thing.close)
        return thing

    def close(self):
        """All of it, also if one fails."""
        self.open.close()

    def tool(self, name):
        return os.path.join(self.build, "bench", name)

    def socket_in_server(self, kind=socket.SOCK_STREAM):
        """A socket of the server's namespace, made there and used from here."""
        with inside(self.server):
            return socket.socket(socket.AF_INET, kind)

    def open_tap(self, namespace, name):
        """A tap device that lives as long as the descriptor, which is returned."""
        with inside(namespace):
            tap = self.keep(open("/dev/net/tun", "r+b", buffering=0, opener=open_at_once))
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP))
        return tap.fileno()

    def attach(self, namespace, what, interface, port=11211, options=()):
        """Attaches floor, pass or sink for as long as the laboratory lives; its program id."""
        process = namespace.start([self.tool("attach"), "--port", str(port), *options, what,
                                   interface],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.keep(Attached(process))
        line = process.stdout.readline().strip()
        if not line:
            raise LabError(f"cannot attach {what} to {interface}")
        return line

    def start(self, words, pair, port, listen=None):
        return self.keep(Server(self, words, pair, port, listen))

    def put_chain_before(self, server, words):
        return self.keep(Chain(self, server, words))

    def meet(self, pair, port):
        """The server replies to the client, so that the kernel knows the return path to where
        in-kernel load seems to come from."""
        for family, host in ((socket.AF_INET, pair.server_ip),
                             (socket.AF_INET6, f"fd00::{pair.server_ip}")):
            with inside(self.client):
                udp = socket.socket(family, socket.SOCK_DGRAM)
            with udp, contextlib.suppress(OSError):
                udp.settimeout(1)
                udp.connect((host, port))
                udp.send(struct.pack("!HHHH", 1, 0, 1, 0) + b"version\r\n")
                udp.recv(2048)

    def live_words(self, pair, port, path):
        """In-kernel load: where it runs, and its words but for the last and the options."""
        self.meet(pair, port)
        namespace, interface = ((self.server, pair.server_if) if path == "direct"
                                else (self.client, pair.client_if))
        return namespace, [self.tool("live"), "--path", path, "--interface", interface, "--sink",
                           pair.sink, *pair.route()]

    def live(self, pair, port, *options, path="direct"):
        """One window of in-kernel load."""
        namespace, words = self.live_words(pair, port, path)
        return json.loads(namespace.run([*words, *options, f"{pair.server_ip}:{port}"]))

    def start_live(self, pair, port, *options, path="direct"):
        """The same, while other things go on: the caller reads what it prints."""
        namespace, words = self.live_words(pair, port, path)
        return namespace.start([*words, *options, f"{pair.server_ip}:{port}"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def follow(self, pair, port):
        """A connection that the kernel path follows, and which says nothing itself any more: its
        word for an arm of perpacket, and its client's port."""
        with inside(self.client):
            tcp = self.keep(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        tcp.settimeout(10)
        tcp.connect((pair.server_ip, port))
        for _ in range(5):
            tcp.sendall(b"get nothing\r\n")
            tcp.recv(64)
        tcp.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        numbers = []
        for queue in (TCP_SEND_QUEUE, TCP_RECV_QUEUE):
            tcp.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
            numbers.append(tcp.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ) & 0xffffffff)
        # Ahead of all that were sent: the socket's option is some milliseconds behind.
        numbers.append(tcp.getsockopt(socket.IPPROTO_TCP, TCP_TIMESTAMP) + 1000 & 0xffffffff)
        return "tcp=" + ":".join(map(str, numbers)), tcp.getsockname()[1]

    @staticmethod
    def arm(pair, port, word="", source=20001):
        """Requests for perpacket: to this port, through the program of this pair."""
        return ",".join([pair.server_if, f"{pair.client_ip}:{source}", pair.client_mac,
                         pair.server_mac, f"{pair.server_ip}:{port}"] + ([word] if word else []))

    def perpacket(self, arms, *options):
        """Of each arm what was counted, and the nanoseconds of each try."""
        return json.loads(self.server.run(PINNED + [self.tool("perpacket"), *options, *arms]))

    def inject(self, pairs, *options):
        """Nanoseconds for a frame: for each pair, of each round. There must be no relay."""
        taps = [pair.server_fd for pair in pairs]
        process = self.server.start(PINNED + [self.tool("inject"), *options, *map(str, taps)],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=taps)
        out, error = process.communicate(timeout=300)
        if process.returncode:
            raise LabError(f"inject: {error.strip()}")
        return json.loads(out)["ns"]

    def udpload(self, pair, port, *options):
        return json.loads(self.client.run(
            PINNED + [self.tool("udpload"), "--json"] + list(options)
            + [f"{pair.server_ip}:{port}"]))

    def warm(self, server, chain, *options, keys):
        """
        Asks for every key until the chain has them all, or until keys that have a place in
        common push each other out again and again; the share of the last pass that was filled.
        """
        stats = chain.stats if chain else lambda: server.stats("bmc")
        before = None
        deadline = time.monotonic() + WARM_SECONDS
        while time.monotonic() < deadline:
            seen = int(stats()["fills"])
            self.udpload(server.pair, server.port, "--dist", "turn", "--keys", str(keys), "--count",
                         str(keys), "--depth", "64", "--verify", "--seconds", "20", *options)
            fills = int(stats()["fills"]) - seen
            if before and (not fills or fills >= 0.9 * before):
                return fills / keys
            before = fills
        raise LabError(f"the chain before {server.address} does not fill: {stats()}")

    def populate(self, server, *options, beside=None):
        """From the server's namespace, or through the pair, from the client's."""
        (beside or self.server).run([self.tool("udpload"), "--populate", "--seconds", "0",
                                     *options, server.address])


class Attached:
    def __init__(self, process):
        self.process = process

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


def open_at_once(path, flags):
    """Of a device that does not block."""
    return os.open(path, flags | os.O_NONBLOCK)


@contextlib.contextmanager
def inside(namespace):
    """In another network namespace: what is opened there stays there."""
    ours = os.open("/proc/self/ns/net", os.O_RDONLY)
    theirs = os.open(f"/run/netns/{namespace.name}", os.O_RDONLY)
    try:
        set_namespace(theirs)
        yield
    finally:
        set_namespace(ours)
        os.close(ours)
        os.close(theirs)


def set_namespace(descriptor):
    """setns(2) is in Python's os only from 3.12 on."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0x40000000):
        raise LabError(f"setns: {os.strerror(ctypes.get_errno())}")


def missing_tools():
    return [name for name in ("ip", "nsenter", "taskset", "chrt") if not shutil.which(name)]
