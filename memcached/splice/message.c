/* SPDX-License-Identifier: BSD-3-Clause */
#include "splice/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/passfd.h"

int message_send(int channel, const void *bytes, size_t n, int fd)
{
    return passfd_send(channel, bytes, n, fd, MSG_DONTWAIT);
}

/* The room for control messages ends behind one descriptor, so that Linux drops all others. */
int message_receive(int channel, void *bytes, size_t n, int *fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {bytes, n};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_LEN(sizeof(int))};
    const struct cmsghdr *header;
    ssize_t got;

    *fd = -1;
    do
        got = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(header), sizeof(*fd));
    if ((size_t)got == n && !(message.msg_flags & MSG_TRUNC))
        return 0;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return got ? -EBADMSG : -EPIPE;
}
