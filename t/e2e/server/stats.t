#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""stats and its sub-commands: their keys, their order, and the counts."""
import re

import server
import tap
from names import SETTINGS, SLABS

GENERAL = """pid uptime time version libevent pointer_size rusage_user rusage_system max_connections
curr_connections total_connections rejected_connections connection_structures reserved_fds cmd_get
cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired get_flushed delete_misses
delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits
touch_misses auth_cmds auth_errors bytes_read bytes_written limit_maxbytes accepting_conns
listen_disabled_num time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes
hash_is_expanding slab_reassign_rescues slab_reassign_chunk_rescues slab_reassign_evictions_nomem
slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes
slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts lru_maintainer_juggles
malloc_fails log_worker_dropped log_worker_written log_watcher_skipped log_watcher_sent bytes
curr_items total_items slab_global_page_pool expired_unfetched evicted_unfetched evicted_active
evictions reclaimed crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold
moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped""".split()

CRAWLER = "lru_crawler_running lru_crawler_starts".split()
MAINTAINER = """lru_maintainer_juggles evicted_active moves_to_cold moves_to_warm moves_within_lru
direct_reclaims lru_bumps_dropped""".split()
SLAB_REASSIGN = [key for key in GENERAL if key.startswith("slab_reassign")] + ["slabs_moved"]

DEFAULTS = """maxbytes 67108864 maxconns 1024 verbosity 0 oldest 0 evictions on domain_socket NULL
umask 700 growth_factor 1.25 chunk_size 48 num_threads 4 stat_key_prefix : detail_enabled no
reqs_per_event 20 cas_enabled yes tcp_backlog 1024 binding_protocol auto-negotiate
auth_enabled_sasl no auth_enabled_ascii no item_size_max 1048576 maxconns_fast yes
hashpower_init 0 slab_reassign yes slab_automove 1 slab_automove_ratio 0.80
slab_automove_window 30 slab_chunk_max 524288 lru_crawler yes lru_crawler_sleep 100
lru_crawler_tocrawl 0 tail_repair_time 0 flush_enabled yes dump_enabled yes
hash_algorithm murmur3 lru_maintainer_thread yes lru_segmented yes hot_lru_pct 20
warm_lru_pct 40 hot_max_factor 0.20 warm_max_factor 2.00 temp_lru no temporary_ttl 61
idle_timeout 0 watcher_logbuf_size 262144 worker_logbuf_size 65536 track_sizes no
inline_ascii_response no""".split()

ITEMS = """number number_hot number_warm number_cold age_hot age_warm age mem_requested evicted
evicted_nonzero evicted_time outofmemory tailrepairs reclaimed expired_unfetched evicted_unfetched
evicted_active crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold
moves_to_warm moves_within_lru direct_reclaims hits_to_hot hits_to_warm hits_to_cold
hits_to_temp""".split()

memcached = server.Server()
c = memcached.stream()


def keys(rows):
    return [key for key, _ in rows]


@tap.case
def the_keys_of_stats():
    rows = c.stats_list()
    tap.is_(keys(rows), GENERAL, "stats has memcached's 80 keys, in its order")
    tap.is_(len(rows), 80, "which are 80")
    with server.Server("-o", "no_lru_crawler,no_lru_maintainer") as other:
        rows = other.stream().stats_list()
        left_out = CRAWLER + MAINTAINER
        tap.is_(keys(rows), [key for key in GENERAL if key not in left_out],
                "71 keys with no_lru_crawler,no_lru_maintainer")
        tap.is_(len(rows), 71, "which are 71")
    with server.Server("-o", "no_modern") as other:
        tap.is_(len(other.stream().stats_list()), 62, "62 keys with no_modern")
    with server.Server("-o", "idle_timeout=100") as other:
        rows = keys(other.stream().stats_list())
        tap.is_(rows[rows.index("auth_errors") + 1], "idle_kicks", "idle_timeout adds idle_kicks")


@tap.case
def the_values_of_stats():
    stats = c.stats()
    tap.is_(stats["pid"], str(memcached.pid), "pid")
    tap.like(stats["version"], r"\A1\.5\.19\S*\Z", "version")
    tap.is_(stats["pointer_size"], "64", "pointer_size")
    tap.like(stats["rusage_user"], r"\A\d+\.\d{6}\Z", "rusage_user")
    tap.ok(int(stats["uptime"]) <= 60, "uptime begins near 0")
    tap.is_(stats["threads"], "2", "threads")
    tap.is_(stats["max_connections"], "1024", "max_connections")
    tap.is_(stats["limit_maxbytes"], "67108864", "limit_maxbytes")
    tap.is_((stats["curr_items"], stats["total_items"], stats["bytes"]), ("0", "0", "0"),
            "an empty cache has no items and no bytes")


