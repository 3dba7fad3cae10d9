#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIGHUP reads the file of allow=@FILE again: which sources the kernel answers, how often, and with
how many bytes. A file that is wrong changes nothing."""
import os
import signal
import threading

import chain
import client
import kernel
import netns
import server
import tap
from kernel import answer

ONE, TWO = "10.77.0.2", "10.77.0.3"
FOLDER = server.scratch()
LIST = os.path.join(FOLDER, "allow")
VALUE = b"v" * 200
RELOADS = 40
FILTER = ("-o", "drop_privileges") if server.is_built_with("drop_privileges") else ()


def write(text, mode=0o644):
    """As an editor does: a new file takes the place of the old one."""
    with open(LIST + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(LIST + ".new", mode)
    os.rename(LIST + ".new", LIST)


def machines(*arguments, words=(), **options):
    pair = netns.Pair()
    netns.ip("address add %s dev cl0" % (TWO + "/24"), pair.client)
    m = kernel.Machines(*arguments, words=("allow=@" + LIST, *words), threads=1, pair=pair,
                        **options)
    m.tcp.set(b"k", VALUE)
    return m


def reloaded(m):
    """What the server logs at SIGHUP: one line."""
    before = len(m.server.log())
    m.server.signal(signal.SIGHUP)
    if not server.wait_for(lambda: m.server.log()[before:].endswith("\n")):
        raise RuntimeError("SIGHUP logs nothing")
    m.tcp.ask(b"version\r\n") # behind it
    return m.server.log()[before:]


def asked(m, source, times=1):
    """How the counters grow while it asks; the answer is right, from kernel or server."""
    kernel.meet(m.pair.address(), m.server.port, source)
    udp = client.Udp(m.pair.address(), m.server.port, source=source)
    right, grown = m.during(lambda: all(udp.ask(b"get k\r\n") == answer((b"k", VALUE))
                                        for _ in range(times)))
    udp.close()
    if not right:
        tap.ok(False, "%s gets the right answer" % source)
    return grown


def answered(m, *sources):
    """Which of them the kernel answers."""
    return [source for source in sources if asked(m, source)["answered"]]


@tap.case
def who_is_answered_changes():
    write("%s\n" % ONE)
    with machines(*FILTER) as m:
        tap.is_(answered(m, ONE, TWO), [ONE], "at first the kernel answers the one")
        write("%s # the other\n203.0.113.0/24\n" % TWO)
        tap.is_(answered(m, ONE, TWO), [ONE], "a changed file alone changes nothing")
        log = reloaded(m)
        tap.is_(log, "bmc: read again: allow= has 2 prefixes, no rate=, no amplification=\n",
                "SIGHUP logs a line with what it read")
        tap.is_(answered(m, ONE, TWO), [TWO], "then it answers the other, and the one no longer")
        tap.is_(asked(m, ONE)["pass_allow"], 1, "whose requests are passed, because of allow=")
        rows = m.tcp.stats("bmc")
        tap.is_((rows["allow"], rows["allow_prefixes"]), ("list", "2"), "`stats bmc` shows it")
        for text, want, says in (("all\n", [ONE, TWO], "2 prefixes"),
                                 ("local", [ONE, TWO], "local,"), ("# nobody\n", [], "0 prefixes"),
                                 (ONE, [ONE], "1 prefix,")):
            write(text)
            tap.like(reloaded(m), "allow= has .*%s" % says, "%r is read" % text)
            tap.is_(answered(m, ONE, TWO), want, "%r: the kernel answers %s" % (text, want))


class Asker(threading.Thread):
    """Asks from one address until it is told to end."""

    def __init__(self, m, source):
        super().__init__()
        kernel.meet(m.pair.address(), m.server.port, source)
        self.udp = client.Udp(m.pair.address(), m.server.port, source=source)
        self.over, self.wrong, self.asked = threading.Event(), None, 0
        self.start()

    def run(self):
        while not self.over.is_set() and not self.wrong:
            reply = self.udp.ask(b"get k\r\n")
            if reply != answer((b"k", VALUE)):
                self.wrong = reply
            self.asked += 1

    def end(self):
        self.over.set()
        self.join()
        self.udp.close()


def during_reloads(m, lists, source):
    """How the counters grow while the address asks and the list changes again and again; and how
    often that was."""
    asker = Asker(m, source)
    before, times = m.counts(), 0
    while asker.is_alive() and (times < RELOADS or asker.asked <= 3 * RELOADS):
        write(lists[times % 2])
        reloaded(m)
        times += 1
    after = m.counts()
    asker.end()
    tap.is_(asker.wrong, None, "all answers to %s are right" % source)
    return {key: after[key] - before.get(key, 0) for key in after}, times


@tap.case
def while_the_list_changes():
    lists = [ONE + "\n" + "".join("10.77.%d.%d\n10.77.0.%d\n" % (i, i, i)
                                  for i in range(first, first + 100)) for first in (4, 104)]
    write(lists[0])
    with machines() as m:
        grown, _ = during_reloads(m, lists, TWO)
        tap.ok(grown["answered"] == 0 and grown["pass_allow"] > RELOADS,
               "the kernel never answers an address that is on neither list (%d requests)" %
               grown["pass_allow"])
        grown, times = during_reloads(m, lists, ONE)
        tap.ok(grown["answered"] > RELOADS and grown["pass_allow"] <= times,
               "and goes on answering one that is on both (%d of %d requests)" %
               (grown["answered"], grown["answered"] + grown["pass_allow"]))


@tap.case
def rate_and_amplification_change():
    write("local\nrate=1/10 amplification=2\n")
    with machines(words=("rate=1000", "amplification=100")) as m:
        rows = m.tcp.stats("bmc")
        tap.is_([rows[key] for key in ("rate", "burst", "amplification")], ["1", "10", "2"],
                "the file's words take the place of the option's")
        tap.is_(asked(m, ONE)["pass_amplification"], 1, "a reply is too large")
        write("local\nrate=1/10\n")
        tap.like(reloaded(m), r"rate=1/10, amplification=100$", "the option's word counts again")
        grown = asked(m, ONE, 60)
        tap.ok(9 <= grown["answered"] < 40 and grown["pass_rate"] == 60 - grown["answered"],
               "the kernel answers what is left of the burst (%d)" % grown["answered"])
        write("local\nrate=1000000\n")
        reloaded(m)
        tap.is_(asked(m, ONE, 60)["answered"], 60, "a higher rate counts at once")
        write("local\nrate=1/1000000\n")
        reloaded(m)
        tap.is_(asked(m, ONE, 60)["answered"], 60, "a deep bucket is begun")
        write("local\n")
        tap.like(reloaded(m), "rate=1000/1000,", "the option's rate counts again")
        tap.is_(asked(m, ONE, 60)["answered"], 60, "and buckets of other rates do not hinder it")


@tap.case
def a_wrong_file_changes_nothing():
    write("%s\n" % ONE)
    with machines(words=("rate=1000",)) as m:
        for text, says in (("%s\n10.0.0.0/33\n" % TWO, r'allow=@%s:2: "10.0.0.0/33": no address'),
                           ("\n\n%s, rate=0" % TWO, r'allow=@%s:3: "rate=0": rate= takes'),
                           ("amplification=x", r'allow=@%s:1: "amplification=x": amplif'),
                           ("stall=5", r'allow=@%s:1: "stall=5": no address'),
                           ("".join("10.1.%d.%d\n" % (i // 128, i % 128 * 2) for i in range(5000)),
                            "allow=: 5000 prefixes need more room than .*: restart it")):
            write(text)
            tap.like(reloaded(m), "^bmc: %s.*; what was read before stays in force\n$" %
                     (says % LIST if "%s" in says else says),
                     "%.20r is refused in one line that says where" % text)
            tap.is_((answered(m, ONE, TWO), m.tcp.stats("bmc")["rate"]), ([ONE], "1000"),
                    "and all is as before")
        write(TWO, mode=0o600)
        tap.like(reloaded(m), "Permission denied for the user that the server has now",
                 "a file that only root may read")
        os.unlink(LIST)
        tap.like(reloaded(m), "No such file", "a file that is gone")
        os.mkfifo(LIST)
        tap.like(reloaded(m), "Invalid argument", "a FIFO, which has no writer")
        os.unlink(LIST)
        os.mkdir(LIST)
        tap.like(reloaded(m), "Invalid argument", "a directory")
        os.rmdir(LIST)
        tap.is_(answered(m, ONE, TWO), [ONE], "all is as before")
        write(TWO)
        reloaded(m)
        tap.is_(answered(m, ONE, TWO), [TWO], "a right file is read after that")


@tap.case
def the_chain_reads_it_as_well():
    chain.needed()
    write("%s\n" % ONE)
    with chain.Machines(chain.DEBIAN, chain={"allow": "@" + LIST}) as m:
        m.tcp.set(b"k", VALUE)
        for times, (text, want) in enumerate(((TWO, False), (ONE, True)), 1):
            write(text)
            m.bmc.signal(signal.SIGHUP)
            tap.ok(server.wait_for(lambda: m.bmc.log().count("read again: allow= has 1 prefix") ==
                                   times), "bmc reads it at SIGHUP")
            tap.is_(m.by_kernel(b"get k\r\n"), (answer((b"k", VALUE)), want),
                    "the kernel answers %s: %s" % (ONE, want))


@tap.case
def without_a_file_sighup_is_silent():
    with kernel.Machines(threads=1) as m:
        before = m.server.log()
        m.server.signal(signal.SIGHUP)
        m.tcp.ask(b"version\r\n")
        m.server.signal(signal.SIGUSR2) # behind it
        tap.ok(server.wait_for(lambda: "SIGUSR2" in m.server.log()), "the server takes signals")
        tap.is_(m.server.log()[len(before):].count("\n"), 1, "and says nothing about SIGHUP")


tap.run()
