# SPDX-License-Identifier: BSD-3-Clause
# attach_srcs: attaches what is loaded.
attach_srcs = bpf/attach/attach.h
if ENABLE_BMC
attach_srcs += bpf/attach/links.c bpf/attach/attached.h bpf/attach/tc.c bpf/attach/tc.h
attach_srcs += bpf/attach/filters.c bpf/attach/filters.h bpf/attach/netlink.h
attach_srcs += bpf/attach/order.c bpf/attach/order.h
attach_srcs += bpf/attach/share.c bpf/attach/share.h bpf/attach/share_ports.h
attach_srcs += bpf/attach/closer.c bpf/attach/closer.h
attach_srcs += bpf/attach/prog_array.c bpf/attach/prog_array.h
bpf_objects += bpf/attach/filter.bpf.o bpf/attach/share.bpf.o
if ENABLE_LIBXDP
attach_srcs += bpf/attach/dispatcher.c bpf/attach/dispatcher.h
bpf_objects += bpf/attach/member.bpf.o
else
attach_srcs += bpf/attach/dispatcher_none.c bpf/attach/dispatcher.h
endif
endif
EXTRA_bpf += bpf/attach/prog_array.bpf.h bpf/attach/filter.bpf.c bpf/attach/member.bpf.c \
    bpf/attach/share.bpf.c
