# SPDX-License-Identifier: BSD-3-Clause
splice_srcs =
if ENABLE_BMC
splice_srcs += memcached/splice/swap.c memcached/splice/swap.h
splice_srcs += memcached/splice/repair.h
splice_srcs += memcached/splice/conntrack.c memcached/splice/conntrack.h
splice_srcs += memcached/splice/reset.c memcached/splice/reset.h
splice_srcs += memcached/splice/trial.c memcached/splice/trial.h
splice_srcs += memcached/splice/message.c memcached/splice/message.h
splice_srcs += memcached/splice/process.c memcached/splice/process.h
splice_srcs += memcached/splice/undo.c memcached/splice/undo.h

unit_tests += t/unit/splice_swap t/unit/splice_undo
endif
splice_pair = t/unit/splice_pair.c t/unit/splice_pair.h t/lib/tap.h
t_unit_splice_swap_SOURCES = t/unit/splice_swap.c $(splice_pair)
t_unit_splice_swap_LDADD = $(splice_libs)
t_unit_splice_undo_SOURCES = t/unit/splice_undo.c $(splice_pair)
t_unit_splice_undo_LDADD = $(splice_libs)
