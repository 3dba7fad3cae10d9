#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The keys of stats under each option that changes them, in their order, and the counts."""
import os
import socket

import binary
import server
import tap
from names import SETTINGS, SLABS

# memcached 1.5.19's, in order: a word, or [option: words] of a part that only some servers have.
STATS = """pid uptime time version libevent pointer_size rusage_user rusage_system max_connections
curr_connections total_connections [maxconns_fast: rejected_connections] connection_structures
reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired
get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses
cas_hits cas_badval touch_hits touch_misses auth_cmds auth_errors [idle_timeout: idle_kicks]
bytes_read bytes_written limit_maxbytes accepting_conns listen_disabled_num
time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes hash_is_expanding
[slab_reassign: slab_reassign_rescues slab_reassign_chunk_rescues slab_reassign_evictions_nomem
slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes
slab_reassign_running slabs_moved] [lru_crawler: lru_crawler_running lru_crawler_starts]
[lru_maintainer: lru_maintainer_juggles] malloc_fails log_worker_dropped log_worker_written
log_watcher_skipped log_watcher_sent bytes curr_items total_items slab_global_page_pool
expired_unfetched evicted_unfetched [lru_maintainer: evicted_active] evictions reclaimed
crawler_reclaimed crawler_items_checked lrutail_reflocked [lru_maintainer: moves_to_cold
moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped]"""

ITEMS = """number [lru_maintainer: number_hot number_warm number_cold] [temp: number_temp]
[lru_maintainer: age_hot age_warm] age mem_requested evicted evicted_nonzero evicted_time
outofmemory tailrepairs reclaimed expired_unfetched evicted_unfetched [lru_maintainer:
evicted_active] crawler_reclaimed crawler_items_checked lrutail_reflocked [lru_maintainer:
moves_to_cold moves_to_warm moves_within_lru direct_reclaims hits_to_hot hits_to_warm hits_to_cold
hits_to_temp]"""

# Keys of optional parts of a build, behind the others.
BUILT = """drop_privileges ext_item_size ext_item_age ext_low_ttl ext_recache_rate ext_wbuf_size
ext_compact_under ext_drop_under ext_max_frag slab_automove_freeratio ext_drop_unread ssl_enabled
ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers ssl_ca_cert
ssl_wbuf_size""".split()

MODERN = {"maxconns_fast", "slab_reassign", "lru_crawler", "lru_maintainer"}
FORMS = (
    ((), MODERN, 80),
    (("-o", "no_lru_crawler,no_lru_maintainer"), MODERN - {"lru_crawler", "lru_maintainer"}, 71),
    (("-o", "no_modern"), set(), 62),
    (("-o", "no_maxconns_fast"), MODERN - {"maxconns_fast"}, 79),
    (("-o", "no_slab_reassign"), MODERN - {"slab_reassign"}, 72),
    (("-o", "idle_timeout=100"), MODERN | {"idle_timeout"}, 81),
    (("-o", "temporary_ttl=100"), MODERN | {"temp"}, 80),
)


def chosen(template, options):
    keys, on = [], True
    for word in template.split():
        if word.startswith("["):
            on = word[1:].rstrip(":") in options
            continue
        if on:
            keys.append(word.rstrip("]"))
        on = on or word.endswith("]")
    return keys


@tap.case
def keys_under_each_option():
    for arguments, options, count in FORMS:
        with server.Server(*arguments) as memcached, memcached.stream() as c:
            name = " ".join(arguments) or "no option"
            keys = [key for key, _ in c.stats_list()]
            tap.is_(keys, chosen(STATS, options), "stats, %s: the keys in their order" % name)
            tap.is_(len(keys), count, "which are %d" % count)
            for value in (b"v", b"v" * 5000):
                c.set(b"k%d" % len(value), value)
            numbers = sorted({int(k.split(":")[1]) for k in c.stats("items")})
            tap.is_([key for key, _ in c.stats_list("items")],
                    ["items:%d:%s" % (n, key) for n in numbers for key in chosen(ITEMS, options)],
                    "stats items, of %d classes" % len(numbers))
            numbers = sorted({int(k.split(":")[0]) for k in c.stats("slabs") if ":" in k})
            tap.is_([key for key, _ in c.stats_list("slabs")],
                    ["%d:%s" % (n, key) for n in numbers for key in SLABS] +
                    ["active_slabs", "total_malloced"], "stats slabs, of %d classes" % len(numbers))
            keys = [key for key, _ in c.stats_list("settings")]
            tap.is_(keys[:len(SETTINGS)], SETTINGS, "stats settings begins with memcached's keys")
            rest = keys[len(SETTINGS):]
            built = [key for key in BUILT if key in rest]
            tap.is_(rest[:len(built)], built,
                    "then come those of optional parts; new ones are last")


