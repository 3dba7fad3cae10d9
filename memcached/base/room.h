/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room: how much memory the process's cgroups still allow it.
 *
 * At a cgroup's limit the kernel takes away what it can read again, the program's own code first,
 * and then kills. So whoever is about to take memory for the cache asks before whether the limits
 * of all cgroups above the process, which may be changed at any time, leave room for it and for a
 * reserve: for connections, and all else that the program cannot ask for. Page cache is room.
 *
 * Both versions of cgroups; where neither is mounted there is always room. From any thread.
 */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct room;

/* What a provider was refused the last time, as bits. */
enum room_kind { ROOM_TABLE = 1 << 0, ROOM_SEGMENT = 1 << 1 };

/* proc: "/proc/self". NULL, which is legal below and always room: there is no cgroup of memory. */
struct room *room_new(const char *proc);
void room_free(struct room *room);
/* Whether there is a limit, now. */
bool room_is_limited(const struct room *room);
/* Whether there is room for so many bytes more. */
bool room_for(const struct room *room, uint64_t nbytes);
/*
 * The same for a segment of what a provider maps, of which the first is never refused: a server
 * cannot start without. unused: bytes of the segments before that take no memory yet. Who was
 * refused one needs a little more for the next, so as not to go on and stop in turn.
 */
bool room_for_segment(const struct room *room, uint32_t index, uint64_t unused,
                      unsigned int refused);
bool room_for_table(const struct room *room, uint32_t index);

/* Whether it is to be said that memory ran short, or that it came back: not each time. */
bool room_ends(unsigned int *refused, enum room_kind kind);
bool room_returns(unsigned int *refused, enum room_kind kind);

#endif
