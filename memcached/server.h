/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server: builds everything out of the options, in order, and takes it apart in reverse: memory
 * (the kernel path's or ordinary), store, commands, sockets, the kernel path attached, privileges
 * dropped, threads.
 */
#ifndef SERVER_H
#define SERVER_H

struct options;

/* Serves until a signal or the command `shutdown`. Returns the exit status. */
int server_run(const struct options *options);

#endif