@tap.case
def the_forms_of_values():
    """yes or no, on or off, NULL, %.2f, and seconds with six digits."""
    with server.Server() as memcached, memcached.stream() as c:
        settings = c.stats("settings")
        for key, want in (("evictions", "on"), ("cas_enabled", "yes"), ("track_sizes", "no"),
                          ("domain_socket", "NULL"), ("growth_factor", "1.25"),
                          ("hot_max_factor", "0.20"), ("slab_automove_ratio", "0.80"),
                          ("umask", "700"), ("binding_protocol", "auto-negotiate")):
            tap.is_(settings[key], want, "%s is %s" % (key, want))
        stats = c.stats()
        for key in ("rusage_user", "rusage_system"):
            tap.like(stats[key], r"\A\d+\.\d{6}\Z", key)
        for key in ("accepting_conns", "hash_is_expanding", "slab_reassign_running",
                    "lru_crawler_running"):
            tap.ok(stats[key] in ("0", "1"), "%s is 0 or 1" % key)
        tap.ok(0 <= int(stats["uptime"]) < 60, "uptime is small")
        for line in c.all(b"stats\r\n").split(b"\r\n")[:-2]:
            if not (line.startswith(b"STAT ") and line.count(b" ") == 2):
                tap.ok(False, "%r is STAT KEY VALUE" % line)
    with server.Server("-M", "-C", "-F", "-X", "-v", udp=False) as memcached:
        settings = memcached.stats("settings")
        for key, want in (("evictions", "off"), ("cas_enabled", "no"), ("flush_enabled", "no"),
                          ("dump_enabled", "no"), ("verbosity", "1"), ("udpport", "0")):
            tap.is_(settings[key], want, "%s is %s" % (key, want))


def grown(c, request):
    before = c.stats()
    c.all(request)
    after = c.stats()
    return {key: int(after[key]) - int(before[key]) for key in after
            if after[key] != before[key] and
            key.startswith(("cmd_", "get_", "delete_", "incr_", "decr_", "cas_", "touch_"))}


@tap.case
def what_each_command_counts():
    with server.Server("-o", "no_lru_maintainer,no_lru_crawler", threads=1) as s, s.stream() as c:
        c.all(b"set n 0 0 1\r\n1\r\n")
        for request, want in (
                (b"get n\r\n", dict(cmd_get=1, get_hits=1)),
                (b"get n none n\r\n", dict(cmd_get=3, get_hits=2, get_misses=1)),
                (b"gets none\r\n", dict(cmd_get=1, get_misses=1)),
                (b"bget n\r\n", dict(cmd_get=1, get_hits=1)),
                (b"gat 0 n\r\n", dict(cmd_touch=1, touch_hits=1)),
                (b"gat 0 none\r\n", dict(cmd_touch=1, touch_misses=1)),
                (b"touch n 0\r\n", dict(cmd_touch=1, touch_hits=1)),
                (b"touch none 0\r\n", dict(cmd_touch=1, touch_misses=1)),
                (b"set n 0 0 1\r\n1\r\n", dict(cmd_set=1)),
                (b"add n 0 0 1\r\n1\r\n", dict(cmd_set=1)),
                (b"replace none 0 0 1\r\n1\r\n", dict(cmd_set=1)),
                (b"append none 0 0 1\r\n1\r\n", dict(cmd_set=1)),
                (b"set n 0 0 1\r\n123\r\nset n 0 0 1\r\n1\r\n", dict(cmd_set=2)),
                (b"cas none 0 0 1 1\r\n1\r\n", dict(cmd_set=1, cas_misses=1)),
                (b"cas n 0 0 1 1\r\n1\r\n", dict(cmd_set=1, cas_badval=1)),
                (b"incr n 1\r\n", dict(incr_hits=1)), (b"incr none 1\r\n", dict(incr_misses=1)),
                (b"decr n 1\r\n", dict(decr_hits=1)), (b"decr none 1\r\n", dict(decr_misses=1)),
                (b"delete none\r\n", dict(delete_misses=1)), (b"delete n\r\n", dict(delete_hits=1)),
                (b"flush_all 1000\r\n", dict(cmd_flush=1)),
                (b"get\r\nset n\r\nfoo\r\n", {}), (b"version x\r\n", {})):
            tap.is_(grown(c, request), want, "%r" % request)
        c.set(b"e", b"v", exptime=1)
        tap.ok(server.wait_for(lambda: c.get(b"e") is None), "an item expires")
        tap.is_(c.stats()["get_expired"], "1", "get_expired counts the get of an expired item")
        c.set(b"f", b"v")
        c.all(b"flush_all\r\nget f\r\n")
        tap.is_(c.stats()["get_flushed"], "1", "get_flushed counts the get of a flushed item")


