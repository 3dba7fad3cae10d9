# SPDX-License-Identifier: BSD-3-Clause
# loader_srcs: the loader, in user space. What the kernel objects are made of goes to EXTRA_DIST.
loader_srcs = bpf/shared/layout.h bpf/shared/chain.h bpf/shared/tcp.h bpf/shared/ring.h
if ENABLE_BMC
loader_srcs += bpf/load/loader.c bpf/load/loader.h bpf/load/refusal.c bpf/load/refusal.h
loader_srcs += bpf/load/object.c bpf/load/object.h bpf/load/parallel.c bpf/load/parallel.h
loader_srcs += bpf/load/inner.c bpf/load/inner.h bpf/load/map_clear.c bpf/load/map_clear.h
loader_srcs += bpf/load/prog_array.c bpf/load/prog_array.h
loader_srcs += bpf/load/rings.c bpf/load/tcp.c bpf/load/tcp.h
loader_srcs += bpf/attach/links.c bpf/attach/tc.c bpf/attach/tc.h
loader_srcs += bpf/attach/filters.c bpf/attach/filters.h bpf/attach/order.c bpf/attach/order.h
loader_srcs += bpf/attach/share.c bpf/attach/share.h bpf/attach/share_ports.h
loader_srcs += bpf/attach/closer.c bpf/attach/closer.h
bpf_objects += bpf/udp/udp.bpf.o bpf/chain/chain.bpf.o bpf/tcp/tcp.bpf.o
bpf_objects += bpf/attach/filter.bpf.o bpf/attach/share.bpf.o
if ENABLE_LIBXDP
loader_srcs += bpf/attach/dispatcher.c bpf/attach/dispatcher.h
bpf_objects += bpf/attach/member.bpf.o
else
loader_srcs += bpf/attach/dispatcher_none.c bpf/attach/dispatcher.h
endif
endif
# Not as folders: of a folder `make dist` takes what is built in it as well.
EXTRA_bpf = $(filter-out %.skel.h, $(wildcard $(addprefix $(srcdir)/bpf/, \
    packet/*.h answer/*.h udp/*.[ch] tcp/*.[ch] chain/*.[ch])))
EXTRA_bpf += bpf/shared/counters.def
EXTRA_bpf += bpf/load/prog_array.bpf.h bpf/attach/filter.bpf.c bpf/attach/member.bpf.c
EXTRA_bpf += bpf/attach/share.bpf.c

# The parsers of the chain are the same code in user space.
unit_tests += t/unit/request_parser t/unit/response_parser
parsed = t/lib/parsed.h t/lib/hash.h
t_unit_request_parser_SOURCES = t/unit/request_parser.c $(parsed)
t_unit_response_parser_SOURCES = t/unit/response_parser.c $(parsed)

# See memcached/proto/local.mk for the fuzz targets.
unit_tests += t/fuzz/parsers
t_fuzz_parsers_SOURCES = t/fuzz/parsers.c t/fuzz/replay.c $(parsed)
t_fuzz_parsers_LDADD = $(proto_libs)

fuzz-parsers:
	$(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin $(srcdir)/t/fuzz/parsers.c \
	    $(srcdir)/memcached/proto/text.c $(srcdir)/memcached/proto/meta.c \
	    $(srcdir)/memcached/proto/binary.c $(srcdir)/memcached/base/num.c \
	    $(srcdir)/memcached/base/base64.c
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=1024 -timeout=10 \
	    -dict=$(srcdir)/t/fuzz/text.dict $@.corpus $(srcdir)/t/fuzz/corpus/parsers \
	    $(srcdir)/t/fuzz/corpus/text $(srcdir)/t/fuzz/corpus/meta \
	    $(srcdir)/t/fuzz/corpus/binary $(srcdir)/t/fuzz/corpus/commands
.PHONY: fuzz-parsers
