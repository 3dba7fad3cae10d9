#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the chain's parsers predict for a connection's commands, compared with real servers.

Random commands, text, meta and binary, valid and invalid, are sent to Debian's memcached and to
ours: each write is predicted before the server can have executed it, and there are as many
responses as predicted. The servers have unix sockets, which cost less. COMMANDS is how many in
all, SEED the seed.
"""
import os

import binarygen
import differential as d
import parsers
import metagen
import server
import tap
import textgen

COMMANDS = int(os.environ.get("COMMANDS", "12000"))

if not os.access(d.PEER, os.X_OK):
    tap.skip_all("no %s to compare with: apt-get install memcached" % d.PEER)


def batches(family, commands):
    while commands > 0:
        batch = family.batch()[0]
        commands -= len(batch)
        yield [command.replace(b"007",
                               b"700") for command in batch]  # so that no item expires meanwhile


def on_both(name, family, keys, make, least):
    """make: makes the batches, the same for both servers."""
    tool = parsers.Parsers()
    for whose, start in (("ours", server.Server), ("Debian's", d.start_peer)):
        where = start(unix=os.path.join(server.scratch(), "sock"))
        watched = parsers.watch("%s, %s" % (name, whose), where, tool, keys, family, make())
        tap.ok(watched.commands > least, "%d and more commands are followed" % least)
        where.kill()
    tool.kill()


@tap.case
def text():
    on_both("text", parsers.Text(), textgen.TEXT_KEYS + textgen.NUMBER_KEYS,
            lambda: batches(textgen.Text(d.SEED), COMMANDS * 40 // 100), COMMANDS // 4)


@tap.case
def meta():
    on_both("meta", parsers.Text(), metagen.TEXT_KEYS + metagen.NUMBER_KEYS,
            lambda: batches(metagen.Meta(d.SEED, pipelined=True), COMMANDS * 35 // 100),
            COMMANDS // 5)


@tap.case
def binary():
    on_both("binary", parsers.Binary(), binarygen.KEYS,
            lambda: batches(binarygen.Binary(d.SEED), COMMANDS * 25 // 100), COMMANDS // 5)


@tap.case
def binary_forms():
    """Every opcode with any lengths."""
    on_both("binary forms", parsers.Binary(), [b"k"],
            lambda: ([form[0]] for form in binarygen.some_forms(d.SEED, COMMANDS // 10)),
            COMMANDS // 100)


LINES = [b"set a 0 0 1", b"1", b"stats", b"stats items", b"stats slabs", b"stats settings",
         b"stats sizes", b"stats sizes_enable", b"stats sizes_disable", b"stats conns",
         b"stats reset", b"stats none", b"stats  items", b"stats noreply", b"stats extstore",
         b"version", b"version x", b"version noreply", b"verbosity 0", b"verbosity 0 noreply",
         b"verbosity noreply", b"verbosity", b"me a", b"me none", b"me", b"me a b",
         b"lru_crawler metadump all", b"lru_crawler metadump 1", b"lru_crawler metadump x",
         b"lru_crawler metadump", b"lru_crawler enable", b"lru_crawler disable",
         b"lru_crawler crawl all", b"lru_crawler sleep 100", b"lru_crawler tocrawl 0",
         b"lru_crawler", b"lru_crawler enable noreply", b"lru_crawler mgdump all",
         b"slabs automove 0", b"slabs reassign 1 2", b"slabs reassign 1 1", b"slabs",
         b"slabs automove 0 noreply", b"lru tune 20 40 0.2 2.0", b"lru mode flat", b"lru",
         b"lru temp_ttl -1 noreply", b"cache_memlimit 64", b"cache_memlimit 64 noreply",
         b"cache_memlimit noreply", b"refresh_certs", b"extstore free_memchunks 1 1",
         b"extstore", b"flush_all noreply", b"flush_all 0 noreply", b"flush_all noreply noreply",
         b"flush_all -1", b"flush_all x noreply", b"flush_all 0 x noreply", b"shutdown",
         b"shutdown x", b"shutdown noreply", b"delete noreply", b"delete a noreply ",
         b"delete a noreply x", b"delete a 0 noreply", b"delete a 1 noreply", b"touch noreply",
         b"touch a noreply", b"touch a 0 noreply", b"incr a noreply", b"incr a 1 noreply noreply",
         b"incr a x noreply", b"gat noreply a", b"gat 0 noreply", b"gat 0", b"gat", b"get noreply",
         b"foo noreply", b"noreply", b"delete " + b"k" * 251 + b" noreply", b"mn", b"ma",
         b"mg", b"md", b"mg a", b"mg none", b"mg none v", b"mg a v", b"mg a s v q", b"mg none q",
         b"mg a q", b"md none q", b"md none", b"ma none N0 J5 q", b"ma none v", b"mg none N0",
         b"mg none N0 v q", b"mg a T-1", b"mg YQ== b T0", b"get a\0b", b"get  a  b  ",
         b"get " + b" ".join(b"k%d" % i for i in range(3000)) + b" a", b"quit x"]


@tap.case
def lines():
    """Including commands whose answers have many lines, or none."""
    on_both("lines", parsers.Text(), [b"a", b"none"],
            lambda: [[b"%s\r\n" % line for line in LINES]] * 4, 2 * len(LINES))


tap.run(600)