@tap.case
def counts_of_a_class():
    with server.Server("-o", "no_lru_maintainer,no_lru_crawler", threads=1) as one, \
            one.stream() as c:
        c.set(b"n", b"5")
        c.all(b"get n\r\nget none\r\ngat 0 n\r\ntouch n 0\r\nincr n 1\r\ndecr n 1\r\n"
              b"cas n 0 0 1 1\r\n5\r\nset m 0 0 1\r\n1\r\ndelete m\r\n")
        cas = c.gets(b"n")[1]
        c.set(b"n", b"6", verb=b"cas", tail=b" %d" % cas)
        want = dict(get_hits=2, cmd_set=4, delete_hits=1, incr_hits=1, decr_hits=1, cas_hits=1,
                    cas_badval=1, touch_hits=2, used_chunks=1)
        slabs = c.stats("slabs")
        tap.is_({key: int(slabs["1:" + key]) for key in want}, want,
                "stats slabs counts by class")
        items = c.stats("items")
        tap.is_((items["items:1:number"], items["items:1:evicted"]), ("1", "0"), "stats items")
        tap.is_(items["items:1:mem_requested"], c.stats()["bytes"],
                "mem_requested is the size of the class's items")


def state(c, sock):
    mine = "tcp:127.0.0.1:%d" % sock.getsockname()[1]
    rows = c.stats("conns")
    number = next((key.split(":")[0] for key, value in rows.items() if value == mine), None)
    return number and rows[number + ":state"]


@tap.case
def the_states_of_connections():
    with server.Server(threads=2) as memcached, memcached.stream() as c:
        c.set(b"large", b"v" * 1000000)
        tap.is_(state(c, c.sock), "conn_parse_cmd", "a connection that asks is in conn_parse_cmd")
        tap.is_([v for v in c.stats("conns").values() if v == "conn_listening"],
                ["conn_listening"], "the listener is in conn_listening")
        for name, data in (("conn_read", b"version\r\n"), ("conn_read", b"get half"),
                           ("conn_nread", b"set k 0 0 10\r\nabc"),
                           ("conn_swallow", b"set k 0 0 2000000\r\nabc"),
                           ("conn_mwrite", b"get large large large large\r\n" * 10)):
            other = memcached.stream()
            other.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            other.send(data)
            tap.ok(server.wait_for(lambda: state(c, other.sock) == name),
                   "%s after %r" % (name, data[:30]))
            other.close()


@tap.case
def connections_of_every_kind():
    path = os.path.join(server.scratch(), "socket")
    with server.Server(unix=path) as memcached:
        values = memcached.stream().stats("conns")
        tap.ok(("unix:" + path) in values.values(), "unix:PATH")
    with server.Server(host="::1", threads=1) as memcached, memcached.stream() as c:
        values = c.stats("conns")
        tap.ok("udp6:[::1]:%d" % memcached.port in values.values(), "udp6:[A]:P")
        tap.ok("tcp6:[::1]:%d" % c.sock.getsockname()[1] in values.values(), "tcp6:[A]:P")
        seconds = [v for k, v in values.items() if k.endswith(":secs_since_last_cmd")]
        tap.ok(seconds and all(v.isdigit() for v in seconds), "secs_since_last_cmd is a number")


@tap.case
def answers_of_other_forms():
    with server.Server() as memcached, memcached.stream() as c:
        usage = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n"
        for words, want in ((b"reset", b"RESET\r\n"), (b"detail", usage), (b"detail x", usage),
                            (b"detail on", b"OK\r\n"), (b"detail off", b"OK\r\n"),
                            (b"detail dump", b"END\r\n"),
                            (b"sizes", b"STAT sizes_status disabled\r\nEND\r\n"),
                            (b"sizes_enable", b"STAT sizes_status enabled\r\n"),
                            (b"sizes", b"END\r\n"),
                            (b"sizes_disable", b"STAT sizes_status disabled\r\n"),
                            (b"items", b"END\r\n"),
                            (b"slabs", b"STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n"),
                            (b"malloc", b"ERROR\r\n"), (b"maps", b"ERROR\r\n"),
                            (b"foo", b"ERROR\r\n"), (b"ITEMS", b"ERROR\r\n"),
                            (b"cachedump", b"CLIENT_ERROR bad command line\r\n"),
                            (b"cachedump 1 0", b"END\r\n")):
            tap.is_(c.all(b"stats %s\r\n" % words), want, "stats %s" % words.decode())
        d = binary.Binary(memcached.stream())
        for words in (b"conns", b"cachedump", b"foo", b"sizes_nothing"):
            tap.is_(d.all(binary.request("stat", words)),
                    [binary.error("stat", binary.NOT_FOUND, b"Not found")],
                    "binary stat %s is not found" % words.decode())


tap.run()
