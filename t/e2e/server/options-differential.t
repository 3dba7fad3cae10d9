#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""Each option, with values right and wrong, given to this server and to Debian's memcached
1.6.18: both start, or both refuse it with the same message and the same status. Intended
differences are in DIFFERENT, with how and why; those common to a kind of option are in
t/differences.md."""
import os
import re
import socket
import subprocess

import child
import differential
import openfiles
import server
import tap

if not os.access(differential.PEER, os.X_OK):
    tap.skip_all("no %s to compare with: apt-get install memcached" % differential.PEER)

RUNS = "runs"
HELP = server.run("-h")[1]

# Command lines, one per entry, that both accept, or both refuse.
SAME = """
-p|-p 0|-p -1|-p 65536|-U 99999|-U|-s|-a|-a 777|-a 7x|-a 0|-l|-m|-m 0|-m 1|-m 2|-m 3 -I 1m|-m 10x
-m 64m|-c|-c 0|-c -1|-c x|-t|-t 0|-t -1|-t x|-t 5x|-t 204|-t 205 -c 1028|-t 60 -c 302|-t 60 -c 320
-R|-R 0|-R x|-R 5x|-f|-f 1|-f 0.5|-f 1.0|-f 1.01
-f x|-f 1e9|-n|-n 0|-n x|-n 1|-n 1000000|-D|-D ab|-D x|-b|-b 0|-b -1|-B|-B foo|-B asc|-B ascii
-B binary|-B auto|-B AUTO|-B auto-negotiate|-I|-I 0|-I 512|-I 1023|-I 1024|-I 1k|-I 1m|-I 2k|-I 1g
-I 1024m|-m 4096 -I 1024m|-m 4096 -I 1025m|-I x|-I -5|-I 1.5m|-I 600k|-I 1536k|-I 40m|-I 32m|-I 33m
-I 1000000|-I 5mm|-I 2M|-I 512K|-I 99999999999999999999m|-P /nonexistent/pid|-P|-F|-X|-C|-M|-r|-A
-vvvv|-W|-N 1|-S -B ascii|-Y|-Y /nonexistent -U 11333|-Y /nonexistent -B binary|-e|-Z -p 0|-q
-?|--nope|--nope=3|--p|--port|--po 0|--port 0|--verbose=3|-x|-E|-T|-H|-j|-J|-w|-O|-G|-Q|-g|-y|-z|-K
-o|-o nonsense|-o nonsense=3|-o ,|-o modern|-o modern=3|-o modern,,modern|-o no_modern
-o maxconns_fast|-o maxconns_fast=x|-o no_maxconns_fast|-o hashpower|-o hashpower=|-o hashpower=x
-o hashpower=11|-o hashpower=16|-o hashpower=33|-o hashpower=-1|-o hashpower=20x|-o no_hashexpand
-o hashexpand|-o slab_reassign|-o no_slab_reassign|-o slab_automove|-o slab_automove=0
-o slab_automove=2|-o slab_automove=3|-o slab_automove=-1|-o slab_automove=1x|-o no_slab_automove
-o slab_automove_ratio|-o slab_automove_ratio=0|-o slab_automove_ratio=1|-o slab_automove_ratio=0.5
-o slab_automove_ratio=1.1|-o slab_automove_ratio=x|-o slab_automove_ratio=-1
-o slab_automove_window|-o slab_automove_window=x|-o slab_automove_window=2
-o slab_automove_window=3|-o tail_repair_time|-o tail_repair_time=9|-o tail_repair_time=10
-o tail_repair_time=x|-o tail_repair_time=-1|-o hash_algorithm|-o hash_algorithm=jenkins
-o hash_algorithm=murmur3|-o hash_algorithm=xxh3|-o lru_crawler|-o no_lru_crawler
-o lru_crawler_sleep|-o lru_crawler_sleep=-1|-o lru_crawler_sleep=1000000
-o lru_crawler_sleep=1000001|-o lru_crawler_sleep=5x|-o lru_crawler_tocrawl
-o lru_crawler_tocrawl=x|-o lru_crawler_tocrawl=-1|-o lru_crawler_tocrawl=5|-o lru_maintainer
-o no_lru_maintainer|-o hot_lru_pct|-o hot_lru_pct=|-o hot_lru_pct=0|-o hot_lru_pct=1
-o hot_lru_pct=79|-o hot_lru_pct=80|-o hot_lru_pct=x|-o hot_lru_pct=40|-o hot_lru_pct=41
-o warm_lru_pct|-o warm_lru_pct=0|-o warm_lru_pct=80|-o warm_lru_pct=60|-o warm_lru_pct=61
-o hot_max_factor|-o hot_max_factor=0|-o hot_max_factor=-1|-o hot_max_factor=x|-o hot_max_factor=5
-o warm_max_factor|-o warm_max_factor=0|-o warm_max_factor=x|-o warm_max_factor=99
-o temporary_ttl|-o temporary_ttl=0|-o temporary_ttl=10|-o no_lru_maintainer,temporary_ttl=5
-o idle_timeout|-o idle_timeout=0|-o idle_timeout=5|-o idle_timeout=5x|-o watcher_logbuf_size
-o watcher_logbuf_size=x|-o watcher_logbuf_size=-1|-o watcher_logbuf_size=1
-o watcher_logbuf_size=9x|-o worker_logbuf_size|-o worker_logbuf_size=x|-o slab_sizes=x
-o slab_sizes=100|-o slab_sizes=100-100|-o slab_sizes=100-101|-o slab_sizes=100-90
-o slab_sizes=100-200-300|-o slab_sizes=10-200|-o slab_sizes=100-2000000|-o slab_sizes=100-600000
-o slab_chunk_max=1024|-o slab_chunk_max=524288|-o slab_chunk_max=1048576|-o slab_chunk_max=1048577
-o slab_chunk_max=2097152|-o slab_chunk_max=300000|-o slab_chunk_max=64 -I 2m|-o track_sizes
-o no_track_sizes|-o track_sizes=1|-o inline_ascii_resp|-o no_inline_ascii_resp
-o no_chunked_items|-o chunked_items|-o no_drop_privileges|-o no_hashpower|-o no_idle_timeout=5
-o read_buf_mem_limit=5|-o read_buf_mem_limit|-o read_buf_mem_limit=x|-o read_buf_mem_limit=-1
--napi-ids|--napi-ids=1|-o meta_response_old|-o no_lru_crawler,no_lru_maintainer|-o hot_lru_pct=20,
-o ,hot_lru_pct=20|-o hot_lru_pct=20 -o nonsense|-u no-such-user-x|stray operands|-p 0 -- -p x
"""
SASL = "-S -B ascii"
TLS = "-Z -p 0"

# Command lines that this server refuses with a line that has the reason, and the peer accepts or
# crashes on.
STRICT = {
    "-p -2": (64, "Invalid port number -2"),
    "-p x": (64, "Invalid port number x"),
    "-U -2": (64, "Invalid port number -2"),
    "-U x": (64, "Invalid port number x"),
    "-a 9": (64, "Invalid access mask"),
    "-a x": (64, "Invalid access mask"),
    "-a 1777": (64, "Invalid access mask"),
    "-l 127.0.0.1:99999": (71, "Invalid address or port"),
    "-l 127.0.0.1:0": (71, "Invalid address or port"),
    "-l tag[]:[::1]": (71, "The tag in -l must have 1 to 8 characters"),
    "-l tag[123456789]:[::1]": (71, "The tag in -l must have 1 to 8 characters"),
    "-l proto[proxy]:[::1]": (71, r"The protocol in -l must be proto\[ascii\]:"),
    "-l proto[]:[::1]": (71, r"The protocol in -l must be proto\[ascii\]:"),  # it serves ascii
    "-l proto[ascii]:": (71, "Invalid address or port"),
    "-l [::1]x": (71, "Invalid address or port"),
    "-l [::1": (71, "Invalid address or port"),
    "-m -1": (64, "Invalid memory limit"),
    "-m x": (64, "Invalid memory limit"),
    "-m 99999999999999": (64, "Invalid memory limit"),
    "-t 1025": (1, "--threads must be between 1 and 1024"),
    "-R -1": (1, "Number of requests per event must be greater than 0"),  # it serves no request
    "-f nan": (1, "Factor must be greater than 1"),  # it divides by 0
    "-f inf": (1, "Factor must be greater than 1"),
    "-n -1": (1, "Chunk size must be greater than 0"),
    "-n 5000000": (1, "--slab-min-size must be between 1 and 1048576"),
    "-b x": (64, "Invalid value \"x\" for --listen-backlog"),
    "-o slab_automove=x": (1, "slab_automove must be between 0 and 2"),
    "-o slab_automove_ratio=nan": (1, "slab_automove_ratio must be > 0 and < 1"),
    "-o slab_automove_window=-1": (1, "slab_automove_window must be > 2"),  # it crashes
    "-o lru_crawler_sleep=x": (1, "LRU crawler sleep must be between 0 and 1 second"),
    "-o lru_crawler_tocrawl=99999999999": (1, "lru_crawler_tocrawl takes a numeric 32bit value"),
    "-o temporary_ttl=x": (64, "Invalid value \"x\" for temporary_ttl"),
    "-o temporary_ttl=-1": (64, "Invalid value \"-1\" for temporary_ttl"),
    "-o idle_timeout=x": (64, "Invalid value \"x\" for idle_timeout"),
    "-o idle_timeout=-1": (64, "Invalid value \"-1\" for idle_timeout"),
    "-o watcher_logbuf_size=0": (1, "could not parse argument to watcher_logbuf_size"),
    "-o worker_logbuf_size=0": (1, "could not parse argument to worker_logbuf_size"),
    "-o slab_sizes": (1, "Missing slab_sizes argument"),  # it crashes
    "-o slab_sizes=": (64, "slab_sizes needs at least one size"),
    "-o slab_sizes=100--200": (64, "is out of valid range"),
    "-o slab_chunk_max": (1, "Missing slab_chunk_max argument"),  # it crashes after these
    "-o slab_chunk_max=x": (1, "could not parse argument to slab_chunk_max"),
    "-o slab_chunk_max=0": (1, "could not parse argument to slab_chunk_max"),
    "-o slab_chunk_max=-1": (1, "could not parse argument to slab_chunk_max"),
    "-c 3": (1, "Maxconns setting is too low"),  # it has no descriptors
}

# Command lines that this server accepts, and the peer refuses: 1.5.19's options and our own.
ACCEPTED = ("-o hashpower=12", "-o worker_logbuf_size=1", "-o relaxed_privileges",
            "-o no_reuseport", "-N 0")


def listening():
    """The inodes of all sockets that listen. Others a program may have while it looks up a user."""
    found = set()
    for name, column, state, inode in (("tcp", 3, "0A", 9), ("tcp6", 3, "0A", 9),
                                       ("unix", 3, "00010000", 6)):
        with open("/proc/net/" + name, encoding="latin-1") as file:
            rows = [line.split() for line in file]
        found.update(row[inode] for row in rows[1:] if row[column] == state)
    return found


class Starts(child.Child):
    """One program with one command line: RUNS or its status, and its output."""

    def __init__(self, program, line):
        arguments = ["-u", server.USER]
        self.listens = not re.search(r"-p\w* 0", line)
        if not re.search(r"(^|\s)-(p|U|s|l|-p)", line):
            arguments += ["-s", os.path.join(server.scratch(), "s")]
        super().__init__([program] + arguments + line.split(), program, stdout=subprocess.DEVNULL)

    def started(self):
        """Whether it listens, which it does after all checks, or has ended. Without a port it does
        not: then whether it has its threads."""
        if not self.alive():
            return True
        try:
            if self.listens:
                wanted = {"socket:[%s]" % inode for inode in listening()}
                return not wanted.isdisjoint(openfiles.links(self.pid).values())
            return len(os.listdir("/proc/%d/task" % self.pid)) > 4
        except (FileNotFoundError, ProcessLookupError):
            return False

    def outcome(self, ends=False):
        """ends: it is expected to end, which it may do when it has its socket."""
        server.wait_for(self.started)
        if ends:
            server.wait_for(lambda: not self.alive())
        status = RUNS if self.alive() else self.process.returncode
        self.kill()
        return status, re.sub(r"^\S*memcached: ", "", self.log(), flags=re.M)


def ours(line):
    return Starts(server.program(), line).outcome()


def peers(line):
    return Starts(differential.PEER, line).outcome()


def lines():
    found = [line for row in SAME.strip().splitlines() for line in row.split("|")]
    if "enable-sasl" not in HELP:
        found.remove(SASL)
    if "enable-ssl" not in HELP:
        found.remove(TLS)
    else:
        found += ["-o ssl_kernel_tls", "-o no_ssl_kernel_tls"]
    if "ext_path" in HELP:
        found += ["-o ext_max_sleep", "-o ext_max_sleep=x", "-o ext_max_sleep=1000",
                  "-o no_ext_max_sleep"]
    return found


@tap.case
def both_start_or_refuse_alike():
    for line in lines():
        a, b = Starts(server.program(), line), Starts(differential.PEER, line)
        mine = a.outcome()
        its = b.outcome(ends=mine[0] != RUNS)
        if its[0] == RUNS == mine[0]:  # the output while it starts is not complete
            mine = its = (RUNS, "")
        tap.is_(mine, its, "memcached %s" % line)


@tap.case
def stricter_than_the_peer():
    for line, (status, words) in STRICT.items():
        got, error = ours(line)
        tap.is_(got, status, "memcached %s: status %d" % (line, status))
        tap.like(error, words, "the message has the reason")
        tap.ok(error.count("\n") == 1 and error.endswith("\n"), "it is one line")


@tap.case
def more_than_the_peer():
    for line in ACCEPTED:
        tap.is_(ours(line)[0], RUNS, "memcached %s starts" % line)


@tap.case
def options_without_effect_are_warned_of():
    for option, feature in (("sock_cookie_id=5", "port"), ("resp_obj_mem_limit=5", "port"),
                            ("ext_max_sleep=1000", "ext_path"), ("ssl_kernel_tls", "enable-ssl")):
        if feature in HELP:
            status, error = ours("-o " + option)
            tap.is_((status, error), (RUNS, option.partition("=")[0] +
                                      " is accepted, and has no effect\n"),
                    "-o %s: a command line of 1.6 starts, with a warning" % option)


def settings(program, line):
    memcached = server.Server(*line.split(), executable=program)
    found = memcached.stats("settings")
    memcached.kill()
    return {key: value.replace("(null)", "NULL") for key, value in found.items()}


def clients(rows):
    """How many of the rows of stats conns are connections."""
    return (sum(key.endswith(":state") and value != "conn_listening" for key, value in rows.items())
            - sum(key.endswith(":UDP") for key in rows))


def sockets(program, *words, **options):
    """(curr_connections, sockets that stats conns shows), with one client."""
    memcached = server.Server(*words, executable=program, **options)
    c = memcached.stream()

    def seen():
        rows = c.stats("conns")
        return (int(c.stats()["curr_connections"]), sum(key.endswith(":addr") for key in rows),
                clients(rows))

    # The connection by which it was found to have started may not be gone yet; Debian's counts it
    # for a moment longer than it shows it.
    server.wait_for(lambda: seen()[2] == 1 and seen()[0] == seen()[1] - 1)
    counted, listed, _ = seen()
    memcached.kill()
    return counted, listed


@tap.case
def sockets_count_the_same():
    port = server.free_port()
    two = "127.0.0.1,127.0.0.1:%d" % port
    for options in ({}, {"udp": False}, {"threads": 1}, {"udp": False, "listen": "*"},
                    {"udp": False, "listen": two}, {"threads": 1, "listen": two},
                    {"unix": os.path.join(server.scratch(), "sock")}):
        mine, its = sockets(server.program(), **options), sockets(differential.PEER, **options)
        tap.is_(mine, its, "curr_connections and stats conns with %s" % options)
        tap.is_(mine[0], mine[1] - 1, "one socket is not counted")


TEXT, BINARY = b"version\r\n" * 4, server.BINARY_NOOP


def first_bytes(program, prefix, *options):
    """The first byte of a listener's answers to text and to a binary request; b"": it closes."""
    port, other, found = server.free_port(), server.free_port(), []
    memcached = server.Server("-u", server.USER, "-l", "127.0.0.1:%d,%s127.0.0.1:%d" %
                              (port, prefix, other), *options, plain=True, port=port,
                              executable=program)
    for request in TEXT, BINARY:
        with socket.create_connection(("127.0.0.1", other), 20) as client:
            client.sendall(request)
            try:
                found.append(client.recv(1))
            except ConnectionResetError:
                found.append(b"")
    memcached.kill()
    return found


