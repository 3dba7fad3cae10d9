# SPDX-License-Identifier: BSD-3-Clause
"""threats: for the rows of doc/security.md that concern the kernel path, what their tests must
notice: mutants, in each of which one protection is missing.

A row is named by how it begins. A mutant: its name, its changes (file, what is found there, what it
becomes), and the test that must fail: a file and cases, or a program of t/bpf or t/unit, by its
source.

t/00-mutants.t checks that each change can be made, and that the row names the test;
t/e2e/build/mutants.t runs them.
"""

GUARD, PATHS = "t/e2e/kernel/guard.t", "t/e2e/kernel/return-paths.t"
HOSTILE, PEERS = "t/e2e/kernel/tcp-hostile.t", "t/e2e/kernel/tcp-peers.t"
SERVER = "t/e2e/kernel/tcp-server.t"
XSK, FORGED = "t/e2e/kernel/xsk.t", "t/e2e/chain/forged.t"
OUTSTANDING = (HOSTILE, "while_a_reply_is_outstanding")
COMMIT = "bpf/tcp/commit.bpf.h"
ACK_IS_NEAR = r"out - segment->ack <= CONN_REACH &&"
SEQ_IS_NEAR = r"segment->seq \+ segment->n - \(in - CONN_BEHIND\) <= CONN_BEHIND \+ room;"

# Of those that a test notices only after a minute or more.
SLOW = {"answers_for_the_stopped", "entries_never_swept", "any_source_into_the_ring"}

# Rows about which nothing in these sources can be broken.
WITHOUT = {
    "that a container's root": "Docker permits it",
    "what rtnetlink says of filters on TC": "their names are shown before Linux 6.6 alone",
    "that no other process has the server's port": "other people's sources are patched",
    "that `bmc` ends with the server": "other people's sources are patched",
}

