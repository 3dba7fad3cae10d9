#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A place in libxdp's dispatcher: the server takes one behind another program and releases it at
its end.

For t/kernels/run: this needs freplace, which some kernels are built without.
"""
import json
import os
import re

import client
import kernel
import netns
import server
import tap
from kernel import answer

client.SECONDS *= tap.SLOW # loading takes long without KVM
OTHER = kernel.beside("t/kernels/other.bpf.o")
FOLDER = "/sys/fs/bpf/xdp"


def loader(pair, *words):
    return netns.sh("xdp-loader", *words, namespace=pair.server)


def programs(pair):
    """The names in the dispatcher, in the order of the run."""
    lines = loader(pair, "status", "sv0").splitlines()
    return [line.split()[2] for line in lines if line.startswith(" =>")]


def bpftool(*words):
    return json.loads(netns.sh("bpftool", "-j", *words))


def maps(name):
    return [row["id"] for row in bpftool("map") if row.get("name") == name]


def seen():
    """Packets that the other program has seen, wherever it is attached."""
    rows = [bpftool("map", "dump", "id", number)[0] for number in maps("other_seen")]
    return sum(int.from_bytes(bytes(int(byte, 16) for byte in row["value"]), "little")
               for row in rows)


def members():
    """Our links: one for each mc_member in a dispatcher."""
    names = {row["id"]: row.get("name") for row in bpftool("prog")}
    return [row["id"] for row in bpftool("link") if names.get(row["prog_id"]) == "mc_member"]


def gone(machine):
    """Nothing that is attached after a server's death keeps its maps."""
    return server.wait_for(lambda: not maps("mc_memory")) and silent(machine)


def silent(machine):
    udp = client.Udp(machine.host, machine.port, 1)
    try:
        return udp.ask(b"get k\r\n") is None
    except (TimeoutError, ConnectionRefusedError):
        return True
    finally:
        udp.close()


def start(pair, words="bmc=sv0"):
    machine = server.Server("-X", words, namespace=pair.server, host=pair.address(),
                            listen="0.0.0.0")
    control = machine.stream()
    control.set(b"k", b"v")
    control.close()
    return machine


def served(machine, name, how="answered_xdp"):
    udp = client.Udp(machine.host, machine.port)
    udp.ask(b"version\r\n") # the kernel knows the return path
    before, others = int(machine.stats("bmc")[how]), seen()
    tap.is_(udp.ask(b"get k\r\n"), answer((b"k", b"v")), "%s: answered" % name)
    tap.is_(int(machine.stats("bmc")[how]) - before, 1, "%s: the kernel answers it" % name)
    tap.ok(seen() > others, "%s: the other program saw the request" % name)
    udp.close()


def refused(pair, mode, error):
    """Newer kernels require of a dispatcher what libxdp's has only from 1.5.5 on."""
    release = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])
    tap.ok(release >= (6, 12), "%s: only kernels from 6.12 on refuse a place" % mode)
    tap.like(error, "sv0: libxdp's dispatcher is attached and does not accept the "
             r"program: .*changes packet data.* \(libxdp 1.5.5 is needed\); "
             "mode=tc works beside it",
             "%s: the refusal names the version of libxdp" % mode)
    tap.is_(programs(pair), ["other_pass"], "%s: the dispatcher still has the other program" % mode)
    with start(pair, "bmc=sv0,mode=tc") as machine:
        served(machine, "%s: mode=tc" % mode, "answered_tc")


def by(mode):
    """The counter of the answers to a socket of this host, which sends partial checksums."""
    return "answered_tc" if mode == "skb" else "answered_xdp"


def joined(pair, mode, machine):
    tap.like(machine.log(), "(?m)^bmc: sv0: XDP %s in libxdp's dispatcher, TC ingress" %
             ("generic" if mode == "skb" else "native"),
             "%s: the server takes a place in the dispatcher" % mode)
    tap.is_(programs(pair), ["other_pass", "mc_member"], "the server's program is behind the other")
    served(machine, mode, by(mode))
    tap.is_(len(members()), 1, "one link")
    machine.kill()
    tap.ok(server.wait_for(lambda: not members()), "kill -9: the server's link is detached")
    tap.ok(gone(machine), "its memory is freed, and no program answers")
    tap.is_(programs(pair)[0], "other_pass", "the dispatcher still has the other program")


def joined_again(pair, mode):
    machine = start(pair)
    tap.is_(programs(pair), ["other_pass", "mc_member"],
            "the next server frees the place of the dead one and takes a place")
    served(machine, "again", by(mode))
    loader(pair, "load", "-m", mode, "sv0", OTHER)
    tap.is_(sorted(programs(pair)), ["mc_member", "other_pass", "other_pass"],
            "the dispatcher takes a third program while the server runs")
    served(machine, "with three", by(mode))
    machine.kill()
    tap.ok(gone(machine),
           "kill -9 after libxdp has made the server's link anew: nothing is left of the server")
    machine = start(pair)
    served(machine, "a new server", by(mode))
    tap.is_(machine.stop(), 0, "SIGTERM")
    tap.ok(server.wait_for(lambda: not members()), "SIGTERM: the server's link is detached")
    tap.ok(gone(machine), "no program answers")
    tap.is_(programs(pair)[0], "other_pass", "the dispatcher still has the others")


