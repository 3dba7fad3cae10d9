# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
proto_srcs = memcached/proto/proto.h memcached/proto/text.c memcached/proto/frame.c \
    memcached/proto/middle.c memcached/proto/reply.c

unit_tests += t/unit/base_num t/unit/proto_text t/unit/proto_reply t/unit/proto_frame
t_unit_base_num_SOURCES = t/unit/base_num.c
t_unit_base_num_LDADD = $(base_libs)
t_unit_proto_text_SOURCES = t/unit/proto_text.c t/unit/proto_text.inc
t_unit_proto_text_LDADD = $(proto_libs)
t_unit_proto_reply_SOURCES = t/unit/proto_reply.c
t_unit_proto_reply_LDADD = $(proto_libs)
t_unit_proto_frame_SOURCES = t/unit/proto_frame.c
t_unit_proto_frame_LDADD = $(proto_libs)
