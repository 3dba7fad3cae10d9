#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench/answer, which shows what AF_XDP would bring: its replies are right, whichever way a request
came, and none is lost for want of a place in the ring.
"""
import json
import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "lib"))
import netns
import server
import tap

BENCH = os.path.join(os.environ.get("BUILDDIR", os.getcwd()), "bench")
RING = 2048 # requests that have a place
KEYS = 500


class Answer:
    def __init__(self, pair, by, size):
        words = ["--by", by, "--interface", "sv0", "--keys", str(KEYS), "--value-size", str(size)]
        self.process = subprocess.Popen(
            ["nsenter", "--net=/run/netns/" + pair.server, os.path.join(BENCH, "answer"), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("answer --by %s does not start" % by)

    def counted(self):
        """Which way its answers took; it ends."""
        told = json.loads(self.process.communicate(timeout=30 * tap.SLOW)[0])
        return told["by_ring"], told["by_sockets"], told["dropped"]


def start_load(pair, size, count, depth, sockets=1):
    """Gets whose replies are compared byte for byte."""
    words = ["--json", "--verify", "--keys", str(KEYS), "--value-size", str(size), "--count",
             str(count), "--depth", str(depth), "--sockets", str(sockets), "--dist", "turn",
             "--timeout", "30000", "--seconds", "60", pair.address() + ":11211"]
    return subprocess.Popen(
        ["nsenter", "--net=/run/netns/" + pair.client, os.path.join(BENCH, "udpload"), *words],
        stdout=subprocess.PIPE, text=True)


def told(load):
    """Answered, wrong and lost."""
    result = json.loads(load.communicate(timeout=90 * tap.SLOW)[0])
    return result["answered"], result["wrong"], result["lost"]


def waits_in_socket(pair):
    """Whether datagrams wait for the server."""
    with netns.inside(pair.server), open("/proc/thread-self/net/udp", encoding="ascii") as file:
        rows = [line.split() for line in file][1:]
    return any(row[1].endswith(":2BCB") and int(row[4].split(":")[1], 16) for row in rows)


@tap.case
def right_bytes():
    pair = netns.Pair()
    for by in ("sockets", "segments", "ring"):
        for size in (0, 250, 2746, 25000):
            answer = Answer(pair, by, size)
            tap.is_(told(start_load(pair, size, 1000, 4)), (1000, 0, 0),
                    "%s, %d bytes: 1,000 replies, each as it should be" % (by, size))
            tap.is_(answer.counted(), (1000, 0, 0) if by == "ring" else (0, 1000, 0),
                    "%s, %d bytes: all of them that way" % (by, size))
    pair.close()


@tap.case
def a_full_ring():
    pair = netns.Pair()
    answer = Answer(pair, "ring", 32)
    answer.process.send_signal(signal.SIGSTOP)
    load = start_load(pair, 32, RING + 1000, RING + 1000)
    tap.ok(server.wait_for(lambda: waits_in_socket(pair)),
           "what finds the ring full goes up the stack to the socket")
    answer.process.send_signal(signal.SIGCONT)
    tap.is_(told(load), (RING + 1000, 0, 0), "all are answered")
    by_ring, by_sockets, dropped = answer.counted()
    tap.ok(by_ring >= RING and by_sockets > 0 and by_ring + by_sockets == RING + 1000,
           "by the ring %d, by the socket %d" % (by_ring, by_sockets))
    tap.is_(dropped, 0, "no reply is dropped")
    pair.close()


@tap.case
def down_and_up():
    pair = netns.Pair()
    answer = Answer(pair, "ring", 32)
    for state in ("down", "up"):
        netns.sh("ip", "link", "set", "sv0", state, namespace=pair.server)
    tap.is_(told(start_load(pair, 32, 500, 4)), (500, 0, 0), "down and up: all are answered")
    tap.is_(answer.counted(), (500, 0, 0), "by the ring")
    pair.close()


@tap.case
def killed():
    pair = netns.Pair()
    answer = Answer(pair, "ring", 32)
    answer.process.kill()
    answer.process.communicate()
    tap.is_(netns.xdp_mode("sv0", pair.server), None, "killed: no program stays attached")
    answer = Answer(pair, "ring", 32)
    tap.is_(told(start_load(pair, 32, 500, 4)), (500, 0, 0), "the next one answers")
    tap.is_(answer.counted(), (500, 0, 0), "by the ring")
    pair.close()


tap.run()
