/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn: a stream connection: read, execute, answer.
 *
 * Between events an idle connection owns no buffer: it borrows its worker's input and reply while
 * it is served, and retains only what is left over. It reads nothing while a reply cannot be sent
 * or values of a reply are being read from flash.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "net/worker.h"

/* Serves the socket, or closes it if memory is short. */
void conn_open(struct worker *worker, struct stream_socket socket);
void conn_close(struct conn *conn);
/* Resumes connections whose values have been read, in a list that conn.c made. */
void conn_ready(struct conn *list);
/*
 * To be called every second, or BOUNDARY_LOOKS times: notes on which connections the kernel has
 * answered since the last call, undoes those that are lost, or all of them when boundaries_undo_all
 * was called, and closes those that have sent no command for idle_timeout, unless that is 0.
 */
void conn_check(struct worker *worker, rel_time now);

#endif
