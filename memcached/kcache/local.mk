# SPDX-License-Identifier: BSD-3-Clause
# kcache_srcs: with the kernel path its files, without it the stub none.c.
kcache_srcs = memcached/kcache/kcache.h memcached/kcache/parse.c memcached/kcache/parse.h
if ENABLE_BMC
kcache_srcs += memcached/kcache/kcache.c
kcache_srcs += memcached/kcache/chain.c memcached/kcache/chain.h
kcache_srcs += memcached/kcache/report.c
kcache_srcs += memcached/kcache/guard.c memcached/kcache/guard.h
else
kcache_srcs += memcached/kcache/none.c
endif

if ENABLE_BMC
unit_tests += t/unit/kcache_chain
bpf_tests += t/bpf/answers t/bpf/shapes t/bpf/verbs t/bpf/passes t/bpf/buckets t/bpf/outside \
    t/bpf/checksums t/bpf/one_cpu t/bpf/verifier t/bpf/stack \
    t/bpf/kcache t/fuzz/request t/bpf/guard t/bpf/share t/bpf/rings t/bpf/trace
bpf_tests += t/bpf/tcp t/bpf/tcp_one t/bpf/tcp_resend t/bpf/tcp_shift t/bpf/tcp_random \
    t/bpf/tcp_race t/bpf/tcp_offload t/bpf/tcp_guard t/bpf/tcp_undo t/bpf/tcp_owner \
    t/bpf/tcp_pipeline t/bpf/tcp_sieve
bpf_tests += t/bpf/chain_tcp t/bpf/chain_streams t/bpf/chain_udp t/bpf/chain_random
bpf_tests += t/bpf/chain_writes
bpf_tests += t/bpf/chain_get t/bpf/chain_fill t/bpf/chain_race t/bpf/chain_room t/fuzz/chain
endif
t_bpf_chain_tcp_SOURCES = t/bpf/chain_tcp.c $(bpf_segments)
t_bpf_chain_tcp_LDADD = $(loader_libs)
t_bpf_chain_random_SOURCES = t/bpf/chain_random.c $(bpf_segments)
t_bpf_chain_random_LDADD = $(loader_libs)
t_bpf_chain_udp_SOURCES = t/bpf/chain_udp.c $(bpf_segments)
t_bpf_chain_udp_LDADD = $(loader_libs)
t_bpf_chain_writes_SOURCES = t/bpf/chain_writes.c $(bpf_segments)
t_bpf_chain_writes_LDADD = $(loader_libs)
t_bpf_chain_streams_SOURCES = t/bpf/chain_streams.c $(bpf_segments)
t_bpf_chain_streams_LDADD = $(loader_libs)
bpf_segments = t/bpf/segments.c t/bpf/segments.h t/bpf/dialogue.h t/lib/hash.h t/lib/tap.h
bpf_loaded = t/bpf/loaded.c t/bpf/loaded.h
bpf_lab = t/bpf/lab.c t/bpf/lab.h t/bpf/wire.h $(bpf_loaded) t/lib/hash.h t/lib/sum.h t/lib/tap.h
bpf_chain_lab = t/bpf/chain_lab.c t/bpf/chain_lab.h $(bpf_lab)
t_bpf_chain_get_SOURCES = t/bpf/chain_get.c $(bpf_chain_lab)
t_bpf_chain_get_LDADD = $(kcache_libs)
t_bpf_chain_fill_SOURCES = t/bpf/chain_fill.c t/bpf/dialogue.h $(bpf_chain_lab)
t_bpf_chain_fill_LDADD = $(kcache_libs)
t_bpf_chain_room_SOURCES = t/bpf/chain_room.c $(bpf_chain_lab)
t_bpf_chain_room_LDADD = $(kcache_libs)
t_bpf_chain_race_SOURCES = t/bpf/chain_race.c $(bpf_chain_lab)
t_bpf_chain_race_LDADD = $(kcache_libs)
bpf_tcp_lab = t/bpf/tcp_lab.c t/bpf/tcp_rules.c t/bpf/tcp_model.h t/bpf/tcp_lab.h $(bpf_lab)
bpf_tcp_pair = t/bpf/tcp_pair.c t/bpf/tcp_pair.h $(bpf_tcp_lab)
t_bpf_tcp_SOURCES = t/bpf/tcp.c t/lib/text.h $(bpf_tcp_lab)
t_bpf_tcp_LDADD = $(kcache_libs)
t_bpf_tcp_shift_SOURCES = t/bpf/tcp_shift.c $(bpf_tcp_lab)
t_bpf_tcp_shift_LDADD = $(kcache_libs)
t_bpf_tcp_random_SOURCES = t/bpf/tcp_random.c $(bpf_tcp_lab)
t_bpf_tcp_random_LDADD = $(kcache_libs)
t_bpf_tcp_race_SOURCES = t/bpf/tcp_race.c $(bpf_tcp_lab)
t_bpf_tcp_race_LDADD = $(kcache_libs)
t_bpf_tcp_offload_SOURCES = t/bpf/tcp_offload.c $(bpf_tcp_lab)
t_bpf_tcp_offload_LDADD = $(kcache_libs)
t_bpf_tcp_guard_SOURCES = t/bpf/tcp_guard.c $(bpf_tcp_lab)
t_bpf_tcp_guard_LDADD = $(kcache_libs)
t_bpf_tcp_sieve_SOURCES = t/bpf/tcp_sieve.c $(bpf_tcp_lab)
t_bpf_tcp_sieve_LDADD = $(kcache_libs)
t_bpf_tcp_one_SOURCES = t/bpf/tcp_one.c $(bpf_tcp_lab)
t_bpf_tcp_one_LDADD = $(kcache_libs)
t_bpf_tcp_pipeline_SOURCES = t/bpf/tcp_pipeline.c $(bpf_tcp_lab)
t_bpf_tcp_pipeline_LDADD = $(kcache_libs)
t_bpf_tcp_undo_SOURCES = t/bpf/tcp_undo.c $(bpf_tcp_pair)
t_bpf_tcp_undo_LDADD = $(kcache_libs)
t_bpf_tcp_owner_SOURCES = t/bpf/tcp_owner.c $(bpf_tcp_pair)
t_bpf_tcp_owner_LDADD = $(kcache_libs)
t_bpf_tcp_resend_SOURCES = t/bpf/tcp_resend.c $(bpf_tcp_lab)
t_bpf_tcp_resend_LDADD = $(kcache_libs)
t_bpf_answers_SOURCES = t/bpf/answers.c t/lib/text.h $(bpf_lab)
t_bpf_answers_LDADD = $(kcache_libs)
t_bpf_verbs_SOURCES = t/bpf/verbs.c t/lib/text.h $(bpf_lab)
t_bpf_verbs_LDADD = $(kcache_libs)
t_bpf_checksums_SOURCES = t/bpf/checksums.c $(bpf_lab)
t_bpf_checksums_LDADD = $(kcache_libs)
t_bpf_shapes_SOURCES = t/bpf/shapes.c $(bpf_lab)
t_bpf_shapes_LDADD = $(kcache_libs)
t_bpf_passes_SOURCES = t/bpf/passes.c $(bpf_lab)
t_bpf_passes_LDADD = $(kcache_libs)
t_bpf_buckets_SOURCES = t/bpf/buckets.c $(bpf_lab)
t_bpf_buckets_LDADD = $(kcache_libs)
t_bpf_one_cpu_SOURCES = t/bpf/one_cpu.c $(bpf_lab)
t_bpf_one_cpu_LDADD = $(kcache_libs)
fuzz_served = t/fuzz/served.c t/fuzz/served.h t/fuzz/datagrams.c t/fuzz/datagrams.h
t_fuzz_request_SOURCES = t/fuzz/request.c $(fuzz_served) $(bpf_lab)
t_fuzz_chain_SOURCES = t/fuzz/chain.c $(fuzz_served) $(bpf_chain_lab)
t_fuzz_chain_LDADD = libcommand.a libproto.a libstore.a libflash.a $(kcache_libs) $(SASL_LIBS)
t_fuzz_request_LDADD = libcommand.a libproto.a libstore.a libflash.a $(kcache_libs) \
    $(SASL_LIBS)
