# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
net_srcs =

# unit_tests += t/unit/NAME
# t_unit_NAME_SOURCES = t/unit/NAME.c
# t_unit_NAME_LDADD = $(net_libs)
