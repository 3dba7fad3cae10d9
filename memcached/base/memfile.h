/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memfile: a provider whose heap extents are in a file, so that another process finds them again:
 * on tmpfs, memory that outlives the server (-e).
 *
 * Without an inner provider the extents are the mapped file. With one, whose memory the kernel
 * programs see, they are copied from the file when they are mapped, and to it by memfile_save.
 * Tables and control block are never saved.
 */
#ifndef BASE_MEMFILE_H
#define BASE_MEMFILE_H

#include <stdbool.h>

#include "base/provider.h"

/*
 * Opens or creates the file and locks it against a second server. inner: NULL, or the provider of
 * the extents; it must outlive this one. NULL with errno: EWOULDBLOCK if another server has the
 * file, EPERM if it is another user's.
 */
struct provider *memfile_open(const char *path, struct provider *inner);
/* Discards the file's contents: extents are zero. Before the first is mapped. 0 or -errno. */
int memfile_clear(struct provider *memfile);
/* Extents that the file holds already. */
uint32_t memfile_kept(struct provider *memfile);
/* Writes all extents to the file and syncs it. 0 or -errno. */
int memfile_save(struct provider *memfile);
/* NULL is legal. Its mappings stay. */
void memfile_close(struct provider *memfile);

#endif
