#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What AF_XDP would save on a network card, in instructions: `answer` over sockets and over a ring.

    QEMU="-smp 1 -cpu max,-erms,-fsrm -icount shift=3,sleep=off
        -global virtio-net-pci.ioeventfd=off -global virtio-net-device.tx=timer
        -global virtio-net-device.x-txtimer=20000" TESTS=rings.t t/kernels/run PACKAGE

The clock is that of passing.t: it counts the instructions of the only CPU, 8 ns each. A row's
figures are the instructions for a reply of the whole machine (the client, both cards' drivers, the
stack and the server) and of the server's thread alone, and the replies' bytes are compared. What
the two ways have in common is in both.
"""
import json
import os
import re
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "lib"))
import cards
import netns
import tap
from busy import busy

ROUNDS = 3
NS = 8 # an instruction
SIZES = (250, 1000, 2746, 25000)
KEYS = "100"
WAYS = ("sockets", "segments", "ring")
ZERO_COPY = "ring, zero-copy"
RELEASE = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])


class Answer:
    """bench/answer on the server's card."""

    def __init__(self, pair, way, size):
        words = ["answer", "--by", way.split(",")[0], "--interface", "sv0", "--keys", KEYS,
                 "--value-size", str(size), *(["--zero-copy"] if way == ZERO_COPY else [])]
        self.process = subprocess.Popen(
            ["nsenter", "--net=/run/netns/" + pair.server, *words], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        tap.is_(self.process.stdout.readline(), "ready\n", "%s, %d bytes: starts" % (way, size))

    def ns(self):
        """That its thread has taken."""
        with open("/proc/%d/schedstat" % self.process.pid, encoding="ascii") as file:
            return int(file.read().split()[0])

    def stop(self):
        return self.process.communicate()[0]


def load(pair, size, *words):
    return json.loads(netns.sh("udpload", "--json", "--verify", "--keys", KEYS, "--value-size",
                               str(size), "--sockets", "1", *words, pair.address() + ":11211"))


def measured(pair, way, size):
    """Instructions a reply: of the machine, and of the server's thread."""
    answer = Answer(pair, way, size)
    load(pair, size, "--count", "200", "--depth", "8")
    machine, thread = busy(), answer.ns()
    told = load(pair, size, "--seconds", "0.3", "--depth", "32" if size < 2000 else "8")
    machine, thread = busy() - machine, answer.ns() - thread
    counted = json.loads(answer.stop())
    tap.ok(told["wrong"] == 0 and told["answered"] > 50,
           "%s, %d bytes: %d replies, %d lost" % (way, size, told["answered"], told["lost"]))
    tap.is_(counted["by_ring"] > 0, way.startswith("ring"), "%s: and it was that way" % way)
    return machine / told["answered"] / NS, thread / told["answered"] / NS


def measure(cable, ways=WAYS):
    pair = cards.Pair(cable)
    netns.enter(pair.client)
    for size in SIZES:
        costs = {}
        for _ in range(ROUNDS):
            for way in ways:
                costs.setdefault(way, []).append(measured(pair, way, size))
        for way, each in costs.items():
            machine, thread = (statistics.median(column) for column in zip(*each))
            base = statistics.median(one for one, _ in costs["sockets"])
            tap.diag("%s, %d bytes, %s: %.0f instructions a reply (%.2f of sockets), %.0f of them "
                     "the server's thread" % (cable, size, way, machine, machine / base, thread))
    pair.close()


def without_checksums():
    """Such a card cuts no message on kernels before 6.11: sendmsg fails with EIO."""
    return WAYS if RELEASE >= (6, 11) else ("sockets", "ring")


@tap.case
def without_offloads():
    measure("plain", without_checksums())


@tap.case
def with_offloads():
    measure("queues")


@tap.case
def memory_that_the_driver_maps():
    """Only with such a card virtio_net has zero-copy, from Linux 6.13 on."""
    measure("direct", without_checksums() + ((ZERO_COPY,) if RELEASE >= (6, 13) else ()))


tap.run(900)
