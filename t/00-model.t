#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: nice
"""The rules of t/model/splice.h and the programs of bpf/tcp name each other: each rule stands where
a line follows it, and what is named there is a rule."""
import glob
import os
import re

import tap

SRCDIR = os.environ.get("SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
RULE = re.compile(r"\bRULE_[A-Z_]+")


def read(path):
    with open(os.path.join(SRCDIR, path), encoding="utf-8") as file:
        return file.read()


def rules():
    return set(RULE.findall(re.search(r"enum splice_rule \{(.*?)\};", read("t/model/splice.h"),
                                      re.S)[1]))


def named():
    paths = glob.glob(os.path.join(SRCDIR, "bpf/tcp/*.bpf.h"))
    return {rule for path in paths for rule in RULE.findall(read(path))}


@tap.case
def each_rule_is_named_where_it_is_followed():
    tap.is_(sorted(rules() - named()), [], "bpf/tcp names each rule of the model")
    tap.is_(sorted(named() - rules()), [], "and no other")


@tap.case
def each_rule_is_left_out_once():
    left_out = RULE.findall(read("t/model/splice.c"))
    tap.is_(sorted(rules() - set(left_out)), ["RULE_KMAX_ACK"],
            "t/model/splice.c leaves each out, but for one that no short trace needs")


tap.run()