def beside(mode):
    pair = netns.Pair(1)
    netns.enter(pair.client)
    try:
        loader(pair, "load", "-m", mode, "sv0", OTHER)
    except RuntimeError as error:
        tap.skip_all("no dispatcher: %s" % error)
    tap.is_(programs(pair), ["other_pass"], "%s: the dispatcher has the other program" % mode)
    try:
        machine = start(pair)
    except RuntimeError as error:
        refused(pair, mode, str(error))
    else:
        joined(pair, mode, machine)
        joined_again(pair, mode)
    loader(pair, "unload", "-a", "sv0")
    tap.is_(netns.xdp_mode("sv0", pair.server), None, "%s: libxdp unloads all programs" % mode)
    with start(pair) as machine:
        tap.like(machine.log(), "(?m)^bmc: sv0: XDP native, TC",
                 "without a dispatcher the server attaches its program itself")
    folders = [name for name in os.listdir(FOLDER) if name.startswith("dispatch")]
    tap.is_(folders, [], "%s: libxdp's folder is empty" % mode)
    pair.close()


@tap.case
def generic():
    beside("skb")


@tap.case
def native():
    beside("native")


@tap.case
def replies_that_the_driver_loses():
    """A veth does once its other end has no program. The dispatcher keeps generic XDP away."""
    pair = netns.Pair(1)
    netns.enter(pair.client)
    loader(pair, "load", "-m", "native", "sv0", OTHER)
    try:
        machine = start(pair)
    except RuntimeError as error:
        tap.like(str(error), "libxdp 1.5.5 is needed", "refused, as all programs are")
    else:
        state = lambda: [machine.stats("bmc")["sv0:" + key] for key in ("xdp", "tc", "state")]
        served(machine, "in the dispatcher")
        os.close(pair.passes.pop())
        tap.ok(server.wait_for(lambda: not silent(machine) and
                               state() == ["none", "yes", "up"]), "TC answers beside it")
        served(machine, "without a program at the other end", "answered_tc")
        tap.is_(members(), [], "the server has left the dispatcher,")
        tap.is_(programs(pair)[0], "other_pass", "which has the other program")
        tap.like(machine.log(), "(?m)another mode answers until the server is restarted$",
                 "the log says so")
        pair.passes.append(netns.attach_pass("cl0", pair.client))
        served(machine, "with a program again", "answered_tc")
        machine.stop()
    loader(pair, "unload", "-a", "sv0")
    pair.close()


@tap.case
def the_chain():
    pair = netns.Pair(1)
    netns.enter(pair.client)
    loader(pair, "load", "-m", "native", "sv0", OTHER)
    try:
        machine = start(pair, "bmc=sv0,mode=chain,settle=50,maxage=60000")
    except RuntimeError as error:
        tap.like(str(error), "sv0: libxdp's dispatcher is attached and does not accept the "
                 r"program: .*\(libxdp 1.5.5 is needed\)$",
                 "the chain: refused, as all programs are")
    else:
        tap.is_(programs(pair), ["other_pass", "mc_member"],
                "the chain takes a place behind the other program")
        udp = client.Udp(machine.host, machine.port)
        tap.ok(server.wait_for(lambda: udp.ask(b"get k\r\n") == answer((b"k", b"v")) and
                               int(machine.stats("bmc")["hits"]) > 0), "it answers")
        machine.kill()
        tap.ok(server.wait_for(lambda: not members()), "kill -9: the chain's link is detached")
        tap.ok(server.wait_for(lambda: not maps("mc_buckets")), "its memory is freed")
    loader(pair, "unload", "-a", "sv0")
    pair.close()


@tap.case
def a_file_system_that_may_not_be_written():
    """As a unit's ProtectKernelTunables= makes /sys/fs/bpf. Newer kernels refuse the place before
    anything is written there."""
    pair = netns.Pair(1)
    netns.enter(pair.client)
    port = server.free_port(pair.server)
    loader(pair, "load", "-m", "native", "sv0", OTHER)
    _, _, error = server.run(
        "-p", port, "-U", port, "-X", "bmc=sv0", namespace=pair.server,
        prefix=["unshare", "--mount", "sh", "-c",
                'mount -o remount,bind,ro /sys/fs/bpf && exec "$@"', "sh"])
    tap.like(error, "sv0: libxdp's dispatcher is attached and does not accept the program: "
             "(/sys/fs/bpf, .*ProtectKernelTunables=no.*|.*changes packet data.*); mode=tc works",
             "the refusal names the option")
    loader(pair, "unload", "-a", "sv0")
    pair.close()


tap.run()
