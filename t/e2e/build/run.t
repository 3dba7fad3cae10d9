#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""./run and the systemd units: what a new user and an operator start."""
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap

import client
import kernel
import netns
import server
import tap

SRCDIR = os.environ["SRCDIR"]
BUILDDIR = os.path.abspath(os.environ.get("BUILDDIR") or os.path.join(SRCDIR, "build"))
ROOT = os.geteuid() == 0
CAP_BPF = 39
AF_XDP = 44


def script(*arguments, **options):
    environment = dict(os.environ, BUILDDIR=BUILDDIR, DEMO_SECONDS="0.05")
    return subprocess.Popen([os.path.join(SRCDIR, arguments[0]), *arguments[1:]],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=environment, **options)


def finish(process, seconds=190):
    output, _ = process.communicate(timeout=seconds)
    return process.returncode, output.decode("latin-1")


def answers(port):
    try:
        control = client.tcp("127.0.0.1", port)
        reply = control.ask(b"version\r\n")
        control.close()
        return reply.startswith(b"VERSION ")
    except (ConnectionError, client.Closed):
        return False


@tap.case
def nothing_is_missing():
    for what in ("run", "demo", "check"):
        tap.is_(finish(script("tools/packages", what)), (0, ""),
                "no package that %s needs is missing here" % what)
    status, _ = finish(script("tools/packages", "walk"))
    tap.is_(status, 2, "an unknown list of packages is an error")


@tap.case
def help_describes_every_command():
    for name, words in (("run", "--demo"), ("check", "--sanitize")):
        _, text = finish(script(name, "--help"))
        tap.like(text, re.escape(words), "./%s --help names %s" % (name, words))


@tap.case
def run_starts_the_server():
    port = server.free_port()
    process = script("run", "-l", "127.0.0.1", "-p", str(port), "-U", str(port))
    try:
        tap.ok(server.wait_for(lambda: process.poll() is not None or answers(port), 45),
               "./run with options starts the server with them")
        tap.ok(process.poll() is None, "the server keeps running")
        text = b""
        while b"Ctrl-C" not in text:
            text += process.stdout.readline()
        lines = re.findall(r"^    .*", text.decode(), re.M)
        done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True,
                              check=True, timeout=30 * tap.SLOW)
        tap.like(done.stdout, r"^STORED\nVALUE k 0 5\nhello\nEND\nSTAT bmc_enabled ",
                 "it prints how to store over TCP, get over UDP and see the statistics")
    finally:
        process.send_signal(signal.SIGTERM)
        text = text.decode() + finish(process)[1]
    tap.like(text, r"/dev/tcp/127\.0\.0\.1/%d" % port, "it prints how to connect to it")
    if ROOT:
        tap.like(text, r"-u nobody", "as root it adds the user to run as")


def namespaces(process):
    """Network namespaces that a demo has made and not removed."""
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return re.findall(r"^mb%d[sc]\b.*" % process.pid, done.stdout, re.M)


def has_ended(group):
    """Whether no process of the group is left."""
    try:
        os.killpg(group, 0)
        return False
    except ProcessLookupError:
        return True


@tap.case
def the_demo_measures_and_cleans_up():
    process = script("tools/demo", BUILDDIR)
    status, text = finish(process)
    if not ROOT or not on_lo():
        tap.is_(status, 1, "without root, or without the kernel path, there is no demo")
        return
    tap.is_(status, 0, "the demo ends with status 0")
    for row in ("TCP: CPU time of the server", "TCP: gets a second", "TCP: one get at a time",
                "UDP: CPU time of the server", "UDP: answers a second", "UDP: one get at a time"):
        tap.like(text, r"(?m)^\| %s[^|]+\| +[\d.,]+ \| +[\d.,]+ \|" % row,
                 "it measures both servers: " + row)
    tap.like(text, r" 0 wrong;", "all replies are right")
    tap.is_(len(re.findall(r"\d times (?:less|as many) \|", text)),
            0 if "too busy" in text else 6, "it prints ratios, or that the machine is too busy")
    tap.is_(namespaces(process), [], "its network namespaces are removed")


