#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""What the server tells the service manager that started it (sd_notify(3)): when it is ready, what
it does, that it is alive, that it ends."""
import os
import signal
import subprocess

import server
import tap
from manager import Manager
from stuck import Stuck, threads

FILTER = ("-o", "drop_privileges") if "no_drop_privileges" in server.run("-h")[1] else ()


def ready(manager, name):
    message, pid = manager.message()
    tap.is_(message and message.get("READY"), "1", name + ": the first message is READY=1")
    return message or {}, pid


@tap.case
def ready_when_it_serves():
    manager, port = Manager(), server.free_port()
    words = ["-p", port, "-U", port, "-l", "127.0.0.1"] + \
        (["-u", server.USER] if os.geteuid() == 0 else [])
    process = server.child.Child(server.command_line(words), "the server", manager.env)
    message, pid = ready(manager, "a server")
    stream = server.client.tcp("127.0.0.1", port)
    tap.like(stream.ask(b"version\r\n"), "^VERSION", "a client that comes at READY=1 is served")
    tap.is_((message.get("MAINPID"), pid), (str(process.pid), process.pid),
            "MAINPID is the server's, which sends the message itself")
    tap.is_(message.get("STATUS"), "serving TCP port %d, UDP port %d" % (port, port),
            "STATUS says what is served")
    tap.ok("WATCHDOG" not in message, "no watchdog was wanted, and none is fed")
    process.stop()
    message, _ = manager.message()
    tap.is_(message.get("STOPPING"), "1", "the end is announced")


@tap.case
def names_of_sockets():
    for manager in Manager("@memcached-test-%d" % os.getpid()), \
            Manager(os.path.join(server.scratch(), "n" * 40)):
        with server.Server(env=manager.env):
            ready(manager, manager.name[:8])
    for name, why in (("relative", "Address family not supported"), ("/" + "n" * 108, "too long"),
                      ("/nowhere/at/all", "No such file"), ("@", "Address family not supported")):
        with server.Server(env={"NOTIFY_SOCKET": name}) as memcached:
            tap.like(memcached.log(), "cannot tell the service manager anything.*" + why,
                     "%s: a line says that it is no socket, and the server serves" % name[:20])
    with server.Server(env={"NOTIFY_SOCKET": ""}) as memcached:
        tap.ok("service manager" not in memcached.log(), "an empty name is none")


@tap.case
def a_unix_socket_is_named():
    manager, path = Manager(), os.path.join(server.scratch(), "socket")
    os.chmod(os.path.dirname(path), 0o777)
    with server.Server(unix=path, env=manager.env):
        message, _ = ready(manager, "with -s")
        tap.is_(message.get("STATUS"), "serving " + path, "STATUS names the socket of -s")


@tap.case
def the_watchdog_is_fed_while_all_threads_run():
    manager = Manager(watchdog=30)
    with server.Server(*FILTER, env=manager.env, threads=2) as memcached:
        ready(manager, "behind the filter of system calls, as another user")
        for _ in range(2):
            tap.ok(manager.until("WATCHDOG")[0], "the watchdog is fed")
        for thread, name in ((threads(memcached.pid)[-1], "a worker"),
                             (memcached.pid, "the main thread")):
            with Stuck(thread):
                # The answer to a ping before may still come.
                tap.ok(server.wait_for(lambda: manager.until("WATCHDOG", 3)[0] is None),
                       "it is not while %s hangs" % name)
            tap.ok(manager.until("WATCHDOG")[0], "it is when %s runs again" % name)
    tap.ok(manager.until("STOPPING")[0], "the end is announced")


@tap.case
def a_watchdog_of_another_process():
    manager = Manager(watchdog=30)
    manager.env["WATCHDOG_PID"] = "1"
    with server.Server(env=manager.env):
        ready(manager, "with WATCHDOG_PID of another")
        tap.is_(manager.until("WATCHDOG", 2.5)[0], None, "its watchdog is not fed")
    manager = Manager(watchdog=1)
    with server.Server(env=manager.env) as memcached:
        tap.like(memcached.log(), "WATCHDOG_USEC=1000000: the server reports every second",
                 "a watchdog that is too fast is named")


@tap.case
def a_daemon_tells_who_it_is():
    manager, port = Manager(watchdog=30), server.free_port()
    pid_file = os.path.join(server.scratch(), "pid")
    script = 'WATCHDOG_PID=$$ exec "$@"'
    words = ["sh", "-c", script, "sh"] + server.command_line(
        ["-d", "-P", pid_file, "-p", port, "-l", "127.0.0.1"] +
        (["-u", server.USER] if os.geteuid() == 0 else []))
    status = subprocess.call(words, env={**os.environ, **manager.env}, timeout=100)
    with open(pid_file, encoding="ascii") as file:
        pid = int(file.read())
    server.guard.add("pid", pid)
    message, sender = ready(manager, "a daemon")
    tap.is_((status, message.get("MAINPID"), sender), (0, str(pid), pid),
            "READY and MAINPID come from the daemon, before its parent ends")
    tap.ok(manager.until("WATCHDOG")[0], "a daemon feeds the watchdog of the process started")
    os.kill(pid, signal.SIGTERM)
    tap.ok(manager.until("STOPPING")[0], "its end is announced")
    server.wait_for(lambda: not os.path.exists("/proc/%d" % pid))
    server.guard.remove("pid", pid)


@tap.case
def a_manager_that_does_not_listen():
    manager = Manager(watchdog=30)
    with server.Server(env=manager.env) as memcached:
        ready(manager, "a manager")
        manager.socket.close()
        stream = memcached.stream()
        uptime = int(stream.stats()["uptime"])
        tap.ok(server.wait_for(lambda: int(stream.stats()["uptime"]) >= uptime + 3),
               "a manager that is gone does not stop the server's clock")


tap.run()
