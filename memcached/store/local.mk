# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
store_srcs = memcached/store/store.h

# unit_tests += t/unit/NAME
# t_unit_NAME_SOURCES = t/unit/NAME.c
# t_unit_NAME_LDADD = $(store_libs)
