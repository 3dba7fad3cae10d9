# SPDX-License-Identifier: BSD-3-Clause
splice_srcs =
if ENABLE_BMC
splice_srcs += memcached/splice/swap.c memcached/splice/swap.h

unit_tests += t/unit/splice_swap
endif
t_unit_splice_swap_SOURCES = t/unit/splice_swap.c t/lib/tap.h
t_unit_splice_swap_LDADD = $(splice_libs)