@tap.case
def no_statistic_is_an_address():
    c.set(b"x", b"x")
    text = b""
    for which in (b"", b" settings", b" items", b" slabs", b" conns", b" sizes", b" bmc"):
        text += c.all(b"stats%s\r\n" % which)
    tap.ok(not re.search(rb"0x[0-9a-f]{6,}|7f[0-9a-f]{10}|\(nil\)", text),
           "no statistic shows a memory address")
    for which in (b"malloc", b"maps", b"nonsense"):
        tap.is_(c.all(b"stats %s\r\n" % which), b"ERROR\r\n", "stats %s is an error" %
                which.decode())


@tap.case
def commands_are_counted():
    c.stats("reset")
    before = c.stats()
    for request in (b"set s 0 0 1\r\n1\r\n", b"get s\r\n", b"get none\r\n", b"add s 0 0 1\r\n1\r\n",
                    b"delete none\r\n", b"incr s 1\r\n", b"incr none 1\r\n", b"decr s 1\r\n",
                    b"decr none 1\r\n", b"cas none 0 0 1 1\r\n1\r\n", b"cas s 0 0 1 1\r\n1\r\n",
                    b"touch s 0\r\n", b"touch none 0\r\n", b"flush_all 100000\r\n"):
        c.all(request)
    cas = c.gets(b"s")[1]
    c.set(b"s", b"2", verb=b"cas", tail=b" %d" % cas)
    c.all(b"delete s\r\n")
    after = c.stats()
    grown = {key: int(after[key]) - int(before[key]) for key in GENERAL
             if re.match(r"cmd_|get_|delete_|incr_|decr_|cas_|touch_|total_items", key)}
    want = dict(cmd_get=3, cmd_set=5, cmd_flush=1, cmd_touch=2, cmd_meta=0, get_hits=2,
                get_misses=1, get_expired=0, get_flushed=0, delete_misses=1, delete_hits=1,
                incr_misses=1, incr_hits=1, decr_misses=1, decr_hits=1, cas_misses=1, cas_hits=1,
                cas_badval=1, touch_hits=1, touch_misses=1)
    for key, value in want.items():
        tap.is_(grown[key], value, "%s grows by %d" % (key, value))


@tap.case
def items_and_bytes_are_counted():
    with server.Server() as s, s.stream() as d:
        for i in range(100):
            d.set(b"k%02d" % i, b"v" * 100)
        stats = d.stats()
        tap.is_((stats["curr_items"], stats["total_items"]), ("100", "100"), "100 items")
        size = int(stats["bytes"]) / 100
        tap.ok(103 < size <= 103 + 64,
               "an item costs at most 64 bytes more than key and value (%d)" %
               (size - 103))
        for i in range(40):
            d.ask(b"delete k%02d\r\n" % i)
        stats = d.stats()
        tap.is_((stats["curr_items"], stats["total_items"]), ("60", "100"),
                "deleted items count only in total_items")
        tap.is_(int(stats["bytes"]), int(size * 60), "their bytes are subtracted")
        first = d.stats()
        d.ask(b"version\r\n")
        second = d.stats()
        tap.ok(int(second["bytes_written"]) > int(first["bytes_written"]),
               "bytes_written counts what was sent")
        tap.is_(int(second["bytes_read"]) - int(first["bytes_read"]),
                len(b"version\r\n") + len(b"stats\r\n"), "bytes_read counts what was received")


@tap.case
def reset():
    c.set(b"r", b"r")
    c.get(b"r")
    tap.is_(c.all(b"stats reset\r\n"), b"RESET\r\n", "stats reset answers RESET")
    stats = c.stats()
    for key in ("cmd_get", "cmd_set", "get_hits", "get_misses", "total_items", "evictions",
                "total_connections"):
        tap.is_(stats[key], "0", "%s is 0 again" % key)
    tap.ok(int(stats["curr_items"]) > 0, "curr_items is not reset")
    tap.ok(int(stats["curr_connections"]) > 0, "curr_connections is not reset")


@tap.case
def settings():
    rows = c.stats_list("settings")
    got = [key for key in keys(rows) if key in SETTINGS]
    tap.is_(got, SETTINGS, "stats settings has memcached's keys, in its order")
    with server.Server(threads=4) as other:
        values = other.stats("settings")
        wrong = [(key, values.get(key), want) for key, want in zip(DEFAULTS[::2], DEFAULTS[1::2])
                 if values.get(key) != want]
        tap.is_(wrong, [], "it has memcached's defaults")
        tap.is_((values["tcpport"], values["udpport"], values["inter"]),
                (str(other.port), str(other.port), "127.0.0.1"), "it has ports and address")


