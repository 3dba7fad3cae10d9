/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces tls.c in a build without TLS, whose options refuse -Z. */
#include <errno.h>
#include <stdio.h>

#include "net/tls.h"

struct tls *tls_new(const struct tls_config *config, const struct clock *clock, char *error,
                    size_t nerror)
{
    (void)config;
    (void)clock;
    snprintf(error, nerror, "this server is built without TLS");
    return NULL;
}

void tls_free(struct tls *tls)
{
    (void)tls;
}

bool tls_refresh(struct tls *tls, char *error, size_t nerror)
{
    (void)tls;
    snprintf(error, nerror, "this server is built without TLS");
    return false;
}

struct tls_local *tls_local_new(struct tls *tls)
{
    (void)tls;
    return NULL;
}

void tls_local_free(struct tls_local *local)
{
    (void)local;
}

const struct tls_counts *tls_local_counts(const struct tls_local *local)
{
    static const struct tls_counts none;

    (void)local;
    return &none;
}

void tls_stats(struct tls *tls, rel_time *loaded, uint64_t *refreshes, uint64_t *refresh_errors)
{
    (void)tls;
    *loaded = 0;
    *refreshes = *refresh_errors = 0;
}

struct tls_session *tls_open(struct tls_local *local, int fd)
{
    (void)local;
    (void)fd;
    return NULL;
}

void tls_close(struct tls_session *session)
{
    (void)session;
}

ssize_t tls_receive(struct tls_session *session, const struct iovec *iov, size_t niov)
{
    (void)session;
    (void)iov;
    (void)niov;
    errno = EPROTO;
    return -1;
}

bool tls_drained(const struct tls_session *session)
{
    (void)session;
    return true;
}

bool tls_waits_to_write(const struct tls_session *session)
{
    (void)session;
    return false;
}

ssize_t tls_send(struct tls_session *session, const struct iovec *iov, size_t niov)
{
    (void)session;
    (void)iov;
    (void)niov;
    errno = EPROTO;
    return -1;
}
