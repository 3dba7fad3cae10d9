#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The parts of the build tree that memcached's own test suite uses: the programs at its top, and
the command line and the statistics that it reads before and between its tests."""
import os
import re
import signal
import subprocess

import child
import server
import tap

BUILD = os.path.abspath(os.environ.get("BUILDDIR", "."))
ROOT = os.geteuid() == 0


def run(*arguments, seconds=150):
    done = subprocess.run([os.path.join(BUILD, arguments[0])] + [str(a) for a in arguments[1:]],
                          cwd=BUILD, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=seconds, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@tap.case
def the_programs_exist():
    for name in ("memcached-debug", "timedrun", "sizes", "testapp"):
        tap.ok(os.access(os.path.join(BUILD, name), os.X_OK),
               "%s is at the top of the build tree" % name)
    status, out, _ = run("sizes")
    tap.is_(status, 0, "sizes succeeds")
    tap.like(out, r"^struct mc_item\s+\d+$", "sizes lists our structures")


@tap.case
def testapp_passes():
    status, out, error = run("testapp")
    tap.is_(status, 0, "testapp succeeds")
    tap.like(out, r"\n1\.\.\d+\n", "testapp prints TAP")
    tap.ok(not re.search("^not ok", out, re.M), "without a failure")
    if status:
        tap.diag(out + error)


@tap.case
def timedrun_runs_a_program():
    tap.is_(run("timedrun", 30, "sh", "-c", "echo $0 $1; exit 7", "a", "b c"), (7, "a b c\n", ""),
            "timedrun passes arguments, output and status on")
    tap.is_(run("timedrun", 30, "sh", "-c", "kill -9 $$")[0], 128 + 9,
            "a program that a signal ends: 128 and its number")
    tap.is_(run("timedrun", 30, "/nonexistent")[0], 127, "no program: 127")
    for wrong in ((), ("30",), ("x", "true"), ("0", "true"), ("3s", "true")):
        status, _, error = run("timedrun", *wrong)
        tap.is_(status, 64, "timedrun %s: status 64" % " ".join(wrong))
        tap.like(error, r"\Ausage: timedrun", "timedrun without arguments prints its usage")
    tap.is_(run("timedrun", "0.1", "sleep", 1000)[0], 128 + 15,
            "at its timeout it ends the program with SIGTERM")


def shell(script):
    """A shell under timedrun that has printed `ready`."""
    timedrun = child.Child([os.path.join(BUILD, "timedrun"), "60", "sh", "-c", script], "timedrun",
                           stdout=subprocess.PIPE)
    timedrun.process.stdout.readline()
    return timedrun


@tap.case
def timedrun_passes_signals_on():
    for number, name in ((15, "TERM"), (1, "HUP"), (2, "INT"), (10, "USR1")):
        timedrun = shell("trap 'echo got %s; exit 3' %s; echo ready; "
                         "while :; do sleep 0.02; done" % (name, name))
        timedrun.signal(number)
        tap.is_((timedrun.process.stdout.read(), timedrun.wait(20)),
                (b"got %s\n" % name.encode(), 3), "SIG%s reaches the program" % name)
    timedrun = shell("echo ready; echo $$; exec sleep 1000")
    program = int(timedrun.process.stdout.readline())
    timedrun.kill()
    tap.ok(server.wait_for(lambda: not os.path.exists("/proc/%d" % program)),
           "when timedrun is killed the program ends, too")


def debug_server(*arguments):
    """Starts a server as memcached's suite does. Returns timedrun and a client."""
    port = server.free_port()
    command = ["./timedrun", "600", "./memcached-debug", "-p", port, "-U", port, "-l",
               "127.0.0.1"] + (["-u", "root"] if ROOT else [])
    timedrun = child.Child(command + list(arguments), "timedrun", cwd=BUILD)
    clients = []

    def connects():
        try:
            clients.append(server.client.tcp("127.0.0.1", port))
        except ConnectionError:
            pass
        return clients or not timedrun.alive()

    server.wait_for(connects, server.START_SECONDS)
    return timedrun, clients[0]


def end(timedrun, number=signal.SIGINT):
    timedrun.signal(number)
    return timedrun.wait(20)


@tap.case
def the_debug_program_under_timedrun():
    timedrun, c = debug_server("-o", "relaxed_privileges")
    tap.is_(c.set(b"k", b"v"), b"STORED\r\n", "./timedrun 600 ./memcached-debug answers")
    tap.ok(int(c.stats()["pid"]) != timedrun.pid, "the server has a pid of its own")
    tap.is_(end(timedrun), 0, "SIGINT to timedrun ends the server with status 0")
    timedrun, _ = debug_server("-o", "relaxed_privileges")
    tap.is_(end(timedrun, signal.SIGUSR1), 0, "SIGUSR1 too")


@tap.case
def tiny_and_huge_limits_start():
    for arguments in (("-m", "2"), ("-m", "3"), ("-m", "4"), ("-m", "4098"), ("-M", "-m", "2")):
        timedrun, c = debug_server(*arguments)
        tap.is_(c.set(b"k", b"v"), b"STORED\r\n", "%s starts and stores" % " ".join(arguments))
        end(timedrun)


@tap.case
def more_than_4_gigabytes_are_counted_right():
    os.environ.update(T_MEMD_INITIAL_MALLOC="4294967328", T_MEMD_SLABS_ALLOC="0")
    try:
        timedrun, c = debug_server("-m", "4098")
    finally:
        del os.environ["T_MEMD_INITIAL_MALLOC"], os.environ["T_MEMD_SLABS_ALLOC"]
    stats, slabs = c.stats(), c.stats("slabs")
    tap.is_((stats["limit_maxbytes"], slabs["total_malloced"], slabs["active_slabs"]),
            ("4297064448", "4294967328", "0"), "T_MEMD_INITIAL_MALLOC presets the allocated memory")
    for i in range(10):
        c.set(b"k%d" % i, b"v" * 400000)
    stats, slabs = c.stats(), c.stats("slabs")
    tap.is_(slabs["total_malloced"], "4296015904", "one page is left below the limit")
    tap.is_((stats["curr_items"], stats["total_items"], stats["evictions"]), ("2", "10", "8"),
            "two of ten items fit, the others are evicted")
    end(timedrun)


@tap.case
def the_help_shows_the_features():
    _, text, _ = server.run("-h")
    settings = server.Server()
    known = settings.stats("settings")
    settings.stop()
    for word, key in (("no_drop_privileges", "drop_privileges"), ("enable-ssl", "ssl_enabled"),
                      ("ext_path", "ext_item_size")):
        tap.is_(word in text, key in known, "-h shows %s exactly if settings has %s" % (word, key))


tap.run()
