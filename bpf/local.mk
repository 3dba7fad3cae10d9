# SPDX-License-Identifier: BSD-3-Clause
# The kernel objects, and what they are made of.
if ENABLE_BMC
bpf_objects += bpf/udp/udp.bpf.o bpf/chain/chain.bpf.o bpf/tcp/tcp.bpf.o bpf/trace/trace.bpf.o
endif
# Not as folders: of a folder `make dist` takes what is built in it as well.
EXTRA_bpf = $(filter-out %.skel.h, $(wildcard $(addprefix $(srcdir)/bpf/, \
    packet/*.h answer/*.h udp/*.[ch] tcp/*.[ch] chain/*.[ch])))
EXTRA_bpf += bpf/shared/counters.def bpf/trace/trace.bpf.c

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
