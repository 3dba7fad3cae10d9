#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The chain is linearizable, in front of Debian's memcached and of ours: porcupine judges what
clients saw over TCP and UDP, in text, meta and binary, as in t/e2e/kernel/linear.t.

Only what an observer of packets cannot know is left out: items that expire (-expire) and that are
evicted (-evicts). Debian's memcached may answer a get beside an incr with the old value and the new
CAS id (-late-ids); it does so without the chain too. LINEAR_SECONDS is the length of each case,
without it they end after OPERATIONS; linear.py has the details.
"""
import os

import chain
import linear
import netns
import tap

# A write over UDP that its reply does not end (ms, md, gat) closes its key's gate for all of
# --settle, longer than many a case: the share of the kernel's answers can be checked only where
# there is none (-distinct).
READS = ("-reads", 97, "-plain", 90, "-udp-writes", 2)
STREAMED = (*READS[:-1], 0)
SETTLE = 500 # ms: longer than a busy machine delays a server
OPERATIONS = 20000
LENGTH = (linear.SECONDS, ()) if "LINEAR_SECONDS" in os.environ else (
    30, ("-operations", OPERATIONS))


linear.program()
each = chain.Each(threads=2, chain={"settle": SETTLE})


def played(m, *words, least=0, ended=0, lossy=0):
    """A run; least: the share of the plain gets over UDP that the kernel has to answer. ended: the
    share of the writes that have to end by their replies. lossy: one packet in that many is lost.
    """
    losses = netns.attach_loss("cl0", m.pair.client, lossy) if lossy else []
    done, grown = m.during(lambda: linear.run(
        "-udp", "-kernel=false", *(("-apart", "-late-ids") if m.bmc else ()),
        "-address", "%s:%d" % (m.pair.address(), m.server.port), *words, *LENGTH[1],
        seconds=LENGTH[0]))
    for fd in losses:
        os.close(fd)
    found = linear.judge(done)
    tap.diag(", ".join("%s %d" % row for row in sorted(grown.items()) if row[1]))
    share = grown["hits"] / max(found.get("keys_udp_get", 0), 1)
    tap.ok(share >= least, "the kernel answers %.1f %% of the plain "
           "gets over UDP, at least %d" % (100 * share, 100 * least))
    share = grown["writes_ended"] / max(grown["writes_seen"], 1)
    tap.ok(share >= ended, "%.1f %% of the writes end by their replies, at least %d" % (
        100 * share, 100 * ended))


@each.case
def reads(m):
    played(m, *STREAMED, "-fill", 40, least=1 / 3)


@each.case
def writes_and_flushes(m):
    played(m, "-plain", 90, "-flush", "200ms")


@each.case
def writes_over_udp(m):
    """Of which each but the few that are lost ends by its reply."""
    played(m, *READS[:-1], 95, "-distinct", "-fill", 40, least=1 / 3, ended=0.9)


@each.case
def few_keys_and_many_at_once(m):
    played(m, "-groups", 4, "-keys", 1, "-clients", 3, "-udp-reads", 100, "-plain", 90,
           "-burst", 16, "-window", 6, "-reads", 90, "-history", 3000)


@each.case
def long_values_and_short_connections(m):
    played(m, *STREAMED, "-blanks", 900, "-redial", 0.02, least=1 / 3)


@each.case
def lost_packets(m):
    """One in 256, both ways: TCP retransmits segments that the chain has seen, and that it has
    not."""
    played(m, *READS, "-groups", 4, lossy=256)


@tap.case
def keys_that_share_buckets():
    """Other keys are written all the time, to a table of few buckets and fewer blocks."""
    with chain.Machines(chain.DEBIAN, threads=2, chain={"settle": SETTLE, "entries": 64}) as m:
        played(m, *READS, "-churn", 2000, "-fillers", 2000, "-groups", 6)


each.end()
tap.run(linear.SECONDS + 300)
