# SPDX-License-Identifier: BSD-3-Clause
# The release program lists every source, because -DNDEBUG is per program in automake;
# the debug twin, with asserts, links the layers' libraries.
main_srcs =

# bin_PROGRAMS += memcached/memcached
# memcached_memcached_SOURCES = $(main_srcs) $(net_srcs) $(command_srcs) $(proto_srcs) \
#     $(store_srcs) $(kcache_srcs) $(bpfside_srcs) $(base_srcs)
# memcached_memcached_CPPFLAGS = $(AM_CPPFLAGS) -DNDEBUG
# memcached_memcached_LDADD = $(LIBEVENT_LIBS) $(LIBBPF_LIBS)

# noinst_PROGRAMS += memcached-debug
# memcached_debug_SOURCES = $(main_srcs)
# memcached_debug_LDADD = $(all_libs)