@tap.case
def listeners_have_protocols():
    for prefix, want in (("", [b"V", b"\x81"]), ("tag[a-b_5678]:", [b"V", b"\x81"]),
                         ("proto[negotiating]:", [b"V", b"\x81"]),
                         ("proto[ascii]:", [b"V", b"E"]), ("proto[binary]:", [b"", b"\x81"]),
                         ("proto[ascii]:tag[a]:", [b"V", b"E"])):
        mine, its = (first_bytes(program, prefix) for program in
                     (server.program(), differential.PEER))
        tap.is_((mine, its), (want, want), "-l %s: text and binary, here and there" % prefix)
    mine, its = (first_bytes(program, "proto[negotiating]:", "-B", "ascii") for program in
                 (server.program(), differential.PEER))
    tap.is_((mine, its), ([b"V", b"\x81"],) * 2, "a listener's protocol comes before -B")


CHANGES = """
-o no_modern|-o no_lru_maintainer|-o no_lru_crawler|-o temporary_ttl=20|-o hashpower=20
-o slab_sizes=100-200-300|-o slab_automove=2|-o no_slab_automove|-o no_slab_reassign|-o track_sizes
-o hash_algorithm=jenkins|-o tail_repair_time=20|-o lru_crawler_sleep=5,lru_crawler_tocrawl=7
-o hot_lru_pct=10,warm_lru_pct=60,hot_max_factor=0.5,warm_max_factor=3.5|-o watcher_logbuf_size=100
-o idle_timeout=99|-o slab_chunk_max=16384|-o no_chunked_items|-o slab_automove_window=44
-o slab_automove_ratio=0.4|-o no_maxconns_fast|-I 2m|-I 512k|-I 1536k|-m 2000 -I 100m|-D /|-B ascii
-o read_buf_mem_limit=3
-M|-C|-F|-A|-X|-v|-vv|-L|-a 770|-t 3|-R 7|-b 9|-n 64|-f 1.08|-c 100|-m 100
"""
# Ports, names, and values that have other names for the same.
NOT_COMPARED = {"tcpport", "udpport", "inter", "hash_algorithm", "domain_socket"}


@tap.case
def settings_show_the_same():
    program = server.program()
    huge = "[never]" not in open("/sys/kernel/mm/transparent_hugepage/enabled").read()
    for line in [""] + [line for row in CHANGES.strip().splitlines() for line in row.split("|")]:
        if line == "-L" and not huge:
            continue
        mine, its = settings(program, line), settings(differential.PEER, line)
        both = (set(mine) & set(its)) - NOT_COMPARED
        wrong = {key: (mine[key], its[key]) for key in sorted(both) if mine[key] != its[key]}
        tap.ok(len(both) >= 44 and not wrong, "stats settings under '%s' is the same" % line)
        if wrong:
            tap.diag("here, there: %r" % wrong)


tap.run()
