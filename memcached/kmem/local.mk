# SPDX-License-Identifier: BSD-3-Clause
# kmem_srcs: without the kernel path what the server may ask of it, memory.h.
kmem_srcs = memcached/kmem/memory.h
if ENABLE_BMC
kmem_srcs += memcached/kmem/lease.c memcached/kmem/lease.h
kmem_srcs += memcached/kmem/memory.c
kmem_srcs += memcached/kmem/slots.c memcached/kmem/slots.h
kmem_srcs += memcached/kmem/tcp.c memcached/kmem/tcp.h

unit_tests += t/unit/kmem_slots
endif
t_unit_kmem_slots_SOURCES = t/unit/kmem_slots.c t/lib/tap.h
t_unit_kmem_slots_LDADD = $(kmem_libs)
