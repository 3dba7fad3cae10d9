# SPDX-License-Identifier: BSD-3-Clause
# bpfside_srcs: the loader, in user space. Kernel side files go to EXTRA_DIST.
bpfside_srcs = bpf/layout.h bpf/chain.h
if ENABLE_BMC
bpfside_srcs += bpf/loader.c bpf/loader.h bpf/links.c bpf/tc.c bpf/tc.h bpf/object.c bpf/object.h \
    bpf/alive.c bpf/alive.h bpf/forget.c bpf/forget.h
bpf_objects += bpf/cache.bpf.o bpf/chain.bpf.o bpf/filter.bpf.o
if ENABLE_LIBXDP
bpfside_srcs += bpf/dispatcher.c bpf/dispatcher.h
bpf_objects += bpf/member.bpf.o
else
bpfside_srcs += bpf/dispatcher_none.c bpf/dispatcher.h
endif
endif
EXTRA_bpf = bpf/cache.bpf.c bpf/filter.bpf.c bpf/member.bpf.c \
    bpf/kernel.bpf.h bpf/packet.bpf.h bpf/lookup.bpf.h bpf/get.bpf.h \
    bpf/guard.bpf.h bpf/verbs.bpf.h bpf/binary.bpf.h bpf/meta.bpf.h bpf/reply.bpf.h \
    bpf/xdp.bpf.h bpf/tc.bpf.h bpf/alive.bpf.h bpf/gate.bpf.h bpf/follow.h bpf/follow_text.h \
    bpf/follow_binary.h bpf/answers.h
EXTRA_bpf += bpf/way.bpf.h bpf/request.bpf.h bpf/frame.bpf.h bpf/skb.bpf.h bpf/chain_large.bpf.h
EXTRA_bpf += bpf/chain.bpf.c bpf/chain_maps.bpf.h bpf/chain_find.bpf.h \
    bpf/chain_ask.bpf.h bpf/chain_get.bpf.h bpf/chain_fill.bpf.h bpf/chain_tcp.bpf.h
EXTRA_bpf += bpf/chain_feed.bpf.h bpf/chain_conn.bpf.h bpf/chain_replies.bpf.h
EXTRA_bpf += bpf/chain_udp.bpf.h bpf/chain_found.bpf.h bpf/chain_sender.bpf.h
EXTRA_bpf += bpf/chain_socket.bpf.h

# The parsers of the chain are the same code in user space.
unit_tests += t/unit/follow t/unit/answers
parsed = t/lib/parsed.h t/lib/hash.h
t_unit_follow_SOURCES = t/unit/follow.c $(parsed)
t_unit_answers_SOURCES = t/unit/answers.c $(parsed)

# See memcached/proto/local.mk for the fuzz targets.
unit_tests += t/fuzz/follow
t_fuzz_follow_SOURCES = t/fuzz/follow.c t/fuzz/replay.c $(parsed)
t_fuzz_follow_LDADD = $(proto_libs)

fuzz-follow:
	$(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin $(srcdir)/t/fuzz/follow.c \
	    $(srcdir)/memcached/proto/text.c $(srcdir)/memcached/proto/meta.c \
	    $(srcdir)/memcached/proto/binary.c $(srcdir)/memcached/base/num.c \
	    $(srcdir)/memcached/base/base64.c
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=1024 -timeout=10 \
	    -dict=$(srcdir)/t/fuzz/text.dict $@.corpus $(srcdir)/t/fuzz/corpus/follow \
	    $(srcdir)/t/fuzz/corpus/text $(srcdir)/t/fuzz/corpus/meta \
	    $(srcdir)/t/fuzz/corpus/binary $(srcdir)/t/fuzz/corpus/commands
.PHONY: fuzz-follow
