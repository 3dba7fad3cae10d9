# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
command_srcs = memcached/command/command.h memcached/command/call.h memcached/command/stat.h \
    memcached/command/command.c memcached/command/retrieve.c memcached/command/storage.c \
    memcached/command/change.c memcached/command/admin.c memcached/command/stat.c \
    memcached/command/general.c \
    memcached/command/slabs.c memcached/command/stats.c memcached/command/meta.c \
    memcached/command/binary.c memcached/command/detail.c memcached/command/prefix.c \
    memcached/command/prefix.h memcached/command/crawler.c memcached/command/lru.c \
    memcached/command/auth.c memcached/command/bypass.c memcached/command/bypass.h \
    memcached/command/event.c memcached/command/event.h \
    memcached/command/flash.c memcached/command/flash_load.c \
    memcached/command/logger.c memcached/command/logger.h \
    memcached/command/ring.c memcached/command/ring.h \
    memcached/command/watch.c memcached/command/watch.h \
    memcached/command/authfile.c memcached/command/authfile.h memcached/command/sasl.h
if ENABLE_SASL
command_srcs += memcached/command/sasl.c
else
command_srcs += memcached/command/sasl_none.c
endif

unit_tests += t/unit/command_ring t/unit/command_event t/unit/command_logger
unit_tests += t/unit/command_text t/unit/command_limits t/unit/command_stats \
    t/unit/command_threads t/unit/command_meta t/unit/command_binary \
    t/unit/command_detail t/unit/command_prefix
t_unit_command_ring_SOURCES = t/unit/command_ring.c
t_unit_command_ring_LDADD = $(command_libs)
t_unit_command_logger_SOURCES = t/unit/command_logger.c
t_unit_command_logger_LDADD = $(command_libs)
t_unit_command_event_SOURCES = t/unit/command_event.c
t_unit_command_event_LDADD = $(command_libs)
t_unit_command_detail_SOURCES = t/unit/command_detail.c t/unit/command_client.h
t_unit_command_detail_LDADD = $(command_libs)
t_unit_command_prefix_SOURCES = t/unit/command_prefix.c
t_unit_command_prefix_LDADD = $(command_libs)
t_unit_command_meta_SOURCES = t/unit/command_meta.c t/unit/command_client.h
t_unit_command_meta_LDADD = $(command_libs)
t_unit_command_binary_SOURCES = t/unit/command_binary.c t/unit/command_client.h
t_unit_command_binary_LDADD = $(command_libs)
t_unit_command_text_SOURCES = t/unit/command_text.c t/unit/command_client.h
t_unit_command_text_LDADD = $(command_libs)
t_unit_command_limits_SOURCES = t/unit/command_limits.c t/unit/command_client.h
t_unit_command_limits_LDADD = $(command_libs)
t_unit_command_stats_SOURCES = t/unit/command_stats.c t/unit/command_client.h
t_unit_command_stats_LDADD = $(command_libs)
t_unit_command_threads_SOURCES = t/unit/command_threads.c t/unit/command_client.h
t_unit_command_threads_LDADD = $(command_libs)

unit_tests += t/unit/command_auth t/fuzz/authfile t/fuzz/authtext
t_unit_command_auth_SOURCES = t/unit/command_auth.c t/unit/command_client.h
t_unit_command_auth_LDADD = $(command_libs)
t_fuzz_authfile_SOURCES = t/fuzz/auth_file.c t/fuzz/replay.c
t_fuzz_authfile_LDADD = $(command_libs)
t_fuzz_authtext_SOURCES = t/fuzz/auth_text.c t/fuzz/replay.c t/unit/command_client.h
t_fuzz_authtext_LDADD = $(command_libs)
if ENABLE_SASL
unit_tests += t/fuzz/sasl
endif
t_fuzz_sasl_SOURCES = t/fuzz/sasl_exchange.c t/fuzz/replay.c t/unit/command_client.h
t_fuzz_sasl_LDADD = $(command_libs)

# What the commands do with any bytes; see memcached/proto/local.mk for the fuzz targets.
unit_tests += t/fuzz/commands
t_fuzz_commands_SOURCES = t/fuzz/commands.c t/fuzz/replay.c t/unit/command_client.h
t_fuzz_commands_LDADD = $(command_libs)

fuzz_commands = $(addprefix $(srcdir)/,$(filter %.c,$(base_srcs) $(proto_srcs) $(flash_srcs) \
    $(store_srcs) $(command_srcs)))

# Of an item's bytes the layout declares the first few: no check of array bounds.
fuzz-commands:
	$(FUZZ_CC) -fno-sanitize=bounds $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin \
	    $(srcdir)/t/fuzz/commands.c $(PTHREAD_CFLAGS) $(fuzz_commands) $(SASL_LIBS)
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=1024 -timeout=10 \
	    -dict=$(srcdir)/t/fuzz/text.dict $@.corpus $(srcdir)/t/fuzz/corpus/commands

fuzz-sasl:
	$(FUZZ_CC) -fno-sanitize=bounds $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin \
	    $(srcdir)/t/fuzz/sasl_exchange.c $(PTHREAD_CFLAGS) $(fuzz_commands) $(SASL_LIBS)
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=1024 -timeout=10 \
	    -dict=$(srcdir)/t/fuzz/sasl.dict $@.corpus $(srcdir)/t/fuzz/corpus/sasl

fuzz-authtext:
	$(FUZZ_CC) -fno-sanitize=bounds $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin \
	    $(srcdir)/t/fuzz/auth_text.c $(PTHREAD_CFLAGS) $(fuzz_commands) $(SASL_LIBS)
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=1024 -timeout=10 \
	    -dict=$(srcdir)/t/fuzz/text.dict $@.corpus $(srcdir)/t/fuzz/corpus/authtext

fuzz-authfile:
	$(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin $(srcdir)/t/fuzz/auth_file.c \
	    $(srcdir)/memcached/command/authfile.c $(srcdir)/memcached/base/log.c $(PTHREAD_CFLAGS)
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 \
	    $@.corpus $(srcdir)/t/fuzz/corpus/authfile
.PHONY: fuzz-commands fuzz-sasl fuzz-authfile fuzz-authtext
