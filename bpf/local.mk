# SPDX-License-Identifier: BSD-3-Clause
# loader_srcs: the loader, in user space. What the kernel objects are made of goes to EXTRA_DIST.
loader_srcs = bpf/shared/layout.h bpf/shared/chain.h bpf/shared/tcp.h bpf/shared/ring.h
if ENABLE_BMC
loader_srcs += bpf/loader/loader.c bpf/loader/loader.h bpf/loader/links.c
loader_srcs += bpf/loader/filters.c bpf/loader/filters.h bpf/loader/order.c bpf/loader/order.h
loader_srcs += bpf/loader/tc.c bpf/loader/tc.h bpf/loader/tcp.c bpf/loader/tcp.h
loader_srcs += bpf/loader/inner.c bpf/loader/inner.h
loader_srcs += bpf/loader/object.c bpf/loader/object.h
loader_srcs += bpf/loader/parallel.c bpf/loader/parallel.h
loader_srcs += bpf/loader/closer.c bpf/loader/closer.h
loader_srcs += bpf/loader/refusal.c bpf/loader/refusal.h
loader_srcs += bpf/loader/rings.c
loader_srcs += bpf/loader/prog_array.c bpf/loader/prog_array.h
loader_srcs += bpf/loader/share.c bpf/loader/share.h bpf/loader/share_ports.h
loader_srcs += bpf/loader/map_clear.c bpf/loader/map_clear.h
bpf_objects += bpf/inplace/inplace.bpf.o bpf/chain/chain.bpf.o bpf/tcp/tcp.bpf.o
bpf_objects += bpf/loader/filter.bpf.o bpf/loader/share.bpf.o
if ENABLE_LIBXDP
loader_srcs += bpf/loader/dispatcher.c bpf/loader/dispatcher.h
bpf_objects += bpf/loader/member.bpf.o
else
loader_srcs += bpf/loader/dispatcher_none.c bpf/loader/dispatcher.h
endif
endif
# Not as folders: of a folder `make dist` takes what is built in it as well.
EXTRA_bpf = $(filter-out %.skel.h, \
    $(wildcard $(addprefix $(srcdir)/bpf/,packet/*.h inplace/*.[ch] chain/*.[ch] tcp/*.[ch])))
EXTRA_bpf += bpf/loader/prog_array.bpf.h bpf/loader/filter.bpf.c bpf/loader/member.bpf.c
EXTRA_bpf += bpf/loader/share.bpf.c

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
