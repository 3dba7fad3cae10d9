# SPDX-License-Identifier: BSD-3-Clause
"""mutants: what t/linear/mutants breaks in the sources, one thing at a time.

t/00-mutants.t checks that the text to break is still there.
"""
import glob
import os
import re

KERNEL = "bpf/*/*.bpf.h"
# One key at a time and large values, written in bursts, and readers in the kernel.
RACE = ("-groups", 4, "-keys", 1, "-clients", 2, "-udp-reads", 100, "-burst", 64, "-window", 8,
        "-reads", 100, "-history", 3000, "-fill", 1250)

# (name, files, what is found there, how often at least, what it becomes, options of the server,
# options of linear)
MUTANTS = (
    ("second_look", KERNEL, r"READ_ONCE\([\w>-]+->seq\) != [\w>-]+", 3, "0", (), RACE),
    ("counter", "memcached/store/table.c", r"head->seq \+ 1", 2, "head->seq", (), RACE),
    ("epoch", KERNEL, r"\(u8\)READ_ONCE\(control\.epoch\)", 2, "META_EPOCH(meta)", (),
     ("-flush", "50ms")),
    # The server removes expired items that it meets: only the kernel reads, and no thread looks for
    # them.
    ("expiry", KERNEL, r"return \*now >= second \* 1000000000ull", 1, "return *now == second",
     ("-o", "no_lru_maintainer,no_lru_crawler"),
     ("-expire", 70, "-lull", "3s", "-groups", 8, "-history", 10000, "-udp-reads", 100)),
    ("overflow_buckets", KERNEL, r"matches \? 0 : READ_ONCE\(one->head->next\)", 1, "0",
     ("-o", "hashpower=12,no_hashexpand"), ("-churn", 20000)),
)

# Of the chain, before Debian's memcached. Readers that do not wait for one another's answers.
BUSY = ("-reads", 90, "-plain", 90, "-udp-writes", 0, "-clients", 6, "-keys", 2, "-fill", 40)
BMC = ["bpf/attach/filter.skel.h bpf/udp/udp.skel.h bpf/attach/member.skel.h "
       "bpf/chain/chain.skel.h", "bmc/bmc"]
CHAIN_MUTANTS = (
    ("the_end_of_writes", "bpf/chain/gate.bpf.h", r"if \(READ_ONCE\(gate->done\) >= asked\)", 1,
     "if (0)", BUSY),
    ("the_time_of_requests", "bpf/chain/outstanding.bpf.h",
     r"first = request->first;", 1, "first = now;", BUSY),
    ("the_gates_version", "bpf/chain/get.bpf.h",
     r"bucket->word != READ_ONCE\(bucket->gate.word\)", 1, "0", BUSY),
    ("the_tables_version", "bpf/chain/get.bpf.h",
     r"bucket->whole_table_word != READ_ONCE\(whole_table.word\)", 1, "0",
     BUSY + ("-flush", "50ms")),
    ("the_reply_to_a_write", "bpf/chain/udp.bpf.h",
     r"ends = outstanding_note\([^;]*;\s+if \(!run->nwrites \|\| ends\)\s+return;\s+"
     r"write_close\([^;]*;", 1,
     "(void)ends;\n    if (!run->nwrites)\n        return;",
     BUSY + ("-udp-writes", 95, "-distinct")),
)

# Of connections on which the kernel answers: (name, changes, what fails): a change is a file, what
# is found there and what it becomes; what fails is a test program, or a file of t/e2e and a case.
LOST_REPLIES = ("t/e2e/kernel/tcp-streams.t", "while_replies_are_lost")
DEAF = ("t/e2e/kernel/tcp-streams.t", "while_nothing_comes_from_clients")
CLAMP = r"return delta->nreply && seq_before\(delta->request, wire\) \? delta->request : wire;"
FOLLOWED = ("t/e2e/kernel/tcp-server.t", "connections_are_followed_from_their_second_get")
IP_OPTIONS = ("t/e2e/kernel/tcp-peers.t", "options_of_ip")
GIVEN_UP = ("t/e2e/kernel/tcp-server.t", "connections_that_do_not_gain_are_given_up")
LOOK = (r"tcp->boundary = READ_ONCE\(slot->boundary\);\s+read_barrier\(\);\s+"
        r"tcp->start = conn_reply_start\([^;]*;\s+rc = conn_refuses\([^;]*;")