t_unit_kcache_chain_SOURCES = t/unit/kcache_chain.c t/lib/tap.h
t_unit_kcache_chain_LDADD = $(kcache_libs)
t_bpf_kcache_SOURCES = t/bpf/kcache.c $(bpf_loaded) t/lib/tap.h
t_bpf_kcache_LDADD = $(kcache_libs)
t_bpf_outside_SOURCES = t/bpf/outside.c $(bpf_lab)
t_bpf_outside_LDADD = $(kcache_libs)
t_bpf_guard_SOURCES = t/bpf/guard.c $(bpf_lab)
t_bpf_guard_LDADD = $(kcache_libs)
t_bpf_trace_SOURCES = t/bpf/trace.c bpf/trace/find.c t/lib/tap.h
t_bpf_trace_LDADD = $(loader_libs)
t_bpf_share_SOURCES = t/bpf/share.c $(bpf_loaded) t/bpf/wire.h t/lib/tap.h
t_bpf_share_LDADD = $(loader_libs)
t_bpf_rings_SOURCES = t/bpf/rings.c $(bpf_lab)
t_bpf_rings_LDADD = $(kcache_libs)
t_bpf_verifier_SOURCES = t/bpf/verifier.c t/bpf/skeletons.h $(bpf_lab)
t_bpf_verifier_LDADD = $(kcache_libs)
t_bpf_stack_SOURCES = t/bpf/stack.c t/bpf/skeletons.h $(bpf_lab)
t_bpf_stack_LDADD = $(kcache_libs)

# See memcached/proto/local.mk for the fuzz targets.
unit_tests += t/fuzz/sources
t_fuzz_sources_SOURCES = t/fuzz/sources.c t/fuzz/replay.c
t_fuzz_sources_LDADD = $(kcache_libs)

fuzz-sources:
	$(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin $(srcdir)/t/fuzz/sources.c \
	    $(srcdir)/memcached/kcache/parse.c $(srcdir)/memcached/kmem/prefix.c \
	    $(srcdir)/memcached/base/num.c
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=512 -timeout=10 \
	    $@.corpus $(srcdir)/t/fuzz/corpus/sources
.PHONY: fuzz-sources
