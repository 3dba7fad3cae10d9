/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boundary: how many bytes a connection has read and sent, and the slot in which it publishes that
 * to the kernel path (bpf/shared/tcp.h). The bytes are counted without a slot as well.
 */
#ifndef NET_BOUNDARY_H
#define NET_BOUNDARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/boundaries.h"
#include "base/clock.h"
#include "bpf/shared/tcp.h"

struct boundary {
    struct mc_tcp_slot *slot; /* NULL: the kernel answers nothing on the connection */
    uint32_t nread, nsent;    /* since it was accepted, modulo 2^32 */
    uint32_t answered;        /* the slot's, when boundary_answered was last called */
    uint32_t nwaits;          /* calls of boundary_waits in a row that found a reply outstanding */
    uint32_t seen;            /* the slot's `answered`, when the server last replied */
    uint32_t npasses;         /* replies of the server's since the kernel has last answered */
    rel_time since;  /* when the server last replied; without a slot: when it may have one */
    uint8_t ngets;   /* without a slot: gets that the kernel could have answered */
    uint8_t nundone; /* times that the connection has got another socket, modulo 256 */
    uint8_t ntries;  /* that were given up, in a row */
    bool shown;      /* the kernel may answer on the connection */
    uint32_t nlater; /* times in a row that it could not be undone yet, and */
    uint32_t retry;  /* at which of the worker's looks it may next */
    bool announced;  /* to netfilter */
    bool one_of_all; /* boundaries_undo_all means it as well, and it was not undone yet */
};

/*
 * When the kernel follows a connection, which costs: to begin as much as some 50 segments that it
 * passes, to undo what it has answered some 500. So it begins behind gets that it could have
 * answered, and is given up when so many segments were passed in a row as that costs: a connection
 * never loses more than twice what the best choice would.
 */
enum {
    BOUNDARY_GETS = 2,
    BOUNDARY_PASSES = 64,
    BOUNDARY_PASSES_ANSWERED = 512,
    BOUNDARY_RETRY = 2, /* seconds, and each time twice as long; also the least between two undos */
    BOUNDARY_TRIES = 5, /* as far as this */
};

/*
 * How often the server looks at slots, and undoes connections whose segments take a path without
 * the programs (kmem/tcp.c).
 */
enum {
    BOUNDARY_LOOK_MS = 250,
    BOUNDARY_LOOKS = 1000 / BOUNDARY_LOOK_MS,
    BOUNDARY_WAITS = 5 * BOUNDARY_LOOKS, /* for which a client may be silent: five seconds */
};

/*
 * Whether boundary_weigh does anything before a reply: not on a connection that gains nothing, and
 * pays no more for that than this question.
 */
static inline bool boundary_is_weighed(const struct boundary *boundary, bool gains)
{
    return gains || boundary->slot || boundary->ngets == BOUNDARY_GETS;
}

/*
 * To be called before each reply of a connection that is shown, if it is weighed. gains: it answers
 * a get that the kernel could have answered. Takes a slot for the connection, or gives it back.
 */
void boundary_weigh(struct boundary *boundary, struct boundaries *boundaries, int fd, rel_time now,
                    bool gains);
/* The connection has no slot any more; it may have another some time later. */
void boundary_park(struct boundary *boundary, rel_time now);
/*
 * To be called BOUNDARY_LOOKS times a second, after boundary_answered. Leaves the connection's next
 * get to the server if the kernel has answered all for as long as the `refresh` of `boundaries`.
 */
void boundary_refresh(struct boundary *boundary, struct boundaries *boundaries, rel_time now);
/*
 * To be called as often while the kernel answers nothing. A client whose segments netfilter drops
 * is silent as well.
 */
void boundary_announce(struct boundary *boundary, struct boundaries *boundaries, int fd);
/* Gives the slot back: the kernel has answered nothing on the connection. */
void boundary_close(struct boundary *boundary, struct boundaries *boundaries, int fd);
/* Whether segments of the connection have taken a way without the programs for too long. */
bool boundary_is_lost(const struct boundary *boundary, struct boundaries *boundaries, int fd);
/*
 * Why to undo the connection; UNDO_REASONS: it stays as it is. nlooks: of the worker. all: those on
 * which the kernel has answered, for the reason of boundaries_undo_all.
 */
