/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tls: TLS over an accepted socket. tls.c is the only user of OpenSSL; tls_none.c replaces it in a
 * build without TLS.
 *
 * A session is read and written like its socket: bytes, 0 at the end, -1 with errno, where EAGAIN
 * also means that TLS itself still has to read or write. The handshake is part of the first read. A
 * session belongs to its worker; all workers share the certificates (struct tls), and a session
 * keeps those it was created with.
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

/* The state that a worker's sessions share. */
struct tls_local;
/* NULL: no memory. */
struct tls_local *tls_local_new(struct tls *tls);
/* NULL is legal. */
void tls_local_free(struct tls_local *local);
const struct tls_counts *tls_local_counts(const struct tls_local *local);

/* When the certificates were last read, and how often a refresh was requested. From any thread. */
void tls_stats(struct tls *tls, rel_time *loaded, uint64_t *refreshes, uint64_t *refresh_errors);

/* The socket must be non-blocking. NULL: no memory. */
struct tls_session *tls_open(struct tls_local *local, int fd);
/* Sends close_notify if that does not block; the socket stays open. NULL is legal. */
void tls_close(struct tls_session *session);
ssize_t tls_receive(struct tls_session *session, const struct iovec *iov, size_t niov);
/* Whether the last tls_receive took everything: more comes only after the socket is readable. */
bool tls_drained(const struct tls_session *session);
/* Whether tls_receive, which returned EAGAIN, waits for the socket to be writable, not readable. */
bool tls_waits_to_write(const struct tls_session *session);
/* After EAGAIN the next call must offer the same bytes again, or these and more. */
ssize_t tls_send(struct tls_session *session, const struct iovec *iov, size_t niov);

#endif
