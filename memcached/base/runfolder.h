/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runfolder: a folder of /run in which processes of this program have sockets, by which they find
 * each other. Only its owner, root or this process's user, may create files there.
 */
#ifndef BASE_RUNFOLDER_H
#define BASE_RUNFOLDER_H

/*
 * Creates the folder if needed, removes the sockets of processes that have ended, and keeps other
 * processes from doing so until the returned descriptor is closed: a socket is bound and listens
 * before that. -errno; -EPERM: other users may create files in the folder.
 */
int runfolder_enter(const char *folder);

#endif
