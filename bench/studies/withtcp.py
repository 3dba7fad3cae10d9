# SPDX-License-Identifier: BSD-3-Clause
"""What studies/paper measures with TCP: a bulk transfer beside load (12), half of the requests over
TCP, over CPUs (14)."""

import contextlib
import json
import os
import socket
import subprocess
import threading
import time

from figures import CORES, CORES_WORK, LOAD_WORK, Layout, cores_layout
from lab import Receiving, inside
from table import number, print_table, ratio

CPUS = os.cpu_count()

BULK_LOADS = [0, 50, 100, 200, 500, 1000] # thousand requests a second
BULK_VARIANTS = ["sr", "debian", "chain", "in-place"]
BULK_PORT = 5001
BULK_BYTES = 10e9 # the paper's, whose time the rate says
# The last CPU is the machine, CPU 0 the clients'.
BULK_LAYOUT = Layout("receiving in turn", 1, CPUS - 1, CPUS - 1, False, [])
PIECE = 1 << 20

HALF_VARIANTS = ["sr", "debian", "chain", "in-place", "in-place-tcp"]
PILED_US = 50000
HALF_RATES = [10, 20, 40, 60, 80, 120] # thousand a second for a CPU, of each half


class Transfer:
    """Sends as fast as it goes, from the clients' CPU to the machine's."""

    def __init__(self, bench, pair):
        with bench.lab.socket_in_server() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((pair.server_ip, BULK_PORT))
            listener.listen()
            with inside(bench.lab.client):
                self.sender = socket.create_connection((pair.server_ip, BULK_PORT), 10)
            self.receiver, _ = listener.accept()
        self.received = 0
        self.threads = [threading.Thread(target=each) for each in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    def send(self):
        os.sched_setaffinity(0, [0])
        piece = bytes(PIECE)
        with contextlib.suppress(OSError):
            while True:
                self.sender.sendall(piece)

    def receive(self):
        os.sched_setaffinity(0, [CPUS - 1])
        piece = bytearray(PIECE)
        while True:
            count = self.receiver.recv_into(piece)
            if not count:
                return
            self.received += count

    def close(self):
        self.sender.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.sender.close()
        self.receiver.close()


def measure_bulk(bench, name, rate):
    server, seconds = bench.servers[name], bench.options.window
    load = bench.lab.start_live(
        server.pair, server.port, "--keys", str(LOAD_WORK.keys), "--dist", LOAD_WORK.dist,
        "--rate", f"{rate}k", "--warmup", "0.3", "--seconds", str(seconds + 0.2),
        path="veth") if rate else None
    with contextlib.closing(Transfer(bench, server.pair)) as transfer:
        time.sleep(0.5) # the load has begun, and the transfer has its rate
        begin, before = time.monotonic(), transfer.received
        time.sleep(seconds)
        each = (transfer.received - before) / (time.monotonic() - begin)
    if each:
        bench.samples.add(12, name, rate, "seconds", value=BULK_BYTES / each)
    if load:
        out, _ = load.communicate(timeout=20)
        bench.samples.add(12, name, rate, "answered", value=json.loads(out)["answered_per_second"])


def measure_transfers(bench):
    names = bench.there(BULK_VARIANTS)
    bench.place(BULK_LAYOUT, names)
    with contextlib.ExitStack() as stack:
        for name in names:
            pair = bench.servers[name].pair
            for namespace, interface, cpu, how in (
                    (bench.lab.server, pair.server_if, CPUS - 1, Receiving.TURN),
                    (bench.lab.client, pair.client_if, 0, Receiving.FIRST)):
                receiving = stack.enter_context(
                    contextlib.closing(Receiving(namespace, interface, cpu)))
                Receiving.schedule(receiving.threads, how)
        for _ in range(bench.options.rounds):
            for rate in BULK_LOADS:
                for name in names:
                    measure_bulk(bench, name, rate)
                    bench.progress.step(f"figure 12, {1000 * rate:,} a second, {name}")


def half_each(bench, name, layout, rate, seconds):
    """What is answered in a second if both halves come at this rate: twice the lesser; and whether
    those over TCP do not pile up."""
    variant, server = bench.variants[name], bench.servers[name]
    over_tcp = bench.lab.client.start(
        ["taskset", "-c", f"0-{layout.generators - 1}", bench.lab.tool("tcpload"), "--json",
         "--connections", str(50 * layout.generators), "--threads", str(layout.generators),
         "--keys", str(CORES_WORK.keys), "--dist", CORES_WORK.dist, "--rate", f"{rate}k",
         "--seconds", str(seconds + 0.4), server.address], stdout=subprocess.PIPE)
    over_udp = bench.lab.live(
        server.pair, server.port, "--keys", str(CORES_WORK.keys), "--dist", CORES_WORK.dist,
        "--cpus", str(layout.generators), "--rate", f"{rate}k", "--seconds", str(seconds),
        *([] if variant.chain or variant.bmc else ["--pass"]))
    out, _ = over_tcp.communicate(timeout=20)
    result = json.loads(out)
    answered = 2 * min(result["answered_per_second"], over_udp["answered_per_second"])
    return answered, result["p50_us"] <= PILED_US


def best_half(bench, name, layout):
    """The rate at which most is answered; the least one, where requests pile up at all."""
    most, best = 0, HALF_RATES[0] * layout.generators
    for rate in HALF_RATES:
        answered, good = half_each(bench, name, layout, rate * layout.generators,
                                   bench.options.search)
        if good and answered > most:
            most, best = answered, rate * layout.generators
    return best


def measure_halves(bench):
    for cpus in CORES:
        layout = cores_layout(cpus)
        names = bench.there(f"{name}@{cpus}" for name in HALF_VARIANTS)
        bench.place(layout, names)
        best = {}
        for name in names:
            best[name] = best_half(bench, name, layout)
            bench.progress.step("looking for rates")
        for _ in range(bench.options.rounds):
            for name, rate in best.items():
                bench.samples.add(14, cpus, name.split("@")[0], "rate", value=half_each(
                    bench, name, layout, rate, bench.options.window)[0])
                bench.progress.step(f"figure 14, {layout.label}, {name}")


def report_transfers(samples, labels):
    rows = []
    for name in BULK_VARIANTS:
        cells = [(samples.median(12, name, rate, "seconds"),
                  samples.median(12, name, rate, "answered")) for rate in BULK_LOADS]
        if any(seconds for seconds, _ in cells):
            rows.append([labels[name], *[f"{number(seconds, 1)} ({number(answered)})"
                                         for seconds, answered in cells]])
    print_table(["figure 12: seconds for 10 GB over TCP (answered/s)",
                 *[f"{1000 * rate:,} gets/s" for rate in BULK_LOADS]], rows)


def report_halves(samples, labels):
    rows = []
    for name in HALF_VARIANTS:
        rates = [samples.median(14, cpus, name, "rate") for cpus in CORES]
        if any(rates):
            rows.append([labels[name], *[
                f"{number(rate)} ({number(ratio(rate, samples.median(14, cpus, 'sr', 'rate')), 2)})"
                for rate, cpus in zip(rates, CORES)]])
    print_table(["figure 14: answered/s, half of it over TCP (times a socket per thread)",
                 *[f"{cpus} CPU{'s' * (cpus > 1)}" for cpus in CORES]], rows)
