#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Three servers with the kernel path, among which clients divide their keys: by nutcracker, by
libmemcached (pylibmc) and by pymemcache's HashClient. One is killed, and comes back:
doc/many-servers.md says what that means."""
import os
import shutil
import sys

import child
import client
import netns
import server
import tap

sys.path.insert(0, os.path.join(os.environ["SRCDIR"], "t", "clients", "pymemcache"))
try:
    import framed
    import pylibmc
    from pymemcache.client.hash import HashClient
    from pymemcache.exceptions import MemcacheError
except ImportError as error:
    tap.skip_all("%s: tools/packages --install check" % error)
if not shutil.which("nutcracker"):
    tap.skip_all("nutcracker is missing: tools/packages --install check")

SERVERS = 3
KEYS = [b"key%d" % i for i in range(300)]
POOL = """
{name}:
  listen: 127.0.0.1:{port}
  hash: murmur
  distribution: ketama
  timeout: 10000
  auto_eject_hosts: true
  server_retry_timeout: 500
  server_failure_limit: 1
  server_connections: {connections}
  servers:
"""
CONNECTIONS = 16

machine = netns.Pair(links=SERVERS)
netns.enter(machine.client)


class Cluster:
    """The servers, each with an address and an interface of its own."""

    def __init__(self, *words):
        self.words, self.port = words, server.free_port(machine.server)
        self.servers = [self.start(i) for i in range(SERVERS)]
        self.addresses = ["%s:%d" % (s.host, s.port) for s in self.servers]

    def start(self, i):
        return server.Server("-X", ",".join(("bmc=" + machine.interface(i),) + self.words),
                             host=machine.address(i), namespace=machine.server, port=self.port)

    def kill(self, i):
        self.servers[i].kill()

    def restart(self, i):
        self.servers[i] = self.start(i)

    def holds(self, i):
        """The keys that are stored on a server."""
        stream = self.servers[i].stream()
        found = [key for key in KEYS if stream.get(key) is not None]
        stream.close()
        return found

    def answered(self):
        """How many requests the kernel has answered, and how many keys were asked for."""
        rows = [(s.stats("bmc"), s.stats()) for s in self.servers]
        return (sum(int(bmc[key]) for bmc, _ in rows
                    for key in ("answered_xdp", "answered_tc", "tcp_answered") if key in bmc),
                sum(int(stats["cmd_get"]) for _, stats in rows))

    def stop(self):
        for each in self.servers:
            each.stop()


# --- the clients: get returns None for a miss and for an error, set whether it has stored ---------

class Nutcracker:
    """Through a proxy. Two pools of the same servers, with one connection to each and with more."""

    def __init__(self, addresses):
        self.ports = [server.free_port() for _ in range(2)]
        folder = server.scratch()
        path = os.path.join(folder, "conf.yml")
        with open(path, "w", encoding="ascii") as file:
            for port, connections in zip(self.ports, (1, CONNECTIONS)):
                file.write(POOL.format(name="pool%d" % connections, port=port,
                                       connections=connections))
                file.writelines("    - %s:1 server%d\n" % (address, number)
                                for number, address in enumerate(addresses))
        self.proxy = child.Child(["nutcracker", "-c", path, "-s", server.free_port(), "-a",
                                  "127.0.0.1", "-m", "16384"], "nutcracker", cwd=folder)
        self.streams = [None, None]
        server.wait_for(lambda: self.set(b"first", b""))

    def stream(self, pool=0):
        if not self.streams[pool]:
            self.streams[pool] = client.tcp("127.0.0.1", self.ports[pool])
        return self.streams[pool]

    def get(self, key, pool=0):
        try:
            return self.stream(pool).get(key)
        except ValueError: # SERVER_ERROR
            return None
        except (OSError, client.Closed):
            self.streams[pool] = None
            return None

    def set(self, key, value):
        try:
            return self.stream().set(key, value) == b"STORED\r\n"
        except (OSError, client.Closed):
            self.streams[0] = None
            return False

    def close(self):
        self.proxy.kill()


class Libmemcached:
    def __init__(self, addresses):
        self.client = pylibmc.Client(addresses, behaviors={
            "ketama": True, "tcp_nodelay": True, "remove_failed": 1, "retry_timeout": 1,
            "dead_timeout": 1, "connect_timeout": 10000, "_poll_timeout": 10000})

    def get(self, key):
        try:
            return self.client.get(key)
        except pylibmc.Error:
            return None

    def set(self, key, value):
        try:
            return self.client.set(key, value)
        except pylibmc.Error:
            return False

    def close(self):
        self.client.disconnect_all()


class Pymemcache:
    def __init__(self, addresses, **more):
        self.client = HashClient(addresses, connect_timeout=10, timeout=10, retry_attempts=0,
                                 dead_timeout=1, default_noreply=False, **more)

    def get(self, key):
        try:
            return self.client.get(key)
        except (OSError, MemcacheError):
            return None

    def set(self, key, value):
        try:
            return self.client.set(key, value) is True
        except (OSError, MemcacheError):
            return False

    def close(self):
        self.client.close()


# --- what all of them do ----------------------------------------------------------------------

def store(c, keys, what):
    """Until all are stored: the first that go to a dead server fail."""
    return server.wait_for(lambda: all([c.set(key, what + key) for key in keys]), 60, 0.1)


def read(c, keys, what):
    """How many of the keys have another value; None: a miss, or an error."""
    got = {key: c.get(key) for key in keys}
    return ([key for key in keys if got[key] not in (None, what + key)],
            [key for key in keys if got[key] is None])


def divides(cluster, c, name):
    tap.ok(store(c, KEYS, b"first"), "%s stores %d keys" % (name, len(KEYS)))
    homes = [cluster.holds(i) for i in range(SERVERS)]
    tap.diag("keys on each server: %s" % [len(keys) for keys in homes])
    tap.is_(sorted(key for keys in homes for key in keys), sorted(KEYS),
            "each key is on one server")
    tap.ok(all(len(keys) > len(KEYS) // 10 for keys in homes), "each server has some")
    before = cluster.answered()
    for _ in range(4):
        wrong = read(c, KEYS, b"first")
    tap.is_(wrong, ([], []), "each key has its value")
    answered, asked = (after - old for after, old in zip(cluster.answered(), before))
    tap.diag("the kernel answered %d of %d" % (answered, asked))
    tap.ok(answered > asked // 2, "the kernel gives most answers")
    return homes


def one_dies(cluster, c, homes):
    lost, others = homes[1], homes[0] + homes[2]
    cluster.kill(1)
    tap.ok(server.wait_for(lambda: read(c, others, b"first") == ([], []), 60, 0.1),
           "when one of the servers has died, the keys of the others are where they were")
    tap.is_(read(c, lost, b"first"), ([], lost), "its own are misses")
    tap.ok(store(c, lost, b"second"), "they can be stored, elsewhere")
    tap.is_(read(c, lost, b"second"), ([], []), "and are found there")
    tap.is_(read(c, others, b"first"), ([], []), "beside the others")


def it_comes_back(cluster, c, homes):
    cluster.restart(1)
    tap.is_(cluster.holds(1), [], "it comes back empty")
    tap.ok(server.wait_for(lambda: store(c, KEYS, b"third") and
                           cluster.holds(1) == homes[1], 60, 0.2),
           "it gets its own keys back, and no other")
    tap.is_(read(c, KEYS, b"third"), ([], []), "each key has its last value")


def life(make, name, *words):
    cluster = Cluster(*words)
    c = make(cluster.addresses)
    homes = divides(cluster, c, name)
    one_dies(cluster, c, homes)
    it_comes_back(cluster, c, homes)
    c.close()
    cluster.stop()


@tap.case
def nutcracker():
    life(Nutcracker, "nutcracker", "tcp=on", "udp=off")


@tap.case
def pools_of_the_same_servers_agree():
    cluster = Cluster("tcp=on", "udp=off")
    c = Nutcracker(cluster.addresses)
    store(c, KEYS, b"first")
    tap.is_([key for key in KEYS if c.get(key, pool=1) != b"first" + key], [],
            "what one pool stores the other finds")
    c.close()
    cluster.stop()


@tap.case
def a_proxy_with_one_connection():
    """It puts the requests of several clients into one segment, which the kernel answers as a
    whole."""
    cluster = Cluster("tcp=on", "udp=off")
    c = Nutcracker(cluster.addresses)
    store(c, KEYS, b"first")

    def ask(port):
        stream = client.tcp("127.0.0.1", port)
        wrong = [key for _ in range(3) for key in KEYS if stream.get(key) != b"first" + key]
        stream.close()
        return wrong

    shares = []
    for port in c.ports:
        before = cluster.answered()
        tap.is_(sum(tap.at_once(ask, [port] * 10), []), [], "ten clients get what was stored")
        answered, asked = (after - old for after, old in zip(cluster.answered(), before))
        shares.append(answered / asked)
    tap.ok(min(shares) > 0.5,
           "the kernel gives most answers: %.2f with one connection, %.2f with %d" %
           (*shares, CONNECTIONS))
    c.close()
    cluster.stop()


@tap.case
def libmemcached():
    life(Libmemcached, "libmemcached", "tcp=on", "udp=off")


@tap.case
def pymemcache_over_tcp():
    life(Pymemcache, "pymemcache", "tcp=on", "udp=off")


@tap.case
def pymemcache_over_udp():
    life(lambda addresses: Pymemcache(addresses, socket_module=framed.Module()),
         "pymemcache over UDP")


@tap.case
def the_namespaces_are_removed():
    machine.close()
    tap.ok(machine.server not in os.listdir("/run/netns"), "no namespace stays")


tap.run()
