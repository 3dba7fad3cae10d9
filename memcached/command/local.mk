# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
command_srcs = memcached/command/command.h memcached/command/call.h memcached/command/stat.h \
    memcached/command/command.c memcached/command/retrieve.c memcached/command/storage.c \
    memcached/command/change.c memcached/command/admin.c memcached/command/stat.c \
    memcached/command/general.c memcached/command/stats.c
