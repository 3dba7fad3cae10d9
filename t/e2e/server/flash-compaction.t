#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""Flash storage: which values stay while pages are compacted, bursts arrive and memory moves. None
that is live is lost by default while the files have room."""
import random

import server
import tap
from flash import EAGER, Flash, is_built_in, key, value

if not is_built_in():
    tap.skip_all("no flash storage in this build")


# --- compaction -----------------------------------------------------------------

@tap.case
def compaction_keeps_used_values():
    options = EAGER + ",ext_compact_under=100,ext_drop_under=0,ext_max_frag=0.9"
    with Flash(options=options, size="12m") as s, s.stream() as c:
        keys = [key(i) for i in range(1500)]
        for k in keys:
            c.set(k, value(k, size=4000))
        tap.ok(s.spilled(1400), "values are on flash")
        for i, k in enumerate(keys):
            if i % 3:
                c.ask(b"delete %s\r\n" % k)
        s.write_out(c)
        tap.ok(server.wait_for(lambda: s.count("extstore_compact_rescues") >= 100),
               "pages with many holes are compacted")
        got = [c.get(k) for k in keys]
        tap.ok(all(v == (None if i % 3 else value(k, size=4000))
                   for i, (k, v) in enumerate(zip(keys, got))), "no value is lost or reappears")
        tap.is_(s.count("extstore_compact_lost"), 0, "none is counted as lost")
        buckets = {v for k, v in s.stats("extstore").items() if k.endswith(":bucket")}
        tap.ok("1" in buckets, "moved values are in pages of their own")


def half_deleted(options):
    """The counters of a server with 20 pages after every second one of 6,800 values was deleted."""
    where = server.scratch()
    with server.Server("-o", "ext_page_size=2,ext_wbuf_size=1,ext_path=%s/a:16m,ext_path=%s/b:24m,"
                       "ext_item_size=512,ext_item_age=0,%s" % (where, where, options),
                       udp=False) as s, s.stream() as c:
        for i in range(6800):
            c.set(key(i), value(key(i), size=5000), exptime=200 if i % 2 else 0)
            if i % 500 == 0:
                server.wait_for(lambda i=i: int(s.stats()["extstore_objects_written"]) > i - 500)
        server.wait_for(lambda: int(s.stats()["extstore_objects_written"]) >= 6790)
        for i in range(1, 6800, 2):
            c.ask(b"delete key%d\r\n" % i)
        c.ask(b"lru_crawler crawl all\r\n")
        server.wait_for(lambda: int(s.stats()["extstore_page_reclaims"]) >= 2, 10)
        stats = s.stats()
        good = all(c.get(key(i)) == (None if i % 2 else value(key(i), size=5000))
                   for i in range(6800))
        return {n: int(stats["extstore_" + n]) for n in (
            "page_reclaims", "page_evictions", "compact_rescues")}, good


@tap.case
def half_empty_pages_are_reclaimed():
    whole, empty, none = tap.at_once(half_deleted, (
        "ext_compact_under=5,ext_max_frag=0.9",
        "ext_compact_under=5,ext_max_frag=0,ext_low_ttl=300",
        "ext_compact_under=5,ext_max_frag=0.4"))
    counts, good = whole
    tap.ok(counts["page_reclaims"] >= 2 and counts["compact_rescues"] > 0,
           "ext_max_frag=0.9: half empty pages of nearly full files are compacted")
    # Some are counted as lost: those that are deleted just while they are moved.
    tap.is_((counts["page_evictions"], good), (0, True), "no value is lost")
    counts, good = empty
    tap.ok(counts["page_reclaims"] >= 2, "pages of values that expire soon become empty")
    tap.is_((counts["compact_rescues"], good), (0, True), "ext_max_frag=0: no page is compacted")
    counts, good = none
    tap.is_((counts["page_reclaims"], counts["compact_rescues"], good), (0, 0, True),
            "ext_max_frag=0.4: half empty pages are not compacted")


@tap.case
def compaction_drops_unread_values_on_request():
    options = EAGER + ",ext_compact_under=100,ext_drop_under=100,ext_max_frag=0"
    with Flash(options=options, size="12m") as s, s.stream() as c:
        for i in range(1500):
            c.set(key(i), value(key(i), size=4000))
        s.spilled(1400)
        for i in range(0, 1500, 10):
            c.get(key(i))
        c.ask(b"extstore drop_unread 1\r\n")
        tap.ok(server.wait_for(lambda: s.count("extstore_compact_skipped") >= 800),
               "with ext_drop_unread unread values are not moved")
        tap.ok(server.wait_for(lambda: s.count("extstore_compact_rescues") >= 80),
               "those that were read once are")
        tap.is_([i for i in range(0, 1500, 10) if c.get(key(i)) != value(key(i), size=4000)], [],
                "the values that were read are all there")
        missing = [i for i in range(1500) if c.get(key(i)) is None]
        tap.is_(len(missing), s.count("extstore_compact_skipped"),
                "the others of these pages are dropped")


@tap.case
def no_live_value_is_lost_by_default():
    with Flash("-m", "16", options=None, page="ext_page_size=4") as s, s.stream() as c:
        for n in range(6000):
            generation, i = divmod(n, 1000)
            for k in (b"hot%d" % i, b"cold%d" % i)[:2 if generation == 0 else 1]:
                c.set(k, value(k, generation, 20000))
            if n % 20 == 0: # no faster than values leave memory
                server.wait_for(lambda: s.has_room((20100,)), 10)
        stats = s.stats()
        tap.is_([stats[k] for k in ("evictions", "extstore_page_evictions",
                                    "extstore_compact_skipped")], ["0", "0", "0"],
                "7,000 sets of 2,000 values, 40 MB of 64, evict and drop none")
        tap.ok(int(stats["extstore_compact_rescues"]) > 100, "compaction moves those in use")
        tap.is_([k for i in range(1000) for k in (b"hot%d" % i, b"cold%d" % i)
                 if c.get(k) != value(k, 5 * k.startswith(b"hot"), 20000)], [],
                "all are there")


@tap.case
def rules_that_change_while_the_server_runs():
    page = "ext_page_size=8,ext_wbuf_size=2,ext_threads=1,ext_io_depth=2,ext_item_size=512," \
           "ext_item_age=2,ext_recache_rate=10000,ext_max_frag=0.9,slab_automove=0," \
           "ext_compact_under=1"
    with Flash("-m", "64", options=None, page=page) as s, s.stream() as c:
        for i in range(4000):
            c.set(key(i), value(key(i), size=20000))
            if i % 1000 == 999:
                server.wait_for(lambda: not s.in_memory())
        stats = s.stats()
        tap.ok(int(stats["extstore_page_evictions"]) > 0 and stats["evictions"] == "0",
               "80 MB of values for 64 MB of flash: pages are evicted, items are not")
        for _ in range(2):
            for i in range(0, 2000, 2):
                c.get(key(i))
        read = [i for i in range(0, 2000, 2) if c.all(b"mg key%d\r\n" % i) == b"HD\r\n"]
        for rule in (b"drop_unread 1", b"max_frag 0", b"compact_under 4", b"drop_under 3"):
            c.ask(b"extstore %s\r\n" % rule)
        for i in range(1, 4000, 2):
            c.ask(b"delete %s\r\n" % key(i))
        tap.ok(server.wait_for(lambda: s.count("extstore_compact_rescues") > 0 and
                               s.count("extstore_compact_skipped") > 0 and
                               s.count("extstore_pages_free") >= 3),
               "max_frag 0, drop_unread: below drop_under pages are compacted until it is left")
        tap.is_([i for i in read if c.get(key(i)) != value(key(i), size=20000)], [],
                "values that were read are kept")
        tap.is_(s.count("extstore_compact_lost"), 0, "none is counted as lost")


@tap.case
def values_in_chunks_survive_compaction():
    options = "ext_item_size=512,ext_item_age=0,ext_max_frag=0.9"
    with Flash("-m", "64", "-o", "slab_chunk_max=16384", options=options, size="96m",
               page="ext_page_size=8,ext_wbuf_size=2") as s:
        c, rng, latest = s.stream(), random.Random(1), {}
        for n in range(6000):
            k = key(rng.randrange(2000))
            latest[k] = value(k, n, rng.randrange(3000, 40000))
            c.set(k, latest[k])
            if n % 200 == 0:
                server.wait_for(lambda: not s.in_memory())
        server.wait_for(lambda: not s.in_memory())
        tap.ok(s.count("extstore_compact_rescues") > 100, "pages of values in chunks are compacted")
        tap.is_([k for k in latest if c.get(k) != latest[k]], [], "all values are there, whole")


# --- memory ---------------------------------------------------------------------

@tap.case
def a_burst_of_new_values_evicts_none():
    with Flash("-m", "16", options=None, page="ext_page_size=4") as s, s.stream() as c:
        for n in range(0, 8000, 500):
            c.all(b"".join(b"set %s 0 0 5000 noreply\r\n%s\r\n" % (key(i), value(key(i), size=5000))
                           for i in range(n, n + 500)))
            if not server.wait_for(lambda: s.has_room((5100,), 500), 10):
                break
        tap.is_((n, s.count("evictions")), (7500, 0),
                "after each burst of 500 values there is room for the next one")
        tap.is_([i for i in range(8000) if c.get(key(i)) != value(key(i), size=5000)], [],
                "8,000 values of 5 kB in 16 MB: all are there")


@tap.case
def a_read_finds_no_memory_outside_the_limit():
    with Flash("-m", "64", "-I", "4m", "-o", "slab_automove=0", options=None, size="128m",
               page="ext_page_size=8,ext_wbuf_size=8") as s, s.stream() as c:
        large = value(b"large", size=3000000)
        c.set(b"large", large)
        c.ask(b"extstore item_age 0\r\n")
        tap.ok(server.wait_for(lambda: not s.in_memory()), "a value of 3 MB is on flash")
        tap.ok(c.get(b"large") == large, "it is read")
        classes = [int(name.split(":")[0]) for name in s.stats("slabs")
                   if name.endswith(":total_pages")]
        for clsid in sorted(classes)[1:] + [0]:
            move = b"slabs reassign %d 1\r\n" % clsid
            tap.ok(server.wait_for(lambda move=move: c.ask(move).startswith(b"NOSPARE")),
                   "all pages of class %d but one go to class 1 (0: the pool)" % clsid)
        tap.is_(c.ask(b"get large\r\n"), b"SERVER_ERROR out of memory writing get response\r\n",
                "then a get of it is refused")
        tap.is_((s.count("get_oom_extstore"), s.count("slab_global_page_pool")), (1, 0),
                "the refusal is counted")
        tap.ok(int(s.stats("slabs")["total_malloced"]) <= 64 << 20, "memory stays within -m")


tap.run()
