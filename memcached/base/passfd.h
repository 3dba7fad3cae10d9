/* SPDX-License-Identifier: BSD-3-Clause */
/* passfd: a message to a unix socket, and a descriptor with it. From any thread. */
#ifndef BASE_PASSFD_H
#define BASE_PASSFD_H

#include <stddef.h>

/* Sends n bytes with a descriptor, or with none if that is -1. flags: of send(2). 0 or -errno. */
int passfd_send(int socket, const void *bytes, size_t n, int fd, int flags);

#endif
