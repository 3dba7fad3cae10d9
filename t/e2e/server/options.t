#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command line: the effect of each option, and which values are refused with which message
and status."""
import os
import pwd
import re
import socket
import subprocess

import child
import client
import server
import tap

USAGE, OSERR, NOUSER = 64, 71, 67
ROOT = os.geteuid() == 0


def refused(arguments, status, words):
    got, _, error = server.run(*(["-p", "0", "-U", server.free_port(), "-l", "127.0.0.1"] +
                                 list(arguments)))
    name = " ".join(arguments)
    tap.is_(got, status, "%s: status %d" % (name, status))
    tap.like(error, words, "%s: says %s" % (name, words))


def settings_of(*arguments):
    with server.Server(*arguments) as memcached:
        return memcached.stats("settings")


@tap.case
def help_version_license():
    for option in ("-h", "--help"):
        status, out, error = server.run(option)
        tap.is_((status, error), (0, ""), option + " succeeds")
        for word in ("-p, --port", "-U, --udp-port", "-s, --unix-socket", "-t, --threads",
                     "-X, --disable-dumping", "bmc="):
            tap.ok(word in out, "%s shows %s" % (option, word))
    for option in ("-V", "--version"):
        status, out, _ = server.run(option)
        tap.is_(status, 0, option + " succeeds")
        tap.like(out, r"\Amemcached 1\.5\.19\S*\n\Z", option + " prints the version")
    status, out, _ = server.run("-i")
    tap.is_(status, 0, "-i succeeds")
    tap.like(out, "BSD", "-i prints the license")


@tap.case
def unknown_options():
    refused(["-Q"], 1, r'Illegal argument "\?"')
    refused(["--nonsense"], 1, r'Illegal argument "\?"')
    refused(["-o", "nonsense"], 1, 'Illegal suboption "nonsense"')
    with server.Server("stray", "operands") as memcached:
        tap.ok(memcached.alive(), "stray operands are ignored")


@tap.case
def numbers_out_of_range():
    refused(["-t", "0"], 1, "Number of threads must be greater than 0")
    refused(["-t", "abc"], 1, "Number of threads must be greater than 0")
    refused(["-c", "0"], 1, "Maximum connections must be greater than 0")
    refused(["-c", "-1"], 1, "Maximum connections must be greater than 0")
    refused(["-t", "205"], 1, "Maxconns setting is too low, use -c to increase")
    refused(["-R", "0"], 1, "Number of requests per event must be greater than 0")
    refused(["-f", "1.0"], 1, "Factor must be greater than 1")
    refused(["-f", "abc"], 1, "Factor must be greater than 1")
    refused(["-n", "0"], 1, "Chunk size must be greater than 0")
    refused(["-I", "512"], USAGE, "Item max size cannot be less than 1024 bytes")
    refused(["-I", "abc"], USAGE, "Item max size cannot be less than 1024 bytes")
    refused(["-I", "40m"], USAGE, "Cannot set item size limit higher than 1/2 of memory max")
    refused(["-m", "4096", "-I", "1025m"], USAGE,
            "Cannot set item size limit higher than a gigabyte|Cannot set item size limit")
    refused(["-B", "nonsense"], USAGE, "Invalid value for binding protocol: nonsense")
    if ROOT:
        refused(["-u", "no-such-user-x"], NOUSER, "can't find the user no-such-user-x to switch to")


@tap.case
def suboptions_out_of_range():
    refused(["-o", "hashpower=5"], 1, "Initial hashtable multiplier of 5 is too low")
    refused(["-o", "hashpower=99"], 1, "Initial hashtable multiplier of 99 is too high")
    refused(["-o", "hashpower"], 1, "Missing numeric argument for hashpower")
    refused(["-o", "idle_timeout"], 1, "Missing numeric argument for idle_timeout")
    refused(["-o", "hot_lru_pct=90"], 1, "hot_lru_pct must be > 1 and < 80")
    refused(["-o", "warm_lru_pct=0"], 1, "warm_lru_pct must be > 1 and < 80")
    refused(["-o", "hot_lru_pct=50,warm_lru_pct=50"], USAGE,
            "hot_lru_pct \\+ warm_lru_pct cannot be more than 80% combined")


@tap.case
def addresses_and_ports():
    status, _, error = server.run("-p", server.free_port(), "-l", "192.0.2.1")
    tap.is_(status, OSERR, "an address of another machine: status 71")
    tap.like(error, "failed to listen on", "the message has the reason")
    status, _, error = server.run("-p", server.free_port(), "-l", "256.1.1.1")
    tap.is_(status, OSERR, "a malformed address: status 71")
    busy = socket.create_server(("127.0.0.1", 0))
    status, _, error = server.run("-p", busy.getsockname()[1], "-U", "0", "-l", "127.0.0.1")
    tap.is_(status, OSERR, "a port in use: status 71")
    tap.like(error, "Address already in use", "the message has the reason")
    status, _, error = server.run("-p", busy.getsockname()[1], "-U", "0")
    tap.is_(status, OSERR, "without -l a port in use for IPv4 alone is enough: status 71")
    tap.like(error, "Address already in use", "the message has the reason")
    busy.close()
    status, _, error = server.run("-p", "0", "-U", "0", "-l", "127.0.0.1", "-p", "99999")
    tap.ok(status not in (None, 0), "port 99999 is refused")


@tap.case
def several_addresses():
    port, second = server.free_port(), server.free_port()
    for listen in ("127.0.0.1,127.0.0.2", "127.0.0.1;127.0.0.2"):
        with server.Server("-l", listen, "-p", port, "-U", port, "-t", "2", "-u", server.USER,
                           plain=True, port=port) as memcached:
            memcached.stream().set(b"k", b"v")
            other = server.client.tcp("127.0.0.2", port)
            tap.is_(other.get(b"k"), b"v", "-l %s listens on both over TCP" % listen)
            tap.is_(server.client.Udp("127.0.0.2", port).get(b"k"), b"v",
                    "-l with two addresses listens on both over UDP")
    with server.Server("-l", "127.0.0.1", "-l", "127.0.0.2:%d" % second, "-p", port, "-U", "0",
                       "-u", server.USER, plain=True, port=port) as memcached:
        other = server.client.tcp("127.0.0.2", second)
        tap.is_(other.set(b"k", b"v"), b"STORED\r\n", "-l HOST:PORT, and -l more than once")
    with server.Server("-l", "[::1]:%d" % second, "-l", "127.0.0.1:%d" % port, "-u", server.USER,
                       "-U", "0", plain=True, port=port) as memcached:
        other = server.client.tcp("::1", second)
        tap.is_(other.set(b"k", b"v"), b"STORED\r\n", "-l [V6]:PORT")


@tap.case
def the_udp_port_moves_the_tcp_port():
    port = server.free_port()
    with server.Server("-U", port, "-l", "127.0.0.1", "-u", server.USER, plain=True,
                       port=port) as memcached:
        tap.is_(memcached.stats("settings")["tcpport"], str(port),
                "-U without -p sets the TCP port, too")
        tap.is_(memcached.udp().ask(b"get none\r\n"), b"END\r\n", "it answers over UDP")


@tap.case
def the_port_file():
    path = os.path.join(server.scratch(), "ports")
    arguments = ["-p", "-1", "-U", "-1", "-l", "127.0.0.1", "-t", "2", "-u", server.USER]
    memcached = child.Child(server.command_line(arguments), "the server",
                            {"MEMCACHED_PORT_FILENAME": path})
    try:
        tap.ok(server.wait_for(lambda: os.path.exists(path)), "MEMCACHED_PORT_FILENAME is written")
        with open(path, encoding="ascii") as file:
            text = file.read()
        tap.like(text, r"\ATCP INET: \d+\n(UDP INET: \d+\n)+\Z", "it has a line for each socket")
        tap.ok(not os.path.exists(path + ".lck"), "its .lck is removed")
        ports = {kind: int(port) for kind, port in re.findall(r"(\w+) INET: (\d+)", text)}
        c = server.client.tcp("127.0.0.1", ports["TCP"])
        c.set(b"k", b"v")
        tap.is_(c.get(b"k"), b"v", "the TCP port in it answers")
        tap.is_(server.client.Udp("127.0.0.1", ports["UDP"]).get(b"k"), b"v",
                "the UDP port in it answers")
        settings = c.stats("settings")
        tap.is_(len(set(re.findall(r"UDP INET: (\d+)", text))), 1,
                "all UDP sockets have the same ephemeral port")
        tap.ok(settings["udpport"] is not None, "stats settings has a udpport")
    finally:
        memcached.kill()


@tap.case
def a_repeated_address():
    with server.Server("-l", "127.0.0.2", "-l", "127.0.0.1", "-l", "127.0.0.2") as memcached:
        tap.is_(memcached.stats("settings")["inter"], "127.0.0.1,127.0.0.2",
                "-l with an address that an earlier -l names adds nothing")
        there = client.tcp("127.0.0.2", memcached.port)
        tap.like(there.ask(b"version\r\n").decode(), r"\AVERSION ", "the server listens there")


@tap.case
def the_pid_file():
    path = os.path.join(server.scratch(), "pid")
    with server.Server("-P", path) as memcached:
        with open(path, encoding="ascii") as file:
            tap.is_(file.read(), "%d\n" % memcached.pid, "-P writes the pid")
        tap.is_(memcached.stats()["pid"], str(memcached.pid), "stats has the same pid")


@tap.case
def the_user():
    if not ROOT:
        return
    status, _, error = server.run("-p", server.free_port(), "-l", "127.0.0.1", user=False)
    tap.is_(status, USAGE, "root without -u: status 64")
    tap.like(error, "can't run as root without the -u switch", "the message has the reason")
    nobody = pwd.getpwnam("nobody")
    with server.Server("-u", "nobody") as memcached:
        with open("/proc/%d/status" % memcached.pid, encoding="ascii") as file:
            text = file.read()
        tap.like(text, r"^Uid:(\t%d){4}$" % nobody.pw_uid, "-u changes all user ids")
        tap.like(text, r"^Gid:(\t%d){4}$" % nobody.pw_gid, "-u changes all group ids")
        tap.like(text, r"^CapEff:\t0+$", "no capability is left")


@tap.case
def options_show_in_the_settings():
    for arguments, key, want in (
            (("-m", "100"), "maxbytes", "104857600"), (("-c", "77"), "maxconns", "77"),
            (("-t", "3"), "num_threads", "3"), (("-R", "5"), "reqs_per_event", "5"),
            (("-b", "99"), "tcp_backlog", "99"), (("-f", "1.5"), "growth_factor", "1.50"),
            (("-n", "96"), "chunk_size", "96"), (("-M",), "evictions", "off"),
            (("-C",), "cas_enabled", "no"), (("-F",), "flush_enabled", "no"),
            (("-v",), "verbosity", "1"), (("-vv",), "verbosity", "2"),
            (("-I", "2m"), "item_size_max", "2097152"), (("-I", "1536k"), "item_size_max",
                                                         "1572864"),
            (("-o", "hashpower=18"), "hashpower_init", "18"),
            (("-o", "idle_timeout=33"), "idle_timeout", "33"),
            (("-o", "no_lru_maintainer"), "lru_maintainer_thread", "no"),
            (("-o", "no_maxconns_fast"), "maxconns_fast", "no"),
            (("-o", "hot_lru_pct=30,warm_lru_pct=31"), "warm_lru_pct", "31"),
            (("-X",), "dump_enabled", "no"), (("--disable-dumping",), "dump_enabled", "no"),
            (("-X", "-v"), "dump_enabled", "no"), (("-Xv",), "verbosity", "1"),
            (("-Xv",), "dump_enabled", "no"), (("-o", "relaxed_privileges"), "evictions", "on")):
        tap.is_(settings_of(*arguments).get(key), want,
                "%s: %s is %s" % (" ".join(arguments), key, want))
    tap.is_(settings_of("-X", "-v")["verbosity"], "1", "-X -v does not take -v for its argument")


@tap.case
def long_options():
    for arguments, key, want in (
            (("--memory-limit=100",), "maxbytes", "104857600"),
            (("--conn-limit=77",), "maxconns", "77"),
            (("--max-reqs-per-event=7",), "reqs_per_event", "7"),
            (("--listen-backlog=88",), "tcp_backlog", "88"),
            (("--slab-growth-factor=1.4",), "growth_factor", "1.40"),
            (("--slab-min-size=64",), "chunk_size", "64"),
            (("--max-item-size=2m",), "item_size_max", "2097152"),
            (("--disable-evictions", "--disable-cas", "--disable-flush-all", "--verbose"),
             "evictions", "off"),
            (("--extended=hashpower=17",), "hashpower_init", "17")):
        tap.is_(settings_of(*arguments).get(key), want,
                "%s: %s is %s" % (" ".join(arguments), key, want))


# The message of a build with --disable-bmc instead of the interface's name.
MISSING = "none77|has no kernel path"


@tap.case
def numbers_have_their_effect():
    def threads(memcached):
        return len(os.listdir("/proc/%d/task" % memcached.pid))

    with server.Server(threads=1) as one, server.Server(threads=7) as seven:
        tap.is_(threads(seven) - threads(one), 6, "-t is the number of workers")
    with server.Server("-b", "77") as memcached:
        listed = subprocess.run(["ss", "-Hltn", "sport = :%d" % memcached.port],
                                capture_output=True, text=True, check=True).stdout
        tap.is_(listed.split()[2], "77", "-b is the kernel's backlog")
    for arguments, level in ((("-o", "hashpower=14"), 14), (("-o", "hashpower=12"), 12)):
        with server.Server(*arguments) as memcached:
            tap.is_(memcached.stats()["hash_power_level"], str(level),
                    "%s is the table's size at the start" % arguments[1])

    def level_after(*arguments):
        with server.Server("-o", "hashpower=12", *arguments) as s, s.stream() as c:
            c.send(b"".join(b"set k%05d 0 0 1 noreply\r\nx\r\n" % i for i in range(20000)))
            c.set(b"k", b"v")
            stats = c.stats()
            return int(stats["hash_power_level"]), stats["curr_items"]

    tap.ok(level_after()[0] > 12, "the table grows")
    tap.is_(level_after("-o", "no_hashexpand"), (12, "20001"),
            "no_hashexpand: the table does not grow, and holds all items")


@tap.case
def the_option_for_the_kernel_path():
    for arguments in (["-X", "bmc=none77"], ["-o", "bmc=none77"], ["-X", "-X", "bmc=none77"],
                      ["-Xbmc=none77"]):
        status, _, error = server.run(*(["-p", "0", "-U", server.free_port(), "-l", "127.0.0.1"] +
                                        arguments))
        tap.ok(status not in (None, 0) and status > 0,
               "%s: a missing interface ends the start" % " ".join(arguments))
        tap.like(error, MISSING, "the message names it")
    for arguments, words in ((["-X", "bmc="], "bmc"), (["-X", "bmc=lo,mode=nonsense"],
                                                       "mode|nonsense"),
                             (["-X", "bmc=lo,nonsense"], "nonsense|bmc"),
                             (["-X", "bmc=lo,stall=1"], "stall.*2 to 86400"),
                             (["-o", "bmc="], "bmc"), (["-o", "bmc"], "bmc")):
        status, _, error = server.run(*(["-p", "0", "-U", server.free_port(), "-l", "127.0.0.1"] +
                                        arguments))
        tap.ok(status not in (None, 0) and status > 0, "%s is refused" % " ".join(arguments))
        tap.like(error, words, "the message names the word")
    port = server.free_port()
    status, _, error = server.run("-p", port, "-U", "0", "-l", "127.0.0.1", "-X", "bmc=lo")
    tap.ok(status not in (None, 0), "the kernel path without a UDP port is refused")
    tap.like(error, "(?i)udp|-U", "the message has the reason")
    with server.Server("-X", "bmc=none77,optional") as memcached:
        tap.is_(memcached.udp().ask(b"get none\r\n"), b"END\r\n",
                "with `optional` the server starts without the kernel path")
        tap.like(memcached.log(), MISSING, "the log has the reason")


@tap.case
def locked_memory_and_huge_pages():
    def locked(memcached):
        with open("/proc/%d/status" % memcached.pid, encoding="ascii") as file:
            return int(re.search(r"VmLck:\s+(\d+) kB", file.read()).group(1))

    def of_its_own(memcached):
        """Locked mappings without a file; the program's own may be locked, in a cgroup."""
        with open("/proc/%d/smaps" % memcached.pid, encoding="utf-8") as file:
            return re.findall(r"^\S+-\S+ \S+ \S+ \S+ 0 [^\n]*\n(?:[A-Z]\w+:[^\n]*\n)*?"
                              r"VmFlags:[^\n]* lo\b", file.read(), re.M)

    with server.Server() as memcached:
        tap.is_(of_its_own(memcached), [], "without -k no memory is locked")
    ignored = server.is_sanitized() # it makes mlockall do nothing
    with server.Server("-k") as memcached, memcached.stream() as c:
        tap.is_(c.set(b"k", b"v" * 100000), b"STORED\r\n", "-k serves")
        tap.ok(of_its_own(memcached) or "mlockall" in memcached.log() or ignored,
               "-k locks memory, or logs that it may not (%d kB)" % locked(memcached))
    if os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled"):
        with server.Server("-L", "-m", "64") as memcached, memcached.stream() as c:
            tap.is_(c.set(b"k", b"v"), b"STORED\r\n", "-L serves")
            tap.is_(c.get(b"k"), b"v", "the stored item is found")
    else:
        status, _, error = server.run("-L", "-p", server.free_port(), "-l", "127.0.0.1")
        tap.ok(status not in (None, 0), "-L is refused where the kernel has no huge pages")
        tap.like(error, "(?i)huge|large", "the message has the reason")
    with server.Server("-r") as memcached:
        with open("/proc/%d/limits" % memcached.pid, encoding="ascii") as file:
            text = file.read()
        soft, hard = re.search(r"Max core file size\s+(\S+)\s+(\S+)", text).groups()
        tap.is_(soft, hard, "-r raises the limit of core files to what is allowed")


@tap.case
def signals_end_the_server():
    for signum in (15, 2):
        memcached = server.Server()
        c = memcached.stream()
        c.set(b"k", b"v")
        memcached.signal(signum)
        tap.is_(memcached.wait(), 0,
                "signal %d ends the server with status 0, with connections open" % signum)


@tap.case
def sighup_does_not_end_it():
    with server.Server() as memcached, memcached.stream() as c:
        c.set(b"k", b"v")
        for _ in range(3):
            memcached.signal(1)
            tap.is_(c.get(b"k"), b"v", "after SIGHUP the connection is still served")


@tap.case
def limits_of_the_system():
    few = ["prlimit", "--nofile=50:50"]
    if ROOT:
        few += ["setpriv", "--reuid", server.USER, "--clear-groups", "--bounding-set", "-all"]
    status, _, error = server.run("-c", "1000", "-p", server.free_port(), "-l", "127.0.0.1",
                                  prefix=few, user=False)
    tap.is_(status, OSERR, "more connections than files may be open: status 71")
    tap.like(error, "failed to set rlimit for open files", "the message has the reason")


tap.run()
