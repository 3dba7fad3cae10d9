# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
proto_srcs = memcached/proto/proto.h memcached/proto/text.c memcached/proto/frame.c \
    memcached/proto/suffix.c memcached/proto/reply.c memcached/proto/meta.c \
    memcached/proto/meta.h memcached/proto/binary.c

unit_tests += t/unit/base_num t/unit/base_base64 t/unit/base_stream t/unit/proto_text \
    t/unit/proto_meta t/unit/proto_binary t/unit/proto_reply t/unit/proto_frame
t_unit_base_num_SOURCES = t/unit/base_num.c
t_unit_base_num_LDADD = $(base_libs)
unit_tests += t/unit/base_cgroup
t_unit_base_cgroup_SOURCES = t/unit/base_cgroup.c
t_unit_base_cgroup_LDADD = $(base_libs)
t_unit_base_base64_SOURCES = t/unit/base_base64.c
t_unit_base_base64_LDADD = $(base_libs)
t_unit_base_stream_SOURCES = t/unit/base_stream.c
t_unit_base_stream_LDADD = $(base_libs)
t_unit_proto_text_SOURCES = t/unit/proto_text.c t/unit/proto_text.inc t/lib/text.h
t_unit_proto_text_LDADD = $(proto_libs)
t_unit_proto_meta_SOURCES = t/unit/proto_meta.c t/lib/text.h
t_unit_proto_meta_LDADD = $(proto_libs)
t_unit_proto_binary_SOURCES = t/unit/proto_binary.c
t_unit_proto_binary_LDADD = $(proto_libs)
t_unit_proto_reply_SOURCES = t/unit/proto_reply.c
t_unit_proto_reply_LDADD = $(proto_libs)
t_unit_proto_frame_SOURCES = t/unit/proto_frame.c
t_unit_proto_frame_LDADD = $(proto_libs)

# The fuzz targets: a test gives each the inputs that were found before; `make fuzz-text`,
# `make fuzz-meta` and `make fuzz-binary` look for more (clang only), for FUZZ_SECONDS, and keep
# them in fuzz-NAME.corpus of the build tree.
unit_tests += t/fuzz/text t/fuzz/meta t/fuzz/binary
t_fuzz_meta_SOURCES = t/fuzz/meta_parse.c t/fuzz/replay.c
t_fuzz_meta_LDADD = $(proto_libs)
t_fuzz_text_SOURCES = t/fuzz/text_parse.c t/fuzz/replay.c
t_fuzz_text_LDADD = $(proto_libs)
t_fuzz_binary_SOURCES = t/fuzz/binary_parse.c t/fuzz/replay.c
t_fuzz_binary_LDADD = $(proto_libs)

FUZZ_SECONDS = 180
FUZZ_CC = clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all

fuzz-text:
	$(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin $(srcdir)/t/fuzz/text_parse.c \
	    $(srcdir)/memcached/proto/text.c $(srcdir)/memcached/proto/meta.c \
	    $(srcdir)/memcached/base/num.c $(srcdir)/memcached/base/base64.c
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 \
	    -dict=$(srcdir)/t/fuzz/text.dict $@.corpus $(srcdir)/t/fuzz/corpus/text

fuzz-meta:
	$(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin $(srcdir)/t/fuzz/meta_parse.c \
	    $(srcdir)/memcached/proto/text.c $(srcdir)/memcached/proto/meta.c \
	    $(srcdir)/memcached/base/num.c $(srcdir)/memcached/base/base64.c
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=512 -timeout=10 \
	    -dict=$(srcdir)/t/fuzz/text.dict $@.corpus $(srcdir)/t/fuzz/corpus/meta

fuzz-binary:
	$(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin $(srcdir)/t/fuzz/binary_parse.c \
	    $(srcdir)/memcached/proto/binary.c
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=1024 -timeout=10 \
	    $@.corpus $(srcdir)/t/fuzz/corpus/binary
.PHONY: fuzz-text fuzz-meta fuzz-binary
