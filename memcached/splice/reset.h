/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reset: ends a connection whose socket has other numbers than the client knows with a reset that
 * the client takes. Needs CAP_NET_ADMIN in the socket's network namespace. Any thread.
 */
#ifndef SPLICE_RESET_H
#define SPLICE_RESET_H

#include "bpf/load/entry.h"

/*
 * Sends a reset for each of the numbers. The socket has no connection then, and is the caller's to
 * close. 0 or -errno: it may still have its connection.
 */
int reset_as(int socket, const struct entry_numbers *numbers);

#endif
