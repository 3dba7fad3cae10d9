/* SPDX-License-Identifier: BSD-3-Clause */
#include "splice/reset.h"

#include <errno.h>
#include <sys/socket.h>

#include "splice/repair.h"

static int connect_to(int fd, const struct sockaddr_storage *peer)
{
    return connect(fd, (const struct sockaddr *)peer, sizeof(*peer)) ? -errno : 0;
}

/*
 * The socket, which is not connected, gets a connection with these numbers without a segment to the
 * peer, and resets it.
 */
static int reset_once(int fd, const struct sockaddr_storage *peer, uint32_t seq, uint32_t ack)
{
    const struct sockaddr_storage none = {.ss_family = AF_UNSPEC};
    int rc = set_tcp(fd, TCP_REPAIR, TCP_REPAIR_ON);

    if (rc)
        return rc;
    rc = set_queue(fd, TCP_SEND_QUEUE, seq);
    rc = rc ? rc : set_queue(fd, TCP_RECV_QUEUE, ack);
    rc = rc ? rc : connect_to(fd, peer);
    set_tcp(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
    return rc ? rc : connect_to(fd, &none);
}

/*
 * Ends the socket's connection without a segment. Only a socket that is repaired gets an address
 * where others listen, and sends no reset with its own numbers when it is disconnected.
 */
static int disconnect(int fd, const struct sockaddr_storage *own, socklen_t nown)
{
    const struct sockaddr_storage none = {.ss_family = AF_UNSPEC};
    int rc = set_tcp(fd, TCP_REPAIR, TCP_REPAIR_ON);

    rc = rc ? rc : connect_to(fd, &none);
    if (!rc && bind(fd, (const struct sockaddr *)own, nown))
        rc = -errno;
    return rc ? rc : set_tcp(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
}

int reset_as(int socket, const struct entry_numbers *numbers)
{
    const struct linger at_once = {.l_onoff = 1};
    struct sockaddr_storage own, peer;
    socklen_t nown = sizeof(own), npeer = sizeof(peer);
    size_t i;
    int rc = 0;

    if (getsockname(socket, (struct sockaddr *)&own, &nown) ||
        getpeername(socket, (struct sockaddr *)&peer, &npeer) ||
        setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)))
        return -errno;
    rc = disconnect(socket, &own, nown);
    for (i = 0; !rc && i < sizeof(numbers->seq) / sizeof(numbers->seq[0]); i++)
        rc = reset_once(socket, &peer, numbers->seq[i], numbers->ack);
    return rc;
}
