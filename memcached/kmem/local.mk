# SPDX-License-Identifier: BSD-3-Clause
# kmem_srcs: without the kernel path what its options need.
kmem_srcs = memcached/kmem/prefix.c memcached/kmem/prefix.h
if ENABLE_BMC
kmem_srcs += memcached/kmem/allow.c memcached/kmem/allow.h
kmem_srcs += memcached/kmem/lease.c memcached/kmem/lease.h
kmem_srcs += memcached/kmem/listeners.c memcached/kmem/listeners.h
kmem_srcs += memcached/kmem/memory.c memcached/kmem/memory.h
kmem_srcs += memcached/kmem/slots.c memcached/kmem/slots.h
kmem_srcs += memcached/kmem/tcp.c memcached/kmem/tcp.h

unit_tests += t/unit/kmem_slots
endif
t_unit_kmem_slots_SOURCES = t/unit/kmem_slots.c t/lib/tap.h
t_unit_kmem_slots_LDADD = $(kmem_libs)
unit_tests += t/unit/kmem_prefix
t_unit_kmem_prefix_SOURCES = t/unit/kmem_prefix.c
t_unit_kmem_prefix_LDADD = $(kcache_libs)
