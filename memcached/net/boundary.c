/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/boundary.h"

#include <fcntl.h>
#include <unistd.h>

#include "net/socket.h"

/*
 * Where the kernel answers, the client has sent and received more than its socket knows of. When
 * this process is gone, and the programs that translate its segments, it would wait for ever: so
 * the end of the process resets the connection.
 */
static void open_slot(struct boundary *boundary, struct boundaries *boundaries, int fd,
                      rel_time now)
{
    boundary->slot = boundaries->open(boundaries, fd, boundary->nundone);
    boundary->answered = boundary->seen = 0;
    boundary->nwaits = boundary->npasses = 0;
    boundary->since = now;
    boundary->announced = false;
    if (boundary->slot)
        socket_set_reset(fd, true);
}

void boundary_park(struct boundary *boundary, rel_time now)
{
    if (boundary->seen >= BOUNDARY_PASSES_ANSWERED)
        boundary->ntries = 0; /* it was worth it */
    boundary->slot = NULL;
    boundary->ngets = 0;
    boundary->since = now + ((rel_time)BOUNDARY_RETRY << boundary->ntries);
    boundary->ntries += boundary->ntries < BOUNDARY_TRIES;
}

/* The kernel has answered nothing for long. */
static void give_up(struct boundary *boundary, struct boundaries *boundaries, int fd, rel_time now)
{
    boundary_withdraw(boundary);
    if (boundary_is_used(boundary) || !boundaries->release(boundaries, fd, boundary->slot))
        return;
    socket_set_reset(fd, false);
    boundary_park(boundary, now);
}

void boundary_weigh(struct boundary *boundary, struct boundaries *boundaries, int fd, rel_time now,
                    bool gains)
{
    uint32_t answered;

    if (!boundary->slot) {
        boundary->ngets += gains && boundary->ngets < BOUNDARY_GETS;
        if (boundary->ngets == BOUNDARY_GETS && now >= boundary->since)
            open_slot(boundary, boundaries, fd, now);
        return;
    }
    answered = __atomic_load_n(&boundary->slot->answered, __ATOMIC_RELAXED);
    boundary->npasses = answered == boundary->seen ? boundary->npasses + 1 : 0;
    boundary->seen = answered;
    boundary->since = now;
    if (boundary->npasses && boundary->npasses % BOUNDARY_PASSES == 0)
        give_up(boundary, boundaries, fd, now);
}

void boundary_refresh(struct boundary *boundary, struct boundaries *boundaries, rel_time now)
{
    if (!boundary->slot || !boundaries->refresh || boundary->answered == boundary->seen ||
        now < boundary->since + boundaries->refresh)
        return;
    boundary_withdraw(boundary);
    boundary->seen = boundary->answered;
    boundary->npasses = 0;
    boundaries->count_refresh(boundaries);
}

void boundary_announce(struct boundary *boundary, struct boundaries *boundaries, int fd)
{
    if (!boundary->announced && boundary_is_used(boundary))
        boundary->announced = boundaries->announce(boundaries, boundary->slot, fd);
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

enum undo_reason boundary_undo_reason(struct boundary *boundary, struct boundaries *boundaries,
                                      int fd, uint32_t nlooks, bool all)
{
    if (!boundary->slot)
        return UNDO_REASONS;
    boundary->one_of_all |= all && boundary_is_used(boundary);
    if (boundary->nlater && (int32_t)(nlooks - boundary->retry) < 0)
        return UNDO_REASONS;
    if (boundary_is_lost(boundary, boundaries, fd))
        return UNDO_LOST;
    if (boundary_wants_undo(boundary))
        return UNDO_UNUSED;
    return boundary->one_of_all
               ? (enum undo_reason)__atomic_load_n(&boundaries->why, __ATOMIC_RELAXED)
               : UNDO_REASONS;
}

void boundary_put_off(struct boundary *boundary, uint32_t nlooks)
{
    const uint32_t most = 5, n = boundary->nlater < most ? boundary->nlater : most;

    boundary->nlater++;
    boundary->retry = nlooks + (1u << n);
}

enum undo_result boundary_undo_slot(struct boundaries *boundaries, struct mc_tcp_slot *slot, int fd,
                                    enum undo_reason reason, uint32_t *nsent)
{
    struct undone undone;
    enum undo_result result = boundaries->undo(boundaries, slot, fd, reason, &undone);

    if (result != UNDO_DONE)
        return result;
    dup3(undone.fd, fd, O_CLOEXEC);
    close(undone.fd);
    socket_set_reset(fd, false);
    boundaries->close(boundaries, slot);
    *nsent = undone.nsent;
    return result;
}

enum undo_result boundary_undo(struct boundary *boundary, struct boundaries *boundaries, int fd,
                               rel_time now, enum undo_reason reason)
{
    enum undo_result result =
        boundary_undo_slot(boundaries, boundary->slot, fd, reason, &boundary->nsent);

    boundary->one_of_all &= result == UNDO_NOT_NOW;
    if (result != UNDO_DONE)
        return result;
    boundary->nread = 0;
    boundary->nlater = 0;
    boundary->nundone++;
    boundary_park(boundary, now);
    return result;
}

/*
 * The programs see the connection's segments no more, so its end would not be seen by the client
 * either, with the socket's numbers.
 */
void boundary_abandon(struct boundary *boundary, struct boundaries *boundaries, int fd)
{
    boundaries->count_lost(boundaries);
    boundaries->reset(boundaries, boundary->slot, fd);
    boundaries->close(boundaries, boundary->slot);
    boundary->slot = NULL;
}
