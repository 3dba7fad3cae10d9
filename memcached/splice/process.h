/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process: the undo process. For each thread of the server that may ask it has a channel and a
 * thread, so that none waits for another's swap. It trusts none of them: it swaps, or resets, the
 * socket of a connection to the server's port only, and one whose entry names this socket.
 *
 * It has three capabilities, few descriptors, nothing of the store, and no memory beyond that of
 * the swaps that run.
 */
#ifndef SPLICE_PROCESS_H
#define SPLICE_PROCESS_H

struct credentials_user;
struct undo_kernel;

struct process {
    const struct undo_kernel *kernel;
    const struct credentials_user *user;
    const int *channels;
    unsigned int nchannels;
};

/*
 * In the child: says over the first channel how its trial went, then serves until the server closes
 * them all.
 */
void process_run(const struct process *process) __attribute__((noreturn));

#endif
