#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""The process and the system: signals, daemon, pid file, user, limits, names of sockets. The
values that options accept are in e2e/server/options.t."""
import os
import re
import signal
import socket
import stat

import child
import openfiles
import server
import tap
from daemon import Daemon

ROOT = os.geteuid() == 0
UNPRIVILEGED = ["setpriv", "--reuid", server.USER, "--clear-groups", "--bounding-set", "-all"] \
    if ROOT else []


def proc(pid, name):
    with open("/proc/%d/%s" % (pid, name), encoding="latin-1") as file:
        return file.read()


def gone(pid):
    return server.wait_for(lambda: not os.path.exists("/proc/%d" % pid))


@tap.case
def signals():
    for number, text in ((signal.SIGINT, "Signal handled: Interrupt"),
                         (signal.SIGTERM, "Signal handled: Terminated"),
                         (signal.SIGUSR1, "Gracefully stopping")):
        memcached = server.Server()
        busy = memcached.stream()
        busy.send(b"set half 0 0 100\r\nabc")
        memcached.signal(number)
        tap.is_(memcached.wait(), 0, "%s ends the server with status 0 within a set" %
                number.name)
        tap.like(memcached.log(), text, "the log says so")
    with server.Server() as memcached, memcached.stream() as c:
        c.set(b"k", b"v")
        for number in (signal.SIGHUP, signal.SIGPIPE):
            memcached.signal(number)
            tap.is_(c.get(b"k"), b"v", "%s: the server goes on" % number.name)


@tap.case
def a_signal_while_all_threads_read_statistics_ends_the_server():
    """Each thread reads what the others count. Sanitizers see what is freed too early."""
    statuses = []
    for _ in range(20):
        memcached = server.Server(threads=4)
        clients = [memcached.stream() for _ in range(8)]
        for client in clients:
            client.send(b"stats\r\n" * 200)
        clients[0].until(b"END\r\n")
        memcached.signal(signal.SIGTERM)
        statuses.append(memcached.wait())
    tap.is_(statuses, [0] * 20, "20 times with status 0")


@tap.case
def a_signal_during_the_start_ends_the_server():
    statuses = set()
    for _ in range(10):
        starting = child.Child(server.command_line(
            ["-p", "0", "-U", "0", "-s", os.path.join(server.scratch(), "s"), "-t", "16"] +
            (["-u", server.USER] if ROOT else [])), "the server")
        # Signals are blocked until the loop runs.
        server.wait_for(lambda p=starting: not p.alive() or int(
            re.search(r"^SigBlk:\s*(\w+)", proc(p.pid, "status"), re.M).group(1), 16) or
            re.search(r"^Threads:\s*1\d", proc(p.pid, "status"), re.M), every=0)
        starting.signal(signal.SIGTERM)
        statuses.add(starting.wait(20))
    tap.is_(statuses, {0}, "SIGTERM before the first client is served: status 0")


@tap.case
def a_daemon_leaves_its_terminal():
    with Daemon() as daemon:
        tap.is_(daemon.log(), "", "-d prints nothing")
        tap.is_(daemon.stream().set(b"k", b"v"), b"STORED\r\n", "the server answers by then")
        tap.is_(daemon.stream().stats()["pid"], str(daemon.pid), "it has the pid of its file")
        tap.is_([daemon.fd(i) for i in (0, 1, 2)], ["/dev/null"] * 3,
                "standard input, output and error are /dev/null")
        tap.is_(os.readlink("/proc/%d/cwd" % daemon.pid), "/", "its working directory is /")
        tap.is_(os.getsid(daemon.pid), daemon.pid, "it leads a session of its own")
        daemon.signal(signal.SIGHUP)
        tap.is_(daemon.stream().get(b"k"), b"v", "SIGHUP does not end it")
    tap.ok(not os.path.exists(daemon.pid_path), "its pid file is removed")
    with Daemon("-v") as daemon:
        tap.is_([daemon.fd(0), daemon.fd(2)], ["/dev/null", daemon.log_path],
                "with -v it keeps its standard error")
    directory = server.scratch()
    with Daemon("-r", cwd=directory) as daemon:
        tap.is_(os.readlink("/proc/%d/cwd" % daemon.pid), directory,
                "with -r it keeps its working directory, for the core file")


@tap.case
def a_daemon_that_cannot_start_has_a_message():
    busy = socket.create_server(("127.0.0.1", 0))
    status, _, error = server.run("-d", "-p", busy.getsockname()[1], "-l", "127.0.0.1")
    tap.is_(status, 71, "-d with a port in use: status 71")
    tap.like(error, "Address already in use", "the message has the reason")
    busy.close()


@tap.case
def pid_files():
    directory = server.scratch()
    path = os.path.join(directory, "pid")
    with server.Server("-P", path) as memcached:
        with open(path, encoding="ascii") as file:
            tap.is_(file.read(), "%d\n" % memcached.pid, "-P writes the pid and a newline")
        tap.ok(not os.path.exists(path + ".tmp"), "no temporary file is left")
        with server.Server("-P", path) as other:
            tap.like(other.log(), r"WARNING: The pid file contained the following \(running\) pid: "
                     "%d" % memcached.pid, "a pid file of a running process is warned of")
            with open(path, encoding="ascii") as file:
                tap.is_(file.read(), "%d\n" % other.pid, "it is replaced")
    tap.ok(os.path.exists(path), "without -d the pid file stays")
    for text in ("4194305\n", "nonsense", "", "-1\n", "99999999999999999999\n"):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o666)
        with server.Server("-P", path) as memcached:
            tap.is_(memcached.log(), "", "a stale pid file (%r) is replaced" % text)
            with open(path, encoding="ascii") as file:
                tap.is_(file.read(), "%d\n" % memcached.pid, "it has the right pid")
    with server.Server("-P", "/nonexistent/pid") as memcached:
        tap.like(memcached.log(), "Could not open the pid file /nonexistent/pid.tmp for writing: "
                 "No such file or directory", "a pid file that cannot be opened is logged")
    folder = os.path.join(directory, "folder")
    os.mkdir(folder)
    with server.Server("-P", folder) as memcached:
        tap.like(memcached.log(), "Could not write the pid file %s: Is a directory" % folder,
                 "a pid file that is a folder is logged")


@tap.case
def users():
    if not ROOT:
        return
    here = ["-p", server.free_port(), "-U", "0", "-l", "127.0.0.1"]
    for user, status, words in (("no-such-user", 67, "can't find the user no-such-user"),
                                ("65534", 67, "can't find the user 65534"),
                                ("", 64, "can't run as root without the -u switch")):
        got, _, error = server.run("-u", user, *here, user=False)
        tap.is_(got, status, "-u '%s': status %d" % (user, status))
        tap.like(error, words, "the message is memcached's")
    with server.Server("-u", "root") as memcached:
        tap.like(proc(memcached.pid, "status"), r"^Uid:(\t0){4}$", "-u root runs as root")
    with server.Server("-u", "no-such-user", prefix=UNPRIVILEGED) as memcached:
        tap.ok(memcached.alive(),
               "a server that is not started by root keeps its user, whatever -u says")
    with server.Server() as memcached:
        text = proc(memcached.pid, "status")
        tap.like(text, r"^Groups:\t(\d+ )?$", "no supplementary group of root's is kept")
        tap.ok("\t0" not in re.search(r"^Groups:.*", text, re.M).group(0),
               "root's own group is not kept")


@tap.case
def limits_of_files():
    with server.Server("-c", "5000") as memcached:
        soft = int(re.search(r"Max open files\s+(\d+)", proc(memcached.pid, "limits")).group(1))
        tap.ok(soft >= 5000, "-c 5000 raises the limit of open files (%d)" % soft)
    with server.Server("-c", "900", prefix=["prlimit", "--nofile=100:2000"] +
                       UNPRIVILEGED) as memcached:
        soft = int(re.search(r"Max open files\s+(\d+)", proc(memcached.pid, "limits")).group(1))
        tap.ok(900 <= soft <= 2000,
               "without privileges -c raises it up to the hard limit (%d)" % soft)
    status, _, error = server.run("-c", "5000", "-s", os.path.join(server.scratch(), "s"),
                                  prefix=["prlimit", "--nofile=100:2000"] + UNPRIVILEGED,
                                  user=False)
    tap.is_(status, 71, "more than the hard limit: status 71")
    tap.like(error, "failed to set rlimit for open files. Try starting as root or requesting "
             "smaller maxconns value.", "the message is memcached's")


@tap.case
def limits_of_address_space():
    """As with memcached, which notices the limit when it asks for memory."""
    if server.is_sanitized():
        return
    value = b"v" * 1000
    for space, megabytes in ((1, 64), (4, 64), (4, 1024), (4, 8192)):
        name = "ulimit -v of %d GB with -m %d" % (space, megabytes)
        with server.Server("-m", megabytes, prefix=["prlimit", "--as=%d" % (space << 30)]) as s:
            c = s.stream()
            for start in range(0, 100000, 1000):
                c.send(b"".join(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, value)
                                for i in range(start, start + 1000)))
            tap.is_(c.get(b"k99999"), value, name + ": it starts, and stores 100 MB")
            tap.is_(int(s.stats()["evictions"]) > 0, megabytes == 64,
                    name + ": it evicts only at -m")


@tap.case
def core_files():
    with server.Server("-r", prefix=["prlimit", "--core=0:unlimited"]) as memcached:
        tap.like(proc(memcached.pid, "limits"), r"Max core file size\s+unlimited\s+unlimited",
                 "-r raises the limit of core files")
    with server.Server(prefix=["prlimit", "--core=0:unlimited"]) as memcached:
        tap.like(proc(memcached.pid, "limits"), r"Max core file size\s+0\s",
                 "without -r the limit is unchanged")
    status, _, error = server.run("-r", "-s", os.path.join(server.scratch(), "s"),
                                  prefix=["prlimit", "--core=0:0"] + UNPRIVILEGED, user=False)
    tap.is_(status, 71, "-r where no core file is allowed: status 71")
    tap.like(error, "failed to ensure corefile creation", "the message has the reason")


@tap.case
def large_pages():
    if ROOT:
        hide = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /sys/kernel/mm && exec \"$@\"",
                "sh"]
        never = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /sys/kernel/mm && "
                 "mkdir /sys/kernel/mm/transparent_hugepage && echo 'always madvise [never]' > "
                 "/sys/kernel/mm/transparent_hugepage/enabled && exec \"$@\"", "sh"]
        for prefix, words in ((hide, "not detected"), (never, "disabled")):
            status, _, error = server.run("-L", "-s", os.path.join(server.scratch(), "s"),
                                          prefix=prefix)
            tap.is_(status, 1, "-L, huge pages %s: status 1" % words)
            tap.is_(error, "Transparent huge pages support %s.\n"
                    "Cannot enable large pages on this system\n" % words,
                    "the message has the reason")
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
        if "[never]" in file.read():
            return
    with server.Server("-L", "-m", "64") as memcached:
        sizes = [int(size) for size in re.findall(r"^AnonHugePages:\s+(\d+) kB",
                                                  proc(memcached.pid, "smaps_rollup"), re.M)]
        flags = re.findall(r"^VmFlags:.*\bhg\b", proc(memcached.pid, "smaps"), re.M)
        tap.ok(flags, "-L asks the kernel for huge pages (it gives %s kB)" % sizes)


@tap.case
def a_very_long_socket_path():
    # Memcached once printed the buffer of the path beyond its end (CVE-2019-15026).
    directory = server.scratch()
    room = 107 - len(directory) - 1
    longest = os.path.join(directory, "s" * room)
    with server.Server(unix=longest) as memcached:
        rows = memcached.stats("conns")
        shown = {value for key, value in rows.items() if key.endswith(":addr")}
        tap.is_(shown - {"unix:"}, {"unix:" + longest},
                "stats conns shows a path of 107 bytes and nothing behind it")
        tap.is_(memcached.stats("settings")["domain_socket"], longest,
                "stats settings shows it, too")
    for extra in (1, 2, 900):
        status, _, error = server.run("-s", longest + "x" * extra)
        tap.is_(status, 71, "a path of %d bytes: status 71" % (107 + extra))
        tap.ok(error.startswith("failed to listen on UNIX socket: " + longest),
               "the message has the reason")


@tap.case
def the_socket_in_the_file_system():
    path = os.path.join(server.scratch(), "s")
    with server.Server("-a", "660", unix=path):
        tap.is_(oct(stat.S_IMODE(os.stat(path).st_mode)), "0o660", "-a is the socket's mode")
    with socket.socket(socket.AF_UNIX) as stale:
        if os.path.exists(path):
            os.unlink(path)
        stale.bind(path)
    with server.Server(unix=path) as memcached:
        tap.ok(memcached.alive(), "a socket left by another server is replaced")
        tap.is_(oct(stat.S_IMODE(os.stat(path).st_mode)), "0o700", "its mode is 0700 by default")
    plain = os.path.join(server.scratch(), "file")
    with open(plain, "w", encoding="ascii") as file:
        file.write("x")
    status, _, _ = server.run("-s", plain)
    tap.is_(status, 71, "a file that is not a socket is not replaced: status 71")
    tap.ok(os.path.getsize(plain) == 1, "the file keeps its contents")


@tap.case
def closed_standard_streams():
    """The next files that are opened would take their numbers, and the log be written to them."""
    for closed in ("2>&-", "<&- >&- 2>&-"):
        path = os.path.join(server.scratch(), "memory")
        with server.Server("-e", path, prefix=("sh", "-c", 'exec "$@" ' + closed, "sh")) as s:
            c = s.stream()
            c.ask(b"verbosity 2\r\n")
            c.set(b"k", b"v")
            links = openfiles.links(s.pid)
            links = [links[fd] for fd in range(3 - len(closed.split()), 3)]
            tap.is_(links, ["/dev/null"] * len(links), closed + ": /dev/null instead")
            with open(path, "rb") as file:
                tap.ok(b"set k" not in file.read(1 << 20),
                       closed + ": no line of the log is in the items' memory")


@tap.case
def no_inherited_file_is_open():
    with server.Server() as memcached:
        held = openfiles.links(memcached.pid).values()
        files = [name for name in held if name.startswith("/") and name != "/dev/null" and
                 name != memcached.log_path and
                 not re.search(r"/memory\.[a-z_]+$", name)] # of its cgroups: base/cgroup.h
        tap.is_(files, [], "only standard input, output and error, and the limits' files are open")


tap.run()
