/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * closer: closes what other processes have sent, in a thread of its own. close(2) of a descriptor
 * whose last owner this process is, or of a connection in which one waits, may last for as long as
 * the sender likes: SO_LINGER, a file of FUSE.
 */
#ifndef BPF_CLOSER_H
#define BPF_CLOSER_H

struct closer;

/* NULL: there is no pipe left. */
struct closer *closer_new(void);
/*
 * Starts the thread, which has the credentials of the caller's: to be called when these are final.
 * Without a thread all is closed at the end.
 */
void closer_start(struct closer *closer);
/* Closes a descriptor soon. */
void closer_take(struct closer *closer, int fd);
/* How many it has not closed yet. */
unsigned int closer_pending(const struct closer *closer);
/* It ends when it has closed all, or with the process; without a thread here. NULL is legal. */
void closer_stop(struct closer *closer);

#endif
