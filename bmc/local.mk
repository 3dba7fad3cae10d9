# SPDX-License-Identifier: BSD-3-Clause
# bmc: runs the chain in front of any other memcached; traces the kernel programs of all.
if ENABLE_BMC
bin_PROGRAMS += bmc/bmc
man_MANS = doc/bmc.1
endif
bmc_bmc_SOURCES = bmc/main.c bmc/options.c bmc/options.h bmc/run.c bmc/run.h \
    bmc/sockets.c bmc/sockets.h bmc/stats.c bmc/stats.h bmc/trace.c bmc/trace.h \
    bpf/trace/event.h bpf/trace/find.c bpf/trace/find.h bpf/trace/tracer.c bpf/trace/tracer.h
bmc_bmc_LDADD = $(kcache_libs)