@tap.case
def the_demo_can_be_interrupted():
    if not ROOT or not on_lo():
        return
    for signum in signal.SIGINT, signal.SIGTERM:
        process = script("tools/demo", BUILDDIR, start_new_session=True)
        text = b""
        while b"round 1" not in text:
            line = process.stdout.readline()
            if not line:
                break
            text += line
        tap.is_(len(namespaces(process)), 2, "the demo has begun to measure")
        if signum == signal.SIGINT: # as from the terminal: to the whole group
            os.killpg(process.pid, signum)
        else:
            process.send_signal(signum)
        status, _ = finish(process)
        tap.is_((status, namespaces(process)), (130, []),
                "%s ends it, and its network namespaces are removed" % signum.name)
        tap.ok(server.wait_for(lambda: has_ended(process.pid)), "its processes have ended")


def unit_text(name="memcached.service"):
    with open(os.path.join(SRCDIR, "packaging", name + ".in"), encoding="utf-8") as unit:
        return unit.read().replace("@bindir@", "/usr/local/bin")


def under_the_unit(*words, **options):
    """A server with the unit's capabilities and no others."""
    rows = re.findall(r"^CapabilityBoundingSet=(.*)$", unit_text(), re.M)
    wanted = " ".join(rows).lower().replace("cap_", "").split()
    prefix = ("setpriv", "--bounding-set", "-all," + ",".join("+" + c for c in wanted),
              "--inh-caps", "-all", "--no-new-privs")
    return server.Server(*words, prefix=prefix, **options)


def on_lo():
    with open(os.path.join(BUILDDIR, "config.h"), encoding="utf-8") as config:
        return ("-X", "bmc=lo") if "#define ENABLE_BMC 1" in config.read() else ()


def users_folder():
    """As the unit makes its own."""
    path = os.path.join(server.scratch(), "state")
    os.mkdir(path, 0o755)
    os.chown(path, pwd.getpwnam(server.USER).pw_uid, 0)
    return path


@tap.case
def the_unit_allows_what_the_kernel_path_needs():
    if not ROOT:
        tap.diag("not root: a capability cannot be taken away")
        return
    with under_the_unit(*on_lo()) as memcached, memcached.stream() as c:
        tap.is_(c.ask(b"set k 0 0 1\r\nv\r\n"), b"STORED\r\n",
                "the server starts with the unit's capabilities and no others")
        with open("/proc/%d/status" % memcached.pid, encoding="utf-8") as status:
            sets = dict(re.findall(r"^Cap(\w+):\s*(\w+)$", status.read(), re.M))
        tap.is_(int(sets["Eff"], 16) & ~(1 << CAP_BPF), 0,
                "while it serves it has none of them, except the one by which its heap grows")
        tap.ok(not on_lo() or int(sets["Bnd"], 16) == 0, "it can gain none")


@tap.case
def the_unit_allows_the_options_that_it_names():
    if not ROOT:
        return
    path = os.path.join(users_folder(), "items")
    with under_the_unit("-e", path, "-P", path + ".pid", *on_lo()) as memcached:
        memcached.stream().set(b"kept", b"v")
        tap.ok(os.path.exists(path + ".pid"), "-P writes where the user may write")
        memcached.signal(signal.SIGUSR1)
        memcached.wait()
    with under_the_unit("-e", path, *on_lo()) as memcached:
        tap.is_(memcached.stream().get(b"kept"), b"v",
                "-e takes over the items that the last server left")
    with under_the_unit(unix=os.path.join(users_folder(), "sock")) as memcached:
        tap.is_(memcached.stream().set(b"k", b"v"), b"STORED\r\n", "-s creates its socket there")


