# SPDX-License-Identifier: BSD-3-Clause
# bpfside_srcs: the loader, in user space. Kernel side files go to EXTRA_DIST.
bpfside_srcs = bpf/layout.h
if ENABLE_BMC
# bpfside_srcs += bpf/loader.c bpf/loader.h
# bpf_objects += bpf/NAME.bpf.o
endif
EXTRA_bpf =
# EXTRA_DIST of kernel side files: EXTRA_bpf = bpf/NAME.bpf.c bpf/NAME.bpf.h
