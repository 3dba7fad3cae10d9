/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server: sets everything up as the options say, in order, and tears it down in reverse: memory
 * (the kernel path's or ordinary), store, commands, sockets, attaching the kernel path, dropping
 * privileges, threads.
 */
#ifndef SERVER_H
#define SERVER_H

struct options;

/* Serves until a signal or the command `shutdown` stops it. Returns the exit status. */
int server_run(const struct options *options);

#endif
