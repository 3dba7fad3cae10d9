#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the traffic costs that the kernel path does not answer, in instructions: by native XDP on
network cards, with our program, with one that passes everything, and with none.

    QEMU="-smp 1 -cpu max,-erms,-fsrm -icount shift=3,sleep=off
        -global virtio-net-pci.ioeventfd=off -global virtio-net-device.tx=timer
        -global virtio-net-device.x-txtimer=20000" TESTS=passing.t t/kernels/run PACKAGE

The machine's clock then counts the instructions of its only CPU, 8 ns each, and a card sends by
that clock: what the host does meanwhile changes nothing (with taps it does). A row's figure is the
time that CPU was not idle for a reply: of the client, both cards' drivers, the stack and the
server. Prints; asserts nothing of them.
"""
import json
import os
import statistics

import cards
import netns
import server
import tap
from busy import busy

ROUNDS = 3
SECONDS = "0.5"
TCP = ["tcpload", "--json", "--seconds", SECONDS]
LARGE = TCP + ["--connections", "2", "--keys", "4", "--key-size", "12", "--value-size", "1000000"]
UDP = ["udpload", "--json", "--seconds", SECONDS]
ROWS = {"UDP, one request at a time": UDP + ["--depth", "1", "--sockets", "1"],
        "UDP, 16 requests in flight": UDP + ["--depth", "16"],
        "TCP, one request at a time": TCP + ["--connections", "1"],
        "TCP, 50 connections": TCP + ["--connections", "50"],
        "TCP, 1 MB to the server": LARGE + ["--sets", "1"],
        "TCP, 1 MB from the server": LARGE}
SIDES = ("none", "one that passes", "ours")


def cost(words, address):
    """Nanoseconds a reply."""
    before = busy()
    output = json.loads(netns.sh(*words, address))
    return (busy() - before) / output["answered"]


def attached(pair, side):
    """What is attached during a measurement, to be closed afterwards."""
    if side == "ours":
        return server.Server("-X", "bmc=sv0,mode=native", namespace=pair.server,
                             host=pair.address(), listen="0.0.0.0", threads=1).stop
    if side == "none":
        return lambda: None
    link = netns.attach_pass("sv0", pair.server)
    return lambda: os.close(link)


def measure(cable, *offloads):
    pair = cards.Pair(cable)
    if offloads:
        netns.sh("ethtool", "-K", "sv0", *offloads, namespace=pair.server)
    netns.enter(pair.client)
    other = server.Server(namespace=pair.server, host=pair.address(), threads=1)
    address = "%s:%d" % (other.host, other.port)
    for words in (ROWS["TCP, one request at a time"], LARGE):
        netns.sh(*words, "--populate", address)
    costs = {(row, side): [] for row in ROWS for side in SIDES}
    for number in range(ROUNDS):
        for side in SIDES[number % 3:] + SIDES[:number % 3]:
            close = attached(pair, side)
            cost(ROWS["TCP, 50 connections"], address) # the rest of the server's start is over
            for row, words in ROWS.items():
                costs[row, side].append(cost(words, address))
            close()
    other.stop()
    pair.close()
    show(" ".join((cable,) + offloads), costs)


def show(name, costs):
    for row in ROWS:
        none, passes, ours = (statistics.median(costs[row, side]) for side in SIDES)
        spread = max(max(costs[row, side]) / min(costs[row, side]) for side in SIDES) - 1
        tap.ok(True, "%s: %s: %.0f ns without, %.3f with one that passes, %.3f with ours "
               "(of each other %.3f; rounds differ by %.3f)" %
               (name, row, none, none / passes, none / ours, passes / ours, spread))


@tap.case
def without_offloads():
    measure("plain")


@tap.case
def with_offloads():
    measure("queues")


@tap.case
def with_offloads_switched_off():
    measure("queues", "rx-gro-hw", "off")


@tap.case
def vmxnet3():
    measure("vmxnet3")


tap.run(600)
