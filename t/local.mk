# SPDX-License-Identifier: BSD-3-Clause
# Tests of no single layer. A layer's unit tests are listed in the layer's fragment.
EXTRA_t = t/lib t/e2e t/clients t/linear t/kernels t/run t/fetch $(wildcard $(srcdir)/t/*.t)
EXTRA_t += t/rows.md t/differences.md t/model/README.md
EXTRA_t += t/fuzz/corpus t/fuzz/text.dict t/fuzz/sasl.dict t/fuzz/options.dict

# What memcached's own test suite looks for at the top of the build tree.
noinst_PROGRAMS += timedrun sizes testapp
timedrun_SOURCES = t/tool/timedrun.c
sizes_SOURCES = t/tool/sizes.c
testapp_SOURCES = t/tool/testapp.c

# The model of gets that are answered in front of a TCP socket.
unit_tests += t/model/splice
t_model_splice_SOURCES = t/model/splice.c t/model/splice.h t/model/model.c t/model/model.h \
    t/model/kept.h t/model/explore.c t/model/explore.h

# Helpers of the end-to-end tests.
noinst_PROGRAMS += t/tool/coherence
t_tool_coherence_SOURCES = t/tool/coherence.c t/tool/verdict.h
noinst_PROGRAMS += t/tool/lives
t_tool_lives_SOURCES = t/tool/lives.c t/tool/verdict.h
noinst_PROGRAMS += t/tool/cable
t_tool_cable_SOURCES = t/tool/cable.c t/tool/verdict.h bench/options.c bench/options.h
noinst_PROGRAMS += t/tool/tcpcheck
t_tool_tcpcheck_SOURCES = t/tool/tcpcheck.c t/tool/tcpmodel.c t/tool/tcpmodel.h \
    t/tool/tcpmodel_binary.c t/tool/tcpmodel_binary.h t/tool/tcpreply.c t/tool/tcpreply.h \
    t/tool/verdict.h bench/options.c bench/options.h

# A program that stands beside ours in libxdp's dispatcher: t/kernels/run makes it.
CLEANFILES += t/kernels/other.bpf.o t/kernels/other.bpf.o.d
noinst_PROGRAMS += t/tool/parsers
t_tool_parsers_SOURCES = t/tool/parsers.c $(parsed)
