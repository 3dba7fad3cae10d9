# SPDX-License-Identifier: BSD-3-Clause
# bpfside_srcs: the loader, in user space. Kernel side files go to EXTRA_DIST.
bpfside_srcs = bpf/layout.h bpf/chain.h
if ENABLE_BMC
bpfside_srcs += bpf/loader.c bpf/loader.h bpf/links.c bpf/object.c bpf/object.h bpf/forget.c \
    bpf/forget.h
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
EXTRA_bpf += bpf/request.bpf.h bpf/frame.bpf.h bpf/skb.bpf.h bpf/chain_large.bpf.h
EXTRA_bpf += bpf/chain.bpf.c bpf/chain_maps.bpf.h bpf/chain_find.bpf.h \
    bpf/chain_ask.bpf.h bpf/chain_get.bpf.h bpf/chain_fill.bpf.h bpf/chain_tcp.bpf.h
EXTRA_bpf += bpf/chain_feed.bpf.h bpf/chain_conn.bpf.h bpf/chain_replies.bpf.h bpf/chain_udp.bpf.h

# The parsers of the chain are the same code in user space.
unit_tests += t/unit/follow t/unit/answers
t_unit_follow_SOURCES = t/unit/follow.c
t_unit_answers_SOURCES = t/unit/answers.c
