/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/passfd.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

int passfd_send(int socket, const void *bytes, size_t n, int fd, int flags)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct iovec part = {(void *)(uintptr_t)bytes, n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    }
    return sendmsg(socket, &message, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}
