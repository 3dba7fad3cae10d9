# SPDX-License-Identifier: BSD-3-Clause
bench_common = bench/options.c bench/options.h bench/items.c bench/items.h bench/pick.c \
    bench/pick.h bench/keys.h bench/workload.c bench/workload.h

bench_workers = bench/workers.c bench/workers.h bench/hist.c bench/hist.h bench/draw.c \
    bench/draw.h bench/versions.c bench/versions.h bench/stream.c bench/stream.h

noinst_PROGRAMS += bench/udpload bench/tcpload bench/relay bench/inject bench/simulate
bench_simulate_SOURCES = bench/simulate.c bench/options.c bench/options.h bench/pick.c \
    bench/pick.h bench/keys.h
bench_simulate_LDADD = -lm
bench_udpload_SOURCES = bench/udpload.c bench/stores.c bench/stores.h $(bench_workers) \
    $(bench_common)
bench_udpload_LDADD = -lm
bench_tcpload_SOURCES = bench/tcpload.c $(bench_workers) $(bench_common)
bench_tcpload_LDADD = -lm
bench_relay_SOURCES = bench/relay.c bench/options.c bench/options.h
bench_inject_SOURCES = bench/inject.c bench/packet.c bench/packet.h $(bench_common)
bench_inject_LDADD = -lm

unit_tests += t/unit/bench_tools
t_unit_bench_tools_SOURCES = t/unit/bench_tools.c bench/hist.c bench/hist.h bench/versions.c \
    bench/versions.h $(bench_common)
t_unit_bench_tools_LDADD = -lm

if ENABLE_BMC
bpf_objects += bench/floor.bpf.o bench/load.bpf.o
bench_xdp = bench/xdp.c bench/xdp.h bench/load.h

noinst_PROGRAMS += bench/attach bench/live bench/perpacket
bench_attach_SOURCES = bench/attach.c bench/options.c bench/options.h $(bench_xdp)
bench_attach_LDADD = $(LIBBPF_LIBS)
bench_live_SOURCES = bench/live.c bench/packet.c bench/packet.h $(bench_common) $(bench_xdp)
bench_live_LDADD = $(LIBBPF_LIBS) -lm
bench_perpacket_SOURCES = bench/perpacket.c bench/packet.c bench/packet.h bench/verbs.c \
    bench/verbs.h $(bench_common) $(bench_xdp)
bench_perpacket_LDADD = $(LIBBPF_LIBS) -lm
noinst_PROGRAMS += bench/undo
bench_undo_SOURCES = bench/undo.c bench/hist.c bench/hist.h bench/options.c bench/options.h \
    t/unit/splice_pair.c t/unit/splice_pair.h t/lib/tap.h
bench_undo_LDADD = $(splice_libs) -lm
endif

EXTRA_bench = bench/floor.bpf.c bench/load.bpf.c bench/run bench/clients bench/tcp bench/udp \
    bench/report bench/hitrate bench/memory bench/chart.py bench/lab.py bench/beside.py \
    bench/overtcp.py bench/page.py bench/plots.py bench/progress.py bench/published.py \
    bench/saved.py bench/table.py bench/README.md bench/studies
