# SPDX-License-Identifier: BSD-3-Clause
"""What papers have published of their own machines, as far as their text says it in numbers.

A figure whose values only its picture has is left out, or the text's ratio stands for it. The
copies that were read have no page numbers of the proceedings for BMC: section and figure are named.
"""

import collections

Published = collections.namedtuple("Published", "series x y source")

BMC = "BMC (Ghigoff et al., NSDI 2021)"
BMC_MACHINE = "2 x 8-core Xeon E5-2650 v2, XL710 and Agilio CX, Linux 5.3"
NICACHED = "NICached (Siracusano, Bifulco, SIGCOMM 2017)"
NICACHED_MACHINE = "4-core Xeon E5-1630, ConnectX-3, values and keys of 8 bytes"
FLYING = "Flying Memcache (Deyannis et al.)"
FLYING_MACHINE = "2 x 4-core Xeon E5520, 2 x 10 GbE, netmap"

# Requests a second over cores (x). One core's 1 million is "6x the throughput of both".
CORES = [
    Published("vanilla", 1, 1000000 / 6, f"{BMC}, section 5.2, figure 6"),
    Published("vanilla", 4, 393000, f"{BMC}, section 5.2, figures 3 and 6: its best"),
    Published("sr", 1, 1000000 / 6, f"{BMC}, section 5.2, figure 6"),
    Published("sr", 8, 1200000, f"{BMC}, section 5.2, figures 3 and 6"),
    Published("chain", 1, 1000000, f"{BMC}, section 5.2, figure 6"),
    Published("chain", 8, 7200000, f"{BMC}, section 5.2, figure 6"),
]
# Figure 6's bars: times vanilla at its best, and times a socket per thread.
THROUGHPUT = [
    Published("times vanilla", 8, 18, f"{BMC}, section 5.2, figure 6, 8 cores"),
    Published("times a socket per thread", 8, 6, f"{BMC}, section 5.2, figure 6, 8 cores"),
    Published("times a socket per thread", 1, 6, f"{BMC}, section 5.2, figure 6, one core"),
]
# BMC over MemcachedSR, over the percentage of small requests (x).
MIX = [
    Published("chain", 0, 1, f"{BMC}, section 5.2, figure 7: \"does not significantly "
                             "deteriorate\""),
    Published("chain", 25, 4, f"{BMC}, section 5.2, figure 8"),
    Published("chain", 100, 6, f"{BMC}, section 5.2, figure 6, 8 cores"),
]
# Times MemcachedSR's best, over the percentage of memory that BMC has (x).
SPLIT = [
    Published("chain", 0.1, 2.3, f"{BMC}, section 5.3, figure 9"),
    Published("chain", 25, 6, f"{BMC}, section 5.3, figure 9: its best, which section 5.2 and "
                              "figure 6 have in numbers"),
]
# Microseconds in the server, from driver to driver: medians.
LATENCY = [
    Published("hit of BMC", 0.5, 2.1, f"{BMC}, section 5.4, figure 10a"),
    Published("hit of Memcached behind BMC", 0.5, 21.8, f"{BMC}, section 5.4, figure 10a"),
    Published("miss of Memcached behind BMC", 0.5, 21.6, f"{BMC}, section 5.4, figure 10a"),
    Published("hit of Memcached alone", 0.5, 20.8, f"{BMC}, section 5.4, figure 10b: \"lower by "
                                                   "about 1 us\""),
]
# From 100 to 2000 ns of delay the dummy's rate falls by 4.5.
DELAY = [
    Published("dummy", 100, 1, f"{BMC}, section 5.4, figure 11"),
    Published("dummy", 2000, 1 / 4.5, f"{BMC}, section 5.4, figure 11"),
]
# Share of a CPU of those that serve, at 2.3 million requests a second, half of them over TCP.
LOAD = [
    Published("Memcached's two cores", 2300000, 0.91, f"{BMC}, section 5.6, figure 15"),
    Published("BMC's six cores", 2300000, 0.13, f"{BMC}, section 5.6, figure 15"),
    Published("all eight", 2300000, 0.33, f"{BMC}, section 5.6, figure 15"),
    Published("Seastar's eight", 2300000, 1.0, f"{BMC}, section 5.6, figure 15"),
]
# A transfer of 10 GB over TCP takes 4.43 s without load. How long it takes beside BMC, of the time
# beside MemcachedSR alone, over requests a second (x).
TRANSFER = [
    Published("chain over sr", 5000000, 0.17, f"{BMC}, section 5.5, figure 12: \"83% faster\""),
]
# Requests a second, half of them over TCP, over cores (x).
HALF = [
    Published("Seastar", 8, 2300000, f"{BMC}, section 5.6, figure 14"),
    Published("chain", 3, 2300000, f"{BMC}, section 5.6, figure 14: \"similar\" to Seastar's with "
                                   "3 cores"),
]
# The share that BMC answered with Table 3's settings (x: percent of the memory that it had).
ANSWERED = [
    Published("chain", 25, 6.3 / 7.2, f"{BMC}, section 5.2: 6.3 of 7.2 million a second"),
]
# The system calls' share of Memcached's run time over its threads (x).
SYSTEM = [
    Published("vanilla", 1, 0.5, f"{BMC}, section 2.1, figure 2: \"more than 50 %\", growing with "
                                "the threads"),
    Published("vanilla", 8, 0.8, f"{BMC}, section 2.1, figure 2"),
]
# Times the same machine's memcached with sockets, over bytes of a value.
SIZES = [
    Published("NICached, one core against four", 8, 6, f"{NICACHED}, page 2"),
    Published("Flying Memcache, least", 250, 1.47, f"{FLYING}, section IV.D: 1.47 to 5.71"),
    Published("Flying Memcache, most", 250, 5.71, f"{FLYING}, section IV.D: 1.47 to 5.71"),
    Published("Flying Memcache, least", 25000, 1.47, f"{FLYING}, section IV.D: 1.47 to 5.71"),
    Published("Flying Memcache, most", 25000, 5.71, f"{FLYING}, section IV.D: 1.47 to 5.71"),
]
# Of what the machine's XDP sends back without a lookup.
FLOOR_SHARE = [
    Published("NICached, 3.2 million entries", 3200000, 5.4 / 6.9, f"{NICACHED}, page 2: 5.4 of "
                                                                   "6.9 million, one core"),
]
