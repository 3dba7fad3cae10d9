#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""`stats bmc`: the reference and the manual have exactly its keys; `stats reset`."""
import os
import re

import kernel
import netns
import server
import tap

SRCDIR = os.environ["SRCDIR"]
# States, not counts of events.
STATE = {"bmc_enabled", "mode", "interfaces", "IFACE:xdp", "IFACE:tc", "IFACE:before",
         "IFACE:servers", "IFACE:state", "addresses_ipv4", "addresses_ipv6",
         "macs", "vlans", "left_out", "ports_left_out", "bypass", "allow", "allow_prefixes",
         "rate", "burst", "amplification"}
# The table's memory is mapped ahead of its use, at any time.
GROWING = {"extents", "table_extents"}

m = kernel.Machines()


def source(path):
    with open(os.path.join(SRCDIR, path), encoding="utf-8") as file:
        return file.read()


def keys(rows):
    return {re.sub("^sv0:", "IFACE:", key) for key in rows}


@tap.case
def all_keys_are_documented():
    printed = keys(m.tcp.stats("bmc"))
    table = source("doc/kernel-path/reference.md").split("| `stats bmc` | |\n")[1].split("\n\n")[0]
    page = {key for row in table.splitlines()
            for key in re.findall("`([^`]+)`", row.split(" | ")[0])}
    tap.is_(sorted(page - printed), ["reason"], "the reference has no other key but `reason`")
    tap.is_(sorted(printed - page), [], "the reference has every key")
    part = source("doc/memcached.1.in").split(".Ss Its statistics\n")[1].split(".El\n")[0]
    manual = {"IFACE:" + key for key in re.findall(r"^\.It Ar if Ns Cm :(\w+)$", part, re.M)}
    manual |= set(re.findall(r"^\.It Cm (\w+)$", part, re.M))
    tap.is_(sorted(manual), sorted(page), "the manual has the same keys")


@tap.case
def without_the_kernel_path_there_is_one_key():
    with server.Server() as plain:
        tap.is_(plain.stats("bmc"), {"bmc_enabled": "no"}, "bmc_enabled says no")


@tap.case
def reset_sets_every_counter_to_0():
    m.tcp.set(b"foo", b"bar")
    for request in (b"get foo\r\n", b"get none\r\n", b"gets foo\r\n", b"version\r\n"):
        m.udp.ask(request)
    netns.ip("link set sv0 mtu 1400", m.pair.server)
    before = m.tcp.stats("bmc")
    tap.ok(all(int(before[key]) for key in ("packets_seen", "keys", "hits", "misses", "bytes_read",
                                            "bytes_written", "pass_command")),
           "requests have been counted")
    m.tcp.ask(b"stats reset\r\n")
    after = m.tcp.stats("bmc")
    tap.is_({key: value for key, value in after.items()
             if keys([key]).isdisjoint(STATE | GROWING) and value != "0"}, {},
            "all counters are 0 again")
    tap.is_([after[key] for key in sorted(after) if not keys([key]).isdisjoint(STATE)],
            [before[key] for key in sorted(before) if not keys([key]).isdisjoint(STATE)],
            "settings and attachments are as before")
    tap.ok(all(int(after[key]) >= int(before[key]) for key in GROWING),
           "the memory is as before, or has grown")
    server.wait_for(lambda: m.by_kernel(b"get none\r\n")[1])
    m.udp.ask(b"get foo\r\n")
    tap.is_(int(m.tcp.stats("bmc")["hits"]), 1, "counters go on counting")


@tap.case
def reset_sets_stalls_to_0():
    with kernel.Machines(mode="native,stall=3") as still:
        still.server.pause()
        # Twice in a row: a single answer may be late.
        server.wait_for(lambda: still.silent(b"get foo\r\n") and still.silent(b"get foo\r\n"))
        still.server.resume()
        tap.ok(server.wait_for(lambda: int(still.tcp.stats("bmc")["stalls"]) == 1),
               "a stall is counted")
        still.tcp.ask(b"stats reset\r\n")
        tap.is_(still.tcp.stats("bmc")["stalls"], "0", "after the reset it is not")


@tap.case
def it_ends_cleanly():
    m.stop()
    tap.ok(not re.search("(?i)error|fail", m.server.log()), "the log has no error")


tap.run()
