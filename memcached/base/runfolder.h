/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runfolder: a folder of /run in which processes of this program have sockets, by which they find
 * each other. Only its owner, root or this process's user, may create files there.
 */
#ifndef BASE_RUNFOLDER_H
#define BASE_RUNFOLDER_H

/*
 * Creates the folder if needed, removes the sockets of processes that have ended and the links to
 * them, and keeps other processes from doing so until the returned descriptor is closed: a socket
 * is bound before that. Waits for these for up to three seconds. -errno; -EPERM: other users may
 * create files in the folder; -ETIMEDOUT: another process keeps it.
 */
int runfolder_enter(const char *folder);

#endif
