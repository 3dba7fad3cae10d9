# SPDX-License-Identifier: BSD-3-Clause
# kcache_srcs: with the kernel path its files, without it the stub none.c.
kcache_srcs = memcached/kcache/kcache.h
if ENABLE_BMC
kcache_srcs += memcached/kcache/kcache.c
else
kcache_srcs += memcached/kcache/none.c
endif

# if ENABLE_BMC
# bpf_tests += t/bpf/NAME
# t_bpf_NAME_SOURCES = t/bpf/NAME.c
# t_bpf_NAME_LDADD = $(kcache_libs)
# endif
