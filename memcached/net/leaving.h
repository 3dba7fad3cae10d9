/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leaving: sockets of connections on which the kernel has answered and which the server has ended,
 * until their clients have acknowledged the end. The programs translate it; if it takes a path
 * without them its client does not take it, nor any copy that the kernel sends later, and would
 * wait for ever. Then the connection is undone, or, where that cannot be, reset; so it is when the
 * client has been silent for ten seconds.
 *
 * They count as open sockets, so that there are no more of them than -c allows.
 */
#ifndef NET_LEAVING_H
#define NET_LEAVING_H

struct mc_tcp_slot;
struct worker;

/* Ends the connection of a socket, and takes both over; they are closed some time later. */
void leaving_begin(struct worker *worker, int fd, struct mc_tcp_slot *slot);
/*
 * The process ends, and with it the translation: undoes or resets all of the worker's, so that
 * nothing is left to translate.
 */
void leaving_end_all(struct worker *worker);

#endif