@tap.case
def systemd_accepts_the_units():
    if not shutil.which("systemd-analyze"):
        tap.diag("there is no systemd here")
        return
    for name, more in (("memcached.service", ""), ("bmc.service", ""),
                       ("memcached.service", drop_in())):
        with tempfile.TemporaryDirectory() as where:
            path = os.path.join(where, name)
            with open(path, "w", encoding="utf-8") as copy:
                copy.write(re.sub("/usr/local/bin/[a-z]+", "/bin/true", unit_text(name)))
            os.mkdir(path + ".d")
            with open(os.path.join(path + ".d", "more.conf"), "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(more))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", path],
                                  capture_output=True, text=True, check=False)
        tap.is_((done.returncode, done.stderr), (0, ""),
                "systemd-analyze finds nothing wrong in %s%s" % (name, more and ", with rings"))


def drop_in():
    """What the document tells to add to a unit for xsk=on."""
    with open(os.path.join(SRCDIR, "doc/kernel-path/reference.md"), encoding="utf-8") as file:
        return re.search(r"`systemctl edit memcached`.*:\n\n((?:    .*\n)+)", file.read()).group(1)


def granted_by(text):
    """Words before a command that give it the capabilities and families of a unit's settings."""
    rows = re.findall(r"^ *(\w+)=(.*)$", text, re.M)
    words = {name: " ".join(value for key, value in rows if key == name).split()
             for name in ("CapabilityBoundingSet", "RestrictAddressFamilies")}
    rules = [] if "AF_XDP" in words["RestrictAddressFamilies"] else [
        {"names": ["socket"], "errnoRet": 97, "action": "SCMP_ACT_ERRNO",
         "args": [{"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": 0xffffffff,
                   "valueTwo": AF_XDP}]}]
    path = os.path.join(server.scratch(), "families.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump({"defaultAction": "SCMP_ACT_ALLOW", "defaultErrnoRet": 1, "syscalls": rules},
                  file)
    return (sys.executable, os.path.join(SRCDIR, "t/lib/seccomp.py"), path, "setpriv",
            "--no-new-privs", "--inh-caps", "-all", "--bounding-set", "-all," + ",".join(
                word.lower().replace("cap_", "+") for word in words["CapabilityBoundingSet"]))


@tap.case
def the_documents_drop_in_allows_rings():
    if not ROOT or not on_lo():
        return
    pair = netns.Pair()
    netns.enter(pair.client)
    for name in "packaging/memcached.service.in", "packaging/debian/memcached.service":
        with open(os.path.join(SRCDIR, name), encoding="utf-8") as file:
            unit = file.read()
        status, _, error = server.run("-l", "0.0.0.0", "-p", 21211, "-U", 21211, "-X",
                                      "bmc=sv0,xsk=on", namespace=pair.server,
                                      prefix=granted_by(unit))
        tap.is_(status, 71, "%s does not allow xsk=on" % name)
        tap.like(error, "RestrictAddressFamilies=AF_XDP", "and the server says what to add")
        for line in drop_in().splitlines()[1:2]: # a queue's 8 MB are those that all may lock
            status, _, _ = server.run("-l", "0.0.0.0", "-p", 21211, "-U", 21211, "-X",
                                      "bmc=sv0,xsk=on", namespace=pair.server,
                                      prefix=granted_by(unit + drop_in().replace(line, "")))
            tap.is_(status, 71, "nor without " + line.strip())
        with server.Server("-X", "bmc=sv0,xsk=on", namespace=pair.server, host=pair.address(),
                           listen="0.0.0.0", prefix=granted_by(unit + drop_in())) as memcached:
            kernel.meet(pair.address(), memcached.port)
            udp = memcached.udp()

            def by_ring(udp=udp, memcached=memcached):
                answer = udp.ask(b"version\r\n")
                return answer.startswith(b"VERSION") and \
                    int(memcached.stats("bmc")["xsk_sent"]) > 0
            tap.ok(server.wait_for(by_ring), "with the document's drop-in it serves by a ring")
    pair.close()


tap.run()
