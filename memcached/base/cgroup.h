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
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup;

/* What a provider was refused at its last try, as bits. */
enum cgroup_kind { CGROUP_TABLE = 1 << 0, CGROUP_EXTENT = 1 << 1 };

/* proc: "/proc/self". NULL: there is no memory cgroup; legal below, and there is always room. */
struct cgroup *cgroup_new(const char *proc);
void cgroup_free(struct cgroup *cgroup);
/* Whether any level has a limit now. */
bool cgroup_is_limited(const struct cgroup *cgroup);
/* Whether there is room for `nbytes` more. */
bool cgroup_has_room(const struct cgroup *cgroup, uint64_t nbytes);
/* The folder of the process's cgroup of version 2: a descriptor, or -errno (ENOENT: it has none).
 */
int cgroup_open(const char *proc);
/*
 * Whether there is room for a heap extent that a provider maps. The first always has room: a server
 * cannot start without it. unused: bytes of earlier extents that take no memory yet. After a
 * refusal the next extent needs a little more room, so that growth does not start and stop in turn.
 */
bool cgroup_has_room_for_extent(const struct cgroup *cgroup, uint32_t index, uint64_t unused,
                                unsigned int refused);
bool cgroup_has_room_for_table(const struct cgroup *cgroup, uint32_t index);

/* Whether to log that memory ran short, or that it is available again: once for each change. */
bool cgroup_shortage_begins(unsigned int *refused, enum cgroup_kind kind);
bool cgroup_shortage_ends(unsigned int *refused, enum cgroup_kind kind);

#endif
