# SPDX-License-Identifier: BSD-3-Clause
# The release program lists every source, because -DNDEBUG is per program in automake;
# the debug twin, with asserts, links the layers' libraries.
options_srcs = memcached/options/license.h \
    memcached/options/options.c memcached/options/options.h \
    memcached/options/env.c memcached/options/env.h memcached/options/flash.c \
    memcached/options/set.c memcached/options/set.h \
    memcached/options/table.c memcached/options/table.h
if ENABLE_SECCOMP
seccomp_srcs = memcached/process/seccomp.c
else
seccomp_srcs = memcached/process/seccomp_none.c
endif
EXTRA_DIST += memcached/process/seccomp.c memcached/process/seccomp_none.c

main_srcs = $(options_srcs) \
    memcached/process/seccomp.h $(seccomp_srcs) \
    memcached/main.c \
    memcached/process/restart.c memcached/process/restart.h \
    memcached/process/process.c memcached/process/process.h \
    memcached/server.c memcached/server.h memcached/status.c memcached/status.h

bin_PROGRAMS += memcached/memcached
memcached_memcached_SOURCES = $(main_srcs) $(net_srcs) $(command_srcs) $(proto_srcs) \
    $(store_srcs) $(flash_srcs) $(kcache_srcs) $(iface_srcs) $(kmem_srcs) $(splice_srcs) \
    $(attach_srcs) $(load_srcs) $(base_srcs)
memcached_memcached_CPPFLAGS = $(AM_CPPFLAGS) -DNDEBUG
memcached_memcached_LDADD = $(LIBEVENT_LIBS) $(LIBXDP_LIBS) $(LIBBPF_LIBS) $(OPENSSL_LIBS) \
    $(SECCOMP_LIBS) $(SASL_LIBS)

noinst_PROGRAMS += memcached-debug
memcached_debug_SOURCES = $(main_srcs)
memcached_debug_LDADD = $(all_libs) $(SECCOMP_LIBS)

# memcached.1 is made from the option table.
manual_srcs = memcached/options/manual.c memcached/options/table.c memcached/options/env.c
EXTRA_DIST += memcached/options/manual.c

# Runs here, also if the rest is for another machine. The table names the functions that apply the
# options, which this program does not have and does not call.
memcached/options/manual: $(manual_srcs) $(options_srcs) config.h
	@$(MKDIR_P) $(@D)
	$(AM_V_CCLD)$(CC_FOR_BUILD) $(DEFS) -D_GNU_SOURCE= -I$(builddir) -I$(srcdir) \
	    -I$(srcdir)/memcached -std=gnu11 -O -o $@ $(addprefix $(srcdir)/,$(manual_srcs)) \
	    -Wl,--unresolved-symbols=ignore-all

nodist_man_MANS = memcached.1
CLEANFILES += memcached.1 memcached/options/manual
memcached.1: memcached/options/manual $(srcdir)/doc/memcached.1.in
	$(AM_V_GEN)memcached/options/manual $(srcdir)/doc/memcached.1.in > $@.tmp && mv $@.tmp $@

unit_tests += t/unit/clock t/unit/seccomp t/unit/options_parse
t_unit_clock_SOURCES = t/unit/clock.c
t_unit_clock_LDADD = $(base_libs)
t_unit_seccomp_SOURCES = t/unit/seccomp.c memcached/process/seccomp.h $(seccomp_srcs)
t_unit_seccomp_LDADD = $(SECCOMP_LIBS)
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
