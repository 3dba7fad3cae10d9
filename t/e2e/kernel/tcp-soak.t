#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: all
"""Connections through a bad network, of which every byte is known, while all that leads to an undo
happens to them at random: routes move, interfaces flap, programs are detached, rules of the
firewall come and go, the kernel path is switched off and on, the server stands still, or is
restarted. T_SOAK: for how many seconds, 600 by default; T_SEED: of the events, which is printed;
T_WITHOUT: for comparison with a server without -X. How many undos were there is printed, too."""
import contextlib
import os
import random
import signal
import tempfile
import time

import cable
import netns
import server
import tap
import undone
from lostway import Machine, cut, cut_xdp

SECONDS = float(os.environ.get("T_SOAK", "600"))
SEED = int(os.environ.get("T_SEED", time.time_ns() % 1000000))
KERNEL_PATH = "T_WITHOUT" not in os.environ
ROUND = min(60, SECONDS / 4) # seconds of one server, at the most
CONNECTIONS = 400
FAULTS = ("--loss", 0.002, "--duplicate", 0.01, "--reorder", 0.01, "--jitter", 1, "--corrupt",
          0.002)
COUNTED = ("operations", "wrong", "reset", "hangs")
# A port whose reset was lost would be used again while its server has the last connection.
WORDS = (*undone.MIX, "--reuse", 0, "--timeout", 150 * tap.SLOW)
CLIENT = {"tcp_rto_max_ms": 1000, "tcp_retries2": 255}
SERVER = {"tcp_orphan_retries": 100}
DETACHED_EVERY = 25 # seconds: an interface that is detached three times in a minute is given up


# --- what happens ----------------------------------------------------------------------------

def off_and_on(m, load, _rng):
    undone.at_home(m, b"bmc off\r\n")
    load.goes_on(1)
    undone.at_home(m, b"bmc on\r\n")


def a_route_moves(m, load, rng):
    m.move(*rng.choice([way[:2] for way in undone.WAYS]))
    load.goes_on(rng.choice((0.1, 1)))
    m.move_back()


def an_interface_flaps(m, load, rng):
    """Without the cable, which would wait for an interface that takes no frames."""
    m.pair.unplug(0)
    m.server_ip("link", "set", "sv0", "down")
    if rng.random() < 0.5:
        load.ends_up_silent()
    m.server_ip("link", "set", "sv0", "up")
    m.pair.plug(0)


def programs_are_detached(m, _load, rng):
    if rng.random() < 0.5:
        cut_xdp(m)
    else:
        cut(m, rng.choice((("egress",), ("ingress",), ("ingress", "egress"))))


def the_firewall_drops(m, load, rng):
    chain = rng.choice(("input", "output"))
    netns.sh("nft", "add table inet t; add chain inet t c { type filter hook %s priority 0; }; "
             "add rule inet t c tcp %sport %d drop" % (chain, "sd"[chain == "input"], m.port),
             namespace=m.pair.server)
    load.ends_up_silent()
    netns.sh("nft", "delete table inet t", namespace=m.pair.server)


def the_firewall_is_loaded(m, load, _rng):
    """Rules without conntrack: with it, and frames that are damaged and late, connections of a
    server without -X hang as well."""
    netns.sh("nft", "add table inet f; add chain inet f c { type filter hook input priority 0; "
             "policy drop; }; add rule inet f c iifname lo accept; "
             "add rule inet f c meta l4proto { icmp, ipv6-icmp } accept; "
             "add rule inet f c tcp dport %d accept" % m.port, namespace=m.pair.server)
    load.goes_on(1)
    netns.sh("nft", "delete table inet f", namespace=m.pair.server)


def the_server_stands_still(m, load, rng):
    m.pause()
    load.ends_up_silent(rng.choice((0.1, 1)))
    m.resume()


EVENTS = (a_route_moves, a_route_moves, an_interface_flaps, the_firewall_drops,
          the_firewall_is_loaded, the_server_stands_still)
if KERNEL_PATH:
    EVENTS += (off_and_on, off_and_on, programs_are_detached)


def patient_pair():
    """A client that sends in vain while one event follows another tries again a second later at
    the most (since Linux 6.15), so that there is a load. A server does not: Linux forgets a socket
    that is closed, and tells its client nothing, as soon as it tries as seldom as it ever does."""
    pair = cable.Pair(*FAULTS, links=2)
    for namespace, values in ((pair.client, CLIENT), (pair.server, SERVER)):
        for name, value in values.items():
            with contextlib.suppress(RuntimeError):
                netns.sh("sysctl", "-qw", "net.ipv4.%s=%d" % (name, value), namespace=namespace)
    return pair


