#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What doc/containers.md says: five capabilities and the seccomp profile are enough for the kernel
path, and what the server says without each of them. No container runtime is needed."""
import json
import os
import re
import shutil
import sys

import kernel
import netns
import server
import tap

SRCDIR = os.environ["SRCDIR"]
FOLDER = os.path.join(SRCDIR, "packaging", "container")
SECCOMP = os.path.join(SRCDIR, "t", "lib", "seccomp.py")
PROFILE = os.path.join(FOLDER, "seccomp.json")
FIVE = ["bpf", "net_admin", "perfmon", "setuid", "setgid"]

if not shutil.which("setpriv"):
    tap.skip_all("setpriv is missing")
if os.geteuid() != 0:
    tap.skip_all("the kernel path needs root")


def text(name):
    with open(os.path.join(FOLDER, name), encoding="ascii") as file:
        return file.read()


def prefix(capabilities=FIVE, profile=PROFILE):
    """Words before a command that give it these capabilities and this profile."""
    return [sys.executable, SECCOMP, profile, "setpriv",
            "--no-new-privs", "--inh-caps", "-all",
            "--bounding-set", ",".join(["-all"] + ["+" + name for name in capabilities])]


def refusal(machine, before=None, user=True, **options):
    """How it ends, and its last line."""
    port = server.free_port(machine.server)
    status, _, err = server.run("-p", port, "-U", port, "-X", "bmc=sv0", namespace=machine.server,
                                prefix=before or prefix(**options), user=user)
    return status, (err.splitlines() or [""])[-1]


def filtered(**rule):
    """Words before a command that put it behind a filter with this rule alone."""
    path = os.path.join(server.scratch(), "profile.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump({"defaultAction": "SCMP_ACT_ALLOW", "defaultErrnoRet": 1,
                   "syscalls": [dict(rule, action="SCMP_ACT_ERRNO")]}, file)
    return [sys.executable, SECCOMP, path]


@tap.case
def five_capabilities_and_the_profile_are_enough():
    for more in ((), ("-o", "drop_privileges") if server.is_built_with("drop_privileges") else ()):
        with kernel.Machines(*more, prefix=prefix()) as m:
            m.tcp.set(b"foo", b"bar")
            m.same(b"get foo\r\n", kernel.answer((b"foo", b"bar")), " ".join(more) or "a hit")
            value = b"v" * 50000
            for i in range(1000):
                m.tcp.send(b"set key%d 0 0 50000 noreply\r\n%s\r\n" % (i, value))
            m.tcp.set(b"last", b"value")
            m.same(b"get last\r\n", kernel.answer((b"last", b"value")), "after the heap has grown")


@tap.case
def each_refusal_is_said():
    machine = netns.Pair()
    for name in "bpf", "net_admin", "perfmon":
        status, line = refusal(machine, capabilities=[other for other in FIVE if other != name])
        tap.is_(status, 71, "without CAP_%s it does not start" % name.upper())
        tap.is_(line, "bmc: cannot load the kernel programs: the bounding set lacks CAP_%s, so "
                "root lacks it too: in a systemd unit add CapabilityBoundingSet=CAP_%s "
                "(AmbientCapabilities= is not enough), to a container --cap-add=%s" %
                ((name.upper(),) * 3), "and says what is to be added, and where")
    status, line = refusal(machine, capabilities=["setuid", "setgid"])
    tap.like(line, "CapabilityBoundingSet=CAP_BPF CAP_NET_ADMIN CAP_PERFMON .*"
             "--cap-add=BPF --cap-add=NET_ADMIN --cap-add=PERFMON$",
             "without all three it names all three, in words that docker run takes")
    for name, message in (("setuid", "failed to assume identity of user nobody: Operation not"),
                          ("setgid", "failed to drop supplementary groups")):
        status, line = refusal(machine, capabilities=[other for other in FIVE if other != name])
        tap.is_(status, 71, "without CAP_%s it does not start" % name.upper())
        tap.like(line, message, "and says why")
    machine.close()


@tap.case
def a_profile_without_bpf_is_named():
    profile = json.loads(text("seccomp.json"))
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name != "bpf"]
    path = os.path.join(server.scratch(), "profile.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump(profile, file)
    machine = netns.Pair()
    status, line = refusal(machine, profile=path)
    tap.is_(status, 71, "it does not start")
    tap.like(line, "^bmc: a seccomp filter forbids bpf.*seccomp=FILE.*SystemCallFilter=bpf$",
             "the line names seccomp, and what to do")
    for code, text_ in (1, "Operation not permitted"), (38, "Function not implemented"):
        status, line = refusal(machine, before=filtered(names=["bpf"], errnoRet=code))
        tap.like(line, r"^bmc: a seccomp filter forbids bpf\(2\) \(%s\): .*SystemCallFilter=bpf$" %
                 text_, "so it does where the filter says %s" % text_)
    machine.close()


@tap.case
def a_filter_of_address_families_is_named():
    machine = netns.Pair()
    netlink = [{"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": 0xffffffff, "valueTwo": 16}]
    for code in 97, 1:
        status, line = refusal(machine, before=filtered(names=["socket"], errnoRet=code,
                                                        args=netlink))
        tap.is_(status, 71, "without AF_NETLINK it does not start (%s)" % os.strerror(code))
        tap.like(line, r"^bmc: .*AF_NETLINK \(%s\).*RestrictAddressFamilies=AF_NETLINK" %
                 os.strerror(code), "the line names the unit's option")
    machine.close()


@tap.case
def another_user_is_told_to_start_as_root():
    machine = netns.Pair()
    status, line = refusal(machine, user=False, before=[
        "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "-all"])
    tap.is_((status, line), (71, "bmc: cannot load the kernel programs without CAP_BPF, "
                             "CAP_NET_ADMIN, CAP_PERFMON: start as root (with -u USER), or grant "
                             "them (in a systemd unit: AmbientCapabilities=CAP_BPF CAP_NET_ADMIN "
                             "CAP_PERFMON)"), "a user without capabilities")
    machine.close()


@tap.case
def with_sys_admin_in_place_of_bpf():
    """As Docker 20.10 starts it: the programs can be loaded, and further maps not made."""
    few = prefix(["sys_admin" if name == "bpf" else name for name in FIVE])
    with kernel.Machines("-m", "100", prefix=few) as m:
        m.tcp.set(b"foo", b"bar")
        m.same(b"get foo\r\n", kernel.answer((b"foo", b"bar")), "a hit")
        for i in range(1000):
            m.tcp.send(b"set key%d 0 0 50000 noreply\r\n%s\r\n" % (i, b"v" * 50000))
        m.tcp.ask(b"version\r\n")
        server.logged(m.server, "the cache stays at")
        tap.like(m.server.log(), r"bmc: without CAP_BPF the kernel makes no further map "
                 r"\(Operation not permitted\): the cache stays at \d+ MB; with -L",
                 "the log says what lacks")


@tap.case
def the_profile_forbids_new_namespaces():
    status, _, err = server.run(prefix=prefix() + ["unshare", "--net"], user=False)
    tap.ok(status != 0, "unshare fails")
    tap.like(err, "not permitted", "because it is not permitted")


@tap.case
def the_daemonset_runs_what_the_pod_runs():
    pod = text("pod.yaml").split("\nspec:\n")[1]
    daemonset = text("daemonset.yaml").split("    spec:\n")[1]
    tap.is_(re.sub(r"(?m)^    ", "", re.sub(r" *nodeSelector: .*\n", "", daemonset)), pod,
            "their containers are the same")
    for name in ("pod.yaml", "daemonset.yaml", "compose.yaml"):
        added = re.search(r"(?:cap_)?add: \[(.*)\]", text(name)).group(1)
        tap.is_(added.lower().split(", "), FIVE, "%s adds the five capabilities" % name)


tap.run()
