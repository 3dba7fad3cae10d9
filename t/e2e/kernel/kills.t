#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 at random moments, under load: KILLS of them (12). SEED repeats a run."""
import contextlib
import glob
import json
import os
import random
import signal
import threading
import time

import child
import client
import coherence
import kernel
import netns
import server
import tap

KILLS = int(os.environ.get("KILLS", "12"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
WRITERS, READERS, STREAMS, KEYS, FILL = 2, 2, 6, 400, 60
MEMORY = 256
SERVE = 0.15 # seconds
STOP = 0.03
EXTENT = "mc_memory"
OURS = ("mc_heap", "mc_table", "mc_scratch", EXTENT)
OURS_TCP = ("mc_tcp_conns", "mc_tcp_slots", "mc_tcp_rtx")


class Lives:
    """A server in a namespace that is killed and started again on the same port. streams: how many
    readers use TCP, whose gets the kernel answers, too."""

    def __init__(self, *arguments, streams=0):
        self.pair = netns.Pair()
        netns.enter(self.pair.client)
        self.address, self.port = self.pair.address(), server.free_port(self.pair.server)
        self.line = server.command_line(
            ("-p", self.port, "-U", self.port, "-l", "0.0.0.0", "-t", 2, "-u", server.USER, "-m",
             MEMORY, "-X", "bmc=sv0,tcp=on" if streams else "bmc=sv0") + arguments,
            self.pair.server)
        self.load = coherence.Lives(self.address, self.port, WRITERS, READERS, KEYS, FILL, 4, 0,
                                    streams)
        self.number, self.base, self.need = 0, 1, 1
        self.kinds, self.answered, self.answered_tcp = {}, 0, 0

    def begin(self):
        self.number += 1
        self.load.life(self.number, self.base, self.need)
        self.server = child.Child(self.line, "the server")

    def first(self):
        """Lives until the kernel has answered readers; measures how long the start took."""
        begin = time.monotonic()
        self.begin()
        tap.ok(self.serves(), "it starts")
        self.start = time.monotonic() - begin
        tap.ok(server.wait_for(lambda: self.look() or self.answered > 100),
               "the kernel answers after a start (a start takes %d ms)" % (1000 * self.start))
        tap.ok(self.finish("first"), "kill -9 leaves nothing on the interface")
        self.base = self.need = self.number + 1

    def serves(self):
        """Waits until the kernel answers."""
        def answers():
            try:
                stream = client.tcp(self.address, self.port)
                stream.ask(b"version\r\n")
                stream.close()
                return True
            except (OSError, client.Closed):
                return not self.server.alive()

        return server.wait_for(answers, 30, 0.002) and self.server.alive()

    def look(self):
        """The number of requests that the kernel has answered, which becomes positive sooner or
        later."""
        stream = client.tcp(self.address, self.port)
        rows = stream.stats("bmc")
        self.answered += int(rows["answered_xdp"])
        self.answered_tcp += int(rows.get("tcp_answered", 0))
        stream.close()

    def left(self):
        """The programs that are attached to the interface."""
        return netns.xdp_mode("sv0", self.pair.server), netns.tc_programs("sv0", self.pair.server)

    def finish(self, kind):
        """Kills the server. True: nothing of it is left on the interface."""
        self.server.kill()
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        return server.wait_for(lambda: self.left() == (None, []))

    def close(self):
        self.pair.close()


def rest(seconds):
    """A random time: the moment of the kill is what is tested."""
    time.sleep(random.uniform(0, seconds))


def while_it_starts(lives):
    rest(1.2 * lives.start)
    return lives.finish("starting"), False


def while_it_serves(lives):
    served = lives.serves()
    lives.look()
    rest(SERVE)
    return lives.finish("serving"), served


def while_it_stops(lives):
    served = lives.serves()
    rest(SERVE)
    lives.server.signal(signal.SIGTERM)
    rest(STOP)
    return lives.finish("stopping"), served


def while_it_stands_still(lives):
    served = lives.serves()
    lives.look()
    lives.server.signal(signal.SIGSTOP)
    rest(SERVE)
    return lives.finish("standing still"), served


def cold(lives, moments):
    """One life of a server that keeps nothing."""
    lives.base = lives.need = lives.number + 1
    lives.begin()
    clean, _ = random.choice(moments)(lives)
    return clean


def while_it_saves(lives):
    lives.serves()
    rest(SERVE)
    lives.server.signal(signal.SIGUSR1)
    rest(4 * STOP)
    return lives.finish("saving"), False


def after_it_saved(lives):
    lives.serves()
    rest(SERVE)
    lives.server.signal(signal.SIGUSR1)
    lives.saved = lives.server.wait(30) == 0
    return lives.finish("saved"), False


def warm(lives, moments):
    """One life with -e: values may come from lives before, if those were not killed."""
    lives.begin()
    lives.saved = False
    clean, served = random.choice(moments)(lives)
    if served:
        lives.base = lives.need = lives.number + 1
    elif not lives.saved:
        # It may have read or written the file, or not: any item may be missing, none may be older.
        lives.need = lives.number + 1
    return clean


def is_elsewhere(folder, where):
    """Whether the process is a server outside a network namespace."""
    with contextlib.suppress(OSError), open(folder + "/comm", encoding="ascii") as file:
        return file.read() == "memcached\n" and os.stat(folder + "/ns/net").st_ino != where
    return False


def held_maps(where=None):
    """The ids of the maps of which a process has a descriptor. where: only servers outside this
    network namespace; bpftool has one of each map for a moment."""
    held = set()
    for folder in glob.glob("/proc/[0-9]*"):
        if where and not is_elsewhere(folder, where):
            continue
        for path in glob.glob(folder + "/fdinfo/*"):
            with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
                held.update(int(line.split()[1]) for line in file if line.startswith("map_id:"))
    return held


class Others:
    """Finds out, from now on in a thread, which maps are those of servers of other tests."""

    def __init__(self, namespace):
        self.where = os.stat("/run/netns/" + namespace).st_ino
        self.maps, self.ends = held_maps(self.where), threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.ends.wait(0.2):
            self.maps |= held_maps(self.where)

    def end(self):
        self.ends.set()
        self.thread.join()


def lost_maps(streams):
    """{id: name} of the maps that are like those of our servers and that no process has. Extents
    are in a server's heap and table only: they are lost if there is no heap. Those of TCP only if
    our servers have them: a server of another test, with a client that does not answer, leaves
    them until Linux gives the connection up (see Others).
    """
    names = OURS + (OURS_TCP if streams else ())
    maps = json.loads(netns.sh("bpftool", "-j", "map", "show"))
    ours = {m["id"]: m["name"] for m in maps if m.get("name") in names}
    held = held_maps()
    return {i: name for i, name in ours.items()
            if i not in held and (name != EXTENT or not held & ours.keys())}


def available():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) // 1024 for line in file if "MemAvailable" in line)


def no_bucket_is_lost(lives):
    """5,000 keys over all buckets of the table are answered by the kernel."""
    lives.number += 1
    lives.server = child.Child(lives.line, "the server")
    tap.ok(lives.serves(), "the server starts after all kills")
    stream, udp = client.tcp(lives.address, lives.port), client.Udp(lives.address, lives.port)
    count = 5000
    for i in range(count):
        stream.send(b"set a%d 0 0 6 noreply\r\n%06d\r\n" % (i, i))
    stream.ask(b"version\r\n")
    udp.ask(b"version\r\n")
    before = stream.stats("bmc")
    right = sum(udp.ask(b"get a%d\r\n" % i) == kernel.answer((b"a%d" % i, b"%06d" % i))
                for i in range(count))
    after = stream.stats("bmc")
    tap.is_(right, count, "every one of 5,000 keys is found")
    tap.is_(int(after["hits"]) - int(before["hits"]), count,
            "the kernel answers all: no bucket is unusable")
    tap.is_(lives.finish("last"), True, "its end leaves nothing on the interface")


def judge(lives, kills, unclean, others, before, memory, streams):
    counts = lives.load.counts()
    tap.diag("kills while %s; %s" % (lives.kinds, counts))
    tap.is_(sum(lives.kinds.values()), kills + 1, "%d servers were killed" % kills)
    tap.is_(unclean, 0, "no kill left a program on the interface, on XDP nor TC")
    tap.ok(counts["hits"] > 10 * kills and counts["writes"] > 10 * kills,
           "the servers were under load")
    lives.load.end("no value was damaged, of another key or of a life before")
    tap.diag("in the first moments the kernel had answered %d requests, and %d over TCP" %
             (lives.answered, lives.answered_tcp))
    no_bucket_is_lost(lives)
    lives.close()
    left = {}

    def nothing():
        nonlocal left
        left = {i: n for i, n in lost_maps(streams).items() if i not in before | others.maps}
        return not left

    server.wait_for(nothing, 30, 0.1)
    others.end()
    if not tap.is_(left, {}, "no map is left"):
        programs = json.loads(netns.sh("bpftool", "-j", "prog", "show"))
        tap.diag([p for p in programs if left.keys() & set(p.get("map_ids", ()))])
    tap.diag("available memory: %d MB before, %d MB after" % (memory, available()))


def kill(arguments, moments, kills, life, streams=0):
    random.seed(SEED)
    tap.diag("SEED=%d" % SEED)
    lives = Lives(*arguments, streams=streams)
    others = Others(lives.pair.server)
    before, memory = set(lost_maps(streams)), available() # of those that others have not seen
    lives.first()
    unclean = sum(not life(lives, moments) for _ in range(kills))
    judge(lives, kills, unclean, others, before, memory, streams)
    return lives


@tap.case
def killed_at_random_moments():
    kill((), (while_it_starts, while_it_serves, while_it_stops), KILLS, cold)


@tap.case
def killed_with_a_memory_file():
    path = os.path.join(server.scratch(), "memory")
    kill(("-e", path), (while_it_starts, while_it_serves, while_it_stops, while_it_saves,
                        after_it_saved), KILLS // 4, warm)


@tap.case
def killed_while_the_kernel_answers_over_tcp():
    """Each client is told, whether its server is killed, is stopped by a signal before that, or
    answers nothing while it is stopped."""
    lives = kill((), (while_it_serves, while_it_stops, while_it_stands_still), KILLS // 2, cold,
                 STREAMS)
    tap.ok(lives.answered_tcp > 0, "the kernel answered over TCP in the first moments of lives")


tap.run(60 + 3 * KILLS)
