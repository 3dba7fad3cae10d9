# SPDX-License-Identifier: BSD-3-Clause
# noinst_PROGRAMS += bench/udpload
# bench_udpload_SOURCES = bench/udpload.c
EXTRA_bench =
# Files that are not compiled sources: EXTRA_bench = bench/run
