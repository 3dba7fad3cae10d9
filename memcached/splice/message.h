/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message: what the server's threads and the undo process tell one another, over sockets of
 * SOCK_SEQPACKET: a request with the socket of a connection, and its reply, to an undo with
 * another; or one for the guard, whose link comes with the reply.
 */
#ifndef SPLICE_MESSAGE_H
#define SPLICE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/shared/tcp.h"

enum message_what { MESSAGE_UNDO, MESSAGE_RESET, MESSAGE_ANNOUNCE, MESSAGE_GUARD };

struct message_request {
    uint32_t what; /* enum message_what */
    struct mc_tcp_tag tag;
};

struct message_reply {
    uint32_t result;      /* enum undo_result */
    uint32_t step, nsent; /* of struct swapped */
    int32_t error;
};

/* Sends n bytes with a descriptor, or with none if that is -1. 0 or -errno; does not block. */
int message_send(int channel, const void *bytes, size_t n, int fd);
/*
 * Waits for a message of n bytes. *fd: the descriptor that came with it, or -1. 0, -EPIPE at the
 * end, -EBADMSG if it is not such a message, or -errno.
 */
int message_receive(int channel, void *bytes, size_t n, int *fd);

#endif
