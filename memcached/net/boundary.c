/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/boundary.h"

#include "net/socket.h"

/*
 * Where the kernel answers, the client has sent and received more than its socket knows of. When
 * this process is gone, and the programs that translate its segments, it would wait for ever: so
 * the end of the process resets the connection.
 */
void boundary_open(struct boundary *boundary, struct boundaries *boundaries, int fd)
{
    boundary->slot = boundaries->open(boundaries, fd);
    if (boundary->slot)
        socket_set_reset(fd, true);
}

void boundary_close(struct boundary *boundary, struct boundaries *boundaries, int fd)
{
    if (!boundary->slot)
        return;
    socket_set_reset(fd, false);
    boundaries->close(boundaries, boundary->slot);
    boundary->slot = NULL;
}

/* Whether segments of the connection may take such a way. */
static bool is_doubtful(const struct boundary *boundary)
{
    return boundary->slot && (__atomic_load_n(&boundary->slot->lost, __ATOMIC_RELAXED) |
                              __atomic_load_n(&boundary->slot->ack_due, __ATOMIC_RELAXED));
}

bool boundary_is_lost(const struct boundary *boundary, struct boundaries *boundaries, int fd)
{
    return is_doubtful(boundary) && boundaries->is_lost(boundaries, boundary->slot, fd);
}

/*
 * The programs see the connection's segments no more, so its end would not be seen by the client
 * either, with the socket's numbers.
 */
void boundary_abandon(struct boundary *boundary, struct boundaries *boundaries, int fd)
{
    struct boundaries_numbers numbers;

    boundaries->count_lost(boundaries);
    if (boundaries->forget(boundaries, fd, &numbers))
        socket_reset_as(fd, numbers.seq, sizeof(numbers.seq) / sizeof(numbers.seq[0]), numbers.ack);
    boundaries->close(boundaries, boundary->slot);
    boundary->slot = NULL;
}
