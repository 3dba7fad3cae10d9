# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
proto_srcs = memcached/proto/proto.h memcached/proto/text.c memcached/proto/frame.c \
    memcached/proto/middle.c memcached/proto/reply.c