NOT_LOOKED = "tcp->start = tcp->segment.ack; rc = 0;"
TCP_MUTANTS = (
    ("ack_clamp", (("bpf/tcp/conn.bpf.h", CLAMP, "return ack + delta->rx;"),),
     ("t/bpf/tcp_shift",)),
    ("ack_clamp_of_pipelines", (("bpf/tcp/conn.bpf.h", CLAMP, "return wire;"),),
     ("t/bpf/tcp_shift",)),
    ("kept_bytes", (("bpf/tcp/rtx.bpf.h", r"(REPLY_TEXT, tcp->text \+ from), n", r"\1 + 1, n"),),
     ("t/bpf/tcp_resend",), LOST_REPLIES),
    ("kept_reply", (("bpf/tcp/ingress.bpf.h", r"!rtx_get\(tcp\)",
                     r"(packet_answer(packet_tc(skb), scratch, HEAD_GET) != STEP_END &&"
                     r" \g<0>)"),),
     ("t/bpf/tcp_resend",)),
    ("two_pieces_in", (("bpf/tcp/conn.bpf.h",
                        r"if \(delta->nreply && !seq_before\(delta->request, wire\)\)",
                        "if (0)"),),
     ("t/bpf/tcp_shift",)),
    ("two_pieces_out", (("bpf/tcp/conn.bpf.h",
                         r"if \(!delta->nreply \|\| !seq_before\(seq, start\)\)", "if (1)"),),
     ("t/bpf/tcp_shift",)),
    # What t/model/splice.h and the programs did not agree on.
    ("a_fin_behind_the_splice", (("bpf/tcp/egress.bpf.h", r"(u32 n = segment->n) \+ \(segment->"
                                  r"flags & TCP_FIN\);(\s+u32 seq)", r"\1;\2"),),
     ("t/bpf/tcp_shift",)),
    ("acks_in_old_segments", (("bpf/tcp/commit.bpf.h", r"if \(seq_before\(end, conn->rcv_nxt\)\)",
                               "if (0)"),),
     ("t/bpf/tcp_random",)),
    ("acks_from_before_the_request", (("bpf/tcp/commit.bpf.h",
                                       r"seq_before\(delta->request, segment->seq\) &&", ""),),
     ("t/bpf/tcp_resend",)),
    # Replies that are outstanding together.
    ("a_run_with_a_gap", (("bpf/tcp/commit.bpf.h",
                           r"segment->seq != delta_request_end\(&conn->delta\) \|\|", ""),),
     ("t/bpf/tcp_random",)),
    ("replies_one_upon_another", (("bpf/tcp/commit.bpf.h",
                                   r"return conn_runs\(conn, segment\) \? [^;]*;",
                                   "return segment->ack;"),),
     ("t/bpf/tcp_random",)),
    ("what_is_acknowledged_of_a_run_comes_again", (("bpf/tcp/rtx.bpf.h",
                                                    r"from \+= tcp->skip;", ""),),
     ("t/bpf/tcp_random",)),
    ("what_an_undo_reads_of_a_run", (("bpf/load/entry.c", r"rtx\.text \+ acked, rtx\.n - acked",
                                      "rtx.text, rtx.n - acked"),),
     ("t/bpf/tcp_undo",)),
    ("the_requests_of_a_run_stay", (("bpf/tcp/commit.bpf.h",
                                     r"delta->request = conn->mark_request;", ""),),
     ("t/bpf/tcp_random",)),
    ("each_part_of_a_run_is_asked_for", (("bpf/tcp/commit.bpf.h", r"\(!more \|\|", "(1 ||"),),
     ("t/bpf/tcp_random",)),
    ("copies_of_a_run_ask_for_copies", (("bpf/tcp/commit.bpf.h",
                                         r"conn->again - delta->reply >= delta->nreply &&", ""),),
     ("t/bpf/tcp_random",)),
    # Nothing is looked at before the lookup, all behind it.
    ("boundary_before_lookup", (("bpf/tcp/xdp.bpf.h", LOOK, NOT_LOOKED),
                                ("bpf/tcp/ingress.bpf.h", LOOK, NOT_LOOKED),
                                ("bpf/tcp/commit.bpf.h", r"boundary != tcp->boundary", "0")),
     ("t/bpf/tcp_race",)),
    ("flow_under_the_lock", (("bpf/tcp/conn.bpf.h",
                              r"if \(likely\(mc_tcp_is_flow\(&conn->flow, flow\)\)\)", "if (1)"),),
     ("t/bpf/tcp_race",)),
    ("removal_under_the_lock", (("bpf/tcp/order.bpf.h",
                                 r"!conn_lock_as\(conn, &order\.flow, to\)", "0"),),
     ("t/bpf/tcp_race",)),
    # A connection whose socket is replaced.
    ("a_frozen_entry", (("bpf/tcp/order.bpf.h", r"MC_TCP_FREEZE \? MC_TCP_FROZEN",
                         "MC_TCP_FREEZE ? MC_TCP_FREE"),),
     ("t/bpf/tcp_undo",)),
    ("what_the_next_socket_sends", (("bpf/tcp/egress.bpf.h",
                                     r"if \(conn_is_frozen\(conn\) && !conn_is_of\([^)]*\) &&",
                                     "if (0 &&"),),
     ("t/bpf/tcp_undo",)),
    ("the_end_of_a_frozen_entry", (("bpf/tcp/ingress.bpf.h",
                                    r"if \(!conn_is_frozen\(conn\)\)", "if (1)"),),
     ("t/bpf/tcp_undo",)),
    ("a_mark_of_its_own", (("bpf/tcp/put.bpf.h", r"conn->flags & MC_TCP_MARK_B \?", "0 ?"),),
     ("t/bpf/tcp_undo",)),
    ("what_was_translated_before", (("bpf/tcp/lost.bpf.h",
                                     r"if \(is_for_another\(skb, &segment\)\)", "if (0)"),),
     ("t/bpf/tcp_undo",)),
    ("the_listening_socket", (("bpf/tcp/lost.bpf.h",
                               r"unlikely\(conn_is_frozen\(conn\)\) \?", "0 ?"),),
     ("t/bpf/tcp_undo",)),
    # Which socket has the connection.
    ("the_socket_behind_a_syn", (("bpf/tcp/egress.bpf.h",
                                  r"flow_owner\(skb, cookie\) != OWNER_SAME", "1"),),
     ("t/bpf/tcp_owner",),
     ("t/e2e/kernel/tcp-hostile.t", "a_container_with_the_servers_address")),
    ("the_next_connection_out", (("bpf/tcp/egress.bpf.h", r"unlikely\(!own\) &&", "0 &&"),),
     ("t/bpf/tcp_owner",)),
    ("the_next_connection_in", (("bpf/tcp/ingress.bpf.h",
                                 r"unlikely\(READ_ONCE\(slot->generation\) != conn->generation\)",
                                 "0"),),
     ("t/bpf/tcp_owner",)),
    # Connections without timestamps.
    ("translated_once", (("bpf/tcp/egress.bpf.h", r"return skb->tc_index == conn_mark\(conn\);",
                          "return 0;"),),
     ("t/e2e/kernel/tcp-life.t", "one_is_put_beneath_another_one")),
    ("the_window_of_the_last", (("bpf/tcp/egress.bpf.h",
                                 r"if \(conn_is_unstamped\(conn\) && !seq_before\([^)]*\)\)",
                                 "if (0)"),),
     ("t/bpf/tcp_resend",)),
    ("a_passed_request_as_it_came", (("bpf/tcp/unstamped.bpf.h",
                                      r"\*\(u8 \*\)\(data \+ [^;]* = OFFSET_NARROW;", ";"),),
     ("t/bpf/tcp",)),
    ("the_checksum_of_a_wide_one", (("bpf/tcp/unstamped.bpf.h", r"0xc6f40000", "0xc6f50000"),),
     ("t/bpf/tcp",)),
    # Interfaces above one another.
    ("the_last_way_out", (("bpf/tcp/egress.bpf.h", r"if \(own\)\s+conn_take_path",
                           "if (own && !done)\n        conn_take_path"),),
     ("t/e2e/kernel/stacked.t", "a_bridge_and_its_port")),
    ("a_frame_for_a_macvlan", (("bpf/packet/headers.bpf.h",
                                r" \|\| skb->pkt_type == PACKET_OTHERHOST", ""),),
     ("t/e2e/kernel/stacked.t", "a_macvlan_and_what_is_beneath")),
    ("an_error_translated_once", (("bpf/tcp/icmp.bpf.h",
                                   r"is_translation_mark\(skb->tc_index\) \|\|", "0 ||"),),
     ("t/e2e/kernel/stacked.t", "an_error_of_a_router")),
    ("what_was_handed_on", (("bpf/tcp/put.bpf.h",
                             r"unlikely\(is_translation_mark\(skb->tc_index\)\)", "0"),),
     ("t/e2e/kernel/stacked.t", "a_bridge_and_its_port")),
    # By which interfaces what is translated may leave.
    ("an_interface_that_is_a_way_no_more", (("bpf/load/tcp.c", r"if \(removed\)", "if (0)"),),
     ("t/bpf/tcp_guard",)),
    # What the sieve lets pass to the programs of bpf/tcp.
    ("a_count_of_each_entry", (("bpf/tcp/egress.bpf.h",
                                r"sieve_add\(flow_sieve_at\(&conn->flow\), 1\);", ""),),
     FOLLOWED),
    ("a_count_of_no_other", (("bpf/tcp/conn.bpf.h", r"sieve_add\(flow_sieve_at\(flow\), -1\);",
                              ""),),
     GIVEN_UP),
    ("what_waits", (("bpf/packet/sieve.bpf.h",
                     r"if \(egress && READ_ONCE\(control\.tcp_waiting\)\)", "if (0)"),),
     FOLLOWED),
    ("what_waits_alone", (("bpf/packet/sieve.bpf.h",
                           r" && !\(egress && READ_ONCE\(control\.tcp_waiting\)\)", ""),),
     ("t/bpf/tcp_sieve",)),
    ("a_segment_without_a_request", (("bpf/udp/tail.bpf.h",
                                      r"!segment_asks_nothing\(ip, end, v6\) && ",
                                      ""),),
     ("t/bpf/tcp_sieve",)),
    ("where_its_text_begins", (("bpf/udp/tail.bpf.h",
                                r"\(LOAD16\(l4 \+ 12\) \| bpf_htons\(TCP_PSH\)\) != form", "0"),),
     ("t/bpf/tcp_sieve",)),
    ("what_waits_no_more", (("bpf/tcp/egress.bpf.h",
                             r"__sync_fetch_and_add\(&control\.tcp_waiting, -1\);", ";"),),
     FOLLOWED),
    ("ports_behind_options", (("bpf/udp/tail.bpf.h", r"LOAD8\(ip\) == 0x45 && !tc_keeps",
                               "!tc_keeps"),),
     IP_OPTIONS),
    ("a_reply_unasked", (("bpf/tcp/egress.bpf.h", r"if \(unlikely\(is_keepalive\)\)", "if (0)"),),
     ("t/bpf/tcp_resend",), DEAF),
    ("the_clock_of_a_hit", (("bpf/answer/one.bpf.h", r"item_has_expired\(scratch, expiry\)",
                             "second_reached(expiry)"),),
     ("t/bpf/tcp_one",)),
    ("overflow_bucket_of_a_hit", (("bpf/answer/one.bpf.h",
                                   r"one->bucket = bucket_overflow\(next\);",
                                   "return FOUND_MORE;"),),
     ("t/bpf/tcp_one",)),
    # Several requests in a segment.
    ("replies_that_fit", (("bpf/tcp/pipeline.bpf.h", r"if \(scratch->nreply > REPLY_MAX\)",
                           "if (0)"),),
     ("t/bpf/tcp_pipeline",)),
    ("keys_of_each_request", (("bpf/tcp/pipeline.bpf.h", r"tcp->nkeys \+= scratch->nkeys",
                               "tcp->nkeys = scratch->nkeys"),),
     ("t/bpf/tcp_pipeline",)),
    ("count_of_requests", (("bpf/tcp/answer.bpf.h", r"(count\[by & 31\]) \+= tcp->nrequests",
                            r"\1++"),),
     ("t/bpf/tcp_pipeline",)),
    ("replies_before", (("bpf/answer/get.bpf.h", r"(verb_add\(struct [^{]*\{[^}]*?)"
                         r"request_begin\(scratch\);", r"\1answer_begin(scratch);"),),
     ("t/bpf/tcp_pipeline",)),
    ("classes_of_verbs", (("bpf/answer/get.bpf.h", r"rc = hit_note\(scratch\);\s+return rc",
                           "scratch->classes[0] = scratch->clsid;\n    scratch->nhits = 1;\n"
                           "    rc = VERDICT_OK;\n    return rc"),),
     ("t/bpf/tcp_pipeline",)),
    ("hits_of_each_request", (("bpf/answer/text.bpf.h", r"scratch->ntries = 0;",
                               r"\g<0>\n    scratch->nhits = scratch->nmarks = 0;"),),
     ("t/bpf/tcp_pipeline",)),
    ("nothing_to_say", (("bpf/tcp/answer.bpf.h", r"if \(scratch->nreply == REPLY_TEXT\)",
                         "if (0)"),),
     ("t/bpf/tcp_pipeline",)),
    ("a_place_for_all", (("bpf/tcp/answer.bpf.h", r"tcp->rtx == RTX_NONE \? PASS_TCP_KEPT :", ""),),
     ("t/bpf/tcp_pipeline",)),
    ("gets_that_come_together", (("memcached/net/conn.c", r"\(before \|\| first\) &&",
                                  "first &&"),),
     ("t/unit/net_boundaries",)),
    ("gets_of_a_batch_before", (("memcached/net/conn.c", r"\n    conn->asks = false;", ""),),
     ("t/unit/net_boundaries",)),
    ("boundary_before_send", (("memcached/net/conn.c", r"(publish\(conn, reply->nbytes)\);\s+"
                               r"(sending = send_some\(conn, reply, &nsent\);)",
                               r"\2 \1 - nsent);"),),
     ("t/unit/net_boundaries",)),
    ("a_silent_client_is_left", (("memcached/net/leaving.c", r"leaving->nsilent < SILENT_MAX",
                                  "1"),),
     ("t/e2e/kernel/tcp-ends.t", "clients_are_silent_behind_a_quit")),
    ("damaged_acknowledgements", (("memcached/splice/swap.c", r"acked = una;",
                                   "acked = swap->conn.snd_una;"),), ("t/unit/splice_swap",)),
    ("unseen_requests", (("bpf/tcp/lost.bpf.h", r"conn->rcv_nxt = end;", ";"),),
     ("t/bpf/tcp_undo",)),
    ("a_time_of_this_tick", (("bpf/tcp/lost.bpf.h", r"clock >> 32 != ticks \|\| ", ""),),
     ("t/bpf/tcp_shift",)),
    ("congestion_of_most_segments", (("bpf/tcp/read.bpf.h",
                                      r"\n\s+ip_congestion\(ip, v6\) == 3 \|\|", ""),),
     ("t/bpf/tcp",)),
    ("most_segments_unseen", (("bpf/tcp/egress.bpf.h", r"no_options && seen &&",
                               "no_options &&"),), ("t/bpf/tcp_guard",)),
    ("numbers_that_netfilter_knows", (("memcached/splice/process.c",
                                       r"else\s+conntrack_be_liberal\([^;]*;", ""),),
     ("t/unit/splice_undo",), ("t/e2e/kernel/tcp-undone.t", "conntrack_calls_segments_invalid")),
    ("resets_behind_2_gb", (("memcached/splice/conntrack.c",
                             r"_LIBERAL \| IP_CT_TCP_FLAG_MAXACK_SET", "_LIBERAL"),),
     ("t/unit/splice_undo",)),
    ("not_announced", (("memcached/net/conn.c", r"boundary_announce\([^;]*;", ""),),
     ("t/unit/net_boundaries",),
     ("t/e2e/kernel/tcp-undone.t", "conntrack_calls_segments_invalid")),
    ("heard_without_queues", (("memcached/splice/swap.c", r"restore_options\(swap\);\s+"
                               r"rc = (rc \? rc : restore_queues\(swap\);)\s+rc = (rc \? rc : )"
                               r"restore_window\(swap\);\s+return rc \? rc : hear\(swap\);",
                               r"hear(swap);\n    rc = rc ? rc : restore_options(swap);\n"
                               r"    rc = \1\n    return \2restore_window(swap);"),),
     ("t/unit/splice_swap",)),
)


def changed(source, pattern, found, at_least, becomes):
    """The files of a change: path, text as it is, and as it becomes."""
    files, count = [], 0
    for path in sorted(glob.glob(os.path.join(source, pattern))):
        with open(path, encoding="utf-8") as file:
            before = file.read()
        after, n = re.subn(found, becomes, before)
        count += n
        files.append((path, before, after))
    if count < at_least:
        raise RuntimeError("%r is in %s only %d times" % (found, pattern, count))
    return files


def changes():
    """Each change of each mutant: the mutant's name, and the arguments of changed()."""
    for name, *change, _, _ in MUTANTS:
        yield name, change
    for name, *change, _ in CHAIN_MUTANTS:
        yield name, change
    for name, rows, *_ in TCP_MUTANTS:
        for path, found, becomes in rows:
            yield name, (path, found, 1, becomes)
