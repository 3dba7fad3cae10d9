#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Streams of requests over TCP that native XDP answers, or TC alone, on a good and on a bad
network: every byte of every reply is the one that the model of t/tool/tcpcheck has.

For t/kernels/run: kernels differ in how veth, GRO and TC hand segments to the programs.
"""

import cable
import kernel
import netns
import tap
import tcpcheck

OPERATIONS = 10000 // tap.SLOW
BAD = ("--loss", 0.01, "--duplicate", 0.05, "--reorder", 0.05, "--jitter", 3)


def streams(name, pair, by, operations, mode=None):
    with kernel.Machines("-m", 512, mode=mode, words=("tcp=on",), pair=pair) as m:
        tcpcheck.answered(m, operations, name, by)


@tap.case
def native():
    streams("native XDP", netns.Pair(), "tcp_answered_xdp", OPERATIONS)


@tap.case
def tc():
    streams("TC alone", netns.Pair(), "tcp_answered_tc", OPERATIONS, "tc")


@tap.case
def native_on_a_bad_network():
    streams("native XDP, a bad network", cable.Pair(*BAD), "tcp_answered_xdp", OPERATIONS // 4)


@tap.case
def tc_on_a_bad_network():
    streams("TC alone, a bad network", cable.Pair(*BAD), "tcp_answered_tc", OPERATIONS // 4, "tc")


tap.run()
