/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tls: TLS over an accepted socket, through OpenSSL, which only tls.c knows; tls_none.c stands in
 * its place when the server is built without.
 *
 * A session is read and written like its socket: bytes, 0 at the end, -1 with errno, where EAGAIN
 * stands for whatever TLS itself still has to read or write. The handshake is part of the first
 * read. A session belongs to its worker; the certificates (struct tls) are everybody's, and a
 * session keeps those it began with.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "net/net.h"

struct tls_session;

/* Written by the worker only; others read them without order. */
struct tls_counts {
    uint64_t handshakes, resumed, handshake_errors, protocol_errors;
};

/* What a worker's sessions share. */
struct tls_local;
/* NULL: no memory. */
struct tls_local *tls_local_new(struct tls *tls);
/* NULL is legal. */
void tls_local_free(struct tls_local *local);
const struct tls_counts *tls_local_counts(const struct tls_local *local);

/* When the certificates were last read, and how often that was asked for. From any thread. */
void tls_stats(struct tls *tls, rel_time *loaded, uint64_t *refreshes, uint64_t *refresh_errors);

/* Over a socket that does not block. NULL: no memory. */
struct tls_session *tls_open(struct tls_local *local, int fd);
/* Says goodbye if that does not block; the socket stays open. NULL is legal. */
void tls_close(struct tls_session *session);
ssize_t tls_receive(struct tls_session *session, const struct iovec *iov, size_t niov);
/* The last tls_receive has left nothing: more comes only when the socket says so. */
bool tls_drained(const struct tls_session *session);
/* tls_receive has failed with EAGAIN and goes on when the socket can be written, not read. */
bool tls_waits_to_write(const struct tls_session *session);
/* After EAGAIN the next call must offer the same bytes again, or these and more. */
ssize_t tls_send(struct tls_session *session, const struct iovec *iov, size_t niov);

#endif
