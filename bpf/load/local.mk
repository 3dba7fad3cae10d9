# SPDX-License-Identifier: BSD-3-Clause
# load_srcs: loads the kernel objects, in user space; without the kernel path only what is shared.
load_srcs = bpf/shared/layout.h bpf/shared/chain.h bpf/shared/tcp.h bpf/shared/ring.h
if ENABLE_BMC
load_srcs += bpf/load/load.c bpf/load/load.h bpf/load/object.c bpf/load/object.h
load_srcs += bpf/load/parallel.c bpf/load/parallel.h bpf/load/refusal.c bpf/load/refusal.h
load_srcs += bpf/load/memory.c bpf/load/memory.h bpf/load/guard.c bpf/load/guard.h
load_srcs += bpf/load/entry.c bpf/load/entry.h
load_srcs += bpf/load/counters.c bpf/load/running.c bpf/load/tcp.c bpf/load/tcp.h
endif
