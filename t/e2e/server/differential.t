#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""Random streams of commands, answered by this server and by Debian's memcached 1.6.18.

Text, meta and binary commands, right and wrong, loud and quiet, over TCP in pieces of any length
and over UDP: the answers are equal byte for byte, except for CAS ids, for seconds that tick between
the two and for the rows of t/differences.md, which the streams leave out or this test removes.
COMMANDS is how many in all, SEED the seed; PEER is the other program, SHOW how many differences to
show. The same COMMANDS and SEED give the same streams.
"""
import os

import binarygen
import dialogues
import differential as d
import metagen
import server
import tap
import textgen

if not os.access(d.PEER, os.X_OK):
    tap.skip_all("no %s to compare with: apt-get install memcached" % d.PEER)


@tap.case
def text_streams():
    d.compare("text commands over TCP", textgen.Text(d.SEED), d.Tcp, d.COMMANDS * 35 // 100)


@tap.case
def text_datagrams():
    d.compare("text commands over UDP", textgen.Text(d.SEED, datagrams=True), d.Udp,
              d.COMMANDS * 8 // 100)


@tap.case
def meta_one_by_one():
    d.compare("meta commands one by one", metagen.Meta(d.SEED), d.Tcp, d.COMMANDS * 6 // 100)


@tap.case
def meta_streams():
    d.compare("meta commands over TCP", metagen.Meta(d.SEED + 1, pipelined=True), d.Tcp,
              d.COMMANDS * 20 // 100)


@tap.case
def meta_datagrams():
    d.compare("meta commands over UDP", metagen.Meta(d.SEED + 2, datagrams=True), d.Udp,
              d.COMMANDS * 5 // 100)


@tap.case
def binary_streams():
    d.compare("binary commands over TCP", binarygen.Binary(d.SEED), d.Tcp, d.COMMANDS * 20 // 100)


@tap.case
def binary_datagrams():
    d.compare("binary commands over UDP", binarygen.Binary(d.SEED, datagrams=True), d.Udp,
              d.COMMANDS * 5 // 100)


def on_a_pair(function, *arguments):
    pair = (server.Server(threads=1), d.start_peer())
    function(*arguments, pair)
    pair[1].kill()
    tap.is_(pair[0].stop(), 0, "the server ends with status 0")


@tap.case
def binary_forms():
    on_a_pair(binarygen.forms, d.SEED, d.COMMANDS // 100)


@tap.case
def binary_forms_in_datagrams():
    on_a_pair(dialogues.compare_datagrams, "binary requests of any form",
              binarygen.datagrams(d.SEED, d.COMMANDS // 100), binarygen.plain_replies)


@tap.case
def dialogues_of_text():
    on_a_pair(lambda pair: dialogues.compare("quit and HTTP", dialogues.ends(), pair,
                                             dialogues.answer))
    on_a_pair(lambda pair: dialogues.compare("long lines", dialogues.lines(), pair,
                                             dialogues.answer))
    on_a_pair(lambda pair: dialogues.compare("numbers", dialogues.numbers(), pair))
    on_a_pair(lambda pair: dialogues.compare("items in each state", dialogues.states(), pair))
    on_a_pair(lambda pair: dialogues.compare("other commands", dialogues.others(), pair))
    on_a_pair(lambda pair: dialogues.compare_datagrams("text that ends early",
                                                       dialogues.text_datagrams(), bytes, pair))


@tap.case
def a_flush_with_delay():
    on_a_pair(dialogues.delayed_flush)


@tap.case
def statistics():
    pair = (server.Server("-o", "no_lru_maintainer,no_lru_crawler", threads=1), d.start_peer())
    dialogues.counts(pair)
    pair[1].kill()
    tap.is_(pair[0].stop(), 0, "the server ends with status 0")


tap.run(600)
