# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included, and the layer's unit tests (see the top Makefile.am).
net_srcs = \
    memcached/net/accept.c memcached/net/accept.h \
    memcached/net/boundary.c memcached/net/boundary.h \
    memcached/net/conn.c memcached/net/conn.h \
    memcached/net/datagrams.c memcached/net/datagrams.h \
    memcached/net/endpoint.c memcached/net/endpoint.h \
    memcached/net/frame.c memcached/net/frame.h \
    memcached/net/input.c memcached/net/input.h \
    memcached/net/leaving.c memcached/net/leaving.h \
    memcached/net/listen.c memcached/net/listen.h \
    memcached/net/net.c memcached/net/net.h \
    memcached/net/stream_source.c memcached/net/stream_source.h \
    memcached/net/socket.c memcached/net/socket.h \
    memcached/net/tls.h \
    memcached/net/traffic.c memcached/net/traffic.h \
    memcached/net/watch_emit.c memcached/net/watch_emit.h \
    memcached/net/turn.h \
    memcached/net/udp.c memcached/net/udp.h memcached/net/udp_internal.h \
    memcached/net/udp_ring.c \
    memcached/net/wire.h \
    memcached/net/worker.c memcached/net/worker.h
if ENABLE_TLS
net_srcs += memcached/net/tls.c
else
net_srcs += memcached/net/tls_none.c
endif

unit_tests += t/unit/net_socket
t_unit_net_socket_SOURCES = t/unit/net_socket.c
t_unit_net_socket_LDADD = $(net_libs)
unit_tests += t/unit/net_boundary
t_unit_net_boundary_SOURCES = t/unit/net_boundary.c t/lib/tap.h
t_unit_net_boundary_LDADD = $(net_libs)
unit_tests += t/unit/net_weigh
t_unit_net_weigh_SOURCES = t/unit/net_weigh.c t/lib/tap.h
t_unit_net_weigh_LDADD = $(net_libs)
unit_tests += t/unit/net_boundaries
t_unit_net_boundaries_SOURCES = t/unit/net_boundaries.c t/unit/net_host.h t/lib/tap.h
t_unit_net_boundaries_LDADD = $(net_libs)
unit_tests += t/unit/net_input
t_unit_net_input_SOURCES = t/unit/net_input.c t/lib/tap.h
t_unit_net_input_LDADD = $(net_libs)
unit_tests += t/unit/net_accept
t_unit_net_accept_SOURCES = t/unit/net_accept.c t/lib/tap.h
t_unit_net_accept_LDADD = $(net_libs)
unit_tests += t/unit/net_datagrams
t_unit_net_datagrams_SOURCES = t/unit/net_datagrams.c t/lib/tap.h
t_unit_net_datagrams_LDADD = $(net_libs)
unit_tests += t/unit/net_worker
t_unit_net_worker_SOURCES = t/unit/net_worker.c t/lib/tap.h
t_unit_net_worker_LDADD = $(net_libs)
unit_tests += t/unit/net_turns
t_unit_net_turns_SOURCES = t/unit/net_turns.c t/unit/net_host.h t/lib/tap.h
t_unit_net_turns_LDADD = $(net_libs)
unit_tests += t/unit/net_frame
t_unit_net_frame_SOURCES = t/unit/net_frame.c t/lib/tap.h
t_unit_net_frame_LDADD = $(net_libs)
unit_tests += t/unit/net_udp
t_unit_net_udp_SOURCES = t/unit/net_udp.c t/unit/net_host.h t/lib/tap.h
t_unit_net_udp_LDADD = $(net_libs)
if ENABLE_TLS
unit_tests += t/unit/net_tls
t_unit_net_tls_SOURCES = t/unit/net_tls.c t/lib/tap.h
t_unit_net_tls_LDADD = $(net_libs)
endif
