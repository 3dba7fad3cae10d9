#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""xsk=on on network cards, in instructions: this server without the kernel path, and by a ring.

    QEMU="-smp 1 -cpu max,-erms,-fsrm -icount shift=3,sleep=off
        -global virtio-net-pci.ioeventfd=off -global virtio-net-device.tx=timer
        -global virtio-net-device.x-txtimer=20000" TESTS=rings.t t/kernels/run PACKAGE

The clock is that of passing.t: it counts the instructions of the only CPU, 8 ns each. A row's
figures are the instructions for a reply of the whole machine (the client, both cards' drivers, the
stack and the server) and of the server's threads alone, and the replies' bytes are compared. What
the two ways have in common is in both. The server is asked by gat, which XDP passes.
"""
import json
import os
import re
import statistics

import cards
import kernel
import netns
import server
import tap
from busy import busy

ROUNDS = 3
NS = 8 # an instruction
SIZES = (250, 1000, 2746, 25000)
KEYS = "100"
WAYS = ("sockets", "ring")
RELEASE = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])


def start(pair, way):
    """The server on the server's card, whose rings serve when it knows the return path."""
    words = ("-X", "bmc=sv0,mode=native,xsk=on") if way == "ring" else ()
    where = server.Server(*words, namespace=pair.server, host=pair.address(), listen="0.0.0.0",
                          threads=1)
    kernel.meet(pair.address(), where.port)
    return where


def server_ns(where):
    """What its threads have taken."""
    total = 0
    for thread in os.listdir("/proc/%d/task" % where.process.pid):
        with open("/proc/%d/task/%s/schedstat" % (where.process.pid, thread),
                  encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def load(where, size, *words):
    return json.loads(netns.sh("udpload", "--json", "--verify", "--touch", "--keys", KEYS,
                               "--value-size", str(size), "--sockets", "1", *words,
                               "%s:%d" % (where.host, where.port)))


def measured(where, way, size):
    """Instructions a reply: of the machine, and of the server's threads."""
    netns.sh("udpload", "--populate", "--keys", KEYS, "--value-size", str(size), "--seconds", "0",
             "%s:%d" % (where.host, where.port))
    load(where, size, "--count", "200", "--depth", "8")
    machine, threads = busy(), server_ns(where)
    told = load(where, size, "--seconds", "0.3", "--depth", "32" if size < 2000 else "8")
    machine, threads = busy() - machine, server_ns(where) - threads
    tap.ok(told["wrong"] == 0 and told["answered"] > 50,
           "%s, %d bytes: %d replies, %d lost" % (way, size, told["answered"], told["lost"]))
    return machine / told["answered"] / NS, threads / told["answered"] / NS


def measure(cable):
    pair = cards.Pair(cable)
    netns.enter(pair.client)
    costs = {}
    for way in WAYS:
        where = start(pair, way)
        if way == "ring":
            tap.like(where.log(), "sv0: AF_XDP on .*, zero-copy", "%s: zero-copy" % cable)
        for size in SIZES:
            costs[way, size] = [measured(where, way, size) for _ in range(ROUNDS)]
        if way == "ring":
            sent = int(where.stats("bmc")["xsk_sent"])
            tap.ok(sent > 1000, "%s: %d datagrams left by the ring" % (cable, sent))
        tap.is_(where.stop(), 0, "%s: it ends" % way)
    for (way, size), each in costs.items():
        machine, threads = (statistics.median(column) for column in zip(*each))
        base = statistics.median(one for one, _ in costs["sockets", size])
        tap.diag("%s, %d bytes, %s: %.0f instructions a reply (%.2f of sockets), %.0f of them "
                 "the server's" % (cable, size, way, machine, machine / base, threads))
    pair.close()


def refused(cable):
    """Where the kernel would copy."""
    pair = cards.Pair(cable)
    netns.enter(pair.client)
    status, _, error = server.run("-l", "0.0.0.0", "-p", 21211, "-U", 21211, "-X",
                                  "bmc=sv0,mode=native,xsk=on", namespace=pair.server)
    tap.is_(status, 71, "%s: the server does not start" % cable)
    tap.like(error, "xsk=on needs a driver with zero-copy, or veth", "and says why")
    pair.close()


@tap.case
def without_offloads():
    refused("plain")


@tap.case
def with_offloads():
    refused("queues")


@tap.case
def memory_that_the_driver_maps():
    """Only with such a card virtio_net has zero-copy, from Linux 6.13 on."""
    if RELEASE >= (6, 13):
        measure("direct")
    else:
        refused("direct")


@tap.case
def queues_that_only_receive():
    """virtio_net adds queues for native XDP, from which a socket cannot send."""
    if RELEASE < (6, 13):
        refused("several")
        return
    pair = cards.Pair("several")
    netns.enter(pair.client)
    where = start(pair, "ring")
    tap.like(where.log(), "sv0: AF_XDP on [12] of [24] queues, zero-copy", "they have no ring")
    netns.sh("udpload", "--populate", "--keys", KEYS, "--value-size", "2746", "--seconds", "0",
             "%s:%d" % (where.host, where.port))
    told = load(where, 2746, "--count", "2000", "--depth", "32", "--sockets", "16")
    tap.is_((told["answered"], told["wrong"], told["lost"]), (2000, 0, 0), "all are answered")
    tap.ok(0 < int(where.stats("bmc")["xsk_received"]) < 2000, "by the rings and by the stack")
    tap.is_(where.stop(), 0, "it ends")
    pair.close()


tap.run(900)
