/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn: a stream connection: read, execute, answer.
 *
 * Between events an idle connection owns no buffer: it borrows its worker's input and reply while
 * it is served, and keeps only what is left over. While a reply cannot be sent nothing more is
 * read, nor while values of a reply are read from flash.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "net/worker.h"

/* Serves the socket, or closes it for want of memory. */
void conn_open(struct worker *worker, struct stream_socket socket);
void conn_close(struct conn *conn);
/* Goes on with connections whose values have been read, in a list that conn.c made. */
void conn_ready(struct conn *list);
/* Closes those that have sent no command for idle_timeout. */
void conn_close_idle(struct worker *worker, rel_time now);

#endif