@tap.case
def items():
    with server.Server() as where, where.stream() as d:
        tap.is_(d.all(b"stats items\r\n"), b"END\r\n", "no class has items at the start")
        d.set(b"k", b"v" * 20)
        rows = d.stats_list("items")
        classes = {key.split(":")[1] for key in keys(rows)}
        tap.is_(len(classes), 1, "one class has the only item")
        number = classes.pop()
        tap.is_(keys(rows), ["items:%s:%s" % (number, key) for key in ITEMS],
                "stats items has memcached's keys, in its order")
        tap.is_(dict(rows)["items:%s:number" % number], "1", "number is 1")
        d.set(b"large", b"v" * 5000)
        tap.is_(len({key.split(":")[1] for key in keys(d.stats_list("items"))}), 2,
                "a larger item is in another class")


@tap.case
def slabs():
    with server.Server() as one, one.stream() as d:
        d.set(b"k", b"v" * 20)
        for _ in range(3):
            d.get(b"k")
        rows = d.stats_list("slabs")
        tap.is_(keys(rows)[-2:], ["active_slabs", "total_malloced"],
                "stats slabs ends with active_slabs and total_malloced")
        number = next(key.split(":")[0] for key, value in rows
                      if key.endswith(":used_chunks") and value == "1")
        got = [key.split(":")[1] for key in keys(rows) if key.startswith(number + ":")]
        tap.is_(got, SLABS, "a class has memcached's keys, in its order")
        values = dict(rows)
        tap.is_((values[number + ":get_hits"], values[number + ":cmd_set"]), ("3", "1"),
                "get_hits and cmd_set are counted in the class")
        page = int(values[number + ":chunk_size"]) * int(values[number + ":chunks_per_page"])
        tap.ok(900000 < page <= 1048576, "a page is 1 MB of chunks")
        tap.is_(int(values[number + ":used_chunks"]) + int(values[number + ":free_chunks"]),
                int(values[number + ":total_chunks"]), "used and free chunks are all chunks")
        d.ask(b"delete k\r\n")
        tap.is_(d.stats("slabs")[number + ":used_chunks"], "0", "a deleted item's chunk is free")


@tap.case
def sizes():
    tap.is_(c.all(b"stats sizes\r\n"), b"STAT sizes_status disabled\r\nEND\r\n",
            "stats sizes is disabled at first")
    with server.Server("-o", "track_sizes") as s, s.stream() as d:
        for i in range(5):
            d.set(b"k%d" % i, b"v" * 10)
        for i in range(3):
            d.set(b"l%d" % i, b"v" * 1000)
        rows = d.stats_list("sizes")
        tap.is_(sorted(value for _, value in rows), ["3", "5"], "track_sizes counts items by size")
        tap.ok(all(int(key) % 32 == 0 for key, _ in rows), "it counts in steps of 32 bytes")


@tap.case
def conns():
    other = memcached.stream()
    other.ask(b"version\r\n")
    values = c.stats("conns")
    listeners = [key for key, value in values.items() if value == "conn_listening"]
    tap.is_(len(listeners), 1, "one listener")
    number = listeners[0].split(":")[0]
    tap.is_(values[number + ":addr"], "tcp:127.0.0.1:%d" % memcached.port,
            "the listener has its address")
    tap.ok(number + ":listen_addr" not in values, "it has no listen_addr")
    mine = "tcp:127.0.0.1:%d" % c.sock.getsockname()[1]
    number = next(key.split(":")[0] for key, value in values.items() if value == mine)
    tap.is_(values[number + ":state"], "conn_parse_cmd",
            "a connection that asks is in conn_parse_cmd")
    tap.is_(values[number + ":listen_addr"], "tcp:127.0.0.1:%d" % memcached.port,
            "it has a listen_addr")
    tap.like(values[number + ":secs_since_last_cmd"], r"\A\d+\Z", "it has secs_since_last_cmd")
    other.send(b"set half 0 0 10\r\nabc")
    mine = "tcp:127.0.0.1:%d" % other.sock.getsockname()[1]

    def state():
        rows = c.stats("conns")
        fd = next(key.split(":")[0] for key, value in rows.items() if value == mine)
        return rows[fd + ":state"]

    tap.ok(server.wait_for(lambda: state() == "conn_nread"),
           "a connection that sends a value is in conn_nread")
    other.close()
    udp = [value for value in values.values() if value.startswith("udp:127.0.0.1")]
    tap.is_(len(udp), 2, "there is a UDP socket for each of two workers")


@tap.case
def connections_are_counted():
    server.wait_for(lambda: c.stats()["curr_connections"] == "3")
    before = c.stats()
    others = [memcached.stream() for _ in range(5)]
    for other in others:
        other.ask(b"version\r\n")
    during = c.stats()
    tap.is_(int(during["curr_connections"]) - int(before["curr_connections"]), 5,
            "curr_connections counts five more")
    tap.is_(int(during["total_connections"]) - int(before["total_connections"]), 5,
            "total_connections counts them, too")
    for other in others:
        other.close()
    tap.ok(server.wait_for(lambda: c.stats()["curr_connections"] == before["curr_connections"]),
           "curr_connections decreases again")


tap.run(ends=memcached)
