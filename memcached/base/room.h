/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room: how much memory the process's cgroups still allow it.
 *
 * At a cgroup's limit the kernel first reclaims pages that it can read again, the program's own
 * code among them, and then kills. So a provider checks, before it takes memory for the cache,
 * whether the limits of all cgroups above the process, which may change at any time, leave room for
 * it and for a reserve: connections and other memory that is not checked. Page cache counts as
 * room.
 *
 * Both versions of cgroups; where neither is mounted there is always room. From any thread.
 */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct room;

/* What a provider was refused at its last try, as bits. */
enum room_kind { ROOM_TABLE = 1 << 0, ROOM_SEGMENT = 1 << 1 };

/* proc: "/proc/self". NULL: there is no memory cgroup; legal below, and there is always room. */
struct room *room_new(const char *proc);
void room_free(struct room *room);
/* Whether any level has a limit now. */
bool room_is_limited(const struct room *room);
/* Whether there is room for `nbytes` more. */
bool room_for(const struct room *room, uint64_t nbytes);
/*
 * The same for a heap extent that a provider maps. The first is never refused: a server cannot
 * start without it. unused: bytes of earlier extents that take no memory yet. After a refusal the
 * next extent needs a little more room, so that growth does not start and stop in turn.
 */
bool room_for_segment(const struct room *room, uint32_t index, uint64_t unused,
                      unsigned int refused);
bool room_for_table(const struct room *room, uint32_t index);

/* Whether to log that memory ran short, or that it is available again: once for each change. */
bool room_ends(unsigned int *refused, enum room_kind kind);
bool room_returns(unsigned int *refused, enum room_kind kind);

#endif
