# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
base_srcs = memcached/base/clock.h memcached/base/provider.h memcached/base/slice.h

# unit_tests += t/unit/NAME
# t_unit_NAME_SOURCES = t/unit/NAME.c
# t_unit_NAME_LDADD = $(base_libs)
base_srcs += memcached/base/num.c memcached/base/num.h
base_srcs += memcached/base/anonymous.c memcached/base/anonymous.h
