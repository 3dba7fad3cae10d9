/* SPDX-License-Identifier: BSD-3-Clause */
/* wire: reads and writes a connection's bytes, through TLS where its listener has it. */
#ifndef NET_WIRE_H
#define NET_WIRE_H

#include <sys/socket.h>

#include "net/tls.h"

static inline bool wire_is_tls(const struct tls_session *tls)
{
    return __builtin_expect(tls != NULL, 0);
}

/*
 * Reads like readv, into pieces of `room` bytes together; drained: more comes only after the socket
 * is readable. tls is NULL for a plain connection.
 */
static inline ssize_t wire_receive(int fd, struct tls_session *tls, const struct iovec *iov,
                                   size_t niov, size_t room, bool *drained)
{
    ssize_t n;

    if (wire_is_tls(tls)) {
        n = tls_receive(tls, iov, niov);
        *drained = tls_drained(tls);
        return n;
    }
    n = niov == 1 ? recv(fd, iov->iov_base, iov->iov_len, 0) : readv(fd, iov, (int)niov);
    *drained = n < (ssize_t)room;
    return n;
}

/* Writes like writev, but without SIGPIPE; after EAGAIN like tls_send. */
static inline ssize_t wire_send(int fd, struct tls_session *tls, struct iovec *iov, size_t niov)
{
    if (wire_is_tls(tls))
        return tls_send(tls, iov, niov);
    if (niov == 1)
        return send(fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL);
    return sendmsg(fd, &(struct msghdr){.msg_iov = iov, .msg_iovlen = niov}, MSG_NOSIGNAL);
}

#endif
