# SPDX-License-Identifier: BSD-3-Clause
# Sources, headers included. The layer's unit tests are in proto's fragment.
base_srcs = memcached/base/provider.h memcached/base/slice.h
base_srcs += memcached/base/boundaries.h
base_srcs += memcached/base/anonymous.c memcached/base/anonymous.h
base_srcs += memcached/base/base64.c memcached/base/base64.h
base_srcs += memcached/base/clock.c memcached/base/clock.h
base_srcs += memcached/base/countdown.h
base_srcs += memcached/base/limited.c memcached/base/limited.h
base_srcs += memcached/base/kept.c memcached/base/kept.h
base_srcs += memcached/base/log.c memcached/base/log.h
base_srcs += memcached/base/notify.c memcached/base/notify.h
base_srcs += memcached/base/passfd.c memcached/base/passfd.h
base_srcs += memcached/base/path.c memcached/base/path.h
base_srcs += memcached/base/memfile.c memcached/base/memfile.h
base_srcs += memcached/base/num.c memcached/base/num.h
base_srcs += memcached/base/credentials.c memcached/base/credentials.h
base_srcs += memcached/base/cgroup.c memcached/base/cgroup.h
base_srcs += memcached/base/runfolder.c memcached/base/runfolder.h
base_srcs += memcached/base/stream.c memcached/base/stream.h
base_srcs += memcached/base/thread.c memcached/base/thread.h
base_srcs += memcached/base/sum.h
base_srcs += memcached/base/xsk.c memcached/base/xsk.h
