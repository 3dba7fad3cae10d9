# SPDX-License-Identifier: BSD-3-Clause
# flash_srcs: with flash storage its files, without it the stub none.c.
flash_srcs = memcached/flash/flash.h
if ENABLE_EXTSTORE
flash_srcs += memcached/flash/compact.c memcached/flash/crc32c.c memcached/flash/crc32c.h \
    memcached/flash/crc32c_x86.c memcached/flash/flash.c memcached/flash/internal.h \
    memcached/flash/pages.c memcached/flash/read.c memcached/flash/write.c
else
flash_srcs += memcached/flash/none.c
endif

if ENABLE_EXTSTORE
unit_tests += t/unit/flash
endif
t_unit_flash_SOURCES = t/unit/flash.c t/lib/tap.h
t_unit_flash_LDADD = $(flash_libs)
