/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/runfolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { TRY_MS = 10, TRIES = 300 /* three seconds */ };

/* Opens the folder, and creates it if needed. -EPERM: other users may create files in it. */
static int open_folder(const char *folder)
{
    bool made = mkdir(folder, 0755) == 0;
    struct stat is;
    int fd;

    if (!made && errno != EEXIST)
        return -errno;
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (made)
        fchmod(fd, 0755); /* whatever the umask */
    if (fstat(fd, &is) == 0 && (is.st_uid == geteuid() || is.st_uid == 0) && !(is.st_mode & 022))
        return fd;
    close(fd);
    return -EPERM;
}

/*
 * Takes the lock, a file that only its owner may open. -ETIMEDOUT: a process that is stopped or
 * stuck has it.
 */
static int lock_folder(int folder)
{
    const struct timespec pause = {0, TRY_MS * 1000000};
    int fd = openat(folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600), rc, i;

    if (fd < 0)
        return -errno;
    for (i = 0; (rc = flock(fd, LOCK_EX | LOCK_NB)) && errno == EWOULDBLOCK && i < TRIES; i++)
        nanosleep(&pause, NULL);
    if (!rc)
        return fd;
    rc = errno == EWOULDBLOCK ? -ETIMEDOUT : -errno;
    close(fd);
    return rc;
}

/*
 * Removes a socket file that no process has open. The type differs from that of the sockets, so a
 * process that has one gets no connection.
 */
static void remove_dead(const struct sockaddr_un *name)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)name, sizeof(*name)) &&
                errno == ECONNREFUSED;

    if (fd >= 0)
        close(fd);
    if (dead)
        unlink(name->sun_path);
}

/* Removes the sockets of processes that have ended, or else symbolic links that lead nowhere. */
static void sweep(const char *path, unsigned char type)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    DIR *folder = opendir(path);
    const struct dirent *each;

    while (folder && (each = readdir(folder)) != NULL) {
        if (each->d_type != type || (size_t)snprintf(name.sun_path, sizeof(name.sun_path), "%s/%s",
                                                     path, each->d_name) >= sizeof(name.sun_path))
            continue;
        if (type == DT_SOCK)
            remove_dead(&name);
        else if (access(name.sun_path, F_OK) && errno == ENOENT)
            unlink(name.sun_path);
    }
    if (folder)
        closedir(folder);
}

int runfolder_enter(const char *path)
{
    int folder = open_folder(path), lock;

    if (folder < 0)
        return folder;
    lock = lock_folder(folder);
    close(folder);
    if (lock >= 0) {
        sweep(path, DT_SOCK);
        sweep(path, DT_LNK); /* to these sockets */
    }
    return lock;
}