class Load(undone.Load):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.events = []

    def ends_up_silent(self, seconds=2):
        """For so long at the most: some connections wait for nothing."""
        server.wait_for(lambda: undone.are_silent(self.m), seconds / tap.SLOW, every=0.05)


class Sum(dict):
    last = None # how the last server has ended

    def add(self, rows):
        for key, n in rows.items():
            self[key] = self.get(key, 0) + n


# --- one server ------------------------------------------------------------------------------

def undos(m):
    """Without those at the server's end."""
    rows = m.control.stats("bmc") if KERNEL_PATH else {}
    found = {key: int(n) for key, n in rows.items()
             if key.startswith("tcp_undone_") or key in ("tcp_answered", "tcp_reset")}
    return {"undos": sum(n for key, n in found.items() if key.startswith("tcp_undone_")), **found}


def happen(m, load, rng, end, happened):
    detached = 0
    while time.monotonic() < end and load.alive():
        event = rng.choice(EVENTS)
        if event is programs_are_detached:
            if time.monotonic() < detached + DETACHED_EVERY:
                continue
            detached = time.monotonic()
        begin = time.monotonic()
        event(m, load, rng)
        happened.add({event.__name__: 1})
        load.events.append("%s %.1f s before the end, %.1f s" % (
            event.__name__, end - begin, time.monotonic() - begin))
        if not load.goes_on(rng.choice((2, 5, 20))) or not load.alive():
            tap.diag("nothing comes after %s" % event.__name__)
            return False
    return True


def one_server(v6, at_once, rng, end, memory, total, happened):
    """False: something is wrong. It ends by SIGTERM in the middle of everything (at_once), or by
    SIGUSR1 when each connection has what it has asked for."""
    kept = b"1" if happened.last == "SIGUSR1" else None
    with Machine(v6=v6, options=("-e", memory), pair=patient_pair(),
                 kernel_path=KERNEL_PATH) as m:
        is_kept = m.control.get(b"kept") == kept
        m.control.set(b"kept", b"1")
        netns.sh("sysctl", "-qw", "net.ipv6.conf.all.keep_addr_on_down=1", namespace=m.pair.server)
        load = Load(m, *WORDS, connections=CONNECTIONS)
        goes_on = happen(m, load, rng, min(end, time.monotonic() + ROUND), happened)
        found = {} if at_once else load.ends()
        # Linux forgets a connection that is not accepted when it has no route to answer it:
        # "unanswered" in the log.
        found["reset"] = load.log().count("broken: ")
        rows = undos(m)
        if at_once:
            # A reset that is lost is not sent again.
            m.pair.unplug(0)
            m.pair.plug(0, "--jitter", 1)
            load.goes_on(1)
            m.stop()
            found.update(load.ends())
        else:
            m.signal(signal.SIGUSR1)
            m.wait()
    total.add(rows)
    happened.last = "SIGTERM" if at_once else "SIGUSR1"
    happened.add({happened.last: 1})
    total.add({key: found.get(key, 0) for key in COUNTED})
    if goes_on and is_kept and (found.get("wrong"), found.get("hangs")) == (0, 0) and \
            found["reset"] <= rows.get("tcp_reset", 0):
        return True
    tap.diag("IPv%d, memory %s: %s %s" % (6 if v6 else 4, is_kept, found, rows))
    tap.diag("\n".join(load.events[-20:]))
    tap.diag(load.log() + m.log())
    return False


def soak(v6):
    rng, end = random.Random("%d %s" % (SEED, v6)), time.monotonic() + SECONDS * tap.SLOW
    total, happened = Sum(), Sum()
    right, at_once = True, v6
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chmod(folder, 0o777)
        while right and time.monotonic() < end - ROUND / 4:
            at_once = not at_once
            right = one_server(v6, at_once, rng, end, folder + "/memory", total, happened)
    return right, total, happened


@tap.case
def everything_at_random():
    tap.diag("T_SEED=%d" % SEED)
    for v6, (right, total, happened) in zip((False, True), tap.at_once(soak, (False, True))):
        tap.diag(happened)
        tap.diag(total)
        tap.ok(right and total["wrong"] == total["hangs"] == 0,
               "IPv%d: no byte is wrong, nothing hangs, and what is reset has a reason" %
               (6 if v6 else 4))
        tap.ok(not KERNEL_PATH or (total["tcp_undone_lost"] > 0 and total["tcp_undone_off"] > 0),
               "connections were undone")
        tap.ok({"SIGTERM", "SIGUSR1"} <= happened.keys(), "the server ended in either way")


tap.run(int(300 + 2 * SECONDS))