enum undo_reason boundary_undo_reason(struct boundary *boundary, struct boundaries *boundaries,
                                      int fd, uint32_t nlooks, bool all);
/* An undo did not succeed: the next one comes after 1, 2, 4, ... 32 looks. */
void boundary_put_off(struct boundary *boundary, uint32_t nlooks);
/*
 * Puts a socket that needs no translation in the place of the connection's, with the same
 * descriptor, of which the caller watches no event meanwhile. Gives the slot back, unless it is too
 * early. To be called after boundary_withdraw.
 */
enum undo_result boundary_undo(struct boundary *boundary, struct boundaries *boundaries, int fd,
                               rel_time now, enum undo_reason reason);
/* The same where there is no boundary any more. *nsent: what the new socket counts as sent. */
enum undo_result boundary_undo_slot(struct boundaries *boundaries, struct mc_tcp_slot *slot, int fd,
                                    enum undo_reason reason, uint32_t *nsent);
/* Resets such a connection, and gives the slot back. */
void boundary_abandon(struct boundary *boundary, struct boundaries *boundaries, int fd);

/*
 * To be called when all that was read is executed, before the last `unsent` bytes of the replies
 * are given to the socket. Release: a program that sees the boundary sees the effects of the
 * commands before it. binary: the connection speaks that protocol.
 */
static inline void boundary_publish(struct boundary *boundary, size_t unsent, bool binary)
{
    const uint32_t sent = boundary->nsent + (uint32_t)unsent;

    __atomic_store_n(&boundary->slot->binary, binary, __ATOMIC_RELAXED);
    __atomic_store_n(&boundary->slot->boundary, mc_tcp_boundary(boundary->nread, sent),
                     __ATOMIC_RELEASE);
}

/* The kernel answers nothing from now on, until the next boundary. */
static inline void boundary_withdraw(struct boundary *boundary)
{
    if (boundary->slot)
        __atomic_store_n(&boundary->slot->boundary, MC_TCP_NONE, __ATOMIC_RELEASE);
}

/* Whether the kernel has answered a request since the last call. */
static inline bool boundary_answered(struct boundary *boundary)
{
    uint32_t before = boundary->answered;

    if (boundary->slot)
        boundary->answered = __atomic_load_n(&boundary->slot->answered, __ATOMIC_RELAXED);
    if (boundary->answered == before)
        return false;
    boundary->nwaits = 0;
    return true;
}

/*
 * Whether the kernel has answered a request on the connection at all; to be called after
 * boundary_withdraw, so that it does not begin to.
 */
static inline bool boundary_is_used(const struct boundary *boundary)
{
    return boundary->slot && (__atomic_load_n(&boundary->slot->answered, __ATOMIC_RELAXED) |
                              __atomic_load_n(&boundary->slot->outstanding, __ATOMIC_RELAXED));
}

/*
 * Whether the server should undo what the kernel has answered: the connection gains nothing, since
 * it asks for what the kernel does not answer; or its client is silent, and the kernel keeps a
 * reply for it, for which there are few places.
 */
static inline bool boundary_wants_undo(const struct boundary *boundary)
{
    return (boundary->npasses >= BOUNDARY_PASSES_ANSWERED || boundary->nwaits >= BOUNDARY_WAITS) &&
           boundary_is_used(boundary);
}

/*
 * To be called BOUNDARY_LOOKS times a second, after boundary_answered said no. Whether to send the
 * kernel's last replies once more (socket_probe): the client has not acknowledged them for 1, 2, 4,
 * ... seconds. The client asks for it by itself if it misses it; but
 *
 * - as long as what it asks is lost, or the copy that it gets, nothing else would reach it, where a
 *   socket sends again what is not acknowledged;
 * - it may have dropped the reply for lack of room, but taken the acknowledgement of its request
 *   that comes with it, and what it sent when it had room again was lost.
 */
static inline bool boundary_waits(struct boundary *boundary)
{
    if (!boundary->slot || !__atomic_load_n(&boundary->slot->outstanding, __ATOMIC_RELAXED)) {
        boundary->nwaits = 0;
        return false;
    }
    boundary->nwaits++;
    return boundary->nwaits >= BOUNDARY_LOOKS && !(boundary->nwaits & (boundary->nwaits - 1));
}

#endif
