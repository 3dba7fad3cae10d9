#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""What a server with the kernel path tells its service manager, and for what it waits when one has
started it."""
import contextlib
import signal

import kernel
import netns
import server
import tap
from manager import Manager

FILTER = ("-o", "drop_privileges") if "no_drop_privileges" in server.run("-h")[1] else ()


def status(manager, text):
    """Waits for a STATUS that contains the text."""
    while True:
        message, _ = manager.until("STATUS")
        if not message or text in message["STATUS"]:
            return message


def started(manager, namespace, *words):
    port = server.free_port(namespace)
    words = server.command_line(["-p", port, "-U", port, "-u", server.USER, *words], namespace)
    return server.child.Child(words, "the server", manager.env)


@tap.case
def the_status_names_interfaces_and_modes():
    for mode, words in (("native XDP", ("bmc=sv0", "mode=native")),
                        ("generic XDP", ("bmc=sv0", "mode=skb")),
                        ("TC", ("bmc=sv0", "mode=tc"))):
        manager = Manager()
        with kernel.Machines(*FILTER, words=words[1:], env=manager.env) as m:
            message, _ = manager.message()
            tap.like(message["STATUS"], r"^serving TCP port \d+, UDP port \d+; the kernel answers "
                     r"gets over UDP on sv0 \(%s\)$" % mode,
                     "READY comes when the programs are attached, and STATUS says where: " + mode)
            watcher = m.server.stream()
            watcher.ask(b"watch fetchers\r\n")
            tap.ok(status(manager, "passes every request"), "STATUS shows a bypass")
            watcher.close()
            tap.ok(status(manager, "answers gets over UDP on sv0"), "and its end")


@tap.case
def tcp_and_what_happens_to_interfaces():
    manager = Manager()
    with contextlib.closing(netns.Pair(1)) as pair:
        process = started(manager, pair.server, "-X", "bmc=sv0,tcp=on")
        message, _ = manager.message()
        tap.like(message["STATUS"], r"answers gets over UDP and TCP on sv0 \(", "tcp=on is named")
        netns.ip("link set sv0 down", pair.server)
        tap.ok(status(manager, "sv0 (down)"), "STATUS shows an interface that is down")
        process.stop()


@tap.case
def a_server_without_its_kernel_path():
    manager = Manager()
    with contextlib.closing(netns.Pair(1)) as pair:
        process = started(manager, pair.server, "-X", "bmc=lo,mode=native,optional")
        message, _ = manager.message()
        tap.like(message["STATUS"], "; kernel path off: bmc: lo", "STATUS says why it is off")
        tap.is_(message["READY"], "1", "with `optional` the server is ready all the same")
        process.stop()


@tap.case
def an_interface_that_is_late():
    manager = Manager()
    with contextlib.closing(netns.Pair(1)) as pair:
        process = started(manager, pair.server, "-X", "bmc=sv0,bmc=late0")
        message, _ = manager.message()
        tap.is_(message, {"STATUS": "bmc: waiting up to 10 s for the interface late0"},
                "a server that a service manager started waits for its interfaces")
        netns.sh(*"ip link add late0 type veth peer name far0".split(), namespace=pair.server)
        message, _ = manager.message()
        tap.like(message["STATUS"], r"on sv0 \(.*\), late0 \(", "it serves when they exist")
        tap.like(process.log(), "^bmc: waiting up to 10 s for the interface late0$",
                 "the log says what it waited for")
        process.stop()
        process = started(manager, pair.server, "-X", "bmc=never0")
        tap.ok(status(manager, "waiting"), "it waits again")
        process.signal(signal.SIGTERM)
        tap.is_(process.wait(8), 71, "SIGTERM ends the wait")
        port = server.free_port(pair.server)
        result, _, error = server.run("-X", "bmc=never0", "-p", port, "-U", port,
                                      namespace=pair.server)
        tap.is_((result, error), (71, "bmc: there is no interface never0 (see `ip link`)\n"),
                "by hand it does not wait")


tap.run()