ROWS = (
    ("`BPF_LOG`: that root writes to no file of others", (
        ("log_through_links", (("bpf/load/refusal.c", r" \| O_NOFOLLOW", ""),),
         "t/e2e/kernel/attach.t", "what_the_verifier_says"),
    )),
    ("the source of a datagram", (
        ("any_source", (("bpf/packet/guard.bpf.h", r"&& unlikely\(!is_local_pair\(ip, v6\)\)",
                         "&& 0"),), GUARD, "without_options_local_sources_are_answered"),
        ("any_rate", (("bpf/packet/guard.bpf.h", r"if \(wait \+ cost > depth\)", "if (0)"),),
         GUARD, "a_source_over_its_rate"),
        ("any_size", (("bpf/packet/guard.bpf.h", r"if \(most && l4_payload", "if (0 && l4_payload"),
                      ), GUARD, "replies_that_are_too_large"),
        ("no_way_needed", (("bpf/packet/return_path.bpf.h",
                            r"(set->path\[3\], sum, &to\)\))\s+return 0;",
                            r"\1 return from | 1ull << 63;"),),
         PATHS, "forged_sources_without_a_machine"),
    )),
    ("that a private source is in this network", (
        ("any_destination", (("bpf/packet/guard.bpf.h",
                              r"is_local4\(LOAD32\(ip \+ 12\)\) && is_local4[^;]*;",
                              "is_local4(LOAD32(ip + 12));"),), "t/bpf/guard.c"),
        ("any_interface", (("bpf/packet/return_path.bpf.h",
                            r"\(\(u64\)ifindex << 32 \| vlan\)", "0"),),
         PATHS, "a_route_back_by_another_interface"),
    )),
    ("that it is a client, and no other server", (
        ("any_port", (("bpf/udp/frame.bpf.h",
                       r"mc_port_is_unanswerable\([^;]*?, control\.port\)", "0"),),
         "t/bpf/passes.c"),
        ("any_port_of_the_server", (("memcached/net/socket.c", r"mc_port_is_unanswerable\((in6?->)",
                                     r"own_port == 1 && mc_port_is_unanswerable(\1"),),
         "t/e2e/server/udp-loops.t"),
    )),
    ("what a datagram asks for", (
        ("datagrams_bypass", (("memcached/command/bypass.c",
                               r"client->transport == COMMAND_STREAM && !", "!"),),
         "t/e2e/kernel/bypass.t", "no_datagram_bypasses_the_kernel"),
    )),
    ("`xsk=on`: the source of a datagram", (
        ("any_mac_into_the_ring", (("bpf/udp/ring.bpf.h",
                                    r"return \(scratch->saved\.back & MAC_MASK\) == [^;]*;",
                                    "return 1;"),), "t/bpf/rings.c"),
        ("any_source_into_the_ring", (("bpf/udp/ring.bpf.h", r"if \(!admitted && xdp_admit",
                                       "if (0 && xdp_admit"),), XSK,
         "whom_the_guard_does_not_admit"),
    )),
    ("`xsk=on`: that a frame in a ring is a request", (
        ("any_sum_of_a_frame", (("memcached/net/frame.c", r"return udp\.check == sum_fold\(begun\)",
                                 "return true || udp.check == sum_fold(begun)"),),
         "t/unit/net_frame.c"),
        ("any_length_of_a_frame", (("memcached/net/frame.c", r"if \(ntohs\(udp\.len\) != nudp\)",
                                    "if (0)"),), "t/unit/net_frame.c"),
    )),
    ("`xsk=on`: that a ring has room", (
        ("a_ring_without_end", (("bpf/udp/ring.bpf.h", r">= MC_RING_SIZE\)", "> ~0u - 1)"),),
         "t/bpf/rings.c"),
    )),
    ("lengths, fragments, options, checksums", (
        ("any_length", (("bpf/udp/frame.bpf.h",
                         r"return bpf_ntohs\(LOAD16\(ip \+ 2\)\) == nudp \+ IP4_BYTES && ",
                         "return "),), "t/bpf/passes.c"),
        ("fragments", (("bpf/packet/headers.bpf.h", r"bpf_htons\(0x3fff\)", "bpf_htons(0x1fff)"),),
         "t/bpf/passes.c"),
        ("ip_options", (("bpf/packet/headers.bpf.h", r"LOAD8\(ip\) == 0x45 &&",
                         "LOAD8(ip) >> 4 == 4 &&"),), "t/bpf/passes.c"),
        ("any_checksum", (("bpf/packet/udp.bpf.h",
                           r"if \(likely\(sum_is_valid\(sum\)\)\)", "if (1)"),),
         "t/bpf/checksums.c"),
    )),
    ("`tcp=on`: both numbers of a TCP segment", (
        ("any_numbers", ((COMMIT, ACK_IS_NEAR, "1 ||"),), *OUTSTANDING),
        ("any_acknowledgement", ((COMMIT, ACK_IS_NEAR, ""),), *OUTSTANDING),
        ("any_sequence", ((COMMIT, SEQ_IS_NEAR, "1;"),), *OUTSTANDING),
        ("far_sequences", ((COMMIT, r"<= CONN_BEHIND \+ room;", "<= CONN_BEHIND + (1u << 30);"),),
         *OUTSTANDING),
        ("any_sum_of_an_acknowledgement", (("bpf/tcp/ingress.bpf.h",
                                            r"\|\| skb_sum_is_valid\(skb, l4\)", "|| 1"),),
         *OUTSTANDING),
        ("any_sum_is_answered", (("bpf/packet/tcp.bpf.h",
                                  r"if \(likely\(sum_is_valid\(sum\)\)\)", "if (1)"),),
         HOSTILE, "forged_segments"),
        ("old_times_are_answered", ((COMMIT, r"return seq_before\(segment->tsval, "
                                     r"conn->client_ts\)[^;]*;", "return 0;"),),
         HOSTILE, "forged_segments"),
        ("urgent_noted", (("bpf/tcp/put.bpf.h", r"if \(likely\(!\(tcp->segment\.flags & "
                          r"TCP_URG\)\)\)", "if (1)"),), HOSTILE, "forged_segments"),
    )),
    ("`tcp=on`: the number that an ICMP error quotes", (
        ("numbers_of_the_wire", (("bpf/tcp/icmp.bpf.h", r"to = bpf_htonl\(delta_ack_rx[^;]*;",
                                  "to = bpf_htonl(from);"),),
         HOSTILE, "errors_with_the_right_number"),
        ("any_number_is_in_flight", (("bpf/tcp/icmp.bpf.h", r"delta_ack_rx\(&delta, from\)",
                                      "conn->snd_nxt"),),
         HOSTILE, "errors_with_guessed_numbers"),
        ("numbers_near_are_in_flight", (("bpf/tcp/icmp.bpf.h", r"delta_ack_rx\(&delta, from\)",
                                         "from - delta.tx - conn->snd_nxt + 2048 < 4096u ? "
                                         "conn->snd_nxt : from"),),
         HOSTILE, "errors_with_numbers_beside_the_right_one"),
    )),
    ("`tcp=on`: that there is a connection", (
        ("entries_of_anybody", (("bpf/tcp/ingress.bpf.h",
                                 r"if \(!conn\)\s+return TC_ACT_UNSPEC;\s+slot",
                                 "if (!conn) {\n        struct mc_tcp_conn made = {};\n"
                                 "        u64 key = mc_tcp_key(&tcp->segment.flow, tcp_seeds);\n\n"
                                 "        made.flow = tcp->segment.flow;\n"
                                 "        bpf_map_update_elem(&mc_tcp_conns, &key, &made,"
                                 " BPF_NOEXIST);\n        return TC_ACT_UNSPEC;\n"
                                 "    }\n    slot"),),
         HOSTILE, "floods_of_openings"),
    )),
    ("that sources and keys are spread", (
        ("one_bucket", (("bpf/packet/guard.bpf.h", r"u64 hash = high \* guard_seeds\[0\];",
                         "u64 hash = 1;"),), "t/bpf/guard.c"),
    )),
    ("chain: TCP segments, fragments, writes over UDP", (
        ("segments_of_no_socket", (("bpf/chain/socket.bpf.h",
                                    r"(sk->state == BPF_TCP_TIME_WAIT\)\s+return )SOCKET_NONE;",
                                    r"\1SOCKET_TAKES;"),), FORGED),
        ("any_number_of_a_segment", (("bpf/chain/socket.bpf.h", r": SOCKET_REFUSES;",
                                      ": SOCKET_TAKES;"),), FORGED),
    )),
    ("destination MAC and VLAN", (
        ("any_mac", (("bpf/packet/headers.bpf.h", r"return PASS_MAC;",
                      "return VERDICT_OK;"),), "t/e2e/kernel/traffic.t", "foreign_packets"),
        ("any_vlan", (("bpf/packet/headers.bpf.h",
                       r"(if \(local->vlans\[i\] == vlan\)\s+return 1;\s+\}\s+)return 0;",
                       r"\1return 1;"),), "t/e2e/kernel/traffic.t", "foreign_packets"),
    )),
    ("source MAC", (
        ("back_to_the_frames_source", (("bpf/packet/return_path.bpf.h",
                                        r"return \(to & MAC_MASK\) \| 1ull << 63;",
                                        "return from | 1ull << 63;"),),
         PATHS, "forged_sources_behind_a_router"),
    )),
    ("`tcp=on`: that the client asks for a reply again", (
        ("again_to_the_frames_source", (("bpf/tcp/ingress.bpf.h",
                                         r"(int tcp_tc_resend[^}]*?)(if \(tcp_tc_make)",
                                         r"\1scratch->saved.back = scratch->saved.from;\n    \2"),
                                        ), HOSTILE, "nothing_reaches_the_third_machine"),
        ("answered_to_the_frames_source", (("bpf/tcp/answer.bpf.h", r"return conn->ifindex == "
                                            r"ifindex && conn->vlan[^;]*;", "return 1;"),
                                           ("bpf/tcp/xdp.bpf.h",
                                            r"scratch->saved\.back = conn->mac;",
                                            "scratch->saved.back = LOAD64(data + 6);")),
         HOSTILE, "nothing_reaches_the_third_machine"),
        ("any_way", (("bpf/tcp/answer.bpf.h",
                      r"return conn->ifindex == ifindex && conn->vlan[^;]*;",
                      "return 1;"),), "t/bpf/tcp.c"),
    )),
    ("`tcp=on`: that a segment is new", (
        ("answered_below_in_end", ((COMMIT, r"seq != conn->rcv_nxt \|\|", ""),), "t/bpf/tcp.c"),
        ("not_consumed", ((COMMIT, r"seq != conn->irs \+ \(u32\)boundary \|\|", ""),),
         "t/bpf/tcp.c"),
        ("once_more", ((COMMIT, r"if \(conn_resends\(conn, &tcp->segment, more\)\)", "if (0)"),),
         "t/bpf/tcp_resend.c"),
    )),
    ("that link-local means trusted", (
        ("link_local_is_local", (("bpf/packet/guard.bpf.h", r"return high >> 57 == 0xfc >> 1 \|\|",
                                  "return high >> 54 == 0xfe80 >> 6 || high >> 57 == 0xfc >> 1 ||"),
                                 ), GUARD, "behind_a_firewall_that_closes_the_public_address"),
    )),
    ("that source and destination are one machine", (
        ("groups", (("bpf/udp/frame.bpf.h",
                     r"!mc_source4_is_unanswerable\(LOAD8\(ip \+ 12\)\)", "1"),),
         "t/bpf/passes.c"),
        ("a_group_as_source_mac", (("bpf/packet/headers.bpf.h", r"0x1ffffffffffff\)",
                                    "0xffffffffffff)"),), "t/bpf/passes.c"),
        ("ways_to_groups", (("bpf/packet/return_path.bpf.h",
                             r"LOAD8\(link\) & 1 \|\|", ""),), PATHS,
         "a_neighbour_that_is_a_group"),
    )),
    ("chain: sequence numbers and bytes of TCP", (
        ("a_gap", (("bpf/chain/tcp.bpf.h", r"if \(gap > conn->in\.skip\)", "if (0)"),),
         "t/bpf/chain_streams.c"),
        ("other_bytes_again", (("bpf/chain/tcp.bpf.h",
                                r"run->content != retransmit_content\([^;]*\)\)", "0)"),),
         "t/bpf/chain_streams.c"),
    )),
    ("`tcp=on`: what several requests in a segment are", (
        ("text_behind_the_segment", (("bpf/tcp/pipeline.bpf.h",
                                      r"if \(!n \|\| at \+ n > tcp->segment\.n\)",
                                      "if (!n)"),), "t/bpf/tcp_pipeline.c"),
        ("requests_of_both_protocols", (("bpf/tcp/pipeline.bpf.h",
                                         r"if \(\(\(u8\)text == BINARY_MAGIC\) != [^;]*\)(\s+"
                                         r"return)", r"if (0)\1"),), "t/bpf/tcp_pipeline.c"),
        ("answered_up_to_a_write", (("bpf/tcp/pipeline.bpf.h",
                                     r"if \(rc != STEP_END\)\s+return rc;",
                                     "if (rc != STEP_END)\n            return rc == "
                                     "PASS_COMMAND ? STEP_END : rc;"),), "t/bpf/tcp_pipeline.c"),
        ("a_noop_with_a_body", (("bpf/tcp/pipeline.bpf.h", r"scratch->request\[4\] \|\| head\[2\]",
                                 "0"),), "t/bpf/tcp_pipeline.c"),
    )),
    ("`tcp=on`: that it reads", (
        ("any_window", (("bpf/tcp/answer.bpf.h",
                         r"return n > conn->mss \|\| n > tcp->segment\.window << [^;]*;",
                         "return n > conn->mss;"),), HOSTILE, "clients_that_never_read"),
    )),
    ("`tcp=on`: that it acknowledges what it has", (
        ("partly_is_acknowledged", ((COMMIT, r"if \(unlikely\(conn_runs\(conn, segment\)\)\) \{",
                                     "if (0) {"),),
         HOSTILE, "acknowledgements_of_each_byte"),
        ("other_bytes_are_another_request", ((COMMIT, r"return seq_before\(segment->seq, "
                                              r"delta_request_end\(delta\)\);", "return 0;"),),
         HOSTILE, "bytes_that_change"),
    )),
    ("`tcp=on`: that a reply is its own", (
        ("kept_looks", (("bpf/tcp/rtx.bpf.h", r"\|\| READ_ONCE\(rtx->owner\) != owner", ""),
                        ("bpf/tcp/rtx.bpf.h", r"return READ_ONCE\(rtx->owner\) == owner;",
                         "return 1;")), "t/bpf/tcp_resend.c"),
        ("kept_second_look", (("bpf/tcp/rtx.bpf.h", r"return READ_ONCE\(rtx->owner\) == owner;",
                               "return 1;"),), "t/bpf/tcp_race.c"),
        ("kept_place_of_another", (("bpf/tcp/rtx.bpf.h",
                                    r"if \(had && !rtx_is_abandoned\(owner, had\)"
                                    r"\)", "if (0)"),), HOSTILE, "replies_of_many"),
        ("kept_place_of_a_slot", (("bpf/tcp/rtx.bpf.h", r"return \(\(u32\)\(owner \^ had\)[^;]*;",
                                   "return 1;"),), HOSTILE, "replies_of_many"),
        ("kept_without_connection", (
            ("bpf/tcp/one.bpf.h", r"mc_tcp_rtx_owner\(tcp->start[^)]*\)",
             "(u64)tcp->start << 32 | 1"),
            ("bpf/tcp/answer.bpf.h", r"mc_tcp_rtx_owner\(tcp->start[^)]*\)",
             "(u64)tcp->start << 32 | 1"),
            ("bpf/tcp/rtx.bpf.h", r"mc_tcp_rtx_owner\(conn->last[^)]*\)",
             "(u64)conn->last << 32 | 1")), "t/bpf/tcp_resend.c"),
    )),
    ("`tcp=on`: how many connections it opens", (
        ("entries_stay", (("bpf/load/tcp.c", r"if \(!has_ended\(tcp, conn\)\)",
                          "if (!has_ended(tcp, conn) || conn)"),),
         "t/bpf/tcp_race.c"),
        ("entries_never_swept", (("memcached/iface/monitor.c",
                                  r"loader_sweep_tcp\(monitor->loader\);", ";"),),
         "t/e2e/kernel/tcp-sweep.t"),
    )),
    ("that it wants what it switched on", (
        ("the_bypass_stays", (("memcached/command/bypass.c", r"nholders--;", "nholders += 0;"),),
         "t/e2e/kernel/bypass.t", "a_bypass_ends_with_the_connections_that_asked_for_it"),
    )),
    ("that it switches the kernel path off", (
        ("anybody_switches", (("memcached/server.c", r"if \(!net_is_local\(fd\)\)", "if (fd < 0)"),
                              ), "t/e2e/kernel/bypass.t",
         "the_command_bmc_and_a_signal_switch_the_kernel_path"),
    )),
    ("what a value says", (
        ("any_key", (("bpf/answer/one.bpf.h",
                      r" \|\|\s+!text_has_key\([^;]*?\*\ KEY_WORDS\)", ""),),
         "t/e2e/kernel/wrong-answers.t", "keys_with_the_same_partial_hash"),
        ("of_another_server", (("bpf/chain/get.bpf.h",
                                r" \|\|\s+bucket->server != server_asked\(scratch\)", ""),),
         "t/e2e/chain/replies.t"),
    )),
    ("who it is (`-S`, `-Y`, TLS)", (
        ("before_it_says_who_it_is", (("memcached/net/conn.c",
                                       r"!conn->closing && !conn->client\.unauthenticated\)",
                                       "!conn->closing)"),),
         "t/e2e/kernel/tcp-server.t", "authentication", "sasl"),
    )),
    ("chain: that packets from the server's port", (
        ("a_forwarded_packet", (("bpf/chain/chain.bpf.c", r"!sender_accepts\(skb, scratch\)",
                                 "skb->sk"),), FORGED),
        ("another_namespace", (("bpf/chain/sender.bpf.h", r" && cookie == settings\.netns", ""),),
         FORGED),
    )),
    ("the return paths", (
        ("ways_of_anybody", (("bpf/packet/return_path.bpf.h", r"\|\| !is_server\(skb\)",
                              "|| (0 && !is_server(skb))"),),
         PATHS, "a_container_with_the_servers_address"),
    )),
    ("`tcp=on`: that a segment with a connection's addresses", (
        ("any_socket_of_a_connection", (("bpf/tcp/egress.bpf.h",
                                         r"likely\(conn->cookie == cookie\) \|\| !conn->cookie",
                                         "likely(conn->cookie == cookie) || 1"),),
         PATHS, "a_container_beside_a_connection"),
        ("any_answer_to_a_syn", (("bpf/tcp/egress.bpf.h",
                                  r"flow_owner\(skb, cookie\) != OWNER_SAME", "1"),),
         HOSTILE, "a_container_with_the_servers_address"),
    )),
    ("`tcp=on`: that a segment is for the socket which gets it", (
        ("a_former_sockets_segments", (("bpf/tcp/lost.bpf.h",
                                        r"is_translation_mark\(skb->tc_index\) \|\|\s+has_[^;]*;",
                                        "0;"),), "t/bpf/tcp_undo.c"),
        ("the_listening_socket_of_a_frozen_entry", (("bpf/tcp/lost.bpf.h",
                                                     r"unlikely\(conn_is_frozen\(conn\)\) \?",
                                                     "0 ?"),), "t/bpf/tcp_undo.c"),
        ("a_listening_socket_without_filter", (("memcached/kmem/tcp.c",
                                                r"if \(listeners_begin\(&tcp->listeners\)\)",
                                                "if (0)"),), SERVER,
         "sockets_have_filters_only_while_they_need_them"),
    )),
    ("`tcp=on`: what a thread of the server asks the undo process", (
        ("two_guards", (("memcached/splice/process.c",
                         r"if \(entry_guard_is_attached\(guard->link\)\)", "if (0)"),),
         "t/unit/splice_undo.c"),
        ("the_socket_of_another_port", (("memcached/splice/process.c",
                                         r"connection->flow\.server_port != "
                                         r"htons\([^)]*\)", "0"),), "t/unit/splice_undo.c"),
        ("the_entry_of_another_socket", (("memcached/splice/process.c",
                                          r"conn->cookie != connection->cookie", "0"),),
         "t/unit/splice_undo.c"),
        ("the_text_of_another_reply", (("bpf/load/entry.c", r"rtx\.owner != [^)]*\)", "0"),),
         "t/unit/splice_undo.c"),
    )),
    ("`tcp=on`: the rights of the undo process", (
        ("all_rights", (("memcached/splice/process.c",
                         r"CREDENTIALS_NET_ADMIN \| CREDENTIALS_NET_RAW", "~UINT64_C(0)"),),
         "t/unit/splice_undo.c"),
        ("the_store", (("bpf/load/memory.c", r"madvise\(addr, size, MADV_DONTFORK\)", "0"),),
         "t/unit/splice_undo.c"),
    )),
    ("`tcp=on`: that the undo process lives and answers", (
        ("a_signal_ends_it", (("memcached/splice/process.c", r"signal\(ignored\[i\], SIG_IGN\)",
                                "signal(ignored[i], SIG_DFL)"),),
         "t/unit/splice_undo.c"),
    )),
    ("that the programs on TC see every packet", (
        ("behind_the_others", (("bpf/attach/order.c", r"at, BEFORE, 0, 0\) : fd",
                                "at, 0, 0, 0) : fd"),),
         "t/e2e/kernel/order.t", "native_egress"),
    )),
    ("`tcp=on`: that the server's socket has the addresses and ports of the wire", (
        ("follows_what_is_translated", (("bpf/tcp/egress.bpf.h",
                                         r"\|\| !segment_is_of\(skb, sk, [^)]*\)", ""),),
         "t/e2e/kernel/tcp-nat.t", "netfilter_changes_addresses_or_ports"),
    )),
    ("`tcp=on`: by which interface the server's segments leave", (
        ("no_guard", (("bpf/tcp/guard.bpf.h", r"return guard_drop\(\);", "return GUARD_PASS;"),),
         "t/e2e/kernel/tcp-guard.t", "a_reply_would_leave_by_another_interface"),
        ("guard_by_another_slot", (("bpf/tcp/guard.bpf.h", r"READ_ONCE\(slot->generation\) != "
                                    r"guarded->tag.generation", "0"),), "t/bpf/tcp_guard.c"),
        ("no_guard_of_the_first", (("bpf/tcp/guard.bpf.h", r"!slot_is_used\(slot\)",
                                    "!READ_ONCE(slot->answered)"),), "t/bpf/tcp_guard.c"),
        ("no_guard_of_the_closed", (("bpf/tcp/guard.bpf.h", r"guard_is_used\(skb\) \? "
                                     r"guard_drop\(\) :", ""),), "t/bpf/tcp_guard.c"),
        ("answers_unguarded", (("bpf/tcp/guard.bpf.h", r"return guarded && "
                                r"READ_ONCE\(guarded->is_seen\);", "return 1;"),),
         "t/bpf/tcp_guard.c"),
        ("what_was_held_leaves", (("bpf/packet/sender.bpf.h",
                                   r"return sk && sk->bound_dev_if == MC_TCP_ASIDE;",
                                   "return 0;"),),
         "t/e2e/kernel/tcp-guard.t", "a_reply_is_held_while_its_socket_is_replaced"),
        ("what_was_held_is_foreign", (("bpf/udp/tail.bpf.h",
                                       r"\|\| \(egress && sender_is_aside\(skb\)\)", ""),),
         "t/e2e/kernel/tcp-guard.t", "a_reply_is_held_while_its_socket_is_replaced"),
        ("what_was_held_for_none", (("bpf/udp/tail.bpf.h",
                                     r"sieve_is_empty\(1\) && !sender_is_aside\(skb\)",
                                     "sieve_is_empty(1)"),),
         "t/e2e/kernel/tcp-guard.t", "a_reply_is_held_while_its_socket_is_replaced"),
        ("answers_with_an_open_way", (("memcached/iface/monitor.c", r"tcp_bypass, index != 0,",
                                       "tcp_bypass, 0,"),),
         "t/e2e/kernel/tcp-guard.t", "a_server_without_such_a_group"),
        ("answers_without_the_detached", (("memcached/iface/monitor.c",
                                           r"loader_tcp_is_guarded\(monitor->loader\) \?",
                                           "1 ?"),),
         "t/e2e/kernel/tcp-guard.t", "another_process_detaches_the_guard_for_good"),
        ("the_lost_guard", (("bpf/load/tcp.c", r"\|\| entry_guard_is_attached\([^)]*\)\)",
                             "|| true)"),), "t/bpf/tcp_guard.c"),
        ("the_guard_stays_away", (("memcached/iface/monitor.c",
                                   r"rc = monitor->guard\(monitor->guard_context\);",
                                   "rc = -EPERM;"),),
         "t/e2e/kernel/tcp-guard.t", "another_process_detaches_the_guard"),
        ("goes_on_with_an_open_way", (("memcached/kcache/kcache.c",
                                       r"\|\| view\.ntcp_opened != kcache->ntcp_opened", ""),),
         "t/e2e/kernel/tcp-guard.t", "a_server_without_such_a_group"),
        ("follows_with_an_open_way", (("memcached/kmem/tcp.c",
                                       r"!__atomic_load_n\(&loader_control[^;]*tcp_bypass,[^;]*;",
                                       "true;"),),
         "t/e2e/kernel/tcp-guard.t", "a_server_without_such_a_group"),
        ("unstamped_unguarded", (("bpf/load/tcp.c",
                                  r"takes_unstamped = loader->tcp->skel->bss->is_guarded;",
                                  "takes_unstamped = 1;"),),
         "t/e2e/kernel/tcp-guard.t", "a_server_without_such_a_group"),
        ("unstamped_without_the_lost", (("bpf/load/tcp.c",
                                         r"__atomic_store_n\([^;]*takes_unstamped, 0, [^;]*;",
                                         ""),),
         "t/bpf/tcp_guard.c"),
        ("unstamped_unasked", (("bpf/tcp/egress.bpf.h", r"if \(!READ_ONCE\(takes_unstamped\)\)",
                                "if (0)"),
                               ("bpf/tcp/commit.bpf.h", r"!READ_ONCE\(takes_unstamped\)", "0")),
         "t/e2e/kernel/tcp-guard.t", "without_timestamps_only_if_asked_for"),
        ("no_bypass_of_tcp", (("bpf/tcp/answer.bpf.h", r"\| READ_ONCE\(control\.tcp_bypass\)",
                               ""),),
         "t/bpf/tcp.c"),
        ("answers_wrap_to_none", (("bpf/tcp/answer.bpf.h",
                                   r"slot->answered \+= !slot->answered;", ""),),
         "t/bpf/tcp.c"),
        ("one_member_is_enough", (("memcached/iface/hostnet.c",
                                   r"if \(!hostnet->links\[i\]\.leads\)\n            return false;",
                                   "if (!hostnet->links[i].leads)\n            continue;"),),
         "t/unit/iface_hostnet.c"),
        ("a_vlan_in_a_vlan", (("memcached/iface/hostnet.c", r"lower->leads && !lower->ntags;",
                               "lower->leads;"),), "t/unit/iface_hostnet.c"),
    )),
    ("that the driver sends the replies of native XDP", (
        ("any_other_end", (("memcached/iface/sending.c", r"(link_veth_peer\(ifindex\) !=)",
                            r"0 && \1"),),
         "t/e2e/kernel/lost-replies.t", "gro_at_the_other_end"),
    )),
    ("that a packet to this machine's address", (
        ("any_address", (("bpf/packet/headers.bpf.h",
                          r"(if \(local->v4\[i\] == address\)\s+return 1;\s+\}\s+)return 0;",
                          r"\1return 1;"),), "t/e2e/kernel/traffic.t", "foreign_packets"),
    )),
    ("that a packet is one datagram", (
        ("several_datagrams", (("bpf/udp/skb.bpf.h", r"if \(skb->gso_size\)", "if (0)"),),
         "t/e2e/kernel/segments.t"),
        ("several_datagrams_of_the_chain", (("bpf/chain/large.bpf.h",
                                             r"if \(unlikely\(skb->gso_size\)\)", "if (0)"),),
         "t/e2e/chain/segments.t"),
    )),
    ("`bmc`: that its socket is its own", (
        ("anybodys_folder", (("memcached/base/runfolder.c", r"if \(made\)\s+fchmod\(fd, 0755\);",
                              "fchmod(fd, 0777);"),
                             ("memcached/base/runfolder.c", r"&& !\(is\.st_mode & 022\)", "")),
         "t/e2e/chain/bmc.t", "others_cannot_keep_it_from_starting"),
    )),
    ("what rtnetlink says of links, addresses and routes", (
        ("as_many_routes_as_there_are", (("memcached/iface/hostnet.c",
                                          r"if \(hostnet->nroutes == HOSTNET_ROUTES_MAX\)",
                                          "if (0)"),), "t/unit/iface_hostnet.c"),
    )),
    ("that notifications about addresses", (
        ("messages_of_anybody", (("memcached/iface/rtnetlink.c", r"if \(from\.nl_pid != 0\)",
                                  "if (0)"),), "t/e2e/kernel/addresses.t",
         "messages_of_other_senders_than_the_kernel"),
    )),
    ("that who asks to share an interface", (
        ("any_asker", (("bpf/attach/share.c", r"known = !share \|\| is_xdp\(share, fds\[0\]\);",
                        "known = is_xdp(share, fds[0]) || true;"),), "t/bpf/share.c"),
    )),
    ("connections to that socket", (
        ("any_users_connections", (("bpf/attach/share.c", r"chmod\(name\.sun_path, 0660\)",
                                    "chmod(name.sun_path, 0666)"),), "t/bpf/share.c"),
    )),
    ("that who answers there is a server", (
        ("any_descriptor", (("bpf/attach/share.c", r"&& interface_of\(fds\[1\]\) == ifindex", ""),),
         "t/bpf/share.c"),
    )),
    ("`xsk=on`: rings, and the count", (
        ("any_count_of_a_ring", (("bpf/udp/ring.bpf.h", r">= MC_RING_SIZE\)",
                                  "== MC_RING_SIZE)"),), "t/bpf/rings.c"),
    )),
    ("the memory that the server shares", (
        ("while_it_is_written", (("bpf/answer/one.bpf.h",
                                  r"unlikely\(one->seq & 1 \|\| \(\(u32\)hash",
                                  "unlikely(((u32)hash"),), "t/bpf/buckets.c"),
    )),
    ("the capabilities that the server keeps", (
        ("more_capabilities", (("memcached/server.c",
                                r"has_kernel_path\(server\) \? kcache_capabilities"
                                r"\(server->kcache\) : 0\);", "~0ull >> 24);"),),
         "t/e2e/kernel/attach.t", "capabilities_that_are_kept"),
    )),
    ("`allow=@FILE`, certificates", (
        ("the_old_list_for_ever", (("bpf/packet/guard.bpf.h",
                                    r"return READ_ONCE\(guard_now\.list\);",
                                    "return guard_local ? MC_GUARD_LOCAL : 0;"),),
         "t/e2e/kernel/reload.t", "who_is_answered_changes"),
    )),
    ("that there is memory", (
        ("no_room_is_kept", (("memcached/base/cgroup.c",
                              r"(bool cgroup_has_room\([^}]*?)return false;", r"\1continue;"),),
         "t/e2e/server/cgroup.t"),
    )),
    ("that the server runs", (
        ("answers_for_the_stopped", (("bpf/packet/base.bpf.h",
                                      r"return bpf_jiffies64\(\) > READ_ONCE\(control\.lease_end\)",
                                      "return 0"),), "t/e2e/kernel/stall.t",
         "a_server_that_is_stopped"),
    )),
    ("that interfaces and addresses stay", (
        ("detached_for_ever", (("memcached/iface/monitor.c",
                                r"unsigned int lost = watched->lost \| "
                                r"loader_lost\([^;]*;", "unsigned int lost = watched->lost;"),),
         "t/e2e/kernel/interfaces.t", "detached_by_another_process"),
    )),
    ("that its clock is the kernel's", (
        ("the_kernels_clock", (("bpf/packet/base.bpf.h", r"\(\) \+ clock_ahead;", "();"),),
         "t/e2e/kernel/timens.t", "items_expire_by_the_servers_clock"),
    )),
)


def every():
    return [mutant for _, some in ROWS for mutant in some]


def mutant(name):
    return next(one for one in every() if one[0] == name)


def changes():
    """As mutants.changes()."""
    for name, some, *_ in every():
        for path, found, becomes in some:
            yield name, (path, found, 1, becomes)
