# SPDX-License-Identifier: BSD-3-Clause
"""names: the names of memcached's statistics, in its order."""

SLABS = """chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks
free_chunks_end get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval
touch_hits""".split()

SETTINGS = """maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket
umask growth_factor chunk_size num_threads num_threads_per_udp stat_key_prefix detail_enabled
reqs_per_event cas_enabled tcp_backlog binding_protocol auth_enabled_sasl auth_enabled_ascii
item_size_max maxconns_fast hashpower_init slab_reassign slab_automove slab_automove_ratio
slab_automove_window slab_chunk_max lru_crawler lru_crawler_sleep lru_crawler_tocrawl
tail_repair_time flush_enabled dump_enabled hash_algorithm lru_maintainer_thread lru_segmented
hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor temp_lru temporary_ttl idle_timeout
watcher_logbuf_size worker_logbuf_size track_sizes inline_ascii_response""".split()
