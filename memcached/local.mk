# SPDX-License-Identifier: BSD-3-Clause
# The release program lists every source, because -DNDEBUG is per program in automake;
# the debug twin, with asserts, links the layers' libraries.
options_srcs = memcached/license.h \
    memcached/options.c memcached/options.h \
    memcached/options_env.c memcached/options_env.h memcached/options_flash.c \
    memcached/options_set.c memcached/options_set.h \
    memcached/options_table.c memcached/options_table.h
if ENABLE_SECCOMP
confine_srcs = memcached/confine.c
else
confine_srcs = memcached/confine_none.c
endif
EXTRA_DIST += memcached/confine.c memcached/confine_none.c

main_srcs = $(options_srcs) \
    memcached/confine.h $(confine_srcs) \
    memcached/main.c \
    memcached/restart.c memcached/restart.h \
    memcached/sandbox.c memcached/sandbox.h \
    memcached/server.c memcached/server.h

bin_PROGRAMS += memcached/memcached
memcached_memcached_SOURCES = $(main_srcs) $(net_srcs) $(command_srcs) $(proto_srcs) \
    $(store_srcs) $(flash_srcs) $(kcache_srcs) $(loader_srcs) $(base_srcs)
memcached_memcached_CPPFLAGS = $(AM_CPPFLAGS) -DNDEBUG
memcached_memcached_LDADD = $(LIBEVENT_LIBS) $(LIBXDP_LIBS) $(LIBBPF_LIBS) $(OPENSSL_LIBS) \
    $(SECCOMP_LIBS) $(SASL_LIBS)

noinst_PROGRAMS += memcached-debug
memcached_debug_SOURCES = $(main_srcs)
memcached_debug_LDADD = $(all_libs) $(SECCOMP_LIBS)

# memcached.1 is made from the option table.
noinst_PROGRAMS += memcached/manual
memcached_manual_SOURCES = memcached/manual.c $(options_srcs)
memcached_manual_LDADD = $(all_libs)

nodist_man_MANS = memcached.1
CLEANFILES += memcached.1
memcached.1: memcached/manual$(EXEEXT) $(srcdir)/doc/memcached.1.in
	$(AM_V_GEN)memcached/manual$(EXEEXT) $(srcdir)/doc/memcached.1.in > $@.tmp && mv $@.tmp $@

unit_tests += t/unit/clock t/unit/confine t/unit/options_parse
t_unit_clock_SOURCES = t/unit/clock.c
t_unit_clock_LDADD = $(base_libs)
t_unit_confine_SOURCES = t/unit/confine.c memcached/confine.h $(confine_srcs)
t_unit_confine_LDADD = $(SECCOMP_LIBS)
t_unit_options_parse_SOURCES = t/unit/options_parse.c $(options_srcs)
t_unit_options_parse_LDADD = $(all_libs)

# Any command line; see memcached/proto/local.mk for the fuzz targets.
unit_tests += t/fuzz/options
t_fuzz_options_SOURCES = t/fuzz/options.c t/fuzz/replay.c $(options_srcs)
t_fuzz_options_LDADD = $(all_libs)

fuzz-options:
	$(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin \
	    $(srcdir)/t/fuzz/options.c $(PTHREAD_CFLAGS) $(addprefix $(srcdir)/,$(filter %.c, \
	    $(options_srcs) memcached/kcache/parse.c $(base_srcs) $(proto_srcs) $(store_srcs) \
	    $(flash_srcs) $(command_srcs))) $(SASL_LIBS)
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=512 -timeout=10 \
	    -dict=$(srcdir)/t/fuzz/options.dict $@.corpus $(srcdir)/t/fuzz/corpus/options
.PHONY: fuzz-options
