# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
store_srcs = memcached/store/automove.c memcached/store/automove.h \
    memcached/store/background.c memcached/store/background.h \
    memcached/store/mover.c memcached/store/mover.h \
    memcached/store/prefault.c memcached/store/prefault.h \
    memcached/store/event.c memcached/store/event.h memcached/store/flush.c \
    memcached/store/flush.h memcached/store/ghost.c memcached/store/ghost.h \
    memcached/store/hash.h \
    memcached/store/image.c memcached/store/image.h \
    memcached/store/heap.c memcached/store/heap.h memcached/store/internal.h \
    memcached/store/item.c memcached/store/item.h memcached/store/lock.c \
    memcached/store/lock.h memcached/store/list.c memcached/store/lru.c memcached/store/lru.h \
    memcached/store/maintainer.c memcached/store/maintainer.h memcached/store/reclaim.c \
    memcached/store/reclaim.h memcached/store/sizes.c memcached/store/sizes.h \
    memcached/store/slab.c memcached/store/slab.h \
    memcached/store/stats.c memcached/store/store.c memcached/store/store.h \
    memcached/store/store_crawler.h memcached/store/store_events.h memcached/store/store_flash.h \
    memcached/store/store_items.h memcached/store/store_list.h memcached/store/store_mover.h \
    memcached/store/store_stats.h memcached/store/store_tuning.h \
    memcached/store/flash_compact.c memcached/store/flash_item.c memcached/store/flash_item.h \
    memcached/store/flash_reserve.c memcached/store/flash_reserve.h \
    memcached/store/flash_load.c memcached/store/flash_write.c memcached/store/flash_threads.c \
    memcached/store/flash_threads.h memcached/store/table.c memcached/store/table.h \
    memcached/store/verbs.h memcached/store/write.c memcached/store/meta.c \
    memcached/store/crawler.c memcached/store/crawler.h memcached/store/forecast.c \
    memcached/store/forecast.h memcached/store/tuning.c memcached/store/tuning.h

unit_tests += t/unit/store_crawler
t_unit_store_crawler_SOURCES = t/unit/store_crawler.c t/unit/store_fixture.h
t_unit_store_crawler_LDADD = $(store_libs)

unit_tests += t/unit/store_forecast
t_unit_store_forecast_SOURCES = t/unit/store_forecast.c
t_unit_store_forecast_LDADD = $(store_libs)

unit_tests += t/unit/store_event
t_unit_store_event_SOURCES = t/unit/store_event.c t/unit/store_fixture.h
t_unit_store_event_LDADD = $(store_libs)

unit_tests += t/unit/store_large
t_unit_store_large_SOURCES = t/unit/store_large.c t/unit/store_fixture.h
t_unit_store_large_LDADD = $(store_libs)

unit_tests += t/unit/store_list
t_unit_store_list_SOURCES = t/unit/store_list.c t/unit/store_fixture.h
t_unit_store_list_LDADD = $(store_libs)

unit_tests += t/unit/store_lock
t_unit_store_lock_SOURCES = t/unit/store_lock.c
t_unit_store_lock_LDADD = $(store_libs)

unit_tests += t/unit/store_ghost
t_unit_store_ghost_SOURCES = t/unit/store_ghost.c t/unit/store_fixture.h
t_unit_store_ghost_LDADD = $(store_libs)

unit_tests += t/unit/store_lru
t_unit_store_lru_SOURCES = t/unit/store_lru.c t/unit/store_fixture.h
t_unit_store_lru_LDADD = $(store_libs)

unit_tests += t/unit/store_reader
t_unit_store_reader_SOURCES = t/unit/store_reader.c t/unit/store_fixture.h
t_unit_store_reader_LDADD = $(store_libs)

unit_tests += t/unit/store_slab
t_unit_store_slab_SOURCES = t/unit/store_slab.c t/unit/store_fixture.h
t_unit_store_slab_LDADD = $(store_libs)

unit_tests += t/unit/store_steps
t_unit_store_steps_SOURCES = t/unit/store_steps.c t/unit/steps.h t/unit/store_fixture.h
t_unit_store_steps_LDADD = $(store_libs)

if ENABLE_EXTSTORE
unit_tests += t/unit/store_flash_write
endif
t_unit_store_flash_write_SOURCES = t/unit/store_flash_write.c t/unit/store_fixture.h
t_unit_store_flash_write_LDADD = $(store_libs)

unit_tests += t/unit/store_stress
t_unit_store_stress_SOURCES = t/unit/store_stress.c t/unit/store_fixture.h
t_unit_store_stress_LDADD = $(store_libs)

unit_tests += t/unit/store_table
t_unit_store_table_SOURCES = t/unit/store_table.c t/unit/store_fixture.h
t_unit_store_table_LDADD = $(store_libs)

unit_tests += t/unit/store_verbs
t_unit_store_verbs_SOURCES = t/unit/store_verbs.c t/unit/store_fixture.h
t_unit_store_verbs_LDADD = $(store_libs)

unit_tests += t/unit/store_sums
t_unit_store_sums_SOURCES = t/unit/store_sums.c t/lib/sum.h
t_unit_store_sums_LDADD = $(store_libs)

unit_tests += t/unit/store_sizes
t_unit_store_sizes_SOURCES = t/unit/store_sizes.c
t_unit_store_sizes_LDADD = $(store_libs)

unit_tests += t/unit/store_failures
t_unit_store_failures_SOURCES = t/unit/store_failures.c t/unit/store_fixture.h
t_unit_store_failures_LDADD = $(store_libs)

unit_tests += t/unit/store_meta
t_unit_store_meta_SOURCES = t/unit/store_meta.c t/unit/store_fixture.h
t_unit_store_meta_LDADD = $(store_libs)

unit_tests += t/unit/store_mover
t_unit_store_mover_SOURCES = t/unit/store_mover.c t/unit/store_fixture.h
t_unit_store_mover_LDADD = $(store_libs)

unit_tests += t/unit/store_image
t_unit_store_image_SOURCES = t/unit/store_image.c t/unit/store_fixture.h
t_unit_store_image_LDADD = $(store_libs)

unit_tests += t/fuzz/restart
t_fuzz_restart_SOURCES = t/fuzz/restart.c t/fuzz/replay.c t/unit/store_fixture.h
t_fuzz_restart_LDADD = $(store_libs)

fuzz-restart:
	$(FUZZ_CC) -fno-sanitize=bounds $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin \
	    $(srcdir)/t/fuzz/restart.c \
	    $(addprefix $(srcdir)/,$(filter %.c,$(store_srcs) $(base_srcs))) -lpthread
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=400 -len_control=0 \
	    $@.corpus $(srcdir)/t/fuzz/corpus/restart
.PHONY: fuzz-restart

unit_tests += t/unit/store_prefault
t_unit_store_prefault_SOURCES = t/unit/store_prefault.c t/unit/store_fixture.h
t_unit_store_prefault_LDADD = $(store_libs)
