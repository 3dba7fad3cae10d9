# SPDX-License-Identifier: BSD-3-Clause
# iface_srcs: without the kernel path what the server may ask of it, iface.h.
iface_srcs = memcached/iface/iface.h
if ENABLE_BMC
iface_srcs += memcached/iface/arp.c memcached/iface/arp.h
iface_srcs += memcached/iface/attach.c memcached/iface/attach.h
iface_srcs += memcached/iface/diagnosis.c memcached/iface/diagnosis.h
iface_srcs += memcached/iface/driver.c memcached/iface/driver.h
iface_srcs += memcached/iface/hostnet.c memcached/iface/hostnet.h
iface_srcs += memcached/iface/link.c memcached/iface/link.h
iface_srcs += memcached/iface/local.c memcached/iface/local.h
iface_srcs += memcached/iface/losses.c memcached/iface/losses.h
iface_srcs += memcached/iface/monitor.c memcached/iface/monitor.h
iface_srcs += memcached/iface/order.c memcached/iface/order.h
iface_srcs += memcached/iface/rings.c memcached/iface/rings.h
iface_srcs += memcached/iface/rtnetlink.c memcached/iface/rtnetlink.h
iface_srcs += memcached/iface/sending.c memcached/iface/sending.h

unit_tests += t/unit/iface_hostnet t/unit/iface_losses t/unit/iface_sending t/fuzz/netlink
endif
t_unit_iface_hostnet_SOURCES = t/unit/iface_hostnet.c t/lib/tap.h
t_unit_iface_hostnet_LDADD = $(iface_libs)
t_unit_iface_losses_SOURCES = t/unit/iface_losses.c t/lib/tap.h
t_unit_iface_losses_LDADD = $(iface_libs)
t_unit_iface_sending_SOURCES = t/unit/iface_sending.c t/lib/tap.h
t_unit_iface_sending_LDADD = $(iface_libs)
t_fuzz_netlink_SOURCES = t/fuzz/netlink.c t/fuzz/replay.c
t_fuzz_netlink_LDADD = $(iface_libs)

# What rtnetlink may say; see memcached/proto/local.mk for the fuzz targets.
fuzz-netlink:
	$(FUZZ_CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -o $@.bin $(srcdir)/t/fuzz/netlink.c \
	    $(srcdir)/memcached/iface/hostnet.c
	$(MKDIR_P) $@.corpus
	./$@.bin -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 \
	    $@.corpus $(srcdir)/t/fuzz/corpus/netlink
.PHONY: fuzz-netlink
